//! The watches that a shadow declares.

use pilothouse_plugin::Misuse;

use crate::config::descriptor::{Descriptor, Trigger, Watch};

/// The names of the watches that a shadow declares.
pub(crate) struct WatchNames {
    all: Vec<String>,
    /// Those whose keys can be queued.
    targets: Vec<String>,
}

impl WatchNames {
    pub(crate) fn of(descriptor: &Descriptor) -> Self {
        let name = |watch: &Watch| watch.name.clone();
        let is_target = |watch: &&Watch| watch.trigger == Some(Trigger::Itself);
        Self {
            all: descriptor.watches.iter().map(name).collect(),
            targets: descriptor.watches.iter().filter(is_target).map(name).collect(),
        }
    }

    #[cfg(test)]
    pub(super) fn for_test(target: &str, other: &str) -> Self {
        Self { all: vec![target.to_owned(), other.to_owned()], targets: vec![target.to_owned()] }
    }

    /// Errors if the keys of the watch cannot be queued, as the host of a running version does.
    pub(super) fn check_target(&self, watch: &str) -> Result<(), Misuse> {
        if self.targets.iter().any(|target| target == watch) {
            return Ok(());
        }
        let watch = watch.to_owned();
        Err(match self.all.contains(&watch) {
            true => Misuse::NotATarget { watch, targets: self.targets.clone() },
            false => Misuse::UnknownWatch { watch, declared: self.all.clone() },
        })
    }
}
