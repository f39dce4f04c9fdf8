//! Types that a trace's own site tables declare: no program and no debug information is needed for them.

use std::ops::Range;

use rustc_hash::FxHashMap;
use slimline_trace::stream::decode::Program;
use slimline_trace::stream::sites::{Member, Module, Structure};

use super::layouts::{DeclaredField, DeclaredType, Figures};
use crate::declared_layout::lines;

/// All types of a traced program that have a name and are not the system's, each once.
pub fn types(program: &Program) -> Vec<DeclaredType> {
    let mut types: Vec<DeclaredType> = Vec::new();
    // Those of one name, as there may be many thousands of others.
    let mut of_name: FxHashMap<String, Vec<usize>> = FxHashMap::default();
    for (_, module) in program.modules() {
        for (number, structure) in module.structures.iter().enumerate() {
            if structure.name.is_none() || structure.is_foreign {
                continue;
            }
            let type_ = declared(module, number, structure);
            let known = of_name.entry(type_.name.clone()).or_default();
            if known.iter().all(|&at| types[at] != type_) {
                known.push(types.len());
                types.push(type_);
            }
        }
    }
    types
}

fn declared(module: &Module, number: usize, structure: &Structure) -> DeclaredType {
    let (mut fields, mut own) = (Vec::new(), Vec::new());
    add_members(module, (number, structure), (0, ""), true, (&mut fields, &mut own));
    fields.sort_by_key(|field| field.offset);
    let bytes = u64::from(structure.size_bytes);
    own.sort_unstable_by_key(|range| (range.start, range.end));
    let mut figures = Figures { bytes, lines: lines(bytes), ..Figures::default() };
    let mut end = 0;
    for range in &own {
        figures.hole_bytes += range.start.saturating_sub(end);
        end = end.max(range.end);
    }
    if !own.is_empty() {
        figures.padding_bytes = bytes.saturating_sub(end);
    }
    DeclaredType { name: module.name(structure.name).to_owned(), place: None, figures, fields }
}

/// Adds the fields of a structure that lies at an offset in another one, by their paths, and where `is_own` the bytes that are its members':
/// holes of a structure within it that has a name are told with that one.
fn add_members(
    module: &Module,
    (number, structure): (usize, &Structure),
    (base, path): (u64, &str),
    is_own: bool,
    (fields, own): (&mut Vec<DeclaredField>, &mut Vec<Range<u64>>),
) {
    for member in &structure.members {
        let offset = base + u64::from(member.offset_bytes);
        let bytes = u64::from(member.size_bytes);
        let name = module.name(member.name);
        let path = match (path.is_empty(), name.is_empty()) {
            (true, _) => name.to_owned(),
            (false, true) => path.to_owned(),
            (false, false) => format!("{path}.{name}"),
        };
        let inner = inner(module, number, member);
        let is_looked_through = inner.is_some_and(|(_, inner)| name.is_empty() && inner.name.is_none());
        if is_own && !is_looked_through {
            own.push(offset..offset + bytes);
        }
        match inner {
            Some(inner) => add_members(module, inner, (offset, &path), is_own && is_looked_through, (fields, own)),
            None => fields.push(DeclaredField { path, offset, bytes, heat: 0.0 }),
        }
    }
}

/// The structure that a member is, not an array of; what a structure is made of stands before it.
fn inner<'m>(module: &'m Module, number: usize, member: &Member) -> Option<(usize, &'m Structure)> {
    let inner = member.structure? as usize;
    let structure = module.structures.get(inner).filter(|_| inner < number)?;
    (structure.size_bytes == member.size_bytes && !structure.members.is_empty()).then_some((inner, structure))
}

#[cfg(test)]
mod tests {
    use slimline_trace::stream::sites::ModuleBuilder;

    use super::*;

    /// struct body { int id; double pos[6]; char tag; struct { double x, y; }; struct pair { char c; long n; } p; };
    #[test]
    fn holes_and_fields_are_those_of_the_declaration() {
        let mut builder = ModuleBuilder::new();
        let mut member = |name: &str, offset_bytes, size_bytes, structure| Member {
            name: builder.name(name),
            offset_bytes,
            size_bytes,
            structure,
            ..Member::default()
        };
        let pair = vec![member("c", 0, 1, None), member("n", 8, 8, None)];
        let unnamed = vec![member("x", 0, 8, None), member("y", 8, 8, None)];
        let body = vec![
            member("id", 0, 4, None),
            member("pos", 8, 48, None),
            member("tag", 56, 1, None),
            member("", 64, 16, Some(1)),
            member("p", 80, 16, Some(0)),
        ];
        let name = |builder: &mut ModuleBuilder, name: &str| builder.name(name);
        let structures = [
            Structure { name: name(&mut builder, "pair"), size_bytes: 16, members: pair, ..Structure::default() },
            Structure { size_bytes: 16, members: unnamed, ..Structure::default() },
            Structure { name: name(&mut builder, "body"), size_bytes: 104, members: body, ..Structure::default() },
        ];
        for structure in structures {
            builder.structure(structure);
        }
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let types = types(&program);
        assert_eq!(types.iter().map(|type_| type_.name.as_str()).collect::<Vec<_>>(), ["pair", "body"]);
        assert_eq!(types[0].figures, Figures { bytes: 16, lines: 1, hole_bytes: 7, padding_bytes: 0 });
        assert_eq!(types[1].figures, Figures { bytes: 104, lines: 2, hole_bytes: 4 + 7, padding_bytes: 8 });
        let fields: Vec<(&str, u64)> =
            types[1].fields.iter().map(|field| (field.path.as_str(), field.offset)).collect();
        let expected = [("id", 0), ("pos", 8), ("tag", 56), ("x", 64), ("y", 72), ("p.c", 80), ("p.n", 88)];
        assert_eq!(fields, expected);
    }
}
