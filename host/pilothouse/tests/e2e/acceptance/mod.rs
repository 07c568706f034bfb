//! Acceptance tests of the guest languages: one plugin, implemented in every language, runs one list of cases.
//!
//! `examples/acceptance/README.md` specifies the plugin. The test prints a table of language × case. To run one language while working
//! on its SDK: `PILOTHOUSE_ACCEPTANCE=js cargo test -p pilothouse --test e2e acceptance`.

mod cases;
mod driver;
mod language;
mod log;
mod table;

use crate::harness::{Host, Options};
use cases::Case;
use driver::Driver;
use language::Implementation;
use table::Table;

#[tokio::test(flavor = "multi_thread")]
async fn every_language_passes_every_case() {
    let chosen = std::env::var("PILOTHOUSE_ACCEPTANCE").ok().filter(|text| !text.is_empty());
    let implementations = Implementation::all().filter(|implementation| {
        chosen.as_ref().is_none_or(|chosen| chosen.split(',').any(|name| name == implementation.name))
    });
    let mut table = Table::new(cases::ALL);
    for implementation in implementations {
        if let Some(results) = run(implementation).await {
            table.add(implementation.name, results);
        }
    }
    table.print();
    table.assert_all_passed();
}

/// Runs every case with one implementation on a new host. Returns `None` if the server does not support fault injection.
async fn run(implementation: Implementation) -> Option<Vec<Result<(), String>>> {
    let host = Host::start_with(Options { test_faults: true, ..Options::default() }).await;
    if host.server.skip_if_external("the acceptance suite injects faults into the server") {
        return None;
    }
    let driver = Driver::start(host, implementation).await;
    let mut results = Vec::new();
    for case in cases::ALL {
        let attempt = std::panic::AssertUnwindSafe((case.run)(driver.for_case(case.name)));
        results.push(match futures::FutureExt::catch_unwind(attempt).await {
            Ok(result) => result,
            Err(panic) => Err(panic_text(panic.as_ref())),
        });
    }
    Some(results)
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_else(|| "panicked".into())
}

/// Every folder with an SDK or an acceptance plugin is in the list of languages, and every language has an acceptance plugin.
#[test]
fn every_language_has_an_acceptance_plugin() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = |path: &str| -> Vec<String> {
        let entries = std::fs::read_dir(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        let folders = entries.filter_map(Result::ok).filter(|entry| entry.path().is_dir());
        folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let plugins = folders("examples/acceptance");
    let mut sdks = folders("guest-sdk");
    // The cases that the fake cluster of every SDK passes.
    sdks.retain(|name| name != "testing");
    for name in sdks.iter().chain(&plugins) {
        assert!(
            Implementation::all().any(|implementation| implementation.name == name),
            "{name} is not in the list of languages in host/toolchain/src/language.rs"
        );
    }
    for Implementation { name } in Implementation::all() {
        assert!(plugins.iter().any(|plugin| plugin == name), "examples/acceptance/{name} is missing");
    }
}

/// The names identify the cases in the table, and are part of the names of their objects.
#[test]
fn case_names_are_unique() {
    let mut names: Vec<_> = cases::ALL.iter().map(|case: &Case| case.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases::ALL.len());
}
