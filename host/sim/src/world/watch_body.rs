//! The body of a watch on its way to the host: delivers events one by one, late, or not at all.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use pilothouse_apiserver::ResponseBody;
use serde::Deserialize;
use tokio::time::Sleep;

use super::record::{Delivery, key};
use super::shared::Shared;
use super::state::State;
use crate::plan::Fault;

/// The body of one watch.
pub(super) struct WatchBody {
    shared: Shared,
    /// The resource as `plural.group`.
    resource: String,
    inner: ResponseBody,
    /// The beginning of a line whose end has not arrived.
    partial: BytesMut,
    /// Lines to be delivered, each with whether its moment was counted already.
    lines: VecDeque<(Bytes, bool)>,
    /// Wakes the task at the end of a hold.
    timer: Option<Pin<Box<Sleep>>>,
    has_ended: bool,
}

/// What happens with the next line.
enum Step {
    Deliver(Option<Delivery>),
    End,
    Held(u64),
    Crashed,
}

/// The part of a watch event that is recorded.
#[derive(Deserialize)]
pub(super) struct WatchEvent {
    #[serde(rename = "type")]
    change: String,
    object: ListedObject,
}

/// The part of an object that is recorded.
#[derive(Default, Deserialize)]
pub(super) struct ListedObject {
    #[serde(default)]
    metadata: ListedMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListedMetadata {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
}

impl ListedObject {
    /// Returns the record of the object's delivery.
    pub(super) fn delivery(self, change: String) -> Delivery {
        let ListedMetadata { namespace, name, uid, resource_version } = self.metadata;
        let version = resource_version.parse().unwrap_or_default();
        Delivery { change, key: key(&namespace, &name), uid, version }
    }
}

impl WatchBody {
    pub(super) fn new(shared: Shared, resource: String, inner: ResponseBody) -> Self {
        Self {
            shared,
            resource,
            inner,
            partial: BytesMut::new(),
            lines: VecDeque::new(),
            timer: None,
            has_ended: false,
        }
    }

    fn split(&mut self, bytes: &Bytes) {
        self.partial.extend_from_slice(bytes);
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            self.lines.push_back((self.partial.split_to(end + 1).freeze(), false));
        }
    }

    /// Decides about the next line.
    fn next_step(&mut self) -> Option<Step> {
        let mut state = self.shared.lock();
        if state.crash.is_some() {
            return Some(Step::Crashed);
        }
        if let Some(until) = state.views.held_until(&self.resource, || state.now()) {
            return Some(Step::Held(until));
        }
        let (line, is_counted) = self.lines.front_mut()?;
        let event: Option<WatchEvent> = serde_json::from_slice(line).ok();
        let Some(event) = event.filter(|event| matches!(&*event.change, "ADDED" | "MODIFIED" | "DELETED"))
        else {
            return Some(Step::Deliver(None));
        };
        if !std::mem::replace(is_counted, true)
            && let Some(step) = self.apply_faults(&mut state)
        {
            return Some(step);
        }
        Some(Step::Deliver(Some(event.object.delivery(event.change))))
    }

    /// Counts an event, and applies all faults that the plan has for it. Returns what happens instead of its delivery, if anything does.
    fn apply_faults(&self, state: &mut State) -> Option<Step> {
        let (mut held_until, mut has_ended) = (None, false);
        for index in state.schedule.on_event(&self.resource) {
            match state.schedule.fault(index).clone() {
                Fault::HoldWatch(ms) => {
                    state.record_deviation(index);
                    let until = state.now().saturating_add(ms);
                    state.views.hold(&self.resource, until);
                    held_until = held_until.max(Some(until));
                }
                Fault::DropWatch(ms) => {
                    state.record_deviation(index);
                    let relist_at = state.now().saturating_add(ms);
                    state.views.drop_watch(&self.resource, relist_at);
                    has_ended = true;
                }
                _ if state.apply_to_host(index) => self.shared.wake_driver(),
                // A fault of requests.
                _ => state.schedule.skip(index),
            }
        }
        if state.crash.is_some() {
            return Some(Step::Crashed);
        }
        if has_ended { Some(Step::End) } else { held_until.map(Step::Held) }
    }
}

impl Body for WatchBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        loop {
            if this.has_ended {
                return Poll::Ready(None);
            }
            match this.next_step() {
                Some(Step::Deliver(delivery)) => {
                    let Some((line, _)) = this.lines.pop_front() else { continue };
                    if let Some(delivery) = delivery {
                        this.shared.lock().record_delivery(&this.resource, delivery);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(line))));
                }
                Some(Step::End) => {
                    this.has_ended = true;
                    continue;
                }
                // The runtime ends in a moment, and this body with it.
                Some(Step::Crashed) => return Poll::Pending,
                Some(Step::Held(until)) => {
                    let due = this.shared.clock().instant(until);
                    let timer = this.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
                    timer.as_mut().reset(due);
                    match timer.as_mut().poll(context) {
                        Poll::Ready(()) => continue,
                        Poll::Pending => return Poll::Pending,
                    }
                }
                None => {}
            }
            match Pin::new(&mut this.inner).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(bytes) = frame.into_data() {
                        this.split(&bytes);
                    }
                }
                Poll::Ready(None) => this.has_ended = true,
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
