//! The paper's figures, as `paper.toml` has them.
use anyhow::{Context, bail, ensure};
use serde::Deserialize;

/// The paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paper {
    #[serde(rename = "paper")]
    pub(crate) about: About,
    #[serde(rename = "table")]
    pub(crate) tables: Vec<Table>,
}

/// What it measured, and on what.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    pub(crate) title: String,
    pub(crate) machine: String,
    pub(crate) servers: String,
    pub(crate) method: String,
}

/// One of its tables.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    pub(crate) id: String,
    pub(crate) section: String,
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

/// A row of a table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) concurrent: Option<u32>,
    /// The row as the text that we have shows it: without anything between its columns.
    pub(crate) printed: String,
    /// The same divided, one for each column; a dash or `n/a` where the paper has no figure.
    pub(crate) figures: Vec<String>,
}

impl Paper {
    /// Reads the paper's figures, and checks that they are what is printed.
    pub(crate) fn read(text: &str) -> anyhow::Result<Self> {
        let paper: Self = toml::from_str(text)?;
        for (index, table) in paper.tables.iter().enumerate() {
            let id = &table.id;
            ensure!(paper.tables[..index].iter().all(|other| other.id != *id), "two tables are called {id}");
            for row in &table.rows {
                let name = row.name();
                ensure!(
                    row.figures.len() == table.columns.len(),
                    "{id}, {name}: {} columns need as many figures",
                    table.columns.len()
                );
                let concurrent = row.concurrent.map_or_else(String::new, |concurrent| concurrent.to_string());
                let joined = format!("{}{concurrent}{}", row.label, row.figures.concat());
                ensure!(joined == row.printed, "{id}, {name}: {:?} is printed, not {joined:?}", row.printed);
                for figure in &row.figures {
                    ensure!(
                        ["-", "n/a"].contains(&figure.as_str()) || figure.parse::<f64>().is_ok(),
                        "{id}, {name}: {figure:?} is no figure"
                    );
                }
            }
        }
        Ok(paper)
    }

    /// The table with this id.
    pub(crate) fn table(&self, id: &str) -> anyhow::Result<&Table> {
        let known = || self.tables.iter().map(|table| table.id.as_str()).collect::<Vec<_>>().join(", ");
        let found = self.tables.iter().find(|table| table.id == id);
        found.with_context(|| format!("the paper has no table {id:?}; there are {}", known()))
    }

    /// The figure at a place such as `cached | 0K, 10 | WASD`.
    pub(crate) fn figure(&self, place: &str) -> anyhow::Result<f64> {
        let parts: Vec<&str> = place.split(" | ").collect();
        let [table, row, column] = parts[..] else { bail!("{place:?} is no place: TABLE | ROW | COLUMN") };
        let table = self.table(table)?;
        let row =
            table.rows.iter().find(|found| found.name() == row).with_context(|| format!("{place}: no such row"))?;
        let column = table.columns.iter().position(|found| found == column);
        let column = column.with_context(|| format!("{place}: no such column"))?;
        row.figures[column].parse().with_context(|| format!("{place}: the paper has no figure there"))
    }
}

impl Row {
    /// The row's name in places and on the page: its label and how many requests at a time.
    pub(crate) fn name(&self) -> String {
        self.concurrent.map_or_else(|| self.label.clone(), |concurrent| format!("{}, {concurrent}", self.label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) const PAPER: &str = include_str!("../paper.toml");

    #[test]
    fn every_row_is_what_is_printed() {
        let paper = Paper::read(PAPER).expect("the paper");
        let rows: usize = paper.tables.iter().map(|table| table.rows.len()).sum();
        let figures = paper.tables.iter().flat_map(|table| &table.rows).flat_map(|row| &row.figures);
        let numbers = figures.filter(|figure| figure.parse::<f64>().is_ok()).count();
        // 8 rows of files, 2 of CPU time, 2 of transfer, 4 of scripts, 2 face to face, 6 of persistent ones.
        assert_eq!((rows, numbers), (24, 24 + 4 + 6 + 28 + 6 + 12));
    }

    #[test]
    fn a_place_has_its_figure() {
        let paper = Paper::read(PAPER).expect("the paper");
        assert_eq!(paper.figure("cached | 0K, 10 | WASD").expect("there"), 879.0);
        assert_eq!(paper.figure("cpu | Disabled | OSU").expect("there"), 61.0);
        for wrong in
            ["cached | 0K | WASD", "cached | 0K, 10 | Apache", "files | 0K, 1 | WASD", "cpu", "cpu | Enabled | CSWS"]
        {
            assert!(paper.figure(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_row_that_is_not_what_is_printed_is_refused() {
        let wrong = PAPER.replacen("\"181\", \"117\"", "\"181\", \"118\"", 1);
        let error = Paper::read(&wrong).expect_err("another figure").to_string();
        assert!(error.contains("uncached, 0K, 1") && error.contains("0K118111734"), "{error}");
    }
}
