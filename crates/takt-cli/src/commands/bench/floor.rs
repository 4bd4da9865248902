//! The floor: how late this machine wakes a thread that does nothing else, on a CPU that is as busy as with windows. `cyclictest` where it is installed.

use super::figures::Figures;
use crate::commands::latency::cyclictest;
use crate::commands::latency::measure::{Method, WakeUp, wake};
use crate::failure::Failure;
use crate::interruption::Interruption;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_linux::rt::{self, Class};
use takt_workload::Code;

/// The program that measures the floor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Floor {
    Cyclictest,
    BuiltIn,
}

impl Floor {
    pub(super) fn find() -> Floor {
        if cyclictest::is_installed() { Floor::Cyclictest } else { Floor::BuiltIn }
    }
    pub(super) fn name(self) -> &'static str {
        match self {
            Floor::Cyclictest => "cyclictest",
            Floor::BuiltIn => "timer loop (no cyclictest here)",
        }
    }
    /// Wakes `count` times at FIFO 80 on this CPU, beside an ordinary thread that spins. An idle CPU would have to leave an idle state each time.
    pub(super) fn measure(self, cpu: usize, interval: Span, count: usize) -> Result<Figures, Failure> {
        let _busy = Busy::start(cpu);
        match self {
            Floor::Cyclictest => {
                Ok(Figures::of(cyclictest::measure(cpu, 80, interval, count, &Interruption::default())?))
            }
            Floor::BuiltIn => built_in(cpu, interval, count),
        }
    }
}

/// A spinning thread on a CPU, until this is dropped.
struct Busy {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    fn start(cpu: usize) -> Busy {
        let ends = Arc::new(AtomicBool::new(false));
        let observed = ends.clone();
        let thread = std::thread::spawn(move || {
            // Elsewhere it would only disturb.
            if rt::set_affinity(0, &CpuSet::single(cpu)).is_ok() {
                while !observed.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        });
        Busy { ends, thread: Some(thread) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // It panics nowhere.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn built_in(cpu: usize, interval: Span, count: usize) -> Result<Figures, Failure> {
    let thread = std::thread::spawn(move || -> std::io::Result<Vec<WakeUp>> {
        rt::set_affinity(0, &CpuSet::single(cpu))?;
        rt::set_class(0, Class::Fifo(80))?;
        let late = wake(Method::Nanosleep, interval, count);
        rt::set_class(0, Class::Other)?;
        late
    });
    let late = thread.join().map_err(|_| Failure::status(101, Code::InternalFault, "the timer loop failed"))?;
    Ok(Figures::of(late?.into_iter().map(|one| one.late).collect::<Vec<i64>>()))
}
