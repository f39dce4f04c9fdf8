//! From an offset in an object down to what lies there.

use gimli::constants as dw;

use super::debug_info::{DebugInfo, Die};
use super::effort::{Descent, Effort};
use super::infer::Reason;
use super::layout::field_name;
use super::shape::Shape;
use super::value::Pointer;
use crate::tables::MemberRole;

/// What lies at a byte offset of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    /// Names of the members passed, those inside a standard library's types left out.
    pub(super) names: Vec<String>,
    /// What a pointer there points to; `None` where there is none, or it may be one of several.
    pub(super) pointee: Option<Die>,
    /// Whether a pointer is there.
    pub(super) pointer: bool,
}

/// Parts of an object that are looked at for what lies at an offset: alternatives of unions are in the same place.
const MOST_PARTS: u32 = 4096;

/// What of the types around it bears on a part.
#[derive(Clone, Copy, Default)]
struct Surroundings {
    in_library: bool,
    /// What a byte pointer inside `RawVec<T>` stands for: since Rust 1.83 its buffer is untyped.
    erased: Option<Die>,
}

/// What the qualified names of the standard libraries' types and functions start with.
const LIBRARIES: [&str; 6] = ["alloc::", "core::", "std::", "hashbrown::", "__gnu_cxx::", "operator new"];

impl<'a> DebugInfo<'a> {
    /// A type as inference compares it: an aggregate's definition; of an array, its innermost element's. And its size.
    pub(super) fn target(&self, type_: Die) -> (Die, u64) {
        let (element, bytes) = self.innermost_element(type_);
        match self.shape(element) {
            Some(Shape::Aggregate { die, bytes, .. }) => (die, bytes),
            _ => (self.without_qualifiers(element), bytes),
        }
    }

    /// A pointer to the start of an object of `type_`; an array counts as its elements.
    pub(super) fn pointer_to(&self, type_: Option<Die>, unit: u32) -> Pointer {
        let nothing = Pointer {
            target: Die { unit, offset: 0 },
            bytes: 0,
            offset: 0,
            step: 0,
            name: None,
            first: None,
            home: None,
        };
        let Some(type_) = type_ else { return nothing };
        let (target, bytes) = self.target(type_);
        let array = matches!(self.shape(type_), Some(Shape::Array { .. }));
        Pointer { target, bytes, step: if array { bytes } else { 0 }, ..nothing }
    }

    /// Whether the type has fields.
    pub(super) fn is_structure(&self, type_: Die) -> bool {
        matches!(self.shape(type_), Some(Shape::Aggregate { .. }))
    }

    /// Whether the type is a class without any data: its size is 1.
    pub(super) fn is_empty_class(&self, type_: Die) -> bool {
        match self.shape(type_) {
            Some(Shape::Aggregate { die, bytes, .. }) => {
                bytes <= 1 && self.fields(die).iter().all(|field| field.bytes == 0)
            }
            _ => false,
        }
    }

    /// Whether the type is a number, as a register may hold it.
    pub(super) fn is_number(&self, type_: Die) -> bool {
        // What is behind a descriptor is an array, and its first word a pointer.
        let is_array =
            self.entry(self.without_qualifiers(type_)).is_some_and(|entry| entry.tag() == dw::DW_TAG_array_type);
        !is_array && !matches!(self.shape(type_), Some(Shape::Aggregate { .. } | Shape::Array { .. }))
    }

    /// The offset in the pointer's target that an access through it touches.
    pub(super) fn offset_in_target(&self, pointer: Pointer) -> Result<u64, Reason> {
        let Pointer { target, bytes, offset, step, .. } = pointer;
        if bytes == 0 && !self.is_structure(target) {
            return Err(Reason::Untyped);
        }
        let size = i64::try_from(bytes).map_err(|_| Reason::OutsideType)?;
        if !self.is_structure(target) {
            return Ok(offset.rem_euclid(size).cast_unsigned());
        }
        if size > 0 && (0..size).contains(&offset) {
            if step.is_multiple_of(bytes) {
                return Ok(offset.cast_unsigned());
            }
            // The offset runs in steps smaller than the structure: over an array inside it, or nothing is known.
            let effort = Effort::of(MOST_PARTS);
            let found = self.array_offset(target, offset.cast_unsigned(), step, effort.begin());
            return found.ok_or(Reason::OffsetRuns);
        }
        let flexible = self.fields(target).last().filter(|last| last.role == MemberRole::FlexibleArray).cloned();
        if let Some(last) = flexible.filter(|last| offset >= last.offset.cast_signed()) {
            let stride = self.innermost_element(last.type_).1.max(1);
            return Ok(last.offset + (offset.cast_unsigned() - last.offset) % stride);
        }
        if size > 0 && step > 0 && step.is_multiple_of(bytes) {
            return Ok(offset.rem_euclid(size).cast_unsigned());
        }
        Err(if step == 0 { Reason::OutsideType } else { Reason::OffsetRuns })
    }

    /// The first-element offset of the innermost array around `offset` whose elements are `step` or a divisor apart.
    fn array_offset(&self, type_: Die, offset: u64, step: u64, descent: Descent<'_>) -> Option<u64> {
        let Shape::Aggregate { die, .. } = self.shape(type_)? else { return None };
        let descent = descent.deeper()?;
        for field in self.fields(die).iter() {
            let open_ended = field.role == MemberRole::FlexibleArray;
            if field.offset > offset || (offset - field.offset >= field.bytes && !open_ended) {
                continue;
            }
            let inside = offset - field.offset;
            if let Some(Shape::Array { .. }) = self.shape(field.type_) {
                let (element, bytes) = self.innermost_element(field.type_);
                if bytes == 0 {
                    continue;
                }
                if step.is_multiple_of(bytes) {
                    return Some(field.offset + inside % bytes);
                }
                if let Some(found) = self.array_offset(element, inside % bytes, step, descent) {
                    return Some(field.offset + found);
                }
            } else if let Some(found) = self.array_offset(field.type_, inside, step, descent) {
                return Some(field.offset + found);
            }
        }
        None
    }

    /// Whether an object of type `wanted` lies at `offset` of `type_`.
    pub(super) fn has_subobject(&self, type_: Die, offset: u64, wanted: Die) -> bool {
        self.has_subobject_within(type_, offset, wanted, Effort::of(MOST_PARTS).begin())
    }

    fn has_subobject_within(&self, type_: Die, offset: u64, wanted: Die, descent: Descent<'_>) -> bool {
        let (target, bytes) = self.target(type_);
        let offset = if bytes > 0 && descent.depth > 0 { offset % bytes } else { offset };
        if offset == 0 && (target == wanted || self.same_type(target, wanted)) {
            return true;
        }
        let Some(descent) = descent.deeper().filter(|_| self.is_structure(target)) else { return false };
        self.fields(target).iter().any(|field| {
            field.offset <= offset
                && (offset - field.offset < field.bytes || field.role == MemberRole::FlexibleArray)
                && self.has_subobject_within(field.type_, offset - field.offset, wanted, descent)
        })
    }

    /// Equal types under two entries: one name and size.
    fn same_type(&self, a: Die, b: Die) -> bool {
        let (Some(of_a), Some(of_b)) = (self.shape(a), self.shape(b)) else { return false };
        if of_a.bytes() != of_b.bytes() || std::mem::discriminant(&of_a) != std::mem::discriminant(&of_b) {
            return false;
        }
        match (self.name(a), self.name(b)) {
            (Some(a), Some(b)) => a == b,
            // Unnamed pointers: what they point to, one level deep.
            (None, None) => match (of_a, of_b) {
                (Shape::Pointer { target: Some(a), .. }, Shape::Pointer { target: Some(b), .. }) => {
                    self.without_qualifiers(a) == self.without_qualifiers(b)
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// The member, and the pointer if there is one, at `offset` of `type_`.
    pub(super) fn path_to(&self, type_: Die, offset: u64) -> Path {
        let mut path = Path::default();
        self.walk(type_, offset, &mut path, Surroundings::default(), Effort::of(MOST_PARTS).begin());
        path
    }

    fn walk(&self, type_: Die, offset: u64, path: &mut Path, around: Surroundings, descent: Descent<'_>) {
        let Some(descent) = descent.deeper() else { return };
        match self.shape(type_) {
            Some(Shape::Pointer { target, .. }) if offset == 0 => {
                let byte = target.is_some_and(|target| self.shape(target).is_some_and(|shape| shape.bytes() == 1));
                let pointee = if byte { around.erased.or(target) } else { target };
                // Alternatives of a union that point to different types say nothing.
                path.pointee = if path.pointer && path.pointee != pointee { None } else { pointee };
                path.pointer = true;
            }
            Some(Shape::Array { element, .. }) => {
                let bytes = self.innermost_element(type_).1;
                if bytes > 0 {
                    self.walk(element, offset % bytes, path, around, descent);
                }
            }
            Some(Shape::Aggregate { die, .. }) => {
                let around = Surroundings {
                    in_library: around.in_library || self.is_library(die),
                    erased: around.erased.or_else(|| self.raw_vec_element(die)),
                };
                let language = self.language(die.unit);
                for field in self.fields(die).iter() {
                    if field.offset > offset || offset - field.offset >= field.bytes {
                        continue;
                    }
                    let before = path.names.len();
                    if let Some(name) =
                        field.name.as_ref().filter(|_| !around.in_library && field.role == MemberRole::Field)
                    {
                        path.names.push(field_name(name, language));
                    }
                    let found = path.pointer;
                    self.walk(field.type_, offset - field.offset, path, around, descent);
                    if found && path.names.len() > before {
                        path.names.truncate(before);
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether a type or function is a standard library's, whose names mean nothing to a program's author.
    pub(super) fn is_library(&self, die: Die) -> bool {
        self.qualified_name(die).is_some_and(|name| LIBRARIES.iter().any(|library| name.starts_with(library)))
    }

    fn raw_vec_element(&self, die: Die) -> Option<Die> {
        self.name(die).filter(|name| name.starts_with("RawVec<"))?;
        self.type_parameter(die, &["T"])
    }

    /// The types that a template or generic type is instantiated with.
    pub(super) fn type_arguments(&self, die: Die) -> Vec<Die> {
        let mut found = Vec::new();
        let _ = self.for_each_child(die, |child, entry| {
            if entry.tag() == dw::DW_TAG_template_type_parameter {
                found.extend(self.reference(child, entry, dw::DW_AT_type));
            }
        });
        found
    }

    /// The type argument of one of the `names`, of a type or function.
    pub(super) fn type_parameter(&self, die: Die, names: &[&str]) -> Option<Die> {
        let mut found = None;
        self.for_each_child(die, |child, entry| {
            if found.is_none()
                && entry.tag() == dw::DW_TAG_template_type_parameter
                && self.own_name(child, entry).is_some_and(|name| names.contains(&name))
            {
                found = self.reference(child, entry, dw::DW_AT_type);
            }
        })?;
        found
    }
}
