//! Takes the place of `persistence` in a build without that feature, where no data directory can be opened.

use std::convert::Infallible;
use std::sync::Arc;

use crate::storage::{ChangeLog, StoredState};

/// A data directory, which does not exist in this build.
#[derive(Debug)]
pub(crate) enum DataDirectory {}

impl DataDirectory {
    pub(crate) fn log(&self) -> Arc<dyn ChangeLog> {
        match *self {}
    }

    pub(crate) async fn flush(&self) -> Result<(), Arc<str>> {
        match *self {}
    }

    pub(crate) fn begin_group(&self) -> Infallible {
        match *self {}
    }

    pub(crate) fn failure(&self) -> Option<Arc<str>> {
        match *self {}
    }

    pub(crate) async fn save_state(
        &self,
        _: String,
        _: String,
        _: Arc<StoredState>,
        _: impl FnOnce() + Send + 'static,
    ) -> Result<(), Infallible> {
        match *self {}
    }

    pub(crate) async fn remove_state(
        &self,
        _: String,
        _: impl FnOnce() + Send + 'static,
    ) -> Result<(), Infallible> {
        match *self {}
    }
}
