// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers of an experiment: a CSV file whose head names the units.

use anyhow::{ensure, Context, Result};
use std::fmt;

/// A value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A name.
    Text(String),
    /// A count or an index.
    Whole(u64),
    /// A measurement; written with six digits after the point.
    Number(f64),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Text(text) => f.write_str(text),
            Cell::Whole(number) => write!(f, "{number}"),
            Cell::Number(number) => write!(f, "{number:.6}"),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Cell {
        Cell::Whole(number)
    }
}

impl From<usize> for Cell {
    fn from(number: usize) -> Cell {
        Cell::Whole(number as u64)
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Cell {
        Cell::Whole(number.into())
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        Cell::Number(number)
    }
}

/// Rows under a head of column names; a name ends in its unit, as in `time_s`.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    pub fn new(columns: &[&str]) -> Table {
        Table {
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row with one cell for each column.
    pub fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(row.len(), self.columns.len(), "one cell for each column");
        self.rows.push(row);
    }

    /// As CSV.
    pub fn to_csv(&self) -> Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(&self.columns)?;
        for row in &self.rows {
            writer.write_record(row.iter().map(Cell::to_string))?;
        }
        Ok(String::from_utf8(writer.into_inner()?)?)
    }

    /// From CSV. Whatever looks like a number becomes one.
    pub fn from_csv(text: &str) -> Result<Table> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let columns: Vec<String> = reader.headers()?.iter().map(str::to_owned).collect();
        ensure!(!columns.is_empty(), "the table has no head");
        let cell = |text: &str| match (text.parse(), text.parse()) {
            (Ok(whole), _) => Cell::Whole(whole),
            (_, Ok(number)) => Cell::Number(number),
            _ => Cell::Text(text.to_owned()),
        };
        let mut rows = Vec::new();
        for record in reader.records() {
            rows.push(
                record
                    .context("a row is damaged")?
                    .iter()
                    .map(cell)
                    .collect(),
            );
        }
        Ok(Table { columns, rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_round_trip() {
        let mut table = Table::new(&["side", "time_s", "loops"]);
        table.push(vec!["stock, plain".into(), 0.5.into(), 7u64.into()]);
        table.push(vec!["qlinux".into(), 1.25.into(), 9u64.into()]);
        let text = table.to_csv().unwrap();
        assert_eq!(
            text,
            "side,time_s,loops\n\"stock, plain\",0.500000,7\nqlinux,1.250000,9\n"
        );
        assert_eq!(Table::from_csv(&text).unwrap(), table);
    }
}
