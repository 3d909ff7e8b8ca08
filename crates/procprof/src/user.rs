//! `procprof user add`, `list` and `remove`.

use std::io::{IsTerminal, Read};

use anyhow::{Context, Result, bail};
use procprof_server::auth::{Methods, UserRole, Users, add_token, add_user, remove_user};

use crate::cli::{UserAddArgs, UserListArgs, UserRemoveArgs};
use crate::output::print;

/// Longest password read from standard input, in bytes.
const PASSWORD_BYTES_MAX: u64 = 1024;

/// Adds or replaces a user; a running server reads the file again on SIGHUP.
pub(crate) fn add(arguments: &UserAddArgs) -> Result<()> {
    let role: UserRole = arguments.role.parse().map_err(anyhow::Error::msg)?;
    if role == UserRole::Push {
        return add_agent(arguments);
    }
    if arguments.token_file.is_some() {
        bail!("--token-file: only --role push has a token");
    }
    let methods = if arguments.mysql_native { Methods::WithMysqlNative } else { Methods::Modern };
    add_user(&arguments.file, &arguments.name, role, &password()?, methods)?;
    println!("{role} {} is in {}; a running server reads it on SIGHUP", arguments.name, arguments.file.display());
    Ok(())
}

/// Makes the token of a host agent: the only time that it can be read.
fn add_agent(arguments: &UserAddArgs) -> Result<()> {
    let UserAddArgs { file, name, token_file, mysql_native, .. } = arguments;
    if *mysql_native {
        bail!("--mysql-native: the role push may not log in to SQL");
    }
    if let Some(path) = token_file.as_ref().filter(|path| path.exists()) {
        bail!("--token-file: {} exists", path.display());
    }
    let token = add_token(file, name)?;
    if let Some(path) = token_file {
        procprof_files::create(path, format!("{token}\n").as_bytes(), 0o600)
            .with_context(|| format!("write the token to {}; it was not kept, so add {name} again", path.display()))?;
        println!(
            "push {name} is in {}, its token in {}; a running server reads it on SIGHUP",
            file.display(),
            path.display()
        );
        return Ok(());
    }
    eprintln!(
        "push {name} is in {}; a running server reads it on SIGHUP. Its token, which is shown only now:",
        file.display()
    );
    println!("{token}");
    Ok(())
}

/// Prints a line for each user: name, role, and how they may log in beside the usual.
pub(crate) fn list(arguments: &UserListArgs) -> Result<()> {
    let users = Users::read(&arguments.file)?;
    let lines = users.iter().map(|user| {
        let native = if user.native.is_some() { "\tmysql_native_password" } else { "" };
        format!("{}\t{}{native}\n", user.name, user.role)
    });
    print(lines.collect::<String>())
}

/// Removes a user; a running server reads the file again on SIGHUP.
pub(crate) fn remove(arguments: &UserRemoveArgs) -> Result<()> {
    remove_user(&arguments.file, &arguments.name)?;
    println!("{} is no longer in {}; a running server reads it on SIGHUP", arguments.name, arguments.file.display());
    Ok(())
}

fn password() -> Result<String> {
    if std::io::stdin().is_terminal() {
        let password = rpassword::prompt_password("Password: ").context("read the password")?;
        if rpassword::prompt_password("Again: ").context("read the password")? != password {
            bail!("the two passwords differ");
        }
        return Ok(password);
    }
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .take(PASSWORD_BYTES_MAX)
        .read_to_string(&mut text)
        .context("read the password from standard input")?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
