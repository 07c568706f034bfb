//! A pool of the instances of one plugin version.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{CompiledPlugin, Fault, Host, Instance, InstanceLimits};

/// A pool of instances of one plugin version: hands out idle instances, and takes back those that are still usable. Cheap to clone.
///
/// The pool has no size limit of its own: it holds at most as many instances as were checked out at the same time, so the number of workers
/// bounds it. It is last in, first out, so that instances which are not needed stay idle and [`drop_idle`](Self::drop_idle) finds them.
#[derive(Clone)]
pub struct InstancePool {
    shared: Arc<Shared>,
}

struct Shared {
    code: CompiledPlugin,
    host: Arc<dyn Host>,
    limits: InstanceLimits,
    state: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// In the order in which they were returned, the longest idle first.
    idle: Vec<Idle>,
    in_use: usize,
    created: u64,
    discarded: u64,
}

struct Idle {
    /// Boxed, because it is moved at each checkout and return.
    instance: Box<Instance>,
    since: Instant,
}

/// Statistics of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Idle instances.
    pub idle: usize,
    /// Instances that are checked out.
    pub in_use: usize,
    /// Instances created so far.
    pub created: u64,
    /// Instances discarded so far because of a fault, an abandoned call or leaked handles. Instances dropped while idle are not counted.
    pub discarded: u64,
}

impl InstancePool {
    /// Creates an empty pool. Instances are created at checkout.
    #[must_use]
    pub fn new(code: CompiledPlugin, host: Arc<dyn Host>, limits: InstanceLimits) -> Self {
        Self { shared: Arc::new(Shared { code, host, limits, state: Mutex::default() }) }
    }

    /// Returns the plugin that the instances run.
    #[must_use]
    pub fn code(&self) -> &CompiledPlugin {
        &self.shared.code
    }

    /// Checks out an idle instance, or creates one, which takes microseconds to milliseconds. Never waits for other instances.
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

    /// Creates an instance of the same version outside of the pool, for callers that need one particular instance.
    ///
    /// Cancel safe: dropping the future discards the instance.
    pub async fn instantiate(&self) -> Result<Instance, Fault> {
        let Shared { code, host, limits, .. } = &*self.shared;
        Instance::new(code, host.clone(), limits).await
    }

    /// Drops the instances that have been idle for at least this long, and returns how many. Then unmaps the code if no instance runs it
    /// any more, in the pool or outside of it.
    ///
    /// An observer's instance holds state in its memory, so it must not be in a pool.
    pub fn drop_idle(&self, idle_for: Duration) -> usize {
        let now = Instant::now();
        let dropped: Vec<Idle> = {
            let mut state = self.shared.state.lock();
            let expired =
                state.idle.partition_point(|idle| now.saturating_duration_since(idle.since) >= idle_for);
            state.idle.drain(..expired).collect()
        };
        let count = dropped.len();
        drop(dropped);
        self.shared.code.unmap_if_idle(idle_for);
        count
    }

    /// Returns the pool's statistics.
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

/// An instance checked out of a pool. Dropping this returns the instance, or discards it if it is no longer usable.
pub struct PooledInstance {
    /// `Some` until it is dropped.
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
