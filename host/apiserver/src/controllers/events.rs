//! Deletes Events an hour after their last change, as kube-apiserver does, so that their number is bounded.

use jiff::Timestamp;
use serde_json::Value;

use super::action::{Action, Plan};
use super::kind::Kind;
use super::kind_controller::KindController;
use super::object::{after_seconds, is_deleting, time, until};

/// How long Events are kept, in seconds. The default of `--event-ttl`.
const TIME_TO_LIVE: i64 = 3600;

/// Returns the controller of Events.
pub(super) fn controller() -> KindController {
    KindController::new(Kind::Event, |cluster, event| plan(event, cluster.now))
}

/// Decides whether an Event is deleted.
fn plan(event: &Value, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let times = [
        &event["metadata"]["creationTimestamp"],
        &event["lastTimestamp"],
        &event["series"]["lastObservedTime"],
    ];
    // A time in the future does not keep the Event longer than a new one.
    let changed = times.into_iter().filter_map(time).max().unwrap_or(now).min(now);
    match until(after_seconds(changed, TIME_TO_LIVE), now) {
        Some(delay) => plan.retry_after(delay),
        None if is_deleting(event) => {}
        None => plan.actions.push(Action::delete(Kind::Event, event)),
    }
    plan
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn event_is_deleted_an_hour_after_its_last_change() {
        let at = |text: &str| text.parse().expect("a time");
        let mut event = json!({"metadata": {"name": "e", "creationTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(plan(&event, at("2026-01-01T00:59:00Z")).retry_after, Some(Duration::from_secs(60)));
        assert_eq!(plan(&event, at("2026-01-01T01:00:00Z")).actions, [Action::delete(Kind::Event, &event)]);
        event["series"] = json!({"lastObservedTime": "2026-01-01T00:30:00.000000Z"});
        assert_eq!(plan(&event, at("2026-01-01T01:00:00Z")).retry_after, Some(Duration::from_secs(1800)));
        event["lastTimestamp"] = json!("2099-01-01T00:00:00Z");
        assert_eq!(plan(&event, at("2026-01-01T01:00:00Z")).retry_after, Some(Duration::from_secs(3600)));
    }
}
