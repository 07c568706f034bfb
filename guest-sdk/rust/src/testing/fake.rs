//! The host functions over the fake cluster.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::cluster::{Apply, Cluster, Id, Part, Selection, conflict, invalid, key_of, other};
use super::kinds::{self, Kind, Scope};
use super::select::{self, LabelSelector};
use super::{Event, Failure, LogLine, Metric, Queued};
use crate::bindings::pilothouse::controller::types as wit;
use crate::host::cache::Filter;
use crate::host::client::{ApplyOptions, DeleteOptions, ListOptions, PatchType};
use crate::host::objects;
use crate::log::Level;
use crate::{ApiError, Object, ObjectKey, ObjectType};

/// The most objects of a page.
const MAX_PAGE_SIZE: u32 = 500;

/// Computes the values of an index.
pub(super) type IndexFunction = dyn Fn(&str, &Object) -> Vec<String>;

/// What the plugin did.
#[derive(Default)]
pub(super) struct Recorded {
    pub(super) writes: Vec<String>,
    pub(super) events: Vec<Event>,
    pub(super) queued: Vec<Queued>,
    pub(super) log: Vec<LogLine>,
    pub(super) metrics: Vec<Metric>,
}

/// The fake host of one test. No borrow of a cell is held while the plugin runs.
pub(crate) struct Fake {
    pub(super) descriptor: Value,
    pub(super) config: String,
    pub(super) cluster: RefCell<Cluster>,
    pub(super) failures: RefCell<Vec<Failure>>,
    pub(super) recorded: RefCell<Recorded>,
    pub(super) indexer: RefCell<Option<Rc<IndexFunction>>>,
    pub(super) time: Cell<Option<Timestamp>>,
}

/// A request that the plugin sends.
struct Request<'a> {
    verb: &'static str,
    id: Id,
    subresource: &'a str,
}

impl Fake {
    pub(super) fn new(descriptor: Value, config: String) -> Self {
        let crds = descriptor["crds"].as_array().cloned().unwrap_or_default();
        Self {
            descriptor,
            config,
            cluster: RefCell::new(Cluster::new(crds)),
            failures: RefCell::default(),
            recorded: RefCell::default(),
            indexer: RefCell::default(),
            time: Cell::new(None),
        }
    }

    fn own_name(&self) -> &str {
        self.descriptor["name"].as_str().unwrap_or_default()
    }

    pub(crate) fn config(&self) -> String {
        self.config.clone()
    }

    pub(crate) fn time(&self) -> Option<Timestamp> {
        self.time.get()
    }

    // The cache.

    fn watch(&self, name: &str) -> &Value {
        let watches = self.descriptor["watches"].as_array().map(Vec::as_slice).unwrap_or_default();
        watches.iter().find(|watch| watch["name"] == name).unwrap_or_else(|| {
            panic!("unknown watch {name:?}: the descriptor declares {}", names(watches));
        })
    }

    fn index(&self, watch: &str, name: &str) -> &Value {
        let indexes = self.watch(watch)["indexes"].as_array().map(Vec::as_slice).unwrap_or_default();
        indexes.iter().find(|index| index["name"] == name).unwrap_or_else(|| {
            panic!("unknown index {name:?} of watch {watch:?}: the descriptor declares {}", names(indexes));
        })
    }

    pub(crate) fn has_watch(&self, watch: &str) -> bool {
        self.watch(watch).is_object()
    }

    /// Returns the objects of a watch that match, sorted by key.
    fn watched(&self, name: &str, namespace: &str, labels: &str) -> Vec<Value> {
        let watch = self.watch(name);
        let text = |field: &str| watch[field].as_str().unwrap_or_default();
        let matching = parse_labels(labels);
        let selection = Selection {
            api_version: text("apiVersion"),
            kind: text("kind"),
            namespace,
            labels: parse_labels(text("labelSelector")),
            fields: text("fieldSelector"),
        };
        let mut found = self.cluster.borrow().select(&selection);
        let namespaces = watch["namespaces"].as_array();
        found.retain(|object| {
            let namespace = &object["metadata"]["namespace"];
            namespaces.is_none_or(|all| all.contains(namespace)) && matching.matches(object)
        });
        if watch["projection"] == "metadata" {
            for object in found.iter_mut().filter_map(Value::as_object_mut) {
                object.retain(|name, _| ["apiVersion", "kind", "metadata"].contains(&name.as_str()));
            }
        }
        found
    }

    pub(crate) fn cache_get(&self, watch: &str, key: &ObjectKey) -> Option<objects::Object> {
        let found = self.watched(watch, &key.namespace, "").into_iter().find(|object| key_of(object) == *key);
        found.map(objects::Object::new)
    }

    pub(crate) fn cache_list(&self, watch: &str, filter: &Filter) -> (Vec<objects::Object>, String) {
        let found = self.watched(watch, &filter.namespace, &filter.label_selector);
        let (page, next) = select::page(found, page_size(filter.limit), &filter.cursor);
        (page.into_iter().map(objects::Object::new).collect(), next)
    }

    /// Like `cache_list`, where a limit of 0 means all objects.
    pub(crate) fn cache_list_all(&self, watch: &str, filter: &Filter) -> Vec<objects::Object> {
        let found = self.watched(watch, &filter.namespace, &filter.label_selector);
        let limit = match filter.limit {
            0 => found.len(),
            limit => limit as usize,
        };
        select::page(found, limit, &filter.cursor).0.into_iter().map(objects::Object::new).collect()
    }

    pub(crate) fn cache_by_index(&self, watch: &str, index: &str, value: &str) -> Vec<objects::Object> {
        let index = self.index(watch, index);
        let mut found = self.watched(watch, "", "");
        found.retain(|object| self.values(index, object).iter().any(|found| found == value));
        found.into_iter().map(objects::Object::new).collect()
    }

    pub(crate) fn cache_index_values(&self, watch: &str, index: &str) -> Vec<String> {
        let index = self.index(watch, index);
        let found = self.watched(watch, "", "");
        let mut values: Vec<_> = found.iter().flat_map(|object| self.values(index, object)).collect();
        values.sort();
        values.dedup();
        values
    }

    fn values(&self, index: &Value, object: &Value) -> Vec<String> {
        if index["computed"] == true {
            let name = index["name"].as_str().unwrap_or_default();
            return self.computed_values(name, object.clone());
        }
        select::index_values(index, object)
    }

    pub(super) fn computed_values(&self, index: &str, object: Value) -> Vec<String> {
        let Some(indexer) = self.indexer.borrow().clone() else {
            panic!("the index {index:?} is computed by the plugin: create the host with Host::with_indexer")
        };
        indexer(index, &Object::new(objects::Object::new(object)))
    }

    // The client.

    pub(crate) fn client_get(
        &self,
        target: &ObjectType,
        key: &ObjectKey,
        subresource: &str,
    ) -> Result<objects::Object, wit::ApiError> {
        let request = Request { verb: "get", id: id_of(target, key), subresource };
        let part = self.begin(&request)?;
        self.cluster.borrow().require(&request.id, part).map(objects::Object::new)
    }

    pub(crate) fn client_list(
        &self,
        target: &ObjectType,
        options: &ListOptions,
    ) -> Result<(Vec<objects::Object>, String), wit::ApiError> {
        let key = ObjectKey::new(&options.namespace, "");
        self.begin(&Request { verb: "list", id: id_of(target, &key), subresource: "" })?;
        let selection = Selection {
            api_version: &target.api_version,
            kind: &target.kind,
            namespace: &options.namespace,
            labels: LabelSelector::parse(&options.label_selector)
                .map_err(|message| other(400, "BadRequest", &message))?,
            fields: &options.field_selector,
        };
        let found = self.cluster.borrow().select(&selection);
        let (page, next) = select::page(found, page_size(options.limit), &options.cursor);
        Ok((page.into_iter().map(objects::Object::new).collect(), next))
    }

    pub(crate) fn client_create(
        &self,
        manifest: &str,
        subresource: &str,
    ) -> Result<objects::Object, wit::ApiError> {
        let object = parse(manifest)?;
        let request = Request { verb: "create", id: Id::of(&object), subresource };
        self.begin(&request)?;
        let created = match kinds::parent(subresource) {
            None if subresource.is_empty() => self.cluster.borrow_mut().create(object, self.own_name()),
            // An eviction or a token is an action, and not an object.
            parent => {
                let mut id = request.id.clone();
                if let Some((api_version, kind)) = parent {
                    (id.api_version, id.kind) = (api_version.to_owned(), kind.to_owned());
                }
                self.cluster.borrow().require(&id, Part::Object).map(|_| object)
            }
        }?;
        Ok(self.wrote("create", created, subresource))
    }

    pub(crate) fn client_update(
        &self,
        manifest: &str,
        subresource: &str,
    ) -> Result<objects::Object, wit::ApiError> {
        let object = parse(manifest)?;
        let part = self.begin(&Request { verb: "update", id: Id::of(&object), subresource })?;
        let updated = self.cluster.borrow_mut().update(object, part, self.own_name())?;
        Ok(self.wrote("update", updated, subresource))
    }

    pub(crate) fn client_patch(
        &self,
        target: &ObjectType,
        key: &ObjectKey,
        patch_type: &PatchType,
        body: &str,
        subresource: &str,
    ) -> Result<objects::Object, wit::ApiError> {
        let request = Request { verb: "patch", id: id_of(target, key), subresource };
        let part = self.begin(&request)?;
        let body: Value =
            serde_json::from_str(body).map_err(|error| other(400, "BadRequest", &error.to_string()))?;
        let (id, own) = (&request.id, self.own_name());
        let (verb, written) = match patch_type {
            PatchType::Json => ("patch", self.cluster.borrow_mut().json_patch(id, &body, part, own)),
            PatchType::Merge => ("patch", self.cluster.borrow_mut().merge_patch(id, &body, part, own)),
            PatchType::Apply(options) => ("apply", self.apply(id, body, part, options)),
            PatchType::Strategic => {
                panic!(
                    "the fake host supports JSON and merge patches and server-side apply, but no strategic patches"
                )
            }
        };
        Ok(self.wrote(verb, written?, subresource))
    }

    fn apply(
        &self,
        id: &Id,
        config: Value,
        part: Part,
        options: &ApplyOptions,
    ) -> Result<Value, wit::ApiError> {
        let own = self.own_name();
        let manager = if options.field_manager.is_empty() { own } else { options.field_manager.as_str() };
        let is_own = manager.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if !is_own {
            let message = format!("write {own:?}, {own}/ and a name of your own, or leave it out");
            return Err(invalid("fieldManager", "FieldValueInvalid", &message));
        }
        if !config.is_object() {
            return Err(other(400, "BadRequest", "the applied manifest is not an object"));
        }
        let apply = Apply { manager: &format!("{manager} apply"), force: options.force };
        self.cluster.borrow_mut().apply(id, config, part, &apply)
    }

    pub(crate) fn client_delete(
        &self,
        target: &ObjectType,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), wit::ApiError> {
        let request = Request { verb: "delete", id: id_of(target, key), subresource: "" };
        self.begin(&request)?;
        self.cluster.borrow_mut().delete(&request.id, &options.uid, &options.resource_version)?;
        self.record("delete", &request.id, "");
        Ok(())
    }

    /// Checks a request as the host does before it sends it, and fails it if the test said so.
    fn begin(&self, request: &Request<'_>) -> Result<Part, wit::ApiError> {
        let Request { verb, id, subresource } = request;
        for (field, value) in [("apiVersion", &id.api_version), ("kind", &id.kind)] {
            if value.is_empty() {
                return Err(invalid(field, "FieldValueInvalid", "the manifest must set it"));
            }
        }
        if let Some(problem) = namespace_problem(&id.key.namespace) {
            return Err(invalid("metadata.namespace", "FieldValueInvalid", &problem));
        }
        if let Some(problem) = name_problem(&id.key.name).filter(|_| !id.key.name.is_empty()) {
            return Err(invalid("metadata.name", "FieldValueInvalid", &problem));
        }
        let mut target = id.clone();
        if let Some((api_version, kind)) = kinds::parent(subresource) {
            (target.api_version, target.kind) = (api_version.to_owned(), kind.to_owned());
        }
        let kind = self.cluster.borrow().kind(&target);
        self.allow(request, &kind)?;
        check_scope(request, &kind)?;
        let part = match *subresource {
            "" => Part::Object,
            "status" => Part::Status,
            _ if *verb == "create" => Part::Object,
            other => panic!("the fake host has no subresource {other:?}: test it with `pilothouse dev`"),
        };
        let mut failures = self.failures.borrow_mut();
        match failures.iter_mut().find(|failure| failure.matches(verb, &id.kind)) {
            Some(failure) => {
                failure.times -= 1;
                Err(failure.error.clone())
            }
            None => Ok(part),
        }
    }

    fn allow(&self, request: &Request<'_>, kind: &Kind) -> Result<(), wit::ApiError> {
        let Request { verb, id, subresource } = request;
        let resource = match *subresource {
            "" => kind.plural.clone(),
            subresource => format!("{}/{subresource}", kind.plural),
        };
        let namespace = if kind.scope == Scope::Cluster { "" } else { id.key.namespace.as_str() };
        let rules = self.descriptor["writes"].as_array().map(Vec::as_slice).unwrap_or_default();
        if rules.iter().any(|rule| covers(rule, &kind.group, &resource, verb, namespace)) {
            return Ok(());
        }
        Err(wit::ApiError::Denied(wit::Rule {
            api_groups: vec![kind.group.clone()],
            resources: vec![resource],
            verbs: vec![(*verb).to_owned()],
            namespaces: if namespace.is_empty() { Vec::new() } else { vec![namespace.to_owned()] },
        }))
    }

    /// Records a write that succeeded, and returns its result.
    fn wrote(&self, verb: &str, object: Value, subresource: &str) -> objects::Object {
        self.record(verb, &Id::of(&object), subresource);
        objects::Object::new(object)
    }

    fn record(&self, verb: &str, id: &Id, subresource: &str) {
        let Id { api_version, kind, key } = id;
        let mut line = format!("{verb} {api_version} {kind} {key}");
        if !subresource.is_empty() {
            line.push(' ');
            line.push_str(subresource);
        }
        self.recorded.borrow_mut().writes.push(line);
    }

    // The other interfaces.

    pub(crate) fn enqueue(&self, function: &str, watch: &str, key: &ObjectKey, milliseconds: Option<u32>) {
        if let Some(problem) = namespace_problem(&key.namespace).or_else(|| name_problem(&key.name)) {
            panic!("{function} takes keys of objects: {problem}");
        }
        if self.watch(watch)["trigger"] != "self" {
            let watches = self.descriptor["watches"].as_array().into_iter().flatten();
            let targets: Vec<_> = watches.filter(|watch| watch["trigger"] == "self").cloned().collect();
            panic!(
                "watch {watch:?} is not a target (its trigger isn't self): targets are {}",
                names(&targets)
            );
        }
        let after = milliseconds.map(|milliseconds| Duration::from_millis(milliseconds.into()));
        let queued = Queued { watch: watch.to_owned(), key: key.clone(), after };
        self.recorded.borrow_mut().queued.push(queued);
    }

    pub(crate) fn publish(
        &self,
        regarding: &ObjectKey,
        is_warning: bool,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        let [reason, action, note] = [reason, action, note].map(str::to_owned);
        let event = Event { regarding: regarding.clone(), is_warning, reason, action, note };
        self.recorded.borrow_mut().events.push(event);
    }

    pub(crate) fn log(&self, level: Level, message: &str, fields: &[wit::Pair]) {
        let line = LogLine { level, message: message.to_owned(), fields: pairs(fields) };
        self.recorded.borrow_mut().log.push(line);
    }

    pub(crate) fn metric(&self, name: &str, labels: &[wit::Pair], value: f64) {
        let metric = Metric { name: name.to_owned(), labels: pairs(labels), value };
        self.recorded.borrow_mut().metrics.push(metric);
    }
}

fn pairs(pairs: &[wit::Pair]) -> Vec<(String, String)> {
    pairs.iter().map(|pair| (pair.key.clone(), pair.value.clone())).collect()
}

fn names(declared: &[Value]) -> String {
    let names: Vec<_> = declared.iter().filter_map(|one| one["name"].as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn page_size(limit: u32) -> usize {
    if limit == 0 { MAX_PAGE_SIZE as usize } else { limit.min(MAX_PAGE_SIZE) as usize }
}

fn id_of(target: &ObjectType, key: &ObjectKey) -> Id {
    Id { api_version: target.api_version.clone(), kind: target.kind.clone(), key: key.clone() }
}

/// Parses the manifest of a request.
fn parse(manifest: &str) -> Result<Value, wit::ApiError> {
    let object = serde_json::from_str(manifest).unwrap_or(Value::Null);
    if object.is_object() {
        return Ok(object);
    }
    Err(invalid("", "FieldValueInvalid", "the manifest is not a JSON object"))
}

/// Parses the selector of a read of the cache. The host ends the instance for a malformed one.
fn parse_labels(selector: &str) -> LabelSelector {
    LabelSelector::parse(selector).unwrap_or_else(|message| panic!("{message}"))
}

fn check_scope(request: &Request<'_>, kind: &Kind) -> Result<(), wit::ApiError> {
    let ObjectKey { namespace, name } = &request.id.key;
    let is_list = request.verb == "list";
    let refused = |field: &str, message: &str| Err(invalid(field, "FieldValueInvalid", message));
    let plural = &kind.plural;
    match kind.scope {
        Scope::Namespaced if namespace.is_empty() && !is_list => {
            let message = format!("it is empty, but {plural} are namespaced: name a namespace");
            refused("metadata.namespace", &message)
        }
        Scope::Cluster if !namespace.is_empty() => {
            refused("metadata.namespace", &format!("{plural} are cluster-scoped: leave the namespace out"))
        }
        _ if name.is_empty() && !is_list && (request.verb != "create" || !request.subresource.is_empty()) => {
            refused("metadata.name", "it is empty")
        }
        _ => Ok(()),
    }
}

fn covers(rule: &Value, group: &str, resource: &str, verb: &str, namespace: &str) -> bool {
    let has_one = |field: &str, wanted: &[&str]| {
        let list = rule[field].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).any(|item| item == "*" || wanted.contains(&item))
    };
    let pattern = resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
    let is_everywhere = rule["namespaces"].as_array().is_none_or(Vec::is_empty);
    let namespaces: &[&str] = if namespace.is_empty() { &[] } else { &[namespace] };
    has_one("apiGroups", &[group])
        && has_one("resources", &[resource, pattern.as_deref().unwrap_or(resource)])
        && has_one("verbs", &[verb])
        && (is_everywhere || has_one("namespaces", namespaces))
}

fn namespace_problem(namespace: &str) -> Option<String> {
    let is_valid = namespace.len() <= 63
        && !namespace.starts_with('-')
        && !namespace.ends_with('-')
        && namespace.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-');
    (!is_valid).then(|| format!("{namespace:?} is not the name of a namespace"))
}

fn name_problem(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("the name is empty".to_owned());
    }
    let is_invalid = name.len() > 253
        || matches!(name, "." | "..")
        || name.chars().any(|char| matches!(char, '/' | '%') || char.is_ascii_control());
    is_invalid.then(|| format!("{name:?} is not the name of an object"))
}

/// Returns the error of the contract that the SDK converts to this one.
pub(super) fn wire_error(error: ApiError) -> wit::ApiError {
    match error {
        ApiError::NotFound(message) => wit::ApiError::NotFound(message),
        ApiError::AlreadyExists(message) => wit::ApiError::AlreadyExists(message),
        ApiError::Conflict { message, resource_version } => {
            conflict(&message, &resource_version.unwrap_or_default())
        }
        ApiError::Invalid(causes) => wit::ApiError::Invalid(causes),
        ApiError::Forbidden(message) => wit::ApiError::Forbidden(message),
        ApiError::Denied(rule) => wit::ApiError::Denied(rule),
        ApiError::TooManyRequests { retry_after_ms } => wit::ApiError::TooManyRequests(retry_after_ms),
        ApiError::Unavailable(message) => wit::ApiError::Unavailable(message),
        ApiError::Other { code, reason, message } => other(code, &reason, &message),
        error @ (ApiError::Decode(_) | ApiError::Encode(_)) => other(500, "", &error.to_string()),
    }
}
