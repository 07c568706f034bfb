//! How much memory an instance may have.

use wasmtime::ResourceLimiter;

use super::Stop;

/// Elements in all tables of an instance together. The largest guests known (interpreters) have some 20,000.
const MAX_TABLE_ELEMENTS: usize = 1_000_000;

/// Counts the linear memory and tables of one instance, and traps a guest that wants more.
///
/// It traps where WebAssembly would let `memory.grow` answer -1: like a container that is killed when out of memory, the guest ends at the
/// place that asked for it, with a message that names the limit, rather than somewhere later in its allocator.
pub(crate) struct MemoryLimiter {
    allowed: usize,
    used: usize,
    table_elements: usize,
}

impl MemoryLimiter {
    pub(crate) fn new(allowed: usize) -> Self {
        Self { allowed, used: 0, table_elements: 0 }
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.used
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
        let wanted = self.used.saturating_add(desired.saturating_sub(current));
        if wanted > self.allowed {
            return Err(Stop::Memory { allowed: self.allowed, wanted }.into());
        }
        self.used = wanted;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let wanted = self.table_elements.saturating_add(desired.saturating_sub(current));
        if maximum.is_some_and(|maximum| desired > maximum) || wanted > MAX_TABLE_ELEMENTS {
            return Ok(false);
        }
        self.table_elements = wanted;
        Ok(true)
    }

    fn instances(&self) -> usize {
        100
    }

    fn tables(&self) -> usize {
        100
    }

    fn memories(&self) -> usize {
        100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 65_536;

    #[test]
    fn all_memories_count_together() {
        let mut limiter = MemoryLimiter::new(4 * PAGE);
        assert!(limiter.memory_growing(0, 2 * PAGE, None).expect("within the limit"));
        assert!(limiter.memory_growing(0, PAGE, None).expect("within the limit"));
        assert!(limiter.memory_growing(2 * PAGE, 3 * PAGE, None).expect("exactly the limit"));
        let refused = limiter.memory_growing(PAGE, 2 * PAGE, None).expect_err("above the limit");
        let wanted = 5 * PAGE;
        assert!(matches!(refused.downcast_ref(), Some(Stop::Memory { wanted: w, .. }) if *w == wanted));
        assert_eq!(limiter.used(), 4 * PAGE);
    }

    #[test]
    fn a_guests_own_maximum_fails_its_grow_without_a_trap() {
        let mut limiter = MemoryLimiter::new(4 * PAGE);
        assert!(!limiter.memory_growing(0, 2 * PAGE, Some(PAGE)).expect("no trap"));
        assert_eq!(limiter.used(), 0);
    }
}
