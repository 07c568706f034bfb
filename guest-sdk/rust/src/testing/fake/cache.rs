//! Reads of the watches' objects.

use serde_json::Value;

use super::super::cluster::{Selection, key_of};
use super::super::select::{self, LabelSelector};
use super::{FakeHost, names_of, page_size};
use crate::host::cache::Filter;
use crate::host::objects;
use crate::{Object, ObjectKey};

impl FakeHost {
    /// Returns the objects of a watch that match, sorted by key.
    fn watched(&self, name: &str, namespace: &str, labels: &str) -> Vec<Value> {
        let watch = self.watch(name);
        let text = |field: &str| watch[field].as_str().unwrap_or_default();
        let matching = parse_labels(labels);
        let selection = Selection {
            api_version: text("apiVersion"),
            kind: text("kind"),
            namespace,
            labels: parse_labels(text("labelSelector")),
            fields: text("fieldSelector"),
        };
        let mut found = self.cluster.borrow().select(&selection);
        let namespaces = watch["namespaces"].as_array();
        found.retain(|object| {
            let namespace = &object["metadata"]["namespace"];
            namespaces.is_none_or(|all| all.contains(namespace)) && matching.matches(object)
        });
        if watch["projection"] == "metadata" {
            for object in found.iter_mut().filter_map(Value::as_object_mut) {
                object.retain(|name, _| ["apiVersion", "kind", "metadata"].contains(&name.as_str()));
            }
        }
        found
    }

    pub(crate) fn cache_get(&self, watch: &str, key: &ObjectKey) -> Option<objects::Object> {
        let found = self.watched(watch, &key.namespace, "").into_iter().find(|object| key_of(object) == *key);
        found.map(objects::Object::new)
    }

    pub(crate) fn cache_list(&self, watch: &str, filter: &Filter) -> (Vec<objects::Object>, String) {
        let found = self.watched(watch, &filter.namespace, &filter.label_selector);
        let (page, next) = select::page(found, page_size(filter.limit), &filter.cursor);
        (page.into_iter().map(objects::Object::new).collect(), next)
    }

    /// Like `cache_list`, where a limit of 0 means all objects.
    pub(crate) fn cache_list_all(&self, watch: &str, filter: &Filter) -> Vec<objects::Object> {
        let found = self.watched(watch, &filter.namespace, &filter.label_selector);
        let limit = match filter.limit {
            0 => found.len(),
            limit => limit as usize,
        };
        select::page(found, limit, &filter.cursor).0.into_iter().map(objects::Object::new).collect()
    }

    pub(crate) fn cache_by_index(&self, watch: &str, index: &str, value: &str) -> Vec<objects::Object> {
        let index = self.index(watch, index);
        let mut found = self.watched(watch, "", "");
        found.retain(|object| self.values(index, object).iter().any(|found| found == value));
        found.into_iter().map(objects::Object::new).collect()
    }

    pub(crate) fn cache_index_values(&self, watch: &str, index: &str) -> Vec<String> {
        let index = self.index(watch, index);
        let found = self.watched(watch, "", "");
        let mut values: Vec<_> = found.iter().flat_map(|object| self.values(index, object)).collect();
        values.sort();
        values.dedup();
        values
    }

    fn values(&self, index: &Value, object: &Value) -> Vec<String> {
        if index["computed"] == true {
            let name = index["name"].as_str().unwrap_or_default();
            return self.computed_values(name, object.clone());
        }
        select::index_values(index, object)
    }

    pub(super) fn computed_values(&self, index: &str, object: Value) -> Vec<String> {
        let Some(indexer) = self.indexer.borrow().clone() else {
            panic!("the index {index:?} is computed by the plugin: create the host with Host::with_indexer")
        };
        indexer(index, &Object::new(objects::Object::new(object)))
    }

    fn index(&self, watch: &str, name: &str) -> &Value {
        let indexes = self.watch(watch)["indexes"].as_array().map(Vec::as_slice).unwrap_or_default();
        indexes.iter().find(|index| index["name"] == name).unwrap_or_else(|| {
            panic!(
                "unknown index {name:?} of watch {watch:?}: the descriptor declares {}",
                names_of(indexes)
            );
        })
    }
}

/// Parses the selector of a read of the cache. The host ends the instance for a malformed one.
fn parse_labels(selector: &str) -> LabelSelector {
    LabelSelector::parse(selector).unwrap_or_else(|message| panic!("{message}"))
}
