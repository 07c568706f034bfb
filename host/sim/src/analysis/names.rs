//! Names that do not depend on the seed or on the order of events: UIDs and generated names are replaced by what they
//! stand for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{ObjectId, metadata};
use crate::run::{EventKind, Run};

/// The longest part after a prefix that is taken for random.
const MAX_RANDOM_LENGTH: usize = 16;

/// The length of a UID in bytes, as the server draws it (RFC 9562).
const UID_LENGTH: usize = 36;

/// Whether the text has the form of a UID: five groups of digits and letters.
fn has_uid_form(text: &[u8]) -> bool {
    let is_hyphen = |index: usize| matches!(index, 8 | 13 | 18 | 23);
    text.len() == UID_LENGTH
        && text[8] == b'-'
        && text
            .iter()
            .enumerate()
            .all(|(index, byte)| if is_hyphen(index) { *byte == b'-' } else { byte.is_ascii_alphanumeric() })
}

/// The prefixes of names that the plugin draws at random: pairs of resource and prefix. Found by comparing two runs
/// that differ in the seed only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RandomPrefixes(BTreeSet<(String, String)>);

impl RandomPrefixes {
    /// Returns the prefixes of the names that plugins created in only one of two runs with different seeds, if the other
    /// run has a name with the same prefix in its place.
    #[must_use]
    pub fn between(left: &Run, right: &Run) -> Self {
        let (left, right) = (created_names(left), created_names(right));
        let prefixes = |names: &BTreeSet<ObjectId>, others: &BTreeSet<ObjectId>| -> BTreeSet<_> {
            names.difference(others).filter_map(|id| Some((id.resource.clone(), prefix(&id.name)?))).collect()
        };
        let left_only: BTreeSet<_> = prefixes(&left, &right);
        Self(prefixes(&right, &left).intersection(&left_only).cloned().collect())
    }
}

impl RandomPrefixes {
    /// Returns the pairs of resource and prefix.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = &(String, String)> {
        self.0.iter()
    }
}

/// Returns the names that were created without `generateName`.
fn created_names(run: &Run) -> BTreeSet<ObjectId> {
    let mut names = BTreeSet::new();
    for event in &run.events {
        if let EventKind::Request(request) = &event.kind
            && request.is_by_plugin()
            && request.verb == "create"
            && let Some(after) = &request.after
            && metadata(after, "generateName").is_none()
        {
            names.insert(request.object_id());
        }
    }
    names
}

/// Returns the name up to and including its last hyphen, if what follows may be random.
fn prefix(name: &str) -> Option<String> {
    let (prefix, random) = name.rsplit_once('-')?;
    (!prefix.is_empty() && (4..=MAX_RANDOM_LENGTH).contains(&random.len())).then(|| format!("{prefix}-"))
}

/// The canonical names of a run.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// UIDs, and what they identify.
    uids: BTreeMap<String, String>,
    /// Generated names, and their families.
    families: BTreeMap<String, String>,
    random: RandomPrefixes,
}

impl Names {
    /// Collects the names of a run.
    #[must_use]
    pub fn of(run: &Run, random: &RandomPrefixes) -> Self {
        let mut names = Self { random: random.clone(), ..Self::default() };
        // An object is the one after a write and before the next one.
        let mut known = BTreeSet::new();
        for event in &run.events {
            match &event.kind {
                EventKind::Request(request) => {
                    for object in [&request.before, &request.after].into_iter().flatten() {
                        if known.insert(Arc::as_ptr(object)) {
                            names.add(&request.object_id(), object);
                        }
                    }
                }
                EventKind::Delivered { resource, key, uid, .. } if !uid.is_empty() => {
                    names.uids.entry(uid.clone()).or_insert_with(|| format!("{resource} {key}"));
                }
                _ => {}
            }
        }
        for stored in &run.objects {
            if known.insert(Arc::as_ptr(&stored.object)) {
                names.add(&ObjectId::of(stored), &stored.object);
            }
        }
        if names.families.is_empty() {
            return names;
        }
        // The families are complete only now. A generated name may begin with another one.
        let families: Vec<_> =
            names.families.iter().map(|(name, family)| (name.clone(), names.replace_names(family))).collect();
        names.families.extend(families);
        let canonical: Vec<_> =
            names.uids.iter().map(|(uid, text)| (uid.clone(), names.replace_names(text))).collect();
        names.uids.extend(canonical);
        names
    }

    fn add(&mut self, id: &ObjectId, object: &Value) {
        if id.name.is_empty() {
            return;
        }
        let generated = metadata(object, "generateName")
            .filter(|prefix| {
                !prefix.is_empty() && id.name.len() > prefix.len() && id.name.starts_with(*prefix)
            })
            .map(str::to_owned);
        let random = || {
            let prefix = prefix(&id.name).filter(|_| !self.random.0.is_empty())?;
            self.random.0.contains(&(id.resource.clone(), prefix.clone())).then_some(prefix)
        };
        if let Some(prefix) = generated.or_else(random) {
            self.families.insert(id.name.clone(), format!("{prefix}*"));
        }
        if let Some(uid) = metadata(object, "uid") {
            self.uids.insert(uid.to_owned(), id.to_string());
        }
    }

    /// Returns the object's name, or its prefix and `*` if the name was generated.
    #[must_use]
    pub fn family<'a>(&'a self, name: &'a str) -> &'a str {
        self.families.get(name).map_or(name, String::as_str)
    }

    /// Whether the name was generated.
    #[must_use]
    pub fn is_generated(&self, name: &str) -> bool {
        self.families.contains_key(name)
    }

    /// Returns the canonical address: equal for the objects of a family.
    #[must_use]
    pub fn canonical_id(&self, id: &ObjectId) -> ObjectId {
        ObjectId {
            resource: id.resource.clone(),
            namespace: self.family(&id.namespace).to_owned(),
            name: self.family(&id.name).to_owned(),
        }
    }

    /// Whether an object had this UID at any time of the run.
    #[must_use]
    pub fn knows_uid(&self, uid: &str) -> bool {
        self.uids.contains_key(uid)
    }

    /// Replaces the UIDs and generated names in a text.
    #[must_use]
    pub fn replace(&self, text: &str) -> String {
        if let Some(what) = self.uids.get(text) {
            return format!("<uid of {what}>");
        }
        if text.len() < UID_LENGTH {
            return self.replace_names(text);
        }
        let mut replaced = self.replace_regular_uids(text);
        for (uid, what) in self.uids.iter().filter(|(uid, _)| !has_uid_form(uid.as_bytes())) {
            if replaced.contains(uid.as_str()) {
                replaced = replaced.replace(uid, &format!("<uid of {what}>"));
            }
        }
        self.replace_names(&replaced)
    }

    /// Replaces the UIDs that have the form of one in a single pass: a search for each UID would dominate the comparison of two ends.
    fn replace_regular_uids(&self, text: &str) -> String {
        let bytes = text.as_bytes();
        let mut replaced = String::new();
        let (mut copied, mut start) = (0, 0);
        while let Some(window) = bytes.get(start..start + UID_LENGTH) {
            let uid = has_uid_form(window).then(|| text.get(start..start + UID_LENGTH)).flatten();
            let Some(what) = uid.and_then(|uid| self.uids.get(uid)) else {
                start += 1;
                continue;
            };
            replaced.push_str(&text[copied..start]);
            replaced.push_str("<uid of ");
            replaced.push_str(what);
            replaced.push('>');
            start += UID_LENGTH;
            copied = start;
        }
        replaced.push_str(&text[copied..]);
        replaced
    }

    fn replace_names(&self, text: &str) -> String {
        if let Some(family) = self.families.get(text) {
            return family.clone();
        }
        let mut found: Vec<_> =
            self.families.iter().filter(|(name, _)| text.contains(name.as_str())).collect();
        // A generated name may begin with another one.
        found.sort_by_key(|(name, _)| Reverse(name.len()));
        found.into_iter().fold(text.to_owned(), |replaced, (name, family)| replaced.replace(name, family))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::RunBuilder;

    #[test]
    fn uids_are_replaced_wherever_they_are_in_a_text() {
        let uid = "7a3c9f10-0b1e-4c2d-8e5f-000000000001";
        let names = Names {
            uids: BTreeMap::from([
                (uid.to_owned(), "pods a/b".to_owned()),
                ("not of the server's form, but long enough".to_owned(), "pods a/c".to_owned()),
            ]),
            ..Names::default()
        };
        assert_eq!(names.replace(uid), "<uid of pods a/b>");
        assert_eq!(names.replace(&format!("é{uid}{uid}-x")), "é<uid of pods a/b><uid of pods a/b>-x");
        let other = "7a3c9f10-0b1e-4c2d-8e5f-000000000002 belongs to nobody";
        assert_eq!(names.replace(other), other);
        let irregular = "(not of the server's form, but long enough)";
        assert_eq!(names.replace(irregular), "(<uid of pods a/c>)");
    }

    #[test]
    fn a_generated_name_that_begins_with_another_one_is_replaced_as_a_whole() {
        let families = [("web-abcde", "web-*"), ("web-abcde-fghij", "web-abcde-*")];
        let families = families.map(|(name, family)| (name.to_owned(), family.to_owned()));
        let names = Names { families: BTreeMap::from(families), ..Names::default() };
        assert_eq!(names.replace("web-abcde-fghij, web-abcde"), "web-*-*, web-*");
    }

    #[test]
    fn the_family_of_a_generated_name_has_no_other_generated_name() {
        let mut run = RunBuilder::new();
        let generated = |prefix: &str| Some(json!({"metadata": {"generateName": prefix}}));
        run.controller("create", "sets", "a/web-abcde", generated("web-"));
        run.controller("create", "pods", "a/web-abcde-fghij", generated("web-abcde-"));
        let names = Names::of(&run.finish(), &RandomPrefixes::default());
        assert_eq!(names.family("web-abcde"), "web-*");
        assert_eq!(names.family("web-abcde-fghij"), "web-*-*");
    }
}
