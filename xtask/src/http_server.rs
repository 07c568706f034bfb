//! A small HTTP server on loopback, for the other side of a host under test: a collector of traces, a registry.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use anyhow::{Context, Result};

/// Bytes of a request's head, and of its body. A host sends less.
const MAX_HEAD: u64 = 64 << 10;
const MAX_BODY: u64 = 64 << 20;

/// A request, without its headers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// The path with the query.
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
}

/// A response.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

/// A server that runs until the process ends.
pub(crate) struct HttpServer {
    address: String,
}

impl HttpServer {
    /// Starts a server on a free port. Each connection gets a thread, and serves one request.
    pub(crate) fn start(respond: impl Fn(&Request) -> Response + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listen on loopback")?;
        let address = listener.local_addr().context("read the address of a socket")?.to_string();
        let respond = Arc::new(respond);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let respond = Arc::clone(&respond);
                std::thread::spawn(move || {
                    // An error means that the client has closed the connection, or that it does not speak HTTP.
                    let _ = serve(&stream, respond.as_ref());
                });
            }
        });
        Ok(Self { address })
    }

    /// Returns the address as `HOST:PORT`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

fn serve(stream: &TcpStream, respond: &dyn Fn(&Request) -> Response) -> io::Result<()> {
    let request = read_request(&mut BufReader::new(stream))?;
    let mut response = respond(&request);
    if request.method == "HEAD" {
        response.body.clear();
    }
    write_response(&mut &*stream, &response)
}

fn read_request(stream: &mut impl BufRead) -> io::Result<Request> {
    let mut head = stream.take(MAX_HEAD);
    let mut line = String::new();
    head.read_line(&mut line)?;
    let mut words = line.split_ascii_whitespace().map(str::to_owned);
    let (Some(method), Some(path)) = (words.next(), words.next()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let mut length = 0;
    loop {
        line.clear();
        if head.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
        }
    }
    if length > MAX_BODY {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = Vec::new();
    head.into_inner().take(length).read_to_end(&mut body)?;
    Ok(Request { method, path, body })
}

fn write_response(stream: &mut impl Write, response: &Response) -> io::Result<()> {
    let Response { status, headers, body } = response;
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    write!(
        stream,
        "HTTP/1.1 {status} -\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    )?;
    stream.write_all(body)?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> io::Result<Request> {
        read_request(&mut text.as_bytes())
    }

    #[test]
    fn a_request_ends_where_its_length_says() {
        let request =
            read("POST /v1/traces HTTP/1.1\r\nContent-Length: 3\r\nx: y\r\n\r\nabcd").expect("read");
        let expected = Request { method: "POST".into(), path: "/v1/traces".into(), body: b"abc".into() };
        assert_eq!(request, expected);
        assert_eq!(read("GET / HTTP/1.1\r\n\r\n").expect("read").body, b"");
    }

    #[test]
    fn a_request_that_is_cut_off_or_too_large_is_an_error() {
        let endless = format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(1 << 20));
        for text in ["", "GET\r\n\r\n", "GET / HTTP/1.1\r\nx: y\r\n", &endless] {
            assert!(read(text).is_err(), "{text:.40}");
        }
        for length in ["-1", "99999999999", "many"] {
            assert!(read(&format!("POST / HTTP/1.1\r\ncontent-length: {length}\r\n\r\n")).is_err());
        }
    }

    #[test]
    fn a_server_answers_by_its_function() {
        let respond = |request: &Request| Response {
            status: 200,
            headers: vec![("x-path", request.path.clone())],
            body: request.body.clone(),
        };
        let server = HttpServer::start(respond).expect("started");
        let send = |text: &str| {
            let mut stream = TcpStream::connect(server.address()).expect("connected");
            stream.write_all(text.as_bytes()).expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("read");
            answer
        };
        let answer = send("PUT /a HTTP/1.1\r\ncontent-length: 2\r\n\r\nhi");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("x-path: /a\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nhi"), "{answer}");
        assert!(send("HEAD /a HTTP/1.1\r\ncontent-length: 2\r\n\r\nhi").ends_with("\r\n\r\n"));
    }
}
