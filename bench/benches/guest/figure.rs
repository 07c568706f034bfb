//! Measures CPU time and prints figures.

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};

/// Returns the CPU time of this thread for `work`, in seconds.
pub(crate) fn cpu<T>(work: impl FnOnce() -> Result<T, String>) -> Result<f64, String> {
    let now = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
    };
    let before = now();
    work()?;
    Ok(now() - before)
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A figure with its target, and other figures that help to understand it.
pub(crate) struct Figure {
    name: String,
    unit: &'static str,
    value: f64,
    target: Option<(&'static str, f64)>,
    beside: Vec<(&'static str, f64)>,
}

impl Figure {
    pub(crate) fn new(name: &str, unit: &'static str, value: f64) -> Self {
        Self { name: name.to_owned(), unit, value, target: None, beside: Vec::new() }
    }

    pub(crate) fn target(mut self, bound: &'static str, value: f64) -> Self {
        self.target = Some((bound, value));
        self
    }

    pub(crate) fn with(mut self, name: &'static str, value: f64) -> Self {
        self.beside.push((name, value));
        self
    }

    /// Prints a line of JSON on standard output and a line for people on standard error.
    pub(crate) fn print(&self) {
        let mut line = json!({"figure": self.name, "unit": self.unit, "value": self.value});
        let mut text = format!("{}: {:.2} {}", self.name, self.value, self.unit);
        if let Some((bound, target)) = self.target {
            line["target"] = json!({"is": bound, "value": target});
            text += &format!(" (target: {bound} {target})");
        }
        let beside: Map<String, Value> =
            self.beside.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        for (name, value) in &beside {
            text += &format!("; {name}: {:.2}", value.as_f64().unwrap_or(f64::NAN));
        }
        line["beside"] = Value::Object(beside);
        println!("{line}");
        eprintln!("{text}");
    }
}
