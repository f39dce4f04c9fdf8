//! What the program defines, as its linker tells names apart: statics are each unit's own, what is local is nobody else's, and C++ has
//! mangled names.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Walk;
use crate::names::Relation;
use crate::tree::{Node, Spot};

/// What clang calls a namespace without a name, in mangled ones.
const UNNAMED_NAMESPACE: &str = "_GLOBAL__N_";

/// Functions and variables of all units.
#[derive(Debug, Default)]
pub(crate) struct Linkage {
    /// The linker's name, by unit and declaration.
    names: FxHashMap<(usize, String), String>,
    defined: FxHashSet<String>,
    asked: Vec<Asked>,
}

/// Something that must be defined somewhere, as it gets the structure.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) unit: usize,
    /// Which declaration names it.
    pub(crate) declaration: String,
    pub(crate) name: String,
    pub(crate) at: Spot,
}

impl Linkage {
    pub(super) fn ask(&mut self, asked: Asked) {
        self.asked.push(asked);
    }

    /// Of a declaration, when all units were looked at. C declares functions that are called before they are declared, in no place.
    pub(super) fn name(&self, unit: usize, declaration: &str, name: &str) -> String {
        self.names.get(&(unit, declaration.to_owned())).map_or_else(|| name.to_owned(), Clone::clone)
    }

    /// What was asked for and is defined nowhere.
    pub(super) fn missing(&mut self) -> Vec<Asked> {
        let mut asked = std::mem::take(&mut self.asked);
        asked.retain(|asked| !self.defined.contains(&self.name(asked.unit, &asked.declaration, &asked.name)));
        asked
    }
}

impl Walk<'_, '_> {
    /// The linker's name of a function or variable; of one that it does not know, one that no other has.
    pub(super) fn linked(&mut self, node: &Node) -> String {
        let id = |of: &str| (self.unit, of.to_owned());
        let known = self.uses.linkage.names.get(&id(&node.previous));
        let name = known.cloned().unwrap_or_else(|| match self.is_of_unit(node) {
            Some(true) => format!("{}:{}", self.unit, node.mangled),
            Some(false) => node.mangled.clone(),
            None => format!("{}:{}", self.unit, node.id),
        });
        // The one before may have no place of its own: see `Linkage::name`.
        for of in [&node.previous, &node.id].into_iter().filter(|of| !of.is_empty()) {
            self.uses.linkage.names.insert(id(of), name.clone());
        }
        name
    }

    /// Whether the name is only this unit's; none of what has no name for the linker.
    fn is_of_unit(&self, node: &Node) -> Option<bool> {
        let is_local = node.kind == "VarDecl" && node.storage != "extern" && self.is_in_function();
        // A template is none itself: what is made of it is.
        if is_local || node.mangled.is_empty() {
            return None;
        }
        let is_static = node.storage == "static" && !self.is_in_class();
        Some(is_static || node.mangled.contains(UNNAMED_NAMESPACE))
    }

    pub(super) fn is_in_function(&self) -> bool {
        self.above.iter().any(|above| above.kind == "CompoundStmt")
    }

    pub(super) fn is_in_class(&self) -> bool {
        self.above.last().is_some_and(|above| above.kind.starts_with("CXXRecord") || above.kind.starts_with("Class"))
    }

    pub(super) fn define(&mut self, linked: &str) {
        self.uses.linkage.defined.insert(linked.to_owned());
    }

    pub(super) fn ask(&mut self, declaration: &str, name: &str, at: Spot) {
        let (declaration, name) = (declaration.to_owned(), name.to_owned());
        self.uses.linkage.ask(Asked { unit: self.unit, declaration, name, at });
    }

    /// Methods may be called by other names than their own, of a parent or by a pointer, and constructors are not named where they are
    /// called: so all of them that get the structure must be defined.
    pub(super) fn ask_for_method(&mut self, node: &Node) {
        let is_its_own = self.above.last().is_some_and(|above| above.id == self.of.record);
        let gets_it = is_its_own && node.storage != "static" || self.relation(node) != Relation::None;
        let is_left_out = node.is_implicit || node.is_unwritten || self.is_in_template();
        if gets_it && !is_left_out && !self.is_forbidden_copy(node) {
            self.ask(&node.id, &node.name, node.place.expanded);
        }
    }

    /// Whether it is private and copies, which is how C++ forbade that before 2011: such are declared only.
    fn is_forbidden_copy(&self, node: &Node) -> bool {
        let Some(class) = self.above.last() else { return false };
        let is_private = class
            .inner
            .iter()
            .take_while(|inner| inner.id != node.id)
            .filter(|inner| inner.kind == "AccessSpecDecl")
            .last()
            .map_or(class.tag == "class", |access| access.access == "private");
        let parameters: Vec<&Node> = node.inner.iter().filter(|inner| inner.kind == "ParmVarDecl").collect();
        let copies = matches!(parameters.as_slice(), [of] if self.relation(of) == Relation::Reference);
        is_private && copies && (node.kind == "CXXConstructorDecl" || node.name == "operator=")
    }
}
