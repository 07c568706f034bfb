//! ValidatingAdmissionPolicies with bindings and parameters.

use pilothouse_apiserver::{ApiServer, Authorization, User};
use serde_json::{Value, json};

use crate::api::{Api, core};
use crate::config_map;

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

/// Creates a policy for ConfigMaps named `a…`; `extra` has further fields of its spec.
async fn create_policy(api: &Api, validations: &Value, extra: &Value) {
    let mut policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            }]},
            "matchConditions": [{"name": "named", "expression": "object.metadata.name.startsWith('a')"}],
            "validations": validations,
        },
    });
    for (name, value) in extra.as_object().into_iter().flatten() {
        policy["spec"][name] = value.clone();
    }
    api.post(POLICIES, &policy).await.ok();
}

async fn bind(api: &Api, name: &str, spec: &Value) {
    let mut binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": "p", "validationActions": ["Deny"]},
    });
    for (name, value) in spec.as_object().into_iter().flatten() {
        binding["spec"][name] = value.clone();
    }
    api.post(BINDINGS, &binding).await.ok();
}

#[tokio::test]
async fn policy_denies_what_its_validations_refuse() {
    let api = Api::new();
    let validations = json!([{
        "expression": "!has(object.data) || variables.size < 2",
        "messageExpression": "'has ' + string(variables.size) + ' entries in ' + namespaceObject.metadata.name",
        "reason": "Forbidden",
    }]);
    let variables = json!({"variables": [{"name": "size", "expression": "size(object.data)"}]});
    create_policy(&api, &validations, &variables).await;
    let big = config_map("a", &json!({"x": "1", "y": "2"}));
    api.post(&core("configmaps"), &big).await.ok();
    api.delete(&core("configmaps/a"), &Value::Null).await.ok();
    bind(&api, "b", &json!({})).await;
    let denied = api.post(&core("configmaps"), &big).await.fails(403, "Forbidden");
    let text = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: has 2 entries in default";
    assert_eq!(denied["message"], format!("configmaps \"a\" is forbidden: {text}"));
    assert_eq!(denied["details"]["causes"], json!([{"message": text}]));
    api.post(&core("configmaps"), &config_map("a", &json!({"x": "1"}))).await.ok();
    api.post(&core("configmaps"), &config_map("b", &json!({"x": "1", "y": "2"}))).await.ok();
    let update = api.merge(&core("configmaps/a"), &json!({"data": {"y": "2"}})).await;
    assert_eq!(update.code, 403, "{:#}", update.body);
}

#[tokio::test]
async fn warn_and_audit_let_the_write_pass() {
    let api = Api::new();
    create_policy(&api, &json!([{"expression": "false", "message": "never"}]), &json!({})).await;
    bind(&api, "b", &json!({"validationActions": ["Warn", "Audit"]})).await;
    let created = api.post(&core("configmaps"), &config_map("a", &json!({}))).await;
    assert_eq!(created.code, 201);
    let warning = "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': never\"";
    assert_eq!(created.warnings, [warning]);
}

#[tokio::test]
async fn parameters_come_from_the_object_that_the_binding_names() {
    let api = Api::new();
    let validations = json!([{"expression": "size(object.data) <= int(params.metadata.labels.limit)", "message": "too many"}]);
    let kind = json!({"paramKind": {"apiVersion": "v1", "kind": "Secret"}});
    create_policy(&api, &validations, &kind).await;
    let reference = json!({"name": "limit", "namespace": "default", "parameterNotFoundAction": "Deny"});
    bind(&api, "b", &json!({"paramRef": reference})).await;
    let object = config_map("a", &json!({"x": "1", "y": "2"}));
    let missing = api.post(&core("configmaps"), &object).await.fails(422, "Invalid");
    let message = missing["message"].as_str().unwrap_or_default();
    let problem =
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert!(message.ends_with(problem), "{message}");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "limit", "labels": {"limit": "1"}}});
    api.post(&core("secrets"), &secret).await.ok();
    let denied = api.post(&core("configmaps"), &object).await.fails(422, "Invalid");
    assert!(denied["message"].as_str().is_some_and(|text| text.ends_with("too many")), "{denied:#}");
    api.merge(&core("secrets/limit"), &json!({"metadata": {"labels": {"limit": "2"}}})).await.ok();
    api.post(&core("configmaps"), &object).await.ok();
}

#[tokio::test]
async fn unknown_kind_of_parameters_is_a_problem_of_the_policy() {
    let api = Api::new();
    let kind = |api_version: &str| json!({"paramKind": {"apiVersion": api_version, "kind": "Limit"}});
    create_policy(&api, &json!([{"expression": "true"}]), &kind("example.com/v1")).await;
    // Neither a `paramRef` nor a matching namespace is needed.
    let resources = json!({"namespaceSelector": {"matchLabels": {"team": "a"}}});
    bind(&api, "b", &json!({"matchResources": resources})).await;
    let refused = async || {
        let refused = api.post(&core("configmaps"), &config_map("a", &json!({}))).await.fails(422, "Invalid");
        refused["details"]["causes"][0]["message"].as_str().unwrap_or_default().to_owned()
    };
    let problem = "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource \
                   referenced by paramKind: ";
    assert_eq!(refused().await, format!("{problem}'example.com/v1, Kind=Limit'"));
    api.merge(&format!("{POLICIES}/p"), &json!({"spec": kind("v1")})).await.ok();
    assert_eq!(refused().await, format!("{problem}'/v1, Kind=Limit'"));
}

#[tokio::test]
async fn policy_is_not_replaced_without_its_resource_version() {
    let api = Api::new();
    create_policy(&api, &json!([{"expression": "true"}]), &json!({})).await;
    let path = format!("{POLICIES}/p");
    let mut policy = api.get(&path).await.ok();
    policy["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    let refused = api.put(&path, &policy).await.fails(422, "Invalid");
    let cause = &refused["details"]["causes"][0];
    assert_eq!(cause["field"], "metadata.resourceVersion");
    assert_eq!(cause["message"], "Invalid value: 0: must be specified for an update");
}

#[tokio::test]
async fn binding_limits_the_policy_to_its_namespaces() {
    let api = Api::new();
    create_policy(&api, &json!([{"expression": "false"}]), &json!({})).await;
    let resources = json!({"namespaceSelector": {"matchLabels": {"team": "a"}}});
    bind(&api, "b", &json!({"matchResources": resources})).await;
    let object = config_map("a", &json!({}));
    api.post(&core("configmaps"), &object).await.ok();
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"team": "a"}}});
    api.post("/api/v1/namespaces", &namespace).await.ok();
    let denied = api.post("/api/v1/namespaces/n/configmaps", &object).await.fails(422, "Invalid");
    let message = denied["message"].as_str().unwrap_or_default();
    assert!(message.ends_with("denied request: failed expression: false"), "{message}");
}

#[tokio::test]
async fn policy_that_does_not_compile_is_refused() {
    let api = Api::new();
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"],
            }]},
            "validations": [{"expression": "object.spec.replicas <= limit"}],
        },
    });
    let refused = api.post(POLICIES, &policy).await.fails(422, "Invalid");
    let cause = &refused["details"]["causes"][0];
    assert_eq!(cause["field"], "spec.validations[0].expression");
    assert!(
        cause["message"].as_str().is_some_and(|text| text.contains("undeclared reference to 'limit'")),
        "{cause:#}"
    );
}

#[tokio::test]
async fn kubectl_columns_show_what_policies_and_bindings_refer_to() {
    let api = Api::new();
    let kind = json!({"paramKind": {"apiVersion": "v1", "kind": "Secret"}});
    create_policy(&api, &json!([{"expression": "true"}]), &kind).await;
    let reference = json!({"name": "limit", "namespace": "default", "parameterNotFoundAction": "Deny"});
    bind(&api, "b", &json!({"paramRef": reference})).await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let (policies, _) = api.get_as(POLICIES, accept).await;
    assert_eq!(
        policies.body["rows"][0]["cells"].as_array().map(|cells| &cells[..3]),
        Some(&[json!("p"), json!(1), json!("v1/Secret")][..])
    );
    let (bindings, _) = api.get_as(BINDINGS, accept).await;
    assert_eq!(
        bindings.body["rows"][0]["cells"].as_array().map(|cells| &cells[..3]),
        Some(&[json!("b"), json!("p"), json!("default/limit")][..])
    );
}

#[tokio::test]
async fn expressions_ask_the_authorizer_of_the_server() {
    let server = ApiServer::builder().authorization(Authorization::Rbac).build();
    let api = Api { server };
    let validations = json!([
        {"expression": "authorizer.requestResource.check('create').allowed()", "message": "may not create"},
        {"expression": "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()",
            "message": "may not read secrets"},
        {"expression": "!authorizer.serviceAccount('default', 'robot').path('/metrics').check('get').allowed()",
            "message": "the robot may read metrics"},
    ]);
    create_policy(&api, &validations, &json!({})).await;
    bind(&api, "b", &json!({})).await;
    api.post(&core("configmaps"), &config_map("a", &json!({}))).await.ok();
    let role = json!({
        "metadata": {"name": "writer"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}],
    });
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    api.post(&format!("{roles}/roles"), &role).await.ok();
    let binding = json!({
        "metadata": {"name": "writer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "writer"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}],
    });
    api.post(&format!("{roles}/rolebindings"), &binding).await.ok();
    let client = kube::Client::new(api.server.service_as(User::new("eve", &[])), "default");
    let request = http::Request::post(core("configmaps"))
        .header("content-type", "application/json")
        .body(config_map("a2", &json!({})).to_string().into_bytes())
        .expect("a request");
    let denied = client.request::<Value>(request).await.expect_err("eve may not read secrets");
    assert!(denied.to_string().contains("denied request: may not read secrets"), "{denied}");
}

#[tokio::test]
async fn a_validation_must_be_a_boolean_and_name_known_fields() {
    let api = Api::new();
    let refused = async |expression: &str| {
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
            "spec": {
                "matchConstraints": {"resourceRules": [{
                    "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"],
                }]},
                "validations": [{"expression": expression}],
            },
        });
        let refused = api.post(POLICIES, &policy).await.fails(422, "Invalid");
        refused["details"]["causes"][0]["message"].as_str().unwrap_or_default().to_owned()
    };
    let number = refused("1").await;
    assert!(number.ends_with("must evaluate to bool but got int"), "{number}");
    let field = refused("request.nothing == 1").await;
    assert!(field.contains("ERROR: <input>:1:8: undefined field 'nothing'"), "{field}");
    let params = refused("params.a == 1").await;
    assert!(params.contains("undeclared reference to 'params' (in container '')"), "{params}");
}

#[tokio::test]
async fn a_selection_from_null_is_an_error() {
    let api = Api::new();
    create_policy(&api, &json!([{"expression": "!oldObject.data.x"}]), &json!({})).await;
    bind(&api, "b", &json!({})).await;
    let denied = api.post(&core("configmaps"), &config_map("a", &json!({}))).await.fails(422, "Invalid");
    let message = denied["message"].as_str().unwrap_or_default();
    assert!(
        message.ends_with("expression '!oldObject.data.x' resulted in error: no such key: data"),
        "{message}"
    );
}
