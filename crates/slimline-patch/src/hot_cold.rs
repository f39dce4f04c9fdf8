//! What is hardly used behind a pointer.

use crate::allocation::Allocator;
use crate::generated;
use crate::pool::Blocks;
use crate::uses::{Holder, Member, Store, Use, Variable, What};
use crate::{Patching, Refusal};

/// Names that the new code has.
struct Named {
    type_name: String,
    /// The structure of what is hardly used.
    cold: String,
    functions: [String; 3],
    store: String,
    hot_pool: String,
    cold_pool: String,
}

impl Patching<'_> {
    /// Leaves the first fields where they are, and puts the others behind a pointer.
    pub(crate) fn hot_cold(&mut self, (hot, cold): (&[usize], &[usize]), is_pool: bool) -> Result<(), Refusal> {
        let found = self.found;
        let definition = &found.definition;
        if definition.fields.iter().any(|field| field.name == "cold") {
            return Err(found.refusal(definition.start, "it has a member that is called cold"));
        }
        let plain = found.plain_name();
        let named = Named {
            type_name: found.type_name(),
            cold: found.new_name(&format!("{plain}_cold")),
            functions: self.functions(),
            store: found.new_name(&format!("{plain}_store")),
            hot_pool: found.new_name(&format!("{plain}_pool")),
            cold_pool: found.new_name(&format!("{plain}_cold_pool")),
        };
        let mut stores = Vec::new();
        let mut variables: Vec<&str> = Vec::new();
        for use_ in &found.uses.all {
            if let Some(why) = Self::never(&use_.what).or_else(|| not_in_parts(&use_.what)) {
                return Err(self.refuse(use_, why));
            }
            match &use_.what {
                What::Member(of) if of.is_of_null => {
                    return Err(self.refuse(use_, "the offset of a member is asked for"));
                }
                What::Member(of) if cold.contains(&of.field) => {
                    self.is_behind_definition(use_, of)?;
                    let (file, spot) = self.token(of.name)?;
                    self.edits.insert(file, spot.offset, "cold->", spot.offset);
                }
                What::Variable(variable) => {
                    if variable.storage != "extern" && variable.is_global {
                        if variables.contains(&variable.key.as_str()) {
                            return Err(self.refuse(use_, "this variable is defined in several units"));
                        }
                        variables.push(&variable.key);
                    }
                    self.variable(use_, variable, &named.cold)?;
                }
                What::Store(store) => stores.push((use_, store)),
                What::Array(_) => {
                    return Err(
                        self.refuse(use_, "an array that is a variable has no code that could set its pointers")
                    );
                }
                _ => {}
            }
        }
        let blocks = self.blocks()?;
        let several = blocks.several();
        if several.is_none() {
            self.keep_to_pools(&blocks)?;
        }
        if let Some(several) = several.filter(|_| blocks.frees > 0)
            && blocks.allocations.iter().any(|(_, allocation)| allocation.is_of_one)
        {
            return Err(
                self.refuse(several, "some are allocated by themselves and some in arrays, and both may be freed")
            );
        }
        let [malloc, calloc, free] = &named.functions;
        self.call_instead([malloc, calloc, free])?;
        let source = found.source();
        for number in 0..definition.declarations.len() {
            if let Some((start, end, text)) = definition.without(source, number, cold) {
                self.edits.replace(definition.file, (start, end), text);
            }
        }
        let indentation = definition.indentation(source);
        self.point_to_cold(hot, &named.cold, indentation)?;
        let fields = definition.text(source, cold, indentation, "");
        let mut code =
            format!("/* What of a {} is hardly used. */\nstruct {} {{\n{fields}}};\n\n", named.type_name, named.cold);
        code += &match several {
            Some(_) => self.of_arrays(&named, &blocks),
            None => self.of_nodes(&named, &blocks, is_pool),
        };
        if !stores.is_empty() {
            let place = |field: usize| {
                let name = &definition.fields[field].name;
                if cold.contains(&field) { format!("to->cold->{name}") } else { format!("to->{name}") }
            };
            code += "\n";
            code += &self.stores(&stores, (&named.store, &named.type_name), &place)?;
        }
        self.generate(&code, &["stdlib.h", "string.h"])
    }

    /// A method's body in the class is before what is generated.
    pub(crate) fn is_behind_definition(&self, use_: &Use, member: &Member) -> Result<(), Refusal> {
        let (definition, name) = (&self.found.definition, member.name.spelled);
        match name.file == Some(definition.file) && (definition.start..definition.end).contains(&name.offset) {
            true => {
                Err(self
                    .refuse(use_, "a method's body in the class uses what would be apart; behind the class it could"))
            }
            false => Ok(()),
        }
    }

    /// Declares the pointer behind the last field that stays.
    fn point_to_cold(&mut self, hot: &[usize], cold: &str, indentation: &str) -> Result<(), Refusal> {
        let definition = &self.found.definition;
        let source = self.found.source();
        let last = hot.iter().map(|field| definition.fields[*field].declaration).max();
        let Some(last) = last.map(|last| &definition.declarations[last]) else {
            return Err(Refusal::of("nothing of it stays"));
        };
        let is_on_lines = source.text[..last.end].ends_with('\n');
        let line = format!("struct {cold} *cold;");
        let text = if is_on_lines { format!("{indentation}{line}\n") } else { format!(" {line}") };
        self.edits.insert(definition.file, last.end, text, last.end);
        Ok(())
    }

    /// Has literals stored by a function.
    pub(crate) fn stores(
        &mut self,
        stores: &[(&Use, &Store)],
        (store, type_name): (&str, &str),
        place: &dyn Fn(usize) -> String,
    ) -> Result<String, Refusal> {
        let found = self.found;
        let whole = found.new_name(&format!("{}_whole", found.plain_name()));
        let mut alias = None;
        for (use_, of) in stores {
            let (file, start, left_end) = self.range(of.left.0, of.left.1)?;
            let (_, literal, end) = self.range(of.literal.0, of.literal.1)?;
            let (_, list, _) = self.range(of.list, of.list)?;
            let source = self.source(file);
            let refused = || self.refuse(use_, "this assignment is not understood");
            let equals = source.tokens(left_end, literal).ok_or_else(refused)?;
            let [equals] = equals.as_slice() else { return Err(refused()) };
            let named = source.tokens(literal, list).ok_or_else(refused)?;
            let is_name =
                |at: &usize| named[*at].is(&found.definition.tag) || found.names[use_.unit].is_own(named[*at].text);
            let at = (0..named.len()).rev().find(is_name).ok_or_else(refused)?;
            let name = named[at];
            let is_tag = at > 0 && named[at - 1].is("struct");
            let new = if is_tag { whole.clone() } else { found.new_name(&format!("{}_literal", name.text)) };
            let (equals, name) = ((equals.start, equals.end), (name.start, name.end));
            if !is_tag {
                if alias.as_ref().is_some_and(|alias| *alias != new) {
                    return Err(self.refuse(use_, "literals of it have several names"));
                }
                alias = Some(new.clone());
            }
            self.edits.insert(file, start, format!("{store}(&"), start);
            let blank = usize::from(self.source(file).text[..equals.0].ends_with(' '));
            self.edits.replace(file, (equals.0 - blank, equals.1), ",");
            self.edits.replace(file, name, new);
            self.edits.insert(file, end, ")", start);
        }
        Ok(generated::store(&found.definition, found.source(), (&whole, alias.as_deref()), (store, type_name), place))
    }

    /// Gives a variable a cold part.
    fn variable(&mut self, use_: &Use, variable: &Variable, cold: &str) -> Result<(), Refusal> {
        if variable.storage == "extern" && variable.initializer.is_none() {
            return Ok(());
        }
        let (file, start, end) = self.range(variable.begin, variable.place)?;
        let source = self.source(file);
        let refused = |why: &str| Err(self.refuse(use_, why));
        if self.found.is_cpp {
            return refused("a variable of it would need a constructor");
        }
        if variable.is_of_thread {
            return refused("each thread has a variable of its own");
        }
        let statement = source.tokens(start, source.text.len()).unwrap_or_default();
        let length = statement.iter().position(|token| token.is(";")).unwrap_or_default();
        if !variable.is_alone && !variable.is_global || statement[..length].iter().any(|token| token.is(",")) {
            return refused("this variable is declared with others, or holds more than zeros");
        }
        let name = self.found.new_name(&format!("{}_cold", variable.name));
        let (_, indentation) = source.indentation(start);
        let is_static = variable.is_global || variable.storage == "static";
        let storage = if variable.storage == "static" { "static " } else { "" };
        let pointer = format!("{{.cold = &{name}}}");
        let (zeros, at) = match variable.initializer {
            None => ("", (end, end, format!(" = {pointer}"))),
            Some((first, last)) => {
                let (_, from, to) = self.range(first, last)?;
                let zeros =
                    source.tokens(from, to).unwrap_or_default().iter().map(|token| token.text).collect::<String>();
                if !matches!(zeros.as_str(), "{0}" | "{}") {
                    return refused("this variable is declared with others, or holds more than zeros");
                }
                (if is_static { "" } else { " = {0}" }, (from, to, pointer))
            }
        };
        let declaration = format!("{storage}struct {cold} {name}{zeros};\n{indentation}");
        self.edits.insert(file, start, declaration, start);
        self.edits.replace(file, (at.0, at.1), at.2);
        Ok(())
    }

    /// Code that allocates and frees nodes, one at a time.
    fn of_nodes(&self, named: &Named, blocks: &Blocks<'_>, is_pool: bool) -> String {
        let Named { type_name, cold, functions: [malloc, calloc, free], hot_pool, cold_pool, .. } = named;
        if blocks.allocations.is_empty() {
            return String::new();
        }
        let gives = blocks.frees > 0;
        let mut code = generated::pool(cold_pool, &format!("struct {cold}"), gives);
        // Also where there is no memory for the cold part.
        let (take, give) = match is_pool {
            true => {
                code += "\n";
                code += &generated::pool(hot_pool, type_name, true);
                (format!("{hot_pool}_take()"), format!("{hot_pool}_give(node)"))
            }
            false => ("malloc(bytes)".to_owned(), "free(node)".to_owned()),
        };
        let unused = if is_pool { "    (void)bytes;\n" } else { "" };
        code += &format!(
            "
static inline {type_name} *{malloc}(size_t bytes)
{{
    {type_name} *node = ({type_name} *){take};
{unused}    if (node) {{
        node->cold = (struct {cold} *){cold_pool}_take();
        if (!node->cold) {{
            {give};
            return NULL;
        }}
    }}
    return node;
}}
"
        );
        if blocks.any_is(Allocator::Calloc) {
            code += &format!(
                "
static inline {type_name} *{calloc}(size_t count, size_t bytes)
{{
    {type_name} *node = {malloc}(count * bytes);
    if (node) {{
        struct {cold} *cold = node->cold;
        memset(cold, 0, sizeof *cold);
        memset(node, 0, sizeof *node);
        node->cold = cold;
    }}
    return node;
}}
"
            );
        }
        if gives {
            code += &format!(
                "
static inline void {free}({type_name} *node)
{{
    if (node) {{
        {cold_pool}_give(node->cold);
        {give};
    }}
}}
"
            );
        }
        code
    }

    /// Code that allocates and frees arrays, and the cold parts in arrays beside them.
    fn of_arrays(&self, named: &Named, blocks: &Blocks<'_>) -> String {
        let Named { type_name, cold, functions: [malloc, calloc, free], .. } = named;
        let allocate = |bytes: &str, (hot, colds): (&str, &str)| {
            format!(
                "{{
    size_t count = {bytes} / sizeof({type_name}), i;
    {type_name} *nodes = ({type_name} *){hot};
    struct {cold} *cold = (struct {cold} *){colds};
    if (!nodes || !cold) {{
        free(nodes);
        free(cold);
        return NULL;
    }}
    nodes->cold = cold;
    for (i = 1; i < count; i++)
        nodes[i].cold = cold + i;
    return nodes;
}}
"
            )
        };
        let mut code = String::new();
        if blocks.any_is(Allocator::Malloc) {
            let own = ("malloc(count ? bytes : sizeof *nodes)", "malloc((count ? count : 1) * sizeof *cold)");
            code += &format!("static inline {type_name} *{malloc}(size_t bytes)\n");
            code += &allocate("bytes", own);
        }
        if blocks.any_is(Allocator::Calloc) {
            if !code.is_empty() {
                code += "\n";
            }
            let own = ("calloc(count ? count : 1, sizeof *nodes)", "calloc(count ? count : 1, sizeof *cold)");
            code += &format!("static inline {type_name} *{calloc}(size_t number, size_t bytes)\n");
            code += &allocate("(bytes && number > (size_t)-1 / bytes ? (size_t)-1 : number * bytes)", own);
        }
        if blocks.frees > 0 {
            code += &format!(
                "\nstatic inline void {free}({type_name} *nodes)\n{{\n    if (nodes)\n        free(nodes->cold);\n    free(nodes);\n}}\n"
            );
        }
        code
    }
}

/// What can't be kept right where a structure comes in parts, in words.
pub(crate) fn not_in_parts(what: &What) -> Option<String> {
    let why = match what {
        What::Size => "its size is asked for, and not for a block of it",
        What::Offset => "the offset of a member is asked for",
        What::Initializer(list) if list.holder == Holder::Other => "an initializer says what several of it hold",
        What::Copy => "all of it is copied",
        What::ByValue => "a function takes or gives all of it",
        What::Inside { .. } => "it is a member of another structure",
        What::Neighbour(name) => {
            return Some(format!("the address of {name} may be used to reach what lies next to it"));
        }
        What::Escape(Some(function)) => return Some(format!("{function} takes it as a whole")),
        What::Escape(None) => "here nothing tells any more that a pointer is one to it",
        What::New => "it is allocated or freed by new or delete",
        What::Template => "a template is made for it",
        What::ConstructorList => "it has a constructor",
        _ => return None,
    };
    Some(why.to_owned())
}
