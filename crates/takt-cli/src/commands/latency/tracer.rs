//! The kernel's trace of a round, for `--explain`. It is read and explained after the round, so that neither disturbs a sample.

use super::internal::Measured;
use super::measure::WakeUp;
use crate::failure::Failure;
use std::cmp::Reverse;
use takt_core::time::Span;
use takt_latency::{Circumstances, EVENTS, KernelTrace, Sample, Worst, explain};
use takt_linux::rt::{self, Class};
use takt_linux::tracing::Instance;
use takt_linux::{RunId, timer};
use takt_workload::Code;

/// The ring of the measured CPU, in KiB. A wake-up takes some 400 bytes of it.
const RING_KIB: usize = 16 << 10;

/// The instance of an experiment, and the descriptions of its events.
pub(super) struct Tracer {
    instance: Instance,
    header: String,
    described: String,
    begin: Span,
    most: usize,
}

impl Tracer {
    /// An instance that records the events of explanations. At most `most` samples of a round are explained.
    pub(super) fn create(run: &RunId, cpu: usize, most: usize) -> Result<Tracer, Failure> {
        let instance = Instance::create(run, cpu, RING_KIB)
            .map_err(|e| Failure::machine(Code::MissingCapability, &e.reason, &e.fix))?;
        let mut described = String::new();
        for event in EVENTS {
            if instance.enable(event)? {
                described += &instance.format(event)?;
            }
        }
        let header = instance.header()?;
        Ok(Tracer { instance, header, described, begin: timer::now(), most })
    }

    pub(super) fn start(&self) -> std::io::Result<()> {
        self.instance.start()
    }

    pub(super) fn stop(&self) -> std::io::Result<()> {
        self.instance.stop()
    }

    /// The latest samples of a round with their causes, and how many of them the trace does not cover. The load still runs, so that the classes of
    /// its threads can be asked for.
    pub(super) fn worst(
        &self,
        measured: &Measured,
        round: usize,
        class: Class,
    ) -> Result<(Vec<Worst>, usize), Failure> {
        let pages = self.instance.pages()?;
        let pages: Vec<(usize, &[u8])> = pages.iter().map(|(cpu, page)| (*cpu, page.as_slice())).collect();
        let trace = KernelTrace::read(&self.header, &self.described, &pages)
            .map_err(|e| Failure::machine(Code::MissingCapability, e, "measure without --explain"))?;
        let about = Circumstances { throttled: measured.throttled, stolen: measured.stolen };
        let policy = |pid: u32| match pid == measured.pid {
            // The process has ended.
            true => Some(match class {
                Class::Other => "SCHED_OTHER",
                Class::Idle => "SCHED_IDLE",
                Class::Fifo(_) => "SCHED_FIFO",
                Class::Deadline { .. } => "SCHED_DEADLINE",
            }),
            false => rt::policy_name(i32::try_from(pid).ok()?),
        };
        let samples = latest(&measured.samples, self.most);
        let count = samples.len();
        let explained = samples.into_iter().filter_map(|sample| {
            let sample = Sample { planned: sample.planned, late: sample.late, pid: measured.pid };
            let why = explain(&trace, sample, &about, &policy)?;
            Some(Worst { round, at: sample.planned - self.begin.ns(), why })
        });
        let explained: Vec<Worst> = explained.collect();
        let uncovered = count - explained.len();
        Ok((explained, uncovered))
    }
}

/// The latest samples. One whose instant passed while the task was late for a chosen one has the same cause, and is left out.
fn latest(samples: &[WakeUp], most: usize) -> Vec<WakeUp> {
    let mut samples = samples.to_vec();
    samples.sort_by_key(|sample| (Reverse(sample.late), sample.planned));
    let mut chosen: Vec<WakeUp> = Vec::new();
    for sample in samples {
        let same = |one: &WakeUp| (one.planned..=one.planned + one.late).contains(&sample.planned);
        if chosen.len() < most && !chosen.iter().any(same) {
            chosen.push(sample);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_with_the_same_cause_count_once() {
        let of = |planned, late| WakeUp { planned, late };
        let samples = [of(0, 5), of(1000, 2500), of(2000, 1500), of(3000, 500), of(4000, 40)];
        assert_eq!(latest(&samples, 2), [of(1000, 2500), of(4000, 40)]);
        assert_eq!(latest(&samples, 9).len(), 3);
    }
}
