//! `/debug/snapshot`: named states of all objects, which tests take and restore.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use super::inner::ServerInner;
use crate::persistence::DataDirectory;
#[cfg(feature = "persistence")]
use crate::persistence::DataError;
use crate::request::Request;
use crate::respond::{self, ApiResponse};
use crate::rest::restore::restore;
use crate::status::Status;
#[cfg(feature = "persistence")]
use crate::storage::Storage;
use crate::storage::StoredState;

/// The most snapshots that exist at the same time.
const MAX_SNAPSHOTS: usize = 64;

/// The longest name of a snapshot.
const MAX_NAME: usize = 63;

/// The snapshots by name. With a data directory, they are on disk, too.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    by_name: Arc<Mutex<BTreeMap<String, Snapshot>>>,
}

/// A state of all objects. Objects are shared with the tables as long as they do not change.
#[derive(Clone, Debug)]
struct Snapshot {
    /// When it was taken, in the format of `metav1.Time`.
    taken: String,
    state: Arc<StoredState>,
}

/// The body of a POST to `/debug/snapshot`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TakeRequest {
    name: String,
}

/// The body of a POST to `/debug/snapshot/NAME/restore`, which is optional.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RestoreRequest {
    /// Ends watches without an event, as a restart does.
    #[serde(default)]
    as_restart: bool,
}

impl Snapshots {
    /// Reads the snapshots of a data directory, from which `storage` was filled.
    #[cfg(feature = "persistence")]
    pub(super) fn load(data: &DataDirectory, storage: &Storage) -> Result<Self, DataError> {
        let mut by_name = BTreeMap::new();
        for (name, taken, mut state) in data.states()? {
            state.share_unchanged(storage);
            by_name.insert(name, Snapshot { taken, state: Arc::new(state) });
        }
        Ok(Self { by_name: Arc::new(Mutex::new(by_name)) })
    }

    fn get(&self, name: &str) -> Result<Snapshot, Status> {
        self.by_name.lock().get(name).cloned().ok_or_else(|| not_found(name))
    }

    fn to_value(&self) -> Value {
        self.by_name.lock().iter().map(|(name, snapshot)| snapshot.describe(name)).collect()
    }

    /// Errors if there is no room for another snapshot of this name.
    fn check_room(&self, name: &str) -> Result<(), Status> {
        let by_name = self.by_name.lock();
        if by_name.len() < MAX_SNAPSHOTS || by_name.contains_key(name) {
            return Ok(());
        }
        Err(Status::bad_request(format!("{MAX_SNAPSHOTS} snapshots exist already; delete one of them")))
    }
}

impl Snapshot {
    fn describe(&self, name: &str) -> Value {
        json!({
            "name": name, "taken": self.taken, "objects": self.state.count(),
            "resourceVersion": self.state.revision.to_string(),
        })
    }
}

/// Answers a request for `/debug/snapshot` or a path below it.
pub(super) async fn answer(
    server: &ServerInner,
    path: &str,
    request: &Request,
) -> Result<ApiResponse, Status> {
    if !server.snapshots_over_http {
        return Err(Status::not_enabled("/debug/snapshot", "--enable-snapshots or --enable-faults"));
    }
    let rest = path.strip_prefix("/debug/snapshot").unwrap_or_default();
    let parts: Vec<&str> = rest.split('/').skip(1).collect();
    match (parts.as_slice(), &request.method) {
        ([], &Method::GET) => {
            Ok(respond::json_value(StatusCode::OK, &json!({"snapshots": server.snapshots.to_value()})))
        }
        ([], &Method::POST) => {
            let body: TakeRequest = parse(&request.body)?;
            Ok(respond::json_value(StatusCode::CREATED, &take(server, &body.name).await?))
        }
        ([name], &Method::GET) => {
            let snapshot = server.snapshots.get(name)?;
            Ok(respond::json_value(StatusCode::OK, &snapshot.describe(name)))
        }
        ([name], &Method::POST) => Ok(respond::json_value(StatusCode::CREATED, &take(server, name).await?)),
        ([name], &Method::DELETE) => {
            remove(server, name).await?;
            Ok(respond::json_value(StatusCode::OK, &json!({})))
        }
        ([name, "restore"], &Method::POST) => {
            let body: RestoreRequest =
                if request.body.is_empty() { RestoreRequest::default() } else { parse(&request.body)? };
            let snapshot = server.snapshots.get(name)?;
            server.check_data()?;
            {
                // A crash leaves either all objects from before or all of the snapshot.
                let _group = server.data.as_ref().map(DataDirectory::begin_group);
                restore(&server.state, &snapshot.state, body.as_restart);
            }
            server.flush().await?;
            Ok(respond::json_value(StatusCode::OK, &snapshot.describe(name)))
        }
        ([] | [_] | [_, "restore"], _) => Err(Status::method_not_allowed()),
        _ => Err(Status::no_such_resource()),
    }
}

/// Takes a snapshot; replaces the one of this name.
async fn take(server: &ServerInner, name: &str) -> Result<Value, Status> {
    check_name(name)?;
    server.snapshots.check_room(name)?;
    let state =
        server.state.storage.state().ok_or_else(|| {
            Status::too_many_requests("objects change too fast for a snapshot; try again", 1)
        })?;
    let snapshot = Snapshot { taken: server.state.now(), state: Arc::new(state) };
    let description = snapshot.describe(name);
    let (key, taken, state) = (name.to_owned(), snapshot.taken.clone(), Arc::clone(&snapshot.state));
    let by_name = Arc::clone(&server.snapshots.by_name);
    let insert = move || drop(by_name.lock().insert(key, snapshot));
    match &server.data {
        None => insert(),
        Some(data) => {
            server.check_data()?;
            data.save_state(name.to_owned(), taken, state, insert).await.map_err(Status::internal)?;
        }
    }
    Ok(description)
}

async fn remove(server: &ServerInner, name: &str) -> Result<(), Status> {
    server.snapshots.get(name)?;
    let (key, by_name) = (name.to_owned(), Arc::clone(&server.snapshots.by_name));
    let remove = move || drop(by_name.lock().remove(&key));
    match &server.data {
        None => remove(),
        Some(data) => {
            server.check_data()?;
            data.remove_state(name.to_owned(), remove).await.map_err(Status::internal)?;
        }
    }
    Ok(())
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Status> {
    serde_json::from_slice(body)
        .map_err(|error| Status::bad_request(format!("the request for a snapshot cannot be read: {error}")))
}

/// Errors if a name cannot be part of a path.
fn check_name(name: &str) -> Result<(), Status> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(is_allowed) {
        return Ok(());
    }
    let shown: String = name.chars().take(MAX_NAME).collect();
    Err(Status::bad_request(format!(
        "{shown:?} is no name of a snapshot; use 1 to {MAX_NAME} lower case letters, digits and hyphens"
    )))
}

fn not_found(name: &str) -> Status {
    let shown: String = name.chars().take(MAX_NAME).collect();
    Status::with_code(404, format!("there is no snapshot {shown:?}; GET /debug/snapshot lists them"), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_labels() {
        assert!(check_name("before-upgrade-2").is_ok());
        for name in ["", "a/b", "..", "A", "ü", &"a".repeat(64)] {
            assert_eq!(check_name(name).expect_err("invalid").code, 400, "{name}");
        }
    }
}
