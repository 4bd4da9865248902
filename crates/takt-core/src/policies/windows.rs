//! The static window table: a major frame of time windows over partitions, after DEmOS and ARINC 653.
//!
//! The DEmOS thesis (a static scheduler for Linux user space, Czech Technical University in Prague), sections 3.2 and 3.5.
//! Invariant: outside its slices a partition does not run, whatever happens inside it.

use crate::cpus::CpuSet;
use crate::model::{
    self, Arrival, BestEffortStart, CpuTest, Fact, Hosts, Invalid, Profile, Scope, System, TaskId, Terms,
};
use crate::policy::{Budget, Build, Clock, Context, Decision, Entry, Event, Policy, PreparedTable, Table};
use crate::record::{Outcome, Place};
use crate::time::{Span, Time};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// A [`Place`] is a number of 16 bits, of which the last one stays free: whoever counts places must not wrap around.
const MOST_PLACES: usize = u16::MAX as usize;

/// A partition and what has become of it in the current window.
struct Partition {
    tasks: Vec<TaskId>,
    /// What schedules inside; `None` is `fifo`.
    guest: Option<Box<dyn Policy>>,
    first_timer: u16,
    /// The task whose turn it is under `fifo`.
    cursor: usize,
    /// How many tasks have had their turn in this window; each has at most one.
    served: usize,
}

impl Partition {
    fn current(&self) -> Option<TaskId> {
        (self.served < self.tasks.len()).then(|| self.tasks[self.cursor])
    }
    fn advance(&mut self) {
        self.cursor = (self.cursor + 1) % self.tasks.len();
        self.served += 1;
    }
}

struct Windows {
    table: Table,
    /// The table that takes over at the end of the major frame, or the one that it has replaced.
    other: Option<PreparedTable>,
    partitions: Vec<Partition>,
    partition_of: Vec<Option<usize>>,
    timer: u16,
    timers: u16,
    current: usize,
    frame: u64,
    end: Time,
}

impl Windows {
    fn new(build: &Build<'_>) -> Result<Windows, Invalid> {
        let system = build.system;
        if system.windows.is_empty() {
            return Err(Invalid::Unsuitable("the policy `windows` needs a window table"));
        }
        let places = system.places();
        if places.len() > MOST_PLACES {
            return Err(Invalid::Unsuitable("the CPUs and the slices are more than 65535 different sets of CPUs"));
        }
        let table = Table::new(&system.windows, system.be_start, system.cpus, &places)?;
        let mut partition_of = vec![None; system.tasks.len()];
        let mut partitions = Vec::with_capacity(system.partitions.len());
        let reach = reach(&system.windows, system.partitions.len());
        let mut timers = 1;
        for (index, partition) in system.partitions.iter().enumerate() {
            for &task in &partition.tasks {
                if partition_of[task.index()].replace(index).is_some() {
                    return Err(Invalid::Unsuitable("a task is listed twice in the partitions"));
                }
                // Who releases its jobs: `fifo` does it itself, a policy of its own expects the engine to.
                match (&system.tasks[task.index()].arrival, partition.policy) {
                    (
                        Arrival::Periodic { .. }
                        | Arrival::Sporadic { .. }
                        | Arrival::Listed { .. }
                        | Arrival::Event { .. },
                        None,
                    ) => {
                        return Err(Invalid::Unsuitable("a periodic task needs a partition with a policy of its own"));
                    }
                    (Arrival::Activated, Some(_)) => return Err(Invalid::Needs(task, "period")),
                    _ => {}
                }
            }
            let first_timer = build.first_timer + timers;
            let guest = match partition.policy {
                None => {
                    let lacking = partition.tasks.iter().find(|t| system.tasks[t.index()].budget.is_none());
                    if let Some(&task) = lacking {
                        return Err(Invalid::Needs(task, "budget"));
                    }
                    None
                }
                Some(spec) => {
                    if spec.scope == Scope::Table {
                        return Err(Invalid::Unsuitable(
                            "a partition needs a policy for jobs, and this one is a table",
                        ));
                    }
                    let places = crate::policy::lent(&reach[index], system.cpus);
                    let guest = Build { tasks: &partition.tasks, places: &places, spec, first_timer, ..*build };
                    Some(guest.policy()?)
                }
            };
            timers += guest.as_ref().map_or(0, |g| g.timers());
            let tasks = partition.tasks.clone();
            partitions.push(Partition { tasks, guest, first_timer, cursor: 0, served: 0 });
        }
        Ok(Windows {
            table,
            other: None,
            partitions,
            partition_of,
            timer: build.first_timer,
            timers,
            current: 0,
            frame: 0,
            end: Time::ZERO,
        })
    }

    /// Opens the current window, which ends at `self.end`.
    fn open(&mut self, cx: &mut Context<'_>) {
        cx.window(self.current as u32, self.frame);
        cx.set_border(self.timer, self.end);
        let Windows { table, partitions, current, end, .. } = self;
        for slice in &table.windows[*current].slices {
            for partition in [slice.sc, slice.be].into_iter().flatten() {
                partitions[partition].served = 0;
            }
            let Some(sc) = slice.sc.map(|p| &mut partitions[p]).filter(|p| p.guest.is_none()) else { continue };
            sc.cursor = 0;
            for &task in &sc.tasks {
                if cx.job(task).is_some() {
                    // It was left over from a window in which its partition was best-effort; the budget starts anew.
                    cx.finish(task, Outcome::BudgetUsed);
                }
                // A task may leave with its job.
                if cx.is_gone(task) {
                    cx.miss_activation(task, Some(*end));
                    continue;
                }
                if cx.drawn_budget(task, cx.next_job(task)) > Span::ZERO {
                    cx.activate(task, Some(*end));
                } else {
                    cx.pass_activation(task);
                }
            }
        }
    }

    /// Closes the current window: safety-critical activations that are not over are overruns.
    fn close(&mut self, cx: &mut Context<'_>) {
        for slice in &self.table.windows[self.current].slices {
            let Some(sc) = slice.sc.map(|p| &self.partitions[p]).filter(|p| p.guest.is_none()) else { continue };
            for &task in &sc.tasks {
                if cx.job(task).is_some() {
                    cx.finish(task, Outcome::Overrun);
                }
            }
        }
    }

    /// Goes on to the next window. When the driver comes after that window's end, windows are lost: the schedule stays on
    /// its grid, and nothing is replayed.
    fn advance(&mut self, cx: &mut Context<'_>) {
        let mut lost = 0;
        loop {
            self.current += 1;
            if self.current == self.table.windows.len() {
                self.current = 0;
                self.frame += 1;
                self.take_over(cx);
            }
            self.end += self.table.windows[self.current].length;
            if self.end > cx.now() {
                break;
            }
            lost += 1;
        }
        if lost > 0 {
            cx.windows_lost(lost);
        }
        self.open(cx);
    }

    /// At the end of a major frame: the table that waits takes over.
    fn take_over(&mut self, cx: &mut Context<'_>) {
        if let Some(PreparedTable(next)) = self.other.as_mut().filter(|next| next.0.waits) {
            next.waits = false;
            core::mem::swap(&mut self.table, &mut next.table);
            cx.replace_table(next.to, &mut next.described);
        }
    }

    /// Moves a `fifo` partition past tasks that have nothing to run, and says whose turn it is.
    fn whose_turn(partition: &mut Partition, best_effort: bool, cx: &mut Context<'_>) -> Option<TaskId> {
        while let Some(task) = partition.current() {
            let idle = cx.job(task).is_none() && !cx.is_gone(task);
            if best_effort && idle {
                if cx.drawn_budget(task, cx.next_job(task)) > Span::ZERO {
                    cx.activate(task, None);
                } else {
                    cx.pass_activation(task);
                }
            }
            if cx.job(task).is_some() {
                return Some(task);
            }
            if best_effort {
                cx.miss_activation(task, None);
            }
            partition.advance();
        }
        None
    }

    /// Lets a partition run in a slice; `false` when it has nothing to run.
    fn run(
        &mut self,
        partition: usize,
        slice: (usize, usize),
        best_effort: bool,
        cx: &mut Context<'_>,
        decision: &mut Decision,
    ) -> bool {
        let slice = &self.table.windows[slice.0].slices[slice.1];
        let partition = &mut self.partitions[partition];
        if let Some(guest) = &mut partition.guest {
            let before = decision.assignments().len();
            guest.decide(&slice.lent, cx, decision);
            return decision.assignments().len() > before;
        }
        let Some(task) = Self::whose_turn(partition, best_effort, cx) else { return false };
        if !cx.is_ready(task) {
            // Blocked: it is still its turn, and the slice waits for it.
            return true;
        }
        if cx.budget_left(task).is_some() {
            decision.run(task, slice.place);
        } else {
            let job = cx.job(task).expect("it is its turn").number;
            let budget = Budget { amount: cx.drawn_budget(task, job), clock: Clock::Elapsed };
            decision.run_with(task, slice.place, budget);
        }
        true
    }
}

/// By partition all CPUs that it is ever lent. O(partitions + slices).
fn reach(windows: &[model::Window], partitions: usize) -> Vec<CpuSet> {
    let mut reach = vec![CpuSet::EMPTY; partitions];
    for slice in windows.iter().flat_map(|w| &w.slices) {
        for partition in [slice.sc, slice.be].into_iter().flatten() {
            let all = &mut reach[partition.index()];
            *all = all.union(&slice.cpus);
        }
    }
    reach
}

impl Policy for Windows {
    fn start(&mut self, cx: &mut Context<'_>) {
        for partition in &mut self.partitions {
            if let Some(guest) = &mut partition.guest {
                guest.start(cx);
            }
        }
        let windows = &self.table.windows;
        let frame = windows.iter().fold(Span::ZERO, |sum, w| sum + w.length);
        self.frame = (cx.now().ns() / frame.ns()) as u64;
        self.current = 0;
        self.end = Time::ZERO + frame * self.frame as i64 + windows[0].length;
        while self.end <= cx.now() {
            self.current += 1;
            self.end += windows[self.current].length;
        }
        // A driver that comes late to the very start has lost windows, too.
        let lost = self.frame * windows.len() as u64 + self.current as u64;
        if lost > 0 {
            cx.windows_lost(lost);
        }
        self.open(cx);
    }

    fn event(&mut self, event: &Event, cx: &mut Context<'_>) {
        if let Event::Timer { timer, .. } = *event {
            if timer == self.timer {
                self.close(cx);
                self.advance(cx);
            } else {
                let owner = self.partitions.iter_mut().rfind(|p| p.guest.is_some() && p.first_timer <= timer);
                if let Some(guest) = owner.and_then(|p| p.guest.as_mut()) {
                    guest.event(event, cx);
                }
            }
            return;
        }
        let Some(task) = event.task() else { return };
        let Some(partition) = self.partition_of[task.index()].map(|p| &mut self.partitions[p]) else { return };
        if let Some(guest) = &mut partition.guest {
            guest.event(event, cx);
            return;
        }
        let over = match event {
            Event::Finish { .. } => true,
            Event::BudgetExpired { .. } => {
                cx.finish(task, Outcome::BudgetUsed);
                true
            }
            _ => false,
        };
        if over && partition.current() == Some(task) {
            partition.advance();
        }
    }

    fn decide(&mut self, _: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        let window = self.current;
        let slices = self.table.windows[window].slices.len();
        self.table.busy.clear();
        for slice in 0..slices {
            let sc = self.table.windows[window].slices[slice].sc;
            let busy = sc.is_some_and(|sc| self.run(sc, (window, slice), false, cx, decision));
            self.table.busy.push(busy);
        }
        let all_done = !self.table.busy.contains(&true);
        for slice in 0..slices {
            let Some(be) = self.table.windows[window].slices[slice].be else { continue };
            let slice_done = self.table.be_start == BestEffortStart::SliceDone && !self.table.busy[slice];
            if all_done || slice_done {
                self.run(be, (window, slice), true, cx, decision);
            }
        }
    }

    fn timers(&self) -> u16 {
        self.timers
    }

    fn meters(&self) -> bool {
        self.partitions.iter().filter_map(|p| p.guest.as_ref()).any(|guest| guest.meters())
    }

    fn admits(&self, task: TaskId, terms: &Terms, cx: &Context<'_>) -> bool {
        let partition = self.partition_of[task.index()].map(|p| &self.partitions[p]);
        partition.and_then(|p| p.guest.as_ref()).is_none_or(|guest| guest.admits(task, terms, cx))
    }

    fn prepare_table(&self, to: u16, system: &System, places: &[CpuSet]) -> Result<PreparedTable, Invalid> {
        let described = system.tables.get(usize::from(to)).ok_or(Invalid::Unsuitable("there is no such table"))?;
        system.check_table(described)?;
        let (before, after) =
            (reach(&system.windows, self.partitions.len()), reach(&described.windows, self.partitions.len()));
        let moved = |((partition, before), after): ((&Partition, &CpuSet), &CpuSet)| {
            partition.guest.is_some() && before != after
        };
        if self.partitions.iter().zip(&before).zip(&after).any(moved) {
            return Err(Invalid::Unsuitable("a partition with a policy of its own keeps its CPUs"));
        }
        let table = Table::new(&described.windows, described.be_start, system.cpus, places)?;
        Ok(PreparedTable::new(to, table, described.clone()))
    }

    fn replace_table(&mut self, next: PreparedTable) -> Result<Option<PreparedTable>, PreparedTable> {
        Ok(self.other.replace(next))
    }

    fn table(&mut self, to: u16, cx: &mut Context<'_>) {
        if let Ok(next) = self.prepare_table(to, cx.system(), cx.places()) {
            self.other = Some(next);
        }
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "windows",
        summary: "static window table over partitions (DEmOS, ARINC 653)",
        scopes: &[Scope::Table],
        needs: &[],
        facts: &[Fact::Hosts(Hosts::Windows)],
        test: CpuTest::Utilisation,
        settings: &[],
    },
    manual: manual!(
        "\
Time is cut into windows of fixed length that repeat as a major frame. A window has slices, each a CPU set with at most one
safety-critical (SC) and one best-effort (BE) partition.

An SC partition starts from its first process in each window. Each process runs until its budget is used or it signals
completion; then comes the next. A process that still runs at the end of the window is stopped and reported as an overrun. BE
partitions start when the SC partitions of the window are done (`be_start: all`) or when that of their own slice is
(`be_start: slice`). They are cut off at the end of the window. In their next window they continue with the interrupted
process and its remaining budget. Each process has at most one activation per window. Budgets are elapsed time.

The jobs of a partition with a `policy:` are scheduled by that policy inside its slices. On the SC side, the BE side runs
whenever the partition has no ready job.

Another table can take over while the system runs, at the end of a major frame: its windows, the partitions in them and the
budgets of processes may differ. The new frame begins where the old one ends, so no window is missed and none is doubled. A
best-effort process that was cut off continues with its remaining budget in the new table.

**When.** Isolation in time matters more than the last percent of the CPU, and the schedule must be known beforehand.

**Cost.** O(slices) per decision.

**Source.** The DEmOS thesis, Czech Technical University in Prague, chapter 3; ARINC 653 part 1.

**Example.** `windows: [{length: 100, slices: [{cpu: 0, sc_processes: [{cmd: ./control, budget: 40}], be_processes: [./log]}]}]`"
    ),
    build: |build| Ok(Box::new(Windows::new(build)?)),
};
