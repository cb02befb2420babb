//! Requests over connections: what is given at the end that asks is taken at the other one, which answers.

use crate::accounts::{Naming, Transaction};
use crate::ends::{End, Question, Role};
use crate::events::{Event, ObjectId};
use crate::fold::{Asked, Framework, task_of};
use crate::table::{CLIENT, EXTERNAL, TASK};
use crate::task::Base;

impl Framework {
    /// Data came to an end: if it answers, the next request begins with the first of it.
    pub(crate) fn arrive(&mut self, event: Event) {
        let key = (event.interaction, event.object.number);
        let is_next = self.jobs.get(&key).is_none_or(|job| job.finished_ns.is_some());
        let Some(end) = end(self, event.object) else { return };
        if end.role != Role::Asks && is_next {
            end.ready_ns.get_or_insert(event.at_ns);
        }
    }

    /// A task takes data from an end: it accepts a request, or hears an answer.
    pub(crate) fn take_data(&mut self, event: Event) {
        let Some(id) = u32::try_from(event.object.number).ok() else { return };
        let Some(pid) = task_of(event.requester) else { return };
        let Some(role) = self.role(event.object, Role::Answers) else { return };
        if role == Role::Asks {
            return self.hear(event, pid);
        }
        let key = (event.interaction, u64::from(id));
        let position = self.position(event);
        // What is left of a request may be taken after the answer; the next one begins with the next question.
        let was_asked = self.asked.contains_key(&(event.interaction, event.object));
        let is_within = end(self, event.object).is_some_and(|end| end.peer.is_some()) && !was_asked;
        let is_next = self.jobs.get(&key).is_none_or(|job| job.finished_ns.is_some() && !is_within);
        if is_next { self.accept_request(event, pid, key, position) } else { self.touch(key, pid, event.at_ns) }
    }

    /// A task gives data to an end: it asks, or answers.
    pub(crate) fn give_data(&mut self, event: Event) {
        let Some(pid) = task_of(event.requester) else { return };
        let Some(role) = self.role(event.object, Role::Asks) else { return };
        if role == Role::Asks {
            return self.ask(event, pid);
        }
        let key = (event.interaction, event.object.number);
        let Some(job) = self.jobs.get(&key) else {
            // The server speaks first, or its taking was not seen.
            self.counts.finishes_unaccepted += 1;
            return;
        };
        let is_first = job.finished_ns.is_none();
        self.verbs[usize::from(event.interaction)][2] += u64::from(is_first);
        self.answer(key, pid, event.at_ns);
    }

    /// What an end is for; if that is not known, what is done there first tells.
    fn role(&mut self, object: ObjectId, first: Role) -> Option<Role> {
        let id = u32::try_from(object.number).ok()?;
        if self.ends.get(id)?.role == Role::Unknown {
            self.ends.settle(id, first);
        }
        Some(self.ends.get(id)?.role)
    }

    /// The position in the stream before what is taken now.
    fn position(&mut self, event: Event) -> u64 {
        let sequence = event.sequence;
        end(self, event.object).map_or(0, |end| end.take(sequence))
    }

    fn accept_request(&mut self, event: Event, pid: u32, key: (u16, u64), position: u64) {
        if self.jobs.contains_key(&key) {
            self.end_job(key, event.at_ns);
        }
        let Some(own) = end(self, event.object) else { return };
        let (peer, addresses, ready_ns) = (own.peer, own.addresses, own.ready_ns.take());
        self.verbs[usize::from(event.interaction)][1] += 1;
        let asked = self.asked.remove(&(event.interaction, event.object));
        let asked = match (peer, asked) {
            (Some(_), asked) => asked,
            (None, _) => {
                let client = addresses.map_or(0, |(_, remote)| {
                    let words = weir_wire::socket::client_words(remote.ip());
                    self.names.number(&words)
                });
                let requester = ObjectId { class: CLIENT, number: u64::from(client) };
                self.verbs[usize::from(event.interaction)][0] += u64::from(ready_ns.is_some());
                let place = self.request_place(requester);
                let at_ns = ready_ns.unwrap_or(event.at_ns);
                self.counts.accepts_unasked += u64::from(ready_ns.is_none());
                Some(Asked::new(at_ns, requester, event.object, place))
            }
        };
        let Some(asked) = asked else {
            // What was asked before the recording, or was lost, is the server's own.
            self.counts.accepts_unasked += 1;
            return self.begin_or_tell(key, pid, event, None, None);
        };
        let entry = peer.is_none().then(|| {
            let label = self.names.task_label(pid);
            let port = addresses.map_or_else(String::new, |(local, _)| format!(":{}", local.port()));
            let awaited = addresses.is_some_and(|(_, remote)| self.clients.have(&remote));
            Transaction {
                requested_ns: asked.at_ns,
                finished_ns: None,
                over: false,
                class: format!("{}{port}", self.names.label(label)),
                named: if awaited { Naming::Awaited } else { Naming::Alone },
                turn: (event.object.number, position),
                charges: Default::default(),
            }
        });
        self.begin_or_tell(key, pid, Event { requester: asked.requester, ..event }, Some(asked), entry);
        self.waited_for_server(key, asked, event.at_ns);
    }

    /// A job begins; one for which there is no room is told as far as it is seen.
    fn begin_or_tell(
        &mut self,
        key: (u16, u64),
        pid: u32,
        event: Event,
        asked: Option<Asked>,
        entry: Option<Transaction>,
    ) {
        if !self.begin_job(key, pid, event.requester, asked, event.at_ns, entry) {
            let object = ObjectId { class: TASK, number: u64::from(pid) };
            let times = [asked.map(|asked| asked.at_ns), Some(event.at_ns), None];
            self.occurrences.tell(key.0, (event.requester, object), times);
        }
    }

    /// Equation (2) for a server: the request was pending until it was taken.
    fn waited_for_server(&mut self, key: (u16, u64), asked: Asked, at_ns: u64) {
        let Some(job) = self.jobs.get(&key) else { return };
        // The part that asked waits; what is asked from outside waits as the transaction's first part.
        let place = if asked.requester.class == TASK { asked.place } else { job.place() };
        let object = job.object;
        let waited_ns = at_ns.saturating_sub(asked.at_ns);
        let usage = self.usages.of(key.0, asked.requester, object);
        (usage.requests, usage.accepts) = (usage.requests + 1, usage.accepts + 1);
        usage.waited_ns = usage.waited_ns.saturating_add(waited_ns);
        let own = self.usages.own(key.0, object);
        (own.requests, own.accepts) = (own.requests + 1, own.accepts + 1);
        own.waited_ns = own.waited_ns.saturating_add(waited_ns);
        let sum = crate::accounts::Sum { ns: waited_ns, count: 1 };
        self.charge(place, key.0, object, crate::accounts::Measure::Waited, sum);
    }

    /// A task asks over an end: the first of what it gives after the answer before.
    fn ask(&mut self, event: Event, pid: u32) {
        let base = self.task(pid, event.at_ns).map(|task| task.base);
        if let Some(task) = self.tasks.get_mut(&pid) {
            task.wakes.touched();
        }
        let Some(own) = end(self, event.object) else { return };
        if own.question.is_some_and(|question| !question.answered) {
            return;
        }
        let job = match base {
            Some(Base::Job((interaction, key), number)) => Some((interaction, key, number)),
            _ => None,
        };
        own.question = Some(Question { asked_ns: event.at_ns, task: pid, job, answered: false });
        let peer = own.peer;
        self.verbs[usize::from(event.interaction)][0] += 1;
        let place = self.request_place(event.requester);
        if let Some(peer) = peer {
            let object = ObjectId { number: u64::from(peer), ..event.object };
            let asked = Asked::new(event.at_ns, event.requester, object, place);
            // What was asked and never taken was not a request, or its taking was lost.
            self.asked.insert((event.interaction, object), asked);
        } else {
            let object = self.external(event);
            self.usages.of(event.interaction, event.requester, object).requests += 1;
        }
    }

    /// A task hears an answer: it works on at what it had asked for.
    fn hear(&mut self, event: Event, pid: u32) {
        let Some(own) = end(self, event.object) else { return };
        let (Some(question), peer) = (own.question, own.peer) else { return };
        if let Some(question) = &mut own.question {
            question.answered = true;
        }
        if peer.is_none() && !question.answered {
            let object = self.external(event);
            let responded_ns = event.at_ns.saturating_sub(question.asked_ns);
            let requester = ObjectId { number: u64::from(question.task), ..event.requester };
            let usage = self.usages.of(event.interaction, requester, object);
            usage.responded_ns = usage.responded_ns.saturating_add(responded_ns);
            let times = [Some(question.asked_ns), None, Some(event.at_ns)];
            self.occurrences.tell(event.interaction, (requester, object), times);
        }
        let base = self.base_of(&question);
        match base {
            Base::Job(key, _) => self.touch(key, pid, event.at_ns),
            Base::Own => _ = self.go(pid, Some(base), event.at_ns),
        }
        if let Some(task) = self.tasks.get_mut(&pid) {
            task.wakes.touched();
        }
    }

    /// What answers at the other end, which the run does not have.
    fn external(&mut self, event: Event) -> ObjectId {
        let remote = end(self, event.object).and_then(|end| end.addresses).map(|(_, remote)| remote);
        let words = remote.map_or_else(|| "a socket without an address".to_owned(), |remote| remote.to_string());
        let number = self.names.number(&words);
        self.usages.known(event.interaction, ObjectId { class: EXTERNAL, number: u64::from(number) })
    }
}

fn end(framework: &mut Framework, object: ObjectId) -> Option<&mut End> {
    framework.ends.get(u32::try_from(object.number).ok()?)
}
