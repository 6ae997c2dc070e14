// SPDX-License-Identifier: MIT OR Apache-2.0
//! The disk scheduler Cello, and classes of programs and cgroups.
//!
//! A disk is switched to the I/O scheduler `cello` of a kernel module. A request is of the class
//! of its own I/O priority's hint, else of the nearest cgroup with one, else of the process that
//! asked; one without a class is of the disk's class for those.

mod arm;
mod attribute;
mod device;
mod elsewhere;
mod error;
mod group;
mod hint;
mod ioprio;
pub mod module;
mod note;
mod show;
mod up;

pub use arm::{Arm, Found};
pub use attribute::{
    Attributes, ClassCounts, Counts, InFlight, InFlightTime, Round, Settings, Weight,
};
pub use device::Disk;
pub use error::Refusal;
pub use group::{effective, set as set_group, Charged, Group, OfGroup};
pub use hint::{Class, Deadline, Hint};
pub use ioprio::{of_request, OfProcess, Own};
pub use show::{Row, Shown};
pub use up::{any, down, list, set, up, Ended, Started, State, Status};
