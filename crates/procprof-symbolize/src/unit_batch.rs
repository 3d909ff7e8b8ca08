//! The wanted addresses of one unit, and what its debug information says of them.

use std::ops::Range;
use std::sync::Arc;

use crate::dwarf::{Call, Chain, DebugInfo, Files, Home, Names, Origin, Row, rows, walk};

/// Most frames given for one address, the outermost of them left out. Real ones have some tens.
const FRAMES_MAX: usize = 256;

/// Addresses to be looked up in one unit.
pub(crate) struct UnitBatch {
    /// Its number in the index.
    pub(crate) unit: usize,
    /// Which of the wanted addresses, ascending.
    pub(crate) indexes: Vec<u32>,
}

/// A frame whose names are not put together yet.
#[derive(Debug, Clone)]
pub(crate) struct UnitFrame {
    /// Its number in [`Names`]; `None` if there are lines but no function.
    pub(crate) function: Option<u32>,
    pub(crate) file: Option<Arc<str>>,
    /// 0 if unknown.
    pub(crate) line: u32,
    /// 0 if unknown.
    pub(crate) column: u32,
}

/// The answer to one address.
#[derive(Debug, Clone)]
pub(crate) struct UnitAnswer {
    /// Which of the wanted addresses.
    pub(crate) index: u32,
    /// Its frames, innermost first.
    pub(crate) frames: Range<usize>,
    /// Whether the last of them is the outermost function.
    pub(crate) is_whole: bool,
}

/// What the units told that one thread has asked.
pub(crate) struct UnitAnswers<'i, 'a> {
    info: &'i DebugInfo<'a>,
    pub(crate) names: Names<'i, 'a>,
    pub(crate) answers: Vec<UnitAnswer>,
    pub(crate) frames: Vec<UnitFrame>,
    /// The addresses without an answer whose unit is broken.
    pub(crate) damaged: Vec<u32>,
}

impl<'i, 'a> UnitAnswers<'i, 'a> {
    pub(crate) fn new(info: &'i DebugInfo<'a>) -> Self {
        Self { info, names: Names::new(info), answers: Vec::new(), frames: Vec::new(), damaged: Vec::new() }
    }

    /// Looks up the addresses of one unit.
    pub(crate) fn answer(&mut self, batch: &UnitBatch, wanted: &[u64]) {
        let info = self.info;
        let Some(root) = info.units.root(&info.dwarf, batch.unit) else {
            self.damaged.extend(&batch.indexes);
            return;
        };
        let addresses: Vec<u64> = batch.indexes.iter().map(|index| wanted[*index as usize]).collect();
        let split = info.split_off(root);
        let home = match &split {
            Some(split) => Home { origin: Origin::Split(batch.unit), dwarf: &split.dwarf, root: &split.root },
            None => Home { origin: Origin::Main, dwarf: &info.dwarf, root },
        };
        let (chains, walked) = walk(home, &mut self.names, &addresses);
        // Lines are never split off.
        let mut lines = rows(root.unit_ref(&info.dwarf), root.lines, &addresses).ok();
        let is_damaged = walked.is_err() || lines.is_none();
        for (position, (index, chain)) in batch.indexes.iter().zip(&chains).enumerate() {
            let row = lines.as_ref().and_then(|(rows, _)| rows[position]);
            if chain.calls.is_empty() && row.is_none() {
                if is_damaged {
                    self.damaged.push(*index);
                }
                continue;
            }
            self.push(*index, chain, row, lines.as_mut().map(|(_, files)| files));
        }
    }

    fn push(&mut self, index: u32, chain: &Chain, row: Option<Row>, mut files: Option<&mut Files<'_, '_>>) {
        let first = self.frames.len();
        let mut name = |number: u64| files.as_mut().and_then(|files| files.name(number));
        let mut frame = UnitFrame { function: None, file: None, line: 0, column: 0 };
        if let Some(row) = row {
            frame.file = name(row.file);
            (frame.line, frame.column) = (row.line, if row.line == 0 { 0 } else { row.column });
        }
        for Call { function, file, line, column } in chain.calls.iter().rev().take(FRAMES_MAX) {
            frame.function = Some(*function);
            let around = UnitFrame { function: None, file: file.and_then(&mut name), line: *line, column: *column };
            self.frames.push(std::mem::replace(&mut frame, around));
        }
        if chain.calls.is_empty() {
            self.frames.push(frame);
        }
        let is_whole = chain.calls.len() <= FRAMES_MAX;
        self.answers.push(UnitAnswer { index, frames: first..self.frames.len(), is_whole });
    }
}
