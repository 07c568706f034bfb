//! The files that `pilothouse new` writes, all embedded in this binary: a project in the chosen language, its SDK and the contract.
//!
//! The source of a project exists once: it is that of the language's sample controller in `examples/`, with the names of the plugin and of
//! its custom resource replaced. `templates/LANGUAGE` adds the files that differ outside of the repository (README, package manifest, lock
//! file) and replaces the example's files of the same path. C has no such example; its template is a whole project.
//! `templates/empty/LANGUAGE` has the source of a project without a custom resource.

mod custom_resource;
mod embedded;

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

use pilothouse_toolchain::Language;

pub(crate) use custom_resource::{CustomResource, SAMPLE_KIND};

/// One file of a new project.
#[derive(Debug)]
pub(crate) struct TemplateFile {
    /// Its path, relative to the project's folder.
    pub(crate) path: String,
    pub(crate) content: Vec<u8>,
}

/// What a new project contains.
#[derive(Debug)]
pub(crate) struct Project<'a> {
    pub(crate) language: Language,
    /// The plugin's name.
    pub(crate) name: &'a str,
    /// The custom resource of the controller. `None` for a project that only watches ConfigMaps.
    pub(crate) resource: Option<CustomResource>,
}

/// Stands for the plugin's name in the files of `templates/`.
const PLACEHOLDER: &str = "{{name}}";

/// Endings of files in the guest languages.
const SOURCE_ENDINGS: [&str; 5] = [".rs", ".js", ".py", ".go", ".c"];

/// Lock files. They contain hashes, in which no name is replaced but the plugin's.
const LOCK_FILES: [&str; 2] = ["Cargo.lock", "package-lock.json"];

/// The folders with the example of the custom resource, and with scenarios about it.
const FOLDERS_OF_RESOURCE: [&str; 3] = ["manifests/", "scenarios/", "simulations/"];

/// An embedded file of a project, with the text that stands for the plugin's name.
struct Source {
    path: &'static str,
    content: &'static [u8],
    placeholder: &'static str,
}

/// Returns all files of a new project, or `None` when this binary was built without that language's template.
pub(crate) fn project_files(project: &Project<'_>) -> Option<Vec<TemplateFile>> {
    let sources = sources(project)?;
    let mut files: Vec<_> = sources.iter().map(|source| file_of(source, project)).collect();
    files.extend(
        sdk_files(project.language)?
            .into_iter()
            .map(|file| TemplateFile { path: format!("sdk/{}", file.path), content: file.content }),
    );
    Some(files)
}

/// Returns a word that would have two meanings in the project's source, because the sample controller uses it and it is one of the
/// custom resource's names.
pub(crate) fn ambiguous_word(project: &Project<'_>) -> Option<String> {
    let sources = sources(project)?;
    let is_source = |source: &&Source| SOURCE_ENDINGS.iter().any(|ending| source.path.ends_with(ending));
    let texts =
        sources.iter().filter(is_source).filter_map(|source| std::str::from_utf8(source.content).ok());
    project.resource.as_ref()?.ambiguous_word(texts)
}

/// Returns the files of the language's SDK, as `pilothouse new` copies it. Paths are relative to the SDK's folder.
pub(crate) fn sdk_files(language: Language) -> Option<Vec<TemplateFile>> {
    let sdk = of_language(embedded::SDKS, language)?;
    let files = sdk.iter().map(|(path, content)| TemplateFile {
        path: (*path).to_owned(),
        content: standalone(language, path, content),
    });
    Some(files.collect())
}

/// Returns the files of a project without the SDK.
fn sources(project: &Project<'_>) -> Option<Vec<Source>> {
    let language = project.language;
    let template = of_language(embedded::TEMPLATES, language)?;
    let of_template =
        |files: Files| files.iter().map(|(path, content)| Source { path, content, placeholder: PLACEHOLDER });
    // The first of several files with the same path counts.
    let mut all: Vec<Source> = Vec::new();
    if project.resource.is_some() {
        all.extend(of_template(template));
        if let Some((_, placeholder, example)) = example_of(language) {
            all.extend(example.iter().map(|(path, content)| Source { path, content, placeholder }));
        }
    } else {
        all.extend(of_template(of_language(embedded::EMPTY, language)?));
        let is_about_resource =
            |source: &Source| FOLDERS_OF_RESOURCE.iter().any(|folder| source.path.starts_with(folder));
        all.extend(of_template(template).filter(|source| !is_about_resource(source)));
    }
    let mut paths = BTreeSet::new();
    all.retain(|source| paths.insert(source.path));
    Some(all)
}

fn of_language(all: &[(&str, Files)], language: Language) -> Option<Files> {
    all.iter().find(|(candidate, _)| *candidate == language.name()).map(|(_, files)| *files)
}

/// Returns a file of the project, with the names of the plugin and of its custom resource.
fn file_of(source: &Source, project: &Project<'_>) -> TemplateFile {
    let mut replacements = vec![(source.placeholder, project.name)];
    let resource = project.resource.as_ref().filter(|_| !LOCK_FILES.contains(&source.path));
    replacements.extend(resource.into_iter().flat_map(CustomResource::replacements));
    let content = match std::str::from_utf8(source.content) {
        Ok(text) => {
            let text = replace_all(text, &replacements);
            let text = match resource {
                Some(resource) => resource.without_approval(&text),
                None => text,
            };
            text.into_bytes()
        }
        Err(_) => source.content.to_vec(),
    };
    TemplateFile { path: replace_all(source.path, &replacements), content }
}

/// Replaces each text by another one. Replacements are not replaced again.
fn replace_all(text: &str, replacements: &[(&str, &str)]) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let (old, new) = match replacements.iter().find(|(old, _)| rest.starts_with(old)) {
            Some((old, new)) => (old.len(), *new),
            None => (char.len_utf8(), &rest[..char.len_utf8()]),
        };
        result.push_str(new);
        rest = &rest[old..];
    }
    result
}

/// Writes the files into an existing folder.
pub(crate) fn write(files: &[TemplateFile], folder: &Path) -> io::Result<()> {
    for file in files {
        let path = folder.join(&file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, &file.content)?;
    }
    Ok(())
}

/// The sample controller in this language: the language's name, the plugin's name and the files.
fn example_of(language: Language) -> Option<&'static (&'static str, &'static str, Files)> {
    embedded::EXAMPLES.iter().find(|(candidate, _, _)| *candidate == language.name())
}

/// Returns a file of the SDK without references to the repository: the Rust crate names the examples' workspace.
fn standalone(language: Language, path: &str, content: &[u8]) -> Vec<u8> {
    match (language, path, std::str::from_utf8(content)) {
        (Language::Rust, "Cargo.toml", Ok(text)) => text
            .replace("workspace = \"../../examples\"\n", "")
            .replace("[lints]\nworkspace = true\n\n", "")
            .into_bytes(),
        _ => content.to_vec(),
    }
}

type Files = &'static [(&'static str, &'static [u8])];

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, kind: &str) -> CustomResource {
        CustomResource::new(group, kind).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the files of a project with the sample controller.
    fn controller(language: Language) -> Vec<TemplateFile> {
        let resource = Some(resource("my-name.example.com", SAMPLE_KIND));
        project_files(&Project { language, name: "my-name", resource }).expect("a template")
    }

    /// Returns the files of a project without a custom resource.
    fn empty(language: Language) -> Vec<TemplateFile> {
        project_files(&Project { language, name: "my-name", resource: None }).expect("a template")
    }

    fn text<'a>(files: &'a [TemplateFile], path: &str) -> &'a str {
        let file = files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path}"));
        std::str::from_utf8(&file.content).expect("text")
    }

    /// Returns the project's own files, without the SDK and the lock files.
    fn own_files(files: &[TemplateFile]) -> impl Iterator<Item = (&str, String)> {
        let is_own = |file: &&TemplateFile| {
            !file.path.starts_with("sdk/") && !LOCK_FILES.contains(&file.path.as_str())
        };
        files
            .iter()
            .filter(is_own)
            .map(|file| (file.path.as_str(), String::from_utf8_lossy(&file.content).into_owned()))
    }

    fn assert_is_complete(language: Language, files: &[TemplateFile]) {
        assert!(files.len() > 5, "{language:?}: {files:?}");
        for file in files {
            let is_generated = ["node_modules/", "target/", "__pycache__/", ".venv/"]
                .iter()
                .any(|part| file.path.contains(part));
            assert!(!is_generated && !file.path.ends_with(".wasm"), "{language:?}: {}", file.path);
            let placeholder = PLACEHOLDER.as_bytes();
            let has_placeholder = file.content.windows(placeholder.len()).any(|part| part == placeholder);
            assert!(!has_placeholder, "{language:?}: {} has the placeholder", file.path);
        }
        assert!(text(files, "README.md").contains("my-name"), "{language:?}");
        // The Rust SDK contains the bindings that were generated from it.
        let has_contract = files.iter().any(|file| file.path.ends_with("reconcile.wit"));
        assert!(has_contract || language == Language::Rust, "{language:?}: no contract");
        let is_released = |file: &TemplateFile| file.path.contains("/released/");
        assert!(!files.iter().any(is_released), "{language:?}: contracts of earlier versions");
    }

    #[test]
    fn no_placeholder_remains_and_no_generated_file_is_included() {
        for language in Language::ALL {
            assert_is_complete(language, &controller(language));
            assert_is_complete(language, &empty(language));
        }
    }

    #[test]
    fn git_ignores_kubeconfigs_plugins_and_build_output() {
        for (language, output) in [
            (Language::Rust, "/target/"),
            (Language::Js, "node_modules/"),
            (Language::Python, ".venv/"),
            (Language::Go, "*.test"),
            (Language::C, "/build/"),
        ] {
            for files in [controller(language), empty(language)] {
                let ignored: Vec<_> = text(&files, ".gitignore").lines().collect();
                for pattern in ["/.pilothouse/", "kubeconfig", "*.kubeconfig", "/plugins/", "*.wasm", output]
                {
                    assert!(ignored.contains(&pattern), "{language:?} does not ignore {pattern}");
                }
            }
        }
    }

    /// The files of a project that depend on where it is. Everything else comes from the example, so the two cannot differ.
    const FILES_OF_TEMPLATES: [&str; 10] = [
        ".gitignore",
        ".npmrc",
        "Cargo.lock",
        "Cargo.toml",
        "README.md",
        "go.mod",
        "package-lock.json",
        "package.json",
        "pyproject.toml",
        "requirements.txt",
    ];

    #[test]
    fn the_source_of_a_project_is_that_of_the_example() {
        let languages = embedded::TEMPLATES.iter().filter(|(language, _)| *language != "c");
        for (language, template) in languages {
            let source: Vec<_> = template
                .iter()
                .filter(|(path, _)| !FILES_OF_TEMPLATES.contains(path))
                .map(|(path, _)| path)
                .collect();
            assert!(source.is_empty(), "templates/{language} has {source:?}: change the example instead");
            let has_example = embedded::EXAMPLES.iter().any(|(with_example, _, _)| with_example == language);
            assert!(has_example, "{language} has neither an example nor a template with source");
        }
    }

    #[test]
    fn the_names_of_examples_do_not_remain() {
        for language in Language::ALL {
            for (path, content) in own_files(&controller(language)).chain(own_files(&empty(language))) {
                for name in ["sample-controller", "samplecontroller.k8s.io", "api-approved"] {
                    assert!(!content.contains(name), "{language:?}: {path} has {name}");
                }
            }
        }
    }

    #[test]
    fn the_custom_resource_has_the_group_and_kind_of_the_project() {
        for language in Language::ALL {
            let resource = Some(resource("shop.example.org", "Website"));
            let project = Project { language, name: "my-name", resource };
            assert_eq!(ambiguous_word(&project), None, "{language:?}");
            let files = project_files(&project).expect("a template");
            for (path, content) in own_files(&files) {
                let has_sample = |text: &str| text.to_ascii_lowercase().contains("foo");
                assert!(!has_sample(path) && !has_sample(&content), "{language:?}: {path}: {content}");
            }
            let example = text(&files, "manifests/website.yaml");
            assert!(
                example.starts_with("apiVersion: shop.example.org/v1alpha1\nkind: Website\n"),
                "{example}"
            );
            let has_approval = |group: &str| {
                let resource = Some(self::resource(group, "Website"));
                let files = project_files(&Project { language, name: "my-name", resource });
                own_files(&files.expect("a template")).any(|(_, content)| content.contains("api-approved"))
            };
            assert!(!has_approval("shop.example.org") && has_approval("shop.k8s.io"), "{language:?}");
        }
    }

    #[test]
    fn json_files_are_valid_without_the_approval() {
        let files = controller(Language::Go);
        let crd: serde_json::Value = serde_json::from_str(text(&files, "crd.json")).expect("JSON");
        assert_eq!(crd["metadata"]["name"], "foos.my-name.example.com");
    }

    #[test]
    fn a_kind_that_the_source_uses_for_something_else_is_ambiguous() {
        for language in Language::ALL {
            let resource = Some(resource("shop.example.org", "Deployment"));
            let word = ambiguous_word(&Project { language, name: "my-name", resource });
            assert!(word.is_some(), "{language:?}");
        }
    }

    #[test]
    fn a_project_without_a_custom_resource_has_no_other_source() {
        for language in Language::ALL {
            let files = empty(language);
            for (path, content) in own_files(&files) {
                let is_manifest = path.starts_with("manifests/");
                assert!(!content.contains("Foo") && !is_manifest, "{language:?}: {path}");
            }
        }
    }

    #[test]
    fn each_project_has_a_scenario_and_a_readme_that_names_its_command() {
        for language in Language::ALL {
            for (files, scenario) in [(controller(language), "deployment"), (empty(language), "hello")] {
                let scenarios = files.iter().filter(|file| file.path.starts_with("scenarios/"));
                let scenarios: Vec<_> = scenarios.map(|file| file.path.as_str()).collect();
                assert_eq!(scenarios, [format!("scenarios/{scenario}.yaml")], "{language:?}");
                assert!(text(&files, "README.md").contains("pilothouse test ."), "{language:?}");
            }
        }
    }

    #[test]
    fn replacements_are_not_replaced_again() {
        assert_eq!(replace_all("a-b é b", &[("a", "b"), ("b", "a")]), "b-a é a");
        assert_eq!(replace_all("foos foo", &[("foos", "x"), ("foo", "foos")]), "x foos");
    }

    #[test]
    fn a_project_ignores_its_own_status_writes() {
        for language in Language::ALL {
            let files = controller(language);
            let has_predicate = own_files(&files).any(|(_, content)| content.contains("generationChanged()"));
            assert!(
                has_predicate,
                "{language:?}: without a predicate each status write wakes the plugin again"
            );
        }
    }

    #[test]
    fn the_copied_sdk_has_no_tests_of_its_own() {
        for language in Language::ALL {
            let files = sdk_files(language).expect("an SDK");
            let is_test = |path: &str| {
                path.starts_with("test/") || path.starts_with("tests/") || path.ends_with("_test.go")
            };
            assert!(!files.iter().any(|file| is_test(&file.path)), "{language:?}: {files:?}");
        }
    }

    /// gofmt aligns the values of neighbouring declarations, so a name of another length would need other spaces.
    #[test]
    fn go_source_is_formatted_whatever_the_length_of_the_kind() {
        let files = controller(Language::Go);
        let sources: Vec<_> = own_files(&files).filter(|(path, _)| path.ends_with(".go")).collect();
        assert!(!sources.is_empty());
        for (path, content) in sources {
            let lines: Vec<_> = content.lines().collect();
            for (position, line) in lines.iter().enumerate() {
                if !line.to_ascii_lowercase().contains("foo") {
                    continue;
                }
                let neighbours = &lines[position.saturating_sub(1)..(position + 2).min(lines.len())];
                let is_aligned = |line: &&&str| line.contains("  =") || line.contains("  `");
                assert_eq!(neighbours.iter().find(is_aligned), None, "{path}:{}", position + 1);
            }
        }
    }

    #[test]
    fn the_rust_sdk_stands_alone() {
        let files = controller(Language::Rust);
        let manifest = text(&files, "sdk/Cargo.toml");
        assert!(!manifest.contains("workspace"), "{manifest}");
        assert!(text(&files, "sdk/src/bindings/generated/guest.rs").contains("mod controller"));
    }
}
