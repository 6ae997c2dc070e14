// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels of the guest beside its own: `vm/kernels.conf`, and what of them can be had.

use crate::shell::{command, root};
use anyhow::{bail, Context, Result};
use std::fs;
use std::process::Output;

/// What `vm/build` and `vm/headers` exit with where the mirror lacks something.
const NOT_OFFERED: i32 = 3;

/// When tests run on a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Always: it may be the guest's own kernel, on which all tests run.
    Newest,
    /// In the usual run too.
    Usual,
    /// In the long run only.
    Long,
    /// Never by themselves.
    Asked,
}

/// A line of `vm/kernels.conf`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// As `vm/run --kernel` takes it.
    pub name: String,
    /// When its tests run.
    pub when: When,
    /// Kinds of tests that run there.
    pub kinds: Vec<String>,
}

impl Kernel {
    /// Whether tests of one of `kinds` run there; of a kind with ":long" in the long run only.
    pub fn takes(&self, kinds: &[String], long: bool) -> bool {
        let is = |own: &str, kind: &String| match own.strip_suffix(":long") {
            Some(own) => long && own == kind,
            None => own == kind,
        };
        let own = self.kinds.iter();
        own.map(String::as_str)
            .any(|own| kinds.iter().any(|kind| is(own, kind)))
    }

    /// Sees to it that its image is there; else the reason why it cannot be.
    pub fn prepare(&self) -> Result<std::result::Result<(), String>> {
        let output = asked("vm/build", &["--kernel", &self.name])?;
        Ok(said(output, "vm/build")?.map(drop))
    }

    /// The release whose headers are there, so that modules can be built for it; else the reason.
    pub fn headers(&self) -> Result<std::result::Result<String, String>> {
        said(asked("vm/headers", &["--quiet", &self.name])?, "vm/headers")
    }
}

fn asked(program: &str, args: &[&str]) -> Result<Output> {
    command(root().join(program))
        .args(args)
        .output()
        .with_context(|| format!("{program} cannot be started"))
}

/// What a program printed, or why it is of no use; any other failure ends the tests.
fn said(output: Output, program: &str) -> Result<std::result::Result<String, String>> {
    let why = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Ok(Ok(String::from_utf8_lossy(&output.stdout)
            .trim()
            .to_owned())),
        Some(NOT_OFFERED) => {
            let last = why.trim().lines().last().unwrap_or_default();
            Ok(Err(last
                .split_once(": ")
                .map_or(last, |(_, reason)| reason)
                .to_owned()))
        }
        _ => bail!("{program} failed: {}", why.trim()),
    }
}

/// The kernels of `vm/kernels.conf`, in its order.
pub fn all() -> Result<Vec<Kernel>> {
    let path = root().join("vm/kernels.conf");
    let text =
        fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    parse(&text).with_context(|| format!("{} is wrong", path.display()))
}

fn parse(text: &str) -> Result<Vec<Kernel>> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(kernel).collect()
}

fn kernel(line: &str) -> Result<Kernel> {
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(name), Some(when)) = (words.next(), words.next()) else {
        bail!("line '{line}' must give a name and when its tests run");
    };
    let when = match when.as_str() {
        "newest" => When::Newest,
        "usual" => When::Usual,
        "long" => When::Long,
        "asked" => When::Asked,
        _ => bail!("'{when}' in line '{line}' is none of newest, usual, long, asked"),
    };
    Ok(Kernel {
        name,
        when,
        kinds: words.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kernels_and_comments_are_not() {
        let text = "# NAME WHEN WHAT\n7.3  newest cpu link # all\n\n6.12-scx long cpu\n";
        let found = parse(text).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].name, "7.3");
        assert_eq!(found[0].when, When::Newest);
        assert!(found[0].takes(&["disk".to_owned(), "link".to_owned()], false));
        assert!(!found[1].takes(&["link".to_owned()], true));
        assert_eq!(found[1].when, When::Long);
    }

    #[test]
    fn kinds_of_the_long_run_wait_for_it() {
        let found = parse("6.17 usual cpu-load cpu:long").unwrap();
        assert!(found[0].takes(&["cpu-load".to_owned()], false));
        assert!(!found[0].takes(&["cpu".to_owned()], false));
        assert!(found[0].takes(&["cpu".to_owned()], true));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let said = parse("6.18 sometimes cpu").unwrap_err().to_string();
        assert!(said.contains("'sometimes'"), "{said}");
        assert!(parse("6.18").is_err());
    }

    #[test]
    fn the_list_of_the_repository_has_a_newest_and_no_name_twice() {
        let kernels = all().unwrap();
        assert!(kernels.iter().any(|kernel| kernel.when == When::Newest));
        for (i, kernel) in kernels.iter().enumerate() {
            assert!(kernels[..i].iter().all(|other| other.name != kernel.name));
        }
    }
}
