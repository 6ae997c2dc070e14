// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes of cgroups: `io.cello.class`, `io.cello.weight` and what `io.stat` says.

use super::hint::by_name;
use super::{module, Class, Disk, Refusal};
use crate::cgroup::{Hierarchy, Kind};
use crate::undo::Undo;
use crate::{ClassPath, Error, Lock, Result, Weight};
use nix::errno::Errno;
use std::fs;
use std::io::{self, Write};

const CLASS: &str = "io.cello.class";
const WEIGHT: &str = "io.cello.weight";
const CONTROL: &str = "cgroup.subtree_control";

/// What a cgroup is to disks.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct OfGroup {
    /// The class it was given; `None`: it has that of the nearest cgroup above with one.
    pub class: Class,
    /// Among the cgroups of the same class.
    pub weight: Weight,
    /// The class that its requests have, and the cgroup that says so.
    pub inherited: Option<(ClassPath, Class)>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Charged {
    /// What it writes through the page cache is its own, too: it has the memory controller.
    pub writeback: bool,
}

fn read(fs: &Hierarchy, path: &ClassPath, name: &str) -> io::Result<String> {
    let text = fs::read_to_string(fs.directory(path).join(name))?;
    Ok(text.trim().to_string())
}

fn write(fs: &Hierarchy, path: &ClassPath, name: &str, value: impl ToString) -> io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(fs.directory(path).join(name))?;
    file.write_all(value.to_string().as_bytes())
}

fn has(fs: &Hierarchy, path: &ClassPath, file: &str, word: &str) -> bool {
    let text = read(fs, path, file).unwrap_or_default();
    text.split_whitespace().any(|w| w == word)
}

fn require(fs: &Hierarchy, path: &ClassPath) -> Result<()> {
    if path.is_root() {
        return Err(Error::Root {
            what: "have a disk class",
        });
    }
    match fs.exists(path) {
        true => Ok(()),
        false => Err(Refusal::NoCgroup {
            path: path.to_string(),
        }
        .into()),
    }
}

/// The class of the nearest cgroup with one, from this one upwards.
pub fn effective(fs: &Hierarchy, path: &ClassPath) -> Option<(ClassPath, Class)> {
    let mut above = path.ancestors();
    above.push(path.clone());
    above
        .into_iter()
        .rev()
        .find_map(|at| match class_of(fs, &at)? {
            Class::None => None,
            class => Some((at, class)),
        })
}

fn class_of(fs: &Hierarchy, path: &ClassPath) -> Option<Class> {
    read(fs, path, CLASS).ok()?.parse().ok()
}

/// Its weight: a number, or `default` and a number, as the kernel's own files have it.
fn weight_of(fs: &Hierarchy, path: &ClassPath) -> Option<Weight> {
    let text = read(fs, path, WEIGHT).ok()?;
    text.split_whitespace().last()?.parse().ok()
}

impl OfGroup {
    /// How it is.
    pub fn of(path: &ClassPath) -> Result<OfGroup> {
        OfGroup::of_in(&Hierarchy::discover()?, path)
    }

    fn of_in(fs: &Hierarchy, path: &ClassPath) -> Result<OfGroup> {
        require(fs, path)?;
        Ok(OfGroup {
            // Without the module, or the controller, it has none.
            class: class_of(fs, path).unwrap_or(Class::None),
            weight: weight_of(fs, path).unwrap_or(Weight::DEFAULT),
            inherited: effective(fs, path),
        })
    }
}

/// Gives a cgroup a class, a weight or both, and the io and memory controllers, which it needs
/// for that. Loads the module if the kernel does not have it.
pub fn set(path: &ClassPath, class: Option<Class>, weight: Option<Weight>) -> Result<Charged> {
    let _lock = Lock::take()?;
    let fs = Hierarchy::discover()?;
    require(&fs, path)?;
    module::load()?;
    set_in(&fs, path, class, weight)
}

fn set_in(
    fs: &Hierarchy,
    path: &ClassPath,
    class: Option<Class>,
    weight: Option<Weight>,
) -> Result<Charged> {
    let mut undo = Undo::new();
    let charged = offer(fs, path, &mut undo)?;
    let before = (class_of(fs, path), weight_of(fs, path));
    if let Some(class) = class {
        undo.push(move || drop(before.0.map(|class| write(fs, path, CLASS, class))));
        write(fs, path, CLASS, class).map_err(|e| explain(fs, path, CLASS, e))?;
    }
    if let Some(weight) = weight {
        write(fs, path, WEIGHT, weight).map_err(|e| explain(fs, path, WEIGHT, e))?;
    }
    undo.keep();
    Ok(charged)
}

/// Gives it the controllers, from the top down.
fn offer<'a>(fs: &'a Hierarchy, path: &ClassPath, undo: &mut Undo<'a>) -> Result<Charged> {
    let mut charged = Charged { writeback: true };
    for above in path.ancestors() {
        if !has(fs, &above, CONTROL, "io") {
            if !has(fs, &above, "cgroup.controllers", "io") {
                return Err(Refusal::NoIoController {
                    path: above.to_string(),
                }
                .into());
            }
            write(fs, &above, CONTROL, "+io").map_err(|e| explain(fs, &above, CONTROL, e))?;
            let at = above.clone();
            undo.push(move || drop(write(fs, &at, CONTROL, "-io")));
        }
        if !has(fs, &above, CONTROL, "memory") {
            // Whose page it is that is written back is known of the memory controller.
            match write(fs, &above, CONTROL, "+memory") {
                Ok(()) => undo.push(move || drop(write(fs, &above, CONTROL, "-memory"))),
                Err(_) => charged.writeback = false,
            }
        }
    }
    Ok(charged)
}

/// The kernel's refusals, by the rule behind them.
fn explain(fs: &Hierarchy, path: &ClassPath, file: &str, error: io::Error) -> Error {
    let threaded = || {
        Refusal::Threaded {
            path: path.to_string(),
            domain: fs.domain_of(path).to_string(),
        }
        .into()
    };
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EBUSY) if file == CONTROL => Refusal::Occupied {
            path: path.to_string(),
            members: fs.members(path),
        }
        .into(),
        Some(Errno::EOPNOTSUPP) => threaded(),
        Some(Errno::ENOENT | Errno::ENODEV) if !fs.exists(path) => Refusal::NoCgroup {
            path: path.to_string(),
        }
        .into(),
        Some(Errno::ENOENT) if fs.kind(path) == Kind::Threaded => threaded(),
        _ => Error::io("writing", &fs.directory(path).join(file), error),
    }
}

/// A cgroup with its service of one disk.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Group {
    /// Which.
    pub path: ClassPath,
    /// The class it was given.
    pub class: Class,
    /// Among the cgroups of the same class.
    pub weight: Weight,
    /// The disk's time by class, for requests of the cgroup.
    #[serde(serialize_with = "by_name")]
    pub time_us: [u64; 3],
    /// Requests served.
    pub requests: u64,
}

impl Group {
    fn is_of_interest(&self) -> bool {
        self.class != Class::None || self.requests > 0
    }
}

/// The cgroups with a class, or whose requests the disk served.
pub fn of_disk(disk: &Disk) -> Vec<Group> {
    match (Hierarchy::discover(), disk.number()) {
        (Ok(fs), Some(number)) => of_disk_in(&fs, &number),
        _ => Vec::new(),
    }
}

fn of_disk_in(fs: &Hierarchy, number: &str) -> Vec<Group> {
    let all = fs.walk(&ClassPath::root()).into_iter();
    all.filter_map(|path| {
        let class = class_of(fs, &path)?;
        let stat = read(fs, &path, "io.stat").unwrap_or_default();
        let (time_us, requests) = served(&stat, number);
        let group = Group {
            class,
            weight: weight_of(fs, &path).unwrap_or(Weight::DEFAULT),
            path,
            time_us,
            requests,
        };
        group.is_of_interest().then_some(group)
    })
    .collect()
}

/// Of a file like `io.stat`: the disk's time by class, and requests.
fn served(stat: &str, number: &str) -> ([u64; 3], u64) {
    let mut times = [0; 3];
    let mut requests = 0;
    let line = stat
        .lines()
        .find_map(|line| line.strip_prefix(number)?.strip_prefix(' '));
    for (name, value) in line
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|pair| pair.strip_prefix("cello.")?.split_once('='))
    {
        let value = value.parse().unwrap_or(0);
        match name.strip_suffix("_us").map(str::parse::<Class>) {
            Some(Ok(class)) if class != Class::None => times[class as usize] = value,
            _ if name == "requests" => requests = value,
            _ => (),
        }
    }
    (times, requests)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::fake::Fake;
    use proptest::prelude::*;
    use qlinux_properties::cases;

    fn give(fake: &Fake, path: &ClassPath, name: &str, text: &str) {
        fs::write(fake.fs.directory(path).join(name), text).unwrap();
    }

    /// A cgroup with the files of the module.
    fn group(fake: &Fake, path: &str, class: &str) -> ClassPath {
        let path = fake.class(path, "domain", "io memory", "");
        give(fake, &path, CLASS, class);
        give(fake, &path, WEIGHT, "100\n");
        path
    }

    fn set(fake: &Fake, path: &ClassPath, class: Class) -> Result<Charged> {
        set_in(&fake.fs, path, Some(class), None)
    }

    #[test]
    fn classes_are_inherited() {
        let fake = Fake::new();
        let a = group(&fake, "/a", "realtime\n");
        let b = group(&fake, "/a/b", "none\n");
        let c = group(&fake, "/a/b/c", "throughput\n");
        let root = ClassPath::root();
        assert_eq!(effective(&fake.fs, &b), Some((a.clone(), Class::Realtime)));
        assert_eq!(
            effective(&fake.fs, &c),
            Some((c.clone(), Class::Throughput))
        );
        assert_eq!(effective(&fake.fs, &root), None);
        let of_b = OfGroup::of_in(&fake.fs, &b).unwrap();
        assert_eq!(
            (of_b.class, of_b.inherited),
            (Class::None, Some((a, Class::Realtime)))
        );
        assert!(OfGroup::of_in(&fake.fs, &root).unwrap_err().is_usage());
        let absent = OfGroup::of_in(&fake.fs, &"/x".parse().unwrap()).unwrap_err();
        assert!(absent.to_string().contains("mkdir"), "{absent}");
    }

    #[test]
    fn files_are_written() {
        let fake = Fake::new();
        let root = ClassPath::root();
        give(&fake, &root, "cgroup.controllers", "cpu io memory");
        give(&fake, &root, CONTROL, "io memory");
        let a = group(&fake, "/a", "");
        let weight = Weight::new(300).unwrap();
        let charged = set_in(&fake.fs, &a, Some(Class::Interactive), Some(weight)).unwrap();
        assert!(charged.writeback);
        let found = OfGroup::of_in(&fake.fs, &a).unwrap();
        assert_eq!((found.class, found.weight), (Class::Interactive, weight));
        assert_eq!(found.inherited, Some((a, Class::Interactive)));
    }

    #[test]
    fn refusals_change_nothing() {
        let fake = Fake::new();
        let root = ClassPath::root();
        let a = group(&fake, "/a", "throughput\n");
        let refusal = set(&fake, &a, Class::Realtime).unwrap_err();
        assert!(
            refusal.to_string().contains("offers no io controller"),
            "{refusal}"
        );
        give(&fake, &root, "cgroup.controllers", "io");
        give(&fake, &root, CONTROL, "io");
        // The weight cannot be written: the class goes back.
        fs::remove_file(fake.fs.directory(&a).join(WEIGHT)).unwrap();
        let weight = Some(Weight::DEFAULT);
        set_in(&fake.fs, &a, Some(Class::Realtime), weight).unwrap_err();
        assert!(fake.text(&a, CLASS).starts_with("throughput"));
    }

    #[test]
    fn service_of_a_disk() {
        let stat = "8:0 rbytes=1 wios=2 cello.interactive_us=10 cello.throughput_us=0 \
                    cello.realtime_us=7 cello.requests=3\n8:16 rbytes=1\n";
        assert_eq!(served(stat, "8:0"), ([10, 0, 7], 3));
        assert_eq!(served(stat, "8:16"), ([0; 3], 0));
        assert_eq!(served(stat, "8:1"), ([0; 3], 0));
        let fake = Fake::new();
        let a = group(&fake, "/a", "none\n");
        group(&fake, "/b", "none\n");
        let c = group(&fake, "/c", "realtime\n");
        give(&fake, &a, "io.stat", stat);
        let all = of_disk_in(&fake.fs, "8:0");
        let paths: Vec<_> = all.iter().map(|group| &group.path).collect();
        assert_eq!(paths, [&a, &c]);
        assert_eq!((all[0].requests, all[0].time_us), (3, [10, 0, 7]));
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn no_statistics_panic(text in any::<String>(), number in "[0-9]{1,3}:[0-9]{1,3}",
            time in any::<u64>()) {
            served(&text, &number);
            let line = format!("{number} {text} cello.realtime_us={time}");
            if !text.contains(['\n', '\r']) && !text.contains("cello.") {
                prop_assert_eq!(served(&line, &number).0[2], time);
            }
        }
    }
}
