//! Traces in a series of files (`--trace-size`, `--trace-files`).

use crate::common::Room;
use std::fs;
use std::path::PathBuf;

const TEXT: &str =
    "policy: edf\ncpus: 0\ntasks:\n- {name: a, period: 1ms, runtime: 200us}\n- {name: b, period: 3ms, runtime: 1ms}\n";
const SIZE: u64 = 64 << 10;

/// The files of a series, the oldest first.
fn files(room: &Room, ending: &str) -> Vec<PathBuf> {
    let older = (1..).map(|n| room.path(&format!("t.{n}.{ending}"))).take_while(|path| path.exists());
    let mut files: Vec<PathBuf> = older.collect();
    files.reverse();
    files.push(room.path(&format!("t.{ending}")));
    files
}

/// No record is lost or doubled at a border, and no file is larger than the bound.
#[test]
fn a_series_has_the_records_of_one_trace() {
    for ending in ["jsonl", "csv"] {
        let room = Room::with(TEXT);
        let (whole, part) = (format!("whole.{ending}"), format!("t.{ending}"));
        let sim = ["sim", "w.yaml", "--duration", "3s", "--trace"];
        room.takt(&[&sim[..], &[&whole]].concat()).expect(0);
        room.takt(&[&sim[..], &[&part, "--trace-size", "64K", "--trace-files", "1000"]].concat()).expect(0);
        let files = files(&room, ending);
        assert!(files.len() > 5, "{files:?}");
        assert!(files.iter().all(|file| fs::metadata(file).unwrap().len() <= SIZE), "{files:?}");
        let [first, .., before, _] = &files[..] else { panic!("{files:?}") };
        assert!(fs::metadata(before).unwrap().len() > SIZE / 2 && fs::metadata(first).unwrap().len() > SIZE / 2);
        let joined = format!("joined.{ending}");
        room.takt(&["trace", "convert", &part, &joined, "--series"]).expect(0);
        assert!(fs::read(room.path(&joined)).unwrap() == fs::read(room.path(&whole)).unwrap(), "{ending}");
        room.check(&joined, "w.yaml").unwrap();
        // Each file has its header.
        for file in &files {
            let name = file.file_name().unwrap().to_str().unwrap();
            assert!(room.takt(&["trace", "show", name]).expect(0).stdout.contains('a'));
        }
    }
}

/// The oldest files go, those of an earlier run first, and the disk never has more than the bound.
#[test]
fn a_series_keeps_its_bound() {
    let room = Room::with(TEXT);
    let sim = ["sim", "w.yaml", "--trace", "t.jsonl", "--trace-size", "64K"];
    room.takt(&[&sim[..], &["--duration", "2s", "--trace-files", "7"]].concat()).expect(0);
    assert_eq!(files(&room, "jsonl").len(), 7);
    room.takt(&[&sim[..], &["--duration", "500ms", "--seed", "7", "--trace-files", "3"]].concat()).expect(0);
    let files = files(&room, "jsonl");
    assert_eq!(files.len(), 3, "those beyond the bound are removed");
    let left =
        fs::read_dir(room.path("")).unwrap().flatten().filter(|f| f.file_name().to_string_lossy().starts_with("t."));
    let bytes: u64 = left.map(|file| file.metadata().unwrap().len()).sum();
    assert!(bytes <= 3 * SIZE, "{bytes}");
    // The joined trace begins where the oldest file begins, and ends with the run.
    room.takt(&["trace", "convert", "t.jsonl", "joined.jsonl", "--series"]).expect(0);
    let (joined, last) = (room.trace("joined.jsonl"), room.trace("t.jsonl"));
    assert_eq!(joined.footer, last.footer);
    assert_eq!(joined.records[0], room.trace("t.2.jsonl").records[0]);
    // A short run keeps the end of the one before it, which is not joined with it.
    room.takt(&[&sim[..], &["--duration", "10ms", "--seed", "8", "--trace-files", "3"]].concat()).expect(0);
    room.takt(&["trace", "convert", "t.jsonl", "short.jsonl", "--series"]).expect(0);
    assert_eq!(room.trace("short.jsonl").records, room.trace("t.jsonl").records);
    assert_eq!(room.trace("t.1.jsonl").records, last.records);
}

/// A later file names the policy that holds at its begin, and the files are still those of one run.
#[test]
fn files_after_a_change_of_the_policy_name_the_new_one() {
    let room = Room::with(&format!("{TEXT}changes: [{{at: 300ms, policy: fifo}}]\n"));
    let sim = ["sim", "w.yaml", "--duration", "2s", "--trace"];
    let series = ["t.jsonl", "--trace-size", "64K", "--trace-files", "1000"];
    room.takt(&[&sim[..], &["whole.jsonl"]].concat()).expect(0);
    room.takt(&[&sim[..], &series].concat()).expect(0);
    let files = files(&room, "jsonl");
    let policy = |file: &PathBuf| room.trace(file.file_name().unwrap().to_str().unwrap()).header.policy;
    let policies: Vec<String> = files.iter().map(policy).collect();
    assert_eq!((policies[0].as_str(), policies[policies.len() - 1].as_str()), ("edf", "fifo"), "{policies:?}");
    room.takt(&["trace", "convert", "t.jsonl", "joined.jsonl", "--series"]).expect(0);
    assert!(room.text("joined.jsonl") == room.text("whole.jsonl"), "all files are joined");
    // With the last ones only, the joined trace begins under the new policy.
    let kept = [&sim[..], &["k.jsonl", "--trace-size", "64K", "--trace-files", "2"]].concat();
    room.takt(&kept).expect(0);
    room.takt(&["trace", "convert", "k.jsonl", "kept.jsonl", "--series"]).expect(0);
    let kept = room.trace("kept.jsonl");
    assert_eq!((kept.header.policy.as_str(), &kept.records[0]), ("fifo", &room.trace("k.1.jsonl").records[0]));
}

#[test]
fn a_series_is_refused_where_there_is_no_file() {
    let room = Room::with(TEXT);
    let refused = |more: &[&str], code: &str| {
        let done = room.takt(&[&["sim", "w.yaml", "--duration", "10ms"], more].concat()).expect(2);
        assert!(done.stderr.contains(code), "{}", done.stderr);
    };
    refused(&["--trace", "-", "--trace-size", "64K"], "error[conflicting-options]");
    refused(&["--trace", "/dev/null", "--trace-size", "64K"], "");
    refused(&["--trace", "t.jsonl", "--trace-size", "1K"], "at least 64K");
    refused(&["--trace", "t.jsonl", "--trace-size", "64K", "--trace-files", "1"], "2..");
    refused(&["--trace-size", "64K"], "--trace");
    refused(&["--trace", "t.jsonl", "--trace-files", "3"], "--trace-size");
    assert!(!room.path("t.jsonl").exists());
}
