// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables and trees as text.

use anstyle::Style;
use std::fmt::Write;

/// Rows under a heading; those columns are aligned to the left.
pub fn columns(rows: &[Vec<String>], left: &[usize]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<_> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let style = if number == 0 {
            Style::new().bold()
        } else {
            Style::new()
        };
        let cells =
            row.iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, &width))| match column {
                    _ if left.contains(&column) => format!("{cell:<width$}"),
                    _ => format!("{cell:>width$}"),
                });
        let _ = writeln!(
            text,
            "{style}{}{style:#}",
            cells.collect::<Vec<_>>().join("  ").trim_end()
        );
    }
    text
}

/// Names as branches of a tree, depth first; each with its depth below the first.
pub fn branches(names: &[(usize, String)]) -> Vec<String> {
    let mut labels = Vec::new();
    // By depth: does a further sibling follow?
    let mut open: Vec<bool> = Vec::new();
    for (at, (level, name)) in names.iter().enumerate() {
        let mut later = names[at + 1..].iter().take_while(|n| n.0 >= *level);
        let follows = later.any(|n| n.0 == *level);
        open.truncate(*level);
        let mut label = String::new();
        if *level > 0 {
            label.extend(
                open[1..]
                    .iter()
                    .map(|more| if *more { "│  " } else { "   " }),
            );
            label += if follows { "├─ " } else { "└─ " };
        }
        labels.push(label + name);
        open.push(follows);
    }
    labels
}

/// Three digits and a unit.
pub fn duration(ns: u64) -> String {
    let (amount, unit) = match ns as f64 {
        ns if ns < 999_500.0 => (ns / 1e3, "us"),
        ns if ns < 999_500_000.0 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = match amount {
        amount if amount < 9.995 => 2,
        amount if amount < 99.95 => 1,
        _ => 0,
    };
    format!("{amount:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_have_three_digits() {
        for (ns, text) in [
            (512, "0.51us"),
            (16_384, "16.4us"),
            (999_499, "999us"),
            (1_048_576, "1.05ms"),
            (268_435_456, "268ms"),
            (999_700_000, "1.00s"),
            (34_359_738_368, "34.4s"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }
}
