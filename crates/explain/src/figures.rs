//! Figures of a recording while it goes on: how long responses take by class, what their time is spent on and whom it is
//! spent on, and requests as examples.

use crate::analysis::example;
use crate::spans::{RealTime, Sampled, id_of, key_of};
use std::collections::HashMap;
use weir_measure::class::{Classes, Grouping};
use weir_measure::part::Part;
use weir_timeline::{Detail, Joiner, Labels, Response, Unjoinable};

/// Classes that are told apart, beside `(other)`.
const MOST_CLASSES: usize = 50;
/// Culprits that are told apart, beside `(others)`, over all parts.
const MOST_CULPRITS: usize = 200;
/// Requests that a window gives as examples.
const MOST_EXEMPLARS: usize = 20;
/// Whom the rest of the time was spent on.
const OTHERS: &str = "(others)";
/// The upper bounds of response times, microseconds: three for each decade.
pub const BOUNDS_US: [u64; 18] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000,
    5_000_000, 10_000_000, 20_000_000, 50_000_000,
];
/// As many buckets, and one for longer ones.
pub const BUCKETS: usize = BOUNDS_US.len() + 1;

/// A request that stands for a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exemplar {
    /// The number of its trace, as its spans have it.
    pub trace: u128,
    /// The number of its span.
    pub span: u64,
    /// Its response time, nanoseconds.
    pub response_ns: u64,
    /// When it ended, nanoseconds since 1970.
    pub unix_ns: u64,
}

/// Responses of a class.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClassFigures {
    /// Their sum, nanoseconds.
    pub sum_ns: u64,
    /// How many, by the first of [`BOUNDS_US`] that they do not exceed; the last ones exceed all.
    pub buckets: [u64; BUCKETS],
    /// The slowest of each bucket in the last window that had some.
    pub exemplars: [Option<Exemplar>; BUCKETS],
    /// What their time was spent on, nanoseconds, by the number of the part.
    pub parts_ns: [u64; Part::COUNT],
}

/// All that has been seen since the recording began.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// By class.
    pub classes: Vec<(String, ClassFigures)>,
    /// Whom or what the parts were spent on, nanoseconds; parts that name none are not among them.
    pub culprits: HashMap<(Part, String), u64>,
    /// Windows that were read.
    pub windows: u64,
    /// Windows that held too many events to be read.
    pub missed: u64,
    /// How long these windows were, nanoseconds.
    pub watched_ns: u64,
    /// Requests that the edge of a window cut; they are in no other figure.
    pub cut: u64,
    /// Requests whose begin at the server is not known; they are in no other figure.
    pub unjoinable: u64,
}

/// A request of the window that may become an example.
#[derive(Debug)]
struct Candidate {
    class: usize,
    bucket: usize,
    sampled: Sampled,
}

/// Folds responses into figures.
#[derive(Debug)]
pub struct FigureFold {
    classes: Classes,
    figures: Figures,
    /// The slowest of each class and bucket of this window.
    candidates: HashMap<(usize, usize), Candidate>,
}

impl Default for FigureFold {
    fn default() -> Self {
        Self {
            classes: Classes::new(Grouping::default(), MOST_CLASSES),
            figures: Figures::default(),
            candidates: HashMap::new(),
        }
    }
}

impl FigureFold {
    /// Takes a response, cut or whole; `labels` are those of its joiner.
    pub fn push(&mut self, joiner: &Joiner, labels: &mut Labels, response: &Response<'_>) {
        match response.unjoinable {
            Some(Unjoinable::Edge) => {
                self.figures.cut += 1;
                return;
            }
            Some(_) => {
                self.figures.unjoinable += 1;
                return;
            }
            None => {}
        }
        let time_ns = response.time_ns();
        let status = response.request.status;
        let class = match status {
            0 | 200..400 => self.classes.number(response.name),
            _ => self.classes.number_with(response.name, &format!(" [{status}]")),
        } as usize;
        let names = self.classes.names();
        while self.figures.classes.len() < names.len() {
            let name = names[self.figures.classes.len()].clone();
            self.figures.classes.push((name, ClassFigures::default()));
        }
        let bucket = bucket_of(time_ns);
        let figures = &mut self.figures.classes[class].1;
        figures.sum_ns += time_ns;
        figures.buckets[bucket] += 1;
        for step in response.steps {
            let ns = step.to_ns - step.from_ns;
            figures.parts_ns[step.part as usize] += ns;
            if let Some(who) = culprit(joiner, labels, step.detail, step.from_ns) {
                let full = self.figures.culprits.len() >= MOST_CULPRITS;
                let key = (step.part, who);
                let known = !full || self.figures.culprits.contains_key(&key);
                let key = if known { key } else { (step.part, OTHERS.to_owned()) };
                *self.figures.culprits.entry(key).or_default() += ns;
            }
        }
        let slowest = self.candidates.get(&(class, bucket)).map(|candidate| candidate.sampled.request.response_ns);
        if slowest.is_none_or(|slowest| slowest < time_ns) {
            let sampled = Sampled {
                key: key_of(id_of(response)),
                slow: true,
                weight: 1.0,
                // Told by the recording's clock until the window is over.
                begin_unix_ns: response.request.intended_ns,
                within: None,
                request: example(joiner, response, response.request.intended_ns),
            };
            self.candidates.insert((class, bucket), Candidate { class, bucket, sampled });
        }
    }

    /// A window of so many nanoseconds is over: the requests that its buckets name from now on, with their real times, the
    /// slowest first.
    pub fn window(&mut self, clock: RealTime, watched_ns: u64) -> Vec<Sampled> {
        self.figures.windows += 1;
        self.figures.watched_ns += watched_ns;
        let mut candidates: Vec<Candidate> = self.candidates.drain().map(|(_, candidate)| candidate).collect();
        candidates.sort_by_key(|one| std::cmp::Reverse((one.sampled.request.response_ns, one.sampled.key)));
        candidates.truncate(MOST_EXEMPLARS);
        let named = candidates.into_iter().filter_map(|Candidate { class, bucket, mut sampled }| {
            sampled.begin_unix_ns = clock.at(sampled.begin_unix_ns)?;
            let response_ns = sampled.request.response_ns;
            let exemplar = Exemplar {
                trace: sampled.trace(),
                span: sampled.span(),
                response_ns,
                unix_ns: sampled.begin_unix_ns + response_ns,
            };
            self.figures.classes[class].1.exemplars[bucket] = Some(exemplar);
            Some(sampled)
        });
        named.collect()
    }

    /// What has been seen so far; `missed` windows held too much to be read.
    #[must_use]
    pub fn figures(&self, missed: u64) -> Figures {
        Figures { missed, ..self.figures.clone() }
    }
}

/// The bucket of a time.
fn bucket_of(time_ns: u64) -> usize {
    BOUNDS_US.partition_point(|bound| bound * 1_000 < time_ns)
}

/// Whom a step was spent on, without what would make a name of its own of each process or client.
fn culprit(joiner: &Joiner, labels: &mut Labels, detail: Detail, at_ns: u64) -> Option<String> {
    match detail {
        Detail::None => return None,
        Detail::Reader(_, 0) => return Some("a client that reads slowly".to_owned()),
        Detail::Sender(_, 0) => return Some("a client that sends slowly".to_owned()),
        _ => {}
    }
    let number = labels.of(joiner, detail, at_ns) as usize;
    let text = labels.texts().get(number).filter(|text| !text.is_empty())?;
    Some(without_number(text).to_owned())
}

/// A process without its number: `php-fpm (4711)` is php-fpm.
fn without_number(text: &str) -> &str {
    let numbered = text.rsplit_once(" (").filter(|(_, rest)| {
        rest.strip_suffix(')').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
    });
    numbered.map_or(text, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_timeline::{Bounds, Step};
    use weir_wire::client::{ClientRequest, Outcome};
    use weir_wire::{Kind, Record};

    fn request(begin_ns: u64, time_ns: u64) -> ClientRequest {
        ClientRequest {
            connection: begin_ns,
            intended_ns: begin_ns,
            started_ns: begin_ns,
            sent_ns: begin_ns,
            first_byte_ns: begin_ns,
            done_ns: begin_ns + time_ns,
            request_offset: 0,
            request_bytes: 10,
            response_offset: 0,
            response_bytes: 10,
            status: 200,
            name: 0,
            outcome: Outcome::Done,
            opened_connection: false,
            encrypted: false,
            retried: false,
            http_version: 0,
            stream: 0,
        }
    }

    fn push(fold: &mut FigureFold, name: &str, request: &ClientRequest, unjoinable: Option<Unjoinable>) {
        let (from_ns, to_ns) = (request.intended_ns, request.done_ns);
        let step = |from_ns, to_ns, part, detail| Step { from_ns, to_ns, part, pid: 7, waiter: 0, detail };
        let middle_ns = from_ns + (to_ns - from_ns) / 2;
        let steps = [
            step(from_ns, middle_ns, Part::Run, Detail::Task(7)),
            step(middle_ns, to_ns, Part::WaitTimer, Detail::None),
        ];
        let response = Response {
            request,
            client: None,
            server_end: None,
            name,
            steps: &steps,
            phases: &[],
            server: None,
            unjoinable,
            trace: None,
        };
        fold.push(&Joiner::new(Bounds::default()), &mut Labels::new(), &response);
    }

    fn clock() -> RealTime {
        let mut clock = RealTime::default();
        clock.push(&Record { time_ns: 100, kind: Kind::ClockPair as u16, a: 1_000_100, ..Record::default() });
        clock
    }

    #[test]
    fn each_bucket_names_its_slowest_request_of_the_last_window() {
        let mut fold = FigureFold::default();
        for (begin_ns, time_ns) in [(10, 150_000), (20, 190_000), (30, 3_000_000)] {
            push(&mut fold, "GET /a", &request(begin_ns, time_ns), None);
        }
        push(&mut fold, "GET /a", &request(40, 5), Some(Unjoinable::Edge));
        let told = fold.window(clock(), 250);
        assert_eq!(told.iter().map(|one| one.request.response_ns).collect::<Vec<_>>(), [3_000_000, 190_000]);
        let figures = fold.figures(3);
        assert_eq!((figures.windows, figures.missed, figures.watched_ns, figures.cut), (1, 3, 250, 1));
        let (name, class) = &figures.classes[0];
        assert_eq!((name.as_str(), class.sum_ns, class.buckets[1], class.buckets[5]), ("GET /a", 3_340_000, 2, 1));
        assert_eq!(class.parts_ns.iter().sum::<u64>(), class.sum_ns);
        assert_eq!(figures.culprits[&(Part::Run, "task 7".to_owned())], class.parts_ns[Part::Run as usize]);
        let exemplar = class.exemplars[1].expect("an example");
        assert_eq!((exemplar.response_ns, exemplar.unix_ns), (190_000, 1_000_000 + 20 + 190_000));
        assert_eq!((exemplar.trace, exemplar.span), (told[1].trace(), told[1].span()));
        // A window without requests leaves the names of the one before.
        assert!(fold.window(clock(), 250).is_empty());
        assert_eq!(fold.figures(3).classes[0].1.exemplars[1], Some(exemplar));
    }

    #[test]
    fn classes_culprits_and_examples_are_bounded() {
        let mut fold = FigureFold::default();
        for number in 0..500u64 {
            let name = format!("GET /page-{number}x");
            push(&mut fold, &name, &request(number, 1 << (number % 30)), None);
        }
        assert_eq!(fold.window(clock(), 1).len(), MOST_EXEMPLARS);
        let figures = fold.figures(0);
        assert!(figures.classes.len() <= MOST_CLASSES + 1 && figures.culprits.len() <= MOST_CULPRITS + Part::COUNT);
        let counted: u64 = figures.classes.iter().flat_map(|(_, class)| class.buckets).sum();
        assert_eq!(counted, 500, "none is lost");
    }

    #[test]
    fn a_process_is_told_without_its_number() {
        for (text, told) in [("php-fpm (12)", "php-fpm"), ("a (b)", "a (b)"), ("file (1), held", "file (1), held")] {
            assert_eq!(without_number(text), told);
        }
    }

    proptest! {
        #[test]
        fn a_time_is_in_the_first_bucket_that_holds_it(time_ns in any::<u64>()) {
            let bucket = bucket_of(time_ns);
            prop_assert!(BOUNDS_US.get(bucket).is_none_or(|bound| time_ns <= bound * 1_000));
            prop_assert!(bucket == 0 || time_ns > BOUNDS_US[bucket - 1] * 1_000);
        }
    }
}
