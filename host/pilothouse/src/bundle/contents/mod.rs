//! Reads a support bundle, for `show`. It may come from anybody: the size and number of its files are bounded, and what cannot be read is
//! left out with a line that says so.

mod entries;
mod status;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Read};

use flate2::read::GzDecoder;
use pilothouse_controller::{Explanation, PluginKeys, PluginLogLine, PluginStatus};
use serde::de::DeserializeOwned;

use entries::Entries;

/// The folder in the archive.
const FOLDER: &str = "pilothouse-bundle";
/// The maximum size of all files in bytes. JSON has more white space in a bundle than when it was collected.
const MAX_UNPACKED: u64 = 1 << 30;
/// The maximum size of a file that is read, in bytes.
const MAX_FILE: u64 = 64 << 20;
/// The maximum size of all files that are read, in bytes.
const MAX_READ: u64 = 256 << 20;
/// The maximum number of problems that are reported, and of characters of one.
const MAX_PROBLEMS: usize = 100;
const MAX_PROBLEM: usize = 300;

/// What the pages show of a bundle.
#[derive(Debug, Default)]
pub(crate) struct BundleContents {
    /// The plugins, in the order of the host.
    pub(crate) plugins: Vec<PluginStatus>,
    /// The pending keys by plugin.
    pub(crate) keys: BTreeMap<String, PluginKeys>,
    /// The explanations of stuck keys.
    pub(crate) explanations: Vec<Explanation>,
    /// The log lines by plugin, the oldest first.
    pub(crate) log: BTreeMap<String, Vec<PluginLogLine>>,
    /// What could not be read.
    pub(crate) problems: Vec<String>,
}

impl BundleContents {
    /// Reads a bundle.
    ///
    /// # Errors
    /// Errors if it is no .tar.gz file, is incomplete or too large, or has no status of a host.
    pub(crate) fn read(bundle: impl Read) -> Result<Self, String> {
        Self::read_up_to(bundle, MAX_UNPACKED, MAX_FILE)
    }

    fn read_up_to(bundle: impl Read, max_unpacked: u64, max_file: u64) -> Result<Self, String> {
        let mut archive = tar::Archive::new(GzDecoder::new(bundle).take(max_unpacked));
        let mut entries = Entries::of(&mut archive)?;
        let mut contents = Self::default();
        let mut room = MAX_READ;
        let mut has_status = false;
        while let Some((path, mut entry)) = entries.next_file()? {
            let path = path.strip_prefix(FOLDER).and_then(|path| path.strip_prefix('/')).unwrap_or_default();
            if !is_shown(path) {
                continue;
            }
            if entry.size() > max_file.min(room) {
                contents.report(&format!("{path} is too large"));
                continue;
            }
            room -= entry.size();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).map_err(|error| text_of(&error))?;
            has_status |= path == "status.json";
            let text = String::from_utf8_lossy(&content);
            if matches!(text, Cow::Owned(_)) {
                contents.report(&format!("{path}: it is not UTF-8; \u{fffd} replaces what cannot be shown"));
            }
            contents.add(path, &text);
        }
        if has_status {
            Ok(contents)
        } else {
            Err("it has no status.json, because no host ran when it was made".to_owned())
        }
    }

    /// Adds a file.
    fn add(&mut self, path: &str, text: &str) {
        if path == "status.json" {
            let plugins = status::plugins(text, &mut |problem| self.report(&format!("{path}: {problem}")));
            self.plugins.extend(plugins);
        } else if path == "explain.ndjson" {
            self.explanations = self.lines(path, text);
        } else if path == "logs.ndjson" {
            for line in self.lines::<PluginLogLine>(path, text) {
                self.log.entry(line.plugin.clone()).or_default().push(line);
            }
        } else if let Some(name) = plugin_of_keys(path) {
            match parsed(path, text) {
                Ok(keys) => {
                    self.keys.insert(name.to_owned(), keys);
                }
                Err(problem) => self.report(&problem),
            }
        }
    }

    /// Reports what could not be read, unless there are many problems already.
    fn report(&mut self, problem: &str) {
        match self.problems.len() {
            ..MAX_PROBLEMS => self.problems.push(problem.chars().take(MAX_PROBLEM).collect()),
            MAX_PROBLEMS => self.problems.push("there are more problems".to_owned()),
            _ => {}
        }
    }

    /// Parses each line, and reports the first that cannot be parsed.
    fn lines<T: DeserializeOwned>(&mut self, path: &str, text: &str) -> Vec<T> {
        let mut values = Vec::new();
        let mut first_problem = None;
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            match parsed(path, line) {
                Ok(value) => values.push(value),
                Err(problem) => first_problem = first_problem.or(Some(problem)),
            }
        }
        if let Some(problem) = first_problem {
            self.report(&problem);
        }
        values
    }
}

/// Whether the pages show the content of a file.
fn is_shown(path: &str) -> bool {
    matches!(path, "status.json" | "explain.ndjson" | "logs.ndjson") || plugin_of_keys(path).is_some()
}

/// Returns the plugin whose pending keys a file has.
fn plugin_of_keys(path: &str) -> Option<&str> {
    path.strip_prefix("keys/")?.strip_suffix(".json")
}

fn parsed<T: DeserializeOwned>(path: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("{path}: {error}"))
}

fn text_of(error: &io::Error) -> String {
    format!("it is no complete bundle, or is too large: {error}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::archive::Archive;
    use super::*;

    fn bundle(files: &[(&str, String)]) -> Vec<u8> {
        let mut archive = Archive::new(8 << 20, 0);
        for (path, text) in files {
            assert!(archive.append(path, text).expect("a valid path"), "{path}");
        }
        archive.finish("").expect("an archive")
    }

    fn plugin(name: &str) -> Value {
        json!({
            "name": name, "version": "1", "state": "running", "generation": 1, "error": "", "digest": "", "queueDepth": 0, "counters": {},
        })
    }

    #[test]
    fn what_can_be_read_is_shown_and_the_rest_is_reported() {
        let line = json!({"sequence": 1, "time": "2026-01-02T03:04:05Z", "plugin": "a", "level": "info", "message": "hello"});
        let key =
            json!({"watch": "foos", "key": "shop/a", "state": "ready", "milliseconds": 1, "attempts": 2});
        let broken = json!({"name": "b", "generation": "[redacted]"});
        let bytes = bundle(&[
            ("status.json", json!({"plugins": [plugin("a"), broken, plugin("c")]}).to_string()),
            ("keys/a.json", json!({"keys": [key], "pending": 1}).to_string()),
            ("logs.ndjson", format!("{line}\nno JSON\n\n{line}\n")),
            ("metrics/1.txt", "not read".to_owned()),
        ]);
        let contents = BundleContents::read(bytes.as_slice()).expect("a bundle");
        let names: Vec<&str> = contents.plugins.iter().map(|plugin| plugin.name.as_str()).collect();
        assert_eq!(names, ["a", "c"]);
        assert_eq!((contents.log["a"].len(), contents.keys["a"].pending), (2, 1));
        assert_eq!(contents.problems.len(), 2, "{:?}", contents.problems);
        assert!(contents.problems[0].starts_with("status.json: plugin \"b\": "), "{:?}", contents.problems);
        assert!(contents.problems[1].starts_with("logs.ndjson: "), "{:?}", contents.problems);
    }

    #[test]
    fn what_is_not_utf_8_is_shown_with_replacements() {
        let line = json!({"sequence": 1, "time": "2026-01-02T03:04:05Z", "plugin": "a", "level": "info", "message": "hello X"});
        let log = line.to_string().replace('X', "\u{1}").into_bytes();
        let log: Vec<u8> = log.into_iter().map(|byte| if byte == 1 { 0xff } else { byte }).collect();
        let mut status = json!({"plugins": [plugin("a")]}).to_string().into_bytes();
        status.push(0xc3);
        let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        let mut builder = tar::Builder::new(encoder);
        for (name, content) in [("status.json", &status), ("logs.ndjson", &log)] {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            builder
                .append_data(&mut header, format!("{FOLDER}/{name}"), content.as_slice())
                .expect("appended");
        }
        let bytes = builder.into_inner().expect("an archive").finish().expect("compressed");
        let contents = BundleContents::read(bytes.as_slice()).expect("a bundle");
        assert_eq!(contents.log["a"][0].message, "hello \u{fffd}");
        assert_eq!(contents.plugins.len(), 1, "what comes before the damage is shown");
        let reported = |name: &str| {
            contents.problems.iter().any(|problem| problem.starts_with(&format!("{name}: it is not UTF-8")))
        };
        assert!(reported("status.json") && reported("logs.ndjson"), "{:?}", contents.problems);
    }

    #[test]
    fn the_reported_problems_are_bounded() {
        let broken = json!({"name": "n".repeat(2 * MAX_PROBLEM), "generation": "[redacted]"});
        let plugins = vec![broken; 2 * MAX_PROBLEMS];
        let bytes = bundle(&[("status.json", json!({"plugins": plugins}).to_string())]);
        let problems = BundleContents::read(bytes.as_slice()).expect("a bundle").problems;
        assert_eq!(problems.len(), MAX_PROBLEMS + 1);
        assert!(problems.iter().all(|problem| problem.chars().count() <= MAX_PROBLEM));
        assert_eq!(problems.last().map(String::as_str), Some("there are more problems"));
    }

    /// Returns a bundle with this extension header before its last file, which is a status.
    fn with_extension(kind: tar::EntryType, content: &[u8], status: &str) -> Vec<u8> {
        let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        let mut builder = tar::Builder::new(encoder);
        let mut append = |kind, content: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(content.len() as u64);
            header.set_path("any").expect("a path");
            header.set_cksum();
            builder.append(&header, content).expect("appended");
        };
        append(kind, content);
        append(tar::EntryType::Regular, status.as_bytes());
        builder.into_inner().expect("an archive").finish().expect("compressed")
    }

    #[test]
    fn extension_headers_name_a_file_up_to_their_limit() {
        let status = json!({"plugins": [plugin("a")]}).to_string();
        let path = format!("{FOLDER}/status.json");
        let record = format!(" path={path}\n");
        let record = format!("{}{record}", record.len() + 2);
        for (kind, content) in
            [(tar::EntryType::GNULongName, format!("{path}\0")), (tar::EntryType::XHeader, record)]
        {
            let bytes = with_extension(kind, content.as_bytes(), &status);
            let contents = BundleContents::read(bytes.as_slice()).expect("a bundle");
            assert_eq!(contents.plugins.len(), 1, "{kind:?}");
        }
        for kind in [
            tar::EntryType::GNULongName,
            tar::EntryType::GNULongLink,
            tar::EntryType::XHeader,
            tar::EntryType::XGlobalHeader,
        ] {
            let bytes = with_extension(kind, &vec![0; 8 << 20], &status);
            assert!(bytes.len() < 64 << 10, "it compresses well");
            let error = BundleContents::read(bytes.as_slice()).expect_err("it is refused");
            assert!(error.contains("extension header"), "{kind:?}: {error}");
        }
    }

    #[test]
    fn a_status_is_read_up_to_a_number_and_size_of_plugins() {
        let bytes = bundle(&[("status.json", format!(r#"{{"plugins":[0{}]}}"#, ",0".repeat(1 << 20)))]);
        let contents = BundleContents::read(bytes.as_slice()).expect("a bundle");
        assert!(contents.plugins.is_empty() && contents.problems.len() <= MAX_PROBLEMS + 1);
        let many: Vec<_> = (0..=status::MAX_PLUGINS).map(|number| plugin(&number.to_string())).collect();
        let contents = bundle(&[("status.json", json!({"plugins": many}).to_string())]);
        let contents = BundleContents::read(contents.as_slice()).expect("a bundle");
        assert_eq!(contents.plugins.len(), status::MAX_PLUGINS);
        assert_eq!(
            contents.problems,
            ["status.json: it has more than 10000 plugins, of which the others are left out"]
        );
        let mut large = plugin("large");
        large["error"] = json!("a".repeat(status::MAX_PLUGIN));
        let contents = bundle(&[("status.json", json!({"plugins": [large, plugin("b")]}).to_string())]);
        let contents = BundleContents::read(contents.as_slice()).expect("a bundle");
        assert_eq!((contents.plugins.len(), contents.problems.len()), (1, 1), "{:?}", contents.problems);
    }

    #[test]
    fn what_is_no_bundle_or_too_large_is_refused() {
        let refused = |bytes: &[u8]| BundleContents::read(bytes).expect_err("it is refused");
        assert!(refused(b"no archive").contains("no complete bundle"));
        assert!(refused(&bundle(&[])).contains("no host ran"));
        for status in ["[]", "1", "\"plugins\"", "null", "{\"plugins\": {}}", "{\"plugins\": [1]}"] {
            let contents = BundleContents::read(bundle(&[("status.json", status.to_owned())]).as_slice());
            assert!(contents.expect("a bundle").plugins.is_empty(), "{status}");
        }
        let complete = bundle(&[("logs.ndjson", " ".repeat(4096)), ("status.json", "{}".to_owned())]);
        assert!(refused(&complete[..complete.len() / 2]).contains("no complete bundle"));
        let up_to = |unpacked, file| BundleContents::read_up_to(complete.as_slice(), unpacked, file);
        assert!(up_to(2048, 1 << 20).is_err(), "the archive is too large");
        assert_eq!(up_to(1 << 20, 2048).expect("a bundle").problems, ["logs.ndjson is too large"]);
    }
}
