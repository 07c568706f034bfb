//! The canonical form of an object and of a run's end. UIDs, versions, times and generated names are replaced, so that
//! the ends of two runs that differ in nothing else are equal.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{INTERFERENCE_ANNOTATION, Names, ObjectId, is_record, metadata};
use crate::run::{RequestEvent, Run};

/// The members of `metadata` that the server sets anew for each object.
const VOLATILE_METADATA: [&str; 7] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "generation",
    "selfLink",
    "deletionGracePeriodSeconds",
];
/// The member of a status that says which spec it is about, and what stands for its value.
const OBSERVED_GENERATION: &str = "observedGeneration";
const GENERATION: &str = "<generation>";
/// Numbers in this range are taken for seconds since 1970, and a thousand times larger ones for milliseconds.
const EPOCH_SECONDS: std::ops::RangeInclusive<u64> = 1_000_000_000..=4_000_000_000;
/// Numbers in this range, if they have eight digits in a name, are taken for minutes since 1970: CronJobs name their Jobs so.
const EPOCH_MINUTES: std::ops::RangeInclusive<u64> = 20_000_000..=60_000_000;
/// The number of differences of one object that are listed.
const MAX_DIFFERENCES: usize = 20;
/// Stands for the content of an object with which the server began, and which nobody has changed: it is the same in all runs.
const INITIAL: &str = "as at the start";
/// How deep values are compared. Kubernetes accepts less.
const MAX_DEPTH: usize = 200;

/// Returns the canonical form of an object.
#[must_use]
pub fn canonical_object(object: &Value, names: &Names) -> Value {
    let Value::Object(members) = object else { return canonical(object, names, 0) };
    let mut value = canonical_members(members, names, 0, &[]);
    if let Some(Value::Object(metadata)) = members.get("metadata") {
        // Most of an object's metadata are its managed fields, so what is left out is not brought into canonical form before.
        let mut metadata = canonical_members(metadata, names, 1, &VOLATILE_METADATA);
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(INTERFERENCE_ANNOTATION);
        }
        let is_empty = |member: &Value| member.as_object().is_some_and(Map::is_empty);
        metadata.retain(|name, member| name != "annotations" || !is_empty(member));
        value.insert("metadata".to_owned(), Value::Object(metadata));
    }
    if let Some(Value::Object(status)) = value.get_mut("status")
        && let Some(observed) = observed_generation(object)
    {
        status.insert(OBSERVED_GENERATION.to_owned(), Value::from(observed));
    }
    Value::Object(value)
}

/// Returns how the generation in the object's status relates to its own. The numbers depend on how often the spec was changed, but whether the
/// status is about the latest spec does not. `None` if the object lacks either number. Elsewhere in an object, such a number may be about another object.
fn observed_generation(object: &Value) -> Option<&'static str> {
    let observed = object["status"][OBSERVED_GENERATION].as_i64()?;
    Some(match observed.cmp(&object["metadata"]["generation"].as_i64()?) {
        Ordering::Less => "<an older generation>",
        Ordering::Equal => GENERATION,
        Ordering::Greater => "<a later generation>",
    })
}

/// Whether a name contains a number that is probably a time: seconds, milliseconds or minutes since 1970. How many objects of such names there are
/// depends on how long a run takes.
#[must_use]
pub fn names_a_time(name: &str) -> bool {
    let numbers = name.split(|character: char| !character.is_ascii_digit());
    numbers.filter_map(|digits| digits.parse::<u64>().ok()).any(|number| {
        EPOCH_SECONDS.contains(&number)
            || EPOCH_SECONDS.contains(&(number / 1000))
            || EPOCH_MINUTES.contains(&number)
    })
}

/// Whether a write changed nothing in an object that exists but times and what the server sets.
#[must_use]
pub fn changes_only_times(write: &RequestEvent) -> bool {
    let names = Names::default();
    match (&write.before, &write.after) {
        (Some(before), Some(after)) => canonical_object(before, &names) == canonical_object(after, &names),
        _ => false,
    }
}

fn canonical(value: &Value, names: &Names, depth: usize) -> Value {
    match value {
        _ if depth > MAX_DEPTH => Value::Null,
        Value::String(text) if is_time(text) => Value::from("<time>"),
        Value::String(text) => Value::from(names.replace(text)),
        Value::Array(items) => items.iter().map(|item| canonical(item, names, depth + 1)).collect(),
        Value::Object(members) => Value::Object(canonical_members(members, names, depth, &[])),
        value => value.clone(),
    }
}

/// Returns the canonical form of the members, without those in `left_out`. At depth 0, `metadata` is left out, too.
fn canonical_members(
    members: &Map<String, Value>,
    names: &Names,
    depth: usize,
    left_out: &[&str],
) -> Map<String, Value> {
    let is_left_out = |name: &str, member: &Value| {
        left_out.contains(&name) || (depth == 0 && name == "metadata" && member.is_object())
    };
    members
        .iter()
        .filter(|(name, member)| !is_left_out(name, member))
        .map(|(name, member)| {
            let mut canonical = match name.as_str() {
                OBSERVED_GENERATION => Value::from(GENERATION),
                _ => canonical(member, names, depth + 1),
            };
            if matches!(name.as_str(), "finalizers" | "ownerReferences" | "conditions")
                && let Value::Array(items) = &mut canonical
            {
                items.sort_by_cached_key(Value::to_string);
            }
            (names.replace(name), canonical)
        })
        .collect()
}

/// Whether the text is a time in the format of RFC 3339.
pub(crate) fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let has = |index: usize, byte: u8| bytes.get(index) == Some(&byte);
    (20..=40).contains(&bytes.len())
        && [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')].iter().all(|(index, byte)| has(*index, *byte))
        && (has(10, b'T') || has(10, b' '))
        && bytes[..4].iter().all(u8::is_ascii_digit)
}

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
        let is_terminating = |object: &Value| object.pointer("/metadata/deletionTimestamp").is_some();
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

/// Returns the pointer of the first difference between two canonical values, and what is there on either side. `versions` are the resource
/// versions of either run, which do not count.
pub(crate) fn first_difference(
    left: &Value,
    right: &Value,
    versions: [&BTreeSet<String>; 2],
) -> Option<(String, String, String)> {
    let mut comparison = Comparison { left: versions[0], right: versions[1], found: Vec::new() };
    comparison.compare(left, right, &mut String::new(), 0);
    comparison.found.into_iter().next()
}

/// A comparison of two canonical values.
struct Comparison<'a> {
    left: &'a BTreeSet<String>,
    right: &'a BTreeSet<String>,
    /// Pointers, and both values.
    found: Vec<(String, String, String)>,
}

impl Comparison<'_> {
    fn compare(&mut self, left: &Value, right: &Value, pointer: &mut String, depth: usize) {
        if self.found.len() >= MAX_DIFFERENCES || depth > MAX_DEPTH || self.is_equal_leaf(left, right) {
            return;
        }
        let length = pointer.len();
        match (left, right) {
            (Value::Object(left), Value::Object(right)) => {
                let names: BTreeSet<_> = left.keys().chain(right.keys()).collect();
                for name in names {
                    let (left, right) = (left.get(name), right.get(name));
                    if left == right {
                        continue;
                    }
                    pointer.push('/');
                    pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                    match (left, right) {
                        (Some(left), Some(right)) => self.compare(left, right, pointer, depth + 1),
                        (left, right) => self.add(pointer, left, right),
                    }
                    pointer.truncate(length);
                }
            }
            (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
                for (index, (left, right)) in left.iter().zip(right).enumerate() {
                    pointer.push_str(&format!("/{index}"));
                    self.compare(left, right, pointer, depth + 1);
                    pointer.truncate(length);
                }
            }
            _ => self.add(pointer, Some(left), Some(right)),
        }
    }

    fn add(&mut self, pointer: &str, left: Option<&Value>, right: Option<&Value>) {
        let text = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), short_text);
        let pointer = if pointer.is_empty() { "/" } else { pointer };
        self.found.push((pointer.to_owned(), text(left), text(right)));
    }

    /// Whether two values are equal, or stand for a version or a time in both runs.
    fn is_equal_leaf(&self, left: &Value, right: &Value) -> bool {
        match (left, right) {
            (Value::String(a), Value::String(b)) => {
                a == b || (self.left.contains(a.as_str()) && self.right.contains(b.as_str()))
            }
            (Value::Number(a), Value::Number(b)) => {
                let is_time = |number: &serde_json::Number| {
                    number.as_u64().is_some_and(|number| {
                        EPOCH_SECONDS.contains(&number) || EPOCH_SECONDS.contains(&(number / 1000))
                    })
                };
                a == b || (is_time(a) && is_time(b))
            }
            (left, right) => left == right,
        }
    }
}

/// Returns the value as JSON, shortened to some 80 characters.
pub(crate) fn short_text(value: &Value) -> String {
    const MAX: usize = 80;
    let text = value.to_string();
    if text.chars().count() <= MAX {
        return text;
    }
    text.chars().take(MAX).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
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

    #[test]
    fn a_name_with_a_number_of_seconds_or_minutes_names_a_time() {
        for (name, expected) in [
            ("report-1767226052", true),
            ("report-1767226052123", true),
            ("report-29453760", true),
            ("report-2945", false),
            ("web-7d9c5", false),
            ("report-99999999999999999999999", false),
        ] {
            assert_eq!(names_a_time(name), expected, "{name}");
        }
    }
}
