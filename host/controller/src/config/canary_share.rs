//! The member `rollout.canary` of a sidecar: which keys a new version reconciles while the running one keeps the others.

use pilothouse_model::ObjectKey;
use pilothouse_model::names::is_dns_label;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::stable_hash::{self, fnv1a};

/// The maximum number of namespaces in a share.
const MAX_NAMESPACES: usize = 100;

/// The keys that a canary reconciles. Whether a key is among them depends on nothing but the key and this value, so each key has exactly one
/// version at any time.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "CanaryMembers")]
pub enum CanaryShare {
    /// The keys in these namespaces, which are sorted.
    Namespaces(Vec<String>),
    /// About this percentage of the namespaces, and of the names of cluster-scoped objects.
    Percent(u8),
}

/// The keys that a new version reconciles: those of some namespaces, or a percentage.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CanaryMembers {
    /// The namespaces whose keys it reconciles.
    #[serde(default)]
    namespaces: Option<Vec<String>>,
    /// The percentage of the namespaces, and of the cluster-scoped objects, that it reconciles, from 1 to 100. Each
    /// is chosen by a hash of its name, and remains chosen if the percentage is raised.
    #[serde(default)]
    #[schemars(with = "Option<u8>", range(min = 1, max = 100))]
    percent: Option<i128>,
}

/// Error for a share that cannot be that of a canary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CanaryError {
    /// Neither namespaces nor a percentage, or both.
    #[error("rollout.canary: write either namespaces: [NAME] or percent: 10")]
    NotOne,
    /// A percentage out of range.
    #[error(
        "rollout.canary.percent: {0} is not between 1 and 100; leave canary out to replace the running version at once"
    )]
    Percent(i128),
    /// No namespace, or too many.
    #[error("rollout.canary.namespaces: there are {0} namespaces, and a canary has 1 to {max}", max = MAX_NAMESPACES)]
    Count(usize),
    /// A text that is not the name of a namespace.
    #[error("rollout.canary.namespaces: {0:?} is not the name of a namespace; write a whole name")]
    Namespace(String),
}

impl TryFrom<CanaryMembers> for CanaryShare {
    type Error = CanaryError;

    fn try_from(members: CanaryMembers) -> Result<Self, CanaryError> {
        match (members.namespaces, members.percent) {
            // A number that does not fit into the type is refused with the same range as any other.
            (None, Some(percent)) => match u8::try_from(percent) {
                Ok(percent @ 1..=100) => Ok(Self::Percent(percent)),
                _ => Err(CanaryError::Percent(percent)),
            },
            (Some(mut names), None) => {
                if !(1..=MAX_NAMESPACES).contains(&names.len()) {
                    return Err(CanaryError::Count(names.len()));
                }
                if let Some(wrong) = names.iter().find(|name| !is_dns_label(name)) {
                    return Err(CanaryError::Namespace(wrong.chars().take(100).collect()));
                }
                names.sort_unstable();
                names.dedup();
                Ok(Self::Namespaces(names))
            }
            _ => Err(CanaryError::NotOne),
        }
    }
}

impl CanaryShare {
    /// Whether the canary reconciles the key. A cluster-scoped object is in no namespace.
    #[must_use]
    pub fn includes(&self, key: &ObjectKey) -> bool {
        match self {
            Self::Namespaces(names) => {
                names.binary_search_by(|name| name.as_str().cmp(key.namespace())).is_ok()
            }
            Self::Percent(percent) => bucket(key) < u64::from(*percent),
        }
    }
}

impl std::fmt::Display for CanaryShare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Namespaces(names) if names.len() > 3 => {
                write!(f, "{} and {} more namespaces", names[..3].join(", "), names.len() - 3)
            }
            Self::Namespaces(names) if names.len() > 1 => write!(f, "the namespaces {}", names.join(", ")),
            Self::Namespaces(names) => write!(f, "the namespace {}", names.join(", ")),
            Self::Percent(percent) => write!(f, "{percent} % of the namespaces"),
        }
    }
}

/// Returns a number from 0 to 99. It is the same for all keys of a namespace, and for the Namespace itself, so that an object and its owner
/// have the same version. It is also the same in each process and release, so a restart does not move keys.
fn bucket(key: &ObjectKey) -> u64 {
    let text = if key.namespace().is_empty() { key.name() } else { key.namespace() };
    fnv1a(stable_hash::EMPTY, text.as_bytes()) % 100
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(namespaces: Option<&[&str]>, percent: Option<i128>) -> Result<CanaryShare, String> {
        let namespaces = namespaces.map(|names| names.iter().map(ToString::to_string).collect());
        CanaryShare::try_from(CanaryMembers { namespaces, percent }).map_err(|error| error.to_string())
    }

    #[test]
    fn a_share_is_either_namespaces_or_a_percentage() {
        assert_eq!(parsed(None, Some(1)), Ok(CanaryShare::Percent(1)));
        assert_eq!(parsed(None, Some(100)), Ok(CanaryShare::Percent(100)));
        let names = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(parsed(Some(&["b", "a", "b"]), None), Ok(CanaryShare::Namespaces(names)));
        let many = vec!["a"; MAX_NAMESPACES + 1];
        let long = "x".repeat(1 << 20);
        for (namespaces, percent, problem) in [
            (None, None, "write either namespaces"),
            (Some(&["a"][..]), Some(1), "write either namespaces"),
            (None, Some(0), "0 is not between 1 and 100"),
            (None, Some(101), "101 is not between 1 and 100"),
            (None, Some(-1), "-1 is not between 1 and 100"),
            (None, Some(1000), "1000 is not between 1 and 100"),
            (Some(&[][..]), None, "there are 0 namespaces"),
            (Some(&many[..]), None, "there are 101 namespaces"),
            (Some(&["a/b"][..]), None, "\"a/b\" is not the name of a namespace"),
            (Some(&["*"][..]), None, "\"*\" is not the name of a namespace"),
            (Some(&[long.as_str()][..]), None, "is not the name of a namespace"),
        ] {
            let error = parsed(namespaces, percent).expect_err(problem);
            assert!(error.starts_with("rollout.canary") && error.contains(problem), "{error}");
            assert!(error.len() < 300, "only a part of a long text is repeated");
        }
    }

    #[test]
    fn namespaces_do_not_include_cluster_scoped_objects() {
        let share = CanaryShare::Namespaces(vec!["shop".to_owned(), "test".to_owned()]);
        assert!(share.includes(&ObjectKey::new("shop", "a")) && share.includes(&ObjectKey::new("test", "b")));
        assert!(!share.includes(&ObjectKey::new("other", "shop")));
        assert!(!share.includes(&ObjectKey::cluster("shop")));
    }

    #[test]
    fn a_share_is_shown_in_words() {
        let namespaces =
            |names: &[&str]| CanaryShare::Namespaces(names.iter().map(ToString::to_string).collect());
        assert_eq!(CanaryShare::Percent(10).to_string(), "10 % of the namespaces");
        assert_eq!(namespaces(&["a"]).to_string(), "the namespace a");
        assert_eq!(namespaces(&["a", "b"]).to_string(), "the namespaces a, b");
        assert_eq!(namespaces(&["a", "b", "c", "d", "e"]).to_string(), "a, b, c and 2 more namespaces");
    }

    #[test]
    fn a_percentage_is_about_that_of_the_namespaces() {
        for percent in [1_u8, 10, 50, 90] {
            let share = CanaryShare::Percent(percent);
            let included =
                (0..10_000).filter(|n| share.includes(&ObjectKey::new(&format!("team-{n}"), "a"))).count();
            let expected = usize::from(percent) * 100;
            assert!(included.abs_diff(expected) < 300, "{percent} %: {included} of 10000");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_keys_of_a_namespace_stay_together_and_a_raised_percentage_keeps_its_keys(
            namespace in "[a-z]{1,8}", names in proptest::collection::vec("[a-z]{1,8}", 2), low in 1_u8..=100, high in 1_u8..=100,
        ) {
            let (low, high) = (low.min(high), low.max(high));
            let [first, second] = [0, 1].map(|position| ObjectKey::new(&namespace, &names[position]));
            let owner = ObjectKey::cluster(&namespace);
            let [small, large] = [low, high].map(CanaryShare::Percent);
            prop_assert_eq!(small.includes(&first), small.includes(&second));
            prop_assert_eq!(small.includes(&first), small.includes(&owner), "the Namespace is reconciled by the same version");
            prop_assert!(!small.includes(&first) || large.includes(&first));
            prop_assert!(CanaryShare::Percent(100).includes(&first));
        }
    }
}
