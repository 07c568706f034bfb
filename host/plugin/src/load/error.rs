//! Errors of files that cannot be loaded as plugins.

use thiserror::Error;

use crate::Compiler;
use crate::contract::VERSION;

/// Why a file cannot be loaded. The display text is one line: what was found, what was expected, and what to do.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LoadError {
    /// The file is empty.
    #[error(
        "the file is empty: expected a WebAssembly component or core module; was it still being written?"
    )]
    Empty,
    /// The file is larger than [`EngineOptions::max_code_size`](crate::EngineOptions::max_code_size).
    #[error(
        "the file has {size} bytes, but the limit is {limit}: build it with optimisation and without debug information"
    )]
    TooLarge {
        /// Size of the file, in bytes.
        size: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The file has too many functions.
    #[error(
        "the file has more than {limit} functions, which is the limit: build it with optimisation, or split it into several plugins"
    )]
    TooManyFunctions {
        /// The limit.
        limit: u32,
    },
    /// The file is not WebAssembly.
    #[error("found {found}, expected a WebAssembly component or core module: {remedy}")]
    NotWasm {
        /// What the file is.
        found: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The WebAssembly is incomplete.
    #[error(
        "the WebAssembly ends early, after {size} bytes ({message}): copy it again, best under another name, then rename it"
    )]
    Truncated {
        /// Size of the file, in bytes.
        size: usize,
        /// What the parser expected.
        message: String,
    },
    /// The WebAssembly is invalid, or needs features that this host does not have.
    #[error("invalid WebAssembly: {message}: rebuild it, without experimental features of WebAssembly")]
    Invalid {
        /// What the validator says.
        message: String,
    },
    /// The WebAssembly uses a feature that the engine does not have.
    #[error("uses {found}, which this host doesn't have: {remedy}")]
    UnsupportedFeature {
        /// What the file uses.
        found: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// The file does not export `plugin`.
    #[error("exports {found}, expected {wanted} (world reconciler, observer or controller): {remedy}")]
    NotAPlugin {
        /// What it exports.
        found: String,
        /// The export that every plugin has.
        wanted: String,
        /// What to do.
        remedy: String,
    },
    /// The file exports `plugin`, but nothing that the host could call afterwards.
    #[error("exports plugin, but none of reconcile, observe, index: {remedy}")]
    NoCallableExport {
        /// What to do.
        remedy: String,
    },
    /// The core module exports another function of an interface than the contract has.
    #[error("exports {found}, which the contract doesn't have, expected {wanted}: {remedy}")]
    MisspeltExport {
        /// What it exports.
        found: String,
        /// The export that it lacks.
        wanted: String,
        /// What to do.
        remedy: String,
    },
    /// The plugin was built against an incompatible version of the contract.
    #[error(
        "built against pilothouse:controller@{wanted}, this host has {offered}: update the host, or rebuild the plugin with an SDK for {offered}"
    )]
    WrongVersion {
        /// The version of the plugin.
        wanted: String,
        /// The version of the host.
        offered: &'static str,
    },
    /// The plugin imports something that the host does not offer.
    #[error("imports {imports}, which this host doesn't offer (it has {offered}): {remedy}")]
    UnsupportedImports {
        /// The imports that the host does not offer.
        imports: String,
        /// What the host offers.
        offered: String,
        /// What to do.
        remedy: String,
    },
    /// An identifier that should stand for a function of the contract is unknown, or the function is there twice.
    #[error("{message}: compare the names with those that `pilothouse abi` prints")]
    Alias {
        /// What is wrong with the name.
        message: String,
    },
    /// The core module cannot be encoded as a component.
    #[error(
        "the core module can't be made into a component: {message}: compare its imports and exports with pilothouse:controller@{VERSION}"
    )]
    Encode {
        /// What the encoder says.
        message: String,
    },
    /// An import has the right name and the wrong type, or is missing.
    #[error("doesn't fit this host: {message}: rebuild the plugin for pilothouse:controller@{VERSION}")]
    Link {
        /// What the linker says.
        message: String,
    },
    /// An export has the right name and the wrong type.
    #[error(
        "the export {function} doesn't fit the contract: {message}: rebuild the plugin for pilothouse:controller@{VERSION}"
    )]
    WrongType {
        /// The export.
        function: String,
        /// What is wrong with its type.
        message: String,
    },
    /// The compiler failed, or took too long.
    #[error("the WebAssembly can't be compiled: {message}")]
    Compile {
        /// What the compiler says.
        message: String,
    },
    /// The baseline compiler failed. The optimising one may succeed.
    #[error(
        "the quick compiler can't compile the WebAssembly: {message}: it lacks tail calls and some SIMD instructions; build the plugin without them, or use the compiler that `run` uses: --compiler optimizing"
    )]
    QuickCompile {
        /// What the compiler says.
        message: String,
    },
    /// A compiler process refused the file, with the text of one of the other errors.
    #[error("{0}")]
    Refused(String),
    /// The compiler process failed without a result.
    #[error(
        "the compiler process {status} (signals 6 and 9 usually mean that it ran out of memory); its standard error was: {stderr}: build the plugin smaller, or give the machine more memory"
    )]
    CompilerFailed {
        /// How the process ended, such as "was ended by signal 6".
        status: String,
        /// The end of its standard error.
        stderr: String,
    },
    /// The compiler process needed more memory than it may take.
    #[error(
        "compiling it took more than {mebibytes} MiB, the part of this machine's or container's free memory that a compiler may take: build the plugin smaller, or give the host more memory"
    )]
    CompilerMemory {
        /// The limit, in MiB.
        mebibytes: u64,
    },
    /// The host failed; the plugin may be in order.
    #[error("the loader failed, which is a bug of the host; please report it together with the file: {0}")]
    Internal(String),
}

impl LoadError {
    /// The failure of this compiler.
    pub(crate) fn compile(compiler: Compiler, error: &wasmtime::Error) -> Self {
        let message = one_line(&format!("{error:#}"));
        match compiler {
            #[cfg(feature = "winch")]
            Compiler::Winch => Self::QuickCompile { message },
            Compiler::Cranelift | Compiler::UnoptimizedCranelift => Self::Compile { message },
        }
    }

    /// Compiled code cannot be mapped.
    pub(crate) fn map(error: &wasmtime::Error) -> Self {
        Self::Compile { message: one_line(&format!("{error:#}")) }
    }

    /// The file for compiled code cannot be created or written.
    pub(crate) fn artifact_file(error: &std::io::Error) -> Self {
        Self::Internal(format!("cannot write the file for compiled code: {error}"))
    }

    pub(super) fn link(error: &wasmtime::Error) -> Self {
        Self::Link { message: one_line(&format!("{error:#}")) }
    }
}

/// Maximum length of foreign text in a message, in bytes.
const MAX_LINE: usize = 1000;

/// Converts foreign text to a part of one line: collapses whitespace, escapes control characters, and cuts very long text.
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

/// Maximum length of a name in a message, in bytes. The longest name of the contract has about 60.
const MAX_NAME: usize = 120;

/// Converts a name from a file to a part of one line, and cuts a very long one.
pub(super) fn name_text(name: &str) -> String {
    let mut text = one_line(&name[..name.floor_char_boundary(MAX_LINE)]);
    if text.len() > MAX_NAME {
        text.truncate(text.floor_char_boundary(MAX_NAME));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut() {
        assert_eq!(
            name_text("pilothouse:controller/plugin@0.1.1#describe"),
            "pilothouse:controller/plugin@0.1.1#describe"
        );
        assert!(name_text(&"ü".repeat(100_000)).len() < MAX_NAME + 10);
    }

    #[test]
    fn foreign_text_becomes_one_line() {
        assert_eq!(one_line("a\n  b\r\n\tc\u{1b}[31m"), "a b c\\u{1b}[31m");
        let long = one_line(&"x".repeat(5000));
        assert!(long.len() < MAX_LINE + 10 && long.ends_with('…'));
    }
}
