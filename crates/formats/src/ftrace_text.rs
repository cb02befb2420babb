//! The text of ftrace (`trace`, `trace_pipe`), of `trace-cmd report` and of `perf script`, a line for each event.
//!
//! Linux, `Documentation/trace/ftrace.rst`, "Output format"; perf-script(1).

use crate::event::{state_of_letters, writes};
use crate::meaning::Meaning;
use crate::words::{digits, last, split_last, split_once, text, trim_start};
use crate::{Call, Counts, Disk, End, Ends, Event, Markers, ReadError, Skipped, Task, What, Within, calls};
use std::borrow::Cow;
use std::io::BufRead;
use weir_wire::socket::{address_bits, socket_address_bits};

/// Bytes of a line; a longer one is no event.
const LINE_MAX: usize = 64 << 10;

/// Hands out the events of a text, in its order.
///
/// # Errors
/// [`ReadError::Io`]; a line that is no event is counted and passed over.
pub fn read_ftrace_text(
    mut input: impl BufRead,
    markers: &Markers,
    mut take: impl FnMut(Event<'_>),
) -> Result<Counts, ReadError> {
    let (mut counts, mut line, mut at) = (Counts::default(), Vec::new(), 0u64);
    loop {
        line.clear();
        let read = read_line(&mut input, &mut line).map_err(|source| ReadError::Io { at, source })?;
        if read == 0 {
            return Ok(counts.told());
        }
        at += read as u64;
        tell(&line, markers, &mut counts, &mut take);
    }
}

/// Reads up to the end of a line, and keeps [`LINE_MAX`] bytes of it; how many it had.
pub(crate) fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<usize> {
    let mut read = 0;
    loop {
        let available = match input.fill_buf() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        let end = memchr::memchr(b'\n', available);
        let some = end.map_or(available.len(), |end| end + 1);
        let room = LINE_MAX.saturating_sub(line.len());
        line.extend_from_slice(&available[..some.min(room)]);
        input.consume(some);
        read += some;
        if end.is_some() || some == 0 {
            return Ok(read);
        }
    }
}

fn tell(line: &[u8], markers: &Markers, counts: &mut Counts, take: &mut impl FnMut(Event<'_>)) {
    let text = text(line);
    let text = text.trim_end();
    if let Some(lost) = lost(text) {
        counts.lost += lost.events;
        take(Event { at_ns: 0, cpu: lost.cpu, task: None, process: None, what: What::Lost(lost.events) });
        return;
    }
    let Some(head) = Head::read(text) else {
        if !text.is_empty() && !text.starts_with('#') && !text.starts_with("cpus=") {
            counts.skip(Skipped::NoEvent);
        }
        return;
    };
    counts.event(head.name);
    counts.on_cpu(head.cpu);
    let what = meaning(head.name, head.rest, head.within).counted(head.name, counts);
    let (cpu, task) = (Some(head.cpu), head.task.map(|task| task.number));
    // Tools that have the name at each event tell no events of names.
    if let Some(named) = head.task
        && named.number != 0
        && !matches!(what, What::Switch { .. })
    {
        let named = What::Named { task: named, process: head.process };
        take(Event { at_ns: head.at_ns, cpu, task, process: head.process, what: named });
    }
    let event = Event { at_ns: head.at_ns, cpu, task, process: head.process, what };
    take(event);
    markers.told(head.name, |name| shown(head.rest, name), |mark| take(Event { what: What::Mark(mark), ..event }));
}

/// A field of any event: `name=value`, `name: value` or `name="a text"`, between blanks, commas and brackets.
fn shown<'a>(fields: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let mut from = 0;
    while let Some(found) = fields[from..].find(name) {
        let (begin, end) = (from + found, from + found + name.len());
        let is_apart =
            fields[..begin].chars().next_back().is_none_or(|before| !before.is_alphanumeric() && before != '_');
        let rest = fields[end..].trim_start();
        if let Some(value) = rest.strip_prefix('=').or_else(|| rest.strip_prefix(':')).filter(|_| is_apart) {
            let value = value.trim_start();
            let text = match value.strip_prefix('"') {
                Some(quoted) => quoted.split('"').next(),
                None => value.split([' ', ',', ')', '}']).next(),
            };
            return text.map(Cow::Borrowed);
        }
        from = end;
    }
    None
}

struct Lost {
    cpu: Option<u32>,
    events: u64,
}

/// `CPU:1 [LOST 123 EVENTS]`, as ftrace and trace-cmd write it.
fn lost(text: &str) -> Option<Lost> {
    let rest = trim_start(text).strip_prefix("CPU:")?;
    let (cpu, rest) = rest.split_once(" [")?;
    let rest = rest.strip_prefix("LOST ")?.strip_suffix(']')?;
    let events = rest.split(' ').next()?.parse().unwrap_or(1);
    Some(Lost { cpu: cpu.trim().parse().ok(), events })
}

/// Whether a line is an event.
pub(crate) fn is_event(line: &[u8]) -> bool {
    line.len() <= LINE_MAX && std::str::from_utf8(line).is_ok_and(|line| Head::read(line.trim_end()).is_some())
}

/// What stands before an event's own fields.
#[derive(Debug, PartialEq)]
struct Head<'a> {
    /// None of one that ends, of which perf knows the process alone.
    task: Option<Task<'a>>,
    process: Option<u32>,
    cpu: u32,
    at_ns: u64,
    name: &'a str,
    rest: &'a str,
    within: Within,
}

impl<'a> Head<'a> {
    fn read(line: &'a str) -> Option<Self> {
        // A task's name may hold any of these characters, so the CPU's brackets are those that a time follows.
        let mut from = 0;
        while let Some(found) = memchr::memchr(b'[', &line.as_bytes()[from..]) {
            let open = from + found;
            if let Some(head) = Self::at(line, open) {
                return Some(head);
            }
            from = open + 1;
        }
        None
    }

    fn at(line: &'a str, open: usize) -> Option<Self> {
        let (cpu, rest) = split_once(&line[open + 1..], "]", 0)?;
        let cpu = digits(cpu)? as u32;
        let (task, process) = who(trim_start(&line[..open]).trim_end())?;
        // ftrace has flags between: interrupts off, a switch is needed, in an interrupt, how deep.
        let mut words = trim_start(rest);
        let (mut at_ns, mut within) = (None, Within::NotTold);
        for _ in 0..2 {
            let (word, after) = split_once(words, " ", 0)?;
            words = trim_start(after);
            if let Some(time) = word.strip_suffix(':') {
                at_ns = time_ns(time);
                break;
            }
            within = within_of(word);
        }
        let (name, rest) = split_once(words, ": ", 0).or_else(|| Some((words.strip_suffix(':')?, "")))?;
        // perf has the system before the name.
        let name = name.rsplit_once(':').map_or(name, |(_, name)| name);
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' || byte == b'.';
        (!name.is_empty() && name.bytes().all(is_word)).then_some(())?;
        Some(Self { task, process, cpu, at_ns: at_ns?, name, rest: trim_start(rest), within })
    }
}

/// `d.h2.`: the third letter says in which interrupt (ftrace.rst, "irqs-off, need-resched, hardirq/softirq").
fn within_of(flags: &str) -> Within {
    match flags.as_bytes().get(2) {
        Some(b'h' | b'H' | b'z' | b'Z') => Within::Interrupt,
        Some(b's') => Within::SoftInterrupt,
        Some(b'.') => Within::Task,
        _ => Within::NotTold,
    }
}

/// `name-12`, `name-12 (  10)`, `name 10/12` (`:-1 10/-1` of a task that ends) or `name 12`.
fn who(text: &str) -> Option<(Option<Task<'_>>, Option<u32>)> {
    if let Some((text, process)) = text.strip_suffix(')').and_then(|text| text.rsplit_once('(')) {
        let (name, number) = text.trim_end().rsplit_once('-')?;
        return Some((Some(task(name, digits(number)?)), digits(process.trim()).map(|process| process as u32)));
    }
    if let Some((name, numbers)) = split_last(text)
        && let Some((process, number)) = numbers.split_once('/')
        && let Some(process) = digits(process)
    {
        return Some((digits(number).map(|number| task(name, number)), Some(process as u32)));
    }
    if let Some((name, number)) = text.rsplit_once('-')
        && let Some(number) = digits(number)
    {
        return Some((Some(task(name, number)), None));
    }
    let (name, number) = split_last(text)?;
    Some((Some(task(name, digits(number)?)), None))
}

fn task(name: &str, number: u64) -> Task<'_> {
    Task { number: number as u32, name: name.trim() }
}

/// Seconds with a fraction of up to nine digits, as nanoseconds.
fn time_ns(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let seconds = digits(seconds)?;
    let known = digits(fraction).filter(|_| fraction.len() <= 9)?;
    seconds.checked_mul(1_000_000_000)?.checked_add(known * 10u64.pow(9 - fraction.len() as u32))
}

fn meaning<'a>(name: &'a str, fields: &'a str, within: Within) -> Meaning<'a> {
    let what = match name {
        "sched_switch" => switch(fields),
        "sched_waking" => woken(fields).map(|task| What::Waking { task, within }),
        "sched_process_fork" => fork(fields),
        "sched_process_exec" => Some(What::Exec),
        "sched_process_exit" => Some(What::Exit),
        "task_rename" => renamed(fields),
        "block_rq_issue" => disk(fields).map(What::DiskBegins),
        "block_rq_complete" => disk(fields).map(What::DiskEnds),
        "tcp_probe" => arrives(fields),
        "tcp_rcv_space_adjust" => ends(fields).map(What::Takes),
        "inet_sock_set_state" => {
            let state = value(fields, " newstate=");
            ends(fields).zip(state).map(|(ends, state)| What::Tcp { ends, is_over: state == "TCP_CLOSE" })
        }
        "sys_enter" => raw_call(fields).map(What::CallBegins),
        "sys_exit" => raw_end(fields),
        _ => match (name.strip_prefix("sys_enter_"), name.strip_prefix("sys_exit_")) {
            (Some(call), _) => Some(What::CallBegins(called(call, fields))),
            (_, Some(call)) => returned(fields).map(|result| What::CallEnds { call: named(call), result }),
            _ => return Meaning::None,
        },
    };
    what.map_or(Meaning::Cut, Meaning::Is)
}

/// What stands between two words; names of tasks may hold spaces, so it is the last place of the second that counts.
fn between<'a>(text: &'a str, first: &str, second: &str) -> Option<&'a str> {
    let begin = if text.starts_with(first) { 0 } else { text.find(first)? } + first.len();
    let end = last(&text[begin..], second)? + begin;
    Some(&text[begin..end])
}

/// The word behind the last place of a key, which begins with a blank.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    Some(word(&text[last(text, key)? + key.len()..]))
}

fn word(text: &str) -> &str {
    let end = memchr::memchr3(b' ', b',', b')', text.as_bytes());
    &text[..end.unwrap_or(text.len())]
}

fn switch(text: &str) -> Option<What<'_>> {
    let (from, to) = split_once(text, " ==> ", 3)?;
    if from.starts_with("prev_comm=") {
        let state = state_of_letters(value(from, " prev_state=")?)?;
        let name = between(from, "prev_comm=", " prev_pid=")?;
        let from = task(name, digits(value(from, " prev_pid=")?)?);
        let to = task(between(to, "next_comm=", " next_pid=")?, digits(value(to, " next_pid=")?)?);
        return Some(What::Switch { from, state, to });
    }
    // trace-cmd: name:12 [120] S ==> name:13 [120]
    let (from, letters) = from.rsplit_once(' ')?;
    let state = state_of_letters(letters)?;
    Some(What::Switch { from: with_priority(from)?, state, to: with_priority(to)? })
}

fn with_priority(text: &str) -> Option<Task<'_>> {
    let (text, _) = text.rsplit_once(" [")?;
    let (name, number) = text.rsplit_once(':')?;
    Some(task(name, digits(number)?))
}

fn woken(text: &str) -> Option<Task<'_>> {
    if text.starts_with("comm=") {
        return Some(task(between(text, "comm=", " pid=")?, digits(value(text, " pid=")?)?));
    }
    with_priority(text)
}

fn fork(text: &str) -> Option<What<'_>> {
    let parent = digits(value(&text[..text.find(" child_comm=")?], " pid=")?)? as u32;
    let name = between(text, " child_comm=", " child_pid=")?;
    let child = task(name, digits(value(text, " child_pid=")?)?);
    Some(What::Fork { parent, child, process: None })
}

fn renamed(text: &str) -> Option<What<'_>> {
    let number = digits(word(text[..text.find(" oldcomm=")?].strip_prefix("pid=")?))?;
    let name = between(text, " newcomm=", " oom_score_adj=")?;
    Some(What::Named { task: task(name, number), process: None })
}

/// `8,0 W 4096 () 1234 + 8 [name]`
fn disk(text: &str) -> Option<Disk> {
    let mut words = text.split(' ');
    let (major, minor) = words.next()?.split_once(',')?;
    let operation = words.next()?;
    let plus = text.rfind(" + ")?;
    let sector = text[..plus].rsplit(' ').next()?.parse().ok()?;
    let sectors = digits(text[plus + 3..].split(' ').next()?)? as u32;
    let device = (digits(major)? as u32) << 20 | digits(minor)? as u32;
    Some(Disk { device, sector, sectors, writes: writes(operation) })
}

/// `family=AF_INET src=127.0.0.1:80 dest=127.0.0.1:50862 mark=0 data_len=84 …`, where `src` is the one of this host.
fn arrives(text: &str) -> Option<What<'_>> {
    let end = |key: &str| {
        let (address, port) = socket_address_bits(value(text, key)?)?;
        Some(End { address, port })
    };
    let ends = Ends { local: end(" src=")?, remote: end(" dest=")? };
    Some(What::Arrives { ends, bytes: digits(value(text, " data_len=")?)? as u32, socket: None })
}

/// `… sport=80 dport=50862 saddr=127.0.0.1 daddr=127.0.0.1 saddrv6=::ffff:127.0.0.1 daddrv6=::ffff:127.0.0.1 …`
fn ends(text: &str) -> Option<Ends> {
    let end = |address: &str, port: &str| {
        Some(End { address: address_bits(value(text, address)?)?, port: digits(value(text, port)?)? as u16 })
    };
    Some(Ends { local: end(" saddrv6=", " sport=")?, remote: end(" daddrv6=", " dport=")? })
}

fn named(name: &str) -> Call<'_> {
    Call { name, number: calls::number_of(name), first: None }
}

fn called<'a>(name: &'a str, fields: &str) -> Call<'a> {
    // ftrace: sys_read(fd: 3, …; perf: fd: 0x00000003, …
    // The first argument is taken; each call has another name for it.
    let first =
        fields.split(',').next().and_then(|argument| number(argument.rsplit(':').next()?.trim_end_matches(')')));
    Call { first, ..named(name) }
}

/// `NR 0 (3, 7f, …)`, where the arguments are hexadecimal.
fn raw_call(fields: &str) -> Option<Call<'static>> {
    let (number, arguments) = fields.strip_prefix("NR ")?.split_once(' ')?;
    let number = calls::number(number.parse().ok()?);
    let first = arguments.trim_start_matches('(').split([',', ')']).next();
    let first = first.and_then(|first| u64::from_str_radix(first.trim(), 16).ok());
    Some(Call { name: number.map_or("", calls::name_of), number, first })
}

/// `NR 0 = 5`
fn raw_end(fields: &str) -> Option<What<'static>> {
    let (number, result) = split_once(fields.strip_prefix("NR ")?, " = ", 1)?;
    let number = calls::number(number.trim().parse().ok()?);
    let call = Call { name: number.map_or("", calls::name_of), number, first: None };
    Some(What::CallEnds { call, result: result.split(' ').next()?.parse().ok()? })
}

/// ftrace: `sys_read -> 0x5`; the others: `0x5`, behind which perf may have where it was.
fn returned(fields: &str) -> Option<i64> {
    let word = split_once(fields, "-> ", 1).map_or(fields, |(_, result)| result).split(' ').next()?;
    if let Some(hexadecimal) = word.strip_prefix("0x") {
        return u64::from_str_radix(hexadecimal, 16).ok().map(u64::cast_signed);
    }
    word.parse().ok()
}

fn number(text: &str) -> Option<u64> {
    match text.trim().strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok(),
        None => text.trim().parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(line: &str) -> (Head<'_>, Option<What<'_>>) {
        let head = Head::read(line).unwrap_or_else(|| panic!("no event: {line}"));
        let what = match meaning(head.name, head.rest, head.within) {
            Meaning::Is(what) => Some(what),
            Meaning::None | Meaning::Cut => None,
        };
        (head, what)
    }

    #[test]
    fn each_tools_lines_say_the_same() {
        let expected = What::Switch {
            from: Task { number: 12, name: "a b-1" },
            state: 1,
            to: Task { number: 0, name: "swapper/0" },
        };
        for (line, process) in [
            (
                "  a b-1-12    [001] d..2.  7.000000042: sched_switch: prev_comm=a b-1 prev_pid=12 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120",
                None,
            ),
            (
                "  a b-1-12  (   10) [001] d..2.  7.000000042: sched_switch: prev_comm=a b-1 prev_pid=12 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120",
                Some(10),
            ),
            ("  a b-1-12    [001]  7.000000042: sched_switch:   a b-1:12 [120] S ==> swapper/0:0 [120]", None),
            (
                "  a b-1 10/12    [001]  7.000000042:   sched:sched_switch: prev_comm=a b-1 prev_pid=12 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120",
                Some(10),
            ),
        ] {
            let (head, what) = event(line);
            assert_eq!(
                (head.task, head.process, head.cpu),
                (Some(Task { number: 12, name: "a b-1" }), process, 1),
                "{line}"
            );
            assert_eq!((head.at_ns, what), (7_000_000_042, Some(expected)), "{line}");
        }
    }

    #[test]
    fn microseconds_are_nanoseconds_too() {
        assert_eq!(time_ns("7.000042"), Some(7_000_042_000));
        assert_eq!((time_ns("7"), time_ns("7.0000000421"), time_ns("-7.1")), (None, None, None));
    }

    #[test]
    fn requests_to_disks_and_calls_are_read() {
        let at = |rest: &str| format!("x-1 [000] 1.000000: {rest}");
        let disk = Disk { device: 254 << 20, sector: 1_234, sectors: 8, writes: Some(true) };
        assert_eq!(
            event(&at("block_rq_issue: 254,0 WS 4096 () 1234 + 8 [kworker/0:1]")).1,
            Some(What::DiskBegins(disk))
        );
        let call = Call { name: "read", number: calls::number_of("read"), first: Some(3) };
        assert_eq!(event(&at("sys_enter_read: fd: 0x00000003, buf: 0x7f")).1, Some(What::CallBegins(call)));
        assert_eq!(
            event(&at("sys_exit_read: 0xfffffffffffffff5")).1,
            Some(What::CallEnds { call: named("read"), result: -11 })
        );
    }

    #[test]
    fn what_is_no_event_is_counted_and_what_was_lost_too() {
        let text = "# tracer: nop\ncpus=2\nCPU:1 [LOST 12 EVENTS]\nnonsense\nx-1 [000] 1.000000: sched_switch: cut\n";
        let mut events = Vec::new();
        let counts =
            read_ftrace_text(text.as_bytes(), &Markers::default(), |event| events.push(format!("{:?}", event.what)))
                .expect("it is read");
        assert_eq!(
            (counts.lost, counts.skipped[&Skipped::NoEvent], counts.skipped[&Skipped::FieldMissing]),
            (12, 1, 1)
        );
        assert_eq!(events.len(), 3, "{events:?}");
    }
}
