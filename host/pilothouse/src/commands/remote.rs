//! Sends GET requests to a running host.

use futures::Stream;
use http_body_util::{BodyExt, BodyStream, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::CommandError;

/// Sends a GET request and returns the body as a stream of chunks.
///
/// # Errors
/// Errors if `server` is not an `http` URL, the host cannot be reached, or the response is not a success.
pub(crate) async fn get(
    server: &str,
    path: &str,
) -> Result<impl Stream<Item = Result<Bytes, hyper::Error>> + use<>, CommandError> {
    let url = format!("{}{path}", server.trim_end_matches('/'));
    let uri: http::Uri = url.parse().map_err(|error| {
        CommandError::Usage(format!("--server {server}: {error}; write it as http://127.0.0.1:9464"))
    })?;
    if uri.scheme_str() != Some("http") || uri.host().is_none() {
        return Err(CommandError::Usage(format!(
            "--server {server}: not an http:// URL; write it as http://127.0.0.1:9464"
        )));
    }
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let response = client.get(uri).await.map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        CommandError::Failure(format!(
            "cannot reach a host at {url}: {error}: {cause}; start it, or pass its address with --server"
        ))
    })?;
    let status = response.status();
    if !status.is_success() {
        let body =
            response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        return Err(CommandError::Failure(format!(
            "{url}: {status}: {}",
            String::from_utf8_lossy(&body).trim()
        )));
    }
    let frames = BodyStream::new(response.into_body());
    Ok(futures::StreamExt::filter_map(frames, |frame| async move {
        match frame {
            Ok(frame) => frame.into_data().ok().map(Ok),
            Err(error) => Some(Err(error)),
        }
    }))
}

/// Sends a GET request and returns the whole body as text.
pub(crate) async fn get_text(server: &str, path: &str) -> Result<String, CommandError> {
    let mut chunks = std::pin::pin!(get(server, path).await?);
    let mut text = Vec::new();
    while let Some(chunk) = futures::StreamExt::next(&mut chunks).await {
        let chunk = chunk.map_err(|error| {
            CommandError::Failure(format!("{server}{path}: lost the connection: {error}"))
        })?;
        text.extend_from_slice(&chunk);
    }
    String::from_utf8(text).map_err(|error| CommandError::Failure(format!("{server}{path}: {error}")))
}
