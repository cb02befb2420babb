//! Asks the agent's thread, from any thread of its process.

use crate::keeper::{Found, Sought};
use crate::keeping::KeptBy;
use crate::protocol::{Answer, Ask, Filter, MOST_KEPT_TOLD};
use crate::subscription::{Subscriber, Subscription};
use crate::transaction::{Transaction, TransactionId, Wanted};
use crate::watch::Waker;
use std::collections::HashSet;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Transactions of a trace that are shown.
const MOST_SHOWN: usize = 1000;
/// How long an answer may take.
const MOST_WAIT: Duration = Duration::from_secs(10);

/// What the agent's thread is asked to do.
pub(crate) enum Order {
    Ask(Ask, Sender<Answer>),
    Find(Wanted, usize, Sender<Vec<Transaction>>),
    Subscribe(Subscriber),
    End,
}

/// Asks the agent from any thread of its process.
#[derive(Clone)]
pub struct Asker {
    pub(crate) orders: Sender<Order>,
    pub(crate) waker: Waker,
    pub(crate) kept: Option<KeptBy>,
}

impl Asker {
    /// Asks the agent.
    #[must_use]
    pub fn ask(&self, ask: Ask) -> Answer {
        match ask {
            Ask::Show { id } => match id.parse() {
                Ok(wanted) => self.show(wanted),
                Err(error) => Answer::Error { message: error.to_string() },
            },
            Ask::Kept { filter, most } => self.kept(filter, most),
            Ask::Tail(_) => Answer::Error { message: "subscribe to follow transactions in process".to_owned() },
            ask => self.ask_intake(|answer| Order::Ask(ask, answer)).unwrap_or_else(gone_answer),
        }
    }

    /// Follows the agent's transactions; `None` = it has ended.
    #[must_use]
    pub fn subscribe(&self, filter: Filter, most: usize) -> Option<Subscription> {
        let (subscriber, subscription) = Subscription::new(filter, most);
        self.order(Order::Subscribe(subscriber)).then_some(subscription)
    }

    /// The latest that are kept.
    fn kept(&self, filter: Filter, most: u32) -> Answer {
        let error = |message: String| Answer::Error { message };
        if !(1..=MOST_KEPT_TOLD).contains(&most) {
            return error(format!("{most} transactions were asked for; ask for 1 to {MOST_KEPT_TOLD}"));
        }
        let Some(kept) = &self.kept else {
            return error("this agent keeps no transactions; start it without --no-state".to_owned());
        };
        let Some(answer) = kept.find(Sought::Latest(filter), most as usize) else {
            return error("too many questions about what is kept wait; ask again later".to_owned());
        };
        match answer.recv_timeout(MOST_WAIT) {
            Ok(Ok(Found { transactions, looked_at })) => Answer::Kept { transactions, looked_at },
            Ok(Err(why)) => error(format!("what is kept cannot be read: {why}")),
            Err(_) => error(format!("what is kept was not read within {} s; ask again", MOST_WAIT.as_secs())),
        }
    }

    /// All of a trace: what the agent still has, and what is kept.
    fn show(&self, wanted: Wanted) -> Answer {
        let mut found = match self.find(wanted) {
            Ok(found) => found,
            Err(answer) => return answer,
        };
        if let (Wanted::Span(_), Some(first)) = (wanted, found.first()) {
            found = match self.find(Wanted::Trace(first.id.trace)) {
                Ok(found) => found,
                Err(answer) => return answer,
            };
        }
        let mut known: HashSet<TransactionId> = HashSet::new();
        found.retain(|transaction| known.insert(transaction.id));
        found.sort_by_key(|transaction| (transaction.start_unix_ns, std::cmp::Reverse(transaction.duration_ns)));
        let missing = found.len().saturating_sub(MOST_SHOWN) as u32;
        found.truncate(MOST_SHOWN);
        Answer::Trace { transactions: found, missing }
    }

    fn find(&self, wanted: Wanted) -> Result<Vec<Transaction>, Answer> {
        let kept = self.kept.as_ref().and_then(|kept| kept.find(Sought::Related(wanted), MOST_SHOWN));
        let recent = self.ask_intake(|answer| Order::Find(wanted, MOST_SHOWN, answer));
        let mut found = recent.ok_or_else(gone_answer)?;
        match kept.map(|kept| kept.recv_timeout(MOST_WAIT)) {
            Some(Ok(Ok(more))) => found.extend(more.transactions),
            Some(Ok(Err(error))) if found.is_empty() => {
                return Err(Answer::Error { message: format!("what is kept cannot be read: {error}") });
            }
            // What the agent has itself is shown all the same.
            _ => {}
        }
        Ok(found)
    }

    fn ask_intake<T>(&self, order: impl FnOnce(Sender<T>) -> Order) -> Option<T> {
        let (answer, answered) = channel();
        self.order(order(answer)).then(|| answered.recv_timeout(MOST_WAIT).ok()).flatten()
    }

    /// Has the agent's thread do something; `false` = it has ended.
    pub(crate) fn order(&self, order: Order) -> bool {
        let sent = self.orders.send(order).is_ok();
        self.waker.wake();
        sent
    }
}

fn gone_answer() -> Answer {
    Answer::Error { message: "the agent has ended, or does not answer".to_owned() }
}
