//! The thread that reads sensors, so that a slow one delays no window.

use super::root::Root;
use super::sensors::{Energy, EnergyCounter, Thermometer, Zone, energy_counters};
use crate::group::Unavailable;
use crate::rt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use takt_core::cpus::CpuSet;

/// Counters of energy are read at least so often. At 1 kW, one of 32 bits in units of 15 µJ wraps after a minute.
const ENERGY: Duration = Duration::from_secs(1);

/// A reading of a sensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The sensor, by its place in [`super::Settings::zones`].
    pub zone: usize,
    /// In m°C; `None` when the sensor was not ready or read nonsense.
    pub temperature: Option<i32>,
}

/// The thread.
#[derive(Debug)]
pub(super) struct Sampler {
    /// Closed to end the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<(Vec<Energy>, Vec<u64>)>>,
}

impl Sampler {
    /// Opens the sensors and starts the thread, off these CPUs if there are others. Only the first so many sensors are required.
    ///
    /// # Errors
    /// A sensor cannot be opened.
    pub(super) fn start(
        root: &Root,
        (zones, required): (&[Zone], usize),
        period: Duration,
        away: &CpuSet,
        wake: OwnedFd,
    ) -> Result<(Sampler, Receiver<Sample>), Unavailable> {
        let mut thermometers = Vec::with_capacity(zones.len());
        for zone in zones {
            thermometers.push(Thermometer::open(root, zone).map_err(|e| Unavailable {
                reason: format!("the sensor {} cannot be read: {e}", zone.name),
                fix: "run as root, or name another zone".into(),
            })?);
        }
        let counters = energy_counters(root);
        let (end, over) = mpsc::channel();
        let (samples, receiver) = mpsc::channel();
        let away = *away;
        let run = move || {
            let others = rt::affinity(0).map(|all| all.difference(&away)).ok().filter(|others| !others.is_empty());
            if let Some(others) = others {
                let _ = rt::set_affinity(0, &others);
            }
            sample(thermometers, counters, period, &over, |sample| {
                if sample.temperature.is_none() && sample.zone >= required {
                    return;
                }
                let _ = samples.send(sample);
                let _ = rustix::io::write(&wake, &1u64.to_ne_bytes());
            })
        };
        let thread = std::thread::Builder::new().name("takt-sensors".into()).spawn(run);
        let thread = thread.map_err(|e: io::Error| Unavailable {
            reason: format!("a thread cannot be started: {e}"),
            fix: "raise the limit of processes (`ulimit -u`)".into(),
        })?;
        Ok((Sampler { end: Some(end), thread: Some(thread) }, receiver))
    }

    /// Ends the thread. Returns the energy since its start, and how many readings of each sensor gave no temperature.
    pub(super) fn end(&mut self) -> (Vec<Energy>, Vec<u64>) {
        drop(self.end.take());
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}

fn sample(
    mut thermometers: Vec<Thermometer>,
    mut counters: Vec<EnergyCounter>,
    period: Duration,
    over: &Receiver<()>,
    report: impl Fn(Sample),
) -> (Vec<Energy>, Vec<u64>) {
    let mut counted = Instant::now();
    loop {
        for (zone, thermometer) in thermometers.iter_mut().enumerate() {
            report(Sample { zone, temperature: thermometer.read() });
        }
        if counted.elapsed() >= ENERGY {
            counters.iter_mut().for_each(EnergyCounter::read);
            counted = Instant::now();
        }
        // Without a sensor the counters alone are read.
        let pause = if thermometers.is_empty() { ENERGY } else { period };
        if over.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            counters.iter_mut().for_each(EnergyCounter::read);
            let energy = counters.iter().map(EnergyCounter::energy).collect();
            return (energy, thermometers.iter().map(|thermometer| thermometer.bad).collect());
        }
    }
}
