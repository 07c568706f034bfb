//! An API server that refuses all credentials.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

/// A server that answers each request with 401, and closes the connection. Its thread ends with the process.
pub(crate) struct Unauthorized {
    pub(crate) url: String,
}

impl Unauthorized {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        std::thread::spawn(move || {
            let body = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "Unauthorized", "code": 401}"#;
            for mut stream in listener.incoming().flatten() {
                let mut lines = BufReader::new(&stream).lines();
                // The head of a request without a body.
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                let head = format!(
                    "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                // The client may be gone.
                let _ = stream.write_all((head + body).as_bytes());
            }
        });
        Self { url }
    }
}
