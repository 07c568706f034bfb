//! The cost budget of an evaluation, counted as Kubernetes counts CEL costs: one unit per operation and per element, and one per ten bytes
//! of text.
//!
//! Every value that an evaluation creates is charged by its size, so that the budget bounds the memory, too.

use crate::error::EvaluationError;

/// The maximum cost of one evaluation in units, the same as Kubernetes' `PerCallLimit`. Corresponds to at most some hundredths of a second
/// and some tens of megabytes.
pub const COST_LIMIT: u64 = 1_000_000;

/// The units that are left.
#[derive(Debug)]
pub struct Budget(u64);

impl Budget {
    /// Creates a budget of this many units.
    pub fn new(units: u64) -> Self {
        Self(units)
    }

    /// Creates the budget of one evaluation, [`COST_LIMIT`].
    pub fn full() -> Self {
        Self(COST_LIMIT)
    }

    /// Returns the units that are left.
    pub fn left(&self) -> u64 {
        self.0
    }

    /// Deducts units.
    ///
    /// # Errors
    /// The budget is exceeded. It is empty from then on, so that no later charge succeeds.
    pub fn charge(&mut self, units: u64) -> Result<(), EvaluationError> {
        match self.0.checked_sub(units) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => {
                self.0 = 0;
                Err(EvaluationError::Cost)
            }
        }
    }

    /// Deducts the cost of reading or creating this many bytes of text.
    pub(crate) fn charge_text(&mut self, bytes: usize) -> Result<(), EvaluationError> {
        self.charge(units(bytes / 10 + 1))
    }

    /// Deducts the cost of reading or creating this many elements.
    pub(crate) fn charge_elements(&mut self, elements: usize) -> Result<(), EvaluationError> {
        self.charge(units(elements))
    }
}

fn units(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
