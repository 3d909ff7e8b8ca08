//! Variables that the columns of a `SELECT` assign (`@name := value`) and that columns to their right read.
//!
//! A read means the expression that was assigned in the same row, so rows are computed independently of each other.
//! A read that would need the value of another row is refused. After a `CASE` or `IF` a variable is the same choice
//! among the values that its branches assigned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion, TreeNodeVisitor};
use datafusion::logical_expr::Expr;
use sqlparser::ast::Expr as AstExpr;

use super::{Binder, Bound, Place, unsupported};
use crate::mysql::{SqlError, SqlErrorKind};

/// Parts of expressions that reads of variables, and comparisons of these with lists, may repeat in a statement.
const PARTS_MAX: usize = 20_000;
/// Levels of an expression that is assigned.
const LEVELS_MAX: usize = 100;

/// Whether assignments may stand in a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Assignments {
    /// Each row assigns there, in the order of the columns.
    Taken,
    /// A row may not come there, but has assigned before.
    Read,
    /// Neither can be said.
    Refused,
}

impl Assignments {
    /// The same in a part that is not evaluated for each row.
    pub(super) fn inside(self) -> Assignments {
        if self == Assignments::Taken { Assignments::Read } else { self }
    }
}

/// The values of variables behind a part of a row, by name in lower case.
pub(super) type VariableValues = BTreeMap<String, Arc<Bound>>;

/// The variables of a statement.
#[derive(Default)]
pub(super) struct RowVariables {
    /// The values at this point of a row.
    assigned: VariableValues,
    /// The names that were assigned anywhere before.
    names: BTreeSet<String>,
    /// The names read from the session.
    read: BTreeSet<String>,
    /// Parts of expressions repeated so far.
    parts: usize,
}

impl Binder<'_> {
    /// `@name := value`, whose value it is.
    pub(super) fn assign(&mut self, left: &AstExpr, right: &AstExpr, place: &Place<'_>) -> Result<Bound, SqlError> {
        let name = match left {
            AstExpr::Identifier(ident) if ident.quote_style.is_none() => ident.value.strip_prefix('@'),
            _ => None,
        };
        let Some(name) = name.filter(|name| !name.starts_with('@')).map(str::to_lowercase) else {
            return Err(SqlError::new(SqlErrorKind::Syntax, "syntax error: `:=` stands behind a variable `@name`"));
        };
        if place.assignments != Assignments::Taken {
            let text = format!("@{name} := … outside of the columns of the outermost SELECT, CASE and IF in them");
            return Err(unsupported(text));
        }
        let bound = self.expression(right, place)?;
        if self.variables.read.contains(&name) {
            return Err(unsupported(format!("@{name}, which a row reads before it assigns it,")));
        }
        let (_, levels) = measured(&bound.expr);
        if levels > LEVELS_MAX {
            let text = format!("the value of @{name} has more than {LEVELS_MAX} levels of expressions in each other");
            return Err(SqlError::new(SqlErrorKind::Limit, text));
        }
        self.variables.names.insert(name.clone());
        if is_repeatable(&bound.expr) {
            self.variables.assigned.insert(name, Arc::new(bound.clone()));
        } else {
            self.variables.assigned.remove(&name);
        }
        Ok(bound)
    }

    /// The value that a row has assigned to a variable; `None` if it is the session's.
    pub(super) fn assigned(&mut self, name: &str, place: &Place<'_>) -> Result<Option<Bound>, SqlError> {
        let name = name.to_lowercase();
        if !self.variables.names.contains(&name) {
            self.variables.read.insert(name);
            return Ok(None);
        }
        match self.variables.assigned.get(&name).map(Arc::clone) {
            Some(bound) if place.assignments != Assignments::Refused => {
                self.repeat(&bound, 1)?;
                Ok(Some(Bound::clone(&bound)))
            }
            _ => Err(unsupported(format!("@{name} where not each row has assigned it before"))),
        }
    }

    /// Counts the parts of an expression that is repeated.
    pub(super) fn repeat(&mut self, bound: &Bound, times: usize) -> Result<(), SqlError> {
        if self.variables.names.is_empty() {
            return Ok(());
        }
        let (parts, _) = measured(&bound.expr);
        self.variables.parts = self.variables.parts.saturating_add(parts.saturating_mul(times));
        if self.variables.parts > PARTS_MAX {
            let text = format!("values of @variables would be repeated as more than {PARTS_MAX} parts of expressions");
            return Err(SqlError::new(SqlErrorKind::Limit, text));
        }
        Ok(())
    }

    /// A branch of a row: its value and the variables behind it. The next branch begins where this one did.
    pub(super) fn branch(&mut self, expr: &AstExpr, place: &Place<'_>) -> Result<(Bound, VariableValues), SqlError> {
        let before = self.variables.assigned.clone();
        let bound = self.expression(expr, place)?;
        Ok((bound, std::mem::replace(&mut self.variables.assigned, before)))
    }

    /// Joins branches: a variable has the value of the first branch whose condition is true.
    pub(super) fn join_branches(
        &mut self,
        branches: Vec<(Expr, VariableValues)>,
        otherwise: Option<VariableValues>,
    ) -> Result<(), SqlError> {
        let otherwise = otherwise.unwrap_or_else(|| self.variables.assigned.clone());
        let mut joined = VariableValues::new();
        for (name, last) in otherwise {
            let values: Option<Vec<_>> = branches.iter().map(|(_, assigned)| assigned.get(&name)).collect();
            let Some(values) = values else { continue };
            if values.iter().all(|value| Arc::ptr_eq(value, &last)) {
                joined.insert(name, last);
                continue;
            }
            let conditions = branches.iter().map(|(condition, _)| condition.clone());
            let cases: Vec<_> = conditions.zip(values.into_iter().map(|value| Bound::clone(value))).collect();
            joined.insert(name, Arc::new(self.cases(&cases, Some(&last))?));
        }
        self.variables.assigned = joined;
        Ok(())
    }

    /// The variables that the statement assigns.
    pub(in super::super) fn assigned_names(&mut self) -> Vec<String> {
        std::mem::take(&mut self.variables.names).into_iter().collect()
    }

    /// Refuses assignments in a `SELECT` whose columns are not computed from one row each.
    pub(super) fn refuse_assignments(&self) -> Result<(), SqlError> {
        match self.variables.names.first() {
            Some(name) => Err(unsupported(format!("@{name} := … with groups, windows or DISTINCT"))),
            None => Ok(()),
        }
    }
}

/// Whether an expression has the same value wherever it stands in a row, and no plan of its own.
fn is_repeatable(expr: &Expr) -> bool {
    let has_plan = |expr: &Expr| {
        Ok(matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)))
    };
    !expr.is_volatile() && !expr.exists(has_plan).unwrap_or(true)
}

/// The parts and levels of an expression.
fn measured(expr: &Expr) -> (usize, usize) {
    struct Measure {
        parts: usize,
        level: usize,
        levels: usize,
    }
    impl<'n> TreeNodeVisitor<'n> for Measure {
        type Node = Expr;

        fn f_down(&mut self, _: &'n Expr) -> datafusion::common::Result<TreeNodeRecursion> {
            self.parts += 1;
            self.level += 1;
            self.levels = self.levels.max(self.level);
            Ok(TreeNodeRecursion::Continue)
        }

        fn f_up(&mut self, _: &'n Expr) -> datafusion::common::Result<TreeNodeRecursion> {
            self.level = self.level.saturating_sub(1);
            Ok(TreeNodeRecursion::Continue)
        }
    }
    let mut measure = Measure { parts: 0, level: 0, levels: 0 };
    // The visitor itself never fails.
    match expr.visit(&mut measure) {
        Ok(_) => (measure.parts, measure.levels),
        Err(_) => (usize::MAX, usize::MAX),
    }
}
