//! What values are, by the types that debug information says are accessed.

use slimline_trace::stream::record::ValueKind;

use crate::tables::{Type, TypeId, TypeKind, TypeRef};
use crate::typing::layout::TypeTable;

/// Types within types that are looked into.
const MAX_DEPTH: u32 = 16;

/// What kind of value an access of so many bytes has: that of the one number or pointer there; where debug information tells none of that
/// size, or a union's member, what its instruction says.
pub(super) fn value(types: &TypeTable, accessed: Option<TypeRef>, bytes: u32, by_instruction: ValueKind) -> ValueKind {
    let scalar = accessed.and_then(|accessed| scalar_at(types.rows(), accessed, bytes.into()));
    scalar.and_then(|id| types.value(id)).unwrap_or(by_instruction)
}

/// The number or pointer of just these bytes.
fn scalar_at(types: &[Type], TypeRef { type_id: mut id, mut offset }: TypeRef, bytes: u64) -> Option<TypeId> {
    for _ in 0..MAX_DEPTH {
        let row = types.get(id.index())?;
        match row.kind {
            TypeKind::Scalar | TypeKind::Pointer => return (offset == 0 && row.bytes == bytes).then_some(id),
            TypeKind::Array { element, .. } => {
                offset = offset.checked_rem(types.get(element.index())?.bytes)?;
                id = element;
            }
            TypeKind::Structure => {
                let holds = |start: u64, bytes: u64| offset.checked_sub(start).is_some_and(|within| within < bytes);
                let member = row.members.iter().find(|member| holds(member.offset, member.bytes))?;
                offset -= member.offset;
                id = member.type_id.filter(|_| member.bits.is_none())?;
            }
            TypeKind::Union => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Language, Member, MemberRole};

    fn row(name: &str, kind: TypeKind, bytes: u64, members: Vec<Member>) -> Type {
        Type { name: name.to_owned(), language: Language::C, kind, bytes, declared_at: None, members }
    }

    fn member(offset: u64, bytes: u64, type_id: TypeId) -> Member {
        Member {
            name: "m".to_owned(),
            offset,
            bytes,
            bits: None,
            type_id: Some(type_id),
            type_name: String::new(),
            role: MemberRole::Field,
            line: 0,
        }
    }

    #[test]
    fn values_are_what_their_types_say() {
        use ValueKind::{Float, Integer, Pointer, Signed};
        let mut types = TypeTable::new();
        let scalar = |types: &mut TypeTable, name, kind, bytes, value| {
            let id = types.intern(row(name, kind, bytes, Vec::new()));
            types.set_value(id, value);
            id
        };
        let int = scalar(&mut types, "int", TypeKind::Scalar, 4, Signed);
        let double = scalar(&mut types, "double", TypeKind::Scalar, 8, Float);
        let pointer = scalar(&mut types, "struct s *", TypeKind::Pointer, 8, Pointer);
        let array = types.intern(row("double[2]", TypeKind::Array { element: double, count: 2 }, 16, Vec::new()));
        let of_union =
            types.intern(row("union u", TypeKind::Union, 8, vec![member(0, 8, double), member(0, 8, pointer)]));
        // int at 0, pointer at 8, two doubles at 16, a union at 32; and two of that.
        let members = vec![member(0, 4, int), member(8, 8, pointer), member(16, 16, array), member(32, 8, of_union)];
        let structure = types.intern(row("struct s", TypeKind::Structure, 40, members));
        let of = types.intern(row("struct s[2]", TypeKind::Array { element: structure, count: 2 }, 80, Vec::new()));
        for (offset, bytes, expected) in [
            (0, 4, Signed),
            (8, 8, Pointer),
            (16, 8, Float),
            (64, 8, Float),
            // Two members at once, half of one, none, one of several.
            (0, 8, Integer),
            (28, 4, Integer),
            (4, 4, Integer),
            (32, 8, Integer),
        ] {
            let accessed = Some(TypeRef { type_id: of, offset });
            assert_eq!(value(&types, accessed, bytes, Integer), expected, "{bytes} at {offset}");
        }
        assert_eq!(value(&types, None, 8, Float), Float);
    }
}
