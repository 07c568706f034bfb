//! Every request of the client.

use pilothouse_sdk::client::untyped::ListOptions;
use pilothouse_sdk::client::{Apply, Delete, Patch, Propagation};
use pilothouse_sdk::{ApiError, Context, Error, Object, Request, serde_json};
use serde_json::{Value, json};

use crate::cache::joined;
use crate::script::Script;

pub(crate) fn get(ctx: &Context<'_>, script: &Script) -> Result<String, Error> {
    let object = ctx.client().untyped().get(&script.object_type(), &script.key("c", "d"), &script.text("e"));
    value(object.map(|object| object.text(&script.text("f")).unwrap_or_else(|| "absent".into())))
}

pub(crate) fn list(ctx: &Context<'_>, script: &Script) -> Result<String, Error> {
    let mut options = ListOptions {
        namespace: script.text("c"),
        label_selector: script.text("d"),
        field_selector: script.text("e"),
        limit: script.number("f")?,
        cursor: String::new(),
    };
    let mut pages = Vec::new();
    loop {
        let page = match ctx.client().untyped().list(&script.object_type(), &options) {
            Ok(page) => page,
            Err(error) => return value(Err(error)),
        };
        pages.push(joined(page.items.iter().map(Object::key)));
        match page.next {
            Some(next) => options.cursor = next,
            None => return Ok(pages.join(" | ")),
        }
    }
}

pub(crate) fn create(ctx: &Context<'_>, script: &Script) -> Result<String, Error> {
    name(ctx.client().untyped().create(&body(script)?, &script.text("a")))
}

pub(crate) fn update(ctx: &Context<'_>, script: &Script) -> Result<String, Error> {
    name(ctx.client().untyped().update(&body(script)?, &script.text("a")))
}

pub(crate) fn patch(ctx: &Context<'_>, script: &Script) -> Result<String, Error> {
    let body = body(script)?;
    let patch = match script.text("e").as_str() {
        "json" => Patch::Json(&body),
        "merge" => Patch::Merge(&body),
        "strategic" => Patch::Strategic(&body),
        "apply" => Patch::Apply(&body, Apply::cautious()),
        "apply-force" => Patch::Apply(&body, Apply::forced()),
        other => return Err(Error::terminal(format!("no patch type {other}"))),
    };
    name(ctx.client().untyped().patch(
        &script.object_type(),
        &script.key("c", "d"),
        &patch,
        &script.text("f"),
    ))
}

pub(crate) fn delete(ctx: &Context<'_>, script: &Script) -> Result<String, Error> {
    let propagation = match script.text("e").as_str() {
        "foreground" => Propagation::Foreground,
        "orphan" => Propagation::Orphan,
        _ => Propagation::Background,
    };
    let options =
        Delete::propagating(propagation).only_uid(script.text("f")).only_resource_version(script.text("g"));
    let deleted = ctx.client().untyped().delete(&script.object_type(), &script.key("c", "d"), &options);
    value(deleted.map(|()| "deleted".into()))
}

/// Sends a write that the descriptor does not declare.
pub(crate) fn denied(ctx: &Context<'_>, request: &Request) -> Result<String, Error> {
    let metadata = json!({"name": "denied", "namespace": request.key.namespace});
    name(
        ctx.client()
            .untyped()
            .create(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}), ""),
    )
}

fn body(script: &Script) -> Result<Value, Error> {
    serde_json::from_str(&script.text("body")).map_err(|error| Error::terminal(format!("data.body: {error}")))
}

fn name(result: Result<Object, ApiError>) -> Result<String, Error> {
    value(result.map(|object| object.key().name))
}

/// Converts an error of the client to a value.
pub(crate) fn value(result: Result<String, ApiError>) -> Result<String, Error> {
    let error = match result {
        Err(error) => error,
        Ok(value) => return Ok(value),
    };
    Ok(match error {
        ApiError::NotFound(_) => "not-found".into(),
        ApiError::AlreadyExists(_) => "already-exists".into(),
        ApiError::Conflict { .. } => "conflict".into(),
        ApiError::Invalid(causes) => {
            format!("invalid:{}", causes.first().map(|cause| cause.field.as_str()).unwrap_or_default())
        }
        ApiError::Forbidden(_) => "forbidden".into(),
        ApiError::Denied(rule) => {
            let first = |texts: &[String]| texts.first().cloned().unwrap_or_default();
            format!("denied:{} {}", first(&rule.verbs), first(&rule.resources))
        }
        ApiError::TooManyRequests { retry_after_ms } => format!("too-many-requests:{retry_after_ms}"),
        ApiError::Unavailable(_) => "unavailable".into(),
        ApiError::Other { code, .. } => format!("other:{code}"),
        error => return Err(error.into()),
    })
}
