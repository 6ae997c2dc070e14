// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's network interfaces and their queueing disciplines, by rtnetlink.
//!
//! All of it concerns the network namespace of the calling thread.

mod filters;
mod kinds;
mod message;
mod saved;
mod socket;

use crate::{Error, Result};
use message::{text_attr, u32_at, u32_attr, Message};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use nix::errno::Errno;
use nix::libc;
pub use saved::Saved;
use socket::{Refused, Socket};

const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFLA_GSO_MAX_SIZE: u16 = 41;
const IFLA_TSO_MAX_SEGS: u16 = 60;
const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
/// From this size on the number of segments is left to the device.
const GSO_WHOLE: u32 = 65536;
/// The kernel takes this much off the size for headers (`MAX_TCP_HEADER`), at most.
const GSO_HEADERS: u32 = 512;
/// Statistics are not asked for.
const SKIP_STATS: u32 = 1 << 3;
const NAME_MAX: usize = 15;
/// Fixed part of a message about an interface.
const IFINFO: usize = 16;
/// Fixed part of a message about traffic control.
const TCMSG: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STAB: u16 = 8;
const TCA_CHAIN: u16 = 11;
const RTM_NEWCHAIN: u16 = 100;
const RTM_GETCHAIN: u16 = 102;
const TC_H_ROOT: u32 = 0xffff_ffff;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Device {
    /// The name, of at most 15 bytes.
    pub name: String,
    /// The kernel's number.
    pub index: u32,
    /// The largest packet without the link's header, in bytes.
    pub mtu: u32,
    /// Whether it is up.
    pub up: bool,
    /// The largest packet that is segmented behind the queueing discipline, in bytes.
    pub gso_max_size: u32,
    /// The same for IPv4, where the kernel tells the two apart.
    pub gso_ipv4_max_size: Option<u32>,
    /// The most segments of such a packet.
    pub gso_max_segs: u32,
    /// More of them it does not take.
    pub tso_max_segs: u32,
}

impl Device {
    /// The same with segmented packets of at most so many bytes, those of IPv4 too. One of TCP has two segments
    /// whatever its size is bounded by, unless their number is, so that is bounded as well.
    pub fn with_gso_max(&self, bytes: u32) -> Device {
        let segments = match bytes {
            GSO_WHOLE.. => self.tso_max_segs,
            _ => (bytes / self.mtu.max(1)).clamp(1, self.tso_max_segs.max(1)),
        };
        let bytes = match segments {
            1 => bytes.max(self.mtu + GSO_HEADERS),
            _ => bytes,
        };
        Device {
            gso_max_size: bytes,
            gso_ipv4_max_size: Some(bytes),
            gso_max_segs: segments,
            ..self.clone()
        }
    }

    /// The same with segmented packets of no more than that, nor than now.
    pub fn with_gso_at_most(&self, bytes: u32) -> Device {
        let bounded = self.with_gso_max(bytes);
        let ipv4 = self
            .gso_ipv4_max_size
            .map(|size| size.min(bounded.gso_max_size));
        Device {
            gso_max_size: bounded.gso_max_size.min(self.gso_max_size),
            gso_ipv4_max_size: ipv4,
            gso_max_segs: bounded.gso_max_segs.min(self.gso_max_segs),
            ..bounded
        }
    }

    /// Both bound segmented packets alike.
    pub fn same_gso(&self, other: &Device) -> bool {
        (self.gso_max_size, self.gso_max_segs) == (other.gso_max_size, other.gso_max_segs)
    }
}

/// A queueing discipline.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Qdisc {
    /// Such as `fq_codel`.
    pub kind: String,
    /// Its handle, the major number in the upper 16 bits.
    pub handle: u32,
    /// Made by the kernel by itself, as it would be again if it were deleted.
    pub default: bool,
}

/// The interface of this name.
pub fn device(name: &str) -> Result<Device> {
    let unknown = || Error::NoDevice { name: name.into() };
    if !name_is_valid(name) {
        return Err(unknown());
    }
    let request = link_request(libc::RTM_GETLINK, 0).with_text(IFLA_IFNAME, name);
    get_device(request, &format!("looking for network interface {name}"))?.ok_or_else(unknown)
}

/// The interface of this number.
pub fn device_by_index(index: u32) -> Result<Device> {
    let doing = format!("looking for network interface number {index}");
    get_device(link_request(libc::RTM_GETLINK, index), &doing)?.ok_or_else(|| gone(index))
}

/// All interfaces, by number.
pub fn devices() -> Result<Vec<Device>> {
    let mut all: Vec<Device> = Socket::open()?
        .dump(&link_request(libc::RTM_GETLINK, 0))
        .map_err(|e| e.error("listing the network interfaces"))?
        .iter()
        .filter_map(parse_device)
        .collect();
    all.sort_by_key(|device| device.index);
    Ok(all)
}

/// Bounds the packets that are segmented behind the queueing discipline, those
/// of IPv4 too.
pub fn set_gso_max(index: u32, bytes: u32) -> Result<()> {
    let found = device_by_index(index)?;
    change_gso(&found, &found.with_gso_max(bytes))
}

/// Bounds them as they are in `then`.
pub fn bound_gso_as(then: &Device) -> Result<()> {
    change_gso(&device_by_index(then.index)?, then)
}

fn change_gso(now: &Device, wanted: &Device) -> Result<()> {
    let mut request = link_request(libc::RTM_SETLINK, now.index);
    let before = request.body.len();
    if now.gso_max_size != wanted.gso_max_size {
        request = request.with(IFLA_GSO_MAX_SIZE, &wanted.gso_max_size.to_ne_bytes());
    }
    if now.gso_max_segs != wanted.gso_max_segs {
        request = request.with(IFLA_GSO_MAX_SEGS, &wanted.gso_max_segs.to_ne_bytes());
    }
    // The kernel takes a size of at most 64 KiB for both, so that the second may
    // have to be said even where it does not differ yet.
    if let (Some(_), Some(ipv4)) = (now.gso_ipv4_max_size, wanted.gso_ipv4_max_size) {
        if now.gso_ipv4_max_size != Some(ipv4) || wanted.gso_max_size != ipv4 {
            request = request.with(IFLA_GSO_IPV4_MAX_SIZE, &ipv4.to_ne_bytes());
        }
    }
    if request.body.len() == before {
        return Ok(());
    }
    let name = &now.name;
    Socket::open()?
        .request(request, 0)
        .map_err(|e| e.error(format!("bounding the segmented packets of {name}")))
}

/// The queueing discipline at the interface's root; one that is down may have none.
pub fn root_qdisc(index: u32) -> Result<Option<Qdisc>> {
    Ok(qdiscs(&mut Socket::open()?)?
        .iter()
        .filter_map(|m| Tc::parse(&m.body).map(|tc| (tc, m)))
        .find(|(tc, _)| tc.index == index && tc.parent == TC_H_ROOT)
        .map(|(tc, m)| Qdisc {
            kind: kind_of(m),
            handle: tc.handle,
            default: major(tc.handle) == 0,
        }))
}

/// The major numbers of all queueing disciplines, each once, in order.
pub fn handles() -> Result<Vec<u16>> {
    let mut all: Vec<u16> = qdiscs(&mut Socket::open()?)?
        .iter()
        .filter_map(|m| Tc::parse(&m.body))
        .map(|tc| major(tc.handle))
        .filter(|major| *major != 0)
        .collect();
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Puts a queueing discipline without options at the root, in place of what is there.
pub fn replace_root(index: u32, kind: &str, handle_major: u16) -> Result<()> {
    let tc = Tc {
        index,
        handle: u32::from(handle_major) << 16,
        parent: TC_H_ROOT,
        info: 0,
    };
    let request = Message::new(libc::RTM_NEWQDISC, &tc.to_bytes()).with_text(TCA_KIND, kind);
    Socket::open()?
        .request(request, NLM_F_CREATE | NLM_F_REPLACE)
        .map_err(|e| tc_error(e, index, format!("putting {kind} at the root of")))
}

/// Deletes what is at the root, if anything, so that the kernel puts its default there.
pub fn delete_root(index: u32) -> Result<()> {
    let tc = Tc {
        index,
        parent: TC_H_ROOT,
        ..Tc::default()
    };
    match Socket::open()?.request(Message::new(libc::RTM_DELQDISC, &tc.to_bytes()), 0) {
        // None, or the kernel's own.
        Err(Refused {
            errno: Errno::ENOENT,
            ..
        }) => Ok(()),
        other => other.map_err(|e| tc_error(e, index, "deleting the root qdisc of".into())),
    }
}

/// Fixed part of a message about traffic control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tc {
    index: u32,
    handle: u32,
    parent: u32,
    info: u32,
}

impl Tc {
    fn parse(body: &[u8]) -> Option<Tc> {
        Some(Tc {
            index: u32_at(body, 4)?,
            handle: u32_at(body, 8)?,
            parent: u32_at(body, 12)?,
            info: u32_at(body, 16)?,
        })
    }

    fn to_bytes(self) -> [u8; TCMSG] {
        let mut bytes = [0; TCMSG];
        let fields = [self.index, self.handle, self.parent, self.info];
        for (place, field) in bytes[4..].chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_ne_bytes());
        }
        bytes
    }
}

fn major(handle: u32) -> u16 {
    (handle >> 16) as u16
}

/// The attributes of a message about traffic control.
fn tc_attrs(message: &Message) -> &[u8] {
    message.body.get(TCMSG..).unwrap_or_default()
}

fn kind_of(message: &Message) -> String {
    text_attr(tc_attrs(message), TCA_KIND).unwrap_or_default()
}

fn qdiscs(socket: &mut Socket) -> Result<Vec<Message>> {
    let request = Message::new(libc::RTM_GETQDISC, &Tc::default().to_bytes());
    socket
        .dump(&request)
        .map_err(|e| e.error("listing the queueing disciplines"))
}

/// The interface's name, or its number if it has vanished.
fn name_of(index: u32) -> String {
    match device_by_index(index) {
        Ok(device) => device.name,
        Err(_) => format!("number {index}"),
    }
}

fn gone(index: u32) -> Error {
    Error::NoDevice {
        name: format!("number {index}"),
    }
}

fn tc_error(refused: Refused, index: u32, doing: String) -> Error {
    if refused.errno == Errno::ENODEV {
        return gone(index);
    }
    refused.error(format!("{doing} {}", name_of(index)))
}

fn name_is_valid(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name != "."
        && name != ".."
        && !name
            .bytes()
            .any(|b| b == b'/' || b == b':' || b == 0 || b.is_ascii_whitespace() || b == 0x0b)
}

fn link_request(kind: u16, index: u32) -> Message {
    let mut fixed = [0; IFINFO];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    let request = Message::new(kind, &fixed);
    if kind == libc::RTM_GETLINK {
        return request.with(IFLA_EXT_MASK, &SKIP_STATS.to_ne_bytes());
    }
    request
}

fn get_device(request: Message, doing: &str) -> Result<Option<Device>> {
    match Socket::open()?.get(request) {
        Ok(found) => Ok(found.as_ref().and_then(parse_device)),
        Err(refused) if refused.errno == Errno::ENODEV => Ok(None),
        Err(refused) => Err(refused.error(doing)),
    }
}

fn parse_device(message: &Message) -> Option<Device> {
    let attributes = message.body.get(IFINFO..)?;
    let flags = u32_at(&message.body, 8)?;
    Some(Device {
        name: text_attr(attributes, IFLA_IFNAME)?,
        index: u32_at(&message.body, 4)?,
        mtu: u32_attr(attributes, IFLA_MTU)?,
        up: flags & libc::IFF_UP as u32 != 0,
        gso_max_size: u32_attr(attributes, IFLA_GSO_MAX_SIZE)?,
        gso_ipv4_max_size: u32_attr(attributes, IFLA_GSO_IPV4_MAX_SIZE),
        gso_max_segs: u32_attr(attributes, IFLA_GSO_MAX_SEGS)?,
        tso_max_segs: u32_attr(attributes, IFLA_TSO_MAX_SEGS)
            .or(u32_attr(attributes, IFLA_GSO_MAX_SEGS))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::{attrs, put};
    use proptest::prelude::*;
    use qlinux_properties::cases;

    fn loopback() -> Message {
        let mut fixed = [0; IFINFO];
        fixed[4] = 1;
        fixed[8] = 1;
        Message::new(libc::RTM_NEWLINK, &fixed)
            .with_text(IFLA_IFNAME, "lo")
            .with(IFLA_MTU, &65536u32.to_ne_bytes())
            .with(IFLA_GSO_MAX_SIZE, &65536u32.to_ne_bytes())
            .with(IFLA_GSO_MAX_SEGS, &65535u32.to_ne_bytes())
    }

    #[test]
    fn a_device() {
        let found = parse_device(&loopback()).unwrap();
        assert_eq!(
            (found.name.as_str(), found.index, found.mtu),
            ("lo", 1, 65536)
        );
        assert!(found.up);
        assert_eq!(found.gso_ipv4_max_size, None);
        for length in 0..loopback().body.len() {
            let mut short = loopback();
            short.body.truncate(length);
            assert_eq!(parse_device(&short), None);
        }
    }

    #[test]
    fn bounded_segments() {
        let eth = Device {
            mtu: 1500,
            ..parse_device(&loopback()).unwrap()
        };
        let bounded = |bytes| {
            let with = eth.with_gso_max(bytes);
            (with.gso_max_size, with.gso_max_segs)
        };
        assert_eq!(bounded(1514), (1500 + GSO_HEADERS, 1));
        assert_eq!(bounded(8192), (8192, 5));
        assert_eq!(bounded(65536), (65536, 65535));
        let one = eth.with_gso_max(1514);
        assert!(one.same_gso(&one.with_gso_at_most(8192)));
        assert!(eth.with_gso_at_most(8192).same_gso(&eth.with_gso_max(8192)));
        assert!(eth.same_gso(&eth.with_gso_max(65536)) && !eth.same_gso(&eth.with_gso_max(8192)));
    }

    #[test]
    fn names() {
        for good in ["lo", "eth0", "a23456789012345", "wlan-1.2"] {
            assert!(name_is_valid(good), "{good}");
        }
        for bad in [
            "",
            "a234567890123456",
            "a/b",
            "a b",
            "a\tb",
            "..",
            "a:1",
            "a\0",
        ] {
            assert!(!name_is_valid(bad), "{bad}");
            assert!(matches!(device(bad), Err(Error::NoDevice { .. })));
        }
    }

    #[test]
    fn this_machines() {
        let lo = device("lo").unwrap();
        assert!(devices().unwrap().contains(&lo));
        assert_eq!(device_by_index(lo.index).unwrap(), lo);
        assert!(matches!(device("qlinux-none"), Err(Error::NoDevice { .. })));
        handles().unwrap();
        root_qdisc(lo.index).unwrap();
    }

    #[test]
    fn traffic_control() {
        let tc = Tc {
            index: 3,
            handle: 0x1_0000,
            parent: TC_H_ROOT,
            info: 7,
        };
        assert_eq!(Tc::parse(&tc.to_bytes()), Some(tc));
        assert_eq!(Tc::parse(&tc.to_bytes()[..19]), None);
        assert_eq!(major(tc.handle), 1);
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn nothing_odd_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Message::split(&bytes);
            let _ = attrs(&bytes).count();
            let message = Message::new(16, &bytes);
            let _ = (parse_device(&message), kind_of(&message), Tc::parse(&bytes));
        }

        #[test]
        fn messages_come_back(bodies in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 0..50), 0..5), at in 0usize..100, to in any::<u8>()) {
            let all: Vec<Message> = bodies
                .iter()
                .map(|body| {
                    let mut filled = Vec::new();
                    put(&mut filled, 5, body);
                    Message::new(36, &filled)
                })
                .collect();
            let mut bytes: Vec<u8> = all.iter().flat_map(Message::to_bytes).collect();
            prop_assert_eq!(Message::split(&bytes), Some(all));
            if let Some(place) = bytes.get_mut(at) {
                *place = to;
                for message in Message::split(&bytes).unwrap_or_default() {
                    let _ = attrs(&message.body).count();
                }
            }
        }
    }
}
