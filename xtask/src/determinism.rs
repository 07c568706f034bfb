//! Sources of nondeterminism in the crates that a simulation runs: maps in random order, `select!` in random order, other threads, and the
//! randomness of the system. Clippy refuses the others (clippy.toml).

use std::path::Path;

use crate::vocabulary::without_texts;

/// The crates that run in a simulation.
const SIMULATED: [&str; 8] = ["apiserver", "cel", "controller", "informer", "model", "plugin", "sim", "yaml"];

/// The files that may use the standard library's maps and their hasher.
const STANDARD_MAPS_ALLOWED: [&str; 8] = [
    // The maps of CEL are those of the library. No result and no cost depends on their order.
    "host/apiserver/src/admission/evaluation.rs",
    "host/apiserver/src/schema/cel/values.rs",
    "host/cel/src/evaluate.rs",
    "host/cel/src/evaluate_macros.rs",
    "host/cel/src/values.rs",
    // Defines the maps that replace them.
    "host/model/src/hash.rs",
    // Their keys are hashes already.
    "host/model/src/object/parse/managed_fields.rs",
    "host/model/src/object/parse/reference.rs",
];

/// What maps of the standard library are called.
const STANDARD_MAPS: [&str; 4] = ["HashMap", "HashSet", "hash_map", "hash_set"];

/// The files that may use threads, none of which does in a simulation.
const THREADS_ALLOWED: [&str; 10] = [
    // A simulated server calls no webhooks and stores in memory, so that its controllers never wait, and run in its own thread.
    "host/apiserver/src/controllers/runner.rs",
    "host/apiserver/src/rest/write_steps/internal.rs",
    // A simulated server stores in memory, and calls no webhooks.
    "host/apiserver/src/persistence/mod.rs",
    "host/apiserver/src/webhooks/client.rs",
    // Requests to hosts outside are requests to the scenario in a simulation.
    "host/controller/src/outgoing/connect.rs",
    "host/controller/src/outgoing/tls.rs",
    "host/controller/src/recording/writing_task.rs",
    // Its function `run` works in the current thread in a simulation.
    "host/plugin/src/blocking.rs",
    // Ends calls of guests by time. Simulations count instructions.
    "host/plugin/src/ticker.rs",
    // Runs worlds side by side, each of which has one thread.
    "host/sim/src/search/executor.rs",
];

/// What starts threads, or hands work to other ones.
const THREADS: [&str; 5] =
    ["spawn_blocking", "block_in_place", "thread::spawn", "thread::Builder", "thread::scope"];

/// What reads the randomness of the system.
const SYSTEM_RANDOMNESS: [&str; 4] = ["OsRng", "SysRng", "getrandom", "from_os_rng"];

/// Returns a line for each use of a map in random order, of another thread and of the system's randomness, and for each `select!` without `biased`.
pub(crate) fn problems(file: &Path, text: &str) -> Vec<String> {
    if !is_simulated(file) {
        return Vec::new();
    }
    let lines: Vec<String> = text.lines().map(without_texts).collect();
    let mut problems = unordered_selects(file, &lines);
    if !STANDARD_MAPS_ALLOWED.iter().any(|allowed| Path::new(allowed) == file) {
        problems.extend(standard_maps(file, &lines.join("\n")));
    }
    // Tests are no part of a simulation.
    let code = lines.iter().take_while(|line| line.trim() != "#[cfg(test)]");
    if !is_test(file) {
        for (number, line) in code.enumerate() {
            problems.extend(
                thread_or_randomness(file, line)
                    .map(|problem| format!("{}:{}: {problem}", file.display(), number + 1)),
            );
        }
    }
    problems
}

fn is_test(file: &Path) -> bool {
    file.iter().any(|part| part == "tests" || part == "tests.rs")
}

/// Returns what is wrong with a line that uses another thread or the randomness of the system.
fn thread_or_randomness(file: &Path, line: &str) -> Option<String> {
    let found = |names: &[&'static str]| names.iter().copied().find(|name| line.contains(name));
    if let Some(name) = found(&SYSTEM_RANDOMNESS) {
        return Some(format!(
            "`{name}` reads the randomness of the system; use the environment's source, or that of the API server"
        ));
    }
    let is_allowed = THREADS_ALLOWED.iter().any(|allowed| Path::new(allowed) == file);
    let name = found(&THREADS).filter(|_| !is_allowed)?;
    Some(format!(
        "`{name}` uses another thread, and a simulation has one; use pilothouse_plugin::blocking::run"
    ))
}

fn is_simulated(file: &Path) -> bool {
    let parts: Vec<_> = file.iter().filter_map(|part| part.to_str()).collect();
    matches!(parts[..], ["host", name, "src", ..] if SIMULATED.contains(&name))
}

/// Returns a line for each `select!` whose first line is not `biased;`.
fn unordered_selects(file: &Path, lines: &[String]) -> Vec<String> {
    let is_biased = |after: &[String]| {
        after.iter().map(|line| line.trim()).find(|line| !line.is_empty()) == Some("biased;")
    };
    let selects = lines.iter().enumerate().filter(|(_, line)| line.contains("select!"));
    selects
        .filter(|(number, _)| !is_biased(&lines[number + 1..]))
        .map(|(number, _)| {
            format!(
                "{}:{}: this `select!` polls its branches in random order; make its first line `biased;`, and order the branches so that none can \
                 hold another one back",
                file.display(),
                number + 1
            )
        })
        .collect()
}

/// Returns a line for each name of a standard map or its hasher. The code has no comments.
fn standard_maps(file: &Path, code: &str) -> Vec<String> {
    let after_path =
        code.match_indices("collections::").map(|(start, path)| (start, &code[start + path.len()..]));
    let maps = after_path.filter_map(|(start, rest)| {
        let names = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default(),
            None => rest.split(|char: char| !is_in_identifier(char)).next().unwrap_or_default(),
        };
        let found =
            names.split(|char: char| !is_in_identifier(char)).find(|name| STANDARD_MAPS.contains(name))?;
        Some((start, found))
    });
    let hashers = code.match_indices("RandomState");
    maps.chain(hashers)
        .map(|(start, name)| {
            format!(
                "{}:{}: `{name}` of the standard library has a random order; use pilothouse_model::hash, or a BTreeMap or BTreeSet",
                file.display(),
                code[..start].lines().count().max(1)
            )
        })
        .collect()
}

fn is_in_identifier(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_problems(text: &str, expected: &[&str]) {
        let found = problems(Path::new("host/controller/src/a.rs"), text);
        let is_expected = found.len() == expected.len()
            && found.iter().zip(expected).all(|(found, expected)| found.contains(expected));
        assert!(is_expected, "{found:?}");
        for simulated in SIMULATED {
            assert_eq!(
                problems(&Path::new("host").join(simulated).join("src/a.rs"), text).len(),
                expected.len()
            );
        }
        assert_eq!(problems(Path::new("host/pilothouse/src/a.rs"), text), Vec::<String>::new());
        assert_eq!(problems(Path::new("host/controller/tests/a.rs"), text), Vec::<String>::new());
    }

    #[test]
    fn maps_in_random_order_are_found() {
        assert_problems("use std::fmt;\nuse std::collections::HashMap;\n", &["a.rs:2: `HashMap`"]);
        assert_problems("use std::collections::{\n    BTreeMap, HashSet,\n};\n", &["a.rs:1: `HashSet`"]);
        assert_problems("fn a(a: std::collections::hash_map::Keys<u8, u8>) {}\n", &["a.rs:1: `hash_map`"]);
        assert_problems("\nuse std::hash::RandomState;\n", &["a.rs:2: `RandomState`"]);
    }

    #[test]
    fn ordered_maps_are_allowed() {
        assert_problems(
            "use std::collections::{BTreeMap, VecDeque};\nuse pilothouse_model::hash::HashMap;\n",
            &[],
        );
        assert_problems("fn a(a: std::collections::BTreeMap<u8, u8>, b: HashMap<u8, u8>) {}\n", &[]);
        assert_problems("// std::collections::HashMap\n", &[]);
        let allowed = Path::new(STANDARD_MAPS_ALLOWED[0]);
        assert_eq!(problems(allowed, "use std::collections::HashMap;\n"), Vec::<String>::new());
    }

    #[test]
    fn other_threads_and_the_randomness_of_the_system_are_found() {
        assert_problems(
            "fn a() {\n    tokio::task::spawn_blocking(work);\n}\n",
            &["a.rs:2: `spawn_blocking`"],
        );
        assert_problems("let thread = std::thread::Builder::new();\n", &["a.rs:1: `thread::Builder`"]);
        assert_problems("use rand::rngs::OsRng;\n", &["a.rs:1: `OsRng`"]);
        assert_problems("#[cfg(test)]\nmod tests {\n    fn a() { std::thread::scope(b); }\n}\n", &[]);
        assert_problems("/// `spawn_blocking`\n", &[]);
        let of = |file: &str, text: &str| problems(Path::new(file), text);
        assert_eq!(of(THREADS_ALLOWED[0], "spawn_blocking(a);\n"), Vec::<String>::new());
        assert_eq!(of(THREADS_ALLOWED[0], "OsRng\n").len(), 1);
        assert_eq!(of("host/informer/src/store/tests.rs", "std::thread::scope(a);\n"), Vec::<String>::new());
    }

    #[test]
    fn every_allowed_file_uses_a_thread() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for file in THREADS_ALLOWED {
            let text = std::fs::read_to_string(root.join(file)).expect(file);
            assert!(THREADS.iter().any(|name| text.contains(name)), "{file} needs no exception any more");
        }
    }

    #[test]
    fn every_crate_that_a_simulation_runs_is_checked() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let manifest = |name: &str| std::fs::read_to_string(root.join("host").join(name).join("Cargo.toml"));
        let mut checked = vec!["sim".to_owned()];
        let mut position = 0;
        while let Some(name) = checked.get(position).cloned() {
            position += 1;
            let text = manifest(&name).expect("a manifest");
            let normal = text.split("[dependencies]").nth(1).unwrap_or_default();
            let normal = normal.split("\n[").next().unwrap_or_default();
            let names = normal.lines().filter_map(|line| line.strip_prefix("pilothouse-"));
            for name in names.filter_map(|line| line.split(['.', ' ']).next()) {
                if !checked.iter().any(|known| known == name) {
                    checked.push(name.to_owned());
                }
            }
        }
        // It serves sockets, of which a simulation has none.
        checked.retain(|name| name != "listen");
        let missing: Vec<_> = checked.iter().filter(|name| !SIMULATED.contains(&name.as_str())).collect();
        assert!(missing.is_empty(), "{missing:?} is not in SIMULATED");
    }

    #[test]
    fn selects_in_random_order_are_found() {
        assert_problems("let a = tokio::select! {\n    () = b => {}\n};\n", &["a.rs:1: this `select!`"]);
        assert_problems("select! {\n    // Why.\n    biased;\n    () = b => {}\n}\n", &[]);
        assert_problems("/// tokio::select! {\n///     () = b => {}\n/// }\n", &[]);
    }
}
