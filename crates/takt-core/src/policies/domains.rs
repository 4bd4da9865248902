//! Domains: parts of the machine, each with tasks and a policy of its own, and the change of one policy for another.
//!
//! The domains of ChronOS: Dellinger, Garyali, Ravindran, "ChronOS Linux: A Best-Effort Real-Time Multiprocessor Linux Kernel",
//! DAC 2011, section 5, where each CPU set of an application has its own scheduler. Domains of the same CPUs form an order of bands, as
//! the schedulers of one CPU set at several Linux priorities do there (section 3.1). Invariants: a task runs on CPUs of its own domain
//! only. Unless jobs of different domains share resources, a domain changes nothing in another one, except in lower bands on its CPUs.
//!
//! With bands no decision leaves CPUs unnamed, because a lower band must know which CPUs are assigned. Where one domain passes changes on
//! and another does not, the engine writes out the kept CPUs.

use crate::model::{self, CpuTest, Fact, Hosts, Invalid, PolicySpec, Profile, Scope, System, TaskId, Terms};
#[cfg(feature = "order")]
use crate::policy::Standing;
use crate::policy::{Build, Context, Decision, Entry, Event, Exchange, Policy, Registry};
use crate::record::Place;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

struct Domain {
    tasks: Vec<TaskId>,
    places: Vec<Place>,
    guest: Box<dyn Policy>,
    /// Its answer in place of the decision that is to come.
    exchange: Option<Exchange>,
    /// The timers that its policies may use: from this one on, so many.
    first_timer: u16,
    timers: u16,
}

struct Domains {
    domains: Vec<Domain>,
    /// The domains in the order of their decisions: those of the same CPUs by descending bands.
    order: Vec<usize>,
    /// Whether domains share CPUs.
    banded: bool,
    /// By task.
    domain_of: Vec<usize>,
    timers: u16,
    /// Scratch: by single-CPU place, whether a higher band has it; and the places that these bands leave idle.
    taken: Vec<bool>,
    idle: Vec<Place>,
    /// Whether the policies of the domains have started.
    started: bool,
    /// The policies that a domain may be switched to.
    registry: Registry,
}

impl Domains {
    fn new(build: &Build<'_>) -> Result<Domains, Invalid> {
        let system = build.system;
        if system.domains.is_empty() {
            return Err(Invalid::Unsuitable("the policy `domains` needs domains"));
        }
        let all = &system.domains;
        let fits = |a: &model::Domain, b: &model::Domain| a.cpus.is_disjoint(&b.cpus) || a.is_above(b) || b.is_above(a);
        if all.iter().enumerate().any(|(i, a)| !all[..i].iter().all(|b| fits(a, b))) {
            return Err(Invalid::Domains);
        }
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|&domain| core::cmp::Reverse(all[domain].band));
        let banded = all.iter().any(|a| all.iter().any(|b| a.is_above(b)));
        let cpus: Vec<usize> = system.cpus.iter().collect();
        let mut domain_of = vec![0; system.tasks.len()];
        let mut domains = Vec::with_capacity(system.domains.len());
        let mut timers = 0;
        for (index, described) in system.domains.iter().enumerate() {
            let homeless = |t: &&TaskId| system.tasks[t.index()].affinity.is_disjoint(&described.cpus);
            if let Some(&task) = described.tasks.iter().find(homeless) {
                return Err(Invalid::Affinity(task));
            }
            described.tasks.iter().for_each(|t| domain_of[t.index()] = index);
            let tasks = described.tasks.clone();
            let places = (0..cpus.len()).filter(|&i| described.cpus.contains(cpus[i])).map(|i| Place(i as u16));
            let places: Vec<Place> = places.collect();
            let first_timer = build.first_timer + timers;
            let of_domain = Build { tasks: &tasks, places: &places, first_timer, ..*build };
            let with = |spec: PolicySpec| hosted(&Build { spec, ..of_domain });
            let guest = with(described.policy)?;
            // Room for each policy that it may be switched to; those that do not suit it never come.
            let others = system.alternatives.iter().filter_map(|spec| with(*spec).ok());
            let most = others.map(|other| other.timers()).fold(guest.timers(), u16::max);
            timers += most;
            domains.push(Domain { tasks, places, guest, exchange: None, first_timer, timers: most });
        }
        Ok(Domains {
            domains,
            order,
            banded,
            domain_of,
            timers,
            taken: vec![false; cpus.len()],
            idle: Vec::with_capacity(cpus.len()),
            started: false,
            registry: build.registry.clone(),
        })
    }
}

/// The policy of one domain.
fn hosted(build: &Build<'_>) -> Result<Box<dyn Policy>, Invalid> {
    if build.spec.scope == Scope::Table {
        return Err(Invalid::Unsuitable("a domain needs a policy for jobs, and this one is about the whole machine"));
    }
    build.policy()
}

impl Policy for Domains {
    fn start(&mut self, cx: &mut Context<'_>) {
        self.started = true;
        self.domains.iter_mut().for_each(|d| d.guest.start(cx));
    }

    fn event(&mut self, event: &Event, cx: &mut Context<'_>) {
        let domain = match (event, event.task()) {
            (_, Some(task)) => self.domains.get_mut(self.domain_of[task.index()]),
            (Event::Timer { timer, .. }, None) => {
                self.domains.iter_mut().find(|d| (d.first_timer..d.first_timer + d.timers).contains(timer))
            }
            (_, None) => None,
        };
        if let Some(domain) = domain {
            domain.guest.event(event, cx);
        }
    }

    fn decide(&mut self, _: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        let Domains { domains, order, banded, taken, idle, .. } = self;
        taken.fill(false);
        for &index in &*order {
            let domain = &mut domains[index];
            let mut lent = &domain.places;
            if *banded {
                idle.clear();
                idle.extend(lent.iter().filter(|place| !taken[place.index()]));
                lent = idle;
            }
            let before = decision.assignments().len();
            match domain.exchange.take() {
                Some(exchange) => decision.exchange(lent, exchange),
                None => domain.guest.decide(lent, cx, decision),
            }
            decision.assignments()[before..].iter().for_each(|a| taken[a.place.index()] = true);
        }
    }

    /// An exchange of one domain, if nothing changes in the others. Otherwise the answers of the policies are kept for [`Policy::decide`].
    fn exchange(&mut self, _: &[Place], cx: &mut Context<'_>) -> Option<Exchange> {
        let mut whole = Some(Exchange::default());
        for domain in &mut self.domains {
            domain.exchange = domain.guest.exchange(&domain.places, cx);
            whole = match (whole, domain.exchange) {
                (whole, Some(own)) if own == Exchange::default() => whole,
                (Some(others), own) if others == Exchange::default() => own,
                _ => None,
            };
        }
        if whole.is_some() {
            self.domains.iter_mut().for_each(|domain| domain.exchange = None);
        }
        whole
    }

    /// A lower band has to know which CPUs the higher ones use, so that they name all of them.
    fn passes_changes(&self) -> bool {
        !self.banded
    }

    /// In the order of the bands. A domain whose policy has no order shows none of its jobs.
    #[cfg(feature = "order")]
    fn order(&self, cx: &Context<'_>, show: &mut dyn FnMut(Standing<'_>)) {
        self.order.iter().for_each(|&index| self.domains[index].guest.order(cx, show));
    }

    fn home(&self, task: TaskId) -> Option<Place> {
        self.domains.get(self.domain_of[task.index()])?.guest.home(task)
    }

    fn timers(&self) -> u16 {
        self.timers
    }

    fn meters(&self) -> bool {
        self.domains.iter().any(|d| d.guest.meters())
    }

    fn admits(&self, task: TaskId, terms: &Terms, cx: &Context<'_>) -> bool {
        self.domains.get(self.domain_of[task.index()]).is_none_or(|domain| domain.guest.admits(task, terms, cx))
    }

    fn prepare_domain(&self, domain: usize, to: &PolicySpec, system: &System) -> Result<Box<dyn Policy>, Invalid> {
        let own = self.domains.get(domain).ok_or(Invalid::Unsuitable("there is no such domain"))?;
        let guest = hosted(&Build {
            system,
            tasks: &own.tasks,
            places: &own.places,
            spec: *to,
            first_timer: own.first_timer,
            registry: &self.registry,
        })?;
        if guest.timers() > own.timers {
            return Err(Invalid::Unsuitable("this policy needs timers; name it among the alternatives"));
        }
        Ok(guest)
    }

    fn replace_domain(
        &mut self,
        domain: usize,
        (spec, guest): (PolicySpec, Box<dyn Policy>),
        cx: &mut Context<'_>,
    ) -> Result<Box<dyn Policy>, Box<dyn Policy>> {
        let Some(own) = self.domains.get_mut(domain).filter(|own| guest.timers() <= own.timers) else {
            return Err(guest);
        };
        cx.domain_policy(domain, spec);
        (own.first_timer..own.first_timer + own.timers).for_each(|timer| cx.cancel_timer(timer));
        cx.forget_grants(&own.tasks);
        let before = core::mem::replace(&mut own.guest, guest);
        if self.started {
            own.guest.start(cx);
        }
        Ok(before)
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "domains",
        summary: "parts of the machine with policies of their own (ChronOS)",
        scopes: &[Scope::Table],
        needs: &[],
        facts: &[Fact::Hosts(Hosts::Domains)],
        test: CpuTest::Utilisation,
        settings: &[],
    },
    manual: manual!(
        "\
The CPUs are divided into domains. Each domain has its own tasks, which run only there, and its own policy, which knows only
them. CPUs without a domain idle.

Several domains may have the same CPUs in an order of bands: the highest band is scheduled as if it were alone. At each
instant a lower band has the CPUs that all higher bands leave idle, as ordinary real-time processes of Linux have behind those
of higher priorities. Its policy decides again whenever these CPUs change, and never reserves time on CPUs that a higher band
may need. A guarantee of its policy, such as that of a server or of `pd2`, therefore holds only for the highest band. A job that
is not preemptive in its own band is preempted by higher bands, and continues before other jobs of its band.

The policy of a domain can be switched while the system runs. The new policy takes over every job with its used CPU time, the
resources that it holds or waits for, and its active handler. Budgets granted by the previous policy are dropped; budgets
declared by the tasks are kept.

Domains may share resources. If a job of another domain waits for a resource, its holder does not become more urgent, because
the ranks of two policies cannot be compared. So a job of a higher band can be blocked by jobs of bands between it and the
holder. If jobs of several domains wait for a resource, it goes to the job whose own
policy gives it the lower rank number. A cycle of waiting jobs is broken by the policy of the job that closed it, if that
policy ranks by utility.

**When.** Parts of a system must not disturb each other, or differ in kind. An example is control loops under `dasa` on one
CPU beside media under `g-edf` on the others. Domains also compare policies under the same load at the same time.

**Ties.** Those of each policy.

**Cost.** That of each policy over its own tasks and CPUs, at every event of any domain. With bands, O(CPUs) for each domain
besides.

**Source.** Dellinger, Garyali, Ravindran, \"ChronOS Linux: A Best-Effort Real-Time Multiprocessor Linux Kernel\", DAC 2011.

**Example.** `domains: [{name: control, cpus: 0, policy: edf}, {name: media, cpus: 1-3, policy: g-edf}]`"
    ),
    build: |build| Ok(Box::new(Domains::new(build)?)),
};
