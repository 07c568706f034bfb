//! Tests of the recorder with the task that writes its events.

use std::time::Duration;

use http::Method;
use jiff::Timestamp;

use super::writer::{identity, manifest};
use super::*;

fn pending_event(note: &str) -> PendingEvent {
    new_event(note).into()
}

#[tokio::test]
async fn a_guests_events_are_charged_until_written_and_hold_no_object() {
    let (recorder, _queued) = EventRecorder::new();
    let memory = HostMemory::new(2 * pending_event("n").bytes());
    assert!(
        recorder.record_charged(new_event("n"), &memory) && recorder.record_charged(new_event("m"), &memory)
    );
    assert_eq!(memory.used(), memory.limit());
    assert!(!recorder.record_charged(new_event("o"), &memory), "dropped");
    assert!(recorder.record(new_event("p")), "the host's own is not the plugin's");
    while let Some((source, event)) = { recorder.queue.lock().next() } {
        drop(event);
        recorder.queue.lock().finish(&source);
    }
    assert_eq!(memory.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_recorder_continues_after_a_panic() {
    let methods = Arc::<parking_lot::Mutex<Vec<Method>>>::default();
    let seen = Arc::clone(&methods);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let mut methods = seen.lock();
        methods.push(request.method().clone());
        let count = methods.len();
        // The response is polled by the recorder's task.
        async move {
            assert!(count > 1, "a defect in the recorder");
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::from(b"{}".to_vec())))
        }
    });
    let server = ApiClient::new(kube::Client::new(service, "default"));
    let recorder = EventRecorder::start(server, "test".into(), PluginLogs::default(), WallClock::default());
    for _ in 0..3 {
        assert!(recorder.record(new_event("n")));
    }
    while methods.lock().len() < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The first Event was not written, so the second one is not an occurrence of it.
    assert_eq!(*methods.lock(), [Method::POST, Method::POST, Method::PATCH]);
}

/// The Events of one plugin have no response, as in a namespace with a slow webhook.
#[tokio::test(start_paused = true)]
async fn a_plugin_whose_events_take_long_delays_no_others() {
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let service = {
        let seen = Arc::clone(&seen);
        tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let plugin = request.uri().query().unwrap_or_default().replace("fieldManager=", "");
            let hangs = plugin == "slow";
            seen.lock().push(plugin);
            async move {
                if hangs {
                    std::future::pending::<()>().await;
                }
                let body = kube::client::Body::from(b"{}".to_vec());
                Ok::<_, std::convert::Infallible>(http::Response::new(body))
            }
        })
    };
    let server = ApiClient::new(kube::Client::new(service, "default"));
    let recorder = EventRecorder::start(server, "test".into(), PluginLogs::default(), WallClock::default());
    let memory = HostMemory::default();
    let of = |plugin: &str, note: u32| NewEvent { plugin: plugin.into(), ..new_event(&note.to_string()) };
    let admitted = (0..1_000).filter(|note| recorder.record_charged(of("slow", *note), &memory)).count();
    assert!((100..200).contains(&admitted), "{admitted}");
    assert!(recorder.record_charged(of("other", 0), &memory));
    assert!(recorder.record(of("slow", 0)), "the host's own");
    let count = |plugin: &str| seen.lock().iter().filter(|seen| *seen == plugin).count();
    while count("other") == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(count("slow"), 2, "one of the plugin, one of the host");
    // Those that have no response are given up at some time, and the next ones are sent.
    while count("slow") < 6 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(memory.used() > 0);
}

fn new_event(note: &str) -> NewEvent {
    let object =
        r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","uid":"u","resourceVersion":"5"}}"#;
    NewEvent {
        plugin: "p".into(),
        regarding: Object::from_json(object).expect("an object"),
        warning: true,
        reason: "Odd".into(),
        action: String::new(),
        note: note.into(),
    }
}

#[test]
fn an_event_about_a_cluster_scoped_object_lives_in_default() {
    let now = Timestamp::UNIX_EPOCH;
    let (path, name, body) = manifest(&pending_event("n"), "host", now);
    assert_eq!((path.as_str(), name.as_str()), ("/apis/events.k8s.io/v1/namespaces/default/events", "n1.0"));
    assert_eq!(body["eventTime"], "1970-01-01T00:00:00.000000Z");
    assert_eq!(body["regarding"]["kind"], "Node");
    assert_eq!(body["type"], "Warning");
    assert_eq!(body["action"], "Reconcile", "the server refuses an empty action");
}

#[test]
fn only_equal_events_share_a_series() {
    assert!(identity(&pending_event("a")) == identity(&pending_event("a")));
    assert!(identity(&pending_event("a")) != identity(&pending_event("b")));
}
