//! What is wrong with the plugins that the configuration takes from registries, with the place in its file.

use std::fmt;
use std::path::Path;

use pilothouse_controller::sidecar::Sidecar;
use pilothouse_registry::PluginEntry;
use pilothouse_yaml::{FieldPath, Place, Places};
use serde_json::Map;

/// A problem of an entry.
#[derive(Debug)]
pub(super) struct EntryProblem {
    /// The place in the text; `None` if it is not known.
    pub(super) place: Option<Place>,
    /// The path of the member that is wrong in the entry, and what is wrong with it.
    text: String,
}

impl fmt::Display for EntryProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the problems of each entry, in their order. `text` is that of the configuration.
pub(super) fn problems<'e>(
    text: &str,
    entries: &'e [PluginEntry],
) -> impl Iterator<Item = (&'e PluginEntry, Vec<EntryProblem>)> {
    let places = Places::of(text);
    entries.iter().enumerate().map(move |(index, entry)| {
        let outer = FieldPath::of_members("plugins").element(index);
        let located = |(member, text): (FieldPath, String)| EntryProblem {
            place: places.as_ref().and_then(|places| places.find(&outer.clone().join(&member))),
            text,
        };
        let of_image = entry
            .check_image()
            .err()
            .map(|error| (FieldPath::of_members("image"), format!("image: {error}")));
        // The error begins with the member.
        let of_poll =
            entry.check_poll().err().map(|error| (FieldPath::of_members("poll"), error.to_string()));
        let all = of_image.into_iter().chain(of_poll).chain(sidecar_problem(entry));
        (entry, all.map(located).collect())
    })
}

fn sidecar_problem(entry: &PluginEntry) -> Option<(FieldPath, String)> {
    let error = Sidecar::parse_members(entry.sidecar.as_ref().unwrap_or(&Map::new())).err()?;
    let sidecar = FieldPath::of_members("sidecar");
    let text = error.below(&sidecar);
    Some((sidecar.join(&error.member().unwrap_or_default()), text))
}

/// Sets the problem of each invalid sidecar, with its place in the file.
pub(super) fn set_sidecar_problems(path: &Path, text: &str, entries: &mut [PluginEntry]) {
    if !entries.iter().any(|entry| sidecar_problem(entry).is_some()) {
        return;
    }
    let places = Places::of(text);
    for (index, entry) in entries.iter_mut().enumerate() {
        let Some((member, problem)) = sidecar_problem(entry) else { continue };
        let member = FieldPath::of_members("plugins").element(index).join(&member);
        let place = places.as_ref().and_then(|places| places.find(&member));
        let place = place.map(|place| format!(" {place}")).unwrap_or_default();
        entry.sidecar_problem = Some(format!("{}{place}: {problem}", path.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<PluginEntry> {
        let document: serde_json::Value = pilothouse_yaml::from_str(text).expect("YAML");
        serde_json::from_value(document["plugins"].clone()).expect("entries")
    }

    #[test]
    fn the_problem_of_a_sidecar_has_its_place_in_the_file() {
        let text = "plugins:\n- name: a\n  image: r.example/a:1\n  sidecar:\n    workers: 1\n    limits:\n      memory: lots\n\
                    - {name: b, image: 'r.example/b:1', sidecar: {workers: 2}}\n- {name: c, image: 'r.example/b:1', sidecar: {grants: {write: []}}}\n";
        let mut entries = entries(text);
        set_sidecar_problems(Path::new("host.yaml"), text, &mut entries);
        let problem = |index: usize| entries[index].sidecar_problem.as_deref();
        let first = problem(0).expect("a problem");
        assert!(
            first.starts_with("host.yaml line 7 column 7: sidecar.limits.memory: \"lots\" is not a quantity"),
            "{first}"
        );
        assert_eq!(problem(1), None);
        let last = problem(2).expect("a problem");
        assert!(
            last.starts_with("host.yaml line 9 column 56: sidecar.grants.write: unknown field"),
            "{last}"
        );
    }

    #[test]
    fn each_problem_of_an_entry_has_its_place() {
        let text = "plugins:\n- name: a\n  image: r.example/a\n  poll: 1s\n  sidecar: {workers: 0}\n";
        let entries = entries(text);
        let found: Vec<_> = problems(text, &entries).flat_map(|(_, problems)| problems).collect();
        let lines: Vec<_> = found.iter().map(|problem| problem.place.map(|place| place.line)).collect();
        assert_eq!(lines, [Some(3), Some(4), Some(5)]);
        for (problem, part) in
            found.iter().zip(["image: the reference", "poll: \"1s\"", "sidecar.workers: 0 is not"])
        {
            assert!(problem.to_string().starts_with(part), "{problem}");
        }
    }
}
