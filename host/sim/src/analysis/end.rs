//! The objects at the end of a run in canonical form, and how the ends of two runs differ.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::canonical::canonical_object;
use super::comparison::Comparison;
use super::{Names, ObjectId, is_record, metadata};
use crate::run::Run;

/// Stands for the content of an object with which the server began, and which nobody has changed: it is the same in all runs.
const INITIAL: &str = "as at the start";

/// All objects at the end of a run, in canonical form.
#[derive(Clone, Debug, Default)]
pub struct CanonicalEnd {
    /// The objects of each canonical address. Generated names share one.
    objects: BTreeMap<ObjectId, Vec<Value>>,
    /// The resource versions of the objects, which a plugin may have copied into other objects.
    versions: BTreeSet<String>,
}

/// A difference between two ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndDifference {
    /// The canonical address.
    pub id: ObjectId,
    /// The JSON pointer of the difference, "" if the number of objects differs.
    pub pointer: String,
    /// The expected value, or number of objects.
    pub expected: String,
    /// The value, or number of objects.
    pub found: String,
}

/// What differs between two runs with different seeds, and so says nothing.
#[derive(Clone, Debug, Default)]
pub struct EndMask {
    objects: BTreeSet<ObjectId>,
    pointers: BTreeSet<(ObjectId, String)>,
}

impl EndMask {
    /// Returns what differs between two ends.
    #[must_use]
    pub fn between(left: &CanonicalEnd, right: &CanonicalEnd) -> Self {
        let mut mask = Self::default();
        for difference in left.differences(right, &Self::default()) {
            if difference.pointer.is_empty() {
                mask.objects.insert(difference.id);
            } else {
                mask.pointers.insert((difference.id, difference.pointer));
            }
        }
        mask
    }

    /// Returns the objects and fields that differ. The pointer of a whole object is "".
    pub fn entries(&self) -> impl Iterator<Item = (&ObjectId, &str)> {
        let fields = self.pointers.iter().map(|(id, pointer)| (id, pointer.as_str()));
        self.objects.iter().map(|id| (id, "")).chain(fields)
    }
}

impl CanonicalEnd {
    /// Returns the end of a run.
    #[must_use]
    pub fn of(run: &Run, names: &Names) -> Self {
        let mut end = Self::default();
        for stored in run.objects.iter().filter(|stored| !is_record(&stored.resource)) {
            end.versions.extend(metadata(&stored.object, "resourceVersion").map(str::to_owned));
            let id = names.canonical_id(&ObjectId::of(stored));
            let canonical = match stored.is_initial {
                true => Value::from(INITIAL),
                false => canonical_object(&stored.object, names),
            };
            end.objects.entry(id).or_default().push(canonical);
        }
        for objects in end.objects.values_mut() {
            objects.sort_by_cached_key(Value::to_string);
        }
        end
    }

    /// Returns the number of objects at a canonical address.
    #[must_use]
    pub fn count(&self, id: &ObjectId) -> usize {
        self.objects.get(id).map_or(0, Vec::len)
    }

    /// Whether an object is being deleted here, and is gone in `found`.
    #[must_use]
    pub fn has_terminating_object_without(&self, found: &Self) -> bool {
        let is_terminating = |object: &Value| metadata(object, "deletionTimestamp").is_some();
        self.objects.iter().any(|(id, objects)| objects.iter().any(is_terminating) && found.count(id) == 0)
    }

    /// Returns what differs in `found`, apart from what the mask names.
    #[must_use]
    pub fn differences(&self, found: &Self, mask: &EndMask) -> Vec<EndDifference> {
        let ids: BTreeSet<_> = self.objects.keys().chain(found.objects.keys()).collect();
        let mut differences = Vec::new();
        for id in ids.into_iter().filter(|id| !mask.objects.contains(id)) {
            if self.count(id) != found.count(id) {
                differences.push(EndDifference {
                    id: id.clone(),
                    pointer: String::new(),
                    expected: number_of_objects(self.count(id)),
                    found: number_of_objects(found.count(id)),
                });
                continue;
            }
            let pairs =
                self.objects.get(id).into_iter().flatten().zip(found.objects.get(id).into_iter().flatten());
            for (expected, object) in pairs {
                let mut comparison =
                    Comparison { left: &self.versions, right: &found.versions, found: Vec::new() };
                comparison.compare(expected, object, &mut String::new(), 0);
                let is_masked = |pointer: &String| {
                    mask.pointers
                        .iter()
                        .any(|(masked, masked_pointer)| masked == id && masked_pointer == pointer)
                };
                differences.extend(
                    comparison.found.into_iter().filter(|(pointer, ..)| !is_masked(pointer)).map(
                        |(pointer, expected, found)| EndDifference {
                            id: id.clone(),
                            pointer,
                            expected,
                            found,
                        },
                    ),
                );
            }
        }
        differences
    }
}

fn number_of_objects(count: usize) -> String {
    match count {
        0 => "no object".to_owned(),
        1 => "one object".to_owned(),
        count => format!("{count} objects"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::analysis::INTERFERENCE_ANNOTATION;
    use crate::testing::RunBuilder;

    fn end(object: Value) -> CanonicalEnd {
        let mut run = RunBuilder::new();
        run.write("create", "configmaps", "a/x", Some(object));
        let run = run.finish();
        CanonicalEnd::of(&run, &Names::of(&run, &crate::analysis::RandomPrefixes::default()))
    }

    fn pointers(left: Value, right: Value) -> Vec<String> {
        let differences = end(left).differences(&end(right), &EndMask::default());
        differences.into_iter().map(|difference| difference.pointer).collect()
    }

    #[test]
    fn what_the_server_sets_does_not_count() {
        let left =
            json!({"metadata": {"generation": 1, "managedFields": [1]}, "status": {"observedGeneration": 1}});
        let right = json!({"metadata": {"generation": 4}, "status": {"observedGeneration": 4}});
        assert_eq!(pointers(left, right), Vec::<String>::new());
        let touched = json!({"metadata": {"annotations": {INTERFERENCE_ANNOTATION: "7"}}});
        assert_eq!(pointers(json!({}), touched), Vec::<String>::new());
    }

    #[test]
    fn a_status_about_an_older_spec_is_a_difference() {
        let object = |generation: u32, observed: u32| json!({"metadata": {"generation": generation}, "status": {"observedGeneration": observed}});
        assert_eq!(pointers(object(2, 2), object(3, 2)), ["/status/observedGeneration"]);
        assert_eq!(pointers(object(2, 1), object(5, 3)), Vec::<String>::new());
        let of_another = |observed: u32| json!({"status": {"parts": [{"observedGeneration": observed}]}});
        assert_eq!(pointers(of_another(1), of_another(2)), Vec::<String>::new());
    }

    #[test]
    fn an_object_of_the_start_that_was_changed_or_deleted_is_a_difference() {
        let mut run = RunBuilder::new();
        run.actor("setup", "create", "namespaces", "default", Some(json!({})));
        let mut run = run.finish();
        let end_of =
            |run: &Run| CanonicalEnd::of(run, &Names::of(run, &crate::analysis::RandomPrefixes::default()));
        let changed = end_of(&run);
        run.objects[0].is_initial = true;
        let kept = end_of(&run);
        run.objects.clear();
        let pointers = |found: &CanonicalEnd| -> Vec<String> {
            let differences = kept.differences(found, &EndMask::default()).into_iter();
            differences.map(|difference| difference.pointer).collect()
        };
        assert_eq!((pointers(&kept), pointers(&changed)), (vec![], vec!["/".to_owned()]));
        assert_eq!(pointers(&end_of(&run)), [""]);
    }

    #[test]
    fn times_and_copied_versions_do_not_count() {
        let left = json!({"at": "2026-01-01T00:00:00Z", "seconds": 1_767_225_600, "version": "101"});
        let right = json!({"at": "2026-01-01T00:07:00.5Z", "seconds": 1_767_226_020, "version": "101"});
        assert_eq!(pointers(left, right), Vec::<String>::new());
        assert_eq!(pointers(json!({"count": 3}), json!({"count": 4})), ["/count"]);
    }

    #[test]
    fn the_order_of_conditions_does_not_count_but_that_of_other_lists_does() {
        let conditions =
            |first: &str, second: &str| json!({"conditions": [{"type": first}, {"type": second}]});
        assert_eq!(pointers(conditions("A", "B"), conditions("B", "A")), Vec::<String>::new());
        assert_eq!(pointers(json!({"args": [1, 2]}), json!({"args": [2, 1]})), ["/args/0", "/args/1"]);
    }

    #[test]
    fn a_member_that_only_one_side_has_is_a_difference() {
        let differences = end(json!({"a/b": 1})).differences(&end(json!({})), &EndMask::default());
        assert_eq!((differences[0].pointer.as_str(), differences[0].found.as_str()), ("/a~1b", "nothing"));
    }
}
