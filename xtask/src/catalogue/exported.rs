//! `cargo xtask exported`: exports the findings in the catalogue's wrong twins, and provokes them on a real kube-apiserver.
//!
//! A finding counts as reproduced if the exported script reproduces it with the wrong twin, and does not with the right one.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::table::{Case, Catalogue, Twin};
use super::{FOLDER, build_host, guests, selected, simulate};
use crate::conformance::KubeApiServer;
use crate::tools;

/// The number of findings that must be reproduced if all cases are selected.
const REQUIRED: usize = 10;
/// The number of findings of one case that are tried.
const MAX_FINDINGS: usize = 4;
/// The header of the printed table.
const HEADER: &str = " no  case                   finding  wrong twin      right twin      oracle or reason";

/// The options of the command.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Names of the cases; all by default.
    names: Vec<String>,
    /// Use this `pilothouse` instead of building one in release mode.
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
    /// Use the plugins in this folder instead of building them.
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
    /// Use this cluster instead of starting the kube-apiserver that `cargo xtask conformance --build` has built.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Attempt {
    /// Which finding of the search, from 1; 0 if there is none.
    finding: usize,
    wrong: ScriptOutcome,
    right: ScriptOutcome,
    /// The oracle, or why there is no outcome.
    remark: String,
}

/// The outcome of the exported script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScriptOutcome {
    Reproduced,
    NotReproduced,
    CouldNotRun,
    /// The script was not run.
    None,
}

impl ScriptOutcome {
    /// Returns the outcome of an exit code.
    fn of(code: Option<i32>) -> Self {
        match code {
            Some(1) => Self::Reproduced,
            Some(0) => Self::NotReproduced,
            _ => Self::CouldNotRun,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::NotReproduced => "not reproduced",
            Self::CouldNotRun => "could not run",
            Self::None => "-",
        }
    }
}

impl Attempt {
    /// Whether the finding happens with the bug, and does not without it.
    fn is_proof(&self) -> bool {
        self.wrong == ScriptOutcome::Reproduced && self.right == ScriptOutcome::NotReproduced
    }

    fn without_outcome(finding: usize, remark: String) -> Self {
        Self { finding, wrong: ScriptOutcome::None, right: ScriptOutcome::None, remark }
    }

    /// Returns the line of the printed table.
    fn line(&self, case: &Case) -> String {
        let finding = if self.finding == 0 { "-".to_owned() } else { self.finding.to_string() };
        let (number, name) = (case.number, &case.name);
        let (wrong, right) = (self.wrong.text(), self.right.text());
        format!("{number:>3}  {name:<22} {finding:>7}  {wrong:<14}  {right:<14}  {}", self.remark)
    }
}

/// Exports a finding of each case, runs the scripts, and prints a line for each.
///
/// # Errors
/// Errors if something does not build or start, or if too few findings are reproduced.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    let catalogue = Catalogue::read(root)?;
    let cases = selected(&catalogue, &arguments.names)?;
    let required = if arguments.names.is_empty() { REQUIRED } else { cases.len() };
    let host = arguments.host.clone().map_or_else(|| build_host(root), Ok)?;
    let plugins = arguments.plugins.clone().map_or_else(|| guests::build(root, &cases), Ok)?;
    let server = match &arguments.kubeconfig {
        Some(_) => None,
        None => Some(start_server(root)?),
    };
    let kubeconfig = server.as_ref().map(KubeApiServer::kubeconfig).or_else(|| arguments.kubeconfig.clone());
    let kubeconfig = kubeconfig.context("no kubeconfig: give --kubeconfig")?;
    let folder = root.join("target/exported");
    let setting = Setting { root, host, plugins, kubeconfig, folder };
    println!("{HEADER}");
    let mut proofs = 0;
    for case in cases {
        let attempt = setting.attempt(case)?;
        println!("{}", attempt.line(case));
        proofs += usize::from(attempt.is_proof());
    }
    println!(
        "{proofs} reproduced with the wrong twin, and not with the right one; the scripts' output is in {}",
        setting.folder.display()
    );
    ensure!(proofs >= required, "{required} findings must be reproduced, only {proofs} were");
    Ok(())
}

fn start_server(root: &Path) -> Result<KubeApiServer> {
    let Some(program) = tools::KUBE_APISERVER.installed(root)? else {
        bail!(
            "no kube-apiserver was built on this machine: run `cargo xtask conformance --build`, or give --kubeconfig"
        );
    };
    KubeApiServer::start(&root.join("target/exported/kube-apiserver"), &program)
}

/// What all cases have in common.
struct Setting<'a> {
    root: &'a Path,
    host: PathBuf,
    plugins: PathBuf,
    kubeconfig: PathBuf,
    folder: PathBuf,
}

impl Setting<'_> {
    /// Tries the findings of a case until one is a proof. Returns the last attempt.
    fn attempt(&self, case: &Case) -> Result<Attempt> {
        let folder = self.folder.join(&case.name);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
        }
        let wrong = self.plugins.join(case.plugin(Twin::Wrong));
        let scenario = self.root.join(FOLDER).join(&case.scenario);
        let report = simulate(&self.host, &wrong, Some(&scenario), &folder, &[])?;
        let mut last = Attempt::without_outcome(0, "the simulation found nothing".to_owned());
        for (index, finding) in report.findings.iter().enumerate().take(MAX_FINDINGS) {
            let number = index + 1;
            let exported = folder.join(format!("finding-{number}"));
            if let Err(reason) =
                self.export(case, &folder.join(format!("finding-{number}.trace")), &exported)?
            {
                last = Attempt::without_outcome(number, reason);
                continue;
            }
            let wrong = self.reproduce(&exported, None)?;
            let right = match wrong {
                ScriptOutcome::Reproduced => {
                    self.reproduce(&exported, Some(&self.plugins.join(case.plugin(Twin::Right))))?
                }
                _ => ScriptOutcome::None,
            };
            last = Attempt { finding: number, wrong, right, remark: finding.oracle.clone() };
            if last.is_proof() {
                break;
            }
        }
        Ok(last)
    }

    /// Exports a finding. Returns the reason if that is impossible.
    fn export(&self, case: &Case, trace: &Path, folder: &Path) -> Result<Result<(), String>> {
        let output = Command::new(&self.host)
            .arg("sim")
            .arg(self.plugins.join(case.plugin(Twin::Wrong)))
            .arg("--scenario")
            .arg(self.root.join(FOLDER).join(&case.scenario))
            .arg("--replay")
            .arg(trace)
            .arg("--export")
            .arg(folder)
            .output()
            .with_context(|| format!("start {}", self.host.display()))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(1) if folder.join("finding.json").is_file() => Ok(Ok(())),
            Some(0) => Ok(Err("the replay did not find it again".to_owned())),
            Some(2) if errors.contains("cannot be exported") => {
                Ok(Err(errors.lines().last().unwrap_or_default().chars().take(120).collect()))
            }
            _ => bail!(
                "`pilothouse sim --export` of {} ended with {}:\n{errors}",
                trace.display(),
                output.status
            ),
        }
    }

    /// Runs an exported script, and keeps its output beside it.
    fn reproduce(&self, folder: &Path, plugin: Option<&Path>) -> Result<ScriptOutcome> {
        let mut command = Command::new("python3");
        command.arg("-B").arg(folder.join("reproduce.py"));
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--pilothouse").arg(&self.host);
        if let Some(plugin) = plugin {
            command.arg("--plugin").arg(plugin);
        }
        let Output { status, stdout, stderr } = command.output().context("start python3")?;
        let mut text = String::from_utf8_lossy(&stdout).into_owned();
        // Writing to a string cannot fail.
        let _ = write!(text, "{}\n{status}\n", String::from_utf8_lossy(&stderr));
        let log = folder.join(if plugin.is_some() { "right.log" } else { "wrong.log" });
        fs::write(&log, text).with_context(|| format!("write {}", log.display()))?;
        Ok(ScriptOutcome::of(status.code()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::catalogue;
    use super::*;

    fn attempt(wrong: Option<i32>, right: Option<i32>) -> Attempt {
        Attempt {
            finding: 2,
            wrong: ScriptOutcome::of(wrong),
            right: ScriptOutcome::of(right),
            remark: "summary".to_owned(),
        }
    }

    #[test]
    fn only_a_finding_that_the_right_twin_does_not_have_is_a_proof() {
        assert!(attempt(Some(1), Some(0)).is_proof());
        assert!(!attempt(Some(1), Some(1)).is_proof());
        assert!(!attempt(Some(1), Some(2)).is_proof());
        assert!(!attempt(Some(0), Some(0)).is_proof());
        assert!(!attempt(None, Some(0)).is_proof());
    }

    #[test]
    fn a_line_has_the_columns_of_the_header() {
        let catalogue = catalogue("gaps: []\n");
        let case = &catalogue.cases[0];
        let line = attempt(Some(1), Some(0)).line(case);
        assert_eq!(line, "  1  a                            2  reproduced      not reproduced  summary");
        assert_eq!(HEADER.find("oracle"), line.find("summary"));
        let none = Attempt::without_outcome(0, "nothing".to_owned()).line(case);
        assert_eq!(HEADER.find("oracle"), none.find("nothing"));
    }
}
