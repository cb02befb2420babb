//! The page keeps within a size, for an explanation of any size.

/// A page is at most so long, bytes.
pub(super) const MOST_BYTES: usize = 10_000_000;
/// What head, style, script and texts outside of the sections may take of it.
const RESERVED: usize = 400_000;

/// A section, by what leaving it out would be called.
pub(super) struct Section {
    pub(super) name: &'static str,
    /// Sections of a higher number give way first.
    pub(super) rank: u8,
    pub(super) markup: String,
}

/// The sections in their order; those that do not fit any more are replaced by a word about it, and about the command
/// that has them.
pub(super) fn within(sections: Vec<Section>, elsewhere: &str) -> String {
    let mut by_rank: Vec<usize> = (0..sections.len()).collect();
    by_rank.sort_by_key(|index| sections[*index].rank);
    let mut left = MOST_BYTES - RESERVED;
    let mut fits = vec![false; sections.len()];
    for index in by_rank {
        let bytes = sections[index].markup.len();
        fits[index] = bytes <= left;
        left -= if fits[index] { bytes } else { 0 };
    }
    let shown = |(section, fits): (Section, bool)| match fits {
        true => section.markup,
        false => format!(
            "<section class=\"card figure\"><p>{} would make this page larger than {} MB and are left out; `{elsewhere}` has them.</p></section>\n",
            section.name,
            MOST_BYTES / 1_000_000
        ),
    };
    sections.into_iter().zip(fits).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_less_gives_way() {
        let section = |name, rank, bytes| Section { name, rank, markup: "x".repeat(bytes) };
        let sections =
            vec![section("Stacks", 3, 4_000_000), section("Parts", 0, 6_000_000), section("Queries", 1, 100)];
        let page = within(sections, "weir explain --json");
        assert!(page.len() < MOST_BYTES && page.contains("Stacks would make"), "{}", page.len());
        assert!(!page.contains("Parts would") && !page.contains("Queries would"));
    }
}
