//! Times as the API writes them.

use std::borrow::Cow;

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

/// A time as RFC 3339 in UTC, to the millisecond.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct Time(String);

impl Time {
    /// Of UTC nanoseconds.
    pub(crate) fn from_nanos(nanos: i64) -> Self {
        Self(rfc3339(nanos))
    }
}

impl From<Timestamp> for Time {
    fn from(time: Timestamp) -> Self {
        Self(format!("{time:.3}"))
    }
}

impl JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

/// UTC nanoseconds as RFC 3339 to the millisecond.
pub(crate) fn rfc3339(nanos: i64) -> String {
    Timestamp::from_nanosecond(i128::from(nanos)).map(|time| format!("{time:.3}")).unwrap_or_default()
}
