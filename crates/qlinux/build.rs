// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the schedulers to BPF, and takes the names of the leaf
//! schedulers from core/cpu/leaf.h, their only list.

use std::env;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// clang below 19 crashes on arena memory; the newest that is there is taken.
const CLANGS: [&str; 5] = ["clang-22", "clang-21", "clang-20", "clang-19", "clang"];

/// Name, source and definitions of each object. That of the processors has a form of its own for
/// machines that have one (kernel/cpu/once.h).
const OBJECTS: [(&str, &str, &[&str]); 3] = [
    ("hsfq_cpu", "kernel/cpu/hsfq_cpu.bpf.c", &[]),
    (
        "hsfq_cpu_single",
        "kernel/cpu/hsfq_cpu.bpf.c",
        &["-DSINGLE_CPU"],
    ),
    ("hsfq_link", "kernel/link/hsfq_link.bpf.c", &[]),
];

fn main() {
    let repository = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../..");
    let out = PathBuf::from(variable("OUT_DIR"));

    for name in [
        "CLANG",
        "QLINUX_VMLINUX_H",
        "QLINUX_CACHE",
        "XDG_CACHE_HOME",
        "HOME",
    ] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    for folder in ["core", "kernel"] {
        println!(
            "cargo::rerun-if-changed={}",
            repository.join(folder).display()
        );
    }
    let result = leaf_names(
        &repository.join("core/cpu/leaf.h"),
        &out.join("leaf_names.rs"),
    )
    .and_then(|()| {
        OBJECTS.iter().try_for_each(|(name, source, defines)| {
            let object = out.join(format!("{name}.bpf.o"));
            compile(&repository.join(source), defines, &object)?;
            compress(&object)
        })
    });
    if let Err(message) = result {
        println!("cargo::error={}", message.replace('\n', "; "));
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// `X(0, ts)` lines of LEAF_POLICIES, as a Rust table.
fn leaf_names(header: &Path, to: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(header).map_err(|e| format!("{}: {e}", header.display()))?;
    let mut table = String::from("[\n");
    for line in text
        .lines()
        .skip_while(|l| !l.contains("define LEAF_POLICIES"))
    {
        if let Some((number, name)) = line
            .trim()
            .strip_prefix("X(")
            .and_then(|rest| rest.split_once(')'))
            .and_then(|(inside, _)| inside.split_once(','))
        {
            let _ = writeln!(table, "    ({}, \"{}\"),", number.trim(), name.trim());
        }
        if !line.ends_with('\\') {
            break;
        }
    }
    table.push_str("]\n");
    if !table.contains('(') {
        return Err(format!(
            "{}: LEAF_POLICIES has no line X(number, name)",
            header.display()
        ));
    }
    std::fs::write(to, table).map_err(|e| format!("{}: {e}", to.display()))
}

/// The same object serves every architecture: no program reads registers, which is all that
/// libbpf's headers would have to know one for, and types are those of the running kernel.
fn compile(source: &Path, defines: &[&str], object: &Path) -> Result<(), String> {
    let clang = clang()?;
    let vmlinux = vmlinux_folder()?;
    println!(
        "cargo::rerun-if-changed={}",
        vmlinux.join("vmlinux.h").display()
    );
    // The directory of libbpf's own headers, which match the linked libbpf.
    let libbpf = variable("DEP_BPF_INCLUDE");
    let output = Command::new(&clang)
        .args(["-g", "-O2", "-target", "bpf", "-mcpu=v4", "-Wall"])
        // vmlinux.h names the tags of anonymous members.
        .args(["-fms-extensions", "-Wno-microsoft-anon-tag"])
        .args(defines)
        .arg(format!("-I{}", vmlinux.display()))
        .arg(format!("-I{libbpf}"))
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
        .map_err(|e| format!("{clang}: {e}"))?;
    let messages = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{clang} refused {}: {messages}", source.display()));
    }
    for line in messages.lines() {
        println!("cargo::warning={line}");
    }
    Ok(())
}

/// Most of an object are the zeros of its arena.
fn compress(object: &Path) -> Result<(), String> {
    let refuse = |e: std::io::Error| format!("{}: {e}", object.display());
    let bytes = std::fs::read(object).map_err(refuse)?;
    let file = std::fs::File::create(object.with_extension("o.gz")).map_err(refuse)?;
    let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    encoder
        .write_all(&bytes)
        .and_then(|()| encoder.finish())
        .map_err(refuse)?;
    Ok(())
}

fn clang() -> Result<String, String> {
    let asked = env::var("CLANG").ok();
    let candidates = asked.as_deref().map_or(CLANGS.to_vec(), |one| vec![one]);
    candidates
        .iter()
        .find(|name| {
            Command::new(name)
                .arg("--version")
                .output()
                .is_ok_and(|o| o.status.success())
        })
        .map(|name| name.to_string())
        .ok_or_else(|| {
            format!(
                "no BPF compiler ({}) is installed: run ./bootstrap",
                candidates.join(", ")
            )
        })
}

fn vmlinux_folder() -> Result<PathBuf, String> {
    let from_env = |name: &str| {
        env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    let folder = from_env("QLINUX_VMLINUX_H")
        .or_else(|| from_env("QLINUX_CACHE"))
        .or_else(|| from_env("XDG_CACHE_HOME").map(|p| p.join("qlinux")))
        .or_else(|| from_env("HOME").map(|p| p.join(".cache/qlinux")))
        .unwrap_or_default();
    if folder.join("vmlinux.h").is_file() {
        return Ok(folder);
    }
    Err(format!(
        "the kernel's types, {}, are missing: run ./bootstrap",
        folder.join("vmlinux.h").display()
    ))
}
