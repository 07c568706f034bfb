//! What a finding without a fault must keep while steps of actors are left out: the plugin's write that it is about.
//!
//! Without faults, the plugin's task alone leads to the error. An invariant that demands something may be broken without the task, too, whatever the
//! plugin does, and another oracle may report another object.

use crate::analysis::{ObjectId, RunView};
use crate::oracle::{BUILT_IN, Violation};
use crate::run::RequestEvent;

/// The subject of a violation, and the write of a plugin that led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    object: String,
    /// `None` if no plugin wrote anything before the violation.
    write: Option<Write>,
    is_built_in: bool,
}

/// A write in the form in which those of two runs can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Write {
    verb: String,
    resource: String,
    id: ObjectId,
}

impl Evidence {
    /// Finds the write: the one that the violation points at, or else the last one before it, if possible of the same object.
    #[must_use]
    pub fn of(view: &RunView<'_>, violation: &Violation) -> Self {
        let writes = writes(view, violation);
        let is_of_subject =
            |write: &&Write| write.id.resource == violation.resource && write.id.key() == violation.object;
        let write = pointed_at(view, violation)
            .or_else(|| writes.iter().rfind(is_of_subject).cloned())
            .or_else(|| writes.last().cloned());
        let is_built_in = BUILT_IN.iter().any(|description| description.name == violation.oracle);
        Self { object: violation.object.clone(), write, is_built_in }
    }

    /// Whether another run shows the same error by the same write.
    #[must_use]
    pub fn is_kept(&self, view: &RunView<'_>, violation: &Violation) -> bool {
        violation.object == self.object
            && self.write.as_ref().is_none_or(|write| writes(view, violation).contains(write))
    }

    /// Whether single steps may be left out. What an invariant demands may follow from each step of an object; what a built-in oracle demands, no
    /// step changes.
    #[must_use]
    pub fn allows_single_steps(&self) -> bool {
        self.is_built_in
    }
}

/// Returns the effective writes of plugins up to the violation.
fn writes(view: &RunView<'_>, violation: &Violation) -> Vec<Write> {
    let end = violation.event.unwrap_or(usize::MAX);
    let writes = view.effective_writes().take_while(|(index, _)| *index <= end);
    writes.map(|(_, request)| write(view, request)).collect()
}

fn pointed_at(view: &RunView<'_>, violation: &Violation) -> Option<Write> {
    let request = view.request(violation.event?)?;
    (request.is_by_plugin() && request.is_effective()).then(|| write(view, request))
}

fn write(view: &RunView<'_>, request: &RequestEvent) -> Write {
    Write {
        verb: request.verb.clone(),
        resource: request.resource_path(),
        id: view.names.canonical_id(&request.object_id()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Run;
    use crate::analysis::RandomPrefixes;
    use crate::testing::RunBuilder;

    fn run(writes: &[(&str, &str)]) -> Run {
        let mut run = RunBuilder::new();
        run.start("a/x");
        for (number, (verb, key)) in writes.iter().enumerate() {
            run.write(verb, "configmaps", key, (*verb != "delete").then(|| json!({"number": number})));
        }
        run.finish()
    }

    fn violation(oracle: &str, object: &str, event: Option<usize>) -> Violation {
        Violation {
            oracle: oracle.to_owned(),
            resource: if object.is_empty() { String::new() } else { "configmaps".to_owned() },
            object: object.to_owned(),
            event,
            explanation: String::new(),
            is_unevaluated: false,
        }
    }

    fn view(run: &Run) -> RunView<'_> {
        RunView::new(run, &RandomPrefixes::default())
    }

    #[test]
    fn the_write_of_the_subject_must_be_kept() {
        let original = run(&[("create", "a/x"), ("create", "a/y")]);
        let of_x = violation("same end", "a/x", None);
        let evidence = Evidence::of(&view(&original), &of_x);
        assert!(evidence.allows_single_steps());
        assert!(evidence.is_kept(&view(&run(&[("create", "a/x")])), &of_x));
        assert!(!evidence.is_kept(&view(&run(&[("create", "a/y")])), &of_x));
        assert!(!evidence.is_kept(&view(&original), &violation("same end", "a/y", None)), "another subject");
    }

    #[test]
    fn an_invariant_without_a_subject_keeps_the_last_write_before_it() {
        let original = run(&[("create", "a/x"), ("create", "a/y"), ("delete", "a/y")]);
        let first = view(&original).effective_writes().next().expect("a write").0;
        let at_end = Evidence::of(&view(&original), &violation("ready", "", None));
        assert!(!at_end.allows_single_steps());
        assert!(!at_end.is_kept(&view(&run(&[("create", "a/x")])), &violation("ready", "", None)));
        let at_first = Evidence::of(&view(&original), &violation("ready", "", Some(first)));
        assert!(at_first.is_kept(&view(&run(&[("create", "a/x")])), &violation("ready", "", None)));
    }
}
