//! A group's element type, by what its accesses say and what its allocation says.

use std::collections::HashMap;

use super::effort::{Descent, Effort};
use crate::tables::{Element, Type, TypeId, TypeKind, TypeRef};

/// One typed access to a group's objects (or many alike, with their weight together).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vote {
    /// Type and offset that the instruction is known to access.
    pub accessed: TypeRef,
    /// Bytes from the start of the object.
    pub offset: u64,
    /// Cost, or number of accesses.
    pub weight: u64,
}

/// A declared element type is given up for another one where less than this share of the accesses agrees with it.
const MIN_AGREEMENT: f64 = 0.5;
/// So many other structures beside a type, each of this share of the accesses, make it one of many.
const UNLIKE: usize = 2;
const LEAST_BESIDE: f64 = 0.05;
/// Parts of a type that are looked at for another.
const MOST_PARTS: u32 = 4096;

/// What a group is an array of: `declared` (by its allocation or its static's declaration) unless most of the accesses
/// say otherwise, and objects of `room` bytes have room for one. Where nothing is declared, or bytes, at least half of the accesses must agree. An access agrees with a type if its own is that type at a matching distance from the object's start,
/// or a part of it. `None` where nothing is declared and no access has a type.
pub fn element(types: &[Type], declared: Option<Element>, votes: &[Vote], room: u64) -> Option<Element> {
    let total: u64 = votes.iter().map(|vote| vote.weight).sum();
    let voted = best_voted(types, votes, room);
    // What most accesses speak against is one of the unlike things in a pool or an arena, and so is what others lie beside.
    let is_of_its_own = |voted: &Element| beside(types, voted.type_id, votes) < UNLIKE;
    let agreed = voted.filter(|voted| voted.agreement >= MIN_AGREEMENT && is_of_its_own(voted));
    let Some(declared) = declared else { return agreed };
    if total == 0 {
        return Some(declared);
    }
    let agreeing: u64 = votes.iter().filter(|vote| agrees(types, declared, vote)).map(|vote| vote.weight).sum();
    let declared = Element { agreement: share(agreeing, total), ..declared };
    if let Some(payload) = payload(types, declared, votes, room) {
        return Some(payload);
    }
    match voted {
        // A byte says nothing of what lies in an arena.
        _ if declared.bytes <= 1 && agreed.is_some_and(|agreed| agreed.bytes > 1) => agreed,
        _ if declared.bytes <= 1 => Some(declared),
        Some(voted) if declared.agreement < MIN_AGREEMENT && voted.agreement > declared.agreement => Some(voted),
        _ => Some(declared),
    }
}

/// What lies behind a structure that is but the header of its object: most of the accesses are behind it, and none of them
/// is known to be to another such structure. `None` where it is no header.
fn payload(types: &[Type], header: Element, votes: &[Vote], room: u64) -> Option<Element> {
    let header_end = header.start.saturating_add(header.bytes);
    let type_ = &types[header.type_id.index()];
    if type_.kind != TypeKind::Structure || type_.is_open() || room < header_end.saturating_add(header.bytes) {
        return None;
    }
    let total: u64 = votes.iter().map(|vote| vote.weight).sum();
    let (behind, before): (Vec<Vote>, Vec<Vote>) = votes.iter().partition(|vote| vote.offset >= header_end);
    // An array of such structures may be accessed by pointers to its members: something must show that the first one is
    // another thing than what follows.
    let is_header = |vote: &Vote| holds(types, vote.accessed.type_id, header.type_id);
    if !before.iter().any(is_header) || behind.iter().any(is_header) {
        return None;
    }
    let found = best_voted(types, &behind, room)?;
    let start = header_end + (found.start + found.bytes - header_end % found.bytes) % found.bytes;
    let agreeing: u64 = behind.iter().filter(|vote| agrees(types, found, vote)).map(|vote| vote.weight).sum();
    let agreement = share(agreeing, total);
    let is_scalar = types[found.type_id.index()].kind != TypeKind::Structure;
    (is_scalar && agreement >= MIN_AGREEMENT).then_some(Element { start, agreement, ..found })
}

/// How many other structures are accessed than this one: none of its parts.
fn beside(types: &[Type], element: TypeId, votes: &[Vote]) -> usize {
    let total: u64 = votes.iter().map(|vote| vote.weight).sum();
    let mut weights: HashMap<TypeId, u64> = HashMap::new();
    for vote in votes.iter().filter(|vote| types[vote.accessed.type_id.index()].kind == TypeKind::Structure) {
        *weights.entry(vote.accessed.type_id).or_default() += vote.weight;
    }
    let is_beside = |&(id, weight): &(TypeId, u64)| share(weight, total) >= LEAST_BESIDE && !holds(types, element, id);
    weights.into_iter().filter(is_beside).count()
}

fn best_voted(types: &[Type], votes: &[Vote], room: u64) -> Option<Element> {
    let total: u64 = votes.iter().map(|vote| vote.weight).sum();
    let mut candidates: Vec<TypeId> = votes.iter().map(|vote| vote.accessed.type_id).collect();
    candidates.sort_unstable();
    candidates.dedup();
    let scored = candidates.into_iter().filter(|id| (1..=room).contains(&types[id.index()].bytes)).map(|type_id| {
        let bytes = types[type_id.index()].bytes;
        let start = start_of(type_id, bytes, votes);
        let element = Element { type_id, bytes, start, agreement: 0.0 };
        let agreeing: u64 = votes.iter().filter(|vote| agrees(types, element, vote)).map(|vote| vote.weight).sum();
        (agreeing, Element { agreement: share(agreeing, total), ..element })
    });
    // An access to `count[i]` says where in its object that is, and of its type only where `count` is: elements that would not
    // fit behind such a start are none. Of types that agree with as much, the larger one holds the others.
    scored
        .filter(|(_, element)| element.start.saturating_add(element.bytes) <= room)
        .max_by_key(|(agreeing, element)| (*agreeing, element.bytes, std::cmp::Reverse(element.type_id)))
        .map(|best| best.1)
}

/// Distance from the object's start to its first element that most of the weight agrees on.
fn start_of(type_id: TypeId, bytes: u64, votes: &[Vote]) -> u64 {
    let mut weights: HashMap<u64, u64> = HashMap::new();
    for vote in votes.iter().filter(|vote| vote.accessed.type_id == type_id) {
        *weights.entry(residue(vote, bytes)).or_default() += vote.weight;
    }
    weights.into_iter().max_by_key(|&(start, weight)| (weight, std::cmp::Reverse(start))).map_or(0, |best| best.0)
}

/// Where elements of `bytes` start, modulo their size, if the vote is right.
fn residue(vote: &Vote, bytes: u64) -> u64 {
    (vote.offset % bytes + bytes - vote.accessed.offset % bytes) % bytes
}

fn agrees(types: &[Type], element: Element, vote: &Vote) -> bool {
    if element.bytes == 0 {
        return false;
    }
    if vote.accessed.type_id == element.type_id {
        return residue(vote, element.bytes) == element.start % element.bytes;
    }
    contains(types, element.type_id, vote.accessed.type_id, Effort::of(MOST_PARTS).begin())
}

/// Whether `outer` is `inner`, or a part of it at any depth is.
pub fn holds(types: &[Type], outer: TypeId, inner: TypeId) -> bool {
    outer == inner || contains(types, outer, inner, Effort::of(MOST_PARTS).begin())
}

/// Whether a part of `outer`, at any depth, has the type `inner`.
fn contains(types: &[Type], outer: TypeId, inner: TypeId, descent: Descent<'_>) -> bool {
    let Some(descent) = descent.deeper() else { return false };
    let part = |id: TypeId| id == inner || contains(types, id, inner, descent);
    match types[outer.index()].kind {
        TypeKind::Array { element, .. } => part(element),
        _ => types[outer.index()].members.iter().filter_map(|member| member.type_id).any(part),
    }
}

fn share(part: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { part as f64 / total as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Language, Member, MemberRole};

    fn type_(name: &str, kind: TypeKind, bytes: u64, members: Vec<Member>) -> Type {
        Type { name: name.to_owned(), language: Language::C, kind, bytes, declared_at: None, members }
    }

    fn member(name: &str, offset: u64, bytes: u64, id: u32) -> Member {
        Member {
            name: name.to_owned(),
            offset,
            bytes,
            bits: None,
            type_id: Some(TypeId(id)),
            type_name: String::new(),
            role: MemberRole::Field,
            line: 0,
        }
    }

    /// 0 double, 1 point { x, y }, 2 body { point at 8, double at 24 }, 3 char, 4 long
    fn types() -> Vec<Type> {
        vec![
            type_("double", TypeKind::Scalar, 8, vec![]),
            type_("struct point", TypeKind::Structure, 16, vec![member("x", 0, 8, 0), member("y", 8, 8, 0)]),
            type_("struct body", TypeKind::Structure, 32, vec![member("at", 8, 16, 1), member("mass", 24, 8, 0)]),
            type_("char", TypeKind::Scalar, 1, vec![]),
            type_("long", TypeKind::Scalar, 8, vec![]),
        ]
    }

    fn vote(type_id: u32, in_type: u64, offset: u64, weight: u64) -> Vote {
        Vote { accessed: TypeRef { type_id: TypeId(type_id), offset: in_type }, offset, weight }
    }

    fn declared(type_id: u32, bytes: u64) -> Option<Element> {
        Some(Element { type_id: TypeId(type_id), bytes, start: 0, agreement: 1.0 })
    }

    #[test]
    fn parts_agree_with_the_whole() {
        let votes = [vote(2, 24, 32 * 5 + 24, 50), vote(1, 8, 40, 30), vote(0, 0, 24, 10), vote(4, 0, 24, 10)];
        let found = element(&types(), None, &votes, u64::MAX).unwrap();
        assert_eq!((found.type_id, found.bytes, found.start), (TypeId(2), 32, 0));
        assert!((found.agreement - 0.9).abs() < 1e-12);
    }

    #[test]
    fn a_cookie_shows_as_start() {
        let votes = [vote(2, 24, 8 + 24, 9), vote(2, 8, 8 + 32 + 8, 9), vote(2, 8, 8, 2)];
        let found = element(&types(), None, &votes, u64::MAX).unwrap();
        assert_eq!((found.type_id, found.start), (TypeId(2), 8));
        assert!((found.agreement - 0.9).abs() < 1e-12);
    }

    #[test]
    fn what_lies_behind_a_header_is_the_element() {
        // A point, and doubles behind it.
        let votes = [vote(1, 8, 8, 30), vote(0, 0, 16, 40), vote(0, 0, 800, 30)];
        let found = element(&types(), declared(1, 16), &votes, 1000).unwrap();
        assert_eq!((found.type_id, found.bytes, found.start), (TypeId(0), 8, 16));
        // Where points are accessed behind the first one they are the elements; so they are where little else is.
        let more = [votes[0], votes[1], vote(1, 0, 32, 1)];
        assert_eq!(element(&types(), declared(1, 16), &more, 1000).unwrap().type_id, TypeId(1));
        let few = [votes[0], vote(0, 0, 16, 10)];
        assert_eq!(element(&types(), declared(1, 16), &few, 1000).unwrap().type_id, TypeId(1));
        // Where nothing is known of the first one, they may be members of points.
        let members = [vote(0, 0, 8, 30), votes[1], votes[2]];
        assert_eq!(element(&types(), declared(1, 16), &members, 1000).unwrap().type_id, TypeId(1));
        // There is no room for more than one, so it is no array.
        assert_eq!(element(&types(), declared(1, 16), &votes, 24).unwrap().type_id, TypeId(1));
    }

    #[test]
    fn an_index_within_the_only_element_is_no_start() {
        let votes = [vote(2, 0, 24, 30), vote(2, 0, 16, 20), vote(2, 0, 0, 10)];
        let found = element(&types(), declared(2, 32), &votes, 32).unwrap();
        assert_eq!((found.type_id, found.start), (TypeId(2), 0));
        // Where there is room it may be one.
        assert_eq!(element(&types(), declared(2, 32), &votes, 64).unwrap().start, 24);
    }

    #[test]
    fn most_accesses_overrule_the_declaration() {
        let votes = [vote(2, 24, 24, 60), vote(1, 0, 8, 40)];
        assert_eq!(element(&types(), declared(2, 32), &votes, u64::MAX).unwrap().type_id, TypeId(2));
        assert_eq!(element(&types(), declared(4, 8), &votes, u64::MAX).unwrap().type_id, TypeId(2));
        assert_eq!(element(&types(), declared(3, 1), &votes, u64::MAX).unwrap().type_id, TypeId(2));
        assert_eq!(element(&types(), declared(1, 16), &[], u64::MAX).unwrap().agreement, 1.0);
        assert_eq!(element(&types(), None, &[], u64::MAX), None);
        // Objects of 24 bytes hold no structure of 32; what less than half of the accesses say they hold is nothing that is known.
        assert_eq!(element(&types(), None, &votes, 24), None);
        let more = [votes[0], vote(1, 0, 8, 60)];
        assert_eq!(element(&types(), None, &more, 24).unwrap().type_id, TypeId(1));
    }

    /// Most of them hold what is accessed most.
    #[test]
    fn what_others_lie_beside_is_of_no_type() {
        let mut types = types();
        for name in ["struct text", "struct number"] {
            types.push(type_(name, TypeKind::Structure, 24, vec![member("at", 0, 16, 1), member("count", 16, 8, 4)]));
        }
        let votes =
            |others: u64| [vote(2, 0, 64, 30), vote(1, 0, 40, 70), vote(5, 16, 16, others), vote(6, 16, 40, others)];
        assert_eq!(element(&types, None, &votes(10), u64::MAX), None);
        assert_eq!(element(&types, declared(3, 1), &votes(10), u64::MAX).unwrap().type_id, TypeId(3));
        assert_eq!(element(&types, declared(2, 32), &votes(10), u64::MAX).unwrap().type_id, TypeId(2));
        assert_eq!(element(&types, None, &votes(3), u64::MAX).unwrap().type_id, TypeId(2));
    }

    #[test]
    fn a_pool_of_unlike_things_is_of_no_type() {
        let votes = [vote(2, 0, 64, 30), vote(4, 0, 4000, 40), vote(3, 0, 5, 30)];
        assert_eq!(element(&types(), None, &votes, u64::MAX), None);
        assert_eq!(element(&types(), declared(3, 1), &votes, u64::MAX).unwrap().type_id, TypeId(3));
    }
}
