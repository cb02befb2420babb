//! Tracepoints as the kernel describes them (`events/SYSTEM/NAME/format`), and what the known ones mean.

use crate::event::{state_of_number, writes};
use crate::section::unsigned;
use crate::{Call, Disk, End, Ends, Mark, Markers, Task, What, Within, calls};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// Tracepoints of a trace; a kernel has some 3,000.
const TRACEPOINTS_MAX: usize = 1 << 16;
/// Fields of a tracepoint.
const FIELDS_MAX: usize = 256;

/// Families of addresses, a state of TCP (Linux, `include/linux/socket.h`, `include/net/tcp_states.h`), and what stands
/// before an address of IPv4 in one of IPv6.
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const TCP_CLOSE: i64 = 7;
const MAPPED: u128 = 0xffff << 32;

/// Where a field lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    offset: usize,
    size: usize,
    is_signed: bool,
    /// It holds where the text lies: offset, and length << 16 (`__data_loc`).
    is_elsewhere: bool,
    /// It is a text, or another array of bytes.
    is_text: bool,
}

/// What a tracepoint means, with the fields that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Switch {
        from: Field,
        from_name: Field,
        state: Field,
        to: Field,
        to_name: Field,
    },
    Waking {
        task: Field,
        name: Field,
        flags: Option<Field>,
    },
    Fork {
        parent: Field,
        child: Field,
        name: Field,
    },
    Rename {
        task: Field,
        name: Field,
    },
    Exec,
    Exit,
    CallBegins {
        /// Where the number lies, if the tracepoint is that of all calls.
        number: Option<Field>,
        first: Option<Field>,
    },
    CallEnds {
        number: Option<Field>,
        result: Field,
    },
    DiskBegins(Request),
    DiskEnds(Request),
    /// The ends as the kernel's `sockaddr`, each with its port in it, and the port of this host.
    Arrives {
        one: Field,
        other: Field,
        port: Field,
        bytes: Field,
        socket: Option<Field>,
    },
    Ready {
        socket: Field,
    },
    Takes(Addresses),
    Tcp {
        addresses: Addresses,
        state: Field,
    },
    /// No rule has its name, or a field that its meaning needs is not in its description.
    None {
        is_known: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Request {
    device: Field,
    sector: Field,
    sectors: Field,
    operation: Field,
}

/// The ends of a connection, by addresses of IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Addresses {
    local: Field,
    local_port: Field,
    remote: Field,
    remote_port: Field,
}

/// A tracepoint as its trace describes it.
#[derive(Debug)]
pub(crate) struct Tracepoint {
    pub(crate) name: String,
    task: Option<Field>,
    rule: Rule,
    /// All of them, where its hits may mark requests.
    fields: Vec<(String, Field)>,
    /// The number of the call that it is about.
    call: Option<u16>,
}

/// What one hit of a tracepoint says.
#[derive(Debug)]
pub(crate) struct Hit<'a> {
    pub(crate) name: &'a str,
    /// The task that ran (`common_pid`).
    pub(crate) task: Option<u32>,
    pub(crate) what: Told<'a>,
}

/// What a hit means.
#[derive(Debug)]
pub(crate) enum Told<'a> {
    Is(What<'a>),
    NotMapped,
    FieldMissing,
}

/// The tracepoints of a trace, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Tracepoints {
    by_number: FxHashMap<u16, Tracepoint>,
    is_big_endian: bool,
}

impl Tracepoints {
    pub(crate) fn new(is_big_endian: bool) -> Self {
        Self { by_number: FxHashMap::default(), is_big_endian }
    }

    /// Hands out the mark that a hit is, if it is one.
    pub(crate) fn mark(&self, bytes: &[u8], markers: &Markers, take: impl FnOnce(Mark<'_>)) {
        if markers.are_none() {
            return;
        }
        let number = bytes.get(..2).map(|bytes| unsigned(bytes, self.is_big_endian) as u16);
        let Some(tracepoint) = number.and_then(|number| self.by_number.get(&number)) else { return };
        if !markers.may_mark(&tracepoint.name) {
            return;
        }
        let data = Data { bytes, is_big_endian: self.is_big_endian };
        let field = |name: &str| data.shown(find(&tracepoint.fields, name)?);
        markers.told(&tracepoint.name, field, take);
    }

    /// Takes a description; one that is damaged, or beyond the bound, describes nothing.
    pub(crate) fn describe(&mut self, format: &[u8]) {
        if self.by_number.len() < TRACEPOINTS_MAX
            && let Some((number, tracepoint)) = description(&String::from_utf8_lossy(format))
        {
            self.by_number.insert(number, tracepoint);
        }
    }

    /// What a hit says, by its bytes, which begin with the tracepoint's number; none if no description has it.
    pub(crate) fn hit<'a>(&'a self, bytes: &'a [u8]) -> Option<Hit<'a>> {
        let number = unsigned(bytes.get(..2)?, self.is_big_endian) as u16;
        let tracepoint = self.by_number.get(&number)?;
        let data = Data { bytes, is_big_endian: self.is_big_endian };
        let task = tracepoint.task.and_then(|field| data.number(field));
        let what = match tracepoint.rule {
            Rule::None { is_known: false } => Told::NotMapped,
            rule => data.meaning(tracepoint, rule).map_or(Told::FieldMissing, Told::Is),
        };
        Some(Hit { name: &tracepoint.name, task: task.map(|task| task as u32), what })
    }
}

/// The bytes of a hit.
#[derive(Clone, Copy)]
struct Data<'a> {
    bytes: &'a [u8],
    is_big_endian: bool,
}

impl<'a> Data<'a> {
    fn number(self, field: Field) -> Option<i64> {
        let bytes = self.bytes.get(field.offset..field.offset.checked_add(field.size)?)?;
        if bytes.is_empty() || bytes.len() > 8 {
            return None;
        }
        let number = unsigned(bytes, self.is_big_endian);
        let unused = 64 - 8 * bytes.len() as u32;
        Some(if field.is_signed { (number << unused).cast_signed() >> unused } else { number.cast_signed() })
    }

    fn text(self, field: Field) -> Option<&'a str> {
        let bytes = if field.is_elsewhere {
            let place = self.number(Field { is_signed: false, ..field })? as u64;
            let (offset, length) = ((place & 0xffff) as usize, (place >> 16 & 0xffff) as usize);
            self.bytes.get(offset..offset + length)?
        } else {
            self.bytes.get(field.offset..field.offset.checked_add(field.size)?)?
        };
        let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
        // A name is any bytes; what is no text is shown up to there.
        Some(match std::str::from_utf8(&bytes[..end]) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        })
    }

    fn task(self, number: Field, name: Field) -> Option<Task<'a>> {
        Some(Task { number: self.number(number)? as u32, name: self.text(name)? })
    }

    fn disk(self, request: Request) -> Option<Disk> {
        let device = self.number(request.device)? as u64;
        Some(Disk {
            // The kernel's own dev_t has the same form.
            device: device as u32,
            sector: self.number(request.sector)?.cast_unsigned(),
            sectors: self.number(request.sectors)? as u32,
            writes: writes(self.text(request.operation)?),
        })
    }

    fn bytes(self, field: Field) -> Option<&'a [u8]> {
        self.bytes.get(field.offset..field.offset.checked_add(field.size)?)
    }

    /// An address of IPv6 and a port beside it.
    fn end(self, address: Field, port: Field) -> Option<End> {
        let address = u128::from_be_bytes(self.bytes(address)?.try_into().ok()?);
        Some(End { address, port: self.number(port)? as u16 })
    }

    fn ends(self, addresses: Addresses) -> Option<Ends> {
        let Addresses { local, local_port, remote, remote_port } = addresses;
        Some(Ends { local: self.end(local, local_port)?, remote: self.end(remote, remote_port)? })
    }

    /// `struct sockaddr_in` or `struct sockaddr_in6`, whose ports and addresses are big-endian in all traces.
    fn socket_address(self, field: Field) -> Option<End> {
        let bytes = self.bytes(field)?;
        let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
        let address = match unsigned(bytes.get(..2)?, self.is_big_endian) {
            AF_INET => MAPPED | u128::from(u32::from_be_bytes(bytes.get(4..8)?.try_into().ok()?)),
            AF_INET6 => u128::from_be_bytes(bytes.get(8..24)?.try_into().ok()?),
            _ => return None,
        };
        Some(End { address, port })
    }

    /// A field of any sort as text.
    fn shown(self, field: Field) -> Option<Cow<'a, str>> {
        if field.is_text || field.is_elsewhere {
            return self.text(field).map(Cow::Borrowed);
        }
        self.number(field).map(|number| Cow::Owned(number.to_string()))
    }

    fn meaning(self, tracepoint: &'a Tracepoint, rule: Rule) -> Option<What<'a>> {
        let of = |number: Option<Field>, prefix: &str| {
            let Some(number) = number else {
                return Some(Call {
                    name: tracepoint.name.strip_prefix(prefix)?,
                    number: tracepoint.call,
                    first: None,
                });
            };
            let number = calls::number(self.number(number)?);
            Some(Call { name: number.map_or("", calls::name_of), number, first: None })
        };
        Some(match rule {
            Rule::Switch { from, from_name, state, to, to_name } => What::Switch {
                from: self.task(from, from_name)?,
                state: state_of_number(self.number(state)?),
                to: self.task(to, to_name)?,
            },
            Rule::Waking { task, name, flags } => {
                let flags = flags.and_then(|flags| self.number(flags));
                let within = flags.map_or(Within::NotTold, |flags| Within::of_flags(flags as u8));
                What::Waking { task: self.task(task, name)?, within }
            }
            Rule::Fork { parent, child, name } => {
                What::Fork { parent: self.number(parent)? as u32, child: self.task(child, name)?, process: None }
            }
            Rule::Rename { task, name } => What::Named { task: self.task(task, name)?, process: None },
            Rule::Exec => What::Exec,
            Rule::Exit => What::Exit,
            Rule::CallBegins { number, first } => {
                let first = first.and_then(|field| self.number(field)).map(i64::cast_unsigned);
                What::CallBegins(Call { first, ..of(number, "sys_enter_")? })
            }
            Rule::CallEnds { number, result } => {
                What::CallEnds { call: of(number, "sys_exit_")?, result: self.number(result)? }
            }
            Rule::DiskBegins(request) => What::DiskBegins(self.disk(request)?),
            Rule::DiskEnds(request) => What::DiskEnds(self.disk(request)?),
            Rule::Arrives { one, other, port, bytes, socket } => {
                let socket = socket.and_then(|socket| self.number(socket)).map(i64::cast_unsigned);
                let (one, other) = (self.socket_address(one)?, self.socket_address(other)?);
                let port = self.number(port)? as u16;
                let (local, remote) = if one.port == port { (one, other) } else { (other, one) };
                What::Arrives { ends: Ends { local, remote }, bytes: self.number(bytes)? as u32, socket }
            }
            Rule::Ready { socket } => What::Ready { socket: self.number(socket)?.cast_unsigned() },
            Rule::Takes(addresses) => What::Takes(self.ends(addresses)?),
            Rule::Tcp { addresses, state } => {
                What::Tcp { ends: self.ends(addresses)?, is_over: self.number(state)? == TCP_CLOSE }
            }
            Rule::None { .. } => return None,
        })
    }
}

/// Reads a description: `name:`, `ID:`, and a line for each field.
fn description(text: &str) -> Option<(u16, Tracepoint)> {
    let (mut name, mut number, mut fields) = (None, None, Vec::new());
    for line in text.lines() {
        let line = line.trim();
        if let Some(word) = line.strip_prefix("name:") {
            name = Some(word.trim().to_owned());
        } else if let Some(word) = line.strip_prefix("ID:") {
            number = word.trim().parse().ok();
        } else if line.starts_with("field:") && fields.len() < FIELDS_MAX {
            fields.extend(field(line));
        }
    }
    let name = name?;
    let rule = rule(&name, &fields);
    let task = find(&fields, "common_pid");
    let call = name.strip_prefix("sys_enter_").or_else(|| name.strip_prefix("sys_exit_")).and_then(calls::number_of);
    Some((number?, Tracepoint { name, task, rule, fields, call }))
}

/// `field:char prev_comm[16]; offset:8; size:16; signed:0;`
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.split(';').map(str::trim);
    let declared = parts.next()?.strip_prefix("field:")?;
    let number = |part: Option<&str>, key: &str| part?.strip_prefix(key)?.parse::<usize>().ok();
    let (offset, size) = (number(parts.next(), "offset:")?, number(parts.next(), "size:")?);
    let is_signed = number(parts.next(), "signed:") == Some(1);
    let bare = declared.split('[').next()?.trim_end();
    let name = bare.rsplit([' ', '*']).next()?;
    // Of `__data_loc char[] name` the brackets come first.
    let is_elsewhere = declared.starts_with("__data_loc");
    let name = if is_elsewhere { declared.rsplit(' ').next()? } else { name };
    let is_text = declared.starts_with("char ") || declared.starts_with("const char ") && declared.contains('[');
    Some((name.to_owned(), Field { offset, size, is_signed, is_elsewhere, is_text }))
}

fn find(fields: &[(String, Field)], name: &str) -> Option<Field> {
    fields.iter().find(|(known, _)| known == name).map(|(_, field)| *field)
}

fn rule(name: &str, fields: &[(String, Field)]) -> Rule {
    let of = |name| find(fields, name);
    let known = match name {
        "sched_switch" => switch(fields),
        "sched_waking" => {
            of("pid").zip(of("comm")).map(|(task, name)| Rule::Waking { task, name, flags: of("common_flags") })
        }
        "sched_process_fork" => fork(fields),
        "task_rename" => of("pid").zip(of("newcomm")).map(|(task, name)| Rule::Rename { task, name }),
        "sched_process_exec" => Some(Rule::Exec),
        "sched_process_exit" => Some(Rule::Exit),
        "block_rq_issue" => request(fields).map(Rule::DiskBegins),
        "block_rq_complete" => request(fields).map(Rule::DiskEnds),
        "sys_enter" => of("id").map(|number| Rule::CallBegins { number: Some(number), first: first_of_all(fields) }),
        "sys_exit" => of("id").zip(of("ret")).map(|(number, result)| Rule::CallEnds { number: Some(number), result }),
        "tcp_probe" => arrives(fields),
        "sk_data_ready" => of("skaddr").map(|socket| Rule::Ready { socket }),
        "tcp_rcv_space_adjust" => addresses(fields).map(Rule::Takes),
        "inet_sock_set_state" => {
            addresses(fields).zip(of("newstate")).map(|(addresses, state)| Rule::Tcp { addresses, state })
        }
        _ if name.starts_with("sys_enter_") => Some(Rule::CallBegins { number: None, first: first_argument(fields) }),
        _ if name.starts_with("sys_exit_") => of("ret").map(|result| Rule::CallEnds { number: None, result }),
        _ => return Rule::None { is_known: false },
    };
    known.unwrap_or(Rule::None { is_known: true })
}

fn arrives(fields: &[(String, Field)]) -> Option<Rule> {
    Some(Rule::Arrives {
        one: find(fields, "saddr")?,
        other: find(fields, "daddr")?,
        port: find(fields, "sport")?,
        bytes: find(fields, "data_len")?,
        socket: find(fields, "skaddr"),
    })
}

fn addresses(fields: &[(String, Field)]) -> Option<Addresses> {
    Some(Addresses {
        local: find(fields, "saddr_v6")?,
        local_port: find(fields, "sport")?,
        remote: find(fields, "daddr_v6")?,
        remote_port: find(fields, "dport")?,
    })
}

fn switch(fields: &[(String, Field)]) -> Option<Rule> {
    Some(Rule::Switch {
        from: find(fields, "prev_pid")?,
        from_name: find(fields, "prev_comm")?,
        state: find(fields, "prev_state")?,
        to: find(fields, "next_pid")?,
        to_name: find(fields, "next_comm")?,
    })
}

fn fork(fields: &[(String, Field)]) -> Option<Rule> {
    Some(Rule::Fork {
        parent: find(fields, "parent_pid")?,
        child: find(fields, "child_pid")?,
        name: find(fields, "child_comm")?,
    })
}

fn request(fields: &[(String, Field)]) -> Option<Request> {
    Some(Request {
        device: find(fields, "dev")?,
        sector: find(fields, "sector")?,
        sectors: find(fields, "nr_sector")?,
        operation: find(fields, "rwbs")?,
    })
}

/// The first of the six arguments that the tracepoint of all calls has, `unsigned long args[6]`.
fn first_of_all(fields: &[(String, Field)]) -> Option<Field> {
    let all = find(fields, "args")?;
    Some(Field { size: all.size / 6, ..all })
}

/// The first field behind the call's number.
fn first_argument(fields: &[(String, Field)]) -> Option<Field> {
    let number = fields.iter().position(|(name, _)| name == "__syscall_nr" || name == "nr")?;
    fields.get(number + 1).map(|(_, field)| *field)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAKING: &str = "name: sched_waking\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n";

    #[test]
    fn a_hit_is_read_by_its_description_in_both_orders_of_bytes() {
        for is_big_endian in [false, true] {
            let mut tracepoints = Tracepoints::new(is_big_endian);
            tracepoints.describe(WAKING.as_bytes());
            let number = |value: u32| if is_big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
            let kind = if is_big_endian { 7u16.to_be_bytes() } else { 7u16.to_le_bytes() };
            let mut bytes = [&kind[..], &[0, 0], &number(41), b"nginx\0rubbish---", &number(42)].concat();
            let hit = tracepoints.hit(&bytes).expect("it is described");
            assert_eq!(hit.task, Some(41));
            let task = Task { number: 42, name: "nginx" };
            let expected = What::Waking { task, within: Within::NotTold };
            assert!(matches!(hit.what, Told::Is(what) if what == expected), "{hit:?}");
            bytes.truncate(26);
            assert!(matches!(tracepoints.hit(&bytes).expect("described").what, Told::FieldMissing));
            assert!(tracepoints.hit(&[9, 9, 9]).is_none() && tracepoints.hit(&[7]).is_none());
        }
    }

    #[test]
    fn a_description_without_what_its_meaning_needs_tells_that() {
        let mut tracepoints = Tracepoints::new(false);
        tracepoints.describe(WAKING.replace("pid_t pid;", "pid_t other;").as_bytes());
        let bytes = [7, 0, 0, 0, 1, 0, 0, 0];
        assert!(matches!(tracepoints.hit(&bytes).expect("described").what, Told::FieldMissing));
    }
}
