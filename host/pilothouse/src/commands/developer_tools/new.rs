//! `pilothouse new`: creates a project from a template.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use pilothouse_controller::PluginName;

use crate::cli::developer_tools::New;
use crate::template::{self, CustomResource, Project, SAMPLE_KIND, TemplateFile};
use crate::{CommandError, CommandResult, output};

/// The name that means the current folder.
const CURRENT_FOLDER: &str = ".";

/// What a folder may contain in which a project is created.
const REPOSITORY: &str = ".git";

pub(super) fn run(flags: &New) -> CommandResult {
    let (folder, name) = destination(&flags.name)?;
    let resource = if flags.empty { None } else { Some(custom_resource(flags, &name)?) };
    let project = Project { language: flags.lang, name: &name, resource };
    if let Some(word) = template::ambiguous_word(&project) {
        return Err(CommandError::Usage(format!(
            "the source of a project in {} already uses the name {word:?}, which the kind {:?} would give a second meaning; choose \
             another --kind, or --empty",
            flags.lang.name(),
            flags.kind.as_deref().unwrap_or(SAMPLE_KIND)
        )));
    }
    // `symlink_metadata` also detects a dangling symbolic link, which must not be replaced either.
    let exists = fs::symlink_metadata(&folder).is_ok();
    if exists && !is_empty_folder(&folder) {
        return Err(CommandError::Failure(format!(
            "{} already exists and is not an empty folder; nothing was written; choose another name, or move it away",
            shown(&flags.name)
        )));
    }
    let files = template::project_files(&project).ok_or_else(|| {
        let language = flags.lang.name();
        CommandError::Failure(format!(
            "this pilothouse binary was built without the template for {language}; use another build"
        ))
    })?;
    let written = if exists { write_into(&files, &folder) } else { write_as(&files, &folder) };
    written.map_err(|error| {
        let folder = shown(&flags.name);
        CommandError::Failure(format!("cannot create {folder}: {error}; nothing was written"))
    })?;
    print_next_steps(flags, &files);
    Ok(())
}

/// Returns the folder of the project and the plugin's name.
fn destination(argument: &str) -> Result<(PathBuf, String), CommandError> {
    if argument != CURRENT_FOLDER {
        check_name(argument).map_err(CommandError::Usage)?;
        return Ok((PathBuf::from(argument), argument.to_owned()));
    }
    let folder = env::current_dir()
        .map_err(|error| CommandError::Failure(format!("cannot determine the current folder: {error}")))?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    check_name(&name).map_err(|problem| {
        CommandError::Usage(format!("the current folder gives the plugin its name: {problem}"))
    })?;
    Ok((folder, name))
}

fn custom_resource(flags: &New, name: &str) -> Result<CustomResource, CommandError> {
    let group = flags.group.clone().unwrap_or_else(|| format!("{name}.example.com"));
    let kind = flags.kind.as_deref().unwrap_or(SAMPLE_KIND);
    CustomResource::new(&group, kind).map_err(CommandError::Usage)
}

/// Writes a new folder. The files are written to a temporary folder next to it, which is renamed, so that a failure leaves nothing
/// behind.
fn write_as(files: &[TemplateFile], folder: &Path) -> io::Result<()> {
    let (_staging, staged) = stage(files, Path::new("."))?;
    fs::rename(staged, folder)
}

/// Writes into an existing folder, in which none of the files exists. A failure leaves nothing behind.
fn write_into(files: &[TemplateFile], folder: &Path) -> io::Result<()> {
    let (_staging, staged) = stage(files, folder)?;
    let entries = fs::read_dir(staged)?.collect::<io::Result<Vec<_>>>()?;
    let mut moved = Vec::new();
    let result: io::Result<()> = entries.iter().try_for_each(|entry| {
        let target = folder.join(entry.file_name());
        fs::rename(entry.path(), &target)?;
        moved.push(target);
        Ok(())
    });
    if result.is_err() {
        for path in moved {
            // The first error is the one to report.
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
    result
}

/// Writes the files into a temporary folder in `parent`. Returns it, and the folder in it with the files.
fn stage(files: &[TemplateFile], parent: &Path) -> io::Result<(tempfile::TempDir, PathBuf)> {
    let staging = tempfile::Builder::new().prefix(".pilothouse-new-").tempdir_in(parent)?;
    let staged = staging.path().join("project");
    fs::create_dir(&staged)?;
    template::write(files, &staged)?;
    Ok((staging, staged))
}

fn print_next_steps(flags: &New, files: &[TemplateFile]) {
    let name = &flags.name;
    let own = files.iter().filter(|file| !file.path.starts_with("sdk/")).map(|file| file.path.as_str());
    let own = own.collect::<Vec<_>>().join(", ");
    output::print_line(format_args!("created {name}/ ({}): {own}", flags.lang.name()));
    output::print_line(format_args!(
        "the SDK is in {name}/sdk/; {name}/README.md explains how to test the plugin; next:"
    ));
    output::print_line(format_args!("  pilothouse build {name}"));
    output::print_line(format_args!("  pilothouse test {name}"));
    output::print_line(format_args!("  pilothouse dev --build {name}"));
}

/// Returns the folder as messages name it.
fn shown(argument: &str) -> String {
    if argument == CURRENT_FOLDER { "the current folder".to_owned() } else { format!("./{argument}") }
}

/// Errors with a message for people if the text is not a plugin's name.
fn check_name(name: &str) -> Result<(), String> {
    let is_label =
        PluginName::of_file(Path::new(&format!("{name}.wasm"))).is_ok_and(|label| label.as_str() == name);
    if is_label {
        return Ok(());
    }
    Err(format!(
        "{name:?} is not a valid plugin name; use at most 63 lower-case letters, digits and '-', and begin and end with a letter or \
         digit"
    ))
}

/// Returns whether the path is a folder without files, apart from a repository of git.
fn is_empty_folder(path: &Path) -> bool {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let is_allowed =
        |entry: io::Result<fs::DirEntry>| entry.is_ok_and(|entry| entry.file_name() == REPOSITORY);
    is_folder && fs::read_dir(path).is_ok_and(|mut entries| entries.all(is_allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_names_must_be_dns_labels() {
        for good in ["greeter", "a", "my-2nd-plugin"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "Greeter", "a_b", "-a", "a-", "a.b", "../a", "a/b", "/tmp/a", "é"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    fn file(path: &str) -> TemplateFile {
        TemplateFile { path: path.to_owned(), content: b"new".to_vec() }
    }

    #[test]
    fn a_failure_in_an_existing_folder_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        // A folder that is not empty cannot be replaced by a rename.
        fs::create_dir_all(folder.path().join("sdk/mine")).expect("created");
        let files = [file("README.md"), file("sdk/README.md"), file("src/plugin.js")];
        write_into(&files, folder.path()).expect_err("sdk exists");
        let entries =
            fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("readable").file_name());
        assert_eq!(entries.collect::<Vec<_>>(), ["sdk"]);
        assert!(folder.path().join("sdk/mine").is_dir());

        fs::remove_dir_all(folder.path().join("sdk")).expect("removed");
        write_into(&files, folder.path()).expect("an empty folder");
        assert_eq!(fs::read(folder.path().join("sdk/README.md")).expect("written"), b"new");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3, "nothing else is left");
    }

    #[test]
    fn only_a_repository_of_git_may_be_in_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(is_empty_folder(folder.path()));
        fs::create_dir(folder.path().join(".git")).expect("created");
        assert!(is_empty_folder(folder.path()));
        fs::write(folder.path().join("LICENSE"), "").expect("written");
        assert!(!is_empty_folder(folder.path()));
        assert!(!is_empty_folder(&folder.path().join("absent")));
    }
}
