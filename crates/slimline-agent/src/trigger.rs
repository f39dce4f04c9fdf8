//! What interrupts the threads.
//!
//! Either a perf event of the software clock that answers each overflow with SIGTRAP (`sigtrap`), inherited by
//! new threads in the kernel; it counts the time of each thread, in user mode, at any rate, and vanishes on exec.
//! Or one POSIX timer a thread on its user time: where perf is refused, or where its interrupts
//! are dear. The kernel serves these timers at its tick, which comes anyway. Not on the wall clock, whose signals would
//! end sleeping system calls with EINTR; nor on all of the CPU time, for then ticks that find the thread in a page fault
//! are blamed on the instruction before, and those that find it in a system call end that.
//!
//! Beside either of them another perf event, with a much longer period that is no multiple of the first. Its samples
//! fall between the others, now and then so close to one that both see the same pass over an array: from that the
//! analysis tells how fast code runs. They say only where a thread is, and weigh nothing: a thread that ends before the
//! second clock first came round would get too little weight if time were divided between the two.
#![allow(unsafe_code)] // system calls

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};
use slimline_trace::wire::{ProcessHeader, RunConfig, SLOTS, TriggerKind};

use crate::thread::Thread;
use crate::{kernel, signals};

/// Say that a signal is a trigger of the first or the second clock: what perf's `sig_data` and the timer's value hold.
const COOKIES: [u64; 2] = [u64::from_le_bytes(*b"slimtrig"), u64::from_le_bytes(*b"slimsecd")];
/// The kernel gives no software clock a shorter period; below it signals would starve the target.
const SHORTEST_PERIOD_NS: u64 = 10_000;

/// The clocks that interrupt a thread; each has a perf event at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Its samples weigh the time that they stand for. Perf's, or a timer.
    First,
    /// Its samples weigh nothing. Perf's.
    Second,
}

static KIND: AtomicU32 = AtomicU32::new(TriggerKind::Off as u32);
/// Descriptors of the perf events; -1 for none.
static EVENTS: [AtomicI32; 2] = [const { AtomicI32::new(-1) }; 2];
static PERIOD_NS: AtomicU64 = AtomicU64::new(0);
/// The threads' timers, each one more than the kernel's number of it; 0 for none.
static TIMERS: [AtomicI32; SLOTS] = [const { AtomicI32::new(0) }; SLOTS];

/// The descriptors that the target must not see; -1 for none.
pub(crate) fn events() -> [i32; 2] {
    EVENTS.each_ref().map(|event| event.load(Relaxed))
}

/// Moves the event that has this descriptor, if any, to another one.
pub(crate) fn move_event(file: i32) {
    if let Some(event) = EVENTS.iter().find(|event| event.load(Relaxed) == file) {
        event.store(kernel::hide(file), Relaxed);
    }
}

/// Starts the triggers that `config` asks for, or the next best, and says in `header` which they are.
pub(crate) fn start(config: &RunConfig, header: &ProcessHeader) {
    let period_ns = config.period_ns.max(SHORTEST_PERIOD_NS);
    PERIOD_NS.store(period_ns, Relaxed);
    let mut wanted = config.trigger;
    if wanted == TriggerKind::PerfSigtrap as u32
        && let Err(error) = start_event(Clock::First, period_ns)
    {
        header.trigger_errno.store(error as u32, Relaxed);
        wanted = TriggerKind::ThreadTimer as u32;
    }
    if wanted == TriggerKind::Off as u32 {
        return;
    }
    if config.between_ns > 0
        && let Err(error) = start_event(Clock::Second, config.between_ns.max(period_ns))
    {
        header.between_errno.store(error as u32, Relaxed);
    }
    if wanted == TriggerKind::ThreadTimer as u32 && !signals::claim_any() {
        header.trigger_errno.store(libc::EBUSY as u32, Relaxed);
        return;
    }
    KIND.store(wanted, Relaxed);
    header.trigger.store(wanted, Relaxed);
    if let Some(thread) = crate::thread::current() {
        start_thread(thread);
    }
}

/// Opens and enables a clock's event; the kernel's error where it can't be had.
fn start_event(clock: Clock, period_ns: u64) -> Result<(), i32> {
    let event = open_event(clock, period_ns)?;
    if !signals::claim(libc::SIGTRAP) {
        kernel::close(event);
        return Err(libc::EBUSY);
    }
    let event = kernel::hide(event);
    EVENTS[clock as usize].store(event, Relaxed);
    control(event, ENABLE);
    Ok(())
}

/// What a new thread needs: nothing under perf, which follows threads by itself.
pub(crate) fn start_thread(thread: &Thread) {
    if KIND.load(Relaxed) == TriggerKind::ThreadTimer as u32 && thread.is_recorded() {
        match create_timer(PERIOD_NS.load(Relaxed)) {
            Ok(timer) => {
                // There are no more threads with a ring than places.
                let take = |place: &AtomicI32| {
                    place.load(Relaxed) == 0 && place.compare_exchange(0, timer + 1, Relaxed, Relaxed).is_ok()
                };
                thread.timer.set(TIMERS.iter().position(take).map_or(0, |place| place + 1));
            }
            Err(error) => {
                if let Some(header) = crate::recorder::header() {
                    header.trigger_errno.store(error as u32, Relaxed);
                }
            }
        }
    }
}

/// Ends what [`start_thread`] began.
pub(crate) fn stop_thread(thread: &Thread) {
    if let Some(place) = thread.timer.take().checked_sub(1).and_then(|place| TIMERS.get(place)) {
        delete_timer(place);
    }
}

/// Deletes the timer that stands there, if it does.
fn delete_timer(place: &AtomicI32) {
    let timer = place.swap(0, Relaxed);
    if timer != 0 {
        // SAFETY: no memory is involved; the timer is ours.
        unsafe { kernel::call(libc::SYS_timer_delete, [timer as usize - 1, 0, 0, 0, 0, 0]) };
    }
}

/// Ends all triggers of all threads, those that begin meanwhile excepted; what is on its way still comes.
pub(crate) fn stop_everywhere() {
    stop();
    TIMERS.iter().for_each(delete_timer);
}

/// Ends all triggers of this process; those already on their way still come. Timers end with their threads.
pub(crate) fn stop() {
    for event in EVENTS.iter().map(|event| event.swap(-1, Relaxed)).filter(|&event| event >= 0) {
        control(event, DISABLE);
        kernel::close(event);
    }
}

/// In a forked child: the events are the parent's, and timers are not inherited.
pub(crate) fn forget() {
    KIND.store(TriggerKind::Off as u32, Relaxed);
    TIMERS.iter().filter(|place| place.load(Relaxed) != 0).for_each(|place| place.store(0, Relaxed));
    EVENTS.iter().map(|event| event.swap(-1, Relaxed)).filter(|&event| event >= 0).for_each(kernel::close);
}

/// `perf_event_attr` up to `sig_data` (PERF_ATTR_SIZE_VER7).
#[repr(C)]
struct EventAttributes {
    kind: u32,
    bytes: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    between: [u64; 9],
    sig_data: u64,
}

const _: () = assert!(size_of::<EventAttributes>() == 128);

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
const PERF_FLAG_FD_CLOEXEC: usize = 8;
const DISABLED: u64 = 1 << 0;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;
const INHERIT_THREAD: u64 = 1 << 35;
const REMOVE_ON_EXEC: u64 = 1 << 36;
const SIGTRAP: u64 = 1 << 37;
/// `PERF_EVENT_IOC_ENABLE` and `_DISABLE`.
const ENABLE: usize = 0x2400;
const DISABLE: usize = 0x2401;

fn open_event(clock: Clock, period_ns: u64) -> Result<i32, i32> {
    let attributes = EventAttributes {
        kind: PERF_TYPE_SOFTWARE,
        bytes: size_of::<EventAttributes>() as u32,
        config: PERF_COUNT_SW_CPU_CLOCK,
        sample_period: period_ns,
        sample_type: 0,
        read_format: 0,
        flags: DISABLED | INHERIT | EXCLUDE_KERNEL | EXCLUDE_HV | INHERIT_THREAD | REMOVE_ON_EXEC | SIGTRAP,
        between: [0; 9],
        sig_data: COOKIES[clock as usize],
    };
    let this_thread = 0;
    let arguments = [&raw const attributes as usize, this_thread, usize::MAX, usize::MAX, PERF_FLAG_FD_CLOEXEC, 0];
    // SAFETY: the kernel reads as many bytes of the attributes as they say they have.
    kernel::check(unsafe { kernel::call(libc::SYS_perf_event_open, arguments) }).map(|event| event as i32)
}

fn control(event: i32, request: usize) {
    // SAFETY: these requests take no memory.
    unsafe { kernel::call(libc::SYS_ioctl, [event as usize, request, 0, 0, 0, 0]) };
}

/// Stands for its number in [`user_clock`].
pub(crate) const CALLING_THREAD: u32 = 0;

/// The clock of a thread's user time, which has no name in <time.h>: `~thread << 3 | CPUCLOCK_PERTHREAD_MASK |
/// CPUCLOCK_VIRT` (`MAKE_THREAD_CPUCLOCK`, linux/posix-timers.h). Unless the kernel accounts for each entry
/// (`CONFIG_VIRT_CPU_ACCOUNTING_GEN` with `nohz_full`), it goes forward at ticks in user mode alone, so that a timer on
/// it interrupts the very instruction that the tick did.
pub(crate) fn user_clock(thread: u32) -> u32 {
    const PER_THREAD: u32 = 4;
    const USER_TIME: u32 = 1;
    !thread << 3 | PER_THREAD | USER_TIME
}

/// A timer on the calling thread's user time.
fn create_timer(period_ns: u64) -> Result<i32, i32> {
    // SAFETY: a structure of integers and a pointer.
    let mut event: libc::sigevent = unsafe { core::mem::zeroed() };
    event.sigev_value =
        libc::sigval { sival_ptr: core::ptr::without_provenance_mut(COOKIES[Clock::First as usize] as usize) };
    event.sigev_signo = signals::ours();
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    let thread = kernel::thread_id();
    event.sigev_notify_thread_id = thread as i32;
    let mut timer: i32 = 0;
    let arguments = [user_clock(thread) as usize, &raw const event as usize, &raw mut timer as usize, 0, 0, 0];
    // SAFETY: the kernel reads the event and writes the timer's number.
    kernel::check(unsafe { kernel::call(libc::SYS_timer_create, arguments) })?;
    let period =
        libc::timespec { tv_sec: (period_ns / 1_000_000_000) as i64, tv_nsec: (period_ns % 1_000_000_000) as i64 };
    let times = libc::itimerspec { it_interval: period, it_value: period };
    // SAFETY: the kernel reads the times.
    kernel::check(unsafe {
        kernel::call(libc::SYS_timer_settime, [timer as usize, 0, &raw const times as usize, 0, 0, 0])
    })?;
    Ok(timer)
}

/// What the kernel says about one of our triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trigger {
    /// Whose it is.
    pub(crate) clock: Clock,
    /// Triggers that this one stands for besides itself.
    pub(crate) missed: u32,
    /// The signal was blocked when its time came: the instruction pointer is that of the end of the blocking.
    pub(crate) late: bool,
    /// A timer's, not perf's.
    pub(crate) is_timer: bool,
}

/// The kernel's `siginfo_t`, as far as it ever fills it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct SignalInfo {
    pub(crate) signal: i32,
    pub(crate) error: i32,
    pub(crate) code: i32,
    pub(crate) padding: i32,
    /// By `code`; see [`Trigger::of`].
    pub(crate) fields: [u64; 4],
    pub(crate) rest: [u64; 10],
}

impl SignalInfo {
    /// No signal.
    pub(crate) const NONE: Self = Self { signal: 0, error: 0, code: 0, padding: 0, fields: [0; 4], rest: [0; 10] };
}

const _: () = assert!(size_of::<SignalInfo>() == size_of::<libc::siginfo_t>());

const TRAP_PERF: i32 = 6;
const TRAP_PERF_FLAG_ASYNC: u64 = 1;

/// Whether a SIGTRAP with this code was made by an instruction of the thread itself.
pub(crate) fn is_trap(code: i32) -> bool {
    const SI_KERNEL: i32 = 128;
    // TRAP_BRKPT to TRAP_UNK
    code == SI_KERNEL || (1..=5).contains(&code)
}

impl Trigger {
    /// Whether a signal is one of our triggers.
    pub(crate) fn of(info: &SignalInfo) -> Option<Trigger> {
        let clock =
            [Clock::First, Clock::Second].into_iter().find(|&clock| COOKIES[clock as usize] == info.fields[1])?;
        match info.code {
            // fields: address, sig_data, type | flags << 32
            TRAP_PERF => {
                let late = (info.fields[2] >> 32) & TRAP_PERF_FLAG_ASYNC != 0;
                Some(Trigger { clock, missed: 0, late, is_timer: false })
            }
            // fields: timer | overrun << 32, value
            libc::SI_TIMER => {
                let missed = ((info.fields[0] >> 32) as i32).max(0) as u32;
                Some(Trigger { clock, missed, late: false, is_timer: true })
            }
            _ => None,
        }
    }

    /// User time that it stands for.
    pub(crate) fn weight_ns(&self) -> u64 {
        match self.clock {
            Clock::First => PERIOD_NS.load(Relaxed).saturating_mul(1 + u64::from(self.missed)),
            Clock::Second => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(code: i32, fields: [u64; 4]) -> SignalInfo {
        SignalInfo { signal: 5, error: 0, code, padding: 0, fields, rest: [0; 10] }
    }

    const ON_TIME: Trigger = Trigger { clock: Clock::First, missed: 0, late: false, is_timer: false };

    #[test]
    fn only_signals_with_a_cookie_are_ours() {
        let [first, second] = COOKIES;
        let perf = info(TRAP_PERF, [0x1000, first, 1, 0]);
        assert_eq!(Trigger::of(&perf), Some(ON_TIME));
        let between = info(TRAP_PERF, [0x1000, second, 1, 0]);
        assert_eq!(Trigger::of(&between), Some(Trigger { clock: Clock::Second, ..ON_TIME }));
        assert_eq!(Trigger::of(&info(TRAP_PERF, [0x1000, 7, 1, 0])), None, "the target's own perf event");
        assert_eq!(Trigger::of(&info(libc::SI_USER, [0, first, 0, 0])), None);
        assert_eq!(Trigger::of(&info(libc::SI_TKILL, [0, 0, 0, 0])), None, "raise");
        assert_eq!(Trigger::of(&info(128, [0, 0, 0, 0])), None, "int3");
    }

    #[test]
    fn late_and_missed_triggers_are_told() {
        let late = info(TRAP_PERF, [0, COOKIES[0], 1 | 1 << 32, 0]);
        assert_eq!(Trigger::of(&late), Some(Trigger { late: true, ..ON_TIME }));
        let timer = info(libc::SI_TIMER, [9 | 3 << 32, COOKIES[0], 0, 0]);
        assert_eq!(Trigger::of(&timer), Some(Trigger { missed: 3, is_timer: true, ..ON_TIME }));
    }

    #[test]
    fn only_the_first_clock_weighs() {
        PERIOD_NS.store(1_000_000, Relaxed);
        assert_eq!(Trigger { missed: 3, ..ON_TIME }.weight_ns(), 4_000_000);
        assert_eq!(Trigger { clock: Clock::Second, ..ON_TIME }.weight_ns(), 0);
    }
}
