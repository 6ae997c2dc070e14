// SPDX-License-Identifier: MIT OR Apache-2.0
//! I/O priorities of threads, which carry the class of a process.
//!
//! The kernel drops the hint of a priority without a class (`IOPRIO_CLASS_NONE`: as the nice
//! value says). So a thread that is given a disk class is also given the priority that it has
//! by its nice value, and loses that again with its disk class.

use super::{Class, Deadline, Hint, Refusal};
use crate::stat::field;
use crate::{Error, Result};
use nix::errno::Errno;
use nix::libc;
use std::collections::BTreeMap;
use std::fs;

const WHO_PROCESS: libc::c_int = 1;
const BASE_SHIFT: u32 = 13;
const HINT_SHIFT: u32 = 3;
/// Bits of the hint.
const HINT_MASK: u16 = 0x3ff;

const NONE: u16 = 0;
const RT: u16 = 1;
const BE: u16 = 2;
const IDLE: u16 = 3;

/// New threads of a process have their maker's class, so that a second look finds few.
const LOOKS_MAX: usize = 64;

/// A thread's I/O priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ioprio(u16);

impl Ioprio {
    /// Of thread `tid`, 0: the calling one.
    fn of(tid: i32) -> nix::Result<Ioprio> {
        // SAFETY: takes numbers only.
        let value = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, tid) };
        Errno::result(value).map(|value| Ioprio(value as u16))
    }

    fn give(self, tid: i32) -> nix::Result<()> {
        let value = libc::c_int::from(self.0);
        // SAFETY: takes numbers only.
        let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, tid, value) };
        Errno::result(result).map(drop)
    }

    fn base(self) -> u16 {
        self.0 >> BASE_SHIFT
    }

    fn hint(self) -> Option<Hint> {
        Hint::from_bits(self.0 >> HINT_SHIFT & HINT_MASK).filter(|_| self.base() != NONE)
    }

    fn without_hint(self) -> Ioprio {
        Ioprio(self.0 & !(HINT_MASK << HINT_SHIFT))
    }

    /// The same with that hint; of class none with none, and as the nice value says again if
    /// `nice` is what that says.
    fn with(self, hint: &Hint, nice: Ioprio) -> Ioprio {
        let mut plain = self.without_hint();
        if plain.base() == NONE {
            plain = nice;
        }
        match (hint.class, hint.own) {
            (Class::None, false) if plain == nice => Ioprio(0),
            (Class::None, false) => plain,
            _ => Ioprio(plain.0 | hint.bits() << HINT_SHIFT),
        }
    }
}

/// The I/O priority that the kernel takes a thread without one to have. It takes real-time
/// threads to have a real-time one, which takes privilege to set: those have the best one below.
fn by_nice(tid: i32) -> Ioprio {
    // SAFETY: takes numbers only.
    let (policy, nice) = unsafe {
        (
            libc::sched_getscheduler(tid),
            libc::getpriority(libc::PRIO_PROCESS, tid as libc::id_t),
        )
    };
    let base = match policy {
        libc::SCHED_IDLE => IDLE,
        _ => BE,
    };
    let level = (nice.clamp(-20, 19) + 20) / 5;
    Ioprio(base << BASE_SHIFT | level as u16)
}

/// Its threads that have not ended, in ascending order.
fn threads(pid: i32) -> Result<Vec<i32>> {
    let gone = || Error::NoProcess { pid };
    let folder = fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| gone())?;
    let ids = folder
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut alive: Vec<i32> = ids.filter(|tid| is_alive(pid, *tid)).collect();
    alive.sort_unstable();
    match alive.is_empty() {
        true => Err(gone()),
        false => Ok(alive),
    }
}

/// A first thread that has ended stays in sight while others live.
fn is_alive(pid: i32, tid: i32) -> bool {
    let text = fs::read(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    !matches!(field(&text, 3), None | Some("Z" | "X" | "x"))
}

/// What a process is, or is to be, to disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct OfProcess {
    /// The class of its requests, unless they or its cgroup say otherwise.
    pub class: Class,
    /// Their deadline, in nanoseconds; `None`: the disk's.
    #[serde(rename = "deadline_ns")]
    pub deadline: Option<Deadline>,
}

impl OfProcess {
    /// That of the first of its threads.
    pub fn of(pid: i32) -> Result<OfProcess> {
        let tids = match pid {
            0 => vec![0],
            _ => threads(pid)?,
        };
        for tid in tids {
            match Ioprio::of(tid) {
                Ok(priority) => {
                    let hint = priority.hint().filter(|hint| !hint.own);
                    return Ok(OfProcess {
                        class: hint.map_or(Class::None, |hint| hint.class),
                        deadline: hint.and_then(|hint| hint.deadline),
                    });
                }
                Err(Errno::ESRCH) => continue,
                Err(errno) => return Err(explain(pid, Ioprio(0), errno)),
            }
        }
        Err(Error::NoProcess { pid })
    }

    /// Gives it to all threads of a process (0: the calling one), or to none. Programs that it
    /// starts, and threads that it makes, inherit it.
    pub fn give(&self, pid: i32) -> Result<()> {
        let hint = Hint::new(false, self.class, self.deadline)?;
        let pid = match pid {
            0 => nix::unistd::getpid().as_raw(),
            pid => pid,
        };
        let mut before = BTreeMap::new();
        let outcome = give_all(pid, &hint, &mut before);
        if outcome.is_err() {
            for (tid, priority) in before {
                let _ = priority.give(tid);
            }
        }
        outcome
    }
}

/// Until a look finds no thread that has another.
fn give_all(pid: i32, hint: &Hint, before: &mut BTreeMap<i32, Ioprio>) -> Result<()> {
    for _ in 0..LOOKS_MAX {
        let mut others = 0;
        for tid in threads(pid)? {
            let Ok(now) = Ioprio::of(tid) else {
                continue;
            };
            let wanted = now.with(hint, by_nice(tid));
            if now == wanted {
                continue;
            }
            match wanted.give(tid) {
                Ok(()) => {
                    before.entry(tid).or_insert(now);
                    others += 1;
                }
                Err(Errno::ESRCH) => (),
                Err(errno) => return Err(explain(pid, wanted, errno)),
            }
        }
        if others == 0 {
            return Ok(());
        }
    }
    Err(Refusal::Threads { pid }.into())
}

fn explain(pid: i32, wanted: Ioprio, errno: Errno) -> Error {
    match errno {
        Errno::ESRCH => Error::NoProcess { pid },
        Errno::EPERM if wanted.base() == RT => Refusal::RealtimePriority { pid }.into(),
        Errno::EPERM | Errno::EACCES => Refusal::NotYours { pid }.into(),
        _ => {
            let why = errno.desc().to_lowercase();
            Refusal::NotTaken { pid, why, errno }.into()
        }
    }
}

/// The I/O priority of a request of the calling thread's in that class, as `aio_reqprio` and
/// `sqe->ioprio` take it.
pub fn of_request(class: Class, deadline: Option<Deadline>) -> Result<u16> {
    let hint = Hint::new(true, class, deadline)?;
    let now = Ioprio::of(0).map_err(|errno| explain(0, Ioprio(0), errno))?;
    Ok(now.with(&hint, by_nice(0)).0)
}

/// While it lives, the requests of the calling thread are of that class, whatever the class
/// of the process and of its cgroup.
pub struct Own {
    before: Ioprio,
    own: Ioprio,
    /// A thread gives its own priority back.
    _here: std::marker::PhantomData<*const ()>,
}

impl Own {
    /// Until it is dropped.
    pub fn begin(class: Class, deadline: Option<Deadline>) -> Result<Own> {
        let hint = Hint::new(true, class, deadline)?;
        let refuse = |wanted| move |errno| explain(nix::unistd::getpid().as_raw(), wanted, errno);
        let before = Ioprio::of(0).map_err(refuse(Ioprio(0)))?;
        let wanted = before.with(&hint, by_nice(0));
        wanted.give(0).map_err(refuse(wanted))?;
        Ok(Own {
            before,
            own: wanted,
            _here: std::marker::PhantomData,
        })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // Unless the process was given another class meanwhile, which is in force then.
        if Ioprio::of(0) == Ok(self.own) {
            let _ = self.before.give(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn realtime(ms: u64) -> OfProcess {
        OfProcess {
            class: Class::Realtime,
            deadline: Some(Deadline::from_ms(ms).unwrap()),
        }
    }

    const NO_CLASS: OfProcess = OfProcess {
        class: Class::None,
        deadline: None,
    };

    #[test]
    fn priorities_keep_what_they_were() {
        let nice = Ioprio(BE << BASE_SHIFT | 4);
        let hint = Hint::new(false, Class::Throughput, None).unwrap();
        let none = Hint::new(false, Class::None, None).unwrap();
        for (before, plain) in [
            (0, nice.0),
            (BE << BASE_SHIFT | 1, BE << BASE_SHIFT | 1),
            (RT << BASE_SHIFT | 7, RT << BASE_SHIFT | 7),
            (IDLE << BASE_SHIFT | 7, IDLE << BASE_SHIFT | 7),
        ] {
            let given = Ioprio(before).with(&hint, nice);
            assert_eq!(given.hint(), Some(hint));
            assert_eq!(given.without_hint(), Ioprio(plain));
            assert_eq!(given.with(&none, nice), Ioprio(before));
            let own = Hint::new(true, Class::None, None).unwrap();
            assert_eq!(given.with(&own, nice).hint(), Some(own));
        }
        // Another's hint, a command duration limit, makes place.
        let foreign = Ioprio(BE << BASE_SHIFT | 3 << HINT_SHIFT | 4);
        assert_eq!(foreign.hint(), None);
        assert_eq!(foreign.with(&hint, nice).hint(), Some(hint));
    }

    /// Before 6.5 the kernel knew no hints. The guest's does, and is tested there.
    fn without_hints() -> bool {
        let refused = Own::begin(Class::Interactive, None).err();
        refused.is_some_and(|e| e.errno() == Errno::EINVAL)
    }

    #[test]
    fn all_threads_of_a_process() {
        if without_hints() {
            return;
        }
        let mut sleeper = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .unwrap();
        let pid = sleeper.id() as i32;
        assert_eq!(OfProcess::of(pid).unwrap().class, Class::None);
        realtime(40).give(pid).unwrap();
        assert_eq!(OfProcess::of(pid).unwrap(), realtime(40));
        realtime(41).give(pid).unwrap();
        assert_eq!(OfProcess::of(pid).unwrap(), realtime(40), "rounded down");
        let odd = OfProcess {
            class: Class::Interactive,
            ..realtime(40)
        };
        assert!(odd.give(pid).is_err());
        assert_eq!(OfProcess::of(pid).unwrap(), realtime(40));
        NO_CLASS.give(pid).unwrap();
        assert_eq!(Ioprio::of(pid).unwrap(), Ioprio(0));
        sleeper.kill().unwrap();
        // Ended, and not waited for.
        while is_alive(pid, pid) {
            std::thread::yield_now();
        }
        let refusal = realtime(40).give(pid).unwrap_err();
        assert!(matches!(refusal, Error::NoProcess { .. }), "{refusal}");
        sleeper.wait().unwrap();
        assert!(OfProcess::of(pid).is_err());
    }

    #[test]
    fn own_requests_of_a_thread() {
        if without_hints() {
            return;
        }
        std::thread::spawn(|| {
            let before = Ioprio::of(0).unwrap();
            let own = Own::begin(Class::Interactive, None).unwrap();
            let hint = Ioprio::of(0).unwrap().hint().unwrap();
            assert_eq!((hint.own, hint.class), (true, Class::Interactive));
            assert_eq!(OfProcess::of(0).unwrap(), NO_CLASS);
            let value = of_request(Class::Realtime, Some(Deadline::from_ms(8).unwrap())).unwrap();
            assert!(Ioprio(value).hint().unwrap().own);
            drop(own);
            assert_eq!(Ioprio::of(0).unwrap(), before);
            let own = Own::begin(Class::Interactive, None).unwrap();
            let given = before.with(
                &Hint::new(false, Class::Throughput, None).unwrap(),
                by_nice(0),
            );
            given.give(0).unwrap();
            drop(own);
            assert_eq!(Ioprio::of(0).unwrap(), given);
        })
        .join()
        .unwrap();
    }
}
