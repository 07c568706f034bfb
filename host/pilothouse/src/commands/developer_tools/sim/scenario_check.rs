//! Checks scenarios before a plugin is built or compiled, which takes much longer.

use std::path::Path;

use pilothouse_sim::scenario::{Kinds, Scenario};

use super::inputs::{read_scenario_part, read_text};
use crate::CommandError;

/// Checks all that can be checked without the plugins. A kind that is not built in, and not defined by a CRD of the scenario, may be defined by a
/// plugin; so it is only checked later.
///
/// # Errors
/// Returns a usage error that names the file, its line and what to do.
pub(in crate::commands::developer_tools) fn check(file: &Path) -> Result<(), CommandError> {
    let text = read_text(file)?;
    let kinds = Kinds::built_in().assuming_others();
    Scenario::parse(file, &text, &kinds, &read_scenario_part).map_err(CommandError::Usage)?;
    Ok(())
}
