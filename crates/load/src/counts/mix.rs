//! What came of the requests of a mix.

use crate::carried::carried;
use crate::workload::fileset::FileSet;
use crate::workload::mix::Mix;

/// The most kinds of files of a set.
const KINDS_MAX: usize = 4;

/// What one loop counts; loops' tallies add up.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MixTally {
    answers: [u64; KINDS_MAX],
    successes: [u64; KINDS_MAX],
    wrong_sizes: u64,
    /// Clients of a crowd's run, and those of the crowd itself.
    pub(crate) came: (u64, u64),
}

/// What came of the requests of a mix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MixReport {
    /// What was asked, in words.
    pub name: &'static str,
    /// The kinds of files, and how many whole responses of any status each had.
    pub kinds: Vec<(String, u64)>,
    /// The same of those whose status is expected.
    pub successes: Vec<(String, u64)>,
    /// Responses with status 200 whose body is not as long as the file.
    pub wrong_sizes: u64,
    /// With a flash crowd: clients that came, and those of them that came with the crowd.
    pub clients: Option<(u64, u64)>,
}

impl MixTally {
    /// A whole response came to the request for a file; its status, and whether that is expected.
    #[inline]
    pub(crate) fn count(
        &mut self,
        files: &FileSet,
        file: u32,
        head_only: bool,
        (status, is_expected): (u16, bool),
        body_bytes: u64,
    ) {
        let kind = (file & files.kind_mask()) as usize;
        self.answers[kind] += 1;
        self.successes[kind] += u64::from(is_expected);
        let is_wrong = status == 200 && !head_only && body_bytes != files.size(file);
        self.wrong_sizes += u64::from(is_wrong);
    }

    /// Adds another loop's tally.
    pub(crate) fn merge(&mut self, other: &Self) {
        let counts = self.answers.iter_mut().chain(&mut self.successes);
        for (count, more) in counts.zip(other.answers.into_iter().chain(other.successes)) {
            *count += more;
        }
        self.wrong_sizes += other.wrong_sizes;
        self.came = (self.came.0 + other.came.0, self.came.1 + other.came.1);
    }

    pub(crate) fn report(&self, mix: &Mix) -> MixReport {
        let of_kinds = |counts: [u64; KINDS_MAX]| {
            (0..mix.files.kinds()).map(|kind| (mix.files.kind_name(kind), counts[kind as usize])).collect()
        };
        let clients = mix.crowd.as_ref().map(|_| self.came);
        MixReport {
            name: mix.files.name(),
            kinds: of_kinds(self.answers),
            successes: of_kinds(self.successes),
            wrong_sizes: self.wrong_sizes,
            clients,
        }
    }
}

carried!(MixTally { answers, successes, wrong_sizes, came });
