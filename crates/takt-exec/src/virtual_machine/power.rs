//! Power policies over a virtual machine decide as in the simulator, and their requests reach the machine.

#![cfg(test)]

use super::tests::{Records, engine, load, plan};
use super::{Faults, Machine, drive};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::System;
use takt_core::power::{
    Demands, FrequencyDomain, Host, Kind, OperatingPoint, Platform, Point, PowerSpec, Registry, Value,
};
use takt_core::record::{Record, RecordKind};
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_core::work::Speed;
use takt_workload::{Source, Workload};

const WINDOWS: &str = "\
partitions:
- {name: control, processes: [{cmd: a, budget: 4ms, init: no}, {cmd: b, budget: 3ms}]}
- {name: video, processes: [{cmd: c, budget: 6ms}, {cmd: d, budget: 2ms}]}
- {name: log, processes: [{cmd: e, budget: 9ms}]}
windows:
- {length: 10ms, slices: [{cpu: 0, sc_partition: control, be_partition: video}, {cpu: 1, be_partition: log}]}
- {length: 7ms, slices: [{cpu: 0-1, sc_partition: video}]}
- {length: 5ms, slices: [{cpu: 1, sc_partition: log, be_partition: control}]}
";

const LENGTH: Span = Span::from_ms(4400);

fn workload() -> Workload {
    load(Source { name: "power.yaml".into(), text: WINDOWS.into() })
}

/// Two domains of a CPU and three frequencies each, and a thermal zone.
fn platform() -> Platform {
    let domain = |cpu: usize| FrequencyDomain {
        name: format!("policy{cpu}"),
        cpus: CpuSet::single(cpu),
        points: [500_000, 1_000_000, 2_000_000]
            .map(|khz| OperatingPoint { khz, speed: Speed::from_millionths(khz / 2).expect("a speed") })
            .to_vec(),
    };
    Platform { domains: vec![domain(0), domain(1)], zones: vec!["cpu".into()], simulated: false }
}

/// The frequencies that slices and processes ask for.
fn demands(system: &System) -> Demands {
    let slices = system.windows.iter().map(|window| window.slices.iter().map(|_| Some(1_000_000)).collect());
    Demands { slices: slices.collect(), tasks: vec![Some(1_000_000); system.tasks.len()] }
}

/// A policy with arguments that fit this machine.
fn specs() -> Vec<PowerSpec> {
    let registry = Registry::standard();
    let mut specs = Vec::new();
    for entry in registry.entries() {
        let mut spec = PowerSpec::new(&entry.profile);
        for (value, parameter) in spec.values.iter_mut().zip(entry.profile.parameters) {
            *value = match parameter.kind {
                Kind::Zone => Some(Value::Zone("cpu".into())),
                Kind::Temperature(..) => Some(Value::Number(60_000)),
                Kind::Difference(..) => Some(Value::Number(5_000)),
                Kind::Points(each) => Some(Value::Points((0..2 * each as u32).map(|n| Point::Index(n % 3)).collect())),
                Kind::Duration(..) | Kind::Count(..) | Kind::Choice(_) => None,
            };
        }
        specs.push(spec);
    }
    specs
}

fn hosting(mut engine: Engine, spec: &PowerSpec) -> Engine {
    let system = engine.system().clone();
    let host = Host::new(spec, &Registry::standard(), &system, platform(), &demands(&system));
    engine.set_power(host.unwrap_or_else(|fault| panic!("{}: {fault:?}", spec.profile.name)));
    engine
}

type Samples = Vec<(Span, Option<i32>)>;

/// The records of a run and of a simulation with these samples, and the machine of the run.
fn both(spec: &PowerSpec, samples: &Samples) -> (Vec<Record>, Vec<Record>, Machine) {
    let (system, plan, programs) = plan(&workload(), LENGTH);
    let mut machine = Machine::new(plan.clone(), Faults::none());
    machine.world().temperatures = samples.iter().map(|(at, value)| (*at, 0, *value)).collect();
    let hosted = hosting(engine(system.clone()), spec);
    let ran = drive::run(hosted, &Arc::clone(&plan), &programs, &mut machine).expect("a run");
    let mut system = system;
    for (task, program) in system.tasks.iter_mut().zip(&programs) {
        task.program = program.clone();
    }
    let mut engine = hosting(engine(system), spec);
    let sample = |(at, millidegrees): &(Span, Option<i32>)| {
        (Time::ZERO + *at, Input::Temperature { zone: 0, millidegrees: *millidegrees })
    };
    let scenario = Scenario { changes: samples.iter().map(sample).collect(), ..Scenario::default() };
    let mut records = Records::default();
    takt_sim::simulate(&mut engine, &scenario, LENGTH, &mut records, |_| {});
    (ran.records, records.0, machine)
}

fn samples() -> impl Strategy<Value = Samples> {
    let value = prop_oneof![6 => (40_000..80_000).prop_map(Some), 1 => Just(None), 1 => Just(Some(200_000))];
    // Not at the instants of the table: the simulator takes an input of such an instant before it, and a run after it.
    let step = prop_oneof![8 => 1i64..150, 1 => 900i64..1300].prop_map(|ms| Span::from_us(ms * 1000 + 137));
    prop::collection::vec((step, value), 0..40).prop_map(|steps| {
        let mut at = Span::ZERO;
        let sample = |(step, value)| {
            at += step;
            (at, value)
        };
        let all: Samples = steps.into_iter().map(sample).collect();
        all.into_iter().filter(|(at, _)| *at < LENGTH).collect()
    })
}

#[test]
fn every_power_policy_decides_as_simulated() {
    let specs = specs();
    takt_testing::for_all(24, (0..specs.len(), samples()), |(index, samples)| {
        let spec = &specs[index];
        let (ran, simulated, machine) = both(spec, &samples);
        let first = ran.iter().zip(&simulated).position(|(ran, simulated)| ran != simulated);
        let differs = first.map(|at| (ran[at], simulated[at]));
        prop_assert!(differs.is_none() && ran.len() == simulated.len(), "{}: {differs:?}", spec.profile.name);
        // The records have the requests that the machine got, in this order.
        let recorded: Vec<(u16, u32)> = ran
            .iter()
            .filter_map(|record| match record.kind {
                RecordKind::Frequency { domain, khz } => Some((domain, khz)),
                _ => None,
            })
            .collect();
        let world = machine.world();
        let got: Vec<(u16, u32)> = world.frequencies.iter().map(|(_, domain, khz)| (*domain, *khz)).collect();
        prop_assert_eq!(&got, &recorded);
        let latencies = ran.iter().filter(|record| matches!(record.kind, RecordKind::IdleLatency { .. })).count();
        prop_assert_eq!(world.latencies.len(), latencies);
        // Each is handed over, several of one step together.
        prop_assert!(world.posts <= (got.len() + latencies) as u64);
        prop_assert!(world.posts > 0 || got.len() + latencies == 0);
        // The writer learns of the planned instants, and of the frame with which they repeat.
        let times = world.frequencies.iter().map(|(at, ..)| at).chain(world.latencies.iter().map(|(at, ..)| at));
        let times: BTreeSet<Span> = times.copied().collect();
        for (planned, frame) in &world.planned_posts {
            prop_assert_eq!(*frame, Span::from_ms(22));
            prop_assert!(times.contains(planned), "{planned}");
        }
        // Each of its windows begins with another frequency.
        let windows = if spec.profile.name == "alternating" { 600 } else { 0 };
        prop_assert!(world.planned_posts.len() >= windows, "{}", world.planned_posts.len());
        Ok(())
    });
}

#[test]
fn too_hot_a_machine_starts_no_best_effort_partition() {
    let spec = specs().into_iter().find(|spec| spec.profile.name == "skip_be").expect("a policy");
    let skipped = |samples: &Samples| {
        let (ran, simulated, _) = both(&spec, samples);
        assert_eq!(ran, simulated);
        let skipped = |record: &&Record| matches!(record.kind, RecordKind::StartSkipped { .. });
        ran.iter().filter(skipped).map(|record| record.at - Time::ZERO).collect::<Vec<_>>()
    };
    let every =
        |from: i64, to: i64, value| (from..to).step_by(500).map(move |ms| (Span::from_us(ms * 1000 + 137), value));
    let cool: Samples = every(0, 4400, Some(50_000)).collect();
    assert_eq!(skipped(&cool), []);
    // Hot from 1.5 s on, between the thresholds from 2.5 s on, cool from 3 s on.
    let hot = every(1500, 2500, Some(61_000)).chain(every(2500, 3000, Some(57_000)));
    let course: Samples = every(0, 1500, Some(50_000)).chain(hot).chain(every(3000, 4400, Some(55_000))).collect();
    let times = skipped(&course);
    let (first, last) = (times[0], times[times.len() - 1]);
    assert!(first > Span::from_ms(1500) && last < Span::from_ms(3001), "{first} to {last}");
    // Two best-effort starts in each frame of 22 ms, for 1.5 s: the third one has no time left in its window.
    assert!((134..=140).contains(&times.len()), "{}", times.len());
    // Without a sample for a second it is on the safe side.
    let lost: Samples = vec![(Span::from_us(137), Some(50_000))];
    assert!(skipped(&lost)[0] > Span::from_ms(1000));
}
