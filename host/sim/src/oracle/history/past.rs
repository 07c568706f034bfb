//! What users wrote in a run that is over at its end: objects, Namespaces and texts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::analysis::{ObjectId, RunView};
use crate::run::{Author, RequestEvent, StoredObject};

/// Fields that choose a version. A plugin may keep what it made for an earlier one, as a Deployment keeps its ReplicaSets.
const VERSIONS: [&str; 9] =
    ["version", "revision", "release", "tag", "image", "hash", "digest", "build", "commit"];

/// What is over.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// The objects that users made and that are gone, or are being deleted.
    pub(super) objects: BTreeSet<ObjectId>,
    /// The Namespaces that users made, and of which one of these objects is, or is in.
    pub(super) namespaces: BTreeSet<String>,
    /// Texts that a user has replaced, and that no object of a user contains any more, each with the text that replaced it.
    pub(super) texts: Vec<(String, String)>,
}

impl Past {
    pub(super) fn of(run: &RunView<'_>) -> Self {
        let mut made = BTreeSet::new();
        let mut namespaces = BTreeSet::new();
        let mut replaced: BTreeMap<String, String> = BTreeMap::new();
        for (_, _, request) in run.requests().filter(|(_, _, request)| is_by_user(request)) {
            match (&request.before, &request.after) {
                (None, Some(_)) => {
                    if request.resource == "namespaces" {
                        namespaces.insert(request.name.clone());
                    }
                    made.insert(request.object_id());
                }
                (Some(before), Some(after)) if request.subresource.is_empty() => {
                    for (member, before) in before.as_object().into_iter().flatten() {
                        if !matches!(member.as_str(), "metadata" | "status") {
                            collect_replaced(before, &after[member], member, &mut replaced);
                        }
                    }
                }
                _ => {}
            }
        }
        let is_kept = |object: &&StoredObject| object.object.pointer("/metadata/deletionTimestamp").is_none();
        let own = run.run.objects.iter().filter(|object| made.contains(&ObjectId::of(object)));
        let kept: Vec<&StoredObject> = own.filter(is_kept).collect();
        replaced.retain(|text, _| !kept.iter().any(|object| mentions_word_in(&object.object, text)));
        let kept: BTreeSet<_> = kept.into_iter().map(ObjectId::of).collect();
        let objects: BTreeSet<_> = made.difference(&kept).cloned().collect();
        namespaces.retain(|name| {
            objects.iter().any(|id| id.namespace == *name || id.resource == "namespaces" && id.name == *name)
        });
        Self { objects, namespaces, texts: replaced.into_iter().collect() }
    }

    /// Whether the object is, or is in, a Namespace that is over, or is one of a user that is over.
    pub(super) fn contains(&self, id: &ObjectId) -> bool {
        let is_namespace = id.resource == "namespaces" && self.namespaces.contains(&id.name);
        is_namespace || self.namespaces.contains(&id.namespace) || self.objects.contains(id)
    }

    /// Whether a key is that of an object that is over.
    pub(super) fn has_key(&self, key: &str) -> bool {
        self.objects.iter().any(|id| id.key() == key)
    }

    /// Whether a Namespace is over, so that nothing can be created in it although it may still exist.
    pub(super) fn has_closed_namespace(&self) -> bool {
        self.objects.iter().any(|id| id.resource == "namespaces")
    }

    /// Returns the Namespaces of objects that are gone. One that is itself being deleted may still be named.
    pub(super) fn names(&self) -> BTreeSet<&str> {
        if self.has_closed_namespace() {
            return BTreeSet::new();
        }
        self.namespaces.iter().map(String::as_str).collect()
    }
}

/// Collects the texts at places where there is another text now. `member` is the member that contains the value.
fn collect_replaced(before: &Value, after: &Value, member: &str, replaced: &mut BTreeMap<String, String>) {
    match (before, after) {
        (Value::String(before), Value::String(after)) => {
            let lower = member.to_lowercase();
            if before != after && !before.is_empty() && !VERSIONS.iter().any(|name| lower.ends_with(name)) {
                replaced.insert(before.clone(), after.clone());
            }
        }
        (Value::Object(before), Value::Object(after)) => {
            for (name, before) in before {
                if let Some(after) = after.get(name) {
                    collect_replaced(before, after, name, replaced);
                }
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (before, after) in before.iter().zip(after) {
                collect_replaced(before, after, member, replaced);
            }
        }
        _ => {}
    }
}

fn is_by_user(request: &RequestEvent) -> bool {
    matches!(request.author, Author::Actor(_)) && request.is_effective()
}

/// Whether a text contains a word: not as a part of a longer one.
pub(super) fn mentions_word(text: &str, word: &str) -> bool {
    !word.is_empty()
        && text.match_indices(word).any(|(start, _)| {
            let before = text[..start].chars().next_back();
            let after = text[start + word.len()..].chars().next();
            [before, after].into_iter().flatten().all(|character| !character.is_alphanumeric())
        })
}

fn mentions_word_in(value: &Value, word: &str) -> bool {
    match value {
        Value::String(text) => mentions_word(text, word),
        Value::Array(items) => items.iter().any(|item| mentions_word_in(item, word)),
        Value::Object(members) => members.iter().any(|(name, member)| {
            // The managed fields, and what the status says of the past.
            !matches!(name.as_str(), "managedFields" | "status")
                && (mentions_word(name, word) || mentions_word_in(member, word))
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::analysis::RandomPrefixes;
    use crate::testing::{RunBuilder, id};

    fn past(run: RunBuilder) -> Past {
        Past::of(&RunView::new(&run.finish(), &RandomPrefixes::default()))
    }

    #[test]
    fn a_word_is_no_part_of_another() {
        assert!(mentions_word("app-plum", "plum") && mentions_word("plum/x", "plum"));
        assert!(!mentions_word("plums", "plum") && !mentions_word("pl", "plum") && !mentions_word("x", ""));
    }

    #[test]
    fn texts_that_were_replaced_are_over_unless_an_object_of_a_user_still_has_them() {
        let mut run = RunBuilder::new();
        let spec = |pool: &str, other: &str, version: &str| json!({"spec": {"pools": [{"name": pool}], "other": other, "version": version}, "status": {"pool": "plum"}});
        run.actor("user", "create", "farms", "a/x", Some(spec("plum", "fig", "1.0")));
        run.actor("user", "create", "farms", "a/y", Some(json!({"spec": {"fruit": "fig"}})));
        run.actor("user", "patch", "farms", "a/x", Some(spec("quince", "date", "2.0")));
        assert_eq!(past(run).texts, [("plum".to_owned(), "quince".to_owned())]);
    }

    #[test]
    fn objects_and_namespaces_that_users_deleted_are_over() {
        let mut run = RunBuilder::new();
        for key in ["another", "kept"] {
            run.actor("user", "create", "namespaces", key, Some(json!({})));
        }
        for key in ["a/x", "another/x", "another/secret"] {
            run.actor("user", "create", "farms", key, Some(json!({})));
        }
        run.actor("user", "delete", "farms", "another/x", None);
        let past = past(run);
        assert_eq!(past.objects, BTreeSet::from([id("farms", "another/x")]));
        assert_eq!(past.names(), BTreeSet::from(["another"]));
        assert!(past.contains(&id("pods", "another/child")) && past.contains(&id("namespaces", "another")));
        assert!(!past.contains(&id("pods", "a/child")) && !past.contains(&id("namespaces", "kept")));
        assert!(past.has_key("another/x") && !past.has_key("a/x") && !past.has_closed_namespace());
    }
}
