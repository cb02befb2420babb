//! The agent's own thread: it waits for events, has clients looked at, and answers.

use crate::answers;
use crate::asker::Order;
use crate::host;
use crate::intake::{Intake, SECOND_NS};
use crate::protocol::{AgentStatus, Ask, SOCKET_NAME};
use crate::watch::Event;
use std::fs;
use std::time::Duration;
use weir_wire::arm::HANDOVER_NAME;

/// How often the directory is looked through, and clients are held against it.
const ROUND_NS: u64 = 10 * SECOND_NS;

impl Intake {
    /// Until it is told to end.
    pub(crate) fn run(mut self) -> AgentStatus {
        self.take_over();
        self.look_through();
        let (mut next_pass_ns, mut next_round_ns, mut next_second_ns) = (0, host::now_ns() + ROUND_NS, 0);
        loop {
            // Before the pass, so that a new subscriber gets all that comes after it asked.
            while let Ok(order) = self.parts.to_do.try_recv() {
                match order {
                    // The caller may have gone: then the answer is dropped.
                    Order::Ask(ask, answer) => {
                        if matches!(ask, Ask::List | Ask::Top { .. }) {
                            self.catch_up();
                        }
                        drop(answer.send(answers::answer(&mut self, &ask)));
                    }
                    Order::Find(wanted, most, answer) => {
                        self.catch_up();
                        drop(answer.send(self.state.find(wanted, most)));
                    }
                    Order::Subscribe(subscriber) => self.state.subscribers.push(subscriber),
                    Order::End => return self.end(),
                }
            }
            let now_ns = host::now_ns();
            if now_ns >= next_pass_ns {
                if self.parts.handover.is_waiting() {
                    self.take_memories();
                }
                self.pass(now_ns, self.pace());
                next_pass_ns = now_ns + self.wait.as_nanos() as u64;
            }
            if now_ns >= next_second_ns {
                self.state.unix_offset_ns = host::unix_offset_ns();
                self.try_refused_again(now_ns);
                next_second_ns = now_ns + SECOND_NS;
            }
            if now_ns >= next_round_ns {
                self.look_through();
                next_round_ns = now_ns + ROUND_NS;
            }
            let rest = Duration::from_nanos(next_pass_ns.saturating_sub(host::now_ns()));
            for event in self.parts.watch.wait(rest) {
                match event {
                    Event::Woken => {}
                    Event::Directory => self.take_announcements(),
                    Event::Caller => self.callers.accept(&self.parts.listener, &self.asker),
                    Event::Memory => self.take_memories(),
                    Event::Ended(number) => self.ended.push(number),
                }
            }
        }
    }

    /// Ends in order.
    fn end(mut self) -> AgentStatus {
        for client in self.clients.values() {
            client.say_listening(0);
        }
        // What was written before they knew of it: two passes, as a process with several lanes needs them.
        for _ in 0..2 {
            self.last_pass();
        }
        self.close_batch(host::now_ns());
        self.callers.hang_up();
        let status = answers::status(&self);
        if let Some(keeping) = &mut self.parts.keeping {
            keeping.end();
        }
        for name in [SOCKET_NAME, HANDOVER_NAME] {
            let _ = fs::remove_file(self.parts.directory.entry(name));
        }
        status
    }
}
