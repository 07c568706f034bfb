//! Runs commands of helm with the chart that `helm create` makes.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::outcome::{Outcome, Outcomes};
use crate::tools;

/// A stage with which the Pods of `helm test` end.
pub(super) const STAGES: &str = "\
apiVersion: pilothouse.dev/v1alpha1
kind: Stage
metadata: {name: complete}
spec:
  resourceRef: {kind: Pod}
  selector:
    matchExpressions:
    - {key: .status.phase, operator: In, values: [Running]}
    - {key: .spec.restartPolicy, operator: In, values: [Never]}
    - {key: .metadata.ownerReferences, operator: DoesNotExist}
  delay: {durationMilliseconds: 500}
  next:
    status:
      phase: Succeeded
      conditions: [{type: Ready, status: \"False\", reason: PodCompleted}]
";

/// The commands, in the order in which they run, whether they succeed on a cluster, and a text that they print then.
const COMMANDS: &[(&str, bool, &str)] = &[
    ("create demo", true, "Creating demo"),
    ("lint demo", true, "1 chart(s) linted"),
    ("template web demo --validate", true, "kind: Deployment"),
    ("install web demo --dry-run=server", true, "STATUS: pending-install"),
    ("status web", false, "release: not found"),
    ("install web demo --wait --timeout 60s", true, "STATUS: deployed"),
    ("install web demo", false, "cannot re-use a name that is still in use"),
    ("list", true, "demo-0.1.0"),
    ("status web", true, "REVISION: 1"),
    ("get manifest web", true, "kind: Service"),
    ("get values web --all", true, "replicaCount: 1"),
    ("get hooks web", true, "helm.sh/hook"),
    ("get notes web", true, "port-forward"),
    ("test web --timeout 60s", true, "Phase:          Succeeded"),
    ("upgrade web demo --set replicaCount=3 --wait --timeout 60s", true, "REVISION: 2"),
    ("upgrade web demo --reuse-values --set service.port=8080 --wait --timeout 60s", true, "REVISION: 3"),
    ("upgrade web demo --reuse-values --set service.type=Nonsense", false, "Unsupported value: \"Nonsense\""),
    ("history web", true, "failed"),
    ("rollback web 1 --wait --timeout 60s", true, "Rollback was a success"),
    (
        "upgrade web demo --reuse-values --set service.type=Nonsense --atomic --timeout 60s",
        false,
        "has been rolled back",
    ),
    ("status web", true, "STATUS: deployed"),
    (
        "upgrade --install api demo --namespace api --create-namespace --set autoscaling.enabled=true --wait --timeout 60s",
        true,
        "STATUS: deployed",
    ),
    (
        "upgrade --install api demo --namespace api --set ingress.enabled=true,autoscaling.enabled=true",
        true,
        "REVISION: 2",
    ),
    ("list --all-namespaces", true, "api"),
    ("install broken demo --set service.port=99999 --atomic --timeout 60s", false, "Invalid value"),
    ("status broken", false, "release: not found"),
    ("install api demo --set fullnameOverride=web-demo", false, "invalid ownership metadata"),
    ("rollback web 99", false, "release has no 99 version"),
    ("uninstall web --keep-history --wait --timeout 60s", true, "uninstalled"),
    ("list --uninstalled", true, "web"),
    ("rollback web 1 --wait --timeout 60s", true, "Rollback was a success"),
    ("uninstall web --wait --timeout 60s", true, "uninstalled"),
    ("uninstall api --namespace api --cascade foreground --wait --timeout 60s", true, "uninstalled"),
    ("uninstall web", false, "release: not found"),
    ("uninstall web --ignore-not-found", true, ""),
    ("list --all --all-namespaces --short", true, ""),
];

/// Runs the commands against the server of a kubeconfig. `folder` must be empty.
///
/// # Errors
/// Errors if helm cannot be built or started.
pub(super) fn run(kubeconfig: &Path, folder: &Path) -> Result<Outcomes> {
    let program = tools::HELM.install()?;
    let mut outcomes = Outcomes::default();
    for (line, succeeds, text) in COMMANDS {
        let mut helm = Command::new(&program);
        for (variable, name) in
            [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
        {
            helm.env(variable, folder.join("helm").join(name));
        }
        let output = helm
            .current_dir(folder)
            .args(line.split(' '))
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("start {}", program.display()))?;
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let printed = format!("{stdout}{stderr}");
        outcomes.insert(&format!("helm {line}"), outcome(*succeeds, text, output.status.success(), &printed));
    }
    Ok(outcomes)
}

/// Returns whether a command succeeded or failed as it should and printed the text.
fn outcome(should_succeed: bool, text: &str, succeeded: bool, printed: &str) -> Outcome {
    let problem = match (should_succeed, succeeded) {
        (true, false) => "fails",
        (false, true) => "succeeds, but must fail",
        _ if !printed.contains(text) => "does not print the expected text",
        _ => return Outcome::Passed,
    };
    Outcome::Failed(format!("{problem}: {}", printed.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_passes_if_its_result_and_its_text_are_right() {
        let failed = |text: &str| Outcome::Failed(text.to_owned());
        assert_eq!(outcome(true, "deployed", true, "STATUS: deployed\n"), Outcome::Passed);
        assert_eq!(outcome(true, "deployed", false, "Error: x\n"), failed("fails: Error: x"));
        assert_eq!(outcome(false, "x", false, "Error: x\n"), Outcome::Passed);
        assert_eq!(outcome(false, "x", true, "x\n"), failed("succeeds, but must fail: x"));
        assert_eq!(outcome(true, "a", true, "b\n"), failed("does not print the expected text: b"));
    }
}
