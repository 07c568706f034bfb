//! Compiled code that stays in the directory although no version runs it.

use std::sync::Arc;

use parking_lot::Mutex;
use thiserror::Error;

use super::InUseGuard;

/// The compiled code of a plugin that is not removed from the cache directory to make room. Dropping this lets it go.
#[derive(Debug)]
pub struct KeptCode {
    size: u64,
    /// The sum of the sizes of all code that is kept, which includes this one's.
    total: Arc<Mutex<u64>>,
    _in_use: InUseGuard,
}

/// Why code cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeepError {
    /// There is no directory to keep it in.
    #[error("compiled plugins are not cached; choose a --cache-dir that the host can use")]
    NoDirectory,
    /// The directory does not have it.
    #[error("it is not in the cache of compiled plugins")]
    NotCached,
    /// Its file in the directory cannot be used.
    #[error("its file in the cache of compiled plugins cannot be used: {0}")]
    Unusable(String),
    /// Too much code is kept already.
    #[error(
        "the older versions of all plugins would take more than {limit} bytes of the cache of compiled plugins"
    )]
    Full {
        /// The maximum size of all code that is kept, in bytes.
        limit: u64,
    },
}

impl KeptCode {
    /// Adds the size to the total, unless that would exceed the limit.
    pub(super) fn charge(
        size: u64,
        total: &Arc<Mutex<u64>>,
        limit: u64,
        in_use: InUseGuard,
    ) -> Result<Self, KeepError> {
        let mut kept = total.lock();
        let sum = kept.checked_add(size).filter(|sum| *sum <= limit).ok_or(KeepError::Full { limit })?;
        *kept = sum;
        Ok(Self { size, total: Arc::clone(total), _in_use: in_use })
    }

    /// Returns the size of the compiled code's file, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl Drop for KeptCode {
    fn drop(&mut self) {
        let mut total = self.total.lock();
        *total = total.saturating_sub(self.size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_code_is_charged_until_it_is_dropped() {
        let total = Arc::<Mutex<u64>>::default();
        let keep = |size| KeptCode::charge(size, &total, 100, "entry".into());
        let first = keep(60).expect("there is room");
        assert_eq!((first.size(), *total.lock()), (60, 60));
        assert_eq!(keep(41).err(), Some(KeepError::Full { limit: 100 }));
        assert_eq!(keep(u64::MAX).err(), Some(KeepError::Full { limit: 100 }));
        let second = keep(40).expect("there is just enough room");
        drop((first, second));
        assert_eq!(*total.lock(), 0);
    }
}
