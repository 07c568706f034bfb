//! Compiled plugins as files: made once, checked whole before each use, mapped and not read.
//!
//! `format` says what a file has and checks it, `directory` keeps files between runs of the host, `anonymous` is a file that nobody else
//! sees, and `map` is where a checked file becomes code. A file that is damaged, cut, of another version or another plugin's is never
//! mapped: it costs a compile.

mod anonymous;
mod directory;
mod format;
mod map;

use std::fmt;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{self, Seek};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use wasmtime::component::Component;

pub(crate) use anonymous::create as anonymous;
pub(crate) use directory::{Directory, Entry};
pub(crate) use format::{Unfit, write};

use crate::load::{ADAPTER, Stated};

/// To be raised when something changes in how a file becomes a component, or in what is kept beside the code.
const VERSION: u32 = 1;

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sum([u8; 32]);

impl Sum {
    pub(crate) fn new(sum: [u8; 32]) -> Self {
        Self(sum)
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What compiled code belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    /// The engine: its version, its configuration, the machine's features, and the loader before it.
    pub(crate) engine: Sum,
    /// The plugin's file.
    pub(crate) plugin: Sum,
}

/// All that decides whether this engine may run code that another has compiled.
pub(crate) fn engine_sum(engine: &wasmtime::Engine) -> Sum {
    struct Summing(Sha256);
    impl Hasher for Summing {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            unreachable!("the sum is taken whole")
        }
    }
    let mut summing = Summing(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut summing);
    (VERSION, env!("CARGO_PKG_VERSION"), ADAPTER).hash(&mut summing);
    Sum(summing.0.finalize().into())
}

/// A file that was checked and became code.
pub(crate) struct Mapped {
    pub(crate) component: Component,
    pub(crate) stated: Stated,
    pub(crate) checked: Checked,
}

/// Checks the file from its first byte to its last, and makes it code that stays in the file: its pages are the page cache's, shared and
/// dropped when memory is short.
pub(crate) fn open(engine: &wasmtime::Engine, entry: Entry, key: &Key) -> Result<Mapped, Unfit> {
    let stated = format::check(&entry.file, key)?;
    let component = map::map(engine, &entry.file).map_err(|error| Unfit::Engine(format!("{error:#}")))?;
    Ok(Mapped { component, stated, checked: Checked(entry) })
}

/// An open file that was found whole, and from which code may be mapped again: nobody can have written to it since.
pub(crate) struct Checked(Entry);

impl Checked {
    pub(crate) fn map(&self, engine: &wasmtime::Engine) -> wasmtime::Result<Component> {
        map::map(engine, &self.0.file)
    }
}

/// What is kept of a compiled plugin: an entry of the directory, where there is one that can be written to, or else the file that has no
/// name.
pub(crate) fn keep(directory: Option<&Directory>, file: File, key: &Key) -> Result<Entry, io::Error> {
    let Some(directory) = directory else { return Ok(Entry::unnamed(file)) };
    let mut from = &file;
    from.rewind()?;
    match directory.store(&file, key) {
        Ok(entry) => Ok(entry),
        Err(problem) => {
            directory.complain(&problem);
            Ok(Entry::unnamed(file))
        }
    }
}

/// Tells the directory that an entry's code is in use, for as long as this lives.
pub(crate) type InUse = Arc<str>;
