//! Rust's sqlx: begins a session as it does by itself, alone and from a pool, reads, and prints `ok NAME`, or why not.

use std::env::var;

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

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for (name, outcome) in [("sqlx", runtime.block_on(connection())), ("sqlx pool", runtime.block_on(pool()))] {
        match outcome {
            Ok(()) => println!("ok {name}"),
            Err(error) => println!("failed {name} {error}"),
        }
    }
}
