//! Access to the host during a call.

use std::borrow::Cow;
use std::cell::RefCell;

use crate::client::Client;
use crate::{
    Cache, Config, Error, Events, FromObject, Object, ObjectKey, ObjectType, Queue, Request, Resource,
    WatchName,
};

/// The host, during one call: cache, client, queue, events and configuration.
///
/// Log lines and metrics need no context: see [`log`](crate::log) and [`metrics`](crate::metrics).
pub struct Context<'a> {
    /// `None` outside of a reconcile.
    request: Option<&'a Request>,
    /// Handles of the typed objects that were read or written, by UID: recording an Event requires the handle of its object.
    read: RefCell<Vec<(String, Object)>>,
}

/// The number of handles that a context retains. A reconcile that reads or writes more typed objects one by one drops the oldest handles, so
/// that a long loop stays below the host's limit.
const MAX_RETAINED_HANDLES: usize = 64;

impl<'a> Context<'a> {
    pub(crate) fn new(request: &'a Request) -> Self {
        Self { request: Some(request), read: RefCell::default() }
    }

    pub(crate) fn without_request() -> Self {
        Self { request: None, read: RefCell::default() }
    }

    /// Reads the objects of a declared watch from the host's memory: `ctx.cache(FOOS)` with a [`WatchRef`](crate::WatchRef), or
    /// `ctx.cache::<Foo>(name)` where the name is known only at run time.
    ///
    /// A name that the descriptor does not declare traps at the first read, with a message that lists the declared ones.
    #[must_use]
    pub fn cache<'c, T: FromObject>(&'c self, watch: impl WatchName<'c, T>) -> Cache<'c, T> {
        Cache::new(self, watch.into())
    }

    /// Sends requests to the API server.
    #[must_use]
    pub fn client(&self) -> Client<'_> {
        Client::new(self)
    }

    /// The `config` of the plugin's sidecar, as `describe` received it. Each call parses it again.
    ///
    /// # Errors
    /// When the host's text is not JSON, which would be a bug of the host.
    pub fn config(&self) -> Result<Config, Error> {
        Config::parse(&crate::host::config::get())
    }

    /// Records Kubernetes Events, which `kubectl describe` shows.
    #[must_use]
    pub fn events(&self) -> Events<'_> {
        Events::new(self)
    }

    /// Queues more work for a target watch: `ctx.queue(FOOS)`.
    #[must_use]
    pub fn queue<'c>(&'c self, watch: impl Into<Cow<'c, str>>) -> Queue<'c> {
        Queue::new(watch.into())
    }

    pub(crate) fn remember(&self, object: Object) {
        let mut read = self.read.borrow_mut();
        if read.len() == MAX_RETAINED_HANDLES {
            read.remove(0);
        }
        read.push((object.uid(), object));
    }

    /// Returns the handle of a typed object: the one that it was read or written with, else the one of the object in the cache, else one from the
    /// server.
    pub(crate) fn handle_of<K: Resource>(&self, object: &K) -> Option<Object> {
        let uid = object.meta().uid.as_deref()?;
        let read = self.read.borrow();
        if let Some((_, handle)) = read.iter().rev().find(|(read_uid, _)| read_uid == uid) {
            return Some(handle.clone());
        }
        let key = ObjectKey::of(object);
        let from_cache = || {
            let request = self.request.filter(|request| request.key == key)?;
            crate::cache::get_handle(&request.watch, &key)
        };
        let from_server = || self.client().untyped().get(&ObjectType::of::<K>(), &key, "").ok();
        from_cache().filter(|handle| handle.uid() == uid).or_else(from_server)
    }
}
