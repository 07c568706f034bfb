//! Labels: names of objects that hold in any cluster. UIDs and generated names are replaced by placeholders, which the script resolves.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::analysis::{Names, ObjectId, RunView, metadata};
use crate::run::RequestEvent;

/// The labels of a run's objects: `RESOURCE KEY#N` for the N-th object that was created at a canonical address.
#[derive(Debug, Default)]
pub(super) struct Labels {
    /// The labels by UID.
    by_uid: BTreeMap<String, String>,
    /// The labels of objects with a generated name, by name.
    by_name: BTreeMap<String, String>,
}

impl Labels {
    /// Labels the objects of a run in the order of their creation.
    pub(super) fn of(view: &RunView<'_>) -> Self {
        let mut labels = Self::default();
        let mut counts: BTreeMap<ObjectId, usize> = BTreeMap::new();
        for (_, _, request) in view.requests() {
            let (true, None, Some(after)) = (request.changed, &request.before, &request.after) else {
                continue;
            };
            let id = view.names.canonical_id(&request.object_id());
            let count = counts.entry(id.clone()).or_default();
            *count += 1;
            let label = format!("{id}#{count}");
            if view.names.is_generated(&request.name) {
                labels.by_name.insert(request.name.clone(), label.clone());
            }
            if let Some(uid) = metadata(after, "uid") {
                labels.by_uid.insert(uid.to_owned(), label);
            }
        }
        labels
    }

    /// Returns the label of the object that a request is about: without a number for a create, which does not depend on how many there
    /// were before.
    pub(super) fn of_request(&self, request: &RequestEvent, names: &Names) -> String {
        let id = names.canonical_id(&request.object_id()).to_string();
        let object = request.before.as_deref().or(request.after.as_deref());
        let uid = object.and_then(|object| metadata(object, "uid"));
        match uid.and_then(|uid| self.by_uid.get(uid)) {
            Some(label) if request.before.is_some() || !request.changed => label.clone(),
            _ => id,
        }
    }

    /// Replaces UIDs and generated names in a value by `${uid:LABEL}` and `${name:LABEL}`. `${text:TEXT}` stands for the text.
    pub(super) fn replace(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::from(self.replace_text(text)),
            Value::Array(items) => items.iter().map(|item| self.replace(item)).collect(),
            Value::Object(members) => {
                members.iter().map(|(name, member)| (self.replace_text(name), self.replace(member))).collect()
            }
            value => value.clone(),
        }
    }

    /// Replaces UIDs and generated names in a text. A `${` of the text itself becomes `${text:$}{`.
    pub(super) fn replace_text(&self, text: &str) -> String {
        let mut found = Vec::new();
        for (kind, labels) in [("uid", &self.by_uid), ("name", &self.by_name)] {
            let contained =
                labels.iter().filter(|(name, _)| !name.is_empty() && text.contains(name.as_str()));
            found.extend(contained.map(|(name, label)| (name.as_str(), format!("${{{kind}:{label}}}"))));
        }
        // A generated name may begin with another one.
        found.sort_by_key(|(name, _)| Reverse(name.len()));
        replace_all(text, &found)
    }
}

/// Replaces the texts by their placeholders, the first ones first, and escapes the rest.
fn replace_all(text: &str, found: &[(&str, String)]) -> String {
    match found.split_first() {
        None => text.replace("${", "${text:$}{"),
        Some(((name, placeholder), others)) => {
            let parts: Vec<_> = text.split(*name).map(|part| replace_all(part, others)).collect();
            parts.join(placeholder.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> Labels {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(found, label)| ((*found).to_owned(), (*label).to_owned())).collect()
        };
        Labels {
            by_uid: map(&[("u-1", "pods a/web-*#1")]),
            by_name: map(&[("web-abcde", "pods a/web-*#1"), ("web-abcde-fghij", "pods a/web-*-*#1")]),
        }
    }

    #[test]
    fn a_generated_name_that_begins_with_another_one_has_its_own_placeholder() {
        let replaced = labels().replace_text("web-abcde-fghij of web-abcde (u-1)");
        let expected = "${name:pods a/web-*-*#1} of ${name:pods a/web-*#1} (${uid:pods a/web-*#1})";
        assert_eq!(replaced, expected);
    }

    #[test]
    fn a_placeholder_in_the_text_of_an_object_is_escaped() {
        let replaced = labels().replace_text("${name:-default} $${uid:u-1} $x");
        let expected = "${text:$}{name:-default} $${text:$}{uid:${uid:pods a/web-*#1}} $x";
        assert_eq!(replaced, expected);
    }
}
