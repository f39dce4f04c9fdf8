//! What the ways to read a program's memory cost where it is in no cache: a probe of the page and a load, copies by the
//! kernel, and a load alone. Times of the thread, in ns a read.
//!
//! `cargo bench -p slimline-agent --bench reads`
#![allow(unsafe_code)] // system calls

use std::hint::black_box;

const PAGES: usize = 1 << 16;
const READS: usize = 40;
const ROUNDS: usize = 60;
/// Larger than what caches keep for one processor.
const OTHER_BYTES: usize = 16 << 20;

fn thread_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn probe(place: &u8) {
    let address = std::ptr::from_ref(place) as usize & !7;
    // SAFETY: the kernel knows no such operation, and changes nothing.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, -1_i64, address, 0, 8) };
    load(place);
}

fn copy<const BYTES: usize>(place: &u8) {
    let mut room = [0_u8; BYTES];
    let to = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: BYTES };
    let from = libc::iovec { iov_base: std::ptr::from_ref(place).cast_mut().cast(), iov_len: BYTES };
    // SAFETY: the kernel checks the source and writes into the room.
    unsafe { libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) };
    black_box(room);
}

fn load(place: &u8) {
    // SAFETY: a reference.
    black_box(unsafe { std::ptr::from_ref(place).read_volatile() });
}

type Read = fn(&u8);

fn main() {
    let memory = vec![1_u8; PAGES * 4096];
    let mut other = vec![0_u8; OTHER_BYTES];
    let mut random = 7_u64;
    let ways: [(&str, Read); 4] = [
        ("probe and load", probe),
        ("copy of 128 bytes", copy::<128>),
        ("copy of 1 KiB", copy::<1024>),
        ("load", load),
    ];
    let mut spent_ns = [0; 4];
    for _ in 0..ROUNDS {
        for ((_, read), spent_ns) in ways.iter().zip(&mut spent_ns) {
            other.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
            let began_ns = thread_ns();
            for _ in 0..READS {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let page = (random >> 33) as usize % (PAGES - 1);
                read(&memory[page * 4096 + (random >> 20) as usize % 4 * 1024]);
            }
            *spent_ns += thread_ns() - began_ns;
        }
    }
    black_box(other);
    for ((name, _), spent_ns) in ways.iter().zip(spent_ns) {
        println!("{name}: {} ns", spent_ns / (READS * ROUNDS) as u64);
    }
}
