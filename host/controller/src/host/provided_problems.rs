//! Decides when a plugin that another source cannot provide gets an Event. Pure: the time is passed in.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// How long there has to be a problem before it is reported. While a host starts, plugins are merely not there yet.
const PERSISTENCE: Duration = Duration::from_secs(10);
/// The interval after which another problem of the same plugin is reported. The text of a problem may come from a server.
const INTERVAL: Duration = Duration::from_secs(300);

/// The problems that there are, by the plugin's name, and what was reported of them.
#[derive(Debug, Default)]
pub(super) struct ProblemReports(BTreeMap<String, ProblemReport>);

#[derive(Debug)]
struct ProblemReport {
    since: Instant,
    /// The last report and its text.
    last: Option<(Instant, String)>,
}

impl ProblemReports {
    /// Takes the current problems. Returns those to report now.
    pub(super) fn due(&mut self, problems: &BTreeMap<String, String>, now: Instant) -> Vec<(String, String)> {
        self.0.retain(|name, _| problems.contains_key(name));
        let mut due = Vec::new();
        for (name, problem) in problems {
            let report = self.0.entry(name.clone()).or_insert(ProblemReport { since: now, last: None });
            let is_due = match &report.last {
                None => now.duration_since(report.since) >= PERSISTENCE,
                Some((at, text)) => text != problem && now.duration_since(*at) >= INTERVAL,
            };
            if is_due {
                report.last = Some((now, problem.clone()));
                due.push((name.clone(), problem.clone()));
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("p".to_owned(), text.to_owned())])
    }

    #[tokio::test]
    async fn a_problem_that_persists_is_reported_once_and_another_one_later() {
        let start = Instant::now();
        let mut reports = ProblemReports::default();
        let mut count = |seconds: u64, text: &str| {
            let problems = if text.is_empty() { BTreeMap::new() } else { problems(text) };
            reports.due(&problems, start + Duration::from_secs(seconds)).len()
        };
        assert_eq!((count(0, "pulled"), count(9, "pulled"), count(10, "gone")), (0, 0, 1));
        assert_eq!((count(11, "gone"), count(1000, "gone")), (0, 0), "the same problem");
        assert_eq!((count(1001, "denied"), count(1002, "gone")), (1, 0), "not more often than the interval");
        assert_eq!(count(1003, ""), 0);
        assert_eq!((count(1004, "gone"), count(1014, "gone")), (0, 1), "a new problem begins again");
    }
}
