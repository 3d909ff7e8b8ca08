//! The tables of a thread: as columns, or as rows with a schema.

use std::borrow::Cow;
use std::rc::Rc;

use super::{Place, TablePlaces};
use crate::format::json::{Json, Kind};
use crate::{Error, Result};

/// A number, or nothing for `null`, what is below 0 and what has another kind.
type Cell = Option<u32>;

/// The tables that name stacks.
pub(super) struct Tables<'a> {
    /// Of each stack the one it continues, and its frame.
    pub(super) stacks: Vec<(Cell, u32)>,
    /// Of each frame its function (or, in rows, the place of its text), line and column.
    pub(super) frames: Vec<(Cell, Cell, Cell)>,
    /// Of each function name, file and resource; `None` in rows, which have none.
    functions: Option<Vec<(Cell, Cell, Cell)>>,
    /// The names of resources.
    resources: Vec<Cell>,
    strings: Rc<Vec<Cow<'a, str>>>,
}

/// A frame by its names.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) module: String,
    pub(super) line: i64,
    pub(super) column: i64,
}

impl<'a> Tables<'a> {
    pub(super) fn read(place: &TablePlaces<'a>, strings: Rc<Vec<Cow<'a, str>>>) -> Result<Tables<'a>> {
        let [prefixes, frames] = columns(place.stacks, ["prefix", "frame"])?;
        let stacks = prefixes.iter().zip(&frames).map(|(prefix, frame)| (*prefix, frame.unwrap_or(u32::MAX))).collect();
        let (frames, functions) = match place.functions {
            Some(_) => (
                columns(place.frames, ["func", "line", "column"])?,
                Some(zip(columns(place.functions, ["name", "fileName", "resource"])?)),
            ),
            None => (columns(place.frames, ["location", "line", "column"])?, None),
        };
        let [resources] = columns(place.resources, ["name"])?;
        Ok(Tables { stacks, frames: zip(frames), functions, resources, strings })
    }

    /// The names of a frame.
    pub(super) fn frame(&self, index: usize) -> Result<Named> {
        let (function, line, column) = self.frames[index];
        let mut named = Named {
            name: String::new(),
            file: String::new(),
            module: String::new(),
            line: line.unwrap_or(0).into(),
            column: column.unwrap_or(0).into(),
        };
        match &self.functions {
            Some(functions) => {
                let function = function.and_then(|function| functions.get(function as usize));
                let Some((name, file, resource)) = function else {
                    return Err(Error::invalid(format!(
                        "Firefox's frame {index} has no function of {}",
                        functions.len()
                    )));
                };
                named.name = self.string(*name)?;
                named.file = self.string(*file)?;
                named.module = self
                    .string(resource.and_then(|resource| self.resources.get(resource as usize)).copied().flatten())?;
            }
            // `work (https://host/w.js:3:7)`; addresses stay as they are.
            None => {
                let text = self.string(function)?;
                match text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
                    Some((name, place)) => {
                        named.name = name.to_owned();
                        named.file = without_numbers(place).to_owned();
                    }
                    None => named.name = text,
                }
            }
        }
        if named.name.is_empty() {
            named.name = "(anonymous)".to_owned();
        }
        Ok(named)
    }

    fn string(&self, index: Cell) -> Result<String> {
        let Some(index) = index else { return Ok(String::new()) };
        let text = self.strings.get(index as usize);
        text.map(|text| text.to_string())
            .ok_or_else(|| Error::invalid(format!("Firefox's string {index} of {}", self.strings.len())))
    }
}

/// The texts of a thread, or of all.
pub(super) fn strings(mut table: Json<'_>) -> Result<Vec<Cow<'_, str>>> {
    let mut strings = Vec::new();
    table.array(|json| {
        strings.push(json.text()?);
        Ok(())
    })?;
    Ok(strings)
}

/// A path without the line and the column behind it.
fn without_numbers(place: &str) -> &str {
    let mut place = place;
    for _ in 0..2 {
        match place.rsplit_once(':') {
            Some((path, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
                place = path
            }
            _ => break,
        }
    }
    place
}

/// The samples of a thread.
pub(super) struct Samples {
    pub(super) stacks: Vec<Cell>,
    /// Empty where each counts 1.
    pub(super) weights: Vec<f64>,
    pub(super) cpu: Vec<f64>,
}

impl Samples {
    pub(super) fn read(place: &Place<'_>) -> Result<Samples> {
        let [stacks] = columns(Some(place.samples), ["stack"])?;
        let mut table = place.samples;
        let [weights] = table.fields(["weight"])?;
        Ok(Samples { stacks, weights: numbers(weights)?, cpu: numbers(place.cpu)? })
    }
}

/// The numbers of an array; those that are `null` are 0.
fn numbers(json: Option<Json<'_>>) -> Result<Vec<f64>> {
    let mut numbers = Vec::new();
    let Some(mut json) = json.filter(|json| json.kind() == Ok(Kind::Array)) else { return Ok(numbers) };
    json.array(|json| {
        match json.kind()? {
            Kind::Number => numbers.push(json.number()?),
            _ => {
                json.skip()?;
                numbers.push(0.0);
            }
        }
        Ok(())
    })?;
    Ok(numbers)
}

fn zip<const N: usize>(columns: [Vec<Cell>; N]) -> Vec<(Cell, Cell, Cell)> {
    let cell =
        |column: usize, index: usize| columns.get(column).and_then(|column| column.get(index)).copied().flatten();
    (0..columns[0].len()).map(|index| (cell(0, index), cell(1, index), cell(2, index))).collect()
}

/// Some columns of a table, empty if it has them not.
fn columns<const N: usize>(table: Option<Json<'_>>, names: [&str; N]) -> Result<[Vec<Cell>; N]> {
    let mut columns = [const { Vec::new() }; N];
    let Some(mut table) = table.filter(|table| table.kind() == Ok(Kind::Object)) else { return Ok(columns) };
    let mut whole = table;
    if let [Some(mut schema), Some(data)] = table.fields(["schema", "data"])? {
        let places = schema.fields(names)?;
        let mut wanted = [None; N];
        for (wanted, place) in wanted.iter_mut().zip(places) {
            *wanted = place.map_or(Ok(None), |mut place| place.index())?;
        }
        read_rows(data, wanted, &mut columns)?;
        return Ok(columns);
    }
    for (column, place) in columns.iter_mut().zip(whole.fields(names)?) {
        let Some(mut place) = place.filter(|place| place.kind() == Ok(Kind::Array)) else { continue };
        place.array(|json| {
            column.push(cell(json)?);
            Ok(())
        })?;
    }
    Ok(columns)
}

fn read_rows<const N: usize>(
    mut data: Json<'_>,
    wanted: [Option<usize>; N],
    columns: &mut [Vec<Cell>; N],
) -> Result<()> {
    data.array(|json| {
        let mut row = [None; N];
        let mut index = 0;
        json.array(|json| {
            match wanted.iter().position(|wanted| *wanted == Some(index)) {
                Some(column) => row[column] = cell(json)?,
                None => json.skip()?,
            }
            index += 1;
            Ok(())
        })?;
        columns.iter_mut().zip(row).for_each(|(column, cell)| column.push(cell));
        Ok(())
    })
}

fn cell(json: &mut Json<'_>) -> Result<Cell> {
    if json.kind()? != Kind::Number {
        json.skip()?;
        return Ok(None);
    }
    let number = json.number()?;
    Ok((number >= 0.0 && number < f64::from(u32::MAX)).then_some(number as u32))
}

/// A text, or a number as it is written.
pub(super) fn word(mut json: Json<'_>) -> Result<String> {
    match json.kind()? {
        Kind::Text => json.text().map(Into::into),
        Kind::Number => json.number_word().map(str::to_owned),
        _ => Ok(String::new()),
    }
}
