//! What several cases need: descriptors, manifests, and requests with preconditions.

use pilothouse_sdk::client::untyped::ListOptions;
use pilothouse_sdk::client::{Delete, Patch};
use pilothouse_sdk::serde_json::{Value, from_str, json};
use pilothouse_sdk::{ApiError, Context, Object, ObjectKey, ObjectType, Plugin, Query, Verb, WriteRule};

/// The API group of the catalogue's custom resources.
pub const GROUP: &str = "catalogue.pilothouse.dev";

/// Creates the descriptor of one twin.
#[must_use]
pub fn plugin(case: &str, twin: &str) -> Plugin {
    Plugin::new(format!("{case}-{twin}"), env!("CARGO_PKG_VERSION"))
}

/// Parses a CustomResourceDefinition of `crds/`.
///
/// # Panics
/// Panics if the text is not JSON, which is a mistake in this repository.
#[must_use]
pub fn definition(text: &str) -> Value {
    from_str(text).expect("the definitions in crds/ are JSON")
}

/// Returns the type of a custom resource of the catalogue.
#[must_use]
pub fn own(kind: &str) -> ObjectType {
    ObjectType::new(format!("{GROUP}/v1"), kind)
}

/// Returns a built-in type.
#[must_use]
pub fn core(kind: &str) -> ObjectType {
    ObjectType::new("v1", kind)
}

/// Allows verbs on a custom resource of the catalogue, given by its plural name.
#[must_use]
pub fn may(plural: &str, verbs: &[Verb]) -> WriteRule {
    WriteRule::untyped(GROUP, plural, verbs)
}

/// Returns the `ownerReferences` of an object that `owner` controls.
#[must_use]
pub fn owned_by(owner: &Object) -> Value {
    json!([{
        "apiVersion": owner.api_version(),
        "kind": owner.kind(),
        "name": owner.key().name,
        "uid": owner.uid(),
        "controller": true,
    }])
}

/// Returns the manifest of a Pod without a node.
#[must_use]
pub fn pod(metadata: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "app", "image": "example/app:1"}]},
    })
}

/// Returns the manifest of a StatefulSet that `owner` controls and that has the owner's name.
#[must_use]
pub fn stateful_set(owner: &Object, replicas: i64) -> Value {
    let ObjectKey { namespace, name } = owner.key();
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": owned_by(owner)},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "app", "image": "example/app:1"}]},
            },
        },
    })
}

/// Returns the integer at a JSON pointer, or `default` if there is none.
#[must_use]
pub fn integer(object: &Object, pointer: &str, default: i64) -> i64 {
    object.text(pointer).and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Selects the objects of a key's namespace that have a label with the key's name.
#[must_use]
pub fn labelled(key: &ObjectKey, label: &str) -> Query {
    Query::all().namespace(key.namespace.clone()).labels(format!("{label}={}", key.name))
}

/// Returns the object as the server has it now; `None` if it does not exist.
///
/// # Errors
/// Any other [`ApiError`].
pub fn get_live(ctx: &Context<'_>, kind: &ObjectType, key: &ObjectKey) -> Result<Option<Object>, ApiError> {
    match ctx.client().untyped().get(kind, key, "") {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the objects that the server has now. The empty namespace selects all namespaces.
///
/// # Errors
/// Any [`ApiError`].
pub fn list_live(
    ctx: &Context<'_>,
    kind: &ObjectType,
    namespace: &str,
    label_selector: &str,
) -> Result<Vec<Object>, ApiError> {
    let mut options = ListOptions {
        namespace: namespace.to_owned(),
        label_selector: label_selector.to_owned(),
        ..ListOptions::default()
    };
    let mut objects = Vec::new();
    loop {
        let page = ctx.client().untyped().list(kind, &options)?;
        objects.extend(page.items);
        match page.next {
            Some(next) => options.cursor = next,
            None => return Ok(objects),
        }
    }
}

/// Deletes whatever object has this name now.
///
/// # Errors
/// Any [`ApiError`] but *not found*.
pub fn delete_by_name(ctx: &Context<'_>, object: &Object) -> Result<(), ApiError> {
    delete(ctx, object, &Delete::default())
}

/// Deletes this object, and no later one of the same name.
///
/// # Errors
/// [`ApiError::Conflict`] if another object has the name now, or any other [`ApiError`] but *not found*.
pub fn delete_by_uid(ctx: &Context<'_>, object: &Object) -> Result<(), ApiError> {
    delete(ctx, object, &Delete::default().only_uid(object.uid()))
}

/// Deletes this object if nothing of it has changed since it was read.
///
/// # Errors
/// [`ApiError::Conflict`] if it has changed, or any other [`ApiError`] but *not found*.
pub fn delete_unchanged(ctx: &Context<'_>, object: &Object) -> Result<(), ApiError> {
    let options = Delete::default().only_uid(object.uid()).only_resource_version(object.resource_version());
    delete(ctx, object, &options)
}

fn delete(ctx: &Context<'_>, object: &Object, options: &Delete) -> Result<(), ApiError> {
    let kind = ObjectType::new(object.api_version(), object.kind());
    match ctx.client().untyped().delete(&kind, &object.key(), options) {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Changes an object by a merge patch. `subresource` is "" for the object itself.
///
/// # Errors
/// Any [`ApiError`].
pub fn merge(
    ctx: &Context<'_>,
    object: &Object,
    subresource: &str,
    change: &Value,
) -> Result<Object, ApiError> {
    let kind = ObjectType::new(object.api_version(), object.kind());
    ctx.client().untyped().patch(&kind, &object.key(), &Patch::Merge(change), subresource)
}

/// Changes an object by a merge patch, if nothing of it has changed since it was read.
///
/// # Errors
/// [`ApiError::Conflict`] if it has changed, or any other [`ApiError`].
pub fn merge_unchanged(ctx: &Context<'_>, object: &Object, mut change: Value) -> Result<Object, ApiError> {
    change["metadata"]["resourceVersion"] = object.resource_version().into();
    merge(ctx, object, "", &change)
}
