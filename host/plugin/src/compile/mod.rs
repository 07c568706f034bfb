//! Loading of compiled code: from the cache directory, or by compiling in a compiler process or in this one.
//!
//! ```text
//! bytes ─▶ cache directory ──found and verified──────────────────────────▶ mapped ─▶ linked
//!               └─▶ compiler process (or this one) ─▶ file ─▶ stored ─────┘
//! ```

mod process;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub use process::{CHECK_ARGUMENT, COMPILER_MEMORY_PREFIX, CompilerProcess};

use crate::artifact::{
    self, ArtifactDirectory, ArtifactKey, KeepError, KeptCode, MappedArtifact, Sha256Sum, VerifiedFile,
};
use crate::compiled_plugin::LinkedCode;
use crate::engine::{self, EngineError, EngineOptions};
use crate::load::{self, ModuleInfo, one_line};
use crate::{CompiledPlugin, Engine, LoadError};

/// The directory in which compiled plugins are kept between runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheDirectory {
    /// The path. The directory is created if it does not exist.
    pub path: PathBuf,
    /// Maximum size of all files together, in bytes. The least recently used files are removed first.
    pub max_bytes: u64,
}

/// Counts of the loads so far, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompileStats {
    /// Plugins whose compiled code was in the cache.
    pub cached: u64,
    /// Plugins that were compiled.
    pub compiled: u64,
    /// Files in the cache that could not be used. Their plugins were compiled and are counted there, too.
    pub rejected: u64,
}

/// Why [`write_compiled`] failed.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The file cannot be compiled to a plugin.
    #[error(transparent)]
    Plugin(#[from] LoadError),
    /// The compiler could not be set up.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The output could not be written.
    #[error("cannot write the compiled code: {0}")]
    Output(#[from] std::io::Error),
}

/// Number of plugins per core that are loaded at the same time. Each load holds the bytes of its file, in memory that the allocator keeps
/// for each thread afterwards.
const LOADS_PER_CORE: usize = 2;

/// Size in bytes from which on plugins are compiled one at a time.
const LARGE_PLUGIN: usize = 4 << 20;

/// Where an engine gets compiled code from, and how much it loads and compiles at a time.
pub(crate) struct CompilePipeline {
    engine_fingerprint: Sha256Sum,
    directory: Option<ArtifactDirectory>,
    process: Option<CompilerProcess>,
    /// One permit per compiler that may run.
    compile_permits: Arc<Semaphore>,
    /// One permit for compiling a large plugin: the memory that a compiler takes grows with the plugin.
    large_permit: Semaphore,
    /// One permit per check that may run.
    check_permits: Semaphore,
    load_permits: Arc<Semaphore>,
    cached: AtomicU64,
    compiled: AtomicU64,
    rejected: AtomicU64,
}

/// Permission to load a plugin. See [`Engine::acquire_load_permit`].
#[must_use = "dropping it releases the permit"]
#[derive(Debug)]
pub struct LoadPermit {
    _permit: Option<tokio::sync::OwnedSemaphorePermit>,
}

/// Permission to compile a plugin. See [`Engine::acquire_compile_permit`].
#[must_use = "dropping it releases the permit"]
#[derive(Debug)]
pub struct CompilePermit {
    _permit: Option<tokio::sync::OwnedSemaphorePermit>,
}

impl CompilePipeline {
    /// Returns whether a cache directory is in use.
    pub(crate) fn has_cache(&self) -> bool {
        self.directory.is_some()
    }

    pub(crate) fn new(
        wasm: &wasmtime::Engine,
        cache: Option<&CacheDirectory>,
        process: Option<CompilerProcess>,
    ) -> Self {
        let directory =
            cache.and_then(|cache| match ArtifactDirectory::open(&cache.path, cache.max_bytes) {
                Ok(directory) => Some(directory),
                Err(problem) => {
                    tracing::warn!(
                        "cannot keep compiled plugins in {}: {problem}; they are compiled again at each start (choose another \
                         --cache-dir)",
                        cache.path.display()
                    );
                    None
                }
            });
        // One core is left for the plugins that run already.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let compilers = cores.saturating_sub(1).max(1);
        Self {
            engine_fingerprint: artifact::engine_fingerprint(wasm),
            directory,
            process,
            compile_permits: Arc::new(Semaphore::new(compilers)),
            large_permit: Semaphore::new(1),
            check_permits: Semaphore::new(compilers),
            load_permits: Arc::new(Semaphore::new(LOADS_PER_CORE * cores.max(2))),
            cached: AtomicU64::new(0),
            compiled: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
        }
    }

    /// Returns whether compiled code goes through a file, and not only through memory.
    fn uses_files(&self) -> bool {
        self.directory.is_some() || self.process.is_some()
    }

    fn key(&self, digest: [u8; 32]) -> ArtifactKey {
        ArtifactKey { engine: self.engine_fingerprint, plugin: Sha256Sum::new(digest) }
    }

    /// Finds the code of an earlier load in the cache directory. Removes a file that cannot be used.
    fn find(&self, wasm: &wasmtime::Engine, key: &ArtifactKey) -> Option<MappedArtifact> {
        let directory = self.directory.as_ref()?;
        let found = directory
            .find(key)
            .and_then(|entry| entry.map(|entry| artifact::verify_and_map(wasm, entry, key)).transpose());
        match found {
            Ok(found) => found,
            Err(error) => {
                self.rejected.fetch_add(1, Ordering::Relaxed);
                tracing::info!(
                    "a plugin is compiled again, because its file in the cache is not used: {error}"
                );
                directory.remove(key);
                None
            }
        }
    }
}

impl Engine {
    /// Waits for the permission to load a plugin. Callers acquire it before they read the file, and hold it until the plugin is loaded or waits
    /// for a compiler without its bytes, so that a thousand plugins are not all in memory at a time.
    ///
    /// Cancel safe: dropping the future gives up the place in the queue.
    pub async fn acquire_load_permit(&self) -> LoadPermit {
        // An error would mean that the semaphore was closed, which nobody does.
        LoadPermit { _permit: Arc::clone(&self.shared.pipeline.load_permits).acquire_owned().await.ok() }
    }

    /// Returns the counts of the loads so far.
    #[must_use]
    pub fn compile_stats(&self) -> CompileStats {
        let pipeline = &self.shared.pipeline;
        CompileStats {
            cached: pipeline.cached.load(Ordering::Relaxed),
            compiled: pipeline.compiled.load(Ordering::Relaxed),
            rejected: pipeline.rejected.load(Ordering::Relaxed),
        }
    }

    /// Waits for the permission to run a compiler. There are fewer permits than cores.
    ///
    /// Cancel safe: dropping the future gives up the place in the queue.
    pub async fn acquire_compile_permit(&self) -> CompilePermit {
        // An error would mean that the semaphore was closed, which nobody does.
        CompilePermit {
            _permit: Arc::clone(&self.shared.pipeline.compile_permits).acquire_owned().await.ok(),
        }
    }

    /// Returns a permission to run a compiler if one is free now. For speculative compiles, which must not delay others.
    #[must_use]
    pub fn try_acquire_compile_permit(&self) -> Option<CompilePermit> {
        let permit = Arc::clone(&self.shared.pipeline.compile_permits).try_acquire_owned();
        permit.ok().map(|permit| CompilePermit { _permit: Some(permit) })
    }

    /// Loads the plugin whose file has this SHA-256 and size from the cache directory. Returns `None` if its code is not there.
    ///
    /// With this, a plugin that was compiled before is loaded without reading its file into memory, of which the allocator would keep a
    /// part.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn load_cached(
        &self,
        digest: [u8; 32],
        size: usize,
    ) -> Result<Option<CompiledPlugin>, LoadError> {
        self.check_size(size)?;
        let pipeline = &self.shared.pipeline;
        if pipeline.directory.is_none() {
            return Ok(None);
        }
        let key = pipeline.key(digest);
        let engine = self.clone();
        blocking(move || engine.find(&key, size)).await
    }

    /// Returns the directory in which compiled plugins are cached; `None` if there is none, or if it cannot be used.
    #[must_use]
    pub fn cache_directory(&self) -> Option<&Path> {
        self.shared.pipeline.directory.as_ref().map(ArtifactDirectory::path)
    }

    /// Keeps the compiled code of the plugin whose file has this SHA-256 in the cache directory, so that
    /// [`load_cached`](Self::load_cached) finds it for as long as the result lives.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn keep_code(&self, digest: [u8; 32]) -> Result<KeptCode, KeepError> {
        let engine = self.clone();
        let kept = crate::blocking::run(move || {
            let pipeline = &engine.shared.pipeline;
            let directory = pipeline.directory.as_ref().ok_or(KeepError::NoDirectory)?;
            directory.keep(&pipeline.key(digest))
        });
        kept.await.unwrap_or_else(|error| Err(KeepError::Unusable(error.to_string())))
    }

    fn check_size(&self, size: usize) -> Result<(), LoadError> {
        let limit = self.shared.options.max_code_size;
        if size > limit { Err(LoadError::TooLarge { size, limit }) } else { Ok(()) }
    }

    /// Finds the plugin in the cache directory, and links it. Blocks.
    fn find(&self, key: &ArtifactKey, size: usize) -> Result<Option<CompiledPlugin>, LoadError> {
        let pipeline = &self.shared.pipeline;
        let Some(mapped) = pipeline.find(&self.shared.wasmtime, key) else { return Ok(None) };
        let code = link(self, mapped, key, size)?;
        pipeline.cached.fetch_add(1, Ordering::Relaxed);
        Ok(Some(code))
    }

    /// Loads a plugin from the bytes of its file, a component or a core module. [Compiles](Self::compile) it unless its code is in the
    /// cache directory.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn load(&self, bytes: Vec<u8>) -> Result<CompiledPlugin, LoadError> {
        self.check_size(bytes.len())?;
        let (bytes, digest) = blocking(move || {
            let digest = Sha256::digest(&bytes).into();
            Ok((bytes, digest))
        })
        .await?;
        match self.load_cached(digest, bytes.len()).await? {
            Some(code) => Ok(code),
            None => self.compile(bytes, digest, self.acquire_compile_permit().await).await,
        }
    }

    /// Checks the bytes of a plugin's file without compiling them, and returns them. Finds what [`compile`](Self::compile) would find before it
    /// compiles, so that a file that is no plugin need not wait for a compiler.
    ///
    /// Works as `compile` does: in a process of its own, if there is one, with its limits of memory and time, or on a thread for blocking work.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn check(&self, bytes: Vec<u8>) -> Result<Vec<u8>, LoadError> {
        self.check_size(bytes.len())?;
        let pipeline = &self.shared.pipeline;
        // An error would mean that the semaphore was closed, which nobody does.
        let _permit = pipeline.check_permits.acquire().await.ok();
        if let Some(process) = &pipeline.process {
            Box::pin(process.check(&bytes)).await?;
            return Ok(bytes);
        }
        let engine = self.clone();
        blocking(move || check_plugin(&engine.shared.options, &bytes).map(|()| bytes)).await
    }

    /// Checks, compiles and links a plugin from the bytes of its file and their SHA-256.
    ///
    /// Takes from milliseconds to seconds of CPU time, on threads for blocking work or in a process of its own. Runs no code of the
    /// plugin.
    ///
    /// # Cancellation safety
    /// Dropping the future ends a compiler process. Work on threads runs to its end, and its result is dropped.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn compile(
        &self,
        mut bytes: Vec<u8>,
        digest: [u8; 32],
        permit: CompilePermit,
    ) -> Result<CompiledPlugin, LoadError> {
        self.check_size(bytes.len())?;
        let pipeline = &self.shared.pipeline;
        pipeline.compiled.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        let mut large_permit = None;
        if bytes.len() >= LARGE_PLUGIN {
            large_permit = pipeline.large_permit.try_acquire().ok();
            if large_permit.is_none() {
                bytes = Box::pin(self.check(bytes)).await?;
                // An error would mean that the semaphore was closed, which nobody does.
                large_permit = pipeline.large_permit.acquire().await.ok();
            }
        }
        let (engine, key, size) = (self.clone(), pipeline.key(digest), bytes.len());
        let code = match &pipeline.process {
            Some(process) => {
                // Boxed, because the future is large and few loads need it.
                let file = Box::pin(process.compile(bytes)).await?;
                blocking(move || store_and_link(&engine, file, &key, size)).await
            }
            None => blocking(move || compile_in_process(&engine, &bytes, &key)).await,
        };
        drop((permit, large_permit));
        code.map(|code| code.with_compile_time(started.elapsed()))
    }
}

/// Checks and compiles a plugin, and writes a file that an engine with the same options can map. This is the work of a compiler process.
/// Blocks.
///
/// Sets up no linker, because that would take as long as compiling a small plugin.
pub fn write_compiled(options: &EngineOptions, bytes: &[u8], out: &mut dyn Write) -> Result<(), WriteError> {
    let wasm = engine::wasmtime_engine(options)?;
    let key = ArtifactKey { engine: artifact::engine_fingerprint(&wasm), plugin: Sha256Sum::of(bytes) };
    write(&wasm, options, bytes, &key, out)
}

/// Checks a plugin without compiling it. This is the work of a compiler process that only checks. Blocks.
pub fn check_plugin(options: &EngineOptions, bytes: &[u8]) -> Result<(), LoadError> {
    load::prepare(options.max_code_size, bytes).map(drop)
}

fn write(
    wasm: &wasmtime::Engine,
    options: &EngineOptions,
    bytes: &[u8],
    key: &ArtifactKey,
    out: &mut dyn Write,
) -> Result<(), WriteError> {
    let prepared = load::prepare(options.max_code_size, bytes)?;
    let image = wasm.precompile_component(&prepared.component);
    let image = image.map_err(|error| LoadError::compile(options.compiler, &error))?;
    Ok(artifact::write(out, &image, key, &prepared.info)?)
}

/// Compiles in this process.
fn compile_in_process(engine: &Engine, bytes: &[u8], key: &ArtifactKey) -> Result<CompiledPlugin, LoadError> {
    let shared = &engine.shared;
    if !shared.pipeline.uses_files() {
        let prepared = load::prepare(shared.options.max_code_size, bytes)?;
        let component = wasmtime::component::Component::new(&shared.wasmtime, &prepared.component)
            .map_err(|error| LoadError::compile(shared.options.compiler, &error))?;
        let linked = load::link(engine, &component, &prepared.info)?;
        return Ok(load::compiled_plugin(engine, linked, &prepared.info, key, bytes.len(), None));
    }
    let mut file = artifact::anonymous().map_err(|error| LoadError::artifact_file(&error))?;
    match write(&shared.wasmtime, &shared.options, bytes, key, &mut file) {
        Ok(()) => store_and_link(engine, file, key, bytes.len()),
        Err(WriteError::Plugin(error)) => Err(error),
        Err(WriteError::Output(error)) => Err(LoadError::artifact_file(&error)),
        Err(WriteError::Engine(error)) => Err(LoadError::Internal(error.to_string())),
    }
}

/// Stores a file that a compiler wrote, then maps and links it.
fn store_and_link(
    engine: &Engine,
    file: File,
    key: &ArtifactKey,
    size: usize,
) -> Result<CompiledPlugin, LoadError> {
    let pipeline = &engine.shared.pipeline;
    let entry = artifact::store(pipeline.directory.as_ref(), file, key)
        .map_err(|error| LoadError::artifact_file(&error))?;
    let mapped = artifact::verify_and_map(&engine.shared.wasmtime, entry, key)
        .map_err(|error| LoadError::Internal(one_line(&format!("the compiled code is not used: {error}"))))?;
    link(engine, mapped, key, size)
}

fn link(
    engine: &Engine,
    mapped: MappedArtifact,
    key: &ArtifactKey,
    size: usize,
) -> Result<CompiledPlugin, LoadError> {
    let linked = load::link(engine, &mapped.component, &mapped.info)?;
    let source = CodeSource { file: mapped.file, info: mapped.info };
    let info = source.info.clone();
    Ok(load::compiled_plugin(engine, linked, &info, key, size, Some(source)))
}

/// The verified file that unmapped code is mapped from again.
pub(crate) struct CodeSource {
    file: VerifiedFile,
    info: ModuleInfo,
}

impl CodeSource {
    /// Maps and links the code. Blocks.
    pub(crate) fn link(&self, engine: &Engine) -> Result<Arc<LinkedCode>, LoadError> {
        let component = self.file.map(&engine.shared.wasmtime).map_err(|error| LoadError::map(&error))?;
        load::link(engine, &component, &self.info).map(Arc::new)
    }
}

/// Runs work on a thread for blocking work. A panic becomes an error.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    match crate::blocking::run(work).await {
        Ok(result) => result,
        // Hostile input may make a parser or compiler panic; that must not end the host.
        Err(error) => Err(LoadError::Internal(one_line(&error.to_string()))),
    }
}
