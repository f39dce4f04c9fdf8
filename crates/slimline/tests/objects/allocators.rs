//! Allocators other than the C library's: a program's own, and those that are linked into it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use slimline_report::view::{Group, Report};

use crate::scratch::{Scratch, check_refused, skip, stderr};
use crate::{compile, report_of};

const POOL: &str = include_str!("pool.c");
const POOL_TOML: &str = "[[allocator]]
    allocate = [{ function = \"pool_take\", pool = 1, size = 2 }]
    reset = [{ function = \"pool_empty\", pool = 1 }]\n";

/// The group that nearly all time was spent in: its name, its kind and the size of its elements; and how many blocks of how
/// many that there are were counted.
#[track_caller]
fn check(report: &Report, type_name: &str, made_in: &str, element_bytes: u64, blocks: u64) {
    let group = &report.groups[0];
    assert!(group.share > 0.9, "{} {}", group.name, group.share);
    check_group(group, type_name, made_in, element_bytes, blocks);
}

#[track_caller]
fn check_group(group: &Group, type_name: &str, made_in: &str, element_bytes: u64, blocks: u64) {
    assert_eq!((group.kind.as_str(), group.element_bytes), ("heap", Some(element_bytes)), "{}", group.name);
    assert!(group.name.contains(type_name), "{}", group.name);
    let made_at = group.allocated_at.as_ref().expect("a call path");
    assert_eq!(made_at.function, made_in, "{:?}", made_at.stack);
    assert!(made_at.stack.iter().all(|line| !line.contains("slimline")), "{:?}", made_at.stack);
    // One block in 16 or fewer is counted.
    assert!(group.blocks.abs_diff(blocks) < blocks / 4, "{} of {blocks}", group.blocks);
}

#[track_caller]
fn record(scratch: &Scratch, program: &Path, arguments: &[&str]) -> Output {
    scratch.slimline(["record", "--"]).arg(program).args(arguments).output().unwrap()
}

#[test]
fn blocks_of_a_pool_are_told_instead_of_the_chunks_they_lie_in() {
    for flags in [&["-pie", "-fPIE", "-fcf-protection=full"][..], &["-no-pie", "-fno-pie", "-fcf-protection=none"]] {
        let scratch = Scratch::new();
        let program = scratch.compile("pool", POOL, &[&["-O2", "-g"], flags].concat());
        // Without being told, it is the twenty chunks, or those of them that samples saw.
        let chunks = &report_of(&scratch, &program, &[]).groups[0];
        assert!(chunks.kind == "heap" && (2..=20).contains(&chunks.blocks), "{}: {}", chunks.name, chunks.blocks);
        fs::write(scratch.path("slimline.toml"), POOL_TOML).unwrap();
        check(&report_of(&scratch, &program, &[]), "node", "make_nodes", 64, 20_000);
        // In the same memory, after the pool was emptied.
        check(&report_of(&scratch, &program, &["again"]), "leaf", "make_leaves", 32, 20_000);
    }
}

/// Methods are named as they are written; a block that is stored through an argument, one that is resized, one of a fixed size.
#[test]
fn functions_are_found_by_their_names_in_the_source() {
    let source = "#include <cstdio>
        #include <cstdlib>
        #include <cstring>
        struct node { node *next; long key; double value; char rest[40]; };
        namespace app { class Arena {
            char *at = nullptr, *end = nullptr;
            void *take(size_t bytes) {
                if (end - at < long(bytes)) { at = static_cast<char *>(malloc(1 << 20)) + 64; end = at + (1 << 20) - 64; }
                void *block = at; at += bytes; return block;
            }
        public:
            __attribute__((noinline, noclone)) int store(node **place, size_t count) {
                *place = static_cast<node *>(take(count * sizeof(node)));
                return 0;
            }
            __attribute__((noinline, noclone)) node *make() { return static_cast<node *>(take(sizeof(node))); }
            __attribute__((noinline, noclone)) node *grow(node *old, size_t count) {
                node *grown = static_cast<node *>(take(count * sizeof(node)));
                memcpy(grown, old, sizeof(node));
                return grown;
            }
            __attribute__((noinline, noclone)) void give(node *block) { __asm__ volatile(\"\" :: \"r\"(block) : \"memory\"); }
        }; }
        __attribute__((noinline)) node *build(app::Arena &arena) {
            node *first = nullptr;
            for (int i = 0; i < 20000; i++) {
                node *next;
                if (i % 3 == 0) { arena.store(&next, 1); }
                else if (i % 3 == 1) { next = arena.make(); }
                else { node *old = arena.make(); old->key = 0; next = arena.grow(old, 1); arena.give(old); }
                next->next = first; next->key = i; next->value = 0;
                first = next;
            }
            return first;
        }
        int main() {
            app::Arena arena;
            node *list = build(arena);
            double sum = 0;
            for (int pass = 0; pass < 1500; pass++)
                for (node *at = list; at; at = at->next) { at->value += at->key; sum += at->value; }
            printf(\"%g\\n\", sum);
        }";
    let scratch = Scratch::new();
    let program = compile("c++", &scratch, "arena.cc", source, &["-O2", "-g"]);
    let toml = "[[allocator]]
        allocate = [
            { function = \"app::Arena::store\", stored_at = 2, count = 3, bytes = 64 },
            { function = \"app::Arena::make\", bytes = 64 },
        ]
        resize = [{ function = \"app::Arena::grow\", block = 2, count = 3, bytes = 64 }]
        free = [{ function = \"app::Arena::give\", block = 2 }]\n";
    fs::write(scratch.path("slimline.toml"), toml).unwrap();
    // A line for each of the three functions whose blocks are in the list.
    let groups = &report_of(&scratch, &program, &[]).groups[..3];
    let shares = || groups.iter().map(|group| (&group.name, group.share)).collect::<Vec<_>>();
    assert!(groups.iter().map(|group| group.share).sum::<f64>() > 0.9, "{:?}", shares());
    let mut lines = Vec::new();
    for group in groups {
        check_group(group, "node", "build", 64, 20_000 / 3);
        lines.extend(group.allocated_at.as_ref().map(|at| at.line));
    }
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 3, "{lines:?}");
}

#[test]
fn wrong_entries_are_one_line() {
    let scratch = Scratch::new();
    let program = scratch.compile("pool", POOL, &["-O2"]);
    let with = |toml: &str| {
        fs::write(scratch.path("slimline.toml"), toml).unwrap();
        record(&scratch, &program, &[])
    };
    let entry = |function: &str| with(&format!("[[allocator]]\nallocate = [{{ function = {function} }}]\n"));
    check_refused(&entry("\"pool_tak\", size = 2"), "allocate: `pool_tak`: no such function in ");
    check_refused(&entry("\"pool_take\", size = 9"), "size = 9: arguments are counted from 1 to 6");
    check_refused(&entry("\"pool_take\""), "which argument is the `size`");
    check_refused(&entry("\"pool_take\", size = 2, sort = 1"), "slimline.toml:2: unknown field `sort`");
    check_refused(&with("[[allocator]\n"), "slimline.toml:1: ");
    assert!(!scratch.session().exists());
    // In another program, which this one may start: only its end tells.
    let toml = "[[allocator]]\nmodule = \"libelsewhere.so\"\nallocate = [{ function = \"take\", size = 1 }]\n";
    let output = with(toml);
    assert!(output.status.success());
    let told = stderr(&output);
    assert!(told.contains("no program that was recorded has `take` among what it loads"), "{told}");
}

/// It says so, and the program runs as it would.
#[test]
fn a_function_that_can_not_be_hooked_is_left_alone() {
    let source = "#include <stdio.h>
        __asm__(\".text\\n.type take, @function\\ntake: push %rax\\ncall other\\npop %rcx\\nret\\n.size take, . - take\");
        static char area[64];
        __attribute__((used)) void *other(void) { return area; }
        void *take(unsigned long bytes);
        int main(void) { printf(\"%d\\n\", take(8) == area); }";
    let scratch = Scratch::new();
    let program = scratch.compile("short", source, &["-O2", "-no-pie", "-fno-pie"]);
    fs::write(scratch.path("slimline.toml"), "[[allocator]]\nallocate = [{ function = \"take\", size = 1 }]\n")
        .unwrap();
    let output = record(&scratch, &program, &[]);
    assert_eq!(crate::scratch::stdout(&output), "1\n");
    let told = stderr(&output);
    let why = "its first instructions call another function";
    assert!(told.contains(&format!("blocks of `take` are not followed: {why}")), "{told}");
    // The report has it, and `doctor` knows before anything runs.
    let report = crate::scratch::stdout(&scratch.slimline(["report"]).output().unwrap()).replace('\n', " ");
    assert!(report.contains("calls of `take` (of an allocator) are not seen"), "{report}");
    let words: Vec<&str> = report.split_whitespace().collect();
    assert!(words.join(" ").contains(why), "{report}");
    let diagnosed = || scratch.slimline(["doctor", "--format", "json"]).arg(&program).output().unwrap();
    let text = crate::scratch::stdout(&diagnosed());
    assert!(text.contains(&format!("calls of `take` (of an allocator): {why}")), "{text}");
    fs::write(scratch.path("slimline.toml"), "[[allocator]]\nallocate = [{ function = \"other\", size = 1 }]\n")
        .unwrap();
    let text = crate::scratch::stdout(&diagnosed());
    assert!(text.contains("`other` are followed, beside the C library's"), "{text}");
    fs::write(scratch.path("slimline.toml"), "[[allocator]]\n").unwrap();
    let text = crate::scratch::stdout(&diagnosed());
    assert!(text.contains("none of its functions makes blocks"), "{text}");
}

/// A child that is forked and one that is exec'd go on with it, and what stays of the code can't be written to.
#[test]
fn hooks_outlive_forks_and_leave_no_memory_that_is_writable_and_executable() {
    let source = POOL.replace(
        "int main(int count",
        "#include <sys/wait.h>\n#include <unistd.h>\nint run(int, char **);\nint main(int count, char **arguments) {
            char line[512];
            FILE *maps = fopen(\"/proc/self/maps\", \"r\");
            while (fgets(line, sizeof line, maps)) if (strstr(line, \"rwx\")) return 3;
            fclose(maps);
            if (count > 1 && !strcmp(arguments[1], \"start\")) {
                arguments[1] = \"again\";
                execv(\"/proc/self/exe\", arguments);
            }
            int status = 1;
            if (fork()) { wait(&status); return status != 0; }
            return run(count, arguments);
        }
        int run(int count",
    );
    let scratch = Scratch::new();
    let program = scratch.compile("pool", &source, &["-O2", "-g"]);
    fs::write(scratch.path("slimline.toml"), POOL_TOML).unwrap();
    check(&report_of(&scratch, &program, &[]), "node", "make_nodes", 64, 20_000);
    check(&report_of(&scratch, &program, &["start"]), "leaf", "make_leaves", 32, 20_000);
}

/// Functions of a library that is opened while the program runs, closed and opened again; nothing of the ones before stays.
#[test]
fn what_is_loaded_later_is_looked_through() {
    let scratch = Scratch::new();
    let (types, rest) = POOL.split_once("enum {").unwrap();
    let (functions, _) = rest.split_once("static __attribute__((noinline)) struct node").unwrap();
    let functions =
        functions.replace("static __attribute__((noinline, noclone))", "__attribute__((noinline, noclone))");
    let library = format!("{types} enum {{{functions}");
    scratch.compile("libpool.so", &library, &["-O2", "-g", "-shared", "-fPIC"]);
    let program = format!(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n{types}
        static void *(*pool_take)(struct pool *, size_t);
        static __attribute__((noinline)) struct node *make_nodes(struct pool *pool) {{
            struct node *first = NULL;
            for (int i = 0; i < 20000; i++) {{
                struct node *node = pool_take(pool, sizeof *node);
                node->next = first, node->key = i, node->value = 0;
                first = node;
            }}
            return first;
        }}
        static int mappings(void) {{
            FILE *maps = fopen(\"/proc/self/maps\", \"r\");
            char line[512];
            int count = 0;
            while (fgets(line, sizeof line, maps)) count++;
            fclose(maps);
            return count;
        }}
        int main(void) {{
            int first = 0, last = 0;
            for (int times = 0; times < 200; times++) {{
                void *library = dlopen(\"./libpool.so\", RTLD_NOW);
                if (!library) return 3;
                struct pool pool = {{0}};
                pool_take = (void *(*)(struct pool *, size_t))dlsym(library, \"pool_take\");
                *(long *)pool_take(&pool, 8) = 5;
                pool_take = NULL;
                if (dlclose(library)) return 4;
                last = mappings();
                if (times == 9) first = last;
            }}
            if (last > first + 20) return 5;
            pool_take = (void *(*)(struct pool *, size_t))dlsym(dlopen(\"./libpool.so\", RTLD_LAZY), \"pool_take\");
            struct pool pool = {{0}};
            struct node *nodes = make_nodes(&pool);
            double sum = 0;
            // So long that opening the library so often is little of it.
            for (int pass = 0; pass < 6000; pass++)
                for (struct node *node = nodes; node; node = node->next) node->value += node->key, sum += node->value;
            printf(\"%g\\n\", sum);
        }}"
    );
    let program = scratch.compile("opens", &program, &["-O2", "-g", "-ldl"]);
    let toml =
        "[[allocator]]\nmodule = \"libpool.so\"\nallocate = [{ function = \"pool_take\", pool = 1, size = 2 }]\n";
    fs::write(scratch.path("slimline.toml"), toml).unwrap();
    check(&report_of(&scratch, &program, &[]), "node", "make_nodes", 64, 20_000);
    let output = record(&scratch, &program, &[]);
    assert!(output.status.success() && !stderr(&output).contains("pool_take"), "{}", stderr(&output));
}

/// A library that came where the agent could not see it, by a `vfork` child in our memory, and whose code a thread runs when
/// that is found: it is left as it is, and told.
#[test]
fn what_may_be_running_already_is_left_alone() {
    let source = "#define _GNU_SOURCE
        #include <dlfcn.h>
        #include <pthread.h>
        #include <stdatomic.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>
        static void *(*take)(unsigned long);
        static atomic_long calls;
        static atomic_int is_over;
        static void *runs(void *argument) {
            while (!is_over) free(take(8)), calls++;
            return argument;
        }
        int main(void) {
            pid_t child = vfork();
            if (!child) {
                void *library = dlopen(\"./liblate.so\", RTLD_NOW);
                take = library ? (void *(*)(unsigned long))dlsym(library, \"late_take\") : NULL;
                _exit(0);
            }
            if (!take) return 3;
            pthread_t thread;
            if (pthread_create(&thread, NULL, runs, NULL)) return 4;
            while (!calls) ;
            if (!dlopen(\"./libother.so\", RTLD_NOW)) return 5;
            long before = calls;
            while (calls < before + 1000) ;
            is_over = 1;
            pthread_join(thread, NULL);
            if (!dlopen(\"./libthird.so\", RTLD_NOW)) return 6;
            puts(\"done\");
        }";
    let scratch = Scratch::new();
    let library = |name: &str| {
        let source = format!(
            "#include <stdlib.h>\n__attribute__((noinline)) void *{name}_take(unsigned long bytes) {{
                volatile unsigned long more = bytes + 8; return malloc(more); }}"
        );
        scratch.compile(&format!("lib{name}.so"), &source, &["-O1", "-shared", "-fPIC"]);
    };
    library("late");
    library("other");
    library("third");
    let program = scratch.compile("opens", source, &["-O1", "-pthread", "-ldl"]);
    let entry = |name: &str| {
        format!("[[allocator]]\nmodule = \"lib{name}.so\"\nallocate = [{{ function = \"{name}_take\", size = 1 }}]\n")
    };
    let toml = entry("late") + &entry("third");
    fs::write(scratch.path("slimline.toml"), toml).unwrap();
    let output = record(&scratch, &program, &[]);
    assert_eq!((output.status.code(), crate::scratch::stdout(&output).as_str()), (Some(0), "done\n"));
    let told = stderr(&output);
    assert!(told.contains("blocks of `late_take` are not followed: it was loaded unseen"), "{told}");
    // The last one came when nobody could run it.
    assert!(!told.contains("third_take"), "{told}");
}

/// The same where nothing is loaded after it, so that the agent never gets to look.
#[test]
fn what_was_loaded_unseen_and_stays_so_is_told() {
    let source = "#define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdio.h>
        #include <unistd.h>
        int main(void) {
            void *volatile library = NULL;
            pid_t child = vfork();
            if (!child) {
                library = dlopen(\"./liblate.so\", RTLD_NOW);
                _exit(0);
            }
            if (!library) return 3;
            puts(\"done\");
        }";
    let scratch = Scratch::new();
    scratch.compile("liblate.so", "void *late_take(unsigned long bytes) { return 0; }", &["-O1", "-shared", "-fPIC"]);
    let program = scratch.compile("opens", source, &["-O1", "-ldl"]);
    let toml = "[[allocator]]\nmodule = \"liblate.so\"\nallocate = [{ function = \"late_take\", size = 1 }]\n";
    fs::write(scratch.path("slimline.toml"), toml).unwrap();
    let output = record(&scratch, &program, &[]);
    assert_eq!((output.status.code(), crate::scratch::stdout(&output).as_str()), (Some(0), "done\n"));
    let told = stderr(&output);
    assert!(told.contains("were not looked for in what was loaded (dlopen) by a child of vfork"), "{told}");
}

/// A library's signals come every few microseconds from before the agent is there, and their handler runs in the page whose
/// functions it hooks.
#[test]
fn no_handler_runs_in_code_that_is_being_changed() {
    let library = "#include <signal.h>
        #include <sys/time.h>
        extern void touch(int signal);
        __attribute__((constructor)) static void begin(void) {
            struct sigaction action = { .sa_handler = touch, .sa_flags = SA_RESTART };
            sigaction(SIGALRM, &action, 0);
            struct itimerval every = { { 0, 10 }, { 0, 10 } };
            setitimer(ITIMER_REAL, &every, 0);
        }";
    let takes: String = (0..40)
        .map(|number| {
            format!(
                "__attribute__((noinline)) void *take_{number}(unsigned long bytes) {{
                    volatile unsigned long more = bytes + 8; return buffer + {number} * 64 + more; }}\n"
            )
        })
        .collect();
    let source = format!(
        "#include <stdio.h>
        #include <sys/time.h>
        static char buffer[8192];
        static volatile long touched;
        __attribute__((noinline, aligned(4096))) void touch(int signal) {{ touched++; }}
        {takes}
        int main(void) {{
            struct itimerval never = {{ 0 }};
            setitimer(ITIMER_REAL, &never, 0);
            puts(touched > 100 && take_7(8) ? \"done\" : \"too few\");
        }}"
    );
    let scratch = Scratch::new();
    let library = scratch.compile("libearly.so", library, &["-O1", "-shared", "-fPIC"]);
    let flags = ["-O1", "-fno-toplevel-reorder", "-rdynamic", "-Wl,--no-as-needed", library.to_str().unwrap()];
    let program = scratch.compile("early", &source, &flags);
    let functions: Vec<String> =
        (0..40).map(|number| format!("{{ function = \"take_{number}\", size = 1 }}")).collect();
    fs::write(scratch.path("slimline.toml"), format!("[[allocator]]\nallocate = [{}]\n", functions.join(", ")))
        .unwrap();
    let output = record(&scratch, &program, &[]);
    let told = stderr(&output);
    assert_eq!((output.status.code(), crate::scratch::stdout(&output).as_str()), (Some(0), "done\n"), "{told}");
    assert!(!told.contains("not followed"), "{told}");
}

const NODES: &str = "#include <stdio.h>
    #include <stdlib.h>
    #ifdef MIMALLOC
    #include <mimalloc.h>
    #define malloc mi_malloc
    #define free mi_free
    #endif
    struct node { struct node *next; long key; double value; char rest[40]; };
    __attribute__((noinline)) struct node *make_nodes(int count) {
        struct node *first = NULL;
        for (int i = 0; i < count; i++) {
            struct node *node = malloc(sizeof *node);
            node->next = first; node->key = i; node->value = 0;
            first = node;
            long *gone = malloc(16);
            *gone = i;
            free(gone);
        }
        return first;
    }
    int main(void) {
        struct node *list = make_nodes(20000);
        double sum = 0;
        for (int pass = 0; pass < 1500; pass++)
            for (struct node *at = list; at; at = at->next) { at->value += at->key; sum += at->value; }
        printf(\"%g\\n\", sum);
    }";

#[test]
fn allocators_that_are_linked_statically_are_known() {
    let archives = [("libjemalloc.a", "libjemalloc-dev"), ("libtcmalloc_minimal.a", "libgoogle-perftools-dev")];
    for (archive, package) in archives {
        let Some(archive) = library(archive) else {
            skip("allocators_that_are_linked_statically_are_known", &format!("{package} is not installed"));
            continue;
        };
        let scratch = Scratch::new();
        let archive = archive.to_str().unwrap();
        let flags = ["-O2", "-g", archive, "-pthread", "-lstdc++", "-lm", "-ldl"];
        let program = scratch.compile("nodes", NODES, &flags);
        check(&report_of(&scratch, &program, &[]), "node", "make_nodes", 64, 20_000);
    }
}

#[test]
fn an_allocator_is_known_by_its_own_names() {
    if library("libmimalloc.so").is_none() {
        return skip("an_allocator_is_known_by_its_own_names", "libmimalloc-dev is not installed");
    }
    let scratch = Scratch::new();
    let program = scratch.compile("nodes", NODES, &["-O2", "-g", "-DMIMALLOC", "-lmimalloc"]);
    check(&report_of(&scratch, &program, &[]), "node", "make_nodes", 64, 20_000);
}

/// What Rust's `tikv-jemallocator` calls: the compiler passes sizes and alignments, a block may be resized in place, and a
/// free says the size again.
#[test]
fn jemalloc_under_the_names_of_rusts_crates_is_known() {
    let allocator = "
        static char area[16 << 20];
        static size_t used;
        static struct given { struct given *next; } *given;
        __attribute__((noinline, noclone)) void *_rjem_malloc(size_t bytes) {
            if (bytes == 16 && given) { struct given *block = given; given = block->next; return block; }
            void *block = area + used;
            used += (bytes + 15) & ~15ul;
            return block;
        }
        __attribute__((noinline, noclone)) void *_rjem_mallocx(size_t bytes, int flags) {
            used = (used + (1ul << (flags & 63)) - 1) & -(1ul << (flags & 63));
            void *block = area + used;
            used += (bytes + 15) & ~15ul;
            return block;
        }
        __attribute__((noinline, noclone)) void *_rjem_rallocx(void *old, size_t bytes, int flags) {
            void *block = _rjem_mallocx(bytes, flags);
            __builtin_memcpy(block, old, 16);
            return block;
        }
        __attribute__((noinline, noclone)) void _rjem_sdallocx(void *block, size_t bytes, int flags) {
            struct given *gone = block;
            __asm__ volatile(\"\" :: \"r\"(bytes), \"r\"(flags));
            gone->next = given; given = gone;
        }";
    let nodes = NODES.replace("struct node *node = malloc(sizeof *node)", "struct node *node = node_of(i)");
    let nodes = nodes.replace("malloc(16)", "_rjem_malloc(16)").replace("free(gone)", "_rjem_sdallocx(gone, 16, 0)");
    let (head, rest) = nodes.split_once("struct node {").unwrap();
    let (fields, rest) = rest.split_once("};").unwrap();
    let source = format!(
        "{head} {allocator}
        struct node {{{fields}}};
        static inline __attribute__((always_inline)) struct node *node_of(int number) {{
            if (number % 2) return _rjem_mallocx(sizeof(struct node), 6);
            void *smaller = _rjem_malloc(32);
            return _rjem_rallocx(smaller, sizeof(struct node), 6);
        }}
        {rest}"
    );
    let scratch = Scratch::new();
    let program = scratch.compile("nodes", &source, &["-O2", "-g"]);
    let report = report_of(&scratch, &program, &[]);
    let of_nodes: Vec<&Group> = report.groups.iter().filter(|group| group.name.contains("node")).collect();
    let shares = || report.groups.iter().map(|group| (&group.name, group.share)).collect::<Vec<_>>();
    assert!(of_nodes.iter().map(|group| group.share).sum::<f64>() > 0.9, "{:?}", shares());
    let blocks: u64 = of_nodes.iter().map(|group| group.blocks).sum();
    // Few pages are counted of so small an arena, so this is rough.
    assert!((10_000..40_000).contains(&blocks), "{blocks}");
    // One sample may be in the smaller block that becomes a node.
    for group in of_nodes.iter().filter(|group| group.share > 0.1) {
        assert_eq!((group.kind.as_str(), group.element_bytes), ("heap", Some(64)), "{}", group.name);
        let stack = &group.allocated_at.as_ref().unwrap().stack;
        assert!(stack.iter().any(|line| line.contains("make_nodes")), "{stack:?}");
    }
}

fn library(name: &str) -> Option<PathBuf> {
    let path = Path::new("/usr/lib/x86_64-linux-gnu").join(name);
    path.exists().then_some(path)
}
