//! The members of a JSON object as borrowed raw text.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The most names that are compared with each other. More are sorted.
const MAX_PAIRWISE: usize = 32;

/// The members of one JSON object in document order, with the values as raw text.
///
/// Duplicate names are an error: with two values for one name, two readers of the same bytes could see different objects.
pub(crate) struct Members<'a>(pub(in crate::object) Vec<(Cow<'a, str>, &'a str)>);

/// A string that borrows from the input if it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(Cow<'de, str>, &'de str)> = Vec::with_capacity(8);
                while let Some(Text(name)) = map.next_key::<Text<'de>>()? {
                    let value: &'de RawValue = map.next_value()?;
                    members.push((name, value.get()));
                }
                match duplicate(&members, |(name, _)| name) {
                    None => Ok(Members(members)),
                    Some((name, _)) => {
                        Err(A::Error::custom(format_args!("the member {name:?} appears twice")))
                    }
                }
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

impl<'a> Members<'a> {
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, raw)| *raw)
    }
}

/// Returns an item whose name an earlier item has; `None` if all names differ.
///
/// The time does not grow with the square of the number of items, because a hostile object may have a hundred thousand labels.
fn duplicate<T, N: Ord>(items: &[T], name: impl Fn(&T) -> &N) -> Option<&T> {
    if items.len() <= MAX_PAIRWISE {
        let repeats =
            |(index, item): (usize, &T)| items[..index].iter().any(|known| name(known) == name(item));
        return items.iter().enumerate().find(|pair| repeats(*pair)).map(|(_, item)| item);
    }
    let mut sorted: Vec<&T> = items.iter().collect();
    sorted.sort_unstable_by(|a, b| name(a).cmp(name(b)));
    sorted.windows(2).find(|pair| name(pair[0]) == name(pair[1])).map(|pair| pair[1])
}

/// Returns the string that a well-formed JSON value is; `None` if the value has another type.
pub(crate) fn string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<Text<'_>>(raw).ok().map(|Text(text)| text)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::*;

    thread_local! {
        static COMPARISONS: Cell<usize> = const { Cell::new(0) };
    }

    /// A name that counts how often it is compared.
    #[derive(Debug)]
    struct CountedName(usize);

    impl PartialEq for CountedName {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other).is_eq()
        }
    }

    impl Eq for CountedName {}

    impl PartialOrd for CountedName {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Ord for CountedName {
        fn cmp(&self, other: &Self) -> Ordering {
            COMPARISONS.set(COMPARISONS.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    #[test]
    fn comparisons_do_not_grow_with_the_square_of_the_names() {
        // A permutation, so that sorting has work to do.
        let names: Vec<_> = (0..100_000).map(|number| CountedName(number * 7919 % 100_000)).collect();
        COMPARISONS.set(0);
        assert!(duplicate(&names, |name| name).is_none());
        let count = COMPARISONS.get();
        assert!((names.len()..names.len() * 50).contains(&count), "{count} comparisons");
    }

    #[test]
    fn an_object_with_a_repeated_name_is_refused_whatever_its_size() {
        for count in [2, 32, 33, 1000] {
            let members: Vec<String> = (0..count).map(|number| format!(r#""k{number}":1"#)).collect();
            let text = format!("{{{}}}", members.join(","));
            assert_eq!(serde_json::from_str::<Members<'_>>(&text).expect("distinct names").0.len(), count);
            let repeated = format!(r#"{{{},"k1":2}}"#, members.join(","));
            let error = serde_json::from_str::<Members<'_>>(&repeated).err().expect("a repeated name");
            assert!(error.to_string().contains(r#"the member "k1" appears twice"#), "{error}");
        }
    }

    proptest! {
        #[test]
        fn duplicates_are_those_of_a_set(names in proptest::collection::vec(0_u8..100, 0..80)) {
            let mut seen = std::collections::BTreeSet::new();
            let repeated = names.iter().any(|name| !seen.insert(*name));
            let found = duplicate(&names, |name| name).copied();
            prop_assert_eq!(found.is_some(), repeated);
            let count = found.map_or(2, |found| names.iter().filter(|name| **name == found).count());
            prop_assert!(count >= 2);
        }
    }
}
