//! The options of a watch.

use std::time::Duration;

use serde_json::Value;

use crate::identifiers::Identifiers;
use crate::request::Query;
use crate::request::options::{invalid_options, parse_resource_version};
use crate::schema::field;
use crate::status::{ResourceRef, Status};

/// The longest timeout of a watch: more than any server lives. A clock cannot be as late as the largest number of seconds.
const MAX_TIMEOUT: Duration = Duration::from_hours(24 * 365 * 100);

/// The first events of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchStart {
    /// Synthetic ADDED events for all current objects.
    Synthetic,
    /// ADDED events for all current objects, then a bookmark that marks their end (`sendInitialEvents`). The state must
    /// not be older than the revision.
    Initial(u64),
    /// The next change.
    Now,
    /// The first change after a revision.
    After(u64),
}

/// The options of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchOptions {
    pub start: WatchStart,
    pub bookmarks: bool,
    pub timeout: Duration,
}

impl WatchOptions {
    pub(crate) fn parse(query: &Query, identifiers: &Identifiers) -> Result<Self, Status> {
        let timeout = match query.number("timeoutSeconds")? {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds).min(MAX_TIMEOUT),
            // As in kube-apiserver: --min-request-timeout (30 minutes) plus a random part of the same length.
            _ => Duration::from_secs(1800 + u64::from(identifiers.number() % 1800)),
        };
        Ok(Self { start: parse_start(query)?, bookmarks: query.flag("allowWatchBookmarks")?, timeout })
    }
}

/// Parses `resourceVersion`, `resourceVersionMatch` and `sendInitialEvents`.
fn parse_start(query: &Query) -> Result<WatchStart, Status> {
    let version = query.get("resourceVersion");
    let version_match = query.get("resourceVersionMatch");
    let revision =
        version.map(parse_resource_version).transpose().map_err(Status::unclassified)?.unwrap_or(0);
    let forbidden =
        |path: &str, detail: &str| Err(invalid_options("ListOptions", field::forbidden(path, detail)));
    match (query.optional_flag("sendInitialEvents")?, version_match) {
        (None, Some(_)) => {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            forbidden("resourceVersionMatch", detail)
        }
        (Some(_), None) => {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            forbidden("resourceVersionMatch", detail)
        }
        (Some(_), Some(other)) if other != "NotOlderThan" => {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            let causes = vec![
                field::forbidden("resourceVersionMatch", detail),
                field::not_supported("resourceVersionMatch", &Value::from(other), &["NotOlderThan"]),
            ];
            Err(Status::invalid(
                ResourceRef { group: "meta.k8s.io", plural: "ListOptions", kind: "ListOptions" },
                "",
                causes,
            ))
        }
        (Some(true), _) => Ok(WatchStart::Initial(revision)),
        (Some(false), _) if revision == 0 => Ok(WatchStart::Now),
        (None, None) if revision == 0 => Ok(WatchStart::Synthetic),
        _ => Ok(WatchStart::After(revision)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(query: &str) -> Result<WatchStart, u16> {
        parse_start(&Query::parse(query).expect("a query")).map_err(|status| status.code)
    }

    #[test]
    fn timeout_of_any_length_is_a_time_that_a_clock_can_have() {
        for seconds in [1, u64::from(u32::MAX), u64::MAX] {
            let query = Query::parse(&format!("timeoutSeconds={seconds}")).expect("a query");
            let options = WatchOptions::parse(&query, &Identifiers::from_seed(1)).expect("options");
            assert!(tokio::time::Instant::now().checked_add(options.timeout).is_some(), "{seconds}");
        }
    }

    #[test]
    fn start_depends_on_resource_version_and_send_initial_events() {
        assert_eq!(start(""), Ok(WatchStart::Synthetic));
        assert_eq!(start("resourceVersion=0"), Ok(WatchStart::Synthetic));
        assert_eq!(start("resourceVersion=7"), Ok(WatchStart::After(7)));
        let streaming = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        assert_eq!(start(streaming), Ok(WatchStart::Initial(0)));
        assert_eq!(start(&format!("{streaming}&resourceVersion=7")), Ok(WatchStart::Initial(7)));
        assert_eq!(start("sendInitialEvents=false&resourceVersionMatch=NotOlderThan"), Ok(WatchStart::Now));
        assert_eq!(start("sendInitialEvents=true"), Err(422));
        assert_eq!(start("resourceVersion=7&resourceVersionMatch=NotOlderThan"), Err(422));
        assert_eq!(start("sendInitialEvents=true&resourceVersionMatch=Exact"), Err(422));
    }
}
