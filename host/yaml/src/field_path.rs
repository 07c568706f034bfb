//! The path of a member of a document, such as `plugins[0].sidecar.workers`.

use std::fmt;

/// The path of a member of a document. The empty path is the document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath(Vec<PathStep>);

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    /// The member of this name.
    Member(String),
    /// The element at this index of a list.
    Element(usize),
}

impl FieldPath {
    /// Returns the path of members of these names, which are separated by dots.
    #[must_use]
    pub fn of_members(names: &str) -> Self {
        Self(names.split('.').map(|name| PathStep::Member(name.to_owned())).collect())
    }

    /// Returns the path of a member of what this path leads to.
    #[must_use]
    pub fn member(mut self, name: &str) -> Self {
        self.0.push(PathStep::Member(name.to_owned()));
        self
    }

    /// Returns the path of an element of the list that this path leads to.
    #[must_use]
    pub fn element(mut self, index: usize) -> Self {
        self.0.push(PathStep::Element(index));
        self
    }

    /// Returns this path, followed by another one.
    #[must_use]
    pub fn join(mut self, rest: &Self) -> Self {
        self.0.extend(rest.0.iter().cloned());
        self
    }

    /// Returns the steps, the outermost first.
    #[must_use]
    pub fn steps(&self) -> &[PathStep] {
        &self.0
    }

    pub(crate) fn push(&mut self, step: PathStep) {
        self.0.push(step);
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Member(name) if position == 0 => f.write_str(name)?,
                PathStep::Member(name) => write!(f, ".{name}")?,
                PathStep::Element(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_with_its_members_and_elements() {
        let sidecar = FieldPath::of_members("plugins").element(0).member("sidecar");
        assert_eq!(sidecar.to_string(), "plugins[0].sidecar");
        assert_eq!(
            sidecar.join(&FieldPath::of_members("limits.memory")).to_string(),
            "plugins[0].sidecar.limits.memory"
        );
        assert_eq!(FieldPath::default().to_string(), "");
    }
}
