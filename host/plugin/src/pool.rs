//! Instances of one plugin version, kept between calls.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{Code, Fault, Host, Instance, Limits};

/// Hands out instances of one plugin version and takes back those that still work. Cheap to clone.
///
/// The pool sets no bound of its own: there are as many instances as were ever checked out at the same time, so the number of workers is
/// the bound. The last one returned is the first one handed out, so that those not needed grow old and [`drop_idle`](Self::drop_idle)
/// finds them.
#[derive(Clone)]
pub struct InstancePool {
    shared: Arc<Shared>,
}

struct Shared {
    code: Code,
    host: Arc<dyn Host>,
    limits: Limits,
    state: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Oldest first.
    idle: Vec<Idle>,
    in_use: usize,
    created: u64,
    discarded: u64,
}

struct Idle {
    /// Boxed, because it goes from hand to hand for each call.
    instance: Box<Instance>,
    since: Instant,
}

/// What a pool holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Instances waiting for work.
    pub idle: usize,
    /// Instances checked out.
    pub in_use: usize,
    /// Instances made so far.
    pub created: u64,
    /// Instances thrown away so far, because of a fault, an abandoned call or leaked handles; those dropped idle don't count.
    pub discarded: u64,
}

impl InstancePool {
    /// A pool without instances; they are made when asked for.
    #[must_use]
    pub fn new(code: Code, host: Arc<dyn Host>, limits: Limits) -> Self {
        Self { shared: Arc::new(Shared { code, host, limits, state: Mutex::default() }) }
    }

    /// The code that the instances run.
    #[must_use]
    pub fn code(&self) -> &Code {
        &self.shared.code
    }

    /// An instance to call: an idle one, or else a new one. Never waits for others; making one takes microseconds to milliseconds.
    ///
    /// Cancel safe: a dropped future leaves the pool as it was.
    pub async fn checkout(&self) -> Result<PooledInstance, Fault> {
        let idle = {
            let mut state = self.shared.state.lock();
            let idle = state.idle.pop();
            state.in_use += usize::from(idle.is_some());
            idle
        };
        let instance = match idle {
            Some(idle) => idle.instance,
            None => {
                let instance = Box::new(self.instantiate().await?);
                let mut state = self.shared.state.lock();
                state.created += 1;
                state.in_use += 1;
                instance
            }
        };
        Ok(PooledInstance { instance: Some(instance), pool: self.shared.clone() })
    }

    /// An instance of the same version that never gets into the pool, for who has to know which one it calls.
    ///
    /// Cancel safe: dropping the future discards the instance.
    pub async fn instantiate(&self) -> Result<Instance, Fault> {
        let Shared { code, host, limits, .. } = &*self.shared;
        Instance::new(code, host.clone(), limits).await
    }

    /// Drops the instances that have been idle for this long or longer, and says how many; with the last instance of the code, the pool's or
    /// not, the code goes to sleep, too. An observer's instance holds what it has learned: don't pool it.
    pub fn drop_idle(&self, idle_for: Duration) -> usize {
        let now = Instant::now();
        let dropped: Vec<Idle> = {
            let mut state = self.shared.state.lock();
            let kept =
                state.idle.partition_point(|idle| now.saturating_duration_since(idle.since) >= idle_for);
            state.idle.drain(..kept).collect()
        };
        let count = dropped.len();
        drop(dropped);
        self.shared.code.sleep(idle_for);
        count
    }

    /// What the pool holds and has done.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let state = self.shared.state.lock();
        PoolStats {
            idle: state.idle.len(),
            in_use: state.in_use,
            created: state.created,
            discarded: state.discarded,
        }
    }
}

impl std::fmt::Debug for InstancePool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InstancePool").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// An instance checked out of a pool. Dropping it returns it, or discards it if it is no longer usable.
pub struct PooledInstance {
    /// Some until it is dropped.
    instance: Option<Box<Instance>>,
    pool: Arc<Shared>,
}

impl Deref for PooledInstance {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        self.instance.as_ref().unwrap_or_else(|| unreachable!("only drop takes the instance"))
    }
}

impl DerefMut for PooledInstance {
    fn deref_mut(&mut self) -> &mut Instance {
        self.instance.as_mut().unwrap_or_else(|| unreachable!("only drop takes the instance"))
    }
}

impl Drop for PooledInstance {
    fn drop(&mut self) {
        let Some(instance) = self.instance.take() else { return };
        let mut state = self.pool.state.lock();
        state.in_use -= 1;
        if instance.is_usable() {
            state.idle.push(Idle { instance, since: Instant::now() });
        } else {
            state.discarded += 1;
        }
    }
}
