//! The environment database as tables to ask in SQL: each view takes looks and decisions apart, which lie as JSON.

/// When a look or a decision was kept, in UTC, as text that sorts by time.
macro_rules! at {
    () => {
        "strftime('%Y-%m-%dT%H:%M:%fZ', record.at_ms / 1000.0, 'unixepoch') as at"
    };
}

/// The records of a class.
macro_rules! of {
    ($class:literal) => {
        concat!(
            "record join series on series.id = record.series and series.source = 'adapt' and series.class = '",
            $class,
            "'"
        )
    };
}

/// Names and queries.
pub(crate) const VIEWS: [(&str, &str); 5] = [
    (
        "reading",
        concat!(
            "select ",
            at!(),
            ", json_extract(e.value, '$.resource') as resource, \
             json_extract(e.value, '$.unit') as unit, json_extract(e.value, '$.of') as \"of\", \
             json_extract(e.value, '$.value') as value \
             from ",
            of!("look"),
            ", json_each(record.body, '$.readings') as e"
        ),
    ),
    (
        "forecast",
        // One whose methods are not compared is a row, too.
        concat!(
            "select ",
            at!(),
            ", json_extract(e.value, '$.metric') as metric, \
             coalesce(json_extract(e.value, '$.atom'), json_extract(record.body, '$.here')) as \"of\", \
             json_extract(m.value, '$.method') as method, coalesce(json_extract(m.value, '$.is_chosen'), 1) as is_chosen, \
             json_extract(coalesce(m.value, e.value), '$.value') as value, \
             json_extract(coalesce(m.value, e.value), '$.fit') as fit, \
             json_extract(coalesce(m.value, e.value), '$.error') as error, \
             json_extract(coalesce(m.value, e.value), '$.judged') as judged \
             from ",
            of!("look"),
            ", json_each(record.body, '$.forecasts') as e \
             left join json_each(e.value, '$.methods') as m"
        ),
    ),
    (
        "popular",
        concat!(
            "select ",
            at!(),
            ", json_extract(e.value, '$.text') as path, \
             json_extract(e.value, '$.count') as count, json_extract(e.value, '$.rate_per_s') as rate_per_s, \
             json_extract(e.value, '$.bytes') as bytes, json_extract(e.value, '$.sha256') as sha256 \
             from ",
            of!("look"),
            ", json_each(record.body, '$.popular') as e"
        ),
    ),
    (
        "link",
        concat!(
            "select ",
            at!(),
            ", kind.value as kind, json_extract(e.value, '$.place') as place, \
             json_extract(e.value, '$.bandwidth_bps') as bandwidth_bps, json_extract(e.value, '$.rtt_s') as rtt_s, \
             json_extract(e.value, '$.age_ms') as age_ms \
             from ",
            of!("look"),
            ", json_each('[\"addresses\", \"networks\"]') as kind, \
             json_each(record.body, '$.links.' || kind.value || '.freshest') as e"
        ),
    ),
    (
        "decision",
        concat!(
            "select ",
            at!(),
            ", json_extract(record.body, '$.rule') as rule, \
             json_extract(record.body, '$.file') as file, json_extract(record.body, '$.line') as line, \
             json_extract(record.body, '$.outcome.kind') as outcome, \
             coalesce(json_extract(record.body, '$.subject.atom'), json_extract(record.body, '$.subject.atoms'), \
             json_extract(record.body, '$.subject.session.atom'), json_extract(record.body, '$.subject.client.atoms')) as \
             path, json_extract(record.body, '$.subject.client.client') as client, \
             coalesce(json_extract(record.body, '$.orders'), '[]') as orders, \
             coalesce(json_extract(record.body, '$.readings'), '[]') as readings \
             from ",
            of!("decision")
        ),
    ),
];
