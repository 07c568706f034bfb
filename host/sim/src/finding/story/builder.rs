//! Builds the steps of a story from the events of a run, one after the other.

use super::Step;
use super::describe::{describe, fault_text};
use crate::analysis::{RunView, is_record};
use crate::run::{Author, Event, EventKind, ReconcileResult, RequestEvent, Run};
use crate::world::OTHER_CLIENT;

/// The longest text of an error.
const MAX_ERROR: usize = 160;
/// The largest number of writes of stand-ins, or of the server, in one line.
const MAX_REACTIONS: usize = 8;
/// Who acts in a line with the writes of several stand-ins.
const STAND_INS: &str = "stand-ins";
/// Who acts in a line with writes of built-in controllers.
const SERVER: &str = "server";

/// Turns events into steps.
#[derive(Default)]
pub(super) struct StoryBuilder {
    pub(super) steps: Vec<Step>,
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

impl StoryBuilder {
    /// Adds an event, if a story has it.
    pub(super) fn add_event(&mut self, view: &RunView<'_>, event: &Event) {
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
        let is_included = match &request.author {
            Author::Plugin(_) => {
                let has_failed = !request.answered || request.status.is_none_or(|status| status >= 400);
                let is_absence = request.status == Some(404) && !request.is_write();
                !is_record(&request.resource) && (request.changed || has_failed) && !is_absence
            }
            Author::Actor(_) => request.changed,
            Author::Controller => request.changed && request.after.is_none(),
            Author::Host => false,
        };
        if !is_included {
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
