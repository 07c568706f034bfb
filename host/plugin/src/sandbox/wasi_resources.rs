//! The resources of WASI that a guest holds, and what they cost the host.

use std::any::Any;

use wasmtime::component::ResourceTable;
use wasmtime_wasi_http::FieldMap;
use wasmtime_wasi_http::p2::bindings::http::types::{Method, Scheme};
use wasmtime_wasi_http::p2::body::{HostFutureTrailers, HostIncomingBody};
use wasmtime_wasi_http::p2::types::{
    HostFutureIncomingResponse, HostIncomingResponse, HostOutgoingRequest, HostOutgoingResponse,
};

use super::http::{BODY_BUFFER, READ_AHEAD};
use crate::{HostMemory, HostMemoryCharge, HostMemoryExceeded, HostMemoryKind};

/// Maximum number of resources of one instance. Language runtimes hold some tens.
const MAX_RESOURCES: usize = 1_024;
/// Upper bound of the bytes that one use of HTTP adds: a body's buffer. Fields and the texts of a request take less.
const MAX_HTTP_USE: usize = BODY_BUFFER;
/// Bytes that a field takes in a map beside its name and its value.
const FIELD_OVERHEAD: usize = 104;

/// The table of an instance's WASI resources: streams, pollables and HTTP messages.
///
/// The table itself knows neither how many resources it holds nor how large they are. [`count`](Self::count) visits all, so it runs only
/// after so many uses that there may be too many, or too large ones.
///
/// # What is charged
/// HTTP messages are charged to the plugin's host memory when they are counted, which is at the end of each call that used HTTP, and within
/// a call whenever the uses since the last count may have added a sixteenth of the limit.
pub(crate) struct WasiResources {
    table: ResourceTable,
    /// An upper bound of the number of resources: those of the last count, and one for each use since.
    held: usize,
    /// Uses of HTTP since the last count.
    http_uses: usize,
    charge: HostMemoryCharge,
}

impl WasiResources {
    pub(super) fn new(handles: u32, memory: &HostMemory) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_RESOURCES.min(handles as usize));
        let charge = memory.charge(HostMemoryKind::HttpMessages, 0);
        Self { table, held: 0, http_uses: 0, charge }
    }

    /// Returns the table for one call of an import, which adds at most one resource.
    pub(super) fn table(&mut self) -> &mut ResourceTable {
        self.held = self.held.saturating_add(1);
        &mut self.table
    }

    /// Returns the table for one call of an import of `wasi:http`.
    pub(super) fn table_for_http(&mut self) -> &mut ResourceTable {
        self.http_uses = self.http_uses.saturating_add(1);
        self.table()
    }

    /// Errors if the HTTP messages exceed the host memory, as far as that must be known before one more use.
    pub(super) fn check_http_memory(&mut self) -> Result<(), HostMemoryExceeded> {
        let credit = self.charge.memory().limit() / 16;
        if self.http_uses.saturating_mul(MAX_HTTP_USE) < credit { Ok(()) } else { self.count() }
    }

    /// Ends a call: what the guest keeps of HTTP is charged.
    pub(crate) fn end_call(&mut self) -> Result<(), HostMemoryExceeded> {
        if self.http_uses == 0 && !self.is_leaking() { Ok(()) } else { self.count() }
    }

    /// Returns how many resources the guest may hold.
    pub(crate) fn limit(&self) -> usize {
        self.table.max_capacity()
    }

    /// Returns whether the guest holds so many resources after a call that it must be leaking them.
    pub(crate) fn is_leaking(&self) -> bool {
        self.held > self.limit() / 2
    }

    /// Counts the resources and charges the HTTP messages among them.
    #[cold]
    fn count(&mut self) -> Result<(), HostMemoryExceeded> {
        let (mut held, mut bytes) = (0, 0);
        // The table hands out the smallest indices first, so none is above its capacity.
        for index in 0..u32::try_from(self.limit()).unwrap_or(u32::MAX) {
            if let Ok(resource) = self.table.get_any_mut(index) {
                held += 1;
                bytes += http_size(resource);
            }
        }
        self.held = held;
        self.http_uses = 0;
        self.charge.resize(bytes)
    }
}

/// Returns an upper bound of the bytes that a resource keeps alive for HTTP; 0 for other resources.
fn http_size(resource: &dyn Any) -> usize {
    if let Some(fields) = resource.downcast_ref::<FieldMap>() {
        return fields_size(fields);
    }
    if let Some(request) = resource.downcast_ref::<HostOutgoingRequest>() {
        return fields_size(&request.headers)
            + method_size(&request.method)
            + request.scheme.as_ref().map_or(0, scheme_size)
            + request.authority.as_ref().map_or(0, String::len)
            + request.path_with_query.as_ref().map_or(0, String::len)
            + request.body.as_ref().map_or(0, |_| BODY_BUFFER);
    }
    if let Some(response) = resource.downcast_ref::<HostIncomingResponse>() {
        return fields_size(&response.headers) + response.body.as_ref().map_or(0, |_| READ_AHEAD);
    }
    if let Some(response) = resource.downcast_ref::<HostOutgoingResponse>() {
        return fields_size(&response.headers) + response.body.as_ref().map_or(0, |_| BODY_BUFFER);
    }
    match resource.downcast_ref::<HostFutureIncomingResponse>() {
        Some(HostFutureIncomingResponse::Consumed) => return 0,
        Some(_) => return READ_AHEAD,
        None => {}
    }
    if resource.is::<HostIncomingBody>() || resource.is::<HostFutureTrailers>() { READ_AHEAD } else { 0 }
}

fn fields_size(fields: &FieldMap) -> usize {
    fields.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD_OVERHEAD).sum()
}

fn method_size(method: &Method) -> usize {
    if let Method::Other(text) = method { text.len() } else { 0 }
}

fn scheme_size(scheme: &Scheme) -> usize {
    if let Scheme::Other(text) = scheme { text.len() } else { 0 }
}
