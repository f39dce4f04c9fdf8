//! Blocks as QEMU translates them: accesses of their instructions are described and asked for.
#![allow(unsafe_code)] // QEMU's functions, and what it calls

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::thread;

use slimline_trace::stream::record::{Header, SiteKind, ValueKind};
use slimline_trace::stream::translated::{NOTE, START, STOP};

use crate::access::{
    Asked, Kind, Told, is_inline, object_loaded, on_access, on_access_elsewhere, on_note, on_one, on_start, on_stop,
};
use crate::allocators::Allocator;
use crate::code::{Analyst, Extended};
use crate::code_file::count;
use crate::descriptions::Descriptions;
use crate::exec;
use crate::extended;
use crate::heap;
use crate::qemu::{Block, Functions, Id, Info, Instruction, OnAccess, OnInstruction, READS_AND_WRITES};
use crate::records::{Planned, Planner};
use crate::values;

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
        known: None,
        descriptions: None,
        extended: None,
        is_inline: false,
        has_values: false,
        has_failed: false,
    }),
};

/// What is kept between blocks.
struct Translation {
    /// Made for the first block.
    analyst: Option<Analyst>,
    /// What was asked for at blocks, by where they are and a hash of their bytes: they may come again, as do all when a thread begins.
    known: Option<HashMap<(u64, u64), Arc<[Call]>>>,
    /// None until the first block is known, by which it is told where the program's addresses are.
    descriptions: Option<Descriptions>,
    /// Where instructions are whose accesses not all versions of QEMU tell, and their sorts.
    extended: Option<HashMap<u64, Extended>>,
    /// What QEMU tells of accesses is where it is looked for.
    is_inline: bool,
    /// Values are told.
    has_values: bool,
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
    describe(|descriptions| descriptions.call_site(return_address.wrapping_add(guest_base()), allocator, kind))
}

/// The header of a record that an access begins by itself, with a value or without; none where it can't be described.
pub(crate) fn alone(told: &Told, value: Option<ValueKind>) -> Option<Header> {
    let (kind, bytes, relative) = (told.kind, told.bytes, None);
    let planned = Planned { instruction: 0, kind, bytes, begins: true, relative, value, is_only: true, is_asked: true };
    describe(|descriptions| descriptions.site(told.place, &planned, false))
}

/// Describes something beside what a block is made of.
fn describe(what: impl FnOnce(&mut Descriptions) -> Option<Header>) -> Option<Header> {
    let mut header = None;
    TRANSLATION.with(|translation| {
        let Some(descriptions) = translation.descriptions.as_mut().filter(|_| !translation.has_failed) else { return };
        header = what(descriptions);
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
    TRANSLATION.with(|translation| {
        (translation.is_inline, translation.has_values) = (is_inline(ask), values::are_wanted());
    });
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
        // It runs them in the code that its parent had translated.
        for of in translation.extended.iter().flat_map(HashMap::values) {
            count(extended::counters(*of)[0]);
        }
    });
}

impl Translation {
    fn fail(&mut self, error: &io::Error) {
        // Where the directory is gone, slimline is: nobody reads this any more.
        if !self.has_failed && error.kind() != io::ErrorKind::NotFound {
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
        let shown = unsafe { shown(qemu, block) };
        let Some(first) = shown.first() else { return };
        if self.descriptions.is_none() {
            let guest_base = first.place.wrapping_sub(first.address);
            GUEST_BASE.store(guest_base, Relaxed);
            match Descriptions::create(guest_base) {
                Ok(made) => self.descriptions = Some(made),
                Err(error) => return self.fail(&error),
            }
            if let Err(error) = if self.has_values { values::prepare() } else { Ok(()) } {
                say(&format!("values are not told: {error}"));
                self.has_values = false;
            }
        }
        let Some(descriptions) = &mut self.descriptions else { return };
        // Functions begin where blocks do: registers are where they are looked for there only.
        if let Some(allocator) = descriptions.allocator_at(first.place) {
            let called: OnInstruction = slimline_on_entry;
            let allocator = ptr::from_ref(allocator).cast_mut().cast::<c_void>();
            // SAFETY: an instruction of the block; allocators are never freed.
            unsafe { (qemu.register_vcpu_insn_exec_cb)(first.instruction, called, READS_REGISTERS, allocator) };
        }
        for it in &shown {
            if let Some(said) = it.said() {
                // SAFETY: an instruction of the block.
                unsafe { (qemu.register_vcpu_insn_exec_cb)(it.instruction, said, NO_REGISTERS, ptr::null_mut()) };
            }
        }
        for pair in shown.windows(2).filter(|pair| pair[0].bytes == NOTE) {
            let (instruction, nothing) = (pair[1].instruction, ptr::null_mut());
            // SAFETY: likewise.
            unsafe { (qemu.register_vcpu_mem_cb)(instruction, on_note, NO_REGISTERS, READS_AND_WRITES, nothing) };
        }
        let mut hasher = DefaultHasher::new();
        shown.iter().for_each(|it| it.bytes.hash(&mut hasher));
        let key = (first.place, hasher.finish());
        let calls = match self.known.get_or_insert_default().get(&key) {
            Some(known) => Arc::clone(known),
            None => {
                let Some(calls) = self.plan(&shown) else {
                    return self.fail(&io::Error::other("it has more places than a trace tells apart"));
                };
                self.known.get_or_insert_default().insert(key, Arc::clone(&calls));
                calls
            }
        };
        for &Call { number, called, registers, asked, extended } in calls.iter() {
            let instruction = shown[number].instruction;
            // SAFETY: an instruction of the block; what is asked for is never freed.
            unsafe { (qemu.register_vcpu_mem_cb)(instruction, called, registers, READS_AND_WRITES, asked) };
            if let Some(on_run) = extended.and_then(|extended| extended::asked(extended).1) {
                // SAFETY: likewise.
                unsafe { (qemu.register_vcpu_insn_exec_cb)(instruction, on_run, NO_REGISTERS, ptr::null_mut()) };
            }
        }
        if let Some(Err(error)) = self.descriptions.as_mut().map(Descriptions::write) {
            self.fail(&error);
        }
    }

    /// Describes the accesses of a block that was not seen before; none where there are too many.
    fn plan(&mut self, shown: &[Shown<'_>]) -> Option<Arc<[Call]>> {
        let descriptions = self.descriptions.as_mut()?;
        let (analyst, mut planner) = (self.analyst.get_or_insert_default(), Planner::new(self.has_values));
        let mut file = None;
        for (number, it) in shown.iter().enumerate() {
            let of = descriptions.file_at(it.place).map(|(file, _)| file);
            if it.said().is_some() || it.bytes == NOTE || of != file {
                planner.close();
            }
            file = of;
            // At the end of a page QEMU may show a part of an instruction, which does not run.
            if let Some(code) = analyst.decode(it.bytes, it.address) {
                planner.take(number, &code);
                if let Some(of) = code.extended() {
                    let is_new = self.extended.get_or_insert_default().insert(it.place, of).is_none();
                    is_new.then(|| count(extended::counters(of)[0]));
                }
            }
        }
        let planned = planner.finish();
        let told = told(descriptions, shown, &planned)?;
        let mut told = planned.iter().zip(told);
        let mut calls = Vec::new();
        for of in planned.chunk_by(|a, b| a.instruction == b.instruction) {
            let mut asked = Asked::default();
            for (access, told) in told.by_ref().take(of.len()) {
                // An update is one access, whether QEMU tells it as one or as two.
                if told.is_some() {
                    *(if access.kind == SiteKind::Load { &mut asked.load } else { &mut asked.store }) = told;
                }
            }
            let place = of.first().map(|access| shown[access.instruction].place);
            let extended = place.and_then(|place| self.extended.as_ref()?.get(&place).copied());
            calls.extend(self.call(of, asked, extended));
        }
        Some(calls.into())
    }

    /// What QEMU is asked for at an instruction, of which that is planned; none where nothing is.
    fn call(&self, of: &[Planned], asked: Asked, extended: Option<Extended>) -> Option<Call> {
        let number = of.first()?.instruction;
        if let Some(sort) = extended {
            return Some(Call { extended, ..Call::new(number, extended::asked(sort).0, NO_REGISTERS, asked) });
        }
        let is_short = |access: &Planned| access.is_only && access.bytes <= 8 && access.kind != SiteKind::Update;
        if of.iter().any(|access| access.kind == SiteKind::Return) {
            return Some(Call::new(number, slimline_on_return, READS_REGISTERS, asked));
        }
        let has_values = of.iter().any(|access| access.value.is_some());
        let (general, one): (OnAccess, OnAccess) = match (self.is_inline, has_values) {
            (true, false) => (on_access::<false>, on_one::<false>),
            (true, true) => (on_access::<true>, on_one::<true>),
            (false, false) => (on_access_elsewhere::<false>, on_one::<false>),
            (false, true) => (on_access_elsewhere::<true>, on_one::<true>),
        };
        match asked {
            Asked { load: None, store: None } => None,
            Asked { load: Some(told), store: None } | Asked { load: None, store: Some(told) }
                if is_short(of.first()?) =>
            {
                Some(Call::new(number, one, NO_REGISTERS, told))
            }
            asked => Some(Call::new(number, general, NO_REGISTERS, asked)),
        }
    }
}

/// Describes what is planned of a block; of each what is done where it is asked for. None where there are too many.
fn told(descriptions: &mut Descriptions, shown: &[Shown<'_>], planned: &[Planned]) -> Option<Vec<Option<Told>>> {
    // What the record that is open has by now.
    let (mut before, mut words, mut joins) = (0, 0, false);
    let mut all = Vec::with_capacity(planned.len());
    for of in planned {
        if of.begins {
            (before, words, joins) = (0, u32::from(of.kind == SiteKind::Update), false);
        }
        // What an access tells besides is of its segment.
        let is_access = of.kind.is_plain();
        let (place, has_word) = (shown[of.instruction].place, of.relative.is_none());
        let header = descriptions.site(place, of, joins || !is_access)?.word();
        all.push(of.is_asked.then(|| {
            let before_bytes = (1 + words) * size_of::<u64>() as u32;
            let (kind, bytes, value) = (of.kind, of.bytes, of.value);
            let [alone, alone_unread] = [const { AtomicU64::new(0) }; 2];
            Told { header, before, before_bytes, kind, bytes, has_word, value, alone, alone_unread, place }
        }));
        if is_access {
            joins = !of.is_asked;
            before = if of.is_asked { header } else { before };
        }
        words += u32::from(has_word) + u32::from(of.value.is_some());
    }
    Some(all)
}

/// What QEMU shows of an instruction that it translates.
struct Shown<'b> {
    instruction: *mut Instruction,
    /// Its address in QEMU's process.
    place: u64,
    /// In the program.
    address: u64,
    bytes: &'b [u8],
}

impl Shown<'_> {
    /// What is done where it says something to us.
    fn said(&self) -> Option<OnInstruction> {
        match self.bytes {
            bytes if bytes == START => Some(on_start),
            bytes if bytes == STOP => Some(on_stop),
            _ => None,
        }
    }
}

/// The instructions of a block.
///
/// # Safety
/// It is one that QEMU translates, and does for as long as what is returned is used.
unsafe fn shown<'b>(qemu: &Functions, block: *mut Block) -> Vec<Shown<'b>> {
    // SAFETY: promised by the caller.
    let instructions = unsafe { (qemu.tb_n_insns)(block) };
    let one = |number| {
        // SAFETY: it has that many.
        let instruction = unsafe { (qemu.tb_get_insn)(block, number) };
        // SAFETY: an instruction of the block.
        let (place, address) = unsafe { ((qemu.insn_haddr)(instruction), (qemu.insn_vaddr)(instruction)) };
        // SAFETY: QEMU keeps its bytes mapped meanwhile.
        let bytes = |place| unsafe { std::slice::from_raw_parts(place, (qemu.insn_size)(instruction)) };
        (!place.is_null()).then(|| Shown { instruction, place: place as u64, address, bytes: bytes(place) })
    };
    (0..instructions).filter_map(one).collect()
}

/// What QEMU is asked for at an instruction.
#[derive(Clone, Copy)]
struct Call {
    /// Which of the block's.
    number: usize,
    called: OnAccess,
    registers: c_int,
    asked: *mut c_void,
    /// Runs of the instruction are counted, too, as long as it is not known whether QEMU tells its accesses.
    extended: Option<Extended>,
}

impl Call {
    /// What is asked for is never freed, as QEMU may run the code as long as there is a process.
    fn new<T>(number: usize, called: OnAccess, registers: c_int, asked: T) -> Self {
        Self { number, called, registers, asked: ptr::from_mut(Box::leak(Box::new(asked))).cast(), extended: None }
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
