//! Reports on each Ingress whether its TLS Secrets exist and are usable. Without it a misspelled Secret name goes unnoticed.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::networking::v1::Ingress;
use pilothouse_sdk::client::Patch;
use pilothouse_sdk::serde_json::json;
use pilothouse_sdk::{
    Config, Context, Describe, Error, Index, Indexer, Object, ObjectKey, Outcome, Plugin, Reconciler,
    Request, Verb, Watch, WatchRef, WriteRule,
};

/// The annotation of an Ingress that reports `ok` or the problems.
const STATE: &str = "ingress-tls.example.com/state";

const INGRESSES: WatchRef<Ingress> = WatchRef::new("ingresses");
const SECRETS: WatchRef<Secret> = WatchRef::new("secrets");

/// The index over the Ingresses by the keys of the Secrets that they use.
const BY_SECRET: &str = "bySecret";

#[derive(Default)]
struct IngressTls;

impl Describe for IngressTls {
    fn describe(_: &Config) -> Result<Plugin, Error> {
        Ok(Plugin::new("ingress-tls", env!("CARGO_PKG_VERSION"))
            .summary("Reports on each Ingress whether its TLS Secrets are usable")
            .watch(
                Watch::of(INGRESSES)
                    .triggers_itself()
                    // The plugin's own annotation does not change the generation, so the plugin does not wake itself.
                    .predicate("generationChanged()")
                    .index(Index::computed(BY_SECRET)),
            )
            // A change of a Secret queues the Ingresses that use it, including those that wait for it to be created.
            .watch(Watch::of(SECRETS).triggers_index(INGRESSES, BY_SECRET))
            .writes(WriteRule::of::<Ingress>(&[Verb::Patch])))
    }
}

impl Indexer for IngressTls {
    /// Returns the keys of the Secrets that an Ingress uses.
    fn values(&self, _: &str, ingress: &Object) -> Vec<String> {
        ingress
            .parse::<Ingress>()
            .map(|ingress| secrets(&ingress).iter().map(ToString::to_string).collect())
            .unwrap_or_default()
    }
}

impl Reconciler for IngressTls {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(ingress) = ctx.cache(INGRESSES).get(&request.key)? else {
            return Ok(Outcome::Done);
        };
        let mut problems = Vec::new();
        for key in secrets(&ingress) {
            let secret = ctx.cache(SECRETS.untyped()).get(&key)?;
            problems.extend(problem_of(&key.name, secret.as_ref().map(SecretSummary::of).as_ref()));
        }
        let state = if problems.is_empty() { "ok".to_owned() } else { problems.join("; ") };
        if ingress.metadata.annotations.as_ref().and_then(|all| all.get(STATE)) == Some(&state) {
            return Ok(Outcome::Done);
        }
        ctx.client().patch::<Ingress>(
            &request.key,
            &Patch::Merge(&json!({"metadata": {"annotations": {STATE: state}}})),
        )?;
        if problems.is_empty() {
            ctx.events().normal(&ingress, "TLSReady", "Check", "Every TLS Secret is usable");
        } else {
            ctx.events().warning(&ingress, "TLSNotReady", "Check", state);
        }
        Ok(Outcome::Done)
    }
}

/// Returns the keys of the Secrets that an Ingress uses for TLS; they are in its namespace.
fn secrets(ingress: &Ingress) -> Vec<ObjectKey> {
    let own = ObjectKey::of(ingress);
    let tls = ingress.spec.as_ref().and_then(|spec| spec.tls.as_deref()).unwrap_or_default();
    tls.iter().filter_map(|tls| tls.secret_name.as_deref()).map(|name| own.sibling(name)).collect()
}

/// The properties of a Secret that matter here. The Secret's data is not copied into the plugin as a whole.
struct SecretSummary {
    kind: String,
    has_certificate: bool,
    has_key: bool,
}

impl SecretSummary {
    fn of(secret: &Object) -> Self {
        Self {
            kind: secret.text("/type").unwrap_or_default(),
            has_certificate: secret.text("/data/tls.crt").is_some_and(|text| !text.is_empty()),
            has_key: secret.text("/data/tls.key").is_some_and(|text| !text.is_empty()),
        }
    }
}

/// Returns what is wrong with a TLS Secret, if anything.
fn problem_of(name: &str, secret: Option<&SecretSummary>) -> Option<String> {
    let problem = match secret {
        None => "is missing".to_owned(),
        Some(summary) if summary.kind != "kubernetes.io/tls" => {
            format!("is of type {:?}, not kubernetes.io/tls", summary.kind)
        }
        Some(summary) if !summary.has_certificate => "has no tls.crt".to_owned(),
        Some(summary) if !summary.has_key => "has no tls.key".to_owned(),
        Some(_) => return None,
    };
    Some(format!("Secret {name} {problem}"))
}

pilothouse_sdk::export!(IngressTls: Reconciler + Indexer);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_is_reported() {
        let usable =
            || SecretSummary { kind: "kubernetes.io/tls".into(), has_certificate: true, has_key: true };
        assert_eq!(problem_of("web", Some(&usable())), None);
        assert_eq!(problem_of("web", None).as_deref(), Some("Secret web is missing"));
        let opaque = SecretSummary { kind: "Opaque".into(), ..usable() };
        assert!(problem_of("web", Some(&opaque)).unwrap().contains("not kubernetes.io/tls"));
        let without_key = SecretSummary { has_key: false, ..usable() };
        assert_eq!(problem_of("web", Some(&without_key)).as_deref(), Some("Secret web has no tls.key"));
    }
}
