//! An API server for tests, which answers each request as the test says.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use pilothouse_model::{Object, ResourceType};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::failure::{Failure, FailureKind};
use crate::key::InformerKey;
use crate::list_watch::{ByteStream, ListParams, ListWatch, WatchParams};

/// The test's end: receives the requests.
pub(crate) struct Server {
    requests: mpsc::UnboundedReceiver<Request>,
}

/// The reflector's end: sends the requests.
pub(crate) struct ScriptedListWatch {
    requests: mpsc::UnboundedSender<Request>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Params {
    List(ListParams),
    Watch(WatchParams),
}

/// A request that has not been answered yet. Dropping it cuts the connection.
pub(crate) struct Request {
    pub(crate) params: Params,
    reply: oneshot::Sender<Result<ByteStream, Failure>>,
}

/// The body of a watch; dropping it ends the body.
pub(crate) struct WatchBody {
    chunks: mpsc::UnboundedSender<Result<Bytes, Failure>>,
}

/// The manifest of a pod.
#[derive(Clone)]
pub(crate) struct Pod {
    name: String,
    namespace: String,
    uid: String,
    version: String,
    app: String,
}

pub(crate) fn pods() -> ResourceType {
    ResourceType {
        group: String::new(),
        version: "v1".into(),
        kind: "Pod".into(),
        plural: "pods".into(),
        namespaced: true,
    }
}

pub(crate) fn pods_key() -> InformerKey {
    InformerKey::new(pods())
}

/// A pod `ns/name` with the UID `uid-name`.
pub(crate) fn pod(name: &str, version: u64) -> Pod {
    Pod {
        name: name.into(),
        namespace: "ns".into(),
        uid: format!("uid-{name}"),
        version: version.to_string(),
        app: "web".into(),
    }
}

impl Pod {
    pub(crate) fn uid(mut self, uid: &str) -> Self {
        self.uid = uid.into();
        self
    }

    pub(crate) fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = namespace.into();
        self
    }

    pub(crate) fn app(mut self, app: &str) -> Self {
        self.app = app.into();
        self
    }

    /// Returns the JSON of a watch event or a get.
    pub(crate) fn json(&self) -> String {
        format!(r#"{{"kind":"Pod","apiVersion":"v1",{}"#, &self.item()[1..])
    }

    /// Returns the JSON of a list item: without `kind` and `apiVersion`.
    pub(crate) fn item(&self) -> String {
        let Self { name, namespace, uid, version, app } = self;
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{uid}","resourceVersion":"{version}","labels":{{"app":"{app}"}}}},"spec":{{"nodeName":"n-{app}"}}}}"#
        )
    }

    pub(crate) fn object(&self) -> Object {
        Object::from_json(self.json()).expect("a pod")
    }
}

/// Waits for a future that must complete. With virtual time, a test would otherwise hang instead of fail.
pub(crate) async fn with_timeout<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3600), future)
        .await
        .expect("the future did not complete within an hour")
}

/// Creates a server and the list-watch that talks to it.
pub(crate) fn scripted_server() -> (Server, Arc<ScriptedListWatch>) {
    let (sender, requests) = mpsc::unbounded_channel();
    (Server { requests }, Arc::new(ScriptedListWatch { requests: sender }))
}

impl Server {
    /// Waits for the next request.
    pub(crate) async fn request(&mut self) -> Request {
        with_timeout(self.requests.recv()).await.expect("the reflector is gone")
    }

    pub(crate) async fn list(&mut self) -> (ListParams, Request) {
        let request = self.request().await;
        let Params::List(params) = request.params.clone() else {
            panic!("expected a list: {:?}", request.params)
        };
        (params, request)
    }

    pub(crate) async fn watch(&mut self) -> (WatchParams, Request) {
        let request = self.request().await;
        let Params::Watch(params) = request.params.clone() else {
            panic!("expected a watch: {:?}", request.params)
        };
        (params, request)
    }

    /// Whether no request arrives within this (virtual) time.
    pub(crate) async fn is_quiet_for(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.requests.recv()).await.is_err()
    }

    /// Answers the first list and the watch after it.
    pub(crate) async fn serve(&mut self, version: &str, pods: &[Pod]) -> WatchBody {
        self.list().await.1.items(version, pods);
        self.watch().await.1.open()
    }
}

impl Request {
    pub(crate) fn items(self, version: &str, pods: &[Pod]) {
        self.page(version, "", pods);
    }

    pub(crate) fn page(self, version: &str, token: &str, pods: &[Pod]) {
        let items: Vec<_> = pods.iter().map(Pod::item).collect();
        self.raw(&[&format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{token}"}},"items":[{}]}}"#,
            items.join(",")
        )]);
    }

    pub(crate) fn raw(self, chunks: &[&str]) {
        let body = self.open();
        for chunk in chunks {
            body.raw(chunk);
        }
    }

    pub(crate) fn fail(self, failure: Failure) {
        let _ = self.reply.send(Err(failure));
    }

    pub(crate) fn status(self, code: u16, reason: &str) {
        let body =
            format!(r#"{{"kind":"Status","code":{code},"reason":"{reason}","message":"{reason} it is"}}"#);
        self.fail(Failure::response(code, None, body.as_bytes()));
    }

    pub(crate) fn open(self) -> WatchBody {
        let (chunks, receiver) = mpsc::unbounded_channel();
        let _ = self.reply.send(Ok(UnboundedReceiverStream::new(receiver).boxed()));
        WatchBody { chunks }
    }
}

impl WatchBody {
    pub(crate) fn raw(&self, chunk: &str) {
        let _ = self.chunks.send(Ok(Bytes::copy_from_slice(chunk.as_bytes())));
    }

    pub(crate) fn event(&self, kind: &str, pod: &Pod) {
        self.raw(&format!("{{\"type\":\"{kind}\",\"object\":{}}}\n", pod.json()));
    }

    pub(crate) fn added(&self, pod: &Pod) {
        self.event("ADDED", pod);
    }

    pub(crate) fn modified(&self, pod: &Pod) {
        self.event("MODIFIED", pod);
    }

    pub(crate) fn deleted(&self, pod: &Pod) {
        self.event("DELETED", pod);
    }

    pub(crate) fn bookmark(&self, version: u64) {
        self.raw(&format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{version}\"}}}}}}\n"
        ));
    }

    pub(crate) fn initial_end(&self, version: u64) {
        self.raw(&format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"Pod\",\"metadata\":{{\"resourceVersion\":\"{version}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n"
        ));
    }

    pub(crate) fn error(&self, code: u16, reason: &str) {
        self.raw(&format!(
            "{{\"type\":\"ERROR\",\"object\":{{\"kind\":\"Status\",\"code\":{code},\"reason\":\"{reason}\"}}}}\n"
        ));
    }

    /// Cuts the connection.
    pub(crate) fn cut(self) {
        let _ = self.chunks.send(Err(Failure::new(FailureKind::Connection, "connection reset")));
    }

    /// Whether the client has dropped the request.
    pub(crate) fn is_dropped(&self) -> bool {
        self.chunks.is_closed()
    }

    /// Waits until the client has dropped the request.
    pub(crate) async fn dropped(&self) {
        with_timeout(self.chunks.closed()).await;
    }
}

impl ScriptedListWatch {
    async fn ask(&self, params: Params) -> Result<ByteStream, Failure> {
        let (reply, answer) = oneshot::channel();
        let refused = || Failure::new(FailureKind::ConnectionRefused, "the test's server is gone");
        self.requests.send(Request { params, reply }).map_err(|_| refused())?;
        answer.await.unwrap_or_else(|_| Err(Failure::new(FailureKind::Connection, "cut before the answer")))
    }
}

#[async_trait]
impl ListWatch for ScriptedListWatch {
    async fn list(&self, params: &ListParams) -> Result<ByteStream, Failure> {
        self.ask(Params::List(params.clone())).await
    }

    async fn watch(&self, params: &WatchParams) -> Result<ByteStream, Failure> {
        self.ask(Params::Watch(params.clone())).await
    }
}
