//! The signal handler's entry: tells triggers from the target's own signals, and takes triggers to a stack of their own.
//!
//! The kernel leaves its frame on an alternate signal stack, the target's or ours ([`alternate`]). The target's may be small, so
//! next to nothing is used of it.
#![allow(unsafe_code)] // entered by the kernel

use core::arch::naked_asm;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicUsize};

use crate::alignment;
use crate::burst::Moment;
use crate::confine::HandlerBusy;
use crate::signals::forward::{self, Context, Jump};
use crate::signals::{alternate, faults};
use crate::thread::{self, Thread, Work};
use crate::trigger::{SignalInfo, Trigger};
use crate::{burst, hooks, kernel, recorder, signals, trigger};

/// Address of the handler, for the kernel.
pub(crate) fn entry() -> usize {
    enter as *const () as usize
}

/// Address of the code that a handler returns to.
pub(crate) fn restorer() -> usize {
    restore as *const () as usize
}

/// Where our own code is.
static TEXT_START: AtomicUsize = AtomicUsize::new(0);
static TEXT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Whether an address is in our own code.
#[inline]
pub(crate) fn is_agent_code(address: u64) -> bool {
    (address as usize).wrapping_sub(TEXT_START.load(Relaxed)) < TEXT_BYTES.load(Relaxed)
}

/// Finds out what must be known before the first trigger.
pub(crate) fn prepare() {
    unsafe extern "C" {
        /// Where the linker puts this library's ELF header.
        #[link_name = "__ehdr_start"]
        static HEADER: libc::Elf64_Ehdr;
    }
    let header = &raw const HEADER;
    // SAFETY: the header and the program headers of this library are mapped as long as its code is.
    let code = unsafe {
        let segments = header.byte_add((*header).e_phoff as usize).cast::<libc::Elf64_Phdr>();
        let segments = core::slice::from_raw_parts(segments, (*header).e_phnum.into());
        segments.iter().find(|segment| segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_X != 0)
    };
    if let Some(code) = code {
        TEXT_START.store(header as usize + code.p_vaddr as usize, Relaxed);
        TEXT_BYTES.store(code.p_memsz as usize, Relaxed);
    }
}

/// What the kernel calls. On entry the stack holds the return address, and right above it the context.
///
/// The program's flags still hold then, but for what the kernel clears. Our code does not keep to alignment; the program's own
/// handler gets its flags back.
#[unsafe(naked)]
unsafe extern "C" fn enter(signal: i32, info: *mut SignalInfo, context: *mut Context) {
    naked_asm!(
        "pushfq",
        "sub rsp, 32",
        "bt dword ptr [rsp + 32], {check}",
        "jnc 2f",
        "push qword ptr [rsp + 32]",
        "and dword ptr [rsp], {unchecked}",
        "popfq",
        "2:",
        "mov rcx, rsp",
        "call {decide}",
        "test al, al",
        "jnz 3f",
        "add rsp, 40",
        "ret",
        "3:",
        "bt dword ptr [rsp + 32], {check}",
        "jnc 4f",
        "push qword ptr [rsp + 32]",
        "and dword ptr [rsp], {untrapped}",
        "popfq",
        "4:",
        "mov rax, [rsp]",
        "mov rdi, [rsp + 8]",
        "mov rsi, [rsp + 16]",
        "mov rdx, [rsp + 24]",
        "lea rsp, [rdx - 8]",
        "jmp rax",
        check = const alignment::CHECK_BIT,
        unchecked = const !(alignment::CHECK | TRAP) as i32,
        untrapped = const !TRAP as i32,
        decide = sym decide,
    )
}

/// In the flags that a debugger's single step stores: the step itself, which is not the program's.
const TRAP: u32 = 1 << 8;

/// What a handler returns to. Unwinders know a signal frame by exactly these bytes.
#[unsafe(naked)]
unsafe extern "C" fn restore() {
    naked_asm!(
        // mov rax, SYS_rt_sigreturn; the assembler would choose a shorter one
        ".byte 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00",
        "syscall",
    )
}

/// True where `jump` says how the target's own handler is to be entered.
unsafe extern "C" fn decide(signal: i32, info: *mut SignalInfo, context: *mut Context, jump: *mut Jump) -> bool {
    // SAFETY: as we got them, and all signals are blocked.
    if unsafe { faults::on_fault(signal, info, context) } {
        return false;
    }
    // SAFETY: the kernel passes valid ones.
    if let Some(trigger) = Trigger::of(unsafe { &*info }) {
        on_trigger(trigger, context);
        return false;
    }
    // SAFETY: as we got them, and all signals are blocked while our handler runs.
    match unsafe { forward::deliver(signal, info, context) } {
        Some(decided) => {
            // SAFETY: room that `enter` made.
            unsafe { jump.write(decided) };
            true
        }
        None => false,
    }
}

/// Threads that are in [`on_trigger`].
static SAMPLING: AtomicU32 = AtomicU32::new(0);

/// Waits until no thread is taking a sample. Gives up after a second: a debugger may have stopped one, or others begin again
/// and again.
pub(crate) fn wait_for_samples() {
    const LONGEST_NS: u64 = 1_000_000_000;
    let began_ns = recorder::now_ns();
    while SAMPLING.load(Acquire) != 0 && recorder::now_ns().saturating_sub(began_ns) < LONGEST_NS {
        kernel::yield_now();
    }
}

/// In a forked child: the threads that were taking samples are not here.
pub(crate) fn forget_samples() {
    SAMPLING.store(0, Relaxed);
}

fn on_trigger(trigger: Trigger, context: *mut Context) {
    let Some(_busy) = HandlerBusy::begin() else { return };
    SAMPLING.fetch_add(1, Acquire);
    serve(trigger, context);
    signals::restore_after_step();
    SAMPLING.fetch_sub(1, Release);
}

fn serve(trigger: Trigger, context: *mut Context) {
    let tid = kernel::thread_id();
    let has_area = thread::has_our_area(tid);
    if !recorder::is_open() {
        trigger::stop();
        if has_area && let Some(thread) = thread::existing() {
            trigger::stop_thread(thread);
        }
        return;
    }
    let Some(header) = recorder::header() else { return };
    if !has_area {
        header.triggers_in_agent.fetch_add(1, Relaxed);
        return;
    }
    let is_new = thread::existing().is_none();
    let Some(thread) = thread::current() else { return };
    if is_new {
        // SAFETY: the kernel's, and nobody else's.
        alternate::set_on_return(unsafe { &mut *context });
    }
    // SAFETY: the kernel's.
    let ip = unsafe { (*context).register(libc::REG_RIP) };
    // A thread that was cloned without a thread-local area of its own shares that of another.
    let foreign = thread.tid.get() != tid;
    if foreign || is_agent_code(ip) {
        header.triggers_in_agent.fetch_add(1, Relaxed);
        return;
    }
    let Some(mut inside) = thread.enter() else {
        header.triggers_in_agent.fetch_add(1, Relaxed);
        return;
    };
    hooks::distrust_stack(&mut inside);
    if let Some(mut work) = thread.work() {
        if !burst::is_prepared() {
            let began_ns = kernel::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
            // SAFETY: as below.
            unsafe { on_stack(Work::stack_top(work), prepare_samples, core::ptr::null_mut(), thread.way_out.as_ptr()) };
            // The process's first sample pays it once; it is not on the thread's budget.
            let cost_ns = kernel::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).saturating_sub(began_ns);
            header.sampling_ns.fetch_add(cost_ns, Relaxed);
            if !burst::is_prepared() {
                header.triggers_in_agent.fetch_add(1, Relaxed);
                return;
            }
        }
        // Not the time of day, which goes on while other threads have the processor.
        let began_ns = kernel::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        let time_ns = recorder::now_ns();
        // SAFETY: the thread's own, and `inside` keeps others away.
        let spent_ns = unsafe { work.as_ref().sampler.budget.spent_ns() };
        let at = Moment { time_ns, cpu_ns: began_ns.saturating_sub(spent_ns) };
        let mut sampling = Sampling { thread, work, trigger, context, at };
        // SAFETY: it is the thread's own stack, and the thread is not on it: `enter` above says so.
        unsafe {
            on_stack(Work::stack_top(work), sample, (&raw mut sampling).cast(), thread.way_out.as_ptr());
        }
        let ended_ns = kernel::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        let cost_ns = ended_ns.saturating_sub(began_ns);
        header.sampling_ns.fetch_add(cost_ns, Relaxed);
        // SAFETY: the thread's own, `sample` is done with it, and `inside` keeps others away.
        unsafe { work.as_mut().sampler.budget.spend(cost_ns) };
    }
    drop(inside);
}

struct Sampling<'a> {
    thread: &'a Thread,
    work: NonNull<Work>,
    trigger: Trigger,
    context: *mut Context,
    at: Moment,
}

unsafe extern "C" fn prepare_samples(_: *mut u8) {
    burst::prepare();
}

unsafe extern "C" fn sample(sampling: *mut u8) {
    // SAFETY: `on_trigger` passes one that outlives the call.
    let sampling = unsafe { &mut *sampling.cast::<Sampling<'_>>() };
    // SAFETY: the kernel's, valid while the handler runs, and nobody else's.
    let context = unsafe { &*sampling.context };
    // SAFETY: the thread's own, and it is inside the agent once.
    let sampler = unsafe { &mut sampling.work.as_mut().sampler };
    burst::sample(sampling.thread, sampler, sampling.trigger, context, sampling.at);
}

/// Goes back to where [`on_stack`] was called: `way_out` is in the register given.
macro_rules! come_back {
    ($way_out:literal) => {
        concat!(
            "mov rsp, [",
            $way_out,
            "]\n",
            "mov qword ptr [",
            $way_out,
            "], 0\n",
            "pop r15\n",
            "pop r14\n",
            "pop r13\n",
            "pop r12\n",
            "pop rbx\n",
            "pop rbp\n",
            "ret"
        )
    };
}

/// Calls `function(argument)` on the stack that ends at `top`. Where it can be come back to is kept in `way_out`
/// meanwhile.
///
/// # Safety
/// The stack must be unused and large enough for the function.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn on_stack(
    top: usize,
    function: unsafe extern "C" fn(*mut u8),
    argument: *mut u8,
    way_out: *mut usize,
) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rcx], rsp",
        "mov rbx, rcx",
        "mov rsp, rdi",
        "mov rdi, rdx",
        "call rsi",
        come_back!("rbx"),
    )
}

/// Calls `function(argument)` on a fresh stack, and leaves nothing of it on the caller's, which may have little room; but
/// there, if there is no memory.
///
/// # Safety
/// As `function` asks for.
pub(crate) unsafe fn on_fresh_stack(function: unsafe extern "C" fn(*mut u8), argument: *mut u8) {
    const STACK_BYTES: usize = 64 << 10;
    let Some(stack) = kernel::map(STACK_BYTES) else {
        // SAFETY: promised by the caller.
        return unsafe { function(argument) };
    };
    let mut way_out = 0;
    // SAFETY: a stack of our own, which nothing uses any more when the call comes back.
    unsafe {
        on_stack(stack.as_ptr().addr() + STACK_BYTES, function, argument, &raw mut way_out);
        kernel::unmap(stack.as_ptr(), STACK_BYTES);
    }
}

/// Leaves the function that [`on_stack`] called, as if it had returned.
///
/// # Safety
/// `way_out` must be one that [`on_stack`] filled and has not emptied, in this thread. What the function held is lost.
#[unsafe(naked)]
unsafe extern "C" fn leave(way_out: *mut usize) -> ! {
    naked_asm!(come_back!("rdi"))
}

/// After a bug of the agent: gives up a sample that is being taken. Comes back where none is.
pub(crate) fn give_up_sample() {
    if let Some(thread) = thread::existing()
        && thread.way_out.get() != 0
    {
        // SAFETY: filled, in this thread. Recording has stopped: nothing looks at what a sample leaves half done.
        unsafe { leave(thread.way_out.as_ptr()) }
    }
}
