//! Objects that are loaded later (`dlopen`): the dynamic linker calls a function of its own whenever its list of objects
//! has changed, which does nothing and is there for debuggers (`_r_debug.r_brk`). A jump to [`changed`] takes its place.
//!
//! It is called after an object was mapped and before anything of it was relocated or run, so nobody runs the code that
//! is changed. Interposing `dlopen` would not do: it looks at who calls it.
//!
//! What is here is used with the dynamic linker's lock held, or before there is a second thread.
#![allow(unsafe_code)] // reads the dynamic linker's structures, and loaded code

use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Release};

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use slimline_emulate::relocate::{ENDBR64, JUMP_BYTES};

use super::patch::{Jump, Stubs};
use super::{Wanted, look_through};
use crate::{hooks, kernel, process, thread, unwind};

/// Objects that are known at one time; those beyond are not looked through.
const MOST_OBJECTS: usize = 2048;

/// An object that was looked through.
#[derive(Clone, Copy)]
struct Known {
    /// Address of its program headers: no two objects that are loaded have the same.
    headers: u64,
    stubs: Option<Stubs>,
    is_loaded: bool,
}

/// All that are known. In memory of its own.
pub(super) struct Registry {
    wanted: Wanted<'static>,
    /// Objects that were ever loaded and unloaded when the list was looked through.
    changes: [u64; 2],
    objects: [Known; MOST_OBJECTS],
    count: usize,
}

static REGISTRY: AtomicPtr<UnsafeCell<Registry>> = AtomicPtr::new(null_mut());

/// Looks through all objects that are loaded, and from now on through those that will be.
pub(super) fn begin(wanted: Wanted<'static>) {
    let Some(memory) = kernel::map(size_of::<UnsafeCell<Registry>>()) else { return };
    let registry = memory.cast::<UnsafeCell<Registry>>().as_ptr();
    // SAFETY: fresh zeros, ours alone; the fields that zeros say nothing of are written first.
    unsafe {
        let registry = (*registry).get();
        (&raw mut (*registry).wanted).write(wanted);
        (*registry).look();
    }
    REGISTRY.store(registry, Release);
    redirect_debug_function();
}

impl Registry {
    /// Looks through the objects that are new, and gives up what belonged to those that are gone.
    fn look(&mut self) {
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
                self.meet(info, is_program);
            }
            !is_changed
        });
        if is_changed {
            self.forget_those_that_are_gone();
        }
    }

    fn meet(&mut self, info: &libc::dl_phdr_info, is_program: bool) {
        let headers = info.dlpi_phdr as u64;
        if let Some(known) = self.objects[..self.count].iter_mut().find(|known| known.headers == headers) {
            known.is_loaded = true;
        } else if let Some(place) = self.objects.get_mut(self.count) {
            let stubs = look_through(info, is_program, &self.wanted);
            *place = Known { headers, stubs, is_loaded: true };
            self.count += 1;
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
                // SAFETY: only the object's own functions led there.
                unsafe { stubs.unmap() };
            }
        }
        self.count = kept;
    }
}

/// The dynamic linker's list of objects has changed, or is about to.
extern "C" fn changed() {
    let registry = REGISTRY.load(Acquire);
    if registry.is_null() || !hooks::is_recording() || !process::is_ours() {
        return;
    }
    // A signal handler that loads something while this thread is in the middle of the agent is not met: the next change is.
    if thread::current().is_none_or(|thread| thread.enter().is_none()) {
        return;
    }
    // SAFETY: the dynamic linker's lock is held by this thread, which was not in here already: nothing below loads objects.
    unsafe { (*(*registry).get()).look() };
}

/// `struct r_debug` of `link.h`.
#[repr(C)]
struct LinkerState {
    version: i32,
    objects: u64,
    debug_function: u64,
}

/// False where the function is not what it always was.
fn redirect_debug_function() -> bool {
    // SAFETY: a NUL-terminated name.
    let state = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_r_debug".as_ptr()) }.cast::<LinkerState>();
    if state.is_null() {
        return false;
    }
    // SAFETY: the symbol of this name has this type.
    let function = unsafe { (*state).debug_function };
    if function == 0 {
        return false;
    }
    // SAFETY: a function of the dynamic linker's is followed by others, or by its table of unwinding.
    let code = unsafe { core::slice::from_raw_parts(function as *const u8, 32) };
    let Some(offset) = room_of_nothing(code) else { return false };
    Jump::new(function + offset as u64, changed as *const () as u64).is_some_and(|jump| jump.write())
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
