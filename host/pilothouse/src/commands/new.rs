//! `pilothouse new`: a project to start from.

use std::fs;
use std::path::Path;

use pilothouse_controller::PluginName;

use crate::cli::New;
use crate::{Failed, Outcome, output, template};

pub(crate) fn run(flags: &New) -> Outcome {
    let (name, language) = (flags.name.as_str(), flags.lang);
    check_name(name)?;
    let folder = Path::new(name);
    // A link to nowhere is somebody's as well.
    if fs::symlink_metadata(folder).is_ok() && !is_empty_folder(folder) {
        return Err(Failed::Work(format!(
            "./{name} is there already and is not an empty folder; nothing was written; choose another name, or move it away"
        )));
    }
    let files = template::project(language, name).ok_or_else(|| {
        let language = language.name();
        Failed::Work(format!(
            "this pilothouse was built without the template for {language}; take another build"
        ))
    })?;
    let failed = |error: std::io::Error| Failed::Work(format!("./{name}: {error}; nothing was made"));
    // Beside its place, so that it comes whole or not at all.
    let staging = tempfile::Builder::new().prefix(".pilothouse-new-").tempdir_in(".").map_err(failed)?;
    let staged = staging.path().join(name);
    fs::create_dir(&staged).and_then(|()| template::write(&files, &staged)).map_err(failed)?;
    fs::rename(&staged, folder).map_err(failed)?;
    let own = files.iter().filter(|file| !file.path.starts_with("sdk/")).map(|file| file.path.as_str());
    output::line(format_args!("made {name}/ in {}: {}", language.name(), own.collect::<Vec<_>>().join(", ")));
    output::line(format_args!("its SDK is in {name}/sdk/, its README says how to test it; next:"));
    output::line(format_args!("  pilothouse build {name}"));
    output::line(format_args!("  pilothouse dev --build {name}"));
    Ok(())
}

fn check_name(name: &str) -> Outcome {
    let is_label =
        PluginName::of_file(Path::new(&format!("{name}.wasm"))).is_ok_and(|label| label.as_str() == name);
    if is_label {
        return Ok(());
    }
    Err(Failed::Usage(format!(
        "{name:?} cannot name a plugin; use lower-case letters, digits and '-', at most 63 of them, beginning and ending with a \
         letter or digit"
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
    fn only_labels_name_a_project() {
        for good in ["greeter", "a", "my-2nd-plugin"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "Greeter", "a_b", "-a", "a-", "a.b", "../a", "a/b", "/tmp/a", "é"] {
            assert!(matches!(check_name(bad), Err(Failed::Usage(_))), "{bad}");
        }
    }
}
