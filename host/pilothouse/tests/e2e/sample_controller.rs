//! The example `sample-controller` in each language: creates a Deployment for a Foo. Driven with kubectl.

use serde_json::Value;

use crate::harness::{CACHE, Guest, Host, binary};

const PLUGIN: &str = "sample-controller";

macro_rules! in_languages {
    ($($language:ident: $guest:ident in $folder:literal,)*) => {
        $(mod $language {
            use crate::harness::Guest;

            #[tokio::test(flavor = "multi_thread")]
            async fn creates_and_repairs_the_deployment_of_a_foo() {
                super::creates_and_repairs_the_deployment_of_a_foo(Guest::$guest).await;
            }

            #[test]
            fn passes_its_scenario() {
                super::passes_its_scenario(Guest::$guest);
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn does_not_touch_a_deployment_it_does_not_own() {
                super::does_not_touch_a_deployment_it_does_not_own(Guest::$guest).await;
            }
        })*

        const FOLDERS: &[&str] = &[$($folder),*];
    };
}

in_languages! {
    rust: SampleController in "sample-controller",
    go: SampleControllerGo in "sample-controller-go",
    js: SampleControllerJs in "sample-controller-js",
    python: SampleControllerPython in "sample-controller-python",
    zig: SampleControllerZig in "sample-controller-zig",
    assemblyscript: SampleControllerAssemblyScript in "sample-controller-assemblyscript",
}

#[test]
fn every_sample_controller_is_tested() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    for entry in std::fs::read_dir(examples).expect("the examples are there") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        assert!(
            !name.starts_with("sample-controller") || FOLDERS.contains(&name.as_str()),
            "{name} has no entry"
        );
    }
}

/// Runs `pilothouse test`, and again with another size in the scenario, which must fail.
fn passes_its_scenario(guest: Guest) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("sample-controller.wasm"), guest.wasm()).expect("written");
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sample-controller");
    let test = |scenario: &str| {
        let arguments = ["test", "sample-controller.wasm", "--scenario", scenario, "--cache-dir", CACHE];
        let output = binary().current_dir(folder.path()).args(arguments).output().expect("it runs");
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let path = format!("{sample}/scenarios/deployment.yaml");
    let (code, stdout, stderr) = test(&path);
    assert_eq!(code, Some(0), "{stdout}{stderr}");

    let scenario = std::fs::read_to_string(&path).expect("a scenario");
    let scenario = scenario.replace("spec: {replicas: 1}", "spec: {replicas: 2}");
    let scenario = scenario.replace("../manifests/foo.yaml", &format!("{sample}/manifests/foo.yaml"));
    std::fs::write(folder.path().join("wrong.yaml"), format!("timeout: 3s\n{scenario}")).expect("written");
    let (code, stdout, stderr) = test("wrong.yaml");
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    for part in
        ["FAIL  wrong", "spec.replicas: expected 2, but it is 1", "the plugin is running", "info synced"]
    {
        assert!(stdout.contains(part), "{part}: {stdout}{stderr}");
    }
}

async fn host_with_plugin(guest: Guest) -> Host {
    let host = Host::start().await;
    host.write_sidecar(PLUGIN, "grants: {crds: true}\n");
    host.install_plugin(PLUGIN, &guest.wasm());
    host.wait_for_state(PLUGIN, "running").await;
    host
}

fn foo(name: &str, deployment: &str, replicas: u32) -> String {
    format!(
        "apiVersion: samplecontroller.k8s.io/v1alpha1\nkind: Foo\nmetadata: {{name: {name}}}\n\
         spec: {{deploymentName: {deployment}, replicas: {replicas}}}\n"
    )
}

/// Waits until the Deployment exists and satisfies the predicate.
async fn wait_for_deployment(
    host: &Host,
    name: &str,
    condition: &str,
    predicate: impl Fn(&Value) -> bool,
) -> Value {
    let path = host.server.path("/apis/apps/v1", "deployments", name);
    host.wait(condition, || async {
        let found = host.server.get(&path).await;
        (found.is_object() && predicate(&found)).then_some(found)
    })
    .await
}

async fn creates_and_repairs_the_deployment_of_a_foo(guest: Guest) {
    let host = host_with_plugin(guest).await;
    let server = &host.server;
    if server.kubectl_with(&["apply", "-f", "-"], &foo("web", "web-deployment", 1)).is_none() {
        return;
    }
    let made = wait_for_deployment(&host, "web-deployment", "the Deployment", |_| true).await;
    assert_eq!(made["spec"]["replicas"], 1);
    assert_eq!(made["metadata"]["ownerReferences"][0]["kind"], "Foo");
    assert_eq!(made["metadata"]["ownerReferences"][0]["controller"], true);

    // Drift is repaired.
    server.kubectl(&["scale", "deployment", "web-deployment", "--replicas", "5"]);
    wait_for_deployment(&host, "web-deployment", "the repaired replicas", |found| {
        found["spec"]["replicas"] == 1
            && found["metadata"]["generation"].as_u64() > made["metadata"]["generation"].as_u64()
    })
    .await;

    // A deleted Deployment is recreated.
    server.kubectl(&["delete", "deployment", "web-deployment"]);
    wait_for_deployment(&host, "web-deployment", "another Deployment", |found| {
        found["metadata"]["uid"] != made["metadata"]["uid"]
    })
    .await;

    // The Foo determines the number of replicas, and its status reports the available ones.
    server.kubectl(&["patch", "foo", "web", "--type", "merge", "-p", r#"{"spec":{"replicas":3}}"#]);
    wait_for_deployment(&host, "web-deployment", "3 replicas", |found| found["spec"]["replicas"] == 3).await;
    if !server.skip_without_nodes().await {
        let available = "--for=jsonpath={.status.availableReplicas}=3";
        server.kubectl(&["wait", "foo/web", available, "--timeout=300s"]);
    }

    let synced = || async {
        let events = server.events().await;
        events.iter().any(|event| event.reason.as_deref() == Some("Synced")).then_some(())
    };
    host.wait("the Event about the Foo", synced).await;
    let described = server.kubectl(&["describe", "foo", "web"]).expect("kubectl is there");
    assert!(described.contains("Synced"), "{described}");
    let listed = server.kubectl(&["get", "foos"]).expect("kubectl is there");
    assert!(listed.contains("AVAILABLE") && listed.contains("web-deployment"), "{listed}");

    // Deleting the Foo deletes its Deployment.
    server.kubectl(&["delete", "foo", "web"]);
    server.kubectl(&["wait", "deployment/web-deployment", "--for=delete", "--timeout=300s"]);
}

async fn does_not_touch_a_deployment_it_does_not_own(guest: Guest) {
    let host = host_with_plugin(guest).await;
    let server = &host.server;
    if server.kubectl(&["create", "deployment", "taken", "--image", "nginx", "--replicas", "2"]).is_none() {
        return;
    }
    server.kubectl_with(&["apply", "-f", "-"], &foo("thief", "taken", 1));
    host.wait("the warning", || async {
        let events = server.events().await;
        events.into_iter().find(|event| {
            event.reason.as_deref() == Some("ErrResourceExists") && event.type_.as_deref() == Some("Warning")
        })
    })
    .await;
    let path = server.path("/apis/apps/v1", "deployments", "taken");
    let taken = server.get(&path).await;
    assert_eq!(taken["spec"]["replicas"], 2);
    assert!(taken["metadata"]["ownerReferences"].is_null());
    // The plugin retries with backoff.
    host.wait_for_plugin(PLUGIN, "retries", |plugin| plugin["counters"]["retries"].as_u64() >= Some(3)).await;
}
