//! The private directory through which collector and agents meet.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfs, StatVfsMountFlags, statvfs};
use slimline_trace::wire::{CONFIG_FILE, MAGIC, RunConfig, TriggerKind, VERSION};
use tempfile::{Builder, TempDir};

use crate::RecordError;
use crate::agent_image::{AGENT, AGENT_FILE};
use crate::calibrate::ASSUMED_SKID;

/// Room that the rings should find: those of 128 threads, and call paths.
const RING_ROOM_BYTES: u64 = 64 << 20;
/// How the names of our directories begin; the collector's process id follows.
const PREFIX: &str = "slimline-";

/// Two directories, usually one: the rings want memory, the agent wants a mount that allows execution. Both are removed
/// with this value.
#[derive(Debug)]
pub(crate) struct RunDirectory {
    rings: TempDir,
    /// Where `rings` is on a mount that does not allow execution.
    agent: Option<TempDir>,
}

impl RunDirectory {
    /// Makes the directories and puts the agent in place.
    pub(crate) fn create() -> Result<Self, RecordError> {
        let candidates = candidates();
        remove_abandoned(&candidates);
        let has_room = |mount: &StatVfs| match mount.f_bavail.saturating_mul(mount.f_frsize) >= RING_ROOM_BYTES {
            true => Ok(()),
            false => Err("has less than 64 MiB free"),
        };
        let rings = make("the shared memory", "64 MiB free", &candidates, has_room)?;
        let may_execute = |mount: &StatVfs| match mount.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            false => Ok(()),
            true => Err("is mounted noexec"),
        };
        let agent = match statvfs(rings.path()) {
            Ok(mount) if may_execute(&mount).is_ok() => None,
            _ => Some(make("the agent", "execution allowed", &candidates, may_execute)?),
        };
        let directory = Self { rings, agent };
        fs::write(directory.agent(), AGENT).map_err(RecordError::system("can't write the agent"))?;
        Ok(directory)
    }

    /// Where the process files appear.
    pub(crate) fn path(&self) -> &Path {
        self.rings.path()
    }

    /// The agent's library.
    pub(crate) fn agent(&self) -> PathBuf {
        self.agent.as_ref().unwrap_or(&self.rings).path().join(AGENT_FILE)
    }

    /// `LD_PRELOAD` for the target: the agent, then what was preloaded before.
    pub(crate) fn preload(&self) -> OsString {
        let mut preload = self.agent().into_os_string();
        if let Some(before) = env::var_os("LD_PRELOAD").filter(|before| !before.is_empty()) {
            preload.push(":");
            preload.push(before);
        }
        preload
    }

    /// Tells the agents what to do, in one step: they never see half a file.
    pub(crate) fn write_config(&self, config: &RunConfig) -> io::Result<()> {
        let path = self.path().join(CONFIG_FILE);
        let temporary = self.path().join("config.tmp");
        fs::write(&temporary, config_bytes(config))?;
        fs::rename(temporary, path)
    }

    /// Removes everything but the agent: processes that live on pass its path to the programs they start, whose loader
    /// would complain about a file that is gone.
    pub(crate) fn leave_agent(self) {
        let agent = self.agent();
        let Self { rings, agent: separate } = self;
        for kept in [separate, Some(rings)].into_iter().flatten() {
            if agent.parent() != Some(kept.path()) {
                continue; // dropped, so removed
            }
            let kept = kept.keep();
            for entry in fs::read_dir(kept).into_iter().flatten().flatten() {
                if entry.path() != agent {
                    // Left behind where it can't be removed; `remove_abandoned` has another try.
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
    }
}

/// A config that asks for `trigger`, allocations, and no bursts.
pub(crate) fn plain_config(trigger: TriggerKind) -> RunConfig {
    RunConfig {
        magic: MAGIC,
        version: VERSION,
        trigger: trigger as u32,
        period_ns: 1_000_000,
        between_ns: 0,
        burst_instructions: 0,
        skid: ASSUMED_SKID,
        track_allocations: 1,
        follow_children: 1,
        root_pid: 0,
        budget_ppm: 1_000_000,
        reserved: [0; 2],
    }
}

/// The fields in their order: the layout that [`RunConfig`] has in memory.
fn config_bytes(config: &RunConfig) -> Vec<u8> {
    let RunConfig {
        magic,
        version,
        trigger,
        period_ns,
        between_ns,
        burst_instructions,
        skid,
        track_allocations,
        follow_children,
        root_pid,
        budget_ppm,
        reserved,
    } = *config;
    debug_assert!(magic == MAGIC && version == VERSION);
    let mut bytes = magic.to_ne_bytes().to_vec();
    bytes.extend([version, trigger].iter().flat_map(|field| field.to_ne_bytes()));
    bytes.extend([period_ns, between_ns].iter().flat_map(|field| field.to_ne_bytes()));
    let rest = [burst_instructions, skid, track_allocations, follow_children, root_pid, budget_ppm];
    bytes.extend(rest.iter().chain(&reserved).flat_map(|field| field.to_ne_bytes()));
    bytes
}

/// Memory first; a disk's page cache serves as well, at the price of needless writing.
fn candidates() -> Vec<PathBuf> {
    let named = ["XDG_RUNTIME_DIR", "TMPDIR"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let fixed = ["/tmp", "/var/tmp"].into_iter().map(PathBuf::from);
    let shm = std::iter::once(PathBuf::from("/dev/shm"));
    // LD_PRELOAD has no way to quote its separators.
    let is_plain =
        |path: &PathBuf| path.is_absolute() && !path.as_os_str().as_bytes().iter().any(|b| b" :".contains(b));
    shm.chain(named).chain(fixed).filter(is_plain).collect()
}

fn make(
    what: &'static str,
    need: &'static str,
    candidates: &[PathBuf],
    suits: impl Fn(&StatVfs) -> Result<(), &'static str>,
) -> Result<TempDir, RecordError> {
    let mut tried = Vec::new();
    for candidate in candidates {
        let made = statvfs(candidate).map_err(|error| io::Error::from(error).to_string()).and_then(|mount| {
            suits(&mount)?;
            let mut builder = Builder::new();
            let prefix = format!("{PREFIX}{}-", std::process::id());
            builder.prefix(&prefix).permissions(Permissions::from_mode(0o700));
            builder.tempdir_in(candidate).map_err(|error| error.to_string())
        });
        match made {
            Ok(directory) => return Ok(directory),
            Err(why) => tried.push(format!("{} {why}", candidate.display())),
        }
    }
    Err(RecordError::NoRunDirectory { what, tried: tried.join(", "), need })
}

/// Removes what killed collectors left: our directories that still hold a config and whose collector is gone. Others'
/// can't be removed by us, and need not.
fn remove_abandoned(candidates: &[PathBuf]) {
    for entry in candidates.iter().filter_map(|candidate| fs::read_dir(candidate).ok()).flatten().flatten() {
        let name = entry.file_name();
        let is_abandoned = collector_of(&name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        if is_abandoned && entry.path().join(CONFIG_FILE).is_file() {
            // Memory that is not given back now is given back by the next run.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The process id in `slimline-<pid>-<random>`.
fn collector_of(name: &OsStr) -> Option<u32> {
    name.to_str()?.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_has_the_layout_of_the_wire() {
        use std::mem::offset_of;
        let config = RunConfig {
            magic: MAGIC,
            version: VERSION,
            trigger: 1,
            period_ns: 2,
            between_ns: 3,
            burst_instructions: 3,
            skid: 4,
            track_allocations: 5,
            follow_children: 6,
            root_pid: 7,
            budget_ppm: 8,
            reserved: [9, 10],
        };
        let bytes = config_bytes(&config);
        let u32_at = |offset: usize| u32::from_ne_bytes(bytes[offset..offset + 4].try_into().unwrap());
        assert_eq!(bytes.len(), size_of::<RunConfig>());
        assert_eq!(u32_at(offset_of!(RunConfig, version)), VERSION);
        assert_eq!(u32_at(offset_of!(RunConfig, trigger)), 1);
        assert_eq!(u32_at(offset_of!(RunConfig, period_ns)), 2);
        assert_eq!(u32_at(offset_of!(RunConfig, between_ns)), 3);
        assert_eq!(u32_at(offset_of!(RunConfig, skid)), 4);
        assert_eq!(u32_at(offset_of!(RunConfig, root_pid)), 7);
        assert_eq!(u32_at(offset_of!(RunConfig, budget_ppm)), 8);
        assert_eq!(u32_at(offset_of!(RunConfig, reserved)), 9);
    }

    #[test]
    fn is_private_executable_and_gone_afterwards() {
        let directory = RunDirectory::create().unwrap();
        let path = directory.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read(directory.agent()).unwrap(), AGENT);
        assert!(directory.preload().to_str().unwrap().starts_with(directory.agent().to_str().unwrap()));
        drop(directory);
        assert!(!path.exists());
    }

    #[test]
    fn leaves_the_agent_to_those_who_live_on() {
        let directory = RunDirectory::create().unwrap();
        let agent = directory.agent();
        fs::write(directory.path().join("4711-0.ring"), "").unwrap();
        directory.leave_agent();
        let parent = agent.parent().unwrap();
        let left: Vec<_> = fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, std::slice::from_ref(&agent));
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn knows_its_own_names_only() {
        assert_eq!(collector_of("slimline-4711-aBc9".as_ref()), Some(4711));
        assert_eq!(collector_of("slimline-notes".as_ref()), None);
        assert_eq!(collector_of("other-4711-x".as_ref()), None);
    }
}
