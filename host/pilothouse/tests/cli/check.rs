//! `pilothouse check`: each error message names the plugin, the position of the problem, and what to do.

use std::fs;
use std::path::Path;

use axum::body::Bytes;
use axum::http::{StatusCode, Uri};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::binary::{assert_fails, assert_succeeds, run, write_kubeconfig};
use crate::unauthorized::Unauthorized;

/// Returns a plugin whose descriptor is its sidecar's `config`.
fn echo() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/echo.wat");
    wat::parse_file(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Writes `plugin.wasm` and a sidecar to the folder. `members` are added to the descriptor and `sidecar` to the sidecar.
pub(crate) fn write_plugin(folder: &Path, members: &Value, sidecar: &Value) {
    let mut descriptor = json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
        "watches": [{"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self"}]
    });
    let mut sidecar_file = json!({});
    merge(&mut descriptor, members);
    merge(&mut sidecar_file, sidecar);
    sidecar_file["config"] = descriptor;
    fs::write(folder.join("plugin.yaml"), sidecar_file.to_string()).expect("written");
    fs::write(folder.join("plugin.wasm"), echo()).expect("written");
}

fn merge(into: &mut Value, members: &Value) {
    let members = members.as_object().expect("members");
    into.as_object_mut().expect("an object").extend(members.clone());
}

/// Returns a descriptor with one watch, to which `members` are added.
pub(crate) fn watch(members: &Value) -> Value {
    let mut watch = json!({"name": "w", "apiVersion": "apps/v1", "kind": "Deployment", "trigger": "self"});
    merge(&mut watch, members);
    json!({"watches": [watch]})
}

/// Returns the CRD of the kind `Thing`.
pub(crate) fn crd(scope: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": scope, "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]}
    })
}

/// Returns the report of `check --json` on `plugin.wasm`.
pub(crate) fn report(folder: &Path) -> Value {
    let output = run(folder, &["check", "plugin.wasm", "--json"]);
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:#?}"))
}

#[test]
fn an_invalid_descriptor_is_rejected_with_position_and_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    for (members, parts) in [
        (watch(&json!({"labelSelector": "a in b"})), ["watches[0].labelSelector", "key in (a,b)"]),
        (watch(&json!({"predicate": "object.spec ="})), ["watches[0].predicate", "write a CEL expression"]),
        (
            watch(&json!({"predicate": "objekt.spec == 1"})),
            ["\"objekt\"", "the variables are object, old and event"],
        ),
        (
            watch(&json!({"kind": "Deploymnt"})),
            ["watches[0] (\"w\")", "there are: ControllerRevision, DaemonSet"],
        ),
        (watch(&json!({"apiVersion": "v1"})), ["does not serve kind \"Deployment\" in \"v1\"", "correct"]),
        (
            json!({"watches": [
                {"name": "w", "apiVersion": "apps/v1", "kind": "Deployment", "trigger": "self"},
                {"name": "nodes", "apiVersion": "v1", "kind": "Node", "trigger": {"namespace": {"watch": "w"}}},
            ]}),
            [
                "watches.nodes: the trigger namespace queues nothing",
                "Node is cluster-scoped, and not a Namespace",
            ],
        ),
        (
            json!({"watches": [
                {"name": "nodes", "apiVersion": "v1", "kind": "Node", "trigger": "self"},
                {"name": "w", "apiVersion": "v1", "kind": "ConfigMap", "trigger": {"namespace": {"watch": "nodes"}}},
            ]}),
            ["watches.w: the trigger namespace queues nothing", "target watch \"nodes\" are cluster-scoped"],
        ),
        (json!({"crds": [crd("Nowhere")]}), ["the CRD \"things.example.com\" was refused", "spec.scope"]),
    ] {
        write_plugin(folder.path(), &members, &json!({}));
        assert_fails(folder.path(), &["check", "plugin.wasm"], 1, &["plugin.wasm", parts[0], parts[1]]);
        let report = report(folder.path());
        assert_eq!(report["runs"], false, "{members}");
        let problems = report["problems"].to_string().replace("\\\"", "\"");
        assert!(problems.contains(parts[0]), "{members}: {problems}");
    }
}

#[test]
fn a_server_that_cannot_be_asked_is_named_with_a_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    write_plugin(folder.path(), &json!({}), &json!({}));
    write_kubeconfig(folder.path(), "http://user:password@127.0.0.1:1", "any");
    let arguments = |command| [command, "plugin.wasm", "--kubeconfig", "kubeconfig"];
    for command in ["check", "rbac", "size"] {
        let parts = [
            "the API server 127.0.0.1:1 cannot be reached: ",
            "onnection refused",
            "; check --kubeconfig FILE",
        ];
        let output = assert_fails(folder.path(), &arguments(command), 1, &parts);
        assert!(!output.stderr.contains("password"), "{output:#?}");
    }
    let server = Unauthorized::start();
    write_kubeconfig(folder.path(), &server.url, "wrong");
    for command in ["check", "rbac", "size"] {
        let parts = ["refuses the credentials of the kubeconfig (401); renew"];
        assert_fails(folder.path(), &arguments(command), 1, &parts);
    }
}

#[test]
fn a_path_that_leads_to_no_file_is_refused_with_the_probable_one() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(folder.path().join("project/src")).expect("created");
    let check_fails = |path: &str, parts: &[&str]| {
        for arguments in [["check", path], ["rbac", path]] {
            assert_fails(folder.path(), &arguments, 2, parts);
        }
    };
    check_fails("project", &["project is a directory", "`pilothouse build project`"]);
    fs::write(folder.path().join("project/b.wasm"), "").expect("written");
    check_fails("project", &["project is a directory; did you mean project/b.wasm?"]);
    fs::write(folder.path().join("project/a.wasm"), "").expect("written");
    check_fails("project", &["did you mean project/a.wasm or project/b.wasm?"]);
    std::os::unix::fs::symlink("gone/p.wasm", folder.path().join("link.wasm")).expect("linked");
    check_fails("link.wasm", &["link.wasm is a symbolic link to gone/p.wasm", "cannot be read"]);
    check_fails("absent.wasm", &["absent.wasm: no such file"]);
}

#[test]
fn a_path_that_the_schema_of_a_crd_lacks_is_a_warning_with_the_nearest_field() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut crd = crd("Namespaced");
    let texts = |names: &[&str]| -> Value {
        let fields = names.iter().map(|&name| (name.to_owned(), json!({"type": "string"})));
        json!({"type": "object", "properties": fields.collect::<serde_json::Map<_, _>>()})
    };
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] =
        json!({"spec": texts(&["mapName", "mapNamespace"])});
    let watches = json!([
        {"name": "maps", "apiVersion": "v1", "kind": "ConfigMap", "trigger": "self"},
        {"name": "things", "apiVersion": "example.com/v1", "kind": "Thing",
            "indexes": [{"name": "by-map", "field": "{.spec.mapname}"}],
            "trigger": {"field": {"path": "{.spec.mapName}", "namespacePath": "{.mapNamespace}", "watch": "maps"}}},
    ]);
    let expected = [
        "the index \"by-map\" of {.spec.mapname} finds nothing: in the CRD things.example.com, .spec has no field \"mapname\"; did you \
         mean .spec.mapName?",
        "the trigger's namespacePath {.mapNamespace} finds nothing: in the CRD things.example.com, the object has no field \
         \"mapNamespace\"; did you mean .spec.mapNamespace?",
    ];
    let warnings = |arguments: &[&str]| {
        let arguments = [&["check", "plugin.wasm", "--json"][..], arguments].concat();
        let output = run(folder.path(), &arguments);
        let report: Value =
            serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:#?}"));
        assert_eq!(report["runs"], true, "{report:#}");
        let warnings = report["warnings"].as_array().expect("warnings").clone();
        (report["watches"][1]["served"].clone(), warnings)
    };
    let is_found = |warnings: &[Value], text: &str| {
        warnings.iter().any(|warning| warning.as_str().is_some_and(|warning| warning.ends_with(text)))
    };
    write_plugin(folder.path(), &json!({"watches": watches, "crds": [crd]}), &json!({}));
    let (served, found) = warnings(&[]);
    assert_eq!(served, "byOwnCrd");
    assert!(expected.iter().all(|text| is_found(&found, text)), "{found:#?}");
    let shown = assert_succeeds(folder.path(), &["check", "plugin.wasm"]).stdout;
    assert!(shown.contains("named by {.spec.mapName} in the namespace {.mapNamespace}"), "{shown}");

    // The CRD of somebody else.
    write_plugin(folder.path(), &json!({"watches": watches}), &json!({}));
    let (served, found) = warnings(&[]);
    assert_eq!(served, "unverified");
    assert!(!expected.iter().any(|text| is_found(&found, text)), "{found:#?}");
    fs::create_dir(folder.path().join("crds")).expect("created");
    fs::write(folder.path().join("crds/things.yaml"), crd.to_string()).expect("written");
    let (served, found) = warnings(&["--crds", "crds"]);
    assert_eq!(served, "yes");
    assert!(expected.iter().all(|text| is_found(&found, text)), "{found:#?}");
    assert_fails(folder.path(), &["check", "plugin.wasm", "--crds", "absent"], 2, &["--crds absent"]);
}

#[test]
fn the_quotes_of_a_refused_text_are_not_doubled() {
    let folder = tempfile::tempdir().expect("a folder");
    let index = json!([{"name": "i", "field": "{.a[?(@.b==\"c\")]}"}]);
    for (members, part) in [
        (watch(&json!({"indexes": index})), "`{.a[?(@.b==\"c\")]}` is not a JSONPath"),
        (watch(&json!({"labelSelector": "a in (\"b\")"})), "`\"b\"` is not a label value"),
    ] {
        write_plugin(folder.path(), &members, &json!({}));
        assert_fails(folder.path(), &["check", "plugin.wasm"], 1, &[part]);
    }
}

#[test]
fn an_export_that_has_no_effect_is_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    write_plugin(folder.path(), &json!({}), &json!({}));
    let guest = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin/tests/guests/echo.wat");
    let text = fs::read_to_string(guest).expect("the guest");
    let realloc = r#"(func (export "cabi_realloc")"#;
    assert!(text.contains(realloc));
    let post = r#"(func (export "cabi_post_pilothouse:controller/plugin@0.1.1#descibe") (param i32))"#;
    let text = text.replace(realloc, &format!(r#"(func (export "_start")) {post} {realloc}"#));
    fs::write(folder.path().join("plugin.wasm"), wat::parse_str(text).expect("a module")).expect("written");
    let warnings = report(folder.path())["warnings"].to_string();
    assert!(warnings.contains("_start, which the host never calls"), "{warnings}");
    assert!(
        warnings.contains("did you mean cabi_post_pilothouse:controller/plugin@0.1.1#describe?"),
        "{warnings}"
    );
}

#[test]
fn a_module_that_is_not_a_plugin_is_rejected_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let describe = r#"(export "pilothouse:controller/plugin@0.1.1#describe" (func 0))"#;
    for (text, parts) in [
        (r#"(module (func (export "_start")))"#.to_owned(), ["exports _start", "crate-type cdylib"]),
        (
            format!(r#"(module (func (param i32 i32) (result i32) unreachable) {describe})"#),
            ["none of reconcile, observe", "build it for the world"],
        ),
        (
            r#"(module (import "wasi:http/incoming-handler@0.2.0" "handle" (func)) (func (param i32 i32) (result i32)
                unreachable) (export "pilothouse:controller/plugin@0.1.1#describe" (func 1))
                (export "pilothouse:controller/reconcile@0.1.1#reconcile" (func 1)))"#
                .to_owned(),
            ["imports wasi:http/incoming-handler@0.2.0", "by wasi:http/outgoing-handler of WASI 0.2 and receives none"],
        ),
        (
            r#"(module (func) (export "pilothouse:controller/plugin@9.0.0#describe" (func 0)))"#.to_owned(),
            ["built against pilothouse:controller@9.0.0", "update the host, or rebuild the plugin"],
        ),
    ] {
        fs::write(folder.path().join("plugin.wasm"), wat::parse_str(&text).expect(&text)).expect("written");
        assert_fails(folder.path(), &["check", "plugin.wasm"], 1, &["plugin.wasm", parts[0], parts[1]]);
    }
    // A module with two exports of the same name. The assembler rejects it, so the second name is patched in the binary.
    let module =
        wat::parse_str(r#"(module (func (export "twin1")) (func (export "twin2")))"#).expect("a module");
    let patched: Vec<u8> = module.iter().map(|byte| if *byte == b'2' { b'1' } else { *byte }).collect();
    fs::write(folder.path().join("plugin.wasm"), patched).expect("written");
    assert_fails(
        folder.path(),
        &["check", "plugin.wasm"],
        1,
        &["plugin.wasm", "duplicate export name", "rebuild it"],
    );
}

#[test]
fn the_report_covers_descriptor_sidecar_and_permissions() {
    let folder = tempfile::tempdir().expect("a folder");
    let members = json!({
        "name": "plugin", "version": "1.2.3", "summary": "does things",
        "watches": [
            {"name": "things", "apiVersion": "example.com/v1", "kind": "Thing", "trigger": "self", "predicate": "event != 'resync'"},
            {"name": "pods", "apiVersion": "v1", "kind": "Pod", "namespaces": ["shop"], "labelSelector": "app=web",
                "trigger": {"label": {"key": "thing", "watch": "things"}},
                "indexes": [{"name": "by-node", "field": "{.spec.nodeName}"}]},
        ],
        "writes": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"], "namespaces": ["shop"]}],
        "crds": [crd("Namespaced")], "limits": {"memory": "16Mi"}
    });
    write_plugin(folder.path(), &members, &json!({"workers": 3, "limits": {"reconcileTimeout": "5s"}}));
    let report = report(folder.path());
    assert_eq!((&report["runs"], &report["problems"]), (&json!(true), &json!([])), "{report:#}");
    assert_eq!(
        (&report["form"], &report["world"]),
        (&json!("coreModule"), &json!("reconciler")),
        "{report:#}"
    );
    assert_eq!(report["limits"]["memory"], 16 << 20);
    assert_eq!(report["limits"]["reconcileTimeoutMs"], 5000);
    assert_eq!((&report["limits"]["workers"], &report["hasSidecar"]), (&json!(3), &json!(true)));
    assert_eq!(
        (&report["watches"][0]["served"], &report["watches"][0]["resource"]),
        (&json!("byOwnCrd"), &json!("things"))
    );
    assert_eq!(
        (&report["watches"][1]["served"], &report["watches"][1]["resource"]),
        (&json!("yes"), &json!("pods"))
    );
    assert_eq!(report["crds"], json!(["things.example.com"]));
    let delete = report["rights"].as_array().expect("rights").iter().find(|right| right["verb"] == "delete");
    let expected = json!({"group": "", "resource": "pods", "verb": "delete", "namespace": "shop", "neededFor": "writes[0]",
        "isGuess": false, "allowed": "unverified"});
    assert_eq!(delete, Some(&expected));

    let output = assert_succeeds(folder.path(), &["check", "plugin.wasm"]);
    for line in [
        "plugin 1.2.3 — does things",
        "  contract  pilothouse:controller@0.1.1, world reconciler: exports reconcile",
        "  limits    16 MiB per instance, 5000 ms per reconcile, 10000 handles, 3 workers (with its sidecar)",
        "  watches   things: Thing in example.com/v1 (served by the plugin's own CRD), queues itself when event != 'resync'",
        "  watches   pods: Pod in v1 (served), namespaces shop, labels app=web, queues the object in things named by label thing, \
         indexes by-node ({.spec.nodeName})",
        "  writes    delete pods of group \"\" in shop",
        "  installs  CRD things.example.com, in `run` only with grants.crds in the sidecar or grantCrds in --config",
    ] {
        assert!(output.stdout.lines().any(|found| found == line), "{line}\n{}", output.stdout);
    }
}

#[test]
fn the_report_shows_what_the_sidecar_grants_and_the_service_account() {
    let folder = tempfile::tempdir().expect("a folder");
    let members = json!({
        "writes": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "update"]},
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["delete"]},
        ],
        "crds": [crd("Namespaced")],
    });
    let granted =
        json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["update"], "namespaces": ["shop"]});
    let sidecar = json!({"serviceAccount": "shop/robot", "grants": {"crds": false, "writes": [granted]}});
    write_plugin(folder.path(), &members, &sidecar);
    let output = assert_succeeds(folder.path(), &["check", "plugin.wasm"]);
    for line in [
        "  acts as   the service account shop/robot",
        "  writes    update configmaps of group \"\" in shop",
        "  declared  create,update configmaps of group \"\", of which the sidecar grants the writes above",
        "  denied    delete deployments of group \"apps\": the sidecar does not grant it",
        "  installs  CRD things.example.com: NOT GRANTED by the sidecar",
    ] {
        assert!(output.stdout.lines().any(|found| found == line), "{line}\n{}", output.stdout);
    }
    let report = report(folder.path());
    assert_eq!((&report["serviceAccount"], &report["grantsCrds"]), (&json!("shop/robot"), &json!(false)));
    assert_eq!(report["writes"][0]["granted"], json!([granted]), "{report:#}");
    assert_eq!(
        (&report["writes"][1]["verbs"], &report["writes"][1]["granted"]),
        (&json!(["delete"]), &json!([]))
    );
}

#[test]
fn kinds_known_only_to_a_cluster_are_unverified_and_not_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let members = watch(&json!({"apiVersion": "cert-manager.io/v1", "kind": "Certificate"}));
    write_plugin(folder.path(), &members, &json!({}));
    let output = assert_succeeds(folder.path(), &["check", "plugin.wasm"]);
    assert!(output.stdout.contains("Certificate in cert-manager.io/v1 (unverified)"), "{output:#?}");
    assert_eq!(report(folder.path())["watches"][0]["served"], "unverified");
}

#[test]
fn suspicious_settings_are_warnings() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut members = watch(&json!({}));
    merge(&mut members, &json!({"name": "another"}));
    write_plugin(folder.path(), &members, &json!({"enabled": false}));
    let output = assert_succeeds(folder.path(), &["check", "plugin.wasm"]);
    for part in ["every status write triggers a reconcile", "names the plugin \"another\"", "enabled: false"]
    {
        let warned =
            output.stdout.lines().any(|line| line.starts_with("  warning   ") && line.contains(part));
        assert!(warned, "{part}\n{}", output.stdout);
    }
}

/// Starts a server that serves only ConfigMaps and denies deletes. Writes its kubeconfig to the folder.
async fn start_restricted_server(folder: &Path) {
    let answer = |uri: Uri, body: Bytes| async move {
        let answer = match uri.path() {
            "/api/v1" => {
                json!({"resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": true}]})
            }
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => {
                let review: Value = serde_json::from_slice(&body).expect("a review");
                let verb = &review["spec"]["resourceAttributes"]["verb"];
                json!({"status": {"allowed": verb != "delete"}})
            }
            _ => return (StatusCode::NOT_FOUND, Json(json!({"kind": "Status", "code": 404}))),
        };
        (StatusCode::OK, Json(answer))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    fs::write(folder.join("kubeconfig"), kubeconfig.to_string()).expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_and_permissions_are_looked_up_in_the_cluster() {
    let folder = tempfile::tempdir().expect("a folder");
    start_restricted_server(folder.path()).await;
    let with_server = ["check", "plugin.wasm", "--kubeconfig", "kubeconfig"];

    write_plugin(folder.path(), &json!({}), &json!({}));
    let output = assert_succeeds(folder.path(), &with_server);
    assert!(output.stdout.contains("  rights    4 of 4 allowed"), "{output:#?}");

    // A kind that the embedded server serves and this one does not.
    write_plugin(folder.path(), &watch(&json!({})), &json!({}));
    assert_fails(
        folder.path(),
        &with_server,
        1,
        &["watches[0] (\"w\")", "does not serve kind \"Deployment\"", "apply its"],
    );

    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["update", "delete"], "namespaces": ["shop"]});
    write_plugin(folder.path(), &json!({"writes": [rule]}), &json!({}));
    let parts = [
        "writes[0]: the kubeconfig's user may not delete configmaps",
        "in namespace shop",
        "pilothouse rbac",
    ];
    let output = assert_fails(folder.path(), &with_server, 1, &parts);
    assert!(output.stdout.contains("  rights    6 of 7 allowed"), "{output:#?}");
    assert_eq!(output.stderr.matches("may not").count(), 1, "{output:#?}");
    // `rbac` prints the required permissions and does not review those of the user.
    let output = assert_succeeds(folder.path(), &["rbac", "plugin.wasm", "--kubeconfig", "kubeconfig"]);
    assert!(output.stdout.contains("verbs: [\"delete\", \"get\", \"update\"]"), "{output:#?}");
}
