//! Loading of plugins, and refusal of files that are not plugins.

use std::sync::Arc;

use pilothouse_plugin::{
    CacheDirectory, Engine, EngineOptions, Exports, Form, InstanceLimits, LoadError, Outcome,
};

use crate::fake_host::FakeHost;
use crate::{assemble, contract_version, engine, module_of, request, wat_built_against, wat_of};

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
    let mut instance = code
        .instantiate(Arc::new(FakeHost::default()), &InstanceLimits::default())
        .await
        .expect("an instance");
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
}

#[tokio::test]
async fn a_core_module_with_a_component_type_is_encoded_by_it() {
    let code = engine().load(with_component_type(&module_of("done"))).await.expect("a plugin");
    assert_eq!(code.form(), Form::CoreModule);
    let mut instance = code
        .instantiate(Arc::new(FakeHost::default()), &InstanceLimits::default())
        .await
        .expect("an instance");
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
    with_component_type_of(module, contract_version())
}

/// Adds the component type of the contract under another version.
fn with_component_type_of(module: &[u8], version: &str) -> Vec<u8> {
    let mut sources = wit_parser::SourceMap::new();
    for entry in
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit")).expect("the folder wit/")
    {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "wit") {
            let text = std::fs::read_to_string(&path).expect("text");
            let declaration = |version: &str| format!("package pilothouse:controller@{version};");
            sources.push(&path, text.replace(&declaration(contract_version()), &declaration(version)));
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

/// Returns the version after the contract's, to which functions would be added.
fn next_version() -> String {
    let (compatible, patch) = contract_version().rsplit_once('.').expect("three numbers");
    format!("{compatible}.{}", patch.parse::<u32>().expect("a number") + 1)
}

fn wrong_version(version: &str) -> String {
    let own = contract_version();
    format!(
        "built against pilothouse:controller@{version}, this host has {own}: update the host, or rebuild the plugin with an SDK for {own}"
    )
}

#[tokio::test]
async fn a_plugin_for_an_incompatible_version_of_the_contract_is_refused_with_both_versions() {
    for version in ["0.2.0", "1.0.0", "0.0.1"] {
        // All that it imports and exports is in this host's contract.
        let module = assemble(&wat_built_against("wish", version));
        let component = component(&with_component_type_of(&module, version));
        for file in [module.clone(), with_component_type_of(&module, version), component] {
            assert_eq!(refused(file).await.to_string(), wrong_version(version));
        }
    }
}

#[tokio::test]
async fn one_import_of_an_incompatible_version_of_the_contract_is_enough_to_be_refused() {
    for version in ["0.2.0", "0.0.1"] {
        let import = format!("(module\n  (import \"pilothouse:controller/log@{version}\" \"log\" (func))");
        assert_eq!(refused_when("(module", &import).await, wrong_version(version));
    }
}

#[tokio::test]
async fn a_plugin_for_a_compatible_version_of_the_contract_runs_in_every_form() {
    // 0.1.0 also with functions that were added later: plugins were built against it while it gained `object.texts`.
    for version in ["0.1.0", next_version().as_str()] {
        let module = assemble(&wat_built_against("wish", version));
        let with_type = with_component_type_of(&module, version);
        let component = component(&with_type);
        for (form, file) in
            [(Form::CoreModule, module), (Form::CoreModule, with_type), (Form::Component, component)]
        {
            let code =
                engine().load(file).await.unwrap_or_else(|error| panic!("{version}, {form:?}: {error}"));
            assert_eq!((code.form(), code.package_version()), (form, version));
            let host = Arc::new(FakeHost::default());
            host.put_wish("a", "done");
            let mut instance = code.instantiate(host, &InstanceLimits::default()).await.expect("an instance");
            assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
        }
    }
}

#[tokio::test]
async fn a_core_module_may_import_from_compatible_versions_of_the_contract() {
    let own = contract_version();
    let imports = format!("(import \"pilothouse:controller/objects@{own}\"");
    let wat = wat_of("wish");
    assert!(wat.contains(&imports));
    let code = engine().load(assemble(&wat.replace(&imports, &imports.replace(own, "0.1.0")))).await;
    let code = code.unwrap_or_else(|error| panic!("{error}"));
    let host = Arc::new(FakeHost::default());
    host.put_wish("a", "done");
    let mut instance = code.instantiate(host, &InstanceLimits::default()).await.expect("an instance");
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
}

#[tokio::test]
async fn a_core_module_with_the_standard_names_loads() {
    let own = contract_version();
    let names = [
        (format!("pilothouse:controller/plugin@{own}#"), "cm32p2|pilothouse:controller/plugin@0.1|"),
        (format!("pilothouse:controller/reconcile@{own}#"), "cm32p2|pilothouse:controller/reconcile@0.1|"),
        ("(export \"memory\")".to_owned(), "(export \"cm32p2_memory\")"),
        ("(export \"cabi_realloc\")".to_owned(), "(export \"cm32p2_realloc\")"),
    ];
    let wat = names.iter().fold(wat_of("done"), |wat, (from, to)| wat.replace(from, to));
    let code = engine().load(assemble(&wat)).await.expect("a plugin");
    assert_eq!(code.package_version(), own);
    let host = Arc::new(FakeHost::default());
    let mut instance = code.instantiate(host, &InstanceLimits::default()).await.expect("an instance");
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
}

#[tokio::test]
async fn a_component_of_another_world_is_refused_with_its_exports() {
    let plugin = format!("pilothouse:controller/plugin@{}", contract_version());
    let error = refused_when(&format!("{plugin}#describe"), "example:shop/till@1.0.0#open").await;
    assert!(error.contains("example:shop/till@1.0.0#open"), "{error}");
    assert!(error.contains(&format!("expected {plugin}")), "{error}");
    let command = refused(assemble(r#"(module (func (export "_start")))"#)).await.to_string();
    assert!(command.contains("a command with a main function"), "{command}");
    assert!(refused(assemble("(module)")).await.to_string().starts_with("exports nothing"));
}

#[tokio::test]
async fn a_plugin_that_only_computes_an_index_loads() {
    let wat = wat_of("index");
    let export = format!("(export \"pilothouse:controller/reconcile@{}#reconcile\")", contract_version());
    assert!(wat.contains(&export));
    let text = wat.replacen(&export, "", 1);
    let code = engine().load(assemble(&text)).await.expect("a plugin");
    assert_eq!(code.exports(), Exports { reconcile: false, observe: false, index: true });
}

#[tokio::test]
async fn a_plugin_without_a_callable_export_is_refused() {
    let export = format!("pilothouse:controller/reconcile@{}#reconcile", contract_version());
    let error = refused_when(&export, "mine").await;
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
    let interface = |name: &str| format!("pilothouse:controller/{name}@{}", contract_version());
    let unknown = refused_when("(module", &import(&interface("teleport"))).await;
    assert!(unknown.contains(&format!("imports {}", interface("teleport"))), "{unknown}");
    let function = refused_when("(module", &import(&interface("cache"))).await;
    assert!(
        function.starts_with(&format!("imports {}#f, which this host", interface("cache"))),
        "{function}"
    );
    assert!(function.contains("built for a later version of the contract: update the host"), "{function}");
}

#[tokio::test]
async fn a_module_with_the_right_names_and_wrong_types_is_refused() {
    let error = refused_when("(param $attempt i32)", "(param $attempt i64)").await;
    assert!(error.contains("can't be made into a component"), "{error}");
    assert!(error.contains(&format!("reconcile@{}#reconcile", contract_version())), "{error}");
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
        (export "pilothouse:controller/plugin@VERSION" (instance $plugin))
        (export "pilothouse:controller/reconcile@VERSION" (instance $reconcile)))"#;
    let error = refused(assemble(&component.replace("VERSION", contract_version()))).await;
    assert!(
        matches!(&error, LoadError::WrongType { function, .. } if function.ends_with("#describe")),
        "{error}"
    );
}

#[tokio::test]
async fn the_error_for_a_function_that_the_contract_lacks_says_to_update_the_host() {
    let component = r#"(component
        (import "pilothouse:controller/log@VERSION" (instance (export "log-binary" (func (param "x" u32)))))
        (core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f")))
        (component $wrap (import "f" (func $f)) (export "f" (func $f)))
        (instance $any (instantiate $wrap (with "f" (func $f))))
        (export "pilothouse:controller/plugin@VERSION" (instance $any))
        (export "pilothouse:controller/reconcile@VERSION" (instance $any)))"#;
    for version in ["0.1.0", contract_version()] {
        let error = refused(assemble(&component.replace("VERSION", version))).await.to_string();
        let expected = format!("imports pilothouse:controller/log@{version}#log-binary, which this host");
        assert!(error.starts_with(&expected), "{error}");
        assert!(error.contains("update the host"), "{error}");
    }
}

#[tokio::test]
async fn a_plugin_with_exports_that_have_no_effect_loads_with_warnings() {
    let realloc = "(func (export \"cabi_realloc\")";
    let wat = wat_of("done");
    assert!(
        wat.contains(realloc) && engine().load(assemble(&wat)).await.expect("a plugin").warnings().is_empty()
    );
    let post = format!("cabi_post_pilothouse:controller/plugin@{}#descibe", contract_version());
    let useless = format!("(func (export \"_start\")) (func (export \"{post}\") (param i32)) {realloc}");
    let module = assemble(&wat.replace(realloc, &useless));
    let folder = tempfile::tempdir().expect("a folder");
    let cache = CacheDirectory { path: folder.path().join("compiled"), max_bytes: 64 << 20 };
    // With a cache, the warnings are kept with the compiled code.
    for options in
        [EngineOptions::default(), EngineOptions { cache: Some(cache), ..EngineOptions::default() }]
    {
        let engine = Engine::new(options).expect("an engine");
        for _ in 0..2 {
            let code = engine.load(module.clone()).await.expect("a plugin");
            let warnings = code.warnings();
            assert_eq!(warnings.len(), 2, "{warnings:?}");
            assert!(warnings[0].contains("_start, which the host never calls"), "{warnings:?}");
            assert!(warnings[1].contains("#descibe") && warnings[1].ends_with("#describe?"), "{warnings:?}");
        }
    }
}

#[tokio::test]
async fn a_module_for_another_host_is_refused_by_its_exports() {
    let error = refused(assemble(r#"(module (import "env" "f" (func)) (func (export "run")))"#)).await;
    assert!(matches!(error, LoadError::NotAPlugin { .. }), "{error}");
}
