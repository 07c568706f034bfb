//! One plugin per fault: the guest `faulty.wat` with the fault in one of its exports.

use serde_json::{Value, json};

use crate::harness::{Host, wat, wat_with};

/// The export in which a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultyExport {
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
    pub(super) export: FaultyExport,
    /// The guest's function that causes the fault; `None` for `outside.wat`, which is a separate guest.
    fault: Option<&'static str>,
    /// Additional limits for the sidecar. Only endless faults have short timeouts, because others could not finish in time.
    limits: &'static str,
    /// The text that must be logged or shown in the status.
    pub(super) expected_error: &'static str,
}

const fn faulty(
    name: &'static str,
    export: FaultyExport,
    fault: &'static str,
    limits: &'static str,
    expected_error: &'static str,
) -> Faulty {
    Faulty { name, export, fault: Some(fault), limits, expected_error }
}

/// Plugins that fail at every call.
pub(super) const FAILING: [Faulty; 19] = [
    faulty(
        "trap-in-describe",
        FaultyExport::Describe,
        "$traps",
        "",
        "describe trapped: wasm trap: wasm `unreachable`",
    ),
    faulty(
        "loop-in-describe",
        FaultyExport::Describe,
        "$loops",
        ", describeTimeout: 300ms",
        "limits.describeTimeout of 300ms",
    ),
    faulty(
        "memory-in-describe",
        FaultyExport::Describe,
        "$grows-memory",
        "",
        "describe exceeded limits.memory of 4 MiB by",
    ),
    faulty(
        "trap",
        FaultyExport::Reconcile,
        "$traps",
        "",
        "reconcile trapped: wasm trap: wasm `unreachable` instruction executed in traps",
    ),
    faulty(
        "loop",
        FaultyExport::Reconcile,
        "$loops",
        ", reconcileTimeout: 300ms",
        "reconcile exceeded limits.reconcileTimeout of 300ms (computed for",
    ),
    faulty(
        "memory",
        FaultyExport::Reconcile,
        "$grows-memory",
        "",
        "reconcile exceeded limits.memory of 4 MiB by growing to",
    ),
    faulty("recursion", FaultyExport::Reconcile, "$recurses", "", " in deeper < deeper"),
    faulty(
        "handles",
        FaultyExport::Reconcile,
        "$leaks-handles",
        ", handles: 500",
        "reconcile exceeded limits.handles of 500",
    ),
    faulty(
        "table",
        FaultyExport::Reconcile,
        "$grows-table",
        "",
        "reconcile exceeded limits.tableElements of 100000 by growing",
    ),
    faulty(
        "string-out",
        FaultyExport::Reconcile,
        "$says-too-much",
        ", memory: 256Mi",
        "exceeded limits.messageSize of 16 MiB",
    ),
    faulty(
        "string-in",
        FaultyExport::Reconcile,
        "$asks-too-much",
        ", memory: 256Mi",
        "exceeded limits.messageSize of 16 MiB",
    ),
    faulty(
        "object-in",
        FaultyExport::Reconcile,
        "$reads-too-much",
        ", messageSize: 2Ki",
        "exceeded limits.messageSize of 2 KiB",
    ),
    faulty(
        "object-out",
        FaultyExport::Reconcile,
        "$writes-too-much",
        ", memory: 16Mi",
        "exceeds limits.objectSize of 3 MiB",
    ),
    faulty(
        "bad-text",
        FaultyExport::Reconcile,
        "$speaks-no-text",
        "",
        "reconcile trapped: in the import log.log: invalid utf-8",
    ),
    faulty(
        "storm-on-cache",
        FaultyExport::Reconcile,
        "$storms-cache",
        ", reconcileTimeout: 300ms",
        "reconcile exceeded limits.reconcileTimeout of 300ms",
    ),
    faulty(
        "storm-on-client",
        FaultyExport::Reconcile,
        "$storms-client",
        ", reconcileTimeout: 300ms, clientQps: 5, clientBurst: 10",
        "then waited in client.get",
    ),
    faulty(
        "loop-in-observe",
        FaultyExport::Observe,
        "$loops",
        ", observeTimeout: 300ms",
        "observe exceeded limits.observeTimeout of 300ms",
    ),
    faulty(
        "trap-in-observe",
        FaultyExport::Observe,
        "$traps",
        "",
        "observe trapped: wasm trap: wasm `unreachable`",
    ),
    faulty(
        "loop-in-index",
        FaultyExport::Index,
        "$loops",
        ", indexTimeout: 300ms",
        "index.values exceeded limits.indexTimeout of 300ms",
    ),
];

/// A plugin that sleeps in its first attempt and exits in the others.
pub(super) const OUTSIDE: Faulty = Faulty {
    name: "outside",
    export: FaultyExport::Reconcile,
    fault: None,
    limits: ", reconcileTimeout: 300ms",
    expected_error: "exited with code 1",
};

/// Plugins that produce too much output without failing. The host drops what exceeds the limit.
pub(super) const FLOODING: [Faulty; 3] = [
    faulty(
        "flood-of-lines",
        FaultyExport::Reconcile,
        "$floods-log",
        ", logLinesPerSecond: 10",
        "log lines dropped: limits.logLinesPerSecond is 10",
    ),
    faulty(
        "flood-of-series",
        FaultyExport::Reconcile,
        "$floods-metrics",
        ", metricSeries: 50",
        "metric \"many\" not recorded: exceeded limits.metricSeries of 50",
    ),
    faulty(
        "flood-of-events",
        FaultyExport::Reconcile,
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
        match self.export {
            FaultyExport::Observe => watch["notify"] = true.into(),
            FaultyExport::Index => {
                watch["trigger"] = "self".into();
                watch["indexes"] = json!([{"name": "own", "computed": true}]);
            }
            FaultyExport::Describe | FaultyExport::Reconcile => watch["trigger"] = "self".into(),
        }
        let writes = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create"]}]);
        json!({
            "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "name": self.name, "watches": [watch],
            "writes": writes
        })
    }

    fn wasm(&self) -> Vec<u8> {
        let Some(fault) = self.fault else { return wat("outside") };
        let exports = [
            ("$in-describe", FaultyExport::Describe),
            ("$in-reconcile", FaultyExport::Reconcile),
            ("$in-observe", FaultyExport::Observe),
            ("$in-index", FaultyExport::Index),
        ];
        wat_with(
            "faulty",
            &exports.map(|(call, export)| (call, if export == self.export { fault } else { "$nothing" })),
        )
    }

    /// Installs the plugin.
    pub(super) fn install(&self, host: &Host) {
        // A duplicate key is an error in YAML, so the default is omitted if the fault sets its own memory limit.
        let memory = if self.limits.contains("memory:") { "" } else { ", memory: 4Mi" };
        let limits = format!("{memory}{}", self.limits);
        let limits = format!("{{{}}}", limits.trim_start_matches(", "));
        host.write_sidecar(
            self.name,
            &format!("limits: {limits}\nconfig: {}\n", self.descriptor(&host.server.namespace)),
        );
        host.install_plugin(self.name, &self.wasm());
    }
}
