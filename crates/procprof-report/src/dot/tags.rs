//! The small boxes of a node's labels: up to four texts, and for each and for the node itself up to four numbers or ranges of them.

use std::fmt::Write;

use super::escaped;
use crate::graph::{Node, TAGS_MAX, Tag, sort_tags};
use crate::measure::{label, scale};

/// The boxes of a node as DOT; empty when it has none. A node that calls others shows what labels have at itself, a leaf all that they have.
pub(super) fn nodelets(node: &Node<'_>, number: usize, amount: &dyn Fn(i64) -> String) -> String {
    let by_flat = !node.outgoing.is_empty();
    let mut texts: Vec<Tag> = node.tags.texts.values().cloned().collect();
    sort_tags(&mut texts, by_flat);
    let mut out = String::new();
    for (index, tag) in texts.iter().take(TAGS_MAX).enumerate() {
        let weight = if by_flat { tag.flat.value() } else { tag.cum.value() };
        if weight == 0 {
            continue;
        }
        let (weight, id) = (amount(weight), format!("N{number}_{index}"));
        push_box(&mut out, &id, &tag_text(&tag.name), &weight);
        push_line(&mut out, &format!("N{number}"), &id, &weight, "");
        push_numbers(&mut out, node, &tag.name, by_flat, &id, amount);
    }
    push_numbers(&mut out, node, "", by_flat, &format!("N{number}"), amount);
    out
}

fn push_numbers(out: &mut String, node: &Node<'_>, beside: &str, by_flat: bool, source: &str, amount: &dyn Fn(i64) -> String) {
    let Some(tags) = node.tags.numbers.get(beside) else { return };
    for (index, tag) in grouped(tags.values().cloned().collect(), by_flat).iter().enumerate() {
        let is_flat = by_flat || tag.flat.value() == tag.cum.value();
        let (weight, style) = if is_flat { (tag.flat.value(), "") } else { (tag.cum.value(), " style=\"dotted\"") };
        if weight == 0 {
            continue;
        }
        let (weight, id) = (amount(weight), format!("N{source}_{index}"));
        push_box(out, &id, &escaped(&tag.name), &weight);
        push_line(out, source, &id, &weight, style);
    }
}

fn push_box(out: &mut String, id: &str, text: &str, weight: &str) {
    let _ = writeln!(out, "{id} [label = \"{text}\" id=\"{id}\" fontsize=8 shape=box3d tooltip=\"{weight}\"]");
}

fn push_line(out: &mut String, from: &str, to: &str, weight: &str, style: &str) {
    let _ = writeln!(out, "{from} -> {to} [label=\" {weight}\" weight=100 tooltip=\"{weight}\" labeltooltip=\"{weight}\"{style}]");
}

/// Labels of a sample are joined by a line break that is escaped already.
fn tag_text(name: &str) -> String {
    name.split("\\n").map(escaped).collect::<Vec<_>>().join("\\n")
}

/// At most four: the heaviest, with each other number in the group of the nearest of them.
fn grouped(mut tags: Vec<Tag>, by_flat: bool) -> Vec<Tag> {
    sort_tags(&mut tags, by_flat);
    if tags.len() <= TAGS_MAX {
        return tags;
    }
    let rest = tags.split_off(TAGS_MAX);
    let mut groups: Vec<Vec<Tag>> = tags.into_iter().map(|tag| vec![tag]).collect();
    for tag in rest {
        let distances: Vec<f64> = groups.iter().map(|group| distance(&tag, &group[0])).collect();
        let mut nearest = 0;
        for (index, distance) in distances.iter().enumerate() {
            if *distance < distances[nearest] {
                nearest = index;
            }
        }
        groups[nearest].push(tag);
    }
    let mut merged: Vec<Tag> = groups.iter().map(|group| merge(group)).collect();
    sort_tags(&mut merged, by_flat);
    merged
}

fn distance(tag: &Tag, other: &Tag) -> f64 {
    (scale(other.value, &other.unit, &tag.unit).0 - tag.value as f64).abs()
}

/// A group as one range; numbers are written in their own unit, since they are often much smaller than the amounts.
fn merge(group: &[Tag]) -> Tag {
    let mut sum = Tag::default();
    let (mut least, mut most) = (&group[0], &group[0]);
    for tag in group {
        if (scale(tag.value, &tag.unit, &least.unit).0 as i64) < least.value {
            least = tag;
        }
        if (scale(tag.value, &tag.unit, &most.unit).0 as i64) > most.value {
            most = tag;
        }
        sum.flat.add(tag.flat);
        sum.cum.add(tag.cum);
    }
    let text = |tag: &Tag| label(tag.value, &tag.unit, "auto");
    sum.name = if group.len() == 1 { text(least) } else { format!("{}..{}", text(least), text(most)) };
    sum
}
