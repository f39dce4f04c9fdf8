//! Blocks of thread-local variables that the dynamic linker makes for one thread, when that first asks for them: those of objects that are
//! loaded while the program runs.
//!
//! Where such a block is only the linker knows, and the thread that asks. So calls of `__tls_get_addr` by these objects' code come here
//! ([`copies`](crate::copies) sees to that, in processes that are traced), and whether there was a block before is looked up where the linker
//! keeps it: in the thread's vector of blocks, whose layout is the same in all versions of the C library, and which is made sure of.
#![allow(unsafe_code)] // the dynamic linker's function and its vector

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::kernel::Signals;
use crate::weak::weak_address;
use crate::{kernel, process, ring, thread};

/// What the linker's function is given.
#[repr(C)]
struct Variable {
    /// The number of its object among those with thread-local variables.
    module: usize,
    offset: usize,
}

type GetAddress = extern "C" fn(&Variable) -> usize;

/// The linker's function; 0: no object was told of ours.
static OF_LINKER: AtomicUsize = AtomicUsize::new(0);

/// More objects with thread-local variables than a program opens; beyond, the linker tells where their blocks are without us.
const MOST_FOLLOWED: usize = 256;

/// An object whose code asks here.
struct Followed {
    /// 0: none yet.
    module: AtomicUsize,
    bias: AtomicUsize,
}

static FOLLOWED: [Followed; MOST_FOLLOWED] =
    [const { Followed { module: AtomicUsize::new(0), bias: AtomicUsize::new(0) } }; MOST_FOLLOWED];

/// In a thread's vector: it has not asked for its block yet.
const NONE: usize = usize::MAX;

/// What a thread's vector says of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    /// Changes when objects with thread-local variables come or go: then a block may be another one at the same place.
    generation: usize,
    block: Option<usize>,
}

impl Entry {
    /// The calling thread's.
    fn of(module: usize) -> Self {
        const OF_THREAD: usize = 8;
        // SAFETY: the C library's description of the thread, whose second word leads to its vector of blocks.
        let vector = unsafe { ((kernel::thread_pointer() + OF_THREAD) as *const *const usize).read_volatile() };
        // Two words for each object; for none the generation, and before that how many there is room for.
        // SAFETY: as above; no index is beyond that.
        let word = |at: *const usize| unsafe { at.read_volatile() };
        let is_inside = module <= word(vector.wrapping_sub(2));
        let block = if is_inside { word(vector.wrapping_add(2 * module)) } else { NONE };
        Self { generation: word(vector), block: (block != 0 && block != NONE).then_some(block) }
    }
}

/// The calling thread's block of an object's thread-local variables, as its vector has it.
pub(crate) fn block_of(module: usize) -> Option<usize> {
    Entry::of(module).block
}

/// The function that an object's code is to call in the place of the linker's; none where there is none, or no room is left.
/// One thread at a time asks, as the dynamic linker sees to.
pub(crate) fn instead_of_linker(module: usize, bias: usize) -> Option<usize> {
    if OF_LINKER.load(Relaxed) == 0 {
        OF_LINKER.store(of_linker(), Relaxed);
    }
    let is_free_or_its = |followed: &&Followed| [0, module].contains(&followed.module.load(Relaxed));
    let followed = FOLLOWED.iter().find(is_free_or_its).filter(|_| OF_LINKER.load(Relaxed) != 0)?;
    followed.bias.store(bias, Relaxed);
    followed.module.store(module, Release);
    Some(get_address as GetAddress as usize)
}

/// Asked for before any code asks here, as the place that it is read from may be told of ours.
fn of_linker() -> usize {
    weak_address!("__tls_get_addr")
}

extern "C" fn get_address(variable: &Variable) -> usize {
    // SAFETY: whoever is told of this function is so after that was stored, and it is of this type.
    let of_linker = unsafe { core::mem::transmute::<usize, GetAddress>(OF_LINKER.load(Relaxed)) };
    let before = Entry::of(variable.module);
    let address = of_linker(variable);
    let now = Entry::of(variable.module);
    if now != before
        && let Some(block) = now.block
    {
        tell(variable.module, block);
    }
    address
}

/// The calling thread has this block of an object whose code asks here.
#[cold]
pub(crate) fn tell(module: usize, block: usize) {
    let _signals = Signals::block();
    let Some(followed) = FOLLOWED.iter().find(|followed| followed.module.load(Acquire) == module) else { return };
    // A forked child's own is made here.
    if let Some(ring) = process::ring().filter(|_| process::is_ours()) {
        let since = thread::writes_since(ring).unwrap_or_else(ring::stamp);
        ring.add_block(followed.bias.load(Relaxed), block, since);
    }
}
