//! Implements `cache`: reads watched objects.

use std::collections::BTreeSet;

use pilothouse_model::{LabelSelector, Object};
use wasmtime::component::Resource;

use super::borrowed_arguments::{Caller, StringArgument};
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
        let take = |object| {
            items.push(object);
            Ok(())
        };
        let more = self.for_each_matching(&watch, filter, take).await?;
        let next = match items.last() {
            Some(last) if more => last.key().as_str().to_owned(),
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
        let (mut rows, allowed) = (Vec::new(), self.message_size);
        let mut remaining = allowed;
        let read = |object: Object| {
            let row = row(&object, &pointers);
            remaining = remaining.checked_sub(row_size(&row)).ok_or(StopReason::MessageSize { allowed })?;
            rows.push(row);
            Ok(())
        };
        self.for_each_matching(&watch, filter, read).await?;
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
    /// Passes the objects that match the filter to `each`, in the order of their keys. Returns whether there are more than the filter's limit.
    ///
    /// Reads [`CHUNK_SIZE`] objects at a time, so that the cache is not locked for long, other tasks get their turns on this thread, and
    /// the call's time limit ends a search that finds nothing. Drops each object before it looks at the next one, because what that has
    /// unpacked is not charged to anyone.
    async fn for_each_matching(
        &mut self,
        watch: &str,
        filter: CacheFilter,
        mut each: impl FnMut(Object) -> Result<(), StopReason> + Send,
    ) -> wasmtime::Result<bool> {
        let CacheFilter { labels, limit, .. } = &filter;
        let limit = limit.unwrap_or(usize::MAX);
        let mut chunk_filter =
            CacheFilter { labels: LabelSelector::everything(), limit: Some(CHUNK_SIZE), ..filter.clone() };
        let mut count = 0;
        loop {
            if labels.is_empty() {
                chunk_filter.limit = Some(CHUNK_SIZE.min(limit - count));
            }
            let chunk = self.host.cache_list(&self.call, watch, &chunk_filter).map_err(StopReason::from)?;
            let Some(last) = chunk.items.last() else { return Ok(false) };
            chunk_filter.after = Some(last.key().clone());
            for object in chunk.items {
                self.yield_after_tick().await?;
                if !labels.matches_object(&object) {
                    continue;
                }
                if count == limit {
                    return Ok(true);
                }
                count += 1;
                each(object)?;
            }
            if !chunk.more || (labels.is_empty() && count == limit) {
                return Ok(chunk.more);
            }
        }
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

/// Returns about how many bytes a row takes, here and in the guest.
fn row_size(row: &Row) -> usize {
    let values =
        row.values.iter().map(|value| size_of::<Option<String>>() + value.as_ref().map_or(0, String::len));
    size_of::<Row>() + row.key.namespace.len() + row.key.name.len() + values.sum::<usize>()
}

fn row(object: &Object, pointers: &[String]) -> Row {
    let values = object.fields(pointers).into_iter().map(|value| value.map(str::to_owned)).collect();
    Row { key: object.key().into(), values }
}
