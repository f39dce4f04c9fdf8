//! pprof's profile (`profile.proto` of github.com/google/pprof), packed by gzip, for `go tool pprof` and all that read it.
//!
//! Stacks are code with data below it, so the leaf, whose cost is "flat", is a field or a structure, and functions have theirs
//! "cum". Data is in a mapping of its own, `[data]`: `-hide='\[data\]'` shows the same by code. What data a sample is of is told by labels, too
//! (`-tagfocus=group=bodies`, `-tagroot=type`).

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::{CodeFrame, CostTable, PROGRAM};
use crate::numbered::Numbered;

/// The mapping of all data.
const DATA: &str = "[data]";

/// Writes the profile.
///
/// # Errors
/// As `out`.
pub fn write(out: &mut (impl Write + ?Sized), table: &CostTable) -> io::Result<()> {
    let mut packed = GzEncoder::new(out, Compression::default());
    packed.write_all(&profile(table).encode_to_vec())?;
    packed.finish().map(|_| ())
}

fn profile(table: &CostTable) -> proto::Profile {
    let mut made = Builder::default();
    made.strings.number(String::new());
    let run = &table.run;
    let noun = run.unit.noun();
    // Readers take the first mapping for the program.
    let program = run.command.first().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    if table.frames.iter().any(|frame| frame.module == program) {
        made.mapping(program, false);
    }
    // A trace has no samples.
    let mut types = vec![("samples", "count"), (noun, run.unit.unit()), ("loads", "count"), ("stores", "count")];
    if run.is_exact || noun == "samples" {
        types.remove(0);
    }
    let mut sample = Vec::new();
    for row in &table.rows {
        let mut location_id: Vec<u64> =
            table.stacks[row.stack as usize].iter().map(|&frame| made.code(&table.frames[frame as usize])).collect();
        location_id.extend(made.data(table, row.data));
        location_id.reverse();
        let cost = &row.cost;
        let mut value = vec![cost.samples, cost.cost, cost.loads, cost.stores];
        if types.len() < value.len() {
            value.remove(0);
        }
        let value = value.into_iter().map(|value| i64::try_from(value).unwrap_or(i64::MAX)).collect();
        sample.push(proto::Sample { location_id, value, label: made.labels(table, row.data, row.thread) });
    }
    let [cpu, nanoseconds] = ["cpu", "nanoseconds"].map(|text| made.string(text));
    let remarks = [format!("{PROGRAM}: {}", slimline_trace::escape::command_line(&run.command))];
    let comment = remarks.iter().chain(&run.remarks).map(|remark| made.string(remark)).collect();
    let sample_type = types.iter().map(|(r#type, unit)| made.value_type(r#type, unit)).collect();
    let default_sample_type = made.string(noun);
    proto::Profile {
        sample_type,
        sample,
        mapping: made
            .mappings
            .rows()
            .iter()
            .zip(1..)
            .map(|(&(filename, is_data), id)| mapping(id, filename, is_data))
            .collect(),
        location: made.locations.rows().iter().zip(1..).map(|(of, id)| of.location(id)).collect(),
        function: made.functions.rows().iter().zip(1..).map(|(of, id)| of.function(id)).collect(),
        string_table: made.strings.into_rows(),
        time_nanos: i64::try_from(run.started_unix_ns).unwrap_or(0),
        duration_nanos: i64::try_from(run.duration_ns).unwrap_or(0),
        period_type: (run.period_ns > 0).then_some(proto::ValueType { r#type: cpu, unit: nanoseconds }),
        period: i64::try_from(run.period_ns).unwrap_or(0),
        comment,
        default_sample_type,
    }
}

fn mapping(id: u64, filename: i64, is_data: bool) -> proto::Mapping {
    // Else the tool looks for the file to find names in it.
    proto::Mapping {
        id,
        filename,
        has_functions: true,
        has_filenames: true,
        has_line_numbers: true,
        has_inline_frames: !is_data,
    }
}

/// A function, by numbers of its name and its file.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Named {
    name: i64,
    filename: i64,
}

impl Named {
    fn function(&self, id: u64) -> proto::Function {
        // Without a name of the system's: the tool takes one that is the same for mangled, and cuts what it takes for arguments and
        // templates from the name (`<List as Iterator>::next`, `Vec<f64> [heap]`).
        proto::Function { id, name: self.name, system_name: 0, filename: self.filename, start_line: 0 }
    }
}

/// A line of a function, by ids of its mapping and the function.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Located {
    mapping_id: u64,
    function_id: u64,
    line: i64,
}

impl Located {
    fn location(&self, id: u64) -> proto::Location {
        let line = proto::Line { function_id: self.function_id, line: self.line };
        proto::Location { id, mapping_id: self.mapping_id, line: vec![line] }
    }
}

#[derive(Default)]
struct Builder {
    strings: Numbered<String>,
    mappings: Numbered<(i64, bool)>,
    functions: Numbered<Named>,
    locations: Numbered<Located>,
}

impl Builder {
    fn string(&mut self, text: &str) -> i64 {
        i64::from(self.strings.number(text.to_owned()))
    }

    fn value_type(&mut self, r#type: &str, unit: &str) -> proto::ValueType {
        proto::ValueType { r#type: self.string(r#type), unit: self.string(unit) }
    }

    /// The id of a mapping; ids begin at 1.
    fn mapping(&mut self, module: &str, is_data: bool) -> u64 {
        let module = self.string(module);
        u64::from(self.mappings.number((module, is_data))) + 1
    }

    /// The id of a frame's location; ids begin at 1.
    fn location(&mut self, frame: &CodeFrame, is_data: bool) -> u64 {
        let mapping_id = self.mapping(if is_data { DATA } else { &frame.module }, is_data);
        let named = Named {
            name: self.string(&frame.function),
            filename: self.string(frame.file.as_deref().unwrap_or_default()),
        };
        let function_id = u64::from(self.functions.number(named)) + 1;
        let located = Located { mapping_id, function_id, line: i64::from(frame.line) };
        u64::from(self.locations.number(located)) + 1
    }

    fn code(&mut self, frame: &CodeFrame) -> u64 {
        self.location(frame, false)
    }

    /// Those of a structure and its field, in this order.
    fn data(&mut self, table: &CostTable, data: u32) -> Vec<u64> {
        let place = table.group_of(data).place.clone().unwrap_or_default();
        let frames = table.data_labels(data).into_iter().map(|function| CodeFrame { function, ..place.clone() });
        frames.map(|frame| self.location(&frame, true)).collect()
    }

    fn labels(&mut self, table: &CostTable, data: u32, thread: u32) -> Vec<proto::Label> {
        let (group, path) = (table.group_of(data), &table.data[data as usize]);
        let field = path.field.as_ref().map_or("", |field| &field.name);
        let at = group.place.as_ref().map_or_else(String::new, place);
        let mut labels = Vec::new();
        let type_name = group.type_name.as_deref().unwrap_or_default();
        let texts = [("group", &*group.name), ("kind", &group.kind), ("field", field), ("type", type_name)];
        let at_key = if group.kind == "heap" { "allocated_at" } else { "declared_at" };
        let thread = table.threads.get(thread as usize);
        let name = thread.map_or("", |thread| &thread.name);
        for (key, text) in texts.into_iter().chain([(at_key, &*at), ("thread", name)]) {
            if !text.is_empty() {
                let (key, str) = (self.string(key), self.string(text));
                labels.push(proto::Label { key, str, ..proto::Label::default() });
            }
        }
        for (key, number) in thread.into_iter().flat_map(|thread| [("pid", thread.pid), ("tid", thread.tid)]) {
            labels.push(proto::Label { key: self.string(key), num: i64::from(number), ..proto::Label::default() });
        }
        labels
    }
}

/// `main bodies.c:36`
fn place(at: &CodeFrame) -> String {
    let line = at.file.as_ref().map(|file| format!("{file}:{}", at.line));
    let words = [Some(at.function.clone()).filter(|function| !function.is_empty()), line];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The messages of `profile.proto` as far as they are written. Texts are numbers of `string_table`; ids begin at 1.
mod proto {
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub(super) sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub(super) sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub(super) mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub(super) location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub(super) function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub(super) string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub(super) time_nanos: i64,
        #[prost(int64, tag = "10")]
        pub(super) duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub(super) period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub(super) period: i64,
        #[prost(int64, repeated, tag = "13")]
        pub(super) comment: Vec<i64>,
        #[prost(int64, tag = "14")]
        pub(super) default_sample_type: i64,
    }

    #[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
    pub(super) struct ValueType {
        #[prost(int64, tag = "1")]
        pub(super) r#type: i64,
        #[prost(int64, tag = "2")]
        pub(super) unit: i64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub(super) location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub(super) value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub(super) label: Vec<Label>,
    }

    #[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
    pub(super) struct Label {
        #[prost(int64, tag = "1")]
        pub(super) key: i64,
        #[prost(int64, tag = "2")]
        pub(super) str: i64,
        #[prost(int64, tag = "3")]
        pub(super) num: i64,
    }

    #[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
    pub(super) struct Mapping {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(int64, tag = "5")]
        pub(super) filename: i64,
        #[prost(bool, tag = "7")]
        pub(super) has_functions: bool,
        #[prost(bool, tag = "8")]
        pub(super) has_filenames: bool,
        #[prost(bool, tag = "9")]
        pub(super) has_line_numbers: bool,
        #[prost(bool, tag = "10")]
        pub(super) has_inline_frames: bool,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Location {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(uint64, tag = "2")]
        pub(super) mapping_id: u64,
        #[prost(message, repeated, tag = "4")]
        pub(super) line: Vec<Line>,
    }

    #[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
    pub(super) struct Line {
        #[prost(uint64, tag = "1")]
        pub(super) function_id: u64,
        #[prost(int64, tag = "2")]
        pub(super) line: i64,
    }

    #[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
    pub(super) struct Function {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(int64, tag = "2")]
        pub(super) name: i64,
        #[prost(int64, tag = "3")]
        pub(super) system_name: i64,
        #[prost(int64, tag = "4")]
        pub(super) filename: i64,
        #[prost(int64, tag = "5")]
        pub(super) start_line: i64,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use slimline_trace::session::WeightUnit;

    use super::*;
    use crate::export::{CostRow, CostUnit, Counts, DataField, DataPath, Run, ThreadName};

    fn table() -> CostTable {
        let frame = |function: &str, line| CodeFrame {
            function: function.into(),
            module: "bodies".into(),
            file: Some("bodies.c".into()),
            line,
        };
        let cost = Counts { samples: 3, cost: 3000, loads: 5, stores: 1, ..Counts::default() };
        CostTable {
            run: Run {
                unit: CostUnit::Sampled(WeightUnit::TimeNs),
                period_ns: 1000,
                remarks: vec!["three samples".into()],
                ..Run::default()
            },
            frames: vec![frame("main", 42), frame("drift", 30)],
            stacks: vec![vec![0, 1]],
            groups: vec![crate::export::DataGroup {
                name: "bodies".into(),
                kind: "heap".into(),
                place: Some(frame("main", 36)),
                ..crate::export::DataGroup::default()
            }],
            data: vec![DataPath { group: 0, field: Some(DataField { name: "x".into(), type_name: None }) }],
            threads: vec![ThreadName { pid: 7, tid: 8, name: "worker".into() }],
            rows: vec![CostRow { stack: 0, data: 0, thread: 0, cost }],
            timed: Vec::new(),
        }
    }

    fn read(table: &CostTable) -> proto::Profile {
        let (mut packed, mut content) = (Vec::new(), Vec::new());
        write(&mut packed, table).unwrap();
        GzDecoder::new(&packed[..]).read_to_end(&mut content).unwrap();
        proto::Profile::decode(&content[..]).unwrap()
    }

    #[test]
    fn the_first_mapping_is_the_programs() {
        let mut table = table();
        table.run.command = vec!["/bin/bodies".into()];
        table.frames[0].module = "libc.so.6".into();
        let profile = read(&table);
        let files = profile.mapping.iter().map(|of| profile.string_table[of.filename as usize].as_str());
        assert_eq!(files.collect::<Vec<_>>(), ["bodies", "libc.so.6", DATA]);
    }

    #[test]
    fn a_sample_is_a_field_on_its_structure_on_code() {
        let profile = read(&table());
        let text = |number: i64| profile.string_table[number as usize].as_str();
        assert_eq!(text(0), "", "the format wants an empty text first");
        let types: Vec<_> = profile.sample_type.iter().map(|of| (text(of.r#type), text(of.unit))).collect();
        assert_eq!(types, [("samples", "count"), ("time", "nanoseconds"), ("loads", "count"), ("stores", "count")]);
        let sample = &profile.sample[0];
        assert_eq!(sample.value, [3, 3000, 5, 1]);
        let stack: Vec<_> = sample
            .location_id
            .iter()
            .map(|&id| {
                let location = &profile.location[id as usize - 1];
                let function = &profile.function[location.line[0].function_id as usize - 1];
                let mapping = &profile.mapping[location.mapping_id as usize - 1];
                (text(function.name), location.line[0].line, text(mapping.filename))
            })
            .collect();
        let expected =
            [("bodies.x", 36, DATA), ("bodies [heap]", 36, DATA), ("drift", 30, "bodies"), ("main", 42, "bodies")];
        assert_eq!(stack, expected);
        let labels: Vec<_> = sample.label.iter().map(|label| (text(label.key), text(label.str), label.num)).collect();
        let expected = [
            ("group", "bodies", 0),
            ("kind", "heap", 0),
            ("field", "x", 0),
            ("allocated_at", "main bodies.c:36", 0),
            ("thread", "worker", 0),
            ("pid", "", 7),
            ("tid", "", 8),
        ];
        assert_eq!(labels, expected);
        assert_eq!((text(profile.default_sample_type), text(profile.comment[1])), ("time", "three samples"));
        // Else the tool cuts `<List as Iterator>::next` to `::next`.
        assert!(profile.function.iter().all(|function| text(function.system_name).is_empty()));
    }

    #[test]
    fn a_trace_has_no_samples() {
        let mut table = table();
        table.run = Run { is_exact: true, ..Run::default() };
        let profile = read(&table);
        assert_eq!(profile.sample_type.len(), 3);
        assert_eq!((profile.sample[0].value.clone(), profile.period_type), (vec![3000, 5, 1], None));
    }
}
