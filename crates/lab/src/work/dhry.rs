// SPDX-License-Identifier: MIT OR Apache-2.0
//! A mix of work in the manner of Dhrystone: assignments to records and
//! through pointers, comparisons of strings, small procedures, branches on
//! enumerations, arrays. It is not the benchmark and its numbers compare only
//! with themselves.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Colour {
    Red,
    Green,
    Blue,
}

#[derive(Clone)]
struct Record {
    colour: Colour,
    number: i32,
    text: [u8; 31],
    next: Option<Box<Record>>,
}

struct State {
    head: Record,
    table: [[i32; 20]; 20],
    line: [i32; 40],
    switch: bool,
}

impl Record {
    fn new(text: &[u8; 31]) -> Record {
        Record {
            colour: Colour::Red,
            number: 0,
            text: *text,
            next: None,
        }
    }
}

#[inline(never)]
fn other_colour(colour: Colour, large: bool) -> Colour {
    match colour {
        Colour::Red if large => Colour::Green,
        Colour::Red => Colour::Blue,
        Colour::Green => Colour::Blue,
        Colour::Blue => Colour::Red,
    }
}

#[inline(never)]
fn first_difference(a: &[u8; 31], b: &[u8; 31]) -> usize {
    let both = a.iter().zip(b);
    both.take_while(|(x, y)| black_box(**x) == **y).count()
}

#[inline(never)]
fn fill_arrays(state: &mut State, at: usize, value: i32) {
    let row = at % 16 + 2;
    state.line[row] = value;
    state.line[row + 1] = state.line[row];
    state.line[row + 20] = row as i32;
    for column in row..row + 2 {
        state.table[row][column] = row as i32;
    }
    state.table[row][row - 1] += 1;
    state.table[(row + 10) % 20][row] = state.line[row];
}

#[inline(never)]
fn follow(record: &mut Record, number: i32) {
    let copy = record.text;
    if let Some(next) = record.next.as_deref_mut() {
        next.number = number.wrapping_add(5);
        next.colour = other_colour(record.colour, number > 100);
        if next.colour == Colour::Green {
            next.number = record.number;
        } else {
            next.text = copy;
        }
    }
    record.number = record.number.wrapping_add(number);
}

/// One loop of the mix.
#[inline(never)]
fn round(state: &mut State, loops: u64) {
    let mut a = 2;
    let mut b = 3;
    let text = b"A RECORD'S TEXT, THE SECOND OF ";
    state.switch = !state.switch;
    if first_difference(&state.head.text, text) < 22 {
        state.head.text[20] = b'0' + (loops % 10) as u8;
        b = 7;
    }
    while a < b {
        let c: i32 = black_box(5 * a - b);
        fill_arrays(state, a as usize + c.unsigned_abs() as usize, c);
        a += 1;
    }
    follow(&mut state.head, a);
    for letter in b'A'..=b'B' + u8::from(state.switch) {
        if other_colour(state.head.colour, letter > b'B') == Colour::Green {
            state.head.text[30] = letter;
        }
    }
    b = black_box(b * a);
    a = b / black_box(3);
    state.head.number = 7 * (b - a) - state.head.number % 1000;
    state.head.colour = other_colour(state.head.colour, state.switch);
}

fn fresh() -> State {
    let mut head = Record::new(b"A RECORD'S TEXT, THE FIRST ONE ");
    head.next = Some(Box::new(Record::new(b"A RECORD'S TEXT, THE SECOND OF ")));
    State {
        head,
        table: [[0; 20]; 20],
        line: [0; 40],
        switch: false,
    }
}

/// Loops for ever.
pub fn run(count: &AtomicU64) {
    let mut state = fresh();
    loop {
        let loops = count.load(Ordering::Relaxed);
        round(black_box(&mut state), loops);
        count.store(loops + 1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_comes_back_to_where_it_was() {
        let (mut a, mut b) = (fresh(), fresh());
        for loops in 0..1000 {
            round(&mut a, loops);
            round(&mut b, loops);
        }
        assert_eq!(a.head.number, b.head.number);
        assert_eq!(a.line, b.line);
        assert!(a.head.number.abs() < 1_000_000, "it must not run away");
    }
}
