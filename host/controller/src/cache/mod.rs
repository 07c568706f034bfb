//! A plugin's cache: its views of the shared stores, its own writes on top of those, and its computed indexes.

pub(crate) mod computed;
pub(crate) mod delivery_filter;
pub(crate) mod index_account;
pub(crate) mod indexer;
pub(crate) mod own_writes;
pub(crate) mod views;
