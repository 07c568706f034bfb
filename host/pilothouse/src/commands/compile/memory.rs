//! Computes the memory limit of a compiler process: half of what its container, or the machine, has available.

use std::path::{Path, PathBuf};

/// Minimum limit in bytes, however little memory is available: with less, no plugin compiles.
const MIN_LIMIT: u64 = 256 << 20;

/// Returns the memory limit in bytes, at most `max`.
pub(super) fn limit(max: u64) -> u64 {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let available = [available_in_cgroup(&read), available_on_machine(&read)].into_iter().flatten().min();
    limit_for(available, max)
}

/// Returns half of the available memory, because the host and its plugins need the rest.
fn limit_for(available: Option<u64>, max: u64) -> u64 {
    available.map_or(max, |available| (available / 2).max(MIN_LIMIT).min(max))
}

/// Reads a file; `None` if it cannot be read.
type ReadFile<'a> = &'a dyn Fn(&Path) -> Option<String>;

fn available_on_machine(read: ReadFile<'_>) -> Option<u64> {
    let text = read(Path::new("/proc/meminfo"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Returns the memory available in this process's cgroup or one of its parents, whichever is least. Inside a container, the limit is
/// usually on the root of the hierarchy that it sees.
fn available_in_cgroup(read: ReadFile<'_>) -> Option<u64> {
    let memberships = read(Path::new("/proc/self/cgroup"))?;
    let cgroup_of = |controller: &str| {
        memberships.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            controllers.split(',').any(|name| name == controller).then(|| path.to_owned())
        })
    };
    let version_2 = cgroup_of("").map(|path| {
        let files = ["memory.max", "memory.current", "inactive_file"];
        hierarchy("/sys/fs/cgroup", &path).filter_map(|folder| available_in(read, &folder, files)).min()
    });
    let version_1 = cgroup_of("memory").map(|path| {
        let files = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"];
        hierarchy("/sys/fs/cgroup/memory", &path)
            .filter_map(|folder| available_in(read, &folder, files))
            .min()
    });
    [version_2, version_1].into_iter().flatten().flatten().min()
}

/// Returns the folder of a cgroup and of each of its parents up to `root`.
fn hierarchy(root: &str, path: &str) -> impl Iterator<Item = PathBuf> {
    let root = PathBuf::from(root);
    let own = root.join(path.trim_start_matches('/'));
    let folders: Vec<_> =
        own.ancestors().map(Path::to_path_buf).take_while(|folder| folder.starts_with(&root)).collect();
    folders.into_iter()
}

/// Returns the available memory of one cgroup; `None` if it has no limit. Page cache counts as available, because the kernel reclaims
/// it before it kills.
fn available_in(read: ReadFile<'_>, folder: &Path, [limit, usage, reclaimable]: [&str; 3]) -> Option<u64> {
    let number = |name: &str| read(&folder.join(name))?.trim().parse::<u64>().ok();
    // No limit is written as "max", which does not parse.
    let (limit, used) = (number(limit)?, number(usage)?);
    let stat = read(&folder.join("memory.stat")).unwrap_or_default();
    let reclaimable_bytes =
        |line: &str| line.strip_prefix(reclaimable)?.strip_prefix(' ')?.parse::<u64>().ok();
    let reclaimable = stat.lines().find_map(reclaimable_bytes).unwrap_or_default();
    Some(limit.saturating_sub(used.saturating_sub(reclaimable)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn fake_files(files: &[(&str, &str)]) -> impl Fn(&Path) -> Option<String> + use<> {
        let files: BTreeMap<PathBuf, String> =
            files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        move |path| files.get(path).cloned()
    }

    #[test]
    fn the_smallest_cgroup_counts_and_its_page_cache_is_available() {
        let files = fake_files(&[
            ("/proc/self/cgroup", "0::/pods/one\n"),
            ("/sys/fs/cgroup/pods/one/memory.max", "max\n"),
            ("/sys/fs/cgroup/pods/one/memory.current", "5\n"),
            ("/sys/fs/cgroup/pods/memory.max", "1000\n"),
            ("/sys/fs/cgroup/pods/memory.current", "700\n"),
            ("/sys/fs/cgroup/pods/memory.stat", "anon 1\ninactive_file 300\n"),
        ]);
        assert_eq!(available_in_cgroup(&files), Some(600));
        let files = fake_files(&[
            ("/proc/self/cgroup", "3:cpu,cpuacct:/x\n2:memory:/box\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "500"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "100"),
        ]);
        assert_eq!(available_in_cgroup(&files), Some(400));
        assert_eq!(available_in_cgroup(&fake_files(&[("/proc/self/cgroup", "0::/\n")])), None);
        assert_eq!(available_in_cgroup(&fake_files(&[])), None);
    }

    #[test]
    fn meminfo_is_in_kibibytes() {
        let files = fake_files(&[("/proc/meminfo", "MemTotal:  9 kB\nMemAvailable:     4 kB\n")]);
        assert_eq!(available_on_machine(&files), Some(4096));
    }

    #[test]
    fn limit_is_half_of_the_available_memory_within_bounds() {
        assert_eq!(limit_for(None, 8 << 30), 8 << 30);
        assert_eq!(limit_for(Some(1 << 30), 8 << 30), 512 << 20);
        assert_eq!(limit_for(Some(1 << 20), 8 << 30), MIN_LIMIT);
        assert_eq!(limit_for(Some(64 << 30), 8 << 30), 8 << 30);
    }
}
