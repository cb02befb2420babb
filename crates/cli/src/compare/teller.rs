//! The progress of an experiment on standard error.
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use weir_compare::{Plan, Progress, Role};

/// How often progress is printed where stderr is no terminal.
const PROGRESS_EACH: Duration = Duration::from_secs(5);

/// Tells progress on standard error: one line renewed on a terminal, else a line each few seconds.
pub(crate) struct Teller {
    is_terminal: bool,
    told: Instant,
    cases: Vec<String>,
    subjects: Vec<String>,
}

impl Teller {
    pub(crate) fn new(plan: &Plan) -> Self {
        let cases = plan.cases.iter().map(|case| case.name.clone()).collect();
        let subjects = plan.subjects.iter().map(|subject| subject.name.clone()).collect();
        Self { is_terminal: io::stderr().is_terminal(), told: Instant::now(), cases, subjects }
    }

    pub(crate) fn tell(&mut self, progress: &Progress) {
        if let Some(failed) = &progress.failed {
            let case = progress.now.map_or(0, |(case, _)| case);
            let whose = failed.role.map_or_else(|| "a server".to_owned(), |role| self.what(case, role));
            self.finish();
            // As below.
            let _unread = writeln!(io::stderr(), "{whose} failed, and the block is measured again: {}", failed.why);
        }
        let what = progress.now.map_or_else(|| "done".to_owned(), |(case, role)| self.what(case, role));
        let Progress { slices_done, slices_total, left_s, .. } = progress;
        let text = format!("slice {slices_done} of {slices_total}, {what}, about {left_s:.0} s left");
        // The reader of stderr may be gone; that is no reason to end.
        if self.is_terminal {
            let _unread = write!(io::stderr(), "\r\x1b[K{text}");
        } else if self.told.elapsed() >= PROGRESS_EACH {
            self.told = Instant::now();
            let _unread = writeln!(io::stderr(), "{text}");
        }
    }

    fn what(&self, case: usize, role: Role) -> String {
        let subject = match role {
            Role::Subject(subject) => self.subjects.get(subject).map_or("?", String::as_str).to_owned(),
            Role::Again => "the first one again".to_owned(),
        };
        match self.cases.get(case) {
            Some(case) if self.cases.len() > 1 => format!("{case}: {subject}"),
            _ => subject,
        }
    }

    pub(crate) fn finish(&self) {
        if self.is_terminal {
            let _unread = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
