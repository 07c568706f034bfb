//! The gate of the requests of plugins and of the host itself.

use std::future::pending;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use pilothouse_apiserver::ApiService;
use pilothouse_controller::RequestOrigin;
use serde_json::Value;
use tower::Service;

use super::interference::interfere;
use super::responses::{answer, refusal};
use super::{AnswerBody, attributed, unchanged, whole};
use crate::plan::Fault;
use crate::run::Author;
use crate::world::mirror::Change;
use crate::world::record::{Answer, SentRequest};
use crate::world::request::ObjectRequest;
use crate::world::shared::Shared;

/// The gate of the requests of plugins and of the host itself.
#[derive(Clone)]
pub(in crate::world) struct RequestGate {
    shared: Shared,
    server: ApiService,
}

/// What the faults of the plan do to one request.
#[derive(Default)]
struct RequestFaults {
    delay: Option<Duration>,
    interfere: bool,
    refuse: Option<u16>,
    lose_answer: bool,
    crash_after: Option<usize>,
    crashed: bool,
    /// The request waits until an actor has taken its next step.
    awaits_step: bool,
}

impl RequestGate {
    pub(in crate::world) fn new(shared: Shared) -> Self {
        let server = shared.server().service();
        Self { shared, server }
    }

    async fn exchange(self, request: Request<Body>) -> io::Result<Response<AnswerBody>> {
        self.shared.pend_if_crashed().await;
        let origin = request.extensions().get::<RequestOrigin>().cloned();
        let about = ObjectRequest::parse(request.method(), request.uri());
        match (origin, about) {
            (Some(origin), Some(about)) => self.of_plugin(&origin, &about, request).await,
            _ => self.of_host(request).await,
        }
    }

    /// Forwards a request of the host itself, such as discovery.
    async fn of_host(self, request: Request<Body>) -> io::Result<Response<AnswerBody>> {
        let (response, commits) = attributed(&self.shared, self.server, request).await;
        self.shared.lock().record_own_commits(commits, &Author::Host);
        self.shared.pend_if_crashed().await;
        Ok(response.map(unchanged))
    }

    /// Sends a request of a plugin, as far as the plan allows.
    async fn of_plugin(
        self,
        origin: &RequestOrigin,
        about: &ObjectRequest,
        request: Request<Body>,
    ) -> io::Result<Response<AnswerBody>> {
        let (author, reconcile) = {
            let state = self.shared.lock();
            let reconcile = origin.reconcile.as_ref();
            let reconcile = reconcile
                .and_then(|(watch, key)| state.reconciles.of_key(&origin.plugin, watch, &key.to_string()));
            (Author::Plugin(origin.plugin.to_string()), reconcile)
        };
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let sent = serde_json::from_slice::<Value>(&body).ok();
        let faults = self.faults_of(about);
        if faults.crashed {
            return pending().await;
        }
        self.shared.lock().in_flight += 1;
        self.wait_for_faults(&faults).await;
        let record = |answer: Option<Answer>, answered: bool, commits: Vec<Change>| {
            let mut state = self.shared.lock();
            state.in_flight = state.in_flight.saturating_sub(1);
            let request = SentRequest { author, step: None, reconcile, about, body: sent, answer, answered };
            state.record_request(request, commits);
        };
        if let Some(code) = faults.refuse {
            let (response, answer) = refusal(code);
            record(Some(answer), true, Vec::new());
            return Ok(response);
        }
        if faults.interfere {
            interfere(&self.shared, about).await;
        }
        let request = Request::from_parts(head, Full::new(body));
        let (response, commits) = attributed(&self.shared, self.server.clone(), request).await;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let answer = answer(head.status, &body);
        let is_answered = !faults.lose_answer && faults.crash_after.is_none();
        record(Some(answer), is_answered, commits);
        if let Some(index) = faults.crash_after {
            self.crash(index);
            return pending().await;
        }
        if faults.lose_answer {
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "the connection ended"));
        }
        self.shared.pend_if_crashed().await;
        Ok(Response::from_parts(head, whole(body)))
    }

    /// Waits for the step of an actor and for the delay that the plan has for the request.
    async fn wait_for_faults(&self, faults: &RequestFaults) {
        if faults.awaits_step {
            self.shared.steps_taken().await;
            self.shared.pend_if_crashed().await;
        }
        if let Some(delay) = faults.delay {
            tokio::time::sleep(delay).await;
            self.shared.lock().record_external_activity();
            self.shared.pend_if_crashed().await;
        }
    }

    /// Ends the host's process, as the deviation with this index says.
    fn crash(&self, index: usize) {
        {
            let mut state = self.shared.lock();
            state.record_deviation(index);
            state.crash(Vec::new());
        }
        self.shared.wake_driver();
    }

    /// Counts a request of a plugin, and returns what the plan does to it.
    fn faults_of(&self, about: &ObjectRequest) -> RequestFaults {
        let mut state = self.shared.lock();
        let due = state.schedule.on_request(about.verb, &about.resource_with_subresource());
        let mut faults = RequestFaults::default();
        for index in due {
            let fault = state.schedule.fault(index).clone();
            match fault {
                Fault::Refuse(code) => faults.refuse = Some(code),
                Fault::LoseAnswer => faults.lose_answer = true,
                Fault::DelayRequest(ms) => faults.delay = Some(Duration::from_millis(ms)),
                Fault::CrashAfter => {
                    faults.crash_after = Some(index);
                    continue;
                }
                Fault::Interfere => {
                    let object = state.mirror.object(&about.resource(), &about.namespace, &about.name);
                    if object.is_none() {
                        state.schedule.skip(index);
                        continue;
                    }
                    faults.interfere = true;
                }
                _ => {
                    if !state.apply_to_host(index) {
                        // A fault of watches.
                        state.schedule.skip(index);
                        continue;
                    }
                    if matches!(fault, Fault::TakeStep { .. }) {
                        faults.awaits_step = true;
                        state.awaits_steps = true;
                    }
                    self.shared.wake_driver();
                    continue;
                }
            }
            state.record_deviation(index);
        }
        // A refused request is not carried out, so there is no moment after it.
        if faults.refuse.is_some()
            && let Some(index) = faults.crash_after.take()
        {
            state.schedule.skip(index);
        }
        faults.crashed = state.crash.is_some();
        faults
    }
}

impl Service<Request<Body>> for RequestGate {
    type Response = Response<AnswerBody>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Response<AnswerBody>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // A request that was sent cannot be recalled: it goes on if its sender gives up waiting.
        let exchange = tokio::spawn(self.clone().exchange(request));
        async move { exchange.await.map_err(io::Error::other)? }.boxed()
    }
}
