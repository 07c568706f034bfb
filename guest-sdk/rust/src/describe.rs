use crate::{Config, Error, Plugin};

/// Every plugin says what it is.
pub trait Describe {
    /// What this plugin watches, indexes and writes. Called once per load, on an instance of its own, where nothing but
    /// the log may be used.
    ///
    /// # Errors
    /// The text refuses the load and reaches the operator: for a `config` that makes no sense.
    fn describe(config: &Config) -> Result<Plugin, Error>;
}
