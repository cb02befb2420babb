//! Whose time the responses around each percentile were.

use weir_measure::part::{Part, Side};
use weir_measure::response::{Profile, ResponseFold};
use weir_report::PercentileShares;

/// The percentiles that are told.
const TOLD: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// Whose time they were, for each percentile that enough responses have.
pub(crate) fn shares(all: &ResponseFold) -> Vec<PercentileShares> {
    let around = |percentile: f64| Some((percentile, all.around(percentile / 100.0)?));
    TOLD.into_iter().filter_map(around).map(|(percentile, profile)| of(percentile, &profile)).collect()
}

fn of(percentile: f64, profile: &Profile) -> PercentileShares {
    let total_ns: f64 = profile.parts_ns.iter().sum();
    let share = |side: Side| {
        let of_side = Part::ALL.iter().filter(|part| part.side() == side);
        let ns: f64 = of_side.map(|part| profile.parts_ns[*part as usize]).sum();
        if total_ns > 0.0 { ns / total_ns } else { 0.0 }
    };
    PercentileShares {
        percentile,
        response_ns: profile.response_ns,
        generator: share(Side::Generator),
        network: share(Side::Network),
        server: share(Side::Server),
        unattributed: share(Side::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_measure::response::Piece;

    proptest! {
        /// Each part of any response is of one side, so the shares of all are the whole.
        #[test]
        fn shares_are_the_whole(times in proptest::collection::vec((0usize..Part::COUNT, 1u64..1 << 40, 0u64..1 << 40), 1..300)) {
            let mut fold = ResponseFold::new();
            for (part, ns, run_ns) in &times {
                let piece = |part, ns| Piece { part, detail: 0, ns };
                fold.push(ns + run_ns, &[piece(Part::ALL[*part], *ns), piece(Part::Run, *run_ns)]);
            }
            let told = shares(&fold);
            prop_assert_eq!(told.len(), [2, 10, 100, 1000].iter().filter(|least| times.len() >= **least).count());
            for one in told {
                let sum = one.generator + one.network + one.server + one.unattributed;
                prop_assert!((sum - 1.0).abs() < 1e-9, "{:?}", one);
            }
        }
    }
}
