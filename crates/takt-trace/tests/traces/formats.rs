//! Text formats give back what was written, and say clearly what they cannot read.

use crate::common::{any_trace, rounds, samples, write};
use proptest::prelude::*;
use std::path::Path;
use takt_trace::{Format, ReadError, Trace, read};

const TEXTS: [Format; 2] = [Format::JsonLines, Format::Csv];

fn read_back(bytes: &[u8], format: Format) -> Result<Trace, ReadError> {
    read(bytes, format)
}

#[test]
fn text_formats_are_lossless() {
    takt_testing::for_all(256, any_trace(), |trace| {
        for format in TEXTS {
            prop_assert_eq!(&read_back(&write(&trace, format), format).unwrap(), &trace);
        }
        Ok(())
    });
}

#[test]
fn a_trace_that_was_cut_off_yields_a_prefix() {
    takt_testing::for_all(256, (any_trace(), 0.0..1.0_f64), |(trace, part)| {
        for format in TEXTS {
            let bytes = write(&trace, format);
            let cut = (bytes.len() as f64 * part) as usize;
            match read_back(&bytes[..cut], format) {
                Ok(read) => {
                    prop_assert_eq!(&read.header, &trace.header);
                    prop_assert_eq!(&read.records[..], &trace.records[..read.records.len()]);
                    prop_assert_eq!(&read.changes[..], &trace.changes[..read.changes.len()]);
                    let whole_lines = bytes[..cut].iter().filter(|b| **b == b'\n').count();
                    if format == Format::JsonLines {
                        let records = read.records.len() + read.changes.len();
                        prop_assert!(records + 1 + usize::from(read.footer.is_some()) >= whole_lines);
                    }
                }
                // Only when the header itself is cut.
                Err(ReadError::Syntax { .. }) => {
                    let empty = Trace { records: Vec::new(), changes: Vec::new(), footer: None, ..trace.clone() };
                    prop_assert!(cut < write(&empty, format).len(), "cut at {}", cut);
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
        Ok(())
    });
}

#[test]
fn the_form_of_the_files() {
    let (_, edf) = &samples()[0];
    let start = |format| {
        let text = String::from_utf8(write(edf, format)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        [&lines[..9], &["…"], &lines[lines.len() - 2..]].concat().join("\n")
    };
    insta::assert_snapshot!("jsonl", start(Format::JsonLines));
    insta::assert_snapshot!("csv", start(Format::Csv));
    let text = |format| String::from_utf8(write(&rounds(), format)).unwrap();
    insta::assert_snapshot!("rounds_jsonl", text(Format::JsonLines));
    insta::assert_snapshot!("rounds_csv", text(Format::Csv));
}

#[test]
fn samples_round_trip() {
    for (name, trace) in samples() {
        for format in TEXTS {
            assert_eq!(read_back(&write(&trace, format), format).unwrap(), trace, "{name}");
        }
    }
}

#[test]
fn faults_are_named_with_their_line() {
    let header = r#"{"takt_trace":1,"source":"sim","workload":"w","policy":"edf","scope":"global","seed":0,"places":["0"],"tasks":[{"name":"a"}]}"#;
    let message = |lines: &str| read(lines.as_bytes(), Format::JsonLines).unwrap_err().to_string();
    let after = |line: &str| message(&format!("{header}\n{line}\n{{\"at\":1,\"type\":\"end\"}}\n"));
    let all = [
        message(""),
        message("{}"),
        message(&header.replace("\"takt_trace\":1", "\"takt_trace\":2")),
        after("{\"at\":0"),
        after(r#"{"at":0,"type":"start","task":"b","job":0,"cpus":"0"}"#),
        after(r#"{"at":0,"type":"start","task":"a","job":0,"cpus":"1"}"#),
        after(r#"{"at":0,"type":"start","task":"a","job":0,"cpus":"x"}"#),
        after(r#"{"at":0,"type":"start","task":"a","cpus":"0"}"#),
        after(r#"{"at":0,"type":"stop","task":"a","job":0,"cpus":"0","reason":"bored"}"#),
        after(r#"{"at":0,"type":"party"}"#),
        after(r#"{"at":0,"type":"end"}"#),
        read(&b"a,b\n"[..], Format::Csv).unwrap_err().to_string(),
        read(
            &b"at_ns,applied_ns,type,task,job,cpus,detail,deadline_ns,amount_ns,window,number\n1,,end,,,,,,,,\n"[..],
            Format::Csv,
        )
        .unwrap_err()
        .to_string(),
        read(&b""[..], Format::Csv).unwrap_err().to_string(),
        read(&b""[..], Format::Perfetto).unwrap_err().to_string(),
    ];
    insta::assert_snapshot!(all.join("\n"));
}

/// 2^56 ns either way is the furthest: no sum of values that were read overflows.
#[test]
fn numbers_out_of_reach_are_refused() {
    let header = |duration: i64| {
        format!(
            r#"{{"takt_trace":1,"source":"sim","workload":"w","policy":"edf","scope":"global","seed":0,"places":["0"],"tasks":[{{"name":"a"}}],"duration_ns":{duration}}}"#
        )
    };
    let far = 1_i64 << 56;
    let lines = |t: i64, duration: i64| {
        [
            format!(r#"{{"at":{t},"type":"release","task":"a","job":0}}"#),
            format!(r#"{{"at":0,"applied":{t},"type":"release","task":"a","job":0}}"#),
            format!(r#"{{"at":0,"type":"release","task":"a","job":0,"deadline":{t}}}"#),
            format!(r#"{{"at":0,"type":"budget","task":"a","job":0,"amount":{t}}}"#),
            format!(r#"{{"at":0,"type":"burst","task":"a","set_point":{t},"measured":0,"next":0}}"#),
            format!(r#"{{"at":0,"type":"burst","task":"a","set_point":0,"measured":{t},"next":0}}"#),
            format!(r#"{{"at":0,"type":"burst","task":"a","set_point":0,"measured":0,"next":{t}}}"#),
            format!(r#"{{"at":{t},"type":"end"}}"#),
        ]
        .map(|line| read_back(format!("{}\n{line}\n", header(duration)).as_bytes(), Format::JsonLines))
    };
    let csv = |at: i64, amount: i64| {
        let columns = "at_ns,applied_ns,type,task,job,cpus,detail,deadline_ns,amount_ns,window,number";
        let meta = header(0).replace('"', "\"\"");
        let text = format!("{columns}\n,,meta,,,,\"{meta}\",,,,\n{at},,budget,a,0,,,,{amount},,\n");
        read_back(text.as_bytes(), Format::Csv)
    };
    for t in [far, -far] {
        assert!(lines(t, t).iter().all(Result::is_ok), "{t}");
        assert!(csv(t, t).is_ok());
    }
    for t in [far + 1, -far - 1, i64::MAX, i64::MIN] {
        for read in lines(t, 0).into_iter().chain([csv(t, 0), csv(0, t)]) {
            let message = read.unwrap_err().to_string();
            assert!(message.contains(&format!("is {t} ns, which is more than two years")), "{message}");
        }
        assert!(lines(0, t).iter().all(Result::is_err), "{t}");
    }
    // Places are numbers of 16 bits.
    let places = |n: usize| {
        let all = vec!["\"0\""; n].join(",");
        let line = header(0).replace("[\"0\"]", &format!("[{all}]"));
        read_back(format!("{line}\n").as_bytes(), Format::JsonLines)
    };
    assert!(places(65535).is_ok());
    assert!(places(65536).unwrap_err().to_string().contains("65536 places"));
    // The value of a setting need be no time.
    let line = format!(r#"{{"at":0,"type":"configure","setting":0,"value":{}}}"#, i64::MAX);
    read_back(format!("{}\n{line}\n", header(0)).as_bytes(), Format::JsonLines).unwrap();
}

#[test]
fn a_csv_that_went_through_a_spreadsheet_is_read() {
    let (_, edf) = &samples()[0];
    let text = String::from_utf8(write(edf, Format::Csv)).unwrap();
    let dos = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    assert_eq!(read_back(dos.as_bytes(), Format::Csv).unwrap(), *edf);
}

/// Files of the first form lack the columns that came later, and keys of the header.
#[test]
fn traces_of_the_first_form_are_read() {
    for (name, trace) in samples().into_iter().filter(|(name, _)| *name != "rounds") {
        let text = String::from_utf8(write(&trace, Format::Csv)).unwrap();
        let old = |line: &str| match line.strip_suffix(",set_point_ns,measured_ns,next_ns") {
            Some(columns) => columns.to_string(),
            None => line.strip_suffix(",,,").unwrap_or_else(|| panic!("{line}")).to_string(),
        };
        let old: Vec<String> = text.lines().map(old).collect();
        assert_eq!(read_back((old.join("\n") + "\n").as_bytes(), Format::Csv).unwrap(), trace, "{name}");
    }
    let (_, edf) = &samples()[0];
    assert!(!String::from_utf8(write(edf, Format::JsonLines)).unwrap().contains("resources"));
}

#[test]
fn formats_go_by_the_ending() {
    for (path, format) in [
        ("a.pftrace", Some(Format::Perfetto)),
        ("b/a.jsonl", Some(Format::JsonLines)),
        ("a.csv", Some(Format::Csv)),
        ("a.svg", None),
        ("csv", None),
    ] {
        assert_eq!(Format::from_path(Path::new(path)), format, "{path}");
    }
}

/// A task that was added and a window table that has taken over are in the trace, with their records.
#[test]
fn added_tasks_and_window_tables_are_read_back() {
    use takt_core::cpus::CpuSet;
    use takt_core::model::{BestEffortStart, PartitionId, Slice, TaskId, Window, WindowTable};
    use takt_core::record::{Place, Record, RecordKind};
    use takt_core::time::{Span, Time};
    let at = |ms: i64| Time::ZERO + Span::from_ms(ms);
    let label = |name: &str| takt_trace::TaskLabel { name: name.into(), ..Default::default() };
    let header = takt_trace::Header {
        places: vec![CpuSet::single(0)],
        tasks: vec![label("a")],
        ..takt_trace::Header::default()
    };
    let slice = Slice { cpus: CpuSet::single(0), sc: Some(PartitionId(0)), be: None };
    let table = WindowTable {
        frequencies: vec![vec![(0, 600_000)], Vec::new()],
        windows: vec![Window { length: Span::from_ms(5), slices: vec![slice] }],
        be_start: BestEffortStart::SliceDone,
        budgets: vec![(Some(Span::from_ms(2)), Span::ZERO), (None, Span::ZERO)],
    };
    let added = takt_trace::TaskLabel {
        partition: Some("band \"b\",1".into()),
        pid: Some(77),
        added: true,
        ..label("b, \"new\"\n")
    };
    let record = |ms, kind| takt_trace::Stamped { record: Record { at: at(ms), kind }, applied: at(ms) };
    let release = |task, ms| record(ms, RecordKind::Release { task: TaskId(task), job: 0, deadline: None });
    let start = record(4, RecordKind::Start { task: TaskId(1), job: 0, place: Place(0) });
    let records = [release(0, 1), record(3, RecordKind::Table { to: 3 }), release(1, 4), start];
    for format in [Format::JsonLines, Format::Csv, Format::Perfetto] {
        let out = crate::common::Shared::default();
        let mut writer = takt_trace::writer(format, &header, Box::new(out.clone())).unwrap();
        writer.record(&records[0]).unwrap();
        writer.table(at(2), 3, &table).unwrap();
        writer.record(&records[1]).unwrap();
        writer.task(at(4), &added).unwrap();
        records[2..].iter().for_each(|record| writer.record(record).unwrap());
        writer.finish(&takt_trace::Footer { end: at(9), dropped: 0 }).unwrap();
        let bytes = out.bytes();
        if format == Format::Perfetto {
            let text = String::from_utf8_lossy(&bytes);
            assert!(text.contains("b, \"new\""), "the track of the task has its name");
            continue;
        }
        let trace = read_back(&bytes, format).unwrap();
        assert_eq!(trace.header.tasks, [label("a"), added.clone()], "{format:?}");
        assert_eq!(trace.header.tables, [(3, table.clone())].into());
        assert_eq!(trace.records, records);
        // A later file of the series begins with both.
        let again = Trace { header: takt_trace::Header { table: Some(3), ..trace.header }, ..Trace::default() };
        assert_eq!(read_back(&write(&again, format), format).unwrap(), again);
        // A second task of the same name would be ambiguous.
        let text = String::from_utf8(bytes).unwrap();
        let line = text.lines().find(|line| line.contains("77")).unwrap();
        if format == Format::JsonLines {
            let twice = text.replace(line, &format!("{line}\n{line}"));
            assert!(read_back(twice.as_bytes(), format).unwrap_err().to_string().contains("already"));
        }
    }
}

/// Measured values are read back with their meters, extremes included, and a value of no meter is refused.
#[test]
fn measured_values_are_read_back() {
    use takt_core::time::{Span, Time};
    use takt_trace::{Measured, MeterLabel, Quantity};
    let meter = |name: &str, quantity| MeterLabel { name: name.into(), quantity };
    let meters = vec![
        meter("policy0", Quantity::Frequency),
        meter("chip: \"a\",b", Quantity::Temperature),
        meter("package-0", Quantity::Energy),
        meter("policy0 at 800 MHz", Quantity::Time),
    ];
    let header = takt_trace::Header { meters: meters.clone(), ..takt_trace::Header::default() };
    let measured = |ms, meter, value| Measured { at: Time::ZERO + Span::from_ms(ms), meter, value };
    let values = [measured(0, 0, 800_000), measured(1, 1, -40_000), measured(2, 2, i64::MAX), measured(2, 3, 0)];
    for format in [Format::JsonLines, Format::Csv, Format::Perfetto] {
        let out = crate::common::Shared::default();
        let mut writer = takt_trace::writer(format, &header, Box::new(out.clone())).unwrap();
        values.iter().for_each(|value| writer.measured(value).unwrap());
        writer.finish(&takt_trace::Footer { end: Time::ZERO + Span::from_ms(3), dropped: 0 }).unwrap();
        let bytes = out.bytes();
        if format == Format::Perfetto {
            let text = String::from_utf8_lossy(&bytes);
            assert!(text.contains("policy0 frequency, measured") && text.contains("package-0 energy, measured"));
            continue;
        }
        let trace = read_back(&bytes, format).unwrap();
        assert_eq!((trace.header.meters, &trace.measured[..]), (meters.clone(), &values[..]), "{format:?}");
        assert!(trace.records.is_empty());
        let text = String::from_utf8(bytes).unwrap();
        let unknown = match format {
            Format::JsonLines => text.replace("\"meter\":3", "\"meter\":4"),
            _ => text.replace(",0,3,,,,", ",0,4,,,,"),
        };
        assert_ne!(unknown, text);
        assert!(read_back(unknown.as_bytes(), format).unwrap_err().to_string().contains("no such meter"), "{format:?}");
    }
}
