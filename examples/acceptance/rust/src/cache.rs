//! Every query of the cache.

use pilothouse_sdk::client::Patch;
use pilothouse_sdk::{Context, Error, Object, ObjectKey, ObjectType, Query, Request, serde_json};
use serde_json::{Value, json};

use crate::script::Script;

fn object(ctx: &Context<'_>, script: &Script) -> Result<Option<Object>, Error> {
    Ok(ctx.cache::<Object>(&script.text("a")).get(&script.key("b", "c"))?)
}

pub(crate) fn get(ctx: &Context<'_>, script: &Script) -> Result<String, Error> {
    let Some(object) = object(ctx, script)? else { return Ok("none".into()) };
    Ok(object.text(&script.text("d")).unwrap_or_else(|| "absent".into()))
}

pub(crate) fn json_length(ctx: &Context<'_>, script: &Script) -> Result<String, Error> {
    Ok(object(ctx, script)?.map_or_else(|| "none".into(), |object| object.json().len().to_string()))
}

/// Calls every method of an object.
pub(crate) fn describe(ctx: &Context<'_>, script: &Script) -> Result<String, Error> {
    let Some(object) = object(ctx, script)? else { return Ok("none".into()) };
    let set = |text: String| if text.is_empty() { "" } else { "set" };
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let labels: Vec<_> = object.labels().into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    let field = object.field::<Value>("/data/value")?.map(|value| value.to_string());
    let controller = object.controller().map(|owner| format!("{}/{}", owner.kind, owner.name));
    let several = ["/data/value", "/data/nothing", "/kind"];
    let fields =
        object.fields::<Value, _>(several)?.map(|value| or_dash(value.map(|value| value.to_string())));
    let lines = [
        ("key", object.key().to_string()),
        ("api-version", object.api_version()),
        ("kind", object.kind()),
        ("uid", set(object.uid()).into()),
        ("resource-version", set(object.resource_version()).into()),
        ("generation", object.generation().to_string()),
        ("labels", labels.join(",")),
        ("label", or_dash(object.label("tier"))),
        ("annotation", or_dash(object.annotation("note"))),
        ("deletion-timestamp", if object.is_being_deleted() { "set" } else { "-" }.into()),
        ("controller", or_dash(controller)),
        ("field", or_dash(field)),
        ("text", or_dash(object.text("/data/value"))),
        ("fields", fields.join(",")),
        ("texts", object.texts(several).map(or_dash).join(",")),
    ];
    Ok(lines.map(|(name, value)| format!("{name}={value}")).join("\n"))
}

fn query(script: &Script) -> Query {
    Query::all().namespace(script.text("b")).labels(script.text("c"))
}

pub(crate) fn list(ctx: &Context<'_>, script: &Script) -> Result<String, Error> {
    let watch = script.text("a");
    let cache = ctx.cache::<Object>(&watch);
    let mut query = query(script).page_size(script.number("d")?);
    let mut pages = Vec::new();
    loop {
        let page = cache.page(&query)?;
        pages.push(joined(page.items.iter().map(Object::key)));
        match page.next {
            Some(next) => query = query.after(next),
            None => return Ok(pages.join(" | ")),
        }
    }
}

pub(crate) fn list_fields(ctx: &Context<'_>, script: &Script) -> Result<String, Error> {
    let watch = script.text("a");
    let rows = ctx.cache::<Object>(&watch).fields(&query(script), &[&script.text("d")]);
    let mut texts = Vec::new();
    for row in rows {
        let value = row.value::<Value>(0)?.map_or_else(|| "-".into(), |value| value.to_string());
        texts.push(format!("{}={value}", row.key));
    }
    Ok(texts.join(" "))
}

pub(crate) fn by_index(ctx: &Context<'_>, script: &Script) -> Result<String, Error> {
    let found = ctx.cache::<Object>(&script.text("a")).by_index(&script.text("b"), &script.text("c"))?;
    Ok(joined(found.iter().map(Object::key)))
}

pub(crate) fn index_keys(ctx: &Context<'_>, script: &Script) -> String {
    joined(ctx.cache::<Object>(&script.text("a")).index_keys(&script.text("b"), &script.text("c")))
}

/// Writes an item and reads it within the same call.
pub(crate) fn own_write(ctx: &Context<'_>, request: &Request, script: &Script) -> Result<String, Error> {
    let key = request.key.sibling(script.text("a"));
    let change = json!({"data": {"value": script.text("b")}});
    ctx.client().untyped().patch(&ObjectType::new("v1", "ConfigMap"), &key, &Patch::Merge(&change), "")?;
    let read = ctx.cache(crate::ITEMS.untyped()).get(&key)?;
    Ok(read.and_then(|item| item.text("/data/value")).unwrap_or_else(|| "none".into()))
}

pub(crate) fn joined(keys: impl IntoIterator<Item = ObjectKey>) -> String {
    keys.into_iter().map(|key| key.to_string()).collect::<Vec<_>>().join(" ")
}
