//! The memory available to this process: that of the machine, or the limit of its control group.

use std::path::Path;

/// The source of the limit of the process' memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryOf {
    /// The machine has no more.
    Machine,
    /// A control group of the process, or one above it, has this limit.
    ControlGroup,
}

/// What a process may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineMemory {
    /// Size in bytes; 0 if unknown.
    pub bytes: u64,
    /// What bounds them.
    pub of: MemoryOf,
}

/// `maxmemory auto` is this share of the memory available to the process. The rest is for temporary use above the bound,
/// and for the page cache, without which file access in a control group is slow.
const AUTO_SHARE: (u64, u64) = (4, 5);

impl MachineMemory {
    /// Asks the kernel.
    pub fn now() -> Self {
        Self::read(&|path| std::fs::read_to_string(path).ok())
    }

    /// The bound that `maxmemory auto` means; 0 (none) if the size of memory is unknown.
    pub fn auto_bytes(self) -> u64 {
        (u128::from(self.bytes) * u128::from(AUTO_SHARE.0) / u128::from(AUTO_SHARE.1)) as u64
    }

    fn read(file: &dyn Fn(&Path) -> Option<String>) -> Self {
        let machine = machine_bytes(file);
        match control_group_bytes(file) {
            Some(limit) if machine == 0 || limit < machine => {
                Self { bytes: limit, of: MemoryOf::ControlGroup }
            }
            _ => Self { bytes: machine, of: MemoryOf::Machine },
        }
    }
}

fn machine_bytes(file: &dyn Fn(&Path) -> Option<String>) -> u64 {
    let text = file(Path::new("/proc/meminfo")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// The lowest limit of the process' memory control groups and their ancestors, in both versions of the
/// interface; `None` if there is none.
fn control_group_bytes(file: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let groups = file(Path::new("/proc/self/cgroup"))?;
    let mounts = file(Path::new("/proc/self/mountinfo"))?;
    // number:controllers:path
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (of_version, name) = match controllers {
            "" => (Version::Two, "memory.max"),
            list if list.split(',').any(|one| one == "memory") => {
                (Version::One, "memory.limit_in_bytes")
            }
            _ => return None,
        };
        mounts
            .lines()
            .filter_map(|line| mount_of(line, of_version))
            .find_map(|(root, point)| least_limit(file, Path::new(point), below(root, path), name))
    });
    limits.min()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The root and the mount point of a mountinfo line, if it mounts the memory controller: `number parent device ROOT POINT
/// options ... - type source options`.
fn mount_of(line: &str, version: Version) -> Option<(&str, &str)> {
    let (fields, of) = line.split_once(" - ")?;
    let mut of = of.split(' ');
    let (kind, options) = (of.next()?, of.nth(1).unwrap_or_default());
    let is_it = match version {
        Version::One => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
        Version::Two => kind == "cgroup2",
    };
    let mut fields = fields.split(' ').skip(3);
    is_it.then_some((fields.next()?, fields.next()?))
}

/// The part of a group's path below the mount point. Inside a container the path may be the host's, and the
/// container's own group is what is mounted.
fn below<'p>(root: &str, path: &'p str) -> &'p Path {
    let path = Path::new(path);
    let rest = path.strip_prefix(root).or_else(|_| path.strip_prefix("/")).unwrap_or(Path::new(""));
    // Above what is mounted: nothing of it can be seen from here.
    if rest.starts_with("..") { Path::new("") } else { rest }
}

/// A group is bounded by those above it, too.
fn least_limit(
    file: &dyn Fn(&Path) -> Option<String>,
    point: &Path,
    group: &Path,
    name: &str,
) -> Option<u64> {
    // "max" of version two is no number; version one says a very large one, which the machine's is below.
    let limit = |group: &Path| file(&point.join(group).join(name))?.trim().parse::<u64>().ok();
    group.ancestors().filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str =
        "30 23 0:26 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";
    const V2: &str = "31 23 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

    fn read(files: &[(&str, &str)]) -> MachineMemory {
        let file = |path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        };
        MachineMemory::read(&file)
    }

    fn limit(cgroup: &str, mounts: &str, files: &[(&str, &str)]) -> MachineMemory {
        let system = [
            ("/proc/meminfo", "MemFree: 1 kB\nMemTotal:       1048576 kB\n"),
            ("/proc/self/cgroup", cgroup),
            ("/proc/self/mountinfo", mounts),
        ];
        read(&[&system, files].concat())
    }

    #[test]
    fn the_least_limit_of_group_and_machine_counts() {
        let of_group = |bytes| MachineMemory { bytes, of: MemoryOf::ControlGroup };
        let machine = MachineMemory { bytes: 1 << 30, of: MemoryOf::Machine };
        let (own, above) = ("/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max");
        assert_eq!(limit("0::/a/b\n", V2, &[(own, "268435456\n")]), of_group(256 << 20));
        assert_eq!(limit("0::/a/b\n", V2, &[(own, "max\n")]), machine);
        assert_eq!(limit("0::/a/b\n", V2, &[(own, "2147483648\n")]), machine);
        let both = [(own, "max\n"), (above, "1000000\n")];
        assert_eq!(limit("0::/a/b\n", V2, &both), of_group(1_000_000));
        let own = "/sys/fs/cgroup/memory/a/memory.limit_in_bytes";
        let cgroup = "5:cpu:/x\n4:memory:/a\n0::/\n";
        assert_eq!(limit(cgroup, V1, &[(own, "300\n")]), of_group(300));
        assert_eq!(limit(cgroup, V1, &[(own, "9223372036854771712\n")]), machine);
        assert_eq!(read(&[]), MachineMemory { bytes: 0, of: MemoryOf::Machine });
    }

    #[test]
    fn the_group_of_a_container_is_what_it_has_mounted() {
        // The path is the host's; the mount shows that group, or its parent, as its root.
        let mount = V1.replace("0:26 / ", "0:26 /docker/77 ");
        let limit_file = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
        for path in ["/docker/77", "/", "/elsewhere", "/../../x"] {
            let found = limit(&format!("4:memory:{path}\n"), &mount, &[limit_file]);
            assert_eq!(found.bytes, 5000, "{path}");
        }
    }

    #[test]
    fn auto_is_four_fifths() {
        let memory = MachineMemory { bytes: 256 << 20, of: MemoryOf::ControlGroup };
        assert_eq!(memory.auto_bytes(), 214_748_364);
        assert!(MachineMemory::now().auto_bytes() > 0);
    }
}
