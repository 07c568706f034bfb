//! Finds the restrictions that may match an object, by namespace, name and labels. Pure.

use std::hash::Hash;

use pilothouse_model::Object;
use pilothouse_model::hash::HashMap;
use pilothouse_model::selector::Operator;

use super::access::remove_from;
use crate::key::Restriction;

/// The most values of one label under which a restriction is filed.
const MAX_VALUES: usize = 16;

/// Where a restriction is filed: an object that it matches has one of these properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filing {
    /// Any object.
    Everywhere,
    Namespace(String),
    Name(String),
    /// One of these values of a label.
    LabelValues(String, Vec<String>),
    Label(String),
}

/// Items, such as classes of subscribers, by the properties under which their restrictions are filed.
#[derive(Default)]
pub(super) struct RestrictionLists {
    everywhere: Vec<usize>,
    namespaces: Lists<String>,
    names: Lists<String>,
    label_values: Lists<String, Lists<String>>,
    labels: Lists<String>,
}

type Lists<K, V = Vec<usize>> = HashMap<K, V>;

impl RestrictionLists {
    /// Files an item where the fewest others are. Returns where.
    pub(super) fn insert(&mut self, restriction: Option<&Restriction>, item: usize) -> Filing {
        let filings = restriction.map(filings).unwrap_or_default();
        let filing = filings.into_iter().min_by_key(|filing| self.len(filing)).unwrap_or(Filing::Everywhere);
        self.update(&filing, |list| list.push(item));
        filing
    }

    /// Removes an item that was filed there.
    pub(super) fn remove(&mut self, filing: &Filing, item: usize) {
        self.update(filing, |list| remove_from(list, item));
    }

    /// Returns the length of the longest list in which an item of this filing would be.
    fn len(&self, filing: &Filing) -> usize {
        let len = |list: Option<&Vec<usize>>| list.map_or(0, Vec::len);
        match filing {
            Filing::Everywhere => self.everywhere.len(),
            Filing::Namespace(namespace) => len(self.namespaces.get(namespace)),
            Filing::Name(name) => len(self.names.get(name)),
            Filing::LabelValues(key, values) => {
                let lists = self.label_values.get(key);
                values.iter().map(|value| len(lists.and_then(|lists| lists.get(value)))).max().unwrap_or(0)
            }
            Filing::Label(key) => len(self.labels.get(key)),
        }
    }

    fn update(&mut self, filing: &Filing, update: impl Fn(&mut Vec<usize>)) {
        match filing {
            Filing::Everywhere => update(&mut self.everywhere),
            Filing::Namespace(namespace) => update_list(&mut self.namespaces, namespace, update),
            Filing::Name(name) => update_list(&mut self.names, name, update),
            Filing::LabelValues(key, values) => {
                let lists = self.label_values.entry(key.clone()).or_default();
                values.iter().for_each(|value| update_list(lists, value, &update));
                if lists.is_empty() {
                    self.label_values.remove(key);
                }
            }
            Filing::Label(key) => update_list(&mut self.labels, key, update),
        }
    }

    /// Calls `visit` with the items whose restriction may match the object, and with some of them more than once.
    pub(super) fn visit(&self, object: &Object, mut visit: impl FnMut(usize)) {
        self.everywhere.iter().copied().for_each(&mut visit);
        let mut visit_list = |list: Option<&Vec<usize>>| {
            list.into_iter().flatten().copied().for_each(&mut visit);
        };
        if !self.namespaces.is_empty() {
            visit_list(self.namespaces.get(object.namespace()));
        }
        if !self.names.is_empty() {
            visit_list(self.names.get(object.name()));
        }
        if self.label_values.is_empty() && self.labels.is_empty() {
            return;
        }
        // Text that is decompressed for matching must not stay in memory with the object.
        for (key, value) in object.fresh_view().labels() {
            visit_list(self.labels.get(&*key));
            visit_list(self.label_values.get(&*key).and_then(|lists| lists.get(&*value)));
        }
    }

    /// Whether nothing is filed.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.everywhere.is_empty()
            && [&self.namespaces, &self.names, &self.labels].into_iter().all(HashMap::is_empty)
            && self.label_values.is_empty()
    }
}

fn update_list<K: Eq + Hash + Clone>(lists: &mut Lists<K>, key: &K, update: impl Fn(&mut Vec<usize>)) {
    let list = lists.entry(key.clone()).or_default();
    update(list);
    if list.is_empty() {
        lists.remove(key);
    }
}

/// Returns where a restriction may be filed.
fn filings(restriction: &Restriction) -> Vec<Filing> {
    let mut filings: Vec<Filing> = restriction.namespace.iter().cloned().map(Filing::Namespace).collect();
    let equalities =
        restriction.field_selector().requirements().iter().filter(|requirement| requirement.equal);
    filings.extend(equalities.filter_map(|requirement| match requirement.path.as_str() {
        "metadata.name" => Some(Filing::Name(requirement.value.clone())),
        "metadata.namespace" => Some(Filing::Namespace(requirement.value.clone())),
        _ => None,
    }));
    filings.extend(restriction.label_selector().requirements().iter().filter_map(|requirement| {
        let key = requirement.key.clone();
        match requirement.operator {
            Operator::In if requirement.values.len() <= MAX_VALUES => {
                Some(Filing::LabelValues(key, requirement.values.iter().cloned().collect()))
            }
            Operator::In | Operator::Exists | Operator::GreaterThan | Operator::LessThan => {
                Some(Filing::Label(key))
            }
            Operator::NotIn | Operator::DoesNotExist => None,
        }
    }));
    filings
}

#[cfg(test)]
mod tests {
    use pilothouse_model::{FieldSelector, LabelSelector};

    use super::*;
    use crate::key::InformerKey;
    use crate::scripted_server::{pod, pods_key};

    fn restriction(key: &InformerKey) -> Restriction {
        pods_key().restriction_for(key).expect("a narrower key")
    }

    fn labelled(selector: &str) -> InformerKey {
        pods_key().with_labels(LabelSelector::parse(selector).expect(selector))
    }

    #[test]
    fn a_restriction_is_filed_where_the_fewest_others_are() {
        let mut lists = RestrictionLists::default();
        let namespace = Filing::Namespace("ns".to_owned());
        let filed: Vec<_> = ["web", "db", "db"]
            .into_iter()
            .enumerate()
            .map(|(item, app)| {
                let key = labelled(&format!("app={app}")).in_namespace("ns");
                lists.insert(Some(&restriction(&key)), item)
            })
            .collect();
        let label = |app: &str| Filing::LabelValues("app".to_owned(), vec![app.to_owned()]);
        assert_eq!(filed, [namespace.clone(), label("db"), namespace]);
        let fields = FieldSelector::parse("metadata.name=a,metadata.namespace=ns").expect("fields");
        let named = restriction(&pods_key().with_fields(fields));
        assert_eq!(lists.insert(Some(&named), 3), Filing::Name("a".to_owned()));
        assert_eq!(lists.insert(None, 4), Filing::Everywhere);
        filed.iter().enumerate().for_each(|(item, filing)| lists.remove(filing, item));
        lists.remove(&Filing::Name("a".to_owned()), 3);
        lists.remove(&Filing::Everywhere, 4);
        assert!(lists.is_empty());
    }

    #[test]
    fn every_restriction_that_matches_is_visited() {
        let keys = [
            labelled("app=web"),
            labelled("app in (web,db)"),
            labelled("app!=db"),
            labelled("app"),
            labelled("!tier"),
            labelled("app,app!=web"),
            pods_key().in_namespace("ns"),
            pods_key().in_namespace("other"),
            pods_key().with_fields(FieldSelector::parse("metadata.name!=a").expect("fields")),
            pods_key().with_fields(FieldSelector::parse("metadata.name=a").expect("fields")),
        ];
        let restrictions: Vec<_> = keys.iter().map(restriction).collect();
        let mut lists = RestrictionLists::default();
        restrictions.iter().enumerate().for_each(|(item, found)| drop(lists.insert(Some(found), item)));
        for object in [pod("a", 1), pod("b", 1).app("db"), pod("c", 1).namespace("other")] {
            let object = object.object();
            let mut visited = Vec::new();
            lists.visit(&object, |item| visited.push(item));
            for (item, restriction) in restrictions.iter().enumerate() {
                assert!(!restriction.matches(&object) || visited.contains(&item), "{}", keys[item]);
            }
        }
    }
}
