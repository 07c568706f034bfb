//! The table of fault rules: what may be injected, and the source in Kubernetes that allows it.
//!
//! Nothing outside this table can be injected. A finding names the rules of its faults, so that its reader can check
//! that a real cluster behaves so, too.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// The identifier of a rule. Each deviation names exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RuleId {
    /// A watch event may arrive late. Order within one watch holds; order across watches does not.
    V1,
    /// A watch may end and be followed by a new list, which hides what came between.
    V2,
    /// After a restart, a list with `resourceVersion=0` may be answered from the past.
    V3,
    /// A request may be refused with 429 or a 5xx before anything was done.
    W1,
    /// A request may be answered with a conflict because another client wrote the object in between.
    W2,
    /// A request may be carried out although its answer is lost.
    W3,
    /// A request may take long.
    W4,
    /// The host's process may end at any point, and start again.
    H1,
    /// The plugin may be reloaded at any point.
    H2,
    /// A key may be reconciled again although nothing changed.
    H3,
    /// The reasons and the number of attempts are informational.
    H4,
    /// Other clients may write at any point: the order of the actors is free.
    A1,
    /// The garbage collector and the namespace controller act at any later time.
    A2,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The identifier.
    pub id: RuleId,
    /// A few words for the end of a finding.
    pub short: &'static str,
    /// What may happen, and what stays guaranteed.
    pub what: &'static str,
    /// Where Kubernetes says or does so. Paths are those of the repository kubernetes/kubernetes.
    pub source: &'static str,
}

/// All rules, in the order of the table.
pub const RULES: [Rule; 13] = [
    Rule {
        id: RuleId::V1,
        short: "a watch may be late",
        what: "The events of a watch arrive late. Their order within the watch holds, and a view never goes back while the process runs. \
               Two watches are late independently of each other.",
        source: "KEP-5647 (stale controllers); `staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go` (each watcher has a buffer of its own)",
    },
    Rule {
        id: RuleId::V2,
        short: "a relist hides what came between",
        what: "A watch ends, and the client lists again. Changes in between are seen as one; an object that was created and deleted in \
               between is never seen.",
        source: "`staging/src/k8s.io/client-go/tools/cache/reflector.go` (relist after 410 Gone) and `delta_fifo.go` (`DeletedFinalStateUnknown`)",
    },
    Rule {
        id: RuleId::V3,
        short: "the first list after a restart may be old",
        what: "After a restart, the first list of a resource shows the past, because it asks for `resourceVersion=0` and another API server \
               may lag. The watch that follows catches up. Each resource has an age of its own.",
        source: "kubernetes.io, Kubernetes API Concepts, \"Semantics for get and list\" (`resourceVersion=\"0\"`: any version, possibly much older \
                 than the client has observed); `reflector.go` (`relistResourceVersion`); kubernetes/kubernetes#59848",
    },
    Rule {
        id: RuleId::W1,
        short: "a request may be refused",
        what: "A request is answered with 429 or a 5xx, and nothing was done.",
        source: "`staging/src/k8s.io/apiserver/pkg/server/filters/priority-and-fairness.go` (429); \
                 `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go` (`StatusReasonServerTimeout`, `StatusReasonInternalError`, \
                 `StatusReasonServiceUnavailable`)",
    },
    Rule {
        id: RuleId::W2,
        short: "another client may write in between",
        what: "Another client changes an annotation of the object just before the request. An update with a resource version is then \
               answered with 409.",
        source: "kubernetes.io, Kubernetes API Concepts, \"Updates to existing resources\"; \
                 `staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go` (`OptimisticLockErrorMsg`)",
    },
    Rule {
        id: RuleId::W3,
        short: "carried out, answer lost",
        what: "The server carries the request out, and the connection ends before the answer arrives. The same happens to HTTP requests of the plugin.",
        source: "`staging/src/k8s.io/apiserver/pkg/server/filters/timeout.go` (the handler goes on after the time-out was answered); TCP; RFC 9110, \
                 section 9.2.2 (a client may not learn whether a request took effect)",
    },
    Rule {
        id: RuleId::W4,
        short: "a request may take long",
        what: "The request reaches the server late. Other requests may overtake it.",
        source: "`priority-and-fairness.go` (requests wait in queues); `staging/src/k8s.io/apiserver/pkg/server/config.go` (`RequestTimeout`, 60 s)",
    },
    Rule {
        id: RuleId::H1,
        short: "the process may end at any point",
        what: "The host's process ends between any two of its requests, HTTP requests included, or between a request and its answer, and starts \
               again with an empty memory.",
        source: "kubernetes.io, Pod Lifecycle (a container may be killed at any time: eviction, OOM, node failure)",
    },
    Rule {
        id: RuleId::H2,
        short: "a plugin may be reloaded at any point",
        what: "The plugin's file is replaced. The running version finishes its reconciles, and a new instance with an empty memory takes over.",
        source: "Pilothouse: docs/architecture.md (`swap`)",
    },
    Rule {
        id: RuleId::H3,
        short: "a key may be reconciled again at any time",
        what: "The host reconciles all objects of the plugin's target watches again, although nothing has changed, with the reason `resync`.",
        source: "`staging/src/k8s.io/client-go/tools/cache/shared_informer.go` (resync); `wit/types.wit` (`reason.resync`)",
    },
    Rule {
        id: RuleId::H4,
        short: "reasons are informational",
        what: "The plugin does not learn why a key is reconciled, nor how often that has failed: the only reason is `other`, and `attempt` is 0.",
        source: "`wit/types.wit`: \"a correct reconcile produces the same result without them\"; the host merges reasons, and forgets them when it restarts",
    },
    Rule {
        id: RuleId::A1,
        short: "other clients may write at any point",
        what: "The steps of different actors may come in any order, and at any point of the plugin's work. The steps of one actor keep their order. A step at a request comes before the request.",
        source: "kubernetes.io, Kubernetes API Concepts (clients are not coordinated)",
    },
    Rule {
        id: RuleId::A2,
        short: "built-in controllers act later",
        what: "The garbage collector and the namespace controller act at any later time.",
        source: "`pkg/controller/garbagecollector/garbagecollector.go` (it works from queues and its own informers); kubernetes.io, Garbage Collection",
    },
];

impl RuleId {
    /// Returns the rule's row of the table.
    #[must_use]
    pub fn rule(self) -> &'static Rule {
        RULES.iter().find(|rule| rule.id == self).expect("a row for each rule")
    }
}

impl Display for RuleId {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self:?}")
    }
}

/// Returns the table as lines of Markdown.
#[must_use]
pub fn markdown_table() -> String {
    let mut text = "| rule | what may happen | source |\n|---|---|---|\n".to_owned();
    for Rule { id, what, source, .. } in &RULES {
        text.push_str(&format!("| {id} | {what} | {source} |\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_one_row_in_the_order_of_the_identifiers() {
        let ids: Vec<_> = RULES.iter().map(|rule| rule.id).collect();
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(ids.len(), sorted.len());
        assert_eq!(RuleId::A2.rule().id, RuleId::A2);
        assert_eq!(RuleId::V1.to_string(), "V1");
    }

    #[test]
    fn the_table_has_one_line_per_rule() {
        assert_eq!(markdown_table().lines().count(), 2 + RULES.len());
        assert!(markdown_table().lines().all(|line| line.starts_with('|') && line.ends_with('|')));
    }
}
