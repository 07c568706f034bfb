//! The compile cache: compiled plugins that outlive their engine.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pilothouse_plugin::{
    CacheDirectory, CompileStats, CompiledPlugin, Compiler, CompilerProcess, Engine, EngineOptions, Form,
    LoadError, write_compiled,
};

use sha2::{Digest, Sha256};

use super::*;

fn options(folder: &Path) -> EngineOptions {
    let cache = CacheDirectory { path: folder.join("compiled"), max_bytes: 1 << 30 };
    EngineOptions { cache: Some(cache), ..EngineOptions::default() }
}

fn engine_at(folder: &Path) -> Engine {
    Engine::new(options(folder)).expect("an engine")
}

/// Loads a plugin and checks that it runs.
async fn load(engine: &Engine, name: &str) -> CompiledPlugin {
    let code = engine.load(module_of(name)).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    let host = Arc::new(FakeHost::default());
    let mut instance = code.instantiate(host, &InstanceLimits::default()).await.expect("an instance");
    assert_eq!(instance.reconcile(request("nobody")).await, Ok(Outcome::Done));
    code
}

fn stats(cached: u64, compiled: u64, rejected: u64) -> CompileStats {
    CompileStats { cached, compiled, rejected }
}

/// Returns the path of the only entry of the cache.
fn entry(folder: &Path) -> PathBuf {
    let entries: Vec<_> = fs::read_dir(folder.join("compiled"))
        .expect("there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    entry.clone()
}

fn replace(entry: &Path, bytes: &[u8]) {
    fs::remove_file(entry).expect("removed");
    fs::write(entry, bytes).expect("written");
    fs::set_permissions(entry, Permissions::from_mode(0o400)).expect("set");
}

#[tokio::test]
async fn a_second_engine_finds_what_the_first_compiled() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = engine_at(folder.path());
    let compiled = load(&first, "wish").await;
    assert_eq!(first.compile_stats(), stats(0, 1, 0));
    let second = engine_at(folder.path());
    let found = load(&second, "wish").await;
    assert_eq!(second.compile_stats(), stats(1, 0, 0));
    // The cached file has the metadata, too.
    assert_eq!((found.digest(), found.size()), (compiled.digest(), compiled.size()));
    assert_eq!((found.form(), found.exports()), (compiled.form(), compiled.exports()));
    assert_eq!((found.imports(), found.package_version()), (compiled.imports(), compiled.package_version()));
    assert_eq!(found.form(), Form::CoreModule);
}

#[tokio::test]
async fn a_compiled_plugin_is_found_by_the_digest_of_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let wasm = module_of("wish");
    let digest: [u8; 32] = Sha256::digest(&wasm).into();
    let first = engine_at(folder.path());
    assert!(first.load_cached(digest, wasm.len()).await.expect("no error").is_none(), "not compiled yet");
    let compiled = load(&first, "wish").await;
    let second = engine_at(folder.path());
    let found = second.load_cached(digest, wasm.len()).await.expect("no error").expect("its code");
    assert_eq!((found.digest(), found.size()), (compiled.digest(), compiled.size()));
    assert_eq!(second.compile_stats(), stats(1, 0, 0));
    let host = Arc::new(FakeHost::default());
    let mut instance = found.instantiate(host, &InstanceLimits::default()).await.expect("an instance");
    assert_eq!(instance.reconcile(request("nobody")).await, Ok(Outcome::Done));

    let narrow = EngineOptions { max_code_size: wasm.len() - 1, ..options(folder.path()) };
    let refused = Engine::new(narrow).expect("an engine").load_cached(digest, wasm.len()).await.err();
    assert!(matches!(refused, Some(LoadError::TooLarge { .. })), "{refused:?}");
    assert!(second.load_cached([7; 32], wasm.len()).await.expect("no error").is_none());
    let without_cache = Engine::new(EngineOptions::default()).expect("an engine");
    assert!(without_cache.load_cached(digest, wasm.len()).await.expect("no error").is_none());
}

#[tokio::test]
async fn a_damaged_truncated_or_foreign_entry_is_compiled_again_and_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    load(&engine_at(folder.path()), "done").await;
    let other = tempfile::tempdir().expect("a folder");
    load(&engine_at(other.path()), "wish").await;
    let whole = fs::read(entry(folder.path())).expect("an entry");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 0x40;
    let of_another_plugin = fs::read(entry(other.path())).expect("an entry");
    for bytes in [&damaged[..], &whole[..whole.len() - 1], &[], b"\x7fELF", &of_another_plugin] {
        replace(&entry(folder.path()), bytes);
        let engine = engine_at(folder.path());
        load(&engine, "done").await;
        assert_eq!(engine.compile_stats(), stats(0, 1, 1), "{} bytes", bytes.len());
        let next = engine_at(folder.path());
        load(&next, "done").await;
        assert_eq!(next.compile_stats(), stats(1, 0, 0), "{} bytes", bytes.len());
    }
}

#[tokio::test]
async fn an_engine_does_not_use_entries_of_an_engine_with_other_options() {
    let folder = tempfile::tempdir().expect("a folder");
    load(&engine_at(folder.path()), "done").await;
    let cranelifts = entry(folder.path());
    let winch = || {
        let options = EngineOptions { compiler: Compiler::Winch, ..options(folder.path()) };
        Engine::new(options).expect("an engine")
    };
    let engine = winch();
    load(&engine, "done").await;
    assert_eq!(engine.compile_stats(), stats(0, 1, 0), "its entries have another name");
    let bytes = fs::read(&cranelifts).expect("an entry");
    fs::remove_file(&cranelifts).expect("removed");
    replace(&entry(folder.path()), &bytes);
    let engine = winch();
    load(&engine, "done").await;
    assert_eq!(engine.compile_stats(), stats(0, 1, 1), "it is rejected under the right name, too");
}

#[tokio::test]
async fn plugins_run_without_a_usable_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("compiled"), "a file").expect("written");
    let engine = engine_at(folder.path());
    load(&engine, "done").await;
    load(&engine, "done").await;
    assert_eq!(engine.compile_stats(), stats(0, 2, 0));
}

#[tokio::test]
async fn plugins_run_after_the_directory_was_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine_at(folder.path());
    fs::remove_dir_all(folder.path().join("compiled")).expect("removed");
    fs::write(folder.path().join("compiled"), "a file").expect("written");
    load(&engine, "done").await;
    assert_eq!(engine.compile_stats().compiled, 1);
}

#[tokio::test]
async fn a_refused_file_leaves_no_entry() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine_at(folder.path());
    assert_eq!(engine.load(Vec::new()).await.expect_err("refused"), LoadError::Empty);
    assert_eq!(fs::read_dir(folder.path().join("compiled")).expect("there").count(), 0);
}

#[tokio::test]
async fn code_from_a_compiler_process_with_another_engine_is_rejected() {
    let foreign = tempfile::tempdir().expect("a folder");
    let options = EngineOptions { compiler: Compiler::Winch, ..EngineOptions::default() };
    let mut bytes = Vec::new();
    write_compiled(&options, &module_of("done"), &mut bytes).expect("written");
    let result = foreign.path().join("result");
    fs::write(&result, bytes).expect("written");
    let process = CompilerProcess {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), "cat \"$0\"".into(), result.into()],
        timeout: std::time::Duration::from_secs(60),
    };
    let options = EngineOptions { compiler_process: Some(process), ..EngineOptions::default() };
    let engine = Engine::new(options).expect("an engine");
    let error = engine.load(module_of("done")).await.expect_err("refused").to_string();
    assert!(error.contains("another version of the engine"), "{error}");
}

#[tokio::test]
async fn a_simulation_ignores_what_crashed_a_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let host = engine_at(folder.path());
    fs::write(folder.path().join("compiled/loading-abc"), "").expect("written");
    assert!(host.create_crash_marker("abc").is_err(), "a process died");
    let simulation =
        Engine::new(EngineOptions { call_fuel: Some(1), ..options(folder.path()) }).expect("an engine");
    for digest in ["abc", "def"] {
        assert!(simulation.create_crash_marker(digest).expect("not refused").is_none());
    }
}
