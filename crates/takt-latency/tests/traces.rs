//! Captured traces of planted disturbances, read and explained. `UPDATE=1` with `real::latency::captured_traces_are_read` of takt-cli renews the files.

use std::path::Path;
use takt_latency::{Circumstances, Explanation, KernelTrace, Kind, Sample, explain};

fn text(name: &str) -> String {
    std::fs::read_to_string(Path::new("tests/traces").join(name)).unwrap()
}

fn trace(ring: &[u8], cpu: usize) -> KernelTrace {
    let pages: Vec<(usize, &[u8])> = ring.chunks(4096).map(|page| (cpu, page)).collect();
    KernelTrace::read(&text("page.txt"), &text("events.txt"), &pages).unwrap()
}

fn captured(name: &str) -> (Vec<u8>, Sample, usize) {
    let ring = std::fs::read(Path::new("tests/traces").join(format!("{name}.ring"))).unwrap();
    let numbers: Vec<i64> = text(&format!("{name}.txt")).split_whitespace().map(|n| n.parse().unwrap()).collect();
    let [planned, late, pid, cpu] = numbers[..] else { panic!("four numbers are expected: {numbers:?}") };
    (ring, Sample { planned, late, pid: pid as u32 }, cpu as usize)
}

fn explained(name: &str) -> Explanation {
    let (ring, sample, cpu) = captured(name);
    let trace = trace(&ring, cpu);
    assert!(trace.events.len() > 10 && trace.events.is_sorted_by_key(|event| event.at));
    let why = explain(&trace, sample, &Circumstances::default(), &|_| None).expect("the trace covers the sample");
    assert_eq!(why.parts.iter().map(|part| part.ns).sum::<i64>(), sample.late);
    why
}

#[test]
fn the_hog_is_found() {
    let why = explained("hog");
    let part = &why.parts[0];
    assert!(part.kind == Kind::Preempted && part.ns * 10 > why.late * 9, "{why:#?}");
    assert_eq!(part.thread.as_ref().unwrap().1, "planted-hog");
    assert!(why.text.contains("at real-time 70 on CPU"), "{}", why.text);
}

#[test]
fn the_storm_of_timers_is_found() {
    let why = explained("storm");
    let part = &why.parts[0];
    assert!(part.kind == Kind::Interrupts && part.ns * 2 > why.late, "{why:#?}");
    assert!(part.text.contains("timers expired"), "{}", part.text);
}

/// Damaged pages are read or refused, and never make the reader fail.
#[test]
fn damaged_pages_do_no_harm() {
    use proptest::prelude::*;
    let (ring, sample, cpu) = captured("hog");
    takt_testing::for_all(200, prop::collection::vec((0..ring.len(), any::<u8>()), 1..20), |changes| {
        let mut ring = ring.clone();
        changes.iter().for_each(|(place, byte)| ring[*place] = *byte);
        let pages: Vec<(usize, &[u8])> = ring.chunks(4096).map(|page| (cpu, page)).collect();
        if let Ok(trace) = KernelTrace::read(&text("page.txt"), &text("events.txt"), &pages) {
            let _ = explain(&trace, sample, &Circumstances::default(), &|_| None);
        }
        Ok(())
    });
}
