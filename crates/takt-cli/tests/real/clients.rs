//! Programs in C, Python and Rust that use the client libraries, those of DEmOS, and programs that misuse their page.

use crate::common::{Room, attempts, ensure};
use crate::machine::on_cpus;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use takt_testing::{Capability, skip};

fn clients(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients").join(path)
}

/// Compiles a program with the library in its source form. `None` without a compiler.
fn compiled(room: &Room, name: &str, source: &Path, library: bool) -> Option<()> {
    if !Capability::Compiler.is_present() {
        skip(Capability::Compiler, "programs in C need a compiler");
        return None;
    }
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]).arg(clients("c")).arg(source);
    if library {
        cc.arg(clients("c/takt.c"));
    }
    let done = cc.arg("-o").arg(room.path(name)).output().expect("cc starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(())
}

/// As [`compiled`], from a text.
pub(super) fn compiled_text(room: &Room, name: &str, text: &str, library: bool) -> Option<()> {
    let source = room.path(&format!("{name}.c"));
    std::fs::write(&source, text).expect("a file");
    compiled(room, name, &source, library)
}

/// Builds a copy of the C library, in the directory `c`.
pub(super) fn make(room: &Room, arguments: &[&str]) {
    std::fs::create_dir(room.path("c")).expect("a directory");
    for entry in std::fs::read_dir(clients("c")).expect("a directory") {
        let file = entry.expect("a file");
        std::fs::copy(file.path(), room.path("c").join(file.file_name())).expect("a copy");
    }
    let status = Command::new("make").args(["-s", "-C"]).arg(room.path("c")).args(arguments).status();
    assert!(status.expect("make starts").success());
}

pub(super) fn counts(task: &Value) -> [u64; 4] {
    ["released", "met", "missed", "aborted"].map(|key| task[key].as_u64().expect("a count"))
}

/// Each fourth job computes without end and is aborted; the others are met.
fn template(room: &Room, command: &str) {
    let text = format!(
        "policy: edf\ncpus: 0\nlate: abort\nresources: [map]\n\
         tasks: [{{name: t, period: 40ms, runtime: 10ms, on_abort: signal, init: yes, cmd: \"{command}\"}}]\n"
    );
    std::fs::write(room.path("w.yaml"), text).expect("a file");
    attempts(4, || {
        let run = room.takt(&["run", "w.yaml", "--duration", "800ms", "--json", "--trace", "t.jsonl"]).json();
        ensure(counts(&run["tasks"][0]) == [20, 15, 5, 5], || format!("{command}: {run}"))?;
        room.check("t.jsonl", "w.yaml")
    });
}

#[test]
fn an_abort_returns_each_template_to_its_job_loop() {
    on_cpus(|| {
        let room = Room::with("");
        let here = Path::new(env!("CARGO_BIN_EXE_takt")).parent().expect("a directory");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--locked", "--quiet", "--package", "takt-rt-client", "--example", "template"]);
        assert!(cargo.status().expect("cargo starts").success());
        template(&room, &format!("exec {}", here.join("examples/template").display()));
        if compiled(&room, "template", &clients("c/template.c"), true).is_none() {
            return;
        }
        template(&room, "exec ./template");
        if !Capability::Python.is_present() {
            return skip(Capability::Python, "the template in Python needs python3");
        }
        make(&room, &["libtakt.so.1"]);
        for (from, to) in [
            (room.path("c/libtakt.so.1"), "libtakt.so.1"),
            (clients("python/takt.py"), "takt.py"),
            (clients("python/template.py"), "t.py"),
        ] {
            std::fs::copy(from, room.path(to)).expect("a copy");
        }
        template(&room, "exec python3 t.py");
        for command in [&["./template"][..], &["python3", "t.py"]] {
            let done =
                Command::new(command[0]).args(&command[1..]).current_dir(room.path("")).output().expect("it starts");
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.code() == Some(1) && said.contains("TAKT_CLIENT is not set"), "{command:?}: {said}");
        }
    });
}

/// The client libraries without a scheduler, and so without a real-time run.
#[test]
fn a_period_of_its_own_gives_a_program_jobs_outside_takt() {
    let room = Room::with("");
    let here = Path::new(env!("CARGO_BIN_EXE_takt")).parent().expect("a directory");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--locked", "--quiet", "--package", "takt-rt-client", "--example", "alone"]);
    assert!(cargo.status().expect("cargo starts").success());
    let mut commands = vec![vec![here.join("examples/alone").display().to_string()]];
    if compiled_text(&room, "alone", ALONE_IN_C, true).is_some() {
        commands.push(vec!["./alone".to_owned()]);
        if Capability::Python.is_present() {
            make(&room, &["libtakt.so.1"]);
            std::fs::copy(room.path("c/libtakt.so.1"), room.path("libtakt.so.1")).expect("a copy");
            std::fs::copy(clients("python/takt.py"), room.path("takt.py")).expect("a copy");
            std::fs::write(room.path("alone.py"), ALONE_IN_PYTHON).expect("a file");
            commands.push(vec!["python3".to_owned(), "alone.py".to_owned()]);
        } else {
            skip(Capability::Python, "the program in Python needs python3");
        }
    }
    for command in commands {
        let run = |period: Option<&str>| {
            let mut alone = Command::new(&command[0]);
            alone.args(&command[1..]).current_dir(room.path("")).env_remove("TAKT_STANDALONE");
            if let Some(period) = period {
                alone.env("TAKT_STANDALONE", period);
            }
            let done = alone.output().expect("it starts");
            (done.status.code(), format!("{command:?} {period:?}: {}", String::from_utf8_lossy(&done.stderr)))
        };
        let (status, said) = run(Some("5ms"));
        assert_eq!(status, Some(0), "{said}");
        let (status, said) = run(None);
        assert!(status == Some(1) && said.contains("TAKT_CLIENT is not set"), "{said}");
        for period in ["", "5", "0ms", "-5ms", "5 ms", "1.5ms", "ms", "9223372036854775807ns"] {
            let (status, said) = run(Some(period));
            assert!(status == Some(1) && said.contains("TAKT_STANDALONE is no period"), "{said}");
        }
    }
}

/// Six jobs of a program outside Takt, with requests. The status says what is wrong.
const ALONE_IN_C: &str = r#"
#include "takt.h"
#include <stdio.h>

int main(void)
{
	struct takt_statistics counts;
	struct takt_job job;
	int64_t last = -1;
	int map = takt_attach();

	if (map != 0) {
		fprintf(stderr, "%s\n", takt_strerror(map));
		return 1;
	}
	for (int n = 1; n <= 4; n++) {
		if (takt_next_job(&job) != 0 || job.number != (uint64_t)n)
			return 2;
		if ((n > 1 && job.release - last != 5000000) || job.deadline - job.release != 5000000)
			return 3;
		last = job.release;
	}
	map = takt_resource("map");
	if (map < 0 || takt_lock(map) != 0 || takt_unlock(map) != 0 || takt_yield() != 0 || takt_aborted())
		return 4;
	if (takt_set_period(0) != TAKT_EINVAL || takt_set_period(2000000) != 0 || takt_next_job(&job) != 0)
		return 5;
	if (job.release - last != 2000000)
		return 6;
	if (takt_statistics(&counts) != 0 || counts.released != 6 || counts.completed != 5 || counts.met + counts.missed != 5)
		return 7;
	return takt_attach_thread("other") == TAKT_ENOTTAKT ? 0 : 8;
}
"#;

const ALONE_IN_PYTHON: &str = "
import itertools, takt

jobs = list(itertools.islice(takt.jobs(), 3))
assert [job.number for job in jobs] == [0, 1, 2], jobs
assert jobs[2].release - jobs[0].release == 10_000_000, jobs
assert takt.statistics().completed == 2
";

/// The results of the library in a malformed environment, and with schedulers of other versions.
const ATTACHES: &str = r#"
#define _GNU_SOURCE
#include "takt.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

static int attach(const char *magic, unsigned version, unsigned oldest)
{
	char text[64];
	int file = memfd_create("page", 0), bell = eventfd(0, EFD_NONBLOCK);
	unsigned words[4] = { 0, version, oldest, 0 };
	memcpy(words, magic, 4);
	if (ftruncate(file, 4096) < 0 || pwrite(file, words, sizeof words, 0) < 0)
		exit(9);
	snprintf(text, sizeof text, "%d,%d,0", file, bell);
	setenv("TAKT_CLIENT", text, 1);
	return takt_attach();
}

int main(void)
{
	static const char *const bad[] = { "", "1", "1,2", "1,2,2", "1,2,0,", "-1,2,0", "x,2,0", "77,78,0" };
	unsigned n;

	unsetenv("TAKT_CLIENT");
	printf("%d %d %d", takt_attach(), takt_next_job(NULL), takt_aborted());
	for (n = 0; n < sizeof bad / sizeof *bad; n++) {
		setenv("TAKT_CLIENT", bad[n], 1);
		printf(" %d", takt_lock(0));
	}
	printf(" %d", attach("NONE", 1, 1));
	printf(" %d", attach("TAKT", 4, 3));
	printf(" %d", attach("TAKT", 1, 1));
	printf(" %d\n", attach("TAKT", 3, 1));
	return 0;
}
"#;

#[test]
fn a_scheduler_that_does_not_speak_the_protocol_is_refused() {
    let room = Room::with("");
    if compiled_text(&room, "attaches", ATTACHES, true).is_some() {
        let done = Command::new(room.path("attaches")).output().expect("it starts");
        let [outside, malformed, version] = ["-1 -1 0", &" -2".repeat(9), " -3 -3 0\n"];
        assert_eq!(String::from_utf8_lossy(&done.stdout), [outside, malformed, version].concat());
    }
}

/// Its first job calls for everything, and prints each answer.
const CALLS: &str = r#"
#include "takt.h"
#include <stdio.h>

int main(void)
{
	struct takt_statistics s;
	struct takt_job first, second;
	int early = takt_yield();
	int ready = takt_ready(&first), lock = takt_lock(0), unlock = takt_unlock(0);
	int unknown = takt_lock(7), negative = takt_set_period(-1), most = takt_set_share(1000001, 1);
	int named = takt_resource("second"), none = takt_resource("other");
	int refused = takt_set_runtime(30000000), granted = takt_set_runtime(1000000), share = takt_set_share(300000, 2);
	int statistics = takt_statistics(&s);
	volatile long n;

	printf("%d %d %d %d %d %d %d %d %d ", early, ready, lock, unlock, unknown, negative, most, named, none);
	printf("%d %d %d %d %lld %lld ", refused, granted, share, statistics, (long long)s.released, (long long)s.completed);
	printf("%d ", s.consumed > 0 && s.consumed < 20000000 && s.budget > 0);
	for (n = 0; n < 1000000; n++)
		;
	takt_next_job(&second);
	printf("%lld %lld %d\n", (long long)second.number, (long long)(second.release - first.release),
	       second.deadline - second.release == 20000000);
	fflush(stdout);
	for (;;)
		takt_next_job(NULL);
}
"#;

#[test]
fn every_call_is_answered() {
    let text = "policy: {name: cbs, enforcement: hard}\ncpus: 0\nresources: [first, second]\n\
                tasks: [{name: t, period: 20ms, runtime: 2ms, reservation: {budget: 5ms, period: 20ms}, init: yes, \
                output: out, cmd: exec ./calls}]\n";
    on_cpus(|| {
        let room = Room::with(text);
        if compiled_text(&room, "calls", CALLS, true).is_none() {
            return;
        }
        attempts(3, || {
            let _ = std::fs::remove_file(room.path("out"));
            let run = room.takt(&["run", "w.yaml", "--duration", "200ms", "--json", "--trace", "t.jsonl"]).json();
            ensure(counts(&run["tasks"][0]) == [10, 10, 0, 0], || run.to_string())?;
            let said = room.text("out");
            ensure(said == "-5 0 0 0 -7 -7 -7 1 -8 -5 0 0 0 1 0 1 1 20000000 1\n", || said.clone())?;
            room.check("t.jsonl", "w.yaml")
        });
    });
}

/// It fills its page with garbage, and rings all the time.
const HOSTILE: &str = r#"
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
	int file, bell, init;
	const char *text = getenv("TAKT_CLIENT");
	uint32_t *page, state = 1;
	uint64_t one = 1;
	long n;

	if (!text || sscanf(text, "%d,%d,%d", &file, &bell, &init) != 3)
		return 1;
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (page == MAP_FAILED || ftruncate(file, 0) == 0)
		return 2;
	for (n = 0;; n++) {
		state = state * 1664525 + 1013904223;
		/* Known requests with odd arguments, and garbage everywhere. */
		if (n % 3)
			page[7] = state >> 28;
		else
			page[(state >> 20) % 1024] = state;
		page[5]++;
		if (n % 16 == 0 && write(bell, &one, 8) < 0)
			usleep(1);
	}
}
"#;

#[test]
fn a_page_full_of_garbage_harms_only_its_own_task() {
    let text = "policy: fp\ncpus: 0\nresources: [r]\ntasks:\n\
                - {name: good, priority: 9, period: 20ms, init: yes, cmd: \"exec takt burn --steps 'run 1ms, lock r, run 1ms, unlock r, run 1ms'\", \
                   steps: [run 1ms, lock r, run 1ms, unlock r, run 1ms]}\n\
                - {name: bad, priority: 1, period: 50ms, runtime: 20ms, budget: 20ms, cmd: exec ./hostile}\n";
    on_cpus(|| {
        let room = Room::with(text);
        if compiled_text(&room, "hostile", HOSTILE, false).is_none() {
            return;
        }
        attempts(4, || {
            let args = ["run", "w.yaml", "--duration", "1s", "--json", "--trace", "t.jsonl", "--record", "r.steps"];
            let run = room.takt(&args).json();
            let [good, bad] = [0, 1].map(|task| counts(&run["tasks"][task]));
            ensure(good == [50, 50, 0, 0] && bad[0] == 20, || run.to_string())?;
            room.check("t.jsonl", "w.yaml")?;
            // The recorded inputs give the same counts.
            let replay = room.takt(&["sim", "w.yaml", "--replay", "r.steps", "--json"]).json();
            let same = |task: usize| counts(&replay["tasks"][task]) == counts(&run["tasks"][task]);
            ensure(same(0) && same(1), || format!("{replay}"))
        });
    });
}

/// With the calls of DEmOS: a completion during the initialisation has no effect.
const DEMOS: &str = r#"
#include "demos-sch.h"

int main(void)
{
	int init = demos_init(), early = demos_completed();
	int ready = demos_initialization_completed(), again = demos_initialization_completed();

	printf("%d %d %d %d %d\n", init, early, ready, again, errno == EWOULDBLOCK);
	fflush(stdout);
	while (demos_completed() == 0)
		;
	return 1;
}
"#;

#[test]
fn programs_of_demos_compile_against_their_header() {
    let text = "windows: [{length: 20ms, cpu: 0, sc_partition: A}]\n\
                partitions: [{name: A, processes: [{cmd: exec ./demos, budget: 9ms, init: yes, output: out}]}]\n";
    on_cpus(|| {
        let room = Room::with(text);
        if compiled_text(&room, "demos", DEMOS, false).is_none() {
            return;
        }
        attempts(3, || {
            let _ = std::fs::remove_file(room.path("out"));
            let run = room.takt(&["run", "w.yaml", "--duration", "200ms", "--json"]).json();
            ensure(run["tasks"][0]["completed"] == 10, || run.to_string())?;
            ensure(room.text("out") == "0 0 0 -1 1\n", || room.text("out"))
        });
        let alone = Command::new(room.path("demos")).env_remove("DEMOS_PARAMETERS").output().expect("it starts");
        assert_eq!(String::from_utf8_lossy(&alone.stdout), "-1 -1 -1 -1 0\n");
    });
}

/// The library is installed, found by its package file, and linked.
#[test]
fn the_library_installs() {
    let room = Room::with("");
    if !Capability::Compiler.is_present() {
        return skip(Capability::Compiler, "the library is built by a compiler");
    }
    let prefix = room.path("prefix");
    make(&room, &["install", &format!("PREFIX={}", prefix.display())]);
    let pc = std::fs::read_to_string(prefix.join("lib/pkgconfig/takt.pc")).expect("a package file");
    assert!(
        pc.contains(&format!("prefix={}\n", prefix.display())) && pc.contains("Libs: -L${libdir} -ltakt\n"),
        "{pc}"
    );
    for file in
        ["include/takt.h", "include/demos-sch.h", "lib/libtakt.a", "lib/libtakt.so", "share/man/man3/takt_lock.3"]
    {
        assert!(prefix.join(file).exists(), "{file}");
    }
    std::fs::write(room.path("m.c"), "#include <takt.h>\nint main(void) { return takt_attach() != TAKT_ENOTTAKT; }\n")
        .unwrap();
    let mut cc = Command::new("cc");
    cc.arg("-I").arg(prefix.join("include")).arg(room.path("m.c")).arg("-L").arg(prefix.join("lib"));
    assert!(cc.arg("-ltakt").arg("-o").arg(room.path("m")).status().expect("cc starts").success());
    let mut linked = Command::new(room.path("m"));
    linked.env("LD_LIBRARY_PATH", prefix.join("lib")).env_remove("TAKT_CLIENT");
    assert!(linked.status().expect("it starts").success());
}
