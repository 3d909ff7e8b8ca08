//! Flags of `go tool pprof` that change the profile before any report: where names come from, its build id, its
//! comments; and those of pprof and jeprof that are not done here, with what to use instead.

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches};
use procprof_profile::Profile;
use procprof_symbolize::{NameStyle, style_names};

use super::spelling;

/// The flags that exist for compatibility with pprof.
#[derive(Debug, Default)]
pub(super) struct Compatible {
    build_id: Option<String>,
    comments: Vec<String>,
    symbolize: Symbolize,
    style: NameStyle,
}

/// The permitted sources of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Symbolize {
    /// From all sources.
    #[default]
    All,
    /// From the profile alone.
    Nowhere,
}

/// Values of `symbolize`. Names that exist are kept; all sources of names are queried at once, so the modes between
/// mean the same; only `local` leaves the process out. `demangle=full` is the default.
const SYMBOLIZE: [&str; 9] =
    ["none", "no", "local", "fastlocal", "remote", "force", "demangle=full", "demangle=templates", "demangle=none"];

impl Compatible {
    /// The flags.
    pub(super) fn args() -> Vec<Arg> {
        let arg = |name: &'static str, value, help| {
            Arg::new(name).long(name).value_name(value).help(help).help_heading("As in pprof")
        };
        let mut args = vec![
            arg("buildid", "ID", "Build id of the main binary, for a profile without it"),
            arg("add_comment", "TEXT", "Add a comment to the profile; may be given several times")
                .action(ArgAction::Append),
            arg(
                "symbolize",
                "MODE",
                "none: leave addresses without names; local: do not query the process for names; demangle=none: names \
                as the linker has them; demangle=templates: names without parameters; the other modes of pprof are \
                accepted and have no effect",
            )
            .value_parser(SYMBOLIZE),
            arg("tools", "PATH", "Accepted and ignored: no other program is run").hide(true),
        ];
        let other = |name: &'static str| {
            Arg::new(name).long(name).hide(true).num_args(0..=1).require_equals(true).default_missing_value("")
        };
        args.extend(spelling::elsewhere().map(other));
        args
    }

    /// The flags as typed.
    pub(super) fn from_matches(matches: &ArgMatches) -> Self {
        let text = |id: &str| matches.get_one::<String>(id).cloned();
        let mode = text("symbolize").unwrap_or_default();
        let symbolize = mode == "none" || mode == "no";
        let style = match mode.as_str() {
            "demangle=none" => NameStyle::Mangled,
            "demangle=templates" => NameStyle::WithoutParameters,
            _ => NameStyle::Full,
        };
        Self {
            build_id: text("buildid"),
            comments: matches.get_many("add_comment").into_iter().flatten().cloned().collect(),
            symbolize: if symbolize { Symbolize::Nowhere } else { Symbolize::All },
            style,
        }
    }

    /// The named profile, its mangled names in the style of `symbolize`.
    pub(super) fn styled(&self, profile: Profile) -> Result<Profile> {
        match self.style {
            NameStyle::Full => Ok(profile),
            style => style_names(profile, style).context("write names in another style"),
        }
    }

    /// Whether addresses are to be named.
    pub(super) fn names(&self) -> bool {
        self.symbolize == Symbolize::All
    }

    /// The profile with the build id and the comments.
    pub(super) fn applied(&self, profile: Profile) -> Result<Profile> {
        if self.build_id.is_none() && self.comments.is_empty() {
            return Ok(profile);
        }
        let mut parts = profile.into_parts();
        if let Some(build_id) = &self.build_id {
            let id = parts.intern(build_id).context("set the build id")?;
            let Some(main) = parts.mappings.first_mut() else {
                bail!("--buildid={build_id}: the profile names no binary")
            };
            // As in pprof: the profile's own build id is right.
            match parts.strings.get(main.build_id).filter(|own| !own.is_empty()) {
                Some(own) => eprintln!("procprof: --buildid={build_id} is not needed: the profile says {own}"),
                None => main.build_id = id,
            }
        }
        for comment in &self.comments {
            let id = parts.intern(comment).context("add a comment")?;
            parts.comments.push(id);
        }
        parts.finish().context("change the profile")
    }
}

/// Rejects an unsupported flag with the alternative.
pub(super) fn refuse_elsewhere(matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some(name) = spelling::elsewhere().find(|name| matches.contains_id(name)) else { return Ok(()) };
    let instead = spelling::instead(name).unwrap_or_default();
    Err(clap::Error::raw(clap::error::ErrorKind::InvalidValue, format!("--{name} is not done here; {instead}\n")))
}
