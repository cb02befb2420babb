//! Sound: its frames, and where they lie.

use crate::Choices;
use crate::media::audio::carrier;
use crate::media::audio::frame;
use crate::media::audio::index::{Index, Place};

/// Reads any bytes as a file of sound: frames lie one behind the other within it, in any order of questions, and each
/// has a carrier for what it may need.
pub fn sound_frames(input: &[u8]) {
    let mut choices = Choices(input);
    let (wanted, bound) = (u64::from(choices.byte()), u64::from(choices.byte()) << 8);
    let file = choices.0;
    let Ok(Some(mut index)) = Index::open(file) else { return };
    let found = index.find(file, wanted, bound).expect("memory is read");
    let mut at = Vec::new();
    for number in 0..=wanted.min(64) {
        match index.find(file, number, u64::MAX).expect("memory is read") {
            Place::At(place) => at.push(place),
            Place::Beyond => break,
            Place::Later => panic!("it was to look without a bound"),
        }
    }
    for (number, place) in at.iter().enumerate() {
        let bytes = &file[*place as usize..];
        let one = frame::parse(bytes).expect("a frame");
        assert!(one.format == index.format && one.bytes <= bytes.len() && one.side_end <= one.bytes);
        assert!(at.get(number + 1).is_none_or(|next| *next == place + one.bytes as u64));
        let reservoir = carrier::reservoir(file, &at[..number], one.reservoir_bytes).expect("memory is read");
        assert_eq!(reservoir.len(), one.reservoir_bytes);
        if one.reservoir_bytes > 0 {
            let silent = carrier::carrier(bytes, &one, &reservoir).expect("some rate is high enough");
            let made = frame::parse(&silent).expect("a frame");
            assert!(made.format == one.format && made.bytes == silent.len() && made.reservoir_bytes == 0);
        }
    }
    if let Place::At(place) = found {
        assert!(wanted > 64 || at.get(wanted as usize) == Some(&place));
    }
}
