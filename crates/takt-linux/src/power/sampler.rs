//! The thread that reads sensors, so that a slow one delays no window.

use super::cpufreq::Domain;
use super::meters::{Instruments, Meter};
use super::root::Root;
use super::sensors::{Energy, Thermometer, Zone};
use crate::group::Unavailable;
use crate::{rt, timer};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use takt_core::cpus::CpuSet;
use takt_core::time::Span;

/// Meters are read at least so often. At 1 kW, a counter of energy of 32 bits in units of 15 µJ wraps after a minute.
const SLOWEST: Duration = Duration::from_secs(1);
/// Meters are read at most so often.
const FASTEST: Duration = Duration::from_millis(50);

/// A reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sample {
    /// A sample of a sensor for the power policy.
    Temperature {
        /// The sensor, by its place in [`super::Settings::zones`].
        zone: usize,
        /// In m°C; `None` when the sensor was not ready or read nonsense.
        millidegrees: Option<i32>,
    },
    /// A new value of a meter. Policies do not receive it.
    Measured {
        /// The meter, by its place in [`super::Settings::meters`].
        meter: u16,
        /// Its value, in the unit of its [`super::Quantity`].
        value: i64,
        /// The instant on the monotonic clock.
        at: Span,
    },
}

/// The sensors and meters of a run.
#[derive(Debug)]
pub(super) struct Sensors<'a> {
    pub(super) zones: &'a [Zone],
    /// The first so many sensors are required.
    pub(super) required: usize,
    pub(super) measured: &'a [Domain],
    pub(super) meters: &'a [Meter],
}

/// The thread.
#[derive(Debug)]
pub(super) struct Sampler {
    /// Closed to end the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<(Vec<Energy>, Vec<u64>)>>,
}

impl Sampler {
    /// Opens the sensors and starts the thread, off these CPUs if there are others.
    ///
    /// # Errors
    /// A sensor cannot be opened.
    pub(super) fn start(
        root: &Root,
        sensors: &Sensors<'_>,
        period: Duration,
        away: &CpuSet,
        wake: OwnedFd,
    ) -> Result<(Sampler, Receiver<Sample>), Unavailable> {
        let required = sensors.required;
        let mut thermometers = Vec::with_capacity(sensors.zones.len());
        for zone in sensors.zones {
            thermometers.push(Thermometer::open(root, zone).map_err(|e| Unavailable {
                reason: format!("the sensor {} cannot be read: {e}", zone.name),
                fix: "run as root, or name another zone".into(),
            })?);
        }
        let instruments = Instruments::open(root, sensors.measured, sensors.meters);
        let (end, over) = mpsc::channel();
        let (samples, receiver) = mpsc::channel();
        let away = *away;
        let run = move || {
            let others = rt::affinity(0).map(|all| all.difference(&away)).ok().filter(|others| !others.is_empty());
            if let Some(others) = others {
                let _ = rt::set_affinity(0, &others);
            }
            sample(thermometers, instruments, period, &over, |sample| {
                if matches!(sample, Sample::Temperature { zone, millidegrees: None } if zone >= required) {
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
    mut instruments: Instruments,
    period: Duration,
    over: &Receiver<()>,
    report: impl Fn(Sample),
) -> (Vec<Energy>, Vec<u64>) {
    let between = period.clamp(FASTEST, SLOWEST);
    // A long period of samples must not let a counter wrap twice, so meters have instants of their own.
    let (mut sampled, mut measured) = (Instant::now(), Instant::now());
    loop {
        let now = Instant::now();
        if now >= sampled {
            for (zone, thermometer) in thermometers.iter_mut().enumerate() {
                report(Sample::Temperature { zone, millidegrees: thermometer.read() });
            }
            sampled = now + period;
        }
        if now >= measured {
            instruments.read(|meter, value| report(Sample::Measured { meter, value, at: timer::now() }));
            measured = now + between;
        }
        let next = if thermometers.is_empty() { measured } else { sampled.min(measured) };
        if over.recv_timeout(next.saturating_duration_since(Instant::now())) != Err(RecvTimeoutError::Timeout) {
            instruments.read(|_, _| ());
            return (instruments.energy(), thermometers.iter().map(|thermometer| thermometer.bad).collect());
        }
    }
}
