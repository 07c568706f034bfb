//! Embeds what `pilothouse new` writes: the templates, the SDKs, and the contract.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Made by tools, and big.
const LEFT_OUT: [&str; 4] = ["node_modules", "target", "dist", "__pycache__"];
const LEFT_OUT_ENDINGS: [&str; 3] = [".wasm", ".pyc", ".egg-info"];
const LANGUAGES: [&str; 5] = ["rust", "js", "python", "go", "c"];

fn main() -> io::Result<()> {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = manifest.join("../..").canonicalize()?;
    println!("cargo::rerun-if-changed=build.rs");
    let mut text = String::new();
    for (constant, folder) in [("TEMPLATES", manifest.join("templates")), ("SDKS", root.join("guest-sdk"))] {
        writeln!(text, "pub(super) static {constant}: &[(&str, Files)] = &[").expect("a string");
        for language in LANGUAGES {
            let folder = folder.join(language);
            if folder.is_dir() {
                writeln!(text, "({language:?}, &[").expect("a string");
                embed(&folder, "", &mut text)?;
                writeln!(text, "]),").expect("a string");
            } else {
                // So that it is seen when it comes.
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

/// Writes an entry for each file below the folder, in an order that does not depend on the machine. Links are followed: an
/// SDK's `wit` is one.
fn embed(folder: &Path, prefix: &str, text: &mut String) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(entry?.file_name().into_string().map_err(|name| io::Error::other(format!("{name:?}")))?);
    }
    names.sort();
    let is_left_out = |name: &str| {
        let hidden_folder = name.starts_with('.') && folder.join(name).is_dir();
        hidden_folder
            || LEFT_OUT.contains(&name)
            || LEFT_OUT_ENDINGS.iter().any(|ending| name.ends_with(ending))
    };
    // Cargo looks into a folder whole, and node_modules has tens of thousands of files: such a folder is followed file by
    // file instead.
    let is_clean = !names.iter().any(|name| is_left_out(name));
    if is_clean {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    for name in names.iter().filter(|name| !is_left_out(name)) {
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
