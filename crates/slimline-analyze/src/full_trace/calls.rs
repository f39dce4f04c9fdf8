//! Which functions of the program run within which: from records of their beginnings and ends.
//!
//! A function that `longjmp` leaves, or an exception for which it has nothing to do, has no end: it ends with the one around it
//! that has. Where a call took its caller's place on the stack, the caller has ended before.

use rustc_hash::FxHashMap;
use slimline_trace::stream::decode::{Program, SiteId};
use slimline_trace::stream::sites::{Name, SiteKind};

/// A function, by a number of our own.
type FunctionNumber = u32;
/// Who called for something, by a number of our own.
pub(super) type PathNumber = u32;
/// Functions of a path, the innermost first; what they were called by is not told apart.
const MOST_FUNCTIONS: usize = 8;
/// Functions within each other that are kept; deeper ones are only counted.
const MOST_DEEP: usize = 1 << 16;

/// What runs in a stream.
#[derive(Debug, Default)]
struct Running {
    /// The innermost last.
    functions: Vec<FunctionNumber>,
    /// How many run within these.
    deeper: u64,
}

/// The calls of all threads.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// By site: whose beginning or end it is; of others 0.
    by_site: Vec<FunctionNumber>,
    /// Where each begins, or ends.
    functions: Vec<SiteId>,
    /// By index in [`Program::modules`] and name as linked.
    numbers: FxHashMap<(u32, Name), FunctionNumber>,
    /// By process and stream.
    running: FxHashMap<(u32, u32), Running>,
    paths: Vec<Vec<FunctionNumber>>,
    path_numbers: FxHashMap<Vec<FunctionNumber>, PathNumber>,
}

impl Calls {
    pub(super) fn make_room(&mut self, program: &Program) {
        for site in self.by_site.len()..program.site_count() {
            let id = SiteId(site as u32);
            let (_, site) = program.site(id);
            let number = match site.kind {
                SiteKind::Enter | SiteKind::Leave => self.number((program.module_index(id), site.function), id),
                _ => 0,
            };
            self.by_site.push(number);
        }
    }

    fn number(&mut self, linked: (u32, Name), entry: SiteId) -> FunctionNumber {
        let Self { numbers, functions, .. } = self;
        *numbers.entry(linked).or_insert_with(|| {
            functions.push(entry);
            functions.len() as u32 - 1
        })
    }

    /// The function of this site begins.
    pub(super) fn begin(&mut self, stream: (u32, u32), site: SiteId) {
        let running = self.running.entry(stream).or_default();
        if running.functions.len() < MOST_DEEP {
            running.functions.push(self.by_site[site.0 as usize]);
        } else {
            running.deeper += 1;
        }
    }

    /// It is about to return.
    pub(super) fn end(&mut self, stream: (u32, u32), site: SiteId) {
        let function = self.by_site[site.0 as usize];
        let Some(running) = self.running.get_mut(&stream) else { return };
        if running.deeper > 0 {
            running.deeper -= 1;
        } else if let Some(at) = running.functions.iter().rposition(|it| *it == function) {
            running.functions.truncate(at);
        }
    }

    /// Who called for what the stream does now in this function: not the function itself, and one that calls itself once.
    pub(super) fn path(&mut self, stream: (u32, u32), function: (u32, Name)) -> PathNumber {
        let own = self.numbers.get(&function).copied();
        let running = self.running.get(&stream).map(|running| &*running.functions).unwrap_or_default();
        let mut path: Vec<FunctionNumber> = Vec::new();
        let mut before = own;
        for &function in running.iter().rev() {
            if before != Some(function) {
                path.push(function);
                if path.len() == MOST_FUNCTIONS {
                    break;
                }
            }
            before = Some(function);
        }
        if let Some(number) = self.path_numbers.get(&path) {
            return *number;
        }
        self.paths.push(path.clone());
        let number = self.paths.len() as PathNumber - 1;
        self.path_numbers.insert(path, number);
        number
    }

    /// Sites of the functions of a path, the innermost first.
    pub(super) fn functions(&self, path: PathNumber) -> impl Iterator<Item = SiteId> {
        self.paths[path as usize].iter().map(|function| self.functions[*function as usize])
    }
}

#[cfg(test)]
mod tests {
    use slimline_trace::stream::sites::{ModuleBuilder, Site};

    use super::*;

    /// `main`, `walk` and `make`, each with a segment that begins it and one that ends it.
    fn calls() -> (Calls, [(u32, Name); 3]) {
        let mut builder = ModuleBuilder::new();
        let names = ["main", "walk", "make"].map(|name| builder.name(name));
        for function in names {
            for kind in [SiteKind::Enter, SiteKind::Leave] {
                builder.segment([Site { function, ..Site::new(kind, 0) }]);
            }
        }
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let mut calls = Calls::default();
        calls.make_room(&program);
        (calls, names.map(|name| (0, name)))
    }

    /// Names of who called for something in `make`, after these beginnings (upper case) and ends.
    fn path_after(run: &str) -> Vec<u32> {
        let (mut calls, [.., make]) = calls();
        for what in run.chars() {
            let function = "mwk".find(what.to_ascii_lowercase()).unwrap() as u32;
            if what.is_ascii_uppercase() {
                calls.begin((0, 0), SiteId(2 * function));
            } else {
                calls.end((0, 0), SiteId(2 * function + 1));
            }
        }
        let path = calls.path((0, 0), make);
        calls.functions(path).map(|site| site.0 / 2).collect()
    }

    #[test]
    fn paths_are_of_what_runs() {
        assert_eq!(path_after("MWK"), [1, 0]);
        assert_eq!(path_after("MKkWK"), [1, 0]);
        assert_eq!(path_after("MWwK"), [0]);
        // Recursion is one.
        assert_eq!(path_after("MWWWWK"), [1, 0]);
        assert_eq!(path_after("MKKK"), [0]);
        assert_eq!(path_after("MWMWK"), [1, 0, 1, 0]);
        // Nobody told that `walk` ended: `main` has.
        assert_eq!(path_after("MWmK"), Vec::<u32>::new());
        // The end of what began before tracing did.
        assert_eq!(path_after("wMK"), [0]);
        // In code without records of its own beginning.
        assert_eq!(path_after("MW"), [1, 0]);
    }

    #[test]
    fn paths_have_an_end_and_streams_are_apart() {
        assert_eq!(path_after(&("MW".repeat(20) + "K")).len(), MOST_FUNCTIONS);
        let (mut calls, [_, walk, make]) = calls();
        calls.begin((0, 0), SiteId(0));
        calls.begin((0, 1), SiteId(2));
        assert_ne!(calls.path((0, 0), make), calls.path((0, 1), make));
        assert_eq!(calls.path((0, 2), make), calls.path((0, 1), walk), "nobody");
        for _ in 0..2 * MOST_DEEP {
            calls.begin((0, 0), SiteId(2));
        }
        assert_eq!(calls.running[&(0, 0)].functions.len(), MOST_DEEP);
        for _ in 0..2 * MOST_DEEP {
            calls.end((0, 0), SiteId(3));
        }
        assert_eq!(calls.running[&(0, 0)].functions, [0], "`main` goes on");
    }
}
