//! Passes the HTTP requests of plugins to the services of the scenario, and applies the faults of the plan to them.

use std::future::pending;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use parking_lot::Mutex;
use pilothouse_controller::HttpTransport;
use pilothouse_plugin::{HttpBody, HttpError};

use super::shared::Shared;
use crate::http::{HttpRequest, HttpServices};
use crate::plan::Fault;
use crate::run::EventKind;

/// The longest body of a request, in bytes.
const MAX_BODY: usize = 1 << 20;

/// The HTTP services of one run. They outlive the hosts. Cheap to clone.
#[derive(Clone)]
pub(super) struct Services {
    shared: Shared,
    /// `None` if the scenario has no services.
    services: Arc<Mutex<Option<Box<dyn HttpServices>>>>,
}

/// Counts as a request in flight, also if the plugin gives the request up.
struct RequestInFlight(Shared);

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        self.0.end_request();
    }
}

/// What the faults of the plan do to one request.
#[derive(Default)]
struct RequestFaults {
    /// Set if the request waits until an actor has taken its next step.
    waiting: Option<RequestInFlight>,
    /// The index of the deviation.
    crash_after: Option<usize>,
    loses_answer: bool,
}

impl Services {
    /// Records the services' state at the start.
    pub(super) fn new(shared: Shared, services: Option<Box<dyn HttpServices>>) -> Self {
        if let Some(services) = &services {
            shared.lock().record(EventKind::HttpState { state: services.state() });
        }
        Self { shared, services: Arc::new(Mutex::new(services)) }
    }

    async fn exchange(self, request: Request<HttpBody>) -> Result<Response<HttpBody>, HttpError> {
        let (head, body) = request.into_parts();
        let unreadable = |problem: &dyn std::fmt::Display| {
            HttpError::Protocol(format!("the body of the request cannot be read: {problem}"))
        };
        let body = Limited::new(body, MAX_BODY).collect().await.map_err(|error| unreadable(&error))?;
        let host = head.uri.host().unwrap_or_default().to_owned();
        let path = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
        let body = body.to_bytes().to_vec();
        let request = HttpRequest { method: head.method.as_str().to_owned(), host, path, body };
        self.shared.pend_if_crashed().await;
        let faults = self.faults_of(&request);
        if let Some(waiting) = faults.waiting {
            self.shared.steps_taken().await;
            drop(waiting);
        }
        self.shared.pend_if_crashed().await;
        let answer = self.answer(&request).ok_or_else(|| {
            HttpError::NotFound(format!("no HTTP service of the scenario has the host {:?}", request.host))
        })?;
        if let Some(index) = faults.crash_after {
            self.crash_after(index, &request.method, &head.uri.to_string());
            return pending().await;
        }
        if faults.loses_answer {
            return Err(HttpError::Protocol("the connection ended before the response".to_owned()));
        }
        let mut response =
            Response::new(Full::new(Bytes::from(answer.body)).map_err(|never| match never {}).boxed_unsync());
        *response.status_mut() =
            StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if let Ok(content_type) = HeaderValue::from_str(&answer.content_type) {
            response.headers_mut().insert(CONTENT_TYPE, content_type);
        }
        Ok(response)
    }

    /// Counts a request, and returns what the plan does to it. Faults that concern the host are applied.
    fn faults_of(&self, request: &HttpRequest) -> RequestFaults {
        let mut state = self.shared.lock();
        let mut faults = RequestFaults::default();
        for index in state.schedule.on_http(&request.method, &request.host) {
            let fault = state.schedule.fault(index).clone();
            match fault {
                Fault::CrashAfter => faults.crash_after = Some(index),
                Fault::LoseAnswer => {
                    faults.loses_answer = true;
                    state.record_deviation(index);
                }
                fault if state.apply_to_host(index) => {
                    if matches!(fault, Fault::TakeStep { .. }) && faults.waiting.is_none() {
                        state.awaits_steps = true;
                        state.in_flight += 1;
                        faults.waiting = Some(RequestInFlight(self.shared.clone()));
                    }
                    self.shared.wake_driver();
                }
                // A fault of requests to the server, or of watches.
                _ => state.schedule.skip(index),
            }
        }
        faults
    }

    /// Ends the host's process after a service has carried out a request.
    fn crash_after(&self, index: usize, method: &str, url: &str) {
        {
            let mut state = self.shared.lock();
            let reconcile = state.reconciles.only();
            let (method, url) = (method.to_owned(), url.to_owned());
            state.record(EventKind::Http { reconcile, method, url, status: None });
            state.record_deviation(index);
            state.crash(Vec::new());
        }
        self.shared.wake_driver();
    }

    /// Lets the services answer, and records a change of their state.
    fn answer(&self, request: &HttpRequest) -> Option<crate::http::HttpAnswer> {
        let mut services = self.services.lock();
        let services = services.as_mut()?;
        let before = services.state();
        let answer = services.answer(request, self.shared.clock().now_ms());
        let state = services.state();
        if state != before {
            self.shared.lock().record(EventKind::HttpState { state });
        }
        answer
    }
}

impl HttpTransport for Services {
    fn send(&self, request: Request<HttpBody>) -> BoxFuture<'static, Result<Response<HttpBody>, HttpError>> {
        self.clone().exchange(request).boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pilothouse_apiserver::ApiServer;
    use serde_json::{Value, json};

    use super::super::mirror::Mirror;
    use super::*;
    use crate::http::HttpAnswer;
    use crate::plan::{Deviation, Moment};
    use crate::run::Event;
    use crate::world::clock::VirtualClock;
    use crate::world::schedule::Schedule;

    /// Counts the requests with a body.
    struct Counter(u32);

    impl HttpServices for Counter {
        fn answer(&mut self, request: &HttpRequest, _: u64) -> Option<HttpAnswer> {
            let body = format!("{} {} {}", request.method, request.path, self.0).into_bytes();
            self.0 += u32::from(!request.body.is_empty());
            let answer = HttpAnswer { status: 201, content_type: "text/plain".to_owned(), body };
            (request.host == "cloud").then_some(answer)
        }

        fn state(&self) -> Value {
            json!({"counter": self.0})
        }
    }

    fn request(uri: &str, body: &'static str) -> Request<HttpBody> {
        let body = Full::new(Bytes::from_static(body.as_bytes())).map_err(|never| match never {});
        Request::post(uri).body(body.boxed_unsync()).expect("a request")
    }

    fn services(deviations: Vec<Deviation>) -> (Shared, Services) {
        let clock = VirtualClock::new();
        clock.resume();
        let server = ApiServer::builder().clock(clock.clone()).build();
        let shared = Shared::new(server, clock, Schedule::new(deviations), Mirror::default(), 100, None);
        let services = Services::new(shared.clone(), Some(Box::new(Counter(0))));
        (shared, services)
    }

    fn second_post(fault: Fault) -> Deviation {
        let at = Moment::Http { method: "POST".to_owned(), host: "cloud".to_owned(), occurrence: 2 };
        Deviation { at, fault }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_lost_after_the_service_has_carried_the_request_out() {
        let (shared, services) = services(vec![second_post(Fault::LoseAnswer)]);
        assert!(services.send(request("https://cloud:8443/", "x")).await.is_ok());
        let lost = services.send(request("https://cloud:8443/", "x")).await.map(drop).expect_err("lost");
        assert!(matches!(lost, HttpError::Protocol(_)), "{lost}");
        let state = shared.lock();
        let last = state.events.last().map(|event| &event.kind);
        assert_eq!(last, Some(&EventKind::HttpState { state: json!({"counter": 2}) }));
        assert!(state.schedule.is_over());
    }

    #[tokio::test(start_paused = true)]
    async fn a_crash_comes_before_or_after_the_service_has_carried_the_request_out() {
        for (fault, counter) in [(Fault::CrashBefore, 1), (Fault::CrashAfter, 2)] {
            let (shared, services) = services(vec![second_post(fault.clone())]);
            assert!(services.send(request("https://cloud/", "x")).await.is_ok());
            let waits =
                tokio::time::timeout(Duration::from_secs(1), services.send(request("https://cloud/", "x")));
            assert!(waits.await.is_err(), "the process has ended: {fault:?}");
            let state = shared.lock();
            assert!(state.crash.is_some());
            let is_counter =
                |event: &Event| event.kind == EventKind::HttpState { state: json!({"counter": counter}) };
            assert!(state.events.iter().any(is_counter), "{fault:?}");
            let requests = state.events.iter().filter(|event| matches!(event.kind, EventKind::Http { .. }));
            assert_eq!(
                requests.count(),
                usize::from(fault == Fault::CrashAfter),
                "stories contain the request"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_the_plugin_gives_up_while_it_waits_for_a_step_is_not_in_flight() {
        let (shared, services) = services(vec![second_post(Fault::TakeStep { actor: "user".to_owned() })]);
        assert!(services.send(request("https://cloud/", "x")).await.is_ok());
        let mut waiting = services.send(request("https://cloud/", "x"));
        assert!(futures::poll!(&mut waiting).is_pending());
        assert_eq!(shared.lock().in_flight, 1);
        drop(waiting);
        assert_eq!(shared.lock().in_flight, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fault_of_watches_is_skipped() {
        let (shared, services) = services(vec![second_post(Fault::HoldWatch(1000))]);
        for _ in 0..2 {
            assert!(services.send(request("https://cloud/", "x")).await.is_ok());
        }
        assert_eq!(shared.lock().schedule.skipped(), [0]);
    }

    #[tokio::test(start_paused = true)]
    async fn services_answer_requests_and_changes_of_their_state_are_recorded() {
        let (shared, services) = services(Vec::new());
        for (body, expected) in [("", "POST /a?b=c 0"), ("x", "POST /a?b=c 0"), ("x", "POST /a?b=c 1")] {
            let response = services.send(request("https://cloud/a?b=c", body)).await.expect("an answer");
            assert_eq!(response.status(), 201);
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            assert_eq!(body, expected);
        }
        let unknown = services.send(request("https://elsewhere/", "")).await.map(drop).expect_err("refused");
        assert!(matches!(unknown, HttpError::NotFound(_)), "{unknown}");
        let states: Vec<_> = shared.lock().events.iter().map(|event| event.kind.clone()).collect();
        let state = |count: u32| EventKind::HttpState { state: json!({"counter": count}) };
        assert_eq!(states, [state(0), state(1), state(2)]);
    }
}
