//! Programs with several tasks, one for each thread (`thread_of`).

use super::clients::{compiled_text, counts};
use super::replay;
use crate::common::{Done, Room, Running, TAKT, attempts, ensure, has_cpus, kill, mechanisms, until};
use crate::machine::{Capability, on_cpus, skip};
use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A program whose arguments are its threads: `NAME,MICROSECONDS,SPIN,LEAVE,EXIT`, the first one without a name. Each SPINth job computes without end, the
/// thread ends in the job of number LEAVE, and the program in that of number EXIT; 0 is none.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include "takt.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct of {
	char name[16];
	long us;
	unsigned spin, leave, end;
};

static void compute(long ns)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < ns);
}

static void *run(void *argument)
{
	const struct of *of = argument;
	int result = *of->name ? takt_attach_thread(of->name) : takt_attach();

	if (result != TAKT_OK) {
		fprintf(stderr, "%s: %s\n", of->name, takt_strerror(result));
		exit(3);
	}
	TAKT_JOB_LOOP(job, NULL) {
		if (of->spin && job.number % of->spin == of->spin - 1)
			for (;;)
				;
		compute(of->us * 1000);
		if (of->leave && job.number == of->leave)
			return NULL;
		if (of->end && job.number == of->end)
			exit(0);
	}
	exit(4);
}

int main(int count, char **arguments)
{
	static struct of all[8];
	pthread_t id;
	int n;

	for (n = 1; n < count; n++) {
		char *comma = strchr(arguments[n], ',');
		memcpy(all[n].name, arguments[n], comma - arguments[n]);
		sscanf(comma, ",%ld,%u,%u,%u", &all[n].us, &all[n].spin, &all[n].leave, &all[n].end);
		if (n > 1 && pthread_create(&id, NULL, run, &all[n]) != 0)
			return 5;
	}
	run(&all[1]);
	pthread_exit(NULL);
}
"#;

/// A room with the program, if threads can be had here. The workload's head is that of all.
fn room(tasks: &str) -> Option<Room> {
    if !takt_linux::rt::rt_allowed() || takt_linux::rt::preempt_rt() {
        skip(Capability::RealTime, "threads are dispatched by priority, which needs SCHED_FIFO");
        return None;
    }
    let room = Room::with(&format!("cpus: 0\ndispatch: priority\ninit_timeout: 2s\n{tasks}"));
    compiled_text(&room, "program", PROGRAM, true)?;
    Some(room)
}

/// The mechanisms that stop single threads.
fn groups() -> Vec<&'static str> {
    mechanisms().into_iter().filter(|mechanism| *mechanism != "signal").collect()
}

fn all_counts(run: &Value) -> Vec<[u64; 4]> {
    run["tasks"].as_array().expect("tasks").iter().map(counts).collect()
}

/// Every fifth job of `video` computes without end and is aborted. The execution times are those of the program.
const ABORTED: &str = "policy: edf\nlate: abort\ntasks:\n\
    - {name: control, cmd: 'exec ./program ,2000,0,0,0 video,6000,5,0,0 log,15000,0,0,0', init: yes, period: 20ms, deadline: 15ms, runtime: 3ms, execution: [2ms]}\n\
    - {name: video, thread_of: control, period: 40ms, runtime: 8ms, execution: [6ms, 6ms, 6ms, 6ms, 100ms], on_abort: signal}\n\
    - {name: log, thread_of: control, period: 100ms, runtime: 20ms, execution: [15ms]}\n";

#[test]
fn threads_of_a_program_have_the_outcomes_of_the_simulation() {
    on_cpus(|| {
        let Some(room) = room(ABORTED) else { return };
        let sim = room.takt(&["sim", "w.yaml", "--duration", "1s", "--json"]).json();
        assert_eq!(all_counts(&sim), [[50, 50, 0, 0], [25, 20, 5, 5], [10, 10, 0, 0]]);
        for mechanism in groups() {
            attempts(5, || {
                let run =
                    ["run", "w.yaml", "--duration", "1s", "--mechanism", mechanism, "--json", "--trace", "t.jsonl"];
                let run = room.takt(&run).json();
                ensure(all_counts(&run) == all_counts(&sim), || format!("{mechanism}: {run}"))?;
                assert!(!run["notes"].to_string().contains("by freezing"), "{run}");
                room.check("t.jsonl", "w.yaml")
            });
        }
    });
}

#[test]
fn a_run_of_threads_replays() {
    on_cpus(|| {
        let Some(room) = room(ABORTED) else { return };
        let records = replay::replayed_in(&room);
        assert!(records.len() > 300, "{}", records.len());
    });
}

#[test]
fn a_thread_that_exceeds_its_budget_takes_nothing_from_the_others() {
    on_cpus(|| {
        let Some(room) = room(
            "policy: edf\ntasks:\n\
             - {name: control, cmd: 'exec ./program ,2000,0,0,0 video,6000,1,0,0 log,15000,0,0,0', init: yes, period: 50ms, runtime: 3ms}\n\
             - {name: video, thread_of: control, period: 100ms, offset: 5ms, runtime: 8ms, budget: 10ms}\n\
             - {name: log, thread_of: control, period: 100ms, runtime: 20ms}\n",
        ) else {
            return;
        };
        for mechanism in groups() {
            attempts(5, || {
                let run = room.takt(&["run", "w.yaml", "--duration", "1s", "--mechanism", mechanism, "--json"]).json();
                let expected = [[20, 20, 0, 0], [10, 0, 10, 10], [10, 10, 0, 0]];
                ensure(all_counts(&run) == expected, || format!("{mechanism}: {run}"))?;
                // Ten budgets of its own, and no CPU time of the other threads.
                let used = |task: usize| run["tasks"][task]["cpu_ns"].as_u64().expect("a time") / 1_000_000;
                println!("{mechanism}: control, video and log used {}, {} and {} ms", used(0), used(1), used(2));
                ensure((95..130).contains(&used(1)), || format!("{mechanism}: {run}"))?;
                ensure((38..60).contains(&used(0)) && (145..170).contains(&used(2)), || format!("{mechanism}: {run}"))
            });
        }
    });
}

/// Together they need one and a half CPUs.
#[test]
fn threads_of_a_program_have_cpus_of_their_own() {
    on_cpus(|| {
        if !has_cpus(2) {
            return;
        }
        let Some(room) = room(
            "policy: p-edf\ntasks:\n\
             - {name: control, cmd: 'exec ./program ,7000,0,0,0 video,27000,0,0,0 log,38000,0,0,0', init: yes, cpu: 0, period: 20ms, runtime: 8ms}\n\
             - {name: video, thread_of: control, cpu: 1, period: 40ms, runtime: 28ms}\n\
             - {name: log, thread_of: control, cpu: 0, period: 100ms, runtime: 40ms}\n",
        ) else {
            return;
        };
        let text = room.text("w.yaml").replace("cpus: 0\n", "cpus: 0-1\n");
        std::fs::write(room.path("w.yaml"), text).expect("a file");
        let sim = room.takt(&["sim", "w.yaml", "--duration", "1s", "--json"]).json();
        assert_eq!(all_counts(&sim), [[50, 50, 0, 0], [25, 25, 0, 0], [10, 10, 0, 0]]);
        for mechanism in groups() {
            attempts(5, || {
                let run = room.takt(&["run", "w.yaml", "--duration", "1s", "--mechanism", mechanism, "--json"]).json();
                ensure(all_counts(&run) == all_counts(&sim), || format!("{mechanism}: {run}"))
            });
        }
    });
}

/// Two partitions of a table have threads of one program: one with a policy, and one in which a job is what a signal ends.
const WINDOWS: &str = "windows: [{length: 20ms, cpu: 0, sc_partition: A}, {length: 30ms, cpu: 0, sc_partition: B}]\npartitions:\n\
    - name: A\n  policy: edf\n  processes:\n\
    \x20 - {name: control, cmd: 'exec ./program ,3000,0,0,0 video,5000,0,0,0 log,8000,0,0,0', init: yes, period: 50ms, runtime: 4ms, execution: [3ms]}\n\
    \x20 - {name: video, thread_of: control, period: 100ms, runtime: 8ms, execution: [5ms]}\n\
    - {name: B, processes: [{name: log, thread_of: control, budget: 20ms, runtime: 10ms, execution: [8ms]}]}\n";

#[test]
fn threads_in_windows_have_the_outcomes_of_the_simulation() {
    on_cpus(|| {
        let Some(room) = room(WINDOWS) else { return };
        let sim = room.takt(&["sim", "w.yaml", "--duration", "1s", "--json"]).json();
        assert_eq!(all_counts(&sim), [[20, 20, 0, 0], [10, 10, 0, 0], [20, 20, 0, 0]]);
        for mechanism in groups() {
            attempts(5, || {
                let run =
                    ["run", "w.yaml", "--duration", "1s", "--mechanism", mechanism, "--json", "--trace", "t.jsonl"];
                let run = room.takt(&run).json();
                ensure(all_counts(&run) == all_counts(&sim), || format!("{mechanism}: {run}"))?;
                // No thread has a CPU outside of the windows of its partition.
                room.check("t.jsonl", "w.yaml")
            });
        }
    });
}

/// A workload of two tasks, with these arguments for each.
fn two(control: &str, log: &str) -> String {
    format!(
        "policy: edf\ntasks:\n\
         - {{name: control, cmd: 'exec ./program ,{control} log,{log}', init: yes, period: 20ms, runtime: 3ms}}\n\
         - {{name: log, thread_of: control, period: 100ms, runtime: 20ms}}\n"
    )
}

#[test]
fn a_thread_ends_alone_and_a_program_with_all_of_its_tasks() {
    on_cpus(|| {
        for mechanism in groups() {
            let run = |control: &str, log: &str| {
                let room = room(&two(control, log))?;
                Some(room.takt(&["run", "w.yaml", "--duration", "1s", "--mechanism", mechanism, "--json"]).json())
            };
            // The thread ends in its third job, which is none then.
            let Some(left) = run("1000,0,0,0", "1000,0,2,0") else { return };
            assert_eq!((&left["ended"], counts(&left["tasks"][0])[0]), (&"duration".into(), 50), "{left}");
            assert_eq!(counts(&left["tasks"][1]), [2, 2, 0, 0], "{left}");
            // So does the first thread.
            let left = run("1000,0,2,0", "1000,0,0,0").expect("a run");
            assert_eq!((&left["ended"], counts(&left["tasks"][1])), (&"duration".into(), [10, 10, 0, 0]), "{left}");
            assert_eq!(counts(&left["tasks"][0]), [2, 2, 0, 0], "{left}");
            assert!(!left["notes"].to_string().contains("could not be removed"), "{left}");
            // Another thread is frozen then.
            let ended = run("1000,0,0,0", "1000,0,0,2").expect("a run");
            assert_eq!(ended["ended"], "all exited", "{ended}");
            let length = ended["duration_ns"].as_u64().expect("a time") / 1_000_000;
            assert!((200..500).contains(&length), "{ended}");
        }
    });
}

#[test]
fn a_program_that_is_killed_ends_all_of_its_tasks() {
    on_cpus(|| {
        for mechanism in groups() {
            let Some(room) = room(&two("1000,0,0,0", "1000,0,0,0").replace("exec", "echo $$ > pid; exec")) else {
                return;
            };
            let run = room.start(&["run", "w.yaml", "--duration", "2s", "--mechanism", mechanism, "--json"]);
            until("the program runs", || room.text("pid").trim().parse::<i32>().is_ok());
            std::thread::sleep(std::time::Duration::from_millis(700));
            kill(room.text("pid").trim().parse().expect("a number"), Signal::KILL);
            // No group and no process is left.
            let done = run.wait().expect(1);
            let run: Value = serde_json::from_str(&done.stdout).expect("a summary");
            for name in ["control", "log"] {
                let said = format!("{name} was ended by signal 9");
                assert!(run["notes"].to_string().contains(&said), "{mechanism}: {run}");
            }
            // The tasks miss their jobs from then on, as any task whose program has failed.
            let [control, log] = [0, 1].map(|task| counts(&run["tasks"][task]));
            assert!(control[1] > 10 && control[2] > 40 && log[1] > 1 && log[2] > 8, "{mechanism}: {run}");
        }
    });
}

/// The other thread becomes the first one by `exec`, in a group of its own.
#[test]
fn a_program_that_a_thread_replaces_is_ended() {
    on_cpus(|| {
        for mechanism in groups() {
            let text = PROGRAM.replace("return NULL;", "execl(\"/bin/sleep\", \"sleep\", \"100\", NULL);");
            let text = text.replace("#include <time.h>", "#include <time.h>\n#include <unistd.h>");
            let Some(room) = room(&two("1000,0,0,0", "1000,0,2,0")) else { return };
            compiled_text(&room, "program", &text, true);
            let done = room.takt(&["run", "w.yaml", "--duration", "1s", "--mechanism", mechanism, "--json"]);
            let run: Value = serde_json::from_str(&done.stdout).expect("a summary");
            let notes = run["notes"].to_string();
            assert!(notes.contains("control was ended by signal 9"), "{mechanism}: {run}");
            assert!(!notes.contains("could not be removed"), "{mechanism}: {run}");
            let [control, log] = [0, 1].map(|task| counts(&run["tasks"][task]));
            assert!((8..20).contains(&control[1]) && control[2] > 25 && log[1] == 2, "{mechanism}: {run}");
        }
    });
}

/// A user without rights has no real-time class and no groups. The run is refused with the reason, and nothing starts.
#[test]
fn threads_of_a_program_need_rights() {
    if !Capability::Users.is_present() {
        return skip(Capability::Users, "threads of a program without root");
    }
    on_cpus(|| {
        let Some(room) = room(&two("1000,0,0,0", "1000,0,0,0").replace("exec", "touch started; exec")) else { return };
        std::fs::set_permissions(room.path(""), std::fs::Permissions::from_mode(0o777)).expect("its own room");
        let ids = ["--reuid=65533", "--regid=65532", "--clear-groups"];
        let run = ["run", "w.yaml", "--duration", "100ms"];
        let mut command = Command::new("setpriv");
        command.args(ids).arg(TAKT).args(run).current_dir(room.path(""));
        let done = Running::start(&mut command).wait().expect(3);
        assert!(done.stderr.contains("fix:") && done.stderr.contains("error[missing-capability]"), "{}", done.stderr);
        assert!(!room.path("started").exists());
    });
}

#[test]
fn a_scheduler_that_is_killed_leaves_no_thread() {
    on_cpus(|| {
        for mechanism in groups() {
            let Some(room) = room(&two("1000,0,0,0", "1000,0,0,0").replace("exec", "echo $$ > pid; exec")) else {
                return;
            };
            let run = room.start(&["run", "w.yaml", "--duration", "9s", "--mechanism", mechanism]);
            until("the program runs", || room.text("pid").trim().parse::<i32>().is_ok());
            std::thread::sleep(std::time::Duration::from_millis(300));
            // Nothing is left after a while.
            run.kill_and_wait();
        }
    });
}

/// A program that names threads by itself. Its argument says which.
const LIAR: &str = r#"
#define _GNU_SOURCE
#include "takt.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int parent;
static const char *lie;

/* Names a thread as a task, and signals. */
static void claim(const char *name, unsigned thread)
{
	const char *line = strstr(getenv("TAKT_THREADS"), name);
	unsigned long one = 1;
	int file, bell;

	while (line[-1] != '\n' && line > getenv("TAKT_THREADS"))
		line--;
	if (sscanf(line, "%d,%d", &file, &bell) == 2) {
		unsigned *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		page[42] = thread;
		page[4] = TAKT_VERSION;
		page[7] = 1;
		page[5] = 1;
		if (write(bell, &one, 8) != 8)
			exit(6);
	}
}

static void *run(void *name)
{
	unsigned self = syscall(SYS_gettid);

	if (strcmp(lie, "foreign") == 0)
		claim(name, 1);
	else if (strcmp(lie, "parent") == 0)
		claim(name, parent);
	else if (strcmp(lie, "none") == 0)
		claim(name, 0);
	else if (strcmp(lie, "first") == 0)
		claim(name, getpid());
	else if (strcmp(lie, "same") == 0) {
		claim("video", self);
		claim("log", self);
	}
	sleep(100);
	return NULL;
}

static void *honest(void *results)
{
	int *of = results;

	of[0] = takt_attach_thread("nothing");
	of[1] = takt_attach_thread("video");
	of[2] = takt_attach_thread("video");
	of[3] = takt_attach_thread("log");
	return NULL;
}

static void *second(void *results)
{
	int *of = results;

	of[4] = takt_attach_thread("video");
	return NULL;
}

int main(int count, char **arguments)
{
	pthread_t id;
	int of[6] = { 0 };

	lie = count > 1 ? arguments[1] : "";
	parent = getppid();
	if (strcmp(lie, "calls") == 0) {
		if (pthread_create(&id, NULL, honest, of) == 0)
			pthread_join(id, NULL);
		if (pthread_create(&id, NULL, second, of) == 0)
			pthread_join(id, NULL);
		of[5] = takt_attach_thread("log");
		printf("%d %d %d %d %d %d", of[0], of[1], of[2], of[3], of[4], of[5]);
		fflush(stdout);
		return 1;
	}
	pthread_create(&id, NULL, run, "video");
	if (strcmp(lie, "same") != 0)
		pthread_create(&id, NULL, run, "log");
	takt_ready(NULL);
	return 1;
}
"#;

fn lied(command: &str) -> Option<Done> {
    let room = room(&format!(
        "policy: edf\ntasks:\n\
         - {{name: control, cmd: '{command}', init: yes, period: 20ms, runtime: 3ms, output: out}}\n\
         - {{name: video, thread_of: control, period: 50ms, runtime: 3ms}}\n\
         - {{name: log, thread_of: control, period: 100ms, runtime: 20ms}}\n"
    ))?;
    let text = room.text("w.yaml").replace("init_timeout: 2s", "init_timeout: 500ms");
    std::fs::write(room.path("w.yaml"), text).expect("a file");
    compiled_text(&room, "liar", LIAR, true)?;
    let mut done = room.takt(&["run", "w.yaml", "--duration", "200ms"]).expect(1);
    done.stdout = room.text("out");
    Some(done)
}

#[test]
fn a_program_has_no_threads_but_its_own() {
    on_cpus(|| {
        for (lie, said) in [
            ("foreign", "1 is no thread of the process"),
            ("parent", "is no thread of the process"),
            ("none", "0 is no thread of the process"),
            ("first", "is another task already"),
            ("same", "is another task already"),
            ("never", "video, log did not signal"),
        ] {
            let Some(done) = lied(&format!("exec ./liar {lie}")) else { return };
            assert!(done.stderr.contains(said), "{lie}: {}", done.stderr);
            assert!(done.stderr.contains("error[init-failed]"), "{lie}: {}", done.stderr);
        }
        // The threads belong to a child of the process that the scheduler knows.
        let done = lied("./program ,1000,0,0,0 video,1000,0,0,0 log,1000,0,0,0; true").expect("a run");
        assert!(done.stderr.contains("`exec`"), "{}", done.stderr);
        let done = lied("exec ./liar calls").expect("a run");
        assert_eq!(done.stdout, "-8 0 0 -9 -9 -9", "{}", done.stderr);
    });
}

#[test]
fn threads_need_control_groups() {
    on_cpus(|| {
        let Some(room) = room(ABORTED) else { return };
        let done = room.takt(&["run", "w.yaml", "--duration", "100ms", "--mechanism", "signal"]).expect(3);
        assert!(done.stderr.contains("cannot be stopped one by one"), "{}", done.stderr);
    });
}

#[test]
fn programs_in_rust_and_python_have_threads() {
    on_cpus(|| {
        let here = Path::new(env!("CARGO_BIN_EXE_takt")).parent().expect("a directory");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--locked", "--quiet", "--package", "takt-rt-client", "--example", "threads"]);
        assert!(cargo.status().expect("cargo starts").success());
        let runs = |command: &str, files: &[(&Path, &str)]| {
            let Some(room) = room(&format!(
                "policy: edf\ntasks:\n\
                 - {{name: control, cmd: '{command}', init: yes, period: 50ms, runtime: 10ms}}\n\
                 - {{name: log, thread_of: control, period: 100ms, runtime: 40ms}}\n"
            )) else {
                return;
            };
            for (from, to) in files {
                std::fs::copy(from, room.path(to)).expect("a copy");
            }
            attempts(5, || {
                let run = room.takt(&["run", "w.yaml", "--duration", "1s", "--json"]).json();
                ensure(all_counts(&run) == [[20, 20, 0, 0], [10, 10, 0, 0]], || format!("{command}: {run}"))
            });
        };
        runs(&format!("exec {}", here.join("examples/threads").display()), &[]);
        if !Capability::Python.is_present() || !Capability::Compiler.is_present() {
            return skip(Capability::Python, "the program in Python needs python3");
        }
        let library = Room::with("");
        super::clients::make(&library, &["libtakt.so.1"]);
        let program = library.path("threads.py");
        std::fs::write(
            &program,
            "import takt, threading\n\
             def log():\n\
             \x20   takt.attach_thread('log')\n\
             \x20   for job in takt.jobs():\n\
             \x20       sum(range(20000))\n\
             threading.Thread(target=log, daemon=True).start()\n\
             for job in takt.jobs():\n\
             \x20   sum(range(5000))\n",
        )
        .expect("a file");
        let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python/takt.py");
        let files =
            [(&*library.path("c/libtakt.so.1"), "libtakt.so.1"), (&*clients, "takt.py"), (&*program, "threads.py")]
                .map(|(from, to)| (from.to_path_buf(), to));
        let files: Vec<(&Path, &str)> = files.iter().map(|(from, to)| (from.as_path(), *to)).collect();
        runs("exec python3 threads.py", &files);
    });
}
