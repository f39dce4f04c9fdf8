//! This machine, as the kernel describes it.

use std::fs;
use std::path::Path;

use rustix::system::uname;
use slimline_trace::session::{Cache, Machine};

/// What can be read about this machine; what can't is empty or zero.
pub fn describe() -> Machine {
    let system = uname();
    let cpus = Path::new("/sys/devices/system/cpu");
    let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    Machine {
        host: system.nodename().to_string_lossy().into_owned(),
        kernel: system.release().to_string_lossy().into_owned(),
        architecture: system.machine().to_string_lossy().into_owned(),
        cpu: field(&cpu_info, "model name").unwrap_or_default().to_owned(),
        logical_cpus: online_cpus().len() as u32,
        memory_bytes: field(&memory, "MemTotal").and_then(kibibytes).unwrap_or(0),
        caches: caches(&cpus.join("cpu0/cache")),
    }
}

/// The value of the first `name : value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
    Some(line.split_once(':')?.1.trim())
}

fn kibibytes(value: &str) -> Option<u64> {
    value.strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

/// The CPUs that are online.
pub(crate) fn online_cpus() -> Vec<u32> {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    match cpus_in(online.trim()) {
        // No such file, as in some sandboxes.
        cpus if cpus.is_empty() => (0..std::thread::available_parallelism().map_or(1, |n| n.get() as u32)).collect(),
        cpus => cpus,
    }
}

/// The CPUs in a list such as `0-3,8`.
pub(crate) fn cpus_in(list: &str) -> Vec<u32> {
    let range = |part: &str| match part.split_once('-') {
        Some((first, last)) => Some(first.parse().ok()?..=last.parse().ok()?),
        None => part.parse().ok().map(|cpu| cpu..=cpu),
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Those of one CPU, nearest first.
pub(crate) fn caches(directory: &Path) -> Vec<Cache> {
    let mut caches: Vec<Cache> =
        fs::read_dir(directory).into_iter().flatten().flatten().filter_map(|entry| cache(&entry.path())).collect();
    caches.sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
    caches
}

fn cache(directory: &Path) -> Option<Cache> {
    let read = |name| fs::read_to_string(directory.join(name)).ok().map(|text: String| text.trim().to_owned());
    let size = read("size")?;
    Some(Cache {
        level: read("level")?.parse().ok()?,
        kind: read("type")?,
        bytes: size.strip_suffix('K')?.parse::<u64>().ok()? << 10,
        line_bytes: read("coherency_line_size").and_then(|text| text.parse().ok()).unwrap_or(0),
        ways: read("ways_of_associativity").and_then(|text| text.parse().ok()).unwrap_or(0),
        shared_by: read("shared_cpu_list").unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_come_in_lists() {
        assert_eq!(cpus_in("0"), [0]);
        assert_eq!(cpus_in("0-3,8"), [0, 1, 2, 3, 8]);
        assert!(cpus_in("7-3").is_empty() && cpus_in("").is_empty());
        assert!(!online_cpus().is_empty());
    }

    #[test]
    fn reads_fields_whatever_the_padding() {
        assert_eq!(field("a\t: 1\nmodel name\t: Some CPU: fast\n", "model name"), Some("Some CPU: fast"));
        assert_eq!(field("MemTotal:       16384 kB\n", "MemTotal").and_then(kibibytes), Some(16_777_216));
        assert_eq!(field("", "MemTotal"), None);
    }

    #[test]
    fn reads_caches_as_sysfs_shows_them() {
        let scratch = tempfile::tempdir().unwrap();
        for (index, level, kind, size) in [("index1", "2", "Unified", "2048K"), ("index0", "1", "Data", "48K")] {
            let directory = scratch.path().join(index);
            fs::create_dir(&directory).unwrap();
            for (name, value) in [("level", level), ("type", kind), ("size", size), ("coherency_line_size", "64")] {
                fs::write(directory.join(name), format!("{value}\n")).unwrap();
            }
        }
        let found: Vec<_> = caches(scratch.path()).iter().map(|cache| (cache.level, cache.bytes, cache.ways)).collect();
        assert_eq!(found, [(1, 48 << 10, 0), (2, 2 << 20, 0)]);
    }
}
