//! An API server that serves Pods from prepared bytes, and everything else as the embedded one does.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{Either, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use pilothouse_apiserver::ApiServer;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tower::{Service, service_fn};

/// Feeds the one watch of Pods that there may be.
pub(crate) type Feed = mpsc::UnboundedSender<Bytes>;

/// A client of such a server. Needs a runtime.
pub(crate) fn client(list: &[Bytes]) -> (kube::Client, Feed) {
    let (feed, fed) = mpsc::unbounded_channel();
    let fed = Arc::new(Mutex::new(Some(fed)));
    let list = list.to_vec();
    let embedded = ApiServer::builder().build().service();
    let service = service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().path() == "/api/v1/pods";
        let fed = if is_watch { fed.lock().take() } else { None };
        let answer = fed.map(|fed| watch(list.clone(), fed));
        let mut embedded = embedded.clone();
        async move {
            match answer {
                Some(answer) => Ok::<_, Infallible>(Response::new(Either::Left(answer))),
                None => embedded.call(request).await.map(|answer| answer.map(Either::Right)),
            }
        }
    });
    (kube::Client::new(service, "default"), feed)
}

fn watch(
    list: Vec<Bytes>,
    fed: mpsc::UnboundedReceiver<Bytes>,
) -> impl http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static {
    let chunks = futures::stream::iter(list).chain(UnboundedReceiverStream::new(fed));
    StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk))))
}
