//! HTTP requests with `wasi:http`, as far as the cases need them: JSON to and from a stand-in of the scenario.

use pilothouse_sdk::Error;
use pilothouse_sdk::serde_json::{Value, from_slice};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingResponse, Method, OutgoingBody, OutgoingRequest, Scheme,
};
use wasip2::io::streams::StreamError;

/// Limit in bytes for the body of a response.
const MAX_BODY: usize = 1 << 20;

/// Sends a request to `http://HOST` and returns the JSON of the answer; null if it has no body.
///
/// # Errors
/// Errors if there is no answer, its status is not 2xx, or its body is not JSON.
pub(crate) fn send(method: &Method, host: &str, path: &str, body: Option<&Value>) -> Result<Value, Error> {
    let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    let headers = Fields::from_list(&[
        ("content-type".to_owned(), b"application/json".to_vec()),
        ("content-length".to_owned(), bytes.len().to_string().into_bytes()),
    ])?;
    let request = OutgoingRequest::new(headers);
    request.set_method(method).map_err(|()| refused("method"))?;
    request.set_scheme(Some(&Scheme::Http)).map_err(|()| refused("scheme"))?;
    request.set_authority(Some(host)).map_err(|()| refused("host"))?;
    request.set_path_with_query(Some(path)).map_err(|()| refused("path"))?;
    let outgoing = request.body().map_err(|()| refused("body"))?;
    let answer = outgoing_handler::handle(request, None).map_err(|code| failed(path, &code))?;
    // When writing fails, the answer has the reason.
    if write(&outgoing, &bytes).is_ok() {
        drop(OutgoingBody::finish(outgoing, None));
    }
    let response = loop {
        match answer.get() {
            Some(Ok(response)) => break response.map_err(|code| failed(path, &code))?,
            Some(Err(())) => return Err(Error::retry(format!("the answer for {path} was read before"))),
            None => answer.subscribe().block(),
        }
    };
    let status = response.status();
    let body = read(&response)?;
    if !(200..300).contains(&status) {
        return Err(Error::retry(format!("the answer for {path} has the status {status}")));
    }
    if body.is_empty() {
        return Ok(Value::Null);
    }
    Ok(from_slice(&body)?)
}

fn refused(part: &str) -> Error {
    Error::terminal(format!("the {part} of the request cannot be sent"))
}

fn failed(path: &str, code: &ErrorCode) -> Error {
    Error::retry(format!("there is no answer for {path}: {code}"))
}

fn write(outgoing: &OutgoingBody, body: &[u8]) -> Result<(), StreamError> {
    let Ok(stream) = outgoing.write() else { return Err(StreamError::Closed) };
    // `wasi:io` takes at most 4096 bytes at once.
    body.chunks(4096).try_for_each(|chunk| stream.blocking_write_and_flush(chunk))
}

fn read(response: &IncomingResponse) -> Result<Vec<u8>, Error> {
    let unreadable = |()| Error::retry("the answer has no body");
    let body = response.consume().map_err(unreadable)?;
    let stream = body.stream().map_err(unreadable)?;
    let mut bytes = Vec::new();
    while bytes.len() <= MAX_BODY {
        match stream.blocking_read(64 << 10) {
            Ok(chunk) => bytes.extend(chunk),
            Err(StreamError::Closed) => return Ok(bytes),
            Err(StreamError::LastOperationFailed(error)) => {
                return Err(Error::retry(format!("the answer ended: {}", error.to_debug_string())));
            }
        }
    }
    Err(Error::terminal(format!("the answer has more than {MAX_BODY} bytes")))
}
