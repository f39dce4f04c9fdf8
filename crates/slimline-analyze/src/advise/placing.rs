//! Where a compiler places members: each as a whole, by its alignment, what is inside of it staying where it is.

use slimline_attribute::tables::{Member, MemberRole, Type};

use super::Subject;

/// A structure as it would be laid out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewLayout {
    /// Its size.
    pub bytes: u64,
    /// Its fields, by offset.
    pub fields: Vec<PlacedField>,
    /// Offset of the pointer to the part that was moved out of it, where it has one.
    pub pointer_at: Option<u64>,
}

/// A field of a [`NewLayout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedField {
    /// Its offset as it is.
    pub from: u64,
    /// Its offset as it would be.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
}

impl NewLayout {
    /// Of what [`laid_out`] tells.
    pub(super) fn of(subject: &Subject<'_>, placed: &[(usize, u64, u64)], bytes: u64) -> Self {
        let field = |&(row, offset, bytes): &(usize, u64, u64)| PlacedField {
            from: subject.group.fields[row].offset,
            offset,
            bytes,
        };
        let mut fields: Vec<PlacedField> = placed.iter().map(field).collect();
        fields.sort_by_key(|field| field.offset);
        Self { bytes, fields, pointer_at: None }
    }
}

/// Fields of a structure laid out in their order: (field, offset, bytes) of each, and the size.
pub(super) fn laid_out(subject: &Subject<'_>, fields: &[usize]) -> (Vec<(usize, u64, u64)>, u64) {
    let mut end = 0u64;
    let mut align = 1;
    let mut placed: Vec<(usize, u64, u64)> = Vec::new();
    for &field in fields {
        let is_placed = |row: usize| placed.iter().any(|&(placed, ..)| placed == row);
        if is_placed(field) {
            continue;
        }
        let (begin, bytes) = whole_of(subject, field, fields);
        let is_inside = |row: usize| is_in(begin, bytes, subject.group.fields[row].offset) && !is_placed(row);
        let rows: Vec<usize> = fields.iter().copied().filter(|&row| row == field || is_inside(row)).collect();
        let alignment = strictest(subject, &rows);
        align = align.max(alignment);
        end = end.next_multiple_of(alignment);
        placed.extend(rows.iter().map(|&row| {
            let shape = &subject.group.fields[row];
            (row, end + (shape.offset - begin), shape.bytes)
        }));
        end += bytes;
    }
    (placed, end.next_multiple_of(align).max(1))
}

/// The strictest alignment among fields.
pub(super) fn strictest(subject: &Subject<'_>, fields: &[usize]) -> u64 {
    let shapes = fields.iter().map(|&field| &subject.group.fields[field]);
    shapes.map(|shape| alignment(shape.offset, shape.bytes)).max().unwrap_or(1)
}

/// Fields of the same member of the element as `field`, itself among them: a nested structure is one member.
pub(super) fn of_same_member(subject: &Subject<'_>, field: usize) -> Vec<usize> {
    let shapes = &subject.group.fields;
    let member = only_member(subject, field);
    let is_inside = |row: usize| member.is_some_and(|member| is_in(member.offset, member.bytes, shapes[row].offset));
    let moves = |row: usize| shapes[row].moves_with == shapes[field].moves_with;
    (0..shapes.len()).filter(|&row| row == field || is_inside(row) || moves(row)).collect()
}

/// Offset and size of what `field` moves with among `fields`: its member where all of that is there, else what of it is a
/// library's, else itself.
fn whole_of(subject: &Subject<'_>, field: usize, fields: &[usize]) -> (u64, u64) {
    let shape = &subject.group.fields[field];
    if let Some(member) = only_member(subject, field).filter(|member| is_whole(subject, member, fields)) {
        return (member.offset, member.bytes);
    }
    let foreign = subject.foreign_at(shape.offset);
    foreign.map_or((shape.offset, shape.bytes), |member| (member.offset, member.bytes))
}

/// The member that all of a field lies in; `None` where bit-fields or a flexible array make it up.
fn only_member<'s>(subject: &'s Subject<'_>, field: usize) -> Option<&'s Member> {
    let shape = &subject.group.fields[field];
    let members = members_at(subject.element_type()?, shape.offset, shape.bytes);
    let &[only] = &members[..] else { return None };
    let holds = is_in(only.offset, only.bytes, shape.offset);
    (only.bits.is_none() && only.role != MemberRole::FlexibleArray && holds).then_some(only)
}

fn is_in(begin: u64, bytes: u64, offset: u64) -> bool {
    offset.checked_sub(begin).is_some_and(|at| at < bytes)
}

/// Direct members that share bytes with the range.
pub(super) fn members_at(type_: &Type, offset: u64, bytes: u64) -> Vec<&Member> {
    let overlaps = |member: &&Member| match member.role {
        MemberRole::FlexibleArray => offset >= member.offset,
        _ => member.offset < offset + bytes && offset < member.offset + member.bytes,
    };
    type_.members.iter().filter(overlaps).collect()
}

/// Whether all fields in the member are among these.
pub(super) fn is_whole(subject: &Subject<'_>, member: &Member, fields: &[usize]) -> bool {
    subject.group.fields.iter().enumerate().all(|(row, field)| {
        let inside = field.offset >= member.offset && field.offset < member.offset + member.bytes.max(1);
        !inside || fields.contains(&row)
    })
}

/// Alignment that a field of this size at this offset can have.
fn alignment(offset: u64, bytes: u64) -> u64 {
    let by_size = 1 << bytes.max(1).trailing_zeros().min(4);
    let by_offset = if offset == 0 { 16 } else { 1 << offset.trailing_zeros().min(4) };
    u64::min(by_size, by_offset)
}
