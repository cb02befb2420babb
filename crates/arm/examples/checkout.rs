//! A program that names its transactions, as `docs/how-to/instrument-a-program.md` has it.
//!
//! `cargo run --release -p weir-arm --example checkout`

use weir_arm::{Begin, DefinitionWriter, Field, Sort};

/// What begins with this is stopped when it is dropped.
struct Running(weir_arm::Handle);

impl Drop for Running {
    fn drop(&mut self) {
        const GOOD: u32 = 0;
        const FAILED: u32 = 2;
        weir_arm::stop(self.0, if std::thread::panicking() { FAILED } else { GOOD });
    }
}

fn main() {
    let name = |name: &'static str| {
        move |definition: &mut DefinitionWriter| {
            definition.piece(Field::Name, 0, name.as_bytes());
        }
    };
    let shop = weir_arm::define(Sort::Application, 4, 0, name("Shop"));
    let instance = weir_arm::define(Sort::Instance, 4, shop, |_| ());
    let checkout = weir_arm::define(Sort::Transaction, 4, shop, name("checkout"));
    let running = weir_arm::begin_instance(instance);

    {
        let begin = Begin { transaction: checkout, instance, ..Begin::default() };
        let _running = Running(weir_arm::start_with(&begin, |telling| telling.piece(Field::User, 0, b"ann")));
        // the work
    }

    weir_arm::end_instance(running);
}
