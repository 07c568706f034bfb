//! Where plugins' code came from (compiler or cache): the engine's counters, read at each scrape.

use std::fmt;

use pilothouse_plugin::{CompileStats, Engine};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Encodes the counters of an engine's loads.
#[derive(Debug)]
pub(crate) struct CompileCollector(pub(crate) Engine);

impl Collector for CompileCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let CompileStats { cached, compiled, rejected } = self.0.compile_stats();
        let name = "pilothouse_plugin_code";
        let help = "Loads of plugin code; `outcome` is `cached` (found compiled in the cache directory), `compiled`, or `unfit` (a damaged, truncated or foreign file of that directory that was not used)";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (outcome, count) in [("cached", cached), ("compiled", compiled), ("unfit", rejected)] {
            family
                .encode_family(&[("outcome", outcome)])?
                .encode_counter::<NoLabelSet, u64, u64>(&count, None)?;
        }
        Ok(())
    }
}
