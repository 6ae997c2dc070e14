// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that a library builds have the keys they were built with, and of any rules the
//! first that matches says where they go.

use etherparse::{
    IpAuthHeader, IpDscp, IpFragOffset, IpNumber, Ipv4Header, Ipv4HeaderSlice, Ipv4Options,
    Ipv6FragmentHeader, Ipv6Header, Ipv6HeaderSlice, Ipv6RawExtHeader, UdpHeader,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use qlinux_core::rules::{layout, Key, Rule, Rules, ANY, HEADER, RULES_MAX};
use qlinux_core::Error;
use qlinux_properties::cases;
use std::net::IpAddr;

#[test]
fn both_languages_agree_on_the_structures() {
    let (c, ours) = layout();
    assert_eq!(c, ours);
}

const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];
const EXTENSIONS: [u8; 5] = [0, 43, 44, 51, 60];
/// Extensions that are looked behind.
const EXTENSIONS_MAX: usize = 6;

fn words(bytes: &[u8]) -> [u32; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(4)) {
        *word = u32::from_be_bytes(bytes.try_into().unwrap());
    }
    words
}

// ---- packets, and what they are ---------------------------------------------

/// A header behind IP's own.
#[derive(Clone, Debug)]
enum Extension {
    /// Its number, and how many times eight bytes longer than the shortest.
    Raw(u8, u8),
    /// More fragments follow, and its place in units of eight bytes.
    Fragment(bool, u16),
    /// And how many times four bytes of a checksum.
    Auth(u8),
}

#[derive(Clone, Debug)]
struct Packet {
    six: bool,
    from: [u8; 16],
    to: [u8; 16],
    dscp: u8,
    ecn: u8,
    protocol: u8,
    ports: (u16, u16),
    payload: u8,
    /// IPv4: times four bytes of options, more fragments, place.
    options: u8,
    fragment: (bool, u16),
    extensions: Vec<Extension>,
    mark: u32,
}

fn place() -> impl Strategy<Value = u16> {
    prop_oneof![3 => Just(0u16), 1 => 1..8192u16]
}

fn extension() -> impl Strategy<Value = Extension> {
    prop_oneof![
        3 => (select(&[0u8, 43, 60][..]), 0..4u8).prop_map(|(n, more)| Extension::Raw(n, more)),
        1 => (any::<bool>(), place()).prop_map(|(more, at)| Extension::Fragment(more, at)),
        1 => (0..6u8).prop_map(Extension::Auth),
    ]
}

fn protocol() -> impl Strategy<Value = u8> {
    prop_oneof![
        3 => select(&WITH_PORTS[..]),
        1 => any::<u8>().prop_filter("extensions are made as such", |p| !EXTENSIONS.contains(p)),
    ]
}

prop_compose! {
    fn packet()(
        six: bool, from: [u8; 16], to: [u8; 16], dscp in 0..64u8, ecn in 0..4u8,
        protocol in protocol(), ports: (u16, u16), payload in 0..40u8,
        options in prop_oneof![1 => Just(0u8), 1 => 0..=10u8], more: bool, at in place(),
        extensions in prop_oneof![1 => Just(Vec::new()), 2 => vec(extension(), 0..9)], mark: u32,
    ) -> Packet {
        Packet { six, from, to, dscp, ecn, protocol, ports, payload, options, fragment: (more, at), extensions, mark }
    }
}

impl Packet {
    fn transport(&self) -> Vec<u8> {
        let (source_port, destination_port) = self.ports;
        let mut bytes = match WITH_PORTS.contains(&self.protocol) {
            // They all begin as UDP does.
            true => UdpHeader {
                source_port,
                destination_port,
                ..UdpHeader::default()
            }
            .to_bytes()
            .to_vec(),
            false => vec![0xa5; 8],
        };
        bytes.extend((0..self.payload).map(|i| i ^ 0x5a));
        bytes
    }

    fn ipv4(&self) -> Vec<u8> {
        let options = vec![1; usize::from(self.options) * 4];
        let header = Ipv4Header {
            dscp: IpDscp::try_new(self.dscp).unwrap(),
            ecn: self.ecn.try_into().unwrap(),
            protocol: IpNumber(self.protocol),
            source: self.from[..4].try_into().unwrap(),
            destination: self.to[..4].try_into().unwrap(),
            more_fragments: self.fragment.0,
            fragment_offset: IpFragOffset::try_new(self.fragment.1).unwrap(),
            options: Ipv4Options::try_from(&options[..]).unwrap(),
            ..Ipv4Header::default()
        };
        [&header.to_bytes()[..], &self.transport()].concat()
    }

    fn ipv6(&self) -> Vec<u8> {
        let mut next = IpNumber(self.protocol);
        let mut behind = Vec::new();
        for extension in self.extensions.iter().rev() {
            let (number, bytes) = extension.build(next);
            behind.insert(0, bytes);
            next = IpNumber(number);
        }
        let header = Ipv6Header {
            traffic_class: self.dscp << 2 | self.ecn,
            next_header: next,
            source: self.from,
            destination: self.to,
            ..Ipv6Header::default()
        };
        [&header.to_bytes()[..], &behind.concat(), &self.transport()].concat()
    }

    fn bytes(&self) -> Vec<u8> {
        match self.six {
            true => self.ipv6(),
            false => self.ipv4(),
        }
    }

    fn parsed(&self, bytes: &[u8]) -> Key {
        match self.six {
            true => Key::ipv6(bytes, self.mark),
            false => Key::ipv4(bytes, self.mark),
        }
    }

    /// What can be known of it from so many of its bytes.
    fn key(&self, seen: usize) -> Key {
        let seen = seen.min(HEADER);
        let (family, fixed, address) = match self.six {
            true => (6, 40, 16),
            false => (4, 20, 4),
        };
        if seen < fixed {
            return Key::other(self.mark);
        }
        let (protocol, ports_at) = match self.six {
            true => self.behind_extensions(seen),
            false if self.fragment.1 > 0 => (self.protocol, None),
            false => (self.protocol, Some(20 + usize::from(self.options) * 4)),
        };
        let with = WITH_PORTS.contains(&protocol) && ports_at.is_some_and(|at| at + 4 <= seen);
        let ports = if with { self.ports } else { (0, 0) };
        Key {
            from: words(&self.from[..address]),
            to: words(&self.to[..address]),
            mark: self.mark,
            sport: ports.0,
            dport: ports.1,
            family,
            has_ports: with.into(),
            protocol,
            dscp: self.dscp,
        }
    }

    /// The protocol as far as it can be seen, and where its header is.
    fn behind_extensions(&self, seen: usize) -> (u8, Option<usize>) {
        let mut at = 40;
        for (i, extension) in self.extensions.iter().enumerate() {
            if i == EXTENSIONS_MAX || at + 8 > seen {
                return (extension.number(), None);
            }
            let next = self.extensions.get(i + 1).map(Extension::number);
            if matches!(extension, Extension::Fragment(_, 1..)) {
                return (next.unwrap_or(self.protocol), None);
            }
            at += extension.length();
        }
        (self.protocol, Some(at))
    }
}

impl Extension {
    fn number(&self) -> u8 {
        match self {
            Extension::Raw(number, _) => *number,
            Extension::Fragment(..) => 44,
            Extension::Auth(_) => 51,
        }
    }

    fn length(&self) -> usize {
        match self {
            Extension::Raw(_, more) => 8 + 8 * usize::from(*more),
            Extension::Fragment(..) => 8,
            Extension::Auth(checksum) => 12 + 4 * usize::from(*checksum),
        }
    }

    fn build(&self, next: IpNumber) -> (u8, Vec<u8>) {
        let bytes = match *self {
            Extension::Raw(_, more) => {
                let payload = vec![0xff; 6 + 8 * usize::from(more)];
                let header = Ipv6RawExtHeader::new_raw(next, &payload).unwrap();
                header.to_bytes().to_vec()
            }
            Extension::Fragment(more, at) => {
                let at = IpFragOffset::try_new(at).unwrap();
                let header = Ipv6FragmentHeader::new(next, at, more, 0xffff_ffff);
                header.to_bytes().to_vec()
            }
            Extension::Auth(checksum) => {
                let icv = vec![0xff; 4 * usize::from(checksum)];
                let header = IpAuthHeader::new(next, 1, 1, &icv).unwrap();
                header.to_bytes().to_vec()
            }
        };
        (self.number(), bytes)
    }
}

// ---- any bytes ---------------------------------------------------------------

/// What any bytes are that call themselves IPv4, by the library and the standards.
fn any_ipv4(bytes: &[u8]) -> Key {
    let seen = &bytes[..bytes.len().min(HEADER)];
    // The library asks for all of the options; ours does with what is there.
    let mut whole = seen.to_vec();
    whole.resize(seen.len().max(60), 0);
    let (Ok(header), 20..) = (Ipv4HeaderSlice::from_slice(&whole), seen.len()) else {
        return Key::default();
    };
    let first = header.fragments_offset().value() == 0;
    let at = header.slice().len();
    let ports = seen
        .get(at..at + 4)
        .filter(|_| first && WITH_PORTS.contains(&header.protocol().0));
    Key {
        from: words(&header.source()),
        to: words(&header.destination()),
        family: 4,
        protocol: header.protocol().0,
        dscp: header.dcp().value(),
        ..with_ports(ports)
    }
}

fn with_ports(bytes: Option<&[u8]>) -> Key {
    let port = |at| bytes.map_or(0, |b| u16::from_be_bytes([b[at], b[at + 1]]));
    Key {
        sport: port(0),
        dport: port(2),
        has_ports: bytes.is_some().into(),
        ..Key::default()
    }
}

/// The same of IPv6.
fn any_ipv6(bytes: &[u8]) -> Key {
    let seen = &bytes[..bytes.len().min(HEADER)];
    let Ok(header) = Ipv6HeaderSlice::from_slice(seen) else {
        return Key::default();
    };
    let mut protocol = header.next_header().0;
    let mut rest = seen.get(40..);
    for _ in 0..EXTENSIONS_MAX {
        let Some(first) = rest.and_then(|r| r.get(..8)) else {
            break;
        };
        let length = match protocol {
            0 | 43 | 60 => (usize::from(first[1]) + 1) * 8,
            44 => 8,
            51 => (usize::from(first[1]) + 2) * 4,
            _ => break,
        };
        let later = protocol == 44 && (first[2] > 0 || first[3] & 0xf8 > 0);
        protocol = first[0];
        rest = rest.and_then(|r| r.get(length..)).filter(|_| !later);
        if later {
            break;
        }
    }
    let ports = rest
        .and_then(|r| r.get(..4))
        .filter(|_| WITH_PORTS.contains(&protocol));
    Key {
        from: words(&header.source()),
        to: words(&header.destination()),
        family: 6,
        protocol,
        dscp: header.dscp().value(),
        ..with_ports(ports)
    }
}

/// Random, but often enough of the right version and with headers that are known.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let known =
        prop_oneof![1 => any::<u8>(), 3 => select(&EXTENSIONS[..]), 1 => select(&WITH_PORTS[..])];
    let byte = prop_oneof![2 => any::<u8>(), 1 => known.clone(), 2 => Just(0u8)];
    (vec(byte, 0..160), any::<u8>(), known, any::<bool>()).prop_map(
        |(mut bytes, first, protocol, right)| {
            if right && bytes.len() > 9 {
                bytes[0] = if first & 1 > 0 { 0x60 } else { 0x40 } | first >> 4;
                bytes[6] = protocol;
                bytes[9] = protocol;
            }
            bytes
        },
    )
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn a_packet_has_the_key_it_was_built_with(packet in packet()) {
        let bytes = packet.bytes();
        prop_assert_eq!(packet.parsed(&bytes), packet.key(bytes.len()));
    }

    /// Cut off anywhere, and whatever lies behind it in memory.
    #[test]
    fn a_packet_cut_off(packet in packet(), behind: u8) {
        let bytes = packet.bytes();
        for seen in 0..=bytes.len() {
            let mut memory = vec![behind; seen + HEADER];
            memory[..seen].copy_from_slice(&bytes[..seen]);
            let (expected, found) = (packet.key(seen), packet.parsed(&memory[..seen]));
            prop_assert_eq!(found, expected, "of {} bytes {}", bytes.len(), seen);
        }
    }

    #[test]
    fn any_bytes(bytes in bytes()) {
        prop_assert_eq!(Key::ipv4(&bytes, 0), any_ipv4(&bytes));
        prop_assert_eq!(Key::ipv6(&bytes, 0), any_ipv6(&bytes));
    }
}

// ---- rules -------------------------------------------------------------------

/// A rule as one would say it.
#[derive(Clone, Debug)]
struct Said {
    family: Option<u8>,
    from: Option<(IpAddr, u8)>,
    to: Option<(IpAddr, u8)>,
    sports: Option<(u16, u16)>,
    dports: Option<(u16, u16)>,
    protocol: Option<u8>,
    dscp: Option<u8>,
    mark: Option<(u32, u32)>,
    queue: u16,
}

/// An address is all its bits in the upper end of 128.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(a.to_bits()) << 96,
        IpAddr::V6(a) => a.to_bits(),
    }
}

fn masked(bits: u128, prefix: u8) -> u128 {
    bits & !u128::MAX.checked_shr(prefix.into()).unwrap_or(0)
}

fn within(net: Option<(IpAddr, u8)>, is: IpAddr) -> bool {
    let Some((address, prefix)) = net else {
        return true;
    };
    address.is_ipv4() == is.is_ipv4() && masked(bits(address) ^ bits(is), prefix) == 0
}

impl Said {
    /// Of a packet that is of neither family, nothing but the mark can match.
    fn matches(&self, packet: &Packet, ip: bool) -> bool {
        let address = |bytes: [u8; 16]| match packet.six {
            true => IpAddr::from(bytes),
            false => IpAddr::from(<[u8; 4]>::try_from(&bytes[..4]).unwrap()),
        };
        let key = packet.key(packet.bytes().len());
        let ports = |range: Option<(u16, u16)>, port| match range {
            None | Some((0, u16::MAX)) => true,
            Some((least, most)) => ip && key.has_ports > 0 && (least..=most).contains(&port),
        };
        self.family.is_none_or(|f| ip && f == key.family)
            && (self.from.is_none() || ip && within(self.from, address(packet.from)))
            && (self.to.is_none() || ip && within(self.to, address(packet.to)))
            && ports(self.sports, key.sport)
            && ports(self.dports, key.dport)
            && self.protocol.is_none_or(|p| ip && p == key.protocol)
            && self.dscp.is_none_or(|d| ip && d == packet.dscp)
            && self
                .mark
                .is_none_or(|(mark, mask)| packet.mark & mask == mark & mask)
    }

    fn rule(&self) -> Rule {
        let net = |net: Option<(IpAddr, u8)>| match net {
            Some((address, prefix)) => (
                words(&bits(address).to_be_bytes()),
                words(&masked(u128::MAX, prefix).to_be_bytes()),
            ),
            None => ([0; 4], [0; 4]),
        };
        let ((from, from_mask), (to, to_mask)) = (net(self.from), net(self.to));
        let (sport_least, sport_most) = self.sports.unwrap_or((0, u16::MAX));
        let (dport_least, dport_most) = self.dports.unwrap_or((0, u16::MAX));
        let (mark, mark_mask) = self.mark.unwrap_or_default();
        Rule {
            from,
            from_mask,
            to,
            to_mask,
            mark,
            mark_mask,
            sport_least,
            sport_most,
            dport_least,
            dport_most,
            protocol: self.protocol.map_or(ANY, u16::from),
            dscp: self.dscp.map_or(ANY, u16::from),
            family: self.family.map_or(0, u16::from),
            queue: self.queue,
        }
    }
}

/// Few enough addresses, ports and so on that rules and packets meet.
fn few(n: u8, six: bool) -> IpAddr {
    let mut bytes = [0; 16];
    bytes[0] = 10;
    bytes[if n & 4 > 0 { 1 } else { 3 }] = n;
    match six {
        true => IpAddr::from(bytes),
        false => IpAddr::from(<[u8; 4]>::try_from(&bytes[..4]).unwrap()),
    }
}

fn range() -> impl Strategy<Value = (u16, u16)> {
    let ends = (0..6u16, 0..6u16).prop_map(|(a, b)| (a.min(b), a.max(b)));
    prop_oneof![8 => ends, 1 => Just((0, u16::MAX)), 1 => Just((3, u16::MAX))]
}

fn maybe<T: Clone + std::fmt::Debug>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Option<T>> {
    (any::<u8>(), value).prop_map(|(n, value)| (n % 4 == 0).then_some(value))
}

prop_compose! {
    fn said()(
        six: bool, from in maybe((0..8u8, 0..=128u8)), to in maybe((0..8u8, 0..=128u8)),
        family in maybe(Just(())), sports in maybe(range()), dports in maybe(range()),
        protocol in maybe(select(&[6u8, 17, 1, 0][..])), dscp in maybe(0..4u8),
        mark in maybe((0..8u32, 0..8u32)), queue in 1..4096u16,
    ) -> Said {
        let most = if six { 128 } else { 32 };
        let net = |net: Option<(u8, u8)>| net.map(|(n, prefix)| (few(n, six), prefix.min(most)));
        let family = (from.is_some() || to.is_some() || family.is_some()).then_some(if six { 6 } else { 4 });
        Said { family, from: net(from), to: net(to), sports, dports, protocol, dscp, mark, queue }
    }
}

prop_compose! {
    fn few_packets()(
        packet in packet(), from in 0..8u8, to in 0..8u8, ports in (0..6u16, 0..6u16),
        protocol in select(&[6u8, 17, 1][..]), dscp in 0..4u8, mark in 0..8u32,
    ) -> Packet {
        let address = |n| bits(few(n, packet.six)).to_be_bytes();
        Packet { from: address(from), to: address(to), ports, protocol, dscp, mark, ..packet }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Insert(u32, Said),
    Remove(u32),
}

fn change() -> impl Strategy<Value = Change> {
    let at = prop_oneof![3 => 0..20u32, 1 => any::<u32>(), 1 => Just(u32::MAX)];
    let insert = (at.clone(), said()).prop_map(|(at, rule)| Change::Insert(at, rule));
    prop_oneof![3 => insert, 1 => at.prop_map(Change::Remove)]
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn the_first_that_matches(changes in vec(change(), 0..40), packets in vec(few_packets(), 1..20)) {
        let (mut rules, mut model) = (Rules::default(), Vec::<Said>::new());
        for change in changes {
            match change {
                Change::Insert(at, said) => {
                    prop_assert_eq!(rules.insert(at, &said.rule()), Ok(()));
                    model.insert(model.len().min(at as usize), said);
                }
                Change::Remove(at) if (at as usize) < model.len() => {
                    prop_assert_eq!(rules.remove(at), Ok(()));
                    model.remove(at as usize);
                }
                Change::Remove(at) => prop_assert_eq!(rules.remove(at), Err(Error::NoSuchRule(at))),
            }
        }
        let all: Vec<Rule> = model.iter().map(Said::rule).collect();
        prop_assert_eq!(rules.as_slice(), &all[..]);
        for packet in &packets {
            let first = |ip| model.iter().find(|s| s.matches(packet, ip)).map(|s| s.queue);
            let key = packet.parsed(&packet.bytes());
            prop_assert_eq!(rules.find(&key), first(true), "{:?}", packet);
            prop_assert_eq!(rules.find(&Key::other(packet.mark)), first(false), "{:?}", packet);
        }
    }
}

#[test]
fn refusals_change_nothing() {
    let any = Rule::any(1);
    let mut rules = Rules::default();
    for wrong in [
        Rule {
            sport_least: 2,
            sport_most: 1,
            ..any
        },
        Rule {
            dport_least: 1,
            dport_most: 0,
            ..any
        },
        Rule {
            protocol: 256,
            ..any
        },
        Rule {
            protocol: ANY - 1,
            ..any
        },
        Rule { dscp: 64, ..any },
        Rule { family: 5, ..any },
    ] {
        assert_eq!(rules.insert(0, &wrong), Err(Error::Rule), "{wrong:?}");
    }
    assert_eq!(rules.remove(0), Err(Error::NoSuchRule(0)));
    assert!(rules.as_slice().is_empty());
    for queue in 1..=RULES_MAX as u16 {
        assert_eq!(rules.insert(0, &Rule::any(queue)), Ok(()));
    }
    let full = rules.as_slice().to_vec();
    assert_eq!(rules.insert(0, &any), Err(Error::RulesFull));
    assert_eq!(
        rules.remove(RULES_MAX as u32),
        Err(Error::NoSuchRule(RULES_MAX as u32))
    );
    assert_eq!(rules.as_slice(), full);
    assert_eq!(rules.find(&Key::default()), Some(RULES_MAX as u16));
    assert_eq!(rules.remove(RULES_MAX as u32 - 1), Ok(()));
    assert_eq!(rules.as_slice(), &full[..RULES_MAX - 1]);
}

/// A tag of a VLAN before the IP header is not looked behind: the kernel keeps it elsewhere.
#[test]
fn a_vlan_tag_is_no_ip_header() {
    let tag = [0x00, 0x07, 0x08, 0x00];
    let udp = [&tag[..], &[0x45; 60]].concat();
    assert_eq!(Key::ipv4(&udp, 3), Key::other(3));
    assert_eq!(Key::ipv6(&udp, 3), Key::other(3));
}
