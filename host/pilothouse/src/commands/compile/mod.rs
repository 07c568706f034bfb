//! `pilothouse compile`: compiles one plugin from standard input to standard output, or only checks it. Only the host starts it; this module
//! also holds the engine options that make the host do so.

mod memory;

use std::ffi::OsString;
use std::io::{Read, stdin, stdout};
use std::path::PathBuf;
use std::time::Duration;

use pilothouse_plugin::{
    COMPILER_MEMORY_PREFIX, CacheDirectory, CompilerProcess, EngineOptions, check_plugin, write_compiled,
};
use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};

use crate::cli::{Compile, CompileTask, CompilerMode};
use crate::{CommandError, CommandResult};

/// Maximum size of the compilation cache on disk: enough for a few hundred large plugins.
const MAX_CACHE_BYTES: u64 = 2 << 30;
/// Maximum duration of a compilation. The largest known plugins, in Python, take seconds, or minutes in a debug build on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Upper bound in bytes for a compiler process's memory, including the generated code, however much memory is available.
const MAX_MEMORY: u64 = 8 << 30;
/// Niceness of compiler processes: running plugins take precedence.
const NICENESS: i32 = 5;

/// Returns the engine options of a host: it compiles plugins in separate processes and caches the result.
pub(super) fn engine_options(cache_dir: Option<PathBuf>, compiler: CompilerMode) -> EngineOptions {
    cached_options(cache_dir, compiler, false)
}

/// Returns the engine options of simulations: as those of a host, for code that counts its instructions.
#[cfg(feature = "simulation")]
pub(super) fn simulation_options(cache_dir: Option<PathBuf>) -> EngineOptions {
    cached_options(cache_dir, CompilerMode::Optimizing, true)
}

fn cached_options(
    cache_dir: Option<PathBuf>,
    compiler: CompilerMode,
    counts_instructions: bool,
) -> EngineOptions {
    let cache = self::cache_dir(cache_dir);
    if cache.is_none() {
        tracing::warn!(
            "$HOME is not set, so compiled plugins are not cached and every start compiles them again; pass --cache-dir to cache them"
        );
    }
    let compiler_process = this_executable().map(|program| CompilerProcess {
        program,
        arguments: [
            "compile",
            MAX_MEMORY.to_string().as_str(),
            compiler.name(),
            counts_instructions.to_string().as_str(),
        ]
        .map(OsString::from)
        .into(),
        timeout: TIMEOUT,
    });
    EngineOptions {
        cache: cache.map(|path| CacheDirectory { path, max_bytes: MAX_CACHE_BYTES }),
        compiler_process,
        ..common_options(compiler, counts_instructions)
    }
}

/// Returns the options that the host and its compiler processes must share. The host rejects code that was compiled with other options.
fn common_options(compiler: CompilerMode, counts_instructions: bool) -> EngineOptions {
    // How many instructions a call may execute does not matter for compiling.
    let call_fuel = counts_instructions.then_some(1);
    EngineOptions { compiler: compiler.into(), call_fuel, ..EngineOptions::default() }
}

/// Returns the directory of compiled plugins: below the flag's, or else below the user's cache directory.
pub(super) fn cache_dir(flag: Option<PathBuf>) -> Option<PathBuf> {
    Some(flag.or_else(default_cache_dir)?.join("compiled"))
}

pub(super) fn default_cache_dir() -> Option<PathBuf> {
    let folder =
        |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let user_cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(user_cache.join("pilothouse"))
}

/// Returns a path to the executable of this process, even if an update has replaced the file: the host can only run code from an
/// identical engine.
pub(super) fn this_executable() -> Option<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() { Some(running) } else { std::env::current_exe().ok() }
}

/// Raises the soft limit of open files to the hard limit. Each plugin's code holds two files open, so a thousand plugins exceed the
/// usual soft limit of 1024.
pub(super) fn raise_open_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

pub(crate) fn run(flags: &Compile) -> CommandResult {
    // The next settings are precautions. If the system refuses one, the compilation goes on without it.
    let _ = nice(NICENESS);
    // If memory runs out, the kernel kills this process rather than the host.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let memory = memory::limit(flags.memory);
    eprintln!("{COMPILER_MEMORY_PREFIX}{}", memory >> 20);
    // RLIMIT_DATA, not RLIMIT_AS: the allocator reserves a lot of address space for each thread.
    let _ = setrlimit(Resource::Data, Rlimit { current: Some(memory), maximum: Some(memory) });
    let mut bytes = vec![0; flags.size];
    stdin().read_exact(&mut bytes).map_err(|error| {
        CommandError::Failure(format!("cannot read the plugin from standard input: {error}"))
    })?;
    // The host keeps the pipe open. End of file means that the host has exited and the result is not needed.
    std::thread::spawn(|| {
        if let Ok(0) | Err(_) = stdin().read(&mut [0]) {
            std::process::exit(1);
        }
    });
    let options = common_options(flags.compiler, flags.counts_instructions);
    match flags.task {
        CompileTask::Compile => write_compiled(&options, &bytes, &mut stdout().lock())
            .map_err(|error| CommandError::Failure(error.to_string())),
        CompileTask::Check => {
            check_plugin(&options, &bytes).map_err(|error| CommandError::Failure(error.to_string()))
        }
    }
}
