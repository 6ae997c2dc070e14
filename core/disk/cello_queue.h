/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cello_queue.h - what Cello keeps of requests, groups and classes, and what requests cost */
#ifndef QLINUX_CORE_CELLO_QUEUE_H
#define QLINUX_CORE_CELLO_QUEUE_H

#include "disktime.h"
#include "flight.h"
#include "../tree/leftist.h"

enum cello_class_id {
	CELLO_INTERACTIVE = 0,
	CELLO_THROUGHPUT = 1,
	CELLO_REALTIME = 2,
	CELLO_CLASSES = 3,
};

enum {
	CELLO_WEIGHT_MAX = 10000,
	CELLO_WEIGHT_DEFAULT = 100,
	/* Of the interactive and the real-time class: somebody waits for what these ask for. More
	 * on an arm, which loses two seeks by each change to another class and back. */
	CELLO_WEIGHT_AWAITED = 200,
	CELLO_WEIGHT_AWAITED_ARM = 400,
	/* The scheduled queue is searched for each request that comes to it. */
	CELLO_SCHEDULED_MAX = 128,
	/* A round begins when no more than this part of one waits to be served. */
	CELLO_OVERLAP = 4,
	/* Of a class, so that there is room for the others. */
	CELLO_SCHEDULED_CLASS = 96,
	/* Of one but real-time where there is no arm, for which their order would matter. */
	CELLO_SCHEDULED_FLAT = 1,
	/* What an arm passes in a tenth of a turn, more or less. */
	CELLO_NEXT_SECTORS = 256,
	/* So many requests that are over before that has passed are given to it in advance. */
	CELLO_NEXT_MOST = 3,
	/* Requests that the disk may always have: one that is served, one that is next; else it
	 * idles between. */
	CELLO_FLIGHT_LEAST = 2,
	/* With a number that is learned, so many times as many as it serves side by side, or
	 * CELLO_FLIGHT_LONG_NS. */
	CELLO_FLIGHT_DEEP = 16,
	/* So many requests tell what a disk without an arm takes (cello_tells). */
	CELLO_TOLD = 256,
	/* Estimates that are kept (cello_estimated_flat). */
	CELLO_SAID = 8,
	/* Turns are of use up to so many lanes, */
	CELLO_TURN_LANES = 2,
	/* and for so many requests. */
	CELLO_TURN_LEAST = 50,
	/* Requests in turns after which it is forgotten how long they would wait. */
	CELLO_TURNS_TRIED = 1024,
	/* Up to so many times as many also for those that have used their share. */
	CELLO_FLIGHT_SPARE = 4,
};

/* A group is awaited after so many requests in a row of which each came when it had none. */
#define CELLO_AWAIT_SINGLE 3
/* So much longer than it takes twice. Half of what an arm would take to go and come back: programs
 * are late now and then, and who is not awaited loses what was left of a round. */
#define CELLO_AWAIT_MIN_NS 1000000ULL /* 1 ms */
#define CELLO_AWAIT_ARM_NS 4000000ULL /* 4 ms */
#define CELLO_AWAIT_MAX_NS 4000000ULL /* 4 ms, half a seek: twice a think time */

#define CELLO_ROUND_MIN_NS     1000000ULL     /* 1 ms */
#define CELLO_ROUND_MAX_NS     10000000000ULL /* 10 s */
#define CELLO_ROUND_DEFAULT_NS 100000000ULL   /* 100 ms */

/* Shares of so much of the disk's time are gathered (cello_share.h): of a hundred reads of 5 ms
 * beside it, with four fifths of the disk, fewer than one waits for what was gathered then. */
#define CELLO_GATHER_NS 1600000000ULL /* 1.6 s */

/* A turn beside requests that follow from one another, and half of that at least between two: who
 * is served once after each does a few hundred such things a second. */
#define CELLO_TURN_SHORT_NS 4000000ULL /* 4 ms */

/* What requests at the disk are estimated to take before it has no further one, if that is said:
 * whoever comes now waits for them, however urgent it is. */
#define CELLO_FLIGHT_LONG_NS 2000000ULL /* 2 ms */
/* What they may take while an interactive class is there that waits for it. */
#define CELLO_FLIGHT_HELD_NS 4000000ULL /* 4 ms */
/* A disk that could have served more in that time serves all that it is asked for. */
#define CELLO_IDLE_NS 20000000ULL /* 20 ms */
/* So long after a request of an interactive class another is likely. */
#define CELLO_LATELY_NS     1000000000ULL  /* 1 s */
#define CELLO_FLIGHT_MIN_NS 1000ULL        /* 1 us: two requests at a time */
#define CELLO_FLIGHT_MAX_NS 10000000000ULL /* 10 s: as many as may be */

/* After a real-time request comes, if nothing was said of it: three rounds. A class whose requests
 * need more than its part of a round is served in the next one or two; were they due sooner, the
 * arm would go by deadlines, not by its way, and more of them would be late. */
#define CELLO_DEADLINE_MIN_NS     1000000ULL     /* 1 ms */
#define CELLO_DEADLINE_MAX_NS     49152000000ULL /* 49.152 s, as in a hint */
#define CELLO_DEADLINE_DEFAULT_NS (3 * CELLO_ROUND_DEFAULT_NS)

struct cello_group;
struct cello_class;

struct cello_request {
	struct cello_link link; /* in its group's pending or in the scheduled queue; first */
	struct cello_group *group;
	u64 sector;
	u64 from; /* where the request before it ended, when it went to the disk */
	struct flight_request flight;
	u32 sectors;
	u32 way;         /* 0 it reads, 1 it writes, 2 neither */
	bool sync;       /* somebody waits for it: a read, or written for fsync */
	u64 deadline_ns; /* of the real-time class: absolute */
	u64 arrived_ns;
	u64 service_ns;  /* estimated, from where the one before it ends */
	u64 estimate_ns; /* of that, its part of the disk's time */
	u64 charged_ns;  /* that its class and group were charged for it */
	u64 slack_ns;    /* it and all behind it may be so much later; while a place is sought */
	u64 error_ns;    /* real-time: what its estimated end may be off by */
	u64 spread;      /* of that (disktime.h) */
	u64 round;       /* in which it was scheduled */
	bool scheduled;  /* it is in the scheduled queue */
	bool beside;     /* the disk flushed its cache meanwhile, for a time that is not known */
	bool early;      /* placed by slack stealing: SCAN order begins behind it */
	bool changed;    /* as the scheduled queue, from it on */
	bool promised;   /* real-time, and in time ever since it was scheduled, for all errors */
	bool ahead;      /* the disk has it as it begins just behind the one before (cello.h) */
	bool open;       /* interactive: it came while its class had something left, and no turn */
};

/* What a class may use of a round, and what it was served. */
struct cello_part {
	u32 weight;
	u32 present;   /* its requests: pending, scheduled and at the disk */
	s64 used_ns;   /* of its share; below 0: of the last round's, which it was charged too much
			  for */
	u64 served_ns; /* measured, since the beginning */
	u64 served;    /* requests */
};

/* Has a part of what its parent has: a group, or a group's own requests beside its children. */
struct cello_child {
	struct leftist at; /* among the parent's that have requests or are awaited; first */
	struct cello_group *parent;
	u32 weight;
	u32 waiting; /* pending, of all below it */
	u32 deep;    /* leaves below it with more than one of those */
};

/* The requests of a cgroup in a class, and those of the cgroups below it in that class. */
struct cello_group {
	struct cello_child child; /* of its parent; first */
	struct cello_child own;   /* its own requests */
	struct leftist *heap;     /* of its children */
	struct sfq_clock clock;
	u64 order;     /* of their arrivals */
	u64 length_ns; /* of a round of the class's, what it may use; when last looked at */
	u32 weights;   /* of those in the heap, */
	u32 members;   /* and how many they are */
	u32 class_id;
	struct cello_class *class;
	struct cello_link awaited; /* among those that are */
	struct cello_link pending;
	u32 present;       /* its own requests: pending, scheduled and at the disk */
	u64 since_ns;      /* it has some without a pause since then */
	u32 single;        /* of those, in a row, that came when it had none */
	u64 served_ns;     /* measured, since the beginning */
	u64 served;        /* requests */
	u64 left_ns;       /* its last request was served then */
	u64 think_ns;      /* how long it has none after that, on average */
	u64 waits_ns;      /* as the class's */
	u64 turn_think_ns; /* as think_ns, in turns: nobody else keeps the processors busy then */
	u64 open_think_ns; /* and else */
	bool in_turn;      /* its last request was served in one */
	u64 await_ns;      /* until then it is awaited; 0: it is not */
};

struct cello_class {
	struct cello_group root; /* parent of the groups that have none; no requests of its own */
	struct cello_part part;
	u32 waiting; /* pending */
	u32 deep;    /* groups with more than one of those */
	u32 scheduled;
	u32 members;   /* groups that have requests or are awaited */
	u32 sync;      /* its requests for which somebody waits, */
	u32 sync_part; /* and how many of those that came lately, in parts of CELLO_ALL */
	bool pours;    /* it is served with what it has gathered (cello_share.h) */
	u64 missed;    /* the last round in which one that was awaited did not come */
	u64 came_ns;   /* its last request */
	u64 waits_ns;  /* its requests wait so long for others', on average, but for turns */
	u64 urgent_ns; /* real-time: the shortest of its deadlines lately, from when a request came
			*/
	bool turned;   /* it had a turn in this round (cello_share.h) */
	bool greedy;   /* it used its share of the last round, not by turns, and had requests */
	u64 late;      /* real-time requests served after their deadline */
	u64 broken;    /* of those, promised to be in time */
};

/* What was estimated last, of lengths about as long. */
struct cello_said {
	u64 service_ns, spread;
	u64 seen; /* by all that was learned until then */
	u32 sectors, way;
};

struct cello {
	struct cello_class class[CELLO_CLASSES];
	struct cello_link scheduled;
	u32 queued;           /* in the scheduled queue */
	u32 older;            /* of those, scheduled in the round before */
	u32 waiting;          /* pending, of all classes */
	u32 weights;          /* of the classes */
	struct flight flight; /* what is at the disk */
	u64 flight_max_ns;    /* that it is estimated to take; 0: as many as were learned */
	u32 unclassified; /* class of what has none; CELLO_CLASSES: it goes to the disk at once */
	u64 deadline_ns;  /* of real-time requests without one of their own, from their arrival */
	u64 round_ns;
	u64 rounds;
	u64 await_ns;              /* some group is awaited no longer than until then; 0: none is */
	struct cello_link awaited; /* groups that are */
	struct cello_group *sole;  /* no other has requests, or is awaited, and the heaps are empty;
				      or it was the last */
	struct cello_group *dry;   /* all of its requests are at the disk (cello_group.h), */
	u32 dry_part;              /* of which this is its share, in parts of CELLO_ALL */
	u64 scant_ns;              /* some group had too few for its share then */
	u64 idle_ns;               /* a lane was free and nothing waited until then; ~0: it is so */
	struct cello_group *keeps; /* an arm waits for it */
	struct cello_group *stays; /* and it has come */
	struct cello_group *serves; /* whose request went to the disk last, while it is there */
	bool soon;                  /* that one is soon over (cello.h) */
	bool kept;                  /* though others waited */
	u64 turn_ns;                /* it is the interactive class's turn, since; 0: nobody's */
	u64 rest_ns;                /* no short one begins before */
	u64 head;                   /* where the last request that was issued ends */
	bool up;                    /* the arm moved to higher sectors for it */
	bool changed;               /* the scheduled queue, since promises were checked */
	bool fills;                 /* it is being filled */
	u64 begun_ns;  /* the disk was done with a request, or was idle and was given one */
	u64 flight_ns; /* since then what is at the disk is estimated to take */
	u64 flight_spread;
	struct disktime time;
	struct cello_said said[CELLO_SAID];
};

CORE_FN struct cello_request *cello_at(struct cello_link *l)
{
	return (struct cello_request *)l;
}

CORE_FN struct cello_group *cello_awaited(struct cello_link *l)
{
	return (struct cello_group *)((char *)l - __builtin_offsetof(struct cello_group, awaited));
}

/* ---- what requests cost ------------------------------------------------ */

CORE_FN u64 cello_end(const struct cello_request *r)
{
	return r->sector + r->sectors;
}

/* Where the disk will be when it comes to this place. */
CORE_FN u64 cello_from(const struct cello *c, const struct cello_link *at)
{
	return at->prev == &c->scheduled ? c->head
					 : cello_end((const struct cello_request *)at->prev);
}

CORE_FN u64 cello_service(struct cello *c, u64 from, const struct cello_request *r)
{
	struct disktime_of of = {from, r->sector, r->sectors, r->way};

	return disktime_estimate(&c->time, &of);
}

/* Its part of the disk's time. */
CORE_FN u64 cello_estimate(struct cello *c, u64 from, const struct cello_request *r)
{
	return flight_part(&c->flight, cello_service(c, from, r));
}

/* What the scheduled queue will take. */
CORE_FN u64 cello_queue_ns(const struct cello *c)
{
	const struct cello_link *l;
	u64 ns = 0;

	for (l = c->scheduled.next; l != &c->scheduled; l = l->next)
		ns += ((const struct cello_request *)l)->estimate_ns;
	return ns;
}

/* The request is reached from there. */
CORE_FN void cello_estimated(struct cello *c, struct cello_request *r, u64 from)
{
	struct disktime_of of = {from, r->sector, r->sectors, r->way};
	struct disktime_terms terms = disktime_terms(&c->time, &of);

	r->service_ns = disktime_sum(&terms, &of);
	r->estimate_ns = flight_part(&c->flight, r->service_ns);
	r->spread = disktime_spread(&terms, &of);
}

/* The same without an arm, where it does not matter from where; while nothing was learned since,
 * requests of a length and way are alike. */
CORE_FN void cello_estimated_flat(struct cello *c, struct cello_request *r)
{
	struct cello_said *s = &c->said[disktime_log2(r->sectors) % CELLO_SAID];

	if (s->seen == c->time.seen && s->sectors == r->sectors && s->way == r->way) {
		r->service_ns = s->service_ns;
		r->estimate_ns = flight_part(&c->flight, r->service_ns);
		r->spread = s->spread;
		return;
	}
	cello_estimated(c, r, r->sector);
	s->seen = c->time.seen;
	s->sectors = r->sectors;
	s->way = r->way;
	s->service_ns = r->service_ns;
	s->spread = r->spread;
}

/* What is there is reached from elsewhere now. */
CORE_FN void cello_reached(struct cello *c, struct cello_link *at)
{
	struct cello_request *r = cello_at(at);

	if (at != &c->scheduled && (c->flight.arm || !r->service_ns))
		cello_estimated(c, r, cello_from(c, at));
}

/* By how much the scheduled queue grows with the request before this place. It may shrink:
 * then by nothing. */
CORE_FN u64 cello_growth(struct cello *c, struct cello_link *at, const struct cello_request *r)
{
	u64 alone = cello_estimate(c, cello_from(c, at), r), with;
	struct cello_request *next = cello_at(at);

	if (at == &c->scheduled)
		return alone;
	with = alone + cello_estimate(c, cello_end(r), next);
	return with > next->estimate_ns ? with - next->estimate_ns : 0;
}

/* So long until one of the lanes is free for what the disk is given next, which serves in order. */
CORE_FN u64 cello_behind_ns(const struct cello *c)
{
	const struct flight *f = &c->flight;

	if (f->number < f->lanes)
		return 0;
	return CORE_DIV(c->flight_ns * (f->number - f->lanes + 1), f->number);
}

/* The disk begins with the scheduled queue: when it is done with what it has, or one of the lanes
 * is free. */
CORE_FN u64 cello_free(const struct cello *c, u64 now_ns)
{
	const struct flight *f = &c->flight;
	u64 free_ns = c->begun_ns + c->flight_ns;

	if (f->lanes > 1)
		return now_ns + cello_behind_ns(c);
	return f->number && free_ns > now_ns ? free_ns : now_ns;
}

/* When it is served, if it and all before it have had their parts of the disk's time then. */
CORE_FN u64 cello_served_ns(const struct cello_request *r, u64 at_ns)
{
	return at_ns + r->service_ns - r->estimate_ns;
}

#endif
