//! Keeps copies of Secrets in other namespaces: those that the annotation `replicator.example.com/to` lists.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use pilothouse_sdk::client::{self, Change, Delete};
use pilothouse_sdk::finalizer::{self, Phase};
use pilothouse_sdk::{
    Config, Context, Describe, Error, Index, Indexer, Object, ObjectKey, Outcome, Plugin, Reconciler,
    Request, Watch, WriteRule,
};

/// On a source: the namespaces to copy it to, separated by commas.
const TO: &str = "replicator.example.com/to";
/// On a copy: the key of its source.
const SOURCE: &str = "replicator.example.com/source";
/// On a copy, for the watch's selector.
const IS_COPY: &str = "replicator.example.com/copy";
/// Holds a source until its copies are gone.
const FINALIZER: &str = "replicator.example.com/copies";

/// The plugin.
#[derive(Default)]
struct SecretReplicator;

impl Describe for SecretReplicator {
    fn describe(_: &Config) -> Result<Plugin, Error> {
        Ok(Plugin::new("secret-replicator", env!("CARGO_PKG_VERSION"))
            .summary("Copies Secrets to the namespaces that they name")
            .watch(
                Watch::of::<Secret>("sources")
                    .label_selector(format!("!{IS_COPY}"))
                    .triggers_itself()
                    .index(Index::computed("byTarget")),
            )
            // A copy that somebody changes or deletes is made again from its source.
            .watch(
                Watch::of::<Secret>("copies")
                    .label_selector(IS_COPY)
                    .triggers_namespaced_field(
                        annotation(&format!("{SOURCE}-name")),
                        annotation(&format!("{SOURCE}-namespace")),
                        "sources",
                    )
                    .index(Index::by_annotation("bySource", SOURCE)),
            )
            // A namespace that comes into being gets the copies meant for it.
            .watch(Watch::of::<Namespace>("namespaces").metadata_only().triggers_index("sources", "byTarget"))
            .writes(WriteRule::of::<Secret>(&["create", "update", "patch", "delete"])))
    }
}

/// The JSONPath of an annotation.
fn annotation(name: &str) -> String {
    format!("{{.metadata.annotations['{name}']}}")
}

impl Indexer for SecretReplicator {
    fn values(&self, _: &str, secret: &Object) -> Vec<String> {
        targets(&secret.annotation(TO).unwrap_or_default()).into_iter().collect()
    }
}

impl Reconciler for SecretReplicator {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(source) = ctx.cache::<Secret>("sources").get(&request.key)? else {
            return Ok(Outcome::Done);
        };
        let annotations = source.metadata.annotations.clone().unwrap_or_default();
        let wanted = targets(annotations.get(TO).map(String::as_str).unwrap_or_default());
        let held = source
            .metadata
            .finalizers
            .as_ref()
            .is_some_and(|names| names.iter().any(|name| name == FINALIZER));
        if wanted.is_empty() && !held {
            return Ok(Outcome::Done); // Most Secrets are nobody's source.
        }
        finalizer::run(&source, FINALIZER, |phase| {
            let wanted = match phase {
                Phase::Apply => wanted,
                Phase::Cleanup => BTreeSet::new(),
            };
            remove_others(ctx, request, &wanted)?;
            for namespace in &wanted {
                if ctx.cache::<Object>("namespaces").get(&ObjectKey::new("", namespace))?.is_some() {
                    copy(ctx, &source, namespace)?;
                }
            }
            Ok(Outcome::Done)
        })
    }
}

/// Deletes the copies in namespaces that are not wanted any more.
fn remove_others(ctx: &Context<'_>, request: &Request, wanted: &BTreeSet<String>) -> Result<(), Error> {
    for copy in ctx.cache::<Object>("copies").by_index("bySource", &request.key.to_string())? {
        if wanted.contains(&copy.key().namespace) {
            continue;
        }
        match client::delete::<Secret>(&copy.key(), &Delete::default().only_uid(copy.uid())) {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => ctx.events().normal(
                &copy,
                "Removed",
                "Replicate",
                format!("{} is not copied here any more", request.key),
            ),
        }
    }
    Ok(())
}

/// Makes the copy in one namespace as the source is; never touches a Secret that is no copy of it.
fn copy(ctx: &Context<'_>, source: &Secret, namespace: &str) -> Result<(), Error> {
    let from = ObjectKey::of(source);
    let key = ObjectKey::new(namespace, &from.name);
    let present = ctx.cache::<Secret>("copies").get(&key)?;
    let is_ours = |secret: &Secret| {
        secret.metadata.annotations.as_ref().and_then(|all| all.get(SOURCE)) == Some(&from.to_string())
    };
    let stranger = present.as_ref().is_some_and(|secret| !is_ours(secret))
        || ctx.cache::<Object>("sources").get(&key)?.is_some();
    if stranger {
        ctx.events().warning(
            source,
            "NameTaken",
            "Replicate",
            format!("{key} is not a copy of this Secret; it was left alone"),
        );
        return Ok(());
    }
    let wish = |secret: &mut Secret| wanted(secret, source, &from);
    let absent = || named(&key);
    let (made, change) = client::create_or_update(present, absent, wish)?;
    if change != Change::Unchanged {
        ctx.events().normal(&made, "Replicated", "Replicate", format!("Copied from {from}"));
    }
    Ok(())
}

fn named(key: &ObjectKey) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.namespace = Some(key.namespace.clone());
    secret.metadata.name = Some(key.name.clone());
    secret
}

/// What a copy is to be.
fn wanted(copy: &mut Secret, source: &Secret, from: &ObjectKey) {
    copy.data.clone_from(&source.data);
    copy.type_.clone_from(&source.type_);
    copy.metadata.labels.get_or_insert_default().insert(IS_COPY.into(), "true".into());
    let told = BTreeMap::from([
        (SOURCE.to_owned(), from.to_string()),
        (format!("{SOURCE}-namespace"), from.namespace.clone()),
        (format!("{SOURCE}-name"), from.name.clone()),
    ]);
    copy.metadata.annotations.get_or_insert_default().extend(told);
}

/// The namespaces in an annotation's value.
fn targets(text: &str) -> BTreeSet<String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(ToOwned::to_owned).collect()
}

pilothouse_sdk::export!(SecretReplicator: Reconciler + Indexer);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_separated_by_commas() {
        assert_eq!(targets(" a, b,,a ").into_iter().collect::<Vec<_>>(), ["a", "b"]);
        assert!(targets("").is_empty());
    }

    #[test]
    fn a_copy_says_whose_it_is_and_keeps_what_others_wrote() {
        let from = ObjectKey::new("team", "token");
        let source = Secret { type_: Some("Opaque".into()), ..named(&from) };
        let mut copy = named(&ObjectKey::new("other", "token"));
        copy.metadata.annotations = Some([("theirs".to_owned(), "kept".to_owned())].into());
        wanted(&mut copy, &source, &from);
        let annotations = copy.metadata.annotations.unwrap();
        assert_eq!((annotations[SOURCE].as_str(), annotations["theirs"].as_str()), ("team/token", "kept"));
        assert_eq!(copy.type_.as_deref(), Some("Opaque"));
    }
}
