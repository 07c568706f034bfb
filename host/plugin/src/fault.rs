//! Faults: why an instance failed and must be replaced.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use wasmtime::component::ResourceTableError;
use wasmtime::{FrameInfo, FrameSymbol, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::contract::PACKAGE;
use crate::load::one_line;
use crate::sandbox::{GuestState, StopReason};
use crate::{Call, HostMemoryExceeded, Misuse};

/// Maximum number of a guest's stack frames in a fault.
const MAX_FRAMES: usize = 20;

/// The failure of a call. Unless [`FaultKind`] says otherwise, the instance cannot be called again and must be replaced. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault(Arc<Detail>);

#[derive(Debug, PartialEq)]
struct Detail {
    call: &'static str,
    kind: FaultKind,
    last_lines: Vec<String>,
}

/// The kind of a [`Fault`]. The display text is one line.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum FaultKind {
    /// The guest trapped: a panic, an uncaught exception, unreachable code.
    #[error("trapped: {message}{}", Frames(.frames))]
    Trap {
        /// The message of the engine, such as "wasm `unreachable` instruction executed".
        message: String,
        /// The guest's functions, innermost first, with file and line if the wasm has them.
        frames: Vec<String>,
    },
    /// The guest made an invalid call of an import.
    #[error("trapped: {0}")]
    Misuse(Misuse),
    /// The call took too long.
    #[error("exceeded limits.{limit} of {allowed:?} ({})", TimeSpent(*computing, waiting_in.as_deref()))]
    Timeout {
        /// The limit as the sidecar spells it.
        limit: &'static str,
        /// The limit's value.
        allowed: Duration,
        /// The part of it that the guest spent computing, with the precision of the engine's tick.
        computing: Duration,
        /// The import in which the guest was waiting when the time was up.
        waiting_in: Option<String>,
    },
    /// The guest's linear memory would exceed its limit.
    #[error("exceeded limits.memory of {} by growing to {}", ByteCount(*allowed), ByteCount(*wanted))]
    Memory {
        /// The limit, in bytes.
        allowed: usize,
        /// The requested size of all memories together, in bytes.
        wanted: usize,
    },
    /// The guest's tables would exceed their limit.
    #[error("exceeded limits.tableElements of {allowed} by growing to {wanted}")]
    TableElements {
        /// The limit, in elements of all tables together.
        allowed: usize,
        /// The requested number of elements.
        wanted: usize,
    },
    /// The component consists of too many core instances, memories or tables.
    #[error("exceeded limits.instances of {allowed}: {problem}")]
    Instances {
        /// The limit on core instances, memories and tables, each.
        allowed: usize,
        /// The message of the engine.
        problem: String,
    },
    /// The guest's stack overflowed. Its size is the same for all plugins.
    #[error("exceeded its stack of {}{}: call less deeply", ByteCount(*allowed), Frames(.frames))]
    Stack {
        /// The stack's size, in bytes.
        allowed: usize,
        /// The guest's functions, innermost first.
        frames: Vec<String>,
    },
    /// The guest opened too many handles; it probably does not close them.
    #[error("exceeded limits.handles of {allowed}: close handles of objects that are no longer needed")]
    Handles {
        /// The limit.
        allowed: u32,
    },
    /// The guest holds too many resources of WASI; it probably does not drop them. The limit is the same for all plugins, unless that of
    /// handles is lower.
    #[error(
        "exceeded {allowed} resources of WASI: drop streams, pollables and HTTP messages that are no longer needed"
    )]
    WasiResources {
        /// The limit.
        allowed: usize,
    },
    /// The arguments or the result of one call of an import were too large.
    #[error("exceeded limits.messageSize of {}: pass less at once, ask for fields, page with limit and cursor", ByteCount(*allowed))]
    MessageSize {
        /// The limit, in bytes.
        allowed: usize,
    },
    /// The plugin's host memory would exceed its limit.
    #[error("{0}")]
    HostMemory(HostMemoryExceeded),
    /// The guest computed too many or too long index values. The instance stays usable.
    #[error("computed too large index values: {problem}")]
    IndexValues {
        /// The number of values, or the length of the longest.
        problem: String,
    },
    /// The guest exited through `wasi:cli/exit`.
    #[error("exited with code {0}: a plugin must return, not exit")]
    Exit(i32),
    /// The plugin's exports do not have the types of the contract.
    #[error("doesn't fit the contract: {0}")]
    Contract(String),
    /// The plugin does not export the function. The instance stays usable.
    #[error("the plugin doesn't export {0}")]
    NotExported(&'static str),
    /// The plugin's code was unmapped while idle and could not be mapped again: the machine is out of memory or of file descriptors.
    #[error("the plugin's code can't be mapped: {0}")]
    CodeNotMapped(String),
    /// The instance failed or was abandoned in an earlier call.
    #[error("the instance failed in an earlier call; replace it")]
    Poisoned,
}

impl Fault {
    pub(crate) fn new(call: &'static str, kind: FaultKind, last_lines: Vec<String>) -> Self {
        Self(Arc::new(Detail { call, kind, last_lines }))
    }

    /// Creates the fault of a call whose result does not fit into the plugin's host memory.
    #[must_use]
    pub fn host_memory(call: &'static str, exceeded: HostMemoryExceeded) -> Self {
        Self::new(call, FaultKind::HostMemory(exceeded), Vec::new())
    }

    /// Returns what went wrong.
    #[must_use]
    pub fn kind(&self) -> &FaultKind {
        &self.0.kind
    }

    /// Returns the exported function that was called: "reconcile", "describe", …
    #[must_use]
    pub fn call(&self) -> &'static str {
        self.0.call
    }

    /// Returns the last errors that the guest printed in this call, oldest first: lines of standard error, where panics and uncaught
    /// exceptions appear, and log lines at level error, which guests without standard error use for them. After the message of a panic of
    /// Go's runtime, these are the first lines of its trace.
    #[must_use]
    pub fn last_lines(&self) -> &[String] {
        &self.0.last_lines
    }

    /// Returns whether a time limit was exceeded.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self.kind(), FaultKind::Timeout { .. })
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Detail { call, kind, last_lines } = &*self.0;
        if last_lines.is_empty() {
            return write!(f, "{call} {kind}");
        }
        let lines = one_line(&last_lines.join(" | "));
        match kind {
            // The message of a panic comes before the trace of the trap that it ended in.
            FaultKind::Trap { message, frames } => {
                write!(f, "{call} trapped; its last lines: {lines}; {message}{}", Frames(frames))
            }
            _ => write!(f, "{call} {kind}; its last lines: {lines}"),
        }
    }
}

struct Frames<'a>(&'a [String]);

impl fmt::Display for Frames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 3;
        for (position, frame) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}{frame}", if position == 0 { " in " } else { " < " })?;
        }
        Ok(())
    }
}

/// Displays how long a guest computed, and in which import it waited afterwards.
struct TimeSpent<'a>(Duration, Option<&'a str>);

impl fmt::Display for TimeSpent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "computed for {:?}", self.0)?;
        self.1.map_or(Ok(()), |import| write!(f, ", then waited in {import}"))
    }
}

/// Displays a number of bytes, in MiB or KiB if it is a multiple of them.
pub(crate) struct ByteCount(pub(crate) usize);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes % (1 << 20) == 0 => write!(f, "{} MiB", bytes >> 20),
            bytes if bytes % (1 << 10) == 0 => write!(f, "{} KiB", bytes >> 10),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

/// Returns the kind of fault that an error of the engine is.
pub(crate) fn classify_error(
    error: &wasmtime::Error,
    guest: &GuestState,
    timeout: impl FnOnce() -> FaultKind,
) -> FaultKind {
    if let Some(stop) = error.downcast_ref::<StopReason>() {
        return match stop.clone() {
            StopReason::Misuse(Misuse::HostMemory(exceeded)) | StopReason::HostMemory(exceeded) => {
                FaultKind::HostMemory(exceeded)
            }
            StopReason::Misuse(misuse) => FaultKind::Misuse(misuse),
            StopReason::CpuTime => timeout(),
            StopReason::Memory { allowed, wanted } => FaultKind::Memory { allowed, wanted },
            StopReason::TableElements { allowed, wanted } => FaultKind::TableElements { allowed, wanted },
            StopReason::Handles { allowed } => FaultKind::Handles { allowed },
            StopReason::MessageSize { allowed } => FaultKind::MessageSize { allowed },
        };
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return FaultKind::Exit(exit.0);
    }
    let root = error.root_cause().to_string();
    if root.contains(FUEL_EXHAUSTED) || root.contains(RANDOM_TOO_LARGE) {
        return FaultKind::MessageSize { allowed: guest.message_size };
    }
    if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) {
        return FaultKind::WasiResources { allowed: guest.wasi_resources.limit() };
    }
    if root.contains(HANDLES_EXHAUSTED) {
        return FaultKind::Handles { allowed: guest.handles.limit() };
    }
    if let Some(problem) = root.strip_prefix(COUNT_EXCEEDED) {
        return FaultKind::Instances {
            allowed: guest.memory.allowed_instances(),
            problem: one_line(problem),
        };
    }
    let backtrace = error.downcast_ref::<WasmBacktrace>();
    let frames = backtrace.map(frames).unwrap_or_default();
    let trap = error.downcast_ref::<Trap>();
    if trap == Some(&Trap::OutOfFuel) {
        return timeout();
    }
    if trap == Some(&Trap::StackOverflow) {
        return FaultKind::Stack { allowed: guest.stack, frames };
    }
    let message = match trap {
        Some(trap) => trap.to_string(),
        None => with_location(&root, backtrace, &guest.call),
    };
    FaultKind::Trap { message: one_line(&message), frames }
}

/// Returns the text of an error that no instruction of the guest caused, with the import or the result in which the host found it: a bad
/// pointer, discriminant, text or handle.
fn with_location(problem: &str, backtrace: Option<&WasmBacktrace>, call: &Call) -> String {
    let innermost = backtrace.and_then(|backtrace| backtrace.frames().first());
    let Some(innermost) = innermost else {
        // The guest is not running: it has returned, or its allocator has.
        return match call {
            Call::Instantiate => problem.to_owned(),
            _ if problem.starts_with(BAD_ALLOCATION) => {
                format!("cabi_realloc returned a bad address for an argument of the call: {problem}")
            }
            _ => format!("the result is invalid: {problem}"),
        };
    };
    let shim = innermost.func_name().filter(|_| innermost.module().name() == Some(SHIM));
    match shim.and_then(import_of_shim) {
        Some(import) => format!("in the import {import}: {problem}"),
        None if problem.starts_with(UNKNOWN_HANDLE) => {
            format!("an import was given a handle that is not open: {problem}")
        }
        None => problem.to_owned(),
    }
}

/// Returns the import that a function of the encoder's module [`SHIM`] calls. Imports of the contract have the names that other messages
/// give them, such as `cache.list` and `object.text`.
fn import_of_shim(function: &str) -> Option<String> {
    let import = function.strip_prefix("indirect-")?;
    let (interface, rest) = import.split_once('@')?;
    let (_version, function) = rest.split_once('-')?;
    let Some(interface) = interface.strip_prefix(PACKAGE).and_then(|rest| rest.strip_prefix('/')) else {
        return Some(format!("{interface}#{function}"));
    };
    Some(match function.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((_, method)) => method.to_owned(),
        None => format!("{interface}.{function}"),
    })
}

// Texts of errors for which the engine has no type. The tests fail if a version of the engine changes them.

/// A call carried more than the store's hostcall fuel.
const FUEL_EXHAUSTED: &str = "fuel allocated for hostcalls has been exhausted";
/// More random bytes were requested than one call may carry.
const RANDOM_TOO_LARGE: &str = "requested len";
/// A component's own table of handles is full.
const HANDLES_EXHAUSTED: &str = "store handle limit exceeded";
/// A component consists of more instances, memories or tables than the limiter allows.
const COUNT_EXCEEDED: &str = "resource limit exceeded: ";
/// The guest's allocator returned a bad address.
const BAD_ALLOCATION: &str = "realloc return";
/// The guest passed the index of a handle that it does not have.
const UNKNOWN_HANDLE: &str = "unknown handle index";

/// The module in which the encoder calls the imports that read or write the guest's memory.
const SHIM: &str = "wit-component:shim";

fn frames(backtrace: &WasmBacktrace) -> Vec<String> {
    backtrace.frames().iter().filter(|frame| is_guest_frame(frame)).take(MAX_FRAMES).map(frame).collect()
}

/// Returns `function at file:line`, as far as the wasm has them: names come from the name section, locations from DWARF.
fn frame(frame: &FrameInfo) -> String {
    let symbol = frame.symbols().first();
    let name = match symbol.and_then(FrameSymbol::name).or_else(|| frame.func_name()) {
        Some(name) => format!("{:#}", rustc_demangle::demangle(name)),
        None => format!("function {}", frame.func_index()),
    };
    let location = symbol.and_then(|symbol| Some((symbol.file()?, symbol.line()?)));
    one_line(&location.map_or_else(|| name.clone(), |(file, line)| format!("{name} at {file}:{line}")))
}

fn is_guest_frame(frame: &FrameInfo) -> bool {
    // The encoder that turns a core module into a component adds modules with such names.
    !frame.module().name().is_some_and(|name| name.starts_with("wit-component:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_a_panic_precedes_the_trace_of_the_trap() {
        let kind = FaultKind::Trap {
            message: "wasm trap: unreachable".to_owned(),
            frames: vec!["runtime.Abort".to_owned(), "exports.End".to_owned()],
        };
        let text = |lines: &[&str]| {
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            Fault::new("reconcile", kind.clone(), lines)
        };
        assert_eq!(
            text(&["panic: no image stack=main.reconcile (main.go:7)"]).to_string(),
            "reconcile trapped; its last lines: panic: no image stack=main.reconcile (main.go:7); \
             wasm trap: unreachable in runtime.Abort < exports.End"
        );
        assert_eq!(
            text(&[]).to_string(),
            "reconcile trapped: wasm trap: unreachable in runtime.Abort < exports.End"
        );
        let exit = Fault::new("reconcile", FaultKind::Exit(2), vec!["fatal error: deadlock".to_owned()]);
        assert!(exit.to_string().ends_with("; its last lines: fatal error: deadlock"), "{exit}");
    }

    #[test]
    fn functions_of_the_encoders_shim_name_their_import() {
        for (function, import) in [
            ("indirect-pilothouse:controller/cache@0.1.1-list-fields", Some("cache.list-fields")),
            ("indirect-pilothouse:controller/objects@0.1.1-[method]object.text", Some("object.text")),
            ("indirect-wasi:http/outgoing-handler@0.2.6-handle", Some("wasi:http/outgoing-handler#handle")),
            ("adapt-wasi_snapshot_preview1-fd_write", None),
            ("indirect-cache-get", None),
            ("", None),
        ] {
            assert_eq!(import_of_shim(function).as_deref(), import, "{function}");
        }
    }
}
