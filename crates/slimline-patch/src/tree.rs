//! Clang's syntax tree of one translation unit, as `-Xclang -ast-dump=json` prints it.
//!
//! It is read as it comes: what headers of the system declare is passed over, which is most of it. A place names its file only where that
//! is another one than the place printed before has, so that those that are passed over are looked at, too.

use std::fmt;
use std::io::Read;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A source file's number.
pub type FileId = u32;

/// A token's place in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Spot {
    /// None of system headers, of what a macro pasted together, and of nothing.
    pub file: Option<FileId>,
    /// In bytes.
    pub offset: usize,
    /// Of the token.
    pub bytes: usize,
}

impl Spot {
    /// Behind the token.
    pub fn end(&self) -> usize {
        self.offset + self.bytes
    }
}

/// Where a token is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Where it is written.
    pub spelled: Spot,
    /// Where the outermost macro that it comes of is named; else the same.
    pub expanded: Spot,
    /// Whether it is written in a macro's definition, and not where that is named.
    pub is_in_macro: bool,
}

/// A type, as the source writes it and without a name for the whole.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TypeText {
    /// `np`.
    #[serde(default)]
    pub qual_type: String,
    /// `struct node *`.
    pub desugared_qual_type: Option<String>,
}

impl TypeText {
    /// The one that says most.
    pub fn text(&self) -> &str {
        self.desugared_qual_type.as_deref().unwrap_or(&self.qual_type)
    }
}

/// A declaration that is referred to.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Referred {
    /// See [`Node::id`].
    #[serde(default)]
    pub id: String,
    /// `FunctionDecl`, …
    #[serde(default)]
    pub kind: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
}

/// A declaration, statement, expression or type.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its address in clang.
    pub id: String,
    /// `MemberExpr`, …; empty where there is none, as of a `for` without a condition.
    pub kind: String,
    /// Of a declaration: its name.
    pub place: Place,
    /// Its first token.
    pub begin: Place,
    /// Its last token.
    pub end: Place,
    /// Of declarations and members.
    pub name: String,
    /// Of expressions and declarations.
    pub type_text: TypeText,
    /// Of `sizeof`.
    pub argument_type: Option<TypeText>,
    /// Of casts.
    pub cast: String,
    /// Of operators.
    pub operator: String,
    /// `p->f`.
    pub is_arrow: bool,
    /// The member's declaration.
    pub member: String,
    /// The declaration that an expression or a type names.
    pub referred: Option<Referred>,
    /// `static` and `extern`.
    pub storage: String,
    /// What the linker calls it; of what it can't name, as templates, nothing.
    pub mangled: String,
    /// The declaration of the same before this one.
    pub previous: String,
    /// Of methods: whether it has no body, as it is pure, deleted, or made by the compiler.
    pub is_unwritten: bool,
    /// `private`, …: of what is behind this in a class.
    pub access: String,
    /// Whether each thread has its own.
    pub is_of_thread: bool,
    /// Of records.
    pub is_complete: bool,
    /// `struct`, `union` or `class`.
    pub tag: String,
    /// Of fields.
    pub is_bit_field: bool,
    /// Made by the compiler.
    pub is_implicit: bool,
    /// Of literals.
    pub value: String,
    /// Its parts.
    pub inner: Vec<Self>,
}

impl Node {
    /// Without parentheses around it.
    pub fn bare(&self) -> &Self {
        match self.inner.first() {
            Some(inner) if self.kind == "ParenExpr" => inner.bare(),
            _ => self,
        }
    }

    /// Without parentheses and casts around it.
    pub fn uncast(&self) -> &Self {
        let bare = self.bare();
        match bare.inner.first() {
            Some(inner) if bare.is_cast() => inner.uncast(),
            _ => bare,
        }
    }

    /// Whether it is any cast.
    pub fn is_cast(&self) -> bool {
        self.kind.ends_with("CastExpr")
    }

    /// Whether it declares a function or a method.
    pub fn is_function(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "FunctionDecl" | "CXXMethodDecl" | "CXXConstructorDecl" | "CXXDestructorDecl" | "CXXConversionDecl"
        )
    }

    /// Of a call: the name of the function, where it is called by its name.
    pub fn callee(&self) -> Option<&Referred> {
        self.inner.first().map(Self::uncast).and_then(|callee| callee.referred.as_ref())
    }
}

/// Reads a unit: its declarations that are not a system header's.
///
/// `file` gives each file's number by the name that clang has for it; none for those whose declarations are passed over.
///
/// # Errors
/// It is no such tree.
pub fn read(text: impl Read, file: &mut dyn FnMut(&str) -> Option<FileId>) -> Result<Node, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_reader(text);
    deserializer.disable_recursion_limit();
    let mut files = Files { number: file, last: None };
    let node = NodeSeed { files: &mut files, is_outer: true }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(node)
}

/// Which file places are in.
struct Files<'a> {
    number: &'a mut dyn FnMut(&str) -> Option<FileId>,
    /// That of the last place.
    last: Option<FileId>,
}

/// Declares the visitor of maps for a seed.
macro_rules! map_seed {
    ($seed:ident, $value:ty, $what:literal) => {
        impl<'de> DeserializeSeed<'de> for $seed<'_, '_> {
            type Value = $value;

            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<$value, D::Error> {
                deserializer.deserialize_map(self)
            }
        }

        impl<'de> Visitor<'de> for $seed<'_, '_> {
            type Value = $value;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str($what)
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<$value, M::Error> {
                self.map(map)
            }
        }
    };
}

struct NodeSeed<'a, 'b> {
    files: &'a mut Files<'b>,
    /// Whether it is no part of a function or a type.
    is_outer: bool,
}

map_seed!(NodeSeed, Node, "a node of clang's syntax tree");

impl NodeSeed<'_, '_> {
    fn map<'de, M: MapAccess<'de>>(self, mut map: M) -> Result<Node, M::Error> {
        let mut node = Node::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "id" => node.id = map.next_value()?,
                "kind" => node.kind = map.next_value()?,
                "loc" => node.place = map.next_value_seed(PlaceSeed(self.files))?,
                "range" => (node.begin, node.end) = map.next_value_seed(RangeSeed(self.files))?,
                "name" => node.name = map.next_value()?,
                "type" => node.type_text = map.next_value()?,
                "argType" => node.argument_type = map.next_value()?,
                "castKind" => node.cast = map.next_value()?,
                "opcode" => node.operator = map.next_value()?,
                "isArrow" => node.is_arrow = map.next_value()?,
                "referencedMemberDecl" => node.member = map.next_value()?,
                "referencedDecl" | "decl" => node.referred = map.next_value()?,
                "storageClass" => node.storage = map.next_value()?,
                "mangledName" => node.mangled = map.next_value()?,
                "previousDecl" => node.previous = map.next_value()?,
                "pure" | "explicitlyDeleted" | "explicitlyDefaulted" => {
                    let _: IgnoredAny = map.next_value()?;
                    node.is_unwritten = true;
                }
                "access" => node.access = map.next_value()?,
                "tls" => {
                    let _: IgnoredAny = map.next_value()?;
                    node.is_of_thread = true;
                }
                "completeDefinition" => node.is_complete = map.next_value()?,
                "tagUsed" => node.tag = map.next_value()?,
                "isBitfield" => node.is_bit_field = map.next_value()?,
                "isImplicit" => node.is_implicit = map.next_value()?,
                "value" if node.kind == "IntegerLiteral" => node.value = map.next_value()?,
                "inner" | "array_filler" => {
                    let is_scope =
                        matches!(node.kind.as_str(), "TranslationUnitDecl" | "NamespaceDecl" | "LinkageSpecDecl");
                    let place = if node.place == Place::default() { node.begin } else { node.place };
                    if self.is_outer && !is_scope && place.expanded.file.is_none() && place.expanded.bytes > 0 {
                        map.next_value_seed(Passed(self.files))?;
                        continue;
                    }
                    let seed = NodesSeed { files: &mut *self.files, is_outer: self.is_outer && is_scope };
                    node.inner = map.next_value_seed(seed)?;
                }
                _ => map.next_value_seed(Passed(self.files))?,
            }
        }
        Ok(node)
    }
}

struct NodesSeed<'a, 'b> {
    files: &'a mut Files<'b>,
    is_outer: bool,
}

impl<'de> DeserializeSeed<'de> for NodesSeed<'_, '_> {
    type Value = Vec<Node>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Node>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for NodesSeed<'_, '_> {
    type Value = Vec<Node>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("nodes of clang's syntax tree")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Vec<Node>, S::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = seq.next_element_seed(NodeSeed { files: self.files, is_outer: self.is_outer })? {
            nodes.push(node);
        }
        Ok(nodes)
    }
}

struct RangeSeed<'a, 'b>(&'a mut Files<'b>);

map_seed!(RangeSeed, (Place, Place), "a range of a source");

impl RangeSeed<'_, '_> {
    fn map<'de, M: MapAccess<'de>>(self, mut map: M) -> Result<(Place, Place), M::Error> {
        let mut range = <(Place, Place)>::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "begin" => range.0 = map.next_value_seed(PlaceSeed(self.0))?,
                "end" => range.1 = map.next_value_seed(PlaceSeed(self.0))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(range)
    }
}

struct PlaceSeed<'a, 'b>(&'a mut Files<'b>);

map_seed!(PlaceSeed, Place, "a place in a source");

impl PlaceSeed<'_, '_> {
    fn map<'de, M: MapAccess<'de>>(self, mut map: M) -> Result<Place, M::Error> {
        let mut own = Spot::default();
        let mut place = None;
        let mut is_argument = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "spellingLoc" => {
                    let (spelled, _) = map.next_value_seed(SpotSeed(self.0))?;
                    place.get_or_insert_with(Place::default).spelled = spelled;
                }
                "expansionLoc" => {
                    let (expanded, is_macro_argument) = map.next_value_seed(SpotSeed(self.0))?;
                    place.get_or_insert_with(Place::default).expanded = expanded;
                    is_argument = is_macro_argument;
                }
                "offset" => own = Spot { file: self.0.last, offset: map.next_value()?, ..own },
                "file" => {
                    self.0.last = (self.0.number)(&map.next_value::<String>()?);
                    own.file = self.0.last;
                }
                "tokLen" => own.bytes = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(match place {
            Some(place) => Place { is_in_macro: !is_argument, ..place },
            None => Place { spelled: own, expanded: own, is_in_macro: false },
        })
    }
}

struct SpotSeed<'a, 'b>(&'a mut Files<'b>);

map_seed!(SpotSeed, (Spot, bool), "a place in a source");

impl SpotSeed<'_, '_> {
    fn map<'de, M: MapAccess<'de>>(self, mut map: M) -> Result<(Spot, bool), M::Error> {
        let (mut spot, mut is_argument) = (Spot::default(), false);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "offset" => spot = Spot { file: self.0.last, offset: map.next_value()?, ..spot },
                "file" => {
                    self.0.last = (self.0.number)(&map.next_value::<String>()?);
                    spot.file = self.0.last;
                }
                "tokLen" => spot.bytes = map.next_value()?,
                "isMacroArgExpansion" => is_argument = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok((spot, is_argument))
    }
}

/// Anything that is not wanted, but for the files of its places.
struct Passed<'a, 'b>(&'a mut Files<'b>);

impl<'de> DeserializeSeed<'de> for Passed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Passed<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("anything")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<(), S::Error> {
        while seq.next_element_seed(Passed(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "loc" | "begin" | "end" => drop(map.next_value_seed(PlaceSeed(self.0))?),
                // The header that one is included from: no place.
                "includedFrom" => drop(map.next_value::<IgnoredAny>()?),
                _ => map.next_value_seed(Passed(self.0))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files are told where they change, also by places that are passed over; `offset` comes before `file`.
    #[test]
    fn places_have_the_last_file_that_was_told() {
        let text = r#"{"id": "0x1", "kind": "TranslationUnitDecl", "loc": {}, "range": {"begin": {}, "end": {}}, "inner": [
            {"id": "0x2", "kind": "FunctionDecl", "loc": {"offset": 9, "file": "/usr/include/a.h", "line": 3, "tokLen": 1},
             "range": {"begin": {"offset": 5, "tokLen": 3}, "end": {"offset": 30, "tokLen": 1}}, "name": "a", "inner": [
                {"kind": "ParmVarDecl", "loc": {"offset": 7, "file": "one.c", "tokLen": 1, "includedFrom": {"file": "x.c"}}}]},
            {"id": "0x3", "kind": "VarDecl", "loc": {"offset": 40, "tokLen": 2}, "name": "b", "inner": [
                {"kind": "DeclRefExpr", "range": {
                    "begin": {"spellingLoc": {"offset": 1, "tokLen": 4}, "expansionLoc": {"offset": 50, "tokLen": 1}},
                    "end": {"spellingLoc": {"offset": 60, "tokLen": 4},
                            "expansionLoc": {"offset": 50, "tokLen": 1, "isMacroArgExpansion": true}}}}, {}]}]}"#;
        let unit = read(text.as_bytes(), &mut |name| (name == "one.c").then_some(7)).unwrap();
        let [passed, kept] = unit.inner.as_slice() else { panic!("{unit:?}") };
        assert!(passed.inner.is_empty() && passed.place.spelled.file.is_none());
        assert_eq!((kept.place.spelled, kept.inner.len()), (Spot { file: Some(7), offset: 40, bytes: 2 }, 2));
        let of_macro = &kept.inner[0];
        assert_eq!(
            (of_macro.begin.spelled.offset, of_macro.begin.expanded.offset, of_macro.begin.is_in_macro),
            (1, 50, true)
        );
        assert_eq!((of_macro.end.spelled.offset, of_macro.end.is_in_macro), (60, false));
    }
}
