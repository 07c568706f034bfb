//! Replays recorded reconciles with a plugin, and finds the first call that differs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use pilothouse_model::ObjectKey;
use pilothouse_plugin::{
    CompiledPlugin, Engine, GuestResult, InstanceLimits, LoadError, Reason, Request, StubHost,
};
use serde_json::Value;
use thiserror::Error;

use super::format::{RecordedCall, RecordedReconcile, RecordingHead, SecretMode};
use super::recorded_host::RecordedHost;
use super::script::{Script, State};
use super::secrets;
use crate::config::descriptor::Descriptor;
use crate::config::limits::{self, SidecarLimits};
use crate::directory::plugin_file;
use crate::load::files::{MAX_WASM, read_blocking};

/// Why recordings cannot be replayed with a plugin.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The plugin's file cannot be compiled, or is no plugin. Another compiler may be able to.
    #[error("{0}")]
    Load(LoadError),
    /// The plugin cannot be read or described, or its limits are invalid.
    #[error("{0}")]
    Plugin(String),
    /// The plugin's instance has a state that the recording does not contain.
    #[error(
        "the plugin is stateful, so its reconciles depend on what its instance did before; only the reconciles of stateless plugins can be replayed"
    )]
    Stateful,
    /// The plugin has no `reconcile`.
    #[error("the plugin does not export reconcile, so there is nothing to replay")]
    NoReconcile,
    /// A line of the recording is damaged.
    #[error("the recording is damaged: {0}; record again")]
    Damaged(String),
}

/// Replays reconciles with one plugin.
pub struct Replayer {
    code: CompiledPlugin,
    limits: InstanceLimits,
    config: String,
}

/// The result of replaying one reconcile.
#[derive(Debug, PartialEq)]
pub enum Replayed {
    /// All calls and the result are equal, as far as they can be compared.
    Equal {
        /// How many values of Secrets were not compared, because the recording has only their hashes.
        uncompared_values: u64,
    },
    /// The reconcile was not replayed, or not to its end.
    Skipped(SkipReason),
    /// A call or the result differs.
    Different(Box<Difference>),
}

/// Why a reconcile was not compared as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The plugin sends HTTP requests in it, whose responses are not recorded.
    Http,
    /// A call in it has no answer, because the reconcile reached its time limit.
    Abandoned,
}

/// The first difference between a recorded reconcile and its replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// How many calls were equal before.
    pub equal_calls: usize,
    /// What the recording has.
    pub recorded: Step,
    /// What the plugin did.
    pub replayed: Step,
    /// Whether the plugin read values of Secrets of which the recording has only hashes.
    pub read_hashes: bool,
    /// Whether the plugin drew random bytes that are not recorded.
    pub drew_random: bool,
}

/// What a guest does next in a reconcile.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// It calls a function.
    Call {
        /// The function.
        function: String,
        /// The arguments.
        arguments: Value,
    },
    /// It returns this result.
    Result(Value),
}

impl From<&RecordedCall> for Step {
    fn from(call: &RecordedCall) -> Self {
        Self::Call { function: call.function.clone(), arguments: call.arguments.clone() }
    }
}

impl Replayer {
    /// Loads the plugin at `path` and describes it with the configuration of a recording. `limits` are those of its sidecar.
    ///
    /// # Errors
    /// Returns an error if the plugin does not load, or has no reconciles that can be replayed.
    pub async fn load(
        engine: &Engine,
        path: &Path,
        limits: &SidecarLimits,
        head: &RecordingHead,
    ) -> Result<Self, ReplayError> {
        let wasm = |path: &Path| plugin_file::read_anywhere(path, MAX_WASM);
        let wasm =
            read_blocking(path, wasm).await.map_err(|problem| ReplayError::Plugin(problem.to_string()))?;
        let code = engine.load(wasm).await.map_err(ReplayError::Load)?;
        Self::new(code, limits, head).await
    }

    /// Describes a plugin that is loaded already.
    async fn new(
        code: CompiledPlugin,
        limits: &SidecarLimits,
        head: &RecordingHead,
    ) -> Result<Self, ReplayError> {
        let plugin = |problem: String| ReplayError::Plugin(problem);
        let config = head.config.to_string();
        let of_sidecar = limits::effective(None, limits).map_err(|error| plugin(error.to_string()))?;
        let described = code.describe(Arc::new(StubHost::new(config.as_str())), &of_sidecar.instance).await;
        let text = described.map_err(|error| {
            plugin(format!("describe failed with the configuration of the recording: {error}"))
        })?;
        let descriptor = Descriptor::parse(&text).map_err(|error| plugin(error.to_string()))?;
        if descriptor.stateful {
            return Err(ReplayError::Stateful);
        }
        if !code.exports().reconcile {
            return Err(ReplayError::NoReconcile);
        }
        let limits =
            limits::effective(Some(&descriptor.limits), limits).map_err(|error| plugin(error.to_string()))?;
        Ok(Self { code, limits: limits.instance, config })
    }

    /// Returns the SHA-256 of the plugin's file, in hex.
    #[must_use]
    pub fn digest(&self) -> &str {
        self.code.digest()
    }

    /// Runs a recorded reconcile in a new instance that gets the recorded answers, up to the first call that differs.
    ///
    /// # Errors
    /// Returns an error if the recording is damaged, or if the plugin cannot be instantiated.
    pub async fn replay(
        &self,
        head: &RecordingHead,
        reconcile: &RecordedReconcile,
    ) -> Result<Replayed, ReplayError> {
        if reconcile.calls.iter().any(|call| call.function == "http") {
            return Ok(Replayed::Skipped(SkipReason::Http));
        }
        let now = time_of(reconcile)?;
        let host = Arc::new(RecordedHost::new(self.config.clone(), now));
        let mut instance = self
            .code
            .instantiate(Arc::<RecordedHost>::clone(&host), &self.limits)
            .await
            .map_err(|fault| ReplayError::Plugin(fault.to_string()))?;
        host.begin(Script::new(reconcile, now).map_err(ReplayError::Damaged)?);
        let result = instance.reconcile(request_of(reconcile)?).await;
        let result = GuestResult::Reconcile(result).to_json();
        let Some(script) = host.end() else {
            return Err(ReplayError::Damaged("the script is lost".to_owned()));
        };
        let replayed = compare(&script, &reconcile.result, result)?;
        Ok(with_notes(replayed, head, &script))
    }
}

/// Compares a recorded reconcile with its replay, which has ended with this result.
fn compare(script: &Script, recorded_result: &Value, result: Value) -> Result<Replayed, ReplayError> {
    let different = |equal_calls, recorded, replayed| {
        let difference =
            Difference { equal_calls, recorded, replayed, read_hashes: false, drew_random: false };
        Ok(Replayed::Different(Box::new(difference)))
    };
    match script.state() {
        State::Ended => Ok(Replayed::Skipped(SkipReason::Abandoned)),
        State::Damaged { position, problem } => {
            Err(ReplayError::Damaged(format!("call {}: {problem}", position + 1)))
        }
        State::Differs { position, recorded, replayed: (function, arguments) } => {
            let recorded =
                recorded.as_ref().map_or_else(|| Step::Result(recorded_result.clone()), Step::from);
            let replayed = Step::Call { function: (*function).to_owned(), arguments: arguments.clone() };
            different(*position, recorded, replayed)
        }
        State::Following => match script.remaining() {
            Some(call) => different(script.position(), Step::from(call), Step::Result(result)),
            None => match compare_results(recorded_result, &result) {
                Some(uncompared) => {
                    Ok(Replayed::Equal { uncompared_values: script.uncompared_values + uncompared })
                }
                None => {
                    different(script.position(), Step::Result(recorded_result.clone()), Step::Result(result))
                }
            },
        },
    }
}

/// Compares two results. Returns how many values could not be compared, or `None` if the results differ. The text of a fault depends on the
/// instance, so only the fact counts.
fn compare_results(recorded: &Value, replayed: &Value) -> Option<u64> {
    let is_fault = |result: &Value| result.get("fault").is_some();
    if is_fault(recorded) && is_fault(replayed) { Some(0) } else { secrets::compare(recorded, replayed) }
}

/// Adds what may have caused a difference besides the plugin's code.
fn with_notes(replayed: Replayed, head: &RecordingHead, script: &Script) -> Replayed {
    match replayed {
        Replayed::Different(mut difference) => {
            difference.read_hashes = head.secrets == SecretMode::Hashed && script.read_hashes;
            difference.drew_random = script.drew_random;
            Replayed::Different(difference)
        }
        other => other,
    }
}

/// Returns when the reconcile began, as the time since the Unix epoch.
fn time_of(reconcile: &RecordedReconcile) -> Result<Duration, ReplayError> {
    let time = reconcile
        .time
        .parse::<Timestamp>()
        .map_err(|error| ReplayError::Damaged(format!("{:?} is no time: {error}", reconcile.time)))?;
    Ok(u64::try_from(time.as_microsecond()).map_or(Duration::ZERO, Duration::from_micros))
}

fn request_of(reconcile: &RecordedReconcile) -> Result<Request, ReplayError> {
    let reason = |name: &String| {
        Reason::from_name(name).ok_or_else(|| ReplayError::Damaged(format!("unknown reason {name:?}")))
    };
    Ok(Request {
        watch: reconcile.watch.as_str().into(),
        key: ObjectKey::new(&reconcile.namespace, &reconcile.name),
        reasons: reconcile.reasons.iter().map(reason).collect::<Result<_, _>>()?,
        attempt: reconcile.attempt,
        extra: reconcile.extra.clone(),
        event_at: None,
        host_context: None,
    })
}

#[cfg(test)]
mod tests {
    use pilothouse_plugin::{EngineOptions, HostRequest};
    use serde_json::json;

    use super::*;
    use crate::recording::FORMAT;

    fn head() -> RecordingHead {
        RecordingHead {
            format: FORMAT.to_owned(),
            plugin: "reads".to_owned(),
            digest: "ab".repeat(32),
            config: json!({}),
            secrets: SecretMode::Hashed,
        }
    }

    fn reconcile(calls: Vec<RecordedCall>, result: Value) -> RecordedReconcile {
        RecordedReconcile {
            time: "2026-01-02T03:04:05.678901Z".to_owned(),
            microseconds: 1,
            watch: "configmaps".to_owned(),
            namespace: "default".to_owned(),
            name: "a".to_owned(),
            reasons: vec!["updated".to_owned()],
            attempt: 0,
            extra: Vec::new(),
            calls,
            result,
        }
    }

    fn call(function: &str, arguments: Value, answer: Value) -> RecordedCall {
        RecordedCall { function: function.to_owned(), arguments, answer }
    }

    /// The only call that the guest `reads.wat` makes at attempt 0.
    fn get() -> RecordedCall {
        call("cache.get", json!({"watch": "configmaps", "key": "default/a"}), json!({"object": null}))
    }

    async fn code(guest: &str) -> CompiledPlugin {
        let path = format!("{}/../plugin/tests/guests/{guest}", env!("CARGO_MANIFEST_DIR"));
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        engine.load(wat::parse_file(path).expect("a guest")).await.expect("a plugin")
    }

    /// The guest's `describe` returns its configuration, so a replayer is made without it.
    async fn replayer() -> Replayer {
        Replayer { code: code("reads.wat").await, limits: InstanceLimits::default(), config: "{}".to_owned() }
    }

    fn difference(replayed: Replayed) -> Difference {
        match replayed {
            Replayed::Different(difference) => *difference,
            other => panic!("expected a difference, got {other:?}"),
        }
    }

    #[tokio::test]
    async fn the_same_calls_and_the_same_result_are_equal() {
        let replayed = replayer().await.replay(&head(), &reconcile(vec![get()], json!("done"))).await;
        assert_eq!(replayed.expect("a replay"), Replayed::Equal { uncompared_values: 0 });
    }

    #[test]
    fn values_of_which_the_recording_has_only_hashes_are_counted() {
        let hash = format!("hmac-sha256:{}", "0".repeat(64));
        let create = call(
            "client.create",
            json!({"manifest": {"kind": "Secret", "stringData": {"a": hash}}, "subresource": ""}),
            json!("nothing"),
        );
        let now = Duration::ZERO;
        for (value, expected) in [("changed", 1), (hash.as_str(), 0)] {
            let manifest = json!({"kind": "Secret", "stringData": {"a": value}}).to_string();
            let recorded = reconcile(vec![create.clone()], json!("done"));
            let mut script = Script::new(&recorded, now).expect("a script");
            let request = HostRequest::ClientCreate { manifest, subresource: String::new() };
            assert!(script.answer(&request).is_some(), "{:?}", script.state());
            let replayed = compare(&script, &json!("done"), json!("done")).expect("a comparison");
            assert_eq!(replayed, Replayed::Equal { uncompared_values: expected });
        }
        let results = [json!({"retry": hash}), json!({"retry": "a"})];
        assert_eq!(compare_results(&results[0], &results[1]), Some(1));
    }

    #[tokio::test]
    async fn the_limits_of_the_sidecar_apply() {
        let limits: SidecarLimits = serde_json::from_value(json!({"memory": "512Mi"})).expect("limits");
        let replayer = Replayer::new(code("trap.wat").await, &limits, &head()).await.expect("a plugin");
        assert_eq!(replayer.limits.memory, 512 << 20);
    }

    #[tokio::test]
    async fn a_differing_call_is_shown_with_both_sides() {
        let mut other = get();
        other.arguments["key"] = json!("default/b");
        let recorded = reconcile(vec![other.clone()], json!("done"));
        let replayed = replayer().await.replay(&head(), &recorded).await.expect("a replay");
        let found = difference(replayed);
        assert_eq!((found.equal_calls, &found.recorded), (0, &Step::from(&other)));
        assert_eq!(found.replayed, Step::from(&get()));
    }

    #[tokio::test]
    async fn a_missing_call_and_another_result_are_differences() {
        let replayer = replayer().await;
        let two = reconcile(vec![get(), get()], json!("done"));
        let found = difference(replayer.replay(&head(), &two).await.expect("a replay"));
        assert_eq!((found.equal_calls, found.replayed), (1, Step::Result(json!("done"))));
        let retry = reconcile(vec![get()], json!({"retry": "later"}));
        let found = difference(replayer.replay(&head(), &retry).await.expect("a replay"));
        assert_eq!(found.recorded, Step::Result(json!({"retry": "later"})));
        let none = reconcile(Vec::new(), json!("done"));
        let found = difference(replayer.replay(&head(), &none).await.expect("a replay"));
        assert_eq!((found.recorded, found.replayed), (Step::Result(json!("done")), Step::from(&get())));
    }

    #[tokio::test]
    async fn what_cannot_be_compared_is_skipped_or_refused() {
        let replayer = replayer().await;
        let http =
            call("http", json!({"method": "GET", "url": "https://a.example/"}), json!({"httpStatus": 200}));
        let skipped = replayer.replay(&head(), &reconcile(vec![get(), http], json!("done"))).await;
        assert_eq!(skipped.expect("a replay"), Replayed::Skipped(SkipReason::Http));
        let mut abandoned = get();
        abandoned.answer = json!("abandoned");
        let skipped = replayer.replay(&head(), &reconcile(vec![abandoned], json!("done"))).await;
        assert_eq!(skipped.expect("a replay"), Replayed::Skipped(SkipReason::Abandoned));
        let mut damaged = get();
        damaged.answer = json!({"hasSynced": true});
        let error = replayer.replay(&head(), &reconcile(vec![damaged], json!("done"))).await;
        let error = error.expect_err("damaged").to_string();
        assert!(error.contains("call 1: the answer of cache.get is of another function"), "{error}");
        let mut damaged = reconcile(vec![get()], json!("done"));
        damaged.time = "yesterday".to_owned();
        assert!(replayer.replay(&head(), &damaged).await.is_err());
    }

    #[tokio::test]
    async fn plugins_that_cannot_be_replayed_are_refused() {
        let limits = SidecarLimits::default();
        let described = Replayer::new(code("trap.wat").await, &limits, &head()).await.expect("a plugin");
        assert_eq!(described.digest().len(), 64);
        let error =
            Replayer::new(code("reads.wat").await, &limits, &head()).await.err().expect("no descriptor");
        assert!(matches!(error, ReplayError::Plugin(_)), "{error}");
    }

    #[test]
    fn faults_are_equal_whatever_their_text() {
        assert_eq!(compare_results(&json!({"fault": "a"}), &json!({"fault": "b"})), Some(0));
        assert_eq!(compare_results(&json!({"fault": "a"}), &json!("done")), None);
        assert_eq!(compare_results(&json!({"retry": "a"}), &json!({"retry": "b"})), None);
    }
}
