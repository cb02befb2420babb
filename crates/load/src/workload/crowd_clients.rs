//! The clients of a flash crowd, as they come.

use crate::workload::crowd::Crowd;
use crate::workload::distribution::Zipf;
use crate::workload::draw::Draw;
use crate::workload::mix::Mix;

/// Of ten requests of the crowd so many are for its few files.
const HOT_OF_TEN: u32 = 9;
/// Of so many networks one was not seen before.
const NETWORKS_A_NEW_ONE: usize = 5;
/// Draws after which the search for further files is given up, for each of them.
const DRAWS_A_FILE: u32 = 1000;

/// One client, as it came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Client {
    /// Whether it is one of the crowd.
    pub(crate) of_crowd: bool,
    /// Which of the source addresses it comes from.
    pub(crate) network: u64,
}

/// The clients of one loop.
#[derive(Debug)]
pub(crate) struct Clients {
    crowd: Crowd,
    random: fastrand::Rng,
    hot: Vec<u32>,
    among_hot: Zipf,
    /// Source addresses that were seen before, and all of them.
    networks: (u64, u64),
    pub(crate) came: u64,
    pub(crate) came_with_crowd: u64,
}

impl Clients {
    pub(crate) fn new(mix: &Mix, crowd: &Crowd, random: fastrand::Rng, networks: usize) -> Self {
        // All loops draw the same ones.
        let mut files = Draw::new(mix, u32::MAX);
        let mut hot: Vec<u32> = Vec::new();
        let wanted = crowd.hot_files.min(mix.files.len());
        for _ in 0..u64::from(wanted) * u64::from(DRAWS_A_FILE) {
            let file = files.next();
            if !hot.contains(&file) {
                hot.push(file);
            }
            if hot.len() == wanted as usize {
                break;
            }
        }
        let seen = networks - networks / NETWORKS_A_NEW_ONE;
        Self {
            crowd: crowd.clone(),
            random,
            among_hot: Zipf::new(hot.len() as u32, 1.0),
            hot,
            networks: (seen.max(1) as u64, networks.max(1) as u64),
            came: 0,
            came_with_crowd: 0,
        }
    }

    /// A client comes, so many seconds after the start.
    pub(crate) fn come(&mut self, time_s: f64) -> Client {
        let rate = self.crowd.profile.rate_at(time_s);
        let of_crowd = self.random.f64() * rate >= self.crowd.base_per_s;
        self.came += 1;
        self.came_with_crowd += u64::from(of_crowd);
        let networks = if of_crowd { self.networks.1 } else { self.networks.0 };
        Client { of_crowd, network: self.random.u64(..networks) }
    }

    /// The file that a client of the crowd asks for, if it is one of the few.
    pub(crate) fn hot_file(&mut self) -> Option<u32> {
        let is_hot = self.random.u32(..10) < HOT_OF_TEN;
        is_hot.then(|| self.hot[self.among_hot.draw(&mut self.random) as usize - 1])
    }

    /// Requests of a client after its first.
    pub(crate) fn further(&self) -> u32 {
        self.crowd.requests - 1
    }

    pub(crate) fn pause_ns(&mut self) -> u64 {
        // 1 - u lies in (0, 1], so the logarithm is finite.
        (-(1.0 - self.random.f64()).ln() * self.crowd.pause.as_secs_f64() * 1e9) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::distribution::judge;
    use crate::workload::fileset::FileSet;
    use std::time::Duration;

    fn seconds(text: &str) -> Option<Duration> {
        Duration::try_from_secs_f64(text.strip_suffix('s')?.parse().ok()?).ok()
    }

    fn clients(crowd: &Crowd, seed: u64) -> Clients {
        let files = FileSet::SpecWeb96 { directories: 10, seed: 1 };
        let mix = Mix { files, seed, directories_zipf: None, crowd: Some(crowd.clone()) };
        Clients::new(&mix, crowd, fastrand::Rng::with_seed(seed), 10)
    }

    #[test]
    fn the_crowd_comes_in_addition_from_known_networks_and_for_few_files() {
        let crowd = Crowd::parse("20*10/10s,10s,10s,10s", seconds).expect("a crowd");
        for seed in 1..=5 {
            let mut clients = clients(&crowd, seed);
            let count = 20_000;
            let mut calm = || (0..count).map(|_| clients.come(5.0)).collect::<Vec<_>>();
            assert!(calm().iter().all(|client| !client.of_crowd && client.network < 8));
            let peak: Vec<Client> = (0..count).map(|_| clients.come(25.0)).collect();
            let of_crowd = peak.iter().filter(|client| client.of_crowd).count() as f64;
            // Of ten clients nine are of the crowd; four standard deviations.
            assert!((of_crowd - 0.9 * f64::from(count)).abs() < 4.0 * (0.09 * f64::from(count)).sqrt(), "{of_crowd}");
            assert_eq!(clients.came_with_crowd as f64, of_crowd);
            let new = peak.iter().filter(|client| client.network >= 8).count() as f64 / of_crowd;
            assert!((0.18..0.22).contains(&new), "{new}");
            // The rate of a client is what it was: its pauses do not know of the crowd.
            let pauses: Vec<f64> = (0..count).map(|_| clients.pause_ns() as f64 / 1e9).collect();
            judge::assert_follows(pauses.into_iter(), |time| 1.0 - (-time).exp());
            let hot = (0..count).filter_map(|_| clients.hot_file()).count() as f64 / f64::from(count);
            assert!((0.89..0.91).contains(&hot), "{hot}");
        }
        // All loops have the same few files.
        assert_eq!(clients(&crowd, 1).hot, clients(&crowd, 1).hot);
        assert_eq!(clients(&crowd, 1).hot.len(), 10);
    }
}
