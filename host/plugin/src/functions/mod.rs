//! The host's functions, one file per interface of `wit/`: each turns a guest's arguments into a call of [`Host`](crate::Host), and its
//! answer into what the guest gets. Arguments are hostile until they are checked here.

mod cache;
mod changes;
mod client;
mod config;
mod events;
mod keys;
mod log;
mod metrics;
mod objects;
mod queue;
mod quick;

use pilothouse_model::ObjectKey;
pub(crate) use quick::add_to_linker as add_quick_to_linker;

use crate::bindings::pilothouse::controller::types;
use crate::sandbox::{GuestState, Stop};
use crate::{MAX_MILLISECONDS, Misuse};

/// Pointers in one call, at most: each one costs a scan of an object, or of many.
const MAX_POINTERS: usize = 64;
/// Bytes of one pointer. Keys of labels and annotations have 317 at most.
const MAX_POINTER: usize = 4 << 10;
/// Bytes of a selector or of a cursor.
const MAX_SELECTOR: usize = 16 << 10;
/// Objects in one page of a list, at most.
const MAX_PAGE: u32 = 500;

impl types::Host for GuestState {}

impl From<&ObjectKey> for types::ObjectKey {
    fn from(key: &ObjectKey) -> Self {
        Self { namespace: key.namespace().to_owned(), name: key.name().to_owned() }
    }
}

impl From<&types::ObjectKey> for ObjectKey {
    fn from(key: &types::ObjectKey) -> Self {
        Self::new(&key.namespace, &key.name)
    }
}

fn pairs(pairs: Vec<types::Pair>) -> Vec<(String, String)> {
    pairs.into_iter().map(|pair| (pair.key, pair.value)).collect()
}

/// Refuses more pointers than one call takes, and longer ones.
fn check_pointers<P: AsRef<str>>(function: &'static str, pointers: &[P]) -> wasmtime::Result<()> {
    let given = pointers.len();
    if given > MAX_POINTERS {
        return Err(Stop::from(Misuse::TooManyPointers { function, allowed: MAX_POINTERS, given }).into());
    }
    pointers.iter().try_for_each(|pointer| check_pointer(function, pointer.as_ref()))
}

/// Refuses a pointer that is longer than any that leads somewhere.
fn check_pointer(function: &'static str, pointer: &str) -> wasmtime::Result<()> {
    check_text(function, "a pointer", MAX_POINTER, pointer)
}

/// Refuses a text that is longer than the host reads.
fn check_text(
    function: &'static str,
    argument: &'static str,
    allowed: usize,
    text: &str,
) -> wasmtime::Result<()> {
    if text.len() > allowed {
        return Err(Stop::from(Misuse::TooLong { function, argument, allowed, given: text.len() }).into());
    }
    Ok(())
}

/// "" stands for none in the contract.
fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn duration(milliseconds: u32) -> std::time::Duration {
    std::time::Duration::from_millis(milliseconds.min(MAX_MILLISECONDS).into())
}
