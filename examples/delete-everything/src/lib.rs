//! A controller that deletes every object it sees: a minimal example from watch to write.

use k8s_openapi::api::core::v1::ConfigMap;
use pilothouse_sdk::client::Delete;
use pilothouse_sdk::{
    Config, Context, Describe, Error, Outcome, Plugin, Reconciler, Request, Verb, Watch, WatchRef, WriteRule,
    info,
};

/// The label selector, unless the sidecar sets `config.labelSelector`. An empty selector selects everything.
const DEFAULT_SELECTOR: &str = "example=delete-everything";

const CONFIG_MAPS: WatchRef<ConfigMap> = WatchRef::new("configmaps");

/// The plugin.
#[derive(Default)]
struct DeleteEverything;

impl Describe for DeleteEverything {
    fn describe(config: &Config) -> Result<Plugin, Error> {
        let selector = config.get("labelSelector")?.unwrap_or_else(|| DEFAULT_SELECTOR.to_owned());
        let mut watch = Watch::of(CONFIG_MAPS).triggers_itself().metadata_only();
        if !selector.is_empty() {
            watch = watch.label_selector(selector);
        }
        Ok(Plugin::new("delete-everything", env!("CARGO_PKG_VERSION"))
            .summary("Deletes every ConfigMap")
            .watch(watch)
            .writes(WriteRule::of::<ConfigMap>(&[Verb::Delete])))
    }
}

impl Reconciler for DeleteEverything {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let key = &request.key;
        let Some(object) = ctx.cache(CONFIG_MAPS.untyped()).get(key)? else {
            info!("[{}] Deleted", key.name);
            return Ok(Outcome::Done);
        };
        if object.is_being_deleted() {
            return Ok(Outcome::Done); // A finalizer keeps it; its removal will be another change.
        }
        info!("[{}] Sync", key.name);
        // Delete by UID, so that a later object of the same name is not deleted unseen.
        match ctx.client().delete::<ConfigMap>(key, &Delete::default().only_uid(object.uid())) {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(Outcome::Done),
        }
    }
}

pilothouse_sdk::export!(DeleteEverything);
