//! Sends requests that are made from any bytes to a server of their own, and checks what holds for all requests:
//!
//! 1. Each request is answered, with a body of a limited size, and no code panics.
//! 2. An error is a `Status` whose code is that of the response, and none is the fault of the server.
//! 3. A request that is refused, a read and a dry run change neither an object nor the resourceVersion.
//! 4. Each change has a higher resourceVersion than the one before, and is of a whole object.
//! 5. Whatever was stored can be read in every encoding, and written back without a change.
//!
//! The crate `pilothouse-fuzz` includes this module, too, and searches for bytes that break a rule.

mod answer;
mod mutation;
mod samples;
mod script;

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use pilothouse_apiserver::{ApiServer, Authorization, Commit, CommittedObject, TokioClock};
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use answer::Answer;
use samples::{Sample, samples};
use script::{FuzzRequest, Script};

/// How long a response may take, in paused time: longer than every timeout of the server.
const ANSWER_TIMEOUT: Duration = Duration::from_hours(2);
/// How long a watch is read, in paused time.
const WATCH_TIME: Duration = Duration::from_mins(5);
/// The most frames that are read of a watch.
const MAX_FRAMES: usize = 200;
/// The largest body of a response in bytes. The objects of a script are much smaller.
const MAX_BODY: usize = 16 << 20;
/// How long the controllers may work after each request, in paused time.
const CONTROLLER_TIME: Duration = Duration::from_secs(3);

/// Sends the requests that are made from `input`.
///
/// # Panics
/// If a rule is broken.
pub(crate) fn run(input: &[u8]) {
    let script = script::script(input);
    // Time is paused, so that a response that nothing will complete is noticed at once.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(execute(&script));
}

async fn execute(script: &Script) {
    let epoch = "2026-01-02T03:04:05Z".parse().expect("a timestamp");
    let authorization = if script.rbac { Authorization::Rbac } else { Authorization::AlwaysAllow };
    let server = ApiServer::builder()
        .clock(TokioClock::starting_at(epoch))
        .seed(1)
        .first_revision(1)
        .watch_history(32)
        .webhooks(false)
        .record_commits(true)
        .authorization(authorization)
        .build();
    create_definition(&server).await;
    // The bootstrap objects are not made by requests.
    let _ = server.take_commits();
    let last_revision = server.revision();
    let shutdown = CancellationToken::new();
    let controllers = script.controllers.then(|| server.run_controllers(shutdown.clone()));
    let mut run =
        Run { server, last_revision, with_controllers: script.controllers, changed: BTreeSet::new() };
    for request in &script.requests {
        run.send(request).await;
    }
    run.read_back().await;
    shutdown.cancel();
    if let Some(controllers) = controllers {
        controllers.await.expect("no controller panics");
    }
}

/// Encodes all bytes but letters and digits.
fn percent_encoded(bytes: &[u8]) -> String {
    let encode = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    bytes.iter().map(encode).collect()
}

/// Creates the custom resource of the samples.
async fn create_definition(server: &ApiServer) {
    let definition = samples().resources.iter().find(|sample| sample.name() == "widgets.example.com");
    let definition = definition.expect("a sample");
    let body = definition.object.to_string().into_bytes();
    let headers = vec![("content-type", "application/json".to_owned())];
    let request = FuzzRequest { method: Method::POST, uri: definition.collection(""), headers, body };
    let answer = send(server, &request).await.expect("a valid request");
    assert_eq!(answer.code, 201, "{answer:?}");
}

/// Sends a request; returns `None` if it is not valid HTTP.
async fn send(server: &ApiServer, request: &FuzzRequest) -> Option<Answer> {
    let mut builder = Request::builder().method(request.method.clone()).uri(&request.uri);
    for (name, value) in &request.headers {
        builder = builder.header(*name, value);
    }
    let http = builder.body(Full::new(Bytes::from(request.body.clone()))).ok()?;
    let response = timeout(ANSWER_TIMEOUT, server.service().oneshot(http)).await;
    let Ok(response) = response.unwrap_or_else(|_| panic!("no response to {request:?}"));
    let (parts, mut body) = response.into_parts();
    let content_type = parts.headers.get("content-type").and_then(|value| value.to_str().ok());
    let mut answer = Answer {
        code: parts.status.as_u16(),
        content_type: content_type.unwrap_or_default().to_owned(),
        body: Vec::new(),
    };
    let may_watch = request.may_watch();
    let time = if may_watch { WATCH_TIME } else { ANSWER_TIMEOUT };
    for _ in 0..MAX_FRAMES {
        match timeout(time, body.frame()).await {
            Ok(None) => return Some(answer),
            Ok(Some(frame)) => {
                let Ok(frame) = frame;
                answer.body.extend_from_slice(&frame.into_data().unwrap_or_default());
                assert!(
                    answer.body.len() <= MAX_BODY,
                    "a body of more than {MAX_BODY} bytes for {request:?}"
                );
            }
            Err(_) => {
                assert!(may_watch, "the body does not end: {request:?}");
                return Some(answer);
            }
        }
    }
    assert!(may_watch, "a body of many frames: {request:?}");
    Some(answer)
}

/// A server and what it has done so far.
struct Run {
    server: ApiServer,
    last_revision: u64,
    with_controllers: bool,
    /// The groups and plural names of the resources that have changed.
    changed: BTreeSet<(String, String)>,
}

impl Run {
    async fn send(&mut self, request: &FuzzRequest) {
        let Some(answer) = send(&self.server, request).await else { return };
        answer.check(request);
        let commits = self.note_changes(request);
        let has_dry_run = request.uri.contains("dryRun=All");
        let may_change = answer.code < 300 && !request.is_read() && !has_dry_run;
        if !may_change && !self.with_controllers && !request.deletes_collection() {
            assert!(
                commits.is_empty(),
                "{request:?}\nwas answered with {answer:?}\nand changed {commits:#?}"
            );
        }
        if self.with_controllers {
            sleep(CONTROLLER_TIME).await;
            self.note_changes("the controllers");
        }
    }

    /// Takes the changes since the last call, and checks them.
    fn note_changes(&mut self, cause: impl std::fmt::Debug) -> Vec<Commit> {
        let commits = self.server.take_commits();
        for commit in &commits {
            assert!(
                commit.revision > self.last_revision,
                "{commit:#?}\nafter {}: {cause:?}",
                self.last_revision
            );
            self.last_revision = commit.revision;
            let previous = commit.before.as_ref().map(CommittedObject::value);
            if let Some(object) = &commit.after {
                let problem = answer::incomplete(&object.value(), commit, previous.as_ref());
                assert_eq!(problem, None, "{cause:?}\n{commit:#?}");
            }
            self.changed.insert((commit.group.clone(), commit.plural.clone()));
        }
        assert!(self.server.revision() >= self.last_revision);
        if !self.with_controllers {
            assert_eq!(self.server.revision(), self.last_revision, "a version without a change: {cause:?}");
        }
        commits
    }

    /// Lists all that has changed in each encoding, and writes some objects back as they are.
    async fn read_back(&mut self) {
        let changed = std::mem::take(&mut self.changed);
        for sample in &samples().resources {
            let group = sample.api_version.split_once('/').map_or("", |(group, _)| group);
            if changed.contains(&(group.to_owned(), sample.plural.clone())) {
                self.read_collection(sample).await;
            }
        }
    }

    async fn read_collection(&mut self, sample: &Sample) {
        for accept in answer::ENCODINGS {
            let headers = vec![("accept", accept.to_owned())];
            let request = FuzzRequest { uri: sample.collection(""), headers, ..FuzzRequest::default() };
            let answer = send(&self.server, &request).await.expect("a valid request");
            // The resource may have been deleted.
            assert!(matches!(answer.code, 200 | 404), "{request:?}: {answer:?}");
            if accept == answer::ENCODINGS[0] && answer.code == 200 && !self.with_controllers {
                let list: Value = serde_json::from_slice(&answer.body).expect("JSON");
                for item in list["items"].as_array().expect("a list").iter().take(3) {
                    self.write_back(sample, item).await;
                }
            }
        }
    }

    /// Checks that an object can be written as it was read, which changes nothing.
    async fn write_back(&mut self, sample: &Sample, item: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &item["metadata"];
        let managed = metadata["managedFields"].as_array().into_iter().flatten();
        // A write in another version adds an entry of that version.
        if managed.into_iter().any(|entry| entry["apiVersion"] != sample.api_version.as_str()) {
            return;
        }
        let name = percent_encoded(text(&metadata["name"]).as_bytes());
        let uri = format!("{}/{name}", sample.collection(&text(&metadata["namespace"])));
        let get = FuzzRequest { uri: uri.clone(), ..FuzzRequest::default() };
        let read = send(&self.server, &get).await.expect("a valid request");
        assert_eq!(read.code, 200, "{uri}: {read:?}");
        let headers = vec![("content-type", "application/json".to_owned())];
        let put = FuzzRequest { method: Method::PUT, uri, headers, body: read.body.clone() };
        let written = send(&self.server, &put).await.expect("a valid request");
        written.check(&put);
        let commits = self.note_changes(&put);
        if written.code == 200 {
            assert!(commits.is_empty(), "{}\nwas written back and changed {commits:#?}", read.text());
        }
        assert!(matches!(written.code, 200 | 422), "{}\nwas written back: {}", read.text(), written.text());
    }
}
