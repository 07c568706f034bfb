//! The instructions from a watch event to the end of a reconcile, without a recording and with one.

use std::path::Path;

use anyhow::{Result, ensure};

use super::callgrind::CountedProgram;
use super::tracing_instructions::{RECONCILES, ROUNDS, percent_more};

/// How many per cent more instructions a reconcile may take while it is recorded.
const LIMIT: f64 = 5.0;

/// Counts the instructions and prints them. The thread that writes the recording is not counted: it uses at most 5 % of one processor.
///
/// # Errors
/// Errors if recording takes more than [`LIMIT`] allows.
pub(super) fn measure(root: &Path) -> Result<()> {
    let program = CountedProgram::build(root, "--example", "reconcile_path")?;
    let each = |mode: &str| -> Result<u64> {
        let each = program.of_each_in_first_thread(mode, ROUNDS)? / RECONCILES;
        println!("instructions: reconcile that reads its object, {mode}: {each} for each event");
        Ok(each)
    };
    let more = percent_more(each("read")?, each("record")?);
    println!("instructions: recording: {more:+.1} %");
    ensure!(
        more <= LIMIT,
        "recording takes {more:.1} % more instructions for each event; at most {LIMIT} % are allowed"
    );
    Ok(())
}
