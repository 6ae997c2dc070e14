// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages and attributes of rtnetlink, as bytes. Nothing here trusts a length.

use netlink_packet_core::{NetlinkBuffer, NlasIterator, NLA_F_NESTED};

const HEADER: usize = 16;
const ATTR_HEADER: usize = 4;

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// One message without its netlink header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub kind: u16,
    pub flags: u16,
    pub sequence: u32,
    pub body: Vec<u8>,
}

impl Message {
    /// A request with a fixed part, to which attributes are added.
    pub fn new(kind: u16, fixed: &[u8]) -> Message {
        Message {
            kind,
            body: fixed.to_vec(),
            ..Message::default()
        }
    }

    /// Adds an attribute.
    pub fn with(mut self, kind: u16, value: &[u8]) -> Message {
        put(&mut self.body, kind, value);
        self
    }

    /// Adds a text, which ends with a zero byte.
    pub fn with_text(self, kind: u16, text: &str) -> Message {
        let mut value = text.as_bytes().to_vec();
        value.push(0);
        self.with(kind, &value)
    }

    /// With its header.
    pub fn to_bytes(&self) -> Vec<u8> {
        let length = HEADER + self.body.len();
        let mut bytes = Vec::with_capacity(aligned(length));
        bytes.extend_from_slice(&(length as u32).to_ne_bytes());
        bytes.extend_from_slice(&self.kind.to_ne_bytes());
        bytes.extend_from_slice(&self.flags.to_ne_bytes());
        bytes.extend_from_slice(&self.sequence.to_ne_bytes());
        bytes.extend_from_slice(&0u32.to_ne_bytes());
        bytes.extend_from_slice(&self.body);
        bytes.resize(aligned(length), 0);
        bytes
    }

    /// All messages that stand in `bytes` one after the other; `None` if they
    /// do not fill it.
    pub fn split(mut bytes: &[u8]) -> Option<Vec<Message>> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let found = NetlinkBuffer::new_checked(bytes).ok()?;
            all.push(Message {
                kind: found.message_type(),
                flags: found.flags(),
                sequence: found.sequence_number(),
                body: found.payload().to_vec(),
            });
            let length = usize::try_from(found.length()).ok()?;
            bytes = bytes.get(aligned(length)..).unwrap_or_default();
        }
        Some(all)
    }
}

/// An attribute, its type without the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attr<'a> {
    pub kind: u16,
    pub nested: bool,
    pub value: &'a [u8],
}

impl Attr<'_> {
    /// The flag in its type.
    pub fn flag(&self) -> u16 {
        if self.nested {
            NLA_F_NESTED
        } else {
            0
        }
    }
}

/// The attributes that stand in `bytes`, up to the first that does not fit.
pub(super) fn attrs(bytes: &[u8]) -> impl Iterator<Item = Attr<'_>> {
    let mut from = 0;
    NlasIterator::new(bytes).map_while(move |found| {
        let found = found.ok()?;
        let length = usize::from(found.length());
        let value = bytes.get(from + ATTR_HEADER..from + length)?;
        from += aligned(length);
        Some(Attr {
            kind: found.kind(),
            nested: found.nested_flag(),
            value,
        })
    })
}

/// The value of the first attribute of this type.
pub(super) fn attr(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attrs(bytes).find(|a| a.kind == kind).map(|a| a.value)
}

/// A number at an offset.
pub(super) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let end = offset.checked_add(4)?;
    let found = bytes.get(offset..end)?.try_into().ok()?;
    Some(u32::from_ne_bytes(found))
}

/// The number in the first attribute of this type.
pub(super) fn u32_attr(bytes: &[u8], kind: u16) -> Option<u32> {
    u32_at(attr(bytes, kind)?, 0)
}

/// The text in the first attribute of this type, without its zero byte.
pub(super) fn text_attr(bytes: &[u8], kind: u16) -> Option<String> {
    let text = attr(bytes, kind)?.split(|b| *b == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// Appends an attribute, its type with the flags if any; one that is longer than
/// the format allows is left out.
pub(super) fn put(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let Ok(length) = u16::try_from(ATTR_HEADER + value.len()) else {
        return;
    };
    bytes.extend_from_slice(&length.to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(aligned(bytes.len()), 0);
}
