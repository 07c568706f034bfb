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
/// How Go's runtime begins the message of a panic and of a fatal error. A trace of any length follows, which must not displace the message.
const GO_MESSAGES: [&str; 2] = ["panic: ", "fatal error: "];
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
    /// Whether `last_lines` begins with one of [`GO_MESSAGES`], so that the first lines after it are kept instead of the last ones.
    starts_with_message: bool,
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
            starts_with_message: false,
        }))
    }

    /// Attributes further lines to this call.
    pub(crate) fn begin_call(&mut self, call: Call) {
        self.call = call;
        self.last_lines.clear();
        self.starts_with_message = false;
    }

    /// Returns the call that lines are attributed to.
    pub(crate) fn call(&self) -> &Call {
        &self.call
    }

    /// Ends the call: output without a line end becomes a line.
    pub(crate) fn end_call(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            self.flush(stream, false);
        }
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

    /// Writes to a standard stream. Each complete line is logged; a line longer than the limit is split. After a line that the host drops,
    /// the further lines of the same write are only counted.
    pub(crate) fn write(&mut self, stream: Stream, mut bytes: &[u8]) {
        let (mut is_dropping, mut dropped) = (false, 0);
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
                dropped += u64::from(is_dropping);
                is_dropping |= !self.flush(stream, is_dropping);
            }
        }
        if dropped > 0 {
            self.host.log_dropped(&self.call, dropped);
        }
    }

    fn push_last_line(&mut self, mut line: String) {
        line.truncate(line.floor_char_boundary(LAST_LINE_SIZE));
        // A panic during a panic belongs to the trace of the first.
        if !self.starts_with_message && GO_MESSAGES.iter().any(|start| line.starts_with(start)) {
            self.starts_with_message = true;
            self.last_lines.clear();
        }
        if self.last_lines.len() == LAST_LINES {
            if self.starts_with_message {
                return;
            }
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

    /// Ends the line in the stream's buffer, and logs it unless lines are being dropped. Returns whether the host has written it.
    fn flush(&mut self, stream: Stream, is_dropping: bool) -> bool {
        let mut line = std::mem::take(self.buffer(stream));
        if line.is_empty() {
            return true;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        let (level, source) = match stream {
            Stream::Stdout => (LogLevel::Info, LogSource::Stdout),
            Stream::Stderr => {
                self.push_last_line(text.to_owned());
                (LogLevel::Warn, LogSource::Stderr)
            }
        };
        let is_written = !is_dropping && self.emit(level, source, text, &[]);
        line.clear();
        *self.buffer(stream) = line;
        is_written
    }

    fn emit(
        &mut self,
        level: LogLevel,
        source: LogSource,
        message: &str,
        fields: &[(String, String)],
    ) -> bool {
        self.host.log(&self.call, LogLine { level, source, message, fields })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StubHost;

    fn console() -> SharedConsole {
        Console::shared(Arc::new(StubHost::new("{}")), 1024)
    }

    #[test]
    fn the_last_lines_are_kept_and_after_a_panic_of_go_the_first_ones() {
        let console = console();
        let mut console = console.lock();
        for number in 0..100 {
            console.write(Stream::Stderr, format!("line {number}\n").as_bytes());
        }
        let lines = console.take_last_lines();
        assert_eq!((lines.len(), lines[0].as_str(), lines[19].as_str()), (20, "line 80", "line 99"));
        for start in ["panic: no image", "fatal error: all goroutines are asleep - deadlock!"] {
            console.begin_call(Call::Instantiate);
            console.write(Stream::Stderr, b"a warning before\n");
            // As Go's runtime writes it, in pieces.
            for piece in [start, "\n", "\n", "goroutine ", "1", " [running]:\n"] {
                console.write(Stream::Stderr, piece.as_bytes());
            }
            for number in 0..100 {
                console.write(Stream::Stderr, format!("main.frame{number}()\n").as_bytes());
            }
            let lines = console.take_last_lines();
            assert_eq!((lines.len(), lines[0].as_str()), (20, start));
            assert_eq!(lines[2..4], ["goroutine 1 [running]:", "main.frame0()"]);
        }
        console.begin_call(Call::Instantiate);
        (0..30).for_each(|number| console.write(Stream::Stderr, format!("{number}\n").as_bytes()));
        assert_eq!(console.take_last_lines()[0], "10", "the next call starts anew");
    }
}
