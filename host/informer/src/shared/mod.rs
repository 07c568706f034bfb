//! Shared informers: one reflector and one cache for all who ask for the same objects, or for some of them.

mod backlog;
mod change;
mod dump;
mod index_handle;
mod informer;
#[cfg(test)]
mod model_tests;
mod observe;
mod subscriber;
mod registry;
mod run;
mod registration;
mod subscription;
#[cfg(test)]
mod tests;

pub use dump::{FailureDump, InformerDump, StoreDump, SubscriberDump};
pub use index_handle::IndexHandle;
pub use registry::{InformerRegistry, SubscribeError};
pub use subscription::{SubscribeOptions, Subscription, wait_for_cache_sync};
