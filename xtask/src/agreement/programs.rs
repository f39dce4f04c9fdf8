//! Programs that nobody here wrote, with the structures that are compared.

use anyhow::{Context as _, Result};

use super::cases::{Case, Structure};
use crate::foreign::{BZIP2, Build, LUA, MUJS, PICOSAT, SVM_TRAIN, arguments, inputs};

/// A program of Debian's with an input that keeps it busy for some seconds.
pub(super) struct Foreign {
    pub(super) build: Build,
    /// Text of the input file.
    input: fn() -> String,
    /// Arguments; `INPUT` stands for the input file.
    arguments: &'static [&'static str],
    skip: &'static [&'static str],
    structures: &'static [Allocated],
}

/// A structure, and where the program allocates it.
struct Allocated {
    name: &'static str,
    element_bytes: u64,
    /// Part of the oracle's name of the site: the function that really holds the call, others inlined into it.
    site: &'static str,
    /// The function as the source has it.
    function: &'static str,
    line: Option<u32>,
}

pub(super) const PROGRAMS: &[Foreign] = &[
    Foreign {
        build: SVM_TRAIN,
        input: || inputs::svm_problem(4500),
        arguments: &["-q", "-m", "1", "INPUT", "/dev/null"],
        skip: &[],
        structures: &[Allocated {
            name: "svm_node",
            element_bytes: 16,
            site: "read_problem(char const*) svm-train.c",
            function: "read_problem",
            line: Some(316),
        }],
    },
    Foreign {
        build: LUA,
        input: || inputs::lua(100_000, 960),
        arguments: &["INPUT"],
        skip: &["l_alloc", "luaM_malloc_", "luaM_realloc_", "luaM_saferealloc_", "luaC_newobj"],
        structures: &[
            Allocated { name: "Table", element_bytes: 56, site: "luaH_new ltable.c", function: "luaH_new", line: None },
            Allocated { name: "Node", element_bytes: 24, site: "ltable.c:490", function: "setnodevector", line: None },
            Allocated {
                name: "TValue",
                element_bytes: 16,
                site: "luaH_resize ltable.c:571",
                function: "luaH_resize",
                line: Some(571),
            },
            Allocated {
                name: "StackValue",
                element_bytes: 16,
                site: "lstate.c:183",
                function: "stack_init",
                line: None,
            },
        ],
    },
    Foreign {
        build: BZIP2,
        input: || inputs::numbers(12_000_000),
        arguments: &["-k", "-f", "INPUT"],
        skip: &["default_bzalloc"],
        structures: &[
            // One block: counters and arrays in it.
            Allocated {
                name: "EState",
                element_bytes: 55768,
                site: "BZ2_bzCompressInit bzlib.c:168",
                function: "BZ2_bzCompressInit",
                line: Some(168),
            },
            Allocated {
                name: "bzFile",
                element_bytes: 5104,
                site: "BZ2_bzWriteOpen bzlib.c",
                function: "BZ2_bzWriteOpen",
                line: None,
            },
        ],
    },
    Foreign {
        build: MUJS,
        input: || inputs::JAVASCRIPT.to_owned(),
        arguments: &["INPUT"],
        skip: &["js_defaultalloc", "js_malloc", "js_realloc", "jsV_newobject"],
        structures: &[
            Allocated {
                name: "js_Property",
                element_bytes: 64,
                site: "jsproperty.c:33",
                function: "newproperty",
                line: None,
            },
            Allocated {
                name: "js_Object",
                element_bytes: 104,
                site: "js_newobject jsproperty.c:154",
                function: "js_newobject",
                line: None,
            },
            Allocated {
                name: "js_Value",
                element_bytes: 16,
                site: "js_newstate jsstate.c:315",
                function: "js_newstate",
                line: Some(315),
            },
            Allocated {
                name: "js_State",
                element_bytes: 19872,
                site: "js_newstate jsstate.c:298",
                function: "js_newstate",
                line: Some(298),
            },
        ],
    },
    Foreign {
        build: PICOSAT,
        input: inputs::satisfiability_problem,
        arguments: &["INPUT", "-o", "/dev/null"],
        skip: &["new", "resize"],
        structures: &[
            Allocated {
                name: "PicoSAT",
                element_bytes: 1232,
                site: "picosat.c:1188",
                function: "init",
                line: Some(1188),
            },
            Allocated {
                name: "Var",
                element_bytes: 16,
                site: "enlarge picosat.c:2917",
                function: "enlarge",
                line: Some(2917),
            },
        ],
    },
];

impl Foreign {
    /// Downloads and builds what isn't there yet.
    pub(super) fn case(&self) -> Result<Case> {
        let name = self.build.name;
        let (arguments, _) = arguments(name, self.arguments, &(self.input)())?;
        Ok(Case {
            name: name.to_owned(),
            executable: self.build.executable().with_context(|| format!("getting {name}"))?,
            arguments,
            skip: self.skip,
            structures: self
                .structures
                .iter()
                .map(|allocated| Structure {
                    name: allocated.name.to_owned(),
                    site: allocated.site.to_owned(),
                    element_bytes: allocated.element_bytes,
                    start: 0,
                    function: allocated.function.to_owned(),
                    line: allocated.line,
                })
                .collect(),
        })
    }
}
