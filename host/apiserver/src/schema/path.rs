//! Paths of values in an object. A path becomes text only where an error names it.

use std::fmt;

/// The path of a value in an object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Path<'a> {
    /// The object itself.
    Root,
    /// A field of the value at a path.
    Field(&'a Path<'a>, &'a str),
    /// An item of the list at a path.
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    /// Whether this is the path of the object itself.
    pub(super) fn is_root(self) -> bool {
        matches!(self, Self::Root)
    }
}

/// Writes `spec.containers[0].name`; nothing for the object itself.
impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::field;

    #[test]
    fn the_text_is_that_of_the_field_functions() {
        let (root, spec) = (Path::Root, Path::Field(&Path::Root, "spec"));
        let items = Path::Field(&spec, "items");
        let item = Path::Index(&items, 3);
        let name = Path::Field(&item, "name");
        let expected = field::child(&field::index(&field::child("spec", "items"), 3), "name");
        assert_eq!(name.to_string(), expected);
        assert_eq!((root.to_string().as_str(), root.is_root(), spec.is_root()), ("", true, false));
        let empty = Path::Field(&Path::Root, "");
        assert_eq!(Path::Field(&empty, "a").to_string(), ".a");
    }
}
