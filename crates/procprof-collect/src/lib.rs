//! Gets profiles from processes over HTTP and HTTPS: pprof endpoints, brpc, StarRocks, Databend, Go.
//!
//! The caller describes each process once as a [`Target`] (kind, addresses, TLS, credentials, limits) and asks [`collect`] for one
//! profile at a time. An answer is kept only if it decodes as a profile: a refused connection, an error sentence with HTTP 200, an HTML
//! page, a truncated body or a process that restarted meanwhile is a [`CollectError`] with a stable code and a sentence for people.
//!
//! The caller must run inside a tokio runtime, decide when to collect (the defaults are in [`Kind::routes`]), keep two captures of one
//! process apart ([`Flights`]) and wait between failures ([`Backoff`]). Addresses come from a `Target`, or from a person's command line
//! ([`fetch()`]); nothing here dials an address that arrived in a query. This crate stores nothing and resolves no symbols from files.
//!
//! ```no_run
//! use procprof_collect::{BaseUrl, Client, Kind, Request, Target, Watch, collect};
//! use procprof_profile::ProfileType;
//!
//! # async fn example() -> Result<(), procprof_collect::CollectError> {
//! let target = Target::new(Kind::Go, "127.0.0.1:6060".parse::<BaseUrl>()?);
//! let client = Client::new();
//! let request = Request::new(ProfileType::Cpu).seconds(5);
//! let collected = collect(&client, &target, &request, &Watch::default()).await?;
//! println!("{} samples from {}", collected.decoded.profile.sample_count(), collected.url);
//! # Ok(())
//! # }
//! ```

mod address;
mod backoff;
mod body;
mod client;
mod collect;
mod error;
mod fetch;
mod flights;
mod instance;
mod kind;
mod request;
mod route;
mod sniff;
mod symbols;
mod target;

pub use address::{BaseUrl, ProfileUrl};
pub use backoff::{Backoff, Transition};
pub use client::Client;
pub use collect::{Collected, collect};
pub use error::{CollectError, Result};
pub use fetch::{Fetched, fetch, fetch_text, post_text, resolve};
pub use flights::{Abandoned, Entry, Flight, Flights, Follower, Leader};
pub use instance::Instance;
pub use kind::{Kind, ParseKindError};
pub use request::{MAX_SECONDS, Progress, Request, Watch};
pub use route::{Place, Route, Schedule, Service, Window};
pub use symbols::{SymbolLimits, Symbols, fetch_symbols, fetch_symbols_at};
pub use target::{Auth, ClientCertificate, Header, Secret, Target, Timeouts, Tls};
