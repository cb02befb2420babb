//! One fixed colour for each part, in every view and in light and dark.
//!
//! Colours were searched so that every two of them stay at least 0.1 apart in OKLab for full colour vision and for
//! full protanopia, deuteranopia and tritanopia (matrices of Machado, Oliveira and Fernandes 2009), from seeds that
//! keep a meaning: running is green, waiting for a CPU is red, queues are dark violet, ways over the network are blue.
//! What most often takes most of the time, running and the server's waits, has the strong ones; the ways, the client and
//! what is rare the pale ones. The largest part of a bar is framed besides, for making the others paler would make them
//! look alike (decision 0168). A colour never stands alone: names are beside it, and `unattributed` is hatched.

use weir_measure::part::Part;

/// A colour of the display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colour {
    red: u8,
    green: u8,
    blue: u8,
}

/// The number of a part's colour among a terminal's 256.
///
/// The first 16 are left out, for their look is the user's.
/// The nearest ones would fall together, so that near ones were searched that stay 0.09 apart for the same sights.
pub(crate) fn of_256(part: Part) -> u8 {
    match part {
        Part::Generator => 96,
        Part::Connect => 158,
        Part::RequestTransit => 117,
        Part::AcceptQueue => 18,
        Part::WorkerQueue => 91,
        Part::Run => 28,
        Part::WaitCpu => 196,
        Part::WaitDisk => 52,
        Part::WaitLock => 57,
        Part::WaitProcess => 148,
        Part::WaitNetwork => 32,
        Part::WaitTimer => 227,
        Part::Stopped => 217,
        Part::ResponseTransit => 75,
        Part::ClientWakeup => 239,
        Part::Unattributed => 246,
    }
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
        Part::WaitLock => 0x85_0ef5,
        Part::WaitProcess => 0xb7_c032,
        Part::WaitNetwork => 0x00_5eb2,
        Part::WaitTimer => 0xf1_de37,
        Part::Stopped => 0xf5_aba3,
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

    /// Whether black reads better on it than white, that is, has the higher contrast (WCAG 2).
    pub(crate) fn takes_black(self) -> bool {
        let luminance = self.luminance();
        (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05)
    }

    /// One of a terminal's colours from 16 on: a cube of six levels, then greys.
    pub(crate) fn named_256(code: u8) -> Self {
        let level = |index: u8| if index == 0 { 0 } else { 55 + 40 * index };
        match code {
            232.. => {
                let grey = 8 + 10 * (code - 232);
                Self { red: grey, green: grey, blue: grey }
            }
            code => {
                let index = code.saturating_sub(16);
                Self { red: level(index / 36), green: level(index / 6 % 6), blue: level(index % 6) }
            }
        }
    }

    fn luminance(self) -> f64 {
        let [red, green, blue] = self.linear();
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    /// Red, green and blue as shares of their light.
    fn linear(self) -> [f64; 3] {
        [self.red, self.green, self.blue].map(|channel| {
            let share = f64::from(channel) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_part_has_its_own_colour_in_both_views() {
        let hex: BTreeSet<String> = Part::ALL.iter().map(|part| colour(*part).hex()).collect();
        let of_256: BTreeSet<u8> = Part::ALL.into_iter().map(of_256).collect();
        assert_eq!((hex.len(), of_256.len()), (Part::COUNT, Part::COUNT));
    }

    /// Full colour vision, protanopia, deuteranopia, tritanopia, on linear light.
    const SIGHTS: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ];

    #[test]
    fn every_two_colours_differ_for_every_sight() {
        let on_terminals: fn(Part) -> Colour = |part| Colour::named_256(of_256(part));
        for (colour, least) in [(colour as fn(Part) -> Colour, 0.1), (on_terminals, 0.09)] {
            for (index, first) in Part::ALL.into_iter().enumerate() {
                for second in &Part::ALL[index + 1..] {
                    for sight in SIGHTS {
                        let seen =
                            |part| oklab(multiplied(sight, colour(part).linear()).map(|light| light.clamp(0.0, 1.0)));
                        let apart = distance(seen(first), seen(*second));
                        assert!(apart >= least, "{} and {} are {apart:.3} apart", first.name(), second.name());
                    }
                }
            }
        }
    }

    #[test]
    fn a_terminal_shows_nearly_the_same_colour() {
        for part in Part::ALL {
            let apart = distance(oklab(colour(part).linear()), oklab(Colour::named_256(of_256(part)).linear()));
            assert!(apart < 0.13, "{} is {apart:.3} off", part.name());
        }
    }

    #[test]
    fn labels_reach_the_contrast_of_text_on_every_colour() {
        for colour in Part::ALL.into_iter().flat_map(|part| [colour(part), Colour::named_256(of_256(part))]) {
            let luminance = colour.luminance();
            let contrast = if colour.takes_black() { (luminance + 0.05) / 0.05 } else { 1.05 / (luminance + 0.05) };
            assert!(contrast >= 4.5, "{} has {contrast:.2}", colour.hex());
        }
    }

    #[test]
    fn names_lead_back_to_their_parts() {
        for part in Part::ALL {
            assert_eq!(part_named(part.name()), Some(part));
        }
        assert_eq!(part_named("elsewhere"), None);
    }

    /// A colour in OKLab (Ottosson 2020), in which distances are what the eye sees.
    fn oklab(linear: [f64; 3]) -> [f64; 3] {
        let cones = multiplied(
            [
                [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
                [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
                [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
            ],
            linear,
        );
        multiplied(
            [
                [0.210_454_255_3, 0.793_617_785_0, -0.004_072_046_8],
                [1.977_998_495_1, -2.428_592_205_0, 0.450_593_709_9],
                [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766_0],
            ],
            cones.map(f64::cbrt),
        )
    }

    fn multiplied(matrix: [[f64; 3]; 3], vector: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
    }

    fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }
}
