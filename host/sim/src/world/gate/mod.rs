//! Intercepts every request between a host and the server: counts it, records it, and applies the faults of the plan.
//!
//! Each host has gates of its own. When its process ends, they answer nothing any more: the requests that are under way have no effect on
//! the host, and new ones none on the server.

use std::future::{pending, poll_fn};
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use pilothouse_apiserver::{ApiService, ResponseBody};
use pilothouse_controller::RequestOrigin;
use serde::Deserialize;
use serde_json::{Value, json};
use tower::{Service, ServiceExt};

use super::mirror::Change;
use super::record::{Answer, SentRequest};
use super::request::{ObjectRequest, parameter};
use super::shared::Shared;
use super::watch_body::{ListedObject, WatchBody};
use crate::plan::Fault;
use crate::run::Author;

/// The annotation that another client changes when it interferes.
const TOUCHED: &str = "simulation.pilothouse.dev/touched";
/// The name under which the client that interferes is recorded.
pub(crate) const OTHER_CLIENT: &str = "another client";

/// The gate of the requests of plugins and of the host itself.
#[derive(Clone)]
pub(super) struct RequestGate {
    shared: Shared,
    server: ApiService,
}

/// The gate of the lists and watches of the informers.
#[derive(Clone)]
pub(super) struct WatchGate {
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
    pub(super) fn new(shared: Shared) -> Self {
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
            let (author, body) = (author.clone(), sent.clone());
            state.record_request(
                SentRequest { author, step: None, reconcile, about, body, answer, answered },
                commits,
            );
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

impl WatchGate {
    pub(super) fn new(shared: Shared) -> Self {
        let server = shared.server().service();
        Self { shared, server }
    }

    async fn exchange(self, mut request: Request<Body>) -> io::Result<Response<AnswerBody>> {
        self.shared.pend_if_crashed().await;
        let about = ObjectRequest::parse(request.method(), request.uri());
        let Some(about) = about.filter(|about| matches!(about.verb, "list" | "watch")) else {
            let response = forward(self.server, request).await;
            return Ok(response.map(unchanged));
        };
        let resource = about.resource();
        if about.verb == "watch" {
            let relist = self.shared.lock().views.relist_at(&resource);
            if let Some(at) = relist {
                tokio::time::sleep_until(self.shared.clock().instant(at)).await;
                self.shared.lock().end_watch(&resource);
                return Ok(expired());
            }
            let response = forward(self.server, request).await;
            if !response.status().is_success() {
                return Ok(response.map(unchanged));
            }
            return Ok(response.map(|body| WatchBody::new(self.shared, resource, body).boxed_unsync()));
        }
        self.answer_from_past(&resource, request.uri_mut());
        let response = forward(self.server, request).await;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        if head.status.is_success() {
            let list: List = serde_json::from_slice(&body).map_err(io::Error::other)?;
            let is_delivered = {
                let mut state = self.shared.lock();
                let is_delivered = state.crash.is_none();
                if is_delivered {
                    state.views.listed(&resource, &about.namespace);
                    for object in list.items.unwrap_or_default() {
                        state.record_delivery(&resource, object.delivery("LISTED".to_owned()));
                    }
                }
                is_delivered
            };
            if !is_delivered {
                return pending().await;
            }
        }
        Ok(Response::from_parts(head, whole(body)))
    }

    /// Changes a list so that it is answered from the past, if the plan wants that for the resource.
    fn answer_from_past(&self, resource: &str, uri: &mut Uri) {
        let kept = ["labelSelector", "fieldSelector"];
        let kept =
            kept.iter().filter_map(|name| parameter(uri, name).map(|value| format!("&{name}={value}")));
        let (path, kept) = (uri.path(), kept.collect::<String>());
        let Some(version) = self.shared.lock().version_of_first_list(resource, &format!("{path}{kept}"))
        else {
            return;
        };
        let text = format!("{path}?resourceVersion={version}&resourceVersionMatch=Exact{kept}");
        if let Ok(changed) = text.parse() {
            *uri = changed;
        }
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

impl Service<Request<Body>> for WatchGate {
    type Response = Response<AnswerBody>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Response<AnswerBody>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.clone().exchange(request).boxed()
    }
}

/// The body of an answer.
type AnswerBody = UnsyncBoxBody<Bytes, io::Error>;

/// Returns a body of these bytes.
fn whole(bytes: Bytes) -> AnswerBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Returns a body of the server as it is.
fn unchanged(body: ResponseBody) -> AnswerBody {
    body.map_err(|never| match never {}).boxed_unsync()
}

/// A list, as far as it is recorded.
#[derive(Deserialize)]
struct List {
    items: Option<Vec<ListedObject>>,
}

/// Sends a request to the server.
async fn forward<B>(server: ApiService, request: Request<B>) -> Response<ResponseBody>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match server.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Sends a request to the server. Returns what the server committed while it worked on the request, and nothing that its controllers did.
pub(super) async fn attributed<B>(
    shared: &Shared,
    server: ApiService,
    request: Request<B>,
) -> (Response<ResponseBody>, Vec<Change>)
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut work = pin!(forward(server, request));
    let mut commits = Vec::new();
    let response = poll_fn(|context| {
        // Records what the controllers have done.
        drop(shared.lock());
        let polled = work.as_mut().poll(context);
        commits.extend(shared.take_commits());
        polled
    })
    .await;
    (response, commits)
}

/// Changes an annotation of the object as another client.
async fn interfere(shared: &Shared, about: &ObjectRequest) {
    let value = shared.clock().now_ms().to_string();
    let patch = json!({"metadata": {"annotations": {TOUCHED: value}}});
    let (group, plural) = (&about.group, &about.plural);
    let Some(version) = ({
        let state = shared.lock();
        let object = state.mirror.object(&about.resource(), &about.namespace, &about.name);
        object.and_then(|object| object["apiVersion"].as_str().map(str::to_owned))
    }) else {
        return;
    };
    let version = version.rsplit('/').next().unwrap_or_default();
    let prefix =
        if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let namespace =
        if about.namespace.is_empty() { String::new() } else { format!("/namespaces/{}", about.namespace) };
    let request = Request::patch(format!("{prefix}{namespace}/{plural}/{}", about.name))
        .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
        .body(Full::new(Bytes::from(patch.to_string())));
    let Ok(request) = request else { return };
    let (response, commits) = attributed(shared, shared.server().service(), request).await;
    let answer = Answer { status: response.status().as_u16(), ..Answer::default() };
    let interference = ObjectRequest { verb: "patch", subresource: String::new(), ..about.clone() };
    let sent = SentRequest {
        author: Author::Actor(OTHER_CLIENT.to_owned()),
        step: None,
        reconcile: None,
        about: &interference,
        body: Some(patch),
        answer: Some(answer),
        answered: true,
    };
    shared.lock().record_request(sent, commits);
}

/// Reads an answer of the server.
pub(super) fn answer(status: StatusCode, body: &Bytes) -> Answer {
    let mut answer = Answer { status: status.as_u16(), ..Answer::default() };
    if !status.is_success()
        && let Ok(body) = serde_json::from_slice::<Value>(body)
    {
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        (answer.reason, answer.message) = (text("reason"), text("message"));
    }
    answer
}

/// Returns the answer to a request that is refused with this code.
fn refusal(code: u16) -> (Response<AnswerBody>, Answer) {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        409 => "Conflict",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    };
    let message = format!("refused with {code} by the simulation");
    let answer = Answer { status: code, reason: reason.to_owned(), message: message.clone() };
    (status_response(code, reason, &message), answer)
}

/// Returns the answer to a watch whose history is gone, so that the host lists again.
fn expired() -> Response<AnswerBody> {
    status_response(410, "Expired", "too old resource version")
}

fn status_response(code: u16, reason: &str, message: &str) -> Response<AnswerBody> {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    let mut response = Response::new(whole(body.to_string().into()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}
