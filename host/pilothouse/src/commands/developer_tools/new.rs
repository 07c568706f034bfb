//! `pilothouse new`: creates a project from a template.

use std::fs;
use std::path::Path;

use pilothouse_controller::PluginName;

use crate::cli::developer_tools::New;
use crate::{CommandError, CommandResult, output, template};

pub(super) fn run(flags: &New) -> CommandResult {
    let (name, language) = (flags.name.as_str(), flags.lang);
    check_name(name)?;
    let folder = Path::new(name);
    // `symlink_metadata` also detects a dangling symbolic link, which must not be replaced either.
    if fs::symlink_metadata(folder).is_ok() && !is_empty_folder(folder) {
        return Err(CommandError::Failure(format!(
            "./{name} already exists and is not an empty folder; nothing was written; choose another name, or move it away"
        )));
    }
    let files = template::project_files(language, name).ok_or_else(|| {
        let language = language.name();
        CommandError::Failure(format!(
            "this pilothouse binary was built without the template for {language}; use another build"
        ))
    })?;
    let write_error = |error: std::io::Error| {
        CommandError::Failure(format!("cannot create ./{name}: {error}; nothing was written"))
    };
    // Written to a temporary folder next to the destination and renamed, so that a failure leaves nothing behind.
    let staging = tempfile::Builder::new().prefix(".pilothouse-new-").tempdir_in(".").map_err(write_error)?;
    let staged = staging.path().join(name);
    fs::create_dir(&staged).and_then(|()| template::write(&files, &staged)).map_err(write_error)?;
    fs::rename(&staged, folder).map_err(write_error)?;
    let own = files.iter().filter(|file| !file.path.starts_with("sdk/")).map(|file| file.path.as_str());
    let own = own.collect::<Vec<_>>().join(", ");
    output::print_line(format_args!("created {name}/ ({}): {own}", language.name()));
    output::print_line(format_args!(
        "the SDK is in {name}/sdk/; {name}/README.md explains how to test the plugin; next:"
    ));
    output::print_line(format_args!("  pilothouse build {name}"));
    output::print_line(format_args!("  pilothouse dev --build {name}"));
    Ok(())
}

fn check_name(name: &str) -> CommandResult {
    let is_label =
        PluginName::of_file(Path::new(&format!("{name}.wasm"))).is_ok_and(|label| label.as_str() == name);
    if is_label {
        return Ok(());
    }
    Err(CommandError::Usage(format!(
        "{name:?} is not a valid plugin name; use at most 63 lower-case letters, digits and '-', and begin and end with a letter or \
         digit"
    )))
}

fn is_empty_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
        && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
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
            assert!(matches!(check_name(bad), Err(CommandError::Usage(_))), "{bad}");
        }
    }
}
