use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::bindings::pilothouse::controller::cache as wit;
use crate::object::decode;
use crate::{Context, DecodeError, FromObject, Object, ObjectKey};

/// The objects of one watch, in the host's memory. No read here reaches the API server.
///
/// Reads include this plugin's own writes at once; everything else is as fresh as the watch. `T` is a type of
/// `k8s_openapi`, a derived custom resource, or [`Object`] to read single fields without copying the object.
pub struct Cache<'c, T> {
    ctx: &'c Context<'c>,
    watch: &'c str,
    as_type: PhantomData<fn() -> T>,
}

/// Which objects of a watch: all of them, until narrowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    namespace: String,
    label_selector: String,
    limit: u32,
    cursor: String,
}

impl Query {
    /// All objects of the watch.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Those in one namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Those with these labels, in kubectl's syntax: `app=web,tier in (a, b)`.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.label_selector = selector.into();
        self
    }

    /// At most so many per page; the host never gives more than 500.
    #[must_use]
    pub fn page_size(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// Those after a page: its [`next`](Page::next).
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

/// A part of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// In the order of namespace and name.
    pub items: Vec<T>,
    /// Where to go on; `None` after the last page.
    pub next: Option<String>,
}

/// Values of one object, one per pointer asked for.
#[derive(Clone, Debug)]
pub struct Row {
    /// Whose values.
    pub key: ObjectKey,
    values: Vec<Option<String>>,
}

impl Row {
    /// The value at the pointer that was given at `position`, read as `V`; `None` when nothing is there.
    ///
    /// # Errors
    /// When something of another type is there.
    ///
    /// # Panics
    /// When fewer pointers were given.
    pub fn value<V: DeserializeOwned>(&self, position: usize) -> Result<Option<V>, DecodeError> {
        let what = || format!("value {position} of {}", self.key);
        self.values[position].as_deref().map(|json| decode(json, what)).transpose()
    }
}

pub(crate) fn get_handle(watch: &str, key: &ObjectKey) -> Option<Object> {
    wit::get(watch, key).map(Object::new)
}

impl<'c, T: FromObject> Cache<'c, T> {
    pub(crate) fn new(ctx: &'c Context<'c>, watch: &'c str) -> Self {
        Self { ctx, watch, as_type: PhantomData }
    }

    /// The object with this key; `None` when the watch does not have it.
    ///
    /// # Errors
    /// When it is of another shape than `T`.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<T>, DecodeError> {
        let Some(object) = get_handle(self.watch, key) else { return Ok(None) };
        let value = T::from_object(&object)?;
        if T::PARSES {
            self.ctx.remember(object);
        }
        Ok(Some(value))
    }

    /// All objects that the query names, page by page behind the scenes.
    ///
    /// # Errors
    /// When one is of another shape than `T`.
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

    /// One page: for watches too large to hold at once.
    ///
    /// # Errors
    /// When one object is of another shape than `T`.
    pub fn page(&self, query: &Query) -> Result<Page<T>, DecodeError> {
        let page = wit::list(self.watch, &query.filter());
        Ok(Page { items: read_all(page.items)?, next: Some(page.next).filter(|next| !next.is_empty()) })
    }

    /// All objects with this value in a declared index.
    ///
    /// # Errors
    /// When one is of another shape than `T`.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<T>, DecodeError> {
        read_all(wit::by_index(self.watch, index, value))
    }

    /// The keys of the objects with this index value: no object is read.
    #[must_use]
    pub fn index_keys(&self, index: &str, value: &str) -> Vec<ObjectKey> {
        wit::index_keys(self.watch, index, value)
    }

    /// The values that at least one object has.
    #[must_use]
    pub fn index_values(&self, index: &str) -> Vec<String> {
        wit::index_values(self.watch, index)
    }

    /// Values at RFC 6901 pointers of many objects in one call: no object is copied.
    #[must_use]
    pub fn fields(&self, query: &Query, pointers: &[&str]) -> Vec<Row> {
        let pointers: Vec<_> = pointers.iter().map(|pointer| (*pointer).to_owned()).collect();
        let rows = wit::list_fields(self.watch, &query.filter(), &pointers);
        rows.into_iter().map(|row| Row { key: row.key, values: row.values }).collect()
    }

    /// Whether the watch's first list has been taken in whole: always true in a reconcile, while an observer may see it turn.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        wit::has_synced(self.watch)
    }
}

fn read_all<T: FromObject>(
    handles: Vec<crate::bindings::pilothouse::controller::objects::Object>,
) -> Result<Vec<T>, DecodeError> {
    handles.into_iter().map(|handle| T::from_owned(Object::new(handle))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_narrows_step_by_step() {
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
    fn a_row_reads_its_values_by_position() {
        let row = Row { key: ObjectKey::new("default", "web"), values: vec![Some("3".into()), None] };
        assert_eq!(row.value::<i32>(0).unwrap(), Some(3));
        assert_eq!(row.value::<String>(1).unwrap(), None);
        let error = row.value::<String>(0).unwrap_err().to_string();
        assert!(error.starts_with("value 0 of default/web cannot be read as"), "{error}");
    }
}
