//! Values as bytes: what a host and a module exchange while a policy is built. Integers are little-endian; a list begins with its length.

use takt_core::cpus::{CpuSet, MAX_CPUS};
use takt_core::model::{
    Arrival, Backlog, Call, Completion, CpuTest, Execution, Fit, Handler, Kind, Late, Locking, MAX_SETTINGS, Need,
    OnAbort, Placement, Program, Reservation, ResourceId, Scope, Server, ServerId, Step, System, Task, TaskId, Terms,
    Timing, Values,
};
use takt_core::record::Place;
use takt_core::time::{Span, Time};
use takt_core::utility::Utility;
use takt_core::work::Speed;

/// A value that is written as bytes and read back.
pub trait Wire: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads a value from the front; `None` for bytes that are none.
    fn take(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! integers {
    ($($kind:ty),*) => {
        $(impl Wire for $kind {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(from: &mut &[u8]) -> Option<Self> {
                let (first, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(Self::from_le_bytes(*first))
            }
        })*
    };
}
integers!(u8, u16, u32, i32, u64, i64);

/// Types that are made from another one, and give it back.
macro_rules! wrapped {
    ($($kind:ty: $inner:ty, $out:expr, $into:expr;)*) => {
        $(impl Wire for $kind {
            fn put(&self, out: &mut Vec<u8>) {
                let value: fn(&$kind) -> $inner = $out;
                value(self).put(out);
            }
            fn take(from: &mut &[u8]) -> Option<Self> {
                let value: fn($inner) -> Option<$kind> = $into;
                value(Wire::take(from)?)
            }
        })*
    };
}
wrapped! {
    bool: u8, |value| u8::from(*value), |byte| (byte < 2).then_some(byte == 1);
    Span: i64, |span| span.ns(), |ns| Some(Span::from_ns(ns));
    Time: i64, |time| time.ns(), |ns| Some(Time::from_ns(ns));
    Speed: u32, |speed| speed.millionths(), Speed::from_millionths;
    TaskId: u32, |task| task.0, |number| Some(TaskId(number));
    ResourceId: u16, |resource| resource.0, |number| Some(ResourceId(number));
    ServerId: u32, |server| server.0, |number| Some(ServerId(number));
    Place: u16, |place| place.0, |number| Some(Place(number));
    String: Vec<u8>, |text| text.clone().into_bytes(), |bytes| String::from_utf8(bytes).ok();
    CpuSet: Vec<u16>, |set| set.iter().map(|cpu| cpu as u16).collect(), |cpus| {
        cpus.iter().all(|cpu| usize::from(*cpu) < MAX_CPUS).then(|| cpus.iter().map(|cpu| usize::from(*cpu)).collect())
    };
    Program: (Vec<Step>, Execution), |program| (program.steps.clone(), program.execution.clone()),
        |(steps, execution)| Some(Program::new(steps, execution));
    Call: (String, Span), |call| (call.parts().0.to_owned(), call.parts().1), |(name, span)| Call::from_parts(&name, span);
    Values: Vec<Option<i64>>, |values| values.iter().collect(), |all| {
        let mut values = Values::NONE;
        let fits = all.len() <= MAX_SETTINGS;
        all.into_iter().enumerate().take(MAX_SETTINGS).for_each(|(index, value)| values.set(index, value));
        fits.then_some(values)
    };
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        if bool::take(from)? { T::take(from).map(Some) } else { Some(None) }
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        self.iter().for_each(|value| value.put(out));
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        let length = u32::take(from)?;
        // Each value has a byte at least, so that a wrong length ends here.
        (length as usize <= from.len()).then_some(())?;
        (0..length).map(|_| T::take(from)).collect()
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        Some((A::take(from)?, B::take(from)?))
    }
}

/// A structure, by its fields. A field that the model receives has to be added, or it does not compile.
macro_rules! fields {
    ($($name:ident { $($field:ident),* $(,)? })*) => {
        $(impl Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let $name { $($field),* } = self;
                $($field.put(out);)*
            }
            fn take(from: &mut &[u8]) -> Option<Self> {
                $(let $field = Wire::take(from)?;)*
                Some($name { $($field),* })
            }
        })*
    };
}

/// An enumeration, each variant with its number.
macro_rules! variants {
    ($($name:ident { $($tag:literal: $variant:ident $(($value:ident))? $({ $($field:ident),* })?,)* })*) => {
        $(impl Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$variant $(($value))? $({ $($field),* })? => {
                        u8::put(&$tag, out);
                        $($value.put(out);)?
                        $($($field.put(out);)*)?
                    })*
                }
            }
            fn take(from: &mut &[u8]) -> Option<Self> {
                Some(match u8::take(from)? {
                    $($tag => {
                        $(let $value = Wire::take(from)?;)?
                        $($(let $field = Wire::take(from)?;)*)?
                        $name::$variant $(($value))? $({ $($field),* })?
                    })*
                    _ => return None,
                })
            }
        })*
    };
}

variants! {
    Arrival {
        0: Periodic { offset, period },
        1: Sporadic { offset, period, spread },
        2: Listed { instants },
        3: Event { distance, queue, after },
        4: Activated,
    }
    Step {
        0: Run(span),
        1: Sleep(span),
        2: Lock(resource),
        3: Unlock(resource),
        4: Yield,
        5: Call(call),
        6: WaitPeriod,
    }
    Execution {
        0: Declared,
        1: Uniform { least, most },
        2: Series(spans),
    }
    OnAbort { 0: Finish, 1: Restart, 2: Signal, }
    Completion { 0: Undeclared, 1: Signal, 2: Exit, 3: None, }
    Utility {
        0: Step(height),
        1: Linear { height, until },
        2: Exponential { height, half_life },
        3: Table(points),
    }
    Late { 0: Continue, 1: Abort, 2: AbortAtEvent, }
    Backlog { 0: Queue, 1: Skip, 2: Chronos, 3: Hartstone, }
    Locking { 0: Fifo, 1: Inheritance, 2: Ceiling, }
    Scope { 0: Uniprocessor, 1: Global, 2: Partitioned, 3: Clustered, 4: Table, }
    Fit { 0: First, 1: Best, 2: Worst, }
    Need { 0: Period, 1: Deadline, 2: Runtime, 3: Utility, 4: Reservation, }
    Takes { 0: Duration { least, most }, 1: Ratio { least, most }, 2: Count { least, most }, 3: Choice(words), }
}

fields! {
    Handler { runtime, deadline, utility }
    Reservation { budget, period, deadline }
    Server { reservation, priority }
    Task {
        arrival, deadline, runtime, program, handler, on_abort, completion, utility, budget, jitter, reservation, server, priority, share,
        importance, affinity,
    }
    Timing { tick, resolution, lateness }
    Placement { fit, decreasing }
    Terms { period, deadline, runtime, reservation }
    Setting { name, kind, default, summary }
    Profile { name, summary, manual, scopes, needs, has_demand_test, settings }
    Setup { machine, tasks, places, scope, placement, values, cluster, mapper }
    Machine { cpus, speeds, tasks, removed, servers, late, backlog, resources, locking, timing, horizon, seed }
    Areas { input, input_words, output, output_words }
    Built { timers, meters, areas }
}

/// A [`Kind`] whose words are owned.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "as those of `Kind`")]
pub enum Takes {
    Duration { least: Span, most: Span },
    Ratio { least: i64, most: i64 },
    Count { least: i64, most: i64 },
    Choice(Vec<String>),
}

/// A setting of a policy ([`takt_core::model::Setting`]).
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "as those of `Setting`")]
pub struct Setting {
    pub name: String,
    pub kind: Takes,
    pub default: String,
    pub summary: String,
}

/// The description of the policy in a module ([`takt_core::model::Profile`]). Facts are not among it: analysis relies on no claim of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// One line about it.
    pub summary: String,
    /// Its manual page.
    pub manual: String,
    /// The scopes that it can be used with.
    pub scopes: Vec<Scope>,
    /// Keys that every task must have.
    pub needs: Vec<Need>,
    /// Whether processor demand is the exact test of one CPU.
    pub has_demand_test: bool,
    /// Its settings.
    pub settings: Vec<Setting>,
}

impl Profile {
    /// The profile of an entry of a registry.
    #[must_use]
    pub fn of(entry: &takt_core::policy::Entry) -> Profile {
        let profile = &entry.profile;
        let kind = |kind: &Kind| match *kind {
            Kind::Duration(least, most) => Takes::Duration { least, most },
            Kind::Ratio(least, most) => Takes::Ratio { least, most },
            Kind::Count(least, most) => Takes::Count { least, most },
            Kind::Choice(words) => Takes::Choice(words.iter().map(|&word| word.to_owned()).collect()),
        };
        let setting = |setting: &takt_core::model::Setting| Setting {
            name: setting.name.to_owned(),
            kind: kind(&setting.kind),
            default: setting.default.to_owned(),
            summary: setting.summary.to_owned(),
        };
        Profile {
            name: profile.name.to_owned(),
            summary: profile.summary.to_owned(),
            manual: entry.manual.to_owned(),
            scopes: profile.scopes.to_vec(),
            needs: profile.needs.to_vec(),
            has_demand_test: matches!(profile.test, CpuTest::Demand),
            settings: profile.settings.iter().map(setting).collect(),
        }
    }
}

/// The parts of a [`System`] that a policy of jobs sees.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "as those of `System`")]
pub struct Machine {
    pub cpus: CpuSet,
    pub speeds: Vec<Speed>,
    pub tasks: Vec<Task>,
    pub removed: Vec<TaskId>,
    pub servers: Vec<Server>,
    pub late: Late,
    pub backlog: Backlog,
    pub resources: u16,
    pub locking: Locking,
    pub timing: Timing,
    pub horizon: Option<Time>,
    pub seed: u64,
}

impl Machine {
    /// Those parts of a system. Window tables, domains and other policies stay with the host.
    #[must_use]
    pub fn of(system: &System) -> Machine {
        let System { cpus, speeds, tasks, removed, servers, late, backlog, resources, .. } = system.clone();
        let System { locking, timing, horizon, seed, .. } = *system;
        Machine { cpus, speeds, tasks, removed, servers, late, backlog, resources, locking, timing, horizon, seed }
    }

    /// The system of these parts under a policy.
    #[must_use]
    pub fn under(self, policy: takt_core::model::PolicySpec) -> System {
        let Machine { cpus, speeds, tasks, removed, servers, late, backlog, resources, locking, timing, horizon, seed } =
            self;
        System {
            speeds,
            tasks,
            removed,
            servers,
            late,
            backlog,
            resources,
            locking,
            timing,
            horizon,
            seed,
            ..System::new(cpus, policy)
        }
    }
}

/// The arguments of the builder of a policy ([`takt_core::policy::Build`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// The system.
    pub machine: Machine,
    /// The tasks that it schedules.
    pub tasks: Vec<TaskId>,
    /// The single-CPU places that it may ever be lent.
    pub places: Vec<Place>,
    /// Its scope.
    pub scope: Scope,
    /// How it places tasks.
    pub placement: Placement,
    /// Its settings.
    pub values: Values,
    /// CPUs of a cluster.
    pub cluster: u16,
    /// Index in the list of mappers.
    pub mapper: u8,
}

/// Where a module has its two areas, as addresses and lengths in integers of 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "said above")]
pub struct Areas {
    pub input: u32,
    pub input_words: u32,
    pub output: u32,
    pub output_words: u32,
}

/// A policy that was built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Built {
    /// How many timers it has.
    pub timers: u16,
    /// Whether it grants budgets to tasks that have none of their own.
    pub meters: bool,
    /// The areas for questions and answers.
    pub areas: Areas,
}

/// The value in these bytes, and nothing else.
#[must_use]
pub fn read<T: Wire>(mut bytes: &[u8]) -> Option<T> {
    let value = T::take(&mut bytes)?;
    bytes.is_empty().then_some(value)
}

/// The bytes of a value.
#[must_use]
pub fn bytes<T: Wire>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    value.put(&mut out);
    out
}
