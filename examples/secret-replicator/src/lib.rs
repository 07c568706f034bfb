//! Keeps copies of Secrets in the namespaces that the annotation `replicator.example.com/to` lists.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use pilothouse_sdk::client::{Change, Delete};
use pilothouse_sdk::finalizer::{self, Phase};
use pilothouse_sdk::{
    Config, Context, Describe, Error, Index, Indexer, Object, ObjectKey, Outcome, Plugin, Reconciler,
    Request, Verb, Watch, WatchRef, WriteRule,
};

/// The annotation of a source that lists the namespaces to copy it to, separated by commas.
const TO: &str = "replicator.example.com/to";
/// The annotation of a copy that has the key of its source.
const SOURCE: &str = "replicator.example.com/source";
/// The label of copies, for the selectors of the watches.
const IS_COPY: &str = "replicator.example.com/copy";
/// The finalizer that keeps a source until its copies are deleted.
const FINALIZER: &str = "replicator.example.com/copies";

const SOURCES: WatchRef<Secret> = WatchRef::new("sources");
const COPIES: WatchRef<Secret> = WatchRef::new("copies");
const NAMESPACES: WatchRef<Namespace> = WatchRef::new("namespaces");

/// The index over the sources by the namespaces that they are copied to.
const BY_TARGET: &str = "byTarget";
/// The index over the copies by the keys of their sources.
const BY_SOURCE: &str = "bySource";

#[derive(Default)]
struct SecretReplicator;

impl Describe for SecretReplicator {
    fn describe(_: &Config) -> Result<Plugin, Error> {
        Ok(Plugin::new("secret-replicator", env!("CARGO_PKG_VERSION"))
            .summary("Copies Secrets to the namespaces that they list")
            .watch(
                Watch::of(SOURCES)
                    .label_selector(format!("!{IS_COPY}"))
                    .triggers_itself()
                    .index(Index::computed(BY_TARGET)),
            )
            // A copy that is changed or deleted is restored from its source.
            .watch(
                Watch::of(COPIES)
                    .label_selector(IS_COPY)
                    .triggers_namespaced_field(
                        annotation(&format!("{SOURCE}-name")),
                        annotation(&format!("{SOURCE}-namespace")),
                        SOURCES,
                    )
                    .index(Index::by_annotation(BY_SOURCE, SOURCE)),
            )
            // A new namespace gets the copies that list it.
            .watch(Watch::of(NAMESPACES).metadata_only().triggers_index(SOURCES, BY_TARGET))
            .writes(WriteRule::of::<Secret>(&[Verb::Create, Verb::Update, Verb::Patch, Verb::Delete])))
    }
}

/// Returns the JSONPath of an annotation.
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
        let Some(source) = ctx.cache(SOURCES).get(&request.key)? else {
            return Ok(Outcome::Done);
        };
        let annotations = source.metadata.annotations.clone().unwrap_or_default();
        let namespaces = targets(annotations.get(TO).map(String::as_str).unwrap_or_default());
        let has_finalizer = source
            .metadata
            .finalizers
            .as_ref()
            .is_some_and(|names| names.iter().any(|name| name == FINALIZER));
        if namespaces.is_empty() && !has_finalizer {
            return Ok(Outcome::Done); // Most Secrets are not replicated.
        }
        finalizer::run(&source, FINALIZER, |phase, source| {
            let namespaces = match phase {
                Phase::Apply => namespaces,
                Phase::Cleanup => BTreeSet::new(),
            };
            delete_other_copies(ctx, request, &namespaces)?;
            for namespace in &namespaces {
                if ctx.cache(NAMESPACES.untyped()).get(&ObjectKey::new("", namespace))?.is_some() {
                    copy(ctx, source, namespace)?;
                }
            }
            Ok(Outcome::Done)
        })
    }
}

/// Deletes the copies in namespaces that the source does not list.
fn delete_other_copies(
    ctx: &Context<'_>,
    request: &Request,
    namespaces: &BTreeSet<String>,
) -> Result<(), Error> {
    for copy in ctx.cache(COPIES.untyped()).by_index(BY_SOURCE, &request.key.to_string())? {
        if namespaces.contains(&copy.key().namespace) {
            continue;
        }
        match ctx.client().delete::<Secret>(&copy.key(), &Delete::default().only_uid(copy.uid())) {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => ctx.events().normal(
                &copy,
                "Removed",
                "Replicate",
                format!("{} is no longer copied here", request.key),
            ),
        }
    }
    Ok(())
}

/// Creates or updates the copy in one namespace. A Secret of that name that is not a copy of the source is left unchanged.
fn copy(ctx: &Context<'_>, source: &Secret, namespace: &str) -> Result<(), Error> {
    let from = ObjectKey::of(source);
    let key = ObjectKey::new(namespace, &from.name);
    let present = ctx.cache(COPIES).get(&key)?;
    let is_copy = |secret: &Secret| {
        secret.metadata.annotations.as_ref().and_then(|all| all.get(SOURCE)) == Some(&from.to_string())
    };
    let is_taken = present.as_ref().is_some_and(|secret| !is_copy(secret))
        || ctx.cache(SOURCES.untyped()).get(&key)?.is_some();
    if is_taken {
        ctx.events().warning(
            source,
            "NameTaken",
            "Replicate",
            format!("{key} is not a copy of this Secret; it was left unchanged"),
        );
        return Ok(());
    }
    let mutate = |secret: &mut Secret| set_desired_state(secret, source, &from);
    let (stored, change) = ctx.client().create_or_update(present, || empty_secret(&key), mutate)?;
    if change != Change::Unchanged {
        ctx.events().normal(&stored, "Replicated", "Replicate", format!("Copied from {from}"));
    }
    Ok(())
}

fn empty_secret(key: &ObjectKey) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.namespace = Some(key.namespace.clone());
    secret.metadata.name = Some(key.name.clone());
    secret
}

/// Sets the fields of a copy that its source determines.
fn set_desired_state(copy: &mut Secret, source: &Secret, from: &ObjectKey) {
    copy.data.clone_from(&source.data);
    copy.type_.clone_from(&source.type_);
    copy.metadata.labels.get_or_insert_default().insert(IS_COPY.into(), "true".into());
    let annotations = BTreeMap::from([
        (SOURCE.to_owned(), from.to_string()),
        (format!("{SOURCE}-namespace"), from.namespace.clone()),
        (format!("{SOURCE}-name"), from.name.clone()),
    ]);
    copy.metadata.annotations.get_or_insert_default().extend(annotations);
}

/// Parses the namespaces in an annotation's value.
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
    fn a_copy_names_its_source_and_keeps_foreign_annotations() {
        let from = ObjectKey::new("team", "token");
        let source = Secret { type_: Some("Opaque".into()), ..empty_secret(&from) };
        let mut copy = empty_secret(&ObjectKey::new("other", "token"));
        copy.metadata.annotations = Some([("theirs".to_owned(), "kept".to_owned())].into());
        set_desired_state(&mut copy, &source, &from);
        let annotations = copy.metadata.annotations.unwrap();
        assert_eq!((annotations[SOURCE].as_str(), annotations["theirs"].as_str()), ("team/token", "kept"));
        assert_eq!(copy.type_.as_deref(), Some("Opaque"));
    }
}
