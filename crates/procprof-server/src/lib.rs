//! The server: nodes, schedule, ingest, retention, HTTP API and web pages, SQL.
//!
//! [`Server::start`] takes a merged [`Config`] and gives a [`ServerHandle`]. It runs in the caller's tokio runtime and owns a data folder. Everything
//! a profile goes through on its way in is one function, whoever sent it; everything HTTP answers is one row of a route table, from which the OpenAPI document
//! is made, too.
//!
//! The caller parses the command line, reads the configuration files, installs a log subscriber, waits for signals, and gives a way to start its own
//! binary again as the child that reads binaries ([`symbolize_child_main`]).
//!
//! This crate decodes no formats, draws no reports, looks up no symbols and samples nothing: it puts the crates that do together.
//!
//! ```no_run
//! use procprof_server::{ChildProgram, Config, Server, ServerOptions};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let handle = Server::start(ServerOptions {
//!     config: Config::defaults(),
//!     data: "data".into(),
//!     http: "127.0.0.1:0".parse()?,
//!     http_explicit: true,
//!     mysql: None,
//!     insecure: false,
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

mod app;
pub mod auth;
mod captures;
mod child;
pub mod config;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod http;
mod imports;
mod ingest;
mod metrics;
mod mysql;
mod nodes;
mod remote;
mod render;
mod retention;
mod server;
mod sources;
mod sql;
mod symbols;
mod usage;

pub use child::child_indexes;
pub use config::{ConfFile, Config, config_reference};
pub use error::{Error, Result};
pub use http::{ReadSources, Viewer, ViewerHandle, bind_error, openapi_document};
pub use imports::{import_folder, wanted_files};
pub use ingest::symbolize_child_main;
pub use nodes::{ExtraNode, Kind, NodeIds, PidSource, Planned, Role};
pub use server::{ChildProgram, Server, ServerHandle, ServerOptions, SqlAddress, SqlLogin};
pub use sql::JeprofTask;
