//! Why an instance had to be given up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use wasmtime::component::ResourceTableError;
use wasmtime::{FrameInfo, FrameSymbol, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::engine::GUEST_STACK;
use crate::load::one_line;
use crate::sandbox::{GuestState, Stop};
use crate::{HostMemoryExceeded, Misuse};

/// How many of a guest's functions a fault names.
const MAX_FRAMES: usize = 20;

/// An instance failed: it answers nothing any more and must be replaced. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault(Arc<Detail>);

#[derive(Debug, PartialEq)]
struct Detail {
    call: &'static str,
    kind: FaultKind,
    last_lines: Vec<String>,
}

/// What went wrong. The display text is one line.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum FaultKind {
    /// The guest trapped: a panic, an uncaught exception, unreachable code.
    #[error("trapped: {message}{}", Frames(.frames))]
    Trap {
        /// What the engine says, such as "wasm `unreachable` instruction executed".
        message: String,
        /// The guest's functions, innermost first, with file and line where the wasm has them.
        frames: Vec<String>,
    },
    /// The guest asked the host for what it must not or cannot have.
    #[error("trapped: {0}")]
    Misuse(Misuse),
    /// The call took too long.
    #[error("exceeded limits.{limit} of {allowed:?} ({})", Spent(*computing, waiting_in.as_deref()))]
    Timeout {
        /// The limit as the sidecar spells it.
        limit: &'static str,
        /// The limit's value.
        allowed: Duration,
        /// How much of it the guest spent computing, to the engine's tick.
        computing: Duration,
        /// The import in which it was waiting when the time was up.
        waiting_in: Option<String>,
    },
    /// The guest wanted more memory than it may have.
    #[error("exceeded limits.memory of {} by growing to {}", Bytes(*allowed), Bytes(*wanted))]
    Memory {
        /// The limit, in bytes.
        allowed: usize,
        /// The size asked for, all memories together, in bytes.
        wanted: usize,
    },
    /// The guest wanted larger tables than it may have.
    #[error("exceeded limits.tableElements of {allowed} by growing to {wanted}")]
    TableElements {
        /// The limit, in elements of all tables together.
        allowed: usize,
        /// The number asked for.
        wanted: usize,
    },
    /// The component is made of too many parts.
    #[error("exceeded limits.instances of {allowed}: {problem}")]
    Instances {
        /// The limit on core instances, memories and tables, each.
        allowed: usize,
        /// What there is too much of, in the engine's words.
        problem: String,
    },
    /// The guest called itself too deeply. The size is the same for all plugins.
    #[error("exceeded its stack of {}{}: call less deeply", Bytes(*allowed), Frames(.frames))]
    Stack {
        /// The stack's size, in bytes.
        allowed: usize,
        /// The guest's functions, innermost first.
        frames: Vec<String>,
    },
    /// The guest opened too many handles; it probably doesn't close them.
    #[error("exceeded limits.handles of {allowed}: close handles of objects that are no longer needed")]
    Handles {
        /// The limit.
        allowed: u32,
    },
    /// The guest passed more in one call than it may, or asked for more.
    #[error("exceeded limits.messageSize of {}: pass less at once, ask for fields, page with limit and cursor", Bytes(*allowed))]
    MessageSize {
        /// The limit, in bytes.
        allowed: usize,
    },
    /// The host would have had to hold more for the plugin than it may have.
    #[error("{0}")]
    HostMemory(HostMemoryExceeded),
    /// The guest computed index values that are too many or too long; the instance stays usable.
    #[error("computed too large index values: {problem}")]
    IndexValues {
        /// How many, or how long.
        problem: String,
    },
    /// The guest ended itself through `wasi:cli/exit`.
    #[error("exited with code {0}: a plugin must return, not exit")]
    Exit(i32),
    /// The plugin's exports don't have the types of the contract.
    #[error("doesn't fit the contract: {0}")]
    Contract(String),
    /// The plugin doesn't export the function; the instance stays usable.
    #[error("the plugin doesn't export {0}")]
    NotExported(&'static str),
    /// The plugin's code slept and could not be mapped again: the machine is out of memory or of open files.
    #[error("the plugin's code can't be mapped: {0}")]
    NoCode(String),
    /// The instance failed or was abandoned in an earlier call.
    #[error("the instance was given up earlier; replace it")]
    Poisoned,
}

impl Fault {
    pub(crate) fn new(call: &'static str, kind: FaultKind, last_lines: Vec<String>) -> Self {
        Self(Arc::new(Detail { call, kind, last_lines }))
    }

    /// What a call of this function answered does not fit into the plugin's host memory.
    #[must_use]
    pub fn host_memory(call: &'static str, exceeded: HostMemoryExceeded) -> Self {
        Self::new(call, FaultKind::HostMemory(exceeded), Vec::new())
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> &FaultKind {
        &self.0.kind
    }

    /// The exported function that was called: "reconcile", "describe", …
    #[must_use]
    pub fn call(&self) -> &'static str {
        self.0.call
    }

    /// What the guest last complained of in this call, oldest line first: standard error, where panics and uncaught exceptions say what
    /// happened, and errors in its log, where guests without standard error say it.
    #[must_use]
    pub fn last_lines(&self) -> &[String] {
        &self.0.last_lines
    }

    /// Whether a limit of time was exceeded.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self.kind(), FaultKind::Timeout { .. })
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0.call, self.0.kind)?;
        if !self.0.last_lines.is_empty() {
            write!(f, "; its last lines: {}", one_line(&self.0.last_lines.join(" | ")))?;
        }
        Ok(())
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

struct Spent<'a>(Duration, Option<&'a str>);

impl fmt::Display for Spent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "computed for {:?}", self.0)?;
        self.1.map_or(Ok(()), |import| write!(f, ", then waited in {import}"))
    }
}

/// A number of bytes, for people.
pub(crate) struct Bytes(pub(crate) usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes % (1 << 20) == 0 => write!(f, "{} MiB", bytes >> 20),
            bytes if bytes % (1 << 10) == 0 => write!(f, "{} KiB", bytes >> 10),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

/// Tells a trap from a limit, from what the engine returned.
pub(crate) fn describe_error(
    error: &wasmtime::Error,
    guest: &GuestState,
    timeout: impl FnOnce() -> FaultKind,
) -> FaultKind {
    if let Some(stop) = error.downcast_ref::<Stop>() {
        return match stop.clone() {
            Stop::Misuse(Misuse::HostMemory(exceeded)) | Stop::HostMemory(exceeded) => {
                FaultKind::HostMemory(exceeded)
            }
            Stop::Misuse(misuse) => FaultKind::Misuse(misuse),
            Stop::CpuTime => timeout(),
            Stop::Memory { allowed, wanted } => FaultKind::Memory { allowed, wanted },
            Stop::TableElements { allowed, wanted } => FaultKind::TableElements { allowed, wanted },
            Stop::Handles { allowed } => FaultKind::Handles { allowed },
            Stop::MessageSize { allowed } => FaultKind::MessageSize { allowed },
        };
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return FaultKind::Exit(exit.0);
    }
    let root = error.root_cause().to_string();
    if root.contains(FUEL_EXHAUSTED) || root.contains(TOO_RANDOM) {
        return FaultKind::MessageSize { allowed: guest.message_size };
    }
    let is_full = matches!(error.downcast_ref(), Some(ResourceTableError::Full));
    if is_full || root.contains(HANDLES_EXHAUSTED) {
        return FaultKind::Handles { allowed: guest.handles.limit() };
    }
    if let Some(problem) = root.strip_prefix(COUNT_EXCEEDED) {
        return FaultKind::Instances {
            allowed: guest.memory.allowed_instances(),
            problem: one_line(problem),
        };
    }
    let frames = error.downcast_ref::<WasmBacktrace>().map(frames).unwrap_or_default();
    let trap = error.downcast_ref::<Trap>();
    if trap == Some(&Trap::StackOverflow) {
        return FaultKind::Stack { allowed: GUEST_STACK, frames };
    }
    let message = trap.map_or(root, ToString::to_string);
    FaultKind::Trap { message: one_line(&message), frames }
}

// How the engine says what it has no type for. Tests hold these to be so.

/// A call carried more than the store's hostcall fuel.
const FUEL_EXHAUSTED: &str = "fuel allocated for hostcalls has been exhausted";
/// More random bytes were asked for than one call may carry.
const TOO_RANDOM: &str = "requested len";
/// A component's own table of handles is full.
const HANDLES_EXHAUSTED: &str = "store handle limit exceeded";
/// A component is made of more parts than the limiter allows.
const COUNT_EXCEEDED: &str = "resource limit exceeded: ";

fn frames(backtrace: &WasmBacktrace) -> Vec<String> {
    backtrace.frames().iter().filter(|frame| is_of_the_guest(frame)).take(MAX_FRAMES).map(frame).collect()
}

/// `function at file:line`, as far as the wasm says: names come from the name section, places from DWARF.
fn frame(frame: &FrameInfo) -> String {
    let symbol = frame.symbols().first();
    let name = match symbol.and_then(FrameSymbol::name).or_else(|| frame.func_name()) {
        Some(name) => format!("{:#}", rustc_demangle::demangle(name)),
        None => format!("function {}", frame.func_index()),
    };
    let place = symbol.and_then(|symbol| Some((symbol.file()?, symbol.line()?)));
    one_line(&place.map_or_else(|| name.clone(), |(file, line)| format!("{name} at {file}:{line}")))
}

fn is_of_the_guest(frame: &FrameInfo) -> bool {
    // Made by the encoder that turns a core module into a component.
    !frame.module().name().is_some_and(|name| name.starts_with("wit-component:"))
}
