//! A run's site tables while they grow, for several threads: code that is translated is found as long as the program runs.
//!
//! Each thread has a [`Program`] of its own, so that nobody waits for who adds to it, and none is copied. What they have in common are the
//! modules, in one order, by which sites and segments have the same numbers in all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::decode::Program;
use super::record::ModuleId;
use super::sites::{Module, SitesError};

/// Modules in the order in which they were added; never fewer.
type Modules = Arc<Mutex<Vec<(ModuleId, Arc<Module>)>>>;

fn locked(modules: &Modules) -> MutexGuard<'_, Vec<(ModuleId, Arc<Module>)>> {
    // Only ever added to: whole whoever panicked.
    modules.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tables of who adds to them.
#[derive(Debug, Default)]
pub struct GrowingProgram {
    program: Program,
    modules: Modules,
}

/// What was known at some time.
#[derive(Clone, Debug, Default)]
pub struct Known {
    modules: Modules,
    count: usize,
}

impl GrowingProgram {
    /// What is known of another one. What is added to one of them the other does not get.
    pub fn of(known: &Known) -> Self {
        let mut program = Program::default();
        program.learn(known);
        let modules = locked(&known.modules)[..known.count].to_vec();
        Self { program, modules: Arc::new(Mutex::new(modules)) }
    }

    /// Adds the modules of a section of site tables, and that of the runtime, but those that are there. False where the section has
    /// none.
    pub fn add_section(&mut self, section: &[u8]) -> Result<bool, SitesError> {
        let modules = Module::read_section(section)?;
        let has_any = !modules.is_empty();
        let mut added = locked(&self.modules);
        for (id, module) in modules.into_iter().chain(has_any.then(Module::of_runtime)) {
            if !self.program.has(id, &module) {
                let module = Arc::new(module);
                self.program.add(id, Arc::clone(&module));
                added.push((id, module));
            }
        }
        Ok(has_any)
    }

    /// All that there is by now.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The same for another thread.
    pub fn known(&self) -> Known {
        Known { modules: Arc::clone(&self.modules), count: self.program.modules().len() }
    }
}

impl Program {
    /// Adds what is new since it learned of the same run's last.
    pub fn learn(&mut self, known: &Known) {
        let before = self.modules().len();
        if before < known.count {
            let new = locked(&known.modules)[before..known.count].to_vec();
            new.into_iter().for_each(|(id, module)| self.add(id, module));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::sites::{ModuleBuilder, Site, SiteKind};

    fn section(name: &str, sites: usize) -> Vec<u8> {
        let mut builder = ModuleBuilder::new();
        builder.segment(vec![Site::new(SiteKind::Load, 8); sites]);
        builder.finish(name, "a.o", "/", "test").encode().1
    }

    #[test]
    fn who_learns_later_has_the_same_numbers() {
        let mut growing = GrowingProgram::default();
        assert_eq!(growing.add_section(&section("a.c", 2)), Ok(true));
        let first = growing.known();
        // It is there already; and no table at all.
        assert_eq!((growing.add_section(&section("a.c", 2)), growing.add_section(&[])), (Ok(true), Ok(false)));
        assert_eq!(growing.add_section(&section("b.c", 3)), Ok(true));
        let (mut early, mut late) = (Program::new(), Program::new());
        early.learn(&first);
        assert_eq!((early.modules().len(), early.site_count()), (2, 9));
        for _ in 0..2 {
            early.learn(&growing.known());
            late.learn(&growing.known());
        }
        // What was known before is known still.
        late.learn(&first);
        let headers = |of: &Program| of.segments().iter().map(|segment| segment.header).collect::<Vec<_>>();
        for of in [&early, &late] {
            assert_eq!((of.modules().len(), of.site_count(), headers(of)), (3, 12, headers(growing.program())));
        }
        assert!(growing.add_section(b"slimsite").is_err());
    }

    #[test]
    fn what_is_added_to_another_one_stays_there() {
        let mut first = GrowingProgram::default();
        first.add_section(&section("a.c", 2)).unwrap();
        let known = first.known();
        first.add_section(&section("b.c", 3)).unwrap();
        let mut second = GrowingProgram::of(&known);
        second.add_section(&section("c.c", 4)).unwrap();
        let modules = |of: &GrowingProgram| of.program().modules().len();
        // With that of the runtime.
        assert_eq!((modules(&first), modules(&second)), (3, 3));
        let mut learned = Program::new();
        learned.learn(&second.known());
        assert_eq!((learned.modules().len(), learned.site_count()), (3, second.program().site_count()));
        assert_ne!(first.program().site_count(), second.program().site_count());
    }
}
