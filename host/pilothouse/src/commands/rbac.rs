//! `pilothouse rbac`: the roles that the host, and the plugins' service accounts, need to run some plugins.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pilothouse_controller::{CheckReport, Right, ServiceAccount};

use super::run::config;
use crate::cli::Rbac;
use crate::{Failed, Outcome, checking, output};

pub(crate) async fn run(flags: Rbac) -> Outcome {
    let host = ServiceAccount::parse(&flags.service_account)
        .map_err(|error| Failed::Usage(format!("--service-account: {error}")))?;
    if !is_name(&flags.name) {
        let name = &flags.name;
        return Err(Failed::Usage(format!("--name {name:?}: use lower-case letters, digits, '-' and '.'")));
    }
    distinct(&flags.files)?;
    let config = config(flags.config.as_deref())?;
    let host_config = (config.grant_crds, config.grants);
    let mut roles = Roles::new(host, flags.name);
    let mut names = Vec::new();
    let mut remarks = Vec::new();
    for file in &flags.files {
        let report = checking::discovered(file, flags.kubeconfig.as_deref(), host_config).await?;
        for right in &report.rights {
            roles.add(&report.name, right);
            if right.needed_for == "events" && !right.namespace.is_empty() {
                // Those about the plugin itself go where the host is.
                let namespace = roles.host.namespace().to_owned();
                roles.add(&report.name, &Right { namespace, ..right.clone() });
            }
        }
        remarks.extend(remark(&report));
        remarks.extend(report.problems.iter().map(|problem| format!("{}: {problem}", report.name)));
        names.push(report.name);
    }
    output::line(format_args!("# What is needed to run {}: made by `pilothouse rbac`.", names.join(", ")));
    for remark in remarks {
        output::line(format_args!("# {}", remark.escape_debug()));
    }
    output::line(roles.yaml());
    Ok(())
}

/// A host has one plugin of a name: what two of them need would be told as if it were one's.
fn distinct(files: &[PathBuf]) -> Outcome {
    let mut seen = BTreeMap::new();
    for file in files {
        if let Some(other) = seen.insert(file.file_stem(), file) {
            return Err(Failed::Usage(format!(
                "{} and {} are one plugin by their name, of which a host runs only one; print each host's roles apart, with another \
                 --name",
                other.display(),
                file.display()
            )));
        }
    }
    Ok(())
}

/// CRDs that nobody but the operator will apply.
fn remark(report: &CheckReport) -> Option<String> {
    let granted = report.rights.iter().any(|right| right.needed_for == "crds");
    (!granted && !report.crds.is_empty()).then(|| {
        let (name, crds) = (&report.name, report.crds.join(", "));
        format!(
            "{name}: apply {crds} by hand; the host may not (grants: {{crds: true}} in {name}.yaml lets it)"
        )
    })
}

fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    !text.is_empty() && text.bytes().all(plain)
}

/// Verbs and reasons by resource, by who gets them and in which namespace; the namespace "" is the cluster.
struct Roles {
    host: ServiceAccount,
    name: String,
    of: BTreeMap<(Option<ServiceAccount>, String), BTreeMap<Resource, Rule>>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Resource {
    group: String,
    plural: String,
    names: Vec<String>,
}

#[derive(Default)]
struct Rule {
    verbs: BTreeSet<String>,
    /// What needs it, by plugin.
    reasons: BTreeMap<String, BTreeSet<String>>,
    is_guess: bool,
}

impl Roles {
    fn new(host: ServiceAccount, name: String) -> Self {
        Self { host, name, of: BTreeMap::new() }
    }

    fn add(&mut self, plugin: &str, right: &Right) {
        // A plugin may run as the host's own account.
        let account = right.service_account.clone().filter(|account| *account != self.host);
        let rules = self.of.entry((account, right.namespace.clone())).or_default();
        let resource = Resource {
            group: right.group.clone(),
            plural: right.resource.clone(),
            names: right.names.clone(),
        };
        let rule = rules.entry(resource).or_default();
        rule.verbs.insert(right.verb.clone());
        rule.reasons.entry(plugin.to_owned()).or_default().insert(right.needed_for.clone());
        rule.is_guess |= right.is_guess;
    }

    /// A role for each account and namespace, each with its binding.
    fn yaml(&self) -> String {
        let mut documents = Vec::new();
        for ((account, namespace), rules) in &self.of {
            let name = match account {
                None => self.name.clone(),
                // No name of a namespace has a colon, so no two accounts get the same.
                Some(account) => format!("{}:{}:{}", self.name, account.namespace(), account.name()),
            };
            let account = account.as_ref().unwrap_or(&self.host);
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
            let rules: String = rules.iter().map(|(resource, rule)| rule.yaml(resource)).collect();
            documents.push(format!("{}rules:\n{rules}", head("Role")));
            documents.push(format!(
                "{}roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {prefix}Role\n  name: {name}\nsubjects:\n  - kind: \
                 ServiceAccount\n    name: {}\n    namespace: {}\n",
                head("RoleBinding"),
                account.name(),
                account.namespace()
            ));
        }
        documents.join("---\n").trim_end().to_owned()
    }
}

impl Rule {
    fn yaml(&self, resource: &Resource) -> String {
        let mut text = String::new();
        for (plugin, reasons) in &self.reasons {
            let reasons: Vec<_> = reasons.iter().map(String::as_str).collect();
            text += &format!("  # {plugin}: {}\n", reasons.join(", ").escape_debug());
        }
        if self.is_guess {
            text += "  # The plural is a guess: give --kubeconfig of a server that knows the kind.\n";
        }
        let list = |texts: &mut dyn Iterator<Item = &String>| {
            texts.map(|text| quoted(text)).collect::<Vec<_>>().join(", ")
        };
        let (group, plural) = (quoted(&resource.group), quoted(&resource.plural));
        text += &format!("  - apiGroups: [{group}]\n    resources: [{plural}]\n");
        if !resource.names.is_empty() {
            text += &format!("    resourceNames: [{}]\n", list(&mut resource.names.iter()));
        }
        text + &format!("    verbs: [{}]\n", list(&mut self.verbs.iter()))
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

    fn right(account: Option<&str>, namespace: &str, verb: &str, needed_for: &str) -> Right {
        Right {
            service_account: account.map(|text| ServiceAccount::parse(text).expect("an account")),
            group: "apps".into(),
            resource: "deployments".into(),
            verb: verb.into(),
            namespace: namespace.into(),
            names: Vec::new(),
            needed_for: needed_for.into(),
            is_guess: false,
            allowed: Verdict::Unverified,
        }
    }

    fn roles() -> Roles {
        Roles::new(ServiceAccount::parse("system/runner").expect("an account"), "pilothouse".into())
    }

    #[test]
    fn rights_of_several_plugins_are_merged_with_their_reasons() {
        let mut roles = roles();
        roles.add("b", &right(None, "", "list", "watch w"));
        roles.add("a", &right(None, "", "get", "watch w"));
        roles.add("a", &right(None, "", "get", "writes[0]"));
        roles.add("a", &right(None, "shop", "update", "writes[1]"));
        let text = roles.yaml();
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
    fn each_account_gets_a_role_of_its_own() {
        let mut roles = roles();
        roles.add("a", &right(None, "", "list", "watch w"));
        roles.add("a", &right(Some("bots/a"), "", "get", "watch w"));
        roles.add("b", &right(Some("system/runner"), "", "watch", "watch w"));
        let text = roles.yaml();
        let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("  name: ")).collect();
        // Of each the role, its binding, and the name of the role in that.
        assert_eq!(names, [["pilothouse"; 3], ["pilothouse:bots:a"; 3]].concat(), "{text}");
        assert!(text.contains("    name: a\n    namespace: bots"), "{text}");
        assert!(text.contains("verbs: [\"list\", \"watch\"]"), "the host's own account needs both: {text}");
    }

    #[test]
    fn a_right_on_some_objects_names_them() {
        let mut roles = roles();
        let names = vec!["web".to_owned()];
        roles.add("a", &Right { names, ..right(None, "", "get", "watch w") });
        roles.add("a", &right(None, "", "list", "watch v"));
        let text = roles.yaml();
        assert!(text.contains("    resourceNames: [\"web\"]\n    verbs: [\"get\"]"), "{text}");
        assert!(text.contains("    resources: [\"deployments\"]\n    verbs: [\"list\"]"), "{text}");
    }

    #[test]
    fn two_plugins_of_one_name_are_refused() {
        let refused = distinct(&["a/x.wasm".into(), "b/y.wasm".into(), "b/x.wasm".into()]);
        assert!(
            matches!(refused, Err(Failed::Usage(text)) if text.contains("a/x.wasm and b/x.wasm")),
            "both are named"
        );
        assert!(distinct(&["a/x.wasm".into(), "b/y.wasm".into()]).is_ok());
    }
}
