//! Performs one step: calls the import with the script's arguments, and summarizes the result in a line.

use std::cell::RefCell;
use std::io::Write;

use pilothouse_sdk::bindings::pilothouse::controller::objects::Object;
use pilothouse_sdk::bindings::pilothouse::controller::types::{ApiError, ObjectKey, ObjectType, Pair};
use pilothouse_sdk::bindings::pilothouse::controller::{cache, client, events, log, metrics, queue};

use crate::script::{self, Action, Filter, Target};

/// How the script continues after a step.
pub(crate) enum Next {
    /// With the next step.
    Continue,
    /// The call ends; the key is requeued after this many milliseconds.
    Requeue(u32),
    /// The call fails with this message.
    Fail(String),
}

thread_local! {
    static RETAINED: RefCell<Vec<Object>> = const { RefCell::new(Vec::new()) };
    static ALLOCATED: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Keeps handles open for the lifetime of the instance.
fn retain(objects: impl IntoIterator<Item = Object>) {
    RETAINED.with_borrow_mut(|retained| retained.extend(objects));
}

fn key(namespace: &crate::Text, name: &crate::Text, turn: u32) -> ObjectKey {
    ObjectKey { namespace: namespace.make(turn), name: name.make(turn) }
}

fn pairs(pairs: &[script::Pair], turn: u32) -> Vec<Pair> {
    pairs
        .iter()
        .map(|script::Pair(key, value)| Pair { key: key.make(turn), value: value.make(turn) })
        .collect()
}

fn filter(filter: &Filter, turn: u32) -> (String, cache::Filter) {
    let parsed = cache::Filter {
        namespace: filter.namespace.make(turn),
        label_selector: filter.selector.make(turn),
        limit: filter.limit,
        cursor: filter.cursor.make(turn),
    };
    (filter.watch.make(turn), parsed)
}

fn target(target: &Target, turn: u32) -> (ObjectType, ObjectKey, String) {
    let object_type = ObjectType { api_version: target.api_version.make(turn), kind: target.kind.make(turn) };
    (object_type, key(&target.namespace, &target.name, turn), target.subresource.make(turn))
}

fn summary<T>(call: &str, result: &Result<T, ApiError>) -> String {
    match result {
        Ok(_) => format!("{call}: ok"),
        Err(error) => format!("{call}: {}", error_text(error)),
    }
}

fn error_text(error: &ApiError) -> String {
    match error {
        ApiError::NotFound(text) => format!("not-found {text}"),
        ApiError::AlreadyExists(text) => format!("already-exists {text}"),
        ApiError::Conflict(info) => format!("conflict {}", info.message),
        ApiError::Invalid(causes) => {
            let causes: Vec<_> =
                causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
            format!("invalid {}", causes.join("; "))
        }
        ApiError::Forbidden(text) => format!("forbidden {text}"),
        ApiError::Denied(rule) => format!(
            "denied {} {}/{} in {}",
            rule.verbs.join(","),
            rule.api_groups.join(","),
            rule.resources.join(","),
            rule.namespaces.join(",")
        ),
        ApiError::TooManyRequests(milliseconds) => format!("too-many-requests {milliseconds}"),
        ApiError::Unavailable(text) => format!("unavailable {text}"),
        ApiError::Other(status) => format!("other {} {} {}", status.code, status.reason, status.message),
    }
}

/// Performs the step once. `object` is the object of the request.
pub(crate) fn perform(action: &Action, object: Option<&Object>, turn: u32) -> (String, Next) {
    let line = match action {
        Action::Loop => loop {
            std::hint::black_box(turn);
        },
        Action::Trap => unreachable!("requested by the script"),
        Action::Fail { message } => return (String::new(), Next::Fail(message.make(turn))),
        Action::Requeue { milliseconds } => return (String::new(), Next::Requeue(*milliseconds)),
        Action::Allocate { bytes } => {
            ALLOCATED.with_borrow_mut(|allocated| allocated.push(vec![1; *bytes]));
            format!("allocate: {bytes}")
        }
        Action::Stdout { text } => {
            let _ = writeln!(std::io::stdout(), "{}", text.make(turn));
            String::new()
        }
        Action::Stderr { text } => {
            let _ = writeln!(std::io::stderr(), "{}", text.make(turn));
            String::new()
        }
        Action::QueueAdd { watch, namespace, name } => {
            queue::add(&watch.make(turn), &key(namespace, name, turn));
            "queue.add: ok".to_owned()
        }
        Action::QueueAddAfter { watch, namespace, name, milliseconds } => {
            queue::add_after(&watch.make(turn), &key(namespace, name, turn), *milliseconds);
            "queue.add-after: ok".to_owned()
        }
        Action::Log { message, fields } => {
            log::log(log::Level::Info, &message.make(turn), &pairs(fields, turn));
            String::new()
        }
        Action::Counter { name, labels, value } => {
            metrics::counter(&name.make(turn), &pairs(labels, turn), *value);
            String::new()
        }
        Action::Gauge { name, labels, value } => {
            metrics::gauge(&name.make(turn), &pairs(labels, turn), *value);
            String::new()
        }
        Action::Histogram { name, labels, value } => {
            metrics::histogram(&name.make(turn), &pairs(labels, turn), *value);
            String::new()
        }
        Action::Publish { .. } | Action::Field { .. } | Action::Fields { .. } | Action::Keep => {
            return (use_object(action, object, turn), Next::Continue);
        }
        Action::CacheGet { .. }
        | Action::CacheList { .. }
        | Action::CacheListFields { .. }
        | Action::CacheByIndex { .. }
        | Action::CacheIndexKeys { .. }
        | Action::CacheIndexValues { .. } => read_cache(action, turn),
        _ => send_request(action, turn),
    };
    (line, Next::Continue)
}

/// Performs a step that uses the object of the request.
fn use_object(action: &Action, object: Option<&Object>, turn: u32) -> String {
    let Some(object) = object else { return "no object".to_owned() };
    match action {
        Action::Publish { reason, action, note } => {
            let (reason, action, note) = (reason.make(turn), action.make(turn), note.make(turn));
            events::publish(object, events::EventType::Normal, &reason, &action, &note);
            String::new()
        }
        Action::Field { pointer } => {
            format!("field: {} bytes", object.field(&pointer.make(turn)).unwrap_or_default().len())
        }
        Action::Fields { pointer, pointers } => {
            let pointers: Vec<_> = (0..*pointers).map(|number| pointer.make(number)).collect();
            format!("fields: {}", object.fields(&pointers).len())
        }
        _ => {
            retain(cache::get("maps", &object.key()));
            "keep: ok".to_owned()
        }
    }
}

/// Performs a step that reads the cache.
fn read_cache(action: &Action, turn: u32) -> String {
    match action {
        Action::CacheGet { watch, namespace, name, keep: is_retained, pointer } => {
            let found = cache::get(&watch.make(turn), &key(namespace, name, turn));
            let read = found.as_ref().zip(pointer.as_ref());
            let read = read.and_then(|(object, pointer)| object.field(&pointer.make(turn)));
            let line = match (&found, read) {
                (None, _) => "cache.get: none".to_owned(),
                (Some(_), Some(text)) => format!("cache.get: {} bytes", text.len()),
                (Some(_), None) => "cache.get: some".to_owned(),
            };
            if *is_retained {
                retain(found);
            }
            line
        }
        Action::CacheList { filter: arguments } => {
            let (watch, filter) = filter(arguments, turn);
            format!("cache.list: {}", cache::list(&watch, &filter).items.len())
        }
        Action::CacheListFields { filter: arguments, pointer, pointers } => {
            let (watch, filter) = filter(arguments, turn);
            let pointers: Vec<_> = (0..*pointers).map(|number| pointer.make(number)).collect();
            format!("cache.list-fields: {}", cache::list_fields(&watch, &filter, &pointers).len())
        }
        Action::CacheByIndex { watch, index, value } => {
            let found = cache::by_index(&watch.make(turn), &index.make(turn), &value.make(turn));
            format!("cache.by-index: {}", found.len())
        }
        Action::CacheIndexKeys { watch, index, value } => {
            let found = cache::index_keys(&watch.make(turn), &index.make(turn), &value.make(turn));
            format!("cache.index-keys: {}", found.len())
        }
        Action::CacheIndexValues { watch, index } => {
            format!("cache.index-values: {}", cache::index_values(&watch.make(turn), &index.make(turn)).len())
        }
        _ => String::new(),
    }
}

/// Performs a step that sends a request to the API server.
fn send_request(action: &Action, turn: u32) -> String {
    match action {
        Action::ClientGet { target: arguments, keep: is_retained } => {
            let (object_type, key, subresource) = target(arguments, turn);
            let result = client::get(&object_type, &key, &subresource);
            let line = summary("client.get", &result);
            if *is_retained {
                retain(result.ok());
            }
            line
        }
        Action::ClientList {
            target: arguments,
            label_selector,
            field_selector,
            cursor,
            keep: is_retained,
        } => {
            let (object_type, key, _) = target(arguments, turn);
            let options = client::ListOptions {
                namespace: key.namespace,
                label_selector: label_selector.make(turn),
                field_selector: field_selector.make(turn),
                limit: 0,
                cursor: cursor.make(turn),
            };
            let result = client::list(&object_type, &options);
            let line = match &result {
                Ok(page) => format!("client.list: {}", page.items.len()),
                Err(_) => summary("client.list", &result),
            };
            if *is_retained {
                retain(result.map(|page| page.items).unwrap_or_default());
            }
            line
        }
        Action::ClientCreate { manifest, subresource } => {
            summary("client.create", &client::create(&manifest.make(turn), &subresource.make(turn)))
        }
        Action::ClientUpdate { manifest, subresource } => {
            summary("client.update", &client::update(&manifest.make(turn), &subresource.make(turn)))
        }
        Action::ClientPatch { target: arguments, form, body, manager, force } => {
            let (object_type, key, subresource) = target(arguments, turn);
            let form = match form.as_str() {
                "json" => client::PatchType::Json,
                "merge" => client::PatchType::Merge,
                "strategic" => client::PatchType::Strategic,
                _ => client::PatchType::Apply(client::ApplyOptions {
                    field_manager: manager.make(turn),
                    force: *force,
                }),
            };
            summary("client.patch", &client::patch(&object_type, &key, &form, &body.make(turn), &subresource))
        }
        Action::ClientDelete { target: arguments, uid, resource_version } => {
            let (object_type, key, _) = target(arguments, turn);
            let options = client::DeleteOptions {
                propagation: client::Propagation::Background,
                uid: uid.make(turn),
                resource_version: resource_version.make(turn),
            };
            summary("client.delete", &client::delete(&object_type, &key, &options))
        }
        _ => String::new(),
    }
}
