//! The program with EDZL: the commands that `docs/writing-policies.md` shows, and a small form of its experiment.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Status and output of the program with these arguments.
fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_edzl")).args(arguments).current_dir(root()).output();
    let output = output.expect("it starts");
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// The status and output of the command whose arguments begin so.
const SHOWN: [(&str, i32, &str); 5] = [
    ("policies edzl", 0, "no time to lose"),
    ("check examples/edzl/edzl.yaml", 0, "g-edzl"),
    ("sim examples/edzl/edzl.yaml --strict --policy g-edf", 1, "missed"),
    ("sim examples/edzl/edzl.yaml --strict", 0, "g-edzl"),
    ("run examples/edzl/edzl.yaml", 0, "g-edzl"),
];

#[test]
fn commands_of_the_page_end_as_it_says() {
    let page = std::fs::read_to_string(root().join("docs/writing-policies.md")).expect("the page");
    let commands: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("cargo run -p edzl -- ")).collect();
    assert_eq!(commands.len(), SHOWN.len());
    for command in commands {
        let (_, expected, says) = SHOWN.iter().find(|(begin, ..)| command.starts_with(begin)).expect("an expectation");
        let (status, text) = run(&command.split(' ').collect::<Vec<_>>());
        if command.starts_with("run ") && status == Some(3) {
            eprintln!("SKIPPED: {command}: {text}");
            continue;
        }
        assert_eq!(status, Some(*expected), "{command}: {text}");
        assert!(text.contains(says), "{command}: {text}");
    }
    assert!(run(&["policies"]).1.contains("until zero laxity"));
    let (status, text) = run(&["sim", "examples/edzl/edzl.yaml", "--policy", "g-edlz"]);
    assert!(status == Some(2) && text.contains("did you mean `g-edzl`?"), "{text}");
}

/// The part of random sets that a policy schedules: the page has the same with 500 sets of 10 s.
#[test]
fn it_schedules_more_sets_than_global_edf() {
    let sets = "sweep schedulability --sets 40 --points 3.6 --cpus 4 --tasks 12 --generator uunifast-discard --periods uniform:10ms..100ms \
                --duration 1s --seed 1 --test sim:g-edzl,sim:g-edf";
    let (status, text) = run(&sets.split_whitespace().collect::<Vec<_>>());
    assert_eq!(status, Some(0), "{text}");
    let mut rows = text.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = rows.next().expect("a header").split(',').collect();
    let row: Vec<&str> = rows.next().expect("a row").split(',').collect();
    let of =
        |name: &str| row[names.iter().position(|n| *n == name).expect("a column")].parse::<f64>().expect("a number");
    assert!(of("sim:g-edzl") >= of("sim:g-edf") + 0.3, "{text}");
}
