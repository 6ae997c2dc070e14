// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes of traffic, the same for every side.

use anyhow::{Context, Result};

/// In which order a class sends its own packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaf {
    /// It has classes below it and no packets of its own.
    Inner,
    /// As they came.
    Fifo,
    /// Flow by flow.
    Fq,
}

/// How packets come to a class where the side does not know cgroups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pick {
    /// By the mark of its number: what the lab's own workloads set.
    Mark,
    /// By the port they come from: what a real server has.
    From(u16),
}

/// A class of traffic.
#[derive(Clone, PartialEq, Debug)]
pub struct Class {
    /// From the root, as in `/a/b`.
    pub path: String,
    /// Against its siblings.
    pub weight: u32,
    /// Its packets.
    pub leaf: Leaf,
    /// And which they are.
    pub pick: Pick,
}

impl Class {
    /// What is above it, empty for the root.
    pub fn parent(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(parent, _)| parent)
    }

    /// Classes on its path, itself among them.
    pub fn depth(&self) -> usize {
        self.path.matches('/').count()
    }
}

/// Classes, parents before their children.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tree {
    /// By number.
    pub classes: Vec<Class>,
}

/// The mark of the class with this number.
pub fn mark(index: usize) -> u32 {
    1 + index as u32
}

impl Tree {
    /// Classes by path and weight; those that are nobody's parent are FIFO leaves.
    pub fn new<'a>(classes: impl IntoIterator<Item = (&'a str, u32)>) -> Tree {
        let class = |(path, weight): (&str, u32)| Class {
            path: path.to_owned(),
            weight,
            leaf: Leaf::Fifo,
            pick: Pick::Mark,
        };
        let mut classes: Vec<Class> = classes.into_iter().map(class).collect();
        let parents: Vec<String> = classes.iter().map(|c| c.parent().to_owned()).collect();
        for class in &mut classes {
            if parents.contains(&class.path) {
                class.leaf = Leaf::Inner;
            }
        }
        Tree { classes }
    }

    /// Leaves side by side: /c0, /c1 and so on.
    pub fn flat(weights: &[u32]) -> Tree {
        let paths: Vec<String> = (0..weights.len()).map(|i| format!("/c{i}")).collect();
        Tree::new(
            paths
                .iter()
                .map(String::as_str)
                .zip(weights.iter().copied()),
        )
    }

    /// Changes one class.
    pub fn with(mut self, path: &str, change: impl FnOnce(&mut Class)) -> Tree {
        if let Some(class) = self.classes.iter_mut().find(|class| class.path == path) {
            change(class);
        }
        self
    }

    /// Number of a class.
    pub fn index(&self, path: &str) -> Result<usize> {
        let found = self.classes.iter().position(|class| class.path == path);
        found.with_context(|| format!("there is no class {path} on the link"))
    }

    /// Numbers of the classes that have packets.
    pub fn leaves(&self) -> impl Iterator<Item = usize> + '_ {
        let all = self.classes.iter().enumerate();
        all.filter(|(_, class)| class.leaf != Leaf::Inner)
            .map(|(index, _)| index)
    }

    /// The part of its parent's service that a class gets while all its siblings have packets.
    fn part(&self, class: &Class) -> f64 {
        let siblings = self.classes.iter().filter(|c| c.parent() == class.parent());
        let sum: u32 = siblings.map(|sibling| sibling.weight).sum();
        f64::from(class.weight) / f64::from(sum)
    }

    /// The part of the link that the class with this number gets while all leaves have packets.
    pub fn share(&self, index: usize) -> f64 {
        let class = &self.classes[index];
        let above = self.classes.iter().position(|c| c.path == class.parent());
        self.part(class) * above.map_or(1.0, |parent| self.share(parent))
    }

    /// The least weight among a class and its siblings.
    pub fn least_weight(&self, class: &Class) -> u32 {
        let siblings = self.classes.iter().filter(|c| c.parent() == class.parent());
        siblings.map(|c| c.weight).min().unwrap_or(class.weight)
    }

    /// Levels below the root.
    pub fn depth(&self) -> usize {
        self.classes.iter().map(Class::depth).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_multiply_down_the_tree() {
        let tree = Tree::new([("/a", 1), ("/b", 3), ("/b/x", 1), ("/b/y", 2)]);
        assert_eq!(tree.leaves().collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!(tree.share(0), 0.25);
        assert_eq!(tree.share(2), 0.25);
        assert_eq!(tree.share(3), 0.5);
        assert_eq!(tree.depth(), 2);
        assert_eq!(tree.classes[2].parent(), "/b");
        assert_eq!(tree.least_weight(&tree.classes[3]), 1);
        assert!(tree.index("/c").is_err());
    }
}
