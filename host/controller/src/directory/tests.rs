//! Sequences of changes, in paused time and on a real file system.

use super::*;

const SETTLE: Duration = Duration::from_millis(200);

fn files(len: u64) -> PluginFiles {
    PluginFiles {
        wasm: "a.wasm".into(),
        sidecar: "a.yaml".into(),
        wasm_fingerprint: FileFingerprint { len, modified: None, identity: (0, 0) },
        sidecar_fingerprint: None,
        yml_fingerprint: None,
        in_memory: None,
        place: SidecarLocation::File,
    }
}

fn name() -> PluginName {
    PluginName::of_file(Path::new("a.wasm")).expect("a name")
}

/// Observes a scan, and returns the changes that have settled.
fn observe(
    directory: &mut Directory,
    found: &BTreeMap<PluginName, PluginFiles>,
    now: Instant,
) -> Vec<Change> {
    let changes = directory.observe(found, &Writers::default(), now);
    let has_settled = |change: &Change| matches!(change, Change::Load(..) | Change::Remove(_));
    changes.into_iter().filter(has_settled).collect()
}

fn found(len: Option<u64>) -> BTreeMap<PluginName, PluginFiles> {
    len.map(|len| (name(), files(len))).into_iter().collect()
}

#[tokio::test(start_paused = true)]
async fn a_file_is_loaded_once_it_has_settled() {
    let (mut directory, start) = (Directory::new(SETTLE), Instant::now());
    assert_eq!(observe(&mut directory, &found(Some(1)), start), []);
    assert_eq!(directory.next_scan(start), Some(start + SETTLE));
    let grown = start + SETTLE / 2;
    assert_eq!(observe(&mut directory, &found(Some(2)), grown), []);
    assert_eq!(
        observe(&mut directory, &found(Some(2)), start + SETTLE),
        [],
        "the settling time starts again when the file grows"
    );
    assert_eq!(observe(&mut directory, &found(Some(2)), grown + SETTLE), [Change::Load(name(), files(2))]);
    assert_eq!(observe(&mut directory, &found(Some(2)), grown + SETTLE * 9), []);
    assert_eq!(directory.next_scan(start), None);
}

#[tokio::test(start_paused = true)]
async fn at_the_start_an_old_file_has_settled() {
    let (start, wall_clock) = (Instant::now(), SystemTime::UNIX_EPOCH + Duration::from_hours(1));
    let aged = |age: Duration| {
        let mut found = found(Some(1));
        for files in found.values_mut() {
            files.wasm_fingerprint.modified = wall_clock.checked_sub(age);
        }
        found
    };
    for (age, has_settled) in [(OLD_FILE_AGE, true), (OLD_FILE_AGE - Duration::from_millis(1), false)] {
        let (mut directory, found) = (Directory::new(SETTLE), aged(age));
        directory.settle_old_files(&found, wall_clock, start);
        assert_eq!(observe(&mut directory, &found, start).is_empty(), !has_settled);
        assert_eq!(directory.is_settling(start), !has_settled);
    }
    let mut fresh_sidecar = aged(OLD_FILE_AGE);
    for files in fresh_sidecar.values_mut() {
        files.sidecar_fingerprint =
            Some(FileFingerprint { modified: Some(wall_clock), ..files.wasm_fingerprint });
    }
    let mut directory = Directory::new(SETTLE);
    directory.settle_old_files(&BTreeMap::new(), wall_clock, start);
    directory.settle_old_files(&aged(OLD_FILE_AGE), wall_clock, start);
    assert_eq!(observe(&mut directory, &aged(OLD_FILE_AGE), start), [], "the file was added after the start");
    let mut directory = Directory::new(SETTLE);
    directory.settle_old_files(&fresh_sidecar, wall_clock, start);
    assert_eq!(observe(&mut directory, &fresh_sidecar, start), []);
    assert!(directory.is_settling(start) && !directory.is_settling(start + SETTLE));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_absent_for_a_moment_is_not_reloaded() {
    let (mut directory, start) = (Directory::new(SETTLE), Instant::now());
    observe(&mut directory, &found(Some(1)), start);
    assert_eq!(observe(&mut directory, &found(Some(1)), start + SETTLE).len(), 1);
    let later = start + SETTLE * 5;
    assert_eq!(observe(&mut directory, &found(None), later), []);
    assert_eq!(observe(&mut directory, &found(Some(1)), later + SETTLE / 2), []);
    assert_eq!(observe(&mut directory, &found(Some(1)), later + SETTLE * 3), [], "the file is the same");
    observe(&mut directory, &found(None), later + SETTLE * 4);
    assert_eq!(observe(&mut directory, &found(None), later + SETTLE * 5), [Change::Remove(name())]);
}

#[tokio::test(start_paused = true)]
async fn new_code_is_compiled_at_once_and_only_once() {
    let (mut directory, start) = (Directory::new(SETTLE), Instant::now());
    let mut observe = |files: Option<PluginFiles>, now| {
        directory.observe(&files.map(|files| (name(), files)).into_iter().collect(), &Writers::default(), now)
    };
    let compile = |len| [Change::StartCompile(name(), files(len))];
    assert_eq!(observe(Some(files(1)), start), compile(1));
    assert_eq!(observe(Some(files(1)), start + SETTLE / 4), []);
    assert_eq!(observe(Some(files(2)), start + SETTLE / 2), compile(2));
    let loaded = start + SETTLE * 2;
    assert_eq!(observe(Some(files(2)), loaded), [Change::Load(name(), files(2))]);
    // A change of the sidecar alone needs no compilation.
    let with_sidecar = PluginFiles { sidecar_fingerprint: Some(files(9).wasm_fingerprint), ..files(2) };
    assert_eq!(observe(Some(with_sidecar.clone()), loaded + SETTLE), []);
    assert_eq!(observe(Some(with_sidecar.clone()), loaded + SETTLE * 2).len(), 1);
    // A compilation is cancelled when the old files are back.
    assert_eq!(observe(Some(files(3)), loaded + SETTLE * 3), compile(3));
    assert_eq!(observe(None, loaded + SETTLE * 3), []);
    assert_eq!(observe(Some(with_sidecar.clone()), loaded + SETTLE * 3), [Change::CancelCompile(name())]);
    assert_eq!(observe(Some(with_sidecar), loaded + SETTLE * 9), []);
}

#[test]
fn a_scan_finds_plugins_and_reports_files_with_invalid_names() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["good.wasm", "good.yaml", "Bad_Name.wasm", ".hidden.wasm", "readme.md"] {
        std::fs::write(folder.path().join(file), file).expect("written");
    }
    std::fs::create_dir(folder.path().join("folder.wasm")).expect("made");
    let found = scan(folder.path()).expect("readable");
    assert_eq!(found.plugins.keys().map(PluginName::as_str).collect::<Vec<_>>(), ["good"]);
    assert!(found.plugins.values().all(|files| files.sidecar_fingerprint.is_some()));
    assert_eq!(found.refused.len(), 1);
    assert!(scan(&folder.path().join("absent")).is_err());
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_is_reported_with_its_target_until_it_is_mended() {
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().expect("a folder");
    let (link, target) = (folder.path().join("linked.wasm"), folder.path().join("build.out"));
    symlink("build.out", &link).expect("linked");
    symlink("loop.wasm", folder.path().join("loop.wasm")).expect("linked");
    symlink(folder.path(), folder.path().join("directory.wasm")).expect("linked");
    let found = scan(folder.path()).expect("readable");
    assert!(found.plugins.is_empty(), "{:?}", found.plugins);
    let mut refused: Vec<_> = found.refused.iter().map(|file| (file.stem(), file.to_string())).collect();
    refused.sort_unstable();
    let [(linked, text), (looping, _)] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!((*linked, *looping), ("linked", "loop"));
    let start = format!("{} is a symbolic link to build.out, which cannot be read: ", link.display());
    assert!(text.starts_with(&start) && text.ends_with("create that file, or remove the link"), "{text}");

    std::fs::write(&target, "wasm").expect("written");
    let found = scan(folder.path()).expect("readable");
    assert_eq!(found.plugins.keys().map(PluginName::as_str).collect::<Vec<_>>(), ["linked"]);
    assert!(found.refused.iter().all(|file| file.stem() != "linked"), "{:?}", found.refused);
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_a_hundred_writes_is_one_load() {
    let (mut directory, start) = (Directory::new(SETTLE), Instant::now());
    let mut changes = Vec::new();
    for write in 0..100 {
        let now = start + Duration::from_millis(50) * write;
        changes.extend(observe(&mut directory, &found(Some(write.into())), now));
    }
    assert_eq!(changes, []);
    changes.extend(observe(&mut directory, &found(Some(99)), start + Duration::from_secs(60)));
    assert_eq!(changes, [Change::Load(name(), files(99))]);
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn a_file_whose_writer_pauses_is_not_loaded_before_it_is_closed() {
    use notify::event::{AccessKind, AccessMode, DataChange, ModifyKind};
    use notify::{Event, EventKind};

    let (mut directory, mut writers, start) = (Directory::new(SETTLE), Writers::default(), Instant::now());
    let event = |kind| Ok(Event::new(kind).add_path("/plugins/a.wasm".into()));
    let write = event(EventKind::Modify(ModifyKind::Data(DataChange::Any)));
    for part in 0..20 {
        let now = start + SETTLE * 3 * part;
        writers.observe(&write, now);
        assert_eq!(directory.observe(&found(Some(part.into())), &writers, now), []);
        let pause = now + SETTLE * 2;
        assert_eq!(directory.observe(&found(Some(part.into())), &writers, pause), [], "half a file");
        assert_eq!(directory.next_scan(pause), Some(pause + SETTLE), "no busy loop");
    }
    let end = start + SETTLE * 3 * 20;
    writers.observe(&event(EventKind::Access(AccessKind::Close(AccessMode::Write))), end);
    assert_eq!(directory.observe(&found(Some(19)), &writers, end), [Change::Load(name(), files(19))]);
}

/// Whether a scan of the folder finds other files after a change.
fn differs(folder: &Path, change: impl FnOnce(&Path)) -> bool {
    let before = scan(folder).expect("readable").plugins;
    change(folder);
    before != scan(folder).expect("readable").plugins
}

#[test]
fn every_way_to_replace_a_file_is_detected() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
    write("a.wasm", "one");
    assert!(!differs(folder, |_| {}));
    assert!(differs(folder, |_| write("a.wasm", "other")), "in place");
    let old = std::fs::metadata(folder.join("a.wasm")).and_then(|file| file.modified()).expect("a time");
    // A file of the same size and time, which differs only in its inode.
    assert!(differs(folder, |folder| {
        write("new", "OTHER");
        let new = std::fs::File::options().write(true).open(folder.join("new")).expect("opened");
        new.set_modified(old).expect("dated");
        std::fs::rename(folder.join("new"), folder.join("a.wasm")).expect("renamed");
    }));
    assert!(differs(folder, |_| write("a.yaml", "workers: 1")), "a sidecar is added");
    assert!(differs(folder, |_| write("a.yaml", "workers: 22")), "the sidecar changes");
    assert!(differs(folder, |folder| std::fs::remove_file(folder.join("a.yaml")).expect("removed")));
}

/// As the kubelet updates the volume of a ConfigMap: the files are symlinks through `..data`, which is replaced.
#[cfg(unix)]
#[test]
fn the_update_of_a_config_map_volume_is_detected() {
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for version in ["..2026_01", "..2026_02"] {
        std::fs::create_dir(folder.join(version)).expect("made");
        for file in ["a.wasm", "a.yaml"] {
            std::fs::write(folder.join(version).join(file), "same size").expect("written");
        }
    }
    symlink("..2026_01", folder.join("..data")).expect("linked");
    for file in ["a.wasm", "a.yaml"] {
        symlink(Path::new("..data").join(file), folder.join(file)).expect("linked");
    }
    assert_eq!(
        scan(folder).expect("readable").plugins.len(),
        1,
        "the folders behind the links are not plugins"
    );
    assert!(!differs(folder, |_| {}));
    assert!(differs(folder, |folder| {
        symlink("..2026_02", folder.join("..data_tmp")).expect("linked");
        std::fs::rename(folder.join("..data_tmp"), folder.join("..data")).expect("swapped");
    }));
    assert!(!differs(folder, |folder| std::fs::remove_dir_all(folder.join("..2026_01")).expect("removed")));
}

#[test]
fn a_sidecar_with_the_extension_yml_is_detected() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["a.wasm", "b.yml"] {
        std::fs::write(folder.path().join(file), file).expect("written");
    }
    let yml_sidecar = |folder: &Path| {
        scan(folder).expect("readable").plugins.values().next().and_then(PluginFiles::yml_sidecar)
    };
    assert_eq!(yml_sidecar(folder.path()), None);
    assert!(differs(folder.path(), |folder| std::fs::write(folder.join("a.yml"), "").expect("written")));
    assert_eq!(yml_sidecar(folder.path()), Some(folder.path().join("a.yml")));
}
