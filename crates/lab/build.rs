// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notes the compiler, which every result names.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output();
    let version = version.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    println!(
        "cargo::rustc-env=QLINUX_LAB_RUSTC={}",
        version.unwrap_or_default()
    );
}
