// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where each file of an installation belongs.

use crate::build::Products;
use crate::shell::{command, files, has_extension, root};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What to install.
#[derive(Clone, Copy, PartialEq)]
pub enum Files {
    /// What programs need to run.
    Runtime,
    /// Also what developers and readers need.
    All,
}

struct Installer {
    prefix: PathBuf,
    destdir: PathBuf,
}

impl Installer {
    /// The path of `name` (below the prefix) on this machine's disk, its folder made.
    fn place(&self, name: &str) -> Result<PathBuf> {
        let below = self.prefix.join(name);
        let path = self.destdir.join(below.strip_prefix("/").unwrap_or(&below));
        let folder = path.parent().unwrap_or(&path);
        fs::create_dir_all(folder)
            .with_context(|| format!("{} cannot be created", folder.display()))?;
        Ok(path)
    }

    /// A new file each time: a running program must not change under its own feet.
    fn write(&self, name: &str, data: &[u8], mode: u32) -> Result<()> {
        let path = self.place(name)?;
        let failed = || format!("{} cannot be written", path.display());
        let part = path.with_extension("part");
        fs::write(&part, data).with_context(failed)?;
        fs::set_permissions(&part, fs::Permissions::from_mode(mode)).with_context(failed)?;
        fs::rename(&part, &path).with_context(failed)
    }

    fn copy(&self, from: &Path, name: &str, mode: u32) -> Result<()> {
        let data = fs::read(from).with_context(|| format!("{} cannot be read", from.display()))?;
        self.write(name, &data, mode)
    }

    fn link(&self, to: &str, name: &str) -> Result<()> {
        let path = self.place(name)?;
        if path.symlink_metadata().is_ok() {
            fs::remove_file(&path)?;
        }
        symlink(to, &path).with_context(|| format!("{} cannot be made", path.display()))
    }

    /// A shared library, or a link to one, as it is.
    fn library(&self, from: &Path) -> Result<()> {
        let name = format!("lib/{}", file_name(from));
        match fs::read_link(from) {
            Ok(target) => self.link(&target.to_string_lossy(), &name),
            Err(_) => self.copy(from, &name, 0o755),
        }
    }

    fn pkg_config(&self, template: &Path) -> Result<()> {
        let text = fs::read_to_string(template)?
            .replace("@PREFIX@", &self.prefix.to_string_lossy())
            .replace("@VERSION@", VERSION);
        let name = file_name(&template.with_extension(""));
        self.write(&format!("lib/pkgconfig/{name}"), text.as_bytes(), 0o644)
    }

    fn man_page(&self, page: &Path) -> Result<()> {
        let name = file_name(page);
        let section = name.rsplit('.').next().unwrap_or("1").to_owned();
        self.copy(page, &format!("share/man/man{section}/{name}"), 0o644)
    }

    /// What DKMS builds the disk scheduler from, for each kernel that is installed.
    fn module_sources(&self) -> Result<()> {
        let to = format!("src/qlinux-cello-{VERSION}");
        for folder in ["kernel/disk", "core", "core/disk", "core/tree"] {
            let inside = root().join(folder);
            for file in files(folder) {
                let name = file_name(&file);
                if file.parent() != Some(&inside) || name == "dkms.conf" {
                    continue;
                }
                let mode = if has_extension(&file, &["sh"]) {
                    0o755
                } else {
                    0o644
                };
                self.copy(&file, &format!("{to}/{folder}/{name}"), mode)?;
            }
        }
        let template = root().join("kernel/disk/dkms.conf");
        let text = fs::read_to_string(template)?.replace("@VERSION@", VERSION);
        self.write(&format!("{to}/dkms.conf"), text.as_bytes(), 0o644)
    }

    /// The command line writes its own pages and completions, so that they never disagree with it.
    fn generated(&self, qlinux: &Path) -> Result<()> {
        let pages = tempdir("man")?;
        let made = command(qlinux)
            .args(["generate", "man"])
            .arg(&pages)
            .status();
        if made.is_ok_and(|status| status.success()) {
            for page in fs::read_dir(&pages)?.flatten() {
                self.man_page(&page.path())?;
            }
        }
        for (shell, name) in [
            ("bash", "share/bash-completion/completions/qlinux"),
            ("zsh", "share/zsh/site-functions/_qlinux"),
            ("fish", "share/fish/vendor_completions.d/qlinux.fish"),
        ] {
            let made = command(qlinux)
                .args(["generate", "completions", shell])
                .output()?;
            if made.status.success() {
                self.write(name, &made.stdout, 0o644)?;
            }
        }
        Ok(())
    }
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn tempdir(name: &str) -> Result<PathBuf> {
    let path = crate::shell::target().join("xtask").join(name);
    if path.exists() {
        fs::remove_dir_all(&path)?;
    }
    fs::create_dir_all(&path)?;
    Ok(path)
}

/// Installs `products` for use from `prefix`, written below `destdir`.
pub fn install(products: &Products, prefix: &Path, destdir: &Path, what: Files) -> Result<()> {
    let to = Installer {
        prefix: prefix.to_owned(),
        destdir: destdir.to_owned(),
    };
    for program in &products.programs {
        to.copy(program, &format!("bin/{}", file_name(program)), 0o755)?;
    }
    for library in &products.libraries {
        to.library(library)?;
    }
    if what == Files::Runtime {
        return Ok(());
    }
    for file in files("capi/include")
        .iter()
        .filter(|f| has_extension(f, &["h"]))
    {
        to.copy(file, &format!("include/{}", file_name(file)), 0o644)?;
    }
    for file in files("capi")
        .iter()
        .filter(|f| file_name(f).ends_with(".pc.in"))
    {
        to.pkg_config(file)?;
    }
    let sections = ["1", "3", "5", "7", "8"];
    for folder in ["capi/man", "docs/man"] {
        for page in files(folder).iter().filter(|f| has_extension(f, &sections)) {
            to.man_page(page)?;
        }
    }
    to.module_sources()?;
    // Where the experiments look for the guest they boot.
    to.copy(&root().join("vm/run"), "share/qlinux/vm/run", 0o755)?;
    for license in [
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "LICENSE-BSD",
        "LICENSE-GPL",
    ] {
        to.copy(
            &root().join(license),
            &format!("share/doc/qlinux/{license}"),
            0o644,
        )?;
    }
    if let Some(qlinux) = products.programs.iter().find(|p| file_name(p) == "qlinux") {
        to.generated(qlinux)?;
    }
    Ok(())
}
