//! The target `loader`: loads a plugin's file and calls `describe`, within limits.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pilothouse_controller::descriptor::Descriptor;
use pilothouse_plugin::{DescribeError, Engine, EngineOptions, InstanceLimits, LoadError, StubHost};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::assert_one_line;

/// How long loading and describing may take. Many times the limits, for slow machines.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Host {
    runtime: Runtime,
    engine: Engine,
    limits: InstanceLimits,
}

/// Returns the host that all inputs share, as all plugins of a real host do.
fn host() -> &'static Host {
    static HOST: OnceLock<Host> = OnceLock::new();
    HOST.get_or_init(|| Host {
        runtime: tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime"),
        engine: Engine::new(EngineOptions { parallel_compilation: false, ..EngineOptions::default() })
            .expect("an engine"),
        limits: InstanceLimits {
            memory: 4 << 20,
            describe_timeout: Duration::from_millis(200),
            message_size: 1 << 20,
            handles: 100,
            ..InstanceLimits::default()
        },
    })
}

pub(crate) fn run(input: &[u8]) {
    let Host { runtime, engine, limits } = host();
    let work = async {
        match engine.load(input.to_vec()).await {
            Ok(code) => match code.describe(Arc::new(StubHost::new("{}").repeatable()), limits).await {
                Ok(text) => Descriptor::parse(&text).err().into_iter().for_each(assert_one_line),
                // The plugin's own message, which may have several lines.
                Err(DescribeError::Refused(_)) => {}
                Err(DescribeError::Fault(fault)) => assert_one_line(fault.kind()),
            },
            Err(LoadError::Internal(problem)) => panic!("the loader itself failed: {problem}"),
            Err(error) => assert_one_line(error),
        }
    };
    let ended = runtime.block_on(async { timeout(TIMEOUT, work).await });
    assert!(ended.is_ok(), "loading and describing did not end");
}
