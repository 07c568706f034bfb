use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use uuid::Uuid;

use super::User;
use crate::storage::{Storage, Table};

/// The audience of tokens that do not say another.
pub(crate) const AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

/// The tokens that were issued to service accounts. They are kept, so no signature is needed, and a restart ends them.
pub(crate) struct Tokens {
    issued: Mutex<HashMap<String, Arc<Token>>>,
    accounts: Arc<Table>,
}

/// Whose a token is.
#[derive(Debug)]
pub(crate) struct Token {
    pub namespace: String,
    pub account: String,
    /// The UID of the account: one that was deleted and made again does not inherit tokens.
    pub uid: String,
    pub id: String,
    pub audiences: Vec<String>,
    pub end: Timestamp,
}

impl Tokens {
    pub(super) fn new(storage: &Storage) -> Self {
        Self { issued: Mutex::default(), accounts: storage.table("", "serviceaccounts") }
    }

    /// Remembers a token, and forgets those that are over.
    pub(crate) fn issue(&self, text: String, token: Token, now: Timestamp) {
        let mut issued = self.issued.lock();
        issued.retain(|_, token| token.end > now);
        issued.insert(text, Arc::new(token));
    }

    /// What a token is worth now: nothing after its end, or without its account.
    pub(crate) fn find(&self, text: &str, now: Timestamp) -> Option<Arc<Token>> {
        let token = self.issued.lock().get(text).cloned()?;
        let account = self.accounts.get(&token.namespace, &token.account)?;
        (token.end > now && *account.uid == *token.uid).then_some(token)
    }
}

impl Token {
    /// Whether it may be shown to this audience.
    pub(crate) fn is_for(&self, audience: &str) -> bool {
        self.audiences.iter().any(|known| known == audience)
    }

    /// The service account as a user.
    pub(crate) fn user(&self) -> User {
        let mut user = User::service_account(&self.namespace, &self.account);
        user.uid.clone_from(&self.uid);
        let id = vec![format!("JTI={}", self.id)];
        user.extra.insert("authentication.kubernetes.io/credential-id".into(), id);
        user
    }
}

/// A token that nobody can guess.
pub(super) fn random() -> String {
    Uuid::new_v4().simple().to_string()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;
    use crate::storage::{Draft, HistoryLimits};

    #[test]
    fn a_token_ends_in_time_and_is_forgotten() {
        let storage = Storage::new(HistoryLimits { events: 9, bytes: usize::MAX }, 1);
        let tokens = Tokens::new(&storage);
        let account = json!({"metadata": {"namespace": "n", "name": "a", "uid": "u"}});
        storage
            .table("", "serviceaccounts")
            .create(Draft { value: account, fields: Box::default() })
            .expect("new");
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().expect("a time");
        let after = |seconds| start.checked_add(SignedDuration::from_secs(seconds)).expect("a time");
        let token = |end| Token {
            namespace: "n".into(),
            account: "a".into(),
            uid: "u".into(),
            id: "i".into(),
            audiences: Vec::new(),
            end,
        };
        tokens.issue("t".into(), token(after(60)), start);
        assert!(tokens.find("t", after(59)).is_some());
        assert!(tokens.find("t", after(60)).is_none());
        tokens.issue("later".into(), token(after(120)), after(61));
        assert_eq!(tokens.issued.lock().len(), 1);
    }
}
