// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line of `/proc/PID/stat`, proc_pid_stat(5).

/// A field after the name, by its number: 3 is the state. A name may contain anything, `)` too, and
/// need not be text.
pub(crate) fn field(line: &[u8], number: usize) -> Option<&str> {
    const FIRST: usize = 3;
    let name_ends = line.iter().rposition(|byte| *byte == b')')?;
    let after_name = std::str::from_utf8(line.get(name_ends + 2..)?).ok()?;
    after_name.split_whitespace().nth(number - FIRST)
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn fields_are_told_from_names() {
        let line = b"7 (a) S 1 \xff) R 1 70 71 0 -1 4194372 0\n";
        assert_eq!(field(line, 3), Some("R"));
        assert_eq!(field(line, 9), Some("4194372"));
        assert_eq!(field(line, 10), Some("0"));
        assert_eq!(field(line, 11), None);
        assert_eq!(field(b"7 (a)", 3), None);
        assert_eq!(field(b"", 3), None);
    }
}
