// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules: which packets go to a queue, as people write them.

use super::intf::{self, ANY};
use super::Refusal;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The place behind all rules.
pub const RULES_LAST: u32 = u32::MAX;

fn refuse(given: &str, why: &str) -> Refusal {
    Refusal::Rule {
        given: given.escape_debug().to_string(),
        why: why.into(),
    }
}

/// `10.0.0.0/8`, `fd00::1`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    address: IpAddr,
    prefix: u8,
}

impl Address {
    fn bits(address: IpAddr) -> u8 {
        match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        }
    }

    /// In words, and their mask.
    fn words(self) -> ([u32; 4], [u32; 4]) {
        let mut words = [0; 4];
        match self.address {
            IpAddr::V4(a) => words[0] = a.to_bits(),
            IpAddr::V6(a) => {
                let bits = a.to_bits();
                words
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, w)| *w = (bits >> (96 - 32 * i)) as u32);
            }
        }
        let mut mask = [0; 4];
        for (i, m) in mask.iter_mut().enumerate() {
            let bits = u32::from(self.prefix).saturating_sub(32 * i as u32).min(32);
            *m = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
        }
        (words, mask)
    }

    fn from_words(family: u16, words: [u32; 4], mask: [u32; 4]) -> Option<Address> {
        let prefix = mask.iter().map(|m| m.count_ones()).sum::<u32>() as u8;
        let address = match family {
            4 => IpAddr::V4(Ipv4Addr::from_bits(words[0])),
            6 => IpAddr::V6(Ipv6Addr::from_bits(
                words.iter().fold(0, |all, w| all << 32 | u128::from(*w)),
            )),
            _ => return None,
        };
        (prefix > 0).then_some(Address { address, prefix })
    }

    fn family(self) -> u16 {
        match self.address {
            IpAddr::V4(_) => 4,
            IpAddr::V6(_) => 6,
        }
    }
}

impl FromStr for Address {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Address, Refusal> {
        let wrong = || {
            refuse(
                text,
                "write an address like 10.0.0.1, 10.0.0.0/8 or fd00::/8",
            )
        };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = Address::bits(address);
        let prefix = match prefix {
            None => most,
            Some(p) => p
                .parse()
                .ok()
                .filter(|p| (1..=most).contains(p))
                .ok_or_else(wrong)?,
        };
        Ok(Address { address, prefix })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        match self.prefix == Address::bits(self.address) {
            true => Ok(()),
            false => write!(f, "/{}", self.prefix),
        }
    }
}

/// `80`, `8000-8100`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports(u16, u16);

impl FromStr for Ports {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Ports, Refusal> {
        let wrong = || {
            refuse(
                text,
                "write a port from 1 to 65535, or a range like 8000-8100",
            )
        };
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.parse().ok().filter(|p: &u16| *p > 0).ok_or_else(wrong);
        let (least, most) = (port(least)?, port(most)?);
        match least <= most {
            true => Ok(Ports(least, most)),
            false => Err(wrong()),
        }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 == self.1 {
            true => write!(f, "{}", self.0),
            false => write!(f, "{}-{}", self.0, self.1),
        }
    }
}

const PROTOCOLS: [(&str, u8); 8] = [
    ("icmp", 1),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("gre", 47),
    ("esp", 50),
    ("icmpv6", 58),
    ("sctp", 132),
];

/// One of a few named numbers, or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// An IP protocol.
    Protocol(u8),
    /// A DSCP.
    Dscp(u8),
}

impl Match {
    /// `tcp`, `udp`, `47`
    pub fn protocol(text: &str) -> Result<Match, Refusal> {
        let named = PROTOCOLS.iter().find(|(name, _)| *name == text);
        named
            .map(|(_, number)| *number)
            .or_else(|| text.parse().ok())
            .map(Match::Protocol)
            .ok_or_else(|| {
                refuse(
                    text,
                    "write tcp, udp, icmp, icmpv6, sctp or a protocol number",
                )
            })
    }

    /// `ef`, `cs1`, `af41`, `46`
    pub fn dscp(text: &str) -> Result<Match, Refusal> {
        let lower = text.to_ascii_lowercase();
        let digits = |prefix: &str, count: usize| {
            let rest = lower.strip_prefix(prefix)?;
            let fits = rest.len() == count && rest.bytes().all(|b| b.is_ascii_digit());
            fits.then(|| rest.bytes().map(|b| b - b'0').collect::<Vec<u8>>())
        };
        let number = match (lower.as_str(), digits("cs", 1), digits("af", 2)) {
            ("ef", ..) => Some(46),
            (_, Some(cs), _) if cs[0] < 8 => Some(cs[0] * 8),
            (_, _, Some(af)) if (1..=4).contains(&af[0]) && (1..=3).contains(&af[1]) => {
                Some(af[0] * 8 + af[1] * 2)
            }
            _ => lower.parse().ok().filter(|n: &u8| *n < 64),
        };
        number
            .map(Match::Dscp)
            .ok_or_else(|| refuse(text, "write ef, cs0 to cs7, af11 to af43, or 0 to 63"))
    }

    fn number(self) -> u16 {
        match self {
            Match::Protocol(n) | Match::Dscp(n) => n.into(),
        }
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Match::Protocol(n) => match PROTOCOLS.iter().find(|(_, number)| number == n) {
                Some((name, _)) => f.pad(name),
                None => write!(f, "{n}"),
            },
            Match::Dscp(46) => f.pad("ef"),
            Match::Dscp(n) if n % 8 == 0 => write!(f, "cs{}", n / 8),
            Match::Dscp(n) if (8..40).contains(n) && matches!(n % 8, 2 | 4 | 6) => {
                write!(f, "af{}{}", n / 8, n % 8 / 2)
            }
            Match::Dscp(n) => write!(f, "{n}"),
        }
    }
}

/// Of a packet, what is named; nothing named: every packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// IP protocol.
    pub protocol: Option<Match>,
    /// Address of the sender.
    pub from: Option<Address>,
    /// Address of the receiver.
    pub to: Option<Address>,
    /// Port of the sender.
    pub sport: Option<Ports>,
    /// Port of the receiver.
    pub dport: Option<Ports>,
    /// Class of service.
    pub dscp: Option<Match>,
    /// Firewall mark, and the bits of it that count.
    pub mark: Option<(u32, u32)>,
}

/// `7`, `0x10`, `0x10/0xf0`
pub fn parse_mark(text: &str) -> Result<(u32, u32), Refusal> {
    let wrong = || {
        refuse(
            text,
            "write a mark like 7 or 0x10, or with a mask like 0x10/0xf0",
        )
    };
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).map_err(|_| wrong()),
        None => text.parse().map_err(|_| wrong()),
    };
    let (mark, mask) = match text.split_once('/') {
        Some((mark, mask)) => (number(mark)?, number(mask)?),
        None => (number(text)?, u32::MAX),
    };
    match mask != 0 && mark & !mask == 0 {
        true => Ok((mark, mask)),
        false => Err(wrong()),
    }
}

impl Rule {
    /// Refuses what no packet can match.
    pub fn check(self) -> Result<Rule, Refusal> {
        // Those that the kernel's side reads ports of (core/link/rules.h).
        const WITH_PORTS: [u16; 5] = [6, 17, 33, 132, 136];
        let ports = self.sport.is_some() || self.dport.is_some();
        let portless = self
            .protocol
            .is_some_and(|p| !WITH_PORTS.contains(&p.number()));
        if ports && portless {
            let why = "its protocol has no ports: name tcp, udp, udplite, dccp or sctp";
            return Err(refuse(&self.to_string(), why));
        }
        match (self.from, self.to) {
            (Some(from), Some(to)) if from.family() != to.family() => Err(refuse(
                &self.to_string(),
                "the addresses must both be IPv4 or both IPv6",
            )),
            _ => Ok(self),
        }
    }

    pub(super) fn record(&self, queue: u32) -> intf::Rule {
        let words = |address: Option<Address>| address.map_or(([0; 4], [0; 4]), Address::words);
        let ports = |ports: Option<Ports>| ports.map_or((0, u16::MAX), |p| (p.0, p.1));
        let ((from, from_mask), (to, to_mask)) = (words(self.from), words(self.to));
        let (sport, dport) = (ports(self.sport), ports(self.dport));
        let (mark, mark_mask) = self.mark.unwrap_or((0, 0));
        intf::Rule {
            from,
            from_mask,
            to,
            to_mask,
            mark,
            mark_mask,
            sport_least: sport.0,
            sport_most: sport.1,
            dport_least: dport.0,
            dport_most: dport.1,
            protocol: self.protocol.map_or(ANY, Match::number),
            dscp: self.dscp.map_or(ANY, Match::number),
            family: self.from.or(self.to).map_or(0, Address::family),
            queue: queue as u16,
        }
    }

    pub(super) fn from_record(r: &intf::Rule) -> Rule {
        let ports = |least, most| ((least, most) != (0, u16::MAX)).then_some(Ports(least, most));
        let number = |n: u16| (n != ANY).then_some(n as u8);
        Rule {
            protocol: number(r.protocol).map(Match::Protocol),
            from: Address::from_words(r.family, r.from, r.from_mask),
            to: Address::from_words(r.family, r.to, r.to_mask),
            sport: ports(r.sport_least, r.sport_most),
            dport: ports(r.dport_least, r.dport_most),
            dscp: number(r.dscp).map(Match::Dscp),
            mark: (r.mark_mask != 0).then_some((r.mark, r.mark_mask)),
        }
    }
}

/// `proto udp to 10.0.0.0/8 dport 5000-5100`
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        let mut say = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("{name} {value}")));
        };
        say("proto", self.protocol.map(|p| p.to_string()));
        say("from", self.from.map(|a| a.to_string()));
        say("to", self.to.map(|a| a.to_string()));
        say("sport", self.sport.map(|p| p.to_string()));
        say("dport", self.dport.map(|p| p.to_string()));
        say("dscp", self.dscp.map(|d| d.to_string()));
        say(
            "mark",
            self.mark.map(|(mark, mask)| match mask {
                u32::MAX => format!("{mark:#x}"),
                _ => format!("{mark:#x}/{mask:#x}"),
            }),
        );
        match words.is_empty() {
            true => f.pad("any"),
            false => f.pad(&words.join(" ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use qlinux_properties::cases;

    #[test]
    fn words_and_back() {
        let rule = Rule {
            protocol: Some(Match::protocol("udp").unwrap()),
            from: Some("10.1.0.0/16".parse().unwrap()),
            to: Some("192.168.1.7".parse().unwrap()),
            sport: Some("53".parse().unwrap()),
            dport: Some("5000-5100".parse().unwrap()),
            dscp: Some(Match::dscp("AF41").unwrap()),
            mark: Some(parse_mark("0x10/0xf0").unwrap()),
        };
        let said = "proto udp from 10.1.0.0/16 to 192.168.1.7 sport 53 dport 5000-5100 dscp af41 mark 0x10/0xf0";
        assert_eq!(rule.to_string(), said);
        assert_eq!(Rule::from_record(&rule.record(5)), rule);
        assert_eq!(Rule::default().to_string(), "any");
    }

    #[test]
    fn wrong_words() {
        for wrong in ["", "10.0.0", "10.0.0.0/33", "10.0.0.0/0", "::/129", "x"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
        for wrong in ["", "0", "65536", "9-8", "1-", "-1", "a"] {
            assert!(wrong.parse::<Ports>().is_err(), "{wrong}");
        }
        for wrong in ["", "64", "cs8", "af44", "af51", "csé", "-1"] {
            assert!(Match::dscp(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "256", "tcpp", "-1"] {
            assert!(Match::protocol(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "0x", "1/0", "3/1", "0x1ffffffff"] {
            assert!(parse_mark(wrong).is_err(), "{wrong}");
        }
        let mixed = Rule {
            from: Some("10.0.0.1".parse().unwrap()),
            to: Some("fd00::1".parse().unwrap()),
            ..Rule::default()
        };
        assert!(mixed.check().is_err());
        let portless = Rule {
            protocol: Some(Match::Protocol(1)),
            dport: Some("80".parse().unwrap()),
            ..Rule::default()
        };
        assert!(portless.check().is_err());
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn addresses_and_back(bits: u128, prefix in 1u8..=128, v4: bool) {
            let (address, most) = match v4 {
                true => (IpAddr::V4(Ipv4Addr::from_bits(bits as u32)), 32),
                false => (IpAddr::V6(Ipv6Addr::from_bits(bits)), 128),
            };
            let address = Address { address, prefix: prefix.min(most) };
            let (words, mask) = address.words();
            prop_assert_eq!(Address::from_words(address.family(), words, mask), Some(address));
            prop_assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
        }

        #[test]
        fn numbers_and_back(n in 0u8..64) {
            prop_assert_eq!(Match::dscp(&Match::Dscp(n).to_string()).unwrap(), Match::Dscp(n));
            prop_assert_eq!(Match::protocol(&Match::Protocol(n).to_string()).unwrap(), Match::Protocol(n));
        }

        #[test]
        fn whatever_is_written(text in ".{0,12}") {
            let _ = text.parse::<Address>();
            let _ = text.parse::<Ports>();
            let _ = (Match::dscp(&text), Match::protocol(&text), parse_mark(&text));
        }
    }
}
