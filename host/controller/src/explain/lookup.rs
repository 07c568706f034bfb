//! Asks the API server about an object that the cache does not have, to tell a missing object from one that the selectors exclude.
//!
//! The request is a list with a field selector for the name: the permission for it is the one that the watch needs. Everyone who reaches
//! the status port can cause such requests, so their rate is limited for the whole host.

use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use pilothouse_model::{FieldSelector, LabelSelector, ObjectKey, ResourceType};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use super::ServerObject;
use crate::client::quota::QuotaBucket;
use crate::client::{ApiClient, parse_object, query};

/// Look-ups per second.
const RATE: u32 = 2;
/// Look-ups that may be sent at once.
const BURST: u32 = 10;
/// Timeout of a look-up.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Limit of the response in bytes: one object of the largest size.
const MAX_RESPONSE: usize = 4 << 20;

/// An object, and how its watch selects objects.
pub(crate) struct ObjectLookup {
    pub(crate) resource: ResourceType,
    pub(crate) key: ObjectKey,
    pub(crate) label_selector: LabelSelector,
    pub(crate) field_selector: FieldSelector,
}

/// Limits the look-ups of a host.
pub(crate) struct Lookups(Mutex<QuotaBucket>);

impl Default for Lookups {
    fn default() -> Self {
        Self(Mutex::new(QuotaBucket::new(RATE, BURST, Instant::now())))
    }
}

impl Lookups {
    /// Looks an object up on the API server, unless there were too many look-ups.
    pub(crate) async fn look_up(&self, server: &ApiClient, lookup: &ObjectLookup) -> ServerObject {
        let unknown = |problem: String| ServerObject::Unknown { problem };
        let Some(path) = lookup.path() else {
            return unknown("the key cannot be that of an object".to_owned());
        };
        let permitted = self.0.lock().take(Instant::now());
        if permitted.is_err() {
            return unknown(format!("there were more than {RATE} look-ups per second; ask again"));
        }
        match timeout(TIMEOUT, server.get_with_limit(&path, MAX_RESPONSE)).await {
            Ok(Ok(Some(body))) => lookup.read(&body),
            Ok(Ok(None)) => ServerObject::Absent,
            Ok(Err(error)) => unknown(error.to_string()),
            Err(_) => unknown(format!("no response in {} s", TIMEOUT.as_secs())),
        }
    }
}

#[derive(Deserialize)]
struct List<'a> {
    /// Servers written in Go send an empty list as null.
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

impl ObjectLookup {
    /// Returns the path of the list; `None` for a key that no object has.
    fn path(&self) -> Option<String> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        let is_plain = |text: &str| text.len() <= 253 && text.bytes().all(is_allowed);
        let (namespace, name) = (self.key.namespace(), self.key.name());
        if name.is_empty() || !is_plain(name) || !is_plain(namespace) {
            return None;
        }
        let selector = format!("metadata.name={name}");
        let path = self.resource.url_path(Some(namespace));
        Some(path + &query(&[("fieldSelector", &selector), ("limit", "1")]))
    }

    fn read(&self, body: &Bytes) -> ServerObject {
        let unreadable = || ServerObject::Unknown { problem: "its response cannot be read".to_owned() };
        let Ok(List { items }) = serde_json::from_slice::<List<'_>>(body) else { return unreadable() };
        for item in items.iter().flatten() {
            let Ok(object) = parse_object(item.get().as_bytes(), &self.resource) else { return unreadable() };
            // A server that does not know the field selector returns other objects.
            if *object.key() == self.key {
                return ServerObject::Exists {
                    resource_version: object.resource_version().to_owned(),
                    label_selector_matches: self.label_selector.matches_object(&object),
                    field_selector_matches: self.field_selector.matches_object(&object),
                };
            }
        }
        ServerObject::Absent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(namespace: &str, name: &str) -> ObjectLookup {
        let resource = ResourceType {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            plural: "configmaps".to_owned(),
            namespaced: true,
        };
        let label_selector = LabelSelector::parse("app=x").expect("a selector");
        let key = ObjectKey::new(namespace, name);
        ObjectLookup { resource, key, label_selector, field_selector: FieldSelector::default() }
    }

    fn answer(items: &serde_json::Value) -> ServerObject {
        lookup("shop", "a").read(&Bytes::from(serde_json::json!({"items": items}).to_string()))
    }

    #[test]
    fn the_selectors_are_compared_with_the_object() {
        let exists = |label_selector_matches| ServerObject::Exists {
            resource_version: "7".to_owned(),
            label_selector_matches,
            field_selector_matches: true,
        };
        let object = |name: &str, app: &str| {
            let labels = serde_json::json!({"app": app});
            serde_json::json!({"metadata": {"name": name, "namespace": "shop", "resourceVersion": "7", "labels": labels}})
        };
        for (items, expected) in [
            (serde_json::json!([object("a", "x")]), exists(true)),
            (serde_json::json!([object("a", "y")]), exists(false)),
            (serde_json::json!([object("b", "x")]), ServerObject::Absent),
            (serde_json::json!([]), ServerObject::Absent),
            (serde_json::Value::Null, ServerObject::Absent),
        ] {
            assert_eq!(answer(&items), expected, "{items}");
        }
        for body in ["", "7", r#"{"items":[7]}"#] {
            let read = lookup("shop", "a").read(&Bytes::from_static(body.as_bytes()));
            assert!(matches!(read, ServerObject::Unknown { .. }), "{body}: {read:?}");
        }
    }

    #[test]
    fn only_keys_that_objects_can_have_are_asked_for() {
        let path = lookup("shop", "a.b").path();
        let expected = "/api/v1/namespaces/shop/configmaps?fieldSelector=metadata.name%3Da.b&limit=1";
        assert_eq!(path.as_deref(), Some(expected));
        let long = "a".repeat(300);
        for (namespace, name) in
            [("shop", "a,b"), ("shop", "a=b"), ("sh op", "a"), ("shop", ""), ("shop", &*long), ("shop", "ä")]
        {
            assert_eq!(lookup(namespace, name).path(), None, "{namespace}/{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn look_ups_are_limited() {
        let service = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::from(
                br#"{"items":[]}"#.to_vec(),
            )))
        });
        let server = ApiClient::new(kube::Client::new(service, "default"));
        let (lookups, lookup) = (Lookups::default(), lookup("shop", "a"));
        for _ in 0..BURST {
            assert_eq!(lookups.look_up(&server, &lookup).await, ServerObject::Absent);
        }
        assert!(matches!(lookups.look_up(&server, &lookup).await, ServerObject::Unknown { .. }));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(lookups.look_up(&server, &lookup).await, ServerObject::Absent);
    }
}
