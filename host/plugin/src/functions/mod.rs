//! The imports of the contract, one file per interface of `wit/`, and those functions of WASI that are replaced.
//!
//! Each function checks a guest's arguments, calls [`Host`](crate::Host) and converts its result. Arguments come from an untrusted guest,
//! so nothing relies on them before they are checked here.

mod borrowed_arguments;
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
mod random;

use pilothouse_model::ObjectKey;
use wasmtime::component::{HasSelf, Linker};

use crate::bindings::Controller;
use crate::bindings::pilothouse::controller::types;
use crate::sandbox::{GuestState, StopReason};
use crate::{MAX_MILLISECONDS, Misuse};

/// Maximum number of JSON pointers in one call. Each pointer costs a scan of an object, or of many objects.
const MAX_POINTERS: usize = 64;
/// Maximum length of a JSON pointer, in bytes. Keys of labels and annotations have at most 317.
const MAX_POINTER_LENGTH: usize = 4 << 10;
/// Maximum length of a selector or a cursor, in bytes.
const MAX_SELECTOR_LENGTH: usize = 16 << 10;
/// Maximum number of objects in one page of a list.
const MAX_PAGE_SIZE: u32 = 500;

/// Adds all imports of the contract to the linker, which must have those of WASI already.
pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    random::replace_in_linker(linker)?;
    add_generated_to_linker(linker)?;
    borrowed_arguments::replace_in_linker(linker)
}

/// Adds the imports as `bindgen!` generates them, with copied arguments.
fn add_generated_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    Controller::add_to_linker::<_, HasSelf<GuestState>>(linker, |state| state)
}

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

/// Errors if there are more than [`MAX_POINTERS`] pointers, or if one is too long.
fn check_pointers<P: AsRef<str>>(function: &'static str, pointers: &[P]) -> wasmtime::Result<()> {
    check_pointer_count(function, pointers.len())?;
    pointers.iter().try_for_each(|pointer| check_pointer(function, pointer.as_ref()))
}

/// Errors if there are more than [`MAX_POINTERS`] pointers.
fn check_pointer_count(function: &'static str, given: usize) -> wasmtime::Result<()> {
    if given > MAX_POINTERS {
        let misuse = Misuse::TooManyPointers { function, allowed: MAX_POINTERS, given };
        return Err(StopReason::from(misuse).into());
    }
    Ok(())
}

/// Errors if the pointer is longer than [`MAX_POINTER_LENGTH`].
fn check_pointer(function: &'static str, pointer: &str) -> wasmtime::Result<()> {
    check_length(function, "a pointer", MAX_POINTER_LENGTH, pointer)
}

/// Errors if the text of an argument is longer than `allowed` bytes.
fn check_length(
    function: &'static str,
    argument: &'static str,
    allowed: usize,
    text: &str,
) -> wasmtime::Result<()> {
    let given = text.len();
    if given > allowed {
        let misuse = Misuse::ArgumentTooLong { function, argument, allowed, given };
        return Err(StopReason::from(misuse).into());
    }
    Ok(())
}

/// Returns `None` for the empty string, which stands for an absent value in the contract.
fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn duration(milliseconds: u32) -> std::time::Duration {
    std::time::Duration::from_millis(milliseconds.min(MAX_MILLISECONDS).into())
}
