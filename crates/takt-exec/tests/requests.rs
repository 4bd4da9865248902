//! The requests of the scheduler in all interleavings of the two threads, by loom (a model checker of the memory model of C11).

#[path = "../src/requests.rs"]
mod requests;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
}

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use requests::Requests;

fn taken(requests: &Requests) -> Vec<(usize, u32, u8)> {
    let mut all = Vec::new();
    requests.take(|task, incarnation, kinds| all.push((task, incarnation, kinds)));
    all
}

/// The scheduler asks, writes to the eventfd that wakes the supervisor, and continues; the supervisor reads that and takes.
#[test]
fn a_woken_program_finds_its_answer() {
    loom::model(|| {
        let (requests, woken) = (Arc::new(Requests::new(2)), Arc::new(AtomicU32::new(0)));
        let scheduler = {
            let (requests, woken) = (requests.clone(), woken.clone());
            thread::spawn(move || {
                for (task, incarnation, kind) in [(1, 3, 1), (0, 0, 4), (1, 3, 2)] {
                    requests.ask(task, incarnation, kind);
                    woken.fetch_add(1, Ordering::AcqRel);
                }
            })
        };
        let mut all = Vec::new();
        {
            let asked = woken.load(Ordering::Acquire);
            all.extend(taken(&requests));
            let found: u32 = all.iter().map(|(_, _, kinds): &(usize, u32, u8)| kinds.count_ones()).sum();
            assert!(found >= asked, "{asked} were asked, and {all:?} found");
        }
        scheduler.join().unwrap();
        all.extend(taken(&requests));
        let kinds = |of: (usize, u32)| {
            all.iter().filter(|(t, i, _)| (*t, *i) == of).fold(0, |sum, (_, _, kinds)| sum + u32::from(*kinds))
        };
        assert_eq!((kinds((1, 3)), kinds((0, 0))), (3, 4), "each request is taken once: {all:?}");
    });
}

/// The end of the run is asked for once, with its job.
#[test]
fn the_end_of_the_run_has_the_first_job() {
    loom::model(|| {
        let requests = Arc::new(Requests::new(1));
        let scheduler = {
            let requests = requests.clone();
            thread::spawn(move || [(4, 9), (7, 1)].map(|(about, job)| requests.ask_end(about, job)))
        };
        let early = requests.end();
        assert!(early.is_none() || early == Some((4, 9)), "{early:?}");
        scheduler.join().unwrap();
        assert_eq!(requests.end(), Some((4, 9)));
    });
}

/// A request about the next process takes the place of one about the process before, and is never mixed up with it.
#[test]
fn requests_about_an_earlier_process_are_void() {
    loom::model(|| {
        let requests = Arc::new(Requests::new(1));
        let scheduler = {
            let requests = requests.clone();
            thread::spawn(move || {
                requests.ask(0, 7, 1);
                requests.ask(0, 8, 2);
            })
        };
        let mut all = taken(&requests);
        scheduler.join().unwrap();
        all.extend(taken(&requests));
        assert!(all == [(0, 7, 1), (0, 8, 2)] || all == [(0, 8, 2)], "{all:?}");
    });
}
