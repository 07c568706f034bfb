//! Collects what `explain` shows of a key: what decides now, and what the journal has.

use pilothouse_informer::{KeyState, KeyStatus};
use pilothouse_plugin::Reason;

use super::PluginStatusSource;
use super::control::{ControlError, KeyStateName, parse_key, target_watch};
use crate::cache::views::View;
use crate::explain::journal::{
    JournalEvent, JournalReconcile, JournalRecord, JournalWrite, REASONS, TimedRecord, WriteVerb,
    reason_name, watch_tag,
};
use crate::explain::lookup::ObjectLookup;
use crate::explain::{
    CachedObject, EntryDetail, Explanation, HotLoopSituation, JournalEntry, MissingPrerequisite,
    PluginSituation, PrerequisiteKind, QueueSituation, Situation, TriggerSituation, VersionSituation,
    WatchSituation, decide,
};
use crate::lifecycle::{PluginStatus, WaitingFor};
use crate::load::version::Version;
use crate::runtime::key_mapper::KeyMapper;
use crate::runtime::predicate::parts;
use crate::runtime::queue::ReconcileKey;
use crate::timestamp::rfc_3339_milliseconds;
use crate::trace::TraceId;

/// Everything that is known about a key, before the cause is decided.
pub(crate) struct CollectedFacts {
    plugin: String,
    pub(crate) watch: String,
    pub(crate) key: String,
    pub(crate) now: Situation,
    then: Vec<JournalEntry>,
    /// What to ask the API server, because the cache does not have the object.
    pub(crate) lookup: Option<ObjectLookup>,
}

impl CollectedFacts {
    fn new(plugin: String, watch: Option<&str>, key: &str, situation: PluginSituation) -> Self {
        let now = Situation {
            plugin: situation,
            source: None,
            watch: None,
            version: None,
            cached: None,
            on_server: None,
            predicate: None,
            triggers: Vec::new(),
            queue: None,
            hot_loop: None,
        };
        let watch = watch.unwrap_or_default().to_owned();
        Self { plugin, watch, key: key.to_owned(), now, then: Vec::new(), lookup: None }
    }

    /// Returns the facts about a key of a plugin that was never loaded: those of its status.
    pub(crate) fn never_loaded(status: PluginStatus, watch: Option<&str>, key: &str) -> Self {
        let PluginStatus { name, state, error, paused, source, .. } = status;
        let situation = PluginSituation { state, error, running: false, paused, missing: None };
        let mut facts = Self::new(name, watch, key, situation);
        facts.now.source = source;
        facts
    }

    /// Decides the cause.
    pub(crate) fn explain(self) -> Explanation {
        let Self { plugin, watch, key, now, then, .. } = self;
        let (code, verdict) = decide(&now, &then);
        Explanation { plugin, watch, key, code, verdict, now, then }
    }
}

impl PluginStatusSource {
    /// Collects the facts about a key. The watch may be left out if the plugin has one target watch. Without a running version, the facts
    /// are those about the plugin.
    pub(crate) fn facts(&self, watch: Option<&str>, key: &str) -> Result<CollectedFacts, ControlError> {
        let version = self.running_status.version();
        let situation = self.plugin_situation(version.as_deref());
        let mut facts = CollectedFacts::new(self.plugin.name.to_string(), watch, key, situation);
        if let Some(version) = version {
            self.add_key(&version, watch, key, &mut facts)?;
        }
        Ok(facts)
    }

    pub(super) fn plugin_situation(&self, version: Option<&Version>) -> PluginSituation {
        let status = self.status();
        let missing = match version {
            Some(version) => {
                let crd = self.running_status.crd_problem().map(|text| (PrerequisiteKind::Crd, text));
                crd.or_else(|| version.views.access.reason().map(|text| (PrerequisiteKind::Grant, text)))
            }
            None => self.running_status.load_waits_for().map(|missing| (kind(&missing), missing.to_string())),
        };
        PluginSituation {
            state: status.state,
            error: status.error,
            running: version.is_some(),
            paused: status.paused,
            missing: missing.map(|(kind, text)| MissingPrerequisite { kind, text }),
        }
    }

    /// Adds the facts about a key of a running version.
    fn add_key(
        &self,
        version: &Version,
        watch: Option<&str>,
        key: &str,
        facts: &mut CollectedFacts,
    ) -> Result<(), ControlError> {
        let watch = target_watch(&version.views, watch)?;
        let view =
            version.views.get(&watch).map_err(|error| ControlError::Watch { problem: error.to_string() })?;
        let item = ReconcileKey { key: parse_key(key, &watch, view.resource.namespaced)?, watch };
        let canary = self.running_status.canary();
        let is_canary = canary.as_ref().is_some_and(|canary| canary.share.includes(&item.key));
        // Both versions have the same target watches.
        let version = canary.as_ref().filter(|_| is_canary).map_or(version, |canary| &*canary.version);
        let view = version.views.get(&item.watch).unwrap_or(view);
        facts.now.version = canary.as_ref().map(|_| VersionSituation {
            digest: version.digest.clone(),
            version: version.descriptor.version.clone(),
            canary: is_canary,
            backing_off: version.health.backing_off().map(|backing_off| backing_off.to_string()),
            missing: version
                .views
                .access
                .reason()
                .map(|text| MissingPrerequisite { kind: PrerequisiteKind::Grant, text }),
        });
        facts.watch = item.watch.to_string();
        let now = &mut facts.now;
        now.watch = Some(watch_situation(view, &item));
        now.triggers = triggers(version, &item.watch);
        // The queue before the journal: a reconcile is recorded before its key is released, so a key that is not pending any more has its
        // last reconcile in the journal.
        now.queue = self.plugin.queue.status(&item).map(|status| self.queue_situation(&status));
        facts.then = self.journal_entries(version, &item);
        now.hot_loop = self.plugin.hot_loops.status(&item).map(|status| HotLoopSituation {
            text: status.text,
            milliseconds: u64::try_from(status.next_round_in.as_millis()).unwrap_or(u64::MAX),
        });
        let Some(object) = view.object(&item.key) else {
            // What is pending has a cause of its own, and a broken watch says nothing of the object.
            let is_open = now.queue.is_none()
                && now.missing().is_none()
                && now.watch.as_ref().is_some_and(|watch| watch.covers_namespace && watch.error.is_none());
            facts.lookup = is_open.then(|| ObjectLookup {
                resource: view.resource.clone(),
                key: item.key.clone(),
                label_selector: view.label_selector.clone(),
                field_selector: view.field_selector.clone(),
            });
            return Ok(());
        };
        let declared = version.descriptor.watches.iter().find(|declared| *declared.name == *item.watch);
        let predicate = declared.map(|declared| declared.predicate.trim()).filter(|text| !text.is_empty());
        now.predicate = predicate.map(|text| parts::explain(text, &object));
        now.cached = Some(CachedObject {
            resource_version: object.resource_version().to_owned(),
            own_write: !view.cache.contains(&object),
            seen: seen(object.resource_version(), &facts.then),
        });
        Ok(())
    }

    fn queue_situation(&self, status: &KeyStatus<ReconcileKey>) -> QueueSituation {
        let requests = self.plugin.queue.in_flight().requests(&status.key);
        let (state, time) = match status.state {
            KeyState::Processing(time) => (KeyStateName::Processing, time),
            KeyState::Ready(time) => (KeyStateName::Ready, time),
            KeyState::Delayed(time) => (KeyStateName::Delayed, time),
        };
        QueueSituation {
            state,
            milliseconds: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            attempts: status.attempts,
            open_writes: requests.count,
            held_by_writes: requests.hold_key,
            last_error: None,
        }
    }

    fn journal_entries(&self, version: &Version, item: &ReconcileKey) -> Vec<JournalEntry> {
        let target = watch_tag(&item.watch);
        let name_of = |tag: u16| {
            let named = version.views.by_name.keys().find(|name| watch_tag(name) == tag);
            named.map(ToString::to_string).unwrap_or_default()
        };
        let entry = |TimedRecord { time, record }: TimedRecord| {
            let what = match record {
                JournalRecord::Event(JournalEvent { version, change, is_queued, watch }) => {
                    EntryDetail::Event {
                        watch: name_of(watch),
                        of_target: watch == target,
                        change: reason_name(change).to_owned(),
                        resource_version: version,
                        queued: is_queued,
                    }
                }
                JournalRecord::Reconcile(reconcile) => {
                    reconcile_entry(reconcile, self.plugin.tracer.exported(reconcile.trace))
                }
                JournalRecord::Write(JournalWrite { verb, code, version, is_own_key }) => {
                    EntryDetail::Write {
                        verb: verb_name(verb).to_owned(),
                        code,
                        resource_version: version,
                        same_key: is_own_key,
                    }
                }
            };
            JournalEntry { time: rfc_3339_milliseconds(time), what }
        };
        self.plugin.journal.records(&item.watch, &item.key).into_iter().map(entry).collect()
    }
}

fn kind(waiting_for: &WaitingFor) -> PrerequisiteKind {
    match waiting_for {
        WaitingFor::WatchGrant(_)
        | WaitingFor::ValidSidecar(_)
        | WaitingFor::VersionForAccount(_)
        | WaitingFor::AccountPermission(_)
        | WaitingFor::AccessReview(_)
        | WaitingFor::HostPermission(_) => PrerequisiteKind::Grant,
        WaitingFor::CrdRequest(_)
        | WaitingFor::EstablishedCrd(_)
        | WaitingFor::Kind { .. }
        | WaitingFor::CrdGrant { .. } => PrerequisiteKind::Crd,
        WaitingFor::FirstList { .. } | WaitingFor::FailedList { .. } => PrerequisiteKind::List,
        WaitingFor::ComputedIndexes => PrerequisiteKind::Other,
    }
}

fn watch_situation(view: &View, item: &ReconcileKey) -> WatchSituation {
    let namespaces = &view.cache.namespaces;
    let namespace = item.key.namespace();
    // There is one subscription per namespace, or one for all.
    let position = namespaces.iter().position(|covered| covered == namespace).unwrap_or_default();
    let status = view.subscriptions.get(position).map(|subscription| subscription.status());
    WatchSituation {
        resource: view.resource.to_string(),
        namespaces: namespaces.clone(),
        covers_namespace: view.cache.covers(namespace),
        label_selector: view.label_selector.to_string(),
        field_selector: view.field_selector.to_string(),
        synced: status.as_ref().is_none_or(|status| status.synced),
        error: status.and_then(|status| status.error).map(|error| error.to_string()),
    }
}

/// Returns the triggers that queue keys of a target watch, without repetitions: a watch of several namespaces has a route for each.
fn triggers(version: &Version, target: &str) -> Vec<TriggerSituation> {
    let mut triggers = Vec::new();
    for route in &version.routes {
        let Some(trigger) = route.trigger.as_ref().filter(|trigger| *trigger.target_watch == *target) else {
            continue;
        };
        let declared = version.descriptor.watches.iter().find(|declared| *declared.name == *route.watch);
        let found = TriggerSituation {
            watch: route.watch.to_string(),
            queues: queued_keys(&trigger.mapper),
            predicate: declared.map(|declared| declared.predicate.trim().to_owned()).unwrap_or_default(),
        };
        if !triggers.contains(&found) {
            triggers.push(found);
        }
    }
    triggers
}

/// Describes which keys a change queues.
fn queued_keys(mapper: &KeyMapper) -> String {
    match mapper {
        KeyMapper::Itself => "the object itself".to_owned(),
        KeyMapper::Owners { kind, only_controller: true, .. } => {
            format!("the {kind} that controls the object")
        }
        KeyMapper::Owners { kind, .. } => format!("each {kind} that owns the object"),
        KeyMapper::Label { key, .. } => format!("the object that the label {key:?} names"),
        KeyMapper::Field { .. } => "the objects that a field names".to_owned(),
        KeyMapper::Index { index } => {
            format!("the objects whose index {index:?} has the key of the changed one")
        }
        KeyMapper::Namespace => "the objects in the same namespace".to_owned(),
    }
}

/// Returns when the event with this version of the object was dispatched.
fn seen(version: &str, then: &[JournalEntry]) -> Option<String> {
    let version = version.parse::<u64>().ok()?;
    let is_seen = |entry: &&JournalEntry| matches!(entry.what, EntryDetail::Event { of_target: true, resource_version, .. } if resource_version == version);
    then.iter().find(is_seen).map(|entry| entry.time.clone())
}

fn reconcile_entry(reconcile: JournalReconcile, trace: Option<TraceId>) -> EntryDetail {
    let JournalReconcile { microseconds, attempt, reasons, outcome, .. } = reconcile;
    let is_set = |(position, _): &(usize, &Reason)| reasons & (1_u8 << *position) != 0;
    let names = REASONS.iter().enumerate().filter(is_set).map(|(_, reason)| reason_name(*reason).to_owned());
    EntryDetail::Reconcile {
        reasons: names.collect(),
        attempt,
        microseconds,
        outcome: outcome.as_str().to_owned(),
        trace_id: trace.map(|trace| trace.to_string()),
    }
}

fn verb_name(verb: WriteVerb) -> &'static str {
    match verb {
        WriteVerb::Create => "create",
        WriteVerb::Update => "update",
        WriteVerb::Patch => "patch",
        WriteVerb::Delete => "delete",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::journal::ReconcileOutcome;

    #[test]
    fn a_reconcile_has_the_names_of_its_reasons() {
        let reasons = crate::explain::journal::reason_bits(&[Reason::Startup, Reason::Updated]);
        let (microseconds, outcome) = (1500, ReconcileOutcome::RequeueAfter);
        let record = JournalReconcile { microseconds, attempt: 2, reasons, outcome, trace: 1 };
        let entry = reconcile_entry(record, Some(TraceId([0xab; 16])));
        let reasons = vec!["updated".to_owned(), "startup".to_owned()];
        let (outcome, trace_id) = ("requeueAfter".to_owned(), Some("ab".repeat(16)));
        assert_eq!(entry, EntryDetail::Reconcile { reasons, attempt: 2, microseconds, outcome, trace_id });
    }

    #[test]
    fn what_a_load_waits_for_has_a_kind() {
        let (watch, problem) = ("foos".to_owned(), "not served".to_owned());
        for (waiting_for, expected) in [
            (WaitingFor::WatchGrant("no rule".into()), PrerequisiteKind::Grant),
            (WaitingFor::EstablishedCrd("foos".into()), PrerequisiteKind::Crd),
            (WaitingFor::FirstList { watch: watch.clone() }, PrerequisiteKind::List),
            (WaitingFor::Kind { watch, problem }, PrerequisiteKind::Crd),
            (WaitingFor::ComputedIndexes, PrerequisiteKind::Other),
        ] {
            assert_eq!(kind(&waiting_for), expected, "{waiting_for}");
        }
    }
}
