//! `rules: demos` against a second account of the DEmOS scheduler: its algorithm as its source has it (commit a70ef526: `slice.cpp`,
//! `partition.cpp`, `process.cpp`, `majorframe.cpp`), with budgets from another implementation of MT19937. Processes use up their
//! budgets; some end.

use rand_mt::Mt;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Ending, Engine, Input};
use takt_core::model::*;
use takt_core::record::{Record, RecordKind};
use takt_core::rng::draw_up_to;
use takt_core::time::{Span, Time};

/// A line of the schedule log: instant, task, budget, in milliseconds.
type Line = (i64, usize, i64);

struct Process {
    budget: i64,
    jitter: i64,
    /// The budget of the next activation, unless it is drawn.
    actual: i64,
    lives: bool,
    completed: bool,
}

/// The state of DEmOS. Indices stand for its pointers.
struct Model<'a> {
    system: &'a System,
    processes: Vec<Process>,
    /// By partition: its present process, by position.
    current: Vec<usize>,
    generator: Mt,
    /// By slice of the window: whether its best-effort side runs, the running task, and when its budget ends.
    best_effort: Vec<bool>,
    running: Vec<Option<(usize, i64)>>,
    finished: usize,
    stopping: bool,
    log: Vec<Line>,
    /// DEmOS itself ends by an assertion: a remainder is not below the budget.
    gave_up: bool,
}

impl Model<'_> {
    fn partition(&self, window: usize, slice: usize) -> Option<usize> {
        let slice_of = &self.system.windows[window].slices[slice];
        let side = if self.best_effort[slice] { slice_of.be } else { slice_of.sc };
        side.map(PartitionId::index)
    }

    /// `seek_pending_process`
    fn seek(&mut self, partition: usize) -> Option<usize> {
        let tasks = &self.system.partitions[partition].tasks;
        for _ in 0..tasks.len() {
            let task = tasks[self.current[partition]].index();
            if self.processes[task].lives && !self.processes[task].completed {
                return Some(task);
            }
            self.current[partition] = (self.current[partition] + 1) % tasks.len();
        }
        self.current[partition] = (self.current[partition] + 1) % tasks.len();
        None
    }

    /// libstdc++'s `uniform_int_distribution` over 32 bits.
    fn draw(&mut self, most: u32) -> i64 {
        let range = most + 1;
        loop {
            let product = u64::from(self.generator.next_u32()) * u64::from(range);
            if product as u32 >= range.wrapping_neg() % range {
                return (product >> 32) as i64;
            }
        }
    }

    /// `start_next_process`
    fn start_next(&mut self, window: usize, slice: usize, now: i64) {
        let partition = self.partition(window, slice).expect("it runs one");
        while let Some(task) = self.seek(partition) {
            let Process { budget, jitter, actual, .. } = self.processes[task];
            let amount = if actual != budget { actual } else { budget - jitter / 2 + self.draw(jitter as u32) };
            if amount == 0 {
                self.processes[task].completed = true;
                continue;
            }
            self.log.push((now, task, amount));
            self.processes[task].actual = budget;
            self.running[slice] = Some((task, now + amount));
            return;
        }
        if !self.best_effort[slice] {
            self.sc_done(window, now);
        }
    }

    /// `slice_sc_end_cb`
    fn sc_done(&mut self, window: usize, now: i64) {
        self.finished += 1;
        let slices = self.system.windows[window].slices.len();
        if self.stopping || self.finished < slices {
            return;
        }
        for slice in 0..slices {
            self.best_effort[slice] = true;
            self.start_partition(window, slice, now);
        }
    }

    fn start_partition(&mut self, window: usize, slice: usize, now: i64) {
        let Some(partition) = self.partition(window, slice) else { return };
        for task in &self.system.partitions[partition].tasks {
            self.processes[task.index()].completed = false;
        }
        if !self.best_effort[slice] {
            self.current[partition] = 0;
        }
        self.start_next(window, slice, now);
    }

    /// A window from its begin to its end, with processes that end in the middle of milliseconds.
    fn window(&mut self, window: usize, begin: i64, last: i64, ends: &[(i64, usize)]) {
        let (end, slices) =
            (begin + self.system.windows[window].length.ns() / 1_000_000, self.system.windows[window].slices.len());
        (self.finished, self.best_effort, self.running) = (0, vec![false; slices], vec![None; slices]);
        for slice in 0..slices {
            match self.partition(window, slice) {
                Some(_) => self.start_partition(window, slice, begin),
                None => self.sc_done(window, begin),
            }
        }
        for now in begin + 1..=end.min(last) {
            for (_, task) in ends.iter().filter(|(at, _)| *at == now - 1) {
                self.processes[*task].lives = false;
            }
            if now == end {
                break;
            }
            for slice in 0..slices {
                if let Some((task, _)) = self.running[slice].filter(|(_, timeout)| *timeout == now) {
                    self.processes[task].completed = true;
                    self.running[slice] = None;
                    self.start_next(window, slice, now);
                }
            }
        }
        self.stopping = true;
        for slice in 0..slices {
            let Some((task, timeout)) = self.running[slice].take() else { continue };
            let partition = self.partition(window, slice).expect("it runs one");
            if timeout == end {
                self.processes[task].completed = true;
                self.seek(partition);
            } else if self.best_effort[slice] {
                self.gave_up |= self.processes[task].lives && timeout - end >= self.processes[task].budget;
                self.processes[task].actual = timeout - end;
            }
        }
        self.stopping = false;
    }
}

fn model(system: &System, last: i64, ends: &[(i64, usize)]) -> Option<Vec<Line>> {
    let process = |task: &Task| {
        let budget = task.budget.unwrap().ns() / 1_000_000;
        Process { budget, jitter: task.jitter.ns() / 1_000_000, actual: budget, lives: true, completed: false }
    };
    let mut model = Model {
        system,
        processes: system.tasks.iter().map(process).collect(),
        current: vec![0; system.partitions.len()],
        generator: Mt::new(system.seed as u32),
        best_effort: Vec::new(),
        running: Vec::new(),
        finished: 0,
        stopping: false,
        log: Vec::new(),
        gave_up: false,
    };
    let mut begin = 0;
    for window in (0..system.windows.len()).cycle() {
        if begin > last {
            break;
        }
        model.window(window, begin, last, ends);
        begin += system.windows[window].length.ns() / 1_000_000;
    }
    model.log.retain(|(at, ..)| *at <= last);
    model.log.sort_unstable();
    (!model.gave_up).then_some(model.log)
}

/// The same of the engine: starts, and activations that continue over the begin of a window.
fn engine(system: &System, last: i64, ends: &[(i64, usize)]) -> Vec<Line> {
    let mut engine = Engine::new(system.clone()).unwrap();
    let mut records: Vec<Record> = Vec::new();
    let mut ends = ends.iter().map(|(at, task)| (Time::from_ns(at * 1_000_000 + 500_000), *task)).peekable();
    let last = Time::from_ns(last * 1_000_000);
    while let Some(now) = engine.next_due().into_iter().chain(ends.peek().map(|e| e.0)).min().filter(|at| *at <= last) {
        let mut inputs = Vec::new();
        while let Some((_, task)) = ends.next_if(|(at, _)| *at <= now) {
            let ending = Ending { regular: task % 2 == 0, replaced: false };
            inputs.push(Input::Exit { task: TaskId(task as u32), ending });
        }
        let _ = engine.step(now, &inputs, &mut records);
    }
    let mut lines = Vec::new();
    let (mut running, mut budgets) = (vec![false; system.tasks.len()], vec![0; system.tasks.len()]);
    let mut rest = records.as_slice();
    while let Some(first) = rest.first() {
        let now = rest.partition_point(|record| record.at <= first.at);
        let (mut before, mut granted, mut started) = (running.clone(), vec![false; running.len()], vec![]);
        for record in &rest[..now] {
            match record.kind {
                RecordKind::Budget { task, amount: Some(amount), .. } => {
                    budgets[task.index()] = amount.ns() / 1_000_000;
                    granted[task.index()] = true;
                }
                RecordKind::Start { task, .. } => {
                    running[task.index()] = true;
                    started.push(task.index());
                }
                RecordKind::Stop { task, .. } => (running[task.index()], before[task.index()]) = (false, false),
                _ => {}
            }
        }
        let continues = |task: &usize| before[*task] && granted[*task] && !started.contains(task);
        let all: Vec<usize> = (0..running.len()).filter(continues).chain(started.iter().copied()).collect();
        lines.extend(all.into_iter().map(|task| (first.at.ns() / 1_000_000, task, budgets[task])));
        rest = &rest[now..];
    }
    lines.sort_unstable();
    lines
}

/// A table of up to three windows and two slices over up to four partitions, with the processes that end.
fn random(seed: u64, case: u64) -> (System, i64, Vec<(i64, usize)>) {
    let mut count = 0;
    let mut up_to = |most: u64| {
        count += 1;
        draw_up_to(most, seed, case, count) as i64
    };
    let mut system = System::new(CpuSet::first(2), PolicySpec::from_name("windows").unwrap());
    (system.rules, system.seed) = (TableRules::Demos, up_to(1000) as u64);
    let partitions = 1 + up_to(3) as usize;
    for _ in 0..partitions {
        let mut tasks = Vec::new();
        for _ in 0..1 + up_to(2) {
            tasks.push(TaskId(system.tasks.len() as u32));
            let budget = 1 + up_to(7);
            let jitter = if up_to(2) == 0 { up_to(2 * budget as u64) } else { 0 };
            let (budget, jitter) = (Some(Span::from_ms(budget)), Span::from_ms(jitter));
            let affinity = CpuSet::first(2);
            system.tasks.push(Task { arrival: Arrival::Activated, budget, jitter, affinity, ..Task::default() });
        }
        system.partitions.push(Partition { tasks, policy: None });
    }
    for _ in 0..1 + up_to(2) {
        let mut free: Vec<usize> = (0..partitions).collect();
        let mut side = |up_to: &mut dyn FnMut(u64) -> i64| {
            let taken = !free.is_empty() && up_to(3) > 0;
            taken.then(|| PartitionId(free.swap_remove(up_to(free.len() as u64 - 1) as usize) as u32))
        };
        let mut slices = Vec::new();
        for cpu in 0..up_to(2) as usize {
            let (sc, be) = (side(&mut up_to), side(&mut up_to));
            slices.push(Slice { cpus: CpuSet::single(cpu), sc, be });
        }
        system.windows.push(Window { length: Span::from_ms(1 + up_to(14)), slices });
    }
    let mut ends: Vec<(i64, usize)> =
        (1..system.tasks.len()).filter_map(|task| Some((up_to(60), task)).filter(|_| up_to(3) == 0)).collect();
    ends.sort_unstable();
    (system, 120, ends)
}

/// `TAKT_CASES` says how many tables, `TAKT_SEED` which.
#[test]
fn random_tables_have_the_schedule_of_demos() {
    let (cases, seed) = (u64::from(takt_testing::cases(2_000)), takt_testing::seed());
    let mut compared = (0, 0);
    for case in 0..cases {
        let (system, last, ends) = random(seed, case);
        let Some(expected) = model(&system, last, &ends) else { continue };
        let lines = engine(&system, last, &ends);
        let at = expected.iter().zip(&lines).position(|(a, b)| a != b).unwrap_or(expected.len().min(lines.len()));
        assert!(
            expected == lines,
            "case {case}: at line {at} {:?} and not {:?}; TAKT_SEED={seed} TAKT_CASES={cases} repeats it\n{:#?}\n{:#?}\nends {ends:?}",
            lines.get(at),
            expected.get(at),
            system.windows,
            system.tasks.iter().map(|t| (t.budget, t.jitter)).zip(0..).collect::<Vec<_>>()
        );
        compared = (compared.0 + 1, compared.1 + expected.len());
    }
    assert!(takt_testing::shows_enough(compared.0, cases as u32 / 2, 2_000), "{compared:?} of {cases}");
    println!("{} tables, {} activations", compared.0, compared.1);
}
