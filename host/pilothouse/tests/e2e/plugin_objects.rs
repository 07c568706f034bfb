//! Plugins that objects of the kind `Plugin` describe.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{ApiServer, Host, Options, Registry, Server, another_version, wat};

const OBJECTS: &str = "/apis/pilothouse.dev/v1alpha1/namespaces/default/plugins";
const CRD: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/chart/files/plugins.pilothouse.dev.yaml");

/// A host that runs the plugins of objects, with an API server and a registry of its own.
struct Cluster {
    host: Host,
    registry: Registry,
    _server: ApiServer,
    _folder: TempDir,
}

impl Cluster {
    /// Starts a host. `plugins` is that member of its configuration, in which `REGISTRY` stands for the registry.
    async fn start(plugins: &str) -> Self {
        Self::start_with(plugins, |_| ()).await
    }

    /// Starts a host after the registry was set up.
    async fn start_with(plugins: &str, set_up: impl FnOnce(&Registry)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let registry = Registry::start().await;
        registry.push("team/greeter:1", &wat("done"));
        set_up(&registry);
        let credentials = folder.path().join("config.json");
        let logins = json!({"auths": {registry.host(): {"username": "bot", "password": "wrong"}}});
        std::fs::write(&credentials, logins.to_string()).expect("written");
        let kubeconfig = folder.path().join("kubeconfig");
        let server = ApiServer::start("127.0.0.1:0", &kubeconfig, &[]);
        let crd: Value =
            serde_saphyr::from_str(&std::fs::read_to_string(CRD).expect("a file")).expect("YAML");
        let client = Server::new(kubeconfig.clone(), false).await;
        client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await;
        let config = folder.path().join("config.yaml");
        let text = format!(
            "pluginResource: {{enabled: true}}\nregistries: {{cacheDir: '{}', credentials: '{}', plainHttp: ['{}']}}\nplugins: {}\n",
            folder.path().join("oci").display(),
            credentials.display(),
            registry.host(),
            plugins.replace("REGISTRY", &registry.host()),
        );
        std::fs::write(&config, text).expect("written");
        let config: &'static str = Box::leak(config.display().to_string().into_boxed_str());
        let options =
            Options { kubeconfig: Some(kubeconfig), flags: vec!["--config", config], ..Options::default() };
        let host = Host::start_with(options).await;
        Self { host, registry, _server: server, _folder: folder }
    }

    async fn send(&self, method: http::Method, path: &str, body: &Value) -> Result<Value, String> {
        let content_type = match method {
            http::Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = http::Request::builder().method(method).uri(path).header("content-type", content_type);
        let request = request.body(body.to_string().into_bytes()).expect("a request");
        self.host.server.client.request::<Value>(request).await.map_err(|error| error.to_string())
    }

    async fn create(&self, name: &str, spec: Value) -> Result<Value, String> {
        let object = json!({"apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": name}, "spec": spec});
        self.send(http::Method::POST, &format!("{OBJECTS}?fieldValidation=Strict"), &object).await
    }

    async fn patch(&self, name: &str, spec: Value) {
        let path = format!("{OBJECTS}/{name}");
        self.send(http::Method::PATCH, &path, &json!({"spec": spec})).await.expect("patched");
    }

    async fn delete(&self, name: &str) {
        self.send(http::Method::DELETE, &format!("{OBJECTS}/{name}"), &json!({})).await.expect("deleted");
    }

    /// Waits until a condition of the present generation of an object has a status and a reason. Returns the object and the message.
    async fn wait_for(&self, name: &str, condition: &str, status: &str, reason: &str) -> (Value, String) {
        let what = format!("{name}: {condition}={status} {reason}");
        self.host
            .wait(&what, || async {
                let object = self.host.server.get(&format!("{OBJECTS}/{name}")).await;
                let conditions = object["status"]["conditions"].as_array().cloned()?;
                let found = conditions.into_iter().find(|found| found["type"] == condition)?;
                let is_wanted = found["status"] == status
                    && found["reason"] == reason
                    && found["observedGeneration"] == object["metadata"]["generation"];
                is_wanted.then(|| (object, found["message"].as_str().unwrap_or_default().to_owned()))
            })
            .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_object_runs_reloads_its_grants_is_updated_and_stops_when_deleted() {
    let cluster = Cluster::start("[]").await;
    let host = &cluster.host;
    cluster
        .create("greeter", json!({"image": cluster.registry.image("team/greeter:1")}))
        .await
        .expect("created");
    let wait =
        ["--namespace", "default", "wait", "--for=condition=Running", "plugin/greeter", "--timeout=300s"];
    // The condition is there without kubectl, too.
    let (object, _) = cluster.wait_for("greeter", "Running", "True", "Running").await;
    if let Some(text) = host.server.kubectl_anywhere(&wait, "") {
        assert!(text.contains("condition met"), "{text}");
    }
    assert_eq!(object["status"]["version"], "1.0.0", "{object:#}");
    let first = object["status"]["digest"].as_str().expect("a digest").to_owned();
    let log = host.log();
    let pulling = log.lines().find(|line| line.contains("it is being pulled")).expect("the log says so");
    assert!(pulling.contains("\"INFO\""), "{pulling}");
    cluster.wait_for("greeter", "Verified", "Unknown", "NoPolicy").await;
    cluster.wait_for("greeter", "Loaded", "True", "Loaded").await;
    cluster.wait_for("greeter", "Ready", "True", "Ready").await;

    cluster.patch("greeter", json!({"grants": {"watches": []}})).await;
    let (object, message) = cluster.wait_for("greeter", "Ready", "False", "Waiting").await;
    assert!(message.contains("to the grants.watches of the sidecar of greeter in `plugins`"), "{message}");
    assert!(message.contains("or the spec of its Plugin object"), "{message}");
    assert_eq!(object["status"]["lastError"], message);
    cluster.patch("greeter", json!({"grants": null})).await;
    cluster.wait_for("greeter", "Ready", "True", "Ready").await;

    let second = cluster.registry.push("team/greeter:2", &another_version(&wat("done"), 2));
    assert_ne!(first, second);
    cluster.patch("greeter", json!({"image": cluster.registry.image("team/greeter:2")})).await;
    host.wait("the digest of the new version", || async {
        let object = host.server.get(&format!("{OBJECTS}/greeter")).await;
        (object["status"]["digest"] == second.as_str()).then_some(())
    })
    .await;
    cluster.wait_for("greeter", "Ready", "True", "Ready").await;

    cluster.delete("greeter").await;
    host.wait_for_plugin("greeter", "that it has stopped", |plugin| {
        plugin.is_null() || plugin["removed"] == true && plugin["state"] == "stopped"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_object_affects_its_own_plugin_only() {
    let cluster = Cluster::start("[{name: configured, image: 'REGISTRY/team/greeter:1'}]").await;
    let host = &cluster.host;
    host.wait_for_state("configured", "running").await;
    host.install_plugin("file", &wat("done"));
    host.wait_for_state("file", "running").await;
    let image = cluster.registry.image("team/greeter:1");
    for (name, image) in [
        ("good", image.clone()),
        ("absent", cluster.registry.image("team/absent:1")),
        ("file", image.clone()),
        ("configured", image.clone()),
    ] {
        cluster.create(name, json!({"image": image})).await.expect("created");
    }
    cluster.wait_for("good", "Running", "True", "Running").await;
    let (object, message) = cluster.wait_for("absent", "Running", "False", "NotFound").await;
    assert!(message.contains("team/absent:1"), "{message}");
    assert_eq!(object["status"]["state"], "waiting", "{object:#}");
    let absent = host.plugin("absent").await;
    assert!(absent["error"].as_str().expect("text").contains("team/absent:1"), "{absent:#}");
    for (name, remedy) in [("file", "remove the file"), ("configured", "remove the entry")] {
        let (object, message) = cluster.wait_for(name, "Accepted", "False", "NameConflict").await;
        assert!(message.contains(remedy), "{message}");
        assert_eq!(object["status"].get("state"), None, "{object:#}");
        let winner = host.plugin(name).await;
        assert_eq!((&winner["state"], &winner["error"]), (&json!("running"), &json!("")), "{winner:#}");
    }

    for (spec, part) in [
        (json!({"image": image, "workers": 1000}), "spec.workers"),
        (json!({"image": image, "serviceAccount": "../admin"}), "spec.serviceAccount"),
        (json!({"image": image, "grant": {}}), "unknown field"),
        (json!({"image": "x".repeat(5000)}), "spec.image"),
    ] {
        let refused = cluster.create("hostile", spec).await.expect_err(part);
        assert!(refused.contains(part), "{part}: {refused}");
    }
    // The schema does not know everything that a host checks.
    cluster.create("late", json!({"image": image, "limits": {"memory": "lots"}})).await.expect("created");
    let (_, message) = cluster.wait_for("late", "Accepted", "False", "InvalidSpec").await;
    assert!(message.contains("limits.memory: \"lots\""), "{message}");
    let late = host.plugin("late").await;
    assert_eq!(late["state"], "waiting", "{late:#}");
    cluster.patch("late", json!({"limits": null})).await;
    cluster.wait_for("late", "Ready", "True", "Ready").await;

    host.wait_for_state("good", "running").await;
    // When the file is gone, the object's plugin runs in its place.
    std::fs::remove_file(host.plugins().join("file.wasm")).expect("removed");
    cluster.wait_for("file", "Running", "True", "Running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_the_registry_does_not_provide_has_a_remedy_wherever_it_is_shown() {
    let absent = format!("team/greeter@sha256:{}", "0".repeat(64));
    let failures = [
        ("layout", "team/image:1", "UnknownLayout", "push the .wasm file with `pilothouse push`"),
        ("digest", &absent, "NotFound", "check the reference, and that it was pushed"),
        ("credentials", "team/closed:1", "Denied", "check the credentials for this registry"),
        ("realm", "team/elsewhere:1", "ProtocolError", "correct the realm in the registry's configuration"),
    ];
    let configured =
        failures.map(|(name, image, ..)| json!({"name": name, "image": format!("REGISTRY/{image}")}));
    let cluster = Cluster::start_with(&json!(configured).to_string(), |registry| {
        let part = |kind: &str| json!({"mediaType": kind, "digest": format!("sha256:{}", "1".repeat(64)), "size": 7});
        let config = part("application/vnd.oci.image.config.v1+json");
        let layers = [part("application/vnd.oci.image.layer.v1.tar+gzip")];
        registry.put_manifest("team/image", "1", &json!({"schemaVersion": 2, "config": config, "layers": layers}));
        registry.refuse("team/closed", "Basic realm=\"registry\"");
        registry.refuse("team/elsewhere", "Bearer realm=\"ftp://tokens.example/\"");
    })
    .await;
    for (name, image, ..) in failures {
        let spec = json!({"image": cluster.registry.image(image)});
        cluster.create(&format!("object-{name}"), spec).await.expect("created");
    }
    let host = &cluster.host;
    for (name, image, reason, remedy) in failures {
        let object = format!("object-{name}");
        let (_, message) = cluster.wait_for(&object, "Loaded", "False", reason).await;
        assert!(message.contains(remedy), "{object}: {message}");
        let repository = image.split([':', '@']).next().unwrap_or_default();
        for plugin in [name, &object] {
            let is_shown = |text: &Value| text.as_str().is_some_and(|text| text.contains(remedy));
            let shown = host.wait_for_plugin(plugin, remedy, |plugin| is_shown(&plugin["error"])).await;
            assert_eq!(shown["state"], "waiting", "{shown:#}");
            // A bad realm and wrong credentials are problems of the registry.
            let error = shown["error"].as_str().unwrap_or_default();
            assert!(error.contains(repository) || error.contains(&cluster.registry.host()), "{error}");
            let event = host
                .wait("the Event", || async {
                    let list = host.server.get("/apis/events.k8s.io/v1/namespaces/default/events").await;
                    let events = list["items"].as_array().cloned().unwrap_or_default();
                    events.into_iter().find(|event| {
                        event["reason"] == "NotProvided" && event["regarding"]["name"] == plugin
                    })
                })
                .await;
            assert!(is_shown(&event["note"]), "{event:#}");
        }
    }
}
