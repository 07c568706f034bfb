//! Follows objects of the kind `Plugin`: has their plugins run, and writes their status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::select_all;
use http::Method;
use pilothouse_informer::supervise::supervise;
use pilothouse_informer::{InformerKey, SubscribeError, SubscribeOptions, Subscription};
use pilothouse_model::ObjectKey;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{PluginHost, ProvidedPlugins, ProvidedReport};
use crate::client::{APPLY_PATCH, Payload, RequestError, query};
use crate::lifecycle::PluginStatus;
use crate::plugin_resource::{
    MAX_OBJECTS, MAX_OBJECTS_OF_OTHERS, ObjectPlugins, Observation, OtherNamespaces, PluginObject,
    PluginObjectStatus, PluginResource, Refusal, TakenNames, WriteSchedule, resource_type, select,
    wanted_status,
};
use crate::timestamp::rfc_3339;

/// How often the status of the plugins is compared with that of the objects.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long one write may take, and after which no other begins until the objects were read again.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval between two log lines about writes that fail.
const WARNING_INTERVAL: Duration = Duration::from_mins(5);
/// The field manager of the status.
const FIELD_MANAGER: &str = "pilothouse-plugins";

impl PluginHost {
    /// Runs the plugins of `Plugin` objects until shutdown. Does nothing without [another source](Self::add_provided_plugins), which provides
    /// their files.
    pub async fn run_plugin_objects(&self, resource: PluginResource, shutdown: CancellationToken) {
        let Some(provided) = self.shared.provided.get().cloned() else { return };
        let mut follower = Follower {
            host: self.clone(),
            provided,
            resource,
            watches: Vec::new(),
            objects: BTreeMap::new(),
            directory: None,
            are_all: false,
            decisions: Arc::default(),
            shown_refusals: BTreeSet::new(),
            schedule: WriteSchedule::new(Instant::now()),
            next_warning: Instant::now(),
        };
        let follow = supervise(
            &mut follower,
            |follower| Box::pin(follower.run()),
            |panic| tracing::error!("the task that follows Plugin objects {panic}"),
        );
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = follow => {}
        }
    }
}

/// An object, and why it is not run; `None` if it is.
type Decision = (ObjectKey, Option<Refusal>);

/// The state of the task.
struct Follower {
    host: PluginHost,
    provided: ProvidedPlugins,
    resource: PluginResource,
    /// That of the host's own namespace comes first.
    watches: Vec<Watch>,
    objects: BTreeMap<ObjectKey, FollowedObject>,
    /// The plugins of the plugins directory for which the decisions were made.
    directory: Option<Arc<BTreeSet<String>>>,
    /// Whether the decisions were made with the objects of all namespaces.
    are_all: bool,
    decisions: Arc<Vec<Decision>>,
    /// The plugins whose problem is the refusal of their object.
    shown_refusals: BTreeSet<String>,
    schedule: WriteSchedule,
    next_warning: Instant,
}

struct Watch {
    subscription: Subscription,
    /// The failure that was logged last.
    logged: String,
}

struct FollowedObject {
    object: PluginObject,
    /// The status that was written since the object was read.
    written: Option<PluginObjectStatus>,
}

impl Follower {
    /// Follows the objects until the informers are stopped.
    async fn run(&mut self) {
        if self.watches.is_empty() && self.subscribe().is_err() {
            return;
        }
        // After a panic, everything is decided again.
        self.directory = None;
        loop {
            self.log_failures();
            if self.decide() {
                self.show_refusals();
                self.write_statuses().await;
            }
            let changes = self.watches.iter().map(|watch| Box::pin(watch.subscription.next_batch()));
            tokio::select! {
                // `biased` keeps simulations repeatable. Both branches lead to the same decisions, so the timer matters only while no object changes.
                biased;
                (batch, ..) = select_all(changes) => if batch.is_none() { return },
                () = sleep(INTERVAL) => {}
            }
        }
    }

    fn subscribe(&mut self) -> Result<(), SubscribeError> {
        let own = &self.host.shared.options.namespace;
        let mut keys = vec![InformerKey::new(resource_type()).in_namespace(own)];
        match &self.resource.namespaces {
            OtherNamespaces::All => keys.push(InformerKey::new(resource_type())),
            OtherNamespaces::Listed(names) => {
                let others: BTreeSet<_> = names.iter().filter(|name| *name != own).collect();
                keys.extend(
                    others.into_iter().map(|name| InformerKey::new(resource_type()).in_namespace(name)),
                );
            }
        }
        let informers = &self.host.shared.services.informers;
        for key in keys {
            let subscription = informers.subscribe(key, SubscribeOptions::default())?;
            self.watches.push(Watch { subscription, logged: String::new() });
        }
        Ok(())
    }

    /// Logs why objects cannot be read, once for each failure.
    fn log_failures(&mut self) {
        for Watch { subscription, logged } in &mut self.watches {
            let error = subscription.status().error.map(|error| error.to_string()).unwrap_or_default();
            if !error.is_empty() && error != *logged {
                tracing::warn!(
                    "objects {} cannot be read: {error}; the CRD and the host's role for it are in the Helm chart (docs/plugin-resource.md)",
                    subscription.key()
                );
            }
            *logged = error;
        }
    }

    /// Decides again which objects are run if something has changed, and passes their plugins on. Returns `false` until the directory and the
    /// objects of the host's own namespace, which have precedence, are known.
    fn decide(&mut self) -> bool {
        let Some(directory) = self.provided.directory() else { return false };
        if !self.watches.first().is_some_and(|watch| watch.subscription.has_synced()) {
            return false;
        }
        let has_changed = self.read();
        // A namespace whose objects cannot be read holds back no others.
        let are_all = self.watches.iter().all(|watch| watch.subscription.has_synced());
        let is_same = self.directory.as_ref().is_some_and(|known| Arc::ptr_eq(known, &directory));
        if is_same && !has_changed && are_all == self.are_all {
            return true;
        }
        let objects: Vec<_> = self.objects.values().map(|followed| &followed.object).collect();
        let taken = TakenNames { directory: &directory, configured: &self.resource.configured };
        let selected = select(&objects, &self.host.shared.options.namespace, taken);
        let (mut plugins, mut decisions) = (Vec::new(), Vec::new());
        for (key, selected) in self.objects.keys().zip(selected) {
            let refusal = match selected {
                Ok(plugin) => {
                    plugins.push(plugin);
                    None
                }
                Err(refusal) => Some(refusal),
            };
            decisions.push((key.clone(), refusal));
        }
        self.decisions = Arc::new(decisions);
        self.directory = Some(directory);
        self.are_all = are_all;
        (self.resource.apply)(ObjectPlugins { plugins, are_all });
        true
    }

    /// Parses the objects that are new or have changed. Returns whether a spec has changed.
    fn read(&mut self) -> bool {
        let mut previous = std::mem::take(&mut self.objects);
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut has_changed = false;
        for watch in self.watches.iter().filter(|watch| watch.subscription.has_synced()) {
            for object in watch.subscription.store().list() {
                let key = object.key();
                if object.deletion_timestamp().is_some() || self.objects.contains_key(key) {
                    continue;
                }
                let most = match object.namespace() == self.host.shared.options.namespace {
                    true => MAX_OBJECTS,
                    false => MAX_OBJECTS_OF_OTHERS,
                };
                let count = counts.entry(object.namespace().to_owned()).or_default();
                // More than are run, so that some of the others say why they are not.
                if *count >= 2 * most {
                    continue;
                }
                *count += 1;
                let followed = match previous.remove(key) {
                    Some(mut known) if known.object.has_spec_of(&object) => {
                        if known.object.resource_version != object.resource_version() {
                            known.object.update_status(&object);
                            known.written = None;
                        }
                        known
                    }
                    _ => {
                        has_changed = true;
                        FollowedObject { object: PluginObject::parse(&object), written: None }
                    }
                };
                self.objects.insert(key.clone(), followed);
            }
        }
        has_changed || !previous.is_empty()
    }

    /// Shows the refusals as problems of their plugins. At each round, because a plugin that stops meanwhile removes its problem.
    fn show_refusals(&mut self) {
        let decisions = Arc::clone(&self.decisions);
        let mut refused = BTreeSet::new();
        for (key, refusal) in decisions.iter() {
            if let Some(refusal) = refusal.as_ref().filter(|refusal| refusal.owns_name) {
                refused.insert(key.name().to_owned());
                self.provided.set_problem(key.name(), Some(refusal.message.clone()));
            }
        }
        let is_run =
            |name: &str| decisions.iter().any(|(key, refusal)| refusal.is_none() && key.name() == name);
        for name in self.shown_refusals.difference(&refused).filter(|name| !is_run(name.as_str())) {
            self.provided.set_problem(name, None);
        }
        self.shown_refusals = refused;
    }

    /// Writes the statuses that have changed, as far as the schedule allows it. A slow API server does not hold back the decisions.
    async fn write_statuses(&mut self) {
        self.schedule.retain(&self.objects.values().map(|followed| followed.object.uid.as_str()).collect());
        let decisions = Arc::clone(&self.decisions);
        if decisions.is_empty() {
            return;
        }
        let plugins: BTreeMap<_, _> =
            self.host.status().into_iter().map(|plugin| (plugin.name.clone(), plugin)).collect();
        let end = Instant::now() + WRITE_TIMEOUT;
        for (key, refusal) in decisions.iter() {
            if Instant::now() >= end {
                return;
            }
            let Some(wanted) = self.due_status(key, refusal.as_ref(), &plugins) else { continue };
            let Some(followed) = self.objects.get_mut(key) else { continue };
            let uid = followed.object.uid.clone();
            match write(&self.host, &followed.object, &wanted).await {
                Ok(()) => {
                    followed.written = Some(wanted);
                    self.schedule.succeeded(&uid, Instant::now());
                }
                Err(problem) => {
                    let now = Instant::now();
                    let jitter = self.host.shared.options.environment.randomness.fraction();
                    self.schedule.failed(&uid, now, jitter);
                    if let Some(problem) = problem.filter(|_| now >= self.next_warning) {
                        tracing::warn!("the status of the Plugin object {key} cannot be written: {problem}");
                        self.next_warning = now + WARNING_INTERVAL;
                    }
                }
            }
        }
    }

    /// Returns the status to write to an object now.
    fn due_status(
        &mut self,
        key: &ObjectKey,
        refusal: Option<&Refusal>,
        plugins: &BTreeMap<String, PluginStatus>,
    ) -> Option<PluginObjectStatus> {
        let FollowedObject { object, written } = self.objects.get(key)?;
        let stored = written.as_ref().unwrap_or(&object.status);
        let report = match refusal {
            None => self.provided.report(key.name()),
            Some(_) => ProvidedReport::default(),
        };
        let plugin = plugins.get(key.name()).filter(|plugin| !plugin.removed);
        let observation = Observation { refusal, report: &report, plugin };
        let now = self.host.shared.options.environment.clock.now();
        let wanted = wanted_status(object, stored, observation, &rfc_3339(now));
        let change = wanted.change_from(stored);
        self.schedule.allows(&object.uid, change, Instant::now()).then_some(wanted)
    }
}

/// Writes the status by server-side apply. An error without a text is of an object that was deleted meanwhile.
async fn write(
    host: &PluginHost,
    object: &PluginObject,
    status: &PluginObjectStatus,
) -> Result<(), Option<String>> {
    let resource = resource_type();
    let manifest = json!({
        "apiVersion": resource.api_version(),
        "kind": resource.kind,
        // An object that was created again has another UID and is not the one that the status is about.
        "metadata": {"name": object.name, "namespace": object.namespace, "uid": object.uid},
        "status": status,
    });
    let path = resource.object_path(&ObjectKey::new(&object.namespace, &object.name));
    let path = format!("{path}/status{}", query(&[("fieldManager", FIELD_MANAGER), ("force", "true")]));
    let payload = Payload { content_type: APPLY_PATCH, body: manifest.to_string().into() };
    let request = host.shared.services.server.request(Method::PATCH, &path, Some(payload));
    match timeout(WRITE_TIMEOUT, request).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(problem(&error)),
        Err(_) => Err(Some(format!("the API server did not answer within {} s", WRITE_TIMEOUT.as_secs()))),
    }
}

fn problem(error: &RequestError) -> Option<String> {
    match error.code() {
        Some(404 | 409) => None,
        Some(403) => Some(format!("{error}; grant the host patch on plugins/status, as the Helm chart does")),
        _ => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
