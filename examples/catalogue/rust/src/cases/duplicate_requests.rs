//! Case 18: duplicate requests, and then a dead end.
//!
//! The plugin requests a certificate by an object whose name the server chooses. If the answer of the create is lost and the watch is
//! late, it creates a second one. It refuses two requests for one revision for ever.
//!
//! Sources: <https://github.com/cert-manager/cert-manager/issues/4956>, <https://github.com/cert-manager/cert-manager/issues/3603>,
//! <https://github.com/cert-manager/cert-manager/issues/6837>, fixed by <https://github.com/cert-manager/cert-manager/pull/5487>;
//! <https://github.com/kubernetes-sigs/cluster-api/issues/13649>

use pilothouse_sdk::serde_json::{Value, json};
use pilothouse_sdk::{Context, Error, Object, Outcome, Plugin, Request, Verb, Watch, WatchRef};

use crate::{Case, kit};

const CERTS: WatchRef<Object> = WatchRef::new("certs");
const REQUESTS: WatchRef<Object> = WatchRef::new("requests");
/// The label of a request with the name of its Cert.
const CERT: &str = "cert";

/// See the module.
#[derive(Default)]
pub struct DuplicateRequests;

impl Case for DuplicateRequests {
    const NAME: &'static str = "duplicate-requests";

    fn describe(plugin: Plugin) -> Plugin {
        plugin
            .crd(kit::definition(include_str!("../../../crds/cert.json")))
            .crd(kit::definition(include_str!("../../../crds/request.json")))
            .watch(Watch::untyped(CERTS, kit::own("Cert")).triggers_itself())
            .watch(Watch::untyped(REQUESTS, kit::own("Request")).triggers_owner(CERTS))
            .writes(kit::may("requests", &[Verb::Create]))
            .writes(kit::may("certs/status", &[Verb::Patch]))
    }

    fn wrong(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some((cert, revision)) = read(ctx, request)? else { return Ok(Outcome::Done) };
        let mut requests = ctx.cache(REQUESTS).list(&kit::labelled(&request.key, CERT))?;
        requests.retain(|one| kit::integer(one, "/spec/revision", 0) == revision);
        match requests.as_slice() {
            [] => create(ctx, &cert, revision, json!({"generateName": format!("{}-", request.key.name)})),
            [one] => finish(ctx, &cert, one, revision),
            _ => Err(Error::terminal(format!("there are several requests for revision {revision}"))),
        }
    }

    fn right(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some((cert, revision)) = read(ctx, request)? else { return Ok(Outcome::Done) };
        let name = format!("{}-{revision}", request.key.name);
        match ctx.cache(REQUESTS).get(&request.key.sibling(name.as_str()))? {
            None => create(ctx, &cert, revision, json!({"name": name})),
            Some(one) => finish(ctx, &cert, &one, revision),
        }
    }
}

fn read(ctx: &Context<'_>, request: &Request) -> Result<Option<(Object, i64)>, Error> {
    let cert = ctx.cache(CERTS).get(&request.key)?.filter(|cert| !cert.is_being_deleted());
    Ok(cert.map(|cert| {
        let revision = kit::integer(&cert, "/spec/revision", 1);
        (cert, revision)
    }))
}

fn create(ctx: &Context<'_>, cert: &Object, revision: i64, mut metadata: Value) -> Result<Outcome, Error> {
    let key = cert.key();
    metadata["namespace"] = key.namespace.into();
    metadata["labels"] = json!({CERT: key.name});
    metadata["ownerReferences"] = kit::owned_by(cert);
    let manifest = json!({
        "apiVersion": "catalogue.pilothouse.dev/v1",
        "kind": "Request",
        "metadata": metadata,
        "spec": {"revision": revision},
    });
    ctx.client().untyped().create(&manifest, "")?;
    Ok(Outcome::Done)
}

/// Records the revision when its request is ready.
fn finish(ctx: &Context<'_>, cert: &Object, request: &Object, revision: i64) -> Result<Outcome, Error> {
    let is_ready = request.field::<bool>("/status/ready")?.unwrap_or(false);
    if is_ready && kit::integer(cert, "/status/readyRevision", 0) != revision {
        kit::merge(ctx, cert, "status", &json!({"status": {"readyRevision": revision}}))?;
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::testing::Host;
    use pilothouse_sdk::{ObjectKey, Reconciler};

    use super::*;
    use crate::{Right, Wrong};

    /// Reconciles a Cert with requests of these names. Returns the writes, or `None` for an error.
    fn writes<P: Reconciler>(names: &[&str]) -> Option<Vec<String>> {
        let host = Host::<P>::new();
        host.put_json(json!({
            "apiVersion": "catalogue.pilothouse.dev/v1", "kind": "Cert", "spec": {"revision": 2},
            "metadata": {"name": "web", "namespace": "default", "uid": "u1"},
        }));
        for name in names {
            host.put_json(json!({
                "apiVersion": "catalogue.pilothouse.dev/v1", "kind": "Request", "spec": {"revision": 2}, "status": {"ready": true},
                "metadata": {"name": name, "namespace": "default", "labels": {CERT: "web"}},
            }));
        }
        host.reconcile(CERTS, &ObjectKey::new("default", "web")).ok().map(|_| host.writes())
    }

    #[test]
    fn two_requests_for_a_revision_stop_the_wrong_twin_only() {
        let status = vec!["patch catalogue.pilothouse.dev/v1 Cert default/web status".to_owned()];
        assert_eq!(writes::<Wrong<DuplicateRequests>>(&["web-2"]), Some(status.clone()));
        assert_eq!(writes::<Wrong<DuplicateRequests>>(&["web-2", "web-x"]), None);
        assert_eq!(writes::<Right<DuplicateRequests>>(&["web-2", "web-x"]), Some(status));
    }
}
