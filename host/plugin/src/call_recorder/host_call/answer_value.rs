//! The values of answers, for hosts that answer with what another host has answered.

use pilothouse_model::{Object, ObjectKey};

use super::HostAnswer;
use crate::{CachePage, IndexPage, LivePage};

/// Each method returns `None` if the answer is of another kind.
impl HostAnswer {
    /// Returns `()` if the function succeeded and returns nothing.
    #[must_use]
    pub fn into_nothing(self) -> Option<()> {
        matches!(self, Self::Nothing).then_some(())
    }

    /// Returns the object, or that there is none.
    #[must_use]
    pub fn into_object(self) -> Option<Option<Object>> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Returns the page of the cache.
    #[must_use]
    pub fn into_cache_page(self) -> Option<CachePage> {
        match self {
            Self::CachePage(cache_page) => Some(cache_page),
            _ => None,
        }
    }

    /// Returns the page of the server.
    #[must_use]
    pub fn into_live_page(self) -> Option<LivePage> {
        match self {
            Self::LivePage(live_page) => Some(live_page),
            _ => None,
        }
    }

    /// Returns the objects of an index.
    #[must_use]
    pub fn into_objects(self) -> Option<IndexPage<Object>> {
        match self {
            Self::Objects(objects) => Some(objects),
            _ => None,
        }
    }

    /// Returns the keys of an index.
    #[must_use]
    pub fn into_keys(self) -> Option<IndexPage<ObjectKey>> {
        match self {
            Self::Keys(keys) => Some(keys),
            _ => None,
        }
    }

    /// Returns the values of an index.
    #[must_use]
    pub fn into_values(self) -> Option<IndexPage<String>> {
        match self {
            Self::Values(values) => Some(values),
            _ => None,
        }
    }

    /// Returns whether a watch has synced.
    #[must_use]
    pub fn into_has_synced(self) -> Option<bool> {
        match self {
            Self::HasSynced(has_synced) => Some(has_synced),
            _ => None,
        }
    }
}
