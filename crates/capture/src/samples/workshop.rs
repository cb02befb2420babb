//! Makes stacks of what the programs tell: walks them, puts PHP's functions among them, tells what is new.

use super::channel::Told;
use super::memory::{self, StackCopy};
use super::objects::Objects;
use super::php::{self, Places};
use super::programs::{Blocked, Counters, Event, OnCpu, PhpFunction, Programs};
use super::space::{Space, Spaces};
use super::symbols::{Names, kernel_begin, kernel_frame};
use super::tree::Tree;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::mpsc::SyncSender;
use weir_wire::stack::{self, Frame, StackSample};

/// Names that a generation makes up: functions of interpreters.
const MOST_NAMED: usize = 1 << 15;
/// Processes of which it is remembered whether they hold an interpreter.
const MOST_INTERPRETERS: usize = 1 << 14;
/// Bytes that are read of a blocked task's stack.
const BLOCKED_STACK_BYTES: usize = 1 << 17;
/// Remarks that are told, each once.
const MOST_REMARKS: usize = 64;

/// Everything that makes stacks of events.
#[derive(Debug)]
pub(super) struct Workshop {
    period_ns: u64,
    channel: SyncSender<Told>,
    /// Records that found no room on their way to the collector.
    lost: u64,
    objects: Objects,
    spaces: Spaces,
    tree: Tree,
    names: Names,
    /// Frames that are a name, with their numbers.
    named: HashMap<String, u64>,
    told_objects: HashSet<u16>,
    interpreters: HashMap<u32, Option<Interpreter>>,
    /// Samples whose functions of PHP may still come, by task.
    pending: HashMap<u32, Pending>,
    remarks: HashSet<String>,
    kernel_begin: u64,
}

/// An interpreter in a process.
#[derive(Debug, Clone)]
struct Interpreter {
    places: Places,
    object: u16,
    /// The function that executes PHP's code, as offsets in the object.
    execute: Range<u64>,
}

/// A stack; the innermost frame first.
#[derive(Debug)]
struct Pending {
    tgid: u32,
    at_ns: u64,
    weight_ns: u64,
    blocked: bool,
    kernel: Vec<Frame>,
    user: Vec<Frame>,
    php: Vec<String>,
}

impl Workshop {
    pub(super) fn new(period_ns: u64, channel: SyncSender<Told>) -> Self {
        Self {
            period_ns,
            channel,
            lost: 0,
            objects: Objects::default(),
            spaces: Spaces::default(),
            tree: Tree::default(),
            names: Names::default(),
            named: HashMap::new(),
            told_objects: HashSet::new(),
            interpreters: HashMap::new(),
            pending: HashMap::new(),
            remarks: HashSet::new(),
            kernel_begin: kernel_begin(),
        }
    }

    /// A process runs another program, or has ended.
    pub(super) fn forget(&mut self, programs: &Programs, tgid: u32) {
        self.spaces.forget(tgid);
        if self.interpreters.remove(&tgid).flatten().is_some() {
            programs.interpret_no_more(tgid);
        }
    }

    /// Takes what stands in the ring.
    pub(super) fn take(&mut self, programs: &Programs, bytes: &[u8]) {
        match Event::read(bytes) {
            Some(Event::OnCpu(sample)) => self.on_cpu(programs, &sample),
            Some(Event::Php(PhpFunction { pid, index, name })) => {
                if let Some(pending) = self.pending.get_mut(&pid).filter(|one| one.php.len() == index as usize) {
                    pending.php.push(name);
                }
            }
            None => {}
        }
    }

    fn on_cpu(&mut self, programs: &Programs, sample: &OnCpu<'_>) {
        let mut user = Vec::new();
        if let Some(space) = self.spaces.of(sample.tgid, sample.registers.ip, sample.time_ns, &mut self.objects) {
            let stack = StackCopy { begin: sample.registers.sp, bytes: sample.stack.to_vec() };
            self.spaces.unwind(&space, sample.registers, &stack, &mut user);
            self.interpreter(programs, sample.tgid, &space);
        } else {
            self.closed(sample.tgid);
        }
        let pending = Pending {
            tgid: sample.tgid,
            at_ns: sample.time_ns,
            weight_ns: self.period_ns,
            blocked: false,
            kernel: self.kernel_frames(&sample.kernel),
            user,
            php: Vec::new(),
        };
        if let Some(before) = self.pending.insert(sample.pid, pending) {
            self.tell_stack(sample.pid, before);
        }
    }

    /// Takes a blocked task: its stack stands still, unless it is woken while we read.
    pub(super) fn blocked(&mut self, programs: &Programs, blocked: &Blocked, weight_ns: u64) {
        let Blocked { pid, tgid, registers, time_ns: at_ns, .. } = *blocked;
        let mut user = Vec::new();
        let mut php = Vec::new();
        if let Some(space) = self.spaces.of(tgid, registers.ip, at_ns, &mut self.objects) {
            let stack = StackCopy::of(pid, registers.sp, BLOCKED_STACK_BYTES);
            if stack.bytes.is_empty() {
                self.remark(0, &format!("stacks of blocked tasks lack the program's frames: {}", memory::WHY_NOT));
            }
            self.spaces.unwind(&space, registers, &stack, &mut user);
            if let Some(interpreter) = self.interpreter(programs, tgid, &space) {
                php = interpreter.places.read(pid);
            }
        } else {
            self.closed(tgid);
        }
        if memory::runs(tgid, pid) != Some(blocked.runs) {
            // It runs, or has run: what was read is of two moments.
            return;
        }
        let kernel = self.kernel_frames(&blocked.kernel);
        self.tell_stack(pid, Pending { tgid, at_ns, weight_ns, blocked: true, kernel, user, php });
    }

    /// Says it once if a process that lives does not let us look at what it has mapped.
    fn closed(&mut self, tgid: u32) {
        if memory::is_closed(tgid) {
            self.remark(
                0,
                &format!("stacks lack the program's frames and hold the kernel's alone: {}", memory::WHY_NOT),
            );
        }
    }

    /// Tells the samples whose functions of PHP have come by now.
    pub(super) fn settle(&mut self) {
        for (pid, pending) in std::mem::take(&mut self.pending) {
            self.tell_stack(pid, pending);
        }
    }

    fn kernel_frames(&self, addresses: &[u64]) -> Vec<Frame> {
        addresses.iter().map(|address| kernel_frame(self.kernel_begin, *address)).collect()
    }

    /// The interpreter of a process, looked for when the process is met first.
    fn interpreter(&mut self, programs: &Programs, tgid: u32, space: &Space) -> Option<Interpreter> {
        if let Some(known) = self.interpreters.get(&tgid) {
            return known.clone();
        }
        if self.interpreters.len() >= MOST_INTERPRETERS {
            self.interpreters.clear();
        }
        let found = space.code().find_map(|code| Some((php::places(space, code)?, code)));
        let interpreter = match found {
            Some((Ok(places), code)) => {
                programs.interpret(tgid, &places);
                let execute = code.php.as_ref().map_or(0..0, |php| php.execute.clone());
                Some(Interpreter { places, object: code.told.object, execute })
            }
            Some((Err(why), _)) => {
                self.remark(0, &why.to_string());
                None
            }
            None => None,
        };
        self.interpreters.insert(tgid, interpreter.clone());
        interpreter
    }

    fn tell_stack(&mut self, pid: u32, pending: Pending) {
        let Pending { tgid, at_ns, weight_ns, blocked, kernel, user, php } = pending;
        let interpreter = self.interpreters.get(&tgid).cloned().flatten();
        let php: Vec<Frame> = php.iter().map(|name| self.named(name)).collect();
        let user = with_php(user, php, interpreter.as_ref());
        let mut fresh = Vec::new();
        let frames = user.iter().rev().chain(kernel.iter().rev());
        let node = self.tree.node(frames.copied(), |node| fresh.push(node));
        for node in fresh {
            self.tell_object(node.frame.object());
            if node.frame.object() != Frame::NAMED {
                self.names.want(node.frame);
            }
            self.tell((node.write(0), Vec::new()));
        }
        let (record, slots) = StackSample { pid, node, at_ns, weight_ns, blocked }.write(0);
        self.tell((record, slots.to_vec()));
    }

    fn tell_object(&mut self, object: u16) {
        if self.told_objects.insert(object)
            && let Some(code) = self.objects.get(object)
        {
            let told = code.told.write(0);
            self.tell(told);
        }
    }

    /// The frame that is a name.
    fn named(&mut self, name: &str) -> Frame {
        let number = match self.named.get(name) {
            Some(number) => *number,
            // Beyond the bound all are the same, which has no name.
            None if self.named.len() >= MOST_NAMED => 0,
            None => {
                let number = self.named.len() as u64 + 1;
                self.named.insert(name.to_owned(), number);
                self.tell(stack::symbol(Frame::new(Frame::NAMED, number), name, 0));
                number
            }
        };
        Frame::new(Frame::NAMED, number)
    }

    fn tell(&mut self, told: Told) {
        self.lost += u64::from(self.channel.try_send(told).is_err());
    }

    fn remark(&mut self, samples: u64, text: &str) {
        if self.remarks.len() < MOST_REMARKS && self.remarks.insert(text.to_owned()) {
            self.tell(stack::note(samples, text, 0));
        }
    }

    /// Whether a generation is due although its time has not come.
    pub(super) fn is_full(&self) -> bool {
        self.tree.is_full() || self.named.len() >= MOST_NAMED
    }

    /// Ends a generation: gives the names of its frames, and forgets what was told.
    pub(super) fn end_generation(&mut self) -> Vec<Told> {
        let mut names = Vec::new();
        let (begin, objects) = (self.kernel_begin, &self.objects);
        self.names.find(begin, objects, |frame, name| names.push(stack::symbol(frame, name, 0)));
        self.tree.forget();
        self.named.clear();
        self.told_objects.clear();
        names
    }

    /// The same on the way: what it gives goes the way of all.
    pub(super) fn begin_anew(&mut self) {
        for told in self.end_generation() {
            self.tell(told);
        }
    }

    /// What was lost, in words.
    pub(super) fn losses(&self, counters: Counters) -> Vec<Told> {
        let mut notes = Vec::new();
        let mut note = |samples: u64, why: &str| {
            if samples > 0 {
                notes.push(stack::note(samples, &format!("{samples} {why}"), 0));
            }
        };
        note(counters.dropped, "samples of running tasks found no room in the sampler's ring");
        note(self.lost, "samples or frames found no room on their way to the run");
        // Those that stayed blocked were told by a later look.
        if counters.passed > counters.fresh / 10 {
            note(counters.passed, "times a task that had just blocked was passed over, so that looking stays cheap");
        }
        notes
    }
}

/// Puts functions of PHP among a program's frames (all innermost first): above the function that executes them, in place
/// of what the interpreter does between its first turn and its last.
fn with_php(mut user: Vec<Frame>, php: Vec<Frame>, interpreter: Option<&Interpreter>) -> Vec<Frame> {
    if php.is_empty() {
        return user;
    }
    let executes = |frame: &Frame| {
        interpreter.is_some_and(|one| frame.object() == one.object && one.execute.contains(&frame.offset()))
    };
    let (first, last) = (user.iter().position(executes), user.iter().rposition(executes));
    match first.zip(last) {
        Some((first, last)) => drop(user.splice(first..last, php)),
        // Its code was compiled at run time, or the walk ended early: what is known of the program is within PHP.
        None => user.extend(php),
    }
    user
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_php_stand_on_the_function_that_executes_them() {
        let places = php::tests_places();
        let interpreter = Interpreter { places, object: 3, execute: 100..200 };
        let (leaf, within, run, main) = (Frame(1), Frame(2), Frame::new(3, 150), Frame(4));
        let (inner, outer) = (Frame::new(Frame::NAMED, 1), Frame::new(Frame::NAMED, 2));
        let put = |user: &[Frame]| with_php(user.to_vec(), vec![inner, outer], Some(&interpreter));
        assert_eq!(put(&[leaf, run, main]), [leaf, inner, outer, run, main]);
        assert_eq!(put(&[leaf, run, within, run, main]), [leaf, inner, outer, run, main]);
        assert_eq!(put(&[leaf, main]), [leaf, main, inner, outer]);
        assert_eq!(with_php(vec![leaf, main], Vec::new(), None), [leaf, main]);
    }
}
