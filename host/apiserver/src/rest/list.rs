use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::selection::Selection;
use crate::registry::Endpoint;
use crate::request::Query;
use crate::request::options::invalid_options;
use crate::schema::field;
use crate::server::State;
use crate::status::Status;
use crate::storage::Stored;

/// A chunk of a list is sent when it has about this many bytes.
const CHUNK: usize = 128 * 1024;

/// The objects that answer a list, and the list's metadata.
#[derive(Debug)]
pub(crate) struct Listing {
    pub objects: Vec<Arc<Stored>>,
    pub revision: u64,
    pub next: Option<String>,
    pub remaining: Option<usize>,
}

/// From which state a list is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// The present one.
    Now,
    /// The one at a revision.
    Exactly(u64),
    /// Any that is not older than a revision.
    NotOlderThan(u64),
}

/// What a `continue` token holds.
#[derive(Debug, Serialize, Deserialize)]
struct Continue {
    /// The version of the format.
    v: String,
    /// The revision of the first page; -1 for the present state, consistent with no other page.
    rv: i64,
    /// The key of the last object sent.
    start: (String, String),
}

/// The version that tokens of this server carry.
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
    let token = query.get("continue").map(Continue::decode).transpose()?;
    let at = read_version(query, token.as_ref())?;
    let limit = query.number("limit")?.filter(|limit| *limit > 0);
    // As with Kubernetes' watch cache, "any state will do" is answered whole.
    let limit = limit.filter(|_| token.is_some() || query.get("resourceVersion") != Some("0"));
    let (objects, revision) = snapshot(state, endpoint, selection, at, token.as_ref())?;
    let mut found = objects
        .into_iter()
        .filter(|object| selection.matches(object))
        .skip_while(|object| token.as_ref().is_some_and(|token| !token.is_before(object)));
    let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else {
        return Ok(Listing { objects: found.collect(), revision, next: None, remaining: None });
    };
    let objects: Vec<_> = found.by_ref().take(limit).collect();
    let rest = found.count();
    let last = objects.last().filter(|_| rest > 0);
    let next = last.map(|last| Continue::after(last, i64::try_from(revision).unwrap_or(-1)).encode());
    let remaining = (rest > 0 && selection.is_whole()).then_some(rest);
    Ok(Listing { objects, revision, next, remaining })
}

fn snapshot(
    state: &State,
    endpoint: &Endpoint,
    selection: &Selection,
    at: At,
    token: Option<&Continue>,
) -> Result<(Vec<Arc<Stored>>, u64), Status> {
    let table = &endpoint.resource.table;
    let namespace = selection.namespace.as_deref();
    let current = state.storage.revision();
    match at {
        At::Exactly(revision) | At::NotOlderThan(revision) if revision > current => {
            Err(Status::too_large_version(revision, current))
        }
        At::Now | At::NotOlderThan(_) => Ok(table.list(namespace)),
        At::Exactly(revision) => match table.list_at(namespace, revision) {
            Ok(objects) => Ok((objects, revision)),
            Err(_) => Err(match token {
                Some(token) => Status::expired_continue(Continue { rv: -1, ..token.copy() }.encode()),
                None => Status::expired(format!(
                    "The resourceVersion for the provided list is too old: {revision}"
                )),
            }),
        },
    }
}

/// Reads `resourceVersion` and `resourceVersionMatch` by the table in Kubernetes' API concepts.
fn read_version(query: &Query, token: Option<&Continue>) -> Result<At, Status> {
    let forbidden =
        |detail: &str| Err(invalid_options("ListOptions", field::forbidden("resourceVersionMatch", detail)));
    let version = query.get("resourceVersion");
    let wanted = query.get("resourceVersionMatch");
    if let Some(token) = token {
        if wanted.is_some() {
            return forbidden("resourceVersionMatch is forbidden for continue");
        }
        if version.is_some_and(|version| version != "0") {
            let problem = "specifying resource version is not allowed when using continue";
            return Err(Status::bad_request(problem));
        }
        return Ok(u64::try_from(token.rv).map_or(At::Now, At::Exactly));
    }
    let Some(version) = version else {
        return match wanted {
            Some(_) => forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"),
            None => Ok(At::Now),
        };
    };
    let revision = parse_version(version)?;
    match wanted {
        Some("Exact") if revision == 0 => {
            forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
        }
        Some("Exact") => Ok(At::Exactly(revision)),
        Some("NotOlderThan") => Ok(At::NotOlderThan(revision)),
        Some(other) => {
            let known = ["Exact", "NotOlderThan", ""];
            let cause = field::not_supported("resourceVersionMatch", &Value::from(other), &known);
            Err(invalid_options("ListOptions", cause))
        }
        // Kept by Kubernetes for old clients: a page of a given version is of exactly that version.
        None if revision > 0 && query.number("limit")?.is_some_and(|limit| limit > 0) => {
            Ok(At::Exactly(revision))
        }
        None => Ok(At::NotOlderThan(revision)),
    }
}

/// Reads a resourceVersion of this server.
pub(crate) fn parse_version(text: &str) -> Result<u64, Status> {
    text.parse().map_err(|_| {
        let problem = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        Status::bad_request(format!("invalid resource version: {problem}"))
    })
}

impl Continue {
    fn after(last: &Stored, revision: i64) -> Self {
        let start = (last.namespace.to_string(), last.name.to_string());
        Self { v: TOKEN_VERSION.into(), rv: revision, start }
    }

    fn copy(&self) -> Self {
        Self { v: self.v.clone(), rv: self.rv, start: self.start.clone() }
    }

    /// Whether an object comes after what has been sent.
    fn is_before(&self, object: &Stored) -> bool {
        (self.start.0.as_str(), self.start.1.as_str()) < (&*object.namespace, &*object.name)
    }

    fn encode(&self) -> String {
        let json = serde_json::to_vec(self).expect("a token has string keys");
        let base64 = serde_json::to_value(ByteString(json)).unwrap_or_default();
        base64.as_str().unwrap_or_default().trim_end_matches('=').replace('+', "-").replace('/', "_")
    }

    fn decode(text: &str) -> Result<Self, Status> {
        let padding = "=".repeat((4 - text.len() % 4) % 4);
        let base64 = Value::from(text.replace('-', "+").replace('_', "/") + &padding);
        let bytes = serde_json::from_value::<ByteString>(base64).ok();
        let token = bytes.and_then(|bytes| serde_json::from_slice::<Self>(&bytes.0).ok());
        token.filter(|token| token.v == TOKEN_VERSION).ok_or_else(|| {
            Status::bad_request(format!("continue key is not valid: {text:?} was not made by this server"))
        })
    }
}

impl Listing {
    /// `metadata` of the list.
    pub(crate) fn metadata(&self) -> Value {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".into(), self.revision.to_string().into());
        if let Some(next) = &self.next {
            metadata.insert("continue".into(), next.as_str().into());
        }
        if let Some(remaining) = self.remaining {
            metadata.insert("remainingItemCount".into(), remaining.into());
        }
        Value::Object(metadata)
    }

    /// The list's JSON text, made while it is sent: the objects' bytes are copied, never serialised again.
    pub(crate) fn into_chunks(self, endpoint: Arc<Endpoint>) -> impl Iterator<Item = Bytes> + Send {
        let head = format!(
            "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{},\"items\":[",
            Value::from(endpoint.resource.names.list_kind.as_str()),
            Value::from(endpoint.api_version.as_str()),
            self.metadata()
        );
        let mut buffer = BytesMut::from(head.as_bytes());
        let mut objects = self.objects.into_iter();
        let mut first = true;
        let mut ended = false;
        std::iter::from_fn(move || {
            if ended {
                return None;
            }
            while buffer.len() < CHUNK {
                let Some(object) = objects.next() else {
                    ended = true;
                    buffer.put_slice(b"]}\n");
                    break;
                };
                if !std::mem::take(&mut first) {
                    buffer.put_u8(b',');
                }
                endpoint.put_item(&mut buffer, &object);
            }
            Some(std::mem::replace(&mut buffer, BytesMut::with_capacity(CHUNK + CHUNK / 4)).freeze())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_and_strangers_are_refused() {
        let token = Continue { v: TOKEN_VERSION.into(), rv: 7, start: ("ns".into(), "ü?>".into()) };
        let back = Continue::decode(&token.encode()).expect("a token");
        assert_eq!((back.rv, back.start), (7, ("ns".into(), "ü?>".into())));
        assert_eq!(Continue::decode("abc").expect_err("bad").code, 400);
    }

    #[test]
    fn versions_follow_the_table_of_the_api_concepts() {
        let read = |query: &str| read_version(&Query::parse(query).expect("a query"), None);
        assert_eq!(read(""), Ok(At::Now));
        assert_eq!(read("resourceVersion=0"), Ok(At::NotOlderThan(0)));
        assert_eq!(read("resourceVersion=5"), Ok(At::NotOlderThan(5)));
        assert_eq!(read("resourceVersion=5&limit=2"), Ok(At::Exactly(5)));
        assert_eq!(read("resourceVersion=5&resourceVersionMatch=Exact"), Ok(At::Exactly(5)));
        assert_eq!(read("resourceVersionMatch=Exact").expect_err("bad").code, 422);
        assert_eq!(read("resourceVersion=0&resourceVersionMatch=Exact").expect_err("bad").code, 422);
        assert_eq!(read("resourceVersion=x").expect_err("bad").code, 400);
    }
}
