// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cgroup v2 file system, which is the class hierarchy.
//!
//! Classes are divided by the cpu controller, which must be enabled in every
//! cgroup above a class. Two rules of the kernel matter here. A cgroup that
//! holds processes cannot be divided, unless the classes below it are
//! *threaded*. A single thread moves only among threaded cgroups below the
//! cgroup of its process.

use crate::{Burst, ClassPath, Error, Max, Result, Weight};
use nix::errno::Errno;
use nix::libc;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a cgroup may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Processes, or children.
    Domain,
    /// Processes whose threads may be spread over the threaded cgroups below it.
    DomainThreaded,
    /// Single threads of the processes of the domain above it.
    Threaded,
    /// Nothing, until it is made threaded.
    Invalid,
}

/// Of several members of a class, so many are named in a message.
const NAMED_MAX: usize = 5;

/// The kernel's threaded controllers, which divide among single threads too.
const THREADED: [&str; 4] = ["cpu", "cpuset", "perf_event", "pids"];

/// A cgroup v2 hierarchy.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    mount: PathBuf,
}

impl Hierarchy {
    /// The machine's.
    pub fn discover() -> Result<Hierarchy> {
        let table = Path::new("/proc/self/mountinfo");
        let text = fs::read(table).map_err(|e| Error::io("reading", table, e))?;
        mount_point(&String::from_utf8_lossy(&text))
            .map(Hierarchy::at)
            .ok_or(Error::NoCgroup2)
    }

    /// The one mounted at `mount`.
    pub fn at(mount: impl Into<PathBuf>) -> Hierarchy {
        Hierarchy {
            mount: mount.into(),
        }
    }

    /// Where it is mounted.
    pub fn mount(&self) -> &Path {
        &self.mount
    }

    /// The directory of a class.
    pub fn directory(&self, path: &ClassPath) -> PathBuf {
        path.below(&self.mount)
    }

    fn file(&self, path: &ClassPath, name: &str) -> PathBuf {
        self.directory(path).join(name)
    }

    /// Does the class exist?
    pub fn exists(&self, path: &ClassPath) -> bool {
        self.file(path, "cgroup.controllers").is_file()
    }

    /// Refuses a class that does not exist.
    pub fn require(&self, path: &ClassPath) -> Result<()> {
        if self.exists(path) {
            return Ok(());
        }
        Err(Error::NoClass {
            path: path.to_string(),
        })
    }

    /// The kernel's number of the class, never used again for another one.
    pub fn id(&self, path: &ClassPath) -> Result<u64> {
        let directory = self.directory(path);
        match fs::metadata(&directory) {
            Ok(meta) if meta.is_dir() => Ok(meta.ino()),
            Ok(_) => Err(Error::NoClass {
                path: path.to_string(),
            }),
            Err(e) => Err(self.no_class(path, "looking at", &directory, e)),
        }
    }

    /// The class of this number.
    pub fn path_of(&self, id: u64) -> Option<ClassPath> {
        self.path_by_handle(id).or_else(|| {
            // Without privilege, or on another file system.
            self.walk(&ClassPath::root())
                .into_iter()
                .find(|path| self.id(path).is_ok_and(|i| i == id))
        })
    }

    /// Was the cgroup of this number removed? False where that cannot be told.
    pub fn is_gone(&self, id: u64) -> bool {
        let opened = self.open_by_handle(id);
        opened.is_err_and(|e| e.raw_os_error() == Some(libc::ESTALE))
    }

    fn path_by_handle(&self, id: u64) -> Option<ClassPath> {
        let fd = self.open_by_handle(id).ok()?;
        let target = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()?;
        let below = target.strip_prefix(&self.mount).ok()?;
        let path = ClassPath::from_kernel(&format!("/{}", below.to_str()?));
        self.id(&path).is_ok_and(|i| i == id).then_some(path)
    }

    fn open_by_handle(&self, id: u64) -> std::io::Result<OwnedFd> {
        #[repr(C)]
        struct Handle {
            bytes: libc::c_uint,
            kind: libc::c_int,
            id: [u8; 8],
        }
        const FILEID_KERNFS: libc::c_int = 0xfe;
        let mount = fs::File::open(&self.mount)?;
        let mut handle = Handle {
            bytes: 8,
            kind: FILEID_KERNFS,
            id: id.to_ne_bytes(),
        };
        // SAFETY: Handle has the layout of struct file_handle with eight bytes;
        // the descriptor returned is owned by nobody else.
        unsafe {
            let fd = libc::open_by_handle_at(
                mount.as_raw_fd(),
                std::ptr::from_mut(&mut handle).cast(),
                libc::O_PATH | libc::O_CLOEXEC,
            );
            match fd >= 0 {
                true => Ok(OwnedFd::from_raw_fd(fd)),
                false => Err(std::io::Error::last_os_error()),
            }
        }
    }

    /// The classes directly below, by name.
    pub fn children(&self, path: &ClassPath) -> Result<Vec<ClassPath>> {
        let directory = self.directory(path);
        let entries =
            fs::read_dir(&directory).map_err(|e| self.no_class(path, "listing", &directory, e))?;
        let mut all: Vec<ClassPath> = entries
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|t| t.is_dir()))
            .filter_map(|entry| path.join(entry.file_name().to_str()?).ok())
            .filter(|child| self.exists(child))
            .collect();
        all.sort();
        Ok(all)
    }

    /// The class and all below it, parents first.
    pub fn walk(&self, from: &ClassPath) -> Vec<ClassPath> {
        let mut found = vec![from.clone()];
        let mut next = 0;
        while let Some(path) = found.get(next) {
            // One that vanishes meanwhile has no children.
            let mut below = self.children(path).unwrap_or_default();
            found.append(&mut below);
            next += 1;
        }
        found
    }

    /// Makes the directory.
    pub fn create(&self, path: &ClassPath) -> Result<()> {
        let directory = self.directory(path);
        fs::create_dir(&directory).map_err(|e| match e.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EEXIST) => Error::Exists {
                path: path.to_string(),
            },
            Some(Errno::ENOENT) => {
                let parent = path.parent().unwrap_or_else(ClassPath::root).to_string();
                Error::NoParent {
                    path: path.to_string(),
                    parent,
                }
            }
            _ => Error::io("creating", &directory, e),
        })
    }

    /// Removes the directory of a class without children and members.
    pub fn remove(&self, path: &ClassPath) -> Result<()> {
        if path.is_root() {
            return Err(Error::Root { what: "be deleted" });
        }
        let directory = self.directory(path);
        fs::remove_dir(&directory).map_err(|e| match e.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EBUSY | Errno::ENOTEMPTY) => self.why_busy(path),
            _ => self.no_class(path, "deleting", &directory, e),
        })
    }

    /// Why a class cannot be deleted.
    pub fn why_busy(&self, path: &ClassPath) -> Error {
        let children = self.children(path).unwrap_or_default();
        let path_text = path.to_string();
        if !children.is_empty() {
            return Error::HasChildren {
                path: path_text,
                children: some_of(children.iter().map(ToString::to_string)),
            };
        }
        Error::HasMembers {
            path: path_text,
            members: self.members(path),
        }
    }

    /// Its processes, or threads where it is threaded, in words.
    pub fn members(&self, path: &ClassPath) -> String {
        let (what, ids) = match self.processes(path) {
            Ok(pids) if !pids.is_empty() => ("process", pids),
            _ => ("thread", self.threads(path).unwrap_or_default()),
        };
        match ids.as_slice() {
            [] => "processes that are just ending".into(),
            [one] => format!("{what} {one}"),
            many => {
                let plural = if what == "process" {
                    "processes"
                } else {
                    "threads"
                };
                format!("{plural} {}", some_of(many.iter().map(ToString::to_string)))
            }
        }
    }

    /// Weight among its siblings; the root has none, and a class without the
    /// cpu controller neither.
    pub fn weight(&self, path: &ClassPath) -> Option<Weight> {
        self.read(path, "cpu.weight").ok()?.trim().parse().ok()
    }

    /// Changes the weight, in force at once.
    pub fn set_weight(&self, path: &ClassPath, weight: Weight) -> Result<()> {
        if path.is_root() {
            return Err(Error::Root {
                what: "have a weight",
            });
        }
        self.write(path, "cpu.weight", weight).map_err(|e| {
            match e.raw_os_error().map(Errno::from_raw) {
                Some(Errno::ENOENT) if self.exists(path) => Error::NotScheduled {
                    path: path.to_string(),
                },
                _ => self.no_class(path, "writing", &self.file(path, "cpu.weight"), e),
            }
        })
    }

    /// The most it may have; the root has no limit to tell.
    pub fn max(&self, path: &ClassPath) -> Option<Max> {
        Max::from_file(&self.read(path, "cpu.max").ok()?)
    }

    /// What it may keep of earlier quotas, in microseconds.
    pub fn burst(&self, path: &ClassPath) -> Option<Burst> {
        let text = self.read(path, "cpu.max.burst").ok()?;
        text.trim().parse().ok().map(Burst)
    }

    /// Whether it gets only what its siblings leave.
    pub fn idle(&self, path: &ClassPath) -> Option<bool> {
        Some(self.read(path, "cpu.idle").ok()?.trim() == "1")
    }

    /// Changes `cpu.max`.
    pub fn set_max(&self, path: &ClassPath, max: Max) -> Result<()> {
        self.set_file(path, "cpu.max", max.to_file()).map_err(|e| {
            e.unwrap_or(Error::Max {
                given: max.to_string(),
            })
        })
    }

    /// Changes `cpu.max.burst`.
    pub fn set_burst(&self, path: &ClassPath, burst: Burst) -> Result<()> {
        self.set_file(path, "cpu.max.burst", burst.0).map_err(|e| {
            e.unwrap_or(Error::Burst {
                given: format!("{}us", burst.0),
            })
        })
    }

    /// Changes `cpu.idle`.
    pub fn set_idle(&self, path: &ClassPath, idle: bool) -> Result<()> {
        let not_scheduled = || Error::NotScheduled {
            path: path.to_string(),
        };
        self.set_file(path, "cpu.idle", u8::from(idle))
            .map_err(|e| e.unwrap_or_else(not_scheduled))
    }

    /// `None`: the kernel called the value invalid.
    fn set_file(
        &self,
        path: &ClassPath,
        name: &str,
        value: impl std::fmt::Display,
    ) -> std::result::Result<(), Option<Error>> {
        self.write(path, name, value)
            .map_err(|e| match e.raw_os_error().map(Errno::from_raw) {
                Some(Errno::EINVAL) => None,
                Some(Errno::ENOENT | Errno::EACCES) if self.exists(path) => {
                    Some(Error::NotScheduled {
                        path: path.to_string(),
                    })
                }
                _ => Some(self.no_class(path, "writing", &self.file(path, name), e)),
            })
    }

    /// What it may hold.
    pub fn kind(&self, path: &ClassPath) -> Kind {
        match self.read(path, "cgroup.type").unwrap_or_default().trim() {
            "threaded" => Kind::Threaded,
            "domain threaded" => Kind::DomainThreaded,
            "domain invalid" => Kind::Invalid,
            _ => Kind::Domain,
        }
    }

    /// Makes a new class threaded, which cannot be taken back.
    pub fn make_threaded(&self, path: &ClassPath) -> Result<()> {
        self.write(path, "cgroup.type", "threaded")
            .map_err(|e| Error::NotThreaded {
                path: path.to_string(),
                why: words(&e),
            })
    }

    /// The domain to which a threaded class belongs: the nearest class above it
    /// that holds whole processes.
    pub fn domain_of(&self, path: &ClassPath) -> ClassPath {
        let mut at = path.clone();
        while self.kind(&at) == Kind::Threaded {
            match at.parent() {
                Some(parent) => at = parent,
                None => break,
            }
        }
        at
    }

    /// Does it divide the CPU among its children?
    pub fn divides_cpu(&self, path: &ClassPath) -> bool {
        self.divided(path).iter().any(|c| c == "cpu")
    }

    /// Does it divide nothing that a class with processes of its own must not divide?
    pub fn divides_only_threaded(&self, path: &ClassPath) -> bool {
        let divided = self.divided(path);
        divided.iter().all(|c| THREADED.contains(&c.as_str()))
    }

    /// The controllers that divide something among its children.
    fn divided(&self, path: &ClassPath) -> Vec<String> {
        let text = self.read(path, "cgroup.subtree_control");
        let text = text.unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// Makes it divide the CPU among its children; false: it did before.
    pub fn divide_cpu(&self, path: &ClassPath) -> Result<bool> {
        if self.divides_cpu(path) {
            return Ok(false);
        }
        let result = self.write(path, "cgroup.subtree_control", "+cpu");
        result
            .map(|()| true)
            .map_err(|e| match e.raw_os_error().map(Errno::from_raw) {
                Some(Errno::EBUSY | Errno::EOPNOTSUPP) => Error::Occupied {
                    path: path.to_string(),
                    members: self.members(path),
                },
                Some(Errno::ENOENT | Errno::EINVAL) if self.exists(path) => {
                    Error::NoCpuController {
                        path: path.to_string(),
                    }
                }
                _ => self.no_class(
                    path,
                    "writing",
                    &self.file(path, "cgroup.subtree_control"),
                    e,
                ),
            })
    }

    /// Takes [`Self::divide_cpu`] back.
    pub fn undivide_cpu(&self, path: &ClassPath) -> io::Result<()> {
        self.write(path, "cgroup.subtree_control", "-cpu")
    }

    /// Its own processes. Refused for a threaded class.
    pub fn processes(&self, path: &ClassPath) -> io::Result<Vec<i32>> {
        Ok(numbers(&self.read(path, "cgroup.procs")?))
    }

    /// Its own threads.
    pub fn threads(&self, path: &ClassPath) -> io::Result<Vec<i32>> {
        Ok(numbers(&self.read(path, "cgroup.threads")?))
    }

    /// The class of a process or thread.
    pub fn class_of(&self, id: i32) -> Result<ClassPath> {
        let file = PathBuf::from(format!("/proc/{id}/cgroup"));
        let text =
            fs::read_to_string(&file).map_err(|e| match e.raw_os_error().map(Errno::from_raw) {
                Some(Errno::ENOENT | Errno::ESRCH) => Error::NoProcess { pid: id },
                _ => Error::io("reading", &file, e),
            })?;
        let path = text
            .lines()
            .find_map(|line| line.strip_prefix("0::"))
            .ok_or(Error::NoCgroup2)?;
        Ok(ClassPath::from_kernel(path.trim_end_matches(" (deleted)")))
    }

    /// Moves a process (0: this one) with all its threads.
    pub fn move_process(&self, path: &ClassPath, pid: i32) -> io::Result<()> {
        self.write(path, "cgroup.procs", pid)
    }

    /// Moves one thread.
    pub fn move_thread(&self, path: &ClassPath, tid: i32) -> io::Result<()> {
        self.write(path, "cgroup.threads", tid)
    }

    fn read(&self, path: &ClassPath, name: &str) -> io::Result<String> {
        fs::read_to_string(self.file(path, name))
    }

    fn write(&self, path: &ClassPath, name: &str, value: impl ToString) -> io::Result<()> {
        // One write call: the kernel takes each as one command.
        let mut file = fs::OpenOptions::new()
            .write(true)
            .open(self.file(path, name))?;
        file.write_all(value.to_string().as_bytes())
    }

    fn no_class(
        &self,
        path: &ClassPath,
        doing: &'static str,
        file: &Path,
        error: io::Error,
    ) -> Error {
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT | Errno::ENOTDIR | Errno::ENODEV) => Error::NoClass {
                path: path.to_string(),
            },
            _ => Error::io(doing, file, error),
        }
    }
}

/// An error's words without the number.
pub(crate) fn words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => Errno::from_raw(number).desc().to_lowercase(),
        None => error.to_string(),
    }
}

fn numbers(text: &str) -> Vec<i32> {
    text.split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect()
}

fn some_of(items: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = items.collect();
    let mut text = all[..all.len().min(NAMED_MAX)].join(", ");
    if all.len() > NAMED_MAX {
        text += &format!(" and {} more", all.len() - NAMED_MAX);
    }
    text
}

/// The mount point of cgroup v2 in a table like /proc/self/mountinfo.
pub(crate) fn mount_point(table: &str) -> Option<PathBuf> {
    table.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        (kind.split(' ').next()? == "cgroup2")
            .then(|| unescape(mount.split(' ').nth(4).unwrap_or("/")))
    })
}

/// `\040` and the like, which stand for blanks in that table.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = (byte == b'\\')
            .then(|| {
                tail.get(..3)
                    .and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 8).ok())
            })
            .flatten();
        bytes.push(octal.unwrap_or(byte));
        rest = if octal.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
pub(crate) mod fake {
    //! A directory that looks like cgroupfs as far as plain files can.
    use super::*;

    pub struct Fake {
        pub fs: Hierarchy,
        folder: tempfile::TempDir,
    }

    impl Fake {
        pub fn new() -> Fake {
            let folder = tempfile::tempdir().unwrap();
            let fake = Fake {
                fs: Hierarchy::at(folder.path()),
                folder,
            };
            fake.class("/", "domain", "cpu memory", "");
            fs::remove_file(fake.folder.path().join("cpu.weight")).unwrap();
            fake
        }

        pub fn class(&self, path: &str, kind: &str, divides: &str, members: &str) -> ClassPath {
            let path: ClassPath = path.parse().unwrap();
            let directory = self.fs.directory(&path);
            fs::create_dir_all(&directory).unwrap();
            for (name, text) in [
                ("cgroup.controllers", "cpu memory\n"),
                ("cgroup.type", kind),
                ("cgroup.subtree_control", divides),
                ("cgroup.procs", members),
                ("cgroup.threads", members),
                ("cpu.weight", "100\n"),
            ] {
                fs::write(directory.join(name), text).unwrap();
            }
            path
        }

        pub fn text(&self, path: &ClassPath, name: &str) -> String {
            fs::read_to_string(self.fs.file(path, name)).unwrap()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fake::Fake;
    use super::*;

    #[test]
    fn mounts() {
        let table = "25 1 0:22 / /sys rw - sysfs sysfs rw\n\
                     31 25 0:27 / /sys/fs/cgroup\\040two rw,nosuid shared:5 - cgroup2 cgroup2 rw\n\
                     32 25 0:28 / /elsewhere rw - cgroup2 none rw\n";
        assert_eq!(mount_point(table), Some("/sys/fs/cgroup two".into()));
        assert_eq!(mount_point("25 1 0:22 / /sys rw - sysfs sysfs rw\n"), None);
        assert_eq!(unescape("a\\b\\134\\9"), PathBuf::from("a\\b\\\\9"));
    }

    #[test]
    fn tree() {
        let fake = Fake::new();
        let b = fake.class("/b", "domain", "", "");
        let a = fake.class("/a", "domain", "cpu", "");
        let deep = fake.class("/a/x y", "domain", "", "");
        let root = ClassPath::root();
        assert_eq!(fake.fs.children(&root).unwrap(), [a.clone(), b.clone()]);
        assert_eq!(
            fake.fs.walk(&root),
            [root.clone(), a.clone(), b, deep.clone()]
        );
        assert_eq!(fake.fs.path_of(fake.fs.id(&deep).unwrap()), Some(deep));
        assert_eq!(fake.fs.path_of(u64::MAX), None);
        assert!(fake.fs.divides_cpu(&a) && fake.fs.divides_only_threaded(&a));
        let slice = fake.class("/slice", "domain", "cpu memory", "");
        assert!(!fake.fs.divides_only_threaded(&slice));
        fake.fs.remove(&slice).unwrap_err();
        assert!(matches!(
            fake.fs.id(&"/c".parse().unwrap()),
            Err(Error::NoClass { .. })
        ));
        assert!(matches!(
            fake.fs.children(&"/c".parse().unwrap()),
            Err(Error::NoClass { .. })
        ));
    }

    #[test]
    fn files_are_read_and_written() {
        let fake = Fake::new();
        let a = fake.class("/a", "threaded\n", "", "");
        let b = fake.class("/b", "domain", "", "7\n8\n");
        assert_eq!(fake.fs.weight(&a), Some(Weight::DEFAULT));
        assert_eq!(fake.fs.weight(&ClassPath::root()), None);
        fake.fs.set_weight(&a, Weight::new(300).unwrap()).unwrap();
        assert!(fake.text(&a, "cpu.weight").starts_with("300"));
        assert!(matches!(
            fake.fs.set_weight(&ClassPath::root(), Weight::DEFAULT),
            Err(Error::Root { .. })
        ));
        assert!(matches!(
            fake.fs.set_weight(&"/c".parse().unwrap(), Weight::DEFAULT),
            Err(Error::NoClass { .. })
        ));
        assert_eq!(fake.fs.kind(&a), Kind::Threaded);
        assert_eq!(fake.fs.domain_of(&a), ClassPath::root());
        assert_eq!(fake.fs.processes(&b).unwrap(), [7, 8]);
        assert!(fake.fs.divide_cpu(&a).unwrap());
        assert_eq!(fake.text(&a, "cgroup.subtree_control"), "+cpu");
    }

    #[test]
    fn busy_classes_say_why() {
        let fake = Fake::new();
        let a = fake.class("/a", "domain", "", "1\n2\n3\n4\n5\n6\n7\n");
        let refusal = fake.fs.remove(&a).unwrap_err();
        assert_eq!(refusal.errno(), Errno::EBUSY);
        assert!(
            refusal
                .to_string()
                .contains("processes 1, 2, 3, 4, 5 and 2 more"),
            "{refusal}"
        );
        fake.class("/a/b", "domain", "", "");
        let refusal = fake.fs.remove(&a).unwrap_err();
        assert!(
            matches!(&refusal, Error::HasChildren { children, .. } if children == "/a/b"),
            "{refusal}"
        );
        assert!(matches!(
            fake.fs.remove(&ClassPath::root()),
            Err(Error::Root { .. })
        ));
    }

    #[test]
    fn own_class_is_known() {
        // Whatever it is, a path comes back, or the machine has no cgroup v2.
        match Hierarchy::at("/nowhere").class_of(std::process::id() as i32) {
            Ok(path) => assert!(path.as_str().starts_with('/')),
            Err(e) => assert!(matches!(e, Error::NoCgroup2)),
        }
        assert!(matches!(
            Hierarchy::at("/nowhere").class_of(-1),
            Err(Error::NoProcess { pid: -1 })
        ));
    }
}
