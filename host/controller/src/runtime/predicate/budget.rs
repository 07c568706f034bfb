//! What one evaluation may cost, counted as Kubernetes counts CEL: a unit per operation and per element, and one per ten bytes of text.
//!
//! Everything that an evaluation makes is charged by its size, so that the same number bounds its memory.

use super::failure::Failure;

/// Units of one evaluation, as Kubernetes' `PerCallLimit`: at most some hundredths of a second, and some tens of megabytes.
pub const COST_LIMIT: u64 = 1_000_000;

/// What is left of the limit.
pub(super) struct Budget(u64);

impl Budget {
    pub(super) fn full() -> Self {
        Self(COST_LIMIT)
    }

    /// Takes the units off.
    ///
    /// # Errors
    /// There are not as many left; from then on there are none.
    pub(super) fn charge(&mut self, units: u64) -> Result<(), Failure> {
        match self.0.checked_sub(units) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => {
                self.0 = 0;
                Err(Failure::Cost)
            }
        }
    }

    /// Takes off what reading or making so many bytes of text costs.
    pub(super) fn charge_text(&mut self, bytes: usize) -> Result<(), Failure> {
        self.charge(units(bytes / 10 + 1))
    }

    /// Takes off what reading or making so many elements costs.
    pub(super) fn charge_elements(&mut self, elements: usize) -> Result<(), Failure> {
        self.charge(units(elements))
    }
}

fn units(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
