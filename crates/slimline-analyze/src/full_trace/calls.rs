//! Which functions of the program run within which: from records of their beginnings and ends.
//!
//! A function that `longjmp` leaves, or an exception for which it has nothing to do, has no end. It ends where one around it goes on:
//! behind `setjmp`, or where the exception is caught or cleaned up after. That is told with the call's frame, which it began with, so
//! that of a recursion it is the right call. Where a call took its caller's place on the stack, the caller has ended before.
//!
//! Of translated code calls and returns are seen, and where on the stack the return address of each is: calls whose return addresses are
//! below that of a later one are over. What runs is told by who called it, so the innermost function is not in the list.
//!
//! Of a part that is not traced nobody knows what began and ended there: what ran before it is doubted until one of these goes on, and
//! paths end there.

use rustc_hash::FxHashMap;
use slimline_trace::stream::decode::{Program, SiteId};
use slimline_trace::stream::sites::{Name, SiteKind};

use super::findings::{function_of, is_own};

/// A function, by a number of our own.
type FunctionNumber = u32;
/// In the place of one: functions that nobody knows, and behind them those that are doubted.
const UNKNOWN: FunctionNumber = FunctionNumber::MAX;
/// Who called for something, by a number of our own.
pub(super) type PathNumber = u32;
/// Functions of a path at most, the innermost first; what they were called by is not told apart.
pub(super) const MOST_FUNCTIONS: usize = 8;
/// Functions within each other that are kept; deeper ones are only counted.
const MOST_DEEP: usize = 1 << 16;

/// Whether sites of this kind tell which functions run.
pub(super) fn is_of_calls(kind: SiteKind) -> bool {
    use SiteKind::{Call, Enter, EnterFrame, GoesOn, Leave, Resumes, Return};
    matches!(kind, Enter | EnterFrame | GoesOn | Leave | Resumes | Call | Return)
}

/// A call that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    function: FunctionNumber,
    /// What tells it from others, of calls that are seen where the return address is; none where the function never goes on.
    frame: Option<u64>,
}

/// What runs in a stream.
#[derive(Debug, Default)]
struct Running {
    /// The innermost last. At most one is [`UNKNOWN`].
    calls: Vec<Call>,
    /// How many run within these.
    deeper: u64,
}

impl Running {
    fn begin(&mut self, call: Call) {
        if self.calls.len() < MOST_DEEP {
            self.calls.push(call);
        } else {
            self.deeper += 1;
        }
    }

    fn end(&mut self, function: FunctionNumber) {
        if self.deeper > 0 {
            self.deeper -= 1;
            return;
        }
        let Some(at) = self.calls.iter().rposition(|call| call.function == function) else { return };
        // Of several calls of a doubted function it may be any.
        let is_doubted = self.calls[at + 1..].iter().any(|call| call.function == UNKNOWN);
        self.calls.truncate(at);
        if is_doubted {
            self.doubt();
        }
    }

    /// All that runs within the call is over. Where that is not known, its beginning was not traced, or it is of another stack.
    fn go_on(&mut self, call: Call) {
        self.deeper = 0;
        match self.calls.iter().rposition(|running| *running == call) {
            Some(at) => self.calls.truncate(at + 1),
            None => {
                self.doubt();
                self.calls.push(call);
            }
        }
    }

    /// A call that is seen. Of what is too deep nothing is kept: the place on the stack tells.
    fn call(&mut self, call: Call) {
        self.drop_below(call.frame);
        if self.calls.len() < MOST_DEEP {
            self.calls.push(call);
        }
    }

    /// The call is over whose return address is there, and those within it.
    fn return_from(&mut self, frame: Option<u64>) {
        match self.calls.iter().rposition(|running| running.frame == frame) {
            Some(at) => self.calls.truncate(at),
            None => self.drop_below(frame),
        }
    }

    /// Stacks grow downwards.
    fn drop_below(&mut self, frame: Option<u64>) {
        let is_above = |running: &Call| running.frame.is_none() || running.frame > frame;
        self.calls.truncate(self.calls.iter().rposition(is_above).map_or(0, |last| last + 1));
    }

    /// Any number of functions may have begun and ended.
    fn doubt(&mut self) {
        self.deeper = 0;
        // What was in doubt before and did not go on has had its chance: so doubted calls are as many as ran at one time.
        if let Some(unknown) = self.calls.iter().position(|call| call.function == UNKNOWN) {
            self.calls.truncate(unknown);
        }
        self.calls.truncate(MOST_DEEP - 2);
        self.calls.push(Call { function: UNKNOWN, frame: None });
    }
}

/// A function.
#[derive(Debug)]
struct Function {
    /// A site of it: where it begins, ends or calls, if one is known.
    site: SiteId,
    /// Whether the site is such a one.
    is_of_calls: bool,
    /// It is one of the C++ library or of Rust's: those are looked through.
    is_librarys: bool,
}

/// The calls of all threads.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// By site, the function that it was compiled into.
    by_site: Vec<FunctionNumber>,
    functions: Vec<Function>,
    /// By index in [`Program::modules`] and name as linked.
    numbers: FxHashMap<(u32, Name), FunctionNumber>,
    /// By what was compiled where to which object, and that name: a module may come in parts, and once a process.
    by_text: FxHashMap<[String; 4], FunctionNumber>,
    /// By process and stream.
    running: FxHashMap<(u32, u32), Running>,
    /// Whether functions may have begun before these were followed.
    is_late: bool,
    paths: Vec<Vec<FunctionNumber>>,
    path_numbers: FxHashMap<Vec<FunctionNumber>, PathNumber>,
}

impl Calls {
    /// Of streams of which nobody followed what began before.
    pub(super) fn late() -> Self {
        Self { is_late: true, ..Self::default() }
    }

    pub(super) fn make_room(&mut self, program: &Program) {
        for site in self.by_site.len()..program.site_count() {
            let number = self.function(program, SiteId(site as u32));
            self.by_site.push(number);
        }
    }

    /// The number of the function that a site was compiled into.
    fn function(&mut self, program: &Program, id: SiteId) -> FunctionNumber {
        let (module, site) = program.site(id);
        if site.kind == SiteKind::Resumes {
            return UNKNOWN;
        }
        let Self { numbers, by_text, functions, .. } = self;
        let number = *numbers.entry((program.module_index(id), site.function)).or_insert_with(|| {
            let texts = [module.directory, module.source, module.object, site.function]
                .map(|name| module.name(name).to_owned());
            let next = by_text.len() as FunctionNumber;
            *by_text.entry(texts).or_insert(next)
        });
        let is_of_calls = is_of_calls(site.kind);
        let is_better = |known: &Function| is_of_calls && !known.is_of_calls;
        if functions.get(number as usize).is_none_or(is_better) {
            let function = Function { site: id, is_of_calls, is_librarys: !is_own(&function_of(program, id)) };
            match functions.get_mut(number as usize) {
                Some(known) => *known = function,
                None => functions.push(function),
            }
        }
        number
    }

    /// Takes in a visit of a site ([`is_of_calls`]), with the frame that it tells, or the place of the return address.
    pub(super) fn follow(&mut self, stream: (u32, u32), site: SiteId, kind: SiteKind, frame: Option<u64>) {
        let call = Call { function: self.by_site[site.0 as usize], frame };
        let running = self.running.entry(stream).or_insert_with(|| {
            let mut running = Running::default();
            if self.is_late {
                running.doubt();
            }
            running
        });
        match kind {
            SiteKind::Enter | SiteKind::EnterFrame => running.begin(call),
            SiteKind::Leave => running.end(call.function),
            SiteKind::GoesOn => running.go_on(call),
            SiteKind::Call => running.call(call),
            SiteKind::Return => running.return_from(frame),
            _ => running.doubt(),
        }
    }

    /// Who called for what the stream does now at this site: not its function itself, and one that calls itself once; functions of
    /// libraries that are in every program are left out. So many at most.
    pub(super) fn path(&mut self, stream: (u32, u32), site: SiteId, most: usize) -> PathNumber {
        let own = self.by_site.get(site.0 as usize).copied();
        let running = self.running.get(&stream).map(|running| &*running.calls).unwrap_or_default();
        let mut path: Vec<FunctionNumber> = Vec::new();
        let mut before = own;
        for &Call { function, .. } in running.iter().rev() {
            if self.functions.get(function as usize).is_some_and(|function| function.is_librarys) {
                continue;
            }
            if before != Some(function) {
                path.push(function);
                if path.len() == most || function == UNKNOWN {
                    break;
                }
            }
            before = Some(function);
        }
        if let Some(number) = self.path_numbers.get(&path) {
            return *number;
        }
        self.paths.push(path.clone());
        let number = self.paths.len() as PathNumber - 1;
        self.path_numbers.insert(path, number);
        number
    }

    /// Sites of the functions of a path, the innermost first; `None` of those that nobody knows.
    pub(super) fn functions(&self, path: PathNumber) -> impl Iterator<Item = Option<SiteId>> {
        self.paths[path as usize].iter().map(|function| Some(self.functions.get(*function as usize)?.site))
    }
}

#[cfg(test)]
mod tests {
    use slimline_trace::stream::sites::{Module, ModuleBuilder, Site};

    use super::*;

    const FUNCTIONS: &str = "mwk";
    /// In the order of their sites.
    const KINDS: [SiteKind; 6] =
        [SiteKind::Enter, SiteKind::EnterFrame, SiteKind::Leave, SiteKind::GoesOn, SiteKind::Call, SiteKind::Return];

    /// `main`, `walk` and `make`, each with a segment of each kind, and the runtime.
    fn calls() -> (Calls, SiteId) {
        let mut builder = ModuleBuilder::new();
        let names = ["main", "walk", "make"].map(|name| builder.name(name));
        for function in names {
            for kind in KINDS {
                builder.segment([Site { function, ..Site::new(kind, 0) }]);
            }
        }
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let (id, module) = Module::of_runtime();
        program.add(id, module);
        let mut calls = Calls::default();
        calls.make_room(&program);
        (calls, site(FUNCTIONS.len() - 1, SiteKind::Leave))
    }

    fn site(function: usize, kind: SiteKind) -> SiteId {
        let kind = KINDS.iter().position(|it| *it == kind).unwrap();
        SiteId((function * KINDS.len() + kind) as u32)
    }

    /// One step of a run: the beginning of a function (`W`) or its end (`w`), its beginning with a frame (`W1`), or that it goes on
    /// (`w1`); `?` is a gap.
    fn step(calls: &mut Calls, stream: (u32, u32), what: char, frame: Option<u64>) {
        let Some(function) = FUNCTIONS.find(what.to_ascii_lowercase()) else {
            calls.follow(stream, SiteId((FUNCTIONS.len() * KINDS.len()) as u32), SiteKind::Resumes, None);
            return;
        };
        let kind = match (what.is_ascii_uppercase(), frame) {
            (true, None) => SiteKind::Enter,
            (true, Some(_)) => SiteKind::EnterFrame,
            (false, None) => SiteKind::Leave,
            (false, Some(_)) => SiteKind::GoesOn,
        };
        calls.follow(stream, site(function, kind), kind, frame);
    }

    fn run(calls: &mut Calls, stream: (u32, u32), run: &str) {
        let mut run = run.chars().peekable();
        while let Some(what) = run.next() {
            let frame = run.next_if(char::is_ascii_digit).and_then(|digit| digit.to_digit(10));
            step(calls, stream, what, frame.map(u64::from));
        }
    }

    /// Who called for something in `make`, after this run: first letters of names, and `?`.
    fn path_after(what: &str) -> String {
        let (mut calls, make) = calls();
        run(&mut calls, (0, 0), what);
        let path = calls.path((0, 0), make, MOST_FUNCTIONS);
        let letter = |site: SiteId| FUNCTIONS.chars().nth(site.0 as usize / KINDS.len()).unwrap();
        calls.functions(path).map(|site| site.map_or('?', letter)).collect()
    }

    /// Who called for something in `make`, after these calls by functions and returns, with the places of their return addresses.
    fn path_after_calls(steps: &[(char, u64)]) -> String {
        let (mut calls, make) = calls();
        for &(what, at) in steps {
            match FUNCTIONS.find(what) {
                Some(function) => calls.follow((0, 0), site(function, SiteKind::Call), SiteKind::Call, Some(at)),
                None if what == '?' => step(&mut calls, (0, 0), what, None),
                None => calls.follow((0, 0), site(0, SiteKind::Return), SiteKind::Return, Some(at)),
            }
        }
        let path = calls.path((0, 0), make, MOST_FUNCTIONS);
        let letter = |site: SiteId| FUNCTIONS.chars().nth(site.0 as usize / KINDS.len()).unwrap();
        calls.functions(path).map(|site| site.map_or('?', letter)).collect()
    }

    #[test]
    fn calls_that_are_seen_are_told_by_their_places() {
        assert_eq!(path_after_calls(&[('m', 90), ('w', 80)]), "wm");
        assert_eq!(path_after_calls(&[('m', 90), ('w', 80), ('<', 80)]), "m");
        // What `make` calls, it calls itself.
        assert_eq!(path_after_calls(&[('m', 90), ('w', 80), ('k', 70)]), "wm");
        // Both have been left, by `longjmp` or an exception: `main` calls again, or returns.
        assert_eq!(path_after_calls(&[('m', 90), ('w', 80), ('w', 70), ('m', 90)]), "m");
        assert_eq!(path_after_calls(&[('m', 100), ('m', 90), ('w', 80), ('w', 70), ('<', 90)]), "m");
        // Nobody saw it begin.
        assert_eq!(path_after_calls(&[('m', 90), ('<', 100)]), "");
        // After a gap: what has its place on the stack again may be another call, but where it returns it was that one.
        assert_eq!(path_after_calls(&[('m', 90), ('w', 80), ('?', 0)]), "?");
        assert_eq!(path_after_calls(&[('m', 90), ('w', 80), ('?', 0), ('w', 70)]), "w?");
        assert_eq!(path_after_calls(&[('m', 90), ('w', 80), ('?', 0), ('w', 70), ('<', 80)]), "m");
    }

    #[test]
    fn paths_are_of_what_runs() {
        assert_eq!(path_after("MWK"), "wm");
        assert_eq!(path_after("MKkWK"), "wm");
        assert_eq!(path_after("MWwK"), "m");
        // Recursion is one.
        assert_eq!(path_after("MWWWWK"), "wm");
        assert_eq!(path_after("MKKK"), "m");
        assert_eq!(path_after("MWMWK"), "wmwm");
        // Nobody told that `walk` ended: `main` has.
        assert_eq!(path_after("MWmK"), "");
        // The end of what began before tracing did.
        assert_eq!(path_after("wMK"), "m");
        // In code without records of its own beginning.
        assert_eq!(path_after("MW"), "wm");
    }

    #[test]
    fn what_was_left_is_over_where_a_function_goes_on() {
        assert_eq!(path_after("M1WKm1K"), "m");
        // Of a recursion it is the call with that frame.
        assert_eq!(path_after("M1W2M3W4w2K"), "wm");
        assert_eq!(path_after("M1W2M3W4m3K"), "mwm");
        assert_eq!(path_after("M1W2M3W4w4K"), "wmwm");
        // The same place on the stack, another function.
        assert_eq!(path_after("M1W2w2wM2W3m2K"), "m");
        // After `setjmp` returned for the first time, nothing is left.
        assert_eq!(path_after("M1W2w2K"), "wm");
        // It never began, as in another stream: who called it nobody knows.
        assert_eq!(path_after("M1w2K"), "w?");
        // And back, on a stack of its own.
        assert_eq!(path_after("M1w2Km1K"), "m");
        assert_eq!(path_after("M1w2w7w2w7m1W2K"), "wm");
    }

    #[test]
    fn what_ran_before_a_gap_is_doubted() {
        assert_eq!(path_after("MW?K"), "?");
        assert_eq!(path_after("MW?WK"), "w?");
        assert_eq!(path_after("MW?WwK"), "?");
        // An end says that it was running, not which call.
        assert_eq!(path_after("MW?wK"), "?");
        assert_eq!(path_after("M?mK"), "?");
        assert_eq!(path_after("?K"), "?");
        // One that goes on was running all the time, and so was who called it.
        assert_eq!(path_after("M1W2?w2K"), "wm");
        assert_eq!(path_after("M1W2?WKk??m1W3K"), "wm");
        assert_eq!(path_after("M1?w5K"), "w?");
    }

    #[test]
    fn paths_have_an_end_and_streams_are_apart() {
        assert_eq!(path_after(&("MW".repeat(20) + "K")).len(), MOST_FUNCTIONS);
        let (mut calls, make) = calls();
        let walk = site(1, SiteKind::Leave);
        run(&mut calls, (0, 0), "M");
        run(&mut calls, (0, 1), "W");
        assert_ne!(calls.path((0, 0), make, MOST_FUNCTIONS), calls.path((0, 1), make, MOST_FUNCTIONS));
        assert_eq!(calls.path((0, 2), make, MOST_FUNCTIONS), calls.path((0, 1), walk, MOST_FUNCTIONS), "nobody");
        run(&mut calls, (0, 0), &"M".repeat(2 * MOST_DEEP));
        assert_eq!(calls.running[&(0, 0)].calls.len(), MOST_DEEP);
        run(&mut calls, (0, 0), &"m".repeat(2 * MOST_DEEP));
        assert_eq!(calls.running[&(0, 0)].calls, [Call { function: 0, frame: None }], "`main` goes on");
        // Gaps leave no more than there is room for, with one to begin.
        run(&mut calls, (0, 0), &("M".repeat(2 * MOST_DEEP) + "?W"));
        assert_eq!(calls.running[&(0, 0)].calls.len(), MOST_DEEP);
        assert_eq!(calls.running[&(0, 0)].deeper, 0);
    }
}
