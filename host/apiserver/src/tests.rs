//! Checks the direction of the dependencies between the crate's modules.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Returns the layer of each module, as listed in the documentation of the crate.
fn layers() -> BTreeMap<&'static str, usize> {
    let list = include_str!("lib.rs").split("```").nth(1).expect("a list of modules").lines().skip(1);
    let modules = list.enumerate().flat_map(|(layer, line)| {
        line.trim_start_matches("//!").split_whitespace().map(move |module| (module, layer))
    });
    modules.collect()
}

/// Calls `check` with each source file below `directory` and its text.
fn for_each_file(directory: &Path, check: &mut dyn FnMut(&Path, &str)) {
    for entry in fs::read_dir(directory).expect("a readable directory") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            for_each_file(&path, check);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            check(&path, &fs::read_to_string(&path).expect("a readable file"));
        }
    }
}

#[test]
fn modules_use_only_modules_of_lower_layers() {
    let layers = layers();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut violations = Vec::new();
    for_each_file(&source, &mut |path, text| {
        let file = path.strip_prefix(&source).expect("a path below src");
        let module = file.iter().next().and_then(|name| name.to_str()).unwrap_or_default();
        let module = module.trim_end_matches(".rs");
        if ["lib", "tests"].contains(&module) || file.ends_with("tests.rs") {
            return;
        }
        let own = layers.get(module).unwrap_or_else(|| panic!("lib.rs does not list the module {module}"));
        // Unit tests, which end a file, may use any module.
        let production = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = production.lines().filter(|line| !line.trim_start().starts_with("//"));
        for used in code.flat_map(|line| line.split("crate::").skip(1)) {
            let end = used.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(used.len());
            let name = &used[..end];
            if name != module && layers.get(name).is_some_and(|layer| layer >= own) {
                violations.push(format!("{} uses {name}", file.display()));
            }
        }
    });
    assert!(violations.is_empty(), "against the order in lib.rs:\n{}", violations.join("\n"));
}
