// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the running kernel's type information (BTF) says of functions, structures and
//! enumerations: one pass over some 130,000 types, since a search by name is such a pass each.

use libbpf_rs::btf::types::{Composite, DeclTag, Enum, Enum64, Func, FuncProto};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, ReferencesType, TypeId};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Where the kernel shows it.
pub const VMLINUX: &str = "/sys/kernel/btf/vmlinux";
/// The mark of a function that BPF programs may call.
const CALLABLE: &str = "bpf_kfunc";

/// Of three types two are of these, which nobody asks about.
const UNASKED: [BtfKind; 4] = [
    BtfKind::Ptr,
    BtfKind::FuncProto,
    BtfKind::Array,
    BtfKind::Const,
];

/// One question about the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// A function that BPF programs may call, and how many arguments it has.
    Call(&'static str, usize),
    /// Any function.
    Function(&'static str),
    /// A structure's member.
    Member(&'static str, &'static str),
    /// A constant of an enumeration.
    Constant(&'static str, &'static str),
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is there.
    There,
    /// It is not.
    Missing,
    /// The function is there, but not marked as one that programs may call, as others are.
    Unmarked,
    /// The function has so many arguments.
    Arguments(usize),
}

impl Ask {
    /// The type that it is about.
    fn of(&self) -> &'static str {
        match self {
            Ask::Call(name, _)
            | Ask::Function(name)
            | Ask::Member(name, _)
            | Ask::Constant(name, _) => name,
        }
    }

    /// In the words of the kernel's sources.
    pub fn words(&self) -> String {
        match self {
            Ask::Call(name, _) | Ask::Function(name) => (*name).into(),
            Ask::Member(of, name) => format!("{of}.{name}"),
            Ask::Constant(_, name) => (*name).into(),
        }
    }
}

struct Function {
    arguments: usize,
    callable: bool,
}

/// Which names may be asked about, by their first byte and length: most are not, and so need not
/// be looked up.
struct Sieve([u64; 256]);

impl Sieve {
    fn new<'a>(names: impl Iterator<Item = &'a str>) -> Sieve {
        let mut sieve = Sieve([0; 256]);
        for name in names.map(str::as_bytes).filter(|name| !name.is_empty()) {
            sieve.0[usize::from(name[0])] |= 1 << name.len().min(63);
        }
        sieve
    }

    fn may_hold(&self, name: &[u8]) -> bool {
        let first = name.first().copied().unwrap_or(0);
        self.0[usize::from(first)] >> name.len().min(63) & 1 == 1
    }
}

/// What was found of the types that are asked about.
pub struct Types {
    functions: HashMap<String, Function>,
    /// Members by type and name, zero each; constants by enumeration and name, with their values.
    parts: HashMap<String, HashMap<String, u64>>,
    /// The kernel marks the functions that programs may call: not every build does.
    marks: bool,
}

impl Types {
    /// Reads the account below `root`; `None`: there is none, or it cannot be read.
    pub fn read(root: &Path, asked: impl Iterator<Item = Ask>) -> Option<Types> {
        let path = root.join(VMLINUX.trim_start_matches('/'));
        // libbpf would tell the terminal what our own words tell better.
        let before = libbpf_rs::set_print(None);
        // It maps what it can; a path is read in small pieces.
        let btf = match root == Path::new("/") {
            true => Btf::from_vmlinux(),
            false => Btf::from_path(path),
        };
        libbpf_rs::set_print(before);
        let wanted: HashSet<&'static str> = asked.map(|ask| ask.of()).collect();
        btf.ok().map(|btf| Types::look(&btf, &wanted))
    }

    fn look(btf: &Btf<'_>, wanted: &HashSet<&'static str>) -> Types {
        let mut types = Types {
            functions: HashMap::new(),
            parts: HashMap::new(),
            marks: false,
        };
        let mut callable: HashSet<TypeId> = HashSet::new();
        let mut functions: Vec<(TypeId, &str, usize)> = Vec::new();
        let sieve = Sieve::new(wanted.iter().copied().chain([CALLABLE]));
        let all = (1..btf.len() as u32).map(TypeId::from);
        for kind in all.filter_map(|id| btf.type_by_id::<BtfType<'_>>(id)) {
            if UNASKED.contains(&kind.kind()) {
                continue;
            }
            let name = kind
                .name()
                .filter(|name| sieve.may_hold(name.as_encoded_bytes()))
                .and_then(|name| name.to_str())
                .unwrap_or("");
            if kind.kind() == BtfKind::DeclTag && name == CALLABLE {
                let tag = DeclTag::try_from(kind);
                callable.extend(tag.map(|tag| tag.referenced_type_id()));
            } else if !wanted.contains(name) {
            } else if let Ok(function) = Func::try_from(kind) {
                let prototype = FuncProto::try_from(function.referenced_type());
                functions.push((kind.type_id(), name, prototype.map_or(0, |p| p.len())));
            } else {
                types.note_parts(name, kind);
            }
        }
        types.marks = !callable.is_empty();
        for (id, name, arguments) in functions {
            let found = Function {
                arguments,
                callable: callable.contains(&id),
            };
            // A static function elsewhere may have the same name.
            let known = types.functions.get(name);
            if known.is_none_or(|known| !known.callable) {
                types.functions.insert(name.into(), found);
            }
        }
        types
    }

    fn note_parts(&mut self, of: &str, kind: BtfType<'_>) {
        let parts = self.parts.entry(of.into()).or_default();
        let mut note = |name: Option<&std::ffi::OsStr>, value: u64| {
            let name = name.and_then(|name| name.to_str()).unwrap_or_default();
            parts.insert(name.into(), value);
        };
        if let Ok(composite) = Composite::try_from(kind) {
            composite.iter().for_each(|member| note(member.name, 0));
        } else if let Ok(constants) = Enum::try_from(kind) {
            constants.iter().for_each(|c| note(c.name, c.value as u64));
        } else if let Ok(constants) = Enum64::try_from(kind) {
            constants.iter().for_each(|c| note(c.name, c.value as u64));
        }
    }

    /// A member of a type that was asked about, or the value of a constant.
    pub fn part(&self, of: &str, name: &str) -> Option<u64> {
        self.parts.get(of)?.get(name).copied()
    }

    /// Does this build mark the functions that programs may call?
    pub fn marks(&self) -> bool {
        self.marks
    }

    /// Answers a question that was among those asked at first.
    pub fn answer(&self, ask: Ask) -> Answer {
        let there = |yes| if yes { Answer::There } else { Answer::Missing };
        match ask {
            Ask::Function(name) => there(self.functions.contains_key(name)),
            Ask::Member(of, name) | Ask::Constant(of, name) => there(self.part(of, name).is_some()),
            Ask::Call(name, arguments) => match self.functions.get(name) {
                None => Answer::Missing,
                Some(found) if self.marks && !found.callable => Answer::Unmarked,
                Some(found) if found.arguments != arguments => Answer::Arguments(found.arguments),
                Some(_) => Answer::There,
            },
        }
    }

    /// Is it there, just as asked?
    pub fn has(&self, ask: Ask) -> bool {
        self.answer(ask) == Answer::There
    }
}
