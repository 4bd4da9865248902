/* The client library of Takt. takt.h describes its calls, docs/protocol.md the protocol below it. */
#define _GNU_SOURCE
#include "takt.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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
};

/* A wrong layout is an array of negative size. */
typedef char layout_is_right[offsetof(struct page, answered) == 24 && offsetof(struct page, results) == 72 &&
				     offsetof(struct page, aborted) == 160
				 ? 1
				 : -1];

enum kind { NEXT = 1, YIELD, LOCK, UNLOCK, SET_PERIOD, SET_DEADLINE, SET_RUNTIME, SET_SHARE, STATISTICS, BEGIN, END };
enum status { DONE, REFUSED, ABORTED, INVALID };

static struct page *page;
static int bell = -1;
static int initialising;
static struct takt_job present;

/* State of the job loop, read by the signal handler. */
static sigjmp_buf head;
static volatile sig_atomic_t armed, in_call;
static int looping, segment, loop_result;
static pid_t owner;

const char *takt_strerror(int result)
{
	switch (result) {
	case TAKT_ENOTTAKT: return "TAKT_CLIENT is not set: this program was not started by `takt run`";
	case TAKT_EMALFORMED: return "TAKT_CLIENT is malformed: PAGE,BELL,INIT is expected";
	case TAKT_EVERSION: return "the scheduler does not serve the version of this library";
	case TAKT_ESYSTEM: return "a system call failed";
	case TAKT_EREFUSED: return "the scheduler refuses the request";
	case TAKT_EABORTED: return "the job was aborted";
	case TAKT_EINVAL: return "an argument is out of range";
	case TAKT_ENAME: return "the workload has no resource of this name";
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
	present.number = __atomic_load_n(&page->job, __ATOMIC_RELAXED);
	present.release = __atomic_load_n(&page->release, __ATOMIC_RELAXED);
	present.deadline = __atomic_load_n(&page->deadline, __ATOMIC_RELAXED);
}

int takt_attach(void)
{
	const char *text = getenv("TAKT_CLIENT");
	struct stat stat;
	struct page *mapped;
	int file, init;
	uint32_t oldest, newest;

	if (page)
		return TAKT_OK;
	if (!text)
		return TAKT_ENOTTAKT;
	file = number(&text, ',');
	bell = file < 0 ? -1 : number(&text, ',');
	init = bell < 0 ? -1 : number(&text, '\0');
	if (init != 0 && init != 1)
		return TAKT_EMALFORMED;
	if (fstat(file, &stat) < 0 || stat.st_size < PAGE_SIZE_BYTES || fcntl(bell, F_SETFD, FD_CLOEXEC) < 0)
		return TAKT_EMALFORMED;
	mapped = mmap(NULL, PAGE_SIZE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (mapped == MAP_FAILED)
		return TAKT_EMALFORMED;
	oldest = mapped->oldest;
	newest = mapped->version;
	if (memcmp(mapped->magic, MAGIC, 4) != 0 || TAKT_VERSION < oldest || TAKT_VERSION > newest) {
		int result = memcmp(mapped->magic, MAGIC, 4) != 0 ? TAKT_EMALFORMED : TAKT_EVERSION;
		munmap(mapped, PAGE_SIZE_BYTES);
		return result;
	}
	if (tolerate((int)mapped->abort_signal) < 0)
		return TAKT_ESYSTEM;
	close(file);
	initialising = init;
	owner = (pid_t)syscall(SYS_gettid);
	page = mapped;
	read_job();
	__atomic_store_n(&page->client, TAKT_VERSION, __ATOMIC_RELEASE);
	return TAKT_OK;
}

int takt_aborted(void)
{
	return page && __atomic_load_n(&page->aborted, __ATOMIC_ACQUIRE) == present.number + 1;
}

/* Leaves the body of the job loop if its job was aborted. */
static void leave_if_aborted(void)
{
	if (armed && !in_call && takt_aborted()) {
		armed = 0;
		siglongjmp(head, 1);
	}
}

/* Makes a request and waits for its answer. */
static int ask(enum kind kind, int64_t first, int64_t second, int64_t third)
{
	const uint64_t one = 1;
	uint32_t asked, seen;
	int result = TAKT_ESYSTEM, status;

	in_call = 1;
	page->kind = kind;
	page->at = present.number;
	page->arguments[0] = first;
	page->arguments[1] = second;
	page->arguments[2] = third;
	asked = page->asked + 1;
	__atomic_store_n(&page->asked, asked, __ATOMIC_RELEASE);
	while (write(bell, &one, sizeof one) < 0)
		if (errno != EINTR)
			goto out;
	while ((seen = __atomic_load_n(&page->answered, __ATOMIC_ACQUIRE)) != asked)
		if (syscall(SYS_futex, &page->answered, FUTEX_WAIT, seen, NULL, NULL, 0) < 0 && errno != EAGAIN && errno != EINTR)
			goto out;
	status = __atomic_load_n(&page->status, __ATOMIC_RELAXED);
	result = status == DONE ? TAKT_OK : status == REFUSED ? TAKT_EREFUSED : status == ABORTED ? TAKT_EABORTED : TAKT_EINVAL;
	if ((kind == NEXT || kind == BEGIN) && result == TAKT_OK)
		read_job();
out:
	in_call = 0;
	return result;
}

/* A request that needs a job. The bell would end the initialisation. */
static int ask_in_job(enum kind kind, int64_t first, int64_t second)
{
	int result = takt_attach();

	if (result == TAKT_OK)
		result = initialising ? TAKT_EREFUSED : ask(kind, first, second, 0);
	leave_if_aborted();
	return result;
}

int takt_job(struct takt_job *job)
{
	int result = takt_attach();

	if (result == TAKT_OK && job)
		*job = present;
	return result;
}

int takt_ready(struct takt_job *job)
{
	int result = takt_attach();

	if (result == TAKT_OK && initialising) {
		result = ask(NEXT, 0, 0, 0);
		initialising = result != TAKT_OK;
	}
	return result == TAKT_OK ? takt_job(job) : result;
}

int takt_next_job(struct takt_job *job)
{
	int result = takt_attach();

	if (result == TAKT_OK && initialising)
		return takt_ready(job);
	armed = 0;
	if (result == TAKT_OK)
		result = ask(NEXT, 0, 0, 0);
	return result == TAKT_OK ? takt_job(job) : result;
}

int takt_begin(const struct takt_segment *terms, struct takt_job *job)
{
	static const struct takt_segment declared = { 0, 0, TAKT_DECLARED };
	int result = takt_attach();

	if (result == TAKT_OK && initialising)
		result = takt_ready(NULL);
	armed = 0;
	if (!terms)
		terms = &declared;
	if (result == TAKT_OK)
		result = ask(BEGIN, terms->deadline, terms->runtime, terms->utility);
	return result == TAKT_OK ? takt_job(job) : result;
}

int takt_end(void)
{
	int result = takt_attach();

	armed = 0;
	if (result == TAKT_OK)
		result = initialising ? TAKT_EREFUSED : ask(END, 0, 0, 0);
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
		result = initialising ? TAKT_EREFUSED : ask(STATISTICS, 0, 0, 0);
	if (result == TAKT_OK) {
		const int64_t *r = page->results;
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
	if (self != owner)
		syscall(SYS_tgkill, getpid(), owner, signal);
	else
		leave_if_aborted();
	errno = error;
}

/* Lets aborts interrupt the body. The signal is not blocked in its handler, because siglongjmp leaves that. */
static int install(void)
{
	struct sigaction action;

	if (page->abort_signal == 0)
		return 0;
	memset(&action, 0, sizeof action);
	action.sa_handler = on_abort;
	action.sa_flags = SA_RESTART | SA_NODEFER;
	return sigaction((int)page->abort_signal, &action, NULL);
}

int takt_loop_next(struct takt_job *job)
{
	armed = 0;
	if (looping) {
		loop_result = takt_next_job(job);
	} else {
		loop_result = takt_attach();
		if (loop_result == TAKT_OK) {
			owner = (pid_t)syscall(SYS_gettid);
			loop_result = install() < 0 ? TAKT_ESYSTEM : takt_ready(job);
		}
	}
	looping = loop_result == TAKT_OK;
	return loop_result;
}

int takt_segment_next(const struct takt_segment *terms, struct takt_job *job)
{
	if (segment) {
		segment = 0;
		loop_result = takt_end();
		return 0;
	}
	loop_result = takt_attach();
	if (loop_result == TAKT_OK) {
		owner = (pid_t)syscall(SYS_gettid);
		loop_result = install() < 0 ? TAKT_ESYSTEM : takt_begin(terms, job);
	}
	segment = loop_result == TAKT_OK;
	return segment;
}

sigjmp_buf *takt_loop_head(void)
{
	return &head;
}

int takt_loop_arm(void)
{
	armed = 1;
	if (!takt_aborted())
		return 0;
	armed = 0;
	return 1;
}

void takt_loop_aborted(void (*handler)(void))
{
	armed = 0;
	if (handler)
		handler();
}

int takt_loop_result(void)
{
	return loop_result;
}
