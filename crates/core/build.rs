// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the portable policies of `core/` for user space.

use std::path::Path;

fn main() {
    let manifest = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let core = Path::new(&manifest).join("../../core");

    println!("cargo::rerun-if-changed=src/shim.c");
    println!("cargo::rerun-if-changed=src/shim_cello.c");
    println!("cargo::rerun-if-changed=src/shim_link.c");
    println!("cargo::rerun-if-changed=src/shim_rules.c");
    println!("cargo::rerun-if-changed={}", core.display());
    cc::Build::new()
        .file("src/shim.c")
        .file("src/shim_cello.c")
        .file("src/shim_link.c")
        .file("src/shim_rules.c")
        .include(&core)
        // Always optimised: the cost benchmark counts these instructions.
        .opt_level(2)
        .debug(true)
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        // All leaf policies share one signature, few need every argument.
        .flag("-Wno-unused-parameter")
        .compile("qlinux_core_shim");
}
