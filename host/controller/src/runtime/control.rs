//! What an operator asks of a running plugin through the host: which keys it has, to queue one of them, and to pause.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_informer::{KeyState, KeyStatus};
use pilothouse_model::ObjectKey;
use pilothouse_plugin::{LogLevel, Reason};
use serde::{Deserialize, Serialize};

use super::{PluginStatusSource, dispatch};
use crate::cache::views::Views;
use crate::rollout::NoTarget;
use crate::runtime::queue::ReconcileKey;

/// Some of a plugin's pending keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginKeys {
    /// The keys that workers hold, those that wait for a retry, ready keys, and the other delayed keys; up to a limit.
    pub keys: Vec<QueuedKey>,
    /// The number of all pending keys.
    pub pending: usize,
}

/// One pending key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuedKey {
    /// The target watch.
    pub watch: String,
    /// `namespace/name`, or `name` for a cluster-scoped object.
    pub key: String,
    /// What the key waits for.
    pub state: KeyStateName,
    /// For how long it has been processed or ready, or when it becomes ready, in milliseconds.
    pub milliseconds: u64,
    /// Failed attempts since the last one that succeeded.
    pub attempts: u32,
    /// The last line of the plugin's log about a failure at this key; absent if none is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// What a key waits for. The serialized names are public.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeyStateName {
    /// A worker processes it.
    Processing,
    /// It waits for a worker.
    Ready,
    /// It becomes ready later.
    Delayed,
}

/// Why a request of an operator cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// There is no plugin of this name.
    #[error("no plugin {plugin:?}; `pilothouse status` lists the plugins of this host")]
    UnknownPlugin {
        /// The name.
        plugin: String,
    },
    /// No version of the plugin runs.
    #[error("{plugin} does not run; `pilothouse status` says why")]
    NotRunning {
        /// The plugin's name.
        plugin: String,
    },
    /// No version is kept that is older than the running one.
    #[error(
        "no version of {plugin} is kept that is older than the running one; `pilothouse status {plugin} --json` lists the versions that are"
    )]
    NoOlderVersion {
        /// The plugin's name.
        plugin: String,
    },
    /// No version runs as a canary, or is to become one.
    #[error(
        "no version of {plugin} runs as a canary; `pilothouse status {plugin} --json` lists its versions"
    )]
    NoCanary {
        /// The plugin's name.
        plugin: String,
    },
    /// The version runs already.
    #[error("version {digest:?} of {plugin} runs already")]
    RunsAlready {
        /// The plugin's name.
        plugin: String,
        /// The start of the version's SHA-256.
        digest: String,
    },
    /// No version has this SHA-256, or several have.
    #[error(
        "{digest:?} is not the start of the SHA-256 of one version of {plugin}; write at least six characters of one of these: {}",
        kept_versions(.versions)
    )]
    UnknownVersion {
        /// The plugin's name.
        plugin: String,
        /// What was asked for.
        digest: String,
        /// The versions that are kept.
        versions: Vec<String>,
    },
    /// The watch is not a target, or none was named and there are several.
    #[error("{problem}")]
    Watch {
        /// What is wrong with it, and what to write instead.
        problem: String,
    },
    /// The key does not have the form of a key of the watch's kind.
    #[error("{key:?} is not the key of an object of watch {watch:?}; write {form}")]
    Key {
        /// The key.
        key: String,
        /// The target watch.
        watch: String,
        /// The form of its keys.
        form: &'static str,
    },
    /// The watch's cache has no such object, and no work for it is pending.
    #[error(
        "watch {watch:?} has no object {key:?}, and nothing is pending for it; `pilothouse keys` lists what is, and kubectl the objects"
    )]
    UnknownKey {
        /// The key.
        key: String,
        /// The target watch.
        watch: String,
    },
}

/// Returns the versions in words.
fn kept_versions(versions: &[String]) -> String {
    if versions.is_empty() { "none is kept".to_owned() } else { versions.join(", ") }
}

impl PluginStatusSource {
    /// Returns up to `limit` of the pending keys, without their errors.
    pub(crate) fn keys(&self, limit: usize) -> PluginKeys {
        let snapshot = self.plugin.queue.snapshot();
        PluginKeys {
            keys: self.plugin.queue.list(limit).into_iter().map(QueuedKey::from).collect(),
            pending: snapshot.depth + snapshot.delayed + snapshot.processing,
        }
    }

    /// Queues a key at once, as if it had never failed. Returns the watch, which may be left out if the plugin has one target watch.
    pub(crate) fn requeue(&self, watch: Option<&str>, key: &str) -> Result<Arc<str>, ControlError> {
        let not_running = || ControlError::NotRunning { plugin: self.plugin.name.to_string() };
        let version = self.running_status.version().ok_or_else(not_running)?;
        let watch = target_watch(&version.views, watch)?;
        let view =
            version.views.get(&watch).map_err(|error| ControlError::Watch { problem: error.to_string() })?;
        let item = ReconcileKey {
            watch: Arc::clone(&watch),
            key: parse_key(key, &watch, view.resource.namespaced)?,
        };
        if view.object(&item.key).is_none() && !self.plugin.queue.contains(&item) {
            return Err(ControlError::UnknownKey { key: key.to_owned(), watch: watch.to_string() });
        }
        self.plugin
            .log
            .state(LogLevel::Info, format_args!("{key} of watch {watch:?} is queued by an operator"));
        self.plugin.queue.add_afresh(item);
        Ok(watch)
    }

    /// Queues each object of the target watches as a resync does.
    pub(crate) fn requeue_all(&self) {
        if let Some(version) = self.running_status.version() {
            dispatch::requeue(&version, &self.plugin, Reason::Resync, |_| true);
        }
    }

    /// Runs another version, and returns its SHA-256 and number. Without the start of a digest, it is the newest version that is older than the
    /// running one; beside a canary, it is the running one, and the canary ends.
    pub(crate) fn roll_back(&self, digest: Option<&str>) -> Result<(String, String), ControlError> {
        let plugin = self.plugin.name.to_string();
        let target = self.plugin.rollout.request(digest).map_err(|problem| match problem {
            NoTarget::NotRunning => ControlError::NotRunning { plugin },
            NoTarget::NoOlder => ControlError::NoOlderVersion { plugin },
            NoTarget::Runs => {
                ControlError::RunsAlready { plugin, digest: digest.unwrap_or_default().to_owned() }
            }
            NoTarget::Unknown(versions) => ControlError::UnknownVersion {
                plugin,
                digest: digest.unwrap_or_default().to_owned(),
                versions: versions.iter().map(ToString::to_string).collect(),
            },
        })?;
        Ok((target.digest, target.version))
    }

    /// Runs the canary alone, and returns its SHA-256 and number.
    pub(crate) fn promote(&self) -> Result<(String, String), ControlError> {
        let no_canary = || ControlError::NoCanary { plugin: self.plugin.name.to_string() };
        let canary = self.plugin.rollout.promote().ok_or_else(no_canary)?;
        Ok((canary.digest, canary.version))
    }

    /// Pauses or resumes the plugin, also for later versions. A paused plugin starts no reconcile and delivers nothing to its observer; its
    /// keys and changes wait.
    pub(crate) fn set_paused(&self, paused: bool) {
        let mut current = self.plugin.paused.lock();
        if *current == paused {
            return;
        }
        *current = paused;
        if let Some(version) = self.running_status.version() {
            version.views.access.set_paused(paused);
        }
        if let Some(canary) = self.running_status.canary() {
            canary.version.views.access.set_paused(paused);
        }
        // A log line may wait for standard output, and the status and a swap wait for the lock.
        drop(current);
        let text = if paused { "paused by an operator; its keys wait" } else { "resumed by an operator" };
        self.plugin.log.state(LogLevel::Info, format_args!("{text}"));
    }
}

impl From<KeyStatus<ReconcileKey>> for QueuedKey {
    fn from(status: KeyStatus<ReconcileKey>) -> Self {
        let (state, time): (_, Duration) = match status.state {
            KeyState::Processing(time) => (KeyStateName::Processing, time),
            KeyState::Ready(time) => (KeyStateName::Ready, time),
            KeyState::Delayed(time) => (KeyStateName::Delayed, time),
        };
        Self {
            watch: status.key.watch.to_string(),
            key: status.key.key.to_string(),
            state,
            milliseconds: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            attempts: status.attempts,
            last_error: None,
        }
    }
}

/// Returns the target watch with this name, or the only one.
pub(super) fn target_watch(views: &Views, watch: Option<&str>) -> Result<Arc<str>, ControlError> {
    if let Some(watch) = watch {
        return views.target(watch).map_err(|error| ControlError::Watch { problem: error.to_string() });
    }
    let targets: Vec<_> =
        views.by_name.iter().filter(|(_, view)| view.is_target).map(|(name, _)| name).collect();
    match targets[..] {
        [target] => Ok(Arc::clone(target)),
        [] => Err(ControlError::Watch {
            problem: "the plugin reconciles nothing: none of its watches has the trigger `self`".to_owned(),
        }),
        _ => {
            let names: Vec<_> = targets.iter().map(|name| format!("{name:?}")).collect();
            let names = names.join(", ");
            Err(ControlError::Watch {
                problem: format!("the plugin has several target watches: name one of {names}"),
            })
        }
    }
}

pub(super) fn parse_key(text: &str, watch: &str, namespaced: bool) -> Result<ObjectKey, ControlError> {
    let form = if namespaced { "NAMESPACE/NAME" } else { "NAME" };
    let invalid = || ControlError::Key { key: text.to_owned(), watch: watch.to_owned(), form };
    let (namespace, name) = text.split_once('/').unwrap_or(("", text));
    let is_valid = namespaced != namespace.is_empty() && !name.is_empty() && !name.contains('/');
    if is_valid { Ok(ObjectKey::new(namespace, name)) } else { Err(invalid()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_scope_of_its_watch() {
        let key = |text: &str, namespaced| parse_key(text, "w", namespaced).map(|key| key.to_string());
        assert_eq!(key("shop/a", true), Ok("shop/a".to_owned()));
        assert_eq!(key("a", false), Ok("a".to_owned()));
        for (text, namespaced, form) in [
            ("a", true, "NAMESPACE/NAME"),
            ("shop/a", false, "NAME"),
            ("shop/", true, "NAMESPACE/NAME"),
            ("/a", true, "NAMESPACE/NAME"),
            ("a/b/c", true, "NAMESPACE/NAME"),
            ("", false, "NAME"),
        ] {
            let error = key(text, namespaced).expect_err(text).to_string();
            assert!(error.ends_with(&format!("write {form}")), "{error}");
        }
    }

    #[test]
    fn a_listed_key_has_a_public_form() {
        let key = ObjectKey::new("shop", "a");
        let state = KeyState::Delayed(Duration::from_micros(1_500_700));
        let status = KeyStatus { key: ReconcileKey { watch: "foos".into(), key }, state, attempts: 3 };
        let json = serde_json::to_value(QueuedKey::from(status)).expect("JSON");
        let expected = serde_json::json!({
            "watch": "foos", "key": "shop/a", "state": "delayed", "milliseconds": 1500, "attempts": 3,
        });
        assert_eq!(json, expected);
    }
}
