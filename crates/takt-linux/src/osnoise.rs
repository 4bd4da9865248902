//! The kernel's tracer `osnoise`: each interrupt, softirq, thread and non-maskable interrupt that takes a CPU, with its own time.
//!
//! By default the tracer has a spinning thread on each CPU, which would disturb what is measured. Takt switches this workload off, so the tracer
//! only records. The switch is one of the whole machine. It is in the journal of settings, and is refused while another program uses the tracer.
//!
//! The tracer `timerlat` takes its place for single measurements. It records the lateness of its own timer and of a waiting process. Without the workload, the
//! process is one of Takt. Sources: `Documentation/trace/osnoise-tracer.rst` and `Documentation/trace/timerlat-tracer.rst` of Linux.

use crate::group::Unavailable;
use crate::isolate;
use crate::run_id::RunId;
use crate::tracing::{self, Instance, NO_WORKLOAD, OPTIONS, WORKLOAD, workload};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use takt_core::time::Span;

/// The period of the tracer `timerlat` in microseconds, which all instances share.
const PERIOD: &str = "/sys/kernel/tracing/osnoise/timerlat_period_us";
/// Its bounds in the kernel, in microseconds.
const PERIODS: std::ops::RangeInclusive<i64> = 100..=1_000_000;

/// The tracer in the instance of a run. When this is dropped, it is switched off there, and the options are as before.
#[derive(Debug)]
pub struct Osnoise {
    run: RunId,
}

impl Osnoise {
    /// Switches the tracer on in the instance of a run. The events `osnoise/...` are to be enabled beside it.
    ///
    /// # Errors
    /// The kernel has no such tracer, or another program uses it.
    pub fn start(run: &RunId, instance: &Instance) -> Result<Osnoise, Unavailable> {
        let unavailable = |reason: &str, fix: &str| Unavailable { reason: reason.into(), fix: fix.into() };
        let failed = |e: io::Error| Unavailable {
            reason: format!("the tracer `osnoise` cannot be used: {e}"),
            fix: "run as root, and let no other program use the tracer".into(),
        };
        let root = tracing::root().map_err(failed)?;
        let tracers = tracing::text(&root, "available_tracers").map_err(failed)?;
        if !tracers.split_whitespace().any(|name| name == "osnoise") {
            return Err(unavailable("the kernel has no tracer `osnoise`", "use a kernel with CONFIG_OSNOISE_TRACER"));
        }
        let Ok(options) = fs::read_to_string(OPTIONS) else {
            let fix = "mount it (mount -t tracefs tracefs /sys/kernel/tracing); the kernel has to be 6.1 or later";
            return Err(unavailable("/sys/kernel/tracing has no options of the tracer `osnoise`", fix));
        };
        let used = tracing::active(&root).map_err(failed)?;
        let used = used.iter().any(|(_, tracer)| ["osnoise", "timerlat"].contains(&tracer.as_str()));
        if used && workload(&options) == WORKLOAD {
            return Err(unavailable(
                "another program uses the tracer `osnoise` or `timerlat`",
                "end that program (`rtla`)",
            ));
        }
        let settings = [OPTIONS, PERIOD].into_iter().filter(|path| Path::new(path).exists());
        isolate::hold(run, &settings.map(str::to_owned).collect::<Vec<_>>()).map_err(failed)?;
        // From here on, all is undone when this is dropped.
        let osnoise = Osnoise { run: *run };
        fs::write(OPTIONS, NO_WORKLOAD).map_err(failed)?;
        instance.write("current_tracer", "osnoise").map_err(failed)?;
        Ok(osnoise)
    }

    /// Replaces the tracer by `timerlat` in its instance, until the result is dropped. Its timer has this period, as far as the kernel has such periods:
    /// 100 us to 1 s.
    ///
    /// # Errors
    /// The kernel has no tracer `timerlat`, or no file for processes that wait for its timer.
    pub fn timerlat<'i>(&self, instance: &'i Instance, cpu: usize, period: Span) -> Result<Timerlat<'i>, Unavailable> {
        let fix = "use Linux 6.5 or later with CONFIG_TIMERLAT_TRACER";
        let unavailable = |reason: String| Unavailable { reason, fix: fix.into() };
        let file = timerlat_file(cpu);
        if !file.exists() {
            return Err(unavailable(format!("the kernel has no {}", file.display())));
        }
        let us = (period.ns() / 1000).clamp(*PERIODS.start(), *PERIODS.end());
        fs::write(PERIOD, us.to_string()).map_err(|e| unavailable(format!("{PERIOD}: {e}")))?;
        // From here on, the tracer of before is there again when this is dropped.
        let timerlat = Timerlat { instance };
        instance.write("current_tracer", "timerlat").map_err(|e| unavailable(e.to_string()))?;
        Ok(timerlat)
    }
}

/// The file in which a process of this CPU waits for the timer of the tracer `timerlat`: each read returns after the next period. The process has to be
/// bound to the CPU before it opens the file.
#[must_use]
pub fn timerlat_file(cpu: usize) -> PathBuf {
    Path::new("/sys/kernel/tracing/osnoise/per_cpu").join(format!("cpu{cpu}/timerlat_fd"))
}

/// The tracer `timerlat` in an instance. When this is dropped, the tracer is `osnoise` again.
#[derive(Debug)]
pub struct Timerlat<'i> {
    instance: &'i Instance,
}

impl Drop for Timerlat<'_> {
    fn drop(&mut self) {
        // Without it, sources of noise are missing in later rounds, and nothing else.
        let _ = self.instance.write("current_tracer", "osnoise");
    }
}

impl Drop for Osnoise {
    fn drop(&mut self) {
        // With the option, an active tracer would start its threads.
        let tracer = format!("/sys/kernel/tracing/instances/{}/current_tracer", self.run.group_name());
        let _ = fs::write(tracer, "nop");
        // A failure is in the journal, which `doctor --clean` carries out.
        let _ = isolate::release(&self.run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracer(run: &RunId) -> String {
        format!("instances/{}/current_tracer", run.group_name())
    }

    /// The tracer starts no thread, and all is as before when it is off.
    #[test]
    fn the_tracer_is_switched_on_and_off() {
        let threads = || {
            let names =
                crate::control::processes().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).ok());
            names.filter(|name| name.starts_with("osnoise/") || name.starts_with("timerlat/")).count()
        };
        let run = RunId::new().unwrap();
        let instance = match Instance::create(&run, 0, 256) {
            Ok(instance) => instance,
            Err(e) => return println!("skipped: {}", e.reason),
        };
        let before = fs::read_to_string(OPTIONS);
        let osnoise = match Osnoise::start(&run, &instance) {
            Ok(osnoise) => osnoise,
            Err(e) => return println!("skipped: {}", e.reason),
        };
        for event in ["irq_noise", "softirq_noise", "thread_noise", "nmi_noise"] {
            assert!(instance.enable(&format!("osnoise/{event}")).unwrap(), "{event}");
        }
        instance.start().unwrap();
        assert_eq!((threads(), workload(&fs::read_to_string(OPTIONS).unwrap())), (0, NO_WORKLOAD));
        std::thread::sleep(std::time::Duration::from_millis(20));
        instance.stop().unwrap();
        assert!(!instance.pages().unwrap().is_empty());
        let period = fs::read_to_string(PERIOD);
        match osnoise.timerlat(&instance, 0, Span::from_us(50)) {
            Ok(timerlat) => {
                assert_eq!((threads(), &*fs::read_to_string(PERIOD).unwrap()), (0, "100\n"));
                assert_eq!(tracing::text(&tracing::root().unwrap(), &tracer(&run)).unwrap(), "timerlat\n");
                drop(timerlat);
            }
            Err(e) => println!("without timerlat: {}", e.reason),
        }
        assert_eq!(tracing::text(&tracing::root().unwrap(), &tracer(&run)).unwrap(), "osnoise\n");
        drop(osnoise);
        assert_eq!(fs::read_to_string(PERIOD).ok(), period.ok());
        assert_eq!((threads(), fs::read_to_string(OPTIONS).unwrap()), (0, before.unwrap()));
        drop(instance);
        assert!(!tracing::instances().contains(&run) && !isolate::holders().iter().any(|(holder, _)| *holder == run));
    }
}
