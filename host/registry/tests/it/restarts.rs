//! Restarts: what the cache keeps, and what it forgets.

use std::path::Path;

use pilothouse_registry::{PluginEntry, RegistrySettings};

use crate::fake_registry::{FakeRegistry, Faults};
use crate::running_source::{RunningSource, entry, image, push, settings};

/// Less than two plugins have, and more than one has.
const CACHE_SIZE: u64 = 10_000;

/// Pushes plugins of a size of which the cache holds one, and returns their entries.
async fn push_large(registry: &FakeRegistry, names: &[&str]) -> Vec<PluginEntry> {
    for name in names {
        push(registry, name, &name.repeat(6000)).await;
    }
    names.iter().map(|name| entry(name, &image(registry, name))).collect()
}

/// Runs a source until all plugins are there. The first `configured` entries are of its configuration, the others are added.
async fn fill(settings: &RegistrySettings, entries: &[PluginEntry], configured: usize, cache: &Path) {
    let source = RunningSource::start(settings, &entries[..configured], cache);
    source.added.set(entries[configured..].to_vec());
    for entry in entries {
        source.wait_until_current(&entry.name).await;
        assert!(source.file(&format!("{}.wasm", entry.name)).is_some(), "{}", entry.name);
    }
}

fn blobs(cache: &Path) -> usize {
    std::fs::read_dir(cache.join("blobs")).expect("a folder").count()
}

#[tokio::test]
async fn a_restart_prunes_nothing_that_a_plugin_uses() {
    let registry = FakeRegistry::start(Faults::default()).await;
    let entries = push_large(&registry, &["a", "b", "c", "d"]).await;
    let settings = RegistrySettings { cache_size: Some(CACHE_SIZE), ..settings(&registry) };
    for configured in [4, 2] {
        let cache = tempfile::tempdir().expect("a folder");
        fill(&settings, &entries, configured, cache.path()).await;
        assert_eq!(blobs(cache.path()), 8, "manifests and layers");

        registry.set_faults(Faults { busy: u32::MAX, ..Faults::default() });
        let restarted = RunningSource::start(&settings, &entries[..configured], cache.path());
        for entry in &entries[..configured] {
            assert!(restarted.file(&format!("{}.wasm", entry.name)).is_some(), "{}", entry.name);
        }
        restarted.added.set(entries[configured..].to_vec());
        for entry in &entries[configured..] {
            restarted.wait_for_problem(&entry.name, "the host keeps the version").await;
            assert!(restarted.file(&format!("{}.wasm", entry.name)).is_some(), "{}", entry.name);
        }
        registry.set_faults(Faults::default());
    }
}

#[tokio::test]
async fn what_was_pulled_is_not_pruned_before_it_is_used() {
    let registry = FakeRegistry::start(Faults::default()).await;
    let entries = push_large(&registry, &["a", "b", "c", "d", "e", "f"]).await;
    let settings = RegistrySettings { cache_size: Some(0), ..settings(&registry) };
    let cache = tempfile::tempdir().expect("a folder");
    let source = RunningSource::start(&settings, &entries, cache.path());
    for entry in &entries {
        source.wait_until_current(&entry.name).await;
    }
    let failures = source.reports.pulls.lock().iter().filter(|(_, result)| result.is_err()).count();
    assert_eq!(failures, 0);
}

#[tokio::test]
async fn what_ran_before_the_restart_is_forgotten_once_all_plugins_are_known() {
    let registry = FakeRegistry::start(Faults::default()).await;
    let entries = push_large(&registry, &["a", "b", "c", "d"]).await;
    let settings = RegistrySettings { cache_size: Some(CACHE_SIZE), ..settings(&registry) };
    let cache = tempfile::tempdir().expect("a folder");
    fill(&settings, &entries, 2, cache.path()).await;

    let source = RunningSource::start(&settings, &entries[..1], cache.path());
    source.added.set_known(entries[2..3].to_vec());
    source.wait_until_current("c").await;
    assert_eq!((records(cache.path()), blobs(cache.path())), (names("abcd"), 8), "others may follow");

    source.added.set(entries[2..3].to_vec());
    // The source handles both changes in order.
    let absent = entry("absent", &image(&registry, "absent"));
    source.added.set(vec![entries[2].clone(), absent]);
    source.wait_for_problem("absent", "404").await;
    assert_eq!((records(cache.path()), blobs(cache.path())), (names("ac"), 4));
    assert!(source.file("a.wasm").is_some() && source.file("c.wasm").is_some());
}

#[tokio::test]
async fn a_host_without_added_plugins_keeps_nothing_for_them() {
    let registry = FakeRegistry::start(Faults::default()).await;
    let entries = push_large(&registry, &["a", "b", "c"]).await;
    let settings = RegistrySettings { cache_size: Some(0), ..settings(&registry) };
    let cache = tempfile::tempdir().expect("a folder");
    fill(&settings, &entries, 1, cache.path()).await;
    let source = RunningSource::start(&settings, &entries[..1], cache.path());
    source.added.set(Vec::new());
    source.wait_until_current("a").await;
    while records(cache.path()) != names("a") || blobs(cache.path()) != 2 {
        tokio::task::yield_now().await;
    }
}

fn records(cache: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(cache.join("records")).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

/// Names of one letter each.
fn names(letters: &str) -> Vec<String> {
    letters.chars().map(String::from).collect()
}
