//! What `explain` shows of one key: the situation now, and what happened to the key. The names in JSON are public.

use serde::{Deserialize, Serialize};

use crate::lifecycle::{PluginOrigin, PluginState};
use crate::runtime::KeyStateName;

/// Why a key was reconciled, or was not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The plugin's name.
    pub plugin: String,
    /// The target watch; "" if no version runs and none was named.
    pub watch: String,
    /// `namespace/name`, or `name` for a cluster-scoped object.
    pub key: String,
    /// The cause.
    pub code: super::Cause,
    /// The cause in one line, without the code.
    pub verdict: String,
    /// The situation at the time of the request.
    pub now: Situation,
    /// What happened to the key, the oldest first.
    pub then: Vec<JournalEntry>,
}

/// What decides at this time whether the key is reconciled. Contains no content of objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Situation {
    /// The plugin.
    pub plugin: PluginSituation,
    /// What a plugin from a registry is made of; absent for a plugin of the directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PluginOrigin>,
    /// The target watch; absent if no version runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<WatchSituation>,
    /// The version that reconciles the key; absent if there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionSituation>,
    /// The object as the plugin reads it; absent if the cache does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<CachedObject>,
    /// What the API server says of an object that the cache does not have; absent if it was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_server: Option<ServerObject>,
    /// The predicate of the target watch, evaluated for the cached object; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<PredicateSituation>,
    /// The triggers that queue keys of the target watch.
    #[serde(default)]
    pub triggers: Vec<TriggerSituation>,
    /// The key's place in the queue; absent if it is not pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueSituation>,
    /// The hot loop of the key; absent if it is in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot_loop: Option<HotLoopSituation>,
}

/// The plugin of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginSituation {
    /// The public state.
    pub state: PluginState,
    /// All problems, as in `/api/plugins`; "" for none.
    pub error: String,
    /// Whether a version runs.
    pub running: bool,
    /// Whether an operator has paused the plugin.
    pub paused: bool,
    /// What is missing, so that the plugin does no work; absent if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingPrerequisite>,
}

/// Something that a plugin waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingPrerequisite {
    /// What kind of thing it is.
    pub kind: PrerequisiteKind,
    /// What is missing, and what to do about it.
    pub text: String,
}

/// A kind of thing that a plugin waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PrerequisiteKind {
    /// A grant of the sidecar, or a permission.
    Grant,
    /// A CRD, or another kind that the API server does not serve.
    Crd,
    /// The first list of a watch.
    List,
    /// Anything else.
    Other,
}

/// The target watch of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchSituation {
    /// The resource, as kubectl accepts it.
    pub resource: String,
    /// The namespaces of the watch; empty for all.
    pub namespaces: Vec<String>,
    /// Whether the key's namespace is among them.
    pub covers_namespace: bool,
    /// The label selector; "" for none.
    pub label_selector: String,
    /// The field selector; "" for none.
    pub field_selector: String,
    /// Whether the first list is in the cache.
    pub synced: bool,
    /// Why the watch does not work; absent if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One of two versions that run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionSituation {
    /// SHA-256 of the .wasm file, in hex.
    pub digest: String,
    /// The version that the descriptor names.
    pub version: String,
    /// Whether it is the canary.
    pub canary: bool,
    /// Why it backs off; absent if it does not. The plugin's state is that of the version beside the canary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing_off: Option<String>,
    /// What is missing, so that this version does no work; absent if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingPrerequisite>,
}

impl Situation {
    /// Returns what is missing for the version that reconciles the key.
    pub(crate) fn missing(&self) -> Option<&MissingPrerequisite> {
        let of_plugin = self.plugin.missing.as_ref();
        match &self.version {
            // Both versions have the same target watches, but each has permissions of its own.
            Some(version) => {
                let shared = of_plugin.filter(|missing| missing.kind != PrerequisiteKind::Grant);
                shared.or(version.missing.as_ref())
            }
            None => of_plugin,
        }
    }
}

/// An object in the cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CachedObject {
    /// Its resource version.
    pub resource_version: String,
    /// Whether it is the plugin's own write, which the watch has not delivered yet.
    pub own_write: bool,
    /// When the event with this version was dispatched, in RFC 3339; absent if the journal does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
}

/// What the API server says of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum ServerObject {
    /// There is no such object.
    Absent,
    /// The object exists.
    #[serde(rename_all = "camelCase")]
    Exists {
        /// Its resource version.
        resource_version: String,
        /// Whether the watch's label selector selects it.
        label_selector_matches: bool,
        /// Whether the watch's field selector selects it.
        field_selector_matches: bool,
    },
    /// The server was not asked, or gave no usable response.
    #[serde(rename_all = "camelCase")]
    Unknown {
        /// Why not.
        problem: String,
    },
}

/// A predicate and its value for the cached object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PredicateSituation {
    /// The expression.
    pub text: String,
    /// Its value.
    pub value: PredicateValue,
    /// The operands of its outermost `&&` and `||`.
    pub parts: Vec<PredicatePart>,
}

/// A part of a predicate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PredicatePart {
    /// The expression.
    pub text: String,
    /// Its value.
    pub value: PredicateValue,
}

/// The value of a predicate for an object of which only the newest state is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PredicateValue {
    /// It admits changes.
    True,
    /// It refuses changes.
    False,
    /// The evaluation fails. A predicate that fails admits changes.
    Fails,
    /// It compares the old state with the new one, or reads the kind of event.
    DependsOnChange,
}

/// A trigger that queues keys of the target watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggerSituation {
    /// The watch whose changes queue keys.
    pub watch: String,
    /// Which keys a change queues.
    pub queues: String,
    /// The predicate that changes must pass; "" for none.
    pub predicate: String,
}

/// The place of a key in the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueSituation {
    /// What the key waits for.
    pub state: KeyStateName,
    /// For how long it has been processed or ready, or when it becomes ready, in milliseconds.
    pub milliseconds: u64,
    /// Failed attempts since the last one that succeeded.
    pub attempts: u32,
    /// The writes for the key that have no response yet.
    pub open_writes: usize,
    /// Whether the reconcile has ended, and only these writes hold the key.
    pub held_by_writes: bool,
    /// The last line of the plugin's log about a failure at this key; absent if none is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// A hot loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HotLoopSituation {
    /// What happens again and again.
    pub text: String,
    /// The remaining delay of the next round in milliseconds; 0 if nothing is delayed.
    pub milliseconds: u64,
}

/// Something that happened to a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalEntry {
    /// When it happened, in RFC 3339 with milliseconds.
    pub time: String,
    /// What happened.
    #[serde(flatten)]
    pub what: EntryDetail,
}

/// What happened to a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum EntryDetail {
    /// A watched object changed.
    #[serde(rename_all = "camelCase")]
    Event {
        /// The watch; "" for one that the running version does not have.
        watch: String,
        /// Whether it is the key's own watch.
        of_target: bool,
        /// The reason that the plugin gets, such as `updated`.
        change: String,
        /// The object's resource version; 0 if it is not a number.
        resource_version: u64,
        /// Whether the change queued the key. Otherwise, the predicate was false.
        queued: bool,
    },
    /// The plugin reconciled the key.
    #[serde(rename_all = "camelCase")]
    Reconcile {
        /// The reasons that the plugin got.
        reasons: Vec<String>,
        /// Failed attempts before this one.
        attempt: u16,
        /// How long it took, in microseconds.
        microseconds: u32,
        /// `done`, `requeueAfter`, `retry`, `terminal` or `fault`.
        outcome: String,
        /// The identifier of its trace; absent if none was exported, or if it was long ago.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace_id: Option<String>,
    },
    /// A reconcile of the key wrote an object.
    #[serde(rename_all = "camelCase")]
    Write {
        /// `create`, `update`, `patch` or `delete`.
        verb: String,
        /// The HTTP status; 0 without a response.
        code: u16,
        /// The resource version of the result; 0 if there is none.
        resource_version: u64,
        /// Whether the object has the namespace and name of the key.
        same_key: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_a_type_in_json() {
        let what =
            EntryDetail::Write { verb: "patch".to_owned(), code: 200, resource_version: 7, same_key: true };
        let entry = JournalEntry { time: "2026-01-02T03:04:05.006Z".to_owned(), what };
        let json = serde_json::to_value(&entry).expect("JSON");
        let expected = serde_json::json!({
            "time": "2026-01-02T03:04:05.006Z", "type": "write", "verb": "patch", "code": 200, "resourceVersion": 7, "sameKey": true,
        });
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_value::<JournalEntry>(json).expect("an entry"), entry);
        let absent = serde_json::to_value(ServerObject::Absent).expect("JSON");
        assert_eq!(absent, serde_json::json!({"state": "absent"}));
    }
}
