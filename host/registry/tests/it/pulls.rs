//! Pushes and pulls, and what a registry can do wrong in them.

#![expect(clippy::disallowed_methods, reason = "files have times of the system clock")]

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::Method;
use pilothouse_registry::{
    Artifact, Cache, CachedPlugin, ClientOptions, Credentials, Digest, Layout, Limits, Problem, Reference,
    RegistryClient, RegistryError, Timeouts, Tls, fetch, media_type,
};

use crate::fake_registry::{BlobFault, FakeRegistry, Faults, Login, Referrers, credentials};

const WASM: &[u8] = b"\0asm\x01\0\0\0a plugin of some length, so that half of it is something";

fn options(registry: &FakeRegistry) -> ClientOptions {
    ClientOptions { plain_http: !registry.has_tls(), ..ClientOptions::default() }
}

fn client(
    registry: &FakeRegistry,
    credentials: Option<Credentials>,
    options: ClientOptions,
) -> RegistryClient {
    RegistryClient::new(&registry.reference("a:1"), registry.tls(), credentials, options).expect("a client")
}

fn cache() -> (tempfile::TempDir, Cache) {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::open(folder.path(), SystemTime::now()).expect("a cache");
    (folder, cache)
}

/// Starts a registry with a plugin under `team/p:1`, and sets the faults after it was pushed.
async fn registry_with(faults: Faults) -> (FakeRegistry, Reference) {
    let registry = FakeRegistry::start(Faults::default()).await;
    let reference = registry.reference("team/p:1");
    push(&registry, &reference).await;
    registry.set_faults(faults);
    (registry, reference)
}

async fn push(registry: &FakeRegistry, reference: &Reference) -> Digest {
    let artifact = Artifact::of(WASM, Layout::Cncf).expect("wasm");
    let client = client(registry, None, options(registry));
    client.push(reference, &artifact, Bytes::from_static(WASM)).await.expect("pushed")
}

/// Pulls into the cache and returns the plugin's content.
async fn pull(
    client: &RegistryClient,
    cache: &Cache,
    reference: &Reference,
) -> Result<Vec<u8>, RegistryError> {
    let document = client.manifest(reference).await?;
    let plugin = fetch(client, cache, reference, &document).await?;
    plugin.wasm(cache, client.limits().artifact, "x")
}

/// Pulls from a registry with these faults, which must fail. Nothing of it may be in the cache.
async fn failure(faults: Faults) -> RegistryError {
    let is_silent = faults.silent || faults.blobs == BlobFault::Stalled;
    let (registry, reference) = registry_with(faults).await;
    // Nothing is waited for but a registry that stays silent, so a slow machine changes no outcome.
    let idle = if is_silent { Duration::from_millis(200) } else { Timeouts::default().idle };
    let timeouts = Timeouts { idle, ..Timeouts::default() };
    let client = client(&registry, None, ClientOptions { timeouts, ..options(&registry) });
    let (folder, cache) = cache();
    let error = pull(&client, &cache, &reference).await.expect_err("a failure");
    let left = std::fs::read_dir(folder.path().join("blobs")).expect("a folder").count();
    assert_eq!(left, 0, "{error}");
    error
}

#[tokio::test]
async fn what_is_pushed_is_pulled_by_tag_and_by_digest() {
    for layout in [Layout::Cncf, Layout::Legacy] {
        let registry = FakeRegistry::start(Faults::default()).await;
        let reference = registry.reference("team/p:1");
        let client = client(&registry, None, options(&registry));
        let artifact = Artifact::of(WASM, layout).expect("wasm");
        let digest = client.push(&reference, &artifact, Bytes::from_static(WASM)).await.expect("pushed");
        let (_folder, cache) = cache();
        assert_eq!(pull(&client, &cache, &reference).await.expect("pulled"), WASM);
        assert_eq!(pull(&client, &cache, &reference.pinned(digest)).await.expect("pulled"), WASM);
        let again = client.push(&reference, &artifact, Bytes::from_static(WASM)).await;
        assert_eq!(again.expect("pushed"), digest);
        assert_eq!(registry.count(&Method::PUT, "/blobs/"), 2, "blobs that exist are not sent again");
    }
}

#[tokio::test]
async fn the_registry_gets_the_credentials_that_it_asks_for() {
    for login in [Login::Basic, Login::Token] {
        let (registry, reference) = registry_with(Faults { login: login.clone(), ..Faults::default() }).await;
        let (_folder, cache) = cache();
        let with = client(&registry, Some(credentials()), options(&registry));
        assert_eq!(pull(&with, &cache, &reference).await.expect("pulled"), WASM);
        let rejected = registry.count(&Method::GET, "/manifests/");
        assert_eq!(rejected, 2, "{login:?}: only the first request is refused");
        let wrong = Credentials::Password { user: "bot".into(), password: "wrong".into() };
        for credentials in [None, Some(wrong)] {
            let error = client(&registry, credentials, options(&registry)).manifest(&reference).await;
            let error = error.expect_err("no access");
            assert_eq!(error.problem(), Problem::Denied, "{login:?}");
            assert!(
                error.to_string().contains("credentials") || error.to_string().contains("docker config.json"),
                "{error}"
            );
            assert!(!error.to_string().contains("wrong"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_hostile_realm_gets_no_request() {
    let victim = FakeRegistry::start_tls(Faults::default()).await;
    for realm in [
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "https://169.254.169.254/".to_owned(),
        "https://10.0.0.1/token".to_owned(),
        "https://[::1]/token".to_owned(),
        "https://localhost/token".to_owned(),
        format!("https://{}/token", victim.host()),
        "file:///etc/passwd".to_owned(),
        "https://user:secret@r.example/".to_owned(),
    ] {
        let (registry, reference) =
            registry_with(Faults { login: Login::TokenFrom(realm.clone()), ..Faults::default() }).await;
        let error = client(&registry, Some(credentials()), options(&registry)).manifest(&reference).await;
        let error = error.expect_err("refused");
        assert!(matches!(error.problem(), Problem::ForbiddenHost | Problem::Protocol), "{realm}: {error}");
    }
    assert!(victim.seen().is_empty());
}

#[tokio::test]
async fn a_trusted_token_server_may_have_a_private_address() {
    let tokens = FakeRegistry::start_tls(Faults::default()).await;
    let realm = format!("https://{}/token", tokens.host());
    let (registry, reference) =
        registry_with(Faults { login: Login::TokenFrom(realm), ..Faults::default() }).await;
    let options = ClientOptions { trusted_hosts: vec![tokens.host()], ..options(&registry) };
    let client =
        RegistryClient::new(&reference, tokens.tls(), Some(credentials()), options).expect("a client");
    client.manifest(&reference).await.expect("a manifest");
    assert_eq!(tokens.count(&Method::GET, "scope=repository%3Ateam%2Fp%3Apull"), 1);
}

#[tokio::test]
async fn a_redirect_carries_no_credentials_and_leads_to_no_private_address() {
    let cdn = FakeRegistry::start_tls(Faults::default()).await;
    let digest = cdn.put_blob(WASM);
    let target = format!("https://{}/v2/x/blobs/{digest}", cdn.host());
    let faults = Faults { login: Login::Basic, blobs: BlobFault::Redirect(target), ..Faults::default() };
    let (registry, reference) = registry_with(faults).await;
    let (_folder, cache) = cache();
    let strict = RegistryClient::new(&reference, cdn.tls(), Some(credentials()), options(&registry))
        .expect("a client");
    let error = pull(&strict, &cache, &reference).await.expect_err("a private address");
    assert_eq!(error.problem(), Problem::ForbiddenHost);
    assert!(error.to_string().contains("trustedHosts"), "{error}");
    assert!(cdn.seen().is_empty());

    let trusting = ClientOptions { trusted_hosts: vec![cdn.host()], ..options(&registry) };
    let client = RegistryClient::new(&reference, cdn.tls(), Some(credentials()), trusting).expect("a client");
    assert_eq!(pull(&client, &cache, &reference).await.expect("pulled"), WASM);
    assert!(cdn.seen().iter().all(|seen| seen.authorization.is_none()));
}

#[tokio::test]
async fn a_redirect_in_a_circle_ends() {
    let (registry, reference) = registry_with(Faults::default()).await;
    let target = format!("/v2/team/p/blobs/{}", Digest::of(WASM));
    registry.set_faults(Faults { blobs: BlobFault::Redirect(target), ..Faults::default() });
    let (_folder, cache) = cache();
    let error =
        pull(&client(&registry, None, options(&registry)), &cache, &reference).await.expect_err("a circle");
    assert_eq!(error.problem(), Problem::Protocol);
}

#[tokio::test]
async fn a_private_authority_has_to_be_named() {
    let registry = FakeRegistry::start_tls(Faults::default()).await;
    let reference = registry.reference("team/p:1");
    push(&registry, &reference).await;
    let other = FakeRegistry::start_tls(Faults::default()).await;
    let client =
        RegistryClient::new(&reference, other.tls(), None, ClientOptions::default()).expect("a client");
    let error = client.manifest(&reference).await.expect_err("an unknown authority");
    assert!(error.to_string().contains("certificate authority"), "{error}");
    assert!(Tls::trusting_only(b"no certificate").is_err());
}

#[tokio::test]
async fn content_without_its_digest_is_never_kept() {
    for (blobs, problem) in [
        (BlobFault::Altered, Problem::Altered),
        (BlobFault::Truncated, Problem::Altered),
        (BlobFault::Endless, Problem::Altered),
        (BlobFault::Broken, Problem::Unreachable),
        (BlobFault::Stalled, Problem::Timeout),
    ] {
        let error = failure(Faults { blobs: blobs.clone(), ..Faults::default() }).await;
        assert_eq!(error.problem(), problem, "{blobs:?}: {error}");
    }
}

#[tokio::test]
async fn a_manifest_without_its_digest_is_refused() {
    let (registry, reference) = registry_with(Faults::default()).await;
    let other = Artifact::of(b"\0asm\x01\0\0\0other", Layout::Cncf).expect("wasm").manifest;
    let pinned = reference.pinned(
        client(&registry, None, options(&registry)).manifest(&reference).await.expect("a manifest").digest,
    );
    registry.set_faults(Faults { manifest: Some(other), ..Faults::default() });
    let error = client(&registry, None, options(&registry)).manifest(&pinned).await.expect_err("another one");
    assert_eq!(error.problem(), Problem::Altered);
    let stated = Some(Digest::of(b"x").to_string());
    let error = failure(Faults { stated_digest: stated, ..Faults::default() }).await;
    assert_eq!(error.problem(), Problem::Altered);
}

#[tokio::test]
async fn what_is_no_plugin_is_refused_with_a_remedy() {
    let (registry, reference) = registry_with(Faults::default()).await;
    let good = client(&registry, None, options(&registry)).manifest(&reference).await.expect("a manifest");
    let good = String::from_utf8(good.text).expect("text");
    let image = good.replace("\"application/wasm\"", "\"application/vnd.oci.image.layer.v1.tar+gzip\"");
    for manifest in
        [image, good.replace(media_type::MANIFEST, media_type::INDEX), "<html>".to_owned(), "{}".to_owned()]
    {
        let error =
            failure(Faults { manifest: Some(manifest.clone().into_bytes()), ..Faults::default() }).await;
        assert_eq!(error.problem(), Problem::Layout, "{manifest}: {error}");
        assert!(!error.is_transient());
    }
}

#[tokio::test]
async fn everything_has_a_limit() {
    let error = failure(Faults { endless_manifest: true, ..Faults::default() }).await;
    assert_eq!(error.problem(), Problem::TooLarge);
    let (registry, reference) = registry_with(Faults::default()).await;
    let limits = Limits { artifact: 10, ..Limits::default() };
    let client = client(&registry, None, ClientOptions { limits, ..options(&registry) });
    let (_folder, cache) = cache();
    let error = pull(&client, &cache, &reference).await.expect_err("too large");
    assert_eq!(error.problem(), Problem::TooLarge);
    assert_eq!(registry.count(&Method::GET, "/blobs/"), 0, "the manifest states the size");
}

#[tokio::test]
async fn a_busy_registry_is_asked_again_but_not_for_ever() {
    let (registry, reference) = registry_with(Faults { busy: 2, ..Faults::default() }).await;
    let client = client(&registry, None, options(&registry));
    client.manifest(&reference).await.expect("the third attempt");
    registry.set_faults(Faults { busy: 1000, ..Faults::default() });
    let error = client.manifest(&reference).await.expect_err("busy");
    assert_eq!(error.problem(), Problem::Busy);
    assert!(error.is_transient());
}

#[tokio::test]
async fn a_silent_registry_is_left_in_time() {
    let error = failure(Faults { silent: true, ..Faults::default() }).await;
    assert_eq!(error.problem(), Problem::Timeout);
}

#[tokio::test]
async fn a_registry_that_is_gone_does_not_affect_what_is_cached() {
    let (registry, reference) = registry_with(Faults::default()).await;
    let client = client(&registry, None, options(&registry));
    let (folder, cache) = cache();
    let digest = client.manifest(&reference).await.expect("a manifest").digest;
    pull(&client, &cache, &reference).await.expect("pulled");
    drop(registry);
    let error = client.manifest(&reference).await.expect_err("gone");
    assert_eq!(error.problem(), Problem::Unreachable);
    let reopened = Cache::open(folder.path(), SystemTime::now()).expect("a cache");
    let found = CachedPlugin::find(&reopened, digest, Limits::default(), "x").expect("cached");
    assert_eq!(found.wasm(&reopened, 1000, "x").expect("wasm"), WASM);
    found.stage(&reopened, "p", 1000, "x").expect("staged");
    assert_eq!(std::fs::read(reopened.plugins().join("p.wasm")).expect("a file"), WASM);
}

#[tokio::test]
async fn two_plugins_with_one_digest_are_pulled_once() {
    let (registry, reference) = registry_with(Faults::default()).await;
    let client = client(&registry, None, options(&registry));
    let (_folder, cache) = cache();
    let other = registry.reference("team/p:2");
    registry.put_manifest("team/p", "2", &client.manifest(&reference).await.expect("a manifest").text);
    let (first, second) = tokio::join!(pull(&client, &cache, &reference), pull(&client, &cache, &other));
    assert_eq!((first.expect("pulled"), second.expect("pulled")), (WASM.to_vec(), WASM.to_vec()));
    assert_eq!(registry.count(&Method::GET, "/blobs/"), 1);
}

#[tokio::test]
async fn a_download_that_is_dropped_leaves_nothing_and_the_next_one_succeeds() {
    let (registry, reference) =
        registry_with(Faults { blobs: BlobFault::Stalled, ..Faults::default() }).await;
    let client = Arc::new(client(&registry, None, options(&registry)));
    let (folder, cache) = cache();
    let cache = Arc::new(cache);
    let task = tokio::spawn({
        let (client, cache, reference) = (Arc::clone(&client), Arc::clone(&cache), reference.clone());
        async move { pull(&client, &cache, &reference).await }
    });
    while registry.count(&Method::GET, "/blobs/") == 0 {
        tokio::task::yield_now().await;
    }
    task.abort();
    assert!(task.await.is_err_and(|error| error.is_cancelled()));
    assert_eq!(std::fs::read_dir(folder.path().join("blobs")).expect("a folder").count(), 0);
    registry.set_faults(Faults::default());
    assert_eq!(pull(&client, &cache, &reference).await.expect("pulled"), WASM);
}

async fn count_referrers(
    client: &RegistryClient,
    reference: &Reference,
    subject: Digest,
) -> Result<usize, RegistryError> {
    let mut pages = client.referrers(reference, subject);
    let mut count = 0;
    while let Some(page) = pages.next().await? {
        count += page.artifacts.len();
    }
    Ok(count)
}

#[tokio::test]
async fn a_list_without_an_end_is_left() {
    let (registry, reference) = registry_with(Faults::default()).await;
    let client = client(&registry, None, options(&registry));
    registry.set_faults(Faults { referrers_per_page: Some(0), ..Faults::default() });
    let error = count_referrers(&client, &reference, Digest::of(b"x")).await.expect_err("no end");
    assert_eq!(error.problem(), Problem::TooLarge);
    assert!(error.to_string().contains("check who can write"), "{error}");
    assert_eq!(registry.count(&Method::GET, "/referrers/"), 1_000);
}

#[tokio::test]
async fn referrers_are_found_with_and_without_the_api() {
    let (registry, reference) = registry_with(Faults::default()).await;
    let client = client(&registry, None, options(&registry));
    let subject = client.manifest(&reference).await.expect("a manifest").digest;
    let found = async |faults: Faults| {
        registry.set_faults(faults);
        count_referrers(&client, &reference, subject).await
    };
    assert_eq!(found(Faults::default()).await, Ok(0));
    let empty = Digest::of(b"{}");
    let signature = format!(
        r#"{{"schemaVersion":2,"artifactType":"sig","config":{{"mediaType":"x","digest":"{empty}","size":2}},"layers":[],
            "subject":{{"mediaType":"x","digest":"{subject}","size":1}}}}"#
    );
    let digest = registry.put_manifest("team/p", "signature", signature.as_bytes());
    assert_eq!(found(Faults::default()).await, Ok(1));
    for referrers in [Referrers::NotFound, Referrers::Page] {
        registry.set_faults(Faults { referrers, ..Faults::default() });
        let tag = format!("sha256-{}", subject.hex());
        let list = |count: usize| {
            let entry = format!(r#"{{"mediaType":"x","artifactType":"sig","digest":"{digest}","size":9}}"#);
            format!(r#"{{"schemaVersion":2,"manifests":[{}]}}"#, vec![entry; count].join(","))
        };
        let missing = registry.reference("team/other:1");
        assert_eq!(count_referrers(&client, &missing, subject).await, Ok(0));
        registry.put_manifest("team/p", &tag, list(2).as_bytes());
        assert_eq!(found(Faults { referrers, ..Faults::default() }).await, Ok(2));
        registry.put_manifest("team/p", &tag, list(501).as_bytes());
        assert_eq!(found(Faults { referrers, ..Faults::default() }).await, Ok(501));
    }
}

/// An operator reads these texts in the status of the plugin, and has to know what to do.
#[tokio::test]
async fn each_failure_of_a_registry_has_a_remedy() {
    let realm = |realm: &str| Faults { login: Login::TokenFrom(realm.to_owned()), ..Faults::default() };
    let redirect = |to: &str| Faults { blobs: BlobFault::Redirect(to.to_owned()), ..Faults::default() };
    let manifest = |text: &str| Faults { manifest: Some(text.into()), ..Faults::default() };
    for (faults, remedy) in [
        (realm("file:///etc/passwd"), "correct the realm"),
        (realm("https://"), "correct the realm"),
        (realm("https://user:secret@r.example/"), "correct the realm"),
        (realm("http://r.example/"), "have the registry refer to an https URL"),
        (realm("https://10.0.0.1/token"), "registries.trustedHosts"),
        (redirect("ftp://r.example/"), "check that it is a registry"),
        (redirect("/a b"), "check that it is a registry"),
        (redirect("https://10.0.0.1/"), "registries.trustedHosts"),
        (Faults { login: Login::Basic, ..Faults::default() }, "add them to the docker config.json"),
        (Faults { login: Login::Token, ..Faults::default() }, "add credentials for this registry"),
        (Faults { busy: u32::MAX, ..Faults::default() }, "it is tried again later"),
        (Faults { blobs: BlobFault::Altered, ..Faults::default() }, "push it again"),
        (Faults { blobs: BlobFault::Truncated, ..Faults::default() }, "push it again"),
        (Faults { blobs: BlobFault::Broken, ..Faults::default() }, "check that the registry is running"),
        (Faults { endless_manifest: true, ..Faults::default() }, "check what is in the repository"),
        (manifest("<html>"), "push it again"),
    ] {
        let error = failure(faults.clone()).await.to_string();
        assert!(error.contains(remedy), "{faults:?}: {error}");
        assert!(error.contains("127.0.0.1:"), "the error names the registry: {error}");
    }
}
