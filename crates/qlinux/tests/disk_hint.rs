// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hints as this library writes and reads them are those of `core/disk/cello_hint.h`, which the
//! kernel module is compiled from.

use qlinux::disk::{Class, Deadline, Hint};
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = r#"
#include "disk/cello_hint.h"
#include <stdio.h>

int main(void)
{
	unsigned long long ns;
	unsigned hint, class;

	for (hint = 0; hint < 1024; hint++)
		printf("%d %d %u %llu\n", cello_hint_is(hint), cello_hint_own(hint),
		       cello_hint_class(hint), (unsigned long long)cello_hint_deadline_ns(hint));
	for (class = 0; class < 4; class++)
		printf("%d %d\n", cello_hint(class, false, 0), cello_hint(class, true, 0));
	/* Seventeen odd steps between two powers of two, and both sides of each end. */
	for (ns = 1; ns < 100000000000; ns += ns / 17 + 1)
		printf("%llu %d\n", ns, cello_hint(2, true, ns));
	for (ns = 999990; ns < 1000010; ns++)
		printf("%llu %d\n", ns, cello_hint(2, true, ns));
	for (ns = 49151999990; ns < 49152000010; ns++)
		printf("%llu %d\n", ns, cello_hint(2, true, ns));
	return 0;
}
"#;

/// The lines that the program prints, as numbers.
fn in_c() -> Vec<Vec<i64>> {
    let folder = tempfile::tempdir().unwrap();
    let (file, program) = (folder.path().join("hint.c"), folder.path().join("hint"));
    std::fs::write(&file, PROGRAM).unwrap();
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../core");
    let compiled = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args(["-std=gnu11", "-Wall", "-Werror", "-I"])
        .arg(core)
        .arg(&file)
        .arg("-o")
        .arg(&program)
        .status()
        .unwrap();
    assert!(compiled.success());
    let printed = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
    let numbers = |line: &str| line.split(' ').map(|n| n.parse().unwrap()).collect();
    printed.lines().map(numbers).collect()
}

fn bits(class: u32, own: bool, deadline: Option<Deadline>) -> i64 {
    let class = Class::from_number(class).unwrap();
    Hint::new(own, class, deadline).unwrap().bits().into()
}

#[test]
fn hints_are_those_of_the_core() {
    let lines = in_c();
    let (read, lines) = lines.split_at(1024);
    for (number, line) in read.iter().enumerate() {
        let here = match Hint::from_bits(number as u16) {
            None => (0, line[1], line[2], line[3]),
            Some(hint) => (
                1,
                hint.own.into(),
                hint.class.number().into(),
                hint.deadline.map_or(0, Deadline::ns) as i64,
            ),
        };
        assert_eq!((line[0], line[1], line[2], line[3]), here, "{number:#x}");
    }
    let (classes, deadlines) = lines.split_at(4);
    for (class, line) in classes.iter().enumerate() {
        let class = class as u32;
        assert_eq!(line, &[bits(class, false, None), bits(class, true, None)]);
    }
    assert!(deadlines.len() > 400);
    for line in deadlines {
        let refused = -i64::from(nix::libc::ERANGE);
        let here = Deadline::new(line[0] as u64).map_or(refused, |d| bits(2, true, Some(d)));
        assert_eq!(line[1], here, "{} ns", line[0]);
    }
}
