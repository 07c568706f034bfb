//! The task that tells a plugin's observer of every change: one batch at a time, to one instance. Nothing waits for it:
//! what it has not taken yet stays in its subscriptions' backlogs, which are bounded by the objects.

mod ledger;
mod memory;

use std::sync::Arc;
use std::time::Duration;

use futures::future::select_all;
use pilothouse_informer::RateLimit;
use pilothouse_informer::handler::AfterFailure;
use pilothouse_model::{Notification, Object, ObjectKey};
use pilothouse_plugin::{Failure, LogLevel, Observation};
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep, sleep_until};

use super::Gate;
use crate::client::NewEvent;
use crate::guest_host::GuestServices;
use crate::lifecycle::{Activity, DynHash};
use crate::load::version::Version;
use ledger::Ledger;
pub(super) use memory::Memory;
use memory::{Inherited, Kept};

/// How long an instance may have nothing to observe before it goes.
const IDLE: Duration = Duration::from_secs(60);
/// Of how many objects the next instance is told at most.
const RETOLD: usize = 1024;
/// Notifications in a batch of deletions, as many as a subscription gives at once.
const BATCH: usize = 256;

struct Observer {
    gate: Gate,
    version: Arc<Version>,
    guest: GuestServices,
    /// One per feed of the version, in the same order.
    ledgers: Vec<Ledger>,
    /// The feeds that will bring nothing any more.
    ended: Vec<bool>,
    /// What earlier versions were told of, until it is known what of that is gone.
    inherited: Vec<Inherited>,
    /// Where the next observer finds what this one was told of.
    kept: OwnedMutexGuard<Kept>,
    /// When deletions that it failed at are tried again.
    retry_at: Option<Instant>,
    /// The instance that the ledgers are about.
    generation: u64,
    /// The feed that comes first in the next round, so that a busy one does not keep the others from being heard.
    first: usize,
}

/// Tells the observer of this version, until the version is swapped out or its informers stop. Aborting it between two
/// calls loses nothing: what it was told of stays in `memory`.
pub(super) async fn observe(gate: Gate, version: Arc<Version>, guest: GuestServices, memory: Memory) {
    let mut kept = memory.take().await;
    let (ledgers, inherited) = kept.begin(&version);
    let ended = vec![false; version.feeds.len()];
    Observer {
        gate,
        version,
        guest,
        ledgers,
        ended,
        inherited,
        kept,
        retry_at: None,
        generation: 0,
        first: 0,
    }
    .run()
    .await;
}

impl Drop for Observer {
    fn drop(&mut self) {
        let (ledgers, inherited) = (std::mem::take(&mut self.ledgers), std::mem::take(&mut self.inherited));
        self.kept.end(&self.version, ledgers, inherited);
    }
}

fn wait_after(failures: u32) -> Duration {
    RateLimit { max: Duration::from_secs(30), ..RateLimit::default() }.per_key(failures)
}

impl Observer {
    async fn run(mut self) {
        let mut stillborn = 0;
        loop {
            // The first is made when there is something to tell: of many observers most hear of nothing for long. A stateful plugin
            // reconciles on it, too, and needs it at once.
            let knows_nothing = self.ledgers.iter().all(|ledger| ledger.known() == 0);
            if self.generation == 0
                && knows_nothing
                && !self.version.descriptor.stateful
                && self.next().is_none()
            {
                if !self.wait().await {
                    return;
                }
                continue;
            }
            match self.version.pinned.ready().await {
                Ok(generation) if generation == self.generation => {}
                Ok(generation) => {
                    self.generation = generation;
                    self.ledgers.iter_mut().for_each(Ledger::restart);
                }
                Err(fault) => {
                    stillborn += 1;
                    let delay = wait_after(stillborn);
                    self.guest.metrics.observe_errors.inc();
                    self.version.health.fault(Activity::Observe, None, &fault);
                    self.say(
                        "",
                        LogLevel::Warn,
                        &format!("no instance to observe: {fault}; another in {delay:?}"),
                    );
                    sleep(delay).await;
                    continue;
                }
            }
            stillborn = 0;
            let goes_on = match self.next() {
                Some((position, batch)) => self.deliver(position, batch).await,
                None => self.wait().await,
            };
            if !goes_on {
                return;
            }
        }
    }

    /// What comes next: what a new instance has to be told of any watch goes before what is new.
    fn next(&self) -> Option<(usize, Vec<Notification>)> {
        let replaying = self.ledgers.iter().position(Ledger::is_replaying).into_iter();
        let positions = replaying.chain(0..self.ledgers.len());
        positions.filter_map(|position| Some((position, self.ledgers[position].current()?))).next()
    }

    /// Waits for notifications; `false` when there will not be any more.
    async fn wait(&mut self) -> bool {
        let mut known = self.version.feeds.iter().zip(&self.ended);
        if known.all(|(feed, ended)| *ended || feed.subscription.has_synced()) {
            if self.tell_of_the_gone() {
                return true;
            }
            self.version.pinned.has_caught_up(self.generation).await;
        }
        let feeds = &self.version.feeds;
        self.first = (self.first + 1) % feeds.len();
        let order = (self.first..feeds.len()).chain(0..self.first).filter(|position| !self.ended[*position]);
        let batches: Vec<_> = order
            .map(|position| {
                let subscription = &feeds[position].subscription;
                Box::pin(async move { (position, subscription.next_batch().await) })
            })
            .collect();
        if batches.is_empty() {
            return false;
        }
        let mut taken = select_all(batches);
        let retry = self.ledgers.iter().filter_map(Ledger::deletion_retry).min();
        // Set when the first of them is set aside, whatever comes meanwhile.
        self.retry_at = retry.map(|wait| self.retry_at.unwrap_or_else(|| Instant::now() + wait));
        let retry_at = self.retry_at;
        let mut rests = self.may_rest();
        let (position, batch) = loop {
            tokio::select! {
                (taken, _, _) = &mut taken => break taken,
                () = self.version.pinned.lost() => return true,
                () = sleep_until(retry_at.unwrap_or_else(Instant::now)), if retry_at.is_some() => {
                    drop(taken);
                    self.retry_at = None;
                    self.ledgers.iter_mut().for_each(Ledger::retry_deletions);
                    return true;
                }
                () = sleep(IDLE), if rests => {
                    self.version.pinned.rest(self.generation).await;
                    rests = false;
                }
            }
        };
        let Some(batch) = batch else {
            self.ended[position] = true;
            let watch = Arc::clone(&feeds[position].watch);
            let problem =
                "its informer has ended: the observer hears of no change there before the plugin is reloaded";
            self.say(&watch, LogLevel::Error, problem);
            return true;
        };
        // By the time that the plugin hears of a change, its own indexes know it.
        let keys: Vec<_> = batch.iter().map(|notification| notification.key().clone()).collect();
        // First, so that it is not lost where this ends meanwhile.
        self.ledgers[position].push(batch);
        self.version.views.index(&self.version.feeds[position].watch, &keys).await;
        true
    }

    /// Has the observer told of the end of objects that only its predecessors were told of; whether there are any. Called
    /// when it was told of all that there is.
    fn tell_of_the_gone(&mut self) -> bool {
        let feeds = &self.version.feeds;
        let mut is_any = false;
        for inherited in std::mem::take(&mut self.inherited) {
            let positions = inherited.feeds(feeds);
            let Some(first) = positions.first() else { continue };
            let is_there = |key: &ObjectKey| {
                positions.iter().any(|position| {
                    self.ledgers[*position].knows(key)
                        || feeds[*position].subscription.store().get(key).is_some()
                })
            };
            let mut gone: Vec<_> =
                inherited.objects.into_values().filter(|last| !is_there(last.key())).collect();
            gone.sort_unstable_by(|left, right| left.key().cmp(right.key()));
            is_any |= !gone.is_empty();
            for batch in gone.chunks(BATCH) {
                let deleted =
                    |last: &Object| Notification::Deleted { last: last.clone(), final_state_unknown: true };
                self.ledgers[*first].push(batch.iter().map(deleted).collect());
            }
        }
        is_any
    }

    /// Whether an instance that has nothing to do may go. One that has to keep what it knows says so (`stateful`); and to tell another of very
    /// many objects would cost more than the memory is worth.
    fn may_rest(&self) -> bool {
        let known: usize = self.ledgers.iter().map(Ledger::known).sum();
        !self.version.descriptor.stateful && known <= RETOLD
    }

    /// Delivers one batch; `false` when the version is not the one that runs any more.
    async fn deliver(&mut self, position: usize, batch: Vec<Notification>) -> bool {
        let watch = Arc::clone(&self.version.feeds[position].watch);
        let count = batch.len();
        let only = if let [only] = &batch[..] { Some(only.key().clone()) } else { None };
        let observation = |notification| Observation { watch: Arc::clone(&watch), notification };
        let observations: Vec<_> = batch.into_iter().map(observation).collect();
        self.guest.panics.point("observer");
        let (outcome, pass) = loop {
            // What it has not been told yet waits while the plugin backs off or lacks a right.
            self.version.health.opens().await;
            // Held during the call, as the workers do: a swap waits for it.
            let gate = self.gate.read().await;
            if !gate.as_ref().is_some_and(|runs| Arc::ptr_eq(runs, &self.version)) {
                return false;
            }
            if let Some(pass) = self.version.health.enter() {
                break (self.version.pinned.observe(self.generation, observations).await, pass);
            }
        };
        match &outcome {
            Some(Err(Failure::Fault(fault))) => {
                pass.failed(Activity::Observe, only.as_ref().map(|object| object as &dyn DynHash), fault);
            }
            Some(_) => pass.answered(Activity::Observe),
            None => drop(pass),
        }
        match outcome {
            Some(Ok(())) => {
                self.guest.metrics.observed.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
                self.ledgers[position].succeeded();
            }
            Some(Err(failure)) => self.failed(position, &watch, count, &failure).await,
            // The instance is gone meanwhile; the next one is told everything.
            None => {}
        }
        true
    }

    async fn failed(&mut self, position: usize, watch: &str, count: usize, failure: &Failure) {
        self.guest.metrics.observe_errors.inc();
        let for_good = matches!(failure, Failure::Terminal(_));
        match self.ledgers[position].failed(for_good) {
            Some(AfterFailure::Again { failures }) => {
                let delay = wait_after(failures);
                let again = format!("{count} notifications are delivered again in {delay:?}");
                self.say(watch, LogLevel::Warn, &format!("observe failed: {failure}; {again}"));
                sleep(delay).await;
            }
            Some(AfterFailure::Split) => {
                let again = format!("its {count} notifications are delivered one by one");
                self.say(watch, LogLevel::Warn, &format!("observe failed: {failure}; {again}"));
            }
            Some(AfterFailure::Parked(notification)) => self.park(watch, &notification, failure),
            None => {}
        }
    }

    /// Tells everybody that an object is set aside.
    fn park(&self, watch: &str, notification: &Notification, failure: &Failure) {
        self.guest.metrics.parked.inc();
        let key = notification.key();
        let message = format!(
            "observe failed: {failure}; {key} is set aside until it changes, a deletion for some minutes"
        );
        self.say(watch, LogLevel::Error, &message);
        let recorded = self.guest.events.record(NewEvent {
            plugin: self.guest.name.to_shared(),
            regarding: notification.object().clone(),
            warning: true,
            reason: "ObserveFailed".to_owned(),
            action: "Observe".to_owned(),
            note: format!(
                "The plugin's observer fails at this object, which is set aside until it changes: {failure}"
            )
            .chars()
            .take(NOTE)
            .collect(),
        });
        if !recorded {
            self.guest.metrics.events_dropped.inc();
        }
    }

    fn say(&self, watch: &str, level: LogLevel, message: &str) {
        self.guest.log.host(level, format_args!("{message}"), &[("watch", &watch)]);
    }
}

/// Characters of an Event's note: the API server takes 1024 bytes.
const NOTE: usize = 256;

#[cfg(test)]
mod tests;
