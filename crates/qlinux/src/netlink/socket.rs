// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asking the kernel and reading its answers.

use super::message::{attr, Message};
use crate::{Error, Result};
use netlink_packet_core::{
    NLMSG_DONE, NLMSG_ERROR, NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_DUMP, NLM_F_DUMP_INTR,
    NLM_F_REQUEST,
};
use netlink_sys::{protocols::NETLINK_ROUTE, SocketAddr};
use nix::errno::Errno;
use nix::libc;
use std::io;

/// The kernel sends at most 32 KiB at once, except for one object that is larger.
const RECEIVE_MAX: usize = 1 << 18;
/// So often a list is asked for again that changed while it was sent.
const DUMP_TRIES: u32 = 10;
const NLMSGERR_ATTR_MSG: u16 = 1;

/// What the kernel refused.
#[derive(Debug)]
pub(super) struct Refused {
    pub errno: Errno,
    /// Its words, if it had any.
    pub words: Option<String>,
}

impl Refused {
    /// As the error of the whole operation.
    pub fn error(self, doing: impl Into<String>) -> Error {
        let doing = doing.into();
        if matches!(self.errno, Errno::EPERM | Errno::EACCES) {
            return Error::NetPrivilege { doing };
        }
        Error::Netlink {
            doing,
            why: self.why(),
            errno: self.errno,
        }
    }

    /// The reason, in the kernel's words and the error's.
    pub fn why(&self) -> String {
        let errno = self.errno.desc();
        match &self.words {
            Some(words) => format!("{} ({errno})", words.trim_end_matches('.')),
            None => errno.into(),
        }
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused {
            errno: Errno::from_raw(error.raw_os_error().unwrap_or(Errno::EIO as i32)),
            words: None,
        }
    }
}

type Answer<T> = std::result::Result<T, Refused>;

/// A socket of rtnetlink in this network namespace.
pub(super) struct Socket {
    socket: netlink_sys::Socket,
    sequence: u32,
}

impl Socket {
    /// Opens one on which the kernel says why it refuses.
    pub fn open() -> Result<Socket> {
        let opened = || -> io::Result<netlink_sys::Socket> {
            let mut socket = netlink_sys::Socket::new(NETLINK_ROUTE)?;
            socket.set_ext_ack(true)?;
            socket.set_cap_ack(true)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        };
        match opened() {
            Ok(socket) => Ok(Socket {
                socket,
                sequence: 0,
            }),
            Err(e) => Err(Refused::from(e).error("opening a netlink socket")),
        }
    }

    /// Has the kernel do something and waits until it is done.
    pub fn request(&mut self, mut message: Message, flags: u16) -> Answer<()> {
        message.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        self.send(&mut message)?;
        self.answers(|_| ())
    }

    /// Asks for one object.
    pub fn get(&mut self, mut message: Message) -> Answer<Option<Message>> {
        message.flags = NLM_F_REQUEST | NLM_F_ACK;
        self.send(&mut message)?;
        let mut found = None;
        self.answers(|answer| found = Some(answer))?;
        Ok(found)
    }

    /// Asks for a list, again if it changed while it was sent.
    pub fn dump(&mut self, message: &Message) -> Answer<Vec<Message>> {
        for _ in 0..DUMP_TRIES {
            let mut message = message.clone();
            message.flags = NLM_F_REQUEST | NLM_F_DUMP;
            self.send(&mut message)?;
            let mut found = Vec::new();
            let mut torn = false;
            self.answers(|answer| {
                torn |= answer.flags & NLM_F_DUMP_INTR != 0;
                found.push(answer);
            })?;
            if !torn {
                return Ok(found);
            }
        }
        Err(Refused {
            errno: Errno::EAGAIN,
            words: Some("the list changes faster than it is read".into()),
        })
    }

    fn send(&mut self, message: &mut Message) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        message.sequence = self.sequence;
        self.socket.send(&message.to_bytes(), 0).map(|_| ())
    }

    /// Passes on the answers to the last request until it is done.
    fn answers(&mut self, mut each: impl FnMut(Message)) -> Answer<()> {
        loop {
            for answer in self.receive()? {
                if answer.sequence != self.sequence {
                    continue;
                }
                match ended(&answer) {
                    Some(end) => return end,
                    None => each(answer),
                }
            }
        }
    }

    fn receive(&mut self) -> Answer<Vec<Message>> {
        let mut bytes = Vec::with_capacity(RECEIVE_MAX);
        let (length, from) = loop {
            match self.socket.recv_from(&mut bytes, libc::MSG_TRUNC) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => break other?,
            }
        };
        if from.port_number() != 0 {
            return Ok(Vec::new());
        }
        let odd = || Refused {
            errno: Errno::EBADMSG,
            words: Some(format!("an answer of {length} bytes is not understood")),
        };
        bytes.get(..length).and_then(Message::split).ok_or_else(odd)
    }
}

/// Whether this answer is the last, and what it says.
fn ended(answer: &Message) -> Option<Answer<()>> {
    if answer.kind != NLMSG_ERROR && answer.kind != NLMSG_DONE {
        return None;
    }
    let code = match answer.body.get(..4).map(<[u8; 4]>::try_from) {
        Some(Ok(bytes)) => i32::from_ne_bytes(bytes),
        // A list may end without saying how.
        _ if answer.kind == NLMSG_DONE => 0,
        _ => -(Errno::EBADMSG as i32),
    };
    if code >= 0 {
        return Some(Ok(()));
    }
    Some(Err(Refused {
        errno: Errno::from_raw(code.saturating_neg()),
        words: words(answer),
    }))
}

/// The kernel's words in an answer that refuses.
fn words(answer: &Message) -> Option<String> {
    if answer.flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let from = if answer.kind == NLMSG_DONE {
        4
    } else if answer.flags & NLM_F_CAPPED != 0 {
        20
    } else {
        let echoed = super::message::u32_at(&answer.body, 4)?;
        usize::try_from(echoed)
            .ok()?
            .checked_next_multiple_of(4)?
            .checked_add(4)?
    };
    let text = attr(answer.body.get(from..)?, NLMSGERR_ATTR_MSG)?;
    let text = text.split(|b| *b == 0).next()?;
    Some(String::from_utf8_lossy(text).trim().to_string()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::message::put;
    use super::*;

    fn refusal(flags: u16, echoed: &[u8], text: &[u8]) -> Message {
        let mut body = (-(Errno::EINVAL as i32)).to_ne_bytes().to_vec();
        body.extend_from_slice(echoed);
        put(&mut body, NLMSGERR_ATTR_MSG, text);
        Message {
            kind: NLMSG_ERROR,
            flags,
            sequence: 0,
            body,
        }
    }

    #[test]
    fn the_kernels_words() {
        let echoed = Message::new(36, &[1, 2, 3, 4]).to_bytes();
        let whole = refusal(NLM_F_ACK_TLVS, &echoed, b"Too odd.\0");
        let capped = refusal(NLM_F_ACK_TLVS | NLM_F_CAPPED, &echoed[..16], b"Too odd.\0");
        for answer in [whole, capped] {
            let refused = ended(&answer).unwrap().unwrap_err();
            assert_eq!(refused.errno, Errno::EINVAL);
            let said = refused.error("adding it").to_string();
            assert!(
                said.starts_with("adding it failed: Too odd (Invalid argument)"),
                "{said}"
            );
            for length in 0..answer.body.len() {
                let mut short = answer.clone();
                short.body.truncate(length);
                assert!(matches!(ended(&short), Some(Err(_))));
            }
        }
        let silent = refusal(0, &echoed, b"");
        assert!(ended(&silent).unwrap().unwrap_err().words.is_none());
    }

    #[test]
    fn a_list_ends() {
        let done = Message::new(NLMSG_DONE, &[]);
        assert!(ended(&done).unwrap().is_ok());
        assert!(ended(&Message::new(36, &[])).is_none());
    }
}
