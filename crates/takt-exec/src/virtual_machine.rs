//! A machine in virtual time below the executive, for tests: processes that use CPU time, signal and end, in groups that stop and
//! start. It counts time exactly, and carries out acts at once, unless its [`Faults`] say otherwise.
//!
//! Its programs do what those of `takt run` do: they initialise, signal, wait and continue, end for good or with each job. What a job
//! needs is asked for when its program begins it.
//!
//! The scheduler's least rest of a budget is zero here, because a step takes no time. In runs with faults, each process that the engine
//! runs must be started on its CPUs after each step, and no other one. At the end a replay of the recorded inputs must give the records.

mod changes;
mod drive;
mod faults;
mod power;
mod tests;

use crate::actuator::{Actuator, Groups, Processes, Rung, Times, Wait};
use crate::life::Incarnation;
use crate::plan::{Dispatch, Plan, TaskEnd};
use crate::report::{Attempt, Error};
pub(crate) use faults::{Faults, Strike};
use rustix::process::Signal;
use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use takt_abi::{Job, Kind, Page, Statistics, Status};
use takt_core::cpus::CpuSet;
use takt_core::model::{Call, Program, Step, TaskId, scaled};
use takt_core::record::{JobId, Place};
use takt_core::rng;
use takt_core::time::Span;
use takt_linux::rt::Class;
use takt_linux::{Group, PartitionHandle, ThreadState};

/// The activity of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doing {
    /// It needs so much more until it signals or ends; [`Span::MAX`] for ever.
    Work(Span),
    /// It sleeps until this instant.
    Sleeps(Span),
    /// It has ended a job by a sleep until this instant ([`Looping`]).
    Rests(Span),
    /// It begins a job, and what that needs is not known yet.
    Begins,
    /// It gives up the job that it was at.
    GivesUp,
    /// It has signalled, and waits.
    Waits,
    /// It waits for the answer to this request.
    Asks(Kind, u32),
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) task: TaskId,
    group: Group,
    incarnation: Incarnation,
    pub(crate) doing: Doing,
    /// Its FIFO priority; 0 in another class. Processes of other classes do not compete for CPUs.
    priority: u8,
    /// How often it may continue.
    credits: u32,
    used: Span,
    /// It ended before a process that it had started.
    leader: bool,
    /// The steps of its job that come next, as indexes.
    next: usize,
    end: usize,
    /// Where the steps of its last job ended, if it has had one; and those of the job before.
    turn: Option<usize>,
    before: Option<usize>,
    /// The factor on the execution time of its job's steps.
    load: u32,
    /// It is a thread of this process.
    of: Option<i32>,
    /// Another program has moved it out of its group, so that it is not stopped with that.
    pub(crate) escaped: bool,
}

impl Process {
    /// Whether it waits for its next job by its page.
    fn waits(&self) -> bool {
        matches!(self.doing, Doing::Asks(Kind::Next, _))
    }

    /// Begins its next job, at the step after the previous job's.
    fn begin(&mut self, steps: &[Step], load: u32) {
        let steps = steps.strip_suffix(&[Step::WaitPeriod]).unwrap_or(steps);
        let from = self.turn.filter(|turn| *turn < steps.len()).map_or(0, |turn| turn + 1);
        let length = steps[from..].iter().position(|step| *step == Step::WaitPeriod);
        let end = length.map_or(steps.len(), |length| from + length);
        self.before = self.turn;
        (self.next, self.end, self.turn, self.load) = (from, end, Some(end), load);
    }
}

#[derive(Clone, Copy, Default, Debug)]
struct GroupState {
    /// As it was asked for.
    frozen: bool,
    /// The notices of its processes now, and from an instant on.
    stopped: bool,
    change: Option<(Span, bool)>,
}

/// A completion signal on its way.
#[derive(Clone, Copy, Debug)]
struct Heard {
    at: Span,
    task: TaskId,
    incarnation: Incarnation,
}

pub(crate) struct World {
    plan: Arc<Plan>,
    pub(crate) now: Span,
    partitions: Vec<CpuSet>,
    groups: BTreeMap<Group, GroupState>,
    /// By process id; alive.
    pub(crate) processes: BTreeMap<i32, Process>,
    next_pid: i32,
    /// Ended and not reaped, each at its instant.
    zombies: VecDeque<(Span, i32, Process, TaskEnd)>,
    /// CPU times of ended threads.
    times_of_threads: BTreeMap<Group, Span>,
    /// The threads of this task's program name a thread of another process.
    pub(crate) lies: Option<TaskId>,
    /// Groups that became empty after their first process.
    emptied: Vec<Group>,
    heard: Vec<Heard>,
    /// By task: when its process last ended a job, until that is taken in.
    ended: Vec<Option<Span>>,
    /// By task: its program and its page.
    pub(crate) programs: Vec<Program>,
    pages: Vec<Page>,
    /// Blocks and wake-ups that have been reported, and when the scheduler is woken by them.
    waits: VecDeque<Wait>,
    hears_waits: Span,
    quiet: bool,
    /// By task: whether they are reported.
    followed: Vec<bool>,
    /// Blocks and wake-ups can be reported here.
    pub(crate) observes: bool,
    /// The supervisor is to look at its requests.
    pub(crate) wake: bool,
    pub(crate) faults: Faults,
    /// The refused acts.
    pub(crate) refusals: u64,
    /// Time for which the machine has stood still.
    pub(crate) paused: Span,
    /// How many processes were moved out of their groups.
    pub(crate) escapes: u64,
    /// How many stops, starts and priorities were carried out.
    pub(crate) acts: [u64; 3],
    /// How many signals programs received while they waited for their next job, and how many of these programs were not frozen.
    pub(crate) signalled: [u64; 2],
    /// The process of this task has two threads.
    pub(crate) several: Option<TaskId>,
    /// The least time that the executive waits for the end of a budget.
    pub(crate) grain: Span,
    /// A task whose program writes garbage to its page all the time.
    pub(crate) hostile: Option<Hostile>,
    /// A program that executes one segment after another.
    pub(crate) segmenting: Option<Segmenting>,
    /// By task: the loop of its program, which nothing tells what to do.
    pub(crate) looping: Vec<Option<Looping>>,
    /// How often the CPU time of a process was measured.
    pub(crate) measurements: u64,
    /// The room in the ring from the scheduler to the supervisor.
    pub(crate) ring: usize,
    /// The sources of events.
    pub(crate) sources: Vec<Changing>,
    /// The requests of the power policy, and how often they were handed over.
    pub(crate) frequencies: Vec<(Span, u16, u32)>,
    pub(crate) latencies: Vec<(Span, Place, Option<u32>)>,
    pub(crate) posts: u64,
    /// For planned instants: the instant, and the length of the major frame.
    pub(crate) planned_posts: Vec<(Span, Span)>,
    /// The length of the major frame.
    pub(crate) frame: Span,
    /// The samples of temperatures that are to come, in ascending order of their instants in the schedule.
    pub(crate) temperatures: VecDeque<(Span, u16, Option<i32>)>,
}

/// A source of events that changes all the time for a while. Its program reads all that is there at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changing {
    pub(crate) task: TaskId,
    /// The next change; [`Span::MAX`] after the last one.
    pub(crate) next: Span,
    pub(crate) every: Span,
    pub(crate) until: Span,
    changed: bool,
    muted: bool,
}

impl Changing {
    pub(crate) fn new(task: TaskId, from: Span, every: Span, until: Span) -> Changing {
        Changing { task, next: from, every, until, changed: false, muted: false }
    }

    fn advance(&mut self, to: Span) {
        while self.next <= to {
            self.changed = true;
            self.next = if self.next + self.every > self.until { Span::MAX } else { self.next + self.every };
        }
    }
}

/// A loop that works, and sleeps until the next time.
#[derive(Clone, Debug)]
pub(crate) struct Looping {
    /// The work of its jobs, again and again.
    pub(crate) work: Vec<Span>,
    pub(crate) sleep: Span,
    /// How many jobs it has begun.
    pub(crate) begun: usize,
    /// Begins and ends of its sleeps.
    pub(crate) sleeps: Vec<(Span, Span)>,
}

impl Looping {
    fn next(&mut self) -> Doing {
        self.begun += 1;
        Doing::Work(self.work[(self.begun - 1) % self.work.len()])
    }
}

/// A program that begins and ends segments all the time, and waits for each answer. Between two requests it works for a while.
#[derive(Clone, Debug)]
pub(crate) struct Segmenting {
    pub(crate) task: TaskId,
    /// The relative deadline of each segment.
    pub(crate) deadline: Span,
    /// So much work is between two requests.
    pub(crate) work: Span,
    pub(crate) begun: u64,
    pub(crate) aborted: u64,
    /// The longest time from a request to its answer.
    pub(crate) longest: Span,
    asked: Span,
    inside: bool,
}

impl Segmenting {
    pub(crate) fn new(task: TaskId, deadline: Span, work: Span) -> Segmenting {
        let (begun, aborted, longest, asked) = (0, 0, Span::ZERO, Span::ZERO);
        Segmenting { task, deadline, work, begun, aborted, longest, asked, inside: false }
    }

    /// The next request, made now.
    fn ask(&mut self, page: &Page, now: Span) -> Doing {
        self.asked = now;
        let (kind, terms) = if self.inside { (Kind::End, [0; 3]) } else { (Kind::Begin, [self.deadline.ns(), 0, -1]) };
        Doing::Asks(kind, page.ask(kind, page.present().number, terms))
    }

    /// The answer to its request.
    fn answered(&mut self, kind: Kind, status: Status, now: Span) -> Doing {
        self.longest = self.longest.max(now - self.asked);
        self.inside = kind == Kind::Begin && status == Status::Done;
        self.begun += u64::from(self.inside);
        self.aborted += u64::from(status == Status::Aborted);
        Doing::Work(self.work)
    }
}

/// A program that changes its page between any two acts of the scheduler on it. The scheduler loads each field of the page once per act, so
/// a change between two loads gives it nothing that a change between two acts cannot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hostile {
    pub(crate) task: TaskId,
    pub(crate) seed: u64,
    drawn: u64,
}

impl Hostile {
    pub(crate) fn new(task: TaskId, seed: u64) -> Hostile {
        Hostile { task, seed, drawn: 0 }
    }

    /// A number from 0 to `most`.
    fn draw(&mut self, most: u64) -> u64 {
        self.drawn += 1;
        rng::draw_up_to(most, self.seed, 3, self.drawn)
    }

    /// Any number, often one that means something.
    fn number(&mut self, present: u64) -> u64 {
        match self.draw(5) {
            0 => self.draw(u64::MAX - 1),
            1 => present,
            2 => i64::MAX as u64 - self.draw(2),
            3 => self.draw(20_000_000),
            _ => self.draw(12),
        }
    }

    fn write(&mut self, page: &Page) {
        for _ in 0..=self.draw(3) {
            let job = page.job.load(Relaxed);
            let number = self.number(job);
            match self.draw(9) {
                0 => page.kind.store(number as u32, Relaxed),
                1 => page.at.store(number, Relaxed),
                2 => page.asked.store(number as u32, Relaxed),
                3 => page.client.store(number as u32, Relaxed),
                4 => page.answered.store(number as u32, Relaxed),
                5 => page.job.store(number, Relaxed),
                // A request that may be sound.
                6 | 7 => {
                    let arguments = [0; 3].map(|_: i64| self.number(job) as i64);
                    page.kind.store(self.draw(12) as u32, Relaxed);
                    page.at.store(job, Relaxed);
                    page.arguments.iter().zip(arguments).for_each(|(field, value)| field.store(value, Relaxed));
                    page.asked.fetch_add(1, Relaxed);
                }
                field => page.arguments[field as usize % 3].store(number as i64, Relaxed),
            }
        }
    }
}

#[derive(Clone)]
pub(crate) struct Machine(pub(crate) Rc<RefCell<World>>);

impl World {
    fn new(plan: Arc<Plan>, faults: Faults) -> World {
        let tasks = plan.processes.len();
        World {
            programs: vec![Program::AS_DECLARED; tasks],
            pages: std::iter::repeat_with(Page::new).take(tasks).collect(),
            plan,
            now: Span::from_ms(1000),
            partitions: Vec::new(),
            groups: BTreeMap::new(),
            processes: BTreeMap::new(),
            next_pid: 100,
            zombies: VecDeque::new(),
            times_of_threads: BTreeMap::new(),
            lies: None,
            emptied: Vec::new(),
            heard: Vec::new(),
            ended: vec![None; tasks],
            waits: VecDeque::new(),
            hears_waits: Span::MAX,
            quiet: false,
            followed: vec![false; tasks],
            observes: true,
            wake: false,
            faults,
            refusals: 0,
            paused: Span::ZERO,
            escapes: 0,
            acts: [0; 3],
            signalled: [0; 2],
            several: None,
            grain: Span::ZERO,
            hostile: None,
            segmenting: None,
            looping: vec![None; tasks],
            measurements: 0,
            ring: 1 << 12,
            sources: Vec::new(),
            frequencies: Vec::new(),
            latencies: Vec::new(),
            posts: 0,
            planned_posts: Vec::new(),
            frame: Span::ZERO,
            temperatures: VecDeque::new(),
        }
    }

    /// Whether a group was last asked to be stopped.
    pub(crate) fn frozen(&self, group: Group) -> bool {
        self.groups[&group].frozen
    }

    pub(crate) fn cpus(&self, partition: PartitionHandle) -> CpuSet {
        self.partitions[partition.0 as usize]
    }

    /// Whether the first process of a group has ended, or waits for its next job, or sleeps until it begins that.
    pub(crate) fn is_asleep(&self, group: Group) -> bool {
        let sleeps = |process: &Process| process.waits() || matches!(process.doing, Doing::Rests(_));
        self.processes.values().filter(|process| process.leader && process.group == group).all(sleeps)
    }

    /// Whether nothing is left: no process, no group.
    pub(crate) fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.groups.is_empty() && self.zombies.is_empty()
    }

    /// The page of a task, as its program has left it.
    fn page(&mut self, task: TaskId) -> &Page {
        let page = &self.pages[task.index()];
        self.hostile.iter_mut().filter(|hostile| hostile.task == task).for_each(|hostile| hostile.write(page));
        page
    }

    fn refuse(&mut self) -> io::Result<()> {
        let refuses = self.faults.refuses();
        self.refuse_if(refuses)
    }

    fn refuse_supervisor(&mut self) -> io::Result<()> {
        let refuses = self.faults.refuses_supervisor();
        self.refuse_if(refuses)
    }

    fn refuse_if(&mut self, refuses: bool) -> io::Result<()> {
        self.refusals += u64::from(refuses);
        let refusal = || io::Error::from_raw_os_error(rustix::io::Errno::BUSY.raw_os_error());
        if refuses { Err(refusal()) } else { Ok(()) }
    }

    fn set_frozen(&mut self, group: Group, frozen: bool) -> io::Result<()> {
        let late = self.faults.effect();
        let now = self.now;
        let Some(state) = self.groups.get_mut(&group) else {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::NOENT.raw_os_error()));
        };
        state.frozen = frozen;
        self.acts[usize::from(!frozen)] += 1;
        match late {
            None => {
                let thaws = state.stopped && !frozen;
                (state.stopped, state.change) = (frozen, None);
                if thaws {
                    self.report_thaw(group);
                }
            }
            Some(late) => state.change = Some((now + late, frozen)),
        }
        Ok(())
    }

    /// The FIFO priority of a task's process.
    pub(crate) fn priority(&self, task: TaskId) -> Option<u8> {
        self.processes.values().find(|process| process.leader && process.task == task).map(|process| process.priority)
    }

    /// The processes that have a CPU, or need none to themselves. Those in the class FIFO get the CPUs in the order of their priorities.
    fn running(&self) -> Vec<i32> {
        let works = |process: &Process| matches!(process.doing, Doing::Work(_));
        let may = |process: &Process| process.escaped || !self.groups[&process.group].stopped;
        let ready = |(_, process): &(&i32, &Process)| works(process) && may(process);
        let mut ready: Vec<(&i32, &Process)> = self.processes.iter().filter(ready).collect();
        ready.sort_by_key(|(_, process)| std::cmp::Reverse(process.priority));
        let mut busy = CpuSet::EMPTY;
        let runs = |(pid, process): (&i32, &Process)| {
            if process.priority > 0 && self.plan.dispatch != Dispatch::Freeze {
                busy.insert(self.cpus(process.group.partition).difference(&busy).iter().next()?);
            }
            Some(*pid)
        };
        ready.into_iter().filter_map(runs).collect()
    }

    /// When something happens next by itself.
    pub(crate) fn next(&self) -> Span {
        let ends = self.running().into_iter().map(|pid| &self.processes[&pid]);
        let ends = ends.filter_map(|process| match process.doing {
            Doing::Work(left) if left != Span::MAX => Some(self.now + left),
            _ => None,
        });
        let sleeps = self.processes.values().filter_map(|process| match process.doing {
            Doing::Sleeps(until) | Doing::Rests(until) => Some(until),
            _ => None,
        });
        let notice = Some(self.hears_waits).filter(|at| *at > self.now && *at < Span::MAX);
        let changes = self.groups.values().filter_map(|group| group.change.map(|(at, _)| at));
        let changes = changes.chain(sleeps).chain(notice);
        // Earlier items wait for the thread that they are for.
        let heard = self.heard.iter().map(|heard| heard.at).filter(|at| *at > self.now);
        let zombies = self.zombies.iter().map(|(at, ..)| *at).filter(|at| *at > self.now);
        let sources = self.sources.iter().map(|source| source.next);
        let first = ends.chain(changes).chain(heard).chain(zombies).chain(sources).chain(self.faults.next()).min();
        first.unwrap_or(Span::MAX).max(self.now)
    }

    /// Time goes by until `to`, which is not after [`World::next`], and what happens then happens.
    pub(crate) fn advance(&mut self, to: Span) {
        let passed = to - self.now;
        self.now = to;
        let mut done = Vec::new();
        for pid in self.running() {
            let process = self.processes.get_mut(&pid).expect("a live process");
            if let Doing::Work(left) = &mut process.doing {
                process.used += passed;
                if *left != Span::MAX {
                    *left -= passed;
                    if *left == Span::ZERO {
                        done.push(pid);
                    }
                }
            }
        }
        done.sort_unstable();
        done.into_iter().for_each(|pid| self.complete(pid));
        let mut thawed = Vec::new();
        for (group, state) in &mut self.groups {
            if let Some((_, stopped)) = state.change.take_if(|(at, _)| *at <= to) {
                thawed.extend((state.stopped && !stopped).then_some(*group));
                state.stopped = stopped;
            }
        }
        thawed.into_iter().for_each(|group| self.report_thaw(group));
        self.wake_sleepers();
        self.sources.iter_mut().for_each(|source| source.advance(to));
        while let Some(strike) = self.faults.strike(to) {
            self.struck(strike);
        }
        while let Some(pause) = self.faults.pause(to) {
            self.now += pause;
            self.paused += pause;
        }
    }

    /// Ends the sleeps whose time has come.
    fn wake_sleepers(&mut self) {
        let World { processes, looping, now, groups, .. } = self;
        let over = processes.values_mut().filter_map(|process| {
            process.doing = match (process.doing, &mut looping[process.task.index()]) {
                (Doing::Sleeps(until), _) if until <= *now => Doing::Work(Span::ZERO),
                (Doing::Rests(until), Some(looping)) if until <= *now => looping.next(),
                _ => return None,
            };
            // As under cgroup v1: the end of a sleep of a frozen process is not reported, and its thaw is.
            (!groups[&process.group].stopped).then_some(process.task)
        });
        let over: Vec<TaskId> = over.collect();
        over.into_iter().for_each(|task| self.report_wait(task, false));
    }

    /// As the kernel does it: a process that is thawed wakes up, and continues its sleep.
    fn report_thaw(&mut self, group: Group) {
        let leader = self.processes.values().find(|process| process.leader && process.group == group);
        let Some((task, sleeps)) =
            leader.map(|process| (process.task, matches!(process.doing, Doing::Sleeps(_) | Doing::Rests(_))))
        else {
            return;
        };
        self.report_wait(task, false);
        if sleeps {
            self.report_wait(task, true);
        }
    }

    /// The kernel reports that a task has blocked, or is runnable again.
    fn report_wait(&mut self, task: TaskId, blocked: bool) {
        if self.followed[task.index()] {
            self.waits.push_back(Wait { at: self.now, task, blocked });
            let notice = self.faults.notice();
            if !self.quiet {
                self.hears_waits = self.hears_waits.min(self.now + notice);
            }
        }
    }

    /// Whether the scheduler has been woken by a block or a wake-up.
    pub(crate) fn hear_notice(&mut self) -> bool {
        let heard = self.hears_waits <= self.now;
        if heard {
            self.hears_waits = Span::MAX;
        }
        heard
    }

    /// A process has done what it was at.
    fn complete(&mut self, pid: i32) {
        if self.next_segment(pid) {
            return;
        }
        if self.next_step(pid) {
            return;
        }
        let process = self.processes.get_mut(&pid).expect("a live process");
        let (task, incarnation) = (process.task, process.incarnation);
        if self.plan.processes[task.index()].per_job {
            return self.end(pid, TaskEnd::Exited(0));
        }
        if process.of.is_some() {
            // A thread has no descriptor to continue by.
            let page = &self.pages[task.index()];
            process.doing = Doing::Asks(Kind::Next, page.ask(Kind::Next, page.present().number, [0; 3]));
            return self.signal_completion(task, incarnation);
        }
        if let Some(looping) = &mut self.looping[task.index()] {
            let until = self.now + looping.sleep;
            looping.sleeps.push((self.now, until));
            process.doing = Doing::Rests(until);
            self.report_wait(task, true);
            return self.signal_completion(task, incarnation);
        }
        process.doing = Doing::Waits;
        self.signal_completion(task, incarnation);
        self.go_on(pid);
    }

    /// A program that executes segments makes its next request. `false` for another program.
    fn next_segment(&mut self, pid: i32) -> bool {
        let process = self.processes.get_mut(&pid).expect("a live process");
        let (task, incarnation) = (process.task, process.incarnation);
        let Some(segmenting) = self.segmenting.as_mut().filter(|own| own.task == task) else { return false };
        process.doing = segmenting.ask(&self.pages[task.index()], self.now);
        self.signal_completion(task, incarnation);
        true
    }

    /// Executes the next step of a job, or requests the next job. `false` for a program without steps.
    fn next_step(&mut self, pid: i32) -> bool {
        let process = self.processes.get_mut(&pid).expect("a live process");
        let program = &self.programs[process.task.index()];
        if program.steps.is_empty() {
            return false;
        }
        let mut work = Span::ZERO;
        // As `takt burn`: the end of a job unlocks its resources.
        let rest = &program.steps[process.next..process.end];
        if rest.iter().all(|step| matches!(step, Step::Unlock(_) | Step::Yield)) {
            process.next = process.end;
        }
        let request = loop {
            let step = program.steps[..process.end].get(process.next).copied();
            match step {
                Some(Step::Run(span)) => work += scaled(span, process.load),
                _ if work > Span::ZERO => {
                    process.doing = Doing::Work(work);
                    return true;
                }
                Some(Step::Lock(resource)) => break (Kind::Lock, i64::from(resource.0)),
                Some(Step::Unlock(resource)) => break (Kind::Unlock, i64::from(resource.0)),
                Some(Step::Yield) => break (Kind::Yield, 0),
                Some(Step::Call(Call::Period(span))) => break (Kind::SetPeriod, span.ns()),
                Some(Step::Call(Call::Deadline(span))) => break (Kind::SetDeadline, span.ns()),
                Some(Step::Call(Call::Runtime(span))) => break (Kind::SetRuntime, span.ns()),
                Some(Step::Sleep(span)) => {
                    process.next += 1;
                    process.doing = Doing::Sleeps(self.now + span);
                    let task = process.task;
                    self.report_wait(task, true);
                    return true;
                }
                Some(Step::WaitPeriod) => unreachable!("the end of a job's steps"),
                None => break (Kind::Next, 0),
            }
            process.next += 1;
        };
        process.next += 1;
        let (task, incarnation) = (process.task, process.incarnation);
        let page = &self.pages[task.index()];
        let number = page.ask(request.0, page.present().number, [request.1, 0, 0]);
        process.doing = Doing::Asks(request.0, number);
        self.signal_completion(task, incarnation);
        true
    }

    /// A request has been answered.
    fn answered(&mut self, task: TaskId) {
        let page = &self.pages[task.index()];
        let mut own = self.segmenting.as_mut().filter(|own| own.task == task);
        for process in self.processes.values_mut().filter(|process| process.task == task && process.leader) {
            if let (Some(own), Doing::Asks(kind, number)) = (&mut own, process.doing) {
                let status = page.answered(number);
                process.doing = status.map_or(process.doing, |status| own.answered(kind, status, self.now));
                continue;
            }
            match process.doing {
                Doing::Asks(Kind::Next, number) if page.answered(number).is_some() => process.doing = Doing::Begins,
                // It continues as soon as it runs.
                Doing::Asks(_, number) if page.answered(number).is_some() => process.doing = Doing::Work(Span::ZERO),
                _ => {}
            }
        }
    }

    fn signal_completion(&mut self, task: TaskId, incarnation: Incarnation) {
        self.ended[task.index()] = Some(self.now);
        let (late, again) = self.faults.hearing();
        self.heard.push(Heard { at: self.now + late, task, incarnation });
        self.heard.extend(again.map(|later| Heard { at: self.now + later, task, incarnation }));
    }

    fn go_on(&mut self, pid: i32) {
        if let Some(process) = self.processes.get_mut(&pid)
            && process.doing == Doing::Waits
            && process.credits > 0
        {
            process.credits -= 1;
            process.doing = Doing::Begins;
        }
    }

    /// A process ends now with its threads, and is found after a while. A thread that ends alone is only missed.
    fn end(&mut self, pid: i32, end: TaskEnd) {
        let threads = self.processes.extract_if(.., |_, process| process.of == Some(pid));
        let threads: Vec<(i32, Process)> = threads.collect();
        self.times_of_threads.extend(threads.into_iter().map(|(_, process)| (process.group, process.used)));
        if self.processes.get(&pid).is_some_and(|process| process.of.is_some()) {
            let thread = self.processes.remove(&pid);
            self.times_of_threads.extend(thread.map(|thread| (thread.group, thread.used)));
            return;
        }
        if let Some(process) = self.processes.remove(&pid) {
            let late = self.faults.ending();
            self.zombies.push_back((self.now + late, pid, process, end));
        }
    }

    fn struck(&mut self, strike: Strike) {
        let leader = |(_, process): &(&i32, &Process)| process.leader && process.task == strike.task;
        let Some(pid) = self.processes.iter().find(leader).map(|(pid, _)| *pid) else { return };
        if strike.signals {
            let incarnation = self.processes[&pid].incarnation;
            return self.signal_completion(strike.task, incarnation);
        }
        if strike.escapes {
            // A thread is moved with its process.
            let process = self.processes.get_mut(&pid).expect("a live process");
            process.escaped = process.of.is_none();
            self.escapes += u64::from(process.escaped);
            return;
        }
        if strike.leaves_child && self.processes[&pid].of.is_none() {
            let Process { task, group, incarnation, priority, .. } = self.processes[&pid];
            let child = Process {
                task,
                group,
                incarnation,
                priority,
                doing: Doing::Work(Span::from_ms(3)),
                credits: 0,
                used: Span::ZERO,
                leader: false,
                next: 0,
                end: 0,
                turn: None,
                before: None,
                load: 0,
                of: None,
                escaped: false,
            };
            let number = self.new_pid();
            self.processes.insert(number, child);
        }
        self.end(pid, strike.end);
    }

    fn new_pid(&mut self) -> i32 {
        self.next_pid += 1;
        self.next_pid
    }

    /// Completions that have been heard by now.
    pub(crate) fn hear(&mut self) -> Vec<(TaskId, Incarnation)> {
        let now = self.now;
        let heard = self.heard.extract_if(.., |heard| heard.at <= now);
        heard.map(|heard| (heard.task, heard.incarnation)).collect()
    }

    /// The tasks whose sources have changed since they were heard last.
    pub(crate) fn hear_sources(&mut self) -> Vec<TaskId> {
        let sources = self.sources.iter_mut();
        sources.filter_map(|s| (!s.muted && std::mem::take(&mut s.changed)).then_some(s.task)).collect()
    }

    /// Whether the program of a task's process waits; `None` without that process.
    pub(crate) fn waits(&self, task: TaskId, incarnation: Incarnation) -> Option<bool> {
        let present = |process: &&Process| process.leader && process.task == task && process.incarnation == incarnation;
        let process = self.processes.values().find(present)?;
        Some(matches!(process.doing, Doing::Waits | Doing::Asks(..)))
    }

    /// Whether a signal of the task's process is on its way.
    pub(crate) fn is_signalling(&self, task: TaskId, incarnation: Incarnation) -> bool {
        self.heard.iter().any(|heard| (heard.task, heard.incarnation) == (task, incarnation))
    }

    pub(crate) fn has_heard(&self) -> bool {
        let source = |source: &Changing| source.changed && !source.muted;
        let heard = self.heard.iter().any(|heard| heard.at <= self.now);
        heard || self.hears_waits <= self.now || self.sources.iter().any(source)
    }

    /// Whether the supervisor would be woken: by a child's end, or by the scheduler.
    pub(crate) fn wakes_supervisor(&self) -> bool {
        self.wake || !self.emptied.is_empty() || self.zombies.iter().any(|(at, ..)| *at <= self.now)
    }

    fn populated(&self, group: Group) -> bool {
        self.processes.values().any(|process| process.group == group)
    }
}

/// The FIFO priority of a class; 0 for another class.
fn fifo(class: Class) -> u8 {
    if let Class::Fifo(priority) = class { priority } else { 0 }
}

impl Machine {
    pub(crate) fn new(plan: Arc<Plan>, faults: Faults) -> Machine {
        Machine(Rc::new(RefCell::new(World::new(plan, faults))))
    }
    pub(crate) fn world(&self) -> RefMut<'_, World> {
        self.0.borrow_mut()
    }
}

impl Groups for Machine {
    fn add(&mut self, cpus: &CpuSet, groups: usize, _moves: bool) -> io::Result<PartitionHandle> {
        let mut world = self.world();
        let partition = PartitionHandle(world.partitions.len() as u32);
        world.partitions.push(*cpus);
        let frozen = GroupState { frozen: true, stopped: true, change: None };
        world.groups.extend((0..groups as u32).map(|index| (Group { partition, index }, frozen)));
        Ok(partition)
    }
}

impl Actuator for Machine {
    type Resume = i32;
    fn now(&self) -> Span {
        self.world().now
    }
    fn grain(&self) -> Span {
        self.world().grain
    }
    fn stop(&self, group: Group) -> io::Result<()> {
        self.world().refuse()?;
        self.world().set_frozen(group, true)
    }
    fn start(&self, group: Group) -> io::Result<()> {
        self.world().refuse()?;
        self.world().set_frozen(group, false)
    }
    fn set_priority(&self, group: Group, priority: u8) -> io::Result<()> {
        let mut world = self.world();
        world.refuse()?;
        world.acts[2] += 1;
        match world.processes.values_mut().find(|process| process.leader && process.group == group) {
            Some(process) => process.priority = priority,
            None => return Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error())),
        }
        Ok(())
    }
    fn set_leader_class(&self, group: Group, class: Class) -> io::Result<()> {
        self.set_priority(group, fifo(class))
    }
    fn assign(&self, partition: PartitionHandle, cpus: &CpuSet) -> io::Result<()> {
        let mut world = self.world();
        world.refuse()?;
        world.partitions[partition.0 as usize] = *cpus;
        Ok(())
    }
    fn cpu_time(&self, group: Group) -> Option<Span> {
        let mut world = self.world();
        world.measurements += 1;
        let used = world.processes.values().find(|process| process.leader && process.group == group);
        used.map(|process| process.used)
    }
    fn signal(&self, group: Group, _signal: Signal) -> io::Result<()> {
        let mut world = self.world();
        world.refuse()?;
        let waits = world.processes.values().any(|process| process.leader && process.group == group && process.waits());
        let awake = waits && !world.frozen(group);
        world.signalled[0] += u64::from(waits);
        world.signalled[1] += u64::from(awake);
        let process = world.processes.values_mut().find(|process| process.leader && process.group == group);
        let works = |process: &&mut Process| matches!(process.doing, Doing::Work(_) | Doing::Begins | Doing::Sleeps(_));
        if let Some(process) = process.filter(works) {
            process.next = process.end;
            let doing = std::mem::replace(&mut process.doing, Doing::GivesUp);
            let task = process.task;
            if matches!(doing, Doing::Sleeps(_)) {
                world.report_wait(task, false);
            }
        }
        Ok(())
    }
    fn resume(&self, by: &i32) -> io::Result<()> {
        let mut world = self.world();
        if let Some(process) = world.processes.get_mut(by) {
            process.credits += 1;
        }
        world.go_on(*by);
        Ok(())
    }
    fn hear_source(&self, _: TaskId) {}
    fn mute_source(&self, task: TaskId, muted: bool) -> io::Result<()> {
        let mut world = self.world();
        world.sources.iter_mut().filter(|source| source.task == task).for_each(|source| source.muted = muted);
        Ok(())
    }
    fn ended_job(&self, task: TaskId, since: Span) -> Option<Span> {
        self.world().ended[task.index()].take().filter(|at| *at >= since)
    }
    fn follow(&self, task: TaskId, group: Option<Group>) {
        let mut world = self.world();
        world.followed[task.index()] = world.observes && group.is_some();
    }
    fn has_waits(&self) -> bool {
        !self.world().waits.is_empty()
    }
    fn take_wait(&self, until: Span) -> Option<Wait> {
        self.world().waits.pop_front_if(|wait| wait.at <= until)
    }
    fn hear_waits(&self, _: bool) {}
    fn stops_as_sleep(&self) -> bool {
        true
    }
    fn rung(&self, task: TaskId, last: u32) -> Rung {
        Rung::by(Some(self.world().page(task)), last)
    }
    fn answer(&self, task: TaskId, number: u32, status: Status) {
        let mut world = self.world();
        world.page(task).answer(number, status);
        world.answered(task);
    }
    fn waits(&self, task: TaskId) -> bool {
        self.world().processes.values().any(|process| process.leader && process.task == task && process.waits())
    }
    fn begin(&self, task: TaskId, job: Job) {
        let mut world = self.world();
        world.page(task).begin(job);
        // One that signals nothing waits for nothing but its dispatch.
        if world.plan.processes[task.index()].observed.is_some() {
            let waits = |process: &&mut Process| process.leader && process.doing == Doing::Waits;
            let waiting = world.processes.values_mut().filter(waits);
            waiting.filter(|process| process.task == task).for_each(|process| process.doing = Doing::Begins);
        }
    }
    fn abort(&self, task: TaskId, job: JobId) {
        self.world().page(task).abort(job);
    }
    fn tell(&self, task: TaskId, statistics: Statistics) {
        self.world().page(task).tell(statistics);
    }
    fn wake_supervisor(&self) {
        self.world().wake = true;
    }
    fn set_frequency(&self, domain: u16, khz: u32) {
        let mut world = self.world();
        let now = world.now;
        world.frequencies.push((now, domain, khz));
    }
    fn limit_latency(&self, cpu: Place, limit_us: Option<u32>) {
        let mut world = self.world();
        let now = world.now;
        world.latencies.push((now, cpu, limit_us));
    }
    fn post_power(&self, planned: Option<Span>) {
        let mut world = self.world();
        world.posts += 1;
        let frame = world.frame;
        world.planned_posts.extend(planned.map(|planned| (planned, frame)));
    }
    fn set_frame(&self, length: Span) {
        self.world().frame = length;
    }
}

impl Processes for Machine {
    type Resume = i32;
    fn now(&self) -> Span {
        self.world().now
    }
    /// Each process ends by the signal.
    fn ask_to_end(&self, group: Group) -> io::Result<()> {
        self.kill(group)
    }
    fn take_in(&mut self, _: TaskId, plan: Arc<Plan>) -> Result<(), Error> {
        self.world().plan = plan;
        Ok(())
    }
    fn spawn(&mut self, task: TaskId, group: Group, incarnation: Incarnation, class: Class) -> Result<i32, Error> {
        let mut world = self.world();
        world.refuse_supervisor().what("cannot start a process")?;
        // One that initialises does so for a while.
        let init = world.plan.processes[task.index()].init;
        let segmenting = world.segmenting.as_ref().is_some_and(|own| own.task == task);
        let doing = match segmenting {
            // Its first request comes after the schedule has begun.
            true => Doing::Work(Span::from_ms(3)),
            false if init => Doing::Work(world.faults.initialisation()),
            false => Doing::Begins,
        };
        let pid = world.new_pid();
        let process = Process {
            task,
            group,
            incarnation,
            doing,
            priority: fifo(class),
            credits: 0,
            used: Span::ZERO,
            leader: true,
            next: 0,
            end: 0,
            turn: None,
            before: None,
            load: 0,
            of: None,
            escaped: false,
        };
        let page = &world.pages[task.index()];
        page.reset(0);
        if segmenting || !world.programs[task.index()].steps.is_empty() {
            page.attach().expect("a page of this version");
        }
        world.processes.insert(pid, process);
        let plan = world.plan.clone();
        for &thread in plan.threads().of(task) {
            let number = world.new_pid();
            let doing = Doing::Work(world.faults.initialisation());
            let page = &world.pages[thread.index()];
            page.reset(0);
            page.attach_thread(number as u32).expect("a page of this version");
            let process = Process { task: thread, of: Some(pid), doing, ..world.processes[&pid] };
            world.processes.insert(number, process);
        }
        Ok(pid)
    }
    fn fetch(&self, task: TaskId, pid: i32) -> Option<i32> {
        let world = self.world();
        let has_descriptor = world.plan.processes[task.index()].observed.is_none();
        (has_descriptor && world.processes.contains_key(&pid)).then_some(pid)
    }
    fn stop(&self, group: Group) -> io::Result<()> {
        self.world().refuse_supervisor()?;
        self.world().set_frozen(group, true)
    }
    fn start(&self, group: Group) -> io::Result<()> {
        self.world().refuse_supervisor()?;
        self.world().set_frozen(group, false)
    }
    fn prepare(&self, group: Group) -> io::Result<()> {
        let mut world = self.world();
        world.refuse_supervisor()?;
        world.set_frozen(group, true)?;
        // An empty group has no process that could notice it later.
        let state = world.groups.get_mut(&group).expect("a group of the run");
        (state.stopped, state.change) = (true, None);
        Ok(())
    }
    fn kill(&self, group: Group) -> io::Result<()> {
        let mut world = self.world();
        world.refuse_supervisor()?;
        let in_group = |(pid, process): (&i32, &Process)| (process.group == group).then_some(*pid);
        let pids: Vec<i32> = world.processes.iter().filter_map(in_group).collect();
        pids.into_iter().for_each(|pid| world.end(pid, TaskEnd::Signalled(9)));
        Ok(())
    }
    fn set_class(&self, group: Group, class: Class) {
        let mut world = self.world();
        let processes = world.processes.values_mut().filter(|process| process.group == group);
        processes.for_each(|process| process.priority = fifo(class));
    }
    fn adopt(&mut self, task: TaskId, program: Group, own: Group, class: Class) -> io::Result<()> {
        let mut world = self.world();
        world.refuse_supervisor()?;
        let gone = io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error());
        if world.lies == Some(task) {
            return Err(gone);
        }
        let own_thread = |process: &&mut Process| process.task == task && process.group == program;
        let thread = world.processes.values_mut().find(own_thread).ok_or(gone)?;
        (thread.group, thread.priority) = (own, fifo(class));
        Ok(())
    }
    fn thread_state(&self, group: Group) -> ThreadState {
        let world = self.world();
        let alive = world.processes.values().any(|process| process.leader && process.group == group);
        if alive { ThreadState::Alive } else { ThreadState::Ended }
    }
    fn take_back(&self, group: Group) -> io::Result<bool> {
        let mut world = self.world();
        let escaped = |process: &Process| process.leader && process.group == group && process.escaped;
        if !world.processes.values().any(escaped) {
            return Ok(false);
        }
        world.refuse_supervisor()?;
        world.processes.values_mut().filter(|process| escaped(process)).for_each(|process| process.escaped = false);
        Ok(true)
    }
    fn let_die(&self, _: Group) -> io::Result<()> {
        Ok(())
    }
    fn end_displaced(&self, _: Group) {}
    fn forget_thread(&self, _: Group) {}
    fn thread_time(&self, group: Group) -> Option<Span> {
        let world = self.world();
        let alive = world.processes.values().find(|process| process.leader && process.group == group);
        alive.map(|process| process.used).or_else(|| world.times_of_threads.get(&group).copied())
    }
    fn threads(&self, group: Group) -> Option<usize> {
        let world = self.world();
        let threads = |process: &Process| 1 + usize::from(world.several == Some(process.task));
        Some(world.processes.values().filter(|process| process.group == group).map(threads).sum())
    }
    fn uses_page(&self, task: TaskId) -> bool {
        self.world().pages[task.index()].is_attached()
    }
    fn set_priorities(&self, group: Group, priority: u8) {
        self.set_class(group, Class::Fifo(priority));
    }
    fn populated(&self, group: Group) -> io::Result<bool> {
        Ok(self.world().populated(group))
    }
    fn notifies(&self) -> bool {
        self.world().faults.notifies
    }
    fn ended(&mut self) -> Option<i32> {
        let mut world = self.world();
        let now = world.now;
        let found = world.zombies.iter().position(|(at, ..)| *at <= now)?;
        // The order in which children are found is not that in which they ended.
        world.zombies.rotate_left(found);
        Some(world.zombies[0].1)
    }
    fn reap(&mut self, pid: i32) -> Option<TaskEnd> {
        let mut world = self.world();
        let found = world.zombies.iter().position(|(_, zombie, ..)| *zombie == pid)?;
        let (_, _, process, end) = world.zombies.remove(found)?;
        // The last of those that its first process left behind.
        if !process.leader && world.faults.notifies && !world.populated(process.group) {
            world.emptied.push(process.group);
        }
        Some(end)
    }
    fn leader_exited(&self, group: Group) -> io::Result<bool> {
        Ok(!self.world().populated(group))
    }
    fn emptied(&self, mut report: impl FnMut(Group)) {
        let emptied = std::mem::take(&mut self.world().emptied);
        emptied.into_iter().for_each(&mut report);
    }
    fn times(&self, pid: i32) -> Times {
        let world = self.world();
        let alive = world.processes.get(&pid);
        let ended = world.zombies.iter().find(|(_, zombie, ..)| *zombie == pid).map(|(_, _, process, _)| process);
        Times { waited: None, used: alive.or(ended).map(|process| process.used) }
    }
    fn destroy(&self) -> io::Result<()> {
        let mut world = self.world();
        let now = world.now;
        let alive = std::mem::take(&mut world.processes);
        world.zombies.extend(alive.into_iter().map(|(pid, process)| (now, pid, process, TaskEnd::Signalled(9))));
        world.zombies.iter_mut().for_each(|(at, ..)| *at = now);
        world.groups.clear();
        Ok(())
    }
}
