//! Property tests of the queue's state against a naive model: vectors with linear search.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::state::{Mode, State};
use super::{KeyPayload, NoMetrics, Priority, RateLimit};

#[derive(Clone, Debug)]
enum Op {
    Add(u8, Priority),
    AddAfter(u8, Priority, u16),
    Retry(u8, Priority),
    Forget(u8),
    ResetRetries,
    Pop,
    /// Releases the n-th held key.
    Done(usize, bool),
    Advance(u16),
}

/// An operation, or one that replaces or ends a queue.
#[derive(Clone, Debug)]
enum LifeOp {
    Op(Op),
    /// Exports all keys, and imports them again.
    ExportAndImport,
    Discard,
    ShutDown(bool),
}

fn priority() -> impl Strategy<Value = Priority> {
    prop_oneof![Just(Priority::Low), Just(Priority::Normal)]
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..6_u8;
    prop_oneof![
        4 => (key.clone(), priority()).prop_map(|(key, priority)| Op::Add(key, priority)),
        2 => (key.clone(), priority(), 0..100_u16).prop_map(|(key, priority, ms)| Op::AddAfter(key, priority, ms)),
        2 => (key.clone(), priority()).prop_map(|(key, priority)| Op::Retry(key, priority)),
        1 => key.prop_map(Op::Forget),
        1 => Just(Op::ResetRetries),
        4 => Just(Op::Pop),
        3 => any::<(usize, bool)>().prop_map(|(which, forget)| Op::Done(which, forget)),
        2 => (0..60_u16).prop_map(Op::Advance),
    ]
}

fn life_op() -> impl Strategy<Value = LifeOp> {
    prop_oneof![
        30 => op().prop_map(LifeOp::Op),
        2 => Just(LifeOp::ExportAndImport),
        1 => Just(LifeOp::Discard),
        1 => any::<bool>().prop_map(LifeOp::ShutDown),
    ]
}

/// The numbers of the operations that added a key.
#[derive(Debug, Default, PartialEq)]
struct Adds(Vec<usize>);

impl KeyPayload for Adds {
    fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

#[derive(Default)]
struct Model {
    /// In order of arrival.
    ready: Vec<(u8, Priority)>,
    /// In order of the adds: key, time, priority.
    delayed: Vec<(u8, u64, Priority)>,
    held: Vec<u8>,
    dirty: Vec<(u8, Priority)>,
    failures: [u32; 6],
    /// By key: the adds since it was last taken.
    adds: [Vec<usize>; 6],
    normal_pops: u32,
    now: u64,
}

impl Model {
    fn add(&mut self, key: u8, mut priority: Priority) {
        if let Some(at) = self.delayed.iter().position(|delayed| delayed.0 == key) {
            priority = priority.max(self.delayed.remove(at).2);
        }
        if self.held.contains(&key) {
            match self.dirty.iter_mut().find(|dirty| dirty.0 == key) {
                Some(dirty) => dirty.1 = dirty.1.max(priority),
                None => self.dirty.push((key, priority)),
            }
            return;
        }
        match self.ready.iter().position(|ready| ready.0 == key) {
            Some(at) if self.ready[at].1 < priority => {
                self.ready.remove(at);
                self.ready.push((key, priority));
            }
            Some(_) => {}
            None => self.ready.push((key, priority)),
        }
    }

    fn add_after(&mut self, key: u8, priority: Priority, wait: u64) {
        if wait == 0 {
            return self.add(key, priority);
        }
        let is = |entry: &(u8, Priority)| entry.0 == key;
        if self.ready.iter().any(is) || self.dirty.iter().any(is) {
            return;
        }
        match self.delayed.iter().position(|delayed| delayed.0 == key) {
            Some(at) if self.delayed[at].1 <= self.now + wait => {
                self.delayed[at].2 = self.delayed[at].2.max(priority);
            }
            Some(at) => {
                let earlier = self.delayed.remove(at);
                self.delayed.push((key, self.now + wait, priority.max(earlier.2)));
            }
            None => self.delayed.push((key, self.now + wait, priority)),
        }
    }

    fn reset_retries(&mut self) {
        let has_failed = |delayed: &&(u8, u64, Priority)| self.failures[usize::from(delayed.0)] > 0;
        let mut waiting: Vec<_> =
            self.delayed.iter().filter(has_failed).map(|delayed| (delayed.1, delayed.0)).collect();
        // Keys that are due at the same time keep their order.
        waiting.sort_by_key(|(at, _)| *at);
        self.failures = [0; 6];
        for (_, key) in waiting {
            self.add(key, Priority::Low);
        }
    }

    fn pop(&mut self) -> Option<(u8, Priority)> {
        // Keys that are due, by time and then by arrival.
        while let Some(first) =
            self.delayed.iter().map(|delayed| delayed.1).min().filter(|at| *at <= self.now)
        {
            let at =
                self.delayed.iter().position(|delayed| delayed.1 == first).expect("the smallest is there");
            let (key, _, priority) = self.delayed.remove(at);
            self.add(key, priority);
        }
        let first = |wanted| self.ready.iter().position(|(_, priority)| *priority == wanted);
        let (low, normal) = (first(Priority::Low), first(Priority::Normal));
        let at = match (low, normal) {
            (None, None) => return None,
            (None, Some(normal)) => {
                self.normal_pops = 0;
                normal
            }
            (Some(low), Some(normal)) if self.normal_pops < 9 => {
                self.normal_pops += 1;
                let _ = low;
                normal
            }
            (Some(low), _) => {
                self.normal_pops = 0;
                low
            }
        };
        let popped = self.ready.remove(at);
        self.held.push(popped.0);
        Some(popped)
    }

    fn done(&mut self, key: u8) {
        self.held.retain(|held| *held != key);
        if let Some(at) = self.dirty.iter().position(|dirty| dirty.0 == key) {
            self.ready.push(self.dirty.remove(at));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_queue_agrees_with_a_naive_model(ops in proptest::collection::vec(op(), 1..120)) {
        let mut state = State::new(RateLimit::default(), Arc::new(NoMetrics));
        let mut model = Model::default();
        let start = Instant::now();
        for (number, op) in ops.into_iter().enumerate() {
            let now = start + Duration::from_millis(model.now);
            let payload = Adds(vec![number]);
            if let Op::Add(key, _) | Op::AddAfter(key, ..) | Op::Retry(key, _) = &op {
                model.adds[usize::from(*key)].push(number);
            }
            match op {
                Op::Add(key, priority) => {
                    state.add(key, payload, priority, now);
                    model.add(key, priority);
                }
                Op::AddAfter(key, priority, wait) => {
                    state.add_at(key, payload, priority, now + Duration::from_millis(wait.into()), now);
                    model.add_after(key, priority, wait.into());
                }
                Op::Retry(key, priority) => {
                    let wait = RateLimit::default().backoff.delay(model.failures[usize::from(key)]);
                    prop_assert_eq!(state.add_rate_limited(key, payload, priority, now), Some(wait));
                    model.failures[usize::from(key)] += 1;
                    model.add_after(key, priority, u64::try_from(wait.as_millis()).expect("short"));
                }
                Op::Forget(key) => {
                    state.forget(&key);
                    model.failures[usize::from(key)] = 0;
                }
                Op::ResetRetries => {
                    state.reset_retries(now);
                    model.reset_retries();
                }
                Op::Pop => {
                    let popped = state.pop(now).map(|popped| {
                        let key = usize::from(popped.key);
                        assert_eq!(popped.attempts, model.failures[key]);
                        assert_eq!(popped.payload.0, std::mem::take(&mut model.adds[key]));
                        (popped.key, popped.priority)
                    });
                    prop_assert_eq!(popped, model.pop());
                }
                Op::Done(which, forget) => {
                    if !model.held.is_empty() {
                        let key = model.held[which % model.held.len()];
                        state.done(&key, forget, now);
                        model.done(key);
                        if forget {
                            model.failures[usize::from(key)] = 0;
                        }
                    }
                }
                Op::Advance(by) => model.now += u64::from(by),
            }
            let snapshot = state.snapshot(now);
            prop_assert_eq!(snapshot.depth, model.ready.len());
            prop_assert_eq!(snapshot.delayed, model.delayed.len());
            let has_failed = |delayed: &&(u8, u64, Priority)| model.failures[usize::from(delayed.0)] > 0;
            prop_assert_eq!(snapshot.backing_off, model.delayed.iter().filter(has_failed).count());
            prop_assert_eq!(snapshot.processing, model.held.len());
            let next_due = model.delayed.iter().map(|delayed| start + Duration::from_millis(delayed.1)).min();
            prop_assert_eq!(state.next_due(), next_due);
        }
        // No entry is kept for keys that are neither queued nor held and have not failed.
        for key in 0..6 {
            state.forget(&key);
        }
        while let Some(popped) = state.pop(start + Duration::from_secs(10_000)) {
            state.done(&popped.key, false, start);
        }
        for key in model.held {
            state.done(&key, false, start);
        }
        while let Some(popped) = state.pop(start + Duration::from_secs(10_000)) {
            state.done(&popped.key, false, start);
        }
        prop_assert_eq!(state.entry_count(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_counts_of_a_snapshot_equal_a_look_at_all_keys(
        ops in proptest::collection::vec(life_op(), 1..120)
    ) {
        let mut state = State::<u8, Adds>::new(RateLimit::default(), Arc::new(NoMetrics));
        let mut now = Instant::now();
        let mut held = Vec::new();
        for op in ops {
            match op {
                LifeOp::Op(Op::Add(key, priority)) => {
                    state.add(key, Adds::default(), priority, now);
                }
                LifeOp::Op(Op::AddAfter(key, priority, wait)) => {
                    let at = now + Duration::from_millis(wait.into());
                    state.add_at(key, Adds::default(), priority, at, now);
                }
                LifeOp::Op(Op::Retry(key, priority)) => {
                    state.add_rate_limited(key, Adds::default(), priority, now);
                }
                LifeOp::Op(Op::Forget(key)) => state.forget(&key),
                LifeOp::Op(Op::ResetRetries) => state.reset_retries(now),
                LifeOp::Op(Op::Pop) => held.extend(state.pop(now).map(|popped| popped.key)),
                LifeOp::Op(Op::Done(which, forget)) if !held.is_empty() => {
                    let key = held.swap_remove(which % held.len());
                    state.done(&key, forget, now);
                }
                LifeOp::Op(Op::Done(..)) => {}
                LifeOp::Op(Op::Advance(by)) => now += Duration::from_millis(by.into()),
                LifeOp::ExportAndImport => {
                    let exported = state.export(now);
                    state.import(exported, now);
                }
                LifeOp::Discard => drop(state.discard()),
                LifeOp::ShutDown(drains) => {
                    state.shut_down(if drains { Mode::Draining } else { Mode::Closed });
                }
            }
            prop_assert_eq!(state.snapshot(now), state.counted_snapshot(now));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn memory_is_released_when_the_keys_of_a_large_list_are_done() {
    let mut state = State::new(RateLimit::default(), Arc::new(NoMetrics));
    let now = Instant::now();
    for key in 0..20_000 {
        state.add(key, Adds::default(), Priority::Low, now);
    }
    let full = state.capacity();
    while let Some(popped) = state.pop(now) {
        state.done(&popped.key, false, now);
    }
    assert!(full >= 20_000 && state.capacity() <= 300, "{full}, then {}", state.capacity());
}
