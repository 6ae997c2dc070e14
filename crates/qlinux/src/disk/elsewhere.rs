// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weights that were said elsewhere: `io.weight` of systemd's `IOWeight=`, `io.bfq.weight` of
//! Docker's `--blkio-weight`. Cello sees who writes them (kernel/disk/weight.c), but not what was
//! written before its module was loaded: that is written once more, unchanged.

use crate::cgroup::Hierarchy;
use crate::ClassPath;
use std::fs;
use std::path::Path;

/// The last one counts, if both are set.
const FILES: [&str; 2] = ["io.bfq.weight", "io.weight"];

/// What both have if nothing was said.
const USUAL: u32 = 100;

/// Tells Cello of the weights there are. A cgroup that goes meanwhile needs none.
pub(super) fn tell(fs: &Hierarchy) {
    for path in fs.walk(&ClassPath::root()) {
        for name in FILES {
            repeat(&fs.directory(&path).join(name));
        }
    }
}

fn repeat(file: &Path) {
    let text = fs::read_to_string(file).unwrap_or_default();
    if let Some(weight) = for_all_disks(&text).filter(|weight| *weight != USUAL) {
        let _ = fs::write(file, format!("default {weight}\n"));
    }
}

/// `default 300`, or `300` of BFQ before Linux 5.5; lines for single disks follow.
fn for_all_disks(text: &str) -> Option<u32> {
    let line = text.lines().next()?;
    line.strip_prefix("default ").unwrap_or(line).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::fake::Fake;

    #[test]
    fn what_was_said_is_repeated_and_nothing_else() {
        let fake = Fake::new();
        fake.class("/a", "domain", "", "");
        let path = fake.class("/a/b", "domain", "", "");
        let file = fake.fs.directory(&path).join("io.weight");
        for (before, after) in [
            ("default 300\n8:0 50\n", "default 300\n"),
            ("250\n", "default 250\n"),
            ("default 100\n8:0 50\n", "default 100\n8:0 50\n"),
            ("none\n", "none\n"),
            ("", ""),
        ] {
            fs::write(&file, before).unwrap();
            tell(&fake.fs);
            assert_eq!(fake.text(&path, "io.weight"), after);
        }
        fs::remove_file(&file).unwrap();
        tell(&fake.fs);
        assert!(!file.exists());
    }
}
