//! Core modules with identifiers in place of the contract's names, as compilers write them that cannot choose names.

use std::sync::Arc;

use pilothouse_plugin::{Form, InstanceLimits, LoadError, Outcome};

use crate::fake_host::FakeHost;
use crate::{assemble, contract_version, engine, request, wat_of};

/// Replaces the names of the contract in a guest by aliases. Half of the imports are from `pilothouse`, the others from `env`.
fn with_aliases(name: &str) -> String {
    let mut wat = wat_of(name);
    for interface in ["plugin", "reconcile", "observe", "index"] {
        let own = format!("pilothouse:controller/{interface}@{}#", contract_version());
        wat = wat.replace(&own, "ph_");
    }
    let mut lines: Vec<String> = wat.lines().map(str::to_owned).collect();
    let mut imports = 0;
    for line in &mut lines {
        let Some((before, rest)) = line.split_once("(import \"pilothouse:controller/") else { continue };
        let mut parts = rest.splitn(4, '"');
        let (Some(module), Some(_), Some(name), Some(after)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            panic!("an import in one line: {line}");
        };
        let interface = module.split('@').next().expect("a name");
        let function = match name.strip_prefix("[resource-drop]") {
            Some(resource) => format!("{resource}_drop"),
            None => name.replace("[method]", "").replace(['.', '-'], "_"),
        };
        let module = if imports % 2 == 0 { "pilothouse\" \"" } else { "env\" \"ph_" };
        *line = format!("{before}(import \"{module}{interface}_{function}\"{after}");
        imports += 1;
    }
    let wat = lines.join("\n");
    assert!(!wat.contains("(import \"pilothouse:controller/") && wat.contains("\"ph_describe\""), "{wat}");
    wat
}

#[tokio::test]
async fn a_core_module_with_aliases_runs() {
    let wat = with_aliases("wish");
    assert!(wat.contains("(import \"pilothouse\"") && wat.contains("(import \"env\""), "{wat}");
    let code = engine().load(assemble(&wat)).await.unwrap_or_else(|error| panic!("{error}\n{wat}"));
    assert_eq!((code.form(), code.package_version()), (Form::CoreModule, contract_version()));
    let host = Arc::new(FakeHost::default());
    host.put_wish("a", "done");
    let mut instance = code.instantiate(host, &InstanceLimits::default()).await.expect("an instance");
    assert_eq!(instance.reconcile(request("a")).await, Ok(Outcome::Done));
}

#[tokio::test]
async fn an_alias_with_the_wrong_type_is_refused_with_the_name_in_the_contract() {
    let wat = with_aliases("done").replace("(param $attempt i32)", "(param $attempt i64)");
    let error = engine().load(assemble(&wat)).await.expect_err("a wrong type").to_string();
    assert!(error.contains(&format!("reconcile@{}#reconcile", contract_version())), "{error}");
}

#[tokio::test]
async fn an_alias_that_does_not_exist_is_refused_with_a_similar_one() {
    let wat = with_aliases("done").replace("ph_reconcile", "ph_reconcyle");
    let error = engine().load(assemble(&wat)).await.expect_err("an unknown alias");
    assert!(matches!(error, LoadError::Alias { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("`ph_reconcyle`") && text.contains("`ph_reconcile`"), "{text}");
    assert!(text.contains("pilothouse abi"), "{text}");
}
