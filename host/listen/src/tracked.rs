//! The service and the response bodies of a connection, which report to its [`Activity`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tower::Service;

use crate::activity::{Activity, OpenRequest};
use crate::{ClientCertificate, ConnectionAddresses, ConnectionVerdict, EndlessResponse, ReservedConnection};

/// Adds what is known about the connection to each request, and tracks requests and responses.
#[derive(Clone)]
pub(crate) struct TrackedService<S> {
    pub(crate) service: S,
    pub(crate) activity: Arc<Activity>,
    pub(crate) addresses: Option<ConnectionAddresses>,
    pub(crate) verdict: ConnectionVerdict,
    pub(crate) certificate: Option<ClientCertificate>,
    pub(crate) is_reserved: bool,
}

impl<S, B> hyper::service::Service<Request<Incoming>> for TrackedService<S>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: 'static,
    B: 'static,
{
    type Response = Response<TrackedBody<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let extensions = request.extensions_mut();
        if let Some(addresses) = self.addresses {
            extensions.insert(addresses);
            extensions.insert(self.verdict.clone());
        }
        if let Some(certificate) = &self.certificate {
            extensions.insert(certificate.clone());
        }
        if self.is_reserved {
            extensions.insert(ReservedConnection);
        }
        let mut open = self.activity.begin();
        let mut service = self.service.clone();
        Box::pin(async move {
            std::future::poll_fn(|context| service.poll_ready(context)).await?;
            let response = service.call(request).await?;
            open.respond(response.extensions().get::<EndlessResponse>().is_some());
            Ok(response.map(|body| TrackedBody { body, open }))
        })
    }
}

/// The body of a response.
pub(crate) struct TrackedBody<B> {
    body: B,
    open: OpenRequest,
}

impl<B: Body + Unpin> Body for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    /// The transport asks for a part only once it has begun to send the one before, for which the client must have room.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        self.open.set_waits_for_client(matches!(polled, Poll::Ready(Some(Ok(_)))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
