//! Panics of a plugin's tasks, which are contained and started again: what `status`, the log and the metrics say of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use pilothouse_informer::supervise::{Panic, supervise};
use pilothouse_plugin::LogLevel;
use tokio::time::Instant;

use crate::guest_host::GuestServices;

/// How long a task must have run again until `status` says nothing of its panic.
const SHOWN: Duration = Duration::from_secs(120);

/// The panics of one plugin's tasks, by task. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct TaskPanics {
    last: Arc<Mutex<BTreeMap<&'static str, Shown>>>,
    #[cfg(test)]
    armed: Arc<Mutex<BTreeMap<&'static str, u32>>>,
}

struct Shown {
    text: String,
    until: Instant,
}

impl TaskPanics {
    /// What `status` shows.
    pub(crate) fn trouble(&self) -> Option<String> {
        let mut last = self.last.lock();
        last.retain(|_, shown| shown.until > Instant::now());
        let texts: Vec<_> = last.values().map(|shown| shown.text.as_str()).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    /// Where a test can have this task panic.
    #[cfg(not(test))]
    pub(crate) fn point(&self, _: &'static str) {}

    /// Panics if a test wants this task to.
    #[cfg(test)]
    pub(crate) fn point(&self, task: &'static str) {
        if let Some(left) = self.armed.lock().get_mut(task).filter(|left| **left > 0) {
            *left -= 1;
            panic!("a defect in the {task}");
        }
    }

    /// Has the task panic so many times.
    #[cfg(test)]
    pub(crate) fn arm(&self, task: &'static str, times: u32) {
        self.armed.lock().insert(task, times);
    }
}

impl GuestServices {
    /// Runs a task of the plugin on its state until it ends by itself, and again after a panic, of which everybody is told.
    pub(crate) async fn supervise<S: ?Sized, T>(
        &self,
        name: &'static str,
        state: &mut S,
        task: impl for<'a> FnMut(&'a mut S) -> BoxFuture<'a, T>,
    ) -> T {
        supervise(state, task, |panic| self.panicked(name, panic)).await
    }

    /// [`supervise`](Self::supervise) of a task that begins anew after a panic.
    pub(crate) async fn restart<T>(
        &self,
        name: &'static str,
        mut start: impl FnMut() -> BoxFuture<'static, T>,
    ) -> T {
        self.supervise(name, &mut start, |start| start()).await
    }

    /// Tells everybody that a task panicked.
    pub(crate) fn panicked(&self, task: &'static str, panic: &Panic) {
        self.metrics.task_panics.inc();
        let text = format!("the plugin's {task} task {panic}");
        self.log.host(LogLevel::Error, format_args!("{text}"), &[]);
        let until = Instant::now() + panic.wait + SHOWN;
        self.panics.last.lock().insert(task, Shown { text, until });
    }
}
