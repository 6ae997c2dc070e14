// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which processors are as fast as any of the machine, where some are slower by design.

use super::domains::{parse, CPUS, CPUS_MAX};
use crate::{Error, Result};
use std::fs;
use std::path::Path;

/// What the kernel tells of a processor's speed, the best word first: files in its folder.
const TOLD: [&str; 3] = [
    "cpu_capacity",
    "acpi_cppc/highest_perf",
    "cpufreq/cpuinfo_max_freq",
];

/// Percent of the fastest one's speed that count as fast. Of processors of one kind some are better
/// by a tenth; kinds differ by a third and more.
const FAST: u64 = 80;

/// 1 for each processor that is fast, of so many that there can be; empty: no one is slower than
/// others. `wanted`: those of such a list as `0-3,8` instead of what the machine tells.
///
/// # Errors
/// That is no list of processors.
pub fn fast(possible: usize, wanted: Option<&str>) -> Result<Vec<u8>> {
    let Some(list) = wanted else {
        return Ok(of_here(Path::new(CPUS), possible));
    };
    let cpus = parse(list).filter(|cpus| cpus.iter().all(|&cpu| cpu < possible));
    let cpus = cpus.ok_or_else(|| {
        let last = possible.min(CPUS_MAX) - 1;
        Error::Usage(format!(
            "'{list}' is no list of processors: give numbers from 0 to {last}, such as 0-3,8"
        ))
    })?;
    Ok(uneven(
        (0..possible)
            .map(|cpu| cpus.contains(&cpu).into())
            .collect(),
    ))
}

fn of_here(folder: &Path, possible: usize) -> Vec<u8> {
    let of = |told: &str, cpu: usize| -> Option<u64> {
        let text = fs::read_to_string(folder.join(format!("cpu{cpu}/{told}"))).ok()?;
        text.trim().parse().ok()
    };
    let speeds = TOLD.iter().find_map(|told| {
        let speeds: Vec<_> = (0..possible).map(|cpu| of(told, cpu)).collect();
        speeds.iter().any(Option::is_some).then_some(speeds)
    });
    let speeds = speeds.unwrap_or_default();
    let most = speeds.iter().flatten().max().copied().unwrap_or(0);
    // One that is offline tells nothing, and is as good as any.
    let fast = speeds
        .iter()
        .map(|speed| speed.is_none_or(|s| s * 100 >= most * FAST));
    uneven(fast.map(u8::from).collect())
}

/// Empty where all are alike.
fn uneven(fast: Vec<u8>) -> Vec<u8> {
    match fast.contains(&0) && fast.contains(&1) {
        true => fast,
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = dir.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }
        dir
    }

    #[test]
    fn processors_of_another_kind_are_slow_and_better_ones_of_a_kind_are_not_alone() {
        let alike = machine(&[
            ("cpu0/acpi_cppc/highest_perf", "166"),
            ("cpu1/acpi_cppc/highest_perf", "196"),
        ]);
        assert!(of_here(alike.path(), 2).is_empty());
        let mixed = machine(&[
            ("cpu0/acpi_cppc/highest_perf", "68"),
            ("cpu1/acpi_cppc/highest_perf", "65"),
            ("cpu2/acpi_cppc/highest_perf", "42"),
            ("cpu0/cpufreq/cpuinfo_max_freq", "1"),
        ]);
        assert_eq!(of_here(mixed.path(), 4), [1, 1, 0, 1]);
        let capacity = machine(&[
            ("cpu0/cpu_capacity", "446"),
            ("cpu1/cpu_capacity", "1024"),
            ("cpu0/cpufreq/cpuinfo_max_freq", "3"),
            ("cpu1/cpufreq/cpuinfo_max_freq", "3"),
        ]);
        assert_eq!(of_here(capacity.path(), 2), [0, 1]);
        assert!(of_here(machine(&[]).path(), 4).is_empty());
    }

    #[test]
    fn a_list_is_taken_or_refused() {
        assert_eq!(fast(4, Some("1,3")).unwrap(), [0, 1, 0, 1]);
        assert!(fast(4, Some("0-3")).unwrap().is_empty());
        assert!(fast(4, Some("")).unwrap().is_empty());
        for wrong in ["4", "x", "0-9", "3-1"] {
            let why = fast(4, Some(wrong)).unwrap_err().to_string();
            assert!(why.contains("numbers from 0 to 3"), "{why}");
        }
    }
}
