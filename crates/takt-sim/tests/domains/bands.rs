//! Domains of the same CPUs in an order of bands.

use super::*;
use std::collections::BTreeMap;

/// Bands on all CPUs of a machine, the highest first: the policy of each, and its tasks.
fn bands(cpus: usize, bands: &[(&str, Vec<Task>)]) -> System {
    let mut all = told::system(cpus, "domains", vec![]);
    for (index, (name, tasks)) in bands.iter().enumerate() {
        let from = all.tasks.len();
        all.tasks.extend(tasks.iter().cloned());
        let tasks = (from..all.tasks.len()).map(|t| TaskId(t as u32)).collect();
        let band = 10 * (bands.len() - index) as u32;
        all.domains.push(Domain { band, cpus: all.cpus, tasks, policy: policy(name, &[]) });
    }
    all
}

#[test]
fn a_lower_band_has_what_the_higher_ones_leave() {
    // By deadlines alone c would be first.
    let high = || vec![once(1, 2, 20), once(6, 1, 20)];
    let low = || vec![once(0, 4, 5), once(2, 2, 30)];
    expect(&tell(bands(1, &[("edf", high()), ("edf", low())]), 40), "c0-1 a1-3 c3-6 b6-7 d7-9", "c");
    // The order in the file does not matter, the bands do.
    let mut turned = bands(1, &[("edf", high()), ("edf", low())]);
    turned.domains.reverse();
    expect(&tell(turned, 40), "c0-1 a1-3 c3-6 b6-7 d7-9", "c");
    // A third band runs last.
    expect(
        &tell(bands(1, &[("fifo", high()), ("edf", low()), ("fifo", vec![once(0, 1, 50)])]), 40),
        "c0-1 a1-3 c3-6 b6-7 d7-9 e9-10",
        "c",
    );
}

#[test]
fn the_cpus_of_a_lower_band_come_and_go() {
    let high = || vec![once(1, 2, 20), once(2, 2, 20)];
    // c loses its CPU to a at 1 and takes that of d; b takes that one at 2, and nothing is left until 3.
    expect(
        &tell(bands(2, &[("g-edf", high()), ("g-edf", vec![once(0, 4, 9), once(0, 4, 10)])]), 40),
        "c0-1 a1-3 c3-5
         d0-1 c1-2 b2-4 d4-7",
        "",
    );
    // Where each task has its CPU, it waits for that one.
    let homes = [0, 1].map(|cpu| Task { affinity: CpuSet::single(cpu), ..once(0, 4, 9) });
    expect(
        &tell(bands(2, &[("g-edf", high()), ("p-edf", homes.to_vec())]), 40),
        "c0-1 a1-3 c3-6
         d0-2 b2-4 d4-6",
        "",
    );
}

#[test]
fn a_job_without_preemption_in_its_band_is_preempted_by_a_higher_one() {
    let low = || vec![once(0, 4, 30), once(1, 1, 5)];
    expect(&tell(bands(1, &[("fifo", vec![once(2, 3, 9)]), ("np-edf", low())]), 40), "b0-2 a2-5 b5-7 c7-8", "c");
}

#[test]
fn a_round_robin_job_that_comes_back_has_a_whole_quantum() {
    let rr = || vec![once(0, 3, 30), once(0, 3, 30)];
    expect(
        &tell(bands(1, &[("edf", vec![once(1, 3, 9)]), ("rr", rr())]), 40),
        "b0-1 a1-4 c4-5 b5-6 c6-7 b7-8 c8-9",
        "",
    );
}

#[test]
fn a_subtask_of_pd2_starts_within_a_quantum_where_a_higher_band_ends() {
    let short = Task { runtime: Some(Span::from_us(100)), ..once(0, 1, 9) };
    let slow = Task { arrival: Arrival::Periodic { offset: ms(0), period: ms(9) }, ..once(0, 3, 9) };
    let told = tell(bands(1, &[("fifo", vec![short]), ("pd2", vec![slow])]), 9);
    assert_eq!(told.engine.totals().met, 2, "{}", told.chart());
    assert!(told.chart().starts_with("a0-100us b100us-"), "{}", told.chart());
}

#[test]
fn the_policy_of_a_band_is_switched() {
    // By edf b before c, by fp c before b.
    let low = || vec![Task { priority: 1, ..once(0, 4, 20) }, Task { priority: 2, ..once(0, 4, 21) }];
    let system = || bands(1, &[("edf", vec![once(3, 2, 9)]), ("edf", low())]);
    assert_eq!(switched(system(), &[], 40).chart(), "b0-3 a3-5 b5-6 c6-10");
    let to = |domain, name| switched(system(), &[(1, Some(domain), policy(name, &[]))], 40).chart();
    assert_eq!(to(1, "fp"), "b0-1 c1-3 a3-5 c5-7 b7-10");
    assert_eq!(to(0, "fifo"), "b0-3 a3-5 b5-6 c6-10");
    // While the higher band has the CPU.
    let late = switched(system(), &[(4, Some(1), policy("fp", &[]))], 40);
    assert_eq!(late.chart(), "b0-3 a3-5 c5-9 b9-10");
    assert_eq!(late.engine.system().domains[1].policy.profile.name, "fp");
}

#[test]
fn bands_that_make_no_sense_are_refused() {
    let system = || bands(2, &[("g-edf", overload()), ("g-edf", overload())]);
    let refused = |system: System| Engine::new(system).map(|_| ()).unwrap_err();
    let mut twice = system();
    twice.domains[0].band = twice.domains[1].band;
    assert_eq!(refused(twice), Invalid::Domains);
    let mut overlap = system();
    overlap.domains[1].cpus = CpuSet::single(0);
    assert_eq!(refused(overlap), Invalid::Domains);
    for name in ["edf", "windows", "domains"] {
        let mut unsuited = system();
        unsuited.domains[1].policy = policy(name, &[]);
        assert!(matches!(refused(unsuited), Invalid::Unsuitable(_)), "{name}");
    }
}

/// Whatever another task does next on the CPU, a job that stops has stopped.
fn without_reasons(lines: Vec<String>) -> Vec<String> {
    lines.iter().map(|line| line.replace("Preempted", "Stopped").replace("Suspended", "Stopped")).collect()
}

const LOW_ON_ONE: [&str; 12] =
    ["edf", "rm", "rr", "llf", "np-edf", "np-hvdf", "hvdf", "dasa", "gus", "fifo", "llref", "pd2"];
const LOW_ON_TWO: [&str; 10] = ["g-edf", "p-rm", "g-llf", "ng-gua", "g-gua", "llref", "pd2", "p-rr", "p-llf", "edf-wm"];

#[test]
fn the_highest_band_runs_as_if_it_were_alone() {
    let on_one = (Just(1), select(&ON_ONE[..]), select(&LOW_ON_ONE[..]));
    let on_two = (Just(2), select(&ON_TWO[..]), select(&LOW_ON_TWO[..]));
    let case = (prop_oneof![on_one, on_two], tasks(), tasks(), tasks(), any::<bool>(), 1i64..50);
    for_all(400, case, |((cpus, high, low), first, second, third, abort, at)| {
        let late = if abort { Late::Abort } else { Late::Continue };
        let lowest = if cpus == 1 { "fp" } else { "g-fp" };
        let all = [(high, first.clone()), (low, second), (lowest, third)];
        let alone = tell(System { late, ..told::system(cpus, high, first.clone()) }, 60);
        let alone = without_reasons(part(&alone.records, 0, first.len(), 0));
        prop_assert!(alone.len() > 1);
        // A switch of a lower band changes nothing above it.
        for switches in [&[][..], &[(at, Some(1), policy(lowest, &[]))]] {
            let beside = switched(System { late, ..bands(cpus, &all) }, switches, 60);
            prop_assert_eq!(&alone, &without_reasons(part(&beside.records, 0, first.len(), 0)));
        }
        Ok(())
    });
}

/// By task: the records about it, without its CPUs.
fn stories(records: &[Record], tasks: usize) -> Vec<Vec<String>> {
    let migrates = |line: &String| line.contains("Migrated");
    let mut stories = Vec::new();
    for task in 0..tasks as u32 {
        let mut lines: Vec<(Time, String)> = Vec::new();
        for record in records {
            let text = match record.kind {
                RecordKind::Start { task: t, job, .. } if t.0 == task => format!("start {job}"),
                RecordKind::Stop { task: t, job, reason, .. } if t.0 == task => format!("stop {job} {reason:?}"),
                RecordKind::Finish { task: t, job, outcome, consumed } if t.0 == task => {
                    format!("finish {job} {outcome:?} {consumed}")
                }
                _ => continue,
            };
            // A migration is no interruption.
            if text.starts_with("start") && lines.last().is_some_and(|(at, last)| *at == record.at && migrates(last)) {
                lines.pop();
            } else {
                lines.push((record.at, text));
            }
        }
        stories.push(lines.into_iter().map(|(at, text)| format!("{at} {text}")).collect());
    }
    stories
}

#[test]
fn two_bands_of_fixed_priorities_are_one_policy_with_shifted_priorities() {
    let case = (1usize..4, tasks(), tasks(), prop::collection::vec(0u32..4, 8));
    for_all(300, case, |(cpus, mut high, mut low, priorities)| {
        for (task, priority) in high.iter_mut().chain(&mut low).zip(priorities) {
            task.priority = priority;
        }
        let name = if cpus == 1 { "fp" } else { "g-fp" };
        let apart = tell(bands(cpus, &[(name, high.clone()), (name, low.clone())]), 60);
        high.iter_mut().for_each(|task| task.priority += 4);
        let tasks: Vec<Task> = high.into_iter().chain(low).collect();
        let count = tasks.len();
        let whole = tell(told::system(cpus, name, tasks), 60);
        prop_assert_eq!(apart.engine.totals().met, whole.engine.totals().met);
        prop_assert_eq!(stories(&apart.records, count), stories(&whole.records, count));
        Ok(())
    });
}

/// At each instant: as many jobs run as there are CPUs for them, those of higher bands first.
#[test]
fn cpus_are_used_in_the_order_of_bands() {
    const ONE: [&str; 6] = ["edf", "rm", "rr", "llf", "np-edf", "fp"];
    const MORE: [&str; 5] = ["g-edf", "g-rm", "g-rr", "g-llf", "g-fp"];
    let policies = |names: &'static [&'static str]| prop::collection::vec(select(names), 3);
    let case = prop_oneof![(Just(1), policies(&ONE)), (2usize..4, policies(&MORE))];
    let case = (case, prop::collection::vec(tasks(), 3));
    for_all(300, case, |((cpus, names), tasks)| {
        let all: Vec<(&str, Vec<Task>)> = names.into_iter().zip(tasks).collect();
        let system = bands(cpus, &all);
        let band_of = |task: TaskId| system.domains.iter().position(|d| d.tasks.contains(&task)).expect("it has one");
        let told = tell(system.clone(), 60);
        let (mut pending, mut running) = (BTreeMap::<TaskId, u32>::new(), BTreeMap::<TaskId, ()>::new());
        for (index, record) in told.records.iter().enumerate() {
            match record.kind {
                RecordKind::Release { task, .. } => *pending.entry(task).or_default() += 1,
                RecordKind::Finish { task, .. } => *pending.get_mut(&task).expect("it was released") -= 1,
                RecordKind::Start { task, .. } => drop(running.insert(task, ())),
                RecordKind::Stop { task, .. } => drop(running.remove(&task)),
                _ => {}
            }
            if told.records.get(index + 1).is_none_or(|next| next.at == record.at) {
                continue;
            }
            let mut free = cpus;
            for band in 0..3 {
                let ready = pending.iter().filter(|(task, jobs)| band_of(**task) == band && **jobs > 0).count();
                let runs = running.keys().filter(|task| band_of(**task) == band).count();
                prop_assert_eq!(runs, ready.min(free), "band {} at {}", band, record.at);
                free -= runs;
            }
        }
        Ok(())
    });
}
