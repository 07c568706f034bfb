//! Drives one plugin's state machine and reports its transitions: all of them by metrics, the important ones
//! by Events.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use pilothouse_model::Object;
use serde_json::json;

use super::life::{Impossible, Input, Life, rfc_3339};
use super::words::{HostMemoryStatus, PluginState, PluginStatus};
use crate::client::{EventRecorder, NewEvent};
use crate::metrics::PluginMetrics;
use crate::name::PluginName;

/// A plugin that waits this long gets an Event.
const LONG: Duration = Duration::from_secs(30);
/// Events of one plugin about itself that may be sent at once. A flapping plugin must not flood the cluster.
const BURST: u32 = 10;
/// The interval after which one more Event may be sent.
const ONE_MORE: Duration = Duration::from_secs(60);
/// Maximum length of an Event's note in characters: the API server accepts 1024 bytes.
const NOTE: usize = 256;

/// The lifecycle of one plugin. Cheap to clone. Reporting a transition never waits and never fails.
#[derive(Clone)]
pub(crate) struct Lifecycle {
    inner: Arc<Mutex<Inner>>,
    name: PluginName,
    metrics: Arc<PluginMetrics>,
    events: EventRecorder,
    /// The object that the Events refer to.
    regarding: Option<Object>,
}

struct Inner {
    life: Life,
    budget: Budget,
    /// Whether the long wait has been reported.
    waits_long: bool,
}

/// An Event about the plugin itself.
#[derive(Debug, PartialEq)]
struct Notice {
    warning: bool,
    reason: &'static str,
    note: String,
}

impl Lifecycle {
    /// The lifecycle of a plugin whose file was just found. Its Events go to `namespace`, which is the host's
    /// own.
    pub(crate) fn begin(
        name: PluginName,
        namespace: &str,
        metrics: Arc<PluginMetrics>,
        events: EventRecorder,
    ) -> Self {
        let life = Life::found(Timestamp::now());
        metrics.state.enter(life.state);
        let inner = Inner { life, budget: Budget::default(), waits_long: false };
        let plugin = json!({
            "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
            "metadata": {"name": name.as_str(), "namespace": namespace},
        });
        let regarding = Object::from_json(plugin.to_string()).ok();
        Self { inner: Arc::new(Mutex::new(inner)), name, metrics, events, regarding }
    }

    /// Applies an input and reports the transition. Returns whether the state has changed.
    pub(crate) fn apply(&self, input: &Input<'_>) -> bool {
        self.apply_at(input, Timestamp::now())
    }

    fn apply_at(&self, input: &Input<'_>, now: Timestamp) -> bool {
        let mut inner = self.inner.lock();
        let before = inner.life.state;
        if let Err(Impossible { .. }) = inner.life.apply(input, now).inspect_err(|impossible| {
            tracing::error!(plugin = %self.name, "{impossible}");
            debug_assert!(false, "{impossible}");
        }) {
            return false;
        }
        let changed = inner.life.state != before;
        if changed {
            inner.waits_long = false;
            self.metrics.state.enter(inner.life.state);
        }
        if let Some(notice) = notice(before, input, &inner.life) {
            self.tell(&mut inner.budget, &notice, now);
        }
        changed
    }

    /// Reports, once, that the plugin has been waiting for long. Called periodically.
    pub(crate) fn look(&self) {
        self.look_at(Timestamp::now());
    }

    fn look_at(&self, now: Timestamp) {
        let mut inner = self.inner.lock();
        let waits = inner.life.state == PluginState::Waiting && now >= inner.life.since + LONG;
        if waits && !inner.waits_long {
            inner.waits_long = true;
            let note = format!("The plugin waits: {}", inner.life.reason);
            self.tell(&mut inner.budget, &Notice { warning: true, reason: "Waiting", note }, now);
        }
    }

    /// The number of the current load, by which its steps are recognised.
    pub(crate) fn load(&self) -> u64 {
        self.inner.lock().life.load()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.inner.lock().life.generation
    }

    /// What is wrong now, or what the plugin waits for; "" if nothing.
    pub(crate) fn error(&self) -> String {
        self.inner.lock().life.error(Timestamp::now())
    }

    /// The part of the plugin's status that the state machine knows.
    pub(crate) fn status(&self) -> PluginStatus {
        let now = Timestamp::now();
        let life = self.inner.lock().life.clone();
        PluginStatus {
            name: self.name.to_string(),
            state: life.state,
            generation: life.generation,
            error: life.error(now),
            queue_depth: 0,
            host_memory: HostMemoryStatus::default(),
            counters: std::collections::BTreeMap::new(),
            since: rfc_3339(life.since),
            next_try: life.next_try().map(rfc_3339),
            version: life.version,
            digest: life.digest,
        }
    }

    /// Sends an Event about the plugin that is not due to a transition.
    pub(crate) fn warn(&self, reason: &'static str, note: String) {
        let notice = Notice { warning: true, reason, note };
        self.tell(&mut self.inner.lock().budget, &notice, Timestamp::now());
    }

    fn tell(&self, budget: &mut Budget, notice: &Notice, now: Timestamp) {
        let Some(regarding) = self.regarding.clone() else { return };
        let recorded = budget.take(now)
            && self.events.record(NewEvent {
                plugin: self.name.to_shared(),
                regarding,
                warning: notice.warning,
                reason: notice.reason.to_owned(),
                action: "Run".to_owned(),
                note: notice.note.chars().take(NOTE).collect(),
            });
        if !recorded {
            self.metrics.events_dropped.inc();
        }
    }
}

/// Returns the Event for a transition; `None` for intermediate steps. Equal transitions have equal notes,
/// without times and counts, so that the API server's clients see them as one Event series.
fn notice(before: PluginState, input: &Input<'_>, life: &Life) -> Option<Notice> {
    let normal = |reason, note| Some(Notice { warning: false, reason, note });
    let warning = |reason, note| Some(Notice { warning: true, reason, note });
    let changed = life.state != before;
    match input {
        Input::Installed { version, .. } => {
            let version = if version.is_empty() { "without a number" } else { version };
            normal("Running", format!("The plugin runs, version {version}"))
        }
        Input::Recovered if changed => {
            normal("Recovered", "The plugin succeeds again after faults".to_owned())
        }
        Input::Refused { problem } => {
            let what =
                if changed { "The plugin cannot run" } else { "The plugin's changed file was refused" };
            warning("LoadFailed", format!("{what}: {problem}"))
        }
        Input::Postponed { problem, .. } => {
            warning("LoadPostponed", format!("The plugin cannot be loaded yet: {problem}"))
        }
        Input::Faulty { problem, .. } if changed => {
            warning("BackingOff", format!("The plugin fails again and again, and backs off: {problem}"))
        }
        // A host that is being replaced must not send an Event for every plugin.
        Input::Stopped { why, with_host: false } => {
            normal("Stopped", format!("The plugin was stopped: {why}"))
        }
        _ => None,
    }
}

/// Limits the number of Events, as a token bucket. Pure.
#[derive(Debug, Default)]
struct Budget {
    spent: u32,
    since: Option<Timestamp>,
}

impl Budget {
    fn take(&mut self, now: Timestamp) -> bool {
        let since = *self.since.get_or_insert(now);
        let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        let earned = u32::try_from(passed.as_secs() / ONE_MORE.as_secs()).unwrap_or(u32::MAX);
        if earned > 0 {
            self.spent = self.spent.saturating_sub(earned);
            self.since = Some(now);
        }
        let is_left = self.spent < BURST;
        self.spent += u32::from(is_left);
        is_left
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;
    use serde_json::Value;

    use super::*;
    use crate::client::Server;
    use crate::metrics::Metrics;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn a_plugin_that_flaps_does_not_flood() {
        let mut budget = Budget::default();
        let told = (0..1000).filter(|_| budget.take(at(0))).count();
        assert_eq!(told, 10);
        assert!(!budget.take(at(59)));
        assert!(budget.take(at(60)));
        assert!(!budget.take(at(61)));
        let in_an_hour = (0..3600).filter(|second| budget.take(at(100 + second))).count();
        assert!((55..=62).contains(&in_an_hour), "{in_an_hour}");
    }

    #[test]
    fn events_tell_of_ends_and_not_of_steps_and_are_equal_for_equal_changes() {
        let mut life = Life::found(at(0));
        let mut told = Vec::new();
        let step = |state| Input::Step { load: 1, state, waiting_for: "" };
        let wait = Duration::from_secs(1);
        for input in [
            Input::Found,
            step(PluginState::Compiling),
            step(PluginState::Describing),
            Input::Installed { version: "1.0", digest: "abc" },
            Input::Faulty { problem: "it traps", wait },
            Input::Faulty { problem: "it traps", wait: wait * 2 },
            Input::Recovered,
            Input::Faulty { problem: "it traps", wait },
            Input::Refused { problem: "not wasm" },
            Input::Draining,
            Input::Stopped { why: "the host is shutting down", with_host: true },
            Input::Draining,
            Input::Stopped { why: "its file was removed", with_host: false },
        ] {
            let before = life.state;
            life.apply(&input, at(1)).expect("possible");
            told.extend(notice(before, &input, &life));
        }
        let reasons: Vec<_> = told.iter().map(|notice| notice.reason).collect();
        assert_eq!(reasons, ["Running", "BackingOff", "Recovered", "BackingOff", "LoadFailed", "Stopped"]);
        assert_eq!(told[1], told[3]);
        assert!(told[1].warning && !told[0].warning);
    }

    /// The paths and bodies of the requests.
    type Written = Arc<Mutex<Vec<(String, Value)>>>;

    /// A plugin's lifecycle, the Events that it sends, and its metrics.
    fn stage() -> (Lifecycle, Written, Registry) {
        use http_body_util::BodyExt;

        let written = Written::default();
        let kept = Arc::clone(&written);
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let kept = Arc::clone(&kept);
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.expect("a body").to_bytes();
                kept.lock().push((path, serde_json::from_slice(&body).expect("JSON")));
                Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
            }
        });
        let mut registry = Registry::default();
        let name = PluginName::of_file(Path::new("p.wasm")).expect("a name");
        let metrics = Metrics::register(&mut registry).of(&name);
        let events = EventRecorder::start(
            Server::new(kube::Client::new(service, "default")),
            "pod".into(),
            crate::logs::PluginLogs::default(),
        );
        (Lifecycle::begin(name, "pilothouse-system", metrics, events), written, registry)
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_waits_for_long_is_told_of_once_and_in_the_hosts_namespace() {
        let (lifecycle, written, _) = stage();
        lifecycle.apply_at(&Input::Found, at(0));
        let step = Input::Step { load: 1, state: PluginState::Waiting, waiting_for: "the CRD foos" };
        lifecycle.apply_at(&step, at(10));
        for second in [20, 39, 40, 70, 400] {
            lifecycle.look_at(at(second));
        }
        while written.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        let written = written.lock();
        assert_eq!(written.len(), 1);
        let (path, event) = &written[0];
        assert_eq!(path, "/apis/events.k8s.io/v1/namespaces/pilothouse-system/events");
        assert_eq!((&event["reason"], &event["type"]), (&json!("Waiting"), &json!("Warning")));
        assert_eq!(event["note"], "The plugin waits: the CRD foos");
        let regarding = json!({
            "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "name": "p", "namespace": "pilothouse-system",
            "uid": "", "resourceVersion": "",
        });
        assert_eq!(event["regarding"], regarding);
    }

    #[tokio::test(start_paused = true)]
    async fn each_state_is_a_gauge_and_each_change_is_counted() {
        let (lifecycle, _, registry) = stage();
        lifecycle.apply_at(&Input::Found, at(0));
        lifecycle.apply_at(&Input::Refused { problem: "not wasm" }, at(1));
        let mut text = String::new();
        encode(&mut text, &registry).expect("text");
        for (state, gauge, entered) in [("found", 0, 1), ("failed", 1, 1), ("running", 0, 0)] {
            let labels = format!("{{plugin=\"p\",state=\"{state}\"}}");
            for line in [
                format!("pilothouse_plugin_state{labels} {gauge}\n"),
                format!("pilothouse_plugin_transitions_total{labels} {entered}\n"),
            ] {
                assert!(text.contains(&line), "{line}{text}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "a plugin that is found cannot take Recovered")]
    async fn an_impossible_change_is_a_fault_of_the_host() {
        stage().0.apply_at(&Input::Recovered, at(0));
    }
}
