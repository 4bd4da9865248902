//! When a task ran, and how far two accounts of that are apart.

use takt_core::model::{Step, TaskId};
use takt_core::record::{Record, RecordKind, Sink};
use takt_core::time::{Span, Time};
use takt_workload::Workload;

/// An interval in which a task ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) from: Span,
    pub(super) to: Span,
}

/// When a task ran, since the start of its workload.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Course {
    /// In order.
    pub(super) pieces: Vec<Piece>,
    /// When each of its runs (`run` steps) was over.
    pub(super) ends: Vec<Span>,
}

/// How far one course is from another.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Apart {
    /// The ends of runs, at most.
    pub(super) ends: Span,
    /// The consumption by any instant, at most.
    pub(super) consumed: Span,
    /// How much more the first had consumed than the second, at most.
    pub(super) ahead: Span,
}

impl Apart {
    /// The greater of each.
    pub(super) fn or(self, other: Apart) -> Apart {
        Apart {
            ends: self.ends.max(other.ends),
            consumed: self.consumed.max(other.consumed),
            ahead: self.ahead.max(other.ahead),
        }
    }
}

impl Course {
    /// Its consumption by an instant. O(pieces).
    fn consumed(&self, by: Span) -> Span {
        let part = |p: &Piece| (p.to.min(by) - p.from).or_zero();
        self.pieces.iter().map(part).fold(Span::ZERO, |sum, part| sum + part)
    }

    /// When it has consumed so much.
    fn reaches(&self, amount: Span) -> Option<Span> {
        let mut left = amount;
        for piece in &self.pieces {
            let length = piece.to - piece.from;
            if left <= length {
                return Some(piece.from + left);
            }
            left -= length;
        }
        None
    }

    /// How far it is from another course with as many runs; `None` if these are not as many. Both are straight between the borders
    /// of their pieces, so that the borders are what has to be looked at.
    pub(super) fn apart(&self, other: &Course) -> Option<Apart> {
        if self.ends.len() != other.ends.len() {
            return None;
        }
        let ends = self.ends.iter().zip(&other.ends).map(|(a, b)| (*a - *b).max(*b - *a));
        let mut apart = Apart { ends: ends.max().unwrap_or(Span::ZERO), ..Apart::default() };
        for at in [self, other].into_iter().flat_map(|c| &c.pieces).flat_map(|p| [p.from, p.to]) {
            let more = self.consumed(at) - other.consumed(at);
            apart.ahead = apart.ahead.max(more);
            apart.consumed = apart.consumed.max(more).max(Span::ZERO - more);
        }
        Some(apart)
    }
}

/// Notes when tasks start and stop.
struct Watch {
    courses: Vec<Course>,
    since: Vec<Option<Time>>,
}

impl Sink for Watch {
    fn record(&mut self, record: Record) {
        match record.kind {
            RecordKind::Start { task, .. } => self.since[task.index()] = Some(record.at),
            RecordKind::Stop { task, .. } => {
                let Some(from) = self.since[task.index()].take() else { return };
                let (from, to) = (from - Time::ZERO, record.at - Time::ZERO);
                let pieces = &mut self.courses[task.index()].pieces;
                match pieces.last_mut() {
                    // Its next job follows at once.
                    Some(last) if last.to == from => last.to = to,
                    _ => pieces.push(Piece { from, to }),
                }
            }
            _ => {}
        }
    }
}

/// The courses of a workload's tasks by simulation. With a `tick` the ends of budgets are noticed at its multiples.
///
/// # Panics
/// When the workload is not one of this bench: it names a policy that does not suit it, or tasks without listed releases.
pub(super) fn simulated(workload: &Workload, tick: Option<Span>) -> Vec<Course> {
    let mut system = workload.system.clone();
    system.timing.resolution = tick.unwrap_or(Span::ZERO);
    let n = system.tasks.len();
    let mut watch = Watch { courses: vec![Course::default(); n], since: vec![None; n] };
    let mut engine = takt::load::engine(system).expect("the workload suits its policy");
    takt_sim::simulate(&mut engine, &workload.scenario, super::jobs::LONGEST, &mut watch, |_| ());
    for (index, course) in watch.courses.iter_mut().enumerate() {
        debug_assert!(engine.job(TaskId(index as u32)).is_none(), "all jobs are done by then");
        let jobs = super::jobs::jobs(&workload.system.tasks[index]).expect("its releases are listed");
        let mut sum = Span::ZERO;
        for step in jobs.iter().flat_map(|(_, steps)| steps) {
            if let Step::Run(amount) = step {
                sum += *amount;
                course.ends.extend(course.reaches(sum));
            }
        }
    }
    watch.courses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(pieces: &[(i64, i64)], ends: &[i64]) -> Course {
        let pieces = pieces.iter().map(|(from, to)| Piece { from: Span::from_ms(*from), to: Span::from_ms(*to) });
        Course { pieces: pieces.collect(), ends: ends.iter().map(|e| Span::from_ms(*e)).collect() }
    }

    #[test]
    fn courses_differ_by_what_they_have_consumed() {
        let exact = course(&[(0, 10), (40, 44)], &[44]);
        let late = course(&[(0, 12), (40, 42)], &[42]);
        let apart = late.apart(&exact).unwrap();
        let two = Span::from_ms(2);
        assert_eq!(apart, Apart { ends: two, consumed: two, ahead: two });
        assert_eq!(exact.apart(&late).unwrap().ahead, Span::ZERO);
        assert_eq!(exact.apart(&exact).unwrap(), Apart::default());
        assert_eq!(exact.apart(&course(&[(0, 14)], &[])), None);
        assert_eq!(exact.reaches(Span::from_ms(12)), Some(Span::from_ms(42)));
        assert_eq!(exact.reaches(Span::from_ms(15)), None);
    }
}
