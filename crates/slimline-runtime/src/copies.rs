//! One runtime for a process that has several copies of it.
//!
//! Where the dynamic linker sees the symbols it binds all objects to the first copy, and there is nothing to do here. It does not see
//! them where a version script or `--exclude-libs` hides them, nor where objects are opened by `dlopen` with scopes of their own. So
//! each copy has a note in its object, which leads to a [`RuntimeCopy`]. When an object is loaded, its copy looks through the notes of all:
//! the executable's is the process's one, else the first that was asked. All others hand everything on to that one, and their code
//! shares its gate and its threads' words: pages of gates are mapped twice, and where the words are is written beside the code, where the
//! dynamic linker puts it, if it knows. In an executable that is part of the code; therefore it comes first.
//!
//! All that is done while the constructors of an object run, before its code does.
#![allow(unsafe_code)] // tables of the dynamic linker, and other copies of the runtime

use core::arch::global_asm;
use core::ffi::{c_int, c_void};
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::children::Children;
use crate::entry::{__slimline_gate, cursor_offset, state_offset};
use crate::gate::Gate;
use crate::{dynamic_blocks, handlers, kernel, lock_calls, process, thread, words};

/// What others are to know of a copy. Of this version they know its parts.
#[repr(C)]
pub(crate) struct RuntimeCopy {
    pub(crate) gate: &'static Gate,
    /// Of the cursor that its code uses, from the thread pointer.
    cursor_offset: extern "C" fn() -> usize,
    /// The same of the address of a thread's state.
    state_offset: extern "C" fn() -> usize,
    pub(crate) next_chunk: extern "C" fn(usize) -> usize,
    pub(crate) note: unsafe extern "C" fn(*const u64, usize, u32),
    pub(crate) pause: extern "C" fn(bool),
    pub(crate) object_loaded: extern "C" fn(usize),
    pub(crate) sigaction: unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int,
    pub(crate) signal: extern "C" fn(c_int, usize) -> usize,
    pub(crate) mapped: extern "C" fn(usize, usize),
    pub(crate) has_shared: extern "C" fn(usize, usize) -> bool,
    pub(crate) children: Children,
    pub(crate) lock_all: extern "C" fn(c_int) -> c_int,
    pub(crate) unlock_all: extern "C" fn() -> c_int,
    add: extern "C" fn(&'static RuntimeCopy),
    /// The process's one, once it is known; itself, where it is that.
    first: AtomicPtr<RuntimeCopy>,
    /// Of the list that begins in the first: the next one that shares its gate.
    next: AtomicPtr<RuntimeCopy>,
}

/// Changes with [`RuntimeCopy`], with what a ring is and with what the functions there are asked for. Copies of others stay alone.
const VERSION: u32 = 6;

static COPY: RuntimeCopy = RuntimeCopy {
    gate: &__slimline_gate,
    cursor_offset,
    state_offset,
    next_chunk: thread::next_chunk,
    note: thread::note,
    pause: thread::pause,
    object_loaded: process::object_loaded,
    sigaction: handlers::sigaction,
    signal: handlers::signal,
    mapped: process::mapped,
    has_shared: process::has_shared,
    children: Children::OURS,
    lock_all: lock_calls::lock_all,
    unlock_all: lock_calls::unlock_all,
    add,
    first: AtomicPtr::new(ptr::null_mut()),
    next: AtomicPtr::new(ptr::null_mut()),
};

global_asm!(
    ".pushsection .note.slimline, \"a\", @note",
    ".p2align 2",
    ".long {name_bytes}",
    ".long 4",
    ".long {version}",
    ".asciz \"slimline\"",
    ".p2align 2",
    // From here to there.
    ".long {copy} - .",
    ".popsection",
    name_bytes = const NAME.len(),
    version = const VERSION,
    copy = sym COPY,
);

const NAME: &[u8] = b"slimline\0";

/// The copy that everything is handed on to; none where it is this one.
pub(crate) fn other() -> Option<&'static RuntimeCopy> {
    let first = COPY.first.load(Acquire);
    // SAFETY: null, or a static of an object that is never unloaded.
    if ptr::eq(first, &COPY) { None } else { unsafe { first.as_ref() } }
}

/// The gates of the other copies, which are to be as this one's.
pub(crate) fn other_gates() -> impl Iterator<Item = &'static Gate> {
    let mut at = &COPY;
    core::iter::from_fn(move || {
        // SAFETY: as in `other`.
        at = unsafe { at.next.load(Acquire).as_ref() }?;
        Some(at.gate)
    })
}

/// Called for each object with instrumented code, the one around `inside`, while it is loaded: finds the process's copy, and has
/// the object's code use what is its.
pub(crate) fn share(inside: usize) {
    if COPY.first.load(Relaxed).is_null() {
        let mut found = Found { executables: ptr::null(), first: ptr::null() };
        each_object(&mut |object| {
            let Some(copy) = object.copy() else { return };
            if object.is_executable() {
                found.executables = copy;
            }
            // SAFETY: a note of this version leads to one.
            let first = unsafe { (*copy).first.load(Acquire) };
            if ptr::eq(first, copy) {
                found.first = copy;
            }
        });
        let first = [found.executables, found.first].into_iter().find(|copy| !copy.is_null());
        let first = first.unwrap_or(&raw const COPY);
        COPY.first.store(first.cast_mut(), Release);
        if let Some(first) = other().filter(|first| !ptr::eq(first.gate, COPY.gate)) {
            (first.add)(&COPY);
        }
    }
    let known =
        other().map_or([cursor_offset(), state_offset()], |first| [(first.cursor_offset)(), (first.state_offset)()]);
    let offsets = if known.contains(&0) && other().is_none() { words::of_keys() } else { Some(known) };
    let Some(offsets) = offsets.filter(|offsets| !offsets.contains(&0)) else { return };
    each_object(&mut |object| {
        // Also those that are loaded with it: code of theirs may be called before their own constructors are, and runs by this copy's gate.
        if object.holds(inside) || object.copy().is_some() {
            let [cursor, state] = offsets;
            object.tell(&[R_X86_64_TPOFF64], &[(b"__slimline_cursor\0", cursor), (b"__slimline_thread\0", state)]);
        }
    });
}

/// Has the code of the object around `inside`, which is being loaded, ask us where its thread-local variables are, if the dynamic linker makes
/// blocks of those for one thread at a time.
pub(crate) fn follow_blocks(inside: usize) {
    let (mut is_there, mut is_known) = (false, false);
    each_object(&mut |object| {
        is_there |= object.module != 0 && object.holds(inside);
        is_known |= object.block != 0 && dynamic_blocks::block_of(object.module) == Some(object.block);
    });
    if !is_there || !is_known {
        return;
    }
    each_object(&mut |object| {
        if object.holds(inside)
            && let Some(function) = dynamic_blocks::instead_of_linker(object.module, object.base)
        {
            object.tell(&[R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT], &[(b"__tls_get_addr\0", function)]);
            // Code of it was called before it was initialized.
            if object.block != 0 {
                dynamic_blocks::tell(object.module, object.block);
            }
        }
    });
}

struct Found {
    executables: *const RuntimeCopy,
    first: *const RuntimeCopy,
}

/// In the process's copy: another one's gate is to be as its own.
extern "C" fn add(copy: &'static RuntimeCopy) {
    let _signals = kernel::Signals::block();
    process::share_gate(copy.gate);
    copy.next.store(COPY.next.load(Relaxed), Relaxed);
    COPY.next.store(ptr::from_ref(copy).cast_mut(), Release);
}

/// How far below a thread's pointer its block of the object's thread-local variables begins, of the object around `inside`, which is
/// being loaded: the same for all threads where the dynamic linker has put all objects' blocks beside each other. 0 where there is
/// none, or it lies elsewhere.
pub(crate) fn block_below(inside: usize) -> usize {
    let mut below = 0;
    each_object(&mut |object| {
        if object.block != 0 && object.holds(inside) {
            below = kernel::thread_pointer().wrapping_sub(object.block);
        }
    });
    // What is made for a thread when it asks for it comes of its heap.
    if below <= MOST_BELOW { below } else { 0 }
}

/// More than all objects' blocks have that are there from the start.
const MOST_BELOW: usize = 64 << 20;

/// A loaded object, as the dynamic linker tells of it.
struct Object<'a> {
    base: usize,
    /// The dynamic linker's number of it among those with thread-local variables; 0: it has none.
    module: usize,
    /// The calling thread's block of its thread-local variables; 0: none, or none yet.
    block: usize,
    headers: &'a [libc::Elf64_Phdr],
}

fn each_object(look: &mut dyn FnMut(&Object)) {
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, look: *mut c_void) -> c_int {
        // SAFETY: the C library's, and what was given to it below.
        unsafe {
            let look: &mut &mut dyn FnMut(&Object) = &mut *look.cast();
            let info = &*info;
            if !info.dlpi_phdr.is_null() {
                let headers = core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
                look(&Object {
                    base: info.dlpi_addr as usize,
                    module: info.dlpi_tls_modid,
                    block: info.dlpi_tls_data.addr(),
                    headers,
                });
            }
        }
        0
    }
    let mut look = look;
    // SAFETY: `look` lives on while it runs.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut look).cast()) };
}

impl Object<'_> {
    /// Where the parts of a kind are in memory, and their bytes.
    fn parts(&self, kind: u32) -> impl Iterator<Item = (usize, usize)> {
        let of_kind = self.headers.iter().filter(move |header| header.p_type == kind);
        of_kind.map(|header| (self.base.wrapping_add(header.p_vaddr as usize), header.p_memsz as usize))
    }

    fn holds(&self, address: usize) -> bool {
        self.parts(libc::PT_LOAD).any(|(start, bytes)| address.wrapping_sub(start) < bytes)
    }

    fn is_executable(&self) -> bool {
        // SAFETY: a look into the auxiliary vector.
        self.headers.as_ptr().addr() == unsafe { libc::getauxval(libc::AT_PHDR) } as usize
    }

    /// What its note leads to.
    fn copy(&self) -> Option<*const RuntimeCopy> {
        self.parts(libc::PT_NOTE).find_map(|(start, bytes)| {
            let end = start + bytes;
            let mut at = start;
            while at + NOTE_BYTES <= end {
                // SAFETY: inside of a part of the object that is mapped to be read, aligned as notes are.
                let word = |offset: usize| unsafe { ((at + offset) as *const u32).read_unaligned() };
                let (name, content) = (word(0) as usize, word(4) as usize);
                // SAFETY: as above: a name as long as ours fits.
                let byte = |offset: usize| unsafe { *((at + 12 + offset) as *const u8) };
                if name == NAME.len() && word(8) == VERSION && NAME.iter().zip(0..).all(|(&it, at)| byte(at) == it) {
                    let place = at + NOTE_BYTES - 4;
                    return Some(place.wrapping_add_signed(word(NOTE_BYTES - 4) as i32 as isize) as *const RuntimeCopy);
                }
                at += 12 + name.next_multiple_of(4) + content.next_multiple_of(4);
            }
            None
        })
    }

    /// Has its code find these words where relocations of one of these kinds are by these names.
    fn tell(&self, kinds: &[u32], told: &[(&[u8], usize)]) {
        let Some((dynamic, bytes)) = self.parts(PT_DYNAMIC).next() else { return };
        let entries = dynamic as *const [usize; 2];
        // SAFETY: the object's own table, in which the dynamic linker reads up to the same end.
        let entry = |at: usize| unsafe { *entries.add(at) };
        let of = |tag: usize| (0..bytes / 16).map(entry).take_while(|[tag, _]| *tag != 0).find(|[it, _]| *it == tag);
        // The C library writes addresses there where it may.
        let address = |table: usize| if self.holds(table) { table } else { self.base.wrapping_add(table) };
        let (Some([_, symbols]), Some([_, strings])) = (of(DT_SYMTAB), of(DT_STRTAB)) else { return };
        for (table, size) in [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)] {
            let (Some([_, table]), Some([_, size])) = (of(table), of(size)) else { continue };
            for at in 0..size / size_of::<Relocation>() {
                // SAFETY: as above.
                let relocation = unsafe { &*(address(table) as *const Relocation).add(at) };
                if !kinds.contains(&(relocation.kind as u32)) {
                    continue;
                }
                let symbol = (relocation.kind >> 32) as usize;
                // SAFETY: a relocation's symbol is in the object's table, and begins with where its name is.
                let name = unsafe { *(address(symbols) as *const [u32; SYMBOL_WORDS]).add(symbol) }[0];
                let name = address(strings) + name as usize;
                // SAFETY: a name ends with 0, and so do ours: the first byte that differs is inside.
                let is = |(at, byte): (usize, &u8)| unsafe { *((name + at) as *const u8) == *byte };
                if let Some((_, word)) = told.iter().find(|(known, _)| known.iter().enumerate().all(is)) {
                    self.write(self.base.wrapping_add(relocation.offset), *word);
                }
            }
        }
    }

    /// Writes where the dynamic linker has written before, or has found nothing to write.
    fn write(&self, place: usize, word: usize) {
        let slot = place as *mut usize;
        // SAFETY: a place that the dynamic linker relocates, of code that does not run yet.
        unsafe {
            if slot.read_volatile() == word {
                return;
            }
            let is_read_only = self.parts(libc::PT_GNU_RELRO).any(|(start, bytes)| place.wrapping_sub(start) < bytes);
            if is_read_only && !kernel::protect(place, true) {
                return;
            }
            slot.write_volatile(word);
            if is_read_only {
                kernel::protect(place, false);
            }
        }
    }
}

/// Three words, the name, and how far it is.
const NOTE_BYTES: usize = 12 + NAME.len().next_multiple_of(4) + 4;
const PT_DYNAMIC: u32 = 2;
const DT_PLTRELSZ: usize = 2;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_RELA: usize = 7;
const DT_RELASZ: usize = 8;
const DT_JMPREL: usize = 23;
const R_X86_64_GLOB_DAT: u32 = 6;
const R_X86_64_JUMP_SLOT: u32 = 7;
const R_X86_64_TPOFF64: u32 = 18;

/// Of a symbol.
const SYMBOL_WORDS: usize = 6;

#[repr(C)]
struct Relocation {
    offset: usize,
    kind: u64,
    addend: i64,
}

const _: () = assert!(offset_of!(Relocation, addend) == 16);
