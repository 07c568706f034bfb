//! An API server that serves Pods from prepared bytes and passes everything else to the embedded server.

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

/// Sends the bytes of the only watch of Pods.
pub(crate) type Feed = mpsc::UnboundedSender<Bytes>;

/// Returns a client of such a server, and the feed of its watch. Must be called in a tokio runtime.
pub(crate) fn client(list: &[Bytes]) -> (kube::Client, Feed) {
    let (feed, events) = mpsc::unbounded_channel();
    let events = Arc::new(Mutex::new(Some(events)));
    let list = list.to_vec();
    let embedded = ApiServer::builder().build().service();
    let service = service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().path() == "/api/v1/pods";
        let events = if is_watch { events.lock().take() } else { None };
        let answer = events.map(|events| watch(list.clone(), events));
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
    events: mpsc::UnboundedReceiver<Bytes>,
) -> impl http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static {
    let chunks = futures::stream::iter(list).chain(UnboundedReceiverStream::new(events));
    StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk))))
}
