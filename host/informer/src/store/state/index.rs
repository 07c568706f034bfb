//! An index: values with the keys of their objects, charged to accounts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilothouse_model::{Object, ObjectKey};

use super::super::{IndexFn, IndexMemory, ScopeId};

/// An index, and what it costs.
///
/// Invariants: `bytes` is the sum of [`VALUE_BYTES`] and the length of each value, and of [`KEY_BYTES`] for each of its keys. It is charged to each
/// of `accounts`, once after each change and until the account is removed.
pub(super) struct Index {
    pub(super) function: IndexFn,
    /// The keys of the objects that have a value.
    pub(super) keys: BTreeMap<Arc<str>, BTreeSet<ObjectKey>>,
    pub(super) bytes: usize,
    pub(super) accounts: Vec<IndexAccount>,
}

/// Whom an index is charged to.
pub(super) struct IndexAccount {
    memory: Arc<dyn IndexMemory>,
    /// The names for which it is charged, at least one.
    names: Vec<(ScopeId, String)>,
}

/// An estimate of the bytes that a value of an index uses, apart from its text: its entry and a node for its first keys.
const VALUE_BYTES: usize = 320;
/// An estimate of the bytes that a key in an index uses. Its text is that of the object.
const KEY_BYTES: usize = 40;

impl Index {
    pub(super) fn new(function: IndexFn) -> Self {
        Self { function, keys: BTreeMap::new(), bytes: 0, accounts: Vec::new() }
    }

    /// Charges the difference to a former number of bytes, which was charged.
    pub(super) fn charge_since(&self, before: usize) {
        for IndexAccount { memory, .. } in &self.accounts {
            match self.bytes.checked_sub(before) {
                Some(0) => {}
                Some(more) => memory.grew(more),
                None => memory.shrank(before - self.bytes),
            }
        }
    }

    /// Charges the index to an account because of a name. An account is charged once, however many of the names are its own.
    pub(super) fn charge_to(&mut self, memory: Arc<dyn IndexMemory>, name: (ScopeId, String)) {
        match self.accounts.iter_mut().find(|account| Arc::ptr_eq(&account.memory, &memory)) {
            Some(account) => account.names.push(name),
            None => {
                memory.grew(self.bytes);
                self.accounts.push(IndexAccount { memory, names: vec![name] });
            }
        }
    }

    /// Removes names from the accounts, and the accounts that have none left.
    pub(super) fn release(&mut self, is_removed: impl Fn(&(ScopeId, String)) -> bool) {
        let bytes = self.bytes;
        self.accounts.retain_mut(|account| {
            account.names.retain(|name| !is_removed(name));
            if account.names.is_empty() {
                account.memory.shrank(bytes);
            }
            !account.names.is_empty()
        });
    }

    pub(super) fn add(&mut self, object: &Object) {
        for value in self.function.values(object) {
            self.insert(&value, object.key());
        }
    }

    pub(super) fn forget(&mut self, object: &Object) {
        for value in self.function.values(object) {
            self.remove(&value, object.key());
        }
    }

    pub(super) fn insert(&mut self, value: &str, key: &ObjectKey) {
        if let Some(keys) = self.keys.get_mut(value) {
            self.bytes += if keys.insert(key.clone()) { KEY_BYTES } else { 0 };
        } else {
            self.keys.insert(Arc::from(value), BTreeSet::from([key.clone()]));
            self.bytes += VALUE_BYTES + value.len() + KEY_BYTES;
        }
    }

    /// Removes a key from a value, and the value if it has no objects left.
    pub(super) fn remove(&mut self, value: &str, key: &ObjectKey) {
        if let Some(keys) = self.keys.get_mut(value) {
            self.bytes -= if keys.remove(key) { KEY_BYTES } else { 0 };
            if keys.is_empty() {
                self.keys.remove(value);
                self.bytes -= VALUE_BYTES + value.len();
            }
        }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.release(|_| true);
    }
}
