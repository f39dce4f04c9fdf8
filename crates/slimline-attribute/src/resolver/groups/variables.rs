//! Variables: of modules, of threads, of frames, and those that an imported file names.

use std::rc::Rc;

use slimline_trace::address::{Avma, Svma};
use slimline_trace::tables::Name;

use super::{GroupKey, Groups, ObjectKey, Origin, row_of};
use crate::data::address_space::{Loaded, MappingName};
use crate::data::timed::Extent;
use crate::module::{Module, demangle};
use crate::resolver::frames::OnStack;
use crate::resolver::{Place, ProcessView, Reason};
use crate::tables::GroupKind;

/// A thread's block of thread-local storage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage {
    /// Number of the module whose variables are there, where that is known.
    pub(super) module: Option<usize>,
    /// Whether it is a module's at all.
    pub(super) is_a_modules: bool,
    pub(super) base: u64,
    pub(super) bytes: u64,
    /// Row of the ranges.
    pub(super) row: Option<usize>,
}

impl Groups {
    /// A variable that an imported file names by itself.
    pub(super) fn named(&mut self, view: ProcessView<'_, '_>, name: &Name) -> (Place, Extent) {
        let group = self.group(GroupKey::Named(name.name.clone()), || row_of(&name.name, GroupKind::Named));
        let (start, end) = (name.start.0, name.end.0);
        // One byte is a place whose size nobody told.
        let bytes = Some(end - start).filter(|&bytes| bytes > 1).unwrap_or(0);
        let place = self.object(ObjectKey::Static(view.id, group, start), group, start, bytes);
        (place, Extent { start, end, ..Extent::ALL })
    }

    /// Of a place on a stack: the variable there, where it is more than a number. Numbers and saved registers stay one
    /// group, as nobody would read a row for each.
    pub(in crate::resolver) fn on_stack(&mut self, view: ProcessView<'_, '_>, place: Place, found: OnStack) -> Place {
        match found {
            OnStack::Local { module: number, function, layout, local, start } => {
                let module = view.modules.get(number);
                let key = GroupKey::Local(self.identity(number, module), function, local);
                let variable = &layout.locals()[local];
                let name = || {
                    let frames = module.frames(function);
                    format!("{} in {}", variable.name, frames.last().map_or("?", |frame| &frame.function))
                };
                let group = self.group(key, || row_of(&name(), GroupKind::Stack));
                self.origins[group.index()].get_or_insert_with(|| Origin::Local(number, Rc::clone(&layout), local));
                self.object(ObjectKey::Static(view.id, group, start), group, start, variable.bytes)
            }
            OnStack::Frame => place,
            OnStack::Unknown => {
                let group = self.group(GroupKey::Frameless, || row_of("stack, frame not known", GroupKind::Stack));
                self.lacks(group, Reason::NoFrame, None);
                self.object(ObjectKey::Static(view.id, group, place.base), group, place.base, 0)
            }
        }
    }

    /// Of a place that may be a stack or not, as both lie in one mapping: where that is none of the kernel's stacks.
    pub(in crate::resolver) fn in_arena(
        &mut self,
        view: ProcessView<'_, '_>,
        address: Avma,
        time_ns: u64,
    ) -> Option<Place> {
        let space = &view.process.space;
        let row = space.mapping_at(address.0, time_ns)?;
        let name = match space.name(row) {
            MappingName::Anonymous => "anonymous memory",
            MappingName::Special(name) => name,
            MappingName::Heap | MappingName::Stack | MappingName::File(_) => return None,
        };
        let whole = space.whole(row);
        let group = self.other_mapping(name);
        let key = ObjectKey::Static(view.id, group, whole.base);
        Some(self.object(key, group, whole.base, whole.end - whole.start))
    }

    fn identity(&mut self, number: usize, module: &Module<'_>) -> Rc<str> {
        Rc::clone(self.identities.entry(number).or_insert_with(|| Rc::from(module.identity())))
    }

    /// A module's variable, or its section where no symbol names it.
    pub(super) fn of_module(&mut self, view: ProcessView<'_, '_>, loaded: Loaded, address: Avma) -> (Place, Extent) {
        let module = view.modules.get(loaded.module);
        let svma = loaded.svma(address);
        let identity = self.identity(loaded.module, module);
        if let Some(variable) = module.symbols().variable_at(svma) {
            let bytes = variable.bytes.max(1);
            let key = GroupKey::Static(identity, variable.start);
            let group = self.group(key, || row_of(&demangle(variable.name), GroupKind::Static));
            self.origins[group.index()].get_or_insert(Origin::Static(loaded.module, variable.start));
            let start = variable.start.to_avma(loaded.bias).0;
            let place = self.object(ObjectKey::Static(view.id, group, start), group, start, bytes);
            return (place, Extent { start, end: start.saturating_add(bytes), ..Extent::ALL });
        }
        let (start, end, section) =
            module.image().and_then(|image| image.section_at(svma)).unwrap_or_else(|| outside_sections(svma));
        let name = format!("{} {section}", module.file_name()).trim_end().to_owned();
        let key = GroupKey::Section(identity, section.to_owned());
        let group = self.group(key, || row_of(&name, GroupKind::Static));
        self.lacks(group, Reason::NoVariable, Some(loaded.module));
        let place = self.object(
            ObjectKey::Static(view.id, group, start.to_avma(loaded.bias).0),
            group,
            start.to_avma(loaded.bias).0,
            end.0 - start.0,
        );
        // The next symbol ends what no symbol names.
        let (gap_start, gap_end) = module.symbols().gap_at(svma, start, end);
        let extent =
            Extent { start: gap_start.to_avma(loaded.bias).0, end: gap_end.to_avma(loaded.bias).0, ..Extent::ALL };
        (place, extent)
    }

    /// A thread's instance of a thread-local variable, or what of its storage no symbol names.
    pub(super) fn thread_local(&mut self, view: ProcessView<'_, '_>, row: usize, address: Avma) -> (Place, Extent) {
        let ranges = view.process.tables.ranges;
        let bias = ranges.source[row].module_bias;
        let module = bias.and_then(|bias| view.process.space.module_with_bias(bias)).map(|loaded| loaded.module);
        let (base, bytes) = (ranges.base[row].0, ranges.bytes[row]);
        let storage = Storage { module, is_a_modules: bias.is_some(), base, bytes, row: Some(row) };
        self.in_storage(view, storage, address)
    }

    /// The same of a thread's block of thread-local storage.
    pub(super) fn in_storage(&mut self, view: ProcessView<'_, '_>, storage: Storage, address: Avma) -> (Place, Extent) {
        let Storage { module: number, is_a_modules, base, bytes, row } = storage;
        let (offset, end) = (Svma(address.0 - base), Svma(bytes));
        let module = number.map(|number| view.modules.get(number));
        let variable = module.and_then(|module| module.symbols().thread_local_at(offset));
        let (group, (start, end)) = match (number, module, variable) {
            (Some(number), Some(module), Some(variable)) => {
                let key = GroupKey::ThreadLocal(self.identity(number, module), variable.start);
                let name = || thread_local_name(&demangle(variable.name)).to_owned();
                let group = self.group(key, || row_of(&name(), GroupKind::ThreadLocal));
                self.origins[group.index()].get_or_insert(Origin::ThreadLocal(number, variable.start));
                (group, (variable.start, Svma(variable.start.0.saturating_add(variable.bytes.max(1)))))
            }
            _ => {
                let name = match module {
                    Some(module) => format!("thread-local storage of {}", module.file_name()),
                    None if is_a_modules => "thread-local storage".to_owned(),
                    None => "thread control block".to_owned(),
                };
                let group = self.group(GroupKey::Storage(name.clone()), || row_of(&name, GroupKind::ThreadLocal));
                if is_a_modules {
                    self.lacks(group, Reason::NoVariable, number);
                }
                (group, module.map_or((Svma(0), end), |module| module.symbols().thread_local_gap_at(offset, end)))
            }
        };
        let start_avma = base.saturating_add(start.0);
        let key = match row {
            Some(row) => ObjectKey::InRange(view.id, row, start_avma),
            None => ObjectKey::Static(view.id, group, start_avma),
        };
        let place = self.object(key, group, start_avma, end.0.saturating_sub(start.0));
        (place, Extent { start: start_avma, end: base.saturating_add(end.0), ..Extent::ALL })
    }
}

/// First address, end and name of what is in no section: the byte. A damaged file may have it at the end of all addresses.
fn outside_sections<'a>(svma: Svma) -> (Svma, Svma, &'a str) {
    let start = svma.min(Svma(u64::MAX - 1));
    (start, Svma(start.0 + 1), "")
}

/// Rust's `thread_local!` makes a variable in a closure in a constant: `seen::CACHE::{{constant}}::{{closure}}::VAL`.
fn thread_local_name(name: &str) -> &str {
    name.find("::{{constant}}").or_else(|| name.find("::{constant#")).map_or(name, |end| &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_all_addresses_has_an_end() {
        assert_eq!(outside_sections(Svma(7)), (Svma(7), Svma(8), ""));
        assert_eq!(outside_sections(Svma(u64::MAX)), (Svma(u64::MAX - 1), Svma(u64::MAX), ""));
    }

    #[test]
    fn names_of_thread_locals_are_those_of_the_source() {
        assert_eq!(thread_local_name("seen::CACHE::{{constant}}::{{closure}}::VAL"), "seen::CACHE");
        assert_eq!(thread_local_name("seen::CACHE::{constant#0}::{closure#1}::VAL"), "seen::CACHE");
        assert_eq!(thread_local_name("errno"), "errno");
    }
}
