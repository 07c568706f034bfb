//! Records of what the plugin read and did, for tests: ConfigMaps labelled `test=conformance-record`.

use k8s_openapi::api::core::v1::ConfigMap;
use pilothouse_sdk::client::{Apply, Change, Delete, Patch};
use pilothouse_sdk::{ApiError, Context, Error, Object, ObjectKey, Request, serde_json};

use crate::{RECORDS, SCRIPTS, VERSION};

/// Records the state of the script that this reconcile read.
pub(crate) fn copy(ctx: &Context<'_>, request: &Request, script: &Object, target: &str) -> Result<(), Error> {
    let reasons: Vec<_> = request.reasons.iter().map(ToString::to_string).collect();
    let data = script.field::<serde_json::Value>("/data")?.unwrap_or_default();
    write(
        ctx,
        &request.key.sibling(target),
        [
            ("source", request.key.to_string()),
            ("uid", script.uid()),
            ("resourceVersion", script.resource_version()),
            ("data", data.to_string()),
            ("version", VERSION.to_owned()),
            ("attempt", request.attempt.to_string()),
            ("reasons", reasons.join(",")),
        ],
    )
}

/// Writes a record and reads it from the cache in the same reconcile: a plugin's own writes are visible immediately.
pub(crate) fn read_back(ctx: &Context<'_>, request: &Request, target: &str) -> Result<(), Error> {
    let key = request.key.sibling(target);
    let cache = ctx.cache(RECORDS);
    let turn = |map: &ConfigMap| map.data.as_ref().and_then(|data| data.get("turn")?.parse::<u32>().ok());
    let before = cache.get(&key)?.as_ref().and_then(turn).unwrap_or(0);
    write(ctx, &key, [("turn", (before + 1).to_string()), ("version", VERSION.to_owned())])?;
    let after = cache.get(&key)?.as_ref().and_then(turn);
    if after != Some(before + 1) {
        return Err(Error::terminal(format!("wrote turn {} to {key} and read {after:?}", before + 1)));
    }
    Ok(())
}

/// Records the names of all scripts with the same `data.group`, by index.
pub(crate) fn group(
    ctx: &Context<'_>,
    request: &Request,
    script: &Object,
    target: &str,
) -> Result<(), Error> {
    let group = script.text("/data/group").unwrap_or_default();
    let keys = ctx.cache(SCRIPTS).index_keys("byGroup", &group);
    let names: Vec<_> = keys.iter().map(ToString::to_string).collect();
    write(ctx, &request.key.sibling(target), [("group", group), ("members", names.join(","))])
}

/// Writes a different value to the script itself each time, so that its own write queues it again.
pub(crate) fn flip(ctx: &Context<'_>, script: &Object) -> Result<(), Error> {
    let other = if script.text("/data/flip").as_deref() == Some("on") { "off" } else { "on" };
    let patch = serde_json::json!({"data": {"flip": other}});
    ctx.client().patch::<ConfigMap>(&script.key(), &Patch::Merge(&patch))?;
    Ok(())
}

/// Sets a field of the script to `config.opinion`. Two plugins with different opinions never come to rest.
pub(crate) fn insist(ctx: &Context<'_>, script: &Object, field: &str) -> Result<(), Error> {
    let opinion = ctx.config()?.get::<String>("opinion")?.unwrap_or_default();
    if script.text(&format!("/data/{field}")).as_deref() != Some(opinion.as_str()) {
        let patch = serde_json::json!({"data": {field: opinion}});
        ctx.client().patch::<ConfigMap>(&script.key(), &Patch::Merge(&patch))?;
    }
    Ok(())
}

/// Creates a record that the cache does not have. Fails terminally if it exists nevertheless.
pub(crate) fn create(ctx: &Context<'_>, key: &ObjectKey) -> Result<(), Error> {
    if ctx.cache(RECORDS).get(key)?.is_some() {
        return Ok(());
    }
    match ctx.client().create(&mk_record(key, [("version", VERSION.to_owned())])) {
        Err(ApiError::AlreadyExists(_)) => {
            Err(Error::terminal(format!("{key} exists, but the cache does not have it")))
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}

/// Deletes a record, if it exists.
pub(crate) fn delete(ctx: &Context<'_>, key: &ObjectKey) -> Result<(), Error> {
    match ctx.client().delete::<ConfigMap>(key, &Delete::default()) {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Updates a record from an outdated state, and expects a conflict.
pub(crate) fn stale_update(ctx: &Context<'_>, key: &ObjectKey) -> Result<(), Error> {
    let create = || mk_record(key, [("turn", "0".to_owned())]);
    let client = ctx.client();
    let (mut record, change) =
        client.create_or_update(None, create, |_| {}).or_else(|error| match error {
            ApiError::AlreadyExists(_) => Ok((client.get::<ConfigMap>(key)?, Change::Unchanged)),
            error => Err(error),
        })?;
    record.data.get_or_insert_default().insert("turn".to_owned(), format!("1 after {change:?}"));
    client.update(&record)?;
    record.data.get_or_insert_default().insert("turn".to_owned(), "2, never to be stored".to_owned());
    match client.update(&record) {
        Err(error) if error.is_conflict() => Ok(()),
        other => Err(Error::terminal(format!("an update of an old version gave {other:?}"))),
    }
}

fn write<const N: usize>(ctx: &Context<'_>, key: &ObjectKey, data: [(&str, String); N]) -> Result<(), Error> {
    ctx.client().apply(&mk_record(key, data), Apply::forced())?;
    Ok(())
}

fn mk_record<const N: usize>(key: &ObjectKey, data: [(&str, String); N]) -> ConfigMap {
    let mut record = ConfigMap::default();
    record.metadata.namespace = Some(key.namespace.clone());
    record.metadata.name = Some(key.name.clone());
    record.metadata.labels = Some([("test".to_owned(), "conformance-record".to_owned())].into());
    record.data = Some(data.map(|(name, value)| (name.to_owned(), value)).into());
    record
}
