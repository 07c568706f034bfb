//! MutatingAdmissionPolicies with bindings and parameters, and what runs before them.

use serde_json::{Value, json};

use crate::api::{Answer, Api, core};
use crate::config_map;

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";

fn json_patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

fn configuration(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

/// Creates a policy for objects of `resource` in the core group; `extra` has further fields of its spec.
async fn create_policy(api: &Api, name: &str, resource: &str, mutations: &[Value], extra: &Value) -> Answer {
    let mut policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resource],
            }]},
            "mutations": mutations,
            "reinvocationPolicy": "Never",
        },
    });
    for (name, value) in extra.as_object().into_iter().flatten() {
        policy["spec"][name] = value.clone();
    }
    api.post(POLICIES, &policy).await
}

/// Creates a policy that is bound to all objects of the resource.
async fn bound_policy(api: &Api, name: &str, resource: &str, mutations: &[Value], extra: &Value) {
    create_policy(api, name, resource, mutations, extra).await.ok();
    bind(api, name, &json!({})).await;
}

async fn bind(api: &Api, policy: &str, spec: &Value) {
    let mut binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": policy}, "spec": {"policyName": policy},
    });
    for (name, value) in spec.as_object().into_iter().flatten() {
        binding["spec"][name] = value.clone();
    }
    api.post(BINDINGS, &binding).await.ok();
}

#[tokio::test]
async fn policies_change_the_object_before_it_is_stored() {
    let api = Api::new();
    let mutations = [
        configuration(
            "Object{metadata: Object.metadata{labels: {'size': string(variables.size), 'op': request.operation}}}",
        ),
        json_patch(
            "[JSONPatch{op: 'test', path: '/metadata/labels/size', value: '1'}, JSONPatch{op: 'add', \
             path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: object.metadata.labels.op}]",
        ),
    ];
    let extra = json!({
        "variables": [{"name": "size", "expression": "size(object.data)"}],
        "matchConditions": [{"name": "named", "expression": "object.metadata.name.startsWith('a')"}],
    });
    bound_policy(&api, "p", "configmaps", &mutations, &extra).await;
    let created = api.post(&core("configmaps"), &config_map("a1", &json!({"x": "1"}))).await.ok();
    let labels = json!({"size": "1", "op": "CREATE", "a/b": "CREATE"});
    assert_eq!(created["metadata"]["labels"], labels, "the second mutation sees the first one");
    let fields = &created["metadata"]["managedFields"][0]["fieldsV1"];
    assert!(fields["f:metadata"].is_null() && !fields["f:data"].is_null(), "{fields:#}");
    let two = api.post(&core("configmaps"), &config_map("a2", &json!({"x": "1", "y": "2"}))).await.ok();
    let labels = json!({"size": "2", "op": "CREATE"});
    assert_eq!(two["metadata"]["labels"], labels, "a patch whose test fails has no effect");
    let other = api.post(&core("configmaps"), &config_map("b", &json!({"x": "1"}))).await.ok();
    assert_eq!(other["metadata"]["labels"], Value::Null);
}

#[tokio::test]
async fn parameters_and_failures_are_those_of_the_binding() {
    let api = Api::new();
    let mutation =
        configuration("Object{metadata: Object.metadata{labels: {'team': params.metadata.labels.team}}}");
    let extra = json!({"paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "matchConditions": [{"name": "named", "expression": "object.metadata.name.startsWith('a')"}]});
    create_policy(&api, "p", "configmaps", std::slice::from_ref(&mutation), &extra).await.ok();
    let reference = json!({"name": "params", "namespace": "default", "parameterNotFoundAction": "Deny"});
    bind(&api, "p", &json!({"paramRef": reference})).await;
    let object = config_map("a", &json!({}));
    let refused = api.post(&core("configmaps"), &object).await.fails(403, "Forbidden");
    let text = "policy 'p' with binding 'p' denied request: failed to configure binding: no params found for policy \
                binding with `Deny` parameterNotFoundAction";
    assert_eq!(refused["message"], text);
    assert_eq!(refused["details"]["causes"], json!([{"message": text}]));
    let params = json!({"metadata": {"name": "params", "labels": {"x": "y"}}});
    api.post(&core("secrets"), &params).await.ok();
    let refused = api.post(&core("configmaps"), &object).await.fails(403, "Invalid");
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.ends_with("resulted in error: no such key: team"), "{message}");
    let team = |name: Value| json!({"metadata": {"labels": {"team": name}}});
    api.merge(&core("secrets/params"), &team(json!("t"))).await.ok();
    assert_eq!(api.post(&core("configmaps"), &object).await.ok()["metadata"]["labels"]["team"], "t");
    let ignore = json!({"spec": {"failurePolicy": "Ignore"}});
    api.merge(&format!("{POLICIES}/p"), &ignore).await.ok();
    api.merge(&core("secrets/params"), &team(Value::Null)).await.ok();
    api.post(&core("configmaps"), &config_map("a2", &json!({}))).await.ok();
}

#[tokio::test]
async fn a_policy_is_evaluated_again_if_a_later_one_changed_the_object() {
    let api = Api::new();
    let count =
        "[JSONPatch{op: 'add', path: '/data/' + (has(object.data.first) ? 'second' : 'first'), value: '1'}]";
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    bound_policy(&api, "a", "configmaps", &[json_patch(count)], &again).await;
    let object = config_map("m", &json!({"x": "1"}));
    let alone = api.post(&core("configmaps?dryRun=All"), &object).await.ok();
    // As in kube-apiserver, its own mutation is a reason to evaluate it again.
    assert_eq!(alone["data"], json!({"x": "1", "first": "1", "second": "1"}));
    let later = "[JSONPatch{op: 'add', path: '/data/later', value: '1'}]";
    bound_policy(&api, "b", "configmaps", &[json_patch(later)], &json!({})).await;
    let both = api.post(&core("configmaps"), &object).await.ok();
    assert_eq!(both["data"], json!({"x": "1", "first": "1", "later": "1", "second": "1"}));
}

#[tokio::test]
async fn a_json_patch_must_result_in_an_object_of_the_kind() {
    let api = Api::new();
    let problem = async |patch: &str| {
        let name = format!("p{}", patch.len());
        let ignore = json!({"failurePolicy": "Ignore"});
        bound_policy(&api, &name, "pods", &[json_patch(patch)], &ignore).await;
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let refused = api.post(&core("pods"), &pod).await.fails(500, "InternalError");
        api.delete(&format!("{BINDINGS}/{name}"), &Value::Null).await.ok();
        refused["message"].as_str().unwrap_or_default().to_owned()
    };
    let message = problem("[JSONPatch{op: 'replace', path: '', value: 'x'}]").await;
    assert!(message.contains("cannot unmarshal string into Go value of type struct"), "{message}");
    let message = problem("[JSONPatch{op: 'add', path: '/spec/unknown', value: 'x'}]").await;
    assert!(message.ends_with("strict decoding error: unknown field \"spec.unknown\""), "{message}");
    let message =
        problem("[JSONPatch{op: 'add', path: '/spec/activeDeadlineSeconds', value: 'three'}]").await;
    assert!(message.contains("cannot unmarshal string into Go struct field"), "{message}");
}

#[tokio::test]
async fn built_in_plugins_act_before_policies_and_check_after_them() {
    let api = Api::new();
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": [
        {"type": "Container", "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}}]}});
    api.post(&core("limitranges"), &range).await.ok();
    let seen = "Object{metadata: Object.metadata{annotations: {'seen': object.spec.containers[0].resources.requests.cpu \
                + ' ' + string(object.spec.priority) + ' ' + object.spec.serviceAccountName}}}";
    bound_policy(&api, "p", "pods", &[configuration(seen)], &json!({})).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let created = api.post(&core("pods"), &pod).await.ok();
    assert_eq!(created["metadata"]["annotations"]["seen"], "100m 0 default");
    assert_eq!(created["status"]["qosClass"], "Burstable");
    let raise = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', resources: \
                 Object.spec.containers.resources{limits: {'cpu': '2'}}}]}}";
    bound_policy(&api, "q", "pods", &[configuration(raise)], &json!({})).await;
    let pod = json!({"metadata": {"name": "q"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let refused = api.post(&core("pods"), &pod).await.fails(403, "Forbidden");
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.contains("maximum cpu usage per Container is 1, but limit is 2"), "{message}");
}

#[tokio::test]
async fn a_configuration_must_fit_the_schema_and_its_types_the_fields() {
    let api = Api::new();
    let problem = async |expression: &str| {
        let name = format!("p{}", expression.len());
        bound_policy(&api, &name, "pods", &[configuration(expression)], &json!({})).await;
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let refused = api.post(&core("pods"), &pod).await.fails(403, "Invalid");
        api.delete(&format!("{BINDINGS}/{name}"), &Value::Null).await.ok();
        refused["message"].as_str().unwrap_or_default().to_owned()
    };
    let message = problem("Object{spec: Object.wrong{}}").await;
    assert!(message.contains("unexpected type name \"Object.wrong\", expected \"Object.spec\""), "{message}");
    let message = problem("Object{spec: Object.spec{nothing: 1}}").await;
    assert!(message.contains(".spec.nothing: field not declared in schema"), "{message}");
    let args = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', args: ['x']}]}}";
    let message = problem(args).await;
    assert!(
        message.contains("may not mutate atomic arrays, maps or structs: .spec.containers[0].args"),
        "{message}"
    );
}

#[tokio::test]
async fn a_policy_that_cannot_be_used_is_refused_when_it_is_written() {
    let api = Api::new();
    let refused = async |mutations: &[Value], extra: Value| {
        let refused = create_policy(&api, "p", "configmaps", mutations, &extra).await.fails(422, "Invalid");
        let causes = refused["details"]["causes"].as_array().cloned().unwrap_or_default();
        let text = |cause: &Value| {
            format!(
                "{}: {}",
                cause["field"].as_str().unwrap_or_default(),
                cause["message"].as_str().unwrap_or_default()
            )
        };
        causes.iter().map(text).collect::<Vec<_>>().join("\n")
    };
    let valid = configuration("Object{}");
    let none = refused(&[], json!({})).await;
    assert!(
        none.contains("spec.mutations: Required value: mutations must contain at least one item"),
        "{none}"
    );
    let both = json!({"patchType": "JSONPatch", "applyConfiguration": {"expression": "Object{}"}});
    let both = refused(&[both], json!({})).await;
    assert!(both.contains("spec.mutations[0].jsonPatch: Required value"), "{both}");
    assert!(both.contains("must not be specified when patchType is JSONPatch"), "{both}");
    let policy = refused(std::slice::from_ref(&valid), json!({"reinvocationPolicy": "Always"})).await;
    assert!(policy.contains("spec.reinvocationPolicy: Unsupported value: \"Always\""), "{policy}");
    let map = refused(&[configuration("{'a': 1}")], json!({})).await;
    assert!(map.contains("must evaluate to Object but got map(string, int)"), "{map}");
    let list = refused(&[json_patch("JSONPatch{op: 'add'}")], json!({})).await;
    assert!(list.contains("must evaluate to list(JSONPatch) but got JSONPatch"), "{list}");
    let op = refused(&[json_patch("[JSONPatch{op: 1}]")], json!({})).await;
    assert!(op.contains("expected type of field 'op' is 'string' but provided type is 'int'"), "{op}");
    let unknown = refused(&[configuration("Wrong{}")], json!({})).await;
    assert!(unknown.contains("undeclared reference to 'Wrong'"), "{unknown}");
}
