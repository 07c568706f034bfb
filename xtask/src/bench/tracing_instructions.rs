//! The instructions from a watch event to the end of a reconcile, without tracing and with it.

use std::path::Path;

use anyhow::{Result, ensure};

use super::callgrind::CountedProgram;

/// The number of reconciles in a round of the program.
pub(super) const RECONCILES: u64 = 1001;
/// Two numbers of rounds.
pub(super) const ROUNDS: [u64; 2] = [5, 25];
/// How many per cent more instructions an event may take if one in a hundred reconciles is exported.
const LIMIT: f64 = 3.0;

/// Counts the instructions and prints them.
///
/// # Errors
/// Errors if tracing takes more than [`LIMIT`] allows.
pub(super) fn measure(root: &Path) -> Result<()> {
    let program = CountedProgram::build(root, "--example", "reconcile_path")?;
    let each = |tracing: &str| -> Result<u64> {
        let each = program.of_each(tracing, ROUNDS)? / RECONCILES;
        println!("instructions: reconcile, tracing {tracing}: {each} for each event");
        Ok(each)
    };
    let off = each("off")?;
    for (ratio, limit) in [("0.01", Some(LIMIT)), ("1", None)] {
        let more = percent_more(off, each(ratio)?);
        println!("instructions: reconcile, tracing {ratio}: {more:+.1} %");
        ensure!(
            limit.is_none_or(|limit| more <= limit),
            "tracing with the ratio {ratio} takes {more:.1} % more instructions for each event; at most {LIMIT} % are allowed"
        );
    }
    Ok(())
}

/// Returns how many per cent `with` is more than `without`.
pub(super) fn percent_more(without: u64, with: u64) -> f64 {
    (with as f64 / without.max(1) as f64 - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_instructions_are_a_positive_percentage() {
        assert!((percent_more(200, 206) - 3.0).abs() < 1e-9);
        assert!(percent_more(200, 198) < 0.0);
        assert!(percent_more(0, 0).is_finite());
    }
}
