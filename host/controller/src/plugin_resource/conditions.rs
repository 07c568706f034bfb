//! Computes the status of an object of the kind `Plugin` from what is known of its plugin. Pure: the time is passed in.

use super::object::PluginObject;
use super::object_status::{Condition, ConditionStatus, PluginObjectStatus};
use super::selection::Refusal;
use crate::host::{ProvidedReport, Verification};
use crate::lifecycle::{PluginState, PluginStatus};
use crate::logs::printable;

/// Limit in bytes for a message.
const MAX_MESSAGE: usize = 1024;

/// What is known of the plugin of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation<'a> {
    /// Why the object is not run; `None` if it is.
    pub(crate) refusal: Option<&'a Refusal>,
    /// What the registries' side knows.
    pub(crate) report: &'a ProvidedReport,
    /// The plugin's status; `None` if the host has not loaded it.
    pub(crate) plugin: Option<&'a PluginStatus>,
}

/// What a condition says.
struct Finding {
    status: ConditionStatus,
    reason: String,
    message: String,
}

impl Finding {
    fn new(status: ConditionStatus, reason: &str, message: &str) -> Self {
        Self { status, reason: reason.to_owned(), message: bounded(message) }
    }

    fn yes(reason: &str, message: &str) -> Self {
        Self::new(ConditionStatus::True, reason, message)
    }

    fn no(reason: &str, message: &str) -> Self {
        Self::new(ConditionStatus::False, reason, message)
    }

    fn unknown(reason: &str, message: &str) -> Self {
        Self::new(ConditionStatus::Unknown, reason, message)
    }
}

/// Returns the status that the object should have. `now` is the time in RFC 3339.
pub(crate) fn wanted_status(
    object: &PluginObject,
    stored: &PluginObjectStatus,
    observation: Observation<'_>,
    now: &str,
) -> PluginObjectStatus {
    let Observation { refusal, report, plugin } = observation;
    let running = running(observation);
    let findings = [
        ("Accepted", accepted(refusal)),
        ("Verified", verified(observation)),
        ("Loaded", loaded(observation)),
        ("Ready", ready(observation, &running)),
        ("Running", running),
    ];
    let conditions = findings.map(|(name, Finding { status, reason, message })| {
        let before = stored.conditions.iter().find(|condition| condition.r#type == name);
        let since =
            before.filter(|before| before.status == status && !before.last_transition_time.is_empty());
        Condition {
            r#type: name.to_owned(),
            status,
            reason,
            message,
            last_transition_time: since.map_or(now, |before| &before.last_transition_time).to_owned(),
            observed_generation: object.generation,
        }
    });
    let plugin = plugin.filter(|_| refusal.is_none());
    PluginObjectStatus {
        observed_generation: object.generation,
        state: plugin.map(|plugin| plugin.state.as_str().to_owned()).unwrap_or_default(),
        version: plugin.map(|plugin| bounded(&plugin.version)).unwrap_or_default(),
        digest: refusal.map_or_else(|| report.digest.clone(), |_| String::new()),
        last_error: bounded(last_error(observation)),
        conditions: conditions.into(),
    }
}

/// Returns a text of a plugin or a registry as one line of printable characters, and only as much of it as a message may have.
fn bounded(text: &str) -> String {
    let mut text = printable(&text[..text.floor_char_boundary(MAX_MESSAGE)]).to_string();
    text.truncate(text.floor_char_boundary(MAX_MESSAGE));
    text
}

fn last_error(observation: Observation<'_>) -> &str {
    let Observation { refusal, report, plugin } = observation;
    if let Some(refusal) = refusal {
        return &refusal.message;
    }
    if let Some(plugin) = plugin.filter(|plugin| !plugin.error.is_empty()) {
        return &plugin.error;
    }
    if let Some(failure) = &report.failure {
        return &failure.message;
    }
    plugin.and_then(|plugin| plugin.last_error.as_ref()).map_or("", |error| &error.message)
}

fn accepted(refusal: Option<&Refusal>) -> Finding {
    match refusal {
        None => Finding::yes("Accepted", "the host runs the plugin of this object"),
        Some(refusal) => Finding::no(refusal.reason, &refusal.message),
    }
}

const NOT_ACCEPTED: (&str, &str) = ("NotAccepted", "the condition Accepted says why the object is not run");

fn verified(Observation { refusal, report, .. }: Observation<'_>) -> Finding {
    if refusal.is_some() {
        return Finding::unknown(NOT_ACCEPTED.0, NOT_ACCEPTED.1);
    }
    if let Some(failure) = report.failure.as_ref().filter(|failure| failure.is_unverified) {
        return Finding::no(failure.reason, &failure.message);
    }
    match &report.verification {
        Verification::Pending => Finding::unknown("Pending", "no version has been pulled yet"),
        Verification::NoPolicy => {
            let remedy = "signatures are not verified; set registries.policy in the host's configuration";
            Finding::unknown("NoPolicy", remedy)
        }
        Verification::NoSignatureNeeded => {
            Finding::yes("NoSignatureNeeded", "the signature policy needs no signature for this image")
        }
        Verification::Signed(text) => Finding::yes("Signed", text),
    }
}

fn loaded(observation: Observation<'_>) -> Finding {
    let Observation { refusal, report, plugin } = observation;
    if refusal.is_some() {
        return Finding::no(NOT_ACCEPTED.0, NOT_ACCEPTED.1);
    }
    if let Some(failure) = &report.failure {
        return Finding::no(failure.reason, &failure.message);
    }
    if report.digest.is_empty() {
        return Finding::no("Pulling", "the image is being pulled");
    }
    let Some(plugin) = plugin else { return Finding::no("Loading", "the plugin is being loaded") };
    let is_held_back = plugin.rollout.as_ref().is_some_and(|rollout| rollout.held_back.is_some());
    match plugin.state {
        _ if is_held_back => Finding::no("HeldBack", &plugin.error),
        PluginState::Failed => Finding::no("Failed", &plugin.error),
        PluginState::Running if !plugin.error.is_empty() => Finding::no("NewVersionNotLoaded", &plugin.error),
        PluginState::Stopped => Finding::no("Stopped", stopped(plugin)),
        _ if plugin.compiling_since.is_some() => Finding::no("Loading", "the plugin is being compiled"),
        _ if plugin.digest.is_empty() => {
            Finding::no("Loading", or(&plugin.error, "the plugin is being loaded"))
        }
        _ => Finding::yes("Loaded", "the host runs the newest version of the image that it has found"),
    }
}

fn running(observation: Observation<'_>) -> Finding {
    let Observation { refusal, report, plugin } = observation;
    if refusal.is_some() {
        return Finding::no(NOT_ACCEPTED.0, NOT_ACCEPTED.1);
    }
    let is_pulled = !report.digest.is_empty();
    let Some(plugin) = plugin.filter(|plugin| is_pulled || plugin.state == PluginState::Running) else {
        return match &report.failure {
            Some(failure) => Finding::no(failure.reason, &failure.message),
            None if is_pulled => Finding::no("Loading", "the plugin is being loaded"),
            None => Finding::no("Pulling", "the image is being pulled"),
        };
    };
    let error = plugin.error.as_str();
    match plugin.state {
        PluginState::Running => Finding::yes("Running", error),
        PluginState::Found | PluginState::Compiling | PluginState::Describing => {
            Finding::no("Loading", or(error, "the plugin is being loaded"))
        }
        PluginState::Waiting => Finding::no("Waiting", or(error, "the plugin waits")),
        PluginState::Draining => Finding::no("Stopping", or(error, "the plugin finishes its work")),
        PluginState::Stopped => Finding::no("Stopped", stopped(plugin)),
        PluginState::Failed => Finding::no("Failed", error),
        PluginState::BackingOff => Finding::no("BackingOff", error),
    }
}

/// `running` is the condition of that name.
fn ready(observation: Observation<'_>, running: &Finding) -> Finding {
    let plugin = observation.plugin.filter(|_| running.status == ConditionStatus::True);
    match plugin {
        None => Finding::no(&running.reason, &running.message),
        Some(plugin) if plugin.ready => Finding::yes("Ready", "the plugin does its work"),
        Some(plugin) if plugin.paused => {
            Finding::no("Paused", "an operator has paused the plugin; resume it with `pilothouse resume`")
        }
        Some(plugin) => {
            let call = plugin.last_error.as_ref().map_or("", |error| &error.message);
            Finding::no("Failing", or(call, or(&plugin.error, "the plugin's calls fail")))
        }
    }
}

fn stopped(plugin: &PluginStatus) -> &str {
    or(&plugin.error, "the plugin is stopped; set spec.enabled to true to run it")
}

fn or<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

#[cfg(test)]
mod tests {
    use pilothouse_model::Object;
    use serde_json::json;

    use super::*;
    use crate::host::ProvidedFailure;

    const NOW: &str = "2026-05-01T12:00:00Z";

    fn object() -> PluginObject {
        let object = json!({
            "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
            "metadata": {"name": "p", "namespace": "n", "generation": 4}, "spec": {"image": "r.example/p:1"},
        });
        PluginObject::parse(&Object::from_json(object.to_string()).expect("an object"))
    }

    fn plugin(state: PluginState, error: &str) -> PluginStatus {
        let is_running = state == PluginState::Running;
        PluginStatus {
            state,
            version: "1.2.0".to_owned(),
            digest: if is_running { "ab".to_owned() } else { String::new() },
            ready: is_running,
            ..PluginStatus::refused("p", &error)
        }
    }

    fn pulled() -> ProvidedReport {
        ProvidedReport {
            image: "r.example/team/p:1".to_owned(),
            digest: "sha256:1".to_owned(),
            verification: Verification::Signed("signed by ci".to_owned()),
            is_current: false,
            failure: None,
        }
    }

    fn failure(reason: &'static str, is_unverified: bool) -> Option<ProvidedFailure> {
        let message = format!("{reason}: log in");
        Some(ProvidedFailure { reason, message, is_unverified })
    }

    /// Returns the status, and each condition as `TYPE=STATUS REASON`.
    fn status(observation: Observation<'_>) -> (PluginObjectStatus, String) {
        let status = wanted_status(&object(), &PluginObjectStatus::default(), observation, NOW);
        let conditions = status.conditions.iter().map(|condition| {
            assert!(!condition.reason.is_empty() && condition.last_transition_time == NOW);
            assert_eq!(condition.observed_generation, 4);
            format!("{}={:?} {}", condition.r#type, condition.status, condition.reason)
        });
        let conditions = conditions.collect::<Vec<_>>().join(", ");
        (status, conditions)
    }

    #[test]
    fn a_running_plugin_has_all_conditions() {
        let plugin = plugin(PluginState::Running, "");
        let (status, conditions) =
            status(Observation { refusal: None, report: &pulled(), plugin: Some(&plugin) });
        assert_eq!(
            conditions,
            "Accepted=True Accepted, Verified=True Signed, Loaded=True Loaded, Ready=True Ready, Running=True Running"
        );
        assert_eq!((status.digest.as_str(), status.version.as_str()), ("sha256:1", "1.2.0"));
        assert_eq!((status.state.as_str(), status.last_error.as_str()), ("running", ""));
        assert_eq!(status.observed_generation, 4);
    }

    #[test]
    fn an_image_that_cannot_be_pulled_is_the_reason_of_all_that_follow() {
        let report = ProvidedReport { failure: failure("Denied", false), ..ProvidedReport::default() };
        let waiting = plugin(PluginState::Waiting, "Denied: log in");
        let (found, conditions) =
            status(Observation { refusal: None, report: &report, plugin: Some(&waiting) });
        assert_eq!(
            conditions,
            "Accepted=True Accepted, Verified=Unknown Pending, Loaded=False Denied, Ready=False Denied, Running=False Denied"
        );
        assert_eq!(found.last_error, "Denied: log in");
        let report = ProvidedReport::default();
        let (_, conditions) = status(Observation { refusal: None, report: &report, plugin: None });
        assert!(conditions.contains("Loaded=False Pulling") && conditions.contains("Running=False Pulling"));
    }

    #[test]
    fn a_newer_version_that_is_refused_does_not_make_the_running_one_unready() {
        for (failure, verified, loaded) in [
            (failure("Unverified", true), "Verified=False Unverified", "Loaded=False Unverified"),
            (failure("Unreachable", false), "Verified=True Signed", "Loaded=False Unreachable"),
            (None, "Verified=True Signed", "Loaded=False NewVersionNotLoaded"),
        ] {
            let report = ProvidedReport { failure, ..pulled() };
            let plugin = plugin(PluginState::Running, "a newer version was refused");
            let (_, conditions) =
                status(Observation { refusal: None, report: &report, plugin: Some(&plugin) });
            assert!(conditions.contains(verified) && conditions.contains(loaded), "{conditions}");
            assert!(conditions.ends_with("Ready=True Ready, Running=True Running"), "{conditions}");
        }
    }

    #[test]
    fn each_state_has_a_reason() {
        for (state, reason) in [
            (PluginState::Found, "Loading"),
            (PluginState::Compiling, "Loading"),
            (PluginState::Describing, "Loading"),
            (PluginState::Waiting, "Waiting"),
            (PluginState::Draining, "Stopping"),
            (PluginState::Stopped, "Stopped"),
            (PluginState::Failed, "Failed"),
            (PluginState::BackingOff, "BackingOff"),
        ] {
            let plugin = plugin(state, "why");
            let (_, conditions) =
                status(Observation { refusal: None, report: &pulled(), plugin: Some(&plugin) });
            assert!(
                conditions.ends_with(&format!("Ready=False {reason}, Running=False {reason}")),
                "{conditions}"
            );
        }
        let paused = PluginStatus { ready: false, paused: true, ..plugin(PluginState::Running, "") };
        let failing = PluginStatus { ready: false, failing: true, ..plugin(PluginState::Running, "") };
        for (plugin, reason) in [(paused, "Paused"), (failing, "Failing")] {
            let (_, conditions) =
                status(Observation { refusal: None, report: &pulled(), plugin: Some(&plugin) });
            assert!(
                conditions.ends_with(&format!("Ready=False {reason}, Running=True Running")),
                "{conditions}"
            );
        }
    }

    #[test]
    fn the_loser_of_a_conflict_shows_nothing_of_the_winner() {
        let refusal = Refusal::new("NameConflict", "the name belongs to a file".to_owned());
        let winner = plugin(PluginState::Running, "");
        let (status, conditions) =
            status(Observation { refusal: Some(&refusal), report: &pulled(), plugin: Some(&winner) });
        assert_eq!(
            conditions,
            "Accepted=False NameConflict, Verified=Unknown NotAccepted, Loaded=False NotAccepted, Ready=False NotAccepted, \
             Running=False NotAccepted"
        );
        assert_eq!((status.digest.as_str(), status.version.as_str(), status.state.as_str()), ("", "", ""));
        assert_eq!(status.last_error, "the name belongs to a file");
    }

    #[test]
    fn the_time_of_a_transition_changes_with_the_status_only() {
        let later = "2026-05-02T00:00:00Z";
        let running = plugin(PluginState::Running, "");
        let first = status(Observation { refusal: None, report: &pulled(), plugin: Some(&running) }).0;
        let failed = plugin(PluginState::Failed, "trapped");
        let observation = Observation { refusal: None, report: &pulled(), plugin: Some(&failed) };
        let second = wanted_status(&object(), &first, observation, later);
        let times: Vec<_> =
            second.conditions.iter().map(|condition| condition.last_transition_time.as_str()).collect();
        assert_eq!(times, [NOW, NOW, later, later, later]);
        assert_eq!(wanted_status(&object(), &second, observation, "2027-01-01T00:00:00Z"), second);
    }

    #[test]
    fn a_message_is_one_short_line() {
        let text = format!("\u{1b}[31m\n{}", "ä".repeat(5000));
        let plugin = plugin(PluginState::Failed, &text);
        let (status, _) = status(Observation { refusal: None, report: &pulled(), plugin: Some(&plugin) });
        for message in
            status.conditions.iter().map(|condition| &condition.message).chain([&status.last_error])
        {
            assert!(message.len() <= MAX_MESSAGE && !message.contains(['\n', '\u{1b}']), "{message}");
        }
    }
}
