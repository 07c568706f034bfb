//! The verbs that several callers use: create, update, patch, delete and list. `get` and `watch` are short, and in `dispatch`.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod update;
