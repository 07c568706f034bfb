//! "Any wasm language", tested: one plugin, written in every language, through one list of cases.
//!
//! What the plugin does is specified in `examples/acceptance/README.md`. The test prints a table of language × case. To run one language
//! while working on its SDK: `PILOTHOUSE_ACCEPTANCE=js cargo test -p pilothouse --test e2e acceptance`.

mod cases;
mod driver;
mod language;
mod log;
mod table;

use crate::harness::{Host, Options};
use cases::Case;
use driver::Driver;
use language::Language;
use table::Table;

#[tokio::test(flavor = "multi_thread")]
async fn every_language_passes_every_case() {
    let chosen = std::env::var("PILOTHOUSE_ACCEPTANCE").ok().filter(|text| !text.is_empty());
    let languages = Language::ALL.iter().filter(|language| {
        chosen.as_ref().is_none_or(|chosen| chosen.split(',').any(|name| name == language.name))
    });
    let mut table = Table::new(cases::ALL);
    for language in languages {
        if let Some(results) = run(language).await {
            table.add(language.name, results);
        }
    }
    table.print();
    table.assert_all_passed();
}

/// Every case on one language, on a host of its own. None when the server under test makes that impossible, which has been said.
async fn run(language: &Language) -> Option<Vec<Result<(), String>>> {
    let host = Host::start_with(Options { test_faults: true, ..Options::default() }).await;
    if host.server.skips("the acceptance suite injects faults into the server") {
        return None;
    }
    let driver = Driver::start(host, language).await;
    let mut results = Vec::new();
    for case in cases::ALL {
        let tried = std::panic::AssertUnwindSafe((case.run)(driver.for_case(case.name)));
        results.push(match futures::FutureExt::catch_unwind(tried).await {
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

/// A language that has an SDK or an acceptance plugin has an entry, and every entry has a plugin.
#[test]
fn no_language_is_left_out() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = |path: &str| -> Vec<String> {
        let entries = std::fs::read_dir(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        let folders = entries.filter_map(Result::ok).filter(|entry| entry.path().is_dir());
        folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let plugins = folders("examples/acceptance");
    for name in folders("guest-sdk").iter().chain(&plugins) {
        assert!(
            Language::ALL.iter().any(|language| language.name == name),
            "{name} has no entry in Language::ALL"
        );
    }
    for language in Language::ALL {
        assert!(
            plugins.iter().any(|name| name == language.name),
            "examples/acceptance/{} is missing",
            language.name
        );
    }
}

/// The cases are told apart by name: in the table, and in the objects that they make.
#[test]
fn no_two_cases_have_one_name() {
    let mut names: Vec<_> = cases::ALL.iter().map(|case: &Case| case.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases::ALL.len());
}
