//! A module in the interpreter: its memory, and the calls into it.

use crate::contents::{ENTRIES, MEMORY, TABLES, find_memory};
use crate::fault::{Fault, LoadError};
use crate::loaded::Loaded;
use takt_core::model::{ResourceId, TaskId, Terms};
use takt_core::policy::{Context, TASK_WORDS, TaskView};
use takt_core::record::Place;
use takt_wasm_module::ABI;
use takt_wasm_module::wire::{self, Areas, Built, Profile, Setup, Wire};
use takt_wasm_module::words::{HEAD, Question, ROW, Row, TERMS_WORDS, head, input_words, optional};
use wasmi::{
    CompilationMode, Config, Engine, ExternType, Linker, Memory, Module, Store, StoreLimits, StoreLimitsBuilder,
    TrapCode, TypedFunc,
};

/// A page of a module's memory, in bytes.
const PAGE: usize = 64 << 10;

/// Instructions until a policy is built: less than a second. A run builds it on its supervising thread, which sends signs of life to a service manager.
const LOAD_FUEL: u64 = 200_000_000;

/// The interpreter, as all modules have it: everything is compiled when a module is loaded.
pub(crate) fn interpreter() -> Engine {
    let mut config = Config::default();
    config.consume_fuel(true).compilation_mode(CompilationMode::Eager);
    Engine::new(&config)
}

/// Bounds what an instance allocates, with so many bytes of memory. No instruction of an accepted module grows tables.
fn limits(memory: usize) -> StoreLimits {
    let limits = StoreLimitsBuilder::new().memory_size(memory).memories(1).instances(1);
    limits.tables(TABLES as usize).table_elements(ENTRIES as usize).build()
}

/// The fault behind an error of the interpreter.
pub(crate) fn fault(error: &wasmi::Error) -> Fault {
    match error.as_trap_code() {
        Some(TrapCode::OutOfFuel) => Fault::Fuel,
        Some(TrapCode::GrowthOperationLimited) => Fault::Memory,
        Some(TrapCode::UnreachableCodeReached) => Fault::Trap("it panicked"),
        Some(TrapCode::StackOverflow) => Fault::Trap("its stack is exhausted"),
        Some(TrapCode::MemoryOutOfBounds) => Fault::Trap("it left its memory"),
        Some(code) => Fault::Trap(code.trap_message()),
        None => Fault::Trap("it cannot continue"),
    }
}

pub(crate) struct Instance {
    store: Store<StoreLimits>,
    memory: Memory,
    ask: TypedFunc<(), i32>,
    admits: TypedFunc<(), i32>,
    home: TypedFunc<i32, i32>,
    areas: Areas,
    fuel: u64,
    /// The tasks as the module has seen them last.
    seen: Vec<TaskView>,
}

/// A module whose policy has not been built.
pub(crate) struct Opened {
    store: Store<StoreLimits>,
    instance: wasmi::Instance,
    memory: Memory,
}

impl Opened {
    pub(crate) fn new(engine: &Engine, module: &Module) -> Result<Opened, LoadError> {
        // Memory and tables that cannot be allocated are refused. Smaller allocations beside them would end the process.
        if let Some(ExternType::Memory(memory)) = module.get_export("memory") {
            find_memory(memory.minimum().saturating_mul(PAGE as u64))?;
        }
        let mut store = Store::new(engine, limits(MEMORY as usize));
        store.limiter(|limits| limits);
        store.set_fuel(LOAD_FUEL).expect("fuel is metered");
        let instance = Linker::new(engine).instantiate_and_start(&mut store, module);
        let instance = instance.map_err(|error| match error.as_trap_code() {
            Some(_) => LoadError::Fails(fault(&error)),
            None => LoadError::NotWasm(error.to_string()),
        })?;
        let memory = instance.get_memory(&store, "memory").ok_or(LoadError::Lacks("memory"))?;
        Ok(Opened { store, instance, memory })
    }

    fn function<A, R>(&self, name: &'static str) -> Result<TypedFunc<A, R>, LoadError>
    where
        A: wasmi::WasmParams,
        R: wasmi::WasmResults,
    {
        self.instance.get_typed_func(&self.store, name).map_err(|_| LoadError::Lacks(name))
    }

    fn call<A, R>(&mut self, name: &'static str, arguments: A) -> Result<R, LoadError>
    where
        A: wasmi::WasmParams,
        R: wasmi::WasmResults,
    {
        let function = self.function::<A, R>(name)?;
        function.call(&mut self.store, arguments).map_err(|error| LoadError::Fails(fault(&error)))
    }

    /// The value at an address and a length, which a function has returned.
    fn value<T: Wire>(&self, packed: i64) -> Result<T, LoadError> {
        let (at, length) = ((packed as u64 >> 32) as usize, packed as u32 as usize);
        let bytes = self.memory.data(&self.store).get(at..at.saturating_add(length));
        bytes.and_then(wire::read).ok_or(LoadError::Fails(Fault::Row))
    }

    /// The description of its policy.
    pub(crate) fn profile(&mut self) -> Result<Profile, LoadError> {
        let version = self.call::<(), i32>("takt_abi", ())?;
        if version != ABI {
            return Err(LoadError::Version(version));
        }
        self.function::<i32, i32>("takt_reserve")?;
        self.function::<(), i64>("takt_build")?;
        self.function::<(), i32>("takt_ask")?;
        self.function::<(), i32>("takt_admits")?;
        self.function::<i32, i32>("takt_home")?;
        let profile = self.call("takt_profile", ())?;
        self.value(profile)
    }

    /// Builds the policy. From then on the memory of the module does not grow.
    ///
    /// # Errors
    /// A module that does not answer, or the words of a policy that cannot schedule the system.
    pub(crate) fn build(mut self, setup: &Setup, fuel: u64) -> Result<(Instance, Built), String> {
        let said = |error: LoadError| format!("the module of this policy cannot build it: {error}");
        let bytes = wire::bytes(setup);
        let at = self.call::<i32, i32>("takt_reserve", bytes.len() as i32).map_err(said)?;
        self.memory
            .write(&mut self.store, at as u32 as usize, &bytes)
            .map_err(|_| said(LoadError::Fails(Fault::Row)))?;
        let packed = self.call("takt_build", ()).map_err(said)?;
        let (built, why): (Option<Built>, String) = self.value(packed).map_err(said)?;
        let built = built.ok_or(why)?;
        let machine = &setup.machine;
        let words = input_words(machine.cpus.len(), machine.tasks.len(), usize::from(machine.resources));
        let size = self.memory.data(&self.store).len();
        let lies = |at: u32, words: u32| at as usize + 8 * words as usize <= size;
        let Areas { input, input_words, output, output_words } = built.areas;
        if (input_words as usize) < words || !lies(input, input_words) || !lies(output, output_words) {
            return Err(said(LoadError::Fails(Fault::Row)));
        }
        *self.store.data_mut() = limits(size);
        let instance = Instance {
            ask: self.function("takt_ask").map_err(said)?,
            admits: self.function("takt_admits").map_err(said)?,
            home: self.function("takt_home").map_err(said)?,
            store: self.store,
            memory: self.memory,
            areas: built.areas,
            fuel,
            seen: vec![[i64::MAX; TASK_WORDS]; machine.tasks.len()],
        };
        Ok((instance, built))
    }
}

/// Writes integers one after the other.
struct Words<'a>(std::slice::ChunksExactMut<'a, u8>);

impl Words<'_> {
    fn put(&mut self, word: i64) {
        if let Some(place) = self.0.next() {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
}

impl Instance {
    /// Writes a question, and what has changed since the last one. O(tasks + CPUs + resources).
    fn tell(&mut self, words: [i64; 4], lent: &[Place], cx: &Context<'_>) {
        let Instance { store, memory, areas, seen, .. } = self;
        let (from, length) = (areas.input as usize, 8 * areas.input_words as usize);
        let area = &mut memory.data_mut(store)[from..from + length];
        let (head_area, lists) = area.split_at_mut(8 * HEAD);
        let mut out = Words(lists.chunks_exact_mut(8));
        let system = cx.system();
        for cpu in 0..system.cpus.len() {
            out.put(optional(cx.running_on(Place(cpu as u16)).map(|task| task.0)));
        }
        lent.iter().for_each(|place| out.put(i64::from(place.0)));
        let mut resources = 0;
        for resource in (0..system.resources).map(ResourceId) {
            let waiting = cx.waiters(resource).count();
            out.put(optional(cx.owner(resource).map(|task| task.0)));
            out.put(waiting as i64);
            cx.waiters(resource).for_each(|task| out.put(i64::from(task.0)));
            resources += 2 + waiting;
        }
        let mut changed = 0;
        for (index, seen) in seen.iter_mut().enumerate() {
            let view = cx.view(TaskId(index as u32));
            if view != *seen {
                *seen = view;
                changed += 1;
                out.put(index as i64);
                view.iter().for_each(|word| out.put(*word));
            }
        }
        let mut all = [0; HEAD];
        all[head::KIND..head::KIND + 4].copy_from_slice(&words);
        all[head::NOW] = cx.now().ns();
        all[head::ROUND] = cx.round() as i64;
        all[head::STANDS] = i64::from(cx.stands());
        all[head::LENT] = lent.len() as i64;
        all[head::RESOURCES] = resources as i64;
        all[head::CHANGED] = changed;
        let mut out = Words(head_area.chunks_exact_mut(8));
        all.iter().for_each(|word| out.put(*word));
    }

    fn refuel(&mut self) {
        self.store.set_fuel(self.fuel).expect("fuel is metered");
    }

    /// Asks the module; its answer is in `rows`, which has room for as many as a policy may give.
    pub(crate) fn ask(
        &mut self,
        question: Question,
        lent: &[Place],
        cx: &Context<'_>,
        rows: &mut Vec<Row>,
    ) -> Result<(), Fault> {
        self.tell(question.words(), lent, cx);
        self.refuel();
        let count = self.ask.call(&mut self.store, ()).map_err(|error| fault(&error))?;
        let count = usize::try_from(count).map_err(|_| Fault::Row)?;
        if count > rows.capacity() || count * ROW > self.areas.output_words as usize {
            return Err(Fault::TooMuch);
        }
        let from = self.areas.output as usize;
        let area = &self.memory.data(&self.store)[from..from + 8 * ROW * count];
        rows.clear();
        for row in area.chunks_exact(8 * ROW) {
            let mut words = [0; ROW];
            for (word, bytes) in words.iter_mut().zip(row.chunks_exact(8)) {
                *word = i64::from_le_bytes(bytes.try_into().map_err(|_| Fault::Row)?);
            }
            rows.push(Row::read(words).ok_or(Fault::Row)?);
        }
        Ok(())
    }

    /// Asks whether the task can have these terms. A copy of the module answers, whose state is that of its memory: the question may be about a change that
    /// is never made, so neither the answer nor a fault may leave a trace in the schedule. This allocates.
    pub(crate) fn admits(
        &self,
        loaded: &Loaded,
        task: TaskId,
        terms: &Terms,
        cx: &Context<'_>,
    ) -> Result<bool, LoadError> {
        let mut copy = self.copy(loaded)?;
        copy.tell([0, i64::from(task.0), 0, 0], &[], cx);
        let end = copy.areas.input as usize + 8 * copy.areas.input_words as usize;
        let area = &mut copy.memory.data_mut(&mut copy.store)[end - 8 * TERMS_WORDS..end];
        let mut out = Words(area.chunks_exact_mut(8));
        let bytes = wire::bytes(terms);
        out.put(bytes.len() as i64);
        bytes.iter().for_each(|byte| out.put(i64::from(*byte)));
        copy.refuel();
        let answer = copy.admits.call(&mut copy.store, ());
        answer.map(|answer| answer == 1).map_err(|error| LoadError::Fails(fault(&error)))
    }

    /// Another instance in the same state.
    fn copy(&self, loaded: &Loaded) -> Result<Instance, LoadError> {
        let mut opened = Opened::new(&loaded.engine, &loaded.module)?;
        let from = self.memory.data(&self.store);
        let missing = from.len().saturating_sub(opened.memory.data(&opened.store).len());
        let grown = opened.memory.grow(&mut opened.store, (missing / PAGE) as u64);
        grown.map_err(|_| LoadError::Fails(Fault::Row))?;
        opened.memory.write(&mut opened.store, 0, from).map_err(|_| LoadError::Fails(Fault::Row))?;
        Ok(Instance {
            ask: opened.function("takt_ask")?,
            admits: opened.function("takt_admits")?,
            home: opened.function("takt_home")?,
            store: opened.store,
            memory: opened.memory,
            areas: self.areas,
            fuel: self.fuel,
            seen: self.seen.clone(),
        })
    }

    /// The CPU that a task belongs to.
    pub(crate) fn home(&mut self, task: TaskId, cpus: usize) -> Option<Place> {
        self.refuel();
        let place = self.home.call(&mut self.store, task.0 as i32).ok()?;
        u16::try_from(place).ok().filter(|place| usize::from(*place) < cpus).map(Place)
    }
}
