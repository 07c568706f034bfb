//! The details of single plugins, for their pages.

use super::PluginHost;
use crate::runtime::{ControlError, PluginDetails};

impl PluginHost {
    /// Returns what is known of a plugin beside its status.
    ///
    /// # Errors
    /// Errors if there is no such plugin. A file that cannot be a plugin has a status and no details.
    pub fn details(&self, plugin: &str) -> Result<PluginDetails, ControlError> {
        Ok(self.find(plugin)?.1.details())
    }
}
