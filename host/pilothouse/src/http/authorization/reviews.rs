//! The requests that ask the API server for a decision.

use std::collections::BTreeMap;

use axum::http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::decisions::{Decision, Question};

/// The maximum size of a response in bytes.
const MAX_RESPONSE_SIZE: usize = 1 << 20;
/// The maximum number of characters of a user's name that are shown.
const MAX_NAME_CHARS: usize = 256;

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// Asks the API server.
pub(super) struct Reviews {
    client: kube::Client,
}

/// A user as TokenReviews return it. SubjectAccessReviews name the first member `user`.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct User {
    #[serde(rename(deserialize = "username", serialize = "user"))]
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenStatus {
    authenticated: bool,
    user: User,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AccessStatus {
    allowed: bool,
    denied: bool,
}

#[derive(Deserialize)]
struct Reviewed<T> {
    status: T,
}

impl Reviews {
    pub(super) fn new(client: kube::Client) -> Self {
        Self { client }
    }

    /// Asks whose token it is, and whether that user may read the path.
    ///
    /// # Errors
    /// Errors if the API server does not answer or forbids the question. The text does not contain the token.
    pub(super) async fn decide(&self, question: &Question) -> Result<Decision, String> {
        let Question { token, verb, path } = question;
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
        });
        let TokenStatus { authenticated, user } = self.create(TOKEN_REVIEWS, &review).await?;
        if !authenticated || user.name.is_empty() {
            return Ok(Decision::Unauthenticated);
        }
        let mut spec = json!(user);
        spec["nonResourceAttributes"] = json!({"path": path, "verb": verb});
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec,
        });
        let AccessStatus { allowed, denied } = self.create(ACCESS_REVIEWS, &review).await?;
        if allowed && !denied {
            return Ok(Decision::Allowed);
        }
        Ok(Decision::Forbidden { user: user.name.chars().take(MAX_NAME_CHARS).collect() })
    }

    /// Creates a review and returns its status.
    async fn create<T: DeserializeOwned>(&self, path: &str, review: &Value) -> Result<T, String> {
        let problem = |text: &dyn std::fmt::Display| format!("POST {path}: {text}");
        let request = Request::post(path)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(Body::from(review.to_string().into_bytes()))
            .map_err(|error| problem(&error))?;
        let response = self.client.send(request).await.map_err(|error| problem(&error))?;
        let status = response.status();
        if status == StatusCode::FORBIDDEN {
            return Err(problem(
                &"403: grant the host the reviews: `pilothouse rbac --auth kubernetes` prints the roles",
            ));
        }
        if !status.is_success() {
            return Err(problem(&status));
        }
        let body = Limited::new(response.into_body(), MAX_RESPONSE_SIZE).collect().await;
        let body = body.map_err(|error| problem(&error))?.to_bytes();
        let reviewed: Reviewed<T> = serde_json::from_slice(&body).map_err(|error| problem(&error))?;
        Ok(reviewed.status)
    }
}
