//! The account of the host's memory that is held for one plugin.
//!
//! A plugin's linear memory is bounded by `limits.memory`. What the host itself keeps because of a plugin (versions of objects
//! behind handles, index values, queued keys, …) is outside of it, and is charged here by bytes and by kind. Each charge is
//! made where something is put in and released where it is taken out; nothing is ever counted by looking through it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use thiserror::Error;

use crate::fault::Bytes;

/// What a plugin's host memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostMemoryKind {
    /// Versions of objects that only the plugin's handles keep alive.
    Handles,
    /// Values of the indexes that the plugin computes.
    IndexValues,
    /// Keys that the plugin queued and that are no cached objects.
    QueuedKeys,
    /// What the plugin wrote, until its watches bring it.
    OwnWrites,
    /// Kubernetes Events that wait to be sent.
    Events,
    /// Series of the plugin's own metrics.
    Metrics,
    /// The log lines that are kept for `pilothouse logs`.
    LogLines,
}

/// How many kinds there are.
const KINDS: usize = 7;

/// The host memory of one plugin, of all its versions. Cheap to clone; all methods take no lock.
#[derive(Clone)]
pub struct HostMemory(Arc<Account>);

struct Account {
    limit: AtomicUsize,
    used: AtomicUsize,
    by_kind: [AtomicUsize; KINDS],
}

/// Bytes that are charged until this is dropped.
#[must_use = "dropping it releases the bytes"]
pub struct HostMemoryCharge {
    memory: HostMemory,
    kind: HostMemoryKind,
    bytes: usize,
}

/// A plugin would have the host hold more than `limits.hostMemory`.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "exceeded limits.hostMemory of {} by growing to {} with {}: {}",
    Bytes(*.allowed), Bytes(.wanted.next_multiple_of(1 << 10)), .kind.noun(), .kind.remedy()
)]
pub struct HostMemoryExceeded {
    /// The limit, in bytes.
    pub allowed: usize,
    /// What all kinds together would have taken, in bytes.
    pub wanted: usize,
    /// What there was no more room for.
    pub kind: HostMemoryKind,
}

impl HostMemoryKind {
    /// All kinds.
    pub const ALL: [Self; KINDS] = [
        Self::Handles,
        Self::IndexValues,
        Self::QueuedKeys,
        Self::OwnWrites,
        Self::Events,
        Self::Metrics,
        Self::LogLines,
    ];

    /// The name in `/api/plugins` and in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Handles => "handles",
            Self::IndexValues => "indexValues",
            Self::QueuedKeys => "queuedKeys",
            Self::OwnWrites => "ownWrites",
            Self::Events => "events",
            Self::Metrics => "metrics",
            Self::LogLines => "logLines",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Handles => "objects behind handles",
            Self::IndexValues => "index values",
            Self::QueuedKeys => "queued keys",
            Self::OwnWrites => "own writes",
            Self::Events => "Events",
            Self::Metrics => "metrics",
            Self::LogLines => "log lines",
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Handles => {
                "close handles of objects that are no longer needed, and keep none between calls"
            }
            Self::IndexValues => "compute fewer or shorter index values",
            Self::QueuedKeys => "queue objects that exist, or fewer keys at a time",
            Self::OwnWrites => "write less before the watch has caught up",
            Self::Events | Self::Metrics | Self::LogLines => "say less",
        }
    }

    fn position(self) -> usize {
        self as usize
    }
}

impl Default for HostMemory {
    fn default() -> Self {
        Self::new(Self::DEFAULT_LIMIT)
    }
}

impl HostMemory {
    /// The default of `limits.hostMemory`, in bytes.
    pub const DEFAULT_LIMIT: usize = 64 << 20;

    /// An account of which nothing is used.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Account {
            limit: AtomicUsize::new(limit),
            used: AtomicUsize::new(0),
            by_kind: Default::default(),
        }))
    }

    /// Sets the limit in bytes. What is used beyond it stays, and nothing is added until there is room again.
    pub fn set_limit(&self, limit: usize) {
        self.0.limit.store(limit, Ordering::Relaxed);
    }

    /// Raises the limit in bytes, unless it is as high already.
    pub fn raise_limit(&self, limit: usize) {
        self.0.limit.fetch_max(limit, Ordering::Relaxed);
    }

    /// The limit in bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.0.limit.load(Ordering::Relaxed)
    }

    /// Bytes in use, of all kinds.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Bytes in use, of one kind.
    #[must_use]
    pub fn used_by(&self, kind: HostMemoryKind) -> usize {
        self.0.by_kind[kind.position()].load(Ordering::Relaxed)
    }

    /// Charges bytes where there is room for them.
    ///
    /// # Errors
    /// If that would exceed the limit; then nothing is charged.
    pub fn try_charge(
        &self,
        kind: HostMemoryKind,
        bytes: usize,
    ) -> Result<HostMemoryCharge, HostMemoryExceeded> {
        self.try_add(kind, bytes)?;
        Ok(HostMemoryCharge { memory: self.clone(), kind, bytes })
    }

    /// Charges bytes that are held in any case, beyond the limit if need be.
    pub fn charge(&self, kind: HostMemoryKind, bytes: usize) -> HostMemoryCharge {
        self.add(kind, bytes);
        HostMemoryCharge { memory: self.clone(), kind, bytes }
    }

    /// Adds bytes that are held in any case. Whoever calls this calls [`release`](Self::release) with as many.
    pub fn add(&self, kind: HostMemoryKind, bytes: usize) {
        self.0.used.fetch_add(bytes, Ordering::Relaxed);
        self.0.by_kind[kind.position()].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes back what [`add`](Self::add) added.
    pub fn release(&self, kind: HostMemoryKind, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        self.0.by_kind[kind.position()].fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Refuses work of this kind while more is used than the limit allows.
    ///
    /// # Errors
    /// While the limit is exceeded.
    pub fn check(&self, kind: HostMemoryKind) -> Result<(), HostMemoryExceeded> {
        let (allowed, wanted) = (self.limit(), self.used());
        if wanted > allowed { Err(HostMemoryExceeded { allowed, wanted, kind }) } else { Ok(()) }
    }

    fn try_add(&self, kind: HostMemoryKind, bytes: usize) -> Result<(), HostMemoryExceeded> {
        let allowed = self.limit();
        let fits = |used: usize| used.checked_add(bytes).filter(|wanted| *wanted <= allowed);
        match self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => {
                self.0.by_kind[kind.position()].fetch_add(bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(used) => Err(HostMemoryExceeded { allowed, wanted: used.saturating_add(bytes), kind }),
        }
    }
}

impl HostMemoryCharge {
    /// The account.
    #[must_use]
    pub fn memory(&self) -> &HostMemory {
        &self.memory
    }

    /// The bytes that are charged.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Charges this many bytes from here on. Fewer are always granted.
    ///
    /// # Errors
    /// If that would exceed the limit; then the charge stays as it is.
    pub fn resize(&mut self, bytes: usize) -> Result<(), HostMemoryExceeded> {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => self.memory.try_add(self.kind, more)?,
            None => self.memory.release(self.kind, self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for HostMemoryCharge {
    fn drop(&mut self) {
        self.memory.release(self.kind, self.bytes);
    }
}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostMemory").field("used", &self.used()).field("limit", &self.limit()).finish()
    }
}

impl fmt::Debug for HostMemoryCharge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {}", self.bytes, self.kind.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(memory: &HostMemory) -> usize {
        HostMemoryKind::ALL.iter().map(|kind| memory.used_by(*kind)).sum()
    }

    #[test]
    fn a_charge_beyond_the_limit_is_refused_by_name_and_charges_nothing() {
        let memory = HostMemory::new(2 << 20);
        let first = memory.try_charge(HostMemoryKind::QueuedKeys, 2 << 20).expect("exactly the limit");
        let refused = memory.try_charge(HostMemoryKind::Handles, 1 << 20).expect_err("beyond the limit");
        assert_eq!(
            refused.to_string(),
            "exceeded limits.hostMemory of 2 MiB by growing to 3 MiB with objects behind handles: close handles of objects \
             that are no longer needed, and keep none between calls"
        );
        assert_eq!((memory.used(), memory.used_by(HostMemoryKind::Handles)), (2 << 20, 0));
        assert_eq!(memory.check(HostMemoryKind::OwnWrites), Ok(()));
        let forced = memory.charge(HostMemoryKind::OwnWrites, 1);
        assert!(memory.check(HostMemoryKind::OwnWrites).is_err());
        drop((first, forced));
        assert_eq!((memory.used(), sum(&memory)), (0, 0));
    }

    #[test]
    fn a_charge_that_cannot_grow_stays_as_it_is() {
        let memory = HostMemory::new(10);
        let mut charge = memory.try_charge(HostMemoryKind::Handles, 4).expect("room");
        assert!(charge.resize(11).is_err());
        assert_eq!((charge.bytes(), memory.used()), (4, 4));
        charge.resize(10).expect("room");
        memory.set_limit(5);
        charge.resize(7).expect("fewer are always granted");
        assert_eq!(memory.used_by(HostMemoryKind::Handles), 7);
        memory.raise_limit(3);
        assert_eq!(memory.limit(), 5);
    }

    /// What is done to an account.
    #[derive(Clone, Debug)]
    enum Step {
        Charge(usize, usize),
        Force(usize, usize),
        Resize(usize, usize),
        Drop(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..KINDS, 0..60_usize).prop_map(|(kind, bytes)| Step::Charge(kind, bytes)),
            (0..KINDS, 0..20_usize).prop_map(|(kind, bytes)| Step::Force(kind, bytes)),
            (any::<usize>(), 0..60_usize).prop_map(|(charge, bytes)| Step::Resize(charge, bytes)),
            any::<usize>().prop_map(Step::Drop),
        ]
    }

    /// Does the steps, and checks the account after each against the charges that are held. Says what was forced.
    fn take(memory: &HostMemory, steps: &[Step], alone: bool) {
        let mut charges: Vec<HostMemoryCharge> = Vec::new();
        for step in steps {
            match *step {
                Step::Charge(kind, bytes) => {
                    charges.extend(memory.try_charge(HostMemoryKind::ALL[kind], bytes));
                    assert!(
                        !alone
                            || memory.used() <= 100
                            || bytes == 0
                            || memory.check(HostMemoryKind::Handles).is_err()
                    );
                }
                Step::Force(kind, bytes) => charges.push(memory.charge(HostMemoryKind::ALL[kind], bytes)),
                Step::Resize(charge, bytes) if !charges.is_empty() => {
                    let position = charge % charges.len();
                    let _ = charges[position].resize(bytes);
                }
                Step::Drop(charge) if !charges.is_empty() => {
                    drop(charges.swap_remove(charge % charges.len()));
                }
                Step::Resize(..) | Step::Drop(_) => {}
            }
            let held: usize = charges.iter().map(HostMemoryCharge::bytes).sum();
            assert!(memory.used() >= held && sum(memory) >= held);
            assert!(!alone || (memory.used() == held && sum(memory) == held));
        }
    }

    proptest! {
        #[test]
        fn what_is_used_is_the_sum_of_the_charges_and_zero_without_them(steps in prop::collection::vec(step(), 0..60)) {
            let memory = HostMemory::new(100);
            take(&memory, &steps, true);
            prop_assert_eq!((memory.used(), sum(&memory)), (0, 0));
        }

        #[test]
        fn threads_that_share_an_account_leave_nothing_behind(
            threads in prop::collection::vec(prop::collection::vec(step(), 0..40), 1..4)
        ) {
            let memory = HostMemory::new(100);
            std::thread::scope(|scope| {
                for steps in &threads {
                    let memory = memory.clone();
                    scope.spawn(move || take(&memory, steps, false));
                }
            });
            prop_assert_eq!((memory.used(), sum(&memory)), (0, 0));
        }
    }
}
