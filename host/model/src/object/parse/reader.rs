//! [`ObjectReader`]: reads many similar objects, one after another.

use std::fmt;

use super::fast_path::{self, ParsedObject};
use super::reference::{RecentObjects, References};
use super::{ObjectError, ParseOptions, version_diff};
use crate::ObjectKey;
use crate::object::Object;
use crate::object::json::Span;

/// Reads objects of one resource with one transform, one after another. It is fast for objects that resemble a stored version or an object
/// that it has read recently.
///
/// The objects are byte for byte those that [`Object::parse`] returns, and the same texts are errors. `metadata.managedFields` that are
/// dropped are compared with the last ones of the same owner, whatever the names of their members.
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
    recent: RecentObjects,
}

impl ObjectReader {
    /// Parses an object like [`Object::parse`]. `stored` returns the version of the object that the caller has, if any; it need not be the
    /// latest one.
    ///
    /// # Errors
    /// See [`ObjectError`].
    pub fn read(
        &mut self,
        json: &[u8],
        options: &ParseOptions<'_>,
        mut stored: impl FnMut(&ObjectKey) -> Option<Object>,
    ) -> Result<Object, ObjectError> {
        let text = super::to_text(json)?;
        let mut references = References::new(&mut stored, &mut self.recent);
        let parsed = version_diff::parse_prefix(text, options, &mut references);
        let parsed = parsed.filter(|parsed| parsed.is_all_of(text));
        let Some(parsed) = parsed.or_else(|| fast_path::parse(text, options, &mut references)) else {
            let (json, metadata) = super::parse_general(text, options)?;
            return Ok(Object::plain(json, metadata));
        };
        Ok(self.remember(text, parsed))
    }

    /// Parses the object that `text` starts with in one pass, and returns it with its length in bytes. Meant for the events of a watch, whose
    /// ends are not known beforehand. `stored` is as in [`read`](Self::read).
    ///
    /// Returns `None` if the object does not end within `text`, is malformed, has line breaks, or has an uncommon form such as escapes in
    /// names. The caller then has to find the end of the object and [`read`](Self::read) it.
    pub fn read_event_object(
        &mut self,
        text: &str,
        options: &ParseOptions<'_>,
        stored: impl FnMut(&ObjectKey) -> Option<Object>,
    ) -> Option<(Object, usize)> {
        // A line break ends the event. The stored version may have it in the same place: a list may have line breaks.
        let is_line = |len: usize| memchr::memchr(b'\n', &text.as_bytes()[..len]).is_none();
        self.read_first(text, options, stored, is_line)
    }

    /// As [`read_event_object`](Self::read_event_object), for a `line` without line breaks, except at its end.
    pub fn read_line_object(
        &mut self,
        line: &str,
        options: &ParseOptions<'_>,
        stored: impl FnMut(&ObjectKey) -> Option<Object>,
    ) -> Option<(Object, usize)> {
        debug_assert!(!line.trim_end().contains('\n'), "a line has no line breaks");
        self.read_first(line, options, stored, |_| true)
    }

    /// Parses the object that `text` starts with, if its length is accepted.
    fn read_first(
        &mut self,
        text: &str,
        options: &ParseOptions<'_>,
        mut stored: impl FnMut(&ObjectKey) -> Option<Object>,
        is_accepted: impl Fn(usize) -> bool,
    ) -> Option<(Object, usize)> {
        let mut references = References::new(&mut stored, &mut self.recent);
        let parsed = version_diff::parse_prefix(text, options, &mut references);
        let parsed = parsed.or_else(|| fast_path::parse_prefix(text, options, &mut references))?;
        let len = parsed.len;
        is_accepted(len).then(|| (self.remember(text, parsed), len))
    }

    /// Returns the namespace and name of the object that `text` starts with, if it begins like the object that was read last. They are not
    /// validated: this is for prefetching what will be looked up.
    #[must_use]
    pub fn peek_key<'a>(&self, text: &'a str) -> Option<(&'a str, &'a str)> {
        version_diff::peek_key(text, &self.recent)
    }

    /// As [`Object::parse_prefix`].
    pub fn read_prefix(&mut self, text: &str, options: &ParseOptions<'_>) -> Option<(Object, usize)> {
        let mut look_up = |_: &ObjectKey| None;
        let mut references = References::new(&mut look_up, &mut self.recent);
        let parsed = fast_path::parse_prefix(text, options, &mut references)?;
        let len = parsed.len;
        Some((self.remember(text, parsed), len))
    }

    fn remember(&mut self, text: &str, parsed: ParsedObject) -> Object {
        if let Some((source, canonical)) = parsed.preamble_lens {
            let canonical = parsed.object.part(Span::of_range(0, canonical));
            self.recent.remember_preamble(&text[..source], canonical);
        }
        if let Some(owners) = parsed.sample_of {
            self.recent.remember_object(owners, &parsed.object);
        }
        parsed.object
    }
}

impl fmt::Debug for ObjectReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectReader").finish_non_exhaustive()
    }
}
