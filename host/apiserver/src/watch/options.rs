use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use crate::request::Query;
use crate::request::options::invalid_options;
use crate::rest::list::parse_version;
use crate::schema::field;
use crate::status::Status;

/// Where a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With what is there now, as ADDED events.
    Synthetic,
    /// With what is there now, then a bookmark that says so; the state may not be older than this.
    Initial(u64),
    /// With the next change.
    Now,
    /// With the first change after a revision.
    After(u64),
}

/// The options of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchOptions {
    pub start: Start,
    pub bookmarks: bool,
    pub timeout: Duration,
}

impl WatchOptions {
    pub(crate) fn read(query: &Query) -> Result<Self, Status> {
        let timeout = match query.number("timeoutSeconds")? {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds),
            // kube-apiserver's --min-request-timeout: 30 minutes, and up to as much again.
            _ => Duration::from_secs(1800 + u64::try_from(Uuid::new_v4().as_u128() % 1800).unwrap_or(0)),
        };
        Ok(Self { start: read_start(query)?, bookmarks: query.flag("allowWatchBookmarks")?, timeout })
    }
}

fn read_start(query: &Query) -> Result<Start, Status> {
    let version = query.get("resourceVersion");
    let wanted = query.get("resourceVersionMatch");
    let revision = version.map(parse_version).transpose()?.unwrap_or(0);
    let forbidden =
        |path: &str, detail: &str| Err(invalid_options("ListOptions", field::forbidden(path, detail)));
    match (query.optional_flag("sendInitialEvents")?, wanted) {
        (None, Some(_)) => {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            forbidden("resourceVersionMatch", detail)
        }
        (Some(_), None) => {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            forbidden("resourceVersionMatch", detail)
        }
        (Some(_), Some(other)) if other != "NotOlderThan" => {
            let cause = field::not_supported("resourceVersionMatch", &Value::from(other), &["NotOlderThan"]);
            Err(invalid_options("ListOptions", cause))
        }
        (Some(true), _) => Ok(Start::Initial(revision)),
        (Some(false), _) if revision == 0 => Ok(Start::Now),
        (None, None) if revision == 0 => Ok(Start::Synthetic),
        _ => Ok(Start::After(revision)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(query: &str) -> Result<Start, u16> {
        read_start(&Query::parse(query).expect("a query")).map_err(|status| status.code)
    }

    #[test]
    fn the_start_follows_version_and_initial_events() {
        assert_eq!(start(""), Ok(Start::Synthetic));
        assert_eq!(start("resourceVersion=0"), Ok(Start::Synthetic));
        assert_eq!(start("resourceVersion=7"), Ok(Start::After(7)));
        let streaming = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        assert_eq!(start(streaming), Ok(Start::Initial(0)));
        assert_eq!(start(&format!("{streaming}&resourceVersion=7")), Ok(Start::Initial(7)));
        assert_eq!(start("sendInitialEvents=false&resourceVersionMatch=NotOlderThan"), Ok(Start::Now));
        assert_eq!(start("sendInitialEvents=true"), Err(422));
        assert_eq!(start("resourceVersion=7&resourceVersionMatch=NotOlderThan"), Err(422));
        assert_eq!(start("sendInitialEvents=true&resourceVersionMatch=Exact"), Err(422));
    }
}
