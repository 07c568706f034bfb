//! Calls of host functions and their answers, as data.

mod answer_value;
mod size;

use std::time::Duration;

use http::StatusCode;
use pilothouse_model::{Object, ObjectKey};
use serde_json::{Value, json};

use super::canonical;
use crate::{
    ApiError, CacheFilter, CachePage, DeleteOptions, HttpError, IndexCursor, IndexPage, ListOptions,
    LivePage, LogLevel, LogSource, MetricKind, Misuse, ObjectType, Patch, PatchType, Propagation,
};

/// A call of a host function by a guest, with the answer.
#[derive(Clone, Debug)]
pub struct HostCall {
    /// The function and its arguments.
    pub request: HostRequest,
    /// What the host answered.
    pub answer: HostAnswer,
}

/// A function of [`Host`](crate::Host) with its arguments.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the fields are the arguments of the function that each variant names")]
pub enum HostRequest {
    /// [`Host::cache_get`](crate::Host::cache_get).
    CacheGet { watch: String, key: ObjectKey },
    /// [`Host::cache_list`](crate::Host::cache_list).
    CacheList { watch: String, filter: CacheFilter },
    /// [`Host::cache_by_index`](crate::Host::cache_by_index).
    CacheByIndex { watch: String, index: String, value: String, from: IndexCursor },
    /// [`Host::cache_index_keys`](crate::Host::cache_index_keys).
    CacheIndexKeys { watch: String, index: String, value: String, from: IndexCursor },
    /// [`Host::cache_index_values`](crate::Host::cache_index_values).
    CacheIndexValues { watch: String, index: String, from: IndexCursor },
    /// [`Host::cache_has_synced`](crate::Host::cache_has_synced).
    CacheHasSynced { watch: String },
    /// [`Host::client_get`](crate::Host::client_get).
    ClientGet { target: ObjectType, key: ObjectKey, subresource: String },
    /// [`Host::client_list`](crate::Host::client_list).
    ClientList { target: ObjectType, options: ListOptions },
    /// [`Host::client_create`](crate::Host::client_create).
    ClientCreate { manifest: String, subresource: String },
    /// [`Host::client_update`](crate::Host::client_update).
    ClientUpdate { manifest: String, subresource: String },
    /// [`Host::client_patch`](crate::Host::client_patch).
    ClientPatch { target: ObjectType, key: ObjectKey, patch: Patch, subresource: String },
    /// [`Host::client_delete`](crate::Host::client_delete).
    ClientDelete { target: ObjectType, key: ObjectKey, options: DeleteOptions },
    /// [`Host::queue_add`](crate::Host::queue_add).
    QueueAdd { watch: String, key: ObjectKey },
    /// [`Host::queue_add_after`](crate::Host::queue_add_after).
    QueueAddAfter { watch: String, key: ObjectKey, delay: Duration },
    /// [`Host::publish_event`](crate::Host::publish_event).
    PublishEvent { regarding: Object, warning: bool, reason: String, action: String, note: String },
    /// [`Host::log`](crate::Host::log).
    Log { level: LogLevel, source: LogSource, message: String, fields: Vec<(String, String)> },
    /// [`Host::metric`](crate::Host::metric).
    Metric { kind: MetricKind, name: String, labels: Vec<(String, String)>, value: f64 },
    /// [`Host::http_send`](crate::Host::http_send). Bodies and headers are not recorded.
    HttpSend { method: String, url: String },
    /// [`Host::wall_clock`](crate::Host::wall_clock).
    WallClock,
    /// [`Host::monotonic_clock`](crate::Host::monotonic_clock).
    MonotonicClock,
    /// [`Host::random`](crate::Host::random).
    Random { length: usize },
}

/// The answer of a host function.
#[derive(Clone, Debug)]
pub enum HostAnswer {
    /// The function succeeded and returns nothing.
    Nothing,
    /// An object, or that there is none.
    Object(Option<Object>),
    /// A page of the cache.
    CachePage(CachePage),
    /// A page of the server.
    LivePage(LivePage),
    /// Objects of an index.
    Objects(IndexPage<Object>),
    /// Keys of an index.
    Keys(IndexPage<ObjectKey>),
    /// Values of an index.
    Values(IndexPage<String>),
    /// Whether a watch has synced.
    HasSynced(bool),
    /// A time.
    Time(Duration),
    /// Random bytes.
    Random(Vec<u8>),
    /// The status of an HTTP response.
    HttpStatus(u16),
    /// The call was invalid, and the guest traps.
    Misuse(Misuse),
    /// The request to the API server failed.
    ApiError(ApiError),
    /// The HTTP request failed.
    HttpError(HttpError),
    /// The guest's call ended before there was an answer. A write may nevertheless happen.
    Abandoned,
}

impl HostRequest {
    /// Returns the name of the import, such as `cache.get`.
    #[must_use]
    pub fn function(&self) -> &'static str {
        match self {
            Self::CacheGet { .. } => "cache.get",
            Self::CacheList { .. } => "cache.list",
            Self::CacheByIndex { .. } => "cache.by-index",
            Self::CacheIndexKeys { .. } => "cache.index-keys",
            Self::CacheIndexValues { .. } => "cache.index-values",
            Self::CacheHasSynced { .. } => "cache.has-synced",
            Self::ClientGet { .. } => "client.get",
            Self::ClientList { .. } => "client.list",
            Self::ClientCreate { .. } => "client.create",
            Self::ClientUpdate { .. } => "client.update",
            Self::ClientPatch { .. } => "client.patch",
            Self::ClientDelete { .. } => "client.delete",
            Self::QueueAdd { .. } => "queue.add",
            Self::QueueAddAfter { .. } => "queue.add-after",
            Self::PublishEvent { .. } => "events.publish",
            Self::Log { .. } => "log",
            Self::Metric { .. } => "metric",
            Self::HttpSend { .. } => "http",
            Self::WallClock => "wall-clock",
            Self::MonotonicClock => "monotonic-clock",
            Self::Random { .. } => "random",
        }
    }

    /// Returns whether the call writes to the API server.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            Self::ClientCreate { .. }
                | Self::ClientUpdate { .. }
                | Self::ClientPatch { .. }
                | Self::ClientDelete { .. }
        )
    }

    /// Returns the arguments in a canonical form: manifests and patches are values, not text, if they are JSON.
    #[must_use]
    pub fn arguments(&self) -> Value {
        match self {
            Self::CacheGet { watch, key } | Self::QueueAdd { watch, key } => {
                json!({"watch": watch, "key": key.as_str()})
            }
            Self::CacheList { watch, filter } => filter_arguments(watch, filter),
            Self::CacheByIndex { watch, index, value, from }
            | Self::CacheIndexKeys { watch, index, value, from } => {
                json!({"watch": watch, "index": index, "value": value, "from": canonical::cursor(from)})
            }
            Self::CacheIndexValues { watch, index, from } => {
                json!({"watch": watch, "index": index, "from": canonical::cursor(from)})
            }
            Self::CacheHasSynced { watch } => json!({"watch": watch}),
            Self::ClientGet { target, key, subresource } => json!({
                "apiVersion": target.api_version,
                "kind": target.kind,
                "key": key.as_str(),
                "subresource": subresource,
            }),
            Self::ClientList { target, options } => list_arguments(target, options),
            Self::ClientCreate { manifest, subresource } | Self::ClientUpdate { manifest, subresource } => {
                json!({"manifest": canonical::text_as_json(manifest), "subresource": subresource})
            }
            Self::ClientPatch { target, key, patch, subresource } => json!({
                "apiVersion": target.api_version,
                "kind": target.kind,
                "key": key.as_str(),
                "subresource": subresource,
                "type": patch_type(&patch.patch_type),
                "patch": canonical::text_as_json(&patch.body),
            }),
            Self::ClientDelete { target, key, options } => json!({
                "apiVersion": target.api_version,
                "kind": target.kind,
                "key": key.as_str(),
                "propagation": propagation(options.propagation),
                "uid": options.uid,
                "resourceVersion": options.resource_version,
            }),
            Self::QueueAddAfter { watch, key, delay } => {
                json!({"watch": watch, "key": key.as_str(), "delayMs": canonical::milliseconds(*delay)})
            }
            Self::PublishEvent { regarding, warning, reason, action, note } => json!({
                "regarding": {
                    "apiVersion": regarding.api_version(),
                    "kind": regarding.kind(),
                    "key": regarding.key().as_str(),
                    "uid": regarding.uid(),
                },
                "warning": warning,
                "reason": reason,
                "action": action,
                "note": note,
            }),
            Self::Log { level, source, message, fields } => json!({
                "level": log_level(*level),
                "source": log_source(*source),
                "message": message,
                "fields": fields,
            }),
            Self::Metric { kind, name, labels, value } => {
                json!({"kind": metric_kind(*kind), "name": name, "labels": labels, "value": value})
            }
            Self::HttpSend { method, url } => json!({"method": method, "url": url}),
            Self::WallClock | Self::MonotonicClock => json!({}),
            Self::Random { length } => json!({"length": length}),
        }
    }
}

fn filter_arguments(watch: &str, filter: &CacheFilter) -> Value {
    json!({
        "watch": watch,
        "namespace": filter.namespace,
        "labels": filter.labels.to_string(),
        "after": filter.after.as_ref().map(ObjectKey::as_str),
        "limit": filter.limit,
    })
}

fn list_arguments(target: &ObjectType, options: &ListOptions) -> Value {
    json!({
        "apiVersion": target.api_version,
        "kind": target.kind,
        "namespace": options.namespace,
        "labelSelector": options.label_selector,
        "fieldSelector": options.field_selector,
        "limit": options.limit,
        "cursor": options.cursor,
    })
}

fn patch_type(patch_type: &PatchType) -> Value {
    match patch_type {
        PatchType::Json => json!("json"),
        PatchType::Merge => json!("merge"),
        PatchType::Strategic => json!("strategic"),
        PatchType::Apply { field_manager, force } => {
            json!({"apply": {"fieldManager": field_manager, "force": force}})
        }
    }
}

fn propagation(propagation: Propagation) -> &'static str {
    match propagation {
        Propagation::Background => "Background",
        Propagation::Foreground => "Foreground",
        Propagation::Orphan => "Orphan",
    }
}

fn log_level(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
        LogLevel::Error => "error",
    }
}

fn log_source(source: LogSource) -> &'static str {
    match source {
        LogSource::Log => "log",
        LogSource::Stdout => "stdout",
        LogSource::Stderr => "stderr",
        LogSource::Host => "host",
    }
}

fn metric_kind(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    }
}

impl HostAnswer {
    /// Converts the result of a function that traps the guest if it fails.
    pub(super) fn of_cache<T: Clone>(result: &Result<T, Misuse>, found: impl FnOnce(T) -> Self) -> Self {
        match result {
            Ok(value) => found(value.clone()),
            Err(misuse) => Self::Misuse(misuse.clone()),
        }
    }

    /// Converts the result of a request to the API server.
    pub(super) fn of_client<T: Clone>(result: &Result<T, ApiError>, found: impl FnOnce(T) -> Self) -> Self {
        match result {
            Ok(value) => found(value.clone()),
            Err(error) => Self::ApiError(error.clone()),
        }
    }

    /// Converts the result of an HTTP request.
    pub(super) fn of_http(result: Result<StatusCode, &HttpError>) -> Self {
        match result {
            Ok(status) => Self::HttpStatus(status.as_u16()),
            Err(error) => Self::HttpError(error.clone()),
        }
    }

    /// Returns the answer in a canonical form, which [`from_json`](Self::from_json) reads.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Nothing => json!("nothing"),
            Self::Abandoned => json!("abandoned"),
            Self::Object(object) => json!({"object": object.as_ref().map(Object::to_value)}),
            Self::CachePage(page) => json!({"cachePage": canonical::cache_page(page)}),
            Self::LivePage(page) => json!({"livePage": canonical::live_page(page)}),
            Self::Objects(part) => json!({"objects": canonical::index_part(part, Object::to_value)}),
            Self::Keys(part) => json!({"keys": canonical::index_part(part, |key| json!(key.as_str()))}),
            Self::Values(part) => json!({"values": canonical::index_part(part, |value| json!(value))}),
            Self::HasSynced(has_synced) => json!({"hasSynced": has_synced}),
            Self::Time(time) => json!({"nanoseconds": canonical::nanoseconds(*time)}),
            Self::Random(bytes) => json!({"random": bytes}),
            Self::HttpStatus(status) => json!({"httpStatus": status}),
            Self::Misuse(misuse) => json!({"misuse": misuse.to_string()}),
            Self::ApiError(error) => json!({"apiError": error}),
            Self::HttpError(error) => json!({"httpError": error.to_string()}),
        }
    }

    /// Reads an answer in the form of [`to_json`](Self::to_json). The text of an error becomes an error with the same text, which need not be
    /// of the same variant.
    ///
    /// # Errors
    /// Returns what is wrong with the value.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        match value.as_str() {
            Some("nothing") => return Ok(Self::Nothing),
            Some("abandoned") => return Ok(Self::Abandoned),
            _ => {}
        }
        let members = value.as_object().filter(|members| members.len() == 1);
        let Some((name, value)) = members.and_then(|members| members.iter().next()) else {
            return Err("an answer is \"nothing\", \"abandoned\" or an object with one member".to_owned());
        };
        let text = || value.as_str().map(str::to_owned).ok_or_else(|| format!("{name} is no text"));
        let number = || value.as_u64().ok_or_else(|| format!("{name} is no number"));
        Ok(match name.as_str() {
            "object" if value.is_null() => Self::Object(None),
            "object" => Self::Object(Some(canonical::parse_object(value)?)),
            "cachePage" => Self::CachePage(CachePage {
                items: canonical::parse_objects(value.get("items"))?,
                more: value.get("more").and_then(Value::as_bool).ok_or("a page without `more`")?,
                searched_to: value.get("searchedTo").and_then(Value::as_str).map(canonical::parse_key),
            }),
            "livePage" => Self::LivePage(LivePage {
                items: canonical::parse_objects(value.get("items"))?,
                next: value.get("next").and_then(Value::as_str).ok_or("a page without `next`")?.to_owned(),
            }),
            "objects" => Self::Objects(canonical::parse_index_part(value, canonical::parse_object)?),
            "keys" => Self::Keys(canonical::parse_index_part(value, |key| {
                key.as_str().map(canonical::parse_key).ok_or_else(|| "a key that is no text".to_owned())
            })?),
            "values" => Self::Values(canonical::parse_index_part(value, |value| {
                value.as_str().map(str::to_owned).ok_or_else(|| "a value that is no text".to_owned())
            })?),
            "hasSynced" => Self::HasSynced(value.as_bool().ok_or("`hasSynced` is no boolean")?),
            "nanoseconds" => Self::Time(Duration::from_nanos(number()?)),
            "random" => Self::Random(serde_json::from_value(value.clone()).map_err(|e| e.to_string())?),
            "httpStatus" => {
                Self::HttpStatus(u16::try_from(number()?).map_err(|_| "`httpStatus` is too large")?)
            }
            "misuse" => Self::Misuse(Misuse::Recorded { message: text()? }),
            "apiError" => {
                Self::ApiError(serde_json::from_value(value.clone()).map_err(|error| error.to_string())?)
            }
            "httpError" => Self::HttpError(HttpError::Protocol(text()?)),
            other => return Err(format!("unknown answer {other:?}")),
        })
    }
}

#[cfg(test)]
mod tests;
