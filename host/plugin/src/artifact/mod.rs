//! Compiled plugins as files: written once, verified before each use, then mapped into memory.
//!
//! `format` is the file format and its verification, `directory` keeps files between runs of the host (`kept_code`: code of versions that do
//! not run), `anonymous` creates files without a name, and `map` maps a verified file as code. A file that is damaged, or of another version or another plugin, is never mapped; the
//! plugin is compiled again.

mod anonymous;
mod directory;
mod format;
mod kept_code;
mod map;

use std::fmt;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{self, Seek};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use wasmtime::component::Component;

pub(crate) use anonymous::create as anonymous;
pub use directory::check_cache_directory;
pub(crate) use directory::{ArtifactDirectory, Entry};
pub(crate) use format::{ArtifactError, write};
pub use kept_code::{KeepError, KeptCode};

use crate::contract;
use crate::load::{ADAPTER, ModuleInfo};

/// To be raised when a change affects how a file is encoded as a component, or what is stored beside the code.
const VERSION: u32 = 2;

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sha256Sum([u8; 32]);

impl Sha256Sum {
    pub(crate) fn new(sum: [u8; 32]) -> Self {
        Self(sum)
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Sha256Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What an artifact was compiled from, and for which engine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArtifactKey {
    /// The [fingerprint](engine_fingerprint) of the engine.
    pub(crate) engine: Sha256Sum,
    /// The plugin's file.
    pub(crate) plugin: Sha256Sum,
}

/// Returns a hash of everything that decides whether this engine may run code that another one compiled: wasmtime's version and
/// configuration, the machine's features, this loader, and the version of the contract that it checked.
pub(crate) fn engine_fingerprint(engine: &wasmtime::Engine) -> Sha256Sum {
    struct Sha256Hasher(Sha256);
    impl Hasher for Sha256Hasher {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            unreachable!("the whole digest is taken instead")
        }
    }
    let mut hasher = Sha256Hasher(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    (VERSION, env!("CARGO_PKG_VERSION"), contract::VERSION, ADAPTER).hash(&mut hasher);
    Sha256Sum(hasher.0.finalize().into())
}

/// A file that was verified and mapped.
pub(crate) struct MappedArtifact {
    pub(crate) component: Component,
    pub(crate) info: ModuleInfo,
    pub(crate) file: VerifiedFile,
}

/// Verifies the whole file and maps it as code. The mapped pages belong to the page cache: processes share them, and the kernel drops them
/// when memory is short.
pub(crate) fn verify_and_map(
    engine: &wasmtime::Engine,
    entry: Entry,
    key: &ArtifactKey,
) -> Result<MappedArtifact, ArtifactError> {
    let info = format::verify(&entry.file, key)?;
    let component =
        map::map(engine, &entry.file).map_err(|error| ArtifactError::Engine(format!("{error:#}")))?;
    Ok(MappedArtifact { component, info, file: VerifiedFile(entry) })
}

/// An open file that was verified. Code may be mapped from it again without verification, because nobody can have written to it since.
pub(crate) struct VerifiedFile(Entry);

impl VerifiedFile {
    pub(crate) fn map(&self, engine: &wasmtime::Engine) -> wasmtime::Result<Component> {
        map::map(engine, &self.0.file)
    }
}

/// Stores a compiled plugin in the directory. Without a directory that can be written to, the file stays anonymous.
pub(crate) fn store(
    directory: Option<&ArtifactDirectory>,
    file: File,
    key: &ArtifactKey,
) -> Result<Entry, io::Error> {
    let Some(directory) = directory else { return Ok(Entry::anonymous(file)) };
    let mut from = &file;
    from.rewind()?;
    match directory.store(&file, key) {
        Ok(entry) => Ok(entry),
        Err(problem) => {
            directory.warn_once(&problem);
            Ok(Entry::anonymous(file))
        }
    }
}

/// Keeps the directory from removing an entry, whose name this is, for as long as this lives.
pub(crate) type InUseGuard = Arc<str>;
