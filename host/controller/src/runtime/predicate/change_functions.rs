//! The functions of predicates that compare the old state with the new one.

use std::cell::OnceCell;

use pilothouse_cel::{Budget, EvaluationError, HostFunctions, Value};
use pilothouse_informer::condition::MetadataPart;
use pilothouse_model::Object;

use super::condition::CHANGE_FUNCTIONS;

/// The change functions of one evaluation. Each compares at most once, and charges the texts that it compares.
pub(super) struct ChangeFunctions<'n> {
    /// `None` unless the change is an update. Everything has changed then.
    old: Option<&'n Object>,
    new: &'n Object,
    known: [OnceCell<bool>; CHANGE_FUNCTIONS.len()],
}

impl<'n> ChangeFunctions<'n> {
    pub(super) fn new(old: Option<&'n Object>, new: &'n Object) -> Self {
        Self { old, new, known: Default::default() }
    }

    /// Returns the value of a function.
    fn has_changed(&self, position: usize, budget: &mut Budget) -> Result<bool, EvaluationError> {
        if let Some(known) = self.known[position].get() {
            return Ok(*known);
        }
        let (_, part) = CHANGE_FUNCTIONS[position];
        let has_changed = self.old.map_or(Ok(true), |old| differs(part, old, self.new, budget))?;
        Ok(*self.known[position].get_or_init(|| has_changed))
    }
}

impl HostFunctions for ChangeFunctions<'_> {
    fn call(
        &self,
        name: &str,
        arguments: &[Value],
        budget: &mut Budget,
    ) -> Option<Result<Value, EvaluationError>> {
        let position = CHANGE_FUNCTIONS.iter().position(|(known, _)| *known == name)?;
        arguments.is_empty().then(|| self.has_changed(position, budget).map(Value::Bool))
    }
}

/// Whether this part of the metadata differs. Charges the text of both before it compares them.
fn differs(
    part: MetadataPart,
    old: &Object,
    new: &Object,
    budget: &mut Budget,
) -> Result<bool, EvaluationError> {
    let mut charge = |pointer: &str| {
        [old, new]
            .into_iter()
            .try_for_each(|object| budget.charge_text(object.field(pointer).map_or(0, str::len)))
    };
    Ok(match part {
        MetadataPart::Generation => old.generation() != new.generation(),
        MetadataPart::Labels => {
            charge("/metadata/labels")?;
            !old.same_labels(new) && !old.labels().eq(new.labels())
        }
        MetadataPart::Annotations => {
            charge("/metadata/annotations")?;
            !old.same_annotations(new) && !old.annotations().eq(new.annotations())
        }
    })
}
