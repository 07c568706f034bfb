//! `cache`: reading the watched objects.

use pilothouse_model::{LabelSelector, Object};
use wasmtime::component::Resource;

use super::{MAX_PAGE, MAX_SELECTOR, check_pointers, check_text, non_empty};
use crate::bindings::pilothouse::controller::cache::{Filter, Host, Page, Row};
use crate::bindings::pilothouse::controller::types::ObjectKey;
use crate::sandbox::{GuestState, ObjectHandle, Stop};
use crate::{CacheFilter, CachePage, Misuse};

/// Objects that are taken from the cache at a time.
const CHUNK: usize = 4096;
/// Objects whose labels are looked at between two looks at the time.
const STEP: usize = 64;
/// Requirements of one label selector: each is looked at for each object.
const MAX_REQUIREMENTS: usize = 100;

impl Host for GuestState {
    fn get(&mut self, watch: String, key: ObjectKey) -> wasmtime::Result<Option<Resource<ObjectHandle>>> {
        self.allow("cache.get")?;
        let object = self.host.cache_get(&self.call, &watch, &(&key).into()).map_err(Stop::from)?;
        object.map(|object| self.open(object)).transpose()
    }

    async fn list(&mut self, watch: String, filter: Filter) -> wasmtime::Result<Page> {
        self.allow("cache.list")?;
        let mut filter = parse("cache.list", filter)?;
        filter.limit = Some(filter.limit.unwrap_or(usize::MAX).min(MAX_PAGE as usize));
        let page = self.matching(&watch, filter).await?;
        let next = match page.items.last() {
            Some(last) if page.more => last.key().as_str().to_owned(),
            _ => String::new(),
        };
        Ok(Page { items: self.open_all(page.items)?, next })
    }

    async fn list_fields(
        &mut self,
        watch: String,
        filter: Filter,
        pointers: Vec<String>,
    ) -> wasmtime::Result<Vec<Row>> {
        self.allow("cache.list-fields")?;
        check_pointers("cache.list-fields", &pointers)?;
        let page = self.matching(&watch, parse("cache.list-fields", filter)?).await?;
        let mut rows = Vec::with_capacity(page.items.len());
        let (mut room, mut since) = (self.message_size, self.cpu.now());
        for object in &page.items {
            let row = row(object, &pointers);
            room = room
                .checked_sub(size_of_row(&row))
                .ok_or(Stop::MessageSize { allowed: self.message_size })?;
            rows.push(row);
            self.breathe(&mut since).await?;
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
        let mut since = self.cpu.now();
        let objects = self.host.cache_by_index(&self.call, &watch, &index, &value).map_err(Stop::from)?;
        let handles = self.open_all(objects)?;
        self.cpu.account(&mut since)?;
        Ok(handles)
    }

    fn index_keys(
        &mut self,
        watch: String,
        index: String,
        value: String,
    ) -> wasmtime::Result<Vec<ObjectKey>> {
        self.allow("cache.index-keys")?;
        let mut since = self.cpu.now();
        let keys = self.host.cache_index_keys(&self.call, &watch, &index, &value).map_err(Stop::from)?;
        self.cpu.account(&mut since)?;
        self.carry(keys.iter().map(|key| size_of::<ObjectKey>() + key.as_str().len()).sum())?;
        Ok(keys.iter().map(ObjectKey::from).collect())
    }

    fn index_values(&mut self, watch: String, index: String) -> wasmtime::Result<Vec<String>> {
        self.allow("cache.index-values")?;
        let mut since = self.cpu.now();
        let values = self.host.cache_index_values(&self.call, &watch, &index).map_err(Stop::from)?;
        self.cpu.account(&mut since)?;
        self.carry(values.iter().map(|value| size_of::<String>() + value.len()).sum())?;
        Ok(values)
    }

    fn has_synced(&mut self, watch: String) -> wasmtime::Result<bool> {
        self.allow("cache.has-synced")?;
        Ok(self.host.cache_has_synced(&self.call, &watch).map_err(Stop::from)?)
    }
}

impl GuestState {
    /// Objects that match the filter. They are read a [`CHUNK`] at a time, so that neither the cache is locked for long nor the thread
    /// taken from others, and so that the call's time limit ends a search that finds nothing.
    async fn matching(&mut self, watch: &str, filter: CacheFilter) -> wasmtime::Result<CachePage> {
        let CacheFilter { labels, limit, .. } = &filter;
        let wanted = limit.unwrap_or(usize::MAX);
        let mut rest =
            CacheFilter { labels: LabelSelector::everything(), limit: Some(CHUNK), ..filter.clone() };
        let (mut items, mut since) = (Vec::new(), self.cpu.now());
        loop {
            if labels.is_empty() {
                rest.limit = Some(CHUNK.min(wanted - items.len()));
            }
            let chunk = self.host.cache_list(&self.call, watch, &rest).map_err(Stop::from)?;
            let Some(last) = chunk.items.last() else { return Ok(CachePage { items, more: false }) };
            rest.after = Some(last.key().clone());
            if items.is_empty() && labels.is_empty() {
                items = chunk.items;
            } else {
                for (position, object) in chunk.items.into_iter().enumerate() {
                    if position % STEP == STEP - 1 {
                        self.breathe(&mut since).await?;
                    }
                    if !labels.matches_object(&object) {
                        continue;
                    }
                    if items.len() == wanted {
                        return Ok(CachePage { items, more: true });
                    }
                    items.push(object);
                }
            }
            if !chunk.more || (labels.is_empty() && items.len() == wanted) {
                return Ok(CachePage { items, more: chunk.more });
            }
            self.breathe(&mut since).await?;
        }
    }
}

fn parse(function: &'static str, filter: Filter) -> wasmtime::Result<CacheFilter> {
    check_text(function, "a label selector", MAX_SELECTOR, &filter.label_selector)?;
    check_text(function, "a cursor", MAX_SELECTOR, &filter.cursor)?;
    let labels = match filter.label_selector.as_str() {
        "" => LabelSelector::everything(),
        selector => parse_labels(selector)
            .map_err(|message| Stop::from(Misuse::Selector { selector: selector.to_owned(), message }))?,
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
