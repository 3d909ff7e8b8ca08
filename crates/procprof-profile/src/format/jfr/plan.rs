//! How to read the values of a class: what to pass over and what to take, worked out once from the metadata.

use super::cursor::Cursor;
use super::metadata::{Field, Metadata};
use super::text;

/// How many values a plan takes at most.
pub(super) const SLOTS: usize = 6;
/// Deepest nesting of classes that hold others by value; real ones have two levels.
const DEPTH: usize = 8;

/// What one step does.
#[derive(Clone, Debug)]
enum Step {
    SkipNumbers(u64),
    SkipBytes(u64),
    SkipText,
    SkipArray(Box<[Step]>),
    TakeNumber(usize),
    TakeByte(usize),
    /// Notes where the text or array begins, and passes over it.
    TakePlace(usize, Box<Step>),
}

/// How to read the values of one class.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    steps: Vec<Step>,
    /// Which slots are filled.
    filled: [bool; SLOTS],
}

/// Makes plans; how many steps they have in all is bounded, whatever classes a file nests.
pub(super) struct Planner<'m> {
    metadata: &'m Metadata,
    steps_left: usize,
}

impl<'m> Planner<'m> {
    /// Plans of these metadata, read from that many bytes.
    pub(super) fn new(metadata: &'m Metadata, bytes: usize) -> Planner<'m> {
        Planner { metadata, steps_left: bytes }
    }

    /// How many steps may still be planned.
    pub(super) fn steps_left(&self) -> usize {
        self.steps_left
    }

    /// The plan of a class that takes fields by name, each into the slot at its position; those that the class lacks
    /// stay empty. `None` for a class that is not there, or is too nested.
    pub(super) fn plan(&mut self, class: u64, taken: &[&str]) -> Option<Plan> {
        let mut plan = Plan::default();
        let (name, fields) = self.metadata.class(class)?;
        if name == "java.lang.String" {
            let place = Step::TakePlace(0, Box::new(Step::SkipText));
            plan.steps = vec![if taken.is_empty() { Step::SkipText } else { place }];
            plan.filled[0] = !taken.is_empty();
            return Some(plan);
        }
        if let Some(step) = primitive(name) {
            plan.steps = vec![step];
            return Some(plan);
        }
        for field in fields {
            let name = self.metadata.text(field.name);
            match taken.iter().position(|taken| *taken == name) {
                Some(slot) => {
                    let step = self.taking(field, slot)?;
                    plan.steps.push(step);
                    plan.filled[slot] = true;
                }
                None => self.skipping(field, DEPTH, &mut plan.steps)?,
            }
        }
        Some(plan)
    }

    fn taking(&mut self, field: &Field, slot: usize) -> Option<Step> {
        let (mut steps, place) = (Vec::new(), |step| Some(Step::TakePlace(slot, Box::new(step))));
        self.skipping(field, DEPTH, &mut steps)?;
        match steps.pop()? {
            Step::SkipNumbers(1) => Some(Step::TakeNumber(slot)),
            Step::SkipBytes(1) => Some(Step::TakeByte(slot)),
            step @ (Step::SkipText | Step::SkipArray(_)) => place(step),
            _ => None,
        }
    }

    fn skipping(&mut self, field: &Field, depth: usize, steps: &mut Vec<Step>) -> Option<()> {
        self.steps_left = self.steps_left.checked_sub(1)?;
        if field.is_array {
            let mut elements = Vec::new();
            self.skipping(&Field { is_array: false, ..*field }, depth.checked_sub(1)?, &mut elements)?;
            steps.push(Step::SkipArray(elements.into()));
            return Some(());
        }
        if field.is_constant {
            push(steps, Step::SkipNumbers(1));
            return Some(());
        }
        let (name, fields) = self.metadata.class(field.class)?;
        match primitive(name) {
            Some(step) => push(steps, step),
            None if name == "java.lang.String" => steps.push(Step::SkipText),
            None => fields.iter().try_for_each(|field| self.skipping(field, depth.checked_sub(1)?, steps))?,
        }
        Some(())
    }
}

fn primitive(name: &str) -> Option<Step> {
    Some(match name {
        "boolean" | "byte" => Step::SkipBytes(1),
        "char" | "short" | "int" | "long" => Step::SkipNumbers(1),
        "float" => Step::SkipBytes(4),
        "double" => Step::SkipBytes(8),
        _ => return None,
    })
}

/// Appends a step, which becomes one with the last if both pass over the same.
fn push(steps: &mut Vec<Step>, step: Step) {
    match (steps.last_mut(), &step) {
        (Some(Step::SkipNumbers(count)), Step::SkipNumbers(more)) => *count += more,
        (Some(Step::SkipBytes(count)), Step::SkipBytes(more)) => *count += more,
        _ => steps.push(step),
    }
}

impl Plan {
    /// Whether the class has the field of that slot.
    pub(super) fn fills(&self, slot: usize) -> bool {
        self.filled[slot]
    }

    /// The plan without what comes behind the last value taken: for events, whose ends are known.
    pub(super) fn without_rest(mut self) -> Plan {
        let is_skip = |step: &Step| {
            matches!(step, Step::SkipNumbers(_) | Step::SkipBytes(_) | Step::SkipText | Step::SkipArray(_))
        };
        while self.steps.last().is_some_and(is_skip) {
            self.steps.pop();
        }
        self
    }

    /// Reads one value; `None` if it passes the end.
    #[inline]
    pub(super) fn read(&self, cursor: &mut Cursor<'_>, slots: &mut [u64; SLOTS]) -> Option<()> {
        for step in &self.steps {
            match step {
                Step::SkipNumbers(count) => cursor.skip_numbers(*count)?,
                Step::TakeNumber(slot) => slots[*slot] = cursor.number()?,
                Step::TakeByte(slot) => slots[*slot] = u64::from(cursor.byte()?),
                Step::TakePlace(slot, step) => {
                    slots[*slot] = cursor.at() as u64;
                    skip(step, cursor)?;
                }
                other => skip(other, cursor)?,
            }
        }
        Some(())
    }
}

fn skip(step: &Step, cursor: &mut Cursor<'_>) -> Option<()> {
    match step {
        Step::SkipNumbers(count) => cursor.skip_numbers(*count)?,
        Step::SkipBytes(count) => drop(cursor.slice(*count)?),
        Step::SkipText => text::skip(cursor)?,
        Step::SkipArray(elements) => skip_array(elements, cursor)?,
        Step::TakeNumber(_) | Step::TakeByte(_) | Step::TakePlace(..) => {}
    }
    Some(())
}

fn skip_array(elements: &[Step], cursor: &mut Cursor<'_>) -> Option<()> {
    let count = cursor.number()?;
    match elements {
        [] => {}
        [Step::SkipNumbers(each)] => cursor.skip_numbers(count.checked_mul(*each)?)?,
        [Step::SkipBytes(each)] => drop(cursor.slice(count.checked_mul(*each)?)?),
        // Each element takes a byte at least, so that a count that is too large ends soon.
        elements => {
            for _ in 0..count {
                elements.iter().try_for_each(|step| skip(step, cursor))?;
            }
        }
    }
    Some(())
}
