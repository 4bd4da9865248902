//! The documents are true: their commands run, their output is what comes out, their links lead somewhere, and the
//! reference pages have what the code has.
//!
//! * A block ` ```console ` holds commands after `$ ` and what they print. They run in a directory that holds `workloads/`;
//!   the commands of one document share it. A command that does not end with status 0 says so: `# exits 1`, or `# exits 0 or 1` where it depends. A line `…` of
//!   the output stands for any number of lines. Output that is not shown is not compared.
//! * A chart that a command draws (`--gantt NAME.svg`) and the document shows (`images/NAME.svg`) is the one in `docs/images`.
//! * In ` ```console measured ` the output depends on the machine: the commands run, the output is not compared.
//! * A block whose first line is a comment with a file's name (`# hello.yaml`, `// client.c`) is that file.
//! * Commands in ` ```sh ` are not run; [`NOT_RUN`] says why.
//!
//! `UPDATE=1 cargo test -p takt-rt-cli --test docs` rewrites what differs (and, in measured blocks, an output of `?`).

mod machine;

use machine::{Capability, Watch, alone, calm, skip};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use takt_testing::links;
use takt_workload::Code;

const TAKT: &str = env!("CARGO_BIN_EXE_takt");
/// No command of a document takes longer; a run that hangs is a failure.
const LIMIT: Duration = Duration::from_secs(120);

/// How commands begin that the documents name and this test does not run, and why.
const NOT_RUN: [(&str, &str); 27] = [
    ("takt top", "draws on a terminal; its tests do that"),
    ("takt ctl", "needs a run beside it; a test of the control of runs carries these out"),
    ("curl ", "needs a run beside it; tests read the metrics of a run without it"),
    ("takt sweep schedulability --sets 10000", "takes many minutes"),
    ("takt sweep load --cpus 4 --generator uunifast-discard", "takes minutes without optimisation"),
    ("takt bench", "takes minutes and needs the machine for itself"),
    ("cargo install", "changes the user's installation"),
    ("cargo xtask", "would run this test"),
    ("dpkg --install", "changes the machine; `cargo xtask service` installs the package in a virtual machine"),
    ("pip install ./crates/takt-python", "changes the user's installation; `cargo xtask python` builds the wheel"),
    ("python3 crates/takt-python/bench.py", "takes minutes; a test of the package runs a smaller form"),
    ("podman ", "needs podman, and an image of `cargo xtask dist`"),
    ("INSTA_UPDATE=always ", "would run this test"),
    ("cargo build --profile module", "run by the tests of `takt-wasm`, which need the module"),
    ("cargo run -p edzl", "run by the tests of that crate"),
    ("cargo run --release -p edzl", "takes a minute; the tests of that crate run a smaller form"),
    ("install -m 644", "changes the machine; `cargo xtask service` does it in a virtual one"),
    ("systemctl ", "needs systemd; `cargo xtask service` runs it in a virtual machine"),
    ("systemd-run ", "needs a user session of systemd"),
    ("cd mcu && cargo build", "needs a Rust target for microcontrollers; `cargo xtask mcu` builds the image"),
    ("takt mcu run", "needs QEMU and an image; `cargo xtask mcu` runs it"),
    ("mkdir ", "changes the machine's cgroup mounts"),
    ("sbatch ", "needs a Slurm cluster"),
    ("hq submit", "needs a HyperQueue server"),
    ("parallel ", "needs GNU parallel, and takes hours"),
    ("takt isolate ", "changes the machine; the tests of isolations carry these out"),
    ("takt run control.yaml --isolate", "changes the machine; a test of isolations does it"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn updating() -> bool {
    std::env::var_os("UPDATE").is_some()
}

/// All documents of the repository's root, of `docs/` and its folders.
fn documents() -> Vec<PathBuf> {
    let files = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut all: Vec<PathBuf> =
        ["", "docs", "docs/how-to", "docs/reproductions"].iter().flat_map(|below| files(root().join(below))).collect();
    all.retain(|path| path.extension().is_some_and(|e| e == "md"));
    all.sort();
    assert!(
        ["README.md", "docs/start.md", "docs/how-to/programs.md"].iter().all(|name| all.contains(&root().join(name)))
    );
    all
}

fn name(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// A fenced block: what follows the fence, the number of its first line, and its lines.
struct Block<'t> {
    info: &'t str,
    first: usize,
    lines: Vec<&'t str>,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut open = false;
    for (number, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), open) {
            (Some(info), false) => {
                blocks.push(Block { info: info.trim(), first: number + 1, lines: Vec::new() });
                open = true;
            }
            (Some(_), true) => open = false,
            (None, true) => blocks.last_mut().expect("one is open").lines.push(line),
            (None, false) => {}
        }
    }
    assert!(!open, "a block is not closed");
    blocks
}

/// Runs a shell command, both its outputs in one.
fn execute(command: &str, dir: &Path) -> (i32, String) {
    let (mut read, write) = std::io::pipe().expect("a pipe");
    let bin = Path::new(TAKT).parent().expect("a directory");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut child = Command::new("sh")
        .args(["-c", command])
        .current_dir(dir)
        .env("PATH", path)
        .stdin(Stdio::null())
        .stdout(write.try_clone().expect("a pipe"))
        .stderr(write)
        .spawn()
        .expect("sh");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        read.read_to_string(&mut text).map(|_| text)
    });
    let end = Instant::now() + LIMIT;
    let status = loop {
        match child.try_wait().expect("our own child") {
            Some(status) => break status,
            None if Instant::now() > end => {
                let _ = child.kill();
                panic!("`{command}` did not end within {LIMIT:?}");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    (status.code().unwrap_or(-1), reader.join().expect("the reader").expect("text"))
}

/// Runs a command of a document. A run over real processes in which something came too late, so that it ends with 1, is tried again.
fn execute_here(command: &str, expected: &[i32], dir: &Path) -> (i32, String) {
    // Another test's run on the same CPU would be a reason to refuse this one.
    let _alone = ["takt run", "takt bench", "takt demos -c"].iter().any(|run| command.contains(run)).then(alone);
    for _ in 0..4 {
        let (status, output) = execute(command, dir);
        if !command.starts_with("takt run ") || status != 1 || expected.contains(&1) {
            return (status, output);
        }
        println!("`{command}` ended with 1; once more: {output}");
        calm();
    }
    let watch = Watch::begin();
    let (status, output) = execute(command, dir);
    let stalls = watch.end();
    if status == 1 && stalls.longest > Duration::from_millis(20) {
        skip(Capability::Calm, &format!("`{command}` ended with 1, and {stalls}"));
        return (expected[0], output);
    }
    (status, output)
}

/// Whether `output` is what the document shows.
fn matches(shown: &[&str], output: &[String]) -> bool {
    match shown.iter().position(|line| line.trim() == "…") {
        None => shown.iter().map(|l| l.trim_end()).eq(output.iter().map(|l| l.trim_end())),
        Some(at) => {
            let (head, tail) = (&shown[..at], &shown[at + 1..]);
            let same = |a: &[&str], b: &[String]| a.iter().map(|l| l.trim_end()).eq(b.iter().map(|l| l.trim_end()));
            output.len() >= head.len()
                && same(head, &output[..head.len()])
                && (head.len()..=output.len()).any(|from| matches(tail, &output[from..]))
        }
    }
}

/// Runs one document's commands; returns its text with the output that came out, and the faults.
fn run_document(path: &Path) -> (String, Vec<String>) {
    let text = fs::read_to_string(path).expect("a document");
    let dir = tempfile::tempdir().expect("a directory");
    for folder in ["workloads", "clients/c", "clients/python"] {
        copy(&root().join(folder), &dir.path().join(folder));
    }
    // Cargo builds programs into it.
    let target = Path::new(TAKT).ancestors().nth(2).expect("a directory");
    std::os::unix::fs::symlink(target, dir.path().join("target")).expect("a link");
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    let (mut faults, mut shift) = (Vec::new(), 0isize);
    'document: for block in blocks(&text) {
        let file = block.lines.first().and_then(|line| line.strip_prefix("# ").or(line.strip_prefix("// ")));
        if let Some(file) = file.filter(|f| !f.contains(' ') && f.contains('.') && !block.info.starts_with("console")) {
            fs::write(dir.path().join(file), block.lines.join("\n") + "\n").expect("a file of the document");
        }
        if !block.info.starts_with("console") {
            continue;
        }
        let measured = match block.info {
            "console" => false,
            "console measured" => true,
            other => panic!("{}: an unknown kind of block, `{other}`", name(path)),
        };
        let commands: Vec<usize> = (0..block.lines.len()).filter(|&i| block.lines[i].starts_with("$ ")).collect();
        assert!(commands.first() == Some(&0), "{}:{}: a console begins with a command", name(path), block.first + 1);
        for (k, &at) in commands.iter().enumerate() {
            let end = commands.get(k + 1).copied().unwrap_or(block.lines.len());
            let mut shown = &block.lines[at + 1..end];
            while let [rest @ .., ""] = shown {
                shown = rest;
            }
            let place = format!("{}:{}", name(path), block.first + at + 1);
            let command = block.lines[at][2..].replace("cargo run --release -- ", "takt ");
            let known = ["takt ", "cc ", "make ", "cp ", "head ", "grep ", "cargo build "]
                .iter()
                .any(|start| command.starts_with(start));
            assert!(known, "{place}: `{command}` is no command of Takt: put it into a block of `sh`");
            if command.starts_with("cc ") && execute("command -v cc", dir.path()).0 != 0 {
                skip(Capability::Compiler, &format!("{place}: the rest of the document: there is no C compiler"));
                break 'document;
            }
            let status_of = |text: &str| text.trim().parse::<i32>().expect("a status");
            let expected = command.split_once("# exits ").map_or("0", |(_, statuses)| statuses);
            let expected: Vec<i32> = expected.split(" or ").map(status_of).collect();
            // Packages are built where they are.
            let here = if command.starts_with("cargo ") { root() } else { dir.path().to_owned() };
            let (status, output) = execute_here(&command, &expected, &here);
            // A machine of one CPU cannot run what the documents show on two.
            if status == 3 && !expected.contains(&3) && std::thread::available_parallelism().is_ok_and(|n| n.get() < 2)
            {
                skip(Capability::Cpus, &format!("{place}: {output}"));
                continue;
            }
            if !expected.contains(&status) {
                faults.push(format!("{place}: `{command}` ended with {status}, not {expected:?}:\n{output}"));
            }
            let output: Vec<String> = output.trim_end().lines().map(|l| l.trim_end().to_string()).collect();
            let differs = !measured && !shown.is_empty() && !matches(shown, &output);
            if differs && shown != ["?"] {
                let (shown, output) = (shown.join("\n"), output.join("\n"));
                faults.push(format!("{place}: `{command}` printed\n{output}\n\nand the document shows\n{shown}"));
            }
            if differs || shown == ["?"] {
                let first = (block.first + at + 1).checked_add_signed(shift).expect("a line");
                shift += output.len() as isize - shown.len() as isize;
                lines.splice(first..first + shown.len(), output);
            }
        }
    }
    faults.extend(
        drawn(dir.path()).filter(|image| text.contains(&format!("images/{}", image.name))).filter_map(compare_image),
    );
    (lines.join("\n") + "\n", faults)
}

/// A chart that a command has drawn.
struct Image {
    name: String,
    bytes: Vec<u8>,
}

fn drawn(dir: &Path) -> impl Iterator<Item = Image> {
    let entries = fs::read_dir(dir).expect("a directory").flatten();
    let charts = entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "svg"));
    charts.map(|entry| Image {
        name: entry.file_name().to_string_lossy().into_owned(),
        bytes: fs::read(entry.path()).expect("a chart"),
    })
}

fn compare_image(image: Image) -> Option<String> {
    let path = root().join("docs/images").join(&image.name);
    if updating() {
        fs::write(&path, &image.bytes).expect("a chart of the documents");
    }
    let same = fs::read(&path).is_ok_and(|found| found == image.bytes);
    (!same).then(|| {
        format!("{} is not what its command draws; UPDATE=1 cargo test -p takt-rt-cli --test docs", name(&path))
    })
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("a copy");
        }
    }
}

/// The expected generated page, against the present one.
fn compare(path: &Path, expected: &str) -> Option<String> {
    let found = fs::read_to_string(path).unwrap_or_default();
    if found == expected {
        return None;
    }
    if updating() {
        fs::write(path, expected).expect("a document");
        return None;
    }
    let line = found.lines().zip(expected.lines()).take_while(|(a, b)| a == b).count() + 1;
    Some(format!("{} is out of date from line {line}; UPDATE=1 cargo test -p takt-rt-cli --test docs", name(path)))
}

#[test]
fn every_command_works_and_prints_what_is_shown() {
    let mut faults = Vec::new();
    for path in documents() {
        let (text, found) = run_document(&path);
        if updating() {
            fs::write(&path, text).expect("a document");
            faults.extend(found.into_iter().filter(|fault| fault.contains("` ended with ")));
        } else {
            faults.extend(found);
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[test]
fn every_command_that_is_not_run_is_listed_with_the_reason() {
    let mut used = BTreeSet::new();
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a document");
        for block in blocks(&text) {
            let kinds =
                ["", "sh", "console", "console measured", "yaml", "text", "c", "json", "csv", "toml", "rust", "python"];
            assert!(kinds.contains(&block.info), "{}:{}: a block of `{}`", name(&path), block.first, block.info);
            for (at, line) in block.lines.iter().enumerate().filter(|(_, line)| block.info == "sh" && !line.is_empty())
            {
                let listed = NOT_RUN.iter().find(|(start, _)| line.starts_with(start));
                used.extend(listed.map(|(start, _)| *start));
                let known = line.starts_with('#') || listed.is_some();
                assert!(known, "{}:{}: `{line}` is neither run nor in NOT_RUN", name(&path), block.first + at + 1);
            }
        }
    }
    let unused: Vec<&str> = NOT_RUN.iter().map(|(start, _)| *start).filter(|start| !used.contains(start)).collect();
    assert!(unused.is_empty(), "in NOT_RUN, and in no document: {unused:?}");
}

#[test]
fn generated_pages_are_what_the_code_generates() {
    let mut faults = Vec::new();
    for (page, command) in [
        ("docs/cli.md", "takt __reference"),
        ("docs/messages.md", "takt __reference --messages"),
        ("docs/policies.md", "takt policies --markdown"),
    ] {
        let (status, output) = execute(command, &root());
        assert_eq!(status, 0, "{command}: {output}");
        faults.extend(compare(&root().join(page), &output));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The pages of reproductions, with their pictures.
#[test]
fn reproductions_are_what_the_command_writes() {
    let (written, own) = (tempfile::tempdir().expect("a directory"), root().join("docs/reproductions"));
    let command = format!("takt repro --short --write-docs {}", written.path().display());
    let (status, output) = execute(&command, &root());
    assert_eq!((status, output.as_str()), (0, ""), "{command}");
    let names = |dir: &Path| -> BTreeSet<String> {
        let entries = fs::read_dir(dir).expect("a directory").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let page = |name: &String| fs::read_to_string(written.path().join(name)).expect("a page");
    let mut faults: Vec<String> =
        names(written.path()).iter().filter_map(|name| compare(&own.join(name), &page(name))).collect();
    let left = names(&own).into_iter().filter(|name| !written.path().join(name).exists());
    faults.extend(left.map(|name| format!("docs/reproductions/{name} is written by no command")));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The tables of keys, each behind a comment with its name, are those of the reader.
#[test]
fn tables_of_keys_are_those_of_the_reader() {
    let page = root().join("docs/workload.md");
    let before = fs::read_to_string(&page).expect("the page");
    let mut text = before.clone();
    for (name, _) in takt_workload::keys::ALL {
        let comment = format!("<!-- Written from the keys of takt-workload: {name}; do not edit. -->\n\n");
        let begin = text.find(&comment).unwrap_or_else(|| panic!("docs/workload.md lacks {comment}")) + comment.len();
        let end = begin + text[begin..].find("\n\n").expect("an empty line after a table") + 1;
        text.replace_range(begin..end, &takt_workload::keys::manual(name).expect("a table"));
    }
    let fault = compare(&page, &text);
    assert!(fault.is_none(), "{}", fault.unwrap_or_default());
}

/// Adds the texts of all files below a directory.
fn texts(dir: &Path, all: &mut String) {
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        match entry.path() {
            path if path.is_dir() => texts(&path, all),
            // The list of all codes is no use of one.
            path if path.ends_with("code.rs") => {}
            path => all.push_str(&fs::read_to_string(path).unwrap_or_default()),
        }
    }
}

/// Codes whose messages depend on the state of a machine, so that no test provokes them.
const UNTESTED: [Code; 4] = [Code::MissingCapability, Code::BusyMachine, Code::CleanupFailed, Code::InternalFault];

#[test]
fn every_code_of_a_message_is_used_and_tested() {
    let mut sources = String::new();
    ["takt-workload", "takt-cli"]
        .iter()
        .for_each(|name| texts(&root().join("crates").join(name).join("src"), &mut sources));
    let used = |code: &&&Code| sources.contains(&format!("Code::{code:?}"));
    let unused: Vec<_> = Code::ALL.iter().filter(|code| !used(&code)).collect();
    assert!(unused.is_empty(), "no message has these codes: {unused:?}");
    let mut tests = String::new();
    ["takt-workload", "takt-cli"]
        .iter()
        .for_each(|name| texts(&root().join("crates").join(name).join("tests"), &mut tests));
    let tested = |code: &&Code| tests.contains(&format!("[{code}]"));
    let untested = Code::ALL.iter().filter(|code| !tested(code) && !UNTESTED.contains(code)).collect::<Vec<_>>();
    assert!(untested.is_empty(), "no test has these codes: {untested:?}");
}

/// The words in backticks of a text.
fn quoted(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(String::from).collect()
}

/// The output of `takt check` about a file.
fn diagnostics(file: &str) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("w.yaml"), file).expect("a file");
    let (status, output) = execute("takt check w.yaml", dir.path());
    assert_eq!(status, 2, "{file}\n{output}");
    output
}

/// The rows of the table below a heading of docs/workload.md: the first cell's word and the whole row.
fn rows(page: &str, heading: &str) -> Vec<(String, String)> {
    let section = page.split("\n## ").find(|s| s.starts_with(heading)).unwrap_or_else(|| panic!("no `## {heading}`"));
    let row = |line: &str| Some((line.strip_prefix("| `")?.split_once('`')?.0.to_string(), line.to_string()));
    section.lines().filter_map(row).collect()
}

#[test]
fn the_workload_page_has_exactly_the_keys_of_the_code() {
    let page = fs::read_to_string(root().join("docs/workload.md")).expect("the page");
    // The diagnostic for an unknown key lists the known ones, so the code itself says what there is. It has no list of many keys.
    let known = |file: &str, of: &str| {
        let output = diagnostics(file);
        let all: BTreeSet<String> = takt_workload::keys_of(of).into_iter().map(str::to_owned).collect();
        if !all.is_empty() {
            let hint = format!("of {of} are ");
            let tail = format!("; docs/workload.md describes all {}", all.len());
            assert!(output.contains(&hint) && output.contains(&tail), "{output}");
            return all;
        }
        let start = format!("hint: the keys of {of} are ");
        let line =
            output.lines().find_map(|l| l.strip_prefix(start.as_str())).unwrap_or_else(|| panic!("{of}:\n{output}"));
        quoted(line)
    };
    let shown = |heading: &str| rows(&page, heading).into_iter().map(|(key, _)| key).collect::<BTreeSet<_>>();
    assert_eq!(shown("The file"), known("zzz: 1", "a workload"));
    assert_eq!(shown("Window"), known("windows: [{length: 1, zzz: 1}]", "a window"));
    assert_eq!(shown("Slice"), known("windows: [{length: 1, slices: [{cpu: 0, zzz: 1}]}]", "a slice"));
    assert_eq!(shown("Task"), known("policy: edf\ntasks: [{zzz: 1}]", "a task"));
    let with_task = |keys: &str| format!("policy: edf\ntasks: [{{period: 1ms}}]\n{keys}");
    assert_eq!(shown("Costs"), known(&with_task("costs: {zzz: 1}"), "`costs`"));
    assert_eq!(shown("Change"), known(&with_task("changes: [{zzz: 1}]"), "a change"));
    let domain = "domains: [{zzz: 1}]\ntasks: [{period: 1ms}]";
    assert_eq!(shown("Domain"), known(domain, "a domain"));
    assert_eq!(shown("Server"), known(&with_task("servers: [{zzz: 1}]"), "a server"));
    let process = "windows: [{length: 1}]\npartitions: [{processes: [{zzz: 1}]}]";
    assert_eq!(shown("Process"), known(process, "a process"));
    let both: BTreeSet<String> = shown("Partition").union(&shown("Process")).cloned().collect();
    assert_eq!(both, known("windows: [{length: 1}]\npartitions: [{zzz: 1}]", "a partition"));
}

#[test]
fn the_workload_page_has_the_values_of_the_code() {
    let page = fs::read_to_string(root().join("docs/workload.md")).expect("the page");
    let table = "windows: [{length: 1}]\n";
    for (heading, key, file) in [
        ("The file", "late", format!("{table}late: zzz")),
        ("The file", "deciding", format!("{table}deciding: zzz")),
        ("The file", "backlog", format!("{table}backlog: zzz")),
        ("The file", "preset", format!("{table}preset: zzz")),
        ("The file", "locking", format!("{table}locking: zzz")),
        ("The file", "be_start", format!("{table}be_start: zzz")),
        ("The file", "rules", format!("{table}rules: zzz")),
        ("The file", "missing_cpus", format!("{table}missing_cpus: zzz")),
        ("The file", "realtime", format!("{table}realtime: zzz")),
        ("The file", "dispatch", format!("{table}dispatch: zzz")),
        ("The file", "on_crash", format!("{table}on_crash: zzz")),
        ("The file", "placement", "policy: p-edf\nplacement: zzz\ntasks: [{period: 1ms}]".to_string()),
        ("Task", "spawn", "policy: edf\ntasks: [{period: 1ms, spawn: zzz}]".to_string()),
        ("Task", "completion", "policy: edf\ntasks: [{period: 1ms, completion: zzz}]".to_string()),
        ("Task", "on_abort", "policy: edf\ntasks: [{period: 1ms, on_abort: zzz}]".to_string()),
        ("Task", "on_exit", "policy: edf\ntasks: [{period: 1ms, on_exit: zzz}]".to_string()),
        ("Task", "on_miss", "policy: edf\ntasks: [{period: 1ms, on_miss: zzz}]".to_string()),
        ("Task", "on_overrun", "policy: edf\ntasks: [{period: 1ms, on_overrun: zzz}]".to_string()),
        (
            "Process",
            "completion",
            "windows: [{length: 1, cpu: 0, sc_processes: [{cmd: a, completion: zzz}]}]".to_string(),
        ),
    ] {
        let output = diagnostics(&file);
        let line =
            output.lines().find(|l| l.contains(&format!("`{key}` must be "))).unwrap_or_else(|| panic!("{output}"));
        let values: BTreeSet<String> = quoted(line).into_iter().filter(|v| v != key).collect();
        let (_, row) = rows(&page, heading).into_iter().find(|(k, _)| k == key).expect("a row");
        assert!(values.len() > 1 && values.is_subset(&quoted(&row)), "{values:?} in: {row}");
    }
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut faults = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a document");
        faults.extend(links::faults(&path, &text).into_iter().map(|fault| format!("{}: {fault}", name(&path))));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn files_of_a_release_have_the_version_of_the_program() {
    let (mut faults, mut named) = (Vec::new(), 0);
    for path in documents() {
        let text = fs::read_to_string(&path).expect("a document");
        for (at, start) in
            ["takt-", "takt_", "takt:", "takt_rt_cli-"].iter().flat_map(|start| text.match_indices(start))
        {
            let rest = &text[at + start.len()..];
            let version: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
            if version.starts_with(|c: char| c.is_ascii_digit()) && version.contains('.') {
                named += 1;
                let right = version == env!("CARGO_PKG_VERSION");
                faults.extend((!right).then(|| format!("{}: `{start}{version}`", name(&path))));
            }
        }
    }
    assert!(named > 3 && faults.is_empty(), "{named} files are named; of another version: {faults:?}");
}
