//! Queue, Events, metrics, log and finalizers.

use pilothouse_sdk::log::{Level, log};
use pilothouse_sdk::{Context, Error, Outcome, Request, finalizer, metrics};

use crate::script::Script;

pub(crate) fn add(ctx: &Context<'_>, script: &Script) -> String {
    ctx.queue(&script.text("a")).add(&script.key("b", "c"));
    "added".into()
}

pub(crate) fn add_after(ctx: &Context<'_>, script: &Script) -> Result<String, Error> {
    ctx.queue(&script.text("a")).add_after(&script.key("b", "c"), script.milliseconds("d")?);
    Ok("added".into())
}

pub(crate) fn event(ctx: &Context<'_>, script: &Script) -> String {
    let (reason, action, note) = (script.text("b"), script.text("c"), script.text("d"));
    match script.text("a").as_str() {
        "warning" => ctx.events().warning(&script.0, &reason, &action, note),
        _ => ctx.events().normal(&script.0, &reason, &action, note),
    }
    "published".into()
}

pub(crate) fn metric(op: &str, script: &Script) -> Result<String, Error> {
    let (name, key, value) = (script.text("a"), script.text("b"), script.text("c"));
    let labels = [(key.as_str(), value.as_str())];
    let number = script.number("d")?;
    match op {
        "counter" => metrics::counter(&name, &labels, number),
        "gauge" => metrics::gauge(&name, &labels, number),
        _ => metrics::histogram(&name, &labels, number),
    }
    Ok("recorded".into())
}

pub(crate) fn line(script: &Script) -> Result<String, Error> {
    let level = match script.text("a").as_str() {
        "debug" => Level::Debug,
        "info" => Level::Info,
        "warn" => Level::Warn,
        "error" => Level::Error,
        other => return Err(Error::terminal(format!("no level {other}"))),
    };
    log(level, &script.text("b"), &[(&script.text("c"), &script.text("d"))]);
    Ok("logged".into())
}

/// Adds a finalizer to the script, and removes it when the script is deleted.
pub(crate) fn hold(ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
    let Some(map) = ctx.cache(crate::SCRIPTS).get(&request.key)? else {
        return Ok(Outcome::Done);
    };
    finalizer::run(&map, "acceptance.pilothouse.dev/cleanup", |phase, _| {
        match phase {
            finalizer::Phase::Apply => crate::log_result("finalizer", "held"),
            finalizer::Phase::Cleanup => crate::log_result("finalizer", "cleaned"),
        }
        Ok(Outcome::Done)
    })
}
