//! `pilothouse check --config FILE --sidecars DIR`: checks the files of an operator without any plugin.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pilothouse_controller::sidecar::Sidecar;
use pilothouse_controller::{PluginName, printable, sidecar_warnings};
use pilothouse_yaml::{Place, Places};
use serde::Serialize;
use serde_json::json;

use super::run::{HostConfig, read_config};
use crate::cli::Check;
use crate::{CommandError, CommandResult, input_file, output};

/// The maximum size of a sidecar in bytes.
const MAX_SIDECAR: u64 = 1 << 20;
/// The maximum number of sidecars.
const MAX_SIDECARS: usize = 10_000;

/// A problem of a file.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct FileProblem {
    file: String,
    /// The line, from 1, if the problem is at a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    problem: String,
}

/// What of a valid file has no effect.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct FileWarning {
    file: String,
    warning: String,
}

/// Checks the configuration file and the sidecars that the flags name.
///
/// # Errors
/// Errors if a file is invalid, or cannot be read.
pub(super) fn check_configuration(flags: &Check) -> CommandResult {
    let (mut files, mut problems, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(path) = &flags.config {
        if !path.exists() {
            // As `run` does: there is no file that could be invalid.
            read_config(Some(path))?;
        }
        files.push(path.display().to_string());
        for problem in config_problems(path) {
            if !files.contains(&problem.file) {
                files.push(problem.file.clone());
            }
            problems.push(problem);
        }
    }
    if let Some(directory) = &flags.sidecars {
        for path in sidecar_files(directory)? {
            files.push(path.display().to_string());
            problems.extend(sidecar_problem(&path));
            warnings.extend(warnings_about(&path));
        }
    }
    if flags.json {
        let document =
            json!({"valid": problems.is_empty(), "files": files, "problems": problems, "warnings": warnings});
        output::print_line(format_args!("{document:#}"));
    } else {
        print_result(&files, &problems);
        for FileWarning { file, warning } in &warnings {
            output::print_line(format_args!("{file}: warning: {}", printable(warning)));
        }
    }
    let invalid: BTreeSet<_> = problems.iter().map(|problem| &problem.file).collect();
    match invalid.len() {
        0 => Ok(()),
        1 => Err(CommandError::Failure("one file is invalid".to_owned())),
        count => Err(CommandError::Failure(format!("{count} files are invalid"))),
    }
}

fn print_result(files: &[String], problems: &[FileProblem]) {
    for file in files {
        let mut of_file = problems.iter().filter(|problem| problem.file == *file).peekable();
        if of_file.peek().is_none() {
            output::print_line(format_args!("{file}: valid"));
        }
        for problem in of_file {
            output::print_line(format_args!("{file}: {}", problem.text()));
        }
    }
}

impl FileProblem {
    fn at(file: String, place: Option<Place>, problem: String) -> Self {
        let Some(place) = place else { return Self { file, line: None, problem } };
        Self { file, line: Some(place.line), problem: format!("{place}: {problem}") }
    }

    /// Returns the problem, with its line unless the text begins with that.
    fn text(&self) -> String {
        match self.line {
            Some(line) if !self.problem.starts_with("line ") => format!("line {line}: {}", self.problem),
            _ => self.problem.clone(),
        }
    }
}

fn config_problems(path: &Path) -> Vec<FileProblem> {
    let file = path.display().to_string();
    match read_config(Some(path)) {
        Ok(config) => entry_problems(path, &file, &config),
        Err(CommandError::Usage(text) | CommandError::Failure(text)) => {
            let problem = text.strip_prefix(&format!("--config {file}: ")).unwrap_or(&text);
            vec![with_line(file, problem)]
        }
    }
}

/// Returns what is wrong with the plugins from registries. A running host shows the same in the status of each.
#[cfg(feature = "registry")]
fn entry_problems(path: &Path, file: &str, config: &HostConfig) -> Vec<FileProblem> {
    use super::configured_entries::{EntryProblem, problems};
    use super::run::MAX_CONFIG;

    if let Err(error) = config.registries.check(&config.plugins) {
        return vec![FileProblem { file: file.to_owned(), line: None, problem: error.to_string() }];
    }
    // Only a regular file can be read twice.
    let text = input_file::read_text(path, MAX_CONFIG).unwrap_or_default();
    let mut found: Vec<_> = policy_problem(config.registries.policy.as_deref()).into_iter().collect();
    for (entry, problems) in problems(&text, &config.plugins) {
        let of_entry = |problem: EntryProblem| {
            FileProblem::at(file.to_owned(), problem.place, format!("the plugin {:?}: {problem}", entry.name))
        };
        found.extend(problems.into_iter().map(of_entry));
    }
    found
}

/// Returns what is wrong with the signature policy, its keys and its trust root. The configuration of a pod names a file that may not exist on
/// this machine: then nothing is known.
#[cfg(feature = "registry")]
fn policy_problem(path: Option<&Path>) -> Option<FileProblem> {
    let path = path.filter(|path| path.exists())?;
    let (file, problem) =
        (path.display().to_string(), pilothouse_registry::SignaturePolicy::read(path).err()?);
    let problem = problem.to_string();
    let text = problem.strip_prefix(&format!("{file}: ")).unwrap_or(&problem).to_owned();
    Some(with_line(file, &text))
}

#[cfg(not(feature = "registry"))]
fn entry_problems(_: &Path, _: &str, _: &HostConfig) -> Vec<FileProblem> {
    Vec::new()
}

/// Separates the line from the message of the YAML parser, which has the form `error: line 2 column 3: …` or ends with it.
fn with_line(file: String, problem: &str) -> FileProblem {
    let problem = problem.strip_prefix("error: ").unwrap_or(problem);
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    let line = problem.split("line ").skip(1).find_map(number);
    FileProblem { file, line, problem: problem.to_owned() }
}

/// Returns the YAML files of the directory, sorted.
fn sidecar_files(directory: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let error = |problem: String| {
        let remedy = "give the directory with the sidecars, NAME.yaml";
        CommandError::Usage(format!("--sidecars {}: {problem}; {remedy}", directory.display()))
    };
    let entries = directory.read_dir().map_err(|problem| error(problem.to_string()))?;
    let is_yaml = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        !is_hidden && matches!(extension, Some("yaml" | "yml"))
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_yaml).collect();
    if paths.len() > MAX_SIDECARS {
        return Err(error(format!("{} files; the maximum is {MAX_SIDECARS}", paths.len())));
    }
    paths.sort();
    Ok(paths)
}

fn sidecar_problem(path: &Path) -> Option<FileProblem> {
    let file = path.display().to_string();
    let without_line = |problem: String| Some(FileProblem { file: file.clone(), line: None, problem });
    if path.extension().is_some_and(|extension| extension == "yml") {
        return without_line(format!(
            "the host does not read it; rename it to {}",
            path.with_extension("yaml").display()
        ));
    }
    if let Err(error) = PluginName::of_file(&path.with_extension("wasm")) {
        return without_line(format!("no plugin can have this sidecar: {error}"));
    }
    let text = match input_file::read_text(path, MAX_SIDECAR) {
        Ok(text) => text,
        Err(problem) => return without_line(problem),
    };
    let error = Sidecar::parse(&text).err()?;
    let problem = error.to_string();
    match error.member() {
        None => Some(with_line(file, &problem)),
        Some(member) => {
            let place = Places::of(&text).and_then(|places| places.find(&member));
            Some(FileProblem::at(file, place, problem))
        }
    }
}

/// Returns the warnings about a sidecar; none if it is invalid.
fn warnings_about(path: &Path) -> Vec<FileWarning> {
    let sidecar = input_file::read_text(path, MAX_SIDECAR).ok().and_then(|text| Sidecar::parse(&text).ok());
    let warnings = sidecar.map(|sidecar| sidecar_warnings(&sidecar)).unwrap_or_default();
    let file = path.display().to_string();
    warnings.into_iter().map(|warning| FileWarning { file: file.clone(), warning }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(name: &str, text: &str) -> Option<FileProblem> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        sidecar_problem(&path)
    }

    #[test]
    fn each_problem_has_its_line() {
        for (text, line, part) in [
            ("workers: 1\nworker: 2\n", 2, "unknown field"),
            ("# a\nworkers: 0\n", 2, "line 2 column 1: workers: 0 is not between"),
            ("limits:\n  handles: 5\n  memory: lots\n", 3, "line 3 column 3: limits.memory: \"lots\""),
            (
                "enabled: true\ngrants:\n  crds: true\n  http: ['ftp://a.example.com']\n",
                4,
                "column 3: grants.http",
            ),
            ("shadow: {file: /etc/passwd}\n", 1, "line 1 column 10: shadow.file"),
            ("enabled: [\n", 2, ""),
        ] {
            let found = problem("a.yaml", text).expect(text);
            assert!(found.problem.contains(part), "{found:?}");
            assert!(found.line == Some(line) || part.is_empty() && found.line.is_some(), "{found:?}");
        }
    }

    #[cfg(feature = "registry")]
    #[test]
    fn plugins_of_the_configuration_are_checked_without_their_registry() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("host.yaml");
        let found = |text: &str| {
            std::fs::write(&path, text).expect("written");
            config_problems(&path).iter().map(FileProblem::text).collect::<Vec<_>>()
        };
        assert_eq!(found("plugins: [{name: a, image: 'r.example/a:1', sidecar: {workers: 2}}]\n"), [""; 0]);
        let all = found(
            "plugins:\n- name: a\n  image: r.example/a\n  sidecar: {workers: 0}\n- {name: b, image: 'r.example/b:1', poll: 3s}\n",
        );
        let parts = [
            ["line 3 column 3: the plugin \"a\": image: ", "neither a tag nor a digest"],
            ["line 4 column 13: the plugin \"a\": sidecar.workers: ", "0 is not between 1 and 64"],
            ["line 5 column 37: the plugin \"b\": poll: ", "no interval of at least 10s"],
        ];
        assert_eq!(all.len(), parts.len(), "{all:?}");
        for (text, [start, part]) in all.iter().zip(parts) {
            assert!(text.starts_with(start) && text.contains(part), "{text}");
        }
        let twice = "plugins: [{name: a, image: 'r.example/a:1'}, {name: a, image: 'r.example/a:1'}]\n";
        assert!(found(twice)[0].contains("two entries"));
    }

    #[test]
    fn the_line_is_named_once() {
        let found = problem("a.yaml", "# a\nworkers: many\n").expect("a problem").text();
        assert_eq!(found.matches("line 2").count(), 1, "{found}");
    }

    #[test]
    fn a_rule_that_never_matches_is_a_warning() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.yaml");
        let warnings = |verb: &str| {
            let rule = format!("{{apiGroups: [apps], resources: [deployments], verbs: [{verb}]}}");
            std::fs::write(&path, format!("grants: {{writes: [{rule}]}}\n")).expect("written");
            warnings_about(&path).into_iter().map(|warning| warning.warning).collect::<Vec<_>>()
        };
        assert_eq!(warnings("update"), Vec::<String>::new());
        let found = warnings("explode");
        assert!(
            found.len() == 1 && found[0].starts_with("grants.writes[0]: the verb \"explode\" never"),
            "{found:?}"
        );
    }

    #[test]
    fn a_valid_sidecar_has_no_problem_and_a_wrong_name_has_one() {
        assert_eq!(problem("a.yaml", "workers: 2\n"), None);
        assert_eq!(problem("empty.yaml", ""), None);
        let short = problem("a.yml", "workers: 2\n").expect("a problem");
        assert!(short.problem.contains("rename it to") && short.problem.contains("a.yaml"), "{short:?}");
        assert!(problem("Not_A_Name.yaml", "").is_some());
    }
}
