//! Events for a running system from outside, and that nothing of the simulator grows while it runs.

mod story;

use std::alloc::{GlobalAlloc, Layout, System as Heap};
use std::cell::Cell;
use story::*;
use takt_core::engine::Engine;
use takt_core::input::Input;
use takt_core::model::*;
use takt_core::record::{Record, RecordKind, Sink};
use takt_core::scenario::{Costs, Deciding, Scenario, Steal};
use takt_core::time::{Span, Time};

const A: TaskId = TaskId(0);
const R: ResourceId = ResourceId(0);

fn changes(changes: &[(i64, Input)]) -> Scenario {
    Scenario { changes: changes.iter().map(|&(t, change)| (at(t), change)).collect(), ..Scenario::default() }
}

fn block(task: TaskId) -> Input {
    Input::Block { task }
}

fn wake(task: TaskId) -> Input {
    Input::Wake { task }
}

#[test]
fn a_running_job_blocks_and_continues() {
    let told =
        tell(system(1, "fp", vec![plain(0, 2, 20), plain(0, 1, 30)]), &changes(&[(5, block(A)), (15, wake(A))]), 100);
    expect(
        &told,
        "0 start a 0
        5 block a, blocked a, start b 0
        15 wake a, preempted b, start a 0
        30 complete a, start b 0
        50 complete b",
    );
}

/// A task that has no job when it is blocked is held: the job that comes blocks as soon as it could run.
#[test]
fn a_block_holds_for_the_jobs_to_come() {
    let a = Task { arrival: Arrival::Periodic { offset: Span::ZERO, period: ns(30) }, ..plain(0, 2, 10) };
    let told = tell(system(1, "fp", vec![a]), &changes(&[(15, block(A)), (40, wake(A))]), 70);
    expect(
        &told,
        "0 start a 0
        10 complete a
        30 start a 0, block a, blocked a
        40 wake a, start a 0
        50 complete a
        60 start a 0
        70 complete a",
    );
}

/// The sleep ends at 22 while the task is held, and a wake-up from outside does not end the second one early.
#[test]
fn a_sleep_and_a_block_from_outside_must_both_end() {
    let a = once(0, 1, &[run(2), sleep(20), run(3), sleep(20), run(1)]);
    let told = tell(system(1, "fp", vec![a]), &changes(&[(10, block(A)), (30, wake(A)), (40, wake(A))]), 100);
    expect(
        &told,
        "0 start a 0
        2 block a, blocked a
        30 wake a, start a 0
        33 block a, blocked a
        53 wake a, start a 0
        54 complete a",
    );
    // The other way round: the block ends first.
    let a = once(0, 1, &[run(2), sleep(20), run(3)]);
    let told = tell(system(1, "fp", vec![a]), &changes(&[(10, block(A)), (15, wake(A))]), 100);
    expect(
        &told,
        "0 start a 0
        2 block a, blocked a
        22 wake a, start a 0
        25 complete a",
    );
}

/// A job that waits for a resource when it is blocked gets its turn and blocks with it.
#[test]
fn a_disturbance_holds_waiters_with_the_resource() {
    let a = once(2, 2, &[Step::Lock(R), run(4), Step::Unlock(R)]);
    let b = once(0, 1, &[Step::Lock(R), run(10), Step::Unlock(R)]);
    let told = tell(system(1, "fp", vec![a, b]), &changes(&[(5, block(A)), (20, wake(A))]), 100);
    expect(
        &told,
        "0 start b 0, grant b 0
        2 preempted b, start a 0, refuse a 0, block a, blocked a, start b 0
        10 return b 0, grant a 0, wake a, complete b, start a 0, block a, blocked a
        20 wake a, start a 0
        24 return a 0, complete a",
    );
}

/// Blocked and woken in one instant: nothing has happened, and the job acts when it would have.
#[test]
fn a_block_that_ends_at_once() {
    let told = tell(system(1, "fp", vec![plain(0, 1, 20)]), &changes(&[(5, block(A)), (5, wake(A))]), 100);
    expect(
        &told,
        "0 start a 0
        5 block a, wake a
        20 complete a",
    );
    // The job comes in the instant in which its task is let go.
    let told = tell(system(1, "fp", vec![plain(5, 1, 20)]), &changes(&[(1, block(A)), (5, wake(A))]), 100);
    expect(
        &told,
        "5 start a 0
        25 complete a",
    );
}

/// A mode change: what a job needs follows what is declared then.
#[test]
fn tasks_change_go_and_come_back() {
    let a = Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: ns(20) },
        deadline: Some(ns(20)),
        ..plain(0, 1, 5)
    };
    let retime = Input::Retime { task: A, period: ns(10), deadline: Some(ns(10)), runtime: Some(ns(7)) };
    let scenario = changes(&[(22, retime), (52, Input::Leave { task: A }), (80, Input::Enter { task: A })]);
    let told = tell(system(1, "edf", vec![a]), &scenario, 90);
    expect(
        &told,
        "0 start a 0
        5 complete a
        20 start a 0
        25 complete a
        40 start a 0
        47 complete a
        50 start a 0
        57 complete a, exit a
        80 start a 0
        87 complete a",
    );
}

/// A task that has to leave while its job sleeps leaves when that job is over.
#[test]
fn a_task_that_goes_in_its_sleep() {
    let a =
        Task { arrival: Arrival::Periodic { offset: Span::ZERO, period: ns(30) }, ..once(0, 1, &[run(2), sleep(20)]) };
    let told = tell(system(1, "fp", vec![a]), &changes(&[(10, Input::Leave { task: A })]), 70);
    expect(
        &told,
        "0 start a 0
        2 block a, blocked a
        22 wake a, complete a, exit a",
    );
}

struct Counting;

thread_local! {
    /// Per thread, so that the test harness does not count.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.with(|calls| calls.set(calls.get() + 1));
        unsafe { Heap.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { Heap.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CALLS.with(|calls| calls.set(calls.get() + 1));
        unsafe { Heap.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Counts the allocations since its first release after the warm-up.
#[derive(Default)]
struct Watch {
    jobs: u64,
    before: u64,
    during: u64,
}

impl Sink for Watch {
    fn record(&mut self, record: Record) {
        if let RecordKind::Release { .. } = record.kind {
            self.jobs += 1;
            let calls = CALLS.with(Cell::get);
            if record.at < Time::from_ns(1_000) {
                self.before = calls;
            }
            self.during = calls - self.before;
        }
    }
}

#[test]
fn memory_does_not_grow_with_the_simulated_time() {
    let steps = [run(2), Step::Lock(R), run(3), Step::Yield, Step::Unlock(R), sleep(9), run(1)];
    let task = |i: u32| Task {
        arrival: Arrival::Sporadic { offset: ns(i64::from(i)), period: ns(20 + 7 * i64::from(i)), spread: ns(9) },
        deadline: Some(ns(25)),
        runtime: Some(ns(6)),
        program: Program::new(
            if i.is_multiple_of(2) { steps.to_vec() } else { vec![] },
            Execution::Uniform { least: ns(3), most: ns(9) },
        ),
        priority: i,
        ..Task::default()
    };
    let cost = ns(1);
    let scenario = Scenario {
        costs: Costs {
            context_switch: cost,
            migration: cost,
            cache_reload: cost,
            scheduler: cost,
            scheduler_task: cost,
            lock: cost,
            interrupt: cost,
        },
        deciding: Deciding::StopTheWorld,
        steal: Some(Steal { period: ns(50), length: ns(3) }),
        changes: (1..100).map(|i| (at(i * 1_000), if i % 2 == 0 { wake(A) } else { block(A) })).collect(),
        ..Scenario::default()
    };
    let described = System { late: Late::Abort, ..system(2, "g-edf", (0..8).map(task).collect()) };
    let mut engine = Engine::new(described).unwrap();
    let mut watch = Watch::default();
    let report = takt_sim::simulate(&mut engine, &scenario, ns(100_000), &mut watch, |_| ());
    assert!(watch.jobs > 10_000 && watch.before > 0, "{} jobs", watch.jobs);
    assert!(report.tasks.iter().all(|task| task.worked > Span::ZERO));
    assert_eq!(watch.during, 0, "allocations in {} jobs", watch.jobs);
}
