//! What a page asks of the console: parameters of its list of requests.

#[path = "../../../crates/console/src/filter.rs"]
mod filter;
#[path = "../../../crates/console/src/parameters.rs"]
mod parameters;

/// A query of the list of requests. What it becomes is one question in SQL: outside of quoted texts stands nothing that
/// a parameter gave but numbers.
pub fn console_requests(input: &[u8]) {
    let Ok(query) = std::str::from_utf8(input) else { return };
    let Ok(read) = parameters::Parameters::of(query) else { return };
    // `site.rs` asks for it before.
    let _run = read.required("run").is_ok();
    let Ok(filter) = filter::Filter::of(&read) else { return };
    assert!(filter.limit > 0 && i64::try_from(filter.offset).is_ok());
    for question in [filter.question(), filter.counting()] {
        let bare: String = question.split('\'').step_by(2).collect();
        assert!(question.matches('\'').count() % 2 == 0, "a text is not closed: {question}");
        assert!(bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" ,()=<>+*_.-".contains(&byte)), "{question}");
    }
}
