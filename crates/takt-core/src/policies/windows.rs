//! The static window table: a major frame of time windows over partitions, after DEmOS and ARINC 653.
//!
//! The DEmOS thesis (a static scheduler for Linux user space, Czech Technical University in Prague), sections 3.2 and 3.5.
//! Invariant: outside its slices a partition does not run, whatever happens inside it.
//!
//! With `rules: demos` activations begin and end as in the DEmOS program at its commit a70ef526, which differs from the thesis and from
//! Takt (`docs/demos.md`, Rules). Its budgets come from one generator in the order of the activations, so this
//! policy draws them itself.
//!
//! These rules are a property of the table and not a second policy, because the invariant and most of the code are the same. The
//! generator MT19937 is state of this policy, so a replay makes the same draws. Its forty lines are fixed by the C++ standard, and the
//! core depends on no library. `crates/takt-sim/tests/demos_model.rs` compares schedules of random tables with a second account of
//! DEmOS's algorithm. Activations are released when they begin, because a draw of zero must leave no job. So response times exclude
//! the wait within the window.
//!
//! Another table is swapped in place at the end of the major frame. The old one returns with the next change, so nothing is freed at
//! the border.

use super::mersenne::Mt19937;
use crate::cpus::CpuSet;
#[cfg(feature = "power")]
use crate::model::PartitionId;
use crate::model::{
    self, Arrival, BestEffortStart, CpuTest, Fact, Hosts, Invalid, Profile, Scope, System, TableRules, Task, TaskId,
    Terms,
};
#[cfg(feature = "power")]
use crate::policy::Side;
use crate::policy::{Budget, Build, Clock, Context, Decision, Entry, Event, Policy, PreparedTable, Table};
use crate::record::{Outcome, Place};
use crate::time::{Span, Time};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// A [`Place`] is a number of 16 bits, of which the last one stays free: a count of places must not wrap around.
const MOST_PLACES: usize = u16::MAX as usize;

/// DEmOS's unit of budgets. Less than that is no budget.
const UNIT: Span = Span::from_ms(1);

/// A partition and what has become of it in the current window.
struct Partition {
    tasks: Vec<TaskId>,
    /// The policy inside; `None` is `fifo`.
    guest: Option<Box<dyn Policy>>,
    first_timer: u16,
    /// The task whose turn it is under `fifo`.
    cursor: usize,
    /// How many tasks have had their turn in this window; each has at most one.
    served: usize,
    /// The state of the present activation under DEmOS's rules.
    demos: Present,
}

/// The present activation of a partition under DEmOS's rules.
#[derive(Clone, Copy, Default)]
struct Present {
    /// The budget that was drawn for it, until it begins.
    drawn: Option<Span>,
    /// When its budget ends, from its beginning to the end of the window.
    end: Option<Time>,
    /// Its process has ended: its slice stays idle until the budget ends.
    vacant: bool,
}

impl Partition {
    /// Whether no policy schedules inside.
    fn is_fifo(&self) -> bool {
        self.guest.is_none()
    }
    fn current(&self) -> Option<TaskId> {
        (self.served < self.tasks.len()).then(|| self.tasks[self.cursor])
    }
    fn advance(&mut self) {
        self.cursor = (self.cursor + 1) % self.tasks.len();
        self.served += 1;
        self.demos = Present::default();
    }

    /// The end of a window under DEmOS's rules: the remainder of a best-effort activation is rounded down to whole milliseconds, and
    /// less than one is none. The remainder of an earlier best-effort activation also outlasts a window in which the partition is
    /// safety-critical and the process does not get a CPU.
    fn close_demos(&mut self, best_effort: bool, end: Time, cx: &mut Context<'_>) {
        let Present { vacant, end: began, .. } = core::mem::take(&mut self.demos);
        let mut reached = self.served;
        if vacant {
            self.advance();
            reached += 1;
        } else if let Some(task) = self.current().filter(|task| began.is_some() && cx.job(*task).is_some()) {
            reached += 1;
            let left = cx.budget_left(task).map_or(Span::ZERO, |left| left - Span::from_ns(left.ns() % UNIT.ns()));
            if left < UNIT {
                cx.finish(task, Outcome::BudgetUsed);
                self.advance();
            } else if best_effort {
                cx.replenish(task, Budget { amount: left, clock: Clock::Elapsed });
            } else {
                cx.finish(task, Outcome::Overrun);
            }
        }
        if best_effort {
            return;
        }
        for &task in self.tasks.iter().skip(reached) {
            if cx.is_gone(task) {
                cx.miss_activation(task, Some(end));
            } else if cx.job(task).is_none() {
                cx.activate(task, Some(end));
                cx.finish(task, Outcome::Overrun);
            } else if cx.budget_left(task).is_none() {
                cx.finish(task, Outcome::Overrun);
            }
        }
    }
}

/// DEmOS's draw of a budget: whole milliseconds from `budget - jitter / 2` on. It draws for each activation, also without a jitter.
fn draw(generator: &mut Mt19937, task: &Task) -> Span {
    let jitter = task.jitter.ns() / UNIT.ns();
    let drawn = generator.up_to(u32::try_from(jitter).unwrap_or(u32::MAX));
    let budget = task.budget.unwrap_or(Span::MAX).ns() / UNIT.ns();
    Span::from_ms(budget - jitter / 2 + i64::from(drawn))
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
    /// The generator of all budgets under DEmOS's rules.
    demos: Option<Mt19937>,
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
        let demos = (system.rules == TableRules::Demos).then(|| Mt19937::new(system.seed as u32));
        // The second one ends activations whose processes have ended.
        let mut timers = 1 + u16::from(demos.is_some());
        for (index, partition) in system.partitions.iter().enumerate() {
            for &task in &partition.tasks {
                if partition_of[task.index()].replace(index).is_some() {
                    return Err(Invalid::Unsuitable("a task is listed twice in the partitions"));
                }
                // The releases of jobs: `fifo` makes them itself, a policy of its own expects the engine to.
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
            let demos = Present::default();
            partitions.push(Partition { tasks, guest, first_timer, cursor: 0, served: 0, demos });
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
            demos,
        })
    }

    /// Opens the current window, which ends at `self.end`.
    fn open(&mut self, cx: &mut Context<'_>) {
        cx.window(self.current as u32, self.frame);
        #[cfg(feature = "power")]
        self.table.sides.fill(Side::default());
        cx.set_border(self.timer, self.end);
        let Windows { table, partitions, current, end, demos, .. } = self;
        for slice in &table.windows[*current].slices {
            for partition in [slice.sc, slice.be].into_iter().flatten() {
                partitions[partition].served = 0;
            }
            let Some(sc) = slice.sc.map(|p| &mut partitions[p]).filter(|p| p.is_fifo()) else { continue };
            sc.cursor = 0;
            // DEmOS draws a budget when the activation begins.
            if demos.is_some() {
                continue;
            }
            for &task in &sc.tasks {
                if cx.job(task).is_some() {
                    // It was left over from a window in which its partition was best-effort; the budget starts again.
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
        #[cfg(feature = "power")]
        cx.tell_power(crate::power::Event::WindowEnd { window: self.current as u32 });
        if self.demos.is_some() {
            let Windows { table, partitions, current, end, .. } = self;
            for slice in &table.windows[*current].slices {
                for (partition, best_effort) in [(slice.sc, false), (slice.be, true)] {
                    let partition = partition.map(|p| &mut partitions[p]).filter(|p| p.is_fifo());
                    if let Some(partition) = partition {
                        partition.close_demos(best_effort, *end, cx);
                    }
                }
            }
            cx.cancel_timer(self.timer + 1);
            return;
        }
        for slice in &self.table.windows[self.current].slices {
            let Some(sc) = slice.sc.map(|p| &self.partitions[p]).filter(|p| p.is_fifo()) else { continue };
            for &task in &sc.tasks {
                if cx.job(task).is_some() {
                    cx.finish(task, Outcome::Overrun);
                }
            }
        }
    }

    /// Continues to the next window. When the driver comes after that window's end, windows are lost: the schedule stays on
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

    /// Moves a `fifo` partition past tasks that have nothing to run, and says whose turn it is. A safety-critical one has a deadline.
    fn whose_turn(
        partition: &mut Partition,
        deadline: Option<Time>,
        demos: &mut Option<Mt19937>,
        cx: &mut Context<'_>,
    ) -> Option<TaskId> {
        // Other safety-critical activations began with their window.
        let begins = deadline.is_none() || demos.is_some();
        while let Some(task) = partition.current() {
            let idle = cx.job(task).is_none() && !cx.is_gone(task);
            if begins && idle {
                let drawn = demos.as_mut().map(|generator| draw(generator, cx.task(task)));
                if drawn.unwrap_or_else(|| cx.drawn_budget(task, cx.next_job(task))) > Span::ZERO {
                    cx.activate(task, deadline);
                    partition.demos.drawn = drawn;
                } else {
                    cx.pass_activation(task);
                }
            }
            if cx.job(task).is_some() {
                return Some(task);
            }
            if begins {
                cx.miss_activation(task, deadline);
            }
            partition.advance();
        }
        None
    }

    /// Ends the activations of processes that have ended, where their budgets have.
    fn end_vacant(&mut self, cx: &mut Context<'_>) {
        let Windows { table, partitions, current, .. } = self;
        for slice in &table.windows[*current].slices {
            for partition in [slice.sc, slice.be].into_iter().flatten() {
                let Present { vacant, end, .. } = partitions[partition].demos;
                if vacant && end.is_none_or(|end| end <= cx.now()) {
                    partitions[partition].advance();
                }
            }
        }
        self.await_vacant(cx);
    }

    /// Sets the timer for the next such end.
    fn await_vacant(&self, cx: &mut Context<'_>) {
        let slices = self.table.windows[self.current].slices.iter().flat_map(|slice| [slice.sc, slice.be]);
        let present = slices.flatten().map(|partition| self.partitions[partition].demos);
        match present.filter(|present| present.vacant).filter_map(|present| present.end).min() {
            Some(end) => cx.set_border(self.timer + 1, end),
            None => cx.cancel_timer(self.timer + 1),
        }
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
        if partition.demos.vacant {
            return true;
        }
        let deadline = (!best_effort).then_some(self.end);
        let Some(task) = Self::whose_turn(partition, deadline, &mut self.demos, cx) else { return false };
        if !cx.is_ready(task) {
            // Blocked: it is still its turn, and the slice waits for it.
            return true;
        }
        let amount = if let Some(left) = cx.budget_left(task) {
            decision.run(task, slice.place);
            left
        } else {
            let job = cx.job(task).expect("it is its turn").number;
            let amount = partition.demos.drawn.take().unwrap_or_else(|| cx.drawn_budget(task, job));
            #[cfg(feature = "power")]
            let amount = if best_effort { amount } else { cx.scaled_budget(slice.place, amount) };
            decision.run_with(task, slice.place, Budget { amount, clock: Clock::Elapsed });
            amount
        };
        if self.demos.is_some() {
            partition.demos.end.get_or_insert(cx.now() + amount);
        }
        true
    }
}

#[cfg(feature = "power")]
impl Windows {
    /// Tells the power policy which side of a slice runs, and asks it whether a best-effort partition may start. Returns whether the
    /// best-effort side runs.
    fn enter_side(&mut self, (window, slice): (usize, usize), be_side: bool, cx: &mut Context<'_>) -> bool {
        use crate::power::Event;
        let of = &self.table.windows[window].slices[slice];
        let (place, be) = (of.place, of.be);
        let (index, number) = (window as u32, slice as u16);
        let side = self.table.sides[slice];
        let critical = self.table.busy[slice];
        if !critical && !be_side {
            return false;
        }
        if side.critical != Some(critical) {
            self.table.sides[slice].critical = Some(critical);
            cx.tell_power(match critical {
                true => Event::SafetyCriticalStart { window: index, slice: number, place },
                false => Event::BestEffortStart { window: index, slice: number, place },
            });
        }
        if critical {
            return false;
        }
        if side.may_start.is_none()
            && let Some(be) = be.filter(|be| self.has_something(*be, cx))
        {
            let may = cx.may_start(PartitionId(be as u32), index);
            self.table.sides[slice].may_start = Some(may);
        }
        self.table.sides[slice].may_start != Some(false)
    }

    /// Whether a best-effort partition has something that could start now.
    fn has_something(&self, partition: usize, cx: &Context<'_>) -> bool {
        let partition = &self.partitions[partition];
        match partition.is_fifo() {
            true => partition.current().is_some() && !partition.tasks.iter().all(|task| cx.is_gone(*task)),
            false => partition.tasks.iter().any(|task| cx.is_ready(*task)),
        }
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
            } else if self.demos.is_some() && timer == self.timer + 1 {
                self.end_vacant(cx);
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
        let ended = self.demos.is_some() && cx.is_gone(task) && partition.current() == Some(task);
        let over = match event {
            Event::Finish { .. } if ended && partition.demos.end.is_some_and(|end| end > cx.now()) => {
                partition.demos.vacant = true;
                self.await_vacant(cx);
                return;
            }
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
            let slice_done = self.table.be_start == BestEffortStart::SliceDone && !self.table.busy[slice];
            let be_side = all_done || slice_done;
            #[cfg(feature = "power")]
            if cx.has_power() && !self.enter_side((window, slice), be_side, cx) {
                continue;
            }
            let Some(be) = self.table.windows[window].slices[slice].be.filter(|_| be_side) else { continue };
            self.run(be, (window, slice), true, cx, decision);
        }
    }

    #[cfg(feature = "power")]
    fn idle_until(&self, cpu: Place, cx: &Context<'_>) -> Option<Time> {
        let lends = |slice: &&crate::policy::TableSlice| slice.lent.contains(&cpu);
        let count = self.table.windows.len();
        // The partitions of the present window that may still run here.
        let present = self.table.windows[self.current].slices.iter().position(|slice| slice.lent.contains(&cpu));
        if let Some(index) = present {
            let slice = &self.table.windows[self.current].slices[index];
            let be = slice.be.filter(|_| self.table.sides[index].may_start != Some(false));
            let over = |partition: usize| {
                let partition = &self.partitions[partition];
                partition.is_fifo()
                    && partition.current().is_none_or(|_| partition.tasks.iter().all(|t| cx.is_gone(*t)))
            };
            if ![slice.sc, be].into_iter().flatten().all(over) {
                return None;
            }
        }
        // A table that waits may bring anything at the end of the frame.
        let waits = self.other.as_ref().is_some_and(|next| next.0.waits);
        let mut until = self.end;
        for step in 1..count {
            let index = (self.current + step) % count;
            let next = &self.table.windows[index];
            let used = next.slices.iter().filter(lends).any(|slice| slice.sc.is_some() || slice.be.is_some());
            if used || index == 0 && waits {
                break;
            }
            until += next.length;
        }
        Some(until)
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

With `rules: demos` activations follow the DEmOS program. Budgets are whole milliseconds, drawn by one generator (MT19937) when an
activation begins. A process that ends leaves the rest of its budget unused. The remainder of a best-effort activation is rounded
down, and also holds when its partition is safety-critical next.

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
