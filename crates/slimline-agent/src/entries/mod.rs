//! Allocators other than the C library's: those that a program brings, linked into it or written for it. No call of theirs
//! goes through the dynamic linker, so their functions' entries are hooked.
//!
//! ```text
//!   function:     [endbr64]  jmp ──►  stub:  push hook ; jmp ──►  common (`hooked`): before … call moved … after ; ret
//!                 rest       ◄── jmp  moved: its first instructions  ◄──────────────────────────┘
//! ```
//!
//! The collector says which functions by name ([`ALLOCATORS_FILE`]), and they are looked for in the symbol tables of each
//! object that is loaded ([`elf`]): it can't know all programs that a process may start. It happens before the object's own
//! code runs: when the process starts, with one thread, and when something is loaded later ([`later`]). Where threads may be
//! running it already, or a function's first instructions can't be moved ([`slimline_emulate::relocate`]), it is left alone,
//! and the collector is told why. No memory is ever writable and executable at once ([`patch`]). A forked child inherits all
//! of it; a program that is exec'd begins anew.
#![allow(unsafe_code)] // reads loaded code

mod elf;
mod hooked;
mod later;
mod passed_over;
mod patch;
mod pools;
mod stub;

use core::ffi::CStr;
use core::fmt::Write;
use core::mem::MaybeUninit;
use core::slice;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use slimline_trace::wire::{
    ALLOCATORS_FILE, AllocatorEvent, AllocatorFunction, AllocatorRole, HookState, MAX_ALLOCATOR_FUNCTIONS, MessageKind,
    NotLookedThrough, OBJECTS_WITHOUT_ALLOCATORS,
};

use crate::recorder::{self, bytes_of};
use crate::text::Path;
use crate::{blocks, kernel, thread};
use elf::{Elf, File};
use hooked::Hook;
use patch::{Patcher, Stubs};

/// Whether this process, or one that it was forked from, was looked through.
static LOOKED: AtomicBool = AtomicBool::new(false);
/// A bit for each [`NotLookedThrough`] of this process or one that it was forked from.
static NOT_LOOKED_THROUGH: AtomicU64 = AtomicU64::new(0);

/// In a forked child: what other threads had begun stays so.
pub(crate) fn forget() {
    pools::forget();
    later::forget();
}

/// Tells that functions were not looked for everywhere. Async-signal-safe.
fn tell_not_looked_through(why: NotLookedThrough) {
    for told in told() {
        told.fetch_or(why as u64, Relaxed);
    }
}

/// Takes back what [`tell_not_looked_through`] told.
fn has_looked_through(why: NotLookedThrough) {
    for told in told() {
        told.fetch_and(!(why as u64), Relaxed);
    }
}

/// Where that is told: here, for those that are forked, and to the collector.
fn told() -> impl Iterator<Item = &'static AtomicU64> {
    let header = recorder::header().map(|header| &header.not_looked_through);
    [Some(&NOT_LOOKED_THROUGH), header].into_iter().flatten()
}

fn not_looked_through() -> u64 {
    NOT_LOOKED_THROUGH.load(Relaxed)
}

/// Looks for the functions that the collector named in `directory` and hooks them.
pub(crate) fn start(directory: &[u8]) {
    if LOOKED.swap(true, Relaxed) {
        // A forked child has a file of its own.
        if let Some(header) = recorder::header() {
            header.not_looked_through.fetch_or(not_looked_through(), Relaxed);
        }
        return;
    }
    let mut path = Path::new();
    if path.push(directory).and_then(|()| write!(path, "/{ALLOCATORS_FILE}")).is_err() {
        return;
    }
    let Some(file) = path.as_c_str().and_then(File::open) else { return };
    let functions = functions(file.keep());
    if functions.is_empty() {
        return;
    }
    if !hooked::can_save_registers() {
        return tell_not_looked_through(NotLookedThrough::Any);
    }
    // Libraries that began before us may have made threads.
    later::begin(Wanted::new(functions), kernel::threads() == Some(1));
}

fn functions(content: &'static [u8]) -> &'static [AllocatorFunction] {
    let count = (content.len() / size_of::<AllocatorFunction>()).min(MAX_ALLOCATOR_FUNCTIONS);
    // SAFETY: so many are there; they are integers only, and a mapping begins at a page.
    unsafe { slice::from_raw_parts(content.as_ptr().cast(), count) }
}

/// The text of a NUL-padded field.
fn text(padded: &[u8]) -> &[u8] {
    let length = padded.iter().position(|&byte| byte == 0).unwrap_or(padded.len());
    &padded[..length]
}

/// Functions that are looked for.
struct Wanted<'a> {
    functions: &'a [AllocatorFunction],
    /// A bit for each hash of a name among them: most names of an object are none of these.
    hashes: [u64; 64],
}

impl<'a> Wanted<'a> {
    fn new(functions: &'a [AllocatorFunction]) -> Self {
        let mut hashes = [0; 64];
        for function in functions {
            let (word, bit) = Self::place(text(&function.name));
            hashes[word] |= bit;
        }
        Self { functions, hashes }
    }

    /// By length, first, middle and last byte.
    fn place(name: &[u8]) -> (usize, u64) {
        let byte = |at: usize| usize::from(name.get(at).copied().unwrap_or(0));
        let length = name.len();
        let hash = length + 7 * byte(length / 2) + 31 * byte(0) + 101 * byte(length.saturating_sub(1));
        (hash / 64 % 64, 1 << (hash % 64))
    }

    /// Number of the function of that name in an object, if it is looked for there; `may_have_own_malloc`: also if only in
    /// one that defines `malloc`.
    fn find(&self, name: &[u8], module: &[u8], may_have_own_malloc: bool) -> Option<usize> {
        let (word, bit) = Self::place(name);
        if self.hashes[word] & bit == 0 {
            return None;
        }
        self.functions.iter().position(|function| {
            text(&function.name) == name
                && module.ends_with(text(&function.module))
                && (function.needs_own_malloc == 0 || may_have_own_malloc)
        })
    }
}

/// Hooks of one object at most.
const MOST_HOOKS: usize = 256;

/// A function that was found.
#[derive(Clone, Copy)]
struct Found {
    function: usize,
    address: u64,
    bytes: u64,
}

/// Hooks an object's functions that are looked for; the memory that this needs. Where it `is_late`, threads may be running
/// them already: then they are only told of.
///
/// # Safety
/// Nobody may run the object's code, a signal handler neither, unless it `is_late`.
unsafe fn look_through(
    info: &libc::dl_phdr_info,
    is_program: bool,
    wanted: &Wanted<'_>,
    is_late: bool,
) -> Option<Stubs> {
    // SAFETY: the linker's string.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) };
    let path = if is_program { c"/proc/self/exe" } else { name };
    let file_name = path.to_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or(&[]);
    if OBJECTS_WITHOUT_ALLOCATORS.iter().any(|left| file_name.starts_with(left.as_bytes())) {
        return None;
    }
    let file = File::open(path)?;
    let elf = Elf::of(&file)?;
    let mut own_path = [0; libc::PATH_MAX as usize];
    let module = if is_program { kernel::read_link(path, &mut own_path).unwrap_or(&[]) } else { name.to_bytes() };
    // A separate file of symbols says more than a file without any but those that it exports.
    let separate = if elf.has_symbol_table() { None } else { elf.debug_path() };
    let separate = separate.and_then(|path| File::open(path.as_c_str()?));
    let with_symbols = separate.as_ref().and_then(Elf::of);
    let each_function = |visit: &mut dyn FnMut(elf::Symbol<'_>)| {
        elf.each_function(visit);
        if let Some(separate) = with_symbols {
            separate.each_function(visit);
        }
    };
    let mut has_own_malloc = false;
    let mut found = [MaybeUninit::<Found>::uninit(); MOST_HOOKS];
    let mut count = 0;
    each_function(&mut |symbol| {
        has_own_malloc |= is_program && symbol.name == b"malloc";
        if let Some(function) = wanted.find(symbol.name, module, is_program)
            && count < MOST_HOOKS
        {
            let address = info.dlpi_addr.wrapping_add(symbol.address);
            found[count].write(Found { function, address, bytes: symbol.bytes });
            count += 1;
        }
    });
    // SAFETY: so many were written.
    let found = unsafe { slice::from_raw_parts_mut(found.as_mut_ptr().cast::<Found>(), count) };
    let is_kept = |found: &Found| has_own_malloc || wanted.functions[found.function].needs_own_malloc == 0;
    // Names of one function are hooked once.
    found.sort_unstable_by_key(|found| (!is_kept(found), found.address, found.function));
    // SAFETY: promised by the caller.
    unsafe { hook_all(info, &found[..found.partition_point(is_kept)], wanted.functions, is_late) }
}

/// # Safety
/// As [`look_through`].
unsafe fn hook_all(
    info: &libc::dl_phdr_info,
    found: &[Found],
    functions: &[AllocatorFunction],
    is_late: bool,
) -> Option<Stubs> {
    let first = found.first()?;
    let (mut patcher, none) =
        if is_late { (None, HookState::Late) } else { (Patcher::new(info, found.len()), HookState::Refused) };
    let mut states = [HookState::Refused; MOST_HOOKS];
    let mut last = (first.address.wrapping_sub(1), none);
    for (found, state) in found.iter().zip(&mut states) {
        if found.address == last.0 {
            *state = last.1;
            continue;
        }
        let function = &functions[found.function];
        if let Some(hook) = Hook::of(function) {
            *state = match patcher.as_mut().ok_or(none).and_then(|patcher| patcher.add(*found, hook)) {
                Ok(()) => HookState::Followed,
                Err(refused) => refused,
            };
            if function.is_inner != 0 {
                blocks::expect_inner();
            }
        }
        last = (found.address, *state);
    }
    // SAFETY: there is a patcher where it is not late.
    let stubs = patcher.and_then(|patcher| unsafe { patcher.finish() });
    let Some(thread) = thread::current() else { return stubs };
    let Some(_inside) = thread.enter() else { return stubs };
    let is_told = |number: usize| {
        let before = number.checked_sub(1).map(|before| &found[before]);
        // Exported functions are in both tables.
        before
            .is_some_and(|before| (before.function, before.address) == (found[number].function, found[number].address))
    };
    for (_, (found, state)) in found.iter().zip(states).enumerate().filter(|&(number, _)| !is_told(number)) {
        let state = if stubs.is_some() || state != HookState::Followed { state } else { HookState::Refused };
        let event = AllocatorEvent { function: found.function as u32, state: state as u32, address: found.address };
        thread.write(MessageKind::Allocator, &[bytes_of(&[event])]);
    }
    stubs
}

/// What a function does, if the number says so.
fn role(number: u32) -> Option<AllocatorRole> {
    use AllocatorRole::{Allocate, Free, Reset, Resize};
    [Allocate, Resize, Free, Reset].into_iter().find(|role| *role as u32 == number)
}
