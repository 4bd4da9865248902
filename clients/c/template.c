/* A periodic program with a resource and an abort handler. Build: cc -O2 template.c takt.c -o template */
#include "takt.h"
#include <stdio.h>

static volatile unsigned long done;

static void work(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		done++;
}

static void put_in_order(void)
{
	printf("aborted\n");
	fflush(stdout);
}

int main(void)
{
	int map = takt_resource("map");

	if (map < 0)
		return fprintf(stderr, "template: %s\n", takt_strerror(map)), 1;
	/* The initialisation ends here, with the first job of the loop. */
	TAKT_JOB_LOOP(job, put_in_order) {
		work(job.number % 4 == 3 ? 1000000000 : 1000000);
		if (takt_lock(map) == TAKT_OK) {
			work(100000);
			takt_unlock(map);
		}
	}
	return fprintf(stderr, "template: %s\n", takt_strerror(takt_loop_result())), 1;
}
