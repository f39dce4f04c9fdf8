//! Code behind a structure's definition, and where it goes.

use crate::record::Definition;
use crate::source::Source;
use crate::{Patching, Refusal};

/// Objects that a chunk of a pool has.
const CHUNK: u32 = 1024;

/// Zeroed memory that is aligned.
pub(crate) fn aligned_calloc(name: &str, bytes: u32) -> String {
    format!(
        "/* As calloc, of memory that is aligned to {bytes} bytes. */
static inline void *{name}(size_t count, size_t bytes)
{{
    void *memory = bytes && count > (size_t)-1 / bytes ? NULL : aligned_alloc({bytes}, count * bytes);
    return memory ? memset(memory, 0, count * bytes) : NULL;
}}
"
    )
}

/// Memory for one object at a time, side by side: `NAME_take` and, where it is wanted, `NAME_give`. Pools are each thread's own, so that nobody
/// waits.
pub(crate) fn pool(name: &str, type_name: &str, gives: bool) -> String {
    let taken = format!(
        "/* Memory for each {type_name}: side by side, in chunks that stay. What is freed is handed out again first.
   Each thread has its own. */
union {name}_slot {{
    {type_name} object;
    union {name}_slot *next;
}};
static __thread union {name}_slot *{name}_spare, *{name}_chunk;
static __thread size_t {name}_left;

static inline void *{name}_take(void)
{{
    union {name}_slot *slot = {name}_spare;
    if (slot) {{
        {name}_spare = slot->next;
        return slot;
    }}
    if ({name}_left == 0) {{
        {name}_chunk = (union {name}_slot *)malloc({CHUNK} * sizeof *{name}_chunk);
        if (!{name}_chunk)
            return NULL;
        {name}_left = {CHUNK};
    }}
    {name}_left--;
    return {name}_chunk++;
}}
"
    );
    let given = format!(
        "
static inline void {name}_give(void *object)
{{
    union {name}_slot *slot = (union {name}_slot *)object;
    slot->next = {name}_spare;
    {name}_spare = slot;
}}
"
    );
    if gives { taken + &given } else { taken }
}

/// All of a structure as it was, and a function that sets one to it.
pub(crate) fn store(
    definition: &Definition,
    source: &Source,
    (whole, alias): (&str, Option<&str>),
    (store, type_name): (&str, &str),
    place: &dyn Fn(usize) -> String,
) -> String {
    let indentation = definition.indentation(source);
    let all: Vec<usize> = (0..definition.fields.len()).collect();
    let fields = definition.text(source, &all, indentation, "");
    let aliased = alias.map(|alias| format!("typedef struct {whole} {alias};\n")).unwrap_or_default();
    let mut code =
        format!("/* All of a {type_name}, as literals have it. */\nstruct {whole} {{\n{fields}}};\n{aliased}\n");
    code += &format!("static inline void {store}({type_name} *to, struct {whole} from)\n{{\n");
    for (number, field) in definition.fields.iter().enumerate() {
        let (to, name) = (place(number), &field.name);
        code += &match field.type_text.contains('[') {
            // An array, or a pointer to one: all of it is copied.
            true => format!("    memcpy(&{to}, &from.{name}, sizeof from.{name});\n"),
            false => format!("    {to} = from.{name};\n"),
        };
    }
    code + "}\n"
}

impl Patching<'_> {
    /// Puts code behind the definition, and these headers above it, where they are not included.
    pub(crate) fn generate(&mut self, code: &str, headers: &[&str]) -> Result<(), Refusal> {
        let definition = &self.found.definition;
        let (file, source) = (definition.file, self.found.source());
        let is_theirs = self.declares_allocators();
        let own = is_theirs.then(|| with_builtins(code));
        let code = own.as_deref().unwrap_or(code);
        let headers = if is_theirs { &[][..] } else { headers };
        let missing: Vec<String> = headers
            .iter()
            .filter(|header| !source.text.lines().any(|line| includes(line, header)))
            .map(|header| format!("#include <{header}>\n"))
            .collect();
        let line = source.text[definition.end..].find('\n').map_or(source.text.len(), |length| definition.end + length);
        // A comment stays on the line of what it is about.
        let is_last = source.tokens(definition.end, line).is_some_and(|tokens| tokens.is_empty());
        let at = if is_last { line } else { definition.end };
        let mut behind = String::new();
        if !missing.is_empty() {
            match last_include(source, definition.start) {
                Some(at) => self.edits.insert(file, at, missing.concat(), at),
                None if definition.is_in_namespace => {
                    return Err(self
                        .found
                        .refusal(definition.start, "there is no place where headers could be included"));
                }
                None => behind = format!("\n{}", missing.concat()),
            }
        }
        self.edits.insert(file, at, format!("\n{behind}\n{}", code.trim_end()), at);
        Ok(())
    }
}

impl Patching<'_> {
    /// Whether the program itself declares the functions that code calls: some do in other ways than the headers, which can't be included then.
    fn declares_allocators(&self) -> bool {
        let all = self.program.units.iter().flat_map(|unit| &unit.tree.inner);
        all.into_iter().any(|node| {
            let is_one = node.kind == "FunctionDecl" && BUILTINS.contains(&node.name.as_str());
            is_one && node.place.expanded.file.is_some()
        })
    }
}

/// Functions that compilers have names of their own for.
const BUILTINS: [&str; 5] = ["malloc", "calloc", "free", "memset", "memcpy"];

/// Code that needs no header.
fn with_builtins(code: &str) -> String {
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = match is_of_name(first) {
            true => rest.find(|c| !is_of_name(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (word, behind) = rest.split_at(length);
        match word {
            "NULL" => out.push('0'),
            "size_t" => out += "__SIZE_TYPE__",
            word if BUILTINS.contains(&word) => out += &format!("__builtin_{word}"),
            word => out += word,
        }
        rest = behind;
    }
    out
}

/// Whether a line includes a header, by its name in C or in C++.
fn includes(line: &str, header: &str) -> bool {
    let Some(named) = line.trim_start().strip_prefix('#').and_then(|rest| rest.trim_start().strip_prefix("include"))
    else {
        return false;
    };
    let plain = header.trim_end_matches(".h");
    named.contains(&format!("<{header}>")) || named.contains(&format!("<c{plain}>"))
}

/// Behind the last line above a byte that includes something and is in the same branch of conditional directives.
fn last_include(source: &Source, before: usize) -> Option<usize> {
    let (mut branches, mut next, mut at) = (vec![0], 1, 0);
    let mut included = Vec::new();
    for line in source.text[..before].split_inclusive('\n') {
        at += line.len();
        let Some(directive) = line.trim_start().strip_prefix('#').map(str::trim_start) else { continue };
        if directive.starts_with("if") {
            branches.push(next);
            next += 1;
        } else if directive.starts_with("el") {
            branches.pop();
            branches.push(next);
            next += 1;
        } else if directive.starts_with("endif") {
            branches.pop();
        } else if directive.starts_with("include") {
            included.push((branches.last().copied(), at));
        }
    }
    let own = branches.last().copied();
    included.into_iter().rev().find(|(branch, _)| *branch == own).map(|(_, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_needs_no_header_where_a_program_declares_what_it_calls() {
        assert_eq!(
            with_builtins("size_t n; a = node_malloc(n) ? malloc(n) : NULL;"),
            "__SIZE_TYPE__ n; a = node_malloc(n) ? __builtin_malloc(n) : 0;"
        );
    }

    #[test]
    fn headers_go_behind_those_of_the_same_branch() {
        let text = "#ifndef A\n#define A\n#include <a.h>\n#ifdef B\n#include <b.h>\n#endif\nstruct x {};\n#endif\n";
        let source = Source::new(String::new(), text.into());
        let at = last_include(&source, text.find("struct").unwrap()).unwrap();
        assert!(text[at..].starts_with("#ifdef B"));
        assert!(includes("# include <cstdlib>", "stdlib.h") && !includes("#include <stdlib.hpp>", "stdlib.h"));
    }
}
