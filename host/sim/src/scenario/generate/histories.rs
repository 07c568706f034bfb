//! Histories of generated objects: ways on which a user comes to the same objects, with and without something that is over.

use serde_json::{Value, json};

use super::sample::Sample;
use super::schema::{text_fields, with_text};
use super::{DEFAULT_NAMESPACE, Role, USER, WatchedKind, foreign, kind_fields, watch_references::Place};
use crate::scenario::Kinds;
use crate::scenario::actor::Step;
use crate::scenario::history::History;
use crate::scenario::manifest::Manifest;

/// The most kinds for whose objects there are histories.
const MAX_KINDS: usize = 3;
/// The most texts of a kind that are changed.
const MAX_TEXTS: usize = 3;
/// Pairs of texts, of which the first one that a schema allows is used: the former one, and the one that replaces it. No other object contains them.
const TEXTS: [[&str; 2]; 4] = [
    ["plum", "quince"],
    ["plum.example.com", "quince.example.com"],
    ["/plum", "/quince"],
    ["https://plum.example.com", "https://quince.example.com"],
];
/// A Namespace that only histories have. It comes before `default` in lists.
const OTHER_NAMESPACE: &str = "another";
/// An object that is kept in a Namespace that is being deleted.
const HELD: &str = "held";

/// Returns the histories of the objects that the plugin reconciles. They have no metadata of other clients yet.
pub(super) fn histories(
    samples: &[(&WatchedKind, Vec<Sample>)],
    kinds: &[String],
    sees_namespaces: bool,
) -> Vec<History> {
    let objects = |watched: &WatchedKind, of: Role| watched.role == of && watched.belongs_to_users();
    let read: Vec<&Sample> = samples
        .iter()
        .filter(|(watched, _)| objects(watched, Role::Read) || objects(watched, Role::ReadLive))
        .filter_map(|(_, samples)| samples.first())
        .collect();
    let reconciled = samples.iter().filter(|(watched, _)| watched.role == Role::Reconciled).take(MAX_KINDS);
    let mut histories = Vec::new();
    let mut has_held_namespace = false;
    for (watched, own) in reconciled {
        let Some(first) = own.first().filter(|sample| sample.is_generated) else { continue };
        let builder = HistoryBuilder { watched, first, second: own.get(1), read: &read, samples, kinds };
        histories.extend(builder.changed_at_once());
        histories.extend(builder.renamed());
        histories.extend(builder.namesake());
        let spreads = sees_namespaces || !watched.kind.resource.namespaced;
        if spreads && !has_held_namespace {
            histories.extend(builder.held_namespace());
            has_held_namespace = true;
        }
    }
    histories
}

/// Builds histories of one object, and of what the plugin reads beside it.
struct HistoryBuilder<'a> {
    watched: &'a WatchedKind,
    first: &'a Sample,
    second: Option<&'a Sample>,
    /// What the plugin reads.
    read: &'a [&'a Sample],
    samples: &'a [(&'a WatchedKind, Vec<Sample>)],
    kinds: &'a [String],
}

impl HistoryBuilder<'_> {
    /// Returns the creations of what the plugin reads.
    fn prelude(&self) -> Vec<Step> {
        self.others().map(|sample| sample.create("create")).collect()
    }

    /// Returns what the plugin reads beside the first object.
    fn others(&self) -> impl Iterator<Item = &Sample> {
        let own = &self.first.manifest;
        let is_own = |other: &Manifest| {
            (&other.resource, &other.namespace, &other.name) == (&own.resource, &own.namespace, &own.name)
        };
        self.read.iter().copied().filter(move |sample| !is_own(&sample.manifest))
    }

    /// Returns a way after the prelude.
    fn way(&self, steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
        self.prelude().into_iter().chain(steps).collect()
    }

    fn with_object(&self, object: Value) -> Sample {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Sample::new(Manifest { object, name, ..self.first.manifest.clone() }, true)
    }

    /// An object is created and changed, or is created as it is in the end.
    fn changed_at_once(&self) -> Option<History> {
        let changes = &self.first.changes;
        let end = changes.iter().fold(self.first.manifest.object.clone(), |object, change| {
            crate::scenario::merge::merged(&object, change)
        });
        (!changes.is_empty()).then(|| {
            let changes = changes.iter().map(|change| self.first.change(change));
            let longer = self.way(std::iter::once(self.first.create("create")).chain(changes));
            History::new(USER, longer, self.way([self.with_object(end).create("create")]))
        })
    }

    /// For each text that a plugin may name an object after: the text is changed, or is so from the start; and another object has the same text and
    /// is deleted again, or never exists.
    fn renamed(&self) -> Vec<History> {
        let Some(schema) = &self.watched.kind.schema else { return Vec::new() };
        let object = &self.first.manifest.object;
        let named = self.names_of_others(schema);
        let fields = text_fields(schema, object, self.kinds);
        let free = fields.into_iter().filter(|field| !named.contains(&field.json_path()));
        let mut histories = Vec::new();
        // A plugin that may not delete what has another name now would be right to keep it.
        for field in free.take(if self.watched.may_delete { MAX_TEXTS } else { 0 }) {
            let pair = TEXTS.iter().find_map(|[former, current]| {
                let former = with_text(schema, object, &field.pointer, former)?;
                let current = with_text(schema, &former, &field.pointer, current)?;
                Some((self.with_object(former), current))
            });
            let Some((former, current)) = pair else { continue };
            let member = field.pointer.split('/').nth(1).unwrap_or_default();
            let change = json!({ member: current[member] });
            let longer = self.way([former.create("create"), former.change(&change)]);
            histories.push(History::new(
                USER,
                longer,
                self.way([self.with_object(current).create("create")]),
            ));
            histories.extend(self.same_text(&former));
        }
        histories
    }

    /// Two objects that differ in their names alone, of which the second is deleted.
    fn same_text(&self, first: &Sample) -> Option<History> {
        let mut object = first.manifest.object.clone();
        object["metadata"]["name"] = self.second?.manifest.name.as_str().into();
        let second = self.with_object(object);
        let longer = self.way([first.create("create"), second.create("create"), second.delete()]);
        Some(History::new(USER, longer, self.way([first.create("create")])))
    }

    /// Returns the JSONPaths of the fields in which objects of the kind name other objects of users.
    fn names_of_others(&self, schema: &Value) -> Vec<String> {
        let own = &self.watched.kind.resource;
        let others = self.samples.iter().map(|(other, _)| &other.kind.resource).filter(|other| *other != own);
        let mut paths: Vec<String> =
            others.flat_map(|other| kind_fields::fields(schema, &other.kind)).collect();
        for reference in &self.watched.references {
            if let Place::Field(path) = &reference.place {
                paths.push(path.clone());
            }
        }
        paths
    }

    /// An object of the same name in another Namespace, which is deleted.
    fn namesake(&self) -> Option<History> {
        if !self.watched.kind.resource.namespaced || !self.watched.namespaces.is_empty() {
            return None;
        }
        let namesake = in_namespace(self.first)?;
        let shorter = || {
            let mut steps = vec![namespace()?.create("create")];
            steps.extend(self.prelude());
            let namesakes = self.others().filter_map(in_namespace);
            steps.extend(namesakes.map(|sample| sample.create("create")));
            steps.push(self.first.create("create"));
            Some(steps)
        };
        let longer = shorter()?.into_iter().chain([namesake.create("create"), namesake.delete()]);
        Some(History::new(USER, longer.collect(), shorter()?))
    }

    /// A Namespace is being deleted for as long as an object in it is held by another controller's finalizer.
    fn held_namespace(&self) -> Option<History> {
        let namespace = namespace()?;
        let longer = [namespace.create("create"), held_object()?.create("create"), namespace.delete()];
        let own = || self.way([self.first.create("create")]);
        Some(History::new(USER, longer.into_iter().chain(own()).collect(), own()))
    }
}

/// Returns an object of the same name in the other Namespace; `None` for objects of the cluster.
fn in_namespace(sample: &Sample) -> Option<Sample> {
    let mut manifest = sample.manifest.clone();
    if !manifest.resource.namespaced || manifest.namespace != DEFAULT_NAMESPACE {
        return None;
    }
    manifest.namespace = OTHER_NAMESPACE.to_owned();
    manifest.object["metadata"]["namespace"] = OTHER_NAMESPACE.into();
    Some(Sample::new(manifest, true))
}

fn namespace() -> Option<Sample> {
    built_in(
        "Namespace",
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OTHER_NAMESPACE}}),
    )
}

fn held_object() -> Option<Sample> {
    let metadata =
        json!({"name": HELD, "namespace": OTHER_NAMESPACE, "finalizers": [foreign::FOREIGN_FINALIZER]});
    built_in("ConfigMap", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
}

fn built_in(kind: &str, object: Value) -> Option<Sample> {
    let kinds = Kinds::built_in();
    let resource = kinds.resolve(kind).ok()?.resource.clone();
    let text = |member: &str| object["metadata"][member].as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text("namespace"), text("name"));
    Some(Sample::new(Manifest { resource, namespace, name, object }, true))
}
