//! The table of profiles: what each one is about at a glance, and what can be done with it.

use maud::{Markup, html};
use procprof_core::auth::Principal;
use procprof_core::clock::now;
use procprof_core::without_controls;
use procprof_profile::Meta;
use procprof_store::{Entry, TopFunction, Total};

use super::known_class;
use crate::pages::search::Hit;
use crate::pages::{
    ago, grouped, moment, quantity, share, significant, size, thumbnail, trigger_name, type_label, wanted,
};
use crate::texts::t;

/// How far in the future a profile's end may be without a mark, in nanoseconds: clocks differ.
const AHEAD: i64 = 300_000_000_000;
/// From how many times the median of its type on a profile is marked.
const SPIKE: f64 = 3.0;
/// Profiles of a type from which on their median means something.
const MEDIAN_OF: usize = 4;

/// The rows of one page.
pub(in crate::pages) struct Table<'a> {
    pub(in crate::pages) rows: &'a [Entry],
    pub(in crate::pages) principal: &'a Principal,
    /// Whether rows name their node.
    pub(in crate::pages) nodes: bool,
    /// A function of each row that a search has found; without them, the one with the largest self value is shown.
    pub(in crate::pages) hits: Option<&'a [Hit]>,
}

impl Table<'_> {
    pub(in crate::pages) fn markup(&self) -> Markup {
        html! {
            div class="table profiles-table" { table {
                thead { tr {
                    th scope="col" { span class="hidden" { (t!("Select")) } }
                    th scope="col" { (t!("Type")) }
                    @if self.nodes { th scope="col" { (t!("Node")) } }
                    th scope="col" { (t!("Completed")) }
                    th scope="col" class="number wide" { (t!("Duration")) }
                    th scope="col" class="number widest" { (t!("Samples")) }
                    th scope="col" { (t!("Total")) }
                    @if self.hits.is_some() { th scope="col" { (t!("Function found")) } }
                    @else { th scope="col" title=(t!("The program's own function, with the runtime's functions that it calls")) { (t!("Top function (self)")) } }
                    th scope="col" class="wide" { (t!("Flame graph")) }
                    th scope="col" class="number wide" { (t!("Size")) }
                    th scope="col" class="widest" { (t!("Trigger")) }
                    th scope="col" { (t!("View")) }
                    th scope="col" { span class="hidden" { (t!("More")) } }
                } }
                tbody { @for (place, entry) in self.rows.iter().enumerate() { (self.row(place, entry)) } }
            } }
        }
    }

    fn row(&self, place: usize, entry: &Entry) -> Markup {
        let kind = entry.profile_type.name();
        let href = format!("/p/{}", entry.id);
        let name = t!("{0} of {1}", type_label(&entry.profile_type), utc(entry.completed.0));
        html! {
            tr {
                td {
                    input type="checkbox" name="id" value=(entry.id) form="selection"
                        aria-label=(t!("Select {0}", name));
                }
                td class="kind" { a class=(format!("type {}", known_class(kind))) href=(href) { (type_label(&entry.profile_type)) }
                    @if entry.pinned { " " span class="tag pin" title=(t!("Kept from retention")) { (t!("pinned")) } }
                    (wanted::tag(entry)) }
                @if self.nodes {
                    td class="of-node" {
                        a href=(format!("/proc_profile?node={}", entry.node)) { (entry.meta.node_name) }
                    }
                }
                td class="when" { (moment(entry.completed.0)) " " span class="muted ago" { (ago(entry.completed.0)) }
                    @if is_ahead(entry) {
                        " "
                        span class="tag bad"
                            title=(t!("Taken while the clock was ahead; it expires like everything else"))
                        {
                            (t!("clock ahead"))
                        }
                    }
                }
                td class="number wide" { (duration(entry)) }
                td class="number widest" {
                    @if entry.summary.samples > 0 { (grouped(entry.summary.samples)) } @else { "–" }
                }
                td class="total" { (self.total(entry)) }
                td class="function" { (self.function(place, entry)) }
                td class="wide" {
                    a class="thumbnail" href=(href) tabindex="-1" aria-hidden="true" {
                        (thumbnail::picture(&entry.summary.thumbnail))
                    }
                }
                td class="number wide" { (size(entry.bytes)) }
                td class="widest" { (trigger_name(&entry.meta.trigger)) }
                td {
                    a class="view" href=(href) title=(entry.file_name) aria-label=(t!("View {0}", name)) {
                        (t!("View"))
                    }
                }
                td { (self.menu(entry, &name)) }
            }
        }
    }

    /// The total with a bar relative to the largest of its type on the page.
    fn total(&self, entry: &Entry) -> Markup {
        let Some(total) = shown(entry) else { return html! { "–" } };
        let (value, rest) = in_words(entry, total);
        let of_type = || {
            self.rows
                .iter()
                .filter(|row| row.profile_type == entry.profile_type)
                .filter_map(shown)
                .map(|total| total.value)
        };
        let largest = of_type().max().unwrap_or(0).max(1);
        let spike = spike(total.value, of_type().collect());
        html! {
            span class="amount" title=(total.kind) { strong { (value) } " " span class="muted" { (rest) }
                @if let Some(times) = spike {
                    " "
                    span class="tag bad" title=(t!("Compared with the median of its type on this page")) {
                        "×" (significant(times))
                    }
                }
                @if self.has_many_threads(entry) {
                    " "
                    span class="tag bad" title=(t!("Compared with the median of its type on this page")) {
                        (t!("{0} threads", grouped(entry.summary.threads)))
                    }
                }
            }
            (share(total.value, largest))
        }
    }

    fn has_many_threads(&self, entry: &Entry) -> bool {
        let of_type = self.rows.iter().filter(|row| row.profile_type == entry.profile_type);
        let threads = |entry: &Entry| entry.summary.threads.cast_signed();
        spike(threads(entry), of_type.map(threads).filter(|threads| *threads > 0).collect()).is_some()
    }

    fn function(&self, place: usize, entry: &Entry) -> Markup {
        match self.hits.and_then(|hits| hits.get(place)) {
            Some(hit) => function(Some(hit.percent), &html! { (code(&hit.name)) }),
            None => top_function(entry),
        }
    }

    fn menu(&self, entry: &Entry, name: &str) -> Markup {
        html! {
            details class="menu" {
                summary aria-label=(t!("More for {0}", name)) { "⋮" }
                ul {
                    li { a href=(format!("/api/profiles/{}/download", entry.id)) { (t!("Download")) } }
                    li { a class="copy-link" href=(format!("/p/{}", entry.id)) { (t!("Link")) } }
                    li {
                        a href=(format!("/search?node={}&type={}", entry.node, crate::params::encode(entry.profile_type.name()))) {
                            (t!("Search its functions"))
                        }
                    }
                    @if self.principal.operates() {
                        li { button form="act" formaction=(format!("/p/{}/pin", entry.id)) name="pinned" value=(if entry.pinned { "no" } else { "yes" }) {
                            (if entry.pinned { t!("Unpin") } else { t!("Pin") }) } }
                        @if !entry.pinned { li { details class="sure" { summary { (t!("Delete…")) }
                            button class="danger" form="act" formaction=(format!("/p/{}/delete", entry.id)) { (t!("Delete for ever")) } } } }
                    }
                }
            }
        }
    }
}

/// The forms that rows belong to: the selection, and what is done with one row.
pub(in crate::pages) fn forms(back: &str, principal: &Principal) -> Markup {
    html! {
        form id="selection" class="selection" action="/proc_profile/select" {
            span class="count" { (t!("With the selected profiles:")) }
            button type="submit" name="do" value="view" data-count="1" { (t!("View")) }
            button type="submit" name="do" value="compare" data-count="2"
                title=(t!("Two: what changed from the older one to the newer one"))
            {
                (t!("Compare"))
            }
            button type="submit" name="do" value="merge" data-count="2+" title=(t!("Two or more: one profile of all")) {
                (t!("Merge"))
            }
        }
        @if principal.operates() { form id="act" method="post" { input type="hidden" name="back" value=(back); } }
    }
}

/// The total of the sample type that the profile shows first.
fn shown(entry: &Entry) -> Option<&Total> {
    entry.summary.shown(&entry.meta)
}

/// A total, and what it means.
fn in_words(entry: &Entry, total: &Total) -> (String, String) {
    let value = quantity(total.value, &total.unit);
    let parallel =
        (total.unit == "nanoseconds" && entry.duration.0 > 0).then(|| total.value as f64 / entry.duration.0 as f64);
    let rest = match (entry.profile_type.name(), parallel) {
        _ if entry.meta.counts() == Some(Meta::JAVA_CODE) => t!("of Java code").to_string(),
        ("cpu", Some(cores)) => match significant(cores).as_str() {
            "1" => t!("CPU, 1 core").to_string(),
            cores => t!("CPU, {0} cores", cores),
        },
        ("cpu", None) => t!("CPU").to_string(),
        ("wall", Some(threads)) => t!("wall, {0} threads", significant(threads)),
        ("heap", _) => t!("in use").to_string(),
        ("alloc", _) => t!("allocated").to_string(),
        ("contention", _) => t!("waited").to_string(),
        ("mutex", _) => t!("blocked others").to_string(),
        ("goroutine", _) => t!("goroutines").to_string(),
        _ => total.kind.clone(),
    };
    (value, rest)
}

fn duration(entry: &Entry) -> String {
    match entry.duration.0 {
        nanos if nanos > 0 => quantity(nanos, "nanoseconds"),
        _ => t!("instant").to_string(),
    }
}

fn top_function(entry: &Entry) -> Markup {
    let Some(top) = entry.summary.top.first() else { return html! { "–" } };
    let percent =
        shown(entry).filter(|total| total.value > 0).map(|total| top.value as f64 * 100.0 / total.value as f64);
    function(percent, &names(top))
}

/// Names of a function with its share.
fn function(percent: Option<f64>, names: &Markup) -> Markup {
    html! {
        div class="shared" {
            @if let Some(percent) = percent { span class="percent" { (format!("{percent:.0}\u{a0}%")) } " " }
            span class="names" { (names) }
        }
    }
}

/// The function of the program, the runtime's function that takes most of its value, and its caller if it has several.
pub(in crate::pages) fn names(top: &TopFunction) -> Markup {
    html! {
        @if top.is_runtime() { (code(&top.name)) }
        @else {
            strong { (code(&top.name)) }
            @if !top.leaf.is_empty() {
                " " code class="leaf" title=(t!("mostly in {0}", top.leaf)) { bdi { (short(&top.leaf)) } }
            }
        }
        @if !top.caller.is_empty() {
            " " span class="caller" {
                "← " code title=(t!("called by {0}", top.caller)) { bdi { (short(&top.caller)) } }
            }
        }
    }
}

fn code(name: &str) -> Markup {
    html! { code title=(name) { bdi { (short(name)) } } }
}

/// A name for a narrow column: without parameters and the arguments of templates, its last two parts.
pub(in crate::pages) fn short(name: &str) -> String {
    const SHOWN: usize = 80;
    let mut depth = 0_usize;
    let mut plain = String::new();
    for letter in without_controls(name).chars() {
        match letter {
            '<' if !plain.is_empty() => depth += 1,
            '>' if depth > 0 => depth -= 1,
            '(' if depth == 0 && !plain.is_empty() && !plain.ends_with(['.', ':']) => break,
            _ if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    let path = plain.rsplit('/').next().filter(|_| !plain.starts_with('/')).unwrap_or(&plain);
    // Of closures within closures, the last one is named with the function around them.
    let closures = path.trim_end_matches("::{{closure}}");
    let path = path.get(..closures.len() + "::{{closure}}".len()).unwrap_or(path);
    let parts = |separator: &str| path.rmatch_indices(separator).nth(1).map(|(at, _)| at + separator.len());
    // Points part the names of Java and Go; elsewhere they begin versions and suffixes of clones.
    let is_dotted = path.rsplit('.').next().is_some_and(|last| last != "cold" && last.starts_with(char::is_alphabetic));
    let has_points = is_dotted && !path.contains("::") && !path.contains('@') && !path.starts_with('[');
    let from = parts("::").or_else(|| parts(".").filter(|_| has_points)).unwrap_or(0);
    let mut text: String = path[from..].chars().take(SHOWN).collect();
    if !text.contains('<') {
        text = text.replace('>', "");
    }
    if path[from..].chars().nth(SHOWN).is_some() {
        text.push('…');
    }
    if text.is_empty() { without_controls(name).chars().take(SHOWN).collect() } else { text }
}

/// Whether a profile was complete at a time that is yet to come.
fn is_ahead(entry: &Entry) -> bool {
    entry.completed.0 > now().0.saturating_add(AHEAD)
}

/// How many times the median a value is, if that is worth a mark.
fn spike(value: i64, all: Vec<i64>) -> Option<f64> {
    median(all).map(|median| value as f64 / median as f64).filter(|times| *times >= SPIKE)
}

/// The middle one of several positive values.
fn median(mut values: Vec<i64>) -> Option<i64> {
    if values.len() < MEDIAN_OF {
        return None;
    }
    values.sort_unstable();
    values.get(values.len() / 2).copied().filter(|median| *median > 0)
}

fn utc(nanos: i64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(nanos));
    time.map(|time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{median, short};

    #[test]
    fn names_are_shortened_to_their_last_parts() {
        for (name, shown) in [
            ("memcpy", "memcpy"),
            ("core::fmt::write", "fmt::write"),
            ("app::run::{{closure}}", "run::{{closure}}"),
            ("app::run::{{closure}}::{{closure}}", "run::{{closure}}"),
            ("ns::f(int, char const*)", "ns::f"),
            ("a::b::C<d::E<f>, g>::h(std::vector<int>)", "C::h"),
            ("(anonymous)", "(anonymous)"),
            ("[unknown]", "[unknown]"),
            ("<script>alert(1)</script>", "<script>alert"),
            ("com.example.app.Service.run", "Service.run"),
            ("github.com/x/y.(*T).m", "(*T).m"),
            ("memcpy@@GLIBC_2.2.5", "memcpy@@GLIBC_2.2.5"),
            ("[libc.so.6]", "[libc.so.6]"),
            ("hot.constprop.0", "hot.constprop.0"),
            ("<T as core::fmt::Display>::fmt", "Display::fmt"),
            ("a\u{7}\nb", "ab"),
        ] {
            assert_eq!(short(name), shown, "{name:?}");
        }
        assert_eq!(short(&"ä".repeat(500)).chars().count(), 81);
    }

    #[test]
    fn the_median_needs_several_values() {
        assert_eq!(median(vec![1, 2, 48]), None);
        assert_eq!(median(vec![48, 1, 1, 2, 1]), Some(1));
        assert_eq!(median(vec![0; 9]), None);
    }
}
