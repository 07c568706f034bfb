//! Records the calls of guests: what they are called with, what they ask the host, what it answers, and what they return.
//!
//! A [`Host`] that returns a recorder from [`Host::call_recorder`] has all calls of its instances recorded. Without one, nothing is copied
//! and no host is wrapped.

mod canonical;
mod guest_call;
mod host_call;
mod recording_host;

use std::sync::Arc;

use parking_lot::Mutex;

use crate::Host;
pub use guest_call::{GuestCall, GuestResult};
pub use host_call::{HostAnswer, HostCall, HostRequest};
use recording_host::RecordingHost;

/// Records the calls of the guests of one version. One value serves all instances, from several threads at once.
pub trait CallRecorder: Send + Sync + 'static {
    /// Called at the beginning of each call of a guest. `None` if that call need not be recorded.
    fn begin(&self, call: GuestCall) -> Option<Box<dyn GuestCallRecorder>>;
}

/// Records one call of a guest. It is dropped without [`end`](Self::end) if the call is abandoned.
///
/// The functions run on the guest's thread, so they must neither wait nor compute for long.
pub trait GuestCallRecorder: Send {
    /// Called after each call of a host function, in the order in which the functions returned. HTTP requests of a guest overlap with its
    /// other calls, so their place in that order means nothing.
    fn host_call(&mut self, call: HostCall);

    /// Called once at the end of the guest's call.
    fn end(self: Box<Self>, result: GuestResult);
}

/// The recorder of one instance; empty if its calls are not recorded.
pub(crate) struct InstanceRecorder(Option<Arc<RecordedInstance>>);

/// An instance whose calls are recorded.
struct RecordedInstance {
    recorder: Arc<dyn CallRecorder>,
    running: Mutex<RunningCall>,
}

/// The running call. An instance serves one call at a time.
#[derive(Default)]
struct RunningCall {
    /// The number of calls that have begun. An HTTP request may end after the call that it belongs to, when the next one runs already.
    number: u64,
    /// `None` if the call is not recorded.
    recorder: Option<Box<dyn GuestCallRecorder>>,
}

impl InstanceRecorder {
    /// Creates the recorder of a new instance of this host.
    pub(crate) fn of(host: &dyn Host) -> Self {
        Self(
            host.call_recorder()
                .map(|recorder| Arc::new(RecordedInstance { recorder, running: Mutex::default() })),
        )
    }

    /// Returns the host that the instance is to use.
    pub(crate) fn wrap(&self, inner: Arc<dyn Host>) -> Arc<dyn Host> {
        match &self.0 {
            Some(instance) => Arc::new(RecordingHost { inner, instance: Arc::clone(instance) }),
            None => inner,
        }
    }

    /// Begins a call of the guest.
    pub(crate) fn begin(&self, call: impl FnOnce() -> GuestCall) -> RecordedGuestCall {
        let Some(instance) = &self.0 else { return RecordedGuestCall(None) };
        let recorder = instance.recorder.begin(call());
        let mut running = instance.running.lock();
        *running = RunningCall { number: running.number + 1, recorder };
        drop(running);
        RecordedGuestCall(Some(Arc::clone(instance)))
    }
}

/// A running call of a guest. Dropping this without [`end`](Self::end) abandons the call.
pub(crate) struct RecordedGuestCall(Option<Arc<RecordedInstance>>);

impl RecordedGuestCall {
    /// Ends the call.
    pub(crate) fn end(self, result: impl FnOnce() -> GuestResult) {
        let running = self.0.as_ref().and_then(|instance| instance.running.lock().recorder.take());
        if let Some(running) = running {
            running.end(result());
        }
    }
}

impl Drop for RecordedGuestCall {
    fn drop(&mut self) {
        if let Some(instance) = &self.0 {
            // Dropped after the lock was released.
            let running = instance.running.lock().recorder.take();
            drop(running);
        }
    }
}

impl RecordedInstance {
    /// Reports a call that has returned.
    fn report(&self, call: impl FnOnce() -> HostCall) {
        if let Some(recorder) = &mut self.running.lock().recorder {
            recorder.host_call(call());
        }
    }

    /// Begins a call that waits for its answer.
    fn begin(&self, request: impl FnOnce() -> HostRequest) -> WaitingCall<'_> {
        let running = self.running.lock();
        let (number, is_recorded) = (running.number, running.recorder.is_some());
        drop(running);
        WaitingCall { instance: self, number, request: is_recorded.then(request) }
    }
}

/// A call of a host function that waits for its answer. The guest's time limit may drop it.
struct WaitingCall<'a> {
    instance: &'a RecordedInstance,
    /// The guest's call that it belongs to.
    number: u64,
    /// `None` once the call was reported, and if it is not recorded.
    request: Option<HostRequest>,
}

impl WaitingCall<'_> {
    fn end(mut self, answer: impl FnOnce() -> HostAnswer) {
        self.report(answer);
    }

    /// Reports the call, unless it was reported, or the guest's call that it belongs to has ended.
    fn report(&mut self, answer: impl FnOnce() -> HostAnswer) {
        let Some(request) = self.request.take() else { return };
        let mut running = self.instance.running.lock();
        let is_same = running.number == self.number;
        if let Some(recorder) = running.recorder.as_mut().filter(|_| is_same) {
            recorder.host_call(HostCall { request, answer: answer() });
        }
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.report(|| HostAnswer::Abandoned);
    }
}

#[cfg(test)]
mod tests;
