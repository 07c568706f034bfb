//! Posting JSON with `wasi:http`.

use std::fmt;

use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingResponse, Method, OutgoingBody, OutgoingRequest, RequestOptions, Scheme,
};
use wasip2::io::streams::StreamError;

/// The maximum number of bytes per write to a stream (`wasi:io`).
const MAX_WRITE: usize = 4096;
/// The timeout for the first byte of the response, in nanoseconds.
const FIRST_BYTE_TIMEOUT: u64 = 5_000_000_000;

/// A URL, split into the parts that `wasi:http` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Url<'a> {
    is_https: bool,
    authority: &'a str,
    path: &'a str,
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The host denied the request; only the operator can change that.
    Denied,
    /// Any other failure; a retry may succeed.
    Transient(String),
}

impl<'a> Url<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let is_https = match scheme {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        (!authority.is_empty()).then_some(Self {
            is_https,
            authority,
            path: if path.is_empty() { "/" } else { path },
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied => {
                f.write_str("the host denied the request; the previous log line says which grant is missing")
            }
            Self::Transient(text) => f.write_str(text),
        }
    }
}

impl From<ErrorCode> for Failure {
    fn from(code: ErrorCode) -> Self {
        match code {
            ErrorCode::HttpRequestDenied | ErrorCode::DestinationIpProhibited => Self::Denied,
            code => Self::Transient(code.to_string()),
        }
    }
}

/// Posts JSON and reads the whole response. Returns its status and the size of its body.
pub(crate) fn post(url: Url<'_>, body: &[u8]) -> Result<(u16, usize), Failure> {
    let rejected = |part: &str| Failure::Transient(format!("the URL's {part} cannot be sent"));
    let headers = Fields::from_list(&[
        ("content-type".to_owned(), b"application/json".to_vec()),
        ("content-length".to_owned(), body.len().to_string().into_bytes()),
    ])
    .map_err(|error| Failure::Transient(error.to_string()))?;
    let request = OutgoingRequest::new(headers);
    request.set_method(&Method::Post).map_err(|()| rejected("method"))?;
    let scheme = if url.is_https { Scheme::Https } else { Scheme::Http };
    request.set_scheme(Some(&scheme)).map_err(|()| rejected("scheme"))?;
    request.set_authority(Some(url.authority)).map_err(|()| rejected("host"))?;
    request.set_path_with_query(Some(url.path)).map_err(|()| rejected("path"))?;
    let options = RequestOptions::new();
    options.set_first_byte_timeout(Some(FIRST_BYTE_TIMEOUT)).map_err(|()| rejected("timeout"))?;

    let outgoing = request.body().map_err(|()| rejected("body"))?;
    let response = outgoing_handler::handle(request, Some(options))?;
    // When writing fails, the response has the reason.
    if write(&outgoing, body).is_ok() {
        drop(OutgoingBody::finish(outgoing, None));
    }
    let response = loop {
        match response.get() {
            Some(response) => break response.map_err(|()| rejected("response"))??,
            None => response.subscribe().block(),
        }
    };
    Ok((response.status(), read(&response)?))
}

fn write(outgoing: &OutgoingBody, body: &[u8]) -> Result<(), StreamError> {
    let Ok(stream) = outgoing.write() else { return Err(StreamError::Closed) };
    body.chunks(MAX_WRITE).try_for_each(|chunk| stream.blocking_write_and_flush(chunk))
}

fn read(response: &IncomingResponse) -> Result<usize, Failure> {
    let body = response.consume().map_err(|()| Failure::Transient("the response has no body".to_owned()))?;
    let stream = body.stream().map_err(|()| Failure::Transient("the body was already read".to_owned()))?;
    let mut size = 0;
    loop {
        match stream.blocking_read(64 << 10) {
            Ok(chunk) => size += chunk.len(),
            Err(StreamError::Closed) => return Ok(size),
            Err(StreamError::LastOperationFailed(error)) => {
                return Err(Failure::Transient(error.to_debug_string()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_split_into_its_parts() {
        let url = Url::parse("https://hooks.example.com:8443/a?b").expect("a URL");
        assert_eq!(url, Url { is_https: true, authority: "hooks.example.com:8443", path: "/a?b" });
        assert_eq!(Url::parse("http://localhost").expect("a URL").path, "/");
        for text in ["hooks.example.com", "ftp://x", "https://", ""] {
            assert_eq!(Url::parse(text), None, "{text}");
        }
    }
}
