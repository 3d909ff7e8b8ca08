//! Collects profiles from processes: over HTTP and HTTPS from pprof endpoints (brpc, StarRocks, Databend, Go), and from
//! JVMs of this host ([`jvm`]).
//!
//! The caller describes each process once as a [`Target`] (endpoints, addresses, TLS, credentials, limits) and requests
//! one profile at a time with [`collect`]. An answer is kept only if it decodes as a profile: a refused connection, an
//! error sentence with HTTP 200, an HTML page, a truncated body or a process that restarted meanwhile is a
//! [`CollectError`] with a stable code and a readable sentence.
//!
//! A [`Source`] records one or several profile types of a process and returns one or several recordings. This crate has
//! three: [`HttpSource`], [`jvm::JvmSource`] and the profiles that StarRocks frontends take themselves ([`frontend`]).
//!
//! The caller must run inside a tokio runtime, decide when to collect (the defaults are in [`Endpoints::routes`]), keep
//! two captures of one process apart ([`Flights`]) and wait between failures ([`Backoff`]). Addresses come from a
//! `Target`, or from a person's command line ([`fetch()`]); nothing here dials an address that arrived in a query. This
//! crate stores nothing and resolves no symbols from files.
//!
//! ```no_run
//! use procprof_collect::{BaseUrl, HttpClient, Request, Target, Watch, collect, endpoints};
//! use procprof_profile::ProfileType;
//!
//! # async fn example() -> Result<(), procprof_collect::CollectError> {
//! let target = Target::new(&endpoints::GO, "127.0.0.1:6060".parse::<BaseUrl>()?);
//! let client = HttpClient::new();
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
mod clock;
mod collect;
pub mod endpoints;
mod error;
mod fetch;
mod flights;
pub mod frontend;
mod http_source;
mod instance;
pub mod jvm;
mod request;
mod route;
mod sniff;
mod source;
mod symbols;
mod target;
mod trust;

pub use address::{BaseUrl, ProfileUrl};
pub use backoff::{Backoff, Transition};
pub use client::HttpClient;
pub use collect::{Collected, Received, collect, receive};
pub use endpoints::Endpoints;
pub use error::{CollectError, Result};
pub use fetch::{Fetched, fetch, fetch_text, post_bytes, post_text, resolve};
pub use flights::{Abandoned, Flight, FlightRole, Flights, Follower, Leader};
pub use http_source::HttpSource;
pub use instance::Instance;
pub use request::{Admit, MAX_SECONDS, Progress, Request, Watch};
pub use route::{HttpEndpoint, HttpService, Offer, Route, Schedule, Window};
pub use sniff::{Unfit, decode_answer, decode_answers};
pub use source::{ContinuousRecording, Pending, Recording, RecordingData, Recordings, Source, SourceState};
pub use symbols::{SymbolLimits, Symbols, fetch_symbols, fetch_symbols_at};
pub use target::{Auth, ClientCertificate, Header, Secret, Target, Timeouts, Tls};
pub use trust::trust_only;
