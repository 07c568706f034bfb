//! The trait that every plugin implements.

use crate::{Config, Error, Plugin};

/// Declares a plugin to the host. Every plugin implements this trait.
pub trait Describe {
    /// Returns the plugin's descriptor: what it watches, indexes and writes. The host calls this once per load, on a separate instance
    /// on which only the log may be used.
    ///
    /// # Errors
    /// An error refuses the load, and its text is shown to the operator. Return one for an invalid `config`.
    fn describe(config: &Config) -> Result<Plugin, Error>;
}
