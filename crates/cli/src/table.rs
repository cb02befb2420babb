//! A table whose columns are as wide as what stands in them.

/// Rows of cells; the first column is of names and may be cut, the others are figures.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

/// The fewest characters of a name that are shown.
const LEAST: usize = 16;

impl Table {
    /// With the names of its columns.
    pub(crate) fn new<const N: usize>(columns: [&str; N]) -> Self {
        Self { rows: vec![columns.map(str::to_owned).into()] }
    }

    /// Adds a row of as many cells.
    pub(crate) fn push<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// Whether it has rows beside the names.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// Leaves columns out, from the last on, until the rest fits; then cuts the names.
    pub(crate) fn lines(&self, width: usize) -> Vec<String> {
        let columns = self.rows[0].len();
        let widths: Vec<usize> = (0..columns).map(|at| self.width_of(at)).collect();
        let with = |shown: usize, first: usize| first + widths[1..shown].iter().map(|width| width + 2).sum::<usize>();
        let shown = (2..=columns).rev().find(|shown| with(*shown, widths[0].min(LEAST)) <= width).unwrap_or(1);
        let first = widths[0].min(width.saturating_sub(with(shown, 0))).max(1);
        let line = |row: &Vec<String>| {
            let mut line = format!("{:<first$}", cut(&row[0], first));
            for (cell, width) in row[1..shown].iter().zip(&widths[1..]) {
                line.push_str(&format!("  {cell:>width$}"));
            }
            line.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }

    fn width_of(&self, column: usize) -> usize {
        self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    }
}

/// The begin of a text, with a mark if there was more.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['~']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_left_out_from_the_end() {
        let mut table = Table::new(["NAME", "RATE", "P99", "SWITCH"]);
        assert!(table.is_empty());
        table.push(["shop/checkout-with-a-long-name", "1,234", "1.20 ms", "1 in 10"].map(str::to_owned));
        let all = table.lines(100);
        assert_eq!(all[0], "NAME                             RATE      P99   SWITCH");
        assert_eq!(all[1], "shop/checkout-with-a-long-name  1,234  1.20 ms  1 in 10");
        let narrow = table.lines(40);
        assert_eq!(narrow[1], "shop/checkout-with-a-lo~  1,234  1.20 ms");
        for width in 1..80 {
            for line in table.lines(width) {
                assert!(line.chars().count() <= width.max(1), "{width}: {line}");
            }
        }
    }
}
