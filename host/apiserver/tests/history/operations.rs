//! Random operations, their requests, and the predictions of the model.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::api::{Answer, Api};
use crate::model::{Key, Model, Object, Outcome};

pub(crate) const NAMESPACES: [&str; 2] = ["default", "kube-system"];
pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];

/// What is done to the server. A client is one of two that remember the versions they have read.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Create(Key, Option<u8>, u64),
    Read(usize, Key),
    /// A PUT with the version that the client has read last, or without one.
    Update(usize, Key, Option<u8>, u64),
    Label(Key, Option<u8>),
    Status(Key, u64),
    /// A deletion, with the version that a client has read as a precondition.
    Delete(Key, Option<usize>),
    Refused(Key),
    DryRun(Key),
    /// A write to another resource, which takes a version.
    Other,
    Compact,
    /// Begins a list in pages of this size, of the selection with this number.
    StartPages(usize, usize),
    StartWatch(usize),
}

fn key() -> impl Strategy<Value = Key> {
    (0..NAMESPACES.len(), 0..NAMES.len()).prop_map(|(namespace, name)| (NAMESPACES[namespace], NAMES[name]))
}

pub(crate) fn operation(selections: usize) -> impl Strategy<Value = Operation> {
    let color = || prop::option::of(1..3_u8);
    prop_oneof![
        6 => (key(), color(), 0..3_u64).prop_map(|(key, color, replicas)| Operation::Create(key, color, replicas)),
        3 => (0..2_usize, key()).prop_map(|(client, key)| Operation::Read(client, key)),
        6 => (0..2_usize, key(), color(), 0..3_u64)
            .prop_map(|(client, key, color, replicas)| Operation::Update(client, key, color, replicas)),
        5 => (key(), color()).prop_map(|(key, color)| Operation::Label(key, color)),
        3 => (key(), 1..3_u64).prop_map(|(key, observed)| Operation::Status(key, observed)),
        3 => (key(), prop::option::of(0..2_usize)).prop_map(|(key, client)| Operation::Delete(key, client)),
        1 => key().prop_map(Operation::Refused),
        1 => key().prop_map(Operation::DryRun),
        2 => Just(Operation::Other),
        1 => Just(Operation::Compact),
        2 => (1..4_usize, 0..selections).prop_map(|(limit, selection)| Operation::StartPages(limit, selection)),
        2 => (0..selections).prop_map(Operation::StartWatch),
    ]
}

/// The versions that the two clients have read last.
pub(crate) type Known = [BTreeMap<Key, u64>; 2];

pub(crate) fn path((namespace, name): Key) -> String {
    format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
}

fn deployment((namespace, name): Key, color: Option<u8>, replicas: i64) -> Value {
    let labels = color.map(|color| json!({"color": color.to_string()}));
    let template =
        json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}}, "template": template},
    })
}

fn count(replicas: u64) -> i64 {
    i64::try_from(replicas).expect("a small number")
}

/// Does what writes or reads one object. Checks the response against the model's prediction, and tells the model what was written.
pub(crate) async fn write(api: &Api, model: &mut Model, known: &mut Known, operation: &Operation) {
    let before = api.server.revision();
    let (key, (expected, after), answer) = match *operation {
        Operation::Create(key, color, replicas) => {
            let body = deployment(key, color, count(replicas));
            let collection = path(key);
            let collection = collection.rsplit_once('/').expect("a path").0;
            let made = Object { revision: 0, generation: 1, color, replicas, observed: 0 };
            let prediction = match model.get(key) {
                Some(_) => (Outcome::Conflict, None),
                None => (Outcome::Written, Some(made)),
            };
            (key, prediction, api.post(collection, &body).await)
        }
        Operation::Update(client, key, color, replicas) => {
            let version = known[client].get(&key).copied();
            let mut body = deployment(key, color, count(replicas));
            body["metadata"]["resourceVersion"] = json!(version.map(|version| version.to_string()));
            let set = |object: &mut Object| (object.color, object.replicas) = (color, replicas);
            (key, model.predict_update(key, version, set), api.put(&path(key), &body).await)
        }
        Operation::Label(key, color) => {
            let labels = json!({"color": color.map(|color| color.to_string())});
            let prediction = model.predict_update(key, None, |object| object.color = color);
            (key, prediction, api.merge(&path(key), &json!({"metadata": {"labels": labels}})).await)
        }
        Operation::Status(key, observed) => {
            let prediction = model.predict_update(key, None, |object| object.observed = observed);
            // What is not part of the status is ignored.
            let body = json!({"status": {"replicas": observed}, "spec": {"replicas": 9}});
            (key, prediction, api.merge(&format!("{}/status", path(key)), &body).await)
        }
        Operation::Delete(key, client) => {
            let version = client.and_then(|client| known[client].get(&key).copied());
            let (outcome, _) = model.predict_update(key, version, |object| object.revision = 0);
            let preconditions = version.map(|version| json!({"resourceVersion": version.to_string()}));
            (key, (outcome, None), api.delete(&path(key), &json!({"preconditions": preconditions})).await)
        }
        Operation::Refused(key) => {
            let expected = if model.get(key).is_some() { Outcome::Invalid } else { Outcome::NotFound };
            (key, (expected, None), api.put(&path(key), &deployment(key, None, -1)).await)
        }
        Operation::DryRun(key) => {
            let expected = if model.get(key).is_some() { Outcome::Unchanged } else { Outcome::NotFound };
            let uri = format!("{}?dryRun=All", path(key));
            (key, (expected, None), api.merge(&uri, &json!({"spec": {"replicas": 8}})).await)
        }
        Operation::Read(client, key) => {
            let answer = api.get(&path(key)).await;
            let version =
                answer.body["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
            match version {
                Some(version) => drop(known[client].insert(key, version)),
                None => drop(known[client].remove(&key)),
            }
            assert_eq!(version, model.get(key).map(|object| object.revision));
            return;
        }
        _ => return,
    };
    let now = api.server.revision();
    assert_eq!(outcome(&answer, expected), expected, "{operation:?}: {answer:#?}");
    if expected == Outcome::Written {
        assert!(now > before, "{operation:?}: the resourceVersion is {now} after {before}");
        if matches!(operation, Operation::Delete(..)) {
            model.record(now, key, None);
        } else {
            model.record(now, key, after);
            assert_eq!(Some(&object(&answer.body).1), model.get(key), "{operation:?}");
        }
    } else {
        assert_eq!(now, before, "{operation:?}: nothing was written");
    }
}

fn outcome(answer: &Answer, expected: Outcome) -> Outcome {
    match answer.code {
        // The resourceVersion shows which of the two it was.
        200 | 201 if matches!(expected, Outcome::Written | Outcome::Unchanged) => expected,
        200 | 201 => Outcome::Written,
        404 => Outcome::NotFound,
        409 => Outcome::Conflict,
        422 => Outcome::Invalid,
        code => panic!("{code}: {answer:#?}"),
    }
}

/// Writes to another resource.
pub(crate) async fn write_other(api: &Api) {
    let body = json!({"metadata": {"generateName": "other-"}});
    api.post(&crate::api::core("configmaps"), &body).await.ok();
}

/// Returns what the model knows of an object.
pub(crate) fn object(value: &Value) -> (Key, Object) {
    let metadata = &value["metadata"];
    let known = |names: &[&'static str], member: &str| {
        let found = names.iter().find(|name| metadata[member] == **name);
        *found.unwrap_or_else(|| panic!("{member}: {value:#}"))
    };
    let number = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
    let object = Object {
        revision: number(&metadata["resourceVersion"]).expect("a resourceVersion"),
        generation: metadata["generation"].as_u64().expect("a generation"),
        color: number(&metadata["labels"]["color"]).and_then(|color| u8::try_from(color).ok()),
        replicas: value["spec"]["replicas"].as_u64().expect("replicas"),
        observed: value["status"]["replicas"].as_u64().unwrap_or_default(),
    };
    ((known(&NAMESPACES, "namespace"), known(&NAMES, "name")), object)
}
