//! Random changes of JSON values: members and items that are replaced, removed, repeated, renamed or added.

use arbitrary::{Result, Unstructured};
use serde_json::{Map, Value, json};

/// How deep a change can be.
const MAX_DEPTH: usize = 12;
/// Nesting around the limits of parsers.
const NESTING: [usize; 5] = [1, 30, 63, 126, 200];

/// Texts that some check of a field treats specially.
const TEXTS: &[&str] = &[
    "",
    "a",
    "b",
    "x",
    "-",
    "A",
    "ü",
    "\u{0}",
    "\u{202e}",
    "a/b",
    "example.com/f",
    "a.example.com",
    "0",
    "1",
    "-1",
    "100%",
    "-5%",
    "1Gi",
    "1e1000",
    "0.0000000001",
    "99999999999999999999",
    "TCP",
    "None",
    "Always",
    "Never",
    "ClusterIP",
    "ExternalName",
    "Headless",
    "default",
    "foregroundDeletion",
    "orphan",
    "kubernetes",
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00.000000Z",
    "9999-12-31T23:59:60+23:59",
    "@yearly",
    "* * * * *",
    "0 0 31 2 *",
    "TZ=Mars/X * * * * *",
    "Europe/Berlin",
    "self.x > 1",
    "object.spec.a.b[0]",
    "[1].map(x, [1])",
    "^(a+)+$",
    "(",
    "[",
    "192.0.2.1",
    "::1",
    "10.0.0.0/8",
    "::/129",
    "AAEC",
    "=",
    "$(A)",
    "app",
    "apps/v1",
    "v1",
    "*",
    "pods",
    "delete",
];

/// Names of members that some code treats specially.
const MEMBERS: &[&str] = &[
    "metadata",
    "spec",
    "status",
    "name",
    "namespace",
    "generateName",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "resourceVersion",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "apiVersion",
    "kind",
    "data",
    "replicas",
    "selector",
    "template",
    "containers",
    "ports",
    "clusterIP",
    "clusterIPs",
    "nodeName",
    "phase",
    "conditions",
    "items",
    "rules",
    "$patch",
    "$retainKeys",
    "$deleteFromPrimitiveList/finalizers",
    "$setElementOrder/containers",
    "$setElementOrder/ports",
    "",
    "a/b",
    "~1",
    "x",
    "type",
    "pattern",
    "default",
    "enum",
    "properties",
    "additionalProperties",
    "x-kubernetes-validations",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "oneOf",
    "not",
];

/// Changes a value up to three times.
pub(crate) fn mutate(value: &mut Value, bytes: &mut Unstructured<'_>) -> Result<()> {
    for _ in 0..bytes.int_in_range(0..=3)? {
        edit(descend(value, bytes)?, bytes)?;
    }
    Ok(())
}

/// Returns a random part of a value.
fn descend<'a>(value: &'a mut Value, bytes: &mut Unstructured<'_>) -> Result<&'a mut Value> {
    let mut current = value;
    for _ in 0..MAX_DEPTH {
        let count = match &*current {
            Value::Object(members) => members.len(),
            Value::Array(items) => items.len(),
            _ => 0,
        };
        if count == 0 || bytes.ratio(1, 5)? {
            break;
        }
        let index = bytes.choose_index(count)?;
        current = match current {
            Value::Object(members) => members.values_mut().nth(index).expect("below the count"),
            Value::Array(items) => &mut items[index],
            _ => unreachable!("only objects and arrays have parts"),
        };
    }
    Ok(current)
}

fn edit(value: &mut Value, bytes: &mut Unstructured<'_>) -> Result<()> {
    let kind = bytes.int_in_range(0..=6)?;
    match value {
        Value::Object(members) if kind < 5 => edit_object(members, kind, bytes)?,
        Value::Array(items) if kind < 5 => edit_array(items, kind, bytes)?,
        _ if kind == 6 => {
            *value = nested(value.take(), NESTING[bytes.choose_index(NESTING.len())?], bytes.arbitrary()?);
        }
        _ => *value = special(bytes)?,
    }
    Ok(())
}

fn edit_object(members: &mut Map<String, Value>, kind: u8, bytes: &mut Unstructured<'_>) -> Result<()> {
    let names: Vec<String> = members.keys().cloned().collect();
    let member = if names.is_empty() { "x" } else { bytes.choose(&names)?.as_str() };
    match kind {
        0 | 1 => drop(members.insert(member.to_owned(), special(bytes)?)),
        2 => drop(members.remove(member)),
        3 => drop(members.insert((*bytes.choose(MEMBERS)?).to_owned(), special(bytes)?)),
        _ => {
            let value = members.remove(member).unwrap_or_default();
            members.insert((*bytes.choose(MEMBERS)?).to_owned(), value);
        }
    }
    Ok(())
}

fn edit_array(items: &mut Vec<Value>, kind: u8, bytes: &mut Unstructured<'_>) -> Result<()> {
    if items.is_empty() {
        items.push(special(bytes)?);
        return Ok(());
    }
    let index = bytes.choose_index(items.len())?;
    match kind {
        0 => drop(items.remove(index)),
        1 => items.push(items[index].clone()),
        2 => items.insert(index, special(bytes)?),
        3 => items.reverse(),
        _ => {
            let times = bytes.int_in_range(2..=40)?;
            *items = vec![items[index].clone(); times];
        }
    }
    Ok(())
}

fn nested(value: Value, depth: usize, in_objects: bool) -> Value {
    (0..depth).fold(value, |value, _| if in_objects { json!({"x": value}) } else { json!([value]) })
}

/// Returns a value that some check treats specially.
pub(crate) fn special(bytes: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match bytes.int_in_range(0..=15)? {
        0 => Value::Null,
        1 => json!(bytes.arbitrary::<bool>()?),
        2 => json!(0),
        3 => json!(-1),
        4 => json!(*bytes.choose(&[i64::MIN, i64::MAX, i64::from(i32::MAX), i64::from(i32::MAX) + 1])?),
        5 => json!(*bytes.choose(&[1e308, -1e308, 0.5, 1e-320, 9_007_199_254_740_993.0])?),
        6 => json!(u64::MAX),
        7 => json!([]),
        8 => json!({}),
        9 => json!({(*bytes.choose(MEMBERS)?): *bytes.choose(TEXTS)?}),
        10 => json!([*bytes.choose(TEXTS)?, *bytes.choose(TEXTS)?]),
        11 => json!("x".repeat(bytes.int_in_range(1..=300)?)),
        12 => json!(bytes.arbitrary::<u8>()?),
        _ => json!(*bytes.choose(TEXTS)?),
    })
}

/// Returns a pointer to a random part of a value, or to one that does not exist.
pub(crate) fn pointer(value: &Value, bytes: &mut Unstructured<'_>) -> Result<String> {
    let (mut pointer, mut current) = (String::new(), value);
    for _ in 0..MAX_DEPTH {
        if bytes.ratio(1, 5)? {
            break;
        }
        let (token, next) = match current {
            Value::Object(members) if !members.is_empty() => {
                let (name, next) =
                    members.iter().nth(bytes.choose_index(members.len())?).expect("below the count");
                (name.replace('~', "~0").replace('/', "~1"), next)
            }
            Value::Array(items) if !items.is_empty() => {
                let index = bytes.choose_index(items.len())?;
                (index.to_string(), &items[index])
            }
            _ => break,
        };
        pointer = format!("{pointer}/{token}");
        current = next;
    }
    if bytes.ratio(1, 6)? {
        pointer.push_str(bytes.choose(&[
            "/-",
            "/x",
            "/",
            "/01",
            "/-1",
            "/99999999999999999999",
            "/~2",
            "/$patch",
        ])?);
    }
    Ok(pointer)
}
