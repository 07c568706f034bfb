//! Both ways to call an import, with borrowed and with copied arguments, give the same answers.

use std::sync::Arc;

use pilothouse_model::{Object, ObjectKey};
use wasmtime::{Config, Engine as WasmEngine};

use super::*;
use crate::functions::{add_generated_to_linker, add_to_linker};
use crate::{CompiledPlugin, Engine, EngineOptions, FaultKind, InstanceLimits, Outcome, Request, StubHost};

/// Interface and name of each import that [`replace_in_linker`] replaces.
const REPLACED: [(&str, &str); 5] =
    [(CACHE, GET), (OBJECTS, FIELD), (OBJECTS, TEXT), (OBJECTS, FIELDS), (OBJECTS, TEXTS)];

/// Which import `reads.wat` calls: the lowest byte of the request's `attempt`. Between these are `object.field` and `object.text`.
const CACHE_GET: u32 = 0;
const OBJECT_FIELDS: u32 = 3;
const OBJECT_TEXTS: u32 = 4;
/// Invalid string arguments of `reads.wat`: the next byte of the request's `attempt`. 0 is the watch of the request.
const NOT_UTF8: u32 = 1 << 8;
const OUT_OF_BOUNDS: u32 = 2 << 8;

#[test]
fn each_replaced_import_has_a_generated_one() {
    let engine = WasmEngine::new(Config::new().wasm_component_model(true)).expect("an engine");
    let mut linker = Linker::new(&engine);
    add_generated_to_linker(&mut linker).expect("the contract");
    for (interface, name) in REPLACED {
        let mut interface = linker.instance(&interface_name(interface)).expect("an interface");
        let duplicate = interface.func_wrap(name, |_: GuestStore<'_>, ()| Ok(()));
        assert!(duplicate.is_err(), "no generated {name}");
    }
    replace_in_linker(&mut linker).expect("a replacement for each");
}

/// `reads.wat`, with imports as `add_imports` adds them.
async fn plugin(add_imports: fn(&mut Linker<GuestState>) -> Result<()>) -> CompiledPlugin {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guests/reads.wat");
    let wasm = wat::parse_file(path).unwrap_or_else(|error| panic!("{error}"));
    let engine = Engine::with_imports(EngineOptions::default(), add_imports).expect("an engine");
    engine.load(wasm).await.unwrap_or_else(|error| panic!("{error}"))
}

/// The plugin with borrowed arguments, as in production, and with copied ones.
async fn plugins() -> [CompiledPlugin; 2] {
    [plugin(add_to_linker).await, plugin(add_generated_to_linker).await]
}

fn object() -> Object {
    let json = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default","labels":{"x":"y"}},
        "data":{"text":"a \"quoted\" ä","empty":""},"count":3,"nothing":null}"#;
    Object::from_json(json).expect("a valid object")
}

fn request(attempt: u32, argument: &str, name: &str) -> Request {
    Request {
        watch: argument.into(),
        key: ObjectKey::new("default", name),
        reasons: Vec::new(),
        attempt,
        extra: Vec::new(),
        event_at: None,
        host_context: None,
    }
}

/// The answer of `reconcile` and what the guest logged, as text; timings and addresses are in neither.
async fn reconcile(
    plugin: &CompiledPlugin,
    request: &Request,
    host: StubHost,
    limits: &InstanceLimits,
) -> (String, Vec<String>) {
    let host = Arc::new(host.repeatable());
    let mut instance = plugin.instantiate(host.clone(), limits).await.expect("an instance");
    let answer = match instance.reconcile(request.clone()).await {
        Ok(Outcome::Done) => format!("done with {} open handles", instance.open_handles()),
        Ok(other) => format!("{other:?}"),
        Err(failure) => failure.to_string(),
    };
    (answer, host.lines())
}

#[tokio::test]
async fn borrowed_and_copied_arguments_give_the_same_answers() {
    let limits = InstanceLimits { message_size: 8 << 10, ..InstanceLimits::default() };
    let long = format!("/{}", "x".repeat(5_000));
    let pointers = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let mut requests = Vec::new();
    for call in CACHE_GET..=OBJECT_TEXTS {
        let arguments = [
            "/data/text",
            "/data/empty",
            "/metadata/labels",
            "/count",
            "/nothing",
            "/absent",
            "",
            "no pointer",
            "ä",
            long.as_str(),
        ];
        for argument in arguments {
            requests.push(request(call, argument, "a"));
        }
        requests.push(request(call | NOT_UTF8, "", "a"));
        requests.push(request(call | OUT_OF_BOUNDS, "", "a"));
    }
    requests.push(request(CACHE_GET, "configmaps", "nobody"));
    for call in [OBJECT_FIELDS, OBJECT_TEXTS] {
        let lists = [
            pointers(&[("/data/text", "/absent"), ("", "/count"), ("/data/text", "/metadata/name")]),
            pointers(&[("/data/text", long.as_str())]),
            // 66 pointers, above the limit of 64.
            pointers(&[("/data/text", "/count"); 33]),
            // More than 8 KiB in all.
            pointers(&[("", ""); 32]),
        ];
        for extra in lists {
            requests.push(Request { extra, ..request(call, "", "a") });
        }
    }

    let [borrowed, copied] = plugins().await;
    let mut answers = Vec::new();
    for request in &requests {
        let expected = reconcile(&copied, request, StubHost::new("{}").with_object(object()), &limits).await;
        let answer = reconcile(&borrowed, request, StubHost::new("{}").with_object(object()), &limits).await;
        assert_eq!(answer, expected, "{request:?}");
        answers.push(answer);
    }
    // The table meets answers as well as each kind of error.
    let met = |text: &str| {
        answers.iter().any(|(answer, lines)| answer.contains(text) || lines.iter().any(|line| line == text))
    };
    for text in [
        "done with 0 open handles",
        "some",
        "none",
        r#""a \"quoted\" ä""#,
        r#"a "quoted" ä"#,
        "object.field takes a pointer of at most 4096 bytes",
        "object.text takes a pointer of at most 4096 bytes",
        "object.fields takes at most 64 pointers, not 66",
        "object.texts takes a pointer of at most 4096 bytes",
        "limits.messageSize",
        "invalid utf-8",
        "out of bounds",
    ] {
        assert!(met(text), "no call ended with {text:?}: {answers:#?}");
    }
}

#[tokio::test]
async fn borrowed_and_copied_arguments_are_refused_alike_by_the_host_and_its_limits() {
    let none_open = InstanceLimits { handles: 0, ..InstanceLimits::default() };
    for plugin in plugins().await {
        let get = request(CACHE_GET, "configmaps", "a");
        // A stub host without an object refuses reads.
        let (answer, _) = reconcile(&plugin, &get, StubHost::new("{}"), &InstanceLimits::default()).await;
        assert_eq!(answer, "reconcile trapped: cache.get isn't available during reconcile");
        let host = StubHost::new("{}").with_object(object());
        let (answer, _) = reconcile(&plugin, &get, host, &none_open).await;
        assert!(answer.starts_with("reconcile exceeded limits.handles of 0"), "{answer}");
        let fault = match plugin.describe(Arc::new(StubHost::new("get")), &InstanceLimits::default()).await {
            Err(crate::DescribeError::Fault(fault)) => fault,
            other => panic!("{other:?}"),
        };
        let misuse = crate::Misuse::UnavailableInCall { function: "cache.get", call: "describe" };
        assert_eq!(fault.kind(), &FaultKind::Misuse(misuse));
    }
}
