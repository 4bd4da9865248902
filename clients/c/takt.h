/* The client library of Takt: a scheduled program learns about its jobs and makes requests of its scheduler.
 *
 * A task is one thread, and the calls of this library belong to that thread. The first thread is the task of the program; others become tasks
 * by takt_attach_thread. Each call attaches the program to its scheduler when
 * needed. Nothing here prints or ends the process. A program that `takt run` did not start receives TAKT_ENOTTAKT from every call, unless
 * TAKT_STANDALONE has a period, such as 20ms: a job is then released at each period, and every request is granted.
 *
 * Times are nanoseconds. Instants are those of CLOCK_MONOTONIC. The protocol is in docs/protocol.md, "The job protocol".
 */
#ifndef TAKT_H
#define TAKT_H

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* sigsetjmp, with -std=c99 */
#endif
#include <setjmp.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the protocol that this library speaks. */
#define TAKT_VERSION 2

/* A deadline that never comes, and a budget without an end. */
#define TAKT_NEVER INT64_MAX

/* Results. Success is 0, or a number above it where a call says so. */
enum takt_result {
	TAKT_OK = 0,
	TAKT_ENOTTAKT = -1,   /* `takt run` did not start this program, and TAKT_STANDALONE is not set */
	TAKT_EMALFORMED = -2, /* TAKT_CLIENT is malformed, or its descriptors are not those of a scheduler */
	TAKT_EVERSION = -3,   /* the scheduler does not serve the version of this library */
	TAKT_ESYSTEM = -4,    /* a system call failed, and errno has the reason */
	TAKT_EREFUSED = -5,   /* the policy does not accept the request, or the task has no job */
	TAKT_EABORTED = -6,   /* the job was aborted before the request was granted */
	TAKT_EINVAL = -7,     /* an argument is out of range */
	TAKT_ENAME = -8,      /* the workload has no resource or thread of this name */
	TAKT_EPERIOD = -10,   /* TAKT_STANDALONE is no period */
	TAKT_ETHREAD = -9     /* another thread is this task, or this thread another task */
};

/* A job of this task. */
struct takt_job {
	uint64_t number;  /* from 0 */
	int64_t release;  /* release time */
	int64_t deadline; /* absolute deadline, or TAKT_NEVER */
};

/* The terms of a real-time segment. */
struct takt_segment {
	int64_t deadline; /* relative deadline; 0: that of the workload */
	int64_t runtime;  /* execution time; 0: that of the workload */
	int64_t utility;  /* height of the time-utility function in millionths; TAKT_DECLARED: that of the workload */
};

#define TAKT_DECLARED (-1)

struct takt_statistics {
	int64_t consumed;  /* CPU time that the present job has consumed */
	int64_t budget;    /* its remaining budget, or TAKT_NEVER */
	int64_t released;  /* jobs of the task: released ... */
	int64_t completed; /* ... completed ... */
	int64_t met;       /* ... in time ... */
	int64_t missed;    /* ... late ... */
	int64_t aborted;   /* ... and aborted */
	int64_t utility;   /* accrued utility, in millionths */
};

/* The meaning of a result, in English. */
const char *takt_strerror(int result);

/* Attaches the program to its scheduler. Further calls have no effect.
 * Returns TAKT_OK, TAKT_ENOTTAKT, TAKT_EMALFORMED, TAKT_EVERSION or TAKT_ESYSTEM, as every other call may, too. */
int takt_attach(void);

/* Makes the calling thread the task `name`, which the workload declares with `thread_of`. All later calls of this thread are about that task;
 * those of threads without a task are about the task of the program. To be called while the program initialises: the thread's takt_ready ends
 * its own initialisation, and the schedule begins when all tasks of the program are ready. A second call with the same name has no effect.
 * TAKT_ENAME: the program has no such thread. TAKT_ETHREAD: another thread is this task, or this thread another task. */
int takt_attach_thread(const char *name);

/* Reports the end of the initialisation (`init: yes`) and waits for the first job. Without an initialisation it returns at once, since the
 * first job has begun. `job` may be NULL, here and below. */
int takt_ready(struct takt_job *job);

/* Completes the present job and waits for the next one. During the initialisation it is takt_ready. */
int takt_next_job(struct takt_job *job);

/* The present job. */
int takt_job(struct takt_job *job);

/* Begins a real-time segment and waits until it is dispatched; ends it. For a task with `event: segments`. A segment is a job of the task.
 * Outside of segments the program is an ordinary process. `terms` may be NULL for those of the workload.
 * After an abort the program continues as an ordinary process, and takt_end returns TAKT_EABORTED. takt_begin returns that if the segment was
 * aborted before it was dispatched. */
int takt_begin(const struct takt_segment *terms, struct takt_job *job);
int takt_end(void);

/* Yields the CPU to jobs of equal urgency, where the policy has such an order. The job continues later. The rest of a window is given up by
 * takt_next_job. */
int takt_yield(void);

/* The number of a resource of the workload, for takt_lock: 0 or more, or TAKT_ENAME. */
int takt_resource(const char *name);

/* Locks a resource, and waits while another job holds it. The workload's `locking` and the policy choose the next holder. The end of the job
 * unlocks it. TAKT_EABORTED: the job was aborted, and does not hold the resource. */
int takt_lock(int resource);

/* Unlocks a resource. */
int takt_unlock(int resource);

/* Requests another period, relative deadline (both from the next release on) or execution time (from the next job on).
 * TAKT_EREFUSED: the policy does not accept it, and the present terms continue to hold. */
int takt_set_period(int64_t ns);
int takt_set_deadline(int64_t ns);
int takt_set_runtime(int64_t ns);

/* Sets the task's share of a CPU in millionths, or -1 for none, and the importance of that share under overload. */
int takt_set_share(int32_t millionths, uint32_t importance);

/* Consumption and remaining budget of the present job, and the counts of the task. */
int takt_statistics(struct takt_statistics *statistics);

/* Whether the present job was aborted: 1 or 0. It reads memory only, and is safe in a signal handler. Outside Takt it is 0. */
int takt_aborted(void);

/* The job loop. An abort leaves the body wherever it computes, by siglongjmp. Then `handler` (or NULL) is called, outside of signal
 * context, the job is completed, and the body runs for the next job. An abort during a call of this library takes effect when that returns.
 * The loop needs `on_abort: signal`. Its body must not hold what a jump would leak: memory, a mutex of the C library, a stream.
 *
 *     TAKT_JOB_LOOP(job, NULL) {
 *             work(job.number);
 *     }
 *     fprintf(stderr, "%s\n", takt_strerror(takt_loop_result()));
 *
 * The loop ends when a call fails. `break` and `return` leave it and do not complete the job. */
#define TAKT_JOB_LOOP(job, handler)                            \
	for (struct takt_job job; takt_loop_next(&job) == TAKT_OK;) \
		if (sigsetjmp(*takt_loop_head(), 0) != 0)           \
			takt_loop_aborted(handler);                 \
		else if (takt_loop_arm() != 0)                      \
			takt_loop_aborted(handler);                 \
		else

/* A segment with a body. An abort leaves the body as in TAKT_JOB_LOOP. The result of its beginning or end is in takt_loop_result. */
#define TAKT_SEGMENT(terms, job, handler)                               \
	for (struct takt_job job; takt_segment_next(terms, &job);)      \
		if (sigsetjmp(*takt_loop_head(), 0) != 0)               \
			takt_loop_aborted(handler);                     \
		else if (takt_loop_arm() != 0)                          \
			takt_loop_aborted(handler);                     \
		else

/* The result that ended the last job loop or segment. */
int takt_loop_result(void);

/* For the macros only. */
int takt_segment_next(const struct takt_segment *terms, struct takt_job *job);
sigjmp_buf *takt_loop_head(void);
int takt_loop_next(struct takt_job *job);
int takt_loop_arm(void);
void takt_loop_aborted(void (*handler)(void));

#ifdef __cplusplus
}
#endif
#endif
