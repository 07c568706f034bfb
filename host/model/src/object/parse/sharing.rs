//! Decides from which object the text of a new one is made, and how: from what the comparison with a known object has found.

use std::ops::Range;

use super::tail::{self, Tail};
use crate::object::Object;
use crate::object::json::Span;
use crate::object::json::validate_against::common_prefix;
use crate::object::metadata::Metadata;
use crate::object::packed::{Recipe, Replacement};

/// How many times as long as an object's text its base may be. The object keeps the base in memory, even if nothing else needs it.
const MAX_BASE_RATIO: usize = 4;

/// An object that has been parsed, but not stored.
pub(super) struct NewObject<'a> {
    /// The text up to the end of the metadata.
    pub(super) head: [&'a str; 3],
    /// The members after the metadata.
    pub(super) tail: &'a str,
    pub(super) metadata: &'a Metadata,
}

impl NewObject<'_> {
    fn head_len(&self) -> usize {
        self.head.iter().map(|part| part.len()).sum()
    }

    /// Returns the length of the text, with its closing bracket.
    fn len(&self) -> usize {
        self.head_len() + self.tail.len() + 1
    }

    /// Returns what differs after the metadata.
    fn tail_replacements(
        &self,
        known: &Object,
        compared: &Tail,
    ) -> impl ExactSizeIterator<Item = Replacement> {
        compared.replacements(known.metadata().after_metadata.start(), self.head_len())
    }

    /// Returns the object from which the text is to be made, and how; `None` if that would not save memory.
    ///
    /// `known` is the object that the text was compared with: `head_replacements` returns what differs up to the end of the metadata, and
    /// `compared` is what differs after it. If the known text is not made from that of another object, `may_be_base` says whether it may
    /// become a base.
    pub(super) fn recipe(
        &self,
        known: &Object,
        head_replacements: impl FnOnce() -> Vec<Replacement>,
        compared: &Tail,
        may_be_base: bool,
    ) -> Option<(Object, Recipe)> {
        if known.is_plain() && !may_be_base {
            return None;
        }
        let replacements = head_replacements().into_iter().chain(self.tail_replacements(known, compared));
        let (base, mut recipe) = if known.is_plain() {
            (known.clone(), Recipe::of_base(known, replacements)?)
        } else {
            let (base, recipe) = known.recipe_with(replacements)?;
            // Nothing else is made from this base any more.
            base.is_shared().then_some(())?;
            (base.clone(), recipe)
        };
        if recipe.is_outdated()
            && let Some(again) = tail::compare(&base, self.tail, true)
            && again.len() == self.tail.len()
        {
            let of_head = head_replacements_of(&base, &self.head.concat(), self.metadata);
            let replacements = of_head.into_iter().chain(self.tail_replacements(&base, &again));
            recipe = Recipe::of_base(&base, replacements).unwrap_or(recipe);
        }
        let is_kept_small = base.json().len() <= MAX_BASE_RATIO * self.len();
        (is_kept_small && recipe.is_smaller(self.len())).then_some((base, recipe))
    }
}

/// Returns how the text up to the end of the metadata differs from that of another object of the same owner. The name, the UID and the
/// resource version differ, and mostly the labels, the annotations and the owners do not.
///
/// `head` is the new text up to the end of the metadata, and `metadata` is the new metadata.
pub(super) fn head_replacements_of(known: &Object, head: &str, metadata: &Metadata) -> Vec<Replacement> {
    let (known_metadata, known_json) = (known.metadata(), known.json());
    let known_head = &known_json[..known_metadata.after_metadata.start()];
    let fields = [
        (known_metadata.uid.span(), metadata.uid.span()),
        (known_metadata.resource_version.span(), metadata.resource_version.span()),
    ];
    let mut differences = Differences {
        known: known_head,
        new: head,
        at: (0, 0),
        undivided: fields.map(|(known, new)| (known.of(known_head) != new.of(head)).then_some((known, new))),
        replacements: Vec::with_capacity(8),
    };
    differences.skip_equal();
    let [(known_uid, new_uid), _] = fields;
    differences.equal_part(known_uid.start()..known_uid.start(), new_uid.start()..new_uid.start());
    for (known_part, new_part) in [
        (known_metadata.labels.span(), metadata.labels.span()),
        (known_metadata.annotations.span(), metadata.annotations.span()),
        (known_metadata.owner_references, metadata.owner_references),
    ] {
        if known_part.of(known_head) == new_part.of(head) && !new_part.is_empty() {
            differences.equal_part(known_part.range(), new_part.range());
            differences.skip_equal();
        }
    }
    differences.equal_part(known_head.len()..known_head.len(), head.len()..head.len());
    differences.replacements
}

/// Collects the differences of two texts in document order.
struct Differences<'a> {
    known: &'a str,
    new: &'a str,
    /// The ends of what has been compared in both texts.
    at: (usize, usize),
    /// Fields that differ, in both texts. They are copied as a whole or not at all, so that they can be lent out.
    undivided: [Option<(Span, Span)>; 2],
    replacements: Vec<Replacement>,
}

impl Differences<'_> {
    /// Continues after the text that is equal from here on.
    fn skip_equal(&mut self) {
        let (known, new) = self.at;
        let mut len = common_prefix(&self.known.as_bytes()[known..], &self.new.as_bytes()[new..]);
        for (field, _) in self.undivided.iter().flatten() {
            // The known value may be the start of the new one.
            if (field.start()..=field.end()).contains(&(known + len)) {
                len = field.start().saturating_sub(known);
            }
        }
        while !self.known.is_char_boundary(known + len) {
            len -= 1;
        }
        self.at = (known + len, new + len);
    }

    /// Continues after these equal parts, which may be empty. What is equal directly before them is no difference either. Does nothing if
    /// one of the parts has been compared already.
    fn equal_part(&mut self, known: Range<usize>, new: Range<usize>) {
        let (Some(known_gap), Some(new_gap)) =
            (self.known.get(self.at.0..known.start), self.new.get(self.at.1..new.start))
        else {
            return;
        };
        let pairs = known_gap.bytes().rev().zip(new_gap.bytes().rev());
        let mut equal = pairs.take_while(|(one, other)| one == other).count();
        while !known_gap.is_char_boundary(known_gap.len() - equal) {
            equal -= 1;
        }
        for (known_field, new_field) in self.undivided.iter().flatten() {
            for (field, end) in [(known_field, known.start), (new_field, new.start)] {
                // One value may be the end of the other one.
                if (field.start()..field.end()).contains(&(end - equal)) {
                    equal = end.saturating_sub(field.end());
                }
            }
        }
        let replacement =
            Replacement { known: self.at.0..known.start - equal, new: self.at.1..new.start - equal };
        if !replacement.known.is_empty() || !replacement.new.is_empty() {
            self.replacements.push(replacement);
        }
        self.at = (known.end, new.end);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pod(name: &str, uid: &str, labels: &str, annotations: &str, rest: &str) -> Object {
        Object::from_json(format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","generateName":"web-","namespace":"shop","uid":"{uid}","resourceVersion":"1","labels":{{{labels}}},"annotations":{{{annotations}}}{rest}}},"spec":{{}}}}"#
        ))
        .expect("an object")
    }

    fn replacements(known: &Object, new: &Object) -> Vec<Replacement> {
        let head = &new.json()[..new.metadata().after_metadata.start()];
        head_replacements_of(known, head, new.metadata())
    }

    /// Returns the parts of the new text that differ.
    fn different(known: &Object, new: &Object) -> Vec<String> {
        replacements(known, new).into_iter().map(|part| new.json()[part.new].to_owned()).collect()
    }

    #[test]
    fn only_what_differs_is_a_difference() {
        let known = pod("web-a", "12", r#""app":"web""#, r#""note":"x""#, r#","finalizers":["a"]"#);
        let same = |uid| pod("web-a", uid, r#""app":"web""#, r#""note":"x""#, r#","finalizers":["a"]"#);
        assert_eq!(different(&known, &same("12")), [""; 0]);
        // A UID is a copy as a whole, or not at all.
        assert_eq!(different(&known, &same("13")), ["13"]);
        let other = pod("web-b", "2", r#""app":"web""#, r#""note":"y""#, "");
        assert_eq!(different(&known, &other), ["b", "2", r#"y"}"#]);
        assert_eq!(different(&known, &same("123")), ["123"]);
        assert_eq!(different(&known, &same("2")), ["2"]);
    }

    proptest! {
        /// The known text with the replacements is the new one, whatever the values are and whichever are absent.
        #[test]
        fn the_replacements_make_the_new_text_from_the_known_one(
            objects in prop::array::uniform2((
                "[ab]{1,4}", "[12]{0,4}", prop::sample::select(vec!["", "\"a\":\"é\"", "\"a\":\"è\"", "\"b\":\"\""]),
                prop::sample::select(vec!["", "\"n\":\"1\"", "\"n\":\"12\""]),
                prop::sample::select(vec!["", ",\"x\":1", ",\"x\":\"é\"", ",\"generation\":7"]),
            )),
        ) {
            let [known, new] = objects.map(|(name, uid, labels, notes, rest)| pod(&name, &uid, labels, notes, rest));
            let (mut text, mut at, mut new_at) = (String::new(), 0, 0);
            for part in replacements(&known, &new) {
                text.push_str(&known.json()[at..part.known.start]);
                new_at += part.known.start - at;
                prop_assert_eq!(new_at, part.new.start);
                text.push_str(&new.json()[part.new.clone()]);
                (at, new_at) = (part.known.end, part.new.end);
            }
            text.push_str(&known.json()[at..known.metadata().after_metadata.start()]);
            prop_assert_eq!(text, &new.json()[..new.metadata().after_metadata.start()]);
        }
    }
}
