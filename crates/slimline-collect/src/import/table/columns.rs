//! Which column of a table is what: `--columns 'variable=variable,latency=latency,time=time:hex,index=index*8'`.

use std::str::FromStr;

/// What a column of a table can tell of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Name of the variable that was accessed.
    Variable,
    /// Function.
    Function,
    /// Source file.
    File,
    /// Line in it.
    Line,
    /// Address of the instruction.
    Ip,
    /// Address accessed.
    Address,
    /// Number of the element accessed; `*N` says how many bytes an element has.
    Index,
    /// Size of the access in bytes.
    Size,
    /// `load` or `store`, `R` or `W`.
    Kind,
    /// Number of the process.
    Process,
    /// Number of the thread.
    Thread,
    /// CPU: stands for the thread where none is told.
    Cpu,
    /// When.
    Time,
    /// Cycles that the access took.
    Latency,
    /// Events that the sample stands for.
    Weight,
    /// Where the data came from.
    Level,
}

const ROLES: [(&str, Role); 16] = [
    ("variable", Role::Variable),
    ("function", Role::Function),
    ("file", Role::File),
    ("line", Role::Line),
    ("ip", Role::Ip),
    ("address", Role::Address),
    ("index", Role::Index),
    ("size", Role::Size),
    ("kind", Role::Kind),
    ("process", Role::Process),
    ("thread", Role::Thread),
    ("cpu", Role::Cpu),
    ("time", Role::Time),
    ("latency", Role::Latency),
    ("weight", Role::Weight),
    ("level", Role::Level),
];

/// How a value is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A number in decimal, in hexadecimal after `0x`; a name for a level.
    #[default]
    Plain,
    /// A number in hexadecimal.
    Hex,
    /// A time in microseconds, milliseconds or seconds, perhaps with a fraction: this many nanoseconds each.
    Nanoseconds(u64),
    /// A level as `perf_mem_data_src`.
    PerfDataSource,
    /// A level as Intel's load latency facility encodes it, in hexadecimal.
    Pebs,
}

const FORMATS: [(&str, Format); 7] = [
    ("hex", Format::Hex),
    ("ns", Format::Plain),
    ("us", Format::Nanoseconds(1_000)),
    ("ms", Format::Nanoseconds(1_000_000)),
    ("s", Format::Nanoseconds(1_000_000_000)),
    ("perf", Format::PerfDataSource),
    ("pebs", Format::Pebs),
];

/// A column of the table, and how to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// What it tells.
    pub role: Role,
    /// Its name in the table's first line.
    pub name: String,
    /// How its values are written.
    pub format: Format,
    /// What its values are multiplied by.
    pub scale: u64,
}

/// Which columns are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnMap {
    columns: Vec<Column>,
}

impl ColumnMap {
    /// The column of a role.
    pub fn of(&self, role: Role) -> Option<&Column> {
        self.columns.iter().find(|column| column.role == role)
    }

    /// All columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }
}

impl FromStr for ColumnMap {
    type Err = String;

    /// `ROLE=COLUMN[:FORMAT][*SCALE]`, with commas between.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut map = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let column = entry.parse::<Column>()?;
            if map.of(column.role).is_some() {
                return Err(format!("`{entry}`: {} is given twice", role_name(column.role)));
            }
            map.columns.push(column);
        }
        let has = |role| map.of(role).is_some();
        if !has(Role::Variable) && !has(Role::Address) {
            return Err("tells neither `variable` nor `address`: nothing would say which data was accessed".to_owned());
        }
        if has(Role::Latency) && has(Role::Weight) {
            return Err("`latency` and `weight` both: a sample has one weight".to_owned());
        }
        Ok(map)
    }
}

impl FromStr for Column {
    type Err = String;

    fn from_str(entry: &str) -> Result<Self, String> {
        let (role, rest) = entry.split_once('=').ok_or_else(|| format!("`{entry}` is not of the form NAME=COLUMN"))?;
        let known = || ROLES.map(|(name, _)| name).join(", ");
        let role = ROLES.iter().find(|(name, _)| *name == role.trim()).map(|&(_, role)| role);
        let role = role.ok_or_else(|| format!("`{entry}` begins with none of {}", known()))?;
        let (rest, scale) = match rest.rsplit_once('*') {
            None => (rest, 1),
            Some((rest, scale)) => {
                let scale = scale.trim().parse().ok().filter(|&scale| scale > 0);
                (rest, scale.ok_or_else(|| format!("`{entry}`: what follows * is no number of 1 or more"))?)
            }
        };
        let (name, format) = match rest.rsplit_once(':') {
            None => (rest, Format::Plain),
            Some((name, format)) => {
                let known = || FORMATS.map(|(name, _)| name).join(", ");
                let found = FORMATS.iter().find(|(name, _)| *name == format.trim()).map(|&(_, format)| format);
                (name, found.ok_or_else(|| format!("`{entry}`: after : comes one of {}", known()))?)
            }
        };
        let fits = match format {
            Format::Plain | Format::Hex => true,
            Format::Nanoseconds(_) => role == Role::Time,
            Format::PerfDataSource | Format::Pebs => role == Role::Level,
        };
        if !fits {
            return Err(format!("`{entry}`: {} is not written so", role_name(role)));
        }
        Ok(Self { role, name: name.trim().to_owned(), format, scale })
    }
}

fn role_name(role: Role) -> &'static str {
    ROLES.iter().find(|(_, of)| *of == role).map_or("", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_read_or_refused_with_the_reason() {
        let map: ColumnMap = "variable=variable, time=t:us, index=i*8,ip=pc:hex, level=dse:pebs".parse().unwrap();
        let found = |role| map.of(role).map(|column| (column.name.as_str(), column.format, column.scale));
        assert_eq!(found(Role::Variable), Some(("variable", Format::Plain, 1)));
        assert_eq!(found(Role::Time), Some(("t", Format::Nanoseconds(1000), 1)));
        assert_eq!(found(Role::Index), Some(("i", Format::Plain, 8)));
        assert_eq!(found(Role::Ip), Some(("pc", Format::Hex, 1)));
        assert_eq!(found(Role::Level), Some(("dse", Format::Pebs, 1)));
        assert_eq!(found(Role::Cpu), None);

        for (text, reason) in [
            ("", "neither `variable` nor `address`"),
            ("line=line", "neither `variable` nor `address`"),
            ("variable", "not of the form"),
            ("colour=red", "begins with none of variable, function"),
            ("variable=a,variable=b", "given twice"),
            ("variable=v,time=t:weeks", "comes one of hex, ns"),
            ("variable=v,index=i*0", "no number of 1 or more"),
            ("variable=v:pebs", "variable is not written so"),
            ("variable=v,latency=l,weight=w", "one weight"),
        ] {
            let error = text.parse::<ColumnMap>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
