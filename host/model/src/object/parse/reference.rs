//! What a text is compared with before it is parsed.

use super::Object;
use super::follow::{Names, follow};
use super::scan::Cursor;
use crate::ObjectKey;

/// How many shapes are remembered. Objects come from few controllers at a time.
const SHAPES: usize = 16;
/// Nothing larger is kept to compare with, in bytes: what one reader remembers stays within a few megabytes at worst.
const LARGEST: usize = 64 * 1024;

/// What may be like the object that is being read. Whatever it is, it changes how quickly the object is read and nothing else.
pub(super) struct Familiar<'a> {
    /// The version of the object that the caller has, by its key.
    stored: &'a mut dyn FnMut(&ObjectKey) -> Option<Object>,
    /// What it was asked, and answered: it is asked once for each object.
    found: Option<(ObjectKey, Option<Object>)>,
    shapes: Option<&'a mut Shapes>,
}

impl<'a> Familiar<'a> {
    pub(super) fn new(
        stored: &'a mut dyn FnMut(&ObjectKey) -> Option<Object>,
        shapes: &'a mut Shapes,
    ) -> Self {
        Self { stored, found: None, shapes: Some(shapes) }
    }

    /// With nothing to compare with.
    pub(super) fn nothing(nobody: &'a mut dyn FnMut(&ObjectKey) -> Option<Object>) -> Self {
        Self { stored: nobody, found: None, shapes: None }
    }

    pub(super) fn stored(&mut self, namespace: &str, name: &str) -> Option<&Object> {
        let ask = || {
            let key = ObjectKey::new(namespace, name);
            let stored = (self.stored)(&key);
            if let Some(stored) = &stored {
                stored.fetch_text();
            }
            (key, stored)
        };
        self.found.get_or_insert_with(ask).1.as_ref()
    }

    /// The stored version, if it was asked for.
    pub(super) fn known(&self) -> Option<&Object> {
        self.found.as_ref()?.1.as_ref()
    }

    /// The key by which it was asked for.
    ///
    /// Not that of the stored version, though it has the same text: to count one more use of that costs more than to make another, as the
    /// thread that takes the versions before counts there, too.
    pub(super) fn key(&self) -> Option<&ObjectKey> {
        self.found.as_ref().map(|(key, _)| key)
    }

    /// The start of the objects that were read lately.
    pub(super) fn head(&self) -> Option<&Head> {
        self.shapes.as_ref().and_then(|shapes| shapes.head())
    }

    /// The stored version, when it has the key by which it was asked for, and what else is remembered.
    pub(super) fn all(&mut self) -> Option<(&Object, &mut Shapes)> {
        let (key, stored) = self.found.as_ref()?;
        Some((stored.as_ref().filter(|stored| stored.key() == key)?, self.shapes.as_mut()?))
    }

    /// The stored version, and the key by which it was asked for.
    pub(super) fn take(&mut self) -> Option<(ObjectKey, Object)> {
        let (key, stored) = self.found.take()?;
        Some((key, stored?))
    }

    /// An object of these owners.
    pub(super) fn example(&self, owners: Owners) -> Option<&Object> {
        self.shapes.as_ref()?.by_owners[owners.0].example.as_ref()
    }

    /// As [`Shapes::managed_fields`].
    pub(super) fn managed_fields(&mut self, cursor: &mut Cursor<'_>, owners: Owners) -> Option<()> {
        match &mut self.shapes {
            Some(shapes) => shapes.managed_fields(cursor, owners),
            None => cursor.value(),
        }
    }
}

/// Who owns an object, as a number: objects of one owner are mostly made from one template.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Owners(usize);

impl Owners {
    /// Of the text of `metadata.ownerReferences`. Any spread will do: a mistake costs a parse.
    pub(super) fn of(references: &str) -> Self {
        let mix = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (words, _) = references.as_bytes().as_chunks::<8>();
        let (blocks, rest) = words.as_chunks::<4>();
        // Four sums side by side: each step of one waits for the step before it.
        let sums = blocks.iter().fold([0; 4], |sums: [u64; 4], block| {
            std::array::from_fn(|at| mix(sums[at], u64::from_le_bytes(block[at])))
        });
        let words = rest.iter().map(|word| u64::from_le_bytes(*word));
        let mixed = sums.into_iter().chain(words).fold(0, mix);
        Self((mixed >> 60) as usize % SHAPES)
    }
}

/// What was read lately.
#[derive(Default)]
pub(super) struct Shapes {
    head: Head,
    by_owners: [Shape; SHAPES],
}

/// What an object starts with up to the value of `metadata`, where that says the types: as the server wrote it, and as it is kept. Both are
/// "" as long as there is none.
#[derive(Default)]
pub(super) struct Head {
    pub(super) source: String,
    pub(super) canonical: String,
}

#[derive(Default)]
struct Shape {
    /// The text of `metadata.managedFields`, which no object has when they are dropped.
    managed: String,
    /// An object.
    example: Option<Object>,
}

impl Shapes {
    /// The start of the objects that were read lately.
    pub(super) fn head(&self) -> Option<&Head> {
        Some(&self.head).filter(|head| !head.source.is_empty())
    }

    /// Whether the start of the kept text is as in the objects that were read lately.
    pub(super) fn is_head_of(&self, json: &str) -> bool {
        json.starts_with(&self.head.canonical)
    }

    /// Reads managed fields that are dropped: that they are well formed is all that counts, whatever the names in them.
    pub(super) fn managed_fields(&mut self, cursor: &mut Cursor<'_>, owners: Owners) -> Option<()> {
        let known = &mut self.by_owners[owners.0].managed;
        if !known.is_empty()
            && let Some(len) = follow(known, cursor.rest(), Names::Any)
        {
            return cursor.skip(len);
        }
        let start = cursor.at();
        cursor.value()?;
        let text = cursor.since(start).of(cursor.text());
        if text.ends_with(']') && text.len() <= LARGEST {
            known.clear();
            known.push_str(text);
        }
        Some(())
    }

    pub(super) fn learn_head(&mut self, source: &str, canonical: &str) {
        if source.len() <= LARGEST && (self.head.source != source || self.head.canonical != canonical) {
            self.head = Head { source: source.to_owned(), canonical: canonical.to_owned() };
        }
    }

    pub(super) fn learn_example(&mut self, owners: Owners, object: &Object) {
        if object.json().len() <= LARGEST {
            self.by_owners[owners.0].example = Some(object.clone());
        }
    }
}
