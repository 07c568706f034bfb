//! Why a file is no plugin.

use thiserror::Error;

/// A file that can't be loaded. The display text is one line: what was found, what was expected, what to do.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LoadError {
    /// Zero bytes.
    #[error(
        "the file is empty: expected a WebAssembly component or core module; was it still being written?"
    )]
    Empty,
    /// Larger than the engine takes.
    #[error(
        "the file has {size} bytes, at most {limit} are taken: build it with optimisation and without debug information"
    )]
    TooLarge {
        /// Bytes of the file.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// More functions than are compiled.
    #[error(
        "the file has more than {limit} functions, which are not compiled: build it with optimisation, or split it into several plugins"
    )]
    TooManyFunctions {
        /// The limit.
        limit: u32,
    },
    /// Something else than WebAssembly.
    #[error("found {found}, expected a WebAssembly component or core module: {remedy}")]
    NotWasm {
        /// What the bytes are.
        found: String,
        /// What to run.
        remedy: &'static str,
    },
    /// WebAssembly that ends early.
    #[error(
        "the WebAssembly ends early, after {size} bytes ({message}): copy it again, best under another name, then rename it"
    )]
    Truncated {
        /// Bytes of the file.
        size: usize,
        /// What the parser missed.
        message: String,
    },
    /// WebAssembly that is broken or needs features that this host doesn't have.
    #[error("invalid WebAssembly: {message}: rebuild it, without experimental features of WebAssembly")]
    Invalid {
        /// What the validator says.
        message: String,
    },
    /// WebAssembly of another kind: no `plugin` export.
    #[error(
        "exports {found}, expected pilothouse:controller/plugin@0.1.0 (world reconciler, observer or controller): {remedy}"
    )]
    NotAPlugin {
        /// What it exports.
        found: String,
        /// What to do.
        remedy: &'static str,
    },
    /// `plugin` is there, but nothing to call.
    #[error(
        "exports plugin, but none of reconcile, observe, index: build it for the world reconciler, observer or controller of pilothouse:controller@0.1.0"
    )]
    NothingToCall,
    /// Built for another version of the contract.
    #[error(
        "built for pilothouse:controller@{wanted}, this host has {offered}: rebuild the plugin with a matching SDK, or update the host"
    )]
    WrongVersion {
        /// The version of the plugin.
        wanted: String,
        /// The version of the host.
        offered: &'static str,
    },
    /// Needs something that the host doesn't give.
    #[error("imports {imports}, which this host doesn't offer (it has {offered}): {remedy}")]
    NotOffered {
        /// What the plugin wants.
        imports: String,
        /// What there is.
        offered: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// A core module that can't be made into a component.
    #[error(
        "the core module can't be made into a component: {message}: compare its imports and exports with pilothouse:controller@0.1.0"
    )]
    Encode {
        /// What doesn't fit.
        message: String,
    },
    /// An import with the right name and the wrong type, or a missing function.
    #[error("doesn't fit this host: {message}: rebuild the plugin for pilothouse:controller@0.1.0")]
    Link {
        /// What doesn't fit.
        message: String,
    },
    /// An export with the right name and the wrong type.
    #[error(
        "the export {function} doesn't fit the contract: {message}: rebuild the plugin for pilothouse:controller@0.1.0"
    )]
    WrongType {
        /// The export.
        function: String,
        /// What is wrong with its type.
        message: String,
    },
    /// The compiler gave up.
    #[error("the WebAssembly can't be compiled: {message}")]
    Compile {
        /// What the compiler says.
        message: String,
    },
    /// What a compiler process says of the file: the text of one of the others.
    #[error("{0}")]
    Refused(String),
    /// The compiler process did not get to a result.
    #[error(
        "the compiler process {how} (signals 6 and 9 mostly mean that it had not enough memory); it said: {said}: build the plugin smaller, or give the machine more memory"
    )]
    CompilerEnded {
        /// How it ended.
        how: String,
        /// The end of its standard error.
        said: String,
    },
    /// The compiler process needed more memory than it may take.
    #[error(
        "compiling it took more than {mebibytes} MiB, the part of this machine's or container's free memory that a compiler may take: build the plugin smaller, or give the host more memory"
    )]
    CompilerMemory {
        /// What it might take.
        mebibytes: u64,
    },
    /// The host's own fault.
    #[error("the loader failed, which is a fault of the host, please report it with the file: {0}")]
    Internal(String),
}

impl LoadError {
    pub(crate) fn compile(error: &wasmtime::Error) -> Self {
        Self::Compile { message: one_line(&format!("{error:#}")) }
    }

    /// There is no place for compiled code.
    pub(crate) fn no_file(error: &std::io::Error) -> Self {
        Self::Internal(format!("no file for compiled code can be made: {error}"))
    }

    pub(super) fn link(error: &wasmtime::Error) -> Self {
        Self::Link { message: one_line(&format!("{error:#}")) }
    }
}

/// The longest text of others that becomes part of a message, in bytes.
const MAX_LINE: usize = 1000;

/// Text of others as part of one line: whitespace folded, control characters shown, cut when very long.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(MAX_LINE));
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        for character in word.chars() {
            if character.is_control() {
                line.extend(character.escape_default());
            } else {
                line.push(character);
            }
        }
        if line.len() > MAX_LINE {
            line.truncate(line.floor_char_boundary(MAX_LINE));
            line.push('…');
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_becomes_one_line() {
        assert_eq!(one_line("a\n  b\r\n\tc\u{1b}[31m"), "a b c\\u{1b}[31m");
        let long = one_line(&"x".repeat(5000));
        assert!(long.len() < MAX_LINE + 10 && long.ends_with('…'));
    }
}
