//! Everything that a guest prints: its log lines, standard output and standard error.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::fault::ByteCount;
use crate::{Call, Host, LogLevel, LogLine, LogSource};
use parking_lot::Mutex;

/// Maximum number of fields of a log line; further fields are dropped.
const MAX_FIELDS: usize = 64;
/// Number of last lines that a fault carries.
const LAST_LINES: usize = 20;
/// Maximum length of each of those lines, in bytes. A fault is shown as one line.
const LAST_LINE_SIZE: usize = 1 << 10;

/// The console of one instance. The `log` import and the two standard streams share it, so that their lines keep one order and are
/// attributed to the right call.
pub(crate) struct Console {
    host: Arc<dyn Host>,
    call: Call,
    /// `limits.logLineSize`: bytes of a message, of all fields of a line together, and of a line of output.
    line_size: usize,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    last_lines: VecDeque<String>,
}

/// A console that the WASI streams in the same store share. The lock is never contended: an instance runs on one thread at a time.
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
            // At least one byte, or a line of output would never be complete.
            line_size: line_size.max(1),
            stdout: Vec::new(),
            stderr: Vec::new(),
            last_lines: VecDeque::new(),
        }))
    }

    /// Attributes further lines to this call.
    pub(crate) fn begin_call(&mut self, call: Call) {
        self.call = call;
        self.last_lines.clear();
    }

    /// Returns the call that lines are attributed to.
    pub(crate) fn call(&self) -> &Call {
        &self.call
    }

    /// Ends the call: output without a line end becomes a line.
    pub(crate) fn end_call(&mut self) {
        self.flush(Stream::Stdout);
        self.flush(Stream::Stderr);
    }

    /// Returns the last errors of this call: lines of standard error, and lines of the log at level error.
    pub(crate) fn take_last_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.last_lines).into()
    }

    /// Logs one line of the `log` import.
    pub(crate) fn log(&mut self, level: LogLevel, message: &str, mut fields: Vec<(String, String)>) {
        fields.truncate(MAX_FIELDS);
        let mut remaining = self.line_size;
        for text in fields.iter_mut().flat_map(|(key, value)| [key, value]) {
            text.truncate(text.floor_char_boundary(remaining));
            remaining -= text.len();
        }
        let end = message.floor_char_boundary(self.line_size);
        let shortened = (end < message.len()).then(|| {
            format!("{} … (cut at limits.logLineSize of {})", &message[..end], ByteCount(self.line_size))
        });
        let message = shortened.as_deref().unwrap_or(message);
        if level == LogLevel::Error {
            // A guest without standard error reports its panics this way.
            let fields = fields.iter().map(|(key, value)| format!(" {key}={value}"));
            self.push_last_line(std::iter::once(message.to_owned()).chain(fields).collect());
        }
        self.emit(level, LogSource::Log, message, &fields);
    }

    /// Logs a warning of the host about the guest.
    pub(crate) fn log_host_warning(&mut self, message: &str) {
        self.emit(LogLevel::Warn, LogSource::Host, message, &[]);
    }

    /// Writes to a standard stream. Each complete line is logged; a line longer than the limit is split.
    pub(crate) fn write(&mut self, stream: Stream, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let line_size = self.line_size;
            let buffer = self.buffer(stream);
            let remaining = line_size - buffer.len();
            let chunk = &bytes[..bytes.len().min(remaining)];
            let (length, is_complete) = match chunk.iter().position(|byte| *byte == b'\n') {
                Some(end) => (end + 1, true),
                None => (chunk.len(), chunk.len() == remaining),
            };
            buffer.extend_from_slice(&chunk[..length]);
            bytes = &bytes[length..];
            if is_complete {
                self.flush(stream);
            }
        }
    }

    fn push_last_line(&mut self, mut line: String) {
        line.truncate(line.floor_char_boundary(LAST_LINE_SIZE));
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
                self.push_last_line(text.to_owned());
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
