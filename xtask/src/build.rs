// SPDX-License-Identifier: MIT OR Apache-2.0
//! Building, and laying out what the guest gets.

use crate::install::{self, Files};
use crate::shell::{cargo, check, command, root, target};
use anyhow::{bail, Context, Result};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// What the build made.
#[derive(Default)]
pub struct Products {
    /// Programs, without the helpers of the repository.
    pub programs: Vec<PathBuf>,
    /// Programs of tests.
    examples: Vec<PathBuf>,
    /// The shared library and the customary links to it.
    pub libraries: Vec<PathBuf>,
}

/// Builds all packages with optimisation.
pub fn release() -> Result<Products> {
    let mut products = Products::default();
    products.build(&["--workspace", "--exclude", "xtask"])?;
    products.add_library()?;
    Ok(products)
}

/// Builds what only tests in the guest need: the examples.
fn test_programs() -> Result<Products> {
    let mut products = Products::default();
    products.build(&["-p", "qlinux", "-p", "qlinux-core", "--examples"])?;
    Ok(products)
}

impl Products {
    fn build(&mut self, what: &[&str]) -> Result<()> {
        let mut child = cargo()
            .args(["build", "--release", "--locked"])
            .args(what)
            .arg("--message-format=json-render-diagnostics")
            .stdout(Stdio::piped())
            .spawn()
            .context("cargo cannot be started")?;
        for line in BufReader::new(child.stdout.take().context("no pipe")?).lines() {
            self.add(&serde_json::from_str(&line?)?);
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("the build failed: see the compiler's messages above");
        }
        Ok(())
    }

    fn add(&mut self, message: &serde_json::Value) {
        if message["reason"] != "compiler-artifact" {
            return;
        }
        let kinds = message["target"]["kind"].as_array();
        let is = |what: &str| kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == what));
        match message["executable"].as_str() {
            Some(program) if is("bin") => self.programs.push(program.into()),
            Some(program) if is("example") => self.examples.push(program.into()),
            _ => (),
        }
    }

    /// The C library needs a linker script, which cargo alone does not take.
    fn add_library(&mut self) -> Result<()> {
        let folder = target().join("capi");
        check(command(root().join("capi/build.sh")).arg(&folder))?;
        for entry in std::fs::read_dir(&folder)? {
            self.libraries.push(entry?.path());
        }
        Ok(())
    }
}

/// Where `vm/run` looks for what to lay over the guest's root.
pub fn stage_dir() -> PathBuf {
    target().join("stage")
}

/// Kernel modules of the guest: the users', and what only tests need.
fn guest_modules() -> Vec<PathBuf> {
    ["kernel/disk", "kernel/testdisk"]
        .map(|folder| root().join(folder))
        .into_iter()
        .filter(|folder| folder.join("Kbuild").is_file())
        .collect()
}

/// Builds and installs into the stage, together with the guest's part of the tests.
pub fn stage() -> Result<()> {
    let products = release()?;
    let stage = stage_dir();
    // A file that is no longer installed must not linger in the guest.
    if stage.exists() {
        std::fs::remove_dir_all(&stage)
            .with_context(|| format!("{} cannot be cleared", stage.display()))?;
    }
    install::install(&products, Path::new("/usr"), &stage, Files::Runtime)?;
    check(
        command(root().join("vm/headers"))
            .arg("--stage")
            .arg(&stage)
            .args(guest_modules()),
    )?;
    let tests = root().join("tests");
    if tests.is_dir() {
        let to = stage.join("usr/lib/qlinux/tests");
        std::fs::create_dir_all(&to)?;
        check(command("cp").arg("-rT").arg(&tests).arg(&to))?;
        check(
            command(tests.join("capi/build.sh"))
                .arg(target().join("capi"))
                .arg(to.join("capi")),
        )?;
        std::fs::create_dir_all(to.join("bin"))?;
        for program in test_programs()?.examples {
            check(command("cp").arg(program).arg(to.join("bin")))?;
        }
    }
    Ok(())
}

/// Builds, then runs the command line as a user of this tree would.
pub fn run_qlinux(args: &[String]) -> Result<()> {
    stage()?;
    let status = command(target().join("release/qlinux"))
        .args(args)
        .env("QLINUX_VM_RUN", root().join("vm/run"))
        .env("QLINUX_STAGE", stage_dir())
        .status()
        .context("target/release/qlinux cannot be started")?;
    std::process::exit(status.code().unwrap_or(1));
}
