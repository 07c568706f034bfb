//! How much memory a compiler process may take: a part of what its container, or the machine, has left.

use std::path::{Path, PathBuf};

/// A compiler gets this much whatever is left: with less, none compiles.
const LEAST: u64 = 256 << 20;

/// The bound, which is never more than `most`.
pub(super) fn bound(most: u64) -> u64 {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let left = [left_in_cgroup(&read), left_on_machine(&read)].into_iter().flatten().min();
    part_of(left, most)
}

/// Half of what is left: the host and its plugins need the rest.
fn part_of(left: Option<u64>, most: u64) -> u64 {
    left.map_or(most, |left| (left / 2).max(LEAST).min(most))
}

type Read<'a> = &'a dyn Fn(&Path) -> Option<String>;

fn left_on_machine(read: Read<'_>) -> Option<u64> {
    let text = read(Path::new("/proc/meminfo"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10)
}

/// What the cgroups of this process have left, the narrowest of them. In a container the limit is mostly that of the root that it sees.
fn left_in_cgroup(read: Read<'_>) -> Option<u64> {
    let own = read(Path::new("/proc/self/cgroup"))?;
    let of = |controller: &str| {
        own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            controllers.split(',').any(|name| name == controller).then(|| path.to_owned())
        })
    };
    let version_2 = of("").map(|path| {
        let files = ["memory.max", "memory.current", "inactive_file"];
        levels("/sys/fs/cgroup", &path).filter_map(|folder| left_in(read, &folder, files)).min()
    });
    let version_1 = of("memory").map(|path| {
        let files = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"];
        levels("/sys/fs/cgroup/memory", &path).filter_map(|folder| left_in(read, &folder, files)).min()
    });
    [version_2, version_1].into_iter().flatten().flatten().min()
}

/// The folder of a cgroup, and those above it.
fn levels(root: &str, path: &str) -> impl Iterator<Item = PathBuf> {
    let root = PathBuf::from(root);
    let own = root.join(path.trim_start_matches('/'));
    let levels: Vec<_> =
        own.ancestors().map(Path::to_path_buf).take_while(|folder| folder.starts_with(&root)).collect();
    levels.into_iter()
}

/// What may still be used there. The kernel takes pages of files back before it kills.
fn left_in(read: Read<'_>, folder: &Path, [limit, usage, reclaimable]: [&str; 3]) -> Option<u64> {
    let number = |name: &str| read(&folder.join(name))?.trim().parse::<u64>().ok();
    // "max" is no number.
    let (limit, used) = (number(limit)?, number(usage)?);
    let stat = read(&folder.join("memory.stat")).unwrap_or_default();
    let of_stat = |line: &str| line.strip_prefix(reclaimable)?.strip_prefix(' ')?.parse::<u64>().ok();
    let reclaimable = stat.lines().find_map(of_stat).unwrap_or_default();
    Some(limit.saturating_sub(used.saturating_sub(reclaimable)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn reads(files: &[(&str, &str)]) -> impl Fn(&Path) -> Option<String> + use<> {
        let files: BTreeMap<PathBuf, String> =
            files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        move |path| files.get(path).cloned()
    }

    #[test]
    fn the_narrowest_cgroup_counts_without_pages_that_can_be_taken_back() {
        let files = reads(&[
            ("/proc/self/cgroup", "0::/pods/one\n"),
            ("/sys/fs/cgroup/pods/one/memory.max", "max\n"),
            ("/sys/fs/cgroup/pods/one/memory.current", "5\n"),
            ("/sys/fs/cgroup/pods/memory.max", "1000\n"),
            ("/sys/fs/cgroup/pods/memory.current", "700\n"),
            ("/sys/fs/cgroup/pods/memory.stat", "anon 1\ninactive_file 300\n"),
        ]);
        assert_eq!(left_in_cgroup(&files), Some(600));
        let files = reads(&[
            ("/proc/self/cgroup", "3:cpu,cpuacct:/x\n2:memory:/box\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "500"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "100"),
        ]);
        assert_eq!(left_in_cgroup(&files), Some(400));
        assert_eq!(left_in_cgroup(&reads(&[("/proc/self/cgroup", "0::/\n")])), None);
        assert_eq!(left_in_cgroup(&reads(&[])), None);
    }

    #[test]
    fn the_machines_memory_is_in_kibibytes() {
        let files = reads(&[("/proc/meminfo", "MemTotal:  9 kB\nMemAvailable:     4 kB\n")]);
        assert_eq!(left_on_machine(&files), Some(4096));
    }

    #[test]
    fn a_compiler_gets_half_of_what_is_left_within_bounds() {
        assert_eq!(part_of(None, 8 << 30), 8 << 30);
        assert_eq!(part_of(Some(1 << 30), 8 << 30), 512 << 20);
        assert_eq!(part_of(Some(1 << 20), 8 << 30), LEAST);
        assert_eq!(part_of(Some(64 << 30), 8 << 30), 8 << 30);
    }
}
