//! When the API server counts as reached.

use parking_lot::Mutex;
use prometheus_client::registry::Registry;

use super::*;
use crate::config::sidecar::GrantMode;

/// Returns a host whose API server answers requests for its version with the codes, the last one first, and then with 200.
fn host_with_codes(codes: &Arc<Mutex<Vec<u16>>>) -> PluginHost {
    let left = Arc::clone(codes);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let code = match request.uri().path() {
            "/version" => left.lock().pop().unwrap_or(200),
            _ => 404,
        };
        let response = http::Response::builder().status(code).body(kube::client::Body::empty());
        async move { Ok::<_, std::convert::Infallible>(response.expect("a response")) }
    });
    let options = HostOptions {
        plugins: PathBuf::new(),
        api_server: "127.0.0.1:1".to_owned(),
        grant_crds: false,
        grants: GrantMode::Declared,
        instance: "test".to_owned(),
        namespace: "default".to_owned(),
        settle: Duration::ZERO,
        file_events: false,
        access_review_interval: Duration::from_secs(30),
        informer_runtime: None,
        cache_compression: None,
        streaming_lists: true,
        requeue_on_reload: true,
        name_request_origins: false,
        environment: Default::default(),
    };
    let engine = Engine::new(Default::default()).expect("an engine");
    let client = kube::Client::new(service, "default");
    PluginHost::new(options, client, engine, Metrics::register(&mut Registry::default()))
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_the_hosts_credentials_is_not_reached() {
    let codes = Arc::new(Mutex::new(vec![200_u16, 403, 401, 401]));
    let host = host_with_codes(&codes);
    host.clone().reach_server().await;
    assert!(host.shared.reached.load(Ordering::Relaxed));
    assert_eq!(*codes.lock(), [200], "it tried again after each 401, and not after the 403");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_check_credentials_is_not_reached() {
    for code in [429, 500, 502, 503, 504] {
        let codes = Arc::new(Mutex::new(vec![200_u16, 200, code]));
        host_with_codes(&codes).reach_server().await;
        assert_eq!(*codes.lock(), [200], "it tried again after the {code}");
    }
}
