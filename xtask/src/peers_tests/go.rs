//! Runs the tests of a package of a published Go module.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};

use super::ginkgo;
use super::go_events::GoEvents;
use super::outcome::Outcomes;
use crate::guests::copy_folder;
use crate::tools;

/// Maximum size in bytes of what a package's tests print, and of Ginkgo's report.
const MAX_OUTPUT: u64 = 1 << 30;

/// A package of a Go module, with its tests.
pub(super) struct Package {
    pub(super) module: &'static tools::Module,
    /// The folder in the module.
    pub(super) folder: &'static str,
    /// Build tags, separated by commas.
    pub(super) tags: &'static str,
}

impl Package {
    /// Runs the tests against the server of a kubeconfig. `work` is the folder for the sources of all modules, `report` that of this suite.
    ///
    /// # Errors
    /// Errors if Go is missing, the module cannot be downloaded, or no test ran.
    pub(super) fn run(&self, kubeconfig: &Path, work: &Path, report: &Path) -> Result<Outcomes> {
        let module = self.sources(work)?;
        let folder = module.join(self.folder);
        let report = report.join("ginkgo.json");
        let mut go = tools::go();
        go.current_dir(&folder)
            .args(["test", "-json", "-count=1", "-timeout=30m", "-tags", self.tags, "."])
            .env("USE_EXISTING_CLUSTER", "true")
            .env("KUBECONFIG", kubeconfig);
        if uses_ginkgo(&folder)? {
            go.arg("-args").arg(format!("-ginkgo.json-report={}", report.display()));
        }
        let mut child = go
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("start go to run tests: install Go (https://go.dev/dl)")?;
        let stdout = child.stdout.take().context("go has no standard output")?;
        let mut events = GoEvents::default();
        for line in BufReader::new(stdout.take(MAX_OUTPUT)).split(b'\n') {
            events.push(&String::from_utf8_lossy(&line.context("read the output of go")?));
        }
        // The exit code says only whether all tests passed.
        child.wait().context("wait for go")?;
        let mut outcomes = events.outcomes();
        if report.is_file() {
            outcomes.extend(ginkgo::outcomes(&read_report(&report)?)?);
        }
        if outcomes.is_empty() {
            bail!("{}: no test ran:\n{}", folder.display(), events.last_lines());
        }
        Ok(outcomes)
    }

    /// Returns a folder with the module's sources that tests may write to. It is kept for the other packages.
    pub(super) fn sources(&self, work: &Path) -> Result<PathBuf> {
        let downloaded = self.module.download()?;
        let name = downloaded.file_name().context("the folder of a module has no name")?;
        let copy = work.join(name);
        if !copy.exists() {
            // Renamed at the end, so that an interrupted copy is not used.
            let unfinished = work.join("unfinished");
            if unfinished.exists() {
                fs::remove_dir_all(&unfinished)
                    .with_context(|| format!("remove {}", unfinished.display()))?;
            }
            copy_folder(&downloaded, &unfinished)?;
            fs::rename(&unfinished, &copy)
                .with_context(|| format!("rename {} to {}", unfinished.display(), copy.display()))?;
        }
        Ok(copy)
    }
}

/// Returns whether the tests of a package import Ginkgo, and so have its flags.
fn uses_ginkgo(folder: &Path) -> Result<bool> {
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry.with_context(|| format!("read {}", folder.display()))?.path();
        if path.to_string_lossy().ends_with("_test.go") {
            let source = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            if source.contains("\"github.com/onsi/ginkgo/v2\"") {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn read_report(path: &Path) -> Result<String> {
    let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    let mut text = String::new();
    let size = file.take(MAX_OUTPUT).read_to_string(&mut text);
    let size = size.with_context(|| format!("read {}", path.display()))?;
    ensure!((size as u64) < MAX_OUTPUT, "{} is larger than {MAX_OUTPUT} bytes", path.display());
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ginkgo_is_found_in_files_of_tests_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
        write("a.go", "import \"github.com/onsi/ginkgo/v2\"");
        write("a_test.go", "import \"testing\"");
        assert!(!uses_ginkgo(folder.path()).expect("read"));
        write("b_test.go", "import . \"github.com/onsi/ginkgo/v2\"");
        assert!(uses_ginkgo(folder.path()).expect("read"));
    }
}
