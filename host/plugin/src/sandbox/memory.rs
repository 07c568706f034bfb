//! The limits on an instance's linear memory and tables.

use wasmtime::ResourceLimiter;

use super::StopReason;
use crate::InstanceLimits;

/// Counts the linear memory and table elements of one instance, and traps a guest that exceeds its limit.
///
/// Without a trap, `memory.grow` would return -1 and the guest would fail later, in its allocator. The trap names the limit at the
/// allocation that exceeds it, like an OOM kill of a container.
pub(crate) struct MemoryLimiter {
    allowed: usize,
    used: usize,
    allowed_elements: usize,
    elements: usize,
    instances: usize,
}

impl MemoryLimiter {
    pub(crate) fn new(limits: &InstanceLimits) -> Self {
        Self {
            allowed: limits.memory,
            used: 0,
            allowed_elements: limits.table_elements,
            elements: 0,
            instances: limits.instances,
        }
    }

    /// Returns the bytes of linear memory in use.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Returns how many core instances, memories and tables there may be, each.
    pub(crate) fn allowed_instances(&self) -> usize {
        self.instances
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let requested = self.used.saturating_add(desired.saturating_sub(current));
        if requested > self.allowed {
            return Err(StopReason::Memory { allowed: self.allowed, wanted: requested }.into());
        }
        self.used = requested;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let requested = self.elements.saturating_add(desired.saturating_sub(current));
        if requested > self.allowed_elements {
            return Err(
                StopReason::TableElements { allowed: self.allowed_elements, wanted: requested }.into()
            );
        }
        self.elements = requested;
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.instances
    }

    fn tables(&self) -> usize {
        self.instances
    }

    fn memories(&self) -> usize {
        self.instances
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 65_536;

    fn limiter() -> MemoryLimiter {
        MemoryLimiter::new(&InstanceLimits {
            memory: 4 * PAGE,
            table_elements: 10,
            ..InstanceLimits::default()
        })
    }

    #[test]
    fn all_memories_count_together() {
        let mut limiter = limiter();
        assert!(limiter.memory_growing(0, 2 * PAGE, None).expect("within the limit"));
        assert!(limiter.memory_growing(0, PAGE, None).expect("within the limit"));
        assert!(limiter.memory_growing(2 * PAGE, 3 * PAGE, None).expect("exactly the limit"));
        let refused = limiter.memory_growing(PAGE, 2 * PAGE, None).expect_err("above the limit");
        let wanted = 5 * PAGE;
        assert!(matches!(refused.downcast_ref(), Some(StopReason::Memory { wanted: w, .. }) if *w == wanted));
        assert_eq!(limiter.used(), 4 * PAGE);
    }

    #[test]
    fn all_tables_count_together() {
        let mut limiter = limiter();
        assert!(limiter.table_growing(0, 6, None).expect("within the limit"));
        assert!(limiter.table_growing(0, 4, None).expect("exactly the limit"));
        let refused = limiter.table_growing(4, 5, None).expect_err("above the limit");
        assert!(matches!(
            refused.downcast_ref(),
            Some(StopReason::TableElements { allowed: 10, wanted: 11 })
        ));
    }

    #[test]
    fn growing_beyond_the_guests_own_maximum_fails_without_a_trap() {
        let mut limiter = limiter();
        assert!(!limiter.memory_growing(0, 2 * PAGE, Some(PAGE)).expect("no trap"));
        assert!(!limiter.table_growing(0, 20, Some(19)).expect("no trap"));
        assert_eq!(limiter.used(), 0);
    }
}
