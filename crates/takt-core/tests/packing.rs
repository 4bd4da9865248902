//! Placement of tasks on CPUs: bin packing by utilisation, and the home CPUs of I+PI, which are the worst fit by load.

use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, Fit, Placement, PolicySpec, System, Task, TaskId};
use takt_core::policies::ipi::homes;
use takt_core::policies::scope::pack;
use takt_core::policy::{Build, Registry};
use takt_core::record::Place;
use takt_core::time::Span;

/// A task that needs so many parts of 1024 of a CPU, which all units of loads tell exactly.
fn task(parts: i64, affinity: CpuSet) -> Task {
    Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_us(1024) },
        runtime: Some(Span::from_us(parts)),
        affinity,
        ..Task::default()
    }
}

/// The answer of `what` for these tasks on CPUs 4 to 6, of which the places with these numbers are lent.
fn placed<T>(
    policy: &str,
    placement: Placement,
    tasks: &[Task],
    places: &[u16],
    what: impl Fn(&Build<'_>) -> Vec<T>,
) -> Vec<T> {
    let spec = PolicySpec { placement, ..PolicySpec::from_name(policy).unwrap() };
    let system = System { tasks: tasks.to_vec(), ..System::new((4..7).collect(), spec) };
    let ids: Vec<TaskId> = (0..tasks.len() as u32).map(TaskId).collect();
    let places: Vec<Place> = places.iter().map(|p| Place(*p)).collect();
    what(&Build { system: &system, tasks: &ids, places: &places, spec, first_timer: 0, registry: &Registry::default() })
}

const ALL: [u16; 3] = [0, 1, 2];
const FITS: [Fit; 3] = [Fit::First, Fit::Best, Fit::Worst];

#[test]
fn homes_are_the_worst_fit_whatever_the_placement_names() {
    let any: CpuSet = (4..7).collect();
    // The last one fits nowhere and goes where most is left.
    let tasks: Vec<Task> = [200, 600, 300, 310, 900, 250, 900].iter().map(|parts| task(*parts, any)).collect();
    for decreasing in [false, true] {
        let worst = placed("p-edf", Placement { fit: Fit::Worst, decreasing }, &tasks, &ALL, |build| pack(build).homes);
        let worst: Vec<Option<u16>> = worst.into_iter().map(Some).collect();
        for fit in FITS {
            assert_eq!(placed("p-ipi", Placement { fit, decreasing }, &tasks, &ALL, homes), worst, "{fit:?}");
        }
    }
    let first =
        placed("p-edf", Placement { fit: Fit::First, decreasing: false }, &tasks, &ALL, |build| pack(build).homes);
    assert_eq!(first, [0, 0, 1, 1, 2, 1, 0]);
    let worst =
        placed("p-edf", Placement { fit: Fit::Worst, decreasing: false }, &tasks, &ALL, |build| pack(build).homes);
    assert_eq!(worst, [0, 1, 2, 0, 2, 0, 1]);
}

#[test]
fn one_queue_serves_all_cpus() {
    use takt_core::model::Invalid;
    use takt_core::policies::edf::ONE_QUEUE;
    let any: CpuSet = (4..7).collect();
    let built = |policy: &str, places: &[u16]| {
        let edf = |build: &Build<'_>| vec![(ONE_QUEUE.build)(build).map(drop)];
        placed(policy, Placement::DEFAULT, &[task(100, any)], places, edf).remove(0)
    };
    assert_eq!((built("edf", &[0]), built("g-edf", &ALL)), (Ok(()), Ok(())));
    assert!(matches!(built("p-edf", &ALL), Err(Invalid::Unsuitable(_))));
}

#[test]
fn homes_count_every_task_for_a_hundredth_and_keep_to_what_is_lent() {
    let any: CpuSet = (4..7).collect();
    let idle = Task { affinity: any, ..Task::default() };
    let none = [idle.clone(), idle.clone(), idle.clone(), idle];
    let inorder = Placement { fit: Fit::First, decreasing: false };
    assert_eq!(placed("p-ipi", inorder, &none, &ALL, homes), [Some(0), Some(1), Some(2), Some(0)]);
    let small = [task(5, any), none[0].clone(), none[0].clone(), none[0].clone()];
    assert_eq!(placed("p-ipi", inorder, &small, &ALL, homes), [Some(0), Some(1), Some(2), Some(0)]);
    // Only CPUs 5 and 6 are lent; homes are places of the machine.
    let tasks = [task(500, any), task(100, CpuSet::single(5)), task(100, CpuSet::single(4))];
    assert_eq!(placed("p-ipi", inorder, &tasks, &[1, 2], homes), [Some(1), Some(1), None]);
    assert_eq!(placed("p-ipi", inorder, &tasks, &[], homes), [None; 3]);
}

#[test]
fn only_a_task_without_room_is_refused() {
    let any: CpuSet = (4..7).collect();
    let tasks: Vec<Task> = [200, 600, 300, 310, 900, 250, 900].iter().map(|parts| task(*parts, any)).collect();
    for policy in ["p-llf", "p-edf"] {
        for decreasing in [false, true] {
            let placement = Placement { fit: Fit::First, decreasing };
            let refused = placed(policy, placement, &tasks, &ALL, |build| pack(build).refused);
            // In descending order 900, 900, and 600 with 310 leave no room for the three smallest ones.
            let without: &[u32] = if decreasing { &[0, 2, 5] } else { &[6] };
            assert_eq!(refused.iter().map(|refused| refused.task.0).collect::<Vec<_>>(), without, "{policy}");
        }
    }
}
