//! Objects in a directory, and snapshots of all objects.

mod api;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::{Api, apps, core, names, version};
use pilothouse_apiserver::{ApiServer, DataError};
use serde_json::{Value, json};
use tracing::{Event, Level, Metadata, Subscriber, span};

fn open(folder: &tempfile::TempDir) -> Api {
    let builder = ApiServer::builder().snapshots_over_http(true);
    Api { server: builder.build_with_data(folder.path()).expect("a server") }
}

fn config_map(name: &str, data: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"text": data}})
}

fn crd() -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.org/v1/namespaces/default/widgets";

#[tokio::test]
async fn objects_versions_and_custom_resources_survive_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let api = open(&folder);
    let first = api.post(&core("configmaps"), &config_map("a", "1")).await.ok();
    let second = api.put(&core("configmaps/a"), &config_map("a", "2")).await.ok();
    api.post(&core("configmaps"), &config_map("gone", "1")).await.ok();
    api.delete(&core("configmaps/gone"), &json!(null)).await.ok();
    api.post(CRDS, &crd()).await.ok();
    let widget = json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}});
    let widget = api.post(WIDGETS, &widget).await.ok();
    let roles = api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles").await.ok();
    drop(api);

    let api = open(&folder);
    assert_eq!(api.get(&core("configmaps/a")).await.ok(), second);
    api.get(&core("configmaps/gone")).await.fails(404, "NotFound");
    assert_eq!(api.get(&format!("{WIDGETS}/w")).await.ok(), widget);
    let list = api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles").await.ok();
    assert_eq!(list["items"], roles["items"], "the initial objects are not created again");
    let list = api.get(&core("configmaps")).await.ok();
    let number = |value: &Value| version(value).parse::<u64>().expect("a number");
    assert!(number(&list) > number(&widget), "resourceVersions go on");
    // The history begins anew.
    let path = core(&format!("configmaps?resourceVersion={}", version(&first)));
    let mut watch = api.watch(&path).await;
    assert_eq!(watch.next().await.expect("an event")["object"]["code"], 410);
    // A client that read the object before the restart can write it.
    let mut changed = second;
    changed["data"]["text"] = json!("3");
    api.put(&core("configmaps/a"), &changed).await.ok();
    api.put(&core("configmaps/a"), &changed).await.fails(409, "Conflict");
}

/// Counts what is logged as an error.
struct Errors(Arc<AtomicUsize>);

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn second_start_reports_no_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let errors = Arc::new(AtomicUsize::new(0));
    for _ in 0..2 {
        let api = tracing::subscriber::with_default(Errors(Arc::clone(&errors)), || open(&folder));
        let components = api.get("/api/v1/componentstatuses").await.ok();
        assert_eq!(names(&components), ["controller-manager", "etcd-0", "scheduler"]);
    }
    assert_eq!(errors.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn nested_objects_survive_or_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let revision = |levels: usize| {
        let data = (1..levels).fold(json!(1), |value, _| json!({"a": value}));
        json!({"metadata": {"name": format!("r{levels}")}, "data": data, "revision": 1})
    };
    let api = open(&folder);
    let stored = api.post(&apps("controllerrevisions"), &revision(110)).await.ok();
    let refused = api.post(&apps("controllerrevisions"), &revision(111)).await.fails(400, "BadRequest");
    assert!(refused["message"].to_string().contains("110 levels"), "{refused}");
    drop(api);
    let api = open(&folder);
    let mut found = api.get(&apps("controllerrevisions/r110")).await.ok();
    assert_eq!(found, stored);
    found["revision"] = json!(2);
    api.put(&apps("controllerrevisions/r110"), &found).await.ok();
    api.delete(&apps("controllerrevisions/r110"), &json!(null)).await.ok();
}

#[tokio::test]
async fn directory_in_use_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let _first = open(&folder);
    let second = ApiServer::builder().build_with_data(folder.path());
    assert!(matches!(second, Err(DataError::InUse { .. })), "{second:?}");
}

#[tokio::test]
async fn snapshot_restores_all_objects_and_ends_watches() {
    let api = Api { server: ApiServer::builder().snapshots_over_http(true).build() };
    let before = api.post(&core("configmaps"), &config_map("a", "1")).await.ok();
    let taken = api.post("/debug/snapshot", &json!({"name": "first"})).await;
    assert_eq!((taken.code, &taken.body["name"]), (201, &json!("first")));
    api.put(&core("configmaps/a"), &config_map("a", "2")).await.ok();
    api.post(&core("configmaps"), &config_map("b", "1")).await.ok();
    api.post(CRDS, &crd()).await.ok();
    let mut watch = api.watch(&core("configmaps")).await;
    for name in ["a", "b"] {
        assert_eq!(watch.next_summary().await, format!("ADDED {name}"));
    }

    let current = version(&api.get(&core("configmaps")).await.ok());
    api.post("/debug/snapshot/first/restore", &json!({})).await.ok();
    assert_eq!(api.get(&core("configmaps/a")).await.ok(), before, "with its UID and resourceVersion");
    assert_eq!(names(&api.get(&core("configmaps")).await.ok()), ["a"]);
    api.get(WIDGETS).await.is_page_not_found();
    let ended = watch.next().await.expect("an event");
    assert_eq!((&ended["type"], &ended["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(watch.next().await, None);
    let mut resumed = api.watch(&core(&format!("configmaps?resourceVersion={current}"))).await;
    assert_eq!(resumed.next().await.expect("an event")["object"]["code"], 410);

    let mut watch = api.watch(&core("configmaps")).await;
    assert_eq!(watch.next_summary().await, "ADDED a");
    api.post("/debug/snapshot/first/restore", &json!({"asRestart": true})).await.ok();
    assert_eq!(watch.next().await, None, "like a closed connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_during_a_restore_leave_no_object_without_its_namespace() {
    let api = Arc::new(Api { server: ApiServer::builder().snapshots_over_http(true).build() });
    api.post("/debug/snapshot", &json!({"name": "empty"})).await.ok();
    for _ in 0..100 {
        let writer = Arc::clone(&api);
        let writing = tokio::spawn(async move {
            writer.post("/api/v1/namespaces", &json!({"metadata": {"name": "x"}})).await;
            for number in 0..10 {
                writer.post("/api/v1/namespaces/x/configmaps", &config_map(&format!("c{number}"), "")).await;
            }
        });
        api.post("/debug/snapshot/empty/restore", &json!({})).await.ok();
        writing.await.expect("no panic");
        if api.get("/api/v1/namespaces/x").await.code == 404 {
            let left = api.get("/api/v1/configmaps").await.ok();
            assert_eq!(left["items"], json!([]));
        }
    }
}

#[tokio::test]
async fn custom_resources_come_back_with_a_snapshot() {
    let api = Api { server: ApiServer::builder().snapshots_over_http(true).build() };
    api.post(CRDS, &crd()).await.ok();
    let widget = json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}});
    let widget = api.post(WIDGETS, &widget).await.ok();
    api.post("/debug/snapshot/with-widgets", &json!(null)).await.ok();
    api.delete(&format!("{CRDS}/widgets.example.org"), &json!(null)).await.ok();
    api.get(WIDGETS).await.is_page_not_found();
    api.post("/debug/snapshot/with-widgets/restore", &json!({})).await.ok();
    assert_eq!(api.get(&format!("{WIDGETS}/w")).await.ok(), widget);
    let bigger = json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "v"}, "spec": {"size": "x"}});
    api.post(WIDGETS, &bigger).await.fails(422, "Invalid");
}

#[tokio::test]
async fn snapshots_are_listed_replaced_and_deleted_and_survive() {
    let folder = tempfile::tempdir().expect("a folder");
    let api = open(&folder);
    api.post(&core("configmaps"), &config_map("a", "1")).await.ok();
    for name in ["s", "t", "s"] {
        api.post("/debug/snapshot", &json!({"name": name})).await.ok();
    }
    api.delete("/debug/snapshot/t", &json!(null)).await.ok();
    api.delete("/debug/snapshot/t", &json!(null)).await.fails(404, "NotFound");
    api.delete(&core("configmaps/a"), &json!(null)).await.ok();
    let listed = api.get("/debug/snapshot").await.ok();
    assert_eq!(listed["snapshots"].as_array().map(Vec::len), Some(1), "{listed}");
    drop(api);

    let api = open(&folder);
    let found = api.get("/debug/snapshot").await.ok();
    assert_eq!(found["snapshots"][0]["name"], "s");
    assert_eq!(found["snapshots"][0]["objects"], listed["snapshots"][0]["objects"]);
    api.post("/debug/snapshot/s/restore", &json!({})).await.ok();
    drop(api);
    let api = open(&folder);
    api.get(&core("configmaps/a")).await.ok();
}

#[tokio::test]
async fn snapshots_must_be_enabled_and_are_validated() {
    let closed = Api::new();
    closed.post("/debug/snapshot", &json!({"name": "a"})).await.fails(404, "NotFound");
    let open = Api { server: ApiServer::builder().snapshots_over_http(true).build() };
    open.post("/debug/snapshot", &json!({"name": "../a"})).await.fails(400, "BadRequest");
    open.post("/debug/snapshot", &json!({"name": "a", "kind": "x"})).await.fails(400, "BadRequest");
    open.post("/debug/snapshot/none/restore", &json!({})).await.fails(404, "NotFound");
    open.get("/debug/snapshot/a/b/c").await.fails(404, "NotFound");
    open.put("/debug/snapshot", &json!({})).await.fails(405, "MethodNotAllowed");
    for number in 0..64 {
        open.post("/debug/snapshot", &json!({"name": format!("s{number}")})).await.ok();
    }
    open.post("/debug/snapshot", &json!({"name": "one-more"})).await.fails(400, "BadRequest");
    open.post("/debug/snapshot", &json!({"name": "s0"})).await.ok();
}
