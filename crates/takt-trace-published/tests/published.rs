//! The hand-written Perfetto encoding, decoded with the published message definitions.

#[allow(dead_code, reason = "shared with the tests of the crate")]
#[path = "../../takt-trace/tests/traces/common.rs"]
mod common;

use common::{any_trace, samples, windows, write};
use perfetto_protos::generic_task::generic_kernel_task_state_event::TaskStateEnum;
use perfetto_protos::trace::Trace as Decoded;
use perfetto_protos::trace_packet::TracePacket;
use perfetto_protos::track_event::TrackEvent;
use perfetto_protos::track_event::track_event::Type;
use proptest::prelude::*;
use protobuf::Message;
use std::collections::{HashMap, HashSet};
use takt_core::record::RecordKind;
use takt_trace::{Format, Trace};

fn decode(trace: &Trace) -> Vec<TracePacket> {
    let bytes = write(trace, Format::Perfetto);
    let decoded = Decoded::parse_from_bytes(&bytes).expect("the bytes are a trace");
    assert!(decoded.special_fields.unknown_fields().iter().next().is_none());
    for packet in &decoded.packet {
        assert!(packet.special_fields.unknown_fields().iter().next().is_none(), "{packet}");
    }
    decoded.packet
}

/// Checks what a viewer relies on, and returns the interned event names and the tracks.
fn well_formed(packets: &[TracePacket]) -> (HashMap<u64, String>, HashMap<u64, String>) {
    let mut names: HashMap<u64, String> = HashMap::new();
    let mut keys = HashSet::new();
    let mut strings = HashSet::new();
    let mut tracks = HashMap::new();
    let mut counters = HashSet::new();
    let mut depth: HashMap<u64, i64> = HashMap::new();
    let mut running: HashMap<i64, i32> = HashMap::new();
    let mut last = 0;
    for (index, packet) in packets.iter().enumerate() {
        assert_eq!(packet.trusted_packet_sequence_id(), 1);
        if index == 0 {
            assert_eq!(packet.sequence_flags(), 1, "the first packet clears the state");
        } else if !packet.has_clock_snapshot() {
            assert_eq!(packet.sequence_flags(), 2);
        }
        for name in &packet.interned_data.event_names {
            assert!(names.insert(name.iid(), name.name().into()).is_none(), "an id is used twice");
        }
        keys.extend(packet.interned_data.debug_annotation_names.iter().map(|n| n.iid()));
        strings.extend(packet.interned_data.debug_annotation_string_values.iter().map(|s| s.iid()));
        if packet.has_track_descriptor() {
            let track = packet.track_descriptor();
            let name = match () {
                () if track.has_name() => track.name().to_string(),
                () if track.thread.is_some() => track.thread.thread_name().to_string(),
                () => track.process.process_name().to_string(),
            };
            if track.counter.is_some() {
                counters.insert(track.uuid());
            }
            assert!(!track.has_parent_uuid() || tracks.contains_key(&track.parent_uuid()));
            assert!(track.uuid() != 0 && tracks.insert(track.uuid(), name).is_none(), "a track is declared twice");
        }
        if packet.has_track_event() || packet.has_generic_kernel_task_state_event() {
            assert!(packet.timestamp() >= last, "time runs backwards");
            last = packet.timestamp();
        }
        if packet.has_track_event() {
            let event = packet.track_event();
            assert!(tracks.contains_key(&event.track_uuid()), "a track is used before it is declared");
            let open = depth.entry(event.track_uuid()).or_default();
            match event.type_() {
                Type::TYPE_SLICE_BEGIN => *open += 1,
                Type::TYPE_SLICE_END => *open -= 1,
                Type::TYPE_INSTANT => {}
                Type::TYPE_COUNTER => assert!(event.has_counter_value() && counters.contains(&event.track_uuid())),
                other => panic!("{other:?}"),
            }
            assert!(*open >= 0, "a slice ends that has not begun");
            if event.has_name_iid() {
                assert!(names.contains_key(&event.name_iid()));
            }
            for note in event.debug_annotations.iter().filter(|n| n.has_name_iid()) {
                assert!(keys.contains(&note.name_iid()));
                assert!(!note.has_string_value_iid() || strings.contains(&note.string_value_iid()));
            }
        }
        if packet.has_generic_kernel_task_state_event() {
            let event = packet.generic_kernel_task_state_event();
            assert!(event.tid() != 0, "0 is the idle thread");
            if event.state() == TaskStateEnum::TASK_STATE_RUNNING {
                let cpu = event.cpu();
                assert!(running.insert(event.tid(), cpu).is_none(), "running twice in a row");
                assert_eq!(running.values().filter(|c| **c == cpu).count(), 1, "two threads on CPU {cpu}");
            } else if let Some(cpu) = running.remove(&event.tid()) {
                assert_eq!(event.cpu(), cpu, "a thread leaves another CPU than its own");
            }
        }
    }
    (names, tracks)
}

fn all_closed(packets: &[TracePacket]) {
    let mut depth: HashMap<u64, i64> = HashMap::new();
    for event in packets.iter().filter(|p| p.has_track_event()).map(|p| p.track_event()) {
        *depth.entry(event.track_uuid()).or_default() += match event.type_() {
            Type::TYPE_SLICE_BEGIN => 1,
            Type::TYPE_SLICE_END => -1,
            _ => 0,
        };
    }
    assert!(depth.values().all(|open| *open == 0), "a slice is never closed");
}

#[test]
fn any_trace_is_well_formed() {
    takt_testing::for_all(256, any_trace(), |trace| {
        let packets = decode(&trace);
        well_formed(&packets);
        if trace.footer.is_some() {
            all_closed(&packets);
        }
        let starts = trace.records.iter().filter_map(|r| match r.record.kind {
            RecordKind::Start { place, .. } => Some(trace.header.places[place.index()].len()),
            _ => None,
        });
        let running = packets.iter().filter(|p| {
            p.has_generic_kernel_task_state_event()
                && p.generic_kernel_task_state_event().state() == TaskStateEnum::TASK_STATE_RUNNING
        });
        prop_assert_eq!(running.count(), starts.sum::<usize>());
        Ok(())
    });
}

/// One line per packet that a viewer shows.
fn story(packets: &[TracePacket]) -> String {
    let (names, tracks) = well_formed(packets);
    let keys: HashMap<u64, String> =
        packets[0].interned_data.debug_annotation_names.iter().map(|n| (n.iid(), n.name().into())).collect();
    let strings: HashMap<u64, String> = packets[0]
        .interned_data
        .debug_annotation_string_values
        .iter()
        .map(|s| (s.iid(), String::from_utf8(s.str().to_vec()).unwrap()))
        .collect();
    let notes = |event: &TrackEvent| {
        let note = |n: &perfetto_protos::debug_annotation::DebugAnnotation| {
            let key = if n.has_name() { n.name() } else { &keys[&n.name_iid()] };
            let value = match () {
                () if n.has_string_value() => n.string_value().to_string(),
                () if n.has_string_value_iid() => strings[&n.string_value_iid()].clone(),
                () if n.has_bool_value() => n.bool_value().to_string(),
                () => n.int_value().to_string(),
            };
            format!(" {key}={value}")
        };
        event.debug_annotations.iter().map(note).collect::<String>()
    };
    let line = |packet: &TracePacket| {
        let us = packet.timestamp() / 1000;
        if packet.has_track_event() {
            let e = packet.track_event();
            let name = if e.has_name() { e.name() } else { names.get(&e.name_iid()).map_or("", |n| n) };
            let kind = ["", "begin", "end", "instant", "counter"][e.type_() as usize];
            let name = if e.has_counter_value() { &format!("{}us", e.counter_value() / 1000) } else { name };
            Some(format!("{us:>6} {:<10} {kind} {name}{}", tracks[&e.track_uuid()], notes(e)).trim_end().to_string())
        } else if packet.has_generic_kernel_task_state_event() {
            let e = packet.generic_kernel_task_state_event();
            let cpu = e.cpu.map_or(String::new(), |c| format!(" cpu {c}"));
            Some(format!("{us:>6} {:<10} tid {}{cpu} {:?}", e.comm(), e.tid(), e.state()))
        } else if packet.has_track_descriptor() {
            let t = packet.track_descriptor();
            let what = match () {
                () if t.thread.is_some() => format!("thread {} of process {}", t.thread.tid(), t.thread.pid()),
                () if t.process.is_some() => format!("process {}", t.process.pid()),
                () if t.counter.is_some() => format!("counter ({:?})", t.counter.unit()),
                () => "track".into(),
            };
            Some(format!("       declare {what}: {}", tracks[&t.uuid()]))
        } else {
            None
        }
    };
    packets.iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn names_and_tracks_of_the_viewer() {
    for (name, trace) in samples() {
        let packets = decode(&trace);
        all_closed(&packets);
        insta::assert_snapshot!(format!("perfetto_{name}"), story(&packets));
    }
}

#[test]
fn lost_records_do_not_break_the_trace() {
    let whole = windows();
    for missing in 0..whole.records.len() {
        let mut trace = whole.clone();
        trace.records.remove(missing);
        let packets = decode(&trace);
        all_closed(&packets);
        let mut running = HashSet::new();
        for event in packets.iter().filter(|p| p.has_generic_kernel_task_state_event()) {
            let event = event.generic_kernel_task_state_event();
            match event.state() {
                TaskStateEnum::TASK_STATE_RUNNING => assert!(running.insert(event.tid()), "without record {missing}"),
                _ => drop(running.remove(&event.tid())),
            }
        }
    }
}
