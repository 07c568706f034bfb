//! A new version reconciles a part of the keys beside the running one, until it is promoted or rolled back.

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::harness::{Guest, Host, Options, another_version, wat, wat_with};

/// Runs a subcommand against the host. Returns its exit code, standard output and standard error.
fn run(host: &Host, arguments: &[&str]) -> (i32, String, String) {
    let output = host.pilothouse(arguments);
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

/// A version that returns a retry at each call.
fn always_retries() -> Vec<u8> {
    let retries = "(i32.store8 (i32.const 64) (i32.const 1)) (i32.const 64))";
    wat_with("done", &[("(i32.const 48))", retries)])
}

/// Waits until the plugin has this canary, or none.
async fn wait_for_canary(host: &Host, canary: Option<&str>) -> Value {
    let condition = format!("the canary {canary:?}");
    host.wait_for_plugin("plugin", &condition, |plugin| {
        plugin["state"] == "running" && plugin["rollout"]["canary"]["digest"].as_str() == canary
    })
    .await
}

/// Returns the SHA-256 of a file, as the host shows it.
fn digest(wasm: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(wasm).iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn explained(host: &Host, key: &str) -> Value {
    let (_, body) = host.get(&format!("/api/explain?plugin=plugin&key={key}")).await;
    serde_json::from_str(&body).expect("JSON")
}

/// Returns the outcomes of the key's reconciles that the journal has.
fn outcomes(explanation: &Value) -> Vec<String> {
    let entries = explanation["then"].as_array().into_iter().flatten();
    entries.filter_map(|entry| entry["outcome"].as_str()).map(str::to_owned).collect()
}

async fn create_namespace(host: &Host, name: &str) {
    host.server.post("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await;
}

async fn create_script(host: &Host, namespace: &str, name: &str, action: &str) {
    let labels = json!({"test": "conformance"});
    let manifest =
        json!({"metadata": {"name": name, "labels": labels}, "data": {"action": action, "round": ""}});
    host.server.post(&format!("/api/v1/namespaces/{namespace}/configmaps"), &manifest).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_reconciles_its_namespaces_until_an_operator_decides() {
    let host = Host::start().await;
    if host.server.skip_if_external("the test creates namespaces") {
        return;
    }
    let own = host.server.namespace.clone();
    create_namespace(&host, "others").await;
    host.write_sidecar("plugin", &format!("rollout: {{canary: {{namespaces: [{own}]}}}}\n"));
    host.install_plugin("plugin", &wat("done"));
    let first = host.wait_for_generation("plugin", 1).await;
    assert_eq!(first.get("rollout"), None, "the first version is no canary: {first:#}");
    let (code, _, stderr) = run(&host, &["promote", "plugin"]);
    assert!(code == 1 && stderr.contains("no version of plugin runs as a canary"), "{code}: {stderr}");
    for namespace in [own.as_str(), "others"] {
        create_script(&host, namespace, "one", "").await;
    }

    let second = always_retries();
    host.install_plugin("plugin", &second);
    let plugin = wait_for_canary(&host, Some(&digest(&second))).await;
    assert_eq!((&plugin["generation"], &plugin["digest"]), (&json!(1), &first["digest"]), "{plugin:#}");
    assert_eq!(plugin["rollout"]["canary"]["namespaces"], json!([own]), "{plugin:#}");
    let (key, other) = (format!("{own}/one"), "others/one");
    host.wait("a failed reconcile of the canary", || async {
        let explanation = explained(&host, &key).await;
        assert_eq!(explanation["now"]["version"]["canary"], true, "{explanation:#}");
        outcomes(&explanation).contains(&"retry".to_owned()).then_some(())
    })
    .await;
    host.server
        .post(
            "/api/v1/namespaces/others/configmaps",
            &json!({"metadata": {"name": "two"}, "data": {"round": "1"}}),
        )
        .await;
    host.wait("a reconcile beside the canary", || async {
        outcomes(&explained(&host, "others/two").await).contains(&"done".to_owned()).then_some(())
    })
    .await;
    let explanation = explained(&host, other).await;
    assert_eq!(explanation["now"]["version"]["digest"], first["digest"], "{explanation:#}");
    assert!(outcomes(&explanation).iter().all(|outcome| outcome == "done"), "{explanation:#}");
    let (_, metrics) = host.get("/metrics").await;
    let series = "pilothouse_plugin_canary_reconciles_total{controller=\"plugin\",result=\"error\"}";
    assert!(metrics.contains(series) && !metrics.contains(&format!("{series} 0\n")), "{metrics}");
    let (_, stdout, _) = run(&host, &["explain", "plugin", &key]);
    assert!(stdout.contains(", the canary"), "{stdout}");

    // The keys of the canary go back.
    let (code, stdout, stderr) = run(&host, &["rollback", "plugin"]);
    let expected = first["digest"].as_str().expect("text");
    assert!(code == 0 && stdout.contains(expected), "{stdout}{stderr}");
    let plugin = wait_for_canary(&host, None).await;
    let held_back = &plugin["rollout"]["heldBack"];
    assert_eq!((&held_back["digest"], &held_back["automatic"]), (&json!(digest(&second)), &json!(false)));
    host.wait("a reconcile by the version before", || async {
        let explanation = explained(&host, &key).await;
        (outcomes(&explanation).last().map(String::as_str) == Some("done")).then_some(())
    })
    .await;
    assert_eq!(host.plugin("plugin").await["generation"], 1, "it ran all the time");

    // The next file is a canary again, and reconciles all keys once it is promoted.
    let third = another_version(&wat("done"), 3);
    host.install_plugin("plugin", &third);
    wait_for_canary(&host, Some(&digest(&third))).await;
    let (code, stdout, stderr) = run(&host, &["promote", "plugin"]);
    assert!(code == 0 && stdout.contains(&digest(&third)), "{stdout}{stderr}");
    let plugin = host.wait_for_generation("plugin", 2).await;
    assert_eq!(plugin["digest"], digest(&third), "{plugin:#}");
    let rollout = &plugin["rollout"];
    assert_eq!((rollout.get("canary"), rollout.get("heldBack")), (None, None), "{plugin:#}");
    let explanation = explained(&host, &key).await;
    assert_eq!(explanation["now"].get("version"), None, "{explanation:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_that_backs_off_is_rolled_back_with_its_keys() {
    // With the hook, a lost key is not requeued by the end of the canary, so the test would notice it.
    let host = Host::start_with(Options { no_requeue_on_reload: true, ..Options::default() }).await;
    host.write_sidecar("plugin", "rollout: {canary: {percent: 100}, probation: 1h}\n");
    host.install_plugin("plugin", &wat("done"));
    let first = host.wait_for_generation("plugin", 1).await;
    let second = wat("trap");
    host.install_plugin("plugin", &second);
    host.wait_for_plugin("plugin", "the canary or its end", |plugin| {
        plugin["rollout"]["canary"]["digest"] == digest(&second) || plugin["rollout"]["heldBack"].is_object()
    })
    .await;
    host.server.create_script("one", "").await;
    let plugin = host
        .wait_for_plugin("plugin", "the end of the canary", |plugin| {
            plugin["rollout"]["heldBack"].is_object() && plugin["rollout"].get("canary").is_none()
        })
        .await;
    let held_back = &plugin["rollout"]["heldBack"];
    assert_eq!((&held_back["digest"], &held_back["automatic"]), (&json!(digest(&second)), &json!(true)));
    assert!(held_back["reason"].as_str().expect("text").contains("backs off"), "{held_back:#}");
    assert_eq!((&plugin["digest"], &plugin["generation"]), (&first["digest"], &json!(1)), "{plugin:#}");
    let key = format!("{}/one", host.server.namespace);
    host.wait("a reconcile by the version before", || async {
        let explanation = explained(&host, &key).await;
        (outcomes(&explanation).last().map(String::as_str) == Some("done")).then_some(())
    })
    .await;
    let (_, metrics) = host.get("/metrics").await;
    let line = "pilothouse_plugin_rollbacks_total{controller=\"plugin\",result=\"automatic\"} 1";
    assert!(metrics.contains(line), "{metrics}");

    // A changed sidecar does not begin it again.
    host.write_sidecar("plugin", "workers: 2\nrollout: {canary: {percent: 100}, probation: 1h}\n");
    let plugin = host.wait_for_generation("plugin", 2).await;
    assert_eq!((&plugin["digest"], plugin["rollout"].get("canary")), (&first["digest"], None), "{plugin:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_that_works_is_promoted_at_the_end_of_its_probation() {
    let host = Host::start().await;
    host.write_sidecar("plugin", "rollout: {canary: {percent: 100}, probation: 1s}\n");
    host.install_plugin("plugin", &wat("done"));
    host.wait_for_generation("plugin", 1).await;
    host.server.create_script("one", "").await;
    let second = another_version(&wat("done"), 2);
    host.install_plugin("plugin", &second);
    let plugin = host.wait_for_generation("plugin", 2).await;
    assert_eq!(plugin["digest"], digest(&second), "{plugin:#}");
    let rollout = &plugin["rollout"];
    assert_eq!((rollout.get("canary"), rollout.get("probation")), (None, None), "{plugin:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_reconciles_keys_that_only_its_own_watches_name() {
    let host = Host::start().await;
    host.write_sidecar("plugin", "rollout: {canary: {percent: 100}}\n");
    host.install_plugin("plugin", &wat("done"));
    host.wait_for_generation("plugin", 1).await;
    let namespace = &host.server.namespace;
    let secret = json!({"metadata": {"name": "source", "labels": {"map": "named"}}});
    host.server.post(&format!("/api/v1/namespaces/{namespace}/secrets"), &secret).await;
    let secrets = r#"\"trigger\":\"self\"},{\"name\":\"secrets\",\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"trigger\":{\"label\":{\"key\":\"map\",\"watch\":\"configmaps\"}}}]"#;
    // With the length of the descriptor, 284 bytes.
    let replacements = [(r#"\"trigger\":\"self\"}]"#, secrets), (r"\b0\00\00\00", r"\1c\01\00\00")];
    let second = wat_with("done", &replacements);
    host.install_plugin("plugin", &second);
    wait_for_canary(&host, Some(&digest(&second))).await;
    let key = format!("{namespace}/named");
    host.wait("a reconcile of the key without an object", || async {
        outcomes(&explained(&host, &key).await).contains(&"done".to_owned()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_names_the_backoff_of_the_canary_that_reconciles_the_key() {
    let host = Host::start().await;
    // Without a probation, the canary is not rolled back.
    host.write_sidecar("plugin", "rollout: {canary: {percent: 100}}\n");
    host.install_plugin("plugin", &wat("done"));
    host.wait_for_generation("plugin", 1).await;
    let second = wat("trap");
    host.install_plugin("plugin", &second);
    wait_for_canary(&host, Some(&digest(&second))).await;
    host.server.create_script("one", "").await;
    let key = format!("{}/one", host.server.namespace);
    host.wait("the backoff of the canary as the cause", || async {
        let explanation = explained(&host, &key).await;
        (explanation["code"] == "BackingOff").then_some(())
    })
    .await;
    assert_eq!(host.plugin("plugin").await["state"], "running", "the version beside it works");
}

/// Scripts in many namespaces that count their reconciles: each reads its record, writes the next number, and fails unless it reads
/// that afterwards. If two versions reconciled a script at once, numbers would be missing.
struct CountedScripts<'a> {
    host: &'a Host,
    namespaces: Vec<String>,
    names: Vec<String>,
}

impl<'a> CountedScripts<'a> {
    const NAMESPACES: usize = 20;
    const REQUESTS_AT_ONCE: usize = 16;

    /// Creates the scripts: in each namespace one, or as many as `PILOTHOUSE_TEST_CANARY_OBJECTS` says.
    async fn create(host: &'a Host) -> Self {
        let objects =
            std::env::var("PILOTHOUSE_TEST_CANARY_OBJECTS").map_or(1, |text| text.parse().expect("a number"));
        let namespaces = (0..Self::NAMESPACES).map(|number| format!("shard-{number}")).collect();
        let names = (0..objects).map(|number| format!("script-{number}")).collect();
        let scripts = Self { host, namespaces, names };
        for namespace in &scripts.namespaces {
            create_namespace(host, namespace).await;
            stream::iter(&scripts.names)
                .for_each_concurrent(Self::REQUESTS_AT_ONCE, async |name| {
                    let action = format!("read-back:{name}-turns\ncopy:{name}-record");
                    create_script(host, namespace, name, &action).await;
                })
                .await;
        }
        scripts
    }

    fn maps(&self, namespace: &str) -> kube::Api<ConfigMap> {
        kube::Api::namespaced(self.host.server.client.clone(), namespace)
    }

    /// Changes the scripts of a namespace.
    async fn change(&self, namespace: &str, round: usize) {
        let patch = kube::api::Patch::Merge(json!({"data": {"round": round.to_string()}}));
        stream::iter(&self.names)
            .for_each_concurrent(Self::REQUESTS_AT_ONCE, async |name| {
                self.maps(namespace).patch(name, &Default::default(), &patch).await.expect("patched");
            })
            .await;
    }

    /// Waits until each script was reconciled in its last version, and nothing is left to do.
    async fn wait_for_last_versions(&self) {
        for (namespace, name) in self.all() {
            let found = self.maps(namespace).get(name).await.expect("it is there");
            let last = found.metadata.resource_version.expect("a version");
            self.host
                .wait(&format!("a reconcile of {namespace}/{name} at version {last}"), || async {
                    let record = self.maps(namespace).get_opt(&format!("{name}-record")).await;
                    let data = record.expect("answered")?.data?;
                    (data.get("resourceVersion") == Some(&last)).then_some(())
                })
                .await;
        }
        self.host
            .wait("the end of all work", || async {
                let (_, body) = self.host.get("/api/plugins/plugin/keys").await;
                let keys: Value = serde_json::from_str(&body).expect("JSON");
                (keys["pending"] == 0).then_some(())
            })
            .await;
    }

    /// Returns the number of reconciles that all scripts have counted.
    async fn turns(&self) -> u64 {
        let mut turns = 0;
        for (namespace, name) in self.all() {
            let record = self.maps(namespace).get(&format!("{name}-turns")).await.expect("it is there");
            turns += record.data.expect("data")["turn"].parse::<u64>().expect("a number");
        }
        turns
    }

    fn all(&self) -> impl Iterator<Item = (&String, &String)> {
        self.namespaces.iter().flat_map(|namespace| self.names.iter().map(move |name| (namespace, name)))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_the_share_lose_no_event_and_no_key_has_two_versions_at_once() {
    let host = Host::start_with(Options { no_requeue_on_reload: true, ..Options::default() }).await;
    if host.server.skip_if_external("the test creates namespaces") {
        return;
    }
    let sidecar = |percent: u8| format!("workers: 8\nrollout: {{canary: {{percent: {percent}}}}}\n");
    let wasm = Guest::Conformance.wasm();
    host.write_sidecar("plugin", &sidecar(10));
    host.install_plugin("plugin", &wasm);
    host.wait_for_generation("plugin", 1).await;
    let scripts = CountedScripts::create(&host).await;
    // A change of the canary in the middle of each round of changes.
    let changes: [(&str, u8, &[&str]); 8] = [
        ("install", 2, &[]),
        ("share", 50, &[]),
        ("share", 100, &[]),
        ("share", 30, &[]),
        ("run", 0, &["rollback", "plugin"]),
        ("install", 3, &[]),
        ("share", 60, &[]),
        ("run", 0, &["promote", "plugin"]),
    ];
    for (round, (change, number, command)) in changes.into_iter().enumerate() {
        let expected = another_version(&wasm, number);
        for (position, namespace) in scripts.namespaces.iter().enumerate() {
            if position == CountedScripts::NAMESPACES / 2 {
                match change {
                    "install" => host.install_plugin("plugin", &expected),
                    "share" => host.write_sidecar("plugin", &sidecar(number)),
                    _ => assert_eq!(run(&host, command).0, 0),
                }
            }
            scripts.change(namespace, round).await;
        }
        host.wait_for_plugin("plugin", &format!("{change} {number} {command:?}"), |plugin| {
            let canary = &plugin["rollout"]["canary"];
            match change {
                "install" => canary["digest"] == digest(&expected),
                "share" => canary["percent"] == number,
                _ => plugin["rollout"].get("canary").is_none(),
            }
        })
        .await;
    }
    let plugin = host.wait_for_generation("plugin", 2).await;
    assert_eq!(plugin["digest"], digest(&another_version(&wasm, 3)), "{plugin:#}");
    scripts.wait_for_last_versions().await;
    let plugin = host.plugin("plugin").await;
    assert_eq!(plugin["counters"]["errors"], 0, "{plugin:#}");
    let turns = scripts.turns().await;
    assert_eq!(plugin["counters"]["reconciles"], turns, "each reconcile has seen the one before: {plugin:#}");
    let (_, metrics) = host.get("/metrics").await;
    let series = "pilothouse_plugin_canary_reconciles_total{controller=\"plugin\",result=\"success\"}";
    assert!(metrics.contains(series) && !metrics.contains(&format!("{series} 0\n")), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_with_other_targets_is_refused_as_a_canary_and_can_be_promoted() {
    let host = Host::start().await;
    host.write_sidecar("plugin", "rollout: {canary: {percent: 10}}\n");
    host.install_plugin("plugin", &wat("done"));
    let first = host.wait_for_generation("plugin", 1).await;
    let second = wat_with("done", &[("configmaps", "configmapz")]);
    host.install_plugin("plugin", &second);
    let plugin = host
        .wait_for_plugin("plugin", "the refusal", |plugin| {
            plugin["error"].as_str().is_some_and(|error| error.contains("cannot run beside"))
        })
        .await;
    assert_eq!((&plugin["digest"], &plugin["state"]), (&first["digest"], &json!("running")), "{plugin:#}");
    let error = plugin["error"].as_str().expect("text");
    assert!(error.contains("the target watch \"configmaps\""), "{error}");
    assert!(error.contains("pilothouse promote plugin"), "{error}");
    let (code, _, stderr) = run(&host, &["promote", "plugin"]);
    assert_eq!(code, 0, "{stderr}");
    let plugin = host.wait_for_generation("plugin", 2).await;
    assert_eq!((&plugin["digest"], &plugin["error"]), (&json!(digest(&second)), &json!("")), "{plugin:#}");
}
