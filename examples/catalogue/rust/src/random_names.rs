//! A correct plugin that relies on the guarantees of the host. It is no case of the catalogue: `cargo xtask planted` breaks the host, and this
//! plugin shows it.
//!
//! The plugin creates as many Pods as a Group wants, and draws their names at random. The server cannot refuse a second creation of the
//! same Pod, so the plugin must see each Pod that it has created: at once, also if the answer was lost, and also after a reload. It finds
//! the Pods in an index whose values it computes.

use pilothouse_sdk::serde_json::json;
use pilothouse_sdk::{
    Config, Context, Describe, Error, Index, Indexer, Object, Outcome, Plugin, Reconciler, Request, Verb,
    Watch, WatchRef, WriteRule,
};

use crate::kit;

const GROUPS: WatchRef<Object> = WatchRef::new("groups");
const PODS: WatchRef<Object> = WatchRef::new("pods");
/// The label of a Pod with the name of its Group.
const GROUP: &str = "group";
/// The index over the Pods by the keys of their Groups.
const BY_GROUP: &str = "byGroup";

/// See the module.
#[derive(Default)]
pub struct RandomNames;

impl Describe for RandomNames {
    fn describe(_: &Config) -> Result<Plugin, Error> {
        Ok(Plugin::new("random-names", env!("CARGO_PKG_VERSION"))
            .crd(kit::definition(include_str!("../../crds/group.json")))
            .watch(Watch::untyped(GROUPS, kit::own("Group")).triggers_itself())
            .watch(
                Watch::untyped(PODS, kit::core("Pod"))
                    .label_selector(GROUP)
                    .metadata_only()
                    .triggers_owner(GROUPS)
                    .index(Index::computed(BY_GROUP)),
            )
            .writes(WriteRule::untyped("", "pods", &[Verb::Create])))
    }
}

impl Indexer for RandomNames {
    fn values(&self, _: &str, pod: &Object) -> Vec<String> {
        pod.label(GROUP).map(|group| pod.key().sibling(group.as_str()).to_string()).into_iter().collect()
    }
}

impl Reconciler for RandomNames {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(group) = ctx.cache(GROUPS).get(&request.key)?.filter(|group| !group.is_being_deleted())
        else {
            return Ok(Outcome::Done);
        };
        let wanted = usize::try_from(kit::integer(&group, "/spec/replicas", 1)).unwrap_or(0);
        let pods = ctx.cache(PODS).by_index(BY_GROUP, &request.key.to_string())?;
        for _ in pods.len()..wanted {
            let metadata = json!({
                "name": format!("{}-{:016x}", request.key.name, random()),
                "namespace": request.key.namespace,
                "labels": {GROUP: request.key.name},
                "ownerReferences": kit::owned_by(&group),
            });
            ctx.client().untyped().create(&kit::pod(&metadata), "")?;
        }
        Ok(Outcome::Done)
    }
}

/// Returns a random number.
#[cfg(target_family = "wasm")]
fn random() -> u64 {
    wasip2::random::random::get_random_u64()
}

/// Returns another number each time: in unit tests, there is no WASI.
#[cfg(not(target_family = "wasm"))]
fn random() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::ObjectKey;
    use pilothouse_sdk::testing::Host;

    use super::*;

    #[test]
    fn pods_are_created_until_there_are_as_many_as_the_group_wants() {
        let host = Host::<RandomNames>::new().with_indexer();
        let mut counts = Vec::new();
        for replicas in [2, 3, 3, 1] {
            host.put_json(json!({
                "apiVersion": "catalogue.pilothouse.dev/v1", "kind": "Group", "spec": {"replicas": replicas},
                "metadata": {"name": "a", "namespace": "default", "uid": "u1"},
            }));
            let before = host.writes().len();
            host.reconcile(GROUPS, &ObjectKey::new("default", "a")).expect("a reconcile");
            counts.push(host.writes().len() - before);
        }
        assert_eq!(counts, [2, 1, 0, 0]);
    }
}
