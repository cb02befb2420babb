//! The headers and the schema that other languages read are those that the table of kinds makes.
// scripts/test: serves

use std::path::Path;
use weir_wire::schema;

fn check(path: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a file in a folder")).expect("the folder can be made");
        std::fs::write(&path, made).expect("the file can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "{} has drifted from the table of kinds: run `WEIR_BLESS=1 cargo test --release --workspace --test generated`",
        path.display()
    );
}

#[test]
fn the_c_header_follows_the_table() {
    check("include/weir_kinds.h", &schema::c_header());
}

#[test]
fn the_bpf_header_follows_the_table() {
    check("../capture/src/bpf/kinds.h", &schema::bpf_header());
}

#[test]
fn the_console_schema_follows_the_table() {
    check("../../console/schema.json", &schema::json());
}
