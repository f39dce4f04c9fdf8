//! What lets a thread see what others did, by the names that linkers see.

use std::collections::HashSet;

use crate::llvm::Module;

/// Functions that wait for other threads or take what those gave back, beside those of [`FAMILIES`]. Of calls into the kernel
/// those by which one thread hands something to another are here: pipes, sockets, signals that are waited for.
const FUNCTIONS: &[&str] = &[
    "pthread_join",
    "pthread_tryjoin_np",
    "pthread_timedjoin_np",
    "pthread_clockjoin_np",
    "pthread_once",
    "pthread_barrier_wait",
    "pthread_spin_lock",
    "pthread_spin_trylock",
    "thrd_join",
    "call_once",
    "flockfile",
    "ftrylockfile",
    "syscall",
    "read",
    "readv",
    "recv",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "accept",
    "accept4",
    "poll",
    "ppoll",
    "select",
    "pselect",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "eventfd_read",
    "mq_receive",
    "mq_timedreceive",
    "msgrcv",
    "sigwait",
    "sigwaitinfo",
    "sigtimedwait",
    "sigsuspend",
    "pause",
    "wait",
    "waitpid",
    "waitid",
    "wait3",
    "wait4",
    // The C++ library: threads, condition variables, futures, statics, atomics of any size.
    "_ZNSt6thread4joinEv",
    "__cxa_guard_acquire",
    "__atomic_load",
    "__atomic_exchange",
    "__atomic_compare_exchange",
    // OpenMP.
    "__kmpc_fork_call",
    "__kmpc_fork_call_if",
    "__kmpc_fork_teams",
    "__kmpc_barrier",
    "__kmpc_cancel_barrier",
    "__kmpc_critical",
    "__kmpc_critical_with_hint",
    "__kmpc_ordered",
    "__kmpc_single",
    "__kmpc_master",
    "__kmpc_omp_taskwait",
    "__kmpc_end_taskgroup",
    "omp_set_lock",
    "omp_test_lock",
    "omp_set_nest_lock",
    "omp_test_nest_lock",
];

/// How families of such functions begin: a mutex may be locked in many ways.
const FAMILIES: &[&str] = &[
    "pthread_mutex_lock",
    "pthread_mutex_trylock",
    "pthread_mutex_timedlock",
    "pthread_mutex_clocklock",
    "pthread_rwlock_rd",
    "pthread_rwlock_wr",
    "pthread_rwlock_try",
    "pthread_rwlock_timed",
    "pthread_rwlock_clock",
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_clockwait",
    "mtx_lock",
    "mtx_trylock",
    "mtx_timedlock",
    "cnd_wait",
    "cnd_timedwait",
    "sem_wait",
    "sem_trywait",
    "sem_timedwait",
    "sem_clockwait",
    "__atomic_load_",
    "__atomic_exchange_",
    "__atomic_compare_exchange_",
    "__atomic_fetch_",
    "__kmpc_reduce",
    "__kmpc_dispatch_next",
    "__kmpc_dispatch_init",
    "GOMP_",
    "_ZNSt18condition_variable4wait",
    "_ZNSt28__atomic_futex_unsigned_base",
    "_ZNSt3__15mutex4lockEv",
    "_ZNSt3__15mutex8try_lockEv",
    "_ZNSt3__115recursive_mutex",
    "_ZNSt3__111timed_mutex",
    "_ZNSt3__121recursive_timed_mutex",
    "_ZNSt3__119__shared_mutex_base",
    "_ZNSt3__118shared_timed_mutex",
    "_ZNSt3__118condition_variable",
    "_ZNSt3__16thread4joinEv",
    "_ZNSt3__117__assoc_sub_state",
];

/// Functions behind which others may see what this thread did, beside those that wait for others: for these it is told by the same
/// time where this thread's accesses ended.
const GIVING: &[&str] = &[
    "pthread_create",
    "thrd_create",
    "funlockfile",
    "sem_post",
    "write",
    "writev",
    "send",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "eventfd_write",
    "mq_send",
    "mq_timedsend",
    "msgsnd",
    "kill",
    "tgkill",
    "pthread_kill",
    "__atomic_store",
    "__cxa_guard_release",
    "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE",
    "__kmpc_end_critical",
    "__kmpc_end_ordered",
    "__kmpc_end_single",
    "__kmpc_end_master",
    "__kmpc_omp_task",
    "omp_unset_lock",
    "omp_unset_nest_lock",
];

/// How families of such functions begin.
const GIVING_FAMILIES: &[&str] = &[
    "pthread_mutex_unlock",
    "pthread_rwlock_unlock",
    "pthread_spin_unlock",
    "pthread_cond_signal",
    "pthread_cond_broadcast",
    "mtx_unlock",
    "cnd_signal",
    "cnd_broadcast",
    "__atomic_store_",
    "__kmpc_end_reduce",
    "_ZNSt18condition_variable10notify_",
    "_ZNSt3__15mutex6unlockEv",
];

/// Of what acquires: what takes locks. A time before it would cost as much again, and what is done before a lock is mostly behind
/// another one's end, which has a time.
const LOCKS: &[&str] = &[
    "pthread_mutex_",
    "pthread_rwlock_",
    "pthread_spin_",
    "pthread_once",
    "mtx_",
    "call_once",
    "flockfile",
    "ftrylockfile",
    "omp_set_",
    "omp_test_",
    "__atomic_",
    "__cxa_guard_acquire",
    "__kmpc_critical",
    "__kmpc_dispatch_next",
];
/// How methods of libc++'s mutexes that do so are called.
const LOCKING: &[&str] =
    &["4lockEv", "8try_lock", "12try_lock_for", "14try_lock_until", "11lock_shared", "15try_lock_shared"];

/// Functions that call others in threads of their own, which wait in between where no instrumented code sees it.
const BEGINNERS: &[&str] = &[
    "__kmpc_fork_call",
    "__kmpc_fork_call_if",
    "__kmpc_fork_teams",
    "__kmpc_omp_task_alloc",
    "GOMP_parallel",
    "GOMP_task",
];

/// Whether a function of this name returns where what others did before may be seen.
pub(crate) fn acquires(name: &str) -> bool {
    FUNCTIONS.contains(&name) || FAMILIES.iter().any(|family| name.starts_with(family))
}

/// Whether others may see behind the beginning of a function of this name what was done before it, or it waits for them.
pub(crate) fn releases(name: &str) -> bool {
    let locks = || {
        LOCKS.iter().any(|lock| name.starts_with(lock))
            || name.starts_with("_ZNSt3__1") && LOCKING.iter().any(|method| name.contains(method))
    };
    let waits = || acquires(name) && !locks();
    GIVING.contains(&name) || GIVING_FAMILIES.iter().any(|family| name.starts_with(family)) || waits()
}

/// Whether inline assembly acquires: it takes no lock without one of these instructions.
pub(super) fn assembly_acquires(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| word == "lock" || word.starts_with("xchg"))
}

/// The names of functions that are given to one of [`BEGINNERS`].
pub(super) fn called_by_threads(module: &Module<'_>) -> HashSet<String> {
    let mut names = HashSet::new();
    for function in module.defined_functions() {
        for call in function.blocks().into_iter().flat_map(|block| block.instructions()) {
            if call.called().is_none_or(|called| !BEGINNERS.iter().any(|name| called.name().starts_with(name))) {
                continue;
            }
            let given = (0..call.arguments()).filter_map(|number| call.operand(number)?.as_function());
            names.extend(given.map(|function| function.value().name().into_owned()));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_acquire() {
        for name in ["pthread_mutex_lock", "pthread_rwlock_tryrdlock", "sem_wait", "__atomic_load_16", "GOMP_barrier"] {
            assert!(acquires(name), "{name}");
        }
        for name in ["pthread_mutex_unlock", "pthread_create", "malloc", "reader", "__kmpc_end_critical", "sem_post"] {
            assert!(!acquires(name), "{name}");
        }
    }

    #[test]
    fn names_that_release() {
        for name in [
            "pthread_mutex_unlock",
            "pthread_barrier_wait",
            "pthread_cond_wait",
            "__atomic_store_8",
            "sem_post",
            "read",
            "pthread_cond_clockwait",
            "sem_clockwait",
            "pthread_clockjoin_np",
            "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE",
            "_ZNSt3__118condition_variable4waitERNS_11unique_lockINS_5mutexEEE",
            "_ZNSt3__15mutex6unlockEv",
            "_ZNSt3__115recursive_mutex6unlockEv",
            "_ZNSt3__119__shared_mutex_base13unlock_sharedEv",
        ] {
            assert!(releases(name), "{name}");
        }
        for name in [
            "pthread_mutex_lock",
            "pthread_rwlock_rdlock",
            "malloc",
            "__atomic_load_8",
            "omp_set_lock",
            "unlocked",
            "_ZNSt3__15mutex4lockEv",
            "_ZNSt3__115recursive_mutex8try_lockEv",
            "_ZNSt3__119__shared_mutex_base11lock_sharedEv",
        ] {
            assert!(!releases(name), "{name}");
        }
    }

    #[test]
    fn assembly_that_takes_locks() {
        for text in ["lock; cmpxchg $1, $0", "xchgl $0,$1", "1: lock\n decl $0"] {
            assert!(assembly_acquires(text), "{text}");
        }
        for text in ["", "addl $$1, $0", "# blocked", "pause"] {
            assert!(!assembly_acquires(text), "{text}");
        }
    }
}
