//! Names that were retired, and modules without a header.

use std::path::Path;

/// Names of items that readers did not understand, with the names that replaced them.
const RETIRED: &[(&str, &str)] = &[
    ("Ahead", "SpeculativeCompile"),
    ("Arrival", "LoadEvent"),
    ("Coming", "PendingVersion"),
    ("Course", "ReviewSchedule"),
    ("Door", "what it limits"),
    ("Familiar", "References"),
    ("Farthest", "FieldHints"),
    ("Hub", "Subscribers"),
    ("Impossible", "IllegalTransition"),
    ("Kept", "StoredObject"),
    ("Life", "StateMachine"),
    ("Luggage", "TransferState"),
    ("Notice", "LifecycleEvent"),
    ("Outlet", "Subscriber"),
    ("Seat", "Registration"),
    ("Seen", "what was observed"),
    ("Told", "what was delivered"),
    ("Turnstile", "RateLimiter"),
    ("Wanted", "DesiredFiles"),
    ("Watched", "PluginStatusCell"),
    ("Wishes", "RequestedLimits"),
    ("coming", "pending"),
    ("course", "schedule"),
    ("familiar", "reference"),
    ("look_again", "recheck_interval"),
    ("luggage", "transfer"),
    ("move_in", "attach"),
    ("seat", "registration"),
    ("successor", "version_diff"),
    ("take_seat", "register"),
    ("told", "delivered"),
    ("untold", "has_unseen"),
    ("usual", "fast_path"),
    ("words", "status_text"),
];

/// The keywords that declare an item.
const DECLARES: [&str; 6] = ["struct", "enum", "trait", "type", "mod", "fn"];

/// Returns a line for each retired name that the file declares, and one if it has no header.
pub(crate) fn problems(file: &Path, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if !first.starts_with("//!") && !is_test(file) {
        problems.push(format!("{}: has no `//!` header that says what the module is for", file.display()));
    }
    for (number, line) in text.lines().enumerate() {
        let Some(name) = declared(line) else { continue };
        let Some((_, instead)) = RETIRED.iter().find(|(retired, _)| *retired == name) else { continue };
        let (file, number) = (file.display(), number + 1);
        problems.push(format!(
            "{file}:{number}: the name `{name}` is retired; name the item for what it is, such as {instead}"
        ));
    }
    problems
}

fn is_test(file: &Path) -> bool {
    file.components()
        .any(|part| part.as_os_str().to_string_lossy().trim_end_matches(".rs").ends_with("tests"))
}

/// The name of the item that the line declares, if it declares one.
fn declared(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| {
        word.starts_with("pub") || word.starts_with("in") || matches!(*word, "async" | "const" | "unsafe")
    });
    words.next().filter(|word| DECLARES.contains(word))?;
    let name = words.next()?;
    Some(&name[..name.find(|char: char| !(char.is_alphanumeric() || char == '_')).unwrap_or(name.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_of_retired_names_are_found() {
        let text = "//! A header.\n\npub(crate) struct Outlet<'a> {\n    told: bool,\n}\nasync fn told(outlet: Outlet) {}\n// mod words;\nmod words;\n";
        let problems = problems(Path::new("a.rs"), text);
        assert_eq!(problems.len(), 3, "{problems:?}");
        for (problem, start) in
            problems.iter().zip(["a.rs:3: the name `Outlet`", "a.rs:6: the name `told`", "a.rs:8: "])
        {
            assert!(problem.starts_with(start), "{problem}");
        }
    }

    #[test]
    fn a_module_without_a_header_is_found_unless_it_holds_tests() {
        assert_eq!(problems(Path::new("a/b.rs"), "\n// A comment.\nfn a() {}\n").len(), 1);
        for name in ["a/tests.rs", "a/tests/b.rs", "a/model_tests/b.rs"] {
            assert_eq!(problems(Path::new(name), "fn a() {}\n"), Vec::<String>::new());
        }
    }
}
