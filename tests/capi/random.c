/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A thousand random operations on classes while everything runs. Every call
 * must succeed or be refused for a reason of the table below, the classes must
 * be the ones that the successful calls left, and every thread must still get
 * service afterwards.
 *
 *   random OPERATIONS SEED
 */
#define _GNU_SOURCE
#include <errno.h>
#include <qlinux.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES = 24, WORKERS = 16, FAILURES_MAX = 5 };

static struct node {
	int id; /* 0: not there */
	int parent;
	int weight;
	int sid;
	char name[16];
} nodes[NODES];

static pid_t workers[WORKERS];
static int place[WORKERS];           /* index of the node, 0: root */
static volatile unsigned long *done; /* by worker */
static int failures, counts[2];

static int pick(int n)
{
	return random() % n;
}

static void unexpected(const char *what)
{
	failures++;
	printf("not ok %s: %s\n", what, hsfq_errmsg());
	if (failures == FAILURES_MAX)
		exit(1); /* the workers go with their parent */
}

/* Half of the workers compute, the others sleep, fork and exit all the time. */
static void work(int number)
{
	for (;;) {
		done[number]++;
		if (number % 2 == 0)
			continue;
		usleep(500);
		if (!fork())
			_exit(0);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}

static bool used(int n)
{
	int i;

	for (i = 1; i < NODES; i++)
		if (nodes[i].id && nodes[i].parent == n)
			return true;
	for (i = 0; i < WORKERS; i++)
		if (place[i] == n)
			return true;
	return false;
}

static bool has_children(int n)
{
	int i;

	for (i = 1; i < NODES; i++)
		if (nodes[i].id && nodes[i].parent == n)
			return true;
	return false;
}

static bool has_workers(int n)
{
	int i;

	for (i = 0; i < WORKERS; i++)
		if (place[i] == n)
			return true;
	return false;
}

/* A class may be busy with the child that a worker forked before it moved on.
 * Is that why? The refusal names who is there: not one of the workers. */
static bool busy_with_child(void)
{
	const char *at = hsfq_errmsg();
	int i, pid, length;

	if (errno != EBUSY || (!strstr(at, "process") && !strstr(at, "thread")))
		return false;
	while (*at) {
		length = 0;
		if (strchr("0123456789", *at) && sscanf(at, "%d%n", &pid, &length) == 1)
			for (i = 0; i < WORKERS; i++)
				if (workers[i] == pid)
					return false;
		at += length ? length : 1;
	}
	return true;
}

static void create(int n)
{
	struct node new = {.weight = 1 + pick(10000), .sid = pick(4), .parent = pick(NODES)};
	bool fits;

	if (new.parent && !nodes[new.parent].id)
		new.parent = 0;
	fits = !new.parent || !has_workers(new.parent);
	snprintf(new.name, sizeof(new.name), "n%d", n);
	new.id = hsfq_mknod(new.name, new.parent ? nodes[new.parent].id : HSFQ_ROOT, new.weight,
			    HSFQ_LEAF, new.sid);
	counts[new.id > 0]++;
	if (new.id > 0 ? !fits : fits ? !busy_with_child() : errno != EBUSY)
		unexpected("mknod");
	if (new.id > 0)
		nodes[n] = new;
}

static void delete(int n)
{
	bool empty = !used(n);
	int result = hsfq_rmnod(nodes[n].id, HSFQ_RM_EMPTY);

	counts[!result]++;
	if (result ? empty && !busy_with_child() : !empty)
		unexpected("rmnod");
	if (result && errno != EBUSY)
		unexpected("rmnod-errno");
	if (!result)
		nodes[n].id = 0;
}

static void move(int worker, int n)
{
	bool fits = !n || !has_children(n);
	int result = hsfq_move(workers[worker], n ? nodes[n].id : HSFQ_ROOT);

	counts[!result]++;
	if (fits != !result || (!fits && errno != EOPNOTSUPP))
		unexpected("move");
	if (!result)
		place[worker] = n;
}

static void change(int n)
{
	int weight = pick(10002), sid = pick(9), result;

	result = hsfq_admin(nodes[n].id, HSFQ_SET_WEIGHT, &weight);
	if ((weight < 1 || weight > 10000) != !!result || (result && errno != ERANGE))
		unexpected("set-weight");
	if (!result)
		nodes[n].weight = weight;
	result = hsfq_admin(nodes[n].id, HSFQ_SET_LEAF, &sid);
	if ((sid > 6) != !!result || (result && errno != EINVAL))
		unexpected("set-leaf");
	if (!result)
		nodes[n].sid = sid;
	counts[!result]++;
}

static void compare(int n)
{
	struct hsfq_info info = {.size = sizeof(info)};

	if (!nodes[n].id)
		return;
	if (hsfq_admin(nodes[n].id, HSFQ_GET_INFO, &info) || info.weight != nodes[n].weight ||
	    info.sid != nodes[n].sid)
		unexpected("info");
}

static void start(void)
{
	int i;

	done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (i = 0; i < WORKERS; i++) {
		workers[i] = fork();
		if (!workers[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			work(i);
		}
	}
}

static void finish(void)
{
	unsigned long before[WORKERS];
	int i, tries, starved = 0;

	for (i = 0; i < WORKERS; i++) {
		if (hsfq_move(workers[i], HSFQ_ROOT))
			unexpected("home");
		before[i] = done[i];
	}
	sleep(2);
	for (i = 0; i < WORKERS; i++) {
		starved += done[i] == before[i];
		kill(workers[i], SIGKILL);
		waitpid(workers[i], NULL, 0);
	}
	if (starved) {
		failures++;
		printf("not ok served: %d workers got nothing in two seconds\n", starved);
	}
	for (tries = 0; tries < NODES; tries++)
		for (i = 1; i < NODES; i++)
			if (nodes[i].id && !hsfq_rmnod(nodes[i].id, HSFQ_RM_EMPTY))
				nodes[i].id = 0;
	for (i = 1; i < NODES; i++)
		if (nodes[i].id)
			unexpected("cleared");
}

int main(int argc, char **argv)
{
	int i, n, control, operations = argc > 1 ? atoi(argv[1]) : 1000;

	srandom(argc > 2 ? atoi(argv[2]) : 1);
	start();
	/* So that the operations do not wait for the workers. */
	control = hsfq_mknod("control", HSFQ_ROOT, 10000, HSFQ_LEAF, HSFQ_TS);
	if (control < 0 || hsfq_join_node(control))
		unexpected("control");
	for (i = 0; i < operations; i++) {
		n = 1 + pick(NODES - 1);
		if (!nodes[n].id)
			create(n);
		else if (pick(4) == 0)
			delete(n);
		else if (pick(2) == 0)
			change(n);
		else
			move(pick(WORKERS), pick(8) ? n : 0);
		compare(n);
	}
	finish();
	if (hsfq_join_node(HSFQ_ROOT) || hsfq_rmnod(control, HSFQ_RM_EMPTY))
		unexpected("leave");
	if (!failures)
		printf("ok random (%d done, %d refused)\n", counts[1], counts[0]);
	return failures > 0;
}
