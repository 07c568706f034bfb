//! Lists, pages and watches, checked against the model.

use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::api::{Api, Watch};
use crate::model::{Filter, Key, Model, Object, Selection};
use crate::operations::object;

/// The selections that are listed and watched.
pub(crate) const SELECTIONS: [Selection; 6] = [
    Selection { namespace: None, filter: Filter::None },
    Selection { namespace: Some("default"), filter: Filter::None },
    Selection { namespace: None, filter: Filter::Color(1) },
    Selection { namespace: Some("kube-system"), filter: Filter::NotColor(1) },
    Selection { namespace: Some("default"), filter: Filter::Name("a") },
    Selection { namespace: None, filter: Filter::NotColor(2) },
];

/// Returns the URI of a list or watch.
fn uri(selection: &Selection, query: &str) -> String {
    let namespace =
        selection.namespace.map(|namespace| format!("namespaces/{namespace}/")).unwrap_or_default();
    let filter = match selection.filter {
        Filter::None => String::new(),
        Filter::Color(color) => format!("&labelSelector=color%3D{color}"),
        Filter::NotColor(color) => format!("&labelSelector=color!%3D{color}"),
        Filter::Name(name) => format!("&fieldSelector=metadata.name%3D{name}"),
    };
    format!("/apis/apps/v1/{namespace}deployments?{query}{filter}")
}

fn revision(list: &Value) -> u64 {
    let text = list["metadata"]["resourceVersion"].as_str().expect("a resourceVersion");
    text.parse().expect("a number")
}

fn items(list: &Value) -> Vec<(Key, Object)> {
    list["items"].as_array().expect("a list").iter().map(object).collect()
}

/// Checks lists of the selection for a resourceVersion in each mode.
pub(crate) async fn check_lists(api: &Api, model: &Model, selection: &Selection, version: u64) {
    let current = api.server.revision();
    for exact in [
        format!("resourceVersion={version}&resourceVersionMatch=Exact"),
        format!("resourceVersion={version}&limit=100"),
    ] {
        let answer = api.get(&uri(selection, &exact)).await;
        if version < model.complete_after {
            answer.fails(410, "Expired");
        } else {
            let list = answer.ok();
            assert_eq!(revision(&list), version, "{exact}");
            assert_eq!(items(&list), selection.of(&model.state_at(version)), "{exact} of {selection:?}");
        }
    }
    let not_older = format!("resourceVersion={version}&resourceVersionMatch=NotOlderThan");
    for query in [not_older.as_str(), &format!("resourceVersion={version}"), "resourceVersion=0", ""] {
        let list = api.get(&uri(selection, query)).await.ok();
        let found = revision(&list);
        let oldest = if query.is_empty() {
            current
        } else if query.ends_with("=0") {
            1
        } else {
            version
        };
        assert!((oldest..=current).contains(&found), "{query}: {found}, and the current one is {current}");
        assert_eq!(items(&list), selection.of(&model.state_at(found)), "{query} of {selection:?}");
    }
}

/// Checks that versions of the future are refused.
pub(crate) async fn check_future(api: &Api, selection: &Selection) {
    let future = api.server.revision() + 1;
    for query in ["", "&resourceVersionMatch=Exact", "&resourceVersionMatch=NotOlderThan"] {
        let answer = api.get(&uri(selection, &format!("resourceVersion={future}{query}"))).await;
        answer.fails(504, "Timeout");
    }
    let mut watch = open(api, &uri(selection, &format!("watch=true&resourceVersion={future}"))).await;
    let error = watch.next().await.expect("an event");
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(504)));
    assert_eq!(watch.next().await, None);
}

/// A list in pages, which other operations interrupt.
pub(crate) struct Pages {
    selection: Selection,
    limit: usize,
    token: Option<String>,
    /// The version of the first page.
    version: Option<u64>,
    found: Vec<(Key, Object)>,
}

impl Pages {
    pub(crate) fn new(limit: usize, selection: Selection) -> Self {
        Self { selection, limit, token: None, version: None, found: Vec::new() }
    }

    /// Reads the next page. Returns `None` after the last.
    pub(crate) async fn next(mut self, api: &Api, model: &Model) -> Option<Self> {
        let token = self.token.take();
        let query = token.as_ref().map(|token| format!("&continue={token}")).unwrap_or_default();
        let answer = api.get(&uri(&self.selection, &format!("limit={}{query}", self.limit))).await;
        if let Some(version) = self.version.filter(|version| *version < model.complete_after) {
            let expired = answer.fails(410, "Expired");
            let token = expired["metadata"]["continue"].as_str().expect("a token to go on with");
            self.check_inconsistent_rest(api, model, token, version).await;
            return None;
        }
        let list = answer.ok();
        let version = *self.version.get_or_insert(revision(&list));
        assert_eq!(revision(&list), version, "all pages are of the first one's version");
        let page = items(&list);
        assert!(page.len() <= self.limit);
        self.found.extend(page);
        let all = self.selection.of(&model.state_at(version));
        let rest = all.len() - self.found.len().min(all.len());
        let remaining = (rest > 0 && self.selection.filter == Filter::None).then_some(rest);
        assert_eq!(list["metadata"]["remainingItemCount"].as_u64(), remaining.map(|rest| rest as u64));
        self.token = list["metadata"]["continue"].as_str().map(str::to_owned);
        assert_eq!(self.token.is_some(), rest > 0, "there is a token if and only if there is another page");
        if self.token.is_none() {
            assert_eq!(self.found, all, "{:?} in pages of {}", self.selection, self.limit);
            return None;
        }
        Some(self)
    }

    /// Checks that the token of an expired list leads to the current objects after the last page.
    async fn check_inconsistent_rest(&self, api: &Api, model: &Model, token: &str, version: u64) {
        let list = api.get(&uri(&self.selection, &format!("continue={token}"))).await.ok();
        assert!(revision(&list) >= version);
        let last = self.found.last().map(|(key, _)| *key);
        let mut rest = self.selection.of(model.current());
        rest.retain(|(key, _)| Some(*key) > last);
        assert_eq!(items(&list), rest);
    }
}

async fn open(api: &Api, uri: &str) -> Watch {
    let request = Request::get(uri).body(Full::<bytes::Bytes>::default()).expect("a request");
    let Ok(response) = api.server.service().oneshot(request).await;
    assert_eq!(response.status(), 200, "{uri}");
    Watch::new(response.into_body())
}

/// A watch that is read when all operations are done.
pub(crate) struct OpenWatch {
    watch: Watch,
    selection: Selection,
    from: u64,
}

/// Two seconds before its end, the watch sends a bookmark.
const OPTIONS: &str = "watch=true&allowWatchBookmarks=true&timeoutSeconds=5";

impl OpenWatch {
    /// Opens a watch from a version.
    pub(crate) async fn new(api: &Api, selection: Selection, from: u64) -> Self {
        let watch = open(api, &uri(&selection, &format!("{OPTIONS}&resourceVersion={from}"))).await;
        Self { watch, selection, from }
    }

    /// Checks all events of a watch that was opened after the last operation.
    pub(crate) async fn check_replay(mut self, api: &Api, model: &Model) {
        if self.from < model.complete_after {
            let error = self.watch.next().await.expect("an event");
            assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
            assert_eq!(self.watch.next().await, None);
            return;
        }
        self.check_events(api, model).await;
    }

    /// Checks the events of a watch that was opened before other operations. It ends if it has fallen behind the history.
    pub(crate) async fn check_missed(mut self, api: &Api, model: &Model) {
        if self.from < model.complete_after {
            assert_eq!(self.watch.next().await, None);
            return;
        }
        self.check_events(api, model).await;
    }

    async fn check_events(&mut self, api: &Api, model: &Model) {
        let expected = model.events_after(self.from, &self.selection);
        let mut found = Vec::new();
        let mut bookmarks = Vec::new();
        while let Some(event) = self.watch.next().await {
            if event["type"] == "BOOKMARK" {
                bookmarks.push(revision(&event["object"]));
            } else {
                assert_eq!(bookmarks, [0_u64; 0], "a change after the bookmark: {event:#}");
                let (key, object) = object(&event["object"]);
                found.push((event["type"].as_str().expect("a type").to_owned(), key, object));
            }
        }
        let found: Vec<_> =
            found.iter().map(|(kind, key, object)| (kind.as_str(), *key, object.clone())).collect();
        assert_eq!(found, expected, "{:?} from {}", self.selection, self.from);
        assert_eq!(
            bookmarks,
            [api.server.revision()],
            "the bookmark has the version of the last change to anything"
        );
    }
}

/// Checks watches that begin with the current objects.
pub(crate) async fn check_initial_events(api: &Api, model: &Model, selection: &Selection) {
    let streaming = format!("{OPTIONS}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    for query in [OPTIONS, &format!("{OPTIONS}&resourceVersion=0"), &streaming] {
        let mut watch = open(api, &uri(selection, query)).await;
        for expected in selection.of(model.current()) {
            let event = watch.next().await.expect("an event");
            assert_eq!((&event["type"], object(&event["object"])), (&json!("ADDED"), expected));
        }
        let bookmark = watch.next().await.expect("a bookmark");
        assert_eq!(
            (&bookmark["type"], revision(&bookmark["object"])),
            (&json!("BOOKMARK"), api.server.revision())
        );
        let is_end = bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
        assert_eq!(is_end, query == streaming);
    }
}
