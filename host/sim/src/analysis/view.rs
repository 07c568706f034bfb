//! A run with its reconciles and faults found.

use std::collections::{BTreeMap, BTreeSet};

use super::{CanonicalEnd, Names, ObjectId, RandomPrefixes};
use crate::plan::{Deviation, Fault};
use crate::run::{Author, Event, EventKind, ReconcileResult, RequestEvent, Run};

/// A reconcile of a run.
#[derive(Clone, Debug)]
pub struct Reconcile<'a> {
    /// The plugin's name.
    pub plugin: &'a str,
    /// The target watch.
    pub watch: &'a str,
    /// The key.
    pub key: &'a str,
    /// The reasons.
    pub reasons: &'a [String],
    /// Whether its instance has replaced another one.
    pub is_replacement: bool,
    /// The index of the event with which it started.
    pub start: usize,
    /// The index of the event with which it ended, and the result. `None` if it did not end.
    pub end: Option<(usize, &'a ReconcileResult)>,
    /// The indexes of its requests.
    pub requests: Vec<usize>,
}

/// A run, with what several oracles need found once.
pub struct RunView<'a> {
    /// The run.
    pub run: &'a Run,
    /// The canonical names of the run.
    pub names: Names,
    /// The reconciles by their number.
    pub reconciles: BTreeMap<u64, Reconcile<'a>>,
    /// The index of [`EventKind::FaultsOver`], or the number of events.
    pub faults_over: usize,
    /// The deviations that took effect, with the index of the event.
    pub deviations: Vec<(usize, &'a Deviation)>,
}

impl<'a> RunView<'a> {
    /// Prepares a run. `random` are the prefixes of names that the plugin draws at random.
    #[must_use]
    pub fn new(run: &'a Run, random: &RandomPrefixes) -> Self {
        let mut reconciles = BTreeMap::new();
        let mut faults_over = run.events.len();
        let mut deviations = Vec::new();
        for (index, event) in run.events.iter().enumerate() {
            match &event.kind {
                EventKind::ReconcileStarted {
                    reconcile,
                    plugin,
                    watch,
                    key,
                    reasons,
                    is_replacement,
                    ..
                } => {
                    let started = Reconcile {
                        plugin,
                        watch,
                        key,
                        reasons,
                        is_replacement: *is_replacement,
                        start: index,
                        end: None,
                        requests: Vec::new(),
                    };
                    reconciles.insert(*reconcile, started);
                }
                EventKind::ReconcileEnded { reconcile, result } => {
                    if let Some(reconcile) = reconciles.get_mut(reconcile) {
                        reconcile.end = Some((index, result));
                    }
                }
                EventKind::Request(request) => {
                    if let Some(reconcile) =
                        request.reconcile.and_then(|reconcile| reconciles.get_mut(&reconcile))
                    {
                        reconcile.requests.push(index);
                    }
                }
                EventKind::FaultsOver => faults_over = faults_over.min(index),
                EventKind::Deviated { deviation, .. } => deviations.push((index, deviation)),
                _ => {}
            }
        }
        Self { run, names: Names::of(run, random), reconciles, faults_over, deviations }
    }

    /// Returns the requests with their indexes.
    pub fn requests(&self) -> impl Iterator<Item = (usize, &'a Event, &'a RequestEvent)> {
        self.run.events.iter().enumerate().filter_map(|(index, event)| match &event.kind {
            EventKind::Request(request) => Some((index, event, &**request)),
            _ => None,
        })
    }

    /// Returns the writes of plugins that changed something, with their indexes.
    pub fn effective_writes(&self) -> impl Iterator<Item = (usize, &'a RequestEvent)> {
        self.requests()
            .filter(|(_, _, request)| request.is_by_plugin() && request.is_effective())
            .map(|(index, _, request)| (index, request))
    }

    /// Returns the request at an index.
    #[must_use]
    pub fn request(&self, index: usize) -> Option<&'a RequestEvent> {
        match &self.run.events.get(index)?.kind {
            EventKind::Request(request) => Some(request),
            _ => None,
        }
    }

    /// Returns the canonical end.
    #[must_use]
    pub fn canonical_end(&self) -> CanonicalEnd {
        CanonicalEnd::of(self.run, &self.names)
    }

    /// Whether all deviations that took effect are of the given form.
    pub fn has_only(&self, accept: impl Fn(&Fault) -> bool) -> bool {
        self.deviations.iter().all(|(_, deviation)| accept(&deviation.fault))
    }

    /// Whether a deviation of the given form took effect between two events.
    pub fn has_between(&self, start: usize, end: usize, accept: impl Fn(&Fault) -> bool) -> bool {
        self.deviations
            .iter()
            .any(|(index, deviation)| (start..=end).contains(index) && accept(&deviation.fault))
    }

    /// Returns the actors with steps: those that write only at rests. An actor that reacts to what others write has none.
    #[must_use]
    pub fn scripted_actors(&self) -> BTreeSet<String> {
        let (mut scripted, mut reacting) = (BTreeSet::new(), BTreeSet::new());
        let mut at_rest = true;
        for event in &self.run.events {
            match &event.kind {
                EventKind::Rest { .. } => at_rest = true,
                EventKind::Request(request) => match &request.author {
                    Author::Actor(name) if at_rest => {
                        scripted.insert(name.clone());
                    }
                    Author::Actor(name) => {
                        reacting.insert(name.clone());
                    }
                    _ => at_rest = false,
                },
                EventKind::ReconcileStarted { .. } => at_rest = false,
                _ => {}
            }
        }
        scripted.difference(&reacting).cloned().collect()
    }

    /// Whether the plugin completed a reconcile of each state that an actor gave to a watched object, before it saw the next state.
    #[must_use]
    pub fn reconciled_every_state(&self) -> bool {
        let deliveries = self.run.events.iter().enumerate().filter_map(|(index, event)| match &event.kind {
            EventKind::Delivered { resource, key, version, .. } => Some((index, resource, key, *version)),
            _ => None,
        });
        let mut watched = BTreeSet::new();
        let mut by_object: BTreeMap<(&str, &str), Vec<(usize, u64)>> = BTreeMap::new();
        for (index, resource, key, version) in deliveries {
            watched.insert(resource.as_str());
            by_object.entry((resource, key)).or_default().push((index, version));
        }
        let is_done =
            |result: &ReconcileResult| matches!(result, ReconcileResult::Ok | ReconcileResult::Requeue(_));
        self.requests().all(|(_, event, request)| {
            let Some(after) = request.after.as_ref().filter(|_| request.changed && event.host > 0) else {
                return true;
            };
            if !matches!(request.author, Author::Actor(_)) || !watched.contains(request.resource.as_str()) {
                return true;
            }
            let version = after["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
            let id = request.object_id();
            let key = if id.namespace.is_empty() { id.name } else { format!("{}/{}", id.namespace, id.name) };
            let Some(delivered) = by_object.get(&(request.resource.as_str(), key.as_str())) else {
                return false;
            };
            let Some(at) = delivered.iter().position(|(_, seen)| Some(*seen) == version) else {
                return false;
            };
            let Some((next, _)) = delivered[at..].iter().find(|(_, seen)| Some(*seen) != version) else {
                return true;
            };
            self.reconciles.values().any(|reconcile| {
                (delivered[at].0..*next).contains(&reconcile.start)
                    && reconcile.end.is_some_and(|(_, result)| is_done(result))
            })
        })
    }

    /// Whether actors created objects of one kind and name in two Namespaces.
    #[must_use]
    pub fn has_namesakes(&self) -> bool {
        let mut seen: BTreeMap<(String, String), String> = BTreeMap::new();
        let mut created = self.requests().filter_map(|(_, _, request)| {
            let is_created = request.changed && request.before.is_none() && request.after.is_some();
            (is_created && matches!(request.author, Author::Actor(_))).then(|| request.object_id())
        });
        created.any(|id| {
            let first = seen.entry((id.resource, id.name)).or_insert_with(|| id.namespace.clone());
            *first != id.namespace
        })
    }

    /// Returns what actors changed, stand-ins among them: actor, verb and object, without how often and in which order.
    #[must_use]
    pub fn objects_of_actors(&self) -> BTreeSet<(String, String, ObjectId)> {
        let writes = self.requests().filter_map(|(_, _, request)| match &request.author {
            Author::Actor(name) if request.changed => Some((name.clone(), request)),
            _ => None,
        });
        let written = |(name, request): (String, &RequestEvent)| {
            (
                name,
                format!("{}/{}", request.verb, request.subresource),
                self.names.canonical_id(&request.object_id()),
            )
        };
        writes.map(written).collect()
    }

    /// Returns the writes of these actors that changed something, in order and in canonical form. Two runs in which
    /// they are equal gave the plugin the same task.
    #[must_use]
    pub fn actor_writes(&self, actors: &BTreeSet<String>) -> Vec<(String, String, ObjectId)> {
        self.requests()
            .filter_map(|(_, _, request)| match &request.author {
                Author::Actor(name) if request.changed && actors.contains(name) => Some((
                    name.clone(),
                    format!("{}/{}", request.verb, request.subresource),
                    self.names.canonical_id(&request.object_id()),
                )),
                _ => None,
            })
            .collect()
    }
}
