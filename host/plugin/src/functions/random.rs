//! The functions of WASI that return random bytes.
//!
//! Those of `wasmtime_wasi` draw each byte by a call of its own, of which a recorder receives every one: a language runtime that asks for 2,500
//! bytes at its start makes 2,500 calls of the host.

use wasmtime::component::Linker;
use wasmtime::{Result, StoreContextMut};

use crate::sandbox::GuestState;

/// The functions, by the interface in the version of `wasmtime_wasi`.
const FUNCTIONS: [(&str, &str); 2] = [
    ("wasi:random/random@0.2.12", "get-random-bytes"),
    ("wasi:random/insecure@0.2.12", "get-insecure-random-bytes"),
];

/// Replaces the functions of `wasmtime_wasi`, which `linker` must have already.
pub(super) fn replace_in_linker(linker: &mut Linker<GuestState>) -> Result<()> {
    linker.allow_shadowing(true);
    let replaced = FUNCTIONS.into_iter().try_for_each(|(interface, function)| {
        linker.instance(interface)?.func_wrap(
            function,
            |store: StoreContextMut<'_, GuestState>, (length,): (u64,)| {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                store.data().check_message_size(length)?;
                let mut bytes = vec![0; length];
                store.data().host.random(&mut bytes);
                Ok((bytes,))
            },
        )
    });
    linker.allow_shadowing(false);
    replaced
}
