//! "Which profiles hold a function above 5 %" over profiles of 3,000 functions, beside DuckDB on a flat Parquet file
//! with the same rows.

use std::path::Path;
use std::time::Instant;

use mysql_async::prelude::Queryable;
use procprof_profile::format::pprof::encode_gzip;
use procprof_profile::{Meta, Nanos, ProfileBuilder, ProfileId, ProfileType};
use procprof_store::{Encoded, FunctionTable, FunctionValues, NewProfile, Store, StoreOptions, Summary, Total};

use super::peers::{DuckDbAnswer, duckdb};
use super::{Measured, client_of, least, raw::Raw, server_in};

/// Functions of a profile, and of all.
const FUNCTIONS: u64 = 3000;
const NAMES: u64 = 20_000;
/// The sum of a profile.
const SUM: i64 = 10_000_000;
/// The number of the function that is asked for; a tenth of the profiles that have it hold each of 0 to 9 % in it.
const WANTED: u64 = 777;
/// Nodes, a profile a minute each.
const NODES: u64 = 10;
/// When the first profile was complete.
const START: i64 = 1_763_677_534_000_000_000;

/// Statements that others have no words for.
const OWN: &[&str] = &[
    "SELECT * FROM timeline('*', 'cpu', '2025-11-20', '2025-11-22', '1h', 'function')",
    "SELECT * FROM timeline('be-10001', 'cpu', '2025-11-20 22:00', '2025-11-21 22:00', '5m', 'function', NULL, 20)",
];

/// The name of a function, here and in DuckDB's words.
fn name(number: u64) -> String {
    format!(
        "starrocks::module_{}::Operator{number}::process(starrocks::RuntimeState*, starrocks::Chunk*)",
        number % 200
    )
}
const NAME: &str = "printf('starrocks::module_%d::Operator%d::process(starrocks::RuntimeState*, starrocks::Chunk*)', \
                    number % 200, number)";

/// The number of a function of a profile, and its own value and that with callees; here and in DuckDB's words.
fn function(profile: u64, place: u64) -> (u64, i64, i64) {
    let number = (profile * 37 + place) % NAMES;
    let own = (1 + (profile * 31 + place * 17) % 1000).cast_signed();
    let total = if number == WANTED { SUM / 100 * (profile % 10).cast_signed() } else { own };
    (number, own.min(total), total)
}

fn in_duckdb(profiles: u64, path: &Path) -> Vec<String> {
    let rows = format!(
        "SELECT profile, 10001 + profile % {NODES} AS node, (profile * 37 + place) % {NAMES} AS number, \
         1 + (profile * 31 + place * 17) % 1000 AS own FROM range({profiles}) p(profile), range({FUNCTIONS}) f(place)"
    );
    let totals = format!("CASE WHEN number = {WANTED} THEN {SUM} // 100 * (profile % 10) ELSE own END");
    vec![
        format!(
            "COPY (SELECT printf('%032x', profile) AS profile_id, node, {NAME} AS function, \
             least(own, {totals}) AS self, {totals} AS total, \
             ({totals}) * 100.0 / {SUM} AS total_percent FROM ({rows})) \
             TO '{0}' (FORMAT parquet)",
            path.display()
        ),
        format!("CREATE VIEW functions AS SELECT * FROM read_parquet('{}')", path.display()),
    ]
}

/// Puts profiles into a folder; their files are small, as nothing reads them.
fn fill(data: &Path, profiles: u64) {
    let store = Store::open(data, StoreOptions::default()).unwrap();
    let began = Instant::now();
    for profile in 0..profiles {
        let completed = Nanos(START + (profile / NODES).cast_signed() * 60_000_000_000);
        let meta = Meta {
            id: Some(ProfileId((u128::from(completed.0.unsigned_abs() / 1_000_000) << 80) | u128::from(profile))),
            node: Some(10_001 + profile % NODES),
            profile_type: Some(ProfileType::Cpu),
            end: Some(completed),
            ..Meta::default()
        };
        let mut builder = ProfileBuilder::new(ProfileType::Cpu.sample_types());
        let frame = builder.frame("main");
        builder.sample(&[frame], &[1, SUM], &[]);
        builder.time(Nanos(completed.0 - 10_000_000_000), Nanos(10_000_000_000));
        let encoded = encode_gzip(&builder.finish().unwrap().with_meta(&meta).unwrap()).unwrap();
        let values = (0..FUNCTIONS).map(|place| {
            let (number, own, total) = function(profile, place);
            FunctionValues { name: name(number), own, total }
        });
        let functions = FunctionTable {
            kind: "cpu".to_owned(),
            unit: "nanoseconds".to_owned(),
            total: SUM,
            functions: values.collect(),
        };
        let total = |kind: &str, unit: &str, value| Total { kind: kind.to_owned(), unit: unit.to_owned(), value };
        let summary = Summary {
            totals: vec![total("samples", "count", 1), total("cpu", "nanoseconds", SUM)],
            samples: 1,
            ..Summary::default()
        };
        let (start, duration) = (Nanos(completed.0 - 10_000_000_000), Nanos(10_000_000_000));
        let new = NewProfile {
            meta,
            encoded: Encoded::Received(&encoded),
            summary,
            functions: Some(functions),
            start,
            duration,
        };
        store.put(new).unwrap();
    }
    println!("{profiles} profiles of {FUNCTIONS} functions put in {:.1} s", began.elapsed().as_secs_f64());
}

/// Measures so many profiles.
pub(crate) fn measure(runtime: &tokio::runtime::Runtime, profiles: u64) {
    let data = tempfile::tempdir().unwrap();
    fill(data.path(), profiles);
    let server = server_in(runtime, data.path());
    let port = server.mysql().unwrap().port();
    let wanted = name(WANTED);
    let statements = [
        format!("SELECT COUNT(*) FROM functions WHERE function = '{wanted}' AND total_percent > 5"),
        format!(
            "SELECT profile_id, total_percent FROM functions WHERE function = '{wanted}' AND total_percent > 5 \
             ORDER BY profile_id"
        ),
        format!("SELECT COUNT(*) FROM functions WHERE function LIKE '%Operator{WANTED}::%' AND total_percent > 5"),
        "SELECT node, COUNT(*) FROM functions WHERE total_percent > 5 GROUP BY node ORDER BY node".to_owned(),
        "SELECT function, SUM(self) AS own FROM functions GROUP BY function ORDER BY own DESC, function LIMIT 20"
            .to_owned(),
    ];
    let theirs = duckdb(&in_duckdb(profiles, &data.path().join("functions.parquet")), &statements);
    let lasts = runtime.block_on(last_values(port, &statements));
    let mut client = Raw::connect(port);
    println!("functions of {profiles} profiles: ms, the least of all rounds");
    for (at, statement) in statements.iter().enumerate() {
        let (ours, rows) = least(&mut client, statement);
        let theirs = theirs.as_ref().map(|answers| &answers[at]);
        if let Some(DuckDbAnswer { rows: others, last, .. }) = theirs {
            assert_eq!(rows, *others, "{statement}");
            // Texts of doubles are each engine's own.
            assert!(lasts[at] == *last || lasts[at].parse::<f64>() == last.parse::<f64>(), "{statement}: {last}");
        }
        Measured { ours, mariadb: None, duckdb: theirs.map(|theirs| theirs.least) }.print(statement);
    }
    for statement in OWN {
        Measured { ours: least(&mut client, statement).0, mariadb: None, duckdb: None }.print(statement);
    }
    super::stop(runtime, server);
}

/// The last value of the first row of each statement.
async fn last_values(port: u16, statements: &[String]) -> Vec<String> {
    let mut client = client_of(port).await;
    let mut lasts = Vec::new();
    for statement in statements {
        let row: Option<mysql_async::Row> = client.query_first(statement).await.unwrap();
        let last = row.and_then(|row| row.unwrap().pop());
        lasts.push(last.map_or(String::new(), |value| match value {
            mysql_async::Value::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
            other => panic!("{other:?}"),
        }));
    }
    client.disconnect().await.unwrap();
    lasts
}
