//! Measures what each guest language costs, with the acceptance plugins. `cargo xtask languages` builds the plugins, runs this program in
//! release mode and writes `docs/languages.md`.
//!
//! Each figure is the median of several measurements. Compare the figures with each other, not with those of other machines.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::{Object, ObjectKey};
use pilothouse_plugin::{
    CompiledPlugin, Compiler, Engine, EngineOptions, InstanceLimits, Reason, Request, StubHost,
};
use tokio::time::Instant;

const SCRIPT: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","namespace":"default"},"data":{"op":"info"}}"#;
/// The number of compilations with each compiler.
const COMPILATIONS: usize = 3;
/// The number of instantiations, each with a first reconcile.
const INSTANTIATIONS: usize = 20;
/// The number of further reconciles of one instance.
const RECONCILES: usize = 5_000;

struct Figures {
    /// The size of the file in bytes.
    size: u64,
    cranelift: Duration,
    winch: Duration,
    instantiate: Duration,
    /// The first reconcile of an instance.
    first: Duration,
    /// A further reconcile.
    steady: Duration,
    /// The memory of an instance in bytes.
    memory: usize,
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map(PathBuf::from).expect("the folder with acceptance-LANGUAGE.wasm");
    let languages: Vec<String> = arguments.collect();
    println!(
        "| language | .wasm KiB | compile ms, Cranelift / Winch | instantiate µs | first / steady reconcile µs | memory per instance KiB |"
    );
    println!("|---|---|---|---|---|---|");
    for language in languages {
        let figures = measure(&folder.join(format!("acceptance-{language}.wasm"))).await;
        println!(
            "| {language} | {} | {} / {} | {} | {} / {:.1} | {} |",
            figures.size.div_ceil(1024),
            figures.cranelift.as_millis(),
            figures.winch.as_millis(),
            figures.instantiate.as_micros(),
            figures.first.as_micros(),
            figures.steady.as_nanos() as f64 / 1000.0,
            figures.memory.div_ceil(1024),
        );
    }
}

async fn measure(file: &Path) -> Figures {
    let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let size = bytes.len() as u64;
    let (_, winch) = compile(&bytes, Compiler::Winch).await;
    let (code, cranelift) = compile(&bytes, Compiler::Cranelift).await;
    let host = Arc::new(StubHost::new("{}").with_object(Object::from_json(SCRIPT).expect("an object")));
    let mut instantiate = Vec::new();
    let mut first = Vec::new();
    let mut last = None;
    for _ in 0..INSTANTIATIONS {
        let begin = Instant::now();
        let mut instance =
            code.instantiate(Arc::clone(&host) as _, &InstanceLimits::default()).await.expect("an instance");
        instantiate.push(begin.elapsed());
        let begin = Instant::now();
        instance.reconcile(request()).await.expect("a reconcile");
        first.push(begin.elapsed());
        last = Some(instance);
    }
    let mut instance = last.expect("an instance");
    let mut steady = Vec::new();
    for _ in 0..RECONCILES {
        let begin = Instant::now();
        instance.reconcile(request()).await.expect("a reconcile");
        steady.push(begin.elapsed());
    }
    Figures {
        size,
        cranelift,
        winch,
        instantiate: median(instantiate),
        first: median(first),
        steady: median(steady),
        memory: instance.memory(),
    }
}

async fn compile(bytes: &[u8], compiler: Compiler) -> (CompiledPlugin, Duration) {
    let mut times = Vec::new();
    let mut code = None;
    for _ in 0..COMPILATIONS {
        let engine = Engine::new(EngineOptions { compiler, ..EngineOptions::default() }).expect("an engine");
        let begin = Instant::now();
        code = Some(engine.load(bytes.to_vec()).await.unwrap_or_else(|error| panic!("{error}")));
        times.push(begin.elapsed());
    }
    (code.expect("compiled"), median(times))
}

fn request() -> Request {
    Request {
        watch: "scripts".into(),
        key: ObjectKey::new("default", "one"),
        reasons: vec![Reason::Created],
        attempt: 0,
        extra: Vec::new(),
        event_at: None,
        host_context: None,
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
