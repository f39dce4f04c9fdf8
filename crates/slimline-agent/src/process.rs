//! The process's begin, end and forks.
#![allow(unsafe_code)] // entry points called by the C library

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::fmt::Write;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32};
use slimline_trace::wire::{CONFIG_FILE, MAGIC, ProcessState, RUN_DIRECTORY_VARIABLE, RunConfig, VERSION};

use crate::recorder::Fork;
use crate::resolve::weak;
use crate::text::Path;
use crate::{
    clock, confine, entries, handler, hooks, kernel, maps, memory, next, own_memory, recorder, signals, tables, thread,
    trigger, unwind,
};

struct Run {
    config: RunConfig,
    directory: Path,
}

struct RunCell(UnsafeCell<MaybeUninit<Run>>);
// SAFETY: written once by `start`, before `CONFIGURED` is set and while there is one thread.
unsafe impl Sync for RunCell {}

static RUN: RunCell = RunCell(UnsafeCell::new(MaybeUninit::uninit()));
static CONFIGURED: AtomicBool = AtomicBool::new(false);
/// The process that is recorded: a `vfork` child shares our memory but is another.
static PROCESS: AtomicU32 = AtomicU32::new(0);

fn run() -> Option<&'static Run> {
    // SAFETY: see `RunCell`.
    CONFIGURED.load(Acquire).then(|| unsafe { (*RUN.0.get()).assume_init_ref() })
}

/// What the collector asked for; None where the agent is idle.
pub(crate) fn config() -> Option<&'static RunConfig> {
    run().map(|run| &run.config)
}

/// Whether the caller is the process that is recorded, and not a `vfork` child in its memory.
pub(crate) fn is_ours() -> bool {
    PROCESS.load(Relaxed) == kernel::process_id()
}

/// Reads the configuration and starts recording, or leaves the agent idle.
///
/// # Safety
/// Under glibc `environment` must be null or a NULL-terminated array of C strings; there must be one thread.
unsafe fn start(environment: *const *const c_char) {
    hooks::withhold_operators();
    // Another C library than glibc passes no environment. The collector samples the process from outside.
    let Some((at_fork, at_quick)) = registrations() else { return };
    // SAFETY: promised by the caller.
    let Some(directory) = (unsafe { find_variable(environment, RUN_DIRECTORY_VARIABLE.as_bytes()) }) else { return };
    let Some(directory) = Some(directory.to_bytes()).filter(|path| path.starts_with(b"/")) else { return };
    let Some(config) = read_config(directory) else { return };
    let excluded = config.follow_children == 0 && config.root_pid != 0 && config.root_pid != kernel::process_id();
    if excluded {
        return;
    }
    let mut kept = Path::new();
    if kept.push(directory).is_err() {
        return;
    }
    // SAFETY: one thread, and `CONFIGURED` is not set.
    unsafe { (*RUN.0.get()).write(Run { config, directory: kept }) };
    CONFIGURED.store(true, Release);
    next::prepare();
    clock::prepare();
    thread::prepare();
    handler::prepare();
    unwind::start();
    // SAFETY: plain functions of these types; ours live as long as we do, and we are never unloaded.
    unsafe {
        at_fork(None, None, Some(in_forked_child), core::ptr::null_mut());
        at_quick(Some(at_quick_exit), core::ptr::null_mut());
    }
    // Where no file can be made there is no place to say so either; the collector sees that none came.
    record(None);
}

/// `__register_atfork`: what to call before a fork, in the parent and in the child, and for which library.
type AtFork = unsafe extern "C" fn(
    Option<unsafe extern "C" fn()>,
    Option<unsafe extern "C" fn()>,
    Option<unsafe extern "C" fn()>,
    *mut u8,
) -> i32;
/// `__cxa_at_quick_exit`.
type AtQuickExit = unsafe extern "C" fn(Option<unsafe extern "C" fn(*mut u8)>, *mut u8) -> i32;

/// The functions of glibc by which we learn of forks and of the process's end. None under another C library, which may have
/// functions of these names all the same, for programs that were built for glibc.
fn registrations() -> Option<(AtFork, AtQuickExit)> {
    if weak!("gnu_get_libc_version").is_null() {
        return None;
    }
    let (fork, quick_exit) = (weak!("__register_atfork"), weak!("__cxa_at_quick_exit"));
    // SAFETY: null, or the functions of these names, whose types glibc keeps.
    unsafe {
        let fork = core::mem::transmute::<*const (), Option<AtFork>>(fork);
        let quick_exit = core::mem::transmute::<*const (), Option<AtQuickExit>>(quick_exit);
        fork.zip(quick_exit)
    }
}

/// Makes a process file and starts the triggers. False where no file can be made.
fn record(fork: Option<Fork>) -> bool {
    let Some(run) = run() else { return false };
    let directory = run.directory.bytes();
    let Ok(header) = recorder::create(directory) else { return false };
    PROCESS.store(kernel::process_id(), Relaxed);
    if let Some(fork) = fork {
        fork.note(header);
    }
    if !tables::prepare() {
        recorder::fail(format_args!("there was no memory for the agent's tables"));
        return false;
    }
    header.state.store(ProcessState::Running as u32, Release);
    if !memory::can_copy() {
        recorder::fail(format_args!("the kernel copies no memory for it (process_vm_readv), as in some sandboxes"));
        return true;
    }
    if kernel::is_under_valgrind() {
        // It would treat the agent's signals as its own.
        recorder::fail(format_args!("it runs under Valgrind"));
        return true;
    }
    if kernel::tracer().is_some() {
        // A tracer stops at every signal, the agent's included. Without its number alike failures group.
        recorder::fail(format_args!("it is traced, as by a debugger, which would see the signals of sampling"));
        return true;
    }
    if let Some(thread) = thread::current()
        && let Some(_inside) = thread.enter()
    {
        maps::snapshot(thread);
    }
    if run.config.track_allocations != 0 {
        hooks::start();
        entries::start(directory);
    }
    trigger::start(&run.config, header);
    true
}

/// Declares the record complete. Once; from whichever way the process ends by.
pub(crate) fn finish() {
    if recorder::is_sealed() || !is_ours() {
        return;
    }
    trigger::stop();
    hooks::flush();
    if let Some(thread) = thread::current()
        && let Some(_inside) = thread.enter()
    {
        maps::snapshot(thread);
    }
    thread::end();
    recorder::finish();
}

/// In a child with memory of its own that has no threads but the calling one.
pub(crate) unsafe extern "C" fn in_forked_child() {
    let Some(header) = recorder::header().filter(|_| !confine::is_confined()) else { return };
    PROCESS.store(0, Relaxed);
    let fork = Fork::now();
    trigger::forget();
    signals::reset_lock();
    handler::forget_samples();
    confine::forget_others();
    own_memory::in_forked_child();
    if thread::is_inside() || unwind::has_interrupted(handler::is_agent_code, clock::is_vdso) {
        // A signal handler of the program's interrupted the agent, and forked. When it returns, the agent goes on with all
        // that it held: so nothing is given up, and the child is not recorded.
        hooks::stop();
        header.children_unrecorded.fetch_add(1, Relaxed);
        recorder::seal();
        return;
    }
    let is_followed = config().is_some_and(|config| config.follow_children != 0);
    // SAFETY: the child of a fork has one thread; `fork` was called by the target.
    unsafe { hooks::in_forked_child(is_followed) };
    thread::forget();
    maps::forget();
    entries::forget();
    // SAFETY: the child of a fork has one thread, and `thread::forget` has let go of its ring.
    let parents = unsafe { recorder::leave() };
    if is_followed && !record(fork) {
        parents.count_unrecorded_child();
    }
}

unsafe extern "C" fn at_quick_exit(_: *mut u8) {
    finish();
}

/// The value of an environment variable.
///
/// # Safety
/// As [`start`].
unsafe fn find_variable(environment: *const *const c_char, name: &[u8]) -> Option<&'static CStr> {
    let mut at = environment;
    // SAFETY: promised by the caller; the strings of the initial environment live as long as the process.
    unsafe {
        while !at.is_null() && !(*at).is_null() {
            let entry = CStr::from_ptr(*at).to_bytes_with_nul();
            if let Some(value) = entry.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"=")) {
                return CStr::from_bytes_with_nul(value).ok();
            }
            at = at.add(1);
        }
    }
    None
}

fn read_config(directory: &[u8]) -> Option<RunConfig> {
    let mut path = Path::new();
    path.push(directory).ok()?;
    write!(path, "/{CONFIG_FILE}").ok()?;
    let file = kernel::open(path.as_c_str()?, libc::O_RDONLY | libc::O_NOFOLLOW, 0).ok()?;
    let mut bytes = [0; size_of::<RunConfig>() + 1];
    let length = kernel::read(file, &mut bytes);
    kernel::close(file);
    if length != Ok(size_of::<RunConfig>()) {
        return None;
    }
    // SAFETY: a structure of integers; every pattern is one.
    let config: RunConfig = unsafe { bytes.as_ptr().cast::<RunConfig>().read_unaligned() };
    (config.magic == MAGIC && config.version == VERSION).then_some(config)
}

#[cfg(feature = "preload")]
mod entry {
    use super::*;
    use crate::library;

    /// Runs when the library is loaded, before `main`.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static START: unsafe extern "C" fn(i32, *const *const c_char, *const *const c_char) = at_start;

    /// Runs when the process exits in the ordinary way, after its own exit handlers.
    #[used]
    #[unsafe(link_section = ".fini_array")]
    static END: extern "C" fn() = at_end;

    unsafe extern "C" fn at_start(_: i32, _: *const *const c_char, environment: *const *const c_char) {
        if let Some(library) = library::range() {
            own_memory::note(library.start, library.len());
        }
        // A program with more rights than its caller, linked to us: what the caller wrote is not to be followed.
        // SAFETY: a look into the auxiliary vector.
        if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
            return;
        }
        unsafe extern "C" fn begin(environment: *mut u8) {
            // SAFETY: glibc's loader passes the process's environment; threads start later.
            unsafe { start(environment.cast()) };
        }
        // Some programs use variables on the stack that they never set: they find zeros there, as alone.
        // SAFETY: as above.
        unsafe { handler::on_fresh_stack(begin, environment.cast_mut().cast()) };
    }

    extern "C" fn at_end() {
        finish();
    }

    /// Asked by the runtime of AddressSanitizer for its options, before those in `ASAN_OPTIONS`. It refuses to run behind
    /// another library that is preloaded. Ours calls its allocator as it calls any other that stands behind it. A program
    /// that has this function itself is asked in our place.
    #[unsafe(no_mangle)]
    extern "C" fn __asan_default_options() -> *const c_char {
        c"verify_asan_link_order=0".as_ptr()
    }

    /// `_exit` runs no exit handlers: the record ends here.
    #[unsafe(no_mangle)]
    extern "C" fn _exit(status: i32) -> ! {
        end(status)
    }

    /// As [`_exit`].
    #[unsafe(no_mangle)]
    extern "C" fn _Exit(status: i32) -> ! {
        end(status)
    }

    fn end(status: i32) -> ! {
        finish();
        kernel::exit(status)
    }
}
