//! Share of a program's memory instructions whose type is inferred, and why the rest is not.
//!
//! `cargo run --release -p slimline-attribute --example type_coverage -- PROGRAM [FUNCTION]`; with a function's symbol it lists
//! that function's instructions.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use gimli::{EndianSlice, LittleEndian};
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter, Mnemonic, OpKind, Register};
use object::{Object, ObjectSection, ObjectSymbol};
use slimline_attribute::tables::TypeKind;
use slimline_attribute::typing::debug_info::{DebugInfo, Dwarf};
use slimline_attribute::typing::infer::Reason;
use slimline_attribute::typing::layout::TypeTable;
use slimline_attribute::typing::leaves;
use slimline_trace::address::Svma;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("a program's path");
    let only = arguments.next();
    let bytes = std::fs::read(&path).expect("a readable program");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let sections: Vec<(String, Cow<'_, [u8]>)> = file
        .sections()
        .filter_map(|section| Some((section.name().ok()?.to_owned(), section.uncompressed_data().ok()?)))
        .collect();
    let load = |id: gimli::SectionId| {
        let found = sections.iter().find(|section| section.0 == id.name());
        Ok::<_, gimli::Error>(EndianSlice::new(found.map_or(&[][..], |section| &section.1), LittleEndian))
    };
    let info = DebugInfo::new(Arc::new(Dwarf::load(load).expect("sections")));
    let mut table = TypeTable::new();
    let start = Instant::now();
    let mut sums = Sums::default();
    for symbol in file.symbols() {
        let name = symbol.name().unwrap_or("");
        if symbol.kind() != object::SymbolKind::Text
            || symbol.size() == 0
            || only.as_deref().is_some_and(|only| only != name)
        {
            continue;
        }
        let Some(code) = code_at(&file, symbol.address(), symbol.size()) else { continue };
        sums.add(&info, code, symbol.address(), only.is_some(), &mut table);
    }
    println!("{path}: {} functions, {} types, {:?}", sums.functions, table.rows().len(), start.elapsed());
    let all = sums.structures + sums.others + sums.lost.values().sum::<u64>();
    let percent = |count: u64| format!("{count:8} {:5.1} %", 100.0 * count as f64 / all.max(1) as f64);
    println!("memory instructions, those of the stack and of constants left out:\n{} in all", percent(all));
    println!("{} a structure's field\n{} a number or pointer", percent(sums.structures), percent(sums.others));
    let fitting = 100.0 * sums.fitting as f64 / sums.structures.max(1) as f64;
    println!("{fitting:.2} % of the structure accesses stay inside one field");
    let mut lost: Vec<_> = sums.lost.into_iter().collect();
    lost.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    for (reason, count) in lost {
        println!("{} lost: {reason:?}", percent(count));
    }
    println!("left out: {:?}", sums.left_out);
}

#[derive(Default)]
struct Sums {
    functions: u64,
    structures: u64,
    /// Of those, accesses that stay inside one field: what a wrong type mostly would not do.
    fitting: u64,
    others: u64,
    lost: BTreeMap<Reason, u64>,
    left_out: BTreeMap<Reason, u64>,
}

impl Sums {
    fn add(&mut self, info: &DebugInfo<'_>, code: &[u8], begin: u64, list: bool, table: &mut TypeTable) {
        let mut sites = Vec::new();
        let mut instructions = Vec::new();
        for instruction in Decoder::with_ip(64, code, begin, DecoderOptions::NONE) {
            let memory = (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
            if memory && !matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop) {
                sites.push(Svma(instruction.ip()));
                instructions.push(instruction);
            }
        }
        self.functions += 1;
        for (instruction, answer) in instructions.iter().zip(info.infer(code, Svma(begin), &sites, table)) {
            if list {
                let mut text = String::new();
                IntelFormatter::new().format(instruction, &mut text);
                let answer = answer.as_ref().map(|answer| {
                    let id = answer.accessed.type_id;
                    let leaf = leaves::field_at(table.rows(), id, answer.accessed.offset);
                    (
                        table.get(id).name.clone(),
                        answer.accessed.offset,
                        leaf.map(|leaf| leaf.path),
                        answer.variable.clone(),
                    )
                });
                println!("{:8x} {text:60} {answer:?}", instruction.ip());
            }
            let on_stack = matches!(instruction.memory_base(), Register::RSP | Register::RBP);
            match answer {
                _ if on_stack && instruction.memory_index() == Register::None => {}
                Ok(answer) => match table.get(answer.accessed.type_id).kind {
                    TypeKind::Structure | TypeKind::Union => {
                        self.structures += 1;
                        let (id, offset) = (answer.accessed.type_id, answer.accessed.offset);
                        let leaf = leaves::field_at(table.rows(), id, offset);
                        let bytes = instruction.memory_size().size() as u64;
                        self.fitting += u64::from(
                            leaf.is_some_and(|leaf| leaf.bytes == 0 || offset + bytes <= leaf.offset + leaf.bytes),
                        );
                    }
                    _ => self.others += 1,
                },
                Err(reason @ (Reason::NoVariable | Reason::Spill | Reason::ThreadLocal | Reason::NoDebugInfo)) => {
                    *self.left_out.entry(reason).or_default() += 1;
                }
                Err(reason) => *self.lost.entry(reason).or_default() += 1,
            }
        }
    }
}

fn code_at<'d>(file: &object::File<'d>, address: u64, bytes: u64) -> Option<&'d [u8]> {
    let section = file.sections().find(|section| {
        section.kind() == object::SectionKind::Text
            && section.address() <= address
            && address + bytes <= section.address() + section.size()
    })?;
    section.data_range(address, bytes).ok()?
}
