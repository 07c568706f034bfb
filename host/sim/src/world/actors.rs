//! Polls the actors and carries out their writes.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use super::gate::{answer, attributed};
use super::record::SentRequest;
use super::request::ObjectRequest;
use super::shared::Shared;
use crate::actor::{Actor, ActorPoll, ActorWrite, ObjectView, Operation, PollMoment, WriteOutcome};
use crate::plan::ActorStep;
use crate::run::Author;

/// The actors of a scenario. They outlive the hosts.
pub(super) struct Actors {
    all: Vec<ActorState>,
    /// The write of an actor that was decided but not carried out, because the host ended just before it.
    pending: Option<(usize, ActorWrite)>,
    /// The steps that are not taken.
    left_out: BTreeSet<ActorStep>,
    /// The steps that were taken by actors that have a list of steps.
    taken: Vec<ActorStep>,
    /// Whether an actor has begun to wait for a rest since that was last asked.
    needs_rest: bool,
}

struct ActorState {
    actor: Box<dyn Actor>,
    is_done: bool,
    /// Why it ended before its last step, if it did.
    failure: Option<String>,
    /// The revision that the actor saw last; `None` if it is to be polled in any case.
    seen: Option<u64>,
    /// When it wants to be polled again.
    until: Option<u64>,
    /// Whether it waits for a rest.
    waits_for_rest: bool,
    /// The last step whose moment was counted.
    counted_step: u32,
}

impl Actors {
    pub(super) fn new(actors: Vec<Box<dyn Actor>>, left_out: &[ActorStep]) -> Self {
        let state = |actor| ActorState {
            actor,
            is_done: false,
            failure: None,
            seen: None,
            until: None,
            waits_for_rest: false,
            counted_step: 0,
        };
        let left_out = left_out.iter().cloned().collect();
        let all = actors.into_iter().map(state).collect();
        Self { all, pending: None, left_out, taken: Vec::new(), needs_rest: false }
    }

    /// Returns a text for each actor that has not taken all its steps: why it ended, or for which step it waits.
    pub(super) fn unfinished(&self) -> Vec<String> {
        let texts = self.all.iter().filter_map(|state| {
            let name = state.actor.name();
            match &state.failure {
                Some(failure) => Some(format!("the actor {name} ended: {failure}")),
                None if state.is_done => None,
                None => state.actor.unfinished().map(|step| format!("the actor {name} waits at {step}")),
            }
        });
        texts.collect()
    }

    /// Returns how many steps were taken.
    pub(super) fn steps_taken(&self) -> usize {
        self.taken.len()
    }

    /// Returns the steps that were taken.
    pub(super) fn into_taken(self) -> Vec<ActorStep> {
        self.taken
    }

    /// Drops the pending write if the plan leaves its step out. The actor goes on as if the write had succeeded.
    pub(super) fn leave_out(&mut self, index: usize, step: u32, now_ms: u64) -> bool {
        if self.left_out.is_empty() {
            return false;
        }
        let state = &mut self.all[index];
        let is_left_out = self.left_out.contains(&ActorStep { actor: state.actor.name().to_owned(), step });
        if is_left_out {
            self.pending = None;
            state.actor.leave_out(now_ms);
            state.seen = None;
        }
        is_left_out
    }

    /// Returns the next write that an actor wants now, with the actor's index. It stays the next one until [`perform`](Self::perform).
    pub(super) fn next_write(&mut self, view: &dyn ObjectView, moment: PollMoment) -> Option<(usize, u32)> {
        if self.pending.is_none() {
            self.pending = self.poll(view, moment);
        }
        self.pending.as_ref().map(|(index, write)| (*index, write.step))
    }

    fn poll(&mut self, view: &dyn ObjectView, moment: PollMoment) -> Option<(usize, ActorWrite)> {
        for (index, state) in self.all.iter_mut().enumerate() {
            let is_due = state.until.is_some_and(|until| until <= moment.now_ms);
            let has_news = state.seen != Some(view.revision());
            if state.is_done || !(is_due || has_news || moment.at_rest) {
                continue;
            }
            state.seen = Some(view.revision());
            state.until = None;
            let has_waited = std::mem::take(&mut state.waits_for_rest);
            match state.actor.poll(view, moment) {
                ActorPoll::Write(write) => return Some((index, *write)),
                ActorPoll::Wait { until, for_rest } => {
                    state.until = until;
                    state.waits_for_rest = for_rest;
                    self.needs_rest |= for_rest && !has_waited;
                }
                ActorPoll::Done => state.is_done = true,
                ActorPoll::Failed(failure) => {
                    state.is_done = true;
                    state.failure = Some(failure);
                }
            }
        }
        None
    }

    /// Returns whether an actor has begun to wait for a rest since the last call.
    pub(super) fn take_need_of_rest(&mut self) -> bool {
        std::mem::take(&mut self.needs_rest)
    }

    /// Returns the name of the actor whose step begins with the pending write; `None` if that step's moment was counted already.
    pub(super) fn begin_step(&mut self, index: usize, step: u32) -> Option<String> {
        let state = &mut self.all[index];
        if state.counted_step >= step {
            return None;
        }
        state.counted_step = step;
        let actor = state.actor.name().to_owned();
        // A stand-in for another controller has no list of steps.
        if state.actor.unfinished().is_some() {
            self.taken.push(ActorStep { actor: actor.clone(), step });
        }
        Some(actor)
    }

    /// Tells an actor to take its next step now. Returns `false` if there is no such actor.
    pub(super) fn take_next_step(&mut self, name: &str) -> bool {
        let mut found = self.all.iter_mut().filter(|state| state.actor.name() == name && !state.is_done);
        let Some(state) = found.next() else { return false };
        state.actor.take_next_step();
        state.seen = None;
        true
    }

    /// Returns the earliest time at which an actor wants to be polled.
    pub(super) fn next_time(&self) -> Option<u64> {
        self.all.iter().filter(|state| !state.is_done).filter_map(|state| state.until).min()
    }

    /// Returns whether no actor has steps left.
    pub(super) fn are_finished(&self) -> bool {
        self.pending.is_none()
            && self.all.iter().all(|state| state.is_done || state.actor.unfinished().is_none())
    }

    /// Carries out the pending write.
    pub(super) async fn perform(&mut self, shared: &Shared) {
        let Some((index, write)) = self.pending.take() else { return };
        let state = &mut self.all[index];
        let author = Author::Actor(state.actor.name().to_owned());
        let step = state.actor.unfinished().map(|_| write.step);
        let outcome = send(shared, author, step, &write).await;
        state.actor.written(&outcome, shared.clock().now_ms());
        // The actor is polled again at once.
        state.seen = None;
    }
}

/// Sends a write to the server as an administrator, and records it. `step` is the number of the actor's step, if it has a list of steps.
pub(super) async fn send(
    shared: &Shared,
    author: Author,
    step: Option<u32>,
    write: &ActorWrite,
) -> WriteOutcome {
    let manager = match &author {
        Author::Actor(name) => name.replace(' ', "-"),
        Author::Plugin(_) | Author::Controller | Author::Host => "simulation".to_owned(),
    };
    let (method, content_type, query, body) = match &write.operation {
        Operation::Create(object) => {
            ("POST", "application/json", format!("fieldManager={manager}"), object.clone())
        }
        Operation::Apply(object) => (
            "PATCH",
            "application/apply-patch+yaml",
            format!("fieldManager={manager}&force=true"),
            object.clone(),
        ),
        Operation::MergePatch(patch) => {
            ("PATCH", "application/merge-patch+json", format!("fieldManager={manager}"), patch.clone())
        }
        Operation::Delete { propagation, uid } => {
            ("DELETE", "application/json", String::new(), delete_options(propagation.as_ref(), uid.as_ref()))
        }
    };
    let mut path = write.resource.url_path(Some(&write.namespace));
    if !matches!(write.operation, Operation::Create(_)) || !write.subresource.is_empty() {
        path = format!("{path}/{}", write.name);
    }
    if !write.subresource.is_empty() {
        path = format!("{path}/{}", write.subresource);
    }
    let request = Request::builder().method(method).uri(format!("{path}?{query}"));
    let request = request.header(CONTENT_TYPE, content_type).body(Full::new(Bytes::from(body.to_string())));
    let request = match request {
        Ok(request) => request,
        Err(error) => return WriteOutcome { status: 400, message: format!("{path} is no URL: {error}") },
    };
    let about = ObjectRequest::parse(request.method(), request.uri());
    let (response, commits) = attributed(shared, shared.server().service(), request).await;
    let (head, content) = response.into_parts();
    let content = match content.collect().await {
        Ok(content) => content.to_bytes(),
        Err(never) => match never {},
    };
    let answer = answer(head.status, &content);
    let outcome = WriteOutcome { status: answer.status, message: answer.message.clone() };
    if let Some(mut about) = about {
        if about.name.is_empty() {
            about.name.clone_from(&write.name);
        }
        let sent = SentRequest {
            author,
            step,
            reconcile: None,
            about: &about,
            body: Some(body),
            answer: Some(answer),
            answered: true,
        };
        shared.lock().record_request(sent, commits);
    }
    outcome
}

fn delete_options(propagation: Option<&String>, uid: Option<&String>) -> Value {
    let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    if let Some(propagation) = propagation {
        options["propagationPolicy"] = Value::from(propagation.as_str());
    }
    if let Some(uid) = uid {
        options["preconditions"] = json!({"uid": uid});
    }
    options
}
