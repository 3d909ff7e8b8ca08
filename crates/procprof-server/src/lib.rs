//! A server of profiles: its parts put together, started, reloaded and stopped.
//!
//! [`Server::start`] takes a merged [`Config`] and returns a [`ServerHandle`]. The server runs in the caller's tokio
//! runtime and owns a data folder. Its parts are in `procprof-core`; `procprof-web` serves them over HTTP,
//! `procprof-sql` over the MySQL protocol. What the command needs of them is exported here.
//!
//! The caller parses the command line, reads the configuration files, installs a log subscriber, waits for signals, and
//! gives a way to start its own binary again as the child that reads binaries ([`symbolize_child_main`]).
//!
//! ```no_run
//! use procprof_server::{ChildProgram, Config, Environment, Rhythm, Server, ServerOptions};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let handle = Server::start(ServerOptions {
//!     config: Config::defaults(),
//!     data: "data".into(),
//!     http: "127.0.0.1:0".parse()?,
//!     http_explicit: true,
//!     mysql: None,
//!     insecure: false,
//!     archiving: Rhythm::Hourly,
//!     buckets: Environment::of_process(),
//!     extra_nodes: Vec::new(),
//!     agent: procprof_agent::start(procprof_agent::Config::default())?,
//!     symbolize_child: ChildProgram { program: std::env::current_exe()?, arguments: vec!["symbolize-child".to_owned()] },
//!     jeprof_child: ChildProgram { program: std::env::current_exe()?, arguments: vec!["jeprof-child".to_owned()] },
//! })
//! .await?;
//! println!("http://{}", handle.addr());
//! handle.stop(std::time::Duration::from_secs(5)).await;
//! # Ok(())
//! # }
//! ```

mod parts;
mod server;

pub use procprof_core::archiving::{
    Environment, Exported, Rebuilt, Rhythm, Verified, archive_writer, compact, export, rebuild, verify,
};
pub use procprof_core::children::{ChildProgram, ChildTask, JeprofWords, child_indexes, frame_length};
pub use procprof_core::config::{ConfFile, Config, Kind, Planned, Role, config_reference};
pub use procprof_core::hosts::protocol;
pub use procprof_core::imports::{import_folder, wanted_files};
pub use procprof_core::ingest::symbolize_child_main;
pub use procprof_core::listening::bind_error;
pub use procprof_core::nodes::{ExtraNode, NodeIds, PidSource};
pub use procprof_core::{Error, Printable, Result, auth, config};
pub use procprof_sql::SqlLogin;
pub use procprof_web::{ReadSources, ReportServer, ReportServerHandle, openapi_document};
pub use server::{Server, ServerHandle, ServerOptions, SqlAddress};
