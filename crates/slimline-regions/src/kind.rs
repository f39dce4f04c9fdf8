//! The kinds of regions.

/// What a region is: an OpenMP construct, or a part of the program that was marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// `parallel`.
    Parallel,
    /// `for`, `do`.
    Loop,
    /// `sections`.
    Sections,
    /// One `section` of them.
    Section,
    /// `single`.
    Single,
    /// `master` or `masked`.
    Masked,
    /// `critical`.
    Critical,
    /// `atomic`, where the runtime has a part in it.
    Atomic,
    /// `ordered`.
    Ordered,
    /// `barrier`.
    Barrier,
    /// A barrier that belongs to no construct seen: the compiler's or the runtime's own.
    ImplicitBarrier,
    /// `taskwait`.
    Taskwait,
    /// `taskgroup`.
    Taskgroup,
    /// `task`.
    Task,
    /// Marked by a call in the source.
    User,
    /// A function that the compiler instrumented.
    Function,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 16] = [
        Self::Parallel,
        Self::Loop,
        Self::Sections,
        Self::Section,
        Self::Single,
        Self::Masked,
        Self::Critical,
        Self::Atomic,
        Self::Ordered,
        Self::Barrier,
        Self::ImplicitBarrier,
        Self::Taskwait,
        Self::Taskgroup,
        Self::Task,
        Self::User,
        Self::Function,
    ];

    /// Its name in files and reports, in lower case and without spaces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Parallel => "parallel",
            Self::Loop => "loop",
            Self::Sections => "sections",
            Self::Section => "section",
            Self::Single => "single",
            Self::Masked => "masked",
            Self::Critical => "critical",
            Self::Atomic => "atomic",
            Self::Ordered => "ordered",
            Self::Barrier => "barrier",
            Self::ImplicitBarrier => "implicit-barrier",
            Self::Taskwait => "taskwait",
            Self::Taskgroup => "taskgroup",
            Self::Task => "task",
            Self::User => "user",
            Self::Function => "function",
        }
    }

    /// The kind of that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The phases that regions of this kind have: the columns of its table beside `execT` and `execC`.
    #[must_use]
    pub fn phases(self) -> &'static [Phase] {
        use Phase::{Body, Enter, Exit, ExitBarrier};
        match self {
            Self::Parallel => &[Body, Enter, ExitBarrier, Exit],
            Self::Loop | Self::Sections | Self::Single => &[Body, ExitBarrier],
            Self::Taskgroup => &[Body, ExitBarrier],
            Self::Critical | Self::Atomic | Self::Ordered => &[Body, Enter, Exit],
            Self::Task => &[Body, Enter],
            Self::Barrier | Self::ImplicitBarrier | Self::Taskwait => &[ExitBarrier],
            Self::Section | Self::Masked | Self::User | Self::Function => &[Body],
        }
    }
}

/// What a thread is doing in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Phase {
    /// Getting in: waiting for others in the critical section; being started, in a parallel region; being created, for a task.
    Enter,
    /// Executing the body.
    Body,
    /// Waiting at the barrier at the region's end; of barriers and `taskwait`, which are nothing else, all of it.
    ExitBarrier,
    /// Getting out.
    Exit,
}

impl Phase {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// Every phase, as times are kept by them.
    pub const ALL: [Self; Self::COUNT] = [Self::Enter, Self::Body, Self::ExitBarrier, Self::Exit];

    /// The column's name, as ompP has it.
    #[must_use]
    pub fn column(self) -> &'static str {
        match self {
            Self::Enter => "enterT",
            Self::Body => "bodyT",
            Self::ExitBarrier => "exitBarT",
            Self::Exit => "exitT",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
            assert_eq!(Kind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(Kind::from_name("flush"), None);
    }
}
