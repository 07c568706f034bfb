//! GET from a running host.

use futures::Stream;
use http_body_util::{BodyExt, BodyStream, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::Failed;

/// Sends the request and returns the body as a stream of chunks.
pub(crate) async fn get(
    server: &str,
    path: &str,
) -> Result<impl Stream<Item = Result<Bytes, hyper::Error>> + use<>, Failed> {
    let url = format!("{}{path}", server.trim_end_matches('/'));
    let uri: http::Uri = url.parse().map_err(|error| {
        Failed::Usage(format!("--server {server}: {error}; write it as http://127.0.0.1:9464"))
    })?;
    if uri.scheme_str() != Some("http") || uri.host().is_none() {
        return Err(Failed::Usage(format!(
            "--server {server}: not an http URL; write it as http://127.0.0.1:9464"
        )));
    }
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let response = client.get(uri).await.map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        Failed::Work(format!("{url}: {error}: {cause}; is the host running there?"))
    })?;
    let status = response.status();
    if !status.is_success() {
        let body =
            response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        return Err(Failed::Work(format!("{url}: {status}: {}", String::from_utf8_lossy(&body).trim())));
    }
    let frames = BodyStream::new(response.into_body());
    Ok(futures::StreamExt::filter_map(frames, |frame| async move {
        match frame {
            Ok(frame) => frame.into_data().ok().map(Ok),
            Err(error) => Some(Err(error)),
        }
    }))
}

/// Sends the request and returns the whole body.
pub(crate) async fn get_text(server: &str, path: &str) -> Result<String, Failed> {
    let mut chunks = std::pin::pin!(get(server, path).await?);
    let mut text = Vec::new();
    while let Some(chunk) = futures::StreamExt::next(&mut chunks).await {
        let chunk =
            chunk.map_err(|error| Failed::Work(format!("{server}{path}: the answer was cut: {error}")))?;
        text.extend_from_slice(&chunk);
    }
    String::from_utf8(text).map_err(|error| Failed::Work(format!("{server}{path}: {error}")))
}
