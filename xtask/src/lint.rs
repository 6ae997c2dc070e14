// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of the repository, each a function that lists what breaks it.

use crate::shell::{cargo, check, command, files, has_extension, relative, root};
use crate::style;
use anyhow::{bail, Result};
use regex::Regex;
use std::fs;
use std::path::{Path, PathBuf};

const MAX_FILE_LINES: usize = 1000;
const MAX_MAKEFILE_LINES: usize = 40;

/// A check, which may look at all sources.
type Step<'a> = Box<dyn Fn() -> Result<()> + 'a>;

/// A text file of the repository.
struct Source {
    path: PathBuf,
    name: String,
    text: String,
}

/// Runs every check, reports all failures, fails when there is one.
pub fn run() -> Result<()> {
    let sources = read_sources();
    let steps: [(&str, Step); 10] = [
        ("formatting", Box::new(style::check_format)),
        ("clippy", Box::new(clippy)),
        ("shellcheck", Box::new(|| shellcheck(&sources))),
        ("licence lines", Box::new(|| report(licences(&sources)))),
        ("unfinished markers", Box::new(|| report(markers(&sources)))),
        ("file lengths", Box::new(|| report(lengths(&sources)))),
        ("layering", Box::new(|| report(layering(&sources)))),
        ("papers", Box::new(|| report(papers()?))),
        ("properties", Box::new(|| report(properties(&sources)))),
        ("host names", Box::new(|| report(host_names(&sources)))),
    ];
    let mut failed = Vec::new();
    for (name, step) in &steps {
        println!("lint: {name}");
        if let Err(error) = step() {
            eprintln!("{error:#}");
            failed.push(*name);
        }
    }
    if !failed.is_empty() {
        bail!("lint failed: {}", failed.join(", "));
    }
    Ok(())
}

fn read_sources() -> Vec<Source> {
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).ok()?;
        Some(Source {
            name: relative(&path),
            path,
            text,
        })
    };
    files(".").into_iter().filter_map(read).collect()
}

fn report(broken: Vec<String>) -> Result<()> {
    if !broken.is_empty() {
        bail!("{}", broken.join("\n"));
    }
    Ok(())
}

fn clippy() -> Result<()> {
    check(
        cargo()
            .args(["clippy", "--workspace", "--all-targets", "--locked"])
            .args(["--", "-D", "warnings"]),
    )
}

fn is_shell(source: &Source) -> bool {
    let first = source.text.lines().next().unwrap_or("");
    has_extension(&source.path, &["sh"])
        || (first.starts_with("#!") && (first.ends_with("/sh") || first.contains("bash")))
}

fn shellcheck(sources: &[Source]) -> Result<()> {
    let scripts = sources
        .iter()
        .filter(|source| is_shell(source))
        .map(|source| &source.path);
    check(
        command("shellcheck")
            .args(["-x", "--severity=warning"])
            .args(scripts),
    )
}

/// The licence a file's place asks for; `None` for files without code.
fn expected_licence(source: &Source) -> Option<&'static str> {
    let code = has_extension(&source.path, &["rs", "c", "h", "map", "toml"])
        || is_shell(source)
        || source.name == "Makefile";
    if !code || source.name == "rustfmt.toml" {
        return None;
    }
    Some(match source.name.split('/').next() {
        Some("core") => "GPL-2.0-only OR BSD-2-Clause",
        Some("kernel") => "GPL-2.0-only",
        _ => "MIT OR Apache-2.0",
    })
}

fn licences(sources: &[Source]) -> Vec<String> {
    let broken = |source: &Source| {
        let expected = expected_licence(source)?;
        let line = source
            .text
            .lines()
            .take(2)
            .find(|l| l.contains("SPDX-License-Identifier: "));
        let wanted = format!("SPDX-License-Identifier: {expected}");
        let good = line.is_some_and(|line| line.contains(&wanted));
        (!good).then(|| format!("{}: its head must say \"{wanted}\"", source.name))
    };
    sources.iter().filter_map(broken).collect()
}

/// Lines of `sources` that match, as file:line: why.
fn matching(sources: &[Source], pattern: &str, why: &str) -> Vec<String> {
    let pattern = Regex::new(pattern).expect("a pattern of this file");
    let mut found = Vec::new();
    for source in sources {
        for (number, line) in source.text.lines().enumerate() {
            if pattern.is_match(line) {
                found.push(format!("{}:{}: {why}", source.name, number + 1));
            }
        }
    }
    found
}

fn markers(sources: &[Source]) -> Vec<String> {
    // Put together here so that this file does not contain them.
    let words = [["TO", "DO"], ["FIX", "ME"], ["X", "XX"], ["HA", "CK"]].map(|w| w.concat());
    let pattern = format!(r"\b({})\b", words.join("|"));
    matching(
        sources,
        &pattern,
        "unfinished: finish it, or say what is and why that is enough",
    )
}

fn host_names(sources: &[Source]) -> Vec<String> {
    let names = [
        ["debian", "org"],
        ["crates", "io"],
        ["pypi", "org"],
        ["npmjs", "com"],
    ];
    let pattern = format!("({})", names.map(|n| n.join(r"\.")).join("|"));
    // The lock file names the registry in every entry; cargo insists.
    let mut found = matching(sources, &pattern, "names the host of a package registry");
    found.retain(|line| !line.starts_with("Cargo.lock:"));
    found
}

fn lengths(sources: &[Source]) -> Vec<String> {
    let broken = |source: &Source| {
        let code = has_extension(&source.path, &["rs", "c", "h", "sh", "md"]) || is_shell(source);
        let most = match source.name.as_str() {
            "Makefile" => MAX_MAKEFILE_LINES,
            _ if code => MAX_FILE_LINES - 1,
            _ => return None,
        };
        let lines = source.text.lines().count();
        (lines > most).then(|| format!("{}: {lines} lines, at most {most} are read", source.name))
    };
    sources.iter().filter_map(broken).collect()
}

/// Folders of core/, and those that each may include from: nothing else, which is what makes one
/// text compile for BPF, for the kernel and for user space, and what keeps packets and threads
/// apart.  core/port.h is the one place that may look at where it is compiled.
const POLICIES: [(&str, &[&str]); 4] = [
    ("tree", &["tree"]),
    ("cpu", &["cpu", "tree"]),
    ("link", &["link", "tree"]),
    ("disk", &["disk", "tree"]),
];

fn layering(sources: &[Source]) -> Vec<String> {
    let include = Regex::new(r#"^\s*#\s*include\s+["<]([^">]+)[">]"#).expect("a pattern");
    let mut broken = Vec::new();
    for source in sources {
        let Some((folder, from)) = policy(&source.path) else {
            continue;
        };
        let may = |name: &str| match name.rsplit_once('/') {
            None => root().join("core").join(folder).join(name).is_file(),
            Some(("..", file)) => file == "port.h",
            Some((other, _)) => from.iter().any(|from| other == format!("../{from}")),
        };
        for found in source
            .text
            .lines()
            .filter_map(|line| include.captures(line))
        {
            if !may(&found[1]) {
                broken.push(format!(
                    "{}: includes {}, which policies of core/{folder} may not",
                    source.name, &found[1]
                ));
            }
        }
    }
    broken
}

/// Failing inputs of every property are kept, and all can be run longer, if all are configured alike.
fn properties(sources: &[Source]) -> Vec<String> {
    let block = Regex::new(r"(?m)^ *proptest! \{$").expect("a pattern");
    let mut broken = Vec::new();
    for source in sources {
        for found in block.find_iter(&source.text) {
            let rest = &source.text[found.end()..];
            let head = rest.split("#[test]").next().unwrap_or(rest);
            if !head.contains("#![proptest_config(") || !head.contains("cases(") {
                let line = source.text[..found.end()].lines().count();
                broken.push(format!(
                    "{}:{line}: begin it with #![proptest_config(cases(256))], of crates/properties",
                    source.name
                ));
            }
        }
    }
    broken
}

/// The folder of core/ that a policy is in, and those that it may include from.
fn policy(path: &Path) -> Option<(&'static str, &'static [&'static str])> {
    let known = |(folder, _): &&(&str, _)| path.parent() == Some(&root().join("core").join(folder));
    let header = has_extension(path, &["h"]);
    POLICIES.iter().find(known).copied().filter(|_| header)
}

/// What docs/papers.md says to be in a file of core/ is there.
fn papers() -> Result<Vec<String>> {
    const PAGE: &str = "docs/papers.md";
    let quoted = Regex::new("`([^`]+)`").expect("a pattern");
    let name =
        Regex::new("^[a-z][a-z0-9_]+$|^[A-Z][A-Z0-9_]+$|^struct [a-z_]+$").expect("a pattern");
    let mut broken = Vec::new();
    let page = fs::read_to_string(root().join(PAGE))?;
    for (number, line) in page.lines().enumerate() {
        let Some(here) = line.split('|').nth(2) else {
            continue;
        };
        let mut names = Vec::new();
        for word in quoted.captures_iter(here).map(|found| found[1].to_owned()) {
            if name.is_match(&word) {
                names.push(word);
                continue;
            }
            if !word.contains('/') || word.contains(' ') {
                continue;
            }
            let path = root().join(&word);
            if !path.exists() {
                broken.push(format!("{PAGE}:{}: there is no {word}", number + 1));
            } else if path.is_file() {
                let text = fs::read_to_string(&path)?;
                let missing = names.drain(..).filter(|name| !text.contains(name.as_str()));
                broken.extend(
                    missing
                        .map(|name| format!("{PAGE}:{}: {word} does not have {name}", number + 1)),
                );
            }
        }
    }
    Ok(broken)
}
