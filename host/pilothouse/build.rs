//! Generates `embedded.rs`: the templates, the SDKs and the WIT contract, which `pilothouse new` copies into a project.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use pilothouse_toolchain::Language;

/// Folders with build output and downloaded packages.
const EXCLUDED_NAMES: [&str; 4] = ["node_modules", "target", "dist", "__pycache__"];
const EXCLUDED_SUFFIXES: [&str; 3] = [".wasm", ".pyc", ".egg-info"];

fn main() -> io::Result<()> {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = manifest.join("../..").canonicalize()?;
    println!("cargo::rerun-if-changed=build.rs");
    let mut text = String::new();
    for (constant, folder) in [("TEMPLATES", manifest.join("templates")), ("SDKS", root.join("guest-sdk"))] {
        writeln!(text, "pub(super) static {constant}: &[(&str, Files)] = &[").expect("a string");
        for language in Language::ALL.map(Language::name) {
            let folder = folder.join(language);
            if folder.is_dir() {
                writeln!(text, "({language:?}, &[").expect("a string");
                embed(&folder, "", &mut text)?;
                writeln!(text, "]),").expect("a string");
            } else {
                // Runs this script again when the folder is added.
                println!("cargo::rerun-if-changed={}", folder.display());
            }
        }
        writeln!(text, "];").expect("a string");
    }
    writeln!(text, "pub(super) static WIT: Files = &[").expect("a string");
    embed(&root.join("wit"), "", &mut text)?;
    writeln!(text, "];").expect("a string");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("embedded.rs"), text)
}

/// Appends an entry for each file below `folder` to `text`, sorted by name so that the output is the same on every machine.
/// Follows symbolic links, because `wit` in each SDK is one.
fn embed(folder: &Path, prefix: &str, text: &mut String) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(entry?.file_name().into_string().map_err(|name| io::Error::other(format!("{name:?}")))?);
    }
    names.sort();
    let is_excluded = |name: &str| {
        let hidden_folder = name.starts_with('.') && folder.join(name).is_dir();
        hidden_folder
            || EXCLUDED_NAMES.contains(&name)
            || EXCLUDED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
    };
    // `rerun-if-changed` on a folder makes Cargo scan everything below it. A folder that contains, say, node_modules with its
    // tens of thousands of files is therefore listed file by file.
    let is_clean = !names.iter().any(|name| is_excluded(name));
    if is_clean {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    for name in names.iter().filter(|name| !is_excluded(name)) {
        let path = folder.join(name);
        if path.is_dir() {
            embed(&path, &format!("{prefix}{name}/"), text)?;
            continue;
        }
        if !is_clean {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        writeln!(text, "({:?}, include_bytes!({:?})),", format!("{prefix}{name}"), path).expect("a string");
    }
    Ok(())
}
