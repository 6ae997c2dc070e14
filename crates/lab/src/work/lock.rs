// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mutexes of the C library, in files that several processes share.

use super::timed::work_for;
use crate::counter::Counter;
use crate::sys;
use anyhow::{ensure, Context, Result};
use memmap2::MmapRaw;
use std::fs::{self, OpenOptions};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// What kind of mutex is made, where the file is new.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct Kind {
    /// Make mutexes with priority inheritance
    #[arg(long)]
    inherit: bool,
    /// Make robust mutexes
    #[arg(long)]
    robust: bool,
}

/// A mutex in a file.
pub struct Mutex {
    map: MmapRaw,
}

impl Mutex {
    /// The one in this file, which is made if there is none.
    pub fn open(path: &Path, kind: Kind) -> Result<Mutex> {
        let shown = || format!("the mutex {} cannot be made", path.display());
        if !path.exists() {
            // Complete before it gets its name, so nobody finds half of one.
            let mut mine = path.as_os_str().to_owned();
            mine.push(format!(".{}", std::process::id()));
            let mine = PathBuf::from(mine);
            Mutex::map(&mine)
                .and_then(|m| m.init(kind))
                .with_context(shown)?;
            let made = fs::hard_link(&mine, path);
            fs::remove_file(&mine).with_context(shown)?;
            if made.is_err() && !path.exists() {
                made.with_context(shown)?;
            }
        }
        Mutex::map(path).with_context(shown)
    }

    fn map(path: &Path) -> Result<Mutex> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        file.set_len(size_of::<libc::pthread_mutex_t>() as u64)?;
        let map = MmapRaw::map_raw(&file)?;
        Ok(Mutex { map })
    }

    fn raw(&self) -> *mut libc::pthread_mutex_t {
        self.map.as_mut_ptr().cast()
    }

    fn init(&self, kind: Kind) -> Result<()> {
        let mut attributes = MaybeUninit::uninit();
        let protocol = [libc::PTHREAD_PRIO_NONE, libc::PTHREAD_PRIO_INHERIT];
        let robust = [libc::PTHREAD_MUTEX_STALLED, libc::PTHREAD_MUTEX_ROBUST];
        // SAFETY: the attributes are initialised first, and the mutex has room in the map.
        let done = unsafe {
            let a = attributes.as_mut_ptr();
            libc::pthread_mutexattr_init(a) == 0
                && libc::pthread_mutexattr_setpshared(a, libc::PTHREAD_PROCESS_SHARED) == 0
                && libc::pthread_mutexattr_setprotocol(a, protocol[usize::from(kind.inherit)]) == 0
                && libc::pthread_mutexattr_setrobust(a, robust[usize::from(kind.robust)]) == 0
                && libc::pthread_mutex_init(self.raw(), a) == 0
        };
        ensure!(done, "the C library refuses");
        Ok(())
    }

    /// Takes it; a holder that died has left it.
    pub fn lock(&self) {
        // SAFETY: it is initialised, and mapped as long as this lives.
        unsafe {
            if libc::pthread_mutex_lock(self.raw()) == libc::EOWNERDEAD {
                libc::pthread_mutex_consistent(self.raw());
            }
        }
    }

    /// Gives it back.
    pub fn unlock(&self) {
        // SAFETY: as above, and this thread has it.
        unsafe { libc::pthread_mutex_unlock(self.raw()) };
    }
}

/// Takes all of them in order, logs how long that took, works for `hold` and lets go.
pub fn run(counter: &Counter, count: &AtomicU64, take: &[Mutex], hold: Duration, pause: Duration) {
    loop {
        let begun = sys::now_ns();
        take.iter().for_each(Mutex::lock);
        counter.log(sys::now_ns() - begun);
        work_for(count, hold);
        take.iter().rev().for_each(Mutex::unlock);
        sys::sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutex_is_made_once_and_excludes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mutex");
        for kind in [
            Kind::default(),
            Kind {
                inherit: true,
                robust: true,
            },
        ] {
            let (a, b) = (
                Mutex::open(&path, kind).unwrap(),
                Mutex::open(&path, kind).unwrap(),
            );
            a.lock();
            // SAFETY: b is another view of the same mutex.
            assert_eq!(unsafe { libc::pthread_mutex_trylock(b.raw()) }, libc::EBUSY);
            a.unlock();
            b.lock();
            b.unlock();
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
            drop((a, b));
            fs::remove_file(&path).unwrap();
        }
    }
}
