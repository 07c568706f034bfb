//! kubectl against the server over a socket. Without kubectl, these tests print that they are skipped and pass.

use std::path::PathBuf;
use std::process::Stdio;

use pilothouse_apiserver::{ApiServer, Authorization};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio_util::sync::{CancellationToken, DropGuard};

struct Kubectl {
    kubeconfig: PathBuf,
    _stop: DropGuard,
}

impl Kubectl {
    /// Starts a server with controllers for kubectl, or returns `None` if kubectl is not installed.
    async fn start(name: &str) -> Option<Self> {
        Self::start_with(name, Authorization::AlwaysAllow).await
    }

    async fn start_with(name: &str, authorization: Authorization) -> Option<Self> {
        let found =
            Command::new("kubectl").args(["version", "--client"]).stdout(Stdio::null()).status().await;
        if !found.is_ok_and(|status| status.success()) {
            eprintln!(
                "SKIPPED: kubectl is not installed, so {name} was NOT tested; install kubectl 1.32 or newer"
            );
            return None;
        }
        let server = ApiServer::builder().authorization(authorization).build();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let kubeconfig = directory.join("kubeconfig");
        let address = listener.local_addr().expect("an address");
        server.write_kubeconfig(&kubeconfig, address).expect("a kubeconfig");
        let shutdown = CancellationToken::new();
        let _controllers = server.run_controllers(shutdown.clone());
        let stop = shutdown.clone();
        tokio::spawn(async move { server.serve(listener, stop).await });
        Some(Self { kubeconfig, _stop: shutdown.drop_guard() })
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new("kubectl");
        command.args(arguments.split_whitespace()).env("KUBECONFIG", &self.kubeconfig).kill_on_drop(true);
        command.env("KUBECACHEDIR", self.kubeconfig.with_file_name("cache"));
        command
    }

    /// Runs kubectl with arguments and standard input; returns whether it succeeded, and its output.
    async fn run(&self, arguments: &str, input: &str) -> (bool, String) {
        let mut command = self.command(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        // kubectl may exit without reading its input.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let output = child.wait_with_output().await.expect("kubectl ends");
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text.into_owned())
    }

    #[track_caller]
    fn check((ok, text): (bool, String), arguments: &str) -> String {
        assert!(ok, "kubectl {arguments}: {text}");
        text
    }

    async fn ok(&self, arguments: &str) -> String {
        Self::check(self.run(arguments, "").await, arguments)
    }

    async fn ok_with(&self, arguments: &str, input: &str) -> String {
        Self::check(self.run(arguments, input).await, arguments)
    }

    async fn fails(&self, arguments: &str, input: &str) -> String {
        let (ok, text) = self.run(arguments, input).await;
        assert!(!ok, "kubectl {arguments} should fail: {text}");
        text
    }
}

const CRD: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: foos, kind: Foo, shortNames: [fo]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns: [{name: Replicas, type: integer, jsonPath: .spec.replicas}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [name]
            properties:
              name: {type: string, description: What it is called.}
              replicas: {type: integer, minimum: 0, maximum: 10, default: 1}
"#;

fn foo(spec: &str) -> String {
    format!("apiVersion: example.com/v1\nkind: Foo\nmetadata: {{name: a}}\nspec: {spec}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_creates_changes_and_rolls_out_deployments() {
    let Some(kubectl) = Kubectl::start("deployments").await else { return };
    kubectl.ok("create deployment web --image=nginx:1 --replicas=2").await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    kubectl.ok("wait --for=condition=Available deployment/web --timeout=300s").await;
    assert!(kubectl.ok("get deployment web").await.contains("2/2"));
    kubectl.ok("scale deployment web --replicas=3").await;
    kubectl.ok("set image deployment/web nginx=nginx:2").await;
    kubectl.ok("label deployment web tier=front").await;
    kubectl.ok("annotate deployment web note=hello").await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    let history = kubectl.ok("rollout history deployment/web").await;
    assert!(history.contains('1') && history.contains('2'), "{history}");
    kubectl.ok("rollout undo deployment/web").await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    let image = kubectl.ok("get deployment web -o jsonpath={.spec.template.spec.containers[0].image}").await;
    assert_eq!(image, "nginx:1");
    kubectl.ok("rollout undo deployment/web --to-revision=2").await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    let json = kubectl.ok("get deployment web -o json").await;
    let web: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(web["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:2");
    assert_eq!(
        (&web["metadata"]["labels"]["tier"], &web["status"]["readyReplicas"]),
        (&"front".into(), &3.into())
    );
    let described = kubectl.ok("describe deployment web").await;
    assert!(described.contains("3 desired | 3 updated | 3 total | 3 available"), "{described}");
    assert!(kubectl.ok("get all").await.contains("deployment.apps/web"));
    kubectl.ok("autoscale deployment web --min=1 --max=5 --cpu-percent=50").await;
    let autoscaler = kubectl.ok("get hpa web").await;
    assert!(autoscaler.contains("Deployment/web") && autoscaler.contains("/50%"), "{autoscaler}");
    assert!(kubectl.ok("get hpa.v1.autoscaling web").await.contains("/50%"));
    kubectl.ok("delete deployment web --timeout=300s").await;
    assert!(kubectl.fails("get deployment web", "").await.contains("\"web\" not found"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_drains_nodes_and_obeys_disruption_budgets() {
    let Some(kubectl) = Kubectl::start("drain").await else { return };
    kubectl.ok("create deployment web --image=nginx:1 --replicas=2").await;
    kubectl.ok("run alone --image=nginx:1").await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    kubectl.ok("wait --for=condition=Ready pod/alone --timeout=300s").await;

    // It allows no eviction that would leave fewer Pods than one.
    kubectl.ok("create poddisruptionbudget web --selector=app=web --min-available=1").await;
    kubectl
        .ok("wait --for=jsonpath={.status.disruptionsAllowed}=1 poddisruptionbudget/web --timeout=300s")
        .await;
    let blocked = kubectl.fails("drain simulated-node --force --pod-selector=app=web --timeout=8s", "").await;
    assert!(blocked.contains("would violate the pod's disruption budget"), "{blocked}");
    let left =
        kubectl.ok("get pods --selector=app=web --field-selector=spec.nodeName=simulated-node -o name").await;
    assert_eq!(left.lines().count(), 1, "{left}");
    kubectl.ok("delete poddisruptionbudget web").await;

    let refused = kubectl.fails("drain simulated-node --timeout=300s", "").await;
    assert!(refused.contains("declare no controller"), "{refused}");
    assert!(kubectl.ok("get pod alone").await.contains("Running"), "nothing is evicted");
    let drained = kubectl.ok("drain simulated-node --force --timeout=300s").await;
    assert!(drained.contains("pod/alone evicted") && drained.contains("node/simulated-node drained"));
    assert!(drained.contains(left.trim()), "{drained}");
    assert!(kubectl.ok("get nodes").await.contains("SchedulingDisabled"));
    // The new Pods of the Deployment have no other node.
    let on_node = "get pods --field-selector=spec.nodeName=simulated-node -o name";
    assert_eq!(kubectl.ok(on_node).await, "");
    kubectl.ok("uncordon simulated-node").await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_applies_edits_patches_and_diffs_objects() {
    let Some(kubectl) = Kubectl::start("applied").await else { return };
    let map = |value: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{x: '{value}'}}\n")
    };
    assert!(kubectl.ok_with("apply -f -", &map("1")).await.contains("configmap/a created"));
    assert!(kubectl.ok_with("apply -f -", &map("1")).await.contains("configmap/a unchanged"));
    assert!(kubectl.ok_with("apply -f -", &map("2")).await.contains("configmap/a configured"));
    assert!(kubectl.fails("diff -f -", &map("3")).await.contains("+  x: \"3\""));
    kubectl.ok_with("diff -f -", &map("2")).await;
    kubectl.ok_with("apply --server-side -f -", &map("2")).await;
    kubectl.ok_with("apply --server-side -f -", &map("4")).await;
    let conflict = kubectl.fails("apply --server-side --field-manager=other -f -", &map("5")).await;
    assert!(conflict.contains("conflict with \"kubectl\": .data.x"), "{conflict}");
    kubectl.ok("patch configmap a --type=merge -p {\"data\":{\"z\":\"1\"}}").await;
    let edit =
        kubectl.command("edit configmap a").env("EDITOR", "sed -i 's/z: \"1\"/z: \"7\"/'").output().await;
    assert!(edit.as_ref().is_ok_and(|output| output.status.success()), "{edit:?}");
    assert_eq!(kubectl.ok("get configmap a -o jsonpath={.data}").await, r#"{"x":"4","z":"7"}"#);
    let strict = format!("{}dada: {{x: y}}\n", map("1"));
    assert!(kubectl.fails("create -f -", &strict).await.contains("unknown field \"dada\""));
    kubectl.ok("create secret generic s --from-literal=k=v").await;
    assert_eq!(kubectl.ok("get secret s -o jsonpath={.data.k}").await, "dg==");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_reports_unknown_kinds_and_applies_lists() {
    let Some(kubectl) = Kubectl::start("unknown").await else { return };
    for command in ["apply -f -", "create -f -"] {
        let refused = kubectl.fails(command, &foo("{name: x}")).await;
        assert!(refused.contains(r#"no matches for kind "Foo" in version "example.com/v1""#), "{refused}");
        assert!(refused.contains("ensure CRDs are installed first"), "{refused}");
    }
    kubectl.ok("create configmap a --from-literal=x=1").await;
    kubectl.ok("create configmap b --from-literal=x=2").await;
    let list = kubectl.ok("get configmap a b -o yaml").await;
    assert!(list.contains("kind: List"), "{list}");
    let changed = list.replace("x: \"2\"", "x: \"3\"");
    let applied = kubectl.ok_with("apply -f -", &changed).await;
    assert!(
        applied.contains("configmap/a configured") && applied.contains("configmap/b configured"),
        "{applied}"
    );
    assert_eq!(kubectl.ok("get configmap b -o jsonpath={.data.x}").await, "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_defines_explains_and_validates_custom_resources() {
    let Some(kubectl) = Kubectl::start("custom").await else { return };
    kubectl.ok_with("apply -f -", CRD).await;
    kubectl.ok("wait --for=condition=Established crd/foos.example.com --timeout=300s").await;
    kubectl.ok_with("apply -f -", &foo("{name: x}")).await;
    let shown = kubectl.ok("get fo").await;
    assert!(shown.contains("REPLICAS") && shown.contains('1'), "{shown}");
    assert!(kubectl.ok("explain foo.spec.name").await.contains("What it is called."));
    assert!(kubectl.ok("api-resources --api-group=example.com").await.contains("foos"));
    let refused = kubectl.fails("apply -f -", &foo("{name: x, replicas: 99}")).await;
    assert!(refused.contains("should be less than or equal to 10"), "{refused}");
    assert!(
        kubectl.fails("apply -f -", &foo("{name: x, size: 1}")).await.contains("unknown field \"spec.size\"")
    );
    kubectl.ok_with("apply --server-side -f -", &foo("{name: z}")).await;
    kubectl.ok("delete crd foos.example.com --timeout=300s").await;
    kubectl.fails("get foos", "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_deletes_namespaces_and_reads_server_information() {
    let Some(kubectl) = Kubectl::start("namespaces").await else { return };
    kubectl.ok("create namespace n").await;
    kubectl.ok("-n n create configmap a --from-literal=x=y").await;
    kubectl.ok("-n n run p --image=i").await;
    kubectl.ok("-n n wait pod/p --for=condition=Ready --timeout=300s").await;
    assert!(kubectl.ok("-n n get pods").await.contains("Running"));
    for command in ["-n n logs p", "-n n exec p -- true", "-n n attach p"] {
        let refused = kubectl.fails(command, "").await;
        assert!(refused.contains("runs no containers"), "kubectl {command}: {refused}");
    }
    assert_eq!(kubectl.ok("create token default").await.trim().matches('.').count(), 2);
    kubectl.ok("delete namespace n --timeout=300s").await;
    assert!(kubectl.fails("-n n create configmap b", "").await.contains("namespaces \"n\" not found"));
    assert_eq!(kubectl.ok("auth can-i create pods").await.trim(), "yes");
    assert!(kubectl.ok("version").await.contains("Server Version: v1.36"));
    assert!(kubectl.ok("api-resources").await.contains("deployments"));
    assert!(kubectl.ok("explain pod.spec.containers").await.contains("FIELD: containers"));
    assert!(kubectl.ok("get --raw /readyz").await.contains("ok"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_get_watch_prints_changes() {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let Some(kubectl) = Kubectl::start("watch").await else { return };
    let mut child = kubectl
        .command("get configmaps -w --output-watch-events --no-headers")
        .stdout(Stdio::piped())
        .spawn()
        .expect("kubectl starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    kubectl.ok("create configmap a").await;
    // Every namespace has the CA certificate, too.
    let mut next_line = async || loop {
        let line = lines.next_line().await.expect("readable").expect("a line");
        if !line.contains("kube-root-ca.crt") {
            return line;
        }
    };
    let added = next_line().await;
    assert!(added.contains("ADDED") && added.contains(" a "), "{added}");
    kubectl.ok("delete configmap a").await;
    let deleted = next_line().await;
    assert!(deleted.contains("DELETED"), "{deleted}");
    child.kill().await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_grants_checks_and_revokes_rights() {
    let Some(kubectl) = Kubectl::start_with("rights", Authorization::Rbac).await else { return };
    let who = kubectl.ok("auth whoami").await;
    assert!(who.contains("system:admin") && who.contains("system:masters"), "{who}");
    kubectl.ok("create serviceaccount plugin").await;
    kubectl.ok("create role reader --verb=get,list --resource=configmaps,deployments.apps/scale").await;
    kubectl.ok("create rolebinding reader --role=reader --serviceaccount=default:plugin").await;
    kubectl.ok("create clusterrolebinding viewers --clusterrole=view --group=viewers").await;
    let plugin = |command: &str| format!("{command} --as=system:serviceaccount:default:plugin");
    kubectl.ok(&plugin("get configmaps")).await;
    assert_eq!(
        kubectl.fails(&plugin("get pods"), "").await.trim(),
        "Error from server (Forbidden): pods is forbidden: User \"system:serviceaccount:default:plugin\" cannot list \
         resource \"pods\" in API group \"\" in the namespace \"default\""
    );
    assert_eq!(kubectl.ok(&plugin("auth can-i list configmaps")).await.trim(), "yes");
    assert_eq!(kubectl.fails(&plugin("auth can-i delete configmaps"), "").await.trim(), "no");
    assert_eq!(
        kubectl.ok(&plugin("auth can-i get deployments.apps --subresource=scale")).await.trim(),
        "yes"
    );
    let list = kubectl.ok(&plugin("auth can-i --list")).await;
    assert!(list.contains("deployments.apps/scale") && list.contains("selfsubjectaccessreviews"), "{list}");
    let who = kubectl.ok(&plugin("auth whoami")).await;
    assert!(who.contains("system:serviceaccounts:default"), "{who}");
    kubectl.ok("get pods -A --as=bob --as-group=viewers").await;
    kubectl.fails("get secrets -A --as=bob --as-group=viewers", "").await;

    let token = kubectl.ok("create token plugin").await;
    let with_token = |command: &str| format!("{command} --token={}", token.trim());
    assert!(kubectl.ok(&with_token("auth whoami")).await.contains("system:serviceaccount:default:plugin"));
    kubectl.ok(&with_token("get configmaps")).await;
    kubectl.ok("delete rolebinding reader").await;
    kubectl.fails(&with_token("get configmaps"), "").await;
    kubectl.fails("get configmaps --token=wrong", "").await;

    let reconciled = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: reader, namespace: default}\nrules:\n\
                      - {apiGroups: [''], resources: [pods], verbs: [list]}\n";
    kubectl.ok_with("auth reconcile -f -", reconciled).await;
    let rules = kubectl.ok("get role reader -o jsonpath={.rules[*].resources}").await;
    assert!(rules.contains("configmaps") && rules.contains("pods"), "{rules}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admission_policies_are_applied_shown_and_obeyed() {
    let Some(kubectl) = Kubectl::start("policies").await else { return };
    let policy = "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few-entries}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [''], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE]}
  validations:
    - {expression: '!has(object.data) || size(object.data) < 2', message: too many entries}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec: {policyName: few-entries, validationActions: [Deny]}
";
    kubectl.ok_with("apply -f -", policy).await;
    assert!(kubectl.ok("get validatingadmissionpolicies").await.contains("VALIDATIONS"));
    kubectl.ok("create configmap few --from-literal=a=1").await;
    let text = kubectl.fails("create configmap many --from-literal=a=1 --from-literal=b=2", "").await;
    let expected = "configmaps \"many\" is forbidden: ValidatingAdmissionPolicy 'few-entries' with binding 'everywhere' denied \
                    request: too many entries";
    assert!(text.contains(expected), "{text}");
    kubectl.ok("delete validatingadmissionpolicybinding everywhere").await;
    kubectl.ok("create configmap many --from-literal=a=1 --from-literal=b=2").await;
}
