//! Embeds what `pilothouse new` writes: the example projects, the templates and the SDKs. A build without the
//! feature `developer-tools` embeds nothing.

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "developer-tools")]
    templates::write_embedded_files()?;
    Ok(())
}

#[cfg(feature = "developer-tools")]
mod templates {
    //! The files of the projects that `pilothouse new` creates.

    use std::fmt::Write as _;
    use std::path::{Path, PathBuf};
    use std::{env, fs, io};

    use pilothouse_toolchain::Language;

    /// The folders of `templates/empty` that the projects in every language get.
    const SHARED_FOLDERS: [&str; 2] = ["scenarios", "simulations"];
    /// Folders that tools generate, which are large, and the released contracts in `wit/`, which only this repository's tests need.
    const EXCLUDED_FOLDERS: [&str; 5] = ["node_modules", "target", "dist", "__pycache__", "released"];
    /// Endings of files that tools generate.
    const EXCLUDED_ENDINGS: [&str; 3] = [".wasm", ".pyc", ".egg-info"];
    /// Folders with the tests of the SDKs themselves, which read files of this repository.
    const SDK_TEST_FOLDERS: [&str; 2] = ["test", "tests"];
    /// The ending of Go's test files, which are among the sources.
    const SDK_TEST_ENDING: &str = "_test.go";

    /// Writes the Rust source that `src/template/embedded.rs` includes.
    pub(super) fn write_embedded_files() -> io::Result<()> {
        let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
        let root = manifest.join("../..").canonicalize()?;
        let mut text = String::new();
        writeln!(text, "pub(super) static EXAMPLES: &[(&str, &str, Files)] = &[").expect("a string");
        for language in Language::ALL.map(Language::name) {
            // A language without a sample controller has its source in `templates/`.
            let example = if language == "rust" {
                "sample-controller".to_owned()
            } else {
                format!("sample-controller-{language}")
            };
            let folder = root.join("examples").join(&example);
            if !folder.is_dir() {
                println!("cargo::rerun-if-changed={}", folder.display());
                continue;
            }
            writeln!(text, "({language:?}, {example:?}, &[").expect("a string");
            embed(&folder, "", &|_| false, &mut text)?;
            writeln!(text, "]),").expect("a string");
        }
        writeln!(text, "];").expect("a string");
        let templates = manifest.join("templates");
        for (constant, folder) in [
            ("TEMPLATES", templates.clone()),
            ("EMPTY", templates.join("empty")),
            ("SDKS", root.join("guest-sdk")),
        ] {
            let is_test = |path: &str| constant == "SDKS" && is_sdk_test(path);
            writeln!(text, "pub(super) static {constant}: &[(&str, Files)] = &[").expect("a string");
            for language in Language::ALL.map(Language::name) {
                let folder = folder.join(language);
                if folder.is_dir() {
                    writeln!(text, "({language:?}, &[").expect("a string");
                    embed(&folder, "", &is_test, &mut text)?;
                    for shared in SHARED_FOLDERS.iter().filter(|_| constant == "EMPTY") {
                        embed(
                            &templates.join("empty").join(shared),
                            &format!("{shared}/"),
                            &is_test,
                            &mut text,
                        )?;
                    }
                    writeln!(text, "]),").expect("a string");
                } else {
                    // Rebuild once the folder exists.
                    println!("cargo::rerun-if-changed={}", folder.display());
                }
            }
            writeln!(text, "];").expect("a string");
        }
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
        fs::write(out.join("embedded.rs"), text)
    }

    /// Returns whether a path, relative to an SDK, belongs to the SDK's own tests.
    fn is_sdk_test(path: &str) -> bool {
        SDK_TEST_FOLDERS.contains(&path) || path.ends_with(SDK_TEST_ENDING)
    }

    /// Writes an entry for each file below the folder, in an order that does not depend on the machine, except for the files and folders
    /// that `is_left_out` names by their path. Symbolic links are followed, because each SDK's `wit` is one.
    fn embed(
        folder: &Path,
        prefix: &str,
        is_left_out: &dyn Fn(&str) -> bool,
        text: &mut String,
    ) -> io::Result<()> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            names.push(
                entry?.file_name().into_string().map_err(|name| io::Error::other(format!("{name:?}")))?,
            );
        }
        names.sort();
        let is_excluded = |name: &str| {
            let is_hidden_folder = name.starts_with('.') && folder.join(name).is_dir();
            is_hidden_folder
                || is_left_out(&format!("{prefix}{name}"))
                || EXCLUDED_FOLDERS.contains(&name)
                || EXCLUDED_ENDINGS.iter().any(|ending| name.ends_with(ending))
        };
        // For a folder Cargo scans everything below it, and node_modules has tens of thousands of files. In a folder with excluded
        // entries the files are therefore named one by one.
        let is_clean = !names.iter().any(|name| is_excluded(name));
        if is_clean {
            println!("cargo::rerun-if-changed={}", folder.display());
        }
        for name in names.iter().filter(|name| !is_excluded(name)) {
            let path = folder.join(name);
            if path.is_dir() {
                embed(&path, &format!("{prefix}{name}/"), is_left_out, text)?;
                continue;
            }
            if !is_clean {
                println!("cargo::rerun-if-changed={}", path.display());
            }
            writeln!(text, "({:?}, include_bytes!({:?})),", format!("{prefix}{name}"), path)
                .expect("a string");
        }
        Ok(())
    }
}
