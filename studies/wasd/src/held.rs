//! Whether what the paper found is so today: a rule, so that the words follow from the numbers.
use weir_measure::comparison::{BLOCKS_FOR_A_VERDICT, Estimate};

/// How likely chance may be where something is said, for all comparisons of the page together.
pub(crate) const CHANCE: f64 = 0.05;

/// Up to which ratio two are about the same.
pub(crate) const SAME: f64 = 1.1;

/// What a comparison of the paper is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Claim {
    /// One is more than the other.
    #[default]
    Differs,
    /// One is not much less than the other; the paper's ratio is how much less it still calls so.
    HardlyLess,
    /// Both are about the same.
    Same,
}

/// What a ratio of ours is to reach.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    /// No less than this.
    AtLeast(f64),
    /// No more than this.
    AtMost(f64),
}

/// What became of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// The same way round, and more.
    More,
    /// The same way round, and as much: the paper's ratio lies in our interval.
    AsMuch,
    /// The same way round, and less.
    Less,
    /// The other way round.
    TurnedRound,
    /// No difference was found.
    NotSeen,
    /// What hardly fell falls no more than then.
    StillHardlyLess,
    /// What hardly fell falls more than then.
    MuchLess,
    /// About the same now as then.
    StillTheSame,
    /// About the same then, and not now.
    Differs,
    /// The whole interval is where the goal wants it.
    Reached,
    /// None of the interval is.
    Missed,
    /// Too few blocks.
    TooFew,
    /// The paper only has words.
    Unsaid,
}

impl Held {
    /// Holds `ours`, with its probability by chance corrected for all comparisons, against the ratio of the `paper`.
    pub(crate) fn of(claim: Claim, paper: f64, ours: &Estimate, probability: Option<f64>) -> Self {
        if ours.blocks < BLOCKS_FOR_A_VERDICT {
            return Self::TooFew;
        }
        if claim == Claim::HardlyLess {
            return match ours.interval {
                interval if interval.low >= paper => Self::StillHardlyLess,
                interval if interval.high < paper => Self::MuchLess,
                _ => Self::NotSeen,
            };
        }
        if claim == Claim::Same {
            return match ours.interval {
                interval if interval.reach() <= SAME => Self::StillTheSame,
                interval if interval.low > SAME || interval.high < 1.0 / SAME => Self::Differs,
                _ => Self::NotSeen,
            };
        }
        // A ratio below 1 is one above 1 seen from the other side.
        let (paper, interval) =
            if paper < 1.0 { (1.0 / paper, ours.interval.reciprocal()) } else { (paper, ours.interval) };
        let by_chance = probability.is_none_or(|probability| probability > CHANCE);
        match interval {
            _ if by_chance || interval.contains(1.0) => Self::NotSeen,
            interval if interval.high < 1.0 => Self::TurnedRound,
            interval if interval.low > paper => Self::More,
            interval if interval.high < paper => Self::Less,
            _ => Self::AsMuch,
        }
    }

    /// Holds `ours` against what we want of it.
    pub(crate) fn of_goal(goal: Goal, ours: &Estimate) -> Self {
        if ours.blocks < BLOCKS_FOR_A_VERDICT {
            return Self::TooFew;
        }
        let interval = ours.interval;
        let (is_reached, is_missed) = match goal {
            Goal::AtLeast(least) => (interval.low >= least, interval.high < least),
            Goal::AtMost(most) => (interval.high <= most, interval.low > most),
        };
        match (is_reached, is_missed) {
            (true, _) => Self::Reached,
            (false, true) => Self::Missed,
            (false, false) => Self::NotSeen,
        }
    }

    /// Whether it held (`Some(true)`), changed (`Some(false)`), or cannot be told.
    pub(crate) fn is_so(self) -> Option<bool> {
        match self {
            Self::More | Self::AsMuch | Self::Less | Self::StillHardlyLess | Self::StillTheSame | Self::Reached => {
                Some(true)
            }
            Self::TurnedRound | Self::MuchLess | Self::Differs | Self::Missed => Some(false),
            Self::NotSeen | Self::TooFew | Self::Unsaid => None,
        }
    }

    /// In the words of the page.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::More => "**held**, and more than then",
            Self::AsMuch => "**held**, as much as then",
            Self::Less => "**held**, but less than then",
            Self::TurnedRound => "**changed**: the other way round",
            Self::NotSeen => "cannot tell",
            Self::StillHardlyLess => "**held**: no more is lost than then",
            Self::MuchLess => "**changed**: more is lost than then",
            Self::StillTheSame => "**held**: about the same",
            Self::Differs => "**changed**: they differ",
            Self::Reached => "**reached**",
            Self::Missed => "**missed**",
            Self::TooFew => "too few blocks",
            Self::Unsaid => "no figure then",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_measure::comparison::Interval;

    fn ours(low: f64, high: f64) -> Estimate {
        Estimate { point: (low * high).sqrt(), interval: Interval { low, high }, blocks: 12 }
    }

    #[test]
    fn a_difference_holds_turns_round_or_is_not_seen() {
        for (paper, low, high, expected) in [
            (3.0, 4.0, 5.0, Held::More),
            (3.0, 2.5, 3.5, Held::AsMuch),
            (3.0, 1.2, 1.4, Held::Less),
            (3.0, 0.7, 0.9, Held::TurnedRound),
            (3.0, 0.9, 1.2, Held::NotSeen),
            (0.25, 0.1, 0.2, Held::More),
            (0.25, 0.2, 0.3, Held::AsMuch),
            (0.25, 0.5, 0.8, Held::Less),
            (0.25, 1.5, 1.8, Held::TurnedRound),
        ] {
            assert_eq!(Held::of(Claim::Differs, paper, &ours(low, high), Some(0.01)), expected, "{paper} {low} {high}");
        }
        assert_eq!(Held::of(Claim::Differs, 3.0, &ours(4.0, 5.0), Some(0.06)), Held::NotSeen);
        assert_eq!(Held::of(Claim::Differs, 3.0, &ours(4.0, 5.0), None), Held::NotSeen);
        assert_eq!(Held::of(Claim::Differs, 3.0, &Estimate { blocks: 4, ..ours(4.0, 5.0) }, Some(0.01)), Held::TooFew);
    }

    #[test]
    fn what_hardly_falls_may_fall_as_much_as_then() {
        let of = |low, high| Held::of(Claim::HardlyLess, 0.8, &ours(low, high), None);
        let found = [of(0.95, 1.1), of(0.85, 0.9), of(0.7, 0.9), of(0.4, 0.6), of(1.5, 2.0)];
        let still = Held::StillHardlyLess;
        assert_eq!(found, [still, still, Held::NotSeen, Held::MuchLess, still]);
    }

    #[test]
    fn a_goal_is_reached_by_the_whole_interval() {
        let least = |low, high| Held::of_goal(Goal::AtLeast(5.0), &ours(low, high));
        assert_eq!([least(5.0, 6.0), least(4.0, 4.9), least(4.9, 5.1)], [Held::Reached, Held::Missed, Held::NotSeen]);
        let most = |low, high| Held::of_goal(Goal::AtMost(0.9), &ours(low, high));
        assert_eq!([most(0.5, 0.9), most(0.91, 1.2), most(0.8, 1.0)], [Held::Reached, Held::Missed, Held::NotSeen]);
        let few = Estimate { blocks: 4, ..ours(5.0, 6.0) };
        assert_eq!(Held::of_goal(Goal::AtLeast(5.0), &few), Held::TooFew);
    }

    #[test]
    fn what_was_the_same_is_so_within_a_tenth() {
        let of = |low, high| Held::of(Claim::Same, 1.03, &ours(low, high), None);
        let found = [of(0.95, 1.05), of(0.92, 1.2), of(1.2, 1.3), of(0.6, 0.8)];
        assert_eq!(found, [Held::StillTheSame, Held::NotSeen, Held::Differs, Held::Differs]);
        assert_eq!(found.map(Held::is_so), [Some(true), None, Some(false), Some(false)]);
    }
}
