//! What objects are called.

use crate::events::{ANY, ObjectId};
use crate::paths::Label;
use crate::table::{EXTERNAL, FUNCTION, TASK};
use crate::texts::Texts;
use rustc_hash::FxHashMap;
use weir_wire::probe::ProbePoint;
use weir_wire::watched::{NAMED_DEVICE, NAMED_FILE, NAMED_FUNCTION, NAMED_INTERRUPT};

/// Tasks, and other objects, whose names are remembered.
const MOST: usize = 1 << 17;

/// Names of tasks, of what other events refer to by a key, and of functions.
#[derive(Debug, Default)]
pub(crate) struct Names {
    texts: Texts,
    tasks: FxHashMap<u32, (u32, u32)>,
    keys: FxHashMap<(u8, u64), u32>,
    points: FxHashMap<u32, (u32, u16)>,
    told: u64,
}

impl Names {
    /// How often a name was given.
    pub(crate) fn told(&self) -> u64 {
        self.told
    }

    pub(crate) fn number(&mut self, text: &str) -> u32 {
        self.texts.number(text)
    }

    /// The number of a dictionary's text and what a hit of a probe means; of a probe's text the words that people read.
    pub(crate) fn point(&mut self, text: &str) -> (u32, u16) {
        let raw = self.texts.number(text);
        if let Some(known) = self.points.get(&raw) {
            return *known;
        }
        let point = ProbePoint::read(text);
        let known = match point {
            Some(point) => (self.texts.number(&format!("{}: {}", point.server, point.name)), point.roles),
            None => (raw, 0),
        };
        if self.points.len() < MOST {
            self.points.insert(raw, known);
        }
        known
    }

    /// A task has this name from now on. Returns whether it had another one.
    pub(crate) fn name_task(&mut self, pid: u32, tgid: u32, name: &str) -> bool {
        let number = self.texts.number(name);
        if self.tasks.len() >= MOST && !self.tasks.contains_key(&pid) {
            return false;
        }
        let before = self.tasks.insert(pid, (number, tgid));
        self.told += 1;
        before.is_none_or(|(before, _)| before != number)
    }

    /// A task is made: it has its parent's name until it takes another one.
    pub(crate) fn inherit(&mut self, parent: u32, child: u32, tgid: u32) {
        if let Some((name, of)) = self.tasks.get(&parent).copied()
            && (self.tasks.len() < MOST || self.tasks.contains_key(&child))
        {
            self.tasks.insert(child, (name, if tgid == 0 { of } else { tgid }));
            self.told += 1;
        }
    }

    pub(crate) fn name_key(&mut self, flags: u8, key: u64, name: &str) {
        if self.keys.len() < MOST {
            let number = self.texts.number(name);
            self.keys.insert((flags, key), number);
            self.told += 1;
        }
    }

    /// What a task's part of a transaction is called: all tasks of a name are one.
    pub(crate) fn task_label(&self, pid: u32) -> Label {
        self.tasks.get(&pid).map_or(Label::Called(TASK, u64::from(pid)), |(name, _)| Label::Text(*name))
    }

    /// The name alone of a task, and its process.
    pub(crate) fn task(&self, pid: u32) -> Option<(&str, u32)> {
        self.tasks.get(&pid).map(|(name, tgid)| (self.texts.text(u64::from(*name)), *tgid))
    }

    pub(crate) fn label(&self, label: Label) -> String {
        match label {
            Label::Text(number) => self.texts.text(u64::from(number)).to_owned(),
            Label::Called(TASK, number) => format!("task {number}"),
            Label::Called(_, ANY) => "outside".to_owned(),
            Label::Called(FUNCTION, number) => self.texts.text(number).to_owned(),
            Label::Called(_, number) => number.to_string(),
        }
    }

    /// What an object is called, without its class.
    pub(crate) fn object(&self, object: ObjectId, class: &str) -> String {
        let ObjectId { class: number_of_class, number } = object;
        if number == ANY {
            return "(any)".to_owned();
        }
        if number_of_class == TASK {
            let name = u32::try_from(number).ok().and_then(|pid| self.task(pid));
            return name.map_or_else(|| number.to_string(), |(name, _)| format!("{name} ({number})"));
        }
        if [FUNCTION, EXTERNAL].contains(&number_of_class) || ["question", "own-lock", "client"].contains(&class) {
            return self.texts.text(number).to_owned();
        }
        if ["stream", "tls-stream"].contains(&class) {
            return format!("{} of connection {}", number >> 32, number & 0xffff_ffff);
        }
        let flags: &[u8] = match class {
            "disk" => &[NAMED_DEVICE],
            "interrupt" => &[NAMED_INTERRUPT],
            "lock" => &[NAMED_FUNCTION, NAMED_FILE],
            "file" => &[NAMED_FILE],
            _ => &[],
        };
        let named = flags.iter().find_map(|flags| self.keys.get(&(*flags, number)));
        let plain =
            || if ["lock", "futex", "file"].contains(&class) { format!("{number:#x}") } else { number.to_string() };
        named.map_or_else(plain, |name| self.texts.text(u64::from(*name)).to_owned())
    }
}
