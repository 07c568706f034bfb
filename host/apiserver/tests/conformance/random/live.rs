//! Random scripts of more operations than the recorded ones have. No answers of kube-apiserver are recorded for them, so they run only beside a
//! running one.
//!
//! A script begins with variables that its steps replace: `generated` (the name of an object with a generated name), `version` and `start`
//! (resourceVersions), `object` (what a client has read) and `continue` (the token of a page). A step works with the first value, too, so that
//! a script can be shrunk.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::{GROUP, Kind, NAMES, complete, manager, pick};
use crate::case::{Case, Step};

/// The number of operations of a script, each of which has one to four steps.
const OPERATIONS: usize = 10;
/// The kinds of objects.
const KINDS: [Kind; 4] = [Kind::ConfigMap, Kind::Deployment, Kind::Service, Kind::Custom];
/// The name of the object that a client reads and writes back.
const NO_OP: &str = "n";

/// Returns the script of a seed.
pub(crate) fn script(seed: u64) -> Case {
    let mut random = SmallRng::seed_from_u64(seed);
    let kind = pick(&mut random, &KINDS);
    let mut steps = vec![saving(get(kind.path()), "start", "/metadata/resourceVersion")];
    for index in 0..OPERATIONS {
        steps.extend(operation(kind, index, &mut random));
    }
    steps.push(get(kind.path()));
    steps.push(get(&format!("{}?watch=true&timeoutSeconds=1&resourceVersion=${{start}}", kind.path())));
    let mut case = Case::new(GROUP, &format!("live-{seed}"), steps);
    for (name, value) in [
        ("generated", json!("none")),
        ("version", json!("1")),
        ("start", json!("")),
        ("object", json!({})),
        ("continue", json!("")),
    ] {
        case.variables.insert(name.to_owned(), value);
    }
    if kind == Kind::Custom {
        case.setup = definition();
    }
    case
}

/// Returns the steps that create the custom resource and wait until it is served.
fn definition() -> Vec<Step> {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer", "minimum": 0},
            "text": {"type": "string", "default": "x"},
            "list": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "value": {"type": "integer"},
                }},
            },
        }},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
    }});
    let subresources = json!({
        "status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    });
    let version = json!({
        "name": "v1", "served": true, "storage": true, "subresources": subresources,
        "schema": {"openAPIV3Schema": schema},
    });
    let names = json!({"plural": "things", "kind": "Thing"});
    let spec = json!({
        "group": "${ns}.example.com", "scope": "Namespaced", "names": names, "versions": [version],
    });
    let body = json!({"metadata": {"name": "things.${ns}.example.com"}, "spec": spec});
    let create = with_body("POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions".into(), body);
    vec![create, Step { until: Some(200), ..get(Kind::Custom.path()) }]
}

fn operation(kind: Kind, index: usize, random: &mut SmallRng) -> Vec<Step> {
    match random.random_range(0..16) {
        0..5 => vec![plain(kind, random)],
        5 | 6 => generate_name(kind, index, random),
        7 => vec![status(kind, random)],
        8 | 9 => scale(kind, random),
        10 => pages(kind, random),
        11 | 12 => versions(kind, random),
        13 | 14 => no_op(kind, random),
        _ => vec![saving(get(kind.path()), "start", "/metadata/resourceVersion")],
    }
}

/// Returns an operation of the recorded scripts. Custom resources have no strategic merge patch.
fn plain(kind: Kind, random: &mut SmallRng) -> Step {
    let mut step = super::step(kind, random);
    if kind == Kind::Custom && step.content_type.as_deref() == Some("strategic") {
        step.content_type = Some("merge".into());
    }
    step
}

/// Creates an object with a generated name, and reads, patches or deletes it. The prefix differs in each operation, so that lists have the same
/// order on both servers.
fn generate_name(kind: Kind, index: usize, random: &mut SmallRng) -> Vec<Step> {
    let mut body = complete(kind, "", random);
    body["metadata"] = json!({"generateName": format!("g{index}-")});
    let create = with_body(format!("POST {}{}", kind.path(), manager(random)), body);
    let object = format!("{}/${{generated}}", kind.path());
    let next = match random.random_range(0..3) {
        0 => get(&object),
        1 => super::delete(&object, random),
        _ => Step {
            content_type: Some("merge".into()),
            ..with_body(format!("PATCH {object}"), json!({"metadata": {"labels": {"l": "1"}}}))
        },
    };
    vec![saving(create, "generated", "/metadata/name"), next]
}

/// Writes the status through the subresource, with other changes that it ignores.
fn status(kind: Kind, random: &mut SmallRng) -> Step {
    let object = format!("{}/{}/status", kind.path(), pick(random, &NAMES));
    let number = random.random_range(0..3);
    let status = match kind {
        Kind::Service => json!({"conditions": [{
            "type": "C", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}),
        _ => json!({"replicas": number}),
    };
    match random.random_range(0..3) {
        0 => get(&object),
        1 => Step {
            content_type: Some("merge".into()),
            ..with_body(
                format!("PATCH {object}{}", manager(random)),
                json!({"status": status, "metadata": {"labels": {"by": "status"}}}),
            )
        },
        _ => {
            let mut body = complete(kind, pick(random, &NAMES), random);
            body["status"] = status;
            with_body(format!("PUT {object}{}", manager(random)), body)
        }
    }
}

/// Reads the replicas and changes them through the subresource.
fn scale(kind: Kind, random: &mut SmallRng) -> Vec<Step> {
    let name = pick(random, &NAMES);
    let object = format!("{}/{name}/scale", kind.path());
    let replicas = random.random_range(-1..4);
    let body = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name, "namespace": "${ns}"},
        "spec": {"replicas": replicas},
    });
    let write = match random.random_range(0..2) {
        0 => with_body(format!("PUT {object}{}", manager(random)), body),
        _ => Step {
            content_type: Some("merge".into()),
            ..with_body(format!("PATCH {object}{}", manager(random)), json!({"spec": {"replicas": replicas}}))
        },
    };
    vec![write, get(&object)]
}

/// Lists two objects at least in pages of one object each.
fn pages(kind: Kind, random: &mut SmallRng) -> Vec<Step> {
    let create = |name: &str, random: &mut SmallRng| {
        with_body(format!("POST {}", kind.path()), complete(kind, name, random))
    };
    let first = get(&format!("{}?limit=1", kind.path()));
    vec![
        create("p1", random),
        create("p2", random),
        saving(first, "continue", "/metadata/continue"),
        get(&format!("{}?limit=1&continue=${{continue}}", kind.path())),
    ]
}

/// Reads an object and makes a write conditional on its version, perhaps after another write.
fn versions(kind: Kind, random: &mut SmallRng) -> Vec<Step> {
    let name = pick(random, &NAMES);
    let object = format!("{}/{name}", kind.path());
    let mut steps = vec![saving(get(&object), "version", "/metadata/resourceVersion")];
    if random.random_bool(0.5) {
        steps.push(plain(kind, random));
    }
    steps.push(match random.random_range(0..3) {
        0 => {
            let mut body = complete(kind, name, random);
            body["metadata"]["resourceVersion"] = json!("${version}");
            with_body(format!("PUT {object}{}", manager(random)), body)
        }
        1 => Step {
            content_type: Some("merge".into()),
            ..with_body(
                format!("PATCH {object}"),
                json!({"metadata": {"resourceVersion": "${version}", "labels": {"v": "1"}}}),
            )
        },
        _ => {
            with_body(format!("DELETE {object}"), json!({"preconditions": {"resourceVersion": "${version}"}}))
        }
    });
    steps
}

/// Reads an object and writes back what it has read.
fn no_op(kind: Kind, random: &mut SmallRng) -> Vec<Step> {
    let object = format!("{}/{NO_OP}", kind.path());
    let create = with_body(format!("POST {}", kind.path()), complete(kind, NO_OP, random));
    let write = match random.random_range(0..3) {
        0 => with_body(format!("PUT {object}?fieldManager=one"), json!("${object}")),
        1 => Step {
            content_type: Some("merge".into()),
            ..with_body(format!("PATCH {object}?fieldManager=one"), json!({}))
        },
        _ => Step {
            content_type: Some("merge".into()),
            ..with_body(format!("PATCH {object}?fieldManager=one"), json!({"metadata": {"labels": null}}))
        },
    };
    vec![create, saving(get(&object), "object", ""), write]
}

fn get(path: &str) -> Step {
    Step { request: Some(format!("GET {path}")), ..Step::default() }
}

fn with_body(request: String, body: Value) -> Step {
    Step { request: Some(request), body: Some(body), ..Step::default() }
}

/// Returns the step with a variable that gets a value of its answer.
fn saving(mut step: Step, variable: &str, pointer: &str) -> Step {
    step.save.insert(variable.to_owned(), pointer.to_owned());
    step
}

#[test]
fn live_scripts_have_every_operation_and_depend_on_the_seed_only() {
    let mut text = String::new();
    for seed in 0..60 {
        let (first, second) = (script(seed), script(seed));
        assert_eq!(first.steps, second.steps);
        text += &serde_json::to_string(&first.steps).expect("JSON");
    }
    for part in [
        "generateName",
        "/status",
        "/scale",
        "continue=${continue}",
        "preconditions",
        "\"${object}\"",
        "${custom}/things",
        "watch=true",
    ] {
        assert!(text.contains(part), "no script has {part}");
    }
}
