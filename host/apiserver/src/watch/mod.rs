//! Watches, each of which is a position in a table's history.
//!
//! A watch has no queue of its own: it reads the history when its client is ready for more events, so a slow client needs
//! no memory. When the history no longer contains the watch's position, the watch ends, as in Kubernetes for a client that
//! cannot keep up, and resuming it is answered with 410.

mod encoder;
mod options;
mod stream;

pub(crate) use options::WatchOptions;
pub(crate) use stream::watch;
