//! `pilothouse sdk update`: replaces a project's copy of the SDK by the one of this binary.

use std::path::Path;
use std::{fs, io};

use pilothouse_toolchain::Language;

use crate::build::detect_language;
use crate::cli::developer_tools::{Sdk, SdkUpdate};
use crate::template::{self, TemplateFile};
use crate::{CommandError, CommandResult, output};

pub(super) fn run(command: &Sdk) -> CommandResult {
    let Sdk::Update(flags) = command;
    update(flags)
}

fn update(flags: &SdkUpdate) -> CommandResult {
    let project = &flags.folder;
    let language = detect_language(project)?;
    let folder = project.join("sdk");
    if !is_copied_sdk(&folder, language) {
        return Err(CommandError::Usage(format!(
            "{}: not a copy of the SDK for {}, as `pilothouse new` writes it; if the project uses the SDK of another folder, replace that \
             one",
            folder.display(),
            language.name()
        )));
    }
    let files = template::sdk_files(language).ok_or_else(|| {
        let language = language.name();
        CommandError::Failure(format!(
            "this pilothouse binary was built without the SDK for {language}; use another build"
        ))
    })?;
    let is_changed =
        |file: &&TemplateFile| !fs::read(folder.join(&file.path)).is_ok_and(|found| found == file.content);
    let changed = files.iter().filter(is_changed).count();
    if changed == 0 {
        output::print_line(format_args!("{} is up to date", folder.display()));
        return Ok(());
    }
    replace(&files, project, &folder).map_err(|error| {
        CommandError::Failure(format!("cannot replace {}: {error}; nothing was changed", folder.display()))
    })?;
    output::print_line(format_args!(
        "updated {} ({}); files changed: {changed}",
        folder.display(),
        language.name()
    ));
    Ok(())
}

/// Returns whether the folder contains the SDK for this language. Nothing else is replaced.
fn is_copied_sdk(folder: &Path, language: Language) -> bool {
    let manifest = match language {
        Language::Rust => "Cargo.toml",
        Language::Js => "package.json",
        Language::Python => "pyproject.toml",
        Language::Go => "go.mod",
        Language::C => "pilothouse.h",
    };
    // A symbolic link leads to an SDK that is not the project's own.
    fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir()) && folder.join(manifest).is_file()
}

/// Replaces the folder in the project. A failure leaves it as it was.
fn replace(files: &[TemplateFile], project: &Path, folder: &Path) -> io::Result<()> {
    let staging = tempfile::Builder::new().prefix(".pilothouse-sdk-").tempdir_in(project)?;
    let (staged, previous) = (staging.path().join("new"), staging.path().join("previous"));
    fs::create_dir(&staged)?;
    template::write(files, &staged)?;
    fs::rename(folder, &previous)?;
    fs::rename(&staged, folder).inspect_err(|_| {
        // The first error is the one to report.
        let _ = fs::rename(&previous, folder);
    })
}
