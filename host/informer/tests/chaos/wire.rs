//! A body on its way: in pieces that end anywhere, some of them late.

use std::time::Duration;

use bytes::Bytes;
use pilothouse_informer::{Failure, FailureKind};
use tokio::sync::mpsc;

use super::Server;

pub(super) struct Wire {
    server: Server,
    sender: mpsc::UnboundedSender<Result<Bytes, Failure>>,
    /// Written, but not sent yet.
    held: Vec<u8>,
}

impl Wire {
    pub(super) fn new(server: Server, sender: mpsc::UnboundedSender<Result<Bytes, Failure>>) -> Self {
        Self { server, sender, held: Vec::new() }
    }

    /// Writes text. Some of its end may be held until more is written; a slow body comes piece by piece.
    pub(super) async fn say(&mut self, text: &str) {
        self.held.extend_from_slice(text.as_bytes());
        if self.held.is_empty() {
            return;
        }
        if self.server.hits() {
            self.server.note("watch: slow body");
            while !self.held.is_empty() {
                let size = 1 + self.draw_below(self.held.len());
                self.send(size);
                tokio::time::sleep(Duration::from_millis(u64::from(self.server.draw(3000)))).await;
            }
        } else if self.server.draw(4) == 0 {
            let size = self.draw_below(self.held.len());
            self.send(size);
        } else {
            self.flush();
        }
    }

    /// Sends what is held.
    pub(super) fn flush(&mut self) {
        self.send(self.held.len());
    }

    /// The connection ends here: what is held was never sent.
    pub(super) fn fail(self, reason: &str) {
        let _ = self.sender.send(Err(Failure::new(FailureKind::Connection, reason)));
    }

    /// Waits until the client has gone.
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
            self.server.note("watch: body in pieces");
        }
        let _ = self.sender.send(Ok(Bytes::from(piece)));
    }

    fn draw_below(&self, below: usize) -> usize {
        self.server.draw(u32::try_from(below).expect("small")) as usize
    }
}
