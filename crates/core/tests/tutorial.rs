// SPDX-License-Identifier: MIT OR Apache-2.0
//! docs/leaf-schedulers.md leads to a leaf scheduler that compiles and does what the text says.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The C texts of the page, in order.
fn blocks(page: &str) -> Vec<&str> {
    page.split("```c\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect()
}

#[test]
fn the_leaf_scheduler_of_the_text_works() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(repository.join("docs/leaf-schedulers.md")).unwrap();
    let [policy, registration, program] = blocks(&page)[..] else {
        panic!("the page has the scheduler, its registration and a program");
    };
    let copy = tempfile::tempdir().unwrap();
    for folder in ["", "tree", "cpu"] {
        fs::create_dir_all(copy.path().join(folder)).unwrap();
        let from = repository.join("core").join(folder);
        for file in fs::read_dir(from).unwrap().flatten() {
            if file.path().extension().is_some_and(|e| e == "h") {
                let to = copy.path().join(folder).join(file.file_name());
                fs::copy(file.path(), to).unwrap();
            }
        }
    }
    fs::write(copy.path().join("cpu/leaf_lifo.h"), policy).unwrap();
    fs::write(copy.path().join("try.c"), program).unwrap();

    // One line each, behind the last of its kind.
    let header = copy.path().join("cpu/leaf.h");
    let mut lines: Vec<String> = fs::read_to_string(&header)
        .unwrap()
        .lines()
        .map(String::from)
        .collect();
    let (include, entry) = registration.trim().split_once('\n').unwrap();
    let last = |lines: &[String], start: &str| {
        lines
            .iter()
            .rposition(|l| l.trim_start().starts_with(start))
            .unwrap()
    };
    let at = last(&lines, "#include \"leaf_");
    lines.insert(at + 1, include.into());
    let at = last(&lines, "X(");
    lines[at] += " \\";
    lines.insert(at + 1, format!("\t{entry}"));
    fs::write(&header, lines.join("\n") + "\n").unwrap();

    let built = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args(["-O1", "-Wall", "-Werror", "try.c", "-o", "try"])
        .current_dir(copy.path())
        .status()
        .unwrap();
    assert!(built.success());
    let said = Command::new(copy.path().join("try")).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&said.stdout),
        "last come, first served\n"
    );
    assert!(page.contains("`last come, first served`"));
}
