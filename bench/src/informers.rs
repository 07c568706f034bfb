//! A consumer process with many informers: one for each kind that a scale server serves, each with one native subscriber, all on one thread.

use clap::Parser;
use futures::future::try_join_all;
use pilothouse_informer::{
    InformerKey, InformerOptions, InformerRegistry, KubeListWatches, SubscribeOptions, Subscription,
};
use pilothouse_model::{Notification, ResourceType};

use crate::consumer::{keep_until_input_ends, print_line, start_ingest_thread};
use crate::fixture::scale::{GROUP, plural};

/// The command line of the consumer.
#[derive(Parser)]
pub struct InformersArguments {
    /// The URL of the scale server.
    #[arg(long)]
    server: String,
    /// The number of kinds.
    #[arg(long)]
    kinds: usize,
    /// The number of objects of all kinds together.
    #[arg(long)]
    objects: usize,
    /// The number of events of all kinds together.
    #[arg(long)]
    events: usize,
}

/// Runs the consumer until its standard input ends.
///
/// # Errors
/// If the server cannot be reached, or an informer stops.
pub async fn run(arguments: InformersArguments) -> Result<(), String> {
    let InformersArguments { server, kinds, objects, events } = arguments;
    let handle = start_ingest_thread()?;
    let uri = server.parse().map_err(|error| format!("{server}: {error}"))?;
    let client = kube::Client::try_from(kube::Config::new(uri)).map_err(|error| error.to_string())?;
    let options = InformerOptions::default().with_runtime(handle);
    let registry = InformerRegistry::new(KubeListWatches::new(client), options);
    let kinds = kinds.max(1);
    let (objects, events) = (objects / kinds, events / kinds);
    let subscribe = |kind: usize| {
        // The backlog is longer than all notifications, so that none are merged.
        let options = SubscribeOptions::default().with_backlog(objects + events);
        registry.subscribe(key(kind), options).map_err(|error| error.to_string())
    };
    let subscriptions = (0..kinds).map(subscribe).collect::<Result<Vec<_>, _>>()?;
    try_join_all(subscriptions.iter().map(|subscription| sync(subscription, objects))).await?;
    print_line(r#"{"at":"listed"}"#);
    let delivered =
        try_join_all(subscriptions.iter().map(|subscription| receive(subscription, events))).await?;
    let delivered: usize = delivered.into_iter().sum();
    let cached: usize = subscriptions.iter().map(|subscription| subscription.store().len()).sum();
    print_line(&format!(r#"{{"at":"done","delivered":{delivered},"cached":{cached}}}"#));
    keep_until_input_ends(subscriptions).await;
    Ok(())
}

fn key(kind: usize) -> InformerKey {
    InformerKey::new(ResourceType {
        group: GROUP.to_owned(),
        version: "v1".to_owned(),
        kind: format!("Kind{kind}"),
        plural: plural(kind),
        namespaced: true,
    })
}

/// Waits until an informer has all objects.
async fn sync(subscription: &Subscription, objects: usize) -> Result<(), String> {
    let mut synced = false;
    while !synced {
        // The subscription may sync after the last notification of the list was taken.
        tokio::select! {
            ok = subscription.synced() => synced = ok,
            batch = subscription.next_batch() => drop(batch.ok_or("an informer stopped")?),
        }
    }
    match subscription.store().len() {
        cached if cached == objects => Ok(()),
        cached => Err(format!("{}: {cached} of {objects} objects were listed", subscription.key())),
    }
}

/// Receives the events of an informer, and returns their number.
async fn receive(subscription: &Subscription, events: usize) -> Result<usize, String> {
    let mut received = 0;
    while received < events {
        let batch = subscription.next_batch().await.ok_or("an informer stopped")?;
        let is_event =
            |notification: &&Notification| !matches!(notification, Notification::Added { initial: true, .. });
        received += batch.iter().filter(is_event).count();
    }
    Ok(received)
}
