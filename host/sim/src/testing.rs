//! Scripted runs for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilothouse_controller::stable_hash::{self, fnv1a};
use serde_json::{Value, json};

use crate::analysis::{ObjectId, RunView};
use crate::oracle::{Judgement, Oracle, ReferenceRuns};
use crate::plan::{ActorStep, Deviation, Fault, Moment, Plan};
use crate::run::{Author, End, Event, EventKind, ReconcileResult, RequestEvent, Run, StoredObject};

/// Judges a run as the driver does.
pub(crate) fn judge(oracle: &dyn Oracle, run: &Run, reference: Option<&ReferenceRuns>) -> Judgement {
    let random = reference.map(|reference| reference.random().clone()).unwrap_or_default();
    oracle.judge(&RunView::new(run, &random), reference)
}

/// Returns the address for `resource` and `namespace/name` or `name`.
pub(crate) fn id(resource: &str, key: &str) -> ObjectId {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    ObjectId { resource: resource.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

/// Writes down a run event by event. It keeps a store, so that each write knows the object before it.
pub(crate) struct RunBuilder {
    plan: Plan,
    events: Vec<Event>,
    time: u64,
    host: u32,
    reconcile: u64,
    is_reconciling: bool,
    version: u64,
    rests: u32,
    store: BTreeMap<ObjectId, Value>,
    /// The actor and the number of its step that comes next.
    step: Option<ActorStep>,
    steps: Vec<ActorStep>,
}

impl RunBuilder {
    pub(crate) fn new() -> Self {
        let mut run = Self {
            plan: Plan::default(),
            events: Vec::new(),
            time: 0,
            host: 1,
            reconcile: 0,
            is_reconciling: false,
            version: 100,
            rests: 0,
            store: BTreeMap::new(),
            step: None,
            steps: Vec::new(),
        };
        run.push(EventKind::HostStarted { past: Vec::new() });
        run
    }

    pub(crate) fn push(&mut self, kind: EventKind) {
        self.events.push(Event { time: self.time, host: self.host, kind });
    }

    pub(crate) fn seed(&mut self, seed: u64) {
        self.plan.seed = seed;
    }

    pub(crate) fn at(&mut self, time: u64) {
        self.time = time;
    }

    pub(crate) fn start(&mut self, key: &str) {
        self.start_for(key, "created");
    }

    pub(crate) fn start_for(&mut self, key: &str, reason: &str) {
        self.reconcile += 1;
        self.is_reconciling = true;
        self.push(EventKind::ReconcileStarted {
            reconcile: self.reconcile,
            plugin: "plugin".to_owned(),
            watch: "foos".to_owned(),
            key: key.to_owned(),
            reasons: vec![reason.to_owned()],
            attempt: 0,
            is_replacement: false,
        });
    }

    /// The reconcile that began last runs in an instance that replaces another one.
    pub(crate) fn in_new_instance(&mut self) {
        if let Some(EventKind::ReconcileStarted { is_replacement, .. }) =
            self.events.last_mut().map(|event| &mut event.kind)
        {
            *is_replacement = true;
        }
    }

    pub(crate) fn end(&mut self, result: ReconcileResult) {
        self.is_reconciling = false;
        self.push(EventKind::ReconcileEnded { reconcile: self.reconcile, result });
    }

    pub(crate) fn restart(&mut self, past: &[(&str, u32)]) {
        self.is_reconciling = false;
        self.push(EventKind::HostEnded);
        self.host += 1;
        let past = past.iter().map(|(resource, age)| ((*resource).to_owned(), *age)).collect();
        self.push(EventKind::HostStarted { past });
    }

    pub(crate) fn deviate(&mut self, at: Moment, fault: Fault) {
        let deviation = Deviation { at, fault };
        self.push(EventKind::Deviated { index: self.plan.deviations.len(), deviation: deviation.clone() });
        self.plan.deviations.push(deviation);
    }

    pub(crate) fn rest(&mut self) {
        self.rests += 1;
        self.push(EventKind::Rest { occurrence: self.rests });
    }

    pub(crate) fn faults_over(&mut self) {
        self.push(EventKind::FaultsOver);
    }

    /// Delivers the object's current state, or its deletion.
    pub(crate) fn deliver(&mut self, resource: &str, key: &str, change: &str) {
        let object = self.store.get(&id(resource, key));
        let uid = object.and_then(|object| object["metadata"]["uid"].as_str()).unwrap_or_default().to_owned();
        self.deliver_uid(resource, key, change, &uid);
    }

    pub(crate) fn deliver_uid(&mut self, resource: &str, key: &str, change: &str, uid: &str) {
        self.push(EventKind::Delivered {
            resource: resource.to_owned(),
            change: change.to_owned(),
            key: key.to_owned(),
            uid: uid.to_owned(),
            version: self.version,
        });
    }

    pub(crate) fn uid(&self, resource: &str, key: &str) -> String {
        self.store[&id(resource, key)]["metadata"]["uid"].as_str().expect("a UID").to_owned()
    }

    /// The next write of the actor is its step of this number.
    pub(crate) fn step(&mut self, actor: &str, step: u32) {
        self.step = Some(ActorStep { actor: actor.to_owned(), step });
    }

    pub(crate) fn actor(&mut self, name: &str, verb: &str, resource: &str, key: &str, after: Option<Value>) {
        self.request(Author::Actor(name.to_owned()), verb, resource, key, after);
    }

    pub(crate) fn controller(&mut self, verb: &str, resource: &str, key: &str, after: Option<Value>) {
        self.request(Author::Controller, verb, resource, key, after);
    }

    /// A write of the plugin that succeeds. `after` is `None` if the object is gone.
    pub(crate) fn write(
        &mut self,
        verb: &str,
        resource: &str,
        key: &str,
        after: Option<Value>,
    ) -> &mut RequestEvent {
        self.request(Author::Plugin("plugin".to_owned()), verb, resource, key, after)
    }

    /// A request of the plugin without effect.
    pub(crate) fn ask(&mut self, verb: &str, resource: &str, key: &str, status: u16) -> &mut RequestEvent {
        let id = id(resource, key);
        let reconcile = self.is_reconciling.then_some(self.reconcile);
        let author = Author::Plugin("plugin".to_owned());
        self.push_request(RequestEvent {
            author,
            step: None,
            reconcile,
            verb: verb.to_owned(),
            resource: id.resource,
            subresource: String::new(),
            namespace: id.namespace,
            name: id.name,
            body: None,
            status: Some(status),
            reason: String::new(),
            answered: true,
            before: None,
            after: None,
            changed: false,
            cached_uid: None,
        })
    }

    fn request(
        &mut self,
        author: Author,
        verb: &str,
        resource: &str,
        key: &str,
        after: Option<Value>,
    ) -> &mut RequestEvent {
        let id = id(resource, key);
        self.version += 1;
        let before = self.store.remove(&id);
        let after = after.map(|after| self.stored(&id, after, before.as_ref()));
        if let Some(after) = &after {
            self.store.insert(id.clone(), after.clone());
        }
        let is_plugin = matches!(author, Author::Plugin(_));
        let reconcile = (is_plugin && self.is_reconciling).then_some(self.reconcile);
        let is_actor = |step: &ActorStep| author == Author::Actor(step.actor.clone());
        let step = self.step.take_if(|step| is_actor(step));
        self.steps.extend(step.clone());
        self.push_request(RequestEvent {
            author,
            step: step.map(|step| step.step),
            reconcile,
            verb: verb.to_owned(),
            resource: id.resource,
            subresource: String::new(),
            namespace: id.namespace,
            name: id.name,
            body: after.clone(),
            status: Some(if before.is_none() { 201 } else { 200 }),
            reason: String::new(),
            answered: true,
            changed: before != after,
            before: before.map(Arc::new),
            after: after.map(Arc::new),
            cached_uid: None,
        })
    }

    /// Fills in the metadata as a server does.
    fn stored(&self, id: &ObjectId, mut object: Value, before: Option<&Value>) -> Value {
        let uid = before.map_or_else(
            || json!(format!("{:08x}-0000-4000-8000-{:012x}", self.plan.seed + self.version, self.version)),
            |before| before["metadata"]["uid"].clone(),
        );
        object["metadata"]["uid"] = uid;
        object["metadata"]["name"] = json!(id.name);
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        object
    }

    fn push_request(&mut self, request: RequestEvent) -> &mut RequestEvent {
        self.push(EventKind::Request(Box::new(request)));
        match &mut self.events.last_mut().expect("the request").kind {
            EventKind::Request(request) => request,
            _ => unreachable!("a request was pushed"),
        }
    }

    pub(crate) fn finish(self) -> Run {
        self.finish_with(End::AtRest)
    }

    pub(crate) fn finish_with(self, end: End) -> Run {
        let objects = self
            .store
            .iter()
            .map(|(id, object)| StoredObject {
                resource: id.resource.clone(),
                namespace: id.namespace.clone(),
                name: id.name.clone(),
                object: Arc::new(object.clone()),
                is_initial: false,
            })
            .collect();
        let mut hash = stable_hash::EMPTY;
        let mut hashes = Vec::new();
        for event in &self.events {
            hash = fnv1a(hash, format!("{event:?}").as_bytes());
            hashes.push(hash);
        }
        Run {
            plan: self.plan,
            events: self.events,
            end,
            objects,
            skipped: Vec::new(),
            hash,
            hashes,
            draws: 0,
            steps: self.steps,
            unfinished: Vec::new(),
            not_simulated: BTreeSet::new(),
        }
    }
}
