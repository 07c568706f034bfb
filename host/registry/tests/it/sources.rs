//! The source that keeps a host's plugins up to date: what it puts into the folder, and what it reports.

use pilothouse_registry::{OnViolation, Problem, RegistrySettings};

use crate::fake_registry::{FakeRegistry, Faults};
use crate::running_source::{RunningSource, entry, image, push, settings, write_policy};
use crate::signing::{Signer, attach_bundle};

#[tokio::test]
async fn a_bad_entry_affects_its_own_plugin_only() {
    let registry = FakeRegistry::start(Faults::default()).await;
    let (wasm, _) = push(&registry, "good", "one").await;
    let cache = tempfile::tempdir().expect("a folder");
    let mut impatient = entry("impatient", &image(&registry, "good"));
    impatient.poll = Some("1s".to_owned());
    let entries = [
        entry("good", &image(&registry, "good")),
        entry("absent", &image(&registry, "absent")),
        entry("nonsense", "oci://nonsense"),
        impatient,
    ];
    let running = RunningSource::start(&settings(&registry), &entries, cache.path());
    running.wait_until_current("good").await;
    running.wait_for_problem("absent", "404").await;
    running.wait_for_problem("nonsense", "write oci://").await;
    running.wait_for_problem("impatient", "at least 10s").await;
    assert_eq!(*running.reports.pulling.lock(), ["good", "absent", "impatient"]);
    assert_eq!(running.file("good.wasm"), Some(wasm));
    assert_eq!(running.file("good.yaml").as_deref(), Some(&br#"{"workers":2}"#[..]));
    assert_eq!((running.file("absent.wasm"), running.file("absent.yaml")), (None, None));
    assert_eq!(*running.reports.updates.lock(), ["good"]);
    let pulls = running.reports.pulls.lock();
    for (plugin, result) in [
        ("good", Ok(())),
        ("absent", Err(Problem::NotFound)),
        ("nonsense", Err(Problem::Invalid)),
        ("impatient", Err(Problem::Invalid)),
    ] {
        assert!(pulls.contains(&(plugin.to_owned(), result)), "{plugin}: {pulls:?}");
    }
    assert!(running.reports.verifications.lock().is_empty(), "there is no policy");
}

#[tokio::test]
async fn plugins_wait_for_a_cache_that_cannot_be_used_and_run_once_it_can() {
    let registry = FakeRegistry::start(Faults::default()).await;
    let (wasm, _) = push(&registry, "p", "one").await;
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("volume/oci");
    // A file in the place of the volume.
    std::fs::write(folder.path().join("volume"), "").expect("written");
    let entries = [entry("p", &image(&registry, "p"))];
    let running = RunningSource::start(&settings(&registry), &entries, &cache);
    running.wait_for_problem("p", "cannot be used").await;
    running.added.set(vec![entry("q", &image(&registry, "p"))]);
    running.next_attempt().await;
    running.wait_for_problem("q", "cannot be used").await;
    assert_eq!(running.reports.pulls.lock()[0], ("p".to_owned(), Err(Problem::Cache)));
    assert!(!*running.reports.is_opened.lock());

    std::fs::remove_file(folder.path().join("volume")).expect("removed");
    running.next_attempt().await;
    running.wait_until_current("p").await;
    running.wait_until_current("q").await;
    assert_eq!((running.file("p.wasm"), running.file("q.wasm")), (Some(wasm.clone()), Some(wasm)));
    assert!(*running.reports.is_opened.lock());
}

#[tokio::test]
async fn a_restart_without_the_registry_works_from_the_cache() {
    let registry = FakeRegistry::start(Faults::default()).await;
    let (wasm, _) = push(&registry, "p", "one").await;
    let cache = tempfile::tempdir().expect("a folder");
    let (settings, entries) = (settings(&registry), [entry("p", &image(&registry, "p"))]);
    let first = RunningSource::start(&settings, &entries, cache.path());
    first.wait_until_current("p").await;
    drop((first, registry));

    let second = RunningSource::start(&settings, &entries, cache.path());
    assert_eq!(second.file("p.wasm"), Some(wasm.clone()), "before anything was asked");
    second.wait_for_problem("p", "the host keeps the version").await;
    assert_eq!(second.file("p.wasm"), Some(wasm));
    drop(second);

    let others = RunningSource::start(&settings, &[entry("p", "oci://127.0.0.1:1/other:1")], cache.path());
    assert_eq!(others.file("p.wasm"), None, "another repository has no version yet");
    let none = RunningSource::start(&settings, &[entry("q", "oci://127.0.0.1:1/q:1")], cache.path());
    assert_eq!(none.file("p.yaml"), None, "the plugin is not configured any more");
}

#[tokio::test]
async fn a_restart_loads_only_what_the_policy_of_today_allows() {
    let registry = FakeRegistry::start(Faults::default()).await;
    let (wasm, digest) = push(&registry, "p", "one").await;
    let signer = Signer::new();
    attach_bundle(&registry, "team/p", digest, &signer);
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("policy.yaml");
    write_policy(&policy, &signer);
    let settings = RegistrySettings { policy: Some(policy.clone()), ..settings(&registry) };
    let entries = [entry("p", &image(&registry, "p"))];
    let first = RunningSource::start(&settings, &entries, &folder.path().join("cache"));
    first.wait_until_current("p").await;
    drop((first, registry));

    let second = RunningSource::start(&settings, &entries, &folder.path().join("cache"));
    assert_eq!(second.file("p.wasm"), Some(wasm), "its signature is in the cache");
    drop(second);

    write_policy(&policy, &Signer::new());
    let third = RunningSource::start(&settings, &entries, &folder.path().join("cache"));
    assert_eq!(third.file("p.wasm"), None);
}

#[tokio::test]
async fn an_unsigned_version_does_not_replace_the_one_that_runs() {
    let registry = FakeRegistry::start(Faults::default()).await;
    let (wasm, digest) = push(&registry, "p", "one").await;
    let signer = Signer::new();
    attach_bundle(&registry, "team/p", digest, &signer);
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("policy.yaml");
    write_policy(&policy, &signer);
    let settings =
        RegistrySettings { policy: Some(policy), on_violation: OnViolation::Stop, ..settings(&registry) };
    let entries = [entry("p", &image(&registry, "p"))];
    let first = RunningSource::start(&settings, &entries, &folder.path().join("cache"));
    first.wait_until_current("p").await;
    drop(first);

    push(&registry, "p", "malicious").await;
    let second = RunningSource::start(&settings, &entries, &folder.path().join("cache"));
    second.wait_for_problem("p", "there is no signature").await;
    let unverified = ("p".to_owned(), Err(Problem::Unverified));
    assert_eq!(*second.reports.verifications.lock(), [("p".to_owned(), Ok(())), unverified.clone()]);
    assert_eq!(*second.reports.pulls.lock(), [unverified]);
    assert_eq!(
        second.file("p.wasm"),
        Some(wasm),
        "a new version is refused, and the old one still satisfies the policy"
    );
}
