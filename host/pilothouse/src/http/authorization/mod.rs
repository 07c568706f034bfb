//! `--auth kubernetes`: the API server decides who may read the status port.
//!
//! A client sends a bearer token. A TokenReview says whose it is, and a SubjectAccessReview whether that user may read the path, as for the
//! metrics of a controller that was built with controller-runtime. Probes need no token, and neither do processes of the user who runs the
//! host, which [`peer`] recognises: `kubectl exec` with the commands of `pilothouse` works without one.
//!
//! Everyone who reaches the port can send tokens. So the number of concurrent reviews, the size of a token and the number of remembered
//! decisions are bounded, and refusals do not displace permissions.

mod decisions;
mod reviews;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use pilothouse_listen::ConnectionAddresses;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::peer;
use decisions::{Decision, Decisions, Question};
use reviews::Reviews;

/// The paths that need no token: the probes of the kubelet send none. They say nothing about plugins while the host is ready.
const OPEN_PATHS: [&str; 2] = ["/healthz", "/readyz"];
/// The path that is reviewed as it is.
const METRICS_PATH: &str = "/metrics";
/// The prefix of all other paths in reviews.
const PATH_PREFIX: &str = "/pilothouse";
/// The maximum size of a token in bytes. Tokens of service accounts have about 1,000.
const MAX_TOKEN_SIZE: usize = 16 << 10;
/// The maximum number of reviews that are asked for at the same time.
const MAX_REVIEWS: usize = 8;
/// The minimum time between two log lines about reviews that failed.
const WARNING_INTERVAL: Duration = Duration::from_secs(30);
/// How long a request may wait for its reviews.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// Decides which requests are answered.
pub(crate) struct Authorizer {
    reviews: Reviews,
    decisions: Mutex<Decisions>,
    review_slots: Semaphore,
    warned_at: Mutex<Option<Instant>>,
}

impl Authorizer {
    /// Creates an authorizer that sends its reviews with this client.
    pub(crate) fn new(client: kube::Client) -> Self {
        Self {
            reviews: Reviews::new(client),
            decisions: Mutex::default(),
            review_slots: Semaphore::new(MAX_REVIEWS),
            warned_at: Mutex::default(),
        }
    }

    /// Returns the decision about a request, from memory or from the API server.
    ///
    /// # Errors
    /// Errors if the API server cannot be asked.
    async fn decide(&self, question: Question) -> Result<Decision, String> {
        let known = self.decisions().get(&question, Instant::now());
        if let Some(decision) = known {
            return Ok(decision);
        }
        let review = async {
            let _slot = self.review_slots.acquire().await.map_err(|error| error.to_string())?;
            self.reviews.decide(&question).await
        };
        let late = |_| Err(format!("no decision of the API server in {} s", REVIEW_TIMEOUT.as_secs()));
        let decision = timeout(REVIEW_TIMEOUT, review).await.unwrap_or_else(late)?;
        self.decisions().insert(question, decision.clone(), Instant::now());
        Ok(decision)
    }

    /// Logs that the API server cannot be asked, at most once in [`WARNING_INTERVAL`].
    fn warn(&self, problem: &str) {
        let mut warned_at = self.warned_at.lock().unwrap_or_else(PoisonError::into_inner);
        if warned_at.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL) {
            *warned_at = Some(Instant::now());
            tracing::warn!("cannot find out who may read the status port: {problem}");
        }
    }

    fn decisions(&self) -> MutexGuard<'_, Decisions> {
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rejects requests without a token with 401, and requests that the API server does not allow with 403.
pub(super) async fn require_permission(
    State(authorizer): State<Arc<Authorizer>>,
    request: Request,
    next: Next,
) -> Response {
    if OPEN_PATHS.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let token = bearer_token(request.headers()).map(str::to_owned);
    let Some(token) = token else {
        let may_be_own = peer::check_headers(request.headers()).is_ok();
        let addresses = request.extensions().get::<ConnectionAddresses>().copied();
        if may_be_own && peer::is_own_user(addresses).await {
            return next.run(request).await;
        }
        return unauthorized(
            "this host wants a bearer token of its cluster, because it runs with --auth kubernetes",
        );
    };
    let question = Question {
        token,
        verb: request.method().as_str().to_ascii_lowercase(),
        path: reviewed_path(request.uri().path()),
    };
    let (verb, path) = (question.verb.clone(), question.path.clone());
    match authorizer.decide(question).await {
        Ok(Decision::Allowed) => next.run(request).await,
        Ok(Decision::Unauthenticated) => unauthorized("the API server does not accept the token"),
        Ok(Decision::Forbidden { user }) => {
            let text = format!(
                "user {user:?} may not {verb} {path}: a ClusterRole with this verb and path as nonResourceURLs, bound to the user, allows it\n"
            );
            (StatusCode::FORBIDDEN, text).into_response()
        }
        Err(problem) => {
            authorizer.warn(&problem);
            let text = "the host cannot ask the API server who may read this; its log says why\n";
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

/// Returns the path that the API server is asked about. Clusters allow every authenticated user to get `/api/*` (`system:discovery`), because the
/// API server has these paths, too. So all paths but that of the metrics, for which roles exist in many clusters, get a prefix of their own.
fn reviewed_path(path: &str) -> String {
    if path == METRICS_PATH { path.to_owned() } else { format!("{PATH_PREFIX}{path}") }
}

fn unauthorized(problem: &str) -> Response {
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], format!("{problem}\n")).into_response()
}

/// Returns the token of the header `Authorization`. Several such headers, and a token that is too long, count as none.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (first, None) = (values.next()?, values.next()) else { return None };
    let (scheme, token) = first.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    let is_token =
        scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= MAX_TOKEN_SIZE;
    is_token.then_some(token)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_one_bearer_token_of_a_plausible_size_is_taken() {
        let token = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).expect("a header"));
            }
            bearer_token(&headers).map(str::to_owned)
        };
        assert_eq!(token(&["Bearer abc"]).as_deref(), Some("abc"));
        assert_eq!(token(&["bearer  abc "]).as_deref(), Some("abc"));
        let long = format!("Bearer {}", "a".repeat(MAX_TOKEN_SIZE + 1));
        for values in
            [&[][..], &["Bearer"], &["Bearer "], &["Basic abc"], &["Bearer a", "Bearer b"], &[&*long]]
        {
            assert_eq!(token(values), None, "{} values", values.len());
        }
    }
}
