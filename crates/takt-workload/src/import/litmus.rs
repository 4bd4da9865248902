//! The tasks of LITMUS^RT experiments: shell scripts that call `rtspin` and `rt_launch`.
//!
//! ```text
//! setsched PSN-EDF
//! rtspin -w -p 0 -q 4 -o 0.3 0.49 5 $TIME &
//! rt_launch -p 1 10 100 -- ./camera &
//! release_ts
//! ```
//! The meaning of the options follows the source of these programs (`bin/rtspin.c` and `bin/rt_launch.c` of the public repository
//! LITMUS-RT/liblitmus): times are milliseconds, an rtspin's duration seconds; a job of rtspin spins for a part of its declared
//! time (`-s`, by default 0.95); with a lock (`-X`) it takes it somewhere in the middle, here exactly there.

use super::finish::{finish, task_info};
use super::shell::{self, Command, Word};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::machine::foreign_cpus;
use crate::node::Place;
use crate::reader::Reader;
use crate::tasks::too_many;
use crate::text::{clipped, shell_word};
use crate::value::{MAX_DURATION, NS_PER_MS, choices, nearest, number_fault, parse_decimal, parse_ratio};
use crate::{MAX_TASKS, Options, Settings, Source, Workload, steps, task};
use takt_core::cpus::{CpuSet, MAX_CPUS};
use takt_core::model::{Arrival, Execution, Locking, PolicySpec, ResourceId, Scope, Step, System, Task};
use takt_core::time::Span;

/// LITMUS^RT's plugins and the policies that they are.
const PLUGINS: [(&str, &str); 5] =
    [("GSN-EDF", "g-edf"), ("PSN-EDF", "p-edf"), ("C-EDF", "c-edf"), ("P-FP", "p-fp"), ("PFAIR", "pd2")];
/// The lowest priority of a fixed-priority plugin; 1 is the highest.
const LOWEST: u64 = 511;
/// Protocols under which who holds a resource is as urgent as all that may want it.
const CEILINGS: [&str; 2] = ["PCP", "SRP"];
const PROTOCOLS: [&str; 7] = ["FMLP", "SRP", "PCP", "MPCP", "MPCP-VS", "DPCP", "DFLP"];
/// Commands that call the one that follows.
const CALLERS: [&str; 9] = ["sudo", "nohup", "nice", "env", "exec", "setsid", "taskset", "chrt", "numactl"];

/// The policy of a plugin, as `setsched` knows it.
#[must_use]
pub fn plugin(name: &str) -> Option<PolicySpec> {
    PLUGINS.iter().find(|(theirs, _)| *theirs == name).and_then(|(_, ours)| PolicySpec::from_name(ours))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Program {
    Spin,
    Launch,
}

impl Program {
    fn of(word: &Word) -> Option<Program> {
        match word.text.rsplit('/').next() {
            Some("rtspin") => Some(Program::Spin),
            Some("rt_launch") => Some(Program::Launch),
            _ => None,
        }
    }
    fn name(self) -> &'static str {
        if self == Program::Spin { "rtspin" } else { "rt_launch" }
    }
    /// As for getopt: a colon after what takes an argument, two where it may be left out.
    fn options(self) -> &'static str {
        match self {
            Program::Spin => "p:c:wlveo:s:m:q:r:X:L:Q:iRu:U:Bhd:C:S::O::TD:E:",
            Program::Launch => "wp:q:hec:r:Rd:o:v",
        }
    }
}

/// The content of one call.
struct Call {
    program: Program,
    /// The program's name in the text.
    head: Place,
    /// Letters with their arguments; the last one of a letter counts.
    options: Vec<(char, Word)>,
    rest: Vec<Word>,
}

impl Call {
    fn option(&self, letter: char) -> Option<&Word> {
        self.options.iter().rev().find(|(l, _)| *l == letter).map(|(_, word)| word)
    }
}

/// Reads a script. The policy is that of `options`, or else that of the plugin that the script sets.
///
/// # Errors
/// The faults of the file in its order.
pub fn load(source: &Source, options: &Options) -> Result<Workload, Vec<Diagnostic>> {
    source.check().map_err(|fault| vec![fault])?;
    let mut reader = Reader::default();
    let commands = shell::commands(&source.text).map_err(|fault| vec![fault])?;
    let calls: Vec<Call> = commands.iter().filter_map(|command| call(&mut reader, command)).collect();
    let top = calls.first().map_or(0..0, |call| call.head.clone());
    if calls.is_empty() && reader.diagnostics.is_empty() {
        let fault = Diagnostic::error(Code::NothingToSchedule, &top, "no `rtspin` or `rt_launch` is called here");
        reader.push(fault.hint("a task is a line such as `rtspin -w -p 0 10 100 60 &`"));
    } else if calls.len() > MAX_TASKS {
        reader.push(too_many(&calls[MAX_TASKS].head));
    }
    let policy = if calls.is_empty() { None } else { policy(&mut reader, &commands, options, &top) };
    let Some(policy) = policy else {
        reader.diagnostics.retain(|d| d.severity == Severity::Error);
        crate::diagnostic::sort(&mut reader.diagnostics);
        return Err(reader.diagnostics);
    };
    others(&mut reader, &commands);
    build(reader, &calls, source, policy, options)
}

/// The call of a task, if the command is one.
fn call(reader: &mut Reader, command: &Command) -> Option<Call> {
    let first = &command.words[0];
    let called = |word: &Word| Program::of(word).is_some();
    let prefixed = CALLERS.contains(&first.text.rsplit('/').next().unwrap_or(""));
    let at = if prefixed { command.words.iter().position(called)? } else { 0 };
    let program = Program::of(&command.words[at])?;
    let head = command.words[at].place.clone();
    if let Some(inside) = &command.inside {
        reader.push(
            Diagnostic::error(Code::NotSupportedHere, &head, "how often this is called only the shell knows")
                .label("inside of a loop, a condition or a function")
                .also(inside, "which begins here")
                .hint("write the calls out, one line for each task"),
        );
        return None;
    }
    if let Some(taskset) = command.words[..at].iter().find(|word| word.text.ends_with("taskset")) {
        let fault = Diagnostic::warning(Code::NotImported, &taskset.place, "the CPUs of `taskset` are left out");
        reader.push(fault.label("not carried over").hint("give the task a `cpu` in the workload"));
    }
    let mut call = Call { program, head, options: Vec::new(), rest: Vec::new() };
    call.arguments(reader, &command.words[at + 1..])?;
    let idle = [('B', "a background loop"), ('l', "a calibration"), ('h', "a call for help")];
    if let Some((letter, what)) = idle.into_iter().find(|(letter, _)| call.option(*letter).is_some()) {
        let fault = Diagnostic::warning(Code::NotImported, &call.head, format!("{what} is no real-time task"));
        reader.push(fault.label(format!("left out for its `-{letter}`")));
        return None;
    }
    Some(call)
}

/// The policy that is asked for, or that of the plugin in the script.
fn policy(reader: &mut Reader, commands: &[Command], options: &Options, top: &Place) -> Option<PolicySpec> {
    if options.policy.is_some() {
        return options.policy;
    }
    let is = |word: &Word, name: &str| word.text.rsplit('/').next() == Some(name);
    let set = |command: &Command| {
        let at = command.words.iter().position(|word| is(word, "setsched"))?;
        command.words.get(at + 1).filter(|plugin| plugin.text != "Linux").cloned()
    };
    let plugins: Vec<Word> = commands.iter().filter_map(set).collect();
    let hint =
        "say `--policy g-edf` (GSN-EDF), `p-edf` (PSN-EDF), `c-edf:cluster=4` (C-EDF), `p-fp` (P-FP) or `pd2` (PFAIR)";
    let fault = match plugins.as_slice() {
        [] => Diagnostic::error(Code::MissingPolicy, top, "no plugin is set for these tasks")
            .label("without a `setsched`"),
        [first, rest @ ..] => match rest.iter().find(|other| other.text != first.text) {
            Some(other) => Diagnostic::error(Code::ConflictingKeys, &other.place, "the script sets several plugins")
                .label("another one")
                .also(&first.place, "the first one"),
            // Its clusters are set somewhere else.
            None if first.text == "C-EDF" => {
                Diagnostic::error(Code::MissingKey, &first.place, "how many CPUs a cluster has is not said")
                    .label("LITMUS^RT has it in /proc/litmus/plugins/C-EDF/cluster")
            }
            None => match plugin(&first.text) {
                Some(policy) if first.unknown.is_none() => return Some(policy),
                _ => Diagnostic::error(
                    Code::UnknownPolicy,
                    &first.place,
                    format!("the plugin `{}` has no policy here", clipped(&first.text)),
                )
                .label(first.unknown.as_ref().map_or(String::new(), |u| format!("`{u}` is set outside of the script"))),
            },
        },
    };
    reader.push(fault.hint(hint));
    None
}

/// Says what else the script does that has no counterpart.
fn others(reader: &mut Reader, commands: &[Command]) {
    let reserves = |word: &&Word| word.text.rsplit('/').next() == Some("resctl");
    if let Some(word) = commands.iter().find_map(|command| command.words.iter().find(reserves)) {
        let fault = Diagnostic::warning(Code::NotImported, &word.place, "reservations are left out");
        reader.push(fault.label("not carried over").hint("tasks compete directly"));
    }
}

/// The value of an option or argument, unless only the shell knows it.
fn known<'w>(reader: &mut Reader, word: &'w Word, what: &str) -> Option<&'w str> {
    if let Some(unknown) = &word.unknown {
        let fault = Diagnostic::error(Code::NotSupportedHere, &word.place, format!("{what} is not known"));
        let label = format!("`{}` is set outside of the script, or computed", clipped(unknown));
        reader.push(fault.label(label).hint("write its value"));
        return None;
    }
    Some(&word.text)
}

/// A duration in units of so many nanoseconds, from `least` on.
fn span(reader: &mut Reader, word: &Word, what: &str, unit_ns: i64, least: Span) -> Option<Span> {
    let text = known(reader, word, what)?;
    // The programs read `.5` and `5.` as well.
    let text = format!("{}{text}", if text.starts_with('.') { "0" } else { "" });
    let value = parse_decimal(text.strip_suffix('.').unwrap_or(&text), unit_ns);
    let (code, why) = match value {
        Ok(span) if span >= least && span <= MAX_DURATION => return Some(span),
        Ok(_) => (Code::OutOfRange, format!("this is `{}`", clipped(&text))),
        Err(why) => (Code::WrongType, number_fault(why, &clipped(&text))),
    };
    let unit = if unit_ns == NS_PER_MS { "milliseconds" } else { "seconds" };
    let above = if least > Span::ZERO { "above zero" } else { "from zero on" };
    reader.push(Diagnostic::error(code, &word.place, format!("{what} must be a number of {unit} {above}")).label(why));
    None
}

fn number(reader: &mut Reader, word: &Word, what: &str, least: u64, most: u64) -> Option<u64> {
    let text = known(reader, word, what)?;
    let value = text.parse::<u64>().ok().filter(|n| (least..=most).contains(n));
    if value.is_none() {
        let code = if text.bytes().all(|b| b.is_ascii_digit()) { Code::OutOfRange } else { Code::WrongType };
        let fault =
            Diagnostic::error(code, &word.place, format!("{what} must be a whole number from {least} to {most}"));
        reader.push(fault.label(format!("this is `{}`", clipped(text))));
    }
    value
}

const NANOSECOND: Span = Span::from_ns(1);

fn build(
    mut reader: Reader,
    calls: &[Call],
    source: &Source,
    policy: PolicySpec,
    options: &Options,
) -> Result<Workload, Vec<Diagnostic>> {
    let top = calls[0].head.clone();
    let size = match policy.scope {
        Scope::Partitioned => Some(1),
        Scope::Clustered => Some(usize::from(policy.cluster)),
        _ => None,
    };
    // Under a plugin with partitions or clusters, a task that names none is on the first.
    let homes: Vec<Option<(CpuSet, Place)>> = calls.iter().map(|call| home(&mut reader, call, size?)).collect();
    let named = homes.iter().flatten().fold(CpuSet::EMPTY, |all, (set, _)| all.union(set));
    let most = named.iter().last().map_or(1, |last| last + 1);
    let count = options.cpus.filter(|n| (1..=MAX_CPUS).contains(n));
    let machine = CpuSet::first(count.unwrap_or(most));
    let from_all = count.is_none() && size.is_none();
    for (set, place) in homes.iter().flatten() {
        let foreign = set.difference(&machine);
        if !foreign.is_empty() {
            reader.push(foreign_cpus(place, &foreign, &machine, "the task"));
        }
    }
    let mut system = System::new(machine, policy);
    system.seed = options.seed.unwrap_or(0);
    let settings = Settings { duration: duration(&mut reader, calls), cpus_from_all: from_all, ..Settings::default() };
    let mut workload = Workload::new(source, system, settings);
    workload.system.locking = locking(&mut reader, calls);
    for (index, (call, home)) in calls.iter().zip(homes).enumerate() {
        let affinity = home.map_or(machine, |(set, _)| set);
        if let Some((task, cmd, base)) = call.task(&mut reader, &policy, affinity, &mut workload.resources) {
            let name = format!("{base}-{}", index + 1);
            task::check_needs(&mut reader, &policy, &task, &name, &call.head);
            let deadline = call.option('d').map(|word| &word.place);
            task::check_runtime(&mut reader, &name, &task, Some(("WCET", &call.rest[0].place)), deadline);
            workload.system.tasks.push(task);
            workload.tasks.push(task_info(name, Some(cmd)));
        }
    }
    workload.system.resources = workload.resources.len() as u16;
    let heads: Vec<Place> = calls.iter().map(|call| call.head.clone()).collect();
    finish(reader, workload, heads, &top)
}

/// The CPUs of a call's partition or cluster, each of `size`, and where it says so.
fn home(reader: &mut Reader, call: &Call, size: usize) -> Option<(CpuSet, Place)> {
    let word = call.option('p');
    let index = match word {
        Some(word) => number(reader, word, "the partition", 0, (MAX_CPUS / size.max(1)) as u64 - 1)? as usize,
        None => 0,
    };
    let place = word.map_or(call.head.clone(), |word| word.place.clone());
    Some(((index * size..(index + 1) * size).collect(), place))
}

/// The length of the run: that of the task that ends last.
fn duration(reader: &mut Reader, calls: &[Call]) -> Option<Span> {
    let spins = calls.iter().filter(|call| call.program == Program::Spin);
    let words: Vec<&Word> = spins.filter_map(|call| call.rest.get(2)).collect();
    if let Some(word) = words.iter().find(|word| word.unknown.is_some()) {
        let fault = Diagnostic::warning(Code::NotImported, &word.place, "the length of the run is not known");
        reader.push(fault.label("set outside of the script, or computed").hint("`takt sim --duration 10s` says it"));
        return None;
    }
    let spans: Vec<(Span, &Word)> = words
        .iter()
        .filter_map(|word| Some((span(reader, word, "the duration", 1_000_000_000, NANOSECOND)?, *word)))
        .collect();
    let (longest, last) = spans.iter().max_by_key(|(span, _)| *span)?;
    if let Some((shorter, word)) = spans.iter().find(|(span, _)| span != longest) {
        reader.push(
            Diagnostic::warning(Code::NotImported, &word.place, "the tasks do not end together")
                .label(format!("this one after {shorter}; here it continues"))
                .also(&last.place, format!("the run is {longest}")),
        );
    }
    Some(*longest)
}

/// How resources are handed out.
fn locking(reader: &mut Reader, calls: &[Call]) -> Locking {
    let mut used: Vec<&Word> = Vec::new();
    for word in calls.iter().filter_map(|call| call.option('X')) {
        let Some(protocol) = known(reader, word, "the protocol") else { continue };
        if PROTOCOLS.contains(&protocol) {
            used.push(word);
            continue;
        }
        let near = nearest(protocol, PROTOCOLS);
        let label = near.map_or("no such protocol".to_owned(), |near| format!("did you mean `{near}`?"));
        let fault = Diagnostic::error(
            Code::UnknownName,
            &word.place,
            format!("`{}` is no locking protocol", clipped(protocol)),
        );
        reader.push(fault.label(label).hint(format!("they are {}", choices(PROTOCOLS, "and"))));
    }
    let plain = |word: &&&Word| !CEILINGS.contains(&word.text.as_str());
    match used.iter().find(plain) {
        Some(word) => {
            let fault = Diagnostic::warning(
                Code::NotImported,
                &word.place,
                format!("`{}` becomes priority inheritance", word.text),
            );
            reader.push(
                fault.label("its queues are not carried over").hint("`locking` in the workload is another choice"),
            );
            Locking::Inheritance
        }
        None if used.is_empty() => Locking::default(),
        None => Locking::Ceiling,
    }
}

impl Call {
    /// Takes the arguments apart as getopt does. What follows `--` holds no options, nor does what follows the two times of an
    /// `rt_launch`: its program.
    fn arguments(&mut self, reader: &mut Reader, words: &[Word]) -> Option<()> {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.text.strip_prefix('-') {
                Some("-") => self.rest.extend(words.by_ref().cloned()),
                Some(letters) if !letters.is_empty() => self.letters(reader, word, letters, &mut words)?,
                _ => self.rest.push(word.clone()),
            }
            if self.program == Program::Launch && self.rest.len() == 2 {
                let mut program = words.by_ref().cloned().peekable();
                program.next_if(|word| word.text == "--");
                self.rest.extend(program);
            }
        }
        Some(())
    }

    /// One word of options, whose last letter may take the next of the `words`.
    fn letters(
        &mut self,
        reader: &mut Reader,
        word: &Word,
        letters: &str,
        words: &mut std::slice::Iter<'_, Word>,
    ) -> Option<()> {
        // Not by way of a copy of the word, which may have as many letters as the file.
        let with =
            |text: &str| Word { text: text.to_owned(), place: word.place.clone(), unknown: word.unknown.clone() };
        for (at, letter) in letters.char_indices() {
            let known = self.program.options();
            let Some(option) = known.find(letter).filter(|_| letter != ':') else {
                let message = format!("`{}` has no option `-{letter}`", self.program.name());
                let fault =
                    Diagnostic::error(Code::UnknownKey, &word.place, message).label("what it means here is not known");
                reader.push(fault.hint("remove it"));
                return None;
            };
            let attached = &letters[at + letter.len_utf8()..];
            let value = match known[option + 1..].bytes().take_while(|b| *b == b':').count() {
                0 => {
                    self.options.push((letter, with("")));
                    continue;
                }
                1 if attached.is_empty() => words.next().cloned(),
                _ => Some(with(attached)),
            };
            if value.is_none() {
                let fault = Diagnostic::error(
                    Code::MissingValue,
                    &word.place,
                    format!("the option `-{letter}` has no argument"),
                );
                reader.push(fault.label("the last word of the call"));
            }
            self.options.push((letter, value?));
            break;
        }
        Some(())
    }

    /// The duration of an option in milliseconds; an inner `None` where it is not given.
    fn ms(&self, reader: &mut Reader, letter: char, what: &str, least: Span) -> Option<Option<Span>> {
        match self.option(letter) {
            Some(word) => span(reader, word, what, NS_PER_MS, least).map(Some),
            None => Some(None),
        }
    }

    /// A number in millionths.
    fn ratio(&self, reader: &mut Reader, letter: char, what: &str, default: i64, most: i64) -> Option<i64> {
        let Some(word) = self.option(letter) else { return Some(default) };
        let text = known(reader, word, what)?;
        let value = parse_ratio(&if text.starts_with('.') { format!("0{text}") } else { text.to_owned() });
        let value = value.ok().filter(|ratio| (1..=most).contains(ratio));
        if value.is_none() {
            let fault = Diagnostic::error(
                Code::OutOfRange,
                &word.place,
                format!("{what} must be a number above zero, up to {}", most / ONE),
            );
            reader.push(fault.label(format!("this is `{}`", clipped(text))));
        }
        value
    }

    /// The task, its command, and what its name begins with.
    fn task(
        &self,
        reader: &mut Reader,
        policy: &PolicySpec,
        affinity: CpuSet,
        resources: &mut Vec<String>,
    ) -> Option<(Task, String, String)> {
        let wanted = if self.program == Program::Spin && self.option('C').is_some() { 2 } else { 3 };
        if self.rest.len() < wanted {
            let usage = if self.program == Program::Spin { "WCET PERIOD DURATION" } else { "WCET PERIOD PROGRAM" };
            let fault = Diagnostic::error(
                Code::MissingValue,
                &self.head,
                format!("a call of `{}` lacks arguments", self.program.name()),
            );
            reader.push(
                fault.label(format!("it has {} besides options", self.rest.len())).hint(format!("they are {usage}")),
            );
            return None;
        }
        let wcet = span(reader, &self.rest[0], "the WCET", NS_PER_MS, NANOSECOND);
        let period = span(reader, &self.rest[1], "the period", NS_PER_MS, NANOSECOND);
        let deadline = self.ms(reader, 'd', "the deadline", Span::ZERO);
        let offset = self.ms(reader, 'o', "the offset", Span::ZERO);
        let priority = match self.option('q') {
            Some(word) => number(reader, word, "the priority", 1, LOWEST).map(Some),
            None => Some(None),
        };
        let (wcet, period, deadline, offset, priority) = (wcet?, period?, deadline?, offset?, priority?);
        let by_priority = policy.ranks_by_priority();
        let enforced = (self.program == Program::Spin) == self.option('e').is_some();
        let mut task = Task {
            arrival: Arrival::Periodic { offset: offset.unwrap_or(Span::ZERO), period },
            // A deadline of zero is none of its own.
            deadline: deadline.filter(|d| *d > Span::ZERO).or(Some(period)),
            runtime: Some(wcet),
            budget: enforced.then_some(wcet),
            // Here a higher number is more important.
            priority: priority.or(by_priority.then_some(LOWEST)).map_or(0, |q| (LOWEST + 1 - q) as u32),
            affinity,
            ..Task::default()
        };
        self.left_out(reader);
        if self.program == Program::Launch {
            let program = &self.rest[2..];
            if let Some(word) = program.iter().find(|word| word.unknown.is_some()) {
                known(reader, word, "the program");
                return None;
            }
            let cmd: Vec<String> = program.iter().map(|word| shell_word(&word.text)).collect();
            let base = program[0].text.rsplit('/').next().unwrap_or("").to_owned();
            let base = if base.is_empty() || base.chars().any(char::is_control) { "task".to_owned() } else { base };
            return Some((task, format!("exec {}", cmd.join(" ")), base));
        }
        self.releases(reader, &mut task, period)?;
        let need = self.needs(reader, &mut task, wcet, resources)?;
        Some((task, format!("exec takt burn --runtime {}", crate::duration_text(need)), "rtspin".to_owned()))
    }

    /// Options that have no counterpart and change what happens.
    fn left_out(&self, reader: &mut Reader) {
        let without = [
            (
                'C',
                "the times of the file are left out",
                "jobs need what is declared; `execution` in the workload lists times",
            ),
            ('S', "what releases its jobs is left out", "they come as often as they may"),
            ('O', "what it tells others at its completions is left out", "tasks are independent"),
            ('r', "the reservation is left out", "tasks compete directly"),
            ('R', "the reservation is left out", "tasks compete directly"),
        ];
        for (letter, what, hint) in without {
            if let Some(word) = self.option(letter) {
                reader.push(
                    Diagnostic::warning(Code::NotImported, &word.place, what)
                        .label(format!("of `-{letter}`"))
                        .hint(hint),
                );
            }
        }
    }

    /// Random times between releases (`-E` and `-D`).
    fn releases(&self, reader: &mut Reader, task: &mut Task, period: Span) -> Option<()> {
        let least = self.ms(reader, 'E', "the least time between releases", Span::ZERO);
        let most = self.ms(reader, 'D', "the longest time between releases", Span::ZERO);
        let given = |span: Option<Span>| span.filter(|s| *s > Span::ZERO).unwrap_or(period);
        let (least, most) = (given(least?), given(most?));
        if let Arrival::Periodic { offset, .. } = task.arrival {
            task.arrival = match most - least {
                spread if spread > Span::ZERO => Arrival::Sporadic { offset, period: least, spread },
                _ => Arrival::Periodic { offset, period: least },
            };
        }
        Some(())
    }

    /// The steps of a job of `rtspin`; returns the most that it needs.
    fn needs(&self, reader: &mut Reader, task: &mut Task, wcet: Span, resources: &mut Vec<String>) -> Option<Span> {
        let scale = self.ratio(reader, 's', "the scale", 95 * ONE / 100, 1000 * ONE)?;
        let fraction = self.ratio(reader, 'U', "the fraction of slack", 0, ONE)?;
        let slack = self.ms(reader, 'u', "the slack", NANOSECOND)?;
        let slack = if fraction > 0 { part(wcet, fraction) } else { slack.unwrap_or(Span::ZERO) };
        let least = part((wcet - slack).or_zero(), scale).max(NANOSECOND);
        let most = part(wcet, scale).max(NANOSECOND);
        let Some(protocol) = self.option('X') else {
            task.program.execution = match (least, most) {
                _ if least < most => Execution::Uniform { least, most },
                _ if most == wcet => Execution::Declared,
                _ => Execution::Series(vec![most]),
            };
            return Some(most);
        };
        if least < most {
            let fault = Diagnostic::warning(
                Code::NotImported,
                &protocol.place,
                "a job with a lock always needs its longest time here",
            );
            reader.push(fault.label("its slack is left out"));
        }
        let section = self.ms(reader, 'L', "the critical section", NANOSECOND)?.unwrap_or(Span::from_ms(1));
        let resource = match self.option('Q') {
            Some(word) => number(reader, word, "the resource", 0, i32::MAX as u64)?,
            None => 0,
        };
        let name = format!("R{resource}");
        let index = resources.iter().position(|known| *known == name).unwrap_or_else(|| {
            resources.push(name);
            resources.len() - 1
        });
        if index >= steps::MAX_RESOURCES {
            let fault = Diagnostic::error(
                Code::LimitExceeded,
                &protocol.place,
                format!("there are more than {} resources", steps::MAX_RESOURCES),
            );
            reader.push(fault.label("the first one too many"));
            return None;
        }
        let resource = ResourceId(index as u16);
        let before = (most - section).or_zero() / 2;
        let after = (most - section).or_zero() - before;
        let runs = |span: Span| (span > Span::ZERO).then_some(Step::Run(span));
        let inner = [Step::Lock(resource), Step::Run(section), Step::Unlock(resource)];
        task.program.steps = runs(before).into_iter().chain(inner).chain(runs(after)).collect();
        Some(before + section + after)
    }
}

/// One, in millionths.
const ONE: i64 = 1_000_000;

/// `span * ratio`, in millionths, rounded down.
fn part(span: Span, ratio: i64) -> Span {
    let ns = i128::from(span.ns()) * i128::from(ratio) / i128::from(ONE);
    Span::from_ns(i64::try_from(ns).unwrap_or(i64::MAX)).min(MAX_DURATION)
}
