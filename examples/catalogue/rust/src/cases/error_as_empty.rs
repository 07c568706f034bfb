//! Case 19: takes an error for an empty list.
//!
//! The plugin runs an application on each cluster, of which it has a list of Secrets. If the list fails, it removes all applications.
//!
//! Sources: <https://github.com/argoproj/argo-cd/issues/18480>, <https://github.com/kubernetes-sigs/external-dns/issues/2858>,
//! <https://github.com/k8ssandra/cass-operator/pull/974>

use pilothouse_sdk::serde_json::json;
use pilothouse_sdk::{Context, Error, Object, Outcome, Plugin, Request, Verb, Watch, WatchRef, WriteRule};

use crate::{Case, kit};

const SETS: WatchRef<Object> = WatchRef::new("sets");
const SECRETS: WatchRef<Object> = WatchRef::new("secrets");
const APPS: WatchRef<Object> = WatchRef::new("apps");
/// The label of a Secret with the name of its cluster, and of an application with that of the cluster that it runs on.
const CLUSTER: &str = "catalogue.pilothouse.dev/cluster";
/// The label of an application with the name of its set.
const SET: &str = "set";

/// See the module.
#[derive(Default)]
pub struct ErrorAsEmpty;

impl Case for ErrorAsEmpty {
    const NAME: &'static str = "error-as-empty";

    fn describe(plugin: Plugin) -> Plugin {
        let secrets = Watch::untyped(SECRETS, kit::core("Secret")).metadata_only().label_selector(CLUSTER);
        plugin
            .crd(kit::definition(include_str!("../../../crds/appset.json")))
            .crd(kit::definition(include_str!("../../../crds/clusterapp.json")))
            .watch(Watch::untyped(SETS, kit::own("AppSet")).triggers_itself())
            .watch(secrets.triggers_namespace(SETS))
            .watch(Watch::untyped(APPS, kit::own("ClusterApp")).triggers_owner(SETS))
            .writes(kit::may("clusterapps", &[Verb::Create, Verb::Delete]))
            .writes(WriteRule::untyped("", "secrets", &[Verb::List]))
    }

    fn wrong(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let clusters = kit::list_live(ctx, &kit::core("Secret"), &request.key.namespace, CLUSTER);
        deploy(ctx, request, &clusters.unwrap_or_default())
    }

    fn right(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let clusters = kit::list_live(ctx, &kit::core("Secret"), &request.key.namespace, CLUSTER)?;
        deploy(ctx, request, &clusters)
    }
}

/// Creates an application for each cluster, and deletes those of other clusters.
fn deploy(ctx: &Context<'_>, request: &Request, clusters: &[Object]) -> Result<Outcome, Error> {
    let key = &request.key;
    let Some(set) = ctx.cache(SETS).get(key)?.filter(|set| !set.is_being_deleted()) else {
        return Ok(Outcome::Done);
    };
    let apps = ctx.cache(APPS).list(&kit::labelled(key, SET))?;
    let clusters: Vec<String> = clusters.iter().filter_map(|secret| secret.label(CLUSTER)).collect();
    for cluster in &clusters {
        if !apps.iter().any(|app| app.label(CLUSTER).as_ref() == Some(cluster)) {
            let manifest = json!({
                "apiVersion": "catalogue.pilothouse.dev/v1",
                "kind": "ClusterApp",
                "metadata": {
                    "name": format!("{}-{cluster}", key.name),
                    "namespace": key.namespace,
                    "labels": {SET: key.name, CLUSTER: cluster},
                    "ownerReferences": kit::owned_by(&set),
                },
                "spec": {"cluster": cluster},
            });
            ctx.client().untyped().create(&manifest, "")?;
        }
    }
    for app in apps {
        if !app.label(CLUSTER).is_some_and(|cluster| clusters.contains(&cluster)) {
            kit::delete_by_uid(ctx, &app)?;
        }
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::testing::{Failure, Host};
    use pilothouse_sdk::{ApiError, ObjectKey, Reconciler};

    use super::*;
    use crate::{Right, Wrong};

    /// Deploys to one cluster, and reconciles again while the list of clusters fails. Returns all writes.
    fn writes<P: Reconciler>() -> Vec<String> {
        let host = Host::<P>::new();
        host.put_json(json!({
            "apiVersion": "catalogue.pilothouse.dev/v1", "kind": "AppSet", "spec": {},
            "metadata": {"name": "a", "namespace": "default", "uid": "u1"},
        }));
        host.put_json(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "east", "namespace": "default", "labels": {CLUSTER: "east"}},
        }));
        let key = ObjectKey::new("default", "a");
        host.reconcile(SETS, &key).expect("deploys");
        host.fail(Failure::new(ApiError::Unavailable("etcd has no leader".into())).verb(Verb::List));
        // The outcome is the difference between the twins; the writes are what counts.
        let _ = host.reconcile(SETS, &key);
        host.writes()
    }

    #[test]
    fn only_the_wrong_twin_deletes_the_application_when_the_list_fails() {
        let create = "create catalogue.pilothouse.dev/v1 ClusterApp default/a-east";
        let delete = "delete catalogue.pilothouse.dev/v1 ClusterApp default/a-east";
        assert_eq!(writes::<Wrong<ErrorAsEmpty>>(), [create, delete]);
        assert_eq!(writes::<Right<ErrorAsEmpty>>(), [create]);
    }
}
