//! Tells a run as a short story: what actors did, what the plugin wrote, and which faults came between.

use serde::{Deserialize, Serialize};

use crate::analysis::{RunView, is_record};
use crate::oracle::Violation;
use crate::plan::{Deviation, Fault, Moment};
use crate::run::{Author, Event, EventKind, ReconcileResult, RequestEvent, Run};
use crate::world::OTHER_CLIENT;

/// The longest story. Of a longer one, the first and the last steps are shown.
const MAX_STEPS: usize = 40;
/// The largest number of steps whose repetition is shown in one line.
const MAX_PERIOD: usize = 4;
/// The smallest number of equal rounds that are folded into one.
const MIN_ROUNDS: usize = 3;
/// The longest text of an error.
const MAX_ERROR: usize = 160;
/// The largest number of writes of stand-ins, or of the server, in one line.
const MAX_REACTIONS: usize = 8;
/// The widest column of those who act. Longer names stick out.
const MAX_WIDTH: usize = 32;
/// Who acts in a line with the writes of several stand-ins.
const STAND_INS: &str = "stand-ins";
/// Who acts in a line with writes of built-in controllers.
const SERVER: &str = "server";

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

/// Tells the run up to what the violation points at.
#[must_use]
pub fn tell(view: &RunView<'_>, violation: &Violation) -> Vec<Step> {
    let last = last_event(view.run, violation);
    let mut teller = Teller { steps: Vec::new(), reconcile: None, reactions: None };
    for event in view.run.events.iter().take(last.saturating_add(1)) {
        teller.tell(view, event);
    }
    let time = view.run.events.get(last).or(view.run.events.last()).map_or(0, |event| event.time);
    let oracle = Step {
        time,
        who: "oracle".to_owned(),
        text: format!("{}: {}", violation.oracle, violation.explanation),
        fault: String::new(),
    };
    let canonical = |step: &Step| view.names.replace(&step.text);
    let mut steps = shortened(folded(&teller.steps, canonical), time);
    steps.push(oracle);
    steps
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

/// Returns the steps, with one line in place of the second and further rounds of equal steps. Steps are equal if their canonical texts are, in which
/// generated names do not differ.
fn folded(steps: &[Step], canonical: impl Fn(&Step) -> String) -> Vec<Step> {
    let texts: Vec<_> = steps.iter().map(|step| (&step.who, canonical(step), &step.fault)).collect();
    let mut folded_steps = Vec::new();
    let mut start = 0;
    while let Some(first) = steps.get(start) {
        let mut repeated = (1..=MAX_PERIOD).map(|period| (period, rounds(&texts[start..], period)));
        let Some((period, rounds)) = repeated.find(|(_, rounds)| *rounds >= MIN_ROUNDS) else {
            folded_steps.push(first.clone());
            start += 1;
            continue;
        };
        let end = start + period * rounds;
        folded_steps.extend_from_slice(&steps[start..start + period]);
        let what = if period == 1 { "this step".to_owned() } else { format!("these {period} steps") };
        let has_other_names = (start..end).any(|index| {
            let round = start + (index - start) % period;
            steps[index].text != steps[round].text
        });
        let names = if has_other_names { ", with other names" } else { "" };
        folded_steps.push(Step {
            time: steps[end - 1].time,
            who: "…".to_owned(),
            text: format!("{what} again, {} times{names}", rounds - 1),
            fault: String::new(),
        });
        start = end;
    }
    folded_steps
}

/// Returns how many times the first `period` steps follow each other, apart from their times.
fn rounds<T: PartialEq>(steps: &[T], period: usize) -> usize {
    let Some(first) = steps.get(..period) else { return 0 };
    steps.chunks_exact(period).take_while(|round| *round == first).count()
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

struct Teller {
    steps: Vec<Step>,
    /// The reconcile of the last step, to which further requests are added.
    reconcile: Option<u64>,
    /// The writes of stand-ins or of the server in the last step, to which those that follow at the same time are added.
    reactions: Option<Reactions>,
}

/// Writes that react to what was written before.
struct Reactions {
    count: usize,
    /// The author of the last one.
    author: String,
}

impl Teller {
    fn tell(&mut self, view: &RunView<'_>, event: &Event) {
        let time = event.time;
        match &event.kind {
            // What exists before the first host starts is no step.
            _ if event.host == 0 => {}
            EventKind::Request(request) => self.request(view, time, request),
            EventKind::Deviated { deviation, .. } => {
                let text = describe(deviation);
                self.add(time, "fault", text, fault_text(&deviation.fault));
            }
            EventKind::ReconcileEnded { reconcile, result } => {
                let text = match result {
                    ReconcileResult::Error(error) => format!("fails: {}", cut(error)),
                    ReconcileResult::Fault(error) => format!("is stopped: {}", cut(error)),
                    _ => return,
                };
                self.add_to_reconcile(view, time, *reconcile, &text);
            }
            EventKind::Http { reconcile, method, url, status } => {
                let status = status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
                let text = format!("{method} {} → {status}", cut(url));
                match reconcile {
                    Some(reconcile) => self.add_to_reconcile(view, time, *reconcile, &text),
                    None => self.add(time, "plugin", text, String::new()),
                }
            }
            // The line of a fault says that the host starts again, or reloads the plugin.
            _ => {}
        }
    }

    fn request(&mut self, view: &RunView<'_>, time: u64, request: &RequestEvent) {
        let is_told = match &request.author {
            Author::Plugin(_) => {
                let has_failed = !request.answered || request.status.is_none_or(|status| status >= 400);
                let is_absence = request.status == Some(404) && !request.is_write();
                !is_record(&request.resource) && (request.changed || has_failed) && !is_absence
            }
            Author::Actor(_) => request.changed,
            Author::Controller => request.changed && request.after.is_none(),
            Author::Host => false,
        };
        if !is_told {
            return;
        }
        let text = request_text(request);
        match (&request.author, request.reconcile) {
            (_, Some(reconcile)) => self.add_to_reconcile(view, time, reconcile, &text),
            (Author::Actor(name), None) if is_stand_in(view.run, name) => {
                self.add_reaction(time, name, &text);
            }
            (Author::Plugin(name) | Author::Actor(name), None) => self.add(time, name, text, String::new()),
            (Author::Controller | Author::Host, None) => self.add_reaction(time, SERVER, &text),
        }
    }

    /// Adds to the reactions of the last step, or begins a step with them.
    fn add_reaction(&mut self, time: u64, author: &str, text: &str) {
        let is_of_server = author == SERVER;
        if let (Some(reactions), Some(step)) = (&mut self.reactions, self.steps.last_mut())
            && step.time == time
            && reactions.count < MAX_REACTIONS
            && (reactions.author == SERVER) == is_of_server
        {
            reactions.count += 1;
            if reactions.author == author {
                step.text.push_str(", ");
            } else {
                if step.who != STAND_INS {
                    step.text = format!("{}: {}", step.who, step.text);
                    STAND_INS.clone_into(&mut step.who);
                }
                step.text.push_str(&format!("; {author}: "));
                author.clone_into(&mut reactions.author);
            }
            step.text.push_str(text);
            return;
        }
        self.add(time, author, text.to_owned(), String::new());
        self.reactions = Some(Reactions { count: 1, author: author.to_owned() });
    }

    fn add(&mut self, time: u64, who: &str, text: String, fault: String) {
        self.reconcile = None;
        self.reactions = None;
        self.steps.push(Step { time, who: who.to_owned(), text, fault });
    }

    /// Adds to the reconcile's step, or begins it.
    fn add_to_reconcile(&mut self, view: &RunView<'_>, time: u64, number: u64, text: &str) {
        if self.reconcile == Some(number)
            && let Some(step) = self.steps.last_mut()
        {
            step.text.push_str(", ");
            step.text.push_str(text);
            return;
        }
        let (who, begin) = view.reconciles.get(&number).map_or_else(
            || ("plugin", "reconcile".to_owned()),
            |reconcile| {
                let is_retry = reconcile.reasons.iter().any(|reason| reason == "retry");
                let notes = [is_retry.then_some("retry"), reconcile.is_replacement.then_some("new instance")];
                let notes: Vec<_> = notes.into_iter().flatten().collect();
                let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
                (reconcile.plugin, format!("reconcile {}{notes}", reconcile.key))
            },
        );
        self.add(time, who, format!("{begin}: {text}"), String::new());
        self.reconcile = Some(number);
    }
}

/// Whether an actor stands in for another controller: it reacts, and has no list of steps.
fn is_stand_in(run: &Run, actor: &str) -> bool {
    !run.steps.is_empty() && actor != OTHER_CLIENT && run.steps.iter().all(|step| step.actor != actor)
}

fn request_text(request: &RequestEvent) -> String {
    let object = if request.name.is_empty() {
        request.resource_path()
    } else {
        format!("{} {}", request.resource_path(), request.object_id().key())
    };
    let outcome = match (request.status, request.answered) {
        (_, false) if request.changed => " → carried out, answer lost".to_owned(),
        (_, false) => " → no answer".to_owned(),
        (Some(status), true) if status >= 400 => {
            let reason =
                if request.reason.is_empty() { String::new() } else { format!(" {}", cut(&request.reason)) };
            format!(" → {status}{reason}")
        }
        _ => String::new(),
    };
    format!("{} {object}{outcome}", request.verb)
}

fn cut(text: &str) -> String {
    if text.chars().count() <= MAX_ERROR {
        return text.to_owned();
    }
    text.chars().take(MAX_ERROR).chain(['…']).collect()
}

/// Describes a deviation: what happens, and when.
#[must_use]
pub fn describe(deviation: &Deviation) -> String {
    let what = match &deviation.fault {
        Fault::Refuse(status) => format!("the request is refused with {status}"),
        Fault::Interfere => "another client changes the object first".to_owned(),
        Fault::LoseAnswer => "the request is carried out, its answer is lost".to_owned(),
        Fault::DelayRequest(delay) => format!("the request is late by {}", duration(*delay)),
        Fault::CrashBefore => "the host ends before the request".to_owned(),
        Fault::CrashAfter => "the host ends after the request, before its answer".to_owned(),
        Fault::HoldWatch(delay) => format!("the watch is late by {}", duration(*delay)),
        Fault::DropWatch(delay) => {
            format!("the watch ends, and the host lists again after {}", duration(*delay))
        }
        Fault::Restart { past } if past.is_empty() => "the host restarts".to_owned(),
        Fault::Restart { past } => {
            let past: Vec<_> =
                past.iter().map(|(resource, age)| format!("{resource} by {age} changes")).collect();
            format!("the host restarts, and its first lists are old: {}", past.join(", "))
        }
        Fault::Reload => "the plugin is reloaded".to_owned(),
        Fault::TakeStep { actor } => format!("{actor} takes the next step now"),
        Fault::HoldControllers(delay) => format!("the built-in controllers wait for {}", duration(*delay)),
        Fault::RequeueAll => "the host reconciles all objects again".to_owned(),
        Fault::WithholdReasons => "from now on, the plugin does not learn why it is called".to_owned(),
    };
    let when = match &deviation.at {
        Moment::Request { verb, resource, occurrence } => format!("{verb} {resource} no. {occurrence}"),
        Moment::Http { method, host, occurrence } => format!("{method} {host} no. {occurrence}"),
        Moment::Event { resource, occurrence } => format!("event no. {occurrence} of {resource}"),
        Moment::Rest { occurrence } => format!("rest no. {occurrence}"),
        Moment::Step { actor, step } => format!("step {step} of {actor}"),
        Moment::Time(time) => duration(*time),
    };
    format!("at {when}: {what}")
}

/// Returns the note at the end of a fault's line.
fn fault_text(fault: &Fault) -> String {
    let rule = fault.rule();
    format!("[{rule}: {}]", rule.rule().short)
}

fn duration(milliseconds: u64) -> String {
    if milliseconds < 1000 {
        return format!("{milliseconds} ms");
    }
    let text = format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000);
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
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
    use crate::testing::RunBuilder;

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
        let lines = align(&tell(&view, &violation));
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
        let texts: Vec<_> = tell(&view, &violation).into_iter().map(|step| step.text).collect();
        assert_eq!(texts, ["POST http://cloud/machines → 200", "no machine: there is one"]);
    }

    #[test]
    fn equal_rounds_are_folded_into_one_line() {
        let steps = |texts: &str| -> Vec<Step> {
            let step = |(time, text): (usize, char)| Step {
                time: time as u64,
                who: "user".to_owned(),
                text: text.to_string(),
                fault: String::new(),
            };
            texts.chars().enumerate().map(step).collect()
        };
        let texts_of = |texts: &str| {
            let steps = folded(&steps(texts), |step| step.text.clone());
            steps.iter().map(|step| step.text.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(texts_of("abab"), "a b a b", "two rounds");
        assert_eq!(texts_of("xabababay"), "x a b these 2 steps again, 2 times a y");
        assert_eq!(texts_of("aaaab"), "a this step again, 3 times b");
        assert_eq!(
            texts_of("abcdeabcdeabcde"),
            "a b c d e a b c d e a b c d e",
            "a round is longer than four steps"
        );
        assert_eq!(texts_of(""), "");
        let canonical = |step: &Step| step.text.replace(['1', '2', '3'], "*");
        assert_eq!(
            folded(&steps("a1a2a3b"), canonical).iter().map(|step| step.text.as_str()).collect::<Vec<_>>(),
            ["a", "1", "these 2 steps again, 2 times, with other names", "b"]
        );
        assert_eq!(folded(&steps("aaaa"), canonical)[1].time, 3, "the time of the last round");
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
            align(&tell(&view, &violation)),
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
        let texts: Vec<_> = tell(&view, &violation).into_iter().map(|step| step.text).collect();
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
