//! The tokens that the server issued to service accounts.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use pilothouse_model::hash::HashMap;

use crate::storage::{Storage, Table};
use crate::user::User;

/// The default audience of tokens.
pub(crate) const AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

/// The issued tokens. The server keeps them in memory and accepts only these, so they need no signature; they are lost
/// with the process.
pub(crate) struct Tokens {
    issued: Mutex<HashMap<String, Arc<Token>>>,
    accounts: Arc<Table>,
}

/// The service account and the validity of a token.
#[derive(Debug)]
pub(crate) struct Token {
    pub namespace: String,
    pub account: String,
    /// The UID of the account, so that a recreated account does not inherit tokens.
    pub uid: String,
    pub id: String,
    pub audiences: Vec<String>,
    pub expiration: Timestamp,
}

impl Tokens {
    pub(super) fn new(storage: &Storage) -> Self {
        Self { issued: Mutex::default(), accounts: storage.table("", "serviceaccounts") }
    }

    /// Stores a token, and removes expired ones.
    pub(crate) fn issue(&self, text: String, token: Token, now: Timestamp) {
        let mut issued = self.issued.lock();
        issued.retain(|_, token| token.expiration > now);
        issued.insert(text, Arc::new(token));
    }

    /// Returns the token with this text, or `None` if it has expired or its account no longer exists.
    pub(crate) fn find(&self, text: &str, now: Timestamp) -> Option<Arc<Token>> {
        let token = self.issued.lock().get(text).cloned()?;
        let account = self.accounts.get(&token.namespace, &token.account)?;
        (token.expiration > now && *account.uid == *token.uid).then_some(token)
    }
}

impl Token {
    /// Whether the token is valid for this audience.
    pub(crate) fn is_for(&self, audience: &str) -> bool {
        self.audiences.iter().any(|known| known == audience)
    }

    /// Returns the service account as a user.
    pub(crate) fn user(&self) -> User {
        let mut user = User::service_account(&self.namespace, &self.account);
        user.uid.clone_from(&self.uid);
        let id = vec![format!("JTI={}", self.id)];
        user.extra.insert("authentication.kubernetes.io/credential-id".into(), id);
        user
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;
    use crate::storage::{HistoryLimits, ObjectDraft};

    #[test]
    fn expired_token_is_invalid_and_removed() {
        let storage = Storage::new(HistoryLimits { events: 9, bytes: usize::MAX }, 1);
        let tokens = Tokens::new(&storage);
        let account = json!({"metadata": {"namespace": "n", "name": "a", "uid": "u"}});
        storage
            .table("", "serviceaccounts")
            .create(ObjectDraft { value: account, fields: Box::default(), schema: 0 })
            .expect("new");
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().expect("a time");
        let after = |seconds| start.checked_add(SignedDuration::from_secs(seconds)).expect("a time");
        let token = |expiration| Token {
            namespace: "n".into(),
            account: "a".into(),
            uid: "u".into(),
            id: "i".into(),
            audiences: Vec::new(),
            expiration,
        };
        tokens.issue("t".into(), token(after(60)), start);
        assert!(tokens.find("t", after(59)).is_some());
        assert!(tokens.find("t", after(60)).is_none());
        tokens.issue("later".into(), token(after(120)), after(61));
        assert_eq!(tokens.issued.lock().len(), 1);
    }
}
