// SPDX-License-Identifier: MIT OR Apache-2.0
//! Taking back what was done when a later step fails.

type Step<'a> = Box<dyn FnOnce() + 'a>;

/// The steps back, run last first when dropped, unless all went well.
#[derive(Default)]
pub(crate) struct Undo<'a>(Vec<Step<'a>>);

impl<'a> Undo<'a> {
    pub fn new() -> Self {
        Undo(Vec::new())
    }

    /// Something was done; this takes it back, as well as it can.
    pub fn push(&mut self, step: impl FnOnce() + 'a) {
        self.0.push(Box::new(step));
    }

    /// All went well: nothing is taken back.
    pub fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        while let Some(step) = self.0.pop() {
            step();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn backwards_unless_kept() {
        let done = RefCell::new(Vec::new());
        for keep in [true, false] {
            let mut undo = Undo::new();
            undo.push(|| done.borrow_mut().push(1));
            undo.push(|| done.borrow_mut().push(2));
            if keep {
                undo.keep();
            }
        }
        assert_eq!(*done.borrow(), [2, 1]);
    }
}
