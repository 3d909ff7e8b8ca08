//! MySQL's functions as scalar functions of DataFusion: a function works on one row after the other, with the types of
//! its arguments and of its result known beforehand.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{
    Array, ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, DurationMicrosecondBuilder,
    Float64Builder, Int64Builder, StringArray, StringBuilder, TimestampMicrosecondBuilder, UInt32Array, UInt64Builder,
};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result as DataFusionResult;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use foldhash::HashMap;
use regex::Regex;

use super::decimal::Decimal;
use super::run::Watch;
use super::types::{Collation, PRECISION, SqlType};
use super::value::Val;
use crate::mysql::{SqlError, SqlErrorKind};

/// The longest text or bytes, in bytes.
pub(super) const LENGTH_MAX: usize = 1_000_000;
/// Bytes that a function may make for one batch of rows.
const BATCH_BYTES_MAX: usize = 64 << 20;
/// Rows between two looks at the watch.
const LOOK: usize = 256;

/// One row's work.
pub(super) type Kernel = fn(&Arguments<'_>) -> Result<Val<'static>, SqlError>;

/// A call in a statement.
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) kernel: Kernel,
    pub(super) types: Vec<SqlType>,
    pub(super) returns: SqlType,
    /// A word of the statement that is no value, such as the unit of an interval.
    pub(super) word: &'static str,
    /// Whether it has another value each time.
    pub(super) volatile: bool,
    pub(super) watch: Arc<Watch>,
    /// The last regular expression.
    regex: Mutex<Option<(String, Arc<Compiled>)>>,
    /// How many of its arguments, from the first on, are dates.
    dates: usize,
}

/// Functions of dates, which a time of day is none.
const OF_DATES: &[&str] = &[
    "convert_tz",
    "date",
    "date_format",
    "datediff",
    "day",
    "dayname",
    "dayofmonth",
    "dayofweek",
    "dayofyear",
    "last_day",
    "month",
    "monthname",
    "quarter",
    "timestampdiff",
    "to_days",
    "to_seconds",
    "unix_timestamp",
    "week",
    "weekday",
    "weekofyear",
    "year",
    "yearweek",
];

/// Whether a function is one of dates.
pub(super) fn is_of_dates(name: &str, returns: SqlType, word: &str) -> bool {
    OF_DATES.contains(&name)
        || name == "as_moment" && matches!(returns, SqlType::Date | SqlType::DateTime { .. })
        || name == "extract" && super::functions::intervals::is_of_days(word)
}

/// A compiled regular expression and the longest text it is tried on.
pub(super) struct Compiled {
    pub(super) regex: Regex,
    pub(super) text_max: usize,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.name)
    }
}

impl PartialEq for Call {
    fn eq(&self, other: &Call) -> bool {
        self.name == other.name
            && self.types == other.types
            && self.returns == other.returns
            && self.word == other.word
            && !self.volatile
    }
}

impl Eq for Call {}

impl Hash for Call {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name, &self.types, self.returns, self.word).hash(state);
    }
}

impl Call {
    pub(super) fn new(
        name: &'static str,
        kernel: Kernel,
        types: Vec<SqlType>,
        returns: SqlType,
        word: &'static str,
        watch: &Arc<Watch>,
    ) -> Call {
        let dates = match name {
            "datediff" | "timestampdiff" => 2,
            _ => usize::from(name == "date_add" || is_of_dates(name, returns, word)),
        };
        let watch = Arc::clone(watch);
        Call { name, kernel, types, returns, word, volatile: false, watch, regex: Mutex::default(), dates }
    }

    /// The expression that calls it.
    pub(super) fn on(self, arguments: Vec<Expr>) -> Expr {
        ScalarUDF::new_from_impl(Function { signature: signature(self.volatile), call: Arc::new(self) }).call(arguments)
    }

    /// Its value for constants.
    ///
    /// # Errors
    /// Its own.
    pub(super) fn value(&self, values: &[Val<'_>]) -> Result<Val<'static>, SqlError> {
        if values.iter().zip(&self.types).take(self.dates).any(|(value, kind)| value.is_zero_date(*kind)) {
            let text = "dates with a year, month or day of 0 are not supported";
            return Err(SqlError::new(SqlErrorKind::NotSupported, text));
        }
        (self.kernel)(&Arguments { call: self, values })
    }
}

fn signature(volatile: bool) -> Signature {
    Signature::variadic_any(if volatile { Volatility::Volatile } else { Volatility::Immutable })
}

/// A call as DataFusion has it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    signature: Signature,
    call: Arc<Call>,
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.call.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(self.call.returns.arrow())
    }

    fn coerce_types(&self, types: &[DataType]) -> DataFusionResult<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let call = &*self.call;
        let is_constant =
            !call.volatile && arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { arguments.number_rows };
        let arrays: Vec<(ArrayRef, bool)> = arguments
            .args
            .iter()
            .map(|value| match value {
                ColumnarValue::Array(array) => Ok((Arc::clone(array), false)),
                ColumnarValue::Scalar(value) => Ok((value.to_array()?, true)),
            })
            .collect::<DataFusionResult<_>>()?;
        let repeated = if is_constant || call.volatile { None } else { Repeated::new(&arrays) };
        let firsts = repeated.as_ref().map(|repeated| repeated.firsts.as_slice());
        let mut column = Column::new(call.returns, firsts.map_or(rows, <[_]>::len));
        let mut bytes = 0;
        let mut values: Vec<Val<'_>> = Vec::with_capacity(arrays.len());
        for at in 0..firsts.map_or(rows, <[_]>::len) {
            let (row, times) = firsts.map_or((at, 1), |firsts| firsts[at]);
            values.clear();
            values.extend(
                arrays
                    .iter()
                    .zip(&call.types)
                    .map(|((array, is_constant), kind)| Val::at(array, if *is_constant { 0 } else { row }, *kind)),
            );
            let value = call.value(&values).map_err(external)?;
            if let (SqlType::Decimal { kept, .. }, Some(decimal)) = (call.returns, value.decimal())
                && decimal.rescaled(kept).is_none()
            {
                let text = "decimals of more than 38 digits are not supported";
                return Err(external(SqlError::new(SqlErrorKind::NotSupported, text)));
            }
            let weight = value.weight();
            bytes += weight * times;
            if weight > LENGTH_MAX {
                let text = format!("{}: string or blob too big: more than {LENGTH_MAX} bytes", call.name);
                return Err(external(SqlError::new(SqlErrorKind::Limit, text)));
            }
            if bytes > BATCH_BYTES_MAX {
                let text = format!("{}: {BATCH_BYTES_MAX} bytes in {row} rows take too much of memory", call.name);
                return Err(external(SqlError::new(SqlErrorKind::Limit, text)));
            }
            if at % LOOK == 0 || weight > LENGTH_MAX / 8 {
                call.watch.go_on().map_err(external)?;
            }
            column.push(&value);
        }
        let mut array = call.watch.memory.reserved(column.finish())?;
        if let Some(repeated) = repeated {
            array = take(&array, &UInt32Array::from(repeated.places), None)?;
        }
        if is_constant {
            return Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&array, 0)?));
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// The different texts of the only argument that is not the same in all rows: a function has one value for each text.
struct Repeated {
    /// The first row with each, and the number of rows.
    firsts: Vec<(usize, usize)>,
    /// The place of each row's text among these.
    places: Vec<u32>,
}

impl Repeated {
    /// Rows after which texts must have been repeated.
    const TRIED: usize = 256;

    /// `None` where texts are seldom repeated, and for other arguments.
    fn new(arguments: &[(ArrayRef, bool)]) -> Option<Repeated> {
        let mut varying = arguments.iter().filter(|(_, is_constant)| !is_constant);
        let (Some((array, _)), None) = (varying.next(), varying.next()) else { return None };
        let texts = array.as_any().downcast_ref::<StringArray>()?;
        let mut known: HashMap<Option<&str>, u32> = HashMap::default();
        let mut firsts: Vec<(usize, usize)> = Vec::new();
        let mut places = Vec::with_capacity(texts.len());
        for (row, text) in texts.iter().enumerate() {
            let place = *known.entry(text).or_insert_with(|| {
                firsts.push((row, 0));
                (firsts.len() - 1) as u32
            });
            firsts[place as usize].1 += 1;
            places.push(place);
            if row + 1 == Self::TRIED && firsts.len() > Self::TRIED / 4 {
                return None;
            }
        }
        Some(Repeated { firsts, places })
    }
}

/// An error on its way through DataFusion.
pub(super) fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// A column that is being made.
pub(super) enum Column {
    Logical(BooleanBuilder),
    Integer(Int64Builder),
    Unsigned(UInt64Builder),
    Decimal(Decimal128Builder, u8),
    Double(Float64Builder),
    Text(StringBuilder, SqlType),
    Bytes(BinaryBuilder),
    Date(Date32Builder),
    DateTime(TimestampMicrosecondBuilder),
    Time(DurationMicrosecondBuilder),
}

impl Column {
    pub(super) fn new(kind: SqlType, rows: usize) -> Column {
        match kind {
            SqlType::Null | SqlType::Integer => Column::Integer(Int64Builder::with_capacity(rows)),
            SqlType::Logical => Column::Logical(BooleanBuilder::with_capacity(rows)),
            SqlType::Unsigned => Column::Unsigned(UInt64Builder::with_capacity(rows)),
            SqlType::Decimal { kept, .. } => {
                let builder = Decimal128Builder::with_capacity(rows);
                Column::Decimal(builder.with_data_type(DataType::Decimal128(PRECISION, kept as i8)), kept)
            }
            SqlType::Double { .. } => Column::Double(Float64Builder::with_capacity(rows)),
            SqlType::Text { .. } => Column::Text(StringBuilder::new(), kind),
            SqlType::Bytes => Column::Bytes(BinaryBuilder::new()),
            SqlType::Date => Column::Date(Date32Builder::with_capacity(rows)),
            SqlType::DateTime { .. } => Column::DateTime(TimestampMicrosecondBuilder::with_capacity(rows)),
            SqlType::Time { .. } => Column::Time(DurationMicrosecondBuilder::with_capacity(rows)),
        }
    }

    pub(super) fn push(&mut self, value: &Val<'_>) {
        let is_null = *value == Val::Null;
        match self {
            Column::Logical(builder) => builder.append_option(value.truth()),
            Column::Integer(builder) => builder.append_option((!is_null).then(|| value.integer())),
            Column::Unsigned(builder) => builder.append_option((!is_null).then(|| value.unsigned())),
            Column::Decimal(builder, kept) => {
                builder.append_option(value.decimal().and_then(|value| value.rescaled(*kept)).map(|value| value.digits))
            }
            Column::Double(builder) => builder.append_option((!is_null).then(|| value.real())),
            Column::Text(builder, kind) => builder.append_option(value.text(*kind)),
            Column::Bytes(builder) => builder.append_option(value.bytes()),
            Column::Date(builder) => builder.append_option(match value {
                Val::Date(days) => i32::try_from(*days).ok(),
                _ => None,
            }),
            Column::DateTime(builder) => builder.append_option(match value {
                Val::DateTime(micros) => Some(*micros),
                _ => None,
            }),
            Column::Time(builder) => builder.append_option(match value {
                Val::Time(micros) => Some(*micros),
                _ => None,
            }),
        }
    }

    pub(super) fn finish(mut self) -> ArrayRef {
        match &mut self {
            Column::Logical(builder) => Arc::new(builder.finish()),
            Column::Integer(builder) => Arc::new(builder.finish()),
            Column::Unsigned(builder) => Arc::new(builder.finish()),
            Column::Decimal(builder, _) => Arc::new(builder.finish()),
            Column::Double(builder) => Arc::new(builder.finish()),
            Column::Text(builder, _) => Arc::new(builder.finish()),
            Column::Bytes(builder) => Arc::new(builder.finish()),
            Column::Date(builder) => Arc::new(builder.finish()),
            Column::DateTime(builder) => Arc::new(builder.finish()),
            Column::Time(builder) => Arc::new(builder.finish()),
        }
    }
}

/// The arguments of a call in one row.
pub(super) struct Arguments<'a> {
    pub(super) call: &'a Call,
    pub(super) values: &'a [Val<'a>],
}

impl<'a> Arguments<'a> {
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn any_null(&self) -> bool {
        self.values.contains(&Val::Null)
    }

    pub(super) fn value(&self, index: usize) -> &Val<'a> {
        self.values.get(index).unwrap_or(&Val::Null)
    }

    pub(super) fn kind(&self, index: usize) -> SqlType {
        self.call.types.get(index).copied().unwrap_or(SqlType::Null)
    }

    pub(super) fn text(&self, index: usize) -> Option<Cow<'_, str>> {
        self.value(index).text(self.kind(index))
    }

    /// A value as the bytes of its text.
    pub(super) fn bytes(&self, index: usize) -> Option<Cow<'_, [u8]>> {
        match self.value(index) {
            Val::Bytes(bytes) => Some(Cow::Borrowed(bytes)),
            _ => Some(match self.text(index)? {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            }),
        }
    }

    pub(super) fn integer(&self, index: usize) -> Option<i64> {
        let value = self.value(index);
        (*value != Val::Null).then(|| value.integer())
    }

    pub(super) fn real(&self, index: usize) -> Option<f64> {
        let value = self.value(index);
        (*value != Val::Null).then(|| value.real())
    }

    pub(super) fn decimal(&self, index: usize) -> Option<Decimal> {
        self.value(index).decimal()
    }

    pub(super) fn moment(&self, index: usize) -> Option<i64> {
        self.value(index).moment()
    }

    pub(super) fn time(&self, index: usize) -> Option<i64> {
        self.value(index).time()
    }

    /// The collation in which its texts compare.
    pub(super) fn collation(&self) -> Collation {
        match super::types::text_of(&self.call.types) {
            Ok(SqlType::Text { collation, .. }) => collation,
            _ => Collation::Binary,
        }
    }

    /// Goes on unless the statement must end.
    ///
    /// # Errors
    /// Why it must.
    pub(super) fn go_on(&self) -> Result<(), SqlError> {
        self.call.watch.go_on()
    }

    /// Room for a text of so many bytes.
    ///
    /// # Errors
    /// It is too long.
    pub(super) fn room(&self, bytes: usize) -> Result<(), SqlError> {
        match bytes > LENGTH_MAX {
            true => {
                let text = format!("{}: string or blob too big: more than {LENGTH_MAX} bytes", self.call.name);
                Err(SqlError::new(SqlErrorKind::Limit, text))
            }
            false => Ok(()),
        }
    }

    /// A number that its type can't have.
    pub(super) fn out_of_range(&self, what: &str) -> SqlError {
        let text = format!("{what} value is out of range in '{}'", self.call.name);
        SqlError::new(SqlErrorKind::OutOfRange, text)
    }

    /// A regular expression, compiled once.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn regex(
        &self,
        pattern: &str,
        compile: impl FnOnce(&str) -> Result<Compiled, SqlError>,
    ) -> Result<Arc<Compiled>, SqlError> {
        let mut kept = self.call.regex.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((own, compiled)) = &*kept
            && own == pattern
        {
            return Ok(Arc::clone(compiled));
        }
        let compiled = Arc::new(compile(pattern)?);
        *kept = Some((pattern.to_owned(), Arc::clone(&compiled)));
        Ok(compiled)
    }
}
