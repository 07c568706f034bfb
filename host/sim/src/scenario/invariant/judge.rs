//! Evaluates invariants over a run.

use pilothouse_cel::{Value as CelValue, from_json};
use serde_json::json;

use super::super::kinds::run_name;
use super::super::program::{Program, Reads, now_value};
use super::store::{Store, normalised};
use super::{By, Invariant, InvariantForm, WriteSelector};
use crate::run::{Author, End, Event, EventKind, RequestEvent, Run};

/// What became of an invariant in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The invariant's name.
    pub invariant: String,
    /// The verdict.
    pub verdict: InvariantResult,
    /// How often the condition was evaluated to true or false.
    pub evaluations: u32,
    /// Why an evaluation failed; the first such problem. It is no violation.
    pub problem: Option<String>,
}

/// Whether an invariant holds in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvariantResult {
    /// It held whenever it was evaluated.
    Holds,
    /// It does not hold.
    Violated {
        /// The index in [`Run::events`] of the event after which it does not hold.
        event: usize,
        /// What does not hold, and after what, in one line.
        explanation: String,
        /// Whether the condition could not be evaluated.
        is_unevaluated: bool,
    },
    /// There was nothing to judge.
    NotJudged(String),
}

/// Evaluates all invariants over a run, in their order.
#[must_use]
pub fn judge(invariants: &[Invariant], run: &Run) -> Vec<Judgement> {
    if invariants.is_empty() {
        return Vec::new();
    }
    let mut states: Vec<State<'_>> = invariants.iter().map(State::new).collect();
    let mut store = Store::at_start(run, resources_of(&states));
    let mut http = CelValue::Null;
    let mut faults_over = None;
    let last_rest = last_rest(run);
    for (index, event) in run.events.iter().enumerate() {
        let mut changed = Change::None;
        match &event.kind {
            EventKind::Request(request) if request.changed => {
                store.apply(request);
                changed = Change::Object(request);
            }
            EventKind::HttpState { state } => {
                http = from_json(state.clone());
                changed = Change::Http;
            }
            EventKind::FaultsOver => faults_over = Some(event.time),
            _ => {}
        }
        let point = Point { index, event, store: &store, http: &http, faults_over, last_rest };
        for state in &mut states {
            state.visit(&point, &changed);
        }
    }
    let end = EndPoint { run, store: &store, http: &http, faults_over };
    states.into_iter().map(|state| state.finish(&end)).collect()
}

/// Returns the names of the resources that any of the conditions reads; `None` for all.
fn resources_of(states: &[State<'_>]) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for state in states {
        all.extend(state.resources.iter().flatten().cloned());
        state.resources.as_ref()?;
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

/// Returns the index of the last event at which the world is at rest, if the run ended at rest.
fn last_rest(run: &Run) -> Option<usize> {
    let is_rest = |event: &Event| matches!(event.kind, EventKind::Rest { .. });
    if run.end == End::AtRest { run.events.iter().rposition(is_rest) } else { None }
}

/// What an event changed.
enum Change<'a> {
    None,
    Object(&'a RequestEvent),
    Http,
}

/// A point of a run.
struct Point<'a> {
    index: usize,
    event: &'a Event,
    store: &'a Store<'a>,
    http: &'a CelValue,
    faults_over: Option<u64>,
    last_rest: Option<usize>,
}

/// The end of a run.
struct EndPoint<'a> {
    run: &'a Run,
    store: &'a Store<'a>,
    http: &'a CelValue,
    faults_over: Option<u64>,
}

/// An invariant while a run is judged.
struct State<'i> {
    invariant: &'i Invariant,
    violation: Option<(usize, String, bool)>,
    evaluations: u32,
    problem: Option<String>,
    /// The names of the resources that the condition reads; `None` for all.
    resources: Option<Vec<String>>,
    /// With `within`: whether the condition held at the last change, and since when.
    held_since: Option<u64>,
}

impl<'i> State<'i> {
    fn new(invariant: &'i Invariant) -> Self {
        let resources = match invariant.condition.reads() {
            Reads::Any => None,
            Reads::Only(resources) => Some(resources.iter().map(run_name).collect()),
        };
        Self { invariant, violation: None, evaluations: 0, problem: None, resources, held_since: None }
    }

    fn visit(&mut self, point: &Point<'_>, changed: &Change<'_>) {
        if self.violation.is_some() {
            return;
        }
        match &self.invariant.form {
            InvariantForm::Always => {
                if self.reads(changed) && self.holds(point, None) == Some(false) {
                    self.violate(point, changed);
                }
            }
            InvariantForm::OnWrite(selector) => {
                if let Change::Object(request) = changed
                    && selector.matches(request)
                    && self.holds(point, Some(request)) == Some(false)
                {
                    self.violate(point, changed);
                }
            }
            InvariantForm::AtRest { each, within_ms } => {
                let is_rest = matches!(point.event.kind, EventKind::Rest { .. });
                let is_judged = is_rest && (*each || point.last_rest == Some(point.index));
                if within_ms.is_some() && (self.reads(changed) || is_judged) {
                    let holds = self.evaluate(point, None) == Ok(true);
                    self.held_since = holds.then(|| self.held_since.unwrap_or(point.event.time));
                }
                if is_judged {
                    self.judge_rest(point, *within_ms);
                }
            }
        }
    }

    /// At a rest, a condition that cannot be evaluated does not hold: what it reads does not exist.
    fn judge_rest(&mut self, point: &Point<'_>, within_ms: Option<u64>) {
        self.evaluations += 1;
        let text = self.invariant.condition.text();
        let (problem, is_unevaluated) = match self.evaluate(point, None) {
            Ok(true) => {
                let late = within_ms.zip(point.faults_over.zip(self.held_since)).and_then(
                    |(within, (over, since))| {
                        let late = since.saturating_sub(over);
                        (late > within).then(|| {
                            format!("{text} holds only {late} ms after the last step and fault, and {within} ms are allowed")
                        })
                    },
                );
                let Some(late) = late else { return };
                (late, false)
            }
            Ok(false) => (format!("{text} is false at rest"), false),
            Err(problem) => (format!("at rest: {problem}"), true),
        };
        self.violation = Some((point.index, problem, is_unevaluated));
    }

    /// Whether the condition can read what changed.
    fn reads(&self, changed: &Change<'_>) -> bool {
        let condition = &self.invariant.condition;
        match changed {
            Change::None => false,
            Change::Http => condition.uses("http"),
            Change::Object(request) => {
                let changed = normalised(&request.resource);
                let reads = |resources: &Vec<String>| resources.iter().any(|known| known == changed);
                condition.uses("now") || self.resources.as_ref().is_none_or(reads)
            }
        }
    }

    fn evaluate(&self, point: &Point<'_>, write: Option<&RequestEvent>) -> Result<bool, String> {
        let variables = variables(&self.invariant.condition, point.event.time, point.http, write);
        self.invariant.condition.holds(variables, point.store)
    }

    /// Evaluates the condition; `None` if that fails.
    fn holds(&mut self, point: &Point<'_>, write: Option<&RequestEvent>) -> Option<bool> {
        match self.evaluate(point, write) {
            Ok(value) => {
                self.evaluations += 1;
                Some(value)
            }
            Err(problem) => {
                self.problem.get_or_insert(problem);
                None
            }
        }
    }

    fn violate(&mut self, point: &Point<'_>, changed: &Change<'_>) {
        let cause = match changed {
            Change::Object(request) => describe(request),
            _ => "a request to an HTTP service".to_owned(),
        };
        self.violation =
            Some((point.index, format!("{} is false after {cause}", self.invariant.condition.text()), false));
    }

    fn finish(mut self, end: &EndPoint<'_>) -> Judgement {
        self.judge_end(end);
        let verdict = match self.violation {
            Some((event, explanation, is_unevaluated)) => {
                InvariantResult::Violated { event, explanation, is_unevaluated }
            }
            None if self.evaluations > 0 => InvariantResult::Holds,
            None => InvariantResult::NotJudged(self.problem.clone().unwrap_or_else(|| self.reason(end.run))),
        };
        let Self { invariant, evaluations, problem, .. } = self;
        Judgement { invariant: invariant.name.clone(), verdict, evaluations, problem }
    }

    /// A condition with `within` is also judged if the run never comes to rest, but lasts long enough.
    fn judge_end(&mut self, end: &EndPoint<'_>) {
        let InvariantForm::AtRest { within_ms: Some(within), .. } = self.invariant.form else { return };
        let (Some(over), Some(last)) = (end.faults_over, end.run.events.last()) else { return };
        let passed = last.time.saturating_sub(over);
        if self.violation.is_some() || end.run.end == End::AtRest || passed <= within {
            return;
        }
        self.evaluations += 1;
        let variables = variables(&self.invariant.condition, last.time, end.http, None);
        let text = self.invariant.condition.text();
        let (what, is_unevaluated) = match self.invariant.condition.holds(variables, end.store) {
            Ok(true) => return,
            Ok(false) => (format!("{text} does not hold"), false),
            Err(problem) => (format!("{problem},"), true),
        };
        let explanation =
            format!("{what} {passed} ms after the last step and fault, and {within} ms are allowed");
        self.violation = Some((end.run.events.len() - 1, explanation, is_unevaluated));
    }

    fn reason(&self, run: &Run) -> String {
        match &self.invariant.form {
            InvariantForm::Always => "no object that it reads changed".to_owned(),
            InvariantForm::OnWrite(_) => "no write matched".to_owned(),
            InvariantForm::AtRest { .. } if run.end == End::AtRest => "the run has no rest".to_owned(),
            InvariantForm::AtRest { .. } => "the run did not end at rest".to_owned(),
        }
    }
}

impl WriteSelector {
    fn matches(&self, request: &RequestEvent) -> bool {
        let is_verb = self.verbs.is_empty() || self.verbs.contains(&request.verb);
        let is_resource =
            self.resource.as_ref().is_none_or(|wanted| run_name(wanted) == normalised(&request.resource));
        let is_subresource = self.subresource.as_ref().is_none_or(|wanted| *wanted == request.subresource);
        let is_author = match (&self.by, &request.author) {
            (None, _)
            | (Some(By::Plugin), Author::Plugin(_))
            | (Some(By::Actor), Author::Actor(_))
            | (Some(By::Controller), Author::Controller) => true,
            (Some(By::Name(wanted)), Author::Plugin(name) | Author::Actor(name)) => wanted == name,
            _ => false,
        };
        is_verb && is_resource && is_subresource && is_author
    }
}

/// Returns the variables of a condition. Those that it does not use are left out if they are costly.
fn variables(
    condition: &Program,
    now: u64,
    http: &CelValue,
    write: Option<&RequestEvent>,
) -> Vec<(&'static str, CelValue)> {
    let mut variables = vec![("http", http.clone())];
    if condition.uses("now") {
        variables.push(("now", now_value(now)));
    }
    if let Some(write) = write {
        let object = |object: Option<&serde_json::Value>| object.cloned().map_or(CelValue::Null, from_json);
        variables.push(("before", object(write.before.as_deref())));
        variables.push(("after", object(write.after.as_deref())));
        let (kind, by) = match &write.author {
            Author::Plugin(name) => ("plugin", name.as_str()),
            Author::Actor(name) => ("actor", name.as_str()),
            Author::Controller => ("controller", ""),
            Author::Host => ("host", ""),
        };
        let details = json!({
            "verb": write.verb, "resource": normalised(&write.resource), "subresource": write.subresource,
            "namespace": write.namespace, "name": write.name, "body": write.body, "author": kind, "by": by,
        });
        variables.push(("write", from_json(details)));
    }
    variables
}

/// Describes a write in a few words.
fn describe(request: &RequestEvent) -> String {
    let author = match &request.author {
        Author::Plugin(name) => format!("plugin {name}"),
        Author::Actor(name) => format!("actor {name}"),
        Author::Controller => "the server's controllers".to_owned(),
        Author::Host => "the host".to_owned(),
    };
    let namespace =
        if request.namespace.is_empty() { String::new() } else { format!("{}/", request.namespace) };
    let subresource =
        if request.subresource.is_empty() { String::new() } else { format!("/{}", request.subresource) };
    format!(
        "{author}: {} {}{subresource} {namespace}{}",
        request.verb,
        normalised(&request.resource),
        request.name
    )
}
