//! Which changes of labels, annotations and the deletion timestamp are accepted as changes of the stored version, and that the result is the
//! same as without the stored version.

use super::version_diff::is_accepted;
use crate::Transform;

/// A text in which `{deletion}`, `{labels}`, `{annotations}` and `{others}` are placeholders of members.
const TEXT: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","generateName":"a-","namespace":"n","uid":"u","resourceVersion":"9","generation":4,"creationTimestamp":"t"{deletion}{labels}{annotations}{others},"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"o","uid":"v"}],"managedFields":[{"f:spec":{}}]},"spec":{"a":[1,"two"],"b":8},"status":{"phase":"Running"}}"#;

/// Returns the text with these members. They have a comma before each.
fn text(members: [&str; 4]) -> String {
    let names = ["{deletion}", "{labels}", "{annotations}", "{others}"];
    names.into_iter().zip(members).fold(TEXT.to_owned(), |text, (name, member)| text.replace(name, member))
}

fn accepts(known: [&str; 4], new: [&str; 4]) -> bool {
    let (known, new) = (text(known), text(new).replace("\"9\"", "\"1234\"").replace("Running", "Failed"));
    let with_rest = is_accepted(&known, &format!("{new} and more"), &Transform::standard());
    assert_eq!(is_accepted(&known, &new, &Transform::standard()), with_rest, "{known} and {new}");
    assert_eq!(is_accepted(&known, &new, &Transform::default()), with_rest, "{known} and {new}");
    with_rest
}

const DELETED: &str = r#","deletionTimestamp":"d","deletionGracePeriodSeconds":30"#;
const LABELS: &str = r#","labels":{"x":"y","é":"è"}"#;
const ANNOTATIONS: &str = r#","annotations":{"p":"q\"","uid":"r"}"#;
const OTHERS: &str = r#","finalizers":["f"]"#;

#[test]
fn labels_and_annotations_of_other_names_are_accepted() {
    let labels = [
        "{}",
        r#"{"x":"y"}"#,
        r#"{"é":"è"}"#,
        r#"{"x":"y","é":"è"}"#,
        r#"{"x":"y","é":"é","z":""}"#,
        r#"{"x":"y","ê":"è"}"#,
        r#"{"a":"\u00e9\"","x":"y","é":"è"}"#,
        r#"{"é":"è","x":"y"}"#,
        r#"{"xx":"y","é":"è"}"#,
    ];
    for known in labels {
        for new in labels {
            for others in ["", OTHERS] {
                let [known, new] = [known, new].map(|labels| format!(",\"labels\":{labels}"));
                assert!(accepts(["", &known, "", others], ["", &new, "", others]), "{known} and {new}");
                let [known_notes, new_notes] = [&known, &new].map(|map| map.replace("labels", "annotations"));
                let (known, new) = (["", LABELS, &known_notes, others], ["", &new, &new_notes, others]);
                assert!(accepts(known, new), "{known:?} and {new:?}");
            }
        }
    }
}

#[test]
fn annotations_may_come_and_go_after_the_labels() {
    for others in ["", OTHERS] {
        for deletion in ["", DELETED] {
            for labels in [LABELS, r#","labels":{}"#] {
                let (without, with) =
                    ([deletion, labels, "", others], [deletion, labels, ANNOTATIONS, others]);
                assert!(accepts(without, with) && accepts(with, without));
                assert!(accepts(without, [deletion, LABELS, r#","annotations":{}"#, others]));
            }
        }
    }
}

#[test]
fn a_deletion_may_be_added_before_the_labels() {
    let without_period = r#","deletionTimestamp":"d""#;
    for deletion in
        [DELETED, without_period, r#","deletionTimestamp":"","deletionGracePeriodSeconds":{"a":[]}"#]
    {
        for annotations in ["", ANNOTATIONS] {
            let known = ["", LABELS, annotations, OTHERS];
            assert!(accepts(known, [deletion, LABELS, annotations, OTHERS]), "{deletion}");
            assert!(accepts(known, [deletion, r#","labels":{"z":""}"#, ANNOTATIONS, OTHERS]), "{deletion}");
        }
    }
}

#[test]
fn other_members_that_come_or_go_are_left_to_the_parser() {
    let known = ["", LABELS, ANNOTATIONS, OTHERS];
    let repeated = [LABELS, ANNOTATIONS].concat();
    for new in [
        ["", "", ANNOTATIONS, OTHERS],
        ["", LABELS, ANNOTATIONS, ""],
        ["", LABELS, ANNOTATIONS, r#","finalizers":["f","g"]"#],
        ["", LABELS, "", ANNOTATIONS],
        ["", LABELS, OTHERS, ANNOTATIONS],
        ["", ANNOTATIONS, LABELS, OTHERS],
        ["", LABELS, &repeated, OTHERS],
        [r#","deletionGracePeriodSeconds":30"#, LABELS, ANNOTATIONS, OTHERS],
        ["", LABELS, DELETED, ANNOTATIONS],
        [r#","more":1"#, LABELS, ANNOTATIONS, OTHERS],
    ] {
        assert!(!accepts(known, new), "{new:?}");
    }
    assert!(!accepts([DELETED, LABELS, "", ""], ["", LABELS, "", ""]), "a deletion that is gone");
    assert!(!accepts(["", "", "", ""], ["", LABELS, "", ""]), "new labels");
}

#[test]
fn values_that_are_no_maps_of_strings_are_left_to_the_parser() {
    for map in [
        "null",
        "{",
        "[]",
        r#""x""#,
        r#"{"x":1}"#,
        r#"{"x":null}"#,
        r#"{"x":"y",}"#,
        r#"{"x":"y" "z":""}"#,
        r#"{"x":"y","x":"y"}"#,
        r#"{"x":"\x"}"#,
        r#"{"\u0078":"y"}"#,
    ] {
        let labels = format!(",\"labels\":{map}");
        assert!(!accepts(["", LABELS, "", ""], ["", &labels, "", ""]), "{map}");
        let annotations = format!(",\"annotations\":{map}");
        assert!(!accepts(["", LABELS, ANNOTATIONS, ""], ["", LABELS, &annotations, ""]), "{map}");
        assert!(!accepts(["", LABELS, "", ""], ["", LABELS, &annotations, ""]), "{map}");
    }
    for deletion in [
        r#","deletionTimestamp":null"#,
        r#","deletionTimestamp":"\u0031""#,
        r#","deletionTimestamp":1"#,
        r#","deletionTimestamp":"d","deletionGracePeriodSeconds":01"#,
        r#","deletionTimestamp":"d","deletionTimestamp":"d""#,
    ] {
        assert!(!accepts(["", LABELS, "", ""], [deletion, LABELS, "", ""]), "{deletion}");
    }
}

#[test]
fn a_member_that_the_stored_version_may_have_is_not_added() {
    for other in [r#","annotations":null"#, r#","\u0061nnotations":null"#] {
        assert!(!accepts(["", LABELS, "", other], ["", LABELS, ANNOTATIONS, other]), "{other}");
    }
    for other in [r#","deletionTimestamp":null"#, r#","deletionGracePeriodSeconds":3"#, r#","x":"\u0064""#] {
        assert!(!accepts(["", LABELS, "", other], [DELETED, LABELS, "", other]), "{other}");
    }
}
