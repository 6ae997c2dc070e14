// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of all results, made from their manifests.

use crate::exp;
use crate::manifest::{show, Claim, Manifest};
use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The manifests below `folder`, in the order of the registry.
pub fn manifests(folder: &Path) -> Result<Vec<Manifest>> {
    let mut all = Vec::new();
    for experiment in exp::ALL {
        let path = folder.join(experiment.name).join("manifest.json");
        if !path.is_file() {
            continue;
        }
        all.push(read(&path)?);
    }
    Ok(all)
}

/// One manifest.
pub fn read(path: &Path) -> Result<Manifest> {
    let text =
        fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is damaged: run the experiment again", path.display()))
}

/// Writes `folder`/README.md and returns its path.
pub fn write(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("README.md");
    let text = page(&manifests(folder)?)?;
    fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(path)
}

fn row(text: &mut String, manifest: &Manifest, claim: &Claim) -> Result<()> {
    let value = |value: Option<f64>| value.map_or("–".to_owned(), |v| show(v, &claim.unit));
    writeln!(
        text,
        "| [{name}](#{name}) | {} | {} | {}{} | {} | {} | {} | {} | {} | [figure]({name}/figure.svg) |",
        claim.text,
        claim.target.show(&claim.unit),
        value(claim.measured),
        if claim.passed { "" } else { " **missed**" },
        value(claim.stock),
        value(claim.flatcg),
        claim.show_peers(),
        manifest.kernel,
        manifest.revision,
        name = manifest.name,
    )?;
    Ok(())
}

fn section(text: &mut String, manifest: &Manifest) -> Result<()> {
    let name = &manifest.name;
    writeln!(
        text,
        "\n## {name}\n\n**{}** ({}).",
        manifest.title, manifest.source
    )?;
    writeln!(text, "{}\n", manifest.says)?;
    writeln!(text, "![{}]({name}/figure.svg)\n", manifest.title)?;
    writeln!(text, "{}", manifest.scale)?;
    let how = if manifest.deterministic {
        "deterministic guest"
    } else {
        "real time"
    };
    let cpus = if manifest.cpus == 1 { "CPU" } else { "CPUs" };
    writeln!(
        text,
        "`qlinux lab run {name}{} --seed {}`: {how}, {} {cpus}. \
         [Data]({name}/data.csv), [manifest]({name}/manifest.json).",
        if manifest.full { " --full" } else { "" },
        manifest.seed,
        manifest.cpus,
    )?;
    Ok(())
}

fn page(all: &[Manifest]) -> Result<String> {
    let mut text = String::from(
        "# Results\n\n\
         Made by `qlinux lab run NAME…` and `qlinux lab report`. Each experiment runs the same\n\
         workload under the stock kernel and under QLinux in one boot, some under scx_flatcg as well.\n\
         The stock kernel's side of a link is a FIFO; the others of a link are in a column of their own.\n\n\
         | Experiment | Claim | Target | QLinux | Stock | scx_flatcg | Others | Kernel | Revision | |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for manifest in all {
        for claim in &manifest.claims {
            row(&mut text, manifest, claim)?;
        }
    }
    for manifest in all {
        section(&mut text, manifest)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests::manifest;

    #[test]
    fn page_from_manifests() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("qlinux-5a");
        fs::create_dir(&folder).unwrap();
        let text = serde_json::to_string(&manifest()).unwrap();
        fs::write(folder.join("manifest.json"), text).unwrap();
        let path = write(dir.path()).unwrap();
        let page = fs::read_to_string(path).unwrap();
        let row = "| [qlinux-5a](#qlinux-5a) | ratio | 3.98 … 4.02 | 4.001 | 4 | – |  | 7.3 | abc | [figure](qlinux-5a/figure.svg) |";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("![Progress](qlinux-5a/figure.svg)"), "{page}");
    }
}
