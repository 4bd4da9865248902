/* The calls of DEmOS's client library, for programs that were written for it.
 *
 * Names and results are those of demos-sched (https://github.com/CTU-IIG/demos-sched, lib/demos-sch.h): 0 for success, otherwise -1 with
 * errno. ENOKEY: DEMOS_PARAMETERS is not set. EBADMSG: it is malformed. EWOULDBLOCK: no initialisation is expected. The protocol is in
 * docs/protocol.md, "The completion protocol". All calls are inline, so a program needs no library. Linked programs run unchanged.
 */
#ifndef DEMOSSCH_H
#define DEMOSSCH_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct {
	int ready, completed, proceed, initialising;
} demos_state;

/* Reads DEMOS_PARAMETERS. The other calls do it when needed. */
static inline int demos_init(void)
{
	const char *text = getenv("DEMOS_PARAMETERS");
	int completed, proceed, init, end = 0;

	if (demos_state.ready)
		return 0;
	if (!text) {
		errno = ENOKEY;
		return -1;
	}
	if (sscanf(text, "%d,%d,%d%n", &completed, &proceed, &init, &end) != 3 || text[end] || completed < 0 || proceed < 0 ||
	    (init != 0 && init != 1)) {
		errno = EBADMSG;
		return -1;
	}
	demos_state.completed = completed;
	demos_state.proceed = proceed;
	demos_state.initialising = init;
	demos_state.ready = 1;
	return 0;
}

/* Writes the completion signal and waits for the resume signal. */
static inline int demos_signal(void)
{
	uint64_t value = 1;

	while (write(demos_state.completed, &value, sizeof value) < 0)
		if (errno != EINTR)
			return -1;
	while (read(demos_state.proceed, &value, sizeof value) < 0)
		if (errno != EINTR)
			return -1;
	return 0;
}

/* Reports the end of the initialisation, and waits for the first window. */
static inline int demos_initialization_completed(void)
{
	if (demos_init() < 0)
		return -1;
	if (!demos_state.initialising) {
		errno = EWOULDBLOCK;
		return -1;
	}
	demos_state.initialising = 0;
	return demos_signal();
}

/* Gives up the rest of the window, and waits for the next one. During the initialisation it has no effect. */
static inline int demos_completed(void)
{
	if (demos_init() < 0)
		return -1;
	return demos_state.initialising ? 0 : demos_signal();
}

#endif
