//! MySQL's aggregates that DataFusion lacks, or that compare texts: each collects values of a group.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, BooleanArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result as DataFusionResult, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};

use super::call::{Column, LENGTH_MAX, external};
use super::collation::key;
use super::decimal::Decimal;
use super::run::Watch;
use super::types::{Collation, SqlType};
use super::value::Val;
use crate::mysql::{SqlError, SqlErrorKind};

/// What is made of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Aggregate {
    Min,
    Max,
    /// Any of its values, NULL among them.
    First,
    /// The value of the only row.
    Single,
    BitAnd,
    BitOr,
    BitXor,
    Variance,
    VarianceOfSample,
    Deviation,
    DeviationOfSample,
    /// Distinct rows without NULL.
    CountDistinct,
    Concat,
    JsonArray,
    JsonObject,
}

/// An aggregate in a statement.
pub(super) struct Collect {
    pub(super) aggregate: Aggregate,
    pub(super) types: Vec<SqlType>,
    pub(super) returns: SqlType,
    pub(super) distinct: bool,
    pub(super) separator: String,
    /// The directions of the last arguments, by which rows are sorted; true for ascending.
    pub(super) orders: Vec<bool>,
    pub(super) watch: Arc<Watch>,
}

impl std::fmt::Debug for Collect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.aggregate)
    }
}

impl PartialEq for Collect {
    fn eq(&self, other: &Collect) -> bool {
        let own = (self.aggregate, &self.types, self.returns, self.distinct, &self.separator, &self.orders);
        own == (other.aggregate, &other.types, other.returns, other.distinct, &other.separator, &other.orders)
    }
}

impl Eq for Collect {}

impl Hash for Collect {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.aggregate, &self.types, self.returns, self.distinct, &self.separator, &self.orders).hash(state);
    }
}

impl Collect {
    /// As DataFusion has it.
    pub(super) fn function(self) -> Arc<AggregateUDF> {
        let signature = Signature::variadic_any(Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(Function { signature, collect: Arc::new(self) }))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    signature: Signature,
    collect: Arc<Collect>,
}

impl AggregateUDFImpl for Function {
    fn name(&self) -> &str {
        match self.collect.aggregate {
            Aggregate::Min => "least_text",
            Aggregate::Max => "greatest_text",
            Aggregate::First => "any_row",
            Aggregate::Single => "only_row",
            Aggregate::BitAnd => "all_bits",
            Aggregate::BitOr => "some_bits",
            Aggregate::BitXor => "odd_bits",
            Aggregate::Variance => "variance_of",
            Aggregate::VarianceOfSample => "sample_variance_of",
            Aggregate::Deviation => "deviation_of",
            Aggregate::DeviationOfSample => "sample_deviation_of",
            Aggregate::CountDistinct => "count_distinct",
            Aggregate::Concat => "concat_rows",
            Aggregate::JsonArray => "json_rows",
            Aggregate::JsonObject => "json_members",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(self.collect.returns.arrow())
    }

    fn coerce_types(&self, types: &[DataType]) -> DataFusionResult<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn accumulator(&self, _: AccumulatorArgs) -> DataFusionResult<Box<dyn Accumulator>> {
        Ok(Box::new(Rows { collect: Arc::clone(&self.collect), rows: Vec::new(), seen: HashSet::new(), bytes: 0 }))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        self.collect.aggregate == Aggregate::First
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> DataFusionResult<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Firsts { collect: Arc::clone(&self.collect), values: Vec::new(), bytes: 0 }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> DataFusionResult<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}_rows", arguments.name), DataType::Binary, true))])
    }
}

/// What a group has so far.
#[derive(Debug)]
struct Rows {
    collect: Arc<Collect>,
    rows: Vec<Vec<Val<'static>>>,
    /// Keys of rows, if only distinct ones count.
    seen: HashSet<Vec<u8>>,
    bytes: usize,
}

impl Rows {
    fn add(&mut self, row: Vec<Val<'static>>) -> Result<(), SqlError> {
        let collect = Arc::clone(&self.collect);
        let value = row.first().cloned().unwrap_or(Val::Null);
        let keeps_null = matches!(
            collect.aggregate,
            Aggregate::First | Aggregate::Single | Aggregate::JsonArray | Aggregate::JsonObject
        );
        let counted = row.len() - collect.orders.len();
        if !keeps_null && row[..counted].contains(&Val::Null) {
            return Ok(());
        }
        match collect.aggregate {
            Aggregate::Min | Aggregate::Max => {
                let collation = collation(&collect.types);
                let is_better = self.rows.first().and_then(|row| row.first()).is_none_or(|kept| {
                    let (own, kept) = (text_key(&value, collation), text_key(kept, collation));
                    if collect.aggregate == Aggregate::Min { own < kept } else { own > kept }
                });
                if is_better {
                    self.rows = vec![vec![value]];
                }
            }
            Aggregate::First => {
                if self.rows.is_empty() {
                    self.rows.push(vec![value]);
                }
            }
            Aggregate::Single => {
                if !self.rows.is_empty() {
                    return Err(SqlError::new(SqlErrorKind::SubqueryRows, "Subquery returns more than 1 row"));
                }
                self.rows.push(vec![value]);
            }
            Aggregate::BitAnd | Aggregate::BitOr | Aggregate::BitXor => {
                let own = value.integer() as u64;
                let kept = self.rows.first().and_then(|row| row.first()).map(Val::unsigned);
                let joined = match (collect.aggregate, kept) {
                    (_, None) => own,
                    (Aggregate::BitAnd, Some(kept)) => kept & own,
                    (Aggregate::BitOr, Some(kept)) => kept | own,
                    (_, Some(kept)) => kept ^ own,
                };
                self.rows = vec![vec![Val::Unsigned(joined)]];
            }
            Aggregate::Variance | Aggregate::VarianceOfSample | Aggregate::Deviation | Aggregate::DeviationOfSample => {
                self.rows = vec![spread(self.spread(), value.real())]
            }
            Aggregate::CountDistinct | Aggregate::Concat | Aggregate::JsonArray | Aggregate::JsonObject => {
                if collect.distinct && !self.seen.insert(row_key(&row[..counted], &collect.types)) {
                    return Ok(());
                }
                self.bytes += row.iter().map(|value| 48 + value.weight()).sum::<usize>();
                self.rows.push(row);
                if self.rows.len().is_multiple_of(4096) {
                    collect.watch.go_on()?;
                }
            }
        }
        Ok(())
    }

    /// Count, mean and squared distances from it.
    fn spread(&self) -> [f64; 3] {
        match self.rows.first().map(Vec::as_slice) {
            Some([count, mean, squares]) => [count.real(), mean.real(), squares.real()],
            _ => [0.0; 3],
        }
    }

    fn value(&mut self) -> Result<Val<'static>, SqlError> {
        let first = || self.rows.first().and_then(|row| row.first()).cloned();
        let [count, _, squares] = self.spread();
        let divided = |divisor: f64| if divisor > 0.0 { Val::Double(squares / divisor) } else { Val::Null };
        let root = |value: Val<'static>| if value == Val::Null { value } else { Val::Double(value.real().sqrt()) };
        Ok(match self.collect.aggregate {
            Aggregate::Min | Aggregate::Max | Aggregate::First | Aggregate::Single => first().unwrap_or(Val::Null),
            Aggregate::BitAnd => first().unwrap_or(Val::Unsigned(u64::MAX)),
            Aggregate::BitOr | Aggregate::BitXor => first().unwrap_or(Val::Unsigned(0)),
            Aggregate::Variance => divided(count),
            Aggregate::VarianceOfSample => divided(count - 1.0),
            Aggregate::Deviation => root(divided(count)),
            Aggregate::DeviationOfSample => root(divided(count - 1.0)),
            Aggregate::CountDistinct => Val::Integer(self.rows.len() as i64),
            _ if self.rows.is_empty() => Val::Null,
            Aggregate::Concat => self.joined(&self.collect.separator.clone(), concatenated)?.into(),
            Aggregate::JsonArray => format!("[{}]", self.joined(",", |row, types| document(row, types, 0))?).into(),
            Aggregate::JsonObject => {
                let member = |row: &[Val<'_>], types: &[SqlType]| {
                    let key = row.first().and_then(|key| key.text(types[0])).unwrap_or_default();
                    format!("{}:{}", serde_json::Value::from(&*key), document(row, types, 1))
                };
                format!("{{{}}}", self.joined(", ", member)?).into()
            }
        })
    }

    /// All rows in their order as one text.
    fn joined(&mut self, separator: &str, text: impl Fn(&[Val<'_>], &[SqlType]) -> String) -> Result<String, SqlError> {
        let collect = Arc::clone(&self.collect);
        if !collect.orders.is_empty() {
            let counted = collect.types.len() - collect.orders.len();
            let types = &collect.types[counted..];
            self.rows.sort_by(|left, right| {
                let compared = left[counted..].iter().zip(&right[counted..]).zip(types).zip(&collect.orders);
                compared
                    .map(|(((left, right), kind), ascending)| {
                        let order = order(left, right, *kind);
                        if *ascending { order } else { order.reverse() }
                    })
                    .find(|order| order.is_ne())
                    .unwrap_or(std::cmp::Ordering::Equal)
            });
        }
        let mut joined = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            if index > 0 {
                joined += separator;
            }
            joined += &text(&row[..row.len() - collect.orders.len()], &collect.types);
            if joined.len() > LENGTH_MAX {
                let text = format!("group_concat: string or blob too big: more than {LENGTH_MAX} bytes");
                return Err(SqlError::new(SqlErrorKind::Limit, text));
            }
        }
        Ok(joined)
    }
}

fn concatenated(row: &[Val<'_>], types: &[SqlType]) -> String {
    row.iter().zip(types).filter_map(|(value, kind)| value.text(*kind)).collect()
}

fn document(row: &[Val<'_>], types: &[SqlType], at: usize) -> String {
    let (value, kind) = (row.get(at).unwrap_or(&Val::Null), types.get(at).copied().unwrap_or(SqlType::Null));
    match value.text(kind) {
        None => "null".to_owned(),
        Some(text) if kind == SqlType::DOCUMENT => text.into_owned(),
        Some(text) if kind == SqlType::Logical => if text == "0" { "false" } else { "true" }.to_owned(),
        Some(text) if kind.is_text() || kind.is_temporal() => serde_json::Value::from(&*text).to_string(),
        Some(text) => text.into_owned(),
    }
}

/// Takes one more number in.
fn spread([count, mean, squares]: [f64; 3], value: f64) -> Vec<Val<'static>> {
    let count = count + 1.0;
    let distance = value - mean;
    let mean = mean + distance / count;
    let squares = squares + distance * (value - mean);
    [count, mean, squares].map(Val::Double).to_vec()
}

/// Takes the numbers of two groups together.
fn spread_of_both(left: [f64; 3], right: [f64; 3]) -> Vec<Val<'static>> {
    let count = left[0] + right[0];
    if count == 0.0 {
        return [0.0; 3].map(Val::Double).to_vec();
    }
    let distance = right[1] - left[1];
    let mean = left[1] + distance * right[0] / count;
    let squares = left[2] + right[2] + distance * distance * left[0] * right[0] / count;
    [count, mean, squares].map(Val::Double).to_vec()
}

fn collation(types: &[SqlType]) -> Collation {
    match types.first() {
        Some(SqlType::Text { collation, .. }) => *collation,
        _ => Collation::Binary,
    }
}

fn text_key(value: &Val<'_>, collation: Collation) -> Vec<u8> {
    match value {
        Val::Text(text) => key(text, collation).as_bytes().to_vec(),
        other => other.bytes().map_or(Vec::new(), |bytes| bytes.into_owned()),
    }
}

fn row_key(row: &[Val<'_>], types: &[SqlType]) -> Vec<u8> {
    let mut joined = Vec::new();
    for (value, kind) in row.iter().zip(types) {
        let own = match (value, kind) {
            (Val::Text(text), SqlType::Text { collation, .. }) => key(text, *collation).as_bytes().to_vec(),
            (value, kind) => value.text(*kind).map_or(Vec::new(), |text| text.into_owned().into_bytes()),
        };
        joined.extend_from_slice(&own.len().to_le_bytes());
        joined.extend_from_slice(&own);
    }
    joined
}

/// The order of two values of a type, NULL first.
pub(super) fn order(left: &Val<'_>, right: &Val<'_>, kind: SqlType) -> std::cmp::Ordering {
    use std::cmp::Ordering::{Equal, Greater, Less};
    match (left, right) {
        (Val::Null, Val::Null) => Equal,
        (Val::Null, _) => Less,
        (_, Val::Null) => Greater,
        (Val::Double(left), Val::Double(right)) => left.total_cmp(right),
        (Val::Date(left), Val::Date(right))
        | (Val::DateTime(left), Val::DateTime(right))
        | (Val::Time(left), Val::Time(right)) => left.cmp(right),
        _ => match kind {
            SqlType::Text { collation, .. } => text_key(left, collation).cmp(&text_key(right, collation)),
            SqlType::Bytes => left.bytes().cmp(&right.bytes()),
            _ => {
                let zero = Decimal::whole(0);
                left.decimal().unwrap_or(zero).compare(right.decimal().unwrap_or(zero))
            }
        },
    }
}

impl Accumulator for Rows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        let count = values.first().map_or(0, |array| array.len());
        let collect = Arc::clone(&self.collect);
        for row in 0..count {
            if collect.aggregate == Aggregate::First && !self.rows.is_empty() {
                break;
            }
            let values = values.iter().zip(&collect.types);
            self.add(values.map(|(array, kind)| Val::at(array, row, *kind).into_owned()).collect())
                .map_err(external)?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        let value = self.value().map_err(external)?;
        Ok(value.scalar(self.collect.returns))
    }

    fn size(&self) -> usize {
        let seen: usize = if self.collect.distinct { self.bytes } else { 0 };
        size_of_val(self) + self.bytes + seen
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        let mut out = Vec::new();
        for row in &self.rows {
            out.extend_from_slice(&(row.len() as u32).to_le_bytes());
            row.iter().for_each(|value| put(value, &mut out));
        }
        Ok(vec![ScalarValue::Binary(Some(out))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        let Some(states) = states.first() else { return Ok(()) };
        let states = states.as_binary::<i32>();
        for index in 0..states.len() {
            let mut rest = states.value(index);
            while let Some((count, after)) = rest.split_first_chunk::<4>() {
                rest = after;
                let count = u32::from_le_bytes(*count);
                let row: Vec<Val<'static>> = (0..count).map(|_| take(&mut rest)).collect();
                let is_spread = matches!(
                    self.collect.aggregate,
                    Aggregate::Variance
                        | Aggregate::VarianceOfSample
                        | Aggregate::Deviation
                        | Aggregate::DeviationOfSample
                );
                match row.as_slice() {
                    [count, mean, squares] if is_spread => {
                        let other = [count.real(), mean.real(), squares.real()];
                        self.rows = vec![spread_of_both(self.spread(), other)];
                    }
                    _ => self.add(row).map_err(external)?,
                }
            }
        }
        Ok(())
    }
}

/// The first value of each group, for [`Aggregate::First`]; it is in every statement that groups by a text.
#[derive(Debug)]
struct Firsts {
    collect: Arc<Collect>,
    values: Vec<Option<Val<'static>>>,
    bytes: usize,
}

impl Firsts {
    /// Takes a value in, if it is the first of its group.
    fn add<'a>(&mut self, group: usize, value: impl FnOnce() -> Val<'a>) {
        if let Some(kept @ None) = self.values.get_mut(group) {
            let value = value().into_owned();
            self.bytes += value.weight();
            *kept = Some(value);
        }
    }

    fn emit(&mut self, groups: EmitTo) -> Vec<Option<Val<'static>>> {
        let emitted = groups.take_needed(&mut self.values);
        self.bytes -= emitted.iter().flatten().map(Val::weight).sum::<usize>();
        emitted
    }

    /// The state of a group: its value, or nothing before the first.
    fn states<'a>(values: impl Iterator<Item = Option<Val<'a>>>) -> Vec<ArrayRef> {
        let mut states = BinaryBuilder::new();
        for value in values {
            let mut state = Vec::new();
            value.iter().for_each(|value| put(value, &mut state));
            states.append_value(&state);
        }
        vec![Arc::new(states.finish())]
    }
}

fn is_wanted(wanted: Option<&BooleanArray>, row: usize) -> bool {
    wanted.is_none_or(|wanted| wanted.is_valid(row) && wanted.value(row))
}

impl GroupsAccumulator for Firsts {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        wanted: Option<&BooleanArray>,
        count: usize,
    ) -> DataFusionResult<()> {
        self.values.resize(count, None);
        let (Some(array), Some(kind)) = (values.first(), self.collect.types.first().copied()) else { return Ok(()) };
        for (row, group) in groups.iter().enumerate() {
            if is_wanted(wanted, row) {
                self.add(*group, || Val::at(array, row, kind));
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, groups: EmitTo) -> DataFusionResult<ArrayRef> {
        let values = self.emit(groups);
        let mut column = Column::new(self.collect.returns, values.len());
        values.iter().for_each(|value| column.push(value.as_ref().unwrap_or(&Val::Null)));
        Ok(column.finish())
    }

    fn state(&mut self, groups: EmitTo) -> DataFusionResult<Vec<ArrayRef>> {
        Ok(Firsts::states(self.emit(groups).into_iter()))
    }

    fn convert_to_state(&self, values: &[ArrayRef], wanted: Option<&BooleanArray>) -> DataFusionResult<Vec<ArrayRef>> {
        let (Some(array), Some(kind)) = (values.first(), self.collect.types.first().copied()) else {
            return Ok(Firsts::states(std::iter::empty()));
        };
        let rows = (0..array.len()).map(|row| is_wanted(wanted, row).then(|| Val::at(array, row, kind)));
        Ok(Firsts::states(rows))
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> DataFusionResult<()> {
        self.values.resize(count, None);
        let Some(states) = states.first() else { return Ok(()) };
        let states = states.as_binary::<i32>();
        for (row, group) in groups.iter().enumerate() {
            let mut state = states.value(row);
            if !state.is_empty() {
                self.add(*group, || take(&mut state));
            }
        }
        Ok(())
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<Option<Val<'_>>>() + self.bytes
    }
}

/// Writes a value: its kind, then its bytes.
pub(super) fn put(value: &Val<'_>, out: &mut Vec<u8>) {
    let mut bytes = |tag: u8, bytes: &[u8]| {
        out.push(tag);
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(bytes);
    };
    match value {
        Val::Null => bytes(0, &[]),
        Val::Integer(value) => bytes(1, &value.to_le_bytes()),
        Val::Unsigned(value) => bytes(2, &value.to_le_bytes()),
        Val::Decimal(value) => bytes(10 + value.scale, &value.digits.to_le_bytes()),
        Val::Double(value) => bytes(4, &value.to_le_bytes()),
        Val::Text(text) => bytes(5, text.as_bytes()),
        Val::Bytes(own) => bytes(6, own),
        Val::Date(value) => bytes(7, &value.to_le_bytes()),
        Val::DateTime(value) => bytes(8, &value.to_le_bytes()),
        Val::Time(value) => bytes(9, &value.to_le_bytes()),
    }
}

/// Reads what [`put`] wrote.
pub(super) fn take(rest: &mut &[u8]) -> Val<'static> {
    let Some(([tag, length @ ..], after)) = rest.split_first_chunk::<5>() else { return Val::Null };
    let length = u32::from_le_bytes(*length) as usize;
    let (own, after) = after.split_at(length.min(after.len()));
    *rest = after;
    let number = || own.first_chunk::<8>().map_or(0, |bytes| i64::from_le_bytes(*bytes));
    match tag {
        1 => Val::Integer(number()),
        2 => Val::Unsigned(number() as u64),
        4 => Val::Double(f64::from_bits(number() as u64)),
        5 => Val::from(String::from_utf8_lossy(own).into_owned()),
        6 => Val::Bytes(own.to_vec().into()),
        7 => Val::Date(number()),
        8 => Val::DateTime(number()),
        9 => Val::Time(number()),
        tag if *tag >= 10 => {
            let digits = own.first_chunk::<16>().map_or(0, |bytes| i128::from_le_bytes(*bytes));
            Val::Decimal(Decimal { digits, scale: tag - 10 })
        }
        _ => Val::Null,
    }
}
