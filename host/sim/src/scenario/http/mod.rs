//! The HTTP services of a scenario: a state, and routes that read and change it.
//!
//! A route may read the state as it was some time ago, as a cloud's list does that lags behind.

mod route;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use serde_saphyr::Spanned;

use super::document::{HttpDocument, check_count};
use super::kinds::Kinds;
use super::text::quoted;
use crate::http::{HttpAnswer, HttpRequest, HttpServices};
use route::{ParsedRequest, Route};

const MAX_SERVICES: usize = 20;
const MAX_ROUTES: usize = 100;
/// The most bytes of a state as JSON. A request that would exceed it is answered with 507.
const MAX_STATE_SIZE: usize = 1 << 20;
/// The most bytes of a request's body. A larger one is answered with 413.
const MAX_BODY_SIZE: usize = 1 << 20;
/// The most earlier states that are kept for routes that lag.
const MAX_HISTORY: usize = 1000;

/// The HTTP services that a scenario defines.
#[derive(Debug, Default)]
pub struct HttpDefinitions(Vec<Service>);

#[derive(Debug)]
struct Service {
    name: String,
    host: String,
    state: Map<String, Value>,
    routes: Vec<Route>,
}

impl HttpDefinitions {
    /// Validates the services of a scenario.
    ///
    /// # Errors
    /// Errors with one line that names the line of the scenario.
    pub(super) fn new(documents: Vec<Spanned<HttpDocument>>, kinds: &Arc<Kinds>) -> Result<Self, String> {
        check_count("HTTP services", documents.len(), MAX_SERVICES)?;
        let mut names = BTreeSet::new();
        let mut services = Vec::new();
        for document in documents {
            let line = document.referenced.line();
            let at = |problem: String| format!("line {line}: http: {problem}");
            let HttpDocument { name, host, state, routes } = document.value;
            let is_identifier = name.starts_with(|first: char| first.is_ascii_alphabetic())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_identifier {
                return Err(at(format!(
                    "the name {} is no identifier; write one such as cloud",
                    quoted(&name)
                )));
            }
            let is_host = !host.is_empty()
                && host
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte));
            if !is_host {
                return Err(at(format!(
                    "the host {} is no host name without a port in lower case",
                    quoted(&host)
                )));
            }
            if !names.insert(name.clone()) || services.iter().any(|service: &Service| service.host == host) {
                return Err(at(format!("the name {} or its host is there twice; rename one", quoted(&name))));
            }
            check_count("routes", routes.len(), MAX_ROUTES).map_err(at)?;
            let mut compiled = Vec::new();
            for route in routes {
                let line = route.referenced.line();
                compiled.push(
                    Route::new(route.value, kinds).map_err(|problem| format!("line {line}: {problem}"))?,
                );
            }
            services.push(Service { name, host, state, routes: compiled });
        }
        Ok(Self(services))
    }

    /// Whether there are no services.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the hosts, to which the plugin must be allowed to send requests.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|service| service.host.as_str())
    }
}

/// The HTTP services in one run.
#[derive(Debug)]
pub struct HttpState {
    definitions: Arc<HttpDefinitions>,
    states: Vec<ServiceState>,
}

#[derive(Debug)]
struct ServiceState {
    current: Map<String, Value>,
    /// Earlier states with the virtual time at which each was replaced, the oldest first.
    past: VecDeque<(u64, Map<String, Value>)>,
    /// How many requests there were.
    requests: u64,
}

impl ServiceState {
    /// Returns the state at a time.
    fn at(&self, time: u64) -> &Map<String, Value> {
        let earlier = self.past.iter().find(|(end, _)| *end > time);
        earlier.map_or(&self.current, |(_, state)| state)
    }
}

impl HttpState {
    /// Creates the services of a run.
    #[must_use]
    pub fn new(definitions: Arc<HttpDefinitions>) -> Self {
        let state = |service: &Service| ServiceState {
            current: service.state.clone(),
            past: VecDeque::new(),
            requests: 0,
        };
        let states = definitions.0.iter().map(state).collect();
        Self { definitions, states }
    }
}

impl HttpServices for HttpState {
    fn answer(&mut self, request: &HttpRequest, now_ms: u64) -> Option<HttpAnswer> {
        let index = self.definitions.0.iter().position(|service| service.host == request.host)?;
        let (service, state) = (&self.definitions.0[index], &mut self.states[index]);
        state.requests += 1;
        if request.body.len() > MAX_BODY_SIZE {
            return Some(error(413, "the body is too large"));
        }
        let parsed = ParsedRequest::new(request, state.requests);
        for route in &service.routes {
            let read = state.at(now_ms.saturating_sub(route.lag_ms));
            match route.answer(&parsed, read, &state.current, now_ms) {
                Ok(None) => {}
                Ok(Some((answer, changed))) => {
                    if let Some(changed) = changed.filter(|changed| *changed != state.current) {
                        if Value::Object(changed.clone()).to_string().len() > MAX_STATE_SIZE {
                            return Some(error(507, "the state would be too large"));
                        }
                        let before = std::mem::replace(&mut state.current, changed);
                        state.past.push_back((now_ms, before));
                        if state.past.len() > MAX_HISTORY {
                            state.past.pop_front();
                        }
                    }
                    return Some(answer);
                }
                Err(problem) => return Some(error(500, &problem)),
            }
        }
        Some(error(404, &format!("no route of {} matches", service.name)))
    }

    fn state(&self) -> Value {
        let named = self.definitions.0.iter().zip(&self.states);
        named.map(|(service, state)| (service.name.clone(), Value::Object(state.current.clone()))).collect()
    }
}

fn error(status: u16, message: &str) -> HttpAnswer {
    HttpAnswer {
        status,
        content_type: "application/json".to_owned(),
        body: json!({ "error": message }).to_string().into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::parse_yaml;
    use super::*;

    const CLOUD: &str = r#"
- name: cloud
  host: cloud.example.com
  state: {machines: {}}
  routes:
  - {method: GET, path: /machines, lag: 5s, body: "${state.machines}"}
  - method: POST
    path: /machines
    when: state.machines.exists(id, state.machines[id].token == request.body.token)
    status: 409
  - method: POST
    path: /machines
    set: {machines: {"m${request.number}": {token: "${request.body.token}"}}}
    status: 201
    body: {id: "m${request.number}"}
  - {method: DELETE, path: "/machines/{id}", set: {machines: {"${params.id}": null}}, status: 204}
  - {method: GET, path: "/machines/{id}", when: "params.id in state.machines", body: "${state.machines[params.id]}"}
  - {method: GET, path: /version, body: "v1 ${has(request.query.verbose) ? request.query.verbose : 'no'}"}
"#;

    fn services(text: &str) -> Result<HttpDefinitions, String> {
        let kinds = Arc::new(Kinds::built_in());
        HttpDefinitions::new(parse_yaml(text)?, &kinds)
    }

    fn send(state: &mut HttpState, request: &str, body: &str, now_ms: u64) -> (u16, String) {
        let (method, path) = request.split_once(' ').expect("a method");
        let request = HttpRequest {
            method: method.to_owned(),
            host: "cloud.example.com".to_owned(),
            path: path.to_owned(),
            body: body.as_bytes().to_vec(),
        };
        let answer = state.answer(&request, now_ms).expect("a service");
        (answer.status, String::from_utf8(answer.body).expect("text"))
    }

    #[test]
    fn routes_change_the_state_and_lists_lag() {
        let mut cloud = HttpState::new(Arc::new(services(CLOUD).expect("valid")));
        assert_eq!(send(&mut cloud, "GET /machines", "", 0), (200, "{}".to_owned()));
        assert_eq!(
            send(&mut cloud, "POST /machines", r#"{"token":"a"}"#, 1000),
            (201, r#"{"id":"m2"}"#.to_owned())
        );
        assert_eq!(send(&mut cloud, "POST /machines", r#"{"token":"a"}"#, 1000).0, 409);
        assert_eq!(send(&mut cloud, "GET /machines/m2", "", 1000), (200, r#"{"token":"a"}"#.to_owned()));
        assert_eq!(send(&mut cloud, "GET /machines", "", 5999), (200, "{}".to_owned()), "the list lags");
        assert_eq!(send(&mut cloud, "GET /machines", "", 6000).1, r#"{"m2":{"token":"a"}}"#);
        assert_eq!(cloud.state(), json!({"cloud": {"machines": {"m2": {"token": "a"}}}}));
        assert_eq!(send(&mut cloud, "DELETE /machines/m2", "", 7000), (204, String::new()));
        assert_eq!(cloud.state(), json!({"cloud": {"machines": {}}}));
    }

    #[test]
    fn queries_and_texts_are_supported() {
        let mut cloud = HttpState::new(Arc::new(services(CLOUD).expect("valid")));
        assert_eq!(send(&mut cloud, "GET /version?verbose=yes", "", 0), (200, "v1 yes".to_owned()));
        assert_eq!(send(&mut cloud, "GET /machines/m9", "", 0).0, 404);
        assert_eq!(send(&mut cloud, "DELETE /machines", "", 0).0, 404);
        let other =
            HttpRequest { method: "GET".into(), host: "other".into(), path: "/".into(), body: Vec::new() };
        assert_eq!(cloud.answer(&other, 0), None);
    }

    #[test]
    fn malformed_services_are_refused() {
        let service = |rest: &str| format!("- {{name: a, host: a.example.com, routes: [{rest}]}}");
        for (text, expected) in [
            ("- {name: a-b, host: a, routes: []}".to_owned(), "is no identifier"),
            ("- {name: a, host: 'a:80', routes: []}".to_owned(), "without a port"),
            (
                "- {name: a, host: a, routes: []}\n- {name: b, host: a, routes: []}".to_owned(),
                "line 2: http: ",
            ),
            (service("{method: get, path: /}"), "upper case"),
            (service("{method: GET, path: a}"), "begins with /"),
            (service("{method: GET, path: /, status: 99}"), "status 99"),
            (service("{method: GET, path: /, when: stat.a}"), "did you mean state?"),
            (service("{method: GET, path: /, lag: x}"), "lag: "),
            (service("{method: GET, path: /, bdy: x}"), "did you mean body?"),
        ] {
            let error = services(&text).expect_err(&text);
            assert!(error.contains(expected) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
