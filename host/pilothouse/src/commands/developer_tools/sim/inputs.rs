//! Reads the files of a simulation.

use std::fs;
use std::path::{Path, PathBuf};

use pilothouse_controller::PluginName;
use pilothouse_controller::descriptor::Descriptor;
use pilothouse_controller::limits::SidecarLimits;
use pilothouse_controller::sidecar::Sidecar;
use pilothouse_plugin::Engine;
use pilothouse_sim::finding::trace::Input;
use pilothouse_sim::world::DescribedCode;
use sha2::{Digest, Sha256};

use crate::cli::simulation::Sim;
use crate::commands::compile::simulation_options;
use crate::{CommandError, input_file};

/// Limit in bytes for a plugin file, as for the host.
const MAX_WASM: u64 = 256 << 20;
/// Limit in bytes for other files.
const MAX_TEXT: u64 = 16 << 20;
/// The extensions of files with manifests.
const MANIFESTS: [&str; 3] = ["yaml", "yml", "json"];
/// The largest number of files with manifests.
const MAX_MANIFEST_FILES: usize = 1_000;

/// A plugin file with its sidecar.
pub(super) struct PluginFile {
    pub(super) path: PathBuf,
    pub(super) name: PluginName,
    pub(super) wasm: Vec<u8>,
    /// The text of the sidecar, "" for none.
    pub(super) sidecar: String,
    /// The file and its digest, for traces.
    pub(super) input: Input,
}

/// A plugin that was compiled, with its descriptor.
pub(super) struct PluginInput {
    pub(super) file: PluginFile,
    pub(super) code: DescribedCode,
    pub(super) descriptor: Descriptor,
}

/// A sidecar that a scenario contains.
pub(super) struct GivenSidecar<'a> {
    pub(super) text: String,
    pub(super) scenario: &'a Path,
}

impl PluginFile {
    /// Reads a plugin. `sidecar` replaces the one beside the file.
    ///
    /// # Errors
    /// Returns a usage error that names the file, or that of its sidecar.
    pub(super) fn read(path: &Path, sidecar: Option<GivenSidecar<'_>>) -> Result<Self, CommandError> {
        if path.extension().is_some_and(|end| end == "yaml" || end == "yml") {
            let problem = format!(
                "{}: it is no .wasm file; give a plugin, and name a scenario with --scenario",
                path.display()
            );
            return Err(CommandError::Usage(problem));
        }
        let name = PluginName::of_file(path).map_err(|error| CommandError::Usage(error.to_string()))?;
        let wasm = input_file::read(path, MAX_WASM).map_err(|problem| {
            CommandError::Usage(format!("{}: {problem}; give a plugin's .wasm file", path.display()))
        })?;
        let sidecar = match sidecar {
            Some(GivenSidecar { text, scenario }) => {
                Sidecar::parse(&text).map_err(|error| {
                    let (scenario, file) = (scenario.display(), path.display());
                    let problem = format!(
                        "{scenario}: plugins: the sidecar of {file} is invalid: {error}; correct it there"
                    );
                    CommandError::Usage(problem)
                })?;
                text
            }
            None => sidecar_beside(path)?,
        };
        let input = input_of(path, &wasm);
        Ok(Self { path: path.to_owned(), name, wasm, sidecar, input })
    }
}

impl PluginInput {
    /// Returns the files that the command line names.
    pub(super) fn files_of(flags: &Sim) -> Vec<PathBuf> {
        flags.plugin_files().to_vec()
    }

    /// Compiles a plugin, or takes it from the cache, and asks it for its descriptor.
    ///
    /// # Errors
    /// Returns a usage error that names the file.
    pub(super) fn load(engine: &Engine, file: PluginFile) -> Result<Self, CommandError> {
        let loaded = load(engine, &file.wasm, &file.sidecar);
        let (code, descriptor) = loaded.map_err(|problem| {
            let remedy = "build it again, or see what `pilothouse check` says about it";
            CommandError::Usage(format!("{}: {problem}; {remedy}", file.path.display()))
        })?;
        Ok(Self { file, code, descriptor })
    }
}

/// Returns the text of the sidecar beside a plugin, "" if there is none.
fn sidecar_beside(file: &Path) -> Result<String, CommandError> {
    let path = file.with_extension("yaml");
    let text = if path.is_file() { read_text(&path)? } else { String::new() };
    Sidecar::parse(&text).map_err(|error| {
        let (path, file) = (path.display(), file.display());
        CommandError::Usage(format!(
            "{path}: the sidecar of {file} is invalid: {error}; correct it, or remove it"
        ))
    })?;
    Ok(text)
}

/// Returns the limits in the sidecar beside a plugin.
///
/// # Errors
/// Returns a usage error if the sidecar is invalid.
pub(super) fn limits_beside(file: &Path) -> Result<SidecarLimits, CommandError> {
    let sidecar = Sidecar::parse(&sidecar_beside(file)?);
    Ok(sidecar.map_err(|error| CommandError::Usage(error.to_string()))?.limits)
}

/// Creates the engine of a simulation. It compiles plugins in processes of their own, and keeps the result in `cache_dir`, by default the
/// user's cache.
///
/// # Errors
/// Errors if wasm cannot run on this machine.
pub(super) fn engine(cache_dir: Option<PathBuf>) -> Result<Engine, CommandError> {
    pilothouse_sim::world::engine(simulation_options(cache_dir))
        .map_err(|error| CommandError::Failure(format!("cannot start the wasm engine: {error}")))
}

/// Loads the plugin and asks it for its descriptor.
fn load(engine: &Engine, wasm: &[u8], sidecar: &str) -> Result<(DescribedCode, Descriptor), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start an async runtime: {error}"))?;
    let loaded = runtime.block_on(DescribedCode::load(engine, wasm.to_vec(), sidecar));
    let code = loaded.map_err(|error| error.to_string())?;
    let descriptor = Descriptor::parse(code.descriptor()?).map_err(|error| error.to_string())?;
    Ok((code, descriptor))
}

/// Returns the file's name and digest.
pub(super) fn input_of(file: &Path, content: &[u8]) -> Input {
    let digest = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Input { file: name, digest }
}

/// Returns the text of a file that a scenario names, or why it cannot be read.
///
/// # Errors
/// Errors with one line.
pub(super) fn read_scenario_part(file: &Path) -> Result<String, String> {
    read_text(file).map_err(|error| match error {
        CommandError::Usage(text) | CommandError::Failure(text) => text,
    })
}

/// Reads a text file.
///
/// # Errors
/// Returns a usage error that names the file.
pub(super) fn read_text(path: &Path) -> Result<String, CommandError> {
    let usage_error =
        |problem: &str| CommandError::Usage(format!("{}: {problem}; give a text file", path.display()));
    input_file::read_text(path, MAX_TEXT).map_err(|problem| usage_error(&problem))
}

/// Returns the files with manifests in a folder, in the order of their names.
///
/// # Errors
/// Returns a usage error if there is none.
pub(super) fn manifest_files(folder: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let usage_error = |problem: &dyn std::fmt::Display| {
        CommandError::Usage(format!(
            "--objects {}: {problem}; give a folder with manifests",
            folder.display()
        ))
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| usage_error(&error))? {
        let path = entry.map_err(|error| usage_error(&error))?.path();
        if path.extension().is_some_and(|end| MANIFESTS.iter().any(|known| end == *known)) {
            files.push(path);
        }
        if files.len() > MAX_MANIFEST_FILES {
            return Err(usage_error(&format!("it has more than {MAX_MANIFEST_FILES} files")));
        }
    }
    if files.is_empty() {
        return Err(usage_error(&"it has no .yaml, .yml or .json file"));
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_names_a_file_by_its_last_part_and_its_digest() {
        let input = input_of(Path::new("folder/a.wasm"), b"");
        assert_eq!((input.file.as_str(), input.digest.len()), ("a.wasm", 64));
    }

    #[test]
    fn manifests_are_found_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(manifest_files(folder.path()).is_err());
        for name in ["b.yaml", "a.json", "README.md"] {
            fs::write(folder.path().join(name), "").expect("written");
        }
        let files = manifest_files(folder.path()).expect("files");
        assert_eq!(files, ["a.json", "b.yaml"].map(|name| folder.path().join(name)));
    }
}
