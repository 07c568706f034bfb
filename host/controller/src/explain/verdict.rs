//! Decides why a key was reconciled, or was not. Pure.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::situation::{
    EntryDetail, JournalEntry, PredicateSituation, PredicateValue, PrerequisiteKind, QueueSituation,
    ServerObject, Situation,
};
use crate::lifecycle::PluginState;
use crate::runtime::KeyStateName;

/// Why a key is, or is not, reconciled. The names are public and stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// The object does not exist, or the cache does not have it and its state on the API server is unknown.
    NoSuchObject,
    /// The watch does not include the namespace.
    OtherNamespace,
    /// The watch's label or field selector does not select the object.
    NotSelected,
    /// The predicate refuses changes of the object, or refused its last change.
    PredicateFalse,
    /// A grant of the sidecar or a permission is missing.
    NotGranted,
    /// The API server does not serve a kind that the plugin watches.
    CrdMissing,
    /// The plugin backs off after faults.
    BackingOff,
    /// The last attempt failed; the next one is scheduled.
    RetryPending,
    /// The plugin asked for a reconcile at a later time.
    RequeuePending,
    /// A write of the last reconcile has no response yet, and holds the key.
    HeldByWrite,
    /// The key is in a hot loop, and is delayed.
    HotLoop,
    /// An operator has paused the plugin.
    Paused,
    /// The watch does not work, so the cache may be outdated.
    WatchStale,
    /// No version of the plugin runs.
    PluginNotRunning,
    /// The key waits for a worker.
    Queued,
    /// A worker reconciles the key.
    Reconciling,
    /// The last reconcile that the journal knows ended with an error that a retry cannot mend.
    TerminalError,
    /// Nothing is pending, and nothing prevents the next reconcile.
    AllWell,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 18] = [
        Self::NoSuchObject,
        Self::OtherNamespace,
        Self::NotSelected,
        Self::PredicateFalse,
        Self::NotGranted,
        Self::CrdMissing,
        Self::BackingOff,
        Self::RetryPending,
        Self::RequeuePending,
        Self::HeldByWrite,
        Self::HotLoop,
        Self::Paused,
        Self::WatchStale,
        Self::PluginNotRunning,
        Self::Queued,
        Self::Reconciling,
        Self::TerminalError,
        Self::AllWell,
    ];
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The name of a variant is its public name.
        fmt::Debug::fmt(self, f)
    }
}

/// A cause, and a line that explains it.
type Verdict = (Cause, String);

/// The maximum length of a predicate in a verdict, in characters.
const MAX_PREDICATE: usize = 200;

/// Returns the cause that decides, in the order in which a change passes through the host.
pub(crate) fn decide(situation: &Situation, history: &[JournalEntry]) -> Verdict {
    not_running(situation)
        .or_else(|| other_namespace(situation))
        .or_else(|| missing(situation))
        .or_else(|| situation.queue.as_ref().map(|queue| pending(situation, queue)))
        .or_else(|| watch_stale(situation))
        .or_else(|| absent(situation, history))
        .or_else(|| terminal_error(situation, history))
        .or_else(|| predicate_false(situation, history))
        .or_else(|| stopped_work(situation))
        .unwrap_or_else(|| all_well(situation, history))
}

fn not_running(situation: &Situation) -> Option<Verdict> {
    let plugin = &situation.plugin;
    if plugin.running {
        return None;
    }
    let state = plugin.state.as_str();
    let text = if plugin.error.is_empty() {
        format!("no version of the plugin runs; its state is {state}")
    } else {
        format!("no version of the plugin runs; its state is {state}: {}", plugin.error)
    };
    let cause = match (&plugin.missing, plugin.state) {
        (_, PluginState::BackingOff) => Cause::BackingOff,
        (Some(missing), PluginState::Waiting) => cause_of(missing.kind),
        _ => Cause::PluginNotRunning,
    };
    Some((cause, text))
}

/// Returns the cause of a prerequisite that is missing.
fn cause_of(kind: PrerequisiteKind) -> Cause {
    match kind {
        PrerequisiteKind::Grant => Cause::NotGranted,
        PrerequisiteKind::Crd => Cause::CrdMissing,
        PrerequisiteKind::List => Cause::WatchStale,
        PrerequisiteKind::Other => Cause::PluginNotRunning,
    }
}

fn other_namespace(situation: &Situation) -> Option<Verdict> {
    let watch = situation.watch.as_ref().filter(|watch| !watch.covers_namespace)?;
    let namespaces = watch.namespaces.join(", ");
    Some((Cause::OtherNamespace, format!("the plugin watches {} only in {namespaces}", watch.resource)))
}

fn missing(situation: &Situation) -> Option<Verdict> {
    let missing = situation.missing()?;
    Some((cause_of(missing.kind), missing.text.clone()))
}

/// The cause of a key that is pending.
fn pending(situation: &Situation, queue: &QueueSituation) -> Verdict {
    if queue.held_by_writes {
        let writes = count(queue.open_writes, "write");
        let text = format!("its last reconcile has ended, but {writes} of it had no response yet");
        return (Cause::HeldByWrite, text);
    }
    if queue.state == KeyStateName::Processing {
        let text = match queue.open_writes {
            0 => format!("a worker has been reconciling it for {}", time(queue.milliseconds)),
            open => format!(
                "a worker has been reconciling it for {}; {} of it had no response yet",
                time(queue.milliseconds),
                count(open, "write")
            ),
        };
        return (Cause::Reconciling, text);
    }
    if let Some(verdict) = stopped_work(situation) {
        return verdict;
    }
    if queue.state == KeyStateName::Ready {
        return (Cause::Queued, format!("it has been waiting for a worker for {}", time(queue.milliseconds)));
    }
    let due = time(queue.milliseconds);
    let delaying = situation.hot_loop.as_ref().filter(|hot_loop| hot_loop.milliseconds > 0);
    if let Some(hot_loop) = delaying {
        return (Cause::HotLoop, format!("{}; the next round starts in {due}", hot_loop.text));
    }
    if queue.attempts == 0 {
        return (Cause::RequeuePending, format!("it is reconciled again in {due}, as the plugin asked"));
    }
    let error = queue.last_error.as_ref().map(|error| format!("; {error}")).unwrap_or_default();
    let attempts = count(usize::try_from(queue.attempts).unwrap_or(usize::MAX), "attempt");
    (Cause::RetryPending, format!("{attempts} failed; the next one starts in {due}{error}"))
}

/// The cause of a version that starts no work, although nothing is missing.
fn stopped_work(situation: &Situation) -> Option<Verdict> {
    let plugin = &situation.plugin;
    if plugin.paused {
        let text = "an operator has paused the plugin; `pilothouse resume` continues it".to_owned();
        return Some((Cause::Paused, text));
    }
    let problem = match &situation.version {
        // Beside a canary, each version has faults of its own.
        Some(version) => version.backing_off.clone(),
        None => (plugin.state == PluginState::BackingOff).then(|| plugin.error.clone()),
    };
    problem.map(|problem| (Cause::BackingOff, problem))
}

fn watch_stale(situation: &Situation) -> Option<Verdict> {
    let watch = situation.watch.as_ref()?;
    if let Some(error) = &watch.error {
        return Some((Cause::WatchStale, format!("the watch of {} does not work: {error}", watch.resource)));
    }
    let text = || format!("the first list of {} is not complete", watch.resource);
    (!watch.synced).then(|| (Cause::WatchStale, text()))
}

/// The cause of a key without a cached object.
fn absent(situation: &Situation, history: &[JournalEntry]) -> Option<Verdict> {
    if situation.cached.is_some() {
        return None;
    }
    let watch = situation.watch.as_ref()?;
    let resource = &watch.resource;
    let was_deleted = last_event(history).is_some_and(|(_, _, change)| change == "deleted");
    let absent = if was_deleted { "it was deleted" } else { "there is no such object" };
    match &situation.on_server {
        Some(ServerObject::Exists { resource_version, label_selector_matches, field_selector_matches }) => {
            let refusal = match (label_selector_matches, field_selector_matches) {
                (false, _) => format!("the label selector {:?}", watch.label_selector),
                (true, false) => format!("the field selector {:?}", watch.field_selector),
                (true, true) => {
                    let text = format!(
                        "the API server has {resource} at rv {resource_version}, but the watch has not delivered it"
                    );
                    return Some((Cause::WatchStale, text));
                }
            };
            let text = format!("{refusal} of the watch does not select the object at rv {resource_version}");
            Some((Cause::NotSelected, text))
        }
        Some(ServerObject::Unknown { problem }) => {
            let text = format!(
                "the cache of {resource} does not have it; its state on the API server is unknown: {problem}"
            );
            Some((Cause::NoSuchObject, text))
        }
        Some(ServerObject::Absent) | None => Some((Cause::NoSuchObject, format!("{absent} in {resource}"))),
    }
}

/// The cause of a key whose last recorded reconcile ended with a terminal error. What is pending comes before it.
fn terminal_error(situation: &Situation, history: &[JournalEntry]) -> Option<Verdict> {
    let last = history.iter().rev().find_map(|entry| match &entry.what {
        EntryDetail::Reconcile { outcome, .. } => Some((outcome, &entry.time)),
        _ => None,
    });
    let (_, time) = last.filter(|(outcome, _)| *outcome == "terminal")?;
    let rv = situation.cached.as_ref().map(|cached| format!("; its rv is {}", cached.resource_version));
    let text = format!(
        "the reconcile at {time} failed with a terminal error, which is not tried again until the object changes{}; `pilothouse logs` has the error",
        rv.unwrap_or_default()
    );
    Some((Cause::TerminalError, text))
}

fn predicate_false(situation: &Situation, history: &[JournalEntry]) -> Option<Verdict> {
    let (predicate, cached) = (situation.predicate.as_ref()?, situation.cached.as_ref()?);
    let version = &cached.resource_version;
    let text = match predicate.value {
        PredicateValue::False => format!("{} is false at rv {version}", false_parts(predicate)),
        PredicateValue::DependsOnChange if is_refused(version, history) => {
            let expression = shortened(&predicate.text);
            format!(
                "{expression} was false for the change to rv {version}; it compares the change with what was before"
            )
        }
        _ => return None,
    };
    Some((Cause::PredicateFalse, text))
}

/// Whether the change to this version, which the plugin did not write itself, has queued nothing.
fn is_refused(version: &str, history: &[JournalEntry]) -> bool {
    let Ok(version) = version.parse::<u64>() else {
        return last_event(history).is_some_and(|(_, is_queued, _)| !is_queued);
    };
    let written: BTreeSet<u64> = history
        .iter()
        .filter_map(|entry| match &entry.what {
            EntryDetail::Write { resource_version, .. } => Some(*resource_version),
            _ => None,
        })
        .collect();
    if written.contains(&version) {
        return false;
    }
    match last_event(history) {
        Some((seen, is_queued, _)) if seen == version => !is_queued,
        // A condition that the informer evaluates refuses a change before the plugin's dispatcher, and its journal, see it.
        Some((seen, ..)) => seen < version,
        // The version may be that of the initial list.
        None => false,
    }
}

/// Returns the last change of the object itself: its version, whether it queued the key, and the kind of change.
fn last_event(history: &[JournalEntry]) -> Option<(u64, bool, &str)> {
    history.iter().rev().find_map(|entry| match &entry.what {
        EntryDetail::Event { of_target: true, change, resource_version, queued, .. } => {
            Some((*resource_version, *queued, change.as_str()))
        }
        _ => None,
    })
}

fn false_parts(predicate: &PredicateSituation) -> String {
    let parts = predicate.parts.iter().filter(|part| part.value == PredicateValue::False);
    let parts: Vec<&str> = parts.map(|part| part.text.as_str()).collect();
    shortened(&parts.join(", "))
}

fn shortened(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(MAX_PREDICATE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn all_well(situation: &Situation, history: &[JournalEntry]) -> Verdict {
    let reconciled = history.iter().rev().find(|entry| matches!(entry.what, EntryDetail::Reconcile { .. }));
    let reconciled = match reconciled {
        Some(entry) => format!("it was last reconciled at {}", entry.time),
        None => "the journal has no reconcile of it".to_owned(),
    };
    let version = situation.cached.as_ref().map(|cached| format!("; its rv is {}", cached.resource_version));
    let text = format!("nothing is pending; {reconciled}{}", version.unwrap_or_default());
    (Cause::AllWell, text)
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn time(milliseconds: u64) -> String {
    format!("{:.1?}", std::time::Duration::from_millis(milliseconds))
}
