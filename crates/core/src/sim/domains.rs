// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several domains of servers, each with a tree of its own, and the ledger over them.

use super::machine::{refused, Machine};
use super::{SimError, Workload};
use crate::ledger::{self, Ledger, Move, Seen};
use crate::sched::Servers;

/// Which domain the server is in: they are as large as can be, and differ by one at most.
pub(super) fn domain_of(workload: &Workload, server: usize) -> usize {
    server * workload.domains as usize / workload.servers as usize
}

/// How many servers the domain has.
pub(super) fn servers_of(workload: &Workload, domain: usize) -> u32 {
    let servers = 0..workload.servers as usize;
    servers
        .filter(|&server| domain_of(workload, server) == domain)
        .count() as u32
}

/// The ledger and what it reads.
pub(super) struct Books {
    pub(super) ledger: Ledger,
    /// Of the threads of each class, by domain. `runnable_ns` counts until time 0 for those
    /// that are runnable.
    seen: Vec<Vec<Seen>>,
    settled_ns: u64,
}

impl Books {
    pub(super) fn new(workload: &Workload) -> Books {
        let domains = 0..workload.domains as usize;
        let servers: Vec<u32> = domains.map(|domain| servers_of(workload, domain)).collect();
        Books {
            ledger: Ledger::new(&servers),
            seen: vec![Vec::new(); servers.len()],
            settled_ns: 0,
        }
    }

    fn of(&mut self, domain: usize, class: usize) -> &mut Seen {
        let seen = &mut self.seen[domain];
        if seen.len() <= class {
            seen.resize(class + 1, Seen::default());
        }
        &mut seen[class]
    }

    /// A thread of the class was served in the domain.
    pub(super) fn served(&mut self, domain: usize, class: usize, ran_ns: u64) {
        self.of(domain, class).served_ns += ran_ns;
    }

    /// A thread of the class, of this weight, became runnable in the domain.
    pub(super) fn arrived(&mut self, domain: usize, class: usize, weight: u32, now: u64) {
        let seen = self.of(domain, class);
        seen.runnable += 1;
        seen.weights += weight;
        seen.runnable_ns = seen.runnable_ns.wrapping_sub(now);
    }

    /// A thread of the class is not runnable there any more.
    pub(super) fn departed(&mut self, domain: usize, class: usize, weight: u32, now: u64) {
        let seen = self.of(domain, class);
        seen.runnable -= 1;
        seen.weights -= weight;
        seen.runnable_ns = seen.runnable_ns.wrapping_add(now);
    }
}

impl<E: Servers> Machine<E> {
    /// Asks all engines, which answer alike.
    pub(super) fn each<T>(
        &mut self,
        mut ask: impl FnMut(&mut E) -> crate::Result<T>,
    ) -> crate::Result<T> {
        let mut engines = self.engines.iter_mut();
        let answer = ask(engines.next().expect("there is a domain"))?;
        for engine in engines {
            ask(engine)?;
        }
        Ok(answer)
    }

    /// Gives a class another weight.
    pub(super) fn set_weight(&mut self, class: usize, weight: u32) -> crate::Result<()> {
        let id = self.leaf(class);
        match &mut self.ledger {
            Some(books) => books.ledger.set_weight(id, weight),
            None => self.engines[0].set_weight(id, weight),
        }
    }

    /// The waiting thread goes to another domain.
    fn migrate(&mut self, thread: usize, to: usize) -> Result<(), SimError> {
        let id = self.threads[thread].id;
        let failed = |m: &Self| refused(m.now, format!("moving {}", m.names[thread]));
        self.unwait(thread)?;
        let from = self.threads[thread].domain;
        self.locks.take(from, self.now, 1);
        self.locks.take(to, self.now, 1);
        let leaf = self.leaf(self.threads[thread].class);
        let ahead_ns = match &mut self.ledger {
            Some(books) => books.ledger.apart(leaf, from as u32, to as u32),
            None => Ok(0),
        };
        let ahead_ns = ahead_ns.map_err(failed(self))?;
        let packed = self.engines[from].pack(id).map_err(failed(self))?;
        self.departed(thread);
        self.threads[thread].domain = to;
        self.engines[to]
            .unpack(id, packed, true, ahead_ns)
            .map_err(failed(self))?;
        self.arrived(thread);
        self.wait(thread)
    }

    /// Servers that are idle take waiting threads of other domains. Returns whether any did:
    /// its own domain gives it the thread then.
    pub(super) fn steal(&mut self) -> Result<bool, SimError> {
        let domains = self.engines.len();
        if domains == 1 {
            return Ok(false);
        }
        let idle = (0..self.servers.len()).filter(|&server| self.servers[server].is_none());
        for server in idle.collect::<Vec<_>>() {
            let own = self.domain[server];
            for from in (1..domains).map(|i| (own + i) % domains) {
                let Some(thread) = self.choose(server, from, None, true)? else {
                    continue;
                };
                self.migrate(thread, own)?;
                self.sim.stolen += 1;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The ledger is drawn up: weights of all nodes in all domains, and threads that move.
    pub(super) fn settle(&mut self) -> Result<(), SimError> {
        let Some(mut books) = self.ledger.take() else {
            return Ok(());
        };
        self.see(&mut books)
            .map_err(refused(self.now, "drawing up the ledger"))?;
        books.ledger.settle(self.now - books.settled_ns);
        books.settled_ns = self.now;
        // It reads and weighs a leaf in a sixteenth of the time of a wake-up.
        let operations = (self.classes.len() / 16 + 1) as u64;
        for (domain, engine) in self.engines.iter_mut().enumerate() {
            self.locks.take(domain, self.now, operations);
            self.locks.take(domain, self.now, operations);
            let leaves = self.classes.iter().filter(|c| c.policy.is_some());
            for id in leaves.filter_map(|c| c.id) {
                let share = books.ledger.share(id, domain as u32);
                let weighed = share.and_then(|share| engine.weigh(id, share));
                weighed.map_err(refused(self.now, "weighing a class"))?;
            }
        }
        self.ledger = Some(books);
        while let Some(Move { leaf, from, to }) = self.next_move() {
            let (from, to) = (from as usize, to as usize);
            let server = self.domain.iter().position(|&d| d == to);
            let server = server.expect("a domain has servers");
            if let Some(thread) = self.first(from, leaf, server) {
                self.migrate(thread, to)?;
                self.threads[thread].server = server;
                self.sim.moved += 1;
                self.interrupt(thread)?;
            }
        }
        self.settle_at(self.now + ledger::PERIOD_NS);
        Ok(())
    }

    /// The books are told that the thread became runnable where it is.
    pub(super) fn arrived(&mut self, thread: usize) {
        let th = &self.threads[thread];
        if let Some(books) = &mut self.ledger {
            books.arrived(th.domain, th.class, th.weight(), self.now);
        }
    }

    /// And that it is not any more.
    pub(super) fn departed(&mut self, thread: usize) {
        let th = &self.threads[thread];
        if let Some(books) = &mut self.ledger {
            books.departed(th.domain, th.class, th.weight(), self.now);
        }
    }

    fn next_move(&mut self) -> Option<Move> {
        self.ledger
            .as_mut()
            .and_then(|books| books.ledger.next_move())
    }

    fn see(&self, books: &mut Books) -> crate::Result<()> {
        for (class, c) in self.classes.iter().enumerate() {
            let Some(id) = c.id.filter(|_| c.policy.is_some()) else {
                continue;
            };
            for domain in 0..self.engines.len() {
                let mut seen = *books.of(domain, class);
                let until_now = u64::from(seen.runnable) * self.now;
                seen.runnable_ns = seen.runnable_ns.wrapping_add(until_now);
                for s in self.servers.iter().flatten() {
                    let th = &self.threads[s.thread];
                    if (th.domain, th.class) == (domain, class) {
                        seen.served_ns += self.now - s.since_ns;
                    }
                }
                books.ledger.see(id, domain as u32, seen)?;
            }
        }
        Ok(())
    }
}
