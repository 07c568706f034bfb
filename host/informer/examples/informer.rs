//! An informer in 30 lines: prints every change of the ConfigMaps in the cluster that `$KUBECONFIG` names.
//!
//! `cargo run -p pilothouse-informer --example informer`

use pilothouse_informer::{
    IndexFn, InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions,
};
use pilothouse_model::{Notification, ResourceType};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config_maps = ResourceType {
        group: String::new(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
        namespaced: true,
    };
    let client = kube::Client::try_default().await?;
    let registry = InformerRegistry::new(KubeListWatches::new(client), InformerOptions::default());
    let subscription = registry.subscribe(InformerKey::new(config_maps), SubscribeOptions::default())?;
    subscription.add_index("namespace", IndexFn::namespace())?;
    while let Some(batch) = subscription.next_batch().await {
        for notification in batch {
            let change = match &notification {
                Notification::Added { .. } => "added",
                Notification::Updated { .. } => "updated",
                Notification::Deleted { .. } => "deleted",
            };
            let count = subscription.store().by_index("namespace", notification.key().namespace())?.len();
            println!("{change} {}; {count} in its namespace; {}", notification.key(), subscription.status());
        }
    }
    Ok(())
}
