//! The rewriter: bitcode in, bitcode out that writes down its accesses.
//!
//! What it puts in for a segment, where the cursor is in a register all the while:
//!
//! ```text
//!   test  cursor, 1 << 18        room left in the chunk?
//!   je    cold                   no: __slimline_next_chunk, which keeps all registers
//!   mov   [cursor], header
//!   mov   [cursor + 8], address  before each access
//!   …
//!   add   cursor, bytes
//! ```
//!
//! Where the record of the block before goes on, all but the accesses is `mov dword [start], segment`.
//!
//! The cursor lies in the thread-local `__slimline_cursor` wherever other code may run: it goes there before calls and
//! returns and comes from there when the function begins and after calls.

mod addresses;
mod allocators;
mod distances;
mod emit;
mod own_allocators;
mod paths;
mod plan;
mod rules;
mod synchronization;
mod touch;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::ffi::CStr;
use std::path::{Path, PathBuf};

use slimline_trace::stream::record::{MAX_SEGMENTS, NO_STAMP};
use slimline_trace::stream::ring::SEVERAL_OFFSET;
use slimline_trace::stream::sites::{ModuleBuilder, SECTION};

use crate::llvm::{CodeLevel, Llvm, LlvmError, Module, Traced, Versions};
use crate::naming::unit;
pub(crate) use allocators::Allocator;
use emit::Emitter;
pub use own_allocators::{AllocatorRole, OwnAllocator, OwnAllocators};
use plan::Planner;
use rules::Rules;
pub(crate) use rules::{is_called_by_compiler, may_have_left};
pub(crate) use synchronization::{acquires, releases};

/// Thread-local: where the next word goes.
pub const CURSOR: &CStr = c"__slimline_cursor";
/// Gives the cursor to go on with where the one that it is given has no room.
pub const NEXT_CHUNK: &CStr = c"__slimline_next_chunk";
/// Writes a record although the gate is closed.
pub(crate) const NOTE: &CStr = c"__slimline_note";
/// A byte: 0 where everything is recorded. The one [`SEVERAL_OFFSET`] behind it: whether records have time stamps.
pub const GATE: &CStr = c"__slimline_gate";
/// Functions of the C library that the runtime must see, and those of its own in their place: what installs signal handlers, maps memory
/// that processes may share, locks all memory, and makes children.
pub(crate) const REDIRECTED: [(&CStr, &CStr); 18] = [
    (c"mlockall", c"__slimline_mlockall"),
    (c"munlockall", c"__slimline_munlockall"),
    (c"sigaction", c"__slimline_sigaction"),
    (c"signal", c"__slimline_signal"),
    (c"bsd_signal", c"__slimline_signal"),
    (c"ssignal", c"__slimline_signal"),
    (c"__sysv_signal", c"__slimline_sysv_signal"),
    (c"sysv_signal", c"__slimline_sysv_signal"),
    (c"mmap", c"__slimline_mmap"),
    (c"mmap64", c"__slimline_mmap"),
    (c"munmap", c"__slimline_munmap"),
    (c"mremap", c"__slimline_mremap"),
    (c"shmat", c"__slimline_shmat"),
    (c"shmdt", c"__slimline_shmdt"),
    (c"syscall", c"__slimline_syscall"),
    (c"clone", c"__slimline_clone"),
    (c"__clone", c"__slimline_clone"),
    (c"_Fork", c"__slimline_fork"),
];
/// Bit of the cursor that says that there is room for a segment. Null has it clear.
pub const ROOM_BIT: u64 = 1 << 18;
/// The section of site tables, as LLVM is given it.
const SITES_SECTION: &CStr = c"slimline_sites";

/// What the site table says of where it comes from.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The object that is compiled.
    pub object: String,
    /// Compiler and version.
    pub producer: String,
    /// The file that was compiled in place of a source, and that source, which debug information is to name.
    pub copy: Option<(PathBuf, PathBuf)>,
}

/// What is told of accesses.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// What was loaded and stored, a word more each.
    pub values: bool,
    /// Whose blocks they are in, beside those of known allocators.
    pub allocators: OwnAllocators,
}

/// Why bitcode could not be rewritten.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// LLVM refused.
    #[error(transparent)]
    Llvm(#[from] LlvmError),
    /// It was rewritten before.
    #[error("{0} is instrumented already")]
    Twice(String),
    /// Records are laid out for one sort of machine.
    #[error("code for {0} can't be instrumented, only for x86_64 Linux")]
    Target(String),
    /// There are more segments than a header can number.
    #[error("{0} has more than {MAX_SEGMENTS} basic blocks that access memory")]
    TooLarge(String),
}

/// What was done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rewritten {
    /// Functions with accesses.
    pub functions: usize,
    /// Basic blocks, or parts of them between calls.
    pub segments: usize,
    /// Accesses and allocations.
    pub sites: usize,
    /// Functions of the program's own allocators with calls that are not as they are told, whose blocks are not known.
    pub unlike: BTreeSet<String>,
}

impl Rewritten {
    /// What its user is to know, in lines.
    pub(crate) fn remarks(&self) -> impl Iterator<Item = String> {
        self.unlike.iter().map(|function| {
            format!(
                "a call of `{function}` has not the arguments that slimline.toml tells, or the optimizer knows that it does \
                 not use them: its blocks are not known"
            )
        })
    }
}

/// Rewrites the bitcode in `from` into `to`. Its functions keep doing what they do.
pub fn rewrite(llvm: &Llvm, from: &Path, to: &Path, told: &Told, origin: &Origin) -> Result<Rewritten, RewriteError> {
    let (module, rewritten) = rewritten(llvm, from, told, origin)?;
    module.write(to)?;
    Ok(rewritten)
}

/// The same, with the object of it in `to`, which `finish` may add something to.
pub fn rewrite_to_object(
    llvm: &Llvm,
    from: &Path,
    (to, level): (&Path, CodeLevel),
    told: &Told,
    origin: &Origin,
    finish: impl FnOnce(&Module<'_>),
) -> Result<Rewritten, RewriteError> {
    let (module, rewritten) = rewritten(llvm, from, told, origin)?;
    finish(&module);
    module.write_object(to, level)?;
    Ok(rewritten)
}

fn rewritten<'l>(
    llvm: &'l Llvm,
    from: &Path,
    told: &Told,
    origin: &Origin,
) -> Result<(Module<'l>, Rewritten), RewriteError> {
    debug_assert_eq!(SITES_SECTION.to_str(), Ok(SECTION));
    let mut module = Module::read(llvm, from)?;
    let target = module.target();
    if !is_supported(&target) {
        return Err(RewriteError::Target(target));
    }
    if module.has_global(CURSOR) {
        return Err(RewriteError::Twice(module.source()));
    }
    if let Some((copy, source)) = &origin.copy {
        module.rename_file(copy.as_os_str(), source.as_os_str());
    }
    module.number_labels()?;
    // First, so that headers of loops are behind plain jumps.
    module.split_invoke_edges();
    let rules = Rules::new(&module, &told.allocators);
    let functions = module.defined_functions().into_iter().filter(|function| rules.has_two_versions(*function));
    let functions: Vec<String> = functions.map(|function| function.value().name().into_owned()).collect();
    let traced = module.put_behind(GATE, &functions)?;
    module.tell_variables_by_calls(true);
    let is_own = |name: &CStr| name.to_str().is_ok_and(|name| told.allocators.knows(name));
    for (name, instead) in REDIRECTED.into_iter().filter(|(name, _)| !is_own(name)) {
        module.redirect(name, instead);
    }
    let (rewritten, crossed) = insert(&module, &traced, told, origin)?;
    crossed.into_iter().for_each(|versions| module.cross(versions, GATE));
    module.tell_variables_by_calls(false);
    if rewritten.segments > 0 {
        // Before the passes: what they would make of broken code is anybody's guess.
        module.verify()?;
        module.run_passes(c"always-inline,function(mem2reg,instsimplify)")?;
    }
    Ok((module, rewritten))
}

/// Whether this triple names x86-64 Linux with 64-bit pointers.
fn is_supported(target: &str) -> bool {
    let mut parts = target.split('-');
    parts.next() == Some("x86_64") && target.contains("-linux") && !target.ends_with("x32")
}

/// What was done, and functions whose versions are to cross.
fn insert(
    module: &Module<'_>,
    traced: &[Traced],
    told: &Told,
    origin: &Origin,
) -> Result<(Rewritten, Vec<Versions>), RewriteError> {
    let mut table = ModuleBuilder::new();
    let mut planner = Planner::new(module, traced, told, &mut table);
    let functions = module.defined_functions();
    let mut plans: Vec<_> = functions.iter().filter_map(|function| planner.plan(*function)).collect();
    let directory = planner.directory().to_owned();
    let (unlike, notes) = (planner.unlike(), planner.notes());
    // rustc names its parts of a crate where clang names the source.
    let (source, producer) = unit(module).unwrap_or_else(|| (module.source(), origin.producer.clone()));
    let table = table.finish(&source, &origin.object, &directory, &producer);
    let rewritten =
        Rewritten { functions: plans.len(), segments: table.segments.len(), sites: table.sites.len(), unlike };
    if table.segments.len() > MAX_SEGMENTS {
        return Err(RewriteError::TooLarge(module.source()));
    }
    let (id, blob) = table.encode();
    module.add_section(SITES_SECTION, &blob);
    // Its table tells that it is instrumented, and what was left as it is.
    if plans.is_empty() {
        return Ok((rewritten, Vec::new()));
    }
    let cursor = module.add_thread_local_pointer(CURSOR);
    let room = module.add_room(NEXT_CHUNK, ROOM_BIT);
    let gate = module.add_gate(GATE);
    let [stamp, early_stamp] = [true, false].map(|waits| gate.add_stamp(SEVERAL_OFFSET as u64, NO_STAMP, waits));
    let emitter = Emitter {
        module,
        id,
        cursor,
        room,
        gate,
        stamp,
        early_stamp,
        segments: RefCell::default(),
        notes: RefCell::default(),
    };
    for plan in &plans {
        emitter.carry_out(plan);
    }
    notes.iter().for_each(|note| emitter.note(note));
    forget_memory_effects(module, &plans, traced);
    Ok((rewritten, plans.iter_mut().filter_map(|plan| plan.versions.take()).collect()))
}

/// Functions that were said to write no memory do so now.
#[expect(clippy::mutable_key_type, reason = "handles are compared by what they point to, which stays")]
fn forget_memory_effects(module: &Module<'_>, plans: &[plan::Plan<'_>], traced: &[Traced]) {
    let kinds = ["memory", "speculatable", "nosync"].map(|name| module.attribute_kind(name));
    let chosen: HashSet<_> = traced.iter().map(|traced| &*traced.function).collect();
    let chosen = module.defined_functions().into_iter().filter(|it| chosen.contains(&*it.value().name()));
    let changed: Vec<_> = plans.iter().map(|plan| plan.function).chain(chosen).collect();
    for function in &changed {
        kinds.into_iter().for_each(|kind| function.remove_attribute(kind));
    }
    let changed: HashSet<_> = changed.into_iter().map(|function| function.value()).collect();
    for function in module.defined_functions() {
        for call in function.blocks().into_iter().flat_map(|block| block.instructions()) {
            if call.called().is_some_and(|called| changed.contains(&called)) {
                kinds.into_iter().for_each(|kind| call.remove_call_attribute(kind));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sort_of_machine() {
        for target in ["x86_64-pc-linux-gnu", "x86_64-unknown-linux-musl"] {
            assert!(is_supported(target), "{target}");
        }
        for target in
            ["x86_64-pc-linux-gnux32", "i386-pc-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-apple-darwin", ""]
        {
            assert!(!is_supported(target), "{target}");
        }
    }
}
