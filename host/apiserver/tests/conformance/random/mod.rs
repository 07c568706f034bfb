//! Random scripts: writes, deletions and reads of a few objects, in an order that a seed decides.

pub(crate) mod live;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::case::{Case, Step};

/// The group of the scripts.
pub(crate) const GROUP: &str = "random";
/// The number of steps of a script.
const STEPS: usize = 12;
/// The names of a script's objects.
const NAMES: [&str; 2] = ["a", "b"];
const MANAGERS: [&str; 3] = ["one", "two", "three"];

/// A kind of object in random scripts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    ConfigMap,
    Deployment,
    Service,
    /// A custom resource, in live scripts only.
    Custom,
}

impl Kind {
    /// The kinds of the recorded scripts, whose order decides which kind a seed has.
    const ALL: [Self; 3] = [Self::ConfigMap, Self::Deployment, Self::Service];

    fn path(self) -> &'static str {
        match self {
            Self::ConfigMap => "${core}/configmaps",
            Self::Deployment => "${apps}/deployments",
            Self::Service => "${core}/services",
            Self::Custom => "${custom}/things",
        }
    }

    fn type_members(self) -> (&'static str, &'static str) {
        match self {
            Self::ConfigMap => ("v1", "ConfigMap"),
            Self::Deployment => ("apps/v1", "Deployment"),
            Self::Service => ("v1", "Service"),
            Self::Custom => ("${ns}.example.com/v1", "Thing"),
        }
    }

    /// Returns a member in which objects of this kind differ, and its name.
    fn content(self, random: &mut SmallRng) -> (&'static str, Value) {
        let number = random.random_range(1..4);
        match self {
            Self::ConfigMap => ("data", json!({key(random): number.to_string(), key(random): "x"})),
            Self::Deployment => {
                let image = format!("i:{number}");
                let container = json!({"name": key(random), "image": image});
                let spec = json!({"containers": [container]});
                let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": spec});
                let selector = json!({"matchLabels": {"app": "x"}});
                ("spec", json!({"replicas": number, "selector": selector, "template": template}))
            }
            Self::Service => {
                let port = json!({"name": key(random), "port": 80 + number});
                ("spec", json!({"ports": [port], "selector": {"app": key(random)}}))
            }
            Self::Custom => {
                let item = json!({"name": key(random), "value": number});
                ("spec", json!({"replicas": number, "list": [item]}))
            }
        }
    }
}

fn key(random: &mut SmallRng) -> &'static str {
    pick(random, &["x", "y", "z"])
}

fn pick<T: Copy>(random: &mut SmallRng, values: &[T]) -> T {
    values[random.random_range(0..values.len())]
}

/// Returns the script of a seed.
pub(crate) fn script(seed: u64) -> Case {
    let mut random = SmallRng::seed_from_u64(seed);
    let kind = pick(&mut random, &Kind::ALL);
    let mut steps: Vec<Step> = (0..STEPS).map(|_| step(kind, &mut random)).collect();
    let list = Step { request: Some(format!("GET {}", kind.path())), ..Step::default() };
    steps.push(list);
    Case::new(GROUP, &format!("seed-{seed}"), steps)
}

fn step(kind: Kind, random: &mut SmallRng) -> Step {
    let name = pick(random, &NAMES);
    let object = format!("{}/{name}", kind.path());
    match random.random_range(0..16) {
        0..3 => create(kind, name, random),
        3 | 4 => Step {
            request: Some(format!("PUT {object}{}", manager(random))),
            body: Some(complete(kind, name, random)),
            ..Step::default()
        },
        5..9 => apply(kind, name, random),
        9 | 10 => patch(kind, &object, random),
        11 => Step {
            request: Some(format!("PATCH {object}?fieldManager=one")),
            content_type: Some("json".into()),
            body: Some(json_patch(random)),
            ..Step::default()
        },
        12 | 13 => delete(&object, random),
        14 => Step { request: Some(format!("GET {object}")), ..Step::default() },
        _ => Step {
            request: Some(format!("DELETE {}", kind.path())),
            body: Some(json!({"propagationPolicy": propagation(random)})),
            ..Step::default()
        },
    }
}

fn create(kind: Kind, name: &str, random: &mut SmallRng) -> Step {
    Step {
        request: Some(format!("POST {}{}", kind.path(), manager(random))),
        body: Some(complete(kind, name, random)),
        ..Step::default()
    }
}

fn apply(kind: Kind, name: &str, random: &mut SmallRng) -> Step {
    let force = pick(random, &["", "&force=true"]);
    let dry_run = pick(random, &["", "", "", "&dryRun=All"]);
    let mut body = complete(kind, name, random);
    if let Some(metadata) = body["metadata"].as_object_mut() {
        // An owner of metadata in every second apply.
        if random.random_bool(0.5) {
            metadata.insert("labels".into(), json!({key(random): key(random)}));
        }
    }
    Step {
        request: Some(format!("PATCH {}/{name}{}{force}{dry_run}", kind.path(), manager(random))),
        content_type: Some("apply".into()),
        body: Some(body),
        ..Step::default()
    }
}

fn patch(kind: Kind, object: &str, random: &mut SmallRng) -> Step {
    let (member, content) = kind.content(random);
    let body = match random.random_range(0..4) {
        0 => json!({"metadata": {"labels": {key(random): key(random), key(random): null}}}),
        1 => json!({"metadata": {"finalizers": pick(random, &[None, Some(["example.com/f"])])}}),
        2 => json!({"metadata": {"annotations": {key(random): key(random)}}}),
        _ => json!({member: content}),
    };
    Step {
        request: Some(format!("PATCH {object}{}", manager(random))),
        content_type: Some(pick(random, &["merge", "strategic"]).into()),
        body: Some(body),
        ..Step::default()
    }
}

fn json_patch(random: &mut SmallRng) -> Value {
    match random.random_range(0..4) {
        0 => json!([{"op": "add", "path": "/metadata/labels", "value": {key(random): "1"}}]),
        1 => json!([{"op": "remove", "path": format!("/metadata/labels/{}", key(random))}]),
        2 => json!([{"op": "test", "path": "/metadata/name", "value": pick(random, &NAMES)}]),
        _ => json!([{"op": "replace", "path": "/metadata/annotations", "value": {key(random): "2"}}]),
    }
}

fn delete(object: &str, random: &mut SmallRng) -> Step {
    let mut options = json!({"propagationPolicy": propagation(random)});
    if random.random_bool(0.2) {
        options["preconditions"] = json!({"uid": "00000000-0000-0000-0000-000000000000"});
    }
    if random.random_bool(0.2) {
        options["dryRun"] = json!(["All"]);
    }
    Step { request: Some(format!("DELETE {object}")), body: Some(options), ..Step::default() }
}

fn propagation(random: &mut SmallRng) -> &'static str {
    pick(random, &["Background", "Foreground", "Orphan"])
}

fn manager(random: &mut SmallRng) -> String {
    format!("?fieldManager={}", pick(random, &MANAGERS))
}

fn complete(kind: Kind, name: &str, random: &mut SmallRng) -> Value {
    let (version, type_name) = kind.type_members();
    let (member, content) = kind.content(random);
    let mut object =
        json!({"apiVersion": version, "kind": type_name, "metadata": {"name": name}, member: content});
    if random.random_bool(0.15) {
        object["metadata"]["finalizers"] = json!(["example.com/f"]);
    }
    object
}

#[test]
fn a_seed_always_gives_the_same_script() {
    for seed in 0..20 {
        let (first, second) = (script(seed), script(seed));
        assert_eq!(first.steps, second.steps);
        assert_eq!(first.steps.len(), STEPS + 1);
    }
    assert_ne!(script(1).steps, script(2).steps);
}
