/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every call of table 1, run as root in the guest; one line "ok NAME" or
 * "not ok NAME" a test. Argument "unloaded": what is left without a scheduler;
 * "unprivileged": as a user who may not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <qlinux.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static bool in_class(pid_t id, const char *path)
{
	char file[64], line[512] = "";
	FILE *f;

	snprintf(file, sizeof(file), "/proc/%d/cgroup", id);
	f = fopen(file, "r");
	if (!f)
		return false;
	if (!fgets(line, sizeof(line), f))
		line[0] = 0;
	fclose(f);
	line[strcspn(line, "\n")] = 0;
	return !strcmp(line + strlen("0::"), path);
}

static void nodes(void)
{
	int a, b, found;
	char path[64];

	a = hsfq_mknod("capi", HSFQ_ROOT, 300, HSFQ_INNER, 0);
	check("mknod", a > 0);
	b = hsfq_mknod("user1", a, 50, HSFQ_LEAF, HSFQ_RR);
	check("mknod-below", b > 0 && b != a);
	found = hsfq_parse("/capi/user1", HSFQ_ROOT);
	check("parse-absolute", found == b);
	check("parse-relative", hsfq_parse("user1", a) == b);
	check("parse-hint-unused", hsfq_parse("/capi", b) == a);
	check("parse-root", hsfq_parse("/", 0) > 0);
	check("path", hsfq_path(b, path, sizeof(path)) == 11 && !strcmp(path, "/capi/user1"));
	check("path-root", hsfq_path(HSFQ_ROOT, path, sizeof(path)) == 1 && !strcmp(path, "/"));
	refused("path-short", hsfq_path(b, path, 11), ERANGE);

	refused("mknod-again", hsfq_mknod("capi", HSFQ_ROOT, 300, HSFQ_INNER, 0), EEXIST);
	refused("mknod-orphan", hsfq_mknod("x", 0x7ffffff0, 300, HSFQ_INNER, 0), ENOENT);
	refused("mknod-negative", hsfq_mknod("x", -1, 300, HSFQ_INNER, 0), ENOENT);
	refused("mknod-weight-0", hsfq_mknod("x", a, 0, HSFQ_INNER, 0), ERANGE);
	refused("mknod-weight-10001", hsfq_mknod("x", a, 10001, HSFQ_INNER, 0), ERANGE);
	refused("mknod-sid", hsfq_mknod("x", a, 100, HSFQ_LEAF, 4711), EINVAL);
	refused("mknod-flag", hsfq_mknod("x", a, 100, 1024, 0), EINVAL);
	refused("mknod-slash", hsfq_mknod("x/y", a, 100, HSFQ_INNER, 0), EINVAL);
	refused("mknod-dots", hsfq_mknod("..", a, 100, HSFQ_INNER, 0), EINVAL);
	refused("mknod-null", hsfq_mknod(NULL, a, 100, HSFQ_INNER, 0), EFAULT);
	refused("parse-none", hsfq_parse("/capi/x", HSFQ_ROOT), ENOENT);
	refused("parse-hint-none", hsfq_parse("x", 0x7ffffff0), ENOENT);
	refused("parse-empty", hsfq_parse("", HSFQ_ROOT), ENOENT);
	refused("nothing-made", hsfq_parse("/capi/x", HSFQ_ROOT), ENOENT);

	refused("rmnod-children", hsfq_rmnod(a, HSFQ_RM_EMPTY), EBUSY);
	refused("rmnod-mode", hsfq_rmnod(b, 7), EINVAL);
	refused("rmnod-root", hsfq_rmnod(HSFQ_ROOT, HSFQ_RM_EMPTY), EINVAL);
	check("rmnod", !hsfq_rmnod(b, HSFQ_RM_EMPTY));
	refused("rmnod-again", hsfq_rmnod(b, HSFQ_RM_EMPTY), ENOENT);
	check("rmnod-parent", !hsfq_rmnod(a, HSFQ_RM_EMPTY));
}

static void admin(void)
{
	struct hsfq_info info = {.size = sizeof(info)};
	struct hsfq_thread thread = {.weight = 700};
	int value, a = hsfq_mknod("admin", HSFQ_ROOT, 300, HSFQ_LEAF, HSFQ_FIFO);

	check("admin-node", a > 0);
	check("get-weight", !hsfq_admin(a, HSFQ_GET_WEIGHT, &value) && value == 300);
	value = 400;
	check("set-weight", !hsfq_admin(a, HSFQ_SET_WEIGHT, &value));
	check("get-leaf", !hsfq_admin(a, HSFQ_GET_LEAF, &value) && value == HSFQ_FIFO);
	value = HSFQ_SFQ;
	check("set-leaf", !hsfq_admin(a, HSFQ_SET_LEAF, &value));
	check("get-info", !hsfq_admin(a, HSFQ_GET_INFO, &info) && info.weight == 400 &&
				  info.sid == HSFQ_SFQ && info.threads == 0 && info.flags == 0);

	value = 0;
	refused("set-weight-0", hsfq_admin(a, HSFQ_SET_WEIGHT, &value), ERANGE);
	value = 10001;
	refused("set-weight-10001", hsfq_admin(a, HSFQ_SET_WEIGHT, &value), ERANGE);
	value = 99;
	refused("set-leaf-unknown", hsfq_admin(a, HSFQ_SET_LEAF, &value), EINVAL);
	value = 100;
	refused("set-weight-root", hsfq_admin(HSFQ_ROOT, HSFQ_SET_WEIGHT, &value), EINVAL);
	refused("command-unknown", hsfq_admin(a, 99, &value), EINVAL);
	refused("args-null", hsfq_admin(a, HSFQ_GET_WEIGHT, NULL), EFAULT);
	refused("node-none", hsfq_admin(0x7ffffff0, HSFQ_GET_WEIGHT, &value), ENOENT);
	info.size = 4;
	refused("info-size", hsfq_admin(a, HSFQ_GET_INFO, &info), EINVAL);
	check("weight-kept", !hsfq_admin(a, HSFQ_GET_WEIGHT, &value) && value == 400);
	check("leaf-kept", !hsfq_admin(a, HSFQ_GET_LEAF, &value) && value == HSFQ_SFQ);

	refused("thread-elsewhere", hsfq_admin(a, HSFQ_SET_THREAD, &thread), EXDEV);
	check("join", !hsfq_join_node(a) && in_class(getpid(), "/admin"));
	check("thread-weight", !hsfq_admin(a, HSFQ_SET_THREAD, &thread));
	thread.weight = 0;
	refused("thread-weight-0", hsfq_admin(a, HSFQ_SET_THREAD, &thread), ERANGE);
	check("thread-get",
	      !hsfq_admin(a, HSFQ_GET_THREAD, &thread) && thread.weight == 700 && thread.fixed);
	thread.weight = HSFQ_WEIGHT_NICE;
	check("thread-nice", !hsfq_admin(a, HSFQ_SET_THREAD, &thread) &&
				     !hsfq_admin(a, HSFQ_GET_THREAD, &thread) &&
				     thread.weight == 100 && !thread.fixed);
	refused("rmnod-threads", hsfq_rmnod(a, HSFQ_RM_EMPTY), EBUSY);
	check("leave", !hsfq_join_node(HSFQ_ROOT) && in_class(getpid(), "/"));
	check("admin-rmnod", !hsfq_rmnod(a, HSFQ_RM_EMPTY));
}

/* An id is found in one process and used in another. */
static void processes(void)
{
	int id = -1, status, a = hsfq_mknod("moved", HSFQ_ROOT, 100, HSFQ_LEAF, HSFQ_TS), pipes[2];
	pid_t child;

	if (pipe(pipes))
		return;
	child = fork();
	if (!child) {
		id = hsfq_parse("moved", HSFQ_ROOT);
		if (write(pipes[1], &id, sizeof(id)) == sizeof(id))
			pause();
		_exit(1);
	}
	check("id-across-processes", read(pipes[0], &id, sizeof(id)) == sizeof(id) && id == a);
	check("move", !hsfq_move(child, id) && in_class(child, "/moved"));
	refused("move-none", hsfq_move(0x3ffffff0, id), ESRCH);
	refused("move-to-none", hsfq_move(child, 0x7ffffff0), ENOENT);
	refused("move-thread-foreign", hsfq_move_thread(child, hsfq_parse("/", 0)), EOPNOTSUPP);
	check("moved-still", in_class(child, "/moved"));
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	check("moved-rmnod", !hsfq_rmnod(a, HSFQ_RM_EMPTY));
}

static void *other_thread(void *arg)
{
	int below = *(int *)arg;

	check("move-thread", !hsfq_move_thread(0, below) && in_class(gettid(), "/home/part"));
	check("leader-stays", in_class(getpid(), "/home"));
	check("move-thread-back", !hsfq_move_thread(0, hsfq_parse("/home", 0)));
	return NULL;
}

static void threads(void)
{
	int home = hsfq_mknod("home", HSFQ_ROOT, 100, HSFQ_LEAF, HSFQ_TS), below;
	pthread_t thread;

	check("threads-join", !hsfq_join_node(home));
	refused("mknod-occupied", hsfq_mknod("part", home, 100, HSFQ_LEAF, HSFQ_TS), EBUSY);
	below = hsfq_mknod("part", home, 100, HSFQ_LEAF | HSFQ_THREADED, HSFQ_RR);
	check("mknod-threaded", below > 0);
	if (!pthread_create(&thread, NULL, other_thread, &below))
		pthread_join(thread, NULL);
	check("threads-leave", !hsfq_join_node(HSFQ_ROOT));
	check("threads-rmnod",
	      !hsfq_rmnod(below, HSFQ_RM_EMPTY) && !hsfq_rmnod(home, HSFQ_RM_EMPTY));
}

/* Takes the processor for some microseconds. */
static void *work(void *arg)
{
	struct timespec now;
	int us = *(int *)arg;

	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while (now.tv_sec * 1000000 + now.tv_nsec / 1000 < us);
	return NULL;
}

/*
 * A thread that has been joined may still be ending, and then belongs to its class, which
 * must go all the same. Beside a busy process some threads lose the processor as they end.
 */
static void threads_just_joined(void)
{
	int class, rounds = 0, us, status;
	pthread_t thread;
	pid_t busy = fork();

	if (!busy)
		for (;;)
			;
	for (; rounds < 60; rounds++) {
		us = rounds * 50;
		class = hsfq_mknod("joined", HSFQ_ROOT, 100, HSFQ_LEAF, HSFQ_TS);
		if (hsfq_join_node(class) || pthread_create(&thread, NULL, work, &us))
			break;
		pthread_join(thread, NULL);
		if (hsfq_join_node(HSFQ_ROOT) || hsfq_rmnod(class, HSFQ_RM_EMPTY))
			break;
	}
	if (rounds < 60)
		perror("threads-joined");
	check("threads-joined", rounds == 60);
	kill(busy, SIGKILL);
	waitpid(busy, &status, 0);
}

static void without(int error)
{
	int value = 100;

	refused("mknod-without", hsfq_mknod("x", HSFQ_ROOT, 100, HSFQ_INNER, 0), error);
	refused("join-without", hsfq_join_node(HSFQ_ROOT), error);
	refused("move-without", hsfq_move(0, HSFQ_ROOT), error);
	refused("set-without", hsfq_admin(HSFQ_ROOT, HSFQ_SET_LEAF, &(int){HSFQ_TS}), error);
	refused("get-without", hsfq_admin(HSFQ_ROOT, HSFQ_GET_WEIGHT, &value), error);
	check("parse-without", hsfq_parse("/", HSFQ_ROOT) > 0);
	refused("nothing-made", hsfq_parse("/x", HSFQ_ROOT), ENOENT);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		without(strcmp(argv[1], "unloaded") ? EPERM : ESRCH);
		return failures > 0;
	}
	nodes();
	admin();
	processes();
	threads();
	threads_just_joined();
	return failures > 0;
}
