//! What one statement may take before it runs and while it does: the size of its expressions, its constants, and the
//! memory of values that its functions make.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{Array, ArrayRef, BinaryArray, StringArray};
use datafusion::arrow::buffer::Buffer;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::logical_expr::Expr;

use crate::mysql::{SqlError, SqlErrorKind};

/// Levels of an expression at most: whatever walks one recurses.
pub(super) const DEPTH_MAX: usize = 200;
/// Levels of `IN` in each other at most: planning asks each level twice whether it may be NULL.
const LISTS_MAX: usize = 10;
/// Parts of all expressions of a statement at most: names, constants, operators and calls.
pub(super) const PARTS_MAX: usize = 20_000;
/// Bytes of a statement's constants at most, those that are computed from others among them.
pub(super) const CONSTANTS_MAX: usize = 32 << 20;
/// Copies of a constant that planning makes at most.
const COPIES: usize = 8;
/// A constant of this many bytes or less is kept without a reservation.
const SMALL: usize = 1 << 10;
/// Bytes of a column from which on they are reserved.
const COLUMN_SMALL: usize = 64 << 10;

/// The memory that one statement has reserved from what all of them share.
pub(super) struct StatementMemory {
    pool: Arc<dyn MemoryPool>,
    constants: Mutex<MemoryReservation>,
}

impl StatementMemory {
    /// Nothing is reserved yet.
    pub(super) fn new(pool: &Arc<dyn MemoryPool>) -> StatementMemory {
        let constants = MemoryConsumer::new("constants").register(pool);
        StatementMemory { pool: Arc::clone(pool), constants: Mutex::new(constants) }
    }

    /// Counts a constant that is kept until the statement ends.
    ///
    /// # Errors
    /// [`SqlErrorKind::Limit`] beyond [`CONSTANTS_MAX`], or where other statements have the memory.
    pub(super) fn keep_constant(&self, bytes: usize) -> Result<(), SqlError> {
        if bytes <= SMALL {
            return Ok(());
        }
        let constants = self.constants.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = bytes.saturating_mul(COPIES);
        if constants.size().saturating_add(wanted) > CONSTANTS_MAX * COPIES {
            let text = format!("the constants of the statement take more than {} MiB", CONSTANTS_MAX >> 20);
            return Err(SqlError::new(SqlErrorKind::Limit, text));
        }
        constants.try_grow(wanted).map_err(|_| {
            let text = "other statements have the memory that the constants of this one need; try again in a moment";
            SqlError::new(SqlErrorKind::Limit, text)
        })
    }

    /// The same column, whose bytes are reserved for as long as anything holds it.
    ///
    /// # Errors
    /// The pool's, which [`super::run::from_datafusion`] words.
    pub(super) fn reserved(&self, array: ArrayRef) -> datafusion::common::Result<ArrayRef> {
        if let Some(texts) = array.as_any().downcast_ref::<StringArray>() {
            let (offsets, values, nulls) = texts.clone().into_parts();
            drop(array);
            return Ok(Arc::new(StringArray::try_new(offsets, self.held(values)?, nulls)?));
        }
        if let Some(bytes) = array.as_any().downcast_ref::<BinaryArray>() {
            let (offsets, values, nulls) = bytes.clone().into_parts();
            drop(array);
            return Ok(Arc::new(BinaryArray::try_new(offsets, self.held(values)?, nulls)?));
        }
        Ok(array)
    }

    fn held(&self, values: Buffer) -> datafusion::common::Result<Buffer> {
        if values.capacity() < COLUMN_SMALL {
            return Ok(values);
        }
        let reservation = MemoryConsumer::new("functions").register(&self.pool);
        reservation.try_grow(values.capacity())?;
        Ok(bytes::Bytes::from_owner(ReservedBytes { values, _reservation: reservation }).into())
    }
}

/// Bytes and their reservation.
struct ReservedBytes {
    values: Buffer,
    _reservation: MemoryReservation,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.values
    }
}

/// The number of parts of an expression.
///
/// # Errors
/// [`SqlErrorKind::Limit`] beyond [`DEPTH_MAX`] or [`PARTS_MAX`].
pub(super) fn parts(expr: &Expr) -> Result<usize, SqlError> {
    let mut parts = 0;
    count(expr, (1, 0), &mut parts)?;
    Ok(parts)
}

/// Counts the parts of an expression at a level, within so many `IN`.
fn count(expr: &Expr, (depth, lists): (usize, usize), parts: &mut usize) -> Result<(), SqlError> {
    *parts += 1;
    let lists = lists + usize::from(matches!(expr, Expr::InList(_)));
    if lists > LISTS_MAX {
        let text = format!("Expression tree is too large: more than {LISTS_MAX} levels of IN");
        return Err(SqlError::new(SqlErrorKind::Limit, text));
    }
    if depth > DEPTH_MAX {
        let text = format!("Expression tree is too large: more than {DEPTH_MAX} levels");
        return Err(SqlError::new(SqlErrorKind::Limit, text));
    }
    check_parts(*parts)?;
    let mut failure = None;
    // The closure fails as ours, which DataFusion's walk has no place for.
    let walked = expr.apply_children(|child| {
        if let Err(error) = count(child, (depth + 1, lists), parts) {
            failure = Some(error);
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    match (failure, walked) {
        (Some(error), _) => Err(error),
        (None, Ok(_)) => Ok(()),
        (None, Err(error)) => Err(SqlError::new(SqlErrorKind::Other, error.strip_backtrace())),
    }
}

/// # Errors
/// More than [`PARTS_MAX`].
pub(super) fn check_parts(parts: usize) -> Result<(), SqlError> {
    if parts > PARTS_MAX {
        let text = format!("Expression tree is too large: more than {PARTS_MAX} names, constants and operators");
        return Err(SqlError::new(SqlErrorKind::Limit, text));
    }
    Ok(())
}
