//! Runs guest code within its limits.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::task::unconstrained;
use tokio::time::sleep;
use wasmtime::Store;

use crate::engine::Shared;
use crate::fault::classify_error;
use crate::sandbox::{GuestState, StopReason};
use crate::{Call, Fault, FaultKind};

/// The import that a fault names when the guest waits outside of the contract's imports: only WASI's polling can wait.
const WASI_WAIT: &str = "wasi:io/poll";

/// A time limit, with its name in the sidecar.
#[derive(Clone, Copy)]
pub(super) struct TimeLimit {
    pub(super) name: &'static str,
    pub(super) allowed: Duration,
}

/// Runs guest code within its limits. Errors with what went wrong.
pub(super) async fn run<T>(
    engine: &Shared,
    store: &mut Store<GuestState>,
    call: Call,
    limit: TimeLimit,
    body: impl AsyncFnOnce(&mut Store<GuestState>) -> wasmtime::Result<T>,
) -> Result<T, Fault> {
    let name = call.name();
    let _running = engine.ticker.enter();
    match engine.options.call_fuel {
        Some(fuel) => store.set_fuel(fuel).expect("an engine that counts fuel"),
        None => store.set_epoch_deadline(1),
    }
    let state = store.data_mut();
    state.cpu.begin_call(limit.allowed);
    state.waiting_in = None;
    state.console.lock().begin_call(call.clone());
    state.call = call;
    let on_resume = state.cpu.on_resume();
    let result = with_timeout(limit.allowed, on_resume, body(store)).await;
    let state = store.data_mut();
    let result = match result {
        Some(Ok(value)) => Some(
            (state.handles.end_call().and_then(|()| state.wasi_resources.end_call()))
                .map(|()| value)
                .map_err(|exceeded| StopReason::from(exceeded).into()),
        ),
        other => other,
    };
    state.http.end_call();
    let last_lines = {
        let mut console = state.console.lock();
        console.end_call();
        if matches!(result, Some(Ok(_))) { Vec::new() } else { console.take_last_lines() }
    };
    let timed_out = |state: &GuestState| FaultKind::Timeout {
        limit: limit.name,
        allowed: limit.allowed,
        computing: state.cpu.used().min(limit.allowed),
        waiting_in: state.waiting_in.map(str::to_owned),
    };
    let kind = match result {
        Some(Ok(value)) => return Ok(value),
        Some(Err(error)) => classify_error(&error, store.data(), || timed_out(store.data())),
        None => {
            if state.waiting_in.is_none() && !state.cpu.is_computing() {
                state.waiting_in = Some(WASI_WAIT);
            }
            timed_out(state)
        }
    };
    Err(Fault::new(name, kind, last_lines))
}

/// Returns the result, or `None` if it takes longer than allowed. Calls `on_resume` before each poll of `body`.
///
/// Most calls answer before they wait for anything. Only the others get a timer. It starts when they first yield, which is at most one tick
/// of the engine after their beginning.
async fn with_timeout<T>(
    allowed: Duration,
    on_resume: impl Fn(),
    body: impl Future<Output = T>,
) -> Option<T> {
    let mut body = pin!(body);
    let mut timer = pin!(None);
    poll_fn(|cx| {
        on_resume();
        if let Poll::Ready(result) = body.as_mut().poll(cx) {
            return Poll::Ready(Some(result));
        }
        if timer.is_none() {
            // Unconstrained, because a call that uses up its task's cooperative budget must not keep the timer from being polled.
            timer.set(Some(unconstrained(sleep(allowed))));
        }
        match timer.as_mut().as_pin_mut() {
            Some(timer) => timer.poll(cx).map(|()| None),
            None => Poll::Pending,
        }
    })
    .await
}
