// SPDX-License-Identifier: MIT OR Apache-2.0
//! What must be known of the kinds of objects to put them back: what of a dump
//! is a counter, what the kernel does not take as it told it, and what it does
//! not tell.

use super::message::{attr, attrs, put, text_attr, u32_at, u32_attr, Attr, Message};
use super::{
    kind_of, tc_attrs, Tc, RTM_NEWCHAIN, TCA_CHAIN, TCA_KIND, TCA_OPTIONS, TCA_STAB, TCMSG,
};
use netlink_packet_core::NLA_F_NESTED;
use nix::libc;

const TCA_INGRESS_BLOCK: u16 = 13;
const TCA_EGRESS_BLOCK: u16 = 14;
const TCA_STAB_BASE: u16 = 1;
/// Where the number of entries stands in the base of a size table.
const STAB_ENTRIES: usize = 20;

/// Where an action's options stand, in every kind.
const ACT_KIND: u16 = 1;
const ACT_OPTIONS: u16 = 2;
const ACT_INDEX: u16 = 3;
const ACT_COOKIE: u16 = 6;
const ACT_FLAGS: u16 = 7;
const ACT_HW_STATS: u16 = 8;
const ACT_TIMES: u16 = 1;
const ACT_PARAMETERS: u16 = 2;
/// How often an action is used, among its parameters.
const ACT_USES: std::ops::Range<usize> = 12..20;

const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_OFFLOAD: u16 = 9;
const HTB_DIRECT_PACKETS: std::ops::Range<usize> = 16..20;
const SFQ_STATISTICS: usize = 48;
const TCA_ETS_QUANTA: u16 = 3;
const TCA_ETS_PRIOMAP: u16 = 5;

const TCA_FLOWER_KEY_ETH_TYPE: u16 = 8;
const TCA_FLOWER_KEY_VLAN: std::ops::RangeInclusive<u16> = 23..=25;
const ETH_P_8021Q: u16 = 0x8100;
const ETH_P_8021AD: u16 = 0x88a8;

/// The keys of flower that were seen to come back as they were. It tells some of
/// the others, those of nested headers, so that it would not understand them.
const FLOWER_KNOWN: [std::ops::RangeInclusive<u16>; 5] =
    [1..=25, 35..=42, 47..=66, 71..=76, 86..=90];

/// CoDel keeps times in units of 1024 ns, the packet scheduler in units of 64.
const CODEL_NS: u64 = 1024;
const PSCHED_NS: u64 = 64;

/// Those whose classes are made one by one; the others' come with the qdisc.
const WITH_CLASSES: [&str; 4] = ["drr", "hfsc", "htb", "qfq"];

/// Those that were seen to come back as they were.
const KNOWN: [&str; 22] = [
    "bfifo",
    "cake",
    "codel",
    "drr",
    "ets",
    "fq",
    "fq_codel",
    "fq_pie",
    "hfsc",
    "hhf",
    "htb",
    "mq",
    "multiq",
    "noqueue",
    "pfifo",
    "pfifo_fast",
    "pfifo_head_drop",
    "pie",
    "prio",
    "qfq",
    "sfq",
    "tbf",
];

const KNOWN_ACTIONS: [&str; 4] = ["gact", "mirred", "skbedit", "vlan"];

/// The numbers of a filter's attributes that differ by kind.
struct FilterKind {
    name: &'static str,
    actions: u16,
    /// An action in the form of long ago.
    police: Option<u16>,
    flags: Option<u16>,
    counters: &'static [u16],
}

const FILTERS: [FilterKind; 8] = [
    filter("basic", 3, Some(4), None, &[5]),
    filter("cgroup", 1, Some(2), None, &[]),
    filter("flow", 9, Some(10), None, &[]),
    filter("flower", 3, None, Some(22), &[86]),
    filter("fw", 4, Some(2), None, &[]),
    filter("matchall", 2, None, Some(3), &[4]),
    filter("route", 6, Some(5), None, &[]),
    filter("u32", 7, Some(6), Some(11), &[9]),
];

const fn filter(
    name: &'static str,
    actions: u16,
    police: Option<u16>,
    flags: Option<u16>,
    counters: &'static [u16],
) -> FilterKind {
    FilterKind {
        name,
        actions,
        police,
        flags,
        counters,
    }
}

fn filter_kind(kind: &str) -> Option<&'static FilterKind> {
    FILTERS.iter().find(|known| known.name == kind)
}

/// Whether its classes are made one by one.
pub(super) fn has_classes(kind: &str) -> bool {
    WITH_CLASSES.contains(&kind)
}

/// Why an object could not be put back as it is.
pub(super) fn refusal(message: &Message) -> Option<String> {
    let kind = kind_of(message);
    let attributes = tc_attrs(message);
    match message.kind {
        libc::RTM_NEWQDISC => qdisc_refusal(&kind, attributes),
        libc::RTM_NEWTFILTER => filter_refusal(&kind, attributes),
        _ => None,
    }
}

fn qdisc_refusal(kind: &str, attributes: &[u8]) -> Option<String> {
    let options = attr(attributes, TCA_OPTIONS).unwrap_or_default();
    let entries = attr(attributes, TCA_STAB)
        .and_then(|stab| attr(stab, TCA_STAB_BASE))
        .and_then(|base| u32_at(base, STAB_ENTRIES));
    let shared = [TCA_INGRESS_BLOCK, TCA_EGRESS_BLOCK];
    let why = match kind {
        "choke" | "gred" | "red" => "the kernel does not tell its table of averages",
        "netem" => "the kernel does not tell its table of delays",
        "htb" if attr(options, TCA_HTB_OFFLOAD).is_some() => {
            "its classes are served by the device itself"
        }
        _ if !KNOWN.contains(&kind) => "nothing is known about setting it up from what it tells",
        _ if entries.is_some_and(|n| n > 0) => "the kernel does not tell its table of sizes",
        _ if shared
            .iter()
            .any(|block| attr(attributes, *block).is_some()) =>
        {
            "it shares filters with other interfaces"
        }
        _ => return None,
    };
    Some(why.into())
}

fn filter_refusal(kind: &str, attributes: &[u8]) -> Option<String> {
    let Some(numbers) = filter_kind(kind) else {
        return Some(format!("the kernel does not tell all of its {kind} filter"));
    };
    let options = attr(attributes, TCA_OPTIONS).unwrap_or_default();
    if numbers.police.is_some_and(|n| attr(options, n).is_some()) {
        return Some(format!("its {kind} filter polices"));
    }
    let known = |a: &Attr| FLOWER_KNOWN.iter().any(|range| range.contains(&a.kind));
    if kind == "flower" && !attrs(options).all(|a| known(&a)) {
        return Some("its flower filter looks into nested headers".into());
    }
    attrs(attr(options, numbers.actions).unwrap_or_default())
        .map(|action| text_attr(action.value, ACT_KIND).unwrap_or_default())
        .find(|action| !KNOWN_ACTIONS.contains(&action.as_str()))
        .map(|action| format!("the kernel does not tell all of its filter's action {action}"))
}

/// The object without what counts, and without the interface's number.
pub(super) fn described(message: &Message) -> Option<Message> {
    let mut tc = Tc::parse(&message.body)?;
    tc.index = 0;
    if !matches!(message.kind, libc::RTM_NEWTFILTER | RTM_NEWCHAIN) {
        tc.info = 0; // of a qdisc its users, of a class its qdisc
    }
    let kind = kind_of(message);
    let mut body = tc.to_bytes().to_vec();
    body.extend(rewritten(tc_attrs(message), |a| match a.kind {
        TCA_KIND | TCA_STAB | TCA_CHAIN => Some(a.value.to_vec()),
        TCA_OPTIONS => Some(described_options(message.kind, &kind, a.value)),
        _ => None,
    }));
    Some(Message {
        kind: message.kind,
        body,
        ..Message::default()
    })
}

fn described_options(object: u16, kind: &str, options: &[u8]) -> Vec<u8> {
    match (object, kind) {
        (libc::RTM_NEWQDISC, "htb") => rewritten(options, |a| {
            let mut value = a.value.to_vec();
            if a.kind == TCA_HTB_INIT {
                zero(&mut value, HTB_DIRECT_PACKETS);
            }
            Some(value)
        }),
        (libc::RTM_NEWQDISC, "sfq") => {
            let mut value = options.to_vec();
            zero(&mut value, SFQ_STATISTICS..options.len());
            value
        }
        (libc::RTM_NEWTFILTER, _) => match filter_kind(kind) {
            Some(numbers) => described_filter(numbers, options),
            None => options.to_vec(),
        },
        _ => options.to_vec(),
    }
}

fn described_filter(numbers: &FilterKind, options: &[u8]) -> Vec<u8> {
    /// `skip_hw` and `skip_sw`; the others tell what became of it.
    const FLAGS_SET: u32 = 0b11;
    rewritten(options, |a| {
        if numbers.counters.contains(&a.kind) {
            return None;
        }
        if numbers.flags == Some(a.kind) {
            let flags = u32_at(a.value, 0)? & FLAGS_SET;
            return Some(flags.to_ne_bytes().to_vec());
        }
        if numbers.actions == a.kind {
            return Some(rewritten(a.value, |action| {
                Some(described_action(action.value))
            }));
        }
        Some(a.value.to_vec())
    })
}

fn described_action(action: &[u8]) -> Vec<u8> {
    rewritten(action, |a| match a.kind {
        ACT_OPTIONS => Some(rewritten(a.value, |o| match o.kind {
            ACT_TIMES => None,
            ACT_PARAMETERS => {
                let mut value = o.value.to_vec();
                zero(&mut value, ACT_USES);
                Some(value)
            }
            _ => Some(o.value.to_vec()),
        })),
        ACT_KIND | ACT_INDEX | ACT_COOKIE | ACT_FLAGS | ACT_HW_STATS => Some(a.value.to_vec()),
        _ => None,
    })
}

/// The request that makes the kernel describe an object so.
pub(super) fn request(described: &Message, index: u32) -> Message {
    let mut tc = Tc::parse(&described.body).unwrap_or_default();
    tc.index = index;
    let kind = kind_of(described);
    let mut body = tc.to_bytes().to_vec();
    for a in attrs(tc_attrs(described)) {
        let (value, flag) = match (a.kind, described.kind, kind.as_str()) {
            // ETS alone insists on the flag, which its dumps lack.
            (TCA_OPTIONS, libc::RTM_NEWQDISC, "ets") => (ets_options(a.value), NLA_F_NESTED),
            (TCA_OPTIONS, libc::RTM_NEWQDISC, _) => (qdisc_options(&kind, a.value), a.flag()),
            (TCA_OPTIONS, _, "flower") => (flower_options(tc.info as u16, a.value), a.flag()),
            _ => (a.value.to_vec(), a.flag()),
        };
        put(&mut body, a.kind | flag, &value);
    }
    Message {
        kind: described.kind,
        body,
        ..Message::default()
    }
}

/// The kernel tells the type behind a VLAN tag, and takes that of the tag.
fn flower_options(protocol: u16, options: &[u8]) -> Vec<u8> {
    let tagged = [ETH_P_8021Q.to_be(), ETH_P_8021AD.to_be()].contains(&protocol)
        && attrs(options).any(|a| TCA_FLOWER_KEY_VLAN.contains(&a.kind));
    if !tagged {
        return options.to_vec();
    }
    let mut all = rewritten(options, |a| {
        (a.kind != TCA_FLOWER_KEY_ETH_TYPE).then(|| a.value.to_vec())
    });
    put(&mut all, TCA_FLOWER_KEY_ETH_TYPE, &protocol.to_ne_bytes());
    all
}

fn ets_options(options: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    for a in attrs(options) {
        let nested = match a.kind {
            TCA_ETS_QUANTA | TCA_ETS_PRIOMAP => NLA_F_NESTED,
            _ => a.flag(),
        };
        put(&mut all, a.kind | nested, a.value);
    }
    all
}

fn qdisc_options(kind: &str, options: &[u8]) -> Vec<u8> {
    let times = |numbers: &'static [u16], unit: u64| {
        rewritten(options, |a| match u32_at(a.value, 0) {
            Some(us) if numbers.contains(&a.kind) => Some(retold(us, unit).to_ne_bytes().into()),
            _ => Some(a.value.to_vec()),
        })
    };
    match kind {
        "codel" => times(&[1, 3, 5], CODEL_NS),
        "fq_codel" => times(&[1, 3, 7], CODEL_NS),
        "pie" => times(&[1], PSCHED_NS),
        "fq_pie" => times(&[3], PSCHED_NS),
        "htb" => rewritten(options, |a| {
            let mut value = a.value.to_vec();
            if a.kind == TCA_HTB_INIT {
                // Told as 0x30011, taken as 3.
                let version = u32_at(&value, 0)? >> 16;
                value.get_mut(..4)?.copy_from_slice(&version.to_ne_bytes());
            }
            Some(value)
        }),
        "sfq" => sfq_options(options),
        "tbf" => with_bursts(options),
        _ => options.to_vec(),
    }
}

/// The time in microseconds that the kernel, which rounds it down to its own
/// unit and what it tells down to microseconds, tells as `told`.
fn retold(told: u32, unit: u64) -> u32 {
    (told..=told.saturating_add(2))
        .find(|us| u64::from(*us) * 1000 / unit * unit / 1000 == u64::from(told))
        .unwrap_or(told)
}

/// As many flows as there are packets at most, unless nothing was said of packets:
/// then nothing is said again.
fn sfq_options(options: &[u8]) -> Vec<u8> {
    const LIMIT: usize = 8;
    const FLOWS: usize = 16;
    let mut value = options.to_vec();
    if u32_at(options, FLOWS) > u32_at(options, LIMIT) {
        zero(&mut value, LIMIT..LIMIT + 4);
    }
    value
}

/// A token bucket tells its bursts as times only, and would round the bytes that
/// these stand for down, perhaps below the size of a packet: this says the most
/// bytes that take as long.
fn with_bursts(options: &[u8]) -> Vec<u8> {
    const PARAMETERS: u16 = 1;
    const RATES: [(usize, usize, u16, u16); 2] = [(0, 28, 4, 6), (12, 32, 5, 7)];
    let mut all = options.to_vec();
    let Some(parameters) = attr(options, PARAMETERS) else {
        return all;
    };
    for (spec, time, rate64, burst) in RATES {
        let wide = attr(options, rate64)
            .and_then(|value| value.try_into().ok())
            .map(u64::from_ne_bytes);
        let rate = wide.or_else(|| u32_at(parameters, spec + 8).map(u64::from));
        let bytes = parameters
            .get(spec..spec + 12)
            .zip(u32_at(parameters, time))
            .zip(rate)
            .and_then(|((spec, ticks), rate)| burst_bytes(spec, ticks, rate));
        if let Some(bytes) = bytes {
            put(&mut all, burst, &bytes.to_ne_bytes());
        }
    }
    all
}

/// The most bytes that take `ticks`, unless the link pads packets to cells.
fn burst_bytes(spec: &[u8], ticks: u32, rate: u64) -> Option<u32> {
    const LINKLAYER_MASK: u8 = 15;
    const ATM: u8 = 2;
    if rate == 0 || spec.get(1)? & LINKLAYER_MASK == ATM {
        return None;
    }
    let overhead = u16::from_ne_bytes(spec.get(2..4)?.try_into().ok()?);
    let below_ns = (u128::from(ticks) + 1) * u128::from(PSCHED_NS);
    let bytes = (below_ns * u128::from(rate)).div_ceil(1_000_000_000) - 1;
    u32::try_from(bytes.saturating_sub(overhead.into())).ok()
}

/// Attributes with other values, or without some.
fn rewritten(bytes: &[u8], mut change: impl FnMut(&Attr) -> Option<Vec<u8>>) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes.len());
    for a in attrs(bytes) {
        if let Some(value) = change(&a) {
            put(&mut all, a.kind | a.flag(), &value);
        }
    }
    all
}

fn zero(bytes: &mut [u8], range: std::ops::Range<usize>) {
    if let Some(counters) = bytes.get_mut(range) {
        counters.fill(0);
    }
}

/// What an object is called in a message, after the fashion of `tc`.
pub(super) fn name(message: &Message) -> String {
    let tc = Tc::parse(&message.body).unwrap_or_default();
    let kind = kind_of(message);
    let at = handle_text(tc.handle);
    let parent = handle_text(tc.parent);
    match message.kind {
        libc::RTM_NEWQDISC => format!("qdisc {kind} {at}"),
        libc::RTM_NEWTCLASS => format!("class {kind} {at}"),
        RTM_NEWCHAIN => {
            let chain = u32_attr(tc_attrs(message), TCA_CHAIN).unwrap_or(0);
            format!("filter chain {chain} of {parent}")
        }
        _ => format!(
            "{kind} filter of {parent} with preference {} and handle {:#x}",
            tc.info >> 16,
            tc.handle
        ),
    }
}

fn handle_text(handle: u32) -> String {
    match (handle >> 16, handle & 0xffff) {
        (major, 0) => format!("{major:x}:"),
        (major, minor) => format!("{major:x}:{minor:x}"),
    }
}

/// The least a message about traffic control has.
pub(super) fn is_whole(message: &Message) -> bool {
    message.body.len() >= TCMSG && !(kind_of(message).is_empty() && message.kind != RTM_NEWCHAIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use qlinux_properties::cases;

    fn qdisc(kind: &str, options: &[u8]) -> Message {
        Message::new(libc::RTM_NEWQDISC, &Tc::default().to_bytes())
            .with_text(TCA_KIND, kind)
            .with(TCA_OPTIONS, options)
            .with(7, &[1; 40])
    }

    fn options(message: &Message) -> &[u8] {
        attr(tc_attrs(message), TCA_OPTIONS).unwrap()
    }

    #[test]
    fn times_are_told_again() {
        for us in (1..20_000).chain([99_999, 1_000_000, u32::MAX / 4]) {
            for unit in [CODEL_NS, PSCHED_NS] {
                let told = |us: u32| (u64::from(us) * 1000 / unit * unit / 1000) as u32;
                assert_eq!(told(retold(told(us), unit)), told(us), "{us} {unit}");
            }
        }
        assert_eq!(retold(4999, CODEL_NS), 5000);
    }

    #[test]
    fn bursts_take_as_long() {
        for rate in [10_000, 9_876_543 / 8, 125_000_000, 12_500_000_000u64] {
            for burst in [1514u64, 1600, 5000, 1 << 20] {
                let ticks = burst * 1_000_000_000 / rate / PSCHED_NS;
                let ticks = u32::try_from(ticks).unwrap();
                let found = u64::from(burst_bytes(&[0; 12], ticks, rate).unwrap());
                assert!(found >= burst, "{found} at least {burst} at {rate}");
                let again = found * 1_000_000_000 / rate / PSCHED_NS;
                assert_eq!(again, u64::from(ticks));
            }
        }
        let mut atm = [0; 12];
        atm[1] = 2;
        assert_eq!(burst_bytes(&atm, 100, 1000), None);
        assert_eq!(burst_bytes(&[0; 12], 100, 0), None);
    }

    #[test]
    fn counters_do_not_count() {
        let mut told = Vec::new();
        let init: Vec<u8> = [0x30011u32, 10, 3, 0, 77]
            .iter()
            .flat_map(|n| n.to_ne_bytes())
            .collect();
        put(&mut told, TCA_HTB_INIT, &init);
        let kept = described(&qdisc("htb", &told)).unwrap();
        assert_eq!(attr(tc_attrs(&kept), 7), None);
        let kept_init = attr(options(&kept), TCA_HTB_INIT).unwrap();
        assert_eq!(u32_at(kept_init, 16), Some(0));
        let asked = request(&kept, 9);
        let asked_init = attr(options(&asked), TCA_HTB_INIT).unwrap();
        assert_eq!(
            (u32_at(asked_init, 0), u32_at(asked_init, 8)),
            (Some(3), Some(3))
        );
        assert_eq!(Tc::parse(&asked.body).unwrap().index, 9);
    }

    #[test]
    fn refusals() {
        assert_eq!(refusal(&qdisc("fq", &[])), None);
        for kind in ["red", "netem", "taprio", "", "ours"] {
            assert!(refusal(&qdisc(kind, &[])).is_some(), "{kind}");
        }
        let mut base = [0; 24];
        let mut stab = Vec::new();
        put(&mut stab, TCA_STAB_BASE, &base);
        assert_eq!(refusal(&qdisc("fq", &[]).with(TCA_STAB, &stab)), None);
        base[STAB_ENTRIES] = 1;
        stab.clear();
        put(&mut stab, TCA_STAB_BASE, &base);
        assert!(refusal(&qdisc("fq", &[]).with(TCA_STAB, &stab)).is_some());
    }

    fn a_kind() -> impl Strategy<Value = String> {
        let filters = FILTERS.iter().map(|f| f.name);
        let all: Vec<String> = KNOWN.into_iter().chain(filters).map(Into::into).collect();
        proptest::sample::select(all)
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn odd_messages(kind in a_kind(), object in proptest::sample::select(vec![36u16, 40, 44, 100]),
            fixed in any::<[u8; TCMSG]>(),
            parts in proptest::collection::vec((0u16..30, proptest::collection::vec(any::<u8>(), 0..80)), 0..5),
            cut in 0usize..300) {
            let mut inner = Vec::new();
            for (number, value) in &parts {
                put(&mut inner, *number, value);
            }
            for options in [inner.clone(), parts.concat_values()] {
                let mut message = Message::new(object, &fixed)
                    .with_text(TCA_KIND, &kind)
                    .with(TCA_OPTIONS, &options)
                    .with(TCA_STAB, &inner);
                message.body.truncate(cut);
                let _ = (refusal(&message), name(&message), is_whole(&message), request(&message, 1));
                if let Some(kept) = described(&message) {
                    // Describing it a second time changes nothing.
                    prop_assert_eq!(described(&kept), Some(kept.clone()));
                    let _ = request(&kept, 1);
                }
            }
        }
    }

    trait ConcatValues {
        fn concat_values(&self) -> Vec<u8>;
    }

    impl ConcatValues for Vec<(u16, Vec<u8>)> {
        fn concat_values(&self) -> Vec<u8> {
            self.iter().flat_map(|(_, value)| value.clone()).collect()
        }
    }
}
