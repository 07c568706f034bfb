//! Tells a run as a short story: what actors did, what the plugin wrote, and which faults came between.

mod builder;
mod describe;
mod fold;
mod versions;

use serde::{Deserialize, Serialize};

use crate::analysis::RunView;
use crate::oracle::Violation;
use crate::run::{Event, EventKind, Run};

use builder::StoryBuilder;
pub use describe::describe;
use fold::folded;
pub use versions::{VersionStory, compare_versions};

/// The longest story. Of a longer one, the first and the last steps are shown.
const MAX_STEPS: usize = 40;
/// The widest column of those who act. Longer names stick out.
const MAX_WIDTH: usize = 32;

/// One line of a story.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Virtual milliseconds since the start.
    pub time: u64,
    /// Who did it: an actor, the plugin, `host`, `server` or `oracle`.
    pub who: String,
    /// What was done.
    pub text: String,
    /// The fault, with its rule, or "".
    pub fault: String,
}

/// Returns the lines of the story of a run, up to what the violation points at.
#[must_use]
pub fn steps_of(view: &RunView<'_>, violation: &Violation) -> Vec<Step> {
    let (mut steps, time) = steps_until(view, last_event(view.run, violation));
    steps.push(Step {
        time,
        who: "oracle".to_owned(),
        text: format!("{}: {}", violation.oracle, violation.explanation),
        fault: String::new(),
    });
    steps
}

/// Returns the lines of the story of a whole run.
#[must_use]
pub fn steps_of_run(view: &RunView<'_>) -> Vec<Step> {
    steps_until(view, view.run.events.len()).0
}

/// Returns the lines of the story up to an event, and the time of that event.
fn steps_until(view: &RunView<'_>, last: usize) -> (Vec<Step>, u64) {
    let mut builder = StoryBuilder::default();
    for event in view.run.events.iter().take(last.saturating_add(1)) {
        builder.add_event(view, event);
    }
    let time = view.run.events.get(last).or(view.run.events.last()).map_or(0, |event| event.time);
    let canonical = |step: &Step| view.names.replace(&step.text);
    (shortened(folded(&builder.steps, canonical), time), time)
}

/// Returns the index of the last event that a story tells. A service changes its state before the request that does so is answered, which a violation
/// of that state does not point at.
fn last_event(run: &Run, violation: &Violation) -> usize {
    let last = violation.event.unwrap_or(run.events.len());
    let is_state = |event: &Event| matches!(event.kind, EventKind::HttpState { .. });
    if !run.events.get(last).is_some_and(is_state) {
        return last;
    }
    let mut same_host = run.events.iter().skip(last).take_while(|event| event.kind != EventKind::HostEnded);
    let answer = same_host.position(|event| matches!(event.kind, EventKind::Http { .. }));
    last + answer.unwrap_or(0)
}

fn shortened(mut steps: Vec<Step>, time: u64) -> Vec<Step> {
    if steps.len() < MAX_STEPS {
        return steps;
    }
    let tail = steps.split_off(steps.len() - (MAX_STEPS / 2 - 1));
    let left_out = steps.len() - MAX_STEPS / 2;
    steps.truncate(MAX_STEPS / 2);
    let gap_time = tail.first().map_or(time, |step| step.time);
    steps.push(Step {
        time: gap_time,
        who: "…".to_owned(),
        text: format!("{left_out} steps are left out"),
        fault: String::new(),
    });
    steps.extend(tail);
    steps
}

/// Returns ` on RESOURCE OBJECT` for the first line of a finding.
#[must_use]
pub fn subject(violation: &Violation) -> String {
    match (violation.resource.as_str(), violation.object.as_str()) {
        ("", "") => String::new(),
        ("", object) => format!(" on {object}"),
        (resource, object) => format!(" on {resource} {object}"),
    }
}

/// Returns the steps with their columns below each other.
#[must_use]
pub fn align(steps: &[Step]) -> Vec<String> {
    let width = steps.iter().map(|step| step.who.chars().count()).max().unwrap_or_default().min(MAX_WIDTH);
    let line = |step: &Step| {
        let time = format!("{}.{:03}", step.time / 1000, step.time % 1000);
        format!("{time:>9}  {:<width$}  {}   {}", step.who, step.text, step.fault).trim_end().to_owned()
    };
    steps.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::analysis::RandomPrefixes;
    use crate::plan::{Fault, Moment};
    use crate::run::ReconcileResult;
    use crate::testing::RunBuilder;
    use crate::world::OTHER_CLIENT;

    #[test]
    fn a_story_has_a_line_for_each_reconcile_that_wrote() {
        let mut run = RunBuilder::new();
        run.actor("user", "create", "certs.example.com", "web", Some(json!({})));
        run.at(3);
        run.start("web");
        let first =
            Moment::Request { verb: "create".to_owned(), resource: "requests".to_owned(), occurrence: 1 };
        run.deviate(first, Fault::LoseAnswer);
        run.ask("get", "certs.example.com", "web", 404);
        run.write("create", "requests", "web-x7", Some(json!({}))).answered = false;
        run.end(ReconcileResult::Error("no answer".to_owned()));
        run.at(1003);
        run.start_for("web", "retry");
        run.write("create", "requests", "web-b2", Some(json!({})));
        run.write("update", "certs.example.com", "web", Some(json!({"status": 1})));
        let run = run.finish();
        let view = RunView::new(&run, &RandomPrefixes::default());
        let violation = Violation {
            oracle: "one request".to_owned(),
            resource: "requests".to_owned(),
            object: "web-*".to_owned(),
            event: Some(run.events.len() - 2),
            explanation: "there are two".to_owned(),
            is_unevaluated: false,
        };
        let lines = align(&steps_of(&view, &violation));
        assert_eq!(
            lines,
            [
                "    0.000  user    create certs.example.com web",
                "    0.003  fault   at create requests no. 1: the request is carried out, its answer is lost   [W3: carried out, answer lost]",
                "    0.003  plugin  reconcile web: create requests web-x7 → carried out, answer lost, fails: no answer",
                "    1.003  plugin  reconcile web (retry): create requests web-b2",
                "    1.003  oracle  one request: there are two",
            ]
        );
    }

    #[test]
    fn a_story_about_the_state_of_a_service_ends_with_the_request_that_changed_it() {
        let mut run = RunBuilder::new();
        run.start("web");
        run.push(EventKind::HttpState { state: json!({"machines": 1}) });
        for status in [200, 404] {
            let url = "http://cloud/machines".to_owned();
            let (method, status) = ("POST".to_owned(), Some(status));
            run.push(EventKind::Http { reconcile: None, method, url, status });
        }
        let run = run.finish();
        let state = |event: &Event| matches!(event.kind, EventKind::HttpState { .. });
        let violation = Violation {
            oracle: "no machine".to_owned(),
            resource: String::new(),
            object: String::new(),
            event: run.events.iter().position(state),
            explanation: "there is one".to_owned(),
            is_unevaluated: false,
        };
        let view = RunView::new(&run, &RandomPrefixes::default());
        let texts: Vec<_> = steps_of(&view, &violation).into_iter().map(|step| step.text).collect();
        assert_eq!(texts, ["POST http://cloud/machines → 200", "no machine: there is one"]);
    }

    #[test]
    fn reactions_of_stand_ins_and_of_the_server_are_one_line() {
        let mut run = RunBuilder::new();
        run.actor("user", "create", "apps.example.com", "web", Some(json!({})));
        for pod in ["web-0", "web-1"] {
            run.actor("pods", "create", "pods", pod, Some(json!({})));
        }
        run.actor("status", "patch", "apps.example.com", "web", Some(json!({"status": 2})));
        run.actor("pods", "create", "pods", "web-2", Some(json!({})));
        run.at(30_000);
        run.deviate(Moment::Rest { occurrence: 1 }, Fault::Restart { past: vec![("pods".to_owned(), 2)] });
        run.restart(&[("pods", 2)]);
        for number in 0..3 {
            run.controller("delete", "pods", &format!("web-{number}"), None);
        }
        run.actor(OTHER_CLIENT, "patch", "apps.example.com", "web", Some(json!({"status": 3})));
        let mut run = run.finish();
        run.steps = vec![crate::plan::ActorStep { actor: "user".to_owned(), step: 1 }];
        let view = RunView::new(&run, &RandomPrefixes::default());
        let violation = Violation {
            oracle: "three Pods".to_owned(),
            resource: String::new(),
            object: String::new(),
            event: None,
            explanation: "there is none".to_owned(),
            is_unevaluated: false,
        };
        assert_eq!(
            align(&steps_of(&view, &violation)),
            [
                "    0.000  user            create apps.example.com web",
                "    0.000  stand-ins       pods: create pods web-0, create pods web-1; status: patch apps.example.com web; pods: create pods web-2",
                "   30.000  fault           at rest no. 1: the host restarts, and its first lists are old: pods by 2 changes   [V3: the first list after a restart may be old]",
                "   30.000  server          delete pods web-0, delete pods web-1, delete pods web-2",
                "   30.000  another client  patch apps.example.com web",
                "   30.000  oracle          three Pods: there is none",
            ]
        );
    }

    #[test]
    fn a_reconcile_in_a_replaced_instance_says_so() {
        let mut run = RunBuilder::new();
        run.start("a/x");
        run.write("create", "configmaps", "a/x", Some(json!({})));
        run.end(ReconcileResult::Fault("trap".to_owned()));
        run.start_for("a/x", "retry");
        run.in_new_instance();
        run.write("update", "configmaps", "a/x", Some(json!({"size": 1})));
        let run = run.finish();
        let view = RunView::new(&run, &RandomPrefixes::default());
        let violation = Violation {
            oracle: "trap".to_owned(),
            resource: String::new(),
            object: "a/x".to_owned(),
            event: None,
            explanation: String::new(),
            is_unevaluated: false,
        };
        let texts: Vec<_> = steps_of(&view, &violation).into_iter().map(|step| step.text).collect();
        assert_eq!(texts[1], "reconcile a/x (retry, new instance): update configmaps a/x");
    }

    #[test]
    fn a_long_story_is_told_in_part() {
        let step = Step { time: 0, who: "user".to_owned(), text: String::new(), fault: String::new() };
        let steps = shortened(vec![step; 100], 0);
        assert_eq!(steps.len(), MAX_STEPS);
        assert!(steps[MAX_STEPS / 2].text.contains("61 steps"));
    }
}
