//! The flag of `run` and `dev` for shadows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use pilothouse_controller::PluginName;

#[derive(Debug, Default, Args)]
pub(crate) struct ShadowFlags {
    /// Run the version in this file in the shadow of the plugin NAME: it gets the same requests, and its writes are not sent but compared. Can be repeated, or separated by commas.
    #[arg(
        long,
        env = "PILOTHOUSE_SHADOW",
        value_name = "NAME=FILE.wasm",
        value_delimiter = ',',
        value_parser = parse_shadow
    )]
    pub(crate) shadow: Vec<(PluginName, PathBuf)>,
}

/// Parses a plugin's name and a file.
fn parse_shadow(text: &str) -> Result<(PluginName, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            let plugin = PluginName::of_file(Path::new(&format!("{name}.wasm")));
            Ok((plugin.map_err(|error| error.to_string())?, file.into()))
        }
        _ => Err("write the name of a plugin and the file of its new version: NAME=FILE.wasm".to_owned()),
    }
}

/// Returns the file of each plugin. Errors if a plugin has several, since it has at most one shadow.
pub(crate) fn by_plugin(
    shadows: Vec<(PluginName, PathBuf)>,
) -> Result<BTreeMap<PluginName, PathBuf>, String> {
    let mut files = BTreeMap::new();
    for (plugin, file) in shadows {
        if files.contains_key(&plugin) {
            return Err(format!(
                "--shadow names two files for {plugin}: give one, because a plugin has at most one shadow"
            ));
        }
        files.insert(plugin, file);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shadow_has_the_name_of_a_plugin_and_a_file() {
        let (name, file) = parse_shadow("greeter=new/greeter=2.wasm").expect("a shadow");
        assert_eq!((name.as_str(), file.as_path()), ("greeter", Path::new("new/greeter=2.wasm")));
        for (text, expected) in [
            ("new.wasm", "NAME=FILE.wasm"),
            ("=new.wasm", "NAME=FILE.wasm"),
            ("greeter=", "NAME=FILE.wasm"),
            ("Greeter=new.wasm", "cannot name a plugin"),
        ] {
            let error = parse_shadow(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_plugin_has_one_shadow() {
        let parse = |texts: &[&str]| texts.iter().map(|text| parse_shadow(text).expect(text)).collect();
        let files = by_plugin(parse(&["a=1.wasm", "b=2.wasm"])).expect("two plugins");
        let files: Vec<_> = files.values().map(PathBuf::as_path).collect();
        assert_eq!(files, [Path::new("1.wasm"), Path::new("2.wasm")]);
        let error = by_plugin(parse(&["a=1.wasm", "b=2.wasm", "a=3.wasm"])).expect_err("two for one plugin");
        assert!(error.contains("two files for a"), "{error}");
    }
}
