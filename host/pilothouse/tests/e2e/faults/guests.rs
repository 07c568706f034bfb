//! One plugin per fault, made of one guest: `faulty.wat`, with the fault put into one of its exports.

use serde_json::{Value, json};

use crate::harness::{Host, wat, wat_with};

/// Where a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum In {
    Describe,
    Reconcile,
    Observe,
    Index,
}

/// A plugin with a fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faulty {
    /// The plugin's name.
    pub(super) name: &'static str,
    pub(super) place: In,
    /// The function of the guest; none for `outside.wat`, which is a guest of its own.
    fault: Option<&'static str>,
    /// Further limits, as they stand in the sidecar: short times only for what would go on, or other faults might not be done in time.
    limits: &'static str,
    /// What must be said of it.
    pub(super) complaint: &'static str,
}

const fn faulty(
    name: &'static str,
    place: In,
    fault: &'static str,
    limits: &'static str,
    complaint: &'static str,
) -> Faulty {
    Faulty { name, place, fault: Some(fault), limits, complaint }
}

/// Those that fail at every call.
pub(super) const FAILING: [Faulty; 19] = [
    faulty("trap-in-describe", In::Describe, "$traps", "", "describe trapped: wasm trap: wasm `unreachable`"),
    faulty(
        "loop-in-describe",
        In::Describe,
        "$loops",
        ", describeTimeout: 300ms",
        "limits.describeTimeout of 300ms",
    ),
    faulty(
        "memory-in-describe",
        In::Describe,
        "$grows-memory",
        "",
        "describe exceeded limits.memory of 4 MiB by",
    ),
    faulty(
        "trap",
        In::Reconcile,
        "$traps",
        "",
        "reconcile trapped: wasm trap: wasm `unreachable` instruction executed in traps",
    ),
    faulty(
        "loop",
        In::Reconcile,
        "$loops",
        ", reconcileTimeout: 300ms",
        "reconcile exceeded limits.reconcileTimeout of 300ms (computed for",
    ),
    faulty(
        "memory",
        In::Reconcile,
        "$grows-memory",
        "",
        "reconcile exceeded limits.memory of 4 MiB by growing to",
    ),
    faulty(
        "recursion",
        In::Reconcile,
        "$recurses",
        "",
        "reconcile exceeded its stack of 512 KiB in deeper < deeper",
    ),
    faulty(
        "handles",
        In::Reconcile,
        "$leaks-handles",
        ", handles: 500",
        "reconcile exceeded limits.handles of 500",
    ),
    faulty(
        "table",
        In::Reconcile,
        "$grows-table",
        "",
        "reconcile exceeded limits.tableElements of 100000 by growing",
    ),
    faulty(
        "string-out",
        In::Reconcile,
        "$says-too-much",
        ", memory: 256Mi",
        "exceeded limits.messageSize of 16 MiB",
    ),
    faulty(
        "string-in",
        In::Reconcile,
        "$asks-too-much",
        ", memory: 256Mi",
        "exceeded limits.messageSize of 16 MiB",
    ),
    faulty(
        "object-in",
        In::Reconcile,
        "$reads-too-much",
        ", messageSize: 2Ki",
        "exceeded limits.messageSize of 2 KiB",
    ),
    faulty(
        "object-out",
        In::Reconcile,
        "$writes-too-much",
        ", memory: 16Mi",
        "exceeds limits.objectSize of 3 MiB",
    ),
    faulty("bad-text", In::Reconcile, "$speaks-no-text", "", "reconcile trapped: invalid utf-8"),
    faulty(
        "storm-on-cache",
        In::Reconcile,
        "$storms-cache",
        ", reconcileTimeout: 300ms",
        "reconcile exceeded limits.reconcileTimeout of 300ms",
    ),
    faulty(
        "storm-on-client",
        In::Reconcile,
        "$storms-client",
        ", reconcileTimeout: 300ms, clientQps: 5, clientBurst: 10",
        "then waited in client.get",
    ),
    faulty(
        "loop-in-observe",
        In::Observe,
        "$loops",
        ", observeTimeout: 300ms",
        "observe exceeded limits.observeTimeout of 300ms",
    ),
    faulty("trap-in-observe", In::Observe, "$traps", "", "observe trapped: wasm trap: wasm `unreachable`"),
    faulty(
        "loop-in-index",
        In::Index,
        "$loops",
        ", indexTimeout: 300ms",
        "index.values exceeded limits.indexTimeout of 300ms",
    ),
];

/// Sleeps in its first attempt and exits in the others.
pub(super) const OUTSIDE: Faulty = Faulty {
    name: "outside",
    place: In::Reconcile,
    fault: None,
    limits: ", reconcileTimeout: 300ms",
    complaint: "exited with code 1",
};

/// Those that do too much without failing: the limit takes the rest away.
pub(super) const FLOODING: [Faulty; 3] = [
    faulty(
        "flood-of-lines",
        In::Reconcile,
        "$floods-log",
        ", logLinesPerSecond: 10",
        "log lines dropped: limits.logLinesPerSecond is 10",
    ),
    faulty(
        "flood-of-series",
        In::Reconcile,
        "$floods-metrics",
        ", metricSeries: 50",
        "metric \"many\" not recorded: exceeded limits.metricSeries of 50",
    ),
    faulty(
        "flood-of-events",
        In::Reconcile,
        "$floods-events",
        ", eventsPerSecond: 1",
        "Events are dropped: limits.eventsPerSecond is 1",
    ),
];

impl Faulty {
    fn descriptor(&self, namespace: &str) -> Value {
        let mut watch = json!({
            "name": "scripts", "apiVersion": "v1", "kind": "ConfigMap", "labelSelector": "test=conformance",
            "namespaces": [namespace]
        });
        match self.place {
            In::Observe => watch["notify"] = true.into(),
            In::Index => {
                watch["trigger"] = "self".into();
                watch["indexes"] = json!([{"name": "own", "computed": true}]);
            }
            In::Describe | In::Reconcile => watch["trigger"] = "self".into(),
        }
        let writes = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create"]}]);
        json!({
            "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "name": self.name, "watches": [watch],
            "writes": writes
        })
    }

    fn wasm(&self) -> Vec<u8> {
        let Some(fault) = self.fault else { return wat("outside") };
        let places = [
            ("$in-describe", In::Describe),
            ("$in-reconcile", In::Reconcile),
            ("$in-observe", In::Observe),
            ("$in-index", In::Index),
        ];
        wat_with(
            "faulty",
            &places.map(|(call, place)| (call, if place == self.place { fault } else { "$nothing" })),
        )
    }

    /// Puts the plugin into the host's directory.
    pub(super) fn drop_into(&self, host: &Host) {
        // A later member would be the same twice: what the fault wants takes the place of the default.
        let memory = if self.limits.contains("memory:") { "" } else { ", memory: 4Mi" };
        let limits = format!("{memory}{}", self.limits);
        let limits = format!("{{{}}}", limits.trim_start_matches(", "));
        host.sidecar(
            self.name,
            &format!("limits: {limits}\nconfig: {}\n", self.descriptor(&host.server.namespace)),
        );
        host.drop_in(self.name, &self.wasm());
    }
}
