// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel module `cello`: whether it is there, and why it is not.

use super::Refusal;
use crate::check::release;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is known of the module for the running kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Module {
    /// The kernel has it.
    Loaded,
    /// It can be loaded from this file.
    There(PathBuf),
    /// It was not built for this kernel.
    Missing,
}

impl Module {
    /// On the machine whose /sys and /lib lie below `root`.
    pub fn find(root: &Path, release: &str) -> Module {
        if root.join("sys/module/cello").is_dir() {
            return Module::Loaded;
        }
        let folder = root.join("lib/modules").join(release);
        let listed = fs::read_to_string(folder.join("modules.dep")).unwrap_or_default();
        let listed = listed
            .lines()
            .filter_map(|line| Some(line.split_once(':')?.0))
            .find(|path| is_cello(Path::new(path)));
        let file = listed.map(|path| folder.join(path)).or_else(|| {
            let places = ["updates/dkms", "updates", "extra"];
            places.iter().find_map(|place| {
                let files = fs::read_dir(folder.join(place)).ok()?.flatten();
                files.map(|file| file.path()).find(|path| is_cello(path))
            })
        });
        file.map_or(Module::Missing, Module::There)
    }
}

/// `cello.ko`, or compressed: `cello.ko.xz`.
fn is_cello(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.strip_prefix("cello.ko"))
        .is_some_and(|end| end.is_empty() || end.starts_with('.'))
}

/// Does the firmware let only signed code run? `None`: it has no say, or cannot be asked.
pub fn secure_boot(root: &Path) -> Option<bool> {
    const VARIABLE: &str =
        "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    // Four bytes of attributes come first.
    let value = fs::read(root.join(VARIABLE)).ok()?;
    value.get(4).map(|on| *on == 1)
}

/// Does this kernel take only modules that are signed by a key it knows?
pub fn signed_only(root: &Path) -> bool {
    let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let locked = text("sys/kernel/security/lockdown");
    text("sys/module/module/parameters/sig_enforce").trim() == "Y"
        || locked.contains("[integrity]")
        || locked.contains("[confidentiality]")
}

/// How to build the module for that kernel.
pub fn build_remedy(root: &Path, release: &str) -> String {
    let headers = root
        .join("lib/modules")
        .join(release)
        .join("build")
        .exists();
    let dkms = ["usr/sbin/dkms", "sbin/dkms"]
        .iter()
        .any(|path| root.join(path).exists());
    let mut missing = Vec::new();
    if !dkms {
        missing.push("dkms".to_string());
    }
    if !headers {
        missing.push(format!("linux-headers-{release}"));
    }
    match missing.is_empty() {
        true => format!("build it with `dkms autoinstall -k {release}`"),
        false => format!(
            "install what builds it with `apt install {}`, then `dkms autoinstall -k {release}`",
            missing.join(" ")
        ),
    }
}

/// The certificate of the key that DKMS signs with: by itself, and on Ubuntu.
const CERTIFICATES: [&str; 2] = ["var/lib/dkms/mok.pub", "var/lib/shim-signed/mok/MOK.der"];

/// Keys that the machine's owner has enrolled, as shim passes them on: to root, and to everybody.
const ENROLLED: [&str; 2] = [
    "sys/firmware/efi/mok-variables/MokListRT",
    "sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23",
];

/// Where the certificate of DKMS' key is, if it has made one.
fn certificate(root: &Path) -> Option<&'static str> {
    let mut places = CERTIFICATES.into_iter();
    places.find(|place| root.join(place).exists())
}

/// Has the machine's owner enrolled the key that DKMS signs with?
pub fn is_enrolled(root: &Path) -> bool {
    let read = |place: &str| fs::read(root.join(place)).unwrap_or_default();
    let key = certificate(root).map(read).unwrap_or_default();
    let listed = |list: Vec<u8>| list.windows(key.len()).any(|part| part == key);
    !key.is_empty() && ENROLLED.iter().any(|place| listed(read(place)))
}

/// How to make the kernel trust it.
pub fn sign_remedy(root: &Path, release: &str) -> String {
    let again = rebuild(release);
    match certificate(root) {
        None => format!(
            "let dkms make a key and sign it, by `apt install openssl mokutil`, then {again}, then enrol the key by \
             `mokutil --import /{}`, a restart, and Enroll MOK as the machine starts",
            CERTIFICATES[0]
        ),
        Some(_) if is_enrolled(root) => {
            format!("the key of dkms is enrolled, so let it sign the module, by {again}")
        }
        Some(place) => format!(
            "enrol the key that dkms signs it with, by `mokutil --import /{place}`, a restart, and Enroll MOK as the \
             machine starts, or switch Secure Boot off in the firmware"
        ),
    }
}

/// What builds a module again that is there: `dkms autoinstall` leaves that alone.
fn rebuild(release: &str) -> String {
    let this = concat!("qlinux-cello/", env!("CARGO_PKG_VERSION"));
    format!("`dkms build --force {this} -k {release} && dkms install --force {this} -k {release}`")
}

/// Loads the module, if the kernel does not have it.
pub fn load() -> Result<(), Refusal> {
    let root = Path::new("/");
    let release = release();
    if Module::find(root, &release) == Module::Loaded {
        return Ok(());
    }
    // What the kernel itself would call, wherever that is.
    let modprobe = fs::read_to_string("/proc/sys/kernel/modprobe").unwrap_or_default();
    let modprobe = match modprobe.trim() {
        "" => "modprobe",
        path => path,
    };
    let words = match Command::new(modprobe).arg("cello").output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(e) => format!("{modprobe} did not start: {e}"),
    };
    let module = Module::find(root, &release);
    let why = why(root, &release, &module, &words);
    Err(Refusal::NoModule { release, why })
}

/// Reason and remedy, of what `modprobe` said.
fn why(root: &Path, release: &str, module: &Module, words: &str) -> String {
    let Module::There(file) = module else {
        let build = build_remedy(root, release);
        return format!("its module is not built for that kernel: {build}");
    };
    let file = file.display();
    // Its last words are the kernel's.
    let last = words.trim().lines().last().unwrap_or_default();
    let said = last.rsplit(": ").next().unwrap_or_default().to_lowercase();
    let secure = secure_boot(root) == Some(true) || signed_only(root);
    let signature = || {
        let remedy = sign_remedy(root, release);
        format!("the kernel takes only modules signed with a key that it knows (Secure Boot), and {file} is not: {remedy}")
    };
    match said.as_str() {
        "key was rejected by service" | "required key not available" => signature(),
        "operation not permitted" if secure => signature(),
        "operation not permitted" => "loading modules is not permitted: run the command as root, or see the sysctl kernel.modules_disabled".into(),
        "invalid module format" | "exec format error" => format!(
            "{file} was built for another kernel: build it again with {}",
            rebuild(release)
        ),
        "" => format!("{file} was not loaded: see the kernel log"),
        said => format!("{file} was not loaded ({said}): see the kernel log"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Machine {
            Machine(tempfile::tempdir().unwrap())
        }

        fn file(&self, path: &str, bytes: &[u8]) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }

        fn module(&self) -> Module {
            Module::find(self.0.path(), "7.3")
        }

        fn why(&self, words: &str) -> String {
            why(self.0.path(), "7.3", &self.module(), words)
        }
    }

    #[test]
    fn where_it_is() {
        let machine = Machine::new();
        assert_eq!(machine.module(), Module::Missing);
        machine.file(
            "lib/modules/7.3/modules.dep",
            b"kernel/marcello.ko:\nkernel/x.ko: a\n",
        );
        assert_eq!(machine.module(), Module::Missing);
        machine.file("lib/modules/7.3/extra/cello.ko.zst", b"");
        let at = machine.0.path().join("lib/modules/7.3/extra/cello.ko.zst");
        assert_eq!(machine.module(), Module::There(at));
        machine.file(
            "lib/modules/7.3/modules.dep",
            b"updates/dkms/cello.ko.xz: kernel/x.ko\n",
        );
        let at = machine
            .0
            .path()
            .join("lib/modules/7.3/updates/dkms/cello.ko.xz");
        assert_eq!(machine.module(), Module::There(at));
        machine.file("sys/module/cello/refcnt", b"0\n");
        assert_eq!(machine.module(), Module::Loaded);
    }

    #[test]
    fn why_it_is_missing() {
        let machine = Machine::new();
        let said = machine.why("modprobe: FATAL: Module cello not found in directory x");
        assert!(
            said.contains("apt install dkms linux-headers-7.3`"),
            "{said}"
        );
        machine.file("lib/modules/7.3/build/Makefile", b"");
        assert!(machine.why("").contains("apt install dkms`"));
        machine.file("usr/sbin/dkms", b"");
        assert!(machine.why("").contains("build it with `dkms autoinstall"));
    }

    #[test]
    fn why_it_was_not_loaded() {
        let machine = Machine::new();
        machine.file("lib/modules/7.3/extra/cello.ko", b"");
        let error = |words: &str| {
            machine.why(&format!(
                "modprobe: ERROR: could not insert 'cello': {words}\n"
            ))
        };
        assert!(error("Operation not permitted").contains("as root"));
        assert!(error("Exec format error").contains("another kernel"));
        assert!(error("Cannot allocate memory").contains("(cannot allocate memory)"));
        machine.file("sys/kernel/security/lockdown", b"none [integrity] x\n");
        assert!(error("Operation not permitted").contains("mokutil"));
    }

    #[test]
    fn why_its_signature_is_refused() {
        const REFUSED: &str =
            "modprobe: ERROR: could not insert 'cello': Key was rejected by service\n";
        let machine = Machine::new();
        machine.file("lib/modules/7.3/updates/dkms/cello.ko.xz", b"");
        let why = machine.why(REFUSED);
        assert!(why.contains("updates/dkms/cello.ko.xz is not: "), "{why}");
        assert!(why.contains("apt install openssl mokutil`"), "{why}");
        assert!(why.contains("dkms build --force qlinux-cello/"), "{why}");
        machine.file("var/lib/dkms/mok.pub", b"key");
        let why = machine.why(REFUSED);
        assert!(
            why.contains("`mokutil --import /var/lib/dkms/mok.pub`"),
            "{why}"
        );
        assert!(
            why.contains("Enroll MOK") && !why.contains("--force"),
            "{why}"
        );
        machine.file(ENROLLED[0], b"of the vendor");
        assert!(!is_enrolled(machine.0.path()));
        machine.file(ENROLLED[1], b"\x06\0\0\0the key of dkms");
        assert!(is_enrolled(machine.0.path()));
        let why = machine.why(REFUSED);
        assert!(
            !why.contains("mokutil") && why.contains("dkms build --force"),
            "{why}"
        );
    }

    #[test]
    fn where_the_key_is() {
        let machine = Machine::new();
        assert!(!is_enrolled(machine.0.path()));
        machine.file("var/lib/shim-signed/mok/MOK.der", b"");
        machine.file(ENROLLED[0], b"a list");
        assert!(!is_enrolled(machine.0.path()));
        let remedy = sign_remedy(machine.0.path(), "7.3");
        assert!(
            remedy.contains("/var/lib/shim-signed/mok/MOK.der"),
            "{remedy}"
        );
    }

    #[test]
    fn firmware() {
        const VARIABLE: &str =
            "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
        let machine = Machine::new();
        assert_eq!(secure_boot(machine.0.path()), None);
        assert!(!signed_only(machine.0.path()));
        machine.file(VARIABLE, &[6, 0, 0, 0, 1]);
        assert_eq!(secure_boot(machine.0.path()), Some(true));
        machine.file(VARIABLE, &[6, 0, 0, 0, 0]);
        assert_eq!(secure_boot(machine.0.path()), Some(false));
        machine.file(VARIABLE, &[]);
        assert_eq!(secure_boot(machine.0.path()), None);
        machine.file("sys/module/module/parameters/sig_enforce", b"Y\n");
        assert!(signed_only(machine.0.path()));
    }
}
