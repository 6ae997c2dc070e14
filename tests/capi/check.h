/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a test of the C API says: a line "ok NAME" or "not ok NAME" each. Wants _GNU_SOURCE. */
#include <errno.h>
#include <qlinux.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int failures;

static void check(const char *name, bool good)
{
	if (good) {
		printf("ok %s\n", name);
		return;
	}
	failures++;
	printf("not ok %s: errno %s, %s\n", name, strerrorname_np(errno), hsfq_errmsg());
}

static void refused(const char *name, long result, int error)
{
	check(name, result == -1 && errno == error && *hsfq_errmsg());
}
