// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast a processor has to be: what a kernel would do with what it is told.

use proptest::prelude::*;
use qlinux_core::speed::{Speed, FULL};
use qlinux_properties::cases;

const MS: u64 = 1_000_000;
const TICK_NS: u64 = 4 * MS;

/// A processor whose governor gives a quarter more than it is told that is needed, as schedutil,
/// and at least a tenth.
struct Processor {
    state: Speed,
    told: u32,
    now_ns: u64,
}

impl Processor {
    fn new() -> Processor {
        Processor {
            state: Speed::new(0),
            told: FULL,
            now_ns: 0,
        }
    }

    fn speed(&self) -> u32 {
        (self.told * 5 / 4).clamp(FULL / 10, FULL)
    }

    fn see(&mut self) {
        let told = self.state.see(self.speed(), self.now_ns);
        self.told = told.unwrap_or(self.told);
    }

    /// Does so much work, which takes so long at full speed. Returns how long it took.
    fn work(&mut self, work_ns: u64) -> u64 {
        let begun_ns = self.now_ns;
        self.state.serves(self.now_ns);
        self.see();
        let mut left = work_ns * u64::from(FULL);
        while left > 0 {
            let speed = u64::from(self.speed());
            let step_ns = TICK_NS.min(left.div_ceil(speed));
            self.now_ns += step_ns;
            left = left.saturating_sub(step_ns * speed);
            if step_ns == TICK_NS {
                self.see();
            }
        }
        self.now_ns - begun_ns
    }

    fn rest(&mut self, ns: u64) {
        self.state.rests(self.now_ns);
        self.now_ns += ns;
        if self.state.over(self.now_ns) {
            self.told = 0;
        }
    }
}

#[test]
fn who_is_always_busy_has_full_speed_soon() {
    let mut cpu = Processor::new();
    cpu.work(100 * MS);
    for _ in 0..200 {
        cpu.rest(100 * MS);
        cpu.work(MS / 10);
    }
    assert!(cpu.speed() < FULL / 5, "hardly used: {}", cpu.speed());
    cpu.work(30 * MS);
    assert_eq!(cpu.speed(), FULL);
}

#[test]
fn long_rest_needs_nothing_and_what_comes_again_finds_half() {
    let mut cpu = Processor::new();
    cpu.work(100 * MS);
    let before = cpu.told;
    cpu.rest(10_000 * MS);
    assert_eq!(cpu.told, 0);
    cpu.work(MS);
    assert!(cpu.told * 9 / 4 >= before, "{} of {before}", cpu.told);
}

proptest! {
    #![proptest_config(cases(256))]

    /// What is used for a part of the time is done in its period, at a speed that is not far more
    /// than it takes: `work` of every `period`.
    #[test]
    fn speed_is_what_is_needed_and_little_more(
        period_ms in 5u64..100, percent in 5u64..80,
    ) {
        let (period_ns, work_ns) = (period_ms * MS, period_ms * MS * percent / 100);
        let mut cpu = Processor::new();
        let mut speeds = Vec::new();
        for round in 0..400 {
            let took_ns = cpu.work(work_ns);
            prop_assert!(took_ns <= period_ns, "{took_ns} of {period_ns}");
            cpu.rest((period_ns - took_ns).max(1));
            if round >= 200 {
                speeds.push(cpu.speed());
            }
        }
        let mean = speeds.iter().sum::<u32>() / speeds.len() as u32;
        let least = FULL * percent as u32 / 100;
        prop_assert!(mean >= least, "{mean} of {least}");
        // Work that would go on for two ticks might need any speed.
        let short = FULL * (work_ns as u32 / 1000) / (2 * TICK_NS as u32 / 1000);
        let most = 2 * least.max(short) + FULL / 10;
        prop_assert!(mean <= most, "{mean}, at most {most}");
    }

    /// Whatever happens, the kernel is told a speed that there is.
    #[test]
    fn only_speeds_that_there_are(steps in prop::collection::vec((0u8..4, 0u64..1 << 45, 0u32..2000), 1..60)) {
        let (mut cpu, mut now_ns) = (Speed::new(0), 0);
        for (what, ns, speed) in steps {
            now_ns += ns;
            match what {
                0 => cpu.rests(now_ns),
                1 => cpu.serves(now_ns),
                2 => drop(cpu.over(now_ns)),
                _ => {
                    if let Some(told) = cpu.see(speed, now_ns) {
                        prop_assert!(told <= FULL, "{told}");
                    }
                }
            }
        }
    }
}
