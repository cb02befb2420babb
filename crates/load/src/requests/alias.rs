//! Draws in proportion to weights, without a search.

/// Draws places in proportion to weights, each in the same time (Walker 1974, Vose 1991).
#[derive(Debug, Default)]
pub(crate) struct Alias {
    columns: Vec<Column>,
}

/// A column of the table: two places share it.
#[derive(Debug, Clone, Copy)]
struct Column {
    /// Of 2^32 draws of this column so many are its own; the others are the alias's.
    own: u64,
    alias: u32,
}

impl Alias {
    /// The table for at most 2^32 weights, of which each is above 0.
    pub(crate) fn new(weights: &[u32]) -> Self {
        let count = weights.len() as u128;
        let total: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
        // What a place is to have, in units of which a column holds `total`: exact in whole numbers.
        let mut shares: Vec<u128> = weights.iter().map(|weight| u128::from(*weight) * count).collect();
        let mut columns: Vec<Column> = (0..weights.len()).map(|at| Column { own: 1 << 32, alias: at as u32 }).collect();
        let (mut poor, mut rich): (Vec<usize>, Vec<usize>) = (0..weights.len()).partition(|at| shares[*at] < total);
        while let (Some(small), Some(large)) = (poor.pop(), rich.last().copied()) {
            columns[small] = Column { own: ((shares[small] << 32) / total) as u64, alias: large as u32 };
            shares[large] -= total - shares[small];
            if shares[large] < total {
                rich.pop();
                poor.push(large);
            }
        }
        Self { columns }
    }

    /// The place that 64 random bits mean.
    #[inline]
    pub(crate) fn place(&self, random: u64) -> u32 {
        let at = ((random >> 32) * self.columns.len() as u64) >> 32;
        let column = self.columns[at as usize];
        if random & 0xffff_ffff < column.own { at as u32 } else { column.alias }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Chi-square of `draws` draws; and how many places there are.
    fn chi_square(weights: &[u32], draws: u64, seed: u64) -> f64 {
        let alias = Alias::new(weights);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut seen = vec![0u64; weights.len()];
        for _ in 0..draws {
            seen[alias.place(random.u64(..)) as usize] += 1;
        }
        let total: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
        let expected = weights.iter().map(|weight| f64::from(*weight) / total * draws as f64);
        seen.iter().zip(expected).map(|(seen, expected)| (*seen as f64 - expected).powi(2) / expected).sum()
    }

    #[test]
    fn weights_hold() {
        // The critical values of chi-square at 0.01 for 4 and for 999 degrees of freedom.
        for seed in 1..=5 {
            assert!(chi_square(&[1, 2, 3, 4, 90], 200_000, seed) < 13.28);
            let thousand: Vec<u32> = (1..=1000).collect();
            assert!(chi_square(&thousand, 2_000_000, seed) < 1106.0);
        }
    }

    proptest! {
        #[test]
        fn each_place_has_its_share_of_the_table(weights in prop::collection::vec(1u32..=u32::MAX, 1..200)) {
            let alias = Alias::new(&weights);
            let mut shares = vec![0u128; weights.len()];
            for (at, column) in alias.columns.iter().enumerate() {
                shares[at] += u128::from(column.own);
                shares[column.alias as usize] += u128::from((1u64 << 32) - column.own);
            }
            let total: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
            for (share, weight) in shares.iter().zip(&weights) {
                let expected = f64::from(*weight) / total * (weights.len() as f64) * 4_294_967_296.0;
                // Each column is rounded by less than one.
                prop_assert!((*share as f64 - expected).abs() <= weights.len() as f64 + expected * 1e-12);
            }
        }
    }
}
