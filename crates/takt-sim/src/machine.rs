//! The simulated machine: it carries out the engine's commands and says when jobs reach what they do next.
//!
//! A job that holds a CPU first pays the overheads that it was charged and then makes progress with its present step. What
//! was charged is paid once and in full: a job that is preempted meanwhile pays the rest when it continues. Only the end of the
//! job cancels it.

use crate::board::Board;
use crate::entries::{Entries, Entry};
use crate::report::{CpuTime, Report, TaskTime};
use crate::steal::Progress;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use takt_core::engine::{Activity, Carrier, Command, Engine, Input, Seen};
use takt_core::model::{Arrival, Completion, Execution, Load, OnAbort, Step, Task, TaskId, scaled};
use takt_core::record::{JobId, Place};
use takt_core::scenario::{Costs, Scenario};
use takt_core::time::{Span, Time};
use takt_core::work::{Speed, Work};

/// A task's current job.
#[derive(Clone, Copy)]
struct Body {
    /// The debt that is paid before progress.
    overhead: Span,
    /// The remaining work of the present step; [`Work::MAX`] for ever.
    left: Work,
    /// Accounted for up to here while it runs.
    since: Time,
    /// Where it runs, or ran last; before that the first CPU of its ready queue.
    place: Place,
    /// A sleep of its own has not ended.
    asleep: bool,
    /// It was stopped in favour of another and has not run since.
    preempted: bool,
    /// Blocked from outside: its jobs block whenever they could continue.
    held: bool,
    /// Its jobs need what is declared and do nothing but that.
    plain: bool,
    time: TaskTime,
    /// The steps that come next, as indexes into [`Machine::steps`].
    next: u32,
    end: u32,
    /// The program's steps, without a wait at their end.
    all: (u32, u32),
    /// Where the steps of its last job ended: the next job continues after that, whether they were done or not.
    turn: u32,
    /// The factor on what its job's steps need.
    load: u32,
    job: JobId,
    meter: Meter,
}

/// The reading of a meter: the work of a job without the costs that it pays.
#[derive(Clone, Copy, Default)]
struct Meter {
    job: JobId,
    used: Work,
    /// The last reading that the engine has.
    known: Work,
}

impl Body {
    /// It has worked so long until `now`, at this speed.
    #[inline]
    fn advance(&mut self, now: Time, worked: Span, speed: Speed) {
        if self.left != Work::MAX {
            self.left -= speed.work_in(worked);
        }
        self.time.received += now - self.since;
        self.time.worked += worked;
        self.since = now;
    }

    /// The program of a task before its first job; its steps are added to those of the others.
    fn new(task: &Task, steps: &mut Vec<Step>) -> Body {
        let described = &task.program.steps;
        let first = steps.len() as u32;
        let last = described.last().is_some_and(|step| *step == Step::WaitPeriod);
        steps.extend_from_slice(&described[..described.len() - usize::from(last)]);
        Body {
            overhead: Span::ZERO,
            left: Work::ZERO,
            since: Time::ZERO,
            place: Place(0),
            time: TaskTime::default(),
            next: 0,
            end: 0,
            all: (first, steps.len() as u32),
            turn: steps.len() as u32,
            load: Load::ONE,
            job: 0,
            meter: Meter::default(),
            asleep: false,
            preempted: false,
            held: false,
            plain: task.program.execution == Execution::Declared
                && task.completion != Completion::None
                && first as usize == steps.len(),
        }
    }

    /// It cannot make progress, so that its job blocks whenever it is dispatched.
    #[inline]
    fn stuck(&self) -> bool {
        self.held | self.asleep
    }
}

/// A place on which tasks run.
#[derive(Clone, Copy)]
struct Slot {
    /// When the job that runs there acts; [`Time::MAX`] if none does.
    at: Time,
    task: Option<TaskId>,
}

/// The source of a task's events.
struct Source {
    task: TaskId,
    arrival: Arrival,
    /// The number of its next event.
    event: u64,
}

const EMPTY: Slot = Slot { at: Time::MAX, task: None };

pub(crate) struct Machine {
    bodies: Vec<Body>,
    /// The numbers at which inputs may add tasks.
    free: Vec<TaskId>,
    /// By place.
    slots: Vec<Slot>,
    /// Wake-ups of sleeping jobs, the next one last.
    sleepers: Vec<(Time, TaskId)>,
    steps: Vec<Step>,
    changes: Vec<(Time, Input)>,
    next_change: usize,
    sources: Vec<Source>,
    /// The next event of each source, and its index.
    events: BinaryHeap<Reverse<(Time, usize)>>,
    /// The earliest instant of `slots` and the first slot that has it, unless that slot has changed since.
    first: Time,
    first_slot: usize,
    first_changed: bool,
    /// When the next of the sleepers wakes, the next change comes, or the next source has an event.
    others: Time,
    progress: Progress,
    costs: Costs,
    /// Whether anything costs anything.
    charges: bool,
    /// Whether inputs of usage have the work of jobs without the costs that they pay.
    metered: bool,
    /// By place; empty if all have the nominal one.
    speeds: Vec<Speed>,
    /// Whether who holds a CPU always makes progress at nominal speed: nothing is charged and nothing stolen.
    smooth: bool,
    /// For each place the indexes of its CPUs; the first places are the single CPUs.
    place_cpus: Vec<Vec<u16>>,
    /// The task that ran last on each CPU; kept only when something costs something.
    last: Vec<Option<TaskId>>,
    /// Kept only for several CPUs or when something costs something: on one CPU each step is a run of its scheduler.
    entries: Option<Entries>,
    /// Frequencies, power and temperatures, where the scenario has them.
    board: Option<Box<Board>>,
    /// Scratch: what entries into the scheduler cost.
    bills: Vec<Entry>,
    /// Scratch: who acts now.
    acting: Vec<TaskId>,
    /// The instant of the present step, where commands are carried out in its middle.
    now: Time,
    report: Report,
}

/// Carries out each command in the middle of the step, where [`Machine::is_direct`].
impl Carrier for Machine {
    const LISTS: bool = false;
    #[inline(always)]
    fn due(&mut self, task: TaskId) {
        self.acts_on(task);
    }
    #[inline(always)]
    fn stop(&mut self, task: TaskId, place: Place) {
        self.stop_task::<true>(task, self.now);
        self.entered(|entries| entries.leave(place));
    }
    #[inline(always)]
    fn start(&mut self, task: TaskId, place: Place, work: Activity, seen: Seen<'_>) {
        self.start_task::<true>(task, place, work, self.now, seen);
        self.entered(|entries| entries.take(place));
    }
    #[inline(never)]
    fn other(&mut self, command: Command, seen: Seen<'_>) {
        self.carry_out(command, self.now, seen);
    }
}

impl Machine {
    pub(crate) fn new(engine: &Engine, scenario: &Scenario) -> Machine {
        let system = engine.system();
        let (n, m) = (system.tasks.len(), system.cpus.len());
        let mut steps = Vec::new();
        let bodies: Vec<Body> = system.tasks.iter().map(|task| Body::new(task, &mut steps)).collect();
        let indexes = |place: &takt_core::cpus::CpuSet| {
            system.cpus.iter().enumerate().filter(|(_, cpu)| place.contains(*cpu)).map(|(i, _)| i as u16).collect()
        };
        let place_cpus: Vec<Vec<u16>> = engine.places().iter().map(indexes).collect();
        let charges = scenario.costs != Costs::default();
        let speeds: Vec<Speed> = (0..engine.places().len()).map(|place| engine.speed(Place(place as u16))).collect();
        let speeds = if speeds.iter().all(|speed| *speed == Speed::NOMINAL) { Vec::new() } else { speeds };
        let progress = Progress::new(scenario.steal);
        let source = |(task, arrival): &(TaskId, Arrival)| Source { task: *task, arrival: arrival.clone(), event: 0 };
        let first = |(index, (_, arrival)): (usize, &(TaskId, Arrival))| Some(Reverse((arrival.first()?, index)));
        let mut machine = Machine {
            bodies,
            free: system.removed.clone(),
            slots: vec![EMPTY; engine.places().len()],
            sleepers: Vec::with_capacity(n),
            steps,
            changes: scenario.changes.clone(),
            next_change: 0,
            sources: scenario.events.iter().map(source).collect(),
            events: scenario.events.iter().enumerate().filter_map(first).collect(),
            first: Time::MAX,
            first_slot: 0,
            first_changed: false,
            others: Time::MAX,
            smooth: !charges && progress.is_steady() && speeds.is_empty() && scenario.machine.is_none(),
            board: scenario.machine.as_ref().map(|(platform, model)| Box::new(Board::new(engine, platform, model))),
            speeds,
            progress,
            costs: scenario.costs,
            charges,
            metered: scenario.metered && charges,
            last: vec![None; m],
            entries: (charges || m > 1).then(|| Entries::new(m, &place_cpus, scenario.deciding, charges)),
            place_cpus,
            bills: Vec::with_capacity(m),
            acting: Vec::with_capacity(n.min(m)),
            now: Time::ZERO,
            report: Report {
                steps: 0,
                scheduler_runs: 0,
                interrupts: 0,
                blocked_entries: 0,
                charged: Costs::default(),
                cpus: vec![CpuTime::default(); m],
                tasks: vec![TaskTime::default(); n],
                power: None,
            },
        };
        machine.regroup(engine);
        machine.note_others();
        machine
    }

    /// Another policy has taken over, and a task may have been added: its program is new, even if its number is not.
    pub(crate) fn taken_over(&mut self, added: Option<TaskId>, engine: &Engine) {
        if let Some(task) = added {
            let body = Body::new(&engine.system().tasks[task.index()], &mut self.steps);
            if task.index() < self.bodies.len() {
                self.give_up(task);
                // The report adds up the times of all tasks of this number.
                let before = core::mem::replace(&mut self.bodies[task.index()], body);
                self.report.tasks[task.index()] += before.time;
            } else {
                self.bodies.push(body);
                self.report.tasks.push(TaskTime::default());
            }
        }
        self.regroup(engine);
    }

    /// The programs of tasks that inputs of the engine's step have added are new.
    fn take_added(&mut self, engine: &Engine, inputs: &[Input]) {
        for input in inputs {
            if let Input::Add { task, .. } = *input
                && let Some(at) = self.free.iter().position(|free| *free == task)
                && !engine.system().is_removed(task)
            {
                self.free.remove(at);
                self.taken_over(Some(task), engine);
            }
        }
    }

    /// Finds out which CPUs share a ready queue, and where a task belongs that has not run.
    fn regroup(&mut self, engine: &Engine) {
        let Some(entries) = &mut self.entries else { return };
        let homes = entries.regroup(engine);
        for (body, home) in self.bodies.iter_mut().zip(homes) {
            if body.time.received == Span::ZERO && self.slots[body.place.index()].task.is_none() {
                body.place = Place(home);
            }
        }
    }

    /// When something happens that the engine does not know of. O(m).
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Time {
        if let [only] = &*self.slots {
            return only.at.min(self.others);
        }
        if core::mem::take(&mut self.first_changed) {
            let mut first = (Time::MAX, 0);
            for (index, slot) in self.slots.iter().enumerate() {
                // Without a branch that depends on the instants.
                first = core::hint::select_unpredictable(slot.at < first.0, (slot.at, index), first);
            }
            (self.first, self.first_slot) = first;
        }
        self.first.min(self.others)
    }

    /// The job whose completion is all that happens at [`Machine::next`].
    #[inline(always)]
    pub(crate) fn only_completion(&self) -> Option<Input> {
        let (slot, behind) = match &*self.slots {
            [only] => (only, &[][..]),
            // No earlier slot has that instant.
            slots => (slots.get(self.first_slot)?, &slots[self.first_slot + 1..]),
        };
        let task = slot.task?;
        let body = &self.bodies[task.index()];
        let completes = self.others > slot.at && body.next == body.end && !body.stuck();
        let alone = completes && behind.iter().all(|other| other.at > slot.at);
        alone.then_some(Input::Complete { task, job: body.job })
    }

    /// When something is due that the engine knows of. With a meter a budget ends when its job has used it up, and what the job pays comes before.
    #[inline]
    pub(crate) fn due(&self, engine: &Engine) -> Time {
        let earliest = if self.metered { self.earliest_budget(engine) } else { None };
        earliest.map_or_else(|| engine.next_due(), |at| engine.next_due_with_budgets_from(at)).unwrap_or(Time::MAX)
    }

    #[cold]
    fn earliest_budget(&self, engine: &Engine) -> Option<Time> {
        let end = |task: TaskId| {
            let Body { overhead, since, place, meter, .. } = self.bodies[task.index()];
            let left = Work::nominal(engine.budget_noticed_in(task)?) - (meter.used - meter.known);
            let lasts = self.speed(place).time_for(left.max(Work::ZERO));
            Some(self.progress.done(since, overhead + lasts))
        };
        let running = self.slots.iter().filter_map(|slot| slot.task);
        running.filter(|task| engine.wants_usage(*task)).filter_map(end).min()
    }

    /// The readings of all meters at `now`, as the first inputs of a step.
    #[inline]
    pub(crate) fn measure(&mut self, now: Time, engine: &Engine, inputs: &mut Vec<Input>) {
        if self.metered {
            self.read_meters(now, engine, inputs);
        }
    }

    #[cold]
    fn read_meters(&mut self, now: Time, engine: &Engine, inputs: &mut Vec<Input>) {
        for place in 0..self.slots.len() {
            let Some(task) = self.slots[place].task else { continue };
            let meter = &mut self.bodies[task.index()].meter;
            let job = engine.job_number(task).unwrap_or(meter.job);
            if meter.job != job {
                *meter = Meter { job, ..Meter::default() };
            }
            self.account(task, now);
            if engine.wants_usage(task) {
                inputs.push(Input::Usage { task, consumed: self.bodies[task.index()].meter.used });
            }
        }
    }

    /// When the job on a place acts, from now on.
    #[inline(always)]
    fn set_slot(&mut self, place: Place, slot: Slot) {
        if let [only] = &mut *self.slots {
            *only = slot;
            return;
        }
        let before = core::mem::replace(&mut self.slots[place.index()], slot);
        // Among several slots with the same instant the first one is known.
        self.first_changed |= (before.at == self.first) | (slot.at == self.first);
        if slot.at < self.first {
            (self.first, self.first_slot) = (slot.at, place.index());
        }
    }

    /// The inputs of the engine at `now`, in this order: jobs that complete, in the order of their tasks, each with the unlocks
    /// and yields that it ends with; what other jobs do, one thing each; wake-ups of jobs that sleep, in the order of instants
    /// and tasks; the scenario's changes.
    #[inline(always)]
    pub(crate) fn inputs(&mut self, now: Time, engine: &Engine, inputs: &mut Vec<Input>) {
        let (mut due, mut several) = (None, self.others <= now);
        for slot in &self.slots {
            if slot.at <= now {
                several |= due.is_some();
                due = slot.task;
            }
        }
        if let Some(task) = due.filter(|_| !several) {
            let body = &self.bodies[task.index()];
            if body.next == body.end && !body.stuck() {
                inputs.push(Input::Complete { task, job: body.job });
                return;
            }
        }
        self.many_inputs(now, engine, inputs);
    }

    #[inline(never)]
    pub(crate) fn many_inputs(&mut self, now: Time, engine: &Engine, inputs: &mut Vec<Input>) {
        let due = self.slots.iter().filter(|slot| slot.at <= now);
        self.acting.clear();
        self.acting.extend(due.filter_map(|slot| slot.task));
        if self.acting.len() > 1 {
            self.acting.sort_unstable();
        }
        let mut others = false;
        for index in 0..self.acting.len() {
            let task = self.acting[index];
            let body = &mut self.bodies[task.index()];
            let rest = self.steps.get(body.next as usize..body.end as usize).unwrap_or_default();
            if !body.stuck() && rest.iter().all(|step| matches!(step, Step::Unlock(_) | Step::Yield | Step::Call(_))) {
                for step in rest {
                    inputs.push(match *step {
                        Step::Unlock(resource) => Input::Unlock { task, resource },
                        Step::Call(call) => Input::Call { task, call },
                        _ => Input::Yield { task },
                    });
                }
                body.next = body.end;
                inputs.push(Input::Complete { task, job: body.job });
            } else {
                others = true;
            }
        }
        if others {
            for index in 0..self.acting.len() {
                let task = self.acting[index];
                let body = &self.bodies[task.index()];
                if body.next != body.end || body.stuck() {
                    self.act(task, now, engine, inputs);
                }
            }
        }
        if self.others <= now {
            self.others(now, engine, inputs);
        }
    }

    /// Wake-ups, changes and events.
    fn others(&mut self, now: Time, engine: &Engine, inputs: &mut Vec<Input>) {
        if let Some(board) = &mut self.board {
            board.inputs(now, inputs);
        }
        while self.sleepers.last().is_some_and(|(at, _)| *at <= now) {
            let (_, task) = self.sleepers.pop().expect("it was looked at");
            self.awake(task, engine, inputs);
        }
        while let Some(&(at, change)) = self.changes.get(self.next_change).filter(|(at, _)| *at <= now) {
            debug_assert!(at == now, "a change is handed in at its instant");
            self.next_change += 1;
            self.change(change, now, engine, inputs);
        }
        while let Some(&Reverse((at, index))) = self.events.peek().filter(|Reverse((at, _))| *at <= now) {
            self.events.pop();
            let Source { task, arrival, event } = &mut self.sources[index];
            inputs.push(Input::Release { task: *task });
            let next = arrival.next(engine.system().seed, *task, *event, at);
            *event += 1;
            self.events.extend(next.map(|at| Reverse((at, index))));
        }
        self.note_others();
    }

    fn note_others(&mut self) {
        let sleeper = self.sleepers.last().map_or(Time::MAX, |(at, _)| *at);
        let change = self.changes.get(self.next_change).map_or(Time::MAX, |(at, _)| *at);
        let event = self.events.peek().map_or(Time::MAX, |Reverse((at, _))| *at);
        let board = self.board.as_ref().map_or(Time::MAX, |board| board.next());
        self.others = sleeper.min(change).min(event).min(board);
    }

    /// Inputs at the very end of a run: completions, and the readings of the meters. Nothing else counts there.
    pub(crate) fn last_inputs(&mut self, end: Time, engine: &Engine, inputs: &mut Vec<Input>) {
        inputs.clear();
        self.measure(end, engine, inputs);
        self.inputs(end, engine, inputs);
        let complete = |input: &Input| match *input {
            Input::Complete { task, .. } => Some(task),
            _ => None,
        };
        let completing: Vec<TaskId> = inputs.iter().filter_map(complete).collect();
        inputs.retain(|input| match input {
            Input::Complete { task, .. }
            | Input::Unlock { task, .. }
            | Input::Yield { task }
            | Input::Wake { task } => completing.contains(task),
            Input::Usage { .. } => true,
            _ => false,
        });
    }

    /// A running job has done its present step and continues with the next.
    fn act(&mut self, task: TaskId, now: Time, engine: &Engine, inputs: &mut Vec<Input>) {
        self.account(task, now);
        let body = &mut self.bodies[task.index()];
        if body.stuck() {
            inputs.push(Input::Block { task });
            return;
        }
        if let Some(&step) = self.steps[..body.end as usize].get(body.next as usize) {
            match step {
                Step::Run(_) => {}
                Step::Sleep(span) => {
                    inputs.push(Input::Block { task });
                    body.asleep = true;
                    let wake = ((now + span).round_up(engine.system().timing.tick), task);
                    let at = self.sleepers.partition_point(|other| *other > wake);
                    self.sleepers.insert(at, wake);
                    self.others = self.others.min(wake.0);
                }
                Step::Lock(resource) => inputs.push(Input::Lock { task, resource }),
                Step::Unlock(resource) => inputs.push(Input::Unlock { task, resource }),
                Step::Yield => inputs.push(Input::Yield { task }),
                Step::Call(call) => inputs.push(Input::Call { task, call }),
                Step::WaitPeriod => unreachable!("it is the end of a job's steps and none of them"),
            }
            if !matches!(step, Step::Run(_)) {
                body.next += 1;
            }
        }
        self.go_on(task);
        self.arm(task, now);
    }

    /// The work of the job until it acts again: the runs that follow, at once if none does. A lock that is not granted stops it
    /// in the same instant, before it has made any progress.
    fn go_on(&mut self, task: TaskId) {
        let body = &mut self.bodies[task.index()];
        while let Some(&Step::Run(span)) = self.steps[..body.end as usize].get(body.next as usize) {
            body.left += Work::nominal(scaled(span, body.load));
            body.next += 1;
        }
    }

    /// A sleep of the program ends. The job that it was at may have been aborted meanwhile.
    fn awake(&mut self, task: TaskId, engine: &Engine, inputs: &mut Vec<Input>) {
        let body = &mut self.bodies[task.index()];
        body.asleep = false;
        let there = engine.at(task) == Some(body.job) && engine.job(task).is_some_and(|job| !job.ready);
        if there && !body.held {
            inputs.push(Input::Wake { task });
            if body.next == body.end && body.left == Work::ZERO {
                inputs.push(Input::Complete { task, job: body.job });
            }
        }
    }

    /// Changes from outside, as inputs of the engine and as the program takes part in them.
    pub(crate) fn change(&mut self, change: Input, now: Time, engine: &Engine, inputs: &mut Vec<Input>) {
        match change {
            Input::Enter { task } => {
                // A program that comes back begins again.
                let body = &mut self.bodies[task.index()];
                body.turn = if engine.is_gone(task) { body.all.1 } else { body.turn };
            }
            Input::Block { task } => self.bodies[task.index()].held = true,
            Input::Wake { task } => {
                let body = &mut self.bodies[task.index()];
                body.held = false;
                if body.asleep {
                    return;
                }
                // It may have been about to block for this.
                if self.slots[body.place.index()].task == Some(task) {
                    self.account(task, now);
                    self.arm(task, now);
                }
            }
            _ => {}
        }
        inputs.push(change);
    }

    /// Carries out the commands of the engine's step, which was told `inputs`.
    #[inline(always)]
    pub(crate) fn apply(&mut self, now: Time, engine: &Engine, inputs: &[Input]) {
        self.report.steps += 1;
        if !matches!(inputs, [] | [Input::Complete { .. }]) {
            self.take_added(engine, inputs);
        }
        if self.metered {
            self.note_known(inputs);
        }
        let commands = engine.commands();
        if self.entries.is_some() {
            self.enter(engine, inputs);
        }
        for command in commands {
            match *command {
                Command::Frequency { domain, khz } => self.set_frequency(domain, khz, now, engine),
                _ => self.carry_out(*command, now, engine.seen()),
            }
        }
        if let Some(entries) = &mut self.entries {
            let busy = |cpu| engine.running_on(Place(cpu)).is_some();
            entries.settle(busy, self.charges.then_some(&mut self.bills));
        }
        if self.charges {
            self.note_preempted(commands, engine);
            self.charge_entries(now, engine);
        }
    }

    /// Carries out a command of the engine, but for one of a frequency.
    #[inline(always)]
    fn carry_out(&mut self, command: Command, now: Time, seen: Seen<'_>) {
        match command {
            Command::Stop { task, place } => {
                self.stop_task::<false>(task, now);
                self.entered(|entries| entries.leave(place));
            }
            Command::Start { task, place, work } => {
                self.start_task::<false>(task, place, work, now, seen);
                self.entered(|entries| entries.take(place));
            }
            Command::Continue { task, place, work } => {
                self.restart(task, place, work, now, seen);
                self.entered(|entries| entries.take(place));
            }
            Command::Move { task, from, to, work } => {
                self.restart(task, to, work, now, seen);
                self.entered(|entries| entries.shift(from, to));
            }
            // The next job starts from the beginning in any case, and no idle state has a latency here.
            _ => {}
        }
    }

    /// Whether commands can be carried out in the middle of a step: nothing costs or steals time, and all CPUs always have the nominal speed.
    pub(crate) fn is_direct(&self) -> bool {
        self.smooth && !self.metered
    }

    /// A step of the engine begins, in which this machine carries out commands at once. Something of the tasks of `inputs` happens.
    #[inline(always)]
    pub(crate) fn begin_step(&mut self, now: Time, inputs: &[Input]) {
        self.now = now;
        self.report.steps += 1;
        for task in inputs.iter().filter_map(Input::task) {
            self.acts_on(task);
        }
    }

    /// That step is over.
    #[inline(always)]
    pub(crate) fn end_step(&mut self, engine: &Engine) {
        if let Some(entries) = &mut self.entries {
            entries.settle(|cpu| engine.running_on(Place(cpu)).is_some(), None);
        }
    }

    /// Something of the task happens, on the CPU where it runs or ran last.
    #[inline(always)]
    fn acts_on(&mut self, task: TaskId) {
        if let Some(entries) = &mut self.entries {
            entries.act(self.bodies[task.index()].place);
        }
    }

    /// The engine knows what the meter has read.
    #[cold]
    fn note_known(&mut self, inputs: &[Input]) {
        for input in inputs {
            if let Input::Usage { task, consumed } = *input {
                self.bodies[task.index()].meter.known = consumed;
            }
        }
    }

    /// A domain has another frequency from now on; the engine has its speed already.
    #[cold]
    fn set_frequency(&mut self, domain: u16, khz: u32, now: Time, engine: &Engine) {
        let running = |slot: &Slot| slot.task;
        let tasks: Vec<TaskId> = self.slots.iter().filter_map(running).collect();
        for &task in &tasks {
            self.account(task, now);
        }
        if let Some(board) = &mut self.board {
            board.set(domain, khz, now);
        }
        self.speeds.clear();
        self.speeds.extend((0..self.slots.len()).map(|place| engine.speed(Place(place as u16))));
        for &task in &tasks {
            self.arm(task, now);
        }
    }

    /// Tells the entries into schedulers, where they are counted.
    #[inline(always)]
    fn entered(&mut self, tell: impl FnOnce(&mut Entries)) {
        if let Some(entries) = &mut self.entries {
            tell(entries);
        }
    }

    /// A task that runs continues elsewhere, or with something else.
    #[inline(never)]
    fn restart(&mut self, task: TaskId, place: Place, work: Activity, now: Time, seen: Seen<'_>) {
        self.stop_task::<false>(task, now);
        self.start_task::<false>(task, place, work, now, seen);
    }

    /// A task starts. `DIRECT`: [`Machine::is_direct`].
    #[inline(always)]
    fn start_task<const DIRECT: bool>(
        &mut self,
        task: TaskId,
        place: Place,
        work: Activity,
        now: Time,
        seen: Seen<'_>,
    ) {
        if work == Activity::Fresh {
            self.begin::<DIRECT>(task, work, seen);
        } else if work != Activity::Resumed {
            self.begin_other(task, work, seen);
        }
        if !DIRECT && self.charges {
            self.charge_start(task, place, work);
        }
        let body = &mut self.bodies[task.index()];
        (body.since, body.place) = (now, place);
        if !DIRECT && let Some(board) = &mut self.board {
            board.occupy(&self.place_cpus[place.index()], true, now);
        }
        let body = &self.bodies[task.index()];
        self.set_slot(place, Slot { at: self.acts::<DIRECT>(body, now), task: Some(task) });
    }

    /// The program begins the handler of its job, or is behind.
    #[cold]
    fn begin_other(&mut self, task: TaskId, work: Activity, seen: Seen<'_>) {
        if work == Activity::Handler {
            self.begin::<false>(task, work, seen);
        } else if seen.system().tasks[task.index()].on_abort == OnAbort::Signal {
            self.give_up(task);
        }
    }

    /// The program drops what it is at: only its completion is left to be signalled.
    #[inline(always)]
    fn give_up(&mut self, task: TaskId) {
        let body = &mut self.bodies[task.index()];
        (body.overhead, body.left) = (Span::ZERO, Work::ZERO);
        body.preempted = false;
        (body.next, body.end) = (0, 0);
        if core::mem::take(&mut body.asleep) {
            self.sleepers.retain(|(_, t)| *t != task);
            self.note_others();
        }
    }

    #[inline(always)]
    fn begin<const DIRECT: bool>(&mut self, task: TaskId, work: Activity, seen: Seen<'_>) {
        let body = &mut self.bodies[task.index()];
        if !DIRECT {
            (body.meter.used, body.meter.known) = (Work::ZERO, Work::ZERO);
        }
        if body.plain && work == Activity::Fresh && !body.asleep {
            if !DIRECT {
                (body.overhead, body.preempted) = (Span::ZERO, false);
            }
            body.job = seen.job(task);
            body.left = seen.declared(task).unwrap_or(Work::MAX);
            return;
        }
        self.begin_any(task, work, seen);
    }

    #[inline(never)]
    fn begin_any(&mut self, task: TaskId, work: Activity, seen: Seen<'_>) {
        self.give_up(task);
        let described = &seen.system().tasks[task.index()];
        let body = &mut self.bodies[task.index()];
        body.job = seen.job(task);
        if work == Activity::Handler {
            body.left = described.handler.map_or(Work::MAX, |h| Work::nominal(h.runtime));
        } else if described.completion == Completion::None {
            body.left = Work::MAX;
        } else if body.all.0 == body.all.1 {
            let needed = match described.program.execution {
                Execution::Declared => seen.declared(task),
                _ => {
                    let needed = described.demand(seen.system().seed, task, body.job);
                    needed.map(|needed| Work::nominal(scaled(needed, seen.load(task))))
                }
            };
            body.left = needed.unwrap_or(Work::MAX);
        } else {
            body.load = seen.load(task);
            body.left = Work::ZERO;
            let from = if body.turn < body.all.1 { body.turn + 1 } else { body.all.0 };
            let rest = &self.steps[from as usize..body.all.1 as usize];
            let length = rest.iter().position(|step| *step == Step::WaitPeriod).unwrap_or(rest.len());
            (body.next, body.end) = (from, from + length as u32);
            body.turn = body.end;
            self.go_on(task);
        }
    }

    /// A task stops. `DIRECT`: [`Machine::is_direct`].
    #[inline(always)]
    fn stop_task<const DIRECT: bool>(&mut self, task: TaskId, now: Time) {
        self.account_as::<DIRECT>(task, now);
        let place = self.bodies[task.index()].place;
        if !DIRECT && let Some(board) = &mut self.board {
            board.occupy(&self.place_cpus[place.index()], false, now);
        }
        // Another task may have moved here already.
        if self.slots[place.index()].task == Some(task) {
            self.set_slot(place, EMPTY);
        }
    }

    /// Brings the task's progress and the counters up to `now`.
    #[inline]
    fn account(&mut self, task: TaskId, now: Time) {
        self.account_as::<false>(task, now);
    }

    #[inline(always)]
    fn account_as<const DIRECT: bool>(&mut self, task: TaskId, now: Time) {
        let body = &mut self.bodies[task.index()];
        match self.report.cpus.get_mut(body.place.index()) {
            Some(cpu) if DIRECT || self.smooth => {
                let held = now - body.since;
                body.advance(now, held, Speed::NOMINAL);
                cpu.worked += held;
            }
            _ => self.account_any(task, now),
        }
    }

    fn account_any(&mut self, task: TaskId, now: Time) {
        let speed = self.speed(self.bodies[task.index()].place);
        let body = &mut self.bodies[task.index()];
        let held = now - body.since;
        let progress = self.progress.between(body.since, now);
        let paid = progress.min(body.overhead);
        body.overhead -= paid;
        let worked = progress - paid;
        body.advance(now, worked, speed);
        body.meter.used += speed.work_in(worked);
        let place = body.place.index();
        if let Some(board) = &mut self.board {
            board.held(task, &self.place_cpus[place], held);
        }
        let spent = CpuTime { worked, overhead: paid, stolen: held - progress, idle: Span::ZERO };
        match self.report.cpus.get_mut(place) {
            Some(cpu) => cpu.add(spent),
            None => self.place_cpus[place].iter().for_each(|&cpu| self.report.cpus[usize::from(cpu)].add(spent)),
        }
    }

    fn speed(&self, place: Place) -> Speed {
        self.speeds.get(place.index()).copied().unwrap_or_default()
    }

    /// When a body acts that continues now.
    #[inline]
    fn acts<const DIRECT: bool>(&self, body: &Body, now: Time) -> Time {
        match body.left {
            _ if body.stuck() => now,
            left if DIRECT || self.smooth => now.saturating_add(left.nominal_time()),
            Work::MAX => Time::MAX,
            left => {
                let takes = self.speed(body.place).time_for(left);
                self.progress.done(now, Span::from_ns(body.overhead.ns().saturating_add(takes.ns())))
            }
        }
    }

    /// Finds again when a running task acts.
    #[inline]
    fn arm(&mut self, task: TaskId, now: Time) {
        let body = &self.bodies[task.index()];
        let (place, at) = (body.place, self.acts::<false>(body, now));
        self.set_slot(place, Slot { at, ..self.slots[place.index()] });
    }

    /// Notes on which CPUs something happened in the engine's step.
    #[inline(always)]
    fn enter(&mut self, engine: &Engine, inputs: &[Input]) {
        if !matches!(inputs, [] | [Input::Complete { .. }])
            && inputs.iter().any(|input| matches!(input, Input::Switch { .. }))
        {
            self.regroup(engine);
        }
        let Machine { entries: Some(entries), bodies, .. } = self else { return };
        let happened = inputs.iter().filter(|input| !matches!(input, Input::Usage { .. }));
        for task in happened.filter_map(Input::task) {
            entries.act(bodies[task.index()].place);
        }
        for task in engine.due() {
            entries.act(bodies[task.index()].place);
        }
    }

    /// Charges the jobs that now hold the CPUs that entered the scheduler. An idle CPU bears it for nothing.
    fn charge_entries(&mut self, now: Time, engine: &Engine) {
        for index in 0..self.bills.len() {
            let Entry { cpu, runs, locks, interrupted } = self.bills[index];
            let Some(task) = engine.running_on(Place(cpu)) else { continue };
            // A job on several CPUs pays what the first of them costs.
            if self.place_cpus[self.bodies[task.index()].place.index()].first() != Some(&cpu) {
                continue;
            }
            self.account(task, now);
            let runs = i64::from(runs);
            let due = Costs {
                scheduler: self.costs.scheduler * runs,
                scheduler_task: self.costs.scheduler_task * engine.visited() as i64 * runs,
                lock: if locks { self.costs.lock * runs } else { Span::ZERO },
                interrupt: if interrupted { self.costs.interrupt } else { Span::ZERO },
                ..Costs::default()
            };
            self.bodies[task.index()].overhead += due.scheduler + due.scheduler_task + due.lock + due.interrupt;
            let charged = &mut self.report.charged;
            charged.scheduler += due.scheduler;
            charged.scheduler_task += due.scheduler_task;
            charged.lock += due.lock;
            charged.interrupt += due.interrupt;
            self.arm(task, now);
        }
        self.bills.clear();
    }

    /// Charges a job that starts, moves or begins at `place`.
    fn charge_start(&mut self, task: TaskId, place: Place, work: Activity) {
        let mut due = Span::ZERO;
        let mut switch = false;
        for &cpu in &self.place_cpus[place.index()] {
            let last = self.last[usize::from(cpu)].replace(task);
            switch |= last.is_some_and(|t| t != task);
        }
        let body = &mut self.bodies[task.index()];
        let charged = &mut self.report.charged;
        if switch {
            due += self.costs.context_switch;
            charged.context_switch += self.costs.context_switch;
        }
        if matches!(work, Activity::Resumed | Activity::Abandoned) && body.place != place {
            due += self.costs.migration;
            charged.migration += self.costs.migration;
        }
        if core::mem::take(&mut body.preempted) {
            due += self.costs.cache_reload;
            charged.cache_reload += self.costs.cache_reload;
        }
        body.overhead += due;
    }

    /// Notes who was preempted.
    fn note_preempted(&mut self, commands: &[Command], engine: &Engine) {
        for command in commands {
            if let Command::Stop { task, place } = *command {
                let taken = self.place_cpus[place.index()].iter().any(|&c| self.last[usize::from(c)] != Some(task));
                self.bodies[task.index()].preempted = taken && engine.job(task).is_some_and(|job| job.ready);
            }
        }
    }

    /// How many steps there were.
    pub(crate) fn steps(&self) -> u64 {
        self.report.steps
    }

    /// The report of a run that ends at `end`.
    pub(crate) fn finish(mut self, end: Time) -> Report {
        for index in 0..self.slots.len() {
            if let Some(task) = self.slots[index].task {
                self.account(task, end);
            }
        }
        for cpu in &mut self.report.cpus {
            cpu.idle = (end - Time::ZERO) - cpu.worked - cpu.overhead - cpu.stolen;
        }
        let report = &mut self.report;
        (report.scheduler_runs, report.interrupts, report.blocked_entries) =
            self.entries.as_ref().map_or((report.steps, 0, 0), |e| (e.runs, e.interrupts, e.blocked));
        self.report.power = self.board.take().map(|board| board.report(end));
        for (time, body) in self.report.tasks.iter_mut().zip(&self.bodies) {
            *time += body.time;
        }
        self.report
    }
}
