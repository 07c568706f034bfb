//! The cases: scripts of requests in YAML files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::template;

/// The variables of a case, by name.
pub(crate) type Variables = BTreeMap<String, Value>;

/// A file in `cases`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Nodes that the file refers to by YAML aliases; not used otherwise.
    #[serde(default, rename = "definitions")]
    _definitions: Value,
    cases: Vec<CaseTemplate>,
}

/// A case, or several that differ in their variables.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct CaseTemplate {
    /// The name. It contains the variables that tell the cases apart.
    name: String,
    /// A set of variables for each case; without it, there is one case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    with: Vec<Variables>,
    /// Steps whose answers are not compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    setup: Vec<Step>,
    steps: Vec<Step>,
}

/// A request, or a command of kubectl.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Step {
    /// `METHOD PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<String>,
    /// Arguments of kubectl, separated by blanks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kubectl: Option<String>,
    /// `merge`, `json`, `strategic` or `apply` for the content type of a patch, or a content type. By default, it is JSON.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(crate) content_type: Option<String>,
    /// The header `Accept`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) accept: Option<String>,
    /// The body, which is sent as JSON; for kubectl, its standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<Value>,
    /// The body as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    /// Variables that later steps use, each with the JSON pointer of its value in the body of the answer.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) save: BTreeMap<String, String>,
    /// Repeats the request until it has this status code. kube-apiserver applies policies, quotas and CRDs a moment after they are written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<u16>,
}

/// A script that runs in a namespace of its own.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The name of the file without extension.
    pub(crate) group: String,
    /// `GROUP/NAME`.
    pub(crate) name: String,
    pub(crate) variables: Variables,
    pub(crate) setup: Vec<Step>,
    pub(crate) steps: Vec<Step>,
}

impl Case {
    /// Creates a case with the variables that every case has: `ns`, its namespace, and `core` and `apps`, the paths of that namespace.
    pub(crate) fn new(group: &str, name: &str, steps: Vec<Step>) -> Self {
        let namespace = format!("{group}-{name}").replace('_', "-").to_lowercase();
        let variables = [
            ("ns", namespace.clone()),
            ("core", format!("/api/v1/namespaces/{namespace}")),
            ("apps", format!("/apis/apps/v1/namespaces/{namespace}")),
            ("custom", format!("/apis/{namespace}.example.com/v1/namespaces/{namespace}")),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), Value::from(value))).into();
        let name = format!("{group}/{name}");
        Self { group: group.to_owned(), name, variables, setup: Vec::new(), steps }
    }

    /// Returns the name of the case's namespace.
    pub(crate) fn namespace(&self) -> &str {
        self.variables["ns"].as_str().unwrap_or_default()
    }
}

/// Reads all cases, ordered by group.
pub(crate) fn read_all(folder: &Path) -> Vec<Case> {
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("cases").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let cases: Vec<Case> = files.iter().flat_map(|file| read(file)).collect();
    let mut namespaces: Vec<_> = cases.iter().map(Case::namespace).collect();
    namespaces.sort_unstable();
    for pair in namespaces.windows(2) {
        assert_ne!(pair[0], pair[1], "two cases have the same name");
    }
    cases
}

fn read(file: &Path) -> Vec<Case> {
    let group = file.file_stem().and_then(|stem| stem.to_str()).expect("a name");
    let text = fs::read_to_string(file).expect("a readable file");
    let content: File =
        serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    content.cases.into_iter().flat_map(|template| expand(group, &template)).collect()
}

fn expand(group: &str, template: &CaseTemplate) -> Vec<Case> {
    let none = [Variables::new()];
    let sets = if template.with.is_empty() { &none } else { &template.with[..] };
    let create = |variables: &Variables| {
        let name = template::text(&template.name, variables);
        assert!(name.len() + group.len() < 60, "the name of {group}/{name} is too long for a namespace");
        let mut case = Case::new(group, &name, template.steps.clone());
        case.setup.clone_from(&template.setup);
        case.variables.extend(variables.clone());
        case
    };
    sets.iter().map(create).collect()
}

/// Writes cases without setup as a file that [`read_all`] reads.
pub(crate) fn write(file: &Path, cases: &[Case]) {
    let lines: Vec<String> = cases
        .iter()
        .map(|case| {
            let name = case.name.rsplit('/').next().unwrap_or_default().to_owned();
            let template =
                CaseTemplate { name, with: Vec::new(), setup: Vec::new(), steps: case.steps.clone() };
            format!("- {}\n", serde_json::to_string(&template).expect("JSON"))
        })
        .collect();
    let text = format!("# Written by `cargo xtask conformance --record`.\ncases:\n{}", lines.concat());
    fs::write(file, text).expect("the file is written");
}
