//! Every use that a unit makes of the structure.
//!
//! An expression or declaration whose type is made of the structure is of a kind that is known here, or it is told as one that is not:
//! nobody may change a layout then.

mod casts;
mod expressions;

use rustc_hash::{FxHashMap, FxHashSet};

use self::expressions::{KNOWN, is_null, names_this, unconverted};
use crate::allocation::{self, Allocation};
use crate::flows::{Flow, Flows, Origin};
use crate::names::{Names, Relation};
use crate::source::{Source, Token};
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
    /// Functions and variables that are defined.
    defined: FxHashSet<String>,
    /// Those that are called, or named with pointers to the structure, and where.
    asked: Vec<(String, Spot, usize)>,
    /// By function: from which others it is called, and whether it may be several times there. None where it is called by something else.
    calls: FxHashMap<String, Vec<Option<(String, bool)>>>,
    /// How often each token in a macro's definition names a member or a function.
    pub(crate) readings: FxHashMap<Spot, usize>,
}

impl Uses {
    /// Looks at a unit's declarations.
    pub(crate) fn add(&mut self, unit: usize, tree: &Node, of: &OfUnit<'_>) -> Names {
        let (consumed, stored, statics) = <(FxHashSet<_>, FxHashSet<_>, FxHashSet<_>)>::default();
        let mut walk =
            Walk { uses: self, of, names: of.names.clone(), unit, above: Vec::new(), consumed, stored, statics };
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
        for (name, at, unit) in std::mem::take(&mut self.asked) {
            if !self.defined.contains(&name) {
                self.all.push(Use { what: What::External(name), at, unit });
            }
        }
    }
}

/// What is known of a unit.
pub(crate) struct OfUnit<'a> {
    pub(crate) names: Names,
    /// The structure's declaration.
    pub(crate) record: &'a str,
    /// Fields by their declarations.
    pub(crate) fields: FxHashMap<&'a str, usize>,
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
    /// Functions that a declaration calls static: not all do.
    statics: FxHashSet<String>,
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
            "FunctionDecl" | "CXXMethodDecl" | "CXXConstructorDecl" | "CXXDestructorDecl" | "CXXConversionDecl" => {
                self.function(node)
            }
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

    fn alias(&mut self, node: &Node) {
        match pointers_to(node, self.of.record) {
            Some(pointers) => self.names.alias(&node.name, pointers),
            None => self.names.declare(&node.name, &node.type_text.qual_type),
        }
    }

    fn function(&mut self, node: &'n Node) {
        if node.storage == "static" {
            self.statics.insert(node.name.clone());
        }
        let is_static = self.statics.contains(&node.name);
        let key = self.key_of(&node.name, is_static);
        if node.inner.iter().any(|inner| inner.kind == "CompoundStmt") {
            self.uses.defined.insert(node.name.clone());
            let parameters = node.inner.iter().filter(|inner| inner.kind == "ParmVarDecl");
            for (number, parameter) in parameters.enumerate() {
                self.uses.flows.parameter(self.unit, &parameter.id, &key, number);
            }
        }
        self.uses.flows.function(self.unit, &node.id, &key);
        let text = node.type_text.text();
        if self.names.relation(text) == Relation::None || node.is_implicit {
            return;
        }
        let result = text.split('(').next().unwrap_or_default().trim();
        match self.names.relation(result) {
            Relation::Value => self.tell(What::ByValue, node.place),
            Relation::Template => self.tell(What::Template, node.place),
            _ => {}
        }
        if self.is_in_template() {
            self.tell(What::Template, node.place);
        }
    }

    /// What all units call it, or only this one.
    fn key_of(&self, name: &str, is_static: bool) -> String {
        if is_static { format!("{}:{name}", self.unit) } else { name.to_owned() }
    }

    fn variable(&mut self, node: &'n Node) {
        let relation = self.relation(node);
        let parent = self.above.last().copied();
        let is_global = !self.above.iter().any(|above| above.kind == "CompoundStmt");
        let key = match is_global {
            true => self.key_of(&node.name, node.storage == "static"),
            false => format!("{}:{}", self.unit, node.id),
        };
        self.uses.flows.variable(self.unit, &node.id, &key);
        if node.storage != "extern" || node.inner.iter().any(|inner| inner.kind.ends_with("Expr")) {
            self.uses.defined.insert(node.name.clone());
        } else if relation != Relation::None {
            self.uses.asked.push((node.name.clone(), node.place.expanded, self.unit));
        }
        let value = node.inner.iter().find(|inner| !inner.kind.ends_with("Attr"));
        if relation == Relation::Pointer
            && let Some(value) = value
        {
            let origin = self.origin(value);
            self.uses.flows.add(Flow { to: key.clone(), origin });
        }
        let grand = self.above.iter().rev().nth(1);
        let variable = Variable {
            key,
            name: node.name.clone(),
            place: node.place,
            begin: node.begin,
            storage: node.storage.clone(),
            is_of_thread: node.is_of_thread,
            is_global,
            is_alone: parent.is_some_and(|parent| parent.inner.len() == 1 && parent.kind == "DeclStmt")
                && grand.is_some_and(|grand| grand.kind == "CompoundStmt"),
            initializer: value.map(|value| (value.begin, value.end)),
        };
        match relation {
            Relation::Value => self.tell(What::Variable(variable), node.place),
            Relation::Array => self.tell(What::Array(variable), node.place),
            Relation::Template => self.tell(What::Template, node.place),
            Relation::Other => self.tell(What::Unknown(node.type_text.qual_type.clone()), node.place),
            _ => {}
        }
    }

    fn expression(&mut self, node: &'n Node) {
        if self.consumed.contains(&node.id) {
            return;
        }
        let relation = self.relation(node);
        match node.kind.as_str() {
            "MemberExpr" => self.member(node),
            "DeclRefExpr" => self.reference(node, relation),
            "CallExpr" | "CXXMemberCallExpr" | "CXXOperatorCallExpr" => self.call(node, relation),
            "UnaryExprOrTypeTraitExpr" => {
                let of = match (&node.argument_type, node.inner.first()) {
                    (Some(of), _) => self.names.relation(of.text()),
                    (None, Some(inner)) => self.relation(inner),
                    (None, None) => Relation::None,
                };
                if matches!(of, Relation::Value | Relation::Array) {
                    self.tell(What::Size, node.begin);
                }
            }
            "OffsetOfExpr" => {
                let (start, end) = (node.begin.expanded, node.end.expanded);
                let source = start.file.and_then(|file| self.of.sources.get(file as usize));
                // Up to the end of the macro's arguments, which is that of the line at most in practice.
                let line = source.map_or(end.end(), |source| {
                    let rest = source.text.get(end.end()..).unwrap_or_default();
                    end.end() + rest.find([';', '\n']).unwrap_or(rest.len())
                });
                let tokens = source.and_then(|source| source.tokens(start.offset, line));
                let is_its = |pair: &[Token<'_>]| {
                    let names = [pair[1].text.to_owned(), format!("{} {}", pair[0].text, pair[1].text)];
                    names.iter().any(|name| self.names.relation(name) != Relation::None)
                };
                if tokens.is_none_or(|tokens| tokens.windows(2).any(is_its)) {
                    self.tell(What::Offset, node.begin);
                }
            }
            kind if kind.ends_with("CastExpr") => self.cast(node, relation),
            "BinaryOperator" => self.operator(node, relation),
            "UnaryOperator" | "CompoundAssignOperator" => {
                let changed = node.inner.first().map(Node::bare);
                let changes = matches!(node.operator.as_str(), "&" | "++" | "--" | "+=" | "-=");
                if let Some(key) = changed.filter(|_| changes).and_then(|changed| self.key(changed)) {
                    self.uses.flows.add(Flow { to: key, origin: Origin::Other });
                }
            }
            "InitListExpr" if relation == Relation::Value => {
                let values =
                    node.inner.iter().map(|inner| (inner.kind != "ImplicitValueInitExpr").then_some(inner.begin));
                let holder = match self.above.last() {
                    _ if self.stored.contains(&node.id) => Holder::Store,
                    Some(above) if above.kind == "VarDecl" => Holder::Variable,
                    _ => Holder::Other,
                };
                let what = Initializer { begin: node.begin, end: node.end, values: values.collect(), holder };
                self.tell(What::Initializer(what), node.begin);
            }
            "CXXNewExpr" | "CXXDeleteExpr" => {
                let of = if relation == Relation::Pointer {
                    relation
                } else {
                    node.inner.first().map_or(Relation::None, |inner| self.relation(inner.uncast()))
                };
                if of == Relation::Pointer {
                    self.tell(What::New, node.begin);
                }
            }
            "CXXConstructExpr"
            | "CXXTemporaryObjectExpr"
            | "ConditionalOperator"
            | "StmtExpr"
            | "VAArgExpr"
            | "BinaryConditionalOperator"
                if relation == Relation::Value =>
            {
                self.tell(What::Copy, node.begin);
            }
            _ if relation == Relation::None || KNOWN.contains(&node.kind.as_str()) => {}
            _ => self.tell(What::Unknown(node.kind.clone()), node.begin),
        }
        if relation != Relation::None && self.is_in_template() {
            self.tell(What::Template, node.begin);
        }
    }

    /// A token that changes must change for all that it is read as: by macros, and in files that are included or compiled several times.
    fn read(&mut self, place: Place) {
        *self.uses.readings.entry(place.spelled).or_default() += 1;
    }

    fn member(&mut self, node: &'n Node) {
        self.read(node.end);
        let Some(&field) = self.of.fields.get(node.member.as_str()) else { return };
        let base = node.inner.first();
        let is_of_null = base.is_some_and(is_null);
        let indexed =
            base.map(Node::bare).filter(|base| !node.is_arrow && base.kind == "ArraySubscriptExpr").and_then(|base| {
                let variable = unconverted(base.inner.first()?);
                Some((self.key(variable)?, variable.begin))
            });
        let (begin, base_end) = base.map_or((node.begin, node.begin), |base| (base.begin, base.end));
        let member = Member { field, name: node.end, begin, base_end, is_arrow: node.is_arrow, indexed, is_of_null };
        self.tell(What::Member(member), node.end);
    }

    fn reference(&mut self, node: &'n Node, relation: Relation) {
        self.read(node.begin);
        let Some(referred) = node.referred.as_ref().filter(|referred| referred.kind == "FunctionDecl") else { return };
        let is_called = self.around().is_some_and(|call| {
            call.kind == "CallExpr" && call.callee().is_some_and(|callee| callee.id == referred.id)
        });
        let around = self.above.iter().rev().find(|above| above.kind == "FunctionDecl");
        let inside = self.above.iter().rev().take_while(|above| above.kind != "FunctionDecl");
        let is_repeated = inside.into_iter().any(|above| allocation::repeats(above));
        let call = around.filter(|_| is_called).map(|around| (around.name.clone(), is_repeated));
        self.uses.calls.entry(referred.name.clone()).or_default().push(call);
        if !is_called {
            self.uses.flows.unknown_callers(self.unit, &referred.id);
        }
        if relation == Relation::Function {
            self.uses.asked.push((referred.name.clone(), node.begin.expanded, self.unit));
        }
    }

    fn call(&mut self, node: &'n Node, relation: Relation) {
        // Also by an operator of its own, as C++ assigns it.
        if relation == Relation::Value {
            self.tell(What::Copy, node.begin);
        }
        let Some(callee) = node.callee() else { return };
        let place = node.inner.first().map(Node::uncast).map(|callee| (callee.begin, callee.end)).unwrap_or_default();
        let arguments = node.inner.iter().skip(1);
        for (number, argument) in arguments.enumerate() {
            if self.relation(argument) == Relation::Pointer {
                let origin = self.origin(argument);
                self.uses.flows.argument(self.unit, &callee.id, number, origin);
            }
            let bare = argument.uncast();
            if self.relation(bare) != Relation::Pointer || is_null(argument) {
                continue;
            }
            let what = match callee.name.as_str() {
                "free" => What::Free(place),
                name if allocation::TAKES_BYTES.contains(&name) => What::Bytes(name.to_owned()),
                // What is copied to somewhere else is bytes.
                name if allocation::COPIES.contains(&name) && !self.copies_it(node) => What::Bytes(name.to_owned()),
                name if allocation::TAKES_PARTS.contains(&name) && !allocation::is_of_wholes(node, &self.names) => {
                    What::Bytes(name.to_owned())
                }
                name if allocation::TAKES_WHOLE.contains(&name) => What::Escape(Some(name.to_owned())),
                name if allocation::PRINTS.contains(&name) => continue,
                // Without a prototype nothing tells what it takes.
                name => {
                    if self.relation(argument) == Relation::Pointer {
                        self.uses.asked.push((name.to_owned(), argument.begin.expanded, self.unit));
                    }
                    continue;
                }
            };
            let mut cast = argument;
            while cast.is_cast() || cast.kind == "ParenExpr" {
                self.consumed.insert(cast.id.clone());
                let Some(inner) = cast.inner.first() else { break };
                cast = inner;
            }
            self.tell(what, argument.begin);
        }
    }

    /// Whether both places of a copy are of the structure.
    fn copies_it(&self, call: &Node) -> bool {
        let places = call.inner.iter().skip(1).take(2);
        places.into_iter().all(|place| matches!(self.relation(place.uncast()), Relation::Pointer | Relation::Array))
    }

    fn operator(&mut self, node: &'n Node, relation: Relation) {
        let [left, right] = node.inner.as_slice() else { return };
        if node.operator != "=" {
            return;
        }
        if relation == Relation::Pointer
            && let Some(key) = self.key(left.bare())
        {
            let origin = self.origin(right);
            self.uses.flows.add(Flow { to: key, origin });
        }
        if relation != Relation::Value {
            return;
        }
        let literal = unconverted(right);
        let is_statement = self.above.last().is_some_and(|above| {
            matches!(
                above.kind.as_str(),
                "CompoundStmt" | "IfStmt" | "WhileStmt" | "DoStmt" | "ForStmt" | "CaseStmt" | "LabelStmt"
            )
        });
        let list =
            literal.inner.first().filter(|list| literal.kind == "CompoundLiteralExpr" && list.kind == "InitListExpr");
        match list.filter(|_| is_statement) {
            Some(list) => {
                self.consumed.insert(node.id.clone());
                self.stored.insert(list.id.clone());
                let store =
                    Store { left: (left.begin, left.end), literal: (literal.begin, literal.end), list: list.begin };
                self.tell(What::Store(store), node.begin);
            }
            None => self.tell(What::Copy, node.begin),
        }
    }

    /// Which variable an expression is.
    fn key(&self, node: &Node) -> Option<String> {
        let referred = node.referred.as_ref().filter(|_| node.kind == "DeclRefExpr")?;
        self.uses.flows.key(self.unit, &referred.id)
    }

    /// Where a pointer comes from.
    fn origin(&self, node: &Node) -> Origin {
        if is_null(node) {
            return Origin::Null;
        }
        let bare = node.uncast();
        match bare.kind.as_str() {
            "CallExpr" if Allocation::of(bare, &self.above, &self.names).is_some() => Origin::Allocation,
            _ => self.key(bare).map_or(Origin::Other, Origin::Variable),
        }
    }
}

/// How many pointers a name for a type is from the record; none where it is another's, or a function's or an array's.
pub(crate) fn pointers_to(node: &Node, record: &str) -> Option<usize> {
    let inner = node.inner.first()?;
    let is_it = |referred: &crate::tree::Referred| referred.id == record;
    match inner.kind.as_str() {
        "RecordType" => inner.referred.as_ref().is_some_and(is_it).then_some(0),
        "ElaboratedType" | "ParenType" | "QualType" => pointers_to(inner, record),
        "PointerType" => Some(1 + pointers_to(inner, record)?),
        _ => None,
    }
}
