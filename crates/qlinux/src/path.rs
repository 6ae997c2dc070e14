// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of classes.

use crate::{Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Longest name of one class, the file system's limit.
const NAME_MAX: usize = 255;

/// Path of a class, which is a cgroup below the cgroup v2 mount: `/a/b`.
/// Normalised: starts with `/`, no empty component, no `.` or `..`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassPath(String);

impl ClassPath {
    /// `/`, the class of whatever has no other.
    pub fn root() -> ClassPath {
        ClassPath("/".into())
    }

    /// Is it `/`?
    pub fn is_root(&self) -> bool {
        self.0 == "/"
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its last component; `/` for the root.
    pub fn name(&self) -> &str {
        if self.is_root() {
            return "/";
        }
        self.0.rsplit('/').next().unwrap_or("/")
    }

    /// Its names from the top, none for the root.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|c| !c.is_empty())
    }

    /// The class above it; `None` for the root.
    pub fn parent(&self) -> Option<ClassPath> {
        let cut = self.0.rfind('/')?;
        match (self.is_root(), cut) {
            (true, _) => None,
            (false, 0) => Some(ClassPath::root()),
            (false, n) => Some(ClassPath(self.0[..n].into())),
        }
    }

    /// From the root down to the parent.
    pub fn ancestors(&self) -> Vec<ClassPath> {
        let mut all: Vec<_> = std::iter::successors(self.parent(), ClassPath::parent).collect();
        all.reverse();
        all
    }

    /// The class `name`, or `name/deeper`, below it.
    pub fn join(&self, name: &str) -> Result<ClassPath> {
        format!("{}/{name}", self.0).parse()
    }

    /// A path the kernel reported, taken as it is.
    pub(crate) fn from_kernel(path: &str) -> ClassPath {
        let path = path.trim_end_matches('/');
        ClassPath(if path.is_empty() {
            "/".into()
        } else {
            path.into()
        })
    }

    /// Its directory below the mount point.
    pub(crate) fn below(&self, mount: &Path) -> PathBuf {
        mount.join(self.0.trim_start_matches('/'))
    }
}

impl FromStr for ClassPath {
    type Err = Error;

    fn from_str(path: &str) -> Result<ClassPath> {
        let refuse = |why| {
            Err(Error::Path {
                path: path.escape_debug().to_string(),
                why,
            })
        };
        if !path.starts_with('/') {
            return refuse("it does not start with /");
        }
        if path.contains(['\n', '\0']) {
            return refuse("it holds a line break or NUL");
        }
        let mut normal = String::new();
        for component in path.split('/').filter(|c| !c.is_empty()) {
            if component == "." || component == ".." {
                return refuse("it holds . or ..");
            }
            if component.len() > NAME_MAX {
                return refuse("a name in it is longer than 255 bytes");
            }
            normal.push('/');
            normal.push_str(component);
        }
        if normal.len() >= 4096 {
            return refuse("it is longer than 4095 bytes");
        }
        Ok(ClassPath::from_kernel(&normal))
    }
}

impl fmt::Display for ClassPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ClassPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl serde::Serialize for ClassPath {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ClassPath {
        text.parse().unwrap()
    }

    #[test]
    fn paths_are_normalised() {
        assert_eq!(path("//a///b/").as_str(), "/a/b");
        assert_eq!(path("///").as_str(), "/");
        assert_eq!(path("/a/b").name(), "b");
        assert_eq!(path("/").name(), "/");
    }

    #[test]
    fn wrong_paths_are_refused() {
        for wrong in ["", "a", "a/b", "/a/../b", "/..", "/./a", "/a\nb", "/a\0"] {
            let refusal = wrong.parse::<ClassPath>().unwrap_err();
            assert!(refusal.is_usage(), "{wrong:?}: {refusal}");
        }
        assert!(format!("/{}", "x".repeat(256))
            .parse::<ClassPath>()
            .is_err());
        assert!("/xyz".repeat(1100).parse::<ClassPath>().is_err());
    }

    #[test]
    fn relatives() {
        assert_eq!(path("/").parent(), None);
        assert_eq!(path("/a").parent(), Some(path("/")));
        assert_eq!(path("/a/b").parent(), Some(path("/a")));
        assert_eq!(
            path("/a/b/c").ancestors(),
            [path("/"), path("/a"), path("/a/b")]
        );
        assert!(path("/").ancestors().is_empty());
        assert_eq!(path("/a").join("b/c").unwrap(), path("/a/b/c"));
        assert_eq!(path("/").join("b").unwrap(), path("/b"));
        assert!(path("/a").join("..").is_err());
    }
}
