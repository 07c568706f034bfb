//! Changes as they come, by the clock and on a real file system.

use super::*;

const SETTLE: Duration = Duration::from_millis(200);

fn files(len: u64) -> PluginFiles {
    PluginFiles {
        wasm: "a.wasm".into(),
        sidecar: "a.yaml".into(),
        wasm_stamp: Stamp { len, modified: None, identity: (0, 0) },
        sidecar_stamp: None,
        short: None,
    }
}

fn name() -> PluginName {
    PluginName::of_file(Path::new("a.wasm")).expect("a name")
}

/// What has settled.
fn look(directory: &mut Directory, found: &BTreeMap<PluginName, PluginFiles>, now: Instant) -> Vec<Change> {
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
    assert_eq!(look(&mut directory, &found(Some(1)), start), []);
    assert_eq!(directory.next_look(start), Some(start + SETTLE));
    let grown = start + SETTLE / 2;
    assert_eq!(look(&mut directory, &found(Some(2)), grown), []);
    assert_eq!(
        look(&mut directory, &found(Some(2)), start + SETTLE),
        [],
        "the clock starts again when it grows"
    );
    assert_eq!(look(&mut directory, &found(Some(2)), grown + SETTLE), [Change::Load(name(), files(2))]);
    assert_eq!(look(&mut directory, &found(Some(2)), grown + SETTLE * 9), []);
    assert_eq!(directory.next_look(start), None);
}

#[tokio::test(start_paused = true)]
async fn at_the_start_a_file_that_was_changed_long_ago_has_settled() {
    let (start, wall_clock) = (Instant::now(), SystemTime::UNIX_EPOCH + Duration::from_hours(1));
    let aged = |age: Duration| {
        let mut found = found(Some(1));
        for files in found.values_mut() {
            files.wasm_stamp.modified = wall_clock.checked_sub(age);
        }
        found
    };
    for (age, has_settled) in [(LONG_AGO, true), (LONG_AGO - Duration::from_millis(1), false)] {
        let (mut directory, found) = (Directory::new(SETTLE), aged(age));
        directory.begin(&found, wall_clock, start);
        assert_eq!(look(&mut directory, &found, start).is_empty(), !has_settled);
        assert_eq!(directory.is_settling(start), !has_settled);
    }
    let mut fresh_sidecar = aged(LONG_AGO);
    for files in fresh_sidecar.values_mut() {
        files.sidecar_stamp = Some(Stamp { modified: Some(wall_clock), ..files.wasm_stamp });
    }
    let mut directory = Directory::new(SETTLE);
    directory.begin(&BTreeMap::new(), wall_clock, start);
    directory.begin(&aged(LONG_AGO), wall_clock, start);
    assert_eq!(look(&mut directory, &aged(LONG_AGO), start), [], "it came after the start");
    let mut directory = Directory::new(SETTLE);
    directory.begin(&fresh_sidecar, wall_clock, start);
    assert_eq!(look(&mut directory, &fresh_sidecar, start), []);
    assert!(directory.is_settling(start) && !directory.is_settling(start + SETTLE));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_gone_for_a_moment_was_never_gone() {
    let (mut directory, start) = (Directory::new(SETTLE), Instant::now());
    look(&mut directory, &found(Some(1)), start);
    assert_eq!(look(&mut directory, &found(Some(1)), start + SETTLE).len(), 1);
    let later = start + SETTLE * 5;
    assert_eq!(look(&mut directory, &found(None), later), []);
    assert_eq!(look(&mut directory, &found(Some(1)), later + SETTLE / 2), []);
    assert_eq!(look(&mut directory, &found(Some(1)), later + SETTLE * 3), [], "it is the same file");
    look(&mut directory, &found(None), later + SETTLE * 4);
    assert_eq!(look(&mut directory, &found(None), later + SETTLE * 5), [Change::Remove(name())]);
}

#[tokio::test(start_paused = true)]
async fn code_that_is_coming_is_told_of_at_once_and_once() {
    let (mut directory, start) = (Directory::new(SETTLE), Instant::now());
    let mut look = |files: Option<PluginFiles>, now| {
        directory.observe(&files.map(|files| (name(), files)).into_iter().collect(), &Writers::default(), now)
    };
    let coming = |len| [Change::Coming(name(), files(len))];
    assert_eq!(look(Some(files(1)), start), coming(1));
    assert_eq!(look(Some(files(1)), start + SETTLE / 4), []);
    assert_eq!(look(Some(files(2)), start + SETTLE / 2), coming(2));
    let loaded = start + SETTLE * 2;
    assert_eq!(look(Some(files(2)), loaded), [Change::Load(name(), files(2))]);
    // A sidecar alone brings no code.
    let with_sidecar = PluginFiles { sidecar_stamp: Some(files(9).wasm_stamp), ..files(2) };
    assert_eq!(look(Some(with_sidecar.clone()), loaded + SETTLE), []);
    assert_eq!(look(Some(with_sidecar.clone()), loaded + SETTLE * 2).len(), 1);
    // What has come to nothing is told of, too.
    assert_eq!(look(Some(files(3)), loaded + SETTLE * 3), coming(3));
    assert_eq!(look(None, loaded + SETTLE * 3), []);
    assert_eq!(look(Some(with_sidecar.clone()), loaded + SETTLE * 3), [Change::NotComing(name())]);
    assert_eq!(look(Some(with_sidecar), loaded + SETTLE * 9), []);
}

#[test]
fn a_scan_takes_wasm_files_with_names_and_reports_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["good.wasm", "good.yaml", "Bad_Name.wasm", ".hidden.wasm", "readme.md"] {
        std::fs::write(folder.path().join(file), file).expect("written");
    }
    std::fs::create_dir(folder.path().join("folder.wasm")).expect("made");
    let found = scan(folder.path()).expect("readable");
    assert_eq!(found.plugins.keys().map(PluginName::as_str).collect::<Vec<_>>(), ["good"]);
    assert!(found.plugins.values().all(|files| files.sidecar_stamp.is_some()));
    assert_eq!(found.refused.len(), 1);
    assert!(scan(&folder.path().join("absent")).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_a_hundred_writes_is_one_load() {
    let (mut directory, start) = (Directory::new(SETTLE), Instant::now());
    let mut changes = Vec::new();
    for write in 0..100 {
        let now = start + Duration::from_millis(50) * write;
        changes.extend(look(&mut directory, &found(Some(write.into())), now));
    }
    assert_eq!(changes, []);
    changes.extend(look(&mut directory, &found(Some(99)), start + Duration::from_secs(60)));
    assert_eq!(changes, [Change::Load(name(), files(99))]);
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn a_file_whose_writer_pauses_is_not_taken_before_it_is_closed() {
    use notify::event::{AccessKind, AccessMode, DataChange, ModifyKind};
    use notify::{Event, EventKind};

    let (mut directory, mut writers, start) = (Directory::new(SETTLE), Writers::default(), Instant::now());
    let told = |kind| Ok(Event::new(kind).add_path("/plugins/a.wasm".into()));
    let write = told(EventKind::Modify(ModifyKind::Data(DataChange::Any)));
    for part in 0..20 {
        let now = start + SETTLE * 3 * part;
        writers.told(&write, now);
        assert_eq!(directory.observe(&found(Some(part.into())), &writers, now), []);
        let pause = now + SETTLE * 2;
        assert_eq!(directory.observe(&found(Some(part.into())), &writers, pause), [], "half a file");
        assert_eq!(directory.next_look(pause), Some(pause + SETTLE), "no busy loop");
    }
    let end = start + SETTLE * 3 * 20;
    writers.told(&told(EventKind::Access(AccessKind::Close(AccessMode::Write))), end);
    assert_eq!(directory.observe(&found(Some(19)), &writers, end), [Change::Load(name(), files(19))]);
}

/// Two scans of the folder, with something done to it between them.
fn differs(folder: &Path, change: impl FnOnce(&Path)) -> bool {
    let before = scan(folder).expect("readable").plugins;
    change(folder);
    before != scan(folder).expect("readable").plugins
}

#[test]
fn every_way_to_replace_a_file_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
    write("a.wasm", "one");
    assert!(!differs(folder, |_| {}));
    assert!(differs(folder, |_| write("a.wasm", "other")), "in place");
    let old = std::fs::metadata(folder.join("a.wasm")).and_then(|file| file.modified()).expect("a time");
    // A file of the same size and time, which only its inode tells from the other.
    assert!(differs(folder, |folder| {
        write("new", "OTHER");
        let new = std::fs::File::options().write(true).open(folder.join("new")).expect("opened");
        new.set_modified(old).expect("dated");
        std::fs::rename(folder.join("new"), folder.join("a.wasm")).expect("renamed");
    }));
    assert!(differs(folder, |_| write("a.yaml", "workers: 1")), "a sidecar comes");
    assert!(differs(folder, |_| write("a.yaml", "workers: 22")), "it changes");
    assert!(differs(folder, |folder| std::fs::remove_file(folder.join("a.yaml")).expect("removed")));
}

/// As the kubelet updates the volume of a ConfigMap: names lead through `..data`, which is swapped.
#[cfg(unix)]
#[test]
fn the_swap_of_a_config_map_volume_is_seen() {
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
    assert_eq!(scan(folder).expect("readable").plugins.len(), 1, "the folders behind are no plugins");
    assert!(!differs(folder, |_| {}));
    assert!(differs(folder, |folder| {
        symlink("..2026_02", folder.join("..data_tmp")).expect("linked");
        std::fs::rename(folder.join("..data_tmp"), folder.join("..data")).expect("swapped");
    }));
    assert!(!differs(folder, |folder| std::fs::remove_dir_all(folder.join("..2026_01")).expect("removed")));
}

#[test]
fn a_sidecar_with_the_short_ending_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["a.wasm", "b.yml"] {
        std::fs::write(folder.path().join(file), file).expect("written");
    }
    let short = |folder: &Path| {
        scan(folder).expect("readable").plugins.values().next().and_then(PluginFiles::short_sidecar)
    };
    assert_eq!(short(folder.path()), None);
    assert!(differs(folder.path(), |folder| std::fs::write(folder.join("a.yml"), "").expect("written")));
    assert_eq!(short(folder.path()), Some(folder.path().join("a.yml")));
}
