//! Reading many objects one after another.

use std::fmt;
use std::sync::Arc;

use super::familiar::{Familiar, Shapes};
use super::parse::{self, ObjectError, ParseOptions};
use super::{Inner, Object, successor, usual};
use crate::ObjectKey;

/// Reads objects of one resource and one transform, one after another; quick where they resemble what it has read or what the
/// caller has. The objects are the same, byte for byte, as those that [`Object::parse`] reads, and the same texts are refused.
///
/// `metadata.managedFields` that are dropped need only be like those last read of the same owner, whatever the names in them.
///
/// ```
/// use pilothouse_model::{Object, ObjectReader, ParseOptions};
///
/// let pod = |version: u32| format!(
///     r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"web","resourceVersion":"{version}"}},"spec":{{"nodeName":"n"}}}}"#
/// );
/// let mut reader = ObjectReader::default();
/// let mut stored = None;
/// for version in 1..4 {
///     let read = reader.read(pod(version).as_bytes(), &ParseOptions::default(), |_| stored.clone()).unwrap();
///     assert_eq!(read, Object::from_json(pod(version)).unwrap());
///     stored = Some(read);
/// }
/// ```
#[derive(Default)]
pub struct ObjectReader {
    shapes: Shapes,
}

impl ObjectReader {
    /// As [`Object::parse`]. `stored` is asked for the version of the object that the caller has; it need not be the
    /// latest, nor one at all.
    ///
    /// # Errors
    /// See [`ObjectError`].
    pub fn read(
        &mut self,
        json: &[u8],
        options: &ParseOptions<'_>,
        mut stored: impl FnMut(&ObjectKey) -> Option<Object>,
    ) -> Result<Object, ObjectError> {
        let text = parse::text(json)?;
        let mut familiar = Familiar::new(&mut stored, &mut self.shapes);
        let version = successor::parse_first(text, options, &mut familiar);
        let version = version.filter(|read| read.is_alone(text));
        let Some(read) = version.or_else(|| usual::parse(text, options, &mut familiar)) else {
            let (json, metadata) = parse::parse_any(text, options)?;
            return Ok(Object(Arc::new(Inner { json: json.into(), metadata })));
        };
        Ok(self.keep(text, read))
    }

    /// As [`read`](Self::read), of the object that `text` starts with, with its length in bytes: where it differs from the stored version
    /// in some values only. `None` for all other text.
    pub fn read_version(
        &mut self,
        text: &str,
        options: &ParseOptions<'_>,
        mut stored: impl FnMut(&ObjectKey) -> Option<Object>,
    ) -> Option<(Object, usize)> {
        let mut familiar = Familiar::new(&mut stored, &mut self.shapes);
        let read = successor::parse_first(text, options, &mut familiar)?;
        let len = read.len;
        Some((self.keep(text, read), len))
    }

    /// Namespace and name of the object that `text` starts with, if it starts as those that were read lately. They are not checked: this is
    /// for getting ready what will be asked for.
    #[must_use]
    pub fn first_key<'a>(&self, text: &'a str) -> Option<(&'a str, &'a str)> {
        successor::first_key(text, &self.shapes)
    }

    /// As [`Object::parse_first`].
    pub fn read_first(&mut self, text: &str, options: &ParseOptions<'_>) -> Option<(Object, usize)> {
        let read = usual::parse_first(text, options, &mut Familiar::new(&mut |_| None, &mut self.shapes))?;
        let len = read.len;
        Some((self.keep(text, read), len))
    }

    fn keep(&mut self, text: &str, read: usual::Read) -> Object {
        if let Some((source, canonical)) = read.head {
            self.shapes.learn_head(&text[..source], &read.json[..canonical]);
        }
        let object = Object(Arc::new(Inner { json: read.json.into(), metadata: read.metadata }));
        if let Some(owners) = read.unlike {
            self.shapes.learn_example(owners, &object);
        }
        object
    }
}

impl fmt::Debug for ObjectReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectReader").finish_non_exhaustive()
    }
}
