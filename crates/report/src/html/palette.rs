//! One fixed colour for each part, in every view and in light and dark.
//!
//! Colours were searched so that every two of them stay at least 0.115 apart in OKLab for full colour vision and for
//! full protanopia, deuteranopia and tritanopia (matrices of Machado, Oliveira and Fernandes 2009), from seeds that
//! keep a meaning: running is green, waiting for a CPU is red, queues are violet, ways over the network are blue.
//! A colour never stands alone: names are beside it, and `unattributed` is hatched.

use weir_measure::part::Part;

/// A colour of the display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colour {
    red: u8,
    green: u8,
    blue: u8,
}

/// The colour of a part.
pub(crate) fn colour(part: Part) -> Colour {
    let [_, red, green, blue] = match part {
        Part::Generator => 0x97_6b94_u32,
        Part::Connect => 0xc6_eddd,
        Part::RequestTransit => 0x74_caf5,
        Part::AcceptQueue => 0x38_2387,
        Part::WorkerQueue => 0x8f_3873,
        Part::Run => 0x00_974d,
        Part::WaitCpu => 0xf5_4400,
        Part::WaitDisk => 0x6f_1043,
        Part::WaitLock => 0xf5_aba3,
        Part::WaitProcess => 0xb7_c032,
        Part::WaitNetwork => 0x00_5eb2,
        Part::WaitTimer => 0xf1_de37,
        Part::ResponseTransit => 0x46_9df5,
        Part::ClientWakeup => 0x5a_541e,
        Part::Unattributed => 0x96_99b2,
    }
    .to_be_bytes();
    Colour { red, green, blue }
}

/// The part of a name, as the JSON has it.
pub(crate) fn part_named(name: &str) -> Option<Part> {
    Part::ALL.into_iter().find(|part| part.name() == name)
}

impl Colour {
    /// As CSS writes it.
    pub(crate) fn hex(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.red, self.green, self.blue)
    }

    /// Whether black reads better on it than white: whichever has the higher contrast (WCAG 2).
    pub(crate) fn takes_black(self) -> bool {
        let luminance = self.luminance();
        (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05)
    }

    /// The nearest of a terminal's 256 colours; the first 16 are left out, for their look is the user's.
    pub(crate) fn of_256(self) -> u8 {
        let level = |index: u8| if index == 0 { 0 } else { 55 + 40 * index };
        let distance = |code: u8| {
            let (red, green, blue) = match code {
                16..232 => (level((code - 16) / 36), level((code - 16) / 6 % 6), level((code - 16) % 6)),
                grey => (8 + 10 * (grey - 232), 8 + 10 * (grey - 232), 8 + 10 * (grey - 232)),
            };
            [(self.red, red), (self.green, green), (self.blue, blue)]
                .map(|(ours, theirs)| i32::from(ours.abs_diff(theirs)).pow(2))
                .iter()
                .sum::<i32>()
        };
        // The range is not empty.
        (16..=255).min_by_key(|code| distance(*code)).unwrap_or(16)
    }

    fn luminance(self) -> f64 {
        let linear = |channel: u8| {
            let share = f64::from(channel) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(self.red) + 0.7152 * linear(self.green) + 0.0722 * linear(self.blue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_part_has_its_own_colour_in_both_views() {
        let hex: BTreeSet<String> = Part::ALL.iter().map(|part| colour(*part).hex()).collect();
        let of_256: BTreeSet<u8> = Part::ALL.iter().map(|part| colour(*part).of_256()).collect();
        assert_eq!((hex.len(), of_256.len()), (Part::COUNT, Part::COUNT));
    }

    #[test]
    fn labels_reach_the_contrast_of_text_on_every_colour() {
        for part in Part::ALL {
            let luminance = colour(part).luminance();
            let contrast =
                if colour(part).takes_black() { (luminance + 0.05) / 0.05 } else { 1.05 / (luminance + 0.05) };
            assert!(contrast >= 4.5, "{} has {contrast:.2}", part.name());
        }
    }

    #[test]
    fn names_lead_back_to_their_parts() {
        for part in Part::ALL {
            assert_eq!(part_named(part.name()), Some(part));
        }
        assert_eq!(part_named("elsewhere"), None);
    }
}
