//! The electrical and thermal side of a simulated machine: which frequencies it has, what it draws, how warm it is.
//!
//! Power is constant between two changes, so that energy is summed exactly, in attojoules. The thermal network is integrated by Euler's
//! explicit method over the heat of its nodes, in steps that are a small part of the shortest time constant; what leaves one node enters
//! another, so that no heat is lost to rounding.

use crate::report::{DomainEnergy, PowerReport, ZoneTemperatures};
use takt_core::engine::{Engine, Input};
use takt_core::model::TaskId;
use takt_core::power::{Model, Platform};
use takt_core::time::{Span, Time};

/// A step of the integration is such a part of the shortest time constant.
const PART: u128 = 64;
/// Attojoules in a nanojoule.
const AJ_PER_NJ: u128 = 1_000_000_000;

/// A thermal node: its heat above that at the ambient temperature.
struct Body {
    /// In nanojoules.
    heat: i128,
    /// Energy that it has received in all, in attojoules, and how much of it is in `heat`, in nanojoules.
    received: u128,
    taken: u128,
    highest: i32,
    initial: i32,
}

pub(crate) struct Board {
    model: Model,
    platform: Platform,
    /// The frequency domain of each CPU.
    domain_of: Vec<Option<usize>>,
    /// By domain: the index of its frequency, how many CPUs it has in the system, and how many of them run something.
    points: Vec<usize>,
    cpus: Vec<u64>,
    busy: Vec<u64>,
    /// By domain and frequency: for how long.
    times: Vec<Vec<Span>>,
    /// Energy is summed up to here.
    since: Time,
    domains: Vec<u128>,
    base: u128,
    outside: u128,
    tasks: Vec<u128>,
    bodies: Vec<Body>,
    /// The thermal network is integrated up to here, in such steps, so many of which are a sample's period.
    warmed: Time,
    step: Span,
    steps_per_sample: i64,
    steps: i64,
}

impl Board {
    pub(crate) fn new(engine: &Engine, platform: &Platform, model: &Model) -> Board {
        let system = engine.system();
        let domain = |cpu: usize| platform.domains.iter().position(|domain| domain.cpus.contains(cpu));
        let domain_of: Vec<Option<usize>> = system.cpus.iter().map(domain).collect();
        let count = |domain: usize| domain_of.iter().filter(|of| **of == Some(domain)).count() as u64;
        let cpus = (0..platform.domains.len()).map(count).collect();
        let body = |node: &takt_core::power::ThermalNode| Body {
            // Thousandths of a degree times millijoules per kelvin are microjoules.
            heat: i128::from(node.initial - model.ambient) * i128::from(node.capacity_mj) * 1000,
            received: 0,
            taken: 0,
            highest: node.initial,
            initial: node.initial,
        };
        let (step, steps_per_sample) = step(model);
        Board {
            domain_of,
            points: platform.domains.iter().map(|domain| domain.points.len() - 1).collect(),
            cpus,
            busy: vec![0; platform.domains.len()],
            times: platform.domains.iter().map(|domain| vec![Span::ZERO; domain.points.len()]).collect(),
            since: Time::ZERO,
            domains: vec![0; platform.domains.len()],
            base: 0,
            outside: 0,
            tasks: vec![0; system.tasks.len()],
            bodies: model.nodes.iter().map(body).collect(),
            warmed: Time::ZERO,
            step,
            steps_per_sample,
            steps: 0,
            platform: platform.clone(),
            model: model.clone(),
        }
    }

    /// When the thermal network is to be integrated next.
    pub(crate) fn next(&self) -> Time {
        match (self.bodies.is_empty(), self.steps) {
            (true, _) => Time::MAX,
            // The first sample is that of the start.
            (false, 0) => Time::ZERO,
            (false, _) => self.warmed.saturating_add(self.step),
        }
    }

    /// Integrates up to an instant for which that was due, and hands over the samples that are due then.
    pub(crate) fn inputs(&mut self, now: Time, inputs: &mut Vec<Input>) {
        while self.next() <= now {
            if self.steps > 0 {
                self.warm(self.warmed + self.step);
            }
            if self.steps % self.steps_per_sample == 0 {
                for zone in 0..self.bodies.len() {
                    let millidegrees = Some(self.temperature(zone));
                    inputs.push(Input::Temperature { zone: zone as u16, millidegrees });
                }
            }
            self.steps += 1;
        }
    }

    /// Sums the energy up to `now`.
    fn sum(&mut self, now: Time) {
        let ns = (now - self.since).ns().max(0) as u128;
        if ns == 0 {
            return;
        }
        let span = now - self.since;
        self.since = now;
        let mut some = false;
        for (domain, power) in self.model.clusters.iter().enumerate() {
            let (point, busy) = (self.points[domain], self.busy[domain]);
            some |= busy > 0;
            let idle = self.cpus[domain] - busy;
            let nw = u128::from(busy) * u128::from(power.busy_nw[point])
                + u128::from(idle) * u128::from(power.idle_nw[point]);
            let energy = nw * ns;
            self.domains[domain] += energy;
            self.times[domain][point] += span;
            if let Some(body) = self.bodies.get_mut(power.node) {
                body.received += energy;
            }
        }
        let base = u128::from(self.model.base_nw) * ns;
        let outside = if some { u128::from(self.model.outside_nw) * ns } else { 0 };
        self.base += base;
        self.outside += outside;
        if let Some(body) = self.bodies.first_mut() {
            body.received += base + outside;
        }
    }

    /// The temperature of a node above the ambient, in nanokelvins.
    fn above(&self, node: usize) -> i128 {
        // Nanojoules over millijoules per kelvin are microkelvins.
        self.bodies[node].heat * 1000 / i128::from(self.model.nodes[node].capacity_mj)
    }

    fn temperature(&self, node: usize) -> i32 {
        let above = (self.above(node) / 1_000_000).clamp(-1_000_000, 1_000_000);
        self.model.ambient.saturating_add(above as i32)
    }

    /// Integrates the thermal network up to `now`, in one step.
    fn warm(&mut self, now: Time) {
        self.sum(now);
        let ns = i128::from((now - self.warmed).ns());
        self.warmed = now;
        let above: Vec<i128> = (0..self.bodies.len()).map(|node| self.above(node)).collect();
        // Nanokelvins × nanoseconds over millikelvins per watt are 10^-15 J.
        let flow = |difference: i128, mk: u64| difference * ns / i128::from(mk) / 1_000_000;
        for (index, node) in self.model.nodes.iter().enumerate() {
            let body = &mut self.bodies[index];
            let whole = body.received / AJ_PER_NJ;
            body.heat += (whole - body.taken) as i128;
            body.taken = whole;
            if let Some(mk) = node.ambient_mk {
                body.heat -= flow(above[index], mk);
            }
            for &(other, mk) in &node.links {
                let heat = flow(above[index] - above[other], mk);
                self.bodies[index].heat -= heat;
                self.bodies[other].heat += heat;
            }
        }
        for node in 0..self.bodies.len() {
            self.bodies[node].highest = self.bodies[node].highest.max(self.temperature(node));
        }
    }

    /// A task takes CPUs, or leaves them.
    pub(crate) fn occupy(&mut self, cpus: &[u16], takes: bool, now: Time) {
        self.sum(now);
        for cpu in cpus {
            if let Some(domain) = self.domain_of[usize::from(*cpu)] {
                let busy = &mut self.busy[domain];
                *busy = if takes { *busy + 1 } else { busy.saturating_sub(1) };
            }
        }
    }

    /// A task has held CPUs for so long at their present frequencies.
    pub(crate) fn held(&mut self, task: TaskId, cpus: &[u16], held: Span) {
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, 0);
        }
        for domain in cpus.iter().filter_map(|cpu| self.domain_of[usize::from(*cpu)]) {
            let nw = self.model.clusters[domain].busy_nw[self.points[domain]];
            self.tasks[task.index()] += u128::from(nw) * held.ns().max(0) as u128;
        }
    }

    /// A domain has another frequency from now on.
    pub(crate) fn set(&mut self, domain: u16, khz: u32, now: Time) {
        self.sum(now);
        let domain = usize::from(domain);
        self.points[domain] = self.platform.domains[domain].at_least(khz);
    }

    pub(crate) fn report(mut self, end: Time) -> PowerReport {
        self.sum(end);
        if !self.bodies.is_empty() && end > self.warmed {
            self.warm(end);
        }
        let domain = |(index, energy_aj): (usize, &u128)| DomainEnergy {
            energy_aj: *energy_aj,
            times: self.times[index].clone(),
        };
        let zone = |(index, body): (usize, &Body)| ZoneTemperatures {
            first: body.initial,
            last: self.temperature(index),
            highest: body.highest,
        };
        PowerReport {
            domains: self.domains.iter().enumerate().map(domain).collect(),
            base_aj: self.base,
            outside_aj: self.outside,
            tasks_aj: self.tasks.clone(),
            zones: self.bodies.iter().enumerate().map(zone).collect(),
        }
    }
}

/// The step of the integration, and how many are a sample's period.
fn step(model: &Model) -> (Span, i64) {
    let mut fastest = u128::MAX;
    for (index, node) in model.nodes.iter().enumerate() {
        let own = node.links.iter().map(|(_, mk)| *mk).chain(node.ambient_mk);
        let others =
            model.nodes.iter().flat_map(|other| &other.links).filter(|(to, _)| *to == index).map(|(_, mk)| *mk);
        // Conductances in 10^-12 W/K.
        let conductance: u128 = own.chain(others).map(|mk| 1_000_000_000_000_000 / u128::from(mk.max(1))).sum();
        // The time constant in nanoseconds: millijoules per kelvin over watts per kelvin are milliseconds.
        fastest = fastest.min(u128::from(node.capacity_mj) * 1_000_000_000_000_000_000 / conductance.max(1));
    }
    let sample = model.sample.ns().max(1) as u128;
    let steps = sample.div_ceil((fastest / PART).max(1)).clamp(1, sample).min(1_000_000);
    // A sample's period is a whole number of steps.
    let step = Span::from_ns((sample / steps) as i64);
    (step, steps as i64)
}
