//! A plugin is reloaded again and again, with broken files and trapping versions among the good ones, while its objects
//! change. The requeue-everything of a reload is switched off, so that nothing that a swap lost could be found again by
//! it. Every reconcile that ever started is looked at, not samples of them.
//!
//! `PILOTHOUSE_RELOADS` and `PILOTHOUSE_OBJECTS` set the size; `cargo xtask soak` runs 1,000 reloads and 10,000 objects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::sleep;

use crate::guest::{self, Kind};
use crate::stage::Stage;
use crate::wire::{Mark, Record};

/// How long the guest asks to wait for what it asked to be called again for.
const AGAIN: Duration = Duration::from_secs(2);

fn size(variable: &str, default: u32) -> u32 {
    std::env::var(variable).map_or(default, |text| text.parse().expect(variable))
}

/// What was done to the objects.
#[derive(Default)]
struct Done {
    /// The resource version of the last change of each that is there.
    last: BTreeMap<String, u64>,
    /// How many records there were when it was deleted.
    deleted: BTreeMap<String, usize>,
    /// Those that ask to be called again, and are never changed.
    again: Vec<String>,
    changes: u32,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_reloads_under_load_lose_nothing() {
    let (reloads, objects) = (size("PILOTHOUSE_RELOADS", 100), size("PILOTHOUSE_OBJECTS", 1000));
    assert_eq!(Kind::of(reloads), Kind::Healthy, "the last one has to settle everything");
    let stage = Stage::start(|_| {});
    stage.sidecar("workers: 8\nlimits: {clientQps: 1000000}\n");
    stage.drop_in(&guest::file(0, Kind::Healthy));
    stage.until("the first version to run", |status| status.generation == 1).await;
    let mut done = Done::default();
    for object in 0..objects {
        let name = format!("object-{object}");
        // A tenth fails until its fourth attempt, a hundredth wants to be called again and again.
        let wish = match object % 100 {
            5 => "again",
            wish if wish % 10 == 3 => "retry",
            _ => "",
        };
        let version = stage.create(&name, wish).await;
        if wish == "again" {
            done.again.push(name.clone());
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
                stage.drop_in(&guest::file(reload, kind));
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
    settled(&stage, &done).await;
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
            done.changes,
            done.deleted.len()
        );
        assert!(traps > 0 || reloads < 10, "the trapping versions had work");
    });
}

/// Changes this reload's share of the objects, each twice in all, and deletes some, while it goes on.
async fn change(stage: &Stage, done: &mut Done, reload: u32, reloads: u32, objects: u32) {
    let share = (2 * objects).div_ceil(reloads);
    for position in (reload - 1) * share..reload * share {
        // Neighbours in time are not neighbours in name.
        let object = position.wrapping_mul(7919) % objects;
        let name = format!("object-{object}");
        if done.deleted.contains_key(&name) || done.again.contains(&name) {
            continue;
        }
        if position % 40 == 17 {
            // Counted before: whatever read it as gone did so after this.
            let before = stage.log.len();
            stage.delete(&name).await;
            done.last.remove(&name);
            done.deleted.insert(name, before);
        } else {
            let version = stage.change(&name, reload).await;
            done.last.insert(name, version);
        }
        done.changes += 1;
        // In bursts, spread over the load, the swap and what comes after: some changes are under way at every moment.
        if position % 5 == 4 {
            sleep(Duration::from_millis(u64::from(5 + position % 7))).await;
        }
    }
}

/// Waits until every object has been reconciled as it is now, and those that ask for it have been called again since.
async fn settled(stage: &Stage, done: &Done) {
    let now = stage.log.len();
    stage
        .wait("every object to be reconciled as it is", || {
            stage.log.read(|records| {
                let behind = behind(records, done);
                let again: BTreeSet<_> = records[now..].iter().map(|record| record.name.as_str()).collect();
                behind.is_empty() && done.again.iter().all(|name| again.contains(name.as_str()))
            })
        })
        .await;
}

/// The objects whose last reconcile began before their last change, or read something older.
fn behind<'a>(records: &[Record], done: &'a Done) -> Vec<&'a str> {
    let starts = || records.iter().enumerate().filter(|(_, record)| record.mark == Mark::Start);
    let last: BTreeMap<_, _> =
        starts().map(|(position, record)| (record.name.as_str(), (position, record))).collect();
    let is_behind = |name: &str, wanted: Option<u64>| match (last.get(name), wanted) {
        (Some((_, record)), Some(version)) => record.read.is_none_or(|read| read < version),
        (Some((position, record)), None) => record.read.is_some() || *position < done.deleted[name],
        (None, _) => true,
    };
    let live = done.last.iter().map(|(name, version)| (name.as_str(), Some(*version)));
    let gone = done.deleted.keys().map(|name| (name.as_str(), None));
    live.chain(gone).filter(|(name, wanted)| is_behind(name, *wanted)).map(|(name, _)| name).collect()
}

/// What must hold of all reconciles together.
fn check(records: &[Record], done: &Done) {
    assert_eq!(behind(records, done), Vec::<&str>::new());
    let mut versions = 0;
    let mut objects: BTreeMap<&str, Object> = BTreeMap::new();
    for (position, record) in records.iter().enumerate() {
        assert!(
            record.version >= versions,
            "a version wrote after it was swapped out: {position}: {record:?}"
        );
        versions = record.version;
        let kind = if record.version == 0 { Kind::Healthy } else { Kind::of(record.version) };
        assert!(kind.runs(), "a refused version ran: {record:?}");
        objects.entry(&record.name).or_default().take(record);
    }
    for name in &done.again {
        assert!(objects[name.as_str()].again > 0, "{name}");
    }
}

/// One object's reconciles so far.
#[derive(Default)]
struct Object {
    runs: bool,
    /// What the next start has to say.
    attempt: u32,
    read: u64,
    /// When it asked to be called again.
    asked: Option<tokio::time::Instant>,
    /// How often it was.
    again: u32,
}

impl Object {
    fn take(&mut self, record: &Record) {
        let is_start = record.mark == Mark::Start;
        assert_eq!(self.runs, !is_start, "a key ran twice at the same time: {record:?}");
        self.runs = is_start;
        let object: u32 = record.name.trim_start_matches("object-").parse().expect("a number");
        let (wants_again, fails) = (object % 100 == 5, object % 10 == 3 && record.read.is_some());
        match record.mark {
            Mark::Start => {
                assert_eq!(record.attempt, self.attempt, "attempts are counted on: {record:?}");
                let read = record.read.unwrap_or(u64::MAX);
                assert!(read >= self.read, "it read something older than before: {record:?}");
                self.read = read;
                if let Some(asked) = self.asked.take() {
                    assert!(record.at - asked >= AGAIN, "it was called again too early: {record:?}");
                    assert!(record.requeued, "{record:?}");
                    self.again += 1;
                }
            }
            Mark::Trap => self.attempt += 1,
            Mark::End if fails && record.attempt < 4 => self.attempt += 1,
            Mark::End => {
                self.attempt = 0;
                self.asked = wants_again.then_some(record.at);
            }
        }
    }
}
