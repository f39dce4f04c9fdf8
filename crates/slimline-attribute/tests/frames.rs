//! Variables in frames: where the debug information says that they are, against where the program says.

mod compiled;
mod recorded;
mod sandbox;

use compiled::Compiled;
use recorded::{BIAS, Recorded, after_call, code_at};
use sandbox::Sandbox;
use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;
use slimline_attribute::resolver::Resolver;
use slimline_attribute::tables::GroupKind;
use slimline_trace::access::{AccessBatch, AccessKind};
use slimline_trace::address::{Avma, Svma};
use slimline_trace::served::Served;
use slimline_trace::tables::{Sample, StackEnd, ThreadRow};
use slimline_trace::wire::{BurstEnd, Quality};

/// Prints the call frame address of `sum`, the address of `grid`, and where `grid` and `copy` are from the CFA of `run`.
const SOURCE: &str = r#"
#include <stdio.h>
struct cell { double now, next; long kind; };
static void *cfa_of_sum;
#ifdef __clang__
#define CFA() ((char *)__builtin_frame_address(0) + 16)
#else
#define CFA() ((char *)__builtin_dwarf_cfa())
#endif
__attribute__((noinline)) double sum(struct cell *c, int n) {
    cfa_of_sum = CFA();
    double s = 0;
    for (int i = 0; i < n; i++) s += c[i].now;
    return s;
}
__attribute__((noinline)) double run(int n) {
    struct cell grid[16];
    for (int i = 0; i < 16; i++) grid[i] = (struct cell){ i, i * n, n };
    double all = sum(grid, n);
    {
        double copy[40];
        for (int i = 0; i < 40; i++) copy[i] = all * i;
        __asm__ volatile("" : : "r"(copy) : "memory");
        printf("%td ", (char *)copy - CFA());
        all += copy[n];
    }
    printf("%td %p %p\n", (char *)grid - CFA(), (void *)grid, cfa_of_sum);
    return all + grid[n].next;
}
int main(int argc, char **argv) {
    double all = run(argc + 3);
    return all < 0;
}
"#;

fn numbers(printed: &str) -> Vec<i64> {
    let number = |word: &str| match word.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).expect("a pointer"),
        None => word.parse().expect("a number"),
    };
    printed.split_whitespace().map(number).collect()
}

#[test]
fn variables_are_where_the_program_says() {
    for (compiler, flags) in [
        ("gcc", &["-O0"][..]),
        ("gcc", &["-O1"]),
        ("gcc", &["-O2", "-fomit-frame-pointer"]),
        ("gcc", &["-O3", "-gdwarf-4"]),
        ("clang", &["-O0"]),
        ("clang", &["-O2"]),
        ("clang", &["-O2", "-gdwarf-4"]),
    ] {
        let program = Compiled::with(compiler, "c", SOURCE, flags);
        let truth = numbers(&program.run());
        let (begin, size) = program.symbol("run");
        let layout = program.info().frame_layout(program.code(begin, begin + size), Svma(begin));
        let layout = layout.unwrap_or_else(|| panic!("{compiler} {flags:?}: no layout"));
        for (name, at, bytes) in [("copy", truth[0], 320), ("grid", truth[1], 384)] {
            let found = layout.locals().iter().find(|local| local.name == name);
            let found = found.unwrap_or_else(|| panic!("{compiler} {flags:?}: no {name} in {:?}", layout.locals()));
            assert_eq!((found.at, found.bytes, found.is_aggregate), (at, bytes, true), "{compiler} {flags:?} {name}");
        }
        // Where a call returns to, the inner scope is over or has not begun.
        let of_grid = layout.local_at(Svma(begin + size - 1), truth[1] + 24).map(|(_, local)| local.name.as_str());
        assert_eq!(of_grid, Some("grid"), "{compiler} {flags:?}");
    }
}

/// An access of one function to a variable of its caller, by the sample's stack pointer and call path.
#[test]
fn a_callers_variable_is_found_by_the_call_path() {
    for flags in [&["-O1"][..], &["-O2"]] {
        let sandbox = Sandbox::new();
        let program = sandbox.compile("gcc", &[&["-g", "-fpie", "-pie"], flags].concat(), "a.c", SOURCE, "prog");
        let output = std::process::Command::new(&program).output().expect("the program runs");
        let truth = numbers(&String::from_utf8(output.stdout).expect("text"));
        let (grid, cfa_of_sum) = (truth[2].cast_unsigned(), truth[3].cast_unsigned());
        let store = FileStore::new(&sandbox);
        let module = Module::open(&store, &program);
        let line = |text: &str| 1 + SOURCE.lines().position(|line| line.contains(text)).expect("a line") as u32;
        let entry = module.symbols().function_at(Svma(code_at(&module, "sum", line("double s = 0")) - BIAS));
        let entry = entry.expect("a symbol").start.to_avma(BIAS);

        let mut recorded = Recorded::new(&program);
        let page = cfa_of_sum & !0xfff;
        recorded.map(page - 0x10_0000, page + 0x10_0000, 0, "rw-p", "[stack]");
        let path =
            [after_call(&module, "run", line("sum(grid, n)")), after_call(&module, "main", line("run(argc + 3)"))];
        let stack = recorded.stacks.push(&path, StackEnd::Outermost);
        recorded.samples.push(Sample {
            time_ns: 10,
            thread: ThreadRow::new(0),
            cpu_ns: 5,
            weight: 1000,
            // Where the function begins, the stack pointer is at the return address.
            sampled_ip: entry,
            stack_pointer: Avma(cfa_of_sum - 8),
            ip: Avma(code_at(&module, "sum", line("s += c[i].now"))),
            address: Avma(grid + 72),
            access_bytes: 8,
            kind: AccessKind::LOAD,
            quality: Quality::Exact,
            block: None,
            stack: Some(stack),
            accesses: 0,
            burst_instructions: 0,
            burst_end: BurstEnd::Limit,
            served: Served::UNKNOWN,
            within: slimline_trace::tables::Within::default(),
        });
        let mut resolver = Resolver::new(&store);
        let process = resolver.add_process(recorded.process(7));
        let mut rows = Vec::new();
        resolver.resolve(process, recorded.part(), |batch: &AccessBatch| rows.push((batch.group[0], batch.offset[0])));
        let tables = resolver.finish().tables;
        let (group, offset) = rows[0];
        let group = tables.group(group);
        assert_eq!((group.name.as_str(), group.kind, offset), ("grid in run", GroupKind::Stack, 72), "{flags:?}");
        let element = group.element.expect("a type");
        assert_eq!((tables.type_(element.type_id).name.as_str(), element.bytes), ("struct cell", 24));
        assert_eq!(group.declared_at.as_ref().map(|at| at.line), Some(line("struct cell grid[16]")));
    }
}
