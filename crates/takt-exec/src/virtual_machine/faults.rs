//! Faults of a virtual machine, by a seed.

use crate::plan::TaskEnd;
use std::collections::VecDeque;
use takt_core::model::TaskId;
use takt_core::rng;
use takt_core::time::Span;

/// Something that a process does, or that is done to it, unasked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strike {
    at: Span,
    pub(crate) task: TaskId,
    /// It signals a completion that is none, instead of ending.
    pub(crate) signals: bool,
    pub(crate) end: TaskEnd,
    /// A process that it started outlives it.
    pub(crate) leaves_child: bool,
    /// Another program moves it out of its group, and it does not end.
    pub(crate) escapes: bool,
}

/// How often each kind of fault comes, in thousandths, and which are to come.
#[derive(Default, Debug)]
pub(crate) struct Faults {
    seed: u64,
    drawn: u64,
    refused: u64,
    late_effects: u64,
    late_signals: u64,
    double_signals: u64,
    late_ends: u64,
    late_notices: u64,
    /// From each of them to its notice, where that is not drawn.
    notices_after: Span,
    stalls: u64,
    strikes: VecDeque<Strike>,
    /// The whole machine stands still while its clock advances, as under a host that pauses it: instants and lengths.
    pauses: VecDeque<(Span, Span)>,
    signals_unasked: bool,
    /// Each signal is heard once more, just after it was handled.
    echoes: bool,
    /// Acts of the supervisor are refused, too, by which a task can end for good.
    hinders_supervisor: bool,
    /// The machine tells of groups that become empty.
    pub(crate) notifies: bool,
}

impl Faults {
    /// A machine on which nothing goes wrong.
    pub(crate) fn none() -> Faults {
        Faults { notifies: true, ..Faults::default() }
    }

    /// A machine on which nothing goes wrong but that the process or thread of a task ends by itself.
    #[cfg(test)]
    pub(crate) fn killing(task: TaskId, at: Span) -> Faults {
        let strike = Strike { at, task, signals: false, end: TaskEnd::Exited(0), leaves_child: false, escapes: false };
        Faults { strikes: [strike].into(), ..Faults::none() }
    }

    /// A machine on which nothing goes wrong, and each block and wake-up is noticed so late.
    #[cfg(test)]
    pub(crate) fn noticing_after(late: Span) -> Faults {
        Faults { notices_after: late, ..Faults::none() }
    }

    /// A machine on which nothing goes wrong but that it stands still at these instants for so long.
    #[cfg(test)]
    pub(crate) fn pausing(pauses: impl IntoIterator<Item = (Span, Span)>) -> Faults {
        Faults { pauses: pauses.into_iter().collect(), ..Faults::none() }
    }

    /// Each kind is absent in about half of the seeds. `start` and `length` bound the strikes.
    pub(crate) fn new(seed: u64, tasks: usize, start: Span, length: Span) -> Faults {
        let mut faults = Faults { seed, hinders_supervisor: true, ..Faults::default() };
        faults.refused = faults.rate(120);
        faults.late_effects = faults.rate(300);
        faults.late_signals = faults.rate(300);
        faults.double_signals = faults.rate(200);
        faults.late_ends = faults.rate(500);
        faults.stalls = faults.rate(100);
        faults.notifies = faults.draw(1) == 0;
        let mut strikes: Vec<Strike> = Vec::new();
        for _ in 0..faults.draw(4) {
            let end = match faults.draw(3) {
                0 => TaskEnd::Exited(0),
                1 => TaskEnd::Exited(7),
                _ => TaskEnd::Signalled(9),
            };
            strikes.push(Strike {
                at: start + Span::from_ns(faults.draw(length.ns() as u64) as i64),
                task: TaskId(faults.draw(tasks as u64 - 1) as u32),
                signals: faults.draw(2) == 0,
                end,
                leaves_child: faults.draw(2) == 0,
                escapes: false,
            });
        }
        for _ in 0..faults.draw(2) {
            strikes.push(Strike {
                at: start + Span::from_ns(faults.draw(length.ns() as u64) as i64),
                task: TaskId(faults.draw(tasks as u64 - 1) as u32),
                signals: false,
                end: TaskEnd::Exited(0),
                leaves_child: false,
                escapes: true,
            });
        }
        if faults.draw(3) == 0 {
            let at = start + Span::from_ns(faults.draw(length.ns() as u64) as i64);
            let pause = Span::from_us(1 + faults.draw(80_000) as i64);
            faults.pauses.push_back((at, pause));
        }
        strikes.sort_by_key(|strike| strike.at);
        faults.signals_unasked = strikes.iter().any(|strike| strike.signals || strike.escapes);
        faults.strikes = strikes.into();
        faults.late_notices = faults.rate(300);
        faults
    }

    /// Faults of a long run: each act can fail or be late, and every few minutes a process ends or is moved, or the machine stands still for up
    /// to two seconds.
    pub(crate) fn long(seed: u64, tasks: usize, start: Span, length: Span) -> Faults {
        let mut faults = Faults { seed, signals_unasked: true, notifies: true, ..Faults::default() };
        (faults.refused, faults.late_effects, faults.late_signals, faults.stalls) = (20, 100, 50, 20);
        let mut at = start;
        loop {
            at += Span::from_ms(1 + faults.draw(300_000) as i64);
            if at > start + length {
                return faults;
            }
            let kind = faults.draw(4);
            if kind == 0 {
                let pause = Span::from_us(1 + faults.draw(2_000_000) as i64);
                faults.pauses.push_back((at, pause));
                continue;
            }
            let end = if kind == 1 { TaskEnd::Exited(7) } else { TaskEnd::Signalled(9) };
            let task = TaskId(faults.draw(tasks as u64 - 1) as u32);
            // A child that is left would keep its task from another process.
            faults.strikes.push_back(Strike { at, task, signals: false, end, leaves_child: false, escapes: kind > 2 });
        }
    }

    /// A machine on which nothing goes wrong but that the program of a task rings its bell at any time, the faster the higher `seed` is drawn.
    pub(crate) fn ringing(seed: u64, task: TaskId, start: Span, length: Span) -> Faults {
        let mut faults = Faults { seed, signals_unasked: true, ..Faults::none() };
        let most = 1 + faults.draw(400);
        let mut at = start;
        while at < start + length {
            at += Span::from_ns(1 + faults.draw(most * 1000) as i64);
            let end = TaskEnd::Exited(0);
            faults.strikes.push_back(Strike { at, task, signals: true, end, leaves_child: false, escapes: false });
        }
        faults.seed = 0;
        faults
    }

    /// A machine on which nothing goes wrong but that each signal is heard once more.
    pub(crate) fn echoing() -> Faults {
        Faults { echoes: true, ..Faults::none() }
    }

    /// A machine on which nothing goes wrong but that blocks and wake-ups are noticed late.
    pub(crate) fn noticing_late(seed: u64) -> Faults {
        Faults { seed, late_notices: 1000, ..Faults::none() }
    }

    /// A number from 0 to `most`.
    fn draw(&mut self, most: u64) -> u64 {
        self.drawn += 1;
        rng::draw_up_to(most, self.seed, 0, self.drawn)
    }

    fn rate(&mut self, most: u64) -> u64 {
        if self.draw(1) == 0 { 0 } else { self.draw(most) }
    }

    fn hits(&mut self, rate: u64) -> bool {
        rate > 0 && self.draw(999) < rate
    }

    fn delay(&mut self, rate: u64, most: Span) -> Option<Span> {
        self.hits(rate).then(|| Span::from_ns(self.draw(most.ns() as u64) as i64))
    }

    /// Whether a call fails.
    pub(crate) fn refuses(&mut self) -> bool {
        self.hits(self.refused)
    }

    /// Whether a call of the supervisor fails.
    pub(crate) fn refuses_supervisor(&mut self) -> bool {
        self.hinders_supervisor && self.refuses()
    }

    /// How much later a stop or start takes effect.
    pub(crate) fn effect(&mut self) -> Option<Span> {
        self.delay(self.late_effects, Span::from_us(500))
    }

    /// How late a completion signal is heard, and how late once more.
    pub(crate) fn hearing(&mut self) -> (Span, Option<Span>) {
        if self.echoes {
            return (Span::ZERO, Some(Span::from_ns(1)));
        }
        let late = self.delay(self.late_signals, Span::from_ms(4)).unwrap_or_default();
        (late, self.delay(self.double_signals, Span::from_ms(4)))
    }

    /// The time until a block or wake-up is noticed.
    pub(crate) fn notice(&mut self) -> Span {
        if self.notices_after > Span::ZERO {
            return self.notices_after;
        }
        self.delay(self.late_notices, Span::from_ms(4)).unwrap_or_default()
    }

    /// How late the end of a process is found.
    pub(crate) fn ending(&mut self) -> Span {
        self.delay(self.late_ends, Span::from_ms(5)).unwrap_or_default()
    }

    /// For how long a thread of the executive does not get to run.
    pub(crate) fn stall(&mut self) -> Option<Span> {
        self.delay(self.stalls, Span::from_ms(15))
    }

    /// For how few messages there is room.
    pub(crate) fn inbox(&mut self) -> Option<usize> {
        (self.seed != 0 && self.draw(1) == 0).then_some(2)
    }

    /// How long a process initialises.
    pub(crate) fn initialisation(&mut self) -> Span {
        Span::from_us(1 + self.draw(2000) as i64)
    }

    /// Whether the supervisor comes before the scheduler at an instant of both.
    pub(crate) fn supervisor_first(&mut self) -> bool {
        self.seed == 0 || self.draw(1) == 0
    }

    /// Whether each signal means a completion.
    pub(crate) fn signals_are_exact(&self) -> bool {
        self.double_signals == 0 && !self.echoes && !self.signals_unasked
    }

    /// When the next strike or pause comes.
    pub(crate) fn next(&self) -> Option<Span> {
        let strike = self.strikes.front().map(|strike| strike.at);
        strike.into_iter().chain(self.pauses.front().map(|(at, _)| *at)).min()
    }

    /// For how long the machine stands still now.
    pub(crate) fn pause(&mut self, now: Span) -> Option<Span> {
        self.pauses.pop_front_if(|(at, _)| *at <= now).map(|(_, length)| length)
    }

    /// Takes a strike that is due.
    pub(crate) fn strike(&mut self, now: Span) -> Option<Strike> {
        self.strikes.pop_front_if(|strike| strike.at <= now)
    }
}
