//! What is to happen in one run: a seed, and deviations from the default schedule.

use serde::{Deserialize, Serialize};

use crate::rules::RuleId;
use crate::search::MAX_REQUEST_DELAY;

/// One run's input. Without deviations, the default schedule is followed: no faults, every delivery at once, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Plan {
    /// The seed of everything random in the world: UIDs, generated names, jitter, the guests' random numbers.
    pub seed: u64,
    /// Deviations, each applied once. A deviation whose moment never comes is skipped, and
    /// [`Run::skipped`](crate::Run::skipped) lists it.
    pub deviations: Vec<Deviation>,
    /// Steps of actors that are not taken. Shrinking finds them; the default schedule of a scenario takes all steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<ActorStep>,
    /// What an actor does in place of its steps. `None` for the steps of the scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<HistoryPlan>,
}

/// One of the two ways of a [`History`](crate::scenario::history::History).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryPlan {
    /// Which of the histories, from 0.
    pub index: usize,
    /// Whether the actor takes the shorter way to the same objects.
    pub is_shorter: bool,
}

/// A step of an actor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActorStep {
    /// The actor's name.
    pub actor: String,
    /// Which of its steps, from 1.
    pub step: u32,
}

impl Plan {
    /// Returns a plan in which the actors take all steps.
    #[must_use]
    pub fn new(seed: u64, deviations: Vec<Deviation>) -> Self {
        Self { seed, deviations, left_out: Vec::new(), history: None }
    }

    /// Returns a plan without deviations in which an actor takes one of the ways of a history.
    #[must_use]
    pub fn of_history(seed: u64, index: usize, is_shorter: bool) -> Self {
        Self { history: Some(HistoryPlan { index, is_shorter }), ..Self::new(seed, Vec::new()) }
    }
}

/// One deviation from the default schedule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Deviation {
    /// When it happens.
    pub at: Moment,
    /// What happens.
    pub fault: Fault,
}

impl Deviation {
    /// Returns why no rule allows the deviation; `None` if one does. A fault whose form does not fit its moment has no effect, so it is allowed.
    #[must_use]
    pub fn broken_rule(&self) -> Option<String> {
        let rule = self.fault.rule();
        match self.fault {
            Fault::Refuse(429 | 500..=599) => None,
            Fault::Refuse(status) => {
                Some(format!("rule {rule}: no request is refused with {status}, only with 429 or 500 to 599"))
            }
            Fault::DelayRequest(ms) if ms > MAX_REQUEST_DELAY => Some(format!(
                "rule {rule}: no request is delayed by {ms} ms, only by at most {MAX_REQUEST_DELAY} ms"
            )),
            _ => None,
        }
    }
}

/// A point in a run. Occurrences are counted from 1 over the whole run, restarts included.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Moment {
    /// The n-th request of the plugin with this verb for this resource. Only for faults of requests and hosts.
    Request {
        /// The verb, in the notation of RBAC: `create`, `update`, `patch`, `delete`, `get`, `list`.
        verb: String,
        /// The resource as `plural.group`, with `/subresource`: `deployments.apps/status`.
        resource: String,
        /// Which of the matching requests.
        occurrence: u32,
    },
    /// The n-th HTTP request of the plugin with this method to this host. Only for faults of hosts and for lost answers.
    Http {
        /// The method in upper case.
        method: String,
        /// The host of the URL, without the port.
        host: String,
        /// Which of the matching requests.
        occurrence: u32,
    },
    /// The n-th event that the server sends for a watch of the host on this resource. Only for faults of watches and
    /// hosts.
    Event {
        /// The resource as `plural.group`.
        resource: String,
        /// Which of the events.
        occurrence: u32,
    },
    /// The n-th time that the world is at rest: nothing is in flight, and no timer of the plugin is due within the
    /// rest period. 1 is the rest after the start, before the scenario's first step.
    Rest {
        /// Which of the rests.
        occurrence: u32,
    },
    /// A step of an actor of the scenario, just before it is taken.
    Step {
        /// The actor's name.
        actor: String,
        /// Which of its steps, from 1.
        step: u32,
    },
    /// Virtual milliseconds since the start.
    Time(u64),
}

/// What happens at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fault {
    /// The request is refused with this HTTP status; nothing is done (W1).
    Refuse(u16),
    /// Another client changes an annotation of the object just before the request (W2). An update with a resource
    /// version then conflicts.
    Interfere,
    /// The request is carried out, and its answer is lost: the connection ends (W3). Also for an HTTP request.
    LoseAnswer,
    /// The request reaches the server only after this many virtual milliseconds (W4).
    DelayRequest(u64),
    /// The host's process ends just before the request is sent, and starts again (H1).
    CrashBefore,
    /// The host's process ends after the server carried the request out, before the answer arrives, and starts again
    /// (H1).
    CrashAfter,
    /// The watch delivers this event and all later ones late by this many virtual milliseconds (V1). After that time
    /// the watch catches up.
    HoldWatch(u64),
    /// The watch ends instead of delivering this event, and the host lists again after this many virtual milliseconds
    /// (V2). What came between is merged.
    DropWatch(u64),
    /// The host restarts (H1). The first list of each named resource is answered with the objects as they were this
    /// many changes of that resource ago (V3); other lists are current.
    Restart {
        /// Pairs of resource (`plural.group`) and number of changes.
        past: Vec<(String, u32)>,
    },
    /// The plugin is reloaded from the same file, or from the file of `--upgrade` (H2).
    Reload,
    /// The next step of this actor is taken now instead of at its default moment (A1): at a request, before the request reaches the server.
    TakeStep {
        /// The actor's name.
        actor: String,
    },
    /// The built-in controllers of the server (garbage collection, namespaces) do nothing for this many virtual
    /// milliseconds (A2).
    HoldControllers(u64),
    /// The host reconciles every object of the plugin's target watches again, as a resync does (H3).
    RequeueAll,
    /// From now on, the plugin does not learn why a key is reconciled: each request has the reason `other` alone, and is a first attempt (H4).
    WithholdReasons,
}

impl Fault {
    /// Returns the rule that allows the fault.
    #[must_use]
    pub fn rule(&self) -> RuleId {
        match self {
            Self::Refuse(_) => RuleId::W1,
            Self::Interfere => RuleId::W2,
            Self::LoseAnswer => RuleId::W3,
            Self::DelayRequest(_) => RuleId::W4,
            Self::CrashBefore | Self::CrashAfter => RuleId::H1,
            Self::HoldWatch(_) => RuleId::V1,
            Self::DropWatch(_) => RuleId::V2,
            Self::Restart { past } if past.is_empty() => RuleId::H1,
            Self::Restart { .. } => RuleId::V3,
            Self::Reload => RuleId::H2,
            Self::TakeStep { .. } => RuleId::A1,
            Self::HoldControllers(_) => RuleId::A2,
            Self::RequeueAll => RuleId::H3,
            Self::WithholdReasons => RuleId::H4,
        }
    }
}
