// SPDX-License-Identifier: MIT OR Apache-2.0
//! An input that failed is kept beside the source of its test, and is the first of the next run.
//! Alone in its program, since it changes the folder it runs in.

use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};
use qlinux_properties::cases;
use std::cell::RefCell;
use std::fs;

/// A test as `file!()` names it, from the top of the workspace, while cargo runs it in its crate.
const SOURCE: &str = "crates/some/tests/numbers.rs";
const KEPT: &str = "crates/some/tests/numbers.regressions";

/// What the property was asked, and what it said in the end.
fn run(property: fn(u32) -> bool) -> (Vec<u32>, Result<(), TestError<u32>>) {
    let asked = RefCell::new(Vec::new());
    let mut config = cases(200);
    config.source_file = Some(SOURCE);
    let result = TestRunner::new(config).run(&(0u32..1_000_000), |number| {
        asked.borrow_mut().push(number);
        prop_assert!(property(number));
        Ok(())
    });
    (asked.into_inner(), result)
}

#[test]
fn an_input_that_failed_is_kept_and_comes_first() {
    let top = tempfile::tempdir().unwrap();
    let tests = top.path().join("crates/some/tests");
    fs::create_dir_all(&tests).unwrap();
    fs::write(top.path().join(SOURCE), "").unwrap();
    std::env::set_current_dir(tests.parent().unwrap()).unwrap();

    let (asked, result) = run(|number| number < 1000);
    let failed = *asked.iter().find(|number| **number >= 1000).unwrap();
    assert!(
        matches!(result, Err(TestError::Fail(_, 1000))),
        "the least that fails is said: {result:?}"
    );
    let kept = fs::read_to_string(top.path().join(KEPT)).unwrap();
    let lines: Vec<_> = kept.lines().filter(|l| l.starts_with("cc ")).collect();
    assert_eq!(lines.len(), 1, "{kept}");
    assert!(lines[0].ends_with("# shrinks to 1000"), "{kept}");

    // As long as it fails nothing else is tried, and it is not noted twice.
    let (again, result) = run(|number| number < 1000);
    assert_eq!(again[0], failed);
    assert!(result.is_err());
    assert_eq!(fs::read_to_string(top.path().join(KEPT)).unwrap(), kept);

    // Once it holds it is still asked first, then as many as always.
    let (mended, result) = run(|_| true);
    assert_eq!(mended[0], failed);
    assert_eq!(mended.len(), 1 + cases(200).cases as usize);
    assert_eq!(result, Ok(()));
}
