//! The WASI 0.2 that a guest gets: clocks, randomness and standard output from the host; no files, sockets, environment or arguments.
//!
//! The interfaces of files, sockets, environment and arguments exist but are empty, because language runtimes import them even if they do
//! not use them.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use rand::TryRng;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx};

use super::StopReason;
use super::console::{SharedConsole, Stream};
use crate::{Host, InstanceLimits, Misuse};

/// Creates the WASI context of one instance.
pub(crate) fn context(host: &Arc<dyn Host>, console: &SharedConsole, limits: &InstanceLimits) -> WasiCtx {
    let seed = {
        let mut bytes = [0; 16];
        host.random(&mut bytes);
        u128::from_le_bytes(bytes)
    };
    WasiCtx::builder()
        .stdout(Output { console: console.clone(), stream: Stream::Stdout })
        .stderr(Output { console: console.clone(), stream: Stream::Stderr })
        .wall_clock(Clock(host.clone()))
        .monotonic_clock(Clock(host.clone()))
        .secure_random(Random(host.clone()))
        .insecure_random(Random(host.clone()))
        .insecure_random_seed(seed)
        .max_random_size(limits.message_size as u64)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .build()
}

struct Clock(Arc<dyn Host>);

impl HostWallClock for Clock {
    fn resolution(&self) -> Duration {
        Duration::from_micros(1)
    }

    fn now(&self) -> Duration {
        self.0.wall_clock()
    }
}

impl HostMonotonicClock for Clock {
    fn resolution(&self) -> u64 {
        1_000
    }

    fn now(&self) -> u64 {
        guest_nanoseconds(self.0.monotonic_clock())
    }
}

/// The guest's monotonic time when the host's is zero: the clock's resolution. Go's runtime refuses to start at zero.
const FIRST_TIME: Duration = Duration::from_micros(1);

/// Returns the guest's monotonic time.
fn guest_nanoseconds(host: Duration) -> u64 {
    u64::try_from(host.saturating_add(FIRST_TIME).as_nanos()).unwrap_or(u64::MAX)
}

struct Random(Arc<dyn Host>);

impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.0.random(&mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.0.random(&mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, buffer: &mut [u8]) -> Result<(), Infallible> {
        self.0.random(buffer);
        Ok(())
    }
}

/// A standard stream whose output goes to the console. It accepts everything at once, so a guest never waits for it.
#[derive(Clone)]
struct Output {
    console: SharedConsole,
    stream: Stream,
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl AsyncWrite for Output {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.console.lock().write(self.stream, bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Bytes that a guest may write in one call of `wasi:io/streams`; it calls again for more.
const WRITE_PERMIT: usize = 64 << 10;

#[async_trait::async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {}
}

impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > WRITE_PERMIT {
            let misuse = Misuse::ArgumentTooLong {
                function: "output-stream.write",
                argument: "a write",
                allowed: WRITE_PERMIT,
                given: bytes.len(),
            };
            return Err(StreamError::Trap(StopReason::from(misuse).into()));
        }
        self.console.lock().write(self.stream, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_PERMIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_s_clock_is_never_zero_and_never_goes_backwards() {
        let times =
            [0, 1, 1_000_000_000].map(|nanoseconds| guest_nanoseconds(Duration::from_nanos(nanoseconds)));
        assert_eq!(times, [1_000, 1_001, 1_000_001_000]);
        assert_eq!(guest_nanoseconds(Duration::MAX), u64::MAX);
    }
}
