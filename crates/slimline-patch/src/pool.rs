//! Blocks of one structure each, side by side.

use crate::allocation::{Allocation, Allocator};
use crate::generated;
use crate::uses::{Use, What};
use crate::{Patching, Refusal, Source};

/// Which allocations and frees there are.
#[derive(Debug, Default)]
pub(crate) struct Blocks<'a> {
    pub(crate) allocations: Vec<(&'a Use, &'a Allocation)>,
    pub(crate) frees: usize,
}

impl Blocks<'_> {
    /// The first allocation of several structures at once.
    pub(crate) fn several(&self) -> Option<&Use> {
        self.allocations.iter().find(|(_, allocation)| !allocation.is_of_one).map(|(use_, _)| *use_)
    }

    pub(crate) fn any_is(&self, allocator: Allocator) -> bool {
        self.allocations.iter().any(|(_, allocation)| allocation.allocator == allocator)
    }
}

impl<'a> Patching<'a> {
    /// All blocks of the structure, which other code allocates then: each must be seen to be for so many structures.
    pub(crate) fn blocks(&self) -> Result<Blocks<'a>, Refusal> {
        let mut blocks = Blocks::default();
        for use_ in &self.found.uses.all {
            match &use_.what {
                What::Free(_) => blocks.frees += 1,
                What::Allocation(allocation) => {
                    if matches!(allocation.allocator, Allocator::Aligned | Allocator::Other) {
                        return Err(self.refuse(use_, format!("it is allocated by {}", allocation.function)));
                    }
                    if !allocation.is_of_whole {
                        return Err(self.refuse(use_, "how many of it are allocated is not understood"));
                    }
                    blocks.allocations.push((use_, allocation));
                }
                _ => {}
            }
        }
        Ok(blocks)
    }

    /// Pools are of a thread and of a unit: what is freed where nothing is allocated is lost to the one that it came from.
    pub(crate) fn keep_to_pools(&self, blocks: &Blocks<'_>) -> Result<(), Refusal> {
        const THREADS: [&str; 5] = ["pthread_create", "thrd_create", "std::thread", "std::jthread", "#pragma omp"];
        let has_threads = |source: &Source| THREADS.iter().any(|word| source.text.contains(word));
        match blocks.frees > 0 {
            true if self.found.units_with_definition > 1 => {
                Err(Refusal::of("it is freed, and known in several units, each of which would have a pool of its own"))
            }
            true if self.program.sources.iter().any(has_threads) => {
                Err(Refusal::of("it is freed, and there are threads, each of which would have a pool of its own"))
            }
            _ => Ok(()),
        }
    }

    /// Has other functions called in the place of `malloc`, `calloc` and `free`.
    pub(crate) fn call_instead(&mut self, [malloc, calloc, free]: [&str; 3]) -> Result<(), Refusal> {
        for use_ in &self.found.uses.all {
            let ((begin, end), name) = match &use_.what {
                What::Allocation(allocation) if allocation.allocator == Allocator::Calloc => {
                    (allocation.callee, calloc)
                }
                What::Allocation(allocation) => (allocation.callee, malloc),
                What::Free(callee) => (*callee, free),
                _ => continue,
            };
            let (file, first) = self.token(begin)?;
            // `std::malloc` is read once.
            let last = end.spelled;
            if last.file != Some(file) || first.offset > last.offset {
                return Err(self.refuse(use_, "a macro is in the way"));
            }
            self.edits.replace(file, (first.offset, last.end()), name);
        }
        Ok(())
    }

    /// Names of the functions that stand in their place.
    pub(crate) fn functions(&self) -> [String; 3] {
        ["malloc", "calloc", "free"]
            .map(|function| self.found.new_name(&format!("{}_{function}", self.found.plain_name())))
    }

    /// Allocates each from a pool.
    pub(crate) fn pool(&mut self) -> Result<(), Refusal> {
        for use_ in &self.found.uses.all {
            if let Some(why) = Self::never(&use_.what) {
                return Err(self.refuse(use_, why));
            }
            match &use_.what {
                What::New => return Err(self.refuse(use_, "it is allocated or freed by new or delete")),
                What::Template => return Err(self.refuse(use_, "a template is made for it, which may allocate it")),
                What::Escape(function)
                    if !matches!(function.as_deref(), Some("memset" | "memcpy" | "memmove" | "bzero")) =>
                {
                    return Err(
                        self.refuse(use_, "here nothing tells any more that a pointer is one to it: it may be freed")
                    );
                }
                _ => {}
            }
        }
        let blocks = self.blocks()?;
        if blocks.allocations.is_empty() {
            return Err(Refusal::of("no source allocates it"));
        }
        if let Some(several) = blocks.several() {
            return Err(self.refuse(several, "several are allocated at once"));
        }
        self.keep_to_pools(&blocks)?;
        let functions = self.functions();
        self.call_instead([&functions[0], &functions[1], &functions[2]])?;
        let (type_name, pool) =
            (self.found.type_name(), self.found.new_name(&format!("{}_pool", self.found.plain_name())));
        let mut code = generated::pool(&pool, &type_name, blocks.frees > 0);
        let [malloc, calloc, free] = functions;
        let mut headers = vec!["stdlib.h"];
        if blocks.any_is(Allocator::Malloc) {
            code += &format!(
                "\nstatic inline {type_name} *{malloc}(size_t bytes)\n{{\n    (void)bytes;\n    return ({type_name} *){pool}_take();\n}}\n"
            );
        }
        if blocks.any_is(Allocator::Calloc) {
            headers.push("string.h");
            code += &format!(
                "\nstatic inline {type_name} *{calloc}(size_t count, size_t bytes)\n{{\n    void *object = {pool}_take();\n    \
                 return ({type_name} *)(object ? memset(object, 0, count * bytes) : NULL);\n}}\n"
            );
        }
        if blocks.frees > 0 {
            code += &format!(
                "\nstatic inline void {free}({type_name} *object)\n{{\n    if (object)\n        {pool}_give(object);\n}}\n"
            );
        }
        self.generate(&code, &headers)
    }
}
