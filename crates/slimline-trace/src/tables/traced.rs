//! Accesses of a full trace, for engines that query tables: `slimline export --to parquet`.

use super::table;
use crate::address::Avma;

table! {
    /// Accesses in their order.
    TracedAccesses of
    /// One access. An atomic update loads and stores; a copy is an access that loads and one that stores.
    TracedAccess in "accesses" {
        /// Row of [`TracedKeys`] that says what it is of.
        key: u32 as Dictionary,
        /// Its first byte.
        address: Avma as Delta,
        /// How many bytes.
        bytes: u32 as Dictionary,
        /// It reads.
        loads: bool as Dictionary,
        /// It writes.
        stores: bool as Dictionary,
    }
}

table! {
    /// What accesses are of.
    TracedKeys of
    /// A combination of instruction, data and thread.
    TracedKey in "keys" {
        /// Its number, which is that of its row.
        key: u32 as Delta,
        /// Number of the data that it is of: two may be alike in all that is told of them.
        data_number: u32 as Dictionary,
        /// `heap`, `static`, `variable`, `unattributed`.
        kind: String as Dictionary,
        /// What the data is called.
        data: Option<String> as Dictionary,
        /// The type that is allocated.
        type_name: Option<String> as Dictionary,
        /// Where it is allocated, as `file:line`.
        allocated_at: Option<String> as Dictionary,
        /// Who called for it, the innermost first, where that was asked for.
        callers: Option<String> as Dictionary,
        /// How many blocks of it there are.
        blocks: u64 as Dictionary,
        /// The most bytes of it that lived at a time.
        peak_bytes: u64 as Dictionary,
        /// The variable that the instruction names.
        variable: Option<String> as Dictionary,
        /// Type and field.
        field: Option<String> as Dictionary,
        /// The function that the instruction is of, as in the source.
        function: Option<String> as Dictionary,
        /// Its line, as `file:line`.
        line: Option<String> as Dictionary,
        /// Number of the process in the trace, from 0.
        process: u32 as Dictionary,
        /// The kernel's number of the thread.
        tid: u32 as Dictionary,
        /// How many accesses have it.
        accesses: u64 as Delta,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Table, whole_table};

    #[test]
    fn both_come_back() {
        let mut accesses = TracedAccesses::default();
        for at in 0..3000_u64 {
            accesses.push(TracedAccess {
                key: (at % 7) as u32,
                address: Avma(0x7f00_0000_0000 + at * 24),
                bytes: 8,
                loads: at % 3 != 0,
                stores: at % 3 == 0,
            });
        }
        let file = accesses.to_parquet().unwrap();
        assert!(file.len() < 3000 * 4, "{}", file.len());
        assert_eq!(TracedAccesses::from_parquet(file.into(), 3000).unwrap(), accesses);
        let mut keys = TracedKeys::default();
        keys.push(TracedKey {
            key: 0,
            data_number: 3,
            kind: "heap".to_owned(),
            data: Some("list".to_owned()),
            type_name: Some("node".to_owned()),
            allocated_at: Some("list.c:7".to_owned()),
            callers: None,
            blocks: 300,
            peak_bytes: 4800,
            variable: Some("list".to_owned()),
            field: Some("node.next".to_owned()),
            function: Some("walk".to_owned()),
            line: Some("list.c:12".to_owned()),
            process: 0,
            tid: 4711,
            accesses: 3000,
        });
        let file = keys.to_parquet().unwrap();
        assert_eq!(whole_table::<TracedKeys>(file.clone()).unwrap(), keys);
        assert_eq!(TracedKeys::from_parquet(file.into(), 1).unwrap(), keys);
    }
}
