//! What a machine and a command allow, for `slimline doctor`.

use std::fmt::{self, Write};

use serde::Serialize;
use slimline_trace::escape::plain;

use crate::text::{fold, labelled};
use crate::view::SCHEMA;

/// Everything `doctor` shows, and its JSON.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Diagnosis {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Facts about the machine, in the order in which they are shown.
    pub machine: Vec<Fact>,
    /// One row for each way to collect, best first.
    pub collectors: Vec<Collector>,
    /// The command, where one was given.
    pub command: Option<Command>,
}

impl Diagnosis {
    /// A diagnosis of the current schema.
    pub fn new(machine: Vec<Fact>, collectors: Vec<Collector>, command: Option<Command>) -> Self {
        Self { schema: SCHEMA, machine, collectors, command }
    }
}

/// A fact and its name.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Fact {
    /// What it is about.
    pub name: String,
    /// The fact.
    pub value: String,
}

/// One way to collect.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Collector {
    /// Its name.
    pub name: String,
    /// `yes` or `no`.
    pub available: String,
    /// Why, or why not.
    pub reason: String,
    /// What would make it available.
    pub remedy: Option<String>,
}

/// What would become of a command.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Command {
    /// The file that would run; `None` where it was not found.
    pub program: Option<String>,
    /// Why it can't be recorded.
    pub obstacle: Option<String>,
    /// What is known of the file whose code would run, in the order in which it is shown.
    pub facts: Vec<Fact>,
    /// What a report will lack, each with the remedy where there is one.
    pub lacks: Vec<String>,
}

/// Columns of the labels before facts.
const LABEL_WIDTH: usize = 19;

/// Writes the diagnosis as text.
pub fn write(out: &mut impl Write, diagnosis: &Diagnosis) -> fmt::Result {
    for fact in &diagnosis.machine {
        labelled(out, &fact.name, LABEL_WIDTH, &plain(&fact.value))?;
    }
    writeln!(out, "\nCOLLECTORS")?;
    for collector in &diagnosis.collectors {
        fold(out, &format!("{:<5}  {:<20}  {}", collector.available, collector.name, plain(&collector.reason)), 2, 31)?;
        if let Some(remedy) = &collector.remedy {
            fold(out, &format!("to have it: {}", plain(remedy)), 31, 31)?;
        }
    }
    if let Some(command) = &diagnosis.command {
        writeln!(out, "\nCOMMAND")?;
        if let Some(program) = &command.program {
            labelled(out, "program", LABEL_WIDTH, &plain(program))?;
        }
        for fact in &command.facts {
            labelled(out, &fact.name, LABEL_WIDTH, &plain(&fact.value))?;
        }
        let verdict = command.obstacle.as_ref().map_or("yes".to_owned(), |obstacle| format!("no: {}", plain(obstacle)));
        labelled(out, "can be recorded", LABEL_WIDTH, &verdict)?;
        for (number, lack) in command.lacks.iter().enumerate() {
            let label = if number == 0 { "report will lack" } else { "" };
            labelled(out, label, LABEL_WIDTH, &plain(lack))?;
        }
    }
    Ok(())
}

/// The diagnosis as JSON, indented, with a line end.
pub fn json(diagnosis: &Diagnosis) -> String {
    crate::pretty(diagnosis)
}
