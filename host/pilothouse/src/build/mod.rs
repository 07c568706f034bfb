//! `pilothouse build`: from a project's folder to a plugin's file, whatever its language.
//!
//! A recipe per language runs the language's own tools and says which file they made. What all have in common is here:
//! recognising the language, showing the steps, loading the result as the host would, and putting it in place whole.
//!
//! A recipe is a file of this folder with one function:
//! `pub(super) async fn build(job: &Job) -> Result<Artifact, Failed>`. It finds its tools with [`Job::tool`], runs them
//! with [`Job::run`] in the project's folder, and leaves nothing outside of it but in [`Job::scratch`].

mod c;
mod go;
mod job;
mod js;
mod language;
mod progress;
mod python;
mod rust;
mod sources;

use std::fs;
use std::path::{Path, PathBuf};

use pilothouse_controller::PluginName;
use tokio_util::sync::CancellationToken;

pub(crate) use job::Job;
pub(crate) use language::Language;
pub(crate) use progress::Progress;
pub(crate) use sources::Sources;

use crate::{Failed, checking};

/// What a recipe made.
#[derive(Debug)]
pub(crate) struct Artifact {
    /// The project's own name, from its manifest where it has one.
    pub(crate) name: String,
    /// A component or a core module, anywhere on this machine.
    pub(crate) file: PathBuf,
}

/// Where the plugin goes.
#[derive(Clone, Debug)]
pub(crate) enum Output {
    /// Into this file.
    File(PathBuf),
    /// Into this folder, as `NAME.wasm` with the project's name.
    Folder(PathBuf),
}

/// A plugin in its place.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) language: Language,
    pub(crate) file: PathBuf,
    pub(crate) size: u64,
    /// What `check` warns of.
    pub(crate) warnings: Vec<String>,
}

/// Builds the project in `folder`. What lies at the output is replaced by a plugin that the host would run, or stays.
/// Dropping the future, or cancelling `stop`, ends the tools.
pub(crate) async fn build(
    folder: &Path,
    output: &Output,
    progress: &Progress,
    stop: &CancellationToken,
) -> Result<Built, Failed> {
    let project = fs::canonicalize(folder).map_err(|error| {
        Failed::Usage(format!("{}: {error}; give the folder of a project", folder.display()))
    })?;
    let language = Language::of(&project)?;
    let scratch = tempfile::Builder::new().prefix("pilothouse-build-").tempdir().map_err(|error| {
        Failed::Work(format!("no folder for temporary files: {error}; set TMPDIR to one that can be written"))
    })?;
    let job = Job::new(project, scratch.path().to_owned(), progress.clone(), stop.clone());
    let artifact = match language {
        Language::Rust => rust::build(&job).await?,
        Language::Js => js::build(&job).await?,
        Language::Python => python::build(&job).await?,
        Language::Go => go::build(&job).await?,
        Language::C => c::build(&job).await?,
    };
    let target = match output {
        Output::File(file) => file.clone(),
        // A name with a slash in it would choose another folder; as one file's name it is refused as no label.
        Output::Folder(folder) => folder.join(format!("{}.wasm", artifact.name.replace('/', "."))),
    };
    let warnings = put(&job, &artifact.file, &target).await?;
    let size = fs::metadata(&target).map(|metadata| metadata.len()).unwrap_or_default();
    Ok(Built { language, file: target, size, warnings })
}

/// Puts the file in place by a rename, after it was checked beside that place under the name that it will have. A
/// sidecar that lies at the target counts in the check.
async fn put(job: &Job, made: &Path, target: &Path) -> Result<Vec<String>, Failed> {
    if target.extension().is_none_or(|extension| extension != "wasm") {
        return Err(Failed::Usage(format!("-o {}: a plugin's file ends in .wasm", target.display())));
    }
    PluginName::of_file(target).map_err(|error| Failed::Usage(format!("{error}; or give -o NAME.wasm")))?;
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let failed = |error: std::io::Error| {
        Failed::Work(format!("{}: {error}; choose another file with -o", target.display()))
    };
    fs::create_dir_all(folder).map_err(failed)?;
    let staging = tempfile::Builder::new().prefix(".pilothouse-").tempdir_in(folder).map_err(failed)?;
    let staged = staging.path().join(target.file_name().unwrap_or_default());
    fs::copy(made, &staged).map_err(|error| {
        Failed::Work(format!("{}: {error}; the tools should have made it", made.display()))
    })?;
    let sidecar = target.with_extension("yaml");
    if sidecar.is_file() {
        fs::copy(&sidecar, staged.with_extension("yaml")).map_err(failed)?;
    }
    let report = job.wait("check", checking::passed(&staged)).await??;
    fs::rename(&staged, target).map_err(failed)?;
    Ok(report.warnings)
}
