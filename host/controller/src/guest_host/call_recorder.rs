//! Records the calls of the guests of all plugins of a host.

use std::sync::Arc;

use pilothouse_plugin::{CallRecorder, GuestCall, GuestCallRecorder, GuestResult, HostCall};

use crate::PluginName;

/// Creates the recorders of the guests of all plugins of a host, which keep their calls or compare them.
pub trait CallRecorderFactory: Send + Sync + 'static {
    /// Returns the recorder of a version's guests; `None` if they need not be recorded. Called several times for each version: for the guests
    /// that describe it, for those that compute index values, and for those that reconcile and observe.
    fn recorder_for(&self, version: &ObservedVersion<'_>) -> Option<Arc<dyn CallRecorder>>;
}

/// A version of a plugin, the calls of whose guests may be recorded.
#[derive(Clone, Copy, Debug)]
pub struct ObservedVersion<'a> {
    /// The plugin's name.
    pub plugin: &'a PluginName,
    /// SHA-256 of the .wasm, in hex.
    pub digest: &'a str,
    /// The operator's configuration as JSON text.
    pub config: &'a str,
}

/// Passes calls to two recorders.
pub(super) struct BothRecorders(pub(super) Arc<dyn CallRecorder>, pub(super) Arc<dyn CallRecorder>);

impl CallRecorder for BothRecorders {
    fn begin(&self, call: GuestCall) -> Option<Box<dyn GuestCallRecorder>> {
        match (self.0.begin(call.clone()), self.1.begin(call)) {
            (Some(first), Some(second)) => Some(Box::new(BothCallRecorders(first, second))),
            (one, None) | (None, one) => one,
        }
    }
}

struct BothCallRecorders(Box<dyn GuestCallRecorder>, Box<dyn GuestCallRecorder>);

impl GuestCallRecorder for BothCallRecorders {
    fn host_call(&mut self, call: HostCall) {
        self.0.host_call(call.clone());
        self.1.host_call(call);
    }

    fn end(self: Box<Self>, result: GuestResult) {
        let Self(first, second) = *self;
        first.end(result.clone());
        second.end(result);
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    /// Lists the calls that it records. Records none with `records_nothing`.
    #[derive(Clone, Default)]
    struct Counter {
        calls: Arc<Mutex<Vec<&'static str>>>,
        records_nothing: bool,
    }

    impl CallRecorder for Counter {
        fn begin(&self, _: GuestCall) -> Option<Box<dyn GuestCallRecorder>> {
            (!self.records_nothing).then(|| Box::new(self.clone()) as Box<dyn GuestCallRecorder>)
        }
    }

    impl GuestCallRecorder for Counter {
        fn host_call(&mut self, call: HostCall) {
            self.calls.lock().push(call.request.function());
        }

        fn end(self: Box<Self>, _: GuestResult) {
            self.calls.lock().push("end");
        }
    }

    #[test]
    fn both_recorders_receive_everything_that_they_want() {
        for (first_records, second_records) in [(true, true), (true, false), (false, true), (false, false)] {
            let [first, second] = [first_records, second_records]
                .map(|records| Counter { records_nothing: !records, ..Counter::default() });
            let both = BothRecorders(Arc::new(first.clone()), Arc::new(second.clone()));
            let observed = both.begin(GuestCall::Instantiate);
            assert_eq!(observed.is_some(), first_records || second_records);
            if let Some(mut observed) = observed {
                observed.host_call(HostCall {
                    request: pilothouse_plugin::HostRequest::WallClock,
                    answer: pilothouse_plugin::HostAnswer::Nothing,
                });
                observed.end(GuestResult::Instantiate(Ok(())));
            }
            for (counter, records) in [(first, first_records), (second, second_records)] {
                let expected: &[&str] = if records { &["wall-clock", "end"] } else { &[] };
                assert_eq!(*counter.calls.lock(), expected);
            }
        }
    }
}
