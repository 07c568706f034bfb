//! Finds the place of a member in a text.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use crate::bounded::options;
use crate::field_path::{FieldPath, PathStep};

/// A place in a text. Lines and columns count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column, in characters.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {}", self.line, self.column)
    }
}

/// The places of all members of a text.
#[derive(Debug)]
pub struct Places(Node);

/// A value without its content.
#[derive(Debug)]
enum Node {
    Members(Vec<(Spanned<String>, Node)>),
    Elements(Vec<Spanned<Node>>),
    Scalar,
}

impl Places {
    /// Reads a text of one document. The caller bounds its length. Returns nothing for a text that is no YAML, or has keys that are no texts.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        serde_saphyr::from_str_with_options(text, options(1)).ok().map(Self)
    }

    /// Returns the place of a member's name, or of an element. If the text does not have it, returns that of what it would be a part of.
    #[must_use]
    pub fn find(&self, path: &FieldPath) -> Option<Place> {
        let mut node = &self.0;
        let mut place = None;
        for step in path.steps() {
            let found = match (node, step) {
                (Node::Members(members), PathStep::Member(name)) => members
                    .iter()
                    .find(|(key, _)| key.value == *name)
                    .map(|(key, value)| (&key.referenced, value)),
                (Node::Elements(elements), PathStep::Element(index)) => {
                    elements.get(*index).map(|element| (&element.referenced, &element.value))
                }
                _ => None,
            };
            let Some((location, value)) = found else { break };
            (place, node) = (Some(of_location(location)), value);
        }
        place
    }
}

fn of_location(location: &Location) -> Place {
    Place { line: location.line(), column: location.column() }
}

impl<'de> Deserialize<'de> for Places {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Node::deserialize(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = access.next_entry()? {
            members.push(member);
        }
        Ok(Node::Members(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = access.next_element()? {
            elements.push(element);
        }
        Ok(Node::Elements(elements))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Node::Scalar)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_that_of_the_name_or_of_the_element() {
        let text = "grants: explicit\nplugins:\n- name: a\n  sidecar:\n    workers: 0\n- {name: b, sidecar: {limits: {memory: lots}, enabled: true, nothing: null, ratio: 1.5}}\n";
        let places = Places::of(text).expect("YAML");
        let plugin = |index| FieldPath::of_members("plugins").element(index);
        let sidecar =
            |index, names: &str| plugin(index).member("sidecar").join(&FieldPath::of_members(names));
        for (path, line, column) in [
            (FieldPath::of_members("grants"), 1, 1),
            (plugin(0), 3, 3),
            (sidecar(0, "workers"), 5, 5),
            (sidecar(0, "absent"), 4, 3),
            (sidecar(1, "limits.memory"), 6, 32),
            (sidecar(1, "limits.memory.deeper"), 6, 32),
            (plugin(7), 2, 1),
        ] {
            assert_eq!(places.find(&path), Some(Place { line, column }), "{path}");
        }
        assert_eq!(places.find(&FieldPath::of_members("absent")), None);
    }

    #[test]
    fn what_is_no_yaml_has_no_places() {
        assert!(Places::of("a: [").is_none());
        assert!(Places::of(&"[".repeat(1000)).is_none());
        assert_eq!(Place { line: 2, column: 3 }.to_string(), "line 2 column 3");
    }
}
