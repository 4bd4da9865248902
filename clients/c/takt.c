/* The client library of Takt. takt.h describes its calls, docs/protocol.md the protocol below it. */
#define _GNU_SOURCE
#include "takt.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE_SIZE_BYTES 4096
#define MAGIC "TAKT"

/* The page that the scheduler shares. The offsets are part of the version. */
struct page {
	char magic[4];
	uint32_t version, oldest, abort_signal;
	uint32_t client, asked, answered, kind;
	uint64_t at;
	int64_t arguments[3];
	int32_t status;
	uint32_t load;
	int64_t results[8];
	uint64_t job;
	int64_t release, deadline;
	uint64_t aborted;
	uint32_t thread;
};

/* A wrong layout is an array of negative size. */
typedef char layout_is_right[offsetof(struct page, answered) == 24 && offsetof(struct page, results) == 72 &&
				     offsetof(struct page, aborted) == 160 && offsetof(struct page, thread) == 168
				 ? 1
				 : -1];

enum kind { NEXT = 1, YIELD, LOCK, UNLOCK, SET_PERIOD, SET_DEADLINE, SET_RUNTIME, SET_SHARE, STATISTICS, BEGIN, END };
enum status { DONE, REFUSED, ABORTED, INVALID };

/* A task's connection to its scheduler. */
struct connection {
	struct page *page;
	int bell, initialising;
	struct takt_job present;
	/* State of the job loop, read by the signal handler. */
	sigjmp_buf head;
	volatile sig_atomic_t armed, in_call;
	int looping, segment, loop_result;
	pid_t owner;
	/* Without a scheduler: the period, the relative deadline, the CPU time at the begin of the job, and its counts. */
	int64_t period, deadline, used;
	struct takt_statistics counts;
};

/* That of the program, which belongs to all threads that have not attached as a task of their own. */
static struct connection program = { .bell = -1 };

/*
 * A signal handler reads them. With glibc the first access of a thread may allocate memory, except in this model. musl allocates when a
 * thread starts, and its dlopen refuses this model.
 */
#ifdef __GLIBC__
#define OF_THREAD static __thread __attribute__((tls_model("initial-exec")))
#else
#define OF_THREAD static __thread
#endif
OF_THREAD struct connection own;
OF_THREAD int attached;

static struct connection *me(void)
{
	return attached ? &own : &program;
}

const char *takt_strerror(int result)
{
	switch (result) {
	case TAKT_ENOTTAKT: return "TAKT_CLIENT is not set: this program was not started by `takt run`, and TAKT_STANDALONE gives no period";
	case TAKT_EMALFORMED: return "TAKT_CLIENT is malformed: PAGE,BELL,INIT is expected";
	case TAKT_EVERSION: return "the scheduler does not serve the version of this library";
	case TAKT_ESYSTEM: return "a system call failed";
	case TAKT_EREFUSED: return "the scheduler refuses the request";
	case TAKT_EABORTED: return "the job was aborted";
	case TAKT_EINVAL: return "an argument is out of range";
	case TAKT_ENAME: return "the workload has no resource or thread of this name";
	case TAKT_EPERIOD: return "TAKT_STANDALONE is no period: a number with ns, us, ms or s is expected, such as 20ms";
	case TAKT_ETHREAD: return "another thread is this task, or this thread another task";
	default: return result >= 0 ? "success" : "unknown result";
	}
}

/* Reads `number` and the separator after it; -1 if it is none. */
static int number(const char **text, char separator)
{
	char *end;
	long value;

	if (**text < '0' || **text > '9')
		return -1;
	errno = 0;
	value = strtol(*text, &end, 10);
	if (errno || value > INT_MAX || *end != separator)
		return -1;
	*text = end + (separator != '\0');
	return (int)value;
}

static void nothing(int signal)
{
	(void)signal;
}

/* The default action of the abort signal ends the process. */
static int tolerate(int signal)
{
	struct sigaction action;

	if (signal == 0)
		return 0;
	if (sigaction(signal, NULL, &action) < 0)
		return -1;
	if (action.sa_handler != SIG_DFL)
		return 0;
	memset(&action, 0, sizeof action);
	action.sa_handler = nothing;
	action.sa_flags = SA_RESTART;
	return sigaction(signal, &action, NULL);
}

static void read_job(void)
{
	me()->present.number = __atomic_load_n(&me()->page->job, __ATOMIC_RELAXED);
	me()->present.release = __atomic_load_n(&me()->page->release, __ATOMIC_RELAXED);
	me()->present.deadline = __atomic_load_n(&me()->page->deadline, __ATOMIC_RELAXED);
}

/* Maps the page of a task and checks its versions. */
static int map(int file, struct page **mapped)
{
	struct stat stat;
	struct page *page;
	int result = TAKT_OK;

	if (fstat(file, &stat) < 0 || stat.st_size < PAGE_SIZE_BYTES)
		return TAKT_EMALFORMED;
	page = mmap(NULL, PAGE_SIZE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (page == MAP_FAILED)
		return TAKT_EMALFORMED;
	if (memcmp(page->magic, MAGIC, 4) != 0)
		result = TAKT_EMALFORMED;
	else if (TAKT_VERSION < page->oldest || TAKT_VERSION > page->version)
		result = TAKT_EVERSION;
	else if (tolerate((int)page->abort_signal) < 0)
		result = TAKT_ESYSTEM;
	if (result != TAKT_OK)
		munmap(page, PAGE_SIZE_BYTES);
	*mapped = page;
	return result;
}

static int64_t now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* The period of a program without a scheduler: a whole number above 0 with ns, us, ms or s. 0: it is none. */
static int64_t standalone_period(const char *text)
{
	static const struct { const char *name; int64_t ns; } units[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 } };
	char *end;
	long long value;
	size_t i;

	if (*text < '0' || *text > '9')
		return 0;
	errno = 0;
	value = strtoll(text, &end, 10);
	for (i = 0; i < sizeof units / sizeof *units; i++)
		if (!errno && strcmp(end, units[i].name) == 0 && value <= INT64_MAX / 4 / units[i].ns)
			return value * units[i].ns;
	return 0;
}

/* The program speaks from now on. */
static void connect_to(struct page *page, int bell, int initialising)
{
	me()->page = page;
	me()->bell = bell;
	me()->initialising = initialising;
	me()->owner = (pid_t)syscall(SYS_gettid);
	read_job();
	__atomic_store_n(&page->client, TAKT_VERSION, __ATOMIC_RELEASE);
}

/* The first job begins now, on a page that no scheduler shares. */
static int stand_alone(void)
{
	const char *text = getenv("TAKT_STANDALONE");
	struct page *page;
	int64_t period;

	if (!text)
		return TAKT_ENOTTAKT;
	period = standalone_period(text);
	if (period == 0)
		return TAKT_EPERIOD;
	page = mmap(NULL, PAGE_SIZE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return TAKT_ESYSTEM;
	me()->period = me()->deadline = period;
	me()->used = now(CLOCK_THREAD_CPUTIME_ID);
	me()->counts.released = 1;
	page->release = now(CLOCK_MONOTONIC);
	page->deadline = page->release + period;
	connect_to(page, -1, 0);
	return TAKT_OK;
}

/* Answers a request as a scheduler that has nothing else to do: nothing is refused, and a lock is granted at once. */
static int serve(enum kind kind, int64_t argument)
{
	struct connection *own_scheduler = me();
	struct page *page = own_scheduler->page;
	struct takt_statistics *counts = &own_scheduler->counts;

	switch (kind) {
	case NEXT:
	case BEGIN:
	case END:
		if (kind != BEGIN) {
			counts->completed++;
			*(now(CLOCK_MONOTONIC) <= page->deadline ? &counts->met : &counts->missed) += 1;
		}
		if (kind == END)
			break;
		page->job = (uint64_t)counts->released++;
		page->release = kind == NEXT ? page->release + own_scheduler->period : now(CLOCK_MONOTONIC);
		page->deadline = page->release + (kind == BEGIN && argument > 0 ? argument : own_scheduler->deadline);
		while (kind == NEXT) {
			struct timespec until = { page->release / 1000000000, page->release % 1000000000 };
			int error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);

			if (error == 0)
				break;
			if (error != EINTR) {
				errno = error;
				return TAKT_ESYSTEM;
			}
		}
		own_scheduler->used = now(CLOCK_THREAD_CPUTIME_ID);
		read_job();
		break;
	case YIELD: sched_yield(); break;
	case SET_PERIOD:
	case SET_DEADLINE:
		if (argument <= 0 || argument > INT64_MAX / 4)
			return TAKT_EINVAL;
		*(kind == SET_PERIOD ? &own_scheduler->period : &own_scheduler->deadline) = argument;
		break;
	case SET_RUNTIME: return argument > 0 ? TAKT_OK : TAKT_EINVAL;
	case STATISTICS:
		counts->consumed = now(CLOCK_THREAD_CPUTIME_ID) - own_scheduler->used;
		counts->budget = TAKT_NEVER;
		memcpy(page->results, counts, sizeof page->results);
		break;
	default: break;
	}
	return TAKT_OK;
}

int takt_attach(void)
{
	const char *text = getenv("TAKT_CLIENT");
	struct page *page;
	int file, bell, init, result;

	if (me()->page)
		return TAKT_OK;
	if (!text)
		return stand_alone();
	file = number(&text, ',');
	bell = file < 0 ? -1 : number(&text, ',');
	init = bell < 0 ? -1 : number(&text, '\0');
	if ((init != 0 && init != 1) || fcntl(bell, F_SETFD, FD_CLOEXEC) < 0)
		return TAKT_EMALFORMED;
	result = map(file, &page);
	if (result != TAKT_OK)
		return result;
	close(file);
	connect_to(page, bell, init);
	return TAKT_OK;
}

/* The descriptors of a thread task: a line PAGE,BELL,NAME of TAKT_THREADS. */
static int find(const char *name, int *file, int *bell)
{
	const char *text = getenv("TAKT_THREADS");
	size_t length = strlen(name);

	if (!text)
		return getenv("TAKT_CLIENT") ? TAKT_ENAME : TAKT_ENOTTAKT;
	while (*text) {
		size_t end;

		*file = number(&text, ',');
		*bell = *file < 0 ? -1 : number(&text, ',');
		if (*bell < 0)
			return TAKT_EMALFORMED;
		end = strcspn(text, "\n");
		if (end == length && memcmp(text, name, length) == 0)
			return TAKT_OK;
		text += end + (text[end] == '\n');
	}
	return TAKT_ENAME;
}

int takt_attach_thread(const char *name)
{
	uint32_t self = (uint32_t)syscall(SYS_gettid), other = 0;
	struct page *page;
	int file, bell, result = find(name, &file, &bell);

	if (result != TAKT_OK)
		return result;
	if ((pid_t)self == getpid())
		return TAKT_ETHREAD;
	/* The page stays open, since another thread may attach at the same time. */
	if (fcntl(file, F_SETFD, FD_CLOEXEC) < 0 || fcntl(bell, F_SETFD, FD_CLOEXEC) < 0)
		return TAKT_EMALFORMED;
	result = map(file, &page);
	if (result != TAKT_OK)
		return result;
	if (attached)
		result = page->thread == self ? TAKT_OK : TAKT_ETHREAD;
	else if (!__atomic_compare_exchange_n(&page->thread, &other, self, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		result = TAKT_ETHREAD;
	if (result != TAKT_OK || attached) {
		munmap(page, PAGE_SIZE_BYTES);
		return result;
	}
	attached = 1;
	connect_to(page, bell, 1);
	return TAKT_OK;
}

int takt_aborted(void)
{
	return me()->page && __atomic_load_n(&me()->page->aborted, __ATOMIC_ACQUIRE) == me()->present.number + 1;
}

/* Leaves the body of the job loop if its job was aborted. */
static void leave_if_aborted(void)
{
	if (me()->armed && !me()->in_call && takt_aborted()) {
		me()->armed = 0;
		siglongjmp(me()->head, 1);
	}
}

/* Makes a request and waits for its answer. */
static int ask(enum kind kind, int64_t first, int64_t second, int64_t third)
{
	const uint64_t one = 1;
	uint32_t asked, seen;
	int result = TAKT_ESYSTEM, status;

	if (me()->period)
		return serve(kind, first);
	me()->in_call = 1;
	me()->page->kind = kind;
	me()->page->at = me()->present.number;
	me()->page->arguments[0] = first;
	me()->page->arguments[1] = second;
	me()->page->arguments[2] = third;
	asked = me()->page->asked + 1;
	__atomic_store_n(&me()->page->asked, asked, __ATOMIC_RELEASE);
	while (write(me()->bell, &one, sizeof one) < 0)
		if (errno != EINTR)
			goto out;
	while ((seen = __atomic_load_n(&me()->page->answered, __ATOMIC_ACQUIRE)) != asked)
		if (syscall(SYS_futex, &me()->page->answered, FUTEX_WAIT, seen, NULL, NULL, 0) < 0 && errno != EAGAIN && errno != EINTR)
			goto out;
	status = __atomic_load_n(&me()->page->status, __ATOMIC_RELAXED);
	result = status == DONE ? TAKT_OK : status == REFUSED ? TAKT_EREFUSED : status == ABORTED ? TAKT_EABORTED : TAKT_EINVAL;
	if ((kind == NEXT || kind == BEGIN) && result == TAKT_OK)
		read_job();
out:
	me()->in_call = 0;
	return result;
}

/* A request that needs a job. The bell would end the initialisation. */
static int ask_in_job(enum kind kind, int64_t first, int64_t second)
{
	int result = takt_attach();

	if (result == TAKT_OK)
		result = me()->initialising ? TAKT_EREFUSED : ask(kind, first, second, 0);
	leave_if_aborted();
	return result;
}

int takt_job(struct takt_job *job)
{
	int result = takt_attach();

	if (result == TAKT_OK && job)
		*job = me()->present;
	return result;
}

int takt_ready(struct takt_job *job)
{
	int result = takt_attach();

	if (result == TAKT_OK && me()->initialising) {
		result = ask(NEXT, 0, 0, 0);
		me()->initialising = result != TAKT_OK;
	}
	return result == TAKT_OK ? takt_job(job) : result;
}

int takt_next_job(struct takt_job *job)
{
	int result = takt_attach();

	if (result == TAKT_OK && me()->initialising)
		return takt_ready(job);
	me()->armed = 0;
	if (result == TAKT_OK)
		result = ask(NEXT, 0, 0, 0);
	return result == TAKT_OK ? takt_job(job) : result;
}

int takt_begin(const struct takt_segment *terms, struct takt_job *job)
{
	static const struct takt_segment declared = { 0, 0, TAKT_DECLARED };
	int result = takt_attach();

	if (result == TAKT_OK && me()->initialising)
		result = takt_ready(NULL);
	me()->armed = 0;
	if (!terms)
		terms = &declared;
	if (result == TAKT_OK)
		result = ask(BEGIN, terms->deadline, terms->runtime, terms->utility);
	return result == TAKT_OK ? takt_job(job) : result;
}

int takt_end(void)
{
	int result = takt_attach();

	me()->armed = 0;
	if (result == TAKT_OK)
		result = me()->initialising ? TAKT_EREFUSED : ask(END, 0, 0, 0);
	return result;
}

int takt_yield(void)
{
	return ask_in_job(YIELD, 0, 0);
}

int takt_resource(const char *name)
{
	const char *names = getenv("TAKT_RESOURCES");
	size_t length = strlen(name);
	int result = takt_attach(), index = 0;

	if (result != TAKT_OK)
		return result;
	/* Outside Takt any name is a resource. */
	if (me()->period)
		return 0;
	while (names && *names) {
		size_t end = strcspn(names, ",");
		if (end == length && memcmp(names, name, length) == 0)
			return index;
		names += end + (names[end] == ',');
		index++;
	}
	return TAKT_ENAME;
}

int takt_lock(int resource)
{
	return ask_in_job(LOCK, resource, 0);
}

int takt_unlock(int resource)
{
	return ask_in_job(UNLOCK, resource, 0);
}

int takt_set_period(int64_t ns)
{
	return ask_in_job(SET_PERIOD, ns, 0);
}

int takt_set_deadline(int64_t ns)
{
	return ask_in_job(SET_DEADLINE, ns, 0);
}

int takt_set_runtime(int64_t ns)
{
	return ask_in_job(SET_RUNTIME, ns, 0);
}

int takt_set_share(int32_t millionths, uint32_t importance)
{
	return ask_in_job(SET_SHARE, millionths, importance);
}

int takt_statistics(struct takt_statistics *statistics)
{
	int result = takt_attach();

	if (result == TAKT_OK)
		result = me()->initialising ? TAKT_EREFUSED : ask(STATISTICS, 0, 0, 0);
	if (result == TAKT_OK) {
		const int64_t *r = me()->page->results;
		*statistics = (struct takt_statistics){ r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7] };
	}
	leave_if_aborted();
	return result;
}

static void on_abort(int signal)
{
	int error = errno;
	pid_t self = (pid_t)syscall(SYS_gettid);

	/* Only the thread of the loop may jump to its head. */
	if (self != me()->owner)
		syscall(SYS_tgkill, getpid(), me()->owner, signal);
	else
		leave_if_aborted();
	errno = error;
}

/* Lets aborts interrupt the body. The signal is not blocked in its handler, because siglongjmp leaves that. */
static int install(void)
{
	struct sigaction action;

	if (me()->page->abort_signal == 0)
		return 0;
	memset(&action, 0, sizeof action);
	action.sa_handler = on_abort;
	action.sa_flags = SA_RESTART | SA_NODEFER;
	return sigaction((int)me()->page->abort_signal, &action, NULL);
}

int takt_loop_next(struct takt_job *job)
{
	me()->armed = 0;
	if (me()->looping) {
		me()->loop_result = takt_next_job(job);
	} else {
		me()->loop_result = takt_attach();
		if (me()->loop_result == TAKT_OK) {
			me()->owner = (pid_t)syscall(SYS_gettid);
			me()->loop_result = install() < 0 ? TAKT_ESYSTEM : takt_ready(job);
		}
	}
	me()->looping = me()->loop_result == TAKT_OK;
	return me()->loop_result;
}

int takt_segment_next(const struct takt_segment *terms, struct takt_job *job)
{
	if (me()->segment) {
		me()->segment = 0;
		me()->loop_result = takt_end();
		return 0;
	}
	me()->loop_result = takt_attach();
	if (me()->loop_result == TAKT_OK) {
		me()->owner = (pid_t)syscall(SYS_gettid);
		me()->loop_result = install() < 0 ? TAKT_ESYSTEM : takt_begin(terms, job);
	}
	me()->segment = me()->loop_result == TAKT_OK;
	return me()->segment;
}

sigjmp_buf *takt_loop_head(void)
{
	return &me()->head;
}

int takt_loop_arm(void)
{
	me()->armed = 1;
	if (!takt_aborted())
		return 0;
	me()->armed = 0;
	return 1;
}

void takt_loop_aborted(void (*handler)(void))
{
	me()->armed = 0;
	if (handler)
		handler();
}

int takt_loop_result(void)
{
	return me()->loop_result;
}
