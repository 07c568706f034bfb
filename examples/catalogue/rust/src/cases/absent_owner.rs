//! Case 5: takes an owner that is not in view for an owner that is gone.
//!
//! The plugin deletes the Secrets of Searches that do not exist. After a restart, the first list of Searches may be older than the list of
//! Secrets, and lacks the owner of a Secret that was created since.
//!
//! Source: <https://github.com/elastic/cloud-on-k8s/issues/5249>

use pilothouse_sdk::serde_json::json;
use pilothouse_sdk::{Context, Error, Object, Outcome, Plugin, Request, Verb, Watch, WatchRef, WriteRule};

use crate::{Case, kit};

const SEARCHES: WatchRef<Object> = WatchRef::new("searches");
const SECRETS: WatchRef<Object> = WatchRef::new("secrets");
/// The label of a Secret with the name of its Search.
const SEARCH: &str = "catalogue.pilothouse.dev/search";
/// The annotation of a Secret with the UID of its Search.
const SEARCH_UID: &str = "catalogue.pilothouse.dev/search-uid";

/// See the module.
#[derive(Default)]
pub struct AbsentOwner;

impl Case for AbsentOwner {
    const NAME: &'static str = "absent-owner";

    fn describe(plugin: Plugin) -> Plugin {
        let secrets = Watch::untyped(SECRETS, kit::core("Secret")).metadata_only();
        plugin
            .crd(kit::definition(include_str!("../../../crds/search.json")))
            .watch(Watch::untyped(SEARCHES, kit::own("Search")).triggers_itself())
            .watch(secrets.label_selector(SEARCH).triggers_label(SEARCH, SEARCHES))
            .writes(kit::may("searches", &[Verb::Get]))
            .writes(WriteRule::untyped("", "secrets", &[Verb::Create, Verb::Delete]))
    }

    fn wrong(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let secrets = ctx.cache(SECRETS).list(&kit::labelled(&request.key, SEARCH))?;
        if let Some(search) = ctx.cache(SEARCHES).get(&request.key)? {
            return ensure(ctx, &search, &secrets);
        }
        for secret in secrets {
            kit::delete_by_name(ctx, &secret)?;
        }
        Ok(Outcome::Done)
    }

    fn right(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let secrets = ctx.cache(SECRETS).list(&kit::labelled(&request.key, SEARCH))?;
        let search = ctx.cache(SEARCHES).get(&request.key)?;
        let cached_uid = search.as_ref().map(Object::uid);
        for secret in &secrets {
            if secret.annotation(SEARCH_UID) == cached_uid {
                continue;
            }
            // The cache says that the owner is gone. Only the server knows.
            let live = kit::get_live(ctx, &kit::own("Search"), &request.key)?;
            if secret.annotation(SEARCH_UID) != live.map(|live| live.uid()) {
                kit::delete_by_uid(ctx, secret)?;
            }
        }
        search.map_or(Ok(Outcome::Done), |search| ensure(ctx, &search, &secrets))
    }
}

/// Creates the Secret of a Search if there is none.
fn ensure(ctx: &Context<'_>, search: &Object, secrets: &[Object]) -> Result<Outcome, Error> {
    if secrets.is_empty() && !search.is_being_deleted() {
        let key = search.key();
        let manifest = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": format!("{}-certificate", key.name),
                "namespace": key.namespace,
                "labels": {SEARCH: key.name},
                "annotations": {SEARCH_UID: search.uid()},
            },
        });
        ctx.client().untyped().create(&manifest, "")?;
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::testing::Host;
    use pilothouse_sdk::{ObjectKey, Reconciler};

    use super::*;
    use crate::{Right, Wrong};

    fn host<P: Reconciler>() -> Host<P> {
        let host = Host::new();
        host.put_json(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "a-certificate", "namespace": "default", "labels": {SEARCH: "a"}, "annotations": {SEARCH_UID: "u1"}},
        }));
        host
    }

    fn reconciled<P: Reconciler>(host: &Host<P>) -> Vec<String> {
        host.reconcile(SEARCHES, &ObjectKey::new("default", "a")).expect("a reconcile");
        host.writes()
    }

    #[test]
    fn both_twins_delete_the_secret_of_a_search_that_is_gone() {
        let delete = ["delete v1 Secret default/a-certificate"];
        assert_eq!(reconciled(&host::<Wrong<AbsentOwner>>()), delete);
        assert_eq!(reconciled(&host::<Right<AbsentOwner>>()), delete);
    }

    #[test]
    fn both_twins_keep_the_secret_of_a_search_that_exists() {
        let search = json!({
            "apiVersion": "catalogue.pilothouse.dev/v1", "kind": "Search", "spec": {},
            "metadata": {"name": "a", "namespace": "default", "uid": "u1"},
        });
        let wrong = host::<Wrong<AbsentOwner>>();
        wrong.put_json(search.clone());
        assert!(reconciled(&wrong).is_empty());
        drop(wrong);
        let right = host::<Right<AbsentOwner>>();
        right.put_json(search);
        assert!(reconciled(&right).is_empty());
    }
}
