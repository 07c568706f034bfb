//! Gets a version's code: that of a running version, from the cache, or by compiling the file.

use std::ops::ControlFlow;

use pilothouse_plugin::{CompiledPlugin, Engine, LoadPermit, LogLevel};

use super::files::{FileInfo, read, wasm};
use super::next_version::{code_in_use, next_version};
use super::speculative_compile::SpeculativeCompile;
use super::{LoadInputs, LoadOutcome, LoadProblem, LoadStep, Report};
use crate::guest_host::PluginServices;
use crate::load::version::Role;
use crate::rollout::KnownVersion;

/// The code of the version that a load makes.
pub(super) struct LoadedCode {
    pub(super) code: CompiledPlugin,
    /// What was read of the plugin's files. If `is_replacement`, their code does not run.
    pub(super) file: FileInfo,
    /// Which keys the version is to reconcile.
    pub(super) role: Role,
    /// Whether the code is that of a version that runs in place of the file's.
    pub(super) is_replacement: bool,
}

/// Returns the code of the version to load, or the outcome of a load that makes none.
pub(super) async fn load_code(
    inputs: &LoadInputs<'_>,
    sidecar_text: String,
    speculative: Option<SpeculativeCompile>,
) -> Result<ControlFlow<LoadOutcome, LoadedCode>, LoadProblem> {
    let LoadInputs { services, plugin, files, sidecar, running, canary, report } = inputs;
    let load_permit = services.engine.acquire_load_permit().await;
    let file = read(files, sidecar_text).await?;
    let (role, replacement) = match next_version(&plugin.rollout, sidecar, &file, *running, *canary) {
        ControlFlow::Continue(next) => next,
        ControlFlow::Break(outcome) => return Ok(ControlFlow::Break(outcome)),
    };
    let may_run_alone = role == Role::BesideCanary && running.is_none();
    let digest = replacement.as_ref().map_or(&file.digest, |version| &version.digest);
    let in_use = code_in_use([*running, *canary], digest);
    let kept = kept_code(&services.engine, plugin, in_use, replacement, &file, may_run_alone).await?;
    let is_replacement = kept.is_some();
    let role = if may_run_alone && !is_replacement { Role::Alone } else { role };
    let code = match (kept, files.as_in_memory()) {
        (Some(code), _) => code,
        (None, Some(in_memory)) => in_memory.code.clone(),
        (None, None) => {
            code(&services.engine, plugin, in_use, speculative, &file, report, load_permit).await?
        }
    };
    Ok(ControlFlow::Continue(LoadedCode { code, file, role, is_replacement }))
}

/// Returns the code of the file: that of the running version if only the sidecar changed. The plugin's log and status show a
/// compilation. A file that is no plugin is refused before it waits for a compiler.
async fn code(
    engine: &Engine,
    plugin: &PluginServices,
    running: Option<&CompiledPlugin>,
    speculative: Option<SpeculativeCompile>,
    read: &FileInfo,
    report: &Report,
    load_permit: LoadPermit,
) -> Result<CompiledPlugin, LoadProblem> {
    if let Some(code) = running.filter(|code| code.digest() == read.digest) {
        return Ok(code.clone());
    }
    report(LoadStep::Compiling);
    let begin = || {
        plugin.log.host(LogLevel::Info, format_args!("compiling"), &[]);
        plugin.compile_status.begin(plugin.environment.clock.now())
    };
    let mut code = None;
    if let Some(speculative) = speculative {
        let _compiling = (!speculative.has_ended()).then(begin);
        code = speculative.code(read.sum).await.transpose()?;
    }
    if code.is_none() {
        code = engine.load_cached(read.sum, read.size).await?;
    }
    let code = match code {
        Some(code) => code,
        None => {
            let wasm = wasm(&read.path, read.sum).await?;
            let _compiling = begin();
            match engine.try_acquire_compile_permit() {
                // The compiler checks the file first.
                Some(compile_permit) => engine.compile(wasm, read.sum, compile_permit).await?,
                None => {
                    // Neither the file nor the permit is held during the wait, which may be long: other loads go on meanwhile.
                    drop(engine.check(wasm).await?);
                    drop(load_permit);
                    compile_after_wait(engine, read).await?
                }
            }
        }
    };
    if let Some(time) = code.compile_time() {
        plugin.log.host(LogLevel::Info, format_args!("compiled in {time:.1?}"), &[]);
    }
    Ok(code)
}

/// Waits for a compiler, and compiles the file.
async fn compile_after_wait(engine: &Engine, read: &FileInfo) -> Result<CompiledPlugin, LoadProblem> {
    let compile_permit = engine.acquire_compile_permit().await;
    // A plugin with the same content may have been compiled during the wait.
    if let Some(code) = engine.load_cached(read.sum, read.size).await? {
        return Ok(code);
    }
    let wasm = wasm(&read.path, read.sum).await?;
    Ok(engine.compile(wasm, read.sum, compile_permit).await?)
}

/// Returns the code of `version`, which is to run in place of that of the file; `None` without one.
async fn kept_code(
    engine: &Engine,
    plugin: &PluginServices,
    running: Option<&CompiledPlugin>,
    version: Option<KnownVersion>,
    read: &FileInfo,
    may_run_alone: bool,
) -> Result<Option<CompiledPlugin>, LoadProblem> {
    let Some(version) = version else { return Ok(None) };
    if let Some(code) = running.filter(|code| code.digest() == version.digest) {
        return Ok(Some(code.clone()));
    }
    let code = match version.sum() {
        Some(sum) => engine.load_cached(sum, version.size).await?,
        None => None,
    };
    if code.is_some() {
        return Ok(code);
    }
    let problem = LoadProblem::NotKept {
        path: read.path.clone(),
        plugin: plugin.name.clone(),
        version,
        file_digest: read.digest.clone(),
    };
    without_kept_code(plugin, problem, may_run_alone)
}

/// Returns `None` if the code of the version beside a canary is lost and nothing runs yet, as after an upgrade of the host. The file's version,
/// which was not rolled back, is the only one that can be compiled then. Otherwise, returns the problem.
fn without_kept_code(
    plugin: &PluginServices,
    problem: LoadProblem,
    may_run_alone: bool,
) -> Result<Option<CompiledPlugin>, LoadProblem> {
    let version = match &problem {
        LoadProblem::NotKept { version, .. } if may_run_alone => version,
        _ => return Err(problem),
    };
    let text = format_args!(
        "{version} is not in the cache of compiled plugins any more, so the version of the file runs alone and not as its canary"
    );
    plugin.log.host(LogLevel::Warn, text, &[]);
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use pilothouse_plugin::EngineOptions;

    use super::*;
    use crate::load::files::{hex, sum};

    /// Writes the .wasm and returns what a load knows about it.
    fn written(path: &Path, wasm: &[u8]) -> FileInfo {
        std::fs::write(path, wasm).expect("written");
        let (sum, size) = sum(path).expect("readable");
        FileInfo { path: path.to_owned(), sum, size, digest: hex(&sum), sidecar_text: String::new() }
    }

    /// The code of a file, for a load that has nothing else.
    async fn code_of(
        engine: &Engine,
        plugin: &PluginServices,
        running: Option<&CompiledPlugin>,
        read: &FileInfo,
        report: &Report,
    ) -> Result<CompiledPlugin, LoadProblem> {
        let load_permit = engine.acquire_load_permit().await;
        code(engine, plugin, running, None, read, report, load_permit).await
    }

    fn plugin() -> PluginServices {
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        PluginServices::for_test("p", kube::Client::new(service, "default"))
    }

    fn log_of(plugin: &PluginServices) -> Vec<String> {
        plugin.log.all().after(0, None).into_iter().map(|line| line.message).collect()
    }

    #[tokio::test]
    async fn a_compilation_is_logged_with_its_duration_and_cached_code_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache =
            pilothouse_plugin::CacheDirectory { path: folder.path().join("compiled"), max_bytes: 1 << 30 };
        let options = EngineOptions { cache: Some(cache), ..EngineOptions::default() };
        let (engine, plugin) = (Engine::new(options).expect("an engine"), plugin());
        let report: Report = Arc::new(|_| {});
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/done.wat");
        let wasm = wat::parse_file(path).expect("a guest");
        let path = folder.path().join("p.wasm");
        let read = written(&path, &wasm);
        let compiled = code_of(&engine, &plugin, None, &read, &report).await.expect("a plugin");
        assert!(compiled.compile_time().is_some());
        let log = log_of(&plugin);
        let [first, second] = &log[..] else { panic!("{log:?}") };
        assert!(first == "compiling" && second.starts_with("compiled in "), "{log:?}");
        assert_eq!(plugin.compile_status.since(), None, "it is over");
        let cached = code_of(&engine, &plugin, None, &read, &report).await.expect("a plugin");
        assert_eq!((cached.compile_time(), log_of(&plugin).len()), (None, 2));
    }

    #[tokio::test]
    async fn plugins_with_the_same_content_that_wait_for_a_compiler_are_compiled_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache =
            pilothouse_plugin::CacheDirectory { path: folder.path().join("compiled"), max_bytes: 1 << 30 };
        let options = EngineOptions { cache: Some(cache), ..EngineOptions::default() };
        let engine = Engine::new(options).expect("an engine");
        let report: Report = Arc::new(|_| {});
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/done.wat");
        let path_of = |name: &str| folder.path().join(name);
        let wasm = wat::parse_file(path).expect("a guest");
        let reads = ["a.wasm", "b.wasm"].map(|name| written(&path_of(name), &wasm));
        let guests = [plugin(), plugin()];
        let mut permits: Vec<_> = std::iter::from_fn(|| engine.try_acquire_compile_permit()).collect();
        let codes = reads.iter().zip(&guests).map(|(read, plugin)| {
            let (engine, report) = (&engine, &report);
            async move { code_of(engine, plugin, None, read, report).await.expect("a plugin") }
        });
        // Both wait for the one permit that is released once both have looked into the cache.
        let release = async {
            while guests.iter().any(|plugin| log_of(plugin).is_empty()) {
                tokio::task::yield_now().await;
            }
            permits.pop();
        };
        let (codes, ()) = tokio::join!(futures::future::join_all(codes), release);
        let compiled = codes.iter().filter(|code| code.compile_time().is_some()).count();
        assert_eq!(compiled, 1, "the second plugin uses what the first one has compiled");
    }

    #[tokio::test]
    async fn a_file_that_is_no_plugin_is_refused_while_others_wait_for_a_compiler() {
        let folder = tempfile::tempdir().expect("a folder");
        let (engine, plugin) = (Engine::new(EngineOptions::default()).expect("an engine"), plugin());
        let report: Report = Arc::new(|_| {});
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/done.wat");
        let wasm = wat::parse_file(path).expect("a guest");
        let _permits: Vec<_> = std::iter::from_fn(|| engine.try_acquire_compile_permit()).collect();
        // More loads than may be under way at a time. Each waits for a compiler, which none gets.
        let good = written(&folder.path().join("good.wasm"), &wasm);
        let waiting = (0..100).map(|_| code_of(&engine, &plugin, None, &good, &report));
        let waiting = futures::future::join_all(waiting);
        let exports_nothing = b"\0asm\x01\0\0\0";
        let refused = async {
            for invalid in [&wasm[..wasm.len() - 20], &exports_nothing[..], &b"no wasm"[..]] {
                let invalid = written(&folder.path().join("bad.wasm"), invalid);
                let refused = code_of(&engine, &plugin, None, &invalid, &report).await.err();
                assert!(matches!(refused, Some(LoadProblem::Code(_))), "{refused:?}");
            }
        };
        // Long enough for any machine: without the check, the loads wait for ever.
        let limited = tokio::time::timeout(std::time::Duration::from_mins(2), refused);
        tokio::select! {
            biased;
            _ = waiting => unreachable!("there is no compiler for them"),
            ended = limited => ended.expect("the invalid files are refused"),
        }
    }

    #[tokio::test]
    async fn a_version_that_runs_in_place_of_the_files_comes_from_the_cache() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache =
            pilothouse_plugin::CacheDirectory { path: folder.path().join("compiled"), max_bytes: 1 << 30 };
        let options = EngineOptions { cache: Some(cache), ..EngineOptions::default() };
        let (engine, plugin) = (Engine::new(options).expect("an engine"), plugin());
        let report: Report = Arc::new(|_| {});
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/done.wat");
        let wasm = wat::parse_file(path).expect("a guest");
        let path = folder.path().join("p.wasm");
        let old = written(&path, &wasm);
        let compiled = code_of(&engine, &plugin, None, &old, &report).await.expect("a plugin");
        drop(compiled);
        let new = written(&path, b"another file");
        let version = KnownVersion::new(&old.digest, old.size, "1.0.0");
        let kept = kept_code(&engine, &plugin, None, Some(version), &new, false).await;
        let kept = kept.expect("no problem").expect("it is cached");
        assert_eq!((kept.digest(), kept.size(), kept.compile_time()), (&*old.digest, old.size, None));
        for digest in ["ab".repeat(32), "no digest".to_owned()] {
            let version = KnownVersion::new(&digest, 1, "0.9.0");
            let kept = kept_code(&engine, &plugin, None, Some(version), &new, false).await;
            let Err(problem) = kept else {
                panic!("{digest} is not cached");
            };
            let remedy = format!("pilothouse rollback p {}`", &new.digest[..12]);
            assert!(problem.to_string().contains(&remedy) && !problem.is_transient(), "{problem}");
        }
    }

    #[tokio::test]
    async fn the_file_runs_alone_if_the_code_beside_its_canary_is_lost() {
        let plugin = plugin();
        let lost = || LoadProblem::NotKept {
            path: "p.wasm".into(),
            plugin: plugin.name.clone(),
            version: KnownVersion::new(&"ab".repeat(32), 1, "1.0.0"),
            file_digest: "cd".repeat(32),
        };
        assert!(without_kept_code(&plugin, lost(), false).is_err(), "the file's version was rolled back");
        let other = LoadProblem::IndexesBehind { rounds: 1 };
        assert!(without_kept_code(&plugin, other, true).is_err());
        assert!(log_of(&plugin).is_empty());
        assert!(matches!(without_kept_code(&plugin, lost(), true), Ok(None)));
        let log = log_of(&plugin);
        assert!(log.len() == 1 && log[0].contains("runs alone"), "{log:?}");
    }

    #[tokio::test]
    async fn a_change_of_only_the_sidecar_compiles_nothing() {
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let plugin = plugin();
        let compiled = Arc::new(AtomicU32::new(0));
        let report: Report = Arc::new({
            let compiled = Arc::clone(&compiled);
            move |step| {
                compiled.fetch_add(u32::from(matches!(step, LoadStep::Compiling)), Ordering::Relaxed);
            }
        });
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/done.wat");
        let wasm = wat::parse_file(path).expect("a guest");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("p.wasm");
        let read = written(&path, &wasm);
        let running = code_of(&engine, &plugin, None, &read, &report).await.expect("a plugin");
        assert_eq!((running.digest(), running.size()), (read.digest.as_str(), wasm.len()));
        assert_eq!(compiled.load(Ordering::Relaxed), 1);
        // If these bytes were read, they would be refused.
        let other = written(&path, b"no wasm");
        let again = code_of(&engine, &plugin, Some(&running), &read, &report).await;
        assert_eq!(again.expect("the same").digest(), read.digest);
        assert_eq!(compiled.load(Ordering::Relaxed), 1);
        let refused = code_of(&engine, &plugin, Some(&running), &other, &report).await.err();
        assert!(matches!(refused, Some(LoadProblem::Code(_))), "{refused:?}");
        // A file is not compiled under the SHA-256 of another.
        let refused = code_of(&engine, &plugin, None, &read, &report).await.err();
        assert!(matches!(refused, Some(LoadProblem::Changing { .. })), "{refused:?}");
    }
}
