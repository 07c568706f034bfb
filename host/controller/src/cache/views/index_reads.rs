//! Reads of a watch by index: one page after another, with the plugin's own writes.

#[cfg(test)]
use std::collections::BTreeSet;

use pilothouse_informer::{IndexError, IndexFn, IndexValueCursor, ScanPage, StoreReader};
use pilothouse_model::{Object, ObjectKey};
use pilothouse_plugin::{IndexCursor, IndexPage, Misuse};

#[cfg(test)]
use super::INDEX_STEP;
use super::view::View;
use crate::cache::own_writes::Entry;

/// One index of a watch.
#[derive(Clone)]
pub(crate) enum ViewIndex {
    /// An index of the shared informer.
    Shared(SharedIndex),
    /// An index that the plugin computes, in [`View::computed`] under the same name.
    Computed,
}

/// An index of the shared informer.
#[derive(Clone)]
pub(crate) struct SharedIndex {
    /// The name in the informer, derived from the definition, so that plugins with equal indexes share one.
    pub(crate) name: String,
    pub(crate) function: IndexFn,
}

impl SharedIndex {
    /// Whether an object has this value in the index.
    fn has_value(&self, object: &Object, value: &str) -> bool {
        self.function.values(object).iter().any(|found| found == value)
    }
}

impl View {
    /// Returns objects with this index value, after the place `from`. Looks at no more than `step` cached objects and as many own writes. Errors
    /// if there is no such index.
    pub(crate) fn by_index(
        &self,
        index: &str,
        value: &str,
        from: &IndexCursor,
        step: usize,
    ) -> Result<IndexPage<Object>, Misuse> {
        let ViewIndex::Shared(shared) = self.index(index)? else {
            let IndexPage { found, next } = self.computed_keys(index, value, from, step);
            return Ok(IndexPage { found: found.iter().filter_map(|key| self.object(key)).collect(), next });
        };
        let page = self.search_reader(
            from,
            step,
            |reader, after| reader.scan_index(&shared.name, value, after, step),
            Object::key,
            |written| shared.has_value(&written, value).then_some(written),
        );
        Ok(page)
    }

    /// Returns the keys of the objects that [`by_index`](Self::by_index) returns.
    pub(crate) fn index_keys(
        &self,
        index: &str,
        value: &str,
        from: &IndexCursor,
        step: usize,
    ) -> Result<IndexPage<ObjectKey>, Misuse> {
        let ViewIndex::Shared(shared) = self.index(index)? else {
            let mut page = self.computed_keys(index, value, from, step);
            page.found.retain(|key| self.object(key).is_some());
            return Ok(page);
        };
        let page = self.search_reader(
            from,
            step,
            |reader, after| reader.scan_index_keys(&shared.name, value, after, step),
            |key| key,
            |written| shared.has_value(&written, value).then(|| written.key().clone()),
        );
        Ok(page)
    }

    /// Returns the keys of all objects with this index value, in order. Errors if there is no such index.
    #[cfg(test)]
    pub(crate) fn all_index_keys(&self, index: &str, value: &str) -> Result<Vec<ObjectKey>, Misuse> {
        let (mut keys, mut from) = (BTreeSet::new(), Some(IndexCursor::default()));
        while let Some(cursor) = from {
            let page = self.index_keys(index, value, &cursor, INDEX_STEP)?;
            keys.extend(page.found);
            from = page.next;
        }
        Ok(keys.into_iter().collect())
    }

    /// Returns values of an index that at least one object has, after the place `from`, possibly more than once. Looks at no more than `step`
    /// cached objects, and at all own writes. Errors if there is no such index.
    pub(crate) fn index_values(
        &self,
        index: &str,
        from: &IndexCursor,
        step: usize,
    ) -> Result<IndexPage<String>, Misuse> {
        let ViewIndex::Shared(shared) = self.index(index)? else {
            let is_present = |key: &ObjectKey| self.object(key).is_some();
            let (found, last) = self.computed.values(index, from.value.as_deref(), step, is_present);
            let next = last.map(|value| IndexCursor { value: Some(value), ..IndexCursor::default() });
            return Ok(IndexPage { found, next });
        };
        let Some(reader) = self.cache.readers.get(from.reader) else { return Ok(IndexPage::default()) };
        let (own, _) = self.own_writes_after(from.reader, None, usize::MAX);
        let place = from.value.clone().map(|value| IndexValueCursor { value, key: from.key.clone() });
        let (mut found, next) = reader
            .scan_index_values(&shared.name, place.as_ref(), step, &|key| is_written(&own, key))
            .unwrap_or_default();
        // The own writes have their values in the page to which the values belong, as cached objects have.
        let belongs = |value: &String| {
            place.as_ref().is_none_or(|place| *value >= place.value)
                && next.as_ref().is_none_or(|next| *value <= next.value)
        };
        for written in own.iter().filter_map(|(key, entry)| self.with_own_write(key, entry)) {
            found.extend(shared.function.values(&written).into_iter().filter(&belongs));
        }
        let next = match next {
            Some(IndexValueCursor { value, key }) => {
                Some(IndexCursor { reader: from.reader, value: Some(value), key })
            }
            None => self.next_reader(from.reader),
        };
        Ok(IndexPage { found, next })
    }

    /// Searches the reader of the cursor, from the object after its key. `written` returns what an object that the plugin has written adds to the result.
    ///
    /// Each key belongs to exactly one page, and its own write replaces what the cache has. A write that is recorded during the scan
    /// leaves the cached object in the result. So an object that has the value before and after the write is found.
    fn search_reader<T>(
        &self,
        from: &IndexCursor,
        step: usize,
        scan: impl FnOnce(&StoreReader, Option<&ObjectKey>) -> Result<ScanPage<T>, IndexError>,
        key_of: impl Fn(&T) -> &ObjectKey,
        written: impl Fn(Object) -> Option<T>,
    ) -> IndexPage<T> {
        let Some(reader) = self.cache.readers.get(from.reader) else { return IndexPage::default() };
        let (own, last_own) = self.own_writes_after(from.reader, from.key.as_ref(), step);
        // A reader without the index has no objects yet.
        let ScanPage { mut found, next } = scan(reader, from.key.as_ref()).unwrap_or_default();
        let last = next.into_iter().chain(last_own).min();
        if !own.is_empty() {
            let belongs = |key: &ObjectKey| last.as_ref().is_none_or(|last| key <= last);
            found.retain(|item| belongs(key_of(item)) && !is_written(&own, key_of(item)));
            let own = own.iter().filter(|(key, _)| belongs(key));
            found.extend(own.filter_map(|(key, entry)| written(self.with_own_write(key, entry)?)));
            found.sort_by(|left, right| key_of(left).cmp(key_of(right)));
        }
        let next = match last {
            Some(key) => Some(IndexCursor { reader: from.reader, value: None, key: Some(key) }),
            None => self.next_reader(from.reader),
        };
        IndexPage { found, next }
    }

    /// Returns up to `limit` own writes to objects of a reader after a key, in order, and the key of the last one if there are more.
    /// Must be read before the cache, so that a write that is forgotten meanwhile is in the cache that is read then.
    fn own_writes_after(
        &self,
        reader: usize,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> (Vec<(ObjectKey, Entry)>, Option<ObjectKey>) {
        let namespace = self.cache.namespaces.get(reader).map(String::as_str);
        let mut own = self.own_entries(|key| {
            namespace.is_none_or(|namespace| namespace == key.namespace())
                && after.is_none_or(|after| key > after)
        });
        let is_complete = own.len() <= limit;
        own.truncate(limit);
        let last = own.last().filter(|_| !is_complete).map(|(key, _)| key.clone());
        (own, last)
    }

    /// Returns the beginning of the next reader; `None` after the last one.
    fn next_reader(&self, reader: usize) -> Option<IndexCursor> {
        let next = reader + 1;
        (next < self.cache.readers.len()).then(|| IndexCursor { reader: next, ..IndexCursor::default() })
    }

    fn computed_keys(
        &self,
        index: &str,
        value: &str,
        from: &IndexCursor,
        step: usize,
    ) -> IndexPage<ObjectKey> {
        let found = self.computed.keys(index, value, from.key.as_ref(), step);
        let last = found.last().filter(|_| found.len() == step).cloned();
        let next = last.map(|key| IndexCursor { key: Some(key), ..IndexCursor::default() });
        IndexPage { found, next }
    }

    fn index(&self, index: &str) -> Result<&ViewIndex, Misuse> {
        self.indexes.get(index).ok_or_else(|| Misuse::UnknownIndex {
            watch: self.resource.to_string(),
            index: index.to_owned(),
            declared: self.indexes.keys().cloned().collect(),
        })
    }
}

/// Whether the key is among these own writes, which are in order.
fn is_written(own: &[(ObjectKey, Entry)], key: &ObjectKey) -> bool {
    own.binary_search_by(|(written, _)| written.cmp(key)).is_ok()
}
