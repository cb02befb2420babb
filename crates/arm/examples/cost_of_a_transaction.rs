//! What a business transaction costs the program that names it.
//!
//! The program begins and ends 100,000 transactions. With a running `weir agent` they are recorded, and `weir arm top`
//! shows them; without one they are not, and a begin and an end take a few instructions.
//!
//! `cargo run --release -p weir-arm --example cost_of_a_transaction`

use std::hint::black_box;
use std::time::Instant;
use weir_arm::{DefinitionWriter, Field, Handle, Sort};

const TRANSACTIONS: u32 = 100_000;
const GOOD: u32 = 0;

fn main() {
    let name = |name: &'static str| {
        move |definition: &mut DefinitionWriter| {
            definition.piece(Field::Name, 0, name.as_bytes());
        }
    };
    let application = weir_arm::define(Sort::Application, 4, 0, name("Example of weir-arm"));
    let instance = weir_arm::define(Sort::Instance, 4, application, |_| ());
    let transaction = weir_arm::define(Sort::Transaction, 4, application, name("nothing"));
    let running = weir_arm::begin_instance(instance);

    let begin = Instant::now();
    let mut recorded = 0;
    for _ in 0..TRANSACTIONS {
        let handle = weir_arm::start(transaction, instance);
        recorded += u32::from(black_box(handle) != Handle(0));
        weir_arm::stop(handle, GOOD);
    }
    let each_ns = begin.elapsed().as_nanos() as f64 / f64::from(TRANSACTIONS);

    let agent = if weir_arm::listening() { "an agent listens" } else { "no agent listens" };
    println!("{agent}: {recorded} of {TRANSACTIONS} transactions recorded, {each_ns:.1} ns each");
    weir_arm::end_instance(running);
}
