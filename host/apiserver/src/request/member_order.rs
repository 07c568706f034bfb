//! The order of the members in a JSON body, in which kube-apiserver lists unknown fields of built-in kinds.

use std::fmt::{self, Write as _};

use pilothouse_model::hash::HashMap;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The bytes of paths that are looked up. The order of what follows does not matter: nobody writes so many members by hand.
const MAX_WORK: usize = 16 << 20;

/// Sorts paths such as `spec.list[0].name` by the places of their members in a JSON text.
pub(crate) fn sort_by_position(paths: &mut [String], text: &[u8]) {
    let plain = |path: &String| path.replace('[', ".").replace(']', "");
    let mut positions: HashMap<String, usize> = paths.iter().map(|path| (plain(path), usize::MAX)).collect();
    let mut walk = Walk { positions: &mut positions, path: String::new(), found: 0, work: MAX_WORK };
    // The text was parsed before.
    let _ = (&mut walk).deserialize(&mut serde_json::Deserializer::from_slice(text));
    paths.sort_by_key(|path| positions.get(&plain(path)).copied());
}

struct Walk<'p> {
    /// How many of the paths come before each path.
    positions: &'p mut HashMap<String, usize>,
    /// The path of the current value, with a dot before each step but the first.
    path: String,
    found: usize,
    work: usize,
}

impl<'de> DeserializeSeed<'de> for &mut Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.work == 0 {
            return deserializer.deserialize_ignored_any(IgnoredAny).map(drop);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let length = self.path.len();
        for index in 0_usize.. {
            let _ = write!(self.path, ".{index}");
            let item = items.next_element_seed(&mut *self);
            self.path.truncate(length);
            if item?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let length = self.path.len();
        while let Some(name) = members.next_key::<String>()? {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&name);
            self.work = self.work.saturating_sub(self.path.len());
            if let Some(position) =
                self.positions.get_mut(&self.path).filter(|position| **position == usize::MAX)
            {
                *position = self.found;
                self.found += 1;
            }
            let value = members.next_value_seed(&mut *self);
            self.path.truncate(length);
            value?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::sort_by_position;

    fn sorted(paths: &[&str], text: &str) -> Vec<String> {
        let mut paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        sort_by_position(&mut paths, text.as_bytes());
        paths
    }

    #[test]
    fn paths_have_the_order_of_the_text() {
        let text = r#"{"z": 1, "metadata": {"x": [], "a": {}}, "list": [{"n": 1, "b": 2}, {"a": null}], "a": "\u00e9"}"#;
        let paths = ["a", "list[0].b", "list[1].a", "metadata.a", "metadata.x", "z"];
        assert_eq!(sorted(&paths, text), ["z", "metadata.x", "metadata.a", "list[0].b", "list[1].a", "a"]);
        assert_eq!(sorted(&["b", "a"], r#"{"a": 1}"#), ["a", "b"], "what is not in the text comes last");
    }

    #[test]
    fn the_work_is_bounded() {
        let long = "x".repeat(1 << 20);
        let members: Vec<String> = (0..1000).map(|number| format!(r#""m{number}": 1"#)).collect();
        let text = format!(r#"{{"{long}": {{{}}}, "b": 1, "a": 2}}"#, members.join(","));
        assert_eq!(sorted(&["b", "a"], &text).len(), 2);
    }
}
