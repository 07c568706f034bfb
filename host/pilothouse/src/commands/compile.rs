//! `pilothouse compile`, which only the host itself starts: one plugin from standard input to standard output; and how the host is told to
//! start it.

mod memory;

use std::ffi::OsString;
use std::io::{Read, stdin, stdout};
use std::path::PathBuf;
use std::time::Duration;

use pilothouse_plugin::{COMPILER_MEMORY, CacheDirectory, CompilerProcess, EngineOptions, write_compiled};
use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};

use crate::cli::Compile;
use crate::{Failed, Outcome};

/// Disk space for compiled plugins: some hundreds of large ones.
const CACHE_BYTES: u64 = 2 << 30;
/// How long a plugin may compile. The largest known, Python's, takes some seconds, and minutes on a busy machine in a debug build.
const TIMEOUT: Duration = Duration::from_secs(600);
/// The most that a compiler process may write to, code it has made included, however much memory there is.
const MEMORY: u64 = 8 << 30;
/// Plugins that run come before those that do not yet.
const NICE: i32 = 5;

/// The engine of a host that runs plugins: it compiles in processes of its own and keeps the result.
pub(super) fn engine_options(cache_dir: Option<PathBuf>) -> EngineOptions {
    let cache = cache_dir.or_else(default_cache_dir);
    if cache.is_none() {
        tracing::warn!(
            "there is no $HOME to keep compiled plugins in: each is compiled at every start; give --cache-dir"
        );
    }
    let compiler_process = this_executable().map(|program| CompilerProcess {
        program,
        arguments: ["compile".into(), MEMORY.to_string().into()].map(|argument: OsString| argument).into(),
        timeout: TIMEOUT,
    });
    EngineOptions {
        cache: cache.map(|path| CacheDirectory { path: path.join("compiled"), max_bytes: CACHE_BYTES }),
        compiler_process,
        ..common_options()
    }
}

/// What the host's engine and its compilers' have in common: code that was compiled with others is not run.
fn common_options() -> EngineOptions {
    EngineOptions::default()
}

fn default_cache_dir() -> Option<PathBuf> {
    let folder =
        |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(caches.join("pilothouse"))
}

/// The file that this process runs, even when an update has put another in its place: only an equal engine's code can be used.
fn this_executable() -> Option<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() { Some(running) } else { std::env::current_exe().ok() }
}

/// Has this process open as many files as it may: each plugin's code holds two, and a thousand plugins are more than what is usual for a start.
pub(super) fn allow_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Compiles.
pub(crate) fn run(flags: &Compile) -> Outcome {
    // Neither is more than a precaution: a system that refuses them compiles all the same.
    let _ = nice(NICE);
    // Where memory ends all the same, the kernel is to end this process and not its host.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let memory = memory::bound(flags.memory);
    eprintln!("{COMPILER_MEMORY}{}", memory >> 20);
    // Not address space, of which an allocator reserves a lot for each thread.
    let _ = setrlimit(Resource::Data, Rlimit { current: Some(memory), maximum: Some(memory) });
    let mut bytes = vec![0; flags.size];
    stdin().read_exact(&mut bytes).map_err(|error| Failed::Work(format!("no plugin to compile: {error}")))?;
    // The host keeps the stream open. When it ends, the host is gone, and nobody wants the result.
    std::thread::spawn(|| {
        if let Ok(0) | Err(_) = stdin().read(&mut [0]) {
            std::process::exit(1);
        }
    });
    write_compiled(&common_options(), &bytes, &mut stdout().lock())
        .map_err(|error| Failed::Work(error.to_string()))
}
