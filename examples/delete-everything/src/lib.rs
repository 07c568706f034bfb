//! The controller that deletes everything that comes in: the smallest one that shows the whole way from a watch to a
//! write and back.

use k8s_openapi::api::core::v1::ConfigMap;
use pilothouse_sdk::client::{self, Delete};
use pilothouse_sdk::{
    Config, Context, Describe, Error, Object, Outcome, Plugin, Reconciler, Request, Watch, WriteRule, info,
};

/// What is deleted unless the sidecar's `config.labelSelector` says otherwise. An empty selector means it: everything.
const SELECTOR: &str = "example=delete-everything";

/// The plugin.
#[derive(Default)]
struct DeleteEverything;

impl Describe for DeleteEverything {
    fn describe(config: &Config) -> Result<Plugin, Error> {
        let selector = config.get("labelSelector")?.unwrap_or_else(|| SELECTOR.to_owned());
        let mut watch = Watch::of::<ConfigMap>("configmaps").triggers_itself().metadata_only();
        if !selector.is_empty() {
            watch = watch.label_selector(selector);
        }
        Ok(Plugin::new("delete-everything", env!("CARGO_PKG_VERSION"))
            .summary("Deletes every ConfigMap that comes in")
            .watch(watch)
            .writes(WriteRule::of::<ConfigMap>(&["delete"])))
    }
}

impl Reconciler for DeleteEverything {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let key = &request.key;
        let Some(object) = ctx.cache::<Object>("configmaps").get(key)? else {
            info!("[{}] Deleted", key.name);
            return Ok(Outcome::Done);
        };
        if object.is_being_deleted() {
            return Ok(Outcome::Done); // A finalizer holds it; its end comes as another change.
        }
        info!("[{}] Sync", key.name);
        // By UID: one that was made again under the same name has not come in yet.
        match client::delete::<ConfigMap>(key, &Delete::default().only_uid(object.uid())) {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(Outcome::Done),
        }
    }
}

pilothouse_sdk::export!(DeleteEverything);
