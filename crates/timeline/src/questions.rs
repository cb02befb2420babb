//! What servers asked behind, as the wire told it: kept for the steps in which a request waited for the answer.

use crate::sockets::Sockets;
use crate::step::{Detail, Step};
use crate::tasks::{Tasks, Verb};
use crate::texts::Texts;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use weir_measure::part::Part;
use weir_wire::asked::Question;
use weir_wire::{Record, Slot};

/// Questions that are remembered for requests that are not told yet.
const MOST_KEPT: usize = 1 << 18;
/// Questions that are kept until they are folded.
const MOST_ENDED: usize = 1 << 14;
/// Questions that are looked through for the one that a step waited for.
const MOST_LOOKED: usize = 256;
/// A send is told so soon after its bytes are, nanoseconds.
const SENT_WITHIN_NS: u64 = 1_000_000;
/// How the other end of a Unix socket is called where no task of it is known.
const UNIX: &str = "a Unix socket";
/// Protocols of databases, whose own work is named by the statement.
const DATABASES: [&str; 2] = ["postgresql", "mysql"];

/// A question that is over, for the folds; the texts are the joiner's ([`crate::Joiner::text`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuestionRun {
    /// Who was asked, and by which protocol.
    pub peer: u32,
    /// What was asked, and with which status it ended: with a tab between.
    pub question: u32,
    /// From the question to the first bytes of its answer, nanoseconds.
    pub wait_ns: u64,
    /// It failed.
    pub failed: bool,
    /// An answer was seen.
    pub answered: bool,
}

#[derive(Debug, Clone, Copy)]
struct Kept {
    asked_ns: u64,
    answered_ns: u64,
    /// The task that asked, and the client's connection for whose request it did; 0 where that is not known.
    pid: u32,
    owner: u32,
    peer: Option<SocketAddr>,
    /// The shape's text.
    shape: u32,
    of_database: bool,
}

/// All questions that may still be asked for.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// In the order of the times at which they were asked.
    kept: VecDeque<Kept>,
    ended: Vec<QuestionRun>,
    /// Some were told: those of requests under way may still come.
    active: bool,
    /// Ends and questions that there was no room for.
    dropped: u64,
}

impl Questions {
    /// Whether the recording tells questions.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// Takes a question that is over; `name` has its protocol, shape and status.
    pub(crate) fn push(
        &mut self,
        record: &Record,
        slots: &[Slot],
        name: Option<&Arc<str>>,
        (sockets, tasks): (&Sockets, &Tasks),
        texts: &mut Texts,
    ) {
        let (Some(question), Some(name)) = (Question::read(record, slots), name.map(|name| &**name)) else { return };
        self.active = true;
        let (protocol, rest) = name.split_once('\t').unwrap_or(("", name));
        let shape = rest.split_once('\t').map_or(rest, |(shape, _)| shape);
        let peer = sockets.get(question.socket).map(|socket| socket.open.remote);
        let peer_words = peer.map_or_else(|| UNIX.to_owned(), |peer| peer.to_string());
        let wait_ns = question.answered_ns.saturating_sub(question.asked_ns);
        if self.ended.len() < MOST_ENDED {
            self.ended.push(QuestionRun {
                peer: texts.number(&format!("{peer_words}\t{protocol}")),
                question: texts.number(rest),
                wait_ns,
                failed: question.failed,
                answered: question.answered,
            });
        } else {
            self.dropped += 1;
        }
        let until_ns = question.asked_ns.saturating_add(SENT_WITHIN_NS);
        let mut sends = tasks.touches(question.pid, question.asked_ns, until_ns);
        let send = sends.find(|touch| touch.socket == question.socket && touch.verb == Verb::Send);
        self.keep(Kept {
            asked_ns: question.asked_ns,
            answered_ns: question.answered_ns,
            pid: question.pid,
            owner: send.map_or(0, |touch| touch.owner),
            peer,
            shape: texts.number(shape),
            of_database: DATABASES.contains(&protocol),
        });
    }

    fn keep(&mut self, one: Kept) {
        let at = self.kept.partition_point(|kept| kept.asked_ns <= one.asked_ns);
        self.kept.insert(at, one);
        if self.kept.len() > MOST_KEPT {
            self.kept.pop_front();
            self.dropped += 1;
        }
    }

    /// The questions that are over since this was last asked, and how many there was no room for.
    pub(crate) fn take_ended(&mut self) -> (Vec<QuestionRun>, u64) {
        (std::mem::take(&mut self.ended), std::mem::take(&mut self.dropped))
    }

    /// The one question, by its shape, that was open throughout a step or in some of it, among those that fit.
    fn the_one(&self, step: &Step, fits: impl Fn(&Kept) -> bool) -> Option<Kept> {
        let begun = self.kept.partition_point(|kept| kept.asked_ns < step.to_ns);
        let open = self.kept.range(..begun).rev().take(MOST_LOOKED).filter(|kept| kept.answered_ns > step.from_ns);
        let mut fitting = open.filter(|kept| fits(kept));
        let first = *fitting.next()?;
        fitting.all(|other| other.shape == first.shape).then_some(first)
    }

    /// The question that a step of a request over a client's connection was spent on; none where it might be several.
    fn of_step(&self, step: &Step, socket: u32) -> Option<Kept> {
        let by = |kept: &Kept, peer: Option<SocketAddr>| kept.peer == peer;
        match (step.part, step.detail) {
            (Part::WaitProcess | Part::WaitNetwork, Detail::Peer(peer)) => self
                .the_one(step, |kept| by(kept, Some(peer)) && kept.pid == step.pid)
                .or_else(|| {
                    self.the_one(step, |kept| by(kept, Some(peer)) && kept.pid == step.pid && kept.owner == socket)
                })
                .or_else(|| self.the_one(step, |kept| by(kept, Some(peer)) && kept.owner == socket)),
            // A Unix socket's peer has no address; who ended the wait is known.
            (Part::WaitProcess, Detail::Task(_) | Detail::None) => self
                .the_one(step, |kept| by(kept, None) && kept.pid == step.pid)
                .or_else(|| self.the_one(step, |kept| by(kept, None) && kept.owner == socket)),
            // A database's own work, where that is recorded.
            (Part::Run | Part::WaitTimer | Part::WaitDisk | Part::WaitLock, detail) if step.waiter != 0 => {
                let own = detail == Detail::None || detail == Detail::Task(step.pid);
                self.the_one(step, |kept| kept.of_database && kept.pid == step.waiter).filter(|_| own)
            }
            _ => None,
        }
    }

    /// Names the question in the steps that were spent on its answer.
    pub(crate) fn name(&self, steps: &mut [Step], socket: u32, tasks: &Tasks, texts: &mut Texts) {
        if self.kept.is_empty() {
            return;
        }
        for step in steps {
            let Some(kept) = self.of_step(step, socket) else { continue };
            let name = |pid: u32| tasks.named_at(pid, step.from_ns).map(|name| name.name.clone());
            let who = match (kept.peer, step.detail) {
                _ if step.waiter != 0 && step.part != Part::WaitProcess && step.part != Part::WaitNetwork => {
                    name(step.pid).unwrap_or_default()
                }
                (Some(peer), _) => peer.to_string(),
                (None, Detail::Task(pid)) => name(pid).unwrap_or_else(|| UNIX.to_owned()),
                (None, _) => UNIX.to_owned(),
            };
            let text = format!("{who}: {}", texts.text(kept.shape));
            step.detail = Detail::Named(texts.number(&text));
        }
    }

    /// Forgets what was over before a time.
    pub(crate) fn trim(&mut self, before_ns: u64) {
        self.kept.retain(|kept| kept.answered_ns >= before_ns);
    }

    /// How many things are held.
    pub(crate) fn held(&self) -> usize {
        self.kept.len() + self.ended.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_wire::socket::SocketOpen;

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn open(socket: u32, port: u16) -> SocketOpen {
        let cookie = u64::from(socket);
        SocketOpen { socket, receive_base: 0, send_base: 0, cookie, netns: 0, local: peer(1), remote: peer(port) }
    }

    fn told(questions: &mut Questions, texts: &mut Texts, socket: u32, pid: u32, times: (u64, u64), name: &str) {
        let mut sockets = Sockets::default();
        for (socket, port) in [(7, 5432), (8, 6379)] {
            sockets.open(open(socket, port), 0);
        }
        let (asked_ns, answered_ns) = times;
        let question = Question { socket, name: 0, failed: false, answered: true, asked_ns, answered_ns, pid };
        let (record, slots) = question.write(answered_ns + 40_000_000);
        questions.push(&record, &slots, Some(&Arc::from(name)), (&sockets, &Tasks::default()), texts);
    }

    fn wait(from_ns: u64, to_ns: u64, pid: u32, detail: Detail) -> Step {
        Step { from_ns, to_ns, part: Part::WaitProcess, pid, waiter: 0, detail }
    }

    fn named(questions: &Questions, texts: &mut Texts, step: Step) -> String {
        let mut steps = [step];
        questions.name(&mut steps, 5, &Tasks::default(), texts);
        match steps[0].detail {
            Detail::Named(number) => texts.text(number).to_owned(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_wait_has_the_name_of_its_question_and_two_at_a_time_have_none() {
        let (mut questions, mut texts) = (Questions::default(), Texts::default());
        told(&mut questions, &mut texts, 7, 40, (100, 200), "postgresql\tSELECT ?\t");
        told(&mut questions, &mut texts, 8, 40, (150, 260), "redis\tGET\t");
        told(&mut questions, &mut texts, 7, 41, (110, 190), "postgresql\tSELECT ?\t42P01");
        told(&mut questions, &mut texts, 7, 40, (300, 400), "postgresql\tUPDATE t\t");
        told(&mut questions, &mut texts, 7, 40, (310, 400), "postgresql\tINSERT t\t");
        let mut of = |step| named(&questions, &mut texts, step);
        assert_eq!(of(wait(100, 200, 40, Detail::Peer(peer(5432)))), "127.0.0.1:5432: SELECT ?");
        assert_eq!(of(wait(150, 260, 40, Detail::Peer(peer(6379)))), "127.0.0.1:6379: GET");
        assert!(of(wait(320, 400, 40, Detail::Peer(peer(5432)))).starts_with("Peer"), "it may have been either");
        assert!(of(wait(500, 600, 40, Detail::Peer(peer(5432)))).starts_with("Peer"), "no question was open");
        assert!(of(wait(100, 200, 99, Detail::Peer(peer(5432)))).starts_with("Peer"), "another task asked");
        let (ended, dropped) = questions.take_ended();
        assert_eq!((ended.len(), dropped, ended[0].wait_ns), (5, 0, 100));
    }

    #[test]
    fn a_databases_own_work_is_named_by_the_statement_and_a_unix_sockets_by_its_task() {
        let (mut questions, mut texts) = (Questions::default(), Texts::default());
        told(&mut questions, &mut texts, 9, 40, (100, 200), "mysql\tSELECT SLEEP(?)\t");
        let sleeps = Step { part: Part::WaitTimer, waiter: 40, ..wait(110, 190, 77, Detail::Task(77)) };
        assert_eq!(named(&questions, &mut texts, sleeps), ": SELECT SLEEP(?)");
        let step = wait(110, 190, 40, Detail::None);
        assert_eq!(named(&questions, &mut texts, step), "a Unix socket: SELECT SLEEP(?)");
    }

    proptest! {
        #[test]
        fn what_is_kept_is_in_order_and_trimmed(times in proptest::collection::vec((0u64..500, 0u64..100), 0..60), at in 0u64..600) {
            let (mut questions, mut texts) = (Questions::default(), Texts::default());
            for (asked_ns, wait_ns) in times {
                told(&mut questions, &mut texts, 1, 2, (asked_ns, asked_ns + wait_ns), "redis\tGET\t");
            }
            let asked: Vec<u64> = questions.kept.iter().map(|kept| kept.asked_ns).collect();
            prop_assert!(asked.is_sorted());
            questions.trim(at);
            prop_assert!(questions.kept.iter().all(|kept| kept.answered_ns >= at));
        }
    }
}
