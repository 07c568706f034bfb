//! Lists and watches through a `kube::Client`.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;

use super::{ByteStream, ListParams, ListWatch, ListWatchFactory, ServerProbe, WatchParams};
use crate::failure::Failure;
use crate::key::InformerKey;

/// The longest error body that is read, in bytes.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// Lists and watches through a [`kube::Client`], which provides configuration, TLS and credentials.
pub struct KubeListWatch {
    client: kube::Client,
    key: InformerKey,
}

/// Creates a [`KubeListWatch`] for each informer.
pub struct KubeListWatches {
    client: kube::Client,
}

impl KubeListWatches {
    /// Creates a factory whose informers all use this client.
    #[must_use]
    pub fn new(client: kube::Client) -> Self {
        Self { client }
    }
}

impl ListWatchFactory for KubeListWatches {
    fn list_watch(&self, key: &InformerKey) -> Arc<dyn ListWatch> {
        Arc::new(KubeListWatch::new(self.client.clone(), key.clone()))
    }

    fn probe(&self) -> Option<Arc<dyn ServerProbe>> {
        Some(Arc::new(ReadyzProbe { client: self.client.clone() }))
    }
}

/// Probes `/readyz`, which every client may read unless the cluster's default roles were changed.
struct ReadyzProbe {
    client: kube::Client,
}

#[async_trait]
impl ServerProbe for ReadyzProbe {
    async fn is_ready(&self) -> bool {
        let Ok(request) = http::Request::get("/readyz").body(Body::empty()) else { return false };
        // A 4xx response also comes from a server that is up; its lists and watches show the rest.
        self.client.send(request).await.is_ok_and(|response| indicates_ready(response.status()))
    }
}

/// Whether a response with this status comes from a server that serves requests.
fn indicates_ready(status: http::StatusCode) -> bool {
    !status.is_server_error() && status != http::StatusCode::TOO_MANY_REQUESTS
}

impl KubeListWatch {
    /// Creates the list-watch of one informer.
    #[must_use]
    pub fn new(client: kube::Client, key: InformerKey) -> Self {
        Self { client, key }
    }

    async fn get(&self, path_and_query: String) -> Result<ByteStream, Failure> {
        let request = http::Request::get(path_and_query)
            .header(http::header::ACCEPT, "application/json")
            .body(Body::empty())
            .map_err(Failure::transport)?;
        let response = self.client.send(request).await.map_err(Failure::transport)?;
        let (head, body) = response.into_parts();
        if head.status.is_success() {
            return Ok(body.into_data_stream().map_err(Failure::transport).boxed());
        }
        Err(error_response(&head, body).await)
    }
}

/// Returns the failure that an error response describes.
async fn error_response(head: &http::response::Parts, body: Body) -> Failure {
    let retry_after = head.headers.get(http::header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let body = match Limited::new(body, MAX_ERROR_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::from_static(b"the body of the error could not be read"),
    };
    Failure::response(head.status.as_u16(), retry_after, &body)
}

#[async_trait]
impl ListWatch for KubeListWatch {
    async fn list(&self, params: &ListParams) -> Result<ByteStream, Failure> {
        self.get(params.path_and_query(&self.key)).await
    }

    async fn watch(&self, params: &WatchParams) -> Result<ByteStream, Failure> {
        self.get(params.path_and_query(&self.key)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_starting_or_overloaded_server_is_not_ready() {
        for (code, is_ready) in
            [(200, true), (401, true), (403, true), (404, true), (429, false), (500, false), (503, false)]
        {
            let status = http::StatusCode::from_u16(code).expect("a status");
            assert_eq!(indicates_ready(status), is_ready, "{code}");
        }
    }

    #[tokio::test]
    async fn the_body_of_an_error_response_is_read_up_to_a_limit() {
        let refused = async |length: usize| {
            let body = format!(r#"{{"kind":"Status","message":"{}"}}"#, "x".repeat(length));
            let response = http::Response::builder().status(503).header("retry-after", "7");
            let (head, ()) = response.body(()).expect("a response").into_parts();
            error_response(&head, Body::from(body.into_bytes())).await
        };
        let failure = refused(64_000).await;
        assert_eq!((failure.code, failure.message.trim_end_matches('…')), (Some(503), &*"x".repeat(4096)));
        assert_eq!(failure.retry_after, Some(std::time::Duration::from_secs(7)));
        let failure = refused(66_000).await;
        assert_eq!((failure.code, &*failure.message), (Some(503), "the body of the error could not be read"));
    }
}
