//! The `procprof` command: what was typed, to the part that does it.

mod allocator;
mod archive;
mod cli;
mod collect;
mod config;
mod debuginfod;
mod demo;
mod fetch;
mod help;
mod jeprof;
mod jvm_names;
#[cfg(test)]
#[path = "../../procprof-files/tests/versions/law.rs"]
mod law;
mod log;
mod node;
mod output;
mod progress;
mod record;
#[cfg(test)]
mod reference;
mod remote;
mod report;
mod serve;
mod shell;
mod store;
mod symbols;
mod user;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;

use crate::cli::{Cli, Command, ConfigCommand, StoreCommand, UserCommand};

/// How long a command waits at its end for JVMs to stop recordings.
const DISCARD_PATIENCE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    allocator::large_pages(false);
    // Its grammar is not that of the other commands, and a link by its name is a drop-in.
    if let Some(words) = jeprof::arguments(std::env::args_os()) {
        return jeprof::run(words, report::cache());
    }
    let cli = Cli::try_parse_from(report::as_declared(std::env::args_os()))
        .unwrap_or_else(|error| report::suggesting(error).exit());
    let ended = run(cli.command);
    // Nothing is left in JVMs that were recorded.
    for pid in procprof_collect::jvm::wait_for_discards(DISCARD_PATIENCE) {
        eprintln!("procprof: JVM {pid} did not stop its recording, which ends by itself");
    }
    match ended {
        Ok(code) => code,
        Err(error) => {
            eprintln!("procprof: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Archive(command) => return archive::run(&command),
        Command::Serve(arguments) => serve::run(&arguments)?,
        Command::Collect(arguments) => return collect::run(arguments),
        Command::Record(arguments) => record::run(&arguments)?,
        Command::Node(arguments) => node::run(arguments)?,
        Command::Report(arguments) => report::run(&arguments)?,
        Command::Store(StoreCommand::Import(arguments)) => return store::import(&arguments),
        Command::User(UserCommand::Add(arguments)) => user::add(&arguments)?,
        Command::User(UserCommand::List(arguments)) => user::list(&arguments)?,
        Command::User(UserCommand::Remove(arguments)) => user::remove(&arguments)?,
        Command::Config(ConfigCommand::Check(arguments)) => config::check(&arguments)?,
        Command::Completions { shell } => help::completions(shell)?,
        Command::Man { output } => help::man(output.as_deref())?,
        Command::Symbols(command) => return symbols::run(command),
        Command::Pause(arguments) => remote::post(&arguments, "/api/pause")?,
        Command::Resume(arguments) => remote::post(&arguments, "/api/resume")?,
        Command::DemoNode(arguments) => demo::run(&arguments)?,
        Command::DecodeChild(arguments) => return node::decode_child(&arguments),
        Command::JeprofChild { task } => return jeprof::child::run(&task),
        Command::SymbolIndexChild(arguments) => return node::index_child(&arguments.path, arguments.memory_bytes),
        Command::SymbolizeChild { task } => {
            allocator::large_pages(true);
            return Ok(exit_code(procprof_server::symbolize_child_main(&task)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn exit_code(code: i32) -> ExitCode {
    u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
}
