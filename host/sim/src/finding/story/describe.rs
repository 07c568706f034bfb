//! Describes deviations.

use crate::plan::{Deviation, Fault, Moment};

/// Describes a deviation: what happens, and when.
#[must_use]
pub fn describe(deviation: &Deviation) -> String {
    let what = match &deviation.fault {
        Fault::Refuse(status) => format!("the request is refused with {status}"),
        Fault::Interfere => "another client changes the object first".to_owned(),
        Fault::LoseAnswer => "the request is carried out, its answer is lost".to_owned(),
        Fault::DelayRequest(delay) => format!("the request is late by {}", duration(*delay)),
        Fault::CrashBefore => "the host ends before the request".to_owned(),
        Fault::CrashAfter => "the host ends after the request, before its answer".to_owned(),
        Fault::HoldWatch(delay) => format!("the watch is late by {}", duration(*delay)),
        Fault::DropWatch(delay) => {
            format!("the watch ends, and the host lists again after {}", duration(*delay))
        }
        Fault::Restart { past } if past.is_empty() => "the host restarts".to_owned(),
        Fault::Restart { past } => {
            let past: Vec<_> =
                past.iter().map(|(resource, age)| format!("{resource} by {age} changes")).collect();
            format!("the host restarts, and its first lists are old: {}", past.join(", "))
        }
        Fault::Reload => "the plugin is reloaded".to_owned(),
        Fault::TakeStep { actor } => format!("{actor} takes the next step now"),
        Fault::HoldControllers(delay) => format!("the built-in controllers wait for {}", duration(*delay)),
        Fault::RequeueAll => "the host reconciles all objects again".to_owned(),
        Fault::WithholdReasons => "from now on, the plugin does not learn why it is called".to_owned(),
    };
    let when = match &deviation.at {
        Moment::Request { verb, resource, occurrence } => format!("{verb} {resource} no. {occurrence}"),
        Moment::Http { method, host, occurrence } => format!("{method} {host} no. {occurrence}"),
        Moment::Event { resource, occurrence } => format!("event no. {occurrence} of {resource}"),
        Moment::Rest { occurrence } => format!("rest no. {occurrence}"),
        Moment::Step { actor, step } => format!("step {step} of {actor}"),
        Moment::Time(time) => duration(*time),
    };
    format!("at {when}: {what}")
}

/// Returns the note at the end of a fault's line.
pub(super) fn fault_text(fault: &Fault) -> String {
    let rule = fault.rule();
    format!("[{rule}: {}]", rule.rule().short)
}

fn duration(milliseconds: u64) -> String {
    if milliseconds < 1000 {
        return format!("{milliseconds} ms");
    }
    let text = format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000);
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}
