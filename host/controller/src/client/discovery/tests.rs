//! Discovery against a server whose resource list changes, in paused time.

use std::sync::atomic::{AtomicU32, Ordering};

use kube::client::Body;
use serde_json::json;
use tokio::time::{advance, sleep};

use super::*;

/// A server with this resource list for `example.com/v1`, which counts its requests.
#[derive(Clone, Default)]
struct Fixture {
    serves: Arc<Mutex<Value>>,
    requests: Arc<AtomicU32>,
}

impl Fixture {
    fn serve(&self, plural: &str, namespaced: bool) {
        *self.serves.lock() =
            json!({"resources": [{"name": plural, "kind": "Foo", "namespaced": namespaced}]});
    }

    fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }

    fn discovery(&self) -> Discovery {
        let fixture = self.clone();
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let fixture = fixture.clone();
            async move {
                fixture.requests.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_millis(10)).await;
                let body = fixture.serves.lock().clone();
                let code = if body.is_null() { 404 } else { 200 };
                let response = http::Response::builder().status(code);
                Ok::<_, std::convert::Infallible>(
                    response.body(Body::from(body.to_string().into_bytes())).expect("a response"),
                )
            }
        });
        Discovery::new(ApiClient::new(kube::Client::new(service, "default")))
    }
}

fn foo() -> GroupVersionKind<'static> {
    GroupVersionKind::parse("example.com/v1", "Foo").expect("a type")
}

async fn plural(discovery: &Discovery, freshness: Freshness) -> Option<(String, bool)> {
    let found = discovery.resolve(foo(), None, freshness).await.ok()?;
    Some((found.plural, found.namespaced))
}

#[tokio::test(start_paused = true)]
async fn a_changed_scope_is_seen_after_the_cache_ttl_or_an_invalidation() {
    let fixture = Fixture::default();
    fixture.serve("foos", true);
    let discovery = fixture.discovery();
    assert_eq!(plural(&discovery, Freshness::Cached).await, Some(("foos".into(), true)));
    fixture.serve("fooes", false);
    assert_eq!(plural(&discovery, Freshness::Cached).await, Some(("foos".into(), true)));
    assert_eq!(fixture.requests(), 1, "the list is kept");
    discovery.invalidate("example.com", "v1");
    assert_eq!(plural(&discovery, Freshness::Cached).await, Some(("fooes".into(), false)));
    fixture.serve("foos", true);
    advance(CACHE_TTL + Duration::from_secs(1)).await;
    assert_eq!(plural(&discovery, Freshness::Cached).await, Some(("foos".into(), true)));
    fixture.serve("fooes", false);
    advance(LOAD_CACHE_TTL + Duration::from_secs(1)).await;
    assert_eq!(plural(&discovery, Freshness::Fresh).await, Some(("fooes".into(), false)));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_looked_up_again_and_not_cached() {
    let fixture = Fixture::default();
    let discovery = fixture.discovery();
    for version in 0..100 {
        let api_version = format!("example.com/v{version}");
        let of = GroupVersionKind::parse(&api_version, "Foo").expect("a type");
        let error = discovery.resolve(of, None, Freshness::Cached).await.expect_err("not served");
        assert!(matches!(error, DiscoveryError::NotServed { .. }), "{error}");
    }
    let state = discovery.state.lock();
    assert_eq!((state.cache.size(), state.pending.len(), fixture.requests()), (0, 0, 100));
}

#[tokio::test(start_paused = true)]
async fn concurrent_lookups_share_a_response_even_if_the_first_caller_is_dropped() {
    let fixture = Fixture::default();
    fixture.serve("foos", true);
    let discovery = fixture.discovery();
    let look_up = |discovery: &Discovery| {
        let discovery = discovery.clone();
        tokio::spawn(async move { plural(&discovery, Freshness::Cached).await })
    };
    let first = look_up(&discovery);
    tokio::task::yield_now().await;
    let others: Vec<_> = (0..10).map(|_| look_up(&discovery)).collect();
    tokio::task::yield_now().await;
    first.abort();
    for other in others {
        assert_eq!(other.await.expect("not aborted"), Some(("foos".into(), true)));
    }
    assert_eq!(fixture.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_plural_name_of_another_kind_is_not_served() {
    let fixture = Fixture::default();
    fixture.serve("foos", true);
    let discovery = fixture.discovery();
    let error =
        discovery.resolve(foo(), Some("secrets"), Freshness::Fresh).await.expect_err("another resource");
    assert!(error.to_string().contains("as the resource \"secrets\""), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_oversized_resource_list_is_not_read_to_its_end() {
    let fixture = Fixture::default();
    *fixture.serves.lock() = json!({"resources": [], "padding": "x".repeat(MAX_LIST_SIZE)});
    let error = fixture.discovery().resolve(foo(), None, Freshness::Cached).await.expect_err("too large");
    assert!(
        matches!(error, DiscoveryError::Request { source: RequestError::ResponseTooLarge { .. }, .. }),
        "{error}"
    );
}
