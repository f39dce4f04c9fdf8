//! Arrays of parts in the place of one array.
//!
//! All objects of the structure must be elements of one array: a variable, or what a single call allocates that runs once. A pointer to an element
//! stays a pointer to its first part, which tells its number, and with that the other parts: `p->f` becomes `items_of_f[p - items].f`. Where a
//! variable always points to the first element ([`crate::flows`]), `v[i].f` becomes `items_of_f[i].f`.

use rustc_hash::FxHashSet;

use crate::allocation::{Allocation, Allocator};
use crate::hot_cold::not_in_parts;
use crate::tree::Place;
use crate::uses::{Member, Use, Variable, What};
use crate::{Patching, Refusal};

/// Names of a part's fields that its own name is made of at most.
const NAMED: usize = 2;

/// Where the array comes from.
#[derive(Clone, Copy)]
enum Array<'a> {
    Allocated(&'a Use, &'a Allocation),
    Declared(&'a Use, &'a Variable),
}

/// A part that gets an array of its own.
struct Part<'p> {
    fields: &'p [usize],
    structure: String,
    array: String,
}

impl<'a> Patching<'a> {
    /// Leaves the first part where it is, and gives the others arrays of their own.
    pub(crate) fn split(&mut self, parts: &[Vec<usize>]) -> Result<(), Refusal> {
        let found = self.found;
        let definition = &found.definition;
        for use_ in &found.uses.all {
            if let Some(why) = Self::never(&use_.what).or_else(|| not_in_parts(&use_.what)) {
                return Err(self.refuse(use_, why));
            }
        }
        let array = self.only_array()?;
        let plain = found.plain_name();
        let items = match array {
            Array::Declared(_, variable) => variable.name.clone(),
            Array::Allocated(..) => found.new_name(&format!("{plain}_items")),
        };
        let of_part = |fields: &'_ Vec<usize>| {
            let names: Vec<&str> = fields.iter().map(|field| definition.fields[*field].name.as_str()).collect();
            let name = if names.len() > NAMED { format!("{}_etc", names[..NAMED].join("_")) } else { names.join("_") };
            (found.new_name(&format!("{plain}_{name}")), found.new_name(&format!("{plain}_{name}_items")))
        };
        let apart: Vec<Part<'_>> = parts[1..]
            .iter()
            .map(|fields| {
                let (structure, array) = of_part(fields);
                Part { fields, structure, array }
            })
            .collect();
        let part_of = |field: usize| apart.iter().find(|part| part.fields.contains(&field));
        let declared = match array {
            Array::Declared(_, variable) => Some(variable.key.as_str()),
            Array::Allocated(..) => None,
        };
        let beginnings = found.uses.flows.beginnings(declared);
        let (mut stores, mut needs_items) = (Vec::new(), false);
        for use_ in &found.uses.all {
            match &use_.what {
                What::Member(of) if of.is_of_null => {
                    return Err(self.refuse(use_, "the offset of a member is asked for"));
                }
                What::Member(of) => {
                    if let Some(part) = part_of(of.field) {
                        self.is_behind_definition(use_, of)?;
                        needs_items |= self.access(use_, of, (&part.array, &items), (&beginnings, declared))?;
                    }
                }
                What::Variable(_) => return Err(self.refuse(use_, "this variable is one, and no element of the array")),
                What::Store(store) => stores.push((use_, store)),
                _ => {}
            }
        }
        let source = found.source();
        let gone: Vec<usize> = parts[1..].concat();
        for number in 0..definition.declarations.len() {
            if let Some((start, end, text)) = definition.without(source, number, &gone) {
                self.edits.replace(definition.file, (start, end), text);
            }
        }
        let indentation = definition.indentation(source);
        let mut code = String::new();
        for part in &apart {
            let fields = definition.text(source, part.fields, indentation, "");
            code += &format!("struct {} {{\n{fields}}};\n", part.structure);
        }
        let type_name = found.type_name();
        match array {
            Array::Allocated(_, allocation) => {
                code += &self.allocated(allocation, &apart, (&items, needs_items || !stores.is_empty()))?;
            }
            Array::Declared(use_, variable) => self.declared(use_, variable, &apart)?,
        }
        if !stores.is_empty() {
            let place = |field: usize| {
                let name = &definition.fields[field].name;
                part_of(field)
                    .map_or_else(|| format!("to->{name}"), |part| format!("{}[to - {items}].{name}", part.array))
            };
            if matches!(array, Array::Declared(..)) {
                return Err(self.refuse(stores[0].0, "a literal is stored in an array that is a variable"));
            }
            let store = found.new_name(&format!("{plain}_store"));
            code += "\n";
            code += &self.stores(&stores, (&store, &type_name), &place)?;
        }
        self.generate(&code, &["stdlib.h", "string.h"])
    }

    /// The array that all objects are elements of.
    fn only_array(&self) -> Result<Array<'a>, Refusal> {
        let mut only: Option<Array<'a>> = None;
        let found = self.found;
        for use_ in &found.uses.all {
            let array = match &use_.what {
                What::Allocation(allocation) => Array::Allocated(use_, allocation),
                What::Array(variable) => Array::Declared(use_, variable),
                _ => continue,
            };
            if only.is_some() {
                return Err(self.refuse(use_, "there is more than one array of it"));
            }
            only = Some(array);
        }
        match only {
            None => Err(Refusal::of("no source allocates an array of it")),
            Some(Array::Allocated(use_, allocation)) => {
                self.blocks()?;
                let is_once = allocation.within.as_deref().is_some_and(|function| found.uses.runs_once(function));
                if allocation.is_in_loop || !is_once {
                    return Err(self.refuse(
                        use_,
                        "this allocation may run several times, and parts of several arrays are not told apart",
                    ));
                }
                Ok(Array::Allocated(use_, allocation))
            }
            Some(Array::Declared(use_, variable)) => {
                if !variable.is_global
                    || variable.initializer.is_some()
                    || variable.storage == "extern"
                    || variable.is_of_thread
                {
                    return Err(self.refuse(
                        use_,
                        "only arrays outside of functions, of all threads, and that hold nothing at first, are parted",
                    ));
                }
                Ok(Array::Declared(use_, variable))
            }
        }
    }

    /// Names the array that a field is in; whether that takes the first part's.
    fn access(
        &mut self,
        use_: &Use,
        member: &Member,
        (array, items): (&str, &str),
        (beginnings, declared): (&FxHashSet<String>, Option<&str>),
    ) -> Result<bool, Refusal> {
        if let Some((key, place)) = &member.indexed
            && (beginnings.contains(key) || declared == Some(key))
        {
            let (file, spot) = self.token(*place)?;
            self.edits.replace(file, (spot.offset, spot.end()), array);
            return Ok(false);
        }
        let is_plain = |place: Place| place.spelled == place.expanded;
        let (file, name) = self.token(member.name)?;
        let begin = match (is_plain(member.begin), is_plain(member.name)) {
            (true, true) => member.begin.spelled,
            // `AT(i)->f`, where all of the macro is the pointer.
            (false, true) if self.is_whole_macro(member) => member.begin.expanded,
            (false, false)
                if member.begin.expanded == member.name.expanded
                    && member.begin.is_in_macro == member.name.is_in_macro =>
            {
                member.begin.spelled
            }
            _ => {
                return Err(self.refuse(use_, "the macro in which this member is named does not name the element, too"));
            }
        };
        let operator = self.source(file).member_operator(name.offset).map(|(at, operator)| (at, operator.len()));
        let Some((at, length)) = operator.filter(|_| begin.file == Some(file) && begin.offset < name.offset) else {
            return Err(self.refuse(use_, "this use of a member is not understood"));
        };
        let address = if member.is_arrow { "" } else { "&" };
        self.edits.insert(file, begin.offset, format!("{array}[{address}"), name.offset);
        self.edits.replace(file, (at, at + length), format!(" - {items}]."));
        Ok(true)
    }

    /// Whether what a member is of is all that a macro makes, in parentheses.
    fn is_whole_macro(&self, member: &Member) -> bool {
        let (begin, end) = (member.begin, member.base_end);
        let Some(file) = begin.spelled.file.filter(|_| begin.is_in_macro && end.is_in_macro) else { return false };
        let text = &self.source(file).text;
        let line = text[..begin.spelled.offset].rfind('\n').map_or(0, |at| at + 1);
        let before = text[line..begin.spelled.offset].trim_start().trim_start_matches('#').trim_start();
        let Some(head) = before.strip_prefix("define") else { return false };
        let behind = text[end.spelled.end()..].lines().next().unwrap_or_default();
        // `COLD(arc)` or `FIRST`, and nothing more.
        let (name, parameters) = head.trim().split_once('(').unwrap_or((head.trim(), ")"));
        let is_word = |text: &str| text.chars().all(|c| c.is_alphanumeric() || c == '_');
        let is_head = is_word(name) && parameters.find(')') == Some(parameters.len() - 1);
        begin.expanded == end.expanded
            && is_head
            && behind.trim().is_empty()
            && text[begin.spelled.offset..].starts_with('(')
    }

    /// Code that allocates all arrays, and where they are declared.
    fn allocated(
        &mut self,
        allocation: &Allocation,
        parts: &[Part<'_>],
        (items, needs_items): (&str, bool),
    ) -> Result<String, Refusal> {
        let found = self.found;
        let [malloc, calloc, free] = self.functions();
        self.call_instead([&malloc, &calloc, &free])?;
        let type_name = found.type_name();
        let mut arrays: Vec<(String, &str)> =
            parts.iter().map(|part| (format!("struct {}", part.structure), part.array.as_str())).collect();
        if needs_items {
            arrays.insert(0, (type_name.clone(), items));
        }
        let declarations =
            |storage: &str| arrays.iter().map(|(of, name)| format!("{storage}{of} *{name};\n")).collect::<String>();
        let is_in_one_unit = found.units_with_definition == 1;
        let mut code = format!("\n/* The parts of the array of {type_name}, element by element. */\n");
        if is_in_one_unit {
            code += &declarations("static ");
        } else {
            code += &declarations("extern ");
            let (file, start, _) = self.range(allocation.within_begin, allocation.within_begin)?;
            self.edits.insert(file, start, format!("{}\n", declarations("")), start);
        }
        let is_calloc = allocation.allocator == Allocator::Calloc;
        let (function, parameters, bytes) = match is_calloc {
            true => (
                &calloc,
                "size_t number, size_t bytes",
                "(bytes && number > (size_t)-1 / bytes ? (size_t)-1 : number * bytes)",
            ),
            false => (&malloc, "size_t bytes", "bytes"),
        };
        let block = |of: &str| match is_calloc {
            true => format!("({of} *)calloc(count, sizeof({of}))"),
            false => format!("({of} *)malloc(count * sizeof({of}))"),
        };
        code += &format!(
            "\nstatic inline {type_name} *{function}({parameters})\n{{\n    size_t count = {bytes} / sizeof({type_name});\n    \
             {type_name} *items;\n    count = count ? count : 1;\n    items = {};\n",
            block(&type_name)
        );
        if needs_items {
            code += &format!("    {items} = items;\n");
        }
        let missing: Vec<String> = parts.iter().map(|part| format!("!{}", part.array)).collect();
        for part in parts {
            code += &format!("    {} = {};\n", part.array, block(&format!("struct {}", part.structure)));
        }
        let frees: String = parts.iter().map(|part| format!("        free({});\n", part.array)).collect();
        code += &format!(
            "    if (!items || {}) {{\n{frees}        free(items);\n        return NULL;\n    }}\n    return items;\n}}\n",
            missing.join(" || ")
        );
        if found.uses.all.iter().any(|use_| matches!(use_.what, What::Free(_))) {
            code += &format!(
                "\nstatic inline void {free}({type_name} *items)\n{{\n    if (items) {{\n{frees}        free(items);\n    }}\n}}\n"
            );
        }
        Ok(code)
    }

    /// Declares arrays of parts behind the array.
    fn declared(&mut self, use_: &Use, variable: &Variable, parts: &[Part<'_>]) -> Result<(), Refusal> {
        let (file, start, end) = self.range(variable.begin, variable.place)?;
        let source = self.source(file);
        let refused = || self.refuse(use_, "this array's declaration is not understood");
        let tokens = source.tokens(end, source.text.len()).ok_or_else(refused)?;
        let length = tokens.iter().position(|token| token.is(";")).ok_or_else(refused)?;
        if tokens[..length].iter().any(|token| token.is(",")) || start > end {
            return Err(refused());
        }
        let dimensions = source.text.get(end..tokens[length].start).unwrap_or_default().to_owned();
        let behind = tokens[length].end;
        let storage = if variable.storage == "static" { "static " } else { "" };
        let arrays =
            parts.iter().map(|part| format!("\n{storage}struct {} {}{dimensions};", part.structure, part.array));
        let arrays: String = arrays.collect();
        self.edits.insert(file, behind, arrays, behind);
        Ok(())
    }
}
