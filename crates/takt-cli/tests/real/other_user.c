/*
 * Attempts of another user against runs of root. It prints a line for each attempt: its name, a tab, and `refused` or `SUCCEEDED`.
 *
 * actor try RUN FOLDER TASK TAKT WATCHER STARTER
 * actor hold FOLDER NAME...: has abstract names of sockets and many more like the last one, a folder of /tmp, and locks of the trace of root, until there is
 *     the file `over`.
 * actor lease FOLDER NAME...: makes files and has leases of them, until there is the file `over`.
 * actor forge RUN GROUP FOLDER: a process with the marks of a group, until there is the file `over`. It reports what was done to it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int succeeded, tried;

static void attempt(const char *what, const char *target, int done)
{
	tried++;
	succeeded += done;
	printf("%s%s%s\t%s\n", what, target[0] ? " of the " : "", target, done ? "SUCCEEDED" : "refused");
}

static int opens(const char *path, int flags)
{
	return open(path, flags | O_NONBLOCK | O_CLOEXEC, 0666) >= 0;
}

static int lists(const char *path)
{
	return opendir(path) != NULL;
}

/* Connects to a name, or takes it. A name that begins with a zero byte is an abstract one, which is written with `@` here. */
static int socket_at(const char *name, int (*call)(int, const struct sockaddr *, socklen_t))
{
	struct sockaddr_un address = { AF_UNIX, "" };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	strncpy(address.sun_path, name, sizeof address.sun_path - 1);
	if (name[0] == '@')
		address.sun_path[0] = 0;
	return call(fd, (struct sockaddr *)&address, offsetof(struct sockaddr_un, sun_path) + strlen(name)) == 0;
}

static int writes(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) >= 0;
}

/* The attempts against a process. */
static void against(const char *target, int pid)
{
	char path[64], link[256], byte = 0;
	struct iovec here = { &byte, 1 }, there = { (void *)0x10000, 1 };
	struct sched_param fifo = { 1 }, none = { 0 };
	struct rlimit limit = { 1, 1 };
	cpu_set_t first;
	int fd, process = syscall(SYS_pidfd_open, pid, 0), done;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	for (fd = 0, done = 0; fd < 256; fd++) {
		snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
		done += opens(path, O_RDWR) || readlink(path, link, sizeof link) > 0;
	}
	attempt("open a descriptor", target, done > 0);
	for (fd = 0, done = 0; fd < 256; fd++)
		done += syscall(SYS_pidfd_getfd, process, fd, 0) >= 0;
	attempt("copy a descriptor", target, done > 0);
	snprintf(path, sizeof path, "/proc/%d/mem", pid);
	attempt("open the memory", target, opens(path, O_RDWR));
	snprintf(path, sizeof path, "/proc/%d/environ", pid);
	fd = open(path, O_RDONLY);
	attempt("read the environment", target, fd >= 0 && read(fd, &byte, 1) == 1);
	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	fd = open(path, O_RDONLY);
	attempt("read the mappings", target, fd >= 0 && read(fd, &byte, 1) == 1);
	snprintf(path, sizeof path, "/proc/%d/map_files", pid);
	attempt("list mapped files", target, lists(path));
	snprintf(path, sizeof path, "/proc/%d/%s/run/takt", pid, "root");
	attempt("enter the root directory", target, lists(path));
	attempt("read memory", target, process_vm_readv(pid, &here, 1, &there, 1, 0) == 1);
	attempt("write memory", target, process_vm_writev(pid, &here, 1, &there, 1, 0) == 1);
	attempt("trace", target, ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
	attempt("stop", target, kill(pid, SIGSTOP) == 0);
	attempt("continue", target, kill(pid, SIGCONT) == 0);
	attempt("kill", target, syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0) == 0);
	attempt("raise", target, sched_setscheduler(pid, SCHED_FIFO, &fifo) == 0);
	attempt("lower the class", target, sched_setscheduler(pid, SCHED_IDLE, &none) == 0);
	attempt("change the nice value", target, setpriority(PRIO_PROCESS, pid, 19) == 0);
	attempt("bind", target, sched_setaffinity(pid, sizeof first, &first) == 0);
	attempt("limit", target, prlimit(pid, RLIMIT_NOFILE, &limit, NULL) == 0);
	snprintf(path, sizeof path, "/proc/%d/oom_score_adj", pid);
	attempt("offer to the killer of memory", target, writes(path, "1000"));
	snprintf(path, sizeof path, "/proc/%d/timerslack_ns", pid);
	attempt("make the timers late", target, writes(path, "1000000000"));
}

static int try(char **arguments)
{
	static const char *targets[] = { "task", "driver of the run", "watcher", "starter" };
	const char *run = arguments[0], *folder = arguments[1];
	char path[256], other[256], own[32];
	struct sched_param fifo = { 1 };
	int n;

	/* Within one session the kernel lets every user send SIGCONT. */
	setsid();
	snprintf(path, sizeof path, "/run/takt/%s.sock", run);
	attempt("connect to the control socket", "", socket_at(path, connect));
	attempt("remove the control socket", "", unlink(path) == 0);
	attempt("list the control sockets", "", lists("/run/takt"));
	attempt("make a control socket", "", socket_at("/run/takt/1-1.sock", bind));
	attempt("take the name of a CPU in use", "", socket_at("@takt/cpu/0", bind));
	attempt("read the lock of the journal", "", opens("/run/takt-isolate/lock", O_RDONLY));
	attempt("write the lock of the journal", "", opens("/run/takt-isolate/lock", O_RDWR | O_CREAT));
	snprintf(other, sizeof other, "%s/hard-link", folder);
	attempt("give the lock another name", "", link("/run/takt-isolate/lock", other) == 0);
	attempt("remove the lock", "", unlink("/run/takt-isolate/lock") == 0);
	attempt("write the journal", "", opens("/run/takt-isolate/journal", O_WRONLY));
	attempt("make the journal", "", opens("/run/takt-isolate/journal-partial", O_WRONLY | O_CREAT));
	attempt("replace the folder of the journal", "", rename("/run/takt-isolate", "/run/takt-gone") == 0);
	attempt("make a folder in /run", "", mkdir("/run/takt-new", 0777) == 0);
	attempt("make a link in /run", "", symlink(folder, "/run/takt-link") == 0);
	attempt("make a group", "", mkdir("/sys/fs/cgroup/takt-1-1", 0777) == 0);
	snprintf(own, sizeof own, "%d", getpid());
	attempt("enter a group", "", writes("/sys/fs/cgroup/freezer/cgroup.procs", own) || writes("/sys/fs/cgroup/cgroup.procs", own));
	attempt("raise itself", "", sched_setscheduler(0, SCHED_FIFO, &fifo) == 0);
	for (n = 0; n < 4; n++)
		against(targets[n], atoi(arguments[2 + n]));
	return succeeded > 0;
}

static volatile sig_atomic_t signalled;

static void note(int number)
{
	signalled = number;
}

static int forge(char **arguments, char *program)
{
	char run[128], group[64], path[256];
	struct timespec step = { 0, 1000000 };
	int number, class, raised = 0;

	snprintf(run, sizeof run, "TAKT_RUN=%s", arguments[0]);
	snprintf(group, sizeof group, "TAKT_GROUP=%s", arguments[1]);
	if (!getenv("TAKT_RUN")) {
		char *marks[] = { run, group, NULL };
		char *again[] = { program, "forge", arguments[0], arguments[1], arguments[2], NULL };

		setsid();
		execve("/proc/self/exe", again, marks);
		return 2;
	}
	for (number = 1; number < NSIG; number++)
		signal(number, note);
	snprintf(path, sizeof path, "%s/forged-%d", arguments[2], getpid());
	close(open(path, O_CREAT | O_WRONLY, 0666));
	snprintf(path, sizeof path, "%s/over", arguments[2]);
	while (access(path, F_OK) != 0) {
		class = sched_getscheduler(0);
		if (class != SCHED_OTHER)
			raised = class;
		nanosleep(&step, NULL);
	}
	printf("get the class of a task by marks %s\t%s\n", arguments[1], raised ? "SUCCEEDED" : "refused");
	printf("be signalled by marks %s\t%s\n", arguments[1], signalled ? "SUCCEEDED" : "refused");
	return raised || signalled;
}

/* So many names make the list of names long that root's Takt searches. */
#define FLOOD 3000

/* Says that all is held, and keeps it until the test is over. */
static void until_over(const char *folder)
{
	char path[256];
	struct timespec step = { 0, 1000000 };

	snprintf(path, sizeof path, "%s/held", folder);
	close(open(path, O_CREAT | O_WRONLY, 0666));
	snprintf(path, sizeof path, "%s/over", folder);
	while (access(path, F_OK) != 0)
		nanosleep(&step, NULL);
}

static int hold(const char *folder, int count, char **names)
{
	char path[256], name[128];
	struct rlimit files = { 0, 0 };
	struct flock all = { F_RDLCK, SEEK_SET, 0, 0, 0 };
	int n, trace;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	for (n = 0; n < FLOOD; n++) {
		snprintf(name, sizeof name, "@%s-%d", names[count - 1], n);
		if (!socket_at(name, bind))
			break;
	}
	mkdir("/tmp/takt-0", 0777);
	snprintf(path, sizeof path, "%s/t.jsonl", folder);
	trace = open(path, O_RDONLY);
	if (trace < 0 || flock(trace, LOCK_EX) != 0 || fcntl(trace, F_OFD_SETLK, &all) != 0)
		return 1;

	for (n = 0; n < count; n++) {
		snprintf(name, sizeof name, "@%s", names[n]);
		if (!socket_at(name, bind))
			return 1;
	}
	until_over(folder);
	rmdir("/tmp/takt-0");
	return 0;
}

static int lease(const char *folder, int count, char **names)
{
	char path[256];
	int n, file;

	/* The kernel asks for the end of a lease by this signal. */
	signal(SIGIO, SIG_IGN);
	for (n = 0; n < count; n++) {
		snprintf(path, sizeof path, "%s/%s", folder, names[n]);
		file = open(path, O_RDWR | O_CREAT, 0666);
		if (file < 0 || write(file, "x", 1) != 1 || fchmod(file, 0666) != 0 || fcntl(file, F_SETLEASE, F_WRLCK) != 0)
			return 1;
	}
	until_over(folder);
	return 0;
}

int main(int count, char **arguments)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (count == 8 && !strcmp(arguments[1], "try"))
		return try(arguments + 2);
	if (count > 3 && !strcmp(arguments[1], "hold"))
		return hold(arguments[2], count - 3, arguments + 3);
	if (count > 3 && !strcmp(arguments[1], "lease"))
		return lease(arguments[2], count - 3, arguments + 3);
	if (count == 5 && !strcmp(arguments[1], "forge"))
		return forge(arguments + 2, arguments[0]);
	return 2;
}
