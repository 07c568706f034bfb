//! Passes the HTTP requests of plugins to the services of the scenario.

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

use super::state::Shared;
use crate::http::{HttpRequest, HttpServices};
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
        if self.shared.lock().crash.is_some() {
            return std::future::pending().await;
        }
        let answer = self.answer(&request).ok_or_else(|| {
            HttpError::NotFound(format!("no HTTP service of the scenario has the host {:?}", request.host))
        })?;
        let mut response =
            Response::new(Full::new(Bytes::from(answer.body)).map_err(|never| match never {}).boxed_unsync());
        *response.status_mut() =
            StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if let Ok(content_type) = HeaderValue::from_str(&answer.content_type) {
            response.headers_mut().insert(CONTENT_TYPE, content_type);
        }
        Ok(response)
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
    use pilothouse_apiserver::ApiServer;
    use serde_json::{Value, json};

    use super::super::mirror::Mirror;
    use super::*;
    use crate::http::HttpAnswer;
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

    #[tokio::test(start_paused = true)]
    async fn services_answer_requests_and_changes_of_their_state_are_recorded() {
        let clock = VirtualClock::new();
        clock.resume();
        let server = ApiServer::builder().clock(clock.clone()).build();
        let shared = Shared::new(server, clock, Schedule::new(Vec::new()), Mirror::default(), 100, None);
        let services = Services::new(shared.clone(), Some(Box::new(Counter(0))));
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
