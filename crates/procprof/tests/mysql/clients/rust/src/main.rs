//! Rust's sqlx, alone and from a pool, and mysql_async: each begins a session as it does by itself, reads, and prints
//! `ok SESSION`, a tab and its version, or why not.

use std::env::var;

use mysql_async::prelude::Queryable;
use mysql_async::{OptsBuilder, TxOpts};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPoolOptions};
use sqlx::{Connection, Executor, Row};

const QUERY: &str = "SELECT id, role FROM nodes WHERE id = ? AND name <> ?";

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn options() -> Result<MySqlConnectOptions, Box<dyn std::error::Error>> {
    let options = MySqlConnectOptions::new().host(&var("SQL_HOST")?).port(var("SQL_PORT")?.parse()?);
    Ok(options.username(&var("SQL_USER")?).password(&var("SQL_PASSWORD")?).database("procprof"))
}

async fn connection() -> Outcome {
    let mut connection = MySqlConnection::connect_with(&options()?).await?;
    for _ in 0..2 {
        let row = sqlx::query(QUERY).bind(10001).bind("it's\\").fetch_one(&mut connection).await?;
        assert_eq!((row.try_get::<i64, _>(0)?, row.try_get::<String, _>("role")?), (10001, "BE".to_owned()));
    }
    let long: String = sqlx::query_scalar("SELECT REPEAT('größe', 100000) AS t").fetch_one(&mut connection).await?;
    assert_eq!(long.chars().count(), 500_000);
    let described = connection.describe(QUERY).await?;
    assert_eq!(described.columns.len(), 2);
    // As text, without a prepared statement.
    assert_eq!(connection.fetch_all("SELECT 1 AS one, NULL AS none").await?.len(), 1);
    let refused = sqlx::query("SELECT absent FROM profiles").fetch_all(&mut connection).await.unwrap_err();
    assert_eq!(refused.as_database_error().and_then(|error| error.code()).as_deref(), Some("42S22"), "{refused}");
    let mut transaction = connection.begin().await?;
    assert_eq!(sqlx::query("SELECT id FROM profiles LIMIT 0").fetch_all(&mut *transaction).await?.len(), 0);
    transaction.rollback().await?;
    connection.begin().await?.commit().await?;
    connection.ping().await?;
    connection.close().await?;
    Ok(())
}

async fn pool() -> Outcome {
    let pool = MySqlPoolOptions::new().max_connections(3).connect_with(options()?).await?;
    for _ in 0..9 {
        let database: String = sqlx::query_scalar("SELECT DATABASE()").fetch_one(&pool).await?;
        assert_eq!(database, "procprof");
    }
    let tables = sqlx::query("SHOW TABLES").fetch_all(&pool).await?;
    assert!(tables.iter().any(|row| row.get::<String, _>(0) == "profiles"));
    pool.close().await;
    Ok(())
}

async fn mysql_async() -> Outcome {
    for compression in [None, Some(mysql_async::Compression::fast())] {
        let options = OptsBuilder::default().ip_or_hostname(var("SQL_HOST")?).tcp_port(var("SQL_PORT")?.parse()?);
        let options = options.user(Some(var("SQL_USER")?)).pass(Some(var("SQL_PASSWORD")?)).db_name(Some("procprof"));
        let pool = mysql_async::Pool::new(options.compression(compression));
        for _ in 0..2 {
            let mut connection = pool.get_conn().await?;
            let rows: Vec<(i64, String)> = connection.exec(QUERY, (10001, "it's\\")).await?;
            assert_eq!(rows, [(10001, "BE".to_owned())]);
            let long: Option<String> = connection.query_first("SELECT REPEAT('größe', 100000)").await?;
            assert_eq!(long.map(|long| long.chars().count()), Some(500_000));
            let refused = connection.query_drop("SELECT absent FROM profiles").await.unwrap_err();
            assert!(matches!(&refused, mysql_async::Error::Server(error) if error.code == 1054), "{refused}");
            let mut transaction = connection.start_transaction(TxOpts::default().with_readonly(true).clone()).await?;
            let database: Option<String> = transaction.query_first("SELECT DATABASE()").await?;
            assert_eq!(database.as_deref(), Some("procprof"));
            transaction.rollback().await?;
            connection.ping().await?;
        }
        pool.disconnect().await?;
    }
    Ok(())
}

/// The version of a package that this program is linked with.
fn version(package: &str) -> &'static str {
    let (_, entry) = include_str!("../Cargo.lock").split_once(&format!("name = \"{package}\"\n")).expect("a package");
    entry.split('"').nth(1).expect("a version")
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let sessions = [
        ("sqlx", "sqlx", runtime.block_on(connection())),
        ("sqlx pool", "sqlx", runtime.block_on(pool())),
        ("mysql_async", "mysql_async", runtime.block_on(mysql_async())),
    ];
    for (name, package, outcome) in sessions {
        match outcome {
            Ok(()) => println!("ok {name}\t{package} {}", version(package)),
            Err(error) => println!("failed {name} {error}"),
        }
    }
}
