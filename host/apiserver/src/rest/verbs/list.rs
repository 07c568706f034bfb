//! Lists collections, with paging and resource versions.

use std::sync::Arc;

use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::go_json;
use crate::registry::Endpoint;
use crate::request::options::{invalid_options, parse_resource_version};
use crate::request::{Query, Selection};
use crate::respond::Listing;
use crate::schema::field;
use crate::state::State;
use crate::status::Status;
use crate::storage::StoredObject;

/// The state that a list returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListVersion {
    /// The current state.
    Latest,
    /// The state at a revision.
    Exact(u64),
    /// Any state that is not older than a revision.
    NotOlderThan(u64),
}

/// The content of a `continue` token.
#[derive(Debug, Serialize, Deserialize)]
struct ContinueToken {
    /// The version of the format.
    v: String,
    /// The revision of the first page; -1 for the current state, which is inconsistent with earlier pages.
    rv: i64,
    /// The namespace and name of the last object sent.
    start: (String, String),
}

/// The format version in the tokens of this server.
const TOKEN_VERSION: &str = "pilothouse.dev/v1";

/// Lists a collection.
pub(crate) fn list(
    state: &State,
    endpoint: &Endpoint,
    selection: &Selection,
    query: &Query,
) -> Result<Listing, Status> {
    if query.get("sendInitialEvents").is_some() {
        let detail = "sendInitialEvents is forbidden for list";
        return Err(invalid_options("ListOptions", field::forbidden("sendInitialEvents", detail)));
    }
    let token = query.get("continue").map(ContinueToken::decode).transpose()?;
    let version = parse_list_version(query, token.as_ref())?;
    let limit = query.limit()?;
    // As with Kubernetes' watch cache, a list with resourceVersion "0" is not paged.
    let limit = limit.filter(|_| token.is_some() || query.get("resourceVersion") != Some("0"));
    let (objects, revision) = snapshot(state, endpoint, selection, version, token.as_ref())?;
    let mut selected = objects
        .into_iter()
        .filter(|object| selection.matches(object))
        .skip_while(|object| token.as_ref().is_some_and(|token| !token.is_before(object)));
    let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else {
        return Ok(Listing { objects: selected.collect(), revision, next: None, remaining: None });
    };
    let objects: Vec<_> = selected.by_ref().take(limit).collect();
    let rest = selected.count();
    let last = objects.last().filter(|_| rest > 0);
    let next = last.map(|last| ContinueToken::after(last, i64::try_from(revision).unwrap_or(-1)).encode());
    let remaining = (rest > 0 && selection.is_unrestricted()).then_some(rest);
    Ok(Listing { objects, revision, next, remaining })
}

/// Returns the objects of the namespace in the requested state, and their revision.
fn snapshot(
    state: &State,
    endpoint: &Endpoint,
    selection: &Selection,
    version: ListVersion,
    token: Option<&ContinueToken>,
) -> Result<(Vec<Arc<StoredObject>>, u64), Status> {
    let table = &endpoint.resource.table;
    let namespace = selection.namespace.as_deref();
    let current = state.storage.revision();
    match version {
        ListVersion::Exact(revision) | ListVersion::NotOlderThan(revision) if revision > current => {
            Err(Status::too_large_resource_version(revision, current))
        }
        ListVersion::Latest | ListVersion::NotOlderThan(_) => Ok(table.list(namespace)),
        ListVersion::Exact(revision) => match table.list_at(namespace, revision) {
            Ok(objects) => Ok((objects, revision)),
            Err(_) => Err(match token {
                Some(token) => Status::expired_continue(ContinueToken { rv: -1, ..token.copy() }.encode()),
                None => Status::expired(format!(
                    "The resourceVersion for the provided list is too old: {revision}"
                )),
            }),
        },
    }
}

/// Parses `resourceVersion` and `resourceVersionMatch` as the table in Kubernetes' API concepts describes.
fn parse_list_version(query: &Query, token: Option<&ContinueToken>) -> Result<ListVersion, Status> {
    let forbidden =
        |detail: &str| Err(invalid_options("ListOptions", field::forbidden("resourceVersionMatch", detail)));
    let version = query.get("resourceVersion");
    let version_match = query.get("resourceVersionMatch");
    if let Some(token) = token {
        if version_match.is_some() {
            return forbidden("resourceVersionMatch is forbidden for continue");
        }
        if version.is_some_and(|version| version != "0") {
            let problem = "specifying resource version is not allowed when using continue";
            return Err(Status::bad_request(problem));
        }
        return Ok(u64::try_from(token.rv).map_or(ListVersion::Latest, ListVersion::Exact));
    }
    let Some(version) = version else {
        return match version_match {
            Some(_) => forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"),
            None => Ok(ListVersion::Latest),
        };
    };
    let revision = parse_resource_version(version)
        .map_err(|problem| Status::bad_request(format!("invalid resource version: {problem}")))?;
    match version_match {
        Some("Exact") if revision == 0 => {
            forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
        }
        Some("Exact") => Ok(ListVersion::Exact(revision)),
        Some("NotOlderThan") => Ok(ListVersion::NotOlderThan(revision)),
        Some(other) => {
            let known = ["Exact", "NotOlderThan", ""];
            let cause = field::not_supported("resourceVersionMatch", &Value::from(other), &known);
            Err(invalid_options("ListOptions", cause))
        }
        // As in Kubernetes for old clients: a page of a given resourceVersion is of exactly that version.
        None if revision > 0 && query.limit()?.is_some() => Ok(ListVersion::Exact(revision)),
        None => Ok(ListVersion::NotOlderThan(revision)),
    }
}

impl ContinueToken {
    fn after(last: &StoredObject, revision: i64) -> Self {
        let start = (last.namespace.to_string(), last.name.to_string());
        Self { v: TOKEN_VERSION.into(), rv: revision, start }
    }

    fn copy(&self) -> Self {
        Self { v: self.v.clone(), rv: self.rv, start: self.start.clone() }
    }

    /// Whether an object comes after the last object sent.
    fn is_before(&self, object: &StoredObject) -> bool {
        (self.start.0.as_str(), self.start.1.as_str()) < (&*object.namespace, &*object.name)
    }

    fn encode(&self) -> String {
        let json = serde_json::to_vec(self).expect("a token has string keys");
        let base64 = serde_json::to_value(ByteString(json)).unwrap_or_default();
        base64.as_str().unwrap_or_default().trim_end_matches('=').replace('+', "-").replace('/', "_")
    }

    fn decode(text: &str) -> Result<Self, Status> {
        let invalid = |problem: &str| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {problem}"))
        };
        let not_ours = || invalid(&format!("{text:?} was not made by this server"));
        let bytes = decode_base64(text)
            .map_err(|offset| invalid(&format!("illegal base64 data at input byte {offset}")))?;
        if let Some(problem) = go_json::syntax_error(&bytes) {
            return Err(invalid(&problem));
        }
        let token = serde_json::from_slice::<Self>(&bytes).map_err(|_| not_ours())?;
        if token.v == TOKEN_VERSION { Ok(token) } else { Err(not_ours()) }
    }
}

/// Decodes base64 for URLs without padding. As in Go, the bits after the last byte are ignored.
///
/// # Errors
/// The offset that Go reports: that of the first other character, or of the last group if it is a single character.
fn decode_base64(text: &str) -> Result<Vec<u8>, usize> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for (group, characters) in text.as_bytes().chunks(4).enumerate() {
        let mut bits = 0_u32;
        for (index, character) in characters.iter().enumerate() {
            let value = ALPHABET.iter().position(|known| known == character).ok_or(4 * group + index)?;
            bits |= u32::try_from(value).unwrap_or_default() << (18 - 6 * index);
        }
        if characters.len() == 1 {
            return Err(4 * group + 1);
        }
        bytes.extend(&bits.to_be_bytes()[1..characters.len()]);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded_as_in_go() {
        assert_eq!(decode_base64("xyz"), Ok(vec![0xc7, 0x2c]));
        assert_eq!(decode_base64("_-8"), Ok(vec![0xff, 0xef]));
        assert_eq!(decode_base64("YWJjZA"), Ok(b"abcd".to_vec()));
        assert_eq!(decode_base64("ab+d"), Err(2));
        assert_eq!(decode_base64(""), Ok(Vec::new()));
    }

    #[test]
    fn continue_token_round_trips_and_foreign_tokens_are_rejected() {
        let token = ContinueToken { v: TOKEN_VERSION.into(), rv: 7, start: ("ns".into(), "ü?>".into()) };
        let back = ContinueToken::decode(&token.encode()).expect("a token");
        assert_eq!((back.rv, back.start), (7, ("ns".into(), "ü?>".into())));
        assert_eq!(ContinueToken::decode("abc").expect_err("bad").code, 400);
    }

    #[test]
    fn list_version_follows_the_table_of_the_api_concepts() {
        let parse = |query: &str| parse_list_version(&Query::parse(query).expect("a query"), None);
        assert_eq!(parse(""), Ok(ListVersion::Latest));
        assert_eq!(parse("resourceVersion=0"), Ok(ListVersion::NotOlderThan(0)));
        assert_eq!(parse("resourceVersion=5"), Ok(ListVersion::NotOlderThan(5)));
        assert_eq!(parse("resourceVersion=5&limit=2"), Ok(ListVersion::Exact(5)));
        assert_eq!(parse("resourceVersion=5&resourceVersionMatch=Exact"), Ok(ListVersion::Exact(5)));
        assert_eq!(parse("resourceVersionMatch=Exact").expect_err("bad").code, 422);
        assert_eq!(parse("resourceVersion=0&resourceVersionMatch=Exact").expect_err("bad").code, 422);
        assert_eq!(parse("resourceVersion=x").expect_err("bad").code, 400);
    }
}
