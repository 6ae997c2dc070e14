// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block devices and their I/O schedulers.

use super::Refusal;
use crate::{Error, Result};
use nix::errno::Errno;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The name of Cello among the kernel's I/O schedulers.
pub(super) const CELLO: &str = "cello";

/// A whole disk, which has a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// As the kernel calls it, such as `sda`.
    name: String,
    /// Its directory in sysfs.
    folder: PathBuf,
}

impl Disk {
    /// By its name (`sda`), or that of a block device (`/dev/sda`, `/dev/disk/by-label/data`);
    /// a partition means its disk.
    pub fn find(name: &str) -> Result<Disk> {
        Disk::find_in(Path::new("/sys"), name)
    }

    fn find_in(sys: &Path, name: &str) -> Result<Disk> {
        let absent = || Refusal::NoDisk {
            name: name.escape_debug().to_string(),
        };
        if name.is_empty() || name.contains('\0') || matches!(name, "." | "..") {
            return Err(absent().into());
        }
        let path = match name.starts_with('/') {
            true => by_device(sys, Path::new(name))?,
            // The kernel writes / in a device's name, cciss/c0d0, as !.
            false => sys.join("class/block").join(name.replace('/', "!")),
        };
        let folder = fs::canonicalize(&path).map_err(|_| absent())?;
        let disk = match folder.join("partition").exists() {
            true => folder.parent().map(Path::to_path_buf),
            false => Some(folder),
        };
        let disk = disk.ok_or_else(absent)?;
        Disk::at(disk).ok_or_else(|| absent().into())
    }

    fn at(folder: PathBuf) -> Option<Disk> {
        let name = folder.file_name()?.to_str()?.to_string();
        Some(Disk { name, folder })
    }

    /// All of this machine, whether they have a scheduler or not.
    pub fn all() -> Vec<Disk> {
        Disk::all_in(Path::new("/sys"))
    }

    fn all_in(sys: &Path) -> Vec<Disk> {
        let entries = fs::read_dir(sys.join("block")).into_iter().flatten();
        let mut all: Vec<Disk> = entries
            .flatten()
            .filter_map(|entry| Disk::at(fs::canonicalize(entry.path()).ok()?))
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// As the kernel calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A file below its directory.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What a file below its directory says.
    pub(super) fn text(&self, name: &str) -> io::Result<String> {
        Ok(fs::read_to_string(self.file(name))?.trim().to_string())
    }

    /// Writes a file in one call: the kernel takes each as one value.
    pub(super) fn write(&self, name: &str, value: impl ToString) -> io::Result<()> {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(self.file(name))?;
        file.write_all(value.to_string().as_bytes())
    }

    /// `major:minor`, as cgroup files have it.
    pub(super) fn number(&self) -> Option<String> {
        self.text("dev").ok()
    }

    /// The scheduler in force. Refused for a device that cannot have one.
    pub fn scheduler(&self) -> Result<String> {
        let file = "queue/scheduler";
        let refuse = || Refusal::NoScheduler {
            dev: self.name.clone(),
            why: self.why_none(),
        };
        match self.text(file) {
            // A device that cannot have one calls that `none`; one that could, `[none]`.
            Ok(text) => Ok(chosen(&text).ok_or_else(refuse)?.to_string()),
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.folder.exists() => {
                Err(refuse().into())
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Refusal::NoDisk {
                name: self.name.clone(),
            }
            .into()),
            Err(e) => Err(Error::io("reading", &self.file(file), e)),
        }
    }

    /// Does Cello schedule it?
    pub fn under_cello(&self) -> bool {
        self.text("queue/scheduler")
            .is_ok_and(|text| chosen(&text) == Some(CELLO))
    }

    /// Refuses a disk that Cello does not schedule.
    pub fn require_cello(&self) -> Result<()> {
        match self.scheduler()? == CELLO {
            true => Ok(()),
            false => Err(Refusal::Down {
                dev: self.name.clone(),
            }
            .into()),
        }
    }

    /// Why it cannot have a scheduler, and what to do.
    fn why_none(&self) -> String {
        let below = fs::read_dir(self.file("slaves")).into_iter().flatten();
        let mut below: Vec<String> = below
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        below.sort();
        match below.is_empty() {
            false => format!(
                "it passes requests on to {}: name the disks below it",
                below.join(", ")
            ),
            true => "it serves requests as they come: name a disk that queues them, as \
                     `grep . /sys/block/*/queue/scheduler` has them"
                .into(),
        }
    }

    /// Switches to another scheduler.
    pub(super) fn set_scheduler(&self, scheduler: &str) -> Result<()> {
        self.write("queue/scheduler", scheduler).map_err(|e| {
            match e.raw_os_error().map(Errno::from_raw) {
                Some(Errno::EACCES | Errno::EPERM) => {
                    Error::io("writing", &self.file("queue/scheduler"), e)
                }
                errno => Refusal::NotSwitched {
                    dev: self.name.clone(),
                    scheduler: scheduler.into(),
                    why: crate::cgroup::words(&e),
                    errno: errno.unwrap_or(Errno::EIO),
                }
                .into(),
            }
        })
    }

    /// What the kernel chooses for a disk that nobody chose anything for.
    pub(super) fn usual_scheduler(&self) -> &'static str {
        let queues = fs::read_dir(self.file("mq")).map_or(0, |queues| queues.flatten().count());
        let offered = self.text("queue/scheduler").unwrap_or_default();
        match queues == 1 && offered.split_whitespace().any(|s| s == "mq-deadline") {
            true => "mq-deadline",
            false => "none",
        }
    }

    /// Tells it from another disk that had the name before, as far as the kernel does.
    pub(super) fn sequence(&self) -> String {
        self.text("diskseq").unwrap_or_default()
    }
}

/// The one in brackets.
fn chosen(schedulers: &str) -> Option<&str> {
    let mut words = schedulers.split_whitespace();
    words.find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

/// The directory in sysfs of the block device with that path.
fn by_device(sys: &Path, path: &Path) -> Result<PathBuf> {
    let shown = || path.display().to_string().escape_debug().to_string();
    let meta = fs::metadata(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Refusal::NoDisk { name: shown() }.into()
        }
        _ => Error::io("looking at", path, e),
    })?;
    if !meta.file_type().is_block_device() {
        return Err(Refusal::NotBlock { path: shown() }.into());
    }
    let (major, minor) = (nix::libc::major(meta.rdev()), nix::libc::minor(meta.rdev()));
    Ok(sys.join(format!("dev/block/{major}:{minor}")))
}

#[cfg(test)]
pub(super) mod fake {
    //! A directory that looks like sysfs as far as plain files can.
    use super::*;

    pub struct Fake(tempfile::TempDir);

    impl Fake {
        pub fn new() -> Fake {
            let fake = Fake(tempfile::tempdir().unwrap());
            fs::create_dir_all(fake.0.path().join("class/block")).unwrap();
            fs::create_dir_all(fake.0.path().join("block")).unwrap();
            fake
        }

        /// A disk with this in its file of schedulers.
        pub fn disk(&self, name: &str, schedulers: Option<&str>) -> Disk {
            let folder = self.0.path().join("devices").join(name);
            fs::create_dir_all(folder.join("queue/iosched")).unwrap();
            if let Some(text) = schedulers {
                fs::write(folder.join("queue/scheduler"), text).unwrap();
            }
            for place in ["class/block", "block"] {
                let link = self.0.path().join(place).join(name);
                std::os::unix::fs::symlink(&folder, link).unwrap();
            }
            self.find(name).unwrap()
        }

        pub fn partition(&self, disk: &str, name: &str) {
            let folder = self.0.path().join("devices").join(disk).join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("partition"), "1\n").unwrap();
            let link = self.0.path().join("class/block").join(name);
            std::os::unix::fs::symlink(&folder, link).unwrap();
        }

        pub fn find(&self, name: &str) -> Result<Disk> {
            Disk::find_in(self.0.path(), name)
        }

        pub fn all(&self) -> Vec<Disk> {
            Disk::all_in(self.0.path())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fake::Fake;
    use super::*;
    use proptest::prelude::*;
    use qlinux_properties::cases;

    #[test]
    fn names() {
        let fake = Fake::new();
        let sda = fake.disk("sda", Some("none [mq-deadline] kyber\n"));
        let odd = fake.disk("cciss!c0d0", Some("[none] mq-deadline\n"));
        fake.partition("sda", "sda1");
        assert_eq!(fake.find("sda1").unwrap(), sda);
        assert_eq!(fake.find("cciss/c0d0").unwrap(), odd);
        assert_eq!(fake.all(), [odd, sda]);
        for wrong in [
            "",
            ".",
            "..",
            "sdb",
            "sda2",
            "../block/sda",
            "a\0",
            "/dev/nowhere",
            "/dev/null/x",
        ] {
            let refusal = fake.find(wrong).unwrap_err();
            assert_eq!(refusal.errno(), Errno::ENODEV, "{wrong:?}: {refusal}");
        }
        for wrong in ["/dev/null", "/", "/proc/self/exe"] {
            assert_eq!(fake.find(wrong).unwrap_err().errno(), Errno::ENOTBLK);
        }
    }

    #[test]
    fn schedulers() {
        let fake = Fake::new();
        let sda = fake.disk("sda", Some("none [mq-deadline] kyber\n"));
        assert_eq!(sda.scheduler().unwrap(), "mq-deadline");
        assert!(!sda.under_cello());
        assert_eq!(sda.require_cello().unwrap_err().errno(), Errno::ESRCH);
        fs::create_dir_all(sda.file("mq/0")).unwrap();
        assert_eq!(sda.usual_scheduler(), "none");
        sda.write("queue/scheduler", "none mq-deadline [cello]\n")
            .unwrap();
        assert_eq!(sda.usual_scheduler(), "mq-deadline");
        sda.require_cello().unwrap();
        fs::create_dir_all(sda.file("mq/1")).unwrap();
        assert_eq!(sda.usual_scheduler(), "none");
    }

    #[test]
    fn devices_without_a_scheduler_say_why() {
        let fake = Fake::new();
        for (name, text) in [("zram0", None), ("dm-0", Some("none\n"))] {
            let disk = fake.disk(name, text);
            let refusal = disk.scheduler().unwrap_err();
            assert_eq!(refusal.errno(), Errno::EOPNOTSUPP);
            assert!(refusal.to_string().contains("as they come"), "{refusal}");
            fs::create_dir_all(disk.file("slaves/sda2")).unwrap();
            let refusal = disk.scheduler().unwrap_err();
            assert!(refusal.to_string().contains("on to sda2:"), "{refusal}");
        }
        let gone = fake.disk("sdz", None);
        fs::remove_dir_all(gone.file("")).unwrap();
        assert_eq!(gone.scheduler().unwrap_err().errno(), Errno::ENODEV);
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn odd_names(name in any::<String>(), schedulers in "[a-z \\[\\]-]{0,30}") {
            let fake = Fake::new();
            prop_assert!(fake.find(&name).is_err());
            let disk = fake.disk("sda", Some(&schedulers));
            if let Ok(scheduler) = disk.scheduler() {
                let bracketed = format!("[{scheduler}]");
                prop_assert!(schedulers.contains(&bracketed));
            }
        }
    }
}
