//! `UNION` reads its parts one after the other: its rows come in the order of the statement, and none of its work leaves
//! the thread of the statement for one that the network needs.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures_util::{StreamExt, stream};

/// The rule that replaces DataFusion's unions, which interleave their parts.
#[derive(Debug)]
pub(super) struct UnionsInSequence;

impl PhysicalOptimizerRule for UnionsInSequence {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = plan.transform_up(|node| {
            Ok(match node.downcast_ref::<UnionExec>() {
                Some(union) => Transformed::yes(Arc::new(Sequence::new(union.inputs().clone(), union)?) as _),
                None => Transformed::no(node),
            })
        });
        replaced.map(|replaced| replaced.data)
    }

    fn name(&self) -> &str {
        "unions_in_sequence"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Plans with the same columns, one after the other.
#[derive(Debug)]
struct Sequence {
    parts: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

impl Sequence {
    fn new(parts: Vec<Arc<dyn ExecutionPlan>>, union: &dyn ExecutionPlan) -> Result<Sequence> {
        let mut equal = union.properties().equivalence_properties().clone();
        equal.clear_orderings();
        equal.clear_per_partition_constants();
        let properties = PlanProperties::new(
            equal,
            Partitioning::UnknownPartitioning(1),
            union.properties().emission_type,
            union.properties().boundedness,
        );
        Ok(Sequence { parts, properties: Arc::new(properties) })
    }
}

impl DisplayAs for Sequence {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sequence")
    }
}

impl ExecutionPlan for Sequence {
    fn name(&self) -> &'static str {
        "Sequence"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.parts.iter().collect()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Sequence { parts: children, properties: Arc::clone(&self.properties) }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return Err(DataFusionError::Internal(format!("a sequence has no part {partition} to be read alone")));
        }
        let schema = self.schema();
        let failed = Arc::clone(&schema);
        let parts = self.parts.clone().into_iter().flat_map(|part| {
            (0..part.output_partitioning().partition_count()).map(move |partition| (Arc::clone(&part), partition))
        });
        let parts: Vec<_> = parts.collect();
        let rows = stream::iter(parts).flat_map(move |(part, partition)| {
            part.execute(partition, Arc::clone(&context)).unwrap_or_else(|error| {
                let failure = stream::once(std::future::ready(Err(error)));
                Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&failed), failure))
            })
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
