//! `pilothouse sim --replay --export`: writes the folder from which a finding is provoked on a real API server.

use std::fs;
use std::path::Path;

use pilothouse_sim::export::{Export, PROXY, SCRIPT};
use pilothouse_sim::finding::trace::Trace;

use super::subject::Subject;
use crate::{CommandError, output};

/// Returns the error for a finding that cannot be exported.
pub(super) fn impossible(problem: &str) -> CommandError {
    CommandError::Usage(format!(
        "--export: this finding cannot be exported: {problem}; replay it without --export"
    ))
}

/// Writes the folder. Files of the same names are replaced.
///
/// # Errors
/// Returns a usage error that names the file if it cannot be written.
pub(super) fn write(
    folder: &Path,
    export: &Export,
    subject: &Subject,
    trace: &Trace,
) -> Result<(), CommandError> {
    let (finding, trace, readme) = (export.to_json(), trace.to_json(), readme(export));
    let mut files = subject.plugin_files();
    let texts = [
        ("README.md", readme.as_str()),
        ("reproduce.py", SCRIPT),
        ("proxy.py", PROXY),
        ("finding.json", finding.as_str()),
        ("finding.trace", trace.as_str()),
    ];
    files.extend(texts.map(|(name, text)| (name.to_owned(), text.as_bytes())));
    let unwritable = |path: &Path, error: &std::io::Error| {
        CommandError::Usage(format!(
            "--export: {}: {error}; name a folder that can be written",
            path.display()
        ))
    };
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    for (name, content) in files {
        let path = folder.join(name);
        fs::write(&path, content).map_err(|error| unwritable(&path, &error))?;
    }
    output::print_line(format_args!("exported to {}; its README.md says how to run it", folder.display()));
    Ok(())
}

/// Returns the text of README.md.
fn readme(export: &Export) -> String {
    let story = export.story().join("\n");
    format!(
        "# A finding of `pilothouse sim`

```
{story}
```

`reproduce.py` provokes the same on a real API server:

    python3 reproduce.py --kubeconfig FILE

It needs Python 3.9, kubectl and pilothouse, which `--pilothouse PROGRAM` names if it is not on PATH, and an API server on which custom
resource definitions may be installed. **Use a cluster that you can throw away.** The script creates objects and deletes them at the end,
unless `--keep` is given. It refuses to run if one of them exists already.

The script starts `pilothouse run` behind a small proxy, takes the steps of the actors, and injects the faults of the story. Then it compares
the writes of the plugin, or the objects at rest, with the finding.

| exit code | meaning |
|---|---|
| 1 | reproduced |
| 0 | not reproduced |
| 2 | the script could not run |

`--plugin FILE.wasm` runs another version of the plugin in the same situation, for example with a fix.

`finding.json` has the steps, the faults and what is expected. `finding.trace` is for `pilothouse sim --replay`, with `--other-version` for
another version of the plugin.
"
    )
}
