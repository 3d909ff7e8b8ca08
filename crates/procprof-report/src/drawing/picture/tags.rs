//! The small boxes of a node's labels: up to four texts, and for each and for the node itself up to four numbers or
//! ranges of them.

use super::{Edge, Node, Outline, Picture, Stroke};
use crate::display::measure::{label, scale};
use crate::graph::{self, TAGS_MAX, Tag, Weight, sort_tags};

/// The weight of the line to a label, which keeps labels near.
const WEIGHT: i64 = 100;

/// Whether a node has labels that are shown.
pub(super) fn has_any(node: &graph::Node<'_>) -> bool {
    let mut picture = Picture::default();
    push(&mut picture, node, "", 0, &|_| String::new());
    !picture.nodes.is_empty()
}

/// Appends the boxes of a node with the lines to them. A node that calls others shows the flat values of its labels, a
/// leaf all of their values.
pub(super) fn push(
    picture: &mut Picture,
    node: &graph::Node<'_>,
    id: &str,
    position: usize,
    amount: &dyn Fn(i64) -> String,
) {
    let by_flat = !node.outgoing.is_empty();
    let mut texts: Vec<Tag> = node.tags.texts.values().cloned().collect();
    sort_tags(&mut texts, by_flat);
    for (index, tag) in texts.iter().take(TAGS_MAX).enumerate() {
        let weight = if by_flat { tag.flat.value() } else { tag.cum.value() };
        if weight == 0 {
            continue;
        }
        // Labels of a sample are joined by a line break that is escaped.
        let lines = tag.name.split("\\n").map(str::to_owned).collect();
        let id = format!("{id}_{index}");
        let own = push_box(picture, id.clone(), lines, amount(weight), position, Stroke::Solid);
        push_numbers(picture, node, &tag.name, by_flat, (&id, own), amount);
    }
    push_numbers(picture, node, "", by_flat, (id, position), amount);
}

fn push_numbers(
    picture: &mut Picture,
    node: &graph::Node<'_>,
    beside: &str,
    by_flat: bool,
    (source, position): (&str, usize),
    amount: &dyn Fn(i64) -> String,
) {
    let Some(tags) = node.tags.numbers.get(beside) else { return };
    for (index, tag) in grouped(tags.values().cloned().collect(), by_flat).iter().enumerate() {
        let is_flat = by_flat || tag.flat.value() == tag.cum.value();
        let (weight, stroke) =
            if is_flat { (tag.flat.value(), Stroke::Solid) } else { (tag.cum.value(), Stroke::Dotted) };
        if weight == 0 {
            continue;
        }
        push_box(picture, format!("N{source}_{index}"), vec![tag.name.clone()], amount(weight), position, stroke);
    }
}

/// Appends a box and the line to it; its position.
fn push_box(
    picture: &mut Picture,
    id: String,
    lines: Vec<String>,
    amount: String,
    from: usize,
    stroke: Stroke,
) -> usize {
    let to = picture.nodes.len();
    picture.edges.push(Edge {
        label: vec![amount.clone()],
        weight: WEIGHT,
        stroke,
        tooltip: amount.clone(),
        ..Edge::between(from, to)
    });
    picture.nodes.push(Node {
        id,
        name: lines.join(" "),
        amount,
        outline: Outline::Tag,
        font_size: 8.0,
        ..Node::with_lines(lines)
    });
    to
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

/// A group as one range, whose values are means already where means are shown; numbers are written in their own unit, since they are often much smaller than the amounts.
fn merge(group: &[Tag]) -> Tag {
    let (mut flat, mut cum) = (Weight::default(), Weight::default());
    let (mut least, mut most) = (&group[0], &group[0]);
    for tag in group {
        if (scale(tag.value, &tag.unit, &least.unit).0 as i64) < least.value {
            least = tag;
        }
        if (scale(tag.value, &tag.unit, &most.unit).0 as i64) > most.value {
            most = tag;
        }
        flat.add(tag.flat);
        cum.add(tag.cum);
    }
    let text = |tag: &Tag| label(tag.value, &tag.unit, "auto");
    let name = if group.len() == 1 { text(least) } else { format!("{}..{}", text(least), text(most)) };
    let [flat, cum] = [flat, cum].map(|weight| Weight { sum: weight.value(), divisor: 0 });
    Tag { name, flat, cum, ..Tag::default() }
}
