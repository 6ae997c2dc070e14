// SPDX-License-Identifier: MIT OR Apache-2.0
//! Servers: whom they serve, and for whom that ends (core/cpu/sched.h).

use crate::engine::{Core, Engine, ThreadId};
use crate::{ffi, NodeId, Result, Thread, Tree};

/// How a thread that starts to wait fares against the one in service where it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Contest {
    /// The service there ends then.
    pub due_ns: u64,
    /// That is now.
    pub over: bool,
    /// It is sooner than it was to end.
    pub sooner: bool,
}

/// What a thread takes along into the tree of another domain: how far it has come with its leaf's
/// service, under ts and sfq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Its start tag, from v(t) on.
    pub ahead: i64,
    /// What it has saved.
    pub left_ns: u64,
    /// Its key is so much before its start tag.
    pub early: u64,
    /// When it was served or woke last.
    pub last_ns: u64,
    /// Asleep: what it is behind its peers' mean.
    pub lag: u64,
}

/// What a scheduler decides about servers, which are numbered from 0.
///
/// # Panics
/// Functions about a service, where there is none.
pub trait Servers: Engine {
    /// The thread, which neither waits nor is served, goes to the tree of another domain, with this;
    /// nothing, where that does not depend on a clock of the tree. It is asleep here then.
    fn pack(&mut self, th: ThreadId) -> Result<Option<Packed>>;
    /// It arrives there, in the same leaf, and is `runnable` or asleep as before. Where it was, all
    /// of the leaf were served so much more than here.
    fn unpack(
        &mut self,
        th: ThreadId,
        packed: Option<Packed>,
        runnable: bool,
        ahead_ns: i64,
    ) -> Result<()>;
    /// The waiting thread is served there from now on: for how long, or for `fixed_ns`.
    fn begin(&mut self, server: usize, th: ThreadId, fixed_ns: Option<u64>) -> Result<u64>;
    /// The service there ends, of this length. The thread sleeps or asks for the next.
    fn end(&mut self, server: usize, ran_ns: u64, sleeps: bool) -> Result<()>;
    /// The thread in service, charged for what it had of its turn, gives up the rest of it.
    fn give_up(&mut self, th: ThreadId) -> Result<()>;
    /// `th` starts to wait there. An interruption is counted where the service is over for it.
    fn contest(&mut self, server: usize, th: ThreadId) -> Result<Contest>;
    /// What a contest said is done: the service there ends so soon.
    fn cut(&mut self, server: usize, due_ns: u64);
    /// `th`, which woke elsewhere, waits: does the service there end for it? If so, that is counted.
    fn ends_elsewhere(&mut self, server: usize, th: ThreadId) -> Result<bool>;
    /// The quantum of `th` is over and its server has `chosen` another leaf: does it go on, and
    /// this other server changes? If so, that one gives way.
    fn outranks_on(&mut self, server: usize, th: ThreadId, chosen: NodeId) -> Result<bool>;
    /// The service there is ended for another thread.
    fn give_way(&mut self, server: usize);
    /// Whether it was.
    fn gives_way(&self, server: usize) -> bool;
    /// When the service there was to end is now.
    fn timer(&mut self, server: usize);
}

/// A server as C keeps it, and who is there.
#[derive(Clone, Copy, Default)]
pub(crate) struct Server {
    raw: ffi::RawServer,
    serves: Option<ThreadId>,
}

impl Core {
    fn server(&mut self, server: usize) -> &mut Server {
        if self.servers.len() <= server {
            self.servers.resize(server + 1, Server::default());
        }
        &mut self.servers[server]
    }

    /// Whom it serves, which `serves` is then; and C's view of both.
    fn service(&mut self, server: usize) -> (ThreadId, ffi::RawServer) {
        let Server { raw, serves } = *self.server(server);
        (serves.expect("somebody is served there"), raw)
    }

    fn raw_thread(tree: &Tree, th: &mut Thread) -> Result<ffi::ThreadView> {
        let leaf = tree.runnable(th)?;
        Ok(ffi::ThreadView {
            lt: &raw mut th.raw,
            leaf,
            waiting: th.waiting,
            runnable: th.runnable,
        })
    }

    /// Asks about a thread and the one in service on a server, which C may change.
    fn ask<T>(
        &mut self,
        server: usize,
        th: ThreadId,
        ask: impl FnOnce(
            *mut ffi::RawTree,
            *mut ffi::RawServer,
            &ffi::ThreadView,
            &ffi::ThreadView,
            u64,
        ) -> T,
    ) -> Result<T> {
        let (serves, mut raw) = self.service(server);
        // Copies, for a thread may be asked about itself.
        let mut first = self.threads[th.0].clone();
        let mut second = self.threads[serves.0].clone();
        self.tree.in_service(&second)?;
        let first = Core::raw_thread(&self.tree, &mut first)?;
        let second = Core::raw_thread(&self.tree, &mut second)?;
        let now_ns = self.tree.now_ns;
        let answer = ask(self.tree.raw_mut_ptr(), &mut raw, &first, &second, now_ns);
        self.server(server).raw = raw;
        Ok(answer)
    }
}

impl Servers for Core {
    fn pack(&mut self, th: ThreadId) -> Result<Option<Packed>> {
        let thread = &mut self.threads[th.0];
        let runnable = thread.runnable;
        let leaf = match runnable {
            true => self.tree.in_service(thread)?,
            false => self.tree.asleep(thread)?,
        };
        let tree = self.tree.raw_mut_ptr();
        // SAFETY: its leaf exists, and the thread is apart from the tree.
        let packed = unsafe { ffi::qcore_leaf_pack(tree, leaf, &mut thread.raw, runnable) };
        let raw = thread.raw;
        if runnable {
            self.tree.depart(thread)?;
        }
        Ok(packed.then_some(Packed {
            ahead: raw.flow.start as i64,
            left_ns: raw.left_ns,
            early: raw.early,
            last_ns: raw.due_ns,
            lag: raw.lag,
        }))
    }

    fn unpack(
        &mut self,
        th: ThreadId,
        packed: Option<Packed>,
        runnable: bool,
        ahead_ns: i64,
    ) -> Result<()> {
        let thread = &mut self.threads[th.0];
        thread.raw.generation = 0;
        let Some(packed) = packed else {
            return match runnable {
                true => self.tree.arrive(thread),
                false => Ok(()),
            };
        };
        thread.raw.flow.start = packed.ahead as u64;
        thread.raw.left_ns = packed.left_ns;
        thread.raw.early = packed.early;
        thread.raw.due_ns = packed.last_ns;
        thread.raw.lag = packed.lag;
        let leaf = self.tree.asleep(thread)?;
        let (tree, now_ns) = (self.tree.raw_mut_ptr(), self.tree.now_ns);
        // SAFETY: as in pack.
        unsafe { ffi::qcore_leaf_unpack(tree, leaf, &mut thread.raw, runnable, ahead_ns, now_ns) };
        thread.runnable = runnable;
        Ok(())
    }

    fn begin(&mut self, server: usize, th: ThreadId, fixed_ns: Option<u64>) -> Result<u64> {
        let mut raw = self.server(server).raw;
        let thread = &mut self.threads[th.0];
        let mut view = Core::raw_thread(&self.tree, thread)?;
        let (fixed_ns, now_ns) = (fixed_ns.unwrap_or(0), self.tree.now_ns);
        // SAFETY: its leaf exists, and the thread is apart from the tree.
        let length_ns = unsafe {
            ffi::qcore_sched_begin(
                self.tree.raw_mut_ptr(),
                &mut raw,
                &mut view,
                fixed_ns,
                now_ns,
            )
        };
        (thread.waiting, thread.runnable) = (view.waiting, view.runnable);
        *self.server(server) = Server {
            raw,
            serves: Some(th),
        };
        Ok(length_ns)
    }

    fn end(&mut self, server: usize, ran_ns: u64, sleeps: bool) -> Result<()> {
        let (th, _) = self.service(server);
        let thread = &mut self.threads[th.0];
        self.tree.in_service(thread)?;
        let mut view = Core::raw_thread(&self.tree, thread)?;
        let (tree, now_ns) = (self.tree.raw_mut_ptr(), self.tree.now_ns);
        // SAFETY: as in begin.
        unsafe { ffi::qcore_sched_end(tree, &mut view, ran_ns, sleeps, now_ns) };
        (thread.waiting, thread.runnable) = (view.waiting, view.runnable);
        self.server(server).serves = None;
        Ok(())
    }

    fn give_up(&mut self, th: ThreadId) -> Result<()> {
        self.tree.give_up(&mut self.threads[th.0])
    }

    fn contest(&mut self, server: usize, th: ThreadId) -> Result<Contest> {
        // SAFETY: here and below both threads' leaves exist, and they are copies.
        self.ask(server, th, |tree, raw, th, serves, now_ns| unsafe {
            ffi::qcore_sched_contest(tree, raw, th, serves, now_ns)
        })
    }

    fn cut(&mut self, server: usize, due_ns: u64) {
        // SAFETY: here and below it is only a server.
        unsafe { ffi::qcore_sched_cut(&mut self.server(server).raw, due_ns) };
    }

    fn ends_elsewhere(&mut self, server: usize, th: ThreadId) -> Result<bool> {
        self.ask(server, th, |tree, raw, th, serves, now_ns| unsafe {
            ffi::qcore_sched_ends_elsewhere(tree, raw, th, serves, now_ns)
        })
    }

    fn outranks_on(&mut self, server: usize, th: ThreadId, chosen: NodeId) -> Result<bool> {
        self.tree.check_leaf(chosen)?;
        self.ask(server, th, |tree, raw, th, serves, now_ns| unsafe {
            ffi::qcore_sched_outranks(tree, raw, th, serves, chosen.number(), now_ns)
        })
    }

    fn give_way(&mut self, server: usize) {
        unsafe { ffi::qcore_sched_give_way(&mut self.server(server).raw) };
    }

    fn gives_way(&self, server: usize) -> bool {
        let known = self.servers.get(server);
        known.is_some_and(|s| unsafe { ffi::qcore_sched_gives_way(&s.raw) })
    }

    fn timer(&mut self, server: usize) {
        let now_ns = self.tree.now_ns;
        unsafe { ffi::qcore_sched_timer(&mut self.server(server).raw, now_ns) };
    }
}
