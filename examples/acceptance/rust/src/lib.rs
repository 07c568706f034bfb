//! The acceptance plugin in Rust. `../README.md` specifies it.

mod cache;
mod effects;
mod requests;
mod script;

use std::hint::black_box;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use pilothouse_sdk::log::{Level, log};
use pilothouse_sdk::{
    Config, Context, Describe, Error, Index, Indexer, Notification, Object, Observer, Outcome, Plugin,
    Reason, Reconciler, Request, Verb, Watch, WatchRef, WriteRule, serde_json,
};
use script::Script;

pub(crate) const SCRIPTS: WatchRef<ConfigMap> = WatchRef::new("scripts");
pub(crate) const ITEMS: WatchRef<ConfigMap> = WatchRef::new("items");
const NAMESPACES: WatchRef<Namespace> = WatchRef::new("namespaces");
const DEPLOYMENTS: WatchRef<Deployment> = WatchRef::new("deployments");

const ALL_VERBS: &[Verb] = &[Verb::Get, Verb::List, Verb::Create, Verb::Update, Verb::Patch, Verb::Delete];

#[derive(Default)]
struct Acceptance;

impl Describe for Acceptance {
    fn describe(config: &Config) -> Result<Plugin, Error> {
        if let Some(text) = config.get::<String>("fail")? {
            return Err(Error::terminal(text));
        }
        Ok(Plugin::new("acceptance-rust", env!("CARGO_PKG_VERSION"))
            .summary("Performs the operations of ConfigMaps")
            .watch(Watch::of(SCRIPTS).label_selector("test=acceptance").triggers_itself())
            .watch(
                Watch::of(ITEMS)
                    .label_selector("test=acceptance-item")
                    .notify()
                    .index(Index::by_field("byGroup", "{.data.group}"))
                    .index(Index::computed("byWord")),
            )
            .watch(Watch::of(NAMESPACES))
            .watch(Watch::of(DEPLOYMENTS).label_selector("test=acceptance-item"))
            .writes(WriteRule::of::<ConfigMap>(ALL_VERBS))
            .writes(WriteRule::of::<Deployment>(ALL_VERBS))
            .writes(WriteRule::of::<Deployment>(ALL_VERBS).subresource("status"))
            .writes(WriteRule::of::<Deployment>(ALL_VERBS).subresource("scale")))
    }
}

impl Indexer for Acceptance {
    fn values(&self, index: &str, object: &Object) -> Vec<String> {
        assert_eq!(index, "byWord");
        let words = object.text("/data/words").unwrap_or_default();
        words
            .split(' ')
            .filter(|word| !word.is_empty())
            .inspect(|word| assert_ne!(*word, "trap"))
            .map(Into::into)
            .collect()
    }
}

impl Observer for Acceptance {
    fn observe(&mut self, _: &Context<'_>, notifications: &[Notification<'_>]) -> Result<(), Error> {
        for notification in notifications {
            let before = notification.before::<Object>()?.and_then(|object| object.text("/data/value"));
            let after = notification.field::<serde_json::Value>("/data/value")?;
            assert_ne!(after.as_ref().and_then(serde_json::Value::as_str), Some("trap"));
            log(
                Level::Info,
                "observed",
                &[
                    ("watch", &notification.watch()),
                    ("key", notification.key()),
                    ("change", &notification.change()),
                    ("initial", &notification.is_initial()),
                    ("unknown", &notification.is_final_state_unknown()),
                    ("before", &before.unwrap_or_else(|| "-".into())),
                    ("after", &after.map_or_else(|| "-".into(), |value| value.to_string())),
                ],
            );
        }
        Ok(())
    }
}

impl Reconciler for Acceptance {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(script) = ctx.cache(SCRIPTS.untyped()).get(&request.key)? else { return Ok(Outcome::Done) };
        let script = Script(script);
        let op = script.text("op");
        let outcome = match op.as_str() {
            "requeue" if !request.reasons.contains(&Reason::Requeue) => {
                return Ok(Outcome::RequeueAfter(script.milliseconds("a")?));
            }
            "retry" if request.attempt < script.number("a")? => {
                return Err(Error::retry(format!("attempt {} of {}", request.attempt, script.text("a"))));
            }
            "terminal" => return Err(Error::terminal(script.text("a"))),
            "finalizer" => return effects::hold(ctx, request),
            "trap" | "loop" | "allocate" | "unknown-watch" if request.attempt == 0 => {
                fault(ctx, request, &op, &script)
            }
            _ => perform(ctx, request, &op, &script),
        };
        log_result(&op, &outcome?);
        Ok(Outcome::Done)
    }
}

/// Performs an operation that ends, and returns its value.
fn perform(ctx: &Context<'_>, request: &Request, op: &str, script: &Script) -> Result<String, Error> {
    match op {
        "info" => Ok(describe(request)),
        "requeue" => Ok("requeued".into()),
        "retry" => Ok(format!("attempt={}", request.attempt)),
        "trap" | "loop" | "allocate" | "unknown-watch" => Ok("recovered".into()),
        "get" => cache::get(ctx, script),
        "json-length" => cache::json_length(ctx, script),
        "object" => cache::describe(ctx, script),
        "list" => cache::list(ctx, script),
        "list-fields" => cache::list_fields(ctx, script),
        "by-index" => cache::by_index(ctx, script),
        "index-keys" => Ok(cache::index_keys(ctx, script)),
        "index-values" => {
            Ok(ctx.cache::<Object>(&script.text("a")).index_values(&script.text("b")).join(" "))
        }
        "has-synced" => Ok(ctx.cache::<Object>(&script.text("a")).has_synced().to_string()),
        "own-write" => cache::own_write(ctx, request, script),
        "client-get" => requests::get(ctx, script),
        "client-list" => requests::list(ctx, script),
        "create" => requests::create(ctx, script),
        "update" => requests::update(ctx, script),
        "patch" => requests::patch(ctx, script),
        "delete" => requests::delete(ctx, script),
        "denied" => requests::denied(ctx, request),
        "add" => Ok(effects::add(ctx, script)),
        "add-after" => effects::add_after(ctx, script),
        "event" => Ok(effects::event(ctx, script)),
        "counter" | "gauge" | "histogram" => effects::metric(op, script),
        "log" => effects::line(script),
        _ => Err(Error::terminal(format!("no operation {op}"))),
    }
}

/// Performs an operation that faults.
fn fault(ctx: &Context<'_>, request: &Request, op: &str, script: &Script) -> Result<String, Error> {
    match op {
        "loop" => loop {
            black_box(());
        },
        "allocate" => {
            let mut blocks = Vec::new();
            loop {
                blocks.push(black_box(vec![1_u8; 1 << 20]));
            }
        }
        "unknown-watch" => {
            let _ = ctx.cache::<Object>("nonesuch").get(&request.key)?;
            Ok("the host accepted an unknown watch".into())
        }
        _ => panic!("{}", script.text("a")),
    }
}

fn describe(request: &Request) -> String {
    let mut reasons: Vec<_> = request.reasons.iter().map(ToString::to_string).collect();
    reasons.sort_unstable();
    format!("{} {} attempt={} reasons={}", request.watch, request.key, request.attempt, reasons.join(","))
}

/// Logs the result of an operation.
pub(crate) fn log_result(op: &str, value: &str) {
    log(Level::Info, "result", &[("op", &op), ("value", &value)]);
}

pilothouse_sdk::export!(Acceptance: Reconciler + Observer + Indexer);
