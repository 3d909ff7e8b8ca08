//! What can be typed: every subcommand and option, with its help.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};

/// Where do CPU, memory and waiting go? Collect, keep, list and show profiles of running processes.
#[derive(Debug, Parser)]
#[command(name = "procprof", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "`procprof jeprof`, and a link named jeprof, read heap dumps as jeprof does; see `procprof jeprof --help`")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Profile nodes on schedule, keep the profiles, show them in the browser
    Serve(ServeArgs),
    /// Collect profiles of one process into a folder, once or as a daemon (a drop-in for collect_be_profile.sh)
    Collect(crate::collect::Args),
    /// Show a profile file: flame graph, table, collapsed stacks; or convert it to pprof
    Report(Box<crate::report::ReportArgs>),
    /// Look after the folder of profiles
    #[command(subcommand)]
    Store(StoreCommand),
    /// Look after the users file
    #[command(subcommand)]
    User(UserCommand),
    /// Send symbols to a server, so that profiles of stripped files show names; list and remove them
    #[command(subcommand)]
    Symbols(crate::symbols::SymbolsCommand),
    /// Stop all scheduled captures of a server within a second
    Pause(RemoteArgs),
    /// Let a server capture on schedule again
    Resume(RemoteArgs),
    /// A busy process to look at; started by `serve --demo`
    #[command(hide = true)]
    DemoNode(DemoNodeArgs),
    /// Draws heap dumps from standard input in jeprof's grammar; started by the server with a memory limit
    #[command(hide = true)]
    JeprofChild {
        /// What to do, as the server writes it
        task: String,
    },
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
    /// Take what applies from a StarRocks fe.conf
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) fe_conf: Option<PathBuf>,
    /// Take what applies from a StarRocks be.conf
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) be_conf: Option<PathBuf>,
    /// Start two busy demo processes and profile them at short intervals
    #[arg(long)]
    pub(crate) demo: bool,
    /// Address of the web pages and the API [default: 127.0.0.1:8030; with --demo the next free port]
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<SocketAddr>,
    /// Address for SQL clients (MySQL protocol) [default: 127.0.0.1:9030; with --demo or --http the next free port]
    #[arg(long, value_name = "ADDR")]
    pub(crate) mysql: Option<SocketAddr>,
    /// Let every SQL client in as operator, without a password; on loopback only
    #[arg(long)]
    pub(crate) mysql_no_auth: bool,
    /// Folder of the profiles [default: the configuration's, procprof-data; with --demo alone procprof-demo-data]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data: Option<PathBuf>,
    /// Allow an address that others can reach without users and TLS
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Set one key of the configuration, for example proc_profile_file_retained_days=7; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Take over the files of a StarRocks proc_profile folder; a second time adds nothing
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
    /// Name of the node the files belong to; made when there is none of that name
    #[arg(long, value_name = "NAME", default_value = "imported")]
    pub(crate) node: String,
    /// The proc_profile folder
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Add or replace a user; the password is read from standard input
    Add(UserAddArgs),
}

/// Options of `user add`.
#[derive(Debug, Args)]
pub(crate) struct UserAddArgs {
    /// The users file; made with mode 600 when it is not there
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// What the user may do
    #[arg(long, value_parser = ["viewer", "operator"], default_value = "viewer")]
    pub(crate) role: String,
    /// Also keep what MySQL clients need that know mysql_native_password only; it is quicker to guess at than the rest
    #[arg(long)]
    pub(crate) mysql_native: bool,
    /// The user's name
    pub(crate) name: String,
}

/// How to reach a running server.
#[derive(Debug, Args)]
pub(crate) struct RemoteArgs {
    /// Address of the server
    #[arg(long, value_name = "URL", env = "PROCPROF_SERVER", default_value = "http://127.0.0.1:8030")]
    pub(crate) server: String,
    /// Certificates (PEM) to trust instead of the system's: the authority of a server of your own
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) ca_file: Option<PathBuf>,
    /// User to log in as
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub(crate) user: Option<String>,
    /// File with the user's password
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) password_file: Option<PathBuf>,
}

/// Options of the hidden demo process.
#[derive(Debug, Args)]
pub(crate) struct DemoNodeArgs {
    /// Role it plays, for its name only
    #[arg(long)]
    pub(crate) role: String,
}
