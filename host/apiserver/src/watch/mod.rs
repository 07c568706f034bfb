//! Watches: a position in a table's history that follows it.
//!
//! A watcher has no queue of its own. It reads the history when its client is ready for more, so a slow client costs
//! nothing but its place; when the history has moved on past that place, the watch ends, as Kubernetes ends the watch of
//! a client that cannot keep up, and resuming answers 410.

mod frame;
mod options;
mod stream;

pub(crate) use options::WatchOptions;
pub(crate) use stream::watch;
