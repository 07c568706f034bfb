//! Where compiled code comes from: the cache directory, a compiler process, or this process.
//!
//! ```text
//! bytes ─▶ cache directory ──found, whole──────────────────────────────▶ mapped ─▶ linked
//!               └─▶ compiler process (or this one) ─▶ file ─▶ kept ──────┘
//! ```

mod process;

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::sync::Semaphore;

pub use process::{COMPILER_MEMORY, CompilerProcess};

use crate::artifact::{self, Checked, Directory, Key, Mapped, Sum};
use crate::code::Linked;
use crate::engine::{self, EngineError, EngineOptions};
use crate::load::{self, Stated, one_line};
use crate::{Code, Engine, LoadError};

/// Where compiled plugins are kept between runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheDirectory {
    /// The directory; it is made unless it is there.
    pub path: PathBuf,
    /// Bytes of all files together; the least recently used make room.
    pub max_bytes: u64,
}

/// What came of the loads so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompileStats {
    /// Found compiled.
    pub cached: u64,
    /// Compiled.
    pub compiled: u64,
    /// Files of the cache directory that were there and could not be used.
    pub unfit: u64,
}

/// Why no file of compiled code was written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The plugin's fault.
    #[error(transparent)]
    Plugin(#[from] LoadError),
    /// There is no compiler.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Nobody takes the result.
    #[error("the compiled code can't be written: {0}")]
    Output(#[from] std::io::Error),
}

/// How many plugins for each core are between their file and their code at the same time: each holds its file's bytes, in memory that an
/// allocator keeps afterwards for each thread.
const AT_ONCE: usize = 2;

/// Plugins from this size on are compiled one at a time.
const LARGE: usize = 4 << 20;

/// What an engine knows about compiling.
pub(crate) struct Workshop {
    engine_sum: Sum,
    directory: Option<Directory>,
    process: Option<CompilerProcess>,
    /// Compilers that may run.
    compilers: Arc<Semaphore>,
    /// Compilers of large plugins that may run: the memory that one takes grows with the plugin.
    large: Semaphore,
    turns: Arc<Semaphore>,
    cached: AtomicU64,
    compiled: AtomicU64,
    unfit: AtomicU64,
}

/// A place among those whose files are being loaded. See [`Engine::turn`].
#[must_use = "dropping it gives the place to the next"]
#[derive(Debug)]
pub struct Turn {
    _place: Option<tokio::sync::OwnedSemaphorePermit>,
}

/// A place among those whose files are being compiled. See [`Engine::place`].
#[must_use = "dropping it gives the place to the next"]
#[derive(Debug)]
pub struct Place {
    _place: Option<tokio::sync::OwnedSemaphorePermit>,
}

impl Workshop {
    /// Whether the cache's directory is used.
    pub(crate) fn keeps_files(&self) -> bool {
        self.directory.is_some()
    }

    pub(crate) fn new(
        wasm: &wasmtime::Engine,
        cache: Option<&CacheDirectory>,
        process: Option<CompilerProcess>,
    ) -> Self {
        let directory =
            cache.and_then(|cache| match Directory::open(&cache.path, cache.max_bytes) {
                Ok(directory) => Some(directory),
                Err(problem) => {
                    tracing::warn!(
                        "compiled plugins can't be kept in {}: {problem}; each is compiled anew at every start (give another \
                         --cache-dir)",
                        cache.path.display()
                    );
                    None
                }
            });
        // One core is left to those who wait for the plugins that run.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            engine_sum: artifact::engine_sum(wasm),
            directory,
            process,
            compilers: Arc::new(Semaphore::new(cores.saturating_sub(1).max(1))),
            large: Semaphore::new(1),
            turns: Arc::new(Semaphore::new(AT_ONCE * cores.max(2))),
            cached: AtomicU64::new(0),
            compiled: AtomicU64::new(0),
            unfit: AtomicU64::new(0),
        }
    }

    fn is_kept(&self) -> bool {
        self.directory.is_some() || self.process.is_some()
    }

    fn key(&self, digest: [u8; 32]) -> Key {
        Key { engine: self.engine_sum, plugin: Sum::new(digest) }
    }

    /// The plugin as an earlier load left it.
    fn find(&self, wasm: &wasmtime::Engine, key: &Key) -> Option<Mapped> {
        let directory = self.directory.as_ref()?;
        let found = directory
            .find(key)
            .and_then(|entry| entry.map(|entry| artifact::open(wasm, entry, key)).transpose());
        match found {
            Ok(found) => found,
            Err(unfit) => {
                self.unfit.fetch_add(1, Ordering::Relaxed);
                tracing::info!(
                    "a compiled plugin is compiled anew, its file in the cache is not used: {unfit}"
                );
                directory.remove(key);
                None
            }
        }
    }
}

impl Engine {
    /// Waits until it is this load's turn. To be asked for before the file is read and kept until it has been loaded, so that of a
    /// thousand plugins some are in memory at a time and not all.
    ///
    /// Cancel safe: dropping the future gives the place to the next.
    pub async fn turn(&self) -> Turn {
        // An error would mean that the semaphore was closed, which nobody does.
        Turn { _place: Arc::clone(&self.shared.workshop.turns).acquire_owned().await.ok() }
    }

    /// What came of the loads so far.
    #[must_use]
    pub fn compile_stats(&self) -> CompileStats {
        let workshop = &self.shared.workshop;
        CompileStats {
            cached: workshop.cached.load(Ordering::Relaxed),
            compiled: workshop.compiled.load(Ordering::Relaxed),
            unfit: workshop.unfit.load(Ordering::Relaxed),
        }
    }

    /// Waits until a compiler may run for this plugin: there are fewer of them than cores.
    ///
    /// Cancel safe: dropping the future gives the place to the next.
    pub async fn place(&self) -> Place {
        // An error would mean that the semaphore was closed, which nobody does.
        Place { _place: Arc::clone(&self.shared.workshop.compilers).acquire_owned().await.ok() }
    }

    /// The same, if nobody has to wait for it: for what may turn out not to be wanted.
    #[must_use]
    pub fn free_place(&self) -> Option<Place> {
        let place = Arc::clone(&self.shared.workshop.compilers).try_acquire_owned();
        place.ok().map(|place| Place { _place: Some(place) })
    }

    /// The plugin whose file has this SHA-256 and size, if the cache directory has its code. So what is loaded once more need not be read
    /// into memory: of the bytes that an allocator has once got, it keeps a part.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn load_kept(&self, digest: [u8; 32], size: usize) -> Result<Option<Code>, LoadError> {
        self.check_size(size)?;
        let workshop = &self.shared.workshop;
        if workshop.directory.is_none() {
            return Ok(None);
        }
        let key = workshop.key(digest);
        let engine = self.clone();
        blocking(move || engine.find(&key, size)).await
    }

    fn check_size(&self, size: usize) -> Result<(), LoadError> {
        let limit = self.shared.options.max_code_size;
        if size > limit { Err(LoadError::TooLarge { size, limit }) } else { Ok(()) }
    }

    /// As an earlier load left it, linked. Blocks.
    fn find(&self, key: &Key, size: usize) -> Result<Option<Code>, LoadError> {
        let workshop = &self.shared.workshop;
        let Some(mapped) = workshop.find(&self.shared.wasm, key) else { return Ok(None) };
        let code = link(self, mapped, key, size)?;
        workshop.cached.fetch_add(1, Ordering::Relaxed);
        Ok(Some(code))
    }

    /// Loads a plugin from the bytes of its file, a component or a core module: takes what an earlier load left, or else
    /// [compiles](Self::compile) it.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn load(&self, bytes: Vec<u8>) -> Result<Code, LoadError> {
        self.check_size(bytes.len())?;
        let (bytes, digest) = blocking(move || {
            let digest = Sha256::digest(&bytes).into();
            Ok((bytes, digest))
        })
        .await?;
        match self.load_kept(digest, bytes.len()).await? {
            Some(code) => Ok(code),
            None => self.compile(bytes, digest, self.place().await).await,
        }
    }

    /// Checks, compiles and links a plugin from the bytes of its file and their SHA-256.
    ///
    /// Takes from milliseconds to seconds of CPU time, on threads for blocking work or in a process of its own. Runs no code of the
    /// plugin. Dropping the future ends a compiler process, and leaves other work to end by itself, unused.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn compile(&self, bytes: Vec<u8>, digest: [u8; 32], place: Place) -> Result<Code, LoadError> {
        self.check_size(bytes.len())?;
        let workshop = &self.shared.workshop;
        workshop.compiled.fetch_add(1, Ordering::Relaxed);
        let _alone = match bytes.len() >= LARGE {
            // An error would mean that the semaphore was closed, which nobody does.
            true => workshop.large.acquire().await.ok(),
            false => None,
        };
        let (engine, key, size) = (self.clone(), workshop.key(digest), bytes.len());
        let code = match &workshop.process {
            Some(process) => {
                // A large future, which few loads need.
                let file = Box::pin(process.compile(bytes)).await?;
                blocking(move || take(&engine, file, &key, size)).await
            }
            None => blocking(move || here(&engine, &bytes, &key)).await,
        };
        drop(place);
        code
    }
}

/// Checks and compiles a plugin and writes what an engine of the same options maps as code: the work of a compiler process. Blocks.
///
/// Of an engine it sets up no more than compiling needs: that a plugin could be linked takes as long as a small one compiles.
pub fn write_compiled(options: &EngineOptions, bytes: &[u8], out: &mut dyn Write) -> Result<(), WriteError> {
    let wasm = engine::wasm(options)?;
    let key = Key { engine: artifact::engine_sum(&wasm), plugin: Sum::of(bytes) };
    write(&wasm, options, bytes, &key, out)
}

fn write(
    wasm: &wasmtime::Engine,
    options: &EngineOptions,
    bytes: &[u8],
    key: &Key,
    out: &mut dyn Write,
) -> Result<(), WriteError> {
    let prepared = load::prepare(options.max_code_size, bytes)?;
    let image = wasm.precompile_component(&prepared.component);
    let image = image.map_err(|error| LoadError::compile(&error))?;
    Ok(artifact::write(out, &image, key, &prepared.stated)?)
}

/// Compiles in this process.
fn here(engine: &Engine, bytes: &[u8], key: &Key) -> Result<Code, LoadError> {
    let shared = &engine.shared;
    if !shared.workshop.is_kept() {
        let prepared = load::prepare(shared.options.max_code_size, bytes)?;
        let component = wasmtime::component::Component::new(&shared.wasm, &prepared.component)
            .map_err(|error| LoadError::compile(&error))?;
        let linked = load::link(engine, &component, &prepared.stated)?;
        return Ok(load::code(engine, linked, &prepared.stated, key, bytes.len(), None));
    }
    let mut file = artifact::anonymous().map_err(|error| LoadError::no_file(&error))?;
    match write(&shared.wasm, &shared.options, bytes, key, &mut file) {
        Ok(()) => take(engine, file, key, bytes.len()),
        Err(WriteError::Plugin(error)) => Err(error),
        Err(WriteError::Output(error)) => Err(LoadError::no_file(&error)),
        Err(WriteError::Engine(error)) => Err(LoadError::Internal(error.to_string())),
    }
}

/// Makes what a compiler left in the file this engine's code.
fn take(engine: &Engine, file: File, key: &Key, size: usize) -> Result<Code, LoadError> {
    let workshop = &engine.shared.workshop;
    let entry =
        artifact::keep(workshop.directory.as_ref(), file, key).map_err(|error| LoadError::no_file(&error))?;
    let mapped = artifact::open(&engine.shared.wasm, entry, key)
        .map_err(|unfit| LoadError::Internal(one_line(&format!("the compiled code is not used: {unfit}"))))?;
    link(engine, mapped, key, size)
}

fn link(engine: &Engine, mapped: Mapped, key: &Key, size: usize) -> Result<Code, LoadError> {
    let linked = load::link(engine, &mapped.component, &mapped.stated)?;
    let source = Source { checked: mapped.checked, stated: mapped.stated };
    let stated = source.stated.clone();
    Ok(load::code(engine, linked, &stated, key, size, Some(source)))
}

/// Where code comes from when it wakes.
pub(crate) struct Source {
    checked: Checked,
    stated: Stated,
}

impl Source {
    /// Maps and links it again. Blocks.
    pub(crate) fn link(&self, engine: &Engine) -> Result<Arc<Linked>, LoadError> {
        let component = self.checked.map(&engine.shared.wasm).map_err(|error| LoadError::compile(&error))?;
        load::link(engine, &component, &self.stated).map(Arc::new)
    }
}

pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        // A panic of a parser or compiler on hostile input must not take the host along.
        Err(error) => Err(LoadError::Internal(one_line(&error.to_string()))),
    }
}
