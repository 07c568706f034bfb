//! The states of the reflector.

use std::collections::HashMap;

use pilothouse_model::{Object, ObjectKey};
use tokio::time::Instant;

use crate::decode::ListPage;
use crate::key::FastHash;
use crate::list_watch::ListParams;

#[derive(Debug)]
pub(super) enum Phase {
    Idle,
    Listing(PartialList),
    /// Reading the initial events of a streaming list.
    Streaming(InitialEvents),
    Watching(WatchState),
    /// Asking for one item, because a watch said nothing at all: does the server know the last version?
    Probing,
    Waiting(AfterWait),
}

/// What follows a wait.
#[derive(Debug)]
pub(super) enum AfterWait {
    List,
    /// The same page of a list that is under way.
    Page(PartialList),
    Watch,
}

#[derive(Debug)]
pub(super) struct PartialList {
    pub(super) params: ListParams,
    /// The version of the first page.
    pub(super) version: Option<String>,
    pub(super) items: Vec<Object>,
    /// Pages that brought no item.
    empty_pages: u32,
}

/// No server sends so many pages without an item in one list.
const MAX_EMPTY_PAGES: u32 = 100;

impl PartialList {
    pub(super) fn new(params: ListParams) -> Self {
        Self { params, version: None, items: Vec::new(), empty_pages: 0 }
    }

    /// Errors if a list with one more such page goes on for ever, or would be too large.
    pub(super) fn check_page(
        &mut self,
        page: &ListPage,
        items: usize,
        max_list_items: usize,
    ) -> Result<(), &'static str> {
        if self.items.len() + items > max_list_items {
            return Err("the list has more items than max_list_items");
        }
        if page.next.is_some() && page.next == self.params.continue_token {
            return Err("the list does not end: the continue token of a page is that of the page before");
        }
        self.empty_pages += u32::from(items == 0);
        if self.empty_pages > MAX_EMPTY_PAGES {
            return Err("the list does not end: more than 100 of its pages have no item");
        }
        Ok(())
    }
}

/// Objects of initial events, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct InitialEvents {
    pub(super) items: Vec<Option<Object>>,
    pub(super) positions: HashMap<ObjectKey, usize, FastHash>,
}

#[derive(Debug)]
pub(super) struct WatchState {
    pub(super) opened_at: Option<Instant>,
    /// Whether it moved the last version.
    pub(super) progressed: bool,
    /// Whether it told anything, new or not.
    pub(super) received_any: bool,
}

impl InitialEvents {
    pub(super) fn insert(&mut self, object: Object) {
        match self.positions.get(object.key()) {
            Some(position) => self.items[*position] = Some(object),
            None => {
                self.positions.insert(object.key().clone(), self.items.len());
                self.items.push(Some(object));
            }
        }
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if let Some(position) = self.positions.remove(key) {
            self.items[position] = None;
        }
    }
}
