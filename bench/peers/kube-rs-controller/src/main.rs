//! A minimal kube-rs controller: it watches ConfigMaps and does nothing for them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client};

#[tokio::main]
async fn main() -> Result<(), kube::Error> {
    let maps = Api::<ConfigMap>::all(Client::try_default().await?);
    Controller::new(maps, watcher::Config::default())
        .run(reconcile, |_, _: &Infallible, _| Action::requeue(Duration::from_secs(5)), Arc::new(()))
        .for_each(|_| async {})
        .await;
    Ok(())
}

async fn reconcile(_: Arc<ConfigMap>, _: Arc<()>) -> Result<Action, Infallible> {
    Ok(Action::await_change())
}
