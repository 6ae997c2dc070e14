// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running other programs, finding files.

use anyhow::{bail, Context, Result};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use walkdir::{DirEntry, WalkDir};

/// The top of the repository.
pub fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// Where cargo puts what it builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A command started at the top of the repository.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// The cargo that runs this program.
pub fn cargo() -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs `command`, whose messages go to the terminal, and fails when it does.
pub fn check(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("{name} cannot be started: run ./bootstrap to install it"))?;
    if !status.success() {
        bail!("{name} failed with {status}");
    }
    Ok(())
}

/// The newest installed `name-N`, as Debian names compilers, or else `name`.
pub fn newest(name: &str) -> PathBuf {
    let version = |entry: std::fs::DirEntry| -> Option<u32> {
        let file = entry.file_name().into_string().ok()?;
        file.strip_prefix(name)?.strip_prefix('-')?.parse().ok()
    };
    let newest = std::fs::read_dir("/usr/bin")
        .ok()
        .and_then(|dir| dir.flatten().filter_map(version).max());
    newest.map_or_else(
        || PathBuf::from(name),
        |n| PathBuf::from(format!("/usr/bin/{name}-{n}")),
    )
}

/// Every file of the repository (below `dir`), sorted, without what git ignores.
pub fn files(dir: &str) -> Vec<PathBuf> {
    let kept = |entry: &DirEntry| {
        !matches!(
            entry.file_name().to_str(),
            Some(".git" | "target" | ".cache")
        )
    };
    WalkDir::new(root().join(dir))
        .sort_by_file_name()
        .into_iter()
        .filter_entry(kept)
        .flatten()
        .filter(|entry| entry.file_type().is_file())
        .map(DirEntry::into_path)
        .collect()
}

/// `path` as seen from the top of the repository.
pub fn relative(path: &Path) -> String {
    let inside = path.strip_prefix(root()).unwrap_or(path);
    inside.to_string_lossy().into_owned()
}

/// Whether the name of `path` ends in one of `extensions`.
pub fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    extension.is_some_and(|e| extensions.contains(&e))
}
