//! Large constants in the rows of tables: a batch has a copy for each of its rows, so that such a projection reads few
//! rows at a time.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CaseExpr, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::OPERATOR_ROWS;

/// Bytes of the constants of a batch, about.
const BATCH_BYTES: usize = 4 << 20;

/// The rule that reads few rows at a time below projections with large constants.
#[derive(Debug)]
pub(super) struct LargeRowsInPieces;

impl PhysicalOptimizerRule for LargeRowsInPieces {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let pieces = plan.transform_up(|node| {
            let Some(projection) = node.downcast_ref::<ProjectionExec>() else { return Ok(Transformed::no(node)) };
            let bytes: usize = projection.expr().iter().map(|one| constant_bytes(&one.expr)).sum();
            if bytes <= BATCH_BYTES / OPERATOR_ROWS {
                return Ok(Transformed::no(node));
            }
            let (input, rows) = (Arc::clone(projection.input()), (BATCH_BYTES / bytes).max(1));
            let pieces = Arc::new(Pieces { input, rows });
            Ok(Transformed::yes(Arc::new(ProjectionExec::try_new(projection.expr().to_vec(), pieces)?) as _))
        });
        pieces.map(|pieces| pieces.data)
    }

    fn name(&self) -> &str {
        "large_rows_in_pieces"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The bytes of constants that stand in each row: the expression itself, and what it may choose. Arguments of functions
/// and comparisons are there once.
fn constant_bytes(expr: &Arc<dyn PhysicalExpr>) -> usize {
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return match literal.value() {
            ScalarValue::Utf8(Some(text)) => text.len(),
            ScalarValue::Binary(Some(bytes)) => bytes.len(),
            _ => 0,
        };
    }
    let is_choice = expr.downcast_ref::<CaseExpr>().is_some();
    let children = expr.children().into_iter().filter(|child| is_choice || child.downcast_ref::<Literal>().is_none());
    children.map(constant_bytes).sum()
}

/// The rows of a plan in batches of a few.
#[derive(Debug)]
struct Pieces {
    input: Arc<dyn ExecutionPlan>,
    rows: usize,
}

impl DisplayAs for Pieces {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pieces: rows={}", self.rows)
    }
}

impl ExecutionPlan for Pieces {
    fn name(&self) -> &'static str {
        "Pieces"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Arc::new(Pieces { input, rows: self.rows }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (rows, schema) = (self.rows, self.schema());
        let pieces = self.input.execute(partition, context)?.map_ok(move |batch| {
            let starts = (0..batch.num_rows()).step_by(rows);
            let pieces: Vec<_> =
                starts.map(|start| Ok(batch.slice(start, rows.min(batch.num_rows() - start)))).collect();
            stream::iter(pieces)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, pieces.try_flatten().boxed())))
    }
}
