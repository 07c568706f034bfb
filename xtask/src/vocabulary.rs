//! Names that were retired, and modules without a header.

use std::path::Path;

/// The retired names. The file describes its format.
const RETIRED: &str = include_str!("../retired-names.txt");

/// The keywords that declare an item.
const DECLARES: [&str; 6] = ["struct", "enum", "trait", "type", "mod", "fn"];

/// A name that must not be used again.
struct RetiredName {
    name: &'static str,
    /// Whether the name is refused as any identifier, and not only as the name of an item.
    is_refused_everywhere: bool,
    instead: &'static str,
}

/// Returns a line for each retired name that the file uses, and one if it has no header.
pub(crate) fn problems(file: &Path, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if !first.starts_with("//!") && !is_test(file) {
        problems.push(format!("{}: has no `//!` header that says what the module is for", file.display()));
    }
    let retired_names: Vec<RetiredName> = retired_names(RETIRED).collect();
    for (number, line) in text.lines().enumerate() {
        let code = without_texts(line);
        let item = declared(&code);
        let is_refused = |retired: &&RetiredName| {
            item == Some(retired.name)
                || (retired.is_refused_everywhere && identifiers(&code).any(|name| name == retired.name))
        };
        for RetiredName { name, instead, .. } in retired_names.iter().filter(is_refused) {
            let (file, number) = (file.display(), number + 1);
            problems.push(format!(
                "{file}:{number}: the name `{name}` is retired; name what it is, such as {instead} (xtask/retired-names.txt)"
            ));
        }
    }
    problems
}

/// Parses the list of retired names: a line for each, with the name, `item` or `any`, and the replacement.
fn retired_names(list: &'static str) -> impl Iterator<Item = RetiredName> {
    list.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (name, rest) = line.split_once(' ')?;
        let (scope, instead) = rest.split_once(' ')?;
        Some(RetiredName { name, is_refused_everywhere: scope == "any", instead })
    })
}

/// Returns the line without comments and without texts that begin and end on it.
fn without_texts(line: &str) -> String {
    let mut code = String::new();
    let mut rest = line;
    while let Some(position) = rest.find(['"', '/']) {
        let (before, after) = rest.split_at(position);
        code.push_str(before);
        if after.starts_with("//") {
            return code;
        }
        let is_text = after.starts_with('"') && !before.ends_with('\'');
        let length = if is_text { text_length(after).unwrap_or(1) } else { 1 };
        code.push(' ');
        rest = &after[length..];
    }
    code + rest
}

/// The length of the text at the start of the line, with its quotes; `None` if it does not end on this line.
fn text_length(line: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (position, byte) in line.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(position + 1),
            _ => {}
        }
    }
    None
}

fn identifiers(code: &str) -> impl Iterator<Item = &str> {
    code.split(|char: char| !(char.is_alphanumeric() || char == '_'))
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
        let text = "//! A header.\n\npub(crate) struct Life<'a> {}\nasync fn usual(life: Life) {}\n// mod words;\nmod words;\n";
        let expected = ["a.rs:3: the name `Life`", "a.rs:4: the name `usual`", "a.rs:6: the name `words`"];
        assert_problems(text, &expected);
    }

    #[test]
    fn fields_parameters_and_variables_with_retired_names_are_found() {
        let text = "//! A header.\nlet told = 1;\nlet words = told;\nself.untold.push(\"told\"); // told\nfn a(seat: u8, text: &str) {}\n";
        let expected = ["a.rs:2: ", "a.rs:3: the name `told`", "a.rs:4: the name `untold`", "a.rs:5: "];
        assert_problems(text, &expected);
    }

    #[test]
    fn texts_and_comments_are_not_code() {
        let text = "//! He was told.\nlet a = (\"told \\\" told\", 'x', '\"', b / c); // told\n/// told\nlet toldy = \"an open text\n";
        assert_problems(text, &[]);
    }

    #[test]
    fn every_line_of_the_list_is_a_name_a_scope_and_a_replacement() {
        let lines = RETIRED.lines().filter(|line| !line.starts_with('#'));
        let scopes = ["item", "any"];
        for line in lines.clone() {
            assert!(line.split(' ').nth(1).is_some_and(|scope| scopes.contains(&scope)), "{line}");
        }
        assert_eq!(retired_names(RETIRED).count(), lines.count());
    }

    #[track_caller]
    fn assert_problems(text: &str, starts: &[&str]) {
        let problems = problems(Path::new("a.rs"), text);
        assert_eq!(problems.len(), starts.len(), "{problems:?}");
        for (problem, start) in problems.iter().zip(starts) {
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
