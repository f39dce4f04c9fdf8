//! As callpaths.c, from Rust: `Vec`, closures, trait objects, threads.

use std::cell::Cell;
use std::ffi::c_void;
use std::fmt::Write;

unsafe extern "C" {
    fn _Unwind_Backtrace(visit: extern "C" fn(*mut c_void, *mut c_void) -> i32, data: *mut c_void) -> i32;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_GetRegionStart(context: *mut c_void) -> usize;
    fn gettid() -> i32;
}

extern "C" fn frame(context: *mut c_void, data: *mut c_void) -> i32 {
    let told = unsafe { &mut *data.cast::<String>() };
    write!(told, " {:x} {:x}", unsafe { _Unwind_GetIP(context) }, unsafe { _Unwind_GetRegionStart(context) }).unwrap();
    0
}

struct Teller {
    told: String,
    left: u32,
    state: Cell<u64>,
}

impl Teller {
    fn random(&self, below: u64) -> u64 {
        self.state.set(self.state.get().wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
        (self.state.get() >> 33) % below
    }

    #[inline(never)]
    fn allocate(&mut self) {
        let bytes = (1 << 20) + self.random(1000) as usize;
        let block: Vec<u8> = if self.random(2) == 0 { Vec::with_capacity(bytes) } else { vec![0; bytes] };
        write!(self.told, "{} {:x}", unsafe { gettid() }, block.as_ptr() as usize).unwrap();
        unsafe { _Unwind_Backtrace(frame, (&raw mut self.told).cast()) };
        self.told.push('\n');
        self.left -= 1;
    }

    #[inline(never)]
    fn any(&mut self, depth: u32) -> usize {
        if self.left == 0 {
            return 0;
        }
        self.allocate();
        if depth == 0 {
            return 1;
        }
        let boxed: Box<dyn Fn(&mut Teller) -> usize> = match self.random(3) {
            0 => Box::new(move |teller| teller.any(depth - 1) + 1),
            1 => Box::new(move |teller| {
                let mut numbers = [3, 1, 2];
                numbers.sort_by_key(|number| {
                    teller.any(depth - 1);
                    *number
                });
                numbers[0]
            }),
            _ => Box::new(move |teller| {
                std::hint::black_box([0u8; 2000]);
                (0..2).map(|_| teller.any(depth - 1)).sum::<usize>()
            }),
        };
        boxed(self) + 1
    }
}

fn run(seed: u64) -> String {
    let mut teller = Teller { told: String::with_capacity(900_000), left: 400, state: Cell::new(seed) };
    while teller.left > 0 {
        teller.any(6);
    }
    teller.told
}

fn main() {
    let threads = [1, 2].map(|seed| std::thread::spawn(move || run(seed)));
    print!("{}", run(3));
    for thread in threads {
        print!("{}", thread.join().unwrap());
    }
}
