//! Decodes a list while its body arrives.

use pilothouse_model::{Object, ObjectReader};
use serde::Deserialize;

use super::utf8::utf8_part;
use super::{DecodeError, ObjectFormat, check_version};

/// The metadata of one page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListPage {
    pub(crate) resource_version: String,
    /// The continue token of the next page, if there is one.
    pub(crate) next: Option<String>,
}

/// Decodes a list while its body arrives: each item becomes an object as soon as it is complete, so the whole body is never in
/// memory beside the objects.
///
/// An item that is complete within a chunk is decoded in one pass, which also finds its end. For other items, and outside the
/// items, this decoder only tracks brackets, quotes and the field name `items`; the JSON parser validates the rest.
pub(crate) struct ListDecoder {
    /// The text outside the items.
    envelope: Vec<u8>,
    /// The part of the current item that has arrived.
    item: Vec<u8>,
    depth: usize,
    in_string: bool,
    escaped: bool,
    string_start: usize,
    /// What was read of `"items":` at the top level.
    items_member: ItemsMember,
    state: ScanState,
    limit: usize,
    reader: ObjectReader,
}

/// Where in the body the decoder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanState {
    /// Outside the items.
    Envelope,
    /// Between two items.
    BetweenItems,
    /// Within an item.
    InItem,
}

/// How much of `"items":` the last tokens are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemsMember {
    None,
    Name,
    NameAndColon,
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    metadata: Option<ListMeta>,
    #[serde(default)]
    items: Option<Vec<serde::de::IgnoredAny>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default)]
    resource_version: Option<String>,
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

impl ListDecoder {
    /// Creates a decoder. `limit` bounds, in bytes, each item and the text around the items.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            envelope: Vec::new(),
            item: Vec::new(),
            depth: 0,
            in_string: false,
            escaped: false,
            string_start: 0,
            items_member: ItemsMember::None,
            state: ScanState::Envelope,
            limit,
            reader: ObjectReader::default(),
        }
    }

    /// Decodes the next chunk of the body and appends completed items to `items`.
    pub(crate) fn feed(
        &mut self,
        chunk: &[u8],
        format: &ObjectFormat,
        items: &mut Vec<Object>,
    ) -> Result<(), DecodeError> {
        // Where the current item starts in this chunk.
        let mut start = 0;
        let (text_start, text) = utf8_part(chunk);
        let mut next = 0;
        while let Some(&byte) = chunk.get(next) {
            let at = next;
            next += 1;
            match self.state {
                ScanState::Envelope => {
                    self.envelope.push(byte);
                    self.scan_envelope(byte);
                }
                ScanState::BetweenItems => match byte {
                    b'{' => {
                        // Nearly always the item ends in this chunk: one pass decodes it and finds its end.
                        let rest = at.checked_sub(text_start).and_then(|at| text.get(at..));
                        let reader = &mut self.reader;
                        let first = rest.map_or(Ok(None), |rest| format.first_object(rest, reader));
                        if let Some((item, len)) = first? {
                            items.push(item);
                            next = at + len;
                            continue;
                        }
                        self.state = ScanState::InItem;
                        self.depth = 1;
                        start = at;
                    }
                    b']' => {
                        self.envelope.push(byte);
                        self.state = ScanState::Envelope;
                        self.depth = 1;
                    }
                    b',' | b' ' | b'\n' | b'\r' | b'\t' => {}
                    _ => return Err(DecodeError::NotAList("an item is not an object")),
                },
                ScanState::InItem => {
                    if self.scan_item(byte) {
                        let tail = &chunk[start..=at];
                        if self.item.is_empty() {
                            items.push(format.object(tail, &mut self.reader, |_| None)?);
                        } else {
                            self.item.extend_from_slice(tail);
                            items.push(format.object(&self.item, &mut self.reader, |_| None)?);
                            self.item.clear();
                        }
                        self.state = ScanState::BetweenItems;
                    }
                }
            }
        }
        if self.state == ScanState::InItem {
            self.item.extend_from_slice(&chunk[start..]);
        }
        if self.item.len().max(self.envelope.len()) > self.limit {
            return Err(DecodeError::TooLong { limit: self.limit });
        }
        Ok(())
    }

    /// Finishes the body and returns the list's metadata.
    pub(crate) fn finish(self) -> Result<ListPage, DecodeError> {
        if self.state != ScanState::Envelope || self.depth != 0 {
            return Err(DecodeError::NotAList("the body ends early"));
        }
        let envelope: Envelope = serde_json::from_slice(&self.envelope)?;
        if envelope.items.is_none() && !self.has_null_items() {
            return Err(DecodeError::NotAList("it has no items"));
        }
        let metadata = envelope.metadata.unwrap_or_default();
        let resource_version = metadata.resource_version.filter(|version| !version.is_empty());
        let Some(resource_version) = resource_version else {
            return Err(DecodeError::NotAList("it has no metadata.resourceVersion to watch from"));
        };
        check_version(&resource_version)?;
        Ok(ListPage { resource_version, next: metadata.next.filter(|next| !next.is_empty()) })
    }

    /// Whether `items` is `null`, as some servers write an empty list.
    fn has_null_items(&self) -> bool {
        #[derive(Deserialize)]
        struct Items {
            #[allow(dead_code)]
            items: (),
        }
        serde_json::from_slice::<Items>(&self.envelope).is_ok()
    }

    fn scan_envelope(&mut self, byte: u8) {
        if self.in_string {
            let name = self.string_start..self.envelope.len() - 1;
            if self.scan_string(byte) && self.envelope.get(name) == Some(b"items") {
                self.items_member = ItemsMember::Name;
            }
            return;
        }
        let before = match byte {
            b' ' | b'\n' | b'\r' | b'\t' => return,
            _ => std::mem::replace(&mut self.items_member, ItemsMember::None),
        };
        match byte {
            b'"' => {
                self.in_string = true;
                self.string_start = self.envelope.len();
            }
            b':' if before == ItemsMember::Name => self.items_member = ItemsMember::NameAndColon,
            b'[' if self.depth == 1 && before == ItemsMember::NameAndColon => {
                self.state = ScanState::BetweenItems;
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    /// Returns whether the byte ends the item.
    fn scan_item(&mut self, byte: u8) -> bool {
        if self.in_string {
            self.scan_string(byte);
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth -= 1,
            _ => {}
        }
        self.depth == 0
    }

    /// Returns whether the byte ends the string.
    fn scan_string(&mut self, byte: u8) -> bool {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => self.in_string = false,
            _ => {}
        }
        !self.in_string
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::test_support::{pod_format, pod_item};

    fn decode(chunks: &[&[u8]]) -> Result<(Vec<String>, ListPage), DecodeError> {
        let mut decoder = ListDecoder::new(4096);
        let mut items = Vec::new();
        for chunk in chunks {
            decoder.feed(chunk, &pod_format(), &mut items)?;
        }
        let page = decoder.finish()?;
        Ok((items.iter().map(|item| item.key().to_string()).collect(), page))
    }

    fn list() -> String {
        format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"7","continue":"c\"}}","items":[{{}}]}},
            "items" : [ {}, {} ,{}]}}"#,
            pod_item("a", "1"),
            pod_item("b", "2").replace("\"spec\":{}", r#""spec":{"text":"}]\"{[","items":[{"x":[]}]}"#),
            pod_item("c", "3"),
        )
    }

    #[test]
    fn items_are_complete_wherever_the_body_is_split() {
        let text = list();
        for cut in 0..text.len() {
            let (head, tail) = text.as_bytes().split_at(cut);
            let (keys, page) = decode(&[head, tail]).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
            assert_eq!(keys, ["ns/a", "ns/b", "ns/c"], "cut at {cut}");
            assert_eq!((page.resource_version.as_str(), page.next.as_deref()), ("7", Some("c\"}")));
        }
    }

    #[test]
    fn metadata_may_follow_the_items() {
        let text = format!(r#"{{"items":[{}],"metadata":{{"resourceVersion":"9"}}}}"#, pod_item("a", "1"));
        let (keys, page) = decode(&[text.as_bytes()]).expect("a list");
        assert_eq!((keys.len(), page.resource_version.as_str(), page.next), (1, "9", None));
    }

    #[test]
    fn empty_and_null_items_are_an_empty_list() {
        for items in ["[]", " [ ] ", "null"] {
            let text = format!(r#"{{"metadata":{{"resourceVersion":"9"}},"items":{items}}}"#);
            assert!(decode(&[text.as_bytes()]).expect(items).0.is_empty());
        }
    }

    #[test]
    fn bodies_that_are_not_a_list_are_rejected() {
        let cut = list();
        let cut = &cut[..cut.len() - 1];
        for text in [
            "",
            "[]",
            "no json",
            r#"{"kind":"Status"}"#,
            r#"{"metadata":{"resourceVersion":"1"}}"#,
            r#"{"items":[]}"#,
            r#"{"metadata":{"resourceVersion":""},"items":[]}"#,
            r#"{"metadata":{"resourceVersion":"1"},"items":[3]}"#,
            r#"{"metadata":{"resourceVersion":"1"},"items":[{"kind":"Pod"}]}"#,
            r#"{"metadata":{"resourceVersion":"1"},"items":{}}"#,
            r#"{"metadata":{"resourceVersion":"1"},"items" [] [] []}"#,
            r#"{"metadata":{"resourceVersion":"1"},"items"::[]}"#,
            r#"{"metadata":{"resourceVersion":"1"},"items":,[]}"#,
            cut,
        ] {
            assert!(decode(&[text.as_bytes()]).is_err(), "{text}");
        }
    }

    #[test]
    fn only_the_top_level_items_field_holds_items() {
        let text = format!(
            r#"{{"metadata":{{"resourceVersion":"9","items":[1]}},"columns":["x",{{"items":[2]}}],"items":[{}]}}"#,
            pod_item("a", "1")
        );
        let (keys, page) = decode(&[text.as_bytes()]).expect("a list");
        assert_eq!((keys, page.resource_version.as_str()), (vec!["ns/a".to_owned()], "9"));
    }

    #[test]
    fn a_truncated_body_is_reported_as_such() {
        let text = list();
        for cut in [1, text.len() / 2, text.len() - 2, text.len() - 1] {
            let error = decode(&[&text.as_bytes()[..cut]]).expect_err("not whole");
            assert_eq!(error.to_string(), "not a list: the body ends early", "cut at {cut}");
        }
    }

    #[test]
    fn the_text_around_the_items_may_reach_the_limit() {
        let text = br#"{"metadata":{"resourceVersion":"9"},"items":[]}"#;
        let feed = |limit| ListDecoder::new(limit).feed(text, &pod_format(), &mut Vec::new());
        assert!(feed(text.len()).is_ok());
        assert!(matches!(feed(text.len() - 1), Err(DecodeError::TooLong { .. })));
    }

    #[test]
    fn an_item_above_the_limit_is_rejected() {
        let text = format!(r#"{{"items":[{{"x":"{}"#, "y".repeat(5000));
        assert!(matches!(decode(&[text.as_bytes()]), Err(DecodeError::TooLong { .. })));
    }
}
