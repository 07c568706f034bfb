//! `cargo xtask package-chart` and `cargo xtask push-chart`: the Helm chart of a release, as an archive and in an OCI registry.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

use super::metadata::{Metadata, PACKAGE};
use super::source::Source;
use crate::chart::CHART;
use crate::tools;

/// The largest file of the chart that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Options of `cargo xtask package-chart`.
#[derive(Debug, Args)]
pub(crate) struct PackageChartArguments {
    /// Folder to write the archive into. By default, `archives` in the target directory.
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Fail unless this is the git tag of the version in Cargo.toml.
    #[arg(long)]
    tag: Option<String>,
}

/// Options of `cargo xtask push-chart`.
#[derive(Debug, Args)]
pub(crate) struct PushChartArguments {
    /// Folder with the archive that `cargo xtask package-chart` has written.
    folder: PathBuf,
    /// Where the chart's repository is: oci://REGISTRY/PATH. The chart becomes PATH/pilothouse.
    repository: String,
    /// Push without TLS, to a registry on this machine.
    #[arg(long)]
    plain_http: bool,
}

/// Packages the chart with the version in Cargo.toml as its version and as that of the image.
///
/// # Errors
/// Errors if helm cannot be built, or refuses the chart.
pub(crate) fn package(root: &Path, arguments: &PackageChartArguments) -> Result<()> {
    let metadata = Metadata::read(root)?;
    let version = Source::read(root, &metadata)?;
    if let Some(tag) = &arguments.tag {
        version.require_tag(tag)?;
    }
    let output = match &arguments.output {
        Some(folder) => folder.clone(),
        None => metadata.target_folder()?.join("archives"),
    };
    let file = package_into(root, &output, &version.version)?;
    println!("package-chart: {}", file.display());
    Ok(())
}

/// Pushes the archive of the version in Cargo.toml, pulls it again and compares both. The login is that of `helm registry login`.
///
/// # Errors
/// Errors if helm cannot be built, the archive is missing, or the registry does not take it or returns another one.
pub(crate) fn push(root: &Path, arguments: &PushChartArguments) -> Result<()> {
    let version = Source::read(root, &Metadata::read(root)?)?.version;
    push_from(&arguments.folder, &version, &arguments.repository, arguments.plain_http)?;
    println!("push-chart: {}/{PACKAGE}:{version}", arguments.repository.trim_end_matches('/'));
    Ok(())
}

/// Packages the chart, and pushes it to a registry without TLS.
///
/// # Errors
/// As [`package`] and [`push`].
pub(crate) fn package_and_push(root: &Path, folder: &Path, repository: &str) -> Result<()> {
    let version = Source::read(root, &Metadata::read(root)?)?.version;
    package_into(root, folder, &version)?;
    push_from(folder, &version, repository, true)
}

fn package_into(root: &Path, output: &Path, version: &str) -> Result<PathBuf> {
    fs::create_dir_all(output).with_context(|| format!("create {}", output.display()))?;
    helm(
        Command::new(tools::HELM.install()?)
            .current_dir(root)
            .args(["package", CHART, "--version", version, "--app-version", version, "--destination"])
            .arg(output),
    )?;
    let file = output.join(archive_name(version));
    let bytes =
        fs::read(&file).with_context(|| format!("read {}, which helm has written", file.display()))?;
    require_versions(&bytes, version).with_context(|| file.display().to_string())?;
    Ok(file)
}

fn push_from(folder: &Path, version: &str, repository: &str, plain_http: bool) -> Result<()> {
    ensure!(
        repository.starts_with("oci://"),
        "{repository} is no OCI repository: write oci://REGISTRY/PATH, for example oci://ghcr.io/team/charts"
    );
    let repository = repository.trim_end_matches('/');
    let file = folder.join(archive_name(version));
    let pushed = fs::read(&file).with_context(|| {
        format!(
            "read {}: write it with `cargo xtask package-chart --output {}`",
            file.display(),
            folder.display()
        )
    })?;
    let program = tools::HELM.install()?;
    let flags: &[&str] = if plain_http { &["--plain-http"] } else { &[] };
    helm(Command::new(&program).arg("push").arg(&file).arg(repository).args(flags))?;
    let pulled = folder.join("pulled");
    fs::create_dir_all(&pulled).with_context(|| format!("create {}", pulled.display()))?;
    helm(
        Command::new(&program)
            .arg("pull")
            .arg(format!("{repository}/{PACKAGE}"))
            .args(["--version", version, "--destination"])
            .arg(&pulled)
            .args(flags),
    )?;
    let copy = pulled.join(archive_name(version));
    let returned = fs::read(&copy).with_context(|| format!("read {}", copy.display()))?;
    fs::remove_dir_all(&pulled).with_context(|| format!("remove {}", pulled.display()))?;
    ensure!(
        returned == pushed,
        "{repository} returns another chart for {version} than the pushed one: a version must not be pushed twice"
    );
    Ok(())
}

/// Returns the name that helm gives to the archive of a version.
fn archive_name(version: &str) -> String {
    format!("{PACKAGE}-{version}.tgz")
}

/// Errors unless the chart in an archive, and the image that it runs by default, have this version.
fn require_versions(archive: &[u8], version: &str) -> Result<()> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archive));
    let wanted = Path::new(PACKAGE).join("Chart.yaml");
    for entry in archive.entries().context("read the archive")? {
        let entry = entry.context("read the archive")?;
        if entry.path().context("a path of the archive")? != wanted {
            continue;
        }
        let mut text = String::new();
        entry.take(MAX_FILE).read_to_string(&mut text).context("read Chart.yaml")?;
        let chart: Value = serde_saphyr::from_str(&text).context("parse Chart.yaml")?;
        for member in ["version", "appVersion"] {
            ensure!(
                chart[member] == version,
                "{member} of the chart is {} in place of {version}",
                chart[member]
            );
        }
        return Ok(());
    }
    anyhow::bail!("the archive has no {}", wanted.display())
}

fn helm(command: &mut Command) -> Result<()> {
    let output = command.output().context("start helm")?;
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    ensure!(
        output.status.success(),
        "helm {}: {}{}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::archive::{self, Entry};
    use super::*;

    fn packaged(chart: &str) -> Vec<u8> {
        let entries = vec![Entry::folder(PACKAGE, 0o755), Entry::file("pilothouse/Chart.yaml", 0o644, chart)];
        archive::gzip(&archive::tar(entries).expect("an archive")).expect("gzip")
    }

    #[test]
    fn a_chart_of_another_version_is_refused() {
        require_versions(&packaged("version: 1.2.3\nappVersion: 1.2.3\n"), "1.2.3").expect("the version");
        let error = require_versions(&packaged("version: 1.2.3\nappVersion: 1.2.2\n"), "1.2.3");
        assert!(error.expect_err("refused").to_string().contains("appVersion"));
        assert!(
            require_versions(&archive::gzip(&archive::tar(vec![]).expect("tar")).expect("gzip"), "1")
                .is_err()
        );
        assert!(require_versions(b"no archive", "1.2.3").is_err());
    }

    #[test]
    fn a_push_needs_a_packaged_chart_and_an_oci_repository() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = push_from(folder.path(), "1.2.3", "https://example.com", false).expect_err("refused");
        assert!(error.to_string().contains("oci://"), "{error}");
        let error =
            push_from(folder.path(), "1.2.3", "oci://example.com/charts", false).expect_err("refused");
        assert!(error.to_string().contains("cargo xtask package-chart"), "{error}");
    }
}
