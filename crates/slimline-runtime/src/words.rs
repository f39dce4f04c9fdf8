//! Where a thread's two words are in a program that has no place for them: it is not instrumented, and shared objects are that it opens.
//!
//! What such an object would have beside each thread's pointer takes room of which the dynamic linker keeps less than two KiB for all that
//! are opened; so would all of the object's own thread-local variables. But the C library keeps the values of a thread's first keys there, which
//! are zeros at first as well: the value of the key by which we are told that a thread ends becomes the address of its state, and
//! that of a second one its cursor.
#![allow(unsafe_code)] // the C library's keys, and a look beside the thread's pointer

use core::ffi::c_void;
use core::ptr::{self, null};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use crate::process::KEYS_WITHOUT_HEAP;
use crate::{kernel, process};

/// Bytes above the thread's pointer that are the C library's, among which the values of keys are.
const OWN_BYTES: usize = 2048;

/// Whether [`of_keys`] has looked.
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// How far from each thread's pointer the cursor is, and the address of the state. None where the C library has them elsewhere, or
/// the program leaves no two of those that follow each other; and the second time, as then what was found the first time was told to all.
pub(crate) fn of_keys() -> Option<[usize; 2]> {
    if IS_ASKED.swap(true, Relaxed) {
        return None;
    }
    let (held, [first, cursor]) = HeldKeys::but_a_pair()?;
    // It is what the next one gets.
    delete_key(first);
    process::watch();
    drop(held);
    let Some(state) = process::key() else {
        delete_key(cursor);
        return None;
    };
    // When a thread ends values go in the order of their keys: the cursor next after the state, before other keys' functions make it a new one.
    let places = if cursor == state + 1 { [cursor, state].map(place_of) } else { [None; 2] };
    let [Some(cursor_offset), Some(state_offset)] = places else {
        delete_key(cursor);
        return None;
    };
    Some([cursor_offset, state_offset])
}

/// The C library gives the first key that is free: these are held for as long as it is to give others.
struct HeldKeys {
    keys: [libc::pthread_key_t; KEYS_WITHOUT_HEAP as usize],
    count: usize,
}

impl HeldKeys {
    /// All that are free, and the last two of them that follow each other: a key that was deleted leaves its values where they are, and the last ones were
    /// least likely anybody's. None where no two do.
    fn but_a_pair() -> Option<(Self, [libc::pthread_key_t; 2])> {
        let mut held = Self { keys: [0; KEYS_WITHOUT_HEAP as usize], count: 0 };
        while let Some(key) = create_key() {
            if key >= KEYS_WITHOUT_HEAP {
                delete_key(key);
                break;
            }
            held.keys[held.count] = key;
            held.count += 1;
        }
        let keys = &mut held.keys[..held.count];
        let at = keys.windows(2).rposition(|two| two[1] == two[0] + 1)?;
        let pair = [keys[at], keys[at + 1]];
        keys[at..].rotate_left(2);
        held.count -= 2;
        Some((held, pair))
    }
}

impl Drop for HeldKeys {
    fn drop(&mut self) {
        self.keys[..self.count].iter().copied().for_each(delete_key);
    }
}

fn create_key() -> Option<libc::pthread_key_t> {
    let mut key = 0;
    // SAFETY: a plain function.
    (unsafe { libc::pthread_key_create(&raw mut key, None) } == 0).then_some(key)
}

fn delete_key(key: libc::pthread_key_t) {
    // SAFETY: our own key, which nobody else asks for its value.
    unsafe { libc::pthread_key_delete(key) };
}

/// Where the value of a key is, which nobody else has.
fn place_of(key: libc::pthread_key_t) -> Option<usize> {
    // What nobody else has there; both must be at the same place.
    let marks = [ptr::from_ref(&PLACE).cast(), ptr::from_ref(&PLACE).wrapping_byte_add(1).cast::<c_void>()];
    let found = marks.map(|mark| {
        // SAFETY: our own key, and a value that nobody follows.
        let result = unsafe { libc::pthread_setspecific(key, mark) };
        if result == 0 { place_of_value(mark.addr()) } else { None }
    });
    // SAFETY: as above.
    unsafe { libc::pthread_setspecific(key, null()) };
    match found {
        [Some(one), other] if other == Some(one) => Some(one),
        _ => None,
    }
}

static PLACE: [u8; 2] = [0; 2];

fn place_of_value(value: usize) -> Option<usize> {
    let start = kernel::thread_pointer();
    // SAFETY: the C library's description of the thread begins at its pointer, and is larger.
    (0..OWN_BYTES).step_by(8).find(|offset| unsafe { ((start + offset) as *const usize).read_volatile() } == value)
}
