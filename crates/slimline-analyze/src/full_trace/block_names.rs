//! What blocks are called: by the variable that holds them, or that most accesses to them went by.

use rustc_hash::FxHashMap;
use slimline_trace::stream::sites::{Module, Site};

use super::elements::is_rusts;
use super::findings::{is_own, place};
use super::heap::live_blocks::Group;

/// Variables that groups of blocks were accessed by, each with how often.
#[derive(Debug, Default)]
pub(super) struct BlockNames<'a> {
    variables: FxHashMap<(Group, &'a str), u64>,
}

impl<'a> BlockNames<'a> {
    /// A site accesses a group so many times. What a library's code calls its own parameters (`this`, `__x`) says nothing.
    pub(super) fn add(&mut self, group: Group, (module, site): (&'a Module, &Site), accesses: u64) {
        let name = module.name(site.variable);
        if is_own(&place(module, site)) && !is_anyones(name) {
            *self.variables.entry((group, name)).or_default() += accesses;
        }
    }

    /// What the blocks are called that a site allocates; empty where nothing tells. Most accesses to an array may go by a variable that walks it; so a block
    /// that is the only one is called by what holds it, if the program calls it so elsewhere, too: in C a function that only hands
    /// memory on has a name of its own for it. One of several, which are linked or held in a table, first was in whatever holds the new one.
    pub(super) fn of(&self, group: Group, module: &'a Module, site: &Site, blocks: u64) -> &'a str {
        let holder = module.name(site.variable);
        let is_used = is_rusts(module) || self.variables.contains_key(&(group, holder));
        if blocks == 1 && is_used && !holder.is_empty() && !is_anyones(holder) {
            return holder;
        }
        match self.most_used(group) {
            "" if is_anyones(holder) => "",
            "" => holder,
            name => name,
        }
    }

    /// The variable that most accesses to a block's group went by; of several the first by name.
    fn most_used(&self, group: Group) -> &'a str {
        let of_group = self.variables.iter().filter(|((of, name), _)| *of == group && !name.is_empty());
        of_group
            .max_by_key(|((_, name), accesses)| (**accesses, std::cmp::Reverse(*name)))
            .map_or("", |((_, name), _)| name)
    }
}

/// Whether a variable's name tells nothing of what it holds: the object that a method is of, and what the libraries of C and C++ call theirs,
/// which no program may (`__ptr`, `_Tp`).
fn is_anyones(variable: &str) -> bool {
    let is_reserved = |name: &str| {
        let mut letters = name.chars();
        letters.next() == Some('_') && letters.next().is_some_and(|second| second == '_' || second.is_ascii_uppercase())
    };
    matches!(variable, "this" | "self") || is_reserved(variable)
}
