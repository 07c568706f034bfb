//! Exports a finding: what a script needs to provoke it on a real API server.
//!
//! The script (`reproduce.py`) starts `pilothouse run` behind a small proxy. It repeats what the actors of the recorded run did, in the same
//! order relative to the writes of the plugin, and the proxy injects the faults. Points are counted as in the simulation: the n-th request of
//! the plugin for a resource, the n-th event of its watches. Times are not repeated: a watch that was late is held back until the timeline
//! reaches the point at which it delivered again.

mod expectation;
mod fault;
mod labels;
mod path;
#[cfg(test)]
mod tests;
mod timeline;

use std::collections::BTreeSet;

use serde::Serialize;

use crate::analysis::RunView;
use crate::finding::story::{self, Step};
use crate::oracle::{ReferenceRuns, Violation};
use crate::plan::{Fault, Plan};
use crate::run::{Author, RequestEvent, Run};
use expectation::Expected;
use fault::ProxyFault;
use labels::Labels;
use path::Paths;
use timeline::{Entry, Timeline, Write, is_of_server};

/// The format of the document.
const FORMAT: &str = "pilothouse.dev/simulation-export/v1";
/// The largest number of writes that are listed for comparison.
const MAX_WRITES: usize = 200;

/// The script, which needs Python 3.9 or newer and its standard library.
pub const SCRIPT: &str = include_str!("reproduce.py");
/// The module `proxy.py` of the script.
pub const PROXY: &str = include_str!("proxy.py");

/// A finding in a form from which the script provokes it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Export {
    format: &'static str,
    oracle: String,
    explanation: String,
    story: Vec<String>,
    /// The plugins' files in the folder.
    plugins: Vec<String>,
    /// The file to which a reload changes the first plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    upgrade: Option<String>,
    /// The resources that the plugins watch, as `plural.group`.
    watched: Vec<String>,
    resources: Paths,
    /// The prefixes of names that the plugin draws at random: resource and prefix.
    random_prefixes: Vec<(String, String)>,
    /// The canonical addresses of the objects of the run. Events about others do not count.
    objects: BTreeSet<String>,
    setup: Vec<Write>,
    timeline: Vec<Entry>,
    gates: Vec<usize>,
    faults: Vec<ProxyFault>,
    expected: Expected,
    /// The writes of the plugin in the recorded run.
    writes: Vec<String>,
}

/// The files that are exported beside the finding.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The names of the plugins' files.
    pub plugins: Vec<String>,
    /// The name of the file to which a reload changes the first plugin.
    pub upgrade: Option<String>,
    /// The resources that the plugins watch, as `plural.group`.
    pub watched: Vec<String>,
}

/// Returns the plan of the run with whose end a finding's end is compared: with the same order of the actors, and without faults.
#[must_use]
pub fn baseline_plan(plan: &Plan) -> Plan {
    let is_order = |fault: &Fault| matches!(fault, Fault::TakeStep { .. });
    let has_faults = plan.deviations.iter().any(|deviation| !is_order(&deviation.fault));
    let kept = plan.deviations.iter().filter(|deviation| has_faults && is_order(&deviation.fault));
    Plan { deviations: kept.cloned().collect(), ..plan.clone() }
}

impl Export {
    /// Exports a violation of a run. `baseline` is the run of [`baseline_plan`].
    ///
    /// # Errors
    /// Returns what exists only in the simulation.
    pub fn of(
        view: &RunView<'_>,
        violation: &Violation,
        reference: &ReferenceRuns,
        baseline: &Run,
        files: Files,
    ) -> Result<Self, String> {
        if view.deviations.iter().any(|(_, deviation)| deviation.fault == Fault::WithholdReasons) {
            return Err("a script cannot make the host call the plugin without reasons (rule H4)".to_owned());
        }
        if view.run.plan.history.is_some() {
            return Err("a script takes one way only, and a history compares two".to_owned());
        }
        let labels = Labels::of(view);
        let mut paths = Paths::of(view);
        let write = |event: usize, entries| expectation::of_write(view, &labels, event, entries);
        let end = violation.event.filter(|event| write(*event, 0).is_some());
        let timeline = Timeline::of(view, &labels, &paths, end.unwrap_or(usize::MAX))?;
        let expected = match end.and_then(|event| write(event, timeline.entries.len())) {
            Some(expected) => expected,
            None if violation.oracle == "trap" => {
                return Err("the API server does not see that a plugin was stopped; its log does".to_owned());
            }
            None => {
                let baseline = RunView::new(baseline, reference.random()).canonical_end();
                expectation::of_end(view, &baseline, reference.mask())
                    .ok_or("neither a write of the plugin nor the objects at rest show it")?
            }
        };
        let is_own = |request: &RequestEvent| request.changed && !is_of_server(&request.resource);
        let objects: BTreeSet<_> = view
            .requests()
            .filter(|(_, event, request)| {
                let is_setup = matches!(request.author, Author::Actor(_));
                is_own(request) && (event.host > 0 || is_setup)
            })
            .map(|(_, _, request)| view.names.canonical_id(&request.object_id()).to_string())
            .collect();
        let resources: BTreeSet<_> = objects.iter().filter_map(|object| object.split(' ').next()).collect();
        paths.retain(|resource| resources.contains(resource));
        let Timeline { setup, entries, gates } = timeline;
        Ok(Self {
            format: FORMAT,
            oracle: violation.oracle.clone(),
            explanation: violation.explanation.clone(),
            story: story_of(view, violation),
            plugins: files.plugins,
            upgrade: files.upgrade,
            watched: files.watched,
            resources: paths,
            random_prefixes: reference
                .random()
                .pairs()
                .map(|(of, prefix)| (of.clone(), prefix.clone()))
                .collect(),
            objects,
            setup,
            timeline: entries,
            gates,
            faults: ProxyFault::all(view),
            expected,
            writes: writes_of(view, &labels, end.unwrap_or(usize::MAX)),
        })
    }

    /// Returns the document.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a value whose maps have text keys")
    }

    /// Returns the story as lines of text.
    #[must_use]
    pub fn story(&self) -> &[String] {
        &self.story
    }
}

fn story_of(view: &RunView<'_>, violation: &Violation) -> Vec<String> {
    let steps: Vec<Step> = story::steps_of(view, violation);
    story::align(&steps)
}

/// Returns a line for each write of the plugin up to an event.
fn writes_of(view: &RunView<'_>, labels: &Labels, end: usize) -> Vec<String> {
    view.requests()
        .filter(|(index, _, request)| {
            let is_by_plugin = matches!(request.author, Author::Plugin(_));
            *index <= end && is_by_plugin && request.is_write() && !is_of_server(&request.resource)
        })
        .take(MAX_WRITES)
        .map(|(_, _, request)| {
            let status = request.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
            let sub = if request.subresource.is_empty() {
                String::new()
            } else {
                format!("/{}", request.subresource)
            };
            format!("{} {}{sub} → {status}", request.verb, labels.of_request(request, &view.names))
        })
        .collect()
}
