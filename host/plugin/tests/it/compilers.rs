//! Guests under each compiler: neither the limits nor the names in faults depend on the compiler.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_plugin::{
    CacheDirectory, CompileStats, Compiler, Engine, EngineOptions, FaultKind, Instance, InstanceLimits,
    LoadError, Outcome,
};

use crate::fake_host::FakeHost;
use crate::{assemble, fault, module_of, request, wat_of};

const COMPILERS: [Compiler; 3] = [Compiler::Cranelift, Compiler::UnoptimizedCranelift, Compiler::Winch];

fn engine(compiler: Compiler) -> Engine {
    Engine::new(EngineOptions { compiler, ..EngineOptions::default() }).expect("an engine")
}

async fn instance(
    compiler: Compiler,
    module: Vec<u8>,
    host: &Arc<FakeHost>,
    limits: &InstanceLimits,
) -> Instance {
    let code = engine(compiler).load(module).await.unwrap_or_else(|error| panic!("{compiler:?}: {error}"));
    code.instantiate(host.clone(), limits).await.unwrap_or_else(|fault| panic!("{compiler:?}: {fault}"))
}

#[tokio::test]
async fn an_endless_loop_yields_and_ends_at_the_time_limit_under_each_compiler() {
    for compiler in COMPILERS {
        let limits =
            InstanceLimits { reconcile_timeout: Duration::from_millis(100), ..InstanceLimits::default() };
        let host = Arc::new(FakeHost::default());
        let mut instance = instance(compiler, module_of("loop"), &host, &limits).await;
        // The test has only one thread, so the other task runs only if the guest yields.
        let mut turns = 0_u32;
        let other_task = async {
            loop {
                turns += 1;
                tokio::task::yield_now().await;
            }
        };
        let answer = tokio::select! {
            biased;
            answer = instance.reconcile(request("a")) => answer,
            () = other_task => unreachable!("it never ends"),
        };
        let timeout = fault(answer);
        assert!(timeout.is_timeout(), "{compiler:?}: {timeout}");
        assert!(turns > 0, "{compiler:?}: {turns}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_endless_loop_ends_by_its_cpu_time_under_each_compiler() {
    for compiler in COMPILERS {
        let host = Arc::new(FakeHost::default());
        let limits =
            InstanceLimits { reconcile_timeout: Duration::from_millis(50), ..InstanceLimits::default() };
        let mut instance = instance(compiler, module_of("loop"), &host, &limits).await;
        let timeout = fault(instance.reconcile(request("a")).await).to_string();
        assert!(timeout.contains("limits.reconcileTimeout of 50ms"), "{compiler:?}: {timeout}");
    }
}

#[tokio::test]
async fn growing_memory_traps_at_the_memory_limit_under_each_compiler() {
    for compiler in COMPILERS {
        let host = Arc::new(FakeHost::default());
        let limits = InstanceLimits { memory: 1 << 20, ..InstanceLimits::default() };
        let mut instance = instance(compiler, module_of("grow"), &host, &limits).await;
        let exceeded = fault(instance.reconcile(request("a")).await);
        let expected = FaultKind::Memory { allowed: 1 << 20, wanted: (1 << 20) + 65_536 };
        assert_eq!(exceeded.kind(), &expected, "{compiler:?}");
    }
}

#[tokio::test]
async fn a_trap_names_its_function_under_each_compiler() {
    let mut wat = wat_of("faulty").replace("$in-reconcile", "$traps");
    for quiet in ["$in-describe", "$in-observe", "$in-index"] {
        wat = wat.replace(quiet, "$nothing");
    }
    for compiler in COMPILERS {
        let host = Arc::new(FakeHost::default());
        let mut instance = instance(compiler, assemble(&wat), &host, &InstanceLimits::default()).await;
        let trap = fault(instance.reconcile(request("a")).await).to_string();
        let expected = "reconcile trapped: wasm trap: wasm `unreachable` instruction executed in traps";
        assert!(trap.starts_with(expected), "{compiler:?}: {trap}");
    }
}

#[tokio::test]
async fn endless_recursion_overflows_the_stack_of_each_compiler_and_names_the_functions() {
    for compiler in COMPILERS {
        let host = Arc::new(FakeHost::default());
        host.put_wish("a", "stack");
        let mut instance = instance(compiler, module_of("wish"), &host, &InstanceLimits::default()).await;
        let exceeded = fault(instance.reconcile(request("a")).await).to_string();
        // Frames that are not optimised are larger.
        let size = if compiler == Compiler::Cranelift { "512 KiB" } else { "1 MiB" };
        let expected = format!(
            "reconcile exceeded its stack of {size} in recurse < recurse < recurse: call less deeply"
        );
        assert_eq!(exceeded, expected, "{compiler:?}");
    }
}

#[tokio::test]
async fn a_plugin_that_only_the_optimising_compiler_supports_is_refused_with_that_remedy() {
    let tail_call = "(func $endless (return_call $endless))\n";
    let wat = wat_of("done");
    let end = wat.rfind(')').expect("the end of the module");
    let module = assemble(&format!("{}{tail_call})", &wat[..end]));
    assert!(engine(Compiler::Cranelift).load(module.clone()).await.is_ok());
    let refused = engine(Compiler::Winch).load(module).await.expect_err("Winch has no tail calls");
    assert!(matches!(refused, LoadError::QuickCompile { .. }), "{refused:?}");
    assert!(refused.to_string().contains("--compiler optimizing"), "{refused}");
}

#[tokio::test]
async fn no_compiler_uses_the_cached_code_of_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let stats = |cached, compiled| CompileStats { cached, compiled, rejected: 0 };
    let load = async |compiler: Compiler| {
        let cache = CacheDirectory { path: folder.path().join("compiled"), max_bytes: 1 << 30 };
        let options = EngineOptions { compiler, cache: Some(cache), ..EngineOptions::default() };
        let engine = Engine::new(options).expect("an engine");
        let code = engine.load(module_of("done")).await.expect("a plugin");
        let host = Arc::new(FakeHost::default());
        let mut instance = code.instantiate(host, &InstanceLimits::default()).await.expect("an instance");
        assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done), "{compiler:?}");
        (engine.compile_stats(), code.compile_time().is_some())
    };
    for compiler in COMPILERS {
        assert_eq!(load(compiler).await, (stats(0, 1), true), "{compiler:?}");
    }
    let entries = fs::read_dir(folder.path().join("compiled")).expect("there").count();
    assert_eq!(entries, COMPILERS.len());
    for compiler in COMPILERS {
        assert_eq!(load(compiler).await, (stats(1, 0), false), "{compiler:?}");
    }
}
