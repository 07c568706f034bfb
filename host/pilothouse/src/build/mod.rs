//! `pilothouse build`: builds a project in any guest language into a plugin.
//!
//! A builder per language runs the language's own tools and returns the file that they produced; a project can have a command of its own
//! instead. This module does what all of them share: it detects the builder, shows progress, checks the result as the host would load
//! it, and moves it into place atomically.
//!
//! A builder is a module with the function `pub(super) async fn build(job: &Job) -> Result<Artifact, CommandError>`. It finds its tools
//! with [`Job::find_tool`], runs them with [`Job::run`] in the project's folder, and writes nothing outside the project except below
//! [`Job::scratch`].

mod c;
mod command;
mod detect;
mod go;
mod job;
mod js;
mod pattern;
mod progress;
mod project_file;
mod python;
mod rust;
mod source_watcher;
mod zig;

use std::fs;
use std::path::{Path, PathBuf};

use pilothouse_controller::{CheckReport, PluginName};
use pilothouse_toolchain::Language;
use tokio_util::sync::CancellationToken;

pub(crate) use detect::{detect_builder, detect_language};
pub(crate) use job::{Job, OutputFormat};
pub(crate) use progress::Progress;
pub(crate) use source_watcher::SourceWatcher;

use project_file::Builder;

use crate::{CommandError, plugin_check};

/// The file that a builder produced.
#[derive(Debug)]
pub(crate) struct Artifact {
    /// The project's name: from its manifest if it has one, otherwise the folder's.
    pub(crate) name: String,
    /// Path of a component or a core module, anywhere on this machine.
    pub(crate) file: PathBuf,
}

/// Where to write the plugin.
#[derive(Clone, Debug)]
pub(crate) enum Destination {
    /// To this file.
    File(PathBuf),
    /// Into this folder, as `NAME.wasm` with the project's name.
    Folder(PathBuf),
}

/// A plugin that was built, checked and moved to its destination.
#[derive(Debug)]
pub(crate) struct BuiltPlugin {
    /// What built it: the name of a language, or of the file with the project's own command.
    pub(crate) builder: &'static str,
    pub(crate) file: PathBuf,
    /// Size in bytes.
    pub(crate) size: u64,
    /// Warnings of the check.
    pub(crate) warnings: Vec<String>,
}

/// Builds the project in `folder`. Replaces the file at the destination only if the result is a plugin that the host would run.
///
/// Cancelling `stop` or dropping the future terminates the tools.
///
/// # Errors
/// Errors if the builder cannot be detected, a tool is missing or fails, or the host would not run the result.
pub(crate) async fn build(
    folder: &Path,
    destination: &Destination,
    progress: &Progress,
    stop: &CancellationToken,
) -> Result<BuiltPlugin, CommandError> {
    let project = fs::canonicalize(folder).map_err(|error| {
        CommandError::Usage(format!("{}: {error}; give the folder of a project", folder.display()))
    })?;
    let builder = detect_builder(&project)?;
    let scratch = tempfile::Builder::new().prefix("pilothouse-build-").tempdir().map_err(|error| {
        CommandError::Failure(format!(
            "cannot create a folder for temporary files: {error}; set TMPDIR to a writable folder"
        ))
    })?;
    let job = Job::new(project, scratch.path().to_owned(), progress.clone(), stop.clone());
    let artifact = match &builder {
        Builder::Language(Language::Rust) => rust::build(&job).await?,
        Builder::Language(Language::Js) => js::build(&job).await?,
        Builder::Language(Language::Python) => python::build(&job).await?,
        Builder::Language(Language::Go) => go::build(&job).await?,
        Builder::Language(Language::C) => c::build(&job).await?,
        Builder::Command(recipe) => command::build(&job, recipe).await?,
    };
    let target = match destination {
        Destination::File(file) => file.clone(),
        // A slash in the name would select another folder. With a dot instead, the name check below rejects it.
        Destination::Folder(folder) => folder.join(format!("{}.wasm", artifact.name.replace('/', "."))),
    };
    let warnings = check_and_install(&job, &artifact.file, &target).await?;
    let size = fs::metadata(&target).map(|metadata| metadata.len()).unwrap_or_default();
    Ok(BuiltPlugin { builder: builder.name(), file: target, size, warnings })
}

/// Checks the artifact in a temporary folder next to `target`, under its final name and with the sidecar at `target`, then
/// renames it to `target`. Returns the warnings of the check.
async fn check_and_install(job: &Job, artifact: &Path, target: &Path) -> Result<Vec<String>, CommandError> {
    if target.extension().is_none_or(|extension| extension != "wasm") {
        return Err(CommandError::Usage(format!(
            "-o {}: the name of a plugin file must end in .wasm",
            target.display()
        )));
    }
    PluginName::of_file(target)
        .map_err(|error| CommandError::Usage(format!("{error}; or choose a name with -o NAME.wasm")))?;
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let write_error = |error: std::io::Error| {
        CommandError::Failure(format!(
            "cannot write {}: {error}; choose another file with -o",
            target.display()
        ))
    };
    fs::create_dir_all(folder).map_err(write_error)?;
    let staging = tempfile::Builder::new().prefix(".pilothouse-").tempdir_in(folder).map_err(write_error)?;
    let staged = staging.path().join(target.file_name().unwrap_or_default());
    fs::copy(artifact, &staged).map_err(|error| {
        CommandError::Failure(format!(
            "{}: {error}; the build tools should have created it",
            artifact.display()
        ))
    })?;
    let sidecar = target.with_extension("yaml");
    if sidecar.is_file() {
        fs::copy(&sidecar, staged.with_extension("yaml")).map_err(write_error)?;
    }
    let report = job.wait("check", require_runnable(&staged)).await??;
    fs::rename(&staged, target).map_err(write_error)?;
    Ok(report.warnings)
}

/// Checks a plugin file as the host would load it.
///
/// # Errors
/// Errors if the file cannot be loaded or the plugin would not run.
async fn require_runnable(file: &Path) -> Result<CheckReport, CommandError> {
    let report = plugin_check::check_file(file, None).await?;
    if report.runs { Ok(report) } else { Err(plugin_check::problems_error(file, &report)) }
}
