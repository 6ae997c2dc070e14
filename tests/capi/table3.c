/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every call of table 3, run as root in the guest on the disk argv[1], of which nothing is
 * kept; one line "ok NAME" or "not ok NAME" a test. Argument "unprivileged" behind it: as a
 * user who may not.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <qlinux.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum {
	NOBODY = 65534,
	BLOCK = 4096,
	READS = 5,
	THREADS = 8,
	WHO_PROCESS = 1,
	BASE_SHIFT = 13,
	BASE_RT = 1,
	BASE_BE = 2,
};

static const char *dev;
static char path[64];
static char *block;

static struct cello_status status(int class_id)
{
	struct cello_status s = {.size = sizeof(s)};

	if (cello_admin(dev, class_id, CELLO_GET_STATUS, &s))
		memset(&s, 0, sizeof(s));
	return s;
}

/* Requests by class, and those without one. */
static uint64_t count_of(int class_id)
{
	struct cello_status s = status(class_id == CELLO_NONE ? CELLO_THROUGHPUT : class_id);

	return s.requests;
}

static bool text_of(const char *file, char *to, size_t size)
{
	char name[96];
	int fd, n;

	snprintf(name, sizeof(name), "/sys/block/%s/queue/%s", dev, file);
	fd = open(name, O_RDONLY);
	n = fd < 0 ? -1 : read(fd, to, size - 1);
	close(fd);
	to[n < 0 ? 0 : n] = 0;
	return n > 0;
}

static bool scheduled_by(const char *scheduler)
{
	char text[128], wanted[32];

	snprintf(wanted, sizeof(wanted), "[%s]", scheduler);
	return text_of("scheduler", text, sizeof(text)) && strstr(text, wanted);
}

/* ---- the disk ------------------------------------------------------------ */

static void before(void)
{
	int weight = 1;

	refused("stop-before", cello_stop(dev), ESRCH);
	refused("round-before", cello_round(dev, 5000), ESRCH);
	refused("get-before", cello_admin(dev, 0, CELLO_GET_WEIGHT, &weight), ESRCH);
	refused("set-before", cello_admin(dev, 0, CELLO_SET_WEIGHT, &weight), ESRCH);
	refused("start-null", cello_start(NULL), EFAULT);
	refused("start-none", cello_start("none0"), ENODEV);
	refused("start-empty", cello_start(""), ENODEV);
	refused("start-no-disk", cello_start("/dev/null"), ENOTBLK);
	refused("stop-null", cello_stop(NULL), EFAULT);
	refused("stop-none", cello_stop("none0"), ENODEV);
	check("before", scheduled_by("mq-deadline"));
	check("start", !cello_start(path));
	check("started", scheduled_by("cello"));
	refused("start-again", cello_start(dev), EEXIST);
}

static void after(void)
{
	check("stop", !cello_stop(dev));
	check("stopped", scheduled_by("mq-deadline"));
	refused("stop-again", cello_stop(dev), ESRCH);
	refused("status-after", cello_admin(dev, 0, CELLO_GET_STATUS, &failures), EINVAL);
}

static void rounds(void)
{
	check("round-default", status(0).round_us == 100000);
	check("round", !cello_round(dev, 50000) && status(0).round_us == 50000);
	refused("round-short", cello_round(dev, 999), ERANGE);
	refused("round-long", cello_round(dev, 10000001), ERANGE);
	refused("round-huge", cello_round(dev, -1UL), ERANGE);
	refused("round-null", cello_round(NULL, 5000), EFAULT);
	refused("round-none", cello_round("none0", 5000), ENODEV);
	check("round-kept", status(0).round_us == 50000);
	check("round-ends", !cello_round(dev, 1000) && !cello_round(dev, 10000000));
	check("round-back", !cello_round(dev, 100000));
}

static int set_weight(int class_id, int weight)
{
	return cello_admin(dev, class_id, CELLO_SET_WEIGHT, &weight);
}

static int weight_of(int class_id)
{
	int weight = -1;

	return cello_admin(dev, class_id, CELLO_GET_WEIGHT, &weight) ? -1 : weight;
}

static void weights(void)
{
	int weight = 5;

	check("weight-default", weight_of(CELLO_REALTIME) == 200);
	check("weight", !set_weight(CELLO_INTERACTIVE, 300) && weight_of(0) == 300);
	check("weight-others", weight_of(1) == 100 && weight_of(2) == 200);
	check("weight-ends", !set_weight(1, 10000) && !set_weight(1, 0) && weight_of(1) == 0);
	refused("weight-negative", set_weight(0, -1), ERANGE);
	refused("weight-high", set_weight(0, 10001), ERANGE);
	check("weight-two-zero", !set_weight(2, 0));
	refused("weight-all-zero", set_weight(0, 0), EINVAL);
	check("weight-kept", weight_of(0) == 300);
	refused("weight-of-none", set_weight(CELLO_NONE, 5), EINVAL);
	refused("weight-of-4", set_weight(4, 5), EINVAL);
	refused("weight-of-negative", set_weight(-1, 5), EINVAL);
	refused("admin-cmd", cello_admin(dev, 0, 99, &weight), EINVAL);
	refused("admin-null", cello_admin(dev, 0, CELLO_SET_WEIGHT, NULL), EFAULT);
	refused("admin-null-dev", cello_admin(NULL, 0, CELLO_SET_WEIGHT, &weight), EFAULT);
	refused("admin-none", cello_admin("none0", 0, CELLO_SET_WEIGHT, &weight), ENODEV);
	check("weight-back", !set_weight(0, 100) && !set_weight(1, 100) && !set_weight(2, 100));
}

static int set_deadline(int class_id, long ms)
{
	return cello_admin(dev, class_id, CELLO_SET_DEADLINE, &ms);
}

static void deadlines(void)
{
	long ms = 0;

	check("deadline-default",
	      !cello_admin(dev, CELLO_REALTIME, CELLO_GET_DEADLINE, &ms) && ms == 300);
	check("deadline", !set_deadline(CELLO_REALTIME, 40) && status(2).deadline_ms == 40);
	refused("deadline-0", set_deadline(CELLO_REALTIME, 0), ERANGE);
	refused("deadline-negative", set_deadline(CELLO_REALTIME, -5), ERANGE);
	refused("deadline-high", set_deadline(CELLO_REALTIME, CELLO_DEADLINE_MAX + 1), ERANGE);
	refused("deadline-of-interactive", set_deadline(CELLO_INTERACTIVE, 40), EINVAL);
	check("deadline-kept", status(2).deadline_ms == 40);
	check("deadline-ends", !set_deadline(CELLO_REALTIME, CELLO_DEADLINE_MAX) &&
				       !set_deadline(CELLO_REALTIME, CELLO_DEADLINE_MIN));
	check("deadline-back", !set_deadline(CELLO_REALTIME, 300));
}

/* ---- files --------------------------------------------------------------- */

static off_t place;

/* Of blocks that nobody has read yet; each is a request. */
static bool reads(int fd, long deadline_ms)
{
	int i;

	if (lseek(fd, place, SEEK_SET) != place)
		return false;
	place += READS * BLOCK;
	for (i = 0; i < READS; i++)
		if (cello_read(fd, block, BLOCK, deadline_ms) != BLOCK)
			return false;
	return true;
}

static void files_of(int class_id, const char *name)
{
	uint64_t was = count_of(class_id);
	int fd = cello_open(path, O_RDWR | O_DIRECT, class_id, 0);
	long before = syscall(SYS_ioprio_get, WHO_PROCESS, 0);
	char what[64];

	snprintf(what, sizeof(what), "open-%s", name);
	check(what, fd >= 0);
	snprintf(what, sizeof(what), "read-%s", name);
	check(what, reads(fd, 0) && count_of(class_id) == was + READS);
	snprintf(what, sizeof(what), "write-%s", name);
	check(what,
	      cello_write(fd, block, BLOCK, 0) == BLOCK && count_of(class_id) == was + READS + 1);
	snprintf(what, sizeof(what), "priority-back-%s", name);
	check(what, syscall(SYS_ioprio_get, WHO_PROCESS, 0) == before);
	snprintf(what, sizeof(what), "close-%s", name);
	check(what, !cello_close(fd));
	refused(what, cello_close(fd), EBADF);
}

static void files(void)
{
	char deadline[256];
	int fd, other;

	files_of(CELLO_INTERACTIVE, "interactive");
	files_of(CELLO_THROUGHPUT, "throughput");
	files_of(CELLO_REALTIME, "realtime");
	files_of(CELLO_NONE, "none");

	refused("open-null", cello_open(NULL, O_RDONLY, 0, 0), EFAULT);
	refused("open-class", cello_open(path, O_RDONLY, 4, 0), EINVAL);
	refused("open-class-negative", cello_open(path, O_RDONLY, -1, 0), EINVAL);
	refused("open-none", cello_open("/nowhere/x", O_RDONLY, 0, 0), ENOENT);
	refused("open-directory", cello_open("/tmp", O_WRONLY, 0, 0), EISDIR);
	fd = cello_open("/tmp/table3", O_RDWR | O_CREAT | O_EXCL, CELLO_REALTIME, 0600);
	check("open-mode", fd >= 0 && !access("/tmp/table3", R_OK));
	check("write-cached", cello_write(fd, "abc", 3, 40) == 3 && lseek(fd, 0, SEEK_SET) == 0 &&
				      cello_read(fd, deadline, 99, 40) == 3 &&
				      cello_read(fd, deadline, 99, 0) == 0);
	refused("open-excl", cello_open("/tmp/table3", O_RDWR | O_CREAT | O_EXCL, 0, 0600), EEXIST);
	refused("read-deadline-high", cello_read(fd, deadline, 1, CELLO_DEADLINE_MAX + 1), ERANGE);
	refused("read-deadline-negative", cello_read(fd, deadline, 1, -1), ERANGE);
	lseek(fd, 0, SEEK_SET);
	refused("read-null", cello_read(fd, (void *)8, 1, 0), EFAULT);
	check("close-cached", !cello_close(fd) && !unlink("/tmp/table3"));

	fd = cello_open(path, O_RDONLY, CELLO_INTERACTIVE, 0);
	refused("read-deadline-interactive", cello_read(fd, block, 512, 40), EINVAL);
	refused("write-read-only", cello_write(fd, block, 512, 0), EBADF);
	/* Closed behind the library's back, and the number given to another file. */
	close(fd);
	refused("read-closed", cello_read(fd, block, 512, 0), EBADF);
	other = open("/dev/zero", O_RDONLY);
	check("same-number", other == fd);
	refused("read-other", cello_read(other, block, 512, 0), EBADF);
	refused("close-other", cello_close(other), EBADF);
	close(other);
	refused("read-negative", cello_read(-1, block, 512, 0), EBADF);
}

/* The deadline of a real-time request as the scheduler had it, in milliseconds. */
static long last_deadline(void)
{
	unsigned long long arrived = 0, deadline = 0, sector;
	char name[96], line[256];
	FILE *f;

	snprintf(name, sizeof(name), "/sys/kernel/debug/block/%s/sched/realtime", dev);
	f = fopen(name, "r");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "%llu %llu %*u %llu", &arrived, &sector, &deadline);
	if (f)
		fclose(f);
	return (deadline - arrived) / 1000000;
}

static void deadlines_of_requests(void)
{
	int fd = cello_open(path, O_RDONLY | O_DIRECT, CELLO_REALTIME, 0);

	check("request-deadline", reads(fd, 40) && last_deadline() == 40);
	check("request-deadline-earlier", reads(fd, 100) && last_deadline() == 96);
	check("request-deadline-default", reads(fd, 0) && last_deadline() == 300);
	check("request-deadline-long", reads(fd, CELLO_DEADLINE_MAX) && last_deadline() == 49152);
	cello_close(fd);
}

/* ---- asynchronous requests ----------------------------------------------- */

static bool submit(int fd, int ioprio)
{
	struct iocb cb = {.aio_fildes = fd,
			  .aio_lio_opcode = IOCB_CMD_PREAD,
			  .aio_buf = (uintptr_t)block,
			  .aio_nbytes = BLOCK,
			  .aio_offset = place,
			  .aio_reqprio = ioprio,
			  .aio_flags = IOCB_FLAG_IOPRIO};
	struct iocb *list = &cb;
	struct io_event event;
	aio_context_t context = 0;
	bool good;

	place += BLOCK;
	good = !syscall(SYS_io_setup, 1, &context) &&
	       syscall(SYS_io_submit, context, 1, &list) == 1 &&
	       syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1 && event.res == BLOCK;
	syscall(SYS_io_destroy, context);
	return good;
}

static void asynchronous(void)
{
	int fd = open(path, O_RDONLY | O_DIRECT), class_id;
	uint64_t was;
	char name[32];

	for (class_id = CELLO_INTERACTIVE; class_id <= CELLO_NONE; class_id++) {
		was = count_of(class_id);
		snprintf(name, sizeof(name), "aio-%d", class_id);
		check(name, submit(fd, cello_ioprio(class_id, 0)) && count_of(class_id) == was + 1);
	}
	check("aio-deadline",
	      submit(fd, cello_ioprio(CELLO_REALTIME, 40)) && last_deadline() == 40);
	/* Its own class comes before the process's. */
	was = count_of(CELLO_REALTIME);
	check("aio-first", !cello_set_class(0, CELLO_THROUGHPUT) &&
				   submit(fd, cello_ioprio(CELLO_REALTIME, 0)) &&
				   count_of(CELLO_REALTIME) == was + 1 &&
				   !cello_set_class(0, CELLO_NONE));
	refused("ioprio-class", cello_ioprio(4, 0), EINVAL);
	refused("ioprio-deadline", cello_ioprio(CELLO_REALTIME, CELLO_DEADLINE_MAX + 1), ERANGE);
	refused("ioprio-negative", cello_ioprio(CELLO_REALTIME, -1), ERANGE);
	refused("ioprio-interactive", cello_ioprio(CELLO_INTERACTIVE, 5), EINVAL);
	close(fd);
}

/* ---- processes ----------------------------------------------------------- */

static void *wait_here(void *unused)
{
	pause();
	return unused;
}

/* A process with threads, whose first one ends where that is asked for. */
static pid_t threads(bool first_ends)
{
	pthread_t thread;
	pid_t child = fork();
	int i;

	if (child)
		return child;
	for (i = 0; i < THREADS; i++)
		pthread_create(&thread, NULL, wait_here, NULL);
	if (first_ends)
		pthread_exit(NULL);
	pause();
	_exit(0);
}

static void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* How many threads, but for the first, have that class in their hint. */
static int threads_with(pid_t pid, int class_id)
{
	struct dirent *entry;
	int n = 0, tid, hint;
	char name[64];
	DIR *tasks;

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	tasks = opendir(name);
	while (tasks && (entry = readdir(tasks))) {
		tid = atoi(entry->d_name);
		if (tid < 1 || tid == pid)
			continue;
		hint = syscall(SYS_ioprio_get, WHO_PROCESS, tid) >> 3;
		n += class_id == CELLO_NONE ? !(hint & 1 << 9) : (hint >> 6 & 15) == (8 | class_id);
	}
	if (tasks)
		closedir(tasks);
	return n;
}

static void of_processes(void)
{
	pid_t child = threads(false), orphaned = threads(true);
	int result;

	usleep(100000);
	check("get-class", cello_get_class(child) == CELLO_NONE);
	check("set-class", !cello_set_class(child, CELLO_REALTIME) &&
				   cello_get_class(child) == CELLO_REALTIME &&
				   threads_with(child, CELLO_REALTIME) == THREADS);
	check("set-class-other", !cello_set_class(child, CELLO_THROUGHPUT) &&
					 threads_with(child, CELLO_THROUGHPUT) == THREADS);
	refused("set-class-4", cello_set_class(child, 4), EINVAL);
	refused("set-class-negative", cello_set_class(child, -1), EINVAL);
	check("set-class-kept", cello_get_class(child) == CELLO_THROUGHPUT);
	check("set-class-none",
	      !cello_set_class(child, CELLO_NONE) && threads_with(child, CELLO_NONE) == THREADS);
	check("first-thread-ended", !cello_set_class(orphaned, CELLO_INTERACTIVE) &&
					    cello_get_class(orphaned) == CELLO_INTERACTIVE &&
					    threads_with(orphaned, CELLO_INTERACTIVE) == THREADS);
	kill(child, SIGKILL);
	usleep(100000);
	refused("set-class-ended", cello_set_class(child, CELLO_REALTIME), ESRCH);
	refused("get-class-ended", cello_get_class(child), ESRCH);
	end(child);
	end(orphaned);
	refused("set-class-nobody", cello_set_class(99999999, CELLO_REALTIME), ESRCH);
	refused("get-class-negative", cello_get_class(-1), ESRCH);

	check("set-own", !cello_set_class(0, CELLO_INTERACTIVE));
	check("get-own", cello_get_class(0) == CELLO_INTERACTIVE &&
				 cello_get_class(getpid()) == CELLO_INTERACTIVE);
	child = fork();
	if (!child)
		_exit(cello_get_class(0) != CELLO_INTERACTIVE);
	waitpid(child, &result, 0);
	check("inherited", !result);
	check("set-own-none", !cello_set_class(0, CELLO_NONE) && cello_get_class(0) == CELLO_NONE);
}

static void *read_much(void *class_id)
{
	int fd = cello_open(path, O_RDONLY | O_DIRECT, *(int *)class_id, 0), i;
	char *own = aligned_alloc(BLOCK, BLOCK);
	bool good = fd >= 0;

	for (i = 0; i < 50; i++)
		good = good && cello_read(fd, own, BLOCK, 0) == BLOCK;
	good = good && !cello_close(fd);
	free(own);
	return good ? class_id : NULL;
}

/* Threads with files of different classes do not notice each other. */
static void several_threads(void)
{
	static int classes[] = {0, 1, 2, 3, 0, 1, 2, 3};
	uint64_t was[4], most;
	pthread_t all[8];
	void *result;
	bool good = true;
	int i;

	for (i = 0; i < 4; i++)
		was[i] = count_of(i);
	for (i = 0; i < 8; i++)
		pthread_create(&all[i], NULL, read_much, &classes[i]);
	for (i = 0; i < 8; i++) {
		pthread_join(all[i], &result);
		good = good && result;
	}
	/* Two threads may read a block at a time as one request, merged: never of two classes. */
	for (i = 0; i < 4; i++) {
		/* What has no class is counted with those that want throughput. */
		most = i == CELLO_INTERACTIVE || i == CELLO_REALTIME ? 100 : 200;
		good = good && count_of(i) > was[i] && count_of(i) <= was[i] + most;
	}
	check("several-threads", good);
}

/* ---- without privilege --------------------------------------------------- */

static void unprivileged(void)
{
	int weight = 5, fd;
	long ms = 5;

	refused("start-unprivileged", cello_start(dev), EPERM);
	refused("stop-unprivileged", cello_stop(dev), EPERM);
	refused("round-unprivileged", cello_round(dev, 5000), EPERM);
	refused("weight-unprivileged", cello_admin(dev, 0, CELLO_SET_WEIGHT, &weight), EPERM);
	refused("deadline-unprivileged", cello_admin(dev, 2, CELLO_SET_DEADLINE, &ms), EPERM);
	refused("class-of-init", cello_set_class(1, CELLO_REALTIME), EPERM);
	check("status-unprivileged", weight_of(0) == 200);
	check("class-unprivileged",
	      !cello_set_class(0, CELLO_REALTIME) && cello_get_class(0) == CELLO_REALTIME);
	fd = cello_open("/etc/passwd", O_RDONLY, CELLO_INTERACTIVE, 0);
	check("read-unprivileged", cello_read(fd, block, 10, 0) == 10 && !cello_close(fd));
	check("class-unprivileged-kept", cello_get_class(0) == CELLO_REALTIME);
	/* A class of I/O priorities that root gave, which this user may not set. */
	check("ioprio-unprivileged", cello_ioprio(CELLO_THROUGHPUT, 0) >> BASE_SHIFT == BASE_BE);
}

/* As a user with a real-time I/O priority, which is kept, or nothing is done. */
static void real_time_priority(void)
{
	int status;
	pid_t child = fork();

	if (!child) {
		failures = 0;
		syscall(SYS_ioprio_set, WHO_PROCESS, 0, BASE_RT << BASE_SHIFT | 3);
		check("real-time-root", !cello_set_class(0, CELLO_REALTIME) &&
						cello_ioprio(0, 0) >> BASE_SHIFT == BASE_RT);
		check("real-time-left", !setresuid(NOBODY, NOBODY, NOBODY));
		refused("real-time-nobody", cello_set_class(0, CELLO_THROUGHPUT), EPERM);
		check("real-time-kept", cello_get_class(0) == CELLO_REALTIME);
		_exit(failures > 0);
	}
	waitpid(child, &status, 0);
	check("real-time", !status);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	setlinebuf(stdout);
	dev = argv[1];
	snprintf(path, sizeof(path), "/dev/%s", dev);
	block = aligned_alloc(BLOCK, BLOCK);
	if (argc > 2) {
		unprivileged();
		return failures > 0;
	}
	before();
	rounds();
	weights();
	deadlines();
	files();
	deadlines_of_requests();
	asynchronous();
	of_processes();
	several_threads();
	real_time_priority();
	after();
	return failures > 0;
}
