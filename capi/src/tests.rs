// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be told without a kernel: the header, the map, wrong arguments.

use super::*;
use std::collections::BTreeSet;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

fn errno_of(call: impl FnOnce() -> c_int) -> Errno {
    assert_eq!(call(), -1);
    Errno::last()
}

fn message() -> String {
    // SAFETY: hsfq_errmsg returns a C string.
    unsafe { CStr::from_ptr(hsfq_errmsg()) }
        .to_str()
        .unwrap()
        .to_string()
}

#[test]
fn wrong_arguments() {
    // SAFETY: null pointers and C strings are what the calls take.
    unsafe {
        assert_eq!(
            errno_of(|| hsfq_mknod(std::ptr::null(), 0, 100, 0, 0)),
            Errno::EFAULT
        );
        assert_eq!(
            errno_of(|| hsfq_mknod(c"a/b".as_ptr(), 0, 100, 0, 0)),
            Errno::EINVAL
        );
        assert_eq!(
            errno_of(|| hsfq_mknod(c"a".as_ptr(), 0, 100, 64, 0)),
            Errno::EINVAL
        );
        assert_eq!(
            errno_of(|| hsfq_mknod(c"a".as_ptr(), 0, 100, 0, 1)),
            Errno::EINVAL
        );
        for weight in [0, 10_001, c_uint::MAX] {
            assert_eq!(
                errno_of(|| hsfq_mknod(c"a".as_ptr(), 0, weight, 0, 0)),
                Errno::ERANGE
            );
            assert!(message().contains("10000"), "{}", message());
        }
        assert_eq!(
            errno_of(|| hsfq_mknod(c"a".as_ptr(), 0, 100, LEAF, 99)),
            Errno::EINVAL
        );
        assert_eq!(
            errno_of(|| hsfq_admin(0, 1, std::ptr::null_mut())),
            Errno::EFAULT
        );
        let mut value: c_int = 0;
        assert_eq!(
            errno_of(|| hsfq_admin(0, 99, std::ptr::from_mut(&mut value).cast())),
            Errno::EINVAL
        );
        assert_eq!(
            errno_of(|| hsfq_admin(0, 2, std::ptr::from_mut(&mut value).cast())),
            Errno::ERANGE
        );
        assert_eq!(errno_of(|| hsfq_parse(std::ptr::null(), 0)), Errno::EFAULT);
    }
    assert_eq!(errno_of(|| hsfq_rmnod(0, 7)), Errno::EINVAL);
}

#[test]
fn wrong_arguments_about_links() {
    use link::status::*;
    use link::*;
    let name = c"a".as_ptr();
    let mut qdisc = Qdisc {
        size: size_of::<Qdisc>() as u32,
        flags: 0,
        rate: 124,
        overhead: 0,
        least: 0,
    };
    // SAFETY: null pointers, C strings and structures are what the calls take.
    unsafe {
        let install = |qdisc: &Qdisc| errno_of(|| hsfq_qdisc_install(name, qdisc));
        assert_eq!(install(&qdisc), Errno::ERANGE);
        assert!(message().contains("125"), "{}", message());
        (qdisc.rate, qdisc.flags) = (0, 4);
        assert_eq!(install(&qdisc), Errno::EINVAL);
        (qdisc.flags, qdisc.overhead) = (0, 1025);
        assert_eq!(install(&qdisc), Errno::ERANGE);
        (qdisc.size, qdisc.overhead) = (8, 0);
        assert_eq!(install(&qdisc), Errno::EINVAL);
        let null = std::ptr::null();
        assert_eq!(errno_of(|| hsfq_qdisc_remove(null)), Errno::EFAULT);
        assert_eq!(errno_of(|| hsfq_link_getroot(null)), Errno::EFAULT);
        assert_eq!(errno_of(|| hsfq_link_parsenode(null, 1)), Errno::EFAULT);
        let mknod = |weight, flag, sid| errno_of(|| hsfq_link_mknod(name, 1, weight, flag, sid));
        assert_eq!(mknod(0, INNER, 0), Errno::ERANGE);
        assert_eq!(mknod(10_001, INNER, 0), Errno::ERANGE);
        assert_eq!(mknod(1, INNER, SID + 1), Errno::EINVAL);
        assert_eq!(mknod(1, THREADED, 0), Errno::EINVAL);
        for sid in [0, 1, SID, SID + 4, c_int::MIN, c_int::MAX] {
            assert_eq!(mknod(1, LEAF, sid), Errno::EINVAL);
        }
        assert_eq!(errno_of(|| hsfq_link_createq(name, 1, 0)), Errno::ERANGE);
        let mut records: [Record; 0] = [];
        let mut status = |size| errno_of(|| hsfq_link_status(1, records.as_mut_ptr(), size, 1));
        assert_eq!(status(1), Errno::EINVAL);
    }
    assert_eq!(errno_of(|| hsfq_link_rmnod(1, 7)), Errno::EINVAL);
    assert_eq!(errno_of(|| hsfq_link_modify(1, 0, 1)), Errno::EINVAL);
    let above = u64::from(u32::MAX) + 2;
    assert_eq!(
        errno_of(|| hsfq_link_modify(1, NODE_WEIGHT, above)),
        Errno::ERANGE
    );
}

/// Functions that the header declares, the map exports and the manual describes.
#[test]
fn header_map_and_manual_agree() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = |file: &str, end: char| -> BTreeSet<String> {
        let text = std::fs::read_to_string(here.join(file)).unwrap();
        let words = text
            .split(|c: char| c.is_whitespace() || c == '*')
            .filter(|w| w.starts_with("hsfq_") || w.starts_with("cello_"));
        words
            .filter_map(|w| w.split_once(end).map(|(name, _)| name.to_string()))
            .collect()
    };
    let mut declared = names("include/qlinux.h", '(');
    declared.remove("hsfq_errmsg()"); // in the head comment
    let mut exported = names("libqlinux.map", ';');
    exported.insert("hsfq_link_attach_socket".into()); // inline
    assert_eq!(declared, exported);
    for name in declared {
        assert!(
            here.join(format!("man/{name}.3")).is_file(),
            "man/{name}.3 is missing"
        );
    }
}

#[test]
fn wrong_arguments_about_disks() {
    use disk::*;
    let (dev, none) = (c"nowhere0".as_ptr(), std::ptr::null());
    let mut value: [c_int; 32] = [0; 32];
    let args = value.as_mut_ptr().cast();
    // SAFETY: null pointers, C strings and what the commands take.
    unsafe {
        assert_eq!(errno_of(|| cello_open(none, 0, 0, 0)), Errno::EFAULT);
        for class in [-1, 4, c_int::MAX] {
            let open = errno_of(|| cello_open(c"/dev/null".as_ptr(), 0, class, 0));
            assert_eq!(open, Errno::EINVAL);
            assert_eq!(errno_of(|| cello_set_class(0, class)), Errno::EINVAL);
            assert_eq!(errno_of(|| cello_ioprio(class, 0)), Errno::EINVAL);
        }
        let admin = |class, cmd| errno_of(|| cello_admin(dev, class, cmd, args));
        for cmd in [GET_WEIGHT, GET_DEADLINE] {
            assert_eq!(admin(0, cmd), Errno::ENODEV);
            assert!(message().contains("lsblk"), "{}", message());
        }
        assert_eq!(admin(3, GET_WEIGHT), Errno::EINVAL);
        assert_eq!(admin(0, 99), Errno::EINVAL);
        assert_eq!(admin(0, GET_STATUS), Errno::EINVAL);
        assert_eq!(admin(0, SET_DEADLINE), Errno::EINVAL);
        assert_eq!(admin(2, SET_DEADLINE), Errno::ERANGE);
        let null = std::ptr::null_mut();
        let admin = |dev, args| errno_of(|| cello_admin(dev, 0, GET_WEIGHT, args));
        assert_eq!(admin(none, args), Errno::EFAULT);
        assert_eq!(admin(dev, null), Errno::EFAULT);
        assert_eq!(errno_of(|| cello_start(none)), Errno::EFAULT);
        assert_eq!(errno_of(|| cello_stop(none)), Errno::EFAULT);
        assert_eq!(errno_of(|| cello_round(dev, 999)), Errno::ERANGE);
        assert_eq!(errno_of(|| cello_round(dev, u64::MAX)), Errno::ERANGE);
    }
    for deadline in [-1, 49_153, i64::MIN, i64::MAX] {
        assert_eq!(errno_of(|| cello_ioprio(2, deadline)), Errno::ERANGE);
    }
    assert_eq!(errno_of(|| cello_ioprio(1, 5)), Errno::EINVAL);
    assert_eq!(errno_of(|| cello_get_class(-1)), Errno::ESRCH);
    assert_eq!(errno_of(|| cello_close(-1)), Errno::EBADF);
    assert_eq!(errno_of(|| cello_close(0)), Errno::EBADF);
}

#[test]
fn layouts_and_numbers_agree_with_the_header() {
    use admin::{Info, Thread};
    use link::status::Record;
    use link::{Qdisc, NO_CODEL, QUEUE_BYTES, SID};
    use qlinux::link::Discipline;
    let mut expected = vec![
        size_of::<Info>(),
        offset_of!(Info, served_ns),
        offset_of!(Info, cgroup_id),
        size_of::<Thread>(),
        offset_of!(Thread, served_ns),
        LEAF as usize,
        THREADED as usize,
        RM_EMPTY as usize,
        Weight::DEFAULT.get() as usize,
        size_of::<Qdisc>(),
        offset_of!(Qdisc, least),
        size_of::<Record>(),
        offset_of!(Record, bytes),
        offset_of!(Record, counts),
        offset_of!(Record, name),
        NO_CODEL as usize,
        SID as usize + Discipline::Fq.number() as usize,
        QUEUE_BYTES as usize,
        qlinux::link::SOL_HSFQ as usize,
        size_of::<disk::Status>(),
        offset_of!(disk::Status, broken),
        offset_of!(disk::Status, deadline_ms),
        disk::GET_STATUS as usize,
        qlinux::disk::Class::None.number() as usize,
        (qlinux::disk::Deadline::MAX_NS / 1_000_000) as usize,
        Leaf::all().count(),
    ];
    let mut sids = String::new();
    for leaf in Leaf::all() {
        sids += &format!(", HSFQ_{}", leaf.name().to_uppercase());
        expected.push(leaf.number() as usize);
    }
    let count = Leaf::all().count();
    let source = format!(
        "#include <qlinux.h>\n#include <stdio.h>\nint main(void)\n{{\n\
         size_t all[] = {{ sizeof(struct hsfq_info), offsetof(struct hsfq_info, served_ns), \
         offsetof(struct hsfq_info, cgroup_id), sizeof(struct hsfq_thread), offsetof(struct hsfq_thread, served_ns), \
         HSFQ_LEAF, HSFQ_THREADED, HSFQ_RM_EMPTY, HSFQ_WEIGHT_DEFAULT, sizeof(struct hsfq_qdisc), offsetof(struct hsfq_qdisc, least), \
         sizeof(struct hsfq_link_record), offsetof(struct hsfq_link_record, bytes), \
         offsetof(struct hsfq_link_record, enqueued), offsetof(struct hsfq_link_record, name), \
         HSFQ_QDISC_NO_CODEL, HSFQ_LINK_FQ, HSFQ_LINK_QUEUE_BYTES, SOL_HSFQ, \
         sizeof(struct cello_status), offsetof(struct cello_status, broken), offsetof(struct cello_status, deadline_ms), \
         CELLO_GET_STATUS, CELLO_NONE, CELLO_DEADLINE_MAX, {count}{sids} }};\n\
         for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) printf(\"%zu\\n\", all[i]);\nreturn 0;\n}}\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let (file, program) = (folder.path().join("header.c"), folder.path().join("header"));
    std::fs::write(&file, source).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let compiled = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args(["-std=c99", "-pedantic", "-Wall", "-Werror", "-I"])
        .arg(include)
        .arg(&file)
        .arg("-o")
        .arg(&program)
        .status()
        .unwrap();
    assert!(compiled.success());
    let printed = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
    let found: Vec<usize> = printed.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(found, expected);
}
