//! Schemas of the types that requests and answers are made of.

use schemars::{JsonSchema, Schema, SchemaGenerator};

/// Makes a type's schema, and those of the types in it.
pub(crate) type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

/// The maker of a type's schema.
pub(crate) const fn schema_of<T: JsonSchema>() -> MakeSchema {
    |generator| generator.subschema_for::<T>()
}
