//! Threads that allocate in the same arenas and free what others allocated.
#![allow(unsafe_code)]

mod counted;
mod refused;

use std::alloc::Layout;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use counted::Counted;
use slimline_tidy::Context;

const THREADS: usize = 8;

/// An object on its way to another thread.
struct Sent(NonNull<u8>, Layout, u8);

// SAFETY: nobody keeps a pointer to what is sent.
unsafe impl Send for Sent {}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }
}

fn check(Sent(object, layout, fill): &Sent) {
    // SAFETY: it is that large, and was filled by who allocated it.
    let bytes = unsafe { std::slice::from_raw_parts(object.as_ptr(), layout.size()) };
    assert!(bytes.iter().all(|byte| byte == fill));
}

/// Each of eight threads does so many operations: allocates in one of `arenas`, frees what is its own, moves, or sends an
/// object to the next thread, which frees it.
fn mixed(operations: usize, arenas: usize, bucket_bytes: usize) {
    let below = Counted::new();
    let context = Context::over(&below, &[arenas], bucket_bytes).unwrap();
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel::<Sent>()).unzip();
    thread::scope(|scope| {
        let context = &context;
        for (number, receiver) in receivers.into_iter().enumerate() {
            let next = senders[(number + 1) % THREADS].clone();
            scope.spawn(move || {
                let mut random = Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number as u64 + 1));
                let mut own: Vec<Sent> = Vec::new();
                let free = |sent: Sent| {
                    check(&sent);
                    // SAFETY: it is the context's, and this thread has it alone.
                    unsafe { context.free(sent.0) };
                };
                for operation in 0..operations {
                    let choice = random.below(16);
                    let which = random.below(own.len().max(1));
                    if own.is_empty() || (choice < 7 && own.len() < 10_000) {
                        let size = if random.below(64) == 0 { random.below(9000) } else { random.below(120) };
                        let layout = Layout::from_size_align(size, 1 << random.below(5)).unwrap();
                        let object = context.alloc(layout, &[random.below(arenas)]).unwrap();
                        let fill = operation as u8;
                        // SAFETY: it is that large, and nobody else has it.
                        unsafe { object.write_bytes(fill, size) };
                        own.push(Sent(object, layout, fill));
                    } else if choice < 11 {
                        free(own.swap_remove(which));
                    } else if choice < 12 {
                        let Sent(object, layout, fill) = own.swap_remove(which);
                        let size = random.below(200);
                        // SAFETY: it is the context's, of this layout, and this thread has it alone.
                        let object = unsafe { context.realloc(object, layout, size).unwrap() };
                        let layout = Layout::from_size_align(size, layout.align()).unwrap();
                        // SAFETY: it is that large, and nobody else has it.
                        unsafe { object.write_bytes(fill, size) };
                        own.push(Sent(object, layout, fill));
                    } else {
                        // A receiver that has ended drops what it is sent; the context has it until it is dropped itself.
                        let sent = own.swap_remove(which);
                        if let Err(mpsc::SendError(sent)) = next.send(sent) {
                            free(sent);
                        }
                    }
                    if operation % 8 == 0 {
                        receiver.try_iter().for_each(free);
                    }
                }
                own.into_iter().for_each(free);
                drop(next);
                // Until the thread before this one has ended, and all others have what they sent.
                receiver.iter().for_each(free);
            });
        }
        drop(senders);
    });
    let statistics = context.statistics();
    assert_eq!((statistics.objects, statistics.bytes, statistics.large_objects), (0, 0, 0));
    context.trim();
    assert_eq!(context.statistics().buckets, 0);
    drop(context);
    assert_eq!(below.held(), 0);
}

#[test]
fn many_arenas() {
    mixed(if cfg!(miri) { 100 } else { 40_000 }, 100, 4096);
}

#[test]
fn one_arena() {
    mixed(if cfg!(miri) { 60 } else { 40_000 }, 1, 1024);
}

#[test]
fn small_buckets() {
    mixed(if cfg!(miri) { 60 } else { 20_000 }, 7, 64);
}

/// More at a time than may be owners of arenas, and each ends with objects that others free.
#[test]
#[cfg_attr(miri, ignore = "too many threads")]
fn more_threads_than_slots() {
    const MANY: usize = 1100;
    let below = Counted::new();
    let context = Context::over(&below, &[300], 4096).unwrap();
    let all = Barrier::new(MANY);
    thread::scope(|scope| {
        let made: Vec<_> = (0..MANY)
            .map(|number| {
                let (context, all) = (&context, &all);
                let run = move || {
                    all.wait();
                    let layout = Layout::new::<[u64; 4]>();
                    let make = |round| Sent(context.alloc(layout, &[number + round]).unwrap(), layout, number as u8);
                    // Of one hint that all have, too.
                    let made: Vec<Sent> = (0..10).map(make).chain((0..10).map(|_| make(300 - number % 300))).collect();
                    for Sent(object, layout, fill) in &made {
                        // SAFETY: it is that large, and nobody else has it.
                        unsafe { object.write_bytes(*fill, layout.size()) };
                    }
                    made
                };
                thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, run).unwrap()
            })
            .collect();
        for sent in made.into_iter().flat_map(|thread| thread.join().unwrap()) {
            check(&sent);
            // SAFETY: it is the context's, and its thread has ended.
            unsafe { context.free(sent.0) };
        }
    });
    assert_eq!(context.statistics().objects, 0);
    drop(context);
    assert_eq!(below.held(), 0);
}

/// Destructors of a thread's own values run before and after its slot is given back, and free and allocate.
#[test]
fn a_thread_that_ends() {
    struct Kept {
        context: Arc<Context>,
        object: NonNull<u8>,
    }
    impl Drop for Kept {
        fn drop(&mut self) {
            let layout = Layout::new::<[u64; 4]>();
            for hint in 0..2 {
                let other = self.context.alloc(layout, &[hint]).unwrap();
                // SAFETY: it is the context's, and nobody else has it.
                unsafe { self.context.free(other) };
            }
            // SAFETY: as above.
            unsafe { self.context.free(self.object) };
        }
    }
    thread_local! {
        static FIRST: RefCell<Option<Kept>> = const { RefCell::new(None) };
        static LAST: RefCell<Option<Kept>> = const { RefCell::new(None) };
    }
    let context = Arc::new(Context::new(&[2]).unwrap());
    for _ in 0..if cfg!(miri) { 2 } else { 50 } {
        let context = Arc::clone(&context);
        let run = move || {
            let kept = |hint| {
                let object = context.alloc(Layout::new::<[u64; 4]>(), &[hint]).unwrap();
                Some(Kept { context: Arc::clone(&context), object })
            };
            // What is first used last is dropped first: one before the thread's slot is given back, one after it.
            FIRST.with(|first| *first.borrow_mut() = None);
            let first = kept(0);
            LAST.with(|last| *last.borrow_mut() = kept(1));
            FIRST.with(|place| *place.borrow_mut() = first);
        };
        thread::spawn(run).join().unwrap();
    }
    assert_eq!(context.statistics().objects, 0);
}

/// 100 million operations: `cargo test --release -p slimline-tidy --test threads -- --ignored`.
#[test]
#[ignore = "takes a minute"]
fn a_hundred_million() {
    mixed(100_000_000 / THREADS, 1000, 4096);
}

#[test]
#[cfg(target_os = "linux")]
#[cfg_attr(miri, ignore = "it starts programs")]
fn without_membarrier() {
    refused::run_all_but("without_membarrier");
}
