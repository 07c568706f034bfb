//! What *same end* leaves out, because two runs without faults differ in it. An error that shows only there is not found, so the report names it.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::analysis::ObjectId;

/// How many fields the note names. The JSON document has all of them.
const MAX_NAMED: usize = 5;

/// A field, or a whole object, that *same end* does not compare.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NotCompared {
    /// The resource.
    pub resource: String,
    /// The canonical key of the object.
    pub object: String,
    /// The JSON pointer of the field; `None` if the number of objects with this key differs, so that nothing of them is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
}

impl NotCompared {
    /// Returns the entry for an object, and a field of it unless the pointer is empty.
    pub(crate) fn new(id: &ObjectId, pointer: &str) -> Self {
        let pointer = (!pointer.is_empty()).then(|| pointer.to_owned());
        Self { resource: id.resource.clone(), object: id.key(), pointer }
    }

    fn text(&self) -> String {
        let Self { resource, object, pointer } = self;
        let pointer = pointer.as_ref().map_or_else(String::new, |pointer| format!(" at {pointer}"));
        format!("{resource} {object}{pointer}")
    }
}

/// Returns the note that names what is not compared, if there is anything.
pub(super) fn note(left_out: &BTreeSet<NotCompared>) -> Option<String> {
    let mut named: Vec<_> = left_out.iter().take(MAX_NAMED).map(NotCompared::text).collect();
    let more = left_out.len().saturating_sub(MAX_NAMED);
    if more > 0 {
        named.push(format!("{more} more"));
    }
    (!named.is_empty()).then(|| {
        format!(
            "note: same end does not compare what differs between two runs without faults: {}; if a stand-in's `after` is a range, give it a fixed \
             time; judge other values with an invariant",
            named.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::id;

    #[test]
    fn the_note_names_the_first_fields_and_counts_the_others() {
        assert_eq!(note(&BTreeSet::new()), None);
        let field = |number: usize| NotCompared::new(&id("configmaps", "a/x"), &format!("/data/{number}"));
        let mut left_out = BTreeSet::from([NotCompared::new(&id("pods", "a/web-*"), ""), field(1)]);
        let text = note(&left_out).expect("a note");
        assert!(
            text.contains(": configmaps a/x at /data/1, pods a/web-*; if a stand-in's `after`"),
            "{text}"
        );
        left_out.extend((2..=6).map(field));
        let text = note(&left_out).expect("a note");
        assert!(text.contains("at /data/5, 2 more; "), "{text}");
    }
}
