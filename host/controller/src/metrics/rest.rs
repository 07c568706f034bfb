//! Metrics of all requests that the host sends to the API server, under client-go's names.

use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::client::Body;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::registered;

/// Upper bounds of the buckets in seconds, those of client-go.
const SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCode {
    code: String,
    method: &'static str,
    host: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByVerb {
    verb: &'static str,
    host: String,
}

/// The request metrics. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RestMetrics {
    requests: Family<ByCode, Counter>,
    durations: Family<ByVerb, Histogram, fn() -> Histogram>,
}

impl RestMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let durations = Family::new_with_constructor((|| Histogram::new(SECONDS)) as fn() -> Histogram);
        Self {
            requests: registered(
                registry,
                "rest_client_requests",
                "Requests to the API server; `code` is `<error>` for a request without a response",
                Family::default(),
            ),
            durations: registered(
                registry,
                "rest_client_request_duration_seconds",
                "Time from a request to the head of its response; `verb` is the HTTP method",
                durations,
            ),
        }
    }

    /// Wraps a client so that its requests are counted. Must be called within a tokio runtime.
    pub(crate) fn measure(&self, client: kube::Client, host: &str) -> kube::Client {
        let namespace = client.default_namespace().to_owned();
        let valid_until = *client.valid_until();
        let measured = Measured { client, metrics: self.clone(), host: host.to_owned() };
        kube::Client::new(measured, namespace).with_valid_until(valid_until)
    }

    fn count(&self, method: &'static str, host: &str, code: Option<u16>, begun: Instant) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.requests.get_or_create(&ByCode { code, method, host: host.to_owned() }).inc();
        let seconds = begun.elapsed().as_secs_f64();
        self.durations.get_or_create(&ByVerb { verb: method, host: host.to_owned() }).observe(seconds);
    }
}

struct Measured {
    client: kube::Client,
    metrics: RestMetrics,
    host: String,
}

impl tower::Service<Request<Body>> for Measured {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    /// Always ready: the wrapped client waits in `call`.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, metrics, host) = (self.client.clone(), self.metrics.clone(), self.host.clone());
        let method = word(request.method());
        async move {
            let begun = Instant::now();
            let response = client.send(request).await;
            metrics.count(
                method,
                &host,
                response.as_ref().ok().map(|response| response.status().as_u16()),
                begun,
            );
            response
        }
        .boxed()
    }
}

/// Returns the label for a method. The number of labels is bounded, whatever the method is.
fn word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use prometheus_client::encoding::text::encode;

    use super::*;

    #[tokio::test]
    async fn requests_are_counted_by_status_method_and_host() {
        let mut registry = Registry::default();
        let metrics = RestMetrics::register(&mut registry);
        let server = tower::service_fn(async |request: Request<Body>| {
            let code = if request.uri().path() == "/there" { 200 } else { 404 };
            Ok::<_, Infallible>(Response::builder().status(code).body(Body::empty()).expect("a response"))
        });
        let broken = tower::service_fn(async |_: Request<Body>| {
            Err::<Response<Body>, _>(std::io::Error::from(std::io::ErrorKind::ConnectionRefused))
        });
        let client = metrics.measure(kube::Client::new(server, "mine"), "cluster:6443");
        assert_eq!(client.default_namespace(), "mine");
        let get = |path: &str| Request::get(path).body(Body::empty()).expect("a request");
        for path in ["/there", "/there", "/elsewhere"] {
            client.send(get(path)).await.expect("an response");
        }
        let broken = metrics.measure(kube::Client::new(broken, "mine"), "gone:6443");
        let error = broken.send(get("/there")).await.expect_err("nobody listens");
        assert!(format!("{error:?}").contains("ConnectionRefused"), "the cause stays visible: {error:?}");
        let mut text = String::new();
        encode(&mut text, &registry).expect("text");
        for line in [
            r#"rest_client_requests_total{code="200",method="GET",host="cluster:6443"} 2"#,
            r#"rest_client_requests_total{code="404",method="GET",host="cluster:6443"} 1"#,
            r#"rest_client_requests_total{code="<error>",method="GET",host="gone:6443"} 1"#,
            r#"rest_client_request_duration_seconds_count{verb="GET",host="cluster:6443"} 3"#,
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
