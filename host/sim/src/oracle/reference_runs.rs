//! What the plugin does without faults: the standard of comparison for all other runs.

use std::collections::{BTreeMap, BTreeSet};

use super::orphan::{Rule, cleaned_up};
use super::own_changes::OwnChanges;
use super::timers::{late_poll_writes, late_timer_changes, late_timer_writes};
use crate::analysis::{CanonicalEnd, EndMask, ObjectId, RandomPrefixes, RunView};
use crate::finding::NotCompared;
use crate::run::{End, ReconcileResult, Run};

/// What actors wrote, in order: actor, verb and object.
pub(super) type ActorWrites = Vec<(String, String, ObjectId)>;

/// Objects with a generated name that one key's reconciles created.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Family {
    pub(super) key: String,
    pub(super) id: ObjectId,
}

/// What runs of the default schedule, which differ in the seed only, have in common.
#[derive(Clone, Debug)]
pub struct ReferenceRuns {
    /// The first run.
    run: Run,
    random: RandomPrefixes,
    actors: BTreeSet<String>,
    mask: EndMask,
    /// The end of the first run that came to rest, for each order in which actors wrote.
    ends: BTreeMap<ActorWrites, CanonicalEnd>,
    actor_writes: ActorWrites,
    deletes: BTreeMap<ObjectId, usize>,
    /// The objects that plugins create.
    made: BTreeSet<ObjectId>,
    peaks: BTreeMap<Family, usize>,
    /// The keys whose last reconcile ended without an error: plugin, watch, key.
    succeeded: BTreeSet<(String, String, String)>,
    own_changes: OwnChanges,
    cleaned_up: BTreeSet<Rule>,
    late_timer_writes: usize,
    late_timer_changes: usize,
    late_poll_writes: usize,
}

impl ReferenceRuns {
    /// Compares two runs of the default schedule with different seeds.
    #[must_use]
    pub fn new(first: &Run, second: &Run) -> Self {
        let random = RandomPrefixes::between(first, second);
        let (left, right) = (RunView::new(first, &random), RunView::new(second, &random));
        let actors: BTreeSet<_> =
            left.scripted_actors().intersection(&right.scripted_actors()).cloned().collect();
        let actor_writes = left.actor_writes(&actors);
        let end = left.canonical_end();
        let mask = EndMask::between(&end, &right.canonical_end());
        let mut ends = BTreeMap::new();
        if first.end == End::AtRest && second.end == End::AtRest {
            ends.insert(actor_writes.clone(), end);
        }
        let mut deletes = deletes_of(&left);
        for (id, count) in deletes_of(&right) {
            let known = deletes.entry(id).or_default();
            *known = count.max(*known);
        }
        let mut peaks = peaks_of(&left);
        for (family, count) in peaks_of(&right) {
            let known = peaks.entry(family).or_default();
            *known = count.max(*known);
        }
        let succeeded = succeeded_of(&left).intersection(&succeeded_of(&right)).cloned().collect();
        let created = left.effective_writes().filter(|(_, request)| request.before.is_none());
        let made = created.map(|(_, request)| left.names.canonical_id(&request.object_id())).collect();
        let own_changes = OwnChanges::of(&left);
        let cleaned_up = cleaned_up(&left);
        let late_timer_writes = late_timer_writes(&left).len().max(late_timer_writes(&right).len());
        let late_timer_changes = late_timer_changes(&left).max(late_timer_changes(&right));
        let late_poll_writes = late_poll_writes(&left);
        Self {
            run: first.clone(),
            random,
            actors,
            mask,
            ends,
            actor_writes,
            deletes,
            made,
            peaks,
            succeeded,
            own_changes,
            cleaned_up,
            late_timer_writes,
            late_timer_changes,
            late_poll_writes,
        }
    }

    /// Adds what is gone at rest once a key's object is, as another reference shows it. The runs of a history may delete nothing.
    #[must_use]
    pub fn with_cleanups_of(mut self, other: &Self) -> Self {
        self.cleaned_up.extend(other.cleaned_up.iter().cloned());
        self
    }

    /// Adds a run without faults in which the actors took their steps in another order.
    pub fn add_order(&mut self, run: &Run) {
        if run.end == End::AtRest && !self.ends.is_empty() {
            let view = RunView::new(run, &self.random);
            let actor_writes = view.actor_writes(&self.actors);
            self.ends.entry(actor_writes).or_insert_with(|| view.canonical_end());
        }
    }

    /// Returns the first run.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Returns the prefixes of the names that the plugin draws at random.
    #[must_use]
    pub fn random(&self) -> &RandomPrefixes {
        &self.random
    }

    /// Returns the actors that take steps.
    #[must_use]
    pub fn actors(&self) -> &BTreeSet<String> {
        &self.actors
    }

    /// Returns the end that a run with these writes of actors should have, if one is known.
    pub(super) fn end_of(&self, run: &RunView<'_>) -> Option<&CanonicalEnd> {
        self.ends.get(&run.actor_writes(&self.actors))
    }

    /// Whether the actors wrote the same in the same order as in the reference.
    pub(super) fn has_actor_writes_of(&self, run: &RunView<'_>) -> bool {
        self.actor_writes == run.actor_writes(&self.actors)
    }

    /// Returns the fields and finalizers that plugins change.
    pub(super) fn own_changes(&self) -> &OwnChanges {
        &self.own_changes
    }

    /// Whether objects of the rule's resource are gone at rest once the key's object is.
    pub(super) fn cleans_up(&self, rule: &Rule) -> bool {
        self.cleaned_up.contains(rule)
    }

    /// Returns how many reconciles wrote because of a timer that is longer than a rest.
    pub(super) fn late_timer_writes(&self) -> usize {
        self.late_timer_writes
    }

    /// Returns how many of them changed more than times.
    pub(super) fn late_timer_changes(&self) -> usize {
        self.late_timer_changes
    }

    /// Whether the run was too short for what the plugin does in the reference after it has asked for a key several times.
    pub(super) fn has_polled_longer_than(&self, run: &RunView<'_>) -> bool {
        self.late_poll_writes > 0 && late_poll_writes(run) < self.late_poll_writes
    }

    pub(crate) fn mask(&self) -> &EndMask {
        &self.mask
    }

    /// Returns what *same end* leaves out. Nothing if it judges no run, because there is no end to compare with.
    pub(crate) fn not_compared(&self) -> impl Iterator<Item = NotCompared> {
        let entries = self.mask.entries().filter(|_| !self.ends.is_empty());
        entries.map(|(id, pointer)| NotCompared::new(id, pointer))
    }

    /// Returns how often plugins deleted the object.
    pub(super) fn deletes(&self, canonical: &ObjectId) -> usize {
        self.deletes.get(canonical).copied().unwrap_or_default()
    }

    /// Whether plugins create the object.
    pub(super) fn is_made_by_plugin(&self, canonical: &ObjectId) -> bool {
        self.made.contains(canonical)
    }

    /// Returns how many objects of the family existed at once.
    pub(super) fn peak(&self, family: &Family) -> usize {
        self.peaks.get(family).copied().unwrap_or_default()
    }

    /// Whether the last reconcile of a key failed that succeeds in the reference. The host tries it again later than the run's end.
    pub(super) fn has_unfinished_key(&self, run: &RunView<'_>) -> bool {
        self.succeeded.difference(&succeeded_of(run)).any(|(plugin, watch, key)| {
            run.reconciles
                .values()
                .any(|other| other.plugin == plugin && other.watch == watch && other.key == key)
        })
    }

    /// Whether the key's last reconcile ended without an error.
    pub(super) fn succeeds(&self, plugin: &str, watch: &str, key: &str) -> bool {
        self.succeeded.contains(&(plugin.to_owned(), watch.to_owned(), key.to_owned()))
    }
}

/// Returns how often plugins deleted each object, by canonical address.
pub(super) fn deletes_of(view: &RunView<'_>) -> BTreeMap<ObjectId, usize> {
    let mut deletes = BTreeMap::new();
    for (_, request) in view.effective_writes().filter(|(_, request)| request.is_effective_delete()) {
        *deletes.entry(view.names.canonical_id(&request.object_id())).or_default() += 1;
    }
    deletes
}

/// Returns the largest number of objects of each family that existed at once.
pub(super) fn peaks_of(view: &RunView<'_>) -> BTreeMap<Family, usize> {
    peaks_with_events(view).into_iter().map(|(family, (count, _))| (family, count)).collect()
}

/// Returns the largest number of objects of each family, and the index of the event that reached it.
pub(super) fn peaks_with_events(view: &RunView<'_>) -> BTreeMap<Family, (usize, usize)> {
    let mut living: BTreeMap<ObjectId, Family> = BTreeMap::new();
    let mut counts: BTreeMap<Family, usize> = BTreeMap::new();
    let mut peaks: BTreeMap<Family, (usize, usize)> = BTreeMap::new();
    for (index, _, request) in view.requests().filter(|(_, _, request)| request.is_effective()) {
        let id = request.object_id();
        if request.after.is_none() {
            if let Some(family) = living.remove(&id) {
                *counts.entry(family).or_default() -= 1;
            }
            continue;
        }
        let reconcile = request.reconcile.and_then(|number| view.reconciles.get(&number));
        if request.before.is_some() || !request.is_by_plugin() || !view.names.is_generated(&id.name) {
            continue;
        }
        let key =
            reconcile.map(|reconcile| format!("{} {}", reconcile.watch, reconcile.key)).unwrap_or_default();
        let family = Family { key, id: view.names.canonical_id(&id) };
        let count = counts.entry(family.clone()).or_default();
        *count += 1;
        let peak = peaks.entry(family.clone()).or_default();
        if *count > peak.0 {
            *peak = (*count, index);
        }
        living.insert(id, family);
    }
    peaks
}

fn succeeded_of(view: &RunView<'_>) -> BTreeSet<(String, String, String)> {
    let mut last = BTreeMap::new();
    for reconcile in view.reconciles.values() {
        if let Some((_, result)) = reconcile.end {
            let key = (reconcile.plugin.to_owned(), reconcile.watch.to_owned(), reconcile.key.to_owned());
            last.insert(key, result);
        }
    }
    let is_success =
        |result: &&ReconcileResult| matches!(result, ReconcileResult::Ok | ReconcileResult::Requeue(_));
    last.into_iter().filter(|(_, result)| is_success(result)).map(|(key, _)| key).collect()
}
