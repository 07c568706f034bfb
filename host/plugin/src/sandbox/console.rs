//! Everything that a guest says: its log lines, standard output and standard error.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::fault::Bytes;
use crate::{Call, Host, LogLevel, LogLine, LogSource};
use parking_lot::Mutex;

/// Fields beyond are left out.
const MAX_FIELDS: usize = 64;
/// How many of its last lines a fault carries.
const LAST_LINES: usize = 20;
/// Bytes of each of those: a fault is shown as one line.
const LAST_LINE_SIZE: usize = 1 << 10;

/// One instance's console, shared by the `log` import and the two standard streams, so that their lines come in one order and with the call that they belong to.
pub(crate) struct Console {
    host: Arc<dyn Host>,
    call: Call,
    /// Bytes of a message, of all fields of a line together, and of a line of output.
    line_size: usize,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    last_lines: VecDeque<String>,
}

/// Shared with the WASI streams, which live beside it in the store. Never contended: an instance runs on one thread at a time.
pub(crate) type SharedConsole = Arc<Mutex<Console>>;

/// One of the two standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Console {
    pub(crate) fn shared(host: Arc<dyn Host>, line_size: usize) -> SharedConsole {
        Arc::new(Mutex::new(Self {
            host,
            call: Call::Instantiate,
            // Some room at least, or a stream would never get rid of a byte.
            line_size: line_size.max(1),
            stdout: Vec::new(),
            stderr: Vec::new(),
            last_lines: VecDeque::new(),
        }))
    }

    /// Lines from here on belong to this call.
    pub(crate) fn begin(&mut self, call: Call) {
        self.call = call;
        self.last_lines.clear();
    }

    /// The call that lines belong to.
    pub(crate) fn call(&self) -> &Call {
        &self.call
    }

    /// The call is over: what stands without a line end is a line.
    pub(crate) fn end(&mut self) {
        self.flush(Stream::Stdout);
        self.flush(Stream::Stderr);
    }

    /// What the guest last complained of in this call: lines of standard error, and errors in its log.
    pub(crate) fn take_last_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.last_lines).into()
    }

    /// One line of the `log` import.
    pub(crate) fn log(&mut self, level: LogLevel, message: &str, mut fields: Vec<(String, String)>) {
        fields.truncate(MAX_FIELDS);
        let mut room = self.line_size;
        for text in fields.iter_mut().flat_map(|(key, value)| [key, value]) {
            text.truncate(cut(text, room));
            room -= text.len();
        }
        let end = cut(message, self.line_size);
        let shortened = (end < message.len()).then(|| {
            format!("{} … (cut at limits.logLineSize of {})", &message[..end], Bytes(self.line_size))
        });
        let message = shortened.as_deref().unwrap_or(message);
        if level == LogLevel::Error {
            // Where there is no standard error, a guest's panic comes this way.
            let fields = fields.iter().map(|(key, value)| format!(" {key}={value}"));
            self.remember(std::iter::once(message.to_owned()).chain(fields).collect());
        }
        self.emit(level, LogSource::Log, message, &fields);
    }

    /// A remark of the host about what the guest did.
    pub(crate) fn remark(&mut self, message: &str) {
        self.emit(LogLevel::Warn, LogSource::Host, message, &[]);
    }

    /// Bytes of a standard stream; each full line is logged.
    pub(crate) fn write(&mut self, stream: Stream, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let line_size = self.line_size;
            let buffer = self.buffer(stream);
            let room = line_size - buffer.len();
            let piece = &bytes[..bytes.len().min(room)];
            let (taken, complete) = match piece.iter().position(|byte| *byte == b'\n') {
                Some(end) => (end + 1, true),
                None => (piece.len(), piece.len() == room),
            };
            buffer.extend_from_slice(&piece[..taken]);
            bytes = &bytes[taken..];
            if complete {
                self.flush(stream);
            }
        }
    }

    fn remember(&mut self, mut line: String) {
        line.truncate(cut(&line, LAST_LINE_SIZE));
        if self.last_lines.len() == LAST_LINES {
            self.last_lines.pop_front();
        }
        self.last_lines.push_back(line);
    }

    fn buffer(&mut self, stream: Stream) -> &mut Vec<u8> {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    fn flush(&mut self, stream: Stream) {
        let mut line = std::mem::take(self.buffer(stream));
        if line.is_empty() {
            return;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        match stream {
            Stream::Stdout => self.emit(LogLevel::Info, LogSource::Stdout, text, &[]),
            Stream::Stderr => {
                self.remember(text.to_owned());
                self.emit(LogLevel::Warn, LogSource::Stderr, text, &[]);
            }
        }
        line.clear();
        *self.buffer(stream) = line;
    }

    fn emit(&mut self, level: LogLevel, source: LogSource, message: &str, fields: &[(String, String)]) {
        self.host.log(&self.call, LogLine { level, source, message, fields });
    }
}

/// The length of the longest prefix of `text` of at most `max` bytes.
pub(crate) fn cut(text: &str, max: usize) -> usize {
    text.floor_char_boundary(max)
}
