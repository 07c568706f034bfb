//! Tests of the work queue in virtual time.

mod metrics;
mod order;
mod shutdown;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready, task};

use super::*;

fn queue() -> WorkQueue<&'static str> {
    WorkQueue::new(WorkQueueOptions::default())
}

async fn take(queue: &WorkQueue<&'static str>) -> &'static str {
    let item = queue.get().await.expect("an open queue");
    *item.key()
}

fn is_idle(queue: &WorkQueue<&'static str>) -> bool {
    task::spawn(queue.get()).poll().is_pending()
}

const MS: fn(u64) -> Duration = Duration::from_millis;
