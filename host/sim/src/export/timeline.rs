//! The order of what a script does beside the plugin, derived from the recorded run.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use super::labels::Labels;
use super::path::Paths;
use crate::analysis::{RunView, is_record};
use crate::plan::{Deviation, Fault, Moment};
use crate::run::{Author, Event, EventKind, RequestEvent};
use crate::world::OTHER_CLIENT;

/// The longest time in milliseconds that the script waits for a write of the plugin that does not come.
const MAX_PATIENCE: u64 = 60_000;
/// The shortest one.
const MIN_PATIENCE: u64 = 6_000;
/// Virtual milliseconds in which nothing happened, after which the script waits until nothing is under way.
const PAUSE: u64 = 500;
/// The API groups whose objects the API server writes by itself.
const OF_SERVER: [&str; 2] = [".apiregistration.k8s.io", ".apiextensions.k8s.io"];

/// What the script does, and when.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    /// The objects that exist before the host starts.
    pub(super) setup: Vec<Write>,
    /// What happens afterwards, in order.
    pub(super) entries: Vec<Entry>,
    /// For each effective write of a plugin, how many entries come before it.
    pub(super) gates: Vec<usize>,
}

/// One thing that the script does.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    after: Condition,
    /// Whether the next entry follows before the host sees the effect of this one.
    together: bool,
    #[serde(flatten)]
    action: Action,
}

/// When an entry is due. The script goes on without `writes` if nothing has happened for the time of `patience`.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    /// How many effective writes of plugins come before.
    writes: usize,
    /// Whether nothing may be under way.
    rest: bool,
    /// Whether the host must have started its watches.
    ready: bool,
    /// Milliseconds.
    patience: u64,
    /// A request that must have been sent before: verb, resource, occurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<(String, String, u32)>,
    /// A watch event that must have been sent before: resource, occurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<(String, u32)>,
}

/// What an entry does.
#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
enum Action {
    /// A write of an actor.
    Write(Write),
    /// A write of a built-in controller, which the script waits for or carries out itself.
    Controller(Write),
    /// The host restarts.
    Restart { past: Vec<(String, u32)> },
    /// The plugin is reloaded.
    Reload,
    /// A watch that was held back delivers its events.
    Release { resource: String },
    /// A watch that has ended may be followed by a list.
    Relist { resource: String },
}

/// A request of someone beside the plugin.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Write {
    who: String,
    method: &'static str,
    path: String,
    content_type: &'static str,
    #[serde(skip_serializing_if = "Value::is_null")]
    body: Value,
    /// The label of the object.
    object: String,
}

impl Timeline {
    /// Derives the timeline of a run up to the event with the index `end`.
    ///
    /// # Errors
    /// Returns what cannot be done outside the simulation.
    pub(super) fn of(view: &RunView<'_>, labels: &Labels, paths: &Paths, end: usize) -> Result<Self, String> {
        let mut builder = Builder {
            view,
            labels,
            paths,
            timeline: Self::default(),
            writes: 0,
            rested: false,
            ready: false,
            is_fresh: false,
            last_time: 0,
            previous_time: 0,
            held: BTreeSet::new(),
            dropped: BTreeSet::new(),
            take_at: None,
            delayed: Vec::new(),
        };
        for event in view.run.events.iter().take(end.saturating_add(1)) {
            builder.add(event)?;
        }
        Ok(builder.timeline)
    }
}

struct Builder<'a> {
    view: &'a RunView<'a>,
    labels: &'a Labels,
    paths: &'a Paths,
    timeline: Timeline,
    writes: usize,
    /// Whether the world was at rest just before.
    rested: bool,
    /// Whether this host has listed something.
    ready: bool,
    /// Whether the host has seen nothing since the last entry.
    is_fresh: bool,
    /// When the last entry or write was.
    last_time: u64,
    /// When the last event was.
    previous_time: u64,
    held: BTreeSet<String>,
    dropped: BTreeSet<String>,
    /// The moment at which an actor was told to take a step early, or which must have come because a request is late from then on.
    take_at: Option<Moment>,
    /// The moments of requests that are late and have not reached the server.
    delayed: Vec<Moment>,
}

impl Builder<'_> {
    fn add(&mut self, event: &Event) -> Result<(), String> {
        let time = event.time;
        match &event.kind {
            EventKind::Request(request) => self.request(time, event.host, request)?,
            EventKind::Http { .. } => {
                return Err(
                    "the plugin sends HTTP requests to services that exist only in the simulation".to_owned()
                );
            }
            EventKind::HostStarted { past } => {
                (self.ready, self.is_fresh) = (false, false);
                self.held = past.iter().map(|(resource, _)| resource.clone()).collect();
                self.dropped.clear();
            }
            EventKind::Delivered { resource, change, .. } => {
                let is_listed = change == "LISTED";
                if is_listed && self.dropped.remove(resource) {
                    self.entry(time, true, Action::Relist { resource: resource.clone() });
                } else if !is_listed && self.held.remove(resource) {
                    self.entry(time, true, Action::Release { resource: resource.clone() });
                }
                (self.ready, self.is_fresh, self.rested) = (true, false, false);
            }
            EventKind::Rest { .. } => {
                self.catch_up(time);
                (self.ready, self.rested) = (true, true);
            }
            EventKind::Deviated { deviation, .. } => self.deviation(time, deviation),
            _ => {}
        }
        self.previous_time = time;
        Ok(())
    }

    fn request(&mut self, time: u64, host: u32, request: &RequestEvent) -> Result<(), String> {
        match &request.author {
            Author::Plugin(_) => {
                (self.is_fresh, self.rested) = (false, false);
                self.arrived(request);
                if request.is_effective() {
                    self.writes += 1;
                    self.timeline.gates.push(self.timeline.entries.len());
                    self.last_time = time;
                }
            }
            Author::Actor(name) if !request.changed || name == OTHER_CLIENT => {}
            Author::Actor(name) => {
                let write = self.write(name, request)?;
                // Before the first host, nobody but the set-up writes.
                if host == 0 {
                    self.timeline.setup.push(write);
                } else {
                    let rested = self.rested;
                    self.entry(time, rested, Action::Write(write));
                }
            }
            Author::Controller if host > 0 && request.changed && !is_of_server(&request.resource) => {
                let write = self.controller_write(request)?;
                self.entry(time, false, Action::Controller(write));
            }
            Author::Controller | Author::Host => {}
        }
        Ok(())
    }

    /// Forgets that a request is late, because it has reached the server.
    fn arrived(&mut self, request: &RequestEvent) {
        let is_it = |moment: &Moment| match moment {
            Moment::Request { verb, resource, .. } => {
                request.verb == *verb && request.resource_path() == *resource
            }
            _ => false,
        };
        if let Some(position) = self.delayed.iter().position(is_it) {
            let arrived = self.delayed.remove(position);
            self.take_at.take_if(|moment| *moment == arrived);
        }
    }

    /// Adds the ends of delays after which nothing was delivered. There is no rest before.
    fn catch_up(&mut self, time: u64) {
        for resource in std::mem::take(&mut self.dropped) {
            self.entry(time, true, Action::Relist { resource });
        }
        for resource in std::mem::take(&mut self.held) {
            self.entry(time, true, Action::Release { resource });
        }
    }

    fn deviation(&mut self, time: u64, deviation: &Deviation) {
        let is_at_proxy = matches!(deviation.at, Moment::Request { .. } | Moment::Event { .. });
        match (&deviation.fault, &deviation.at) {
            (Fault::HoldWatch(_), Moment::Event { resource, .. }) => {
                self.held.insert(resource.clone());
            }
            (Fault::DropWatch(_), Moment::Event { resource, .. }) => {
                self.dropped.insert(resource.clone());
            }
            (Fault::TakeStep { .. }, at) => self.take_at = Some(at.clone()),
            (Fault::DelayRequest(_), at) => {
                self.take_at = Some(at.clone());
                self.delayed.push(at.clone());
            }
            _ if is_at_proxy => {}
            (Fault::Restart { past }, _) => {
                let rested = self.rested;
                self.entry(time, rested, Action::Restart { past: past.clone() });
            }
            (Fault::CrashBefore | Fault::CrashAfter, _) => {
                let rested = self.rested;
                self.entry(time, rested, Action::Restart { past: Vec::new() });
            }
            // A reload queues all keys, too.
            (Fault::Reload | Fault::RequeueAll, _) => {
                let rested = self.rested;
                self.entry(time, rested, Action::Reload);
            }
            _ => {}
        }
    }

    fn entry(&mut self, time: u64, rest: bool, action: Action) {
        let is_late = time.saturating_sub(self.previous_time) >= PAUSE;
        // While a request is under way, the world is not at rest.
        let rest = rest || (self.ready && is_late && self.delayed.is_empty());
        let is_write = |action: &Action| matches!(action, Action::Write(_) | Action::Controller(_));
        if self.is_fresh
            && !rest
            && is_write(&action)
            && let Some(last) = self.timeline.entries.last_mut()
            && is_write(&last.action)
        {
            last.together = true;
        }
        let patience = time.saturating_sub(self.last_time).clamp(MIN_PATIENCE, MAX_PATIENCE);
        let mut after =
            Condition { writes: self.writes, rest, ready: self.ready, patience, ..Condition::default() };
        if is_write(&action) {
            match self.take_at.take() {
                Some(Moment::Request { verb, resource, occurrence }) => {
                    after.request = Some((verb, resource, occurrence));
                }
                Some(Moment::Event { resource, occurrence }) => after.event = Some((resource, occurrence)),
                _ => {}
            }
        }
        self.timeline.entries.push(Entry { after, together: false, action });
        (self.is_fresh, self.rested, self.last_time) = (true, false, time);
    }

    fn write(&self, who: &str, request: &RequestEvent) -> Result<Write, String> {
        let body = request.body.as_ref().map_or(Value::Null, |body| self.labels.replace(body));
        let is_apply = body.get("apiVersion").is_some() && body.get("kind").is_some();
        let (method, content_type) = match request.verb.as_str() {
            "create" => ("POST", "application/json"),
            "update" => ("PUT", "application/json"),
            "delete" => ("DELETE", "application/json"),
            "patch" if is_apply => ("PATCH", "application/apply-patch+yaml"),
            "patch" => ("PATCH", "application/merge-patch+json"),
            verb => return Err(format!("{who} sends a {verb}, which the script cannot repeat")),
        };
        let force = if content_type.contains("apply") { "&force=true" } else { "" };
        let query = match method {
            "DELETE" => String::new(),
            _ => format!("?fieldManager={}{force}", who.replace(' ', "-")),
        };
        let path = self.path(request, method == "POST" && request.subresource.is_empty())?;
        Ok(Write {
            who: who.to_owned(),
            method,
            path: format!("{path}{query}"),
            content_type,
            body,
            object: self.labels.of_request(request, &self.view.names),
        })
    }

    /// Returns the write by which the script stands in for a built-in controller.
    fn controller_write(&self, request: &RequestEvent) -> Result<Write, String> {
        let uid = |object: &Value| self.labels.replace(&object["metadata"]["uid"]);
        let (method, content_type, body) = match (&request.before, &request.after) {
            (Some(before), None) => {
                ("DELETE", "application/json", json!({"preconditions": {"uid": uid(before)}}))
            }
            (Some(before), Some(after)) if differ_in_metadata_only(before, after) => {
                let finalizers = after["metadata"]["finalizers"].clone();
                let deleted = &after["metadata"]["deletionTimestamp"];
                if before["metadata"]["deletionTimestamp"].is_null() && !deleted.is_null() {
                    ("DELETE", "application/json", json!({"preconditions": {"uid": uid(before)}}))
                } else {
                    let body = json!({"metadata": {"uid": uid(before), "finalizers": finalizers}});
                    ("PATCH", "application/merge-patch+json", body)
                }
            }
            _ => {
                let object = request.object_id();
                return Err(format!(
                    "a built-in controller of the simulation writes {object}; only garbage collection can be exported"
                ));
            }
        };
        Ok(Write {
            who: "a built-in controller".to_owned(),
            method,
            path: self.path(request, false)?,
            content_type,
            body,
            object: self.labels.of_request(request, &self.view.names),
        })
    }

    fn path(&self, request: &RequestEvent, is_collection: bool) -> Result<String, String> {
        let name = if is_collection { String::new() } else { self.labels.replace_text(&request.name) };
        let path = self.paths.path(&request.resource, &request.namespace, &name);
        let path = path.ok_or_else(|| format!("the API version of {} is unknown", request.resource))?;
        Ok(if request.subresource.is_empty() { path } else { format!("{path}/{}", request.subresource) })
    }
}

/// Whether the API server writes objects of the resource by itself.
pub(super) fn is_of_server(resource: &str) -> bool {
    is_record(resource) || OF_SERVER.iter().any(|group| resource.ends_with(group))
}

fn differ_in_metadata_only(before: &Value, after: &Value) -> bool {
    let without = |object: &Value| {
        let mut object = object.clone();
        if let Some(members) = object.as_object_mut() {
            members.remove("metadata");
        }
        object
    };
    without(before) == without(after)
}
