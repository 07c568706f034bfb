//! Says on each Ingress whether the Secrets for its TLS are there and usable: a wrong name there is silent otherwise.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::networking::v1::Ingress;
use pilothouse_sdk::client::{self, Patch};
use pilothouse_sdk::serde_json::json;
use pilothouse_sdk::{
    Config, Context, Describe, Error, Index, Indexer, Object, ObjectKey, Outcome, Plugin, Reconciler,
    Request, Watch, WriteRule,
};

/// On an Ingress: `ok`, or what is wrong.
const STATE: &str = "ingress-tls.example.com/state";

/// The plugin.
#[derive(Default)]
struct IngressTls;

impl Describe for IngressTls {
    fn describe(_: &Config) -> Result<Plugin, Error> {
        Ok(Plugin::new("ingress-tls", env!("CARGO_PKG_VERSION"))
            .summary("Says on each Ingress whether its TLS Secrets are usable")
            .watch(
                Watch::of::<Ingress>("ingresses")
                    .triggers_itself()
                    // Its own annotation changes no generation: it does not wake itself.
                    .predicate("generationChanged()")
                    .index(Index::computed("bySecret")),
            )
            // A Secret wakes the Ingresses that use it, those that wait for it to be made included.
            .watch(Watch::of::<Secret>("secrets").triggers_index("ingresses", "bySecret"))
            .writes(WriteRule::of::<Ingress>(&["patch"])))
    }
}

impl Indexer for IngressTls {
    /// The keys of the Secrets that an Ingress uses.
    fn values(&self, _: &str, ingress: &Object) -> Vec<String> {
        ingress
            .parse::<Ingress>()
            .map(|ingress| secrets(&ingress).iter().map(ToString::to_string).collect())
            .unwrap_or_default()
    }
}

impl Reconciler for IngressTls {
    fn reconcile(&self, ctx: &Context<'_>, request: &Request) -> Result<Outcome, Error> {
        let Some(ingress) = ctx.cache::<Ingress>("ingresses").get(&request.key)? else {
            return Ok(Outcome::Done);
        };
        let mut complaints = Vec::new();
        for key in secrets(&ingress) {
            let secret = ctx.cache::<Object>("secrets").get(&key)?;
            complaints.extend(complaint(&key.name, secret.as_ref().map(Facts::of).as_ref()));
        }
        let state = if complaints.is_empty() { "ok".to_owned() } else { complaints.join("; ") };
        if ingress.metadata.annotations.as_ref().and_then(|all| all.get(STATE)) == Some(&state) {
            return Ok(Outcome::Done);
        }
        client::patch::<Ingress>(
            &request.key,
            &Patch::Merge(&json!({"metadata": {"annotations": {STATE: state}}})),
        )?;
        if complaints.is_empty() {
            ctx.events().normal(&ingress, "TLSReady", "Check", "Every TLS Secret is there");
        } else {
            ctx.events().warning(&ingress, "TLSNotReady", "Check", state);
        }
        Ok(Outcome::Done)
    }
}

/// The Secrets that an Ingress uses for TLS, in its own namespace.
fn secrets(ingress: &Ingress) -> Vec<ObjectKey> {
    let own = ObjectKey::of(ingress);
    let tls = ingress.spec.as_ref().and_then(|spec| spec.tls.as_deref()).unwrap_or_default();
    tls.iter().filter_map(|tls| tls.secret_name.as_deref()).map(|name| own.sibling(name)).collect()
}

/// What matters of a Secret. Its data stays in the host.
struct Facts {
    kind: String,
    has_certificate: bool,
    has_key: bool,
}

impl Facts {
    fn of(secret: &Object) -> Self {
        Self {
            kind: secret.text("/type").unwrap_or_default(),
            has_certificate: secret.text("/data/tls.crt").is_some_and(|text| !text.is_empty()),
            has_key: secret.text("/data/tls.key").is_some_and(|text| !text.is_empty()),
        }
    }
}

fn complaint(name: &str, secret: Option<&Facts>) -> Option<String> {
    let problem = match secret {
        None => "is missing".to_owned(),
        Some(facts) if facts.kind != "kubernetes.io/tls" => {
            format!("is of type {:?}, not kubernetes.io/tls", facts.kind)
        }
        Some(facts) if !facts.has_certificate => "has no tls.crt".to_owned(),
        Some(facts) if !facts.has_key => "has no tls.key".to_owned(),
        Some(_) => return None,
    };
    Some(format!("Secret {name} {problem}"))
}

pilothouse_sdk::export!(IngressTls: Reconciler + Indexer);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_is_named() {
        let fine = || Facts { kind: "kubernetes.io/tls".into(), has_certificate: true, has_key: true };
        assert_eq!(complaint("web", Some(&fine())), None);
        assert_eq!(complaint("web", None).as_deref(), Some("Secret web is missing"));
        let opaque = Facts { kind: "Opaque".into(), ..fine() };
        assert!(complaint("web", Some(&opaque)).unwrap().contains("not kubernetes.io/tls"));
        let without_key = Facts { has_key: false, ..fine() };
        assert_eq!(complaint("web", Some(&without_key)).as_deref(), Some("Secret web has no tls.key"));
    }
}
