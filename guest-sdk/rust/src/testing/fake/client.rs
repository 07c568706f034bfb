//! Requests to the API server: checked as the host does, and answered by the fake cluster.

use serde_json::Value;

use super::super::cluster::errors::{invalid, other};
use super::super::cluster::{Apply, Id, Part, Selection};
use super::super::kinds::{self, Kind, Scope};
use super::super::select::{self, LabelSelector};
use super::names::{name_problem, namespace_problem};
use super::{FakeHost, page_size};
use crate::bindings::pilothouse::controller::types as wit;
use crate::host::client::{ApplyOptions, DeleteOptions, ListOptions, PatchType};
use crate::host::objects;
use crate::{ObjectKey, ObjectType};

/// A request that the plugin sends.
struct Request<'a> {
    verb: &'static str,
    id: Id,
    subresource: &'a str,
}

impl FakeHost {
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
