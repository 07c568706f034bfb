//! The host's functions in a native test, with the signatures of the bindings. The fake host of [`testing`](crate::testing) implements
//! them. The bindings cannot be used, because their functions exist only in wasm.

use crate::bindings::pilothouse::controller as bindings;

/// Returns the object that an export received.
pub(crate) fn exported_object(object: bindings::objects::Object) -> objects::Object {
    // Dropping it would call the host.
    std::mem::forget(object);
    unreachable!("the exports of a plugin can be called only in wasm")
}

/// Returns the batch that an export received.
pub(crate) fn exported_batch(_: &bindings::changes::Batch) -> &changes::Batch {
    unreachable!("the exports of a plugin can be called only in wasm")
}

pub(crate) mod objects {
    //! The interface `objects`.

    use serde_json::Value;

    pub(crate) use super::bindings::objects::Owner;
    use super::bindings::types::{ObjectKey, Pair};

    /// A handle to one state of an object.
    #[derive(Debug)]
    pub(crate) struct Object(Value);

    impl Object {
        pub(crate) fn new(manifest: Value) -> Self {
            Self(manifest)
        }

        fn metadata(&self, field: &str) -> String {
            self.0["metadata"][field].as_str().unwrap_or_default().to_owned()
        }

        fn member(&self, field: &str, key: &str) -> Option<String> {
            self.0["metadata"][field][key].as_str().map(str::to_owned)
        }

        pub(crate) fn key(&self) -> ObjectKey {
            ObjectKey { namespace: self.metadata("namespace"), name: self.metadata("name") }
        }

        pub(crate) fn api_version(&self) -> String {
            self.0["apiVersion"].as_str().unwrap_or_default().to_owned()
        }

        pub(crate) fn kind(&self) -> String {
            self.0["kind"].as_str().unwrap_or_default().to_owned()
        }

        pub(crate) fn uid(&self) -> String {
            self.metadata("uid")
        }

        pub(crate) fn resource_version(&self) -> String {
            self.metadata("resourceVersion")
        }

        pub(crate) fn generation(&self) -> u32 {
            let generation = self.0["metadata"]["generation"].as_u64().unwrap_or(0);
            u32::try_from(generation).unwrap_or(u32::MAX)
        }

        pub(crate) fn labels(&self) -> Vec<Pair> {
            let labels = self.0["metadata"]["labels"].as_object().into_iter().flatten();
            labels
                .map(|(key, value)| Pair {
                    key: key.clone(),
                    value: value.as_str().unwrap_or_default().to_owned(),
                })
                .collect()
        }

        pub(crate) fn label(&self, key: &str) -> Option<String> {
            self.member("labels", key)
        }

        pub(crate) fn annotation(&self, key: &str) -> Option<String> {
            self.member("annotations", key)
        }

        pub(crate) fn deletion_timestamp(&self) -> Option<String> {
            self.0["metadata"]["deletionTimestamp"].as_str().map(str::to_owned)
        }

        pub(crate) fn controller(&self) -> Option<Owner> {
            let owners = self.0["metadata"]["ownerReferences"].as_array()?;
            let owner = owners.iter().find(|owner| owner["controller"] == true)?;
            let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
            Some(Owner {
                api_version: text("apiVersion"),
                kind: text("kind"),
                name: text("name"),
                uid: text("uid"),
            })
        }

        pub(crate) fn field(&self, pointer: &str) -> Option<String> {
            self.0.pointer(pointer).map(Value::to_string)
        }

        pub(crate) fn text(&self, pointer: &str) -> Option<String> {
            match self.0.pointer(pointer)? {
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            }
        }

        pub(crate) fn fields(&self, pointers: &[String]) -> Vec<Option<String>> {
            pointers.iter().map(|pointer| self.field(pointer)).collect()
        }

        pub(crate) fn texts(&self, pointers: &[String]) -> Vec<Option<String>> {
            pointers.iter().map(|pointer| self.text(pointer)).collect()
        }

        pub(crate) fn json(&self) -> String {
            self.0.to_string()
        }
    }
}

pub(crate) mod changes {
    //! The interface `changes`.

    use serde_json::Value;

    use super::objects::Object;

    /// The objects behind notifications: before and after each change.
    #[derive(Debug)]
    pub(crate) struct Batch(pub(crate) Vec<(Option<Value>, Option<Value>)>);

    impl Batch {
        fn at(&self, position: u32) -> Option<&(Option<Value>, Option<Value>)> {
            self.0.get(usize::try_from(position).ok()?)
        }

        pub(crate) fn before(&self, position: u32) -> Option<Object> {
            self.at(position)?.0.clone().map(Object::new)
        }

        pub(crate) fn after(&self, position: u32) -> Option<Object> {
            self.at(position)?.1.clone().map(Object::new)
        }

        pub(crate) fn after_field(&self, position: u32, pointer: &str) -> Option<String> {
            self.after(position)?.field(pointer)
        }
    }
}

pub(crate) mod cache {
    //! The interface `cache`.

    pub(crate) use super::bindings::cache::{Filter, Row};
    use super::bindings::types::ObjectKey;
    use super::objects::Object;
    use crate::testing::current;

    pub(crate) struct Page {
        pub(crate) items: Vec<Object>,
        pub(crate) next: String,
    }

    pub(crate) fn get(watch: &str, key: &ObjectKey) -> Option<Object> {
        current("cache.get").cache_get(watch, key)
    }

    pub(crate) fn list(watch: &str, filter: &Filter) -> Page {
        let (items, next) = current("cache.list").cache_list(watch, filter);
        Page { items, next }
    }

    pub(crate) fn list_fields(watch: &str, filter: &Filter, pointers: &[String]) -> Vec<Row> {
        let objects = current("cache.list-fields").cache_list_all(watch, filter);
        objects.iter().map(|object| Row { key: object.key(), values: object.fields(pointers) }).collect()
    }

    pub(crate) fn by_index(watch: &str, index: &str, value: &str) -> Vec<Object> {
        current("cache.by-index").cache_by_index(watch, index, value)
    }

    pub(crate) fn index_keys(watch: &str, index: &str, value: &str) -> Vec<ObjectKey> {
        by_index(watch, index, value).iter().map(Object::key).collect()
    }

    pub(crate) fn index_values(watch: &str, index: &str) -> Vec<String> {
        current("cache.index-values").cache_index_values(watch, index)
    }

    pub(crate) fn has_synced(watch: &str) -> bool {
        current("cache.has-synced").has_watch(watch)
    }
}

pub(crate) mod client {
    //! The interface `client`.

    pub(crate) use super::bindings::client::{
        ApplyOptions, DeleteOptions, ListOptions, PatchType, Propagation,
    };
    use super::bindings::types::{ApiError, ObjectKey, ObjectType};
    use super::objects::Object;
    use crate::testing::current;

    pub(crate) struct Page {
        pub(crate) items: Vec<Object>,
        pub(crate) next: String,
    }

    pub(crate) fn get(target: &ObjectType, key: &ObjectKey, subresource: &str) -> Result<Object, ApiError> {
        current("client.get").client_get(target, key, subresource)
    }

    pub(crate) fn list(target: &ObjectType, options: &ListOptions) -> Result<Page, ApiError> {
        let (items, next) = current("client.list").client_list(target, options)?;
        Ok(Page { items, next })
    }

    pub(crate) fn create(manifest: &str, subresource: &str) -> Result<Object, ApiError> {
        current("client.create").client_create(manifest, subresource)
    }

    pub(crate) fn update(manifest: &str, subresource: &str) -> Result<Object, ApiError> {
        current("client.update").client_update(manifest, subresource)
    }

    pub(crate) fn patch(
        target: &ObjectType,
        key: &ObjectKey,
        patch_type: &PatchType,
        body: &str,
        subresource: &str,
    ) -> Result<Object, ApiError> {
        current("client.patch").client_patch(target, key, patch_type, body, subresource)
    }

    pub(crate) fn delete(
        target: &ObjectType,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        current("client.delete").client_delete(target, key, options)
    }
}

pub(crate) mod config {
    //! The interface `config`.

    use crate::testing::current;

    pub(crate) fn get() -> String {
        current("config.get").config()
    }
}

pub(crate) mod queue {
    //! The interface `queue`.

    use super::bindings::types::ObjectKey;
    use crate::testing::current;

    pub(crate) fn add(watch: &str, key: &ObjectKey) {
        current("queue.add").enqueue("queue.add", watch, key, None);
    }

    pub(crate) fn add_after(watch: &str, key: &ObjectKey, milliseconds: u32) {
        current("queue.add-after").enqueue("queue.add-after", watch, key, Some(milliseconds));
    }
}

pub(crate) mod events {
    //! The interface `events`.

    pub(crate) use super::bindings::events::EventType;
    use super::objects::Object;
    use crate::testing::current;

    pub(crate) fn publish(regarding: &Object, event_type: EventType, reason: &str, action: &str, note: &str) {
        let is_warning = event_type == EventType::Warning;
        current("events.publish").publish(&regarding.key(), is_warning, reason, action, note);
    }
}

pub(crate) mod log {
    //! The interface `log`. It works without a host, too, so that every function of a plugin can be tested by itself.

    pub(crate) use super::bindings::log::Level;
    use super::bindings::types::Pair;
    use crate::testing::installed;

    pub(crate) fn log(level: Level, message: &str, fields: &[Pair]) {
        match installed() {
            Some(host) => host.log(level, message, fields),
            None => {
                let fields: String =
                    fields.iter().map(|pair| format!(" {}={}", pair.key, pair.value)).collect();
                eprintln!("{level:?} {message}{fields}");
            }
        }
    }
}

pub(crate) mod metrics {
    //! The interface `metrics`.

    use super::bindings::types::Pair;
    use crate::testing::current;

    pub(crate) fn counter(name: &str, labels: &[Pair], add: f64) {
        current("metrics.counter").metric(name, labels, add);
    }

    pub(crate) fn gauge(name: &str, labels: &[Pair], value: f64) {
        current("metrics.gauge").metric(name, labels, value);
    }

    pub(crate) fn histogram(name: &str, labels: &[Pair], value: f64) {
        current("metrics.histogram").metric(name, labels, value);
    }
}

pub(crate) mod wall_clock {
    //! The clock of WASI.

    use std::time::{SystemTime, UNIX_EPOCH};

    use crate::testing::installed;

    pub(crate) struct Datetime {
        pub(crate) seconds: u64,
        pub(crate) nanoseconds: u32,
    }

    /// Returns the time that the test has set, or the current time.
    pub(crate) fn now() -> Datetime {
        if let Some(time) = installed().and_then(|host| host.time()) {
            return Datetime {
                seconds: u64::try_from(time.as_second()).unwrap_or(0),
                nanoseconds: u32::try_from(time.subsec_nanosecond()).unwrap_or(0),
            };
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Datetime { seconds: since.as_secs(), nanoseconds: since.subsec_nanos() }
    }
}
