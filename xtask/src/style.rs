// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formatting of Rust and C.

use crate::shell::{cargo, check, command, files, has_extension, newest};
use anyhow::Result;
use std::path::PathBuf;

/// C of the project; generated headers are not in the tree.
pub fn c_files() -> Vec<PathBuf> {
    let all = files(".").into_iter();
    all.filter(|path| has_extension(path, &["c", "h"]))
        .collect()
}

/// Formats everything in place.
pub fn format() -> Result<()> {
    check(cargo().args(["fmt", "--all"]))?;
    check(command(newest("clang-format")).arg("-i").args(c_files()))
}

/// Fails when something is not formatted.
pub fn check_format() -> Result<()> {
    check(cargo().args(["fmt", "--all", "--check"]))?;
    check(
        command(newest("clang-format"))
            .args(["--dry-run", "-Werror"])
            .args(c_files()),
    )
}
