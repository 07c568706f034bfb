//! Which signatures a policy accepts: formats, ways to find them, and what can be wrong with them.

use std::path::Path;

use bytes::Bytes;
use http::Method;
use pilothouse_registry::{
    Artifact, ClientOptions, Decision, Digest, Layout, Limits, ManifestDocument, Problem, Reference,
    RegistryClient, RegistryError, SignaturePolicy, collect_signatures, media_type, verify,
};

use crate::fake_registry::{FakeRegistry, Faults, Referrers};
use crate::signing::{
    Authority, ISSUER, SUBJECT, Signer, attach, attach_bundle, attach_legacy, bundle, list_in_tag,
};

const REPOSITORY: &str = "team/p";

/// A registry with one plugin.
struct Stage {
    registry: FakeRegistry,
    client: RegistryClient,
    reference: Reference,
    document: ManifestDocument,
    folder: tempfile::TempDir,
}

impl Stage {
    async fn new() -> Self {
        let registry = FakeRegistry::start(Faults::default()).await;
        let reference = registry.reference("team/p:1");
        let options = ClientOptions { plain_http: true, ..ClientOptions::default() };
        let client = RegistryClient::new(&reference, registry.tls(), None, options).expect("a client");
        let wasm = b"\0asm\x01\0\0\0plugin";
        let artifact = Artifact::of(wasm, Layout::Cncf).expect("wasm");
        client.push(&reference, &artifact, Bytes::from_static(wasm)).await.expect("pushed");
        let document = client.manifest(&reference).await.expect("a manifest");
        Self { registry, client, reference, document, folder: tempfile::tempdir().expect("a folder") }
    }

    fn digest(&self) -> Digest {
        self.document.digest
    }

    /// Judges the plugin by a policy with one rule for it.
    async fn judge(&self, rule: &str) -> Result<Decision, RegistryError> {
        let root = self.folder.path().join("root.json");
        let root = if root.exists() { "trustRoot: root.json\n" } else { "" };
        let text = format!("{root}rules:\n- {{match: ['**'], {rule}}}\n");
        let policy = SignaturePolicy::parse(text.as_bytes(), self.folder.path()).expect(&text);
        let signatures = collect_signatures(&self.client, &policy, &self.reference, &self.document).await?;
        verify(Some(&policy), &self.reference, &self.document, &signatures)
    }

    /// Judges by a rule that needs this key.
    async fn judge_key(&self, signer: &Signer) -> Result<Decision, RegistryError> {
        self.judge(&signers(&[("a", signer)])).await
    }

    async fn refusal(&self, rule: &str) -> String {
        let error = self.judge(rule).await.expect_err("refused");
        assert_eq!(error.problem(), Problem::Unverified, "{error}");
        assert!(!error.is_transient());
        error.to_string()
    }
}

fn signers(signers: &[(&str, &Signer)]) -> String {
    let entries = signers.iter().map(|(name, signer)| {
        let pem = signer.pem().replace('\r', "").replace('\n', "\\n");
        format!("{{name: {name}, key: \"{pem}\"}}")
    });
    format!("signers: [{}]", entries.collect::<Vec<_>>().join(", "))
}

fn keyless(subject: &str, issuer: &str) -> String {
    format!("signers: [{{name: ci, keyless: {{issuer: '{issuer}', {subject}}}}}]")
}

fn signed(names: &[&str]) -> Decision {
    Decision::Signed(names.iter().map(|&name| name.to_owned()).collect())
}

#[tokio::test]
async fn a_plugin_without_a_signature_is_refused() {
    let stage = Stage::new().await;
    let text = stage.refusal(&signers(&[("release", &Signer::new())])).await;
    assert!(
        text.contains("there is no signature") && text.contains("release") && text.contains("cosign sign"),
        "{text}"
    );
    assert_eq!(stage.judge("unsigned: true").await, Ok(Decision::Unsigned));
    assert_eq!(verify(None, &stage.reference, &stage.document, &[]), Ok(Decision::NoPolicy));
}

#[tokio::test]
async fn a_reference_without_a_rule_is_refused() {
    let stage = Stage::new().await;
    let policy = b"rules: [{match: ['other.example/**'], unsigned: true}]";
    let policy = SignaturePolicy::parse(policy, Path::new("")).expect("a policy");
    let error = verify(Some(&policy), &stage.reference, &stage.document, &[]).expect_err("refused");
    assert!(error.to_string().contains("add a rule"), "{error}");
}

#[tokio::test]
async fn a_key_verifies_both_formats_however_they_are_found() {
    let signer = Signer::new();
    let legacy = Stage::new().await;
    attach_legacy(&legacy.registry, REPOSITORY, legacy.digest(), &signer);
    assert_eq!(legacy.judge_key(&signer).await, Ok(signed(&["a"])));

    let bundled = Stage::new().await;
    attach_bundle(&bundled.registry, REPOSITORY, bundled.digest(), &signer);
    assert_eq!(bundled.judge_key(&signer).await, Ok(signed(&["a"])), "by the referrers API");
    bundled.registry.set_faults(Faults { referrers: Referrers::WithTypeOfConfig, ..Faults::default() });
    assert_eq!(bundled.judge_key(&signer).await, Ok(signed(&["a"])), "with the config's type in the list");
    for referrers in [Referrers::NotFound, Referrers::Page] {
        let tagged = Stage::new().await;
        let text = bundle(tagged.digest(), &signer, "https://sigstore.dev/cosign/sign/v1");
        let attached = attach(&tagged.registry, REPOSITORY, tagged.digest(), &text);
        tagged.registry.set_faults(Faults { referrers, ..Faults::default() });
        assert!(tagged.judge_key(&signer).await.is_err(), "nothing lists it");
        list_in_tag(&tagged.registry, REPOSITORY, tagged.digest(), attached);
        assert_eq!(tagged.judge_key(&signer).await, Ok(signed(&["a"])), "by the tag");
    }
}

#[tokio::test]
async fn a_signature_by_another_key_does_not_count() {
    let stage = Stage::new().await;
    attach_bundle(&stage.registry, REPOSITORY, stage.digest(), &Signer::new());
    attach_legacy(&stage.registry, REPOSITORY, stage.digest(), &Signer::new());
    let text = stage.refusal(&signers(&[("release", &Signer::new())])).await;
    assert!(text.contains("another key") && text.contains("there are 2 signatures"), "{text}");
}

#[tokio::test]
async fn a_signature_of_another_manifest_does_not_count() {
    let signer = Signer::new();
    let other = Digest::of(b"another manifest");
    let bundled = Stage::new().await;
    let text = bundle(other, &signer, "https://sigstore.dev/cosign/sign/v1");
    attach(&bundled.registry, REPOSITORY, bundled.digest(), &text);
    assert!(bundled.refusal(&signers(&[("a", &signer)])).await.contains("another manifest"));
}

#[tokio::test]
async fn an_attestation_by_the_right_key_does_not_approve() {
    let signer = Signer::new();
    let stage = Stage::new().await;
    let text = bundle(stage.digest(), &signer, "https://cosign.sigstore.dev/attestation/vuln/v1");
    attach(&stage.registry, REPOSITORY, stage.digest(), &text);
    assert!(stage.refusal(&signers(&[("a", &signer)])).await.contains("attestation"));
}

#[tokio::test]
async fn an_altered_bundle_does_not_count_and_hides_no_good_one() {
    let signer = Signer::new();
    let stage = Stage::new().await;
    let text = bundle(stage.digest(), &signer, "https://sigstore.dev/cosign/sign/v1");
    for altered in [
        text.replace("publicKey", "nothing"),
        "{}".to_owned(),
        text.replace("\"sig\":\"M", "\"sig\":\"N"),
        "[".repeat(10_000),
    ] {
        assert_ne!(altered, text);
        attach(&stage.registry, REPOSITORY, stage.digest(), &altered);
    }
    stage.refusal(&signers(&[("a", &signer)])).await;
    attach(&stage.registry, REPOSITORY, stage.digest(), &text);
    assert_eq!(stage.judge_key(&signer).await, Ok(signed(&["a"])));
}

/// Whoever can push attaches artifacts of other types, large bundles and bundles by other keys.
#[tokio::test]
async fn whatever_else_is_attached_hides_no_good_signature() {
    let signer = Signer::new();
    for is_legacy in [false, true] {
        let stage = Stage::new().await;
        for number in 0..120 {
            let sbom = format!(
                r#"{{"schemaVersion":2,"artifactType":"application/spdx+json","config":{{"mediaType":"x","digest":"{digest}","size":{number}}},
                    "layers":[],"subject":{{"mediaType":"x","digest":"{digest}","size":1}}}}"#,
                digest = stage.digest(),
            );
            stage.registry.put_manifest(
                REPOSITORY,
                &Digest::of(sbom.as_bytes()).to_string(),
                sbom.as_bytes(),
            );
        }
        let other = bundle(stage.digest(), &Signer::new(), "https://sigstore.dev/cosign/sign/v1");
        for number in 0..3 {
            let large = format!("{other}{}", " ".repeat((3 << 20) + number));
            attach(&stage.registry, REPOSITORY, stage.digest(), &large);
        }
        for number in 0..120 {
            attach(&stage.registry, REPOSITORY, stage.digest(), &format!("{other}{}", " ".repeat(number)));
        }
        stage.refusal(&signers(&[("a", &signer)])).await;
        if is_legacy {
            attach_legacy(&stage.registry, REPOSITORY, stage.digest(), &signer);
        } else {
            attach_bundle(&stage.registry, REPOSITORY, stage.digest(), &signer);
        }
        assert_eq!(stage.judge_key(&signer).await, Ok(signed(&["a"])), "in the older format: {is_legacy}");
    }
}

/// A registry lists what is attached in an order that nobody chooses, so a good signature may be the last one.
#[tokio::test]
async fn a_good_signature_after_many_others_is_found() {
    let (signer, other) = (Signer::new(), Signer::new());
    let kind = "https://sigstore.dev/cosign/sign/v1";
    for (others, referrers_per_page) in [(505, None), (25, Some(1))] {
        let stage = Stage::new().await;
        let bad = bundle(stage.digest(), &other, kind);
        for number in 0..others {
            attach(&stage.registry, REPOSITORY, stage.digest(), &format!("{bad}{}", " ".repeat(number)));
        }
        let good = bundle(stage.digest(), &signer, kind);
        let good = attach(&stage.registry, REPOSITORY, stage.digest(), &good);
        let faults = Faults { referrers_per_page, last_referrer: Some(good), ..Faults::default() };
        stage.registry.set_faults(faults);
        assert_eq!(stage.judge_key(&signer).await, Ok(signed(&["a"])), "{referrers_per_page:?} in a page");
    }
}

#[tokio::test]
async fn few_signatures_that_count_for_nothing_are_kept() {
    let (signer, other) = (Signer::new(), Signer::new());
    let stage = Stage::new().await;
    let bad = bundle(stage.digest(), &other, "https://sigstore.dev/cosign/sign/v1");
    for number in 0..100 {
        attach(&stage.registry, REPOSITORY, stage.digest(), &format!("{bad}{}", " ".repeat(number)));
    }
    let policy = format!("rules:\n- {{match: ['**'], {}}}\n", signers(&[("a", &signer)]));
    let policy = SignaturePolicy::parse(policy.as_bytes(), Path::new("")).expect("a policy");
    let kept = collect_signatures(&stage.client, &policy, &stage.reference, &stage.document).await;
    assert_eq!(kept.expect("collected").len(), 32);
}

#[tokio::test]
async fn a_manifest_that_is_too_large_to_verify_is_refused() {
    let signer = Signer::new();
    let mut stage = Stage::new().await;
    attach_bundle(&stage.registry, REPOSITORY, stage.digest(), &signer);
    assert_eq!(stage.judge_key(&signer).await, Ok(signed(&["a"])));
    stage.document.text.resize((64 << 10) + 1, b' ');
    let text = stage.refusal(&signers(&[("a", &signer)])).await;
    assert!(text.contains("65537 bytes") && text.contains("at most 65536"), "{text}");
    assert_eq!(stage.judge("unsigned: true").await, Ok(Decision::Unsigned));
}

#[tokio::test]
async fn signatures_are_fetched_until_they_are_enough_and_up_to_a_number() {
    let mut stage = Stage::new().await;
    let limits = Limits { referrers: 10, ..Limits::default() };
    let options = ClientOptions { plain_http: true, limits, ..ClientOptions::default() };
    stage.client =
        RegistryClient::new(&stage.reference, stage.registry.tls(), None, options).expect("a client");
    let signer = Signer::new();
    let text = bundle(stage.digest(), &signer, "https://sigstore.dev/cosign/sign/v1");
    for number in 0..30 {
        attach(&stage.registry, REPOSITORY, stage.digest(), &format!("{text}{}", " ".repeat(number)));
    }
    let before = stage.registry.count(&Method::GET, "/blobs/");
    assert_eq!(stage.judge_key(&signer).await, Ok(signed(&["a"])));
    assert_eq!(stage.registry.count(&Method::GET, "/blobs/"), before + 1);
    let error = stage.judge_key(&Signer::new()).await.expect_err("too many");
    assert_eq!(error.problem(), Problem::TooLarge);
    assert!(error.to_string().contains("remove what is attached"), "{error}");
    assert_eq!(stage.registry.count(&Method::GET, "/blobs/"), before + 1 + 10);
    attach_legacy(&stage.registry, REPOSITORY, stage.digest(), &signer);
    let all = signers(&[("a", &signer), ("b", &Signer::new())]);
    assert_eq!(stage.judge(&format!("require: any, {all}")).await, Ok(signed(&["a"])));
}

#[tokio::test]
async fn what_is_attached_is_read_up_to_a_size() {
    let mut stage = Stage::new().await;
    let limits = Limits { attached: 100_000, ..Limits::default() };
    let options = ClientOptions { plain_http: true, limits, ..ClientOptions::default() };
    stage.client =
        RegistryClient::new(&stage.reference, stage.registry.tls(), None, options).expect("a client");
    let signer = Signer::new();
    let text = bundle(stage.digest(), &Signer::new(), "https://sigstore.dev/cosign/sign/v1");
    for number in 0..10 {
        let large = format!("{text}{}", " ".repeat(50_000 + number));
        attach(&stage.registry, REPOSITORY, stage.digest(), &large);
    }
    let error = stage.judge_key(&signer).await.expect_err("too much");
    assert_eq!(error.problem(), Problem::TooLarge);
    assert!(error.to_string().contains("100000 bytes"), "{error}");
    assert_eq!(stage.registry.count(&Method::GET, "/blobs/"), 2);
    attach_legacy(&stage.registry, REPOSITORY, stage.digest(), &signer);
    assert_eq!(stage.judge_key(&signer).await, Ok(signed(&["a"])), "the older format has a limit of its own");
}

/// Whoever can push writes the tag that replaces the referrers API.
#[tokio::test]
async fn a_damaged_list_of_referrers_hides_no_signature_in_the_older_format() {
    let signer = Signer::new();
    let stage = Stage::new().await;
    attach_legacy(&stage.registry, REPOSITORY, stage.digest(), &signer);
    stage.registry.set_faults(Faults { referrers: Referrers::NotFound, ..Faults::default() });
    let tag = format!("sha256-{}", stage.digest().hex());
    stage.registry.put_manifest(REPOSITORY, &tag, br#"{"schemaVersion":2,"manifests":7}"#);
    assert_eq!(stage.judge_key(&signer).await, Ok(signed(&["a"])));
    let error = stage.judge_key(&Signer::new()).await.expect_err("a damaged list");
    assert!(
        error.to_string().contains("cannot be read") && error.to_string().contains("remove it"),
        "{error}"
    );
}

/// Whoever can push attaches an artifact with a digest of another algorithm, and the registry lists it.
#[tokio::test]
async fn an_entry_of_the_list_that_cannot_be_read_hides_no_signature() {
    let signer = Signer::new();
    let stage = Stage::new().await;
    let text = bundle(stage.digest(), &signer, "https://sigstore.dev/cosign/sign/v1");
    let attached = attach(&stage.registry, REPOSITORY, stage.digest(), &text);
    stage.registry.set_faults(Faults { referrers: Referrers::NotFound, ..Faults::default() });
    let list = serde_json::json!({"schemaVersion": 2, "manifests": [
        {"mediaType": media_type::MANIFEST, "digest": format!("sha512:{}", "0".repeat(128)), "size": 1},
        {"mediaType": media_type::MANIFEST, "digest": attached.to_string(), "size": 1},
    ]});
    let tag = format!("sha256-{}", stage.digest().hex());
    stage.registry.put_manifest(REPOSITORY, &tag, list.to_string().as_bytes());
    assert_eq!(stage.judge_key(&signer).await, Ok(signed(&["a"])));
}

#[tokio::test]
async fn some_of_several_signers_can_be_enough() {
    let (first, second, third) = (Signer::new(), Signer::new(), Signer::new());
    let all = signers(&[("first", &first), ("second", &second), ("third", &third)]);
    let stage = Stage::new().await;
    attach_bundle(&stage.registry, REPOSITORY, stage.digest(), &first);
    assert_eq!(stage.judge(&format!("require: any, {all}")).await, Ok(signed(&["first"])));
    assert!(stage.refusal(&format!("require: 2, {all}")).await.contains("1 of the 2"));
    attach_legacy(&stage.registry, REPOSITORY, stage.digest(), &third);
    assert_eq!(stage.judge(&format!("require: 2, {all}")).await, Ok(signed(&["first", "third"])));
    assert!(stage.refusal(&all).await.contains("second"), "all, unless the rule says otherwise");
}

#[tokio::test]
async fn annotations_have_to_be_signed() {
    let signer = Signer::new();
    let stage = Stage::new().await;
    attach_bundle(&stage.registry, REPOSITORY, stage.digest(), &signer);
    let rule = |value: &str| {
        signers(&[("a", &signer)]).replace("}]", &format!(", annotations: {{env: {value}}}}}]"))
    };
    assert_eq!(stage.judge(&rule("prod")).await, Ok(signed(&["a"])));
    assert!(stage.refusal(&rule("test")).await.contains("annotations"));
}

#[tokio::test]
async fn a_registry_that_fails_is_not_an_unsigned_plugin() {
    let stage = Stage::new().await;
    stage.registry.set_faults(Faults { busy: 1000, ..Faults::default() });
    let error = stage.judge_key(&Signer::new()).await.expect_err("busy");
    assert!(error.is_transient(), "{error}");
}

#[tokio::test]
async fn a_moved_tag_is_judged_by_its_new_digest() {
    let signer = Signer::new();
    let mut stage = Stage::new().await;
    attach_legacy(&stage.registry, REPOSITORY, stage.digest(), &signer);
    let wasm = b"\0asm\x01\0\0\0malicious";
    let artifact = Artifact::of(wasm, Layout::Cncf).expect("wasm");
    stage.client.push(&stage.reference, &artifact, Bytes::from_static(wasm)).await.expect("pushed");
    let signed_manifest = stage.digest();
    stage.document = stage.client.manifest(&stage.reference).await.expect("a manifest");
    assert_ne!(stage.digest(), signed_manifest);
    assert!(stage.judge_key(&signer).await.is_err());
}

#[tokio::test]
async fn a_certificate_names_who_signed() {
    let authority = Authority::new();
    let stage = Stage::new().await;
    std::fs::write(stage.folder.path().join("root.json"), authority.trust_root()).expect("written");
    authority.attach_keyless(&stage.registry, REPOSITORY, stage.digest(), 2024);
    assert_eq!(stage.judge(&keyless(&format!("subject: '{SUBJECT}'"), ISSUER)).await, Ok(signed(&["ci"])));
    let pattern = "subjectRegex: 'https://github.example/team/.*'";
    assert_eq!(stage.judge(&keyless(pattern, ISSUER)).await, Ok(signed(&["ci"])));
    for (subject, issuer) in [
        ("subject: someone@else.example", ISSUER),
        ("subjectRegex: 'https://github.example/other/.*'", ISSUER),
        ("subjectRegex: 'github.example/team'", ISSUER),
        (pattern, "https://another.example"),
    ] {
        stage.refusal(&keyless(subject, issuer)).await;
    }
}

#[tokio::test]
async fn a_certificate_that_was_not_valid_when_the_log_saw_it_does_not_count() {
    let authority = Authority::new();
    let stage = Stage::new().await;
    std::fs::write(stage.folder.path().join("root.json"), authority.trust_root()).expect("written");
    for year in [2023, 2025] {
        authority.attach_keyless(&stage.registry, REPOSITORY, stage.digest(), year);
        stage.refusal(&keyless(&format!("subject: '{SUBJECT}'"), ISSUER)).await;
    }
}

#[tokio::test]
async fn a_certificate_of_another_authority_does_not_count() {
    let (trusted, other) = (Authority::new(), Authority::new());
    let stage = Stage::new().await;
    std::fs::write(stage.folder.path().join("root.json"), trusted.trust_root()).expect("written");
    other.attach_keyless(&stage.registry, REPOSITORY, stage.digest(), 2024);
    stage.refusal(&keyless(&format!("subject: '{SUBJECT}'"), ISSUER)).await;
}

/// Each entry is verified, and whoever can push decides how many there are.
#[tokio::test]
async fn a_bundle_with_many_log_entries_does_not_count() {
    let authority = Authority::new();
    let rule = keyless(&format!("subject: '{SUBJECT}'"), ISSUER);
    for (entries, counts) in [(1, true), (8, true), (9, false), (100, false)] {
        let stage = Stage::new().await;
        std::fs::write(stage.folder.path().join("root.json"), authority.trust_root()).expect("written");
        let text = authority.keyless_bundle(&stage.document.text, entries);
        attach(&stage.registry, REPOSITORY, stage.digest(), &text);
        if counts {
            assert_eq!(stage.judge(&rule).await, Ok(signed(&["ci"])), "{entries}");
        } else {
            assert!(stage.refusal(&rule).await.contains("more than 8 log entries"), "{entries}");
        }
    }
}

#[tokio::test]
async fn a_key_does_not_stand_for_an_identity() {
    let authority = Authority::new();
    let signer = Signer::new();
    let stage = Stage::new().await;
    std::fs::write(stage.folder.path().join("root.json"), authority.trust_root()).expect("written");
    attach_bundle(&stage.registry, REPOSITORY, stage.digest(), &signer);
    attach_legacy(&stage.registry, REPOSITORY, stage.digest(), &signer);
    let text = stage.refusal(&keyless(&format!("subject: '{SUBJECT}'"), ISSUER)).await;
    assert!(text.contains("made with a key"), "{text}");
}
