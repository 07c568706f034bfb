//! Decodes the events of a watch.

use std::borrow::Cow;

use pilothouse_model::{Object, ObjectKey, ObjectReader};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{DecodeError, MAX_VERSION_BYTES, ObjectFormat, check_version};
use crate::failure::Failure;
use crate::store::Store;

/// A decoded watch event.
#[derive(Debug)]
pub(crate) enum WatchEvent {
    Added(Object),
    Modified(Object),
    Deleted(Object),
    Bookmark {
        resource_version: String,
        /// Whether the bookmark ends the initial events of a streaming list.
        initial_events_end: bool,
    },
    Error(Failure),
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark<'a> {
    #[serde(borrow)]
    metadata: BookmarkMeta<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta<'a> {
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

/// The annotation of the bookmark that ends the initial events (KEP-3157).
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Decodes the lines of a watch body.
pub(crate) struct EventDecoder<'a> {
    pub(crate) format: &'a ObjectFormat,
    pub(crate) reader: &'a mut ObjectReader,
    /// Holds the previous versions of the objects, which speed up decoding.
    pub(crate) store: &'a Store,
}

impl EventDecoder<'_> {
    /// Decodes one line.
    pub(crate) fn decode(&mut self, line: &[u8]) -> Result<WatchEvent, DecodeError> {
        if let Some((kind, object)) = split_canonical_form(line)
            && let Ok(event) = self.event(kind, object)
        {
            return Ok(event);
        }
        let envelope: Envelope<'_> = serde_json::from_slice(line)?;
        self.event(&envelope.kind, envelope.object.get().as_bytes())
    }

    /// Decodes the line that `text` starts with, and returns the event with the length of the line, line ending included. Returns
    /// `None` if the line is not an event in kube-apiserver's form, or if one pass cannot decode its object. `line_len` is the length of
    /// the line, if it is known.
    pub(crate) fn decode_first(
        &mut self,
        text: &str,
        line_len: Option<usize>,
    ) -> Option<(WatchEvent, usize)> {
        let text = text.get(..line_len.unwrap_or(text.len()))?;
        let (event, object) = first_event(text)?;
        let stored = |key: &ObjectKey| self.store.get_unless_compressed(key);
        let (version, len) = self.format.event_object(object, line_len.is_some(), self.reader, stored)?;
        let end = object.get(len..)?.strip_prefix('}')?;
        let rest = end.strip_prefix('\n').or_else(|| end.strip_prefix("\r\n"))?;
        (1..=MAX_VERSION_BYTES)
            .contains(&version.resource_version().len())
            .then(|| (event(version), text.len() - rest.len()))
    }

    /// Returns namespace and name of the object in the event that `text` starts with, without validation; see
    /// [`ObjectReader::peek_key`].
    pub(super) fn first_key<'t>(&self, text: &'t str) -> Option<(&'t str, &'t str)> {
        self.reader.peek_key(first_event(text)?.1)
    }

    fn object(&mut self, object: &[u8]) -> Result<Object, DecodeError> {
        let object = self.format.object(object, self.reader, |key| self.store.get_unless_compressed(key))?;
        if object.resource_version().is_empty() {
            return Err(DecodeError::NoResourceVersion(object.key().to_string()));
        }
        check_version(object.resource_version())?;
        Ok(object)
    }

    fn event(&mut self, kind: &str, object: &[u8]) -> Result<WatchEvent, DecodeError> {
        match kind {
            "ADDED" => self.object(object).map(WatchEvent::Added),
            "MODIFIED" => self.object(object).map(WatchEvent::Modified),
            "DELETED" => self.object(object).map(WatchEvent::Deleted),
            "BOOKMARK" => bookmark(object),
            "ERROR" => Ok(WatchEvent::Error(Failure::status(object)?)),
            other => Err(DecodeError::EventType(other.chars().take(40).collect())),
        }
    }
}

fn bookmark(object: &[u8]) -> Result<WatchEvent, DecodeError> {
    let Bookmark { metadata } = serde_json::from_slice(object)?;
    if metadata.resource_version.is_empty() {
        return Err(DecodeError::NoResourceVersion("of a bookmark".to_owned()));
    }
    check_version(&metadata.resource_version)?;
    Ok(WatchEvent::Bookmark {
        resource_version: metadata.resource_version.into_owned(),
        initial_events_end: metadata.annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true"),
    })
}

/// Constructs an event from its object.
type EventConstructor = fn(Object) -> WatchEvent;

/// Returns the type of the object event that `text` starts with, and the text from its object on. Returns `None` if the event is
/// not in kube-apiserver's form.
fn first_event(text: &str) -> Option<(EventConstructor, &str)> {
    const KINDS: [(&str, EventConstructor); 3] =
        [("MODIFIED", WatchEvent::Modified), ("ADDED", WatchEvent::Added), ("DELETED", WatchEvent::Deleted)];
    let rest = text.strip_prefix(r#"{"type":""#)?;
    let after = |kind: &str| rest.strip_prefix(kind)?.strip_prefix(r#"","object":"#);
    KINDS.iter().find_map(|(kind, event)| Some((*event, after(kind)?)))
}

/// Splits an event in kube-apiserver's form into its type and its object without parsing the whole line; the object's parser
/// validates it anyway. If something follows the object, that parser fails, and the whole line is parsed instead.
fn split_canonical_form(line: &[u8]) -> Option<(&str, &[u8])> {
    let rest = line.strip_prefix(br#"{"type":""#)?;
    let end = rest.iter().take(10).position(|byte| *byte == b'"')?;
    let kind = std::str::from_utf8(&rest[..end]).ok()?;
    let object = rest[end..].strip_prefix(br#"","object":"#)?.trim_ascii_end().strip_suffix(b"}")?;
    Some((kind, object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::test_support::{pod_format, pod_item};

    fn read(line: &str) -> Result<WatchEvent, DecodeError> {
        let (format, mut reader, store) = (pod_format(), ObjectReader::default(), Store::new());
        EventDecoder { format: &format, reader: &mut reader, store: &store }.decode(line.as_bytes())
    }

    fn pod() -> String {
        format!(r#"{{"apiVersion":"v1","kind":"Pod",{}"#, &pod_item("a", "5")[1..])
    }

    #[test]
    fn events_are_decoded_in_canonical_and_in_any_other_form() {
        for line in [
            format!(r#"{{"type":"ADDED","object":{}}}"#, pod()),
            format!(r#"{{ "object": {}, "type": "ADDED" }}"#, pod()),
            format!(r#"{{"type":"ADDED","object":{} }}  "#, pod()),
            format!(r#"{{"type":"ADDED","object":{},"more":{}}}"#, pod(), pod()),
        ] {
            let event = read(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
            let WatchEvent::Added(object) = event else { panic!("{event:?}") };
            assert_eq!((object.key().as_str(), object.resource_version()), ("ns/a", "5"));
        }
    }

    #[test]
    fn only_the_canonical_form_is_split_without_a_json_parse() {
        let usual = br#"{"type":"ADDED","object":{"a":"}"} }  "#;
        assert_eq!(split_canonical_form(usual), Some(("ADDED", br#"{"a":"}"} "#.as_slice())));
        for other in [
            br#"{ "type":"ADDED","object":{}}"#.as_slice(),
            br#"{"type":"ADDED", "object":{}}"#,
            br#"{"type":"A name that is far too long","object":{}}"#,
            br#"{"type":"ADDED","object":{}} ;"#,
        ] {
            assert_eq!(split_canonical_form(other), None);
        }
    }

    #[test]
    fn an_event_is_decoded_without_searching_the_line_end() {
        let (format, mut reader, store) = (pod_format(), ObjectReader::default(), Store::new());
        let line = |kind: &str, version: &str| {
            let pod = format!(r#"{{"apiVersion":"v1","kind":"Pod",{}"#, &pod_item("a", version)[1..]);
            format!(r#"{{"type":"{kind}","object":{pod}}}"#)
        };
        let mut decoder = EventDecoder { format: &format, reader: &mut reader, store: &store };
        assert!(decoder.decode_first(&(line("ADDED", "1") + "\n"), None).is_some(), "it is not stored");
        let Ok(WatchEvent::Added(added)) = decoder.decode(line("ADDED", "1").as_bytes()) else {
            panic!("not an event");
        };
        store.update(added);
        assert_eq!(decoder.first_key(&line("MODIFIED", "22")), Some(("ns", "a")));
        assert_eq!(decoder.first_key(&line("BOOKMARK", "22")), None);
        for (kind, end) in [("MODIFIED", "\n"), ("DELETED", "\r\n"), ("ADDED", "\nand more")] {
            let text = line(kind, "22") + end;
            let (event, len) = decoder.decode_first(&text, None).expect("of a stored object");
            let (same, same_len) = decoder.decode_first(&text, Some(len)).expect("of a stored object");
            assert_eq!((format!("{event:?}"), len), (format!("{same:?}"), same_len));
            assert_eq!(&text[..len], text.trim_end_matches("and more"));
            let by_line = decoder.decode(line(kind, "22").as_bytes()).expect("an event");
            assert_eq!(format!("{event:?}"), format!("{by_line:?}"));
            let (WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)) =
                event
            else {
                panic!("{kind}");
            };
            assert_eq!(object.resource_version(), "22");
        }
        for other in [
            line("MODIFIED", "22"),
            line("MODIFIED", "22") + "}\n",
            line("MODIFIED", "22") + " \n",
            line("MODIFIED", "") + "\n",
            line("MODIFIED", &"1".repeat(257)) + "\n",
            line("BOOKMARK", "22") + "\n",
            line("MODIFIED", "22").replace("Pod", "Node") + "\n",
            line("MODIFIED", "22").replace("{}", "{\n}") + "\n",
            line("MODIFIED", "22").replace("{}", "{\\") + "\n",
            String::new(),
        ] {
            assert!(decoder.decode_first(&other, None).is_none(), "{other}");
            let end = memchr::memchr(b'\n', other.as_bytes());
            assert!(decoder.decode_first(&other, end.map(|end| end + 1)).is_none(), "{other}");
        }
    }

    #[test]
    fn an_object_has_the_same_bytes_from_a_list_and_from_a_watch() {
        let Ok(WatchEvent::Modified(by_watch)) =
            read(&format!(r#"{{"type":"MODIFIED","object":{}}}"#, pod()))
        else {
            panic!("not an event");
        };
        let by_list = pod_format()
            .object(pod_item("a", "5").as_bytes(), &mut ObjectReader::default(), |_| None)
            .expect("an item");
        assert_eq!(by_watch.json(), by_list.json());
    }

    #[test]
    fn a_bookmark_annotation_marks_the_end_of_the_initial_events() {
        let bookmark = |annotations: &str| {
            format!(
                r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","metadata":{{"resourceVersion":"8"{annotations}}}}}}}"#
            )
        };
        let event = read(&bookmark("")).expect("a bookmark");
        let WatchEvent::Bookmark { resource_version, initial_events_end: false } = event else {
            panic!("{event:?}")
        };
        assert_eq!(resource_version, "8");
        let event =
            read(&bookmark(r#","annotations":{"k8s.io/initial-events-end":"true"}"#)).expect("a bookmark");
        assert!(matches!(event, WatchEvent::Bookmark { initial_events_end: true, .. }), "{event:?}");
    }

    #[test]
    fn malformed_events_are_rejected() {
        for line in [
            "{".to_owned(),
            r#"{"type":"ADDED"}"#.to_owned(),
            format!(r#"{{"type":"RENAMED","object":{}}}"#, pod()),
            format!(r#"{{"type":"ADDED","object":{}}}"#, pod().replace("Pod", "Node")),
            format!(r#"{{"type":"ADDED","object":{}}}"#, pod().replace("\"v1\"", "\"v2\"")),
            format!(r#"{{"type":"ADDED","object":{}}}"#, pod().replace("\"name\":\"a\",", "")),
            format!(
                r#"{{"type":"ADDED","object":{}}}"#,
                pod().replace("\"resourceVersion\":\"5\"", "\"x\":1")
            ),
            r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":""}}}"#.to_owned(),
            format!(
                r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{}"}}}}}}"#,
                "1".repeat(257)
            ),
            format!(
                r#"{{"type":"ADDED","object":{}}}"#,
                pod().replace("\"5\"", &format!("{:?}", "1".repeat(257)))
            ),
        ] {
            let read = read(&line);
            assert!(read.is_err(), "{line}: {read:?}");
        }
    }
}
