//! What the orchestrator of a load and its workers say to each other.

use weir_load::workers::{
    Asked, Decoder, FromWorker, Hello, Message, Orchestrator, PROTOCOL, Phase, ToWorker, Worker, encoded, greeting,
};
use weir_load::{Control, Options, Url};

/// Reads any bytes as what either side says, in one piece and byte by byte, and takes it as the other side does: what is
/// understood has one encoding, and the state machines end or go on, but never panic.
pub fn load_workers(input: &[u8]) {
    let to_worker = messages::<ToWorker>(input);
    let mut worker = Worker::new("1", 0);
    for (number, message) in to_worker.into_iter().enumerate() {
        worker.take(message, number as u64);
        while worker.next_act().is_some() {}
    }
    worker.gone();
    assert!(worker.is_over());
    let from_worker = messages::<FromWorker>(input);
    let control = Control::default();
    let names = vec!["one".to_owned()];
    let asked = Asked { names, version: "1".to_owned(), words: Vec::new(), files: Vec::new(), is_recorded: true };
    let options = || Options::new(Url::parse("http://localhost/").expect("a URL"));
    let mut orchestrator = Orchestrator::new(asked, &options(), 0);
    // A worker that is greeted, measured and ready: what follows is what the input says.
    orchestrator.take(0, FromWorker::Hello(Hello { protocol: PROTOCOL, version: "1".to_owned() }), 1, &control);
    for number in 0..16 {
        orchestrator.take(0, FromWorker::Pong { number, now_ns: number }, number, &control);
    }
    orchestrator.take(0, FromWorker::Ready, 20, &control);
    assert_ne!(orchestrator.phase(), Phase::Preparing);
    for message in from_worker {
        orchestrator.take(0, message, 30, &control);
        while orchestrator.next_message().is_some() {}
        while orchestrator.next_record().is_some() {}
    }
    orchestrator.gone(0, "its connection ended".to_owned(), 40, &control);
    assert_eq!(orchestrator.phase(), Phase::Over);
    if let Ok(report) = orchestrator.report(options()) {
        assert_eq!(&report.latency, report.series.whole());
    }
}

/// The messages of an input, which begin with the greeting.
fn messages<M: Message>(input: &[u8]) -> Vec<M> {
    let read = |pieces: usize| {
        let mut decoder = Decoder::<M>::default();
        let (mut messages, mut is_refused) = (Vec::new(), false);
        for piece in std::iter::once(greeting()).chain(input.chunks(pieces)) {
            decoder.push(piece);
            loop {
                match decoder.next_message() {
                    Ok(Some(message)) => messages.push(message),
                    Ok(None) => break,
                    Err(_) => is_refused = true,
                }
                if is_refused {
                    break;
                }
            }
            if is_refused {
                break;
            }
        }
        messages
    };
    let whole = read(input.len().max(1));
    let bytes = |messages: &[M]| -> Vec<Vec<u8>> { messages.iter().filter_map(|one| encoded(one).ok()).collect() };
    assert_eq!(bytes(&whole), bytes(&read(1)));
    let again: Vec<u8> = bytes(&whole).concat();
    assert!(input.starts_with(&again), "a message has another encoding");
    whole
}
