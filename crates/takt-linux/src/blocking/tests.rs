use super::decode::encode::{FORMATS, encode};
use super::decode::{Change, Formats, Switch, started};
use super::rings::{Filters, Notices, Switches, take_first};
use super::threads::{Threads, Transition};
use proptest::prelude::*;
use rustix::event::epoll;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use takt_core::time::Span;
use takt_testing::{Capability, skip};

fn formats_of_tests() -> Formats {
    Formats::parse(FORMATS).expect("formats")
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        Just(Change::Blocks),
        Just(Change::Wakes),
        Just(Change::Runs),
        Just(Change::Ends),
        (1..9i32).prop_map(|by| Change::Begins { by })
    ]
}

fn switch() -> impl Strategy<Value = Switch> {
    (0..40i64, 1..9i32, change()).prop_map(|(at, thread, change)| Switch { at: Span::from_ns(at), thread, change })
}

#[test]
fn a_format_without_a_field_is_refused() {
    for missing in ["prev_pid", "prev_state", " pid", "common_pid"] {
        let [switch, wakeup, begin] = FORMATS.map(|(number, text)| (number, text.replace(missing, " other")));
        let all = [&switch, &wakeup, &begin].map(|(number, text)| (*number, text.as_str()));
        assert!(Formats::parse(all).is_none(), "{missing}");
    }
}

#[test]
fn a_range_of_priorities_is_counted_as_the_kernel_does() {
    let filters = Filters::of_priorities(&(10..=69));
    assert_eq!(filters.wakes, "prio >= 30 && prio <= 89");
    assert_eq!(filters.leaves, "prev_prio >= 30 && prev_prio <= 89 && prev_state & 127");
}

/// A second account: by task, the states of all threads, changed one by one.
#[derive(Default)]
struct Account(BTreeMap<i32, (usize, bool, Span)>);

impl Account {
    fn is_blocked(&self, task: usize) -> bool {
        let mut of = self.0.values().filter(|(of, ..)| *of == task).peekable();
        of.peek().is_some() && of.all(|(_, runnable, _)| !runnable)
    }
    fn take_in(&mut self, switch: &Switch) {
        let Switch { at, thread, change } = *switch;
        if let Change::Begins { by } = change {
            if let Some(&(task, ..)) = self.0.get(&by) {
                self.0.insert(thread, (task, true, at));
            }
            return;
        }
        let Some(known) = self.0.get_mut(&thread).filter(|(.., last)| at >= *last) else { return };
        match change {
            Change::Ends => drop(self.0.remove(&thread)),
            _ => *known = (known.0, matches!(change, Change::Wakes | Change::Runs), at),
        }
    }
}

proptest! {
    #[test]
    fn records_of_the_kernel_are_read(switch in switch()) {
        let formats = formats_of_tests();
        if switch.change == Change::Runs {
            prop_assert_eq!(started(switch.thread as u32, switch.at.ns() as u64), Some(switch));
            return Ok(());
        }
        let sample = encode(&switch);
        prop_assert_eq!(formats.decode(&sample), Some(switch));
        // One that is cut off is none, or the same where only padding is missing.
        for length in 0..sample.len() {
            let decoded = formats.decode(&sample[..length]);
            prop_assert!(decoded.is_none_or(|decoded| decoded == switch));
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_fault(sample in prop::collection::vec(any::<u64>(), 0..40), number in 318..324u64) {
        let formats = formats_of_tests();
        formats.decode(&sample);
        // The number of a tracepoint that is known, and any data after it.
        let mut sample = sample;
        if let Some(word) = sample.get_mut(1) {
            *word = u64::from(*word as u32) | number << 32;
        }
        formats.decode(&sample);
        if let [first, second, ..] = sample[..] {
            started(first as u32, second);
        }
    }

    #[test]
    fn the_records_of_all_cpus_come_in_order(mut rings in prop::collection::vec(prop::collection::vec(switch(), 0..20), 1..5), until in 0..50i64) {
        // The records of a CPU are in the order of their instants.
        rings.iter_mut().for_each(|ring| ring.sort_by_key(|switch| switch.at));
        let all: usize = rings.iter().flatten().filter(|switch| switch.at <= Span::from_ns(until)).count();
        let mut rest: Vec<_> = rings.iter().map(|ring| ring.iter().copied()).collect();
        let mut heads: Vec<Option<Switch>> = rest.iter_mut().map(Iterator::next).collect();
        let mut taken = Vec::new();
        while let Some(switch) = take_first(heads.iter_mut(), Span::from_ns(until)) {
            taken.push(switch);
            heads.iter_mut().zip(&mut rest).filter(|(head, _)| head.is_none()).for_each(|(head, rest)| *head = rest.next());
        }
        prop_assert_eq!(taken.len(), all, "each record until then is taken once");
        prop_assert!(taken.is_sorted_by_key(|switch| switch.at));
    }

    #[test]
    fn a_task_is_blocked_when_none_of_its_threads_is_runnable(
        first in prop::collection::vec((1..9i32, 0..3usize, any::<bool>()), 0..6),
        switches in prop::collection::vec(switch(), 0..60),
    ) {
        let (mut threads, mut account) = (Threads::with_room(3, 64), Account::default());
        for (thread, task, runnable) in first {
            threads.follow(task, thread, runnable, Span::ZERO);
            account.0.insert(thread, (task, runnable, Span::ZERO));
        }
        for switch in &switches {
            let before = [0, 1, 2].map(|task| account.is_blocked(task));
            let transition = threads.take_in(switch);
            account.take_in(switch);
            let mut changed = None;
            for (task, before) in before.into_iter().enumerate() {
                let blocked = account.is_blocked(task);
                prop_assert_eq!(threads.is_blocked(task), blocked, "task {} after {:?}", task, switch);
                // The thread of another task with this number, which has ended unseen, changes the state of that task, too.
                if before != blocked && !matches!(switch.change, Change::Begins { .. }) {
                    changed = Some(Transition { task, blocked });
                }
            }
            if !matches!(switch.change, Change::Begins { .. }) {
                prop_assert_eq!(transition, changed);
            }
        }
    }

    #[test]
    fn threads_without_room_leave_their_task_runnable(room in 1..6usize, switches in prop::collection::vec(switch(), 0..60)) {
        let mut threads = Threads::with_room(1, room);
        let mut overflown = false;
        threads.follow(0, 1, true, Span::ZERO);
        let mut account = Account::default();
        account.0.insert(1, (0, true, Span::ZERO));
        for switch in &switches {
            threads.take_in(switch);
            account.take_in(switch);
            overflown |= account.0.len() > room;
            prop_assert!(!(overflown && threads.is_blocked(0)));
        }
        threads.forget(0);
        prop_assert!(!threads.is_followed(0) && !threads.is_blocked(0));
    }
}

#[test]
fn a_late_record_is_ignored() {
    let mut threads = Threads::with_room(1, 4);
    threads.follow(0, 7, true, Span::from_ns(5));
    let at = |at, change| Switch { at: Span::from_ns(at), thread: 7, change };
    assert_eq!(threads.take_in(&at(4, Change::Blocks)), None);
    assert_eq!(threads.take_in(&at(9, Change::Wakes)), None);
    assert_eq!(threads.take_in(&at(8, Change::Blocks)), None, "the wake-up came after it");
    assert_eq!(threads.take_in(&at(10, Change::Blocks)), Some(Transition { task: 0, blocked: true }));
    threads.doubt();
    assert!(!threads.is_blocked(0));
}

/// Runs a program in the class FIFO with this priority, whose lines begin with what is read from the returned pipe.
fn program(script: &str, priority: u8) -> std::process::Child {
    let raised = format!("read go; {script}");
    let child = Command::new("sh").args(["-c", &raised]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    crate::rt::set_class(child.id() as i32, crate::rt::Class::Fifo(priority)).expect("FIFO");
    child
}

fn can_observe() -> bool {
    for capability in [Capability::Tracepoints, Capability::RealTime] {
        if !capability.is_present() {
            skip(capability, "no right to observe or raise processes");
            return false;
        }
    }
    true
}

fn changes(switches: &mut Switches) -> Vec<Switch> {
    std::iter::from_fn(|| switches.take(crate::timer::now())).collect()
}

/// A program that waits at a pipe, sleeps five times, and ends. Another one with a priority out of the range is not reported.
#[test]
fn sleeps_reads_and_the_end_are_reported_in_order() {
    if !can_observe() || !Capability::Python.is_present() {
        return;
    }
    // A priority that no other test has.
    let mut switches = Switches::open(&(3..=3), Notices::Quiet).expect("an observer");
    let mut child = program("read again; exec python3 -c 'import time\nfor _ in range(5): time.sleep(0.01)'", 3);
    let mut other = program("exit", 2);
    let thread = child.id() as i32;
    for _ in 0..2 {
        child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    other.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    child.wait().unwrap();
    other.wait().unwrap();
    let seen = changes(&mut switches);
    let outside: Vec<_> = seen.iter().filter(|switch| switch.thread == other.id() as i32).collect();
    assert!(outside.iter().all(|switch| switch.change == Change::Runs), "{outside:?}");
    let seen: Vec<Switch> = seen.into_iter().filter(|switch| switch.thread == thread).collect();
    assert!(seen.is_sorted_by_key(|switch| switch.at), "{seen:?}");
    assert!(seen.last().is_some_and(|last| last.change == Change::Ends), "{seen:?}");
    // Between two blocks the program runs. The kernel may report no wake-up, as the end of a wait for the disk.
    let (mut blocked, mut waits) = (false, 0);
    for switch in &seen {
        match switch.change {
            Change::Blocks => {
                assert!(!std::mem::replace(&mut blocked, true), "{switch:?} of {seen:?}");
                waits += 1;
            }
            Change::Wakes | Change::Runs => blocked = false,
            Change::Begins { .. } | Change::Ends => assert!(!blocked, "{switch:?} of {seen:?}"),
        }
    }
    // Five sleeps of 10 ms, the first part of which is the call; the shell may have waited before it was raised, and the interpreter waits for files, too.
    assert!(waits >= 5, "{seen:?}");
    let long = |pair: &&[Switch]| pair[0].change == Change::Blocks && pair[1].at - pair[0].at >= Span::from_ms(8);
    assert!(seen.windows(2).filter(long).count() >= 5, "{seen:?}");
    assert_eq!(switches.take_lost(), 0);
}

/// A process with a thread that computes is not blocked while its first thread waits for that, nor is one with such a child. Its program prints the instants
/// before and after each wait of the first thread.
#[test]
fn threads_and_children_count_for_their_task() {
    if !can_observe() || !Capability::Python.is_present() {
        return;
    }
    const BURNT: Span = Span::from_ms(20);
    let mut switches = Switches::open(&(4..=4), Notices::Quiet).expect("an observer");
    let script = "exec python3 -c 'import threading, time, os\n\
        now = time.monotonic_ns\n\
        def burn():\n  end = time.thread_time() + 0.02\n  while time.thread_time() < end: pass\n\
        t = threading.Thread(target=burn)\na = now(); t.start(); t.join(); b = now()\n\
        pid = os.fork()\nif pid == 0:\n  burn(); os._exit(0)\nc = now(); os.waitpid(pid, 0); d = now()\n\
        e = now(); time.sleep(0.05); f = now()\nprint(a, b, c, d, e, f)'";
    let mut child = program(script, 4);
    let leader = child.id() as i32;
    let mut threads = Threads::with_room(1, 64);
    threads.follow(0, leader, true, Span::ZERO);
    child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.wait().unwrap();
    let instants: Vec<Span> = out.split_whitespace().map(|ns| Span::from_ns(ns.parse().unwrap())).collect();
    // For each wait: how often the first thread blocked in it, and for how long the task did.
    let (mut leads, mut blocked, mut since) = ([0; 3], [Span::ZERO; 3], None);
    while let Some(switch) = switches.take(crate::timer::now()) {
        let part = instants.chunks(2).position(|part| (part[0]..part[1]).contains(&switch.at));
        if let Some(part) = part.filter(|_| switch.thread == leader && switch.change == Change::Blocks) {
            leads[part] += 1;
        }
        match (threads.take_in(&switch).map(|transition| transition.blocked), since) {
            (Some(true), _) => since = Some(switch.at),
            (Some(false), Some(from)) => {
                for (part, blocked) in instants.chunks(2).zip(&mut blocked) {
                    *blocked += (switch.at.min(part[1]) - from.max(part[0])).or_zero();
                }
                since = None;
            }
            _ => {}
        }
    }
    assert!(
        leads.iter().all(|times| *times > 0),
        "the first thread waits for a thread, a child, and a sleep: {leads:?}"
    );
    assert!(blocked[2] >= Span::from_ms(49), "the sleep: {blocked:?}");
    // The thread has used its time while the first one waited. The child may have begun before that.
    assert!(blocked[0] <= instants[1] - instants[0] - BURNT / 2, "{blocked:?} {instants:?}");
    assert!(blocked[1] <= instants[3] - instants[2] - BURNT / 2, "{blocked:?} {instants:?}");
    assert!(!threads.is_followed(0), "all have ended");
}

#[test]
fn a_notice_comes_with_each_record_on_request() {
    if !can_observe() {
        return;
    }
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    for (notices, heard) in [(Notices::Each, true), (Notices::Quiet, false)] {
        let mut switches = Switches::with(&Filters::of_thread(own), notices).unwrap();
        switches.register(&epoll, 9).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
        let mut events = Vec::with_capacity(8);
        // The kernel gives it by an interrupt of its own, which may come later on a virtual machine.
        let limit = rustix::event::Timespec { tv_sec: i64::from(heard), tv_nsec: 0 };
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&limit)).unwrap();
        assert_eq!(!events.is_empty(), heard, "{notices:?}");
        assert!(switches.has_records());
        let seen: Vec<Switch> =
            std::iter::from_fn(|| switches.take(Span::MAX)).filter(|switch| switch.thread == own).collect();
        assert!(seen.iter().any(|switch| switch.change == Change::Blocks), "{seen:?}");
    }
}

/// A ring that was full reports how much it lost, and continues.
#[test]
fn lost_records_are_counted() {
    if !can_observe() {
        return;
    }
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    // The loss is reported with the next record of the same ring.
    let cpu = crate::rt::affinity(0).unwrap().iter().next().expect("a CPU");
    crate::rt::set_affinity(0, &takt_core::cpus::CpuSet::single(cpu)).unwrap();
    let mut switches = Switches::with(&Filters::of_thread(own), Notices::Quiet).unwrap();
    for _ in 0..2000 {
        std::thread::sleep(std::time::Duration::from_micros(60));
    }
    let waits = |switches: &mut Switches| {
        std::iter::from_fn(|| switches.take(Span::MAX)).filter(|switch| switch.change != Change::Runs).count()
    };
    let mut taken = waits(&mut switches);
    for _ in 0..8 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(switches.has_records());
    taken += waits(&mut switches);
    let lost = switches.take_lost();
    assert!(lost > 0, "{taken} taken");
    assert!(taken < 1000, "a ring has room for a few hundred: {taken}");
    assert_eq!(switches.take_lost(), 0);
}
