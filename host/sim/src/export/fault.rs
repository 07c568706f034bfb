//! The faults that a script's proxy injects: those at a request of the plugin or at an event of a watch.

use serde::Serialize;

use crate::analysis::RunView;
use crate::plan::{Fault, Moment};

/// The longest delay of a request, in milliseconds. The host gives up later.
const MAX_DELAY: u64 = 20_000;

/// A fault, and when it is injected. Occurrences are counted from 1.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProxyFault {
    /// The verb, resource and occurrence of a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<(String, String, u32)>,
    /// The resource and occurrence of an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<(String, u32)>,
    /// The rule that allows it.
    rule: String,
    #[serde(flatten)]
    effect: Effect,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
enum Effect {
    Refuse { code: u16 },
    Interfere,
    LoseAnswer,
    Delay { milliseconds: u64 },
    CrashBefore,
    CrashAfter,
    Hold,
    Drop,
    Restart { past: Vec<(String, u32)> },
    Reload,
}

impl ProxyFault {
    /// Returns the faults that took effect in a run.
    pub(super) fn all(view: &RunView<'_>) -> Vec<Self> {
        view.deviations
            .iter()
            .filter_map(|(_, deviation)| Self::of(&deviation.at, &deviation.fault))
            .collect()
    }

    fn of(at: &Moment, fault: &Fault) -> Option<Self> {
        let (request, event) = match at {
            Moment::Request { verb, resource, occurrence } => {
                (Some((verb.clone(), resource.clone(), *occurrence)), None)
            }
            Moment::Event { resource, occurrence } => (None, Some((resource.clone(), *occurrence))),
            // Findings with HTTP services are not exported.
            Moment::Http { .. } | Moment::Rest { .. } | Moment::Step { .. } | Moment::Time(_) => return None,
        };
        let effect = match fault {
            Fault::Refuse(code) => Effect::Refuse { code: *code },
            Fault::Interfere => Effect::Interfere,
            Fault::LoseAnswer => Effect::LoseAnswer,
            Fault::DelayRequest(delay) => Effect::Delay { milliseconds: (*delay).min(MAX_DELAY) },
            Fault::CrashBefore => Effect::CrashBefore,
            Fault::CrashAfter => Effect::CrashAfter,
            Fault::HoldWatch(_) => Effect::Hold,
            Fault::DropWatch(_) => Effect::Drop,
            Fault::Restart { past } => Effect::Restart { past: past.clone() },
            Fault::Reload => Effect::Reload,
            // The timeline contains the step and the resync. No script can hold the controllers of a cluster, or change what a plugin learns.
            Fault::TakeStep { .. }
            | Fault::HoldControllers(_)
            | Fault::RequeueAll
            | Fault::WithholdReasons => return None,
        };
        Some(Self { request, event, rule: fault.rule().to_string(), effect })
    }
}
