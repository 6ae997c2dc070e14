/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cello_ring.h - rings: lists whose members leave by themselves; of an empty one both lead to
 * itself */
#ifndef QLINUX_CORE_CELLO_RING_H
#define QLINUX_CORE_CELLO_RING_H

#include "../port.h"

struct cello_link {
	struct cello_link *next, *prev;
};

CORE_FN void cello_ring(struct cello_link *at)
{
	at->next = at->prev = at;
}

CORE_FN bool cello_empty(const struct cello_link *at)
{
	return at->next == at;
}

CORE_FN void cello_before(struct cello_link *at, struct cello_link *l)
{
	l->next = at;
	l->prev = at->prev;
	at->prev->next = l;
	at->prev = l;
}

CORE_FN void cello_unlink(struct cello_link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	cello_ring(l);
}

#endif
