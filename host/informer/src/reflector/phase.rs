//! The states of the reflector, and the data that belongs to each.

use pilothouse_model::hash::HashMap;
use pilothouse_model::{Object, ObjectKey};
use tokio::time::Instant;

use crate::decode::ListPage;
use crate::list_watch::ListParams;

/// The reflector's state.
#[derive(Debug)]
pub(super) enum Phase {
    Idle,
    Listing(PartialList),
    /// Reading the initial events of a streaming list.
    Streaming(InitialEvents),
    Watching(WatchState),
    /// Listing one item to find out whether the server still knows the last version, because a watch sent nothing.
    Verifying,
    Waiting(AfterWait),
}

/// The request that follows a wait.
#[derive(Debug)]
pub(super) enum AfterWait {
    List,
    /// The same page of an unfinished list.
    Page(PartialList),
    Watch,
}

/// A list of which some pages have been read.
#[derive(Debug)]
pub(super) struct PartialList {
    pub(super) params: ListParams,
    /// The version of the first page.
    pub(super) version: Option<String>,
    pub(super) items: Vec<Object>,
    /// Pages without items.
    empty_pages: u32,
}

/// The most pages without items in one list; no working server sends as many.
const MAX_EMPTY_PAGES: u32 = 100;

impl PartialList {
    pub(super) fn new(params: ListParams) -> Self {
        Self { params, version: None, items: Vec::new(), empty_pages: 0 }
    }

    /// Errors if the list would be too large with this page, or if the page shows that the list does not end.
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

/// The objects of a streaming list's initial events, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct InitialEvents {
    /// `None` for objects that were deleted again.
    pub(super) items: Vec<Option<Object>>,
    /// The index of each object in `items`.
    pub(super) positions: HashMap<ObjectKey, usize>,
}

/// The progress of a watch.
#[derive(Debug)]
pub(super) struct WatchState {
    /// When the response head arrived; `None` before that.
    pub(super) opened_at: Option<Instant>,
    /// Whether the watch advanced the last version.
    pub(super) progressed: bool,
    /// Whether the watch sent anything, new or repeated.
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
