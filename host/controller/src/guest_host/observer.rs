//! The observer of all plugins of a host.

use std::sync::Arc;

use pilothouse_plugin::{CallObserver, GuestCall, GuestCallObserver, GuestResult, HostCall};

use crate::PluginName;

/// Observes the guests of all plugins of a host, to record them or to compare them.
pub trait PluginObserver: Send + Sync + 'static {
    /// Returns the observer of a version's guests; `None` if they need not be observed. Called several times for each version: for the guests
    /// that describe it, for those that compute index values, and for those that reconcile and observe.
    fn observe(&self, version: &ObservedVersion<'_>) -> Option<Arc<dyn CallObserver>>;
}

/// A version of a plugin whose guests may be observed.
#[derive(Clone, Copy, Debug)]
pub struct ObservedVersion<'a> {
    /// The plugin's name.
    pub plugin: &'a PluginName,
    /// SHA-256 of the .wasm, in hex.
    pub digest: &'a str,
    /// The operator's configuration as JSON text.
    pub config: &'a str,
}

/// Reports to two observers.
pub(super) struct BothObservers(pub(super) Arc<dyn CallObserver>, pub(super) Arc<dyn CallObserver>);

impl CallObserver for BothObservers {
    fn begin(&self, call: GuestCall) -> Option<Box<dyn GuestCallObserver>> {
        match (self.0.begin(call.clone()), self.1.begin(call)) {
            (Some(first), Some(second)) => Some(Box::new(BothCallObservers(first, second))),
            (one, None) | (None, one) => one,
        }
    }
}

struct BothCallObservers(Box<dyn GuestCallObserver>, Box<dyn GuestCallObserver>);

impl GuestCallObserver for BothCallObservers {
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

    /// Counts the calls that it observes; observes none if it is told so.
    #[derive(Clone, Default)]
    struct Counter {
        calls: Arc<Mutex<Vec<&'static str>>>,
        observes_nothing: bool,
    }

    impl CallObserver for Counter {
        fn begin(&self, _: GuestCall) -> Option<Box<dyn GuestCallObserver>> {
            (!self.observes_nothing).then(|| Box::new(self.clone()) as Box<dyn GuestCallObserver>)
        }
    }

    impl GuestCallObserver for Counter {
        fn host_call(&mut self, call: HostCall) {
            self.calls.lock().push(call.request.function());
        }

        fn end(self: Box<Self>, _: GuestResult) {
            self.calls.lock().push("end");
        }
    }

    #[test]
    fn both_observers_receive_everything_that_they_want() {
        for (first_observes, second_observes) in [(true, true), (true, false), (false, true), (false, false)]
        {
            let [first, second] = [first_observes, second_observes]
                .map(|observes| Counter { observes_nothing: !observes, ..Counter::default() });
            let both = BothObservers(Arc::new(first.clone()), Arc::new(second.clone()));
            let observed = both.begin(GuestCall::Instantiate);
            assert_eq!(observed.is_some(), first_observes || second_observes);
            if let Some(mut observed) = observed {
                observed.host_call(HostCall {
                    request: pilothouse_plugin::HostRequest::WallClock,
                    answer: pilothouse_plugin::HostAnswer::Nothing,
                });
                observed.end(GuestResult::Instantiate(Ok(())));
            }
            for (counter, observes) in [(first, first_observes), (second, second_observes)] {
                let expected: &[&str] = if observes { &["wall-clock", "end"] } else { &[] };
                assert_eq!(*counter.calls.lock(), expected);
            }
        }
    }
}
