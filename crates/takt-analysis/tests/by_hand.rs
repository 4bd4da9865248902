//! Verdicts that can be checked with paper and pencil.

use takt_analysis::idle::obstacle;
use takt_analysis::online::{self, Answer, Kind, Verdict, verdict};
use takt_analysis::taskset::TaskSet;
use takt_core::cpus::CpuSet;
use takt_core::model::{
    Arrival, Backlog, Call, Domain, Execution, Load, Locking, PolicySpec, Reservation, ResourceId, Server, ServerId,
    Step, System, Task, TaskId, Timing,
};
use takt_core::time::Span;

/// Tasks as (runtime, deadline, period) in milliseconds; earlier ones have the higher priority.
fn system(policy: &str, cpus: usize, tasks: &[(i64, i64, i64)]) -> System {
    System {
        tasks: (tasks.iter().enumerate())
            .map(|(i, &(c, d, t))| Task {
                arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_ms(t) },
                deadline: Some(Span::from_ms(d)),
                runtime: Some(Span::from_ms(c)),
                priority: 10_000 - i as u32,
                affinity: CpuSet::first(cpus),
                ..Task::default()
            })
            .collect(),
        ..System::new(CpuSet::first(cpus), PolicySpec::from_name(policy).unwrap())
    }
}

fn test(policy: &str, cpus: usize, tasks: &[(i64, i64, i64)]) -> Verdict {
    verdict(&system(policy, cpus, tasks))
}

fn ms(ms: i64) -> Option<Span> {
    Some(Span::from_ms(ms))
}

#[test]
fn two_fifths_and_four_sevenths() {
    let set = [(2, 5, 5), (4, 7, 7)];
    let edf = test("edf", 1, &set);
    assert_eq!((edf.schedulable, edf.kind, edf.test), (Answer::Yes, Kind::Exact, "edf"));
    assert_eq!(edf.utilisation.fraction(), Some((34, 35)));
    assert_eq!((edf.utilisation.per_mille(), edf.hyperperiod, edf.idle_10_percent), (971, ms(35), false));
    assert_eq!(edf.to_string(), "schedulable (exact test edf): utilisation 0.971 (34/35) is at most 1");
    let rm = test("rm", 1, &set);
    assert_eq!((rm.schedulable, rm.kind), (Answer::No, Kind::Exact));
    assert_eq!(rm.responses, [ms(2), ms(8)]);
    assert_eq!(rm.to_string(), "not schedulable (exact test rta): task 1 can respond as late as 8ms");
}

#[test]
fn a_full_cpu_is_schedulable_and_one_nanosecond_more_is_not() {
    let mut full = system("edf", 1, &[(1, 3, 3), (1, 3, 3), (1, 3, 3)]);
    assert_eq!(verdict(&full).schedulable, Answer::Yes);
    full.tasks[0].runtime = Some(Span::from_ns(1_000_001));
    assert_eq!(verdict(&full).schedulable, Answer::No);
}

#[test]
fn constrained_deadlines_by_processor_demand() {
    // By 4 ms, 2 + 2 ms are due; with 3 ms for the second it is one too many.
    assert_eq!(test("edf", 1, &[(2, 3, 6), (2, 4, 8)]).schedulable, Answer::Yes);
    let no = test("edf", 1, &[(2, 3, 6), (3, 4, 8)]);
    assert_eq!((no.schedulable, no.kind), (Answer::No, Kind::Exact));
    assert!(no.reason.contains("by 4ms jobs with a total runtime of 5ms"), "{}", no.reason);
    // With offsets that keep the releases apart the same set may be fine, so nothing is claimed.
    let mut apart = system("edf", 1, &[(2, 3, 8), (3, 4, 8)]);
    assert_eq!(verdict(&apart).schedulable, Answer::No);
    apart.tasks[1].arrival = Arrival::Periodic { offset: Span::from_ms(3), period: Span::from_ms(8) };
    assert_eq!(verdict(&apart).schedulable, Answer::Unknown);
}

#[test]
fn textbook_response_times() {
    // Three tasks with response times 1, 3 and 10: 10 = 3 + 4·1 + ... (ceil(10/4)·1 = 3, ceil(10/6)·2 = 4, own 3).
    let v = test("fp", 1, &[(1, 4, 4), (2, 6, 6), (3, 10, 12)]);
    assert_eq!((v.schedulable, v.responses), (Answer::Yes, vec![ms(1), ms(3), ms(10)]));
    assert_eq!(test("fp", 1, &[(1, 4, 4), (2, 6, 6), (3, 9, 12)]).schedulable, Answer::No);
}

#[test]
fn a_deadline_beyond_the_period_needs_the_whole_busy_period() {
    // Lehoczky's example (26, 70) and (62, 100): the responses of the second task's jobs are 114, 102, 116, 104, 118,
    // 106, 94; the worst is that of the fifth job.
    let v = test("rm", 1, &[(26, 70, 70), (62, 118, 100)]);
    assert_eq!((v.schedulable, v.responses), (Answer::Yes, vec![ms(26), ms(118)]));
}

#[test]
fn a_tie_goes_to_the_earlier_release() {
    // Released together, the first task comes first and its deadline of 1 ms holds. With an offset it is released while
    // the second, which is no less important, runs.
    let mut s = system("rm", 1, &[(1, 1, 5), (2, 4, 5)]);
    assert_eq!(verdict(&s).schedulable, Answer::Yes);
    s.tasks[0].arrival = Arrival::Periodic { offset: Span::from_ms(1), period: Span::from_ms(5) };
    assert_eq!(verdict(&s).schedulable, Answer::Unknown);
    // Sporadic jobs are released together only at first.
    let sporadic = |spread| Arrival::Sporadic { offset: Span::ZERO, period: Span::from_ms(5), spread };
    for (spread, answer) in [(Span::ZERO, Answer::Yes), (Span::from_ms(1), Answer::Unknown)] {
        for (one, other) in [(0, 1), (1, 0)] {
            s.tasks[one].arrival = Arrival::Periodic { offset: Span::ZERO, period: Span::from_ms(5) };
            s.tasks[other].arrival = sporadic(spread);
            assert_eq!(verdict(&s).schedulable, answer);
        }
    }
}

#[test]
fn partitioned_tests_every_cpu_as_the_core_packs() {
    let fits = test("p-edf", 2, &[(6, 10, 10), (6, 10, 10), (4, 10, 10)]);
    assert_eq!((fits.schedulable, fits.kind, fits.idle_10_percent), (Answer::Yes, Kind::Exact, false));
    let three = test("p-edf", 2, &[(6, 10, 10), (6, 10, 10), (6, 10, 10)]);
    assert_eq!(three.schedulable, Answer::No);
    assert_eq!(three.reason, "on CPU 0, utilisation 1.200 (6/5) is above 1");
    // CPUs have their numbers, wherever the machine begins.
    let mut later = system("p-edf", 2, &[(6, 10, 10), (6, 10, 10), (6, 10, 10)]);
    later.cpus = [1, 2].into_iter().collect();
    later.tasks.iter_mut().for_each(|t| t.affinity = CpuSet::first(3));
    assert_eq!(verdict(&later).reason, "on CPU 1, utilisation 1.200 (6/5) is above 1");
    assert!(test("p-rm", 2, &[(6, 10, 10), (6, 10, 10)]).idle_10_percent);
}

#[test]
fn global_edf_by_its_bound() {
    // m - (m - 1)·U_max = 2 - 0.5 = 1.5, reached exactly.
    let yes = test("g-edf", 2, &[(5, 10, 10), (5, 10, 10), (5, 10, 10)]);
    assert_eq!((yes.schedulable, yes.test, yes.kind), (Answer::Yes, "gfb", Kind::Sufficient));
    let dhall = test("g-edf", 2, &[(2, 10, 10), (2, 10, 10), (10, 11, 11)]);
    assert_eq!(dhall.schedulable, Answer::Unknown);
    // Densities of 1.5 are above GFB's 2 - 0.7, but in the slack of each task the others do not keep both CPUs.
    let bcl = test("g-edf", 2, &[(70, 100, 100), (70, 100, 100), (10, 100, 100)]);
    assert_eq!((bcl.schedulable, bcl.test, bcl.kind), (Answer::Yes, "bcl", Kind::Sufficient));
    let over = test("g-edf", 2, &[(9, 10, 10), (9, 10, 10), (9, 10, 10)]);
    assert_eq!((over.schedulable, over.kind), (Answer::No, Kind::Necessary));
    // Two tasks on two CPUs never meet.
    assert_eq!(test("g-rm", 2, &[(10, 10, 10), (10, 10, 10)]).schedulable, Answer::Yes);
    assert_eq!(test("g-rm", 2, &[(5, 10, 10); 3]).schedulable, Answer::Unknown);
    assert_eq!(test("g-rm", 2, &[(9, 10, 10); 3]).schedulable, Answer::No);
}

#[test]
fn unknown_verdicts_have_reasons() {
    let mut s = system("edf", 1, &[(1, 5, 5), (1, 5, 5)]);
    s.tasks[1].runtime = None;
    let v = verdict(&s);
    assert_eq!((v.schedulable, v.idle_10_percent), (Answer::Unknown, false));
    assert_eq!(v.to_string(), "not known to be schedulable (no test applies): task 1 has no runtime");
    s.tasks[1].runtime = Some(Span::from_ms(2));
    s.tasks[1].budget = Some(Span::from_ms(1));
    let v = verdict(&s);
    assert_eq!((v.schedulable, v.test, v.kind), (Answer::No, "budget", Kind::Necessary));
}

/// A test is named only for what it says itself: more work than CPUs is for `utilisation` to say, and where nothing applies there is
/// no test.
#[test]
fn a_verdict_names_the_test_that_it_is_of() {
    let told = |system: &System| {
        let found = verdict(system);
        (found.schedulable, found.test, found.kind)
    };
    let none = (Answer::Unknown, "none", Kind::Nothing);
    for policy in ["c-edf", "g-rr", "g-fcbs"] {
        let tasks = reserved(system(policy, 4, &[(5, 10, 10); 5]), &[(5, 10); 5]);
        assert_eq!(told(&tasks), none, "{policy}");
        let over = reserved(system(policy, 4, &[(9, 10, 10); 5]), &[(9, 10); 5]);
        assert_eq!(told(&over), (Answer::No, "utilisation", Kind::Necessary), "{policy}");
    }
    for policy in ["fifo", "p-rr"] {
        assert_eq!(told(&system(policy, 1, &[(6, 10, 10), (6, 10, 10)])), (Answer::No, "utilisation", Kind::Necessary));
        let early = told(&system(policy, 1, &[(3, 5, 10), (3, 10, 10)]));
        assert_eq!(early, (Answer::Unknown, "busy-period", Kind::Sufficient), "{policy}");
    }
    let mut fifo = system("edf", 1, &[(1, 5, 5), (1, 5, 5)]);
    fifo.resources = 1;
    fifo.locking = Locking::Fifo;
    let held = ResourceId(0);
    fifo.tasks[0].program.steps = vec![Step::Lock(held), run(Span::from_ms(1)), Step::Unlock(held)];
    assert_eq!(told(&fifo), none);
    // The optimal policies' test is asked where it applies, and only there.
    let tight = |mut system: System| {
        system.tasks.iter_mut().for_each(|t| t.deadline = Some(Span::from_ms(6)));
        system
    };
    let three = || tight(system("llref", 2, &[(5, 10, 10); 3]));
    assert_eq!(told(&three()), (Answer::Unknown, "optimal", Kind::Sufficient));
    let mut late = three();
    late.timing.lateness = Span::from_us(1);
    assert_eq!(told(&late), none);
    // A no that varying needs put in doubt stays one of a test that is otherwise inconclusive.
    let mut less = system("fifo", 1, &[(6, 10, 10), (6, 10, 10)]);
    less.tasks[0].program.execution = Execution::Uniform { least: Span::from_ms(1), most: Span::from_ms(6) };
    assert_eq!(told(&less), (Answer::Unknown, "utilisation", Kind::Necessary));
}

/// A server of 3 ms that may come 7 ms late beside 7 ms of every 10: no response time is ever found, however long it is searched.
#[test]
fn an_endless_busy_period_is_reported() {
    let tasks = |runtime| reserved(system("deferrable-server", 1, &[(1, 10, 10), (runtime, 10, 10)]), &[(3, 10)]);
    let full = verdict(&tasks(7));
    assert_eq!((full.schedulable, full.test), (Answer::Unknown, "rta"));
    assert!(full.reason.ends_with("jobs of a server that come late: a busy period never ends"), "{full}");
    assert!(verdict(&tasks(6)).reason.contains("task 1"), "{}", verdict(&tasks(6)));
}

#[test]
fn a_job_that_cannot_be_preempted_holds_up_the_others_by_all_but_a_nanosecond() {
    // The second begins just before the first is released: 3 ms of hold-up and 1 ms of its own end by the deadline of 4 ms.
    let mut s = system("np-edf", 1, &[(1, 4, 4), (3, 12, 12)]);
    s.tasks[1].runtime = Some(Span::from_ns(3_000_001));
    let yes = verdict(&s);
    assert_eq!((yes.schedulable, yes.test, yes.kind), (Answer::Yes, "np-edf", Kind::Sufficient));
    s.tasks[1].runtime = Some(Span::from_ns(3_000_002));
    assert_eq!(verdict(&s).schedulable, Answer::Unknown);
    // One without a deadline holds up the others just the same.
    s.tasks[1].deadline = None;
    assert_eq!(verdict(&s).schedulable, Answer::Unknown);
    assert_eq!(test("edf", 1, &[(1, 4, 4), (5, 12, 12)]).schedulable, Answer::Yes);
}

/// A task that holds resource 0 for the middle of its three parts.
fn locking(parts: [i64; 3]) -> Vec<Step> {
    let [before, inside, after] = parts.map(|p| run(Span::from_ms(p)));
    vec![before, Step::Lock(ResourceId(0)), inside, Step::Unlock(ResourceId(0)), after]
}

#[test]
fn a_critical_section_of_a_less_important_task_is_waited_for_once() {
    // 1 + 2 + 1 of its own and 4 of the last one's section; the second needs 5 and waits for 4 and 4; the last for 4 and 5.
    let mut s = system("fp", 1, &[(4, 20, 20), (5, 20, 20), (6, 20, 20)]);
    s.resources = 1;
    s.tasks[0].program.steps = locking([1, 2, 1]);
    s.tasks[2].program.steps = locking([1, 4, 1]);
    for protocol in [Locking::Ceiling, Locking::Inheritance] {
        s.locking = protocol;
        let v = verdict(&s);
        assert_eq!((v.schedulable, v.kind, v.responses), (Answer::Yes, Kind::Sufficient, vec![ms(8), ms(13), ms(15)]));
    }
    s.locking = Locking::Fifo;
    assert_eq!(verdict(&s).schedulable, Answer::Unknown);
    // Another section of the same resource cannot come in between.
    s.tasks[1].program.steps = locking([1, 3, 1]);
    for protocol in [Locking::Ceiling, Locking::Inheritance] {
        s.locking = protocol;
        assert_eq!(verdict(&s).responses[0], ms(8));
    }
    // With inheritance one section of each resource may come in between, under the ceiling only one of all.
    s.resources = 2;
    let other = |steps: Vec<Step>| {
        let moved = |step| match step {
            Step::Lock(_) => Step::Lock(ResourceId(1)),
            Step::Unlock(_) => Step::Unlock(ResourceId(1)),
            step => step,
        };
        steps.into_iter().map(moved).collect::<Vec<Step>>()
    };
    s.tasks[0].program.steps = [locking([1, 1, 1]), other(locking([0, 1, 0]))].concat();
    s.tasks[1].program.steps = other(locking([1, 3, 1]));
    for (protocol, response) in [(Locking::Ceiling, 8), (Locking::Inheritance, 11)] {
        s.locking = protocol;
        assert_eq!(verdict(&s).responses[0], ms(response));
    }
}

#[test]
fn sleeping_counts_as_running_and_is_no_proof_of_a_miss() {
    let mut s = system("rm", 1, &[(3, 10, 10), (4, 20, 20)]);
    s.tasks[0].program.steps = vec![run(Span::from_ms(1)), Step::Sleep(Span::from_ms(3)), run(Span::from_ms(2))];
    let v = verdict(&s);
    // As execution the second would wait for 6, as jitter for 3.
    assert_eq!((v.schedulable, v.kind, v.responses), (Answer::Yes, Kind::Sufficient, vec![ms(6), ms(7)]));
    assert_eq!(v.utilisation.fraction(), Some((1, 2)));
    s.tasks[1].runtime = Some(Span::from_ms(12));
    let v = verdict(&s);
    assert_eq!(v.schedulable, Answer::Unknown);
    assert!(v.reason.ends_with("jobs that sleep leave the CPU to others"), "{}", v.reason);
}

#[test]
fn optimal_policies_need_no_more_than_the_cpus() {
    let three = [(2, 3, 3), (2, 3, 3), (2, 3, 3)];
    for policy in ["llref", "pd2"] {
        let v = test(policy, 2, &three);
        assert_eq!((v.schedulable, v.kind, v.test), (Answer::Yes, Kind::Exact, "optimal"), "{policy}");
        assert_eq!(test(policy, 2, &[(3, 3, 3), (2, 3, 3), (2, 3, 3)]).schedulable, Answer::No);
    }
    // 2.5, 2 and 1.5 ms of 3 ms fill two CPUs, but in whole quanta they are 3, 2 and 2.
    let mut s = system("pd2", 2, &three);
    s.tasks[0].runtime = Some(Span::from_us(2_500));
    s.tasks[2].runtime = Some(Span::from_us(1_500));
    assert_eq!(verdict(&s).schedulable, Answer::Unknown);
    s.policy = PolicySpec::from_name("llref").unwrap();
    assert_eq!(verdict(&s).schedulable, Answer::Yes);
}

#[test]
fn an_almost_idle_cpu_needs_no_order() {
    for policy in ["fifo", "rr", "llf"] {
        let v = test(policy, 1, &[(2, 6, 6), (4, 12, 12)]);
        assert_eq!((v.schedulable, v.test, v.kind), (Answer::Yes, "busy-period", Kind::Sufficient), "{policy}");
        assert_eq!(test(policy, 1, &[(2, 6, 6), (5, 12, 12)]).schedulable, Answer::Unknown);
        assert_eq!(test(policy, 1, &[(4, 6, 6), (5, 12, 12)]).schedulable, Answer::No);
    }
}

/// A job at the start that is in no hurry.
fn batch(runtime: i64, priority: u32) -> Task {
    Task {
        arrival: Arrival::Listed { instants: vec![Span::ZERO] },
        runtime: Some(Span::from_ms(runtime)),
        priority,
        ..Task::default()
    }
}

fn later(task: &mut Task, offset: i64) {
    if let Arrival::Periodic { offset: first, .. } = &mut task.arrival {
        *first = Span::from_ms(offset);
    }
}

#[test]
fn a_woken_job_is_blocked_again_without_preemption() {
    // 5 ms behind the second; while it sleeps the third begins and takes another 5 ms: 12 ms for a deadline of 10 ms.
    let mut s = system("np-edf", 1, &[(2, 10, 50), (5, 50, 50), (5, 50, 50)]);
    later(&mut s.tasks[0], 1);
    assert_eq!(verdict(&s).schedulable, Answer::Yes);
    s.tasks[0].program.steps = vec![run(Span::from_ms(1)), Step::Sleep(Span::from_ms(1)), run(Span::from_ms(1))];
    assert_eq!(verdict(&s).schedulable, Answer::Unknown);
    s.policy = PolicySpec::from_name("edf").unwrap();
    assert_eq!(verdict(&s).schedulable, Answer::Yes);
}

#[test]
fn one_cpu_is_judged_the_same_whatever_the_scope() {
    // The first waits for 8 ms of the second's section, and needs 3 ms for its deadline of 10 ms.
    let mut s = system("edf", 1, &[(3, 10, 20), (8, 20, 20)]);
    s.resources = 1;
    s.tasks[0].program.steps = locking([1, 1, 1]);
    for locking_protocol in [Locking::Inheritance, Locking::Ceiling] {
        s.locking = locking_protocol;
        for (inside, answer) in [(8, Answer::Unknown), (7, Answer::Yes)] {
            let section = run(Span::from_ms(inside));
            s.tasks[1].program.steps = vec![Step::Lock(ResourceId(0)), section, Step::Unlock(ResourceId(0))];
            for policy in ["edf", "g-edf", "c-edf", "g-fp", "p-fp"] {
                s.policy = PolicySpec::from_name(policy).unwrap();
                let v = verdict(&s);
                assert_eq!(v.schedulable, answer, "{policy} {inside}: {v}");
            }
        }
    }
    assert_eq!(test("g-edf", 1, &[(2, 5, 5), (4, 7, 7)]).kind, Kind::Exact);
}

#[test]
fn a_batch_job_disturbs_others_only_by_its_locks() {
    for policy in ["fp", "edf", "g-fp", "p-edf"] {
        let mut s = system(policy, 1, &[(1, 10, 10)]);
        later(&mut s.tasks[0], 1);
        s.tasks.push(batch(50, 0));
        s.resources = 1;
        s.tasks[0].program.steps = locking([1, 1, 1]);
        assert_eq!(verdict(&s).schedulable, Answer::Yes, "{policy}");
        s.tasks[1].program.steps = locking([1, 50, 1]);
        assert_eq!(verdict(&s).schedulable, Answer::Unknown, "{policy}");
    }
}

#[test]
fn a_budget_below_what_a_job_needs_aborts_it() {
    let mut s = system("fp", 1, &[(2, 10, 10)]);
    s.tasks.push(batch(30, 0));
    for (budget, jitter, answer) in
        [(30, 0, Answer::Yes), (29, 0, Answer::Unknown), (31, 2, Answer::Yes), (31, 3, Answer::Unknown)]
    {
        s.tasks[1].budget = Some(Span::from_ms(budget));
        s.tasks[1].jitter = Span::from_ms(jitter);
        assert_eq!(verdict(&s).schedulable, answer, "a batch job with {budget} ± {jitter} / 2");
    }
    // One that would never end by itself uses up any budget.
    s.tasks[1].runtime = None;
    assert_eq!(verdict(&s).schedulable, Answer::Unknown);
    s.tasks[1].budget = None;
    assert_eq!(verdict(&s).schedulable, Answer::Yes);
    // Between the least and the most budget it depends on the draw, and where budgets end late, on the timer.
    for (budget, jitter, answer) in
        [(2, 0, Answer::Yes), (2, 1, Answer::Unknown), (1, 1, Answer::No), (1, 2, Answer::Unknown)]
    {
        s.tasks[0].budget = Some(Span::from_ms(budget));
        s.tasks[0].jitter = Span::from_ms(jitter);
        assert_eq!(verdict(&s).schedulable, answer, "a periodic job with {budget} ± {jitter} / 2");
        let alone = System { tasks: vec![s.tasks[0].clone()], ..s.clone() };
        let beyond = TaskSet::from_system(&alone).expect("a periodic task").beyond;
        assert_eq!(beyond.is_some(), answer != Answer::Yes, "{beyond:?}");
    }
    s.tasks[0].jitter = Span::ZERO;
    s.timing = Timing { lateness: Span::from_ms(1), ..Timing::default() };
    assert_eq!(verdict(&s).schedulable, Answer::Unknown);
    s.timing = Timing { resolution: Span::from_ms(4), ..Timing::default() };
    assert_eq!(verdict(&s).schedulable, Answer::Unknown);
}

#[test]
fn a_skipped_release_is_missed_without_a_deadline() {
    let mut s = system("rr", 1, &[(3, 5, 5), (3, 5, 5)]);
    s.tasks.iter_mut().for_each(|t| t.deadline = None);
    for (backlog, answer) in [
        (Backlog::Queue, Answer::Yes),
        (Backlog::Chronos, Answer::Yes),
        (Backlog::Skip, Answer::Unknown),
        (Backlog::Hartstone, Answer::Unknown),
    ] {
        s.backlog = backlog;
        assert_eq!(verdict(&s).schedulable, answer, "{backlog:?}");
    }
    // Nothing of one batch job can be skipped; of two that come one after the other, the second can.
    s.backlog = Backlog::Skip;
    s.tasks = vec![batch(9, 0)];
    assert_eq!(verdict(&s).schedulable, Answer::Yes);
    s.tasks[0].arrival = Arrival::Listed { instants: vec![Span::ZERO, Span::from_ms(1)] };
    assert_eq!(verdict(&s).schedulable, Answer::Unknown);
}

/// The task in place of a server can have a deadline that the jobs of the server lack; those are skipped all the same.
#[test]
fn a_skipped_release_is_missed_behind_a_server_too() {
    let listed = Arrival::Listed { instants: (0..3).map(Span::from_ms).collect() };
    for policy in ["polling-server", "periodic-server", "sporadic-server", "cbs"] {
        for by in 0..3 {
            let mut s = reserved(system(policy, 1, &[(1, 10, 10), (3, 10, 10)]), &[(5, 10), (1, 10)]);
            (s.tasks[0].reservation, s.tasks[1].deadline) = (None, None);
            if policy != "cbs" {
                let at = s.policy.profile.settings.iter().position(|setting| setting.name == "by").unwrap();
                s.policy.values.set(at, Some(by));
            }
            for arrival in [s.tasks[1].arrival.clone(), listed.clone()] {
                s.tasks[1].arrival = arrival;
                for backlog in [Backlog::Skip, Backlog::Hartstone] {
                    s.backlog = backlog;
                    assert_eq!(verdict(&s).schedulable, Answer::Unknown, "{policy} {by} {backlog:?}");
                }
            }
            s.backlog = Backlog::Queue;
            assert_eq!(verdict(&s).schedulable, Answer::Yes, "{policy} {by}: {}", verdict(&s));
        }
    }
}

#[test]
fn fair_policies_need_an_exact_clock_and_know_no_protocol_for_resources() {
    for policy in ["llref", "pd2"] {
        let mut s = system(policy, 1, &[(3, 10, 10), (3, 10, 10)]);
        assert_eq!(verdict(&s).schedulable, Answer::Yes);
        let [tick, resolution, lateness] = [0, 1, 2].map(|late| [0, 1, 2].map(|i| Span::from_ms(i64::from(i == late))));
        for [tick, resolution, lateness] in [tick, resolution, lateness] {
            s.timing = Timing { tick, resolution, lateness };
            assert_eq!(verdict(&s).schedulable, Answer::Unknown, "{:?}", s.timing);
        }
        s.timing = Timing::default();
        s.resources = 1;
        s.tasks[0].program.steps = locking([1, 1, 1]);
        let v = verdict(&s);
        assert_eq!(v.schedulable, Answer::Unknown);
        assert!(v.reason.contains("in the order of requests and ignores `locking`"), "{v}");
    }
}

/// With a utility of one each.
fn valued(policy: &str, cpus: usize, tasks: &[(i64, i64, i64)]) -> System {
    let mut system = system(policy, cpus, tasks);
    system.tasks.iter_mut().for_each(|t| t.utility = Some(takt_core::utility::Utility::DEFAULT));
    system
}

#[test]
fn policies_that_shed_jobs_are_edf_while_that_meets_all() {
    for policy in ["edf", "dasa-nd", "dasa", "lbesa", "p-dasa", "c-g-gua", "ng-gua", "gmua", "g-gua"] {
        let said = |set: &[(i64, i64, i64)]| verdict(&valued(policy, 1, set));
        let (yes, no) = (said(&[(2, 5, 5), (4, 7, 7)]), said(&[(2, 4, 8), (3, 4, 8)]));
        assert_eq!((yes.schedulable, yes.kind, yes.test), (Answer::Yes, Kind::Exact, "edf"), "{policy}");
        // EDF is optimal on one CPU: a set that it cannot schedule is infeasible.
        assert_eq!((no.schedulable, no.kind), (Answer::No, Kind::Exact), "{policy}");
    }
    // The order of density is another matter.
    let dense = |policy: &str| verdict(&valued(policy, 1, &[(2, 5, 5), (4, 7, 7)]));
    assert_eq!((dense("hvdf").schedulable, dense("gus").schedulable), (Answer::Unknown, Answer::Unknown));
    let light = verdict(&valued("hvdf", 1, &[(1, 4, 5), (2, 5, 7)]));
    assert_eq!((light.schedulable, light.test), (Answer::Yes, "busy-period"));
}

#[test]
fn global_policies_that_shed_jobs_are_global_edf_while_that_meets_all() {
    let set = [(2, 10, 10), (2, 10, 10), (2, 10, 10), (5, 10, 10)];
    for policy in ["g-edf", "ng-gua", "gmua"] {
        let said = verdict(&valued(policy, 2, &set));
        assert_eq!((said.schedulable, said.test), (Answer::Yes, "gfb"), "{policy}");
    }
    // G-GUA may miss what global EDF meets, and so may NG-GUA by declared loads.
    let mut declared = valued("ng-gua", 2, &set);
    let load = declared.policy.profile.settings.iter().position(|s| s.name == "load").unwrap();
    declared.policy.values.set(load, Some(1));
    assert_eq!(verdict(&declared).schedulable, Answer::Unknown);
    assert_eq!(verdict(&valued("g-gua", 2, &set)).schedulable, Answer::Unknown);
}

#[test]
fn declared_runtimes_count_under_policies_that_use_them() {
    // Jobs need 1 + 1 ms of every 4; they declare 3 + 3.
    let mut system = valued("dasa", 1, &[(3, 4, 4), (3, 4, 4)]);
    system.tasks.iter_mut().for_each(|t| t.program.steps = vec![run(Span::from_ms(1))]);
    let said = verdict(&system);
    assert_eq!((said.schedulable, said.kind), (Answer::Unknown, Kind::Sufficient), "{said}");
    system.policy = PolicySpec::from_name("edf").unwrap();
    assert_eq!(verdict(&system).schedulable, Answer::Yes);
    let mut locks = valued("dasa", 1, &[(1, 4, 4)]);
    locks.resources = 1;
    locks.tasks[0].program.steps = vec![Step::Lock(ResourceId(0)), run(Span::from_ms(1)), Step::Unlock(ResourceId(0))];
    assert_eq!(verdict(&locks).schedulable, Answer::Unknown);
}

#[test]
fn a_load_counts_at_its_highest() {
    let at = |points: &[(i64, u32)]| {
        let points = points.iter().map(|(at, factor)| (Span::from_secs(*at), *factor)).collect();
        let load = Some(Load { points, repeat: None });
        verdict(&System { load, ..system("edf", 1, &[(2, 5, 5), (2, 10, 10)]) })
    };
    // The utilisation is 0.6 of what is declared.
    let constant = at(&[(0, 1_500_000)]);
    assert_eq!(
        (constant.schedulable, constant.kind, constant.utilisation.per_mille()),
        (Answer::Yes, Kind::Exact, 900)
    );
    assert_eq!(at(&[(0, 1_700_000)]).schedulable, Answer::No);
    let ramp = at(&[(0, 100_000), (9, 1_500_000)]);
    assert_eq!((ramp.schedulable, ramp.kind), (Answer::Yes, Kind::Sufficient));
    assert!(ramp.reason.ends_with("at the highest load of 1.500"), "{ramp}");
    let peak = at(&[(0, 1_000_000), (9, 1_700_000)]);
    assert_eq!((peak.schedulable, peak.kind), (Answer::Unknown, Kind::Sufficient));
    let set = |factor| {
        let load = Some(Load { points: vec![(Span::ZERO, 1_000_000), (Span::from_secs(1), factor)], repeat: None });
        TaskSet::from_system(&System { load, ..system("edf", 1, &[(2, 5, 5)]) }).unwrap()
    };
    assert_eq!((set(2_000_000).tasks[0].runtime, set(2_000_000).lighter, set(1_000_000).lighter), (4_000, true, false));
}

#[test]
fn domains_are_judged_one_by_one() {
    let domain = |cpus: &[usize], tasks: &[u32], policy: &str| Domain {
        band: 0,
        cpus: cpus.iter().copied().collect(),
        tasks: tasks.iter().copied().map(TaskId).collect(),
        policy: PolicySpec::from_name(policy).unwrap(),
    };
    let mut both = valued("domains", 3, &[(2, 5, 5), (4, 7, 7), (2, 10, 10), (2, 10, 10), (5, 10, 10)]);
    both.domains = vec![domain(&[0], &[0, 1], "dasa"), domain(&[1, 2], &[2, 3, 4], "g-edf")];
    let said = verdict(&both);
    assert_eq!((said.schedulable, said.kind, said.test), (Answer::Yes, Kind::Sufficient, "domains"), "{said}");
    let parts: Vec<_> = online::of_domains(&both).iter().map(|p| (p.schedulable, p.test)).collect();
    assert_eq!(parts, [(Answer::Yes, "edf"), (Answer::Yes, "gfb")]);
    both.domains[0].policy = PolicySpec::from_name("rm").unwrap();
    let worse = verdict(&both);
    assert_eq!((worse.schedulable, worse.test), (Answer::No, "rta"));
    assert_eq!(worse.reason, "in the domain at index 0: task 1 can respond as late as 8ms");
    assert_eq!(worse.responses, [ms(2), ms(8), None, None, None]);
    // Their shared part is beyond all of it.
    both.resources = 1;
    for index in [0, 2] {
        let locked = [Step::Lock(ResourceId(0)), run(Span::from_ms(1)), Step::Unlock(ResourceId(0))];
        both.tasks[index].program.steps = locked.to_vec();
    }
    assert_eq!(verdict(&both).schedulable, Answer::Unknown);
}

#[test]
fn global_fixed_priorities_have_response_times() {
    // The third task waits while both others run, and no longer: 70 + 10 ms, found to a thousandth.
    let tasks = [(70, 100, 100), (70, 101, 101), (10, 102, 102)];
    for (policy, name) in [("g-rm", "grm-rta"), ("g-dm", "gdm-rta"), ("g-fp", "gfp-rta")] {
        let said = test(policy, 2, &tasks);
        assert_eq!((said.schedulable, said.test, said.kind), (Answer::Yes, name, Kind::Sufficient), "{policy}");
        assert_eq!(said.responses[..2], [ms(70), ms(70)], "{policy}");
        assert!(said.responses[2] >= ms(80) && said.responses[2] <= Some(Span::from_us(80_080)), "{said:?}");
    }
    let late = test("g-rm", 2, &[(70, 100, 100), (70, 101, 101), (40, 102, 102)]);
    assert_eq!((late.schedulable, late.kind), (Answer::Unknown, Kind::Sufficient), "{late}");
    assert!(late.reason.starts_with("task 2 has no bound"), "{late}");
    // Each of three alike has to wait for the two others, which can have two jobs each in its way: 30 + 2 · 60 / 2 ms.
    let alike = test("g-rm", 2, &[(30, 100, 100); 3]);
    assert_eq!(alike.schedulable, Answer::Yes, "{alike}");
    assert!(alike.responses.iter().all(|r| *r >= ms(90) && *r <= Some(Span::from_us(90_090))), "{alike:?}");
}

/// Servers of these budgets and periods, in milliseconds.
fn reserved(mut system: System, servers: &[(i64, i64)]) -> System {
    for (task, &(budget, period)) in system.tasks.iter_mut().zip(servers) {
        let (budget, period) = (Span::from_ms(budget), Span::from_ms(period));
        task.reservation = Some(Reservation::new(budget, period));
    }
    system
}

#[test]
fn servers_on_several_cpus() {
    let told = |policy, tasks: &[_], servers: &[_]| {
        let v = verdict(&reserved(system(policy, 2, tasks), servers));
        (v.schedulable, v.test, v.kind, v.reason)
    };
    let says = |policy, tasks: &[_], servers: &[_]| {
        let (answer, test, ..) = told(policy, tasks, servers);
        (answer, test)
    };
    let (yes, unknown) = (Answer::Yes, Answer::Unknown);
    // Two CPUs full of servers, each with its own.
    assert_eq!(says("p-cbs", &[(5, 10, 10); 4], &[(5, 10); 4]), (yes, "reservation"));
    assert_eq!(says("p-grub", &[(5, 10, 10); 4], &[(5, 10); 4]), (yes, "reservation"));
    assert_eq!(says("c-cbs", &[(5, 10, 10); 3], &[(5, 10); 3]), (yes, "gfb"));
    // Servers are packed by their shares: of 6, 6 and 5 of 10, two share a CPU.
    let (answer, _, _, why) = told("p-cbs", &[(1, 10, 10); 3], &[(6, 10), (6, 10), (5, 10)]);
    assert_eq!(
        (answer, &why[..]),
        (unknown, "on CPU 0, reservations of 1.100 (11/10) are more than the CPU (inconclusive)")
    );
    // 3/2 is the bound of GFB for shares of 1/2.
    assert_eq!(told("g-cbs", &[(5, 10, 10); 3], &[(5, 10); 3]).2, Kind::Sufficient);
    assert_eq!(says("g-cbs", &[(5, 10, 10); 3], &[(5, 10); 3]), (yes, "gfb"));
    // Jobs that keep to themselves make CBS EDF, whatever is reserved; budgets that last longer are another matter.
    assert_eq!(says("g-cbs", &[(1, 10, 10); 3], &[(9, 10); 3]), (yes, "gfb"));
    assert_eq!(says("g-grub", &[(1, 10, 10); 3], &[(9, 10); 3]), (unknown, "reservation"));
    // Only a task that needs more than its budget is late.
    let (answer, _, _, why) = told("p-cbs", &[(5, 10, 10), (6, 10, 10), (2, 10, 10), (7, 10, 10)], &[(5, 10); 4]);
    assert_eq!(answer, unknown);
    assert_eq!(
        why,
        "task 1 can need more than its budget of 5ms (and another task is in doubt); the servers fit, so the others meet \
         their deadlines in any case"
    );
    let early = told("g-cbs", &[(5, 9, 10)], &[(5, 10)]).3;
    let short = "task 0 has a deadline of 9ms, shorter than the period of its reservation, 10ms (with \
                 `reservation: {budget: 5ms, deadline: 9ms, period: 10ms}` more is promised)";
    assert!(early.starts_with(short), "{early}");
    let early = told("g-grub", &[(5, 9, 10)], &[(5, 10)]).3;
    assert!(early.contains("`reservation: {budget: 5ms, period: 9ms}`"), "{early}");
    assert_eq!(says("g-cbs", &[(5, 9, 10)], &[(5, 9)]), (yes, "gfb"));
    let often = told("g-cbs", &[(5, 9, 9)], &[(5, 10)]).3;
    assert!(
        often.starts_with("task 0 is released more often than once in the period of its reservation, 10ms"),
        "{often}"
    );
    // Whether its servers fit or not, the test has its policy's name.
    assert_eq!(says("edf-wmr", &[(5, 10, 10); 4], &[(5, 10); 4]), (yes, "edf-wmr"));
    assert_eq!(says("edf-wmr", &[(5, 10, 10); 5], &[(5, 10); 5]), (Answer::No, "utilisation"));
    assert_eq!(says("edf-wmr", &[(1, 10, 10); 5], &[(5, 10); 5]), (unknown, "edf-wmr"));
    let no = says("g-cbs", &[(8, 10, 10); 3], &[(5, 10); 3]);
    assert_eq!(no, (Answer::No, "utilisation"));
    assert!(told("g-fcbs", &[(1, 10, 10)], &[(5, 10)]).3.starts_with("no proof is known to us"));
}

#[test]
fn servers_with_deadlines_before_the_ends_of_their_periods() {
    let told = |policy, cpus, tasks: &[_], servers: &[(i64, i64, i64)]| {
        let budgets: Vec<_> = servers.iter().map(|&(budget, _, period)| (budget, period)).collect();
        let mut system = reserved(system(policy, cpus, tasks), &budgets);
        for (task, &(_, deadline, _)) in system.tasks.iter_mut().zip(servers) {
            let reservation = task.reservation.as_mut().unwrap();
            reservation.deadline = Some(Span::from_ms(deadline));
        }
        system
    };
    let says = |system: &System| {
        let found = verdict(system);
        (found.schedulable, found.test, found.reason)
    };
    let yes = |system: &System, test| assert_eq!(says(system), (Answer::Yes, test, says(system).2));
    let unknown = |system: &System, why: &str| {
        let (answer, _, reason) = says(system);
        assert!(answer == Answer::Unknown && reason.starts_with(why), "{reason}");
    };
    // Two of 4 in 5 every 12 are 2/3 of a CPU, and both are due by 5.
    unknown(
        &told("cbs", 1, &[(4, 5, 12); 2], &[(4, 5, 12); 2]),
        "in 5ms the servers can need 8ms by their deadlines (inconclusive)",
    );
    yes(&told("cbs", 1, &[(4, 5, 12), (1, 5, 12)], &[(4, 5, 12), (1, 5, 12)]), "reservation");
    // By their densities, 1 and 2/5, two do not fit, by their demand they do.
    yes(&told("cbs", 1, &[(2, 2, 10), (4, 10, 10)], &[(2, 2, 10), (4, 10, 10)]), "reservation");
    // The second one may overrun, and so have 0.8 by 2.
    let over = told("cbs", 1, &[(2, 2, 10), (5, 10, 10)], &[(2, 2, 10), (4, 10, 10)]);
    unknown(&over, "in 2ms the servers can need 2.8ms by their deadlines");
    let beside = told("cbs", 1, &[(1, 2, 10), (5, 10, 10)], &[(1, 2, 10), (4, 10, 10)]);
    unknown(
        &beside,
        "task 1 can need more than its budget of 4ms; the servers fit, so the others meet their deadlines",
    );
    unknown(
        &told("cbs", 1, &[(1, 3, 10)], &[(1, 4, 10)]),
        "task 0 has a deadline of 3ms, shorter than the deadline of its reservation, 4ms (with `reservation: {budget: 1ms, deadline: 3ms, \
         period: 10ms}` more is promised)",
    );
    // A hard server that has exhausted its budget may have less of the next one, unless its jobs are released as its periods begin.
    let hard = |tasks: &[_], servers: &[_]| {
        let mut system = told("cbs", 1, tasks, servers);
        system.policy.values.set(0, Some(1));
        system
    };
    yes(&hard(&[(4, 5, 12)], &[(4, 5, 12)]), "reservation");
    yes(&hard(&[(3, 5, 13)], &[(4, 5, 12)]), "reservation");
    yes(&told("cbs", 1, &[(4, 5, 13)], &[(4, 5, 12)]), "reservation");
    unknown(
        &hard(&[(4, 5, 13)], &[(4, 5, 12)]),
        "task 0 can use up its budget of 4ms, and get the next one before its next job comes",
    );
    // Several CPUs: by densities of 1/2, and only beside jobs that keep to their servers.
    let three = [(2, 4, 8); 3];
    yes(&told("g-cbs", 2, &three, &three), "gfb");
    unknown(
        &told("g-cbs", 2, &[(2, 4, 8), (3, 4, 8), (2, 4, 8)], &three),
        "no proof is known to us for reservations with a `deadline` on 2 CPUs beside task 1",
    );
    // Packed by density, two of four are on each CPU; by their shares all of them would be on the first.
    yes(&told("p-cbs", 2, &[(2, 4, 8); 4], &[(2, 4, 8); 4]), "reservation");
}

#[test]
fn jobs_in_turn_and_calls() {
    let mut turns = system("edf", 1, &[(9, 10, 10)]);
    let run = |ms| run(Span::from_ms(ms));
    turns.tasks[0].program.steps = vec![run(4), Step::WaitPeriod, run(9)];
    let v = verdict(&turns);
    assert_eq!((v.schedulable, v.kind), (Answer::Yes, Kind::Sufficient), "{v}");
    assert!(TaskSet::from_system(&turns).unwrap().lighter);
    // The longer turn is too long, and the shorter one is not.
    turns.tasks[0].program.steps = vec![run(4), Step::WaitPeriod, run(11)];
    assert_eq!(verdict(&turns).schedulable, Answer::Unknown);
    turns.tasks[0].program.steps = vec![run(11), Step::WaitPeriod];
    assert_eq!(verdict(&turns).schedulable, Answer::No);
    turns.tasks[0].program.steps = vec![run(1), Step::Call(Call::Runtime(Span::from_ms(2)))];
    assert_eq!(verdict(&turns).reason, "jobs that request other terms are not covered by the tests");
    assert!(TaskSet::from_system(&turns).unwrap().beyond.is_some());
}

/// However many tasks there are, an answer comes within the effort of a test.
#[test]
fn tests_give_up_on_many_tasks() {
    let tasks: Vec<(i64, i64, i64)> = (0..6000).map(|i| (1, 7000 * (1 + i % 10), 7000 * (1 + i % 10))).collect();
    for (policy, test) in [("rm", "rta"), ("np-edf", "np-edf"), ("edf", "edf")] {
        let v = verdict(&system(policy, 1, &tasks));
        assert_eq!((v.schedulable != Answer::No, v.test), (true, test), "{policy}: {v}");
    }
}

#[test]
fn listed_releases_count_by_the_densest_second_or_by_a_server_that_keeps_to_its_reservation() {
    let listed = |instants: &[i64], policy: &str| {
        let mut s = system(policy, 1, &[(2, 10, 10), (300, 0, 1000)]);
        let instants = instants.iter().map(|t| Span::from_ms(*t)).collect();
        s.tasks[1].arrival = Arrival::Listed { instants };
        s.tasks[1].deadline = None;
        s.tasks[1].reservation = Some(Reservation::new(Span::from_ms(3), Span::from_ms(20)));
        s
    };
    let soft = ["cbs", "fcbs", "grub", "edf-wmr", "edf"];
    for policy in soft {
        // 200 ms and twice 300 ms in the densest second.
        let few = listed(&[3, 1002, 1003, 2002], policy);
        assert!(verdict(&few).idle_10_percent, "{policy}");
        assert_eq!(obstacle(&few), None, "{policy}");
        // The fourth comes in the same second as the two before: 1.1 of the CPU.
        let many = listed(&[3, 1002, 1003, 2001], policy);
        assert!(!verdict(&many).idle_10_percent, "{policy}");
        assert_eq!(obstacle(&many).and_then(|o| o.task), Some(TaskId(1)), "{policy}");
    }
    // A runtime that is not known is bounded by nothing but a server that never takes more.
    for (policy, hard, bounded) in [
        ("cbs", false, false),
        ("cbs", true, true),
        ("grub", false, false),
        ("polling-server", false, true),
        ("sporadic-server", false, true),
    ] {
        let mut s = listed(&[3, 4, 5], policy);
        s.tasks[1].runtime = None;
        if hard {
            let at = s.policy.profile.settings.iter().position(|setting| setting.name == "enforcement").unwrap();
            s.policy.values.set(at, Some(1));
        }
        assert_eq!(verdict(&s).idle_10_percent, bounded, "{policy}");
        let blamed = obstacle(&s);
        assert_eq!(blamed.is_none(), bounded, "{policy}");
        assert!(bounded || blamed.is_some_and(|o| o.task == Some(TaskId(1)) && o.reason.contains("`runtime`")));
    }
    // Under servers that are ranked by period, who has neither a period nor a server comes after all, and counts all the same.
    let mut s = listed(&[3, 4, 5], "polling-server");
    (s.tasks[1].reservation, s.tasks[1].runtime) = (None, None);
    assert!(!verdict(&s).idle_10_percent);
}

/// The system with its first tasks behind one server.
fn sharing(mut system: System, count: usize, (budget, period): (i64, i64)) -> System {
    let reservation = Reservation::new(Span::from_ms(budget), Span::from_ms(period));
    system.servers = vec![Server { reservation, priority: 20_000 }];
    system.tasks[..count].iter_mut().for_each(|task| task.server = Some(ServerId(0)));
    system
}

/// 2 ms in each 10 ms for jobs of 3 and of 1 ms, which are two budgets: with the wait for the first one that is 30 ms for either, if no
/// task releases two jobs within that. Beside them 2 ms in each 8 ms come first, so that the server has its 2 ms within 4 ms.
#[test]
fn jobs_behind_a_shared_server_wait_for_one_of_each_other_task() {
    let told = |tasks: &[_]| verdict(&sharing(system("polling-server", 1, tasks), 2, (2, 10)));
    let found = told(&[(3, 40, 40), (1, 30, 50), (2, 8, 8)]);
    assert_eq!(found.schedulable, Answer::Yes, "{found}");
    assert_eq!(found.responses, [ms(30), ms(30), ms(2)]);
    // The server counts once: 2/10 and 2/8.
    assert_eq!(found.utilisation.fraction(), Some((9, 20)));
    let late = told(&[(3, 40, 40), (1, 29, 50), (2, 8, 8)]);
    assert_eq!((late.schedulable, &late.responses[..]), (Answer::Unknown, &[None, None, ms(2)][..]));
    let why = "task 1 is served within 30ms, behind a job of each other task of its server, which is beyond its deadline of 29ms";
    assert!(late.reason.starts_with(why), "{late}");
    assert!(
        late.reason.contains("; tasks that do not share a server with it meet their deadlines in any case: "),
        "{late}"
    );
    // One that has no deadline itself is in the way of others all the same.
    let mut often = sharing(system("polling-server", 1, &[(3, 40, 40), (1, 25, 25), (2, 8, 8)]), 2, (2, 10));
    often.tasks[1].deadline = None;
    let why = "jobs of task 1 come within 25ms, and what its server has of each task is served within 30ms only if that is one job";
    assert_eq!(verdict(&often).schedulable, Answer::Unknown);
    assert!(verdict(&often).reason.starts_with(why), "{}", verdict(&often));
    often.tasks[1].runtime = None;
    assert!(verdict(&often).reason.starts_with("task 1 has no runtime"), "{}", verdict(&often));
    // With 6 ms in each 10 ms, and 4 ms in each 8 ms ahead of them, the server can be late.
    let full = verdict(&sharing(system("polling-server", 1, &[(3, 40, 40), (1, 30, 50), (4, 8, 8)]), 2, (6, 10)));
    assert_eq!(full.schedulable, Answer::Unknown, "{full}");
}

#[test]
fn demand_through_one_server_counts_once() {
    // The execution times of their jobs are unknown, but the server never takes more than 8/10 of a CPU.
    let unknown = |policy: &str, cpus| {
        let mut s = sharing(system(policy, cpus, &[(1, 100, 100), (1, 100, 100)]), 2, (8, 10));
        s.tasks.iter_mut().for_each(|task| (task.runtime, task.deadline) = (None, None));
        s
    };
    assert_eq!(obstacle(&unknown("polling-server", 1)), None);
    let mut background = unknown("polling-server", 1);
    background.policy.values.set(1, Some(1));
    assert_eq!(obstacle(&background).and_then(|o| o.task), Some(TaskId(0)));
    // As much as that for each of them is more than the CPU.
    let mut two = unknown("polling-server", 1);
    two.servers.push(two.servers[0]);
    two.tasks[1].server = Some(ServerId(1));
    assert!(obstacle(&two).is_some());
    // On two CPUs each has one; with what is needed beside them on the CPU of the first, that is full.
    two.cpus = CpuSet::first(2);
    two.policy = PolicySpec::from_name("p-polling-server").unwrap();
    two.tasks.iter_mut().for_each(|task| task.affinity = CpuSet::first(2));
    assert_eq!(obstacle(&two), None);
    let mut one = unknown("p-polling-server", 2);
    let beside = |cpu| Task { affinity: CpuSet::single(cpu), ..system("rm", 1, &[(2, 10, 10)]).tasks[0].clone() };
    one.tasks[1].affinity = CpuSet::single(1);
    one.tasks.push(beside(0));
    assert_eq!(obstacle(&one), None, "both tasks of the server are on CPU 1");
    one.tasks.push(beside(1));
    assert!(obstacle(&one).is_some());
}

fn run(span: Span) -> Step {
    Step::Run(span)
}

/// A file in milliseconds: priority, deadline, period, and runtime or steps.
fn with_steps(policy: &str, locking: Locking, rows: &[(u32, i64, i64, Vec<Step>)]) -> System {
    let times: Vec<(i64, i64, i64)> = rows.iter().map(|(_, deadline, period, _)| (1, *deadline, *period)).collect();
    let mut s = system(policy, 1, &times);
    (s.resources, s.locking) = (2, locking);
    for (task, (priority, _, _, steps)) in s.tasks.iter_mut().zip(rows) {
        task.priority = *priority;
        task.program.steps = steps.clone();
        task.runtime = Some(
            steps
                .iter()
                .map(|s| if let Step::Run(span) = *s { span } else { Span::ZERO })
                .fold(Span::ZERO, |a, b| a + b),
        );
    }
    s
}

/// Sha, Rajkumar and Lehoczky: only resources whose ceiling is at least the priority of a task block it.
#[test]
fn a_resource_that_no_task_above_uses_blocks_none() {
    let only = |ms| vec![run(Span::from_ms(ms))];
    let section = |ms| locking([0, ms, 0]).into_iter().filter(|s| *s != run(Span::ZERO)).collect::<Vec<Step>>();
    for protocol in [Locking::Inheritance, Locking::Ceiling] {
        let alone = with_steps("fp", protocol, &[(9, 2, 5, only(1)), (1, 20, 20, section(3))]);
        let v = verdict(&alone);
        assert_eq!((v.schedulable, v.responses), (Answer::Yes, vec![ms(1), ms(4)]), "{protocol:?}: {}", v.reason);
        // The ceiling of the resource is 5, below 9. The second task waits for 3, and twice for the first: 2 + 3 + 2.
        let rows = [(9, 3, 5, only(1)), (5, 10, 10, section(2)), (1, 20, 20, section(3))];
        let v = verdict(&with_steps("fp", protocol, &rows));
        assert_eq!(
            (v.schedulable, v.responses),
            (Answer::Yes, vec![ms(1), ms(7), ms(7)]),
            "{protocol:?}: {}",
            v.reason
        );
        // Under EDF the ceiling of the resource is a relative deadline of 10, beyond 3.
        let v = verdict(&with_steps("edf", protocol, &rows));
        assert_eq!(v.schedulable, Answer::Yes, "{protocol:?}: {}", v.reason);
    }
}

/// The WATERS industrial challenge of 2019, cores of 2 GHz: the processing before and after a computation of 118 ms on another device.
#[test]
fn the_lowest_task_that_suspends_itself_by_segments() {
    let mut s = system("fp", 1, &[(1, 33, 33), (1, 200, 200)]);
    s.tasks[0].priority = 3;
    s.tasks[0].runtime = Some(Span::from_us(13_660));
    s.tasks[1].priority = 1;
    let (before, after) = (Span::from_ns(3_689_560), Span::from_us(1_020));
    s.tasks[1].program.steps = vec![run(before), Step::Sleep(Span::from_ms(118)), run(after)];
    s.tasks[1].runtime = Some(before + after);
    let v = verdict(&s);
    // 3.68956 + 13.66, 118, and 1.02 + 13.66.
    assert_eq!((v.schedulable, v.responses[1]), (Answer::Yes, Some(Span::from_ns(150_029_560))), "{}", v.reason);
    assert!(v.reason.ends_with("by segments for task 1"), "{}", v.reason);
}

/// Found by drawing files at random: a late job of an equal meets jobs of the next release.
#[test]
fn a_bound_holds_beside_an_equal_that_is_late() {
    let v = test("rm", 1, &[(4, 20, 20), (7, 20, 20), (5, 12, 12)]);
    assert_eq!((v.schedulable, v.kind), (Answer::No, Kind::Exact));
    // From 21 to 30 it waits for the second and the third task.
    assert!(v.responses[0].is_none_or(|bound| bound >= Span::from_ms(10)), "{:?}", v.responses);
    assert_eq!(v.responses[2], ms(5));
}

/// Found by drawing files at random: servers delay the tasks below them also where these miss without any.
#[test]
fn a_server_counts_in_the_bounds_of_a_file_with_misses() {
    let mut s = system("polling-server", 1, &[(1, 4, 4), (2, 6, 6), (5, 6, 30)]);
    s.tasks[0].reservation = Some(Reservation::new(Span::from_ms(1), Span::from_ms(4)));
    let v = verdict(&s);
    assert_eq!((v.schedulable, v.kind, v.responses[1]), (Answer::No, Kind::Exact, ms(3)), "{}", v.reason);
    assert_eq!(v.responses[2], ms(12));
    // The reason has the figure of the proof and that of the bound.
    assert!(
        v.reason.contains("9ms, even if") && v.reason.ends_with("budgets, task 2 can respond as late as 12ms"),
        "{}",
        v.reason
    );
}

/// Found by drawing files at random: a server that is late does not serve within any bound.
#[test]
fn a_late_server_has_no_bound() {
    let mut s = system("polling-server", 1, &[(5, 20, 20), (20, 30, 30)]);
    s.policy.values.set(0, Some(1));
    assert_eq!(s.policy.profile.settings[0].name, "by");
    s.tasks[0].reservation = Some(Reservation::new(Span::from_ms(5), Span::from_ms(8)));
    (s.tasks[0].priority, s.tasks[1].priority) = (1, 2);
    assert_eq!(verdict(&s).responses[0], None);
}
