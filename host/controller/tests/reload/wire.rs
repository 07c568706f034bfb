//! The client between the host and the API server. It intercepts the plugin's records, in the order in which they are sent.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use parking_lot::Mutex;
use pilothouse_apiserver::ApiServer;
use serde_json::Value;
use tokio::time::Instant;
use tower::{BoxError, ServiceExt};

/// The event of a reconcile that a record reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Start,
    End,
    /// The version traps right after this record.
    Trap,
}

/// A record that the plugin sent.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) mark: Mark,
    /// The version of the plugin.
    pub(crate) version: u32,
    pub(crate) name: String,
    /// The resource version of the object that the reconcile read; `None` if the object was deleted.
    pub(crate) read: Option<u64>,
    pub(crate) attempt: u32,
    /// Whether a requeue is among the reasons.
    pub(crate) requeued: bool,
    pub(crate) at: Instant,
}

/// The intercepted records and requests, in order.
#[derive(Clone, Default)]
pub(crate) struct Log {
    records: Arc<Mutex<Vec<Record>>>,
    /// The queries of the lists and watches of ConfigMaps.
    reads: Arc<Mutex<Vec<String>>>,
}

const ANSWER: &str = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"record","namespace":"default","uid":"u","resourceVersion":"1"}}"#;

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

impl Log {
    pub(crate) fn len(&self) -> usize {
        self.records.lock().len()
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&[Record]) -> T) -> T {
        read(&self.records.lock())
    }

    /// Returns the queries of the lists and watches of ConfigMaps so far.
    pub(crate) fn reads(&self) -> Vec<String> {
        self.reads.lock().clone()
    }

    fn push(&self, text: &str) {
        let fields: Vec<_> = text.split(' ').collect();
        let [mark, version, name, read, attempt, reasons] = fields[..] else { panic!("a record: {text:?}") };
        let mark = match mark {
            "S" => Mark::Start,
            "E" => Mark::End,
            _ => Mark::Trap,
        };
        let mut records = self.records.lock();
        records.push(Record {
            mark,
            version: version.parse().expect("a version"),
            name: name.to_owned(),
            read: (!read.is_empty()).then(|| read.parse().expect("a resource version")),
            attempt: attempt.parse().expect("an attempt"),
            requeued: reasons == "R",
            at: Instant::now(),
        });
    }
}

/// Creates the client for the host under test.
pub(crate) fn client(server: &ApiServer, log: &Log) -> kube::Client {
    let (server, log) = (server.clone(), log.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (server, log) = (server.clone(), log.clone());
        async move { Ok::<_, Infallible>(answer(&server, &log, request).await) }
    });
    kube::Client::new(service, "default")
}

async fn answer(server: &ApiServer, log: &Log, request: Request<Body>) -> Answer {
    if request.method() == Method::POST && request.uri().path().ends_with("/leases") {
        let body = request.into_body().collect().await.expect("a whole body").to_bytes();
        let manifest: Value = serde_json::from_slice(&body).expect("a manifest");
        log.push(manifest["spec"]["holderIdentity"].as_str().expect("a record"));
        let body = Full::new(Bytes::from_static(ANSWER.as_bytes())).map_err(|never| match never {});
        return Response::new(body.boxed_unsync());
    }
    if request.method() == Method::GET && request.uri().path().ends_with("/configmaps") {
        log.reads.lock().push(request.uri().query().unwrap_or_default().to_owned());
    }
    let response = server.service().oneshot(request).await.expect("it always answers");
    response.map(|body| body.map_err(Into::into).boxed_unsync())
}
