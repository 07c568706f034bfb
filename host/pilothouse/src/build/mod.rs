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
use std::time::Duration;

use pilothouse_controller::{CheckReport, PluginName};
use pilothouse_plugin::Engine;
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
    /// How long the check took to compile it to machine code; `None` if the code was in the cache.
    pub(crate) compile_time: Option<Duration>,
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
    build_with(None, folder, destination, progress, stop).await
}

/// Builds like [`build`], and checks the result with the engine of the host that is going to run it: the host then finds the compiled code in
/// the engine's cache.
///
/// # Errors
/// See [`build`].
pub(crate) async fn build_for_host(
    engine: &Engine,
    folder: &Path,
    destination: &Destination,
    progress: &Progress,
    stop: &CancellationToken,
) -> Result<BuiltPlugin, CommandError> {
    build_with(Some(engine), folder, destination, progress, stop).await
}

async fn build_with(
    engine: Option<&Engine>,
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
    let CheckReport { warnings, compile_time, .. } =
        check_and_install(&job, engine, &artifact.file, &target).await?;
    let size = fs::metadata(&target).map(|metadata| metadata.len()).unwrap_or_default();
    Ok(BuiltPlugin { builder: builder.name(), file: target, size, warnings, compile_time })
}

/// Checks the artifact in a temporary folder next to `target`, under its final name and with the sidecar at `target`, then
/// renames it to `target`. Returns the report of the check.
async fn check_and_install(
    job: &Job,
    engine: Option<&Engine>,
    artifact: &Path,
    target: &Path,
) -> Result<CheckReport, CommandError> {
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
    fs::copy(artifact, &staged)
        .map_err(|error| job.error(format_args!("the build tools have not written a plugin: {error}")))?;
    let sidecar = target.with_extension("yaml");
    if sidecar.is_file() {
        fs::copy(&sidecar, staged.with_extension("yaml")).map_err(write_error)?;
    }
    let names = FinalNames::new(staging.path(), target);
    let checked = job.wait("compile and check", require_runnable(engine, &staged)).await?;
    let mut report = checked.map_err(|error| names.in_error(error))?;
    fs::rename(&staged, target).map_err(write_error)?;
    for warning in &mut report.warnings {
        *warning = names.in_text(warning);
    }
    Ok(report)
}

/// Replaces the temporary folder in messages by the folder of the plugin, because users know only that one.
struct FinalNames {
    /// The temporary folder as messages write it, with a slash at the end.
    staging: String,
    /// The plugin's folder in the same form; "" for the current folder.
    folder: String,
}

impl FinalNames {
    fn new(staging: &Path, target: &Path) -> Self {
        let folder = target.with_file_name("").display().to_string();
        Self { staging: format!("{}/", staging.display()), folder }
    }

    fn in_text(&self, text: &str) -> String {
        text.replace(&self.staging, &self.folder)
    }

    fn in_error(&self, error: CommandError) -> CommandError {
        match error {
            CommandError::Failure(text) => CommandError::Failure(self.in_text(&text)),
            CommandError::Usage(text) => CommandError::Usage(self.in_text(&text)),
        }
    }
}

/// Checks a plugin file as the host would load it, with this engine or a new one.
///
/// # Errors
/// Errors if the file cannot be loaded or the plugin would not run.
async fn require_runnable(engine: Option<&Engine>, file: &Path) -> Result<CheckReport, CommandError> {
    let report = match engine {
        Some(engine) => plugin_check::check_file_with(engine, file).await?,
        None => plugin_check::check_file(file, None).await?,
    };
    if report.runs { Ok(report) } else { Err(plugin_check::problems_error(file, &report)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_plugins_folder_instead_of_the_temporary_one() {
        for (staging, target, expected) in [
            ("plugins/.pilothouse-x", "plugins/a.wasm", "plugins/a.wasm: the sidecar plugins/a.yaml: bad"),
            ("/p/.pilothouse-x", "/p/a.wasm", "/p/a.wasm: the sidecar /p/a.yaml: bad"),
            ("/home/me/.pilothouse-x", "a.wasm", "a.wasm: the sidecar a.yaml: bad"),
        ] {
            let names = FinalNames::new(Path::new(staging), Path::new(target));
            let text = format!("{staging}/a.wasm: the sidecar {staging}/a.yaml: bad");
            let error = names.in_error(CommandError::Failure(text));
            assert!(matches!(&error, CommandError::Failure(text) if text == expected), "{error:?}");
        }
    }
}
