//! `takt mcu`: streams that are damaged, cut off or another workload's, and machines that lack the emulator.

use crate::common::Room;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use takt_core::input::Input;
use takt_core::model::TaskId;
use takt_core::time::{Span, Time};
use takt_core::wire::{Figure, FigureKind, Message, put_message};

const WORKLOAD: &str = "policy: edf\nduration: 20ms\ntasks: [{name: a, period: 10ms, runtime: 1ms}]\n";

/// The hash of the workload's table, as `takt mcu table` prints it.
fn hash(room: &Room) -> u64 {
    let text = room.takt(&["mcu", "table", "w.yaml", "--json"]).json()["hash"].as_str().unwrap().to_owned();
    u64::from_str_radix(&text, 16).unwrap()
}

/// A stream of two jobs of the workload, and the place of its third step. The records are left out, as with a full ring.
fn stream(table: u64) -> (Vec<u8>, usize) {
    let at = |ms| Time::ZERO + Span::from_ms(ms);
    let (mut bytes, mut base, mut third) = (Vec::new(), Time::ZERO, 0);
    let ends = |job| Message::Input(Input::Complete { task: TaskId(0), job });
    let figure = |kind, index, value| Message::Figure(Figure { kind, index, value });
    for message in [
        Message::Header { table, nanoseconds: 40, ticks: 1 },
        Message::Step { now: at(0) },
        Message::Step { now: at(1) },
        ends(0),
        Message::Step { now: at(10) },
        Message::Step { now: at(11) },
        ends(1),
        Message::Close { end: at(20) },
        Message::Dropped { count: 14 },
        figure(FigureKind::StepCount, 3, 2),
        figure(FigureKind::StepTicks, 3, 2_000),
        figure(FigureKind::StepCount, 4, 4),
        figure(FigureKind::StepTicks, 4, 6_000),
        figure(FigureKind::Outside, 0, 50),
        Message::End,
    ] {
        if matches!(message, Message::Step { now } if now == at(10)) {
            third = bytes.len();
        }
        put_message(&mut bytes, base, &message);
        if let Message::Step { now } | Message::Close { end: now } = message {
            base = now;
        }
    }
    (bytes, third)
}

#[test]
fn a_stream_becomes_a_summary_and_steps_and_costs() {
    let room = Room::with(WORKLOAD);
    fs::write(room.path("board.stream"), stream(hash(&room)).0).unwrap();
    let json = room.takt(&["mcu", "decode", "board.stream", "w.yaml", "--json", "--record", "board.steps"]).json();
    assert_eq!((&json["jobs"]["released"], &json["jobs"]["met"], &json["dropped"]), (&2.into(), &2.into(), &14.into()));
    // Steps of which messages were dropped are no complete record, and say so.
    assert!(room.text("board.steps").lines().count() > 4);
    let costs = room.takt(&["mcu", "calibrate", "board.stream", "w.yaml"]).expect(0).stdout;
    assert!(costs.contains("costs: {scheduler: 42us, context_switch: 20us, consumed: no}"), "{costs}");
}

#[test]
fn a_damaged_stream_is_kept_up_to_the_damage() {
    let room = Room::with(WORKLOAD);
    let (bytes, third) = stream(hash(&room));
    let mut flipped = bytes.clone();
    flipped[third + 1] ^= 4;
    let twice = [&bytes[..third], &bytes].concat();
    for (name, bytes, place) in [("flipped", flipped, third), ("cut", bytes[..third + 2].to_vec(), third)] {
        fs::write(room.path(name), &bytes).unwrap();
        let done = room.takt(&["mcu", "decode", name, "w.yaml"]).expect(1);
        assert!(done.stdout.contains(&format!("damaged at byte {place}:")), "{name}: {}", done.stdout);
        assert!(done.stdout.contains("trace: 3 steps"), "{name}: two steps and the end: {}", done.stdout);
    }
    fs::write(room.path("twice"), &twice).unwrap();
    let done = room.takt(&["mcu", "decode", "twice", "w.yaml"]).expect(1);
    assert!(done.stdout.contains("the board was reset"), "{}", done.stdout);
}

#[test]
fn other_streams_are_refused() {
    let room = Room::with(WORKLOAD);
    fs::write(room.path("other"), stream(hash(&room) ^ 1).0).unwrap();
    for (name, bytes) in [("empty", &[][..]), ("text", b"hello, world\n"), ("yaml", WORKLOAD.as_bytes())] {
        fs::write(room.path(name), bytes).unwrap();
        for command in ["decode", "calibrate"] {
            let done = room.takt(&["mcu", command, name, "w.yaml"]).expect(2);
            assert!(done.stderr.contains("no trace of the microcontroller kernel"), "{name}: {}", done.stderr);
        }
    }
    let done = room.takt(&["mcu", "decode", "other", "w.yaml"]).expect(2);
    assert!(done.stderr.contains("with which the image was built"), "{}", done.stderr);
    room.takt(&["mcu", "decode", "absent", "w.yaml"]).expect(2);
    // A stream without figures has no costs.
    let (bytes, third) = stream(hash(&room));
    fs::write(room.path("short"), &bytes[..third]).unwrap();
    let done = room.takt(&["mcu", "calibrate", "short", "w.yaml"]).expect(2);
    assert!(done.stderr.contains("run to the end of its duration"), "{}", done.stderr);
}

#[test]
fn without_an_emulator_the_fix_is_named() {
    let room = Room::with(WORKLOAD);
    fs::write(room.path("image"), b"an image").unwrap();
    fs::create_dir(room.path("bin")).unwrap();
    let run = |args: &[&str]| {
        let args = [&["mcu", "run", "image", "w.yaml"], args].concat();
        let mut command = room.command(&args);
        command.env("PATH", room.path("bin"));
        crate::common::Running::start(&mut command).wait()
    };
    let done = run(&[]).expect(3);
    assert!(done.stderr.contains("apt-get install qemu-system-arm"), "{}", done.stderr);
    let mut doctor = room.command(&["doctor", "--json"]);
    doctor.env("PATH", room.path("bin"));
    let found = crate::common::Running::start(&mut doctor).wait().json();
    for (name, fix) in [("qemu-system-arm", "apt-get install"), ("thumbv7m-none-eabi", "rustup target add")] {
        let all = found["findings"].as_array().unwrap();
        let finding = all.iter().find(|finding| finding["name"] == name).unwrap();
        assert_eq!(finding["status"], "weak", "{finding}");
        assert!(finding["fix"].as_str().unwrap().contains(fix), "{finding}");
    }
    // An emulator that does not end is ended.
    let emulator = room.path("bin/qemu-system-arm");
    fs::write(&emulator, "#!/bin/sh\nwhile :; do :; done\n").unwrap();
    fs::set_permissions(&emulator, fs::Permissions::from_mode(0o755)).unwrap();
    let done = run(&["--timeout", "100ms"]).expect(2);
    assert!(done.stderr.contains("has not ended within 100ms"), "{}", done.stderr);
    // One that fails wrote no stream.
    fs::write(&emulator, "#!/bin/sh\necho no such machine >&2\nexit 1\n").unwrap();
    let done = run(&[]);
    assert_eq!(done.code(), 2, "{}", done.stderr);
    assert!(done.stderr.contains("no such machine"), "{}", done.stderr);
    fs::remove_file(room.path("image")).unwrap();
    run(&[]).expect(2);
}
