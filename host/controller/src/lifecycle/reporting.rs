//! Drives one plugin's state machine and reports its transitions: all of them by metrics, the important ones
//! by Events.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use pilothouse_model::Object;
use serde_json::json;

use super::history::{StateChange, StateHistory};
use super::state_machine::{IllegalTransition, Input, StateMachine};
use super::status::{HostMemoryStatus, PluginState, PluginStatus};
use crate::client::{EventRecorder, NewEvent, short_note};
use crate::environment::WallClock;
use crate::metrics::PluginMetrics;
use crate::name::PluginName;
use crate::timestamp::rfc_3339;

/// A plugin that waits this long gets an Event.
const LONG_WAIT: Duration = Duration::from_secs(30);
/// Events of one plugin about itself that may be sent at once. A flapping plugin must not flood the cluster.
const EVENT_BURST: u32 = 10;
/// The interval after which one more Event may be sent.
const EVENT_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum length of a note about a plugin that is not provided, in bytes. Longer than others, because the remedy is at its end.
const MAX_PROBLEM: usize = 1000;

/// The lifecycle of one plugin. Cheap to clone. Reporting a transition never waits and never fails.
#[derive(Clone)]
pub(crate) struct Lifecycle {
    inner: Arc<Mutex<Inner>>,
    name: PluginName,
    metrics: Arc<PluginMetrics>,
    events: EventRecorder,
    clock: WallClock,
    /// The object that the Events refer to.
    regarding: Option<Object>,
}

struct Inner {
    machine: StateMachine,
    budget: EventBudget,
    history: StateHistory,
    /// Whether the long wait has been reported.
    long_wait_reported: bool,
}

/// An Event about the plugin itself.
#[derive(Debug, PartialEq)]
struct LifecycleEvent {
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
        clock: WallClock,
    ) -> Self {
        let machine = StateMachine::found(clock.now());
        metrics.state.enter(machine.state);
        let mut history = StateHistory::default();
        history.push(machine.since, machine.state, &machine.reason);
        let inner = Inner { machine, budget: EventBudget::default(), history, long_wait_reported: false };
        let regarding = plugin_object(name.as_str(), namespace);
        Self { inner: Arc::new(Mutex::new(inner)), name, metrics, events, clock, regarding }
    }

    /// Applies an input and reports the transition. Returns whether the state has changed.
    pub(crate) fn apply(&self, input: &Input<'_>) -> bool {
        self.apply_at(input, self.clock.now())
    }

    fn apply_at(&self, input: &Input<'_>, now: Timestamp) -> bool {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let before = inner.machine.state;
        if let Err(IllegalTransition { .. }) = inner.machine.apply(input, now).inspect_err(|illegal| {
            tracing::error!(plugin = %self.name, "{illegal}");
            debug_assert!(false, "{illegal}");
        }) {
            return false;
        }
        let changed = inner.machine.state != before;
        if changed {
            inner.long_wait_reported = false;
            self.metrics.state.enter(inner.machine.state);
            inner.history.push(now, inner.machine.state, &inner.machine.reason);
        }
        if let Some(event) = event_for(before, input, &inner.machine) {
            self.record(&mut inner.budget, &event, now);
        }
        changed
    }

    /// Reports, once, that the plugin has been waiting for long. Called periodically.
    pub(crate) fn report_long_wait(&self) {
        self.report_long_wait_at(self.clock.now());
    }

    fn report_long_wait_at(&self, now: Timestamp) {
        let mut inner = self.inner.lock();
        let waits = inner.machine.state == PluginState::Waiting && now >= inner.machine.since + LONG_WAIT;
        if waits && !inner.long_wait_reported {
            inner.long_wait_reported = true;
            let note = format!("The plugin waits: {}", inner.machine.reason);
            self.record(&mut inner.budget, &LifecycleEvent { warning: true, reason: "Waiting", note }, now);
        }
    }

    /// The number of the current load, by which its steps are recognised.
    pub(crate) fn load_number(&self) -> u64 {
        self.inner.lock().machine.load_number()
    }

    pub(crate) fn state(&self) -> PluginState {
        self.inner.lock().machine.state
    }

    pub(crate) fn generation(&self) -> u64 {
        self.inner.lock().machine.generation
    }

    /// What is wrong now, or what the plugin waits for; "" if nothing.
    pub(crate) fn error(&self) -> String {
        self.inner.lock().machine.error(self.clock.now())
    }

    /// The last changes of the state, the oldest first.
    pub(crate) fn history(&self) -> Vec<StateChange> {
        self.inner.lock().history.changes()
    }

    /// The part of the plugin's status that the state machine knows.
    pub(crate) fn status(&self) -> PluginStatus {
        let now = self.clock.now();
        let machine = self.inner.lock().machine.clone();
        PluginStatus {
            name: self.name.to_string(),
            state: machine.state,
            generation: machine.generation,
            error: machine.error(now),
            queue_depth: 0,
            host_memory: HostMemoryStatus::default(),
            counters: std::collections::BTreeMap::new(),
            since: rfc_3339(machine.since),
            compiling_since: None,
            next_try: machine.next_try().map(rfc_3339),
            version: machine.version,
            digest: machine.digest,
            ready: false,
            failing: false,
            paused: false,
            removed: false,
            consecutive_errors: 0,
            keys_in_backoff: 0,
            last_error: None,
            rollout: None,
            shadow: None,
            source: None,
        }
    }

    /// Sends an Event about the plugin that is not due to a transition.
    pub(crate) fn warn(&self, reason: &'static str, note: String) {
        let event = LifecycleEvent { warning: true, reason, note };
        self.record(&mut self.inner.lock().budget, &event, self.clock.now());
    }

    fn record(&self, budget: &mut EventBudget, event: &LifecycleEvent, now: Timestamp) {
        let Some(regarding) = self.regarding.clone() else { return };
        let recorded = budget.take(now)
            && self.events.record(NewEvent {
                plugin: self.name.to_shared(),
                regarding,
                warning: event.warning,
                reason: event.reason.to_owned(),
                action: "Run".to_owned(),
                note: short_note(&event.note),
            });
        if !recorded {
            self.metrics.events_dropped.inc();
        }
    }
}

/// The object that Events about a plugin refer to.
fn plugin_object(name: &str, namespace: &str) -> Option<Object> {
    let plugin = json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
        "metadata": {"name": name, "namespace": namespace},
    });
    Object::from_json(plugin.to_string()).ok()
}

/// Returns a warning about a plugin that another source cannot provide, or cannot bring up to date.
pub(crate) fn not_provided(name: &str, namespace: &str, problem: &str) -> Option<NewEvent> {
    Some(NewEvent {
        plugin: name.into(),
        regarding: plugin_object(name, namespace)?,
        warning: true,
        reason: "NotProvided".to_owned(),
        action: "Load".to_owned(),
        note: problem[..problem.floor_char_boundary(MAX_PROBLEM)].to_owned(),
    })
}

/// Returns an Event about a new version of a plugin that another source provides.
pub(crate) fn provided(name: &str, namespace: &str, text: &str) -> Option<NewEvent> {
    Some(NewEvent {
        plugin: name.into(),
        regarding: plugin_object(name, namespace)?,
        warning: false,
        reason: "Provided".to_owned(),
        action: "Load".to_owned(),
        note: text[..text.floor_char_boundary(MAX_PROBLEM)].to_owned(),
    })
}

/// Returns the Event for a transition; `None` for intermediate steps. Equal transitions have equal notes,
/// without times and counts, so that the API server's clients see them as one Event series.
fn event_for(before: PluginState, input: &Input<'_>, machine: &StateMachine) -> Option<LifecycleEvent> {
    let normal = |reason, note| Some(LifecycleEvent { warning: false, reason, note });
    let warning = |reason, note| Some(LifecycleEvent { warning: true, reason, note });
    let changed = machine.state != before;
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
struct EventBudget {
    spent: u32,
    since: Option<Timestamp>,
}

impl EventBudget {
    fn take(&mut self, now: Timestamp) -> bool {
        let since = *self.since.get_or_insert(now);
        let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        let earned = u32::try_from(passed.as_secs() / EVENT_INTERVAL.as_secs()).unwrap_or(u32::MAX);
        if earned > 0 {
            self.spent = self.spent.saturating_sub(earned);
            self.since = Some(now);
        }
        let is_left = self.spent < EVENT_BURST;
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
    use crate::client::ApiClient;
    use crate::metrics::Metrics;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn a_flapping_plugin_does_not_flood_the_cluster_with_events() {
        let mut budget = EventBudget::default();
        let sent = (0..1000).filter(|_| budget.take(at(0))).count();
        assert_eq!(sent, 10);
        assert!(!budget.take(at(59)));
        assert!(budget.take(at(60)));
        assert!(!budget.take(at(61)));
        let in_an_hour = (0..3600).filter(|second| budget.take(at(100 + second))).count();
        assert!((55..=62).contains(&in_an_hour), "{in_an_hour}");
    }

    #[test]
    fn only_final_transitions_have_events_and_equal_ones_have_equal_events() {
        let mut machine = StateMachine::found(at(0));
        let mut sent = Vec::new();
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
            let before = machine.state;
            machine.apply(&input, at(1)).expect("possible");
            sent.extend(event_for(before, &input, &machine));
        }
        let reasons: Vec<_> = sent.iter().map(|event| event.reason).collect();
        assert_eq!(reasons, ["Running", "BackingOff", "Recovered", "BackingOff", "LoadFailed", "Stopped"]);
        assert_eq!(sent[1], sent[3]);
        assert!(sent[1].warning && !sent[0].warning);
    }

    /// The paths and bodies of the requests.
    type Requests = Arc<Mutex<Vec<(String, Value)>>>;

    /// A plugin's lifecycle, the Events that it sends, and its metrics.
    fn fixture() -> (Lifecycle, Requests, Registry) {
        use http_body_util::BodyExt;

        let written = Requests::default();
        let requests = Arc::clone(&written);
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let requests = Arc::clone(&requests);
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.expect("a body").to_bytes();
                requests.lock().push((path, serde_json::from_slice(&body).expect("JSON")));
                Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
            }
        });
        let mut registry = Registry::default();
        let name = PluginName::of_file(Path::new("p.wasm")).expect("a name");
        let metrics = Metrics::register(&mut registry).for_plugin(&name);
        let events = EventRecorder::start(
            ApiClient::new(kube::Client::new(service, "default")),
            "pod".into(),
            crate::logs::PluginLogs::default(),
            WallClock::default(),
        );
        (
            Lifecycle::begin(name, "pilothouse-system", metrics, events, WallClock::default()),
            written,
            registry,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_wait_is_reported_once_and_in_the_hosts_namespace() {
        let (lifecycle, written, _) = fixture();
        lifecycle.apply_at(&Input::Found, at(0));
        let step = Input::Step { load: 1, state: PluginState::Waiting, waiting_for: "the CRD foos" };
        lifecycle.apply_at(&step, at(10));
        for second in [20, 39, 40, 70, 400] {
            lifecycle.report_long_wait_at(at(second));
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
    async fn each_state_is_a_gauge_and_each_transition_is_counted() {
        let (lifecycle, _, registry) = fixture();
        lifecycle.apply_at(&Input::Found, at(0));
        lifecycle.apply_at(&Input::Refused { problem: "not wasm" }, at(1));
        let mut text = String::new();
        encode(&mut text, &registry).expect("text");
        for (state, gauge, entered) in [("found", 0, 1), ("failed", 1, 1), ("running", 0, 0)] {
            let labels = format!("{{controller=\"p\",plugin=\"p\",state=\"{state}\"}}");
            for line in [
                format!("pilothouse_plugin_state{labels} {gauge}\n"),
                format!("pilothouse_plugin_transitions_total{labels} {entered}\n"),
            ] {
                assert!(text.contains(&line), "{line}{text}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "illegal transition of a plugin that is found: Recovered")]
    async fn an_illegal_transition_is_a_bug_of_the_host() {
        fixture().0.apply_at(&Input::Recovered, at(0));
    }
}
