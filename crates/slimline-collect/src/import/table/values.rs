//! Values of cells.

use std::borrow::Cow;

use slimline_trace::access::AccessKind;
use slimline_trace::served::{MemoryLevel, Served};
use slimline_trace::tables::ForeignCell;

use super::columns::{Column, Format};
use crate::perf_event::{DataSource, Sample};

/// What tables write where they do not know.
const UNKNOWN: [&str; 6] = ["", "?", "??", "-", "N/A", "[unknown]"];

/// What a cell says; `None` where it says that nothing is known.
pub(super) fn told(cell: ForeignCell<'_>) -> Option<ForeignCell<'_>> {
    match cell {
        ForeignCell::Null => None,
        ForeignCell::Text(text) => Some(text.trim()).filter(|text| !UNKNOWN.contains(text)).map(ForeignCell::Text),
        // Where a column of whole numbers is one of numbers with fractions, as some are missing.
        ForeignCell::Decimal(number) => Some(cell).filter(|_| !number.is_nan()),
        ForeignCell::Number(_) => Some(cell),
    }
}

/// The cell as a name.
pub(super) fn text(cell: ForeignCell<'_>) -> Cow<'_, str> {
    match cell {
        ForeignCell::Text(text) => text.into(),
        other => other.to_string().into(),
    }
}

/// The number in a cell, scaled. Where text `has_decimal_commas`, one is read as a point is.
pub(super) fn number(cell: ForeignCell<'_>, column: &Column, has_decimal_commas: bool) -> Option<u64> {
    let number = match (cell, column.format) {
        (ForeignCell::Null, _) => return None,
        (ForeignCell::Number(number), Format::Nanoseconds(each)) => number.checked_mul(each)?,
        (ForeignCell::Number(number), _) => number,
        // Its shortest form, as a table of text has it.
        (ForeignCell::Decimal(decimal), Format::Nanoseconds(each)) => fraction(&decimal.to_string(), each)?,
        (ForeignCell::Decimal(decimal), _) => decimal.to_string().parse().ok()?,
        (ForeignCell::Text(text), format) => {
            let hex = text.strip_prefix("0x").or(text.strip_prefix("0X"));
            match (hex, format) {
                (Some(hex), _) => u64::from_str_radix(hex, 16).ok()?,
                (None, Format::Hex | Format::Pebs) => u64::from_str_radix(text, 16).ok()?,
                (None, Format::Nanoseconds(each)) if has_decimal_commas && text.matches(',').count() == 1 => {
                    // Both would be one that groups digits.
                    let has_points = text.contains('.');
                    fraction(&text.replace(',', "."), each).filter(|_| !has_points)?
                }
                (None, Format::Nanoseconds(each)) => fraction(text, each)?,
                (None, _) => text.parse().ok()?,
            }
        }
    };
    number.checked_mul(column.scale)
}

/// A decimal number that may have a fraction, in units of `each`. No floating point: it has too few digits for times.
fn fraction(cell: &str, each: u64) -> Option<u64> {
    let (whole, fraction) = cell.split_once('.').unwrap_or((cell, ""));
    let digits = u32::try_from(fraction.len()).ok().filter(|&digits| digits <= 18)?;
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()? };
    let part = u128::from(part) * u128::from(each) / 10_u128.pow(digits);
    whole.parse::<u64>().ok()?.checked_mul(each)?.checked_add(u64::try_from(part).ok()?)
}

/// Load or store, by the words that tools use, or whether it is a store.
pub(super) fn kind(cell: ForeignCell<'_>) -> Option<AccessKind> {
    match text(cell).to_ascii_lowercase().as_str() {
        "load" | "l" | "read" | "r" | "0" | "false" => Some(AccessKind::LOAD),
        "store" | "s" | "write" | "w" | "1" | "true" => Some(AccessKind::STORE),
        "update" | "modify" | "m" | "rw" => Some(AccessKind::LOAD_STORE),
        _ => None,
    }
}

/// What a level's cell says of how the access was served; `None` where it can't be read.
pub(super) fn served(cell: ForeignCell<'_>, column: &Column) -> Option<Served> {
    match column.format {
        Format::PerfDataSource => Some(of_word(number(cell, column, false)?)),
        Format::Pebs => Some(of_word(pebs_word(number(cell, column, false)?))),
        _ => {
            let name = text(cell).to_ascii_lowercase();
            let level = MemoryLevel::from_name(&name).or(match name.as_str() {
                "lfb" => Some(MemoryLevel::LineFillBuffer),
                "dram" | "ram" | "memory" => Some(MemoryLevel::LocalDram),
                _ => None,
            })?;
            Some(Served { level: Some(level), ..Served::UNKNOWN })
        }
    }
}

fn of_word(word: u64) -> Served {
    Sample { data_source: Some(DataSource(word)), ..Sample::default() }.served()
}

/// The kernel's word for what Intel's load latency facility writes: bits 0 to 3 where the data came from, bit 4 that the
/// second-level TLB missed, bit 5 that the access was locked (Software Developer's Manual, volume 3, "Load Latency Record").
/// Higher bits are reserved.
fn pebs_word(encoded: u64) -> u64 {
    const LOAD: u64 = 2;
    const REMOTE: u64 = 1 << 37;
    const MISS: u64 = 4 << 5;
    const TLB: u64 = 26;
    const NO_LEVEL: u64 = 0xf;
    let [l1, l2, l3, buffer, ram, io, uncached]: [u64; 7] = [1, 2, 3, 12, 13, 10, 8];
    let [none, hit, not_there, modified]: [u64; 4] = [2, 4, 8, 16];
    let (level, snoop, more) = match encoded & 0xf {
        // Not in the third level: where, is not told.
        0 => (NO_LEVEL, 0, MISS),
        1 => (l1, none, 0),
        2 => (buffer, none, 0),
        3 => (l2, none, 0),
        4 => (l3, none, 0),
        5 => (l3, not_there, 0),
        6 => (l3, hit, 0),
        7 => (l3, modified, 0),
        8 => (l3, hit, REMOTE),
        9 => (l3, modified, REMOTE),
        10 => (ram, hit, 0),
        11 => (ram, hit, REMOTE),
        12 => (ram, not_there, 0),
        13 => (ram, not_there, REMOTE),
        14 => (io, none, 0),
        _ => (uncached, none, 0),
    };
    // A hit in either TLB, or a miss of the second one.
    let tlb = if encoded & 0x10 == 0 { 2 | 8 | 16 } else { 4 | 16 };
    let lock = encoded >> 5 & 1;
    LOAD | more | snoop << 19 | lock << 25 | tlb << TLB | level << 33
}

#[cfg(test)]
mod tests {
    use slimline_trace::served::{Snoop, Translation};

    use super::super::columns::ColumnMap;
    use super::super::columns::Role;
    use super::*;

    fn column(text: &str) -> Column {
        text.parse().unwrap()
    }

    #[test]
    fn numbers_as_tables_write_them() {
        let number = |cell: &str, column: &Column| number(told(ForeignCell::Text(cell))?, column, false);
        let kind = |cell| kind(ForeignCell::Text(cell));
        assert_eq!(number("12", &column("line=l")), Some(12));
        assert_eq!(number(" 0x1f ", &column("line=l")), Some(31));
        assert_eq!(number("cd9decad90d14", &column("time=t:hex")), Some(0x000c_d9de_cad9_0d14));
        assert_eq!(number("5", &column("index=i*8")), Some(40));
        assert_eq!(number("1.5", &column("time=t:ms")), Some(1_500_000));
        assert_eq!(number("60886.315947319", &column("time=t:s")), Some(60_886_315_947_319));
        assert_eq!(number("7", &column("time=t:us")), Some(7000));
        for (cell, of) in [("", "line=l"), ("x", "line=l"), ("-1", "line=l"), ("1.", "line=l"), ("1.x", "time=t:s")] {
            assert_eq!(number(cell, &column(of)), None, "{cell}");
        }
        assert_eq!(number("18446744073709551615", &column("index=i*2")), None);
        let with_commas = |cell, of| super::number(ForeignCell::Text(cell), &column(of), true);
        assert_eq!((with_commas("1,5", "time=t:ms"), number("1,5", &column("time=t:ms"))), (Some(1_500_000), None));
        assert_eq!(with_commas("1.5", "time=t:ms"), Some(1_500_000));
        for (cell, of) in [("1.000,5", "time=t:ms"), ("1,000,000", "time=t:ms"), ("1,5", "line=l")] {
            assert_eq!(with_commas(cell, of), None, "{cell}");
        }
        let told = |cell| told(ForeignCell::Text(cell));
        assert_eq!((told(" ?? "), told("m_x ")), (None, Some(ForeignCell::Text("m_x"))));
        assert_eq!((kind("R"), kind("Store"), kind("jump")), (Some(AccessKind::LOAD), Some(AccessKind::STORE), None));
    }

    #[test]
    fn numbers_of_a_type_are_what_their_text_is() {
        let number = |cell, of| number(told(cell)?, &column(of), false);
        assert_eq!(number(ForeignCell::Number(17), "ip=pc:hex"), Some(17));
        assert_eq!(number(ForeignCell::Number(7), "time=t:us"), Some(7000));
        assert_eq!(number(ForeignCell::Decimal(1.5), "time=t:ms"), Some(1_500_000));
        assert_eq!(number(ForeignCell::Decimal(3e9), "address=a*2"), Some(6_000_000_000));
        for cell in
            [ForeignCell::Null, ForeignCell::Decimal(f64::NAN), ForeignCell::Decimal(0.5), ForeignCell::Decimal(-1.0)]
        {
            assert_eq!(number(cell, "address=a"), None, "{cell:?}");
        }
        assert_eq!(kind(ForeignCell::Number(1)), Some(AccessKind::STORE));
        assert_eq!(text(ForeignCell::Number(12)), "12");
    }

    #[test]
    fn levels_in_all_formats() {
        let served = |cell: &str, column: &Column| served(ForeignCell::Text(cell), column);
        let map: ColumnMap = "address=a,level=l:pebs".parse().unwrap();
        let pebs = |cell: &str| served(cell, map.of(Role::Level).unwrap()).unwrap();
        let hit = Served {
            level: Some(MemoryLevel::L3),
            snoop: Some(Snoop::HitModified),
            translation: Some(Translation::Tlb),
            locked: Some(false),
            ..Served::UNKNOWN
        };
        assert_eq!(pebs("7"), hit);
        let locked = Served { translation: Some(Translation::Walk), locked: Some(true), ..hit };
        assert_eq!(pebs("37"), locked, "hexadecimal");
        assert_eq!(pebs("d").level, Some(MemoryLevel::RemoteDram));
        assert_eq!(pebs("8").level, Some(MemoryLevel::RemoteCache));
        assert_eq!(pebs("0").level, None);
        assert_eq!(pebs("e").level, Some(MemoryLevel::Io));
        let perf = served("0x10650100842", &column("level=l:perf")).unwrap();
        assert_eq!((perf.level, perf.translation), (Some(MemoryLevel::L3), Some(Translation::Walk)));
        let named = |cell| served(cell, &column("level=l")).and_then(|served| served.level);
        assert_eq!(
            (named("L2"), named("LFB"), named("??")),
            (Some(MemoryLevel::L2), Some(MemoryLevel::LineFillBuffer), None)
        );
    }
}
