//! Users whose next step is computed, not listed.

use crate::workload::crowd_clients::Client;
use crate::workload::crowd_clients::Clients;
use crate::workload::distribution::{pareto, weibull};
use crate::workload::draw::Draw;
use crate::workload::mix::Mix;

/// Embedded references of a page: least and exponent of a Pareto distribution, cut to a whole number.
pub const EMBEDDED: (f64, f64) = (1.0, 2.43);
/// Scale and shape of the Weibull distribution of OFF times within a page, in seconds.
pub const WITHIN_S: (f64, f64) = (1.46, 0.382);
/// Least and exponent of the Pareto distribution of OFF times between pages, in seconds.
pub const BETWEEN_S: (f64, f64) = (1.0, 1.5);
/// The most embedded references of a page: the distribution has no end, and one in 10^10 pages has more.
const EMBEDDED_MAX: f64 = 10_000.0;

/// The users of one loop.
#[derive(Debug)]
pub(crate) struct Users {
    random: fastrand::Rng,
    files: Draw,
    clients: Option<Clients>,
    start_ns: u64,
}

impl Users {
    /// The users of loop `lane`; they may come from so many source addresses.
    pub(crate) fn new(mix: &Mix, lane: u32, sources: usize) -> Self {
        let seed = mix.seed.wrapping_add(u64::from(lane) << 32);
        let mut random = fastrand::Rng::with_seed(!seed);
        let clients = mix.crowd.as_ref().map(|crowd| Clients::new(mix, crowd, random.fork(), sources));
        Self { random, files: Draw::new(mix, lane), clients, start_ns: 0 }
    }

    /// The run begins.
    pub(crate) fn begins(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    /// A client arrives.
    pub(crate) fn come(&mut self, now_ns: u64) -> Client {
        let time_s = now_ns.saturating_sub(self.start_ns) as f64 / 1e9;
        self.clients.as_mut().map(|clients| clients.come(time_s)).unwrap_or_default()
    }

    /// Whether a user comes for one page and goes.
    pub(crate) fn go(&self) -> bool {
        self.clients.is_some()
    }

    /// The file that a client asks for next.
    pub(crate) fn file(&mut self, client: Client) -> u32 {
        let hot = self.clients.as_mut().filter(|_| client.of_crowd).and_then(Clients::hot_file);
        hot.unwrap_or_else(|| self.files.next())
    }

    /// How many requests a page has beside its own, or a client beside its first.
    pub(crate) fn parts(&mut self) -> u32 {
        match &self.clients {
            Some(clients) => clients.further(),
            None => pareto(EMBEDDED, &mut self.random).min(EMBEDDED_MAX) as u32,
        }
    }

    /// The pause between the parts of a page, or the requests of a client.
    pub(crate) fn within_ns(&mut self) -> u64 {
        match &mut self.clients {
            Some(clients) => clients.pause_ns(),
            None => (weibull(WITHIN_S, &mut self.random) * 1e9) as u64,
        }
    }

    /// The pause between two pages.
    pub(crate) fn between_ns(&mut self) -> u64 {
        (pareto(BETWEEN_S, &mut self.random) * 1e9) as u64
    }

    /// Clients that came, and those of them that came with a crowd.
    pub(crate) fn came(&self) -> (u64, u64) {
        self.clients.as_ref().map_or((0, 0), |clients| (clients.came, clients.came_with_crowd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::distribution::judge;
    use crate::workload::fileset::FileSet;
    use crate::workload::surge::Surge;

    fn users(seed: u64) -> Users {
        let files = FileSet::Surge(Surge::new(100, 1));
        Users::new(&Mix { files, seed, directories_zipf: None, crowd: None }, 0, 0)
    }

    #[test]
    fn pauses_and_pages_are_distributed_as_they_are_told() {
        for seed in 1..=5 {
            let mut users = users(seed);
            let seconds = |ns: u64| ns as f64 / 1e9;
            let within: Vec<f64> = (0..20_000).map(|_| seconds(users.within_ns())).collect();
            judge::assert_follows(within.into_iter(), |time| 1.0 - (-(time / WITHIN_S.0).powf(WITHIN_S.1)).exp());
            let between: Vec<f64> = (0..20_000).map(|_| seconds(users.between_ns())).collect();
            judge::assert_follows(between.into_iter(), |time| 1.0 - (BETWEEN_S.0 / time).powf(BETWEEN_S.1));
            let mut pages = [0u32; 6];
            let count = 100_000;
            for _ in 0..count {
                pages[(users.parts() as usize).min(6) - 1] += 1;
            }
            let at_least = |least: f64| least.powf(-EMBEDDED.1);
            let chi_square: f64 = (1..=6)
                .map(|number| {
                    let above = if number == 6 { 0.0 } else { at_least(f64::from(number + 1)) };
                    let expected = f64::from(count) * (at_least(f64::from(number)) - above);
                    (f64::from(pages[number as usize - 1]) - expected).powi(2) / expected
                })
                .sum();
            // The critical value of chi-square at 0.01 for 5 degrees of freedom.
            assert!(chi_square < 15.09, "seed {seed}: {chi_square}");
        }
    }
}
