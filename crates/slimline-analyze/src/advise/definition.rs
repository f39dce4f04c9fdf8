//! New definitions in the program's language.

use std::fmt::Write;

use slimline_attribute::tables::{Language, Member, MemberRole, Tables};

use super::Subject;
use super::placing::{is_whole, members_at};

/// A new structure.
pub(super) struct Part<'a> {
    /// Rows of its fields, in their order.
    pub(super) fields: &'a [usize],
    /// Whether a pointer to the next part follows.
    pub(super) pointer: bool,
}

/// A declaration: (name, type).
type Declared = (String, String);

/// One structure for each part, and how accesses change.
///
/// Where elements are `linked` by pointers, the hottest part keeps the old name, so that those stay as they are.
pub(super) fn arrays(subject: &Subject<'_>, parts: &[Part<'_>], linked: bool) -> String {
    let type_name = subject.name();
    let base = plain_name(&type_name);
    let mut code = String::new();
    for (number, part) in parts.iter().enumerate() {
        let name = match linked && number == 0 {
            true => base.to_owned(),
            false => format!("{base}_{}", part_name(subject, part)),
        };
        structure(&mut code, subject, &name, part, None);
    }
    let name = &subject.tables.group(subject.group.group).name;
    // Groups that no variable names are called by where they are allocated.
    let array = if is_identifier(name) { name } else { "array" };
    let form = Form::of(subject);
    let (mark, arrow) = (form.mark(), form.arrow());
    let kind = if subject.language() == Language::Rust { "Vec" } else { "array" };
    let moved = if linked { parts.last() } else { parts.first() };
    let Some(moved) = moved else { return code };
    let (part, field) = (part_name(subject, moved), first_name(subject, moved));
    let _ = match linked {
        true => {
            let index = format!("node - {array}");
            let then = form.element(&format!("{array}_{part}"), &index, &field);
            writeln!(code, "{mark} one {kind} each: node{arrow}{field} becomes {then}")
        }
        false => {
            let [now, then] =
                [array.to_owned(), format!("{array}_{part}")].map(|array| form.element(&array, "i", &field));
            writeln!(code, "{mark} one {kind} each: {now} becomes {then}")
        }
    };
    code
}

fn first_name(subject: &Subject<'_>, part: &Part<'_>) -> String {
    declarations(subject, part).into_iter().next().map(|(name, _)| name).unwrap_or_default()
}

/// The hot part under the old name, with a pointer to the cold part.
pub(super) fn hot_cold(subject: &Subject<'_>, parts: &[Part<'_>; 2]) -> String {
    let name = subject.name();
    let cold = format!("{}_cold", plain_name(&name));
    let mut code = String::new();
    let [hot_part, cold_part] = parts;
    structure(&mut code, subject, &cold, cold_part, None);
    structure(&mut code, subject, plain_name(&name), hot_part, hot_part.pointer.then_some(&cold));
    let first = first_name(subject, cold_part);
    let form = Form::of(subject);
    let (mark, arrow) = (form.mark(), form.arrow());
    let _ = writeln!(code, "{mark} node{arrow}{first} becomes node{arrow}cold{arrow}{first}");
    let _ =
        writeln!(code, "{mark} allocate the cold parts from an array of their own: interleaved they would share lines");
    code
}

/// The same structure in its new order.
pub(super) fn reordered(subject: &Subject<'_>, part: &Part<'_>) -> String {
    let mut code = String::new();
    structure(&mut code, subject, plain_name(&subject.name()), part, None);
    code
}

/// The name without the words, paths and arguments that a definition can't have, where it is one: `Node` of `list<ns::item>::Node<int>`, `body` of
/// Fortran's `type(body)`.
pub fn own_name(name: &str) -> Option<&str> {
    let name = ["struct ", "class ", "union "].iter().find_map(|word| name.strip_prefix(word)).unwrap_or(name);
    let name = name.strip_prefix("type(").and_then(|name| name.strip_suffix(')')).unwrap_or(name);
    let (mut depth, mut begin) = (0_u32, 0);
    for (at, character) in name.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => begin = at + 1,
            _ => {}
        }
    }
    name[begin..].split('<').next().filter(|name| is_identifier(name))
}

/// The same, or what can stand in its place: data without a type may be called "anonymous memory" or by an address.
pub fn plain_name(name: &str) -> &str {
    own_name(name).unwrap_or("element")
}

fn part_name(subject: &Subject<'_>, part: &Part<'_>) -> String {
    /// Names longer than this many fields say less than `rest` does.
    const SPELLED: usize = 3;
    let cold = subject.group.clusters.iter().any(|cluster| cluster.cold && cluster.fields == part.fields);
    let word = |(name, _): Declared| match name.split(' ').next() {
        None | Some("") => "union".to_owned(),
        Some(word) => word.to_owned(),
    };
    let names: Vec<String> = declarations(subject, part).into_iter().map(word).collect();
    match names.len() {
        _ if cold && names.len() > 1 => "rest".to_owned(),
        0..=SPELLED => names.join("_"),
        _ => format!("{}_etc", names[..SPELLED].join("_")),
    }
}

/// Members that lie wholly in the part as they were declared; of others, the leaves, but nothing of a library's type.
fn declarations(subject: &Subject<'_>, part: &Part<'_>) -> Vec<Declared> {
    let type_ = subject.tables.group(subject.group.group).element.map(|element| subject.tables.type_(element.type_id));
    let mut declared: Vec<Declared> = Vec::new();
    let mut done: Vec<u64> = Vec::new();
    for &row in part.fields {
        let field = &subject.group.fields[row];
        let members = type_.map(|type_| members_at(type_, field.offset, field.bytes)).unwrap_or_default();
        let whole = !members.is_empty() && members.iter().all(|member| is_whole(subject, member, part.fields));
        if !whole {
            if let Some(member) = subject.foreign_at(field.offset) {
                if !done.contains(&member.offset) {
                    done.push(member.offset);
                    declared.push((identifier(&member.path, member.offset), member.type_name));
                }
                continue;
            }
            declared.push((
                identifier(&field.name, field.offset),
                leaf_type(subject, field.type_name.as_deref(), field.bytes),
            ));
            continue;
        }
        // Bit-fields of one unit are several members of one field; a nested structure is one member of several.
        if !done.contains(&members[0].offset) {
            done.push(members[0].offset);
            let declared_here = members.iter().filter(|member| member.role != MemberRole::InheritedVirtualBase);
            declared.extend(declared_here.map(|member| member_declaration(member, subject.tables)));
        }
    }
    declared
}

fn member_declaration(member: &Member, tables: &Tables) -> Declared {
    let name = match (member.role, member.bits) {
        (MemberRole::VirtualTable, _) => "virtual_table".to_owned(),
        // A base class can't be split: it becomes a member.
        (role, _) if role.is_base() => plain_name(&member.name).to_lowercase(),
        (_, Some((_, bits))) => format!("{} : {bits}", member.name),
        _ => member.name.clone(),
    };
    (name, spelled_type(member, tables, 0))
}

/// A member's type; one without a name is written out.
fn spelled_type(member: &Member, tables: &Tables, depth: u32) -> String {
    const MAX_DEPTH: u32 = 8;
    let (Some(keyword), Some(type_id)) = (member.type_name.strip_suffix(" {…}"), member.type_id) else {
        return member.type_name.clone();
    };
    let inner = tables.type_(type_id);
    if inner.members.is_empty() || depth == MAX_DEPTH {
        return member.type_name.clone();
    }
    let mut text = format!("{keyword} {{");
    for member in &inner.members {
        let bits = member.bits.map(|(_, bits)| format!(" : {bits}")).unwrap_or_default();
        let name = format!("{}{bits}", member.name);
        let _ = write!(text, " {};", declarator(&spelled_type(member, tables, depth + 1), &name));
    }
    text + " }"
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_') && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// A path as a name: `pos.x` → `pos_x`, `+40` → `at_40`.
fn identifier(path: &str, offset: u64) -> String {
    if path.is_empty() || path.starts_with('+') {
        return format!("at_{offset}");
    }
    path.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect::<String>().trim_end_matches('_').to_owned()
}

/// The spelled type; without debug information, one of the right size.
fn leaf_type(subject: &Subject<'_>, spelled: Option<&str>, bytes: u64) -> String {
    match (spelled, subject.language(), bytes) {
        (Some(spelled), ..) => spelled.to_owned(),
        (None, _, 1 | 2 | 4 | 8) => format!("uint{}_t", bytes * 8),
        (None, ..) => format!("unsigned char[{bytes}]"),
    }
}

/// How definitions are written.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    /// In which language.
    pub(crate) language: Language,
    /// The structure is known by a `typedef`'s name.
    pub(crate) is_alias: bool,
}

impl Form {
    fn of(subject: &Subject<'_>) -> Self {
        let language = subject.language();
        Self { language, is_alias: language == Language::C && !subject.name().starts_with("struct ") }
    }

    /// The line of a field.
    pub(crate) fn field(self, type_name: &str, field: &str) -> String {
        match self.language {
            Language::Rust => format!("{field}: {type_name},"),
            Language::Fortran => match type_name.split_once(" *") {
                Some((target, dimensions)) => format!("{target}{dimensions}, pointer :: {field}"),
                None => format!("{type_name} :: {field}"),
            },
            _ => format!("{};", declarator(type_name, field)),
        }
    }

    /// How a comment begins.
    pub(crate) fn mark(self) -> &'static str {
        if self.language == Language::Fortran { "!" } else { "//" }
    }

    /// The line of fields whose declaration is not known, so many of them in words.
    pub(crate) fn as_declared(self, fields: &str, times: &str) -> String {
        match self.language {
            Language::Fortran => format!("! {fields}{times}: as declared"),
            _ => format!("/* {fields}{times}: as declared */"),
        }
    }

    /// A field of an element of an array.
    pub(crate) fn element(self, array: &str, index: &str, field: &str) -> String {
        match self.language {
            Language::Fortran => format!("{array}({index})%{field}"),
            _ => format!("{array}[{index}].{field}"),
        }
    }

    /// How a field of what a pointer leads to is written.
    pub(crate) fn arrow(self) -> &'static str {
        match self.language {
            Language::C | Language::Cpp => "->",
            Language::Fortran => "%",
            _ => ".",
        }
    }

    /// Writes a definition of these lines, with a pointer to the cold part of that name behind them.
    pub(crate) fn structure(self, code: &mut String, name: &str, lines: &[String], cold: Option<&str>) {
        let Self { language, is_alias } = self;
        let _ = match language {
            Language::Rust => writeln!(code, "struct {name} {{"),
            Language::Fortran => writeln!(code, "type :: {name}"),
            _ if is_alias => writeln!(code, "typedef struct {name} {{"),
            _ => writeln!(code, "struct {name} {{"),
        };
        for line in lines {
            let _ = writeln!(code, "    {line}");
        }
        if let Some(cold) = cold {
            let _ = match language {
                Language::Rust => writeln!(code, "    cold: Box<{cold}>,"),
                Language::Fortran => writeln!(code, "    type({cold}), pointer :: cold"),
                _ if is_alias => writeln!(code, "    {cold} *cold;"),
                _ => writeln!(code, "    struct {cold} *cold;"),
            };
        }
        let _ = match language {
            Language::Rust => writeln!(code, "}}"),
            Language::Fortran => writeln!(code, "end type"),
            _ if is_alias => writeln!(code, "}} {name};"),
            _ => writeln!(code, "}};"),
        };
    }
}

/// Writes the definition of a part.
fn structure(code: &mut String, subject: &Subject<'_>, name: &str, part: &Part<'_>, cold: Option<&str>) {
    let form = Form::of(subject);
    let lines: Vec<String> =
        declarations(subject, part).iter().map(|(field, type_name)| form.field(type_name, field)).collect();
    form.structure(code, name, &lines, cold);
}

/// A declaration as C writes it: `double *` and `next` → `double *next`, `int[4]` → `int edge[4]`, `void (*)(int)` →
/// `void (*call)(int)`.
fn declarator(type_name: &str, name: &str) -> String {
    if name.is_empty() || type_name.ends_with('}') {
        return format!("{type_name} {name}").trim_end().to_owned();
    }
    if let Some((before, after)) = type_name.split_once("(*)") {
        return format!("{before}(*{name}){after}");
    }
    let (type_name, bounds) = match type_name.find('[') {
        Some(at) => (type_name[..at].trim_end(), &type_name[at..]),
        None => (type_name, ""),
    };
    let space = if type_name.ends_with('*') || type_name.ends_with('&') { "" } else { " " };
    format!("{type_name}{space}{name}{bounds}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarators_are_written_as_c_reads_them() {
        for (type_name, name, expected) in [
            ("double", "P", "double P"),
            ("struct zone *", "next", "struct zone *next"),
            ("int[4]", "edge", "int edge[4]"),
            ("char [8][2]", "board", "char board[8][2]"),
            ("void (*)(int)", "call", "void (*call)(int)"),
            ("unsigned int", "flag : 3", "unsigned int flag : 3"),
            ("union { int i; float f[2]; }", "", "union { int i; float f[2]; }"),
            ("struct { char c[4]; }", "q", "struct { char c[4]; } q"),
        ] {
            assert_eq!(declarator(type_name, name), expected);
        }
    }

    #[test]
    fn names_become_identifiers() {
        assert_eq!(identifier("pos.x", 8), "pos_x");
        assert_eq!(identifier("edge[2]", 8), "edge_2");
        assert_eq!(identifier("+40", 40), "at_40");
        assert_eq!(plain_name("struct zone"), "zone");
        assert_eq!(plain_name("ns::Node<int>"), "Node");
        assert_eq!(plain_name("bodies::Body"), "Body");
    }
}
