//! Which functions of allocators the agent would follow in a program and its libraries, and why not the others: as far as
//! the files tell, before anything runs.

use std::path::Path;

use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;
use slimline_collect::{AllocatorCall, looked_for};
use slimline_emulate::relocate::{Refusal, relocate};
use slimline_trace::path_text::text_of_existing;
use slimline_trace::session::{FoundAllocator, HookOutcome};
use slimline_trace::wire::OBJECTS_WITHOUT_ALLOCATORS;

use crate::configuration::files_of;
use crate::disk::Disk;

/// How far from a function its first instructions are taken to be moved: where they really go is known when it is loaded.
const NEARBY_BYTES: u64 = 1 << 20;

/// The functions that are found in `program`, beside the known ones those of its `own` allocators.
pub(crate) fn foresee(program: &Path, own: &[AllocatorCall]) -> Vec<FoundAllocator> {
    let wanted = looked_for(own);
    let mut found = Vec::new();
    for (number, path) in files_of(program).iter().enumerate() {
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        if OBJECTS_WITHOUT_ALLOCATORS.iter().any(|left| file_name.starts_with(left)) {
            continue;
        }
        let is_program = number == 0;
        let path = text_of_existing(path.as_os_str());
        let store = FileStore::new(&Disk);
        let module = Module::open(&store, &path);
        let mut has_own_malloc = false;
        let mut of_module = Vec::new();
        module.for_each_function(&mut |name, svma, bytes| {
            has_own_malloc |= is_program && name == "malloc";
            let of_name = wanted.iter().filter(|one| one.call.function == name && path.ends_with(&one.call.module));
            of_module.extend(of_name.map(|one| (one.clone(), svma, bytes)));
        });
        for (one, svma, bytes) in of_module {
            let code = module.image().map(|image| image.bytes_from(svma)).unwrap_or_default();
            // Without code it is defined elsewhere.
            if code.is_empty() || one.needs_own_malloc && !has_own_malloc {
                continue;
            }
            let code = &code[..code.len().min(usize::try_from(bytes).unwrap_or(usize::MAX))];
            let outcome = outcome(relocate(code, svma.0, svma.0.wrapping_add(NEARBY_BYTES)).err());
            let allocator = FoundAllocator { function: one.call.function, outcome };
            if !found.contains(&allocator) {
                found.push(allocator);
            }
        }
    }
    found
}

fn outcome(refusal: Option<Refusal>) -> HookOutcome {
    match refusal {
        None => HookOutcome::Followed,
        Some(Refusal::Short) => HookOutcome::Short,
        Some(Refusal::Calls) => HookOutcome::Calls,
        Some(Refusal::BranchInside) => HookOutcome::BranchInside,
        Some(Refusal::OutOfReach) => HookOutcome::OutOfReach,
        Some(Refusal::Unknown) => HookOutcome::UnknownCode,
    }
}
