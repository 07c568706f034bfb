//! Benchmarks `pilothouse sim`: runs per second and core, and memory, for plugins in each language.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Scale;
use super::plot::number;
use super::report::machine;
use crate::catalogue::simulate;
use crate::{guests, host};

/// The plugins, each with its language, its scenario in its folder ("" for generated objects), and the runs per second and core that it should reach.
const PLUGINS: [(&str, &str, &str, u32); 6] = [
    ("two-observers", "Rust", "", 300),
    ("sample-controller", "Rust", "simulations/recreation.yaml", 300),
    ("pod-counter", "C", "", 300),
    ("sample-controller-js", "JavaScript", "simulations/recreation.yaml", 100),
    ("sample-controller-go", "Go", "simulations/recreation.yaml", 100),
    ("sample-controller-python", "Python", "simulations/recreation.yaml", 30),
];
/// The runs of the first simulation of a plugin, whose time is that of the start and of the reference.
const START_RUNS: usize = 50;
/// How many MiB a worker may take.
const MEMORY_TARGET: u32 = 200;

/// The measurements of one plugin.
struct Row {
    plugin: &'static str,
    language: &'static str,
    target: u32,
    runs: u64,
    /// Runs per second of one worker, without the start.
    rate: f64,
    /// Seconds of the first [`START_RUNS`] runs, with the start of the process.
    start_seconds: f64,
    /// Peak memory in MiB after a tenth of the runs, and after all.
    peak_mib: [f64; 2],
}

/// The results of this benchmark.
pub(super) struct Simulations {
    rows: Vec<Row>,
}

impl Simulations {
    pub(super) fn measure(root: &Path, host: &Path, scale: Scale) -> Result<Self> {
        let names = PLUGINS.map(|(name, ..)| name);
        let built = guests::build(root, &names, || host::build(root))?;
        let mut rows = Vec::new();
        for (plugin, language, scenario, target) in PLUGINS {
            println!("bench: simulations of {plugin}");
            let guest = built.iter().find(|guest| guest.name == plugin).context("a guest was not built")?;
            let scenario = (!scenario.is_empty()).then(|| root.join("examples").join(plugin).join(scenario));
            let run = |seeds: usize| {
                let arguments = ["--threads", "1", "--seeds", &seeds.to_string()];
                simulate(
                    host,
                    &guest.wasm,
                    scenario.as_deref(),
                    &guest.wasm.with_extension("traces"),
                    &arguments,
                )
            };
            // The first simulation also compiles the plugin, which the others then find in the cache.
            run(1)?;
            let [first, some, all] = [START_RUNS, scale.simulations / 10, scale.simulations].map(run);
            let (first, some, all) = (first?, some?, all?);
            ensure!(all.findings.is_empty(), "{plugin}: a correct plugin was reported: {:?}", all.findings);
            let (runs, seconds) = (all.runs.saturating_sub(first.runs), all.seconds - first.seconds);
            let peak = |mib: Option<u64>| mib.unwrap_or_default() as f64;
            rows.push(Row {
                plugin,
                language,
                target,
                runs: all.runs,
                rate: runs as f64 / seconds,
                start_seconds: first.seconds,
                peak_mib: [peak(some.peak_mib), peak(all.peak_mib)],
            });
        }
        Ok(Self { rows })
    }

    pub(super) fn results(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "plugin": row.plugin,
                "language": row.language,
                "runs": row.runs,
                "runsPerSecond": row.rate,
                "runsPerSecondTarget": row.target,
                "startSeconds": row.start_seconds,
                "peakMib": row.peak_mib,
            })
        });
        json!({"startRuns": START_RUNS, "rows": rows.collect::<Vec<_>>()})
    }

    pub(super) fn section(&self) -> String {
        let mut text = format!(
            "## Simulations\n\n`pilothouse sim` with one worker. Runs per second are those of all runs but the first {START_RUNS}, whose time includes the start of \
             the process and the reference run. The world of a scenario has up to ten objects, and that without a scenario as many as were \
             generated.\n\n{}\n\n| plugin | language | runs | runs/s | target | first {START_RUNS} runs, s | peak MiB after a tenth / all | target |\n\
             |---|---|---|---|---|---|---|---|\n",
            machine()
        );
        for row in &self.rows {
            let Row { plugin, language, target, runs, rate, start_seconds, peak_mib: [some, all] } = row;
            let _ = writeln!(
                text,
                "| {plugin} | {language} | {} | {} | ≥ {target} | {start_seconds:.2} | {some:.0} / {all:.0} | ≤ {MEMORY_TARGET} |",
                number(*runs as f64),
                number(*rate),
            );
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_has_a_row_with_its_targets() {
        let row = Row {
            plugin: "p",
            language: "Rust",
            target: 300,
            runs: 2_000,
            rate: 251.7,
            start_seconds: 0.314,
            peak_mib: [61.0, 63.0],
        };
        let simulations = Simulations { rows: vec![row] };
        let line = "| p | Rust | 2,000 | 252 | ≥ 300 | 0.31 | 61 / 63 | ≤ 200 |";
        assert!(simulations.section().lines().any(|found| found == line), "{}", simulations.section());
        assert_eq!(simulations.results()["rows"][0]["runsPerSecond"], 251.7);
    }
}
