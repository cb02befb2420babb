//! Where the time of a recorded run's responses went: the mean of each part, and that of the slowest 1 %.
//!
//! `weir record` and `weir explain --load URL --run DIRECTORY` write such a run; `crates/timeline/tests/golden` has small
//! ones.
//!
//! `cargo run --release -p weir-timeline --example parts_of_a_run -- DIRECTORY`

use std::path::Path;
use weir_measure::part::Part;
use weir_measure::response::{Piece, ResponseFold};
use weir_timeline::{Bounds, Joiner, Response};
use weir_trace::RunReader;
use weir_wire::client::ClientRequest;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: parts_of_a_run DIRECTORY")?;
    let run = RunReader::open(Path::new(&directory))?;
    let mut fold = ResponseFold::new();
    let mut take = |_: &Joiner, response: &Response<'_>| {
        let piece = |part, ns| Piece { part, detail: 0, ns };
        let pieces: Vec<Piece> =
            response.steps.iter().map(|step| piece(step.part, step.to_ns - step.from_ns)).collect();
        fold.push(response.time_ns(), &pieces);
    };
    let mut joiner = Joiner::new(Bounds::default());
    run.merge().each(|sourced| {
        let request = ClientRequest::read(&sourced.record, sourced.payload);
        let name = request.and_then(|request| sourced.name(request.name));
        joiner.push(&sourced.record, sourced.payload, name, &mut take);
        true
    });
    joiner.finish(&mut take);

    let statistics = joiner.statistics();
    println!("{} responses, {} joined with the server's side", statistics.requests, statistics.joined);
    let (all, slowest) = (fold.all(), fold.slowest(0.01));
    println!("{:>12} {:>12}  us on average", "all", "slowest 1 %");
    println!("{:>12.1} {:>12.1}  the response", all.response_ns / 1e3, slowest.response_ns / 1e3);
    for part in Part::ALL {
        let (all_us, slowest_us) = (all.parts_ns[part as usize] / 1e3, slowest.parts_ns[part as usize] / 1e3);
        if all_us > 0.0 {
            println!("{all_us:>12.1} {slowest_us:>12.1}  {}", part.words());
        }
    }
    Ok(())
}
