//! The table of fault rules: what may be injected, and the source in Kubernetes that allows it.

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
    /// Other clients may write at any point: the order of the actors is free.
    A1,
    /// The garbage collector and the namespace controller act at any later time.
    A2,
}
