//! What provokes each alert of the chart. Pure.

/// The trouble that the run makes, in this order. Each one stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Bad plugins, registries and objects, little memory, and a host that cannot reach its API server.
    BadPlugins,
    /// The API server of the host with the bad plugins ends.
    ApiServerEnds,
    /// All hosts end.
    HostsEnd,
}

/// An alert that has to fire.
#[derive(Debug)]
pub(super) struct Provocation {
    pub(super) alert: &'static str,
    pub(super) trouble: Trouble,
    /// A label that the alert has to have, so that no other cause counts. Empty for an alert without labels.
    pub(super) label: (&'static str, &'static str),
    /// The cause, for readers.
    pub(super) by: &'static str,
}

const fn bad(alert: &'static str, label: (&'static str, &'static str), by: &'static str) -> Provocation {
    Provocation { alert, trouble: Trouble::BadPlugins, label, by }
}

pub(super) const PROVOCATIONS: [Provocation; 16] = [
    bad("PilothouseNotReady", ("host", super::STARTING), "a host whose API server does not answer"),
    bad("PilothousePluginFailed", ("controller", "broken"), "a file that is no plugin"),
    bad(
        "PilothousePluginReloadRefused",
        ("controller", "broken"),
        "that file, replaced by another that is no plugin",
    ),
    bad("PilothousePluginBackingOff", ("controller", "trapping"), "a plugin that traps in every reconcile"),
    bad("PilothousePluginWaiting", ("controller", "waiting"), "a plugin whose watch is not granted"),
    bad("PilothousePullFailing", ("controller", "absent"), "a plugin that was not pushed"),
    bad("PilothousePluginUnverified", ("controller", "unverified"), "a tag that moves to unsigned versions"),
    bad(
        "PilothouseQueueOld",
        ("controller", "throttled"),
        "a plugin with one worker, and 60 keys of 2 s each",
    ),
    bad(
        "PilothouseThrottled",
        ("controller", "throttled"),
        "the same plugin, which reads more often than it may",
    ),
    bad("PilothouseErrorRatio", ("controller", "failing"), "a plugin whose reconciles fail"),
    bad("PilothouseHotLoop", ("controller", "looping"), "a plugin that toggles a field of its object"),
    bad("PilothouseNotSynced", ("resource", "v1/secrets"), "an API server that fails all lists of Secrets"),
    bad(
        "PilothouseMemoryNear",
        ("host", super::LOADED),
        "a container whose limit is 1.1 of what the host uses",
    ),
    bad("PilothousePluginMemoryNear", ("controller", "hoarding"), "a plugin that queues keys without end"),
    Provocation {
        alert: "PilothouseWatchStalled",
        trouble: Trouble::ApiServerEnds,
        label: ("resource", "v1/configmaps"),
        by: "an API server that ends",
    },
    Provocation { alert: "PilothouseDown", trouble: Trouble::HostsEnd, label: ("", ""), by: "all hosts end" },
];

/// An alert that the run cannot provoke, and why.
pub(super) const EXCEPTIONS: [(&str, &str); 1] = [(
    "PilothouseTaskPanicked",
    "it shows a defect of the host, and none is known; the unit tests of the host inject panics and check its metric",
)];

/// Returns the names of the alerts in a file of rules.
pub(super) fn alerts(rules: &str) -> Vec<&str> {
    rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect()
}

/// Returns a line for each alert that has no provocation and no exception, and for each of those without an alert.
pub(super) fn problems(rules: &str) -> Vec<String> {
    let alerts = alerts(rules);
    let provoked = PROVOCATIONS.iter().map(|provocation| provocation.alert);
    let known: Vec<_> = provoked.chain(EXCEPTIONS.iter().map(|(alert, _)| *alert)).collect();
    let missing = alerts.iter().filter(|alert| !known.contains(alert));
    let missing = missing
        .map(|alert| format!("{alert} has no provocation: add it to xtask/src/prometheus/chaos/table.rs"));
    let unknown = known.iter().filter(|alert| !alerts.contains(alert));
    let unknown = unknown.map(|alert| {
        format!("there is no alert {alert}: remove it from xtask/src/prometheus/chaos/table.rs")
    });
    let twice = known.iter().enumerate().filter(|(at, alert)| known[..*at].contains(alert));
    let twice = twice.map(|(_, alert)| format!("{alert} is provoked twice, or provoked and an exception"));
    missing.chain(unknown).chain(twice).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::super::monitoring;
    use super::*;

    #[test]
    fn every_alert_of_the_chart_is_provoked_or_an_exception() {
        let file = format!("{}/../{}", env!("CARGO_MANIFEST_DIR"), monitoring::ALERTS);
        let rules = std::fs::read_to_string(&file).expect("the alerts");
        assert_eq!(problems(&rules), Vec::<String>::new());
        let without_one = rules.replace("- alert: PilothouseDown\n", "- alert: Other\n");
        let found = problems(&without_one);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("Other has no provocation") && found[1].contains("no alert PilothouseDown")
        );
    }

    #[test]
    fn each_trouble_provokes_an_alert() {
        for trouble in [Trouble::BadPlugins, Trouble::ApiServerEnds, Trouble::HostsEnd] {
            assert!(PROVOCATIONS.iter().any(|provocation| provocation.trouble == trouble), "{trouble:?}");
        }
    }
}
