//! What of an imported file is not in its session, or not as one would think.
//!
//! Reports tell losses in their line of that name, the rest as notes; `slimline import` tells both.

use slimline_trace::session::Imported;

/// One clause each, without what there was none of.
pub fn import_remarks(imported: &Imported) -> Vec<String> {
    let unknown: u64 = imported.unknown_records.values().copied().fold(0, u64::saturating_add);
    let types: Vec<String> = imported.unknown_records.keys().map(u32::to_string).collect();
    told([
        (
            imported.samples_without_weight,
            format!("samples of other events than {} weigh nothing", imported.weighed_event),
        ),
        (imported.kernel_samples, "samples of the kernel's code were left out".to_owned()),
        (imported.samples_without_thread, "samples without thread or instruction were left out".to_owned()),
        (imported.records_without_event, "records of events that the file does not describe were left out".to_owned()),
        (imported.records_out_of_order, "records came later than their time".to_owned()),
        (imported.aux_bytes, "bytes of AUX data, as of Intel PT, were not read".to_owned()),
        (unknown, format!("records of unknown types ({}) were left out", types.join(", "))),
    ])
}

/// What was lost, likewise.
pub fn import_losses(imported: &Imported) -> Vec<String> {
    told([
        (imported.samples_without_address, "samples have no address".to_owned()),
        (
            imported.samples_of_other_variables,
            "samples are of variables that have no address any more, as there are too many".to_owned(),
        ),
        (imported.lost_records, "records were lost in recording".to_owned()),
        (imported.lost_samples, "samples were lost in recording".to_owned()),
        (imported.throttled, "times the kernel throttled an event".to_owned()),
        (imported.malformed_records, "damaged records were left out".to_owned()),
        (
            imported.trailing_bytes,
            "bytes behind the recording's end were not read: is another file appended to it?".to_owned(),
        ),
    ])
}

fn told<const N: usize>(counted: [(u64, String); N]) -> Vec<String> {
    counted.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_there_is_is_told() {
        assert_eq!(import_remarks(&Imported::default()), [""; 0]);
        let lost = Imported { throttled: 2, ..Imported::default() };
        assert_eq!(import_losses(&lost), ["2 times the kernel throttled an event"]);
        let unknown_records = [(90, 2), (91, 1)].into();
        let imported = Imported { kernel_samples: 9, unknown_records, ..Imported::default() };
        let expected =
            ["9 samples of the kernel's code were left out", "3 records of unknown types (90, 91) were left out"];
        assert_eq!(import_remarks(&imported), expected);
    }
}
