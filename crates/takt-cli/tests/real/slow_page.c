/*
 * Processes whose environments are in a file system that never answers, and whose locks of mappings are held: one thread reads such a page through
 * /proc/self/mem, and another one waits for the lock.
 *
 * slow FOLDER UID COUNT: as root, in a mount namespace of its own. Mounts the file system, starts the processes as that user, and serves until there is the
 * file `over`. Each process writes its number to `mapped`. Sources: `include/uapi/linux/fuse.h` and `Documentation/filesystems/fuse.rst` of Linux.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096UL

static void answer(int fuse, unsigned long unique, int error, const void *data, size_t length)
{
	struct fuse_out_header head = { sizeof head + length, error, unique };
	struct iovec parts[] = { { &head, sizeof head }, { (void *)data, length } };

	if (writev(fuse, parts, length ? 2 : 1) < 0)
		perror("answer");
}

static void serve(int fuse, const char *over)
{
	static char bytes[1 << 20];
	struct pollfd ready = { fuse, POLLIN, 0 };
	struct fuse_attr file = { .ino = 2, .size = 1 << 20, .mode = S_IFREG | 0644, .nlink = 1, .blksize = PAGE };
	time_t deadline;
	struct fuse_attr root = { .ino = 1, .mode = S_IFDIR | 0755, .nlink = 2, .blksize = PAGE };

	/* Not for long, since other programs of the machine wait, too. */
	for (deadline = time(NULL) + 20; access(over, F_OK) != 0 && time(NULL) < deadline;) {
		struct fuse_in_header *head = (void *)bytes;

		if (poll(&ready, 1, 10) < 1 || read(fuse, bytes, sizeof bytes) < (ssize_t)sizeof *head)
			continue;
		switch (head->opcode) {
		case FUSE_INIT: {
			struct fuse_init_out init = { .major = 7, .minor = 31, .max_write = PAGE, .max_readahead = 0 };

			answer(fuse, head->unique, 0, &init, sizeof init);
			break;
		}
		case FUSE_LOOKUP: {
			struct fuse_entry_out entry = { .nodeid = 2, .attr_valid = 1000, .entry_valid = 1000, .attr = file };

			answer(fuse, head->unique, 0, &entry, sizeof entry);
			break;
		}
		case FUSE_GETATTR: {
			struct fuse_attr_out attr = { .attr_valid = 1000, .attr = head->nodeid == 1 ? root : file };

			answer(fuse, head->unique, 0, &attr, sizeof attr);
			break;
		}
		case FUSE_OPEN: {
			/* Otherwise, an open would wait for the page. */
			struct fuse_open_out opened = { .fh = 1, .open_flags = FOPEN_KEEP_CACHE };

			answer(fuse, head->unique, 0, &opened, sizeof opened);
			break;
		}
		case FUSE_READ: /* It waits. */
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
		case FUSE_INTERRUPT:
			break;
		default:
			answer(fuse, head->unique, -ENOSYS, NULL, 0);
		}
	}
}

static char *page;

/* The kernel holds the lock of the mappings while it reads the page for this call. */
static void *read_page(void *unused)
{
	int memory = open("/proc/self/mem", O_RDONLY);
	char byte;

	pread(memory, &byte, 1, (off_t)page);
	return unused;
}

/* This call waits for that lock, and all later readers of the mappings wait for this call. */
static void *change_later(void *unused)
{
	usleep(100000);
	mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return unused;
}

/* Puts the file in the place of the whole pages of the environment. */
static int map(const char *folder)
{
	char path[256], text[4096], *word;
	unsigned long begin = 0, end = 0;
	pthread_t reader, writer;
	int file, mapped, n, field, stat = open("/proc/self/stat", O_RDONLY);

	n = read(stat, text, sizeof text - 1);
	text[n > 0 ? n : 0] = 0;
	/* The second field ends with a parenthesis. The begin and the end of the environment are the fields 50 and 51. */
	word = strtok(strrchr(text, ')') + 1, " ");
	for (field = 3; word; field++, word = strtok(NULL, " ")) {
		if (field == 50)
			begin = (strtoul(word, NULL, 10) + PAGE - 1) & -PAGE;
		if (field == 51)
			end = strtoul(word, NULL, 10) & -PAGE;
	}
	snprintf(path, sizeof path, "%s/stuck/file", folder);
	file = open(path, O_RDONLY);
	snprintf(path, sizeof path, "%s/mapped", folder);
	mapped = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (file < 0 || mapped < 0 || begin >= end)
		return 1;
	page = mmap((void *)begin, end - begin, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0);
	if (page == MAP_FAILED)
		return 1;
	/* Both stacks are there before the lock is held. */
	pthread_create(&writer, NULL, change_later, NULL);
	pthread_create(&reader, NULL, read_page, NULL);
	usleep(200000);
	n = snprintf(text, sizeof text, "%d\n", getpid());
	if (write(mapped, text, n) != n)
		return 1;
	for (;;)
		pause();
}

int main(int count, char **arguments)
{
	char path[256], options[128], *large;
	int fuse, uid, left;

	if (count == 2)
		return map(arguments[1]);
	if (count != 4)
		return 2;
	uid = atoi(arguments[2]);
	snprintf(path, sizeof path, "%s/stuck", arguments[1]);
	mkdir(path, 0755);
	fuse = open("/dev/fuse", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse);
	if (fuse < 0 || mount("takt-test", path, "fuse", MS_NOSUID | MS_NODEV, options) != 0)
		return perror("mount"), 3;
	for (left = atoi(arguments[3]); left > 0; left--) {
		if (fork() != 0)
			continue;
		/* A change of the user clears the signal. */
		if (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid) || prctl(PR_SET_PDEATHSIG, SIGKILL))
			_exit(4);
		large = calloc(1, 5 * PAGE);
		memset(large, 'x', 5 * PAGE - 1);
		memcpy(large, "LARGE=", 6);
		execle("/proc/self/exe", "slow", arguments[1], NULL, (char *[]){ large, NULL });
		_exit(5);
	}
	snprintf(path, sizeof path, "%s/over", arguments[1]);
	serve(fuse, path);
	return 0;
}
