// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the kernel is told how fast each processor has to be (core/cpu/speed.h).

use std::fs;
use std::path::Path;

/// Where the kernel shows what sets frequencies.
const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";
/// The governor that asks the scheduler.
const GOVERNOR: &str = "schedutil";

/// How fast processors run while H-SFQ schedules them, where the kernel's `schedutil` sets their
/// frequency. Other governors, and processors that set their own, do not ask the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frequency {
    /// By load where `schedutil` can be chosen; elsewhere there is nobody to tell.
    #[default]
    Auto,
    /// As fast as what they are used for asks.
    Load,
    /// As fast as they can while they serve somebody.
    Full,
}

impl Frequency {
    /// Is the kernel told?
    pub fn by_load(self) -> bool {
        match self {
            Frequency::Auto => governor_there(Path::new(POLICIES)),
            Frequency::Load => true,
            Frequency::Full => false,
        }
    }
}

/// May the governor be chosen for some processors, now or later?
fn governor_there(policies: &Path) -> bool {
    let Ok(policies) = fs::read_dir(policies) else {
        return false;
    };
    policies.flatten().any(|policy| {
        let governors = fs::read_to_string(policy.path().join("scaling_available_governors"));
        governors.is_ok_and(|names| names.split_whitespace().any(|name| name == GOVERNOR))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_governor_that_asks_the_scheduler_is_told() {
        let cases = [
            (vec![], false),
            (vec!["performance powersave"], false),
            (vec!["performance powersave", "ondemand schedutil"], true),
            (vec!["schedutil_like"], false),
        ];
        for (governors, told) in cases {
            let dir = tempfile::tempdir().unwrap();
            for (policy, names) in governors.iter().enumerate() {
                let policy = dir.path().join(format!("policy{policy}"));
                fs::create_dir(&policy).unwrap();
                fs::write(
                    policy.join("scaling_available_governors"),
                    format!("{names} \n"),
                )
                .unwrap();
            }
            assert_eq!(governor_there(dir.path()), told, "{governors:?}");
        }
        assert!(!governor_there(Path::new("/nonexistent")));
    }
}
