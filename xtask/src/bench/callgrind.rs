//! Counts the instructions of the benchmark programs with valgrind's tool callgrind. Unlike times, the counts do not depend on the load of the
//! machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{cargo, host};

/// A program of the package `pilothouse-bench`, built in release mode. Its last argument is a number of repetitions.
pub(super) struct CountedProgram(PathBuf);

impl CountedProgram {
    /// Builds the program. `kind` is cargo's flag for it: `--bin` or `--example`.
    ///
    /// # Errors
    /// Errors if the build fails.
    pub(super) fn build(root: &Path, kind: &str, name: &str) -> Result<Self> {
        println!("instructions: building {name}");
        let mut cargo = cargo::cargo();
        cargo.current_dir(root).args([
            "build",
            "--locked",
            "--release",
            "-p",
            "pilothouse-bench",
            kind,
            name,
        ]);
        Ok(Self(host::find_executable(&host::run_cargo_json(&mut cargo)?, name)?))
    }

    /// Returns the number of instructions of one repetition with this first argument. The difference between the counts of few and many
    /// repetitions excludes the start of the program.
    ///
    /// # Errors
    /// Errors if valgrind is not installed, or the program fails.
    pub(super) fn of_each(&self, argument: &str, [few, many]: [u64; 2]) -> Result<u64> {
        let (counted_few, counted_many) = (self.count(argument, few)?, self.count(argument, many)?);
        of_each((few, counted_few), (many, counted_many))
    }

    /// Returns the number of instructions of one repetition in the program's first thread.
    ///
    /// # Errors
    /// Like [`of_each`](Self::of_each).
    pub(super) fn of_each_in_first_thread(&self, argument: &str, [few, many]: [u64; 2]) -> Result<u64> {
        let count = |repetitions: u64| -> Result<u64> {
            let folder = tempfile::tempdir().context("create a folder")?;
            let output = format!("--callgrind-out-file={}", folder.path().join("out").display());
            self.run(&["--separate-threads=yes", &output], argument, repetitions)?;
            let file = folder.path().join("out-01");
            let text = std::fs::read_to_string(&file)
                .with_context(|| format!("read {}, which valgrind should have written", file.display()))?;
            totals(&text).with_context(|| format!("{} has no totals", file.display()))
        };
        of_each((few, count(few)?), (many, count(many)?))
    }

    fn count(&self, argument: &str, repetitions: u64) -> Result<u64> {
        let text = self.run(&["--callgrind-out-file=/dev/null"], argument, repetitions)?;
        collected(&text).with_context(|| format!("valgrind reported no instruction count: {text}"))
    }

    /// Runs the program in callgrind with these options. Returns what valgrind has printed.
    fn run(&self, options: &[&str], argument: &str, repetitions: u64) -> Result<String> {
        let output = Command::new("valgrind")
            .arg("--tool=callgrind")
            .args(options)
            .arg(&self.0)
            .args([argument, &repetitions.to_string()])
            .output()
            .context("start valgrind; install it (Debian: apt-get install valgrind)")?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} {argument} {repetitions} failed: {text}", self.0.display());
        Ok(text.into_owned())
    }
}

/// Returns the count that callgrind has printed.
fn collected(text: &str) -> Option<u64> {
    let (_, count) = text.lines().find_map(|line| line.split_once("Collected : "))?;
    count.trim().parse().ok()
}

/// Returns the total of a file that callgrind has written.
fn totals(text: &str) -> Option<u64> {
    let of = |name| text.lines().rev().find_map(|line| line.strip_prefix(name));
    of("totals: ").or_else(|| of("summary: "))?.trim().parse().ok()
}

/// Returns the instructions of one repetition, from two pairs of repetitions and counts.
fn of_each((few, counted_few): (u64, u64), (many, counted_many): (u64, u64)) -> Result<u64> {
    ensure!(
        few < many && counted_few < counted_many,
        "{many} repetitions took {counted_many} instructions, and {few} took {counted_few}: the program does not repeat what is counted"
    );
    Ok((counted_many - counted_few) / (many - few))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_that_of_callgrinds_summary() {
        let text = "==7== Events    : Ir\n==7== Collected : 1234567\n==7==\n";
        assert_eq!(collected(text), Some(1_234_567));
        assert_eq!(collected("==7== Collected : many\n"), None);
        assert_eq!(collected(""), None);
    }

    #[test]
    fn the_count_of_a_thread_is_the_total_of_its_file() {
        assert_eq!(totals("version: 1\nthread: 1\nfn=(1)\n3 4\ntotals: 4\n"), Some(4));
        assert_eq!(totals("summary: 7\nfn=(1)\n3 7\n"), Some(7));
        assert_eq!(totals("fn=(1)\n"), None);
    }

    #[test]
    fn the_start_of_the_program_is_not_counted() {
        assert_eq!(of_each((10, 1_000 + 10 * 7), (30, 1_000 + 30 * 7)).expect("a count"), 7);
        assert!(of_each((10, 500), (30, 500)).is_err(), "nothing is repeated");
        assert!(of_each((30, 500), (10, 700)).is_err());
    }
}
