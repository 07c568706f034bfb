//! Records what happens in a world: requests, commits and deliveries.

use pilothouse_apiserver::Commit;
use serde_json::Value;

use super::mirror::Change;
use super::request::ObjectRequest;
use super::state::State;
use crate::analysis::{is_record, is_refused_as_invalid};
use crate::run::{Author, EventKind, RequestEvent};

/// A request that was sent to the server, or refused on the way.
pub(super) struct SentRequest<'a> {
    pub(super) author: Author,
    /// Which step of the actor it is, from 1; `None` if no actor with a list of steps sent it.
    pub(super) step: Option<u32>,
    pub(super) reconcile: Option<u64>,
    pub(super) about: &'a ObjectRequest,
    pub(super) body: Option<Value>,
    /// `None` if it did not reach the server.
    pub(super) answer: Option<Answer>,
    /// Whether the sender received the answer.
    pub(super) answered: bool,
}

/// The server's answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) reason: String,
    pub(super) message: String,
}

/// An object of a list or of a watch.
pub(super) struct Delivery {
    pub(super) change: String,
    pub(super) key: String,
    pub(super) uid: String,
    pub(super) version: u64,
}

/// Returns a key, `namespace/name` or `name`.
pub(super) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

impl State {
    /// Records that an object of a list or of a watch reached the host.
    pub(super) fn record_delivery(&mut self, resource: &str, delivery: Delivery) {
        let Delivery { change, key, uid, version } = delivery;
        match change.as_str() {
            "DELETED" => self.views.forget(resource, &key),
            _ => self.views.cache(resource, &key, &uid),
        }
        if !is_record(resource) {
            self.record_plugin_activity();
        }
        let resource = resource.to_owned();
        self.record(EventKind::Delivered { resource, change, key, uid, version });
    }

    /// Records commits that no request of a plugin or an actor caused.
    pub(super) fn record_commits(&mut self, commits: Vec<Commit>, author: &Author) {
        for commit in commits {
            let change = self.mirror.apply(commit);
            self.record_commit(change, author);
        }
    }

    /// Records commits that were applied to the mirror already.
    pub(super) fn record_own_commits(&mut self, commits: Vec<Change>, author: &Author) {
        commits.into_iter().for_each(|commit| self.record_commit(commit, author));
    }

    /// Records a commit that was applied to the mirror already.
    fn record_commit(&mut self, commit: Change, author: &Author) {
        let verb = match (&commit.before, &commit.after) {
            (None, _) => "create",
            (_, None) => "delete",
            _ => "update",
        };
        if *author != Author::Host && !is_record(&commit.resource) {
            self.record_plugin_activity();
        }
        self.record(EventKind::Request(Box::new(RequestEvent {
            author: author.clone(),
            step: None,
            reconcile: None,
            verb: verb.to_owned(),
            resource: commit.resource,
            subresource: String::new(),
            namespace: commit.namespace,
            name: commit.name,
            body: None,
            status: Some(200),
            reason: String::new(),
            answered: true,
            before: commit.before,
            after: commit.after,
            changed: true,
            cached_uid: None,
        })));
    }

    /// Records a request with the commits that it caused. The first one of the object itself is the request's own.
    pub(super) fn record_request(&mut self, request: SentRequest<'_>, commits: Vec<Change>) {
        let SentRequest { author, step, reconcile, about, body, answer, answered } = request;
        let of = about.resource();
        let (mut own, mut others) = (None, Vec::new());
        for commit in commits {
            let is_own = commit.resource == of
                && commit.namespace == about.namespace
                && (about.name.is_empty() || commit.name == about.name);
            if is_own && own.is_none() { own = Some(commit) } else { others.push(commit) }
        }
        let name = own.as_ref().map_or_else(|| about.name.clone(), |commit| commit.name.clone());
        let key = key(&about.namespace, &name);
        let is_plugin = matches!(author, Author::Plugin(_));
        let known_uid = self.views.cached_uid(&of, &key).map(str::to_owned);
        let is_known = known_uid.is_some();
        let cached_uid = known_uid.filter(|_| is_plugin && about.is_write());
        let current = || self.mirror.object(&of, &about.namespace, &name).cloned();
        let (before, after, changed) = match own {
            Some(commit) => (commit.before, commit.after, true),
            None if about.is_write() => (None, current(), false),
            None => (None, None, false),
        };
        if let Some(uid) = after.as_ref().and_then(|object| object["metadata"]["uid"].as_str())
            && is_plugin
            && answered
            && is_known
        {
            // The plugin reads its own writes.
            self.views.cache(&of, &key, uid);
        }
        // A write without effect leaves the world as it is, and Events and Leases only record what happens. A write that can only fail is an error
        // of the plugin, so it is no rest.
        let is_hopeless = answer.as_ref().is_some_and(|answer| is_refused_as_invalid(answer.status));
        match author {
            Author::Actor(_) if about.is_write() => self.record_external_activity(),
            _ if (changed || is_hopeless && about.is_write()) && !is_record(&of) => {
                self.record_plugin_activity();
            }
            _ => {}
        }
        self.record(EventKind::Request(Box::new(RequestEvent {
            author,
            step,
            reconcile,
            verb: about.verb.to_owned(),
            resource: of,
            subresource: about.subresource.clone(),
            namespace: about.namespace.clone(),
            name,
            body,
            status: answer.as_ref().map(|answer| answer.status),
            reason: answer.map(|answer| answer.reason).unwrap_or_default(),
            answered,
            before,
            after,
            changed,
            cached_uid,
        })));
        for commit in others {
            self.record_commit(commit, &Author::Controller);
        }
    }
}
