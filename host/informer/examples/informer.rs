//! An informer in 30 lines: prints every change of the ConfigMaps in the cluster that `$KUBECONFIG` names.
//!
//! `cargo run -p pilothouse-informer --example informer`

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use pilothouse_informer::{
    IndexFn, InformerKey, InformerOptions, InformerRegistry, KubeListWatches, Notification, SubscribeOptions,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = kube::Client::try_default().await?;
    let registry = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
    let subscription = registry.subscribe(InformerKey::of::<ConfigMap>(), SubscribeOptions::default())?;
    subscription.add_index("namespace", IndexFn::namespace())?;
    let mut changes = subscription.stream();
    while let Some(notification) = changes.next().await {
        let change = match &notification {
            Notification::Added { .. } => "added",
            Notification::Updated { .. } => "updated",
            Notification::Deleted { .. } => "deleted",
        };
        let count = subscription.store().by_index("namespace", notification.key().namespace())?.len();
        println!("{change} {}; {count} in its namespace; {}", notification.key(), subscription.status());
    }
    Ok(())
}
