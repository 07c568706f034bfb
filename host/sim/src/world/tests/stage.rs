//! A world with the guest of these tests and one actor, which creates and deletes ConfigMaps at rests.

use std::sync::Arc;

use pilothouse_controller::PluginName;
use pilothouse_model::ResourceType;
use serde_json::{Value, json};

use crate::Simulator;
use crate::actor::{Actor, ActorPoll, ActorWrite, ObjectView, Operation, PollMoment, WriteOutcome};
use crate::plan::{Deviation, Plan};
use crate::run::{Author, EventKind, RequestEvent, Run};
use crate::world::{CompiledPlugins, PluginFile, World, WorldOptions};

pub(super) const DESCRIPTOR: &str = r#"{"apiVersion":"pilothouse.dev/v1alpha1","kind":"Plugin","name":"guest","version":"1.0.0",
"watches":[{"name":"maps","apiVersion":"v1","kind":"ConfigMap","namespaces":["default"],"trigger":"self"}],
"writes":[{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"verbs":["create"]},
{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","update"]},
{"apiGroups":[""],"resources":["secrets"],"verbs":["create"]}]}"#;

pub(super) struct Stage {
    pub(super) world: World,
}

impl Stage {
    pub(super) fn new(steps: Vec<ActorWrite>) -> Self {
        Self::with_descriptor(steps, DESCRIPTOR)
    }

    pub(super) fn with_descriptor(steps: Vec<ActorWrite>, descriptor: &str) -> Self {
        Self::with_plugins(steps, plugins(descriptor))
    }

    /// A reload changes the guest to one that reads `latest` in place of `second`.
    pub(super) fn with_upgrade(steps: Vec<ActorWrite>) -> Self {
        let newer = include_str!("guest.wat").replace("/data/second", "/data/latest");
        let newer = wat::parse_str(newer).expect("a guest");
        Self::with_plugins(steps, compiled(DESCRIPTOR, Some(newer)))
    }

    pub(super) fn with_plugins(steps: Vec<ActorWrite>, plugins: CompiledPlugins) -> Self {
        let steps = Arc::new(steps);
        let options = WorldOptions {
            actors: Box::new(move |_| {
                let user: Box<dyn Actor> = Box::new(Script {
                    steps: Arc::clone(&steps),
                    next: 0,
                    is_early: false,
                    outcomes: Vec::new(),
                });
                vec![user]
            }),
            ..WorldOptions::default()
        };
        Self { world: World::new(plugins, options).expect("a world") }
    }

    /// The host of this world gives no guarantees about writes.
    pub(super) fn without_guarantees(mut self) -> Self {
        self.world.options.guarantees = false;
        self
    }

    pub(super) fn run(&mut self, deviations: Vec<Deviation>) -> Run {
        self.world.run(&Plan::new(1, deviations)).expect("a run")
    }
}

/// Compiles the guest with this descriptor.
pub(super) fn plugins(descriptor: &str) -> CompiledPlugins {
    compiled(descriptor, None)
}

fn compiled(descriptor: &str, upgrade: Option<Vec<u8>>) -> CompiledPlugins {
    let wasm = wat::parse_str(include_str!("guest.wat")).expect("a guest");
    let name = PluginName::of_file("guest.wasm".as_ref()).expect("a name");
    let config: Value = serde_json::from_str(descriptor).expect("JSON");
    let sidecar = json!({"config": config}).to_string();
    let file = PluginFile { name, wasm, upgrade, sidecar };
    CompiledPlugins::compile(vec![file]).expect("a plugin")
}

/// An actor named `user` that takes one step at each rest.
struct Script {
    steps: Arc<Vec<ActorWrite>>,
    next: usize,
    is_early: bool,
    outcomes: Vec<WriteOutcome>,
}

impl Actor for Script {
    fn name(&self) -> &str {
        "user"
    }

    fn poll(&mut self, _: &dyn ObjectView, moment: PollMoment) -> ActorPoll {
        match self.steps.get(self.next) {
            None => ActorPoll::Done,
            Some(step) if moment.at_rest || self.is_early => {
                self.is_early = false;
                self.next += 1;
                let number = u32::try_from(self.next).expect("few steps");
                ActorPoll::Write(Box::new(ActorWrite { step: number, ..step.clone() }))
            }
            Some(_) => ActorPoll::Wait { until: None, for_rest: true },
        }
    }

    fn written(&mut self, outcome: &WriteOutcome, _: u64) {
        assert!(outcome.status < 300, "{outcome:?}");
        self.outcomes.push(outcome.clone());
    }

    fn take_next_step(&mut self) {
        self.is_early = true;
    }

    fn unfinished(&self) -> Option<String> {
        let taken = self.outcomes.len();
        (taken < self.steps.len()).then(|| format!("step {}", taken + 1))
    }
}

fn maps() -> ResourceType {
    ResourceType {
        group: String::new(),
        version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        plural: "configmaps".to_owned(),
        namespaced: true,
    }
}

fn write(name: &str, operation: Operation) -> ActorWrite {
    ActorWrite {
        step: 0,
        resource: maps(),
        subresource: String::new(),
        namespace: "default".to_owned(),
        name: name.to_owned(),
        operation,
    }
}

/// A Lease as text.
pub(super) fn lease(name: &str) -> String {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": "default"},
    });
    lease.to_string()
}

/// Creates a ConfigMap for which the guest creates two Leases.
pub(super) fn create_map(name: &str) -> ActorWrite {
    let (first, second) = (lease(&format!("first-{name}")), lease(&format!("second-{name}")));
    create_map_with(name, &[("first", &first), ("second", &second)])
}

/// Creates a ConfigMap with this data.
pub(super) fn create_map_with(name: &str, data: &[(&str, &str)]) -> ActorWrite {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {},
    });
    for (field, value) in data {
        object["data"][*field] = json!(value);
    }
    write(name, Operation::Create(object))
}

/// Creates a ConfigMap whose owner does not exist, so that the garbage collector deletes it.
pub(super) fn create_orphan(name: &str) -> ActorWrite {
    let owner = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "11111111-2222-4333-8444-555555555555",
    });
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": [owner]},
    });
    write(name, Operation::Create(object))
}

/// A Secret as text, with this name or a generated one.
pub(super) fn secret(field: &str, name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {field: name, "namespace": "default"}})
        .to_string()
}

/// Changes the data of a ConfigMap.
pub(super) fn change_map(name: &str, field: &str, value: &str) -> ActorWrite {
    write(name, Operation::MergePatch(json!({"data": {field: value}})))
}

/// Deletes a ConfigMap.
pub(super) fn delete_map(name: &str) -> ActorWrite {
    write(name, Operation::Delete { propagation: None, uid: None })
}

/// Returns the requests of the guest.
pub(super) fn requests(run: &Run) -> Vec<&RequestEvent> {
    let requests = run.events.iter().filter_map(|event| match &event.kind {
        EventKind::Request(request) => Some(&**request),
        _ => None,
    });
    requests.filter(|request| matches!(request.author, Author::Plugin(_))).collect()
}

/// Returns what the guest created, in order.
pub(super) fn creates(run: &Run) -> Vec<String> {
    let requests = requests(run).into_iter();
    let created = requests.filter(|request| request.verb == "create" && request.changed);
    created.map(|request| format!("{}/{}", request.resource, request.name)).collect()
}

/// Returns the deliveries of ConfigMaps of the namespace `default`: time, change and key.
pub(super) fn deliveries(run: &Run) -> Vec<(u64, String, String)> {
    let deliveries = run.events.iter().filter_map(|event| match &event.kind {
        EventKind::Delivered { resource, change, key, .. } if resource == "configmaps" => {
            Some((event.time, change.clone(), key.clone()))
        }
        _ => None,
    });
    deliveries.collect()
}
