//! `takt bench analyze`: task sets per CPU second of the schedulability tests.

use super::figures::{cpu_time, median};
use super::lab::{Session, reached};
use super::options::{Form, Rounds};
use crate::failure::Failure;
use crate::outcome::{Outcome, Verdict};
use serde_json::{Value, json};
use std::hint::black_box;
use std::io::{self, Write};
use takt::report::table;
use takt_analysis::taskset::TaskSet;
use takt_analysis::tests::{self, Test, Verdict as Says};
use takt_core::time::Span;
use takt_workload::{Code, Source};

/// Measure the number of task sets that the schedulability tests decide in a second of CPU time
///
/// Two files of random sets whose verdicts are known: ten tasks with constrained deadlines on one CPU, and about seven on four.
/// Reading the files is not counted.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    rounds: Rounds,
    #[command(flatten)]
    form: Form,
}

struct File {
    name: &'static str,
    csv: &'static str,
    cpus: usize,
    tests: &'static [&'static str],
}

const FILES: [File; 2] = [
    File {
        name: "sweep_n10",
        csv: include_str!("../../../embedded/data/sweep_n10.csv"),
        cpus: 1,
        tests: &["edf", "rm-rta", "dm-rta"],
    },
    File {
        name: "airs_W3.6",
        csv: include_str!("../../../embedded/data/airs_W3.6.csv"),
        cpus: 4,
        tests: &["gfb", "bcl", "bak", "gedf-rta", "ff", "wf", "wm_ff", "wm_wf", "ceqd_ff"],
    },
];

/// Sets of `sweep_n10` per second that the exact EDF test of schedcat (86211bc) judged once: its QPA, called from C++.
const FASTEST: i64 = 38_591;
/// The test and the file that it was measured with.
const JUDGED: (&str, &str) = ("sweep_n10", "edf");

/// One test on one file.
struct Measured {
    file: &'static str,
    test: &'static Test,
    accepted: usize,
    sets: usize,
    /// Sets per CPU second of each round.
    rates: Vec<i64>,
}

fn read(file: &File) -> Result<Vec<TaskSet>, Failure> {
    let fault = || Failure::status(101, Code::InternalFault, format!("the sets {} cannot be read", file.name));
    let source = Source::from_bytes(format!("{}.csv", file.name), file.csv.into()).map_err(|_| fault())?;
    let sets = takt_workload::load_sets(&source).map_err(|_| fault())?;
    sets.iter().map(|set| TaskSet::from_tasks(&set.tasks).map_err(|_| fault())).collect()
}

/// Sets per CPU second, from as many passes as take `least`.
fn rate(test: &Test, sets: &[TaskSet], cpus: usize, least: Span) -> i64 {
    let start = cpu_time();
    let mut judged = 0i128;
    loop {
        for set in sets {
            black_box(test.run(black_box(set), cpus));
        }
        judged += sets.len() as i128;
        let took = cpu_time() - start;
        if took >= least {
            return (judged * 1_000_000_000 / i128::from(took.ns())) as i64;
        }
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let session = Session::begin("analyze", args.rounds.count(&args.form), args.form.quick);
    let least = if args.form.quick { Span::from_ms(5) } else { Span::from_ms(500) };
    let mut all = Vec::new();
    for file in &FILES {
        let sets = read(file)?;
        for name in file.tests {
            let test = tests::test(name).expect("the bench names tests that there are");
            let accepts = |set: &&TaskSet| test.run(set, file.cpus).verdict == Says::Schedulable;
            let accepted = sets.iter().filter(accepts).count();
            all.push((
                sets.clone(),
                file.cpus,
                Measured { file: file.name, test, accepted, sets: sets.len(), rates: vec![] },
            ));
        }
    }
    for round in 1..=session.rounds {
        for (sets, cpus, measured) in &mut all {
            session.round(round, measured.test.name);
            measured.rates.push(rate(measured.test, sets, *cpus, least));
        }
    }
    let all: Vec<Measured> = all.into_iter().map(|(_, _, measured)| measured).collect();
    let judged = all.iter().find(|m| (m.file, m.test.name) == JUDGED).expect("it is in the list");
    let best = median(judged.rates.iter().copied());
    let holds = (!session.quick).then_some(best >= FASTEST);
    let mut out = io::stdout().lock();
    if args.form.json {
        let one = |m: &Measured| {
            json!({"file": m.file, "test": m.test.name, "accepted": m.accepted, "sets": m.sets,
                   "sets_per_cpu_second": median(m.rates.iter().copied()), "rounds": m.rates})
        };
        let limit = json!({"what": "sweep_n10, edf", "measured": best, "limit": FASTEST, "holds": holds});
        let results = json!({"tests": all.iter().map(one).collect::<Vec<Value>>()});
        writeln!(out, "{}", session.json(json!({"results": results, "limits": [limit]})))?;
    } else {
        let [title, machine] = session.heading("; task sets per second of CPU time");
        writeln!(out, "{title}\n{machine}\n")?;
        let mut rows = vec![["file", "test", "accepted", "sets", "per second"].map(String::from).to_vec()];
        for m in &all {
            let rate = median(m.rates.iter().copied()).to_string();
            rows.push(vec![m.file.into(), m.test.name.into(), m.accepted.to_string(), m.sets.to_string(), rate]);
        }
        table(&mut out, &rows)?;
        let (least, verdict) = ("which schedcat's QPA did once, on another machine", reached(holds));
        writeln!(out, "\nsweep_n10, edf: {best} per second, at least {FASTEST}, {least}: {verdict}")?;
    }
    Ok(if args.form.strict && holds == Some(false) { Verdict::No } else { Verdict::Done })
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn the_files_hold_what_is_known() {
        let accepted = |file: &File, name: &str| {
            let test = tests::test(name).unwrap();
            let sets = read(file).unwrap();
            sets.iter().filter(|set| test.run(set, file.cpus).verdict == Says::Schedulable).count()
        };
        assert_eq!(accepted(&FILES[0], "edf"), 548);
        assert_eq!(accepted(&FILES[1], "wm_ff"), 83);
        assert!(FILES.iter().flat_map(|f| f.tests).all(|name| tests::test(name).is_some()));
    }
}
