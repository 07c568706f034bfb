//! Reads of the watched objects from the host's cache.

use std::borrow::Cow;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::host::{cache as wit, objects};
use crate::object::decode;
use crate::{Context, DecodeError, FromObject, Object, ObjectKey};

/// Reads the objects of one watch from the host's memory: see [`Context::cache`]. No method sends a request to the API server.
///
/// The plugin's own writes are visible immediately; everything else is as fresh as the watch. `T` is a type of `k8s_openapi`, a
/// derived custom resource, or [`Object`] to read single fields without copying the object.
pub struct Cache<'c, T> {
    ctx: &'c Context<'c>,
    watch: Cow<'c, str>,
    as_type: PhantomData<fn() -> T>,
}

/// Selects objects of a watch: all of them unless restricted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    namespace: String,
    label_selector: String,
    limit: u32,
    cursor: String,
}

impl Query {
    /// Selects all objects of the watch.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Selects only objects in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Selects only objects that match a label selector in kubectl's syntax: `app=web,tier in (a, b)`. A selector that does not parse
    /// traps.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.label_selector = selector.into();
        self
    }

    /// Limits the number of objects per page. The default and the maximum are 500.
    #[must_use]
    pub fn page_size(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// Selects the objects that follow a page, given its [`next`](Page::next).
    #[must_use]
    pub fn after(mut self, cursor: impl Into<String>) -> Self {
        self.cursor = cursor.into();
        self
    }

    fn filter(&self) -> wit::Filter {
        wit::Filter {
            namespace: self.namespace.clone(),
            label_selector: self.label_selector.clone(),
            limit: self.limit,
            cursor: self.cursor.clone(),
        }
    }
}

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The objects, ordered by namespace, then name.
    pub items: Vec<T>,
    /// The cursor of the next page; `None` after the last page.
    pub next: Option<String>,
}

/// The values that [`Cache::fields`] read from one object, one per pointer.
#[derive(Clone, Debug)]
pub struct Row {
    /// The object's key.
    pub key: ObjectKey,
    values: Vec<Option<String>>,
}

impl Row {
    /// Returns the value at the pointer with this index, read as `V`; `None` when nothing is at the pointer.
    ///
    /// # Errors
    /// When the value cannot be read as `V`.
    ///
    /// # Panics
    /// When `position` is not less than the number of pointers.
    pub fn value<V: DeserializeOwned>(&self, position: usize) -> Result<Option<V>, DecodeError> {
        let what = || format!("value {position} of {}", self.key);
        self.values[position].as_deref().map(|json| decode(json, what)).transpose()
    }
}

pub(crate) fn get_handle(watch: &str, key: &ObjectKey) -> Option<Object> {
    wit::get(watch, key).map(Object::new)
}

impl<'c, T: FromObject> Cache<'c, T> {
    pub(crate) fn new(ctx: &'c Context<'c>, watch: Cow<'c, str>) -> Self {
        Self { ctx, watch, as_type: PhantomData }
    }

    /// Returns the object with this key, or `None` when the watch does not contain it.
    ///
    /// # Errors
    /// When the object cannot be read as `T`.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<T>, DecodeError> {
        let Some(object) = get_handle(&self.watch, key) else { return Ok(None) };
        let value = T::from_object(&object)?;
        if T::PARSES {
            self.ctx.remember(object);
        }
        Ok(Some(value))
    }

    /// Returns all objects that the query selects, reading page by page.
    ///
    /// # Errors
    /// When an object cannot be read as `T`.
    pub fn list(&self, query: &Query) -> Result<Vec<T>, DecodeError> {
        let mut query = query.clone();
        let mut items = Vec::new();
        loop {
            let page = self.page(&query)?;
            items.extend(page.items);
            match page.next {
                Some(next) => query.cursor = next,
                None => return Ok(items),
            }
        }
    }

    /// Returns one page of objects, for watches that are too large to read at once.
    ///
    /// # Errors
    /// When an object cannot be read as `T`.
    pub fn page(&self, query: &Query) -> Result<Page<T>, DecodeError> {
        let page = wit::list(&self.watch, &query.filter());
        Ok(Page { items: read_all(page.items)?, next: Some(page.next).filter(|next| !next.is_empty()) })
    }

    /// Returns all objects with this value in a declared index.
    ///
    /// # Errors
    /// When an object cannot be read as `T`.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<T>, DecodeError> {
        read_all(wit::by_index(&self.watch, index, value))
    }

    /// Returns the keys of the objects with this index value, without reading the objects.
    #[must_use]
    pub fn index_keys(&self, index: &str, value: &str) -> Vec<ObjectKey> {
        wit::index_keys(&self.watch, index, value)
    }

    /// Returns all values of an index that at least one object has.
    #[must_use]
    pub fn index_values(&self, index: &str) -> Vec<String> {
        wit::index_values(&self.watch, index)
    }

    /// Returns the values at JSON pointers (RFC 6901, at most 64) of many objects in one call, without copying the objects.
    #[must_use]
    pub fn fields(&self, query: &Query, pointers: &[&str]) -> Vec<Row> {
        let pointers: Vec<_> = pointers.iter().map(|pointer| (*pointer).to_owned()).collect();
        let rows = wit::list_fields(&self.watch, &query.filter(), &pointers);
        rows.into_iter().map(|row| Row { key: row.key, values: row.values }).collect()
    }

    /// Returns whether the watch's initial list is complete in the cache. Always true in a reconcile; an observer may see it become
    /// true.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        wit::has_synced(&self.watch)
    }
}

fn read_all<T: FromObject>(handles: Vec<objects::Object>) -> Result<Vec<T>, DecodeError> {
    handles.into_iter().map(|handle| T::from_owned(Object::new(handle))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_becomes_the_filter_of_the_contract() {
        let filter =
            Query::all().namespace("default").labels("app=web").page_size(10).after("default/a").filter();
        assert_eq!(
            filter,
            wit::Filter {
                namespace: "default".into(),
                label_selector: "app=web".into(),
                limit: 10,
                cursor: "default/a".into()
            }
        );
    }

    #[test]
    fn a_row_returns_its_values_by_position() {
        let row = Row { key: ObjectKey::new("default", "web"), values: vec![Some("3".into()), None] };
        assert_eq!(row.value::<i32>(0).unwrap(), Some(3));
        assert_eq!(row.value::<String>(1).unwrap(), None);
        let error = row.value::<String>(0).unwrap_err().to_string();
        assert!(error.starts_with("value 0 of default/web cannot be read as"), "{error}");
    }
}
