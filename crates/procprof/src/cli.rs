//! What can be typed: every subcommand and option, with its help.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};

use crate::remote::RemoteArgs;

/// Collects, stores and shows CPU, memory and lock contention profiles of running processes.
#[derive(Debug, Parser)]
#[command(name = "procprof", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "`procprof jeprof`, and a link named jeprof, read heap dumps as jeprof does; see `procprof jeprof \
        --help`"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Profile nodes on schedule, store the profiles, show them in the browser
    Serve(ServeArgs),
    /// Collect profiles of one process into a folder, once or as a daemon (a drop-in for collect_be_profile.sh)
    Collect(crate::collect::Args),
    /// Profile processes of this host from outside: by pid, a command, or all of them
    Record(crate::record::RecordArgs),
    /// Profile the services of this host all the time, and send the profiles to a server
    Node(crate::node::NodeArgs),
    /// Show a profile file: flame graph, table, collapsed stacks; or convert it to pprof
    Report(Box<crate::report::ReportArgs>),
    /// Manage the folder of profiles
    #[command(subcommand)]
    Store(StoreCommand),
    /// Write profiles as Parquet files that other engines read; check and sum what is there
    #[command(subcommand)]
    Archive(crate::archive::ArchiveCommand),
    /// Manage the users file
    #[command(subcommand)]
    User(UserCommand),
    /// Check the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Upload symbols to a server, so that profiles of stripped binaries have names; list and remove them
    #[command(subcommand)]
    Symbols(crate::symbols::SymbolsCommand),
    /// Stop all scheduled captures of a server within a second
    Pause(RemoteArgs),
    /// Resume the scheduled captures of a server
    Resume(RemoteArgs),
    /// Print a completion script for a shell:
    /// `procprof completions bash > /usr/share/bash-completion/completions/procprof`
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page of procprof, or write those of all commands: `procprof man | man -l -`
    Man {
        /// Write a page for each command to this folder instead
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        output: Option<PathBuf>,
    },
    /// A busy process to look at; started by `serve --demo`
    #[command(hide = true)]
    DemoNode(DemoNodeArgs),
    /// Decodes a profile that another program has written; started by `node` with a memory limit
    #[command(hide = true)]
    DecodeChild(crate::node::DecodeChildArgs),
    /// Draws heap dumps from standard input in jeprof's grammar; started by the server with a memory limit
    #[command(hide = true)]
    JeprofChild {
        /// What to do, as the server writes it
        task: String,
    },
    /// Makes the symbol index of a file; started by `node` with a memory limit
    #[command(hide = true)]
    SymbolIndexChild(crate::node::IndexChildArgs),
    /// Symbolizes one profile from standard input; started by the server with a memory limit
    #[command(hide = true)]
    SymbolizeChild {
        /// What to do, as the server writes it
        task: String,
    },
}

/// Options of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Configuration file (TOML); without one the server profiles itself
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) more: MoreConfig,
    /// Start two busy demo processes and profile them at short intervals
    #[arg(long)]
    pub(crate) demo: bool,
    /// With --demo: processes that rest, profiled only when asked, for tests of all else
    #[arg(long, hide = true, requires = "demo")]
    pub(crate) idle: bool,
    /// Address of the web pages and the API [default: 127.0.0.1:8030; with --demo the next free port]
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<SocketAddr>,
    /// Address for SQL clients (MySQL protocol) [default: 127.0.0.1:9030; with --demo or --http the next free port]
    #[arg(long, value_name = "ADDR")]
    pub(crate) mysql: Option<SocketAddr>,
    /// Accept every SQL client as operator, without a password; on loopback only
    #[arg(long)]
    pub(crate) mysql_no_auth: bool,
    /// Folder of the profiles [default: the configuration's, procprof-data; with --demo alone procprof-demo-data]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data: Option<PathBuf>,
    /// Allow an address that others can reach without users and TLS
    #[arg(long)]
    pub(crate) insecure: bool,
}

/// Sources of configuration keys besides its file.
#[derive(Debug, Default, Args)]
pub(crate) struct MoreConfig {
    /// Read the keys that apply from a StarRocks fe.conf
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) fe_conf: Option<PathBuf>,
    /// Read the keys that apply from a StarRocks be.conf
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) be_conf: Option<PathBuf>,
    /// Set one key of the configuration, for example proc_profile_file_retained_days=7; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Read a configuration as `serve` does, with the files it names, and report errors; nothing is started
    Check(ConfigCheckArgs),
}

/// Options of `config check`.
#[derive(Debug, Args)]
pub(crate) struct ConfigCheckArgs {
    #[command(flatten)]
    pub(crate) more: MoreConfig,
    /// Accept an address that others can reach without users and TLS
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Configuration file (TOML)
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Import the files of a StarRocks proc_profile folder; files that were imported before are skipped. Exits with
    /// status 1 when a file is rejected
    Import(ImportArgs),
}

/// Options of `store import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Time zone of the file names, for example Asia/Shanghai [default: this machine's]
    #[arg(long, value_name = "ZONE")]
    pub(crate) tz: Option<String>,
    /// Folder of the profiles [default: procprof-data]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data: Option<PathBuf>,
    /// Name of the node the files belong to; created if it does not exist
    #[arg(long, value_name = "NAME", default_value = "imported")]
    pub(crate) node: String,
    /// The proc_profile folder
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Add or replace a user; the password is read from standard input, and a token is made for the role push
    Add(UserAddArgs),
    /// List the users with their roles
    List(UserListArgs),
    /// Remove a user
    Remove(UserRemoveArgs),
}

/// Options of `user list`.
#[derive(Debug, Args)]
pub(crate) struct UserListArgs {
    /// The users file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}

/// Options of `user remove`.
#[derive(Debug, Args)]
pub(crate) struct UserRemoveArgs {
    /// The users file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// The user's name
    pub(crate) name: String,
}

/// Options of `user add`.
#[derive(Debug, Args)]
pub(crate) struct UserAddArgs {
    /// The users file; created with mode 600 if it does not exist
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Role of the user
    #[arg(long, value_parser = ["push", "viewer", "operator"], default_value = "viewer")]
    pub(crate) role: String,
    /// Write the token of the role push to this new file, of mode 600, instead of printing it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    /// Also store a hash for MySQL clients that support mysql_native_password only; it is faster to crack
    #[arg(long)]
    pub(crate) mysql_native: bool,
    /// The user's name
    pub(crate) name: String,
}

/// Options of the hidden demo process.
#[derive(Debug, Args)]
pub(crate) struct DemoNodeArgs {
    /// Role it plays, for its name only
    #[arg(long)]
    pub(crate) role: String,
    /// Allocate, but do nothing more
    #[arg(long)]
    pub(crate) idle: bool,
}
