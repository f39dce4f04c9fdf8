//! Blocks of the heap that are the thread-local variables of a module that was loaded when the program ran (`dlopen`).
//!
//! ```text
//!   malloc ◄── the dynamic linker, one call or more ◄── __tls_get_addr ◄── code of the module
//! ```
//!
//! The first time that a thread asks for a variable of such a module, the dynamic linker allocates the thread's copy of all of
//! them, and tells nobody. But who asked it is in the block's call path, and how much it allocates is in the module's file.

use slimline_trace::address::{Avma, Svma};
use slimline_trace::tables::{Block, StackRow};
use slimline_trace::wire::AGENT_FILE;

use super::Groups;
use super::variables::Storage;
use crate::code::flow::decode;
use crate::code::imports::{Target, target_of};
use crate::data::address_space::Loaded;
use crate::data::timed::Extent;
use crate::module::Module;
use crate::resolver::{Place, ProcessView};

/// What any block is aligned to (`max_align_t`). Where variables need more, glibc allocates that many bytes more.
const BLOCK_ALIGNMENT: u64 = 16;

/// What a block that holds a thread's storage has at an address.
pub(super) enum Held {
    /// A variable, or what lies between two, and the extent in which the answer holds.
    Storage(Place, Extent),
    /// Nothing: the variables are aligned, and begin behind or end before it. So far it goes.
    Padding(Extent),
}

impl Groups {
    /// What a small block of the heap has there, if it holds a thread's storage.
    pub(super) fn in_small_storage(&mut self, view: ProcessView<'_, '_>, block: &Block, address: Avma) -> Option<Held> {
        self.held(view, block.stack, (block.base.0, block.bytes), address, (0, None))
    }

    /// The same of a large block, by its row of the ranges.
    pub(super) fn in_large_storage(&mut self, view: ProcessView<'_, '_>, row: usize, address: Avma) -> Option<Held> {
        let ranges = view.process.tables.ranges;
        let block = (ranges.base[row].0, ranges.bytes[row]);
        self.held(view, ranges.stack[row], block, address, (ranges.born_ns[row], Some(row)))
    }

    /// The same of a block that was allocated by that call path, at that time.
    fn held(
        &mut self,
        view: ProcessView<'_, '_>,
        stack: Option<StackRow>,
        block: (u64, u64),
        address: Avma,
        (time_ns, row): (u64, Option<usize>),
    ) -> Option<Held> {
        let stack = stack?;
        let asking = *self.dynamic_storage.entry((view.id, stack)).or_insert_with(|| who_asks(view, stack, time_ns));
        let module = asking?;
        let template = view.modules.get(module).image()?.thread_locals()?;
        let (base, bytes) = aligned(block, template.alignment).filter(|(_, room)| *room == template.bytes)?;
        if let Some(padding) = padding(block, (base, bytes), address.0) {
            return Some(Held::Padding(padding));
        }
        let storage = Storage { module: Some(module), is_a_modules: true, base, bytes, row };
        let (place, extent) = self.in_storage(view, storage, address);
        Some(Held::Storage(place, extent))
    }
}

/// Where in a block of so many bytes glibc has storage of that alignment, and how many bytes it asked for.
fn aligned((base, bytes): (u64, u64), alignment: u64) -> Option<(u64, u64)> {
    match alignment {
        0..=BLOCK_ALIGNMENT => Some((base, bytes)),
        more => Some((base.checked_next_multiple_of(more)?, bytes.checked_sub(more)?)),
    }
}

/// The part of a block around an address that is none of the storage in it; both by their base and bytes.
fn padding((block, all): (u64, u64), (base, bytes): (u64, u64), address: u64) -> Option<Extent> {
    let behind = base.saturating_add(bytes);
    let extent = |start, end| Some(Extent { start, end, ..Extent::ALL });
    match address {
        _ if address < base => extent(block, base),
        _ if address >= behind => extent(behind, block.saturating_add(all)),
        _ => None,
    }
}

/// The module whose code had the dynamic linker allocate for a thread-local variable, if that is what a call path is of.
fn who_asks(view: ProcessView<'_, '_>, stack: StackRow, time_ns: u64) -> Option<usize> {
    let in_module = |&return_address: &Avma| {
        // The call is before the address it returns to.
        let call = Avma(return_address.0.wrapping_sub(1));
        Some((view.process.space.module_at(call, time_ns)?, return_address))
    };
    let frames = view.process.tables.stacks.frames(stack).iter().map(in_module);
    let name = |loaded: &Loaded| view.modules.get(loaded.module).file_name();
    let mut frames = frames.skip_while(|frame| frame.is_some_and(|(loaded, _)| name(&loaded) == AGENT_FILE)).peekable();
    let mut is_of_linker = false;
    while frames.next_if(|frame| frame.is_some_and(|(loaded, _)| is_dynamic_linker(name(&loaded)))).is_some() {
        is_of_linker = true;
    }
    let (loaded, return_address) = frames.next()?.filter(|_| is_of_linker)?;
    let module = view.modules.get(loaded.module);
    asks_for_variable(module, loaded.svma(return_address)).then_some(loaded.module)
}

/// Whether the call that returns there may be one for a thread-local variable: of a descriptor (`-mtls-dialect=gnu2`) it is computed.
fn asks_for_variable(module: &Module<'_>, return_address: Svma) -> bool {
    let bounds = module.function_bounds(Svma(return_address.0.wrapping_sub(1)));
    let Some((bounds, code)) = bounds.and_then(|bounds| Some((bounds, module.code(bounds)?))) else { return false };
    let instructions = decode(code, bounds.0);
    let call = instructions.iter().find(|instruction| instruction.next_ip() == return_address.0);
    call.is_some_and(|call| matches!(target_of(module, call), Target::Import("__tls_get_addr") | Target::Computed))
}

/// glibc's, whatever the machine: `ld-linux-x86-64.so.2`.
fn is_dynamic_linker(file: &str) -> bool {
    file.starts_with("ld-linux") || file.starts_with("ld-2.")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ```text
    ///   block 0x1010 ─ padding ─ 0x1040 ─ storage ─ 0x1080 ─ padding ─ 0x1090
    /// ```
    #[test]
    fn padding_around_aligned_storage_is_none_of_it() {
        let block = (0x1010, 0x80);
        let storage = aligned(block, 64).unwrap();
        assert_eq!(storage, (0x1040, 0x40));
        let around = |address| padding(block, storage, address).map(|extent| (extent.start, extent.end));
        assert_eq!((around(0x1010), around(0x103f)), (Some((0x1010, 0x1040)), Some((0x1010, 0x1040))));
        assert_eq!((around(0x1040), around(0x107f)), (None, None));
        assert_eq!((around(0x1080), around(0x108f)), (Some((0x1080, 0x1090)), Some((0x1080, 0x1090))));
        // Where no more is asked for than any block has there is none.
        assert_eq!(aligned(block, 16), Some(block));
        assert_eq!(padding(block, block, 0x1010), None);
        assert_eq!(aligned((0x1010, 32), 64), None, "less than the alignment alone");
    }
}
