// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packets that came over a link.

use crate::work::tap;

/// A stretch of time, CLOCK_MONOTONIC.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Span {
    /// Included.
    pub begin_ns: u64,
    /// Not included.
    pub end_ns: u64,
}

impl Span {
    /// So many nanoseconds from `begin_ns` on.
    pub fn from(begin_ns: u64, length_ns: u64) -> Span {
        Span {
            begin_ns,
            end_ns: begin_ns + length_ns,
        }
    }

    /// In seconds.
    pub fn seconds(self) -> f64 {
        (self.end_ns - self.begin_ns) as f64 / 1e9
    }
}

/// A packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Packet {
    /// Its last byte was here.
    pub at_ns: u64,
    /// It was sent, or due; 0 where the packet does not say.
    pub stamp_ns: u64,
    /// Of its class: [`super::port`], or the server's.
    pub port: u16,
    /// Not UDP.
    pub tcp: bool,
    /// On the wire: Ethernet header and all above it, of each segment.
    pub bytes: u32,
    /// Of its sender, 24 bits.
    pub number: u32,
}

/// The packets of one stretch.
pub struct Capture {
    /// As they came.
    pub packets: Vec<Packet>,
    /// When that was.
    pub span: Span,
}

impl Capture {
    /// From the words of the far end's log.
    pub fn new(words: &[u64], span: Span) -> Capture {
        let packet = |words: &[u64]| {
            let (port, tcp, bytes, number) = tap::unpack(words[2]);
            Packet {
                at_ns: words[0],
                stamp_ns: words[1],
                port,
                tcp,
                bytes,
                number,
            }
        };
        let all = words.chunks_exact(tap::WORDS).map(packet);
        let within = |p: &Packet| (span.begin_ns..span.end_ns).contains(&p.at_ns);
        Capture {
            packets: all.filter(within).collect(),
            span,
        }
    }

    /// Packets of a stretch.
    pub fn within(&self, span: Span) -> &[Packet] {
        let at = |time_ns| self.packets.partition_point(|p| p.at_ns < time_ns);
        &self.packets[at(span.begin_ns)..at(span.end_ns)]
    }

    /// Packets of a class.
    pub fn of(&self, port: u16) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(move |p| p.port == port)
    }

    /// Bytes of a class in a stretch.
    pub fn bytes(&self, port: u16, span: Span) -> f64 {
        let of_class = self.within(span).iter().filter(|p| p.port == port);
        of_class.map(|p| f64::from(p.bytes)).sum()
    }

    /// Bytes of all classes in a stretch.
    pub fn total(&self, span: Span) -> f64 {
        self.within(span).iter().map(|p| f64::from(p.bytes)).sum()
    }

    /// All stretches of `length_ns`, one every `step_ns`.
    pub fn windows(&self, length_ns: u64, step_ns: u64) -> impl Iterator<Item = Span> + '_ {
        let starts = (self.span.begin_ns..).step_by(step_ns as usize);
        let all = starts.map(move |begin_ns| Span::from(begin_ns, length_ns));
        all.take_while(|span| span.end_ns <= self.span.end_ns)
    }

    /// The greatest error of any class's part of what all received, in percent of the part it should have had: pairs
    /// (port, part).
    pub fn worst_share(&self, parts: &[(u16, f64)], span: Span) -> f64 {
        let total: f64 = parts.iter().map(|(port, _)| self.bytes(*port, span)).sum();
        let errors = parts
            .iter()
            .map(|&(port, part)| 100.0 * (self.bytes(port, span) / (total * part) - 1.0).abs());
        errors.fold(0.0, f64::max)
    }

    /// How far the rate is from `rate` bits in a second, in percent.
    pub fn rate_error(&self, rate: u64, span: Span) -> f64 {
        100.0 * (8.0 * self.total(span) / span.seconds() / rate as f64 - 1.0).abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture() -> Capture {
        let packet = |at_ns: u64, port, bytes| Packet {
            at_ns,
            stamp_ns: 0,
            port,
            tcp: false,
            bytes,
            number: 0,
        };
        Capture {
            packets: vec![packet(10, 1, 100), packet(20, 2, 300), packet(30, 1, 100)],
            span: Span::from(0, 40),
        }
    }

    #[test]
    fn bytes_and_windows() {
        let capture = capture();
        assert_eq!(capture.total(Span::from(10, 20)), 400.0);
        assert_eq!(capture.bytes(1, capture.span), 200.0);
        assert_eq!(capture.windows(20, 10).count(), 3);
        let error = capture.worst_share(&[(1, 0.5), (2, 0.5)], capture.span);
        assert!((error - 20.0).abs() < 1e-9, "{error}");
        // 500 bytes in 40 ns.
        assert!(capture.rate_error(100_000_000_000, capture.span) < 1e-9);
    }
}
