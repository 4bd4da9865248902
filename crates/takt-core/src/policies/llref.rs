//! LLREF: largest local remaining execution time first.
//!
//! Cho, Ravindran and Jensen, "An Optimal Real-Time Scheduling Algorithm for Multiprocessors", RTSS 2006. Time is cut into
//! T-L planes at all releases and deadlines. Invariant: in a plane that began with a local time of at most its length for each
//! job, and of at most m lengths for all, every local time is zero when the plane ends.
//!
//! The paper's local time, the plane's length times the task's share, is a fraction; ours is a whole number of nanoseconds.
//! At the end of each plane a job has had the fluid schedule's amount rounded down or up, so that it is always less than 1 ns
//! away from it, and its deadline ends a plane in which nothing is left to round. What is rounded up is what PD² would have
//! scheduled by then with quanta of 1 ns. That is boundary fairness (Zhu, Mossé and Melhem, "Multiple-Resource Periodic
//! Scheduling Problem: how much fairness is necessary?", RTSS 2003), and with the order of PD² it is optimal (Nelissen, Su, Guo,
//! Zhu, Nélis and Goossens, "An optimal boundary fair scheduling", Real-Time Systems 50, 2014). So no slack is needed for the
//! rounding.

use crate::model::{CpuTest, Fact, Invalid, Need, Profile, Scope, TaskId};
use crate::policies::mapping::Mapper;
use crate::policies::pfair::{self, Urgency, Window};
use crate::policy::{Build, Context, Decision, Entry, Event, Policy};
use crate::record::Place;
use crate::time::{Span, Time};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// The fluid schedule of a task's job: `work` in equal parts from `since` to `due`, beyond the `done` that it had consumed.
#[derive(Clone, Copy, Debug)]
struct Track {
    since: Time,
    due: Time,
    work: Span,
    done: Span,
    /// Local time at the start of the plane, and what the job had consumed then.
    local: Span,
    before: Span,
}

const NO_TRACK: Track = Track {
    since: Time::ZERO,
    due: Time::ZERO,
    work: Span::ZERO,
    done: Span::ZERO,
    local: Span::ZERO,
    before: Span::ZERO,
};

struct Llref {
    tasks: Vec<TaskId>,
    /// By task of the system; only those of `tasks` mean something.
    tracks: Vec<Track>,
    timer: u16,
    /// The end of the present plane and the number of its CPUs.
    end: Time,
    cpus: usize,
    /// A job has come that the plane does not know.
    stale: bool,
    /// The choice must be made again.
    again: bool,
    chosen: Vec<TaskId>,
    /// Scratch: jobs by deadline; those whose fluid amount is a fraction; those that wait.
    jobs: Vec<(Time, Time, TaskId)>,
    fractions: Vec<Urgency>,
    waiting: Vec<(Reverse<Span>, Time, Time, TaskId)>,
    mapper: Mapper,
}

impl Llref {
    fn new(build: &Build<'_>) -> Result<Llref, Invalid> {
        pfair::check(build)?;
        let n = build.tasks.len();
        Ok(Llref {
            tasks: build.tasks.to_vec(),
            tracks: vec![NO_TRACK; build.system.tasks.len()],
            timer: build.first_timer,
            end: Time::ZERO,
            cpus: 0,
            stale: true,
            again: true,
            chosen: Vec::with_capacity(n),
            jobs: Vec::with_capacity(n),
            fractions: Vec::with_capacity(n),
            waiting: Vec::with_capacity(n),
            mapper: Mapper::new(build, build.tasks, build.places),
        })
    }

    /// When the task's job must be done by, if that is still to come: its deadline, or before it the time of its successor.
    fn due(task: TaskId, cx: &Context<'_>) -> Option<Time> {
        let job = cx.job(task)?;
        let successor = cx.task(task).arrival.period().map_or(Time::MAX, |period| job.release.saturating_add(period));
        let due = [job.deadline, successor].into_iter().filter(|at| *at > cx.now()).min();
        due.filter(|_| job.deadline < Time::MAX && job.deadline > cx.now())
    }

    /// Begins a plane on `cpus` CPUs: it ends with the next deadline or release, and each job gets its local time in it.
    fn plan(&mut self, cpus: usize, cx: &mut Context<'_>) {
        let now = cx.now();
        cx.visited(self.tasks.len());
        self.jobs.clear();
        self.end = Time::MAX;
        for &task in &self.tasks {
            if let Some(at) = cx.next_release(task).filter(|at| *at > now) {
                self.end = self.end.min(at);
            }
            let track = &mut self.tracks[task.index()];
            track.local = Span::ZERO;
            track.before = cx.job(task).map_or(Span::ZERO, |job| job.consumed.nominal_time());
            if let (Some(job), Some(due)) = (cx.job(task).filter(|job| job.ready), Self::due(task, cx)) {
                self.end = self.end.min(due);
                let left = cx.time_left(task).unwrap_or(Span::ZERO);
                track.follow(now, due, left);
                if left > Span::ZERO {
                    self.jobs.push((due, job.release, task));
                }
            }
        }
        if self.end == Time::MAX {
            return;
        }
        // Whole nanoseconds first. There are enough of them unless the CPUs are overloaded; then the latest deadlines lose.
        let length = self.end - now;
        let mut room = i128::from(length.ns()) * cpus as i128;
        self.jobs.sort_unstable();
        self.fractions.clear();
        for &(_, _, task) in &self.jobs {
            let track = &mut self.tracks[task.index()];
            let most = length.min(track.left());
            let (whole, fraction) = track.fluid(self.end);
            let ahead = track.before - track.done > whole;
            let wanted = (whole - (track.before - track.done)).or_zero().min(most);
            track.local = Span::from_ns(i128::from(wanted.ns()).min(room) as i64);
            room -= i128::from(track.local.ns());
            if fraction && !ahead && wanted < most {
                let window = Window::new(track.work.ns(), (track.due - track.since).ns(), whole.ns());
                self.fractions.push(window.urgency(track.since.ns(), task));
            }
        }
        // Then one more for the most urgent of those whose fluid amount lies between two.
        self.fractions.sort_unstable();
        let more = room.clamp(0, self.fractions.len() as i128) as usize;
        for &(.., task) in &self.fractions[..more] {
            self.tracks[task.index()].local += Span::from_ns(1);
        }
    }

    /// The rest of the local time of a task's job.
    fn local(&self, task: TaskId, cx: &Context<'_>) -> Span {
        let track = &self.tracks[task.index()];
        cx.job(task).map_or(Span::ZERO, |job| (track.local - (job.consumed.nominal_time() - track.before)).or_zero())
    }

    /// Chooses the jobs with the largest local times, and sets the timer to when that may change.
    fn choose(&mut self, cpus: usize, cx: &mut Context<'_>) {
        let now = cx.now();
        cx.visited(self.tasks.len());
        self.waiting.clear();
        for &task in self.tasks.iter().filter(|t| cx.is_ready(**t)) {
            let job = cx.job(task).expect("a ready task has a job");
            let local = self.local(task, cx);
            // CPUs that no local time needs go to jobs that the planes have no place for: those that are past their
            // deadline or have none, and those that need more than they declared.
            let outside = Self::due(task, cx).is_none() || cx.time_left(task).is_none_or(|left| left == Span::ZERO);
            if local > Span::ZERO {
                self.waiting.push((Reverse(local), job.release, Time::ZERO, task));
            } else if outside {
                self.waiting.push((Reverse(Span::ZERO), job.deadline, job.release, task));
            }
        }
        self.waiting.sort_unstable();
        self.chosen.clear();
        let mut next = self.end;
        for (rank, &(Reverse(local), _, _, task)) in self.waiting.iter().enumerate() {
            let event = if rank < cpus {
                self.chosen.push(task);
                // Event B: its local time is exhausted.
                now + local
            } else {
                // Event C: it has no local laxity left.
                self.end - local
            };
            if local > Span::ZERO && event > now {
                next = next.min(event);
            }
        }
        if next < Time::MAX {
            cx.set_timer(self.timer, next);
        } else {
            cx.cancel_timer(self.timer);
        }
    }
}

impl Track {
    /// Keeps to the fluid schedule that was begun, if the job is less than 1 ns away from it; begins one again if not.
    fn follow(&mut self, now: Time, due: Time, left: Span) {
        let (whole, fraction) = self.fluid(now);
        let had = self.before - self.done;
        let near = had == whole || (fraction && had == whole + Span::from_ns(1));
        if self.due != due || self.left() != left || !near {
            *self = Track { since: now, due, work: left, done: self.before, ..*self };
        }
    }

    /// The job's amount by `at` in the fluid schedule: whole nanoseconds, and whether there is a fraction besides.
    fn fluid(&self, at: Time) -> (Span, bool) {
        let length = i128::from((self.due - self.since).ns());
        if length <= 0 || at >= self.due {
            return (self.work, false);
        }
        let product = i128::from(self.work.ns()) * i128::from((at - self.since).ns());
        (Span::from_ns((product / length) as i64), product % length > 0)
    }

    /// The remaining time of the job at the start of the plane.
    fn left(&self) -> Span {
        (self.work - (self.before - self.done)).or_zero()
    }
}

impl Policy for Llref {
    fn start(&mut self, cx: &mut Context<'_>) {
        self.tracks.fill(NO_TRACK);
        self.chosen.clear();
        (self.stale, self.again) = (true, true);
        cx.cancel_timer(self.timer);
    }

    fn event(&mut self, event: &Event, cx: &mut Context<'_>) {
        match *event {
            Event::Release { task, .. } => {
                cx.grant_own(task);
                let release = cx.job(task).map_or(Time::ZERO, |job| job.release);
                let due = Self::due(task, cx).unwrap_or(Time::ZERO);
                let work = cx.time_left(task).unwrap_or(Span::ZERO);
                self.tracks[task.index()] = Track { since: release, due, work, ..NO_TRACK };
                self.stale = true;
            }
            Event::Handler { task, .. } => {
                self.tracks[task.index()] = NO_TRACK;
                self.stale = true;
            }
            Event::Wake { .. } | Event::Changed { .. } => self.stale = true,
            Event::Finish { .. } | Event::Block { .. } | Event::Timer { .. } => self.again = true,
            _ => {}
        }
    }

    fn decide(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        if self.stale || self.cpus != lent.len() || cx.now() >= self.end {
            self.plan(lent.len(), cx);
            (self.stale, self.cpus, self.again) = (false, lent.len(), true);
        }
        if self.again {
            self.choose(lent.len(), cx);
            self.again = false;
        }
        self.mapper.map(self.chosen.iter().copied(), lent, cx, decision);
    }

    fn timers(&self) -> u16 {
        1
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "llref",
        summary: "largest local remaining execution time first: optimal on several identical CPUs",
        scopes: &[Scope::Global],
        needs: &[Need::Period, Need::Deadline, Need::Runtime],
        facts: &[Fact::Optimal, Fact::TimeDriven, Fact::IgnoresLocking],
        test: CpuTest::Utilisation,
        settings: &[],
    },
    manual: manual!(
        "\
Divides time into planes at every release and deadline. In a plane each job gets its part of the fluid schedule, its local
time. In the fluid schedule a job runs at the constant rate of its runtime by its deadline. The m jobs with the largest local
times run. The policy decides again when a running job has exhausted its local time. It also decides when the local time of a
waiting job equals the rest of the plane.

**When.** On m identical CPUs it meets every deadline of periodic and sporadic tasks with implicit deadlines. The utilisation
is at most m, and no job exceeds its runtime. With deadlines below the periods it does so when the sum of runtime / deadline
is at most m. Global EDF misses deadlines at much lower loads. The price is many preemptions and migrations. It leaves CPUs
idle while jobs are ready, as published.

**Rounding.** Local times are whole nanoseconds. At the end of a plane each job differs from the fluid schedule by less than
1 ns. The order of PD² decides which jobs are rounded up. So rounding causes no deadline miss, even at a utilisation of
exactly m.

**Irregular jobs.** The remaining runtime of a job that was blocked or delayed is spread over the time until its deadline.
Some jobs run only on CPUs that are otherwise idle, earliest deadline first. These are jobs past their deadline, jobs without
one (such as handlers), and jobs that have exceeded their runtime. If the demand exceeds the CPUs, the jobs with the latest
deadlines get less.

**Resources.** They are granted in the order of requests, without priority inheritance.

**Needs.** Periods, deadlines and runtimes, and tasks that may run on every CPU.

**Ties.** The earlier release first, then the lower task number.

**Cost.** O(n log n) per decision for n tasks, and up to n + 2 decisions in a plane.

**Source.** Cho, Ravindran and Jensen, RTSS 2006. Rounding: Zhu, Mossé and Melhem, RTSS 2003; Nelissen et al., Real-Time Systems
50, 2014.

**Example.** Three tasks with a runtime of 2 ms and a period of 3 ms on two CPUs. The first and second task run in the first
millisecond, the third and first in the second, the second and third in the last. Global EDF misses a deadline there."
    ),
    build: |build| Ok(Box::new(Llref::new(build)?)),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fluid_schedule_tells_whole_nanoseconds_from_parts() {
        let at = |ns| Time::ZERO + Span::from_ns(ns);
        let track = Track { due: at(10), work: Span::from_ns(5), ..NO_TRACK };
        assert_eq!(track.fluid(at(4)), (Span::from_ns(2), false));
        assert_eq!(track.fluid(at(5)), (Span::from_ns(2), true));
        assert_eq!(track.fluid(at(10)), (Span::from_ns(5), false));
    }
}
