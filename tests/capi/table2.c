/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every call of table 2, run as root in the guest on interface argv[1], whose link has
 * neighbour 10.9.0.2, and argv[2]; one line "ok NAME" or "not ok NAME" a test. Argument
 * "unprivileged" behind them: as a user who may not.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <qlinux.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum {
	NOBODY = 65534,
	PAYLOAD = 958, /* bytes; with UDP's, IP's and Ethernet's headers FRAME */
	FRAME = 1000,
	RECORDS = 64,
	MANY_NODES = 450,
	MANY_QUEUES = 100,
};

static const char *dev, *peer;
static int root;

/* ---- looking ------------------------------------------------------------- */

static struct hsfq_link_record records[RECORDS];

static int look(int node)
{
	int count = hsfq_link_status(node, records, sizeof(*records), RECORDS);

	return count > RECORDS ? -1 : count;
}

/* The queue or node with that id, or one of zeros. */
static struct hsfq_link_record find(int id, unsigned kind)
{
	struct hsfq_link_record none = {0};
	int i, count = look(root);

	for (i = 0; i < count; i++)
		if (records[i].id == id && records[i].kind == kind)
			return records[i];
	return none;
}

static struct hsfq_link_record queue_of(int id)
{
	return find(id, HSFQ_LINK_QUEUE);
}

static bool adds_up(const struct hsfq_link_record *r)
{
	return r->enqueued == r->sent + r->refused + r->dropped + r->packets &&
	       r->enqueued_bytes == r->sent_bytes + r->refused_bytes + r->dropped_bytes + r->bytes;
}

/* Every record's account, and that of the root, which has all packets that ever came. */
static void accounts(const char *name)
{
	uint64_t sent = 0;
	int i, count = look(root);
	bool good = count > 0 && records[0].id == root;

	for (i = 0; i < count; i++) {
		good = good && adds_up(&records[i]);
		if (records[i].kind == HSFQ_LINK_QUEUE)
			sent += records[i].sent;
	}
	check(name, good && records[0].sent >= sent);
}

/* ---- packets ------------------------------------------------------------- */

static int udp(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	inet_aton("10.9.0.2", &to.sin_addr);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		perror("connect");
	return fd;
}

/* Frames of FRAME bytes. */
static void packets(int fd, int count)
{
	char payload[PAYLOAD] = {0};

	while (count--)
		if (send(fd, payload, sizeof(payload), 0) < 0 && errno != ENOBUFS)
			perror("send");
}

static bool drained(int queue)
{
	int tries = 1000;

	while (queue_of(queue).packets && --tries)
		usleep(10000);
	return tries;
}

/* ---- the interface ------------------------------------------------------- */

static void install(void)
{
	struct hsfq_qdisc o = {.size = sizeof(o), .rate = 124};
	int old;

	refused("install-null", hsfq_qdisc_install(NULL, NULL), EFAULT);
	refused("install-no-device", hsfq_qdisc_install("none0", NULL), ENODEV);
	refused("install-no-name", hsfq_qdisc_install("", NULL), ENODEV);
	refused("install-rate-low", hsfq_qdisc_install(dev, &o), ERANGE);
	o.rate = 125000000001;
	refused("install-rate-high", hsfq_qdisc_install(dev, &o), ERANGE);
	o.rate = 20 * FRAME;
	o.overhead = 1025;
	refused("install-overhead", hsfq_qdisc_install(dev, &o), ERANGE);
	o.overhead = 0;
	o.least = 2049;
	refused("install-least", hsfq_qdisc_install(dev, &o), ERANGE);
	o.least = 64;
	o.flags = 0x80;
	refused("install-flags", hsfq_qdisc_install(dev, &o), EINVAL);
	o.flags = HSFQ_QDISC_NO_CODEL;
	o.size = 8;
	refused("install-size", hsfq_qdisc_install(dev, &o), EINVAL);
	o.size = sizeof(o);

	refused("getroot-before", hsfq_link_getroot(dev), ESRCH);
	refused("remove-before", hsfq_qdisc_remove(dev), ESRCH);
	refused("parse-before", hsfq_link_parsenode("/", 0x51000001), ENOENT);
	check("install", !hsfq_qdisc_install(dev, &o));
	old = hsfq_link_getroot(dev);
	check("getroot", old > 0);
	refused("getroot-no-device", hsfq_link_getroot("none0"), ENODEV);
	refused("install-again", hsfq_qdisc_install(dev, &o), EEXIST);
	check("getroot-kept", hsfq_link_getroot(dev) == old);
	o.flags |= HSFQ_QDISC_REPLACE;
	check("install-replace", !hsfq_qdisc_install(dev, &o));
	root = hsfq_link_getroot(dev);
	check("getroot-replaced", root > 0 && root != old);
	refused("old-id", hsfq_link_mknod("x", old, 100, HSFQ_INNER, 0), ENOENT);
}

static void removal(void)
{
	refused("remove-none", hsfq_qdisc_remove("none0"), ENODEV);
	check("remove", !hsfq_qdisc_remove(dev));
	refused("remove-again", hsfq_qdisc_remove(dev), ESRCH);
	refused("id-after-remove", hsfq_link_parsenode("/", root), ENOENT);
	refused("getroot-after-remove", hsfq_link_getroot(dev), ESRCH);
}

/* ---- nodes --------------------------------------------------------------- */

static void nodes(void)
{
	int a, b, standard = hsfq_link_parsenode("/default", root);

	check("parse-default", standard > 0 && standard != root);
	check("parse-root", hsfq_link_parsenode("/", root) == root);
	a = hsfq_link_mknod("a", root, 300, HSFQ_INNER, 0);
	check("mknod", a > 0);
	b = hsfq_link_mknod("b", a, 50, HSFQ_LEAF, HSFQ_LINK_SFQ);
	check("mknod-below", b > 0 && b != a);
	check("parse-absolute", hsfq_link_parsenode("/a/b", root) == b);
	check("parse-relative", hsfq_link_parsenode("b", a) == b);
	check("parse-hint-link", hsfq_link_parsenode("/a", b) == a);
	check("status-node", find(b, HSFQ_LINK_NODE).weight == 50 &&
				     find(b, HSFQ_LINK_NODE).sid == HSFQ_LINK_SFQ &&
				     find(b, HSFQ_LINK_NODE).parent == a &&
				     find(b, HSFQ_LINK_NODE).depth == 2 &&
				     !strcmp(find(b, HSFQ_LINK_NODE).name, "b"));

	refused("mknod-again", hsfq_link_mknod("a", root, 300, HSFQ_INNER, 0), EEXIST);
	refused("mknod-below-leaf", hsfq_link_mknod("x", b, 300, HSFQ_INNER, 0), EINVAL);
	refused("mknod-orphan", hsfq_link_mknod("x", root + 999, 300, HSFQ_INNER, 0), ENOENT);
	refused("mknod-no-link", hsfq_link_mknod("x", 0x7eff0001, 300, HSFQ_INNER, 0), ENOENT);
	refused("mknod-zero", hsfq_link_mknod("x", 0, 300, HSFQ_INNER, 0), ENOENT);
	refused("mknod-negative", hsfq_link_mknod("x", -1, 300, HSFQ_INNER, 0), ENOENT);
	refused("mknod-weight-0", hsfq_link_mknod("x", a, 0, HSFQ_INNER, 0), ERANGE);
	refused("mknod-weight-10001", hsfq_link_mknod("x", a, 10001, HSFQ_INNER, 0), ERANGE);
	refused("mknod-sid", hsfq_link_mknod("x", a, 100, HSFQ_LEAF, HSFQ_FIFO), EINVAL);
	refused("mknod-sid-inner", hsfq_link_mknod("x", a, 1, HSFQ_INNER, HSFQ_LINK_FQ), EINVAL);
	refused("mknod-flag", hsfq_link_mknod("x", a, 100, HSFQ_THREADED, 0), EINVAL);
	refused("mknod-slash", hsfq_link_mknod("x/y", a, 100, HSFQ_INNER, 0), EINVAL);
	refused("mknod-dots", hsfq_link_mknod("..", a, 100, HSFQ_INNER, 0), EINVAL);
	refused("mknod-blank", hsfq_link_mknod("x y", a, 100, HSFQ_INNER, 0), EINVAL);
	refused("mknod-null", hsfq_link_mknod(NULL, a, 100, HSFQ_INNER, 0), EFAULT);
	refused("parse-none", hsfq_link_parsenode("/a/x", root), ENOENT);
	refused("parse-hint-none", hsfq_link_parsenode("x", root + 999), ENOENT);
	refused("parse-empty", hsfq_link_parsenode("", root), ENOENT);
	check("nothing-made", look(a) == 2);

	check("modify-node", !hsfq_link_modify(b, HSFQ_LINK_NODE_WEIGHT, 77) &&
				     find(b, HSFQ_LINK_NODE).weight == 77);
	refused("modify-weight-0", hsfq_link_modify(b, HSFQ_LINK_NODE_WEIGHT, 0), ERANGE);
	refused("modify-weight-high", hsfq_link_modify(b, HSFQ_LINK_NODE_WEIGHT, 1ULL << 32 | 1),
		ERANGE);
	refused("modify-root", hsfq_link_modify(root, HSFQ_LINK_NODE_WEIGHT, 100), EINVAL);
	refused("modify-what", hsfq_link_modify(b, 99, 100), EINVAL);
	refused("modify-none", hsfq_link_modify(root + 999, HSFQ_LINK_NODE_WEIGHT, 1), ENOENT);
	check("modify-kept", find(b, HSFQ_LINK_NODE).weight == 77);

	refused("rmnod-children", hsfq_link_rmnod(a, HSFQ_RM_EMPTY), EBUSY);
	refused("rmnod-mode", hsfq_link_rmnod(b, 7), EINVAL);
	refused("rmnod-root", hsfq_link_rmnod(root, HSFQ_RM_EMPTY), EINVAL);
	refused("rmnod-default", hsfq_link_rmnod(standard, HSFQ_RM_EMPTY), EBUSY);
	check("rmnod", !hsfq_link_rmnod(b, HSFQ_RM_EMPTY));
	refused("rmnod-again", hsfq_link_rmnod(b, HSFQ_RM_EMPTY), ENOENT);
	check("rmnod-parent", !hsfq_link_rmnod(a, HSFQ_RM_EMPTY));
}

static void status(void)
{
	int count = look(root);

	check("status-all", count == 3 && records[0].id == root && !records[0].parent &&
				    !records[0].name[0] && !records[0].weight);
	check("status-default", records[2].kind == HSFQ_LINK_QUEUE &&
					records[2].flags & HSFQ_LINK_DEFAULT &&
					records[2].parent == records[1].id &&
					records[2].users == 1 && records[2].packets_max == 1000);
	check("status-count", hsfq_link_status(root, NULL, 0, 0) == count);
	memset(records, 0xff, sizeof(records));
	check("status-part", hsfq_link_status(root, records, sizeof(*records), 1) == count &&
				     records[0].id == root && records[1].id == -1);
	refused("status-null", hsfq_link_status(root, NULL, sizeof(*records), 1), EFAULT);
	refused("status-size", hsfq_link_status(root, records, 8, 1), EINVAL);
	refused("status-none", hsfq_link_status(root + 999, records, sizeof(*records), 1), ENOENT);
}

/* ---- queues -------------------------------------------------------------- */

static void queues(void)
{
	int inner = hsfq_link_mknod("inner", root, 100, HSFQ_INNER, 0);
	int leaf = hsfq_link_mknod("leaf", inner, 100, HSFQ_LEAF, HSFQ_LINK_SFQ);
	int other = hsfq_link_mknod("other", inner, 100, HSFQ_LEAF, HSFQ_LINK_FQ);
	int q = hsfq_link_createq("q", root, 200), own;

	check("createq", q > 0);
	check("createq-loose", queue_of(q).parent == 0 && queue_of(q).weight == 200 &&
				       !strcmp(queue_of(q).name, "q"));
	refused("createq-again", hsfq_link_createq("q", root, 100), EEXIST);
	refused("createq-name", hsfq_link_createq("/q", root, 100), EINVAL);
	refused("createq-weight-0", hsfq_link_createq("p", root, 0), ERANGE);
	refused("createq-weight-high", hsfq_link_createq("p", root, 10001), ERANGE);
	refused("createq-null", hsfq_link_createq(NULL, root, 100), EFAULT);
	refused("createq-no-node", hsfq_link_createq("p", root + 999, 100), ENOENT);

	refused("moveq-loose", hsfq_link_moveq(q, leaf), EINVAL);
	refused("attachq-inner", hsfq_link_attachq(q, inner), EINVAL);
	refused("attachq-none", hsfq_link_attachq(q, root + 999), ENOENT);
	refused("attachq-other-link", hsfq_link_attachq(q, 0x7eff0001), EXDEV);
	refused("attachq-no-queue", hsfq_link_attachq(root + 999, leaf), ENOENT);
	check("attachq",
	      !hsfq_link_attachq(q, leaf) && queue_of(q).parent == leaf && queue_of(q).depth == 3);
	refused("attachq-again", hsfq_link_attachq(q, other), EINVAL);
	refused("rmnod-queues", hsfq_link_rmnod(leaf, HSFQ_RM_EMPTY), EBUSY);
	check("moveq", !hsfq_link_moveq(q, other) && queue_of(q).parent == other);
	check("status-subtree", look(other) == 2 && records[1].id == q && look(leaf) == 1);

	check("modify-queue", !hsfq_link_modify(q, HSFQ_LINK_QUEUE_WEIGHT, 10000) &&
				      !hsfq_link_modify(q, HSFQ_LINK_QUEUE_PACKETS, 65535) &&
				      !hsfq_link_modify(q, HSFQ_LINK_QUEUE_BYTES, 1ULL << 40) &&
				      queue_of(q).weight == 10000 &&
				      queue_of(q).packets_max == 65535 &&
				      queue_of(q).bytes_max == 1ULL << 40);
	refused("modify-packets-0", hsfq_link_modify(q, HSFQ_LINK_QUEUE_PACKETS, 0), ERANGE);
	refused("modify-packets-high", hsfq_link_modify(q, HSFQ_LINK_QUEUE_PACKETS, 65536), ERANGE);
	refused("modify-bytes-0", hsfq_link_modify(q, HSFQ_LINK_QUEUE_BYTES, 0), ERANGE);
	refused("modify-queue-0", hsfq_link_modify(q, HSFQ_LINK_QUEUE_WEIGHT, 0), ERANGE);
	refused("modify-no-queue", hsfq_link_modify(root + 999, HSFQ_LINK_QUEUE_WEIGHT, 1), ENOENT);

	look(root);
	own = records[2].id;
	refused("moveq-own", hsfq_link_moveq(own, leaf), EBUSY);
	refused("rmq-own", hsfq_link_rmq(own), EBUSY);
	check("rmq", !hsfq_link_rmq(q));
	refused("rmq-again", hsfq_link_rmq(q), ENOENT);
	check("createq-other-id", (own = hsfq_link_createq("q", root, 100)) > 0 && own != q);
	check("queues-rmnod", !hsfq_link_rmq(own) && !hsfq_link_rmnod(leaf, HSFQ_RM_EMPTY) &&
				      !hsfq_link_rmnod(other, HSFQ_RM_EMPTY) &&
				      !hsfq_link_rmnod(inner, HSFQ_RM_EMPTY));
}

/* More than one answer of the kernel holds. */
static void many(void)
{
	static int ids[MANY_NODES + MANY_QUEUES];
	struct hsfq_link_record *all;
	char name[16];
	int i, n, seen = 0, count = 3 + MANY_NODES + MANY_QUEUES;

	for (i = 0; i < MANY_NODES; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		ids[i] = hsfq_link_mknod(name, root, 1 + i, HSFQ_LEAF, HSFQ_LINK_FIFO);
	}
	for (; i < MANY_NODES + MANY_QUEUES; i++) {
		snprintf(name, sizeof(name), "q%d", i);
		ids[i] = hsfq_link_createq(name, root, 1 + i);
	}
	all = calloc(count, sizeof(*all));
	n = hsfq_link_status(root, all, sizeof(*all), count);
	check("many-status", n == count);
	/* Each once, in whatever order among siblings. */
	for (i = 0; i < MANY_NODES + MANY_QUEUES; i++)
		for (n = 3; n < count; n++)
			seen += all[n].id == ids[i] && all[n].weight == 1 + i;
	check("many-seen", seen == MANY_NODES + MANY_QUEUES);
	for (i = 0, n = 0; i < MANY_NODES; i++)
		n += !hsfq_link_rmnod(ids[i], HSFQ_RM_EMPTY);
	for (; i < MANY_NODES + MANY_QUEUES; i++)
		n += !hsfq_link_rmq(ids[i]);
	check("many-rm", n == MANY_NODES + MANY_QUEUES && look(root) == 3);
	free(all);
}

/* ---- sockets ------------------------------------------------------------- */

/* Ten packets wait in a queue that is moved meanwhile. */
static void waiting(int queue, int leaf, int other, int fd)
{
	packets(fd, 10);
	check("queued", queue_of(queue).packets > 5 && queue_of(queue).flags & HSFQ_LINK_RUNNABLE &&
				find(leaf, HSFQ_LINK_NODE).packets > 5);
	refused("rmq-packets", hsfq_link_rmq(queue), EBUSY);
	check("moveq-packets", !hsfq_link_moveq(queue, other));
	refused("rmnod-packets", hsfq_link_rmnod(leaf, HSFQ_RM_EMPTY), EBUSY);
	accounts("accounts-queued");
	check("drained", drained(queue) && queue_of(queue).sent == 20);
	check("served-where-queued", find(leaf, HSFQ_LINK_NODE).served == 20 * FRAME &&
					     find(other, HSFQ_LINK_NODE).served == 0);
	check("moveq-back", !hsfq_link_moveq(queue, leaf));
}

/* A queue of two packets gets twenty at once; one more may be on its way. */
static void limited(int queue, int fd)
{
	struct hsfq_link_record was = queue_of(queue), is;

	check("limit", !hsfq_link_modify(queue, HSFQ_LINK_QUEUE_PACKETS, 2));
	packets(fd, 20);
	check("limit-drained", drained(queue));
	is = queue_of(queue);
	check("limit-refused",
	      is.enqueued - was.enqueued == 20 && is.refused - was.refused >= 17 &&
		      is.refused_bytes - was.refused_bytes == FRAME * (is.refused - was.refused));
	accounts("accounts-refused");
}

static bool option_fails(int fd, const void *value, int size, int error)
{
	return setsockopt(fd, SOL_HSFQ, HSFQ_SO_QUEUE, value, size) == -1 && errno == error;
}

static void wrong_options(int queue, int fd)
{
	int local = socket(AF_UNIX, SOCK_DGRAM, 0), gone = hsfq_link_createq("gone", root, 100);

	check("socket-short", option_fails(fd, &queue, 2, EINVAL));
	check("socket-no-queue", option_fails(fd, &(int){root + 999}, 4, ENOENT));
	check("socket-other-link", option_fails(fd, &(int){0x7eff0001}, 4, ENOPROTOOPT));
	check("socket-unix", option_fails(local, &queue, 4, EINVAL));
	check("socket-rmq", !hsfq_link_rmq(gone) && option_fails(fd, &gone, 4, ENOENT));
	close(local);
}

static int command(const char *verb, const char *queue)
{
	char line[128];

	snprintf(line, sizeof(line), "qlinux link %s %s %s --user nobody", verb, dev, queue);
	return system(line);
}

/* How many of the packets that a user's program sends from a socket that it attaches go to
 * the queue; -errno: it may not attach it. */
static int as_nobody(int queue)
{
	struct hsfq_link_record was = queue_of(queue);
	int status = -1;
	pid_t child = fork();

	if (!child) {
		int fd = udp();

		if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
			_exit(255);
		if (hsfq_link_attach_socket(fd, queue))
			_exit(errno);
		packets(fd, 5);
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (!WIFEXITED(status))
		return -255;
	if (WEXITSTATUS(status))
		return -WEXITSTATUS(status);
	return queue_of(queue).enqueued - was.enqueued;
}

static void grants(int queue, int other)
{
	check("user-without-grant", as_nobody(queue) == -EPERM);
	check("grant", !command("grant", "video"));
	check("user-with-grant", as_nobody(queue) == 5);
	check("user-other-queue", as_nobody(other) == -EPERM);
	check("revoke", !command("revoke", "video"));
	check("user-revoked", as_nobody(queue) == -EPERM);
}

static void sockets(void)
{
	int leaf = hsfq_link_mknod("video", root, 300, HSFQ_LEAF, HSFQ_LINK_FIFO);
	int other = hsfq_link_mknod("bulk", root, 100, HSFQ_LEAF, HSFQ_LINK_FQ);
	int queue = hsfq_link_createq("video", root, 100), second, fd = udp();
	struct hsfq_link_record was;

	second = hsfq_link_createq("bulk", root, 100);
	check("socket-tree", !hsfq_link_attachq(queue, leaf) && !hsfq_link_attachq(second, other));
	wrong_options(queue, fd);
	check("socket", !hsfq_link_attach_socket(fd, queue));
	packets(fd, 10);
	check("socket-drained", drained(queue));
	was = queue_of(queue);
	check("socket-counted",
	      was.enqueued == 10 && was.sent == 10 && was.enqueued_bytes == 10 * FRAME &&
		      was.sent_bytes == 10 * FRAME && !was.refused && !was.dropped);
	check("node-counted", find(leaf, HSFQ_LINK_NODE).served == 10 * FRAME &&
				      find(leaf, HSFQ_LINK_NODE).sent == 10);
	accounts("accounts-sent");
	waiting(queue, leaf, other, fd);
	limited(queue, fd);
	check("limit-back", !hsfq_link_modify(queue, HSFQ_LINK_QUEUE_PACKETS, 1000));
	grants(queue, second);
	check("users-drained", drained(queue));
	was = queue_of(queue);
	check("socket-detach", !hsfq_link_attach_socket(fd, 0));
	packets(fd, 3);
	check("socket-detached", queue_of(queue).enqueued == was.enqueued);
	close(fd);
	was = find(root, HSFQ_LINK_NODE);
	check("sockets-rm", !hsfq_link_rmq(queue) && !hsfq_link_rmq(second) &&
				    !hsfq_link_rmnod(leaf, HSFQ_RM_EMPTY) &&
				    !hsfq_link_rmnod(other, HSFQ_RM_EMPTY));
	/* All that was sent here: 10, 10, 20, 5, 3. */
	check("root-remembers",
	      was.enqueued == 48 && find(root, HSFQ_LINK_NODE).enqueued == was.enqueued);
	accounts("accounts-removed");
}

/* What a listening socket chose is not what the sockets it accepts have. */
static void accepted(int queue)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t size = sizeof(at), four = sizeof(int);
	int listening = socket(AF_INET, SOCK_STREAM, 0), calling = socket(AF_INET, SOCK_STREAM, 0);
	int priority = -1, fd;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	check("socket-listening", !hsfq_link_attach_socket(listening, queue) &&
					  !bind(listening, (struct sockaddr *)&at, size) &&
					  !listen(listening, 1) &&
					  !getsockname(listening, (struct sockaddr *)&at, &size));
	check("socket-calling", !connect(calling, (struct sockaddr *)&at, size));
	fd = accept(listening, NULL, NULL);
	check("socket-priority",
	      !getsockopt(listening, SOL_SOCKET, SO_PRIORITY, &priority, &four) &&
		      priority == queue);
	check("socket-accepted", !getsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, &four) &&
					 priority == 0 && !hsfq_link_attach_socket(fd, queue));
	close(fd);
	close(calling);
	close(listening);
}

/* ---- several interfaces -------------------------------------------------- */

static void two_interfaces(void)
{
	int other, leaf, queue, mine = hsfq_link_createq("mine", root, 100), fd = udp();
	uint64_t before = find(root, HSFQ_LINK_NODE).enqueued;

	check("other-install", !hsfq_qdisc_install(peer, NULL));
	other = hsfq_link_getroot(peer);
	check("other-root", other > 0 && other != root);
	leaf = hsfq_link_mknod("leaf", other, 100, HSFQ_LEAF, HSFQ_LINK_SFQ);
	queue = hsfq_link_createq("mine", other, 100);
	check("other-attachq", leaf > 0 && queue > 0 && !hsfq_link_attachq(queue, leaf));
	check("other-parse", hsfq_link_parsenode("/leaf", other) == leaf);
	refused("other-apart", hsfq_link_parsenode("/leaf", root), ENOENT);
	refused("other-leaf", hsfq_link_attachq(mine, leaf), EXDEV);
	check("other-status", look(other) == 5 && records[3].id == leaf && records[4].id == queue);
	check("other-socket", !hsfq_link_attach_socket(fd, queue));
	accepted(queue);
	packets(fd, 3);
	/* They go to this interface's default. */
	check("other-not-here",
	      find(root, HSFQ_LINK_NODE).enqueued == before + 3 && queue_of(mine).enqueued == 0);
	check("other-remove", !hsfq_qdisc_remove(peer));
	refused("other-gone", hsfq_link_rmq(queue), ENOENT);
	check("other-rmq", !hsfq_link_rmq(mine));
	close(fd);
}

/* Ids are good in their network namespace only; a socket stays in that of its making. */
static void other_namespace(void)
{
	int queue = hsfq_link_createq("ours", root, 100), here = udp(), status = 0;
	pid_t child = fork();

	if (!child) {
		failures = 0;
		check("netns", !unshare(CLONE_NEWNET));
		refused("netns-parse", hsfq_link_parsenode("/", root), ENOENT);
		refused("netns-getroot", hsfq_link_getroot(dev), ENODEV);
		check("netns-socket",
		      option_fails(socket(AF_INET, SOCK_DGRAM, 0), &queue, 4, ENOPROTOOPT));
		check("netns-socket-of-ours", !hsfq_link_attach_socket(here, queue));
		_exit(failures > 0);
	}
	waitpid(child, &status, 0);
	check("netns-child", !status);
	close(here);
	check("netns-rmq", !hsfq_link_rmq(queue));
}

static void unprivileged(void)
{
	refused("install-unprivileged", hsfq_qdisc_install(dev, NULL), EPERM);
	refused("remove-unprivileged", hsfq_qdisc_remove(dev), EPERM);
	refused("getroot-unprivileged", hsfq_link_getroot(dev), EPERM);
	refused("parse-unprivileged", hsfq_link_parsenode("/", 0x51000001), EPERM);
	refused("mknod-unprivileged", hsfq_link_mknod("x", 0x51000001, 1, 0, 0), EPERM);
	refused("createq-unprivileged", hsfq_link_createq("x", 0x51000001, 1), EPERM);
	refused("attachq-unprivileged", hsfq_link_attachq(0x51000001, 0x51000002), EPERM);
	refused("rmq-unprivileged", hsfq_link_rmq(0x51000001), EPERM);
	refused("modify-unprivileged", hsfq_link_modify(0x51000001, 1, 1), EPERM);
	refused("status-unprivileged", hsfq_link_status(0x51000001, NULL, 0, 0), EPERM);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	setlinebuf(stdout);
	dev = argv[1];
	peer = argv[2];
	if (argc > 3) {
		unprivileged();
		return failures > 0;
	}
	install();
	if (root <= 0)
		return 1;
	nodes();
	status();
	queues();
	many();
	sockets();
	two_interfaces();
	other_namespace();
	removal();
	return failures > 0;
}
