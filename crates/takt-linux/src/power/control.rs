//! The power settings of a machine in the hands of a run: taken over, written, measured and restored.

use super::cpufreq::{Domain, Method, PREFERENCE, Setter, time_in_state};
use super::idle::{self, Latencies};
use super::lock::{DomainLock, Refusal};
use super::meters::Meter;
use super::root::Root;
use super::sampler::{Sample, Sampler, Sensors};
use super::sensors::{Energy, Zone};
use super::state::Held;
use super::writer::{Files, Requests, Writer, Written};
use crate::group::Unavailable;
use crate::run_id::RunId;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use takt_core::cpus::CpuSet;

/// The settings that a run controls, and the sensors that it reads.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where.
    pub root: Root,
    /// The frequency domains, in the order of the policy's numbers.
    pub domains: Vec<Domain>,
    /// Energy performance preferences (EPP) of domains, by name, for the whole run. These domains need not be among those above.
    pub preferences: Vec<(Domain, String)>,
    /// The CPUs whose latency is limited, in the order of the policy's numbers.
    pub latencies: Vec<usize>,
    /// The sensors that are read, in the order of the policy's numbers.
    pub zones: Vec<Zone>,
    /// The first so many sensors are those of the policy. Bad readings of the others are not reported as samples.
    pub required: usize,
    /// The frequency domains to which the meters belong. A domain that the run does not control is only read.
    pub measured: Vec<Domain>,
    /// Measurements that no policy learns of: [`super::meters`] of the domains above.
    pub meters: Vec<Meter>,
    /// How often sensors are read.
    pub period: Duration,
    /// The workload's name, which other runs report.
    pub workload: String,
}

/// The frequencies and idle states of a machine, for as long as this value lives. Dropping it restores them.
#[derive(Debug)]
pub struct Power {
    settings: Settings,
    /// The values from before.
    held: Held,
    writer: Option<Writer>,
    sampler: Option<Sampler>,
    residencies: Vec<Option<Vec<(u32, u64)>>>,
    notes: Vec<String>,
    _lock: DomainLock,
}

/// The account of a run's power.
#[derive(Debug)]
pub struct Account {
    /// The requests.
    pub written: Written,
    /// The energy that was measured.
    pub energy: Vec<Energy>,
    /// Names of the measured domains.
    pub domains: Vec<String>,
    /// The energy performance preferences of the run, by names of domains.
    pub preferences: Vec<(String, String)>,
    /// By domain: time at each frequency in kHz, in ms; `None` where the kernel does not count it.
    pub residencies: Vec<Option<Vec<(u32, u64)>>>,
    /// Names of the sensors.
    pub zones: Vec<String>,
    /// By sensor: readings that gave no temperature.
    pub bad: Vec<u64>,
    /// Why a setting could not be restored.
    pub restored: io::Result<()>,
    /// Limitations of the control of this machine.
    pub notes: Vec<String>,
}

impl Power {
    /// Takes the settings over: locks the domains, opens all files, saves the present values, and hands the frequencies to this run. The writer and the
    /// sampler then run, off the CPUs of `scheduler` and of `schedule` as far as there are others. `wake` is written to when samples have come.
    ///
    /// # Errors
    /// A domain belongs to another run, or this user may not write its files, or the kernel refuses. Nothing is changed then.
    pub fn open(
        run: &RunId,
        settings: Settings,
        scheduler: Option<CpuSet>,
        schedule: &CpuSet,
        wake: OwnedFd,
    ) -> Result<(Power, Receiver<Sample>), Refusal> {
        // Otherwise the settings of a dead run would be taken for those from before this one, if the users differ.
        crate::isolate::recover().map_err(|e| Unavailable {
            reason: format!("the settings from before a dead run cannot be restored: {e}"),
            fix: "takt doctor --clean, as the user of that run".into(),
        })?;
        let Settings { root, domains, latencies, .. } = &settings;
        for (domain, name) in &settings.preferences {
            domain.takes_preference(name)?;
        }
        let lock = DomainLock::acquire(run, root, &held(&settings), &settings.workload)?;
        let mut notes = notes(domains);
        let mut setters = Vec::with_capacity(domains.len());
        for domain in domains {
            setters.push(Setter::open(root, domain).map_err(|e| refused(domain, &e))?);
        }
        let idle = (!latencies.is_empty()).then(|| Latencies::open(root, latencies)).transpose();
        // The schedule holds without it.
        let idle = idle.unwrap_or_else(|e| {
            notes.push(format!("idle states are not limited: {e}"));
            None
        });
        let paths = changed(&settings, matches!(idle, Some(Latencies::Each(_))));
        let held = Held::note(run, root, &paths).map_err(|e| Unavailable {
            reason: format!("the present power settings cannot be noted: {e}"),
            fix: "make room in /run; as another user than root, set XDG_RUNTIME_DIR to a directory of this user".into(),
        })?;
        // From here on the settings are restored when this is dropped.
        let mut power =
            Power { held, writer: None, sampler: None, residencies: Vec::new(), notes, _lock: lock, settings };
        let Settings { root, domains, zones, required, measured, meters, latencies, period, .. } = &power.settings;
        for (setter, domain) in setters.iter_mut().zip(domains) {
            setter.take_over(root, domain).map_err(|e| refused(domain, &e))?;
        }
        for (domain, name) in &power.settings.preferences {
            let written = root.write(&domain.file(PREFERENCE), name);
            written.map_err(|e| preference_refused(domain, name, &e))?;
        }
        power.residencies = measured.iter().map(|domain| time_in_state(root, domain)).collect();
        let thread = |e: io::Error| Unavailable {
            reason: format!("a thread cannot be started: {e}"),
            fix: "raise the limit of processes (`ulimit -u`)".into(),
        };
        let files = Files { domains: setters, latencies: idle };
        power.writer = Some(Writer::start(files, latencies.len(), scheduler).map_err(thread)?);
        let sensors = Sensors { zones, required: *required, measured, meters };
        let (sampler, samples) = Sampler::start(root, &sensors, *period, schedule, wake)?;
        power.sampler = Some(sampler);
        Ok((power, samples))
    }

    /// The scheduler's side of the writer.
    ///
    /// # Panics
    /// Never before [`Power::close`].
    #[must_use]
    pub fn requests(&self) -> Requests {
        self.writer.as_ref().expect("the writer runs").requests()
    }

    /// Ends the threads and restores all settings.
    #[must_use]
    pub fn close(mut self) -> Account {
        let (energy, bad) = self.sampler.as_mut().map(Sampler::end).unwrap_or_default();
        let (files, written) = self.writer.take().and_then(|mut writer| writer.end()).unzip();
        let Settings { root, measured, .. } = &self.settings;
        let after: Vec<_> = measured.iter().map(|domain| time_in_state(root, domain)).collect();
        let residencies = after.iter().zip(&self.residencies).map(|(after, before)| between(before, after)).collect();
        // The limit of all CPUs is dropped with its descriptor.
        drop(files);
        let (restored, notes) = (self.held.restore(), std::mem::take(&mut self.notes));
        let domains = measured.iter().map(|domain| domain.name.clone()).collect();
        let preferences = self.settings.preferences.iter().map(|(domain, name)| (domain.name.clone(), name.clone()));
        let preferences = preferences.collect();
        let zones = self.settings.zones.iter().take(self.settings.required).map(|zone| zone.name.clone()).collect();
        let written = written.unwrap_or_default();
        Account { written, energy, domains, preferences, residencies, zones, bad, restored, notes }
    }
}

impl Drop for Power {
    fn drop(&mut self) {
        // Nothing may be written after the restoration.
        drop(self.writer.take());
        drop(self.sampler.take());
        let _ = self.held.restore();
    }
}

/// The domains of which a run changes something.
fn held(settings: &Settings) -> Vec<Domain> {
    let mut all = settings.domains.clone();
    for (domain, _) in &settings.preferences {
        if !all.iter().any(|known| known.name == domain.name) {
            all.push(domain.clone());
        }
    }
    all
}

/// Domains that are controlled in another way than by the governor `userspace`.
fn notes(domains: &[Domain]) -> Vec<String> {
    let names = |wanted: fn(&&Domain) -> bool| {
        let names: Vec<&str> = domains.iter().filter(wanted).map(|domain| domain.name.as_str()).collect();
        names.join(", ")
    };
    let mut notes = Vec::new();
    let limited = names(|domain| domain.method == Method::Limits);
    if !limited.is_empty() {
        notes.push(format!(
            "frequencies of {limited} are set by equal limits, as there is no governor userspace (modprobe cpufreq_userspace, where the driver \
             has governors)"
        ));
    }
    notes
}

/// The time between two readings.
fn between(before: &Option<Vec<(u32, u64)>>, after: &Option<Vec<(u32, u64)>>) -> Option<Vec<(u32, u64)>> {
    let (before, after) = (before.as_ref()?, after.as_ref()?);
    let earlier = |khz: u32| before.iter().find(|(other, _)| *other == khz).map_or(0, |(_, time)| *time);
    Some(after.iter().map(|(khz, time)| (*khz, time.saturating_sub(earlier(*khz)))).collect())
}

/// The files that a run changes, in the order in which they are restored.
fn changed(settings: &Settings, each_latency: bool) -> Vec<String> {
    let mut paths: Vec<String> = settings.domains.iter().flat_map(Domain::settings).collect();
    for path in settings.preferences.iter().map(|(domain, _)| domain.file(PREFERENCE)) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths.extend(settings.latencies.iter().filter(|_| each_latency).map(|cpu| idle::path(*cpu)));
    paths
}

/// Why a preference cannot be set, and the way out.
fn preference_refused(domain: &Domain, name: &str, error: &io::Error) -> Unavailable {
    let fix = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "run as root, or let this user write: chgrp GROUP and chmod g+w on energy_performance_preference of that directory"
        }
        // Drivers that choose frequencies by themselves (`intel_pstate`, `amd_pstate`) refuse all others under the governor `performance`.
        io::ErrorKind::ResourceBusy => {
            "the kernel takes only the preference `performance` under the governor `performance`: choose the other governor \
             (cpupower frequency-set -g powersave), or write `epp: performance`"
        }
        _ => "see `dmesg` for the driver's reason, or remove `epp` from the file",
    };
    let of = &domain.name;
    let reason =
        format!("the energy performance preference `{name}` of the frequency domain {of} cannot be set: {error}");
    Unavailable { reason, fix: fix.into() }
}

/// Why a domain cannot be controlled, and the way out.
fn refused(domain: &Domain, error: &io::Error) -> Unavailable {
    let name = &domain.name;
    let fix = match (error.kind(), domain.method) {
        (io::ErrorKind::PermissionDenied, _) => {
            "run as root, or let this user write: chgrp GROUP and chmod g+w on scaling_governor, scaling_setspeed, scaling_min_freq and \
             scaling_max_freq of that directory; `takt sim` needs no right"
        }
        (_, Method::Speed) => {
            "see `dmesg` for the driver's reason; `cpupower frequency-set` sets one frequency for all of the time"
        }
        (_, Method::Limits) => "load the governor (modprobe cpufreq_userspace), or run without a power policy",
    };
    Unavailable { reason: format!("the frequency domain {name} cannot be controlled: {error}"), fix: fix.into() }
}
