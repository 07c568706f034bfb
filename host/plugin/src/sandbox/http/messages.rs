//! Bounds on the HTTP messages that a guest creates, whether it sends them or not.
//!
//! The functions of `wasmtime_wasi_http` bound the size of headers only. [`replace_in_linker`] replaces those that add to a message by
//! functions that also bound the texts of a request and charge what the guest keeps (see
//! [`WasiResources`](crate::sandbox::WasiResources)).

use wasmtime::component::{Linker, Resource};
use wasmtime::{Result, StoreContextMut};
use wasmtime_wasi_http::p2::bindings::http::types::{
    self, FieldName, FieldValue, Host, HostFields, HostOutgoingRequest, HostOutgoingResponse, Method, Scheme,
};
use wasmtime_wasi_http::p2::{HeaderResult, types as resources};
use wasmtime_wasi_http::{FieldMap, WasiHttpCtxView, WasiHttpView};

use crate::sandbox::{GuestState, StopReason};

/// The interface as `wasmtime_wasi_http` adds it to the linker.
const TYPES: &str = "wasi:http/types@0.2.12";

/// Maximum size of the headers of a message, in bytes, with the overhead of each in memory.
pub(super) const MAX_FIELDS: usize = 16 << 10;
/// Maximum length of a method, in bytes.
const MAX_METHOD: usize = 256;
/// Maximum length of a path with its query, in bytes.
const MAX_PATH: usize = 16 << 10;
/// Maximum length of an authority, in bytes. A DNS name has at most 253.
const MAX_AUTHORITY: usize = 1 << 10;
/// Maximum length of a scheme, in bytes: the maximum of the crate `http`.
const MAX_SCHEME: usize = 64;

type GuestStore<'a> = StoreContextMut<'a, GuestState>;
type Fields = Resource<FieldMap>;
type OutgoingRequest = Resource<resources::HostOutgoingRequest>;
type OutgoingResponse = Resource<resources::HostOutgoingResponse>;

/// Replaces the functions that add to a message, which `linker` must have already.
pub(crate) fn replace_in_linker(linker: &mut Linker<GuestState>) -> Result<()> {
    linker.allow_shadowing(true);
    let replaced = replace_fields(linker).and_then(|()| replace_messages(linker));
    linker.allow_shadowing(false);
    replaced
}

fn replace_fields(linker: &mut Linker<GuestState>) -> Result<()> {
    let mut types = linker.instance(TYPES)?;
    types.func_wrap("[constructor]fields", |mut store: GuestStore<'_>, (): ()| {
        Ok((HostFields::new(&mut http(&mut store)?)?,))
    })?;
    types.func_wrap(
        "[static]fields.from-list",
        |mut store: GuestStore<'_>, (entries,): (Vec<(FieldName, FieldValue)>,)| {
            let mut http = http(&mut store)?;
            let created = http.from_list(entries);
            header_result(&mut http, created)
        },
    )?;
    types.func_wrap("[method]fields.clone", |mut store: GuestStore<'_>, (fields,): (Fields,)| {
        Ok((HostFields::clone(&mut http(&mut store)?, fields)?,))
    })?;
    types.func_wrap(
        "[method]fields.set",
        |mut store: GuestStore<'_>, (fields, name, values): (Fields, FieldName, Vec<FieldValue>)| {
            let mut http = http(&mut store)?;
            let set = http.set(fields, name, values);
            header_result(&mut http, set)
        },
    )?;
    types.func_wrap(
        "[method]fields.append",
        |mut store: GuestStore<'_>, (fields, name, value): (Fields, FieldName, FieldValue)| {
            let mut http = http(&mut store)?;
            let appended = http.append(fields, name, value);
            header_result(&mut http, appended)
        },
    )
}

fn replace_messages(linker: &mut Linker<GuestState>) -> Result<()> {
    let mut types = linker.instance(TYPES)?;
    types.func_wrap(
        "[constructor]outgoing-request",
        |mut store: GuestStore<'_>, (headers,): (Fields,)| {
            Ok((HostOutgoingRequest::new(&mut http(&mut store)?, headers)?,))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.body",
        |mut store: GuestStore<'_>, (request,): (OutgoingRequest,)| {
            Ok((HostOutgoingRequest::body(&mut http(&mut store)?, request)?,))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-response.body",
        |mut store: GuestStore<'_>, (response,): (OutgoingResponse,)| {
            Ok((HostOutgoingResponse::body(&mut http(&mut store)?, response)?,))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-method",
        |mut store: GuestStore<'_>, (request, method): (OutgoingRequest, Method)| {
            let other = if let Method::Other(text) = &method { Some(text) } else { None };
            if is_too_long(other, MAX_METHOD) {
                return Ok((Err(()),));
            }
            Ok((http(&mut store)?.set_method(request, method)?,))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-path-with-query",
        |mut store: GuestStore<'_>, (request, path): (OutgoingRequest, Option<String>)| {
            if is_too_long(path.as_ref(), MAX_PATH) {
                return Ok((Err(()),));
            }
            Ok((http(&mut store)?.set_path_with_query(request, path)?,))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-scheme",
        |mut store: GuestStore<'_>, (request, scheme): (OutgoingRequest, Option<Scheme>)| {
            let other = if let Some(Scheme::Other(text)) = &scheme { Some(text) } else { None };
            if is_too_long(other, MAX_SCHEME) {
                return Ok((Err(()),));
            }
            Ok((http(&mut store)?.set_scheme(request, scheme)?,))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-authority",
        |mut store: GuestStore<'_>, (request, authority): (OutgoingRequest, Option<String>)| {
            if is_too_long(authority.as_ref(), MAX_AUTHORITY) {
                return Ok((Err(()),));
            }
            Ok((http(&mut store)?.set_authority(request, authority)?,))
        },
    )
}

/// Returns the implementation of `wasi:http`, for a function that adds to a message.
///
/// # Errors
/// If the HTTP messages that the guest keeps exceed its host memory.
fn http<'a>(store: &'a mut GuestStore<'_>) -> Result<WasiHttpCtxView<'a>> {
    let state = store.data_mut();
    state.wasi_resources.check_http_memory().map_err(StopReason::HostMemory)?;
    Ok(state.http())
}

/// Returns the result of a function of `fields` as the guest gets it.
fn header_result<T>(
    http: &mut WasiHttpCtxView<'_>,
    result: HeaderResult<T>,
) -> Result<(Result<T, types::HeaderError>,)> {
    match result {
        Ok(value) => Ok((Ok(value),)),
        Err(error) => Ok((Err(http.convert_header_error(error)?),)),
    }
}

fn is_too_long(text: Option<&String>, allowed: usize) -> bool {
    text.is_some_and(|text| text.len() > allowed)
}
