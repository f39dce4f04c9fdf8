//! Builders for synthetic accesses, so that a test reads like a table.

use slimline_analyze::analysis::Pass;
use slimline_analyze::findings::{DataProfile, Findings, GroupFindings};
use slimline_attribute::tables::{
    Element, Frame, Group, GroupKind, Language, Loop, LoopId, Member, MemberRole, Module, ModuleId, Site,
    SourcePosition, SymbolSource, Tables, Thread, Type, TypeId, TypeKind,
};
use slimline_trace::access::{
    Access, AccessBatch, AccessKind, Evidence, GroupId, ObjectId, SiteId, Taken, ThreadId, WindowId,
};
use slimline_trace::address::{Avma, Svma};
use slimline_trace::served::Served;

/// Instructions in every synthetic window.
pub(crate) const WINDOW_INSTRUCTIONS: u32 = 400;

/// A made-up program and what was seen of it.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) tables: Tables,
    pub(crate) batches: Vec<AccessBatch>,
    windows: u32,
    /// CPU time of all threads: they take turns.
    cpu_ns: u64,
    /// Samples of the window to come, with their weights and times.
    before: Vec<(Step, u64, u64)>,
    objects: u32,
    bases: Vec<(GroupId, u64, u32)>,
}

/// One instruction's walk, as a window sees it: execution i is at `offset + i · stride` of object number `object`.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) site: SiteId,
    pub(crate) group: GroupId,
    pub(crate) offset: u64,
    pub(crate) stride: i64,
    pub(crate) bytes: u16,
    pub(crate) kind: AccessKind,
}

pub(crate) fn load(site: SiteId, group: GroupId, offset: u64, stride: i64) -> Step {
    Step { site, group, offset, stride, bytes: 8, kind: AccessKind::LOAD }
}

pub(crate) fn store(site: SiteId, group: GroupId, offset: u64, stride: i64) -> Step {
    Step { kind: AccessKind::STORE, ..load(site, group, offset, stride) }
}

/// A sample that no memory instruction could be blamed for.
pub(crate) fn computing(site: SiteId) -> Step {
    Step { kind: AccessKind::NONE, ..load(site, Tables::UNATTRIBUTED, 0, 0) }
}

impl Program {
    pub(crate) fn new() -> Self {
        let mut tables = Tables::new();
        tables.modules.push(Module { path: "/bin/synthetic".into(), build_id: None, symbols: SymbolSource::DebugInfo });
        let bases = vec![(Tables::UNATTRIBUTED, 0, 0)];
        Self { tables, batches: Vec::new(), windows: 0, cpu_ns: 0, before: Vec::new(), objects: 1, bases }
    }

    /// A C structure of members (name, offset, bytes, type).
    pub(crate) fn structure(&mut self, name: &str, bytes: u64, members: &[(&str, u64, u64, &str)]) -> TypeId {
        let member = |(index, &(name, offset, bytes, type_name)): (usize, &(&str, u64, u64, &str))| Member {
            name: name.into(),
            offset,
            bytes,
            bits: None,
            type_id: None,
            type_name: type_name.into(),
            role: MemberRole::Field,
            line: 11 + index as u32,
        };
        self.tables.types.push(Type {
            name: name.into(),
            language: Language::C,
            kind: TypeKind::Structure,
            bytes,
            declared_at: Some(SourcePosition { file: "a.c".into(), line: 10, column: 1 }),
            members: members.iter().enumerate().map(member).collect(),
        });
        TypeId(self.tables.types.len() as u32 - 1)
    }

    /// A structure of doubles without holes.
    pub(crate) fn doubles(&mut self, name: &str, members: &[&str]) -> TypeId {
        let rows: Vec<_> = members.iter().enumerate().map(|(i, name)| (*name, i as u64 * 8, 8, "double")).collect();
        self.structure(name, rows.len() as u64 * 8, &rows)
    }

    /// One heap block of `bytes` with elements of `element`, where debug information tells.
    pub(crate) fn array(&mut self, name: &str, element: Option<TypeId>, bytes: u64) -> GroupId {
        self.group(name, element, 1, bytes)
    }

    /// `count` heap blocks of `bytes` each.
    pub(crate) fn nodes(&mut self, name: &str, element: Option<TypeId>, count: u32, bytes: u64) -> GroupId {
        self.group(name, element, count, bytes)
    }

    fn group(&mut self, name: &str, element: Option<TypeId>, count: u32, bytes: u64) -> GroupId {
        let group = GroupId(self.tables.groups.len() as u32);
        self.tables.groups.push(Group {
            name: name.into(),
            kind: GroupKind::Heap,
            element: element.map(|type_id| Element {
                type_id,
                bytes: self.tables.type_(type_id).bytes,
                start: 0,
                agreement: 1.0,
            }),
            objects: u64::from(count),
            bytes: u64::from(count) * bytes,
            object_bytes: bytes,
            ..Group::unattributed()
        });
        self.bases.push((group, bytes, self.objects));
        self.objects += count;
        group
    }

    /// An outermost loop of `function` in lines `first..=last` of a.c.
    pub(crate) fn a_loop(&mut self, function: &str, first: u32, last: u32) -> LoopId {
        self.tables.loops.push(Loop {
            module: ModuleId(0),
            header: Svma(0x1000 + u64::from(first)),
            start: Svma(0x1000 + u64::from(first)),
            end: Svma(0x1001 + u64::from(last)),
            function: function.into(),
            file: Some("a.c".into()),
            first_line: first,
            last_line: last,
            columns: None,
            parent: None,
            depth: 1,
            irreducible: false,
            call: None,
            leaves_early: false,
        });
        LoopId(self.tables.loops.len() as u32 - 1)
    }

    /// An instruction in a loop.
    pub(crate) fn site(&mut self, in_loop: LoopId) -> SiteId {
        let Loop { function, first_line, .. } = self.tables.loops[in_loop.index()].clone();
        let svma = Svma(0x10_000 + self.tables.sites.len() as u64 * 4);
        self.tables.sites.push(Site {
            module: Some(ModuleId(0)),
            svma,
            frames: vec![Frame {
                function,
                module: "synthetic".into(),
                position: Some(SourcePosition { file: "a.c".into(), line: first_line, column: 1 }),
                inlined: false,
            }],
            own_frame: Some(0),
            innermost_loop: Some(in_loop),
            is_chased: false,
            accessed: None,
            untyped: None,
            variable: None,
        });
        SiteId(self.tables.sites.len() as u32 - 1)
    }

    fn batch(&mut self, thread: u32) -> &mut AccessBatch {
        while self.tables.threads.len() <= thread as usize {
            let tid = self.tables.threads.len() as u32;
            self.tables.threads.push(Thread { pid: 1, tid, name: format!("thread {tid}") });
        }
        let thread = ThreadId(thread);
        if self.batches.last().is_none_or(|batch| batch.thread != Some(thread) || batch.len() > 2000) {
            self.batches.push(AccessBatch::with_capacity(thread, 0));
        }
        self.batches.last_mut().expect("one was just pushed")
    }

    fn access(&self, step: Step, object: u32, offset: u64, weight: u64, evidence: Evidence) -> Access {
        let &(_, _, first) =
            self.bases.iter().find(|(group, ..)| *group == step.group).expect("a group of this program");
        Access {
            window: WindowId(self.windows),
            site: step.site,
            address: Avma((u64::from(first + object) << 32) + offset),
            bytes: step.bytes,
            kind: step.kind,
            group: step.group,
            object: ObjectId(first + object),
            offset,
            weight,
            evidence,
        }
    }

    /// A sample whose thread's next one has a burst: it is part of that one's window.
    pub(crate) fn sample_before(&mut self, step: Step, weight: u64) {
        self.cpu_ns += weight;
        self.before.push((step, weight, self.cpu_ns));
    }

    /// A sample of the second clock, which weighs nothing, so long after the last one; the next is its window's.
    pub(crate) fn sample_between(&mut self, step: Step, after_ns: u64) {
        self.before.push((step, 0, self.cpu_ns + after_ns));
    }

    /// A hardware sample: no burst, no CPU time, and what the counter tells of how it was served.
    pub(crate) fn sample_served(&mut self, thread: u32, step: Step, weight: u64, served: Served) {
        self.windows += 1;
        let row = self.access(step, 0, step.offset, weight, Evidence::Cost);
        self.batch(thread).push_sample(row, Taken { served, ..Taken::UNKNOWN });
    }

    /// A sample without a burst.
    pub(crate) fn sample(&mut self, thread: u32, step: Step, weight: u64) {
        self.sample_in(thread, step, 0, weight);
    }

    /// The same in object number `object` of the group.
    pub(crate) fn sample_in(&mut self, thread: u32, step: Step, object: u32, weight: u64) {
        self.windows += 1;
        self.cpu_ns += weight;
        let row = self.access(step, object, step.offset, weight, Evidence::Cost);
        let cpu_ns = self.cpu_ns;
        self.batch(thread).push_sample(row, Taken { cpu_ns, ..Taken::UNKNOWN });
    }

    /// A sample blamed on the first step, and a window in which all steps run in turn, `times` times, from iteration
    /// `from` on.
    pub(crate) fn window(&mut self, thread: u32, steps: &[Step], from: i64, times: i64, weight: u64) {
        self.windows += 1;
        self.cpu_ns += weight;
        let at = |step: &Step, i: i64| step.offset.wrapping_add_signed((from + i) * step.stride);
        let sample = self.access(steps[0], 0, at(&steps[0], 0), weight, Evidence::Cost);
        let turn = |i| steps.iter().map(move |step| (*step, at(step, i)));
        let rows: Vec<Access> = (0..times)
            .flat_map(turn)
            .map(|(step, offset)| self.access(step, 0, offset, 0, Evidence::Execution))
            .collect();
        self.begin_window(thread, sample, &rows);
    }

    /// Pushes a window with the samples before it, the one it began with, and what it shows.
    fn begin_window(&mut self, thread: u32, sample: Access, rows: &[Access]) {
        let before: Vec<(Access, u64)> = std::mem::take(&mut self.before)
            .into_iter()
            .map(|(step, weight, cpu_ns)| (self.access(step, 0, step.offset, weight, Evidence::Cost), cpu_ns))
            .collect();
        let (id, time_ns, cpu_ns) = (WindowId(self.windows), u64::from(self.windows) * 1_000_000, self.cpu_ns);
        let batch = self.batch(thread);
        batch.begin_window(id, time_ns, WINDOW_INSTRUCTIONS);
        before
            .into_iter()
            .chain([(sample, cpu_ns)])
            .for_each(|(row, cpu_ns)| batch.push_sample(row, Taken { cpu_ns, ..Taken::UNKNOWN }));
        rows.iter().for_each(|row| batch.push(*row));
    }

    /// A window over nodes: at turn i all steps run on object number `order(i)`.
    pub(crate) fn node_window(
        &mut self,
        thread: u32,
        steps: &[Step],
        order: impl Fn(u32) -> u32,
        times: u32,
        weight: u64,
    ) {
        self.windows += 1;
        self.cpu_ns += weight;
        let sample = self.access(steps[0], order(0), steps[0].offset, weight, Evidence::Cost);
        let rows: Vec<Access> = (0..times)
            .flat_map(|i| steps.iter().map(move |step| (i, step)))
            .map(|(i, step)| self.access(*step, order(i), step.offset, 0, Evidence::Execution))
            .collect();
        self.begin_window(thread, sample, &rows);
    }

    pub(crate) fn findings(&self) -> Findings {
        self.findings_of(DataProfile::default())
    }

    pub(crate) fn findings_of(&self, profile: DataProfile) -> Findings {
        let mut pass = Pass::new(&profile);
        self.batches.iter().for_each(|batch| pass.push(batch));
        let found = pass.finish(&self.tables);
        let text = format!("{found:?}");
        let is_zero = |(at, _): &(usize, &str)| !text[at + 4..].starts_with(|next: char| next.is_ascii_digit());
        assert_eq!(text.match_indices("-0.0").find(is_zero), None, "a zero with a sign: JSON would show it");
        found
    }
}

/// The group named so.
pub(crate) fn group<'a>(findings: &'a Findings, program: &Program, name: &str) -> &'a GroupFindings {
    let named = |found: &&GroupFindings| program.tables.group(found.group).name == name;
    findings.groups.iter().find(named).expect("a group of that name")
}

/// Clusters by field name.
pub(crate) fn cluster_names(group: &GroupFindings) -> Vec<Vec<&str>> {
    let names = |fields: &[usize]| fields.iter().map(|&field| group.fields[field].name.as_str()).collect();
    group.clusters.iter().map(|cluster| names(&cluster.fields)).collect()
}

/// Affinity of two fields by name; 0 where there is none.
pub(crate) fn affinity(group: &GroupFindings, a: &str, b: &str) -> f64 {
    let row = |name: &str| group.fields.iter().position(|field| field.name == name).expect("a field of that name");
    let (a, b) = (row(a), row(b));
    group.affinity.iter().find(|tie| (tie.a, tie.b) == (a.min(b), a.max(b))).map_or(0.0, |tie| tie.value)
}
