//! Measures the time to check out an instance of an idle plugin, with unmapped code and with a pooled instance.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_model::Object;
use pilothouse_plugin::{CacheDirectory, Engine, EngineOptions, InstanceLimits, InstancePool, StubHost};
use tokio::time::Instant;

/// Median times in milliseconds.
pub(crate) struct Times {
    /// To check out an instance when the code is not mapped.
    pub(crate) unmapped: f64,
    /// To check out a pooled instance.
    pub(crate) pooled: f64,
}

const REPETITIONS: usize = 51;

pub(crate) async fn measure(guest: &Path, folder: &Path) -> Result<Times, String> {
    let cache = CacheDirectory { path: folder.join("cache"), max_bytes: 1 << 30 };
    let options = EngineOptions { cache: Some(cache), ..EngineOptions::default() };
    let engine = Engine::new(options).map_err(|error| error.to_string())?;
    let wasm = std::fs::read(guest).map_err(|error| format!("{}: {error}", guest.display()))?;
    let code = engine.load(wasm).await.map_err(|error| error.to_string())?;
    let object = Object::from_json(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"}}"#)
        .map_err(|error| error.to_string())?;
    let pool = InstancePool::new(
        code.clone(),
        Arc::new(StubHost::new("{}").with_object(object)),
        InstanceLimits::default(),
    );
    let (mut unmapped, mut pooled) = (Vec::new(), Vec::new());
    for _ in 0..REPETITIONS {
        pool.drop_idle(Duration::ZERO);
        if code.is_mapped() {
            return Err("the code is still mapped".to_owned());
        }
        for times in [&mut unmapped, &mut pooled] {
            let begin = Instant::now();
            drop(pool.checkout().await.map_err(|fault| fault.to_string())?);
            times.push(begin.elapsed());
        }
    }
    Ok(Times { unmapped: median(unmapped), pooled: median(pooled) })
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1000.0
}
