//! `pilothouse rbac`: the roles that the host needs to run some plugins.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_controller::Right;

use crate::cli::Rbac;
use crate::{Failed, Outcome, checking, output};

pub(crate) async fn run(flags: Rbac) -> Outcome {
    let (namespace, account) = account(&flags.service_account)?;
    if !is_name(&flags.name) {
        let name = &flags.name;
        return Err(Failed::Usage(format!("--name {name:?}: use lower-case letters, digits, '-' and '.'")));
    }
    let mut roles = Roles::default();
    let mut names = Vec::new();
    for file in &flags.files {
        let report = checking::discovered(file, flags.kubeconfig.as_deref()).await?;
        for right in &report.rights {
            roles.add(&report.name, right);
        }
        names.push(report.name);
    }
    output::line(format_args!(
        "# What the host needs to run {}: made by `pilothouse rbac`.",
        names.join(", ")
    ));
    output::line(roles.yaml(&flags.name, namespace, account));
    Ok(())
}

fn account(text: &str) -> Result<(&str, &str), Failed> {
    let parts = text.split_once('/').filter(|(namespace, name)| is_name(namespace) && is_name(name));
    parts.ok_or_else(|| Failed::Usage(format!("--service-account {text}: write it as NAMESPACE/NAME")))
}

fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    !text.is_empty() && text.bytes().all(plain)
}

/// Verbs and reasons by resource, by namespace; the namespace "" is the cluster.
#[derive(Default)]
struct Roles(BTreeMap<String, BTreeMap<(String, String), Rule>>);

#[derive(Default)]
struct Rule {
    verbs: BTreeSet<String>,
    /// What needs it, by plugin.
    reasons: BTreeMap<String, BTreeSet<String>>,
    is_guess: bool,
}

impl Roles {
    fn add(&mut self, plugin: &str, right: &Right) {
        let rules = self.0.entry(right.namespace.clone()).or_default();
        let rule = rules.entry((right.group.clone(), right.resource.clone())).or_default();
        rule.verbs.insert(right.verb.clone());
        rule.reasons.entry(plugin.to_owned()).or_default().insert(right.needed_for.clone());
        rule.is_guess |= right.is_guess;
    }

    /// A role for each namespace, each with its binding.
    fn yaml(&self, name: &str, account_namespace: &str, account: &str) -> String {
        let mut documents = Vec::new();
        for (namespace, rules) in &self.0 {
            let prefix = if namespace.is_empty() { "Cluster" } else { "" };
            let place = if namespace.is_empty() {
                String::new()
            } else {
                format!("  namespace: {}\n", quoted(namespace))
            };
            let head = |kind: &str| {
                format!(
                    "apiVersion: rbac.authorization.k8s.io/v1\nkind: {prefix}{kind}\nmetadata:\n  name: {name}\n{place}"
                )
            };
            let rules: String =
                rules.iter().map(|((group, resource), rule)| rule.yaml(group, resource)).collect();
            documents.push(format!("{}rules:\n{rules}", head("Role")));
            documents.push(format!(
                "{}roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {prefix}Role\n  name: {name}\nsubjects:\n  - kind: \
                 ServiceAccount\n    name: {account}\n    namespace: {account_namespace}\n",
                head("RoleBinding")
            ));
        }
        documents.join("---\n").trim_end().to_owned()
    }
}

impl Rule {
    fn yaml(&self, group: &str, resource: &str) -> String {
        let mut text = String::new();
        for (plugin, reasons) in &self.reasons {
            let reasons: Vec<_> = reasons.iter().map(String::as_str).collect();
            text += &format!("  # {plugin}: {}\n", reasons.join(", ").escape_debug());
        }
        if self.is_guess {
            text += "  # The plural is a guess: give --kubeconfig of a server that knows the kind.\n";
        }
        let verbs: Vec<_> = self.verbs.iter().map(|verb| quoted(verb)).collect();
        let (group, resource, verbs) = (quoted(group), quoted(resource), verbs.join(", "));
        text + &format!("  - apiGroups: [{group}]\n    resources: [{resource}]\n    verbs: [{verbs}]\n")
    }
}

/// A descriptor's text as YAML: JSON's strings are.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use pilothouse_controller::Verdict;

    use super::*;

    fn right(namespace: &str, resource: &str, verb: &str, needed_for: &str) -> Right {
        Right {
            group: "apps".into(),
            resource: resource.into(),
            verb: verb.into(),
            namespace: namespace.into(),
            needed_for: needed_for.into(),
            is_guess: false,
            allowed: Verdict::Unverified,
        }
    }

    #[test]
    fn rights_of_several_plugins_are_merged_with_their_reasons() {
        let mut roles = Roles::default();
        roles.add("b", &right("", "deployments", "list", "watch w"));
        roles.add("a", &right("", "deployments", "get", "watch w"));
        roles.add("a", &right("", "deployments", "get", "writes[0]"));
        roles.add("a", &right("shop", "deployments", "update", "writes[1]"));
        let text = roles.yaml("pilothouse", "system", "runner");
        let expected = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: pilothouse\nrules:\n  \
                        # a: watch w, writes[0]\n  # b: watch w\n  - apiGroups: [\"apps\"]\n    resources: [\"deployments\"]\n    \
                        verbs: [\"get\", \"list\"]\n---\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(
            text.contains("kind: Role\nmetadata:\n  name: pilothouse\n  namespace: \"shop\"\n"),
            "{text}"
        );
        assert_eq!(text.matches("    name: runner\n    namespace: system").count(), 2, "{text}");
    }

    #[test]
    fn an_account_has_a_namespace_and_a_name() {
        assert_eq!(account("pilothouse/runner").ok(), Some(("pilothouse", "runner")));
        for bad in ["runner", "a/b/c", "/b", "a/", "A/b", "a/b: c"] {
            assert!(matches!(account(bad), Err(Failed::Usage(_))), "{bad}");
        }
    }
}
