//! The surroundings of a simulated system: `costs`, `steal`, `changes`, and when its clock lets things happen.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::keys::{CHANGE, COSTS, STEAL, names};
use crate::node::{Entry, Node, Place};
use crate::process::EventSource;
use crate::reader::{Bare, Reader, bounded};
use crate::switches::Policies;
use crate::task_names;
use crate::text::clipped;
use crate::value::{MAX_DURATION, parse_signed};
use crate::{MAX_ENTRIES, Workload, domains, steps};
use std::collections::HashMap;
use takt_core::input::Input;
use takt_core::model::{Arrival, Backlog, PolicySpec, System, TaskId, Timing};
use takt_core::scenario::{Costs, Deciding, Scenario, Steal};
use takt_core::time::{Span, Time};

/// The kinds of overhead.
pub(crate) const COST_KEYS: [&str; 7] = {
    let [keys @ .., _] = names(&COSTS);
    keys
};
/// Beside them: whether they count as consumption.
pub(crate) const CONSUMED: &str = COSTS[7].name;
pub(crate) const TIMING_KEYS: [&str; 3] = ["tick", "timer_resolution", "timer_lateness"];
const CHANGE_KEYS: [&str; CHANGE.len()] = names(&CHANGE);
/// A statement about a task, with the key whose `yes` would be the opposite.
const SAID: [(&str, &str); 5] =
    [("block", "wake"), ("wake", "block"), ("enter", "leave"), ("leave", "enter"), ("release", "")];
const CHANGE_HINT: &str = "write `{at: 1s, task: a, share: 0.3}`, or in place of `share` another `period`, `skew: -2ms`, \
     `block: yes`, `wake: yes`, `enter: yes`, `leave: yes` or `release: yes`; or `{at: 1s, policy: {nominal: 6ms}}` or `{at: 1s, policy: g-edf}`";

/// Reads `tick`, `timer_resolution` and `timer_lateness`.
pub(crate) fn timing(reader: &mut Reader, root: &Node) -> Timing {
    let [tick, resolution, lateness] = TIMING_KEYS.map(|key| span_of(reader, root, key));
    Timing { tick, resolution, lateness }
}

/// Keys of the file that only a simulation carries out.
pub(crate) fn simulated_keys(system: &System, scenario: &Scenario) -> impl Iterator<Item = &'static str> {
    let timing = &system.timing;
    let spans = [timing.tick, timing.resolution, timing.lateness];
    let timing = TIMING_KEYS.into_iter().zip(spans).filter(|(_, span)| *span != Span::ZERO).map(|(key, _)| key);
    let load = system.load.as_ref().map(|_| "load");
    let costs = (scenario.costs != Costs::default() || scenario.metered).then_some("costs");
    let deciding = (scenario.deciding != Deciding::default()).then_some("deciding");
    let steal = scenario.steal.map(|_| "steal");
    let changes = (!scenario.changes.is_empty()).then_some("changes");
    timing.chain([load, costs, deciding, steal, changes].into_iter().flatten())
}

/// The duration under a key, zero without it.
fn span_of(reader: &mut Reader, map: &Node, key: &str) -> Span {
    map.get(key).and_then(|e| reader.span(&e.value, key, Bare::Refused, true)).unwrap_or(Span::ZERO)
}

/// Reads `costs`.
/// Also whether they are beside the consumption of jobs.
pub(crate) fn costs(reader: &mut Reader, entry: &Entry) -> (Costs, bool) {
    let node = &entry.value;
    if !reader.is_map(node, "`costs`", "write what a switch costs, as in `costs: {context_switch: 10us}`") {
        return <_>::default();
    }
    let keys: Vec<&str> = COST_KEYS.into_iter().chain([CONSUMED]).collect();
    reader.keys(node, "`costs`", &keys);
    let consumed = node.get(CONSUMED).and_then(|e| reader.boolean(&e.value, CONSUMED)).unwrap_or(true);
    let [context_switch, migration, cache_reload, scheduler, scheduler_task, lock, interrupt] =
        COST_KEYS.map(|key| span_of(reader, node, key));
    (Costs { context_switch, migration, cache_reload, scheduler, scheduler_task, lock, interrupt }, !consumed)
}

/// Reads `steal`.
pub(crate) fn steal(reader: &mut Reader, entry: &Entry) -> Option<Steal> {
    let (node, hint) = (&entry.value, "write `steal: {period: 10ms, length: 100us}`");
    if !reader.is_map(node, "`steal`", hint) {
        return None;
    }
    reader.keys(node, "`steal`", &names(&STEAL));
    let mut part = |key: &str| {
        let value = &reader.required(node, "`steal`", key, "in this mapping", hint)?.value;
        reader.span(value, key, Bare::Refused, false).map(|span| (span, value.span.clone()))
    };
    let (period, length) = (part("period"), part("length"));
    let ((period, at_period), (length, at_length)) = (period?, length?);
    if length > period {
        reader.push(
            Diagnostic::error(Code::OutOfRange, &at_length, "`steal` takes more time than there is")
                .label(format!("longer than its period of {period}"))
                .also(&at_period, "the period")
                .hint("lower `length`, or raise `period`"),
        );
        return None;
    }
    Some(Steal { period, length })
}

/// The request of one entry of `changes`, before the values that it leaves as they are can be known.
enum Wish<'n> {
    Share { task: TaskId, share: Option<u32>, importance: Option<u32> },
    Mode { task: TaskId, period: Option<Span>, deadline: Option<Option<Span>>, runtime: Option<Span>, place: Place },
    Other(Input),
    Release { task: TaskId, place: Place },
    Policy { entry: &'n Entry, domain: Option<(u16, Place)> },
}

/// The subject of a change of mode.
#[derive(Clone, Copy)]
struct Mode {
    period: Span,
    deadline: Option<Span>,
    runtime: Option<Span>,
}

impl Mode {
    fn change(&mut self, period: Option<Span>, deadline: Option<Option<Span>>, runtime: Option<Span>) {
        let implicit = self.deadline == Some(self.period);
        self.period = period.unwrap_or(self.period);
        // A deadline that equals the period keeps equal to it.
        let follows = if implicit { Some(self.period) } else { self.deadline };
        self.deadline = deadline.unwrap_or(follows);
        self.runtime = runtime.or(self.runtime);
    }

    fn check(&self, reader: &mut Reader, name: &str, place: &Place, backlog: Backlog) {
        let name = clipped(name);
        if let (Some(runtime), Some(deadline)) = (self.runtime, self.deadline)
            && runtime > deadline
        {
            reader.push(
                Diagnostic::error(
                    Code::ImpossibleDeadline,
                    place,
                    format!("task `{name}` can never meet its deadline after this change"),
                )
                .label(format!("then its runtime is {runtime} and its deadline {deadline}"))
                .hint(format!("set a `runtime` of at most {deadline}, or a `deadline` of at least {runtime}")),
            );
        }
        if backlog == Backlog::Hartstone && self.deadline.is_some_and(|d| d != self.period) {
            reader.push(
                Diagnostic::error(
                    Code::PresetMismatch,
                    place,
                    format!("task `{name}` does not suit `preset: hartstone` after this change"),
                )
                .label(format!("then its deadline is not its period of {}", self.period))
                .hint("that preset counts a miss for each period that has passed: leave `deadline` out"),
            );
        }
    }
}

/// Reads `changes` and sorts them by time; those of one instant stay in the order of the file. `own` is the file's policy
/// where that of the command line has taken its place: the file's settings are that one's.
pub(crate) fn changes(reader: &mut Reader, entry: &Entry, own: Option<PolicySpec>, workload: &mut Workload) {
    let hint = "write a list of changes such as `- {at: 1s, task: a, share: 0.3}`";
    let names: HashMap<String, TaskId> =
        workload.tasks.iter().enumerate().map(|(i, t)| (t.name.clone(), TaskId(i as u32))).collect();
    let mut wishes: Vec<(Span, Wish<'_>)> = Vec::new();
    for node in bounded(reader, &entry.value, "changes", hint, MAX_ENTRIES).unwrap_or_default() {
        change(reader, node, &names, &workload.domains, workload.settings.duration, &mut wishes);
    }
    wishes.sort_by_key(|(at, _)| *at);
    // A value that a change does not name stays as it is at that time.
    let mut shares: HashMap<TaskId, (Option<u32>, u32)> = HashMap::new();
    let mut modes: HashMap<TaskId, Mode> = HashMap::new();
    let mut policies = Policies::new(workload.system.policy, own);
    let mut changes: Vec<(Time, Input)> = Vec::new();
    for (at, wish) in wishes {
        let change = match wish {
            Wish::Other(change) => change,
            Wish::Release { task, place } => {
                if !matches!(workload.system.tasks[task.index()].arrival, Arrival::Event { .. }) {
                    let name = clipped(&workload.tasks[task.index()].name);
                    let message = format!("jobs of task `{name}` are not released by events");
                    let fault = Diagnostic::error(Code::NotSupportedHere, &place, message);
                    reader.push(
                        fault
                            .label("its releases are planned")
                            .hint("give the task `event: yes`, or remove this change"),
                    );
                    continue;
                }
                let by_program = match workload.tasks[task.index()].event.as_deref() {
                    Some(EventSource::Segments) => Some(("begins its segments", "a segment without its program")),
                    Some(EventSource::WakeUp) => Some(("wakes up", "a wake-up without its program")),
                    _ => None,
                };
                if let Some((does, label)) = by_program {
                    let name = clipped(&workload.tasks[task.index()].name);
                    let message = format!("only the program of task `{name}` {does}");
                    let fault = Diagnostic::error(Code::NotSupportedHere, &place, message);
                    reader.push(fault.label(label).hint("write `releases` into its `event` for a simulation"));
                    continue;
                }
                Input::Release { task }
            }
            Wish::Share { task, share, importance } => {
                let of = &workload.system.tasks[task.index()];
                let now = shares.entry(task).or_insert((of.share, of.importance));
                *now = (share.or(now.0), importance.unwrap_or(now.1));
                Input::Share { task, share: now.0, importance: now.1 }
            }
            Wish::Mode { task, period, deadline, runtime, place } => {
                let (of, name) = (&workload.system.tasks[task.index()], &workload.tasks[task.index()].name);
                let events = matches!(of.arrival, Arrival::Event { .. });
                let Some(before) = of.arrival.period().filter(|_| !events) else {
                    reader.push(
                        Diagnostic::error(
                            Code::NotSupportedHere,
                            &place,
                            format!("task `{}` has no period that could change", clipped(name)),
                        )
                        .label("its releases are a list, events, or those of its windows")
                        .hint("to let it come and go, write `enter: yes` and `leave: yes`"),
                    );
                    continue;
                };
                let first = Mode { period: before, deadline: of.deadline, runtime: of.runtime };
                let mode = modes.entry(task).or_insert(first);
                mode.change(period, deadline, runtime);
                mode.check(reader, name, &place, workload.system.backlog);
                let Mode { period, deadline, runtime } = *mode;
                Input::Retime { task, period, deadline, runtime }
            }
            Wish::Policy { entry: policy, domain } => {
                let found = policies.change(reader, policy, domain, entry, workload);
                changes.extend(found.into_iter().map(|change| (Time::ZERO + at, change)));
                continue;
            }
        };
        changes.push((Time::ZERO + at, change));
    }
    workload.scenario.changes = changes;
}

/// Reads one entry of `changes`.
fn change<'n>(
    reader: &mut Reader,
    node: &'n Node,
    names: &HashMap<String, TaskId>,
    domains: &[String],
    duration: Option<Span>,
    wishes: &mut Vec<(Span, Wish<'n>)>,
) {
    if !reader.is_map(node, "a change", CHANGE_HINT) {
        return;
    }
    let faults = reader.diagnostics.len();
    reader.keys(node, "a change", &CHANGE_KEYS);
    let hint = "add the time when it happens, as in `at: 1s`";
    let at = reader.required(node, "a change", "at", "in this change", hint);
    let at = at.and_then(|e| Some((reader.span(&e.value, "at", Bare::Refused, true)?, &e.value.span)));
    if let (Some((at, place)), Some(duration)) = (at, duration)
        && at >= duration
    {
        reader.push(
            Diagnostic::warning(Code::NeverReached, place, "a change comes after the end")
                .label(format!("the `duration` is {duration}"))
                .hint("raise `duration`, or remove the change"),
        );
    }
    let known = node.entries().iter().all(|e| CHANGE_KEYS.contains(&e.key.as_str()));
    let task = node.get("task").and_then(|e| task_called(reader, e, names));
    let share = node.get("share").map(|e| steps::share(reader, &e.value));
    let importance = node.get("importance").map(|e| steps::importance(reader, &e.value));
    let mut span = |key: &str| node.get(key).map(|e| reader.span(&e.value, key, Bare::Refused, false));
    let (period, runtime) = (span("period"), span("runtime"));
    let deadline = node.get("deadline").map(|e| steps::deadline(reader, &e.value));
    let skew = node.get("skew").map(|e| skew(reader, &e.value));
    let said: Vec<&str> = SAID.iter().filter_map(|(key, other)| said(reader, node.get(key)?, other)).collect();
    let domain = node.get("domain").and_then(|e| domain_called(reader, e, domains));
    let policy = node.get("policy");
    let shared = share.is_some() || importance.is_some();
    let mode = period.is_some() || runtime.is_some() || deadline.is_some();
    let of_task = [shared, mode, skew.is_some()].into_iter().filter(|k| *k).count() + said.len();
    let sound = known && said.len() == SAID.iter().filter(|(key, _)| node.get(key).is_some()).count();
    if let (Some(entry), None) = (node.get("domain"), policy) {
        let fault = Diagnostic::error(Code::MissingKey, &entry.key_span, "a change with a `domain` has no `policy`");
        reader.push(
            fault.label("what should change there?").hint("add the policy that takes over, as in `policy: g-edf`"),
        );
        return;
    }
    if sound {
        one_thing(reader, node, of_task);
    }
    if reader.diagnostics[faults..].iter().any(|d| d.severity == crate::Severity::Error) {
        return;
    }
    let Some((at, _)) = at else { return };
    if let Some(entry) = policy {
        wishes.push((at, Wish::Policy { entry, domain }));
        return;
    }
    let Some(task) = task else { return };
    let wish = match (said.first().copied(), skew.flatten()) {
        (Some("block"), _) => Wish::Other(Input::Block { task }),
        (Some("wake"), _) => Wish::Other(Input::Wake { task }),
        (Some("enter"), _) => Wish::Other(Input::Enter { task }),
        (Some("release"), _) => Wish::Release { task, place: node.head() },
        (Some(_), _) => Wish::Other(Input::Leave { task }),
        (None, Some(by)) => Wish::Other(Input::Skew { task, by }),
        (None, None) if mode => {
            let (period, deadline, runtime) = (period.flatten(), deadline.flatten(), runtime.flatten());
            Wish::Mode { task, period, deadline, runtime, place: node.head() }
        }
        (None, None) => Wish::Share { task, share: share.flatten(), importance: importance.flatten() },
    };
    wishes.push((at, wish));
}

/// Reports a change that is not just one thing, or is of a task and does not say of which. `of_task` counts what it says that is
/// of one.
fn one_thing(reader: &mut Reader, node: &Node, of_task: usize) {
    let place = node.head();
    match (node.get("task"), node.get("policy")) {
        (Some(_), None) if of_task == 1 => {}
        (None, Some(_)) if of_task == 0 => {}
        (None, _) if of_task > 0 => {
            let fault = Diagnostic::error(Code::MissingKey, &place, "a change has no `task`")
                .label("a share, a skew or a state belongs to a task");
            reader.push(fault.hint(CHANGE_HINT));
        }
        (task, _) => {
            let what = node.entries().iter().filter(|e| !["at", "task", "domain"].contains(&e.key.as_str())).count();
            let message = if what == 0 { "a change changes nothing" } else { "a change must be one thing" };
            let code = if what == 0 { Code::MissingKey } else { Code::ConflictingKeys };
            let label = match (task, what) {
                (None, 0) => "neither a `task` nor a `policy`",
                (Some(_), 0) => "nothing is said of the task but its name",
                _ => "more than one in here",
            };
            let hint = if what == 0 { CHANGE_HINT } else { "write several changes with the same `at`" };
            reader.push(Diagnostic::error(code, &place, message).label(label).hint(hint));
        }
    }
}

fn task_called(reader: &mut Reader, entry: &Entry, names: &HashMap<String, TaskId>) -> Option<TaskId> {
    let name = reader.scalar(&entry.value, "task", "the name of a task")?.to_owned();
    task_names::called(reader, &name, &entry.value.span, names)
}

fn domain_called(reader: &mut Reader, entry: &Entry, domains: &[String]) -> Option<(u16, Place)> {
    let (name, place) = (reader.scalar(&entry.value, "domain", "the name of a domain")?, entry.value.span.clone());
    let fault = match domains.iter().position(|domain| domain == name) {
        Some(index) => return Some((index as u16, place)),
        None if domains.is_empty() => {
            Diagnostic::error(Code::MissingKey, &entry.key_span, "a change has a `domain`, and the file no `domains`")
                .label("there is none")
                .hint("leave it out: then the policy of all tasks is switched")
        }
        None => domains::unknown(reader, name, &place, domains.iter().map(String::as_str)),
    };
    reader.push(fault);
    None
}

/// A duration that may be negative.
fn skew(reader: &mut Reader, node: &Node) -> Option<Span> {
    let text = reader.scalar(node, "skew", "a duration such as `-2ms`")?;
    let why = match parse_signed(text) {
        Ok(span) if span <= MAX_DURATION && -span <= MAX_DURATION => return Some(span),
        Ok(_) => "longer than a year".to_owned(),
        Err(why) => why,
    };
    reader.push(
        Diagnostic::error(Code::WrongType, &node.span, "`skew` must be a duration such as `-2ms` or `500us`")
            .label(why),
    );
    None
}

/// The key, if it says `yes`, the only thing that changes anything.
fn said<'n>(reader: &mut Reader, entry: &'n Entry, other: &str) -> Option<&'n str> {
    if reader.boolean(&entry.value, &entry.key)? {
        return Some(&entry.key);
    }
    reader.push(
        Diagnostic::error(Code::NoEffect, &entry.value.span, format!("`{}: no` changes nothing", entry.key))
            .label("something must happen")
            .hint(match other {
                "" => format!("write `{}: yes`", entry.key),
                other => format!("write `{}: yes`, or `{other}: yes`", entry.key),
            }),
    );
    None
}
