//! A plugin in a temporary folder, from which `test` runs it and `sim` simulates it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pilothouse_controller::PluginName;
use pilothouse_plugin::Engine;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::CommandError;
use crate::build::{Destination, Progress, build, build_for_host};

/// Limit in bytes for a file that may be a sidecar, the same as the host's.
const MAX_SIDECAR_SIZE: u64 = 1 << 20;
/// The age that the files get. The host waits until new files stay unchanged, but not for old ones.
const AGE: Duration = Duration::from_secs(3600);

/// A plugin file and its sidecar, if there is one, alone in a folder. Dropping this removes the folder.
pub(super) struct StagedPlugin {
    folder: TempDir,
    name: PluginName,
}

impl StagedPlugin {
    /// Copies a plugin's file and its sidecar; for a folder, builds the project in it and takes the sidecar from there. Leaves nothing
    /// behind in the folder except what the tools of its language write. The build compiles with `engine`, whose cache the host then uses;
    /// without one, it compiles only to check the plugin.
    ///
    /// # Errors
    /// Errors if the build fails, or a file cannot be read.
    pub(super) async fn new(
        plugin: &Path,
        engine: Option<&Engine>,
        stop: &CancellationToken,
    ) -> Result<Self, CommandError> {
        let folder = temporary_folder()?;
        let (wasm, sidecar, _built) = if plugin.is_dir() {
            let built = temporary_folder()?;
            let wasm = Box::pin(build_into(built.path(), plugin, engine, stop)).await?;
            let sidecar = plugin.join(wasm.with_extension("yaml").file_name().unwrap_or_default());
            (wasm, sidecar, Some(built))
        } else {
            (plugin.to_owned(), plugin.with_extension("yaml"), None)
        };
        let name = PluginName::of_file(&wasm).map_err(|error| CommandError::Usage(error.to_string()))?;
        let staged = folder.path().join(format!("{}.wasm", name.as_str()));
        copy(&wasm, &staged)?;
        if sidecar.is_file() {
            copy(&sidecar, &staged.with_extension("yaml"))?;
        }
        Ok(Self { folder, name })
    }

    /// Returns the folder.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the plugin's file.
    #[cfg(feature = "simulation")]
    pub(super) fn file(&self) -> PathBuf {
        self.folder.path().join(format!("{}.wasm", self.name.as_str()))
    }

    /// Returns the plugin's name.
    pub(super) fn name(&self) -> &PluginName {
        &self.name
    }
}

/// Builds a project into a folder. Returns the plugin's file.
async fn build_into(
    folder: &Path,
    project: &Path,
    engine: Option<&Engine>,
    stop: &CancellationToken,
) -> Result<PathBuf, CommandError> {
    // A build checks the plugin with the sidecar at its destination, but its name is known only after the build.
    for sidecar in possible_sidecars(project).map_err(|error| {
        CommandError::Usage(format!("{}: {error}; give the folder of a project", project.display()))
    })? {
        copy(&sidecar, &folder.join(sidecar.file_name().unwrap_or_default()))?;
    }
    let progress = Progress::on_stderr();
    let destination = Destination::Folder(folder.to_owned());
    let built = match engine {
        Some(engine) => build_for_host(engine, project, &destination, &progress, stop).await?,
        None => build(project, &destination, &progress, stop).await?,
    };
    for warning in &built.warnings {
        progress.print(&format!("warning: {warning}"));
    }
    Ok(built.file)
}

/// Returns the files in a folder that may be the sidecar of a plugin.
fn possible_sidecars(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_yaml = path.extension().is_some_and(|end| end == "yaml");
        let is_small =
            || fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() <= MAX_SIDECAR_SIZE);
        if is_yaml && is_small() {
            files.push(path);
        }
    }
    Ok(files)
}

/// Copies a file and makes the copy look old.
#[expect(clippy::disallowed_methods, reason = "files have times of the system clock")]
fn copy(from: &Path, to: &Path) -> Result<(), CommandError> {
    let copied = fs::copy(from, to).and_then(|_| File::open(to)?.set_modified(SystemTime::now() - AGE));
    copied.map_err(|error| {
        CommandError::Failure(format!("cannot copy {} to {}: {error}", from.display(), to.display()))
    })
}

fn temporary_folder() -> Result<TempDir, CommandError> {
    tempfile::Builder::new().prefix("pilothouse-test-").tempdir().map_err(|error| {
        CommandError::Failure(format!(
            "cannot create a folder for temporary files: {error}; set TMPDIR to a writable folder"
        ))
    })
}

#[cfg(test)]
mod tests {
    use pilothouse_plugin::EngineOptions;

    use super::*;

    #[tokio::test]
    async fn a_plugin_is_staged_alone_with_its_sidecar() {
        let folder = tempfile::tempdir().expect("a folder");
        for file in ["greeter.wasm", "greeter.yaml", "other.wasm", "other.yaml"] {
            fs::write(folder.path().join(file), file).expect("written");
        }
        let stop = CancellationToken::new();
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let file = folder.path().join("greeter.wasm");
        let staged = StagedPlugin::new(&file, Some(&engine), &stop).await.expect("staged");
        assert_eq!(staged.name().as_str(), "greeter");
        let names = |folder: &Path| {
            let entries = fs::read_dir(folder).expect("a folder");
            let mut names: Vec<_> = entries.map(|entry| entry.expect("readable").file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(staged.folder()), ["greeter.wasm", "greeter.yaml"]);
        let path = staged.folder().to_owned();
        drop(staged);
        assert!(!path.exists());
    }

    #[test]
    fn only_small_files_can_be_sidecars() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, size: usize| fs::write(folder.path().join(name), vec![b'#'; size]);
        write("a.yaml", 10).expect("written");
        write("b.yaml", 2 << 20).expect("written");
        write("c.json", 10).expect("written");
        fs::create_dir(folder.path().join("d.yaml")).expect("created");
        assert_eq!(possible_sidecars(folder.path()).expect("a folder"), [folder.path().join("a.yaml")]);
    }
}
