//! In which order the servers stand, and which one is chosen.

use super::keyboard::Key;
use weir_record::live::{LiveWindow, ServerNow};

/// What the servers are sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    /// Requests a second
    #[default]
    Rate,
    /// 99th percentile
    P99,
    /// Unanswered requests and statuses from 500 on
    Errors,
    /// Share of the largest cause
    Cause,
    /// Name of the program
    Name,
}

/// The order, and the chosen server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) sort: Sort,
    /// The process of the chosen server.
    pub(super) chosen: Option<u32>,
}

/// What a key comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// To see it so.
    Show,
    /// To end it.
    End,
}

impl Order {
    /// The servers in this order: those with as much by their ports.
    pub(super) fn of<'a>(&self, window: &'a LiveWindow) -> Vec<&'a ServerNow> {
        let mut servers: Vec<&ServerNow> = window.servers.iter().collect();
        let p99 = |one: &ServerNow| one.figures.response_ns.map_or(0, |summary| summary.p99);
        let share = |one: &ServerNow| one.figures.causes.first().map_or(0.0, |cause| cause.share);
        match self.sort {
            Sort::Rate => servers.sort_by_key(|one| std::cmp::Reverse(one.figures.responses())),
            Sort::P99 => servers.sort_by_key(|one| std::cmp::Reverse(p99(one))),
            Sort::Errors => servers.sort_by_key(|one| std::cmp::Reverse(one.figures.errors())),
            Sort::Cause => servers.sort_by(|one, other| share(other).total_cmp(&share(one))),
            Sort::Name => servers.sort_by(|one, other| one.listener.program.cmp(&other.listener.program)),
        }
        servers
    }

    /// Takes a key.
    pub(super) fn press(&mut self, key: Key, window: &LiveWindow) -> Wish {
        match key {
            Key::Letter(b'q') => return Wish::End,
            Key::Letter(b'r') => self.sort = Sort::Rate,
            Key::Letter(b'p') => self.sort = Sort::P99,
            Key::Letter(b'e') => self.sort = Sort::Errors,
            Key::Letter(b'c') => self.sort = Sort::Cause,
            Key::Letter(b'n') => self.sort = Sort::Name,
            Key::Down | Key::Letter(b'j') => self.step(window, 1),
            Key::Up | Key::Letter(b'k') => self.step(window, -1),
            Key::Escape => self.chosen = None,
            Key::Letter(_) => {}
        }
        Wish::Show
    }

    /// Chooses the next server below or above; the first or last where none is chosen.
    fn step(&mut self, window: &LiveWindow, by: isize) {
        let roots: Vec<u32> = self.of(window).iter().map(|one| one.listener.root).collect();
        let Some(last) = roots.len().checked_sub(1) else { return };
        let at = self.chosen.and_then(|root| roots.iter().position(|other| *other == root));
        let next = match at {
            Some(at) => at.saturating_add_signed(by).min(last),
            None if by > 0 => 0,
            None => last,
        };
        self.chosen = roots.get(next).copied();
    }
}

#[cfg(test)]
mod tests {
    use super::super::screen::tests::{server, window};
    use super::*;

    #[test]
    fn keys_sort_choose_and_end() {
        let window = window(vec![server("nginx", 7, 1_000_000), server("api", 9, 9_000_000)]);
        let mut order = Order::default();
        let names = |order: &Order| {
            order.of(&window).iter().map(|one| one.listener.program.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&order), "nginx api");
        assert_eq!(order.press(Key::Letter(b'p'), &window), Wish::Show);
        assert_eq!(names(&order), "api nginx");
        order.press(Key::Down, &window);
        assert_eq!(order.chosen, Some(9));
        order.press(Key::Down, &window);
        order.press(Key::Down, &window);
        assert_eq!(order.chosen, Some(7), "it ends at the last");
        order.press(Key::Letter(b'n'), &window);
        order.press(Key::Up, &window);
        assert_eq!(order.chosen, Some(9), "the choice stays with the server, not with the line");
        order.press(Key::Escape, &window);
        assert_eq!(order.chosen, None);
        assert_eq!(order.press(Key::Letter(b'x'), &window), Wish::Show);
        assert_eq!(order.press(Key::Letter(b'q'), &window), Wish::End);
    }
}
