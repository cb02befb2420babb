//! How many requests of a bound may be under way at once, how many wait, and how long.
//!
//! There are two laws. By the plain one so many run, so many wait, and the others are refused. By the staged one, which
//! is WASD's (`throttle=n1/u1,n2,n3,n4,to1,to2`), what may run depends on how many there are in all, those that wait
//! included: up to n1 all of them run; from there to n2 further ones wait; from n2 to n3 each further one waits as well,
//! and has the one run that has waited longest, so that the queue stays as long as it is and more run; beyond n3 further
//! ones wait again; beyond n4 they are refused. One that has waited for to1 runs, unless more than n3 are there then;
//! one that has waited for to2 is refused. Of one user no more than u1 run at a time.

use std::fmt;
use std::time::Duration;

/// Requests that may wait where nothing else bounds them.
pub(crate) const WAITING_MAX: usize = 65_536;
/// The largest number of a law.
const NUMBER_MAX: usize = 1_000_000;
/// The longest time of a law.
const TIME_MAX: Duration = Duration::from_secs(86_400);

/// What a bound allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Law {
    /// So many run, so many wait, and for so long.
    Plain {
        running_max: usize,
        queue_max: usize,
        wait_ms: u64,
    },
    Staged(Stages),
}

/// WASD's numbers; 0 = there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stages {
    /// n1: so many run at once.
    pub run: usize,
    /// u1: so many of them for one user.
    pub per_user: usize,
    /// n2: beyond so many in all, each further one has another one run.
    pub more_from: usize,
    /// n3: up to so many in all.
    pub more_to: usize,
    /// n4: beyond so many in all, further ones are refused.
    pub busy: usize,
    /// to1: one that has waited for so many milliseconds runs.
    pub run_after_ms: u64,
    /// to2: one that has waited for so many milliseconds is refused.
    pub busy_after_ms: u64,
}

/// Why a text says no stages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StagesError {
    /// There are more than six parts.
    #[error("it has more than six parts; write n1/u1,n2,n3,n4,to1,to2")]
    Parts,
    /// A part is no number.
    #[error("\"{0}\" is no number from 1 to 1000000; leave the part empty if there is no such bound")]
    Number(String),
    /// A part is no time.
    #[error("\"{0}\" is no time up to a day; write hh:mm:ss, as in 00:02:00")]
    Time(String),
    /// Nothing says how many run.
    #[error("it does not say how many run; begin with a number, as in 10,20,30,40")]
    NoRun,
    /// A number is smaller than one that stands before it.
    #[error("{0} is smaller than {1}, which stands before it; each number is at least the one before it")]
    Order(usize, usize),
    /// There is n3 without n2.
    #[error("n3 says up to where more run, and n2 from where on is missing; give both")]
    NoFrom,
    /// More may run of one user than of all.
    #[error("{0} of one user are more than {1} of all; make it a smaller number")]
    PerUser(usize, usize),
}

impl Stages {
    /// Reads `n1/u1,n2,n3,n4,to1,to2`, of which all but n1 may be left away or empty.
    ///
    /// # Errors
    ///
    /// [`StagesError`] says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, StagesError> {
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        if parts.len() > 6 {
            return Err(StagesError::Parts);
        }
        let part = |place: usize| parts.get(place).copied().unwrap_or_default();
        let (run, per_user) = part(0).split_once('/').unwrap_or((part(0), ""));
        let stages = Self {
            run: number(run.trim())?,
            per_user: number(per_user.trim())?,
            more_from: number(part(1))?,
            more_to: number(part(2))?,
            busy: number(part(3))?,
            run_after_ms: time_ms(part(4))?,
            busy_after_ms: time_ms(part(5))?,
        };
        stages.check().map(|()| stages)
    }

    /// Whether its numbers go together.
    ///
    /// # Errors
    ///
    /// [`StagesError`] says which do not.
    pub fn check(&self) -> Result<(), StagesError> {
        if self.run == 0 {
            return Err(StagesError::NoRun);
        }
        if self.per_user > self.run {
            return Err(StagesError::PerUser(self.per_user, self.run));
        }
        if self.more_to > 0 && self.more_from == 0 {
            return Err(StagesError::NoFrom);
        }
        let mut before = self.run;
        for next in [self.more_from, self.more_to, self.busy].into_iter().filter(|number| *number > 0) {
            if next < before {
                return Err(StagesError::Order(next, before));
            }
            before = next;
        }
        Ok(())
    }

    /// Requests that run if there are so many in all.
    fn running_max(&self, all: usize) -> usize {
        if self.more_from == 0 || all <= self.more_from {
            return self.run;
        }
        let up_to = if self.more_to == 0 { all } else { all.min(self.more_to) };
        self.run + (up_to - self.more_from)
    }
}

/// A number; 0 for nothing.
fn number(text: &str) -> Result<usize, StagesError> {
    if text.is_empty() {
        return Ok(0);
    }
    let number = text.parse().ok().filter(|number| (1..=NUMBER_MAX).contains(number));
    number
        .filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
        .ok_or_else(|| StagesError::Number(text.to_owned()))
}

/// Hours, minutes and seconds as milliseconds; 0 for nothing.
fn time_ms(text: &str) -> Result<u64, StagesError> {
    if text.is_empty() {
        return Ok(0);
    }
    let wrong = || StagesError::Time(text.to_owned());
    let parts: Vec<&str> = text.split(':').collect();
    let digits = |part: &str| (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    if parts.len() != 3 || parts.iter().any(|part| !digits(part)) {
        return Err(wrong());
    }
    let seconds = parts.iter().filter_map(|part| part.parse::<u64>().ok()).fold(0, |sum, part| sum * 60 + part);
    let is_clock = parts[1..].iter().all(|part| *part < "60" || part.len() == 1);
    let is_within = seconds > 0 && Duration::from_secs(seconds) <= TIME_MAX;
    if is_clock && is_within { Ok(seconds * 1000) } else { Err(wrong()) }
}

impl fmt::Display for Stages {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |number: usize| if number == 0 { String::new() } else { number.to_string() };
        let time = |ms: u64| match ms / 1000 {
            _ if ms == 0 => String::new(),
            s => format!("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60),
        };
        let user = if self.per_user == 0 { String::new() } else { format!("/{}", self.per_user) };
        let parts = [
            format!("{}{user}", self.run),
            number(self.more_from),
            number(self.more_to),
            number(self.busy),
            time(self.run_after_ms),
            time(self.busy_after_ms),
        ];
        out.write_str(parts.join(",").trim_end_matches(','))
    }
}

impl fmt::Display for Law {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain { running_max, queue_max, wait_ms } => {
                write!(out, "{running_max} run, {queue_max} wait for {wait_ms} ms")
            }
            Self::Staged(stages) => stages.fmt(out),
        }
    }
}

impl Law {
    /// Requests that run if there are so many in all.
    pub(crate) fn running_max(&self, all: usize) -> usize {
        match self {
            Self::Plain { running_max, .. } => *running_max,
            Self::Staged(stages) => stages.running_max(all),
        }
    }

    /// Whether another one may wait where so many do already, and so many run.
    pub(crate) fn may_wait(&self, waiting: usize, running: usize) -> bool {
        match self {
            Self::Plain { queue_max, .. } => waiting < *queue_max,
            Self::Staged(stages) => waiting < WAITING_MAX && (stages.busy == 0 || running + waiting < stages.busy),
        }
    }

    /// Requests of one user that run; none bounds them if it is none.
    pub(crate) fn per_user(&self) -> Option<usize> {
        match self {
            Self::Plain { .. } => None,
            Self::Staged(stages) => Some(stages.per_user).filter(|most| *most > 0),
        }
    }

    /// Whether one that has waited so long is refused.
    pub(crate) fn is_over(&self, waited_ms: u64) -> bool {
        match self {
            Self::Plain { wait_ms, .. } => waited_ms >= *wait_ms,
            Self::Staged(stages) => stages.busy_after_ms > 0 && waited_ms >= stages.busy_after_ms,
        }
    }

    /// Whether it is to be seen if one runs that has waited so long, although it has no turn.
    pub(crate) fn is_to_run(&self, waited_ms: u64) -> bool {
        match self {
            Self::Plain { .. } => false,
            Self::Staged(stages) => stages.run_after_ms > 0 && waited_ms >= stages.run_after_ms,
        }
    }

    /// Whether it runs then, where so many are there in all.
    pub(crate) fn may_run(&self, all: usize) -> bool {
        matches!(self, Self::Staged(stages) if stages.more_to == 0 || all <= stages.more_to)
    }

    /// After so many seconds a client that was refused may come again.
    pub(crate) fn again_s(&self) -> u64 {
        let ms = match self {
            Self::Plain { wait_ms, .. } => *wait_ms,
            Self::Staged(stages) if stages.busy_after_ms > 0 => stages.busy_after_ms,
            Self::Staged(stages) => stages.run_after_ms,
        };
        (ms / 1000).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wasds_examples_mean_what_its_documentation_says() {
        let runs = |text: &str, all: usize| Stages::parse(text).expect("stages").running_max(all).min(all);
        // Up to 10 run, all others wait.
        assert_eq!([5, 10, 11, 500].map(|all| runs("10", all)), [5, 10, 10, 10]);
        // 11 to 20 wait; beyond that the queue stays as long as it is.
        assert_eq!([20, 21, 50].map(|all| runs("10,20", all)), [10, 11, 40]);
        // From 31 to 40 more run, beyond 40 they wait again.
        assert_eq!([15, 30, 31, 40, 41, 90].map(|all| runs("15,30,40", all)), [15, 15, 16, 25, 25, 25]);
        let law = |text| Law::Staged(Stages::parse(text).expect("stages"));
        // No more than 20 run and 20 wait.
        let full = law("10,20,30,40,00:02:00,00:03:00");
        assert_eq!((full.running_max(40), full.may_wait(19, 20), full.may_wait(20, 20)), (20, true, false));
        assert_eq!((full.is_to_run(119_999), full.is_to_run(120_000), full.is_over(179_999)), (false, true, false));
        assert_eq!(
            (full.may_run(15), full.may_run(28), full.may_run(32), full.is_over(180_000)),
            (true, true, false, true)
        );
        let short = law("10,,,30");
        assert_eq!((short.running_max(30), short.may_wait(19, 10), short.may_wait(20, 10)), (10, true, false));
        assert_eq!((law("10/1").per_user(), law("10").per_user()), (Some(1), None));
    }

    #[test]
    fn mistakes_say_what_is_wrong() {
        for (text, expected) in [
            ("", "how many run"),
            (",5", "how many run"),
            ("1,2,3,4,,,", "more than six parts"),
            ("ten", "\"ten\" is no number"),
            ("0", "\"0\" is no number"),
            ("+1", "is no number"),
            ("10,5", "5 is smaller than 10"),
            ("10,20,,15", "15 is smaller than 20"),
            ("10,,20", "n2 from where on is missing"),
            ("1/2", "2 of one user"),
            ("1,,,,2", "is no time"),
            ("1,,,,00:60:00", "is no time"),
            ("1,,,,00:00:00", "is no time"),
            ("1,,,,,25:00:00", "is no time"),
        ] {
            let told = Stages::parse(text).expect_err(text).to_string();
            assert!(told.contains(expected), "{text}: {told}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(run in 1..90_usize, user in 0..9_usize, more in 0..90_usize, times in (0..80_000_u64, 0..80_000_u64)) {
            let stages = Stages {
                run,
                per_user: user.min(run),
                more_from: if more > 0 { run + more } else { 0 },
                more_to: if more > 20 { run + 2 * more } else { 0 },
                busy: if more > 40 { run + 3 * more } else { 0 },
                run_after_ms: times.0 * 1000,
                busy_after_ms: times.1 * 1000,
            };
            prop_assert_eq!(Stages::parse(&stages.to_string()), Ok(stages));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9,/: a]{0,24}") {
            if let Ok(stages) = Stages::parse(&text) {
                prop_assert!(stages.check().is_ok());
                // One more in all is never one less that runs, and at most one more.
                let is_steady = (0..200).all(|all| {
                    let (now, next) = (stages.running_max(all), stages.running_max(all + 1));
                    next == now || next == now + 1
                });
                prop_assert!(is_steady);
            }
        }
    }
}
