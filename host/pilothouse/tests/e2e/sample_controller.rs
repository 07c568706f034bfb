//! B50: Foo → Deployment, driven with kubectl as its user would: the same controller in every language that has it.

use serde_json::Value;

use crate::harness::{Guest, Host};

const PLUGIN: &str = "sample-controller";

macro_rules! in_languages {
    ($($language:ident: $guest:ident in $folder:literal,)*) => {
        $(mod $language {
            use crate::harness::Guest;

            #[tokio::test(flavor = "multi_thread")]
            async fn b50_a_foo_gets_its_deployment_and_keeps_it() {
                super::a_foo_gets_its_deployment_and_keeps_it(Guest::$guest).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn b50_a_deployment_of_somebody_else_is_left_alone() {
                super::a_deployment_of_somebody_else_is_left_alone(Guest::$guest).await;
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
}

/// A sample controller that nobody runs here shows nothing.
#[test]
fn no_sample_controller_is_left_out() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    for entry in std::fs::read_dir(examples).expect("the examples are there") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        assert!(
            !name.starts_with("sample-controller") || FOLDERS.contains(&name.as_str()),
            "{name} has no entry"
        );
    }
}

async fn host_with_plugin(guest: Guest) -> Host {
    let host = Host::start().await;
    host.sidecar(PLUGIN, "grants: {crds: true}\n");
    host.drop_in(PLUGIN, &guest.wasm());
    host.wait_for_state(PLUGIN, "running").await;
    host
}

fn foo(name: &str, deployment: &str, replicas: u32) -> String {
    format!(
        "apiVersion: samplecontroller.k8s.io/v1alpha1\nkind: Foo\nmetadata: {{name: {name}}}\n\
         spec: {{deploymentName: {deployment}, replicas: {replicas}}}\n"
    )
}

async fn deployment(host: &Host, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let path = host.server.path("/apis/apps/v1", "deployments", name);
    host.wait(what, || async {
        let found = host.server.get(&path).await;
        (found.is_object() && wanted(&found)).then_some(found)
    })
    .await
}

async fn a_foo_gets_its_deployment_and_keeps_it(guest: Guest) {
    let host = host_with_plugin(guest).await;
    let server = &host.server;
    if server.kubectl_with(&["apply", "-f", "-"], &foo("web", "web-deployment", 1)).is_none() {
        return;
    }
    let made = deployment(&host, "web-deployment", "the Deployment", |_| true).await;
    assert_eq!(made["spec"]["replicas"], 1);
    assert_eq!(made["metadata"]["ownerReferences"][0]["kind"], "Foo");
    assert_eq!(made["metadata"]["ownerReferences"][0]["controller"], true);

    // Drift is repaired.
    server.kubectl(&["scale", "deployment", "web-deployment", "--replicas", "5"]);
    deployment(&host, "web-deployment", "the repaired replicas", |found| {
        found["spec"]["replicas"] == 1
            && found["metadata"]["generation"].as_u64() > made["metadata"]["generation"].as_u64()
    })
    .await;

    // A deleted Deployment comes back.
    server.kubectl(&["delete", "deployment", "web-deployment"]);
    deployment(&host, "web-deployment", "another Deployment", |found| {
        found["metadata"]["uid"] != made["metadata"]["uid"]
    })
    .await;

    // The Foo decides the size, and reports what is available.
    server.kubectl(&["patch", "foo", "web", "--type", "merge", "-p", r#"{"spec":{"replicas":3}}"#]);
    deployment(&host, "web-deployment", "3 replicas", |found| found["spec"]["replicas"] == 3).await;
    if !server.skips_pods().await {
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

    // What the Foo owns goes with it.
    server.kubectl(&["delete", "foo", "web"]);
    server.kubectl(&["wait", "deployment/web-deployment", "--for=delete", "--timeout=300s"]);
}

async fn a_deployment_of_somebody_else_is_left_alone(guest: Guest) {
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
    // It is tried again, with backoff.
    host.wait_for_plugin(PLUGIN, "retries", |plugin| plugin["counters"]["retries"].as_u64() >= Some(3)).await;
}
