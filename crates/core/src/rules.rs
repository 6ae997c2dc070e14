// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which queue a packet goes to, by its headers (core/link/rules.h).

use crate::{Error, Result};

/// Rules of an interface.
pub const RULES_MAX: usize = 256;
/// Bytes of a packet that are looked at.
pub const HEADER: usize = 128;
/// Of a rule's protocol or DSCP: whatever it is.
pub const ANY: u16 = 0xffff;

/// What the rules look at. Addresses, ports and mark are in the order of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Key {
    /// Of the sender; IPv4: the first word only.
    pub from: [u32; 4],
    /// Of the receiver.
    pub to: [u32; 4],
    /// The firewall's.
    pub mark: u32,
    /// Port of the sender.
    pub sport: u16,
    /// Port of the receiver.
    pub dport: u16,
    /// 4, 6, or 0: neither.
    pub family: u8,
    /// 1: it has ports.
    pub has_ports: u8,
    /// Of IP.
    pub protocol: u8,
    /// Its class of service.
    pub dscp: u8,
}

impl Key {
    /// Of a packet that is neither IPv4 nor IPv6.
    pub fn other(mark: u32) -> Key {
        Key {
            mark,
            ..Key::default()
        }
    }

    /// Of a packet that calls itself IPv4, from its IP header on.
    pub fn ipv4(packet: &[u8], mark: u32) -> Key {
        let mut key = Key::other(mark);
        // SAFETY: C reads no more than `length` bytes.
        unsafe { c::qcore_rules_ipv4(packet.as_ptr(), length(packet), &mut key) }
        key
    }

    /// Of a packet that calls itself IPv6, from its IP header on.
    pub fn ipv6(packet: &[u8], mark: u32) -> Key {
        let mut key = Key::other(mark);
        // SAFETY: C reads no more than `length` bytes.
        unsafe { c::qcore_rules_ipv6(packet.as_ptr(), length(packet), &mut key) }
        key
    }
}

fn length(packet: &[u8]) -> u32 {
    packet.len().min(HEADER) as u32
}

/// Packets that match go to its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Rule {
    /// Address of the sender, as in [`Key`].
    pub from: [u32; 4],
    /// Its bits that count.
    pub from_mask: [u32; 4],
    /// Address of the receiver.
    pub to: [u32; 4],
    /// Its bits that count.
    pub to_mask: [u32; 4],
    /// The firewall's mark.
    pub mark: u32,
    /// Its bits that count.
    pub mark_mask: u32,
    /// Least port of the sender. 0 to 65535: whatever, and without ports too.
    pub sport_least: u16,
    /// Greatest port of the sender.
    pub sport_most: u16,
    /// Least port of the receiver.
    pub dport_least: u16,
    /// Greatest port of the receiver.
    pub dport_most: u16,
    /// Of IP, or [`ANY`].
    pub protocol: u16,
    /// Class of service, or [`ANY`].
    pub dscp: u16,
    /// 4, 6, or 0: either.
    pub family: u16,
    /// Its number.
    pub queue: u16,
}

impl Rule {
    /// Every packet goes to that queue.
    pub fn any(queue: u16) -> Rule {
        Rule {
            from: [0; 4],
            from_mask: [0; 4],
            to: [0; 4],
            to_mask: [0; 4],
            mark: 0,
            mark_mask: 0,
            sport_least: 0,
            sport_most: u16::MAX,
            dport_least: 0,
            dport_most: u16::MAX,
            protocol: ANY,
            dscp: ANY,
            family: 0,
            queue,
        }
    }
}

#[repr(C)]
struct RawRules {
    count: u32,
    pad: u32,
    rule: [Rule; RULES_MAX],
}

#[allow(clippy::missing_safety_doc)]
mod c {
    use super::{Key, RawRules, Rule};

    unsafe extern "C" {
        pub static qcore_rules_layout: [usize; 14];
        pub static qcore_rules_layout_len: usize;
        pub fn qcore_rules_ipv4(byte: *const u8, length: u32, key: *mut Key);
        pub fn qcore_rules_ipv6(byte: *const u8, length: u32, key: *mut Key);
        pub fn qcore_rules_find(rules: *const RawRules, key: *const Key) -> u32;
        pub fn qcore_rules_insert(rules: *mut RawRules, at: u32, r: *const Rule) -> i32;
        pub fn qcore_rules_remove(rules: *mut RawRules, at: u32) -> i32;
    }
}

/// C's idea of the structures, beside ours.
#[doc(hidden)]
pub fn layout() -> (Vec<usize>, Vec<usize>) {
    use std::mem::{offset_of, size_of};
    // SAFETY: constants.
    let (c, len) = unsafe { (c::qcore_rules_layout, c::qcore_rules_layout_len) };
    let ours = vec![
        size_of::<Key>(),
        offset_of!(Key, mark),
        offset_of!(Key, family),
        offset_of!(Key, dscp),
        size_of::<Rule>(),
        offset_of!(Rule, to_mask),
        offset_of!(Rule, mark_mask),
        offset_of!(Rule, dport_most),
        offset_of!(Rule, queue),
        size_of::<RawRules>(),
        offset_of!(RawRules, rule),
        RULES_MAX,
        HEADER,
        ANY.into(),
    ];
    (c[..len].to_vec(), ours)
}

/// The rules of an interface, in their order.
///
/// ```
/// use qlinux_core::rules::{Key, Rule, Rules};
///
/// let mut rules = Rules::default();
/// let marked = Rule { mark: 7, mark_mask: u32::MAX, ..Rule::any(2) };
/// rules.insert(0, &Rule::any(1))?;
/// rules.insert(0, &marked)?;
/// assert_eq!(rules.find(&Key::other(7)), Some(2));
/// assert_eq!(rules.find(&Key::other(8)), Some(1));
/// # Ok::<(), qlinux_core::Error>(())
/// ```
pub struct Rules(Box<RawRules>);

impl Default for Rules {
    /// None.
    fn default() -> Rules {
        Rules(Box::new(RawRules {
            count: 0,
            pad: 0,
            rule: [Rule::any(0); RULES_MAX],
        }))
    }
}

impl Rules {
    /// The queue that the first rule which matches names.
    pub fn find(&self, key: &Key) -> Option<u16> {
        // SAFETY: both are C's structures, and it only reads them.
        match unsafe { c::qcore_rules_find(&*self.0, key) } {
            0 => None,
            queue => Some(queue as u16),
        }
    }

    /// Its place is `at`, from 0, or the last.
    pub fn insert(&mut self, at: u32, rule: &Rule) -> Result<()> {
        // SAFETY: both are C's structures.
        match unsafe { c::qcore_rules_insert(&mut *self.0, at, rule) } {
            0 => Ok(()),
            -28 => Err(Error::RulesFull),
            _ => Err(Error::Rule),
        }
    }

    /// The rule at that place, from 0, goes.
    pub fn remove(&mut self, at: u32) -> Result<()> {
        // SAFETY: C checks its arguments.
        match unsafe { c::qcore_rules_remove(&mut *self.0, at) } {
            0 => Ok(()),
            _ => Err(Error::NoSuchRule(at)),
        }
    }

    /// All of them.
    pub fn as_slice(&self) -> &[Rule] {
        &self.0.rule[..self.0.count as usize]
    }
}
