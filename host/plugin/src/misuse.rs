//! Invalid calls of imports by a guest.

use thiserror::Error;

use crate::HostMemoryExceeded;

/// An invalid call of an import by a guest, which is a programming error of the plugin. The guest traps with this text.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Misuse {
    /// The descriptor declares no watch of this name.
    #[error("unknown watch {:?}: the descriptor declares {}", shortened(watch), names(declared))]
    UnknownWatch {
        /// The name that the guest gave.
        watch: String,
        /// The declared watches.
        declared: Vec<String>,
    },
    /// The descriptor declares no index of this name on this watch.
    #[error(
        "unknown index {:?} of watch {watch:?}: the descriptor declares {}",
        shortened(index),
        names(declared)
    )]
    UnknownIndex {
        /// The watch.
        watch: String,
        /// The name that the guest gave.
        index: String,
        /// The declared indexes of the watch.
        declared: Vec<String>,
    },
    /// Only keys of watches with `trigger: self` can be queued.
    #[error("watch {watch:?} is not a target (its trigger isn't self): targets are {}", names(targets))]
    NotATarget {
        /// The watch that the guest named.
        watch: String,
        /// The watches whose keys can be queued.
        targets: Vec<String>,
    },
    /// The label selector is invalid.
    #[error("label selector {:?} doesn't parse: {}", shortened(selector), shortened(message))]
    InvalidSelector {
        /// The selector.
        selector: String,
        /// What is wrong with it.
        message: String,
    },
    /// The call has too many JSON pointers.
    #[error("{function} takes at most {allowed} pointers, not {given}")]
    TooManyPointers {
        /// The function of the contract.
        function: &'static str,
        /// The maximum number of pointers.
        allowed: usize,
        /// The number of pointers in the call.
        given: usize,
    },
    /// A string argument is too long.
    #[error("{function} takes {argument} of at most {allowed} bytes, not {given}")]
    ArgumentTooLong {
        /// The function of the contract.
        function: &'static str,
        /// The argument, with its article: "a pointer".
        argument: &'static str,
        /// The maximum length, in bytes.
        allowed: usize,
        /// The length in the call, in bytes.
        given: usize,
    },
    /// The right to read the watch was revoked while the call ran.
    #[error("watch {watch:?} can't be read any more: {missing}")]
    ReadForbidden {
        /// The watch.
        watch: String,
        /// The missing right, and what to do about it.
        missing: String,
    },
    /// No object can have this key.
    #[error("{function} takes keys of objects: {problem}")]
    InvalidKey {
        /// The function of the contract.
        function: &'static str,
        /// What is wrong with the key.
        problem: String,
    },
    /// The plugin's host memory would exceed its limit.
    #[error("{0}")]
    HostMemory(#[from] HostMemoryExceeded),
    /// A recording is replayed, and this is the text of a misuse in it or says that the recording has no such call.
    #[error("{message}")]
    Recorded {
        /// The text.
        message: String,
    },
    /// The function is not available in the running call.
    #[error("{function} isn't available during {call}")]
    UnavailableInCall {
        /// The import.
        function: &'static str,
        /// The export that was running.
        call: &'static str,
    },
}

/// Returns the beginning of a guest's text, so that a message does not repeat megabytes.
fn shortened(text: &str) -> &str {
    const MAX_LENGTH: usize = 500;
    &text[..text.floor_char_boundary(MAX_LENGTH)]
}

fn names(declared: &[String]) -> String {
    if declared.is_empty() {
        return "none".to_owned();
    }
    declared.join(", ")
}
