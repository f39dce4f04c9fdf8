//! The private directory through which collectors meet what runs inside programs.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, StatVfs, StatVfsMountFlags, flock, statvfs};
use slimline_regions::{STEPS_SUFFIX, SUFFIX};
use slimline_trace::stream::{ring, translated};
use slimline_trace::wire::{
    AGENT_FILE, ALLOCATORS_FILE, CONFIG_FILE, MAGIC, PROCESS_FILE_EXTENSION, RunConfig, TriggerKind, VERSION,
};
use tempfile::{Builder, TempDir};

use crate::RecordError;
use crate::agent_image::{AGENT, PLUGIN, REGIONS};
use crate::calibrate::ASSUMED_SKID;
use crate::ring::ProcessFile;

/// Room that the rings should find: those of 128 threads, and call paths.
const RING_ROOM_BYTES: u64 = 64 << 20;
/// How the names of our directories begin; the collector's process id follows.
const PREFIX: &str = "slimline-";
/// The config before it is renamed into place.
const NEW_CONFIG_FILE: &str = "config.tmp";

/// A library that programs are started with, or what starts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    /// It samples.
    Agent,
    /// It times OpenMP's regions.
    Regions,
    /// QEMU loads it: it tells of the accesses of a program that is translated.
    Plugin,
}

impl Library {
    const ALL: [Self; 3] = [Self::Agent, Self::Regions, Self::Plugin];

    fn file(self) -> &'static str {
        match self {
            Self::Agent => AGENT_FILE,
            Self::Regions => "libslimline_regions.so",
            Self::Plugin => "slimline_translate.so",
        }
    }

    fn image(self) -> &'static [u8] {
        match self {
            Self::Agent => AGENT,
            Self::Regions => REGIONS,
            Self::Plugin => PLUGIN,
        }
    }
}

/// Two directories, usually one: the rings want memory, the library wants a mount that allows execution. Both are removed
/// with this value.
#[derive(Debug)]
pub(crate) struct RunDirectory {
    rings: Held,
    /// Where `rings` is on a mount that does not allow execution.
    executable: Option<Held>,
}

/// A directory with a lock on it. The kernel drops the lock when this process ends, however it ends, so a directory of
/// ours without one has lost its collector: also where process ids are other ones, as in another container.
#[derive(Debug)]
struct Held {
    directory: TempDir,
    _lock: File,
}

impl RunDirectory {
    /// Makes a directory for the rings of instrumented programs, which need no library.
    pub(crate) fn without_library() -> Result<Self, RecordError> {
        let candidates = candidates();
        remove_abandoned(&candidates);
        Ok(Self { rings: for_rings(&candidates)?, executable: None })
    }

    /// Makes the directories and puts libraries in place.
    pub(crate) fn with(libraries: &[Library]) -> Result<Self, RecordError> {
        let candidates = candidates();
        remove_abandoned(&candidates);
        let rings = for_rings(&candidates)?;
        let may_execute = |mount: &StatVfs| match mount.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            false => Ok(()),
            true => Err("is mounted noexec"),
        };
        let executable = match statvfs(rings.directory.path()) {
            Ok(mount) if may_execute(&mount).is_ok() => None,
            _ => Some(make("the library to preload", "execution allowed", &candidates, may_execute)?),
        };
        let directory = Self { rings, executable };
        for library in libraries {
            let written = fs::write(directory.library(*library), library.image());
            written.map_err(RecordError::system("can't write the library to preload"))?;
        }
        Ok(directory)
    }

    /// Where the process files appear.
    pub(crate) fn path(&self) -> &Path {
        self.rings.directory.path()
    }

    /// One of the libraries that it was [made with](Self::with).
    pub(crate) fn library(&self, library: Library) -> PathBuf {
        self.executable.as_ref().unwrap_or(&self.rings).directory.path().join(library.file())
    }

    /// `LD_PRELOAD` for the target: these libraries, then what was preloaded before.
    pub(crate) fn preload(&self, libraries: &[Library]) -> OsString {
        let ours = libraries.iter().map(|library| self.library(*library).into_os_string());
        let before = env::var_os("LD_PRELOAD").filter(|before| !before.is_empty());
        ours.chain(before).collect::<Vec<OsString>>().join(OsStr::new(":"))
    }

    /// Tells the agents what to do, in one step: they never see half a file.
    pub(crate) fn write_config(&self, config: &RunConfig) -> io::Result<()> {
        let path = self.path().join(CONFIG_FILE);
        let temporary = self.path().join(NEW_CONFIG_FILE);
        fs::write(&temporary, config_bytes(config))?;
        fs::rename(temporary, path)
    }

    /// Tells the agents which functions to look for. Before [`Self::write_config`].
    pub(crate) fn write_allocators(&self, content: &[u8]) -> io::Result<()> {
        fs::write(self.path().join(ALLOCATORS_FILE), content)
    }

    /// Whether processes that were told of it run still.
    pub(crate) fn is_in_use(&self) -> bool {
        is_in_use(self.path())
    }

    /// Removes everything but the library: processes that live on pass its path to the programs they start, whose loader
    /// would complain about a file that is gone. A later run removes it once they have ended.
    pub(crate) fn leave_library(self) {
        let Self { rings, executable } = self;
        for held in [executable, Some(rings)].into_iter().flatten() {
            clear(&held.directory.keep(), true);
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
    // LD_PRELOAD has no way to quote its separators, nor has what tells a translator of it.
    let is_plain =
        |path: &PathBuf| path.is_absolute() && !path.as_os_str().as_bytes().iter().any(|b| b" :,".contains(b));
    shm.chain(named).chain(fixed).filter(is_plain).collect()
}

/// A directory for shared memory.
fn for_rings(candidates: &[PathBuf]) -> Result<Held, RecordError> {
    let has_room = |mount: &StatVfs| match mount.f_bavail.saturating_mul(mount.f_frsize) >= RING_ROOM_BYTES {
        true => Ok(()),
        false => Err("has less than 64 MiB free"),
    };
    make("the shared memory", "64 MiB free", candidates, has_room)
}

fn make(
    what: &'static str,
    need: &'static str,
    candidates: &[PathBuf],
    suits: impl Fn(&StatVfs) -> Result<(), &'static str>,
) -> Result<Held, RecordError> {
    let mut tried = Vec::new();
    for candidate in candidates {
        let made = statvfs(candidate).map_err(|error| io::Error::from(error).to_string()).and_then(|mount| {
            suits(&mount)?;
            Held::create(candidate).map_err(|error| error.to_string())
        });
        match made {
            Ok(directory) => return Ok(directory),
            Err(why) => tried.push(format!("{} {why}", candidate.display())),
        }
    }
    Err(RecordError::NoRunDirectory { what, tried: tried.join(", "), need })
}

impl Held {
    fn create(parent: &Path) -> io::Result<Self> {
        loop {
            let mut builder = Builder::new();
            let prefix = format!("{PREFIX}{}-", std::process::id());
            builder.prefix(&prefix).permissions(Permissions::from_mode(0o700));
            let directory = builder.tempdir_in(parent)?;
            let lock = match open_directory(directory.path()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            flock(&lock, FlockOperation::LockExclusive)?;
            // Before it was locked another collector may have taken it for abandoned.
            if fs::metadata(directory.path())
                .is_ok_and(|found| lock.metadata().is_ok_and(|ours| found.ino() == ours.ino()))
            {
                return Ok(Self { directory, _lock: lock });
            }
        }
    }
}

fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Removes what dead collectors left: our directories that nobody holds a lock on. Processes of theirs that still run are
/// told to stop sampling, and keep the library (see [`RunDirectory::leave_library`]).
fn remove_abandoned(candidates: &[PathBuf]) {
    for entry in candidates.iter().filter_map(|candidate| fs::read_dir(candidate).ok()).flatten().flatten() {
        if collector_of(&entry.file_name()).is_none() {
            continue;
        }
        // Held while we remove: it may just be being made. Another user's is that user's to remove, and where it leads may
        // change at any time; our own stays where it is, as these places are sticky.
        let Ok(lock) = open_directory(&entry.path()) else { continue };
        let is_ours = lock.metadata().is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw());
        if is_ours && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            stop_agents(&entry.path());
            clear(&entry.path(), is_in_use(&entry.path()));
        }
    }
}

/// Removes the files that collectors and libraries make in `directory`, the library only where it is not to be kept, and
/// then the directory, where it is empty. What can't be removed is tried again by the next run.
fn clear(directory: &Path, keeps_library: bool) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let extension = Path::new(&name).extension();
        let written = [PROCESS_FILE_EXTENSION, ring::FILE_EXTENSION, translated::FILE_EXTENSION];
        let is_ring = written.iter().any(|ring| extension == Some(ring.as_ref()));
        let ends = [SUFFIX, STEPS_SUFFIX];
        let is_profile = name.to_str().is_some_and(|name| ends.iter().any(|end| name.ends_with(end)));
        let is_library = Library::ALL.iter().any(|library| name == library.file());
        let is_told = [CONFIG_FILE, NEW_CONFIG_FILE, ALLOCATORS_FILE].iter().any(|told| name == *told);
        if is_ring || is_profile || is_told || is_library && !keeps_library {
            let _ = fs::remove_file(entry.path());
        }
    }
    let _ = fs::remove_dir(directory);
}

/// Tells the agents that write into `directory` that nobody reads.
fn stop_agents(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if let Ok(file) = ProcessFile::open(&entry.path()) {
            file.stop();
        }
    }
}

/// Whether another process names `directory` in its environment or has a file of it mapped: then the programs that it starts
/// may be told to preload the library.
fn is_in_use(directory: &Path) -> bool {
    let name = directory.as_os_str().as_bytes();
    let names_it = |path: PathBuf| {
        // Those of others can't be read; nor can they use a directory of ours.
        fs::read(path).is_ok_and(|content| content.windows(name.len()).any(|window| window == name))
    };
    let number = |entry: fs::DirEntry| entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(number);
    // We have the rings mapped.
    let mut others =
        processes.filter(|process| *process != std::process::id()).map(|process| format!("/proc/{process}"));
    others.any(|process| ["environ", "maps"].iter().any(|file| names_it(Path::new(&process).join(file))))
}

/// The process id in `slimline-<pid>-<random>`.
fn collector_of(name: &OsStr) -> Option<u32> {
    name.to_str()?.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::synthetic::SyntheticProcess;

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
        let directory = RunDirectory::with(&[Library::Agent]).unwrap();
        let path = directory.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let library = directory.library(Library::Agent);
        assert_eq!(fs::read(&library).unwrap(), AGENT);
        assert!(directory.preload(&[Library::Agent]).to_str().unwrap().starts_with(library.to_str().unwrap()));
        drop(directory);
        assert!(!path.exists());
    }

    /// What is left in `directory`.
    fn left_in(directory: &Path) -> Vec<PathBuf> {
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn leaves_the_library_to_those_who_live_on() {
        for library in Library::ALL {
            let directory = RunDirectory::with(&[library]).unwrap();
            let file = directory.library(library);
            for name in ["4711-0.ring", "4711.regions", ".4712.regions", "4711-4711.steps"] {
                fs::write(directory.path().join(name), "").unwrap();
            }
            directory.leave_library();
            let parent = file.parent().unwrap();
            assert_eq!(left_in(parent), std::slice::from_ref(&file));
            fs::remove_dir_all(parent).unwrap();
        }
    }

    /// A directory as a killed collector leaves it, in a place of its own.
    fn abandoned() -> (TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("slimline-4194999-aBc9");
        fs::create_dir(&directory).unwrap();
        for name in [
            CONFIG_FILE,
            NEW_CONFIG_FILE,
            ALLOCATORS_FILE,
            AGENT_FILE,
            Library::Plugin.file(),
            "4711-0.ring",
            "4711-0.code",
            "4711.regions",
        ] {
            fs::write(directory.join(name), "").unwrap();
        }
        (place, directory)
    }

    #[test]
    fn what_dead_collectors_left_is_removed() {
        let (place, directory) = abandoned();
        remove_abandoned(&[place.path().to_owned()]);
        assert!(!directory.exists());
    }

    #[test]
    fn what_a_living_collector_uses_stays() {
        let place = tempfile::tempdir().unwrap();
        let held = Held::create(place.path()).unwrap();
        let config = held.directory.path().join(CONFIG_FILE);
        fs::write(&config, "").unwrap();
        remove_abandoned(&[place.path().to_owned()]);
        assert!(config.exists());
        drop(held);
        assert!(left_in(place.path()).is_empty());
    }

    #[test]
    fn programs_of_a_dead_collector_keep_the_agent_until_they_end() {
        let (place, directory) = abandoned();
        let process = SyntheticProcess::create(&directory.join("4712-0.ring"), 4712);
        let mut child =
            Command::new("cat").env("LD_PRELOAD_OF_TEST", &directory).stdin(Stdio::piped()).spawn().unwrap();
        // Its environment is there once it runs `cat`.
        while !is_in_use(&directory) {
            std::thread::yield_now();
        }
        remove_abandoned(&[place.path().to_owned()]);
        let mut left = left_in(&directory);
        left.sort_unstable();
        assert_eq!(left, [AGENT_FILE, Library::Plugin.file()].map(|name| directory.join(name)));
        assert!(process.is_stopped());
        drop(child.stdin.take());
        child.wait().unwrap();
        drop(process);
        remove_abandoned(&[place.path().to_owned()]);
        assert!(!directory.exists());
    }

    #[test]
    fn nothing_is_removed_that_is_not_ours() {
        let (place, directory) = abandoned();
        fs::write(directory.join("precious"), "").unwrap();
        let notes = place.path().join("slimline-notes");
        fs::create_dir(&notes).unwrap();
        fs::write(notes.join(CONFIG_FILE), "").unwrap();
        std::os::unix::fs::symlink(&notes, place.path().join("slimline-4194998-aBc9")).unwrap();
        remove_abandoned(&[place.path().to_owned()]);
        assert_eq!(left_in(&directory), [directory.join("precious")]);
        assert_eq!(left_in(&notes), [notes.join(CONFIG_FILE)]);
    }

    #[test]
    fn knows_its_own_names_only() {
        assert_eq!(collector_of("slimline-4711-aBc9".as_ref()), Some(4711));
        assert_eq!(collector_of("slimline-notes".as_ref()), None);
        assert_eq!(collector_of("other-4711-x".as_ref()), None);
    }
}
