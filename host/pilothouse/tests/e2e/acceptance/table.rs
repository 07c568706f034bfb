//! The results as a table of language × case.

use std::fmt::Write as _;
use std::io::Write as _;

use super::cases::Case;

/// The result of each case in each language.
pub(super) struct Table {
    cases: &'static [Case],
    columns: Vec<(&'static str, Vec<Result<(), String>>)>,
}

impl Table {
    pub(super) fn new(cases: &'static [Case]) -> Self {
        Self { cases, columns: Vec::new() }
    }

    pub(super) fn add(&mut self, language: &'static str, results: Vec<Result<(), String>>) {
        assert_eq!(results.len(), self.cases.len(), "a result for every case");
        self.columns.push((language, results));
    }

    /// Prints the table even if the test passes. The test harness captures only the output of the print macros.
    pub(super) fn print(&self) {
        let width = self.cases.iter().map(|case| case.name.len()).max().unwrap_or_default();
        let mut text = format!("\n{:width$}", "acceptance");
        for (language, _) in &self.columns {
            let _ = write!(text, " {language:>7}");
        }
        text.push('\n');
        for (row, case) in self.cases.iter().enumerate() {
            let _ = write!(text, "{:width$}", case.name);
            for (_, results) in &self.columns {
                let _ = write!(text, " {:>7}", if results[row].is_ok() { "ok" } else { "FAILED" });
            }
            text.push('\n');
        }
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    /// Panics with the reasons of all failures, if any.
    pub(super) fn assert_all_passed(&self) {
        let mut failures = String::new();
        for (language, results) in &self.columns {
            for (case, result) in self.cases.iter().zip(results) {
                if let Err(reason) = result {
                    let _ = writeln!(failures, "{language}, {}: {reason}\n", case.name);
                }
            }
        }
        assert!(failures.is_empty(), "{failures}");
    }
}
