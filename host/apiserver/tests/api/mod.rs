//! A client for tests, with requests, responses and watch events as JSON.
#![allow(dead_code, reason = "each test file uses only some of these functions")]

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use pilothouse_apiserver::{ApiServer, ResponseBody};
use serde_json::Value;
use tower::ServiceExt;

/// Returns the path of a core resource in the namespace `default`.
pub(crate) fn core(rest: &str) -> String {
    format!("/api/v1/namespaces/default/{rest}")
}

/// Returns the path of a resource of the group `apps` in the namespace `default`.
pub(crate) fn apps(rest: &str) -> String {
    format!("/apis/apps/v1/namespaces/default/{rest}")
}

/// A server and a client for it.
pub(crate) struct Api {
    pub(crate) server: ApiServer,
}

/// A response: status code, JSON body and `Warning` headers.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    /// Asserts success and returns the body.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!(self.code < 300, "{self:#?}");
        self.body
    }

    /// Asserts that no handler has the path, so that the answer is a text and no Status.
    #[track_caller]
    pub(crate) fn is_page_not_found(&self) {
        assert_eq!((self.code, self.body["kind"].as_str()), (404, None), "{:#}", self.body);
    }

    /// Asserts a failure with this code and reason, and returns the body.
    #[track_caller]
    pub(crate) fn fails(self, code: u16, reason: &str) -> Value {
        assert_eq!((self.code, self.body["reason"].as_str()), (code, Some(reason)), "{:#}", self.body);
        self.body
    }
}

impl Api {
    pub(crate) fn new() -> Self {
        Self { server: ApiServer::builder().first_revision(1).build() }
    }

    pub(crate) async fn send(&self, method: Method, path: &str, content_type: &str, body: Bytes) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .header("user-agent", "tester/1")
            .body(Full::new(body))
            .expect("a request");
        let Ok(response) = self.server.service().oneshot(request).await;
        let (parts, body) = response.into_parts();
        let warnings = parts.headers.get_all("warning").iter();
        let warnings = warnings.map(|value| value.to_str().expect("text").to_owned()).collect();
        let Ok(collected) = body.collect().await;
        let body = serde_json::from_slice(&collected.to_bytes()).unwrap_or_default();
        Answer { code: parts.status.as_u16(), body, warnings }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "application/json", Bytes::new()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, "application/json", body.to_string().into()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PUT, path, "application/json", body.to_string().into()).await
    }

    pub(crate) async fn delete(&self, path: &str, options: &Value) -> Answer {
        let body = if options.is_null() { Bytes::new() } else { options.to_string().into() };
        self.send(Method::DELETE, path, "application/json", body).await
    }

    /// Sends a patch; `kind` is `json-patch+json`, `merge-patch+json`, ….
    pub(crate) async fn patch(&self, kind: &str, path: &str, body: &Value) -> Answer {
        let content_type = format!("application/{kind}");
        self.send(Method::PATCH, path, &content_type, body.to_string().into()).await
    }

    pub(crate) async fn merge(&self, path: &str, body: &Value) -> Answer {
        self.patch("merge-patch+json", path, body).await
    }

    pub(crate) async fn apply(&self, path: &str, body: &Value) -> Answer {
        self.patch("apply-patch+yaml", path, body).await
    }

    /// Sends a GET with an `Accept` header; returns the response and its content type.
    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> (Answer, String) {
        let request =
            Request::get(path).header("accept", accept).body(Full::<Bytes>::default()).expect("a request");
        let Ok(response) = self.server.service().oneshot(request).await;
        let (parts, body) = response.into_parts();
        let content_type = parts.headers["content-type"].to_str().expect("text").to_owned();
        let Ok(collected) = body.collect().await;
        let body = serde_json::from_slice(&collected.to_bytes()).unwrap_or_default();
        (Answer { code: parts.status.as_u16(), body, warnings: Vec::new() }, content_type)
    }

    /// Starts a watch; `path` contains the query without `watch`.
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        let separator = if path.contains('?') { '&' } else { '?' };
        let uri = format!("{path}{separator}watch=true");
        let request = Request::get(uri).body(Full::<Bytes>::default()).expect("a request");
        let Ok(response) = self.server.service().oneshot(request).await;
        assert_eq!(response.status(), 200, "{path}");
        Watch::new(response.into_body())
    }

    /// Gets an object repeatedly until it satisfies `done`, in tokio's (paused) time.
    pub(crate) async fn until(&self, path: &str, done: impl Fn(&Answer) -> bool) -> Answer {
        for _ in 0..1000 {
            let answer = self.get(path).await;
            if done(&answer) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{path} did not reach the expected state: {:#?}", self.get(path).await);
    }
}

/// An open watch.
pub(crate) struct Watch {
    body: ResponseBody,
    /// Received bytes that were not parsed yet.
    buffer: Vec<u8>,
}

impl Watch {
    /// Reads the events of a response.
    pub(crate) fn new(body: ResponseBody) -> Self {
        Self { body, buffer: Vec::new() }
    }

    /// Returns the next event, or `None` when the watch has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("a line is an event"));
            }
            let Ok(frame) = self.body.frame().await?;
            self.buffer.extend_from_slice(&frame.into_data().expect("data"));
        }
    }

    /// Returns the next event as `TYPE name`.
    pub(crate) async fn next_summary(&mut self) -> String {
        let event = self.next().await.expect("an event");
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
        format!("{} {name}", event["type"].as_str().unwrap_or_default())
    }
}

/// Returns the resourceVersion of an object or list.
pub(crate) fn version(value: &Value) -> String {
    value["metadata"]["resourceVersion"].as_str().expect("a resourceVersion").to_owned()
}

/// Returns the names of a list's items.
pub(crate) fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("a list").iter();
    items.map(|item| item["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
}
