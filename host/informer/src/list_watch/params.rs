//! The query parameters of lists and watches.

use pilothouse_model::percent_encoding::query_value;

use crate::key::InformerKey;

/// The parameters of a list that the reflector varies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListParams {
    /// The required freshness: `Some("0")` accepts any cached state, another version accepts a state at least as new, and `None`
    /// requests a consistent read.
    pub resource_version: Option<String>,
    /// The most items in a page; `None` for a list without paging.
    pub limit: Option<u32>,
    /// The continue token of the page.
    pub continue_token: Option<String>,
}

/// The parameters of a watch that the reflector varies. Bookmarks are always requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchParams {
    /// The version to watch from; `None` only for a streaming list that has to be a consistent read.
    pub resource_version: Option<String>,
    /// The time in seconds after which the server ends the watch.
    pub timeout_seconds: u32,
    /// Whether the watch starts with the current state (a streaming list, `WatchList`).
    pub send_initial_events: bool,
}

impl ListParams {
    /// Returns the path and query of the list request for an informer.
    #[must_use]
    pub fn path_and_query(&self, key: &InformerKey) -> String {
        let mut query = Query::new(key);
        if let Some(version) = &self.resource_version {
            query.push("resourceVersion", version);
        }
        if let Some(limit) = self.limit {
            query.push("limit", &limit.to_string());
        }
        if let Some(token) = &self.continue_token {
            query.push("continue", token);
        }
        query.text
    }
}

impl WatchParams {
    /// Returns the path and query of the watch request for an informer.
    #[must_use]
    pub fn path_and_query(&self, key: &InformerKey) -> String {
        let mut query = Query::new(key);
        query.push("watch", "true");
        query.push("allowWatchBookmarks", "true");
        query.push("timeoutSeconds", &self.timeout_seconds.to_string());
        if let Some(version) = &self.resource_version {
            query.push("resourceVersion", version);
        }
        if self.send_initial_events {
            query.push("sendInitialEvents", "true");
            query.push("resourceVersionMatch", "NotOlderThan");
        }
        query.text
    }
}

/// A path and query under construction.
struct Query {
    text: String,
    separator: char,
}

impl Query {
    /// Starts with the informer's path and selectors.
    fn new(key: &InformerKey) -> Self {
        let mut query = Self { text: key.url_path(), separator: '?' };
        if !key.label_selector.is_empty() {
            query.push("labelSelector", &key.label_selector.to_string());
        }
        if !key.field_selector.is_empty() {
            query.push("fieldSelector", &key.field_selector.to_string());
        }
        query
    }

    fn push(&mut self, name: &str, value: &str) {
        self.text.push(std::mem::replace(&mut self.separator, '&'));
        self.text.push_str(name);
        self.text.push('=');
        self.text.push_str(&query_value(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pilothouse_model::{FieldSelector, LabelSelector, ResourceType};

    fn key() -> InformerKey {
        InformerKey::new(ResourceType {
            group: String::new(),
            version: "v1".into(),
            kind: "Pod".into(),
            plural: "pods".into(),
            namespaced: true,
        })
    }

    #[test]
    fn list_and_watch_carry_the_same_selectors_and_the_watch_requests_bookmarks() {
        let key = key()
            .in_namespace("a")
            .with_labels(LabelSelector::parse("app=web,!old").expect("labels"))
            .with_fields(FieldSelector::parse("metadata.name=x").expect("fields"));
        let selectors =
            "/api/v1/namespaces/a/pods?labelSelector=app%3Dweb%2C%21old&fieldSelector=metadata.name%3Dx";
        let list = ListParams { resource_version: Some("0".into()), ..ListParams::default() };
        assert_eq!(list.path_and_query(&key), format!("{selectors}&resourceVersion=0"));
        let watch = WatchParams {
            resource_version: Some("7".into()),
            timeout_seconds: 300,
            send_initial_events: false,
        };
        assert_eq!(
            watch.path_and_query(&key),
            format!("{selectors}&watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=7")
        );
    }

    #[test]
    fn a_streaming_list_requests_initial_events() {
        let watch = WatchParams { resource_version: None, timeout_seconds: 300, send_initial_events: true };
        assert_eq!(
            watch.path_and_query(&key()),
            "/api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds=300&sendInitialEvents=true\
             &resourceVersionMatch=NotOlderThan"
        );
    }

    #[test]
    fn pages_carry_limit_and_continue_token() {
        let list =
            ListParams { resource_version: None, limit: Some(500), continue_token: Some("a/b=".into()) };
        assert_eq!(list.path_and_query(&key()), "/api/v1/pods?limit=500&continue=a%2Fb%3D");
    }
}
