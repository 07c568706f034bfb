//! The rights that the parameters of admission policies need.

use serde_json::{Value, json};

use super::{Failure, rule, start, subject, user};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1";

fn policy(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]},
        ]},
        "validations": [{"expression": "params != null"}],
    }})
}

fn binding(name: &str, policy: &str, reference: &Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "policyName": policy, "validationActions": ["Deny"], "paramRef": reference,
    }})
}

fn message(result: Result<Value, Failure>) -> String {
    let (code, message) = result.expect_err("it is refused");
    assert_eq!(code, 422, "{message}");
    message
}

#[tokio::test]
async fn author_of_a_policy_may_read_its_parameters() {
    let (server, admin) = start();
    let write = rule("admissionregistration.k8s.io", &["*"], &["*"]);
    admin.grant_cluster_wide("w", subject("User", "x"), write).await;
    let x = user(&server, "x");
    let path = format!("{POLICIES}/validatingadmissionpolicies");
    assert_eq!(
        message(x.post(&path, policy("p")).await),
        "ValidatingAdmissionPolicy.admissionregistration.k8s.io \"p\" is invalid: spec.paramKind: Forbidden: user &{x  \
         [system:authenticated] map[]} must have \"get\" permission on all objects of the referenced paramKind (kind=ConfigMap, \
         apiVersion=v1)"
    );
    admin.grant_cluster_wide("r", subject("User", "x"), rule("", &["configmaps"], &["get"])).await;
    x.post(&path, policy("p")).await.expect("granted");
}

#[tokio::test]
async fn author_of_a_binding_may_read_its_parameters() {
    let (server, admin) = start();
    let write = rule("admissionregistration.k8s.io", &["*"], &["*"]);
    admin.grant_cluster_wide("w", subject("User", "x"), write).await;
    admin.post(&format!("{POLICIES}/validatingadmissionpolicies"), policy("p")).await.expect("a policy");
    let (x, path) = (user(&server, "x"), format!("{POLICIES}/validatingadmissionpolicybindings"));
    let one = json!({"name": "c", "namespace": "default", "parameterNotFoundAction": "Deny"});
    let all = json!({"selector": {}, "parameterNotFoundAction": "Deny"});
    let shown = "user &{x  [system:authenticated] map[]}";
    let refused = message(x.post(&path, binding("b", "p", &one)).await);
    let problem = format!("{shown} does not have \"get\" permission on the object referenced by paramRef");
    assert!(refused.ends_with(&format!("spec.paramRef: Forbidden: {problem}")), "{refused}");
    let refused = message(x.post(&path, binding("b", "none", &all)).await);
    let problem = format!(
        "unable to get policy none to determine minimum required permissions and {shown} does not have \"list\" permission for all \
         groups, versions and resources"
    );
    assert!(refused.ends_with(&problem), "{refused}");
    admin.grant("r", subject("User", "x"), rule("", &["configmaps"], &["get"])).await;
    x.post(&path, binding("b", "p", &one)).await.expect("granted");
    assert!(message(x.post(&path, binding("c", "p", &all)).await).contains("\"list\" permission"));
}
