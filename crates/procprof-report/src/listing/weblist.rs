//! `weblist`: source lines of functions with their flat and cum, and below each its machine code, as one self-contained
//! page.
//!
//! Lines unfold without a script. An instruction of an inlined function is shown below the line of the call, with its
//! own place beside it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use procprof_profile::{Addr, LocationId, MappingId, Profile};

use crate::display::markup::{MarkupWriter, markup};
use crate::display::measure::percentage;
use crate::display::place::base_name;
use crate::header::headline::left_out;
use crate::header::subject::{Drawing, Subject};
use crate::listing::code::{CodePlace, Syntax};
use crate::listing::disasm::{Row, Sampled, rows, sampled, without_inlined};
use crate::listing::list::{self, Listing};
use crate::listing::sources::CodeWanted;
use crate::output::Output;
use crate::selection::view::View;
use crate::{Granularity, Options, Result, Sources};

const STYLE: &str = include_str!("weblist/weblist.css");
/// Width that instructions are padded to before their place.
const INSTRUCTION_WIDTH: usize = 44;

pub(crate) fn render(view: &View<'_>, options: &Options, sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    let subject = Subject::new(view, options)?;
    let lines = subject.graph(list::DRAWING)?;
    let by_address = without_inlined(options);
    let machine = Subject::new(view, &by_address)?;
    let drawing = Drawing { granularity: Granularity::Addresses, ..list::DRAWING };
    let addresses = machine.graph(drawing)?;
    let routines = sampled(sources, &addresses.graph, &machine, drawing)?;
    let page = Page { subject: &subject, sources, instructions: instructions(&routines, options) };
    page.push_head(&mut MarkupWriter::new(&mut out.text));
    for ((name, file), listing) in list::listings(&subject, &list::routines(&lines.graph, options)?)? {
        page.push_function(out, name, file, &listing)?;
    }
    MarkupWriter::new(&mut out.text).constant("</main>\n</body>\n</html>\n");
    Ok(())
}

/// The addresses of functions that match.
pub(crate) fn wanted(profile: &Profile, options: &Options) -> Result<Vec<CodeWanted>> {
    let view = View::new(Cow::Borrowed(profile), options)?;
    let subject = Subject::new(&view, options)?;
    let profile = subject.profile();
    let mut addresses: BTreeMap<MappingId, Vec<Addr>> = BTreeMap::new();
    for (index, location) in profile.locations().iter().enumerate() {
        let names = profile
            .lines(LocationId(index as u32))
            .iter()
            .map(|line| profile.string(profile.function(line.function).name));
        let matches = |name: &str| options.symbol.as_ref().is_none_or(|symbol| symbol.is_match(name));
        if let Some(mapping) = location.mapping.filter(|_| names.into_iter().any(matches)) {
            addresses.entry(mapping).or_default().push(location.address);
        }
    }
    Ok(addresses.into_iter().map(|(mapping, addresses)| CodeWanted { mapping, addresses, names: None }).collect())
}

/// An instruction as text, with its values.
struct Line {
    text: String,
    address: u64,
    flat: i64,
    cum: i64,
    /// Its place, if that is not the line above it.
    inlined: Option<CodePlace>,
}

/// Instructions by function, base name of the file and line.
type Instructions = BTreeMap<(String, String), BTreeMap<i64, Vec<Line>>>;

fn instructions(routines: &[Sampled<'_>], options: &Options) -> Instructions {
    let syntax = if options.intel_syntax { Syntax::Intel } else { Syntax::Att };
    let mut all = Instructions::new();
    for sampled in routines {
        let decoded = sampled.routine.instructions(sampled.code, syntax);
        for (index, row) in rows(sampled, &decoded).iter().enumerate() {
            let frames = sampled.routine.places.get(index).map_or(&[][..], Vec::as_slice);
            for (depth, frame) in frames.iter().enumerate() {
                // An inlined recursive call is shown once, at the outermost line.
                let is_outermost = !frames[depth + 1..].iter().any(|outer| outer.function == frame.function);
                if is_outermost {
                    let key = (frame.function.clone(), base_name(&frame.file).to_owned());
                    all.entry(key).or_default().entry(frame.line).or_default().push(line(row, frames, depth));
                }
            }
        }
    }
    all
}

fn line(row: &Row<'_>, frames: &[CodePlace], depth: usize) -> Line {
    let inlined = frames.first().filter(|_| depth > 0).cloned();
    Line {
        text: row.instruction.text.clone(),
        address: row.instruction.address.0,
        flat: row.flat,
        cum: row.cum,
        inlined,
    }
}

struct Page<'a> {
    subject: &'a Subject<'a>,
    sources: &'a Sources,
    instructions: Instructions,
}

impl Page<'_> {
    fn push_head(&self, out: &mut MarkupWriter<'_>) {
        let subject = self.subject;
        let file =
            subject.whole.mappings().first().map_or("", |mapping| base_name(subject.whole.string(mapping.filename)));
        let title = if file.is_empty() { "sources" } else { file };
        markup!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <title>{}</title>\n<style>\n",
            title
        );
        out.constant(STYLE);
        markup!(
            out,
            "</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n<p>{}, total {}. A line with + unfolds to its machine code.</p>\n",
            title,
            subject.kind,
            self.amount(subject.total)
        );
        if let Some(left_out) = left_out(subject) {
            markup!(out, "<p>{}</p>\n", left_out);
        }
        for (path, why) in &self.sources.missing {
            markup!(out, "<p>{}: {}</p>\n", path, why);
        }
        if self.instructions.is_empty() && self.sources.missing.is_empty() {
            out.constant("<p>No machine code of these functions was found.</p>\n");
        }
    }

    fn amount(&self, value: i64) -> String {
        self.subject.amount(value, &self.subject.options.unit)
    }

    fn or_dot(&self, value: i64) -> String {
        if value == 0 { ".".to_owned() } else { self.amount(value) }
    }

    fn push_function(&self, out: &mut Output<'_>, name: &str, file: &str, listing: &Listing) -> Result<()> {
        let share = percentage(listing.cum, self.subject.total);
        let mut page = MarkupWriter::new(&mut out.text);
        markup!(
            page,
            "<h2>{}</h2>\n<p>{}<br>{} flat, {} cum, {} of total</p>\n",
            name,
            if file.is_empty() { "no source information" } else { file },
            self.amount(listing.flat),
            self.amount(listing.cum),
            share.trim()
        );
        let none = BTreeMap::new();
        let code = self.instructions.get(&(name.to_owned(), base_name(file).to_owned())).unwrap_or(&none);
        page.constant("<div class=\"head\"><b class=\"flat\">flat</b><b class=\"cum\">cum</b><b class=\"number\">line</b></div>\n");
        page.constant("<div class=\"source\">");
        let text = self.sources.text(file);
        match text {
            Ok(text) => {
                for (source, number) in listing.lines_of(text) {
                    self.push_line(out, (number, source), listing.at(number), code.get(&number))?;
                }
            }
            // Without the source, the lines with code are still shown.
            Err(_) => {
                let numbers: std::collections::BTreeSet<i64> = code.keys().copied().chain(listing.numbers()).collect();
                for number in numbers {
                    self.push_line(out, (number, ""), listing.at(number), code.get(&number))?;
                }
            }
        }
        MarkupWriter::new(&mut out.text).constant("</div>\n");
        out.drain()
    }

    fn push_line(
        &self,
        out: &mut Output<'_>,
        (number, source): (i64, &str),
        (flat, cum): (i64, i64),
        code: Option<&Vec<Line>>,
    ) -> Result<()> {
        let mut page = MarkupWriter::new(&mut out.text);
        page.constant(if code.is_some() { "<details><summary" } else { "<div" });
        page.constant(if flat != 0 || cum != 0 { " class=\"hot\">" } else { ">" });
        markup!(
            page,
            "<b class=\"flat\">{}</b><b class=\"cum\">{}</b><b class=\"number\">{}</b><b class=\"mark\"></b>{}",
            self.or_dot(flat),
            self.or_dot(cum),
            number,
            list::with_tabs(source)
        );
        let Some(code) = code else {
            page.constant("</div>");
            return out.drain();
        };
        page.constant("</summary><div class=\"asm\">");
        for line in code {
            self.push_instruction(&mut MarkupWriter::new(&mut out.text), line);
            out.drain()?;
        }
        MarkupWriter::new(&mut out.text).constant("</div></details>");
        out.drain()
    }

    fn push_instruction(&self, out: &mut MarkupWriter<'_>, line: &Line) {
        out.constant(if line.flat != 0 || line.cum != 0 { "<div class=\"hot\">" } else { "<div>" });
        markup!(
            out,
            "<b class=\"flat\">{}</b><b class=\"cum\">{}</b><b class=\"address\">{:x}</b>{}",
            self.or_dot(line.flat),
            self.or_dot(line.cum),
            line.address,
            line.text
        );
        if let Some(place) = &line.inlined {
            let padding = " ".repeat(INSTRUCTION_WIDTH.saturating_sub(line.text.chars().count()));
            markup!(out, "{} <i>{} {}:{}</i>", padding, place.function, base_name(&place.file), place.line);
        }
        out.constant("</div>");
    }
}
