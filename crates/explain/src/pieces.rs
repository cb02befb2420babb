//! The stretches of a response as the folds take them.

use weir_measure::response::Piece;
use weir_timeline::{Joiner, Labels, Response};

/// Puts the stretches of a response in place of what stands in `pieces`.
pub(super) fn pieces_of(joiner: &Joiner, labels: &mut Labels, response: &Response<'_>, pieces: &mut Vec<Piece>) {
    pieces.clear();
    pieces.extend(response.steps.iter().map(|step| {
        let detail = labels.of(joiner, step.detail, step.from_ns);
        Piece { part: step.part, detail, ns: step.to_ns - step.from_ns }
    }));
}
