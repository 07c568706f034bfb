//! Accounting of host memory that is used on behalf of a plugin.
//!
//! `limits.memory` bounds only a plugin's linear memory. What the host itself keeps because of a plugin (versions of objects behind
//! handles, index values, queued keys, …) is charged here, in bytes and by kind, and bounded by `limits.hostMemory`. A charge is made where
//! something is stored and released where it is removed; usage is never computed by iterating over what is stored.

mod kind;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use thiserror::Error;

use crate::fault::ByteCount;
pub use kind::HostMemoryKind;
use kind::KINDS;

/// The account of the host memory of one plugin, shared by all its versions. Cheap to clone; no method takes a lock.
#[derive(Clone)]
pub struct HostMemory(Arc<Account>);

struct Account {
    limit: AtomicUsize,
    /// What counts against the limit, in bytes.
    used: AtomicUsize,
    /// What does not count against the limit, in bytes.
    exempt: AtomicUsize,
    by_kind: [AtomicUsize; KINDS],
}

/// A charge of a number of bytes, which is released when this is dropped.
#[must_use = "dropping it releases the bytes"]
pub struct HostMemoryCharge {
    memory: HostMemory,
    kind: HostMemoryKind,
    bytes: usize,
    is_exempt: bool,
}

/// Error: a charge would exceed `limits.hostMemory`.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "exceeded limits.hostMemory of {} by growing to {} with {}: {}",
    ByteCount(*.allowed), ByteCount(.wanted.next_multiple_of(1 << 10)), .kind.noun(), .kind.remedy()
)]
pub struct HostMemoryExceeded {
    /// The limit, in bytes.
    pub allowed: usize,
    /// What all kinds together would have used, in bytes.
    pub wanted: usize,
    /// The kind of the refused charge.
    pub kind: HostMemoryKind,
}

impl Default for HostMemory {
    fn default() -> Self {
        Self::new(Self::DEFAULT_LIMIT)
    }
}

impl HostMemory {
    /// The default of `limits.hostMemory`, in bytes.
    pub const DEFAULT_LIMIT: usize = 64 << 20;

    /// Creates an account with nothing charged. The limit is in bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Account {
            limit: AtomicUsize::new(limit),
            used: AtomicUsize::new(0),
            exempt: AtomicUsize::new(0),
            by_kind: Default::default(),
        }))
    }

    /// Sets the limit in bytes. Existing charges beyond it stay; new ones are refused until enough is released.
    pub fn set_limit(&self, limit: usize) {
        self.0.limit.store(limit, Ordering::Relaxed);
    }

    /// Raises the limit to this many bytes, unless it is higher already.
    pub fn raise_limit(&self, limit: usize) {
        self.0.limit.fetch_max(limit, Ordering::Relaxed);
    }

    /// Returns the limit in bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.0.limit.load(Ordering::Relaxed)
    }

    /// Returns the bytes in use by all kinds, whether they count against the limit or not.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed) + self.0.exempt.load(Ordering::Relaxed)
    }

    /// Returns the bytes in use by one kind.
    #[must_use]
    pub fn used_by(&self, kind: HostMemoryKind) -> usize {
        self.0.by_kind[kind.position()].load(Ordering::Relaxed)
    }

    /// Charges bytes if they fit.
    ///
    /// # Errors
    /// If the charge would exceed the limit. Then nothing is charged.
    pub fn try_charge(
        &self,
        kind: HostMemoryKind,
        bytes: usize,
    ) -> Result<HostMemoryCharge, HostMemoryExceeded> {
        self.try_add(kind, bytes)?;
        Ok(HostMemoryCharge { memory: self.clone(), kind, bytes, is_exempt: false })
    }

    /// Charges bytes unconditionally, even beyond the limit.
    pub fn charge(&self, kind: HostMemoryKind, bytes: usize) -> HostMemoryCharge {
        self.add(kind, bytes);
        HostMemoryCharge { memory: self.clone(), kind, bytes, is_exempt: false }
    }

    /// Charges bytes that do not count against the limit. They are for what the host may not refuse and the plugin cannot avoid: counted
    /// against the limit, they could refuse the very calls that would release them.
    pub fn charge_exempt(&self, kind: HostMemoryKind, bytes: usize) -> HostMemoryCharge {
        self.add_exempt(kind, bytes);
        HostMemoryCharge { memory: self.clone(), kind, bytes, is_exempt: true }
    }

    /// Adds bytes unconditionally. The caller must call [`release`](Self::release) with the same number.
    pub fn add(&self, kind: HostMemoryKind, bytes: usize) {
        self.0.used.fetch_add(bytes, Ordering::Relaxed);
        self.0.by_kind[kind.position()].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Releases bytes that [`add`](Self::add) added.
    pub fn release(&self, kind: HostMemoryKind, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        self.0.by_kind[kind.position()].fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns an error if the account exceeds its limit. `kind` is named in the error.
    pub fn check(&self, kind: HostMemoryKind) -> Result<(), HostMemoryExceeded> {
        let (allowed, wanted) = (self.limit(), self.0.used.load(Ordering::Relaxed));
        if wanted > allowed { Err(HostMemoryExceeded { allowed, wanted, kind }) } else { Ok(()) }
    }

    fn add_exempt(&self, kind: HostMemoryKind, bytes: usize) {
        self.0.exempt.fetch_add(bytes, Ordering::Relaxed);
        self.0.by_kind[kind.position()].fetch_add(bytes, Ordering::Relaxed);
    }

    fn release_exempt(&self, kind: HostMemoryKind, bytes: usize) {
        self.0.exempt.fetch_sub(bytes, Ordering::Relaxed);
        self.0.by_kind[kind.position()].fetch_sub(bytes, Ordering::Relaxed);
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
    /// Returns the account.
    #[must_use]
    pub fn memory(&self) -> &HostMemory {
        &self.memory
    }

    /// Returns the bytes that are charged.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the charge to this many bytes. A decrease always succeeds.
    ///
    /// # Errors
    /// If the increase would exceed the limit. Then the charge stays as it is.
    pub fn resize(&mut self, bytes: usize) -> Result<(), HostMemoryExceeded> {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) if self.is_exempt => self.memory.add_exempt(self.kind, more),
            Some(more) => self.memory.try_add(self.kind, more)?,
            None => self.release(self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }

    fn release(&self, bytes: usize) {
        if self.is_exempt {
            self.memory.release_exempt(self.kind, bytes);
        } else {
            self.memory.release(self.kind, bytes);
        }
    }
}

impl Drop for HostMemoryCharge {
    fn drop(&mut self) {
        self.release(self.bytes);
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
    fn a_charge_beyond_the_limit_is_refused_with_its_kind_and_charges_nothing() {
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
        charge.resize(7).expect("a decrease always succeeds");
        assert_eq!(memory.used_by(HostMemoryKind::Handles), 7);
        memory.raise_limit(3);
        assert_eq!(memory.limit(), 5);
    }

    #[test]
    fn an_exempt_charge_is_in_the_sums_and_refuses_nothing() {
        let memory = HostMemory::new(10);
        let mut exempt = memory.charge_exempt(HostMemoryKind::QueuedKeys, 20);
        assert_eq!((memory.used(), memory.used_by(HostMemoryKind::QueuedKeys)), (20, 20));
        assert_eq!(memory.check(HostMemoryKind::OwnWrites), Ok(()));
        let counted = memory.try_charge(HostMemoryKind::Handles, 10).expect("the whole limit");
        assert!(memory.try_charge(HostMemoryKind::Handles, 1).is_err());
        exempt.resize(30).expect("never refused");
        assert_eq!((memory.used(), sum(&memory)), (40, 40));
        exempt.resize(5).expect("a decrease");
        drop(counted);
        assert_eq!((memory.used(), sum(&memory)), (5, 5));
        drop(exempt);
        assert_eq!((memory.used(), sum(&memory)), (0, 0));
    }

    /// An operation on an account: kind or charge, and bytes.
    #[derive(Clone, Debug)]
    enum Step {
        TryCharge(usize, usize),
        Charge(usize, usize),
        Resize(usize, usize),
        Drop(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..KINDS, 0..60_usize).prop_map(|(kind, bytes)| Step::TryCharge(kind, bytes)),
            (0..KINDS, 0..20_usize).prop_map(|(kind, bytes)| Step::Charge(kind, bytes)),
            (any::<usize>(), 0..60_usize).prop_map(|(charge, bytes)| Step::Resize(charge, bytes)),
            any::<usize>().prop_map(Step::Drop),
        ]
    }

    /// Runs the steps, and compares the account with the held charges after each. `is_alone` says that no other thread uses the account.
    fn run(memory: &HostMemory, steps: &[Step], is_alone: bool) {
        let mut charges: Vec<HostMemoryCharge> = Vec::new();
        for step in steps {
            match *step {
                Step::TryCharge(kind, bytes) => {
                    charges.extend(memory.try_charge(HostMemoryKind::ALL[kind], bytes));
                    assert!(
                        !is_alone
                            || memory.used() <= 100
                            || bytes == 0
                            || memory.check(HostMemoryKind::Handles).is_err()
                    );
                }
                Step::Charge(kind, bytes) => charges.push(memory.charge(HostMemoryKind::ALL[kind], bytes)),
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
            assert!(!is_alone || (memory.used() == held && sum(memory) == held));
        }
    }

    proptest! {
        #[test]
        fn usage_is_the_sum_of_the_held_charges(steps in prop::collection::vec(step(), 0..60)) {
            let memory = HostMemory::new(100);
            run(&memory, &steps, true);
            prop_assert_eq!((memory.used(), sum(&memory)), (0, 0));
        }

        #[test]
        fn threads_sharing_an_account_release_all_they_charged(
            threads in prop::collection::vec(prop::collection::vec(step(), 0..40), 1..4)
        ) {
            let memory = HostMemory::new(100);
            std::thread::scope(|scope| {
                for steps in &threads {
                    let memory = memory.clone();
                    scope.spawn(move || run(&memory, steps, false));
                }
            });
            prop_assert_eq!((memory.used(), sum(&memory)), (0, 0));
        }
    }
}
