//! Finds the restrictions that may match an object, by namespace, name and labels. Pure.

use std::hash::Hash;

use pilothouse_model::Object;
use pilothouse_model::hash::HashMap;
use pilothouse_model::selector::Operator;

use super::condition_index::remove_from;
use crate::key::Restriction;

/// The most values of one label by which a restriction is indexed.
const MAX_VALUES: usize = 16;

/// The key of a restriction: an object that it matches has one of these properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RestrictionKey {
    /// Any object.
    Everywhere,
    Namespace(String),
    Name(String),
    /// One of these values of a label.
    LabelValues(String, Vec<String>),
    Label(String),
}

/// Items, such as classes of subscribers, by the properties by which their restrictions are indexed.
#[derive(Default)]
pub(super) struct RestrictionIndex {
    everywhere: Vec<usize>,
    namespaces: Lists<String>,
    names: Lists<String>,
    label_values: Lists<String, Lists<String>>,
    labels: Lists<String>,
}

type Lists<K, V = Vec<usize>> = HashMap<K, V>;

impl RestrictionIndex {
    /// Files an item where the fewest others are. Returns where.
    pub(super) fn insert(&mut self, restriction: Option<&Restriction>, item: usize) -> RestrictionKey {
        let keys = restriction.map(keys_of).unwrap_or_default();
        let key = keys.into_iter().min_by_key(|key| self.len(key)).unwrap_or(RestrictionKey::Everywhere);
        self.update(&key, |list| list.push(item));
        key
    }

    /// Removes an item with these keys.
    pub(super) fn remove(&mut self, key: &RestrictionKey, item: usize) {
        self.update(key, |list| remove_from(list, item));
    }

    /// Returns the length of the longest list in which an item of this key would be.
    fn len(&self, key: &RestrictionKey) -> usize {
        let len = |list: Option<&Vec<usize>>| list.map_or(0, Vec::len);
        match key {
            RestrictionKey::Everywhere => self.everywhere.len(),
            RestrictionKey::Namespace(namespace) => len(self.namespaces.get(namespace)),
            RestrictionKey::Name(name) => len(self.names.get(name)),
            RestrictionKey::LabelValues(key, values) => {
                let lists = self.label_values.get(key);
                values.iter().map(|value| len(lists.and_then(|lists| lists.get(value)))).max().unwrap_or(0)
            }
            RestrictionKey::Label(key) => len(self.labels.get(key)),
        }
    }

    fn update(&mut self, key: &RestrictionKey, update: impl Fn(&mut Vec<usize>)) {
        match key {
            RestrictionKey::Everywhere => update(&mut self.everywhere),
            RestrictionKey::Namespace(namespace) => update_list(&mut self.namespaces, namespace, update),
            RestrictionKey::Name(name) => update_list(&mut self.names, name, update),
            RestrictionKey::LabelValues(key, values) => {
                let lists = self.label_values.entry(key.clone()).or_default();
                values.iter().for_each(|value| update_list(lists, value, &update));
                if lists.is_empty() {
                    self.label_values.remove(key);
                }
            }
            RestrictionKey::Label(key) => update_list(&mut self.labels, key, update),
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

    /// Whether there is no item.
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

/// Returns the possible keys of a restriction.
fn keys_of(restriction: &Restriction) -> Vec<RestrictionKey> {
    let mut keys: Vec<RestrictionKey> =
        restriction.namespace.iter().cloned().map(RestrictionKey::Namespace).collect();
    let equalities =
        restriction.field_selector().requirements().iter().filter(|requirement| requirement.equal);
    keys.extend(equalities.filter_map(|requirement| match requirement.path.as_str() {
        "metadata.name" => Some(RestrictionKey::Name(requirement.value.clone())),
        "metadata.namespace" => Some(RestrictionKey::Namespace(requirement.value.clone())),
        _ => None,
    }));
    keys.extend(restriction.label_selector().requirements().iter().filter_map(|requirement| {
        let key = requirement.key.clone();
        match requirement.operator {
            Operator::In if requirement.values.len() <= MAX_VALUES => {
                Some(RestrictionKey::LabelValues(key, requirement.values.iter().cloned().collect()))
            }
            Operator::In | Operator::Exists | Operator::GreaterThan | Operator::LessThan => {
                Some(RestrictionKey::Label(key))
            }
            Operator::NotIn | Operator::DoesNotExist => None,
        }
    }));
    keys
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
    fn a_restriction_is_indexed_where_the_fewest_others_are() {
        let mut lists = RestrictionIndex::default();
        let namespace = RestrictionKey::Namespace("ns".to_owned());
        let indexed: Vec<_> = ["web", "db", "db"]
            .into_iter()
            .enumerate()
            .map(|(item, app)| {
                let key = labelled(&format!("app={app}")).in_namespace("ns");
                lists.insert(Some(&restriction(&key)), item)
            })
            .collect();
        let label = |app: &str| RestrictionKey::LabelValues("app".to_owned(), vec![app.to_owned()]);
        assert_eq!(indexed, [namespace.clone(), label("db"), namespace]);
        let fields = FieldSelector::parse("metadata.name=a,metadata.namespace=ns").expect("fields");
        let named = restriction(&pods_key().with_fields(fields));
        assert_eq!(lists.insert(Some(&named), 3), RestrictionKey::Name("a".to_owned()));
        assert_eq!(lists.insert(None, 4), RestrictionKey::Everywhere);
        indexed.iter().enumerate().for_each(|(item, key)| lists.remove(key, item));
        lists.remove(&RestrictionKey::Name("a".to_owned()), 3);
        lists.remove(&RestrictionKey::Everywhere, 4);
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
        let mut lists = RestrictionIndex::default();
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
