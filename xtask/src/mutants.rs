//! `cargo xtask mutants`: mutation testing. Inserts each fault of `host/informer/mutants.json` into a copy of the informer and checks
//! that the tests fail.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{cargo, checkout};

/// Time limit for the tests, longer than they take without a fault. A fault that makes them hang counts as caught.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The `cargo test` arguments of each stage. The faster tests come first: they catch most faults, and then the others need not be
/// compiled. The model's tests are included because the informer relies on its transforms and paths.
const STAGES: [&[&str]; 2] = [
    &["--package", "pilothouse-informer", "--package", "pilothouse-model", "--lib"],
    &["--package", "pilothouse-informer", "--test", "convergence"],
];

/// A fault to insert: an entry of mutants.json.
struct Mutant {
    behaviour: String,
    /// The member `what`.
    description: String,
    file: PathBuf,
    from: String,
    to: String,
}

/// Tests the mutants whose behaviour or description contains `only`, or all.
#[expect(clippy::disallowed_methods, reason = "another process works meanwhile, in real time")]
pub(crate) fn run(root: &Path, only: Option<&str>) -> Result<()> {
    let mutants = read(&root.join("host/informer/mutants.json"))?;
    let chosen: Vec<_> =
        mutants.iter().filter(|mutant| only.is_none_or(|text| mutant.name().contains(text))).collect();
    ensure!(!chosen.is_empty(), "no mutant's name contains {:?}", only.unwrap_or_default());
    let copy = root.join("target/mutants/checkout");
    checkout::copy_to(root, &copy)?;
    println!("mutants: testing the unchanged informer (compiles for several minutes the first time)");
    for stage in STAGES {
        let passes = compile(root, &copy, stage)? && passes(root, &copy, stage)?;
        ensure!(passes, "the tests fail without any mutant: cargo test {}", stage.join(" "));
    }
    let mut survivors = Vec::new();
    for mutant in &chosen {
        let start = SystemTime::now();
        let caught = mutant.is_caught(root, &copy)?;
        let seconds = start.elapsed().unwrap_or_default().as_secs();
        println!(
            "mutants: {} {seconds:4} s  {}",
            if caught { "caught  " } else { "SURVIVED" },
            mutant.name()
        );
        if !caught {
            survivors.push(mutant.name());
        }
    }
    ensure!(
        survivors.is_empty(),
        "{} of {} survived: {}",
        survivors.len(),
        chosen.len(),
        survivors.join("; ")
    );
    println!("mutants: all {} were caught", chosen.len());
    Ok(())
}

impl Mutant {
    fn name(&self) -> String {
        format!("{} {}", self.behaviour, self.description).trim().to_owned()
    }

    fn is_caught(&self, root: &Path, copy: &Path) -> Result<bool> {
        let path = copy.join("host/informer").join(&self.file);
        let source = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let mutated = self.apply(&source)?;
        fs::write(&path, mutated).with_context(|| format!("write {}", path.display()))?;
        let caught = self.fails_a_stage(root, copy);
        fs::write(&path, source).with_context(|| format!("restore {}", path.display()))?;
        caught
    }

    /// Returns the source with the fault inserted.
    ///
    /// # Errors
    /// Errors unless the source contains `from` exactly once; then the mutant must be updated.
    fn apply(&self, source: &str) -> Result<String> {
        checkout::replace_once(source, &self.from, &self.to)
            .with_context(|| format!("mutant {:?}, {}; fix mutants.json", self.name(), self.file.display()))
    }

    fn fails_a_stage(&self, root: &Path, copy: &Path) -> Result<bool> {
        for stage in STAGES {
            let compiles = compile(root, copy, stage)?;
            ensure!(
                compiles,
                "mutant {:?} does not compile, so it tests nothing; fix mutants.json",
                self.name()
            );
            if !passes(root, copy, stage)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn read(path: &Path) -> Result<Vec<Mutant>> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let list: Vec<Value> = serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))?;
    list.iter()
        .map(|entry| {
            let member = |name: &str| {
                entry[name]
                    .as_str()
                    .map(str::to_owned)
                    .with_context(|| format!("a mutant has no {name}: {entry}"))
            };
            Ok(Mutant {
                behaviour: member("behaviour")?,
                description: member("what")?,
                file: member("file")?.into(),
                from: member("from")?,
                to: member("to")?,
            })
        })
        .collect()
}

/// Compiles the copy's tests. Returns whether that succeeded.
fn compile(root: &Path, copy: &Path, stage: &[&str]) -> Result<bool> {
    let mut command = cargo_test(root, copy, stage);
    let status = command.arg("--no-run").status().context("run cargo to compile a mutant")?;
    Ok(status.success())
}

/// Runs the copy's tests. Returns whether they passed within [`TIMEOUT`].
fn passes(root: &Path, copy: &Path, stage: &[&str]) -> Result<bool> {
    let mut child = cargo_test(root, copy, stage).spawn().context("start cargo to test a mutant")?;
    Ok(wait(&mut child)?.is_some_and(|status| status.success()))
}

fn cargo_test(root: &Path, copy: &Path, stage: &[&str]) -> Command {
    let mut command = cargo::cargo();
    command
        .current_dir(copy)
        .args(["test", "--quiet", "--locked"])
        .args(stage)
        .env("CARGO_TARGET_DIR", root.join("target/mutants/target"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_PROFILE_TEST_DEBUG", "0")
        .env("PROPTEST_CASES", "200")
        // A failure is enough; the minimal failing case is not needed.
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    command
}

/// Waits for the child. After [`TIMEOUT`], kills it and returns `None`.
#[expect(clippy::disallowed_methods, reason = "it waits for another process, in real time")]
fn wait(child: &mut Child) -> Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("wait for cargo")? {
            return Ok(Some(status));
        }
        if started.elapsed() > TIMEOUT {
            // Kills the process group, because killing cargo alone would leave the tests running.
            let group = format!("-{}", child.id());
            Command::new("kill").args(["-KILL", "--", &group]).status().context("kill tests that hang")?;
            child.wait().context("wait for cargo")?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_still_applies() {
        let informer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/informer");
        let mutants = read(&informer.join("mutants.json")).unwrap();
        assert!(!mutants.is_empty());
        for mutant in mutants {
            let source = fs::read_to_string(informer.join(&mutant.file)).unwrap();
            assert_ne!(mutant.apply(&source).unwrap(), source, "{}", mutant.name());
        }
    }
}
