//! Writes a watch body in pieces that end anywhere, some of them delayed.

use std::time::Duration;

use bytes::Bytes;
use pilothouse_informer::{Failure, FailureKind};
use tokio::sync::mpsc;

use super::Server;

/// Writes the body of one watch.
pub(super) struct BodyWriter {
    server: Server,
    sender: mpsc::UnboundedSender<Result<Bytes, Failure>>,
    /// Text that was written but not sent yet.
    held: Vec<u8>,
}

impl BodyWriter {
    pub(super) fn new(server: Server, sender: mpsc::UnboundedSender<Result<Bytes, Failure>>) -> Self {
        Self { server, sender, held: Vec::new() }
    }

    /// Writes text. The end may be held back until more is written; a slow body is sent piece by piece.
    pub(super) async fn write(&mut self, text: &str) {
        self.held.extend_from_slice(text.as_bytes());
        if self.held.is_empty() {
            return;
        }
        if self.server.draws_fault() {
            self.server.count("watch: slow body");
            while !self.held.is_empty() {
                let size = 1 + self.random_usize_below(self.held.len());
                self.send(size);
                tokio::time::sleep(Duration::from_millis(u64::from(self.server.random_below(3000)))).await;
            }
        } else if self.server.random_below(4) == 0 {
            let size = self.random_usize_below(self.held.len());
            self.send(size);
        } else {
            self.flush();
        }
    }

    /// Sends the text that was held back.
    pub(super) fn flush(&mut self) {
        self.send(self.held.len());
    }

    /// Cuts the connection without sending the text that was held back.
    pub(super) fn fail(self, reason: &str) {
        let _ = self.sender.send(Err(Failure::new(FailureKind::Connection, reason)));
    }

    /// Waits until the client has dropped the request.
    pub(super) async fn closed(&self) {
        self.sender.closed().await;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    fn send(&mut self, size: usize) {
        if size == 0 {
            return;
        }
        let rest = self.held.split_off(size);
        let piece = std::mem::replace(&mut self.held, rest);
        if !self.held.is_empty() {
            self.server.count("watch: body in pieces");
        }
        let _ = self.sender.send(Ok(Bytes::from(piece)));
    }

    fn random_usize_below(&self, below: usize) -> usize {
        self.server.random_below(u32::try_from(below).expect("small")) as usize
    }
}
