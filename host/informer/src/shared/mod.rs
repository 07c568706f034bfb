//! Shared informers: one reflector and one cache serve all subscribers of the same objects, or of a subset of them.

mod apply;
mod backlog;
mod change;
#[cfg(test)]
mod condition_model_tests;
mod dispatch_index;
mod dump;
mod index_handle;
mod informer;
#[cfg(test)]
mod model_tests;
mod observe;
mod registration;
mod registry;
mod resyncs;
mod run;
mod stream;
mod subscriber;
mod subscribers;
mod subscription;
#[cfg(test)]
mod tests;

pub use dump::{FailureDump, InformerDump, StoreDump, SubscriberDump};
pub use index_handle::IndexHandle;
pub use registry::{InformerRegistry, SubscribeError};
pub use stream::NotificationStream;
pub use subscription::{SubscribeOptions, Subscription, wait_for_cache_sync};
