//! One subscriber from the informer's point of view.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use pilothouse_model::Notification;
use tokio::sync::{Notify, watch};

use super::backlog::Backlog;
use super::change::Change;
use super::index_handle::SubscriberIndex;
use super::informer::Informer;
use crate::condition::Condition;
use crate::key::{InformerKey, Restriction};
use crate::store::{ReaderSource, ScopeId, StoreView};

/// A subscriber of an informer. The informer pushes notifications into its backlog without ever blocking; a
/// [`Subscription`](super::Subscription) takes them out.
pub(crate) struct Subscriber {
    pub(crate) id: ScopeId,
    /// What the subscriber requested.
    pub(crate) key: InformerKey,
    batch: usize,
    backlog: Mutex<Backlog>,
    /// Whether the backlog has notifications for which the subscriber has not been woken yet. Written with the backlog
    /// locked, except that `wake` clears it without the lock.
    has_unseen: AtomicBool,
    filled: Notify,
    synced: watch::Sender<bool>,
    pub(crate) source: Arc<ReaderSource>,
    /// The subscriber's indexes, which are added to the new cache when the subscriber is moved.
    pub(crate) indexes: Mutex<Vec<SubscriberIndex>>,
    /// Which live changes the subscriber receives. Written with `informer` locked.
    condition: Mutex<Arc<Condition>>,
    /// The informer that serves this subscriber, or served it until it unsubscribed.
    pub(crate) informer: Mutex<Arc<Informer>>,
}

/// What a subscriber's informer has to do after it pushed a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pushed {
    /// Whether the subscriber has to be woken.
    pub(super) must_wake: bool,
    /// Whether the backlog merges notifications, if that has changed.
    pub(super) merging_change: Option<bool>,
}

impl Subscriber {
    pub(super) fn new(
        id: ScopeId,
        key: InformerKey,
        batch: usize,
        backlog: usize,
        view: StoreView,
        informer: &Arc<Informer>,
    ) -> Self {
        Self {
            id,
            key,
            batch: batch.max(1),
            backlog: Mutex::new(Backlog::new(backlog)),
            has_unseen: AtomicBool::new(false),
            filled: Notify::new(),
            synced: watch::Sender::new(false),
            source: Arc::new(ReaderSource::from_pointee(view)),
            indexes: Mutex::new(Vec::new()),
            condition: Mutex::new(Arc::new(Condition::constant(true))),
            informer: Mutex::new(Arc::clone(informer)),
        }
    }

    /// Appends the notifications for these changes to the backlog. The caller must call [`wake`](Self::wake) afterwards.
    pub(super) fn push<'a>(
        &self,
        changes: impl IntoIterator<Item = Change<'a>>,
        restriction: Option<&Restriction>,
    ) {
        let mut backlog = self.backlog.lock();
        for change in changes {
            if let Some(notification) = change.notification_for(restriction)
                && backlog.push(notification)
            {
                self.has_unseen.store(true, Ordering::Relaxed);
            }
        }
        // Deletions may just have cancelled the remaining initial notifications.
        self.publish_synced(&mut backlog);
    }

    /// Appends a notification to the backlog. The caller must call [`wake`](Self::wake) afterwards if the result says so.
    pub(super) fn push_notification(&self, notification: Notification) -> Pushed {
        let mut backlog = self.backlog.lock();
        let has_unseen = backlog.push(notification);
        if has_unseen {
            self.has_unseen.store(true, Ordering::Relaxed);
        }
        self.publish_synced(&mut backlog);
        Pushed { must_wake: has_unseen, merging_change: backlog.merging_change() }
    }

    /// Replaces the condition.
    pub(super) fn set_condition(&self, condition: Condition) {
        let condition = Arc::new(condition);
        // Locked until the informer knows the condition. A transfer stores the new informer before that reads the condition, so it reads
        // this one, or this call already finds the new informer.
        let informer = self.informer.lock();
        *self.condition.lock() = Arc::clone(&condition);
        informer.set_condition(self.id, condition);
    }

    pub(super) fn condition(&self) -> Arc<Condition> {
        Arc::clone(&self.condition.lock())
    }

    /// Returns whether the backlog merges notifications. [`push_notification`](Self::push_notification) then reports changes of this.
    pub(super) fn record_merging(&self) -> bool {
        self.backlog.lock().record_merging()
    }

    /// Wakes the subscriber if it has notifications that it was not woken for.
    pub(super) fn wake(&self) {
        if self.has_unseen.load(Ordering::Relaxed) && self.has_unseen.swap(false, Ordering::Relaxed) {
            self.filled.notify_one();
        }
    }

    /// Marks the end of the initial list: all its notifications have been pushed.
    pub(super) fn finish_initial_list(&self) {
        let mut backlog = self.backlog.lock();
        backlog.finish_initial_list();
        self.publish_synced(&mut backlog);
    }

    /// Waits for notifications and takes a batch of them. Returns `None` once the subscription has ended.
    pub(crate) async fn next_batch(&self) -> Option<Vec<Notification>> {
        self.wait_for(|backlog| {
            let batch = backlog.take(self.batch);
            (!batch.is_empty()).then_some(batch)
        })
        .await
    }

    /// Waits for a notification and takes only that. Returns `None` once the subscription has ended.
    pub(crate) async fn next_notification(&self) -> Option<Notification> {
        self.wait_for(Backlog::pop).await
    }

    async fn wait_for<T>(&self, take: impl Fn(&mut Backlog) -> Option<T>) -> Option<T> {
        loop {
            let filled = self.filled.notified();
            tokio::pin!(filled);
            filled.as_mut().enable();
            if let Some(taken) = self.try_take(&take) {
                return taken;
            }
            filled.await;
        }
    }

    /// Calls `take`. Returns `None` if it found nothing, `Some(None)` once the subscription has ended.
    fn try_take<T>(&self, take: impl Fn(&mut Backlog) -> Option<T>) -> Option<Option<T>> {
        let mut backlog = self.backlog.lock();
        if backlog.is_closed() {
            return Some(None);
        }
        let taken = take(&mut backlog);
        self.has_unseen.store(false, Ordering::Relaxed);
        let taken = taken?;
        if backlog.len() > 0 {
            self.filled.notify_one();
        }
        self.publish_synced(&mut backlog);
        Some(Some(taken))
    }

    /// Takes all pending notifications without waiting for more.
    pub(crate) fn take_pending(&self) -> Vec<Notification> {
        let mut backlog = self.backlog.lock();
        let pending = backlog.take(usize::MAX);
        self.has_unseen.store(false, Ordering::Relaxed);
        self.publish_synced(&mut backlog);
        pending
    }

    pub(crate) fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until the whole initial list has been taken. Returns `false` if the subscription ended first.
    pub(crate) async fn synced(&self) -> bool {
        let mut synced = self.synced.subscribe();
        loop {
            if *synced.borrow_and_update() {
                return true;
            }
            if self.backlog.lock().is_closed() || synced.changed().await.is_err() {
                return false;
            }
        }
    }

    pub(super) fn backlog_len(&self) -> usize {
        self.backlog.lock().len()
    }

    pub(super) fn index_names(&self) -> Vec<String> {
        let source = self.source.load();
        source.store.index_names(source.id)
    }

    /// Returns how many notifications were merged away since the last call.
    pub(super) fn take_merged(&self) -> u64 {
        self.backlog.lock().take_merged()
    }

    /// Ends the subscription. Nothing is delivered afterwards, not even pending notifications.
    pub(crate) fn close(&self) {
        self.backlog.lock().close();
        self.filled.notify_one();
        self.filled.notify_waiters();
        // Wakes the tasks that wait in `synced`.
        self.synced.send_modify(|_| {});
    }

    fn publish_synced(&self, backlog: &mut Backlog) {
        if backlog.take_newly_synced() {
            self.synced.send_replace(true);
        }
    }
}
