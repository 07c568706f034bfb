//! What a guest gets wrong in what it asks the host for.

use thiserror::Error;

use crate::HostMemoryExceeded;
use crate::sandbox::cut;

/// A guest's programming error: its call traps with this text.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Misuse {
    /// No watch of this name.
    #[error("unknown watch {:?}: the descriptor declares {}", start(watch), names(declared))]
    UnknownWatch {
        /// The name asked for.
        watch: String,
        /// Those there are.
        declared: Vec<String>,
    },
    /// No index of this name on this watch.
    #[error(
        "unknown index {:?} of watch {watch:?}: the descriptor declares {}",
        start(index),
        names(declared)
    )]
    UnknownIndex {
        /// The watch.
        watch: String,
        /// The name asked for.
        index: String,
        /// Those there are.
        declared: Vec<String>,
    },
    /// Work must name an object of a watch with `trigger: self`.
    #[error("watch {watch:?} is no target (its trigger isn't self): targets are {}", names(targets))]
    NotATarget {
        /// The watch asked for.
        watch: String,
        /// Those there are.
        targets: Vec<String>,
    },
    /// A label selector that doesn't parse.
    #[error("label selector {:?} doesn't parse: {}", start(selector), start(message))]
    Selector {
        /// The selector.
        selector: String,
        /// What is wrong with it.
        message: String,
    },
    /// More pointers than one call takes.
    #[error("{function} takes at most {allowed} pointers, not {given}")]
    TooManyPointers {
        /// The function of the contract.
        function: &'static str,
        /// How many it takes.
        allowed: usize,
        /// How many there were.
        given: usize,
    },
    /// A text that is longer than the function reads.
    #[error("{function} takes {argument} of at most {allowed} bytes, not {given}")]
    TooLong {
        /// The function of the contract.
        function: &'static str,
        /// Which argument.
        argument: &'static str,
        /// How many bytes it may have.
        allowed: usize,
        /// How many it has.
        given: usize,
    },
    /// A right that reading the watch takes was taken away while the call ran.
    #[error("watch {watch:?} can't be read any more: {missing}")]
    MayNotRead {
        /// The watch asked for.
        watch: String,
        /// The right, and what to do about it.
        missing: String,
    },
    /// A key that no object can have.
    #[error("{function} takes keys of objects: {problem}")]
    Key {
        /// The function of the contract.
        function: &'static str,
        /// What is wrong with the key.
        problem: String,
    },
    /// The host would have to hold too much for the plugin.
    #[error("{0}")]
    HostMemory(#[from] HostMemoryExceeded),
    /// A function that isn't available in this call.
    #[error("{function} isn't available during {call}")]
    NotNow {
        /// The import.
        function: &'static str,
        /// The export that was running.
        call: &'static str,
    },
}

/// A guest's text as far as a person reads it: an error repeats no megabytes.
fn start(text: &str) -> &str {
    const SHOWN: usize = 500;
    &text[..cut(text, SHOWN)]
}

fn names(declared: &[String]) -> String {
    if declared.is_empty() {
        return "none".to_owned();
    }
    declared.join(", ")
}
