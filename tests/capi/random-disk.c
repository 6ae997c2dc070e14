/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Random calls of table 3, half of them with an argument that is wrong, on two disks while
 * others read from them. Each must succeed or be refused exactly as a small model says, and
 * the disks, files and processes must be as the calls that succeeded left them.
 *
 *   random-disk DEV DEV OPERATIONS SEED
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <qlinux.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DISKS = 2, FILES = 8, CHILDREN = 4, READERS = 4, FAILURES_MAX = 5, BLOCK = 4096 };

static struct disk {
	const char *name;
	char path[64];
	bool up;
	unsigned long round_us;
	int weight[3];
	long deadline_ms;
} disks[DISKS];

static struct file {
	int fd; /* below 0: not open */
	int class_id;
} files[FILES];

static struct child {
	pid_t pid;
	int class_id;
} children[CHILDREN];

static pid_t readers[READERS];
static int failures, counts[2];

static int pick(int n)
{
	return random() % n;
}

/* The call gave that result; `error` is 0 where it was to succeed. */
static bool as_expected(const char *what, long result, int error)
{
	bool good = error ? result == -1 && errno == error && *hsfq_errmsg() : result >= 0;

	counts[!error]++;
	if (good)
		return !error;
	failures++;
	printf("not ok %s: %ld, errno %s instead of %s: %s\n", what, result, strerrorname_np(errno),
	       error ? strerrorname_np(error) : "success", hsfq_errmsg());
	if (failures == FAILURES_MAX)
		exit(1);
	return false;
}

/* A class, now and then one that does not exist. */
static int some_class(void)
{
	static const int odd[] = {-1, 4, 99, 1 << 30};

	return pick(6) ? pick(4) : odd[pick(4)];
}

static bool is_class(int class_id)
{
	return class_id >= 0 && class_id <= CELLO_NONE;
}

/* A deadline, and what it is refused for. */
static long some_deadline(int *error)
{
	static const long odd[] = {-1, CELLO_DEADLINE_MAX + 1, 1L << 62, -(1L << 62)};
	bool wrong = !pick(4);

	*error = wrong ? ERANGE : 0;
	return wrong ? odd[pick(4)] : pick(2) ? 0 : 1 + pick(CELLO_DEADLINE_MAX);
}

/* The disk's name in one of its forms, or one that does not name a disk. */
static const char *name_of(struct disk *d, int *error)
{
	static const struct {
		const char *name;
		int error;
	} odd[] = {{NULL, EFAULT},         {"", ENODEV},           {"none0", ENODEV},
		   {"/dev/none0", ENODEV}, {"/dev/null", ENOTBLK}, {"..", ENODEV}};
	int i;

	if (pick(8)) {
		*error = 0;
		return pick(2) ? d->name : d->path;
	}
	i = pick(sizeof(odd) / sizeof(*odd));
	*error = odd[i].error;
	return odd[i].name;
}

/* ---- disks --------------------------------------------------------------- */

static void start_or_stop(struct disk *d)
{
	bool start = pick(2);
	int error;
	const char *name = name_of(d, &error);

	if (start) {
		error = error ? error : d->up ? EEXIST : 0;
		if (as_expected("start", cello_start(name), error)) {
			d->up = true;
			d->round_us = 100000;
			d->weight[0] = d->weight[2] = 200; /* on a disk that does not turn */
			d->weight[1] = 100;
			d->deadline_ms = 300;
		}
		return;
	}
	error = error ? error : d->up ? 0 : ESRCH;
	if (as_expected("stop", cello_stop(name), error))
		d->up = false;
}

static void change_round(struct disk *d)
{
	unsigned long us = pick(2) ? 1000 + pick(9999001) : pick(2) ? pick(1000) : 10000001;
	int error;
	const char *name = name_of(d, &error);

	if (error != EFAULT && (us < 1000 || us > 10000000))
		error = ERANGE;
	error = error ? error : d->up ? 0 : ESRCH;
	if (as_expected("round", cello_round(name, us), error))
		d->round_us = us;
}

static bool all_zero(const struct disk *d, int class_id, int weight)
{
	int i, sum = weight;

	for (i = 0; i < 3; i++)
		sum += i == class_id ? 0 : d->weight[i];
	return !sum;
}

static void change_weight(struct disk *d)
{
	int weight = pick(3) ? pick(10001) : pick(2) ? 0 : pick(2) ? -1 - pick(100) : 10001;
	int class_id = some_class(), error;
	const char *name = name_of(d, &error);

	if (error != EFAULT && (!is_class(class_id) || class_id == CELLO_NONE))
		error = EINVAL;
	else if (error != EFAULT && (weight < 0 || weight > 10000))
		error = ERANGE;
	else if (!error && !d->up)
		error = ESRCH;
	else if (!error && all_zero(d, class_id, weight))
		error = EINVAL;
	if (as_expected("weight", cello_admin(name, class_id, CELLO_SET_WEIGHT, &weight), error))
		d->weight[class_id] = weight;
}

static void change_deadline(struct disk *d)
{
	int class_id = some_class(), error, odd;
	const char *name = name_of(d, &error);
	long ms = some_deadline(&odd);

	if (error != EFAULT && class_id != CELLO_REALTIME)
		error = EINVAL;
	else if (error != EFAULT && (odd || !ms))
		error = ERANGE;
	else if (!error && !d->up)
		error = ESRCH;
	if (as_expected("deadline", cello_admin(name, class_id, CELLO_SET_DEADLINE, &ms), error))
		d->deadline_ms = ms;
}

static void compare_disk(const struct disk *d)
{
	struct cello_status s = {.size = sizeof(s)};
	int class_id, ok;

	for (class_id = 0; class_id < 3; class_id++) {
		ok = as_expected("status", cello_admin(d->name, class_id, CELLO_GET_STATUS, &s),
				 d->up ? 0 : ESRCH);
		if (ok && (s.round_us != d->round_us || (int)s.weight != d->weight[class_id] ||
			   s.deadline_ms != d->deadline_ms)) {
			printf("round %lu weight %u deadline %u\n", (unsigned long)s.round_us,
			       s.weight, s.deadline_ms);
			as_expected("compare", -1, 0);
		}
	}
}

/* ---- files --------------------------------------------------------------- */

static void open_or_close(struct file *f)
{
	struct disk *d = &disks[pick(DISKS)];
	int class_id = some_class(), error = 0;
	const char *path = pick(8) ? d->path : pick(2) ? NULL : "/nowhere";

	if (f->fd >= 0) {
		as_expected("close", cello_close(f->fd), 0);
		as_expected("close-again", cello_close(f->fd), EBADF);
		f->fd = -1;
		return;
	}
	if (!is_class(class_id))
		error = EINVAL;
	else if (path != d->path)
		error = path ? ENOENT : EFAULT;
	f->fd = cello_open(path, O_RDWR | O_DIRECT, class_id, 0);
	if (as_expected("open", f->fd, error))
		f->class_id = class_id;
}

static void transfer(struct file *f)
{
	static char *block;
	int error;
	long result, ms = some_deadline(&error);

	if (!block)
		block = aligned_alloc(BLOCK, BLOCK);
	if (f->fd < 0)
		error = EBADF;
	else if (!error && ms && f->class_id != CELLO_REALTIME)
		error = EINVAL;
	if (f->fd >= 0)
		lseek(f->fd, (off_t)pick(1000) * BLOCK, SEEK_SET);
	result = pick(2) ? cello_read(f->fd, block, BLOCK, ms)
			 : cello_write(f->fd, block, BLOCK, ms);
	as_expected("transfer", error || result == BLOCK ? result : -1, error);
}

/* ---- processes ----------------------------------------------------------- */

static void change_class(struct child *c)
{
	int class_id = some_class(), error = is_class(class_id) ? 0 : EINVAL;
	pid_t pid = pick(8) ? c->pid : pick(2) ? 99999999 : -1;

	if (!error && pid != c->pid)
		error = ESRCH;
	if (as_expected("set-class", cello_set_class(pid, class_id), error))
		c->class_id = class_id;
}

static void compare_child(const struct child *c)
{
	int found = cello_get_class(c->pid);

	if (found != c->class_id)
		as_expected("get-class", -1, 0);
}

static void priorities(void)
{
	int class_id = some_class(), error;
	long ms = some_deadline(&error);

	if (!is_class(class_id))
		error = EINVAL;
	else if (!error && ms && class_id != CELLO_REALTIME)
		error = EINVAL;
	as_expected("ioprio", cello_ioprio(class_id, ms), error);
}

/* ---- all of it ----------------------------------------------------------- */

static void read_on(int number)
{
	const struct disk *d = &disks[number % DISKS];
	int fd = open(d->path, O_RDONLY | O_DIRECT);
	char *block = aligned_alloc(BLOCK, BLOCK);

	cello_set_class(0, number % 4);
	for (;;)
		if (pread(fd, block, BLOCK, (off_t)pick(100000) * BLOCK) != BLOCK)
			_exit(1);
}

static pid_t start(void (*work)(int), int number)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (work)
		work(number);
	for (;;)
		pause();
}

static void one(void)
{
	struct disk *d = &disks[pick(DISKS)];
	struct child *c = &children[pick(CHILDREN)];

	switch (pick(9)) {
	case 0:
		/* Seldom: it waits for all requests to end. */
		if (!pick(3))
			start_or_stop(d);
		break;
	case 1:
		change_round(d);
		break;
	case 2:
	case 3:
		change_weight(d);
		break;
	case 4:
		change_deadline(d);
		break;
	case 5:
		open_or_close(&files[pick(FILES)]);
		break;
	case 6:
		transfer(&files[pick(FILES)]);
		break;
	case 7:
		change_class(c);
		break;
	default:
		priorities();
	}
	compare_disk(d);
	compare_child(c);
}

int main(int argc, char **argv)
{
	int i, operations = argc > 3 ? atoi(argv[3]) : 1000;

	if (argc < 3)
		return 2;
	setlinebuf(stdout);
	srandom(argc > 4 ? atoi(argv[4]) : 1);
	for (i = 0; i < DISKS; i++) {
		disks[i].name = argv[1 + i];
		snprintf(disks[i].path, sizeof(disks[i].path), "/dev/%s", argv[1 + i]);
	}
	for (i = 0; i < FILES; i++)
		files[i].fd = -1;
	for (i = 0; i < CHILDREN; i++)
		children[i] = (struct child){start(NULL, 0), CELLO_NONE};
	for (i = 0; i < READERS; i++)
		readers[i] = start(read_on, i);
	for (i = 0; i < operations; i++)
		one();
	for (i = 0; i < READERS; i++) {
		if (waitpid(readers[i], NULL, WNOHANG))
			as_expected("reader", -1, 0);
		kill(readers[i], SIGKILL);
	}
	for (i = 0; i < CHILDREN; i++)
		kill(children[i].pid, SIGKILL);
	for (i = 0; i < DISKS; i++)
		if (disks[i].up)
			as_expected("last-stop", cello_stop(disks[i].name), 0);
	if (!failures)
		printf("ok random-disk (%d done, %d refused)\n", counts[1], counts[0]);
	return failures > 0;
}
