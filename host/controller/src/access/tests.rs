//! Reviews and the access monitor against a scripted API server, in paused time.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use parking_lot::Mutex;
use pilothouse_informer::{
    InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions,
};
use pilothouse_model::{FieldSelector, ResourceType};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::reviewer::ReviewOutcome;
use super::*;
use crate::client::ApiClient;

/// The reviews that the server received, and its answers.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    reviews: Vec<Value>,
    denied: Vec<&'static str>,
    /// The HTTP status of every response; 0 for success.
    code: u16,
    /// How many of the next requests make the task that waits for the response panic.
    panics: usize,
}

impl Script {
    fn client(&self) -> kube::Client {
        let script = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let script = script.clone();
            async move { Ok::<_, Infallible>(script.answer(request).await) }
        });
        kube::Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let is_list = request.method() == http::Method::GET;
        let body = request.into_body().collect().await.expect("a body").to_bytes();
        let review: Value = serde_json::from_slice(&body).unwrap_or_default();
        let code = {
            let mut state = self.0.lock();
            let is_panic = state.panics > 0;
            state.panics = state.panics.saturating_sub(1);
            let code = state.code;
            drop(state);
            assert!(!is_panic, "a defect in the monitor");
            code
        };
        if code > 0 {
            let status = json!({"kind": "Status", "message": "not now", "reason": "Forbidden", "code": code});
            return Response::builder()
                .status(code)
                .body(Body::from(status.to_string().into_bytes()))
                .expect("a response");
        }
        if is_watch {
            std::future::pending::<()>().await;
        }
        if is_list {
            let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []});
            return Response::new(Body::from(list.to_string().into_bytes()));
        }
        let mut state = self.0.lock();
        let verb =
            review.pointer("/spec/resourceAttributes/verb").and_then(Value::as_str).unwrap_or_default();
        let answer = json!({"status": {"allowed": !state.denied.contains(&verb)}});
        state.reviews.push(review);
        Response::new(Body::from(answer.to_string().into_bytes()))
    }

    fn deny(&self, verbs: &[&'static str]) {
        self.0.lock().denied = verbs.to_vec();
    }

    fn fail(&self, code: u16) {
        self.0.lock().code = code;
    }
}

fn pods() -> ResourceType {
    ResourceType {
        group: String::new(),
        version: "v1".into(),
        kind: "Pod".into(),
        plural: "pods".into(),
        namespaced: true,
    }
}

fn reviewer(script: &Script) -> Reviewer {
    let fields = FieldSelector::parse("metadata.name=web").expect("a selector");
    Reviewer {
        server: ApiClient::new(script.client()),
        plugin: PluginName::of_file(Path::new("mine.wasm")).expect("a name"),
        place: SidecarLocation::File,
        account: ServiceAccount::parse("bots/a").expect("an account"),
        reads: RequiredRead::of(&"pods".into(), &pods(), &["shop".to_owned()], &fields),
        impersonates: true,
    }
}

#[test]
fn the_remedy_of_a_plugin_from_a_registry_names_no_file_of_the_directory() {
    let plugin = PluginName::of_file(Path::new("mine.wasm")).expect("a name");
    assert_eq!(
        remedy(&plugin, SidecarLocation::File),
        "grant it: `pilothouse rbac mine.wasm | kubectl apply -f -`"
    );
    let of_source = remedy(&plugin, SidecarLocation::Source);
    assert!(!of_source.contains("mine.wasm") && of_source.contains("rbac --config FILE"), "{of_source}");
    assert!(of_source.contains("rbac mine.yaml"), "{of_source}");
}

#[tokio::test]
async fn a_review_names_the_account_with_its_groups() {
    let script = Script::default();
    assert!(matches!(reviewer(&script).review().await, ReviewOutcome::Allowed));
    let reviews = std::mem::take(&mut script.0.lock().reviews);
    let attributes = |verb: &str| json!({"group": "", "resource": "pods", "subresource": "", "verb": verb, "namespace": "shop", "name": "web"});
    let groups = json!(["system:serviceaccounts", "system:serviceaccounts:bots", "system:authenticated"]);
    for (review, verb) in reviews.iter().zip(["list", "watch"]) {
        assert_eq!(review["kind"], "SubjectAccessReview");
        let spec = json!({
            "user": "system:serviceaccount:bots:a", "groups": groups, "resourceAttributes": attributes(verb)
        });
        assert_eq!(review["spec"], spec);
    }
    // The host asks about itself.
    assert_eq!(reviews[2]["kind"], "SelfSubjectAccessReview");
    let impersonation = json!({
        "group": "", "resource": "serviceaccounts", "subresource": "", "verb": "impersonate", "namespace": "bots", "name": "a"
    });
    assert_eq!(reviews[2]["spec"]["resourceAttributes"], impersonation);
    assert_eq!(reviews.len(), 3);
}

#[tokio::test]
async fn a_missing_permission_is_reported_with_its_remedy() {
    let script = Script::default();
    for (denied, expected) in [
        (
            &["list", "watch"][..],
            "the service account bots/a may not list, watch pods named web in namespace shop, which watch \"pods\" needs",
        ),
        (&["impersonate"], "the host may not impersonate the service account bots/a"),
    ] {
        script.deny(denied);
        let waiting_for = reviewer(&script).review().await.waiting_for().expect("something is missing");
        let problem = waiting_for.to_string();
        assert!(problem.contains(expected), "{problem}");
        assert!(problem.contains("`pilothouse rbac mine.wasm | kubectl apply -f -`"), "{problem}");
    }
    script.fail(403);
    let problem = reviewer(&script).review().await.waiting_for().expect("the host may not ask").to_string();
    assert!(problem.contains("may not ask what the service account bots/a may read"), "{problem}");
    script.fail(503);
    assert!(matches!(reviewer(&script).review().await, ReviewOutcome::Unknown(_)));
}

const EVERY: Duration = Duration::from_secs(30);

/// Waits until the version is suspended or resumed, and returns how long that took.
async fn until(access: &Access, suspended: bool) -> Duration {
    let start = Instant::now();
    while access.is_suspended() != suspended {
        assert!(start.elapsed() < Duration::from_secs(3600), "suspended: {}", access.is_suspended());
        sleep(Duration::from_millis(100)).await;
    }
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_revoked_permission_suspends_the_version_until_it_is_granted_again() {
    let script = Script::default();
    let access = Arc::new(Access::default());
    let reviewer = reviewer(&script);
    let monitor = AccessMonitor {
        log: crate::logs::PluginLogs::default().for_plugin(&reviewer.plugin),
        plugin: reviewer.plugin.clone(),
        place: SidecarLocation::File,
        access: Arc::clone(&access),
        watched: Vec::new(),
        randomness: Default::default(),
        reviews: Some((reviewer, EVERY)),
    };
    let _guard = monitor.start();
    sleep(Duration::from_secs(3600)).await;
    assert!(!access.is_suspended());
    script.deny(&["watch"]);
    assert!(until(&access, true).await <= EVERY.mul_f64(1.2) + Duration::from_secs(1));
    assert!(access.suspension("pods").is_some_and(|missing| missing.contains("may not watch pods")));
    assert_eq!(access.suspension("nodes"), None, "another watch is not concerned");
    script.deny(&[]);
    assert!(until(&access, false).await <= RETRY_INTERVAL + Duration::from_secs(1));
    // An unreachable server changes nothing at first.
    script.fail(503);
    sleep(Duration::from_secs(240)).await;
    assert!(!access.is_suspended());
    until(&access, true).await;
    script.fail(0);
    until(&access, false).await;
}

#[tokio::test(start_paused = true)]
async fn a_monitor_that_panics_continues_to_watch_over_the_rights() {
    let script = Script::default();
    let access = Arc::new(Access::default());
    let reviewer = reviewer(&script);
    let monitor = AccessMonitor {
        log: crate::logs::PluginLogs::default().for_plugin(&reviewer.plugin),
        plugin: reviewer.plugin.clone(),
        place: SidecarLocation::File,
        access: Arc::clone(&access),
        watched: Vec::new(),
        randomness: Default::default(),
        reviews: Some((reviewer, EVERY)),
    };
    let _guard = monitor.start();
    script.0.lock().panics = 2;
    while script.0.lock().panics > 0 {
        sleep(Duration::from_millis(100)).await;
    }
    assert!(!access.is_suspended());
    script.deny(&["watch"]);
    assert!(until(&access, true).await <= EVERY.mul_f64(1.2) + Duration::from_secs(2));
    script.deny(&[]);
    until(&access, false).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_forbidden_to_the_host_suspends_the_version() {
    let script = Script::default();
    let options = InformerOptions::default().with_streaming_list(false);
    let informers = InformerRegistry::new(KubeListWatches::new(script.client()), options);
    script.fail(403);
    let pods = informers.subscribe(InformerKey::new(pods()), SubscribeOptions::default()).expect("open");
    let (pods, access) = (Arc::new(pods), Arc::new(Access::default()));
    let monitor = AccessMonitor {
        log: crate::logs::PluginLogs::default()
            .for_plugin(&PluginName::of_file(Path::new("mine.wasm")).expect("a name")),
        plugin: PluginName::of_file(Path::new("mine.wasm")).expect("a name"),
        place: SidecarLocation::File,
        access: Arc::clone(&access),
        watched: vec![("pods".into(), Arc::downgrade(&pods))],
        randomness: Default::default(),
        reviews: None,
    };
    let _guard = monitor.start();
    until(&access, true).await;
    let reason = access.reason().expect("a reason");
    for part in ["watch \"pods\"", "HTTP 403", "list and watch", "pilothouse rbac mine.wasm"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    script.fail(0);
    until(&access, false).await;
}
