//! A watcher that fills a store, with a subscriber of the stream, as in kube's documentation.

use std::fmt::Debug;
use std::future;
use std::hash::Hash;
use std::sync::Arc;

use futures::StreamExt;
use kube::runtime::reflector::store::Writer;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::progress::Progress;
use crate::{Arguments, Error, print_done, print_listed};

/// Runs until the last event has been received; the stream keeps running.
pub async fn run<K>(
    api: Api<K>,
    kind: K::DynamicType,
    arguments: &Arguments,
    progress: &Arc<Progress>,
) -> Result<(), Error>
where
    K: Resource<DynamicType: Clone + Debug + Eq + Hash + Send + Sync + Unpin>,
    K: Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let writer = Writer::<K>::new(kind);
    let reader = writer.as_reader();
    let changes = watcher(api, watcher::Config::default()).default_backoff();
    let subscriber = Arc::clone(progress);
    let each = move |object: Result<K, watcher::Error>| {
        let now = subscriber.now();
        match object {
            Ok(object) => subscriber.record(now, object.meta()),
            Err(error) => eprintln!("kube-rs: {error}; the watcher retries"),
        }
        future::ready(())
    };
    if arguments.strip_managed_fields {
        let changes = changes.modify(|object| object.managed_fields_mut().clear());
        tokio::spawn(changes.reflect(writer).touched_objects().for_each(each));
    } else {
        tokio::spawn(changes.reflect(writer).touched_objects().for_each(each));
    }
    reader.wait_until_ready().await?;
    progress.wait_for_list().await;
    print_listed(reader.len(), arguments)?;
    print_done(progress.wait_for_end().await, reader.len());
    Ok(())
}
