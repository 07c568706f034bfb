//! Sends requests to a running host.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use futures::{Stream, StreamExt};
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, BodyStream, Empty};
use hyper::body::{Bytes, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;

use crate::CommandError;
use crate::http::CLIENT_HEADER;

/// The environment variable with the file whose bearer token requests have, for a host with `--auth kubernetes`.
const TOKEN_FILE: &str = "PILOTHOUSE_TOKEN_FILE";
/// The maximum size of a token in bytes that is read.
const MAX_TOKEN_SIZE: u64 = 16 << 10;
/// The maximum size of a response in bytes. The status of 10,000 plugins has a tenth of that. Another user of the machine may listen on the port.
const MAX_RESPONSE: usize = 256 << 20;
/// How much of an error's text is shown, in bytes.
const MAX_ERROR: usize = 64 << 10;
/// How long a host may take to respond. It responds from memory, so a host that takes longer hangs.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends a GET request and returns the body as a stream of chunks, which may take as long as it likes.
///
/// # Errors
/// Errors if `server` is not an `http` URL, the host cannot be reached or does not respond in time, or the response is not a success.
pub(crate) async fn get(
    server: &str,
    path: &str,
) -> Result<impl Stream<Item = Result<Bytes, hyper::Error>> + use<>, CommandError> {
    let response = send(server, Method::GET, path).await?;
    Ok(BodyStream::new(response.into_body()).filter_map(|frame| async move {
        match frame {
            Ok(frame) => frame.into_data().ok().map(Ok),
            Err(error) => Some(Err(error)),
        }
    }))
}

/// Sends a GET request and returns the whole body as text.
///
/// # Errors
/// See [`get`]. Also errors if the body is larger than a host's.
pub(crate) async fn get_text(server: &str, path: &str) -> Result<String, CommandError> {
    text(server, Method::GET, path).await
}

/// Sends a GET request and returns the body as text, if it has at most `max` bytes.
///
/// # Errors
/// See [`get`]. Also errors if the body is larger, or if nothing of it arrives for ten seconds.
pub(crate) async fn get_up_to(server: &str, path: &str, max: usize) -> Result<String, CommandError> {
    text_up_to(server, Method::GET, path, max).await
}

/// Sends a POST request without a body and returns the body of the response as text.
///
/// # Errors
/// See [`get`].
pub(crate) async fn post(server: &str, path: &str) -> Result<String, CommandError> {
    text(server, Method::POST, path).await
}

async fn text(server: &str, method: Method, path: &str) -> Result<String, CommandError> {
    let text = timeout(RESPONSE_TIMEOUT, text_up_to(server, method, path, MAX_RESPONSE)).await;
    text.unwrap_or_else(|_| Err(no_response(server)))
}

async fn text_up_to(server: &str, method: Method, path: &str, max: usize) -> Result<String, CommandError> {
    let failed =
        |problem: &dyn std::fmt::Display| CommandError::Failure(format!("{server}{path}: {problem}"));
    let mut body = send(server, method, path).await?.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = timeout(RESPONSE_TIMEOUT, body.frame()).await.map_err(|_| no_response(server))? {
        let frame = frame.map_err(|error| failed(&format_args!("lost the connection: {error}")))?;
        bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
        if bytes.len() > max {
            return Err(failed(&format_args!("more than {} MiB", max >> 20)));
        }
    }
    String::from_utf8(bytes).map_err(|error| failed(&error))
}

/// Reads a body up to this many bytes, or to its end.
async fn read_beginning(mut body: Incoming, max: usize, beginning: &mut Vec<u8>) {
    while beginning.len() < max
        && let Some(Ok(frame)) = body.frame().await
    {
        beginning.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    beginning.truncate(max);
}

async fn send(server: &str, method: Method, path: &str) -> Result<Response<Incoming>, CommandError> {
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
    let mut request = Request::new(Empty::new());
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    request.headers_mut().insert(CLIENT_HEADER, HeaderValue::from_static("pilothouse"));
    if let Some(file) = std::env::var_os(TOKEN_FILE) {
        request.headers_mut().insert(header::AUTHORIZATION, authorization(Path::new(&file))?);
    }
    let response = timeout(RESPONSE_TIMEOUT, client.request(request)).await;
    let response = response.map_err(|_| no_response(server))?.map_err(|error| {
        CommandError::Failure(format!(
            "cannot reach a host at {url}: {}; start it, or pass its address with --server",
            innermost_cause(&error)
        ))
    })?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let mut said = Vec::new();
    // What has arrived in time says something.
    let _ = timeout(RESPONSE_TIMEOUT, read_beginning(response.into_body(), MAX_ERROR, &mut said)).await;
    Err(CommandError::Failure(format!("{url}: {status}: {}", String::from_utf8_lossy(&said).trim())))
}

/// Returns the header with the token in a file.
///
/// # Errors
/// Returns a usage error if the file cannot be read, or holds no token.
fn authorization(file: &Path) -> Result<HeaderValue, CommandError> {
    let usage_error = |problem: &dyn std::fmt::Display| {
        let remedy = "name a file with the bearer token of a user who may read the status port";
        CommandError::Usage(format!("{TOKEN_FILE}={}: {problem}; {remedy}", file.display()))
    };
    let mut token = String::new();
    let read = File::open(file).and_then(|file| file.take(MAX_TOKEN_SIZE).read_to_string(&mut token));
    read.map_err(|error| usage_error(&error))?;
    let token = token.trim();
    if token.is_empty() {
        return Err(usage_error(&"it is empty"));
    }
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|error| usage_error(&error))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the text of the innermost cause, such as "Connection refused". Those around it only say that the connection failed.
fn innermost_cause(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.last().map(ToString::to_string).unwrap_or_default()
}

fn no_response(server: &str) -> CommandError {
    let seconds = RESPONSE_TIMEOUT.as_secs();
    CommandError::Failure(format!(
        "the host at {server} has not responded for {seconds} s; check that it is a Pilothouse host and not overloaded"
    ))
}

/// Returns text with all characters escaped that have a meaning in a URL.
pub(crate) fn percent_encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Checks that text can be the name of a plugin, because it becomes a part of a URL.
///
/// # Errors
/// Returns a usage error if it cannot.
pub(crate) fn check_plugin_name(name: &str) -> Result<(), CommandError> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.is_empty() && name.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(CommandError::Usage(format!(
        "{name:?} is not a valid plugin name; `pilothouse status` lists the plugins"
    )))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// In virtual time: nothing else happens, so the timeout is over at once.
    #[tokio::test(start_paused = true)]
    async fn a_host_that_accepts_connections_and_never_responds_is_given_up() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = format!("http://{}", listener.local_addr().expect("an address"));
        for outcome in [get_text(&server, "/").await, post(&server, "/").await] {
            let Err(CommandError::Failure(text)) = outcome else { panic!("nobody responds") };
            assert!(text.contains("has not responded for 10 s") && text.contains(&server), "{text}");
        }
    }

    /// Serves responses whose bodies have no end.
    async fn endless(status: &'static str) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    assert_ne!(stream.read_buf(&mut request).await.expect("readable"), 0, "a whole head");
                }
                let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n\r\n");
                let mut part = head.into_bytes();
                while stream.write_all(&part).await.is_ok() {
                    part = vec![b'x'; 64 << 10];
                }
            }
        });
        server
    }

    #[tokio::test]
    async fn a_response_without_an_end_is_not_read_to_its_end() {
        let server = endless("200 OK").await;
        let Err(CommandError::Failure(text)) = text_up_to(&server, Method::GET, "/", 1 << 20).await else {
            panic!("it has no end");
        };
        assert!(text.ends_with("/: more than 1 MiB"), "{text}");
        let server = endless("500 Internal Server Error").await;
        let Err(CommandError::Failure(text)) = get_text(&server, "/").await else { panic!("an error") };
        assert!(
            text.contains("500") && text.len() > MAX_ERROR && text.len() < 2 * MAX_ERROR,
            "{}",
            text.len()
        );
    }

    #[tokio::test]
    async fn requests_have_the_clients_header() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = format!("http://{}", listener.local_addr().expect("an address"));
        let serve = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                assert_ne!(stream.read_buf(&mut request).await.expect("readable"), 0, "the head is complete");
            }
            let response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(response).await.expect("written");
            String::from_utf8(request).expect("text")
        };
        let (request, response) = tokio::join!(serve, post(&server, "/"));
        assert!(response.is_ok());
        assert!(request.contains("x-pilothouse-client: pilothouse\r\n"), "{request}");
    }

    #[test]
    fn the_token_of_a_file_becomes_a_header_that_is_not_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("token");
        std::fs::write(&file, "abc.def\n").expect("written");
        let Ok(value) = authorization(&file) else { panic!("a header") };
        assert_eq!(value.to_str().ok(), Some("Bearer abc.def"));
        assert!(!format!("{value:?}").contains("abc"), "{value:?}");
        for (text, problem) in [(" \n", "it is empty"), ("a\nb", "failed to parse header value")] {
            std::fs::write(&file, text).expect("written");
            let Err(CommandError::Usage(error)) = authorization(&file) else { panic!("{text:?}") };
            assert!(error.contains("PILOTHOUSE_TOKEN_FILE=") && error.contains(problem), "{error}");
        }
        assert!(matches!(authorization(&folder.path().join("absent")), Err(CommandError::Usage(_))));
    }

    #[test]
    fn a_key_becomes_a_value_in_a_url() {
        assert_eq!(percent_encoded("shop/web-1"), "shop%2Fweb-1");
        assert_eq!(percent_encoded("a&b=ä"), "a%26b%3D%C3%A4");
    }

    #[test]
    fn only_names_of_plugins_become_parts_of_a_path() {
        assert!(check_plugin_name("sample-2").is_ok());
        for name in ["", "A", "a/b", "..", "a?b"] {
            assert!(matches!(check_plugin_name(name), Err(CommandError::Usage(_))), "{name}");
        }
    }
}
