//! A plugin is reloaded many times, with broken files and trapping versions among the good ones, while its objects change. Requeueing all
//! objects at a reload is disabled, because it would hide a key that a swap lost. Every reconcile is checked, not a sample.
//!
//! `PILOTHOUSE_RELOADS` and `PILOTHOUSE_OBJECTS` set the size; `cargo xtask soak` runs 1,000 reloads and 10,000 objects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::sleep;

use crate::guest::{self, Kind};
use crate::stage::Stage;
use crate::wire::{Mark, Record};

/// The delay with which the guest requeues objects whose `wish` is "again".
const REQUEUE_DELAY: Duration = Duration::from_secs(2);

fn size(variable: &str, default: u32) -> u32 {
    std::env::var(variable).map_or(default, |text| text.parse().expect(variable))
}

/// The changes that the test made to the objects.
#[derive(Default)]
struct Changes {
    /// The resource version of the last change of each present object.
    last: BTreeMap<String, u64>,
    /// The number of records at the time when each deleted object was deleted.
    deleted: BTreeMap<String, usize>,
    /// Objects that are requeued after each reconcile, and never changed.
    requeued: Vec<String>,
    count: u32,
}

#[tokio::test(flavor = "multi_thread")]
async fn many_reloads_under_load_lose_no_key() {
    let (reloads, objects) = (size("PILOTHOUSE_RELOADS", 100), size("PILOTHOUSE_OBJECTS", 1000));
    assert_eq!(Kind::of(reloads), Kind::Healthy, "the last version has to reconcile everything");
    let stage = Stage::start(|_| {});
    stage.sidecar("workers: 8\nlimits: {clientQps: 1000000}\n");
    stage.install(&guest::file(0, Kind::Healthy));
    stage.until("the first version to run", |status| status.generation == 1).await;
    let mut done = Changes::default();
    for object in 0..objects {
        let name = format!("object-{object}");
        // A tenth fails until its fourth attempt, a hundredth is requeued after each reconcile.
        let wish = match object % 100 {
            5 => "again",
            wish if wish % 10 == 3 => "retry",
            _ => "",
        };
        let version = stage.create(&name, wish).await;
        if wish == "again" {
            done.requeued.push(name.clone());
        }
        done.last.insert(name, version);
    }
    let (mut generation, mut refused) = (1, 0);
    for reload in 1..=reloads {
        let kind = Kind::of(reload);
        generation += u64::from(kind.runs());
        refused += u64::from(!kind.runs());
        tokio::join!(
            async {
                stage.install(&guest::file(reload, kind));
                stage
                    .until(&format!("reload {reload}, {kind:?}"), |status| match kind.runs() {
                        true => status.generation == generation,
                        false => status.counters["refusedLoads"] == refused,
                    })
                    .await;
            },
            change(&stage, &mut done, reload, reloads, objects),
        );
    }
    wait_until_settled(&stage, &done).await;
    let log = stage.log.clone();
    let counters = stage.end().await;
    assert_eq!((counters["loads"], counters["refusedLoads"]), (generation, refused));
    log.read(|records| {
        check(records, &done);
        let starts = records.iter().filter(|record| record.mark == Mark::Start).count();
        let traps = records.iter().filter(|record| record.mark == Mark::Trap).count();
        println!(
            "{reloads} reloads, {refused} of them refused; {objects} objects, {} changes, {} deleted; {starts} \
             reconciles, {traps} of them trapped",
            done.count,
            done.deleted.len()
        );
        assert!(traps > 0 || reloads < 10, "the trapping versions reconciled something");
    });
}

/// Changes this reload's share of the objects and deletes some of them, while the reload is under way. Each object is changed twice in total.
async fn change(stage: &Stage, done: &mut Changes, reload: u32, reloads: u32, objects: u32) {
    let share = (2 * objects).div_ceil(reloads);
    for position in (reload - 1) * share..reload * share {
        // Spreads successive changes over the names.
        let object = position.wrapping_mul(7919) % objects;
        let name = format!("object-{object}");
        if done.deleted.contains_key(&name) || done.requeued.contains(&name) {
            continue;
        }
        if position % 40 == 17 {
            // Counted before the deletion: a reconcile that found the object deleted began after this.
            let before = stage.log.len();
            stage.delete(&name).await;
            done.last.remove(&name);
            done.deleted.insert(name, before);
        } else {
            let version = stage.change(&name, reload).await;
            done.last.insert(name, version);
        }
        done.count += 1;
        // Pauses spread the changes over the load, the swap and the time after it.
        if position % 5 == 4 {
            sleep(Duration::from_millis(u64::from(5 + position % 7))).await;
        }
    }
}

/// Waits until every object was reconciled in its current state, and the requeued ones were reconciled once more.
async fn wait_until_settled(stage: &Stage, done: &Changes) {
    let now = stage.log.len();
    stage
        .wait("every object to be reconciled in its current state", || {
            stage.log.read(|records| {
                let outdated = outdated(records, done);
                let since: BTreeSet<_> = records[now..].iter().map(|record| record.name.as_str()).collect();
                outdated.is_empty() && done.requeued.iter().all(|name| since.contains(name.as_str()))
            })
        })
        .await;
}

/// Returns the objects whose last reconcile began before their last change, or read an older state.
fn outdated<'a>(records: &[Record], done: &'a Changes) -> Vec<&'a str> {
    let starts = || records.iter().enumerate().filter(|(_, record)| record.mark == Mark::Start);
    let last: BTreeMap<_, _> =
        starts().map(|(position, record)| (record.name.as_str(), (position, record))).collect();
    let is_outdated = |name: &str, current: Option<u64>| match (last.get(name), current) {
        (Some((_, record)), Some(version)) => record.read.is_none_or(|read| read < version),
        (Some((position, record)), None) => record.read.is_some() || *position < done.deleted[name],
        (None, _) => true,
    };
    let live = done.last.iter().map(|(name, version)| (name.as_str(), Some(*version)));
    let gone = done.deleted.keys().map(|name| (name.as_str(), None));
    live.chain(gone).filter(|(name, current)| is_outdated(name, *current)).map(|(name, _)| name).collect()
}

/// Checks the invariants of all reconciles together.
fn check(records: &[Record], done: &Changes) {
    assert_eq!(outdated(records, done), Vec::<&str>::new());
    let mut versions = 0;
    let mut objects: BTreeMap<&str, Object> = BTreeMap::new();
    for (position, record) in records.iter().enumerate() {
        assert!(record.version >= versions, "a version wrote after it was replaced: {position}: {record:?}");
        versions = record.version;
        let kind = if record.version == 0 { Kind::Healthy } else { Kind::of(record.version) };
        assert!(kind.runs(), "a refused version ran: {record:?}");
        objects.entry(&record.name).or_default().check(record);
    }
    for name in &done.requeued {
        assert!(objects[name.as_str()].requeues > 0, "{name}");
    }
}

/// The reconciles of one object so far.
#[derive(Default)]
struct Object {
    is_reconciling: bool,
    /// The version that reconciled it last.
    version: u32,
    /// The attempt that the next reconcile by that version must have. A new version starts again.
    attempt: u32,
    /// The resource version that was read last.
    read: u64,
    /// When the guest last requested a requeue.
    requeue_requested: Option<tokio::time::Instant>,
    requeues: u32,
}

impl Object {
    fn check(&mut self, record: &Record) {
        let is_start = record.mark == Mark::Start;
        assert_eq!(self.is_reconciling, !is_start, "a key was reconciled twice at the same time: {record:?}");
        self.is_reconciling = is_start;
        let object: u32 = record.name.trim_start_matches("object-").parse().expect("a number");
        let (is_requeued, fails) = (object % 100 == 5, object % 10 == 3 && record.read.is_some());
        match record.mark {
            Mark::Start => {
                // A new version resets the attempts in the queue. A worker that took the key before the swap still passes on the earlier number.
                let is_reset = record.version != self.version;
                let is_expected = record.attempt == self.attempt || (is_reset && record.attempt == 0);
                assert!(is_expected, "attempt {} was expected: {record:?}", self.attempt);
                if is_reset {
                    (self.version, self.attempt) = (record.version, 0);
                }
                let read = record.read.unwrap_or(u64::MAX);
                assert!(read >= self.read, "it read an older state than before: {record:?}");
                self.read = read;
                if let Some(requested) = self.requeue_requested.take() {
                    assert!(record.at - requested >= REQUEUE_DELAY, "it was requeued too early: {record:?}");
                    assert!(record.requeued, "{record:?}");
                    self.requeues += 1;
                }
            }
            Mark::Trap => self.attempt += 1,
            Mark::End if fails && record.attempt < 4 => self.attempt += 1,
            Mark::End => {
                self.attempt = 0;
                self.requeue_requested = is_requeued.then_some(record.at);
            }
        }
    }
}
