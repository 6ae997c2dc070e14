// SPDX-License-Identifier: MIT OR Apache-2.0
//! SFQ's bound of fairness on the packets of a link: while f and m both have packets,
//! |W_f/w_f - W_m/w_m| <= l_f/w_f + l_m/w_m over any time, l being their longest packets (OSDI'96, theorem 1).

use super::{port, Capture, Tree};
use std::collections::BTreeMap;

/// What siblings got by their weights, one less the other.
struct Pair {
    /// Numbers of the classes.
    of: [usize; 2],
    now: f64,
    least: f64,
    most: f64,
}

/// The numbers of a class and of those above it.
fn line(tree: &Tree, index: usize) -> Vec<usize> {
    let mut at = Some(index);
    let above = |index: usize| {
        let parent = tree.classes[index].parent();
        tree.classes.iter().position(|class| class.path == parent)
    };
    std::iter::from_fn(|| {
        let now = at?;
        at = above(now);
        Some(now)
    })
    .collect()
}

fn pairs(tree: &Tree) -> Vec<Pair> {
    let classes = &tree.classes;
    let all = (0..classes.len())
        .flat_map(|first| (first + 1..classes.len()).map(move |second| [first, second]));
    let siblings =
        all.filter(|&[first, second]| classes[first].parent() == classes[second].parent());
    siblings
        .map(|of| Pair {
            of,
            now: 0.0,
            least: 0.0,
            most: 0.0,
        })
        .collect()
}

/// The farthest that two siblings came apart in any stretch of `capture`, in percent of the bound. All leaves must
/// have had packets all the time.
pub fn apart(tree: &Tree, capture: &Capture) -> f64 {
    let lines: BTreeMap<u16, Vec<usize>> = tree
        .leaves()
        .map(|leaf| (port(leaf), line(tree, leaf)))
        .collect();
    let weight = |index: usize| f64::from(tree.classes[index].weight);
    let mut longest = vec![0.0_f64; tree.classes.len()];
    let mut pairs = pairs(tree);
    for packet in &capture.packets {
        let Some(line) = lines.get(&packet.port) else {
            continue;
        };
        let bytes = f64::from(packet.bytes);
        for &index in line {
            longest[index] = longest[index].max(bytes);
        }
        for pair in &mut pairs {
            let [first, second] = pair.of;
            if line.contains(&first) {
                pair.now += bytes / weight(first);
            } else if line.contains(&second) {
                pair.now -= bytes / weight(second);
            }
            pair.least = pair.least.min(pair.now);
            pair.most = pair.most.max(pair.now);
        }
    }
    let part = |pair: &Pair| {
        let allowed: f64 = pair.of.iter().map(|&i| longest[i] / weight(i)).sum();
        100.0 * (pair.most - pair.least) / allowed
    };
    pairs.iter().map(part).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::{Packet, Span};
    use super::*;

    /// Packets of these classes and lengths, in this order.
    fn capture(packets: &[(usize, u32)]) -> Capture {
        let packet = |(at, &(class, bytes)): (usize, &(usize, u32))| Packet {
            at_ns: at as u64,
            stamp_ns: 0,
            port: port(class),
            tcp: false,
            bytes,
            number: 0,
        };
        Capture {
            packets: packets.iter().enumerate().map(packet).collect(),
            span: Span::from(0, packets.len() as u64),
        }
    }

    #[test]
    fn farthest_apart_in_any_stretch() {
        let tree = Tree::flat(&[1, 2]);
        // 100 for the one, 200 for the other: in turn it is half of what is allowed, 100/1 + 200/2.
        let fair = capture(&[(0, 100), (1, 200), (0, 100), (1, 200)]);
        assert_eq!(apart(&tree, &fair), 50.0);
        // Two of each: allowed, but just so.
        let edge = capture(&[(0, 100), (0, 100), (1, 200), (1, 200)]);
        assert_eq!(apart(&tree, &edge), 100.0);
        let unfair = capture(&[(0, 100), (0, 100), (0, 100), (1, 200)]);
        assert_eq!(apart(&tree, &unfair), 150.0);
    }

    #[test]
    fn classes_that_hold_others_count_what_is_below() {
        let tree = Tree::new([("/a", 1), ("/b", 1), ("/b/x", 1), ("/b/y", 1)]);
        assert_eq!(line(&tree, 3), [3, 1]);
        let fair = capture(&[(0, 100), (2, 100), (0, 100), (3, 100)]);
        assert_eq!(apart(&tree, &fair), 50.0);
        // /b has its half, and gives it to /b/x alone.
        let unfair = [(0, 100), (2, 100)].repeat(3);
        let with_y = [unfair, vec![(3, 100)]].concat();
        assert_eq!(apart(&tree, &capture(&with_y)), 150.0);
    }
}
