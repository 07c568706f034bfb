//! The gate of the lists and watches of the informers.

use std::future::pending;
use std::io;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use kube::client::Body;
use pilothouse_apiserver::ApiService;
use serde::Deserialize;
use tower::Service;

use super::responses::expired;
use super::{AnswerBody, forward, unchanged, whole};
use crate::world::request::{ObjectRequest, parameter};
use crate::world::shared::Shared;
use crate::world::watch_body::{ListedObject, WatchBody};

/// The gate of the lists and watches of the informers.
#[derive(Clone)]
pub(in crate::world) struct WatchGate {
    shared: Shared,
    server: ApiService,
}

impl WatchGate {
    pub(in crate::world) fn new(shared: Shared) -> Self {
        let server = shared.server().service();
        Self { shared, server }
    }

    async fn exchange(self, mut request: Request<Body>) -> io::Result<Response<AnswerBody>> {
        self.shared.pend_if_crashed().await;
        let about = ObjectRequest::parse(request.method(), request.uri());
        let Some(about) = about.filter(|about| matches!(about.verb, "list" | "watch")) else {
            let response = forward(self.server, request).await;
            return Ok(response.map(unchanged));
        };
        let resource = about.resource();
        if about.verb == "watch" {
            let relist = self.shared.lock().views.relist_at(&resource);
            if let Some(at) = relist {
                tokio::time::sleep_until(self.shared.clock().instant(at)).await;
                self.shared.lock().end_watch(&resource);
                return Ok(expired());
            }
            let response = forward(self.server, request).await;
            if !response.status().is_success() {
                return Ok(response.map(unchanged));
            }
            return Ok(response.map(|body| WatchBody::new(self.shared, resource, body).boxed_unsync()));
        }
        self.answer_from_past(&resource, request.uri_mut());
        let response = forward(self.server, request).await;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        if head.status.is_success() {
            let list: List = serde_json::from_slice(&body).map_err(io::Error::other)?;
            let is_delivered = {
                let mut state = self.shared.lock();
                let is_delivered = state.crash.is_none();
                if is_delivered {
                    state.views.listed(&resource, &about.namespace);
                    for object in list.items.unwrap_or_default() {
                        state.record_delivery(&resource, object.delivery("LISTED".to_owned()));
                    }
                }
                is_delivered
            };
            if !is_delivered {
                return pending().await;
            }
        }
        Ok(Response::from_parts(head, whole(body)))
    }

    /// Changes a list so that it is answered from the past, if the plan wants that for the resource.
    fn answer_from_past(&self, resource: &str, uri: &mut Uri) {
        let kept = ["labelSelector", "fieldSelector"];
        let kept =
            kept.iter().filter_map(|name| parameter(uri, name).map(|value| format!("&{name}={value}")));
        let (path, kept) = (uri.path(), kept.collect::<String>());
        let Some(version) = self.shared.lock().version_of_first_list(resource, &format!("{path}{kept}"))
        else {
            return;
        };
        let text = format!("{path}?resourceVersion={version}&resourceVersionMatch=Exact{kept}");
        if let Ok(changed) = text.parse() {
            *uri = changed;
        }
    }
}

impl Service<Request<Body>> for WatchGate {
    type Response = Response<AnswerBody>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Response<AnswerBody>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.clone().exchange(request).boxed()
    }
}

/// A list, as far as it is recorded.
#[derive(Deserialize)]
struct List {
    items: Option<Vec<ListedObject>>,
}
