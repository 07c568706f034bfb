//! Panics of a plugin's tasks. The tasks are restarted; `status`, the log and the metrics report the panics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use pilothouse_informer::supervise::{TaskPanic, supervise};
use pilothouse_plugin::LogLevel;
use tokio::time::Instant;

use crate::guest_host::PluginServices;

/// How long a restarted task must run until `status` no longer shows its panic.
const SHOWN_FOR: Duration = Duration::from_secs(120);

/// The last panics of one plugin's tasks, by task. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct TaskPanics {
    last: Arc<Mutex<BTreeMap<&'static str, ShownPanic>>>,
    #[cfg(test)]
    armed: Arc<Mutex<BTreeMap<&'static str, u32>>>,
}

struct ShownPanic {
    text: String,
    until: Instant,
}

impl TaskPanics {
    /// The recent panics, for `status`; `None` without any.
    pub(crate) fn status_text(&self) -> Option<String> {
        let mut last = self.last.lock();
        last.retain(|_, shown| shown.until > Instant::now());
        let texts: Vec<_> = last.values().map(|shown| shown.text.as_str()).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    /// Does nothing in production: a point at which unit tests make a task panic.
    #[cfg(not(test))]
    pub(crate) fn inject_test_panic(&self, _: &'static str) {}

    /// Panics if a unit test has armed this task.
    #[cfg(test)]
    pub(crate) fn inject_test_panic(&self, task: &'static str) {
        if let Some(left) = self.armed.lock().get_mut(task).filter(|left| **left > 0) {
            *left -= 1;
            panic!("a defect in the {task}");
        }
    }

    /// Makes the task panic this many times.
    #[cfg(test)]
    pub(crate) fn arm(&self, task: &'static str, times: u32) {
        self.armed.lock().insert(task, times);
    }
}

impl PluginServices {
    /// Runs a task of the plugin on its state until it returns. A panic is reported, and the task is
    /// restarted.
    pub(crate) async fn supervise<S: ?Sized, T>(
        &self,
        name: &'static str,
        state: &mut S,
        task: impl for<'a> FnMut(&'a mut S) -> BoxFuture<'a, T>,
    ) -> T {
        supervise(state, task, |panic| self.report_panic(name, panic)).await
    }

    /// Like [`supervise`](Self::supervise), for a task that starts from scratch after a panic.
    pub(crate) async fn restart<T>(
        &self,
        name: &'static str,
        mut start: impl FnMut() -> BoxFuture<'static, T>,
    ) -> T {
        self.supervise(name, &mut start, |start| start()).await
    }

    /// Reports a panic of a task to the log, the metrics and `status`.
    pub(crate) fn report_panic(&self, task: &'static str, panic: &TaskPanic) {
        self.metrics.task_panics.inc();
        let text = format!("the plugin's {task} task {panic}");
        self.log.host(LogLevel::Error, format_args!("{text}"), &[]);
        let until = Instant::now() + panic.wait + SHOWN_FOR;
        self.panics.last.lock().insert(task, ShownPanic { text, until });
    }
}
