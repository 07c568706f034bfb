//! Posts each change of a labelled ConfigMap to a webhook.

mod http;

use std::hash::{DefaultHasher, Hash, Hasher};

use http::{Failure, Url};
use k8s_openapi::api::core::v1::ConfigMap;
use pilothouse_sdk::client::Patch;
use pilothouse_sdk::{
    Config, Context, Describe, Error, ObjectKey, Outcome, Plugin, Reconciler, Request, Verb, Watch, WatchRef,
    WriteRule,
};
use serde_json::json;

/// The label of ConfigMaps whose changes are posted.
const NOTIFY: &str = "webhook.example.com/notify";
/// The annotation with the webhook's URL.
const URL: &str = "webhook.example.com/url";
/// The annotation with the digest of the data that was posted last.
const DELIVERED: &str = "webhook.example.com/delivered";

const CONFIG_MAPS: WatchRef<ConfigMap> = WatchRef::new("configmaps");

#[derive(Default)]
struct WebhookNotifier;

impl Describe for WebhookNotifier {
    fn describe(_: &Config) -> Result<Plugin, Error> {
        Ok(Plugin::new("webhook-notifier", env!("CARGO_PKG_VERSION"))
            .summary("Posts changes of ConfigMaps to a webhook")
            .watch(Watch::of(CONFIG_MAPS).label_selector(NOTIFY).triggers_itself())
            // The hosts are named by ConfigMaps, so they are unknown here; the sidecar's grants.http decides which of them may be reached.
            .http("*:*")
            .http("http://*:*")
            .writes(WriteRule::of::<ConfigMap>(&[Verb::Patch])))
    }
}

impl Reconciler for WebhookNotifier {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(changed) = ctx.cache(CONFIG_MAPS).get(&request.key)? else {
            return Ok(Outcome::Done);
        };
        let annotation =
            |name: &str| changed.metadata.annotations.as_ref().and_then(|all| all.get(name)).cloned();
        let digest = digest(&changed);
        if annotation(DELIVERED).as_ref() == Some(&digest) {
            return Ok(Outcome::Done); // After a restart, or after our own patch.
        }
        let url = annotation(URL).unwrap_or_default();
        let Some(parsed) = Url::parse(&url) else {
            return Err(Error::terminal(format!(
                "the annotation {URL} is {url:?}, which is not an http or https URL"
            )));
        };
        let (status, size) = match http::post(parsed, notification(&changed).to_string().as_bytes()) {
            Ok(answer) => answer,
            // A retry cannot succeed. A change of the sidecar reloads the plugin, which reconciles all objects again.
            Err(failure @ Failure::Denied) => return Err(Error::terminal(failure.to_string())),
            Err(failure) => return Err(Error::retry(format!("no answer: {failure}"))),
        };
        if !(200..300).contains(&status) {
            // This includes redirects: following one requires a grant for its target.
            return Err(Error::retry(format!("the webhook answered with status {status} and {size} bytes")));
        }
        let delivered = json!({"metadata": {"annotations": {DELIVERED: digest}}});
        ctx.client().patch::<ConfigMap>(&ObjectKey::of(&changed), &Patch::Merge(&delivered))?;
        Ok(Outcome::Done)
    }
}

/// Returns the JSON document that is posted to the webhook.
fn notification(changed: &ConfigMap) -> serde_json::Value {
    json!({
        "kind": "ConfigMap",
        "namespace": changed.metadata.namespace,
        "name": changed.metadata.name,
        "resourceVersion": changed.metadata.resource_version,
        "data": changed.data,
    })
}

/// Returns a hash of the data, to detect whether it changed. It is not cryptographic.
fn digest(of: &ConfigMap) -> String {
    let mut hasher = DefaultHasher::new();
    of.data.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

pilothouse_sdk::export!(WebhookNotifier: Reconciler);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_depends_on_the_data_only() {
        let mut configmap = ConfigMap::default();
        let empty = digest(&configmap);
        configmap.metadata.annotations.get_or_insert_default().insert(DELIVERED.into(), empty.clone());
        assert_eq!(digest(&configmap), empty);
        configmap.data.get_or_insert_default().insert("colour".into(), "blue".into());
        assert_ne!(digest(&configmap), empty);
    }
}
