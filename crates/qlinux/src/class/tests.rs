// SPDX-License-Identifier: MIT OR Apache-2.0
//! Against a cgroupfs of plain files and a scheduler of two tables.

use super::*;
use crate::cgroup::fake::Fake;
use crate::intf::Plain;
use nix::errno::Errno;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

#[derive(Default)]
struct Table {
    leaves: RefCell<HashMap<u64, u32>>,
    threads: RefCell<HashMap<i32, (u64, u32)>>,
    params: RefCell<Vec<(i32, Param)>>,
    full: Cell<bool>,
    lacking: RefCell<Vec<Lack>>,
    refuse_leaf: Cell<bool>,
}

impl Scheduler for Table {
    fn class(&self, cgroup_id: u64) -> Result<Option<CtlClass>> {
        let policy = self.leaves.borrow().get(&cgroup_id).copied().unwrap_or(0);
        Ok(Some(CtlClass {
            cgroup_id,
            policy,
            shared: self.full.get().into(),
            ..CtlClass::zeroed()
        }))
    }

    fn set_leaf(&self, cgroup_id: u64, leaf: Leaf) -> Result<()> {
        if self.refuse_leaf.get() {
            return Err(Error::Ctl {
                program: "x",
                object: "y".into(),
                errno: Errno::EBUSY,
            });
        }
        self.leaves.borrow_mut().insert(cgroup_id, leaf.number());
        Ok(())
    }

    fn thread(&self, tid: i32, set: u32) -> Result<CtlThread> {
        let mut threads = self.threads.borrow_mut();
        let (cgroup_id, weight) = threads.get_mut(&tid).ok_or(Error::NoThread { tid })?;
        if set != 0 {
            *weight = set;
        }
        Ok(CtlThread {
            tid,
            cgroup_id: *cgroup_id,
            weight: *weight,
            ..CtlThread::zeroed()
        })
    }

    fn set_param(&self, tid: i32, param: &Param) -> Result<CtlThread> {
        let now = self.thread(tid, 0)?;
        self.params.borrow_mut().push((tid, *param));
        Ok(now)
    }

    fn entitled(&self) -> Result<HashMap<String, f64>> {
        Ok(HashMap::from([("/a".into(), 1.5)]))
    }

    fn lacking(&self) -> Vec<Lack> {
        self.lacking.borrow().clone()
    }
}

struct Bench {
    fake: Fake,
    classes: Classes<Table>,
}

fn bench() -> Bench {
    let fake = Fake::new();
    let classes = Classes {
        fs: fake.fs.clone(),
        scheduler: Table::default(),
        _lock: None,
    };
    Bench { fake, classes }
}

fn path(text: &str) -> ClassPath {
    text.parse().unwrap()
}

fn leaf(name: &str) -> Option<Leaf> {
    Some(name.parse().unwrap())
}

#[test]
fn add_refuses_what_it_must() {
    let b = bench();
    b.fake.class("/a", "domain", "", "");
    let new = New::default();
    assert!(matches!(
        b.classes.add(&path("/a"), &new),
        Err(Error::Exists { .. })
    ));
    assert!(matches!(
        b.classes.add(&path("/"), &new),
        Err(Error::Exists { .. })
    ));
    let refusal = b.classes.add(&path("/x/y/z"), &new).unwrap_err();
    assert!(
        matches!(&refusal, Error::NoParent { parent, .. } if parent == "/x/y"),
        "{refusal}"
    );
    assert_eq!(refusal.errno(), Errno::ENOENT);
}

#[test]
fn failed_add_is_undone() {
    // The directory has no cpu.weight, as without a cpu controller.
    let b = bench();
    b.fake.class("/a", "domain", "", "");
    let new = New {
        settings: Settings {
            weight: Some(Weight::DEFAULT),
            leaf: leaf("rr"),
            ..Settings::default()
        },
        parents: true,
        ..New::default()
    };
    b.classes.add(&path("/a/b/c"), &new).unwrap_err();
    assert!(!b.classes.fs.directory(&path("/a/b")).exists());
    assert_eq!(b.fake.text(&path("/a"), "cgroup.subtree_control"), "-cpu");
    assert_eq!(
        b.fake.text(&path("/"), "cgroup.subtree_control"),
        "cpu memory"
    );
}

#[test]
fn full_tree_is_refused() {
    let b = bench();
    b.classes.scheduler.full.set(true);
    let refusal = b.classes.add(&path("/b"), &New::default()).unwrap_err();
    assert_eq!(refusal.errno(), Errno::ENOSPC);
    assert!(!b.classes.fs.directory(&path("/b")).exists());
}

#[test]
fn set_is_undone_too() {
    let b = bench();
    let a = b.fake.class("/a", "domain", "", "");
    let id = b.classes.fs.id(&a).unwrap();
    b.classes
        .set(
            &a,
            &Settings {
                weight: Some(Weight::new(300).unwrap()),
                leaf: leaf("rr"),
                ..Settings::default()
            },
        )
        .unwrap();
    assert!(b.fake.text(&a, "cpu.weight").starts_with("300"));
    assert_eq!(b.classes.scheduler.leaves.borrow()[&id], 2);

    std::fs::remove_file(b.classes.fs.directory(&a).join("cpu.weight")).unwrap();
    let settings = Settings {
        weight: Some(Weight::DEFAULT),
        leaf: leaf("fifo"),
        ..Settings::default()
    };
    assert!(matches!(
        b.classes.set(&a, &settings),
        Err(Error::NotScheduled { .. })
    ));
    assert_eq!(b.classes.scheduler.leaves.borrow()[&id], 2);

    b.classes.scheduler.refuse_leaf.set(true);
    assert_eq!(
        b.classes.set(&a, &settings).unwrap_err().errno(),
        Errno::EBUSY
    );
    assert!(matches!(
        b.classes.set(&path("/"), &settings),
        Err(Error::Root { .. })
    ));
    assert!(matches!(
        b.classes.set(&path("/no"), &settings),
        Err(Error::NoClass { .. })
    ));
}

#[test]
fn threads_are_weighted_where_they_are() {
    let b = bench();
    let (a, c) = (
        b.fake.class("/a", "domain", "", ""),
        b.fake.class("/c", "domain", "", ""),
    );
    let id = b.classes.fs.id(&a).unwrap();
    b.classes
        .scheduler
        .threads
        .borrow_mut()
        .insert(7, (id, 100));
    b.classes.set_thread(&a, 7, "50".parse().unwrap()).unwrap();
    assert_eq!(b.classes.scheduler.threads.borrow()[&7].1, 50);
    b.classes
        .set_thread(&a, 7, "nice".parse().unwrap())
        .unwrap();
    assert_eq!(b.classes.scheduler.threads.borrow()[&7].1, WEIGHT_NICE);
    let refusal = b.classes.set_thread(&c, 7, ThreadWeight::Nice).unwrap_err();
    assert!(
        matches!(&refusal, Error::ThreadElsewhere { at, .. } if at == "/a"),
        "{refusal}"
    );
    assert!(matches!(
        b.classes.set_thread(&a, 8, ThreadWeight::Nice),
        Err(Error::NoThread { tid: 8 })
    ));
    assert!("0".parse::<ThreadWeight>().is_err());
}

#[test]
fn members_that_do_not_exist() {
    let b = bench();
    let a = b.fake.class("/a", "domain", "", "");
    assert!(matches!(
        b.classes.move_to(&a, &[Member::Process(-1)]),
        Err(Error::NoProcess { pid: -1 })
    ));
    assert!(matches!(
        b.classes.move_to(&a, &[Member::Thread(-1)]),
        Err(Error::NoThread { tid: -1 })
    ));
    assert!(matches!(
        b.classes.move_to(&path("/x"), &[]),
        Err(Error::NoClass { .. })
    ));
}

#[test]
fn shown_in_order_with_and_without_a_scheduler() {
    let b = bench();
    for class in ["/b", "/a", "/a/z", "/a/y"] {
        b.fake.class(class, "domain", "", "1\n2\n");
    }
    let shown = show(
        &b.fake.fs,
        Some(&b.classes.scheduler),
        &path("/"),
        Some(Duration::from_millis(1)),
    )
    .unwrap();
    let paths: Vec<_> = shown.iter().map(|s| s.path.as_str()).collect();
    assert_eq!(paths, ["/", "/a", "/a/y", "/a/z", "/b"]);
    assert_eq!(
        (shown[1].weight, shown[1].threads, shown[1].leaf),
        (Some(100), 2, leaf("ts"))
    );
    assert_eq!(shown[1].received_cpus, Some(0.0));
    let entitled: Vec<_> = shown.iter().map(|s| s.entitled_cpus).collect();
    assert_eq!(entitled, [0.0, 1.5, 0.0, 0.0, 0.0].map(Some));
    let shown = show::<Table>(&b.fake.fs, None, &path("/a"), None).unwrap();
    assert_eq!(
        (shown.len(), shown[0].leaf, shown[0].served_ns),
        (3, None, None)
    );
    assert!(show::<Table>(&b.fake.fs, None, &path("/no"), None).is_err());
}

#[test]
fn delete_says_what_is_in_the_way() {
    let b = bench();
    let a = b.fake.class("/a", "domain", "", "1\n");
    assert!(matches!(
        delete(&b.fake.fs, &a),
        Err(Error::HasMembers { .. })
    ));
    assert!(matches!(
        delete(&b.fake.fs, &path("/no")),
        Err(Error::NoClass { .. })
    ));
}

/// What a kernel of 6.16 has not, as far as classes go.
fn lack(name: &'static str) -> Lack {
    Lack {
        name,
        what: "x",
        resource: crate::check::Resource::Cpu,
        since: Some("6.17"),
        cost: Some("y"),
        instead: Some("z"),
        fatal: false,
        found: format!("this kernel has no {name}"),
        remedy: "boot kernel 6.17 or newer".into(),
    }
}

#[test]
fn what_nobody_would_hold_is_refused_and_changes_nothing() {
    let b = bench();
    let a = b.fake.class("/a", "domain", "", "");
    let file = |name| b.classes.fs.directory(&a).join(name);
    std::fs::write(file("cpu.max"), "max 100000\n").unwrap();
    std::fs::write(file("cpu.idle"), "0\n").unwrap();
    std::fs::write(file("cpu.max.burst"), "0\n").unwrap();
    let max = Settings {
        max: Some(Max::Quota(20_000, 100_000)),
        ..Settings::default()
    };
    let idle = Settings {
        idle: Some(true),
        ..Settings::default()
    };
    b.classes.set(&a, &max).unwrap();
    b.classes.set(&a, &idle).unwrap();
    for lacks in [LIMITS, TIMERS] {
        *b.classes.scheduler.lacking.borrow_mut() = vec![lack(lacks)];
        let refusal = b.classes.set(&a, &max).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            format!(
                "class /a cannot be held to --max by H-SFQ: this kernel has no {lacks}; boot kernel 6.17 or newer, or end \
                 H-SFQ with `qlinux down cpu` and let the stock scheduler hold it"
            )
        );
        let new = New {
            settings: max,
            ..New::default()
        };
        assert!(matches!(
            b.classes.add(&path("/new"), &new),
            Err(Error::NotHeld {
                option: "--max",
                ..
            })
        ));
        assert!(!b.classes.fs.exists(&path("/new")));
        b.classes.set(&a, &idle).unwrap();
    }
    *b.classes.scheduler.lacking.borrow_mut() = vec![lack(IDLE)];
    b.classes.set(&a, &max).unwrap();
    assert!(matches!(
        b.classes.set(&a, &idle),
        Err(Error::NotHeld {
            option: "--idle",
            ..
        })
    ));
    *b.classes.scheduler.lacking.borrow_mut() = vec![lack(LIMITS), lack(IDLE)];
    let burst = Settings {
        burst: Some(Burst(1000)),
        ..Settings::default()
    };
    assert!(matches!(
        b.classes.set(&a, &burst),
        Err(Error::NotHeld {
            option: "--burst",
            ..
        })
    ));
    // Taking something back is no claim, nor is putting back what was there.
    let none = Settings {
        max: Some(Max::None),
        idle: Some(false),
        ..Settings::default()
    };
    b.classes.set(&a, &none).unwrap();
    b.classes.restore(&a, &max).unwrap();
    assert!(b.fake.text(&a, "cpu.max").starts_with("20000 100000"));
}

#[test]
fn what_is_shown_says_whether_it_is_held() {
    let b = bench();
    let a = b.fake.class("/a", "domain", "", "");
    b.fake.class("/b", "domain", "", "");
    let file = |name| b.classes.fs.directory(&a).join(name);
    std::fs::write(file("cpu.max"), "20000 100000\n").unwrap();
    std::fs::write(file("cpu.idle"), "1\n").unwrap();
    let held = |lacking: &[&'static str]| {
        *b.classes.scheduler.lacking.borrow_mut() = lacking.iter().copied().map(lack).collect();
        let shown = show(&b.fake.fs, Some(&b.classes.scheduler), &path("/"), None).unwrap();
        assert_eq!((shown[2].max_held, shown[2].idle_held), (None, None));
        (shown[1].max_held, shown[1].idle_held)
    };
    assert_eq!(held(&[]), (Some(true), Some(true)));
    assert_eq!(held(&[LIMITS]), (Some(false), Some(true)));
    assert_eq!(held(&[TIMERS]), (Some(false), Some(true)));
    assert_eq!(held(&[IDLE, "scx_bpf_now"]), (Some(true), Some(false)));

    let found = |limits, idle| not_held(&b.fake.fs, crate::features::Holds { limits, idle });
    assert_eq!(found(true, true), NotHeld::default());
    assert_eq!(found(false, true).limits, std::slice::from_ref(&a));
    assert_eq!(found(true, false).idle, std::slice::from_ref(&a));
    assert!(found(true, false).limits.is_empty());
}
