//! A model of the API server, and watches of it that deliver events when a test asks for them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use pilothouse_informer::{
    IndexError, IndexFn, InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions,
    Subscription,
};
use pilothouse_model::{FieldSelector, LabelSelector, Object, ObjectKey, Projection, ResourceType};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::cache::computed::ComputedIndexes;
use crate::cache::own_writes::OwnWrites;
use crate::cache::views::{SharedIndex, View, ViewIndex, WatchCache};

pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];
pub(crate) const TEAMS: [&str; 3] = ["red", "blue", ""];

const EMPTY: &str =
    r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}"#;

pub(crate) fn resource() -> ResourceType {
    ResourceType {
        group: String::new(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
        namespaced: true,
    }
}

pub(crate) fn key(name: usize) -> ObjectKey {
    ObjectKey::new("n", NAMES[name])
}

/// The change at one resource version.
#[derive(Clone)]
pub(crate) struct Event {
    pub(crate) key: ObjectKey,
    pub(crate) before: Option<Object>,
    pub(crate) after: Option<Object>,
}

/// The history of the server: one event per resource version, from 2 on.
pub(crate) struct ModelServer {
    /// Whether resource versions are decimal numbers, and so have an order.
    pub(crate) decimal: bool,
    pub(crate) events: Vec<Event>,
    pub(crate) uids: usize,
}

impl ModelServer {
    pub(crate) fn new(decimal: bool) -> Self {
        Self { decimal, events: Vec::new(), uids: 0 }
    }

    pub(crate) fn version(&self, number: usize) -> String {
        if self.decimal { number.to_string() } else { format!("v{number}x") }
    }

    /// Returns the state at a position, which is a number of events.
    pub(crate) fn at(&self, key: &ObjectKey, position: usize) -> Option<Object> {
        let events = self.events[..position].iter().rev();
        events.filter(|event| event.key == *key).map(|event| event.after.clone()).next().flatten()
    }

    pub(crate) fn now(&self, key: &ObjectKey) -> Option<Object> {
        self.at(key, self.events.len())
    }

    pub(crate) fn commit(&mut self, key: ObjectKey, after: Option<Object>) {
        let before = self.now(&key);
        self.events.push(Event { key, before, after });
    }

    /// Creates or updates an object, and returns its new state.
    pub(crate) fn put(&mut self, name: usize, team: usize, value: u8) -> Object {
        let uid = match self.now(&key(name)) {
            Some(object) => object.uid().to_owned(),
            None => {
                self.uids += 1;
                format!("u{}", self.uids)
            }
        };
        let number = self.events.len() + 2;
        let mut metadata = json!({
            "name": NAMES[name], "namespace": "n", "uid": uid, "resourceVersion": self.version(number),
            "ownerReferences": [{"apiVersion": "v1", "kind": "Foo", "name": "f", "uid": format!("o{value}")}],
        });
        if !TEAMS[team].is_empty() {
            metadata["labels"] = json!({"team": TEAMS[team]});
        }
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
            "data": {"value": value.to_string(), "number": number.to_string()}});
        let object = Object::from_json(object.to_string()).expect("an object");
        self.commit(key(name), Some(object.clone()));
        object
    }

    pub(crate) fn delete(&mut self, name: usize) -> Option<String> {
        let gone = self.now(&key(name))?;
        self.commit(key(name), None);
        Some(gone.uid().to_owned())
    }
}

/// One watch of the plugin, with a stream of its own.
pub(crate) struct TestWatch {
    pub(crate) selector: LabelSelector,
    pub(crate) stream: mpsc::UnboundedSender<Bytes>,
    pub(crate) subscription: Arc<Subscription>,
    /// The number of the server's events that the stream has delivered.
    pub(crate) position: usize,
}

impl TestWatch {
    /// Subscribes to a server with an empty list, whose watch stream the test controls.
    pub(crate) async fn open(selector: &str) -> Self {
        let selector = LabelSelector::parse(selector).expect("a selector");
        let (stream, receiver) = mpsc::unbounded_channel::<Bytes>();
        let receiver = Arc::new(Mutex::new(Some(receiver)));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let receiver = Arc::clone(&receiver);
            async move {
                let is_watch = request.uri().query().unwrap_or_default().contains("watch=");
                let lines = receiver.lock().take_if(|_| is_watch);
                let body = match lines {
                    Some(mut lines) => {
                        let lines = futures::stream::poll_fn(move |context| lines.poll_recv(context));
                        StreamBody::new(lines.map(|line| Ok::<_, Infallible>(Frame::data(line))))
                            .boxed_unsync()
                    }
                    None => Full::from(EMPTY).boxed_unsync(),
                };
                Ok::<_, Infallible>(http::Response::new(body))
            }
        });
        let options = InformerOptions::default().with_streaming_list(false);
        let informers = InformerRegistry::new(KubeListWatches::new(kube::Client::new(service, "n")), options);
        let key = InformerKey::new(resource()).with_labels(selector.clone());
        let subscription =
            Arc::new(informers.subscribe(key, SubscribeOptions::default()).expect("the registry is open"));
        while !subscription.status().synced {
            tokio::task::yield_now().await;
        }
        Self { selector, stream, subscription, position: 0 }
    }

    pub(crate) fn view(&self, own_writes: Arc<OwnWrites>) -> View {
        let functions = [
            ("team", IndexFn::label("team")),
            ("value", IndexFn::field("{.data.value}").expect("a path")),
            ("owner", IndexFn::owner_uid()),
        ];
        let mut indexes = BTreeMap::from([("computed".to_owned(), ViewIndex::Computed)]);
        for (name, function) in functions {
            match self.subscription.add_index(name, function.clone()) {
                // Another view of the same subscription has added it.
                Ok(()) | Err(IndexError::Exists { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            indexes
                .insert(name.to_owned(), ViewIndex::Shared(SharedIndex { name: name.to_owned(), function }));
        }
        let cache = Arc::new(WatchCache {
            namespaces: Vec::new(),
            readers: vec![self.subscription.store()],
            is_selective: !self.selector.is_empty(),
            only_name: String::new(),
        });
        let weak: std::sync::Weak<WatchCache> = Arc::downgrade(&cache);
        own_writes.add_cache(weak);
        View {
            resource: resource(),
            label_selector: self.selector.clone(),
            field_selector: FieldSelector::everything(),
            projection: Projection::Full,
            subscriptions: vec![Arc::clone(&self.subscription)],
            cache,
            indexes,
            _index_handles: Vec::new(),
            computed: ComputedIndexes::new(
                vec!["computed".to_owned()],
                pilothouse_plugin::HostMemory::default(),
            ),
            is_target: true,
            own_writes,
        }
    }

    /// Delivers up to `count` of the server's events, and waits until the cache has them.
    pub(crate) async fn deliver(&mut self, server: &ModelServer, count: usize) {
        let until = (self.position + count).min(server.events.len());
        let matches = |object: &&Object| self.selector.matches_object(object);
        for position in self.position..until {
            let Event { before, after, .. } = &server.events[position];
            let version = server.version(position + 2);
            let line = match (before.as_ref().filter(matches), after.as_ref().filter(matches)) {
                (None, Some(object)) => event("ADDED", object, &version),
                (Some(_), Some(object)) => event("MODIFIED", object, &version),
                (Some(object), None) => event("DELETED", object, &version),
                (None, None) => {
                    json!({"type": "BOOKMARK", "object": {"kind": "ConfigMap", "apiVersion": "v1",
                    "metadata": {"resourceVersion": version}}})
                }
            };
            self.stream.send(format!("{line}\n").into()).expect("the watch goes on");
        }
        if until > self.position {
            let expected = server.version(until + 1);
            while self.subscription.store().resource_version() != expected {
                tokio::task::yield_now().await;
            }
        }
        self.position = until;
    }
}

/// A watch event. Its object has the resource version of the change, as a deleted object has.
fn event(kind: &str, object: &Object, version: &str) -> Value {
    let mut object = object.to_value();
    object["metadata"]["resourceVersion"] = version.into();
    json!({"type": kind, "object": object})
}
