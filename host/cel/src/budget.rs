//! The cost budget of an evaluation, counted as Kubernetes counts CEL costs: one unit per operation and per element, and one per ten bytes
//! of text.
//!
//! Every value that an evaluation creates is charged by its size, so that the budget bounds the memory, too.

use kube_cel::cel::objects::Key;

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

    /// Deducts the cost of converting a JSON text to a value: one unit per member and element, ten per object, which takes more memory, and one
    /// per ten bytes.
    ///
    /// # Errors
    /// The budget is exceeded.
    pub fn charge_json(&mut self, text: &str) -> Result<(), EvaluationError> {
        let (mut is_string, mut is_escaped, mut parts) = (false, false, 0_usize);
        for byte in text.bytes() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_string => is_escaped = true,
                b'"' => is_string = !is_string,
                _ if is_string => {}
                b'{' => parts += 10,
                b'[' | b',' => parts += 1,
                _ => {}
            }
        }
        self.charge_elements(parts)?;
        self.charge_text(text.len())
    }

    /// Deducts the cost of reading or creating this many bytes of text: one unit per ten bytes.
    ///
    /// # Errors
    /// The budget is exceeded.
    pub fn charge_text(&mut self, bytes: usize) -> Result<(), EvaluationError> {
        self.charge(units(bytes / 10 + 1))
    }

    /// Deducts the cost of looking for a value in this many bytes of JSON text: one unit per hundred bytes, because a lookup skips most of
    /// the text.
    ///
    /// # Errors
    /// The budget is exceeded.
    pub fn charge_lookup(&mut self, bytes: usize) -> Result<(), EvaluationError> {
        self.charge(units(bytes / 100 + 1))
    }

    /// Deducts the cost of hashing the key of a map, which reads the whole key.
    pub(crate) fn charge_key(&mut self, key: &Key) -> Result<(), EvaluationError> {
        if let Key::String(text) = key { self.charge_text(text.len()) } else { Ok(()) }
    }

    /// Deducts the cost of sorting this many elements with this many bytes of text together: one unit per two comparisons, and one per
    /// hundred bytes, because a comparison reads faster than other operations.
    pub(crate) fn charge_sort(&mut self, elements: usize, bytes: usize) -> Result<(), EvaluationError> {
        let rounds = u64::from(elements.max(2).ilog2()) + 1;
        self.charge(units(elements).saturating_mul(rounds) / 2)?;
        self.charge(units(bytes).saturating_mul(rounds) / 100)
    }

    /// Deducts the cost of reading or creating this many elements.
    pub(crate) fn charge_elements(&mut self, elements: usize) -> Result<(), EvaluationError> {
        self.charge(units(elements))
    }
}

fn units(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_costs_more_the_more_objects_it_has() {
        let cost = |text: &str| {
            let mut budget = Budget::full();
            budget.charge_json(text).expect("within the limit");
            COST_LIMIT - budget.left()
        };
        assert_eq!(cost("1"), 1);
        assert_eq!(cost(r#"{"a":[1,2],"b":{}}"#), 10 + 1 + 1 + 1 + 10 + 2);
        assert_eq!(cost(r#""{[,\"{{{""#), 2, "the content of a text is a text");
        assert_eq!(Budget::full().charge_json(&r#"{"":0},"#.repeat(100_000)), Err(EvaluationError::Cost));
    }
}
