//! Types as rows of the tables, each layout once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use gimli::{AttributeValue, constants as dw};
use slimline_trace::stream::record::ValueKind;

use super::debug_info::{DebugInfo, Die};
use super::shape::{Field, Shape};
use crate::tables::{Language, Member, Type, TypeId, TypeKind};

/// How structures without a name are spelled, behind their keyword.
pub(crate) const ANONYMOUS: &str = "{…}";

/// The rows of [`Tables::types`](crate::tables::Tables::types) while they are collected, from all modules.
///
/// A type that several units or modules define alike (same name, language, size and members) is one row.
pub struct TypeTable {
    number: TableNumber,
    rows: Vec<Type>,
    by_name: HashMap<String, Vec<TypeId>>,
    values: HashMap<TypeId, ValueKind>,
}

/// Tells tables from each other: what made rows remembers in which.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TableNumber(u32);

impl Default for TypeTable {
    fn default() -> Self {
        Self::new()
    }
}

impl TypeTable {
    /// An empty table.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = TableNumber(NEXT.fetch_add(1, Ordering::Relaxed));
        Self { number, rows: Vec::new(), by_name: HashMap::new(), values: HashMap::new() }
    }

    /// The rows so far, by [`TypeId`].
    pub fn rows(&self) -> &[Type] {
        &self.rows
    }

    /// The row of `id`.
    pub fn get(&self, id: TypeId) -> &Type {
        &self.rows[id.index()]
    }

    /// What values of a number's or pointer's type are; none of other types, and of those that are no more than bytes.
    pub(crate) fn value(&self, id: TypeId) -> Option<ValueKind> {
        self.values.get(&id).copied()
    }

    pub(crate) fn set_value(&mut self, id: TypeId, value: ValueKind) {
        self.values.insert(id, value);
    }

    /// The table as [`Tables::types`](crate::tables::Tables::types) wants it.
    pub fn into_rows(self) -> Vec<Type> {
        self.rows
    }

    /// The row equal to `row` in all but the place of declaration, made where there is none.
    pub fn intern(&mut self, row: Type) -> TypeId {
        let same_name = self.by_name.entry(row.name.clone()).or_default();
        for &id in same_name.iter() {
            let known = &self.rows[id.index()];
            if (known.language, known.kind, known.bytes) == (row.language, row.kind, row.bytes)
                && known.members.len() == row.members.len()
                && known.members.iter().zip(&row.members).all(|(a, b)| same_place(a, b))
                // What has no name of its own is called by where it is declared.
                && (!row.name.ends_with(ANONYMOUS) || known.declared_at == row.declared_at)
            {
                return id;
            }
        }
        let id = TypeId(u32::try_from(self.rows.len()).expect("fewer types than 2^32"));
        same_name.push(id);
        self.rows.push(row);
        id
    }
}

/// Whether two members are the same for whoever wants to move them; lines of equal copies may differ.
fn same_place(a: &Member, b: &Member) -> bool {
    (a.offset, a.bytes, a.bits, a.type_id, a.role) == (b.offset, b.bytes, b.bits, b.type_id, b.role)
        && a.name == b.name
        && a.type_name == b.type_name
}

/// What a row is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Subject {
    die: Die,
    /// A class with virtual bases as the base of another one: without those.
    is_base: bool,
}

/// Nesting by value deeper than this is taken for damage (a structure can't hold itself).
const MAX_NESTING: u32 = 32;

impl<'a> DebugInfo<'a> {
    /// The table row of the type at `die`: a structure's own row under all its typedefs, other types by their name.
    pub(super) fn row(&self, die: Die, table: &mut TypeTable) -> Option<TypeId> {
        self.row_nested(die, table, 0)
    }

    fn row_nested(&self, die: Die, table: &mut TypeTable, depth: u32) -> Option<TypeId> {
        self.row_of(Subject { die, is_base: false }, table, depth)
    }

    fn row_of(&self, subject: Subject, table: &mut TypeTable, depth: u32) -> Option<TypeId> {
        let Subject { die, is_base } = subject;
        let key = (table.number, subject);
        if let Some(&known) = self.rows.borrow().get(&key) {
            return known;
        }
        if depth > MAX_NESTING {
            return None;
        }
        // A damaged structure that holds itself has no row as long as it is made.
        self.rows.borrow_mut().insert(key, None);
        let shape = self.shape(die)?;
        let mut row = Type {
            name: String::new(),
            language: self.language(die.unit),
            kind: TypeKind::Scalar,
            bytes: shape.bytes(),
            declared_at: None,
            members: Vec::new(),
        };
        match shape {
            Shape::Aggregate { die: definition, overlapping, .. } => {
                row.name = match self.is_anonymous(definition).then(|| self.typedef_below(die)).flatten() {
                    Some(typedef) => self.spelled(typedef),
                    None => self.row_name(definition),
                };
                row.kind = if overlapping { TypeKind::Union } else { TypeKind::Structure };
                row.language = self.language(definition.unit);
                row.declared_at = self.declared_at(definition);
                for field in self.fields(definition).iter() {
                    row.members.push(self.member(field, row.language, table, depth));
                }
                if is_base {
                    // Behind that lies what is not this base's.
                    let end = row.members.iter().map(|member| member.offset.saturating_add(member.bytes)).max();
                    row.bytes = end.unwrap_or(0).min(row.bytes);
                } else {
                    for field in self.virtual_base_fields(definition) {
                        row.members.push(self.member(&field, row.language, table, depth));
                    }
                    row.members.sort_by_key(|member| (member.offset, member.bits));
                }
            }
            Shape::Array { element, stride, count } => {
                row.name = self.spelled(die);
                let inner = self.inner_array(die, element, stride, table, depth);
                let (element, outermost) =
                    inner.or_else(|| Some((self.row_nested(element, table, depth + 1)?, count)))?;
                row.kind = TypeKind::Array { element, count: outermost };
            }
            Shape::Pointer { .. } => {
                row.name = self.spelled(die);
                row.kind = TypeKind::Pointer;
            }
            Shape::Scalar { .. } => row.name = self.spelled(die),
            Shape::Void | Shape::Function => return None,
        }
        let id = table.intern(row);
        let value = match shape {
            Shape::Pointer { .. } => Some(ValueKind::Pointer),
            Shape::Scalar { bytes } => self.value_of_number(die, bytes),
            _ => None,
        };
        value.into_iter().for_each(|value| table.set_value(id, value));
        self.rows.borrow_mut().insert(key, Some(id));
        Some(id)
    }

    /// What values of a number's type are, which has so many bytes; none of complex numbers, vectors and the like.
    fn value_of_number(&self, die: Die, bytes: u64) -> Option<ValueKind> {
        let mut die = self.without_qualifiers(die);
        let mut entry = self.entry(die)?;
        // It is what it is stored as, which compilers may say of itself.
        if entry.tag() == dw::DW_TAG_enumeration_type && !entry.has_attr(dw::DW_AT_encoding) {
            die = self.without_qualifiers(self.reference(die, &entry, dw::DW_AT_type)?);
            entry = self.entry(die)?;
        }
        let Some(AttributeValue::Encoding(encoding)) = entry.attr_value(dw::DW_AT_encoding) else { return None };
        match encoding {
            dw::DW_ATE_float => matches!(bytes, 4 | 8).then_some(ValueKind::Float),
            dw::DW_ATE_signed | dw::DW_ATE_signed_char => Some(ValueKind::Signed),
            dw::DW_ATE_unsigned | dw::DW_ATE_unsigned_char | dw::DW_ATE_boolean | dw::DW_ATE_UTF => {
                Some(ValueKind::Unsigned)
            }
            _ => None,
        }
    }

    /// Of an array of several dimensions: the row of what its first dimension counts, and how many there are.
    fn inner_array(
        &self,
        die: Die,
        element: Die,
        stride: u64,
        table: &mut TypeTable,
        depth: u32,
    ) -> Option<(TypeId, u64)> {
        let language = self.language(die.unit);
        let dimensions = self.dimensions(self.without_qualifiers(die))?;
        let (&outermost, inner) = dimensions.split_first()?;
        // Fortran counts its first dimension fastest; its arrays stay one row.
        if inner.is_empty() || language == Language::Fortran {
            return None;
        }
        let mut id = self.row_nested(element, table, depth + 1)?;
        let mut bytes = stride;
        let mut bounds = String::new();
        for &count in inner.iter().rev() {
            bytes = bytes.checked_mul(count)?;
            bounds.insert_str(0, &format!("[{count}]"));
            id = table.intern(Type {
                name: self.spelled_around(element, &bounds),
                language,
                kind: TypeKind::Array { element: id, count },
                bytes,
                declared_at: None,
                members: Vec::new(),
            });
        }
        Some((id, outermost))
    }

    fn member(&self, field: &Field, language: Language, table: &mut TypeTable, depth: u32) -> Member {
        let type_name = self.spelled(field.type_);
        let is_base = field.role.is_base() && self.class(field.type_).is_some_and(|base| self.has_virtual_bases(base));
        let type_id = self.row_of(Subject { die: field.type_, is_base }, table, depth + 1);
        let of_base = type_id.filter(|_| is_base).map(|id| table.get(id).bytes);
        Member {
            name: match &field.name {
                Some(name) => field_name(name, language),
                None if field.role.is_base() => type_name.clone(),
                None => String::new(),
            },
            offset: field.offset,
            bytes: of_base.unwrap_or(field.bytes),
            bits: field.bits,
            type_id,
            type_name,
            role: field.role,
            line: field.line,
        }
    }
}

/// Rust's tuple fields are `__0` in debug information and `0` in the source.
pub(super) fn field_name(name: &str, language: Language) -> String {
    match name.strip_prefix("__") {
        Some(number) if language == Language::Rust && number.bytes().all(|byte| byte.is_ascii_digit()) => {
            number.to_owned()
        }
        _ => name.to_owned(),
    }
}
