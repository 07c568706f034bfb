//! Finds the first event in which two runs differ.

use crate::run::{Author, Event, EventKind, Run};

/// The first difference between two runs: of their events, or of their calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The index of the event or call, from 0.
    pub index: usize,
    /// The event or call of the first run, or that it has ended.
    pub expected: String,
    /// The event or call of the second run, or that it has ended.
    pub found: String,
}

/// Returns the index of the first hash that differs or that one side lacks.
pub(crate) fn first_difference(left: &[u64], right: &[u64]) -> Option<usize> {
    let common = left.len().min(right.len());
    let position = left.iter().zip(right).position(|(left, right)| left != right);
    position.or_else(|| (left.len() != right.len()).then_some(common))
}

/// What is shown in place of an event after the last one.
pub(super) const ENDED: &str = "the run has ended";

pub(super) fn text_at(run: &Run, index: usize) -> String {
    run.events.get(index).map_or_else(|| ENDED.to_owned(), event_text)
}

/// Describes an event on one line.
#[must_use]
pub fn event_text(event: &Event) -> String {
    let text = match &event.kind {
        EventKind::HostStarted { past } if past.is_empty() => "the host starts".to_owned(),
        EventKind::HostStarted { past } => format!("the host starts with old lists {past:?}"),
        EventKind::HostEnded => "the host ends".to_owned(),
        EventKind::Reloaded => "the plugin is reloaded".to_owned(),
        EventKind::ReconcileStarted { plugin, watch, key, reasons, attempt, .. } => {
            format!(
                "{plugin} starts to reconcile {key} of {watch} ({}; attempt {attempt})",
                reasons.join(", ")
            )
        }
        EventKind::ReconcileEnded { result, .. } => format!("the reconcile ends: {result:?}"),
        EventKind::Request(request) => {
            let author = match &request.author {
                Author::Plugin(name) | Author::Actor(name) => name,
                Author::Controller => "a built-in controller",
                Author::Host => "the host",
            };
            let status = request.status.map_or_else(|| "not sent".to_owned(), |status| status.to_string());
            format!(
                "{author}: {} {} {} → {status}",
                request.verb,
                request.resource_path(),
                request.object_id().key()
            )
        }
        EventKind::Delivered { resource, change, key, version, .. } => {
            format!("{change} {resource} {key}, version {version}, is delivered")
        }
        EventKind::Http { method, url, status, .. } => format!("{method} {url} → {status:?}"),
        EventKind::HttpState { .. } => "the state of the HTTP services changes".to_owned(),
        EventKind::Deviated { deviation, .. } => super::story::describe(deviation),
        EventKind::Rest { occurrence } => format!("rest no. {occurrence}"),
        EventKind::FaultsOver => "steps and faults are over".to_owned(),
        EventKind::BusyTimeout => "the plugins do not come to rest".to_owned(),
    };
    format!("{} ms: {text}", event.time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::RunBuilder;

    #[test]
    fn the_first_difference_is_a_hash_that_differs_or_that_one_side_lacks() {
        assert_eq!(first_difference(&[1, 2], &[1, 2]), None);
        assert_eq!(first_difference(&[1, 2], &[1, 3]), Some(1));
        assert_eq!(first_difference(&[1, 2], &[1]), Some(1));
    }

    #[test]
    fn an_event_is_described_also_after_the_end() {
        let mut run = RunBuilder::new();
        run.start("a");
        let run = run.finish();
        assert!(text_at(&run, 1).contains("reconcile a of foos"), "{}", text_at(&run, 1));
        assert_eq!(text_at(&run, run.events.len()), "the run has ended");
    }
}
