//! A running plugin: one wasmtime store with one instance, which serves one call at a time.

mod run;
mod wit_types;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::Object;
use wasmtime::Store;

use crate::bindings::exports::pilothouse::controller as exports;
use crate::bindings::pilothouse::controller::types;
use crate::call_recorder::InstanceRecorder;
use crate::compiled_plugin::{CompiledPlugin, LinkedCode};
use crate::sandbox::{CpuMeter, GuestState};
use crate::{
    Call, DescribeError, Failure, Fault, FaultKind, GuestCall, GuestResult, Host, InstanceLimits,
    MAX_MILLISECONDS, Observation, Outcome, Request,
};
use run::{TimeLimit, run};
use wit_types::{empty_request, truncated, wit_notification, write_request};

/// Maximum number of index values of one object, duplicates included.
pub const MAX_INDEX_VALUES: usize = 1_000;
/// Maximum length of one index value, in bytes. Values in use (names, labels, addresses) have some tens of bytes.
pub const MAX_INDEX_VALUE: usize = 4 << 10;

/// An instance of a plugin.
///
/// # Cancellation safety
/// Dropping the future of a call leaves the instance unusable, as a fault does: guests cannot be unwound. See [`Instance::is_usable`].
pub struct Instance {
    store: Store<GuestState>,
    guest: Guest,
    limits: InstanceLimits,
    state: State,
    /// The argument of the last `reconcile`. The next call writes over it, so that it allocates nothing.
    argument: Option<types::Request>,
    recorder: InstanceRecorder,
    /// Keeps the code mapped.
    _linked: Arc<LinkedCode>,
    /// Gives access to the engine, and keeps its ticker alive.
    code: CompiledPlugin,
}

/// The plugin's exports.
struct Guest {
    plugin: exports::plugin::Guest,
    reconcile: Option<exports::reconcile::Guest>,
    observe: Option<exports::observe::Guest>,
    index: Option<exports::index::Guest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    /// In a call. An instance that is busy at the beginning of a call was abandoned in the one before.
    Busy,
    /// Works, but holds so many handles or resources of WASI that it should be replaced.
    Leaking,
    /// Failed.
    Poisoned,
}

impl Instance {
    pub(crate) async fn new(
        code: &CompiledPlugin,
        host: Arc<dyn Host>,
        limits: &InstanceLimits,
    ) -> Result<Self, Fault> {
        let recorder = InstanceRecorder::of(&*host);
        let recorded = recorder.begin(|| GuestCall::Instantiate);
        let created = Self::create(code, recorder.wrap(host), limits, recorder).await;
        recorded.end(|| GuestResult::Instantiate(created.as_ref().map(|_| ()).map_err(Fault::clone)));
        created
    }

    async fn create(
        code: &CompiledPlugin,
        host: Arc<dyn Host>,
        limits: &InstanceLimits,
        recorder: InstanceRecorder,
    ) -> Result<Self, Fault> {
        let shared = &code.inner.engine.shared;
        let cpu = CpuMeter::new(shared.options.tick, Arc::clone(&shared.ticks));
        let mut store = GuestState::store(shared, cpu, host, limits);
        let timeout = TimeLimit { name: "describeTimeout", allowed: limits.describe_timeout };
        let linked = code.map().await.map_err(|error| {
            let kind = FaultKind::CodeNotMapped(error.to_string());
            Fault::new(Call::Instantiate.name(), kind, Vec::new())
        })?;
        let guest = run(shared, &mut store, Call::Instantiate, timeout, async |store| {
            let instance = linked.instances.instantiate_async(&mut *store).await?;
            let indices = &linked.indices;
            Ok(Guest {
                plugin: indices.plugin.load(&mut *store, &instance)?,
                reconcile: indices.reconcile.as_ref().map(|i| i.load(&mut *store, &instance)).transpose()?,
                observe: indices.observe.as_ref().map(|i| i.load(&mut *store, &instance)).transpose()?,
                index: indices.index.as_ref().map(|i| i.load(&mut *store, &instance)).transpose()?,
            })
        })
        .await?;
        Ok(Self {
            store,
            guest,
            limits: limits.clone(),
            state: State::Ready,
            argument: None,
            recorder,
            _linked: linked,
            code: code.clone(),
        })
    }

    /// Returns whether the instance should be called again: false after a fault, after an abandoned call, and when it leaks handles.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.state == State::Ready
    }

    /// Returns how many handles the guest holds.
    #[must_use]
    pub fn open_handles(&self) -> u32 {
        self.store.data().handles.open_count()
    }

    /// Returns the bytes of linear memory in use.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.store.data().memory.used()
    }

    /// Asks the plugin for its descriptor.
    pub(crate) async fn describe(&mut self, config: &str) -> Result<String, DescribeError> {
        let limit = TimeLimit { name: "describeTimeout", allowed: self.limits.describe_timeout };
        let guest = self.guest.plugin.clone();
        let recorded = self.recorder.begin(|| GuestCall::Describe { config: config.to_owned() });
        let result =
            self.call(Call::Describe, limit, async |store| guest.call_describe(store, config).await).await;
        let result: Result<String, DescribeError> = match result {
            Ok(described) => described.map_err(|message| DescribeError::Refused(truncated(message))),
            Err(fault) => Err(fault.into()),
        };
        recorded.end(|| GuestResult::Describe(result.clone()));
        result
    }

    /// Reconciles one object.
    pub async fn reconcile(&mut self, request: impl Into<Arc<Request>>) -> Result<Outcome, Failure> {
        let Some(guest) = self.guest.reconcile.clone() else {
            return Err(self.not_exported("reconcile").into());
        };
        let limit = TimeLimit { name: "reconcileTimeout", allowed: self.limits.reconcile_timeout };
        let request = request.into();
        let mut argument = self.argument.take().unwrap_or_else(empty_request);
        write_request(&mut argument, &request);
        let recorded = self.recorder.begin(|| GuestCall::Reconcile(Arc::clone(&request)));
        let result = self
            .call(Call::Reconcile(request), limit, async |store| guest.call_reconcile(store, &argument).await)
            .await;
        self.argument = Some(argument);
        let result: Result<Outcome, Failure> = match result {
            Ok(Ok(types::Outcome::Done)) => Ok(Outcome::Done),
            Ok(Ok(types::Outcome::RequeueAfter(milliseconds))) => {
                let milliseconds = milliseconds.min(MAX_MILLISECONDS);
                Ok(Outcome::RequeueAfter(Duration::from_millis(milliseconds.into())))
            }
            Ok(Err(failure)) => Err(failure.into()),
            Err(fault) => Err(fault.into()),
        };
        recorded.end(|| GuestResult::Reconcile(result.clone()));
        result
    }

    /// Delivers a batch of notifications of one watch, in order.
    pub async fn observe(&mut self, batch: &[Observation]) -> Result<(), Failure> {
        self.observe_owned(batch.to_vec()).await
    }

    /// Like [`observe`](Self::observe), for a batch that the caller does not need afterwards.
    pub async fn observe_owned(&mut self, batch: Vec<Observation>) -> Result<(), Failure> {
        let Some(guest) = self.guest.observe.clone() else {
            return Err(self.not_exported("observe").into());
        };
        let limit = TimeLimit { name: "observeTimeout", allowed: self.limits.observe_timeout };
        let notifications: Vec<_> = batch.iter().map(wit_notification).collect();
        let watch = batch.first().map(|first| Arc::clone(&first.watch)).unwrap_or_default();
        let recorded = self.recorder.begin(|| GuestCall::Observe(batch.clone()));
        let result = self
            .call(Call::Observe(watch), limit, async |store| {
                let handle = store.data_mut().handles.open_batch(batch)?;
                let result = guest.call_observe(&mut *store, &notifications, handle).await;
                store.data_mut().handles.end_batch();
                result
            })
            .await;
        let result: Result<(), Failure> = match result {
            Ok(returned) => returned.map_err(Failure::from),
            Err(fault) => Err(fault.into()),
        };
        recorded.end(|| GuestResult::Observe(result.clone()));
        result
    }

    /// Computes the values of the object in one of the plugin's computed indexes, sorted and without duplicates.
    ///
    /// # Errors
    /// If the call fails, or if the values are too many or too long; the latter leaves the instance usable.
    pub async fn index_values(&mut self, index: &str, object: &Object) -> Result<Vec<String>, Fault> {
        let Some(guest) = self.guest.index.clone() else { return Err(self.not_exported("index")) };
        let limit = TimeLimit { name: "indexTimeout", allowed: self.limits.index_timeout };
        let recorded = self
            .recorder
            .begin(|| GuestCall::IndexValues { index: index.to_owned(), object: object.clone() });
        let values = self
            .call(Call::IndexValues(index.into()), limit, async |store| {
                let handle = store.data_mut().open(object.clone())?;
                guest.call_values(store, index, handle).await
            })
            .await;
        let result = values.and_then(|values| checked_index_values(index, values));
        recorded.end(|| GuestResult::IndexValues(result.clone()));
        result
    }

    async fn call<T>(
        &mut self,
        call: Call,
        limit: TimeLimit,
        body: impl AsyncFnOnce(&mut Store<GuestState>) -> wasmtime::Result<T>,
    ) -> Result<T, Fault> {
        match self.state {
            State::Ready | State::Leaking => {}
            State::Busy | State::Poisoned => {
                return Err(Fault::new(call.name(), FaultKind::Poisoned, Vec::new()));
            }
        }
        self.state = State::Busy;
        let engine = &self.code.inner.engine.shared;
        let result = run(engine, &mut self.store, call, limit, body).await;
        self.state = match &result {
            Err(_) => State::Poisoned,
            Ok(_) if self.store.data().is_leaking() => State::Leaking,
            Ok(_) => State::Ready,
        };
        result
    }

    fn not_exported(&self, interface: &'static str) -> Fault {
        Fault::new(interface, FaultKind::NotExported(interface), Vec::new())
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance")
            .field("state", &self.state)
            .field("open_handles", &self.open_handles())
            .finish_non_exhaustive()
    }
}

/// Returns the index values of one object, sorted and without duplicates. Errors if they are too many or too long, duplicates included.
fn checked_index_values(index: &str, mut values: Vec<String>) -> Result<Vec<String>, Fault> {
    // Checked before the host sorts them, which the guest's time limit would not end.
    match index_values_problem(&values) {
        None => {
            values.sort_unstable();
            values.dedup();
            Ok(values)
        }
        Some(problem) => Err(Fault::new(
            Call::IndexValues(index.into()).name(),
            FaultKind::IndexValues { problem },
            Vec::new(),
        )),
    }
}

/// Returns what is wrong with the index values of one object, if anything.
fn index_values_problem(values: &[String]) -> Option<String> {
    if values.len() > MAX_INDEX_VALUES {
        return Some(format!("{} of them; at most {MAX_INDEX_VALUES} are allowed", values.len()));
    }
    let longest = values.iter().map(String::len).max().unwrap_or_default();
    (longest > MAX_INDEX_VALUE)
        .then(|| format!("one of {longest} bytes; at most {MAX_INDEX_VALUE} are allowed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_values_are_counted_before_the_host_sorts_them() {
        let values = |count: usize| checked_index_values("index", vec!["value".to_owned(); count]);
        assert_eq!(values(MAX_INDEX_VALUES).expect("as many as are allowed"), ["value"]);
        let refused = values(MAX_INDEX_VALUES + 1).expect_err("one too many");
        assert!(refused.to_string().contains("1001 of them; at most 1000 are allowed"), "{refused}");
    }
}
