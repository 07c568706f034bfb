//! Tells a webhook of each change of a ConfigMap that asks for it.

mod http;

use std::hash::{DefaultHasher, Hash, Hasher};

use http::{Failure, Url};
use k8s_openapi::api::core::v1::ConfigMap;
use pilothouse_sdk::client::{self, Patch};
use pilothouse_sdk::{
    Config, Context, Describe, Error, ObjectKey, Outcome, Plugin, Reconciler, Request, Watch, WriteRule,
};
use serde_json::json;

/// On ConfigMaps whose changes are told, as a label.
const NOTIFY: &str = "webhook.example.com/notify";
/// Where to, as an annotation.
const URL: &str = "webhook.example.com/url";
/// The digest of what was told last.
const DELIVERED: &str = "webhook.example.com/delivered";

/// The plugin.
#[derive(Default)]
struct WebhookNotifier;

impl Describe for WebhookNotifier {
    fn describe(_: &Config) -> Result<Plugin, Error> {
        Ok(Plugin::new("webhook-notifier", env!("CARGO_PKG_VERSION"))
            .summary("Posts changes of ConfigMaps to a webhook")
            .watch(Watch::of::<ConfigMap>("configmaps").label_selector(NOTIFY).triggers_itself())
            // ConfigMaps name hosts that nobody knows yet: the sidecar's grants.http says which of them are reached.
            .http("*:*")
            .http("http://*:*")
            .writes(WriteRule::of::<ConfigMap>(&["patch"])))
    }
}

impl Reconciler for WebhookNotifier {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(changed) = ctx.cache::<ConfigMap>("configmaps").get(&request.key)? else {
            return Ok(Outcome::Done);
        };
        let annotation =
            |name: &str| changed.metadata.annotations.as_ref().and_then(|all| all.get(name)).cloned();
        let digest = digest(&changed);
        if annotation(DELIVERED).as_ref() == Some(&digest) {
            return Ok(Outcome::Done); // A restart, or our own patch.
        }
        let url = annotation(URL).unwrap_or_default();
        let Some(parsed) = Url::parse(&url) else {
            return Err(Error::terminal(format!("the annotation {URL} is {url:?}, no URL of http or https")));
        };
        let (status, size) = match http::post(parsed, notification(&changed).to_string().as_bytes()) {
            Ok(answer) => answer,
            // A retry cannot help; a change of the sidecar loads the plugin anew, and everything is looked at again.
            Err(failure @ Failure::Denied) => return Err(Error::terminal(failure.to_string())),
            Err(failure) => return Err(Error::retry(format!("no answer: {failure}"))),
        };
        if !(200..300).contains(&status) {
            // A redirect is one, too: whoever follows it needs a grant for where it leads.
            return Err(Error::retry(format!("the webhook answered with status {status} and {size} bytes")));
        }
        let told = json!({"metadata": {"annotations": {DELIVERED: digest}}});
        client::patch::<ConfigMap>(&ObjectKey::of(&changed), &Patch::Merge(&told))?;
        Ok(Outcome::Done)
    }
}

/// What the webhook is sent.
fn notification(changed: &ConfigMap) -> serde_json::Value {
    json!({
        "kind": "ConfigMap",
        "namespace": changed.metadata.namespace,
        "name": changed.metadata.name,
        "resourceVersion": changed.metadata.resource_version,
        "data": changed.data,
    })
}

/// Tells contents apart, nothing more.
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
    fn only_the_data_makes_another_digest() {
        let mut configmap = ConfigMap::default();
        let empty = digest(&configmap);
        configmap.metadata.annotations.get_or_insert_default().insert(DELIVERED.into(), empty.clone());
        assert_eq!(digest(&configmap), empty);
        configmap.data.get_or_insert_default().insert("colour".into(), "blue".into());
        assert_ne!(digest(&configmap), empty);
    }
}
