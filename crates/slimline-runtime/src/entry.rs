//! The symbols that instrumented code refers to.
//!
//! All have default visibility. The runtime is linked into the executable and into each shared object; the dynamic
//! linker binds all of them to the first copy, which then is the process's. Where it can't, [`copies`] does so.
#![allow(unsafe_code)] // assembly: thread-local storage, and a calling convention that Rust does not have

use core::arch::{asm, global_asm};

use crate::gate::Gate;
use crate::thread::ThreadState;
use crate::{copies, thread};

/// The gate: functions record where it is 0. Once there is a ring, its page lies here.
#[unsafe(no_mangle)]
pub(crate) static __slimline_gate: Gate = Gate::new();

/// For the program: nothing is to be recorded from now on.
#[unsafe(no_mangle)]
extern "C" fn __slimline_stop() {
    pause(true);
}

/// For the program: everything is to be recorded from now on.
#[unsafe(no_mangle)]
extern "C" fn __slimline_start() {
    pause(false);
}

fn pause(is_paused: bool) {
    (copies::other().map_or(thread::pause as extern "C" fn(bool), |first| first.pause))(is_paused);
}

/// Writes a record of these words whether the gate is open or not, where anybody reads; unless the calling code writes it by itself, as
/// `recorded` says ([`NOTED_ALWAYS`](slimline_trace::stream::ring::NOTED_ALWAYS) and those behind it).
///
/// # Safety
/// There are `count` words, which are a record.
#[unsafe(no_mangle)]
unsafe extern "C" fn __slimline_note(words: *const u64, count: usize, recorded: u32) {
    let note = copies::other().map_or(thread::note as unsafe extern "C" fn(_, _, _), |first| first.note);
    // SAFETY: promised by the caller, who has its cursor in its place at calls.
    unsafe { note(words, count, recorded) };
}

global_asm!(
    // Two words of each thread: where its next word goes, 0 before its first; and the address of what else it has, 0 until it
    // needs that. Executables have them (`thread_words.rs`). A shared object has none of its own, or it could not be opened where too
    // little room is left beside each thread's pointer: `copies` tells its code where they are.
    ".weak __slimline_cursor",
    ".weak __slimline_thread",
    // By this name linkers are asked for this object.
    ".hidden slimline_object",
    ".globl slimline_object",
    ".set slimline_object, slimline_loaded",
    ".pushsection .bss.slimline_saved, \"aw\", @nobits",
    // Which parts of its state the processor saves: those that are enabled of x87, SSE, AVX and AVX-512. Uppermost bit:
    // it has no xsave. 0: not known yet.
    ".p2align 2",
    "slimline_saved: .zero 4",
    ".popsection",
    // `preserve_all`: all registers but rax are as they were. The callee is given rdi and rsi, and 0 as the third argument; rax is
    // what it returns.
    ".macro slimline_keeping name, callee",
    ".pushsection .text.\\name, \"ax\", @progbits",
    ".globl \\name",
    ".type \\name, @function",
    ".p2align 4",
    "\\name:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "push rbx",
    "push rcx",
    "push rdx",
    "push rsi",
    "push rdi",
    "push r8",
    "push r9",
    "push r10",
    "push r11",
    // 512 bytes of old state, a header of 64, then AVX and AVX-512: 2688 in all where there is most.
    "sub rsp, 2688",
    "and rsp, -64",
    "mov eax, dword ptr [rip + slimline_saved]",
    "test eax, eax",
    "jnz 2f",
    "mov eax, 1",
    "xor ecx, ecx",
    "cpuid",
    "mov eax, 0x80000000",
    "bt ecx, 27", // xsave, enabled by the kernel
    "jnc 1f",
    "xor ecx, ecx",
    "xgetbv",
    "and eax, 0xe7",
    "1:",
    "mov dword ptr [rip + slimline_saved], eax",
    "2:",
    "mov ebx, eax",
    "test eax, eax",
    "js 3f",
    // What xsave does not write of its header must be zero.
    "xor ecx, ecx",
    "mov [rsp + 512], rcx",
    "mov [rsp + 520], rcx",
    "mov [rsp + 528], rcx",
    "mov [rsp + 536], rcx",
    "mov [rsp + 544], rcx",
    "mov [rsp + 552], rcx",
    "mov [rsp + 560], rcx",
    "mov [rsp + 568], rcx",
    "xor edx, edx",
    "xsave64 [rsp]",
    "call \\callee",
    "mov rcx, rax",
    "mov eax, ebx",
    "xor edx, edx",
    "xrstor64 [rsp]",
    "jmp 4f",
    "3:",
    "xor edx, edx",
    "fxsave64 [rsp]",
    "call \\callee",
    "mov rcx, rax",
    "fxrstor64 [rsp]",
    "4:",
    "mov rax, rcx",
    "lea rsp, [rbp - 72]",
    "pop r11",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "pop rcx",
    "pop rbx",
    "pop rbp",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size \\name, . - \\name",
    ".popsection",
    ".endm",
    // rdi: the cursor; rax: the one to go on with.
    "slimline_keeping __slimline_next_chunk, {next_chunk}",
    // rdi, rsi: a record's words, and how many. For code that does not expect a call.
    ".hidden slimline_note_keeping",
    "slimline_keeping slimline_note_keeping, __slimline_note@PLT",
    // To rax what the thread has, if there is memory for it.
    ".hidden slimline_thread_keeping",
    "slimline_keeping slimline_thread_keeping, {thread_state}",
    ".purgem slimline_keeping",
    // Each copy tells the process's one that its object was loaded. Sorted before the object's own constructors.
    ".pushsection .text.slimline_loaded, \"ax\", @progbits",
    ".type slimline_loaded, @function",
    "slimline_loaded:",
    ".cfi_startproc",
    "lea rdi, [rip + slimline_loaded]",
    "jmp __slimline_loaded@PLT",
    ".cfi_endproc",
    ".size slimline_loaded, . - slimline_loaded",
    ".popsection",
    ".pushsection .init_array.00001, \"aw\", @init_array",
    ".p2align 3",
    ".quad slimline_loaded",
    ".popsection",
    next_chunk = sym next_chunk,
    thread_state = sym thread::state_or_null,
);

/// An object with instrumented code was loaded: the one that `inside` lies in.
#[unsafe(no_mangle)]
extern "C" fn __slimline_loaded(inside: usize) {
    copies::share(inside);
    (copies::other().map_or(crate::process::object_loaded as extern "C" fn(usize), |first| first.object_loaded))(
        inside,
    );
}

extern "C" fn next_chunk(cursor: usize) -> usize {
    (copies::other().map_or(thread::next_chunk as extern "C" fn(usize) -> usize, |first| first.next_chunk))(cursor)
}

/// Where the cursor is, from each thread's pointer; 0: nobody has told yet.
pub(crate) extern "C" fn cursor_offset() -> usize {
    let offset: usize;
    // SAFETY: a load of what the dynamic linker or `copies` has written.
    unsafe {
        asm!("mov {0}, qword ptr [rip + __slimline_cursor@GOTTPOFF]", out(reg) offset,
            options(nostack, preserves_flags));
    }
    offset
}

/// The calling thread's cursor.
pub(crate) fn cursor() -> usize {
    let cursor: usize;
    // SAFETY: the offset of a thread-local of this name from the thread pointer, which is in fs.
    unsafe {
        asm!("mov {0}, qword ptr [rip + __slimline_cursor@GOTTPOFF]", "mov {0}, fs:[{0}]", out(reg) cursor,
            options(nostack, preserves_flags));
    }
    cursor
}

/// Sets it.
pub(crate) fn set_cursor(cursor: usize) {
    // SAFETY: as above; instrumented code writes there only where the cursor is in memory that is the thread's.
    unsafe {
        asm!("mov {0}, qword ptr [rip + __slimline_cursor@GOTTPOFF]", "mov fs:[{0}], {1}", out(reg) _, in(reg) cursor,
            options(nostack, preserves_flags));
    }
}

/// Where the address of its state is, from each thread's pointer.
pub(crate) extern "C" fn state_offset() -> usize {
    let offset: usize;
    // SAFETY: as in `cursor_offset`.
    unsafe {
        asm!("mov {0}, qword ptr [rip + __slimline_thread@GOTTPOFF]", out(reg) offset,
            options(nostack, preserves_flags));
    }
    offset
}

/// The address of the calling thread's state; null where it has none.
pub(crate) fn thread_state() -> *mut ThreadState {
    let state: *mut ThreadState;
    // SAFETY: as in `cursor`.
    unsafe {
        asm!("mov {0}, qword ptr [rip + __slimline_thread@GOTTPOFF]", "mov {0}, fs:[{0}]", out(reg) state,
            options(nostack, preserves_flags));
    }
    state
}

/// Sets it.
pub(crate) fn set_thread_state(state: *mut ThreadState) {
    // SAFETY: as in `cursor`.
    unsafe {
        asm!("mov {0}, qword ptr [rip + __slimline_thread@GOTTPOFF]", "mov fs:[{0}], {1}", out(reg) _, in(reg) state,
            options(nostack, preserves_flags));
    }
}
