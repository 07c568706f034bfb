//! Measures bare wasmtime with the same guest.

use std::time::Duration;

use tokio::time::Instant;
use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine, Result, Store, format_err};
use wit_component::ComponentEncoder;

/// Compiles and instantiates the plugin with those settings of the host that cost time. A core module is converted to a component first,
/// which is not measured.
pub(crate) fn compile_and_instantiate(wasm: &[u8]) -> Result<Duration> {
    let is_component = wasm.get(4..8) == Some(&[0x0d, 0, 1, 0]);
    let component = if is_component {
        wasm.to_vec()
    } else {
        let encoder = ComponentEncoder::default().module(wasm);
        encoder.and_then(|mut encoder| encoder.encode()).map_err(|error| format_err!("{error:#}"))?
    };
    let begun = Instant::now();
    let mut config = Config::new();
    config.epoch_interruption(true).native_unwind_info(false);
    let engine = Engine::new(&config)?;
    let component = Component::new(&engine, &component)?;
    let mut linker = Linker::new(&engine);
    linker.define_unknown_imports_as_traps(&component)?;
    let mut store = Store::new(&engine, ());
    store.set_epoch_deadline(1);
    linker.instantiate(&mut store, &component)?;
    Ok(begun.elapsed())
}
