//! Any records of any event: each is decoded or malformed, and never has more than its bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slimline_collect::perf_event::{
    ByteOrder, Caught, EventAttr, Events, IbsOp, RawRecord, Record, Sample, SpeRecords,
};

fuzz_target!(|input: &[u8]| {
    let Some((&flags, bytes)) = input.split_first() else { return };
    let order = if flags & 1 == 0 { ByteOrder::Little } else { ByteOrder::Big };
    let mut events = Events::default();
    let mut rest = bytes;
    for number in 0..=flags >> 7 {
        let Ok((attr, length)) = EventAttr::decode(rest, order) else { return };
        assert!(length <= rest.len());
        rest = &rest[length..];
        events.add(attr, [u64::from(number), 77]);
    }
    while let Ok(Some((record, length))) = RawRecord::at_start(rest, order) {
        rest = &rest[length..];
        // As if it were a piece of an AUX area.
        let operations = SpeRecords::new(record.body, u64::from(record.misc));
        let served = |operation: Result<_, _>| operation.map(|operation| Caught::of_operation(&operation, None));
        assert!(operations.map(served).count() <= record.body.len());
        let Some(writer) = events.writer_of(&record) else { continue };
        let Ok(decoded) = Record::decode(&record, &events.attrs()[writer]) else { continue };
        match decoded.record {
            Record::Sample(sample) => walk(&sample, length, order),
            Record::Mapping(mapping) => _ = mapping.row(0),
            Record::Read { counters, .. } => assert!(counters.iter().count() * 8 <= length),
            _ => {}
        }
    }
});

fn walk(sample: &Sample<'_>, length: usize, order: ByteOrder) {
    assert!(sample.callchain().count() * 8 <= length);
    assert!(sample.branches.map_or(0, |branches| branches.iter().count()) * 8 <= length);
    assert!(sample.counters.map_or(0, |counters| counters.iter().count()) * 8 <= length);
    assert!(sample.raw.map_or(0, <[u8]>::len) + sample.aux.map_or(0, <[u8]>::len) <= length);
    for registers in [sample.user_registers, sample.interrupt_registers].into_iter().flatten() {
        (0..70).for_each(|number| _ = registers.get(number));
    }
    if let Some(source) = sample.data_source {
        let _ = (source.operation(), source.level(), source.hops(), source.snoop());
        let _ = (source.locked(), source.tlb(), source.blocked());
    }
    if let Some(Ok(op)) = sample.raw.map(|raw| IbsOp::decode(raw, order)) {
        let _ = (op.ip(), op.kind(), op.address(), op.bytes(), op.branch_target(), op.miss_cycles(), op.served());
        let _ = Caught::of(sample, Some(&op));
    }
}
