//! What interrupts the threads.
//!
//! Either a perf event of the software clock that answers each overflow with SIGTRAP (`sigtrap`), inherited by
//! new threads in the kernel; it counts the time of each thread, in user mode, at any rate, and vanishes on exec.
//! Or one POSIX timer a thread on its user time: where perf is refused, or where its interrupts
//! are dear. The kernel serves these timers at its tick, which comes anyway. Not on the wall clock, whose signals would
//! end sleeping system calls with EINTR; nor on all of the CPU time, for then ticks that find the thread in a page fault
//! are blamed on the instruction before, and those that find it in a system call end that.
//!
//! A timer takes one of the signals that may wait for all processes of a user (`RLIMIT_SIGPENDING`), whether it waits or
//! not. A thread that gets no timer for that has a perf event of its own: perf's signals are under no such limit. So have
//! threads that give their timer back, where the program itself needs what it takes ([`crate::pending`]).
//!
//! Beside either of them another perf event, with a much longer period that is no multiple of the first. Its samples
//! fall between the others, now and then so close to one that both see the same pass over an array: from that the
//! analysis tells how fast code runs. They say only where a thread is, and weigh nothing: a thread that ends before the
//! second clock first came round would get too little weight if time were divided between the two.
#![allow(unsafe_code)] // system calls

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize};
use slimline_trace::wire::{ProcessHeader, RunConfig, SLOTS, TriggerKind};

use crate::thread::Thread;
use crate::{kernel, own_memory, recorder, signals};

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
/// What interrupts a thread, where each has its own.
struct Place {
    /// A timer's number times two and one, or the address of an event's mapping; 0 for none, [`TAKEN`] for one that is changed.
    what: AtomicUsize,
    /// Kernel's number of the thread.
    thread: AtomicU32,
}

static PLACES: [Place; SLOTS] = [const { Place { what: AtomicUsize::new(0), thread: AtomicU32::new(0) } }; SLOTS];
/// No timer's, as it is the number of none, and no address.
const TAKEN: usize = usize::MAX;
/// An event lives as long as it is mapped: so it needs no descriptor.
const EVENT_BYTES: usize = 4096;

/// What interrupts one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    Timer(usize),
    /// Address of its mapping.
    Event(usize),
}

impl Own {
    fn of(what: usize) -> Option<Self> {
        match what {
            0 | TAKEN => None,
            timer if timer & 1 == 1 => Some(Self::Timer(timer >> 1)),
            event => Some(Self::Event(event)),
        }
    }

    fn what(self) -> usize {
        match self {
            Self::Timer(timer) => timer << 1 | 1,
            Self::Event(event) => event,
        }
    }

    fn delete(self) {
        match self {
            // SAFETY: no memory is involved; the timer is ours.
            Self::Timer(timer) => _ = unsafe { kernel::call(libc::SYS_timer_delete, [timer, 0, 0, 0, 0, 0]) },
            // SAFETY: mapped by `open_own_event`, and no longer to be found.
            Self::Event(event) => unsafe {
                kernel::unmap(core::ptr::with_exposed_provenance_mut(event), EVENT_BYTES);
            },
        }
    }
}

/// The descriptors that the target must not see; -1 for none.
pub(crate) fn events() -> [i32; 2] {
    EVENTS.each_ref().map(|event| event.load(Relaxed))
}

/// Moves the event that has this descriptor, if any, to another one.
pub(crate) fn move_event(file: i32) {
    if let Some(event) = EVENTS.iter().find(|event| event.load(Relaxed) == file) {
        event.store(kernel::hide(file), Relaxed);
        publish_events();
    }
}

/// Tells the collector which they are.
fn publish_events() {
    let Some(header) = recorder::header() else { return };
    for (published, event) in header.events.iter().zip(events()) {
        published.store(event.max(0).cast_unsigned(), Relaxed);
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
    let event = open_event(COOKIES[clock as usize], period_ns, INHERIT | INHERIT_THREAD, CALLING_THREAD)?;
    if !signals::claim(libc::SIGTRAP) {
        kernel::close(event);
        return Err(libc::EBUSY);
    }
    let event = kernel::hide(event);
    EVENTS[clock as usize].store(event, Relaxed);
    publish_events();
    control(event, ENABLE);
    Ok(())
}

/// What a new thread needs: nothing under perf, which follows threads by itself.
pub(crate) fn start_thread(thread: &Thread) {
    if KIND.load(Relaxed) == TriggerKind::ThreadTimer as u32 && thread.is_recorded() {
        let tid = thread.tid.get();
        let own = match create_timer(PERIOD_NS.load(Relaxed)) {
            Ok(timer) => Ok(Own::Timer(timer as usize)),
            Err(libc::EAGAIN) => open_own_event(tid).map(Own::Event).map_err(|_| libc::EAGAIN),
            Err(error) => Err(error),
        };
        match own {
            Ok(own) => {
                // There are no more threads with a ring than places.
                let free = |place: &Place| {
                    place.what.load(Relaxed) == 0 && place.what.compare_exchange(0, TAKEN, Acquire, Relaxed).is_ok()
                };
                let number = PLACES.iter().position(free);
                if let Some(place) = number.map(|number| &PLACES[number]) {
                    place.thread.store(tid, Relaxed);
                    place.what.store(own.what(), Release);
                }
                thread.timer.set(number.map_or(0, |number| number + 1));
            }
            Err(error) => {
                if let Some(header) = recorder::header() {
                    if error == libc::EAGAIN {
                        header.threads_without_timer.fetch_add(1, Relaxed);
                    }
                    header.trigger_errno.store(error as u32, Relaxed);
                }
            }
        }
    }
}

/// Gives back one of the pending signals that timers take: a thread has an event from then on, or nothing. False where
/// there is none to give back.
pub(crate) fn give_back_timer() -> bool {
    let taken = PLACES.iter().find_map(|place| {
        let what = place.what.load(Acquire);
        let Own::Timer(timer) = Own::of(what)? else { return None };
        place.what.compare_exchange(what, TAKEN, Acquire, Relaxed).ok()?;
        Some((place, timer))
    });
    let Some((place, timer)) = taken else { return false };
    Own::Timer(timer).delete();
    let event = open_own_event(place.thread.load(Relaxed));
    if event.is_err()
        && let Some(header) = recorder::header()
    {
        header.threads_without_timer.fetch_add(1, Relaxed);
    }
    place.what.store(event.map_or(0, |event| Own::Event(event).what()), Release);
    true
}

/// Ends what [`start_thread`] began.
pub(crate) fn stop_thread(thread: &Thread) {
    if let Some(place) = thread.timer.take().checked_sub(1).and_then(|place| PLACES.get(place)) {
        stop_place(place);
    }
}

/// Deletes what stands there, if it does.
fn stop_place(place: &Place) {
    /// Longer than a system call takes. Whoever is changing the place may have been interrupted by us.
    const TRIES: usize = 1000;
    for _ in 0..TRIES {
        match place.what.load(Acquire) {
            // Another thread is about to store what will interrupt this one.
            TAKEN => kernel::yield_now(),
            what if place.what.compare_exchange(what, 0, Acquire, Relaxed).is_ok() => {
                return Own::of(what).into_iter().for_each(Own::delete);
            }
            _ => {}
        }
    }
}

/// Ends all triggers of all threads, those that begin meanwhile excepted; what is on its way still comes.
pub(crate) fn stop_everywhere() {
    stop();
    PLACES.iter().for_each(stop_place);
}

/// Ends all triggers of this process; those already on their way still come. Timers end with their threads.
pub(crate) fn stop() {
    for event in EVENTS.iter().map(|event| event.swap(-1, Relaxed)).filter(|&event| event >= 0) {
        control(event, DISABLE);
        kernel::close(event);
    }
    publish_events();
}

/// In a forked child: the events are the parent's, and timers are not inherited.
pub(crate) fn forget() {
    KIND.store(TriggerKind::Off as u32, Relaxed);
    for place in PLACES.iter().filter(|place| place.what.load(Relaxed) != 0) {
        if let Some(Own::Event(event)) = Own::of(place.what.swap(0, Relaxed)) {
            // The kernel leaves mappings of events out of children.
            own_memory::forget(event);
        }
    }
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

/// An event of the first clock for one thread, which sends signals from then on; the address of its mapping.
fn open_own_event(thread: u32) -> Result<usize, i32> {
    if signals::ours() != libc::SIGTRAP {
        return Err(libc::EBUSY);
    }
    let event = open_event(COOKIES[Clock::First as usize], PERIOD_NS.load(Relaxed), 0, thread)?;
    let mapped = kernel::map_file(event, 0, EVENT_BYTES);
    if mapped.is_ok() {
        control(event, ENABLE);
    }
    kernel::close(event);
    mapped.map(|start| start.as_ptr().expose_provenance())
}

/// An event for a thread, which does not count yet.
fn open_event(cookie: u64, period_ns: u64, inherited: u64, thread: u32) -> Result<i32, i32> {
    let attributes = EventAttributes {
        kind: PERF_TYPE_SOFTWARE,
        bytes: size_of::<EventAttributes>() as u32,
        config: PERF_COUNT_SW_CPU_CLOCK,
        sample_period: period_ns,
        sample_type: 0,
        read_format: 0,
        flags: DISABLED | EXCLUDE_KERNEL | EXCLUDE_HV | REMOVE_ON_EXEC | SIGTRAP | inherited,
        between: [0; 9],
        sig_data: cookie,
    };
    let arguments = [&raw const attributes as usize, thread as usize, usize::MAX, usize::MAX, PERF_FLAG_FD_CLOEXEC, 0];
    // SAFETY: the kernel reads as many bytes of the attributes as they say they have.
    kernel::check(unsafe { kernel::call(libc::SYS_perf_event_open, arguments) }).map(|event| event as i32)
}

fn control(event: i32, request: usize) {
    // SAFETY: these requests take no memory.
    unsafe { kernel::call(libc::SYS_ioctl, [event as usize, request, 0, 0, 0, 0]) };
}

/// Stands for its number in [`user_clock`] and [`open_event`].
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
    fn what_interrupts_a_thread_is_one_word() {
        for own in [Own::Timer(0), Own::Timer(i32::MAX as usize), Own::Event(0x7fff_ffff_f000)] {
            assert_eq!(Own::of(own.what()), Some(own));
        }
        assert_eq!([0, TAKEN].map(Own::of), [None; 2]);
    }

    #[test]
    fn only_the_first_clock_weighs() {
        PERIOD_NS.store(1_000_000, Relaxed);
        assert_eq!(Trigger { missed: 3, ..ON_TIME }.weight_ns(), 4_000_000);
        assert_eq!(Trigger { clock: Clock::Second, ..ON_TIME }.weight_ns(), 0);
    }
}
