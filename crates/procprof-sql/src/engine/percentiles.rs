//! Percentiles of groups, exact: `PERCENTILE_CONT`, `PERCENTILE_DISC`, `MEDIAN`. All values of a group are kept and
//! sorted.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result as DataFusionResult, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use super::aggregates::{order, put, take};
use super::call::external;
use super::run::Watch;
use super::types::SqlType;
use super::value::Val;

/// Values between two looks at the watch.
const LOOK: usize = 4096;

/// Which value of a group a percentile is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Between {
    /// Between two values, the share of the way.
    Interpolated,
    /// The first value at or behind the share.
    Chosen,
}

/// A percentile in a statement.
pub(super) struct Percentile {
    pub(super) between: Between,
    /// From 0 to 1.
    pub(super) share: f64,
    /// Whether the largest value comes first.
    pub(super) is_descending: bool,
    /// The type of the values, which is a number if it is interpolated.
    pub(super) kind: SqlType,
    pub(super) returns: SqlType,
    pub(super) watch: Arc<Watch>,
}

impl std::fmt::Debug for Percentile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}", self.between, self.share)
    }
}

impl Percentile {
    /// As DataFusion has it.
    pub(super) fn function(self) -> Arc<AggregateUDF> {
        let signature = Signature::variadic_any(Volatility::Immutable);
        // Calls of one statement are told apart by their names.
        let order = if self.is_descending { "descending" } else { "ascending" };
        let name = format!("percentile_{:?}_{}_{order}", self.between, self.share);
        Arc::new(AggregateUDF::new_from_impl(Function { signature, name, percentile: Arc::new(self) }))
    }

    fn key(&self) -> (Between, u64, bool, SqlType) {
        (self.between, self.share.to_bits(), self.is_descending, self.kind)
    }

    /// The percentile of sorted values; NULL for none.
    fn of(&self, sorted: &[Val<'static>]) -> Val<'static> {
        let at = |index: usize| sorted.get(index).or(sorted.last()).cloned().unwrap_or(Val::Null);
        let count = sorted.len();
        if count == 0 {
            return Val::Null;
        }
        match self.between {
            Between::Interpolated => {
                let place = 1.0 + self.share * (count - 1) as f64;
                let (before, behind) = (place.floor(), place.ceil());
                let [low, high] = [before, behind].map(|place| at(place as usize - 1).real());
                // As MariaDB does it, down to the last digit.
                let between = (place - before) * high + (behind - place) * low;
                Val::Double(if before == behind { low } else { between })
            }
            Between::Chosen => {
                let place = (1..count).find(|place| *place as f64 / count as f64 >= self.share).unwrap_or(count);
                at(place - 1)
            }
        }
    }
}

#[derive(Debug)]
struct Function {
    signature: Signature,
    name: String,
    percentile: Arc<Percentile>,
}

impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        self.percentile.key() == other.percentile.key()
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.percentile.key().hash(state);
    }
}

impl AggregateUDFImpl for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(self.percentile.returns.arrow())
    }

    fn coerce_types(&self, types: &[DataType]) -> DataFusionResult<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn accumulator(&self, _: AccumulatorArgs) -> DataFusionResult<Box<dyn Accumulator>> {
        let percentile = Arc::clone(&self.percentile);
        Ok(Box::new(Values { percentile, values: Vec::new(), text_bytes: 0, answer: None }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> DataFusionResult<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}_values", arguments.name), DataType::Binary, true))])
    }
}

/// The values of a group.
#[derive(Debug)]
struct Values {
    percentile: Arc<Percentile>,
    values: Vec<Val<'static>>,
    text_bytes: usize,
    /// The percentile of these values: a window asks for it in each row.
    answer: Option<Val<'static>>,
}

impl Values {
    fn add(&mut self, value: Val<'static>) -> DataFusionResult<()> {
        if value == Val::Null {
            return Ok(());
        }
        self.answer = None;
        self.text_bytes += value.weight();
        self.values.push(value);
        if self.values.len().is_multiple_of(LOOK) {
            self.percentile.watch.go_on().map_err(external)?;
        }
        Ok(())
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        let Some(array) = values.first() else { return Ok(()) };
        let kind = self.percentile.kind;
        (0..array.len()).try_for_each(|row| self.add(Val::at(array, row, kind).into_owned()))
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        let Percentile { kind, is_descending, .. } = *self.percentile;
        if self.answer.is_none() {
            let compare = |left: &Val<'_>, right: &Val<'_>| -> Ordering {
                let order = order(left, right, kind);
                if is_descending { order.reverse() } else { order }
            };
            self.values.sort_by(compare);
            self.answer = Some(self.percentile.of(&self.values));
        }
        let answer = self.answer.as_ref().unwrap_or(&Val::Null);
        Ok(answer.scalar(self.percentile.returns))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<Val<'static>>() + self.text_bytes
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        let mut out = Vec::new();
        self.values.iter().for_each(|value| put(value, &mut out));
        Ok(vec![ScalarValue::Binary(Some(out))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        let Some(states) = states.first() else { return Ok(()) };
        let states = states.as_binary::<i32>();
        for index in 0..states.len() {
            let mut rest = states.value(index);
            while !rest.is_empty() {
                self.add(take(&mut rest))?;
            }
        }
        Ok(())
    }
}
