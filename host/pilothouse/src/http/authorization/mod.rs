//! `--auth kubernetes`: the API server decides who may read the status port.
//!
//! A client sends a bearer token. A TokenReview says whose it is, and a SubjectAccessReview whether that user may read the path, as for the
//! metrics of a controller that was built with controller-runtime. Probes need no token, and neither do processes of the user who runs the
//! host, which [`peer`] recognises: `kubectl exec` with the commands of `pilothouse` works without one.
//!
//! Everyone who reaches the port can send tokens. So the number of concurrent reviews, the size of a token and the number of remembered
//! decisions are bounded, and refusals do not displace permissions. A client has a share of the reviews, and those for tokens that were allowed before
//! do not wait for those of unknown ones: a client with many wrong tokens delays no scrape.

mod decisions;
mod reviews;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::fair_permits::{Client, FairPermits, Shares};
use super::load::{self, PROBE_PATHS};
use super::peer::{self, Peers};
use decisions::{Decision, Decisions, Question};
use reviews::Reviews;

/// The path that is reviewed as it is.
const METRICS_PATH: &str = "/metrics";
/// The prefix of all other paths in reviews.
const PATH_PREFIX: &str = "/pilothouse";
/// The maximum size of a token in bytes. Tokens of service accounts have about 1,000.
const MAX_TOKEN_SIZE: usize = 16 << 10;
/// The reviews of tokens and paths that were not allowed before, or so long ago that it was forgotten.
const NEW_REVIEWS: Shares = Shares { total: 6, per_client: 2, requests_per_client: 64 };
/// The maximum number of concurrent reviews of tokens and paths that were allowed before.
const MAX_REPEATED_REVIEWS: usize = 2;
/// The minimum time between two log lines about reviews that failed.
const WARNING_INTERVAL: Duration = Duration::from_secs(30);
/// How long a request may wait for its reviews.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// Decides which requests are answered.
pub(crate) struct Authorizer {
    reviews: Reviews,
    decisions: Mutex<Decisions>,
    new_reviews: FairPermits,
    repeated_reviews: Semaphore,
    peers: Peers,
    warned_at: Mutex<Option<Instant>>,
}

impl Authorizer {
    /// Creates an authorizer that sends its reviews with this client.
    pub(crate) fn new(client: kube::Client) -> Self {
        Self {
            reviews: Reviews::new(client),
            decisions: Mutex::default(),
            new_reviews: FairPermits::new(NEW_REVIEWS),
            repeated_reviews: Semaphore::new(MAX_REPEATED_REVIEWS),
            peers: Peers::default(),
            warned_at: Mutex::default(),
        }
    }

    /// Returns the decision about a request, from memory or from the API server.
    ///
    /// # Errors
    /// Errors if the API server cannot be asked.
    async fn decide(&self, question: Question, client: Client) -> Result<Decision, String> {
        let known = self.decisions().get(&question, Instant::now());
        if let Some(decision) = known {
            return Ok(decision);
        }
        let was_allowed = self.decisions().was_allowed(&question);
        let review = async {
            let (_repeated, _new);
            if was_allowed {
                _repeated = self.repeated_reviews.acquire().await.map_err(|error| error.to_string())?;
            } else {
                let permit = self.new_reviews.acquire(client).await;
                _new = permit.ok_or("too many requests of a client wait for reviews of their tokens")?;
            }
            // Another request may have asked meanwhile.
            let known = self.decisions().get(&question, Instant::now());
            match known {
                Some(decision) => Ok(decision),
                None => self.reviews.decide(&question).await,
            }
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
    if PROBE_PATHS.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let token = bearer_token(request.headers()).map(str::to_owned);
    let Some(token) = token else {
        let may_be_own = peer::check_headers(request.headers()).is_ok();
        if may_be_own && authorizer.peers.sent(request.extensions()).await {
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
    let client = load::client_of(request.extensions());
    match authorizer.decide(question, client).await {
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
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::http::HeaderValue;
    use futures::future::join_all;
    use http_body_util::BodyExt;
    use pilothouse_listen::ClientNetwork;
    use serde_json::{Value, json};
    use tokio::task::JoinHandle;

    use super::*;

    /// Returns an authorizer whose API server allows the token `good`, and never answers about other tokens, which it counts.
    fn authorizer() -> (Arc<Authorizer>, Arc<AtomicUsize>) {
        let unanswered = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&unanswered);
        let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let counted = Arc::clone(&counted);
            async move {
                let body = request.into_body().collect().await.expect("a body").to_bytes();
                let review: Value = serde_json::from_slice(&body).expect("JSON");
                let status = match review["spec"]["token"].as_str() {
                    None => json!({"allowed": true}),
                    Some("good") => json!({"authenticated": true, "user": {"username": "scraper"}}),
                    Some(_) => {
                        counted.fetch_add(1, Ordering::Relaxed);
                        std::future::pending().await
                    }
                };
                let answer = json!({"status": status}).to_string().into_bytes();
                Ok::<_, Infallible>(http::Response::new(kube::client::Body::from(answer)))
            }
        });
        (Arc::new(Authorizer::new(kube::Client::new(server, "default"))), unanswered)
    }

    fn question(token: &str) -> Question {
        Question { token: token.to_owned(), verb: "get".to_owned(), path: "/metrics".to_owned() }
    }

    fn client(last: u8) -> Client {
        Some(ClientNetwork::of([10, 0, 0, last].into()))
    }

    /// Asks about wrong tokens of clients in turn, and returns once the requests wait for the API server or for their turn.
    async fn ask_about_wrong_tokens(
        authorizer: &Arc<Authorizer>,
        count: usize,
        clients: &'static [u8],
    ) -> JoinHandle<Vec<Result<Decision, String>>> {
        let authorizer = Arc::clone(authorizer);
        let asking = tokio::spawn(async move {
            let ask = |number: usize| {
                let client = client(clients[number % clients.len()]);
                authorizer.decide(question(&number.to_string()), client)
            };
            join_all((0..count).map(ask)).await
        });
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        asking
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_tokens_do_not_delay_a_token_that_was_allowed_before() {
        let (authorizer, unanswered) = authorizer();
        assert_eq!(authorizer.decide(question("good"), client(1)).await, Ok(Decision::Allowed));
        tokio::time::advance(Duration::from_secs(61)).await;
        // From several addresses, among them the scraper's own.
        let wrong = ask_about_wrong_tokens(&authorizer, 4000, &[1, 2, 3, 4]).await;
        assert_eq!(unanswered.load(Ordering::Relaxed), NEW_REVIEWS.total);
        let before = Instant::now();
        assert_eq!(authorizer.decide(question("good"), client(1)).await, Ok(Decision::Allowed));
        assert_eq!(before.elapsed(), Duration::ZERO, "in virtual time");
        assert!(!wrong.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_with_wrong_tokens_leaves_reviews_to_others() {
        let (authorizer, unanswered) = authorizer();
        let wrong = ask_about_wrong_tokens(&authorizer, 1000, &[1]).await;
        assert_eq!(unanswered.load(Ordering::Relaxed), NEW_REVIEWS.per_client);
        // A token that is new, as after its rotation.
        let before = Instant::now();
        assert_eq!(authorizer.decide(question("good"), client(2)).await, Ok(Decision::Allowed));
        assert_eq!(before.elapsed(), Duration::ZERO, "in virtual time");
        // Those for which there is no place are refused at once, and the others later.
        let refused = wrong.await.expect("no panic");
        assert!(refused.iter().all(Result::is_err));
        let at_once = refused.iter().filter(|refused| *refused != &refused_late()).count();
        assert_eq!(at_once, 1000 - NEW_REVIEWS.requests_per_client);
    }

    fn refused_late() -> Result<Decision, String> {
        Err("no decision of the API server in 10 s".to_owned())
    }

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
