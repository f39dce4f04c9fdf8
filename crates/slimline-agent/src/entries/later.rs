//! Objects that are loaded later (`dlopen`): the dynamic linker calls a function of its own whenever its list of objects
//! has changed, which does nothing and is there for debuggers (`_r_debug.r_brk`). A jump to [`changed`] takes its place.
//!
//! It is called after an object was mapped and before its initialization, for the first object before and for those that it
//! needs, by the C library's version, after relocation: so nobody runs the code that is changed. Interposing `dlopen` would
//! not do: it looks at who calls it. Signals are blocked meanwhile: their handlers might run what is being changed, or load
//! something themselves. Some calls can't be met: those by a signal handler that interrupted the agent, and by a
//! `vfork` child, which shares our memory. That is told, until the next call finds what was loaded then: threads may be
//! running it, so all that is new is told by name, and left as it is.
#![allow(unsafe_code)] // reads the dynamic linker's structures, and loaded code

use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use slimline_emulate::relocate::{ENDBR64, JUMP_BYTES};
use slimline_trace::wire::NotLookedThrough;

use super::patch::{Jump, Stubs};
use super::{Wanted, has_looked_through, look_through, tell_not_looked_through};
use crate::{hooks, kernel, process, resolve, thread, unwind};

/// Objects that are known at one time; those beyond are not looked through, which is told.
const MOST_OBJECTS: usize = 2048;

/// An object that was looked through.
#[derive(Clone, Copy)]
struct Known {
    /// Address of its program headers: no two objects that are loaded have the same.
    headers: u64,
    stubs: Option<Stubs>,
    is_loaded: bool,
}

/// All that are known.
struct Registry {
    wanted: Wanted<'static>,
    /// Objects that were ever loaded and unloaded when the list was looked through.
    changes: [u64; 2],
    objects: [Known; MOST_OBJECTS],
    count: usize,
}

/// The registry, and who may be at it. In memory of its own.
struct Kept {
    registry: UnsafeCell<Registry>,
    /// Somebody is. The dynamic linker's lock keeps other threads away, and signals are blocked; in a forked child it is what
    /// another thread had begun.
    is_taken: AtomicBool,
    /// The list has changed and nobody looked.
    is_missed: AtomicBool,
    /// What the dynamic linker says of itself; null where it says nothing.
    linker: AtomicPtr<LinkerState>,
}
// SAFETY: `registry` is used by who took it.
unsafe impl Sync for Kept {}

static KEPT: AtomicPtr<Kept> = AtomicPtr::new(null_mut());

/// Looks through all objects that are loaded, and from now on through those that will be. `is_alone`: there is one thread.
pub(super) fn begin(wanted: Wanted<'static>, is_alone: bool) {
    let Some(memory) = kernel::map(size_of::<Kept>()) else {
        return tell_not_looked_through(NotLookedThrough::Any);
    };
    let kept = memory.cast::<Kept>().as_ptr();
    // SAFETY: fresh zeros, ours alone; the field that zeros say nothing of is written first.
    let kept = unsafe {
        (&raw mut (*(*kept).registry.get()).wanted).write(wanted);
        &*kept
    };
    kept.is_missed.store(!is_alone, Relaxed);
    let _signals = kernel::Signals::block();
    // SAFETY: signals are blocked, and where other threads run what is loaded, that was noted as missed.
    unsafe { kept.look() };
    let linker = linker_state();
    kept.linker.store(linker, Relaxed);
    KEPT.store(core::ptr::from_ref(kept).cast_mut(), Release);
    // SAFETY: there is no other thread that could be in the linker, and signals are blocked; what the symbol says.
    if !is_alone || linker.is_null() || !unsafe { redirect_debug_function((*linker).debug_function) } {
        KEPT.store(null_mut(), Release);
        tell_not_looked_through(NotLookedThrough::LoadedLater);
    }
}

/// In a forked child: the thread that was at the registry is no more, and what it was doing may be half done.
pub(super) fn forget() {
    // SAFETY: null, or made by `begin`, and never given back.
    if let Some(kept) = unsafe { KEPT.load(Acquire).as_ref() }
        && kept.is_taken.load(Relaxed)
    {
        KEPT.store(null_mut(), Release);
        tell_not_looked_through(NotLookedThrough::LoadedLater);
    }
}

impl Kept {
    /// Looks at what has changed; where somebody is at it already, the next look knows that it comes late.
    ///
    /// # Safety
    /// The calling thread's signals must be blocked. Unless a change was missed before, no other thread may run what has been
    /// loaded since the last look, nor load anything meanwhile.
    unsafe fn look(&self) {
        if self.is_taken.swap(true, Acquire) {
            return self.miss();
        }
        let is_late = self.is_missed.swap(false, Relaxed);
        if is_late {
            has_looked_through(NotLookedThrough::Unseen);
        }
        // SAFETY: taken, so nobody else has the registry; the rest is the caller's promise, and `is_late` says where it has no
        // second half.
        unsafe { (*self.registry.get()).look(is_late) };
        self.is_taken.store(false, Release);
    }

    /// Nobody looks at what changes now. Async-signal-safe.
    fn miss(&self) {
        self.is_missed.store(true, Relaxed);
        // SAFETY: null, or the linker's own structure, which lives as long as the process.
        let state = unsafe { self.linker.load(Relaxed).as_ref() }.map(|linker| linker.state.load(Relaxed));
        if state == Some(LINKER_ADDS) {
            tell_not_looked_through(NotLookedThrough::Unseen);
        }
    }
}

impl Registry {
    /// Looks through the objects that are new, and gives up what belonged to those that are gone. New ones may run already
    /// where it `is_late`.
    ///
    /// # Safety
    /// The calling thread's signals must be blocked. Unless it `is_late`, no other thread may run what has been loaded since the
    /// last look, nor load anything meanwhile.
    unsafe fn look(&mut self, is_late: bool) {
        let mut is_first = true;
        let mut is_changed = false;
        unwind::each_object(&mut |info| {
            let is_program = core::mem::take(&mut is_first);
            if is_program {
                let changes = [info.dlpi_adds, info.dlpi_subs];
                is_changed = changes != self.changes;
                self.changes = changes;
                if is_changed {
                    self.objects[..self.count].iter_mut().for_each(|known| known.is_loaded = false);
                }
            }
            if is_changed {
                // SAFETY: promised by the caller.
                unsafe { self.meet(info, is_program, is_late) };
            }
            !is_changed
        });
        if is_changed {
            self.forget_those_that_are_gone();
        }
    }

    /// # Safety
    /// As [`Self::look`].
    unsafe fn meet(&mut self, info: &libc::dl_phdr_info, is_program: bool, is_late: bool) {
        let headers = info.dlpi_phdr as u64;
        if let Some(known) = self.objects[..self.count].iter_mut().find(|known| known.headers == headers) {
            known.is_loaded = true;
        } else if let Some(place) = self.objects.get_mut(self.count) {
            // SAFETY: where it is late, nothing is changed. Where it is not, all that was loaded before was met when it came, and
            // this is new: no other thread runs it, as the caller promised, and no handler comes, as signals are blocked.
            let stubs = unsafe { look_through(info, is_program, &self.wanted, is_late) };
            *place = Known { headers, stubs, is_loaded: true };
            self.count += 1;
        } else {
            tell_not_looked_through(NotLookedThrough::BeyondMost);
        }
    }

    fn forget_those_that_are_gone(&mut self) {
        let mut kept = 0;
        for number in 0..self.count {
            let known = self.objects[number];
            if known.is_loaded {
                self.objects[kept] = known;
                kept += 1;
            } else if let Some(stubs) = known.stubs {
                // SAFETY: only the object's own functions led there, which went with it: whoever runs one of them would have nothing
                // to return to either.
                unsafe { stubs.unmap() };
            }
        }
        self.count = kept;
    }
}

/// The dynamic linker's list of objects has changed, or is about to.
extern "C" fn changed() {
    // SAFETY: null, or made by `begin`, and never given back.
    let Some(kept) = (unsafe { KEPT.load(Acquire).as_ref() }) else { return };
    let is_outside = || thread::current().is_some_and(|thread| thread.enter().is_some());
    if !hooks::is_recording() {
        kept.is_missed.store(true, Relaxed);
    } else if process::is_ours() && is_outside() {
        let _signals = kernel::Signals::block();
        // SAFETY: blocked. The linker calls this under its lock, which keeps other threads from loading, and before it hands
        // anybody what is new; where a call was not followed by a look, that was noted as missed.
        unsafe { kept.look() };
    } else {
        kept.miss();
    }
}

/// `struct r_debug` of `link.h`.
#[repr(C)]
struct LinkerState {
    version: i32,
    objects: u64,
    debug_function: u64,
    /// What is done to the list of objects.
    state: AtomicU32,
}

/// `RT_ADD`: something is being loaded.
const LINKER_ADDS: u32 = 1;

/// Null where it has no such symbol, which has this type everywhere.
fn linker_state() -> *mut LinkerState {
    resolve::first(c"_r_debug").map_or(null_mut(), |found| found.address.cast_mut().cast())
}

/// False where the function is not what it always was.
///
/// # Safety
/// It must be the linker's, no other thread may be in the dynamic linker, and signals must be blocked.
unsafe fn redirect_debug_function(function: u64) -> bool {
    if function == 0 {
        return false;
    }
    // SAFETY: a function of the dynamic linker's is followed by others, or by its table of unwinding.
    let code = unsafe { core::slice::from_raw_parts(function as *const u8, 32) };
    let Some(offset) = room_of_nothing(code) else { return false };
    let jump = Jump::new(function + offset as u64, changed as *const () as u64);
    // SAFETY: promised by the caller; we may come from that page, and are not in it.
    jump.is_some_and(|jump| unsafe { jump.write() })
}

/// Where in a function that only returns there is room for a jump: behind its `endbr64`. None where it does anything, or
/// something else follows at once.
fn room_of_nothing(code: &[u8]) -> Option<usize> {
    let offset = if code.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 };
    let mut rest = Decoder::new(64, &code[offset..], DecoderOptions::NONE);
    if rest.decode().mnemonic() != Mnemonic::Ret {
        return None;
    }
    while rest.position() < JUMP_BYTES {
        if !matches!(rest.decode().mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
            return None;
        }
    }
    Some(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> &'static Kept {
        let kept = kernel::map(size_of::<Kept>()).unwrap().cast::<Kept>().as_ptr();
        // SAFETY: as in `begin`.
        unsafe {
            (&raw mut (*(*kept).registry.get()).wanted).write(Wanted::new(&[]));
            &*kept
        }
    }

    fn look(kept: &Kept) {
        let _signals = kernel::Signals::block();
        // SAFETY: blocked; functions that are looked for there are none.
        unsafe { kept.look() };
    }

    fn is_told(why: NotLookedThrough) -> bool {
        super::super::not_looked_through() & why as u64 != 0
    }

    /// Who finds it taken leaves it alone; what is loaded then is told until somebody looks.
    #[test]
    fn what_is_missed_is_told_until_the_next_look() {
        let kept = kept();
        let mut linker = LinkerState { version: 1, objects: 0, debug_function: 0, state: AtomicU32::new(0) };
        kept.linker.store(&raw mut linker, Relaxed);
        kept.is_taken.store(true, Relaxed);
        look(kept);
        // SAFETY: nobody else knows it.
        let count = || unsafe { (*kept.registry.get()).count };
        assert_eq!((count(), kept.is_missed.load(Relaxed)), (0, true));
        assert!(!is_told(NotLookedThrough::Unseen), "nothing came");
        linker.state.store(LINKER_ADDS, Relaxed);
        look(kept);
        assert!(count() == 0 && is_told(NotLookedThrough::Unseen));
        kept.is_taken.store(false, Relaxed);
        look(kept);
        assert!(count() > 1 && !kept.is_missed.load(Relaxed) && !kept.is_taken.load(Relaxed));
        assert!(!is_told(NotLookedThrough::Unseen));
    }

    #[test]
    fn objects_beyond_the_most_are_told_of() {
        let kept = kept();
        // SAFETY: nobody else knows it; zeros are objects that were unloaded.
        unsafe { (*kept.registry.get()).count = MOST_OBJECTS - 1 };
        assert!(!is_told(NotLookedThrough::BeyondMost));
        look(kept);
        assert!(is_told(NotLookedThrough::BeyondMost));
        // SAFETY: as above. The others were never loaded.
        assert_eq!(unsafe { (*kept.registry.get()).count }, 1);
    }

    #[test]
    fn a_function_that_does_nothing_has_room_in_what_pads_it() {
        let padded = [0xc3, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x55];
        assert_eq!(room_of_nothing(&padded), Some(0));
        // endbr64 ; ret ; nopw
        let marked = [0xf3, 0x0f, 0x1e, 0xfa, 0xc3, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
        assert_eq!(room_of_nothing(&marked), Some(4));
        assert_eq!(room_of_nothing(&[0xc3, 0xcc, 0xcc, 0xcc, 0xcc, 0x55]), Some(0));
        // Another function three bytes behind; one that does something; a breakpoint of a debugger's.
        assert_eq!(room_of_nothing(&[0xc3, 0x0f, 0x1f, 0x00, 0x55, 0x48, 0x89, 0xe5]), None);
        assert_eq!(room_of_nothing(&[0x31, 0xc0, 0xc3, 0x90, 0x90, 0x90]), None);
        assert_eq!(room_of_nothing(&[0xcc, 0x90, 0x90, 0x90, 0x90, 0x90]), None);
        assert_eq!(room_of_nothing(&[]), None);
    }
}
