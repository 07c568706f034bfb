//! The change of an object by another client, between two requests of a plugin.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::json;

use super::attributed;
use crate::run::Author;
use crate::world::record::{Answer, SentRequest};
use crate::world::request::ObjectRequest;
use crate::world::shared::Shared;

/// The annotation that another client changes when it interferes.
const TOUCHED: &str = "simulation.pilothouse.dev/touched";
/// The name under which the client that interferes is recorded.
pub(crate) const OTHER_CLIENT: &str = "another client";

/// Changes an annotation of the object as another client.
pub(super) async fn interfere(shared: &Shared, about: &ObjectRequest) {
    let value = shared.clock().now_ms().to_string();
    let patch = json!({"metadata": {"annotations": {TOUCHED: value}}});
    let (group, plural) = (&about.group, &about.plural);
    let Some(version) = ({
        let state = shared.lock();
        let object = state.mirror.object(&about.resource(), &about.namespace, &about.name);
        object.and_then(|object| object["apiVersion"].as_str().map(str::to_owned))
    }) else {
        return;
    };
    let version = version.rsplit('/').next().unwrap_or_default();
    let prefix =
        if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let namespace =
        if about.namespace.is_empty() { String::new() } else { format!("/namespaces/{}", about.namespace) };
    let request = Request::patch(format!("{prefix}{namespace}/{plural}/{}", about.name))
        .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
        .body(Full::new(Bytes::from(patch.to_string())));
    let Ok(request) = request else { return };
    let (response, commits) = attributed(shared, shared.server().service(), request).await;
    let answer = Answer { status: response.status().as_u16(), ..Answer::default() };
    let interference = ObjectRequest { verb: "patch", subresource: String::new(), ..about.clone() };
    let sent = SentRequest {
        author: Author::Actor(OTHER_CLIENT.to_owned()),
        step: None,
        reconcile: None,
        about: &interference,
        body: Some(patch),
        answer: Some(answer),
        answered: true,
    };
    shared.lock().record_request(sent, commits);
}
