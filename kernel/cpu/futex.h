/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * futex.h - who waits for whom
 *
 * A program that finds a lock taken waits in the kernel, in one of two functions
 * that are watched here: __futex_wait for any futex, rt_mutex_wait_proxy_lock for
 * one with priority inheritance (PTHREAD_PRIO_INHERIT). Of the latter the kernel
 * knows the holder. Of any other futex only the program does, and these tell:
 *
 *   pthread mutexes of the GNU C library on 64-bit machines: the holder's
 *   thread ID is the third word, and the lock word is 2 while somebody waits
 *
 *   robust mutexes of any C library, and musl's recursive and error checking
 *   ones: the thread ID is in the lock word, beside FUTEX_WAITERS
 *
 * What a program writes there is its own affair: it can give away its own
 * threads' weight, to threads of its own process or, through a futex that processes
 * share, to threads of its own user, and nothing else.
 *
 * Optional: a kernel where these functions cannot be watched schedules without.
 */
#ifndef QLINUX_CPU_FUTEX_H
#define QLINUX_CPU_FUTEX_H

#define FUTEX_WAITERS   0x80000000U
#define FUTEX_TID_MASK  0x3fffffffU
#define FLAGS_SHARED    0x0010
#define RT_MUTEX_WAITED 1UL /* lowest bit of rt_mutex_base.owner */
#define MAX_RT_PRIO     100

/* A GNU pthread_mutex_t, its lock word being waited for. */
struct gnu_mutex {
	u32 lock;
	u32 count;
	u32 owner;
	u32 users;
	u32 kind;
};

#define GNU_MUTEX_CONTENDED 2
#define GNU_MUTEX_KINDS     0x3ff /* what pthread_mutexattr_* can ask for */

/* The thread ID of the holder in the caller's PID namespace, 0: not known. */
static u32 futex_holder(u32 *uaddr, u32 val)
{
	struct gnu_mutex m;

	if (val & FUTEX_WAITERS)
		return val & FUTEX_TID_MASK;
	if (val != GNU_MUTEX_CONTENDED || bpf_probe_read_user(&m, sizeof(m), uaddr))
		return 0;
	return m.users && !(m.kind & ~GNU_MUTEX_KINDS) ? m.owner : 0;
}

/* Each process has a shared futex at an address of its own: what they share is a
 * place in a file, or in memory that the kernel treats as one. */
static long futex_place(struct task_struct *p, struct vm_area_struct *vma, u64 *what)
{
	struct file *file = BPF_CORE_READ(vma, vm_file);
	u64 offset = *what - BPF_CORE_READ(vma, vm_start) + (BPF_CORE_READ(vma, vm_pgoff) << 12);

	if (file)
		*what = ((u64)BPF_CORE_READ(file, f_inode) << 16) + offset;
	return 0;
}

/* May the current thread lend to that one? */
static bool may_lend(struct task_struct *me, struct task_struct *holder, bool shared)
{
	if (me->tgid == holder->tgid)
		return true;
	return shared && me->cred->uid.val == holder->cred->uid.val;
}

/* A thread of a real-time class competes with nobody here, and has nothing to lend. */
static bool competes(struct task_struct *p)
{
	return p->normal_prio >= MAX_RT_PRIO;
}

/* The current thread is about to wait for what the holder has. */
static void waits_for(struct task_struct *holder, bool shared, u64 what)
{
	struct task_struct *me = bpf_get_current_task_btf();
	struct task_ref *mine, *its;
	unsigned long flags;

	if (!may_lend(me, holder, shared))
		return;
	mine = bpf_task_storage_get(&threads, me, NULL, 0);
	its = bpf_task_storage_get(&threads, holder, NULL, 0);
	if (!mine || !its || !lock_loans_irq(&flags))
		return;
	/* A thread that exits takes itself off its reference first. */
	if (mine->th && its->th)
		lend_link(&loans, as_lend(mine->th), as_lend(its->th), what);
	unlock_loans_irq(&flags);
}

/*
 * The current thread has waited. It has the lock now or tries for it, so the
 * others lend to it; or it gave up, and what they lend goes back to the holder.
 */
static void has_waited(bool woken)
{
	struct task_struct *me = bpf_get_current_task_btf();
	struct thread __arena *th = thread_of(me);
	lend_thread_t *holder;
	unsigned long flags;

	if (!th || !th->holder)
		return;
	if (!lock_loans_irq(&flags))
		return;
	holder = th->holder;
	if (holder && woken)
		lend_hand_over(&loans, holder, as_lend(th), th->what);
	else if (holder)
		lend_hand_over(&loans, as_lend(th), holder, th->what);
	lend_unlink(&loans, as_lend(th));
	show_loans();
	unlock_loans_irq(&flags);
}

SEC("?fentry/__futex_wait")
int BPF_PROG(lend_futex_wait, u32 *uaddr, unsigned int flags, u32 val)
{
	struct task_struct *holder;
	u64 what = (u64)uaddr;
	u32 tid;

	if (!competes(bpf_get_current_task_btf()))
		return 0;
	tid = futex_holder(uaddr, val);
	if (!tid)
		return 0;
	holder = task_from_vpid(tid);
	if (!holder)
		return 0;
	if (flags & FLAGS_SHARED)
		bpf_find_vma(bpf_get_current_task_btf(), what, futex_place, &what, 0);
	waits_for(holder, flags & FLAGS_SHARED, what);
	bpf_task_release(holder);
	return 0;
}

SEC("?fexit/__futex_wait")
int BPF_PROG(lend_futex_waited, u32 *uaddr, unsigned int flags, u32 val, struct hrtimer_sleeper *to,
	     u32 bitset, int ret)
{
	has_waited(!ret);
	return 0;
}

SEC("?fentry/rt_mutex_wait_proxy_lock")
int BPF_PROG(lend_pi_wait, struct rt_mutex_base *lock)
{
	struct task_struct *owner, *holder;

	if (!competes(bpf_get_current_task_btf()))
		return 0;
	owner = (void *)((u64)BPF_CORE_READ(lock, owner) & ~RT_MUTEX_WAITED);
	holder = owner ? bpf_task_from_pid(BPF_CORE_READ(owner, pid)) : NULL;
	if (!holder)
		return 0;
	waits_for(holder, true, (u64)lock);
	bpf_task_release(holder);
	return 0;
}

SEC("?fexit/rt_mutex_wait_proxy_lock")
int BPF_PROG(lend_pi_waited, struct rt_mutex_base *lock, struct hrtimer_sleeper *to,
	     struct rt_mutex_waiter *waiter, int ret)
{
	has_waited(!ret);
	return 0;
}

#endif
