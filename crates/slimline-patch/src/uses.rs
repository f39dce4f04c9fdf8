//! Every use that a unit makes of the structure.
//!
//! An expression or declaration whose type is made of the structure is of a kind that is known here, or it is told as one that is not:
//! nobody may change a layout then.

mod addresses;
mod calls;
mod casts;
mod declarations;
mod expressions;
mod linkage;

use rustc_hash::{FxHashMap, FxHashSet};

use self::addresses::Addresses;
use self::calls::Passed;
pub(crate) use self::declarations::pointers_to;
use self::expressions::names_this;
use self::linkage::Linkage;
use crate::allocation::Allocation;
use crate::flows::Flows;
use crate::names::{Names, Relation};
use crate::source::Source;
use crate::tree::{Node, Place, Spot};

/// A use, and where.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    pub(crate) what: What,
    pub(crate) at: Spot,
    /// The unit's number.
    pub(crate) unit: usize,
}

/// What is done.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A field is named.
    Member(Member),
    /// Its size is asked for, and not for a block of it.
    Size,
    /// The offset of a field is.
    Offset,
    /// A block of it is allocated.
    Allocation(Allocation),
    /// One is freed; the place of the function's name.
    Free((Place, Place)),
    /// A list in braces says what it holds.
    Initializer(Initializer),
    /// All of it is set to a compound literal, in a statement of its own.
    Store(Store),
    /// All of it is copied.
    Copy,
    /// A variable is one.
    Variable(Variable),
    /// A variable is an array of it.
    Array(Variable),
    /// A function takes or gives one.
    ByValue,
    /// It is in another structure, or in a union.
    Inside {
        /// Of these.
        is_union: bool,
    },
    /// A pointer to it becomes one to something else, or the other way round.
    Cast(String),
    /// A pointer to it becomes one to anything: for this function, where it is one's argument.
    Escape(Option<String>),
    /// A function reads, writes or compares its bytes.
    Bytes(String),
    /// A pointer to anything becomes one to it.
    Adopted(Option<String>),
    /// A function or variable that has to do with it is defined nowhere here.
    External(String),
    /// The address of this field may lead to what lies next to it.
    Neighbour(String),
    /// A function gets it that is called by a pointer whose type does not tell so.
    ByPointer,
    /// `new` or `delete`.
    New,
    /// A template is made for it.
    Template,
    /// A member is set by the constructor's own list.
    ConstructorList,
    /// Something that is not known here.
    Unknown(String),
}

/// `x->f` or `x.f`.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) field: usize,
    pub(crate) name: Place,
    /// The first token of `x`.
    pub(crate) begin: Place,
    /// The last one.
    pub(crate) base_end: Place,
    pub(crate) is_arrow: bool,
    /// Where it is `v[i].f`: which variable that is, and its name's place.
    pub(crate) indexed: Option<(String, Place)>,
    /// Whether it says which object, and nothing is accessed: of `sizeof x->f`, or where `x` is no object.
    pub(crate) is_of_null: bool,
}

/// `{1, 2}`.
#[derive(Clone, Debug)]
pub(crate) struct Initializer {
    pub(crate) begin: Place,
    pub(crate) end: Place,
    /// Where what it says of each field begins; none of those of which it says nothing.
    pub(crate) values: Vec<Option<Place>>,
    pub(crate) holder: Holder,
}

/// What an initializer is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The literal of a [`Store`].
    Store,
    /// A variable.
    Variable,
    /// Anything else.
    Other,
}

/// `x = (struct node){…};`.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    /// Of `x`.
    pub(crate) left: (Place, Place),
    /// Of the literal, and of its list.
    pub(crate) literal: (Place, Place),
    pub(crate) list: Place,
}

/// A variable.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) key: String,
    pub(crate) name: String,
    pub(crate) place: Place,
    /// Of its declaration.
    pub(crate) begin: Place,
    pub(crate) storage: String,
    /// Whether each thread has its own.
    pub(crate) is_of_thread: bool,
    /// Whether it is outside of functions.
    pub(crate) is_global: bool,
    /// Whether nothing else is declared with it, in a statement of its own.
    pub(crate) is_alone: bool,
    /// Its initializer, if it has one.
    pub(crate) initializer: Option<(Place, Place)>,
}

/// What all units tell.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    pub(crate) all: Vec<Use>,
    pub(crate) flows: Flows,
    linkage: Linkage,
    addresses: Addresses,
    /// What functions get, and those that are called by what is not known: known by the linker's name when all units were looked at.
    passed: Vec<Passed>,
    /// By function: from which others it is called, and whether it may be several times there. None where it is called by something else.
    calls: FxHashMap<String, Vec<Option<(String, bool)>>>,
    /// How often each token in a macro's definition names a member or a function.
    pub(crate) readings: FxHashMap<Spot, usize>,
}

impl Uses {
    /// Looks at a unit's declarations.
    pub(crate) fn add(&mut self, unit: usize, tree: &Node, of: &OfUnit<'_>) -> Names {
        let (consumed, stored) = <(FxHashSet<_>, FxHashSet<_>)>::default();
        let mut walk = Walk { uses: self, of, names: of.names.clone(), unit, above: Vec::new(), consumed, stored };
        walk.node(tree);
        walk.names
    }

    /// Whether a function runs once at most.
    pub(crate) fn runs_once(&self, function: &str) -> bool {
        let mut function = function;
        // Longer ways from `main` than there are functions go in circles.
        for _ in 0..=self.calls.len() {
            match (function, self.calls.get(function).map(Vec::as_slice)) {
                ("main", None) => return true,
                ("main", Some(_)) | (_, None) => return false,
                (_, Some([Some((caller, false))])) => function = caller,
                (_, Some(_)) => return false,
            }
        }
        false
    }

    /// When all units were looked at: what is defined nowhere.
    pub(crate) fn finish(&mut self) {
        for asked in self.linkage.missing() {
            self.all.push(Use { what: What::External(asked.name), at: asked.at, unit: asked.unit });
        }
        for Passed { unit, declaration, name, argument } in std::mem::take(&mut self.passed) {
            let function = self.linkage.name(unit, &declaration, &name);
            match argument {
                Some((number, origin)) => self.flows.argument(&function, number, origin),
                None => self.flows.unknown_callers(function),
            }
        }
        self.reach_neighbours();
    }
}

/// What is known of a unit.
pub(crate) struct OfUnit<'a> {
    pub(crate) names: Names,
    /// The structure's declaration.
    pub(crate) record: &'a str,
    /// Fields by their declarations.
    pub(crate) fields: FxHashMap<&'a str, usize>,
    /// Their types.
    pub(crate) types: &'a [String],
    pub(crate) sources: &'a [Source],
}

struct Walk<'a, 'n> {
    uses: &'a mut Uses,
    of: &'a OfUnit<'a>,
    names: Names,
    unit: usize,
    /// Nodes around the one that is looked at.
    above: Vec<&'n Node>,
    /// Nodes that are understood with others.
    consumed: FxHashSet<String>,
    /// Lists of literals that are stored.
    stored: FxHashSet<String>,
}

impl<'n> Walk<'_, 'n> {
    fn node(&mut self, node: &'n Node) {
        self.look(node);
        if matches!(node.kind.as_str(), "TypedefDecl" | "TypeAliasDecl")
            || node.is_implicit && node.kind.starts_with("CXX") && node.kind.ends_with("Decl")
        {
            return;
        }
        self.above.push(node);
        node.inner.iter().for_each(|inner| self.node(inner));
        self.above.pop();
    }

    fn tell(&mut self, what: What, at: Place) {
        let at = if at.expanded.file.is_some() { at.expanded } else { at.spelled };
        // What has no place of its own has that of what is around it.
        let around = self.above.iter().rev().map(|above| above.begin.expanded).find(|spot| spot.file.is_some());
        let at = if at.file.is_some() { at } else { around.unwrap_or_default() };
        self.uses.all.push(Use { what, at, unit: self.unit });
    }

    fn relation(&self, node: &Node) -> Relation {
        self.names.relation(node.type_text.text())
    }

    fn is_in_template(&self) -> bool {
        self.above.iter().any(|above| above.kind.contains("Template"))
    }

    fn look(&mut self, node: &'n Node) {
        match node.kind.as_str() {
            "TypedefDecl" | "TypeAliasDecl" => self.alias(node),
            _ if node.is_function() => self.function(node),
            "ParmVarDecl" => match self.relation(node) {
                Relation::Value | Relation::Array => self.tell(What::ByValue, node.place),
                Relation::Template => self.tell(What::Template, node.place),
                Relation::Other => self.tell(What::Unknown(node.type_text.qual_type.clone()), node.place),
                _ => {}
            },
            "VarDecl" => self.variable(node),
            "FieldDecl" => match self.relation(node) {
                Relation::Value | Relation::Array => {
                    let is_union = self.above.last().is_some_and(|above| above.tag == "union");
                    self.tell(What::Inside { is_union }, node.place);
                }
                Relation::Template => self.tell(What::Template, node.place),
                Relation::Other => self.tell(What::Unknown(node.type_text.qual_type.clone()), node.place),
                _ if self.above.last().is_some_and(|above| above.id == self.of.record) && names_this(node) => {
                    self.tell(What::ConstructorList, node.place);
                }
                _ => {}
            },
            "CXXCtorInitializer" => {
                let is_its_own = self.above.iter().any(|above| above.id == self.of.record);
                if is_its_own && self.above.last().is_some_and(|above| !above.is_implicit) {
                    self.tell(What::ConstructorList, node.begin);
                }
            }
            // Declarations that say nothing more.
            kind if kind.ends_with("Decl")
                && !matches!(kind, "DecompositionDecl" | "BindingDecl" | "IndirectFieldDecl") => {}
            // Types, attributes and comments.
            kind if kind.ends_with("Type") || kind.ends_with("Attr") || kind.ends_with("Comment") => {}
            _ => self.expression(node),
        }
    }
}
