//! Implements `cache`: reads watched objects.

use std::collections::BTreeSet;

use pilothouse_model::{LabelSelector, Object};
use wasmtime::component::Resource;

use super::borrowed_arguments::{Caller, StringArgument};
use super::objects::pointers_between_charges;
use super::{MAX_PAGE_SIZE, MAX_SELECTOR_LENGTH, check_length, check_pointers, non_empty};
use crate::bindings::pilothouse::controller::cache::{Filter, Host, Page, Row};
use crate::bindings::pilothouse::controller::types::ObjectKey;
use crate::sandbox::{GuestState, ObjectHandle, StopReason};
use crate::{CacheFilter, Call, IndexCursor, Misuse};

/// Number of objects that a list takes from the cache at a time.
const CHUNK_SIZE: usize = 4096;
/// Maximum number of requirements in one label selector. Each is evaluated for each object.
const MAX_REQUIREMENTS: usize = 100;

/// Implements `cache.get`.
pub(super) fn get<C: Caller>(
    caller: &mut C,
    watch: &impl StringArgument<C>,
    namespace: &impl StringArgument<C>,
    name: &impl StringArgument<C>,
) -> wasmtime::Result<Option<Resource<ObjectHandle>>> {
    let object = {
        let (watch, namespace, name) = (watch.read(caller)?, namespace.read(caller)?, name.read(caller)?);
        let state = caller.state();
        state.check_available("cache.get")?;
        match &state.call {
            // The common case, the object under reconciliation: its key exists already.
            Call::Reconcile(request) if is_key(&request.key, &namespace, &name) => {
                state.host.cache_get(&state.call, &watch, &request.key)
            }
            call => state.host.cache_get(call, &watch, &pilothouse_model::ObjectKey::new(&namespace, &name)),
        }
        .map_err(StopReason::from)?
    };
    let Some(object) = object else { return Ok(None) };
    // The processor loads the parts that the guest will most likely read while the guest goes on.
    object.prefetch_fields();
    caller.state_mut().open(object).map(Some)
}

fn is_key(key: &pilothouse_model::ObjectKey, namespace: &str, name: &str) -> bool {
    key.name() == name && key.namespace() == namespace
}

impl Host for GuestState {
    fn get(&mut self, watch: String, key: ObjectKey) -> wasmtime::Result<Option<Resource<ObjectHandle>>> {
        get(self, &watch, &key.namespace, &key.name)
    }

    async fn list(&mut self, watch: String, filter: Filter) -> wasmtime::Result<Page> {
        self.check_available("cache.list")?;
        let mut filter = parse_filter("cache.list", filter)?;
        filter.limit = Some(filter.limit.unwrap_or(usize::MAX).min(MAX_PAGE_SIZE as usize));
        let mut items = Vec::new();
        let mut search = Search::new(&watch, filter);
        while let Some(object) = search.next(self).await? {
            items.push(object);
        }
        let next = match items.last() {
            Some(last) if search.has_more => last.key().as_str().to_owned(),
            _ => String::new(),
        };
        Ok(Page { items: self.open_all(items)?, next })
    }

    async fn list_fields(
        &mut self,
        watch: String,
        filter: Filter,
        pointers: Vec<String>,
    ) -> wasmtime::Result<Vec<Row>> {
        self.check_available("cache.list-fields")?;
        check_pointers("cache.list-fields", &pointers)?;
        let filter = parse_filter("cache.list-fields", filter)?;
        let (mut rows, mut size) = (Vec::new(), 0);
        let mut search = Search::new(&watch, filter);
        while let Some(object) = search.next(self).await? {
            rows.push(self.row(&object, &pointers, &mut size).await?);
        }
        Ok(rows)
    }

    async fn by_index(
        &mut self,
        watch: String,
        index: String,
        value: String,
    ) -> wasmtime::Result<Vec<Resource<ObjectHandle>>> {
        self.check_available("cache.by-index")?;
        let mut objects = Vec::new();
        let mut from = Some(IndexCursor::default());
        while let Some(cursor) = from {
            let part = self
                .host
                .cache_by_index(&self.call, &watch, &index, &value, &cursor)
                .map_err(StopReason::from)?;
            objects.extend(part.found);
            // More objects than there may be handles fail below, however many more there are.
            from = part.next.filter(|_| objects.len() <= self.handles.limit() as usize);
            self.yield_after_tick().await?;
        }
        // A search in one part is in order already.
        objects.sort_by(|left: &Object, right| left.key().cmp(right.key()));
        // A watch may name a namespace twice.
        objects.dedup_by(|left, right| left.key() == right.key());
        let handles = self.open_all(objects)?;
        self.cpu.charge_elapsed()?;
        Ok(handles)
    }

    async fn index_keys(
        &mut self,
        watch: String,
        index: String,
        value: String,
    ) -> wasmtime::Result<Vec<ObjectKey>> {
        self.check_available("cache.index-keys")?;
        let mut keys = BTreeSet::new();
        let mut from = Some(IndexCursor::default());
        let mut size = 0;
        while let Some(cursor) = from {
            let part = self
                .host
                .cache_index_keys(&self.call, &watch, &index, &value, &cursor)
                .map_err(StopReason::from)?;
            for key in part.found {
                let key_size = size_of::<ObjectKey>() + key.as_str().len();
                size += if keys.insert(key) { key_size } else { 0 };
            }
            self.check_message_size(size)?;
            from = part.next;
            self.yield_after_tick().await?;
        }
        Ok(keys.iter().map(ObjectKey::from).collect())
    }

    async fn index_values(&mut self, watch: String, index: String) -> wasmtime::Result<Vec<String>> {
        self.check_available("cache.index-values")?;
        let mut values = BTreeSet::new();
        let mut from = Some(IndexCursor::default());
        let mut size = 0;
        while let Some(cursor) = from {
            let part = self
                .host
                .cache_index_values(&self.call, &watch, &index, &cursor)
                .map_err(StopReason::from)?;
            for value in part.found {
                let value_size = size_of::<String>() + value.len();
                size += if values.insert(value) { value_size } else { 0 };
            }
            self.check_message_size(size)?;
            from = part.next;
            self.yield_after_tick().await?;
        }
        Ok(values.into_iter().collect())
    }

    fn has_synced(&mut self, watch: String) -> wasmtime::Result<bool> {
        self.check_available("cache.has-synced")?;
        Ok(self.host.cache_has_synced(&self.call, &watch).map_err(StopReason::from)?)
    }
}

impl GuestState {
    /// Reads the fields of one object, and adds the bytes of the row to `size`. Many pointers into a large object may take longer than a tick,
    /// so this charges the time and yields after each few pointers, as after each object.
    async fn row(&mut self, object: &Object, pointers: &[String], size: &mut usize) -> wasmtime::Result<Row> {
        let key = object.key();
        *size += size_of::<Row>() + key.as_str().len() + size_of::<Option<String>>() * pointers.len();
        self.check_message_size(*size)?;
        let mut values = Vec::with_capacity(pointers.len());
        if !pointers.is_empty() {
            for group in pointers.chunks(pointers_between_charges(object.json().len())) {
                if !values.is_empty() {
                    self.yield_after_tick().await?;
                }
                for value in object.fields(group) {
                    *size += value.map_or(0, str::len);
                    // Checked before each copy, so that no more is copied than one call may carry.
                    self.check_message_size(*size)?;
                    values.push(value.map(str::to_owned));
                }
            }
        }
        Ok(Row { key: key.into(), values })
    }
}

/// A search for the objects of a watch that match a filter, in the order of their keys.
///
/// Reads [`CHUNK_SIZE`] objects at a time, so that the cache is not locked for long. Other tasks get their turns on this thread before each
/// object, and the call's time limit ends a search that finds nothing. The caller drops each object before it asks for the next one, because
/// what that has unpacked is not charged to anyone.
struct Search<'a> {
    watch: &'a str,
    labels: LabelSelector,
    /// How many more objects may be found.
    remaining: usize,
    /// Selects the next chunk. It has no labels, because they are compared here, object by object.
    filter: CacheFilter,
    chunk: std::vec::IntoIter<Object>,
    /// Whether nothing needs to be read after the chunk.
    is_last: bool,
    /// Whether further objects match, beyond the filter's limit. Known once the search has ended.
    has_more: bool,
}

impl<'a> Search<'a> {
    fn new(watch: &'a str, mut filter: CacheFilter) -> Self {
        let labels = std::mem::replace(&mut filter.labels, LabelSelector::everything());
        let remaining = filter.limit.unwrap_or(usize::MAX);
        let chunk = Vec::new().into_iter();
        Self { watch, labels, remaining, filter, chunk, is_last: false, has_more: false }
    }

    /// Returns the next object; `None` after the last one.
    async fn next(&mut self, state: &mut GuestState) -> wasmtime::Result<Option<Object>> {
        loop {
            state.yield_after_tick().await?;
            match self.chunk.next() {
                Some(object) if !self.labels.matches_object(&object) => {}
                Some(_) if self.remaining == 0 => {
                    self.has_more = true;
                    return Ok(None);
                }
                Some(object) => {
                    self.remaining -= 1;
                    return Ok(Some(object));
                }
                None if self.is_last => return Ok(None),
                None => self.read_chunk(state)?,
            }
        }
    }

    fn read_chunk(&mut self, state: &GuestState) -> wasmtime::Result<()> {
        // Without labels, each object is found, and the chunk says whether there are more.
        let needed = if self.labels.is_empty() { self.remaining } else { usize::MAX };
        self.filter.limit = Some(CHUNK_SIZE.min(needed));
        let chunk = state.host.cache_list(&state.call, self.watch, &self.filter).map_err(StopReason::from)?;
        // A chunk that the host has cut off early does not know yet whether there are more.
        let is_enough = chunk.items.len() >= needed && chunk.searched_to.is_none();
        self.has_more = chunk.more && is_enough;
        let last = chunk.items.last().map(|last| last.key().clone());
        let searched_to = chunk.searched_to.or(last);
        self.is_last = !chunk.more || is_enough || searched_to.is_none();
        self.filter.after = searched_to;
        self.chunk = chunk.items.into_iter();
        Ok(())
    }
}

/// Checks and converts the filter of a list.
fn parse_filter(function: &'static str, filter: Filter) -> wasmtime::Result<CacheFilter> {
    check_length(function, "a label selector", MAX_SELECTOR_LENGTH, &filter.label_selector)?;
    check_length(function, "a cursor", MAX_SELECTOR_LENGTH, &filter.cursor)?;
    let labels = match filter.label_selector.as_str() {
        "" => LabelSelector::everything(),
        selector => parse_labels(selector).map_err(|message| {
            StopReason::from(Misuse::InvalidSelector { selector: selector.to_owned(), message })
        })?,
    };
    Ok(CacheFilter {
        namespace: non_empty(filter.namespace),
        labels,
        after: non_empty(filter.cursor).map(|cursor| parse_cursor(&cursor)),
        limit: (filter.limit > 0).then_some(filter.limit as usize),
    })
}

fn parse_labels(selector: &str) -> Result<LabelSelector, String> {
    let labels = LabelSelector::parse(selector).map_err(|error| error.to_string())?;
    match labels.requirements().len() {
        given if given > MAX_REQUIREMENTS => {
            Err(format!("it has {given} requirements, {MAX_REQUIREMENTS} are allowed"))
        }
        _ => Ok(labels),
    }
}

/// Parses a cursor: the key of the last object of the previous page, as `ObjectKey` displays it.
fn parse_cursor(cursor: &str) -> pilothouse_model::ObjectKey {
    match cursor.split_once('/') {
        Some((namespace, name)) => pilothouse_model::ObjectKey::new(namespace, name),
        None => pilothouse_model::ObjectKey::cluster(cursor),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::*;
    use crate::sandbox::CpuMeter;
    use crate::{Engine, EngineOptions, InstanceLimits, StubHost};

    /// Returns the state of a guest whose CPU time is 25 ms, on an engine that does not tick by itself.
    fn guest(limits: &InstanceLimits) -> (Engine, GuestState) {
        let options = EngineOptions { call_fuel: Some(1), ..EngineOptions::default() };
        let engine = Engine::new(options).expect("an engine");
        let mut cpu = CpuMeter::new(Duration::from_millis(10), Arc::clone(&engine.shared.ticks));
        cpu.begin_call(Duration::from_millis(25));
        let host = Arc::new(StubHost::new("{}"));
        let state = GuestState::store(&engine.shared, cpu, host, limits).into_data();
        (engine, state)
    }

    /// Returns an object with `size` bytes of text.
    fn object(size: usize) -> Object {
        let text = "x".repeat(size);
        Object::from_json(format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},"data":{{"text":"{text}"}}}}"#
        ))
        .expect("an object")
    }

    /// Reads a row, during which a tick passes whenever the guest yields, and once before. Returns how often it yielded, too.
    async fn read_row(object: &Object, pointers: usize) -> (wasmtime::Result<Row>, u32) {
        let (engine, mut state) = guest(&InstanceLimits::default());
        let pointers: Vec<String> = (0..pointers).map(|number| format!("/data/{number}")).collect();
        let (mut size, mut yields) = (0, 0);
        let tick = || engine.shared.ticks.fetch_add(1, Ordering::Relaxed);
        tick();
        let mut reading = std::pin::pin!(state.row(object, &pointers, &mut size));
        let row = loop {
            tokio::select! {
                biased;
                row = &mut reading => break row,
                () = std::future::ready(()) => {
                    yields += 1;
                    tick();
                }
            }
        };
        (row, yields)
    }

    #[tokio::test]
    async fn the_time_limit_ends_a_row_between_two_pointers_into_a_large_object() {
        let (row, yields) = read_row(&object(2 << 20), 64).await;
        let stopped = row.expect_err("more ticks than allowed pass");
        assert!(matches!(stopped.downcast_ref(), Some(StopReason::CpuTime)), "{stopped}");
        assert_eq!(yields, 3, "one for each tick that is allowed");
        // As many pointers into a small object are one step.
        let (row, yields) = read_row(&object(2 << 10), 64).await;
        assert_eq!((row.expect("in time").values.len(), yields), (64, 0));
    }

    #[tokio::test]
    async fn no_more_of_a_row_is_copied_than_one_call_may_carry() {
        let limits = InstanceLimits { message_size: 3000, ..InstanceLimits::default() };
        let (_engine, mut state) = guest(&limits);
        let (object, mut size) = (object(1000), 0);
        let pointers = vec!["/data/text".to_owned(); 64];
        let refused = state.row(&object, &pointers, &mut size).await.expect_err("64,000 bytes are too much");
        assert!(
            matches!(refused.downcast_ref(), Some(StopReason::MessageSize { allowed: 3000 })),
            "{refused}"
        );
        let (first, more) = (size, state.row(&object, &pointers[..1], &mut size).await);
        assert!(more.is_err() && first <= 3000 + 1002, "stopped at the first that is too much: {first}");
    }
}
