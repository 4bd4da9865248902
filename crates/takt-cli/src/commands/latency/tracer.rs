//! The kernel's trace of a round, for `--explain`. It is read and explained after the round, so that neither disturbs a sample.

use super::internal::Measured;
use super::measure::WakeUp;
use crate::failure::Failure;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use takt_core::time::Span;
use takt_latency::{
    Circumstances, EVENTS, KernelTrace, NOISE, Pair, RETURNS, Sample, Source, Stage, Sum, TIMERLAT, Worst, explain,
    pairs,
};
use takt_linux::rt::{self, Class};
use takt_linux::tracing::Instance;
use takt_linux::{Osnoise, RunId, Timerlat, timer};
use takt_workload::Code;

/// The ring of the measured CPU, in KiB. A wake-up takes some 400 bytes of it.
const RING_KIB: usize = 16 << 10;

/// The instance of an experiment, and the descriptions of its events.
pub(super) struct Tracer {
    instance: Instance,
    cpu: usize,
    /// The tracer `osnoise`, or why it is not used.
    osnoise: Result<Osnoise, String>,
    header: String,
    described: String,
    begin: Span,
    most: usize,
    returns: bool,
}

/// The kernel's account of a round.
#[derive(Default)]
pub(super) struct Account {
    /// The latest samples with their causes.
    pub(super) worst: Vec<Worst>,
    /// Late samples that the trace does not cover.
    pub(super) uncovered: usize,
    /// The wake-ups as the task and as the kernel have them.
    pub(super) pairs: Vec<Pair>,
    /// Wake-ups without a timer of their own.
    pub(super) behind: usize,
    /// Wake-ups that the trace lacks.
    pub(super) missing: usize,
}

impl Tracer {
    /// An instance that records the events of explanations. At most `most` samples of a round are explained. `returns`: wake-ups are compared, too.
    pub(super) fn create(run: &RunId, cpu: usize, most: usize, returns: bool) -> Result<Tracer, Failure> {
        let instance = Instance::create(run, cpu, RING_KIB)
            .map_err(|e| Failure::machine(Code::MissingCapability, &e.reason, &e.fix))?;
        let mut described = String::new();
        for event in EVENTS {
            if instance.enable(event)? {
                described += &instance.format(event)?;
            }
        }
        if returns {
            let mut known = 0;
            for event in RETURNS {
                if instance.enable(event)? {
                    described += &instance.format(event)?;
                    known += 1;
                }
            }
            if known == 0 {
                let message = "the kernel does not record the returns of system calls";
                return Err(Failure::machine(
                    Code::MissingCapability,
                    message,
                    "use a kernel with CONFIG_FTRACE_SYSCALLS",
                ));
            }
        }
        // Wake-ups are compared without it, because it records within interrupts.
        let osnoise = match returns {
            true => Err("wake-ups are compared without it".into()),
            false => Osnoise::start(run, &instance).map_err(|e| format!("{}: {}", e.reason, e.fix)),
        };
        if osnoise.is_ok() {
            for event in NOISE {
                if instance.enable(event)? {
                    described += &instance.format(event)?;
                }
            }
        }
        if let Ok(timerlat) = instance.tracer_format(TIMERLAT) {
            described += &timerlat;
        }
        let header = instance.header()?;
        Ok(Tracer { instance, cpu, osnoise, header, described, begin: timer::now(), most, returns })
    }

    pub(super) fn start(&self) -> std::io::Result<()> {
        self.instance.start()
    }

    /// Why the tracer `osnoise` is not used.
    pub(super) fn without_osnoise(&self) -> Option<&str> {
        self.osnoise.as_ref().err().map(String::as_str)
    }

    fn trace(&self) -> Result<KernelTrace, Failure> {
        let pages = self.instance.pages()?;
        let pages: Vec<(usize, &[u8])> = pages.iter().map(|(cpu, page)| (*cpu, page.as_slice())).collect();
        KernelTrace::read(&self.header, &self.described, &pages)
            .map_err(|e| Failure::machine(Code::MissingCapability, e, "measure without --explain and --check-trace"))
    }

    /// Adds the sources of noise in what was recorded last, where the tracer `osnoise` is used. The thread `pid` is none.
    pub(super) fn noise(&self, pid: u32, sums: &mut BTreeMap<Source, Sum>) -> Result<(), Failure> {
        if self.osnoise.is_ok() {
            for (source, sum) in self.trace()?.noise(self.cpu, &[pid]) {
                sums.entry(source).or_default().add(sum);
            }
        }
        Ok(())
    }

    /// Replaces the tracer `osnoise` by `timerlat` until the result is dropped. `None` where neither is used; the inner error is the reason why `timerlat`
    /// is not.
    pub(super) fn timerlat(&self, period: Span) -> Option<Result<Timerlat<'_>, String>> {
        let osnoise = self.osnoise.as_ref().ok()?;
        let timerlat = osnoise.timerlat(&self.instance, self.cpu, period);
        Some(timerlat.map_err(|e| format!("{}: {}", e.reason, e.fix)))
    }

    /// Adds the times of the stages in what was recorded last, in the order of [`Stage::ALL`].
    pub(super) fn stages(&self, times: &mut [Vec<i64>; 3]) -> Result<(), Failure> {
        let trace = self.trace()?;
        for (times, stage) in times.iter_mut().zip(Stage::ALL) {
            times.extend(trace.stage(self.cpu, stage));
        }
        Ok(())
    }

    pub(super) fn stop(&self) -> std::io::Result<()> {
        self.instance.stop()
    }

    /// Evaluates the trace of a round. The load still runs, so that the classes of its threads can be asked for.
    pub(super) fn account(&self, measured: &Measured, round: usize, class: Class) -> Result<Account, Failure> {
        let trace = self.trace()?;
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
        let mut account = Account { worst: explained, uncovered, ..Account::default() };
        if self.returns {
            let of = |one: &WakeUp| Sample { planned: one.planned, late: one.late, pid: measured.pid };
            let samples: Vec<Sample> = measured.samples.iter().map(of).collect();
            (account.pairs, account.behind, account.missing) = pairs(&trace, &samples);
        }
        Ok(account)
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
