//! What is known of an access: where it was written, which variable, which member of which type.

mod layout;
mod object;
mod position;
mod rust;
mod spelling;

use std::collections::HashMap;

use slimline_trace::stream::sites::{self, CopySource, ModuleBuilder, Site, SiteKind, ValueKind};

use crate::llvm::{
    Block, Expressions, Function, Metadata, MetadataKind, Module, Opcode, ToldVariable, TypeKind, Value,
};
use layout::{Extent, Layouts, Member};
use object::Told;
use position::Positions;
pub(crate) use position::written;
pub(crate) use rust::unit;

/// Most structures within structures that are declared.
const MAX_DEPTH: u32 = 16;

/// Answers for one module.
pub(crate) struct Names<'m> {
    positions: Positions<'m>,
    layouts: Layouts<'m>,
    told: HashMap<Value<'m>, Told<'m>>,
    /// Types by the name that type-based aliasing gives them: identifiers in C++, names in C.
    by_name: HashMap<String, Metadata<'m>>,
    /// Structures that the site table has, by their declarations and whether they have a name there: what has none of its own is
    /// given one where it is no member.
    declared: HashMap<(Metadata<'m>, bool), u32>,
    type_based_aliasing: u32,
    heap_allocation_site: u32,
}

impl<'m> Names<'m> {
    /// Reads the debug information of the module.
    pub(crate) fn new(module: &'m Module<'_>) -> Self {
        let layouts = Layouts::new(module);
        let mut names = Self {
            positions: Positions::new(module),
            told: HashMap::new(),
            by_name: HashMap::new(),
            declared: HashMap::new(),
            type_based_aliasing: module.metadata_kind("tbaa"),
            heap_allocation_site: module.metadata_kind("heapallocsite"),
            layouts,
        };
        names.read_variables(module);
        names
    }

    /// A function into which another was inlined as a version of it, with blocks of that version: what is in it was written in the
    /// other.
    pub(crate) fn is_version(&mut self, function: Function<'m>, blocks: &[Block<'m>]) {
        let Some(described) = function.subprogram() else { return };
        let mut locations = blocks.iter().flat_map(|block| block.instructions()).filter_map(Value::location);
        if let Some(original) = locations.find_map(|location| Positions::inlined_into(location, described)) {
            self.positions.is_version(described, original);
        }
    }

    /// The directory that the unit was compiled in.
    pub(crate) fn directory(&self) -> &str {
        self.positions.directory()
    }

    #[expect(clippy::mutable_key_type, reason = "handles are compared by what they point to, which stays")]
    fn read_variables(&mut self, module: &'m Module<'_>) {
        let expressions = Expressions::new(module, self.layouts.is_rust);
        let mut seen = std::collections::HashSet::new();
        let mut nodes = module.named_metadata(c"llvm.dbg.cu");
        for function in module.defined_functions() {
            nodes.extend(function.subprogram());
            for instruction in function.blocks().into_iter().flat_map(|block| block.instructions()) {
                for told in module.told_variables(instruction, &expressions) {
                    nodes.push(told.variable);
                    self.tell(told.value, Told::new(&told, self.layouts.is_rust));
                    self.tell_kept(told);
                }
            }
        }
        // All types that anything here refers to.
        while let Some(node) = nodes.pop() {
            if !seen.insert(node) {
                continue;
            }
            if node.kind() == MetadataKind::CompositeType {
                for name in self.layouts.names(node) {
                    self.by_name.entry(name).or_insert(node);
                }
            }
            nodes.extend(node.operands().into_iter().flatten().map(Value::as_metadata));
        }
    }

    /// What rustc keeps in a variable's place for debuggers only: it uses the value that it stores there.
    fn tell_kept(&mut self, told: ToldVariable<'m>) {
        const VALUE: u32 = 0;
        const PLACE: u32 = 1;
        if !self.layouts.is_rust || !told.is_place || told.value.opcode() != Some(Opcode::Alloca) {
            return;
        }
        for user in told.value.users() {
            if user.opcode() == Some(Opcode::Store)
                && user.operand(PLACE) == Some(told.value)
                && let Some(value) = user.operand(VALUE).filter(|value| value.r#type().kind() == TypeKind::Pointer)
            {
                let kept = ToldVariable { value, is_place: false, ..told };
                self.tell(value, Told::new(&kept, true));
            }
        }
    }

    /// Fills in what is known of the access of `instruction` to `pointer`.
    pub(crate) fn describe(
        &mut self,
        table: &mut ModuleBuilder,
        site: &mut Site,
        instruction: Value<'m>,
        pointer: Option<Value<'m>>,
    ) {
        site.frame = self.frame(table, instruction);
        let Some(pointer) = pointer else { return };
        // As many bytes as are known to lie together.
        let bytes = match site.kind {
            SiteKind::Copy | SiteKind::Fill => {
                const LENGTH: u32 = 2;
                let length = instruction.operand(LENGTH).and_then(Value::constant);
                length.and_then(|length| u64::try_from(length).ok()).unwrap_or(0)
            }
            _ => u64::from(site.size_bytes) * u64::from(site.lanes),
        };
        let extent = Extent { bytes, kind: kind_of_value(instruction) };
        if site.kind == SiteKind::Copy {
            const FROM: u32 = 1;
            site.source = instruction.operand(FROM).map(|from| self.describe_source(table, from, extent));
        }
        site.variable = table.name(&self.variable(pointer, 0).unwrap_or_default());
        let by_aliasing = self.member_by_aliasing(instruction, extent);
        // What the front end says of an access is right wherever its pointer comes from.
        let others = if by_aliasing.is_some() { Vec::new() } else { self.ways(pointer) };
        let member = by_aliasing.or_else(|| self.member_by_debug_information(pointer, extent));
        let mut accessed = member.as_ref().and_then(|member| member.r#type);
        if let Some(Member { structure, field, offset_bytes, of, .. }) = member {
            site.structure = table.name(&structure);
            site.field = table.name(&field);
            site.offset_bytes = u32::try_from(offset_bytes).ok();
            self.declare(table, site.structure, of, 0);
        } else if site.value == Some(ValueKind::Integer) {
            accessed = self.object(pointer, 0).map(|object| object.r#type);
        }
        if site.value == Some(ValueKind::Integer)
            && let Some(is_signed) = accessed.and_then(|r#type| self.layouts.is_signed(r#type, bytes))
        {
            site.value = Some(if is_signed { ValueKind::Signed } else { ValueKind::Unsigned });
        }
        for (of, name) in others.into_iter().flatten() {
            let name = table.name(&name);
            if name != site.structure {
                site.other_structure = name;
                self.declare(table, name, of, 0);
                break;
            }
        }
    }

    /// What is known of the place that is copied from.
    fn describe_source(&mut self, table: &mut ModuleBuilder, from: Value<'m>, extent: Extent) -> CopySource {
        let mut source =
            CopySource { variable: table.name(&self.variable(from, 0).unwrap_or_default()), ..CopySource::default() };
        if let Some(Member { structure, field, offset_bytes, of, .. }) = self.member_by_debug_information(from, extent)
        {
            source.structure = table.name(&structure);
            source.field = table.name(&field);
            source.offset_bytes = u32::try_from(offset_bytes).ok();
            self.declare(table, source.structure, of, 0);
        }
        source
    }

    /// Where an instruction was written; what the compiler put in is somewhere in its function.
    fn frame(&mut self, table: &mut ModuleBuilder, instruction: Value<'m>) -> Option<u32> {
        let written = instruction.location().and_then(|location| self.positions.frame(table, location));
        written.or_else(|| {
            let function = instruction.block()?.function().subprogram()?;
            Some(self.positions.frame_of_function(table, function))
        })
    }

    /// Adds a structure's declaration, unless there is one of that name; its index. `depth` is how many are around it.
    fn declare(
        &mut self,
        table: &mut ModuleBuilder,
        name: sites::Name,
        structure: Metadata<'m>,
        depth: u32,
    ) -> Option<u32> {
        let own = self.declared.get(&(structure, name.is_none())).copied();
        let is_nameless = structure.type_name().is_empty();
        let is_given = own.is_none() && is_nameless && table.text(name) == self.layouts.given_name(structure);
        let known = own.or_else(|| table.structure_named(name).filter(|_| !is_given));
        // Those without a name are known as members of others only.
        if known.is_some() || depth > MAX_DEPTH || name.is_none() && depth == 0 {
            return known;
        }
        let bytes = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        let mut members = Vec::new();
        for member in &*self.layouts.members(structure) {
            // Rust's alternatives have no layout of their own; which one is there nobody knows.
            if member.name.is_empty() && self.layouts.is_rust {
                continue;
            }
            let of = member.r#type.and_then(|r#type| self.layouts.structure(r#type));
            let of = of.filter(|(of, _)| !self.layouts.is_rust || self.layouts.is_plain(*of));
            let made_of = of.and_then(|(of, name)| {
                let name = table.name(&name);
                self.declare(table, name, of, depth + 1)
            });
            members.push(sites::Member {
                name: table.name(&member.name),
                type_name: table.name(&self.layouts.spelled(member.r#type)),
                offset_bytes: bytes(member.from_bytes),
                size_bytes: bytes(member.bytes),
                structure: made_of,
            });
        }
        let is_alias = is_nameless && !name.is_none() && !is_given;
        let is_librarys = self.layouts.is_librarys(structure);
        let size_bytes = bytes(self.layouts.bytes(structure));
        let is_foreign = is_librarys || structure.file().is_some_and(|(directory, name)| is_foreign(&directory, &name));
        let index = table.structure(sites::Structure { name, is_alias, is_foreign, size_bytes, members });
        self.declared.insert((structure, name.is_none()), index);
        Some(index)
    }

    /// Fills in what is known of an allocation whose result is `block`.
    pub(crate) fn describe_allocation(&mut self, table: &mut ModuleBuilder, site: &mut Site, call: Value<'m>) {
        site.frame = self.frame(table, call);
        let told = self.told.get(&call).map(|told| (told.name.clone(), told.r#type));
        let (variable, of_variable) = told.or_else(|| self.stored_into(call)).unwrap_or_default();
        let variable = match self.layouts.is_rust {
            true => self.holder(call, 0).or_else(|| self.declared_for(call.location()?)).unwrap_or_default(),
            false => variable,
        };
        site.variable = table.name(&variable);
        let of_variable = of_variable.and_then(|pointer| self.layouts.pointee(pointer));
        let made = call.location().and_then(|location| self.made_at(location));
        if let Some(r#type) = call.metadata(self.heap_allocation_site).or(made).or(of_variable) {
            site.structure = table.name(&self.layouts.type_name(r#type));
            if let Some((structure, name)) = self.layouts.structure(r#type) {
                let name = if name.is_empty() { self.layouts.given_name(structure) } else { name };
                site.structure = table.name(&name);
                self.declare(table, site.structure, structure, 0);
            }
        }
    }

    /// What Rust's containers allocate for, or C++'s, by the functions that were inlined at this position.
    fn made_at(&self, location: Metadata<'m>) -> Option<Metadata<'m>> {
        const MAX_INLINED: usize = 64;
        let chain = std::iter::successors(Some(location), |inner| inner.inlined_at()).take(MAX_INLINED);
        match self.layouts.is_rust {
            true => rust::made_for(chain, self.layouts.base),
            false => rust::allocated_by(chain, self.layouts.base),
        }
    }

    /// The program's own variable, or member of one, that holds what a call of Rust's has allocated: the functions in which it is
    /// called are the library's, inlined, which hand it on.
    fn holder(&mut self, value: Value<'m>, steps: u32) -> Option<String> {
        const MAX_STEPS: u32 = 4;
        const VALUE: u32 = 0;
        const PLACE: u32 = 1;
        if let Some(name) = self.told.get(&value).and_then(Told::own_name) {
            return Some(name.to_owned());
        }
        // Users are listed from the last to the first.
        let users = value.users();
        for user in users.iter().rev() {
            if user.opcode() == Some(Opcode::Store)
                && user.operand(VALUE) == Some(value)
                && let Some(name) = user.operand(PLACE).and_then(|place| self.called(place))
            {
                return Some(name);
            }
        }
        let hands_on = |user: &&Value<'m>| matches!(user.opcode(), Some(Opcode::Phi | Opcode::Select | Opcode::Freeze));
        let mut after = users.iter().rev().filter(hands_on).filter(|_| steps < MAX_STEPS);
        after.find_map(|user| self.holder(*user, steps + 1))
    }

    /// The variable that is declared where this allocates, and is what is allocated for there: optimized code may say of no value that it
    /// is the vector's, as its parts are the library's variables. A declaration may be of several lines: what a variable is set to lies
    /// in the scope around that which the variable opens.
    fn declared_for(&self, location: Metadata<'m>) -> Option<String> {
        const RETAINED: usize = 7;
        const SCOPE: usize = 0;
        const OUTER: usize = 1;
        const NAME: usize = 1;
        const TYPE: usize = 3;
        let element = self.made_at(location)?;
        let (function, at) = rust::own_function(location)?;
        let (line, _) = at.line_and_column()?;
        let variables = function.operand(RETAINED)?.operands().into_iter().flatten().map(Value::as_metadata);
        let holds = |variable: &Metadata<'m>| {
            let r#type = variable.operand(TYPE);
            r#type.and_then(|r#type| rust::element_of(r#type, self.layouts.base)) == Some(element)
        };
        let opened_in = |variable: &Metadata<'m>| variable.operand(SCOPE).and_then(|scope| scope.operand(OUTER));
        let declared = variables.filter(holds).filter_map(|variable| {
            let declared = variable.declared_in_line()?;
            let is_of_it = declared == line || declared < line && opened_in(&variable) == at.scope();
            is_of_it.then(|| (declared, variable.operand_text(NAME)))
        });
        let mut declared: Vec<_> = declared.collect();
        declared.sort();
        // The last one before; the same one in several blocks of the function is one.
        let (last, _) = *declared.last()?;
        let mut names: Vec<_> = declared.into_iter().filter(|(declared, _)| *declared == last).collect();
        names.dedup();
        match names.as_slice() {
            [(_, one)] => Some(one.to_string()),
            _ => None,
        }
    }

    /// What a place is called as a variable of the program's, or a member of one that is no library's.
    fn called(&mut self, place: Value<'m>) -> Option<String> {
        let name = self.source(place, 0)?;
        let object = self.object(place, 0);
        let member = object.and_then(|object| self.layouts.member(object.r#type, object.offset_bytes, Extent::POINTER));
        let own = member.filter(|member| !member.field.is_empty() && !self.layouts.is_librarys(member.of));
        Some(own.map_or_else(|| name.clone(), |member| format!("{name}.{}", member.field)))
    }

    /// The variable or the member that a value is stored into first, and its type.
    fn stored_into(&mut self, value: Value<'m>) -> Option<(String, Option<Metadata<'m>>)> {
        const VALUE: u32 = 0;
        const PLACE: u32 = 1;
        let is_stored = |user: &Value<'m>| user.opcode() == Some(Opcode::Store) && user.operand(VALUE) == Some(value);
        // Users are listed from the last to the first.
        let place = value.users().into_iter().rfind(is_stored)?.operand(PLACE)?;
        let object = self.object(place, 0)?;
        let name = self.variable(place, 0).unwrap_or_default();
        match self.layouts.member(object.r#type, object.offset_bytes, Extent::POINTER) {
            Some(member) => Some((format!("{name}.{}", member.field), member.r#type)),
            None => Some((name, self.layouts.element(object.r#type))),
        }
    }

    /// The member that the front end says is accessed: `!tbaa` is the type of the structure, of the access, and the offset.
    fn member_by_aliasing(&mut self, instruction: Value<'m>, extent: Extent) -> Option<Member<'m>> {
        let tag = instruction.metadata(self.type_based_aliasing)?;
        let [base, access, offset] = *tag.operands().first_chunk::<3>()?;
        let (base, access) = (base?.as_metadata(), access?.as_metadata());
        if base == access {
            return None;
        }
        let offset = u64::try_from(offset?.constant()?).ok()?;
        // What has no name could be any structure without one.
        let name = base.operand_text(0);
        let r#type = *self.by_name.get(&*name).filter(|_| !name.is_empty())?;
        self.layouts.member(r#type, offset, extent)
    }

    fn member_by_debug_information(&mut self, pointer: Value<'m>, extent: Extent) -> Option<Member<'m>> {
        let object = self.object(pointer, 0)?;
        self.layouts.member(object.r#type, object.offset_bytes, extent)
    }
}

/// What kind of value an instruction loads or stores, if it is one.
fn kind_of_value(instruction: Value<'_>) -> Option<ValueKind> {
    const VALUE: u32 = 0;
    let value = match instruction.opcode()? {
        Opcode::Load => instruction,
        Opcode::Store => instruction.operand(VALUE)?,
        _ => return None,
    };
    match value.r#type().kind() {
        TypeKind::Integer => Some(ValueKind::Integer),
        TypeKind::Float | TypeKind::Double => Some(ValueKind::Float),
        TypeKind::Pointer => Some(ValueKind::Pointer),
        _ => None,
    }
}

/// Whether a file is one of the system's headers: of the C library, the C++ library or the compiler.
fn is_foreign(directory: &str, name: &str) -> bool {
    let path = if name.starts_with('/') { name.to_owned() } else { format!("{directory}/{name}") };
    path.starts_with("/usr/") && path.contains("/include/") && !path.starts_with("/usr/local/")
}
