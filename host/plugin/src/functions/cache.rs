//! `cache`: reading the watched objects.

use pilothouse_model::{LabelSelector, Object};
use wasmtime::component::Resource;

use super::{MAX_PAGE, check_pointers, non_empty};
use crate::bindings::pilothouse::controller::cache::{Filter, Host, Page, Row};
use crate::bindings::pilothouse::controller::types::ObjectKey;
use crate::sandbox::{GuestState, ObjectHandle, Stop};
use crate::{CacheFilter, Misuse};

impl Host for GuestState {
    fn get(&mut self, watch: String, key: ObjectKey) -> wasmtime::Result<Option<Resource<ObjectHandle>>> {
        self.allow("cache.get")?;
        let object = self.host.cache_get(&self.call, &watch, &(&key).into()).map_err(Stop::from)?;
        object.map(|object| self.handles.open(object)).transpose()
    }

    fn list(&mut self, watch: String, filter: Filter) -> wasmtime::Result<Page> {
        self.allow("cache.list")?;
        let mut filter = parse(filter)?;
        filter.limit = Some(filter.limit.unwrap_or(usize::MAX).min(MAX_PAGE as usize));
        let page = self.host.cache_list(&self.call, &watch, &filter).map_err(Stop::from)?;
        let next = match page.items.last() {
            Some(last) if page.more => last.key().as_str().to_owned(),
            _ => String::new(),
        };
        Ok(Page { items: self.handles.open_all(page.items)?, next })
    }

    fn list_fields(
        &mut self,
        watch: String,
        filter: Filter,
        pointers: Vec<String>,
    ) -> wasmtime::Result<Vec<Row>> {
        self.allow("cache.list-fields")?;
        check_pointers("cache.list-fields", pointers.len())?;
        let page = self.host.cache_list(&self.call, &watch, &parse(filter)?).map_err(Stop::from)?;
        let mut rows = Vec::with_capacity(page.items.len());
        let mut room = self.message_size;
        for object in &page.items {
            let row = row(object, &pointers);
            room = room
                .checked_sub(size_of_row(&row))
                .ok_or(Stop::MessageSize { allowed: self.message_size })?;
            rows.push(row);
        }
        Ok(rows)
    }

    fn by_index(
        &mut self,
        watch: String,
        index: String,
        value: String,
    ) -> wasmtime::Result<Vec<Resource<ObjectHandle>>> {
        self.allow("cache.by-index")?;
        let objects = self.host.cache_by_index(&self.call, &watch, &index, &value).map_err(Stop::from)?;
        self.handles.open_all(objects)
    }

    fn index_keys(
        &mut self,
        watch: String,
        index: String,
        value: String,
    ) -> wasmtime::Result<Vec<ObjectKey>> {
        self.allow("cache.index-keys")?;
        let keys = self.host.cache_index_keys(&self.call, &watch, &index, &value).map_err(Stop::from)?;
        self.carry(keys.iter().map(|key| size_of::<ObjectKey>() + key.as_str().len()).sum())?;
        Ok(keys.iter().map(ObjectKey::from).collect())
    }

    fn index_values(&mut self, watch: String, index: String) -> wasmtime::Result<Vec<String>> {
        self.allow("cache.index-values")?;
        let values = self.host.cache_index_values(&self.call, &watch, &index).map_err(Stop::from)?;
        self.carry(values.iter().map(|value| size_of::<String>() + value.len()).sum())?;
        Ok(values)
    }

    fn has_synced(&mut self, watch: String) -> wasmtime::Result<bool> {
        self.allow("cache.has-synced")?;
        Ok(self.host.cache_has_synced(&self.call, &watch).map_err(Stop::from)?)
    }
}

fn parse(filter: Filter) -> wasmtime::Result<CacheFilter> {
    let labels = match filter.label_selector.as_str() {
        "" => LabelSelector::everything(),
        selector => LabelSelector::parse(selector).map_err(|error| {
            Stop::from(Misuse::Selector { selector: selector.to_owned(), message: error.to_string() })
        })?,
    };
    Ok(CacheFilter {
        namespace: non_empty(filter.namespace),
        labels,
        after: non_empty(filter.cursor).map(|cursor| parse_cursor(&cursor)),
        limit: (filter.limit > 0).then_some(filter.limit as usize),
    })
}

/// A cursor is the key of the last object seen, as `ObjectKey` displays it.
fn parse_cursor(cursor: &str) -> pilothouse_model::ObjectKey {
    match cursor.split_once('/') {
        Some((namespace, name)) => pilothouse_model::ObjectKey::new(namespace, name),
        None => pilothouse_model::ObjectKey::cluster(cursor),
    }
}

/// Bytes that a row takes, here and in the guest, more or less.
fn size_of_row(row: &Row) -> usize {
    let values =
        row.values.iter().map(|value| size_of::<Option<String>>() + value.as_ref().map_or(0, String::len));
    size_of::<Row>() + row.key.namespace.len() + row.key.name.len() + values.sum::<usize>()
}

fn row(object: &Object, pointers: &[String]) -> Row {
    let values = object.fields(pointers).into_iter().map(|value| value.map(str::to_owned)).collect();
    Row { key: object.key().into(), values }
}
