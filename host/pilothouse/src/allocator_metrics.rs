//! The allocator's statistics as metrics, read at each scrape. They tell memory that is in use from memory that is free and was not returned to
//! the system yet.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use tikv_jemalloc_ctl::{epoch, stats};

/// Encodes the allocator's metrics.
#[derive(Debug)]
pub(crate) struct AllocatorCollector;

/// A metric: its name, its help text, and how it is read.
type AllocatorMetric = (&'static str, &'static str, fn() -> tikv_jemalloc_ctl::Result<usize>);

const METRICS: [AllocatorMetric; 3] = [
    (
        "pilothouse_allocator_allocated_bytes",
        "Bytes in allocations of the host; guests' memories and compiled code are none",
        stats::allocated::read,
    ),
    (
        "pilothouse_allocator_resident_bytes",
        "Bytes of memory that the allocator uses: allocations, gaps between them, its own data, and free pages that it has not returned yet",
        stats::resident::read,
    ),
    (
        "pilothouse_allocator_retained_bytes",
        "Bytes of address space without memory that the allocator keeps for later",
        stats::retained::read,
    ),
];

impl Collector for AllocatorCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // The statistics are those of the last time that the epoch was advanced.
        if epoch::advance().is_err() {
            return Ok(());
        }
        for (name, help, read) in METRICS {
            let Ok(bytes) = read() else { continue };
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    fn scrape() -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(AllocatorCollector));
        let mut text = String::new();
        encode(&mut text, &registry).expect("text");
        text
    }

    fn value(scrape: &str, name: &str) -> u64 {
        let line = scrape.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is missing: {scrape}")).parse().expect("a number")
    }

    #[test]
    fn an_allocation_is_counted_while_it_lives() {
        const SIZE: usize = 64 << 20;
        let allocated = |scrape: &str| value(scrape, "pilothouse_allocator_allocated_bytes");
        let held = black_box(vec![1_u8; SIZE]);
        let with = scrape();
        drop(held);
        let without = scrape();
        let freed = allocated(&with).saturating_sub(allocated(&without));
        // Other tests allocate at the same time, but by far less.
        assert!(freed > SIZE as u64 / 2, "{freed} bytes fewer: {with}{without}");
        assert!(value(&with, "pilothouse_allocator_resident_bytes") >= SIZE as u64, "{with}");
    }

    #[test]
    fn the_documentation_has_the_help_texts() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        let page = std::fs::read_to_string(page).expect("docs/metrics.md is there");
        for (name, help, _) in METRICS {
            let row = format!("| `{name}` | gauge |  | {help} |");
            assert!(page.contains(&row), "docs/metrics.md lacks {row}");
        }
    }
}
