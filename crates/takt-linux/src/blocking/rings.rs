//! The rings that the kernel writes the records of its scheduler to, one for each CPU.

use super::decode::{Change, Formats, Switch, WORDS, started};
use crate::disturbance;
use crate::group::{Unavailable, fix_of};
use crate::job_end::{events, number};
use crate::sys::{Counter, Ring};
use crate::tracing::text;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::AsFd;
use std::io;
use std::ops::RangeInclusive;
use takt_core::time::Span;

/// The size of the ring of the waits of a CPU, in pages: room for 340 records where a page has 4 KiB.
const PAGES: usize = 8;
/// The size of the ring of the starts of a CPU, in pages: room for 6500 switches, since it has the switches of all threads.
const PAGES_OF_STARTS: usize = 64;
/// When the descriptor of the rings becomes readable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notices {
    /// When half of a ring is full: the records are read when there is another reason to do so.
    Quiet,
    /// At each block, wake-up, begin and end.
    Each,
}

/// The rings of all CPUs, two for each.
#[derive(Debug)]
pub struct Switches {
    formats: Formats,
    rings: Vec<CpuRing>,
    /// The records that the kernel had no room for, up to the last look.
    lost: u64,
}

/// A ring of one CPU.
#[derive(Debug)]
struct CpuRing {
    ring: Ring,
    holds: Holds,
    /// The first record that has not been taken.
    next: Option<Switch>,
    /// They write to the ring, too.
    _others: Vec<Counter>,
}

/// The records of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holds {
    /// Tracepoints: blocks, ends, wake-ups and begins of the threads that are observed.
    Waits,
    /// Any thread that gets the CPU.
    Starts,
}

impl CpuRing {
    /// Blocks, ends, wake-ups and begins.
    fn of_waits(formats: &Formats, cpu: usize, filters: &Filters, notices: Notices) -> io::Result<CpuRing> {
        let [switch, wakeup, begin] = formats.numbers();
        let bytes = if notices == Notices::Each { 1 } else { half(PAGES) };
        let ring = tracepoint(switch, cpu, bytes, &filters.leaves)?.into_ring(PAGES)?;
        let others = [wakeup, begin].map(|number| tracepoint(number, cpu, bytes, &filters.wakes));
        let others = others.into_iter().collect::<io::Result<Vec<Counter>>>()?;
        others.iter().try_for_each(|other| other.write_to(&ring))?;
        Ok(CpuRing { ring, holds: Holds::Waits, next: None, _others: others })
    }

    /// The threads that get the CPU. A notice at each of them would take the CPU from the thread, which would get it again: it would never continue.
    ///
    /// The tracepoint `sched_switch` does not suffice. Where the idle task of a CPU is current, some kernels write neither that record nor the one of the
    /// wake-up (Linux 6.18 under a hypervisor, all CPUs but the first). The thread that gets the CPU writes its record itself.
    fn of_starts(cpu: usize) -> io::Result<CpuRing> {
        let ring = Counter::switches_on_cpu(cpu, half(PAGES_OF_STARTS))?.into_ring(PAGES_OF_STARTS)?;
        Ok(CpuRing { ring, holds: Holds::Starts, next: None, _others: Vec::new() })
    }

    /// Decodes the next record, unless that has happened.
    fn look(&mut self, formats: &Formats) {
        while self.next.is_none() {
            self.next = match self.holds {
                Holds::Waits => {
                    let mut sample = [0; WORDS];
                    let Some(words) = self.ring.take(&mut sample) else { return };
                    formats.decode(&sample[..words])
                }
                Holds::Starts => {
                    let Some((thread, instant)) = self.ring.take_start() else { return };
                    started(thread, instant)
                }
            };
        }
    }
}

fn tracepoint(number: u16, cpu: usize, bytes: u32, filter: &str) -> io::Result<Counter> {
    let counter = Counter::on_cpu(number.into(), cpu, bytes)?;
    counter.filter(filter)?;
    Ok(counter)
}

/// Half of a ring of so many pages, in bytes.
fn half(pages: usize) -> u32 {
    (pages * rustix::param::page_size() / 2) as u32
}

/// Expressions of fields of the tracepoints.
#[derive(Debug)]
pub(super) struct Filters {
    pub(super) leaves: String,
    pub(super) wakes: String,
}

/// `sched_switch`: the states in which a thread leaves its CPU without being runnable (`TASK_REPORT` of `include/linux/sched.h`). A preempted thread has none.
const LEAVES: &str = "prev_state & 127";

impl Filters {
    /// Threads of the class FIFO with these priorities. The kernel counts priorities downwards from 99.
    pub(super) fn of_priorities(fifo: &RangeInclusive<u8>) -> Filters {
        let (first, last) = (99 - fifo.end(), 99 - fifo.start());
        Filters {
            leaves: format!("prev_prio >= {first} && prev_prio <= {last} && {LEAVES}"),
            wakes: format!("prio >= {first} && prio <= {last}"),
        }
    }

    pub(super) fn of_thread(thread: i32) -> Filters {
        Filters { leaves: format!("prev_pid == {thread} && {LEAVES}"), wakes: format!("pid == {thread}") }
    }
}

impl Switches {
    /// Observes all threads with a FIFO priority in this range, on all CPUs, from now on. A start ([`Change::Runs`]) is reported of any thread.
    ///
    /// # Errors
    /// The kernel does not let this user observe other processes, or lacks what is needed.
    pub fn open(fifo: &RangeInclusive<u8>, notices: Notices) -> Result<Switches, Unavailable> {
        Switches::try_out()?;
        Switches::with(&Filters::of_priorities(fifo), notices)
    }

    /// Has the kernel report a sleep of the calling thread.
    ///
    /// # Errors
    /// As [`Switches::open`].
    pub fn try_out() -> Result<(), Unavailable> {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let mut switches = Switches::with(&Filters::of_thread(own), Notices::Quiet)?;
        std::thread::sleep(std::time::Duration::from_millis(1));
        let mut seen = Vec::new();
        while let Some(switch) = switches.take(crate::timer::now()) {
            seen.extend((switch.thread == own).then_some(switch.change));
        }
        // The wake-up may have no record where the CPU was idle.
        seen.retain(|change| *change != Change::Wakes);
        if seen.windows(2).any(|pair| pair == [Change::Blocks, Change::Runs]) {
            return Ok(());
        }
        Err(Unavailable {
            reason: "the kernel reports no sleep of this process, which is in a PID namespace of its own".to_owned(),
            fix: "run takt in the namespace of the host (docker run --pid=host)".to_owned(),
        })
    }

    pub(super) fn with(filters: &Filters, notices: Notices) -> Result<Switches, Unavailable> {
        let formats = formats().map_err(|e| Unavailable {
            reason: format!("the kernel's tracepoints of its scheduler cannot be read: {e}"),
            fix: "run as root; the kernel needs CONFIG_TRACEFS".to_owned(),
        })?;
        let online = disturbance::online().ok_or_else(|| Unavailable {
            reason: "the kernel does not show which CPUs are online".to_owned(),
            fix: "mount -t sysfs sysfs /sys".to_owned(),
        })?;
        let waits = online.iter().map(|cpu| CpuRing::of_waits(&formats, cpu, filters, notices));
        let starts = online.iter().map(CpuRing::of_starts);
        let rings = waits.chain(starts).collect::<io::Result<Vec<CpuRing>>>();
        let rings = rings.map_err(|e| Unavailable {
            reason: format!("the kernel refuses to observe its CPUs: {e}"),
            fix: fix_of(&e, "run as root, or: setcap cap_perfmon,cap_ipc_lock=ep $(command -v takt)"),
        })?;
        Ok(Switches { formats, rings, lost: 0 })
    }

    /// From now on its notices are heard there, each as a change.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn register(&self, epoll: &impl AsFd, data: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::ET;
        self.rings.iter().try_for_each(|ring| Ok(epoll::add(epoll, &ring.ring, EventData::new_u64(data), flags)?))
    }

    /// From now on its notices are not heard there.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn unregister(&self, epoll: &impl AsFd) -> io::Result<()> {
        self.rings.iter().try_for_each(|ring| Ok(epoll::delete(epoll, &ring.ring)?))
    }

    /// Whether a record waits to be taken. No system call. O(CPUs).
    #[must_use]
    pub fn has_records(&self) -> bool {
        self.rings.iter().any(|ring| ring.next.is_some() || !ring.ring.is_empty())
    }

    /// The instant of the next record, if there is one. O(CPUs).
    pub fn first(&mut self) -> Option<Span> {
        self.rings.iter_mut().for_each(|ring| ring.look(&self.formats));
        self.rings.iter().filter_map(|ring| ring.next.map(|switch| switch.at)).min()
    }

    /// Takes the next record, if its instant is not after `until`. The records of all CPUs come in the order of their instants. It neither blocks nor
    /// allocates, and makes no system call. O(CPUs).
    pub fn take(&mut self, until: Span) -> Option<Switch> {
        self.rings.iter_mut().for_each(|ring| ring.look(&self.formats));
        take_first(self.rings.iter_mut().map(|ring| &mut ring.next), until)
    }

    /// Closes the rings on a thread of its own, and does not wait for it. The kernel waits for all CPUs when the last descriptor of a tracepoint is closed, up
    /// to 50 ms for each of the three.
    pub fn close_beside(&mut self) {
        let rings = std::mem::take(&mut self.rings);
        // Without a thread, they are closed here.
        let _ = std::thread::Builder::new().name("takt-rings".into()).spawn(move || drop(rings));
    }

    /// How many records were lost since the last call, because a ring was full: the states of threads are unknown until their next records.
    pub fn take_lost(&mut self) -> u64 {
        let lost = self.rings.iter().map(|ring| ring.ring.lost()).sum();
        lost - std::mem::replace(&mut self.lost, lost)
    }
}

/// Takes the earliest of these, if its instant is not after `until`. Of several with one instant, a block comes before a wake-up: the kernel reports the
/// wake-up of a thread after its block.
pub(super) fn take_first<'a>(heads: impl Iterator<Item = &'a mut Option<Switch>>, until: Span) -> Option<Switch> {
    let first = heads.filter(|head| head.is_some_and(|switch| switch.at <= until));
    first.min_by_key(|head| head.map(|switch| (switch.at, switch.change))).and_then(Option::take)
}

fn formats() -> io::Result<Formats> {
    let events = events()?;
    let of = |name: &str| {
        let number = u16::try_from(number(&events, name)?).map_err(io::Error::other)?;
        Ok::<(u16, String), io::Error>((number, text(&events, &format!("{name}/format"))?))
    };
    let all = ["sched/sched_switch", "sched/sched_wakeup", "sched/sched_wakeup_new"].map(of);
    let [switch, wakeup, begin] = all;
    Formats::parse([switch?, wakeup?, begin?].each_ref().map(|(number, text)| (*number, text.as_str())))
        .ok_or_else(|| io::Error::other("the format of its scheduler's tracepoints is not known"))
}

/// The time that one record takes from the CPU on which it is written, measured with two threads that send a byte to and fro: the median of several rounds.
///
/// # Errors
/// As [`Switches::open`]; and when the threads cannot be set up.
pub fn cost() -> Result<Span, Unavailable> {
    const TURNS: i64 = 400;
    const ROUNDS: usize = 9;
    let failed =
        |e: io::Error| Unavailable { reason: format!("the cost cannot be measured: {e}"), fix: "run as root".into() };
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let round = |switches: Option<&mut Switches>| {
        let took = ping_pong(TURNS).map_err(failed)?;
        let records = switches.map_or(0, |switches| std::iter::from_fn(|| switches.take(Span::MAX)).count());
        Ok::<(Span, usize), Unavailable>((took, records))
    };
    let mut costs = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let (without, _) = round(None)?;
        let mut switches = Switches::with(&Filters::of_thread(own), Notices::Quiet)?;
        let (with, records) = round(Some(&mut switches))?;
        costs.push((with - without).ns() / records.max(1) as i64);
    }
    costs.sort_unstable();
    Ok(Span::from_ns(costs[ROUNDS / 2].max(0)))
}

/// The CPU time that this thread and another one on its CPU need to exchange so many bytes.
fn ping_pong(turns: i64) -> io::Result<Span> {
    let (here, there) = std::os::unix::net::UnixStream::pair()?;
    let cpu = crate::rt::affinity(0)?.iter().next().map(takt_core::cpus::CpuSet::single);
    let pin = move || cpu.map_or(Ok(()), |cpu| crate::rt::set_affinity(0, &cpu));
    let before = crate::rt::affinity(0)?;
    let echo = std::thread::spawn(move || {
        pin()?;
        let mut byte = [0];
        for _ in 0..turns {
            rustix::io::read(&there, &mut byte)?;
            rustix::io::write(&there, &byte)?;
        }
        Ok::<(), io::Error>(())
    });
    let exchange = || {
        pin()?;
        let began = crate::timer::cpu_now();
        let mut byte = [0];
        for _ in 0..turns {
            rustix::io::write(&here, &byte)?;
            rustix::io::read(&here, &mut byte)?;
        }
        Ok::<Span, io::Error>(crate::timer::cpu_now() - began)
    };
    let took = exchange();
    let _ = crate::rt::set_affinity(0, &before);
    drop(here);
    let echoed = echo.join().map_err(|_| io::Error::other("a thread failed"))?;
    took.and_then(|took| echoed.map(|()| took))
}
