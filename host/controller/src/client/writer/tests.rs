//! The writer against a scripted server, in paused time.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use kube::client::Body;
use parking_lot::Mutex;
use pilothouse_informer::Priority;
use pilothouse_model::Object;
use pilothouse_plugin::Reason;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::cache::own_writes::{CacheState, CacheStateReader, ReadResult};
use crate::cache::views::Views;

/// The reaction of the server to a request.
enum Reply {
    Answers(u16, Value),
    AnswersAfter(Duration, u16, Value),
    /// The connection breaks once the request has arrived.
    Cuts,
    Hangs,
}

use Reply::{Answers, AnswersAfter, Cuts, Hangs};

/// A scripted server that records its requests.
#[derive(Default)]
struct Script {
    writes: Mutex<VecDeque<Reply>>,
    gets: Mutex<VecDeque<Reply>>,
    got: Mutex<Vec<String>>,
}

/// A cache that has seen all changes up to version 5, with at most one object.
struct LaggingCache(Option<Object>);

impl CacheStateReader for LaggingCache {
    fn state(&self, _: &ObjectKey) -> Option<CacheState> {
        Some(CacheState { object: self.0.clone(), version: "5".into(), listed_after: None })
    }

    fn is_selective(&self) -> bool {
        false
    }
}

struct Fixture {
    script: Arc<Script>,
    plugin: PluginServices,
    server: ApiClient,
    fence: Fence,
    cache: Arc<LaggingCache>,
    _views: Arc<Views>,
}

fn resource() -> ResourceType {
    ResourceType {
        group: String::new(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
        namespaced: true,
    }
}

fn key() -> ObjectKey {
    ObjectKey::new("n", "a")
}

fn item() -> ReconcileKey {
    ReconcileKey { watch: "maps".into(), key: key() }
}

fn map(version: u32) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata":
        {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": version.to_string()}})
}

fn status(reason: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": reason, "message": reason})
}

fn write(method: Method) -> Write {
    Write {
        method,
        path: "/api/v1/namespaces/n/configmaps/a".into(),
        payload: Payload::json(map(0).to_string()),
        resource: resource(),
        key: key(),
        subresource: false,
        charge: None,
    }
}

impl Fixture {
    fn new(cached: Option<Value>, writes: Vec<Reply>, gets: Vec<Reply>) -> Self {
        let script = Arc::new(Script::default());
        *script.writes.lock() = writes.into();
        *script.gets.lock() = gets.into();
        let served = Arc::clone(&script);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let script = Arc::clone(&served);
            async move {
                let is_get = request.method() == Method::GET;
                script.got.lock().push(request.method().to_string());
                let replies = if is_get { &script.gets } else { &script.writes };
                let reply = replies.lock().pop_front().expect("no such request");
                let (code, body) = match reply {
                    Answers(code, body) => (code, body),
                    AnswersAfter(delay, code, body) => {
                        sleep(delay).await;
                        (code, body)
                    }
                    Cuts => return Err(std::io::Error::other("connection reset")),
                    Hangs => std::future::pending().await,
                };
                let response =
                    http::Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
                Ok(response.expect("a response"))
            }
        });
        let client = kube::Client::new(service, "n");
        let (server, plugin) = (ApiClient::new(client.clone()), PluginServices::for_test("writer", client));
        let object = cached.map(|json| Object::from_json(json.to_string()).expect("an object"));
        let cache = Arc::new(LaggingCache(object));
        let known: Weak<LaggingCache> = Arc::downgrade(&cache);
        plugin.writes.for_resource(&resource()).add_cache(known);
        let views = Arc::new(Views { writes: plugin.writes.clone(), ..Views::default() });
        plugin.writes.set_views(&views);
        Self { script, plugin, server, fence: Fence::default(), cache, _views: views }
    }

    fn writer(&self) -> Writer {
        Writer::new(
            self.server.clone(),
            Discovery::new(self.server.clone()),
            self.fence.clone(),
            self.plugin.clone(),
        )
    }

    /// Takes the key as a worker does, sends the write, and lets go of the key once the guest has its answer, when the
    /// key is wanted again already.
    async fn reconcile(&self, write: Write) -> Result<WriteOutcome, ApiError> {
        self.plugin.queue.add(item(), Reason::Created, Priority::Normal);
        let (held, _) = self.plugin.queue.get().await.expect("the key");
        let answer = self.writer().send(ReconcileContext { item: Some(&item()), trace: None }, write).await;
        self.plugin.queue.add(item(), Reason::Retry, Priority::Normal);
        drop(held);
        answer
    }

    /// Waits until the key can be reconciled again, and returns how long that took.
    async fn released(&self) -> Duration {
        let since = Instant::now();
        let (held, _) = self.plugin.queue.get().await.expect("the key");
        drop(held);
        since.elapsed()
    }

    fn is_held(&self) -> bool {
        self.plugin.queue.snapshot().depth == 0
    }

    /// The resource version that the plugin's reads return; "" for none.
    fn sees(&self) -> String {
        let state = self.cache.state(&key()).expect("covered");
        let seen = match self.plugin.writes.for_resource(&resource()).get(&key()) {
            Some(entry) => match entry.read(state) {
                ReadResult::Cached(object) => object,
                ReadResult::Written(object) => Some(object),
            },
            None => state.object,
        };
        seen.map(|object| object.resource_version().to_owned()).unwrap_or_default()
    }

    fn got(&self) -> String {
        self.script.got.lock().join(" ")
    }
}

#[tokio::test(start_paused = true)]
async fn an_answered_write_is_visible_at_once_and_holds_no_key() {
    let fixture = Fixture::new(Some(map(5)), vec![Answers(200, map(8))], vec![]);
    assert!(matches!(fixture.reconcile(write(Method::PUT)).await, Ok(WriteOutcome::Object(..))));
    assert_eq!((fixture.sees().as_str(), fixture.is_held()), ("8", false));
}

#[tokio::test(start_paused = true)]
async fn a_live_get_decides_after_a_connection_was_cut() {
    for (method, before) in [(Method::POST, None), (Method::PUT, Some(map(5))), (Method::PATCH, Some(map(5)))]
    {
        let fixture = Fixture::new(before, vec![Cuts], vec![Answers(200, map(8))]);
        let answer = fixture.reconcile(write(method.clone())).await;
        assert!(matches!(answer, Err(ApiError::Unavailable(_))), "{answer:?}");
        assert!(fixture.is_held());
        assert_eq!(fixture.released().await, FIRST_GET_DELAY);
        assert_eq!((fixture.sees(), fixture.got()), ("8".to_owned(), format!("{method} GET")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_without_a_response_hides_the_object_if_a_live_get_finds_none() {
    for (found, sees) in [(Answers(404, status("NotFound")), ""), (Answers(200, map(5)), "5")] {
        let fixture = Fixture::new(Some(map(5)), vec![Cuts], vec![found]);
        fixture.reconcile(write(Method::DELETE)).await.expect_err("unknown");
        assert_eq!(fixture.sees(), "5");
        fixture.released().await;
        assert_eq!(fixture.sees(), sees);
    }
}

#[tokio::test(start_paused = true)]
async fn a_live_get_decides_after_an_error_that_may_hide_a_success() {
    for code in [500, 502, 503, 504] {
        let fixture =
            Fixture::new(Some(map(5)), vec![Answers(code, status("Timeout"))], vec![Answers(200, map(8))]);
        fixture.reconcile(write(Method::PUT)).await.expect_err("an error");
        assert!(fixture.is_held());
        fixture.released().await;
        assert_eq!(fixture.sees(), "8");
    }
}

#[tokio::test(start_paused = true)]
async fn a_live_get_decides_after_an_unreadable_response() {
    let fixture = Fixture::new(Some(map(5)), vec![Answers(200, json!("cut"))], vec![Answers(200, map(8))]);
    fixture.reconcile(write(Method::PUT)).await.expect_err("an error");
    fixture.released().await;
    assert_eq!(fixture.sees(), "8");
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_needs_no_live_get() {
    for (code, reason) in [(409, "Conflict"), (403, "Forbidden"), (422, "Invalid"), (429, "TooManyRequests")]
    {
        let fixture = Fixture::new(Some(map(5)), vec![Answers(code, status(reason))], vec![]);
        fixture.reconcile(write(Method::PUT)).await.expect_err("an error");
        assert!(!fixture.is_held());
        assert_eq!(fixture.got(), "PUT");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_response_times_out_and_a_live_get_decides() {
    let fixture = Fixture::new(Some(map(5)), vec![Hangs], vec![Answers(200, map(8))]);
    let started = Instant::now();
    fixture.reconcile(write(Method::PUT)).await.expect_err("no answer");
    assert_eq!(started.elapsed(), RESPONSE_TIMEOUT);
    fixture.released().await;
    assert_eq!(fixture.sees(), "8");
}

/// Cuts off a guest while its request is in flight, as its time limit would, and queues its key again.
async fn cut_off(fixture: &Fixture) {
    fixture.plugin.queue.add(item(), Reason::Created, Priority::Normal);
    let (held, _) = fixture.plugin.queue.get().await.expect("the key");
    let writer = fixture.writer();
    let call: JoinHandle<_> = tokio::spawn(async move {
        writer.send(ReconcileContext { item: Some(&item()), trace: None }, write(Method::PUT)).await
    });
    while fixture.got().is_empty() {
        tokio::task::yield_now().await;
    }
    call.abort();
    assert!(call.await.is_err_and(|error| error.is_cancelled()));
    fixture.plugin.queue.add(item(), Reason::Retry, Priority::Normal);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_request_continues_without_its_guest_and_holds_its_key() {
    let late = Duration::from_secs(20);
    let fixture = Fixture::new(Some(map(5)), vec![AnswersAfter(late, 200, map(8))], vec![]);
    cut_off(&fixture).await;
    // Even if the version is swapped out, its request continues.
    fixture.fence.close();
    assert!(fixture.is_held());
    assert_eq!(fixture.released().await, late);
    assert_eq!((fixture.sees().as_str(), fixture.got().as_str()), ("8", "PUT"));
}

#[tokio::test(start_paused = true)]
async fn a_live_get_decides_about_an_abandoned_request_before_its_key_is_released() {
    let fixture = Fixture::new(Some(map(5)), vec![Hangs], vec![Answers(200, map(8))]);
    cut_off(&fixture).await;
    assert_eq!(fixture.released().await, RESPONSE_TIMEOUT + FIRST_GET_DELAY);
    assert_eq!(fixture.sees(), "8");
}

#[tokio::test(start_paused = true)]
async fn the_key_is_held_until_a_live_get_succeeds() {
    let gets = vec![Cuts, Answers(503, status("ServiceUnavailable")), Hangs, Answers(200, map(8))];
    let fixture = Fixture::new(Some(map(5)), vec![Cuts], gets);
    fixture.reconcile(write(Method::PUT)).await.expect_err("unknown");
    fixture.released().await;
    assert_eq!((fixture.sees().as_str(), fixture.got().as_str()), ("8", "PUT GET GET GET GET"));
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_live_get_does_not_hold_the_key_forever() {
    let fixture = Fixture::new(Some(map(5)), vec![Cuts], vec![Answers(403, status("Forbidden"))]);
    fixture.reconcile(write(Method::PUT)).await.expect_err("unknown");
    assert_eq!(fixture.released().await, FIRST_GET_DELAY);
    assert_eq!(fixture.sees(), "5");
}

#[tokio::test(start_paused = true)]
async fn a_write_is_charged_until_its_outcome_is_known() {
    let fixture = Fixture::new(Some(map(5)), vec![Cuts], vec![Cuts, Answers(200, map(8))]);
    let charged = || fixture.plugin.host_memory.used_by(HostMemoryKind::OwnWrites);
    let before = charged();
    fixture.reconcile(write(Method::DELETE)).await.expect_err("unknown");
    assert!(charged() >= before + TASK_MEMORY, "{} after {before}", charged());
    fixture.released().await;
    assert!(charged() < before + TASK_MEMORY, "{} after {before}", charged());
}

#[tokio::test(start_paused = true)]
async fn a_live_get_counts_as_a_request_of_the_plugin() {
    let fixture = Fixture::new(Some(map(5)), vec![Cuts], vec![Answers(200, map(8))]);
    fixture.plugin.rate_limiters.requests.set_rate(1, 1);
    for _ in 0..4 {
        let plugin = fixture.plugin.clone();
        tokio::spawn(async move { plugin.rate_limiters.requests.acquire(|| ()).await });
    }
    fixture.reconcile(write(Method::PUT)).await.expect_err("unknown");
    // The first of the four has the only token of the burst, and the others wait before the live get.
    assert!(fixture.released().await >= Duration::from_secs(4));
    assert_eq!(fixture.sees(), "8");
}

#[tokio::test(start_paused = true)]
async fn a_lost_response_to_generate_name_is_not_looked_up() {
    let fixture = Fixture::new(None, vec![Cuts], vec![]);
    let unnamed = Write { key: ObjectKey::new("n", ""), ..write(Method::POST) };
    fixture.reconcile(unnamed).await.expect_err("unknown");
    assert_eq!(fixture.released().await, FIRST_GET_DELAY);
    assert_eq!(fixture.got(), "POST");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_was_swapped_out_sends_nothing() {
    let fixture = Fixture::new(Some(map(5)), vec![], vec![]);
    fixture.fence.close();
    assert!(matches!(fixture.reconcile(write(Method::PUT)).await, Err(ApiError::Unavailable(_))));
    assert_eq!(fixture.got(), "");
    assert!(!fixture.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_live_get_follows_a_response_of_another_kind_before_the_guest_continues() {
    let mut scale = map(8);
    scale["kind"] = "Scale".into();
    let fixture = Fixture::new(Some(map(5)), vec![Answers(200, scale)], vec![Answers(200, map(8))]);
    assert!(matches!(fixture.reconcile(write(Method::PUT)).await, Ok(WriteOutcome::Object(..))));
    assert_eq!((fixture.sees().as_str(), fixture.got().as_str()), ("8", "PUT GET"));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_response_without_a_uid_is_for_the_known_object() {
    let success = json!({"apiVersion": "v1", "kind": "Status", "status": "Success"});
    let fixture = Fixture::new(Some(map(5)), vec![Answers(200, success)], vec![]);
    fixture.reconcile(write(Method::DELETE)).await.expect("deleted");
    assert_eq!(fixture.sees(), "");
}

#[tokio::test(start_paused = true)]
async fn a_response_without_an_object_is_passed_on_and_not_looked_up() {
    let eviction =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "metadata": {"creationTimestamp": null}, "status": {"allowed": true}});
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "metadata": {"name": "a", "namespace": "n"}, "status": {"token": "secret"}});
    let no_metadata = json!({"apiVersion": "v1", "kind": "Status", "status": "Success"});
    for (answer, subresource) in [(eviction, true), (review, false), (token, true), (no_metadata, false)] {
        let fixture = Fixture::new(Some(map(5)), vec![Answers(201, answer.clone())], vec![]);
        let write = Write { subresource, ..write(Method::POST) };
        let Ok(WriteOutcome::Response(_, object)) = fixture.reconcile(write).await else {
            panic!("{answer}")
        };
        assert_eq!(object.kind(), answer["kind"]);
        let text: Value = serde_json::from_str(object.json()).expect("JSON");
        assert_eq!(text["status"], answer["status"]);
        assert_eq!(
            (fixture.got().as_str(), fixture.sees().as_str(), fixture.is_held()),
            ("POST", "5", false)
        );
        assert_eq!(fixture.plugin.metrics.unknown_writes.get(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_spans_of_writes_have_the_outcome_and_the_version() {
    let answers = vec![Answers(200, map(7)), Answers(409, status("Conflict")), Cuts];
    let fixture = Fixture::new(None, answers, Vec::new());
    let metrics = crate::metrics::Metrics::register(&mut Default::default());
    let options = crate::trace::TraceOptions { ratio: 1.0, slow: Duration::MAX };
    let (tracer, mut spans) = crate::trace::Tracer::new(&options, &metrics, &Default::default());
    let trace = tracer.begin(Duration::ZERO, None).expect("a trace");
    let caller = ReconcileContext { item: None, trace: Some(&trace) };
    assert!(fixture.writer().send(caller, write(Method::PUT)).await.is_ok());
    assert!(fixture.writer().send(caller, write(Method::PUT)).await.is_err());
    let mut unnamed = write(Method::POST);
    unnamed.key = ObjectKey::new("n", "");
    assert!(fixture.writer().send(caller, unnamed).await.is_err());
    let (item, outcome) = (item(), Ok(pilothouse_plugin::Outcome::Done));
    let ended = crate::trace::EndedReconcile {
        plugin: "p",
        item: &item,
        reasons: &[],
        attempt: 0,
        started: Instant::now(),
        time: Duration::ZERO,
        outcome: &outcome,
    };
    trace.end(&ended, None).expect("an exported trace");
    let exported = spans.try_recv().expect("the spans");
    let writes: Vec<_> = exported.iter().filter(|span| span.name == "k8s.write").collect();
    let has = |write: usize, name: &str, value: &str| {
        let of_name = writes[write].attributes.iter().filter(|attribute| attribute.name == name);
        let values: Vec<_> = of_name.map(|attribute| format!("{:?}", attribute.value)).collect();
        assert_eq!(values, [value], "{name} of {:?}", writes[write]);
    };
    has(0, "http.response.status_code", "Number(200)");
    has(0, "pilothouse.resource_version", "Number(7)");
    has(0, "url.path", "Text(\"/api/v1/namespaces/n/configmaps/a\")");
    has(1, "http.response.status_code", "Number(409)");
    has(1, "error.type", "Text(\"409\")");
    has(2, "error.type", "Text(\"no_response\")");
    assert_eq!(writes.iter().map(|write| write.is_error).collect::<Vec<_>>(), [false, true, true]);
}
