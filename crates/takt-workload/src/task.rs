//! The keys that tasks and processes have in common, and the rules between them.

use crate::calls::Places;
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::keys::{TASK, names};
use crate::node::{Entry, Node, Place};
use crate::policy::policy_name;
use crate::process::{Output, ProcessSettings};
use crate::process_settings;
use crate::reader::{Bare, Cpus, Reader};
use crate::text::clipped;
use crate::words::{CLIENT, COMPLETION, ON_ABORT, ON_EXIT, SPAWN};
use crate::{
    Class, Client, EventSource, Observed, Spawn, TaskInfo, calls, class, events, reactions, servers, steps, threads,
    utility,
};
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;
use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, Completion, Execution, Need, OnAbort, OnExit, PolicySpec, Program, Scope, Task};
use takt_core::time::Span;

/// All keys of a task.
pub(crate) const KEYS: [&str; TASK.len()] = names(&TASK);

/// Those that mean something only under an online policy.
pub(crate) const ONLINE_KEYS: [&str; 15] = [
    "period",
    "spread",
    "releases",
    "batch",
    "event",
    "offset",
    "deadline",
    "handler",
    "reservation",
    "server",
    "priority",
    "share",
    "importance",
    "spawn",
    "on_abort",
];

/// The key for the releases of jobs; a task has one of them.
const ARRIVALS: [&str; 4] = ["period", "releases", "batch", "event"];

/// A task or process as the file has it.
pub(crate) struct RawTask {
    /// Where messages about it as a whole point.
    pub(crate) head: Place,
    pub(crate) name: Option<(String, Place)>,
    pub(crate) cmd: Option<String>,
    pub(crate) thread_of: Option<Box<(String, Place)>>,
    pub(crate) init: bool,
    pub(crate) spawn: Spawn,
    completion: Option<(Completion, Option<Observed>)>,
    pub(crate) client: Option<Client>,
    on_abort: Option<(OnAbort, Option<&'static str>)>,
    on_exit: Option<OnExit>,
    reactions: Option<Box<reactions::Reactions>>,
    pub(crate) output: Option<Box<Output>>,
    settings: Option<Box<ProcessSettings>>,
    pub(crate) frequency: Option<f64>,
    pub(crate) cpus: Option<Box<(CpuSet, Place)>>,
    pub(crate) domain: Option<Box<(String, Place)>>,
    pub(crate) class: Option<Box<(Class, Place)>>,
    pub(crate) budget: Option<Span>,
    pub(crate) jitter: Option<(Span, Place)>,
    period: Option<Span>,
    spread: Span,
    releases: Option<Vec<Span>>,
    batch: Option<bool>,
    pub(crate) event: Option<Box<events::Event>>,
    offset: Span,
    /// `none` is an inner `None`.
    deadline: Option<(Option<Span>, Place)>,
    /// The key that says it, `runtime` or `steps`, and the place of its value.
    runtime: Option<(Span, &'static str, Place)>,
    steps: Option<steps::Steps>,
    /// The place of the `utility`.
    utility: Option<Place>,
    /// Keys that need no place: `execution`, `handler`, `reservation`, `server`, `priority`, `share`, `importance`.
    plain: Plain,
    /// Whether every key could be read. Rules between keys are checked only then.
    pub(crate) sound: bool,
}

/// A task whose keys mostly have their defaults: most files name few of them, and hold thousands of tasks until the last one is read.
#[derive(Default)]
struct Plain(Option<Box<Task>>);

impl Deref for Plain {
    type Target = Task;
    fn deref(&self) -> &Task {
        static DEFAULT: LazyLock<Task> = LazyLock::new(Task::default);
        self.0.as_deref().unwrap_or(&DEFAULT)
    }
}

impl DerefMut for Plain {
    fn deref_mut(&mut self) -> &mut Task {
        self.0.get_or_insert_default()
    }
}

impl RawTask {
    /// Without any key.
    pub(crate) fn new(head: Place) -> RawTask {
        RawTask {
            head,
            name: None,
            cmd: None,
            thread_of: None,
            init: false,
            spawn: Spawn::Once,
            completion: None,
            client: None,
            on_abort: None,
            on_exit: None,
            reactions: None,
            output: None,
            settings: None,
            frequency: None,
            cpus: None,
            domain: None,
            class: None,
            budget: None,
            jitter: None,
            period: None,
            spread: Span::ZERO,
            releases: None,
            batch: None,
            event: None,
            offset: Span::ZERO,
            deadline: None,
            runtime: None,
            steps: None,
            utility: None,
            plain: Plain::default(),
            sound: true,
        }
    }

    /// Reads one key; unknown ones were reported.
    pub(crate) fn key(&mut self, reader: &mut Reader, entry: &Entry) {
        let (key, value) = (entry.key.as_str(), &entry.value);
        let faults = reader.diagnostics.len();
        let place = || value.span.clone();
        match key {
            "name" => {
                let name = reader.text(value, key, "a name");
                self.name = name.filter(|name| reader.is_name(name, &value.span)).map(|name| (name, place()));
            }
            "cmd" => self.cmd = reader.text(value, key, "a command"),
            "thread_of" => {
                let name = reader.scalar(value, key, "the name of a task");
                self.thread_of = name.map(|name| Box::new((name.to_owned(), place())));
            }
            "period" => self.period = reader.span(value, key, Bare::Refused, false),
            "spread" => self.spread = reader.span(value, key, Bare::Refused, true).unwrap_or(Span::ZERO),
            "releases" => self.releases = steps::releases(reader, value),
            "batch" => self.batch = reader.boolean(value, key),
            "event" => self.event = events::read(reader, value).map(Box::new),
            "offset" => self.offset = reader.span(value, key, Bare::Refused, true).unwrap_or(Span::ZERO),
            "deadline" => self.deadline = steps::deadline(reader, value).map(|d| (d, place())),
            "runtime" => {
                self.runtime = reader.span(value, key, Bare::Refused, false).map(|r| (r, "runtime", place()));
            }
            "steps" => self.steps = steps::steps(reader, value),
            "execution" => self.plain.program.execution = steps::execution(reader, value).unwrap_or_default(),
            "handler" => self.plain.handler = steps::handler(reader, value),
            "utility" => {
                self.plain.utility = utility::utility(reader, value);
                self.utility = Some(value.head());
            }
            "budget" => self.budget = reader.span(value, key, Bare::Milliseconds, false),
            "jitter" => self.jitter = reader.span(value, key, Bare::Milliseconds, true).map(|j| (j, place())),
            "reservation" => self.plain.reservation = steps::reservation(reader, value),
            "server" => self.plain.server = servers::named(reader, value),
            "priority" => {
                self.plain.priority = reader.whole(value, key, u64::from(u32::MAX)).unwrap_or(0) as u32;
            }
            "share" => self.plain.share = steps::share(reader, value),
            "importance" => self.plain.importance = steps::importance(reader, value).unwrap_or(1),
            "cpu" => {
                if let Some(Cpus::Set(set)) = reader.cpus(value, key) {
                    self.cpus = Some(Box::new((set, place())));
                }
            }
            "domain" => {
                self.domain =
                    reader.scalar(value, key, "the name of a domain").map(|d| Box::new((d.to_owned(), place())));
            }
            "class" => self.class = class::read(reader, value).map(|class| Box::new((class, place()))),
            "init" => self.init = reader.boolean(value, key).unwrap_or(false),
            "spawn" => self.spawn = reader.choice(value, key, &SPAWN).unwrap_or_default(),
            "completion" => self.completion = reader.choice(value, key, &COMPLETION),
            "client" => self.client = reader.choice(value, key, &CLIENT),
            "on_abort" => self.on_abort = on_abort(reader, value),
            "on_exit" => self.on_exit = reader.choice(value, key, &ON_EXIT),
            "on_miss" => self.reactions.get_or_insert_default().on_miss = reactions::read(reader, value, key),
            "on_overrun" => self.reactions.get_or_insert_default().on_overrun = reactions::read(reader, value, key),
            "output" => self.output = process_settings::output(reader, value).map(Box::new),
            _ if process_settings::KEYS.contains(&key) => {
                process_settings::read(self.settings.get_or_insert_default(), reader, key, value);
            }
            "frequency" => self.frequency = reader.frequency(value),
            _ => {}
        }
        self.sound &= reader.diagnostics.len() == faults;
    }

    /// Checks the rules between keys. `who` is "task `a`" or "a process", `place` where it stands, in words; `online` says
    /// whether a policy schedules its jobs.
    pub(crate) fn finish(&mut self, reader: &mut Reader, node: &Node, who: &str, place: &str, online: bool) {
        // `batch: no` says as little as no such key.
        let says = |entry: &&Entry| entry.key != "batch" || self.batch != Some(false);
        let given: Vec<&Entry> = ARRIVALS.iter().filter_map(|key| node.get(key)).filter(says).collect();
        if let [first, second, ..] = given[..]
            && self.sound
        {
            self.sound = false;
            reader.push(
                Diagnostic::error(
                    Code::ConflictingKeys,
                    &second.key_span,
                    format!("{who} has both `{}` and `{}`", first.key, second.key),
                )
                .label("both say when its jobs are released")
                .also(&first.key_span, "here, too")
                .hint("keep one of them"),
            );
        }
        if online && given.is_empty() && ARRIVALS.iter().all(|key| node.get(key).is_some() || reader.lacks(node, key)) {
            self.sound = false;
            reader.push(Diagnostic::error(Code::MissingKey, &self.head, format!("{who} has no `period`")).label(place).hint(
                "add `period: 10ms`: its jobs are released that often; or `releases: [0ms, 3ms]`, or `batch: yes` for \
                 one job",
            ));
        }
        if !self.sound {
            return;
        }
        if let Some(steps::Steps { steps, place, .. }) = &self.steps {
            if let Some(entry) = node.get("execution") {
                reader.push(
                    Diagnostic::error(
                        Code::ConflictingKeys,
                        &entry.key_span,
                        format!("{who} has both `steps` and `execution`"),
                    )
                    .label("for jobs without steps")
                    .also(place, "the steps say what a job needs")
                    .hint("keep one of them"),
                );
            }
            let (run, _) = steps::times(steps);
            self.runtime.get_or_insert((run, "steps", place.clone()));
        }
        self.useless(reader, node, who);
        served_twice(reader, node, who);
        self.check_client(reader, node, who);
        self.check_process(reader, node, who, online);
        if self.reactions.is_some() {
            reactions::check(reader, node, who, &self.acts(online));
        }
        if self.settings.is_some() {
            process_settings::check(reader, node, who, self.cmd.is_some());
        }
    }

    /// Properties on which reactions depend.
    fn acts(&self, online: bool) -> reactions::Acts {
        let deadline = match &self.deadline {
            Some((deadline, _)) => deadline.is_some(),
            None => self.period.is_some() || self.event.as_ref().is_some_and(|event| event.distance > Span::ZERO),
        };
        // A segment names its deadline and its execution time itself.
        let segments = self.event.as_ref().is_some_and(|event| event.source == Some(EventSource::Segments));
        reactions::Acts {
            process: self.cmd.is_some() || self.thread_of.is_some(),
            jobs: online || !self.never_completes(),
            missable: !online || segments || deadline || self.budget.is_some(),
            overrunnable: !online
                || segments
                || self.budget.is_some()
                || (self.runtime.is_some() && self.spawn == Spawn::Once && !self.never_completes()),
            per_job: self.spawn == Spawn::PerJob,
        }
    }

    /// Whether no job of it completes.
    fn never_completes(&self) -> bool {
        match self.completion {
            Some((completion, _)) => completion == Completion::None,
            None => self.spawn == Spawn::Once && self.client == Some(Client::None),
        }
    }

    /// Rules between the keys about the task's process.
    fn check_process(&self, reader: &mut Reader, node: &Node, who: &str, online: bool) {
        let mut refuse = |key: &str, message: &str, label: &str, hint: &str| {
            if let Some(entry) = node.get(key) {
                let fault = Diagnostic::error(Code::NotSupportedHere, &entry.value.span, format!("{who} {message}"));
                reader.push(fault.label(label).hint(hint));
            }
        };
        let per_job = self.spawn == Spawn::PerJob;
        if self.init && per_job {
            refuse(
                "init",
                "starts again for each job and cannot initialise before",
                "a process per job completes by ending, and signals nothing",
                "remove `init`, or `spawn: per-job`",
            );
        }
        match self.completion.map(|(completion, _)| completion) {
            Some(Completion::Exit) if !per_job => refuse(
                "completion",
                "has one process for all jobs, whose end cannot be the end of each",
                "a process that is started once ends once",
                if online {
                    "add `spawn: per-job`, or write `completion: signal`"
                } else {
                    "write `completion: signal`"
                },
            ),
            Some(Completion::Signal | Completion::None) if per_job => refuse(
                "completion",
                "has a process per job, whose end is that of the job",
                "this needs a process that lives longer than a job",
                "write `completion: exit`, or remove `spawn: per-job`",
            ),
            Some(Completion::None) if self.init => refuse(
                "completion",
                "signals the end of its initialisation",
                "a process that never signals cannot do that",
                "remove `init: yes`, or write `completion: signal`",
            ),
            _ => {}
        }
        if let Some((of_kernel, _)) = self.class.as_deref() {
            let abort = self.on_abort.map(|(rule, _)| rule);
            let yields = self.completion.is_some_and(|(_, observed)| observed == Some(Observed::Yield));
            let replaced = self.init && self.on_exit == Some(OnExit::Restart);
            class::conflicts(*of_kernel, per_job, abort, yields, replaced)
                .for_each(|(key, message, label, hint)| refuse(key, message, label, hint));
        }
        if self.thread_of.is_some() {
            let keys = threads::Keys {
                completion: self.completion.map(|(completion, _)| completion),
                observed: self.completion.is_some_and(|(_, observed)| observed.is_some()),
                on_abort: self.on_abort.map(|(rule, _)| rule),
                on_exit: self.on_exit,
                event: self.event.as_ref().and_then(|event| event.source.as_ref()),
                class: self.class.as_deref().map(|(class, _)| *class),
            };
            threads::conflicts(&keys).for_each(|(key, message, label, hint)| refuse(key, message, label, hint));
        }
        if self.on_exit.is_some() && per_job {
            refuse(
                "on_exit",
                "has a process per job, whose end is that of the job",
                "says what follows when the only process of a task ends",
                "remove `on_exit`, or `spawn: per-job`",
            );
        }
        let handled = self.plain.handler.is_some();
        let contradicts = match self.on_abort {
            Some((OnAbort::Finish, _)) => true,
            Some((OnAbort::Restart, _)) => self.cmd.is_some(),
            Some((OnAbort::Signal, _)) | None => false,
        };
        if handled && contradicts {
            refuse(
                "on_abort",
                "has a `handler`, which follows an abort in the program itself",
                "leaves nothing that could run the handler",
                "write `on_abort: signal`, or remove the `handler`",
            );
        }
    }

    /// Refuses keys that need a client where `client: none` holds, also by the partition or the file.
    fn check_client(&self, reader: &mut Reader, node: &Node, who: &str) {
        if self.client != Some(Client::None) {
            return;
        }
        let signals = self.completion == Some((Completion::Signal, None));
        let segments = self.event.as_ref().is_some_and(|event| event.source == Some(EventSource::Segments));
        let of_clients = [
            ("init", self.init),
            ("completion", signals),
            ("event", segments),
            ("thread_of", self.thread_of.is_some()),
        ];
        let Some(entry) = of_clients.into_iter().find_map(|(key, needed)| node.get(key).filter(|_| needed)) else {
            return;
        };
        let message = format!("{who} has `{}`, which needs a client, and `client: none`", entry.key);
        let fault = Diagnostic::error(Code::ConflictingKeys, &entry.key_span, message);
        let fault = fault.label("by this the process signals to its scheduler");
        reader.push(match node.get("client") {
            Some(own) => fault
                .also(&own.key_span, "without a channel to it")
                .hint(format!("keep one of them, or change `{}`", entry.key)),
            None => fault.hint("add `client: auto` here, since the partition or the file says `client: none`"),
        });
    }

    /// A wake-up follows a sleep, which Takt sees in programs that it schedules itself.
    fn check_wakeups(&self, reader: &mut Reader, node: &Node, who: &str) {
        let Some(entry) = node.get("event") else { return };
        if self.event.as_ref().is_none_or(|event| event.source != Some(EventSource::WakeUp)) {
            return;
        }
        if self.completion.is_none_or(|(_, observed)| observed != Some(Observed::Sleep)) {
            let message = format!("{who} has `event: wakeup` without `completion: sleep`");
            let fault = Diagnostic::error(Code::MissingKey, &entry.key_span, message);
            let fault = fault.label("the end of a sleep that ends no job");
            reader.push(match node.get("completion") {
                Some(other) => fault
                    .also(&other.key_span, "how its jobs end")
                    .hint("write `completion: sleep`, or take another source of events"),
                None => fault.hint("add `completion: sleep`, or take another source of events"),
            });
        }
        if let Some((other, _)) = node.get("class").zip(self.class.as_ref()) {
            let message = format!("{who} has both `event: wakeup` and `class`");
            let fault = Diagnostic::error(Code::ConflictingKeys, &other.key_span, message);
            reader.push(fault.label("the kernel runs it when it wakes up").hint("remove `class`, or write a `period`"));
        }
    }

    /// Keys that say something about releases that are not there.
    fn useless(&self, reader: &mut Reader, node: &Node, who: &str) {
        let other = match () {
            () if self.releases.is_some() => "releases",
            () if self.event.is_some() => "event",
            () => "batch",
        };
        if let Some(entry) = node.get("spread").filter(|_| self.period.is_none()) {
            reader.push(
                Diagnostic::error(
                    Code::ConflictingKeys,
                    &entry.key_span,
                    format!("{who} has both `spread` and `{other}`"),
                )
                .label("varies the time between releases, which needs a `period`")
                .hint("add `period`, the least time between releases, or remove `spread`"),
            );
        }
        let segments = self.event.as_ref().is_some_and(|event| event.source == Some(EventSource::Segments));
        let begun_by_its_program = [
            ("completion", self.completion.is_some_and(|kind| kind != (Completion::Signal, None))),
            ("spawn", self.spawn == Spawn::PerJob),
            ("on_abort", self.on_abort.is_some_and(|(rule, _)| rule == OnAbort::Restart)),
            ("class", self.class.is_some()),
        ];
        let other = begun_by_its_program.into_iter().find_map(|(key, is)| node.get(key).filter(|_| is && segments));
        if let Some(entry) = other {
            reader.push(
                Diagnostic::error(
                    Code::ConflictingKeys,
                    &entry.key_span,
                    format!("{who} has both `event: segments` and `{}`", entry.key),
                )
                .label("one program begins and ends all segments of the task")
                .hint(format!("remove `{}`, or take another source of events", entry.key)),
            );
        }
        self.check_wakeups(reader, node, who);
        if let Some(entry) = node.get("offset").filter(|_| self.event.is_some()) {
            reader.push(
                Diagnostic::error(
                    Code::ConflictingKeys,
                    &entry.key_span,
                    format!("{who} has both `offset` and `event`"),
                )
                .label("events have no first instant")
                .hint("remove `offset`"),
            );
        }
        if let Some(entry) = node.get("offset").filter(|_| self.releases.is_some()) {
            reader.push(
                Diagnostic::error(
                    Code::ConflictingKeys,
                    &entry.key_span,
                    format!("{who} has both `offset` and `releases`"),
                )
                .label("the list has its own first instant")
                .hint("remove `offset`, and add it to each instant of `releases`"),
            );
        }
    }

    /// The task on these CPUs; `online` says whether a policy schedules its jobs.
    pub(crate) fn task(&self, affinity: CpuSet, budget: Option<Span>, online: bool) -> Task {
        let offset = self.offset;
        let arrival = match (self.period, &self.releases) {
            _ if !online => Arrival::Activated,
            (None, None) if self.event.is_some() => {
                let events::Event { distance, queue, .. } = **self.event.as_ref().expect("there is one");
                Arrival::Event { distance, queue, after: None }
            }
            (Some(period), _) if self.spread == Span::ZERO => Arrival::Periodic { offset, period },
            (Some(period), _) => Arrival::Sporadic { offset, period, spread: self.spread },
            (None, Some(instants)) => Arrival::Listed { instants: instants.clone() },
            (None, None) => Arrival::Listed { instants: vec![offset] },
        };
        let distance = self.event.as_ref().map(|event| event.distance).filter(|distance| *distance > Span::ZERO);
        let default = if online { self.period.or(distance) } else { None };
        let steps = self.steps.as_ref().map(|s| s.steps.clone()).unwrap_or_default();
        Task {
            arrival,
            deadline: self.deadline.as_ref().map_or(default, |(deadline, _)| *deadline),
            runtime: self.runtime.as_ref().map(|(runtime, ..)| *runtime),
            program: Program::new(steps, self.plain.program.execution.clone()),
            budget,
            jitter: self.jitter.as_ref().map_or(Span::ZERO, |(jitter, _)| *jitter),
            affinity,
            ..(*self.plain).clone()
        }
    }

    /// Properties that the engine need not know.
    pub(crate) fn info(&self, name: String, partition: Option<usize>) -> TaskInfo {
        TaskInfo {
            name,
            partition,
            cmd: self.cmd.clone(),
            thread_of: None,
            // Its program has that, too.
            init: self.init || self.thread_of.is_some(),
            spawn: self.spawn,
            on_abort: self.on_abort.map(|(rule, _)| rule),
            abort_signal: self.on_abort.and_then(|(_, signal)| signal),
            completion: self.completion.map(|(completion, _)| completion),
            observed: self.completion.and_then(|(_, observed)| observed),
            client: self.client.unwrap_or_default(),
            on_exit: self.on_exit,
            on_miss: self.reactions.as_ref().and_then(|reactions| reactions.on_miss.clone()).map(Box::new),
            on_overrun: self.reactions.as_ref().and_then(|reactions| reactions.on_overrun.clone()).map(Box::new),
            output: self.output.clone(),
            settings: self.settings.clone(),
            event: self.event.as_ref().and_then(|event| event.source.clone()).map(Box::new),
            class: self.class.as_deref().map(|(class, _)| *class),
            frequency_mhz: self.frequency,
        }
    }

    /// Rules between the values of a sound task's keys, after defaults.
    pub(crate) fn check(&self, reader: &mut Reader, name: &str, task: &Task) {
        match (&self.jitter, task.budget) {
            (Some((jitter, place)), Some(budget)) if *jitter > budget * 2 => reader.push(
                Diagnostic::error(Code::OutOfRange, place, "the jitter is more than twice the budget")
                    .label(format!("the budget of {budget} ± {} could fall below zero", *jitter / 2))
                    .hint(format!("lower `jitter` to at most {}", budget * 2)),
            ),
            (Some((jitter, place)), None) if *jitter > Span::ZERO => reader.push(
                Diagnostic::error(Code::MissingKey, place, "`jitter` needs a `budget`")
                    .label("nothing to vary")
                    .hint("add `budget`, or remove `jitter`"),
            ),
            _ => {}
        }
        if let (Some(utility), Some(place)) = (&task.utility, &self.utility) {
            utility::check(reader, utility, task.deadline, &clipped(name), place);
        }
        if let Some((Class::Deadline, place)) = self.class.as_deref() {
            class::check_deadline(reader, name, task, place);
        }
        let runtime = self.runtime.as_ref().map(|(_, key, place)| (*key, place));
        let deadline = self.deadline.as_ref().map(|(_, place)| place);
        check_runtime(reader, name, task, runtime, deadline);
        if let Some(steps) = &self.steps {
            let measured = matches!(self.runtime, Some((_, "steps", _)));
            calls::check(reader, name, task, &Places { steps: &steps.place, calls: &steps.calls, measured });
        }
    }
}

/// Keys that say in another way what a task gets of a CPU than the server that it shares.
fn served_twice(reader: &mut Reader, node: &Node, who: &str) {
    let Some(server) = node.get("server") else { return };
    if let Some(own) = node.get("reservation") {
        reader.push(
            Diagnostic::error(
                Code::ConflictingKeys,
                &own.key_span,
                format!("{who} has both `server` and `reservation`"),
            )
            .label("a server of its own")
            .also(&server.key_span, "one that it shares")
            .hint("keep one of them"),
        );
    }
    if let Some(share) = node.get("share") {
        reader.push(
            Diagnostic::warning(Code::ConflictingKeys, &share.key_span, format!("{who} has both `server` and `share`"))
                .label("means nothing to servers")
                .also(&server.key_span, "means nothing to policies that hand out shares")
                .hint("keep the one that the policy goes by"),
        );
    }
}

/// A runtime that no schedule can fit, or that one CPU cannot sustain. `runtime` is the key that says it and the place of
/// its value, `deadline` the place of an explicit one. What the jobs of a program run for is the business of [`calls::check`].
pub(crate) fn check_runtime(
    reader: &mut Reader,
    name: &str,
    task: &Task,
    runtime: Option<(&str, &Place)>,
    deadline: Option<&Place>,
) {
    let (Some(needed), Some((key, at_runtime))) = (task.runtime, runtime) else { return };
    let program = calls::is_program(task);
    if program && key == "steps" {
        return;
    }
    let name = clipped(name);
    let less = if key == "steps" { "let the steps run less".to_owned() } else { format!("lower `{key}`") };
    if let Some(given) = task.deadline
        && given < needed
    {
        // The declaration is the most that a job may use; a simulated one can use less.
        let least = match &task.program.execution {
            Execution::Declared => needed,
            Execution::Uniform { least, .. } => *least,
            Execution::Series(entries) => entries.iter().copied().min().unwrap_or(needed),
        };
        if least <= given {
            let fault = Diagnostic::warning(
                Code::PossibleMiss,
                deadline.unwrap_or(at_runtime),
                format!("task `{name}` can miss its deadline alone"),
            )
            .label(format!("a job that needs its whole runtime of {needed} misses a deadline of {given}"));
            return reader.push(fault.hint(format!("{less}, or raise `deadline`, if that is not what is meant")));
        }
        let message = format!("task `{name}` can never meet its deadline");
        reader.push(match deadline {
            Some(place) => Diagnostic::error(Code::ImpossibleDeadline, place, message)
                .label(format!("shorter than its runtime of {needed}"))
                .hint(format!("raise `deadline` to at least {needed}, or {less}")),
            None => Diagnostic::error(Code::ImpossibleDeadline, at_runtime, message)
                .label(format!("longer than its period of {given}, which is its deadline, too"))
                .hint(format!("{less}, or set a `deadline` of at least {needed}")),
        });
    } else if program {
        // Each job has its own needs, and perhaps its own terms.
    } else if let Some(period) = task.arrival.period()
        && needed > period
    {
        reader.push(
            Diagnostic::warning(Code::Overload, at_runtime, format!("task `{name}` needs more time than it has"))
                .label(format!("longer than its period of {period}"))
                .hint(format!("its jobs will queue up without end: {less} or raise `period`")),
        );
    } else if let (_, taken) = steps::times(&task.program.steps)
        && let Some(given) = task.deadline.filter(|d| *d < taken)
    {
        reader.push(
            Diagnostic::warning(
                Code::PossibleMiss,
                at_runtime,
                format!("task `{name}` misses its deadline whenever its jobs do all steps"),
            )
            .label(format!("running and sleeping takes {taken}, the deadline is {given}"))
            .hint(format!("raise `deadline` to at least {taken}, or shorten the steps")),
        );
    }
}

/// The keys that the task lacks and the policy requires.
fn lacking(policy: &PolicySpec, task: &Task) -> impl Iterator<Item = &'static str> {
    // Where an ordering is spread over CPUs by giving each task one of them, or a cluster, its utilisation decides which,
    // unless there is no choice. What has no period has no utilisation, and a policy that is about several CPUs
    // itself declares its need. A task with a server has the utilisation of that.
    let choice = task.affinity.len() > if policy.scope == Scope::Clustered { usize::from(policy.cluster) } else { 1 };
    let spread = matches!(policy.scope, Scope::Partitioned | Scope::Clustered) && policy.profile.scopes.len() > 1;
    let placed = spread && choice && task.arrival.period().is_some();
    let served = policy.servers().is_some() && (task.reservation.is_some() || task.server.is_some());
    let known = served || policy.profile.needs.iter().any(|need| matches!(need, Need::Runtime | Need::Reservation));
    let placing: &[Need] = if placed && !known { &[Need::Runtime] } else { &[] };
    policy.profile.needs.iter().chain(placing).filter_map(move |need| need.lacking(task))
}

/// The first key that the task lacks and the policy cannot do without.
pub(crate) fn missing(policy: &PolicySpec, task: &Task) -> Option<&'static str> {
    lacking(policy, task).next()
}

/// A value of a key that a policy may need.
pub(crate) fn example(key: &str) -> &'static str {
    match key {
        "utility" => "1",
        "reservation" => "{budget: 5ms, period: 20ms}",
        _ => "10ms",
    }
}

/// Reports what the task lacks and its policy cannot do without.
pub(crate) fn check_needs(reader: &mut Reader, policy: &PolicySpec, task: &Task, name: &str, place: &Place) {
    for key in lacking(policy, task) {
        let policy = policy_name(policy);
        let shares = key == "reservation" && task.server.is_some();
        let more = match &task.arrival {
            _ if shares => "; a server that tasks share is none",
            Arrival::Listed { .. } if key == "period" => "; a task with `releases` or `batch` has none",
            Arrival::Event { .. } if key == "period" => "; the least `distance` of events takes its place",
            _ => "",
        };
        reader.push(
            Diagnostic::error(Code::MissingKey, place, format!("task `{}` has no `{key}`", clipped(name)))
                .label(format!("the policy `{policy}` needs it{more}"))
                .hint(match (shares, &task.arrival) {
                    (true, _) => format!("write `{key}: {}` in place of `server`, or use another policy", example(key)),
                    (_, Arrival::Event { .. }) if key == "period" => {
                        "write `distance: 10ms` into its `event`, or use another policy".to_owned()
                    }
                    _ => format!("add `{key}: {}`, or use another policy", example(key)),
                }),
        );
    }
}

/// Keys of a task that only a simulation carries out.
pub(crate) fn simulated_keys(task: &Task) -> impl Iterator<Item = &'static str> {
    let steps = (!task.program.steps.is_empty()).then_some("steps");
    let execution = (task.program.execution != Execution::Declared).then_some("execution");
    [steps, execution].into_iter().flatten()
}

fn word<T: PartialEq>(known: &[(&'static str, T)], value: T) -> &'static str {
    known.iter().find(|(_, other)| *other == value).map_or("", |(word, _)| word)
}

/// As the file takes it.
pub(crate) fn completion_text(completion: Completion, observed: Option<Observed>) -> &'static str {
    word(&COMPLETION, (completion, observed))
}

/// As the file takes it.
pub(crate) fn client_text(client: Client) -> &'static str {
    word(&CLIENT, client)
}

/// As the file takes it.
pub(crate) fn on_exit_text(rule: OnExit) -> &'static str {
    word(&ON_EXIT, rule)
}

/// As the file takes it.
pub(crate) fn on_abort_text(rule: OnAbort, signal: Option<&str>) -> String {
    let rule = word(&ON_ABORT, rule);
    signal.map_or_else(|| rule.to_owned(), |signal| format!("{rule}={signal}"))
}

/// Reads `finish`, `restart`, `signal` or `signal=NAME`.
fn on_abort(reader: &mut Reader, value: &Node) -> Option<(OnAbort, Option<&'static str>)> {
    let text = reader.scalar(value, "on_abort", "`finish`, `restart`, `signal` or `signal=NAME`")?;
    let Some(name) = text.strip_prefix("signal=") else {
        return reader.choice(value, "on_abort", &ON_ABORT).map(|rule| (rule, None));
    };
    reactions::signal(reader, value, name, "aborted jobs").map(|name| (OnAbort::Signal, Some(name)))
}
