// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated machine.

use super::domains::{domain_of, servers_of, Books};
use super::locks::{LockTimes, Locks};
use super::queue::Queues;
use super::workload::{Event, Span, Thread as ThreadSpec, Workload};
use super::SimError;
use crate::bounds::{Interval, Node, Quantum, Trace};
use crate::engine::ThreadId;
use crate::leaf::tunables;
use crate::sched::Servers;
use crate::{NodeId, Policy};
use rand::Rng;
use rand_chacha::{rand_core::SeedableRng, ChaCha8Rng};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// What became of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    /// For [`crate::bounds::check`]. Classes come first, in the order of their
    /// creation; then the threads of leaves that SFQ scheduled all the time.
    pub trace: Trace,
    /// Paths of all classes ever created; the root is the first.
    pub classes: Vec<String>,
    /// Names of all threads.
    pub threads: Vec<String>,
    /// Of every thread, its deadlines that passed unmet, as the scheduler counts them.
    pub misses: Vec<u64>,
    /// Everything that happened, in order.
    pub records: Vec<Record>,
    /// Domains of servers, each with a tree of its own.
    pub domains: u32,
    /// What their locks would cost.
    pub locks: LockTimes,
    /// Waiting threads that the ledger moved to another domain.
    pub moved: u64,
    /// Waiting threads that an idle server took from another domain.
    pub stolen: u64,
}

/// Something that happened to a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// What.
    pub change: Change,
    /// When; for service, when it began.
    pub start_ns: u64,
    /// When it was over.
    pub end_ns: u64,
    /// The server, of service.
    pub server: Option<u32>,
    /// Index of its leaf in [`Simulation::classes`].
    pub class: usize,
    /// Index in [`Simulation::threads`].
    pub thread: usize,
    /// Start tag of the leaf among its siblings, modulo 2^64.
    pub start_tag: u64,
}

/// What happened to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Change {
    /// It was served, and the quantum ended for one of four reasons.
    Expired,
    Preempted,
    Blocked,
    Stopped,
    /// It became runnable.
    Wake,
    /// It is no longer runnable, although it was not being served.
    Leave,
}

impl Change {
    /// Whether it is a quantum of service.
    pub fn is_service(self) -> bool {
        !matches!(self, Change::Wake | Change::Leave)
    }
}

/// Why a service ends; ties at one moment are resolved in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    ServiceEnds { server: usize, token: u64 },
    Wakes { thread: usize, token: u64 },
    Happens { event: usize },
    Ledger,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not arrived yet, blocked, or suspended.
    Asleep,
    Waiting,
    Served {
        server: usize,
    },
    Gone,
}

pub(super) struct Class {
    pub(super) path: String,
    pub(super) id: Option<NodeId>,
    pub(super) parent: Option<usize>,
    pub(super) policy: Option<Policy>,
    pub(super) suspended: bool,
    /// It always had this policy and these threads.
    pub(super) unchanged: bool,
}

pub(super) struct Thread {
    pub(super) id: ThreadId,
    pub(super) class: usize,
    pub(super) state: State,
    pub(super) spec: ThreadSpec,
    pub(super) rng: ChaCha8Rng,
    /// Service until it blocks.
    pub(super) left_ns: u64,
    /// Service until it exits.
    pub(super) work_ns: u64,
    /// Next entry of `phases`.
    pub(super) phase: usize,
    /// Beginning of the next period.
    pub(super) release_ns: u64,
    /// It is not blocked: it runs unless suspended.
    pub(super) willing: bool,
    pub(super) suspended: bool,
    pub(super) token: u64,
    pub(super) runnable_since: u64,
    pub(super) waiting_since: u64,
    pub(super) weights: Vec<(u64, u32)>,
    /// The server that served it last, where it waits.
    pub(super) server: usize,
    /// The domain in whose tree it is runnable.
    pub(super) domain: usize,
}

impl Thread {
    /// Its weight now.
    pub(super) fn weight(&self) -> u32 {
        self.weights
            .last()
            .expect("it has had one from the start")
            .1
    }
}

pub(super) struct Service {
    pub(super) thread: usize,
    pub(super) since_ns: u64,
    due_ns: u64,
    preempted: bool,
    start_tag: u64,
    token: u64,
}

/// Time during which something held for a thread, in the class it was in then.
struct Stay {
    thread: usize,
    class: usize,
    start_ns: u64,
    end_ns: u64,
}

pub(super) struct Machine<E: Servers> {
    /// One a domain of servers.
    pub(super) engines: Vec<E>,
    pub(super) ledger: Option<Books>,
    pub(super) locks: Locks,
    pub(super) now: u64,
    end_ns: u64,
    pub(super) quantum_ns: Option<u64>,
    preempt: bool,
    late: Span,
    rng: ChaCha8Rng,
    events: Vec<Event>,
    due: BinaryHeap<Reverse<(u64, Due)>>,
    pub(super) classes: Vec<Class>,
    pub(super) threads: Vec<Thread>,
    pub(super) names: Vec<String>,
    pub(super) servers: Vec<Option<Service>>,
    /// Whose quantum ended there at this moment and who wants another, by server.
    ended: Vec<Option<usize>>,
    /// The domain of each server.
    pub(super) domain: Vec<usize>,
    /// Waiting threads by domain and leaf: key when they began to wait, thread; in that order.
    pub(super) queue: Queues<E::Key>,
    /// How many threads wait, by domain.
    pub(super) queued: Vec<usize>,
    tokens: u64,
    runnable: Vec<Stay>,
    waiting: Vec<Stay>,
    pub(super) sim: Simulation,
}

pub(super) fn refused(
    at_ns: u64,
    what: impl Into<String>,
) -> impl FnOnce(crate::Error) -> SimError {
    let what = what.into();
    move |source| SimError::Refused {
        at_ns,
        what,
        source,
    }
}

const NEVER: u64 = u64::MAX;

impl<E: Servers> Machine<E> {
    pub fn new(workload: &Workload, engine: E) -> Result<Machine<E>, SimError> {
        let root = Class {
            path: "/".into(),
            id: Some(NodeId::ROOT),
            parent: None,
            policy: None,
            suspended: false,
            unchanged: true,
        };
        let trace = Trace {
            servers: workload.servers,
            end_ns: workload.duration.0,
            fresh: true,
            nodes: vec![Node {
                name: "/".into(),
                parent: None,
                weights: vec![(0, 100)],
            }],
            ..Trace::default()
        };
        let mut machine = Machine {
            engines: (1..workload.domains).map(|_| engine.another()).collect(),
            locks: Locks::new(workload.lock, workload.domains as usize),
            ledger: (workload.domains > 1).then(|| Books::new(workload)),
            now: 0,
            end_ns: workload.duration.0,
            quantum_ns: workload.quantum.map(|q| q.0),
            preempt: workload.preempt.unwrap_or(workload.quantum.is_none()),
            late: workload.late.unwrap_or(Span::fixed(0)),
            rng: ChaCha8Rng::seed_from_u64(workload.seed),
            events: workload.events.clone(),
            due: BinaryHeap::new(),
            classes: vec![root],
            threads: Vec::new(),
            names: Vec::new(),
            servers: (0..workload.servers).map(|_| None).collect(),
            ended: vec![None; workload.servers as usize],
            domain: (0..workload.servers as usize)
                .map(|server| domain_of(workload, server))
                .collect(),
            queue: HashMap::new(),
            queued: vec![0; workload.domains as usize],
            tokens: 0,
            runnable: Vec::new(),
            waiting: Vec::new(),
            sim: Simulation {
                trace,
                classes: Vec::new(),
                threads: Vec::new(),
                misses: Vec::new(),
                records: Vec::new(),
                domains: workload.domains,
                locks: LockTimes::default(),
                moved: 0,
                stolen: 0,
            },
        };
        machine.engines.insert(0, engine);
        for (domain, engine) in machine.engines.iter_mut().enumerate() {
            engine.set_servers(servers_of(workload, domain));
        }
        for c in &workload.classes {
            machine.create(&c.path, c.weight, c.leaf)?;
        }
        for (i, spec) in workload.threads.iter().enumerate() {
            for copy in 0..spec.count {
                let seed = workload.seed ^ ((i as u64) << 32) ^ u64::from(copy);
                machine.add_thread(spec, copy, seed)?;
            }
        }
        if machine.ledger.is_some() {
            machine.settle_at(0);
        }
        for (event, e) in machine.events.iter().enumerate() {
            machine
                .due
                .push(Reverse((e.at().0, Due::Happens { event })));
        }
        Ok(machine)
    }

    pub(super) fn class(&self, path: &str) -> Result<usize, SimError> {
        let found = self
            .classes
            .iter()
            .position(|c| c.id.is_some() && c.path == path);
        found.ok_or_else(|| {
            SimError::Invalid(format!("class '{path}' does not exist at {} ns", self.now))
        })
    }

    pub(super) fn thread(&self, name: &str) -> Result<usize, SimError> {
        let found = self.names.iter().position(|n| n == name);
        found.ok_or_else(|| SimError::Invalid(format!("thread '{name}' does not exist")))
    }

    pub(super) fn create(
        &mut self,
        path: &str,
        weight: u32,
        leaf: Option<Policy>,
    ) -> Result<(), SimError> {
        let path = path.trim_end_matches('/');
        let Some((parent, name)) = path.rsplit_once('/').filter(|(_, name)| !name.is_empty())
        else {
            return Err(SimError::Invalid(format!(
                "class path '{path}' has no name"
            )));
        };
        if self.class(path).is_ok() {
            return Err(SimError::Invalid(format!(
                "class '{path}' ('{name}') exists twice"
            )));
        }
        let parent = self.class(if parent.is_empty() { "/" } else { parent })?;
        let parent_id = self.classes[parent].id.expect("class() finds what exists");
        let what = || format!("creating class {path}");
        // Trees of domains are flat: the ledger knows what is below what.
        let below = match self.ledger {
            None => parent_id,
            Some(_) => NodeId::ROOT,
        };
        let id = self
            .each(|engine| engine.mknod(below, weight, leaf.is_some()))
            .map_err(refused(self.now, what()))?;
        if let Some(policy) = leaf {
            self.each(|engine| engine.set_policy(id, policy))
                .map_err(refused(self.now, what()))?;
        }
        if let Some(books) = &mut self.ledger {
            let known = books.ledger.mknod(id, parent_id, weight, leaf.is_some());
            known.map_err(refused(self.now, what()))?;
        }
        self.classes.push(Class {
            path: path.into(),
            id: Some(id),
            parent: Some(parent),
            policy: leaf,
            suspended: false,
            unchanged: true,
        });
        let weights = vec![(self.now, weight)];
        let node = Node {
            name: path.into(),
            parent: Some(parent),
            weights,
        };
        self.sim.trace.nodes.push(node);
        Ok(())
    }

    fn add_thread(&mut self, spec: &ThreadSpec, copy: u32, seed: u64) -> Result<(), SimError> {
        let class = self.class(&spec.class)?;
        let name = match &spec.name {
            Some(name) if spec.count == 1 => name.clone(),
            Some(name) => format!("{name}-{copy}"),
            None => format!("{}-{}", spec.class, self.names.len()),
        };
        if self.names.contains(&name) {
            return Err(SimError::Invalid(format!("thread '{name}' exists twice")));
        }
        let leaf = self.classes[class].id.expect("class() finds what exists");
        let id = self
            .each(|engine| engine.spawn(leaf, spec.weight))
            .map_err(refused(self.now, format!("starting thread {name}")))?;
        let what = format!("thread {name}");
        let svr4 = spec.priority.map_or(crate::Class::Ts, |p| p.0);
        self.each(|engine| engine.reserve(id, spec.reserve))
            .and_then(|()| self.each(|engine| engine.set_class(id, svr4)))
            .map_err(refused(self.now, what))?;
        let index = self.threads.len();
        self.names.push(name);
        self.threads.push(Thread {
            id,
            class,
            state: State::Asleep,
            spec: spec.clone(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            left_ns: NEVER,
            work_ns: spec.work.map_or(NEVER, |w| w.0),
            phase: 0,
            release_ns: spec.start.0,
            willing: false,
            suspended: false,
            token: 0,
            runnable_since: 0,
            waiting_since: 0,
            weights: vec![(0, spec.weight)],
            server: index % self.servers.len(),
            domain: self.domain[index % self.servers.len()],
        });
        self.due.push(Reverse((
            spec.start.0,
            Due::Wakes {
                thread: index,
                token: 0,
            },
        )));
        Ok(())
    }

    pub(super) fn settle_at(&mut self, t: u64) {
        self.due.push(Reverse((t, Due::Ledger)));
    }

    pub fn run(mut self) -> Result<Simulation, SimError> {
        loop {
            let next = self.due.peek().map(|&Reverse(next)| next);
            // Everything of one moment happens before anybody is chosen.
            if next.is_none_or(|(t, _)| t > self.now) && self.fill()? {
                continue;
            }
            let Some((t, due)) = next.filter(|&(t, _)| t < self.end_ns) else {
                break;
            };
            self.due.pop();
            self.now = t;
            for engine in &mut self.engines {
                engine.advance(t);
            }
            self.happen(due)?;
        }
        self.finish()
    }

    fn happen(&mut self, due: Due) -> Result<(), SimError> {
        match due {
            Due::ServiceEnds { server, token } => {
                if self.servers[server]
                    .as_ref()
                    .is_some_and(|s| s.token == token)
                {
                    self.engines[self.domain[server]].timer(server);
                    self.end_service(server, None)?;
                }
            }
            Due::Wakes { thread, token } => {
                let th = &mut self.threads[thread];
                if th.token == token && th.state != State::Gone {
                    th.willing = true;
                    self.next_run(thread);
                    self.arrive(thread)?;
                }
            }
            Due::Ledger => self.settle()?,
            Due::Happens { event } => {
                let event = self.events[event].clone();
                self.apply(&event)?;
            }
        }
        Ok(())
    }

    fn draw(&mut self, thread: usize, span: Span) -> u64 {
        self.threads[thread]
            .rng
            .random_range(span.least.0..=span.most.0)
    }

    /// The thread begins a burst: how much service until it blocks?
    fn next_run(&mut self, thread: usize) {
        let th = &self.threads[thread];
        let left_ns = match (&th.spec.phases, th.spec.run) {
            (Some(phases), _) => phases[th.phase].0,
            (None, Some(span)) => self.draw(thread, span),
            (None, None) => NEVER,
        };
        let th = &mut self.threads[thread];
        th.left_ns = left_ns.min(th.work_ns);
        if let Some(every) = th.spec.every {
            th.release_ns += every.0;
        }
    }

    /// The thread's burst is over: when does the next begin? `None`: it exits.
    fn next_wake(&mut self, thread: usize) -> Option<u64> {
        let th = &mut self.threads[thread];
        if th.work_ns == 0 {
            return None;
        }
        if let Some(phases) = &th.spec.phases {
            let sleep = phases.get(th.phase + 1)?.0;
            th.phase += 2;
            return (th.phase < phases.len()).then_some(self.now + sleep);
        }
        if th.spec.every.is_some() {
            return Some(th.release_ns.max(self.now));
        }
        let span = th.spec.sleep.unwrap_or(Span::fixed(0));
        Some(self.now + self.draw(thread, span))
    }

    fn record(&mut self, change: Change, thread: usize) -> Result<(), SimError> {
        let class = self.threads[thread].class;
        let start_tag = self.start_tag(thread);
        self.sim.records.push(Record {
            change,
            start_ns: self.now,
            end_ns: self.now,
            server: None,
            class,
            thread,
            start_tag,
        });
        Ok(())
    }

    pub(super) fn leaf(&self, class: usize) -> NodeId {
        self.classes[class].id.expect("a class with threads exists")
    }

    fn start_tag(&self, thread: usize) -> u64 {
        let th = &self.threads[thread];
        let engine = &self.engines[th.domain];
        engine.start_tag(self.leaf(th.class)).unwrap_or(0)
    }

    pub(super) fn suspended(&self, thread: usize) -> bool {
        let th = &self.threads[thread];
        let mut class = Some(th.class);
        let mut suspended = th.suspended;
        while let Some(c) = class {
            suspended |= self.classes[c].suspended;
            class = self.classes[c].parent;
        }
        suspended
    }

    /// The thread, willing, becomes runnable unless it is suspended.
    pub(super) fn arrive(&mut self, thread: usize) -> Result<(), SimError> {
        let th = &self.threads[thread];
        if th.state != State::Asleep || !th.willing || self.suspended(thread) {
            return Ok(());
        }
        let id = th.id;
        let failed = |m: &Self| refused(m.now, format!("waking thread {}", m.names[thread]));
        let domain = self.threads[thread].domain;
        self.locks.take(domain, self.now, 1);
        self.engines[domain].arrive(id).map_err(failed(self))?;
        self.arrived(thread);
        self.threads[thread].runnable_since = self.now;
        self.record(Change::Wake, thread)?;
        self.wait(thread)?;
        self.interrupt(thread)
    }

    pub(super) fn wait(&mut self, thread: usize) -> Result<(), SimError> {
        let id = self.threads[thread].id;
        let what = format!("queueing thread {}", self.names[thread]);
        let engine = &mut self.engines[self.threads[thread].domain];
        engine.wait(id).map_err(refused(self.now, what))?;
        self.enqueue(thread);
        Ok(())
    }

    /// The thread, which waits, is put into its queue.
    fn enqueue(&mut self, thread: usize) {
        let th = &self.threads[thread];
        let key = self.engines[th.domain].key(th.id);
        let place = (th.domain, self.leaf(th.class));
        self.queued[place.0] += 1;
        self.queue.entry(place).or_default().push((key, thread));
        self.threads[thread].state = State::Waiting;
        self.threads[thread].waiting_since = self.now;
    }

    pub(super) fn unwait(&mut self, thread: usize) -> Result<(), SimError> {
        let what = format!("taking thread {} from its queue", self.names[thread]);
        let th = &self.threads[thread];
        let taken = self.engines[th.domain].unwait(th.id);
        taken.map_err(refused(self.now, what))?;
        self.unqueue(thread);
        Ok(())
    }

    fn unqueue(&mut self, thread: usize) {
        let th = &self.threads[thread];
        let place = (th.domain, self.leaf(th.class));
        self.queued[place.0] -= 1;
        let queue = self.queue.get_mut(&place).expect("it waits there");
        queue.retain(|q| q.1 != thread);
        self.waiting
            .extend(self.stay(thread, self.threads[thread].waiting_since));
    }

    /// A thread woke. If the quantum in service where it waits does not end for it at once, one
    /// elsewhere may, and else that one may end sooner.
    pub(super) fn interrupt(&mut self, waiting: usize) -> Result<(), SimError> {
        let servers = self.servers.len();
        let (own, domain) = (self.threads[waiting].server, self.threads[waiting].domain);
        let near = (0..servers).map(|i| (own + i) % servers);
        let mut may: Vec<usize> = near.filter(|&server| self.may(waiting, server)).collect();
        if !self.preempt || may.iter().any(|&server| self.servers[server].is_none()) {
            return Ok(());
        }
        may.retain(|&server| self.domain[server] == domain);
        let Some((&own, others)) = may.split_first() else {
            return Ok(());
        };
        if self.quantum_ns.is_some() {
            return self.interrupt_fixed(waiting, &may);
        }
        let id = self.threads[waiting].id;
        let failed = || refused(self.now, "comparing threads");
        let engine = &mut self.engines[domain];
        let contest = engine.contest(own, id).map_err(failed())?;
        if contest.over {
            self.end_at(own, self.now);
            return Ok(());
        }
        for &server in others.iter().take(tunables().others as usize) {
            if engine.ends_elsewhere(server, id).map_err(failed())? {
                self.end_at(server, self.now);
                return Ok(());
            }
        }
        let s = self.servers[own].as_ref().expect("no server is idle");
        if contest.sooner && contest.due_ns < s.due_ns {
            engine.cut(own, contest.due_ns);
            self.end_at(own, contest.due_ns);
        }
        Ok(())
    }

    /// Likewise, where quanta are of a fixed length: whoever comes first is served at once.
    fn interrupt_fixed(&mut self, waiting: usize, may: &[usize]) -> Result<(), SimError> {
        let id = self.threads[waiting].id;
        let engine = &mut self.engines[self.threads[waiting].domain];
        for (i, &server) in may.iter().enumerate() {
            let s = self.servers[server].as_ref().expect("no server is idle");
            let (running, ran_ns) = (self.threads[s.thread].id, self.now - s.since_ns);
            let overtakes = engine.overtakes(id, running, ran_ns);
            if !overtakes.map_err(refused(self.now, "comparing threads"))? || s.due_ns <= self.now {
                continue;
            }
            if i > 0 {
                engine.give_way(server);
            }
            self.end_at(server, self.now);
            break;
        }
        Ok(())
    }

    fn plan_end(&mut self, server: usize) {
        let late_ns = match self.late {
            late if late.most.0 == 0 => 0,
            late => self.rng.random_range(late.least.0..=late.most.0),
        };
        let s = self.servers[server]
            .as_ref()
            .expect("a service is planned while it lasts");
        let blocks = s.since_ns.saturating_add(self.threads[s.thread].left_ns);
        let token = s.token;
        self.due.push(Reverse((
            (s.due_ns + late_ns).min(blocks),
            Due::ServiceEnds { server, token },
        )));
    }

    /// Gives every idle server somebody who waits; returns whether it gave any.
    fn fill(&mut self) -> Result<bool, SimError> {
        let mut any = false;
        for server in 0..self.servers.len() {
            if self.servers[server].is_some() {
                continue;
            }
            let before = self.ended[server].take();
            let domain = self.domain[server];
            let gives_way = self.engines[domain].gives_way(server);
            let before = before.filter(|&thread| self.threads[thread].domain == domain);
            let Some(chosen) = self.choose(server, domain, before, gives_way)? else {
                continue;
            };
            any = true;
            let thread = match before {
                Some(before) if !gives_way && self.takes_over(server, before, chosen)? => before,
                _ => chosen,
            };
            let id = self.threads[thread].id;
            self.locks.take(domain, self.now, 1);
            self.unqueue(thread);
            let quantum_ns = self.engines[domain].begin(server, id, self.quantum_ns);
            let quantum_ns =
                quantum_ns.map_err(refused(self.now, "taking a thread into service"))?;
            self.tokens += 1;
            self.threads[thread].state = State::Served { server };
            self.threads[thread].server = server;
            self.servers[server] = Some(Service {
                thread,
                since_ns: self.now,
                due_ns: self.now.saturating_add(quantum_ns),
                preempted: false,
                start_tag: self.start_tag(thread),
                token: self.tokens,
            });
            self.plan_end(server);
        }
        Ok(any || self.steal()?)
    }

    /// The quantum of thread `before` is over, and its server has chosen another. Does `before` go
    /// on? Where a server serves one of the same class that `before` outranks, that one's quantum
    /// ends instead.
    fn takes_over(&mut self, on: usize, before: usize, chosen: usize) -> Result<bool, SimError> {
        if self.threads[before].state != State::Waiting || before == chosen {
            return Ok(false);
        }
        let (id, leaf) = (self.threads[before].id, self.threads[chosen].class);
        let leaf = self.leaf(leaf);
        // A turn is one of core/cpu/quantum.h.
        let turns = self.quantum_ns.is_none();
        let own = self.leaf(self.threads[before].class);
        if turns && self.first(self.domain[on], own, on) == Some(before) {
            let goes_on = self.engines[self.domain[on]].goes_on(id, leaf);
            if goes_on.map_err(refused(self.now, "comparing classes"))? {
                return Ok(true);
            }
        }
        let servers = self.servers.len();
        let others = (1..servers).map(|i| (on + i) % servers);
        let domain: Vec<usize> = others
            .filter(|&i| self.domain[i] == self.domain[on])
            .collect();
        for server in domain.into_iter().take(tunables().others as usize) {
            let Some(s) = &self.servers[server] else {
                continue;
            };
            if s.since_ns == self.now || s.due_ns <= self.now {
                continue;
            }
            let outranks = self.engines[self.domain[on]].outranks_on(server, id, leaf);
            if outranks.map_err(refused(self.now, "comparing threads"))? {
                self.end_at(server, self.now);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn end_at(&mut self, server: usize, due_ns: u64) {
        self.tokens += 1;
        let s = self.servers[server]
            .as_mut()
            .expect("its service is in progress");
        (s.due_ns, s.token, s.preempted) = (due_ns, self.tokens, true);
        self.plan_end(server);
    }

    /// The service ends: charges it. `stopped`: the thread is not to go on.
    fn end_service(&mut self, server: usize, stopped: Option<Change>) -> Result<(), SimError> {
        let s = self.servers[server]
            .take()
            .expect("only a service in progress ends");
        let (thread, ran_ns) = (s.thread, self.now - s.since_ns);
        self.locks.take(self.domain[server], self.now, 1);
        let th = &mut self.threads[thread];
        th.left_ns = th
            .left_ns
            .saturating_sub(if th.left_ns == NEVER { 0 } else { ran_ns });
        th.work_ns = th
            .work_ns
            .saturating_sub(if th.work_ns == NEVER { 0 } else { ran_ns });
        let blocks = th.left_ns == 0;
        let change = match stopped {
            Some(change) => change,
            None if blocks => Change::Blocked,
            None if s.preempted => Change::Preempted,
            None => Change::Expired,
        };
        if let Some(books) = &mut self.ledger {
            books.served(self.domain[server], self.threads[thread].class, ran_ns);
        }
        if ran_ns > 0 {
            self.serviced(&s, server, change);
        }
        let next = if blocks {
            self.next_wake(thread)
        } else {
            Some(self.now)
        };
        if blocks && next == Some(self.now) {
            self.next_run(thread); // the next burst begins without a pause
        }
        let asks = stopped.is_none() && next == Some(self.now);
        let ended = self.engines[self.domain[server]].end(server, ran_ns, !asks);
        let what = || format!("ending service of {}", self.names[thread]);
        ended.map_err(refused(self.now, what()))?;
        if asks {
            self.ended[server] = Some(thread);
            self.enqueue(thread);
            return Ok(());
        }
        self.asleep(thread);
        match next {
            None => self.exit(thread),
            Some(t) if t > self.now => {
                self.sleep_until(thread, t);
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }

    fn sleep_until(&mut self, thread: usize, t: u64) {
        self.tokens += 1;
        self.threads[thread].token = self.tokens;
        self.threads[thread].willing = false;
        self.due.push(Reverse((
            t,
            Due::Wakes {
                thread,
                token: self.tokens,
            },
        )));
    }

    fn serviced(&mut self, s: &Service, server: usize, change: Change) {
        self.sim.records.push(Record {
            change,
            start_ns: s.since_ns,
            end_ns: self.now,
            server: Some(server as u32),
            class: self.threads[s.thread].class,
            thread: s.thread,
            start_tag: s.start_tag,
        });
    }

    /// The thread is no longer runnable.
    fn asleep(&mut self, thread: usize) {
        self.departed(thread);
        self.threads[thread].state = State::Asleep;
        let stay = self.stay(thread, self.threads[thread].runnable_since);
        self.runnable.extend(stay);
    }

    /// From then until now, if that is any time.
    fn stay(&self, thread: usize, start_ns: u64) -> Option<Stay> {
        let class = self.threads[thread].class;
        let stay = Stay {
            thread,
            class,
            start_ns,
            end_ns: self.now,
        };
        (start_ns < self.now).then_some(stay)
    }

    pub(super) fn exit(&mut self, thread: usize) -> Result<(), SimError> {
        let what = format!("exit of thread {}", self.names[thread]);
        let id = self.threads[thread].id;
        self.each(|engine| engine.leave(id))
            .map_err(refused(self.now, what))?;
        self.threads[thread].state = State::Gone;
        self.threads[thread].willing = false;
        Ok(())
    }

    /// The thread stops being runnable, wherever it is.
    pub(super) fn stop(&mut self, thread: usize) -> Result<(), SimError> {
        match self.threads[thread].state {
            State::Asleep | State::Gone => Ok(()),
            State::Served { server } => self.end_service(server, Some(Change::Stopped)),
            State::Waiting => {
                self.unwait(thread)?;
                let what = format!("stopping thread {}", self.names[thread]);
                let th = &self.threads[thread];
                self.engines[th.domain]
                    .depart(th.id)
                    .map_err(refused(self.now, what))?;
                self.record(Change::Leave, thread)?;
                self.asleep(thread);
                Ok(())
            }
        }
    }

    /// Time is up: closes what is open and attributes it to nodes of the trace.
    fn finish(mut self) -> Result<Simulation, SimError> {
        self.now = self.end_ns;
        for server in 0..self.servers.len() {
            if let Some(s) = self.servers[server].take() {
                if s.since_ns < self.now {
                    self.serviced(&s, server, Change::Stopped);
                }
            }
        }
        for thread in 0..self.threads.len() {
            let th = &self.threads[thread];
            let runnable = self.stay(thread, th.runnable_since);
            let waiting = self.stay(thread, th.waiting_since);
            if !matches!(th.state, State::Asleep | State::Gone) {
                self.runnable.extend(runnable);
            }
            if th.state == State::Waiting {
                self.waiting.extend(waiting);
            }
        }
        self.sim.classes = self.classes.iter().map(|c| c.path.clone()).collect();
        self.sim.misses = self
            .threads
            .iter()
            .map(|t| self.engines.iter().map(|e| e.misses(t.id)).sum())
            .collect();
        self.sim.locks = self.locks.times;
        self.sim.threads = std::mem::take(&mut self.names);
        let own_node = self.thread_nodes();
        let node = |thread: usize, class: usize| own_node[thread].unwrap_or(class);
        let interval = |s: &Stay| Interval {
            node: node(s.thread, s.class),
            start_ns: s.start_ns,
            end_ns: s.end_ns,
        };
        let trace = &mut self.sim.trace;
        trace.runnable = self.runnable.iter().map(interval).collect();
        trace.waiting = self.waiting.iter().map(interval).collect();
        for r in self.sim.records.iter().filter(|r| r.change.is_service()) {
            trace.quanta.push(Quantum {
                node: node(r.thread, r.class),
                server: r.server.unwrap_or(0),
                start_ns: r.start_ns,
                end_ns: r.end_ns,
                served_ns: r.end_ns - r.start_ns,
            });
        }
        Ok(self.sim)
    }

    /// Where SFQ scheduled a leaf's threads all the time, they are nodes that
    /// the bounds apply to: gives each its node, by thread.
    fn thread_nodes(&mut self) -> Vec<Option<usize>> {
        let mut own_node = vec![None; self.threads.len()];
        for (t, th) in self.threads.iter().enumerate() {
            let class = &self.classes[th.class];
            if class.policy == Some(Policy::Sfq) && class.unchanged {
                own_node[t] = Some(self.sim.trace.nodes.len());
                self.sim.trace.nodes.push(Node {
                    name: format!("{}:{}", class.path, self.sim.threads[t]),
                    parent: Some(th.class),
                    weights: th.weights.clone(),
                });
            }
        }
        own_node
    }
}
