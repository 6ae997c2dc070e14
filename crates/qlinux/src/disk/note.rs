// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a disk was before Cello, noted in /run, which the next boot clears as it does the
//! scheduler.

use super::Disk;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const FOLDER: &str = "/run/qlinux/disk";
/// Longest name of a disk, the kernel's limit.
const NAME_MAX: usize = 255;

/// How a disk was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    /// Tells it from another disk of that name.
    pub sequence: String,
    /// The scheduler.
    pub scheduler: String,
    /// What else switching changes, by file below the disk's `queue`: the scheduler's own
    /// attributes, and the number of requests, come with each scheduler anew.
    pub files: BTreeMap<String, String>,
}

/// Whether it turns, as far as the kernel was told.
pub(super) const ROTATIONAL: &str = "rotational";

/// Files that a switch changes.
const SWITCHED: [&str; 3] = ["nr_requests", ROTATIONAL, "wbt_lat_usec"];

impl Note {
    /// Of a disk as it is now.
    pub fn of(disk: &Disk, scheduler: &str) -> Note {
        let mut names: Vec<String> = SWITCHED.map(String::from).to_vec();
        let own = fs::read_dir(disk.file("queue/iosched"))
            .into_iter()
            .flatten();
        names.extend(own.flatten().filter_map(|entry| {
            let writable = entry
                .metadata()
                .is_ok_and(|meta| !meta.permissions().readonly());
            let name = entry.file_name().into_string().ok()?;
            writable.then(|| format!("iosched/{name}"))
        }));
        let read = |name: String| {
            let text = disk.text(&format!("queue/{name}")).ok()?;
            // A line of the note; what takes more is no plain value.
            (!text.contains('\n')).then_some((name, text))
        };
        let mut files: BTreeMap<_, _> = names.into_iter().filter_map(read).collect();
        // A scheduler that somebody else chose meanwhile did not put that back.
        let left = Note::read(disk.name()).filter(|note| note.sequence == disk.sequence());
        if let Some(was) = left.and_then(|mut note| note.files.remove(ROTATIONAL)) {
            files.insert(ROTATIONAL.into(), was);
        }
        Note {
            sequence: disk.sequence(),
            scheduler: scheduler.into(),
            files,
        }
    }

    fn to_text(&self) -> String {
        let mut text = format!("sequence {}\nscheduler {}\n", self.sequence, self.scheduler);
        for (name, value) in &self.files {
            text += &format!("file {name} {value}\n");
        }
        text
    }

    fn from_text(text: &str) -> Option<Note> {
        let mut note = Note {
            sequence: String::new(),
            scheduler: String::new(),
            files: BTreeMap::new(),
        };
        for line in text.lines() {
            let (what, value) = line.split_once(' ')?;
            match what {
                "sequence" => note.sequence = value.into(),
                "scheduler" => note.scheduler = value.into(),
                "file" => {
                    let (name, value) = value.split_once(' ')?;
                    if name.split('/').any(|part| part.is_empty() || part == "..") {
                        return None;
                    }
                    note.files.insert(name.into(), value.into());
                }
                _ => return None,
            }
        }
        (!note.scheduler.is_empty()).then_some(note)
    }

    /// Puts back what differs, once the scheduler of before is there again. Returns the files
    /// that the kernel did not let have their value.
    pub fn put_back(&self, disk: &Disk) -> Vec<String> {
        let differs = |name: &str, value: &str| {
            let now = disk.text(&format!("queue/{name}"));
            now.is_ok_and(|now| now != value)
        };
        let mut failed = Vec::new();
        for (name, value) in &self.files {
            let back = !differs(name, value)
                || disk.write(&format!("queue/{name}"), value).is_ok() && !differs(name, value);
            if !back {
                failed.push(name.clone());
            }
        }
        failed
    }

    /// Keeps it, in place of an earlier one.
    pub fn keep(&self, name: &str) -> Result<()> {
        let path = path(name);
        let folder = Path::new(FOLDER);
        fs::create_dir_all(folder).map_err(|e| Error::io("creating", folder, e))?;
        let part = folder.join(format!("{name}.part"));
        fs::write(&part, self.to_text()).map_err(|e| Error::io("writing", &part, e))?;
        fs::rename(&part, &path).map_err(|e| Error::io("writing", &path, e))
    }

    /// That of the disk with this name; one that is not readable is none.
    pub fn read(name: &str) -> Option<Note> {
        if name.is_empty() || name.len() > NAME_MAX || name.contains(['/', '\0']) {
            return None;
        }
        Note::from_text(&fs::read_to_string(path(name)).ok()?)
    }
}

fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// Forgets how a disk was.
pub(super) fn forget(name: &str) -> Result<()> {
    let path = path(name);
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("deleting", &path, e)),
        _ => Ok(()),
    }
}

/// When a disk was noted, in seconds of the Unix epoch.
pub(super) fn since(name: &str) -> Option<f64> {
    let at = fs::metadata(path(name)).ok()?.modified().ok()?;
    let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(since.as_secs_f64())
}

/// Names of all disks of which something is noted.
pub(super) fn all() -> Vec<String> {
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let mut all: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.ends_with(".part"))
        .collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::super::device::fake::Fake;
    use super::*;
    use proptest::prelude::*;
    use qlinux_properties::cases;

    #[test]
    fn what_a_switch_changes_is_put_back() {
        let fake = Fake::new();
        let disk = fake.disk("sda", Some("none [mq-deadline] cello\n"));
        disk_file(&disk, "nr_requests", "64\n");
        disk_file(&disk, "iosched/read_expire", "500\n");
        disk_file(&disk, "iosched/several", "1\n2\n");
        let note = Note::of(&disk, "mq-deadline");
        let names: Vec<_> = note.files.keys().map(String::as_str).collect();
        assert_eq!(names, ["iosched/read_expire", "nr_requests"]);
        assert_eq!(Note::from_text(&note.to_text()), Some(note.clone()));
        disk_file(&disk, "nr_requests", "128\n");
        assert!(note.put_back(&disk).is_empty());
        assert_eq!(disk.text("queue/nr_requests").unwrap(), "64");
    }

    #[test]
    fn what_the_kernel_does_not_take_is_told() {
        let fake = Fake::new();
        let disk = fake.disk("sda", Some("[none] cello\n"));
        disk_file(&disk, "nr_requests", "64\n");
        let note = Note::of(&disk, "none");
        std::fs::remove_file(disk.file("queue/nr_requests")).unwrap();
        assert!(note.put_back(&disk).is_empty(), "it is not there");
        std::os::unix::fs::symlink("/proc/self/comm", disk.file("queue/nr_requests")).unwrap();
        let takes_something_else = Note {
            files: [("nr_requests".into(), "a\tname that is longer".into())].into(),
            ..note
        };
        assert_eq!(takes_something_else.put_back(&disk), ["nr_requests"]);
    }

    fn disk_file(disk: &Disk, name: &str, text: &str) {
        fs::write(disk.file(&format!("queue/{name}")), text).unwrap();
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn notes_come_back(sequence in "[0-9]{0,9}", scheduler in "[a-z-]{1,15}",
            files in proptest::collection::btree_map("[a-z_]{1,9}(/[a-z_]{1,9})?", "[ -~]{0,20}", 0..5)) {
            let note = Note { sequence, scheduler, files };
            prop_assert_eq!(Note::from_text(&note.to_text()), Some(note));
        }

        #[test]
        fn no_note_panics(text in any::<String>(), name in any::<String>()) {
            if let Some(note) = Note::from_text(&text) {
                prop_assert!(note.files.keys().all(|name| !name.contains("..")));
            }
            let _ = Note::read(&name);
        }
    }
}
