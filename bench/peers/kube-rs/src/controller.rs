//! A `Controller` whose reconcile only measures.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;

use crate::progress::Progress;
use crate::{Arguments, Error, print_done, print_listed};

/// Runs until the last event has been reconciled; the controller keeps running. Reports the list as read once every object was reconciled, so
/// that the controller is idle when the events start.
pub async fn run(pods: Api<Pod>, arguments: &Arguments, progress: Arc<Progress>) -> Result<(), Error> {
    let controller = Controller::new(pods, watcher::Config::default());
    let reader = controller.store();
    let error_policy = |_, _: &Infallible, _| Action::requeue(Duration::from_secs(5));
    tokio::spawn(controller.run(reconcile, error_policy, Arc::clone(&progress)).for_each(|_| async {}));
    progress.wait_for_list().await;
    print_listed(reader.len(), arguments)?;
    print_done(progress.wait_for_end().await, reader.len());
    Ok(())
}

async fn reconcile(pod: Arc<Pod>, progress: Arc<Progress>) -> Result<Action, Infallible> {
    let now = progress.now();
    progress.record(now, &pod.metadata);
    Ok(Action::await_change())
}
