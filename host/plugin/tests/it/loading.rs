//! Loading of plugins, and refusal of files that are not plugins.

use std::sync::Arc;

use pilothouse_plugin::{Compiler, Engine, EngineOptions, Exports, Form, Limits, LoadError, Outcome};

use crate::fake_host::FakeHost;
use crate::{assemble, engine, module_of, request, wat_of};

async fn refused(bytes: Vec<u8>) -> LoadError {
    let error = engine().load(bytes).await.expect_err("not a plugin");
    let line = error.to_string();
    assert!(line.lines().count() == 1 && line.len() < 2000, "{line}");
    error
}

/// Returns the error of loading `done.wat` with a replacement in its text.
async fn refused_when(from: &str, to: &str) -> String {
    let wat = wat_of("done");
    assert!(wat.contains(from));
    refused(assemble(&wat.replace(from, to))).await.to_string()
}

#[tokio::test]
async fn a_component_loads_like_a_core_module() {
    let component = component(&with_component_type(&module_of("done")));
    let code = engine().load(component).await.expect("a plugin");
    assert_eq!(code.form(), Form::Component);
    let mut instance =
        code.instantiate(Arc::new(FakeHost::default()), &Limits::default()).await.expect("an instance");
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
}

#[tokio::test]
async fn a_core_module_with_a_component_type_is_encoded_by_it() {
    let code = engine().load(with_component_type(&module_of("done"))).await.expect("a plugin");
    assert_eq!(code.form(), Form::CoreModule);
    let mut instance =
        code.instantiate(Arc::new(FakeHost::default()), &Limits::default()).await.expect("an instance");
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
}

pub(crate) fn component(module: &[u8]) -> Vec<u8> {
    wit_component::ComponentEncoder::default()
        .module(module)
        .and_then(|encoder| encoder.validate(true).encode())
        .expect("a component")
}

/// Adds the component type of the world `reconciler` in a custom section, as toolchains do.
pub(crate) fn with_component_type(module: &[u8]) -> Vec<u8> {
    with_component_type_of(module, "0.1.0")
}

/// Adds the component type of the contract with another version.
fn with_component_type_of(module: &[u8], version: &str) -> Vec<u8> {
    let mut sources = wit_parser::SourceMap::new();
    for entry in
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit")).expect("the folder wit/")
    {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "wit") {
            let text = std::fs::read_to_string(&path).expect("text");
            sources.push(&path, text.replace("controller@0.1.0;", &format!("controller@{version};")));
        }
    }
    let mut resolve = wit_parser::Resolve::default();
    let parsed = sources.parse().map_err(|(_, error)| error).expect("wit/ parses");
    let package = resolve.push_group(parsed).expect("wit/ resolves");
    let world = resolve.select_world(&[package], Some("reconciler")).expect("world reconciler");
    let mut module = module.to_vec();
    wit_component::embed_component_metadata(
        &mut module,
        &resolve,
        world,
        wit_component::StringEncoding::UTF8,
    )
    .expect("a section");
    module
}

#[tokio::test]
async fn winch_runs_the_same_plugins() {
    let options = EngineOptions { compiler: Compiler::Winch, ..EngineOptions::default() };
    let engine = Engine::new(options).expect("an engine");
    let code = engine.load(module_of("wish")).await.expect("a plugin");
    let host = Arc::new(FakeHost::default());
    let mut instance = code.instantiate(host, &Limits::default()).await.expect("an instance");
    assert_eq!(instance.reconcile(request("nobody")).await, Ok(Outcome::Done));
}

#[tokio::test]
async fn a_truncated_file_is_refused_wherever_it_was_cut() {
    let module = module_of("done");
    for end in [5, 8, 9, 20, 100, module.len() / 2, module.len() - 1] {
        let error = refused(module[..end].to_vec()).await;
        // A module that was cut at the end of a section is valid, but has no exports of the contract.
        let is_clear = matches!(error, LoadError::Truncated { .. } | LoadError::NotAPlugin { .. });
        assert!(is_clear || matches!(error, LoadError::Invalid { .. }), "cut at {end}: {error}");
    }
    let cut_in_half = refused(module[..module.len() / 2].to_vec()).await;
    assert!(matches!(cut_in_half, LoadError::Truncated { .. }), "{cut_in_half}");
    assert_eq!(refused(Vec::new()).await, LoadError::Empty);
}

#[tokio::test]
async fn a_file_above_the_size_limit_is_refused() {
    let options = EngineOptions { max_code_size: 10, ..EngineOptions::default() };
    let engine = Engine::new(options).expect("an engine");
    let error = engine.load(module_of("done")).await.expect_err("too large");
    assert!(matches!(error, LoadError::TooLarge { limit: 10, .. }), "{error}");
}

#[tokio::test]
async fn wat_text_is_recognised() {
    let error = refused(wat_of("done").into_bytes()).await.to_string();
    assert!(error.contains("WebAssembly text") && error.contains("wasm-tools parse"), "{error}");
}

#[tokio::test]
async fn an_unsupported_version_of_the_contract_is_refused_with_both_versions() {
    let error = refused_when("@0.1.0", "@0.2.0").await;
    assert!(error.starts_with("built for pilothouse:controller@0.2.0, this host has 0.1.0"), "{error}");
}

#[tokio::test]
async fn a_plugin_for_a_later_patch_of_the_contract_loads() {
    // All its imports and exports are in 0.1.0.
    let later = wat_of("wish").replace("@0.1.0", "@0.1.7");
    let module = assemble(&later);
    let code = engine().load(module.clone()).await.expect("a core module for 0.1.7");
    assert_eq!(code.package_version(), "0.1.7");
    let host = Arc::new(FakeHost::default());
    host.put_wish("a", "done");
    let mut instance = code.instantiate(host, &Limits::default()).await.expect("an instance");
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));

    let component = component(&with_component_type_of(&module, "0.1.7"));
    let code = engine().load(component).await.expect("a component for 0.1.7");
    assert_eq!((code.form(), code.package_version()), (Form::Component, "0.1.7"));
    let host = Arc::new(FakeHost::default());
    host.put_wish("a", "done");
    let mut instance = code.instantiate(host, &Limits::default()).await.expect("an instance");
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
}

#[tokio::test]
async fn a_core_module_with_the_standard_names_loads() {
    let names = [
        ("pilothouse:controller/plugin@0.1.0#", "cm32p2|pilothouse:controller/plugin@0.1|"),
        ("pilothouse:controller/reconcile@0.1.0#", "cm32p2|pilothouse:controller/reconcile@0.1|"),
        ("(export \"memory\")", "(export \"cm32p2_memory\")"),
        ("(export \"cabi_realloc\")", "(export \"cm32p2_realloc\")"),
    ];
    let wat = names.iter().fold(wat_of("done"), |wat, (from, to)| wat.replace(from, to));
    let code = engine().load(assemble(&wat)).await.expect("a plugin");
    assert_eq!(code.package_version(), "0.1.0");
    let host = Arc::new(FakeHost::default());
    let mut instance = code.instantiate(host, &Limits::default()).await.expect("an instance");
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
}

#[tokio::test]
async fn a_component_of_another_world_is_refused_with_its_exports() {
    let error =
        refused_when("pilothouse:controller/plugin@0.1.0#describe", "example:shop/till@1.0.0#open").await;
    assert!(error.contains("example:shop/till@1.0.0#open"), "{error}");
    assert!(error.contains("expected pilothouse:controller/plugin@0.1.0"), "{error}");
    let command = refused(assemble(r#"(module (func (export "_start")))"#)).await.to_string();
    assert!(command.contains("a command with a main function"), "{command}");
    assert!(refused(assemble("(module)")).await.to_string().starts_with("exports nothing"));
}

#[tokio::test]
async fn a_plugin_that_only_computes_an_index_loads() {
    let text =
        wat_of("index").replacen(r#"(export "pilothouse:controller/reconcile@0.1.0#reconcile")"#, "", 1);
    let code = engine().load(assemble(&text)).await.expect("a plugin");
    assert_eq!(code.exports(), Exports { reconcile: false, observe: false, index: true });
}

#[tokio::test]
async fn a_plugin_without_a_callable_export_is_refused() {
    let error = refused_when("pilothouse:controller/reconcile@0.1.0#reconcile", "mine").await;
    assert!(error.contains("none of reconcile, observe"), "{error}");
}

#[tokio::test]
async fn an_unsupported_import_is_refused_with_the_supported_ones() {
    let import = |module: &str| format!("(module\n  (import \"{module}\" \"f\" (func))");
    let http = refused_when("(module", &import("wasi:http/incoming-handler@0.2.0")).await;
    assert!(
        http.starts_with("imports wasi:http/incoming-handler@0.2.0, which this host doesn't offer"),
        "{http}"
    );
    assert!(http.contains("cache, client, config, queue"), "{http}");
    let browser = refused_when("(module", &import("wbg")).await;
    assert!(browser.contains("without wasm-bindgen"), "{browser}");
    let unknown = refused_when("(module", &import("pilothouse:controller/teleport@0.1.0")).await;
    assert!(unknown.contains("imports pilothouse:controller/teleport@0.1.0"), "{unknown}");
    let function = refused_when("(module", &import("pilothouse:controller/cache@0.1.3")).await;
    assert!(
        function.starts_with("imports pilothouse:controller/cache@0.1.3#f, which this host"),
        "{function}"
    );
    assert!(function.contains("built for a later version of the contract: update the host"), "{function}");
}

#[tokio::test]
async fn a_module_with_the_right_names_and_wrong_types_is_refused() {
    let error = refused_when("(param $attempt i32)", "(param $attempt i64)").await;
    assert!(error.contains("can't be made into a component"), "{error}");
    assert!(error.contains("reconcile@0.1.0#reconcile"), "{error}");
}

#[tokio::test]
async fn a_component_whose_export_has_the_wrong_type_is_refused_at_load() {
    let component = r#"(component
        (core module $m (func (export "f") (param i32) (result i32) local.get 0))
        (core instance $i (instantiate $m))
        (func $f (param "x" u32) (result u32) (canon lift (core func $i "f")))
        (component $wrap (import "f" (func $f (param "x" u32) (result u32))) (export "describe" (func $f)))
        (component $wrap2 (import "f" (func $f (param "x" u32) (result u32))) (export "reconcile" (func $f)))
        (instance $plugin (instantiate $wrap (with "f" (func $f))))
        (instance $reconcile (instantiate $wrap2 (with "f" (func $f))))
        (export "pilothouse:controller/plugin@0.1.0" (instance $plugin))
        (export "pilothouse:controller/reconcile@0.1.0" (instance $reconcile)))"#;
    let error = refused(assemble(component)).await;
    assert!(
        matches!(&error, LoadError::WrongType { function, .. } if function.ends_with("#describe")),
        "{error}"
    );
}

#[tokio::test]
async fn the_error_for_a_function_of_a_later_version_says_to_update_the_host() {
    let component = r#"(component
        (import "pilothouse:controller/log@0.1.4" (instance (export "log-binary" (func (param "x" u32)))))
        (core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f")))
        (component $wrap (import "f" (func $f)) (export "f" (func $f)))
        (instance $any (instantiate $wrap (with "f" (func $f))))
        (export "pilothouse:controller/plugin@0.1.4" (instance $any))
        (export "pilothouse:controller/reconcile@0.1.4" (instance $any)))"#;
    let error = refused(assemble(component)).await.to_string();
    assert!(
        error.starts_with("imports pilothouse:controller/log@0.1.4#log-binary, which this host"),
        "{error}"
    );
    assert!(error.contains("update the host"), "{error}");
}

#[tokio::test]
async fn a_module_for_another_host_is_refused_by_its_exports() {
    let error = refused(assemble(r#"(module (import "env" "f" (func)) (func (export "run")))"#)).await;
    assert!(matches!(error, LoadError::NotAPlugin { .. }), "{error}");
}
