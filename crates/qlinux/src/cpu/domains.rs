// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which processors form a domain, with a tree and a lock of its own (kernel/cpu/domains.h).

use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Most domains: `DOMAINS_MAX`.
const DOMAINS_MAX: usize = 64;
/// Most processors: `CPUS_MAX`.
pub const CPUS_MAX: usize = 8192;
/// So many processors of a domain wait little for its lock. Fewer than that need no second one: one
/// tree divides exactly at any moment, several in the long run.
const TOGETHER: usize = 16;
/// A last-level cache of fewer processors is no domain of its own.
const FEW: usize = 4;

/// Where sysfs tells of processors.
pub(super) const CPUS: &str = "/sys/devices/system/cpu";

/// Processors by domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domains(Vec<Vec<usize>>);

impl Domains {
    /// Those of this machine, which can have so many processors; or as many as are `wanted`.
    ///
    /// # Errors
    /// More are wanted than there are processors, or can be.
    pub fn of_here(possible: usize, wanted: Option<u32>) -> Result<Domains> {
        let present = present(Path::new(CPUS), possible);
        let domains = match wanted {
            None => by_cache(&caches(Path::new(CPUS), &present)),
            Some(n) => {
                let n = n as usize;
                let most = present.len().min(DOMAINS_MAX);
                if !(1..=most).contains(&n) {
                    return Err(Error::Usage(format!(
                        "{n} domains of {} processors: give 1 to {most}",
                        present.len()
                    )));
                }
                even(&present, n)
            }
        };
        Ok(Domains(with_absent(domains, possible)))
    }

    /// All in one.
    pub fn one(possible: usize) -> Domains {
        Domains(vec![(0..possible).collect()])
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// `cpu_domain`: the domain of each processor.
    pub fn of_each(&self) -> Vec<u8> {
        let mut of = vec![0; self.0.iter().map(Vec::len).sum()];
        for (domain, cpus) in self.0.iter().enumerate() {
            for &cpu in cpus {
                of[cpu] = domain as u8;
            }
        }
        of
    }

    /// `cpu_after`: the next processor of the same domain, the first after the last.
    pub fn after_each(&self) -> Vec<u16> {
        let mut after = vec![0; self.0.iter().map(Vec::len).sum()];
        for cpus in &self.0 {
            for (i, &cpu) in cpus.iter().enumerate() {
                after[cpu] = cpus[(i + 1) % cpus.len()] as u16;
            }
        }
        after
    }

    /// `domain_cpu`: the first processor of each domain.
    pub fn first(&self) -> Vec<u16> {
        self.0.iter().map(|cpus| cpus[0] as u16).collect()
    }
}

/// The processors of such a list as `0-3,8`.
pub(super) fn parse(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= CPUS_MAX || first > last {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Processors that are there, online or not. A kernel that does not tell has all that it can have.
fn present(folder: &Path, possible: usize) -> Vec<usize> {
    let told = std::fs::read_to_string(folder.join("present")).ok();
    let mut cpus = told.and_then(|list| parse(&list)).unwrap_or_default();
    cpus.retain(|&cpu| cpu < possible);
    match cpus.is_empty() {
        true => (0..possible).collect(),
        false => cpus,
    }
}

/// The processors of each last-level cache. Of one that is offline nothing is known: it is taken to
/// be with the one before it.
fn caches(folder: &Path, present: &[usize]) -> Vec<Vec<usize>> {
    let mut caches: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut last = present[0];
    for &cpu in present {
        let shared = (0..8).rev().find_map(|index| {
            let file = format!("cpu{cpu}/cache/index{index}/shared_cpu_list");
            parse(&std::fs::read_to_string(folder.join(file)).ok()?)
        });
        last = shared
            .and_then(|cpus| cpus.first().copied())
            .unwrap_or(last);
        caches.entry(last).or_default().push(cpu);
    }
    caches.into_values().collect()
}

/// In so many parts, as equal as can be.
fn even(cpus: &[usize], parts: usize) -> Vec<Vec<usize>> {
    (0..parts)
        .map(|i| cpus[i * cpus.len() / parts..(i + 1) * cpus.len() / parts].to_vec())
        .collect()
}

/// Few processors are one domain. Otherwise those of a cache are one, or several where they are many;
/// those of small caches are together.
fn by_cache(caches: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let all: usize = caches.iter().map(Vec::len).sum();
    // With more processors than DOMAINS_MAX domains take, these are larger.
    let most = TOGETHER.max(all.div_ceil(DOMAINS_MAX / 2));
    if all <= most {
        return vec![caches.concat()];
    }
    let (small, large): (Vec<_>, Vec<_>) = caches.iter().partition(|cpus| cpus.len() < FEW);
    let small: Vec<usize> = small.into_iter().flatten().copied().collect();
    let mut domains: Vec<Vec<usize>> = large
        .into_iter()
        .flat_map(|cpus| even(cpus, cpus.len().div_ceil(most)))
        .collect();
    if !small.is_empty() {
        domains.extend(even(&small, small.len().div_ceil(most)));
    }
    if domains.len() > DOMAINS_MAX {
        domains = even(&caches.concat(), DOMAINS_MAX);
    }
    domains
}

/// Processors that are not there may come: each is with the one before it.
fn with_absent(mut domains: Vec<Vec<usize>>, possible: usize) -> Vec<Vec<usize>> {
    let mut of = vec![None; possible];
    for (domain, cpus) in domains.iter().enumerate() {
        for &cpu in cpus {
            of[cpu] = Some(domain);
        }
    }
    let mut last = 0;
    for (cpu, domain) in of.into_iter().enumerate() {
        match domain {
            Some(domain) => last = domain,
            None => domains[last].push(cpu),
        }
    }
    domains
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: usize, count: usize) -> Vec<usize> {
        (from..from + count).collect()
    }

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(parse("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse("7"), Some(vec![7]));
        assert_eq!(parse(""), Some(vec![]));
        for wrong in ["x", "3-1", "0-9999999", "-"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_small_machine_is_one_domain() {
        assert_eq!(by_cache(&[range(0, 8), range(8, 8)]), [range(0, 16)]);
        assert_eq!(by_cache(&[vec![0]]), [vec![0]]);
    }

    #[test]
    fn a_cache_is_a_domain_and_a_large_one_is_several() {
        assert_eq!(
            by_cache(&[range(0, 8), range(8, 8), range(16, 8)]),
            [range(0, 8), range(8, 8), range(16, 8)]
        );
        assert_eq!(
            by_cache(&[range(0, 24), range(24, 24)]),
            [range(0, 12), range(12, 12), range(24, 12), range(36, 12)]
        );
        // Hyperthreads are numbered far from each other.
        let cache = |first: usize| [range(first, 4), range(first + 12, 4)].concat();
        let caches = [cache(0), cache(4), cache(8)];
        assert_eq!(by_cache(&caches), caches);
    }

    #[test]
    fn small_caches_are_together() {
        let caches: Vec<_> = (0..32).map(|cpu| vec![cpu]).collect();
        assert_eq!(by_cache(&caches), [range(0, 16), range(16, 16)]);
    }

    #[test]
    fn there_are_never_too_many() {
        for cpus in [1, 3, 16, 17, 100, 640, 1024, 2048, CPUS_MAX] {
            for size in [1, 2, 4, 5, 16, 100] {
                let caches: Vec<_> = range(0, cpus).chunks(size).map(<[_]>::to_vec).collect();
                let domains = by_cache(&caches);
                assert!(domains.len() <= DOMAINS_MAX, "{cpus} by {size}");
                let mut all = domains.concat();
                all.sort_unstable();
                assert_eq!(all, range(0, cpus), "{cpus} by {size}");
                assert!(domains.iter().all(|d| !d.is_empty()), "{cpus} by {size}");
            }
        }
    }

    #[test]
    fn who_comes_later_has_a_domain() {
        let domains = Domains(with_absent(vec![vec![0, 2], vec![1, 3]], 6));
        assert_eq!(domains.0, [vec![0, 2], vec![1, 3, 4, 5]]);
        assert_eq!(domains.of_each(), [0, 1, 0, 1, 1, 1]);
        assert_eq!(domains.after_each(), [2, 3, 0, 4, 5, 1]);
        assert_eq!(domains.first(), [0, 1]);
    }
}
