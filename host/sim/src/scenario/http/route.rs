//! One route of an HTTP service.

use std::sync::Arc;

use pilothouse_cel::{Value as CelValue, from_json};
use pilothouse_model::ResourceType;
use serde_json::{Map, Value, json};

use super::super::document::RouteDocument;
use super::super::kinds::Kinds;
use super::super::merge::merged;
use super::super::program::{ObjectValues, Program, now_value};
use super::super::template::Template;
use super::super::text::{duration_ms, quoted};
use crate::http::{HttpAnswer, HttpRequest};

const VARIABLES: [&str; 4] = ["state", "request", "params", "now"];
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/// The most parameters of a query that a route can read.
const MAX_PARAMETERS: usize = 100;

/// A route.
#[derive(Debug)]
pub(super) struct Route {
    method: String,
    path: Vec<Segment>,
    when: Option<Program>,
    /// How old the state is that the route reads, in virtual milliseconds.
    pub(super) lag_ms: u64,
    /// A merge patch for the state.
    set: Option<Template>,
    status: u16,
    body: Option<Template>,
    /// Whether the body is written as a text, which is sent as it is.
    is_text: bool,
}

#[derive(Debug)]
enum Segment {
    Fixed(String),
    Parameter(String),
}

/// A request with its path and body taken apart.
pub(super) struct ParsedRequest {
    method: String,
    segments: Vec<String>,
    /// The value of the variable `request`.
    value: Value,
}

/// An HTTP service reads no objects of the server.
struct NoObjects;

impl ObjectValues for NoObjects {
    fn list(&self, _: &ResourceType, _: Option<&str>) -> Vec<CelValue> {
        Vec::new()
    }

    fn get(&self, _: &ResourceType, _: &str, _: &str) -> Option<CelValue> {
        None
    }
}

impl ParsedRequest {
    /// Takes a request apart. `number` counts the requests of the service from 1.
    pub(super) fn new(request: &HttpRequest, number: u64) -> Self {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).take(MAX_PARAMETERS);
        let query: Map<String, Value> = pairs
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (decoded(name), Value::String(decoded(value))))
            .collect();
        let text = String::from_utf8_lossy(&request.body);
        let body = serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.into_owned()));
        let value =
            json!({"method": request.method, "path": path, "query": query, "body": body, "number": number});
        Self { method: request.method.clone(), segments: segments(path).map(decoded).collect(), value }
    }
}

impl Route {
    /// Validates a route.
    ///
    /// # Errors
    /// Errors with one line.
    pub(super) fn new(document: RouteDocument, kinds: &Arc<Kinds>) -> Result<Self, String> {
        let RouteDocument { method, path, when, lag, set, status, body } = document;
        if !METHODS.contains(&method.as_str()) {
            return Err(format!(
                "the method {} is unknown; write one of {} in upper case",
                quoted(&method),
                METHODS.join(", ")
            ));
        }
        if !path.starts_with('/') || path.contains('?') {
            return Err(format!("{} is no path; a path begins with / and has no query", quoted(&path)));
        }
        let segment = |text: &str| match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
            Some(name) => Segment::Parameter(name.to_owned()),
            None => Segment::Fixed(text.to_owned()),
        };
        let status = status.unwrap_or(200);
        if !(200..600).contains(&status) {
            return Err(format!("status {status} is no HTTP status of an answer; write one from 200 to 599"));
        }
        Ok(Self {
            method,
            path: segments(&path).map(segment).collect(),
            when: when.map(|text| Program::compile_condition(&text, &VARIABLES, kinds)).transpose()?,
            lag_ms: lag.as_deref().map_or(Ok(0), duration_ms).map_err(|problem| format!("lag: {problem}"))?,
            set: set.map(|patch| leaf_template(&Value::Object(patch), kinds)).transpose()?,
            status,
            is_text: body.as_ref().is_some_and(Value::is_string),
            body: body.map(|body| leaf_template(&body, kinds)).transpose()?,
        })
    }

    /// Answers a request, with the service's state after it if the route changes it; `None` if the route does not
    /// match. `read` is the state that the route reads, `current` the one that it changes.
    ///
    /// # Errors
    /// Errors with one line if an evaluation fails.
    #[allow(clippy::type_complexity, reason = "an answer and a state need no name together")]
    pub(super) fn answer(
        &self,
        request: &ParsedRequest,
        read: &Map<String, Value>,
        current: &Map<String, Value>,
        now_ms: u64,
    ) -> Result<Option<(HttpAnswer, Option<Map<String, Value>>)>, String> {
        let Some(params) = self.parameters(request) else { return Ok(None) };
        let variables = vec![
            ("state", from_json(Value::Object(read.clone()))),
            ("request", from_json(request.value.clone())),
            ("params", from_json(Value::Object(params))),
            ("now", now_value(now_ms)),
        ];
        if let Some(when) = &self.when
            && !when.holds(variables.clone(), &NoObjects)?
        {
            return Ok(None);
        }
        let changed = match &self.set {
            None => None,
            Some(patch) => {
                match merged(&Value::Object(current.clone()), &patch.render(&variables, &NoObjects)?) {
                    Value::Object(state) => Some(state),
                    _ => None,
                }
            }
        };
        let body = self.body.as_ref().map(|body| body.render(&variables, &NoObjects)).transpose()?;
        let (content_type, body) = match body {
            None => ("text/plain", Vec::new()),
            Some(Value::String(text)) if self.is_text => ("text/plain", text.into_bytes()),
            Some(value) => ("application/json", value.to_string().into_bytes()),
        };
        Ok(Some((HttpAnswer { status: self.status, content_type: content_type.to_owned(), body }, changed)))
    }

    /// Returns the parameters of the path; `None` if the request has another method or path.
    fn parameters(&self, request: &ParsedRequest) -> Option<Map<String, Value>> {
        if request.method != self.method || request.segments.len() != self.path.len() {
            return None;
        }
        let mut parameters = Map::new();
        for (wanted, segment) in self.path.iter().zip(&request.segments) {
            match wanted {
                Segment::Fixed(text) if text == segment => {}
                Segment::Fixed(_) => return None,
                Segment::Parameter(name) => {
                    parameters.insert(name.clone(), Value::String(segment.clone()));
                }
            }
        }
        Some(parameters)
    }
}

/// Parses a template in which a text is a text, not YAML.
fn leaf_template(value: &Value, kinds: &Arc<Kinds>) -> Result<Template, String> {
    Template::of_value(value, &VARIABLES, kinds)
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

/// Decodes percent-encoded bytes; what is malformed stays as it is.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut result = Vec::with_capacity(bytes.len());
    let mut position = 0;
    while position < bytes.len() {
        let escaped = bytes.get(position + 1..position + 3).filter(|_| bytes[position] == b'%');
        let hex = escaped.filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        result.push(byte.unwrap_or(bytes[position]));
        position += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&result).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoded_texts_are_decoded() {
        for (text, expected) in [
            ("a%20b", "a b"),
            ("%2F", "/"),
            ("100%", "100%"),
            ("%zz", "%zz"),
            ("%C3%A9", "é"),
            ("%+1", "%+1"),
        ] {
            assert_eq!(decoded(text), expected);
        }
    }
}
