//! What must be seen in a cluster for a finding to count as reproduced.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::labels::Labels;
use super::timeline::is_of_server;
use crate::analysis::canonical::{canonical_object, is_time};
use crate::analysis::{CanonicalEnd, EndDifference, EndMask, ObjectId, RunView, metadata};
use crate::run::{Author, RequestEvent};

/// The largest number of facts.
const MAX_FACTS: usize = 40;
/// The members of `metadata` that every write changes.
const VOLATILE: [&str; 4] =
    ["/metadata/managedFields", "/metadata/resourceVersion", "/metadata/generation", "/metadata/uid"];

/// The outcome that reproduces a finding.
#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(super) enum Expected {
    /// The plugin sends a write that it must not send.
    Write(ExpectedWrite),
    /// The objects at rest.
    End {
        /// What they have in common with the end of the recorded run, and not with a run without faults.
        facts: Vec<Fact>,
    },
}

/// A write of the plugin.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExpectedWrite {
    verb: String,
    /// The resource with the subresource.
    resource: String,
    /// The label of the object; without a number if the write creates it.
    object: String,
    /// The HTTP status, if the server refuses the write.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<u16>,
    /// Which of the equal writes it is, from 1.
    occurrence: usize,
    /// How many entries of the timeline come before it.
    entries: usize,
    /// Members of the object after the write.
    facts: BTreeMap<String, Value>,
}

/// Something that holds for the objects of one address.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fact {
    resource: String,
    namespace: String,
    /// The name, or the prefix of a generated name and `*`.
    name: String,
    #[serde(flatten)]
    holds: Holds,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", untagged)]
enum Holds {
    Count { count: usize },
    Equals { pointer: String, equals: Value },
    Absent { pointer: String, absent: bool },
}

/// Returns the write at an event, if it is one of a plugin.
pub(super) fn of_write(
    view: &RunView<'_>,
    labels: &Labels,
    event: usize,
    entries: usize,
) -> Option<Expected> {
    let request = view.request(event).filter(|request| is_by_plugin(request) && request.is_write())?;
    let is_refused = |request: &RequestEvent| request.status.is_some_and(|status| status >= 400);
    if !request.is_effective() && !is_refused(request) {
        return None;
    }
    let refused = (!request.is_effective()).then_some(request.status).flatten();
    let object = labels.of_request(request, &view.names);
    let occurrence = view
        .requests()
        .filter(|(index, _, other)| {
            *index <= event
                && is_by_plugin(other)
                && other.verb == request.verb
                && other.resource_path() == request.resource_path()
                && labels.of_request(other, &view.names) == object
                && if refused.is_some() { other.status == refused } else { other.is_effective() }
        })
        .count();
    Some(Expected::Write(ExpectedWrite {
        verb: request.verb.clone(),
        resource: request.resource_path(),
        object,
        refused,
        occurrence,
        entries,
        facts: changes(request, labels),
    }))
}

fn is_by_plugin(request: &RequestEvent) -> bool {
    matches!(request.author, Author::Plugin(_))
}

/// Returns the members that a write has changed, without times. Of a new object, these are the owners.
fn changes(request: &RequestEvent, labels: &Labels) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let Some(after) = &request.after else { return found };
    match &request.before {
        Some(before) => collect_changes(before, after, &mut String::new(), &mut found),
        None => {
            let owners = &after["metadata"]["ownerReferences"];
            if !owners.is_null() {
                found.insert("/metadata/ownerReferences".to_owned(), owners.clone());
            }
        }
    }
    found.retain(|pointer, value| {
        let is_volatile = VOLATILE.iter().any(|volatile| pointer.starts_with(volatile));
        !is_volatile && !value.as_str().is_some_and(is_time)
    });
    found.into_iter().take(MAX_FACTS).map(|(pointer, value)| (pointer, labels.replace(&value))).collect()
}

/// Collects the scalar members of `after` that differ from those of `before`.
fn collect_changes(before: &Value, after: &Value, pointer: &mut String, found: &mut BTreeMap<String, Value>) {
    if before == after || found.len() > 10 * MAX_FACTS {
        return;
    }
    let length = pointer.len();
    match after {
        Value::Object(members) => {
            for (name, member) in members {
                pointer.push('/');
                pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                collect_changes(before.get(name).unwrap_or(&Value::Null), member, pointer, found);
                pointer.truncate(length);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointer.push_str(&format!("/{index}"));
                collect_changes(before.get(index).unwrap_or(&Value::Null), item, pointer, found);
                pointer.truncate(length);
            }
        }
        value => drop(found.insert(pointer.clone(), value.clone())),
    }
}

/// Returns the end of a run; `None` if it says nothing. `baseline` is a run without faults, and `mask` what differs between two of these.
pub(super) fn of_end(view: &RunView<'_>, baseline: &CanonicalEnd, mask: &EndMask) -> Option<Expected> {
    let differences = baseline.differences(&view.canonical_end(), mask);
    let end = view.canonical_end();
    let mut facts: Vec<_> = differences
        .iter()
        .filter(|difference| !is_of_server(&difference.id.resource))
        .filter_map(|difference| of_difference(difference, &end))
        .take(MAX_FACTS)
        .collect();
    if facts.is_empty() {
        facts = of_whole_end(view);
    }
    (!facts.is_empty()).then_some(Expected::End { facts })
}

fn of_difference(difference: &EndDifference, end: &CanonicalEnd) -> Option<Fact> {
    let EndDifference { id, pointer, found, .. } = difference;
    let holds = if pointer.is_empty() {
        Holds::Count { count: end.count(id) }
    } else if found == "nothing" {
        Holds::Absent { pointer: pointer.clone(), absent: true }
    } else {
        // A long value is cut off, and no JSON any more.
        Holds::Equals { pointer: pointer.clone(), equals: serde_json::from_str(found).ok()? }
    };
    Some(fact(id, holds))
}

/// Describes all objects that the actors and the plugin have written.
fn of_whole_end(view: &RunView<'_>) -> Vec<Fact> {
    let written: BTreeSet<ObjectId> = view
        .requests()
        .filter(|(_, event, request)| {
            event.host > 0 && request.is_effective() && !matches!(request.author, Author::Host)
        })
        .map(|(_, _, request)| request.object_id())
        .collect();
    let end = view.canonical_end();
    let mut facts = Vec::new();
    for id in written.iter().filter(|id| !is_of_server(&id.resource)) {
        let canonical = view.names.canonical_id(id);
        facts.push(fact(&canonical, Holds::Count { count: end.count(&canonical) }));
        let stored = view.run.objects.iter().find(|stored| ObjectId::of(stored) == *id);
        let Some(stored) = stored.filter(|_| !view.names.is_generated(&id.name)) else { continue };
        let object = canonical_object(&stored.object, &view.names);
        for (name, member) in object.as_object().into_iter().flatten() {
            if !matches!(name.as_str(), "metadata" | "apiVersion" | "kind") {
                facts.push(fact(id, Holds::Equals { pointer: format!("/{name}"), equals: member.clone() }));
            }
        }
        if object.get("status").is_none() {
            facts.push(fact(id, Holds::Absent { pointer: "/status".to_owned(), absent: true }));
        }
        if metadata(&stored.object, "deletionTimestamp").is_none() {
            let pointer = "/metadata/deletionTimestamp".to_owned();
            facts.push(fact(id, Holds::Absent { pointer, absent: true }));
        }
    }
    facts.dedup();
    facts.truncate(MAX_FACTS);
    facts
}

fn fact(id: &ObjectId, holds: Holds) -> Fact {
    Fact { resource: id.resource.clone(), namespace: id.namespace.clone(), name: id.name.clone(), holds }
}
