//! Reads the sidecar file. It is read before anything else of a load, and applied to the running version at
//! once.

use std::path::Path;
use std::sync::Arc;

use super::files::read_blocking;
use super::{LoadProblem, LoadServices};
use crate::config::current_grants::{GrantsWriter, SidecarGrants, apply_grant_mode};
use crate::config::sidecar::{MAX_SIDECAR, Sidecar, SidecarError};
use crate::config::sidecar_location::SidecarLocation;
use crate::directory::PluginFiles;
use crate::directory::plugin_file;
use crate::load::version::Version;
use crate::name::PluginName;

/// Reads the sidecar and puts it into effect. The running versions lose all grants if the sidecar is invalid.
pub(super) async fn apply(
    services: &LoadServices,
    plugin: &PluginName,
    grants_writer: &GrantsWriter,
    files: &PluginFiles,
    running: [Option<&Version>; 2],
) -> Result<(String, Sidecar, Arc<SidecarGrants>), LoadProblem> {
    let revoke_all = |problem: &LoadProblem| {
        running.iter().for_each(|version| grants_writer.revoke_all(problem.to_string(), *version));
    };
    let text = match read(files).await {
        Ok(text) => text,
        Err(problem) => {
            revoke_all(&problem);
            return Err(problem);
        }
    };
    // Somebody is writing the file: only a part of it may be there, and the finished file starts another
    // load.
    if !files.has_current_sidecar() {
        return Err(LoadProblem::Changing { path: files.sidecar.clone() });
    }
    let parsed = parse(files, &text).and_then(|sidecar| {
        let sidecar = apply_grant_mode(services.grants, sidecar);
        let sidecar_grants =
            SidecarGrants { place: files.sidecar_location(), ..SidecarGrants::of(&sidecar)? };
        Ok((sidecar, sidecar_grants))
    });
    match parsed {
        Ok((sidecar, sidecar_grants)) => {
            let [running, canary] = running;
            if canary.is_some() {
                grants_writer.allow(sidecar_grants.clone(), plugin, canary);
            }
            let sidecar_grants = grants_writer.allow(sidecar_grants, plugin, running);
            Ok((text, sidecar, sidecar_grants))
        }
        Err(source) => {
            let problem = LoadProblem::Sidecar { place: place(files, plugin), source };
            revoke_all(&problem);
            Err(problem)
        }
    }
}

/// Parses the sidecar. One from a registry's plugin was written by the host as JSON, whose lines nobody knows.
fn parse(files: &PluginFiles, text: &str) -> Result<Sidecar, SidecarError> {
    match (files.sidecar_location(), serde_json::from_str(text)) {
        (SidecarLocation::Source, Ok(members)) => Sidecar::parse_members(&members),
        _ => Sidecar::parse(text),
    }
}

/// Returns where the operator writes the sidecar. The host itself has written that of a plugin from a registry.
fn place(files: &PluginFiles, plugin: &PluginName) -> String {
    match files.sidecar_location() {
        SidecarLocation::File => format!("the sidecar {}", files.sidecar.display()),
        place @ SidecarLocation::Source => place.of(plugin.as_str()),
    }
}

/// The text of the sidecar; "" if there is none.
pub(super) async fn read(files: &PluginFiles) -> Result<String, LoadProblem> {
    if let Some(in_memory) = files.as_in_memory() {
        return Ok(in_memory.sidecar.as_ref().to_owned());
    }
    let path = &files.sidecar;
    if let Some(short) = files.yml_sidecar() {
        return Err(LoadProblem::ShortEnding { short: short.to_owned(), path: path.clone() });
    }
    let read = |path: &Path| plugin_file::read_sidecar(path, MAX_SIDECAR as u64, plugin_file::read);
    Ok(read_blocking(path, read).await?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::scan;

    async fn text(files: &[(&str, &str)]) -> Result<String, String> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("p.wasm"), "").expect("written");
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).expect("written");
        }
        let found = scan(folder.path()).expect("readable").plugins;
        read(found.values().next().expect("a plugin")).await.map_err(|problem| problem.to_string())
    }

    #[tokio::test]
    async fn a_yml_sidecar_is_refused_and_not_treated_as_absent() {
        assert_eq!(text(&[]).await, Ok(String::new()));
        assert_eq!(text(&[("p.yaml", "workers: 2")]).await, Ok("workers: 2".into()));
        for files in [&[("p.yml", "")][..], &[("p.yml", ""), ("p.yaml", "")]] {
            let refused = text(files).await.expect_err("refused");
            assert!(refused.contains("p.yml is not read; rename it to p.yaml"), "{refused}");
        }
    }

    #[test]
    fn an_invalid_sidecar_is_named_where_the_operator_wrote_it() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("p.wasm"), "").expect("written");
        let found = scan(folder.path()).expect("readable").plugins;
        let (plugin, files) = found.into_iter().next().expect("a plugin");
        let file = folder.path().join("p.yaml").display().to_string();
        assert_eq!(place(&files, &plugin), format!("the sidecar {file}"));
        let source = place(&files.of_source(), &plugin);
        assert!(source.contains("p in `plugins` of the host's configuration file"), "{source}");
        assert!(!source.contains(&file), "{source}");
    }

    #[test]
    fn an_error_of_a_sidecar_that_the_host_wrote_names_the_member_and_no_line() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("p.wasm"), "").expect("written");
        let files = scan(folder.path()).expect("readable").plugins.into_values().next().expect("a plugin");
        let text = r#"{"grants":{"writes":[{"verb":[]}]}}"#;
        let error = |files: &PluginFiles| parse(files, text).expect_err("a wrong member").to_string();
        let unknown = "unknown field `verb`";
        assert!(error(&files).starts_with(&format!("line 1 column 23: {unknown}")), "{}", error(&files));
        let of_source = error(&files.of_source());
        assert!(of_source.starts_with(&format!("grants.writes[0].verb: {unknown}")), "{of_source}");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_dangling_sidecar_link_is_not_an_absent_sidecar() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("p.wasm"), "").expect("written");
        std::os::unix::fs::symlink("gone", folder.path().join("p.yaml")).expect("linked");
        let found = scan(folder.path()).expect("readable").plugins;
        let problem = read(found.values().next().expect("a plugin")).await.expect_err("unreadable");
        assert!(matches!(problem, LoadProblem::DanglingLink { .. }), "{problem}");
    }
}
