//! The picture on terminals of several sizes, and the effects of keys.

use super::*;
use crate::commands::top::replay::Replay;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use takt_core::cpus::CpuSet;
use takt_core::model::TaskId;
use takt_core::record::{Outcome, Place, Record, RecordKind, StopReason};
use takt_core::time::Time;
use takt_core::work::Work;
use takt_trace::{Footer, Header, Stamped, TaskLabel, Trace};

/// Two tasks on one CPU: `steady` runs 2 of 10 ms and meets all deadlines, the other one runs 5 of 20 ms and misses them from
/// 100 ms on.
fn trace() -> Trace {
    let names = ["steady", "naughty \u{1b}[2J\nname"];
    let tasks = names.map(|name| TaskLabel { name: name.into(), ..TaskLabel::default() }).to_vec();
    let header = Header {
        source: "sim".into(),
        workload: "w.yaml".into(),
        policy: "edf".into(),
        scope: "uniprocessor".into(),
        places: vec![CpuSet::single(0)],
        tasks,
        ..Header::default()
    };
    let mut records = Vec::new();
    let mut push = |ms: i64, kind| records.push((ms, kind));
    for ms in (0..400).step_by(10) {
        let (task, job, deadline) = (TaskId(0), ms as u64 / 10, Some(Time::ZERO + Span::from_ms(ms + 10)));
        push(ms, RecordKind::Release { task, job, deadline });
        push(ms, RecordKind::Start { task, job, place: Place(0) });
        let consumed = Work::nominal(Span::from_ms(2));
        push(ms + 2, RecordKind::Finish { task, job, outcome: Outcome::Completed, consumed });
        push(ms + 2, RecordKind::Stop { task, job, place: Place(0), reason: StopReason::Finished });
        if ms % 20 == 0 {
            let due = if ms < 100 { ms + 10 } else { ms + 5 };
            let (task, job, deadline) = (TaskId(1), ms as u64 / 20, Some(Time::ZERO + Span::from_ms(due)));
            push(ms + 2, RecordKind::Release { task, job, deadline });
            push(ms + 2, RecordKind::Budget { task, job, amount: Some(Span::from_ms(6)) });
            push(ms + 2, RecordKind::Start { task, job, place: Place(0) });
            let consumed = Work::nominal(Span::from_ms(5));
            push(ms + 7, RecordKind::Finish { task, job, outcome: Outcome::Completed, consumed });
            push(ms + 7, RecordKind::Stop { task, job, place: Place(0), reason: StopReason::Finished });
        }
    }
    let at = |ms| Time::ZERO + Span::from_ms(ms);
    let stamped = |(ms, kind)| Stamped { record: Record { at: at(ms), kind }, applied: at(ms) };
    let records = records.into_iter().map(stamped).collect();
    Trace { header, records, footer: Some(Footer { end: at(400), dropped: 0 }), ..Trace::default() }
}

fn replay(ms: i64) -> (Replay, History) {
    let mut replay = Replay::new(trace());
    let mut history = History::new(replay.sampling());
    replay.go_to(Time::ZERO + Span::from_ms(ms), &mut history);
    (replay, history)
}

fn view() -> View {
    let look = Look { colour: false, unicode: true };
    View::new(look, Source::Trace { speed: 250, end_ns: 400_000_000 }, Sort::File)
}

/// The text of a terminal of this size.
fn picture(view: &mut View, status: &Snapshot, history: &History, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view.draw(frame, status, history)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect::<Vec<_>>().join("\n")
}

fn press(view: &mut View, status: &Snapshot, keys: &[KeyCode]) -> Option<Action> {
    keys.iter().map(|code| view.key(KeyEvent::new(*code, KeyModifiers::NONE), status)).last().flatten()
}

#[test]
fn the_picture_shows_tasks_cpus_and_events() {
    let (replay, history) = replay(203);
    insta::assert_snapshot!(picture(&mut view(), &replay.snapshot(), &history, 100, 16));
}

#[test]
fn a_narrow_terminal_keeps_utilisation_misses_and_response_times() {
    let (replay, history) = replay(203);
    insta::assert_snapshot!(picture(&mut view(), &replay.snapshot(), &history, 52, 12));
}

#[test]
fn the_history_of_a_task_is_drawn() {
    let (replay, history) = replay(400);
    let (mut view, status) = (view(), replay.snapshot());
    view.paused = true;
    press(&mut view, &status, &[KeyCode::Char('j'), KeyCode::Enter]);
    insta::assert_snapshot!(picture(&mut view, &status, &history, 100, 24));
}

/// Whatever the size, nothing is drawn outside, and no name moves the cursor.
#[test]
fn every_size_can_be_drawn() {
    let (replay, history) = replay(300);
    for (width, height) in [(1, 1), (2, 3), (10, 5), (39, 7), (80, 24), (300, 100)] {
        for detail in [false, true] {
            let mut view = view();
            view.detail = detail;
            let text = picture(&mut view, &replay.snapshot(), &history, width, height);
            assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        }
    }
}

#[test]
fn keys_sort_select_and_seek() {
    let (replay, history) = replay(200);
    let (mut view, status) = (view(), replay.snapshot());
    assert_eq!(sorted(&status.tasks, Sort::Missed, false), [1, 0]);
    assert_eq!(sorted(&status.tasks, Sort::Missed, true), [0, 1]);
    assert_eq!(sorted(&status.tasks, Sort::P99, false), [1, 0]);
    assert_eq!(sorted(&status.tasks, Sort::Name, false), [1, 0]);
    assert_eq!(press(&mut view, &status, &[KeyCode::Char('m')]), None);
    let first = |view: &mut View| {
        let text = picture(view, &status, &history, 100, 16);
        text.lines().nth(4).unwrap_or_default().split_whitespace().next().unwrap_or_default().to_owned()
    };
    assert_eq!(first(&mut view), "naughty");
    press(&mut view, &status, &[KeyCode::Char('r')]);
    assert_eq!(first(&mut view), "steady");
    // The cursor stays on its task, and at the ends of the list.
    press(&mut view, &status, &[KeyCode::Up, KeyCode::Up, KeyCode::Down, KeyCode::Down, KeyCode::Down]);
    assert_eq!(view.selected, 1);
    assert_eq!(press(&mut view, &status, &[KeyCode::Left]), Some(Action::Seek(Span::from_secs(-1))));
    assert_eq!(press(&mut view, &status, &[KeyCode::Char('+')]), Some(Action::Faster));
    assert_eq!(press(&mut view, &status, &[KeyCode::Char(' ')]), Some(Action::Pause));
    press(&mut view, &status, &[KeyCode::Enter]);
    assert_eq!(press(&mut view, &status, &[KeyCode::Esc]), None);
    assert_eq!(press(&mut view, &status, &[KeyCode::Esc]), Some(Action::Quit));
    let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(view.key(control, &status), Some(Action::Quit));
}

/// However one gets to an instant, its figures are the same.
#[test]
fn a_seek_leads_to_the_figures_of_the_instant() {
    let (direct, _) = replay(150);
    let (mut other, mut history) = replay(390);
    for ms in [400, 20, 399, 0, 150] {
        other.go_to(Time::ZERO + Span::from_ms(ms), &mut history);
    }
    assert_eq!(other.snapshot(), direct.snapshot());
    other.go_to(Time::MAX, &mut history);
    assert!(other.is_over() && other.snapshot().tasks[1].missed == 15);
    other.go_to(Time::from_ns(-5), &mut history);
    assert_eq!((other.at(), other.snapshot().tasks[0].completed), (Time::ZERO, 0));
}

/// A thousand tasks: only as many as fit are drawn, and the one under the cursor is among them.
#[test]
fn the_list_follows_the_cursor() {
    let tasks = (0..1000).map(|n| TaskStatus { name: format!("t{n:03}"), ..TaskStatus::default() }).collect();
    let (status, history) = (Snapshot { tasks, ..Snapshot::default() }, History::new(Span::from_ms(1)));
    let mut view = view();
    for (keys, shown) in [(0, "t000"), (50, "t500"), (200, "t999")] {
        press(&mut view, &status, &vec![KeyCode::PageDown; keys]);
        let text = picture(&mut view, &status, &history, 80, 20);
        assert!(text.contains(shown), "{text}");
    }
    press(&mut view, &status, &[KeyCode::PageUp; 3]);
    assert!(picture(&mut view, &status, &history, 80, 20).contains("t969"));
}
