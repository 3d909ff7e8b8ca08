//! Joins give way between batches: a join of large tables that no other operator interrupts would see neither `KILL` nor
//! the statement's time.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;

/// The rule that wraps them.
#[derive(Debug)]
pub(super) struct JoinsGiveWay;

impl PhysicalOptimizerRule for JoinsGiveWay {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let wrapped = plan.transform_up(|node| {
            Ok(match node.name().contains("Join") {
                true => Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(node),
            })
        });
        wrapped.map(|wrapped| wrapped.data)
    }

    fn name(&self) -> &str {
        "joins_give_way"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
