//! The lower bound: a core module that requests a value, and a host function that copies it from a table into the module's memory.

use std::collections::HashMap;

use wasmtime::{Caller, Engine, Extern, Linker, Module, Result, Store, TypedFunc, format_err};

use crate::pods::READ_KEYS;

/// The module writes each key (`web-` and four digits) itself, which costs least.
const MODULE: &str = r#"(module
  (import "host" "read" (func $read (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "web-0000")
  (func (export "read") (param $times i32) (result i32)
    (local $number i32) (local $found i32)
    (loop $next
      (i32.store8 (i32.const 4) (i32.add (i32.const 48) (i32.div_u (local.get $number) (i32.const 1000))))
      (i32.store8 (i32.const 5) (i32.add (i32.const 48) (i32.rem_u (i32.div_u (local.get $number) (i32.const 100)) (i32.const 10))))
      (i32.store8 (i32.const 6) (i32.add (i32.const 48) (i32.rem_u (i32.div_u (local.get $number) (i32.const 10)) (i32.const 10))))
      (i32.store8 (i32.const 7) (i32.add (i32.const 48) (i32.rem_u (local.get $number) (i32.const 10))))
      (if (call $read (i32.const 0) (i32.const 8) (i32.const 64))
        (then (local.set $found (i32.add (local.get $found) (i32.const 1)))))
      (local.set $number (i32.rem_u (i32.add (local.get $number) (i32.const 1)) (i32.const 1000)))
      (br_if $next (local.tee $times (i32.sub (local.get $times) (i32.const 1)))))
    (local.get $found)))"#;

/// The module, and the values by key.
pub(crate) struct Core {
    store: Store<HashMap<String, String>>,
    read: TypedFunc<u32, u32>,
}

impl Core {
    pub(crate) fn new() -> Result<Self> {
        let engine = Engine::default();
        let module = Module::new(&engine, wat::parse_str(MODULE).map_err(|error| format_err!("{error}"))?)?;
        let mut linker = Linker::new(&engine);
        linker.func_wrap("host", "read", copy)?;
        let values =
            (0..READ_KEYS).map(|number| (format!("web-{number:04}"), format!("node-{}", number % 100)));
        let mut store = Store::new(&engine, values.collect());
        let instance = linker.instantiate(&mut store, &module)?;
        let read = instance.get_typed_func(&mut store, "read")?;
        Ok(Self { store, read })
    }

    /// Reads `times` values.
    pub(crate) fn read(&mut self, times: usize) -> Result<()> {
        let times = u32::try_from(times)?;
        let found = self.read.call(&mut self.store, times)?;
        if found == times { Ok(()) } else { Err(format_err!("{found} of {times} values were found")) }
    }
}

fn copy(mut caller: Caller<'_, HashMap<String, String>>, key: u32, length: u32, to: u32) -> Result<u32> {
    let memory = caller.get_export("memory").and_then(Extern::into_memory);
    let memory = memory.ok_or_else(|| format_err!("the module has no memory"))?;
    let (bytes, values) = memory.data_and_store_mut(&mut caller);
    let key =
        bytes.get(key as usize..(key + length) as usize).ok_or_else(|| format_err!("outside of memory"))?;
    let Some(value) = values.get(std::str::from_utf8(key)?) else { return Ok(0) };
    let target = bytes.get_mut(to as usize..to as usize + value.len());
    target.ok_or_else(|| format_err!("outside of memory"))?.copy_from_slice(value.as_bytes());
    Ok(u32::try_from(value.len())?)
}
