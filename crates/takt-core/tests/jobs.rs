//! How jobs come, end, are aborted and share resources, each in an example by hand. All times are nanoseconds.

use takt_core::cpus::CpuSet;
use takt_core::engine::{Activity, Command, Ending, Engine, Input};
use takt_core::model::*;
use takt_core::model::{CpuTest, PolicySpec, Profile, Scope};
use takt_core::policy::{Build, Context, Decision, Entry, Event, Policy, Registry};
use takt_core::record::{JobId, Outcome, Place, Record, RecordKind, Sink};
use takt_core::time::{Span, Time};

const A: TaskId = TaskId(0);
const B: TaskId = TaskId(1);
const C: TaskId = TaskId(2);
const R: ResourceId = ResourceId(0);
const S: ResourceId = ResourceId(1);

fn ns(ns: i64) -> Span {
    Span::from_ns(ns)
}

/// The completion of the job whose work the task's program is at then, which [`play`] fills in.
fn done(task: TaskId) -> Input {
    Input::Complete { task, job: JobId::MAX }
}

fn ask(task: TaskId, resource: ResourceId) -> Input {
    Input::Lock { task, resource }
}

fn give(task: TaskId, resource: ResourceId) -> Input {
    Input::Unlock { task, resource }
}

fn periodic(period: i64, deadline: i64, priority: u32) -> Task {
    let arrival = Arrival::Periodic { offset: ns(0), period: ns(period) };
    Task { arrival, deadline: Some(ns(deadline)), priority, ..Task::default() }
}

fn once(instants: &[i64], priority: u32) -> Task {
    let instants = instants.iter().map(|i| ns(*i)).collect();
    Task { arrival: Arrival::Listed { instants }, priority, ..Task::default() }
}

/// A system of these tasks under fixed priorities on one CPU.
fn system(tasks: Vec<Task>) -> System {
    let fp = PolicySpec::from_name("fp").expect("fp");
    System { tasks, resources: 2, ..System::new(CpuSet::first(1), fp) }
}

/// Lines such as `5 finish a0 Aborted`, the response times, and lines such as `5 a Resumed` for the commands that give a program
/// work, or `5 a replaced`.
#[derive(Default)]
struct Story {
    lines: Vec<String>,
    responses: Vec<(u32, i64)>,
    works: Vec<String>,
}

impl Story {
    fn obey(&mut self, now: Time, commands: &[Command]) {
        for command in commands {
            let (task, work) = match *command {
                Command::Start { task, work, .. }
                | Command::Move { task, work, .. }
                | Command::Continue { task, work, .. } => (task, Some(work)),
                Command::Replace { task } => (task, None),
                Command::Stop { .. } | Command::Frequency { .. } | Command::IdleLatency { .. } => continue,
            };
            let work = work.map_or("replaced".to_owned(), |work: Activity| format!("{work:?}"));
            self.works.push(format!("{} {} {work}", now.ns(), char::from(b'a' + task.0 as u8)));
        }
    }
}

impl Sink for Story {
    fn record(&mut self, record: Record) {
        let name = |task: TaskId| char::from(b'a' + task.0 as u8);
        let at = |deadline: Option<Time>| deadline.map_or("never".to_owned(), |d| d.ns().to_string());
        let resource = |r: ResourceId| char::from(b'R' + r.0 as u8);
        let text = match record.kind {
            RecordKind::Release { task, job, deadline } => format!("release {}{job} by {}", name(task), at(deadline)),
            RecordKind::Start { task, job, .. } => format!("start {}{job}", name(task)),
            RecordKind::Finish { task, job, outcome, .. } => format!("finish {}{job} {outcome:?}", name(task)),
            RecordKind::Handler { task, job, deadline } => format!("handler {}{job} by {}", name(task), at(deadline)),
            RecordKind::HandlerEnd { task, job, consumed } => {
                format!("handled {}{job} after {}", name(task), consumed.ns())
            }
            RecordKind::Lock { task, resource: r, granted: true } => format!("{} has {}", name(task), resource(r)),
            RecordKind::Lock { task, resource: r, .. } => format!("{} wants {}", name(task), resource(r)),
            RecordKind::Unlock { task, resource: r } => format!("{} returns {}", name(task), resource(r)),
            RecordKind::Withdraw { task, resource: r } => format!("{} withdraws {}", name(task), resource(r)),
            RecordKind::Deadlock { task, resource: r } => format!("deadlock: {} wants {}", name(task), resource(r)),
            RecordKind::LateSignal { task, job } => format!("late signal {}{job}", name(task)),
            RecordKind::Exit { task, failed: false } => format!("exit {}", name(task)),
            RecordKind::Exit { task, failed: true } => format!("exit {} failed", name(task)),
            RecordKind::Behind { task, job, abandoned } => format!("{0}{job} behind {0}{abandoned}", name(task)),
            _ => return,
        };
        self.lines.push(format!("{} {text}", record.at.ns()));
    }
    fn response(&mut self, task: TaskId, response: Span) {
        self.responses.push((task.0, response.ns()));
    }
}

fn named(engine: &Engine, input: Input) -> Input {
    match input {
        Input::Complete { task, job: JobId::MAX } => Input::Complete { task, job: engine.at(task).unwrap_or(0) },
        input => input,
    }
}

/// Plays inputs at their instants, and lets the engine do what is due before `end`.
fn play(engine: &mut Engine, inputs: &[(i64, Input)], end: i64) -> Story {
    let mut story = Story::default();
    let mut rest = inputs;
    loop {
        let next = rest.first().map(|i| Time::from_ns(i.0));
        let Some(now) = engine.next_due().into_iter().chain(next).min().filter(|now| now.ns() < end) else { break };
        let (seen, later) = rest.split_at(rest.partition_point(|i| i.0 <= now.ns()));
        rest = later;
        let seen: Vec<Input> = seen.iter().map(|i| named(engine, i.1)).collect();
        let commands = engine.step(now, &seen, &mut story).commands.to_vec();
        story.obey(now, &commands);
    }
    let last: Vec<Input> = rest.iter().map(|i| named(engine, i.1)).collect();
    engine.close(Time::from_ns(end), &last, &mut story);
    story
}

fn tell(system: System, inputs: &[(i64, Input)], end: i64) -> (Story, Engine) {
    let mut engine = Engine::new(system).expect("a sound system");
    let story = play(&mut engine, inputs, end);
    (story, engine)
}

/// The events of releases and ends.
fn ends(story: &Story) -> Vec<&str> {
    let kept = |line: &&str| ["release", "finish", "handle"].iter().any(|word| line.contains(word));
    story.lines.iter().map(String::as_str).filter(kept).collect()
}

#[test]
fn by_chronos_rule_a_late_job_calls_its_successor() {
    let rule = |backlog, deadline| System { backlog, ..system(vec![periodic(10, deadline, 0)]) };
    // Job 0 ends at 13; job 1, which has waited since 10, counts as released then. It ends in time, so job 2 comes in time.
    let inputs = [(13, done(A)), (18, done(A)), (25, done(A))];
    let (story, engine) = tell(rule(Backlog::Chronos, 10), &inputs, 30);
    assert_eq!(story.responses, [(0, 13), (0, 5), (0, 5)]);
    assert_eq!((engine.counts(A).met, engine.counts(A).missed), (2, 1));
    let (story, _) = tell(rule(Backlog::Queue, 10), &inputs, 30);
    assert_eq!(story.responses, [(0, 13), (0, 8), (0, 5)]);
    // A deadline before the period: job 0 is late at 7 and job 1 comes at once, with its deadline on the grid.
    let (story, engine) = tell(rule(Backlog::Chronos, 5), &[(7, done(A)), (11, done(A)), (24, done(A))], 40);
    let expected = ["0 release a0 by 5", "7 finish a0 Completed", "7 release a1 by 15", "11 finish a1 Completed"];
    let rest = ["20 release a2 by 25", "24 finish a2 Completed", "30 release a3 by 35"];
    assert_eq!(ends(&story), [&expected[..], &rest].concat(), "{:?}", story.lines);
    assert_eq!(story.responses, [(0, 7), (0, 4), (0, 4)]);
    assert_eq!((engine.counts(A).met, engine.counts(A).missed), (2, 2));
}

#[test]
fn by_chronos_rule_an_aborted_job_calls_its_successor_after_its_handler() {
    let mut tasks = vec![periodic(10, 5, 0)];
    let rules = |tasks| System { backlog: Backlog::Chronos, late: Late::Abort, ..system(tasks) };
    let (story, _) = tell(rules(tasks.clone()), &[(9, done(A))], 12);
    let expected = ["0 release a0 by 5", "5 finish a0 Aborted", "5 release a1 by 15", "9 finish a1 Completed"];
    assert_eq!(ends(&story), expected);
    tasks[0].handler = Some(Handler { runtime: ns(2), deadline: None, utility: 0 });
    let (story, _) = tell(rules(tasks), &[(7, done(A))], 9);
    let expected = ["0 release a0 by 5", "5 finish a0 Aborted", "5 handler a0 by never", "7 handled a0 after 2"];
    assert_eq!(ends(&story), [&expected[..], &["7 release a1 by 15"]].concat());
}

#[test]
fn hartstone_counts_periods_by_its_clock() {
    let rule = |tick| {
        let timing = Timing { tick: ns(tick), ..Timing::default() };
        System { backlog: Backlog::Hartstone, timing, ..system(vec![periodic(10, 10, 0)]) }
    };
    for (tick, end, missed, next) in [
        // The end of one period has passed, then that of two.
        (0, 13, 1, "13 release a1 by 20"),
        (0, 23, 2, "23 release a2 by 30"),
        // To a clock with this tick it is still 10 or 20 at the end: nothing is late, or the next job is in its last instant.
        (5, 14, 0, "14 release a1 by 20"),
        (5, 15, 1, "15 release a1 by 20"),
        (5, 24, 1, "24 release a1 by 20"),
        (5, 25, 2, "25 release a2 by 30"),
    ] {
        let (story, engine) = tell(rule(tick), &[(end, done(A))], 29);
        assert_eq!(engine.counts(A).missed, missed, "tick {tick}, end {end}: {:?}", story.lines);
        assert_eq!(ends(&story).last(), Some(&next), "tick {tick}, end {end}: {:?}", story.lines);
    }
    // A job that does not end is not noticed, and no other one comes.
    let (story, engine) = tell(rule(0), &[], 100);
    assert_eq!((ends(&story).len(), engine.counts(A).missed), (1, 0));
}

#[test]
fn a_handler_runs_by_its_own_deadline_and_is_not_aborted() {
    for (deadline, by) in [(None, "never"), (Some(ns(3)), "8")] {
        let mut task = periodic(20, 5, 0);
        task.handler = Some(Handler { runtime: ns(4), deadline, utility: 0 });
        let late = Late::Abort;
        let (story, engine) = tell(System { late, ..system(vec![task]) }, &[(9, done(A))], 20);
        let expected =
            ["0 release a0 by 5", "5 finish a0 Aborted", &format!("5 handler a0 by {by}"), "9 handled a0 after 4"];
        assert_eq!(ends(&story), expected);
        let counts = engine.counts(A);
        assert_eq!((counts.released, counts.missed, counts.aborted, counts.completed), (1, 1, 1, 0));
        assert!(story.responses.is_empty(), "an aborted job does not respond");
    }
}

#[test]
fn a_handler_keeps_what_its_job_held() {
    let mut low = once(&[0], 1);
    low.handler = Some(Handler { runtime: ns(4), deadline: None, utility: 0 });
    let tasks = vec![low, once(&[2], 2)];
    let inputs = [(1, ask(A, R)), (3, ask(B, R)), (5, Input::Abort { task: A }), (9, done(A)), (11, done(B))];
    let (story, _) = tell(system(tasks), &inputs, 20);
    let expected = [
        "0 release a0 by never",
        "0 start a0",
        "1 a has R",
        "2 release b0 by never",
        "2 start b0",
        "3 b wants R",
        "3 start a0",
        "5 finish a0 Aborted",
        "5 handler a0 by never",
        "5 start a0",
        "9 handled a0 after 4",
        "9 a returns R",
        "9 b has R",
        "9 start b0",
        "11 finish b0 Completed",
        "11 b returns R",
    ];
    assert_eq!(story.lines, expected);
}

#[test]
fn an_aborted_job_waits_no_longer() {
    let mut high = once(&[2], 2);
    high.handler = Some(Handler { runtime: ns(1), deadline: None, utility: 0 });
    let tasks = vec![once(&[0], 1), high];
    let inputs = [(1, ask(A, R)), (3, ask(B, R)), (5, Input::Abort { task: B }), (6, done(B)), (7, give(A, R))];
    let (story, engine) = tell(system(tasks), &inputs, 20);
    assert_eq!(
        story.lines[6..],
        [
            "3 start a0",
            "5 finish b0 Aborted",
            "5 handler b0 by never",
            "5 start b0",
            "6 handled b0 after 1",
            "6 start a0",
            "7 a returns R"
        ]
    );
    assert!(!engine.waits(B));
}

fn drop_request(task: TaskId, resource: ResourceId) -> Input {
    Input::Withdraw { task, resource }
}

/// The holder inherits from a chain of waiters, and is as urgent as before when the last one of it withdraws its request.
#[test]
fn a_request_that_is_withdrawn_puts_back_what_was_inherited() {
    let tasks = vec![once(&[0], 1), once(&[2], 2), once(&[4], 4), once(&[6], 3)];
    let d = TaskId(3);
    let inputs = [
        (1, ask(A, R)),
        (3, ask(B, S)),
        (3, ask(B, R)),
        // c waits for b, which waits for a: from here on a is as urgent as c.
        (5, ask(C, S)),
        (7, drop_request(C, S)),
        (8, done(C)),
        (9, done(d)),
        (10, give(A, R)),
        (11, give(B, S)),
    ];
    let inherits = System { locking: Locking::Inheritance, ..system(tasks) };
    let (story, engine) = tell(inherits, &inputs, 12);
    let expected = [
        "3 b wants R",
        "3 start a0",
        "4 release c0 by never",
        "4 start c0",
        "5 c wants S",
        "5 start a0",
        "6 release d0 by never",
        "7 c withdraws S",
        "7 start c0",
        "8 finish c0 Completed",
        // Neither a nor b has the urgency of c any longer.
        "8 start d0",
        "9 finish d0 Completed",
        // That of b is with a still.
        "9 start a0",
        "10 a returns R",
        "10 b has R",
        "10 start b0",
        "11 b returns S",
    ];
    let from = story.lines.iter().position(|line| line == expected[0]).expect("b asks");
    assert_eq!(story.lines[from..], expected);
    assert_eq!(engine.waits_for(C), None);
}

#[test]
fn a_withdrawal_leaves_the_other_waiters_in_their_order() {
    for locking in [Locking::Fifo, Locking::Inheritance, Locking::Ceiling] {
        let tasks = vec![once(&[0], 4), once(&[0], 3), once(&[0], 2), once(&[0], 1)];
        let d = TaskId(3);
        let asked = [ask(A, R), ask(B, R), ask(C, R), ask(d, R)].map(|input| (1, input));
        let inputs = [&asked[..], &[(2, drop_request(B, R)), (3, done(A)), (4, done(C))]].concat();
        let (story, _) = tell(System { locking, ..system(tasks) }, &inputs, 5);
        let about = |line: &&String| line.contains("has R") || line.contains("withdraws");
        let kept: Vec<&String> = story.lines.iter().filter(about).collect();
        // b, which waits no longer, runs from 3 on, and the resource passes it by.
        let expected: &[&str] = &["1 a has R", "2 b withdraws R", "3 c has R"];
        assert_eq!(kept, expected, "{locking:?}");
    }
}

/// The task has the resource by then, waits for another one, or for none.
#[test]
fn a_withdrawal_of_no_request_changes_nothing() {
    let tasks = vec![once(&[0], 1), once(&[2], 2)];
    let before = [(1, ask(A, R)), (3, ask(B, R))];
    let after = [(5, give(A, R)), (7, done(B)), (8, done(A))];
    let plain: Vec<_> = before.into_iter().chain(after).collect();
    let with = |at: i64, input: Input| {
        let mut all = plain.clone();
        all.push((at, input));
        all.sort_by_key(|(at, _)| *at);
        all
    };
    let expected = tell(system(tasks.clone()), &plain, 20).0.lines;
    for (at, input) in
        [(2, drop_request(B, R)), (4, drop_request(B, S)), (4, drop_request(A, R)), (5, drop_request(B, R))]
    {
        assert_eq!(tell(system(tasks.clone()), &with(at, input), 20).0.lines, expected, "{input:?} at {at}");
    }
}

/// A job that slept when it asked is ready, and its deadlock has ended.
#[test]
fn a_withdrawal_ends_a_deadlock() {
    let tasks = vec![once(&[0], 1), once(&[0], 2)];
    let asked = [ask(A, R), ask(B, S), Input::Block { task: B }, ask(A, S), ask(B, R)].map(|input| (1, input));
    let inputs = [&asked[..], &[(3, drop_request(B, R)), (4, give(B, S)), (5, done(B)), (6, done(A))]].concat();
    for locking in [Locking::Fifo, Locking::Inheritance] {
        let (story, engine) = tell(System { locking, ..system(tasks.clone()) }, &inputs, 9);
        let from = story.lines.iter().position(|line| line.contains("deadlock")).expect("a cycle");
        let expected = [
            "1 deadlock: b wants R",
            "3 b withdraws R",
            "3 start b0",
            "4 b returns S",
            "4 a has S",
            "5 finish b0 Completed",
            "5 start a0",
        ];
        assert_eq!(story.lines[from..from + expected.len()], expected, "{locking:?}");
        assert_eq!((engine.deadlocks(), engine.counts(A).completed), (1, 1));
    }
}

/// A completion that comes when the job has been aborted and its handler has not run yet is that job's.
#[test]
fn a_late_signal_of_an_aborted_job_carries_its_number() {
    let mut task = once(&[0, 10], 1);
    task.handler = Some(Handler { runtime: ns(1), deadline: None, utility: 0 });
    let inputs = [(3, done(A)), (12, Input::Abort { task: A }), (12, done(A))];
    let (story, _) = tell(system(vec![task]), &inputs, 20);
    assert!(story.lines.contains(&"12 late signal a1".to_owned()), "{:?}", story.lines);
}

#[test]
fn sporadic_releases_are_drawn_by_seed_task_and_job() {
    let task = Task { arrival: Arrival::Sporadic { offset: ns(3), period: ns(10), spread: ns(7) }, ..Task::default() };
    let releases = |seed, tick| {
        let timing = Timing { tick: ns(tick), ..Timing::default() };
        let tasks = vec![task.clone(), task.clone()];
        let (story, _) = tell(System { seed, timing, ..system(tasks) }, &[], 2000);
        let of = |name: &str| -> Vec<i64> {
            let lines = story.lines.iter().filter(|l| l.contains(&format!("release {name}")));
            lines.map(|l| l.split(' ').next().expect("an instant").parse().expect("a number")).collect()
        };
        (of("a"), of("b"))
    };
    let (first, second) = releases(7, 0);
    assert_eq!((first[0], second[0]), (3, 3));
    let mut seen = [0; 8];
    for gap in first.windows(2).map(|w| w[1] - w[0]) {
        assert!((10..=17).contains(&gap), "{gap}");
        seen[(gap - 10) as usize] += 1;
    }
    assert!(seen.iter().all(|n| *n > 0), "every gap comes: {seen:?}");
    assert_ne!(first, second);
    assert_eq!(releases(7, 0), (first.clone(), second.clone()));
    assert_ne!(releases(8, 0).0, first);
    // A tick shows releases later and plans none of them otherwise.
    let (ticked, _) = releases(7, 4);
    assert!(first.starts_with(&ticked) && ticked.len() + 1 >= first.len());
}

#[test]
fn listed_jobs_come_when_the_list_says() {
    let (story, engine) = tell(system(vec![once(&[2, 5, 5, 9], 1), once(&[], 1)]), &[(4, done(A)), (6, done(A))], 20);
    let lines = ["2 release a0 by never", "4 finish a0 Completed", "5 release a1 by never", "5 release a2 by never"];
    assert_eq!(ends(&story), [&lines[..], &["6 finish a1 Completed", "9 release a3 by never"]].concat());
    assert_eq!((engine.counts(A).released, engine.counts(B).released), (4, 0));
    let (story, _) = tell(System { backlog: Backlog::Skip, ..system(vec![once(&[0, 0], 1)]) }, &[], 5);
    assert_eq!(ends(&story), ["0 release a0 by never", "0 release a1 by never", "0 finish a1 Skipped"]);
}

/// A tick shows releases and deadlines late; the instants themselves stay as planned.
#[test]
fn a_tick_shows_releases_and_deadlines_late() {
    let timing = Timing { tick: ns(4), ..Timing::default() };
    let mut task = periodic(10, 5, 0);
    task.arrival = Arrival::Periodic { offset: ns(1), period: ns(10) };
    let late = Late::Abort;
    let (story, _) = tell(System { timing, late, ..system(vec![task]) }, &[(14, done(A))], 20);
    let expected = ["1 release a0 by 6", "4 start a0", "8 finish a0 Aborted", "11 release a1 by 16", "12 start a1"];
    assert_eq!(story.lines, [&expected[..], &["14 finish a1 Completed"]].concat());
}

#[test]
fn budgets_end_later_or_earlier_by_their_skew() {
    let over = |skew: &[(i64, i64)], timing| {
        let mut task = once(&[0], 1);
        task.budget = Some(ns(10));
        let inputs: Vec<(i64, Input)> =
            skew.iter().map(|&(at, by)| (at, Input::Skew { task: A, by: ns(by) })).collect();
        let (story, _) = tell(System { timing, ..system(vec![task]) }, &inputs, 50);
        story.lines.last().expect("an end").clone()
    };
    let exact = Timing::default();
    assert_eq!(over(&[], exact), "10 finish a0 Aborted");
    assert_eq!(over(&[(0, 3)], exact), "13 finish a0 Aborted");
    assert_eq!(over(&[(0, -4)], exact), "6 finish a0 Aborted");
    // It changes budgets that run, too; what has been used is used.
    assert_eq!(over(&[(8, 3)], exact), "13 finish a0 Aborted");
    assert_eq!(over(&[(8, -4)], exact), "8 finish a0 Aborted");
    assert_eq!(over(&[(0, 3), (5, 0)], exact), "10 finish a0 Aborted");
    // Whatever it is, half of it runs: or a policy could grant one budget after the other in ever shorter pieces.
    assert_eq!(over(&[(0, -40)], exact), "5 finish a0 Aborted");
    assert_eq!(over(&[(7, -40)], exact), "7 finish a0 Aborted");
    assert_eq!(over(&[(0, 3)], Timing { resolution: ns(8), ..exact }), "16 finish a0 Aborted");
}

/// Bursts of a job that always wants to run, or of one with a budget of its own, do not become shorter and shorter.
#[test]
fn bursts_that_end_early_do_not_end_at_once() {
    let ms = Span::from_ms;
    for (policy, budget) in [("ipi", None), ("ipi", Some(ms(500))), ("rr", None)] {
        let mut task = once(&[0], 1);
        (task.share, task.budget) = (Some(500_000), budget);
        let spec = PolicySpec::from_name(policy).expect("a policy");
        let system = System { tasks: vec![task.clone(), task], ..System::new(CpuSet::first(1), spec) };
        let mut engine = Engine::new(system).expect("a sound system");
        let skew = [Input::Skew { task: A, by: ms(-20) }, Input::Skew { task: B, by: ms(-2000) }];
        let (mut now, mut steps, mut inputs) = (Time::ZERO, 0, &skew[..]);
        let mut records: Vec<Record> = Vec::new();
        while now < Time::ZERO + ms(1000) {
            let _ = engine.step(now, core::mem::take(&mut inputs), &mut records);
            steps += 1;
            assert!(steps < 10_000, "{policy} {budget:?}: {steps} steps until {now}");
            let Some(due) = engine.next_due() else { break };
            now = due;
        }
        assert!(steps > 10, "{policy} {budget:?}: {steps} steps");
    }
}

/// The numbers of jobs that were aborted, of fifty that each need twelve milliseconds.
fn aborted(policy: &str, jitter: Span, seed: u64) -> Vec<u64> {
    let (period, need) = (Span::from_ms(20), Span::from_ms(12));
    let arrival = Arrival::Periodic { offset: Span::ZERO, period };
    let (deadline, runtime, budget) = (Some(period), Some(need), Some(need));
    let task = Task { arrival, deadline, runtime, budget, jitter, ..Task::default() };
    let spec = PolicySpec::from_name(policy).expect("a policy");
    let system = System { tasks: vec![task], seed, ..System::new(CpuSet::first(1), spec) };
    let mut engine = Engine::new(system).expect("a sound system");
    let mut records: Vec<Record> = Vec::new();
    let end = Time::ZERO + period * 50;
    loop {
        // When the running job is through.
        let left = engine.job(A).map(|job| need - job.consumed.nominal_time());
        let over = left.filter(|_| !engine.running().is_empty()).map(|left| engine.now() + left);
        let Some(now) = engine.next_due().into_iter().chain(over).min().filter(|now| *now < end) else { break };
        let inputs: &[Input] = if over == Some(now) { &[named(&engine, done(A))] } else { &[] };
        let _ = engine.step(now, inputs, &mut records);
    }
    assert_eq!(engine.counts(A).released, 50, "{policy}");
    let aborted = records.iter().filter_map(|r| match r.kind {
        RecordKind::Finish { job, outcome: Outcome::Aborted, .. } => Some(job),
        _ => None,
    });
    aborted.collect()
}

#[test]
fn the_budget_of_each_job_is_drawn() {
    for policy in ["edf", "rm", "fifo", "llref", "pd2", "ipi"] {
        let ms = Span::from_ms;
        assert_eq!(aborted(policy, Span::ZERO, 1), [], "{policy}");
        let some = aborted(policy, ms(12), 1);
        assert!((10..=40).contains(&some.len()), "{policy}: {some:?}");
        assert_eq!(aborted(policy, ms(12), 1), some, "{policy}");
        assert_ne!(aborted(policy, ms(12), 2), some, "{policy}");
        // Down to nothing, which is a nanosecond.
        assert!(aborted(policy, ms(24), 1).len() > 10, "{policy}");
    }
    assert_eq!(aborted("edf", Span::from_ms(12), 1), aborted("ipi", Span::from_ms(12), 1));
}

#[test]
fn locks_go_to_the_next_job() {
    // d holds the resource; a, b and c ask for it in this order, and b is the most urgent.
    let tasks = || vec![once(&[2], 2), once(&[4], 4), once(&[6], 3), once(&[0], 1)];
    let d = TaskId(3);
    let inputs = [(1, ask(d, R)), (3, ask(A, R)), (5, ask(B, R)), (6, ask(C, R)), (8, give(d, R))];
    for (locking, next) in [(Locking::Fifo, "a"), (Locking::Inheritance, "b"), (Locking::Ceiling, "b")] {
        let (story, _) = tell(System { locking, ..system(tasks()) }, &inputs, 9);
        let handed = story.lines.iter().position(|l| l == "8 d returns R").expect("it returns it");
        assert_eq!(story.lines[handed + 1], format!("8 {next} has R"), "{locking:?}: {:?}", story.lines);
    }
}

#[test]
fn a_deadlock_is_reported_where_the_circle_closes() {
    let tasks = vec![once(&[0], 1), once(&[2], 2)];
    let inputs = [(1, ask(A, R)), (3, ask(B, S)), (4, ask(B, R)), (5, ask(A, S)), (7, Input::Abort { task: A })];
    let (story, engine) = tell(system(tasks), &inputs, 20);
    let from = story.lines.iter().position(|l| l == "4 b wants R").expect("b asks");
    let expected = ["4 b wants R", "4 start a0", "5 a wants S", "5 deadlock: a wants S", "7 finish a0 Aborted"];
    assert_eq!(story.lines[from..from + 5], expected);
    assert_eq!(story.lines[from + 5..], ["7 a returns R", "7 b has R", "7 start b0"]);
    assert_eq!(engine.deadlocks(), 1);
}

/// The end of a run is no instant for new jobs, settings or decisions.
#[test]
fn nothing_begins_at_the_end_of_a_run() {
    let chronos = System { backlog: Backlog::Chronos, ..system(vec![periodic(10, 5, 0)]) };
    let (story, engine) = tell(chronos, &[(7, done(A))], 7);
    assert_eq!(ends(&story), ["0 release a0 by 5", "7 finish a0 Completed"]);
    assert_eq!((engine.counts(A).released, engine.counts(A).missed), (1, 1));
    let mut rr = system(vec![once(&[0], 1)]);
    rr.policy = PolicySpec::from_name("rr").expect("rr");
    let (_, engine) = tell(rr, &[(7, Input::Configure { setting: 0, value: Some(5_000) })], 7);
    assert_eq!(engine.system().policy.value("quantum"), None);
}

/// The urgency of waiting jobs is the policy's word: a new policy that has none hands locks out in the order of asking.
#[test]
fn a_switch_of_policies_forgets_the_old_order() {
    let mut tasks = vec![once(&[0], 1), once(&[2], 2), once(&[4], 3)];
    for task in &mut tasks {
        task.arrival = Arrival::Periodic { offset: task.arrival.first().expect("one") - Time::ZERO, period: ns(1000) };
        (task.deadline, task.runtime) = (Some(ns(1000)), Some(ns(10)));
    }
    let mut engine = Engine::new(System { policy: PolicySpec::from_name("rr").expect("rr"), ..system(tasks) }).unwrap();
    let fp = PolicySpec::from_name("fp").expect("fp");
    engine.switch_policy(fp, &mut ()).expect("a suitable policy");
    let mut story = Story::default();
    let mut step = |engine: &mut Engine, at, inputs: &[Input]| {
        let _ = engine.step(Time::from_ns(at), inputs, &mut story);
        story.lines.last().cloned().unwrap_or_default()
    };
    step(&mut engine, 0, &[]);
    step(&mut engine, 1, &[ask(A, R)]);
    step(&mut engine, 2, &[]);
    step(&mut engine, 3, &[ask(B, R)]);
    step(&mut engine, 4, &[]);
    step(&mut engine, 5, &[ask(C, R)]);
    let llref = PolicySpec::from_name("llref").expect("llref");
    engine.switch_policy(llref, &mut ()).expect("a suitable policy");
    step(&mut engine, 6, &[give(A, R)]);
    assert!(story.lines.contains(&"6 b has R".to_owned()), "{:?}", story.lines);
}

/// Two jobs ran on two CPUs. Both are at home on CPU 0 from now on, and the threshold counts for both of them.
#[test]
fn a_policy_that_takes_over_ranks_all_jobs_that_ran() {
    let until = |deadline| Task { runtime: Some(ns(3_000)), ..periodic(40_000, deadline, 0) };
    let edf = PolicySpec::from_name("g-edf").expect("g-edf");
    let tasks = vec![until(20_000), until(19_500)];
    let mut engine = Engine::new(System { cpus: CpuSet::first(2), policy: edf, ..system(tasks) }).unwrap();
    let _ = engine.step(Time::ZERO, &[], &mut ());
    let _ = engine.step(Time::from_ns(1_000), &[], &mut ());
    assert_eq!(engine.running().len(), 2);
    let mut llf = PolicySpec::from_name("p-llf").expect("p-llf");
    llf.values.set(0, Some(1_000));
    engine.switch_policy(llf, &mut ()).expect("a suitable policy");
    let _ = engine.step(Time::from_ns(1_000), &[], &mut ());
    // a must start by 18000 at the latest, and b by 17500: b is ahead, although by less than the threshold.
    assert_eq!((engine.place_of(A), engine.place_of(B)), (None, Some(Place(0))));
    // b gains 1 ns of laxity on a with each that it runs: 500 ns behind a at 2000, and behind it by the threshold at 2500.
    let _ = engine.step(Time::from_ns(2_499), &[], &mut ());
    assert_eq!(engine.place_of(B), Some(Place(0)));
    assert_eq!(engine.next_due(), Some(Time::from_ns(2_500)));
    let _ = engine.step(Time::from_ns(2_500), &[], &mut ());
    assert_eq!((engine.place_of(A), engine.place_of(B)), (Some(Place(0)), None));
}

/// A process of a window table has jobs from its first completion signal on. Its program has ended before that.
#[test]
fn a_signal_after_the_end_of_a_program_shows_no_jobs() {
    let cpus = CpuSet::first(1);
    let process = Task { arrival: Arrival::Activated, budget: Some(ns(5)), ..Task::default() };
    let slice = Slice { cpus, sc: Some(PartitionId(0)), be: None };
    let table = || System {
        policy: PolicySpec::from_name("windows").expect("windows"),
        partitions: vec![Partition { tasks: vec![A], policy: None }],
        windows: vec![Window { length: ns(10), slices: vec![slice.clone()] }],
        ..system(vec![process.clone()])
    };
    let exit = Input::Exit { task: A, ending: Ending { regular: true, replaced: false } };
    let signal = done_with(A, 0);
    let jobless = |inputs: &[(i64, Input)]| tell(table(), inputs, 9).1.counts(A).jobless;
    assert!(jobless(&[(2, exit), (3, signal)]));
    assert!(!jobless(&[(2, signal), (3, exit)]));
}

/// The completion of this very job.
fn done_with(task: TaskId, job: JobId) -> Input {
    Input::Complete { task, job }
}

/// One task that is aborted at its deadlines, which are its periods of 10 ns.
fn aborts(on_abort: OnAbort) -> System {
    System { late: Late::Abort, ..system(vec![Task { on_abort, ..periodic(10, 10, 0) }]) }
}

#[test]
fn abandoned_work_is_finished_before_the_job_s_own() {
    let inputs = [(15, done_with(A, 0)), (19, done_with(A, 1))];
    let (story, engine) = tell(aborts(OnAbort::Finish), &inputs, 20);
    let expected = [
        "0 release a0 by 10",
        "0 start a0",
        "10 finish a0 Aborted",
        "10 release a1 by 20",
        "10 a1 behind a0",
        "10 start a1",
        "15 late signal a0",
        "19 finish a1 Completed",
    ];
    assert_eq!(story.lines, expected);
    // The program continues the old work, and then begins the new one without a break.
    assert_eq!(story.works, ["0 a Fresh", "10 a Abandoned", "15 a Fresh"]);
    assert_eq!((story.responses, engine.at(A)), (vec![(0, 9)], None));
    let c = engine.counts(A);
    assert_eq!((c.released, c.completed, c.met, c.missed, c.aborted), (2, 1, 1, 1, 1));
    assert_eq!((c.behind, c.late_signals, c.activations), (1, 1, 0));
}

#[test]
fn a_preempted_task_that_is_behind_resumes_and_is_behind_once() {
    // b takes the CPU from 12 to 14, while a is at the work of job 0.
    let mut tasks = aborts(OnAbort::Finish).tasks;
    tasks.push(once(&[12], 9));
    let all = System { late: Late::Abort, ..system(tasks) };
    let inputs = [(14, done(B)), (17, done_with(A, 0)), (19, done_with(A, 1))];
    let (story, engine) = tell(all, &inputs, 20);
    let works = ["0 a Fresh", "10 a Abandoned", "12 b Fresh", "14 a Resumed", "17 a Fresh"];
    assert_eq!(story.works, works);
    assert_eq!((engine.counts(A).behind, engine.counts(A).met), (1, 1));
}

/// The abandoned work is done while the task is not dispatched: nothing is left to finish.
#[test]
fn a_signal_before_the_dispatch_leaves_nothing_abandoned() {
    let mut tasks = aborts(OnAbort::Finish).tasks;
    tasks.push(once(&[10], 9));
    let all = System { late: Late::Abort, ..system(tasks) };
    let (story, engine) = tell(all, &[(11, done_with(A, 0)), (14, done(B)), (18, done_with(A, 1))], 20);
    assert_eq!(story.works, ["0 a Fresh", "10 b Fresh", "14 a Fresh"]);
    assert!(story.lines.contains(&"11 late signal a0".to_owned()), "{:?}", story.lines);
    assert_eq!((engine.counts(A).behind, engine.counts(A).met, engine.counts(A).late_signals), (0, 1, 1));
}

#[test]
fn a_job_aborted_before_its_own_work_began_leaves_none_behind() {
    // Job 0 needs 25 ns. Job 1 is aborted at 20 without having begun, so job 2 waits for job 0 alone.
    let inputs = [(25, done_with(A, 0)), (27, done_with(A, 1)), (29, done_with(A, 2))];
    let (story, engine) = tell(aborts(OnAbort::Finish), &inputs, 30);
    let behind: Vec<&str> = story.lines.iter().map(String::as_str).filter(|l| l.contains("behind")).collect();
    assert_eq!(behind, ["10 a1 behind a0", "20 a2 behind a0"]);
    // The signal of job 1, which never began, ends nothing.
    assert_eq!(
        story.lines[8..],
        ["20 a2 behind a0", "20 start a2", "25 late signal a0", "27 late signal a1", "29 finish a2 Completed"]
    );
    assert_eq!(story.works, ["0 a Fresh", "10 a Abandoned", "20 a Abandoned", "25 a Fresh"]);
    let c = engine.counts(A);
    assert_eq!((c.released, c.met, c.missed, c.aborted, c.behind, c.late_signals), (3, 1, 2, 2, 2, 2));
    // A job that was never dispatched leaves nothing, either.
    for on_abort in [OnAbort::Finish, OnAbort::Restart, OnAbort::Signal] {
        let mut tasks = aborts(on_abort).tasks;
        tasks.push(once(&[0], 9));
        let (story, engine) = tell(System { late: Late::Abort, ..system(tasks) }, &[(12, done(B)), (15, done(A))], 20);
        assert_eq!(story.works, ["0 b Fresh", "12 a Fresh"], "{on_abort:?}");
        assert_eq!((engine.counts(A).behind, engine.counts(A).met), (0, 1), "{on_abort:?}");
    }
}

#[test]
fn a_program_is_replaced_once_for_each_abort() {
    // A signal that the replaced program would have sent ends nothing.
    let inputs = [(12, done_with(A, 0)), (29, done_with(A, 2))];
    let (story, engine) = tell(aborts(OnAbort::Restart), &inputs, 30);
    let works = ["0 a Fresh", "10 a replaced", "10 a Fresh", "20 a replaced", "20 a Fresh"];
    assert_eq!(story.works, works);
    assert!(story.lines.contains(&"12 late signal a0".to_owned()), "{:?}", story.lines);
    let c = engine.counts(A);
    assert_eq!((c.met, c.aborted, c.behind, c.late_signals), (1, 2, 0, 1));
}

#[test]
fn a_program_learns_of_an_abort_at_its_next_dispatch() {
    // It returns to its job loop after 2 ns.
    let (story, engine) = tell(aborts(OnAbort::Signal), &[(12, done_with(A, 0)), (16, done_with(A, 1))], 20);
    assert_eq!(story.works, ["0 a Fresh", "10 a Abandoned", "12 a Fresh"]);
    assert_eq!((engine.counts(A).behind, engine.counts(A).met), (1, 1));
    // A handler runs first, with a number and a deadline of its own, and its end is that of the work.
    let mut all = aborts(OnAbort::Signal);
    all.tasks[0].handler = Some(Handler { runtime: ns(3), deadline: Some(ns(4)), utility: 0 });
    let (story, engine) = tell(all, &[(13, done_with(A, 0)), (16, done_with(A, 1))], 20);
    assert_eq!(story.works, ["0 a Fresh", "10 a Handler", "13 a Fresh"]);
    let told = ["10 finish a0 Aborted", "10 handler a0 by 14", "13 handled a0 after 3", "16 finish a1 Completed"];
    assert!(told.iter().all(|line| story.lines.contains(&(*line).to_owned())), "{:?}", story.lines);
    let c = engine.counts(A);
    assert_eq!((c.met, c.aborted, c.behind, c.late_signals), (1, 1, 0, 0));
}

#[test]
fn the_completion_of_a_job_that_the_program_is_not_at_ends_nothing() {
    let (story, engine) = tell(system(vec![periodic(10, 10, 0)]), &[(3, done_with(A, 7)), (5, done_with(A, 0))], 9);
    let expected = ["0 release a0 by 10", "0 start a0", "3 late signal a7", "5 finish a0 Completed"];
    assert_eq!((story.lines, story.works), (expected.map(String::from).to_vec(), vec!["0 a Fresh".to_owned()]));
    assert_eq!((engine.counts(A).met, engine.counts(A).late_signals), (1, 1));
    // The same twice, and once more between two jobs.
    let inputs = [(5, done_with(A, 0)), (6, done_with(A, 0)), (12, done_with(A, 0)), (15, done_with(A, 1))];
    let (story, engine) = tell(system(vec![periodic(10, 10, 0)]), &inputs, 19);
    assert_eq!(story.responses, [(0, 5), (0, 5)]);
    assert_eq!((engine.counts(A).completed, engine.counts(A).late_signals), (2, 2));
}

/// The end of the program at 12, when it has completed job 0 and is at job 1.
fn ended(ending: Ending, completion: Completion) -> (Story, Engine) {
    let task = Task { completion, ..periodic(10, 10, 0) };
    let inputs = [(4, done_with(A, 0)), (12, Input::Exit { task: A, ending }), (25, done_with(A, 2))];
    let (mut story, engine) = tell(system(vec![task]), &inputs, 39);
    story.lines.retain(|line| !line.contains("start"));
    (story, engine)
}

#[test]
fn a_program_ends_regularly_or_not_and_is_replaced_or_not() {
    let until = ["0 release a0 by 10", "4 finish a0 Completed", "10 release a1 by 20"];
    let rest = ["20 release a2 by 30", "25 finish a2 Completed", "30 release a3 by 40"];
    let counts = |engine: &Engine| {
        let c = engine.counts(A);
        [c.released, c.completed, c.met, c.missed, c.aborted, c.late_signals]
    };
    let ending = |regular, replaced| Ending { regular, replaced };
    for completion in [Completion::Signal, Completion::Undeclared] {
        // The job in which a program ends that signals its completions, as this one has, is none.
        let (story, engine) = ended(ending(true, false), completion);
        assert_eq!(story.lines, [&until[..], &["12 finish a1 Exited", "12 exit a"]].concat());
        assert_eq!(counts(&engine), [1, 1, 1, 0, 0, 0], "the signal of a program that has ended is nothing");
        assert_eq!((engine.is_gone(A), engine.all_gone(), engine.any_failed()), (true, true, false));
        assert_eq!(engine.counts(A).utility_total, 1_000_000);

        let (story, engine) = ended(ending(true, true), completion);
        assert_eq!(story.lines, [&until[..], &["12 finish a1 Exited"], &rest].concat());
        assert_eq!(counts(&engine), [3, 2, 2, 0, 0, 0]);
        assert_eq!((engine.is_gone(A), engine.any_failed()), (false, false));

        let (story, engine) = ended(ending(false, true), completion);
        assert_eq!(story.lines, [&until[..], &["12 finish a1 Aborted"], &rest].concat());
        assert_eq!(counts(&engine), [4, 2, 2, 1, 1, 0]);
        assert_eq!((engine.is_gone(A), engine.any_failed()), (false, false));
        // The driver replaces the program by itself.
        assert_eq!(story.works, ["0 a Fresh", "10 a Fresh", "20 a Fresh", "30 a Fresh"]);

        // One that fails for good misses all that follows, up to the end of the run.
        let (story, engine) = ended(ending(false, false), completion);
        let missed = ["20 release a2 by 30", "20 finish a2 Skipped", "30 release a3 by 40", "30 finish a3 Skipped"];
        assert_eq!(story.lines, [&until[..], &["12 finish a1 Aborted", "12 exit a failed"], &missed].concat());
        assert_eq!(counts(&engine), [4, 1, 1, 3, 1, 0]);
        assert_eq!((engine.is_gone(A), engine.all_gone(), engine.any_failed()), (true, true, true));
        assert_eq!(engine.counts(A).utility_total, 4_000_000);
    }
}

#[test]
fn a_program_that_never_signalled_completes_its_job_by_ending_regularly() {
    let exit = |regular, replaced| Input::Exit { task: A, ending: Ending { regular, replaced } };
    let job = |completion, input| {
        let task = Task { completion, ..periodic(10, 10, 0) };
        let (story, engine) = tell(system(vec![task]), &[(3, input)], 9);
        (story.lines[2].clone(), engine.counts(A).released, engine.counts(A).met)
    };
    assert_eq!(job(Completion::Undeclared, exit(true, false)), ("3 finish a0 Completed".to_owned(), 1, 1));
    assert_eq!(job(Completion::None, exit(true, false)), ("3 finish a0 Completed".to_owned(), 1, 1));
    assert_eq!(job(Completion::Signal, exit(true, false)), ("3 finish a0 Exited".to_owned(), 0, 0));
    assert_eq!(job(Completion::Undeclared, exit(false, false)), ("3 finish a0 Aborted".to_owned(), 1, 0));
    assert_eq!(job(Completion::Undeclared, exit(false, true)), ("3 finish a0 Aborted".to_owned(), 1, 0));
}

#[test]
fn a_program_may_end_between_two_jobs() {
    let told = |regular, replaced| {
        let exit = Input::Exit { task: A, ending: Ending { regular, replaced } };
        let task = Task { completion: Completion::Signal, ..periodic(10, 10, 0) };
        let (story, engine) = tell(system(vec![task]), &[(4, done_with(A, 0)), (6, exit), (15, done_with(A, 1))], 19);
        let c = engine.counts(A);
        (story.lines[3..].join(", "), [c.released, c.met, c.missed, c.aborted])
    };
    let continued = "10 release a1 by 20, 10 start a1, 15 finish a1 Completed".to_owned();
    assert_eq!(told(true, true), (continued.clone(), [2, 2, 0, 0]));
    assert_eq!(told(false, true), (continued, [2, 2, 0, 0]));
    assert_eq!(told(true, false), ("6 exit a".to_owned(), [1, 1, 0, 0]));
    let failed = "6 exit a failed, 10 release a1 by 20, 10 finish a1 Skipped".to_owned();
    assert_eq!(told(false, false), (failed, [2, 1, 1, 0]));
}

/// Jobs of 25 ns every 10 ns queue: two wait when the program ends at 21.
#[test]
fn jobs_in_the_queue_share_the_fate_of_a_program() {
    for (regular, outcome, counts) in [(true, "Exited", [0, 0, 0]), (false, "Skipped", [4, 4, 1])] {
        let exit = Input::Exit { task: A, ending: Ending { regular, replaced: false } };
        let task = Task { completion: Completion::Signal, ..periodic(10, 50, 0) };
        let (story, engine) = tell(system(vec![task]), &[(21, exit)], 31);
        let queue: Vec<&str> = story.lines.iter().map(String::as_str).filter(|l| l.starts_with("21 finish")).collect();
        let own = if regular { "21 finish a0 Exited" } else { "21 finish a0 Aborted" };
        assert_eq!(queue, [own, &format!("21 finish a1 {outcome}"), &format!("21 finish a2 {outcome}")]);
        let c = engine.counts(A);
        assert_eq!([c.released, c.missed, c.aborted], counts, "{:?}", story.lines);
    }
}

/// A program that fails while its task is behind: the work of both jobs is gone with it.
#[test]
fn a_program_that_fails_leaves_nothing_abandoned() {
    let exit = Input::Exit { task: A, ending: Ending { regular: false, replaced: true } };
    let inputs = [(13, exit), (17, done_with(A, 1)), (25, done_with(A, 2))];
    let (story, engine) = tell(aborts(OnAbort::Finish), &inputs, 29);
    // The next program begins with the current job, which the end of the last one does not concern.
    assert_eq!(story.works, ["0 a Fresh", "10 a Abandoned", "13 a Fresh", "20 a Fresh"]);
    let c = engine.counts(A);
    assert_eq!((c.released, c.met, c.missed, c.aborted, c.behind), (3, 2, 1, 1, 1));
}

/// Shortest remaining time first.
struct Shortest(Vec<TaskId>);

impl Policy for Shortest {
    fn start(&mut self, _: &mut Context<'_>) {}
    fn event(&mut self, _: &Event, _: &mut Context<'_>) {}
    fn decide(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        let ready = self.0.iter().copied().filter(|task| cx.is_ready(*task));
        if let Some(task) = ready.min_by_key(|task| (cx.remaining(*task), *task)) {
            decision.run(task, lent[0]);
        }
    }
}

static SHORTEST: Entry = Entry {
    profile: Profile {
        name: "srtf",
        summary: "",
        scopes: &[Scope::Uniprocessor],
        needs: &[],
        facts: &[],
        test: CpuTest::Utilisation,
        settings: &[],
    },
    manual: "",
    build: |build: &Build<'_>| Ok(Box::new(Shortest(build.tasks.to_vec()))),
};

#[test]
fn abandoned_work_does_not_diminish_what_a_job_still_needs() {
    let a = Task { runtime: Some(ns(8)), on_abort: OnAbort::Finish, ..periodic(30, 30, 0) };
    let b = Task { runtime: Some(ns(7)), ..once(&[35], 0) };
    let c = Task { runtime: Some(ns(6)), ..once(&[47], 0) };
    let policy = PolicySpec::new(&SHORTEST.profile, Scope::Uniprocessor);
    let all = System { late: Late::Abort, policy, ..system(vec![a, b, c]) };
    // At 35 job 1 has run for 5 ns and still needs all of its 8. Of these, 3 are done at 47, when c needs 6.
    let inputs = [(42, done(B)), (44, done_with(A, 0)), (52, done_with(A, 1)), (58, done(C))];
    let mut engine = Engine::with_registry(all, Registry::default().with(&SHORTEST)).expect("a sound system");
    let story = play(&mut engine, &inputs, 59);
    let works = ["0 a Fresh", "30 a Abandoned", "35 b Fresh", "42 a Resumed", "44 a Fresh", "52 c Fresh"];
    assert_eq!(story.works, works);
    assert_eq!(engine.counts(A).met, 1);
}

#[test]
fn a_job_s_own_work_is_what_it_did_after_the_abandoned() {
    let mut engine = Engine::new(aborts(OnAbort::Finish)).expect("a sound system");
    let mut story = Story::default();
    let mut seen = |at: i64, inputs: &[Input]| {
        let _ = engine.step(Time::from_ns(at), inputs, &mut story);
        engine.job(A).map(|job| (job.number, job.consumed.ns(), engine.own_work(A).ns()))
    };
    assert_eq!(seen(0, &[]), Some((0, 0, 0)));
    assert_eq!(seen(4, &[]), Some((0, 4, 4)));
    assert_eq!(seen(10, &[]), Some((1, 0, 0)));
    assert_eq!(seen(13, &[]), Some((1, 3, 0)));
    assert_eq!(seen(15, &[done_with(A, 0)]), Some((1, 5, 0)));
    assert_eq!(seen(18, &[]), Some((1, 8, 3)));
}
