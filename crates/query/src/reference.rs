//! The tables as a page of documents has them.

use crate::saved::SAVED;
use crate::schema::{Origin, TABLES};
use std::fmt::Write;

/// The heading below which `reference()` stands.
pub const TABLES_HEADING: &str = "## The tables";

/// All tables with their columns, and the saved questions, in Markdown; made of the same descriptions as the tables.
#[must_use]
pub fn reference() -> String {
    let mut text = format!("{TABLES_HEADING}\n");
    for table in TABLES {
        let how = match table.origin {
            Origin::Raw(time) => {
                format!("Raw: read from the segments at once; bounds of `{time}` choose what is read.")
            }
            Origin::Derived(_) => "Derived: made once of the whole recording, then kept.".to_owned(),
        };
        let _ = write!(
            text,
            "\n### {}\n\n{}\n{how}\n\n| column | type | meaning |\n|---|---|---|\n",
            table.name, table.doc
        );
        for column in table.columns {
            let _ = writeln!(text, "| `{}` | {} | {} |", column.name, column.kind.name().to_lowercase(), column.doc);
        }
    }
    let _ = write!(text, "\n## Saved questions\n\n| name | question |\n|---|---|\n");
    for question in SAVED {
        let _ = writeln!(text, "| `{}` | {} |", question.name, question.asks);
    }
    text
}
