//! Blocks as QEMU translates them: accesses of their instructions are described and asked for.
#![allow(unsafe_code)] // QEMU's functions, and what it calls

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io::{self, Write};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use slimline_trace::stream::record::{Header, SiteKind};
use slimline_trace::stream::translated::{START, STOP};

use crate::access::{
    Asked, Described, Kind, is_inline, object_loaded, on_access, on_access_elsewhere, on_start, on_stop,
};
use crate::allocators::Allocator;
use crate::code::Analyst;
use crate::descriptions::Descriptions;
use crate::exec;
use crate::heap;
use crate::qemu::{Block, Functions, Id, Info, OnAccess, OnInstruction, READS_AND_WRITES};

/// Without registers: nothing is asked of the program's state.
const NO_REGISTERS: c_int = 0;
/// They are looked at.
const READS_REGISTERS: c_int = 1;

unsafe extern "C" {
    /// [`heap::entered`] and [`heap::returned`], with what they need besides.
    fn slimline_on_entry(cpu: c_uint, allocator: *mut c_void);
    fn slimline_on_return(cpu: c_uint, kind: u32, address: u64, asked: *mut c_void);
}

static QEMU: OnceLock<Functions> = OnceLock::new();
/// From the program's addresses to those that it has in QEMU's process; known once a block is.
static GUEST_BASE: AtomicU64 = AtomicU64::new(0);
static TRANSLATION: Alone = Alone {
    is_taken: AtomicBool::new(false),
    translation: UnsafeCell::new(Translation {
        analyst: None,
        descriptions: None,
        is_inline: false,
        has_failed: false,
    }),
};

/// What is kept between blocks.
struct Translation {
    /// Made for the first block.
    analyst: Option<Analyst>,
    /// None until the first block is known, by which it is told where the program's addresses are.
    descriptions: Option<Descriptions>,
    /// What QEMU tells of accesses is where it is looked for.
    is_inline: bool,
    /// Nothing is traced any more.
    has_failed: bool,
}

/// What QEMU's functions say of an access.
pub(crate) fn ask(kind: u32) -> Kind {
    // SAFETY: any number may be asked for.
    let asked = QEMU.get().map(|qemu| unsafe { ((qemu.mem_is_store)(kind), (qemu.mem_size_shift)(kind)) });
    asked.map_or(Kind { is_store: false, size_shift: 0 }, |(is_store, shift)| Kind { is_store, size_shift: shift & 7 })
}

/// From the program's addresses to QEMU's, once any of its code has run.
pub(crate) fn guest_base() -> u64 {
    GUEST_BASE.load(Relaxed)
}

/// The header of what a call does that returns there; none where it can't be described.
pub(crate) fn call_site(return_address: u64, allocator: &'static Allocator, kind: SiteKind) -> Option<Header> {
    let mut header = None;
    TRANSLATION.with(|translation| {
        let Some(descriptions) = translation.descriptions.as_mut().filter(|_| !translation.has_failed) else { return };
        header = descriptions.call_site(return_address.wrapping_add(guest_base()), allocator, kind);
        if let Err(error) = descriptions.write() {
            translation.fail(&error);
            header = None;
        }
    });
    header
}

/// One line, as slimline says things. The program's own standard error is the same.
fn say(what: &str) {
    let _ = writeln!(io::stderr(), "slimline: {what}");
}

/// QEMU calls it when it has loaded the plugin; another number than 0 ends it.
#[unsafe(no_mangle)]
unsafe extern "C" fn qemu_plugin_install(id: Id, info: *const Info, _: c_int, _: *mut *mut c_char) -> c_int {
    // SAFETY: QEMU's own, as it declares them in all versions.
    let (target, is_system) = unsafe { (CStr::from_ptr((*info).target), (*info).is_system) };
    if is_system || target != c"x86_64" {
        say("the plugin is for qemu-x86_64, which runs programs");
        return 1;
    }
    let qemu = match Functions::look_up() {
        Ok(qemu) => *QEMU.get_or_init(|| qemu),
        Err(name) => {
            say(&format!("this QEMU has no {name}: wanted is 6.0 or later with plugins"));
            return 1;
        }
    };
    TRANSLATION.with(|translation| translation.is_inline = is_inline(ask));
    // SAFETY: plain functions of the plugin, which stays loaded.
    unsafe {
        libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child));
        (qemu.register_vcpu_init_cb)(id, on_cpu);
        (qemu.register_vcpu_syscall_cb)(id, on_system_call);
        (qemu.register_vcpu_tb_trans_cb)(id, on_block);
    }
    // Makes the ring: from here on the process is known.
    object_loaded(qemu_plugin_install as *const () as usize);
    0
}

/// A value that one thread at a time has, and nobody while the process forks: a lock of the standard library can't be given back by the
/// child.
struct Alone {
    is_taken: AtomicBool,
    translation: UnsafeCell<Translation>,
}
// SAFETY: whoever looks at the value has set `is_taken`.
unsafe impl Sync for Alone {}

impl Alone {
    fn take(&self) {
        while self.is_taken.swap(true, Acquire) {
            thread::yield_now();
        }
    }

    fn give_back(&self) {
        self.is_taken.store(false, Release);
    }

    fn with(&self, work: impl FnOnce(&mut Translation)) {
        self.take();
        // SAFETY: taken.
        work(unsafe { &mut *self.translation.get() });
        self.give_back();
    }
}

unsafe extern "C" fn before_fork() {
    TRANSLATION.take();
}

unsafe extern "C" fn after_fork() {
    TRANSLATION.give_back();
}

unsafe extern "C" fn in_child() {
    TRANSLATION.give_back();
    TRANSLATION.with(|translation| {
        if let Some(Err(error)) = translation.descriptions.as_mut().map(Descriptions::fork) {
            translation.fail(&error);
        }
    });
}

impl Translation {
    fn fail(&mut self, error: &io::Error) {
        if !self.has_failed {
            say(&format!("the process goes on untraced: what its code does can't be written down: {error}"));
        }
        self.has_failed = true;
    }

    /// Describes and asks for all accesses of a block.
    ///
    /// # Safety
    /// It is one that QEMU translates.
    unsafe fn block(&mut self, qemu: &Functions, block: *mut Block) {
        // SAFETY: promised by the caller.
        let instructions = unsafe { (qemu.tb_n_insns)(block) };
        for number in 0..instructions {
            // SAFETY: it has that many; QEMU keeps their bytes mapped meanwhile.
            let (instruction, place, bytes) = unsafe {
                let instruction = (qemu.tb_get_insn)(block, number);
                let place = (qemu.insn_haddr)(instruction);
                if place.is_null() {
                    continue;
                }
                (instruction, place, std::slice::from_raw_parts(place, (qemu.insn_size)(instruction)))
            };
            let said: Option<OnInstruction> = match bytes {
                _ if bytes == START => Some(on_start),
                _ if bytes == STOP => Some(on_stop),
                _ => None,
            };
            if let Some(said) = said {
                // SAFETY: an instruction of the block.
                unsafe { (qemu.register_vcpu_insn_exec_cb)(instruction, said, NO_REGISTERS, ptr::null_mut()) };
                continue;
            }
            // At the end of a page QEMU may show a part of an instruction, which does not run.
            let Some(accesses) = self.analyst.get_or_insert_default().accesses(bytes) else { continue };
            if self.descriptions.is_none() {
                // SAFETY: an instruction.
                let guest_base = (place as u64).wrapping_sub(unsafe { (qemu.insn_vaddr)(instruction) });
                GUEST_BASE.store(guest_base, Relaxed);
                match Descriptions::create(guest_base) {
                    Ok(made) => self.descriptions = Some(made),
                    Err(error) => return self.fail(&error),
                }
            }
            let Some(descriptions) = &mut self.descriptions else { return };
            // Functions begin where blocks do: registers are where they are looked for there only.
            if let Some(allocator) = (number == 0).then(|| descriptions.allocator_at(place as u64)).flatten() {
                let called: OnInstruction = slimline_on_entry;
                let allocator = std::ptr::from_ref(allocator).cast_mut().cast::<c_void>();
                // SAFETY: an instruction of the block; allocators are never freed.
                unsafe { (qemu.register_vcpu_insn_exec_cb)(instruction, called, READS_REGISTERS, allocator) };
            }
            let mut asked = Asked { is_atomic: accesses.is_atomic, ..Asked::default() };
            for (kind, bytes) in accesses.each() {
                let Some(header) = descriptions.segment(place as u64, kind, bytes) else { return };
                // An update is one access, whether QEMU tells it as one or as two.
                let told = if kind == SiteKind::Load { &mut asked.load } else { &mut asked.store };
                *told = Some(Described { header, bytes });
            }
            if asked.load.is_some() || asked.store.is_some() {
                let asked = std::ptr::from_mut(Box::leak(Box::new(asked))).cast::<c_void>();
                let (called, registers): (OnAccess, c_int) = match (accesses.is_return, self.is_inline) {
                    (true, _) => (slimline_on_return, READS_REGISTERS),
                    (false, true) => (on_access, NO_REGISTERS),
                    (false, false) => (on_access_elsewhere, NO_REGISTERS),
                };
                // SAFETY: an instruction of the block; what is asked for is never freed.
                unsafe { (qemu.register_vcpu_mem_cb)(instruction, called, registers, READS_AND_WRITES, asked) };
            }
        }
        if let Some(Err(error)) = self.descriptions.as_mut().map(Descriptions::write) {
            self.fail(&error);
        }
    }
}

unsafe extern "C" fn on_cpu(_: Id, cpu: c_uint) {
    heap::forget(cpu as usize);
}

unsafe extern "C" fn on_system_call(
    _: Id,
    _: c_uint,
    number: i64,
    first: u64,
    second: u64,
    third: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) {
    if number == exec::EXECVE {
        exec::goes_on(first, second, third);
    }
}

unsafe extern "C" fn on_block(_: Id, block: *mut Block) {
    let Some(qemu) = QEMU.get() else { return };
    TRANSLATION.with(|translation| {
        if !translation.has_failed {
            // SAFETY: QEMU hands it on.
            unsafe { translation.block(qemu, block) };
        }
    });
}
