// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why the kernel did not take the scheduler, where it answers with a bare number.

use crate::stat::field;
use crate::Error;
use nix::errno::Errno;
use std::fs;
use std::path::Path;

/// `SCHED_DEADLINE` in field 41 of /proc/PID/stat.
const DEADLINE: &str = "6";
/// Of several threads, so many are named.
const NAMED_MAX: usize = 5;

/// Why it was loaded and not started, in what the kernel or libbpf said.
pub fn of_start(said: &str) -> String {
    match errno_in(said) {
        Some(errno) => explain(said, errno, &deadline_threads(Path::new("/proc"))),
        None => said.to_string(),
    }
}

/// A refusal to load, explained by what libbpf said meanwhile.
pub fn of_load(error: Error, words: &str) -> Error {
    let Error::Load { why } = error else {
        return error;
    };
    let unable = |why: String, remedy: &str| Error::Unable {
        why,
        remedy: remedy.into(),
    };
    if let Some(module) = misfit_module(words) {
        let why = format!("the type information of the module {module} does not fit this kernel");
        return unable(
            why,
            &format!("build the module anew for it, or unload it with `rmmod {module}`"),
        );
    }
    if words.contains("cannot use helper bpf_probe_read_kernel") {
        let why = "this kernel forbids BPF programs to read its memory".to_string();
        return unable(
            why,
            "see whether lockdown is in the mode confidentiality, and boot without",
        );
    }
    if words.contains("endian") {
        let why = "it was built for a machine of the other byte order".to_string();
        return unable(why, "install the QLinux that was built for this machine");
    }
    match errno_in(&why) {
        // What the verifier says is better than a number.
        Some(errno) if !why.contains("the verifier says") => Error::Load {
            why: explain(&why, errno, &[]),
        },
        _ => Error::Load { why },
    }
}

/// libbpf names the module whose types it could not read.
fn misfit_module(words: &str) -> Option<&str> {
    const BEFORE: &str = "failed to load module [";
    let at = words.find(BEFORE)? + BEFORE.len();
    words[at..].split(']').next()
}

/// The number of an error in words like "failed (-16)", "(os error 16)" and "failed: -16".
fn errno_in(said: &str) -> Option<Errno> {
    let number = |after: &str| {
        let at = said.rfind(after)? + after.len();
        let digits: String = said[at..]
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        digits.parse().ok()
    };
    let found: Option<i32> = ["(-", "os error ", ": -", "code -"]
        .into_iter()
        .find_map(number);
    found
        .map(Errno::from_raw)
        .filter(|errno| *errno != Errno::UnknownErrno)
}

fn explain(said: &str, errno: Errno, deadline: &[String]) -> String {
    let reason = match errno {
        Errno::EBUSY if !deadline.is_empty() => {
            let some = deadline.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>();
            let more = match deadline.len() > NAMED_MAX {
                true => " and others",
                false => "",
            };
            format!(
                "threads of SCHED_DEADLINE ({}{more}) hold so much of the processors that no 50 ms of each second are left \
                 for sched_ext's own reserve: end some, or let them reserve less",
                some.join(", ")
            )
        }
        Errno::EBUSY => "another scheduler is just coming or going: try again".into(),
        Errno::ENOMEM => "the kernel has not enough memory for it: free some, and try again".into(),
        Errno::E2BIG => {
            "this kernel's verifier gives up before it has walked through all of it: boot a newer kernel".into()
        }
        Errno::EPERM | Errno::EACCES => {
            "it is not permitted: run the command as root, outside containers, and see whether a security module forbids it"
                .into()
        }
        Errno::EINVAL | Errno::EOPNOTSUPP => {
            "this kernel does not know something of it: boot a newer kernel".into()
        }
        Errno::ENODEV => "sched_ext is switched off for now: see the kernel log".into(),
        _ => return said.to_string(),
    };
    format!("{reason} (it said '{said}')")
}

/// Threads with a reservation of the deadline class, as "NAME TID".
fn deadline_threads(proc: &Path) -> Vec<String> {
    let numbered = |folder: &Path| {
        let entries = fs::read_dir(folder).ok().into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()))
        });
        paths.sort();
        paths
    };
    let processes = numbered(proc).into_iter();
    let threads = processes.flat_map(|process| numbered(&process.join("task")));
    threads
        .filter_map(|thread| deadline_thread(&fs::read(thread.join("stat")).ok()?))
        .collect()
}

/// "NAME TID" of a line of /proc/PID/stat, if it is such a thread's.
fn deadline_thread(stat: &[u8]) -> Option<String> {
    let policy = field(stat, 41)?;
    let stat = String::from_utf8_lossy(stat);
    let (tid, name) = stat.rsplit_once(") ")?.0.split_once(" (")?;
    (policy == DEADLINE).then(|| format!("{name} {tid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(tid: i32, name: &str, policy: u32) -> String {
        let fields = vec!["0"; 37].join(" ");
        format!("{tid} ({name}) S {fields} {policy} 0 0\n")
    }

    #[test]
    fn numbers_are_found_in_words() {
        let cases = [
            ("scx_root_enable() failed (-16)", Some(Errno::EBUSY)),
            ("Cannot allocate memory (os error 12)", Some(Errno::ENOMEM)),
            ("failed to load object: -7", Some(Errno::E2BIG)),
            ("runtime error", None),
            ("ops.init() returned 5", None),
            ("failed (-99999)", None),
        ];
        for (said, errno) in cases {
            assert_eq!(errno_in(said), errno, "{said}");
        }
    }

    #[test]
    fn reasons_name_what_to_do() {
        let said = "scx_root_enable() failed (-16)";
        let some: Vec<String> = (1..8).map(|n| format!("rt-app {n}")).collect();
        let words = explain(said, Errno::EBUSY, &some);
        assert!(
            words.contains("(rt-app 1, rt-app 2, rt-app 3, rt-app 4, rt-app 5 and others)")
                && words
                    .contains("let them reserve less (it said 'scx_root_enable() failed (-16)')"),
            "{words}"
        );
        assert!(explain(said, Errno::EBUSY, &[]).contains("try again"));
        assert!(explain("x", Errno::ENOMEM, &[]).contains("free some"));
        assert_eq!(
            explain("its own words (-5)", Errno::EIO, &[]),
            "its own words (-5)"
        );
        assert_eq!(
            of_start("runtime error hsfq: too deep"),
            "runtime error hsfq: too deep"
        );
    }

    #[test]
    fn threads_of_the_deadline_class_are_named() {
        let proc = tempfile::tempdir().unwrap();
        let add = |pid: i32, tid: i32, name: &str, policy| {
            let task = proc.path().join(format!("{pid}/task/{tid}"));
            fs::create_dir_all(&task).unwrap();
            fs::write(task.join("stat"), stat(tid, name, policy)).unwrap();
        };
        add(7, 7, "plain", 0);
        add(7, 8, "a (b) c", 6);
        add(9, 9, "fifo", 1);
        fs::create_dir_all(proc.path().join("self/task/9")).unwrap();
        assert_eq!(deadline_threads(proc.path()), ["a (b) c 8"]);
    }

    #[test]
    fn refusals_to_load() {
        let load = |why: &str| Error::Load { why: why.into() };
        let module = "libbpf: failed to load module [zfs]'s BTF object #7: -22\n";
        let text = of_load(load("x (os error 22)"), module).to_string();
        assert!(
            text.contains("module zfs") && text.contains("`rmmod zfs`"),
            "{text}"
        );
        let text = of_load(
            load("y (os error 22)"),
            "libbpf: elf: endianness mismatch in x",
        )
        .to_string();
        assert!(text.contains("byte order"), "{text}");
        let text = of_load(load("the verifier says 'x' (os error 22)"), "").to_string();
        assert!(!text.contains("newer kernel"), "{text}");
        let text = of_load(load("Argument list too long (os error 7)"), "").to_string();
        assert!(text.contains("verifier gives up"), "{text}");
        let locked = "program of this type cannot use helper bpf_probe_read_kernel_str#115\n";
        let text = of_load(load("the verifier says ''"), locked).to_string();
        assert!(text.contains("lockdown"), "{text}");
        assert!(matches!(
            of_load(Error::NotLoaded, module),
            Error::NotLoaded
        ));
    }
}
