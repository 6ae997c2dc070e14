// SPDX-License-Identifier: MIT OR Apache-2.0
//! One changing command at a time.

use crate::{Error, Result};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

const PATH: &str = "/run/qlinux.lock";
const PATIENCE: Duration = Duration::from_secs(60);

/// Held while a command changes something. The kernel releases it however the
/// holder ends, and it is not inherited across exec.
pub struct Lock(#[allow(dead_code)] Flock<File>);

impl Lock {
    /// Waits for its turn.
    pub fn take() -> Result<Lock> {
        let path = Path::new(PATH);
        let started = Instant::now();
        let mut file = open(path)?;
        loop {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(Lock(lock)),
                Err((_, errno)) if errno != Errno::EWOULDBLOCK => {
                    return Err(Error::io("locking", path, errno.into()));
                }
                Err(_) if started.elapsed() > PATIENCE => {
                    return Err(Error::Locked {
                        path: path.into(),
                        seconds: PATIENCE.as_secs(),
                    });
                }
                Err((back, _)) => file = back,
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A lock on `path` if nobody holds it.
pub(crate) fn try_exclusive(path: &Path) -> Result<Option<Flock<File>>> {
    match Flock::lock(open(path)?, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(Error::io("locking", path, errno.into())),
    }
}

fn open(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|e| Error::io("opening", path, e))
}
