//! Functions that only hand memory on, told from those that make something of it: by their code alone, as compilers write
//! it, stripped or not.

mod sandbox;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use sandbox::Sandbox;
use slimline_attribute::code::hands_on::{Delivery, Found, HandedBack, Handing, Known, hands_on};
use slimline_attribute::code::no_return::NoReturn;
use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;
use slimline_trace::address::Svma;

const SOURCE: &str = r#"
#include <stdlib.h>
#include <string.h>
struct node { struct node *next; long key; };
struct vec { long *items; size_t room; };
struct net { int count; double *weights; };
size_t used; struct node *list; void *last;
void *(*hook)(size_t) = malloc;
void *checked(size_t n) { void *p = malloc(n); if (!p) abort(); return p; }
void *counted(size_t n) { void *p = malloc(n + 16); if (!p) return 0; used += n; *(size_t *)p = n; return (char *)p + 16; }
void *painted(size_t n, size_t each) { void *p = malloc(n * each); if (!p) abort(); memset(p, 0x5a, n * each); return p; }
void *grown(void *old, size_t n) { void *p = realloc(old, n); if (!p && n) abort(); return p; }
__attribute__((noinline)) void *in_context(long *context, size_t n) { ++*context; void *p = hook(n); if (!p) abort(); return p; }
void *aligned(size_t n) { void *p; if (posix_memalign(&p, 64, n)) abort(); return p; }
void *by_hand(size_t n) {
  char *p = malloc(n + 64); if (!p) return 0;
  char *to = (char *)(((size_t)p + 64) & ~63ul); ((void **)to)[-1] = p; return to;
}
char *text(const char *from) { size_t n = strlen(from) + 1; char *p = malloc(n); if (!p) abort(); memcpy(p, from, n); return p; }
char *of_length(const char *from, size_t n) { char *p = malloc(n + 1); if (!p) abort(); memcpy(p, from, n); p[n] = 0; return p; }
__attribute__((noinline)) int out(size_t n, void **to) { void *p = malloc(n); *to = p; return p != 0; }
struct node *make(long key) { struct node *n = malloc(sizeof *n); n->key = key; n->next = list; list = n; return n; }
struct node *make_zero(void) { return calloc(1, sizeof(struct node)) ?: (abort(), (void *)0); }
long *filled(size_t n) { long *p = malloc(n * sizeof *p); for (size_t i = 0; i < n; i++) p[i] = (long)i; return p; }
void reserve(struct vec *v, size_t n) { v->items = realloc(v->items, n * sizeof(long)); }
void member(struct net *net, size_t n) { net->weights = malloc(n * sizeof(double)); }
void *kept(size_t n) { void *p = malloc(n); last = p; return p; }
int temporary(size_t n) { char *p = malloc(n); memset(p, 1, n); int x = p[n / 2]; free(p); return x; }
struct node *list_of(size_t n) { struct node *p = malloc(n * sizeof *p); p->key = (long)n; return p; }
void *twice(long *context, size_t n) { void *p = in_context(context, n); if (!p) abort(); return p; }
__attribute__((noinline)) void *same(void *p, size_t n) { used = n; return p; }
void *tagged(size_t n) { void *p = malloc(n); if (!p) return 0; used += n; return same(p, n); }
void *through(size_t n) { void *p; if (!out(n, &p)) abort(); return p; }
int main(int argc, char **argv) { return argc; }
"#;

/// What `function` does to what its first call that returns gives, `given` so.
fn found(module: &Module<'_>, symbols: &Module<'_>, function: &str, call: usize, given: Option<Handing>) -> Found {
    let is_it = |at: &Svma| {
        symbols.symbols().function_at(*at).is_some_and(|found| found.name == function && found.start == *at)
    };
    let begin = (0x1000..1 << 16).map(Svma).find(is_it).unwrap_or_else(|| panic!("no function {function}"));
    let (_, end) = symbols.function_bounds(begin).expect("has a symbol");
    let code = &symbols.image().expect("an ELF file").bytes_from(begin)[..(end.0 - begin.0) as usize];
    let calls =
        |instruction: &Instruction| matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
    let decoder = Decoder::with_ip(64, code, begin.0, DecoderOptions::NONE);
    let call = decoder.into_iter().filter(calls).nth(call).unwrap_or_else(|| panic!("{function} calls nothing"));
    let (no_return, handed_back) = (&NoReturn::default(), &HandedBack::default());
    hands_on(module, Known { no_return, handed_back }, Svma(call.next_ip()), given).expect("code that can be read")
}

const FLAGS: [&[&str]; 5] = [
    &["-O0"],
    &["-O1"],
    &["-O2", "-fno-inline"],
    &["-O3", "-fno-inline", "-fcf-protection=none"],
    &["-O2", "-fno-inline", "-fno-plt"],
];

/// Checks all programs, with their symbols and without.
fn each_program(check: impl Fn(&dyn Fn(&str, usize, Option<Handing>) -> Found, &str)) {
    for compiler in ["gcc", "clang"] {
        for flags in FLAGS {
            let sandbox = Sandbox::new();
            let flags =
                if compiler == "clang" && flags.contains(&"-fcf-protection=none") { &flags[..2] } else { flags };
            let program = sandbox.compile(compiler, flags, "a.c", SOURCE, "prog");
            let stripped = sandbox.text_path("stripped");
            sandbox.run("strip", &["-o", &stripped, &program]);
            let store = FileStore::new(&sandbox);
            let with = Module::open(&store, &program);
            let without = Module::open(&store, &stripped);
            for (module, label) in [(&with, "named"), (&without, "stripped")] {
                let ask =
                    |function: &str, call: usize, given: Option<Handing>| found(module, &with, function, call, given);
                check(&ask, &format!("{compiler} {flags:?} {label}"));
            }
        }
    }
}

fn returned(sizes: u8) -> Option<Handing> {
    Some(Handing { sizes, result: Delivery::Returned })
}

#[test]
fn what_was_asked_for_is_handed_on() {
    each_program(|ask, label| {
        for (function, call, sizes) in [
            ("checked", 0, 0b1),
            ("counted", 0, 0b1),
            ("painted", 0, 0b11),
            ("grown", 0, 0b10),
            ("aligned", 0, 0b1),
            ("by_hand", 0, 0b1),
            ("text", 1, 0b1),
            ("of_length", 0, 0b10),
            ("tagged", 0, 0b1),
        ] {
            assert_eq!(ask(function, call, None).handing, returned(sizes), "{label} {function}");
        }
        // What it calls by a pointer is known by who was called.
        let hook = ask("in_context", 0, returned(0b1));
        assert_eq!(hook.handing, returned(0b10), "{label}");
        assert_eq!(ask("twice", 0, hook.handing).handing, returned(0b10), "{label}");
        assert_eq!(ask("twice", 0, returned(0b1)).handing, returned(0b1), "{label}: the context is no size");
        let out = ask("out", 0, None).handing;
        assert_eq!(out, Some(Handing { sizes: 0b1, result: Delivery::Through(1) }), "{label}");
        assert_eq!(ask("through", 0, out).handing, returned(0b1), "{label}");
    });
}

#[test]
fn what_something_was_made_of_is_not() {
    each_program(|ask, label| {
        for function in ["make", "make_zero", "filled", "member", "kept", "temporary", "list_of"] {
            assert_eq!(ask(function, 0, None).handing, None, "{label} {function}");
        }
        // Only a caller that hands it on in turn would make it a wrapper.
        let reserved = ask("reserve", 0, None).handing;
        assert!(reserved.is_none_or(|handing| handing.result == Delivery::Through(0)), "{label} {reserved:?}");
        // By its name alone it could be an allocator: it returns what it got and writes nothing.
        assert!(ask("make_zero", 0, None).returns, "{label}");
        assert!(!ask("make", 0, None).returns && !ask("temporary", 0, None).returns, "{label}");
    });
}
