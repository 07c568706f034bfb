//! Equal items of lists of type `set` and `map`.

use pilothouse_model::hash::HashMap;
use serde_json::Value;

use super::super::correlation::key_fields;
use super::super::field;
use super::super::node::ListType;
use super::Validator;

impl Validator {
    /// Checks that the items of a list of type `set` or `map` are unique.
    pub(super) fn unique_items(&mut self, items: &[Value], list_type: &ListType, path: &str) {
        let identities: Vec<Value> = match list_type {
            ListType::Atomic => return,
            ListType::Set => items.to_vec(),
            ListType::Map(keys) => {
                if let Some(index) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
                    let detail = "must be an object for an array of list-type map";
                    self.list_causes.push(field::invalid(&field::index(path, index), &items[index], detail));
                    return;
                }
                items.iter().map(|item| key_fields(item, keys)).collect()
            }
        };
        let mut counts: HashMap<&Value, usize> =
            HashMap::with_capacity_and_hasher(identities.len(), Default::default());
        for (index, identity) in identities.iter().enumerate() {
            let count = counts.entry(identity).or_default();
            *count += 1;
            // As in Kubernetes, only the second of several equal items is reported.
            if *count == 2 {
                self.list_causes.push(field::duplicate(&field::index(path, index), identity));
            }
        }
    }
}
