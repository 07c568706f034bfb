use std::cell::RefCell;

use crate::{Cache, Config, Error, Events, FromObject, Object, ObjectKey, Queue, Request, Resource};

/// The host, as seen from one call.
pub struct Context<'a> {
    /// None outside of a reconcile.
    request: Option<&'a Request>,
    /// Handles behind the typed objects that were read, by UID: an Event needs the handle of what it is about.
    read: RefCell<Vec<(String, Object)>>,
}

/// A reconcile that reads more typed objects one by one than this gives up the oldest handles, so that a long loop
/// does not meet the host's limit.
const HANDLES_KEPT: usize = 64;

impl<'a> Context<'a> {
    pub(crate) fn new(request: &'a Request) -> Self {
        Self { request: Some(request), read: RefCell::default() }
    }

    pub(crate) fn outside_of_reconcile() -> Self {
        Self { request: None, read: RefCell::default() }
    }

    /// The objects of a declared watch, as the host has them in memory: typed, or as handles with `Object`.
    ///
    /// A name that the descriptor does not have traps at the first read, with a message that lists those it has.
    #[must_use]
    pub fn cache<'c, T: FromObject>(&'c self, watch: &'c str) -> Cache<'c, T> {
        Cache::new(self, watch)
    }

    /// The `config` of the plugin's sidecar, as `describe` was given it. It is read anew at each call.
    ///
    /// # Errors
    /// None with a host of the contract: the text is JSON.
    pub fn config(&self) -> Result<Config, Error> {
        Config::parse(&crate::bindings::pilothouse::controller::config::get())
    }

    /// Kubernetes Events, the ones that `kubectl describe` shows.
    #[must_use]
    pub fn events(&self) -> Events<'_> {
        Events::new(self)
    }

    /// The plugin's queue: more work for a target watch.
    #[must_use]
    pub fn queue<'c>(&'c self, watch: &'c str) -> Queue<'c> {
        Queue::new(watch)
    }

    pub(crate) fn remember(&self, object: Object) {
        let mut read = self.read.borrow_mut();
        if read.len() == HANDLES_KEPT {
            read.remove(0);
        }
        read.push((object.uid(), object));
    }

    /// The handle of a typed object: as it was read, else as the cache has the object at hand, else from the server.
    pub(crate) fn handle_of<K: Resource>(&self, object: &K) -> Option<Object> {
        let uid = object.meta().uid.as_deref()?;
        let read = self.read.borrow();
        if let Some((_, handle)) = read.iter().rev().find(|(read_uid, _)| read_uid == uid) {
            return Some(handle.clone());
        }
        let key = ObjectKey::of(object);
        let at_hand = || {
            let request = self.request.filter(|request| request.key == key)?;
            crate::cache::get_handle(&request.watch, &key)
        };
        let from_server = || crate::client::untyped::get(&crate::ObjectType::of::<K>(), &key, "").ok();
        at_hand().filter(|handle| handle.uid() == uid).or_else(from_server)
    }
}
