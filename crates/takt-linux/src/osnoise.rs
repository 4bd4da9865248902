//! The kernel's tracer `osnoise`: each interrupt, softirq, thread and non-maskable interrupt that takes a CPU, with its own time.
//!
//! By default the tracer has a spinning thread on each CPU, which would disturb what is measured. Takt switches this workload off, so the tracer
//! only records. The switch is one of the whole machine. It is in the journal of settings, and is refused while another program uses the tracer.
//! Source: `Documentation/trace/osnoise-tracer.rst` of Linux.

use crate::group::Unavailable;
use crate::isolate;
use crate::run_id::RunId;
use crate::tracing::{self, Instance, NO_WORKLOAD, OPTIONS, WORKLOAD, workload};
use std::fs;
use std::io;

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
        isolate::hold(run, &[OPTIONS.to_owned()]).map_err(failed)?;
        // From here on, all is undone when this is dropped.
        let osnoise = Osnoise { run: *run };
        fs::write(OPTIONS, NO_WORKLOAD).map_err(failed)?;
        instance.write("current_tracer", "osnoise").map_err(failed)?;
        Ok(osnoise)
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
        drop(osnoise);
        assert_eq!((threads(), fs::read_to_string(OPTIONS).unwrap()), (0, before.unwrap()));
        drop(instance);
        assert!(!tracing::instances().contains(&run) && !isolate::holders().iter().any(|(holder, _)| *holder == run));
    }
}
