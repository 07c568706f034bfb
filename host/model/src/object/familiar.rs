//! What a text is compared with before it is parsed.

use super::Object;

/// How many shapes are remembered. Objects come from few controllers at a time.
const SHAPES: usize = 16;
/// Nothing larger is kept to compare with, in bytes: what one reader remembers stays within a few megabytes at worst.
const LARGEST: usize = 64 * 1024;

/// What may be like the object that is being read. Whatever it is, it changes how quickly the object is read and nothing else.
pub(super) struct Familiar<'a> {
    /// The version of the object that the caller has, by namespace and name.
    stored: &'a mut dyn FnMut(&str, &str) -> Option<Object>,
    pub(super) shapes: Option<&'a mut Shapes>,
}

impl<'a> Familiar<'a> {
    pub(super) fn new(
        stored: &'a mut dyn FnMut(&str, &str) -> Option<Object>,
        shapes: &'a mut Shapes,
    ) -> Self {
        Self { stored, shapes: Some(shapes) }
    }

    /// With nothing to compare with.
    pub(super) fn nothing(nobody: &'a mut dyn FnMut(&str, &str) -> Option<Object>) -> Self {
        Self { stored: nobody, shapes: None }
    }

    pub(super) fn stored(&mut self, namespace: &str, name: &str) -> Option<Object> {
        (self.stored)(namespace, name)
    }
}

/// Who owns an object, as a number: objects of one owner are mostly made from one template.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Owners(usize);

impl Owners {
    /// Of the text of `metadata.ownerReferences`. Any spread will do: a mistake costs a parse.
    pub(super) fn of(references: &str) -> Self {
        let (words, _) = references.as_bytes().as_chunks::<8>();
        let mixed = words.iter().fold(0_u64, |sum, word| {
            (sum.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        Self((mixed >> 60) as usize % SHAPES)
    }
}

/// What was read lately, by owner.
#[derive(Default)]
pub(super) struct Shapes([Shape; SHAPES]);

#[derive(Default)]
struct Shape {
    /// The text of `metadata.managedFields`, which no object has when they are dropped.
    managed: String,
    /// An object.
    example: Option<Object>,
}

impl Shapes {
    /// The managed fields last read, "" for none.
    pub(super) fn managed(&self, owners: Owners) -> &str {
        &self.0[owners.0].managed
    }

    pub(super) fn learn_managed(&mut self, owners: Owners, text: &str) {
        if text.len() <= LARGEST {
            let managed = &mut self.0[owners.0].managed;
            managed.clear();
            managed.push_str(text);
        }
    }

    pub(super) fn example(&self, owners: Owners) -> Option<&Object> {
        self.0[owners.0].example.as_ref()
    }

    pub(super) fn learn_example(&mut self, owners: Owners, object: &Object) {
        if object.json().len() <= LARGEST {
            self.0[owners.0].example = Some(object.clone());
        }
    }
}
