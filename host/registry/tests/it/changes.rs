//! Files of the operator that change while the source runs: the signature policy and the credentials.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilothouse_registry::{Digest, OnViolation, Problem, RegistrySettings};

use crate::fake_registry::{FakeRegistry, Faults, Login, PASSWORD, USER};
use crate::running_source::{RunningSource, entry, image, push, settings, write_policy};
use crate::signing::{Signer, attach_bundle};

/// A registry with a signed plugin, a policy that allows it, and a source that runs it.
struct Signed {
    registry: FakeRegistry,
    signer: Signer,
    wasm: Vec<u8>,
    digest: Digest,
    folder: tempfile::TempDir,
    source: RunningSource,
}

impl Signed {
    async fn start(on_violation: OnViolation) -> Self {
        let registry = FakeRegistry::start(Faults::default()).await;
        let (wasm, digest) = push(&registry, "p", "one").await;
        let signer = Signer::new();
        attach_bundle(&registry, "team/p", digest, &signer);
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| Some(folder.path().join(name));
        write_policy(&folder.path().join("policy.yaml"), &signer);
        std::fs::write(folder.path().join("config.json"), "{}").expect("written");
        let settings = RegistrySettings {
            policy: file("policy.yaml"),
            credentials: file("config.json"),
            on_violation,
            ..settings(&registry)
        };
        let entries = [entry("p", &image(&registry, "p"))];
        let source = RunningSource::start(&settings, &entries, &folder.path().join("cache"));
        source.wait_until_current("p").await;
        source.reports.verifications.lock().clear();
        Self { registry, signer, wasm, digest, folder, source }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn set_key(&self, signer: &Signer) {
        write_policy(&self.file("policy.yaml"), signer);
    }

    fn is_staged(&self) -> bool {
        let found = self.source.file("p.wasm");
        assert!(found.as_ref().is_none_or(|found| *found == self.wasm));
        found.is_some()
    }

    /// The results of the judgements since the last call.
    fn judgements(&self) -> Vec<Result<(), Problem>> {
        self.source.reports.verifications.lock().drain(..).map(|(_, result)| result).collect()
    }
}

#[tokio::test]
async fn a_changed_policy_reports_or_stops_what_it_does_not_allow_until_it_does_again() {
    for on_violation in [OnViolation::Report, OnViolation::Stop] {
        let signed = Signed::start(on_violation).await;
        signed.set_key(&Signer::new());
        signed.source.next_attempt().await;
        let problem = signed.source.problem("p").expect("a problem");
        assert!(problem.contains("another key") && problem.contains("`cosign sign`"), "{problem}");
        assert_eq!(
            problem.contains("the host keeps the version"),
            on_violation == OnViolation::Report,
            "{problem}"
        );
        assert_eq!(signed.is_staged(), on_violation == OnViolation::Report);

        signed.set_key(&signed.signer);
        signed.source.next_attempt().await;
        assert_eq!(signed.source.problem("p"), None);
        assert!(signed.is_staged());
    }
}

#[tokio::test]
async fn a_new_signature_satisfies_a_changed_policy() {
    let signed = Signed::start(OnViolation::Report).await;
    let other = Signer::new();
    attach_bundle(&signed.registry, "team/p", signed.digest, &other);
    signed.set_key(&other);
    signed.source.next_attempt().await;
    assert_eq!(signed.source.problem("p"), None);
    assert_eq!(signed.judgements(), [Ok(())], "the registry has a signature that the cache did not have");
}

#[tokio::test]
async fn each_attempt_counts_one_judgement_of_a_version() {
    for on_violation in [OnViolation::Report, OnViolation::Stop] {
        let signed = Signed::start(on_violation).await;
        signed.source.next_attempt().await;
        assert_eq!(signed.judgements(), [], "nothing has changed");
        signed.set_key(&Signer::new());
        for _ in 0..2 {
            signed.source.next_attempt().await;
            assert_eq!(signed.judgements(), [Err(Problem::Unverified)], "{on_violation:?}");
        }
        signed.registry.set_faults(Faults { busy: u32::MAX, ..Faults::default() });
        signed.source.next_attempt().await;
        let judged = signed.judgements();
        match on_violation {
            OnViolation::Report => assert_eq!(judged, [Err(Problem::Unverified)], "by the cache"),
            OnViolation::Stop => assert_eq!(judged, [], "there is no version"),
        }
        signed.registry.set_faults(Faults::default());
        push(&signed.registry, "p", "two").await;
        signed.source.next_attempt().await;
        let versions = if on_violation == OnViolation::Report { 2 } else { 1 };
        assert_eq!(signed.judgements(), vec![Err(Problem::Unverified); versions], "{on_violation:?}");
    }
}

#[tokio::test]
async fn a_revoked_key_stops_a_plugin_also_if_the_registry_cannot_be_asked() {
    type Break = fn(&Signed);
    let breaks: [(&str, Break); 3] = [
        ("docker config.json", |signed| {
            std::fs::write(signed.file("config.json"), "nonsense").expect("written");
        }),
        ("cannot be read", |signed| std::fs::remove_file(signed.file("config.json")).expect("removed")),
        ("429", |signed| signed.registry.set_faults(Faults { busy: u32::MAX, ..Faults::default() })),
    ];
    for (reason, break_it) in breaks {
        let signed = Signed::start(OnViolation::Stop).await;
        break_it(&signed);
        signed.set_key(&Signer::new());
        signed.source.next_attempt().await;
        assert!(!signed.is_staged(), "{reason}");
        let problem = signed.source.problem("p").expect("a problem");
        assert!(problem.contains(reason) && problem.contains("another key"), "{problem}");
    }
}

/// The policy says nothing about the plugin then, and a file that is being replaced must not stop all plugins.
#[tokio::test]
async fn a_policy_that_cannot_be_read_stops_nothing_and_loads_nothing() {
    let signed = Signed::start(OnViolation::Stop).await;
    std::fs::write(signed.file("policy.yaml"), "rules: nonsense").expect("written");
    push(&signed.registry, "p", "two").await;
    signed.source.next_attempt().await;
    let problem = signed.source.problem("p").expect("a problem");
    assert!(problem.contains("policy.yaml") && problem.contains("the host keeps the version"), "{problem}");
    assert!(signed.is_staged());
    assert_eq!(signed.judgements(), []);
}

#[tokio::test]
async fn an_entry_with_a_wrong_interval_is_judged_by_a_changed_policy() {
    let signed = Signed::start(OnViolation::Stop).await;
    let Signed { registry, signer, folder, source, .. } = signed;
    drop(source);
    let settings = RegistrySettings {
        policy: Some(folder.path().join("policy.yaml")),
        on_violation: OnViolation::Stop,
        ..settings(&registry)
    };
    let mut wrong = entry("p", &image(&registry, "p"));
    wrong.poll = Some("1s".to_owned());
    let source = RunningSource::start(&settings, &[wrong], &folder.path().join("cache"));
    source.wait_for_problem("p", "at least 10s").await;
    assert!(source.file("p.wasm").is_some());
    write_policy(&folder.path().join("policy.yaml"), &Signer::new());
    source.next_attempt().await;
    assert_eq!(source.file("p.wasm"), None);
    write_policy(&folder.path().join("policy.yaml"), &signer);
    source.next_attempt().await;
    assert_eq!(source.file("p.wasm"), None, "nothing is pulled with a wrong interval");
    source.wait_for_problem("p", "at least 10s").await;
}

/// A change of its sidecar does not stop what an unreadable policy, or `report`, lets run.
#[tokio::test]
async fn an_added_plugin_whose_sidecar_changes_is_stopped_only_by_a_violation() {
    let registry = FakeRegistry::start(Faults::default()).await;
    let (_, digest) = push(&registry, "p", "one").await;
    let signer = Signer::new();
    attach_bundle(&registry, "team/p", digest, &signer);
    for (on_violation, is_readable, runs_on) in [
        (OnViolation::Stop, false, true),
        (OnViolation::Report, true, true),
        (OnViolation::Stop, true, false),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let policy = folder.path().join("policy.yaml");
        write_policy(&policy, &signer);
        let settings = RegistrySettings { policy: Some(policy.clone()), on_violation, ..settings(&registry) };
        let source = RunningSource::start(&settings, &[], &folder.path().join("cache"));
        let mut added = entry("p", &image(&registry, "p"));
        source.added.set(vec![added.clone()]);
        source.wait_until_current("p").await;

        match is_readable {
            true => write_policy(&policy, &Signer::new()),
            false => std::fs::write(&policy, "rules: nonsense").expect("written"),
        }
        source.reports.verifications.lock().clear();
        added.sidecar.as_mut().expect("a sidecar").insert("workers".to_owned(), 3.into());
        source.added.set(vec![added]);
        let reason = if is_readable { "another key" } else { "policy.yaml" };
        source.wait_for_problem("p", reason).await;
        assert_eq!(source.file("p.wasm").is_some(), runs_on, "{on_violation:?}");
        let sidecar = runs_on.then(|| br#"{"workers":3}"#.to_vec());
        assert_eq!(source.file("p.yaml"), sidecar, "{on_violation:?}");
    }
}

fn write_credentials(file: &Path, registry: &FakeRegistry, password: &str) {
    let auth = STANDARD.encode(format!("{USER}:{password}"));
    let text = serde_json::json!({"auths": {registry.host(): {"auth": auth}}});
    std::fs::write(file, text.to_string()).expect("written");
}

#[tokio::test]
async fn corrected_credentials_are_read_again() {
    for login in [Login::Basic, Login::Token] {
        let registry = FakeRegistry::start(Faults::default()).await;
        let (wasm, _) = push(&registry, "p", "one").await;
        registry.set_faults(Faults { login, ..Faults::default() });
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(".dockerconfigjson");
        write_credentials(&file, &registry, "wrong");
        let settings = RegistrySettings { credentials: Some(file.clone()), ..settings(&registry) };
        let entries = [entry("p", &image(&registry, "p"))];
        let source = RunningSource::start(&settings, &entries, &folder.path().join("cache"));
        source.wait_for_problem("p", "check the credentials for this registry").await;
        assert_eq!(*source.reports.pulls.lock(), [("p".to_owned(), Err(Problem::Denied))]);
        assert_eq!(source.file("p.wasm"), None);

        write_credentials(&file, &registry, PASSWORD);
        source.next_attempt().await;
        assert_eq!(source.problem("p"), None);
        assert_eq!(source.file("p.wasm"), Some(wasm));
    }
}
