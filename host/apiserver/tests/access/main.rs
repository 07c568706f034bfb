//! RBAC, impersonation, reviews and tokens, through `kube::Client` in process.

mod audit;
mod impersonation;
mod params;
mod reviews;
mod rights;
mod roles;
mod tokens;

use http::{Method, Request};
use kube::Client;
use pilothouse_apiserver::{ApiServer, Authorization, User};
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The code and the message of a failed request.
type Failure = (u16, String);

/// A client for requests of one user, with additional headers.
struct UserClient {
    client: Client,
    headers: Vec<(&'static str, String)>,
}

fn start() -> (ApiServer, UserClient) {
    let server = ApiServer::builder().authorization(Authorization::Rbac).build();
    let admin = UserClient { client: Client::new(server.service(), "default"), headers: Vec::new() };
    (server, admin)
}

fn user(server: &ApiServer, name: &str) -> UserClient {
    user_with_headers(server, User::new(name, &[]), &[])
}

fn user_with_headers(server: &ApiServer, user: User, headers: &[(&'static str, &str)]) -> UserClient {
    let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    UserClient { client: Client::new(server.service_as(user), "default"), headers }
}

impl UserClient {
    async fn call(&self, method: Method, path: &str, body: Value) -> Result<Value, Failure> {
        let mut request =
            Request::builder().method(method).uri(path).header("content-type", "application/json");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        match self.client.request_text(request.body(body).expect("a request")).await {
            Ok(text) => Ok(serde_json::from_str(&text).unwrap_or_default()),
            Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
            Err(error) => panic!("{path}: {error}"),
        }
    }

    async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.call(Method::GET, path, Value::Null).await
    }

    async fn post(&self, path: &str, body: Value) -> Result<Value, Failure> {
        self.call(Method::POST, path, body).await
    }

    async fn put(&self, path: &str, body: Value) -> Result<Value, Failure> {
        self.call(Method::PUT, path, body).await
    }

    async fn delete(&self, path: &str) -> Result<Value, Failure> {
        self.call(Method::DELETE, path, Value::Null).await
    }

    /// Gives `subject` a role with these rules in the namespace `default`. Requires the administrator's client.
    async fn grant(&self, name: &str, subject: Value, rules: Value) {
        let role = json!({"metadata": {"name": name}, "rules": rules});
        self.post(&format!("{RBAC}/namespaces/default/roles"), role).await.expect("a role");
        let bound = self.bind("namespaces/default/rolebindings", name, ("Role", name), subject).await;
        bound.expect("a binding");
    }

    /// Gives `subject` a cluster role with these rules.
    async fn grant_cluster_wide(&self, name: &str, subject: Value, rules: Value) {
        let role = json!({"metadata": {"name": name}, "rules": rules});
        self.post(&format!("{RBAC}/clusterroles"), role).await.expect("a role");
        let bound = self.bind("clusterrolebindings", name, ("ClusterRole", name), subject).await;
        bound.expect("a binding");
    }

    async fn bind(
        &self,
        path: &str,
        name: &str,
        (kind, role): (&str, &str),
        subject: Value,
    ) -> Result<Value, Failure> {
        let reference = json!({"kind": kind, "name": role});
        let binding = json!({"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]});
        self.post(&format!("{RBAC}/{path}"), binding).await
    }

    /// Returns the user name and the groups that the server sees for this client.
    async fn whoami(&self) -> (String, Vec<String>) {
        let review = self.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await;
        let user = &review.expect("everybody may ask")["status"]["userInfo"];
        let groups = user["groups"].as_array().into_iter().flatten().filter_map(Value::as_str);
        (user["username"].as_str().unwrap_or_default().to_owned(), groups.map(str::to_owned).collect())
    }
}

fn subject(kind: &str, name: &str) -> Value {
    json!({"kind": kind, "name": name})
}

fn account(name: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name, "namespace": "default"})
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!([{"apiGroups": [group], "resources": resources, "verbs": verbs}])
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[track_caller]
fn expect_forbidden(answer: Result<Value, Failure>) -> String {
    let (code, message) = answer.expect_err("a refusal");
    assert_eq!(code, 403, "{message}");
    message
}
