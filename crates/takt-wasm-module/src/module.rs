//! The functions of a module. A module has one policy at a time, in a static variable.

use crate::wire::{self, Areas, Built, Machine, Profile, Setup};
use crate::words::{HEAD, Question, ROW, Row, TERMS_WORDS, answer_rows, head, input_words, number};
use std::sync::{Mutex, MutexGuard};
use takt_core::engine::{Mirror, Now};
use takt_core::model::{Invalid, PolicySpec, ResourceId, TaskId, Terms};
use takt_core::policy::{Build, Entry, Registry, TASK_WORDS};
use takt_core::record::Place;
use takt_core::time::Time;

struct Held {
    mirror: Mirror,
    cpus: usize,
    resources: u16,
    /// The host writes here before each question.
    input: Vec<i64>,
    /// The host reads here after it.
    output: Vec<i64>,
    lent: Vec<Place>,
}

static HELD: Mutex<Option<Held>> = Mutex::new(None);
/// Bytes that the host writes before a policy is built, and reads after that.
static BYTES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// A module has one thread, and a panic ends it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("one thread")
}

fn with<T>(ask: impl FnOnce(&mut Held) -> T) -> T {
    ask(lock(&HELD).as_mut().expect("a policy was built"))
}

/// Keeps the bytes for the host, and returns where they are.
fn answer(bytes: Vec<u8>) -> i64 {
    let mut kept = lock(&BYTES);
    *kept = bytes;
    (kept.as_ptr() as usize as i64) << 32 | kept.len() as i64
}

/// The profile of the policy.
pub fn profile(entry: &Entry) -> i64 {
    answer(wire::bytes(&Profile::of(entry)))
}

/// Makes room for so many bytes.
pub fn reserve(length: i32) -> i32 {
    let mut kept = lock(&BYTES);
    *kept = vec![0; usize::try_from(length).unwrap_or(0)];
    kept.as_ptr() as usize as i32
}

/// Builds the policy from the reserved bytes.
pub fn build(entry: &'static Entry) -> i64 {
    let setup: Option<Setup> = wire::read(&lock(&BYTES));
    let built = setup.ok_or("the system cannot be read".to_owned()).and_then(|setup| {
        let (held, built) = Held::new(entry, setup).map_err(|invalid| invalid.to_string())?;
        *lock(&HELD) = Some(held);
        Ok(built)
    });
    let (built, why) = match built {
        Ok(built) => (Some(built), String::new()),
        Err(why) => (None, why),
    };
    answer(wire::bytes(&(built, why)))
}

/// Answers the question in the input.
pub fn ask() -> i32 {
    with(Held::ask)
}

/// Whether a task can have other terms: the question is in the input, and behind it the [`Terms`] as bytes, one to an integer.
pub fn admits() -> i32 {
    with(|held| {
        held.see();
        let at = held.input.len() - TERMS_WORDS;
        let bytes: Vec<u8> = held.input[at + 1..].iter().map(|word| *word as u8).collect();
        let length = held.input[at] as usize;
        let terms: Terms = wire::read(bytes.get(..length).unwrap_or_default()).expect("terms");
        i32::from(held.mirror.admits(TaskId(held.input[head::KIND + 1] as u32), &terms))
    })
}

/// The CPU that a task belongs to.
pub fn home(task: i32) -> i32 {
    with(|held| held.mirror.policy().home(TaskId(task as u32)).map_or(-1, |place| i32::from(place.0)))
}

impl Held {
    fn new(entry: &'static Entry, setup: Setup) -> Result<(Held, Built), Invalid> {
        let Setup { machine, tasks, places, scope, placement, values, cluster, mapper } = setup;
        let spec = PolicySpec { profile: &entry.profile, scope, placement, values, cluster, mapper };
        let system = Machine::under(machine, spec);
        let registry = Registry::default().with(entry);
        let build =
            Build { system: &system, tasks: &tasks, places: &places, spec, first_timer: 0, registry: &registry };
        let policy = build.policy()?;
        let (timers, meters) = (policy.timers(), policy.meters());
        let (cpus, resources, tasks) = (system.cpus.len(), system.resources, system.tasks.len());
        let rows = answer_rows(cpus, tasks, timers);
        let mirror = Mirror::new(system, policy, rows)?;
        let mut input = vec![0; input_words(cpus, tasks, usize::from(resources))];
        let mut output = vec![0; rows * ROW];
        let areas = Areas {
            input: input.as_mut_ptr() as usize as u32,
            input_words: input.len() as u32,
            output: output.as_mut_ptr() as usize as u32,
            output_words: output.len() as u32,
        };
        let lent = Vec::with_capacity(cpus);
        Ok((Held { mirror, cpus, resources, input, output, lent }, Built { timers, meters, areas }))
    }

    /// Takes over the state of the engine that the input describes.
    fn see(&mut self) {
        let Held { mirror, cpus, resources, input, lent, .. } = self;
        let (head, lists) = input.split_at(HEAD);
        mirror.at(Now {
            at: Time::from_ns(head[head::NOW]),
            round: head[head::ROUND] as u64,
            stands: head[head::STANDS] == 1,
        });
        let (on, lists) = lists.split_at(*cpus);
        on.iter().enumerate().for_each(|(cpu, task)| mirror.cpu(cpu, number(*task).map(TaskId)));
        let (places, lists) = lists.split_at(head[head::LENT] as usize);
        lent.clear();
        lent.extend(places.iter().map(|place| Place(*place as u16)));
        let (mut left, tasks) = lists.split_at(head[head::RESOURCES] as usize);
        for resource in (0..*resources).map(ResourceId) {
            let (owner, waiting) = (number(left[0]).map(TaskId), left[1] as usize);
            let (waiters, rest) = left[2..].split_at(waiting);
            mirror.resource(resource, owner, waiters.iter().map(|task| TaskId(*task as u32)));
            left = rest;
        }
        for changed in tasks.chunks_exact(1 + TASK_WORDS).take(head[head::CHANGED] as usize) {
            let view = changed[1..].try_into().expect("a chunk has this length");
            mirror.task(TaskId(changed[0] as u32), view);
        }
    }

    fn ask(&mut self) -> i32 {
        self.see();
        let Held { mirror, input, output, lent, .. } = self;
        let [kind, first, second, third] = [0, 1, 2, 3].map(|at| input[head::KIND + at]);
        let mut rows = output.chunks_exact_mut(ROW);
        let mut count = 0;
        let mut put = |row: Row| {
            // More than there is room for ends the module.
            rows.next().expect("room for the answer").copy_from_slice(&row.words());
            count += 1;
        };
        match Question::read([kind, first, second, third]).expect("a question") {
            Question::Start => mirror.start(),
            Question::Event(event) => mirror.event(&event),
            Question::Decide => mirror.decide(lent).iter().for_each(|assignment| put(Row::Assign(*assignment))),
        }
        mirror.acts().iter().for_each(|act| put(Row::Act(*act)));
        count
    }
}
